#ifndef RIDDLE_DATABASE_RESULT_H
#define RIDDLE_DATABASE_RESULT_H

/*
 * Rows of a database: text in columns, each with one type. Types have the names that SQL results
 * have everywhere in Riddle: BOOLEAN, BIGINT, DOUBLE, DECIMAL, VARCHAR, DATE, TIME, TIMESTAMP,
 * TIMESTAMP WITH TIME ZONE, INTERVAL, BLOB, UUID, JSON, and X[] of these.
 *
 * The text of a cell: BOOLEAN true or false; numbers in decimal; dates and times in ISO 8601 with a
 * blank between date and time; BLOB in hexadecimal; JSON and arrays as JSON (elements of arrays
 * that JSON cannot hold without loss are strings).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct db_column {
    char *name;
    char *type;
    struct buf cells; /* of each: its length as uint32_t (UINT32_MAX: NULL), its bytes */
};

struct db_result {
    struct db_column *columns;
    size_t n_columns;
    int64_t n_rows;
    bool truncated;        /* there were more than the limits allow */
    int64_t affected_rows; /* of a statement that writes; -1: it reads */
    int64_t max_rows, max_bytes, n_bytes;
    bool has_private; /* some cell holds a character of U+E000 … U+EFFF */
};

void db_result_init(struct db_result *r, int64_t max_rows, int64_t max_bytes);
void db_result_finish(struct db_result *r);

int db_result_add_column(struct db_result *r, const char *name, const char *type, struct err *err);

/* One row, cell by cell. data NULL: a NULL. TOO_LARGE, and a truncated result, past the limits. */
struct db_cell {
    const char *data;
    size_t len;
};
int db_result_add_row(struct db_result *r, const struct db_cell *cells, struct err *err);

/* A cursor over the cells of one column. False at the end. */
struct db_cursor {
    const struct db_column *column;
    size_t at;
};
bool db_cursor_next(struct db_cursor *c, struct db_cell *ret);

/* Arrays "columns", "types" and "rows" of such a result, as every answer of Riddle has them. */
int db_result_json(const struct db_result *r, json_t **ret, struct err *err);
/* The same as results of runs have it: decimals are numbers. */
int db_result_body(const struct db_result *r, json_t **ret, struct err *err);
/* Rows as objects by column name. */
int db_result_objects(const struct db_result *r, json_t **ret, struct err *err);

/*
 * What a kernel gets: {columns, types, row_count, truncated, affected_rows, separator, null, data}
 * with one string for each column, whose cells are separated by a character that no cell has. A
 * cell that is `null` is NULL. A Python kernel splits a string many times faster than it reads a
 * JSON array.
 */
int db_result_pack(const struct db_result *r, json_t **ret, struct err *err);

#endif
