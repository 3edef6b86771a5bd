SELECT
  "product_id",
  SUM("price" * "quantity" * (1 - "discount")) AS "revenue"
FROM "order_items"
GROUP BY "product_id"
ORDER BY "revenue" DESC
LIMIT 10
