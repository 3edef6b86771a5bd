SELECT
  CORR("quantity", "price") AS "correlation"
FROM "order_items"
LIMIT 200
