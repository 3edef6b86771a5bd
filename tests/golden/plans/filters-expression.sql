SELECT *
FROM "orders"
WHERE
  ("total" / "customer_id" > 2 OR "returned")
  AND length("status") IN (8, 9)
  AND "total" * 2 BETWEEN 1 AND 1000
LIMIT 200
