SELECT *
FROM "orders"
WHERE
  "status" = 'it''s ''fine'''
LIMIT 200
