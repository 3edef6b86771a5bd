SELECT *
FROM "orders"
WHERE
  "status" IN ('completed', NULL)
LIMIT 200
