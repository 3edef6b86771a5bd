SELECT
  "category",
  SUM("quantity") AS "units",
  COUNT(DISTINCT "order_id") AS "orders",
  AVG("price") AS "avg_price",
  MIN("price") AS "cheapest",
  MAX("price") AS "dearest",
  COUNT("item_id") AS "items"
FROM "order_items"
GROUP BY "category"
ORDER BY "units" DESC, "category" ASC
LIMIT 5
