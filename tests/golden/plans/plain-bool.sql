SELECT *
FROM "orders"
WHERE
  "returned" = TRUE
LIMIT 200
