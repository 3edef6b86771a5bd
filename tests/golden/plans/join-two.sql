SELECT
  "inventory"."name" AS "product",
  SUM("price" * "quantity") AS "revenue",
  COUNT(DISTINCT "orders"."order_id") AS "orders"
FROM "orders"
JOIN "order_items" ON "orders"."order_id" = "order_items"."order_id"
LEFT JOIN "inventory" ON "order_items"."product_id" = "inventory"."product_id"
GROUP BY "inventory"."name"
ORDER BY "revenue" DESC
LIMIT 10
