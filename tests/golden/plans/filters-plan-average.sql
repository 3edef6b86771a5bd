SELECT
  "order_id",
  "total"
FROM "orders"
WHERE
  "total" > (
SELECT
  AVG("total") AS "mean"
FROM "orders"
)
LIMIT 200
