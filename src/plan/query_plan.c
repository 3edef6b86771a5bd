/* QueryPlan: from JSON and back. What can be said without a schema or a second look at the tree is said here. */

#include "plan/query_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

const char *const plan_filter_op_names[_PLAN_FILTER_OP_MAX] = {
    [FILTER_EQ] = "=",
    [FILTER_NE] = "!=",
    [FILTER_LT] = "<",
    [FILTER_LE] = "<=",
    [FILTER_GT] = ">",
    [FILTER_GE] = ">=",
    [FILTER_IN] = "in",
    [FILTER_NOT_IN] = "not_in",
    [FILTER_BETWEEN] = "between",
    [FILTER_CONTAINS] = "contains",
    [FILTER_NOT_CONTAINS] = "not_contains",
    [FILTER_STARTSWITH] = "startswith",
    [FILTER_ENDSWITH] = "endswith",
    [FILTER_IS_NULL] = "is_null",
    [FILTER_IS_NOT_NULL] = "is_not_null",
};

struct reader {
    struct arena *arena;
    struct err *err;
    size_t n_filters; /* so far, in filters and having */
    size_t n_values;
    char path[256]; /* of the filter that is read: "filters[0].or[2]" */
    bool located;   /* the message of an error says where already */
};

/* ---- small things ---- */

static int no_room(struct reader *rd)
{
    return err_set(rd->err, ERR_TOO_LARGE, "the plan is too large");
}

/* A member that is text; *ret is NULL if it is missing or null. */
static int read_text(struct reader *rd, const json_t *j, const char *key, size_t max_bytes,
                     const char **ret)
{
    const char *s;
    int r = json_get_str(j, key, NULL, &s, rd->err);

    if (r < 0)
        return r;
    if (!s) {
        *ret = NULL;
        return 0;
    }
    if (strlen(s) > max_bytes)
        return err_set(rd->err, ERR_VALIDATION, "'%s' may have at most %zu bytes", key, max_bytes);
    *ret = arena_strdup(rd->arena, s);
    return *ret ? 0 : no_room(rd);
}

/* As read_text, for a name: not empty if it is there. */
static int read_name(struct reader *rd, const json_t *j, const char *key, const char **ret)
{
    int r = read_text(rd, j, key, EXPR_NAME_MAX_BYTES, ret);

    if (r >= 0 && *ret && **ret == '\0')
        return err_set(rd->err, ERR_VALIDATION, "'%s' must not be empty", key);
    return r;
}

static int need_name(struct reader *rd, const json_t *j, const char *key, const char **ret)
{
    int r = read_name(rd, j, key, ret);

    if (r >= 0 && !*ret)
        return err_set(rd->err, ERR_VALIDATION, "'%s' is required", key);
    return r;
}

/* Names of tables come without the quotes that some put around them. */
static int need_table(struct reader *rd, const json_t *j, const char **ret)
{
    int r = need_name(rd, j, "table", ret);

    if (r < 0)
        return r;
    const struct expr *e = expr_new_column(rd->arena, *ret);
    if (!e)
        return no_room(rd);
    if (*e->name == '\0')
        return err_set(rd->err, ERR_VALIDATION, "'table' must not be empty");
    *ret = e->name;
    return 0;
}

static int find_word(const char *const *words, size_t n, const char *s)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(words[i], s))
            return (int)i;
    return -1;
}

/* One of the words, or VALIDATION with all of them. */
static int pick_word(struct reader *rd, const char *what, const char *const *words, size_t n,
                     const char *s)
{
    char list[300] = "", shown[STR_SHOWN_SIZE];
    size_t used = 0;
    int i = find_word(words, n, s);

    if (i >= 0)
        return i;
    for (size_t k = 0; k < n && used < sizeof(list); k++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", k ? ", " : "", words[k]);
    return err_set(rd->err, ERR_VALIDATION, "unknown %s '%s'; allowed are %s", what,
                   str_show(s, strlen(s), shown, sizeof(shown)), list);
}

static int read_list(struct reader *rd, const json_t *j, const char *key, size_t max, json_t **ret)
{
    int r = json_get_array(j, key, ret, rd->err);

    if (r >= 0 && json_array_size(*ret) > max)
        return err_set(rd->err, ERR_VALIDATION, "'%s' may have at most %zu entries", key, max);
    return r;
}

/* ---- operands ---- */

static int read_func(struct reader *rd, const json_t *j, struct plan_operand *o)
{
    const char *func;
    json_t *q = json_object_get(j, "q");
    int r = read_text(rd, j, "func", EXPR_NAME_MAX_BYTES, &func);

    if (r < 0)
        return r;
    if (!func) {
        if (q)
            return err_set(rd->err, ERR_VALIDATION, "'q' goes with func 'quantile' only");
        return 0;
    }
    r = pick_word(rd, "function", plan_func_names, _PLAN_FUNC_MAX, func);
    if (r < 0)
        return r;
    o->has_func = true;
    o->func = (enum plan_func)r;
    if (o->func != FUNC_QUANTILE)
        return q ? err_set(rd->err, ERR_VALIDATION, "'q' goes with func 'quantile' only") : 0;
    r = json_get_double(j, "q", -1, &o->quantile, rd->err);
    if (r >= 0 && !(o->quantile >= 0 && o->quantile <= 1))
        return err_set(rd->err, ERR_VALIDATION,
                       "func 'quantile' requires 'q', a number from 0 to 1");
    return r;
}

static int read_bucket(struct reader *rd, const json_t *j, struct plan_operand *o)
{
    const char *bucket;
    int r = read_text(rd, j, "bucket", EXPR_NAME_MAX_BYTES, &bucket);

    if (r < 0 || !bucket)
        return r;
    r = pick_word(rd, "bucket", plan_bucket_names, _PLAN_BUCKET_MAX, bucket);
    if (r < 0)
        return r;
    if (o->has_func || !o->column)
        return err_set(rd->err, ERR_VALIDATION, "'bucket' goes with a 'column' only");
    o->has_bucket = true;
    o->bucket = (enum plan_bucket)r;
    return 0;
}

static int read_operand(struct reader *rd, const json_t *j, struct plan_operand *o)
{
    const struct expr *inner = NULL;
    int r = read_name(rd, j, "column", &o->column);

    if (r >= 0)
        r = read_text(rd, j, "expr", EXPR_MAX_BYTES, &o->expr);
    if (r >= 0)
        r = read_func(rd, j, o);
    if (r < 0)
        return r;
    if (!o->column && !o->expr)
        return err_set(rd->err, ERR_VALIDATION, "Either 'column' or 'expr' must be provided");
    if (o->column && o->expr)
        return err_set(rd->err, ERR_VALIDATION, "Only one of 'column' and 'expr' may be provided");
    r = read_bucket(rd, j, o);
    if (r < 0)
        return r;

    if (o->expr) {
        r = expr_parse(o->expr, rd->arena, &inner, rd->err);
        if (r < 0)
            return r;
        if (o->has_func && expr_has_aggregate(inner))
            return err_set(rd->err, ERR_VALIDATION, "an aggregate inside func '%s'",
                           plan_func_names[o->func]);
    } else if (str_eq(o->column, "*")) {
        if (!o->has_func || o->func != FUNC_COUNT)
            return err_set(rd->err, ERR_VALIDATION, "column '*' goes with func 'count' only");
    } else {
        inner = expr_new_column(rd->arena, o->column);
        if (!inner)
            return no_room(rd);
    }
    if (o->has_func)
        inner = expr_new_aggregate(rd->arena, o->func, o->quantile, inner);
    else if (o->has_bucket)
        inner = expr_new_bucket(rd->arena, o->bucket, inner);
    o->what = inner;
    return inner ? 0 : no_room(rd);
}

/* ---- select ---- */

static int read_item(struct reader *rd, const json_t *j, struct plan_item *item)
{
    static const char *const keys[] = { "column", "expr", "func", "alias", "bucket", "q", NULL };
    struct plan_operand *o = &item->operand;
    int r = json_check_keys(j, keys, rd->err);

    if (r >= 0)
        r = read_operand(rd, j, o);
    if (r >= 0)
        r = read_name(rd, j, "alias", &item->alias);
    if (r < 0)
        return r;
    item->alias_given = item->alias != NULL;
    if (o->has_func && !item->alias)
        return err_set(rd->err, ERR_VALIDATION, "an aggregation requires an 'alias'");
    if (o->has_bucket && !item->alias) {
        const struct expr *c = o->what->args[0];
        item->alias = arena_printf(rd->arena, "%s_%s", c->column ? c->column : c->name,
                                   plan_bucket_names[o->bucket]);
        if (!item->alias)
            return no_room(rd);
    }
    return 0;
}

static int read_select(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = read_list(rd, j, "select", PLAN_MAX_SELECT, &list);

    if (r < 0 || !list)
        return r;
    if (json_array_size(list) == 0)
        return err_set(rd->err, ERR_VALIDATION, "Select list cannot be empty if provided");
    struct plan_item *items = arena_alloc(rd->arena, json_array_size(list) * sizeof(*items));
    if (!items)
        return no_room(rd);
    json_array_foreach(list, i, entry) {
        if (read_item(rd, entry, &items[i]) < 0)
            return err_wrap(rd->err, "select[%zu]", i);
    }
    plan->select = items;
    plan->n_select = json_array_size(list);
    return 0;
}

/* ---- filters ---- */

static int read_scalar(struct reader *rd, const json_t *j, struct plan_value *v)
{
    switch (json_typeof(j)) {
    case JSON_NULL:
        v->type = VALUE_NULL;
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        v->type = VALUE_BOOL;
        v->b = json_is_true(j);
        return 0;
    case JSON_INTEGER:
        v->type = VALUE_INT;
        v->i = json_integer_value(j);
        return 0;
    case JSON_REAL:
        v->type = VALUE_REAL;
        v->d = json_real_value(j);
        return 0;
    case JSON_STRING:
        if (json_string_length(j) > PLAN_MAX_TEXT_BYTES)
            return err_set(rd->err, ERR_VALIDATION, "a value may have at most %d bytes",
                           PLAN_MAX_TEXT_BYTES);
        if (strlen(json_string_value(j)) != json_string_length(j))
            return err_set(rd->err, ERR_VALIDATION, "a value must not contain a NUL character");
        v->type = VALUE_TEXT;
        v->s = arena_strdup(rd->arena, json_string_value(j));
        return v->s ? 0 : no_room(rd);
    default:
        return err_set(rd->err, ERR_VALIDATION, "Unsupported value type: %s", json_type_name(j));
    }
}

static bool is_pattern(enum plan_filter_op op)
{
    return op == FILTER_CONTAINS || op == FILTER_NOT_CONTAINS || op == FILTER_STARTSWITH ||
           op == FILTER_ENDSWITH;
}

/* What is searched for in a text is text; a number is taken as it is written. */
static int as_pattern(struct reader *rd, struct plan_value *v, const char *op)
{
    char digits[EXPR_DOUBLE_SIZE];

    if (v->type == VALUE_TEXT)
        return 0;
    if (v->type == VALUE_INT)
        snprintf(digits, sizeof(digits), "%lld", v->i);
    else if (v->type == VALUE_REAL)
        expr_from_double(v->d, digits);
    else
        return err_set(rd->err, ERR_VALIDATION, "Operator %s requires a text value", op);
    v->type = VALUE_TEXT;
    v->s = arena_strdup(rd->arena, digits);
    return v->s ? 0 : no_room(rd);
}

static int read_values(struct reader *rd, const json_t *value, struct plan_filter *f)
{
    const char *op = plan_filter_op_names[f->op];
    bool none = !value || json_is_null(value);
    bool is_list = f->op == FILTER_IN || f->op == FILTER_NOT_IN || f->op == FILTER_BETWEEN;
    size_t n = 1;

    if (f->op == FILTER_IS_NULL || f->op == FILTER_IS_NOT_NULL) {
        if (!none)
            return err_set(rd->err, ERR_VALIDATION, "Operator %s should not have a value", op);
        return 0;
    }
    if (none)
        return err_set(rd->err, ERR_VALIDATION, "Operator %s requires a value", op);
    if (f->op == FILTER_IN || f->op == FILTER_NOT_IN) {
        if (!json_is_array(value))
            return err_set(rd->err, ERR_VALIDATION, "Operator '%s' requires a list value", op);
        if (json_array_size(value) == 0)
            return err_set(rd->err, ERR_VALIDATION,
                           "Operator '%s' requires a list of at least 1 value", op);
        n = json_array_size(value);
    } else if (f->op == FILTER_BETWEEN) {
        if (!json_is_array(value) || json_array_size(value) != 2)
            return err_set(rd->err, ERR_VALIDATION,
                           "Operator 'between' requires a list of exactly 2 values");
        n = 2;
    }
    rd->n_values += n;
    if (rd->n_values > PLAN_MAX_VALUES)
        return err_set(rd->err, ERR_VALIDATION, "a plan may have at most %d values",
                       PLAN_MAX_VALUES);
    struct plan_value *values = arena_alloc(rd->arena, n * sizeof(*values));
    if (!values)
        return no_room(rd);
    for (size_t i = 0; i < n; i++) {
        int r = read_scalar(rd, is_list ? json_array_get(value, i) : value, &values[i]);
        if (r < 0)
            return r;
        /* NOT IN (…, NULL) and BETWEEN NULL AND … are true for no row at all. */
        if (values[i].type == VALUE_NULL && f->op != FILTER_IN)
            return err_set(rd->err, ERR_VALIDATION,
                           "Operator '%s' takes no null in its list; use is_null or is_not_null",
                           op);
    }
    f->values = values;
    f->n_values = n;
    return is_pattern(f->op) ? as_pattern(rd, values, op) : 0;
}

static int read_ignore_case(struct reader *rd, const json_t *j, struct plan_filter *f)
{
    int r = json_get_bool(j, "ignore_case", false, &f->ignore_case, rd->err);

    if (r < 0 || !f->ignore_case)
        return r;
    if (!f->has_op || !(is_pattern(f->op) || f->op == FILTER_EQ || f->op == FILTER_NE ||
                        f->op == FILTER_IN || f->op == FILTER_NOT_IN))
        return err_set(
            rd->err, ERR_VALIDATION,
            "'ignore_case' goes with =, !=, in, not_in, contains, not_contains, startswith "
            "and endswith");
    for (size_t i = 0; i < f->n_values; i++)
        if (f->values[i].type != VALUE_TEXT)
            return err_set(rd->err, ERR_VALIDATION, "'ignore_case' requires text values");
    return 0;
}

static int read_condition(struct reader *rd, const json_t *j, struct plan_filter *f)
{
    static const char *const keys[] = { "column", "op",          "value", "expr", "func", "q",
                                        "bucket", "ignore_case", "and",   "or",   "not",  NULL };
    const char *op;
    json_t *value = json_object_get(j, "value");
    int r = json_check_keys(j, keys, rd->err);

    if (r >= 0)
        r = read_operand(rd, j, &f->operand);
    if (r >= 0)
        r = read_text(rd, j, "op", EXPR_NAME_MAX_BYTES, &op);
    if (r < 0)
        return r;
    if (op) {
        r = pick_word(rd, "operator", plan_filter_op_names, _PLAN_FILTER_OP_MAX, op);
        if (r < 0)
            return r;
        f->has_op = true;
        f->op = (enum plan_filter_op)r;
        r = read_values(rd, value, f);
    } else if (!f->operand.expr || f->operand.has_func) {
        return err_set(rd->err, ERR_VALIDATION, "'op' is required");
    } else if (value) {
        return err_set(rd->err, ERR_VALIDATION, "'value' requires an 'op'");
    }
    return r < 0 ? r : read_ignore_case(rd, j, f);
}

static size_t path_add(struct reader *rd, const char *step)
{
    size_t used = strlen(rd->path);

    snprintf(rd->path + used, sizeof(rd->path) - used, "%s", step);
    return used;
}

/* Leaves the step. The first to leave with an error knows where it came from. */
static void path_cut(struct reader *rd, size_t used, int r)
{
    if (r < 0 && !rd->located) {
        err_wrap(rd->err, "%s", rd->path);
        rd->located = true;
    }
    rd->path[used] = '\0';
}

static int read_filter_list(struct reader *rd, const json_t *list, int depth,
                            const struct plan_filter **ret, size_t *ret_n);

static int read_filter(struct reader *rd, const json_t *j, int depth, struct plan_filter *f)
{
    static const char *const groups[] = { "and", "or", "not" };
    static const int kinds[] = { FILTER_AND, FILTER_OR, FILTER_NOT };

    if (++rd->n_filters > PLAN_MAX_FILTERS)
        return err_set(rd->err, ERR_VALIDATION, "a plan may have at most %d filters",
                       PLAN_MAX_FILTERS);
    if (depth > PLAN_MAX_FILTER_DEPTH)
        return err_set(rd->err, ERR_VALIDATION, "filters may nest at most %d deep",
                       PLAN_MAX_FILTER_DEPTH);
    f->kind = FILTER_CONDITION;
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        const json_t *inner = json_object_get(j, groups[i]);
        int r;

        if (!inner)
            continue;
        if (json_object_size(j) != 1)
            return err_set(rd->err, ERR_VALIDATION, "'%s' must stand alone in its object",
                           groups[i]);
        f->kind = (__typeof__(f->kind))kinds[i];
        if (f->kind == FILTER_NOT) {
            struct plan_filter *part = arena_alloc(rd->arena, sizeof(*part));
            if (!part)
                return no_room(rd);
            f->parts = part;
            f->n_parts = 1;
            size_t used = path_add(rd, ".not");
            r = read_filter(rd, inner, depth + 1, part);
            path_cut(rd, used, r);
            return r;
        }
        if (!json_is_array(inner) || json_array_size(inner) == 0)
            return err_set(rd->err, ERR_VALIDATION, "'%s' requires a list of at least 1 filter",
                           groups[i]);
        size_t used = path_add(rd, i == 0 ? ".and" : ".or");
        r = read_filter_list(rd, inner, depth + 1, &f->parts, &f->n_parts);
        path_cut(rd, used, r);
        return r;
    }
    return read_condition(rd, j, f);
}

static int read_filter_list(struct reader *rd, const json_t *list, int depth,
                            const struct plan_filter **ret, size_t *ret_n)
{
    size_t n = json_array_size(list), i;
    json_t *entry;

    *ret_n = n;
    if (n == 0)
        return 0;
    if (n > PLAN_MAX_FILTERS)
        return err_set(rd->err, ERR_VALIDATION, "a plan may have at most %d filters",
                       PLAN_MAX_FILTERS);
    struct plan_filter *filters = arena_alloc(rd->arena, n * sizeof(*filters));
    if (!filters)
        return no_room(rd);
    *ret = filters;
    json_array_foreach(list, i, entry) {
        char step[32];

        snprintf(step, sizeof(step), "[%zu]", i);
        size_t used = path_add(rd, step);
        int r = read_filter(rd, entry, depth, &filters[i]);
        path_cut(rd, used, r);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_filters(struct reader *rd, const json_t *j, const char *key,
                        const struct plan_filter **ret, size_t *ret_n)
{
    json_t *list;
    int r = read_list(rd, j, key, PLAN_MAX_FILTERS, &list);

    if (r < 0)
        return r;
    size_t used = path_add(rd, key);
    r = read_filter_list(rd, list, 1, ret, ret_n);
    path_cut(rd, used, r);
    return r;
}

/* ---- the other lists ---- */

static int read_group_by(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = read_list(rd, j, "group_by", PLAN_MAX_GROUP_BY, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    plan->group_by = arena_alloc(rd->arena, json_array_size(list) * sizeof(*plan->group_by));
    if (!plan->group_by)
        return no_room(rd);
    json_array_foreach(list, i, entry) {
        const char *name = json_string_value(entry);

        if (!name || *name == '\0' || json_string_length(entry) > EXPR_NAME_MAX_BYTES ||
            strlen(name) != json_string_length(entry))
            return err_set(rd->err, ERR_VALIDATION,
                           "group_by[%zu] must be the name of a column or an alias", i);
        plan->group_by[i] = expr_new_column(rd->arena, name);
        if (!plan->group_by[i])
            return no_room(rd);
    }
    plan->n_group_by = json_array_size(list);
    return 0;
}

static int read_order(struct reader *rd, const json_t *j, struct plan_order *o)
{
    static const char *const keys[] = { "expr", "direction", "nulls", NULL };
    static const char *const directions[] = { "asc", "desc" };
    static const char *const nulls[] = { "first", "last" };
    const char *word;
    int r = json_check_keys(j, keys, rd->err);

    if (r >= 0)
        r = read_text(rd, j, "expr", EXPR_MAX_BYTES, &o->text);
    if (r >= 0 && (!o->text || *o->text == '\0'))
        return err_set(rd->err, ERR_VALIDATION, "'expr' is required");
    if (r >= 0)
        r = read_text(rd, j, "direction", EXPR_NAME_MAX_BYTES, &word);
    if (r >= 0 && word) {
        r = pick_word(rd, "direction", directions, ARRAY_SIZE(directions), word);
        o->descending = r == 1;
    }
    if (r >= 0)
        r = read_text(rd, j, "nulls", EXPR_NAME_MAX_BYTES, &word);
    if (r >= 0 && word) {
        r = pick_word(rd, "place of nulls", nulls, ARRAY_SIZE(nulls), word);
        o->nulls = r == 1 ? NULLS_LAST : NULLS_FIRST;
    }
    if (r < 0)
        return r;
    o->name = expr_new_column(rd->arena, o->text);
    if (!o->name)
        return no_room(rd);
    /* Whether it is a name or an expression is known only with the schema ("order date" may be a column). */
    struct err problem = ERR_INIT;
    if (expr_parse(o->text, rd->arena, &o->expr, &problem) < 0) {
        if (problem.code == ERR_TOO_LARGE)
            return no_room(rd);
        o->expr = NULL;
        o->expr_problem = arena_strdup(rd->arena, problem.message);
        if (!o->expr_problem)
            return no_room(rd);
    }
    return 0;
}

static int read_order_by(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = read_list(rd, j, "order_by", PLAN_MAX_ORDER_BY, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    struct plan_order *orders = arena_alloc(rd->arena, json_array_size(list) * sizeof(*orders));
    if (!orders)
        return no_room(rd);
    json_array_foreach(list, i, entry) {
        if (read_order(rd, entry, &orders[i]) < 0)
            return err_wrap(rd->err, "order_by[%zu]", i);
    }
    plan->order_by = orders;
    plan->n_order_by = json_array_size(list);
    return 0;
}

/* a.x = b.y [and …] */
static bool is_equality_of_columns(const struct expr *e)
{
    if (e->kind != EXPR_BINARY)
        return false;
    if (e->op == OP_AND)
        return is_equality_of_columns(e->args[0]) && is_equality_of_columns(e->args[1]);
    return e->op == OP_EQ && e->args[0]->kind == EXPR_COLUMN && e->args[1]->kind == EXPR_COLUMN;
}

static int read_join(struct reader *rd, const json_t *j, struct plan_join *join)
{
    static const char *const keys[] = { "table", "on", "type", NULL };
    static const char *const types[] = { "inner", "left" };
    const char *type;
    int r = json_check_keys(j, keys, rd->err);

    if (r >= 0)
        r = need_table(rd, j, &join->table);
    if (r >= 0)
        r = read_text(rd, j, "type", EXPR_NAME_MAX_BYTES, &type);
    if (r >= 0 && type) {
        r = pick_word(rd, "type of join", types, ARRAY_SIZE(types), type);
        join->left = r == 1;
    }
    if (r >= 0)
        r = read_text(rd, j, "on", EXPR_MAX_BYTES, &join->on_text);
    if (r < 0 || !join->on_text)
        return r;
    r = expr_parse(join->on_text, rd->arena, &join->on, rd->err);
    if (r >= 0 && !is_equality_of_columns(join->on))
        return err_set(
            rd->err, ERR_VALIDATION,
            "'on' must equate columns, such as \"orders.order_id = order_items.order_id\"");
    return r;
}

static int read_joins(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = read_list(rd, j, "joins", PLAN_MAX_JOINS, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    struct plan_join *joins = arena_alloc(rd->arena, json_array_size(list) * sizeof(*joins));
    if (!joins)
        return no_room(rd);
    json_array_foreach(list, i, entry) {
        if (read_join(rd, entry, &joins[i]) < 0)
            return err_wrap(rd->err, "joins[%zu]", i);
    }
    plan->joins = joins;
    plan->n_joins = json_array_size(list);
    return 0;
}

/* ---- the plan ---- */

bool plan_has_aggregate(const struct query_plan *plan)
{
    for (size_t i = 0; i < plan->n_select; i++)
        if (expr_has_aggregate(plan->select[i].operand.what))
            return true;
    return false;
}

/* group_by names it: as it is, with or without its table, or by the alias. */
static bool is_in_group_by(const struct query_plan *plan, const struct plan_item *item)
{
    const struct expr *c = item->operand.what;

    for (size_t i = 0; i < plan->n_group_by; i++) {
        const struct expr *g = plan->group_by[i];

        if (str_ieq(g->name, c->name) || (item->alias && str_ieq(g->name, item->alias)))
            return true;
        if (!g->table != !c->table &&
            str_ieq(g->table ? g->column : g->name, c->table ? c->column : c->name))
            return true;
    }
    return false;
}

/* The first look at it; plan_check() takes a second one, into expressions. */
static int check_grouping(struct reader *rd, const struct query_plan *plan)
{
    char shown[STR_SHOWN_SIZE];

    if (!plan_has_aggregate(plan))
        return 0;
    for (size_t i = 0; i < plan->n_select; i++) {
        const struct plan_operand *o = &plan->select[i].operand;

        if (!o->column || o->has_func)
            continue;
        if (plan->n_group_by == 0)
            return err_set(rd->err, ERR_VALIDATION,
                           "When mixing aggregations with regular columns, group_by is required");
        if (!o->has_bucket && !is_in_group_by(plan, &plan->select[i]))
            return err_set(rd->err, ERR_VALIDATION,
                           "Column '%s' must be in group_by when using aggregations",
                           str_show(o->column, strlen(o->column), shown, sizeof(shown)));
    }
    return 0;
}

int plan_parse(const json_t *j, struct arena *a, struct query_plan **ret, struct err *err)
{
    static const char *const keys[] = { "dataset_id", "table",  "select", "filters", "group_by",
                                        "order_by",   "limit",  "notes",  "offset",  "distinct",
                                        "joins",      "having", NULL };
    struct reader rd = { .arena = a, .err = err };
    struct query_plan *plan = arena_alloc(a, sizeof(*plan));
    long long limit;

    if (!plan)
        return no_room(&rd);
    int r = json_check_keys(j, keys, err);
    if (r >= 0)
        r = need_name(&rd, j, "dataset_id", &plan->dataset_id);
    if (r >= 0)
        r = need_table(&rd, j, &plan->table);
    if (r >= 0)
        r = read_joins(&rd, j, plan);
    if (r >= 0)
        r = read_select(&rd, j, plan);
    if (r >= 0)
        r = json_get_bool(j, "distinct", false, &plan->distinct, err);
    if (r >= 0)
        r = read_filters(&rd, j, "filters", &plan->filters, &plan->n_filters);
    if (r >= 0)
        r = read_group_by(&rd, j, plan);
    if (r >= 0)
        r = read_filters(&rd, j, "having", &plan->having, &plan->n_having);
    if (r >= 0)
        r = read_order_by(&rd, j, plan);
    if (r >= 0)
        r = json_get_i64(j, "limit", PLAN_LIMIT_DEFAULT, 1, PLAN_LIMIT_MAX, &limit, err);
    if (r >= 0)
        r = json_get_i64(j, "offset", 0, 0, PLAN_OFFSET_MAX, &plan->offset, err);
    if (r >= 0)
        r = read_text(&rd, j, "notes", PLAN_MAX_TEXT_BYTES, &plan->notes);
    if (r >= 0)
        r = check_grouping(&rd, plan);
    if (r < 0)
        return r;
    plan->limit = (int)limit;
    *ret = plan;
    return 0;
}

bool plan_is_broad(const struct query_plan *plan)
{
    if (plan->n_filters > 0 || plan_has_aggregate(plan))
        return false;
    return plan->n_select > PLAN_BROAD_COLUMNS || plan->limit > PLAN_LIMIT_DEFAULT;
}
