/* The best of them, and groups with more than so many rows. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nl/rules.h"

#define SOME_ROWS 10

#define OWN_NAMES 0.9     /* of rows have a name that no other has */
#define SHARED_NAMES 0.25 /* names for a row, at the least, where some share one */

/* ---- the best of them ---- */

bool fr_is_ranked(struct frame *f)
{
    return f->super != 0 && (f->has_by || f->entity.table >= 0 || f->entity_bucket >= 0);
}

/* "which writers get checked out the least": how often, where nothing is said behind it. */
static bool is_often(const struct frame *f)
{
    const struct nl_mention *m = f->m.n > 1 ? &f->m.m[f->m.n - 1] : NULL;
    const struct nl_mention *before = m ? m - 1 : NULL;
    bool done = before && (before->kind == KIND_TABLE ||
                           (before->kind == KIND_COLUMN && nl_is_date(fr_c(f, before->ref))));
    return m && done && fr_is(m, FM_SUPER) && !m->hint && m->end == f->q->n &&
           ONE_OF(fr_word(f, m->end - 1), "most", "least");
}

bool fr_apply_ranked(struct frame *f)
{
    f->is_plain = f->nth <= 1 && f->r.n_group == 0;
    /* "the top pages", "the most common types": several, however many */
    bool some = (f->said[FM_TOP] && f->nth == 0 && !f->entity_one) ||
                (f->said[FM_COMMON] && f->nth == 0 && f->entity_many &&
                 ONE_OF(fr_word(f, 1), "are", "were"));
    int n = f->super_n > 0 ? f->super_n : some ? SOME_ROWS : 1;
    struct nl_item by = f->by;
    bool down = f->super > 0;
    if (f->n_measures > 0 && !f->has_by) {
        by = f->measures[0];
        f->has_by = true;
    }
    if (!f->has_by && f->said[FM_TOP]) { /* "top 10 landing pages": by how many there are */
        if (f->entity.column < 0)
            return false;
        by = fr_item(fr_none, FUNC_COUNT);
        f->has_by = true;
    }
    if (!f->has_by && f->entity.column >= 0 && is_often(f)) {
        by = fr_item(fr_none, FUNC_COUNT);
        f->has_by = true;
        f->anchor = f->entity.table;
    }
    if (!f->has_by)
        return false;
    struct nl_ref person; /* "who paid the highest fine", "who closed the most tickets" */
    int of = by.ref.table >= 0 ? by.ref.table : f->anchor;
    bool of_rows = f->entity.column < 0 && f->entity.table == of && by.ref.table < 0;
    for (int i = 0; i < f->m.n && f->said[FM_WHO] && by.ref.table < 0; i++)
        if (fr_is_col(fr_at(f, i)) && nl_is_date(fr_c(f, fr_at(f, i)->ref)) && of < 0) {
            of = fr_at(f, i)->ref.table; /* "who registered most often" */
            fr_at(f, i)->used = true;
            of_rows = f->entity.table == of && fr_same(f->entity, fr_at(f, i)->ref);
        }
    if (f->said[FM_WHO] && (f->entity.table < 0 || of_rows) && f->entity_bucket < 0 &&
        f->r.n_group == 0 && fr_person(f, of, &person)) {
        f->entity = person;
        f->super_rows = by.func < 0 && by.ref.table >= 0 && !f->super_amount;
    }
    /* "the highest price": nothing has it */
    if (f->entity.table < 0 && f->entity_bucket < 0 && by.ref.table >= 0 && f->r.n_group == 0 &&
        by.func < 0 && (f->said[FM_WHO] || f->nth > 1 || f->super_n > 1))
        f->entity = (struct nl_ref){ by.ref.table, -1 };
    if (f->entity.table < 0 && f->entity_bucket < 0 && by.ref.table >= 0) {
        if (f->r.n_group == 0 && f->super_n > 1)
            return false;
        f->anchor = by.ref.table;
        f->r.n_select = 0;
        struct nl_ref date;
        if (f->said[FM_WHEN] && f->r.n_group == 0 && by.func < 0 &&
            fr_date_column(f, by.ref.table, &date) && date.table == by.ref.table) {
            fr_show(f, fr_item(date, -1)); /* "when was the highest usage": the day, and how much */
            fr_show(f, by);
            (void)fr_filter(f, by.ref, FILTER_IS_NOT_NULL);
            f->r.order[0] = by;
            f->r.order_dir[0] = down ? -1 : 1;
            f->r.n_order = 1;
            f->r.limit = 1;
            return fr_join(f) && fr_finish(f);
        }
        if (!fr_place_buckets(f))
            return false;
        fr_show_groups(f);
        if (f->r.n_group == 1 && f->n_measures == 0 && by.func >= 0) { /* "by month: the highest" */
            fr_show(f, by);
        } else {
            fr_show(f, fr_item(by.ref, down ? FUNC_MAX : FUNC_MIN));
        }
        return fr_join(f) && fr_finish(f);
    }
    if (f->entity.table < 0 && f->entity_bucket < 0)
        return false;
    if (fr_same(by.ref, f->entity) && by.ref.table >= 0)
        return false;
    /* "which agents have the best …": several, and nobody says how many */
    if (f->entity_plural && f->super_n == 0 && f->nth == 0 && f->r.n_group == 0)
        return false;
    bool rows = f->entity_bucket < 0 && f->entity.column < 0 && by.func < 0 &&
                by.ref.table == f->entity.table;
    /*
     * What nearly every row has its own of is a name of the row. What some rows share is one, too,
     * where the measure cannot be summed up ("the 5 wines with the best rating").
     */
    const struct nl_column *named = fr_c(f, f->entity);
    if (named && by.func < 0 && by.ref.table == f->entity.table &&
        f->s->tables[f->entity.table].n_rows > 0 && f->r.n_group == 0 &&
        !f->super_amount) {
        double own = (double)named->n_values / (double)f->s->tables[f->entity.table].n_rows;
        rows |= own > OWN_NAMES ||
                (own > SHARED_NAMES && fr_default_func(fr_c(f, by.ref)) != FUNC_SUM);
    }
    rows |= f->super_rows && named;
    f->n_measures = 0;
    struct nl_item chosen[NL_MAX_SELECT];
    int n_chosen = f->r.n_select;
    memcpy(chosen, f->r.select, sizeof(chosen));
    f->r.n_select = 0;
    if (!rows && n_chosen > 0)
        return false;
    if (rows) {
        f->anchor = f->entity.table;
        struct nl_item groups[3];
        int n_groups = f->r.n_group;
        memcpy(groups, f->r.group, sizeof(groups));
        if (n_groups > 1 || !fr_place_buckets(f))
            return false;
        memcpy(groups, f->r.group, sizeof(groups));
        f->r.n_group = 0;
        if (n_groups == 1)
            fr_show(f, groups[0]);
        if (f->entity.column >= 0)
            fr_show(f, fr_item(f->entity, -1));
        else
            fr_show_row(f, f->entity.table);
        for (int i = 0; i < n_chosen; i++)
            fr_show(f, chosen[i]);
        fr_show(f, by);
        struct nl_filter *has = fr_filter(f, by.ref, FILTER_IS_NOT_NULL);
        (void)has;
        if (!fr_join(f) || !fr_finish(f))
            return false;
        if (n_groups == 0) {
            fr_order_by(f->plan, fr_expr(f, by.ref), down);
            json_object_set_new(f->plan, "limit",
                                json_integer(f->nth > 1 ? 1 : MIN_OF(n, PLAN_LIMIT_MAX)));
            if (f->nth > 1)
                json_object_set_new(f->plan, "offset", json_integer(f->nth - 1));
            const char *table = f->s->tables[f->entity.table].name, *x = fr_c(f, by.ref)->name;
            const char *most = down ? "greatest" : "least";
            f->reading = f->nth > 1 ?
                             arena_printf(f->a, "row %d of `%s` by the %s `%s`", f->nth, table,
                                          most, x) :
                         n == 1 ?
                             arena_printf(f->a, "row of `%s` with the %s `%s`", table, most, x) :
                             arena_printf(f->a, "%d rows of `%s` with the %s `%s`", n, table, most,
                                          x);
            return true;
        }
        /* the best of each group */
        if (!fr_c(f, by.ref)->is_numeric || groups[0].bucket >= 0)
            return false;
        json_object_del(f->plan, "limit");
        json_object_del(f->plan, "dataset_id");
        json_t *select = json_object_get(f->plan, "select"), *shown = json_array(), *item;
        size_t i;
        json_array_foreach(select, i, item) {
            const char *alias = arena_printf(
                f->a, "%s", i == 0 && groups[0].ref.table != f->entity.table ? "group_of" : "");
            if (*alias)
                json_object_set_new(item, "alias", json_string(alias));
            const char *name = *alias ? alias : json_string_value(json_object_get(item, "column"));
            const char *dot = f->r.scope.n > 1 && name && !*alias ? strchr(name, '.') : NULL;
            if (dot) {
                json_object_set_new(item, "alias", json_string(dot + 1));
                name = dot + 1;
            }
            if (name)
                json_array_append_new(shown, json_pack("{s:s}", "column", name));
        }
        const char *x = fr_expr(f, by.ref);
        fr_select_expr(f->plan,
                       arena_printf(f->a, "rank(%s%s, %s)", down ? "" : "-", x,
                                    nl_expr_of(f->s, &f->r, groups[0].ref, false, f->a)),
                       "place");
        const char *first = json_string_value(json_object_get(json_array_get(shown, 0), "column"));
        f->plan = json_pack("{s:s, s:o, s:o, s:[{s:s, s:s, s:i}], s:[{s:s}, {s:s}], s:i}",
                            "dataset_id", f->s->dataset_id, "source", f->plan, "select", shown,
                            "filters", "column", "place", "op", "<=", "value", n, "order_by",
                            "expr", first ? arena_printf(f->a, "\"%s\"", first) : "place", "expr",
                            "place", "limit", PLAN_LIMIT_MAX);
        f->is_plain = false;
        f->reading = arena_printf(f->a, "best %d of each `%s` by `%s`", n,
                                  fr_c(f, groups[0].ref)->name, fr_c(f, by.ref)->name);
        return f->plan != NULL;
    }
    /* groups, ranked by a sum or a count */
    if (by.func < 0 && f->said[FM_ONAVG] && fr_is_measure(fr_c(f, by.ref))) {
        by.func = FUNC_AVG; /* "burns the most calories on average" */
        USE_MARKS(f, FM_ONAVG);
    }
    if (by.func < 0)
        by.func = nl_is_date(fr_c(f, by.ref)) ? (down ? FUNC_MAX : FUNC_MIN) :
                                                fr_default_func(fr_c(f, by.ref));
    if (by.ref.table >= 0)
        f->anchor = by.ref.table;
    else if (f->anchor < 0 && f->entity.column >= 0)
        f->anchor = f->head >= 0 && f->head != f->entity.table ? f->head : f->entity.table;
    else if (f->anchor < 0)
        f->anchor = f->head >= 0 ? f->head : fr_fact_table(f->s);
    if (by.ref.table < 0 && f->entity.table >= 0 && f->entity.column < 0 &&
        (f->anchor < 0 || f->anchor == f->entity.table)) {
        int many = -1; /* the busiest doctor: by the only table that speaks of doctors */
        for (int i = 0; i < f->s->n_keys; i++)
            if (f->s->keys[i].to_table == f->entity.table) {
                if (many >= 0 && many != f->s->keys[i].from_table)
                    return false;
                many = f->s->keys[i].from_table;
            }
        f->anchor = many;
    }
    if (f->anchor < 0)
        return false;
    struct nl_item entity = fr_item(f->entity, -1);
    entity.bucket = f->entity_bucket;
    if (f->entity_bucket >= 0) {
        entity.ref = fr_none;
    } else if (f->entity.column < 0) {
        if (f->entity.table == f->anchor)
            return false;
        if (!fr_label(f->s, f->entity.table, &entity.ref))
            return false;
    }
    if (f->r.n_group > 1)
        return false;
    int outer = f->r.n_group;
    f->r.group[f->r.n_group++] = entity;
    if (f->entity_bucket < 0 && f->entity.column < 0) { /* two of one name are two */
        struct nl_ref key;
        if (fr_key(f->s, f->entity.table, &key) && !fr_same(key, entity.ref) && f->r.n_group < 3)
            f->r.group[f->r.n_group++] = fr_item(key, -1);
    }
    if (!fr_place_buckets(f))
        return false;
    if (entity.bucket < 0 && by.ref.table < 0)
        (void)fr_filter(f, entity.ref, FILTER_IS_NOT_NULL);
    fr_show_groups(f);
    fr_show(f, by);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    const char *name = fr_alias(f, &by);
    if (outer == 0) {
        fr_order_by(f->plan, name, down);
        json_object_set_new(f->plan, "limit",
                            json_integer(f->nth > 1 ? 1 : MIN_OF(n, PLAN_LIMIT_MAX)));
        if (f->nth > 1)
            json_object_set_new(f->plan, "offset", json_integer(f->nth - 1));
        if (f->nth > 1) {
            f->reading = arena_printf(f->a, "number %d of `%s` by %s", f->nth,
                                      fr_c(f, f->r.group[0].ref)->name, name);
            return true;
        }
        f->r.order[0] = by; /* for the words */
        f->r.order_dir[0] = down ? -1 : 1;
        f->r.n_order = 1;
        f->r.limit = n;
        return true;
    }
    if (f->r.group[0].bucket >= 0)
        return false;
    json_object_del(f->plan, "limit");
    json_object_del(f->plan, "order_by");
    json_object_del(f->plan, "dataset_id");
    json_t *select = json_object_get(f->plan, "select"), *shown = json_array(), *item;
    size_t i;
    json_array_foreach(select, i, item) {
        const char *column = json_string_value(json_object_get(item, "column")),
                   *alias = json_string_value(json_object_get(item, "alias"));
        if (!alias && column) {
            const char *dot = f->r.scope.n > 1 ? strchr(column, '.') : NULL;
            alias = arena_printf(f->a, "%s", dot ? dot + 1 : column);
            if (dot)
                json_object_set_new(item, "alias", json_string(alias));
        }
        json_array_append_new(shown, json_pack("{s:s}", "column", alias ? alias : name));
    }
    fr_select_expr(f->plan,
                   arena_printf(f->a, "rank(%s%s, %s)", down ? "" : "-", fr_aggregate_of(f, &by),
                                nl_expr_of(f->s, &f->r, f->r.group[0].ref, false, f->a)),
                   "place");
    const char *first = json_string_value(json_object_get(json_array_get(shown, 0), "column"));
    f->plan = json_pack("{s:s, s:o, s:o, s:[{s:s, s:s, s:i}], s:[{s:s}, {s:s}], s:i}", "dataset_id",
                        f->s->dataset_id, "source", f->plan, "select", shown, "filters", "column",
                        "place", "op", "<=", "value", n, "order_by", "expr",
                        arena_printf(f->a, "\"%s\"", first ? first : "place"), "expr", "place",
                        "limit", PLAN_LIMIT_MAX);
    f->is_plain = false;
    f->reading = arena_printf(f->a, "best %d `%s` of each `%s` by %s", n,
                              fr_c(f, f->r.group[1].ref)->name, fr_c(f, f->r.group[0].ref)->name,
                              name);
    return f->plan != NULL;
}
/* ---- groups with more than … ---- */

static int having_of(const struct frame *f)
{
    for (int i = 0; i < f->r.n_filters; i++)
        if (f->r.filters[i].having >= 0)
            return i;
    return -1;
}

bool fr_is_having(struct frame *f)
{
    return having_of(f) >= 0 && !f->super;
}

bool fr_apply_having(struct frame *f)
{
    struct nl_filter *h = &f->r.filters[having_of(f)];
    struct nl_item group = fr_item(fr_none, -1);
    if (h->ref.table >= 0)
        f->anchor = h->ref.table;
    if (f->r.n_group == 1)
        group = f->r.group[0];
    else if (f->counted.table >= 0)
        group.ref = f->counted;
    else if (f->r.n_select == 1 && fr_is_category(f, f->r.select[0].ref))
        group = f->r.select[0];
    for (int i = 0; i < f->m.n && group.ref.table < 0 && group.bucket < 0;
         i++) /* "months with at least 65" */
        if (fr_is(fr_at(f, i), FM_BUCKET) && !fr_at(f, i)->used) {
            group.bucket = fr_at(f, i)->arg;
            fr_at(f, i)->used = true;
        }
    bool by_key = false;
    if (group.ref.table < 0 && group.bucket < 0 && f->head >= 0) {
        int other = f->anchor >= 0 && f->anchor != f->head ? f->anchor : -1;
        for (int i = 0; i < f->s->n_keys && group.ref.table < 0; i++) {
            const struct nl_link_key *k = &f->s->keys[i];
            if (k->to_table == f->head && (other < 0 || k->from_table == other)) {
                group.ref = (struct nl_ref){ k->from_table, k->from_column };
                f->anchor = k->from_table;
                by_key = true;
            }
        }
    }
    if ((group.ref.table < 0 && group.bucket < 0) || f->n_measures > 0)
        return false;
    if (f->anchor < 0)
        f->anchor = group.ref.table;
    bool counts = f->counts;
    f->is_plain = !counts;
    struct nl_ref label = fr_none;
    if (by_key && !counts && fr_label(f->s, f->head, &label))
        group.ref = label;
    f->r.n_group = f->r.n_select = 0;
    f->r.group[f->r.n_group++] = group;
    if (!fr_place_buckets(f))
        return false;
    if (f->r.group[0].bucket < 0)
        (void)fr_filter(f, f->r.group[0].ref, FILTER_IS_NOT_NULL);
    h = &f->r.filters[having_of(f)];
    fr_show_groups(f);
    fr_show(f, fr_item(h->ref, h->having));
    if (!fr_join(f) || !fr_finish(f))
        return false;
    if (counts) {
        json_object_del(f->plan, "limit");
        json_object_del(f->plan, "order_by");
        json_object_del(f->plan, "dataset_id");
        f->plan = json_pack("{s:s, s:o, s:[{s:s, s:s, s:s}]}", "dataset_id", f->s->dataset_id,
                            "source", f->plan, "select", "func", "count", "column", "*", "alias",
                            "row_count");
        f->reading = arena_printf(f->a, "number of different `%s`, %s",
                                  fr_c(f, f->r.group[0].ref)->name, nl_describe(f->s, &f->r, f->a));
    }
    return f->plan != NULL;
}
