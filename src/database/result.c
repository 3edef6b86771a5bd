/* Rows of a database; see result.h. */

#include "database/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "base/str.h"

#define COLUMN_MAX_BYTES ((size_t)64 << 20)

void db_result_init(struct db_result *r, int64_t max_rows, int64_t max_bytes)
{
    *r = (struct db_result){ .affected_rows = -1, .max_rows = max_rows, .max_bytes = max_bytes };
}

void db_result_finish(struct db_result *r)
{
    for (size_t i = 0; i < r->n_columns; i++) {
        free(r->columns[i].name);
        free(r->columns[i].type);
        buf_finish(&r->columns[i].cells);
    }
    free(r->columns);
    db_result_init(r, 0, 0);
}

int db_result_add_column(struct db_result *r, const char *name, const char *type, struct err *err)
{
    struct db_column *more = reallocarray(r->columns, r->n_columns + 1, sizeof(*more));
    if (!more)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    r->columns = more;
    struct db_column *c = &more[r->n_columns++];
    *c = (struct db_column){ .name = strdup(name), .type = strdup(type) };
    buf_init(&c->cells, COLUMN_MAX_BYTES);
    return c->name && c->type ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* Bytes of a cell inside of JSON, which is how it reaches whoever asked. */
static int64_t cost(const struct db_cell *cell, bool *private)
{
    int64_t n = 3; /* the separator */
    for (size_t i = 0; i < cell->len; i++) {
        unsigned char c = (unsigned char)cell->data[i];
        n += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : 1;
        *private = *private || c == 0xee;
    }
    return n;
}

int db_result_add_row(struct db_result *r, const struct db_cell *cells, struct err *err)
{
    int64_t n = 0;
    if (r->n_rows >= r->max_rows) {
        r->truncated = true;
        return err_set(err, ERR_TOO_LARGE, "more than %lld rows", (long long)r->max_rows);
    }
    for (size_t i = 0; i < r->n_columns; i++)
        n += cells[i].data ? cost(&cells[i], &r->has_private) : 6;
    if (r->n_bytes + n > r->max_bytes) {
        r->truncated = true;
        return err_set(err, ERR_TOO_LARGE, "more than %lld bytes", (long long)r->max_bytes);
    }
    for (size_t i = 0; i < r->n_columns; i++) {
        uint32_t len = cells[i].data ? (uint32_t)cells[i].len : UINT32_MAX;
        struct buf *to = &r->columns[i].cells;
        if (buf_append(to, &len, sizeof(len), err) < 0 ||
            (cells[i].data && buf_append(to, cells[i].data, cells[i].len, err) < 0))
            return err_wrap(err, "keeping a row");
    }
    r->n_bytes += n;
    r->n_rows++;
    return 0;
}

bool db_cursor_next(struct db_cursor *c, struct db_cell *ret)
{
    const struct buf *b = &c->column->cells;
    uint32_t len;
    if (c->at + sizeof(len) > b->len)
        return false;
    memcpy(&len, b->data + c->at, sizeof(len));
    c->at += sizeof(len);
    if (len == UINT32_MAX) {
        *ret = (struct db_cell){ .data = NULL };
        return true;
    }
    *ret = (struct db_cell){ .data = b->data + c->at, .len = len };
    c->at += len;
    return true;
}

/* ---- JSON ---- */

static json_t *integer_json(const struct db_cell *c)
{
    char text[32];
    long long v;
    if (c->len >= sizeof(text))
        return json_text(c->data, c->len);
    memcpy(text, c->data, c->len);
    text[c->len] = '\0';
    return str_parse_i64(text, "", INT64_MIN, INT64_MAX, &v, NULL) == 0 ?
               json_integer(v) :
               json_text(c->data, c->len);
}

static json_t *real_json(const struct db_cell *c)
{
    char text[64];
    if (c->len >= sizeof(text))
        return json_text(c->data, c->len);
    memcpy(text, c->data, c->len);
    text[c->len] = '\0';
    double v = strtod(text, NULL);
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *blob_json(const struct db_cell *c)
{
    auto_buf struct buf bytes = BUF_INIT(COLUMN_MAX_BYTES), text = BUF_INIT(COLUMN_MAX_BYTES);
    for (size_t i = 0; i + 1 < c->len; i += 2) {
        unsigned v = 0;
        char two[3] = { c->data[i], c->data[i + 1], '\0' };
        sscanf(two, "%2x", &v);
        char byte = (char)v;
        if (buf_append(&bytes, &byte, 1, NULL) < 0)
            return NULL;
    }
    if (base64_encode(bytes.data, bytes.len, &text, NULL) < 0)
        return NULL;
    return json_string(buf_cstr(&text));
}

static json_t *parsed_json(const struct db_cell *c)
{
    json_t *j = NULL;
    return json_parse(c->data, c->len, &j, NULL) == 0 ? j : json_text(c->data, c->len);
}

/* A decimal as the number that it is, as far as JSON's numbers go. */
static json_t *decimal_json(const struct db_cell *c)
{
    bool whole = c->len > 0 && c->len < 19 && !memchr(c->data, '.', c->len) &&
                 !memchr(c->data, 'N', c->len) && !memchr(c->data, 'I', c->len);
    return whole ? integer_json(c) : real_json(c);
}

static json_t *cell_json(const char *type, bool numbers, const struct db_cell *c)
{
    static const struct {
        const char *type;
        json_t *(*make)(const struct db_cell *c);
    } makers[] = {
        { "BIGINT", integer_json },
        { "DOUBLE", real_json },
        { "BLOB", blob_json },
        { "JSON", parsed_json },
    };
    if (!c->data)
        return json_null();
    if (str_eq(type, "BOOLEAN"))
        return json_boolean(c->len > 0 && (c->data[0] == 't' || c->data[0] == '1'));
    if (str_ends(type, "[]"))
        return parsed_json(c);
    if (numbers && str_eq(type, "DECIMAL"))
        return decimal_json(c);
    for (size_t i = 0; i < ARRAY_SIZE(makers); i++)
        if (str_eq(type, makers[i].type))
            return makers[i].make(c);
    return json_text(c->data, c->len);
}

enum form { FORM_ROWS, FORM_NUMBERS /* decimals are numbers */, FORM_OBJECTS };

static int rows_json(const struct db_result *r, enum form form, json_t **ret, struct err *err)
{
    bool objects = form == FORM_OBJECTS;
    auto_json json_t *rows = json_array();
    auto_free struct db_cursor *at = calloc(r->n_columns ? r->n_columns : 1, sizeof(*at));
    if (!rows || !at)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < r->n_columns; i++)
        at[i].column = &r->columns[i];
    for (int64_t row = 0; row < r->n_rows; row++) {
        json_t *one = objects ? json_object() : json_array();
        bool good = json_array_append_new(rows, one) == 0;
        for (size_t i = 0; i < r->n_columns && good; i++) {
            struct db_cell cell = { .data = NULL };
            db_cursor_next(&at[i], &cell);
            json_t *value = cell_json(r->columns[i].type, form == FORM_NUMBERS, &cell);
            good = (objects ? json_object_set_new(one, r->columns[i].name, value) :
                              json_array_append_new(one, value)) == 0;
        }
        if (!good)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret = TAKE_PTR(rows);
    return 0;
}

static int heads_json(const struct db_result *r, json_t *into, struct err *err)
{
    json_t *columns = json_array(), *types = json_array();
    bool good = json_object_set_new(into, "columns", columns) == 0 &&
                json_object_set_new(into, "types", types) == 0;
    for (size_t i = 0; i < r->n_columns && good; i++) {
        const struct db_column *c = &r->columns[i];
        good = json_array_append_new(columns, json_text(c->name, strlen(c->name))) == 0 &&
               json_array_append_new(types, json_string(c->type)) == 0;
    }
    good = good && json_object_set_new(into, "row_count", json_integer(r->n_rows)) == 0 &&
           json_object_set_new(into, "truncated", json_boolean(r->truncated)) == 0 &&
           json_object_set_new(into, "affected_rows",
                               r->affected_rows < 0 ? json_null() :
                                                      json_integer(r->affected_rows)) == 0;
    return good ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static int whole_json(const struct db_result *r, enum form form, json_t **ret, struct err *err)
{
    auto_json json_t *j = json_object();
    json_t *rows = NULL;
    if (heads_json(r, j, err) < 0 || rows_json(r, form, &rows, err) < 0)
        return -err->code;
    if (json_object_set_new(j, "rows", rows) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *ret = TAKE_PTR(j);
    return 0;
}

int db_result_json(const struct db_result *r, json_t **ret, struct err *err)
{
    return whole_json(r, FORM_ROWS, ret, err);
}

int db_result_body(const struct db_result *r, json_t **ret, struct err *err)
{
    return whole_json(r, FORM_NUMBERS, ret, err);
}

int db_result_objects(const struct db_result *r, json_t **ret, struct err *err)
{
    return rows_json(r, FORM_OBJECTS, ret, err);
}

/* ---- for kernels ---- */

#define PRIVATE_FIRST 0xe000
#define PRIVATE_N 0x1000

static void private_char(unsigned which, char ret[4])
{
    unsigned c = PRIVATE_FIRST + which;
    ret[0] = (char)(0xe0 | c >> 12);
    ret[1] = (char)(0x80 | (c >> 6 & 0x3f));
    ret[2] = (char)(0x80 | (c & 0x3f));
    ret[3] = '\0';
}

/* Two characters that no cell has. */
static int find_private(const struct db_result *r, char separator[4], char null[4], struct err *err)
{
    auto_free bool *used = calloc(PRIVATE_N, sizeof(*used));
    unsigned found = 0;
    if (!used)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < r->n_columns && r->has_private; i++) {
        const struct buf *b = &r->columns[i].cells;
        for (size_t at = 0; at + 2 < b->len; at++)
            if ((unsigned char)b->data[at] == 0xee)
                used[((unsigned)b->data[at + 1] & 0x3f) << 6 | ((unsigned)b->data[at + 2] & 0x3f)] =
                    true;
    }
    for (unsigned c = 0; c < PRIVATE_N && found < 2; c++)
        if (!used[c])
            private_char(c, found++ ? null : separator);
    return found == 2 ? 0 : err_set(err, ERR_TOO_LARGE, "the result cannot be written down");
}

static int pack_column(const struct db_column *c, const char *separator, const char *null,
                       json_t *into, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(COLUMN_MAX_BYTES);
    struct db_cursor at = { .column = c };
    struct db_cell cell;
    int r = buf_reserve(&text, c->cells.len + 1, err);
    for (bool first = true; r == 0 && db_cursor_next(&at, &cell); first = false) {
        if (!first)
            r = buf_append(&text, separator, 3, err);
        if (r == 0)
            r = cell.data ? buf_append(&text, cell.data, cell.len, err) :
                            buf_append(&text, null, 3, err);
    }
    if (r < 0)
        return r;
    json_t *j = json_stringn(buf_cstr(&text), text.len);
    if (!j)
        j = json_text(buf_cstr(&text), text.len); /* not UTF-8, or with a NUL */
    return json_array_append_new(into, j) == 0 ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

int db_result_pack(const struct db_result *r, json_t **ret, struct err *err)
{
    char separator[4], null[4];
    auto_json json_t *j = json_object();
    json_t *data = json_array();
    int e = find_private(r, separator, null, err);
    if (e == 0)
        e = heads_json(r, j, err);
    if (e < 0) {
        json_decref(data);
        return e;
    }
    if (json_object_set_new(j, "data", data) < 0 ||
        json_object_set_new(j, "separator", json_string(separator)) < 0 ||
        json_object_set_new(j, "null", json_string(null)) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < r->n_columns && e == 0; i++)
        e = pack_column(&r->columns[i], separator, null, data, err);
    if (e == 0)
        *ret = TAKE_PTR(j);
    return e;
}
