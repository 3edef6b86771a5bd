#ifndef RIDDLE_DATA_SCAN_H
#define RIDDLE_DATA_SCAN_H

/*
 * Looks at one table and writes down what is known about it: for the planner, for prompts, and for
 * people. It does so by SQL that somebody else runs, so that tables in a kernel and tables of a
 * database are looked at in the same way, by an event loop or by a command:
 *
 *   table_scan_create()                      names the table
 *   while ((sql = table_scan_next_sql(…)))   three queries or so; more for a large or wide table
 *       table_scan_feed(…)                   with the answer: it comes out of a jail and is checked
 *   table_scan_take()                        the record
 *
 * Bounded: columns past SCAN_COLUMNS have a name and a type only, as have those that are left when
 * the time is up. A query that takes too long is asked again of a sample.
 */

#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "plan/plan_schema.h"

#define SCAN_TIMEOUT_MS 20000 /* of one query */
#define SCAN_COLUMNS 1000
#define SCAN_TOP_VALUES 10
#define SCAN_SAMPLE_ROWS 3
#define SCAN_TEXT_CHARACTERS 120 /* of a text that is shown; the rest is cut */
#define SCAN_BUCKETS 12          /* of a histogram */

struct table_scan;

int table_scan_create(const char *table, enum plan_dialect dialect, struct table_scan **ret,
                      struct err *err);
void table_scan_destroy(struct table_scan *s); /* NULL is fine */

/* The query to run next and how many rows of its answer are wanted; NULL: it is finished. */
const char *table_scan_next_sql(const struct table_scan *s, int64_t *ret_max_rows);
/* body: {"columns", "types", "rows", …} as a sandbox answers. */
int table_scan_feed(struct table_scan *s, const json_t *body, struct err *err);
/* The query took too long, or too much memory. False: there is no record without its answer. */
bool table_scan_pass(struct table_scan *s);

/*
 * The record of a finished scan. New references:
 *   profile  {"row_count", "sampled_rows"?, "columns_left_out"?, "columns": [{"name", "type",
 *            "nulls"?, "distinct"?, "distinct_is_approximate"?: true, "min"?, "max"?, "mean"?,
 *            "top"?: [{"value", "count"}], "is_serial"?: true, "histogram"?: {"from", "to",
 *            "counts"}}], "sample_rows": [[…]]}
 *   values   [[text…] | null, …]: of each column, those that words of a question may mean
 * type is the engine's. A column that was looked at has nulls, top, and min and max (null if none).
 * top has values of texts, and of columns with few different ones; nulls, NaN and infinities have no part
 * in it. is_serial: whole numbers that number the rows, of a table that has many.
 */
void table_scan_take(struct table_scan *s, json_t **ret_profile, json_t **ret_values);

/* VALIDATION unless columns have names and types: for what was kept in a file. */
int table_profile_check(const json_t *profile, struct err *err);

#endif
