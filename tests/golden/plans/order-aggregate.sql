SELECT
  "category"
FROM "order_items"
GROUP BY "category"
ORDER BY SUM("price" * "quantity") DESC NULLS LAST
LIMIT 3
