SELECT
  COUNT(*) AS "n"
FROM "orders"
WHERE
  "order_id" IN (
SELECT
  "order_id"
FROM "order_items"
WHERE
  "category" = 'Toys'
)
LIMIT 200
