SELECT
  "status",
  "returned",
  (100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY "status")) AS "percentage"
FROM "orders"
GROUP BY "status", "returned"
LIMIT 200
