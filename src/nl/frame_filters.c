/* What narrows the rows: texts, empty cells, times, values, flags; frame_numbers.c has numbers. */

#include <math.h>
#include <string.h>

#include "nl/frame.h"

struct nl_filter *fr_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op)
{
    static struct nl_filter none;
    if (f->r.n_filters == NL_MAX_FILTERS)
        return &none;
    struct nl_filter *x = &f->r.filters[f->r.n_filters++];
    *x = (struct nl_filter){ .ref = ref, .op = op, .having = -1 };
    return x;
}

void fr_number_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op, double n)
{
    struct nl_filter *x = fr_filter(f, ref, op);
    x->number[0] = n;
    x->n_numbers = 1;
}

void fr_text_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op, const char *text)
{
    struct nl_filter *x = fr_filter(f, ref, op);
    x->text[0] = text;
    x->n_texts = 1;
}

void fr_date_filter(struct frame *f, struct nl_ref ref, int op, const char *from, const char *to)
{
    char next[11];
    const struct nl_column *c = fr_c(f, ref);
    if (!nl_add_days(to, 1, next))
        return;
    const char *lo = arena_strdup(f->a, from), *hi = arena_strdup(f->a, next);
    if (!lo || !hi || !c)
        return;
    if (!nl_is_date(c)) { /* a column of years */
        double y0 = strtod(from, NULL), y1 = strtod(to, NULL);
        if (op < 0 && y0 != y1) {
            fr_number_filter(f, ref, FILTER_GE, y0);
            fr_number_filter(f, ref, FILTER_LE, y1);
        } else {
            fr_number_filter(f, ref, op < 0 ? FILTER_EQ : (enum plan_filter_op)op,
                             op == FILTER_GT ? y1 : y0);
        }
        return;
    }
    if (op < 0 || op == FILTER_GE)
        fr_text_filter(f, ref, FILTER_GE, lo);
    if (op == FILTER_GT)
        fr_text_filter(f, ref, FILTER_GE, hi);
    if (op == FILTER_LT)
        fr_text_filter(f, ref, FILTER_LT, lo);
    if (op < 0 || op == FILTER_LE)
        fr_text_filter(f, ref, FILTER_LT, hi);
}

/* A "not" that belongs to mention i. */
bool fr_negated(struct frame *f, int i)
{
    for (int k = i - 1; k >= 0 && k >= i - 4; k--) {
        struct nl_mention *m = fr_at(f, k);
        if (fr_is(m, FM_NOT)) {
            if (fr_gap(f, m, fr_at(f, i)) > 1)
                return false;
            m->used = true;
            return true;
        }
        if (m->kind == KIND_VALUE || fr_is(m, FM_BY) || fr_is(m, FM_EACH) || fr_is(m, FM_TIME) ||
            fr_is(m, FM_AND) || f->q->t[m->end - 1].comma_after)
            return false;
    }
    return false;
}

/* ---- texts ---- */

static bool text_column_near(struct frame *f, int i, struct nl_ref *ret)
{
    static const int order[] = { -1, 1, -2, 2, -3, 3 };
    for (size_t k = 0; k < ARRAY_SIZE(order); k++) {
        struct nl_mention *m = fr_at(f, i + order[k]);
        if (fr_is_col(m) && fr_c(f, m->ref)->type == TYPE_TEXT && !m->used) {
            *ret = m->ref;
            m->used = true;
            return true;
        }
    }
    /* "products starting with …": their name; "reviews that mention …": their longest text */
    int table = -1;
    for (int k = 0; k < f->m.n && table < 0; k++)
        if (f->m.m[k].kind == KIND_TABLE)
            table = f->m.m[k].table;
    if (table < 0)
        table = f->s->only;
    if (table < 0)
        return false;
    if ((int)fr_at(f, i)->arg != FILTER_CONTAINS)
        return fr_label(f->s, table, ret);
    size_t longest = 0;
    for (int c = 0; c < f->s->tables[table].n_columns; c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        size_t sum = 0;
        for (size_t v = 0; v < col->n_values && v < 50 && col->type == TYPE_TEXT; v++)
            sum += strlen(col->values[v]);
        size_t mean = col->n_values          ? sum / MIN_OF(col->n_values, (size_t)50) :
                      col->type == TYPE_TEXT ? 60 :
                                               0;
        if (mean > longest) {
            longest = mean;
            *ret = (struct nl_ref){ table, c };
        }
    }
    return longest > 0;
}

static void read_texts(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        struct nl_ref ref;
        if (!fr_is(m, FM_CONTAINS))
            continue;
        int at = m->end;
        while (at < f->q->n && !f->q->t[at].quoted &&
               (str_eq(fr_token(f, at), "the") || str_eq(fr_token(f, at), "a") ||
                str_eq(fr_token(f, at), "letter") || str_eq(fr_token(f, at), "word") ||
                str_eq(fr_token(f, at), "substring") || str_eq(fr_token(f, at), "phrase")) &&
               at + 1 < f->q->n)
            at++;
        if (at >= f->q->n)
            continue;
        bool not = fr_negated(f, i);
        const char *text = f->q->t[at].raw;
        for (int k = 0; k < f->m.n; k++) /* the word is a text now, whatever else it was */
            if (f->m.m[k].start <= at && f->m.m[k].end > at)
                f->m.m[k].used = true;
        if (!text_column_near(f, i, &ref))
            continue;
        struct nl_filter *x = fr_filter(f, ref, (enum plan_filter_op)m->arg);
        if (at > m->end - 1 && f->q->t[at].quoted == false && str_starts(text, "/") == false &&
            at > 0 && *text == '\0')
            continue;
        x->text[0] = text;
        x->n_texts = 1;
        x->negated = not ;
        x->is_literal = f->q->t[at].quoted;
        f->q->t[at].is_stop = true; /* accounted for */
        m->used = true;
    }
    /* "have "pack" in their name" */
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *c = fr_at(f, i + 1);
        if (m->used ||
            (m->kind != KIND_TEXT && !(m->kind == KIND_VALUE && f->q->t[m->start].quoted)) ||
            !fr_is_col(c) || fr_c(f, c->ref)->type != TYPE_TEXT ||
            !str_eq(fr_token(f, m->end), "in"))
            continue;
        fr_text_filter(f, c->ref, FILTER_CONTAINS, f->q->t[m->start].raw);
        m->used = c->used = true;
    }
}

/* ---- empty cells ---- */

static void null_filter(struct frame *f, struct nl_ref ref, bool not )
{
    (void)fr_filter(f, ref, not ? FILTER_IS_NOT_NULL : FILTER_IS_NULL);
}

static void read_empty(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *next = fr_at(f, i + 1), *before = fr_at(f, i - 1);
        if (fr_is(m, FM_NULL) && m->ref.table >= 0) {
            null_filter(f, m->ref, (m->arg == 1) != fr_negated(f, i));
            m->used = true;
        } else if (fr_is(m, FM_NULL)) {
            struct nl_mention *c = fr_is_col(next) && !next->used     ? next :
                                   fr_is_col(before) && !before->used ? before :
                                                                        NULL;
            if (!c)
                continue;
            null_filter(f, c->ref, fr_negated(f, i));
            m->used = c->used = true;
        }
    }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *c = fr_at(f, i + 1);
        if (fr_is(c, FM_WHEN) || fr_is(c, FM_ANY)) /* "we do not know when" */
            c = fr_at(f, i + 2);
        if (!fr_is(m, FM_NOT) || m->used || !fr_is_col(c) || c->used || fr_gap(f, m, c) > 1)
            continue;
        bool unknown = false; /* "do not have an email", "are not in any club" */
        for (int k = m->end; k < c->start; k++)
            unknown |= ONE_OF(fr_word(f, k), "have", "has", "know", "known", "got", "any", "hold");
        const struct nl_column *col = fr_c(f, c->ref);
        struct nl_mention *then = fr_at(f, (int)(c - f->m.m) + 1);
        bool compared = then && (then->kind == KIND_NUMBER || fr_is(then, FM_CMP) ||
                                 fr_is(then, FM_THAN_AVG) ||
                                 (then->kind == KIND_VALUE && fr_same(then->ref, c->ref)));
        if (col->is_flag || compared)
            continue;
        if (m->arg == 1 || nl_is_date(col) || m->arg == 2 || (unknown && m->arg == 0)) {
            if (fr_is_measure(col) && !col->has_nulls && f->s->tables[c->ref.table].n_rows > 0)
                fr_number_filter(f, c->ref, FILTER_EQ, 0); /* no cell is empty: none is zero */
            else
                null_filter(f, c->ref, false);
            m->used = c->used = true;
        }
    }
}

/* ---- times ---- */

static void read_time_bounds(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1), *next = fr_at(f, i + 1),
                          *then = fr_at(f, i + 2);
        if (!fr_is(m, FM_TIME))
            continue;
        struct fr_time *t = &f->times[m->arg];
        t->mention = i;
        m->used = true;
        if (t->used)
            continue;
        t->used = true;
        bool range = before &&
                     (fr_is(before, FM_BETWEEN) ||
                      (fr_is(before, FM_CMP) && before->hint && str_eq(before->hint, "@~")));
        bool joined = next && (fr_is(next, FM_AND) || fr_is(next, FM_CMP));
        bool to = str_eq(fr_token(f, m->end), "to") || str_eq(fr_token(f, m->end), "till") ||
                  str_eq(fr_token(f, m->end), "until");
        struct nl_mention *end = to && fr_is(next, FM_TIME)     ? next :
                                 fr_is(then, FM_TIME) && joined ? then :
                                                                  NULL;
        if (range && end && !f->said[FM_CHANGE] && !f->said[FM_VS] && t->kind != TIME_HOUR) {
            t->upto = end->arg;
            f->times[end->arg].used = true;
            f->times[end->arg].op = -2; /* part of the other */
            before->used = end->used = true;
            if (joined && end == then)
                next->used = true;
            continue;
        }
        if (fr_is(before, FM_CMP) && before->hint && before->hint[0] == '@' &&
            fr_gap(f, before, m) == 0) {
            if (before->hint[1] != '~')
                t->op = before->arg;
            before->used = true;
        } else if (fr_is(before, FM_BETWEEN)) {
            before->used = true;
        }
    }
}

/* Which column a time is of: a date that stands beside it, else the table's own. */
static void find_time_columns(struct frame *f)
{
    for (int k = 0; k < f->n_times; k++) {
        struct fr_time *t = &f->times[k];
        if (!t->used || t->op == -2)
            continue;
        for (int d = 1; d <= 3 && t->ref.table < 0; d++)
            for (int side = -1; side <= 1 && t->ref.table < 0; side += 2) {
                struct nl_mention *c = fr_at(f, t->mention + side * d), *m = fr_at(f, t->mention);
                if (!fr_is_col(c) || c->used ||
                    !(nl_is_date(fr_c(f, c->ref)) || nl_is_year(fr_c(f, c->ref))))
                    continue;
                if ((side < 0 ? fr_gap(f, c, m) : fr_gap(f, m, c)) > 1)
                    continue;
                struct nl_mention *by = fr_at(f, (int)(c - f->m.m) - 1);
                if (fr_is(by, FM_BY) || fr_is(by, FM_EACH))
                    continue;
                t->ref = c->ref;
                c->used = true;
            }
    }
}

void fr_place_times(struct frame *f)
{
    for (int k = 0; k < f->n_times; k++) {
        struct fr_time *t = &f->times[k];
        char from[11], to[11], from2[11];
        if (!t->used || t->op == -2)
            continue;
        if (t->ref.table < 0 && !fr_date_column(f, f->anchor, &t->ref)) {
            t->used = false;
            f->m.m[t->mention].used = false;
            continue;
        }
        if (t->kind == TIME_WEEKDAY) {
            static const char *const names[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                                 "Thursday", "Friday", "Saturday" };
            struct nl_filter *x = fr_filter(f, t->ref, FILTER_EQ);
            x->part = PART_WEEKDAY;
            x->n_texts = 0;
            if (t->a < 7)
                x->text[x->n_texts++] = names[t->a];
            else {
                x->text[x->n_texts++] = "Saturday";
                x->text[x->n_texts++] = "Sunday";
                x->negated = t->a == 8;
            }
            continue;
        }
        if (t->kind == TIME_HOUR) {
            const struct nl_column *c = fr_c(f, t->ref);
            if (!c || c->type != TYPE_TIMESTAMP) {
                f->m.m[t->mention].used = false;
                continue;
            }
            struct nl_filter *x = fr_filter(f, t->ref,
                                            t->op == FILTER_GT ? FILTER_GE :
                                            t->op >= 0         ? (enum plan_filter_op)t->op :
                                                                 FILTER_GE);
            x->part = PART_HOUR;
            x->number[0] = t->a;
            x->n_numbers = 1;
            if (t->op < 0) {
                x = fr_filter(f, t->ref, FILTER_LT);
                x->part = PART_HOUR;
                x->number[0] = t->b;
                x->n_numbers = 1;
            }
            continue;
        }
        char since[20];
        if (t->kind == TIME_LAST && t->b == BUCKET_HOUR) {
            const struct nl_column *c = fr_c(f, t->ref);
            const char *text = c->type == TYPE_TIMESTAMP && c->max &&
                                       nl_add_hours(c->max, -t->a, since) ?
                                   arena_strdup(f->a, since) :
                                   NULL;
            if (text)
                fr_text_filter(f, t->ref, FILTER_GT, text);
            else
                f->m.m[t->mention].used = false;
            continue;
        }
        if (!fr_days(f, t, from, to)) {
            f->m.m[t->mention].used = false;
            continue;
        }
        if (t->upto >= 0) {
            struct fr_time end = f->times[t->upto];
            end.ref = t->ref;
            if (end.kind == TIME_PART && !end.a && t->kind == TIME_DAYS)
                end.a = (int)strtol(from, NULL, 10);
            if (!fr_days(f, &end, from2, to))
                continue;
            if (t->kind == TIME_PART && !t->a) /* "1 March to 15 April 2024": one year for both */
                memcpy(from, to, 4);
            if (t->kind == TIME_MONTH)
                memcpy(from, to, 4);
            fr_date_filter(f, t->ref, -1, from, to);
            continue;
        }
        fr_date_filter(f, t->ref, t->kind == TIME_LAST && t->a > 0 ? FILTER_GE : t->op, from, to);
    }
}

/* ---- values and flags ---- */

static bool column_has(const struct frame *f, struct nl_ref ref, const char *text, const char **ret)
{
    const struct nl_column *c = fr_c(f, ref);
    for (size_t v = 0; c && v < c->n_values; v++)
        if (str_ieq(c->values[v], text)) {
            *ret = c->values[v];
            return true;
        }
    return false;
}

static void read_values(struct frame *f)
{
    bool neither = false;
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1), *next = fr_at(f, i + 1);
        if (fr_is(m, FM_NOT) && m->arg == 3)
            neither = m->used = true;
        if (m->used || m->kind != KIND_VALUE)
            continue;
        struct nl_ref ref = m->ref;
        const char *text = m->text;
        bool said = false;
        if (fr_is_col(before) && fr_gap(f, before, m) == 0 &&
            !f->q->t[before->end - 1].comma_after &&
            (fr_same(before->ref, ref) || column_has(f, before->ref, text, &text))) {
            ref = before->ref;
            before->used = said = true;
        } else if (fr_is_col(next) && next->start == m->end && !f->q->t[m->end - 1].comma_after &&
                   (fr_same(next->ref, ref) || column_has(f, next->ref, text, &text))) {
            ref = next->ref;
            next->used = said = true;
        }
        /* A value of two columns: the one whose table is spoken of. */
        if (!said && m->other.table >= 0 && m->other.table != ref.table) {
            for (int k = 0; k < f->m.n; k++)
                if (f->m.m[k].kind == KIND_TABLE && f->m.m[k].table == m->other.table) {
                    bool mine = false;
                    for (int j = 0; j < f->m.n; j++)
                        mine |= f->m.m[j].kind == KIND_TABLE && f->m.m[j].table == ref.table;
                    if (!mine && column_has(f, m->other, text, &text))
                        ref = m->other;
                }
        }
        /* The same word in two columns of the table: which is meant has to be asked. */
        if (!said && fr_place_value(f, m, &ref) > 1 && !fr_c(f, ref)->is_name)
            f->is_ambiguous = true;
        /* "opened in May" with a status Open: when they were opened, or which are open? */
        const char *word = f->q->t[m->end - 1].text;
        size_t len = strlen(word);
        if (fr_is(next, FM_TIME) && !said && len > 4 && str_eq(word + len - 2, "ed") &&
            !str_ieq(word, text))
            f->is_ambiguous = true;
        m->used = true;
        m->ref = ref;
        bool not = neither || fr_negated(f, i);
        const struct nl_mention *first = fr_is(before, FM_AND) || fr_is(before, FM_OR) ?
                                             fr_at(f, i - 2) :
                                             before;
        if (first && first->kind == KIND_VALUE && fr_same(first->ref, ref))
            for (int k = 0; k < f->r.n_filters; k++) /* "excluding A and B": both */
                not |= fr_same(f->r.filters[k].ref, ref) && f->r.filters[k].negated;
        if (m->is_part) {
            struct nl_filter *x = fr_filter(f, ref, FILTER_CONTAINS);
            x->text[0] = f->q->t[m->start].text;
            x->n_texts = 1;
            x->negated = not ;
            bool or_ = fr_is(before, FM_OR) && f->r.n_filters > 1 && fr_same(x[-1].ref, ref);
            x->is_or = or_;
            if (or_)
                before->used = true;
            continue;
        }
        struct nl_filter *same = NULL;
        for (int k = 0; k < f->r.n_filters; k++) {
            struct nl_filter *x = &f->r.filters[k];
            if (fr_same(x->ref, ref) && x->op == FILTER_EQ && x->n_texts > 0 &&
                x->negated == not &&x->part == 0)
                same = x;
        }
        if (same)
            nl_add_text(same, text);
        else {
            same = fr_filter(f, ref, FILTER_EQ);
            same->text[0] = text;
            same->n_texts = 1;
            same->negated = not ;
        }
        if (fr_is(before, FM_OR) || fr_is(before, FM_AND) || fr_is(before, FM_VS))
            before->used |= f->r.n_filters > 0 && same->n_texts > 1;
    }
}

/* A flag that is neither grouped by nor a rate narrows. */
static void read_flags(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1), *next = fr_at(f, i + 1);
        if (!fr_is_col(m) || m->used || !fr_c(f, m->ref)->is_flag)
            continue;
        if (fr_is(next, FM_RATE) || fr_is(before, FM_BY) || fr_is(before, FM_EACH) ||
            fr_is(before, FM_RATE) || fr_is(before, FM_DIST) ||
            (fr_is(before, FM_AND) && before->end == m->start) || fr_is(next, FM_OR))
            continue;
        if (f->said[FM_VS] && !fr_is(before, FM_NOT) && f->r.n_filters == 0 && fr_is(next, FM_MORE))
            continue;
        bool not = fr_negated(f, i);
        fr_text_filter(f, m->ref, FILTER_EQ, not ? "false" : "true");
        m->used = true;
    }
}

/* "out of stock" */
static void read_out(struct frame *f)
{
    for (int i = 0; i + 1 < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *c = fr_at(f, i + 1);
        if (!fr_is(m, FM_OUT) || !fr_is_col(c) || c->used || !fr_is_measure(fr_c(f, c->ref)))
            continue;
        fr_number_filter(f, c->ref, FILTER_LE, 0);
        m->used = c->used = true;
    }
}

void fr_read_filters(struct frame *f)
{
    read_out(f);
    read_texts(f);
    read_time_bounds(f);
    find_time_columns(f);
    read_empty(f);
    fr_read_spans(f);
    fr_read_comparisons(f);
    fr_read_equals(f);
    read_values(f);
    read_flags(f);
}
