SELECT
  "total"
FROM "orders"
ORDER BY "total" ASC
LIMIT 200
