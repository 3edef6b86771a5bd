SELECT *
FROM "orders"
WHERE
  lower("status") = lower('Completed')
  AND lower("status") IN (lower('COMPLETED'), lower('Returned'))
  AND "status" ILIKE '%LET%' ESCAPE '\'
  AND "status" NOT ILIKE '%X\_%' ESCAPE '\'
LIMIT 200
