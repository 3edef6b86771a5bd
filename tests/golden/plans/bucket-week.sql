SELECT
  CAST(date_trunc('week', "order_date") AS DATE) AS "week",
  SUM("total") AS "revenue"
FROM "orders"
GROUP BY CAST(date_trunc('week', "order_date") AS DATE)
ORDER BY "week" ASC
LIMIT 200
