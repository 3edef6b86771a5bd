SELECT
  CAST(date_trunc('month', "created_at") AS DATE) AS "month",
  COUNT(*) AS "n"
FROM "tickets"
WHERE
  CAST(date_trunc('month', "created_at") AS DATE) BETWEEN '2025-01-01' AND '2025-12-31'
GROUP BY CAST(date_trunc('month', "created_at") AS DATE)
HAVING
  CAST(date_trunc('month', "created_at") AS DATE) > '2025-02-01'
ORDER BY "month" DESC
LIMIT 200
