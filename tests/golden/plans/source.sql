SELECT
  AVG("spent") AS "mean_spent",
  COUNT(*) AS "customers"
FROM (
SELECT
  "customer_id",
  SUM("total") AS "spent"
FROM "orders"
GROUP BY "customer_id"
) AS "source"
WHERE
  "spent" > 100
LIMIT 1
