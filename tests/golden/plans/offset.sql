SELECT
  "order_id"
FROM "orders"
ORDER BY "order_id" ASC
LIMIT 20 OFFSET 40
