SELECT
  "name"
FROM "inventory"
WHERE
  "product_id" NOT IN (
SELECT * FROM (
SELECT
  "product_id"
FROM "order_items"
) AS "list"("item")
WHERE "item" IS NOT NULL
)
LIMIT 200
