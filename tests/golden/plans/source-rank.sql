SELECT
  "category",
  "product",
  "units"
FROM (
SELECT
  "inventory"."category" AS "category",
  "inventory"."name" AS "product",
  SUM("quantity") AS "units",
  rank() OVER (PARTITION BY "inventory"."category" ORDER BY SUM("quantity") DESC NULLS LAST) AS "place"
FROM "order_items"
JOIN "inventory" ON "order_items"."product_id" = "inventory"."product_id"
GROUP BY "inventory"."category", "inventory"."name"
) AS "source"
WHERE
  "place" <= 2
ORDER BY "category" ASC, "place" ASC
LIMIT 200
