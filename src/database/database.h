#ifndef RIDDLE_DATABASE_DATABASE_H
#define RIDDLE_DATABASE_DATABASE_H

/*
 * Databases that are asked where they are. The setting DATABASES names them:
 *
 *   kb=postgresql://reader:secret@db.local/kb;write=documents,files=sqlite:///srv/files.db
 *
 * Only `riddle` knows the URLs. Kernels, logs, errors and answers of the API name a database and
 * its kind, never its address or its credentials.
 *
 * A statement is one statement that reads, with limits on time, rows and bytes. Whatever the kind
 * of database, the server itself is told that the transaction is read-only, and the text is checked
 * before (docs/databases.md). A table that an entry names with `write=` can be changed by a plain
 * INSERT, UPDATE or DELETE.
 *
 * Everything happens in the loop's thread and nothing blocks it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "database/result.h"

struct databases;
struct database;
struct db_query;

#define DATABASES_MAX 64
#define DB_SQL_MAX (256u << 10)
#define DB_PARAMS_MAX 256

/* CONFIG for a setting that cannot be understood; it names the entry and never shows a URL. */
/* Kinds of this build, for --version: NULL past the last. */
const char *database_kind_name(size_t i);
int databases_create(uv_loop_t *loop, const struct config *cfg, struct databases **ret,
                     struct err *err);
/* Cancels what is under way, without callbacks, by running the loop. NULL is fine. */
void databases_destroy(struct databases *d);

size_t databases_count(const struct databases *d);
struct database *databases_get(const struct databases *d, size_t i);
/* name NULL or "": the first one. NOT_FOUND tells which there are. */
int databases_find(const struct databases *d, const char *name, struct database **ret,
                   struct err *err);

const char *database_name(const struct database *db);
const char *database_kind(const struct database *db); /* postgresql, sqlite, clickhouse */
/* Tables that may be changed: an array of names. NULL: out of memory. */
json_t *database_writable(const struct database *db);
/* True if the entry marks this parameter with `redact=`: it does not go into the query log. */
bool database_redacts(const struct database *db, const char *parameter);

struct db_request {
    const char *sql;
    /*
     * Name → value, bound to `:name`. Values are JSON, or {"type","value"} with a type of
     * DB_PARAM_TYPES and text as value. NULL: none.
     */
    const json_t *params;
    int64_t timeout_ms, max_rows, max_bytes; /* 0: as the settings say; never more than those */
};

/*
 * Exactly one of result and err is set, for the time of the call. FORBIDDEN: the statement was
 * refused; VALIDATION: the database found an error in it; TIMEOUT; UNAVAILABLE.
 */
typedef void (*db_done_fn)(const struct db_result *result, const struct err *err, void *arg);

/* Errors of this call are told at once; done comes from the loop, never from within. */
int database_query(struct database *db, const struct db_request *req, db_done_fn done, void *arg,
                   struct db_query **ret, struct err *err);
/* Stops it, also on its server. done does not come. NULL is fine. Not after done. */
void db_query_cancel(struct db_query *q);

/*
 * Tables with their columns: a result of table, column, type, is_nullable, default, in that order.
 * table NULL: all.
 */
int database_schema(struct database *db, const char *table, db_done_fn done, void *arg,
                    struct db_query **ret, struct err *err);
/* {tables: [name], schema: {table: [{column_name, data_type, is_nullable, column_default}]},
 *  total_tables} of such a result. NULL: out of memory. */
json_t *database_schema_json(const struct db_result *schema);

/*
 * Comments and foreign keys of one column, rows of five texts: "comment", table, column (NULL: of
 * the table), text, NULL; or "key", table, column, other table, its column.
 */
int database_facts(struct database *db, db_done_fn done, void *arg, struct db_query **ret,
                   struct err *err);

/* What `riddle doctor` says of one: reachable, role, rights. Runs the loop until it knows. */
int database_check(struct database *db, char *ret_detail, size_t n, struct err *err);

#endif
