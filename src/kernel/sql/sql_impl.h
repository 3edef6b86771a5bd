#ifndef RIDDLE_KERNEL_SQL_SQL_IMPL_H
#define RIDDLE_KERNEL_SQL_SQL_IMPL_H

/* What sql.c and ingest.c share: the engine's inside and the pieces of a result. */

#include <duckdb.h>
#include <stdatomic.h>
#include "kernel/sql/sql.h"

static inline void cleanup_result(duckdb_result *r)
{
    duckdb_destroy_result(r);
}
#define auto_result __attribute__((cleanup(cleanup_result)))

struct sql_limits {
    int64_t memory_bytes;
    int threads;
    char temp_directory[512];
};

struct sql_engine {
    duckdb_database db;
    duckdb_connection con;               /* for queries; in a kernel its own */
    duckdb_connection first_con;         /* of the zygote; `con` before sql_engine_setup() */
    duckdb_prepared_statement serialize; /* json_serialize_sql(?) */
    atomic_int busy;                     /* between sql_begin() and sql_end() */
    atomic_int stop;                     /* sql_interrupt() came while busy */
    struct sql_limits limits;            /* that the engine has */
    char *dataset_id;                    /* the qualifier that the policy allows; NULL: none */
    bool has_schema;                     /* the tables can be named by it, too */
    char **tables;
    struct {
        size_t file, part;
    } * places; /* where each of them is */
    size_t n_tables;
    bool refused;                               /* the tables are the rows that were refused */
    bool reads_sqlite;                          /* has the table function of ingest/database.c */
    int (*prepare)(void *arg, struct err *err); /* not done yet; NULL: ready */
    void *prepare_arg;
};

/*
 * An interrupt belongs to the request during which it comes. DuckDB forgets one when a query
 * starts, so between its queries the flag here keeps it; one that comes while nothing runs is
 * forgotten by sql_begin() and by DuckDB alike.
 */
void sql_begin(struct sql_engine *e);
void sql_end(struct sql_engine *e);
bool sql_must_stop(const struct sql_engine *e);

/* Runs one or more statements for their effect. INTERNAL with DuckDB's message. */
int sql_run(struct sql_engine *e, const char *sql, struct err *err);

/*
 * Appends the path as a literal that means this file only, whatever characters of a pattern are in
 * it.
 */
int sql_quote_path(struct buf *b, const char *path, struct err *err);

/*
 * Checks one SELECT of the user's by the policy and prepares it, which the caller destroys. 1 when
 * a failure was written to out instead.
 */
int sql_prepare_select(struct sql_engine *e, const char *sql, duckdb_prepared_statement *ret,
                       struct result *out, struct err *err);

enum sql_failure {
    SQL_FAILED, /* the query's own fault */
    SQL_INTERRUPTED,
    SQL_NO_MEMORY,
    SQL_FATAL, /* DuckDB has given up this instance */
    _SQL_FAILURE_MAX
};

/* What DuckDB's message says has happened. */
enum sql_failure sql_classify(const struct sql_engine *e, const char *message);

/* A failed query as a result, sorted by its message. Negative only if the engine is beyond use. */
int sql_write_failure(struct sql_engine *e, const char *message, struct result *out,
                      struct err *err);

/* Executes a prepared statement as a stream and writes its result. */
int sql_run_statement(struct sql_engine *e, duckdb_prepared_statement statement,
                      const struct sql_request *req, struct result *out, struct err *err);

/* The text in a VARCHAR column, "" for NULL. Caller frees; NULL when out of memory. */
char *sql_copy_text(duckdb_data_chunk chunk, idx_t column, idx_t row);

/*
 * memory_limit, threads, temp_directory: those that the engine has otherwise, because a statement
 * takes 0.3 ms.
 */
int sql_set_limits(struct sql_engine *e, int64_t memory_bytes, int threads,
                   const char *temp_directory, struct err *err);

#endif
