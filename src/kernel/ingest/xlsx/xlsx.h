#ifndef RIDDLE_KERNEL_INGEST_XLSX_XLSX_H
#define RIDDLE_KERNEL_INGEST_XLSX_XLSX_H

/*
 * Workbooks: Excel's (.xlsx, .xlsm, .xls) and OpenDocument's (.ods). Each visible sheet can be
 * written as lines of CSV (sheet_writer.h).
 *
 * Dates and times become ISO text, errors (#N/A) nothing, formulas their stored values. A merged
 * cell has its value at its first place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernel/ingest/xlsx/sheet_writer.h"

/* Are these the first bytes of an .xls, or of whatever else is in such a container? */
bool xlsx_is_old(const void *data, size_t len);

#define XLSX_MAX_COLUMNS 16384
#define XLSX_MAX_ROWS 1048576
#define XLSX_MAX_CELL_CHARS 32767

struct xlsx_options {
    const char *name;        /* of the file, for messages */
    const char *path;        /* of the same bytes, for .xls */
    uint64_t max_text_bytes; /* of the table of strings, which is in memory */
    bool (*must_stop)(const void *arg);
    const void *stop_arg;
    void (*progress)(void *arg, double fraction); /* called often */
    void *progress_arg;
};

struct xlsx_book;

/* VALIDATION, with what is wrong and what to do; CANCELLED if must_stop said so. The bytes must
 * stay where they are. */
int xlsx_open(const void *data, size_t len, const struct xlsx_options *options,
              struct xlsx_book **ret, struct err *err);
void xlsx_close(struct xlsx_book *b); /* takes NULL */

const char *xlsx_format_name(const struct xlsx_book *b); /* "xlsx", "ods" or "xls" */
size_t xlsx_n_sheets(const struct xlsx_book *b);         /* visible ones; at least one */
const char *xlsx_sheet_name(const struct xlsx_book *b, size_t i);

/* Errors as above. */
int xlsx_write_sheet(struct xlsx_book *b, size_t i, struct sheet_writer *w, struct err *err);

#endif
