/* Filters that compare: "more than 5", "between 10 and 20", "after 1990", "at least 3 orders". */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

/* Compares a date column with the days [from, to]; no matter whether it has a time of day. */
void nl_date_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, const char *from,
                    const char *to, int mention)
{
    char next[11];
    if (!nl_add_days(to, 1, next))
        return;
    const char *low = arena_strdup(p->arena, from), *high = arena_strdup(p->arena, next);
    if (!low || !high)
        return;
    if (op == FILTER_GT || op == FILTER_GE || op == FILTER_EQ) {
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_GE, mention);
        nl_add_text(f, op == FILTER_GT ? high : low);
    }
    if (op == FILTER_LT || op == FILTER_LE || op == FILTER_EQ) {
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_LT, mention);
        nl_add_text(f, op == FILTER_LT ? low : high);
    }
}

void nl_number_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, double n,
                      int mention)
{
    const struct nl_column *c = nl_col(p->s, ref);
    if (nl_is_date(c)) {
        char from[11], to[11];
        if (n < 1000 || n > 2200) {
            p->f[FEATURE_TYPE_CLASH] += 1;
            return;
        }
        snprintf(from, sizeof(from), "%04d-01-01", (int)n);
        snprintf(to, sizeof(to), "%04d-12-31", (int)n);
        nl_date_filter(p, ref, op, from, to, mention);
        return;
    }
    struct nl_filter *f = nl_add_filter(p, ref, op, mention);
    if (!f)
        return;
    if (c && !c->is_numeric && c->type != TYPE_BOOL)
        nl_add_text(f, arena_printf(p->arena, "%.15g", n));
    else
        f->number[f->n_numbers++] = n;
    if (c && !c->is_numeric && op != FILTER_EQ)
        p->f[FEATURE_TYPE_CLASH] += 1;
}

bool nl_comparable(const struct nl_parse *p, const struct nl_mention *m)
{
    const struct nl_column *c = m && m->kind == KIND_COLUMN ? nl_col(p->s, m->ref) : NULL;
    return c && (c->is_numeric || nl_is_date(c));
}

/* How many rows there are of each group is compared. */
static void compare_count(struct nl_parse *p, int at, enum plan_filter_op op,
                          struct nl_mention *number)
{
    struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, op, at);
    if (f) {
        f->having = FUNC_COUNT;
        f->number[f->n_numbers++] = number->number;
    }
    nl_at(p, at)->used = number->used = true;
}

/* "once", "twice", "3 times" */
static bool says_times(const struct nl_parse *p, const struct nl_mention *num, int past)
{
    const char *word = p->q->t[num->start].text;
    return str_eq(word, "once") || str_eq(word, "twice") ||
           (past < p->q->n && str_eq(p->q->t[past].text, "times"));
}

/* The column that a comparison at mention `at` with its number at `number` is about. */
static void compare(struct nl_parse *p, int at, int number, enum plan_filter_op op)
{
    struct nl_mention *cmp = nl_at(p, at), *num = nl_at(p, number),
                      *before = nl_at(p, MIN_OF(at, number) - 1),
                      *after = nl_at(p, MAX_OF(at, number) + 1);
    struct nl_ref ref = { -1, -1 }, main;
    bool reversed = false;
    bool is_date = num->kind == KIND_DATE;
    int agg = -1;

    if (nl_is_mark(before, MARK_NOT)) {
        static const enum plan_filter_op opposite[] = {
            [FILTER_EQ] = FILTER_NE, [FILTER_NE] = FILTER_EQ, [FILTER_LT] = FILTER_GE,
            [FILTER_LE] = FILTER_GT, [FILTER_GT] = FILTER_LE, [FILTER_GE] = FILTER_LT
        };
        op = opposite[op];
        before->used = true;
        before = nl_at(p, MIN_OF(at, number) - 2);
    }
    /* "over 20 years old", "under 40 years of age"; "more than 3 times" */
    int past = MAX_OF(cmp, num)->end;
    bool years_old = past + 1 < p->q->n && str_eq(p->q->t[past].stem, "year") &&
                     (str_eq(p->q->t[past + 1].text, "old") ||
                      str_eq(p->q->t[past + 1].text, "of"));
    if (years_old && nl_hint_column(p, "ag", &ref, &reversed)) {
        cmp->used = num->used = true;
        for (int k = MAX_OF(at, number) + 1; k < p->mentions.n && nl_at(p, k)->start <= past + 1;
             k++)
            nl_at(p, k)->used = true;
        nl_number_filter(p, ref, op, num->number, at);
        return;
    }
    if (says_times(p, num, past)) {
        compare_count(p, at, op, num);
        return;
    }
    bool adjacent_before = nl_comparable(p, before) && nl_gap(p, before, MIN_OF(cmp, num)) == 0;
    int after_distance = after ? after->start - MAX_OF(cmp, num)->end : 99;
    bool adjacent_after = nl_comparable(p, after) && after_distance <= 1 &&
                          !p->q->t[after->start - 1].comma_after;
    const char *hint = cmp->hint && cmp->hint[0] == '<' ? cmp->hint + 1 : cmp->hint;
    bool hinted = hint && *hint;
    struct nl_mention *two = nl_at(p, MIN_OF(at, number) - 2);
    const struct nl_column *said = before && before->kind == KIND_COLUMN ?
                                       nl_col(p->s, before->ref) :
                                       NULL;
    bool things = after && (after->kind == KIND_TABLE || after->kind == KIND_COLUMN) &&
                  after_distance == 0 && !is_date && !hinted;
    /* "department ids for which more than 10 employees"; "categories with two or more books" */
    if ((things && after->kind == KIND_TABLE && said && (said->is_id || !said->is_numeric)) ||
        (said && !said->is_numeric && !nl_is_date(said) && !is_date && op != FILTER_EQ &&
         op != FILTER_NE && num->number <= 1000 && !nl_is_mark(two, MARK_COUNT) &&
         !(adjacent_after && things))) {
        compare_count(p, at, op, num);
        if (things && after->kind == KIND_TABLE)
            after->used = true;
        p->f[FEATURE_HAVING_COUNT] += 1;
        return;
    }

    if (adjacent_after &&
        !(adjacent_before && (before->end == MIN_OF(cmp, num)->start || after_distance > 0)) &&
        !is_date) {
        ref = after->ref;
        after->used = true;
    } else if (adjacent_before && !(hinted && !is_date && !nl_is_date(nl_col(p->s, before->ref)) &&
                                    nl_col(p->s, before->ref)->is_id)) {
        ref = before->ref;
        before->used = true;
        if (two && two->kind == KIND_MARK && two->mark == MARK_AGG) {
            agg = two->arg;
            two->used = true;
        }
    } else if (hinted && nl_hint_column(p, hint, &ref, &reversed)) {
        p->f[FEATURE_HINT] += 1;
    } else if (is_date || (num->number >= 1800 && num->number <= 2100 && hinted)) {
        if (!nl_date_column(p, &ref) && !nl_year_column(p, &ref))
            return;
        p->f[FEATURE_GUESSED_COLUMN] += 1;
    } else if (before && before->kind == KIND_COLUMN && nl_gap(p, before, MIN_OF(cmp, num)) == 0 &&
               !(after && after_distance == 0)) {
        if (two && nl_is_mark(two, MARK_COUNT)) { /* "whose number of items is more than 3" */
            two->used = before->used = true;
            compare_count(p, at, op, num);
            return;
        }
        ref = before->ref;
        before->used = true;
    } else if (after && (after->kind == KIND_TABLE || after->kind == KIND_COLUMN) &&
               after_distance <= 2) {
        compare_count(p, at, op, num);
        after->used = true;
        p->f[FEATURE_HAVING_COUNT] += 1;
        return;
    } else if (before && (before->kind == KIND_TABLE || nl_is_mark(before, MARK_COUNT)) &&
               (nl_is_mark(before, MARK_COUNT) || nl_is_mark(two, MARK_COUNT)) &&
               !(num->number > 20 && before->kind == KIND_TABLE &&
                 nl_main_measure(p->s, p->r->scope.tables[0], &main))) {
        compare_count(p, at, op, num);
        before->used = true;
        if (nl_is_mark(two, MARK_COUNT))
            two->used = true;
        return;
    } else if (nl_is_mark(before, MARK_OR) && p->r->n_filters > 0 &&
               p->r->filters[p->r->n_filters - 1].n_numbers == 1 &&
               p->r->filters[p->r->n_filters - 1].having < 0 && !is_date) {
        ref = p->r->filters[p->r->n_filters - 1].ref; /* "lower than 600 or higher than 900" */
    } else {
        /* Any number that was spoken of and has no other part to play. */
        for (int k = at - 1; k >= 0 && ref.table < 0; k--) {
            struct nl_mention *m = nl_at(p, k);
            if (nl_comparable(p, m) && !m->used) {
                ref = m->ref;
                m->used = k > 0 && at - k <= 2;
            }
        }
        p->f[FEATURE_GUESSED_COLUMN] += 1;
        if (ref.table < 0 && num->number > 20)
            (void)nl_main_measure(p->s, p->r->scope.tables[0], &ref); /* "orders over 500" */
        if (ref.column < 0)
            ref = (struct nl_ref){ -1, -1 };
        if (ref.table < 0 && num->number > 5 && num->number <= 120)
            nl_hint_column(p, "ag", &ref, &reversed);
        if (ref.table < 0) {
            if (num->number <= 20 && num->number == floor(num->number))
                compare_count(p, at, op, num);
            return;
        }
    }
    cmp->used = num->used = true;
    if (agg >= 0) {
        struct nl_filter *f = nl_add_filter(p, ref, op, at);
        if (f) {
            f->having = agg;
            f->number[f->n_numbers++] = num->number;
        }
        return;
    }
    if (is_date && !nl_is_date(nl_col(p->s, ref))) {
        if (nl_is_year(nl_col(p->s, ref)))
            nl_number_filter(p, ref, op, strtod(num->from, NULL), at);
        else
            p->f[FEATURE_TYPE_CLASH] += 1;
        return;
    }
    if (is_date)
        nl_date_filter(p, ref, op, num->from, num->to, at);
    else
        nl_number_filter(p, ref, op, num->number, at);
}

/* "at least one order": there is a row, or it would not be counted. */
static bool says_nothing(const struct nl_parse *p, const struct nl_filter *f)
{
    (void)p;
    return f->having == FUNC_COUNT && f->ref.table < 0 && f->n_numbers == 1 &&
           ((f->op == FILTER_GE && f->number[0] <= 1) || (f->op == FILTER_GT && f->number[0] <= 0));
}

/* "above 50 or below 46", "after 1961 or before 1959": the same column, from the other end. */
static bool or_other_end(struct nl_parse *p, int i)
{
    struct nl_mention *m = nl_at(p, i), *n = nl_at(p, i + 1);
    const struct nl_filter *last = p->r->n_filters > 0 ? &p->r->filters[p->r->n_filters - 1] : NULL;
    if (!n || n->kind != KIND_NUMBER || n->used || n->start != m->end || !last ||
        last->ref.table < 0 || last->inner || last->than || !str_eq(p->q->t[m->start].text, "or"))
        return false;
    int having = last->having;
    enum plan_filter_op op = m->arg == FILTER_GE ? FILTER_GT : FILTER_LT;
    nl_number_filter(p, last->ref, op, n->number, i);
    p->r->filters[p->r->n_filters - 1].is_or = true;
    p->r->filters[p->r->n_filters - 1].having = having;
    m->used = n->used = true;
    return true;
}

void nl_read_comparisons(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!nl_is_mark(m, MARK_CMP) || m->used)
            continue;
        bool postfix = m->hint && m->hint[0] == '<';
        if (postfix && or_other_end(p, i))
            continue;
        int j = postfix ? i - 1 : i + 1;
        struct nl_mention *n = nl_at(p, j);
        /* "5 years or more": one mention may stand between. */
        if (postfix && n && n->kind != KIND_NUMBER)
            n = nl_at(p, --j);
        struct nl_mention *between = n;
        if (!postfix && nl_comparable(p, n) && nl_at(p, i + 2) &&
            nl_at(p, i + 2)->kind == KIND_NUMBER && nl_at(p, i + 2)->start - n->end <= 1) {
            between->used = m->used = nl_at(p, i + 2)->used =
                true; /* "above age 46", "after the year 1989" */
            nl_number_filter(p, between->ref, (enum plan_filter_op)m->arg, nl_at(p, i + 2)->number,
                             i);
            continue;
        }
        if (!n || n->used || (n->kind != KIND_NUMBER && n->kind != KIND_DATE))
            continue;
        if (abs(postfix ? m->start - n->end : n->start - m->end) > 3)
            continue;
        compare(p, i, j, (enum plan_filter_op)m->arg);
        if (p->r->n_filters > 0 && says_nothing(p, &p->r->filters[p->r->n_filters - 1])) {
            p->r->n_filters--;
            p->f[FEATURE_AT_LEAST_ONE] += 1;
        }
    }
}

void nl_read_ranges(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *low = nl_at(p, i + 1), *high = nl_at(p, i + 2);
        if (!nl_is_mark(m, MARK_BETWEEN) || !low || !high)
            continue;
        int last = i + 2;
        if (nl_is_mark(high, MARK_AND))
            high = nl_at(p, last = i + 3);
        if (!high || low->kind != high->kind ||
            (low->kind != KIND_NUMBER && low->kind != KIND_DATE))
            continue;
        struct nl_mention *before = nl_at(p, i - 1), *after = nl_at(p, last + 1);
        struct nl_ref ref = { -1, -1 };
        if (nl_comparable(p, before) && nl_gap(p, before, m) <= 1) {
            ref = before->ref;
            before->used = true;
        } else if (nl_comparable(p, after) && after->start - high->end <= 1) {
            ref = after->ref;
            after->used = true;
        } else if (low->kind == KIND_DATE || (low->number > 1000 && low->number < 2200)) {
            if (!nl_date_column(p, &ref) && !nl_year_column(p, &ref))
                continue;
        } else {
            for (int k = 0; k < p->mentions.n && ref.table < 0; k++)
                if (nl_comparable(p, nl_at(p, k)) && !nl_at(p, k)->used)
                    ref = nl_at(p, k)->ref;
            if (ref.table < 0)
                continue;
            p->f[FEATURE_GUESSED_COLUMN] += 1;
        }
        m->used = low->used = high->used = true;
        if (nl_is_mark(nl_at(p, i + 2), MARK_AND))
            nl_at(p, i + 2)->used = true;
        if (low->kind == KIND_DATE) {
            nl_date_filter(p, ref, FILTER_GE, low->from, low->to, i);
            nl_date_filter(p, ref, FILTER_LE, high->from, high->to, i);
        } else if (nl_is_date(nl_col(p->s, ref))) {
            nl_number_filter(p, ref, FILTER_GE, low->number, i);
            nl_number_filter(p, ref, FILTER_LE, high->number, i);
        } else {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
            if (f) {
                f->number[f->n_numbers++] = MIN_OF(low->number, high->number);
                f->number[f->n_numbers++] = MAX_OF(low->number, high->number);
            }
        }
    }
}

/* The number that a comparison at mention i with all rows is about, and the mention that has it. */
static bool compared(struct nl_parse *p, int i, struct nl_ref *ret)
{
    struct nl_mention *cmp = nl_at(p, i), *of = nl_at(p, i + 1), *after = nl_at(p, i + 2),
                      *before = nl_at(p, i - 1);
    bool reversed = false;
    bool has_after = nl_comparable(p, after) && nl_gap(p, of, after) == 0 &&
                     after->start - of->end <= 2;
    bool has_before = nl_comparable(p, before) && nl_gap(p, before, cmp) == 0 &&
                      cmp->start - before->end <= 3;
    if (has_before && (!has_after || before->ref.column == after->ref.column))
        before->used = true;
    if (has_after)
        after->used = true;
    if (has_after || has_before) {
        *ret = has_after ? after->ref : before->ref;
        return nl_col(p->s, *ret)->is_numeric;
    }
    return cmp->hint && cmp->hint[0] != '<' && nl_hint_column(p, cmp->hint, ret, &reversed) &&
           nl_col(p->s, *ret)->is_numeric;
}

/* The value of the column in the row that another value names, as a filter compares with it. */
static const struct nl_reading *value_of_row(const struct nl_parse *p, struct nl_ref measure,
                                             const struct nl_mention *row)
{
    struct nl_reading *in = arena_alloc(p->arena, sizeof(*in));
    if (!in)
        return NULL;
    *in = (struct nl_reading){ .scope = p->r->scope, .n_select = 1, .n_filters = 1 };
    in->select[0] = (struct nl_item){ .ref = measure, .func = FUNC_MAX, .bucket = -1 };
    in->filters[0] = (struct nl_filter){ .ref = row->ref, .op = FILTER_EQ, .having = -1 };
    nl_add_text(&in->filters[0], row->text);
    return in;
}

/*
 * "more medals than Brazil", "the same year as Fenton": mention i compares with the row of a value
 * that a word such as than or as is before.
 */
static bool than_row(struct nl_parse *p, int i, enum plan_filter_op op, const char *before)
{
    struct nl_mention *m = nl_at(p, i);
    bool reversed = false;
    for (int k = i + 1; k < p->mentions.n && k <= i + 4; k++) {
        struct nl_mention *row = nl_at(p, k), *column = NULL;
        int at = row->start - 1;
        while (at > m->start && p->q->t[at].is_stop && !str_eq(p->q->t[at].text, before))
            at--;
        if (row->kind != KIND_VALUE || row->used || row->is_part ||
            !str_eq(p->q->t[at].text, before))
            continue;
        struct nl_ref ref = { -1, -1 };
        for (int c = i + 1; c < k; c++)
            if (nl_at(p, c)->kind == KIND_COLUMN && !nl_at(p, c)->used)
                column = nl_at(p, c);
        if (!column && nl_comparable(p, nl_at(p, i - 1)) && nl_gap(p, nl_at(p, i - 1), m) == 0)
            column = nl_at(p, i - 1);
        if (column)
            ref = column->ref;
        else if (!m->hint || !nl_hint_column(p, m->hint, &ref, &reversed))
            return false;
        if ((op != FILTER_EQ && !nl_comparable(p, column) && column) ||
            (ref.table == row->ref.table && ref.column == row->ref.column))
            return false;
        const struct nl_reading *in = value_of_row(p, ref, row);
        struct nl_filter *f = in ? nl_add_filter(p, ref, op, i) : NULL;
        if (!f)
            return false;
        f->than = FUNC_MAX + 1;
        f->inner = in;
        if (op == FILTER_EQ) { /* the others */
            struct nl_filter *other = nl_add_filter(p, row->ref, FILTER_EQ, k);
            nl_add_text(other, row->text);
            if (other)
                other->negated = true;
        }
        m->used = row->used = true;
        if (column)
            column->used = true;
        for (int c = i + 1; c < k; c++)
            if (nl_at(p, c)->kind == KIND_MARK)
                nl_at(p, c)->used = true;
        p->f[FEATURE_THAN_ROW] += 1;
        return true;
    }
    return false;
}

void nl_read_than(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (nl_is_mark(m, MARK_CMP) && !m->used && m->arg >= FILTER_LT && m->arg <= FILTER_GE)
            than_row(p, i, (enum plan_filter_op)m->arg, "than");
        else if (nl_is_mark(m, MARK_MORE) && !m->used)
            than_row(p, i, m->arg > 0 ? FILTER_GT : FILTER_LT, "than");
        else if (nl_is_mark(m, MARK_SAME) && !m->used)
            than_row(p, i, FILTER_EQ, "as");
    }
    for (int i = 0; i + 1 < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *of = nl_at(p, i + 1);
        struct nl_ref ref;
        if (!nl_is_mark(m, MARK_CMP) || m->used || m->arg < FILTER_LT || m->arg > FILTER_GE ||
            of->start - m->end > 2 || nl_gap(p, m, of) > 0)
            continue;
        int func = nl_is_mark(of, MARK_AGG) && of->arg != FUNC_SUM ? of->arg :
                   nl_is_mark(of, MARK_SUPER) ? (of->arg > 0 ? FUNC_MAX : FUNC_MIN) :
                                                -1;
        if (func < 0 || !compared(p, i, &ref))
            continue;
        struct nl_filter *f = nl_add_filter(p, ref, (enum plan_filter_op)m->arg, i);
        if (!f)
            return;
        f->than = func + 1;
        m->used = of->used = true;
        p->f[FEATURE_THAN] += 1;
    }
}
