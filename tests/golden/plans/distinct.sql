SELECT DISTINCT
  "status",
  "returned"
FROM "orders"
ORDER BY "status" ASC
LIMIT 200
