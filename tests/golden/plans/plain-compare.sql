SELECT
  "order_id"
FROM "orders"
WHERE
  "total" > 100
  AND "total" <= 250.5
  AND "status" = 'completed'
  AND "order_id" != 7
  AND "customer_id" < 50
  AND "customer_id" >= 1
LIMIT 200
