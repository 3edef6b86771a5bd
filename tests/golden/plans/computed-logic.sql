SELECT
  "order_id",
  NOT "returned" AND ("total" > 10 OR "status" IN ('completed', 'cancelled')) AND "total" BETWEEN 1 AND 1000 AND "status" NOT LIKE 'x%' AND "order_date" >= '2025-01-01' AS "good",
  coalesce(nullif("status", ''), 'none') AS "state",
  TRY_CAST("total" AS BIGINT) AS "whole",
  TRY_CAST(TRY_CAST("order_id" AS VARCHAR) AS DATE) IS NOT NULL AS "never"
FROM "orders"
LIMIT 200
