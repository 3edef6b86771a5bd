/* The filters of a plan, read from JSON: conditions, groups of them, plans to compare with. */

#include "plan/plan_read.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

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
        return v->s ? 0 : plan_no_room(rd);
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
    return v->s ? 0 : plan_no_room(rd);
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
        return plan_no_room(rd);
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

/* One value for a comparison, a list of them for in and not_in. */
static int read_compared_plan(struct reader *rd, const json_t *j, struct plan_filter *f)
{
    bool list = f->op == FILTER_IN || f->op == FILTER_NOT_IN;

    if (f->op > FILTER_NOT_IN)
        return err_set(rd->err, ERR_VALIDATION, "Operator %s takes no 'plan'",
                       plan_filter_op_names[f->op]);
    if (json_object_get(j, "value"))
        return err_set(rd->err, ERR_VALIDATION, "Only one of 'value' and 'plan' may be provided");
    int r = plan_read_inner(rd, json_object_get(j, "plan"), &f->plan);
    if (r < 0)
        return r;
    if (f->plan->n_select != 1)
        return err_set(rd->err, ERR_VALIDATION, "a plan to compare with selects 1 item, not %zu",
                       f->plan->n_select);
    if (!list && f->plan->limit > 1 && !(f->plan->n_group_by == 0 && plan_has_aggregate(f->plan)))
        return err_set(rd->err, ERR_VALIDATION,
                       "a plan to compare with gives one value: an aggregate without 'group_by', "
                       "or 'limit' 1");
    return 0;
}

static int read_condition(struct reader *rd, const json_t *j, struct plan_filter *f)
{
    static const char *const keys[] = { "column", "op",   "value",  "expr",        "func",
                                        "q",      "plan", "bucket", "ignore_case", "and",
                                        "or",     "not",  NULL };
    const char *op;
    json_t *value = json_object_get(j, "value");
    int r = plan_check_keys(rd, j, keys);

    if (r >= 0)
        r = plan_read_operand(rd, j, &f->operand);
    if (r >= 0)
        r = plan_read_text(rd, j, "op", EXPR_NAME_MAX_BYTES, &op);
    if (r < 0)
        return r;
    if (op) {
        r = plan_pick_word(rd, "operator", plan_filter_op_names, _PLAN_FILTER_OP_MAX, op);
        if (r < 0)
            return r;
        f->has_op = true;
        f->op = (enum plan_filter_op)r;
        r = json_object_get(j, "plan") ? read_compared_plan(rd, j, f) : read_values(rd, value, f);
    } else if (!f->operand.expr || f->operand.has_func) {
        return err_set(rd->err, ERR_VALIDATION, "'op' is required");
    } else if (value || json_object_get(j, "plan")) {
        return err_set(rd->err, ERR_VALIDATION, "'%s' requires an 'op'", value ? "value" : "plan");
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
                return plan_no_room(rd);
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
        return plan_no_room(rd);
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

int plan_read_filters(struct reader *rd, const json_t *j, const char *key,
                      const struct plan_filter **ret, size_t *ret_n)
{
    json_t *list;
    int r = plan_read_list(rd, j, key, PLAN_MAX_FILTERS, &list);

    if (r < 0)
        return r;
    size_t used = path_add(rd, key);
    r = read_filter_list(rd, list, 1, ret, ret_n);
    path_cut(rd, used, r);
    return r;
}
