#ifndef RIDDLE_KERNEL_SQL_PROFILE_H
#define RIDDLE_KERNEL_SQL_PROFILE_H

/*
 * What the data of a table says about its columns: for schemas, prompts, and the linking of words
 * to values.
 */

#include "kernel/sql/sql.h"

#define PROFILE_TOP 10
#define PROFILE_SAMPLES 3
#define PROFILE_TEXT_CHARACTERS 200 /* of a text; the rest is cut */
#define PROFILE_MAX_COLUMNS 1000    /* of a table; the rest is left out */

/*
 * Appends one object:
 *   {"row_count":N,"columns":[{"name","type","nulls","distinct","distinct_is_approximate"?:true,"min","max","mean"?,
 *    "top":[{"value","count"}]}],"columns_left_out"?:N,"sample_rows":[{column:"text"}]}
 * type is DuckDB's; min, max and top values are numbers, booleans or ISO text; top is there for
 * texts and for columns with few different values, most frequent first, nulls not counted. NaN and
 * infinities have no part in min, max, mean and top. A null is "" in a sample row, as in the file.
 *
 * NOT_FOUND when there is no such table; CANCELLED after sql_interrupt(); NO_MEMORY; INTERNAL.
 */
int sql_profile(struct sql_engine *e, const char *table, struct buf *ret_json, struct err *err);

#endif
