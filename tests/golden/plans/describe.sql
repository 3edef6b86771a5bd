SELECT
  column_name,
  column_type
FROM (DESCRIBE "orders")
LIMIT 200
