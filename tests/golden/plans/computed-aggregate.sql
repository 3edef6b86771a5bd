SELECT
  "status",
  100 * SUM(CASE WHEN "returned" THEN 1 ELSE 0 END) / COUNT(*) AS "return_rate",
  MAX("total") - MIN("total") AS "spread",
  COUNT(DISTINCT "customer_id") AS "customers",
  QUANTILE_CONT("total", 0.5) AS "middle"
FROM "orders"
GROUP BY "status"
ORDER BY "return_rate" DESC NULLS LAST
LIMIT 200
