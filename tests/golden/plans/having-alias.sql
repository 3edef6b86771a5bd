SELECT
  "category",
  SUM("quantity") AS "units"
FROM "order_items"
GROUP BY "category"
HAVING
  SUM("quantity") > 3
LIMIT 200
