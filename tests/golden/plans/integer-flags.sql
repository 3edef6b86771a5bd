SELECT
  "name",
  CASE WHEN "stock" THEN 'here' ELSE 'gone' END AS "there",
  NOT "stock" OR "stock" = TRUE AS "flag"
FROM "inventory"
WHERE
  "stock" = TRUE
  AND ("stock" AND "product_id" > 0)
LIMIT 200
