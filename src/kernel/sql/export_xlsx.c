/*
 * A result as a workbook. libxlsxwriter keeps one row in memory (constant_memory) and the rest in a
 * file below /tmp. Past the rows that a sheet can hold the result goes on in another sheet.
 *
 * Values come as DuckDB's text. Numbers that a double cannot hold exactly stay text, and so do
 * times before 1900, which Excel does not have.
 */

#include "kernel/sql/export_xlsx.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xlsxwriter.h>
#include "base/fdio.h"

#define FILE_PATH "/tmp/.export.xlsx"
#define SHEET_ROWS 1048576 /* the header included */
#define SHEET_COLUMNS 16384
#define EXACT_DIGITS 15

struct book {
    lxw_workbook *book;
    lxw_worksheet *sheet;
    lxw_format *bold, *date, *time;
    const struct export_column *columns;
    size_t n_columns;
    uint32_t row; /* of the sheet: the next one */
    char *cell;   /* a text with its end */
    size_t cell_size;
};

static lxw_error write_text(struct book *b, size_t column, const char *text, lxw_format *format)
{
    return worksheet_write_string(b->sheet, b->row, (lxw_col_t)column, text, format);
}

static lxw_error next_sheet(struct book *b)
{
    lxw_error r = LXW_NO_ERROR;

    b->sheet = workbook_add_worksheet(b->book, NULL);
    if (!b->sheet)
        return LXW_ERROR_MEMORY_MALLOC_FAILED;
    b->row = 0;
    for (size_t i = 0; r == LXW_NO_ERROR && i < b->n_columns; i++)
        r = write_text(b, i, b->columns[i].name, b->bold);
    worksheet_freeze_panes(b->sheet, 1, 0);
    b->row = 1;
    return r;
}

static bool is_exact(const char *text)
{
    size_t digits = 0;

    if (strpbrk(text, "eE"))
        return true; /* of a double: its shortest form */
    for (const char *p = text; *p; p++)
        if (*p >= '0' && *p <= '9' && (digits || *p != '0'))
            digits++;
    return digits <= EXACT_DIGITS || (strchr(text, '.') && digits <= EXACT_DIGITS + 2);
}

static lxw_error write_number(struct book *b, size_t column, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (*end || !isfinite(value) || !is_exact(text))
        return write_text(b, column, text, NULL);
    return worksheet_write_number(b->sheet, b->row, (lxw_col_t)column, value, NULL);
}

static lxw_error write_time(struct book *b, size_t column, const char *text, bool is_date)
{
    lxw_datetime at = { 0 };
    int n = sscanf(text, "%4d-%2d-%2d %2d:%2d:%lf", &at.year, &at.month, &at.day, &at.hour, &at.min,
                   &at.sec);

    if (n < 3 || at.year < 1900 || at.year > 9999 || strstr(text, "BC"))
        return write_text(b, column, text, NULL);
    return worksheet_write_datetime(b->sheet, b->row, (lxw_col_t)column, &at,
                                    is_date ? b->date : b->time);
}

static lxw_error write_cell(struct book *b, size_t column, const char *text)
{
    switch (b->columns[column].kind) {
    case EXPORT_NUMBER:
        return write_number(b, column, text);
    case EXPORT_BOOLEAN:
        return worksheet_write_boolean(b->sheet, b->row, (lxw_col_t)column, text[0] == 't', NULL);
    case EXPORT_DATE:
    case EXPORT_TIMESTAMP:
        return write_time(b, column, text, b->columns[column].kind == EXPORT_DATE);
    default:
        return write_text(b, column, text, NULL);
    }
}

/* The text of a value, ended; NULL for NULL. */
static const char *cell_text(struct book *b, duckdb_vector vector, idx_t row, bool *ret_no_memory)
{
    uint64_t *validity = duckdb_vector_get_validity(vector);
    if (validity && !duckdb_validity_row_is_valid(validity, row))
        return NULL;
    duckdb_string_t s = ((duckdb_string_t *)duckdb_vector_get_data(vector))[row];
    size_t len = duckdb_string_t_length(s);
    if (len >= b->cell_size) {
        char *larger = realloc(b->cell, len + 1024);
        *ret_no_memory = !larger;
        if (!larger)
            return NULL;
        b->cell = larger;
        b->cell_size = len + 1024;
    }
    memcpy(b->cell, duckdb_string_t_data(&s), len);
    b->cell[len] = '\0';
    return b->cell;
}

static lxw_error write_chunk(struct book *b, duckdb_data_chunk chunk)
{
    idx_t n = duckdb_data_chunk_get_size(chunk);
    lxw_error r = LXW_NO_ERROR;

    for (idx_t i = 0; r == LXW_NO_ERROR && i < n; i++, b->row++) {
        if (b->row == SHEET_ROWS)
            r = next_sheet(b);
        for (size_t c = 0; r == LXW_NO_ERROR && c < b->n_columns; c++) {
            bool no_memory = false;
            const char *text = cell_text(b, duckdb_data_chunk_get_vector(chunk, c), i, &no_memory);
            if (text)
                r = write_cell(b, c, text);
            else if (no_memory)
                r = LXW_ERROR_MEMORY_MALLOC_FAILED;
        }
    }
    return r;
}

static char *describe(lxw_error r)
{
    char *text = NULL;

    if (r == LXW_ERROR_MAX_STRING_LENGTH_EXCEEDED)
        return strdup("a text is longer than the 32,767 characters that a cell of XLSX can hold; "
                      "export CSV, JSON or Parquet");
    return asprintf(&text, "writing the workbook: %s", lxw_strerror(r)) < 0 ? NULL : text;
}

static char *fill(struct sql_engine *e, struct book *b, const char *sql)
{
    auto_result duckdb_result result = { 0 };
    duckdb_prepared_statement statement = NULL;
    duckdb_pending_result pending = NULL;
    const char *failure = NULL;
    char *text = NULL;
    lxw_error r = LXW_NO_ERROR;

    if (duckdb_prepare(e->con, sql, &statement) != DuckDBSuccess)
        failure = duckdb_prepare_error(statement);
    else if (duckdb_pending_prepared_streaming(statement, &pending) != DuckDBSuccess)
        failure = duckdb_pending_error(pending);
    else if (duckdb_execute_pending(pending, &result) != DuckDBSuccess)
        failure = duckdb_result_error(&result);
    else
        r = next_sheet(b);
    while (!failure && r == LXW_NO_ERROR) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
        if (!chunk) {
            failure = duckdb_result_error(&result);
            break;
        }
        if (sql_must_stop(e))
            failure = "INTERRUPT Error: Interrupted!";
        else
            r = write_chunk(b, chunk);
        duckdb_destroy_data_chunk(&chunk);
    }
    if (failure)
        text = strdup(failure);
    else if (r != LXW_NO_ERROR)
        text = describe(r);
    duckdb_destroy_result(&result);
    if (pending)
        duckdb_destroy_pending(&pending);
    if (statement)
        duckdb_destroy_prepare(&statement);
    return text;
}

static char *send_file(int fd)
{
    char bytes[65536];
    struct err err = ERR_INIT;
    auto_close int file = open(FILE_PATH, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : 0;

    while (file >= 0 && (n = read(file, bytes, sizeof(bytes))) > 0)
        if (fd_write_all(fd, bytes, (size_t)n, &err) < 0)
            return strdup(err.message);
    (void)unlink(FILE_PATH);
    return n < 0 ? strdup("the workbook cannot be read") : NULL;
}

char *export_xlsx(struct sql_engine *e, const char *sql, const struct export_column *columns,
                  size_t n_columns, int fd)
{
    struct book b = { .columns = columns, .n_columns = n_columns };
    lxw_workbook_options options = { .constant_memory = LXW_TRUE, .tmpdir = (char *)"/tmp" };

    if (n_columns > SHEET_COLUMNS)
        return strdup("a sheet of XLSX holds 16,384 columns; export CSV, JSON or Parquet");
    b.book = workbook_new_opt(FILE_PATH, &options);
    if (!b.book)
        return strdup("a workbook cannot be made");
    b.bold = workbook_add_format(b.book);
    b.date = workbook_add_format(b.book);
    b.time = workbook_add_format(b.book);
    if (b.bold)
        format_set_bold(b.bold);
    if (b.date)
        format_set_num_format(b.date, "yyyy-mm-dd");
    if (b.time)
        format_set_num_format(b.time, "yyyy-mm-dd hh:mm:ss");
    char *failure = fill(e, &b, sql);
    lxw_error r = workbook_close(b.book);
    free(b.cell);
    if (!failure && r != LXW_NO_ERROR)
        failure = describe(r);
    return failure ? failure : send_file(fd);
}
