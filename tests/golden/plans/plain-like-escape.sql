SELECT *
FROM "orders"
WHERE
  "status" LIKE '%50\%\_off\\it''s%' ESCAPE '\'
LIMIT 200
