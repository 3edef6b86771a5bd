SELECT
  COUNT("order_id") AS "n",
  SUM("total") AS "revenue"
FROM "orders"
LIMIT 200
