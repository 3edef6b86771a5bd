SELECT
  "total" - "total" % 100 AS "step",
  COUNT(*) AS "n"
FROM "orders"
GROUP BY "total" - "total" % 100
ORDER BY "step" ASC
LIMIT 200
