SELECT *
FROM "orders"
WHERE
  "status" IN ('completed', 'returned')
LIMIT 200
