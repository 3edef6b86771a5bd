SELECT
  "order_id",
  "total"
FROM "orders"
ORDER BY "total" DESC
LIMIT 3
