#ifndef RIDDLE_DATABASE_CLICKHOUSE_TEXT_H
#define RIDDLE_DATABASE_CLICKHOUSE_TEXT_H

/* Statements of ClickHouse: what is refused, and how parameters get into them. */

#include <stdbool.h>
#include "base/buf.h"
#include "base/json.h"
#include "database/sql_text.h"

/*
 * FORBIDDEN unless it is one SELECT, or an INSERT, UPDATE or DELETE on a table that `writable` has.
 * Table functions that read files, other servers or programs are refused wherever they stand;
 * behind FROM and JOIN only those of a short list are allowed. ret->table: the one that is written.
 */
int click_check_statement(const struct sql_text *t, const char *writable, struct sql_verdict *ret,
                          struct err *err);

/* Tuples behind VALUES of an INSERT; -1: it has none. */
int64_t click_count_values(const struct sql_text *t);

/*
 * The statement with its parameters. bind: they are left to the server as {p1:String}, and out_url
 * gets "&param_p1=…" for each; arrays and long texts, and all of them without bind, are written
 * into the statement by click_quote() and friends. VALIDATION for a parameter that was not given or
 * is no value of its type.
 */
int click_statement_make(const struct sql_text *t, const json_t *params, bool bind,
                         struct buf *out_sql, struct buf *out_url, struct err *err);

/* A string literal that reads back as these bytes. */
int click_quote(const char *s, size_t len, struct buf *out, struct err *err);
/* Percent-encodes everything but letters, digits, '-', '_', '.' and '~'. */
int click_url_escape(const char *s, size_t len, struct buf *out, struct err *err);

#endif
