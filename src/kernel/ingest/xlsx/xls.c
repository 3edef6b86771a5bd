/*
 * Workbooks of Excel 97 and before (.xls), read by libfreexl. It reads a file by its path, all of
 * it at once, and does not tell hidden sheets from others.
 */

#include <freexl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define EXACT_INTEGER 1e15

static int failed(int status, struct err *err)
{
    switch (status) {
    case FREEXL_INSUFFICIENT_MEMORY:
        return err_set(err, ERR_VALIDATION, "it needs more memory than there is");
    case FREEXL_BIFF_WORKBOOK_NOT_FOUND:
        return err_set(err, ERR_VALIDATION, "there is no workbook in it, or it has a password");
    case FREEXL_UNSUPPORTED_CHARSET:
    case FREEXL_INVALID_CHARACTER:
        return err_set(err, ERR_VALIDATION, "its encoding cannot be read");
    default:
        return err_set(err, ERR_VALIDATION, "it is damaged (%d)", status);
    }
}

int xls_list_sheets(struct xlsx_book *b, struct err *err)
{
    unsigned int n = 0, password = 0;
    int status = freexl_open(b->options.path, &b->xls), r = 0;

    if (status == FREEXL_OK)
        status = freexl_get_info(b->xls, FREEXL_BIFF_PASSWORD, &password);
    if (status == FREEXL_OK)
        status = freexl_get_info(b->xls, FREEXL_BIFF_SHEET_COUNT, &n);
    if (status != FREEXL_OK)
        return failed(status, err);
    if (password == FREEXL_BIFF_OBFUSCATED)
        return err_set(err, ERR_VALIDATION, "it has a password");
    for (unsigned int i = 0; r == 0 && i < n; i++) {
        const char *name = NULL;

        freexl_get_worksheet_name(b->xls, (unsigned short)i, &name);
        r = xlsx_add_sheet(b, "", name && str_is_utf8(name, strlen(name)) ? name : "", err);
    }
    if (r == 0 && n == 0)
        r = err_set(err, ERR_VALIDATION, "it has no sheet");
    return r;
}

void xls_close(struct xlsx_book *b)
{
    if (b->xls)
        freexl_close(b->xls);
    b->xls = NULL;
}

static int write_number(struct sheet_writer *w, size_t column, double v, struct err *err)
{
    char text[STR_DOUBLE_SIZE];

    if (!isfinite(v))
        return 0;
    if (v == floor(v) && fabs(v) < EXACT_INTEGER)
        str_from_i64((int64_t)v, text);
    else
        str_from_double(v, text);
    return sheet_writer_value(w, column, text, strlen(text), err);
}

static int write_cell(struct sheet_writer *w, size_t column, const FreeXL_CellValue *cell,
                      struct err *err)
{
    const char *text = cell->value.text_value;

    switch (cell->type) {
    case FREEXL_CELL_INT:
        return write_number(w, column, cell->value.int_value, err);
    case FREEXL_CELL_DOUBLE:
        return write_number(w, column, cell->value.double_value, err);
    case FREEXL_CELL_TEXT:
    case FREEXL_CELL_SST_TEXT:
        if (!text || strnlen(text, XLSX_MAX_CELL_BYTES) == XLSX_MAX_CELL_BYTES ||
            !str_is_utf8(text, strlen(text)))
            return text ? err_set(err, ERR_VALIDATION, "it has a text that cannot be read") : 0;
        return *text ? sheet_writer_text(w, column, text, strlen(text), err) : 0;
    case FREEXL_CELL_DATE:
    case FREEXL_CELL_DATETIME:
    case FREEXL_CELL_TIME:
        return text ? sheet_writer_value(w, column, text, strlen(text), err) : 0;
    default:
        return 0;
    }
}

int xls_read_sheet(struct xlsx_book *b, size_t which, struct sheet_writer *w, struct err *err)
{
    unsigned int rows = 0;
    unsigned short columns = 0;
    int status = freexl_select_active_worksheet(b->xls, (unsigned short)which), r = 0;

    if (status == FREEXL_OK)
        status = freexl_worksheet_dimensions(b->xls, &rows, &columns);
    if (status != FREEXL_OK)
        return failed(status, err);
    for (unsigned int row = 0; r == 0 && row < rows; row++) {
        if (b->options.must_stop(b->options.stop_arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        if (b->options.progress)
            b->options.progress(b->options.progress_arg, (double)row / rows);
        r = sheet_writer_row(w, (int64_t)row + 1, err);
        for (unsigned short column = 0; r == 0 && column < columns; column++) {
            FreeXL_CellValue cell = { 0 };

            status = freexl_get_cell_value(b->xls, row, column, &cell);
            r = status == FREEXL_OK ? write_cell(w, column, &cell, err) : failed(status, err);
        }
        if (r == 0)
            r = sheet_writer_end_row(w, err);
    }
    return r < 0 ? r : sheet_writer_flush(w, err);
}
