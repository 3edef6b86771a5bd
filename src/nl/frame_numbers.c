/* Numbers that narrow the rows: comparisons, ranges, "room 204". */

#include <stdlib.h>
#include <string.h>

#include "nl/frame.h"

static bool is_one(const char *w)
{
    return str_eq(w, "a") || str_eq(w, "an") || str_eq(w, "one");
}

/* The number behind a comparison, and its unit. Returns the token after both; 0: there is none. */
static int number_after(struct frame *f, int at, double *ret, const char **ret_unit)
{
    *ret_unit = NULL;
    while (at < f->q->n && (str_eq(fr_token(f, at), "the") || str_eq(fr_token(f, at), "about")))
        at++;
    if (at >= f->q->n)
        return 0;
    if (f->q->t[at].is_number && !f->q->t[at].quoted && !is_one(fr_token(f, at))) {
        *ret = f->q->t[at].number;
        if (strchr(f->q->t[at].text, '%'))
            *ret_unit = "%";
        at++;
    } else if (is_one(fr_token(f, at)) && fr_is_unit(fr_token(f, at + 1))) {
        *ret = 1;
        at++;
    } else if (str_eq(fr_token(f, at), "one")) {
        *ret = 1;
        at++;
    } else if (str_eq(fr_token(f, at), "once")) {
        *ret = 1;
        *ret_unit = "times";
        return at + 1;
    } else {
        return 0;
    }
    if (fr_is_unit(fr_token(f, at)) || str_eq(fr_token(f, at), "times"))
        *ret_unit = fr_token(f, at++);
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
    return f->s->only;
}

/* A word for people before the comparison. */
static bool speaks_of_people(const struct frame *f, int end)
{
    for (int i = 0; i < end; i++) {
        struct nl_lex lex;
        nl_lex_find(f->q->t[i].text, &lex);
        if ((lex.is_noun && lex.is_person) || str_eq(fr_token(f, i), "people"))
            return true;
    }
    return false;
}

/*
 * "flats under 150k": the only measure whose numbers lie around this one, in the unit if one is
 * said.
 */
static bool only_around(const struct frame *f, int table, double n, const char *unit,
                        struct nl_ref *ret)
{
    int found = 0;
    for (int c = 0; c < f->s->tables[table].n_columns; c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        if (!fr_is_measure(col) || !col->min || !col->max || (unit && !fr_unit_factor(col, unit)) ||
            strtod(col->min, NULL) >= n || strtod(col->max, NULL) <= n)
            continue;
        *ret = (struct nl_ref){ table, c };
        found++;
    }
    return found == 1;
}

/*
 * A number that no word says anything of: "members over 60" are older, "donations over 500" have
 * that amount, and "donors who gave more than 2000 in total" have it together.
 */
static bool implied_column(const struct frame *f, int i, int table, int after, struct nl_ref *ret,
                           int *ret_having)
{
    int at = fr_at((struct frame *)f, i)->start;
    double n = f->q->t[after - 1].number;
    if (table < 0)
        return false;
    for (int c = 0; c < f->s->tables[table].n_columns && n > 0 && n < 120; c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        if (fr_is_measure(col) && str_eq(col->words.words[col->words.n - 1], "age") &&
            speaks_of_people(f, at)) {
            *ret = (struct nl_ref){ table, c };
            return true;
        }
    }
    bool together = str_eq(fr_token(f, after), "in") && str_eq(fr_token(f, after + 1), "total");
    if (fr_amount_of_verb(f, at, ret)) {
        f->q->t[at - 1].is_stop = true;
        if (together)
            *ret_having = FUNC_SUM;
        return true;
    }
    const struct nl_mention *before = i > 0 ? &f->m.m[i - 1] : NULL;
    if (before && before->kind == KIND_TABLE && before->end == at && !together &&
        fr_amount_of(f, table, true, ret))
        return true;
    return !together && only_around(f, table, n, NULL, ret);
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
    struct nl_mention *covers = unit ? mention_from(f, after - 1, &k) : NULL;
    if (covers && covers->start == after - 1 && fr_is_col(covers) && !covers->used &&
        fr_is_compared(f, covers->ref)) { /* "2 days to resolve" of hours_to_resolve */
        *ret = covers->ref;
        *ret_used = covers;
        return true;
    }
    if (hint && table >= 0 && fr_hint(f, table, hint, ret, &dir) && dir > 0)
        return true;
    if (unit && table >= 0) { /* the only column in this unit */
        int found = 0;
        for (int c = 0; c < f->s->tables[table].n_columns; c++) {
            const struct nl_column *col = &f->s->tables[table].columns[c];
            if (!fr_is_measure(col) || fr_unit_factor(col, unit) == 0)
                continue;
            if (fr_has_unit(col) || fr_names_column(col, "pric") || fr_names_column(col, "cost") ||
                fr_names_column(col, "total") || fr_names_column(col, "amount")) {
                *ret = (struct nl_ref){ table, c };
                found++;
            }
        }
        if (found == 1)
            return true;
        const struct nl_token *last = &f->q->t[after - 1];
        double n = last->is_number ? last->number : f->q->t[after - 2].number;
        if (found == 0 && only_around(f, table, n, unit, ret))
            return true;
    }
    return !unit && !hint && implied_column(f, i, table, after, ret, ret_having);
}

static double in_unit_of(const struct frame *f, struct nl_ref ref, double n, const char *unit)
{
    double factor = unit && fr_c(f, ref) ? fr_unit_factor(fr_c(f, ref), unit) : 1;
    return factor > 0 ? n * factor : n;
}

void fr_read_comparisons(struct frame *f)
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
            unit = fr_is_unit(fr_token(f, after)) ? fr_token(f, after) : NULL;
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
        bool not = fr_negated(f, i);
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
        if (!mid || !(str_eq(fr_token(f, mid), "and") || str_eq(fr_token(f, mid), "to")))
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
void fr_read_spans(struct frame *f)
{
    for (int i = 0; i + 1 < f->m.n; i++) {
        struct nl_mention *a = fr_at(f, i), *b = fr_at(f, i + 1), *c = fr_at(f, i + 2);
        if (b && fr_is(b, FM_CMP) && !b->used && b->start == a->end && c && c->start == b->end &&
            str_eq(fr_token(f, b->end - 1), "to")) { /* "from 90 up to 100 points" */
            b->used = true;
            b = c;
            c = fr_at(f, i + 3);
        }
        bool to = str_eq(fr_token(f, b->start - 1), "to") || str_eq(fr_token(f, b->start - 1), "-");
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
void fr_read_equals(struct frame *f)
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
                fr_number_filter(f, ref, FILTER_EQ, m->number);
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
                   (m->start - before->end <= 2 && (str_eq(fr_token(f, before->end), "of") ||
                                                    str_eq(fr_token(f, before->end), "is") ||
                                                    str_eq(fr_token(f, before->end), "was") ||
                                                    str_eq(fr_token(f, before->end), "equals"))));
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
            x->negated = fr_negated(f, i - (c == before));
        } else if (col->type == TYPE_TEXT) {
            const char *text = NULL;
            for (size_t v = 0; v < col->n_values; v++)
                if (str_ieq(col->values[v], f->q->t[m->start].text))
                    text = col->values[v];
            if (!text)
                continue;
            fr_text_filter(f, c->ref, FILTER_EQ, text);
        } else {
            continue;
        }
        m->used = c->used = true;
    }
}
