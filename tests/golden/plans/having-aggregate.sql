SELECT
  "category"
FROM "order_items"
GROUP BY "category"
HAVING
  COUNT(*) >= 2
  AND SUM("price") / COUNT(*) < 500
  AND ("category" != 'Toys' OR "category" IS NULL)
LIMIT 200
