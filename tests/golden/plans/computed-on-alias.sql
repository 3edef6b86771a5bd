SELECT
  "category",
  SUM("price") AS "revenue",
  COUNT(*) AS "n",
  SUM("price") / COUNT(*) AS "mean",
  round(SUM("price") / COUNT(*), 2) AS "mean_2"
FROM "order_items"
GROUP BY "category"
HAVING
  SUM("price") / COUNT(*) > 0
ORDER BY SUM("price") * 2 - COUNT(*) DESC, "mean_2" ASC
LIMIT 200
