SELECT
  "order_id",
  lead("order_id") OVER () AS "then"
FROM "orders"
WHERE
  "total" > 10
QUALIFY
  lag("status") OVER () = 'returned'
ORDER BY row_number() OVER () DESC
LIMIT 5
