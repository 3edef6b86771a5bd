#ifndef RIDDLE_KERNEL_INGEST_XLSX_XLSX_IMPL_H
#define RIDDLE_KERNEL_INGEST_XLSX_XLSX_IMPL_H

/* What the workbook's reader (xlsx.c) and the sheet's (xlsx_sheet.c) share. */

#include "base/arena.h"
#include "base/buf.h"
#include "kernel/ingest/xlsx/xlsx.h"
#include "kernel/ingest/xlsx/package.h"
#include "kernel/ingest/xlsx/xml.h"

#define XLSX_MAX_PART_BYTES (2ull << 30)
/* Four bytes a character, and ten more for each that is written as _x000D_; see xlsx_unescape(). */
#define XLSX_MAX_CELL_BYTES (XLSX_MAX_CELL_CHARS * 7)

/* How a number is shown, as far as it says what the number is. */
enum number_format {
    FORMAT_NUMBER,
    FORMAT_DATE,
    FORMAT_TIME,
    FORMAT_ELAPSED,
    FORMAT_PADDED, /* + n: with n digits, zeros in front (00000): the code of something */
    _FORMAT_MAX = FORMAT_PADDED + 19
};

struct xlsx_sheet {
    const char *id, *name, *path; /* path NULL: none is known */
};

struct xlsx_book {
    struct package package;
    struct arena arena; /* of the sheets */
    struct xlsx_options options;
    bool ods;
    const void *xls;           /* libfreexl's handle; NULL: it is none of those */
    struct xlsx_sheet *sheets; /* visible ones */
    size_t n_sheets, sheets_cap;
    char strings_path[512], styles_path[512]; /* "" for none */
    bool since_1904;
    struct buf formats; /* enum number_format of each style, a byte each */
    struct buf strings; /* all shared strings, one behind the other */
    struct buf ends;    /* uint32_t each: where a string ends */
};

#define XLSX_MAX_SHEETS 10000
int xlsx_add_sheet(struct xlsx_book *b, const char *id, const char *name, struct err *err);

/* A cell in words: "B7". */
#define XLSX_CELL_NAME_SIZE 24
void xlsx_cell_name(size_t column, int64_t row, char ret[XLSX_CELL_NAME_SIZE]);

/* What a column's values are; bits, because there may be several kinds. */
enum cell_kind {
    CELL_NONE = 0,
    CELL_TEXT = 1,
    CELL_INTEGER = 2,
    CELL_REAL = 4,
    CELL_BOOLEAN = 8,
    CELL_DATE = 16,
    CELL_TIMESTAMP = 32,
    CELL_TIME = 64,
    CELL_INTERVAL = 128,
};

/* ---- xlsx_value.c: single values ---- */

enum number_format xlsx_format_of(const char *code); /* of a number format's code */
enum number_format xlsx_builtin_format(long id);

/* Turns _x000D_ and its like into characters, in place; the new length. */
size_t xlsx_unescape(char *text, size_t len);

/* Replaces *text (of a number) by what it is; CELL_NONE if it is no number. */
enum cell_kind xlsx_number(struct buf *text, enum number_format format, bool since_1904,
                           struct err *err);

/* ---- xlsx_sheet.c ---- */

int xlsx_read_sheet(struct xlsx_book *wb, const struct xlsx_sheet *which, struct sheet_writer *w,
                    struct err *err);

/* ---- ods.c ---- */

int ods_list_sheets(struct xlsx_book *b, struct err *err);
int ods_read_sheet(struct xlsx_book *b, size_t which, struct sheet_writer *w, struct err *err);

/* ---- xls.c ---- */

int xls_list_sheets(struct xlsx_book *b, struct err *err);
int xls_read_sheet(struct xlsx_book *b, size_t which, struct sheet_writer *w, struct err *err);
void xls_close(struct xlsx_book *b);

/* ---- xlsx.c ---- */

/* Opens a part as XML. 0: there is no such part. */
int xlsx_open_part(struct xlsx_book *wb, const char *path, struct package_stream **ret_stream,
                   struct xml *x, struct err *err);

/*
 * Appends the text behind a START up to its END, that of the elements <t> only when `runs`; ≤
 * XLSX_MAX_CELL_BYTES.
 */
int xlsx_collect_text(struct xml *x, bool runs, struct buf *out, struct err *err);

#endif
