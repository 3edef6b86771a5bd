SELECT
  "total",
  "order_id" AS "id"
FROM "orders"
WHERE
  "status" = 'completed'
ORDER BY "total" ASC
LIMIT 200
