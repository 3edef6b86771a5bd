/* A plan back to the JSON that it was read from, without what is at its default. */

#include "plan/query_plan.h"

#include "base/macros.h"

static int set(json_t *o, const char *key, json_t *value)
{
    return json_object_set_new(o, key, value);
}

static int set_text(json_t *o, const char *key, const char *s)
{
    return s ? set(o, key, json_string(s)) : 0;
}

static int set_operand(json_t *o, const struct plan_operand *op)
{
    int r = 0;

    if (op->has_func)
        r |= set_text(o, "func", plan_func_names[op->func]);
    if (op->has_func && op->func == FUNC_QUANTILE)
        r |= set(o, "q", json_real(op->quantile));
    r |= set_text(o, "column", op->column);
    r |= set_text(o, "expr", op->expr);
    if (op->has_bucket)
        r |= set_text(o, "bucket", plan_bucket_names[op->bucket]);
    return r;
}

static json_t *value_json(const struct plan_value *v)
{
    switch (v->type) {
    case VALUE_BOOL:
        return json_boolean(v->b);
    case VALUE_INT:
        return json_integer(v->i);
    case VALUE_REAL:
        return json_real(v->d);
    case VALUE_TEXT:
        return json_string(v->s);
    default:
        return json_null();
    }
}

static json_t *values_json(const struct plan_filter *f)
{
    if (f->op != FILTER_IN && f->op != FILTER_NOT_IN && f->op != FILTER_BETWEEN)
        return value_json(&f->values[0]);
    auto_json json_t *list = json_array();
    for (size_t i = 0; i < f->n_values; i++)
        if (json_array_append_new(list, value_json(&f->values[i])) < 0)
            return NULL;
    return TAKE_PTR(list);
}

static json_t *filters_json(const struct plan_filter *filters, size_t n);
static json_t *inner_json(const struct query_plan *plan);

static json_t *filter_json(const struct plan_filter *f)
{
    auto_json json_t *o = json_object();
    int r = 0;

    switch (f->kind) {
    case FILTER_AND:
        r = set(o, "and", filters_json(f->parts, f->n_parts));
        break;
    case FILTER_OR:
        r = set(o, "or", filters_json(f->parts, f->n_parts));
        break;
    case FILTER_NOT:
        r = set(o, "not", filter_json(&f->parts[0]));
        break;
    default:
        r |= set_operand(o, &f->operand);
        if (f->has_op)
            r |= set_text(o, "op", plan_filter_op_names[f->op]);
        if (f->n_values > 0)
            r |= set(o, "value", values_json(f));
        if (f->plan)
            r |= set(o, "plan", inner_json(f->plan));
        if (f->ignore_case)
            r |= set(o, "ignore_case", json_true());
    }
    return r < 0 ? NULL : TAKE_PTR(o);
}

static json_t *filters_json(const struct plan_filter *filters, size_t n)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, filter_json(&filters[i])) < 0)
            return NULL;
    return TAKE_PTR(list);
}

static json_t *select_json(const struct query_plan *plan)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < plan->n_select; i++) {
        json_t *o = json_object();
        int r = set_operand(o, &plan->select[i].operand);

        if (plan->select[i].alias_given)
            r |= set_text(o, "alias", plan->select[i].alias);
        if (r < 0) {
            json_decref(o);
            return NULL;
        }
        if (json_array_append_new(list, o) < 0)
            return NULL;
    }
    return TAKE_PTR(list);
}

static json_t *order_json(const struct query_plan *plan)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < plan->n_order_by; i++) {
        const struct plan_order *order = &plan->order_by[i];
        json_t *o = json_object();
        int r = set_text(o, "expr", order->text);

        if (order->descending)
            r |= set_text(o, "direction", "desc");
        if (order->nulls != NULLS_DEFAULT)
            r |= set_text(o, "nulls", order->nulls == NULLS_FIRST ? "first" : "last");
        if (r < 0) {
            json_decref(o);
            return NULL;
        }
        if (json_array_append_new(list, o) < 0)
            return NULL;
    }
    return TAKE_PTR(list);
}

static json_t *joins_json(const struct query_plan *plan)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < plan->n_joins; i++) {
        json_t *o = json_object();
        int r = set_text(o, "table", plan->joins[i].table);

        r |= set_text(o, "on", plan->joins[i].on_text);
        if (plan->joins[i].left)
            r |= set_text(o, "type", "left");
        if (r < 0) {
            json_decref(o);
            return NULL;
        }
        if (json_array_append_new(list, o) < 0)
            return NULL;
    }
    return TAKE_PTR(list);
}

static json_t *group_json(const struct query_plan *plan)
{
    auto_json json_t *list = json_array();

    for (size_t i = 0; i < plan->n_group_by; i++)
        if (json_array_append_new(list, json_string(plan->group_by[i]->text)) < 0)
            return NULL;
    return TAKE_PTR(list);
}

/* Of the same dataset as the outer one, which need not be said again. */
static json_t *inner_json(const struct query_plan *plan)
{
    json_t *o = plan_to_json(plan);
    if (o)
        json_object_del(o, "dataset_id");
    return o;
}

json_t *plan_to_json(const struct query_plan *plan)
{
    auto_json json_t *o = json_object();
    int r = 0;

    r |= set_text(o, "dataset_id", plan->dataset_id);
    if (plan->source)
        r |= set(o, "source", inner_json(plan->source));
    else
        r |= set_text(o, "table", plan->table);
    if (plan->describe != DESCRIBE_NONE)
        r |= set_text(o, "describe", plan_describe_names[plan->describe]);
    if (plan->n_joins > 0)
        r |= set(o, "joins", joins_json(plan));
    if (plan->select)
        r |= set(o, "select", select_json(plan));
    if (plan->distinct)
        r |= set(o, "distinct", json_true());
    if (plan->n_filters > 0)
        r |= set(o, "filters", filters_json(plan->filters, plan->n_filters));
    if (plan->n_group_by > 0)
        r |= set(o, "group_by", group_json(plan));
    if (plan->n_having > 0)
        r |= set(o, "having", filters_json(plan->having, plan->n_having));
    if (plan->n_order_by > 0)
        r |= set(o, "order_by", order_json(plan));
    if (plan->limit_given)
        r |= set(o, "limit", json_integer(plan->limit));
    if (plan->offset > 0)
        r |= set(o, "offset", json_integer(plan->offset));
    r |= set_text(o, "notes", plan->notes);
    return r < 0 ? NULL : TAKE_PTR(o);
}
