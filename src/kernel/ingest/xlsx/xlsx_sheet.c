/*
 * A sheet → lines of CSV, row by row. What of it is a table, what its columns are called and what
 * they hold is decided by what reads the lines (csv_shape.c, column.c), as for any CSV.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define ROWS_BETWEEN_CHECKS 256

struct cell {
    unsigned char kind; /* CELL_NONE: there is none */
    bool shared;
    uint32_t len;
    size_t at; /* in the workbook's strings, or in the row's text */
};

struct sheet {
    struct xlsx_book *wb;
    struct sheet_writer *w;
    struct xml x;
    struct buf value, text;
    struct cell *cells; /* of the row; XLSX_MAX_COLUMNS */
    size_t width;       /* of the row: behind its last value */
    size_t n_values;
    int64_t row, n_rows_seen;
    bool has_formula; /* the cell */
};

static const char *cell_text(const struct sheet *s, const struct cell *c)
{
    return (c->shared ? buf_cstr(&s->wb->strings) : buf_cstr(&s->text)) + c->at;
}

/* ---- rows that are whole ---- */

static void clear_row(struct sheet *s)
{
    memset(s->cells, 0, s->width * sizeof(*s->cells));
    s->width = s->n_values = 0;
    buf_clear(&s->text);
}

static int end_row(struct sheet *s, struct err *err)
{
    int r = 0;

    if (s->n_values > 0)
        r = sheet_writer_row(s->w, s->row, err);
    for (size_t i = 0; r == 0 && i < s->width; i++) {
        const struct cell *c = &s->cells[i];

        if (c->kind == CELL_TEXT)
            r = sheet_writer_text(s->w, i, cell_text(s, c), c->len, err);
        else if (c->kind != CELL_NONE)
            r = sheet_writer_value(s->w, i, cell_text(s, c), c->len, err);
    }
    if (r == 0 && s->n_values > 0)
        r = sheet_writer_end_row(s->w, err);
    clear_row(s);
    return r;
}

static int row_too_large(const struct sheet *s, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %u MB of text", s->row,
                   SHEET_MAX_ROW_BYTES >> 20);
}

/* ---- cells --------------------------------------------------------------------------------------------------------- */

static int bad_cell(const struct sheet *s, size_t column, const char *what, struct err *err)
{
    char name[XLSX_CELL_NAME_SIZE];

    xlsx_cell_name(column, s->row, name);
    return err_set(err, ERR_VALIDATION, "cell %s %s", name, what);
}

/* "B7" → 1. False for what is no place in a sheet. */
static bool column_of(const char *ref, size_t len, size_t *ret)
{
    size_t c = 0, i = 0;

    for (;
         i < len && i < 4 && ((ref[i] >= 'A' && ref[i] <= 'Z') || (ref[i] >= 'a' && ref[i] <= 'z'));
         i++)
        c = c * 26 + (size_t)((ref[i] | 32) - 'a') + 1;
    if (c == 0 || c > XLSX_MAX_COLUMNS || i == len)
        return false;
    for (; i < len; i++)
        if (ref[i] < '0' || ref[i] > '9')
            return false;
    *ret = c - 1;
    return true;
}

static size_t count_characters(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += (s[i] & 0xc0) != 0x80;
    return n;
}

static bool is_blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", s[i]))
            return false;
    return true;
}

/* A text, shared or in the row. */
static int set_text(struct sheet *s, size_t column, struct cell c, struct err *err)
{
    const char *text = cell_text(s, &c);

    if (c.len > XLSX_MAX_CELL_CHARS && count_characters(text, c.len) > XLSX_MAX_CELL_CHARS)
        return bad_cell(s, column, "has more than 32,767 characters", err);
    c.kind = is_blank(text, c.len) ? CELL_NONE : CELL_TEXT;
    s->cells[column] = c;
    return 0;
}

static int set_shared(struct sheet *s, size_t column, struct err *err)
{
    const struct buf *ends = &s->wb->ends;
    const char *text = buf_cstr(&s->value);
    char *stop;
    unsigned long index = strtoul(text, &stop, 10);
    uint32_t begin = 0, end;

    if (stop == text || *stop || *text == '-' || index >= ends->len / sizeof(uint32_t))
        return bad_cell(s, column, "names a text that is not in the table of strings", err);
    memcpy(&end, ends->data + index * sizeof(end), sizeof(end));
    if (index > 0)
        memcpy(&begin, ends->data + (index - 1) * sizeof(begin), sizeof(begin));
    return set_text(s, column, (struct cell){ .shared = true, .len = end - begin, .at = begin },
                    err);
}

/* s->value, of the kind that it turned out to be, moves into the row. */
static int set_value(struct sheet *s, size_t column, enum cell_kind kind, struct err *err)
{
    s->cells[column] = (struct cell){ .kind = (unsigned char)kind,
                                      .len = (uint32_t)s->value.len,
                                      .at = s->text.len };
    return buf_append(&s->text, buf_cstr(&s->value), s->value.len, err);
}

static int set_inline(struct sheet *s, size_t column, struct err *err)
{
    struct cell c = { .at = s->text.len };

    if (s->value.len == 0)
        return 0;
    s->value.len = xlsx_unescape(s->value.data, s->value.len);
    c.len = (uint32_t)s->value.len;
    int r = buf_append(&s->text, s->value.data, s->value.len, err);
    return r < 0 ? r : set_text(s, column, c, err);
}

static int set_number(struct sheet *s, size_t column, long style, struct err *err)
{
    enum number_format format = style >= 0 && (size_t)style < s->wb->formats.len ?
                                    (enum number_format)s->wb->formats.data[style] :
                                    FORMAT_NUMBER;
    enum cell_kind kind = xlsx_number(&s->value, format, s->wb->since_1904, err);

    if (kind == CELL_NONE)
        return bad_cell(s, column, "holds a number that is none", err);
    return set_value(s, column, kind, err);
}

static int set_boolean(struct sheet *s, size_t column, struct err *err)
{
    const char *v = buf_cstr(&s->value);
    bool yes = str_eq(v, "1") || str_ieq(v, "true");

    if (!yes && !str_eq(v, "0") && !str_ieq(v, "false"))
        return bad_cell(s, column, "holds a truth value that is none", err);
    buf_clear(&s->value);
    int r = buf_append_str(&s->value, yes ? "true" : "false", err);
    return r < 0 ? r : set_value(s, column, CELL_BOOLEAN, err);
}

/* <v> or <is> of the cell into s->value. */
static int read_content(struct sheet *s, struct err *err)
{
    size_t depth = s->x.depth;

    buf_clear(&s->value);
    s->has_formula = false;
    for (;;) {
        int token = xml_next(&s->x, err), r = 0;

        if (token < 0)
            return token;
        if (token == XML_START && xml_is(&s->x, "v"))
            r = xlsx_collect_text(&s->x, false, &s->value, err);
        else if (token == XML_START && xml_is(&s->x, "is"))
            r = xlsx_collect_text(&s->x, true, &s->value, err);
        else if (token == XML_START) {
            s->has_formula = s->has_formula || xml_is(&s->x, "f");
            r = xml_skip(&s->x, err);
        } else if (token == XML_END && s->x.depth < depth)
            return 0;
        if (r < 0)
            return r;
    }
}

static int read_cell(struct sheet *s, size_t *next_column, struct err *err)
{
    const char *place = xml_attribute(&s->x, "r"), *t = xml_attribute(&s->x, "t");
    long style = strtol(xml_attribute(&s->x, "s"), NULL, 10); /* without one it has the first */
    size_t column = *next_column;
    char type[16];

    snprintf(type, sizeof(type), "%s", *t ? t : "n");
    if (*place && !column_of(place, strlen(place), &column))
        return err_set(err, ERR_VALIDATION,
                       "row %" PRId64 " has a cell at '%.20s', which is no place in a sheet",
                       s->row, place);
    if (column >= XLSX_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %d columns", s->row,
                       XLSX_MAX_COLUMNS);
    *next_column = column + 1;
    int r = read_content(s, err);
    if (r == 0 && s->value.len == 0)
        s->w->n_valueless += s->has_formula;
    if (r < 0 || s->value.len == 0)
        return r;
    bool was_set = s->cells[column].kind != CELL_NONE;
    if (str_eq(type, "n"))
        r = set_number(s, column, style, err);
    else if (str_eq(type, "s"))
        r = set_shared(s, column, err);
    else if (str_eq(type, "str") || str_eq(type, "inlineStr") || str_eq(type, "d"))
        r = set_inline(s, column, err); /* an ISO date is one as text, too */
    else if (str_eq(type, "b"))
        r = set_boolean(s, column, err);
    else if (str_eq(type, "e")) { /* #N/A: there is no value */
        s->cells[column].kind = CELL_NONE;
        s->w->n_errors++;
    } else
        return bad_cell(s, column, "is of an unknown type", err);
    if (r == -ERR_TOO_LARGE)
        return row_too_large(s, err);
    if (r == 0) {
        bool is_set = s->cells[column].kind != CELL_NONE;

        s->n_values = s->n_values - was_set + is_set;
        if (is_set)
            s->width = MAX_OF(s->width, column + 1);
    }
    return r;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static int begin_row(struct sheet *s, struct err *err)
{
    const char *place = xml_attribute(&s->x, "r");

    s->row = *place ? strtoll(place, NULL, 10) : s->row + 1;
    if (s->row < 1 || s->row > XLSX_MAX_ROWS || ++s->n_rows_seen > XLSX_MAX_ROWS)
        return err_set(err, ERR_VALIDATION, "it has more than %d rows", XLSX_MAX_ROWS);
    return 0;
}

static int read_row(struct sheet *s, struct err *err)
{
    size_t next_column = 0, depth = s->x.depth;
    int r = begin_row(s, err);

    while (r == 0) {
        int token = xml_next(&s->x, err);

        if (token < 0)
            return token;
        if (token == XML_END && s->x.depth < depth)
            return end_row(s, err);
        if (token == XML_START)
            r = xml_is(&s->x, "c") ? read_cell(s, &next_column, err) : xml_skip(&s->x, err);
    }
    return r;
}

static int read_rows(struct sheet *s, const struct package_stream *stream, struct err *err)
{
    const struct xlsx_options *o = &s->wb->options;
    bool root = false;

    for (;;) {
        int token = xml_next(&s->x, err), r = 0;

        if (token <= XML_EOF)
            return token;
        if (token != XML_START)
            continue;
        if (!root && !xml_is(&s->x, "worksheet"))
            return err_set(err, ERR_VALIDATION, "its sheet is no worksheet");
        root = true;
        if (xml_is(&s->x, "row") && s->x.depth == 3)
            r = read_row(s, err);
        else if (!xml_is(&s->x, "worksheet") && !xml_is(&s->x, "sheetData"))
            r = xml_skip(&s->x, err);
        if (r < 0)
            return r;
        if (s->n_rows_seen % ROWS_BETWEEN_CHECKS == 0) {
            if (o->must_stop(o->stop_arg))
                return err_set(err, ERR_CANCELLED, "interrupted");
            if (o->progress)
                o->progress(o->progress_arg, package_stream_progress(stream));
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

static void sheet_finish(struct sheet *s)
{
    xml_finish(&s->x);
    buf_finish(&s->value);
    buf_finish(&s->text);
    free(s->cells);
}

int xlsx_read_sheet(struct xlsx_book *wb, const struct xlsx_sheet *which, struct sheet_writer *w,
                    struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    __attribute__((cleanup(sheet_finish))) struct sheet s = { .wb = wb, .w = w };
    int r;

    buf_init(&s.value, XLSX_MAX_CELL_BYTES + 1);
    buf_init(&s.text, SHEET_MAX_ROW_BYTES);
    s.cells = calloc(XLSX_MAX_COLUMNS, sizeof(*s.cells));
    if (!s.cells)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a sheet");
    r = xlsx_open_part(wb, which->path, &stream, &s.x, err);
    if (r == 0)
        return err_set(err, ERR_VALIDATION, "its sheet '%.100s' is missing", which->name);
    if (r > 0)
        r = read_rows(&s, stream, err);
    return r < 0 ? r : sheet_writer_flush(w, err);
}
