SELECT *
FROM "orders"
WHERE
  "status" LIKE '%turn%' ESCAPE '\'
  AND "status" LIKE 're%' ESCAPE '\'
  AND "status" LIKE '%ed' ESCAPE '\'
LIMIT 200
