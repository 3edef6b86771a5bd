#include "kernel/ingest/xlsx/sheet_writer.h"

#include <inttypes.h>
#include <string.h>
#include "base/fdio.h"
#include "base/macros.h"

#define FLUSH_BYTES (256u << 10)
#define MAX_GAPS 100000 /* beyond them lines are no longer numbered as rows are */

void sheet_writer_init(struct sheet_writer *w, int fd, uint64_t max_bytes)
{
    *w = (struct sheet_writer){ .fd = fd, .max_bytes = max_bytes };
    /* Quotes double, and each field has two and a comma. */
    buf_init(&w->csv, FLUSH_BYTES + MAX_GAPS + 3 * (size_t)SHEET_MAX_ROW_BYTES);
}

void sheet_writer_finish(struct sheet_writer *w)
{
    buf_finish(&w->csv);
}

int sheet_writer_flush(struct sheet_writer *w, struct err *err)
{
    w->written += w->csv.len;
    if (w->written > w->max_bytes)
        return err_set(err, ERR_VALIDATION, "its rows are more than %llu MB of text",
                       (unsigned long long)(w->max_bytes >> 20));
    int r = w->csv.len ? fd_write_all(w->fd, w->csv.data, w->csv.len, err) : 0;
    buf_clear(&w->csv);
    return r;
}

static int too_large(const struct sheet_writer *w, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %u MB of text", w->row,
                   SHEET_MAX_ROW_BYTES >> 20);
}

/* A row's empty lines are written with its first cell: rows without any are not. */
static int begin_cell(struct sheet_writer *w, size_t column, struct err *err)
{
    int r = 0;

    for (; r == 0 && w->column < column; w->column++)
        r = buf_append(&w->csv, ",", 1, err);
    w->width = MAX_OF(w->width, column + 1);
    return r;
}

int sheet_writer_row(struct sheet_writer *w, int64_t row, struct err *err)
{
    int r = 0;

    for (int64_t next = w->row + 1; r == 0 && next < row && w->n_gaps < MAX_GAPS; next++) {
        r = buf_append(&w->csv, "\n", 1, err);
        w->n_gaps++;
    }
    w->row = row;
    w->begin = w->csv.len;
    w->column = 0;
    return r;
}

/* Control characters have no place in a table; NUL would end it. */
static int append_text(struct sheet_writer *w, const char *text, size_t len, struct err *err)
{
    int r = 0;

    for (size_t from = 0; r == 0 && from < len;) {
        size_t n = from;

        while (n < len && text[n] != '"' &&
               ((unsigned char)text[n] >= ' ' || strchr("\t\n\r", text[n] ? text[n] : 'x')))
            n++;
        r = buf_append(&w->csv, text + from, n - from, err);
        if (r == 0 && n < len && text[n] == '"')
            r = buf_append(&w->csv, "\"\"", 2, err);
        from = n + 1;
    }
    return r;
}

int sheet_writer_text(struct sheet_writer *w, size_t column, const char *text, size_t len,
                      struct err *err)
{
    int r = begin_cell(w, column, err);

    if (r == 0)
        r = buf_append(&w->csv, "\"", 1, err);
    if (r == 0)
        r = append_text(w, text, len, err);
    if (r == 0)
        r = buf_append(&w->csv, "\"", 1, err);
    return r == -ERR_TOO_LARGE ? too_large(w, err) : r;
}

int sheet_writer_value(struct sheet_writer *w, size_t column, const char *text, size_t len,
                       struct err *err)
{
    int r = begin_cell(w, column, err);

    if (r == 0)
        r = buf_append(&w->csv, text, len, err);
    return r == -ERR_TOO_LARGE ? too_large(w, err) : r;
}

int sheet_writer_end_row(struct sheet_writer *w, struct err *err)
{
    int r = buf_append(&w->csv, "\n", 1, err);

    w->n_rows++;
    if (w->csv.len - w->begin > 2 * (size_t)SHEET_MAX_ROW_BYTES)
        return too_large(w, err);
    return r == 0 && w->csv.len >= FLUSH_BYTES ? sheet_writer_flush(w, err) : r;
}
