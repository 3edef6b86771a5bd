SELECT
  "order date",
  "Größe",
  "say ""hi""",
  "a.b",
  "select",
  "order date" IS NULL AS "no_date",
  "say ""hi""" || '!' AS "hi"
FROM "odd names"
WHERE
  "order date" > '2025-01-01'
  AND "a.b" > 0
ORDER BY "order date" ASC, "select" ASC
LIMIT 200
