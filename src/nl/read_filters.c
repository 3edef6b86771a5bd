/* From mentions to filters: comparisons, ranges, texts, values, dates, empty cells. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "nl/nl_impl.h"

int nl_gap(const struct nl_parse *p, const struct nl_mention *a, const struct nl_mention *b)
{
    int n = 0;
    for (int i = a->end; i < b->start; i++)
        n += p->q->t[i].is_stop ? 0 : 1;
    return n;
}

bool nl_is_date(const struct nl_column *c)
{
    return c && (c->type == TYPE_DATE || c->type == TYPE_TIMESTAMP);
}

bool nl_is_year(const struct nl_column *c)
{
    if (!c || !c->is_numeric)
        return false;
    for (int i = 0; i < c->words.n; i++)
        if (str_eq(c->words.stems[i], "year") || str_eq(c->words.words[i], "yr") || str_eq(c->words.words[i], "season") ||
            str_eq(c->words.stems[i], "found") || str_eq(c->words.stems[i], "built"))
            return true;
    return false;
}

bool nl_hint_column(const struct nl_parse *p, const char *hint, struct nl_ref *ret, bool *ret_reversed)
{
    while (hint && *hint) {
        size_t n = strcspn(hint, "|");
        bool reversed = *hint == '-';
        const char *stem = hint + reversed;
        size_t len = n - reversed;
        for (int t = 0; t < p->r->scope.n; t++) {
            const struct nl_table *table = &p->s->tables[p->r->scope.tables[t]];
            for (int c = 0; c < table->n_columns; c++) {
                const struct nl_column *col = &table->columns[c];
                if (!col->is_numeric && !nl_is_date(col))
                    continue;
                for (int w = 0; w < col->words.n; w++) {
                    const char *x = col->words.stems[w];
                    if (strncmp(x, stem, len) != 0 || strlen(x) > len + 2 || col->is_id)
                        continue;
                    *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                    *ret_reversed = reversed;
                    return true;
                }
            }
        }
        hint += n;
        hint += *hint == '|';
    }
    return false;
}

bool nl_date_column(struct nl_parse *p, struct nl_ref *ret)
{
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = &p->mentions.m[i];
        if (m->kind == KIND_COLUMN && nl_is_date(nl_col(p->s, m->ref))) {
            *ret = m->ref;
            return true;
        }
    }
    for (int t = 0; t < p->r->scope.n; t++)
        for (int c = 0; c < p->s->tables[p->r->scope.tables[t]].n_columns; c++)
            if (nl_is_date(&p->s->tables[p->r->scope.tables[t]].columns[c])) {
                *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                return true;
            }
    return false;
}

static bool year_column(struct nl_parse *p, struct nl_ref *ret)
{
    for (int t = 0; t < p->r->scope.n; t++)
        for (int c = 0; c < p->s->tables[p->r->scope.tables[t]].n_columns; c++)
            if (nl_is_year(&p->s->tables[p->r->scope.tables[t]].columns[c])) {
                *ret = (struct nl_ref){ p->r->scope.tables[t], c };
                return true;
            }
    return false;
}

struct nl_filter *nl_add_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, int mention)
{
    if (p->r->n_filters == NL_MAX_FILTERS)
        return NULL;
    struct nl_filter *f = &p->r->filters[p->r->n_filters];
    *f = (struct nl_filter){ .ref = ref, .op = op, .having = -1 };
    p->filter_at[p->r->n_filters++] = mention;
    return f;
}

/* "not" shortly before mention i, with no other filter between. */
static bool is_negated(struct nl_parse *p, int i)
{
    for (int k = i - 1; k >= 0 && k >= i - 3; k--) {
        struct nl_mention *m = nl_at(p, k);
        if (nl_is_mark(m, MARK_NOT)) {
            if (m->arg == 1 && nl_at(p, i)->kind != KIND_VALUE)
                return false;
            m->used = true;
            return true;
        }
        if (m->kind == KIND_MARK && (m->mark == MARK_WHERE || m->mark == MARK_AND) && k < i - 1)
            return false;
        if (m->kind != KIND_COLUMN && m->kind != KIND_MARK)
            return false;
    }
    return false;
}

static void add_text(struct nl_filter *f, const char *text)
{
    for (int i = 0; f && i < f->n_texts; i++)
        if (str_eq(f->text[i], text))
            return;
    if (f && f->n_texts < (int)ARRAY_SIZE(f->text))
        f->text[f->n_texts++] = text;
}

/* Compares a date column with the days [from, to]; no matter whether it has a time of day. */
static void date_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, const char *from, const char *to, int mention,
                        bool negated)
{
    char next[11];
    if (!nl_add_days(to, 1, next))
        return;
    const char *low = arena_strdup(p->arena, from), *high = arena_strdup(p->arena, next);
    if (!low || !high)
        return;
    if (op == FILTER_GT || op == FILTER_GE || op == FILTER_EQ) {
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_GE, mention);
        add_text(f, op == FILTER_GT ? high : low);
    }
    if (op == FILTER_LT || op == FILTER_LE || op == FILTER_EQ) {
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_LT, mention);
        add_text(f, op == FILTER_LT ? low : high);
    }
    (void)negated;
}

static void number_filter(struct nl_parse *p, struct nl_ref ref, enum plan_filter_op op, double n, int mention)
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
        date_filter(p, ref, op, from, to, mention, false);
        return;
    }
    struct nl_filter *f = nl_add_filter(p, ref, op, mention);
    if (!f)
        return;
    if (c && !c->is_numeric && c->type != TYPE_BOOL)
        add_text(f, arena_printf(p->arena, "%.15g", n));
    else
        f->number[f->n_numbers++] = n;
    if (c && !c->is_numeric && op != FILTER_EQ)
        p->f[FEATURE_TYPE_CLASH] += 1;
}

static bool comparable(const struct nl_parse *p, const struct nl_mention *m)
{
    const struct nl_column *c = m && m->kind == KIND_COLUMN ? nl_col(p->s, m->ref) : NULL;
    return c && (c->is_numeric || nl_is_date(c));
}

/* The column that a comparison at mention `at` with its number at `number` is about. */
static void compare(struct nl_parse *p, int at, int number, enum plan_filter_op op)
{
    struct nl_mention *cmp = nl_at(p, at), *num = nl_at(p, number), *before = nl_at(p, MIN_OF(at, number) - 1),
                      *after = nl_at(p, MAX_OF(at, number) + 1);
    struct nl_ref ref = { -1, -1 };
    bool reversed = false;
    bool is_date = num->kind == KIND_DATE;
    int agg = -1;

    if (nl_is_mark(before, MARK_NOT)) {
        static const enum plan_filter_op opposite[] = { [FILTER_EQ] = FILTER_NE, [FILTER_NE] = FILTER_EQ, [FILTER_LT] = FILTER_GE,
                                                        [FILTER_LE] = FILTER_GT, [FILTER_GT] = FILTER_LE, [FILTER_GE] = FILTER_LT };
        op = opposite[op];
        before->used = true;
        before = nl_at(p, MIN_OF(at, number) - 2);
    }
    /* "over 20 years old", "under 40 years of age"; "more than 3 times" */
    int past = MAX_OF(cmp, num)->end;
    bool years_old = past + 1 < p->q->n && str_eq(p->q->t[past].stem, "year") &&
                     (str_eq(p->q->t[past + 1].text, "old") || str_eq(p->q->t[past + 1].text, "of"));
    if (years_old && nl_hint_column(p, "ag", &ref, &reversed)) {
        cmp->used = num->used = true;
        for (int k = MAX_OF(at, number) + 1; k < p->mentions.n && nl_at(p, k)->start <= past + 1; k++)
            nl_at(p, k)->used = true;
        number_filter(p, ref, op, num->number, at);
        return;
    }
    if (past < p->q->n && str_eq(p->q->t[past].text, "times")) {
        struct nl_filter *f = nl_add_filter(p, ref, op, at);
        if (f) {
            f->having = FUNC_COUNT;
            f->number[f->n_numbers++] = num->number;
        }
        cmp->used = num->used = true;
        return;
    }
    bool adjacent_before = comparable(p, before) && nl_gap(p, before, MIN_OF(cmp, num)) == 0;
    int after_distance = after ? after->start - MAX_OF(cmp, num)->end : 99;
    bool adjacent_after = comparable(p, after) && after_distance <= 1 && !p->q->t[after->start - 1].comma_after;
    bool hinted = cmp->hint && cmp->hint[0] != '<';
    struct nl_mention *two = nl_at(p, MIN_OF(at, number) - 2);

    if (adjacent_after && !(adjacent_before && (before->end == MIN_OF(cmp, num)->start || after_distance > 0)) && !is_date) {
        ref = after->ref;
        after->used = true;
    } else if (adjacent_before && !(hinted && !is_date && !nl_is_date(nl_col(p->s, before->ref)) && nl_col(p->s, before->ref)->is_id)) {
        ref = before->ref;
        before->used = true;
        if (two && two->kind == KIND_MARK && two->mark == MARK_AGG) {
            agg = two->arg;
            two->used = true;
        }
    } else if (hinted && nl_hint_column(p, cmp->hint, &ref, &reversed)) {
        p->f[FEATURE_HINT] += 1;
    } else if (is_date || (num->number >= 1800 && num->number <= 2100 && hinted)) {
        if (!nl_date_column(p, &ref) && !year_column(p, &ref))
            return;
        p->f[FEATURE_GUESSED_COLUMN] += 1;
    } else if (before && before->kind == KIND_COLUMN && nl_gap(p, before, MIN_OF(cmp, num)) == 0 && !(after && after_distance == 0)) {
        if (two && nl_is_mark(two, MARK_COUNT)) { /* "whose number of items is more than 3" */
            two->used = before->used = true;
            struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, op, at);
            if (f) {
                f->having = FUNC_COUNT;
                f->number[f->n_numbers++] = num->number;
            }
            cmp->used = num->used = true;
            return;
        }
        ref = before->ref;
        before->used = true;
    } else if (after && (after->kind == KIND_TABLE || after->kind == KIND_COLUMN) && after_distance <= 2) {
        struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, op, at);
        if (f) {
            f->having = FUNC_COUNT;
            f->number[f->n_numbers++] = num->number;
        }
        after->used = cmp->used = num->used = true;
        p->f[FEATURE_HAVING_COUNT] += 1;
        return;
    } else if (before && (before->kind == KIND_TABLE || nl_is_mark(before, MARK_COUNT)) &&
               (nl_is_mark(before, MARK_COUNT) || nl_is_mark(two, MARK_COUNT))) {
        struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, op, at);
        if (f) {
            f->having = FUNC_COUNT;
            f->number[f->n_numbers++] = num->number;
        }
        before->used = cmp->used = num->used = true;
        if (nl_is_mark(two, MARK_COUNT))
            two->used = true;
        return;
    } else if (nl_is_mark(before, MARK_OR) && p->r->n_filters > 0 && p->r->filters[p->r->n_filters - 1].n_numbers == 1 &&
               p->r->filters[p->r->n_filters - 1].having < 0 && !is_date) {
        ref = p->r->filters[p->r->n_filters - 1].ref; /* "lower than 600 or higher than 900" */
    } else {
        /* Any number that was spoken of and has no other part to play. */
        for (int k = at - 1; k >= 0 && ref.table < 0; k--) {
            struct nl_mention *m = nl_at(p, k);
            if (comparable(p, m) && !m->used) {
                ref = m->ref;
                m->used = k > 0 && at - k <= 2;
            }
        }
        p->f[FEATURE_GUESSED_COLUMN] += 1;
        if (ref.table < 0 && num->number > 5 && num->number <= 120)
            nl_hint_column(p, "ag", &ref, &reversed);
        if (ref.table < 0) {
            if (num->number <= 20 && num->number == floor(num->number)) {
                struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, op, at);
                if (f) {
                    f->having = FUNC_COUNT;
                    f->number[f->n_numbers++] = num->number;
                }
                cmp->used = num->used = true;
            }
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
            number_filter(p, ref, op, strtod(num->from, NULL), at);
        else
            p->f[FEATURE_TYPE_CLASH] += 1;
        return;
    }
    if (is_date)
        date_filter(p, ref, op, num->from, num->to, at, false);
    else
        number_filter(p, ref, op, num->number, at);
}

/* "at least one order": there is a row, or it would not be counted. */
static bool says_nothing(const struct nl_parse *p, const struct nl_filter *f)
{
    (void)p;
    return f->having == FUNC_COUNT && f->ref.table < 0 && f->n_numbers == 1 &&
           ((f->op == FILTER_GE && f->number[0] <= 1) || (f->op == FILTER_GT && f->number[0] <= 0));
}

static void read_comparisons(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!nl_is_mark(m, MARK_CMP) || m->used)
            continue;
        bool postfix = m->hint && m->hint[0] == '<';
        int j = postfix ? i - 1 : i + 1;
        struct nl_mention *n = nl_at(p, j);
        /* "5 years or more": one mention may stand between. */
        if (postfix && n && n->kind != KIND_NUMBER)
            n = nl_at(p, --j);
        struct nl_mention *between = n;
        if (!postfix && comparable(p, n) && nl_at(p, i + 2) && nl_at(p, i + 2)->kind == KIND_NUMBER &&
            nl_at(p, i + 2)->start - n->end <= 1) {
            between->used = m->used = nl_at(p, i + 2)->used = true; /* "above age 46", "after the year 1989" */
            number_filter(p, between->ref, (enum plan_filter_op)m->arg, nl_at(p, i + 2)->number, i);
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

static void read_ranges(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *low = nl_at(p, i + 1), *high = nl_at(p, i + 2);
        if (!nl_is_mark(m, MARK_BETWEEN) || !low || !high)
            continue;
        int last = i + 2;
        if (nl_is_mark(high, MARK_AND))
            high = nl_at(p, last = i + 3);
        if (!high || low->kind != high->kind || (low->kind != KIND_NUMBER && low->kind != KIND_DATE))
            continue;
        struct nl_mention *before = nl_at(p, i - 1), *after = nl_at(p, last + 1);
        struct nl_ref ref = { -1, -1 };
        if (comparable(p, before) && nl_gap(p, before, m) <= 1) {
            ref = before->ref;
            before->used = true;
        } else if (comparable(p, after) && after->start - high->end <= 1) {
            ref = after->ref;
            after->used = true;
        } else if (low->kind == KIND_DATE || (low->number > 1000 && low->number < 2200)) {
            if (!nl_date_column(p, &ref) && !year_column(p, &ref))
                continue;
        } else {
            for (int k = 0; k < p->mentions.n && ref.table < 0; k++)
                if (comparable(p, nl_at(p, k)) && !nl_at(p, k)->used)
                    ref = nl_at(p, k)->ref;
            if (ref.table < 0)
                continue;
            p->f[FEATURE_GUESSED_COLUMN] += 1;
        }
        m->used = low->used = high->used = true;
        if (nl_is_mark(nl_at(p, i + 2), MARK_AND))
            nl_at(p, i + 2)->used = true;
        if (low->kind == KIND_DATE) {
            date_filter(p, ref, FILTER_GE, low->from, low->to, i, false);
            date_filter(p, ref, FILTER_LE, high->from, high->to, i, false);
        } else if (nl_is_date(nl_col(p->s, ref))) {
            number_filter(p, ref, FILTER_GE, low->number, i);
            number_filter(p, ref, FILTER_LE, high->number, i);
        } else {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
            if (f) {
                f->number[f->n_numbers++] = MIN_OF(low->number, high->number);
                f->number[f->n_numbers++] = MAX_OF(low->number, high->number);
            }
        }
    }
}

static bool is_text(const struct nl_parse *p, const struct nl_mention *m)
{
    const struct nl_column *c = m && m->kind == KIND_COLUMN ? nl_col(p->s, m->ref) : NULL;
    return c && c->type == TYPE_TEXT;
}

/* The nearest text column before mention i, then after it. */
static struct nl_mention *text_column_near(struct nl_parse *p, int i)
{
    for (int k = i - 1; k >= 0 && k >= i - 3; k--)
        if (is_text(p, nl_at(p, k)))
            return nl_at(p, k);
    for (int k = i + 1; k < p->mentions.n && k <= i + 2; k++)
        if (is_text(p, nl_at(p, k)))
            return nl_at(p, k);
    return NULL;
}

static bool name_column(const struct nl_parse *p, struct nl_ref *ret)
{
    const struct nl_table *t = &p->s->tables[p->r->scope.tables[0]];
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_name) {
            *ret = (struct nl_ref){ p->r->scope.tables[0], c };
            return true;
        }
    return false;
}

static void read_texts(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!nl_is_mark(m, MARK_CONTAINS) || m->used)
            continue;
        struct nl_mention *what = nl_at(p, i + 1);
        const char *text = NULL;
        if (what && !what->used && (what->kind == KIND_TEXT || what->kind == KIND_VALUE) && what->start - m->end <= 2)
            text = what->kind == KIND_VALUE ? p->q->t[what->start].raw : what->text;
        else if (what && nl_is_mark(what, MARK_CONTAINS))
            continue;
        else if (m->end < p->q->n && (!p->q->t[m->end].is_stop || p->q->t[m->end].capital) &&
                 (strlen(p->q->t[m->end].raw) <= 2 || !what || what->start > m->end)) {
            text = p->q->t[m->end].raw; /* "starts with A" */
            what = NULL;
        }
        if (!text)
            continue;
        struct nl_mention *column = text_column_near(p, i);
        struct nl_ref ref;
        if (column)
            ref = column->ref;
        else if (!name_column(p, &ref))
            continue;
        bool negated = is_negated(p, i);
        struct nl_filter *f = nl_add_filter(p, ref, (enum plan_filter_op)m->arg, i);
        add_text(f, text);
        if (f) {
            f->negated = negated;
            f->is_literal = what ? p->q->t[what->start].quoted : true;
        }
        m->used = true;
        if (what)
            what->used = true;
        if (column)
            column->used = true;
    }
}

static void read_empty(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_mention *c = nl_at(p, i - 1), *after = nl_at(p, i + 1);
        bool none = nl_is_mark(m, MARK_NOT) && !m->used && (m->arg == 1 || str_eq(p->q->t[m->start].text, "without"));
        if (none && after && after->kind == KIND_COLUMN && !after->used && after->start - m->end <= 1 && !nl_col(p->s, after->ref)->is_flag) {
            struct nl_mention *then = nl_at(p, i + 2); /* "no score above 3" is something else */
            if (!then || (then->kind != KIND_VALUE && then->kind != KIND_NUMBER && !nl_is_mark(then, MARK_CMP))) {
                m->used = after->used = true;
                nl_add_filter(p, after->ref, FILTER_IS_NULL, i);
            }
            continue;
        }
        if (!nl_is_mark(m, MARK_NULL))
            continue;
        bool negated = false;
        if (nl_is_mark(c, MARK_NOT)) {
            negated = c->used = true;
            c = nl_at(p, i - 2);
        }
        if (!c || c->kind != KIND_COLUMN || c->used)
            c = after && after->kind == KIND_COLUMN && after->start == m->end ? after : NULL;
        if (!c)
            continue;
        m->used = c->used = true;
        nl_add_filter(p, c->ref, negated ? FILTER_IS_NOT_NULL : FILTER_IS_NULL, i);
    }
}

static bool column_has(const struct nl_parse *p, struct nl_ref ref, const char *text, const char **ret)
{
    const char *key = nl_value_key(p->arena, text);
    for (const struct nl_value *v = key ? nl_find_value(p->s, key, NULL) : NULL; v; v = nl_find_value(p->s, key, v))
        if (!v->is_part && v->table == ref.table && v->column == ref.column) {
            *ret = v->text;
            return true;
        }
    return false;
}

/*
 * "the player after X", "listed above X": the row beside the one that X is in. Returns which of the rows around has it: -1 the one
 * before, 1 the one after; 0 when nothing says so. Words such as "after" that are not followed by a day or a number mean rows.
 */
static int neighbour(struct nl_parse *p, int i)
{
    struct nl_mention *before = nl_at(p, i - 1), *value = nl_at(p, i);
    bool column = before && before->kind == KIND_COLUMN && nl_gap(p, before, value) == 0;
    struct nl_mention *mark = column ? nl_at(p, i - 2) : before;
    if (mark && nl_is_mark(mark, MARK_CMP) && !mark->used && value->start - mark->end <= 4 && nl_gap(p, mark, value) <= 1) {
        const char *word = p->q->t[mark->end - 1].text;
        if (str_eq(word, "after") || str_eq(word, "below")) {
            mark->used = true;
            return -1;
        }
        if (str_eq(word, "before") || str_eq(word, "above")) {
            mark->used = true;
            return 1;
        }
    }
    for (int k = 0; k < p->mentions.n; k++) {
        struct nl_mention *m = nl_at(p, k);
        if (!nl_is_mark(m, MARK_AFTER))
            continue;
        m->used = true;
        /* "the next one after X": both say the same */
        if (mark && nl_is_mark(mark, MARK_CMP))
            mark->used = true;
        return m->arg > 0 ? -1 : 1;
    }
    return 0;
}

static void read_values(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (m->used || (m->kind != KIND_VALUE && m->kind != KIND_TEXT))
            continue;
        struct nl_mention *before = nl_at(p, i - 1), *after = nl_at(p, i + 1), *column = NULL;
        bool negated = false;
        if (nl_is_mark(before, MARK_NOT) || (before && before->kind == KIND_MARK && before->mark == MARK_CMP && before->arg == FILTER_EQ)) {
            negated = before->mark == MARK_NOT;
            before->used = true;
            before = nl_at(p, i - 2);
        }
        const char *text = m->text;
        if (before && before->kind == KIND_COLUMN && nl_gap(p, before, m) == 0 && !p->q->t[before->end - 1].comma_after &&
            (m->kind == KIND_TEXT || column_has(p, before->ref, m->text, &text)))
            column = before;
        else if (after && after->kind == KIND_COLUMN && after->start - m->end <= 0 &&
                 (column_has(p, after->ref, m->text, &text)))
            column = after;
        struct nl_ref ref = m->ref;
        if (column) {
            ref = column->ref;
            column->used = true;
            p->f[FEATURE_VALUE_COLUMN_SAID] += 1;
        } else if (m->kind == KIND_TEXT) {
            struct nl_mention *near = text_column_near(p, i);
            if (near) {
                ref = near->ref;
                near->used = true;
            } else if (!name_column(p, &ref)) {
                continue;
            }
            p->f[FEATURE_TEXT_UNKNOWN] += 1;
        } else if (m->other.table >= 0) {
            p->f[FEATURE_VALUE_AMBIGUOUS] += 1;
        }
        m->used = true;
        negated = negated || is_negated(p, i);
        int around = neighbour(p, i);
        p->f[FEATURE_ROW_AROUND] += around != 0;
        if (m->is_part) {
            struct nl_filter *part = nl_add_filter(p, m->ref, FILTER_CONTAINS, i);
            add_text(part, m->text);
            if (part)
                part->negated = negated;
            if (part)
                part->around = around;
            p->f[FEATURE_VALUE_PART] += 1;
            continue;
        }
        p->f[FEATURE_VALUE_PIECE] += m->is_piece;
        struct nl_filter *last = p->r->n_filters ? &p->r->filters[p->r->n_filters - 1] : NULL;
        if (last && last->ref.table == ref.table && last->ref.column == ref.column && last->op == FILTER_EQ && last->n_texts > 0 &&
            last->n_numbers == 0 && last->negated == negated && last->around == around) {
            add_text(last, text);
            continue;
        }
        if (last && last->ref.table == ref.table && last->ref.column == ref.column && last->negated && last->op == FILTER_EQ)
            negated = true;
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_EQ, i);
        add_text(f, text);
        if (f)
            f->negated = negated;
        if (f)
            f->around = around;
    }
}

/* "during working hours", "on Mondays" */
static void read_times(struct nl_parse *p)
{
    static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (!nl_is_mark(m, MARK_TIMES) || !nl_date_column(p, &ref))
            continue;
        m->used = true;
        if (m->arg == TIMES_WORK && nl_col(p->s, ref)->type == TYPE_TIMESTAMP) {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
            if (f) { /* 9:00 to 16:59 */
                f->part = PART_HOUR;
                f->number[f->n_numbers++] = 9;
                f->number[f->n_numbers++] = 16;
            }
        }
        if (m->arg >= TIMES_DAY) {
            struct nl_filter *f = nl_add_filter(p, ref, FILTER_EQ, i);
            add_text(f, days[m->arg - TIMES_DAY]);
            if (f)
                f->part = PART_WEEKDAY;
            continue;
        }
        struct nl_filter *f = nl_add_filter(p, ref, FILTER_BETWEEN, i);
        if (f) {
            f->part = PART_WEEKDAY_NUMBER;
            f->negated = m->arg == TIMES_WEEKEND;
            f->number[f->n_numbers++] = 1;
            f->number[f->n_numbers++] = 5;
        }
    }
}

/* "out of stock": none is left. */
static void read_out(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (!nl_is_mark(m, MARK_OUT) || !next || next->kind != KIND_COLUMN || next->start != m->end || next->used)
            continue;
        const struct nl_column *c = nl_col(p->s, next->ref);
        if (!c->is_numeric || c->is_id)
            continue;
        struct nl_filter *f = nl_add_filter(p, next->ref, FILTER_LE, i);
        if (f)
            f->number[f->n_numbers++] = 0;
        m->used = next->used = true;
    }
}

/* "in March": the last one that the data has. */
static void place_months(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (m->kind == KIND_DATE && str_starts(m->from, "0000") &&
            (!nl_date_column(p, &ref) || !nl_place_month(nl_col(p->s, ref)->max, m->from, m->to)))
            m->used = true; /* no date to speak of */
    }
}

/* "last 30 days": of the data, whose last day the column's range tells. */
static void read_recent(struct nl_parse *p)
{
    static const int days[] = { [BUCKET_HOUR] = 0, [BUCKET_DAY] = 1, [BUCKET_WEEK] = 7, [BUCKET_YEAR] = 0 };
    static const int months_of[] = { [BUCKET_MONTH] = 1, [BUCKET_QUARTER] = 3, [BUCKET_YEAR] = 12 };
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *n = nl_at(p, i + 1), *unit = nl_at(p, i + 2);
        struct nl_ref ref;
        if (!nl_is_mark(m, MARK_LAST) || m->arg != -1 || !n)
            continue;
        double count = 1;
        bool numbered = n->kind == KIND_NUMBER;
        if (numbered)
            count = n->number;
        else
            unit = n;
        static const char *const units[] = { "hour", "day", "week", "month", "quarter", "year" };
        int bucket = -1;
        for (size_t u = 0; unit && u < ARRAY_SIZE(units); u++)
            if (unit->start + 1 == unit->end && str_starts(p->q->t[unit->start].text, units[u]))
                bucket = (int)u;
        int next = numbered ? n->end : m->end;
        for (size_t u = 0; bucket < 0 && next < p->q->n && u < ARRAY_SIZE(units); u++)
            if (str_starts(p->q->t[next].text, units[u]))
                bucket = (int)u;
        if (bucket < 0 || !nl_date_column(p, &ref) || !nl_col(p->s, ref)->max)
            continue;
        char from[20];
        const char *max = nl_col(p->s, ref)->max;
        bool hours = bucket == BUCKET_HOUR, months = bucket == BUCKET_MONTH || bucket == BUCKET_QUARTER || bucket == BUCKET_YEAR;
        bool placed = count >= 1 && count <= 10000;
        if (hours)
            placed = placed && nl_add_hours(max, -(int)count, from);
        else if (months) /* up to the same day of the month */
            placed = placed && nl_add_months(max, -(int)(count * months_of[bucket]), from) && nl_add_days(from, 1, from);
        else
            placed = placed && nl_add_days(max, -(int)(count * days[bucket]) + 1, from);
        if (!placed)
            continue;
        m->used = n->used = true;
        if (unit && unit->start == next)
            unit->used = true;
        add_text(nl_add_filter(p, ref, hours ? FILTER_GT : FILTER_GE, i), arena_strdup(p->arena, from));
    }
}

static void read_dates(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        struct nl_ref ref;
        if (m->used || m->kind != KIND_DATE || !nl_date_column(p, &ref))
            continue;
        struct nl_mention *before = nl_at(p, i - 1);
        if (before && before->kind == KIND_COLUMN && nl_is_date(nl_col(p->s, before->ref)) && nl_gap(p, before, m) == 0) {
            ref = before->ref;
            before->used = true;
        }
        m->used = true;
        date_filter(p, ref, FILTER_EQ, m->from, m->to, i, false);
    }
}

static bool has_superlative(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++)
        if (nl_is_mark(nl_at(p, i), MARK_SUPER) || nl_is_mark(nl_at(p, i), MARK_COMMON))
            return true;
    return false;
}

/* "in 2024", where there are days or years to find it in. */
static bool is_year_number(struct nl_parse *p, const struct nl_mention *m)
{
    struct nl_ref ref;
    const char *before = m->start > 0 ? p->q->t[m->start - 1].text : "";
    return m->number >= 1500 && m->number <= 2100 && (str_eq(before, "in") || str_eq(before, "of") || str_eq(before, "during")) &&
           (year_column(p, &ref) || nl_date_column(p, &ref));
}

static void read_numbers(struct nl_parse *p)
{
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *before = nl_at(p, i - 1), *after = nl_at(p, i + 1);
        struct nl_ref ref;
        if (m->used || m->kind != KIND_NUMBER)
            continue;
        if (p->q->t[m->start].is_ordinal) { /* "8th place" */
            const struct nl_column *c = after && after->kind == KIND_COLUMN && after->start == m->end ? nl_col(p->s, after->ref) : NULL;
            if (c && c->is_numeric && !after->used) {
                m->used = after->used = true;
                number_filter(p, after->ref, FILTER_EQ, m->number, i);
            }
            continue;
        }
        bool negated = nl_is_mark(before, MARK_NOT);
        if (negated) {
            before->used = true;
            before = nl_at(p, i - 2);
        }
        if (after && after->kind == KIND_MARK && (after->mark == MARK_SUPER || after->mark == MARK_COMMON))
            continue;
        if (before && before->kind == KIND_MARK && (before->mark == MARK_TOP || before->mark == MARK_LAST || before->mark == MARK_SUPER))
            continue;
        const struct nl_column *b = before && before->kind == KIND_COLUMN ? nl_col(p->s, before->ref) : NULL;
        struct nl_filter *last = p->r->n_filters ? &p->r->filters[p->r->n_filters - 1] : NULL;
        bool years_old = m->end + 1 < p->q->n && str_eq(p->q->t[m->end].stem, "year") && str_eq(p->q->t[m->end + 1].text, "old");
        bool reversed;
        if (years_old && nl_hint_column(p, "ag", &ref, &reversed)) {
            m->used = true;
            for (int k = i + 1; k < p->mentions.n && nl_at(p, k)->start <= m->end + 1; k++)
                nl_at(p, k)->used = true;
            number_filter(p, ref, FILTER_EQ, m->number, i);
        } else if (b && nl_gap(p, before, m) == 0 && !(is_year_number(p, m) && !nl_is_year(b) && !nl_is_date(b) && b->type == TYPE_TEXT)) {
            m->used = before->used = true;
            number_filter(p, before->ref, negated ? FILTER_NE : FILTER_EQ, m->number, i);
        } else if (nl_is_mark(before, MARK_OR) && last && last->n_numbers == 1 && last->op == FILTER_EQ && p->filter_at[p->r->n_filters - 1] == i - 2) {
            m->used = before->used = true;
            number_filter(p, last->ref, FILTER_EQ, m->number, i);
            p->r->filters[p->r->n_filters - 1].is_or = true;
        } else if (after && after->kind == KIND_TABLE && after->start == m->end && m->number <= 20 && !nl_is_mark(before, MARK_COUNT) && !has_superlative(p)) {
            struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ -1, -1 }, FILTER_EQ, i);
            if (f) {
                f->having = FUNC_COUNT;
                f->number[f->n_numbers++] = m->number;
            }
            m->used = after->used = true;
            p->f[FEATURE_HAVING_COUNT] += 1;
        } else if (comparable(p, after) && after->start - m->end <= 0) {
            m->used = after->used = true;
            number_filter(p, after->ref, FILTER_EQ, m->number, i);
        } else if (m->number >= 1500 && m->number <= 2100 && (year_column(p, &ref) || nl_date_column(p, &ref))) {
            m->used = true;
            p->f[FEATURE_GUESSED_COLUMN] += 1;
            number_filter(p, ref, FILTER_EQ, m->number, i);
        } else {
            /* The only column that has this value. */
            const char *key = nl_value_key(p->arena, m->text);
            const struct nl_value *v = key ? nl_find_value(p->s, key, NULL) : NULL;
            while (v && (v->is_part || v->table != p->r->scope.tables[0]))
                v = nl_find_value(p->s, key, v);
            const struct nl_value *inside = key && !v ? nl_find_value(p->s, key, NULL) : NULL;
            while (inside && (!inside->is_part || inside->table != p->r->scope.tables[0]))
                inside = nl_find_value(p->s, key, inside);
            if (inside && m->number > 31) { /* "in 1964", of dates that are texts */
                m->used = true;
                p->f[FEATURE_VALUE_PART] += 1;
                add_text(nl_add_filter(p, (struct nl_ref){ inside->table, inside->column }, FILTER_CONTAINS, i), m->text);
                continue;
            }
            if (v && m->number > 20) {
                m->used = true;
                p->f[FEATURE_GUESSED_COLUMN] += 1;
                number_filter(p, (struct nl_ref){ v->table, v->column }, FILTER_EQ, m->number, i);
            }
        }
    }
}

/* "or" between what two filters came from. */
static void read_or(struct nl_parse *p)
{
    /* The passes found them in an order of their own: back to that of the question. */
    for (int i = 1; i < p->r->n_filters; i++)
        for (int j = i; j > 0 && p->filter_at[j] < p->filter_at[j - 1]; j--) {
            struct nl_filter f = p->r->filters[j];
            int at = p->filter_at[j];
            p->r->filters[j] = p->r->filters[j - 1];
            p->filter_at[j] = p->filter_at[j - 1];
            p->r->filters[j - 1] = f;
            p->filter_at[j - 1] = at;
        }
    for (int i = 1; i < p->r->n_filters; i++) {
        int a = p->filter_at[i - 1], b = p->filter_at[i];
        for (int k = MIN_OF(a, b) + 1; k < MAX_OF(a, b); k++)
            if (nl_is_mark(nl_at(p, k), MARK_OR) && nl_at(p, k)->arg == 0 && p->r->filters[i].having < 0 && p->r->filters[i - 1].having < 0) {
                p->r->filters[i].is_or = true;
                nl_at(p, k)->used = true;
            }
    }
}

void nl_read_filters(struct nl_parse *p)
{
    place_months(p);
    read_times(p);
    read_out(p);
    read_recent(p);
    read_ranges(p);
    read_comparisons(p);
    read_texts(p);
    read_empty(p);
    read_values(p);
    read_dates(p);
    read_numbers(p);
    read_or(p);
}
