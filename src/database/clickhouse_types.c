/* Types of ClickHouse; see clickhouse_types.h. */

#include "database/clickhouse_types.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

#define DEPTH_MAX 12
#define TYPES_MAX 2048 /* parts of the type of one column */
#define NAME_MAX_BYTES 4096

static void finish_type(struct click_type *t)
{
    for (size_t i = 0; i < t->n_args; i++)
        finish_type(&t->args[i]);
    free(t->args);
    json_decref(t->names);
}

void click_type_destroy(struct click_type *t)
{
    if (t)
        finish_type(t);
    free(t);
}

struct type_reader {
    const char *s;
    size_t at, parts;
    unsigned depth;
    struct err *err;
};

static void skip_blanks(struct type_reader *r)
{
    while (r->s[r->at] == ' ')
        r->at++;
}

static bool take(struct type_reader *r, char c)
{
    skip_blanks(r);
    if (r->s[r->at] != c)
        return false;
    r->at++;
    return true;
}

static int unknown_type(struct type_reader *r)
{
    char shown[STR_SHOWN_SIZE];
    return err_set(r->err, ERR_VALIDATION,
                   "values of the type '%s' cannot be read; ask for toString() of them",
                   str_show(r->s, strlen(r->s), shown, sizeof(shown)));
}

static bool take_number(struct type_reader *r, unsigned *ret)
{
    skip_blanks(r);
    unsigned long v = 0;
    size_t from = r->at;
    while (isdigit((unsigned char)r->s[r->at]) && r->at - from < 7)
        v = v * 10 + (unsigned long)(r->s[r->at++] - '0');
    *ret = (unsigned)v;
    return r->at > from;
}

/* 'text' with backslashes, as ClickHouse quotes names of Enums and zones. */
static int take_text(struct type_reader *r, struct buf *out)
{
    if (!take(r, '\''))
        return unknown_type(r);
    while (r->s[r->at] && r->s[r->at] != '\'') {
        char c = r->s[r->at++];
        if (c == '\\' && r->s[r->at]) {
            static const char from[] = "bfnrt0", to[] = "\b\f\n\r\t";
            const char *at = strchr(from, r->s[r->at]);
            c = at ? to[at - from] : r->s[r->at];
            r->at++;
        }
        if (buf_append(out, &c, 1, r->err) < 0)
            return -(int)r->err->code;
    }
    return take(r, '\'') ? 0 : unknown_type(r);
}

static int read_type(struct type_reader *r, struct click_type *ret);

static int read_args(struct type_reader *r, struct click_type *ret, size_t at_most, bool named)
{
    if (!take(r, '('))
        return unknown_type(r);
    while (!take(r, ')')) {
        if ((ret->n_args > 0 && !take(r, ',')) || ret->n_args == at_most)
            return unknown_type(r);
        skip_blanks(r);
        size_t n = strcspn(r->s + r->at, " ,()'`");
        if (named && r->s[r->at] == '`') { /* Tuple(`a b` String) */
            const char *end = strchr(r->s + r->at + 1, '`');
            if (!end)
                return unknown_type(r);
            r->at = (size_t)(end - r->s) + 1;
        } else if (named && r->s[r->at + n] == ' ') {
            r->at += n;
        }
        struct click_type *more = reallocarray(ret->args, ret->n_args + 1, sizeof(*more));
        if (!more)
            return err_set(r->err, ERR_NO_MEMORY, "out of memory");
        ret->args = more;
        more[ret->n_args] = (struct click_type){ .kind = CLICK_NOTHING };
        int e = read_type(r, &more[ret->n_args++]);
        if (e < 0)
            return e;
    }
    return ret->n_args > 0 ? 0 : unknown_type(r);
}

static int read_enum(struct type_reader *r, struct click_type *ret)
{
    ret->names = json_object();
    bool good = ret->names && take(r, '(');
    for (bool first = true; good && !take(r, ')'); first = false) {
        auto_buf struct buf name = BUF_INIT(NAME_MAX_BYTES);
        unsigned number;
        char key[16];
        good = (first || take(r, ',')) && take_text(r, &name) == 0 && take(r, '=');
        bool minus = good && take(r, '-');
        good = good && take_number(r, &number);
        if (!good)
            break;
        snprintf(key, sizeof(key), "%s%u", minus ? "-" : "", number);
        good = json_object_set_new(ret->names, key, json_text(buf_cstr(&name), name.len)) == 0;
    }
    return good ? 0 : unknown_type(r);
}

/* DateTime, DateTime('zone'), DateTime64(3), DateTime64(3, 'zone') */
static int read_datetime(struct type_reader *r, struct click_type *ret, bool has_scale)
{
    auto_buf struct buf zone = BUF_INIT(256);
    ret->kind = CLICK_DATETIME;
    ret->bytes = has_scale ? 8 : 4;
    if (!take(r, '('))
        return has_scale ? unknown_type(r) : 0;
    if (has_scale && (!take_number(r, &ret->scale) || ret->scale > 9))
        return unknown_type(r);
    if (has_scale && take(r, ')'))
        return 0;
    if (has_scale && !take(r, ','))
        return unknown_type(r);
    int e = take_text(r, &zone);
    ret->zoned = true;
    return e < 0 ? e : take(r, ')') ? 0 : unknown_type(r);
}

static int read_decimal(struct type_reader *r, struct click_type *ret, unsigned bits)
{
    unsigned digits = bits == 32 ? 9 : bits == 64 ? 18 : bits == 128 ? 38 : 76;
    ret->kind = CLICK_DECIMAL;
    bool good = take(r, '(') && (bits || (take_number(r, &digits) && take(r, ','))) &&
                take_number(r, &ret->scale) && take(r, ')') && digits <= 76 && ret->scale <= digits;
    ret->bytes = digits <= 9 ? 4 : digits <= 18 ? 8 : digits <= 38 ? 16 : 32;
    return good ? 0 : unknown_type(r);
}

/* The second argument of SimpleAggregateFunction(sum, UInt64), whose values are of that type. */
static int read_simple_aggregate(struct type_reader *r, struct click_type *ret)
{
    if (!take(r, '('))
        return unknown_type(r);
    r->at += strcspn(r->s + r->at, ",()");
    if (!take(r, ','))
        return unknown_type(r);
    int e = read_type(r, ret);
    return e < 0 ? e : take(r, ')') ? 0 : unknown_type(r);
}

static int read_compound(struct type_reader *r, const char *name, struct click_type *ret)
{
    int e;
    if (str_eq(name, "LowCardinality")) {
        if (!take(r, '('))
            return unknown_type(r);
        e = read_type(r, ret);
        return e < 0 ? e : take(r, ')') ? 0 : unknown_type(r);
    }
    if (str_eq(name, "SimpleAggregateFunction"))
        return read_simple_aggregate(r, ret);
    if (str_eq(name, "Nested")) { /* an array of tuples */
        ret->kind = CLICK_ARRAY;
        ret->args = calloc(1, sizeof(*ret->args));
        if (!ret->args)
            return err_set(r->err, ERR_NO_MEMORY, "out of memory");
        ret->n_args = 1;
        ret->args[0].kind = CLICK_TUPLE;
        return read_args(r, &ret->args[0], TYPES_MAX, true);
    }
    static const struct {
        const char *name;
        enum click_kind kind;
        size_t n;
    } compounds[] = { { "Nullable", CLICK_NULLABLE, 1 },
                      { "Array", CLICK_ARRAY, 1 },
                      { "Map", CLICK_MAP, 2 },
                      { "Tuple", CLICK_TUPLE, TYPES_MAX } };
    for (size_t i = 0; i < ARRAY_SIZE(compounds); i++) {
        if (!str_eq(name, compounds[i].name))
            continue;
        ret->kind = compounds[i].kind;
        e = read_args(r, ret, compounds[i].n, ret->kind == CLICK_TUPLE);
        return e < 0                                                     ? e :
               ret->n_args != compounds[i].n && ret->kind != CLICK_TUPLE ? unknown_type(r) :
                                                                           0;
    }
    return unknown_type(r);
}

static int read_named(struct type_reader *r, const char *name, struct click_type *ret)
{
    static const struct {
        const char *name;
        enum click_kind kind;
        unsigned bytes;
    } plain[] = { { "UInt8", CLICK_UINT, 1 },    { "UInt16", CLICK_UINT, 2 },
                  { "UInt32", CLICK_UINT, 4 },   { "UInt64", CLICK_UINT, 8 },
                  { "UInt128", CLICK_UINT, 16 }, { "UInt256", CLICK_UINT, 32 },
                  { "Int8", CLICK_INT, 1 },      { "Int16", CLICK_INT, 2 },
                  { "Int32", CLICK_INT, 4 },     { "Int64", CLICK_INT, 8 },
                  { "Int128", CLICK_INT, 16 },   { "Int256", CLICK_INT, 32 },
                  { "Float32", CLICK_FLOAT, 4 }, { "Float64", CLICK_FLOAT, 8 },
                  { "Bool", CLICK_BOOL, 1 },     { "Date", CLICK_DATE, 2 },
                  { "Date32", CLICK_DATE, 4 },   { "String", CLICK_STRING, 0 },
                  { "UUID", CLICK_UUID, 16 },    { "IPv4", CLICK_IPV4, 4 },
                  { "IPv6", CLICK_IPV6, 16 },    { "Nothing", CLICK_NOTHING, 0 } };
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (str_eq(name, plain[i].name)) {
            ret->kind = plain[i].kind;
            ret->bytes = plain[i].bytes;
            return 0;
        }
    if (str_eq(name, "Enum8") || str_eq(name, "Enum16")) {
        ret->kind = CLICK_ENUM;
        ret->bytes = str_eq(name, "Enum8") ? 1 : 2;
        return read_enum(r, ret);
    }
    if (str_eq(name, "DateTime") || str_eq(name, "DateTime64"))
        return read_datetime(r, ret, str_eq(name, "DateTime64"));
    if (str_eq(name, "FixedString")) {
        ret->kind = CLICK_FIXED;
        return take(r, '(') && take_number(r, &ret->bytes) && ret->bytes > 0 && take(r, ')') ?
                   0 :
                   unknown_type(r);
    }
    static const char *const intervals[] = {
        "IntervalNanosecond", "IntervalMicrosecond", "IntervalMillisecond", "IntervalSecond",
        "IntervalMinute",     "IntervalHour",        "IntervalDay",         "IntervalWeek",
        "IntervalMonth",      "IntervalQuarter",     "IntervalYear"
    };
    for (size_t i = 0; i < ARRAY_SIZE(intervals); i++)
        if (str_eq(name, intervals[i])) { /* a number of these */
            ret->kind = CLICK_INT;
            ret->bytes = 8;
            return 0;
        }
    static const unsigned bits[] = { 0, 32, 64, 128, 256 };
    for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
        char decimal[16];
        snprintf(decimal, sizeof(decimal), bits[i] ? "Decimal%u" : "Decimal", bits[i]);
        if (str_eq(name, decimal))
            return read_decimal(r, ret, bits[i]);
    }
    return read_compound(r, name, ret);
}

static int read_type(struct type_reader *r, struct click_type *ret)
{
    char name[32];
    skip_blanks(r);
    size_t n = 0;
    while (isalnum((unsigned char)r->s[r->at + n]))
        n++;
    if (n == 0 || n >= sizeof(name) || r->depth >= DEPTH_MAX || ++r->parts > TYPES_MAX)
        return unknown_type(r);
    memcpy(name, r->s + r->at, n);
    name[n] = '\0';
    r->at += n;
    r->depth++;
    int e = read_named(r, name, ret);
    r->depth--;
    return e;
}

int click_type_read(const char *text, struct click_type **ret, struct err *err)
{
    struct click_type *t = calloc(1, sizeof(*t));
    struct type_reader reader = { .s = text, .err = err };
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int e = read_type(&reader, t);
    if (e == 0 && text[reader.at])
        e = unknown_type(&reader);
    if (e < 0) {
        click_type_destroy(t);
        return e;
    }
    *ret = t;
    return 0;
}
