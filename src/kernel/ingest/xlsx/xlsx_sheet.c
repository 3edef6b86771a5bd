/*
 * A sheet → CSV, row by row.
 *
 * What the columns are called is decided at the top. Rows of a single text above a row of at least three texts are titles and left
 * out. The first row after that is the header if all of its cells are text, or text and then years or dates that rise (a table with
 * a column for each month). Otherwise it is data, and columns are called column0, column1, …
 *
 * Lines are as long as the longest row so far; if a longer one comes later the shorter ones are padded by who reads them.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/names.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define MAX_ROW_BYTES (32u << 20)
#define FLUSH_BYTES (256u << 10)
#define MAX_TITLES 20
#define MIN_HEADER_BELOW_TITLE 3
#define MAX_NAME_BYTES 256
#define ROWS_BETWEEN_CHECKS 256

struct cell {
    unsigned char kind; /* CELL_NONE: there is none */
    bool shared;
    uint32_t len;
    size_t at; /* in the workbook's strings, or in the row's text */
};

struct title {
    size_t column;
    char *text;
};

struct sheet {
    struct workbook *wb;
    struct xlsx_table *t;
    struct xml x;
    struct buf value, text, csv;
    uint64_t csv_bytes;
    struct cell *cells; /* of the row; XLSX_MAX_COLUMNS */
    size_t width;       /* of the row: behind its last value */
    size_t n_values;
    int64_t row, n_rows_seen;
    unsigned char *kinds; /* of each column */
    char **names;         /* from the header; NULL where it has none */
    size_t lines_width;   /* of the lines so far */
    struct title titles[MAX_TITLES];
    size_t n_titles;
    bool top_done, first_done;
};

static const char *cell_text(const struct sheet *s, const struct cell *c)
{
    return (c->shared ? buf_cstr(&s->wb->strings) : buf_cstr(&s->text)) + c->at;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static int flush(struct sheet *s, struct err *err)
{
    s->csv_bytes += s->csv.len;
    if (s->csv_bytes > s->wb->options->max_csv_bytes)
        return err_set(err, ERR_VALIDATION, "its rows are more than %llu MB of text",
                       (unsigned long long)(s->wb->options->max_csv_bytes >> 20));
    int r = s->csv.len ? fd_write_all(s->wb->options->out_fd, s->csv.data, s->csv.len, err) : 0;
    buf_clear(&s->csv);
    return r;
}

static int write_field(struct sheet *s, const char *text, size_t len, struct err *err)
{
    /* White space at the ends is part of the text. */
    bool quote = len > 0 && (text[0] == ' ' || text[0] == '\t' || text[len - 1] == ' ' ||
                             text[len - 1] == '\t');

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        quote = quote || c == ',' || c == '"' || c == '\n' || c == '\r';
        s->t->has_line_breaks = s->t->has_line_breaks || c == '\n' || c == '\r';
    }
    if (!quote)
        return buf_append(&s->csv, text, len, err);
    int r = buf_append(&s->csv, "\"", 1, err);
    while (r == 0 && len > 0) {
        const char *q = memchr(text, '"', len);
        size_t n = q ? (size_t)(q - text) + 1 : len;

        r = buf_append(&s->csv, text, n, err);
        if (r == 0 && q)
            r = buf_append(&s->csv, "\"", 1, err);
        text += n;
        len -= n;
    }
    return r < 0 ? r : buf_append(&s->csv, "\"", 1, err);
}

static int row_too_large(const struct sheet *s, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %u MB of text", s->row,
                   MAX_ROW_BYTES >> 20);
}

/* The row in s->cells becomes a line. */
static int write_row(struct sheet *s, struct err *err)
{
    size_t begin = s->csv.len;
    int r = 0;

    if (s->width > s->lines_width) {
        s->t->ragged = s->t->ragged || s->t->n_rows > 0;
        s->lines_width = s->width;
    }
    for (size_t i = 0; r == 0 && i < s->lines_width; i++) {
        const struct cell *c = &s->cells[i];

        if (i > 0)
            r = buf_append(&s->csv, ",", 1, err);
        if (r == 0 && i < s->width && c->kind != CELL_NONE) {
            s->kinds[i] |= c->kind;
            r = write_field(s, cell_text(s, c), c->len, err);
        }
    }
    if (r == 0)
        r = buf_append(&s->csv, "\n", 1, err);
    if (r < 0)
        return r == -ERR_TOO_LARGE ? row_too_large(s, err) : r;
    s->t->n_rows++;
    s->t->longest_row = MAX_OF(s->t->longest_row, s->csv.len - begin);
    return s->csv.len >= FLUSH_BYTES ? flush(s, err) : 0;
}

/* ---- the top of the table ------------------------------------------------------------------------------------------ */

/* A number, if it is a year, or the days of a date; otherwise 0. */
static int64_t rising_value(const struct sheet *s, const struct cell *c)
{
    char text[32];
    int year, month, day;

    snprintf(text, sizeof(text), "%.*s", (int)MIN_OF(c->len, 31u), cell_text(s, c));
    if (c->kind == CELL_INTEGER) {
        long v = strtol(text, NULL, 10);
        return v >= 1900 && v <= 2100 ? v : 0;
    }
    if (c->kind == CELL_DATE && sscanf(text, "%4d-%2d-%2d", &year, &month, &day) == 3)
        return (int64_t)year * 372 + month * 31 + day + 10000;
    return 0;
}

static bool is_header(const struct sheet *s)
{
    int64_t last = 0;
    size_t n_texts = 0, n_rising = 0;

    for (size_t i = 0; i < s->width; i++) {
        const struct cell *c = &s->cells[i];

        if (c->kind == CELL_NONE)
            continue;
        if (c->kind == CELL_TEXT) {
            n_texts++;
            continue;
        }
        int64_t v = rising_value(s, c);
        if (n_texts == 0 || v <= last)
            return false;
        last = v;
        n_rising++;
    }
    return n_texts > 0 && n_rising != 1;
}

static bool all_text(const struct sheet *s)
{
    for (size_t i = 0; i < s->width; i++)
        if (s->cells[i].kind != CELL_NONE && s->cells[i].kind != CELL_TEXT)
            return false;
    return true;
}

/* The name without line breaks and outer white space; NULL if nothing is left. */
static int take_name(const char *text, size_t len, char **ret, struct err *err)
{
    while (len > 0 && strchr(" \t\r\n", text[0])) {
        text++;
        len--;
    }
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        len--;
    len = str_utf8_cut(text, len, MAX_NAME_BYTES);
    if (len == 0)
        return 0;
    *ret = strndup(text, len);
    if (!*ret)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a name");
    for (char *p = *ret; *p; p++)
        if (*p == '\n' || *p == '\r' || *p == '\t')
            *p = ' ';
    return 0;
}

static int take_row(struct sheet *s, struct err *err)
{
    int r = 0;

    if (s->first_done || !is_header(s)) {
        s->first_done = true;
        return write_row(s, err);
    }
    s->first_done = s->t->has_header = true;
    s->lines_width = s->width;
    for (size_t i = 0; r == 0 && i < s->width; i++)
        if (s->cells[i].kind != CELL_NONE)
            r = take_name(cell_text(s, &s->cells[i]), s->cells[i].len, &s->names[i], err);
    return r;
}

static int put_text(struct sheet *s, size_t column, const char *text, size_t len, struct err *err)
{
    struct cell *c = &s->cells[column];

    *c = (struct cell){ .kind = CELL_TEXT, .len = (uint32_t)len, .at = s->text.len };
    s->width = MAX_OF(s->width, column + 1);
    s->n_values++;
    return buf_append(&s->text, text, len, err);
}

static void clear_row(struct sheet *s)
{
    memset(s->cells, 0, s->width * sizeof(*s->cells));
    s->width = s->n_values = 0;
    buf_clear(&s->text);
}

/* What was held back were no titles: they are rows like any other. */
static int replay_titles(struct sheet *s, struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < s->n_titles; i++) {
        if (r == 0)
            r = put_text(s, s->titles[i].column, s->titles[i].text, strlen(s->titles[i].text), err);
        if (r == 0)
            r = take_row(s, err);
        clear_row(s);
        free(s->titles[i].text);
    }
    s->n_titles = 0;
    return r;
}

/* A row of one text may be a title: it waits for what comes below. */
static int hold_title(struct sheet *s, struct err *err)
{
    size_t column = s->width - 1;
    struct title *t = &s->titles[s->n_titles];

    t->column = column;
    t->text = strndup(cell_text(s, &s->cells[column]), s->cells[column].len);
    if (!t->text)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a row");
    s->n_titles++;
    return 0;
}

/* Puts the row aside while those that were held back go first. */
static int replay_before(struct sheet *s, struct err *err)
{
    auto_free struct cell *cells = calloc(s->width, sizeof(*cells));
    struct buf text = s->text;
    size_t width = s->width, n_values = s->n_values;
    int r;

    if (!cells)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a row");
    memcpy(cells, s->cells, width * sizeof(*cells));
    memset(s->cells, 0, width * sizeof(*cells));
    buf_init(&s->text, MAX_ROW_BYTES);
    s->width = s->n_values = 0;
    r = replay_titles(s, err);
    buf_finish(&s->text);
    s->text = text;
    memcpy(s->cells, cells, width * sizeof(*cells));
    s->width = width;
    s->n_values = n_values;
    return r;
}

static int end_row(struct sheet *s, struct err *err)
{
    int r = 0;

    if (s->n_values == 0) {
        clear_row(s);
        return 0;
    }
    if (!s->top_done && s->n_values == 1 && s->cells[s->width - 1].kind == CELL_TEXT &&
        s->n_titles < MAX_TITLES) {
        r = hold_title(s, err);
        clear_row(s);
        return r;
    }
    if (!s->top_done && s->n_titles > 0) {
        if (s->n_values >= MIN_HEADER_BELOW_TITLE && all_text(s)) {
            s->t->n_titles = (int64_t)s->n_titles;
            for (size_t i = 0; i < s->n_titles; i++)
                free(s->titles[i].text);
            s->n_titles = 0;
        } else {
            r = replay_before(s, err);
        }
    }
    s->top_done = true;
    if (r == 0)
        r = take_row(s, err);
    clear_row(s);
    return r;
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
    c.kind = is_blank(text, c.len) ? CELL_NONE : (unsigned char)xlsx_kind_of_text(text, c.len);
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
    if (!str_is_utf8(s->value.data, s->value.len))
        return bad_cell(s, column, "is not UTF-8", err);
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
    for (;;) {
        int token = xml_next(&s->x, err), r = 0;

        if (token < 0)
            return token;
        if (token == XML_START && xml_is(&s->x, "v"))
            r = xlsx_collect_text(&s->x, false, &s->value, err);
        else if (token == XML_START && xml_is(&s->x, "is"))
            r = xlsx_collect_text(&s->x, true, &s->value, err);
        else if (token == XML_START)
            r = xml_skip(&s->x, err);
        else if (token == XML_END && s->x.depth < depth)
            return 0;
        if (r < 0)
            return r;
    }
}

static bool type_is(const char *type, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(type, name, len) == 0;
}

static int read_cell(struct sheet *s, size_t *next_column, struct err *err)
{
    struct xml_attributes a = xml_attributes(&s->x);
    size_t column = *next_column;
    char type[16] = "n";
    size_t type_len = 1;
    long style = 0; /* a cell without one has the first */

    while (xml_next_attribute(&a)) {
        if (a.name_len != 1)
            continue;
        if (*a.name == 'r') {
            if (!column_of(a.value, a.value_len, &column))
                return err_set(err, ERR_VALIDATION,
                               "row %" PRId64 " has a cell at '%.*s', which is no place in a sheet",
                               s->row, (int)MIN_OF(a.value_len, (size_t)20), a.value);
        } else if (*a.name == 's') {
            style = strtol(a.value, NULL, 10);
        } else if (*a.name == 't') {
            type_len = MIN_OF(a.value_len, sizeof(type));
            memcpy(type, a.value, type_len);
        }
    }
    if (column >= XLSX_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "row %" PRId64 " has more than %d columns", s->row,
                       XLSX_MAX_COLUMNS);
    *next_column = column + 1;
    int r = read_content(s, err);
    if (r < 0 || s->value.len == 0)
        return r;
    bool was_set = s->cells[column].kind != CELL_NONE;
    if (type_is(type, type_len, "n"))
        r = set_number(s, column, style, err);
    else if (type_is(type, type_len, "s"))
        r = set_shared(s, column, err);
    else if (type_is(type, type_len, "str") || type_is(type, type_len, "inlineStr") ||
             type_is(type, type_len, "d"))
        r = set_inline(s, column, err);
    else if (type_is(type, type_len, "b"))
        r = set_boolean(s, column, err);
    else if (type_is(type, type_len, "e")) /* #N/A: there is no value */
        s->cells[column].kind = CELL_NONE;
    else
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
    struct xml_attributes a = xml_attributes(&s->x);

    s->row++;
    while (xml_next_attribute(&a)) {
        if (xml_attribute_is(&a, "r"))
            s->row = strtoll(a.value, NULL, 10);
    }
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

static int read_rows(struct sheet *s, const struct zip_stream *stream, struct err *err)
{
    const struct xlsx_options *o = s->wb->options;
    bool root = false;

    for (;;) {
        int token = xml_next(&s->x, err), r = 0;

        if (token <= XML_EOF)
            return token;
        if (token != XML_START)
            continue;
        if (!root && !xml_is(&s->x, "worksheet"))
            return err_set(err, ERR_VALIDATION, "its first sheet is no worksheet");
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
                o->progress(o->progress_arg, zip_stream_progress(stream));
        }
    }
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static int make_columns(struct sheet *s, struct err *err)
{
    auto_free char **names = calloc(s->lines_width + 1, sizeof(*names));
    struct xlsx_table *t = s->t;
    int r;

    t->columns = calloc(s->lines_width ? s->lines_width : 1, sizeof(*t->columns));
    if (!t->columns || !names)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu columns", s->lines_width);
    for (; t->n_columns < s->lines_width; t->n_columns++) {
        struct xlsx_column *c = &t->columns[t->n_columns];

        c->type = xlsx_type_of(s->kinds[t->n_columns]);
        c->empty = !s->names[t->n_columns] && s->kinds[t->n_columns] == CELL_NONE;
        c->name = TAKE_PTR(s->names[t->n_columns]);
        if (!c->name && asprintf(&c->name, "column%zu", t->n_columns) < 0)
            c->name = NULL;
        if (!c->name)
            return err_set(err, ERR_NO_MEMORY, "out of memory for a name");
        names[t->n_columns] = c->name;
    }
    r = names_make_unique(names, t->n_columns, err);
    for (size_t i = 0; i < t->n_columns; i++)
        t->columns[i].name = names[i];
    return r;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

static void sheet_finish(struct sheet *s)
{
    xml_finish(&s->x);
    buf_finish(&s->value);
    buf_finish(&s->text);
    buf_finish(&s->csv);
    for (size_t i = 0; i < s->n_titles; i++)
        free(s->titles[i].text);
    for (size_t i = 0; s->names && i < XLSX_MAX_COLUMNS; i++)
        free(s->names[i]);
    free(s->names);
    free(s->cells);
    free(s->kinds);
}

int xlsx_read_sheet(struct workbook *wb, struct xlsx_table *t, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    __attribute__((cleanup(sheet_finish))) struct sheet s = { .wb = wb, .t = t };
    const struct zip_entry *entry = zip_find(&wb->zip, wb->sheet_path);
    int r;

    buf_init(&s.value, XLSX_MAX_CELL_BYTES + 1);
    buf_init(&s.text, MAX_ROW_BYTES);
    /* Quotes double, and each field has two and a comma. */
    buf_init(&s.csv, FLUSH_BYTES + 2 * (size_t)MAX_ROW_BYTES + 3 * XLSX_MAX_COLUMNS + 64);
    s.cells = calloc(XLSX_MAX_COLUMNS, sizeof(*s.cells));
    s.kinds = calloc(XLSX_MAX_COLUMNS, 1);
    s.names = calloc(XLSX_MAX_COLUMNS, sizeof(*s.names));
    if (!s.cells || !s.kinds || !s.names)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a sheet");
    if (!entry)
        return err_set(err, ERR_VALIDATION, "its sheet '%.100s' is missing", t->sheet);
    r = zip_stream_open(&wb->zip, entry, XLSX_MAX_PART_BYTES, &stream, err);
    if (r == 0)
        r = xml_init(&s.x, zip_stream_read, stream, err);
    if (r == 0)
        r = read_rows(&s, stream, err);
    if (r == 0)
        r = replay_titles(&s, err);
    if (r == 0)
        r = flush(&s, err);
    return r < 0 ? r : make_columns(&s, err);
}
