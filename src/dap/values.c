#include "dap/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

#define EXPRESSION_MAX 2000

void dap_values_clear(struct dap_values *v)
{
    for (size_t i = 0; i < v->n; i++) {
        json_decref(v->list[i].path);
        free(v->list[i].expression);
        free(v->list[i].type);
    }
    free(v->list);
    *v = (struct dap_values){ 0 };
}

static struct dap_value *add(struct dap_values *v, int *ret_number)
{
    if (v->n == DAP_VALUES_MAX)
        return NULL;
    if (v->n == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 64;
        struct dap_value *list = reallocarray(v->list, capacity, sizeof(*list));
        if (!list)
            return NULL;
        v->list = list;
        v->capacity = capacity;
    }
    struct dap_value *value = &v->list[v->n++];
    *value = (struct dap_value){ .path = json_array() };
    *ret_number = (int)v->n;
    return value;
}

int dap_values_scope(struct dap_values *v, int frame, bool is_globals)
{
    int number = 0;
    struct dap_value *value = add(v, &number);
    if (value) {
        value->frame = frame;
        value->is_globals = is_globals;
    }
    return number;
}

const struct dap_value *dap_values_find(const struct dap_values *v, long long number)
{
    return number >= 1 && number <= (long long)v->n ? &v->list[number - 1] : NULL;
}

/* ---- expressions ---- */

static const char *text_in(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static int write_member(const struct dap_value *holder, const char *name, struct buf *b,
                        struct err *err)
{
    const char *type = holder->type;
    if (!type) /* a scope */
        return buf_append_str(b, name, err);
    int r = buf_append_str(b, holder->expression, err);
    if (r < 0)
        return r;
    if (str_eq(type, "list") || str_eq(type, "tuple") || str_eq(type, "numpy.ndarray"))
        return buf_append_str(b, name, err); /* "[0]" */
    if (str_eq(type, "pandas.Series"))
        return buf_printf(b, err, ".iloc%s", name);
    if (str_eq(type, "dict")) /* the name is the key's repr, unless that was cut */
        return strstr(name, "…") ? err_set(err, ERR_VALIDATION, "the key is not known whole") :
                                   buf_printf(b, err, "[%s]", name);
    if (str_eq(type, "pandas.DataFrame")) {
        r = buf_append_str(b, "[", err);
        if (r == 0)
            r = json_write_str(name, strlen(name), b, err);
        return r < 0 ? r : buf_append_str(b, "]", err);
    }
    if (str_eq(type, "set") || str_eq(type, "frozenset") || !str_is_identifier(name))
        return err_set(err, ERR_VALIDATION, "no expression yields it");
    return buf_printf(b, err, ".%s", name);
}

char *dap_member_expression(const struct dap_value *holder, const char *name)
{
    auto_buf struct buf b = BUF_INIT(EXPRESSION_MAX);
    struct err err = ERR_INIT;
    if (holder->type && !holder->expression)
        return NULL;
    return write_member(holder, name, &b, &err) < 0 ? NULL : buf_take(&b);
}

/* ---- values ---- */

/* A number for a value that holds others; 0: it holds none, or there is no room. */
static int number_of(struct dap_values *v, int frame, bool is_globals, const json_t *path,
                     const char *name, const char *expression, const json_t *told)
{
    int number = 0;
    if (json_integer_value(json_object_get(told, "children")) <= 0)
        return 0;
    struct dap_value *value = add(v, &number);
    if (!value)
        return 0;
    value->frame = frame;
    value->is_globals = is_globals;
    value->expression = expression ? strdup(expression) : NULL;
    value->type = strdup(text_in(told, "type"));
    json_array_extend(value->path, (json_t *)path);
    json_array_append_new(value->path, json_string(name));
    return number;
}

static json_t *told_json(const json_t *told, int number)
{
    json_t *o = json_pack("{s:s, s:s, s:i}", "value", text_in(told, "repr"), "type",
                          text_in(told, "type"), "variablesReference", number);
    if (number)
        json_object_set(o, "namedVariables", json_object_get(told, "children"));
    return o;
}

json_t *dap_value_json(struct dap_values *v, int frame, const char *expression, const json_t *told)
{
    return told_json(told, number_of(v, frame, false, NULL, expression, expression, told));
}

json_t *dap_variables_json(struct dap_values *v, long long holder, const json_t *variables)
{
    json_t *list = json_array(), *told;
    const char *name;
    json_object_foreach((json_t *)variables, name, told) {
        const struct dap_value *h = dap_values_find(v, holder);
        auto_free char *expression = dap_member_expression(h, name);
        auto_json json_t *path = json_incref(h->path);
        int number = number_of(v, h->frame, h->is_globals, path, name, expression, told);
        json_t *o = told_json(told, number);
        json_object_set_new(o, "name", json_string(name));
        if (expression)
            json_object_set_new(o, "evaluateName", json_string(expression));
        json_array_append_new(list, o);
    }
    return list;
}
