/*
 * The kinds of questions, as rules that are tried in order. A rule that matches takes the whole
 * question: it makes the plan or refuses. The plainest kinds, sums and lists, are in this file.
 */

#include <string.h>

#include "nl/rules.h"

#define LIST_COLUMNS 8

/* ---- sums, means and counts ---- */

bool fr_is_summed(struct frame *f)
{
    return f->n_measures > 0 || f->counts || f->r.n_group > 0 || f->said[FM_TREND] ||
           (f->said[FM_VS] && f->r.n_filters > 0);
}

/* "do safari users bounce more often than chrome users": how often, and not how many do. */
static void compare_rates(struct frame *f)
{
    bool often = false;
    for (int i = 0; i < f->m.n; i++)
        often |= fr_is(fr_at(f, i), FM_MORE) &&
                 ONE_OF(fr_word(f, f->m.m[i].start + 1), "often", "likely", "frequently");
    for (int i = 0; i < f->r.n_filters && often && f->n_measures == 0; i++) {
        struct nl_ref ref = f->r.filters[i].ref;
        const struct nl_column *c = fr_c(f, ref);
        if (!c || !c->is_flag || f->r.filters[i].negated || f->r.n_filters < 2)
            continue;
        memmove(&f->r.filters[i], &f->r.filters[i + 1],
                sizeof(f->r.filters[0]) * (size_t)(f->r.n_filters - i - 1));
        f->r.n_filters--;
        f->measures[f->n_measures++] = fr_item(ref, FUNC_AVG);
    }
}

/* "how many seats do they have together", "how many times does one renew, on average" */
static bool counts_measure(const struct frame *f)
{
    for (int i = 0; i + 1 < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        bool times = str_eq(fr_word(f, m->end - 1), "times");
        if (fr_is(m, FM_COUNT) && f->n_measures == 1 && fr_is_col(m + 1) &&
            fr_same((m + 1)->ref, f->measures[0].ref) && (times || fr_gap(f, m, m + 1) == 0))
            return f->said[FM_ONAVG] || f->said[FM_AGG];
    }
    return false;
}

bool fr_apply_summed(struct frame *f)
{
    bool vs = f->said[FM_VS] || (f->said[FM_MORE] && f->said[FM_OR]);
    for (int i = 0; i < f->q->n; i++) /* "for members and others" */
        vs |= str_eq(f->q->t[i].text, "others") || str_eq(f->q->t[i].text, "non-members");
    fr_find_anchor(f);
    USE_MARKS(f, FM_TREND);
    if (f->said[FM_TREND] && f->r.n_group == 0) {
        f->r.group[0] = fr_item(fr_none, -1);
        f->r.group[f->r.n_group++].bucket = BUCKET_MONTH;
    }
    if (f->r.n_select > 0 || f->anchor < 0 || f->super)
        return false;
    /* "headcount by department": one of each is no answer; who has a department is counted */
    struct nl_ref label;
    if (f->n_measures == 0 && f->r.n_group == 1 && f->counted.table < 0 &&
        f->r.group[0].ref.table == f->anchor && fr_label(f->s, f->anchor, &label) &&
        fr_same(label, f->r.group[0].ref) && fr_c(f, label)->is_unique) {
        int many = -1;
        for (int i = 0; i < f->s->n_keys; i++)
            if (f->s->keys[i].to_table == f->anchor && f->s->keys[i].from_table != many)
                many = many < 0 ? f->s->keys[i].from_table : -2;
        if (many < 0)
            return false;
        f->anchor = many;
    }
    /* "web vs store revenue": both, side by side */
    /* "the average age of men and women": of each */
    bool each = false;
    for (int i = 1;
         i + 1 < f->m.n && (f->n_measures > 0 ? f->measures[0].func != FUNC_SUM : f->counts); i++)
        each |= fr_is(fr_at(f, i), FM_AND) && fr_at(f, i - 1)->kind == KIND_VALUE &&
                fr_at(f, i + 1)->kind == KIND_VALUE &&
                fr_same(fr_at(f, i - 1)->ref, fr_at(f, i + 1)->ref);
    int n_group = f->r.n_group;
    if ((vs || each) && n_group <= (each && !vs))
        for (int i = 0; i < f->r.n_filters && f->r.n_group == n_group; i++)
            if (f->r.filters[i].n_texts == 2 && f->r.filters[i].op == FILTER_EQ &&
                !f->r.filters[i].negated)
                f->r.group[f->r.n_group++] = fr_item(f->r.filters[i].ref, -1);
    bool rest = false;
    for (int i = 0; i < f->q->n; i++)
        rest |= str_eq(f->q->t[i].text, "others") || str_eq(f->q->t[i].text, "rest") ||
                str_eq(f->q->t[i].text, "other");
    for (int i = 0; i < f->r.n_filters && vs;
         i++) { /* smokers vs non-smokers, michelin places than the rest */
        struct nl_ref ref = f->r.filters[i].ref;
        bool grouped = f->r.n_group == 1 && fr_same(f->r.group[0].ref, ref);
        if (!fr_c(f, ref) || !fr_c(f, ref)->is_flag || !(grouped || (rest && f->r.n_group == 0)))
            continue;
        if (!grouped)
            f->r.group[f->r.n_group++] = fr_item(ref, -1);
        memmove(&f->r.filters[i], &f->r.filters[i + 1],
                sizeof(f->r.filters[0]) * (size_t)(f->r.n_filters - i - 1));
        f->r.n_filters--;
        (void)fr_filter(f, ref, FILTER_IS_NOT_NULL);
        break;
    }
    for (int i = 0; i < f->q->n && rest && f->r.n_group > 0; i++)
        if (str_eq(f->q->t[i].text, "others") || str_eq(f->q->t[i].text, "rest"))
            f->q->t[i].is_stop = true;
    if (vs && f->r.n_group == 0)
        return false;
    if (vs)
        compare_rates(f);
    /* "more satisfied": what the adjective speaks of */
    for (int i = 0; i < f->m.n && vs && f->n_measures == 0; i++) {
        struct nl_mention *m = fr_at(f, i);
        struct nl_ref ref;
        int dir;
        if (!fr_is(m, FM_MORE))
            continue;
        bool found = m->hint && fr_hint(f, f->anchor, m->hint, &ref, &dir);
        for (int k = 0; k < f->s->n_keys && m->hint && !found; k++)
            found = f->s->keys[k].to_table == f->anchor &&
                    fr_hint(f, f->s->keys[k].from_table, m->hint, &ref, &dir);
        if (found) {
            f->measures[f->n_measures++] = fr_item(ref, FUNC_AVG);
            f->anchor = ref.table;
        } else if (!f->counts && (m->hint || m->end - m->start == 1) && (m->hint || f->head < 0)) {
            return false;
        }
    }
    for (int i = 0; i < f->m.n && vs && f->n_measures == 1; i++)
        if (fr_is(fr_at(f, i), FM_AGG) && !fr_at(f, i)->used)
            f->measures[0].func = fr_at(f, i)->arg; /* "which costs more, A or B? average" */
        else if ((fr_is(fr_at(f, i), FM_ONAVG) && !fr_at(f, i)->used) ||
                 (fr_is(fr_at(f, i), FM_MORE) && fr_at(f, i)->hint)) /* "who is faster" */
            f->measures[0].func = FUNC_AVG;
    if (vs)
        USE_MARKS(f, FM_VS, FM_MORE, FM_OR, FM_AND, FM_ONAVG, FM_WHO, FM_COUNT, FM_AGG);
    if (f->yes_no && f->r.n_group == 0 && f->n_measures > 0)
        return false;
    if (!fr_place_buckets(f))
        return false;
    fr_show_groups(f);
    if (f->n_measures == 0)
        fr_show(f, fr_main_item(f));
    for (int i = 0; i < f->n_measures; i++)
        fr_show(f, f->measures[i]);
    if (f->counts && f->n_measures > 0 && !counts_measure(f))
        return false;
    if (f->said[FM_WHEN] && f->n_measures > 1)
        return false; /* a day, and nothing beside it */
    for (int i = 0; i < f->r.n_group && f->counted.table >= 0; i++)
        if (fr_same(f->r.group[i].ref, f->counted))
            return false; /* each has one of itself */
    if (f->said[FM_DISTINCT] && f->counts && f->counted.table < 0 && f->noun >= 0)
        return false; /* "different cars": what tells them apart is not known */
    return fr_join(f) && fr_finish(f);
}
/* ---- lists ---- */

bool fr_is_list(struct frame *f)
{
    return f->r.n_select > 0 || f->r.n_filters > 0 || f->yes_no || f->n_times > 0;
}

/* "all information about …": every column. */
static bool wants_all(const struct frame *f)
{
    static const char *const words[] = { "information", "info", "details", "everything",
                                         "records",     "rows", "data" };
    for (int i = 0; i < f->q->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(words); k++)
            if (str_eq(f->q->t[i].text, words[k]))
                return true;
    return false;
}

/*
 * "which products are out of stock": products are listed from the table that tells their stock, and
 * not from one that names each of them many times.
 */
static void list_from_owner(struct frame *f)
{
    for (int i = 0; i < f->r.n_select; i++)
        for (int k = 0; k < f->s->n_keys; k++) {
            const struct nl_link_key *key = &f->s->keys[k];
            bool same = f->r.n_filters > 0 && f->r.select[i].func < 0 &&
                        f->r.select[i].ref.table == key->from_table &&
                        f->r.select[i].ref.column == key->from_column;
            for (int j = 0; j < f->r.n_filters; j++)
                same &= f->r.filters[j].ref.table == key->to_table;
            if (same)
                f->r.select[i].ref = (struct nl_ref){ key->to_table, key->to_column };
        }
}

bool fr_apply_list(struct frame *f)
{
    list_from_owner(f);
    int t = f->head >= 0 ? f->head : f->r.n_select > 0 ? f->r.select[0].ref.table : f->s->only;
    for (int i = 0; i < f->r.n_filters && t < 0; i++)
        t = f->r.filters[i].ref.table;
    if (t < 0)
        return false;
    for (int i = 0; i < f->r.n_select; i++)
        if (f->r.select[i].ref.table != t)
            return false;
    bool times = false;
    for (int k = 0; k < f->n_times; k++)
        times |= f->times[k].used;
    f->anchor = t;
    struct nl_ref label;
    bool named = fr_label(f->s, t, &label) && fr_c(f, label)->type == TYPE_TEXT &&
                 !fr_c(f, label)->is_id;
    bool only = f->r.n_select == 0 && f->r.n_filters + times > 0;
    if (only && times && !named && !f->lists) { /* "visits in february": how many */
        fr_show(f, fr_item(fr_none, FUNC_COUNT));
        return fr_join(f) && fr_finish(f);
    }
    if (f->r.n_select == 1 && f->head < 0 && !times && fr_is_category(f, f->r.select[0].ref) &&
        !fr_c(f, f->r.select[0].ref)->is_unique)
        f->r.distinct = true; /* "which categories are there" */
    if (f->yes_no && f->said[FM_ANY] && f->r.n_select == 1 && f->r.n_filters > 0 &&
        nl_is_date(fr_c(f, f->r.select[0].ref)))
        f->r.n_select = 0; /* "is there any exchanged order": the rows, not ordered_on */
    bool columns = f->r.n_select > 0;
    bool acts = f->q->n > 2 && str_eq(f->q->t[0].text, "what") &&
                (str_eq(f->q->t[1].text, "did") || str_eq(f->q->t[1].text, "do") ||
                 str_eq(f->q->t[1].text, "does"));
    if (!columns && acts)
        return false; /* "what did we earn" asks for no rows */
    if (columns && f->q->n > 0 && str_eq(f->q->t[0].text, "how"))
        return false; /* "how is the campaign doing" is no list */
    struct nl_ref own;
    bool by_key = columns && fr_key(f->s, t, &own) && fr_same(own, f->r.select[0].ref);
    if (columns && (f->head >= 0 || by_key) &&
        f->r.n_select < NL_MAX_SELECT - 3) { /* whose they are */
        struct nl_item chosen[NL_MAX_SELECT];
        int n = f->r.n_select;
        memcpy(chosen, f->r.select, sizeof(chosen));
        f->r.n_select = 0;
        fr_show_row(f, t);
        for (int i = 0; i < n; i++)
            fr_show(f, chosen[i]);
    }
    struct nl_ref key;
    if (!columns && fr_key(f->s, t, &key) && fr_c(f, key)->n_values > 0 &&
        !fr_c(f, key)->is_unique && !fr_c(f, key)->many_values && fr_c(f, key)->type == TYPE_TEXT)
        return false; /* rows that tell the same of the same thing many times */
    if (!columns && wants_all(f))
        return fr_join(f) && f->r.scope.n == 1 && fr_finish(f);
    if (!columns)
        fr_show_row(f, t);
    for (int i = 0; i < f->r.n_filters && !columns; i++)
        if (f->r.filters[i].ref.table == t)
            fr_show(f, fr_item(f->r.filters[i].ref, -1));
    for (int c = 0; c < f->s->tables[t].n_columns && !columns && f->r.n_select < LIST_COLUMNS; c++)
        if (!f->s->tables[t].columns[c].formula)
            fr_show(f, fr_item((struct nl_ref){ t, c }, -1));
    for (int i = 0; i < f->m.n; i++) { /* sorted by name */
        struct nl_mention *m = fr_at(f, i), *c = fr_at(f, i + 1);
        if (!fr_is(m, FM_ORDER) || !fr_is_col(c))
            continue;
        f->r.order[0] = fr_item(c->ref, -1);
        f->r.order_dir[0] = m->arg > 0 ? -1 : 1;
        f->r.n_order = 1;
        m->used = c->used = true;
    }
    return fr_join(f) && fr_finish(f);
}
/* ---- the table of rules ---- */

static const struct {
    const char *name;
    bool (*matches)(struct frame *);
    bool (*apply)(struct frame *);
    bool is_plain;
    bool no_super; /* has no use for a superlative */
} rules[] = {
    { "correlation", fr_is_correlation, fr_apply_correlation, false, false },
    { "outliers", fr_is_outlier, fr_apply_outlier, false, false },
    { "columns", fr_is_columns, fr_apply_columns, false, false },
    { "description", fr_is_described, fr_apply_described, false, false },
    { "weekend", fr_is_weekend, fr_apply_weekend, false, false },
    { "two periods", fr_is_two_periods, fr_apply_two_periods, false, false },
    { "series", fr_is_series, fr_apply_series, false, false },
    { "distribution", fr_is_distribution, fr_apply_distribution, false, false },
    { "absent", fr_is_absent, fr_apply_absent, false, false },
    { "than the average", fr_is_than, fr_apply_than, false, true },
    { "difference", fr_is_difference, fr_apply_difference, true, false },
    { "rate", fr_is_rate, fr_apply_rate, true, false },
    { "share", fr_is_share, fr_apply_share, true, false },
    { "ratio", fr_is_ratio, fr_apply_ratio, false, true },
    { "mean of groups", fr_is_mean_of_groups, fr_apply_mean_of_groups, false, true },
    { "ranking", fr_is_ranked, fr_apply_ranked, true, false },
    { "groups with", fr_is_having, fr_apply_having, false, false },
    { "first rows", fr_is_rows, fr_apply_rows, true, false },
    { "sums", fr_is_summed, fr_apply_summed, true, false },
    { "list", fr_is_list, fr_apply_list, true, true },
};

bool fr_apply_rules(struct frame *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        if (rules[i].matches(f)) {
            f->rule = rules[i].name;
            f->is_plain = rules[i].is_plain;
            return !(rules[i].no_super && f->super) && rules[i].apply(f);
        }
    return false;
}
