/* Rows of ClickHouse; see clickhouse_rows.h. */

#include "database/clickhouse_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "database/clickhouse_types.h"

#define NAME_MAX_BYTES 4096
#define TYPE_MAX_BYTES (256u << 10) /* an Enum16 may name thousands of values */
#define CELL_MAX_BYTES ((size_t)32 << 20)
#define NEED_MORE 1

struct column {
    struct click_type *type;
    bool texts;  /* cells are bytes as they came: String or FixedString */
    bool binary; /* some cell is no text */
};

struct click_rows {
    struct db_result *into;
    bool is_utc, wants_head, is_full;
    struct column *columns;
    size_t n_columns;
    struct buf pending, cells;
    struct db_cell *row;
    size_t *starts;
};

/* ---- types ---- */

/* The name that results have for it; of compound types, JSON. */
static const char *type_name(const struct click_rows *r, const struct click_type *t)
{
    switch (t->kind) {
    case CLICK_INT:
    case CLICK_UINT:
        return "BIGINT";
    case CLICK_FLOAT:
        return "DOUBLE";
    case CLICK_DECIMAL:
        return "DECIMAL";
    case CLICK_BOOL:
        return "BOOLEAN";
    case CLICK_DATE:
        return "DATE";
    case CLICK_DATETIME:
        return t->zoned || !r->is_utc ? "TIMESTAMP WITH TIME ZONE" : "TIMESTAMP";
    case CLICK_UUID:
        return "UUID";
    case CLICK_NULLABLE:
        return type_name(r, &t->args[0]);
    case CLICK_TUPLE:
    case CLICK_MAP:
        return "JSON";
    default:
        return "VARCHAR";
    }
}

static const struct click_type *leaf_of(const struct click_type *t)
{
    while (t->kind == CLICK_ARRAY || t->kind == CLICK_NULLABLE)
        t = &t->args[0];
    return t;
}

static bool is_text(const struct click_type *t)
{
    return t->kind == CLICK_STRING || t->kind == CLICK_FIXED;
}

/* ---- values ---- */

struct input {
    const unsigned char *data;
    size_t len, at;
};

static int take_bytes(struct input *in, size_t n, const unsigned char **ret)
{
    if (in->len - in->at < n)
        return NEED_MORE;
    *ret = in->data + in->at;
    in->at += n;
    return 0;
}

static int take_length(struct input *in, uint64_t *ret, struct err *err)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        const unsigned char *b;
        if (take_bytes(in, 1, &b))
            return NEED_MORE;
        v |= (uint64_t)(*b & 0x7f) << shift;
        if (!(*b & 0x80)) {
            *ret = v;
            return v <= CELL_MAX_BYTES ? 0 :
                                         err_set(err, ERR_TOO_LARGE,
                                                 "a value has more than %zu bytes", CELL_MAX_BYTES);
        }
    }
    return err_set(err, ERR_PROTOCOL, "the database sent bytes that are no rows");
}

static uint64_t unsigned_of(const unsigned char *b, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && i < 8; i++)
        v |= (uint64_t)b[i] << (8 * i);
    return v;
}

static int64_t signed_of(const unsigned char *b, size_t n)
{
    uint64_t v = unsigned_of(b, n);
    if (n < 8 && v >> (8 * n - 1))
        v |= UINT64_MAX << (8 * n);
    return (int64_t)v;
}

#define DIGITS_MAX 80

/* Any whole number of at most 32 bytes in decimal. Returns where it begins in text. */
static const char *decimal_text(const unsigned char *b, size_t n, bool is_signed,
                                char text[DIGITS_MAX + 2], bool *ret_minus)
{
    uint32_t limbs[8] = { 0 };
    size_t n_limbs = (n + 3) / 4, at = DIGITS_MAX + 1;
    *ret_minus = is_signed && b[n - 1] & 0x80;
    uint64_t carry = *ret_minus;
    for (size_t i = 0; i < n_limbs; i++) {
        limbs[i] = (uint32_t)unsigned_of(b + 4 * i, MIN_OF(n - 4 * i, (size_t)4));
        if (!*ret_minus)
            continue;
        uint32_t mask = n < 4 ? (uint32_t)((1ull << (8 * n)) - 1) : UINT32_MAX;
        carry += ~limbs[i] & mask;
        limbs[i] = (uint32_t)carry & mask;
        carry >>= 32;
    }
    text[at] = '\0';
    for (bool any = true; any || at == DIGITS_MAX + 1;) {
        uint64_t rest = 0;
        any = false;
        for (size_t i = n_limbs; i-- > 0;) {
            rest = rest << 32 | limbs[i];
            limbs[i] = (uint32_t)(rest / 10);
            rest %= 10;
            any = any || limbs[i];
        }
        text[--at] = (char)('0' + rest);
    }
    return text + at;
}

static int put_whole(const struct click_type *t, const unsigned char *b, bool json, struct buf *out,
                     struct err *err)
{
    char text[DIGITS_MAX + 2];
    bool minus;
    const char *digits = decimal_text(b, t->bytes, t->kind == CLICK_INT, text, &minus);
    /* Numbers of JSON end where int64_t ends. */
    bool quoted = json && (strlen(digits) > 19 ||
                           (strlen(digits) == 19 && strcmp(digits, "9223372036854775807") > 0));
    return buf_printf(out, err, "%s%s%s%s", quoted ? "\"" : "", minus ? "-" : "", digits,
                      quoted ? "\"" : "");
}

static int put_decimal(const struct click_type *t, const unsigned char *b, bool json,
                       struct buf *out, struct err *err)
{
    char text[DIGITS_MAX + 2], padded[2 * DIGITS_MAX + 2];
    bool minus;
    const char *digits = decimal_text(b, t->bytes, true, text, &minus);
    size_t n = strlen(digits), zeros = n > t->scale ? 0 : t->scale + 1 - n;
    memset(padded, '0', zeros);
    memcpy(padded + zeros, digits, n + 1);
    size_t whole = zeros + n - t->scale;
    return buf_printf(out, err, "%s%s%.*s%s%s%s", json ? "\"" : "", minus ? "-" : "", (int)whole,
                      padded, t->scale ? "." : "", padded + whole, json ? "\"" : "");
}

static int put_float(const struct click_type *t, const unsigned char *b, bool json, struct buf *out,
                     struct err *err)
{
    char text[STR_DOUBLE_SIZE];
    uint64_t bits = unsigned_of(b, t->bytes);
    uint32_t low = (uint32_t)bits;
    float small;
    double v;
    memcpy(&small, &low, sizeof(small));
    memcpy(&v, &bits, sizeof(v));
    if (t->bytes == 4)
        v = (double)small;
    if (!isfinite(v))
        return buf_printf(out, err, "%s%s%s", json ? "\"" : "",
                          isnan(v) ? "nan" :
                          v > 0    ? "inf" :
                                     "-inf",
                          json ? "\"" : "");
    if (t->bytes == 8) {
        str_from_double(v, text);
        return buf_append_str(out, text, err);
    }
    for (int digits = 6; digits <= 9; digits++) { /* the fewest that give the same float */
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtof(text, NULL) == small) /* NOLINT: the very same number */
            break;
    }
    return buf_append_str(out, text, err);
}

/* Days since 1970 in the Gregorian calendar. */
static int put_days(int64_t days, struct buf *out, struct err *err)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t month = mp < 10 ? mp + 3 : mp - 9, year = yoe + era * 400 + (month <= 2);
    return buf_printf(out, err, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, year, month,
                      doy - (153 * mp + 2) / 5 + 1);
}

static int put_instant(const struct click_rows *r, const struct click_type *t,
                       const unsigned char *b, struct buf *out, struct err *err)
{
    int64_t v = t->bytes == 4 ? (int64_t)unsigned_of(b, 4) : signed_of(b, 8), unit = 1;
    for (unsigned i = 0; i < t->scale; i++)
        unit *= 10;
    int64_t seconds = v / unit - (v % unit < 0), fraction = v - seconds * unit;
    int64_t days = seconds / 86400 - (seconds % 86400 < 0), rest = seconds - days * 86400;
    int e = put_days(days, out, err);
    if (e == 0)
        e = buf_printf(out, err, " %02" PRId64 ":%02" PRId64 ":%02" PRId64, rest / 3600,
                       rest / 60 % 60, rest % 60);
    if (e == 0 && t->scale)
        e = buf_printf(out, err, ".%0*" PRId64, (int)t->scale, fraction);
    return e < 0 || str_eq(type_name(r, t), "TIMESTAMP") ? e : buf_append_str(out, "+00:00", err);
}

static int put_uuid(const unsigned char *b, struct buf *out, struct err *err)
{
    uint64_t high = unsigned_of(b, 8), low = unsigned_of(b + 8, 8);
    return buf_printf(out, err, "%08x-%04x-%04x-%04x-%012" PRIx64, (unsigned)(high >> 32),
                      (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
                      (unsigned)(low >> 48), low & (UINT64_MAX >> 16));
}

static int put_address(const struct click_type *t, const unsigned char *b, struct buf *out,
                       struct err *err)
{
    if (t->kind == CLICK_IPV4)
        return buf_printf(out, err, "%u.%u.%u.%u", b[3], b[2], b[1], b[0]);
    int e = 0;
    for (size_t i = 0; i < 16 && e == 0; i += 2)
        e = buf_printf(out, err, "%s%x", i ? ":" : "", (unsigned)b[i] << 8 | b[i + 1]);
    return e;
}

static int put_hex(const unsigned char *s, size_t n, struct buf *out, struct err *err)
{
    static const char digits[] = "0123456789abcdef";
    int e = buf_reserve(out, 2 * n, err);
    for (size_t i = 0; i < n && e == 0; i++)
        e = buf_append(out, (const char[]){ digits[s[i] >> 4], digits[s[i] & 15] }, 2, err);
    return e;
}

static size_t without_padding(const struct click_type *t, const unsigned char *s, size_t n)
{
    while (t->kind == CLICK_FIXED && n > 0 && s[n - 1] == '\0')
        n--;
    return n;
}

static bool is_plain_text(const void *s, size_t n)
{
    return str_is_utf8(s, n) && !memchr(s, '\0', n);
}

/* A text inside of JSON; what is none, in hexadecimal: of arrays alone, else behind \x. */
static int put_json_text(const struct column *c, const struct click_type *t, const unsigned char *s,
                         size_t n, struct buf *out, struct err *err)
{
    size_t len = without_padding(t, s, n);
    bool array = is_text(leaf_of(c->type));
    if (array ? !c->binary : is_plain_text(s, len))
        return json_write_str((const char *)s, len, out, err);
    int e = buf_append_str(out, array ? "\"" : "\"\\\\x", err);
    if (e == 0)
        e = put_hex(s, n, out, err);
    return e < 0 ? e : buf_append_str(out, "\"", err);
}

struct writer {
    const struct click_rows *rows;
    struct column *column;
    struct buf *out;
    struct err *err;
};

static int put_value(struct writer *w, const struct click_type *t, struct input *in, bool json);

/* Bytes of a String or FixedString. A column of arrays becomes one of BLOB[] at the first. */
static int put_string(struct writer *w, const struct click_type *t, struct input *in, bool json)
{
    const unsigned char *s = NULL;
    uint64_t n = t->bytes;
    int e = t->kind == CLICK_STRING ? take_length(in, &n, w->err) : 0;
    if (e == 0)
        e = take_bytes(in, n, &s);
    if (e != 0)
        return e;
    if (is_text(leaf_of(w->column->type)) && !is_plain_text(s, without_padding(t, s, n)))
        w->column->binary = true;
    return json ? put_json_text(w->column, t, s, n, w->out, w->err) :
                  buf_append(w->out, s, n, w->err);
}

static int put_scalar(struct writer *w, const struct click_type *t, struct input *in, bool json)
{
    const unsigned char *b = NULL;
    char key[16];
    if (take_bytes(in, t->bytes, &b))
        return NEED_MORE;
    bool quotes = json && t->kind != CLICK_BOOL && t->kind != CLICK_ENUM;
    switch (t->kind) {
    case CLICK_INT:
    case CLICK_UINT:
        return put_whole(t, b, json, w->out, w->err);
    case CLICK_FLOAT:
        return put_float(t, b, json, w->out, w->err);
    case CLICK_DECIMAL:
        return put_decimal(t, b, json, w->out, w->err);
    case CLICK_NOTHING:
        return json ? buf_append_str(w->out, "null", w->err) : 0;
    default:
        break;
    }
    int e = quotes ? buf_append_str(w->out, "\"", w->err) : 0;
    if (e < 0)
        return e;
    if (t->kind == CLICK_BOOL) {
        e = buf_append_str(w->out, *b ? "true" : "false", w->err);
    } else if (t->kind == CLICK_DATE) {
        e = put_days(t->bytes == 2 ? (int64_t)unsigned_of(b, 2) : signed_of(b, 4), w->out, w->err);
    } else if (t->kind == CLICK_DATETIME) {
        e = put_instant(w->rows, t, b, w->out, w->err);
    } else if (t->kind == CLICK_UUID) {
        e = put_uuid(b, w->out, w->err);
    } else if (t->kind == CLICK_ENUM) {
        snprintf(key, sizeof(key), "%" PRId64, signed_of(b, t->bytes));
        const json_t *name = json_object_get(t->names, key);
        const char *text = name ? json_string_value(name) : key;
        size_t n = name ? json_string_length(name) : strlen(key);
        e = json ? json_write_str(text, n, w->out, w->err) : buf_append(w->out, text, n, w->err);
    } else {
        e = put_address(t, b, w->out, w->err);
    }
    return e < 0 || !quotes ? e : buf_append_str(w->out, "\"", w->err);
}

/* Of an Array its items, of a Map pairs of key and value. */
static int put_items(struct writer *w, const struct click_type *t, struct input *in)
{
    bool map = t->kind == CLICK_MAP;
    uint64_t n;
    int e = take_length(in, &n, w->err);
    if (e == 0)
        e = buf_append_str(w->out, "[", w->err);
    for (uint64_t i = 0; i < n && e == 0; i++) {
        if (in->at == in->len && leaf_of(t)->kind != CLICK_NOTHING)
            return NEED_MORE;
        e = buf_append_str(w->out, i ? map ? ", [" : ", " : map ? "[" : "", w->err);
        if (e == 0)
            e = put_value(w, &t->args[0], in, true);
        if (e == 0 && map)
            e = buf_append_str(w->out, ", ", w->err);
        if (e == 0 && map)
            e = put_value(w, &t->args[1], in, true);
        if (e == 0 && map)
            e = buf_append_str(w->out, "]", w->err);
    }
    return e != 0 ? e : buf_append_str(w->out, "]", w->err);
}

/* 0, NEED_MORE or an error. json: as JSON has it, NULL included. */
static int put_value(struct writer *w, const struct click_type *t, struct input *in, bool json)
{
    const unsigned char *is_null;
    int e = 0;
    switch (t->kind) {
    case CLICK_NULLABLE:
        if (take_bytes(in, 1, &is_null))
            return NEED_MORE;
        return *is_null ? buf_append_str(w->out, "null", w->err) :
                          put_value(w, &t->args[0], in, json);
    case CLICK_STRING:
    case CLICK_FIXED:
        return put_string(w, t, in, json);
    case CLICK_ARRAY:
    case CLICK_MAP:
        return put_items(w, t, in);
    case CLICK_TUPLE:
        for (size_t i = 0; i < t->n_args && e == 0; i++) {
            e = buf_append_str(w->out, i ? ", " : "[", w->err);
            if (e == 0)
                e = put_value(w, &t->args[i], in, true);
        }
        return e != 0 ? e : buf_append_str(w->out, "]", w->err);
    default:
        return put_scalar(w, t, in, json);
    }
}

/* ---- rows ---- */

struct click_rows *click_rows_create(struct db_result *into, bool server_is_utc)
{
    struct click_rows *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->into = into;
    r->is_utc = server_is_utc;
    buf_init(&r->pending, 2 * CELL_MAX_BYTES);
    buf_init(&r->cells, 2 * CELL_MAX_BYTES);
    return r;
}

void click_rows_free(struct click_rows *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_columns; i++)
        click_type_destroy(r->columns[i].type);
    free(r->columns);
    free(r->row);
    free(r->starts);
    buf_finish(&r->pending);
    buf_finish(&r->cells);
    free(r);
}

int click_rows_add_column(struct click_rows *r, const char *name, const char *type, struct err *err)
{
    struct click_type *t;
    if (r->n_columns >= CLICK_COLUMNS_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d columns", CLICK_COLUMNS_MAX);
    struct column *more = reallocarray(r->columns, r->n_columns + 1, sizeof(*more));
    if (more)
        r->columns = more;
    struct db_cell *row = reallocarray(r->row, r->n_columns + 1, sizeof(*row));
    if (row)
        r->row = row;
    size_t *starts = reallocarray(r->starts, r->n_columns + 2, sizeof(*starts));
    if (starts)
        r->starts = starts;
    if (!more || !row || !starts)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (click_type_read(type, &t, err) < 0)
        return err_wrap(err, "the column '%.100s'", name);
    r->columns[r->n_columns++] = (struct column){
        .type = t, .texts = is_text(t->kind == CLICK_NULLABLE ? t->args : t)
    };
    const struct click_type *inner = t->kind == CLICK_NULLABLE ? t->args : t;
    char array[48];
    snprintf(array, sizeof(array), "%s[]", type_name(r, leaf_of(inner)));
    bool is_array = inner->kind == CLICK_ARRAY;
    bool flat = is_array && leaf_of(inner)->kind != CLICK_TUPLE &&
                leaf_of(inner)->kind != CLICK_MAP;
    return db_result_add_column(r->into, name,
                                flat     ? array :
                                is_array ? "JSON" :
                                           type_name(r, inner),
                                err);
}

void click_rows_expect_head(struct click_rows *r)
{
    r->wants_head = true;
}

static int take_word(struct input *in, size_t most, struct buf *out, struct err *err)
{
    const unsigned char *s;
    uint64_t n;
    int e = take_length(in, &n, err);
    if (e == 0 && n > most)
        e = err_set(err, ERR_PROTOCOL, "the database sent bytes that are no names of columns");
    if (e == 0)
        e = take_bytes(in, n, &s);
    if (e == 0 && memchr(s, '\0', n))
        e = err_set(err, ERR_PROTOCOL, "the database sent a zero byte in the name of a column");
    buf_clear(out);
    return e != 0 ? e : buf_append(out, s, n, err);
}

/* Number of columns, their names, their types. */
static int take_head(struct click_rows *r, struct err *err)
{
    struct input in = { .data = (const unsigned char *)r->pending.data, .len = r->pending.len };
    auto_json json_t *names = json_array();
    auto_buf struct buf word = BUF_INIT(TYPE_MAX_BYTES);
    uint64_t n;
    int e = take_length(&in, &n, err);
    if (e == 0 && n > CLICK_COLUMNS_MAX)
        e = err_set(err, ERR_TOO_LARGE, "more than %d columns", CLICK_COLUMNS_MAX);
    for (uint64_t i = 0; i < n && e == 0; i++) {
        e = take_word(&in, NAME_MAX_BYTES, &word, err);
        if (e == 0 && json_array_append_new(names, json_text(buf_cstr(&word), word.len)) < 0)
            e = err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    size_t types_at = in.at;
    for (uint64_t i = 0; i < n && e == 0; i++) /* all of it is there before anything is kept */
        e = take_word(&in, TYPE_MAX_BYTES, &word, err);
    in.at = e == 0 ? types_at : in.at;
    for (uint64_t i = 0; i < n && e == 0; i++) {
        e = take_word(&in, TYPE_MAX_BYTES, &word, err);
        if (e == 0)
            e = click_rows_add_column(r, json_string_value(json_array_get(names, i)),
                                      buf_cstr(&word), err);
    }
    if (e != 0)
        return e;
    buf_consume(&r->pending, in.at);
    r->wants_head = false;
    return 0;
}

/* One cell. An array whose first bytes that are no text come late is written once more. */
static int take_cell(struct click_rows *r, size_t i, struct input *in, bool *ret_null,
                     struct err *err)
{
    struct column *c = &r->columns[i];
    const struct click_type *t = c->type;
    struct writer w = { .rows = r, .column = c, .out = &r->cells, .err = err };
    const unsigned char *is_null;
    *ret_null = false;
    if (t->kind == CLICK_NULLABLE) {
        if (take_bytes(in, 1, &is_null))
            return NEED_MORE;
        *ret_null = *is_null != 0;
        t = &t->args[0];
    }
    if (*ret_null || t->kind == CLICK_NOTHING) {
        *ret_null = true;
        return 0;
    }
    struct input before = *in;
    bool was_binary = c->binary;
    size_t len = r->cells.len;
    int e = put_value(&w, t, in, false);
    if (e == 0 && c->binary && !was_binary && t->kind == CLICK_ARRAY) {
        r->cells.len = len;
        *in = before;
        e = put_value(&w, t, in, false);
    }
    return e;
}

static int array_to_hex(json_t *j)
{
    size_t i;
    json_t *item;
    json_array_foreach(j, i, item) {
        auto_buf struct buf hex = BUF_INIT(2 * CELL_MAX_BYTES);
        if (json_is_array(item) && array_to_hex(item) < 0)
            return -1;
        if (!json_is_string(item))
            continue;
        if (put_hex((const unsigned char *)json_string_value(item), json_string_length(item), &hex,
                    NULL) < 0 ||
            json_array_set_new(j, i, json_string(buf_cstr(&hex))) < 0)
            return -1;
    }
    return 0;
}

/* Adds one cell to a column that is written anew. */
static int add_cell(struct buf *cells, const char *data, size_t n, struct err *err)
{
    uint32_t len = data ? (uint32_t)n : UINT32_MAX;
    int e = buf_append(cells, &len, sizeof(len), err);
    return e < 0 || !data ? e : buf_append(cells, data, n, err);
}

/*
 * A column of bytes is written anew when the answer is over: texts lose their padding, and all
 * cells of a column with some that are no text become hexadecimal. Arrays are hexadecimal already.
 */
static int settle_column(struct click_rows *r, size_t i, struct err *err)
{
    struct column *c = &r->columns[i];
    struct db_column *to = &r->into->columns[i];
    bool array = !c->texts && is_text(leaf_of(c->type));
    bool padded = c->texts && leaf_of(c->type)->kind == CLICK_FIXED;
    if (!c->binary && !padded)
        return 0;
    auto_buf struct buf cells = BUF_INIT(to->cells.max_bytes), hex = BUF_INIT(2 * CELL_MAX_BYTES);
    struct db_cursor at = { .column = to };
    struct db_cell cell;
    int e = 0;
    while (e == 0 && db_cursor_next(&at, &cell)) {
        const unsigned char *s = (const unsigned char *)cell.data;
        buf_clear(&hex);
        if (!s || array) {
            e = add_cell(&cells, cell.data, cell.len, err);
        } else if (!c->binary) {
            e = add_cell(&cells, cell.data, without_padding(leaf_of(c->type), s, cell.len), err);
        } else {
            e = put_hex(s, cell.len, &hex, err);
            if (e == 0)
                e = add_cell(&cells, buf_cstr(&hex), hex.len, err);
        }
    }
    if (e == 0 && c->binary) {
        char *type = strdup(array ? "BLOB[]" : "BLOB");
        if (!type)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        free(to->type);
        to->type = type;
    }
    if (e == 0) {
        struct buf old = to->cells;
        to->cells = cells;
        cells = old;
    }
    return e;
}

/* Arrays of the rows before this one, which were written as texts. */
static int rewrite_arrays(struct click_rows *r, size_t i, struct err *err)
{
    struct db_column *to = &r->into->columns[i];
    auto_buf struct buf cells = BUF_INIT(to->cells.max_bytes);
    struct db_cursor at = { .column = to };
    struct db_cell cell;
    int e = 0;
    while (e == 0 && db_cursor_next(&at, &cell)) {
        auto_json json_t *j = NULL;
        auto_buf struct buf text = BUF_INIT(2 * CELL_MAX_BYTES);
        if (cell.data)
            e = json_parse(cell.data, cell.len, &j, err);
        if (e == 0 && j && array_to_hex(j) < 0)
            e = err_set(err, ERR_NO_MEMORY, "out of memory");
        if (e == 0 && j)
            e = json_write(j, &text, err);
        if (e == 0)
            e = add_cell(&cells, j ? buf_cstr(&text) : NULL, text.len, err);
    }
    if (e == 0) {
        struct buf old = to->cells;
        to->cells = cells;
        cells = old;
    }
    return e;
}

static int take_row(struct click_rows *r, struct input *in, struct err *err)
{
    bool nulls[CLICK_COLUMNS_MAX], binary[CLICK_COLUMNS_MAX];
    int e = 0;
    buf_clear(&r->cells);
    for (size_t i = 0; i < r->n_columns && e == 0; i++) {
        r->starts[i] = r->cells.len;
        binary[i] = r->columns[i].binary;
        e = take_cell(r, i, in, &nulls[i], err);
        r->starts[i + 1] = r->cells.len;
        if (e != 0) /* the row is read again */
            for (size_t k = 0; k <= i; k++)
                r->columns[k].binary = binary[k];
    }
    for (size_t i = 0; i < r->n_columns && e == 0; i++)
        if (r->columns[i].binary && !binary[i] && !r->columns[i].texts)
            e = rewrite_arrays(r, i, err);
    if (e != 0)
        return e;
    for (size_t i = 0; i < r->n_columns; i++)
        r->row[i] = nulls[i] ? (struct db_cell){ .data = NULL } :
                               (struct db_cell){ .data = buf_cstr(&r->cells) + r->starts[i],
                                                 .len = r->starts[i + 1] - r->starts[i] };
    e = db_result_add_row(r->into, r->row, err);
    if (e < 0 && r->into->truncated) {
        r->is_full = true;
        *err = (struct err)ERR_INIT;
        return 0;
    }
    return e;
}

int click_rows_feed(struct click_rows *r, const void *data, size_t len, struct err *err)
{
    if (r->is_full)
        return 1;
    int e = buf_append(&r->pending, data, len, err);
    if (e == 0 && r->wants_head)
        e = take_head(r, err);
    if (e != 0)
        return e == NEED_MORE ? 0 : e;
    struct input in = { .data = (const unsigned char *)r->pending.data, .len = r->pending.len };
    size_t done = 0;
    if (r->n_columns == 0 && in.len > 0)
        return err_set(err, ERR_PROTOCOL, "the database sent rows without columns");
    while (e == 0 && !r->is_full && in.at < in.len) {
        e = take_row(r, &in, err);
        if (e == 0 && in.at == done)
            e = err_set(err, ERR_PROTOCOL, "the database sent rows of no bytes");
        if (e == 0)
            done = in.at;
    }
    if (e < 0)
        return e;
    buf_consume(&r->pending, done);
    return r->is_full;
}

int click_rows_end(struct click_rows *r, struct err *err)
{
    if (!r->is_full && (r->pending.len > 0 || r->wants_head))
        return err_set(err, ERR_PROTOCOL, "the answer of the database ends inside of a row");
    int e = 0;
    for (size_t i = 0; i < r->n_columns && e == 0; i++)
        e = settle_column(r, i, err);
    return e;
}
