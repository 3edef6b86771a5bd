SELECT
  "order_id",
  rank() OVER (ORDER BY "total" DESC NULLS LAST) AS "place"
FROM "orders"
ORDER BY "place" ASC
LIMIT 10
