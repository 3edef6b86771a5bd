SELECT
  "priority",
  AVG(CAST("sla_met" AS INTEGER)) AS "sla_rate",
  SUM("sla_met") AS "met"
FROM "tickets"
GROUP BY "priority"
ORDER BY "sla_rate" ASC
LIMIT 200
