SELECT
  "status" AS "state",
  COUNT(*) AS "n"
FROM "orders"
GROUP BY "status"
ORDER BY "state" ASC
LIMIT 200
