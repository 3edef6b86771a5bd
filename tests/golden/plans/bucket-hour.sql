SELECT
  date_trunc('hour', "timestamp") AS "timestamp_hour",
  AVG("temperature_c") AS "mean_c"
FROM "sensors"
GROUP BY date_trunc('hour', "timestamp")
ORDER BY "timestamp_hour" ASC
LIMIT 200
