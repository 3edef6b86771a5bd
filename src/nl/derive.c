/*
 * Readings that follow from another one: rows that are not there ("students without an allergy"),
 * rows that two conditions hold for ("taught both in spring and in fall"), rows that have something
 * in common with another ("the same car as"), and groups without a column that only names what is
 * grouped. Scores decide which one was meant.
 */

#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

/* The table of all the columns that are shown; -1: there are several, or more than columns. */
static int shown_table(const struct nl_reading *r)
{
    int table = r->n_select > 0 ? r->select[0].ref.table : -1;
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0 || r->select[i].bucket >= 0 || r->select[i].ref.table != table)
            return -1;
    return r->n_group > 0 || r->share || r->diff ? -1 : table;
}

/* That of the first column, if only columns are shown; others may be of what is not there. */
static int first_table(const struct nl_reading *r)
{
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0 || r->select[i].bucket >= 0)
            return -1;
    return r->n_select == 0 || r->n_group > 0 || r->share || r->diff ? -1 : r->select[0].ref.table;
}

static struct nl_candidate *copy(const struct nl_candidate *from, struct arena *a)
{
    struct nl_candidate *c = arena_alloc(a, sizeof(*c));
    if (c) {
        *c = *from;
        c->plan = NULL;
        c->key = NULL;
    }
    return c;
}

/*
 * The rows of the scope as values of one column: those that filters of other tables than
 * `outside` hold for. Filters of that table stay where they are.
 */
static struct nl_reading *values_of(const struct nl_reading *r, struct nl_ref key, int outside,
                                    struct arena *a)
{
    struct nl_reading *in = arena_alloc(a, sizeof(*in));
    if (!in)
        return NULL;
    *in = (struct nl_reading){ .scope = r->scope, .n_select = 1, .select = { plain(key) } };
    for (int i = 0; i < r->n_filters; i++)
        if (r->filters[i].ref.table != outside) {
            in->filters[in->n_filters] = r->filters[i];
            in->filters[in->n_filters++].negated = false;
        }
    return in;
}

/* Leaves only the table and its own filters. */
static void narrow(struct nl_reading *r, int table)
{
    int n = 0;
    for (int i = 0; i < r->n_filters; i++)
        if (r->filters[i].ref.table == table)
            r->filters[n++] = r->filters[i];
    r->n_filters = n;
    r->scope = (struct nl_scope){ .tables = { table }, .n = 1 };
}

static bool add_inner(struct nl_reading *r, struct nl_ref key, const struct nl_reading *in,
                      bool negated)
{
    if (r->n_filters == NL_MAX_FILTERS)
        return false;
    r->filters[r->n_filters++] = (struct nl_filter){
        .ref = key, .op = FILTER_EQ, .having = -1, .negated = negated, .inner = in
    };
    return true;
}

/* "students who have no allergy", "ships not steered by a captain with the rank of …" */
static struct nl_candidate *absent(const struct nl_candidate *from, struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    int table = first_table(r), negated = 0, having = 0, ors = 0;
    bool counts = r->n_select == 1 && r->select[0].func == FUNC_COUNT_DISTINCT && r->n_group == 0;
    if (counts)
        table = r->select[0].ref.table;
    const struct nl_link_key *k = table >= 0 ? nl_key_to(&r->scope, table) : NULL;
    for (int i = 0; i < r->n_filters; i++) {
        negated += r->filters[i].negated && r->filters[i].ref.table != table;
        having += r->filters[i].having >= 0 || r->filters[i].around || r->filters[i].ref.table < 0;
        ors += r->filters[i].is_or;
    }
    if (!k || having || ors || r->limit > 0 ||
        (negated == 0 && from->features[FEATURE_UNUSED_NOT] == 0))
        return NULL;
    struct nl_ref key = { table, k->to_column };
    struct nl_candidate *c = copy(from, a);
    struct nl_reading *in = values_of(r, key, table, a);
    if (!c || !in)
        return NULL;
    narrow(&c->reading, table);
    if (!add_inner(&c->reading, key, in, true))
        return NULL;
    if (counts)
        c->reading.select[0] = aggregate(no_ref, FUNC_COUNT);
    int n = 0;
    for (int i = 0; i < c->reading.n_select; i++)
        if (counts || c->reading.select[i].ref.table == table)
            c->reading.select[n++] = c->reading.select[i];
    c->reading.n_select = n;
    if (c->reading.n_order > 0 && c->reading.order[0].ref.table != table)
        return NULL;
    c->features[FEATURE_UNUSED_NOT] = 0;
    c->features[FEATURE_ABSENT] = 1;
    c->features[FEATURE_ABSENT_FILTERED] = in->n_filters > 0;
    c->features[FEATURE_JOIN_EXISTS] = 0;
    return c;
}

static bool says(const struct nl_tokens *q, const char *word)
{
    for (int i = 0; i < q->n; i++)
        if (str_eq(q->t[i].text, word))
            return true;
    return false;
}

/* No number is both: "more than 20 and less than 10", "3 and 4". */
static bool exclude_each_other(const struct nl_filter *a, const struct nl_filter *b)
{
    if (!same_ref(a->ref, b->ref) || a->n_numbers != 1 || b->n_numbers != 1 || a->than || b->than)
        return false;
    if (a->op == FILTER_EQ && b->op == FILTER_EQ)
        return a->number[0] != b->number[0];
    bool above = a->op == FILTER_GT || a->op == FILTER_GE,
         below = b->op == FILTER_LT || b->op == FILTER_LE;
    return above && below && a->number[0] >= b->number[0];
}

/* "both in London and in Paris", "more than 20 and less than 10": no row can be both. */
static struct nl_candidate *both(const struct nl_tokens *q, const struct nl_candidate *from,
                                 struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    int table = shown_table(r), at = -1, other = -1;
    const struct nl_link_key *k = table >= 0 ? nl_key_to(&r->scope, table) : NULL;
    for (int i = 0; i < r->n_filters; i++) {
        const struct nl_filter *f = &r->filters[i];
        if (f->having >= 0 || f->around || f->is_or || f->inner || f->ref.table < 0)
            return NULL;
        if (f->op == FILTER_EQ && f->n_texts == 2 && !f->negated)
            at = i;
        for (int j = 0; j < i; j++)
            if (exclude_each_other(f, &r->filters[j]) || exclude_each_other(&r->filters[j], f)) {
                at = j;
                other = i;
            }
    }
    if (table < 0 || at < 0 || r->limit > 0 || (other < 0 && says(q, "or")) || !says(q, "and") ||
        (r->scope.n > 1 && !k) || same_ref(r->filters[at].ref, r->select[0].ref))
        return NULL;
    /* Of one table its rows are told apart by what is shown of them. */
    struct nl_ref key = k ? (struct nl_ref){ table, k->to_column } : r->select[0].ref;
    struct nl_candidate *c = copy(from, a);
    if (!c)
        return NULL;
    narrow(&c->reading, table);
    int n = 0;
    for (int i = 0; i < c->reading.n_filters; i++)
        if (!same_ref(c->reading.filters[i].ref, r->filters[at].ref))
            c->reading.filters[n++] = c->reading.filters[i];
    c->reading.n_filters = n;
    n = 0; /* what only the condition needed is not shown */
    for (int i = 0; i < c->reading.n_select; i++)
        if (!same_ref(c->reading.select[i].ref, r->filters[at].ref))
            c->reading.select[n++] = c->reading.select[i];
    c->reading.n_select = n;
    for (int v = 0; v < 2; v++) {
        struct nl_reading *in = values_of(r, key, -1, a);
        if (!in)
            return NULL;
        for (int i = 0; i < in->n_filters; i++)
            in->filters[i].negated = r->filters[i].negated;
        if (other >= 0) {
            int drop = v ? at : other;
            memmove(&in->filters[drop], &in->filters[drop + 1],
                    sizeof(in->filters[0]) * (size_t)(in->n_filters - drop - 1));
            in->n_filters--;
        } else {
            in->filters[at].text[0] = r->filters[at].text[v];
            in->filters[at].n_texts = 1;
        }
        if (!add_inner(&c->reading, key, in, false))
            return NULL;
    }
    c->reading.distinct = true;
    c->features[FEATURE_BOTH] = 1;
    c->features[FEATURE_BOTH_SAID] = says(q, "both");
    c->features[FEATURE_BOTH_NUMBERS] = other >= 0;
    return c;
}

/* "the average age of men and women": of each */
static struct nl_candidate *by_values(const struct nl_tokens *q, const struct nl_candidate *from,
                                      struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    int at = -1;
    for (int i = 0; i < r->n_filters; i++)
        if (r->filters[i].op == FILTER_EQ && r->filters[i].n_texts > 1 && !r->filters[i].negated &&
            r->filters[i].having < 0 && !r->filters[i].inner && r->filters[i].ref.table >= 0)
            at = i;
    if (at < 0 || r->n_group > 0 || r->share || r->diff || r->limit > 0 || !says(q, "and"))
        return NULL;
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func < 0 || r->select[i].is_share)
            return NULL;
    struct nl_candidate *c = r->n_select > 0 && r->n_select < NL_MAX_SELECT ? copy(from, a) : NULL;
    if (!c)
        return NULL;
    struct nl_reading *x = &c->reading;
    memmove(&x->select[1], &x->select[0], sizeof(x->select[0]) * (size_t)x->n_select);
    x->select[0] = x->group[0] = plain(r->filters[at].ref);
    x->n_select++;
    x->n_group = 1;
    x->n_order = 0;
    c->features[FEATURE_GROUP_VALUES] = 1;
    c->features[FEATURE_LISTS] = 1;
    return c;
}

/* "people of the project with the longest hours": all of them, though a join repeats the project */
static struct nl_candidate *all_of_best(const struct nl_candidate *from, struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    if (r->limit != 1 || r->n_order != 1 || r->order[0].func >= 0 || r->order[0].ref.table < 0 ||
        r->n_group > 0 || r->share || r->diff || r->n_filters == NL_MAX_FILTERS)
        return NULL;
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0)
            return NULL;
    if (r->scope.n == 1 || !nl_key_to(&r->scope, r->order[0].ref.table))
        return NULL;
    struct nl_candidate *c = copy(from, a);
    if (!c)
        return NULL;
    struct nl_reading *x = &c->reading;
    x->filters[x->n_filters++] = (struct nl_filter){
        .ref = r->order[0].ref,
        .op = FILTER_EQ,
        .having = -1,
        .than = (r->order_dir[0] < 0 ? FUNC_MAX : FUNC_MIN) + 1,
    };
    x->n_order = x->limit = 0;
    c->features[FEATURE_SUPER_ALL] = 1;
    return c;
}

/* "longer than the average of the films by X": the condition is that of the average */
static struct nl_candidate *than_some(const struct nl_candidate *from, struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    int at = -1, others = 0;
    for (int i = 0; i < r->n_filters; i++) {
        const struct nl_filter *f = &r->filters[i];
        if (f->than && !f->inner)
            at = i;
        else if (f->having >= 0 || f->around || f->inner || f->is_or)
            return NULL;
        else
            others++;
    }
    struct nl_candidate *c = at >= 0 && others > 0 ? copy(from, a) : NULL;
    struct nl_reading *in = c ? values_of(r, r->filters[at].ref, -1, a) : NULL;
    if (!in)
        return NULL;
    in->select[0].func = r->filters[at].than - 1;
    in->n_filters = 0;
    for (int i = 0; i < r->n_filters; i++)
        if (i != at)
            in->filters[in->n_filters++] = r->filters[i];
    struct nl_reading *x = &c->reading;
    x->filters[0] = r->filters[at];
    x->filters[0].inner = in;
    x->n_filters = 1;
    c->features[FEATURE_THAN_FILTERED] = 1;
    return c;
}

/* The column that is shown and that "the same …" speaks of; -1: none. */
static int same_column(const struct nl_schema *s, const struct nl_tokens *q,
                       const struct nl_reading *r)
{
    int at = 0;
    while (at < q->n && !str_eq(q->t[at].text, "same"))
        at++;
    for (int i = 0; i < r->n_select && at + 1 < q->n; i++) {
        const struct nl_column *c = nl_col(s, r->select[i].ref);
        for (int w = 0; w < c->words.n; w++)
            if (nl_word_match(&c->words, w, &q->t[at + 1]) >= 0.75)
                return i;
    }
    return -1;
}

/* "which driver drove the same car as X": others whose car is among those of X */
static struct nl_candidate *same(const struct nl_schema *s, const struct nl_tokens *q,
                                 const struct nl_candidate *from, struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    const struct nl_filter *f = &r->filters[0];
    if (r->scope.n > 1 || shown_table(r) < 0 || r->n_filters != 1 || f->n_texts != 1 ||
        f->op != FILTER_EQ || f->negated || f->around || f->having >= 0 || r->limit > 0 ||
        !says(q, "same"))
        return NULL;
    int at = same_column(s, q, r);
    struct nl_candidate *c = at >= 0 ? copy(from, a) : NULL;
    struct nl_reading *in = c ? values_of(r, r->select[at].ref, -1, a) : NULL;
    if (!in || same_ref(r->select[at].ref, f->ref))
        return NULL;
    struct nl_reading *x = &c->reading;
    int n = 0;
    for (int i = 0; i < x->n_select; i++)
        if (i != at)
            x->select[n++] = x->select[i];
    if (n == 0)
        x->select[n++] = plain(f->ref);
    x->n_select = n;
    x->filters[0].negated = true;
    if (!add_inner(x, r->select[at].ref, in, false))
        return NULL;
    c->features[FEATURE_SAME] = 1;
    c->features[FEATURE_SAME_UNREAD] = 0;
    return c;
}

/* "the most common colleges of players": the players are what is counted, and no group. */
static struct nl_candidate *fewer_groups(const struct nl_schema *s, const struct nl_candidate *from,
                                         struct arena *a)
{
    const struct nl_reading *r = &from->reading;
    int drop = -1;
    for (int i = 0; i < r->n_group && r->n_group > 1; i++) {
        const struct nl_column *c = nl_col(s, r->group[i].ref);
        const struct nl_name *t = &s->tables[r->group[i].ref.table].words;
        bool named = c->is_unique || c->is_key;
        for (int w = 0; w < c->words.n; w++)
            for (int v = 0; v < t->n; v++)
                named |= str_eq(c->words.stems[w], t->stems[v]);
        if (named && r->group[i].bucket < 0)
            drop = i;
    }
    struct nl_candidate *c = drop >= 0 ? copy(from, a) : NULL;
    if (!c)
        return NULL;
    struct nl_reading *x = &c->reading;
    const struct nl_column *col = nl_col(s, r->group[drop].ref);
    int n = 0;
    for (int i = 0; i < x->n_select; i++)
        if (x->select[i].func >= 0 || !same_ref(x->select[i].ref, r->group[drop].ref))
            x->select[n++] = x->select[i];
    x->n_select = n;
    memmove(&x->group[drop], &x->group[drop + 1],
            sizeof(x->group[0]) * (size_t)(x->n_group - drop - 1));
    x->n_group--;
    for (int i = 0; i < x->n_order; i++)
        if (x->order[i].func < 0 && same_ref(x->order[i].ref, r->group[drop].ref))
            return NULL;
    c->features[FEATURE_GROUP_LEFT_OUT] = 1;
    c->features[FEATURE_GROUP_UNIQUE] -= col->is_unique || col->is_key;
    return c;
}

int nl_derive(const struct nl_schema *s, const struct nl_tokens *q, const struct nl_candidate *from,
              struct arena *a, struct nl_candidate *ret[NL_DERIVED_MAX])
{
    struct nl_candidate *made[] = { absent(from, a),       both(q, from, a),
                                    same(s, q, from, a),   fewer_groups(s, from, a),
                                    by_values(q, from, a), all_of_best(from, a),
                                    than_some(from, a) };
    int n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(made); i++)
        if (made[i])
            ret[n++] = made[i];
    return n;
}
