SELECT
  "category",
  SUM("quantity") AS "units"
FROM "order_items"
JOIN "orders" ON "order_items"."order_id" = "orders"."order_id"
WHERE
  "status" = 'completed'
GROUP BY "category"
ORDER BY "units" DESC
LIMIT 200
