SELECT *
FROM "orders"
WHERE
  "status" NOT IN ('returned', 'cancelled')
  AND "status" NOT LIKE '%\%%' ESCAPE '\'
LIMIT 200
