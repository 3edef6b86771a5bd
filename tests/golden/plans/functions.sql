SELECT
  "zone",
  MEDIAN("temperature_c") AS "median_c",
  STDDEV("humidity_pct") AS "spread",
  VARIANCE("pressure_hpa") AS "pressure_var",
  MODE("status") AS "usual",
  QUANTILE_CONT("battery_pct", 0.9) AS "p90"
FROM "sensors"
GROUP BY "zone"
ORDER BY "zone" ASC
LIMIT 200
