SELECT
  CAST(date_trunc('year', "order_date") AS DATE) AS "year",
  SUM("total") AS "revenue"
FROM "orders"
GROUP BY CAST(date_trunc('year', "order_date") AS DATE)
ORDER BY "year" ASC
LIMIT 200
