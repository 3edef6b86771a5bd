SELECT
  CAST(date_trunc('month', "order_date") AS DATE) AS "month",
  SUM("total") AS "revenue",
  SUM("total") - lag(SUM("total")) OVER (ORDER BY CAST(date_trunc('month', "order_date") AS DATE)) AS "change",
  SUM(SUM("total")) OVER (ORDER BY CAST(date_trunc('month', "order_date") AS DATE)) AS "so_far"
FROM "orders"
GROUP BY CAST(date_trunc('month', "order_date") AS DATE)
ORDER BY "month" ASC
LIMIT 200
