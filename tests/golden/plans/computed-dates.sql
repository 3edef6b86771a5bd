SELECT
  "ticket_id",
  date_diff('hour', "created_at", "resolved_at") AS "hours",
  year("created_at") * 100 + month("created_at") AS "yyyymm",
  dayname("created_at") AS "weekday",
  date_trunc('week', "created_at") AS "week_of",
  date_add("created_at", INTERVAL (-7) DAY) AS "week_before",
  last_day("created_at") AS "month_end"
FROM "tickets"
WHERE
  ("resolved_at" IS NULL OR "resolved_at" > date_add("created_at", INTERVAL (1) MONTH))
LIMIT 200
