/* Parameters of a statement; see params.h. */

#include "database/params.h"

#include <string.h>
#include "base/base64.h"
#include "base/str.h"

#define ARRAY_DEPTH_MAX 6

static int tagged(const char *name, const json_t *value, struct db_param *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum db_param_type type;
    } types[] = {
#define X(code, word) { word, DB_PARAM_##code },
        DB_PARAM_TYPES(X)
#undef X
    };
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *text = json_object_get(value, "value");
    if (json_object_size(value) != 2 || !type || !json_is_string(text))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (!str_eq(type, types[i].name))
            continue;
        const char *s = json_string_value(text);
        ret->type = types[i].type;
        int r = ret->type == DB_PARAM_BYTES ?
                    base64_decode(s, json_string_length(text), &ret->text, err) :
                    buf_append(&ret->text, s, json_string_length(text), err);
        return r < 0 ? err_wrap(err, "parameter '%s'", name) : 1;
    }
    return 0;
}

int db_param_read(const char *name, const json_t *value, struct db_param *ret, struct err *err)
{
    char text[STR_DOUBLE_SIZE];
    int r = 0;
    *ret = (struct db_param){ .type = DB_PARAM_TEXT };
    buf_init(&ret->text, DB_PARAM_MAX_BYTES);
    if (json_is_object(value)) {
        r = tagged(name, value, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
        ret->type = DB_PARAM_JSON;
        r = json_write(value, &ret->text, err);
    } else if (json_is_array(value)) {
        ret->type = DB_PARAM_ARRAY;
        ret->items = value;
    } else if (json_is_string(value)) {
        r = buf_append(&ret->text, json_string_value(value), json_string_length(value), err);
    } else if (json_is_boolean(value)) {
        ret->type = DB_PARAM_BOOL;
        r = buf_append_str(&ret->text, json_is_true(value) ? "true" : "false", err);
    } else if (json_is_integer(value)) {
        ret->type = DB_PARAM_INTEGER;
        r = buf_printf(&ret->text, err, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        ret->type = DB_PARAM_REAL;
        str_from_double(json_real_value(value), text);
        r = buf_append_str(&ret->text, text, err);
    } else {
        ret->type = DB_PARAM_NULL;
    }
    return r < 0 ? err_wrap(err, "parameter '%s'", name) : 0;
}

void db_param_finish(struct db_param *p)
{
    buf_finish(&p->text);
}

static int array_item(const char *name, const json_t *item, unsigned depth, struct buf *out,
                      struct err *err);

static int array_items(const char *name, const json_t *items, unsigned depth, struct buf *out,
                       struct err *err)
{
    size_t i;
    json_t *item;
    if (depth > ARRAY_DEPTH_MAX)
        return err_set(err, ERR_VALIDATION, "parameter '%s' nests deeper than %d", name,
                       ARRAY_DEPTH_MAX);
    int r = buf_append_str(out, "{", err);
    json_array_foreach(items, i, item) {
        if (r == 0 && i > 0)
            r = buf_append_str(out, ",", err);
        if (r == 0)
            r = array_item(name, item, depth, out, err);
    }
    return r < 0 ? r : buf_append_str(out, "}", err);
}

static int quoted_item(const char *s, size_t len, struct buf *out, struct err *err)
{
    int r = buf_append_str(out, "\"", err);
    for (size_t i = 0; i < len && r == 0; i++) {
        if (s[i] == '"' || s[i] == '\\')
            r = buf_append_str(out, "\\", err);
        if (r == 0)
            r = buf_append(out, s + i, 1, err);
    }
    return r < 0 ? r : buf_append_str(out, "\"", err);
}

static int hex_item(const struct buf *bytes, struct buf *out, struct err *err)
{
    int r = buf_append_str(out, "\"\\\\x", err);
    for (size_t i = 0; i < bytes->len && r == 0; i++)
        r = buf_printf(out, err, "%02x", (unsigned char)bytes->data[i]);
    return r < 0 ? r : buf_append_str(out, "\"", err);
}

static int array_item(const char *name, const json_t *item, unsigned depth, struct buf *out,
                      struct err *err)
{
    struct db_param p;
    if (json_is_array(item))
        return array_items(name, item, depth + 1, out, err);
    int r = db_param_read(name, item, &p, err);
    if (r == 0 && p.type == DB_PARAM_NULL)
        r = buf_append_str(out, "NULL", err);
    else if (r == 0 && p.type == DB_PARAM_BYTES)
        r = hex_item(&p.text, out, err);
    else if (r == 0)
        r = quoted_item(buf_cstr(&p.text), p.text.len, out, err);
    db_param_finish(&p);
    return r;
}

int db_param_postgres_array(const char *name, const json_t *items, struct buf *out, struct err *err)
{
    return array_items(name, items, 0, out, err);
}
