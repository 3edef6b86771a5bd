#ifndef RIDDLE_PLAN_COMPILE_H
#define RIDDLE_PLAN_COMPILE_H

/*
 * QueryPlan → SQL of the dialect of its schema; without one, DuckDB. Deterministic: a plan and
 * one schema give one text. One clause per line, lists indented by two spaces, always a LIMIT. A
 * plan means the same in every dialect: 7 / 2 is 3.5, a division by 0 gives NULL, NULL comes last.
 * What an engine has no form for is VALIDATION and names the engine.
 */

#include "base/buf.h"
#include "plan/query_plan.h"

#define PLAN_SQL_MAX_BYTES (1u << 20)

/*
 * Checks the plan and appends its SQL. A failure's message begins "Failed to compile QueryPlan: ";
 * what was appended by then is taken back. schema may be NULL.
 */
int plan_compile(const struct query_plan *plan, const struct plan_schema *schema,
                 struct buf *ret_sql, struct err *err);

#endif
