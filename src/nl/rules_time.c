/* Periods compared, changes from one to the next, running totals. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nl/rules.h"

#define SOME_ROWS 10

/* ---- periods and things compared ---- */

static int ranges_of(struct frame *f, char from[2][11], char to[2][11], struct nl_ref *ret)
{
    int n = 0;
    int at[2] = { 0, 0 };
    for (int k = 0; k < f->n_times; k++)
        if (f->times[k].used && f->times[k].op == -1 && f->times[k].upto < 0 &&
            f->times[k].kind != TIME_WEEKDAY && f->times[k].kind != TIME_HOUR) {
            if (n < 2)
                at[n] = k;
            n++;
        }
    if (n != 2)
        return n;
    struct nl_ref ref = f->times[at[0]].ref.table >= 0 ? f->times[at[0]].ref : f->times[at[1]].ref;
    if (ref.table < 0 && !fr_date_column(f, f->anchor, &ref))
        return 0;
    *ret = ref;
    for (int k = 0; k < 2; k++) {
        struct fr_time t = f->times[at[k]];
        t.ref = ref;
        if (t.open_end) { /* the one before the other */
            char day[11];
            if (k == 0 || !nl_add_days(from[0], -1, day))
                return 0;
            int y = 0, m = 0;
            sscanf(day, "%4d-%2d", &y, &m);
            int len = t.b == BUCKET_YEAR ? 12 : t.b == BUCKET_QUARTER ? 3 : 1;
            char first[11];
            snprintf(first, sizeof(first), "%.8s01", day);
            memcpy(to[k], day, 11);
            if (!nl_add_months(first, 1 - len, from[k]))
                return 0;
            continue;
        }
        /* "january vs march 2024": a year that is said once is said for both */
        const struct fr_time *o = &f->times[at[!k]];
        if (t.kind == TIME_MONTH && t.b == 6 && o->kind == TIME_PART &&
            o->day_to - o->day_from > 10) {
            bool second = t.a > 1; /* the other half of the month */
            t = *o;
            t.day_from = second ? 16 : 1;
            t.day_to = second ? 31 : 15;
            t.ref = ref;
        }
        if (t.kind == TIME_MONTH && o->kind == TIME_DAYS && k == 0) {
            int y = (int)strtol(o->from, NULL, 10);
            int last = t.a + t.b - 1;
            if (last <= 12) {
                snprintf(from[k], 11, "%04u-%02u-01", (unsigned)y % 10000u, (unsigned)t.a % 100u);
                char after[11];
                if (!nl_add_months(from[k], t.b, after) || !nl_add_days(after, -1, to[k]))
                    return 0;
                continue;
            }
        }
        if (!fr_days(f, &t, from[k], to[k]))
            return 0;
    }
    return 2;
}

static void drop_times(struct frame *f)
{
    for (int k = 0; k < f->n_times; k++)
        f->times[k].op = f->times[k].op == -1 ? -2 : f->times[k].op;
}

static const char *within(struct frame *f, struct nl_ref ref, const char *from, const char *to)
{
    char next[11];
    (void)nl_add_days(to, 1, next);
    const char *x = nl_expr_of(f->s, &f->r, ref, false, f->a);
    return arena_printf(f->a, "%s >= '%s' and %s < '%s'", x, from, x, next);
}

static const char *period_name(struct frame *f, const char *from, const char *to)
{
    int y, m, d, y2, m2, d2;
    if (sscanf(from, "%d-%d-%d", &y, &m, &d) != 3 || sscanf(to, "%d-%d-%d", &y2, &m2, &d2) != 3)
        return from;
    if (y == y2 && m == 1 && m2 == 12 && d == 1 && d2 == 31)
        return arena_printf(f->a, "%04d", y);
    if (y == y2 && m == m2 && d == 1 && d2 >= 28)
        return arena_printf(f->a, "%04d-%02d", y, m);
    if (y == y2 && m2 == m + 2 && d == 1 && m % 3 == 1)
        return arena_printf(f->a, "%04d-Q%d", y, m / 3 + 1);
    return arena_printf(f->a, "%s to %s", from, to);
}

/* "weekends compared to weekdays" */
bool fr_is_weekend(struct frame *f)
{
    bool weekend = false, week = false;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = fr_at(f, i);
        const struct fr_time *t = fr_is(m, FM_TIME) ? &f->times[m->arg] : NULL;
        weekend |= t && t->kind == TIME_WEEKDAY && t->a == 7;
        week |= (t && t->kind == TIME_WEEKDAY && t->a == 8) ||
                (fr_is(m, FM_BUCKET) && m->arg == PART_WEEKDAY);
    }
    return weekend && week && f->r.n_group == 0 && !f->super &&
           (f->said[FM_VS] || f->said[FM_OR] || f->said[FM_AND] || f->said[FM_MORE]);
}

bool fr_apply_weekend(struct frame *f)
{
    struct nl_item what = fr_main_item(f);
    struct nl_ref date = fr_none;
    if (f->r.n_select == 1 && f->n_measures == 0 && fr_is_measure(fr_c(f, f->r.select[0].ref)))
        what = fr_item(f->r.select[0].ref, fr_default_func(fr_c(f, f->r.select[0].ref)));
    else if (f->r.n_select > 0 || f->n_measures > 1)
        return false;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is(fr_at(f, i), FM_AGG) && !fr_at(f, i)->used && what.ref.table >= 0)
            what.func = fr_at(f, i)->arg;
    f->r.n_select = 0;
    fr_find_anchor(f);
    if (what.ref.table >= 0)
        f->anchor = what.ref.table;
    if (f->anchor < 0 || !fr_date_column(f, f->anchor, &date))
        return false;
    for (int k = 0; k < f->n_times; k++)
        if (f->times[k].kind == TIME_WEEKDAY)
            f->times[k].op = -2;
    USE_MARKS(f, FM_VS, FM_BUCKET, FM_TIME, FM_AND, FM_OR, FM_AGG, FM_MORE, FM_ONAVG, FM_COUNT);
    fr_show(f, what);
    f->r.select[f->r.n_select++] = fr_item(date, FUNC_MIN);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "select");
    json_object_del(f->plan, "order_by");
    fr_select_expr(f->plan,
                   arena_printf(f->a,
                                "case when dayname(%s) in ('Saturday', 'Sunday') then 'weekend' "
                                "else 'weekday' end",
                                nl_expr_of(f->s, &f->r, date, false, f->a)),
                   "days");
    fr_select_expr(f->plan, fr_aggregate_of(f, &what), fr_alias(f, &what));
    json_object_set_new(f->plan, "group_by", json_pack("[s]", "days"));
    fr_order_by(f->plan, "days", false);
    f->reading = arena_printf(f->a, "%s on weekdays and at weekends", fr_say(f, &what));
    return true;
}

bool fr_is_two_periods(struct frame *f)
{
    char from[2][11], to[2][11];
    struct nl_ref ref;
    if (f->anchor < 0 && f->n_measures > 0)
        f->anchor = f->measures[0].ref.table;
    if (f->anchor < 0)
        f->anchor = fr_only_table(f);
    return (f->said[FM_VS] || fr_uses_change(f) || f->said[FM_MORE]) && f->r.n_group == 0 &&
           !f->super && ranges_of(f, from, to, &ref) == 2;
}

bool fr_apply_two_periods(struct frame *f)
{
    char from[2][11], to[2][11];
    struct nl_ref date;
    struct nl_item what = fr_main_item(f);
    if (ranges_of(f, from, to, &date) != 2)
        return false;
    USE_MARKS(f, FM_VS, FM_CHANGE, FM_MORE, FM_AND, FM_COUNT, FM_SHARE, FM_CMP, FM_BETWEEN, FM_OR);
    drop_times(f);
    f->anchor = what.ref.table >= 0 ? what.ref.table : date.table;
    fr_show(f, what);
    f->r.select[f->r.n_select++] = fr_item(date, FUNC_MIN);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    json_object_del(f->plan, "select");
    json_object_del(f->plan, "order_by");
    const char *cond[2] = { within(f, date, from[0], to[0]), within(f, date, from[1], to[1]) };
    const char *name = fr_alias(f, &what);
    if (!fr_uses_change(f) && !f->said[FM_MORE]) {
        const char *period = arena_printf(f->a, "case when %s then '%s' when %s then '%s' end",
                                          cond[0], period_name(f, from[0], to[0]), cond[1],
                                          period_name(f, from[1], to[1]));
        fr_select_expr(f->plan, period, "period");
        fr_select_expr(f->plan, fr_aggregate_of(f, &what), name);
        json_object_set_new(f->plan, "group_by", json_pack("[s]", "period"));
        json_t *filters = json_object_get(f->plan, "filters");
        if (!filters) {
            filters = json_array();
            json_object_set_new(f->plan, "filters", filters);
        }
        json_array_append_new(
            filters,
            json_pack("{s:s}", "expr", arena_printf(f->a, "(%s) or (%s)", cond[0], cond[1])));
        fr_order_by(f->plan, "period", false);
    } else {
        int first = strcmp(from[0], from[1]) <= 0 ? 0 : 1;
        fr_select_expr(f->plan, fr_aggregate_if(f, &what, cond[first]), "before");
        fr_select_expr(f->plan, fr_aggregate_if(f, &what, cond[!first]), "after");
        fr_select_expr(f->plan, "after - before", "change");
        fr_select_expr(f->plan, "100.0 * (after - before) / before", "percentage");
    }
    f->reading = arena_printf(f->a, "%s in %s and in %s", fr_say(f, &what),
                              period_name(f, from[0], to[0]), period_name(f, from[1], to[1]));
    return true;
}
/* ---- changes and running totals ---- */

static int change_bucket(const struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        if (fr_is(m, FM_CHANGE) && m->hint)
            for (int b = 0; b < _PLAN_BUCKET_MAX; b++)
                if (str_eq(plan_bucket_names[b], m->hint))
                    return b;
    }
    return -1;
}

bool fr_is_series(struct frame *f)
{
    if (!fr_uses_change(f) && !f->said[FM_RUNNING])
        return false;
    for (int i = 0; i < f->r.n_group; i++)
        if (f->r.group[i].bucket >= 0 && f->r.group[i].bucket < PART_WEEKDAY)
            return f->r.n_group == 1 && !f->super;
    return (change_bucket(f) >= 0 || f->said[FM_RUNNING]) && f->r.n_group <= 1 && !f->super;
}

bool fr_apply_series(struct frame *f)
{
    int bucket = change_bucket(f);
    fr_find_anchor(f);
    for (int i = 0; i < f->m.n && f->r.n_group == 0; i++) /* "so far after each month" */
        if (fr_is(fr_at(f, i), FM_BUCKET) && !fr_at(f, i)->used) {
            bucket = bucket < 0 ? fr_at(f, i)->arg : bucket;
            fr_at(f, i)->used = true;
        }
    if (f->r.n_group == 0 && bucket >= 0) {
        f->r.group[0] = fr_item(fr_none, -1);
        f->r.group[f->r.n_group++].bucket = bucket;
    }
    USE_MARKS(f, FM_CHANGE, FM_RUNNING, FM_COUNT, FM_SHARE, FM_AND, FM_AGG);
    if (f->r.n_group != 1 || f->n_measures > 1 || !fr_place_buckets(f) ||
        !nl_is_date(fr_c(f, f->r.group[0].ref)))
        return false;
    struct nl_item what = fr_main_item(f);
    /* the period before the first one that is asked for is needed as well */
    bool narrow = fr_uses_change(f) && f->n_times > 0;
    char from[11] = "", to[11] = "";
    for (int k = 0; k < f->n_times && narrow; k++) {
        struct fr_time *t = &f->times[k];
        if (!t->used || t->op != -1)
            continue;
        t->ref = f->r.group[0].ref;
        if (!fr_days(f, t, from, to))
            return false;
        t->op = -2;
    }
    f->r.n_select = 0;
    fr_show_groups(f);
    fr_show(f, what);
    if (!fr_join(f) || !fr_finish(f))
        return false;
    const char *name = fr_alias(f, &what), *by = fr_alias(f, &f->r.group[0]);
    if (f->said[FM_RUNNING]) {
        fr_select_expr(f->plan, arena_printf(f->a, "running(%s, %s)", name, by), "running_total");
        f->reading = arena_printf(f->a, "running total of %s by %s", fr_say(f, &what), by);
        return true;
    }
    fr_select_expr(f->plan, arena_printf(f->a, "%s - previous(%s, %s)", name, name, by), "change");
    fr_select_expr(f->plan,
                   arena_printf(f->a, "100.0 * (%s - previous(%s, %s)) / previous(%s, %s)", name,
                                name, by, name, by),
                   "percentage");
    f->reading = arena_printf(f->a, "%s by %s and its change", fr_say(f, &what), by);
    if (*from) {
        json_t *outer = json_pack("{s:s, s:o, s:[{s:s}, {s:s}, {s:s}, {s:s}], "
                                  "s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}], s:[{s:s}], s:i}",
                                  "dataset_id", f->s->dataset_id, "source", f->plan, "select",
                                  "column", by, "column", name, "column", "change", "column",
                                  "percentage", "filters", "column", by, "op", ">=", "value", from,
                                  "column", by, "op", "<=", "value", to, "order_by", "expr", by,
                                  "limit", PLAN_LIMIT_MAX);
        if (!outer)
            return false;
        json_object_del(f->plan, "order_by");
        json_object_del(f->plan, "limit");
        json_object_del(f->plan, "dataset_id");
        f->plan = outer;
    }
    return true;
}
