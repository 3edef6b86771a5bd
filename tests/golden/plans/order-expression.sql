SELECT
  "order_id",
  "status"
FROM "orders"
ORDER BY abs("total" - 100) ASC, "customer_id" DESC NULLS FIRST, CASE WHEN "status" = 'completed' THEN 0 ELSE 1 END ASC
LIMIT 200
