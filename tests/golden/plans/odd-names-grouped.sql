SELECT
  CAST(date_trunc('month', "order date") AS DATE) AS "order date_month",
  SUM("amount") AS "amount"
FROM "odd names"
GROUP BY CAST(date_trunc('month', "order date") AS DATE)
ORDER BY "order date_month" ASC
LIMIT 200
