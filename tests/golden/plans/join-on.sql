SELECT
  "orders"."order_id",
  "order_items"."price" AS "price"
FROM "orders"
JOIN "order_items" ON "orders"."order_id" = "order_items"."order_id"
WHERE
  "orders"."total" > 5
  AND "order_items"."quantity" >= 1
ORDER BY "orders"."order_id" ASC, "price" DESC
LIMIT 200
