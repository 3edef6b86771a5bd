/*
 * OpenDocument sheets: all of them are in content.xml, one behind the other. It is gone through
 * once for their names, and once for each that is read. A row or a cell may stand for many; those
 * with nothing in them do not count.
 */

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define MAX_HIDDEN_BYTES (64 * 1024)
#define ROWS_BETWEEN_CHECKS 256

/* ---- which sheets there are ---- */

/* Styles of tables that are not shown, each with its NUL. */
static bool is_hidden(const struct buf *hidden, const char *style)
{
    for (size_t at = 0; at < hidden->len; at += strlen(hidden->data + at) + 1)
        if (str_eq(hidden->data + at, style))
            return true;
    return false;
}

static int note_style(struct xml *x, const struct buf *style, struct buf *hidden, struct err *err)
{
    if (!str_eq(xml_attribute(x, "display"), "false"))
        return 0;
    int r = buf_append(hidden, buf_cstr(style), strlen(buf_cstr(style)) + 1, err);
    return r == -ERR_TOO_LARGE ? err_set(err, ERR_VALIDATION, "it has too many styles") : r;
}

/* The sheet's place among all of them is its id. */
static int note_table(struct xlsx_book *b, struct xml *x, const struct buf *hidden, size_t place,
                      struct err *err)
{
    char id[24];

    if (is_hidden(hidden, xml_attribute(x, "style-name")))
        return 0;
    snprintf(id, sizeof(id), "%zu", place);
    return xlsx_add_sheet(b, id, xml_attribute(x, "name"), err);
}

int ods_list_sheets(struct xlsx_book *b, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    auto_buf struct buf style = BUF_INIT(XML_MAX_TAG_BYTES);
    auto_buf struct buf hidden = BUF_INIT(MAX_HIDDEN_BYTES);
    bool any = false;
    size_t place = 0;
    int r = xlsx_open_part(b, "content.xml", &stream, &x, err);

    while (r >= 0) {
        int token = xml_next(&x, err);

        if (token < 0)
            return token;
        if (token == XML_EOF)
            break;
        r = 0;
        any = any || (token == XML_START && xml_is(&x, "spreadsheet"));
        if (token == XML_START && xml_is(&x, "style") && !any) {
            buf_clear(&style);
            r = buf_append_str(&style, xml_attribute(&x, "name"), err);
        } else if (token == XML_START && xml_is(&x, "table-properties") && !any)
            r = note_style(&x, &style, &hidden, err);
        else if (token == XML_START && xml_is(&x, "table") && any) {
            r = note_table(b, &x, &hidden, place++, err);
            if (r == 0)
                r = xml_skip(&x, err);
        }
    }
    if (r == 0 && !any)
        r = err_set(err, ERR_VALIDATION, "it is a document without sheets");
    if (r == 0 && b->n_sheets == 0)
        r = err_set(err, ERR_VALIDATION, "it has no visible sheet");
    return r;
}

/* ---- one of them ---- */

struct ods_cell {
    size_t column, at, len;
    size_t n; /* so many of them */
    bool text;
};

struct ods_sheet {
    struct xlsx_book *b;
    struct sheet_writer *w;
    struct xml x;
    struct buf cells; /* struct ods_cell of the row */
    struct buf text;  /* … and what is in them */
    struct buf value;
    int64_t row;
    size_t column; /* the next */
};

static int64_t repeated(const struct xml *x, const char *name)
{
    int64_t n = strtoll(xml_attribute(x, name), NULL, 10);

    return n < 1 ? 1 : n;
}

/* <text:p>: pieces of text, blanks that are counted, tabs and line breaks. */
static int collect_paragraph(struct ods_sheet *s, struct err *err)
{
    size_t depth = s->x.depth;
    int r = 0;

    while (r == 0) {
        int token = xml_next(&s->x, err);

        if (token < 0)
            return token;
        if (token == XML_TEXT) {
            r = buf_append(&s->value, s->x.text, s->x.text_len, err);
        } else if (token == XML_START && xml_is(&s->x, "s")) {
            for (int64_t n = MIN_OF(repeated(&s->x, "c"), (int64_t)XLSX_MAX_CELL_CHARS);
                 r == 0 && n > 0; n--)
                r = buf_append(&s->value, " ", 1, err);
        } else if (token == XML_START && (xml_is(&s->x, "tab") || xml_is(&s->x, "line-break"))) {
            r = buf_append(&s->value, xml_is(&s->x, "tab") ? "\t" : "\n", 1, err);
        } else if (token == XML_START && xml_is(&s->x, "annotation")) {
            r = xml_skip(&s->x, err);
        } else if (token == XML_END && s->x.depth < depth) {
            return 0;
        }
    }
    return r;
}

/* What the cell shows, into s->value. */
static int collect_cell(struct ods_sheet *s, struct err *err)
{
    size_t depth = s->x.depth;
    bool first = true;
    int r = 0;

    buf_clear(&s->value);
    while (r == 0) {
        int token = xml_next(&s->x, err);

        if (token < 0)
            return token;
        if (token == XML_END && s->x.depth < depth)
            return 0;
        if (token == XML_START && xml_is(&s->x, "p")) {
            if (!first)
                r = buf_append(&s->value, "\n", 1, err);
            first = false;
            if (r == 0)
                r = collect_paragraph(s, err);
        } else if (token == XML_START) {
            r = xml_skip(&s->x, err);
        }
    }
    return r == -ERR_TOO_LARGE ? err_set(err, ERR_VALIDATION, "a cell has more than %d characters",
                                         XLSX_MAX_CELL_CHARS) :
                                 r;
}

/* PT26H30M05.5S → 26:30:05.5, marked if it is no time of the day. False: it is none. */
static bool duration(const char *s, char *ret, size_t size)
{
    long long hours = 0, minutes = 0, seconds = 0;
    char fraction[10] = "";
    bool minus = *s == '-';

    s += minus;
    if (s[0] != 'P')
        return false;
    for (s++; *s; s++) {
        char *end;
        long long n;

        if (*s == 'T')
            continue;
        if (!isdigit((unsigned char)*s))
            return false;
        n = strtoll(s, &end, 10);
        if (n > 1000000000)
            return false;
        if (*end == '.' || *end == ',') {
            size_t digits = strspn(end + 1, "0123456789");

            snprintf(fraction, sizeof(fraction), ".%.*s", (int)MIN_OF(digits, (size_t)6), end + 1);
            end += 1 + digits;
        }
        if (*end == 'H')
            hours += n;
        else if (*end == 'M')
            minutes += n;
        else if (*end == 'S')
            seconds += n;
        else if (*end == 'D')
            hours += 24 * n;
        else
            return false;
        s = end;
    }
    minutes += seconds / 60;
    hours += minutes / 60;
    snprintf(ret, size, "%s%s%02lld:%02lld:%02lld%s", minus || hours > 23 ? "\1" : "",
             minus ? "-" : "", hours, minutes % 60, seconds % 60,
             strspn(fraction, ".0") == strlen(fraction) ? "" : fraction);
    return true;
}

static int add_cell(struct ods_sheet *s, bool text, const char *from, size_t len, size_t n,
                    struct err *err)
{
    struct ods_cell c = { s->column, s->text.len, len, n, text };
    int r;

    if (len == 0)
        return 0;
    if (s->column + n > XLSX_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %d columns", s->row,
                       XLSX_MAX_COLUMNS);
    r = buf_append(&s->text, from, len, err);
    if (r == 0)
        r = buf_append(&s->cells, &c, sizeof(c), err);
    return r == -ERR_TOO_LARGE ?
               err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %u MB of text", s->row,
                       SHEET_MAX_ROW_BYTES >> 20) :
               r;
}

/* A number, date, time or truth value, which s->value is by its attribute; else its text. */
static int add_value(struct ods_sheet *s, const char *type, size_t n, struct err *err)
{
    const char *value = buf_cstr(&s->value);
    char text[80];

    if (str_eq(type, "boolean") && (str_eq(value, "true") || str_eq(value, "false")))
        return add_cell(s, false, value, s->value.len, n, err);
    if (str_eq(type, "time") && duration(value, text, sizeof(text)))
        return add_cell(s, false, text, strlen(text), n, err);
    if (str_eq(type, "date") && isdigit((unsigned char)value[0]) &&
        strspn(value, "0123456789-:.T") == s->value.len && s->value.len >= 10) {
        /* Midnight is written as well. */
        size_t len = str_ends(value, "T00:00:00") ? 10 : s->value.len;

        return add_cell(s, false, value, MIN_OF(len, (size_t)26), n, err);
    }
    if (str_eq(type, "float") || str_eq(type, "percentage") || str_eq(type, "currency")) {
        enum cell_kind kind = xlsx_number(&s->value, FORMAT_NUMBER, false, err);

        if (kind != CELL_NONE)
            return add_cell(s, false, buf_cstr(&s->value), s->value.len, n, err);
    }
    return add_cell(s, true, value, s->value.len, n, err);
}

static int read_cell(struct ods_sheet *s, struct err *err)
{
    static const char *const names[][2] = {
        { "float", "value" },        { "percentage", "value" }, { "currency", "value" },
        { "date", "date-value" },    { "time", "time-value" },  { "boolean", "boolean-value" },
        { "string", "string-value" }
    };
    int64_t n = repeated(&s->x, "number-columns-repeated");
    auto_buf struct buf value = BUF_INIT(XLSX_MAX_CELL_BYTES);
    bool is_error = xml_has(&s->x, "value-type", "error");
    bool formula = *xml_attribute(&s->x, "formula");
    char type[16];
    int r = 0;

    snprintf(type, sizeof(type), "%s", xml_attribute(&s->x, "value-type"));
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
        if (str_eq(type, names[i][0]))
            r = buf_append_str(&value, xml_attribute(&s->x, names[i][1]), err);
    if (r == 0)
        r = collect_cell(s, err);
    if (r < 0)
        return r;
    if (is_error) {
        s->w->n_errors++;
    } else if (value.len > 0) {
        buf_clear(&s->value);
        r = buf_append(&s->value, value.data, value.len, err);
        if (r == 0)
            r = add_value(s, type, (size_t)MIN_OF(n, (int64_t)XLSX_MAX_COLUMNS + 1), err);
    } else if (s->value.len > 0) {
        r = add_cell(s, true, buf_cstr(&s->value), s->value.len,
                     (size_t)MIN_OF(n, (int64_t)XLSX_MAX_COLUMNS + 1), err);
    } else {
        s->w->n_valueless += formula;
    }
    s->column += (size_t)MIN_OF(n, (int64_t)XLSX_MAX_COLUMNS + 1);
    return r;
}

static int write_row(struct ods_sheet *s, struct err *err)
{
    size_t n = s->cells.len / sizeof(struct ods_cell);
    int r = sheet_writer_row(s->w, s->row, err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        struct ods_cell c;

        memcpy(&c, s->cells.data + i * sizeof(c), sizeof(c));
        for (size_t k = 0; r == 0 && k < c.n; k++)
            r = (c.text ? sheet_writer_text : sheet_writer_value)(s->w, c.column + k,
                                                                  s->text.data + c.at, c.len, err);
    }
    return r < 0 ? r : sheet_writer_end_row(s->w, err);
}

static int read_row(struct ods_sheet *s, struct err *err)
{
    int64_t n = repeated(&s->x, "number-rows-repeated");
    size_t depth = s->x.depth;
    int r = 0;

    s->column = 0;
    buf_clear(&s->cells);
    buf_clear(&s->text);
    s->row++;
    while (r == 0) {
        int token = xml_next(&s->x, err);

        if (token < 0)
            return token;
        if (token == XML_END && s->x.depth < depth)
            break;
        if (token == XML_START)
            r = xml_is(&s->x, "table-cell") || xml_is(&s->x, "covered-table-cell") ?
                    read_cell(s, err) :
                    xml_skip(&s->x, err);
    }
    if (r < 0)
        return r;
    if (s->cells.len == 0) {
        s->row += MIN_OF(n, (int64_t)XLSX_MAX_ROWS) - 1;
        return 0;
    }
    if (s->row + n - 1 > XLSX_MAX_ROWS)
        return err_set(err, ERR_VALIDATION, "it has more than %d rows", XLSX_MAX_ROWS);
    for (int64_t k = 0; r == 0 && k < n; k++) {
        s->row += k > 0;
        r = write_row(s, err);
        if (r == 0 && s->w->n_rows % ROWS_BETWEEN_CHECKS == 0 &&
            s->b->options.must_stop(s->b->options.stop_arg))
            r = err_set(err, ERR_CANCELLED, "interrupted");
    }
    return r;
}

/* Rows may be in groups, and sheets may have other tables in them. */
static int read_table(struct ods_sheet *s, const struct package_stream *stream, struct err *err)
{
    const struct xlsx_options *o = &s->b->options;
    size_t depth = s->x.depth;
    int r = 0;

    while (r == 0) {
        int token = xml_next(&s->x, err);

        if (token < 0)
            return token;
        if (token == XML_END && s->x.depth < depth)
            return 0;
        if (token != XML_START)
            continue;
        if (xml_is(&s->x, "table-row")) {
            r = read_row(s, err);
            if (o->progress)
                o->progress(o->progress_arg, package_stream_progress(stream));
        } else if (!xml_is(&s->x, "table-rows") && !xml_is(&s->x, "table-row-group") &&
                   !xml_is(&s->x, "table-header-rows")) {
            r = xml_skip(&s->x, err);
        }
    }
    return r;
}

static void ods_sheet_finish(struct ods_sheet *s)
{
    xml_finish(&s->x);
    buf_finish(&s->cells);
    buf_finish(&s->text);
    buf_finish(&s->value);
}

int ods_read_sheet(struct xlsx_book *b, size_t which, struct sheet_writer *w, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    __attribute__((cleanup(ods_sheet_finish))) struct ods_sheet s = { .b = b, .w = w };
    size_t place = strtoul(b->sheets[which].id, NULL, 10), at = 0;
    bool any = false;
    int r = xlsx_open_part(b, "content.xml", &stream, &s.x, err);

    buf_init(&s.cells, XLSX_MAX_COLUMNS * sizeof(struct ods_cell));
    buf_init(&s.text, SHEET_MAX_ROW_BYTES);
    buf_init(&s.value, XLSX_MAX_CELL_BYTES);
    while (r >= 0) {
        int token = xml_next(&s.x, err);

        if (token < 0)
            return token;
        if (token == XML_EOF)
            return err_set(err, ERR_VALIDATION, "a sheet is missing");
        r = 0;
        any = any || (token == XML_START && xml_is(&s.x, "spreadsheet"));
        if (token != XML_START || !any || !xml_is(&s.x, "table"))
            continue;
        if (at++ < place) {
            r = xml_skip(&s.x, err);
            continue;
        }
        r = read_table(&s, stream, err);
        return r < 0 ? r : sheet_writer_flush(w, err);
    }
    return r;
}
