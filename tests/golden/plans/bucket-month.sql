SELECT
  CAST(date_trunc('month', "order_date") AS DATE) AS "month",
  SUM("total") AS "revenue"
FROM "orders"
GROUP BY CAST(date_trunc('month', "order_date") AS DATE)
ORDER BY "month" ASC
LIMIT 200
