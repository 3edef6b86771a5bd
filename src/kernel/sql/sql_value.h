#ifndef RIDDLE_KERNEL_SQL_SQL_VALUE_H
#define RIDDLE_KERNEL_SQL_SQL_VALUE_H

/*
 * DuckDB's types and vectors as JSON text: the types of a result are read once, then every cell is
 * written by them.
 */

#include <duckdb.h>
#include <stdbool.h>
#include "base/buf.h"
#include "base/err.h"

struct sql_type;

/* The tree of a column's type. NULL only when out of memory. */
struct sql_type *sql_type_create(duckdb_logical_type type);
void sql_type_destroy(struct sql_type *t);

/* DuckDB's spelling: BIGINT, DECIMAL(18,3), STRUCT(a INTEGER, b VARCHAR[]). */
int sql_type_write_name(const struct sql_type *t, struct buf *out, struct err *err);

/* VALIDATION if a value of this type cannot be written, with the cast that helps. */
int sql_type_check(const struct sql_type *t, const char *column, struct err *err);

#define SQL_CELL_MAX_BYTES (64 * 1024) /* of text; the rest is cut */

/*
 * Appends row `row` of the vector. *ret_cut is set (never cleared) when a text was cut. TOO_LARGE
 * when out is full.
 */
int sql_value_write(const struct sql_type *t, duckdb_vector vector, idx_t row, struct buf *out,
                    bool *ret_cut, struct err *err);

#endif
