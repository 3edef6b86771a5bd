SELECT
  CAST(date_trunc('day', "order_date") AS DATE) AS "day",
  SUM("total") AS "revenue"
FROM "orders"
GROUP BY CAST(date_trunc('day', "order_date") AS DATE)
ORDER BY "day" ASC
LIMIT 200
