/* What narrows the rows: texts, empty cells, comparisons, numbers, times, values, flags. */

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

static void number_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op, double n)
{
    struct nl_filter *x = fr_filter(f, ref, op);
    x->number[0] = n;
    x->n_numbers = 1;
}

static void text_filter(struct frame *f, struct nl_ref ref, enum plan_filter_op op,
                        const char *text)
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
            number_filter(f, ref, FILTER_GE, y0);
            number_filter(f, ref, FILTER_LE, y1);
        } else {
            number_filter(f, ref, op < 0 ? FILTER_EQ : (enum plan_filter_op)op,
                          op == FILTER_GT ? y1 : y0);
        }
        return;
    }
    if (op < 0 || op == FILTER_GE)
        text_filter(f, ref, FILTER_GE, lo);
    if (op == FILTER_GT)
        text_filter(f, ref, FILTER_GE, hi);
    if (op == FILTER_LT)
        text_filter(f, ref, FILTER_LT, lo);
    if (op < 0 || op == FILTER_LE)
        text_filter(f, ref, FILTER_LT, hi);
}

static const char *token(const struct frame *f, int i)
{
    return i >= 0 && i < f->q->n ? f->q->t[i].text : "";
}

/* A "not" that belongs to mention i. */
static bool negated(struct frame *f, int i)
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
    if (table < 0 && f->s->n_tables == 1)
        table = 0;
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
               (str_eq(token(f, at), "the") || str_eq(token(f, at), "a") ||
                str_eq(token(f, at), "letter") || str_eq(token(f, at), "word") ||
                str_eq(token(f, at), "substring") || str_eq(token(f, at), "phrase")) &&
               at + 1 < f->q->n)
            at++;
        if (at >= f->q->n)
            continue;
        bool not = negated(f, i);
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
            !fr_is_col(c) || fr_c(f, c->ref)->type != TYPE_TEXT || !str_eq(token(f, m->end), "in"))
            continue;
        text_filter(f, c->ref, FILTER_CONTAINS, f->q->t[m->start].raw);
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
            null_filter(f, m->ref, (m->arg == 1) != negated(f, i));
            m->used = true;
        } else if (fr_is(m, FM_NULL)) {
            struct nl_mention *c = fr_is_col(next) && !next->used     ? next :
                                   fr_is_col(before) && !before->used ? before :
                                                                        NULL;
            if (!c)
                continue;
            null_filter(f, c->ref, negated(f, i));
            m->used = c->used = true;
        }
    }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *c = fr_at(f, i + 1);
        if (!fr_is(m, FM_NOT) || m->used || !fr_is_col(c) || c->used || fr_gap(f, m, c) > 1)
            continue;
        const struct nl_column *col = fr_c(f, c->ref);
        struct nl_mention *then = fr_at(f, i + 2);
        bool compared = then && (then->kind == KIND_NUMBER || fr_is(then, FM_CMP) ||
                                 fr_is(then, FM_THAN_AVG) ||
                                 (then->kind == KIND_VALUE && fr_same(then->ref, c->ref)));
        if (col->is_flag || compared)
            continue;
        if (m->arg == 1 || nl_is_date(col) || m->arg == 2) {
            if (fr_is_measure(col) && !col->has_nulls && f->s->tables[c->ref.table].n_rows > 0)
                number_filter(f, c->ref, FILTER_EQ, 0); /* no cell is empty: none is zero */
            else
                null_filter(f, c->ref, false);
            m->used = c->used = true;
        }
    }
}

/* ---- comparisons ---- */

static bool is_one(const char *w)
{
    return str_eq(w, "a") || str_eq(w, "an") || str_eq(w, "one");
}

/* The number behind a comparison, and its unit. Returns the token after both; 0: there is none. */
static int number_after(struct frame *f, int at, double *ret, const char **ret_unit)
{
    *ret_unit = NULL;
    while (at < f->q->n && (str_eq(token(f, at), "the") || str_eq(token(f, at), "about")))
        at++;
    if (at >= f->q->n)
        return 0;
    if (f->q->t[at].is_number && !f->q->t[at].quoted && !is_one(token(f, at))) {
        *ret = f->q->t[at].number;
        if (strchr(f->q->t[at].text, '%'))
            *ret_unit = "%";
        at++;
    } else if (is_one(token(f, at)) && fr_is_unit(token(f, at + 1))) {
        *ret = 1;
        at++;
    } else if (str_eq(token(f, at), "one")) {
        *ret = 1;
        at++;
    } else if (str_eq(token(f, at), "once")) {
        *ret = 1;
        *ret_unit = "times";
        return at + 1;
    } else {
        return 0;
    }
    if (fr_is_unit(token(f, at)) || str_eq(token(f, at), "times"))
        *ret_unit = token(f, at++);
    return at;
}

static void use_tokens(struct frame *f, int from, int to)
{
    for (int k = 0; k < f->m.n; k++)
        if (f->m.m[k].start >= from && f->m.m[k].end <= to) {
            f->m.m[k].used = true;
            if (fr_is(&f->m.m[k], FM_TIME))
                f->times[f->m.m[k].arg].used = false;
        }
    for (int i = from; i < to && i < f->q->n; i++)
        f->q->t[i].is_stop = true;
}

static struct nl_mention *mention_from(struct frame *f, int token_at, int *ret_index)
{
    for (int k = 0; k < f->m.n; k++)
        if (f->m.m[k].start >= token_at) {
            *ret_index = k;
            return &f->m.m[k];
        }
    *ret_index = -1;
    return NULL;
}

/* The table that the question is about, as far as words before it tell. */
static int table_before(struct frame *f, int i)
{
    for (int k = i - 1; k >= 0; k--)
        if (f->m.m[k].kind == KIND_TABLE)
            return f->m.m[k].table;
    for (int k = i - 1; k >= 0; k--)
        if (f->m.m[k].ref.table >= 0)
            return f->m.m[k].ref.table;
    return f->s->n_tables == 1 ? 0 : -1;
}

/* What the number of comparison i is a number of. */
static bool compared_column(struct frame *f, int i, int after, const char *unit, const char *hint,
                            struct nl_ref *ret, int *ret_having, struct nl_mention **ret_used)
{
    int k;
    struct nl_mention *next = mention_from(f, after, &k), *before = NULL;
    *ret_having = -1;
    *ret_used = NULL;
    bool adjacent = next && fr_gap(f, fr_at(f, i), next) <= 1 && next->start - after <= 2 &&
                    !f->q->t[after - 1].comma_after;
    if (unit && str_eq(unit, "times")) {
        *ret = fr_none;
        *ret_having = FUNC_COUNT;
        return true;
    }
    if (adjacent && fr_is_col(next) && !next->used && fr_is_compared(f, next->ref)) {
        *ret = next->ref;
        *ret_used = next;
        return true;
    }
    if (adjacent && fr_is_col(next) && !next->used && next->start == after && next > f->m.m &&
        fr_is_category(f, next->ref) && !fr_c(f, next->ref)->is_flag && i > 0) {
        *ret = next->ref; /* "cities with more than 3 hotels": different ones */
        *ret_having = FUNC_COUNT_DISTINCT;
        *ret_used = next;
        return true;
    }
    if (adjacent && next->kind == KIND_TABLE && !next->used && next->start == after) {
        *ret = fr_none;
        *ret_having = FUNC_COUNT;
        *ret_used = next;
        f->anchor = next->table;
        return true;
    }
    for (int b = i - 1; b >= 0 && b >= i - 3 && !before; b--) {
        struct nl_mention *m = fr_at(f, b);
        if (fr_is_col(m) && !m->used && fr_is_compared(f, m->ref) && fr_gap(f, m, fr_at(f, i)) <= 2)
            before = m;
        else if (m->kind == KIND_VALUE || fr_is(m, FM_TIME))
            break;
    }
    if (before) {
        struct nl_mention *agg = NULL;
        for (int b = (int)(before - f->m.m) - 1; b >= 0 && b >= (int)(before - f->m.m) - 1; b--)
            agg = fr_at(f, b);
        *ret = before->ref;
        *ret_used = before;
        if (fr_is(agg, FM_AGG) && fr_gap(f, agg, before) == 0) {
            *ret_having = agg->arg;
            agg->used = true;
        }
        return true;
    }
    if (adjacent && next->kind == KIND_TABLE && table_before(f, i) != next->table) {
        *ret = fr_none;
        *ret_having = FUNC_COUNT;
        *ret_used = next;
        f->anchor = next->table;
        return true;
    }
    int table = table_before(f, i), dir;
    if (hint && table >= 0 && fr_hint(f, table, hint, ret, &dir) && dir > 0)
        return true;
    if (unit && table >= 0) { /* the only column in this unit */
        int found = 0;
        for (int c = 0; c < f->s->tables[table].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[table].columns[c];
            if (!fr_is_measure(col) || fr_unit_factor(col, unit) == 0)
                continue;
            bool named = false;
            for (int w = 0; w < col->words.n; w++)
                named |= fr_is_unit(col->words.words[w]) || str_eq(col->words.stems[w], "pric") ||
                         str_eq(col->words.stems[w], "cost") ||
                         str_eq(col->words.stems[w], "total") ||
                         str_eq(col->words.stems[w], "amount");
            if (named) {
                *ret = (struct nl_ref){ table, c };
                found++;
            }
        }
        if (found == 1)
            return true;
    }
    return false;
}

static double in_unit_of(const struct frame *f, struct nl_ref ref, double n, const char *unit)
{
    double factor = unit && fr_c(f, ref) ? fr_unit_factor(fr_c(f, ref), unit) : 1;
    return factor > 0 ? n * factor : n;
}

static void read_comparisons(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *used;
        double n;
        const char *unit;
        struct nl_ref ref;
        int having, after;
        bool reversed = m->hint && str_eq(m->hint, "<");
        if (!fr_is(m, FM_CMP) || m->used || (m->hint && m->hint[0] == '@'))
            continue;
        if (reversed) { /* "2 or less" */
            struct nl_mention *number = fr_at(f, i - 1);
            if (!number || number->kind != KIND_NUMBER)
                continue;
            n = number->number;
            after = m->end;
            unit = fr_is_unit(token(f, after)) ? token(f, after) : NULL;
            if (!compared_column(f, i - 1, after + (unit != NULL), unit, NULL, &ref, &having,
                                 &used))
                continue;
            use_tokens(f, number->start, after + (unit != NULL));
        } else {
            after = number_after(f, m->end, &n, &unit);
            if (!after || !compared_column(f, i, after, unit, m->hint, &ref, &having, &used))
                continue;
            use_tokens(f, m->start, after);
        }
        m->used = true;
        if (used)
            used->used = true;
        bool not = negated(f, i);
        struct nl_filter *x = fr_filter(f, ref, (enum plan_filter_op)m->arg);
        x->number[0] = in_unit_of(f, ref, n, unit);
        x->n_numbers = 1;
        x->having = having;
        x->negated = not ;
    }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *used;
        double n, n2;
        const char *unit, *unit2;
        struct nl_ref ref;
        int having;
        if (!fr_is(m, FM_BETWEEN) || m->used)
            continue;
        int mid = number_after(f, m->end, &n, &unit);
        if (!mid || !(str_eq(token(f, mid), "and") || str_eq(token(f, mid), "to")))
            continue;
        int after = number_after(f, mid + 1, &n2, &unit2);
        if (!after || (!unit && !unit2 && n >= 1900 && n <= 2100 && n2 >= 1900 && n2 <= 2100))
            continue;
        if (!compared_column(f, i, after, unit2 ? unit2 : unit, NULL, &ref, &having, &used))
            continue;
        use_tokens(f, m->start, after);
        m->used = true;
        if (used)
            used->used = true;
        struct nl_filter *x = fr_filter(f, ref, FILTER_BETWEEN);
        x->number[0] = in_unit_of(f, ref, n, unit2 ? unit2 : unit);
        x->number[1] = in_unit_of(f, ref, n2, unit2 ? unit2 : unit);
        x->n_numbers = 2;
        x->having = having;
    }
}

/* "with 100 to 200 seats", "aged 40 to 60" */
static void read_spans(struct frame *f)
{
    for (int i = 0; i + 1 < f->m.n; i++) {
        struct nl_mention *a = fr_at(f, i), *b = fr_at(f, i + 1), *c = fr_at(f, i + 2);
        if (b && fr_is(b, FM_CMP) && !b->used && b->start == a->end && c && c->start == b->end &&
            str_eq(token(f, b->end - 1), "to")) { /* "from 90 up to 100 points" */
            b->used = true;
            b = c;
            c = fr_at(f, i + 3);
        }
        bool to = str_eq(token(f, b->start - 1), "to") || str_eq(token(f, b->start - 1), "-");
        if (a->kind != KIND_NUMBER || a->used || b->kind != KIND_NUMBER || b->used || !to ||
            b->start > a->end + 2)
            continue;
        if (!fr_is_col(c) || c->used || c->start != b->end || !fr_is_compared(f, c->ref)) {
            c = fr_at(f, i - 1);
            if (!fr_is_col(c) || c->used || fr_gap(f, c, a) > 0 || !fr_is_compared(f, c->ref))
                continue;
        }
        struct nl_filter *x = fr_filter(f, c->ref, FILTER_BETWEEN);
        x->number[0] = a->number;
        x->number[1] = b->number;
        x->n_numbers = 2;
        a->used = b->used = c->used = true;
    }
}

/* "status 404 or 500", "13 story points", "year 9", "room 204" */
static void read_equals(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1), *next = fr_at(f, i + 1),
                          *c = NULL;
        if (m->kind != KIND_NUMBER || m->used || f->said[FM_DIST])
            continue;
        if (fr_is(before, FM_BUCKET) && before->arg == BUCKET_YEAR && before->end == m->start &&
            m->number < 1000) {
            struct nl_ref ref = fr_none; /* "year 9": a column of school years */
            for (int t = 0; t < f->s->n_tables; t++)
                for (int k = 0; k < f->s->tables[t].n_columns; k++)
                    if (nl_is_year(&f->s->tables[t].columns[k]) && ref.table < 0)
                        ref = (struct nl_ref){ t, k };
            if (ref.table >= 0) {
                number_filter(f, ref, FILTER_EQ, m->number);
                m->used = before->used = true;
            }
            continue;
        }
        struct nl_mention *second_of = fr_at(f, i + 2), *col_of = fr_at(f, i + 3);
        if (fr_is(next, FM_OR) && second_of && second_of->kind == KIND_NUMBER &&
            fr_is_col(col_of) && !col_of->used && col_of->start == second_of->end &&
            fr_c(f, col_of->ref)->is_numeric && !fr_c(f, col_of->ref)->is_id &&
            !fr_is_col(before)) { /* "3 or 4 bedrooms" */
            struct nl_filter *x = fr_filter(f, col_of->ref, FILTER_EQ);
            x->text[0] = f->q->t[m->start].text;
            x->text[1] = f->q->t[second_of->start].text;
            x->n_texts = 2;
            m->used = next->used = second_of->used = col_of->used = true;
            continue;
        }
        bool of = before &&
                  (m->start - before->end == 0 ||
                   (m->start - before->end <= 2 &&
                    (str_eq(token(f, before->end), "of") || str_eq(token(f, before->end), "is") ||
                     str_eq(token(f, before->end), "was") ||
                     str_eq(token(f, before->end), "equals"))));
        if (fr_is_col(before) && of && !before->used && !nl_is_date(fr_c(f, before->ref)))
            c = before;
        else if (fr_is_col(next) && next->start == m->end && !next->used &&
                 fr_c(f, next->ref)->is_numeric &&
                 !fr_c(f, next->ref)->is_id && /* "5 customers" are five */
                 !fr_is(before, FM_TOP) && !fr_is(before, FM_FIRST) && !fr_is(before, FM_COUNT))
            c = next;
        if (!c)
            continue;
        const struct nl_column *col = fr_c(f, c->ref);
        if (col->is_numeric && !col->numeric_text) {
            /* "404 or 500" */
            struct nl_mention *or_ = fr_at(f, i + 1), *second = fr_at(f, i + 2);
            struct nl_filter *x = fr_filter(f, c->ref, FILTER_EQ);
            if (fr_is(or_, FM_OR) && second && second->kind == KIND_NUMBER && c == before) {
                x->text[0] = f->q->t[m->start].text;
                x->text[1] = f->q->t[second->start].text;
                x->n_texts = 2;
                or_->used = second->used = true;
            } else {
                x->number[0] = m->number;
                x->n_numbers = 1;
            }
            x->negated = negated(f, i - (c == before));
        } else if (col->type == TYPE_TEXT) {
            const char *text = NULL;
            for (size_t v = 0; v < col->n_values; v++)
                if (str_ieq(col->values[v], f->q->t[m->start].text))
                    text = col->values[v];
            if (!text)
                continue;
            text_filter(f, c->ref, FILTER_EQ, text);
        } else {
            continue;
        }
        m->used = c->used = true;
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
        bool to = str_eq(token(f, m->end), "to") || str_eq(token(f, m->end), "till") ||
                  str_eq(token(f, m->end), "until");
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
                text_filter(f, t->ref, FILTER_GT, text);
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
        bool not = neither || negated(f, i);
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
        bool not = negated(f, i);
        text_filter(f, m->ref, FILTER_EQ, not ? "false" : "true");
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
        number_filter(f, c->ref, FILTER_LE, 0);
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
    read_comparisons(f);
    read_spans(f);
    read_equals(f);
    read_values(f);
    read_flags(f);
}
