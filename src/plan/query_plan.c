/*
 * QueryPlan: from JSON and back. What can be said without a schema or a second look at the tree is
 * said here.
 */

#include "plan/query_plan.h"

#include "plan/plan_read.h"

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

const char *const plan_describe_names[_PLAN_DESCRIBE_MAX] = {
    [DESCRIBE_COLUMNS] = "columns",
    [DESCRIBE_STATISTICS] = "statistics",
};

/* ---- small things ---- */

int plan_check_keys(struct reader *rd, const json_t *j, const char *const *keys)
{
    return rd->ignored ? json_skip_keys(j, keys, rd->ignored, rd->err) :
                         json_check_keys(j, keys, rd->err);
}

int plan_no_room(struct reader *rd)
{
    return err_set(rd->err, ERR_TOO_LARGE, "the plan is too large");
}

/* A member that is text; *ret is NULL if it is missing or null. */
int plan_read_text(struct reader *rd, const json_t *j, const char *key, size_t max_bytes,
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
    return *ret ? 0 : plan_no_room(rd);
}

/* As read_text, for a name: not empty if it is there. */
static int read_name(struct reader *rd, const json_t *j, const char *key, const char **ret)
{
    int r = plan_read_text(rd, j, key, EXPR_NAME_MAX_BYTES, ret);

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
        return plan_no_room(rd);
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
int plan_pick_word(struct reader *rd, const char *what, const char *const *words, size_t n,
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

int plan_read_list(struct reader *rd, const json_t *j, const char *key, size_t max, json_t **ret)
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
    int r = plan_read_text(rd, j, "func", EXPR_NAME_MAX_BYTES, &func);

    if (r < 0)
        return r;
    if (!func) {
        if (q)
            return err_set(rd->err, ERR_VALIDATION, "'q' goes with func 'quantile' only");
        return 0;
    }
    if (str_eq(func, plan_func_names[FUNC_CORR]))
        return err_set(rd->err, ERR_VALIDATION, "corr takes two columns: write it as an 'expr'");
    r = plan_pick_word(rd, "function", plan_func_names, FUNC_CORR, func);
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
    int r = plan_read_text(rd, j, "bucket", EXPR_NAME_MAX_BYTES, &bucket);

    if (r < 0 || !bucket)
        return r;
    r = plan_pick_word(rd, "bucket", plan_bucket_names, _PLAN_BUCKET_MAX, bucket);
    if (r < 0)
        return r;
    if (o->has_func || !o->column)
        return err_set(rd->err, ERR_VALIDATION, "'bucket' goes with a 'column' only");
    o->has_bucket = true;
    o->bucket = (enum plan_bucket)r;
    return 0;
}

int plan_read_operand(struct reader *rd, const json_t *j, struct plan_operand *o)
{
    const struct expr *inner = NULL;
    int r = read_name(rd, j, "column", &o->column);

    if (r >= 0)
        r = plan_read_text(rd, j, "expr", EXPR_MAX_BYTES, &o->expr);
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
            return plan_no_room(rd);
    }
    if (o->has_func)
        inner = expr_new_aggregate(rd->arena, o->func, o->quantile, inner);
    else if (o->has_bucket)
        inner = expr_new_bucket(rd->arena, o->bucket, inner);
    o->what = inner;
    return inner ? 0 : plan_no_room(rd);
}

/* ---- select ---- */

static int read_item(struct reader *rd, const json_t *j, struct plan_item *item)
{
    static const char *const keys[] = { "column", "expr", "func", "alias", "bucket", "q", NULL };
    struct plan_operand *o = &item->operand;
    int r = plan_check_keys(rd, j, keys);

    if (r >= 0)
        r = plan_read_operand(rd, j, o);
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
            return plan_no_room(rd);
    }
    return 0;
}

static int read_select(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = plan_read_list(rd, j, "select", PLAN_MAX_SELECT, &list);

    if (r < 0 || !list)
        return r;
    if (json_array_size(list) == 0)
        return err_set(rd->err, ERR_VALIDATION, "Select list cannot be empty if provided");
    struct plan_item *items = arena_alloc(rd->arena, json_array_size(list) * sizeof(*items));
    if (!items)
        return plan_no_room(rd);
    json_array_foreach(list, i, entry) {
        if (read_item(rd, entry, &items[i]) < 0)
            return err_wrap(rd->err, "select[%zu]", i);
    }
    plan->select = items;
    plan->n_select = json_array_size(list);
    return 0;
}

/* ---- the other lists ---- */

static int read_group_by(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = plan_read_list(rd, j, "group_by", PLAN_MAX_GROUP_BY, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    plan->group_by = arena_alloc(rd->arena, json_array_size(list) * sizeof(*plan->group_by));
    if (!plan->group_by)
        return plan_no_room(rd);
    json_array_foreach(list, i, entry) {
        const char *name = json_string_value(entry);

        if (!name || *name == '\0' || json_string_length(entry) > EXPR_NAME_MAX_BYTES ||
            strlen(name) != json_string_length(entry))
            return err_set(rd->err, ERR_VALIDATION,
                           "group_by[%zu] must be the name of a column or an alias", i);
        plan->group_by[i] = expr_new_column(rd->arena, name);
        if (!plan->group_by[i])
            return plan_no_room(rd);
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
    int r = plan_check_keys(rd, j, keys);

    if (r >= 0)
        r = plan_read_text(rd, j, "expr", EXPR_MAX_BYTES, &o->text);
    if (r >= 0 && (!o->text || *o->text == '\0'))
        return err_set(rd->err, ERR_VALIDATION, "'expr' is required");
    if (r >= 0)
        r = plan_read_text(rd, j, "direction", EXPR_NAME_MAX_BYTES, &word);
    if (r >= 0 && word) {
        r = plan_pick_word(rd, "direction", directions, ARRAY_SIZE(directions), word);
        o->descending = r == 1;
    }
    if (r >= 0)
        r = plan_read_text(rd, j, "nulls", EXPR_NAME_MAX_BYTES, &word);
    if (r >= 0 && word) {
        r = plan_pick_word(rd, "place of nulls", nulls, ARRAY_SIZE(nulls), word);
        o->nulls = r == 1 ? NULLS_LAST : NULLS_FIRST;
    }
    if (r < 0)
        return r;
    o->name = expr_new_column(rd->arena, o->text);
    if (!o->name)
        return plan_no_room(rd);
    /*
     * Whether it is a name or an expression is known only with the schema ("order date" may be a
     * column).
     */
    struct err problem = ERR_INIT;
    if (expr_parse(o->text, rd->arena, &o->expr, &problem) < 0) {
        if (problem.code == ERR_TOO_LARGE)
            return plan_no_room(rd);
        o->expr = NULL;
        o->expr_problem = arena_strdup(rd->arena, problem.message);
        if (!o->expr_problem)
            return plan_no_room(rd);
    }
    return 0;
}

static int read_order_by(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    json_t *list, *entry;
    size_t i;
    int r = plan_read_list(rd, j, "order_by", PLAN_MAX_ORDER_BY, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    struct plan_order *orders = arena_alloc(rd->arena, json_array_size(list) * sizeof(*orders));
    if (!orders)
        return plan_no_room(rd);
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
    int r = plan_check_keys(rd, j, keys);

    if (r >= 0)
        r = need_table(rd, j, &join->table);
    if (r >= 0)
        r = plan_read_text(rd, j, "type", EXPR_NAME_MAX_BYTES, &type);
    if (r >= 0 && type) {
        r = plan_pick_word(rd, "type of join", types, ARRAY_SIZE(types), type);
        join->left = r == 1;
    }
    if (r >= 0)
        r = plan_read_text(rd, j, "on", EXPR_MAX_BYTES, &join->on_text);
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
    int r = plan_read_list(rd, j, "joins", PLAN_MAX_JOINS, &list);

    if (r < 0 || json_array_size(list) == 0)
        return r;
    struct plan_join *joins = arena_alloc(rd->arena, json_array_size(list) * sizeof(*joins));
    if (!joins)
        return plan_no_room(rd);
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

/* What the rows come from: a table, what is known of a table, or another plan. */
static int read_from(struct reader *rd, const json_t *j, struct query_plan *plan)
{
    const char *what;

    if (json_object_get(j, "source")) {
        if (json_object_get(j, "table") || json_object_get(j, "joins") ||
            json_object_get(j, "describe"))
            return err_set(rd->err, ERR_VALIDATION,
                           "'source' takes the place of 'table', without 'joins'");
        plan->table = PLAN_SOURCE_NAME;
        if (plan_read_inner(rd, json_object_get(j, "source"), &plan->source) < 0)
            return err_wrap(rd->err, "source");
        for (size_t i = 0; i < plan->source->n_select; i++)
            if (!plan->source->select[i].alias && !plan->source->select[i].operand.column)
                return err_set(rd->err, ERR_VALIDATION,
                               "source: select[%zu]: an expression requires an 'alias'", i);
        return plan->source->n_select > 0 ?
                   0 :
                   err_set(rd->err, ERR_VALIDATION, "source: a 'select' list is required");
    }
    int r = need_table(rd, j, &plan->table);
    if (r >= 0)
        r = read_joins(rd, j, plan);
    if (r >= 0)
        r = plan_read_text(rd, j, "describe", EXPR_NAME_MAX_BYTES, &what);
    if (r < 0 || !what)
        return r;
    r = plan_pick_word(rd, "description", plan_describe_names + 1, _PLAN_DESCRIBE_MAX - 1, what);
    if (r < 0)
        return r;
    static const char *const keys[] = { "dataset_id", "table", "describe", "limit", "notes", NULL };
    plan->describe = (enum plan_describe)(r + 1);
    r = json_check_keys(j, keys, rd->err);
    return r < 0 ? err_wrap(rd->err, "with 'describe'") : r;
}

static int read_plan(struct reader *rd, const json_t *j, struct query_plan **ret)
{
    static const char *const keys[] = { "dataset_id", "table",  "select", "filters",  "group_by",
                                        "order_by",   "limit",  "notes",  "offset",   "distinct",
                                        "joins",      "having", "source", "describe", NULL };
    struct query_plan *plan = arena_alloc(rd->arena, sizeof(*plan));
    struct err *err = rd->err;
    long long limit;

    if (!plan)
        return plan_no_room(rd);
    int r = plan_check_keys(rd, j, keys);
    if (r >= 0 && rd->depth > 0 && !json_object_get(j, "dataset_id"))
        plan->dataset_id = rd->dataset_id;
    else if (r >= 0)
        r = need_name(rd, j, "dataset_id", &plan->dataset_id);
    rd->dataset_id = plan->dataset_id;
    if (r >= 0)
        r = read_from(rd, j, plan);
    if (r >= 0)
        r = read_select(rd, j, plan);
    if (r >= 0)
        r = json_get_bool(j, "distinct", false, &plan->distinct, err);
    if (r >= 0)
        r = plan_read_filters(rd, j, "filters", &plan->filters, &plan->n_filters);
    if (r >= 0)
        r = read_group_by(rd, j, plan);
    if (r >= 0)
        r = plan_read_filters(rd, j, "having", &plan->having, &plan->n_having);
    if (r >= 0)
        r = read_order_by(rd, j, plan);
    if (r >= 0)
        r = json_get_i64(j, "limit", PLAN_LIMIT_DEFAULT, 1, PLAN_LIMIT_MAX, &limit, err);
    if (r >= 0)
        r = json_get_i64(j, "offset", 0, 0, PLAN_OFFSET_MAX, &plan->offset, err);
    if (r >= 0)
        r = plan_read_text(rd, j, "notes", PLAN_MAX_TEXT_BYTES, &plan->notes);
    if (r >= 0)
        r = check_grouping(rd, plan);
    if (r < 0)
        return r;
    plan->limit = (int)limit;
    plan->limit_given = json_object_get(j, "limit") != NULL;
    *ret = plan;
    return 0;
}

/* A plan inside another: of the same data set, and with the same budgets. */
int plan_read_inner(struct reader *rd, const json_t *j, const struct query_plan **ret)
{
    struct query_plan *plan;
    char path[sizeof(rd->path)];

    if (rd->depth == PLAN_MAX_NESTED)
        return err_set(rd->err, ERR_VALIDATION, "plans may nest at most %d deep", PLAN_MAX_NESTED);
    const char *outer = rd->dataset_id;
    memcpy(path, rd->path, sizeof(path));
    rd->path[0] = '\0';
    rd->depth++;
    int r = read_plan(rd, j, &plan);
    rd->depth--;
    rd->dataset_id = outer;
    memcpy(rd->path, path, sizeof(path));
    if (r < 0) {
        rd->located = false;
        return r;
    }
    if (plan->describe != DESCRIBE_NONE)
        return err_set(rd->err, ERR_VALIDATION, "a plan inside another cannot have 'describe'");
    if (!str_eq(plan->dataset_id, rd->dataset_id))
        return err_set(rd->err, ERR_VALIDATION, "a plan inside another is of the same dataset");
    *ret = plan;
    return 0;
}

int plan_parse(const json_t *j, struct arena *a, struct query_plan **ret, struct err *err)
{
    return plan_parse_known(j, a, NULL, ret, err);
}

int plan_parse_known(const json_t *j, struct arena *a, struct buf *ignored, struct query_plan **ret,
                     struct err *err)
{
    struct reader rd = { .arena = a, .ignored = ignored, .err = err };
    return read_plan(&rd, j, ret);
}

bool plan_is_broad(const struct query_plan *plan)
{
    if (plan->n_filters > 0 || plan_has_aggregate(plan))
        return false;
    return plan->n_select > PLAN_BROAD_COLUMNS || plan->limit > PLAN_LIMIT_DEFAULT;
}
