/* What the rules make plans with. */

#include <string.h>

#include "nl/rules.h"

#define ROW_COLUMNS 5

const char *fr_expr(struct frame *f, struct nl_ref ref)
{
    return nl_expr_of(f->s, &f->r, ref, true, f->a);
}

void fr_select_expr(json_t *plan, const char *expr, const char *alias)
{
    json_t *list = json_object_get(plan, "select");
    if (!list) {
        list = json_array();
        json_object_set_new(plan, "select", list);
    }
    json_array_append_new(list, json_pack("{s:s, s:s}", "expr", expr, "alias", alias));
}

void fr_order_by(json_t *plan, const char *expr, bool down)
{
    json_object_set_new(
        plan, "order_by",
        json_pack("[{s:s, s:s}]", "expr", expr, "direction", down ? "desc" : "asc"));
}

void fr_drop_shown(json_t *plan, size_t at, const char *instead)
{
    json_t *select = json_object_get(plan, "select"), *o;
    const json_t *item = json_array_get(select, at);
    const char *name = json_string_value(json_object_get(item, "alias"));
    size_t i;
    json_array_foreach(json_object_get(plan, "order_by"), i, o)
        if (name && str_eq(json_string_value(json_object_get(o, "expr")), name))
            json_object_set_new(o, "expr", json_string(instead));
    json_array_remove(select, at);
}

void fr_show(struct frame *f, struct nl_item item)
{
    for (int i = 0; i < f->r.n_select; i++)
        if (fr_same(f->r.select[i].ref, item.ref) && f->r.select[i].func == item.func &&
            f->r.select[i].bucket == item.bucket)
            return;
    if (f->r.n_select < NL_MAX_SELECT)
        f->r.select[f->r.n_select++] = item;
}

struct nl_item fr_item(struct nl_ref ref, int func)
{
    return (struct nl_item){ .ref = ref, .func = func, .bucket = -1 };
}

/* The measure of the question: what is summed up, or the rows. */
struct nl_item fr_main_item(struct frame *f)
{
    if (f->n_measures > 0)
        return f->measures[0];
    return fr_item(f->counted, f->counted.table >= 0 ? FUNC_COUNT_DISTINCT : FUNC_COUNT);
}

/* The measure as an expression. */
const char *fr_aggregate_of(struct frame *f, const struct nl_item *item)
{
    if (item->ref.table < 0)
        return "count(*)";
    if (item->func == FUNC_COUNT_DISTINCT)
        return arena_printf(f->a, "count(distinct %s)",
                            nl_expr_of(f->s, &f->r, item->ref, false, f->a));
    return arena_printf(f->a, "%s(%s)", plan_func_names[item->func], fr_expr(f, item->ref));
}

const char *fr_alias(struct frame *f, const struct nl_item *item)
{
    return nl_alias(f->s, &f->r, item, f->a);
}

const char *fr_say(struct frame *f, const struct nl_item *item)
{
    return nl_describe_item(f->s, item, f->a);
}

bool fr_finish(struct frame *f)
{
    for (int i = 0; i < f->r.n_select + f->r.n_group; i++) { /* nothing that has no column */
        const struct nl_item *item = i < f->r.n_select ? &f->r.select[i] :
                                                         &f->r.group[i - f->r.n_select];
        if (item->func < 0 && !fr_c(f, item->ref))
            return false;
    }
    if (!f->plan)
        f->plan = nl_build_plan(f->s, &f->r, f->a);
    if (!f->plan || f->semi < 0)
        return f->plan != NULL;
    /* rows that have one of the others: "patients who had an emergency visit" */
    const struct nl_link_key *k = f->semi_key;
    struct nl_reading alone = { .scope = { .tables = { f->semi }, .n = 1 } };
    json_t *inner = json_array(), *filters = json_object_get(f->plan, "filters");
    for (int i = 0; i < f->n_inside; i++)
        json_array_append_new(inner, nl_filter_json(f->s, &alone, &f->inside[i], f->a));
    if (!filters) {
        filters = json_array();
        json_object_set_new(f->plan, "filters", filters);
    }
    struct nl_ref to = { k->to_table, k->to_column };
    json_array_append_new(
        filters, json_pack("{s:s, s:s, s:{s:s, s:[{s:s}], s:o}}", "expr",
                           nl_expr_of(f->s, &f->r, to, false, f->a), "op", "in", "plan", "table",
                           f->s->tables[f->semi].name, "select", "column",
                           f->s->tables[f->semi].columns[k->from_column].name, "filters", inner));
    return true;
}

/* Groups are shown first. */
void fr_show_groups(struct frame *f)
{
    for (int i = 0; i < f->r.n_group; i++)
        fr_show(f, f->r.group[i]);
}

bool fr_is_unfiltered(const struct frame *f)
{
    return f->r.n_filters == 0;
}

int fr_only_table(const struct frame *f)
{
    return f->head >= 0 ? f->head : f->s->only;
}

void fr_show_row(struct frame *f, int table)
{
    struct nl_ref key, label;
    const struct nl_column *named = fr_label(f->s, table, &label) ? fr_c(f, label) : NULL;
    if (!named || (named->n_values > 0 && !named->is_unique && !named->is_name && !named->is_id &&
                   !named->many_values)) {
        for (int c = 0; c < f->s->tables[table].n_columns && f->r.n_select < ROW_COLUMNS; c++) {
            const struct nl_column *col = &f->s->tables[table].columns[c];
            if (!col->formula && !fr_is_measure(col)) /* nothing names a row: what tells it */
                fr_show(f, fr_item((struct nl_ref){ table, c }, -1));
        }
        return;
    }
    if (fr_key(f->s, table, &key))
        fr_show(f, fr_item(key, -1));
    if (fr_label(f->s, table, &label))
        fr_show(f, fr_item(label, -1));
    /* the rest of a name */
    for (int c = 0; c < f->s->tables[table].n_columns; c++)
        if (f->s->tables[table].columns[c].is_name)
            fr_show(f, fr_item((struct nl_ref){ table, c }, -1));
}

void fr_use_marks(struct frame *f, const int *marks, size_t n)
{
    for (int i = 0; i < f->m.n; i++)
        for (size_t k = 0; k < n; k++)
            if (fr_is(fr_at(f, i), (enum fr_mark)marks[k]))
                fr_at(f, i)->used = true;
}

void fr_find_anchor(struct frame *f)
{
    if (f->anchor >= 0)
        return;
    if (f->n_measures > 0)
        f->anchor = f->measures[0].ref.table;
    else if (f->counted.table >= 0)
        f->anchor = f->counted.table;
    else if (f->head >= 0)
        f->anchor = f->head;
    else if (f->s->only >= 0)
        f->anchor = f->s->only;
    else
        for (int i = 0; i < f->r.n_filters && f->anchor < 0; i++)
            f->anchor = f->r.filters[i].ref.table;
    for (int i = 0; i < f->n_times && f->anchor < 0; i++) /* "how many registered last year" */
        if (f->times[i].used && f->times[i].ref.table >= 0)
            f->anchor = f->times[i].ref.table;
    for (int i = 0; i < f->r.n_group && f->anchor < 0; i++) /* "a pie chart of devices" */
        f->anchor = f->r.group[i].ref.table;
}

/* Months and the like have no column yet: the date of the rows. */
bool fr_place_buckets(struct frame *f)
{
    for (int i = 0; i < f->r.n_group; i++) {
        struct nl_item *g = &f->r.group[i];
        if (g->bucket < 0 || g->ref.table >= 0)
            continue;
        for (int k = 0; k < f->m.n && g->ref.table < 0; k++) /* "issues do we resolve each month" */
            if (fr_is_col(fr_at(f, k)) && nl_is_date(fr_c(f, fr_at(f, k)->ref)) &&
                !fr_at(f, k)->used) {
                g->ref = fr_at(f, k)->ref;
                fr_at(f, k)->used = true;
            }
        for (int k = 0; k < f->n_times && g->ref.table < 0; k++)
            if (f->times[k].used && f->times[k].ref.table >= 0)
                g->ref = f->times[k].ref;
        struct nl_ref own;
        if (g->ref.table < 0 && !fr_date_column(f, f->anchor, &g->ref)) {
            f->stopped = "no date";
            return false;
        }
        if (!fr_date_column(f, g->ref.table, &own) || !fr_same(own, g->ref))
            (void)fr_filter(f, g->ref, FILTER_IS_NOT_NULL);
        if (g->bucket == PART_HOUR && fr_c(f, g->ref)->type != TYPE_TIMESTAMP)
            return false;
    }
    return true;
}

/* The measure of the rows for which a condition holds. */
const char *fr_aggregate_if(struct frame *f, const struct nl_item *item, const char *cond)
{
    if (item->ref.table < 0)
        return arena_printf(f->a, "count(case when %s then 1 end)", cond);
    if (item->func == FUNC_COUNT_DISTINCT)
        return arena_printf(f->a, "count(distinct case when %s then %s end)", cond,
                            nl_expr_of(f->s, &f->r, item->ref, false, f->a));
    return arena_printf(f->a, "%s(case when %s then %s end)", plan_func_names[item->func], cond,
                        fr_expr(f, item->ref));
}

bool fr_uses_change(const struct frame *f)
{
    return f->said[FM_CHANGE];
}
