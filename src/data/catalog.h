#ifndef RIDDLE_DATA_CATALOG_H
#define RIDDLE_DATA_CATALOG_H

/*
 * What is known about a set of tables, made of the records of their scans (scan.h): for the planner
 * without a model, for the compiler of plans, and, as JSON, for prompts and for people.
 *
 *   catalog_create()       what people wrote
 *   catalog_add() …        table by table
 *   catalog_finish()       nothing changes any more, so threads may share one
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "nl/nl.h"
#include "plan/plan_schema.h"

#define CATALOG_TABLES_MAX 64

struct catalog;

/*
 * relationships: [{"from": "t.c", "to": "t.c", "type"?}] or NULL. One that names what is not there
 * is left out, and noted in the description. words: as struct data_view has them, or NULL. The
 * caller owns one reference.
 */
int catalog_create(const char *dataset_id, enum plan_dialect dialect, const json_t *relationships,
                   const json_t *words, struct catalog **ret, struct err *err);
/* profile and values as table_scan_take() gives them. */
int catalog_add(struct catalog *c, const char *table, json_t *profile, const json_t *values,
                struct err *err);
int catalog_finish(struct catalog *c, struct err *err);
struct catalog *catalog_ref(struct catalog *c);
void catalog_unref(struct catalog *c); /* NULL is fine */

/* Of a finished catalog; they live as long as it does. */
const struct nl_schema *catalog_schema(const struct catalog *c);
const struct plan_schema *catalog_plan_schema(const struct catalog *c);
/*
 * {"dataset_id", "tables": [{"name", and the members of its profile}], "relationships": […],
 * "notes"?: [text]}. Borrowed.
 */
const json_t *catalog_describe(const struct catalog *c);

/*
 * Checks a plan and appends its SQL, which has a LIMIT only if the plan does: the run has its own.
 */
int catalog_compile(const struct catalog *c, const json_t *plan, struct buf *ret_sql,
                    struct err *err);

#endif
