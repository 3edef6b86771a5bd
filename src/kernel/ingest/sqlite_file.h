#ifndef RIDDLE_KERNEL_INGEST_SQLITE_FILE_H
#define RIDDLE_KERNEL_INGEST_SQLITE_FILE_H

/*
 * SQLite databases from anywhere: which tables they have, and one table at a time as rows for
 * DuckDB.
 *
 * The file is opened read-only and immutable (no locks, no journal). Views, virtual tables and
 * triggers are never run, and functions in the schema only if they are harmless.
 *
 * SQLite has types of values, not of columns. So a table is gone through twice: sqlite_choose()
 * looks at every value and decides on the types, a scan reads them.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define SQLITE_VALUE_MAX (64 << 20) /* bytes of one value */

enum sqlite_column_type {
    SQLITE_COLUMN_TEXT,
    SQLITE_COLUMN_INTEGER,
    SQLITE_COLUMN_REAL,
    SQLITE_COLUMN_BOOLEAN,
    SQLITE_COLUMN_DATE,
    SQLITE_COLUMN_TIMESTAMP,
    SQLITE_COLUMN_TIMESTAMP_ZONE,
    SQLITE_COLUMN_BLOB,
    _SQLITE_COLUMN_TYPE_MAX
};

struct sqlite_column {
    char *name; /* UTF-8, not empty; on the heap */
    const char *declared;
    enum sqlite_column_type type;
    /* Of all values: */
    int64_t n_integers, n_reals, n_texts, n_blobs;
    int64_t n_days, n_moments, n_zoned; /* of the texts: dates as ISO writes them */
    int64_t n_null_words;               /* of the texts: "n/a" and its like */
    bool large;                         /* an integer that a REAL cannot hold */
    bool other_than_bits;
};

struct sqlite_table {
    const char *name;
};

struct sqlite_file {
    sqlite3 *db;
    sqlite3_stmt *rows; /* of the table that is chosen */
    bool at_end;
    struct arena arena;
    struct sqlite_table *tables;
    size_t n_tables, n_views, n_virtual;
    struct sqlite_column *columns;
    size_t n_columns;
    int64_t n_rows;
    int64_t n_replaced, n_nul; /* places in texts that are no UTF-8, and NUL characters */
    bool text;                 /* every value as text */
    struct buf scratch;
    bool (*must_stop)(const void *arg);
    const void *stop_arg;
};

struct sqlite_options {
    int64_t memory_bytes; /* that SQLite may take; 0: any */
    bool text;
    bool (*must_stop)(const void *arg);
    const void *stop_arg;
};

/*
 * Tables with rows come first, otherwise they are in the order in which they were made. VALIDATION
 * says what is wrong, as a clause ("is damaged: …"). Released by sqlite_finish() in any case.
 */
int sqlite_open_file(struct sqlite_file *f, const char *path, const struct sqlite_options *options,
                     struct err *err);
void sqlite_finish(struct sqlite_file *f);

/* Looks at all values of a table: f->columns, f->n_rows. VALIDATION as above; CANCELLED. */
int sqlite_choose(struct sqlite_file *f, size_t table, struct err *err);

/* 1: f->rows is at the next row; 0: that was the last one. Errors as above. */
int sqlite_next_row(struct sqlite_file *f, struct err *err);
/* From the first row again. */
void sqlite_rewind(struct sqlite_file *f);

/* The value of the row as text (UTF-8, without NUL), until the next call; NULL: there is none. */
const char *sqlite_text(struct sqlite_file *f, size_t column, size_t *ret_len, struct err *err);

#endif
