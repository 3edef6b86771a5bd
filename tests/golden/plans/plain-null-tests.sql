SELECT
  "ticket_id"
FROM "tickets"
WHERE
  "resolved_at" IS NULL
  AND "csat_score" IS NOT NULL
LIMIT 200
