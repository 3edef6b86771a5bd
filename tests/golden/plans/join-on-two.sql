SELECT
  "order_items"."category",
  COUNT(*) AS "n",
  SUM("stock") AS "stock"
FROM "order_items"
LEFT JOIN "inventory" ON "order_items"."product_id" = "inventory"."product_id" AND "inventory"."category" = "order_items"."category"
GROUP BY "order_items"."category"
ORDER BY "order_items"."category" ASC
LIMIT 200
