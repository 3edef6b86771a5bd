/*
 * The JSON façade. Parsing is jansson's, with a scan before it that bounds depth. Writing is our
 * own: jansson prints 0.1 as 0.10000000000000001, and results are read by people.
 */

#include "base/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_impl.h"
#include "base/str.h"

/*
 * What a writer recurses into at most: values that we build are not deeper, and a circular one ends
 * here.
 */
#define JSON_WRITE_MAX_DEPTH 256

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* ---- parsing ---- */

/*
 * Refuses text that nests deeper than the limit, or has more values, before anything is built from
 * it. What is inside strings does not count; the keys of objects do, as they take memory too. Text
 * that is no JSON may be misread here; then the parser refuses it.
 */
static int check_size(const char *text, size_t len, size_t max_nodes, size_t *ret_nodes,
                      struct err *err)
{
    size_t line = 1, line_start = 0, nodes = 1;
    int depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == ':') {
            nodes++;
        } else if (c == '[' || c == '{') {
            nodes++;
            if (++depth > JSON_MAX_DEPTH)
                return err_set(err, ERR_INVALID_JSON,
                               "invalid JSON at line %zu, column %zu: nested deeper than %d levels",
                               line, i - line_start + 1, JSON_MAX_DEPTH);
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    if (nodes > max_nodes)
        return err_set(err, ERR_TOO_LARGE, "JSON with about %zu values; at most %zu are allowed",
                       nodes, max_nodes);
    if (ret_nodes)
        *ret_nodes = nodes;
    return 0;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!strchr(" \t\r\n", text[i]) || text[i] == '\0')
            return false;
    }
    return true;
}

/*
 * jansson reports some allocations that failed as bad syntax, and goes on after others without the
 * digit or letter that had no room: so they are noted here.
 */
static _Thread_local bool out_of_memory;

static void *note_malloc(size_t size)
{
    void *p = malloc(size);

    out_of_memory |= !p;
    return p;
}

__attribute__((constructor)) static void set_allocator(void)
{
    json_set_alloc_funcs(note_malloc, free);
}

int json_parse(const char *text, size_t len, json_t **ret, struct err *err)
{
    return json_parse_within(text, len, SIZE_MAX, ret, NULL, err);
}

int json_parse_within(const char *text, size_t len, size_t max_nodes, json_t **ret,
                      size_t *ret_nodes, struct err *err)
{
    json_error_t e = { .line = 0 };
    char shown[JSON_ERROR_TEXT_LENGTH];
    const char *reason;
    json_t *j;
    int r;

    if (is_blank(text, len))
        return err_set(err, ERR_INVALID_JSON,
                       "invalid JSON at line 1, column 1: the text is empty");
    r = check_size(text, len, max_nodes, ret_nodes, err);
    if (r < 0)
        return r;
    out_of_memory = false;
    j = json_load(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (out_of_memory) {
        json_decref(j);
        return err_set(err, ERR_NO_MEMORY, "out of memory for JSON of %zu bytes", len);
    }
    if (j) {
        *ret = j;
        return 0;
    }

    switch (json_error_code(&e)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        reason = "\\u0000 (a NUL character) is not supported in strings";
        break;
    case json_error_numeric_overflow:
        reason = strstr(e.text, "integer") ? "an integer must fit into 64 bits" :
                                             "a number is too large for a double";
        break;
    case json_error_end_of_input_expected:
        reason = "nothing may follow the value";
        break;
    default:
        reason = str_show(e.text, strlen(e.text), shown, sizeof(shown));
    }
    return err_set(err, ERR_INVALID_JSON, "invalid JSON at line %d, column %d: %s",
                   MAX_OF(e.line, 1), MAX_OF(e.column, 1), reason);
}

/* ---- writing ---- */

int json_write_str(const char *s, size_t len, struct buf *b, struct err *err)
{
    size_t plain = 0; /* start of what needs no escape */
    int r = buf_reserve(b, len + 2, err);

    if (r == 0)
        r = buf_append(b, "\"", 1, err);

    for (size_t i = 0; r == 0 && i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        char escape[8];
        size_t n = 2;

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        escape[0] = '\\';
        switch (c) {
        case '\0':
            memcpy(escape, REPLACEMENT, n = sizeof(REPLACEMENT) - 1);
            break;
        case '"':
        case '\\':
            escape[1] = (char)c;
            break;
        case '\n':
            escape[1] = 'n';
            break;
        case '\r':
            escape[1] = 'r';
            break;
        case '\t':
            escape[1] = 't';
            break;
        case '\b':
            escape[1] = 'b';
            break;
        case '\f':
            escape[1] = 'f';
            break;
        default:
            memcpy(escape + 1, "u00", 3);
            escape[4] = "0123456789abcdef"[c >> 4];
            escape[5] = "0123456789abcdef"[c & 15];
            n = 6;
        }
        r = buf_append(b, s + plain, i - plain, err);
        if (r == 0)
            r = buf_append(b, escape, n, err);
        plain = i + 1;
    }
    if (r == 0)
        r = buf_append(b, s + plain, len - plain, err);
    return r == 0 ? buf_append(b, "\"", 1, err) : r;
}

/* Appends what is short; most of a large value is. */
static inline int put(struct buf *b, const char *s, size_t len, struct err *err)
{
    /* cap counts the NUL; 0 without data */
    if (len >= b->cap - b->len || len > b->max_bytes - b->len)
        return buf_append(b, s, len, err);
    memcpy(b->data + b->len, s, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

static bool is_plain(const char *s, size_t len)
{
    unsigned bad = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        bad |= (unsigned)(c < 0x20) | (unsigned)(c == '"') | (unsigned)(c == '\\');
    }
    return bad == 0;
}

static int write_text(const char *s, size_t len, struct buf *b, struct err *err)
{
    if (len + 2 >= b->cap - b->len || len + 2 > b->max_bytes - b->len || !is_plain(s, len))
        return json_write_str(s, len, b, err);
    char *to = b->data + b->len;

    *to++ = '"';
    memcpy(to, s, len);
    to[len] = '"';
    to[len + 1] = '\0';
    b->len += len + 2;
    return 0;
}

static int write_i64(int64_t v, struct buf *b, struct err *err)
{
    char text[STR_I64_SIZE];

    return put(b, text, str_from_i64(v, text), err);
}

static int write_value(const json_t *j, int depth, struct buf *b, struct err *err)
{
    int r;

    if (depth > JSON_WRITE_MAX_DEPTH)
        return err_set(err, ERR_INTERNAL, "a JSON value is nested deeper than %d levels",
                       JSON_WRITE_MAX_DEPTH);

    switch (j ? json_typeof(j) : JSON_NULL) {
    case JSON_OBJECT: {
        /* Iterating changes nothing, though jansson's iterators take no const. */
        json_t *obj = (json_t *)(uintptr_t)j, *value;
        const char *key;
        bool comma = false;
        size_t key_len;

        r = put(b, "{", 1, err);
        json_object_keylen_foreach(obj, key, key_len, value) {
            if (comma)
                r = put(b, ",", 1, err);
            if (r == 0)
                r = write_text(key, key_len, b, err);
            if (r == 0)
                r = put(b, ":", 1, err);
            if (r == 0)
                r = write_value(value, depth + 1, b, err);
            if (r < 0)
                break;
            comma = true;
        }
        return r == 0 ? put(b, "}", 1, err) : r;
    }
    case JSON_ARRAY:
        r = put(b, "[", 1, err);
        for (size_t i = 0; r == 0 && i < json_array_size(j); i++) {
            r = i > 0 ? put(b, ",", 1, err) : 0;
            if (r == 0)
                r = write_value(json_array_get(j, i), depth + 1, b, err);
        }
        return r == 0 ? put(b, "]", 1, err) : r;
    case JSON_STRING:
        return write_text(json_string_value(j), json_string_length(j), b, err);
    case JSON_INTEGER:
        return write_i64(json_integer_value(j), b, err);
    case JSON_REAL: {
        char text[STR_DOUBLE_SIZE];

        str_from_double(json_real_value(j), text);
        r = put(b, text, strlen(text), err);
        /* A real stays one when it is read again. */
        return r == 0 && !strpbrk(text, ".e") ? put(b, ".0", 2, err) : r;
    }
    case JSON_TRUE:
        return put(b, "true", 4, err);
    case JSON_FALSE:
        return put(b, "false", 5, err);
    case JSON_NULL:
        break;
    }
    return put(b, "null", 4, err);
}

int json_write(const json_t *j, struct buf *b, struct err *err)
{
    size_t before = b->len;
    int r = write_value(j, 1, b, err);

    if (r < 0 && b->data) {
        b->len = before;
        b->data[before] = '\0';
    }
    return r;
}

char *json_to_str(const json_t *j)
{
    auto_buf struct buf b = BUF_INIT(SIZE_MAX);

    return json_write(j, &b, NULL) == 0 ? buf_take(&b) : NULL;
}

/* ---- getters ---- */

const char *json_type_name(const json_t *j)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
    };

    return names[j ? json_typeof(j) : JSON_NULL];
}

/* What was found, for a message: a scalar as it was written (cut), else its type. */
static const char *found(const json_t *j, char ret[STR_SHOWN_SIZE])
{
    auto_buf struct buf b = BUF_INIT(STR_SHOWN_SIZE * 8);

    if (json_is_object(j))
        return "an object";
    if (json_is_array(j))
        return "an array";
    if (json_is_string(j) && json_string_length(j) > STR_SHOWN_SIZE) {
        /*
         * Cut before it is written, so that a text of any length fits, and closed with its quote.
         */
        char text[STR_SHOWN_SIZE - 8];

        str_show(json_string_value(j), json_string_length(j), text, sizeof(text));
        snprintf(ret, STR_SHOWN_SIZE, "\"%s\"", text);
        return ret;
    }
    if (json_write(j, &b, NULL) < 0)
        return json_type_name(j);
    return str_show(b.data, b.len, ret, STR_SHOWN_SIZE);
}

static int wrong(const json_t *j, const char *key, const char *allowed, struct err *err)
{
    char shown[STR_SHOWN_SIZE];

    return err_set(err, ERR_VALIDATION, "'%s' must be %s, not %s", key, allowed, found(j, shown));
}

/* The member, or NULL if it is missing or null. VALIDATION if obj is there but no object. */
static int member(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    json_t *j = json_object_get(obj, key);

    if (obj && !json_is_object(obj))
        return err_set(err, ERR_VALIDATION, "expected an object with '%s', not %s", key,
                       found(obj, shown));
    *ret = json_is_null(j) ? NULL : j;
    return 0;
}

int json_get_str(const json_t *obj, const char *key, const char *dflt, const char **ret,
                 struct err *err)
{
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (j && !json_is_string(j))
        return wrong(j, key, "a string", err);
    if (j && strlen(json_string_value(j)) != json_string_length(j))
        return err_set(err, ERR_VALIDATION, "'%s' must not contain a NUL character", key);
    *ret = j ? json_string_value(j) : dflt;
    return 0;
}

int json_get_i64(const json_t *obj, const char *key, long long dflt, long long min, long long max,
                 long long *ret, struct err *err)
{
    char allowed[96];
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (!j) {
        *ret = dflt;
        return 0;
    }
    if (!json_is_integer(j) || json_integer_value(j) < min || json_integer_value(j) > max) {
        if (min == LLONG_MIN && max == LLONG_MAX)
            snprintf(allowed, sizeof(allowed), "an integer");
        else if (max == LLONG_MAX)
            snprintf(allowed, sizeof(allowed), "an integer of at least %lld", min);
        else if (min == LLONG_MIN)
            snprintf(allowed, sizeof(allowed), "an integer of at most %lld", max);
        else
            snprintf(allowed, sizeof(allowed), "an integer between %lld and %lld", min, max);
        return wrong(j, key, allowed, err);
    }
    *ret = json_integer_value(j);
    return 0;
}

int json_get_double(const json_t *obj, const char *key, double dflt, double *ret, struct err *err)
{
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (j && !json_is_number(j))
        return wrong(j, key, "a number", err);
    *ret = j ? json_number_value(j) : dflt;
    return 0;
}

int json_get_bool(const json_t *obj, const char *key, bool dflt, bool *ret, struct err *err)
{
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (j && !json_is_boolean(j))
        return wrong(j, key, "true or false", err);
    *ret = j ? json_is_true(j) : dflt;
    return 0;
}

int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (j && !json_is_array(j))
        return wrong(j, key, "an array", err);
    *ret = j;
    return 0;
}

int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
    json_t *j;
    int r = member(obj, key, &j, err);

    if (r < 0)
        return r;
    if (j && !json_is_object(j))
        return wrong(j, key, "an object", err);
    *ret = j;
    return 0;
}

static int not_an_object(const json_t *obj, struct err *err)
{
    char shown[STR_SHOWN_SIZE];

    return err_set(err, ERR_VALIDATION, "expected an object, not %s", found(obj, shown));
}

static bool is_listed(const char *key, const char *const *allowed)
{
    for (size_t i = 0; allowed[i]; i++)
        if (str_eq(key, allowed[i]))
            return true;
    return false;
}

int json_check_keys(const json_t *obj, const char *const *allowed, struct err *err)
{
    json_t *o = (json_t *)(uintptr_t)obj; /* iterated, not changed */
    char shown[STR_SHOWN_SIZE];
    const char *key;
    json_t *value;
    size_t n = 0;

    if (!json_is_object(obj))
        return not_an_object(obj, err);
    while (allowed[n])
        n++;
    json_object_foreach(o, key, value) {
        auto_buf struct buf list = BUF_INIT(ERR_MESSAGE_MAX / 2);
        const char *nearest;

        (void)value;
        if (is_listed(key, allowed))
            continue;

        str_show(key, strlen(key), shown, sizeof(shown));
        nearest = str_nearest(key, allowed, n);
        if (nearest)
            return err_set(err, ERR_VALIDATION, "unknown field '%s'; did you mean '%s'?", shown,
                           nearest);
        if (n == 0)
            return err_set(err, ERR_VALIDATION, "unknown field '%s'; none is allowed here", shown);
        for (size_t i = 0; i < n; i++) {
            if (buf_printf(&list, NULL, "%s'%s'", i ? ", " : "", allowed[i]) < 0) {
                return err_set(err, ERR_VALIDATION, "unknown field '%s'; allowed are %s, …", shown,
                               buf_cstr(&list));
            }
        }
        return err_set(err, ERR_VALIDATION, "unknown field '%s'; allowed are %s", shown,
                       buf_cstr(&list));
    }
    return 0;
}

int json_skip_keys(const json_t *obj, const char *const *allowed, struct buf *ignored,
                   struct err *err)
{
    json_t *o = (json_t *)(uintptr_t)obj; /* iterated, not changed */
    char shown[STR_SHOWN_SIZE];
    const char *key;
    json_t *value;

    if (!json_is_object(obj))
        return not_an_object(obj, err);
    json_object_foreach(o, key, value) {
        (void)value;
        if (!is_listed(key, allowed))
            (void)buf_printf(ignored, NULL, "%s%s", ignored->len ? " " : "",
                             str_show(key, strlen(key), shown, sizeof(shown)));
    }
    return 0;
}

/* ---- builders ---- */

json_t *json_text(const char *s, size_t len)
{
    auto_buf struct buf b = BUF_INIT(SIZE_MAX);
    size_t i = 0, plain = 0;

    if (len == 0)
        return json_stringn_nocheck("", 0);
    if (str_is_utf8(s, len) && !memchr(s, '\0', len))
        return json_stringn_nocheck(s, len);
    while (i < len) {
        size_t bad, n = str_utf8_next(s + i, len - i, &bad);

        if (n > 0 && s[i] != '\0') {
            i += n;
            continue;
        }
        if (buf_append(&b, s + plain, i - plain, NULL) < 0 ||
            buf_append_str(&b, REPLACEMENT, NULL) < 0)
            return NULL;
        i += MAX_OF(n, bad);
        plain = i;
    }
    if (buf_append(&b, s + plain, len - plain, NULL) < 0)
        return NULL;
    return json_stringn_nocheck(b.data, b.len);
}

json_t *json_error(const struct err *err)
{
    /* json_pack releases the text on every path ("o" steals it), and fails if it is NULL. */
    return json_pack("{s:s, s:o}", "type", err_name(err->code), "message",
                     json_text(err->message, strlen(err->message)));
}
