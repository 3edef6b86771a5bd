#ifndef RIDDLE_DATABASE_CLICKHOUSE_ROWS_H
#define RIDDLE_DATABASE_CLICKHOUSE_ROWS_H

/*
 * Rows as ClickHouse writes them in its format RowBinary: no separators, every value in the bytes
 * of its type. Only the types tell where a value ends, so they come first: with the rows
 * (RowBinaryWithNamesAndTypes), or from DESCRIBE where a server has no such format.
 *
 * A String is bytes. A column of them is VARCHAR, and BLOB as soon as one cell is no UTF-8. A
 * FixedString loses the zero bytes that pad it, unless its column is a BLOB. DateTime is an
 * instant: TIMESTAMP where it names no zone and the server is in UTC, else TIMESTAMP WITH TIME
 * ZONE, written in UTC.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "database/result.h"

#define CLICK_COLUMNS_MAX 1024

struct click_rows;

/* server_is_utc: the zone of a DateTime that names none. into is borrowed. NULL: out of memory. */
struct click_rows *click_rows_create(struct db_result *into, bool server_is_utc);
void click_rows_free(struct click_rows *r); /* NULL is fine */

/* VALIDATION for a type that cannot be read. */
int click_rows_add_column(struct click_rows *r, const char *name, const char *type,
                          struct err *err);
/* The answer begins with the names and types of its columns. */
void click_rows_expect_head(struct click_rows *r);

/*
 * The next bytes of an answer. 1: the result is full, nothing more is needed. PROTOCOL for bytes
 * that are no rows.
 */
int click_rows_feed(struct click_rows *r, const void *data, size_t len, struct err *err);
/* The answer is over. PROTOCOL when it ends inside of a row and is not full. */
int click_rows_end(struct click_rows *r, struct err *err);

#endif
