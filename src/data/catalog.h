#ifndef RIDDLE_DATA_CATALOG_H
#define RIDDLE_DATA_CATALOG_H

/*
 * What is known about a set of tables: for the planner without a model, for the compiler of plans,
 * and, as JSON, for prompts and for people. All of it is read by SQL that somebody else runs, so
 * that an event loop and a command can both do it:
 *
 *   catalog_create()                      names the tables
 *   while ((sql = catalog_next_sql(…)))   two queries for each table, three for a large one
 *       catalog_feed(…)                   with the answer; a failure is the end of the catalog
 *   catalog_schema() …                    afterwards; nothing changes any more, so threads may share one
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "nl/nl.h"
#include "plan/plan_schema.h"

/*
 * What a query of the catalog may take; its answer is cut where it is larger, and then values are
 * missing.
 */
#define CATALOG_TIMEOUT_MS 30000

#define CATALOG_TABLES_MAX 64
#define CATALOG_TOP_VALUES 10
#define CATALOG_SAMPLE_ROWS 3
#define CATALOG_TEXT_CHARACTERS 120 /* of a text that is shown; the rest is cut */

struct catalog;

/*
 * relationships: [{"from": "t.c", "to": "t.c", "type"?}] or NULL. One that names what is not there
 * is left out, and noted in the description. words: as struct data_view has them, or NULL. Without
 * tables it is finished at once. The caller owns one reference. Of a database, tables of more than
 * a million rows are looked at by a sample of their first rows.
 */
int catalog_create(const char *dataset_id, enum plan_dialect dialect, const char *const *tables,
                   size_t n_tables, const json_t *relationships, const json_t *words,
                   struct catalog **ret, struct err *err);
struct catalog *catalog_ref(struct catalog *c);
void catalog_unref(struct catalog *c); /* NULL is fine */

/*
 * The query to run next and how many rows of its answer are wanted; NULL when the catalog is
 * finished.
 */
const char *catalog_next_sql(const struct catalog *c, int64_t *ret_max_rows);
/* body: {"columns", "types", "rows", …} as a sandbox answers. */
int catalog_feed(struct catalog *c, const json_t *body, struct err *err);

/* Of a finished catalog; they live as long as it does. */
const struct nl_schema *catalog_schema(const struct catalog *c);
const struct plan_schema *catalog_plan_schema(const struct catalog *c);
/*
 * {"dataset_id", "tables": [{"name", "row_count", "sampled_rows"?, "columns": [{"name", "type",
 * "nulls"?, "distinct"? | "distinct_more_than"?, "min"?, "max"?, "mean"?, "top"?: [{"value",
 * "count"}]}], "sample_rows": [[…]]}], "relationships": […], "notes"?: [text]}. Borrowed.
 */
const json_t *catalog_describe(const struct catalog *c);

/*
 * Checks a plan and appends its SQL, which has a LIMIT only if the plan does: the run has its own.
 */
int catalog_compile(const struct catalog *c, const json_t *plan, struct buf *ret_sql,
                    struct err *err);

#endif
