#ifndef RIDDLE_TESTS_FUZZ_WIRE_MAKE_H
#define RIDDLE_TESTS_FUZZ_WIRE_MAKE_H

/*
 * Bodies of messages, made from the table of messages: right ones and wrong ones. Nothing here
 * knows a message by name.
 */

#include <string.h>
#include "base/json.h"
#include "sandbox/wire.h"

#define MAKE_LENGTH_MAX 300 /* longer texts and arrays are not made */

static inline json_t *make_text(int64_t len)
{
    char text[MAKE_LENGTH_MAX + 1];
    size_t n = (size_t)(len < 0 ? 0 : len > MAKE_LENGTH_MAX ? MAKE_LENGTH_MAX : len);
    memset(text, 'x', n);
    return json_stringn(text, n);
}

static inline json_t *make_array(int64_t n, bool of_text)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n && i < MAKE_LENGTH_MAX; i++)
        json_array_append_new(list, of_text ? json_string("a") : json_integer(i));
    return list;
}

static inline json_t *make_object(int64_t n)
{
    json_t *o = json_object();
    for (int64_t i = 0; i < n && i < MAKE_LENGTH_MAX; i++) {
        char key[8] = { 'k', (char)('0' + i / 100), (char)('0' + i / 10 % 10),
                        (char)('0' + i % 10) };
        json_object_set_new(o, key, json_integer(i));
    }
    return o;
}

/* A value that the field takes: its least or its greatest. */
static inline json_t *make_value(const struct wire_field *f, bool high)
{
    int64_t n = high ? f->max : f->min;
    switch (f->type) {
    case WIRE_INT:
        return json_integer(n);
    case WIRE_REAL:
        return json_real((double)n);
    case WIRE_BOOL:
        return json_boolean(high);
    case WIRE_STR:
        return make_text(n);
    case WIRE_STRS:
        return make_array(n, true);
    case WIRE_ARRAY:
        return make_array(n, false);
    case WIRE_OBJECT:
        return make_object(n);
    case WIRE_VERDICT:
        return json_string(wire_verdict_name(high ? WIRE_VERDICT_ERROR : WIRE_VERDICT_OK));
    case WIRE_ERROR:
        return high ? json_pack("{s:s, s:s, s:i, s:s}", "type", "t", "message", "m", "line", 1,
                                "traceback", "b") :
                      json_pack("{s:s, s:s}", "type", "", "message", "");
    default:
        return high ? json_pack("[i, {}]", 1) : json_null();
    }
}

static inline json_t *make_body(const struct wire_message *m, bool high)
{
    json_t *body = json_object();
    for (size_t i = 0; i < m->n_fields; i++)
        json_object_set_new(body, m->fields[i].name, make_value(&m->fields[i], high));
    return body;
}

#define MAKE_WRONG_MAX 8

/* A value that the field must not take; NULL where there is none of that variant. */
static inline json_t *make_wrong(const struct wire_field *f, int variant)
{
    bool sized = f->type == WIRE_STR || f->type == WIRE_STRS || f->type == WIRE_ARRAY ||
                 f->type == WIRE_OBJECT;
    bool number = f->type == WIRE_INT || f->type == WIRE_REAL;
    if (f->type == WIRE_ANY)
        return NULL;
    switch (variant) {
    case 0: /* of another type */
        return f->type == WIRE_STR || f->type == WIRE_VERDICT ? json_integer(1) :
                                                                json_string("yes");
    case 1:
        return f->type == WIRE_ARRAY || f->type == WIRE_STRS ? json_object() : json_pack("[i]", 1);
    case 2: /* too small */
        return number && f->min > INT64_MIN ? json_integer(f->min - 1) : NULL;
    case 3: /* too large */
        return number && f->max < INT64_MAX ? json_integer(f->max + 1) : NULL;
    case 4:
        return number ? json_real(1e308) : NULL;
    case 5:
        return sized && f->min > 0 ?
                   (f->type == WIRE_STR ? make_text(f->min - 1) : make_array(0, false)) :
                   NULL;
    case 6: /* too long */
        if (!sized || f->max >= MAKE_LENGTH_MAX)
            return NULL;
        return f->type == WIRE_STR    ? make_text(f->max + 1) :
               f->type == WIRE_OBJECT ? make_object(f->max + 1) :
                                        make_array(f->max + 1, true);
    case 7:
        return f->type == WIRE_STRS ?
                   json_pack("[s, i]", "a", 1) :
               f->type == WIRE_ERROR ?
                   json_pack("{s:s, s:s, s:i}", "type", "t", "message", "m", "x", 1) :
                   NULL;
    default:
        return NULL;
    }
}

#endif
