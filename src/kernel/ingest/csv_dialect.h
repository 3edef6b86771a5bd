#ifndef RIDDLE_KERNEL_INGEST_CSV_DIALECT_H
#define RIDDLE_KERNEL_INGEST_CSV_DIALECT_H

/* How a CSV file is written: its characters, header, columns and their types. */

#include <duckdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define CSV_MAX_COLUMNS 20000
#define CSV_ISO_DATE "%Y-%m-%d" /* as the sniffer names it */

struct csv_dialect {
    char *delimiter, *quote, *escape, *comment; /* "" when there is none */
    char *new_line;                             /* as DuckDB spells it: \\n */
    char *date_format, *timestamp_format;       /* "" for ISO */
    bool plain_dates; /* every date of the file is known to be 2024-01-31 or empty: DuckDB need not be told the format */
    int64_t skip_rows;
    bool has_header;
    char **names, **types;
    size_t n_columns;
};

/* One that is known: no header line, \\n, ISO dates; and its columns, of which there is room for max_columns. */
int csv_dialect_init(struct csv_dialect *d, const char *delimiter, const char *quote, size_t max_columns,
                     struct err *err);
int csv_dialect_add_column(struct csv_dialect *d, const char *name, const char *type, struct err *err);

void csv_dialect_finish(struct csv_dialect *d); /* may be used again */

/*
 * 0 and *d; or 1, *d as it was and *ret_failure (caller frees) if the sniffer gave up. `extra` is further options, as
 * ",ignore_errors=true". Where the head of the file shows no other quote than ", saying so (double_quotes_only) halves the
 * sniffer's work, and saves it from taking a sample without any quote for a file without quotes.
 */
int csv_dialect_sniff(struct csv_dialect *d, duckdb_connection con, const char *path,
                      bool double_quotes_only, bool latin1, const char *extra, char **ret_failure,
                      struct err *err);

/*
 * Told the format of dates, DuckDB is strict about them, and slow. Not told, it is fast, but of "2024-01-31 10:00" or "2024-01-31x" it
 * takes the date and forgets the rest. So the format may be left out where all dates are plain. False if that cannot be: they are
 * written in another way, or the file so that only DuckDB can tell where its fields begin.
 */
bool csv_dialect_may_have_plain_dates(const struct csv_dialect *d);

/* ",delim=…,columns={…}" for read_csv. */
int csv_dialect_write_options(const struct csv_dialect *d, struct buf *sql, struct err *err);

#endif
