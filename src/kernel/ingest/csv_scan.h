#ifndef RIDDLE_KERNEL_INGEST_CSV_SCAN_H
#define RIDDLE_KERNEL_INGEST_CSV_SCAN_H

/*
 * Is a whole file as plain as its first lines? Then DuckDB may read it as it is, and reads what
 * csv_table.h would: each record has all
 * fields, quotes stand where they should, and each value is written as DuckDB writes it. (DuckDB
 * alone would read 1.5 in a column of
 * integers as 2, 007 as 7, 0x1F as 31, and forget what stands behind a date.)
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernel/ingest/column.h"

struct csv_scan {
    char delimiter;
    bool returns; /* lines end with \r\n */
    const enum column_type *types;
    const struct column *columns; /* how their values are written; NULL: as DuckDB reads them */
    size_t n_columns;
    const atomic_bool *stop; /* the answer is not wanted any more; may be NULL */
};

/* *ret_rows: without the header, which is the first line. */
bool csv_scan_is_plain(const struct csv_scan *s, const char *text, size_t len, int64_t *ret_rows);

/* Types that it can check. */
bool csv_scan_knows(const struct column *c);

/*
 * What makes a text of the column one that DuckDB casts to its type, with $ for the text; NULL:
 * DuckDB reads it as it is.
 */
const char *csv_scan_cast(const struct column *c);

#endif
