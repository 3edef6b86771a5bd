SELECT
  CAST(date_trunc('month', "order_date") AS DATE) AS "order_date",
  COUNT(*) AS "n"
FROM "orders"
WHERE
  "order_date" >= '2025-09-01'
GROUP BY CAST(date_trunc('month', "order_date") AS DATE)
ORDER BY "order_date" ASC
LIMIT 200
