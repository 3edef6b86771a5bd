SELECT
  "item_id",
  "price" * "quantity" * (1 - "discount") AS "net",
  round("price", 1) AS "rounded",
  -(-"price") - -1 + 2 * (3 - 4) % 5 AS "odd"
FROM "order_items"
ORDER BY "net" DESC
LIMIT 200
