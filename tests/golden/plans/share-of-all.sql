SELECT
  "category",
  SUM("quantity") AS "units",
  (100.0 * SUM("quantity") / SUM(SUM("quantity")) OVER ()) AS "percentage"
FROM "order_items"
GROUP BY "category"
ORDER BY "percentage" DESC
LIMIT 200
