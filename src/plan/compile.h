#ifndef RIDDLE_PLAN_COMPILE_H
#define RIDDLE_PLAN_COMPILE_H

/*
 * QueryPlan → DuckDB SQL. Deterministic: one plan and one schema give one text. One clause per line, lists indented by two
 * spaces, always a LIMIT.
 */

#include "base/buf.h"
#include "plan/query_plan.h"

#define PLAN_SQL_MAX_BYTES (1u << 20)

/*
 * Checks the plan and appends its SQL. A failure's message begins "Failed to compile QueryPlan: "; what was appended by then
 * is taken back. schema may be NULL.
 */
int plan_compile(const struct query_plan *plan, const struct plan_schema *schema,
                 struct buf *ret_sql, struct err *err);

#endif
