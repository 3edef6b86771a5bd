/* Differences, what is above the average, and what is not there. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nl/rules.h"

#define SOME_ROWS 10

/* ---- differences ---- */

bool fr_is_difference(struct frame *f)
{
    bool ends = false;
    struct nl_mention *differ = NULL;
    for (int i = 0; i < f->m.n; i++) {
        ends |= fr_is(fr_at(f, i), FM_SUPER);
        if (fr_is(fr_at(f, i), FM_DIFF) && str_eq(f->q->t[f->m.m[i].start].text, "differ"))
            differ = fr_at(f, i);
    }
    if (differ && !ends && f->r.n_group > 0) { /* "how does the price differ by shop": of each */
        differ->used = true;
        return false;
    }
    return f->said[FM_DIFF];
}

/* The greatest less the least of the groups. */
static bool spread_of_groups(struct frame *f, struct nl_item item)
{
    f->is_plain = false;
    fr_show_groups(f);
    fr_show(f, item);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "limit");
    json_object_del(f->plan, "order_by");
    json_object_del(f->plan, "dataset_id");
    const char *name = fr_alias(f, &item);
    f->plan = json_pack("{s:s, s:o, s:[{s:s, s:s}]}", "dataset_id", f->s->dataset_id, "source",
                        f->plan, "select", "expr",
                        arena_printf(f->a, "max(%s) - min(%s)", name, name), "alias", "difference");
    f->reading = arena_printf(f->a, "difference between the greatest and the least %s",
                              fr_say(f, &item));
    return f->plan != NULL;
}

/* In a plan the alias of an expression hides a column of the same name. */
static bool can_be_alias(const struct frame *f, const char *name)
{
    for (int t = 0; t < f->s->n_tables; t++)
        for (int c = 0; c < f->s->tables[t].n_columns; c++)
            if (strcasecmp(f->s->tables[t].columns[c].name, name) == 0)
                return false;
    return expr_is_plain_name(name) && strcasecmp(name, "difference") != 0;
}

/* "difference in average price between A and B": of each, and the one less the other. */
static bool between_two(struct frame *f, int at)
{
    struct nl_filter both = f->r.filters[at];
    if (f->r.n_select == 1 && f->n_measures == 0 && fr_is_measure(fr_c(f, f->r.select[0].ref)))
        f->measures[f->n_measures++] = fr_item(f->r.select[0].ref,
                                               fr_default_func(fr_c(f, f->r.select[0].ref)));
    struct nl_item what = fr_main_item(f);
    if (both.op != FILTER_EQ || both.negated || f->r.n_group > 0 || f->n_measures > 1 || f->super)
        return false;
    f->r.n_select = 0;
    fr_find_anchor(f);
    if (what.ref.table >= 0)
        f->anchor = what.ref.table;
    f->is_plain = false;
    USE_MARKS(f, FM_DIFF, FM_AND, FM_OR, FM_VS, FM_BETWEEN, FM_COUNT);
    fr_show(f, what);
    fr_show(f, fr_item(both.ref, FUNC_MIN));
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "select");
    json_object_del(f->plan, "order_by");
    const char *part[2];
    const char *names[2] = { nl_name_of(both.text[0], f->a), nl_name_of(both.text[1], f->a) };
    if (strcasecmp(names[0], names[1]) == 0 || !can_be_alias(f, names[0]) ||
        !can_be_alias(f, names[1])) {
        names[0] = "first";
        names[1] = "second";
    }
    for (int k = 0; k < 2; k++) {
        auto_buf struct buf b = BUF_INIT(EXPR_MAX_BYTES);
        struct nl_filter one = both;
        one.text[0] = both.text[k];
        one.n_texts = 1;
        if (!nl_append_condition(f->s, &f->r, &one, &b, f->a))
            return false;
        part[k] = fr_aggregate_if(f, &what, buf_cstr(&b));
        fr_select_expr(f->plan, part[k], names[k]);
    }
    fr_select_expr(f->plan, arena_printf(f->a, "%s - %s", part[0], part[1]), "difference");
    f->reading = arena_printf(f->a, "%s of '%s' less that of '%s'", fr_say(f, &what), both.text[0],
                              both.text[1]);
    return true;
}

bool fr_apply_difference(struct frame *f)
{
    struct nl_ref ref = fr_none;
    int table = fr_only_table(f), dir, func = -1;
    for (int i = 0; i < f->r.n_filters; i++) /* between two groups, not between the ends of one */
        if (f->r.filters[i].n_texts == 2)
            return between_two(f, i);
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (fr_is(m, FM_SUPER)) {
            struct nl_ref hinted;
            if (ref.table < 0 && m->hint && *m->hint != '?' &&
                fr_hint(f, table, m->hint, &hinted, &dir) && dir > 0)
                ref = hinted;
            m->used = true;
        }
        if (fr_is(m, FM_AND) || fr_is(m, FM_DIFF) || fr_is(m, FM_COUNT))
            m->used = true;
    }
    if (f->n_measures == 1) {
        ref = f->measures[0].ref;
        func = f->measures[0].func;
    } else if (f->r.n_select == 1 && fr_is_measure(fr_c(f, f->r.select[0].ref))) {
        ref = f->r.select[0].ref;
    }
    if (ref.table < 0 || f->n_measures > 1 || f->r.n_select > 1)
        return false;
    bool of_groups = func == FUNC_AVG && f->r.n_group == 0 && f->entity.table >= 0;
    f->r.n_select = 0;
    f->anchor = ref.table;
    for (int i = 0; i < f->m.n && f->r.n_group == 0; i++) { /* "the best and the worst month" */
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is(m, FM_BUCKET) || m->used || m->arg >= PART_WEEKDAY)
            continue;
        struct nl_item item = fr_item(ref,
                                      func == FUNC_AVG ? FUNC_AVG : fr_default_func(fr_c(f, ref)));
        m->used = true;
        f->n_measures = 0;
        f->r.group[0] = fr_item(fr_none, -1);
        f->r.group[f->r.n_group++].bucket = m->arg;
        return fr_place_buckets(f) && spread_of_groups(f, item);
    }
    if (func == FUNC_AVG && f->r.n_group == 0) { /* "best and worst country in average …" */
        for (int i = 0; i < f->m.n && !of_groups; i++)
            if (fr_is_col(fr_at(f, i)) && fr_is_category(f, fr_at(f, i)->ref)) {
                f->entity = fr_at(f, i)->ref;
                fr_at(f, i)->used = of_groups = true;
            }
    }
    if (of_groups) {
        f->r.group[f->r.n_group++] = fr_item(f->entity, -1);
        return spread_of_groups(f, fr_item(ref, FUNC_AVG));
    }
    f->n_measures = 0;
    fr_show_groups(f);
    fr_show(f, fr_item(ref, FUNC_MIN));
    fr_show(f, fr_item(ref, FUNC_MAX));
    if (!fr_place_buckets(f) || !fr_join(f) || !fr_finish(f))
        return false;
    fr_select_expr(f->plan,
                   arena_printf(f->a, "max(%s) - min(%s)", fr_expr(f, ref), fr_expr(f, ref)),
                   "difference");
    f->reading = arena_printf(f->a, "difference between the greatest and the least `%s`",
                              fr_c(f, ref)->name);
    return true;
}
/* ---- than the average ---- */

bool fr_is_than(struct frame *f)
{
    return f->said[FM_THAN_AVG];
}

static json_t *compare_plan(struct frame *f, struct nl_ref ref)
{
    return json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "table", f->s->tables[ref.table].name, "select",
                     "func", "avg", "column", fr_c(f, ref)->name, "alias", "average");
}

bool fr_apply_than(struct frame *f)
{
    struct nl_ref ref = fr_none;
    int op = FILTER_GT, dir;
    const char *hint = NULL;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (fr_is(m, FM_THAN_AVG)) {
            op = m->arg >= 0 ? m->arg : op;
            hint = m->hint ? m->hint : hint;
            m->used = true;
        }
        if (fr_is(m, FM_MORE)) {
            op = m->arg > 0 ? FILTER_GT : FILTER_LT;
            hint = hint ? hint : m->hint;
            m->used = true;
        }
        if (fr_is(m, FM_VS))
            m->used = true;
    }
    int func = -1;
    for (int i = 0; i < f->m.n && f->n_measures == 0 && ref.table < 0; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (fr_is_col(m) && !m->used && fr_is_measure(fr_c(f, m->ref))) {
            ref = m->ref;
            m->used = true;
        }
    }
    if (f->n_measures > 0) {
        ref = f->measures[0].ref;
        func = f->measures[0].func;
    } else {
        for (int i = 0; i < f->r.n_select && ref.table < 0; i++)
            if (fr_is_measure(fr_c(f, f->r.select[i].ref))) {
                ref = f->r.select[i].ref;
                memmove(&f->r.select[i], &f->r.select[i + 1],
                        sizeof(f->r.select[0]) * (size_t)(f->r.n_select - i - 1));
                f->r.n_select--;
            }
    }
    int table = fr_only_table(f);
    if (table < 0 && f->r.n_select == 1)
        table = f->r.select[0].ref.table;
    if (ref.table < 0 && !(fr_hint(f, table, hint, &ref, &dir) && dir > 0) &&
        !(table >= 0 && !hint && nl_main_measure(f->s, table, &ref)))
        return false;
    struct nl_ref own;
    if (f->r.n_select == 1 && f->r.select[0].ref.table == ref.table &&
        fr_label(f->s, ref.table, &own) && fr_same(own, f->r.select[0].ref))
        f->r.n_select = 0; /* "taller than the average player": the players themselves */
    if (!fr_is_measure(fr_c(f, ref)) || f->n_measures > 1 || f->r.n_group > 1)
        return false;
    /* groups whose average is above that of all */
    struct nl_ref group = f->r.n_group == 1 ? f->r.group[0].ref : fr_none;
    if (group.table < 0 && f->r.n_select == 1 && fr_is_category(f, f->r.select[0].ref))
        group = f->r.select[0].ref;
    if (group.table < 0 && f->head >= 0 && f->head != ref.table && !fr_label(f->s, f->head, &group))
        return false;
    f->n_measures = f->r.n_select = f->r.n_group = 0;
    f->anchor = ref.table;
    if (group.table >= 0 && (func < 0 || func == FUNC_AVG)) {
        if (f->counts)
            return false;
        f->r.group[f->r.n_group++] = fr_item(group, -1);
        fr_show_groups(f);
        fr_show(f, fr_item(ref, FUNC_AVG));
        if (!fr_join(f) || !fr_finish(f))
            return false;
        json_object_set_new(f->plan, "having",
                            json_pack("[{s:s, s:s, s:o}]", "expr",
                                      arena_printf(f->a, "avg(%s)", fr_expr(f, ref)), "op",
                                      plan_filter_op_names[op], "plan", compare_plan(f, ref)));
    } else {
        if (f->counts) {
            fr_show(f, fr_item(fr_none, FUNC_COUNT));
        } else {
            fr_show_row(f, ref.table);
            fr_show(f, fr_item(ref, -1));
        }
        if (!fr_join(f) || !fr_finish(f))
            return false;
        json_t *filters = json_object_get(f->plan, "filters");
        if (!filters) {
            filters = json_array();
            json_object_set_new(f->plan, "filters", filters);
        }
        json_array_append_new(filters,
                              json_pack("{s:s, s:s, s:o}", "expr", fr_expr(f, ref), "op",
                                        plan_filter_op_names[op], "plan", compare_plan(f, ref)));
    }
    f->reading = arena_printf(f->a, "%s whose `%s` is %s the average",
                              group.table >= 0 ? fr_c(f, group)->name : "rows", fr_c(f, ref)->name,
                              op == FILTER_GT ? "above" : "below");
    return true;
}
/* ---- not there ---- */

bool fr_is_absent(struct frame *f)
{
    return f->anti >= 0;
}

bool fr_apply_absent(struct frame *f)
{
    const struct nl_link_key *key = NULL;
    for (int i = 0; i < f->s->n_keys; i++) {
        const struct nl_link_key *k = &f->s->keys[i];
        bool fits = k->from_table == f->anti && k->to_table == f->head;
        if (fits &&
            (!key || (f->key_hint.table == k->from_table && f->key_hint.column == k->from_column)))
            key = k;
    }
    if (!key || f->n_measures > 0 || f->r.n_group > 0 || f->super)
        return false;
    USE_MARKS(f, FM_NOT, FM_COUNT, FM_ANY);
    f->anchor = f->head;
    struct nl_filter inside[NL_MAX_FILTERS];
    int n = 0, kept = 0;
    for (int i = 0; i < f->r.n_filters; i++)
        if (f->r.filters[i].ref.table == f->anti)
            inside[n++] = f->r.filters[i];
        else
            f->r.filters[kept++] = f->r.filters[i];
    f->r.n_filters = kept;
    f->r.n_select = 0;
    if (f->counts)
        fr_show(f, fr_item(fr_none, FUNC_COUNT));
    else
        fr_show_row(f, f->head);
    if (!fr_join(f) || f->r.scope.n > 1 || !fr_finish(f))
        return false;
    json_t *inner = json_pack("{s:s, s:[{s:s}]}", "table", f->s->tables[f->anti].name, "select",
                              "column", f->s->tables[f->anti].columns[key->from_column].name);
    if (n > 0) {
        json_t *list = json_array();
        for (int i = 0; i < n; i++)
            json_array_append_new(list, nl_filter_json(f->s, &f->r, &inside[i], f->a));
        json_object_set_new(inner, "filters", list);
    }
    json_t *filters = json_object_get(f->plan, "filters");
    if (!filters) {
        filters = json_array();
        json_object_set_new(f->plan, "filters", filters);
    }
    json_array_append_new(filters, json_pack("{s:s, s:s, s:o}", "column",
                                             f->s->tables[f->head].columns[key->to_column].name,
                                             "op", "not_in", "plan", inner));
    f->reading = arena_printf(f->a, "%s of `%s` without a row in `%s`",
                              f->counts ? "number" : "rows", f->s->tables[f->head].name,
                              f->s->tables[f->anti].name);
    return true;
}
