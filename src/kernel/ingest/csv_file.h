#ifndef RIDDLE_KERNEL_INGEST_CSV_FILE_H
#define RIDDLE_KERNEL_INGEST_CSV_FILE_H

/* What can be said about a CSV file from its bytes, before DuckDB reads it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/fdio.h"

enum csv_encoding {
    CSV_UTF8,
    CSV_UTF16_LE,
    CSV_UTF16_BE,
    CSV_LATIN1,
    CSV_WINDOWS_1252, /* Latin-1 with the letters that Windows has in place of the C1 control characters */
    _CSV_ENCODING_MAX
};

const char *csv_encoding_name(enum csv_encoding encoding);

struct csv_file {
    int64_t size_bytes;
    enum csv_encoding encoding; /* by its mark or pattern; CSV_UTF8 when nothing says otherwise */
    bool
        double_quotes_only; /* the head shows no sign of another quote or escape character than " */
    bool one_line;          /* the head is one line */
    char separator;         /* the only one of , ; tab | that every line of the head has equally often; 0: not certain */
    int n_separators;       /* in the first line: as many as the commonest of , ; tab | has */
};

/* The bytes of a file that is ingested: VALIDATION if there are none. */
int csv_file_map(const char *path, struct fd_mapping *ret, struct err *err);

/* VALIDATION, with the kind of file and what to do, if it is no text file with something in it. `name` is the user's. */
int csv_file_inspect(const char *path, const char *name, struct csv_file *ret, struct err *err);

int csv_file_is_utf8(const char *path, bool *ret, struct err *err);

/* For a file that turned out not to be UTF-8: which of the two one-byte encodings it is. */
int csv_file_one_byte_encoding(const char *path, enum csv_encoding *ret, struct err *err);

/*
 * Writes the file as UTF-8 to a new file `out_path`. VALIDATION if the bytes are no text of that encoding. `must_stop` is asked
 * now and then; if it says true the result is CANCELLED.
 */
int csv_file_to_utf8(const char *path, enum csv_encoding encoding, const char *out_path,
                     bool (*must_stop)(const void *arg), const void *arg, struct err *err);

enum csv_sought {
    CSV_NOTHING,
    CSV_DECIMALS,  /* among integers: fields such as 1.5 */
    CSV_ODD_DATES, /* among dates: fields that are neither empty nor ten bytes such as 2024-01-31 */
};

struct csv_layout {
    char separator, quote; /* quote: doubled inside itself; 0 if there is none */
    bool has_header;       /* no date is looked for in the first line */
};

/*
 * Looks through the whole file: ret_hit[i] is set for each column i < n_columns that has what is sought[i]. Columns are told by
 * separators outside of quotes, as a CSV reader does. Quotes in places where readers differ are odd dates in all columns.
 */
int csv_file_find(const char *path, const struct csv_layout *layout, const enum csv_sought *sought, size_t n_columns,
                  bool *ret_hit, struct err *err);

#endif
