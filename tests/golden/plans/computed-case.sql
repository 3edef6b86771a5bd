SELECT
  CASE WHEN "total" >= 100 THEN 'large' WHEN "total" >= 10 THEN 'medium' ELSE 'small' END AS "size",
  COUNT(*) AS "n"
FROM "orders"
GROUP BY CASE WHEN "total" >= 100 THEN 'large' WHEN "total" >= 10 THEN 'medium' ELSE 'small' END
ORDER BY "n" DESC, "size" ASC
LIMIT 200
