#ifndef RIDDLE_KERNEL_INGEST_CSV_DIALECT_H
#define RIDDLE_KERNEL_INGEST_CSV_DIALECT_H

/* How DuckDB is told to read a CSV file: nothing is left to its sniffer. */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

struct csv_dialect {
    char delimiter;
    bool has_header;
    bool returns;       /* lines end with \r\n */
    bool marked;        /* no value is \N; otherwise it is an empty field without quotes */
    size_t longest_row; /* in bytes, if it is known */
    char **names, **types;
    const char **casts; /* of each column: of its text, which $ stands for; NULL: there are none */
    size_t n_columns;
};

int csv_dialect_add_column(struct csv_dialect *d, const char *name, const char *type,
                           struct err *err);
void csv_dialect_finish(struct csv_dialect *d); /* may be used again */

/* What to select: "*", or "* REPLACE (…)" where texts are cast. */
int csv_dialect_write_selection(const struct csv_dialect *d, struct buf *sql, struct err *err);

/* ",delim=…,columns={…}" for read_csv. */
int csv_dialect_write_options(const struct csv_dialect *d, struct buf *sql, struct err *err);

#endif
