/* Ratios, averages of groups, rates and shares. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nl/rules.h"

#define ONE_LETTER(w) ((w)[0] && !(w)[1])

/* ---- ratios and averages of groups ---- */

bool fr_is_ratio(struct frame *f)
{
    return f->per >= 0 || f->per_ref.table >= 0 ||
           (f->said[FM_RATIO] && f->n_measures + f->r.n_select == 2);
}

bool fr_apply_ratio(struct frame *f)
{
    struct nl_item top, bottom = fr_item(fr_none, FUNC_COUNT);
    for (int i = 0; i < f->r.n_select && f->n_measures < 2; i++)
        if (fr_is_measure(fr_c(f, f->r.select[i].ref)))
            f->measures[f->n_measures++] = fr_item(f->r.select[i].ref, FUNC_SUM);
    f->r.n_select = 0;
    USE_MARKS(f, FM_RATIO, FM_ONAVG, FM_COUNT);
    if (f->said[FM_RATIO] && f->n_measures == 2) {
        top = fr_item(f->measures[0].ref, FUNC_SUM);
        bottom = fr_item(f->measures[1].ref, FUNC_SUM);
    } else if (f->n_measures == 1) {
        if (f->per == f->measures[0].ref.table && f->measures[0].func == FUNC_AVG) {
            f->per = -1; /* "average cost per visit": of the rows that have one */
            return fr_apply_summed(f);
        }
        top = fr_item(f->measures[0].ref, FUNC_SUM);
        if (f->per_ref.table >= 0)
            bottom = fr_item(f->per_ref, FUNC_SUM);
    } else {
        return false;
    }
    if (bottom.ref.table >= 0 && bottom.ref.table != top.ref.table)
        return false;
    f->anchor = top.ref.table;
    if (f->per >= 0 && f->per != top.ref.table) { /* per customer: of the rows that speak of one */
        bool found = false;
        for (int i = 0; i < f->s->n_keys && !found; i++)
            if (f->s->keys[i].from_table == top.ref.table && f->s->keys[i].to_table == f->per) {
                bottom = fr_item((struct nl_ref){ top.ref.table, f->s->keys[i].from_column },
                                 FUNC_COUNT_DISTINCT);
                found = true;
            }
        if (!found)
            return false;
    }
    f->n_measures = 0;
    if (!fr_place_buckets(f))
        return false;
    fr_show_groups(f);
    fr_show(f, top);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    fr_select_expr(
        f->plan,
        arena_printf(f->a, "%s * 1.0 / %s", fr_aggregate_of(f, &top), fr_aggregate_of(f, &bottom)),
        "ratio");
    fr_drop_shown(f->plan, (size_t)f->r.n_group, "ratio");
    f->reading = arena_printf(f->a, "%s divided by %s", fr_say(f, &top), fr_say(f, &bottom));
    return true;
}

bool fr_is_mean_of_groups(struct frame *f)
{
    return f->average_of_groups;
}

/* "average daily output per machine": the sums of days, and of those the mean of each machine. */
static bool mean_by_group(struct frame *f, struct nl_item what)
{
    int outer = f->r.group[0].bucket >= 0 ? 1 : 0;
    fr_show_groups(f);
    fr_show(f, what);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "order_by");
    json_object_del(f->plan, "limit");
    json_object_del(f->plan, "dataset_id");
    json_t *shown = json_array_get(json_object_get(f->plan, "select"), (size_t)outer);
    json_object_set_new(shown, "alias", json_string("group_of"));
    const char *name = fr_alias(f, &what);
    f->plan = json_pack("{s:s, s:o, s:[{s:s}, {s:s, s:s, s:s}], s:[s]}", "dataset_id",
                        f->s->dataset_id, "source", f->plan, "select", "column", "group_of", "func",
                        "avg", "column", name, "alias", "average", "group_by", "group_of");
    f->reading = arena_printf(f->a, "average %s for each `%s`", name,
                              fr_c(f, f->r.group[outer].ref)->name);
    return f->plan != NULL;
}

/* "average number of visits per doctor", "orders per day on average" */
bool fr_apply_mean_of_groups(struct frame *f)
{
    struct nl_item what = fr_main_item(f);
    USE_MARKS(f, FM_ONAVG, FM_AGG, FM_COUNT);
    fr_find_anchor(f);
    if (f->anchor < 0)
        return false;
    if (f->r.n_group == 0 && f->head >= 0 && f->head != f->anchor) {
        struct nl_ref ref;
        for (int i = 0; i < f->s->n_keys && f->r.n_group == 0; i++)
            if (f->s->keys[i].from_table == f->anchor && f->s->keys[i].to_table == f->head) {
                ref = (struct nl_ref){ f->anchor, f->s->keys[i].from_column };
                f->r.group[f->r.n_group++] = fr_item(ref, -1);
            }
    }
    /* "how many reviews does a restaurant get": the other table that is spoken of */
    for (int k = 0; k < f->m.n && f->r.n_group == 0; k++)
        if (f->m.m[k].kind == KIND_TABLE && f->m.m[k].table != f->anchor)
            for (int i = 0; i < f->s->n_keys && f->r.n_group == 0; i++)
                if (f->s->keys[i].from_table == f->anchor &&
                    f->s->keys[i].to_table == f->m.m[k].table) {
                    f->r.group[f->r.n_group++] = fr_item(
                        (struct nl_ref){ f->anchor, f->s->keys[i].from_column }, -1);
                    f->m.m[k].used = true;
                }
    if (f->r.n_group == 0 && f->r.n_select == 1 && fr_is_category(f, f->r.select[0].ref)) {
        f->r.group[f->r.n_group++] = f->r.select[0];
        f->r.n_select = 0;
    }
    if (f->n_measures > 1 || f->r.n_select > 0 || !fr_place_buckets(f))
        return false;
    if (what.ref.table >= 0 && what.func == FUNC_AVG)
        what.func = FUNC_SUM;
    if (f->r.n_group == 2 && (f->r.group[0].bucket >= 0) != (f->r.group[1].bucket >= 0))
        return mean_by_group(f, what);
    if (f->r.n_group != 1)
        return false;
    /* the key of the rows rather than the other table's name */
    for (int i = 0; i < f->s->n_keys && f->r.group[0].bucket < 0; i++)
        if (f->s->keys[i].from_table == f->anchor &&
            f->s->keys[i].to_table == f->r.group[0].ref.table)
            f->r.group[0].ref = (struct nl_ref){ f->anchor, f->s->keys[i].from_column };
    struct nl_filter *x = f->r.group[0].bucket < 0 ?
                              fr_filter(f, f->r.group[0].ref, FILTER_IS_NOT_NULL) :
                              NULL;
    (void)x;
    fr_show_groups(f);
    fr_show(f, what);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    const char *name = fr_alias(f, &what);
    json_object_del(f->plan, "order_by");
    json_object_del(f->plan, "limit");
    json_object_del(f->plan, "dataset_id");
    f->plan = json_pack("{s:s, s:o, s:[{s:s, s:s, s:s}]}", "dataset_id", f->s->dataset_id, "source",
                        f->plan, "select", "func", "avg", "column", name, "alias", "average");
    f->reading = arena_printf(f->a, "average %s for each `%s`", name,
                              fr_c(f, f->r.group[0].ref)->name);
    return f->plan != NULL;
}
/* ---- shares and rates ---- */

bool fr_is_rate(struct frame *f)
{
    if (!f->said[FM_RATE])
        return false;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is(fr_at(f, i), FM_RATE) && !fr_at(f, i)->used)
            return true;
    return false;
}

/* "percentage_cancelled", "percentage_not_paid" */
static const char *rate_name(struct frame *f, const struct nl_column *c, bool turned)
{
    auto_buf struct buf b = BUF_INIT(256);
    (void)buf_printf(&b, NULL, "percentage%s", turned ? "_not" : "");
    for (int w = 0; w < c->words.n; w++)
        if (!ONE_LETTER(c->words.words[w]) && !str_eq(c->words.words[w], "is"))
            (void)buf_printf(&b, NULL, "_%s", c->words.words[w]);
    const char *name = arena_strdup(f->a, buf_cstr(&b));
    return name ? name : "percentage";
}

bool fr_apply_rate(struct frame *f)
{
    struct nl_ref flag = fr_none;
    bool turned = false;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is(m, FM_RATE))
            continue;
        m->used = true;
        for (int k = i - 1; k <= i + 1; k++) {
            struct nl_mention *c = fr_at(f, k);
            if (fr_is_col(c) && fr_c(f, c->ref)->is_flag && flag.table < 0) {
                flag = c->ref;
                c->used = true;
            }
            if (c && c->kind == KIND_VALUE && fr_c(f, c->ref) && fr_c(f, c->ref)->is_flag &&
                flag.table < 0) {
                flag = c->ref;
                turned = str_eq(c->text, fr_c(f, c->ref)->no);
                for (int x = 0; x < f->r.n_filters; x++) /* it narrows nothing */
                    if (fr_same(f->r.filters[x].ref, flag)) {
                        memmove(&f->r.filters[x], &f->r.filters[x + 1],
                                sizeof(f->r.filters[0]) * (size_t)(f->r.n_filters - x - 1));
                        f->r.n_filters--;
                        break;
                    }
            }
        }
    }
    if (flag.table < 0 || f->n_measures > 0)
        return false;
    f->r.n_select = 0;
    f->anchor = flag.table;
    if (!fr_place_buckets(f))
        return false;
    fr_show_groups(f);
    fr_show(f, fr_item(flag, FUNC_AVG));
    if (!fr_join(f) || !fr_finish(f))
        return false;
    const struct nl_column *c = fr_c(f, flag);
    const char *name = rate_name(f, c, turned);
    fr_drop_shown(f->plan, (size_t)f->r.n_group, name);
    const char *x = nl_expr_of(f->s, &f->r, flag, false, f->a);
    const char *yes = c->type == TYPE_TEXT ?
                          arena_printf(f->a, "%s = '%s'", x, turned ? c->no : c->yes) :
                      c->type == TYPE_BOOL ?
                          arena_printf(f->a, "%s = %s", x, turned ? "false" : "true") :
                          arena_printf(f->a, "%s = %d", x, turned ? 0 : 1);
    fr_select_expr(f->plan,
                   arena_printf(f->a, "100.0 * count(case when %s then 1 end) / count(%s)", yes, x),
                   name);
    if (f->super) {
        json_object_set_new(f->plan, "limit", json_integer(f->super_n > 0 ? f->super_n : 1));
        fr_order_by(f->plan, name, f->super > 0);
    }
    f->reading = arena_printf(f->a, "percentage of rows for which `%s` is %s", c->name,
                              turned ? "no" : "yes");
    return true;
}

bool fr_is_share(struct frame *f)
{
    return f->said[FM_SHARE] && !f->super && !fr_uses_change(f) && !f->said[FM_RATIO];
}

static bool condition(struct frame *f, const struct nl_filter *x, struct buf *b)
{
    return nl_append_condition(f->s, &f->r, x, b, f->a);
}

/* The verb of "what share of the workshops are online"; -1: none. */
static int verb_of_share(const struct frame *f)
{
    int from = -1;
    for (int i = 0; i < f->m.n && from < 0; i++)
        if (fr_is(&f->m.m[i], FM_SHARE))
            from = f->m.m[i].end;
    for (int i = from; i >= 0 && i < f->q->n; i++)
        if (i > from && ONE_OF(fr_word(f, i), "is", "are", "was", "were", "has", "have", "had",
                               "got", "did", "do", "does", "gets", "get"))
            return i;
    return -1;
}

/*
 * What a share is of: what stands before the verb, if more stands behind it ("of the workshops are
 * online"), and what is said twice ("closed within a day, share of all closed").
 */
static bool is_base(const struct frame *f, const struct nl_filter *x, int verb)
{
    int n = 0, before = 0, behind = 0;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        bool mine = (m->kind == KIND_VALUE || m->kind == KIND_COLUMN) && m->used &&
                    fr_same(m->ref, x->ref) &&
                    (m->kind == KIND_COLUMN || x->n_texts == 0 || str_eq(m->text, x->text[0]));
        n += mine && m->kind == KIND_VALUE && x->n_texts == 1;
        before += mine && m->start < verb;
        behind += mine && m->start > verb;
    }
    return n > 1 || (verb >= 0 && before > 0 && behind == 0);
}

bool fr_apply_share(struct frame *f)
{
    struct nl_item what = fr_main_item(f);
    USE_MARKS(f, FM_SHARE, FM_COUNT, FM_DIST, FM_AGG);
    fr_find_anchor(f);
    if (f->n_measures > 1 || f->anchor < 0 || f->r.n_select > 0 || what.func == FUNC_COUNT_DISTINCT)
        return false;
    if (what.ref.table >= 0)
        what.func = FUNC_SUM;
    if (!fr_place_buckets(f))
        return false;
    int counted = 0;
    for (int i = 0; i < f->r.n_filters; i++)
        counted += f->r.filters[i].having < 0 && !f->r.filters[i].negated;
    if (f->r.n_group > 0 && counted == 0) {
        fr_show_groups(f);
        fr_show(f, what);
        if (!fr_join(f) || !fr_finish(f))
            return false;
        fr_select_expr(f->plan, arena_printf(f->a, "share(%s)", fr_aggregate_of(f, &what)),
                       "percentage");
        f->reading = arena_printf(f->a, "share of %s by %s", fr_say(f, &what),
                                  fr_say(f, &f->r.group[0]));
        return true;
    }
    /* the filters that stand behind the verb are what is counted: here all that are no times */
    if (f->r.n_filters == 0)
        return false;
    struct nl_filter kept[NL_MAX_FILTERS];
    int n = f->r.n_filters;
    memcpy(kept, f->r.filters, sizeof(kept));
    fr_show_groups(f);
    fr_show(f, what);
    if (!fr_join(f))
        return false;
    auto_buf struct buf b = BUF_INIT(EXPR_MAX_BYTES);
    int verb = verb_of_share(f), bases = 0;
    for (int i = 0; i < n; i++)
        bases += is_base(f, &kept[i], verb);
    f->r.n_filters = 0;
    for (int i = 0; i < n; i++) {
        if (bases < n && is_base(f, &kept[i], verb)) {
            f->r.filters[f->r.n_filters++] = kept[i];
            continue;
        }
        if (kept[i].having >= 0 ||
            (b.len > 0 && buf_append_str(&b, kept[i].is_or ? " or " : " and ", NULL) < 0) ||
            !condition(f, &kept[i], &b))
            return false;
    }
    fr_place_times(f);
    if (!fr_finish(f))
        return false;
    fr_drop_shown(f->plan, (size_t)f->r.n_group, "percentage");
    const char *part = fr_aggregate_if(f, &what, buf_cstr(&b));
    fr_select_expr(f->plan, arena_printf(f->a, "100.0 * %s / %s", part, fr_aggregate_of(f, &what)),
                   "percentage");
    f->reading = arena_printf(f->a, "percentage of %s for which %s",
                              what.ref.table < 0 ? "rows" : fr_c(f, what.ref)->name, buf_cstr(&b));
    return true;
}
