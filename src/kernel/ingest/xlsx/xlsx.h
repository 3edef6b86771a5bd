#ifndef RIDDLE_KERNEL_INGEST_XLSX_XLSX_H
#define RIDDLE_KERNEL_INGEST_XLSX_XLSX_H

/*
 * An Excel workbook (.xlsx, .xlsm) → a CSV file, by its first visible sheet. Unlike a CSV a workbook says what its cells are, so the
 * columns come with their types; the CSV has no header line, and nothing about it is left to guess.
 *
 * Dates and times become ISO text, errors (#N/A) nothing, formulas their stored values. Rows without any value are left out. A
 * merged cell has its value at its first place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define XLSX_MAX_COLUMNS 16384
#define XLSX_MAX_ROWS 1048576
#define XLSX_MAX_CELL_CHARS 32767
#define XLSX_SHEET_NAME_SIZE 160

struct xlsx_options {
    const char *name;  /* of the file, for messages */
    const char *sheet; /* the one to read; NULL: the first that is visible */
    size_t passed;     /* visible sheets before it that are passed over */
    int out_fd;       /* where the CSV goes */
    uint64_t max_csv_bytes;
    uint64_t max_text_bytes; /* of the table of strings, which is in memory */
    bool (*must_stop)(const void *arg);
    const void *stop_arg;
    void (*progress)(void *arg, double fraction); /* called often */
    void *progress_arg;
};

struct xlsx_column {
    char *name;       /* unique, whatever the case of its letters */
    const char *type; /* DuckDB's name of it */
    bool empty;       /* neither a header nor a value */
};

struct xlsx_table {
    struct xlsx_column *columns;
    size_t n_columns;
    int64_t n_rows;
    int64_t n_titles;     /* rows above the header that were left out */
    size_t longest_row;   /* in bytes of CSV */
    bool has_header;      /* the first row gave the names */
    bool ragged;          /* some lines have fewer fields than there are columns */
    bool has_line_breaks; /* inside fields */
    char sheet[XLSX_SHEET_NAME_SIZE];
    size_t n_sheets; /* visible ones */
};

/* VALIDATION, with what is wrong and what to do; CANCELLED if must_stop said so. */
int xlsx_to_csv(const void *data, size_t len, const struct xlsx_options *options,
                struct xlsx_table *ret, struct err *err);
void xlsx_table_finish(struct xlsx_table *t);

#endif
