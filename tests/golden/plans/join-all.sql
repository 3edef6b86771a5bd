SELECT *
FROM "order_items"
JOIN "inventory" ON "order_items"."product_id" = "inventory"."product_id"
LIMIT 5
