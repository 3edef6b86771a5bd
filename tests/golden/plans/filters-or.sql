SELECT *
FROM "orders"
WHERE
  ("status" = 'returned' OR "total" > 500)
  AND "order_date" >= '2025-08-01'
LIMIT 200
