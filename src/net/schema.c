/*
 * Validation by a schema, and JSON Schema printed from it. The path of the value in hand
 * ("limits.timeout", "filters[2].op") is kept in one bounded buffer that grows and shrinks with the
 * recursion; input cannot nest deeper than JSON_MAX_DEPTH.
 */

#include "net/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"

struct check {
    struct schema_report *report;
    size_t len; /* of report->path */
    struct err *err;
};

static int validate_object(struct check *c, const struct schema *s, json_t *value);

/* ---- the path ---- */

PRINTF_LIKE(2, 3)
static size_t path_push(struct check *c, const char *fmt, ...)
{
    size_t before = c->len;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(c->report->path + c->len, SCHEMA_PATH_SIZE - c->len, fmt, args);
    va_end(args);
    if (n > 0)
        c->len = MIN_OF(c->len + (size_t)n, (size_t)SCHEMA_PATH_SIZE - 1);
    return before;
}

static void path_pop(struct check *c, size_t before)
{
    c->len = before;
    c->report->path[before] = '\0';
}

/* ---- what is allowed and what was found, in words ---- */

static const char *found(const json_t *j, char ret[STR_SHOWN_SIZE])
{
    auto_free char *text = NULL;

    if (json_is_object(j))
        return "an object";
    if (json_is_array(j))
        return "an array";
    if (json_is_string(j)) {
        char shown[STR_SHOWN_SIZE - 8];

        str_show(json_string_value(j), json_string_length(j), shown, sizeof(shown));
        snprintf(ret, STR_SHOWN_SIZE, "\"%s\"", shown);
        return ret;
    }
    text = json_to_str(j);
    return text ? str_show(text, strlen(text), ret, STR_SHOWN_SIZE) : json_type_name(j);
}

static size_t characters(const json_t *j)
{
    const char *s = json_string_value(j);
    size_t n = 0;

    for (size_t i = 0; i < json_string_length(j); i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static bool is_of_type(const json_t *j, unsigned types)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return types & SCHEMA_OBJECT;
    case JSON_ARRAY:
        return types & SCHEMA_ARRAY;
    case JSON_STRING:
        return types & SCHEMA_STRING;
    case JSON_INTEGER:
        return types & (SCHEMA_INTEGER | SCHEMA_NUMBER);
    case JSON_REAL:
        return types & SCHEMA_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return types & SCHEMA_BOOLEAN;
    case JSON_NULL:
        return types & SCHEMA_NULL;
    }
    return false;
}

/* "an integer between 1 and 60", "a string or null", … */
static void describe(const struct schema_field *f, struct buf *b)
{
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
        { SCHEMA_STRING, "a string" },  { SCHEMA_INTEGER, "an integer" },
        { SCHEMA_NUMBER, "a number" },  { SCHEMA_BOOLEAN, "a boolean" },
        { SCHEMA_OBJECT, "an object" }, { SCHEMA_ARRAY, "an array" },
        { SCHEMA_NULL, "null" },
    };
    unsigned left = f->types;

    if (f->choices) {
        buf_append_str(b, "one of ", NULL);
        for (size_t i = 0; f->choices[i]; i++)
            buf_printf(b, NULL, "%s\"%s\"", i ? ", " : "", f->choices[i]);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!(left & names[i].type))
            continue;
        left &= ~names[i].type;
        buf_printf(b, NULL, "%s%s", b->len == 0 ? "" : left ? ", " : " or ", names[i].name);
    }
    if (f->types == SCHEMA_INTEGER || f->types == SCHEMA_NUMBER) {
        if (f->has_min && f->has_max)
            buf_printf(b, NULL, " between %lld and %lld", f->min, f->max);
        else if (f->has_min)
            buf_printf(b, NULL, " of at least %lld", f->min);
        else if (f->has_max)
            buf_printf(b, NULL, " of at most %lld", f->max);
    }
}

/* FastAPI's name of the fault of a value that is not of the field's type. */
static const char *type_fault(const struct schema_field *f)
{
    static const struct {
        unsigned type;
        const char *fault;
    } faults[] = {
        { SCHEMA_STRING, "string_type" }, { SCHEMA_NUMBER, "float_type" },
        { SCHEMA_INTEGER, "int_type" },   { SCHEMA_BOOLEAN, "bool_type" },
        { SCHEMA_OBJECT, "dict_type" },   { SCHEMA_ARRAY, "list_type" },
    };

    if (f->choices)
        return "literal_error";
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (f->types & faults[i].type)
            return faults[i].fault;
    return "none_required";
}

static int wrong(struct check *c, const struct schema_field *f, const json_t *value,
                 const char *fault)
{
    auto_buf struct buf allowed = BUF_INIT(ERR_MESSAGE_MAX / 2);
    char shown[STR_SHOWN_SIZE];

    c->report->fault = fault;
    describe(f, &allowed);
    return err_set(c->err, ERR_VALIDATION, "'%s' must be %s, not %s", c->report->path,
                   buf_cstr(&allowed), found(value, shown));
}

static int wrong_size(struct check *c, const struct schema_field *f, size_t n, bool is_text)
{
    const char *one = is_text ? "character" : "item", *many = is_text ? "characters" : "items";
    bool is_short = f->has_min && f->min > 0 && n < (unsigned long long)f->min;
    char allowed[96];

    if (is_text)
        c->report->fault = is_short ? "string_too_short" : "string_too_long";
    else
        c->report->fault = is_short ? "too_short" : "too_long";
    if (f->has_min && f->has_max && f->min == f->max)
        snprintf(allowed, sizeof(allowed), "exactly %lld %s", f->min, f->min == 1 ? one : many);
    else if (f->has_min && f->has_max)
        snprintf(allowed, sizeof(allowed), "%lld to %lld %s", f->min, f->max, many);
    else if (f->has_min)
        snprintf(allowed, sizeof(allowed), "at least %lld %s", f->min, f->min == 1 ? one : many);
    else
        snprintf(allowed, sizeof(allowed), "at most %lld %s", f->max, f->max == 1 ? one : many);
    if (n == 0 && f->has_min && f->min == 1)
        return err_set(c->err, ERR_VALIDATION, "'%s' must not be empty", c->report->path);
    return err_set(c->err, ERR_VALIDATION, "'%s' must have %s, not %zu", c->report->path, allowed,
                   n);
}

/* ---- validation ---- */

static bool size_fits(const struct schema_field *f, size_t n)
{
    return (!f->has_min || f->min <= 0 || n >= (unsigned long long)f->min) &&
           (!f->has_max || (f->max >= 0 && n <= (unsigned long long)f->max));
}

/* The fault of a number out of range; NULL when it is in range. */
static const char *number_fault(const struct schema_field *f, const json_t *value)
{
    bool whole = json_is_integer(value);
    long long i = json_integer_value(value);
    double d = json_real_value(value);

    if (f->has_min && (whole ? i < f->min : !(d >= (double)f->min)))
        return "greater_than_equal";
    if (f->has_max && (whole ? i > f->max : !(d <= (double)f->max)))
        return "less_than_equal";
    return NULL;
}

static int validate_field(struct check *c, const struct schema_field *f, json_t *value)
{
    if (f->types != SCHEMA_ANY && !is_of_type(value, f->types))
        return wrong(c, f, value, type_fault(f));
    if (json_is_string(value)) {
        if (f->choices) {
            for (size_t i = 0; f->choices[i]; i++) {
                if (str_eq(f->choices[i], json_string_value(value)))
                    return 0;
            }
            return wrong(c, f, value, "literal_error");
        }
        size_t n = characters(value);
        return size_fits(f, n) ? 0 : wrong_size(c, f, n, true);
    }
    if (json_is_number(value)) {
        const char *fault = number_fault(f, value);

        return fault ? wrong(c, f, value, fault) : 0;
    }
    if (json_is_array(value)) {
        size_t n = json_array_size(value);

        if (!size_fits(f, n))
            return wrong_size(c, f, n, false);
        for (size_t i = 0; f->items && i < n; i++) {
            size_t before = path_push(c, "[%zu]", i);
            int r = validate_field(c, f->items, json_array_get(value, i));

            if (r < 0)
                return r;
            path_pop(c, before);
        }
        return 0;
    }
    if (json_is_object(value) && f->object)
        return validate_object(c, f->object, value);
    return 0;
}

/* Names a dropped field in the report: what does not fit is cut, with a mark. */
static void note_ignored(struct check *c, const char *key)
{
    char *out = c->report->ignored, shown[STR_SHOWN_SIZE];
    size_t len = strlen(out), room = SCHEMA_PATH_SIZE - len;
    static const char more[] = " …";
    int n;

    if (str_ends(out, more))
        return;
    str_show(key, strlen(key), shown, sizeof(shown));
    n = snprintf(out + len, room, "%s%s%s%s", len ? " " : "", c->report->path, c->len ? "." : "",
                 shown);
    if (n < 0 || (size_t)n + sizeof(more) > room)
        snprintf(out + MIN_OF(len, SCHEMA_PATH_SIZE - sizeof(more)), sizeof(more), "%s", more);
}

static void drop_unknown(struct check *c, const struct schema *s, json_t *value)
{
    const char *key;
    json_t *member;
    void *next;

    json_object_foreach_safe(value, next, key, member) {
        const struct schema_field *f = s->fields;

        while (f->name && !str_eq(f->name, key))
            f++;
        if (f->name)
            continue;
        note_ignored(c, key);
        json_object_del(value, key);
    }
}

#define SCHEMA_CLOSED_MAX 64 /* fields of an object that takes no others */

/* An unknown field of an object that takes no others is a mistake. */
static int refuse_unknown(struct check *c, const struct schema *s, const json_t *value)
{
    const char *names[SCHEMA_CLOSED_MAX], *key;
    char shown[STR_SHOWN_SIZE];
    json_t *member;
    size_t n = 0;

    for (const struct schema_field *f = s->fields; f->name && n < ARRAY_SIZE(names); f++)
        names[n++] = f->name;
    json_object_foreach((json_t *)value, key, member) {
        size_t i = 0;

        while (i < n && !str_eq(names[i], key))
            i++;
        if (i < n)
            continue;
        const char *near = str_nearest(key, names, n);

        str_show(key, strlen(key), shown, sizeof(shown));
        path_push(c, "%s%s", c->len ? "." : "", shown);
        c->report->fault = "extra_forbidden";
        return err_set(c->err, ERR_VALIDATION, "there is no '%s'%s%s%s", c->report->path,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return 0;
}

static int put_default(struct check *c, const struct schema_field *f, json_t *object)
{
    json_t *j;
    int r = json_parse(f->dflt, strlen(f->dflt), &j, c->err);

    if (r < 0)
        return r;
    if (json_object_set_new(object, f->name, j) < 0)
        return err_set(c->err, ERR_NO_MEMORY, "out of memory for the default of '%s'", f->name);
    return 0;
}

static int validate_object(struct check *c, const struct schema *s, json_t *value)
{
    json_t *member;
    int r;

    if (!s->fields)
        return 0;
    r = s->closed ? refuse_unknown(c, s, value) : 0;
    if (r < 0)
        return r;
    if (!s->open)
        drop_unknown(c, s, value);
    for (const struct schema_field *f = s->fields; f->name; f++) {
        size_t before;

        member = json_object_get(value, f->name);
        before = path_push(c, "%s%s", c->len ? "." : "", f->name);
        if (!member || (f->nullable && json_is_null(member))) {
            if (!member && f->required) {
                c->report->fault = "missing";
                return err_set(c->err, ERR_VALIDATION, "'%s' is required", c->report->path);
            }
            r = f->dflt ? put_default(c, f, value) : 0;
        } else {
            r = validate_field(c, f, member);
        }
        if (r < 0)
            return r;
        path_pop(c, before);
    }
    return 0;
}

int schema_validate(const struct schema *s, json_t *value, struct schema_report *ret_report,
                    struct err *err)
{
    struct schema_report own, *report = ret_report ? ret_report : &own;
    struct check c = { .report = report, .err = err };
    char shown[STR_SHOWN_SIZE];

    *report = (struct schema_report){ .fault = NULL };
    if (!json_is_object(value)) {
        report->fault = "model_attributes_type";
        return err_set(err, ERR_VALIDATION, "the body must be an object, not %s",
                       found(value, shown));
    }
    return validate_object(&c, s, value);
}

json_t *schema_fault_to_json(const struct schema_report *report, const char *where,
                             const struct err *err)
{
    json_t *loc = json_pack("[s]", where);

    for (const char *p = report->path; loc && *p;) {
        size_t n = strcspn(p, ".[");

        if (n > 0)
            json_array_append_new(loc, json_stringn(p, n));
        p += n;
        if (*p == '[') {
            json_array_append_new(loc, json_integer(strtoll(p + 1, NULL, 10)));
            p += strcspn(p, "]");
            p += *p == ']';
        }
        p += *p == '.';
    }
    return json_pack("[{s:o, s:s, s:s}]", "loc", loc, "msg", err->message, "type",
                     report->fault ? report->fault : "value_error");
}

/* ---- text of a path or a query ---- */

int schema_parse_text(const struct schema_field *f, const char *text, json_t **ret,
                      struct schema_report *ret_report, struct err *err)
{
    struct schema_report own, *report = ret_report ? ret_report : &own;
    struct check c = { .report = report, .err = err };
    auto_json json_t *j = NULL;
    int r;

    *report = (struct schema_report){ .fault = NULL };
    path_push(&c, "%s", f->name ? f->name : "value");
    if (f->types & SCHEMA_BOOLEAN &&
        (str_eq(text, "true") || str_eq(text, "1") || str_eq(text, "false") || str_eq(text, "0"))) {
        j = json_boolean(text[0] == 't' || text[0] == '1');
    } else if (f->types & (SCHEMA_INTEGER | SCHEMA_NUMBER) && text[0] != '\0' &&
               strlen(text) < 64 && strspn(text, "+-.0123456789eE") == strlen(text)) {
        char *end;
        long long i;

        errno = 0;
        i = strtoll(text, &end, 10);
        if (*end == '\0' && errno == 0) {
            j = json_integer(i);
        } else if (f->types & SCHEMA_NUMBER) {
            double d = strtod(text, &end);

            j = *end == '\0' && isfinite(d) ? json_real(d) : json_text(text, strlen(text));
        } else {
            j = json_text(text, strlen(text));
        }
    } else {
        j = json_text(text, strlen(text));
    }
    if (!j)
        return err_set(err, ERR_NO_MEMORY, "out of memory for '%s'", report->path);
    r = validate_field(&c, f, j);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(j);
    return 0;
}

/* ---- JSON Schema ---- */

static json_t *object_to_json(const struct schema *s, json_t *components, int depth);

static json_t *type_names(unsigned types)
{
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
        { SCHEMA_STRING, "string" },   { SCHEMA_INTEGER, "integer" }, { SCHEMA_NUMBER, "number" },
        { SCHEMA_BOOLEAN, "boolean" }, { SCHEMA_OBJECT, "object" },   { SCHEMA_ARRAY, "array" },
        { SCHEMA_NULL, "null" },
    };
    json_t *list = json_array();

    /* An integer is a number. */
    if (types & SCHEMA_NUMBER)
        types &= ~(unsigned)SCHEMA_INTEGER;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (types & names[i].type)
            json_array_append_new(list, json_string(names[i].name));
    }
    if (json_array_size(list) == 1) {
        json_t *one = json_incref(json_array_get(list, 0));

        json_decref(list);
        return one;
    }
    return list;
}

static void put_text(json_t *obj, const char *key, const char *text)
{
    if (text)
        json_object_set_new(obj, key, json_string(text));
}

static void put_json(json_t *obj, const char *key, const char *text, bool in_list)
{
    json_t *j;

    if (!text || json_parse(text, strlen(text), &j, NULL) < 0)
        return;
    json_object_set_new(obj, key, in_list ? json_pack("[o]", j) : j);
}

static json_t *field_to_json(const struct schema_field *f, json_t *components, int depth)
{
    unsigned types = f->types | (f->nullable && f->types != SCHEMA_ANY ? (unsigned)SCHEMA_NULL : 0);
    json_t *obj = json_object();

    if (types != SCHEMA_ANY)
        json_object_set_new(obj, "type", type_names(types));
    put_text(obj, "description", f->doc);
    put_text(obj, "format", f->format);
    if (f->choices) {
        json_t *list = json_array();

        for (size_t i = 0; f->choices[i]; i++)
            json_array_append_new(list, json_string(f->choices[i]));
        if (types & SCHEMA_NULL)
            json_array_append_new(list, json_null());
        json_object_set_new(obj, "enum", list);
    }
    static const struct {
        unsigned type;
        const char *min, *max;
    } bounds[] = {
        { SCHEMA_INTEGER | SCHEMA_NUMBER, "minimum", "maximum" },
        { SCHEMA_STRING, "minLength", "maxLength" },
        { SCHEMA_ARRAY, "minItems", "maxItems" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
        if (f->has_min && f->types & bounds[i].type)
            json_object_set_new(obj, bounds[i].min, json_integer(f->min));
        if (f->has_max && f->types & bounds[i].type)
            json_object_set_new(obj, bounds[i].max, json_integer(f->max));
    }
    put_json(obj, "default", f->dflt, false);
    put_json(obj, "examples", f->example, true);
    if (f->items)
        json_object_set_new(obj, "items", field_to_json(f->items, components, depth + 1));
    if (f->object) {
        json_t *inner = object_to_json(f->object, components, depth + 1);

        /* Siblings of $ref are allowed in 2020-12, but a type that also has null needs a choice. */
        if (types == SCHEMA_OBJECT) {
            json_object_del(obj, "type");
            json_object_update_missing(obj, inner);
            json_decref(inner);
        } else {
            json_t *others = json_object();

            json_object_set_new(others, "type", type_names(types & ~(unsigned)SCHEMA_OBJECT));
            if (json_object_get(obj, "items")) {
                json_object_set(others, "items", json_object_get(obj, "items"));
                json_object_del(obj, "items");
            }
            json_object_del(obj, "type");
            json_object_set_new(obj, "anyOf", json_pack("[o,o]", inner, others));
        }
    }
    return obj;
}

static json_t *fields_to_json(const struct schema *s, json_t *components, int depth)
{
    json_t *obj = json_pack("{s:s}", "type", "object");
    json_t *properties = json_object(), *required = json_array();

    put_text(obj, "description", s->doc);
    for (const struct schema_field *f = s->fields; f && f->name; f++) {
        json_object_set_new(properties, f->name, field_to_json(f, components, depth));
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    if (s->fields)
        json_object_set(obj, "properties", properties);
    if (json_array_size(required) > 0)
        json_object_set(obj, "required", required);
    if (s->closed || s->open)
        json_object_set_new(obj, "additionalProperties", json_boolean(s->open));
    put_json(obj, "examples", s->example, true);
    json_decref(properties);
    json_decref(required);
    return obj;
}

static json_t *object_to_json(const struct schema *s, json_t *components, int depth)
{
    if (!s->name || !components)
        return depth > 16 ? json_pack("{s:s}", "type", "object") :
                            fields_to_json(s, components, depth);
    if (!json_object_get(components, s->name)) {
        /* The name is taken before its fields are written: they may refer to it. */
        json_object_set_new(components, s->name, json_true());
        json_object_set_new(components, s->name, fields_to_json(s, components, 0));
    }
    return json_pack("{s:s+}", "$ref", "#/components/schemas/", s->name);
}

json_t *schema_to_json(const struct schema *s, json_t *components)
{
    return object_to_json(s, components, 0);
}

json_t *schema_field_to_json(const struct schema_field *f, json_t *components)
{
    return field_to_json(f, components, 0);
}
