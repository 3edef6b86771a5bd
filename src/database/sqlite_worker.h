#ifndef RIDDLE_DATABASE_SQLITE_WORKER_H
#define RIDDLE_DATABASE_SQLITE_WORKER_H

/*
 * The process that asks an SQLite file, so that neither a long query nor a fault of SQLite's can
 * stop `riddle`. It answers one request after the other until its standard input ends.
 *
 * Request: a line of JSON {path, writable, internal, sql, params, timeout_ms, max_rows, max_bytes}.
 * Answer: a line of JSON, {error: {type, message}} or {columns, types, rows, truncated, affected,
 * bytes}, then the cells of each column as struct db_column has them, `bytes` says how many.
 */

#include <stdbool.h>

#define SQLITE_WORKER_LINE_MAX (8u << 20)

/* What `riddle --sqlite-worker` does. Returns the exit status. */
int sqlite_worker_main(void);

#endif
