/*
 * Questions about tables and columns themselves: their columns, statistics, rows, outliers,
 * distributions.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nl/rules.h"

#define SOME_ROWS 10

/* ---- tables themselves ---- */

static bool describes(struct frame *f, const char *how)
{
    int t = fr_only_table(f);
    if (t < 0)
        return false;
    f->plan = json_pack("{s:s, s:s, s:s}", "dataset_id", f->s->dataset_id, "table",
                        f->s->tables[t].name, "describe", how);
    f->reading = arena_printf(f->a, "%s of the columns of `%s`",
                              str_eq(how, "columns") ? "names and types" : "statistics",
                              f->s->tables[t].name);
    return f->plan != NULL;
}

/* "what is recorded for each visit": the group is the table itself. */
static bool is_named_table(struct frame *f)
{
    for (int i = 0; i < f->m.n && f->r.n_group == 1; i++)
        if (f->m.m[i].kind == KIND_TABLE && f->r.group[0].ref.table == f->m.m[i].table) {
            f->head = f->m.m[i].table;
            return true;
        }
    return false;
}

bool fr_is_columns(struct frame *f)
{
    return f->said[FM_COLUMNS] && f->n_measures == 0 && !f->super && fr_is_unfiltered(f) &&
           (f->r.n_group == 0 || is_named_table(f)) && f->r.n_select == 0;
}

bool fr_apply_columns(struct frame *f)
{
    return describes(f, "columns");
}

bool fr_is_described(struct frame *f)
{
    return f->said[FM_DESCRIBE] && f->r.n_group == 0 && !f->super;
}

bool fr_apply_described(struct frame *f)
{
    static const int funcs[] = {
        FUNC_COUNT, FUNC_AVG, FUNC_MEDIAN, FUNC_STDDEV, FUNC_MIN, FUNC_MAX
    };
    if (f->r.n_select == 1 && f->n_measures == 0 && fr_is_measure(fr_c(f, f->r.select[0].ref)))
        f->measures[f->n_measures++] = f->r.select[0];
    if (f->n_measures == 0)
        return f->r.n_select == 0 && fr_is_unfiltered(f) && describes(f, "statistics");
    struct nl_ref ref = f->measures[0].ref;
    f->anchor = ref.table;
    f->r.n_select = 0;
    for (size_t i = 0; i < ARRAY_SIZE(funcs); i++)
        fr_show(f, fr_item(ref, funcs[i]));
    return fr_join(f) && fr_finish(f);
}

bool fr_is_rows(struct frame *f)
{
    if (f->n_measures > 0 || f->r.n_group > 0 || f->super || f->counts || !fr_is_unfiltered(f) ||
        f->anti >= 0 || f->than.is_set)
        return false;
    bool number = false;
    for (int i = 0; i < f->m.n; i++)
        number |= f->m.m[i].kind == KIND_NUMBER && !f->m.m[i].used;
    bool verb = false;
    for (int i = 0; i < f->q->n; i++)
        verb |= str_eq(f->q->t[i].text, "show") || str_eq(f->q->t[i].text, "list") ||
                str_eq(f->q->t[i].text, "display") || str_eq(f->q->t[i].text, "print") ||
                str_eq(f->q->t[i].text, "see") || str_eq(f->q->t[i].text, "give") ||
                str_eq(f->q->t[i].text, "all");
    if (!verb && !f->said[FM_ROWS])
        return false;
    for (int k = 0; k < f->n_times; k++)
        if (f->times[k].used)
            return false;
    return (f->said[FM_ROWS] || number || f->r.n_select == 0) && fr_only_table(f) >= 0 &&
           f->r.n_select == 0 && !f->said[FM_NOT] && !f->said[FM_OUTLIER] && !f->said[FM_SHARE] &&
           !f->said[FM_DIST] && !f->said[FM_DECLINE] && !f->said[FM_CHANGE] && !f->said[FM_DIFF] &&
           !f->said[FM_RATE] && !f->said[FM_AGG] && !f->said[FM_VS] && !f->said[FM_CMP] &&
           !f->said[FM_THAN_AVG] && !f->said[FM_MORE];
}

bool fr_apply_rows(struct frame *f)
{
    int t = fr_only_table(f), n = 0;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->kind == KIND_NUMBER && !m->used) {
            n = (int)m->number;
            m->used = true;
        }
        if (fr_is(m, FM_ROWS) || fr_is(m, FM_FIRST) || fr_is(m, FM_TOP))
            m->used = true;
    }
    bool whole = false;
    for (int i = 0; i < f->q->n; i++)
        whole |= str_eq(f->q->t[i].text, "all") || str_eq(f->q->t[i].text, "whole") ||
                 str_eq(f->q->t[i].text, "every");
    if (n == 0 && !whole && !f->said[FM_ROWS] && f->s->tables[t].n_rows > 200)
        return false; /* nobody asks for a thousand rows by their name alone */
    f->r.scope = (struct nl_scope){ .tables = { t }, .n = 1 };
    f->r.limit = n > 0 ? n : whole ? 0 : f->said[FM_ROWS] ? SOME_ROWS : 0;
    f->plan = nl_build_plan(f->s, &f->r, f->a);
    return f->plan != NULL;
}
/* ---- two numbers ---- */

bool fr_is_correlation(struct frame *f)
{
    return f->said[FM_CORR];
}

bool fr_apply_correlation(struct frame *f)
{
    struct nl_ref refs[2];
    int n = 0;
    for (int i = 0; i < f->n_measures && n < 2; i++)
        refs[n++] = f->measures[i].ref;
    for (int i = 0; i < f->r.n_select && n < 2; i++)
        if (fr_is_compared(f, f->r.select[i].ref))
            refs[n++] = f->r.select[i].ref;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (fr_is_col(m) && fr_is_compared(f, m->ref) && n < 2 && !m->used) {
            refs[n++] = m->ref;
            m->used = true;
        }
        struct nl_ref ref; /* "do heavier items cost more" */
        int dir, table = n > 0 ? refs[0].table : fr_only_table(f);
        if (fr_is(m, FM_MORE) && m->hint && n < 2 && table >= 0 &&
            fr_hint(f, table, m->hint, &ref, &dir) && !(n > 0 && fr_same(refs[0], ref)))
            refs[n++] = ref;
        if (fr_is(m, FM_MORE) || fr_is(m, FM_AND) || fr_is(m, FM_VS) || fr_is(m, FM_AGG) ||
            fr_is(m, FM_CORR))
            m->used = true;
    }
    if (n != 2 || fr_same(refs[0], refs[1]) || f->r.n_group > 1)
        return false;
    f->anchor = refs[0].table;
    for (int i = 0; i < f->s->n_keys; i++) /* the rows of the many */
        if (f->s->keys[i].from_table == refs[1].table && f->s->keys[i].to_table == refs[0].table)
            f->anchor = refs[1].table;
    if (!fr_place_buckets(f))
        return false;
    f->r.n_select = 0;
    f->n_measures = 0;
    fr_show_groups(f);
    fr_show(f, fr_item(refs[0], FUNC_AVG));
    fr_show(f, fr_item(refs[1], FUNC_AVG));
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_t *shown = json_object_get(f->plan, "select");
    while (json_array_size(shown) > (size_t)f->r.n_group)
        json_array_remove(shown, json_array_size(shown) - 1);
    if (json_array_size(shown) == 0)
        json_object_del(f->plan, "select");
    json_object_del(f->plan, "order_by");
    fr_select_expr(f->plan,
                   arena_printf(f->a, "corr(%s, %s)", fr_expr(f, refs[0]), fr_expr(f, refs[1])),
                   "correlation");
    f->reading = arena_printf(f->a, "correlation of `%s` and `%s`", fr_c(f, refs[0])->name,
                              fr_c(f, refs[1])->name);
    return true;
}
/* ---- outliers ---- */

bool fr_is_outlier(struct frame *f)
{
    return f->said[FM_OUTLIER];
}

bool fr_apply_outlier(struct frame *f)
{
    struct nl_ref ref = fr_none;
    int side = 0, dir;
    const char *hint = NULL;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is(fr_at(f, i), FM_OUTLIER)) {
            side = fr_at(f, i)->arg;
            hint = fr_at(f, i)->hint;
            fr_at(f, i)->used = true;
        } else if (fr_is(fr_at(f, i), FM_COUNT) || fr_is(fr_at(f, i), FM_ANY)) {
            fr_at(f, i)->used = true;
        }
    if (f->n_measures > 0)
        ref = f->measures[0].ref;
    struct nl_ref date;
    for (int i = 0; i < f->m.n; i++) /* "days with an unusually high …": rows have their day */
        if (fr_is(fr_at(f, i), FM_BUCKET) && fr_at(f, i)->arg == BUCKET_DAY &&
            fr_date_column(f, f->n_measures > 0 ? f->measures[0].ref.table : fr_only_table(f),
                           &date))
            fr_at(f, i)->used = true;
    for (int i = 0; i < f->r.n_select && ref.table < 0; i++)
        if (fr_is_measure(fr_c(f, f->r.select[i].ref)))
            ref = f->r.select[i].ref;
    if (ref.table < 0 && !(hint && fr_hint(f, fr_only_table(f), hint, &ref, &dir)))
        return false;
    if (fr_turns(f, hint, ref))
        side = -side;
    if (f->r.n_group > 0 || f->n_measures > 1)
        return false;
    f->anchor = ref.table;
    f->n_measures = 0;
    f->r.n_select = 0;
    fr_show_row(f, ref.table);
    fr_show(f, fr_item(ref, -1));
    if (!fr_join(f) || f->r.scope.n > 1 || !fr_finish(f))
        return false;
    json_t *filters = json_object_get(f->plan, "filters"), *any = json_array();
    if (!filters) {
        filters = json_array();
        json_object_set_new(f->plan, "filters", filters);
    }
    const char *x = fr_expr(f, ref);
    for (int k = 0; k < 2; k++) {
        if ((k == 0 && side < 0) || (k == 1 && side > 0))
            continue;
        const char *edge =
            k == 0 ?
                arena_printf(f->a,
                             "quantile(%s, 0.75) + 1.5 * (quantile(%s, 0.75) - quantile(%s, 0.25))",
                             x, x, x) :
                arena_printf(f->a,
                             "quantile(%s, 0.25) - 1.5 * (quantile(%s, 0.75) - quantile(%s, 0.25))",
                             x, x, x);
        json_t *inner = json_pack("{s:s, s:[{s:s, s:s}]}", "table", f->s->tables[ref.table].name,
                                  "select", "expr", edge, "alias", "edge");
        if (inner && json_array_size(filters) > 0) /* outliers among these rows */
            json_object_set_new(inner, "filters", json_deep_copy(filters));
        json_array_append_new(
            any, json_pack("{s:s, s:s, s:o}", "expr", x, "op", k == 0 ? ">" : "<", "plan", inner));
    }
    if (json_array_size(any) == 1)
        json_array_append(filters, json_array_get(any, 0));
    else
        json_array_append_new(filters, json_pack("{s:O}", "or", any));
    json_decref(any);
    fr_order_by(f->plan, x, side >= 0);
    f->reading = arena_printf(
        f->a, "rows of `%s` whose `%s` lies more than 1.5 quartile ranges outside the quartiles",
        f->s->tables[ref.table].name, fr_c(f, ref)->name);
    return true;
}
/* ---- distributions ---- */

bool fr_is_distribution(struct frame *f)
{
    return f->said[FM_DIST] && (f->r.n_group == 0 || f->r.n_group == 1) && !f->super;
}

/* "in steps of 50 kWh": the unit of the step is no column of its own. */
static void drop_unit(struct frame *f, struct nl_mention *unit, int at)
{
    if (!fr_is_col(unit) || unit->start != at || !fr_is_unit(f->q->t[at].text))
        return;
    for (int k = 0; k < f->r.n_select; k++)
        if (fr_same(f->r.select[k].ref, unit->ref) && f->r.n_select + f->n_measures > 1) {
            memmove(&f->r.select[k], &f->r.select[k + 1],
                    sizeof(f->r.select[0]) * (size_t)(f->r.n_select - k - 1));
            f->r.n_select--;
        }
    for (int k = 0; k < f->n_measures; k++)
        if (fr_same(f->measures[k].ref, unit->ref) && f->r.n_select + f->n_measures > 1) {
            memmove(&f->measures[k], &f->measures[k + 1],
                    sizeof(f->measures[0]) * (size_t)(f->n_measures - k - 1));
            f->n_measures--;
        }
    unit->used = true;
}

bool fr_apply_distribution(struct frame *f)
{
    struct nl_ref ref = fr_none;
    double step = 0;
    bool histogram = false;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->kind == KIND_NUMBER && !m->used && f->said[FM_DIST]) {
            step = m->number;
            m->used = true;
            drop_unit(f, fr_at(f, i + 1), m->end);
        }
        if (fr_is(m, FM_DIST)) {
            histogram |= m->arg == 1;
            m->used = true;
        }
    }
    if (f->n_measures > 0)
        ref = f->measures[0].ref;
    else if (f->r.n_select > 0)
        ref = f->r.select[0].ref;
    else if (f->r.n_group > 0)
        ref = f->r.group[0].ref;
    if (ref.table < 0 || f->n_measures > 1 || f->r.n_select > 1)
        return false;
    if (f->r.n_group == 1 && !fr_same(f->r.group[0].ref, ref))
        return false;
    const struct nl_column *c = fr_c(f, ref);
    for (int i = 0; i < f->q->n; i++)
        if (str_eq(f->q->t[i].text, "bins") || str_eq(f->q->t[i].text, "steps") ||
            str_eq(f->q->t[i].text, "bin") || str_eq(f->q->t[i].text, "step") ||
            str_eq(f->q->t[i].text, "buckets") || fr_is_unit(f->q->t[i].text))
            f->q->t[i].is_stop = true;
    f->anchor = ref.table;
    f->n_measures = f->r.n_select = f->r.n_group = 0;
    if (step <= 0 && histogram && fr_is_measure(c) &&
        (c->n_values > 30 || c->many_values || c->type == TYPE_NUMBER))
        return false; /* steps that nobody named */
    if (step > 0 && !fr_is_measure(c))
        return false;
    if (step <= 0 && c->type == TYPE_NUMBER && (c->n_values > 60 || c->many_values))
        return false;
    if (step <= 0) {
        f->r.group[f->r.n_group++] = fr_item(ref, nl_is_date(c) ? -1 : -1);
        if (nl_is_date(c))
            f->r.group[0].bucket = BUCKET_MONTH;
        fr_show_groups(f);
        fr_show(f, fr_item(fr_none, FUNC_COUNT));
        if (!fr_join(f) || !fr_finish(f))
            return false;
        if (fr_is_measure(c))
            fr_order_by(f->plan,
                        json_string_value(json_array_get(json_object_get(f->plan, "group_by"), 0)),
                        false);
        return true;
    }
    fr_show(f, fr_item(ref, -1));
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "select");
    fr_select_expr(f->plan, arena_printf(f->a, "floor(%s / %g) * %g", fr_expr(f, ref), step, step),
                   "from_value");
    fr_select_expr(f->plan, "count(*)", "row_count");
    json_object_set_new(f->plan, "group_by", json_pack("[s]", "from_value"));
    json_array_append_new(f->r.n_filters ? json_object_get(f->plan, "filters") : ({
                              json_t *l = json_array();
                              json_object_set_new(f->plan, "filters", l);
                              l;
                          }),
                          json_pack("{s:s, s:s}", "expr", fr_expr(f, ref), "op", "is_not_null"));
    fr_order_by(f->plan, "from_value", false);
    f->reading = arena_printf(f->a, "number of rows by `%s` in steps of %g", c->name, step);
    return true;
}
