SELECT
  "order_id",
  "total" AS "amount"
FROM "orders"
LIMIT 10
