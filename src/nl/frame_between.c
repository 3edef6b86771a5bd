/*
 * What lies between two columns of a row: days from one date to another ("how long until it was
 * closed"), and rows where one is past the other ("paid after the due date", "stock below the
 * reorder level"). Each becomes a column of this question's own copy of the schema, which the rules
 * sum up, compare and group as any other.
 */

#include <string.h>

#include "nl/frame.h"

#define DATES_MAX 8
#define STEM_LETTERS 4

/* ---- the column that is computed ---- */

static bool add_column(struct frame *f, const char *name, const char *unit,
                       const struct nl_formula *how, int table, struct nl_ref *ret)
{
    struct nl_schema *own = arena_alloc(f->a, sizeof(*own));
    const struct nl_table *t = &f->s->tables[table];
    struct nl_column *columns = arena_alloc(f->a, sizeof(*columns) * (size_t)(t->n_columns + 1));
    struct nl_formula *formula = arena_alloc(f->a, sizeof(*formula));
    struct nl_name words = { .n = 0 };
    if (!own || !columns || !formula || !name || nl_split_name(f->a, unit, &words) < 0)
        return false;
    *own = *f->s;
    memcpy(columns, t->columns, sizeof(*columns) * (size_t)t->n_columns);
    *formula = *how;
    columns[t->n_columns] = (struct nl_column){ .name = nl_name_of(name, f->a),
                                                .sql_type = "DOUBLE",
                                                .type = TYPE_NUMBER,
                                                .words = words,
                                                .is_numeric = true,
                                                .is_rate = true,
                                                .has_nulls = true,
                                                .many_values = true,
                                                .formula = formula };
    *ret = (struct nl_ref){ table, t->n_columns };
    own->tables[table].columns = columns;
    own->tables[table].n_columns = own->tables[table].cap_columns = t->n_columns + 1;
    f->s = own;
    return true;
}

/* ---- the columns that are meant ---- */

static bool is_said_with(const struct frame *f, int i, const struct nl_column *c)
{
    const struct nl_lex *lex = nl_lex_of(f->a, fr_word(f, i));
    const char *stem = f->q->t[i].stem;
    for (int w = 0; w < c->words.n; w++) {
        const char *own = c->words.stems[w];
        size_t n = strlen(own);
        if (ONE_OF(own, "dat", "date", "time", "tim", "on", "at", "day", "ts", "dt", "of", "by"))
            continue;
        if (str_eq(own, stem) ||
            (n >= STEM_LETTERS && strncmp(own, stem, n) == 0 && lex && lex->is_known))
            return true;
        if (c->words.lex[w] && lex && lex->is_verb && nl_lex_match(c->words.lex[w], lex) >= 0.8)
            return true;
    }
    return false;
}

/* Dates of one table that words of the question speak of, in the order of the words. */
static int said_dates(const struct frame *f, int from, int end, int *ret_table, int ret[DATES_MAX])
{
    int n = 0;
    *ret_table = -1;
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_mention *m = fr_mention_of(f, i);
        if ((i >= from && i < end) || (f->q->t[i].is_stop && !m) || (m && m->kind == KIND_TABLE))
            continue;
        for (int t = 0; t < f->s->n_tables; t++)
            for (int c = 0; c < f->s->tables[t].n_columns && n < DATES_MAX; c++) {
                const struct nl_column *x = &f->s->tables[t].columns[c];
                bool linked = fr_is_col(m) && m->ref.table == t && m->ref.column == c;
                if (!nl_is_date(x) || (*ret_table >= 0 && *ret_table != t) ||
                    !(linked || is_said_with(f, i, x)))
                    continue;
                bool have = false;
                for (int k = 0; k < n; k++)
                    have |= ret[k] == c;
                if (!have)
                    ret[n++] = c;
                *ret_table = t;
            }
    }
    return n;
}

static int dates_of(const struct nl_table *t, int ret[DATES_MAX])
{
    int n = 0;
    for (int c = 0; c < t->n_columns && n < DATES_MAX; c++) {
        bool birth = false;
        for (int w = 0; w < t->columns[c].words.n; w++)
            birth |= ONE_OF(t->columns[c].words.stems[w], "birth", "born", "dob", "birthday");
        if (nl_is_date(&t->columns[c]) && !birth)
            ret[n++] = c;
    }
    return n;
}

/* The two dates that a time lies between; said: those that the question speaks of. */
static bool find_ends(const struct frame *f, int from, int end, int *ret_table, int *ret_from,
                      int *ret_to)
{
    int said[DATES_MAX], all[DATES_MAX], n = said_dates(f, from, end, ret_table, said);
    for (int t = 0; t < f->s->n_tables && *ret_table < 0; t++)
        if (dates_of(&f->s->tables[t], all) == 2)
            *ret_table = t;
    if (*ret_table < 0)
        return false;
    const struct nl_table *t = &f->s->tables[*ret_table];
    int n_all = dates_of(t, all), own = nl_own_date(t);
    bool both = false; /* "between A and B", "from A to B" */
    for (int i = 0; i < f->q->n; i++)
        both |= str_eq(fr_word(f, i), "between") || (str_eq(fr_word(f, i), "from") && n_all > 2);
    if (n > 2 || n_all < 2 || own < 0 || (both && n < 2 && n_all > 2))
        return false;
    if (n == 2) {
        *ret_from = said[0];
        *ret_to = said[1];
    } else if (n == 1 && said[0] != own) {
        *ret_from = own;
        *ret_to = said[0];
    } else if (n_all == 2) {
        *ret_from = own;
        *ret_to = all[all[0] == own];
    } else {
        return false;
    }
    const char *a = t->columns[*ret_from].min, *b = t->columns[*ret_to].min;
    bool turned = *ret_to == own || (*ret_from != own && a && b && strcmp(a, b) > 0);
    if (turned) {
        int swap = *ret_from;
        *ret_from = *ret_to;
        *ret_to = swap;
    }
    return *ret_from != *ret_to;
}

/* ---- how long ---- */

static const struct {
    const char *word, *unit;
    int seconds;
} units[] = {
    { "minutes", "minutes", 60 }, { "hours", "hours", 3600 },    { "hour", "hours", 3600 },
    { "days", "days", 86400 },    { "day", "days", 86400 },      { "weeks", "weeks", 604800 },
    { "week", "weeks", 604800 },  { "months", "months", 2629746 }, { "years", "years", 31556952 },
};

static int unit_at(const struct frame *f, int i)
{
    for (size_t k = 0; k < ARRAY_SIZE(units); k++)
        if (str_eq(fr_word(f, i), units[k].word))
            return (int)k;
    return -1;
}

static bool has_any(const struct frame *f, int from, const char *const *words, size_t n)
{
    for (int i = from; i < f->q->n; i++)
        if (nl_is_one_of(fr_word(f, i), words, n))
            return true;
    return false;
}

/* The words that ask for a time between two dates; false: there are none. */
static bool find_words(const struct frame *f, int *ret_from, int *ret_end, int *ret_unit)
{
    static const char *const links[] = { "take",   "takes", "took", "until", "till",   "between",
                                         "before", "after", "need", "needs", "needed", "pass",
                                         "passes", "from",  "to",   "elapse" };
    static const char *const times[] = { "when", "hour", "day", "weekday" };
    *ret_unit = 3;
    for (int i = 0; i < f->q->n; i++) {
        bool how = str_eq(fr_word(f, i), "how");
        if (how && str_eq(fr_word(f, i + 1), "long")) {
            *ret_from = i;
            *ret_end = i + 2;
            return true;
        }
        int unit = unit_at(f, i);
        bool many = (str_eq(fr_word(f, i - 1), "many") && str_eq(fr_word(f, i - 2), "how")) ||
                    (str_eq(fr_word(f, i - 1), "of") && str_eq(fr_word(f, i - 2), "number"));
        if (unit >= 0 && many && has_any(f, 0, links, ARRAY_SIZE(links))) {
            *ret_from = i - 2;
            *ret_end = i + 1;
            *ret_unit = unit;
            return true;
        }
        const struct nl_mention *number = unit >= 0 && i > 0 ? fr_mention_of(f, i - 1) : NULL;
        bool spent = has_any(f, 0, links, 3) || str_eq(fr_word(f, i + 1), "after") ||
                     str_eq(fr_word(f, i + 1), "from") || str_eq(fr_word(f, i - 2), "within");
        if (unit >= 0 && ((number && number->kind == KIND_NUMBER && spent) ||
                          ONE_OF(fr_word(f, i + 1), "between", "until", "from", "to", "it"))) {
            *ret_from = i;
            *ret_end = i + 1;
            *ret_unit = unit;
            return true;
        }
        const struct nl_mention *date = i > 0 ? fr_mention_of(f, i - 1) : NULL;
        bool of_date = fr_is_col(date) && nl_is_date(fr_c(f, date->ref)) && date->ref.column !=
                       nl_own_date(&f->s->tables[date->ref.table]) && !has_any(f, 0, times, 4);
        if ((ONE_OF(fr_word(f, i), "time", "times") &&
             (of_date || ONE_OF(fr_word(f, i + 1), "between", "to", "from", "until", "it"))) ||
            ONE_OF(fr_word(f, i), "lifetime", "turnaround")) {
            *ret_from = i;
            *ret_end = i + 1;
            for (int k = i + 1; k < f->q->n; k++)
                if (unit_at(f, k) >= 0 && ONE_OF(fr_word(f, k - 1), "in", "median", "average")) {
                    *ret_unit = unit_at(f, k);
                    if (!str_eq(fr_word(f, k - 1), "in")) { /* "…, median days" */
                        *ret_from = k;
                        *ret_end = k + 1;
                    }
                }
            return true;
        }
    }
    return false;
}

/* A column that has the time already is what is meant. */
static bool is_there(const struct frame *f, int from, int end)
{
    struct nl_ref ref;
    int dir;
    for (int i = 0; i < f->m.n; i++) {
        const struct nl_mention *m = &f->m.m[i];
        if (fr_is(m, FM_ADVERB) && m->start >= from && m->start < end)
            for (int t = 0; t < f->s->n_tables; t++)
                if (fr_hint(f, t, m->hint, &ref, &dir) && fr_is_measure(fr_c(f, ref)))
                    return true;
        if (fr_is_col(m) && fr_is_measure(fr_c(f, m->ref)) && m->score >= 0.6 &&
            m->start + 1 >= from && m->start <= end)
            return true;
    }
    return false;
}

static bool asks_share(const struct frame *f)
{
    for (int i = 0; i < f->m.n; i++)
        if (fr_is(&f->m.m[i], FM_SHARE))
            return true;
    return false;
}

/* Whether the word speaks of one of the two columns and of nothing else. */
static bool speaks_of(const struct frame *f, int i, const struct nl_table *t, int a, int b,
                      bool values)
{
    const struct nl_mention *m = fr_mention_of(f, i);
    if (fr_is_col(m) && &f->s->tables[m->ref.table] == t &&
        (m->ref.column == a || m->ref.column == b))
        return true;
    bool free = !m || fr_is_col(m) || fr_is(m, FM_UNREAD) ||
                (m->kind == KIND_VALUE && m->end - m->start == 1 && values);
    return free && ((nl_is_date(&t->columns[a]) && is_said_with(f, i, &t->columns[a])) ||
                    (nl_is_date(&t->columns[b]) && is_said_with(f, i, &t->columns[b])));
}

static void take_word(struct frame *f, int i)
{
    const struct nl_mention *m = fr_mention_of(f, i);
    if (m)
        fr_make_light(&f->m.m[m - f->m.m]);
    f->q->t[i].is_stop = true;
}

/* values: those with the words of a date say the same: "sold" with `sold_on`. */
static void take_columns(struct frame *f, const struct nl_table *t, int a, int b, bool values)
{
    for (int i = 0; i < f->q->n; i++)
        if (speaks_of(f, i, t, a, b, values))
            take_word(f, i);
}

/* The words that only join the dates to the time between them. */
static void take_links(struct frame *f, int from, int end)
{
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_mention *m = fr_mention_of(f, i), *next = fr_mention_of(f, i + 1);
        bool links = ONE_OF(fr_word(f, i), "take", "takes", "took", "taken", "until", "till",
                            "between", "before", "after", "need", "needs", "needed", "pass",
                            "passes", "from", "to", "and", "is", "it", "gets", "get", "went") &&
                     !(m && m->kind == KIND_VALUE) && !(next && next->kind == KIND_VALUE) &&
                     !fr_is(next, FM_TIME);
        bool unit = unit_at(f, i) >= 0 &&
                    ONE_OF(fr_word(f, i - 1), "in", "median", "average", "mean");
        if ((i >= from && i < end) || links || unit)
            take_word(f, i);
    }
}

/* "within 24 hours": in at most that time. */
static void limit_time(struct frame *f, int unit_token)
{
    const struct nl_mention *number = fr_mention_of(f, unit_token - 1);
    if (!number || number->kind != KIND_NUMBER ||
        !ONE_OF(fr_word(f, number->start - 1), "within", "in"))
        return;
    fr_put_mention(f, number->start - 1, number->start,
                (struct nl_mention){ .kind = KIND_MARK,
                                     .mark = (enum nl_mark)FM_CMP,
                                     .arg = FILTER_LE,
                                     .ref = { -1, -1 },
                                     .other = { -1, -1 },
                                     .table = -1 });
}

void fr_name_durations(struct frame *f)
{
    int from, end, unit, table, a, b;
    struct nl_ref ref;
    if (!find_words(f, &from, &end, &unit) || is_there(f, from, end) ||
        !find_ends(f, from, end, &table, &a, &b))
        return;
    const struct nl_table *t = &f->s->tables[table];
    struct nl_formula how = { .kind = FORMULA_DURATION,
                              .from = a,
                              .to = b,
                              .seconds = units[unit].seconds };
    const char *name = arena_printf(f->a, "%s from %s to %s", units[unit].unit,
                                    t->columns[a].name, t->columns[b].name);
    take_columns(f, t, a, b, !asks_share(f));
    take_links(f, from, end);
    if (!add_column(f, name, units[unit].unit, &how, table, &ref))
        return;
    fr_put_mention(f, from, end,
                (struct nl_mention){ .kind = KIND_COLUMN, .score = 0.9, .ref = ref, .table = -1 });
    if (end - from == 1)
        limit_time(f, from);
}

/* ---- one past the other ---- */

static bool is_due(const struct nl_column *c)
{
    static const char *const due[] = { "due",    "deadlin", "expect", "promis",
                                       "schedul", "plan",    "target", "requir" };
    for (int w = 0; w < c->words.n; w++)
        if (nl_is_date(c) && nl_is_one_of(c->words.stems[w], due, ARRAY_SIZE(due)))
            return true;
    return false;
}

/* "returned late", "paid on time": the date that is said, against the one that it was due on. */
static bool find_late(struct frame *f, int *ret_table, int *ret_due, int *ret_done, int *ret_op)
{
    int at = -1, said[DATES_MAX], all[DATES_MAX];
    for (int i = 0; i < f->q->n && at < 0; i++) {
        const struct nl_mention *m = fr_mention_of(f, i);
        bool free = !m || (fr_is_col(m) && m->score < 0.7) || fr_is(m, FM_UNREAD) ||
                    fr_is(m, FM_LIGHT);
        bool late = ONE_OF(fr_word(f, i), "late", "overdue") ||
                    (str_eq(fr_word(f, i), "later") && str_eq(fr_word(f, i + 1), "than") &&
                     ONE_OF(fr_word(f, i + 2), "planned", "promised", "expected", "scheduled",
                            "due", "agreed")),
             timely = str_eq(fr_word(f, i), "time") &&
                      ONE_OF(fr_word(f, i - 1), "on", "in");
        if (free && (late || timely)) {
            at = i;
            *ret_op = late ? FILTER_GT : FILTER_LE;
        }
    }
    bool than = at >= 0 && str_eq(fr_word(f, at), "later");
    int n = at >= 0 ? said_dates(f, at, at + 1 + 2 * than, ret_table, said) : 0, done = -1,
        due = -1;
    for (int k = 0; k < f->s->n_tables && at >= 0 && *ret_table < 0; k++)
        for (int c = 0; c < f->s->tables[k].n_columns; c++)
            if (is_due(&f->s->tables[k].columns[c]))
                *ret_table = k;
    if (at < 0 || *ret_table < 0)
        return false;
    const struct nl_table *t = &f->s->tables[*ret_table];
    int n_all = dates_of(t, all);
    for (int k = 0; k < n_all; k++)
        if (is_due(&t->columns[all[k]]))
            due = due == -1 ? all[k] : -2;
    for (int k = 0; k < n; k++)
        if (said[k] != due)
            done = done == -1 ? said[k] : -2;
    for (int k = 0; k < n_all && done == -1 && n_all == 3; k++) /* it began, was due, was done */
        if (all[k] != due && all[k] != nl_own_date(t))
            done = all[k];
    if (due < 0 || done < 0 || done == nl_own_date(t))
        return false;
    for (int k = at - (*ret_op == FILTER_LE); k <= at + 2 * than; k++)
        take_word(f, k);
    *ret_due = due;
    *ret_done = done;
    return true;
}

/* "below the reorder level": what there is of the thing that has such a limit; -1: not told. */
static int beside_limit(const struct nl_table *t, int limit)
{
    bool limits = false;
    int found = -1;
    for (int w = 0; w < t->columns[limit].words.n; w++)
        limits |= ONE_OF(t->columns[limit].words.stems[w], "reord", "reorder", "minimum", "min",
                         "maximum", "max", "threshold", "limit", "target", "quota", "capac",
                         "safety", "safeti");
    for (int c = 0; c < t->n_columns && limits; c++) {
        bool stock = false;
        for (int w = 0; w < t->columns[c].words.n; w++)
            stock |= ONE_OF(t->columns[c].words.stems[w], "quantity", "quantiti", "stock", "hand",
                            "onhand", "actual", "current");
        if (stock && c != limit && fr_is_measure(&t->columns[c]))
            found = found == -1 ? c : -2;
    }
    return found;
}

/* "paid after the due date", "stock below the reorder level": two columns around a comparison. */
static bool find_pair(struct frame *f, int *ret_table, int *ret_from, int *ret_to, int *ret_op)
{
    for (int i = 1; i + 1 < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *b = m + 1;
        if (!fr_is(m, FM_CMP) || (m->arg != FILTER_GT && m->arg != FILTER_LT) || !fr_is_col(b) ||
            fr_gap(f, m, b) > 0)
            continue;
        const struct nl_column *y = fr_c(f, b->ref), *x = NULL;
        int left = -1;
        for (int c = 0; c < f->s->tables[b->ref.table].n_columns && left != -2; c++) {
            x = &f->s->tables[b->ref.table].columns[c];
            bool alike = nl_is_date(x) ? nl_is_date(y) : fr_is_measure(x) && fr_is_measure(y);
            bool said = false;
            for (int k = m->start - 1; k >= 0 && k >= m->start - 3; k--) {
                const struct nl_mention *w = fr_mention_of(f, k);
                said |= fr_is_col(w) ? fr_same(w->ref, (struct nl_ref){ b->ref.table, c }) :
                                       nl_is_date(x) && is_said_with(f, k, x);
            }
            if (alike && said && c != b->ref.column)
                left = left == -1 ? c : -2;
        }
        if (left == -1 && fr_is_measure(y))
            left = beside_limit(&f->s->tables[b->ref.table], b->ref.column);
        const struct nl_mention *then = i + 2 < f->m.n ? b + 1 : NULL;
        if (left < 0 || (then && (then->kind == KIND_NUMBER || fr_is(then, FM_TIME)) &&
                         fr_gap(f, b, then) == 0))
            continue;
        *ret_table = b->ref.table;
        *ret_from = b->ref.column;
        *ret_to = left;
        *ret_op = m->arg;
        if (ONE_OF(fr_word(f, m->start - 1), "fell", "fallen", "falls", "dropped", "went", "gone"))
            take_word(f, m->start - 1);
        fr_make_light(m);
        return true;
    }
    return false;
}

void fr_name_past(struct frame *f)
{
    int table = -1, from, to, op;
    struct nl_ref ref;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is(fr_at(f, i), FM_NOT))
            return;
    if (!find_late(f, &table, &from, &to, &op) && !find_pair(f, &table, &from, &to, &op))
        return;
    const struct nl_table *t = &f->s->tables[table];
    bool dates = nl_is_date(&t->columns[from]);
    struct nl_formula how = { .kind = dates ? FORMULA_DURATION : FORMULA_DIFFERENCE,
                              .from = from,
                              .to = to,
                              .seconds = units[3].seconds };
    const char *name = arena_printf(f->a, "%s%s %s %s", dates ? "days " : "",
                                    t->columns[to].name, dates ? "past" : "over",
                                    t->columns[from].name);
    if (!add_column(f, name, dates ? "days" : "difference", &how, table, &ref))
        return;
    take_columns(f, &f->s->tables[table], from, to, !asks_share(f));
    fr_number_filter(f, ref, (enum plan_filter_op)op, 0);
}
