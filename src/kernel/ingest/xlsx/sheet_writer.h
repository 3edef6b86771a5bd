#ifndef RIDDLE_KERNEL_INGEST_XLSX_SHEET_WRITER_H
#define RIDDLE_KERNEL_INGEST_XLSX_SHEET_WRITER_H

/*
 * The rows of a sheet as lines of CSV, for csv_table.h: text in quotes; numbers, dates, times and
 * truth values without (csv_layout.exact), in one notation each. A row without cells is an empty
 * line, so that lines and rows have the same numbers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define SHEET_MAX_ROW_BYTES (32u << 20)
/* Stands before a length of time, which would look like a time of the day. */
#define SHEET_INTERVAL_MARK '\1'

struct sheet_writer {
    int fd;
    uint64_t max_bytes, written;
    struct buf csv;
    int64_t row;    /* the last that was begun; the first is 1 */
    int64_t n_gaps; /* empty lines */
    size_t begin, column;
    /* What came of it: */
    int64_t n_rows;      /* with a cell */
    size_t width;        /* of the widest */
    int64_t n_valueless; /* formulas without a value */
    int64_t n_errors;    /* #N/A and its like, read as nothing */
};

void sheet_writer_init(struct sheet_writer *w, int fd, uint64_t max_bytes);
void sheet_writer_finish(struct sheet_writer *w);

/* Rows and the cells of a row come in their order. A row without a cell is none. */
int sheet_writer_row(struct sheet_writer *w, int64_t row, struct err *err);
int sheet_writer_text(struct sheet_writer *w, size_t column, const char *text, size_t len,
                      struct err *err);
int sheet_writer_value(struct sheet_writer *w, size_t column, const char *text, size_t len,
                       struct err *err);
int sheet_writer_end_row(struct sheet_writer *w, struct err *err);
int sheet_writer_flush(struct sheet_writer *w, struct err *err);

#endif
