/*
 * What a run printed and gave, as text: `output` of a code_run. Clients that know no results show
 * it to people, so the first rows are a table in it.
 */

#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "agent/shape.h"
#include "base/str.h"

#define SHOWN_OUTPUT_BYTES 20000
#define SHOWN_ROWS 20
#define SHOWN_COLUMNS 30
#define CELL_CHARACTERS 40

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* Of a cell: on one line, and cut where it is long. */
static json_t *cell_text(const json_t *cell)
{
    auto_free char *written = json_is_string(cell) ? NULL : json_to_str(cell);
    char real[32]; /* 15 digits: without the noise of sums */
    snprintf(real, sizeof(real), "%.15g", json_real_value(cell));
    const char *s = json_is_string(cell) ? json_string_value(cell) :
                    json_is_null(cell)   ? "NULL" :
                    json_is_real(cell)   ? real :
                    written              ? written :
                                           "";
    auto_buf struct buf b = BUF_INIT(1024);
    struct err ignored = ERR_INIT;
    size_t n = 0;
    for (; *s && n < CELL_CHARACTERS; n++) {
        size_t len = 1;
        while (((unsigned char)s[len] & 0xc0) == 0x80)
            len++;
        (void)buf_append(&b, (unsigned char)*s < 0x20 ? " " : s, (unsigned char)*s < 0x20 ? 1 : len,
                         &ignored);
        s += len;
    }
    if (*s)
        (void)buf_append_str(&b, "…", &ignored);
    return json_text(b.data, b.len);
}

static int append_line(struct buf *b, const json_t *line, const size_t *widths, const bool *numbers,
                       struct err *err)
{
    size_t i, n = json_array_size(line);
    json_t *cell;
    int r = 0;
    json_array_foreach(line, i, cell) {
        const char *s = json_string_value(cell) ? json_string_value(cell) : "";
        int pad = (int)(widths[i] - characters(s));
        if (r == 0)
            r = numbers[i] ?
                    buf_printf(b, err, "%s%*s%s", i ? "  " : "", pad, "", s) :
                    buf_printf(b, err, "%s%s%*s", i ? "  " : "", s, i + 1 < n ? pad : 0, "");
    }
    return r == 0 ? buf_append_str(b, "\n", err) : r;
}

/* The first rows below their columns, and how many there are. */
static void append_table(struct buf *b, const json_t *result)
{
    const json_t *columns = json_object_get(result, "columns"),
                 *rows = json_object_get(result, "rows");
    size_t widths[SHOWN_COLUMNS] = { 0 }, n = MIN_OF(json_array_size(columns), SHOWN_COLUMNS), i, k;
    size_t start = b->len, shown = 0, there = json_array_size(rows);
    bool numbers[SHOWN_COLUMNS];
    auto_json json_t *lines = json_array();
    json_t *line;
    double number;
    struct err err = ERR_INIT;
    memset(numbers, there > 0, sizeof(numbers));
    for (i = 0; i <= MIN_OF(there, SHOWN_ROWS); i++) {
        const json_t *row = i == 0 ? columns : json_array_get(rows, i - 1);
        json_array_append_new(lines, line = json_array());
        for (k = 0; k < n; k++) {
            const json_t *cell = json_array_get(row, k);
            json_t *text = cell_text(cell);
            widths[k] = MAX_OF(widths[k], characters(json_string_value(text)));
            numbers[k] = numbers[k] &&
                         (i == 0 || shape_number(cell, &number) || json_is_null(cell));
            json_array_append_new(line, text);
        }
    }
    json_array_foreach(lines, i, line) {
        size_t before = b->len;
        if (append_line(b, line, widths, numbers, &err) < 0 ||
            b->len - start > SHOWN_OUTPUT_BYTES / 2) {
            b->len = before;
            break;
        }
        shown = i;
    }
    json_int_t count = json_integer_value(json_object_get(result, "row_count"));
    (void)buf_printf(b, &err, "%lld row%s", (long long)count, count == 1 ? "" : "s");
    if ((json_int_t)shown < count)
        (void)buf_printf(b, &err, ", the first %zu shown", shown);
    if (json_array_size(columns) > n)
        (void)buf_printf(b, &err, ", %zu of %zu columns", n, json_array_size(columns));
    if (json_is_true(json_object_get(result, "truncated")))
        (void)buf_append_str(b, "; the result was cut, there are more", &err);
}

static void append_cut(struct buf *b, const char *text, size_t max)
{
    struct err ignored = ERR_INIT;
    if (text && *text)
        (void)buf_append(b, text, str_utf8_cut(text, strlen(text), max), &ignored);
}

json_t *run_text(const json_t *result)
{
    auto_buf struct buf b = BUF_INIT(2 * SHOWN_OUTPUT_BYTES);
    const json_t *error = json_object_get(result, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *trace = json_string_value(json_object_get(error, "traceback"));
    const char *value = json_string_value(
        json_object_get(json_object_get(result, "value"), "text"));
    struct err ignored = ERR_INIT;
    append_cut(&b, json_string_value(json_object_get(result, "stdout")), SHOWN_OUTPUT_BYTES / 2);
    append_cut(&b, json_string_value(json_object_get(result, "stderr")), SHOWN_OUTPUT_BYTES / 4);
    if (message) {
        (void)buf_append_str(&b, b.len ? "\n[error]: " : "[error]: ", &ignored);
        append_cut(&b, trace && *trace ? trace : message, SHOWN_OUTPUT_BYTES / 4);
    } else {
        bool has_columns = json_array_size(json_object_get(result, "columns")) > 0;
        if (b.len && b.data[b.len - 1] != '\n' && ((value && *value) || has_columns))
            (void)buf_append_str(&b, "\n", &ignored);
        if (value && *value)
            append_cut(&b, value, SHOWN_OUTPUT_BYTES / 4);
        else if (has_columns)
            append_table(&b, result);
    }
    if (b.len == 0)
        (void)buf_append_str(&b, "(executed, no output)", &ignored);
    return json_text(b.data, b.len);
}
