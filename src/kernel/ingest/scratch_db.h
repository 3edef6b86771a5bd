#ifndef RIDDLE_KERNEL_INGEST_SCRATCH_DB_H
#define RIDDLE_KERNEL_INGEST_SCRATCH_DB_H

/*
 * Rows that are written in some text (an SQL dump, lists in JSON) as an SQLite database of our own,
 * which database.h then reads like any other: several tables, and types by all values.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "kernel/ingest/unpack.h"

#define SCRATCH_MAX_COLUMNS 2000 /* SQLite's own limit */

enum scratch_kind {
    SCRATCH_ANY,    /* numbers are numbers and texts texts, as they are written */
    SCRATCH_NUMBER, /* texts that are numbers are, too */
    SCRATCH_REAL,   /* … with as many digits as they like: what wrote them had doubles */
    SCRATCH_BOOLEAN,
    SCRATCH_TEXT, /* numbers are texts as written */
    _SCRATCH_KIND_MAX
};

struct scratch_column {
    char *name; /* on the heap */
    enum scratch_kind kind;
};

struct scratch_db {
    sqlite3 *db;
    sqlite3_stmt *insert;
    size_t width;
    int64_t n_rows; /* of all tables */
};

/* The file at `path` is there and empty. */
int scratch_db_open(struct scratch_db *s, const char *path, uint64_t max_bytes, struct err *err);
int scratch_db_close(struct scratch_db *s, struct err *err); /* keeps what was written */
void scratch_db_finish(struct scratch_db *s);                /* in any case */

/* A new table, and rows for it. False names are made unique. */
int scratch_db_create(struct scratch_db *s, const char *table, struct scratch_column *columns,
                      size_t n, struct err *err);
/* Rows for a table that was created before. */
int scratch_db_choose(struct scratch_db *s, const char *table, size_t n, struct err *err);

/* A value of the row; those that are not set are null. `quoted`: it is a text, as written. */
int scratch_db_set(struct scratch_db *s, size_t column, enum scratch_kind kind, const char *text,
                   size_t len, bool quoted, struct err *err);
int scratch_db_end_row(struct scratch_db *s, struct err *err);

/*
 * Writes the rows of a text into the database at out_path. VALIDATION says what is wrong with it,
 * with `name`; CANCELLED.
 */
struct scratch_job {
    const char *text;
    size_t len;
    const char *name; /* of the file */
    const char *out_path;
    uint64_t max_bytes;
    const struct data_hooks *hooks;
};

/* INSERT and COPY of a dump of MySQL, PostgreSQL, SQLite, SQL Server and their like: 1. */
int scratch_from_sql(const struct scratch_job *job, struct err *err);

/*
 * 1: [[…], …], or an object with such a list and perhaps one of names, as pandas' `split` writes.
 * 0: it is something else, and nothing was written.
 */
int scratch_from_json(const struct scratch_job *job, struct err *err);

#endif
