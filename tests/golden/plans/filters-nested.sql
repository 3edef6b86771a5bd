SELECT
  "order_id"
FROM "orders"
WHERE
  NOT (("status" = 'returned' AND "total" < 10) OR NOT ("customer_id" IN (1, 2, 3)))
  AND ("total" IS NOT NULL)
LIMIT 200
