SELECT
  upper(trim("name")) || ' (' || "category" || ')' AS "label",
  substr(lower("name"), 1, 3) AS "short",
  length(replace("name", 'it''s', '"')) + 1 AS "n",
  concat("name", "stock", TRUE, NULL) AS "all_in_one"
FROM "inventory"
LIMIT 200
