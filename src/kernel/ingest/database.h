#ifndef RIDDLE_KERNEL_INGEST_DATABASE_H
#define RIDDLE_KERNEL_INGEST_DATABASE_H

/*
 * Files that are databases themselves (SQLite, DuckDB): their tables, each as something that
 * DuckDB can select from. Views are counted and never run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "kernel/sql/sql.h"

struct database;

struct database_options {
    const char *name; /* of the file, for messages */
    struct sql_engine *engine;
    int64_t memory_bytes;
    bool text; /* every value as text */
    bool (*must_stop)(const void *arg);
    const void *stop_arg;
};

/* By its first bytes. */
bool database_is_sqlite(const unsigned char *head, size_t len);
bool database_is_duckdb(const unsigned char *head, size_t len);

/* VALIDATION, with what is wrong and what to do; CANCELLED. */
int database_open(const char *path, bool is_sqlite, const struct database_options *options,
                  struct database **ret, struct err *err);
void database_close(struct database *d); /* takes NULL */

size_t database_n_tables(const struct database *d);
const char *database_table_name(const struct database *d, size_t i);
size_t database_n_views(const struct database *d);
size_t database_n_virtual(const struct database *d); /* tables that only a program can read */

/* Before a table is selected from. Errors as above, as a clause without the file's name. */
int database_choose(struct database *d, size_t table, struct err *err);
int database_write_sql(const struct database *d, struct buf *sql, struct err *err);

/* Rows that the chosen table is known to have; -1: not known. */
int64_t database_n_rows(const struct database *d);

/* What was changed while the chosen table was read: words that became null, repaired texts. */
struct database_changes {
    int64_t n_null_words, n_replaced, n_nul;
    bool mixed; /* a column has values of several types, and is text */
};
struct database_changes database_changes(const struct database *d);

#endif
