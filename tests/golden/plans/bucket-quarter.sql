SELECT
  CAST(date_trunc('quarter', "order_date") AS DATE) AS "quarter",
  SUM("total") AS "revenue"
FROM "orders"
GROUP BY CAST(date_trunc('quarter', "order_date") AS DATE)
ORDER BY "quarter" ASC
LIMIT 200
