SELECT
  "category",
  "priority",
  AVG("resolution_time_hours") AS "hours"
FROM "tickets"
WHERE
  "status" != 'Open'
GROUP BY "category", "priority"
ORDER BY "hours" DESC
LIMIT 1000
