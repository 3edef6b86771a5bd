/* The best of them: superlatives, what they go by and whose they are; the first and the latest. */

#include <string.h>

#include "nl/rules.h"

bool fr_is_entity(const struct frame *f, const struct nl_mention *m)
{
    return m && !m->used &&
           (m->kind == KIND_TABLE || fr_is(m, FM_BUCKET) ||
            (fr_is_col(m) && fr_is_category(f, m->ref)));
}

/* Products by their number are the rows of the table that has the number for its key. */
static struct nl_ref named_by_id(const struct frame *f, struct nl_ref ref)
{
    const struct nl_column *c = fr_c(f, ref);
    struct nl_ref key;
    if (!c->is_id)
        return ref;
    for (int i = 0; i < f->s->n_keys; i++)
        if (f->s->keys[i].from_table == ref.table && f->s->keys[i].from_column == ref.column)
            return (struct nl_ref){ f->s->keys[i].to_table, -1 };
    return c->is_key && fr_key(f->s, ref.table, &key) && fr_same(key, ref) ?
               (struct nl_ref){ ref.table, -1 } :
               ref;
}

static void set_entity(struct frame *f, struct nl_mention *m)
{
    const char *word = f->q->t[m->end - 1].text;
    size_t n = strlen(word);
    f->entity_many = n > 3 && word[n - 1] == 's' && word[n - 2] != 's';
    const struct nl_lex *lex = nl_lex_of(f->a, word);
    f->entity_one = !f->entity_many && lex && lex->is_noun && !str_eq(word, "people") &&
                    !str_eq(word, "staff");
    f->entity_plural = f->entity_many && m->end < f->q->n &&
                       (str_eq(f->q->t[m->end].text, "have") ||
                        str_eq(f->q->t[m->end].text, "are"));
    m->used = true;
    if (m->kind == KIND_TABLE)
        f->entity = (struct nl_ref){ m->table, -1 };
    else if (fr_is_col(m))
        f->entity = named_by_id(f, m->ref);
    else
        f->entity_bucket = m->arg;
}

static bool has_entity(const struct frame *f)
{
    return f->entity.table >= 0 || f->entity_bucket >= 0;
}

/* How many: "top 5", "the three biggest"; which one: "second biggest". */
static void read_how_many(struct frame *f, int i)
{
    struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1), *next = fr_at(f, i + 1);
    if (before && before->kind == KIND_NUMBER && !before->used && before->end == m->start &&
        before->number >= 1) {
        if (f->q->t[before->start].is_ordinal)
            f->nth = (int)before->number;
        else
            f->super_n = (int)before->number;
        before->used = true;
    } else if (fr_is(before, FM_RANK) && before->arg > 1 && before->end == m->start) {
        f->nth = before->arg;
        before->used = true;
    } else if (next && next->kind == KIND_NUMBER && !next->used && next->start == m->end &&
               next->number >= 1 && !f->q->t[next->start].is_ordinal) {
        f->super_n = (int)next->number;
        next->used = true;
    }
    /* "3 countries with the highest revenue" */
    for (int k = 0; k < i && !f->super_n && !f->nth; k++) {
        struct nl_mention *n = fr_at(f, k), *what = fr_at(f, k + 1);
        if (what && what->kind == KIND_VALUE && k + 2 < i && fr_gap(f, n, what) == 0)
            what++; /* "which 3 laptop models" */
        if (n->kind == KIND_NUMBER && !n->used && fr_is_entity(f, what) &&
            fr_gap(f, n, what) <= what->start - n->end &&
            n->number >= 1 && n->number <= 1000) {
            f->super_n = (int)n->number;
            n->used = true;
        }
    }
}

static void read_target(struct frame *f, int i, const char *hint)
{
    struct nl_mention *m = fr_at(f, i);
    int k = i + 1, dir = 1;
    while (fr_at(f, k) && fr_at(f, k)->used)
        k++;
    struct nl_mention *a = fr_at(f, k), *b = fr_at(f, k + 1);
    bool near = a && fr_gap(f, m, a) <= 1;
    if (near && fr_is(a, FM_AGG) && fr_measure_at(f, b)) {
        f->by = fr_item(b->ref, a->arg);
        a->used = b->used = f->has_by = true;
    } else if (near && fr_is(a, FM_COUNT) && b && !b->used &&
               (b->kind == KIND_TABLE || fr_is_col(b))) {
        a->used = b->used = f->has_by = true;
        if (b->kind == KIND_TABLE) {
            f->by = fr_item(fr_none, FUNC_COUNT);
            f->anchor = b->table;
        } else {
            f->by = fr_item(b->ref, fr_is_measure(fr_c(f, b->ref)) ? -1 : FUNC_COUNT_DISTINCT);
        }
    } else if (near && fr_measure_at(f, a)) {
        f->by = fr_item(a->ref, -1);
        a->used = f->has_by = true;
    } else if (near && hint && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) &&
               fr_hint_like(f, a->ref, hint, &f->by.ref)) { /* "the most expensive sale" */
        f->by = fr_item(f->by.ref, -1);
        a->used = f->has_by = true;
    } else if (near && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) &&
               fr_is(m, FM_COMMON)) { /* "busiest shipping day": counted by that date */
        a->used = b && fr_is(b, FM_BUCKET);
    } else if (near && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) &&
               !str_eq(f->q->t[m->end - 1].text, "most") &&
               !str_eq(f->q->t[m->end - 1].text, "least")) {
        f->by = fr_item(a->ref, -1);
        a->used = f->has_by = true;
    } else if (near && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) && b &&
               b->kind == KIND_TABLE && b->table != a->ref.table) { /* "the most moved item" */
        f->by = fr_item(fr_none, FUNC_COUNT);
        f->anchor = a->ref.table;
        a->used = f->has_by = true;
    }
    /* whose: behind the adjective, or before it */
    for (int e = i + 1; e < f->m.n && e <= i + 3 && !has_entity(f) &&
                        (hint || fr_is(m, FM_TOP) || fr_is(m, FM_COMMON) || f->has_by);
         e++)
        if (fr_is_entity(f, fr_at(f, e)) && fr_gap(f, m, fr_at(f, e)) <= 1)
            set_entity(f, fr_at(f, e));
    for (int e = 0; e < i && !has_entity(f);
         e++) /* "the name of the airport with …": the airport */
        if (fr_is_entity(f, fr_at(f, e)) && fr_at(f, e)->kind == KIND_TABLE && f->has_by &&
            f->by.func < 0 && f->by.ref.table == fr_at(f, e)->table)
            set_entity(f, fr_at(f, e));
    for (int e = 0; e < i && !has_entity(f); e++)
        if (fr_is_entity(f, fr_at(f, e)))
            set_entity(f, fr_at(f, e));
    if (!has_entity(f))
        for (int e = i + 1; e < f->m.n && e <= i + 3 && !has_entity(f); e++)
            if (fr_is_entity(f, fr_at(f, e)) && fr_gap(f, m, fr_at(f, e)) <= 1)
                set_entity(f, fr_at(f, e));
    /* "which city has the most customers" */
    if (!f->has_by && !hint)
        for (int e = i + 1; e < f->m.n && e <= i + 2; e++) {
            struct nl_mention *t = fr_at(f, e);
            if (t->kind == KIND_TABLE && !t->used && fr_gap(f, m, t) <= 2) {
                f->by = fr_item(fr_none, FUNC_COUNT);
                f->anchor = t->table;
                t->used = f->has_by = true;
                break;
            }
            if (fr_measure_at(f, t)) {
                f->by = fr_item(t->ref, -1);
                t->used = f->has_by = true;
                break;
            }
            /* "provides the most items": different ones */
            if (f->super_amount && fr_is_col(t) && !t->used && has_entity(f) && t->score >= 0.8 &&
                !fr_same(t->ref, f->entity) && fr_is_category(f, t->ref) && fr_gap(f, m, t) == 0) {
                f->by = fr_item(t->ref, FUNC_COUNT_DISTINCT);
                t->used = f->has_by = true;
                break;
            }
        }
    /* "in which month was revenue highest" */
    bool one = has_entity(f) ? !f->entity_many || f->super_n > 0 : f->said[FM_WHO];
    for (int e = i - 1; e >= 0 && e >= i - 2 && !f->has_by && !hint && one; e--) {
        struct nl_mention *t = fr_at(f, e), *func = fr_at(f, e - 1);
        if (!fr_measure_at(f, t))
            continue;
        bool said = fr_is(func, FM_AGG) && !func->used;
        f->by = fr_item(t->ref, said ? func->arg : -1);
        t->used = f->has_by = true;
        if (said)
            func->used = true;
    }
    /* "on which weekday are returns requested most": how often */
    bool most = str_eq(f->q->t[m->end - 1].text, "most") ||
                str_eq(f->q->t[m->end - 1].text, "least");
    struct nl_mention *verb = fr_at(f, i - 1);
    if (!f->has_by && !hint && most && f->entity_bucket >= 0 && fr_is_col(verb) &&
        nl_is_date(fr_c(f, verb->ref)) && fr_gap(f, verb, m) == 0) {
        f->by = fr_item(fr_none, FUNC_COUNT);
        f->anchor = verb->ref.table;
        f->has_by = true; /* the weekday will be that of the verb's date */
    }
    struct nl_ref ref;
    if (!has_entity(f)) /* "the cheapest cable": rows that a value tells */
        for (int e = i + 1; e < f->m.n && e <= i + 2 && !has_entity(f); e++)
            if (f->m.m[e].kind == KIND_VALUE && fr_gap(f, m, fr_at(f, e)) == 0 &&
                (f->has_by ? f->by.ref.table == f->m.m[e].ref.table :
                             hint && fr_hint(f, f->m.m[e].ref.table, hint, &ref, &dir)))
                f->entity = (struct nl_ref){ f->m.m[e].ref.table, -1 };
    if (!f->has_by && hint && has_entity(f) && f->entity_bucket < 0) {
        if (fr_hint(f, f->entity.table, hint, &ref, &dir)) {
            f->by = fr_item(ref, -1);
            f->super *= dir;
            f->has_by = true;
        } else {
            for (int t = 0; t < f->s->n_tables && !f->has_by; t++)
                if (t != f->entity.table && fr_hint(f, t, hint, &ref, &dir)) {
                    f->by = fr_item(ref, -1);
                    f->super *= dir;
                    f->has_by = true;
                }
        }
    }
}

/* "which station is the largest": by the only number that stations have. */
static bool only_measure(const struct frame *f, int table, struct nl_ref *ret)
{
    int n = 0;
    for (int c = 0; c < f->s->tables[table].n_columns; c++)
        if (fr_is_measure(&f->s->tables[table].columns[c])) {
            *ret = (struct nl_ref){ table, c };
            n++;
        }
    return n == 1;
}

/* Delays, waits, costs: the more, the worse. */
static bool high_is_bad(const struct nl_column *c)
{
    static const char *const stems[] = { "delay",  "wait",    "cost",    "pric", "error",
                                         "defect", "downtim", "loss",    "debt", "complaint",
                                         "rank",   "late",    "latency", "fail", "respons",
                                         "lead",   "fin",     "fee" };
    static const char *const good[] = { "total", "revenu", "sal", "valu", "incom", "turnover" };
    for (int w = 0; c && w < c->words.n; w++) /* the total price is somebody's revenue */
        for (size_t k = 0; k < ARRAY_SIZE(good); k++)
            if (str_eq(c->words.stems[w], good[k]))
                return false;
    for (int w = 0; c && w < c->words.n; w++)
        for (size_t k = 0; k < ARRAY_SIZE(stems); k++)
            if (str_eq(c->words.stems[w], stems[k]))
                return true;
    return false;
}

/* "the lowest and the highest price": both ends, of all or of each group. */
void fr_read_ends(struct frame *f)
{
    for (int i = 0; i + 2 < f->m.n; i++) {
        struct nl_mention *a = fr_at(f, i), *and_ = fr_at(f, i + 1), *b = fr_at(f, i + 2);
        if (!fr_is(a, FM_SUPER) || a->used || !fr_is(and_, FM_AND) || !fr_is(b, FM_SUPER) ||
            b->used || a->arg + b->arg != 0 || f->said[FM_DIFF])
            continue;
        struct nl_mention *c = NULL;
        for (int k = i + 3; k < f->m.n && k <= i + 5 && !c; k++)
            if (fr_measure_at(f, fr_at(f, k)))
                c = fr_at(f, k);
            else if (fr_is_entity(f, fr_at(f, k)))
                return; /* which of them, not how much */
        for (int k = i - 1; k >= 0 && k >= i - 2 && !c; k--)
            if (fr_measure_at(f, fr_at(f, k)))
                c = fr_at(f, k);
        if (!c)
            return;
        fr_add_measure(f, c->ref, a->arg > 0 ? FUNC_MAX : FUNC_MIN);
        fr_add_measure(f, c->ref, b->arg > 0 ? FUNC_MAX : FUNC_MIN);
        a->used = and_->used = b->used = c->used = true;
    }
}

void fr_read_super(struct frame *f)
{
    for (int i = 0; i < f->m.n && !f->super; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->used || (!fr_is(m, FM_SUPER) && !fr_is(m, FM_COMMON) && !fr_is(m, FM_TOP) &&
                        !fr_is(m, FM_RANK)))
            continue;
        if (f->said[FM_DIFF] || f->said[FM_ROWS])
            return;
        if (fr_is(m, FM_RANK) && m->arg > 1) {
            struct nl_mention *next = fr_at(f, i + 1);
            if (next && (fr_is(next, FM_SUPER) || fr_is(next, FM_COMMON)) && next->start == m->end)
                continue;
            if (m->end - m->start < 2)
                continue; /* "second" alone */
            f->nth = m->arg;
        }
        f->super = fr_is(m, FM_RANK) ? 1 : m->arg;
        m->used = true;
        if (!fr_is(m, FM_RANK))
            read_how_many(f, i);
        else if (m->arg == 1)
            f->super_n = 1000;
        const char *hint = m->hint && *m->hint != '?' ? m->hint : NULL;
        if (fr_is(m, FM_COMMON)) {
            f->by = fr_item(fr_none, FUNC_COUNT);
            f->has_by = true;
        }
        f->super_amount = str_eq(f->q->t[m->end - 1].text, "most") ||
                          str_eq(f->q->t[m->end - 1].text, "least") ||
                          str_eq(f->q->t[m->end - 1].text, "fewest");
        /* "highest price": the greatest value, unless something has it */
        int way = f->super;
        read_target(f, i, hint);
        if (!f->has_by && !hint && has_entity(f) && fr_amount_of_verb(f, m->start, &f->by.ref)) {
            f->by = fr_item(f->by.ref, -1);
            f->has_by = true;
            for (int k = MAX_OF(m->start - 2, 0); k < m->start; k++)
                if (!str_eq(f->q->t[k].text, "not"))
                    f->q->t[k].is_stop = true; /* the verb has said it */
        }
        if (!f->has_by && hint && strstr(hint, "siz") && f->entity.table >= 0 &&
            only_measure(f, f->entity.table, &f->by.ref)) {
            f->by = fr_item(f->by.ref, -1);
            f->has_by = true;
        }
        if (f->super == way && f->has_by && fr_turns(f, hint, f->by.ref))
            f->super = -way;
        if (m->hint && *m->hint == '?' && f->has_by && high_is_bad(fr_c(f, f->by.ref)))
            f->super = -f->super; /* the worst delay is the longest */
        if (m->hint && *m->hint == '?' && !f->has_by) {
            f->super = 0;
            m->used = false;
        }
    }
}

/* The first, the latest: by the day. */
void fr_read_first(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *next = fr_at(f, i + 1);
        if (!fr_is(m, FM_FIRST) || m->used || f->super)
            continue;
        bool several = next && next->kind == KIND_NUMBER && next->start == m->end;
        if (several && (m->arg < 0 || next->used || next->number < 1 || f->said[FM_ROWS]))
            continue; /* the first 10 */
        struct nl_ref ref = fr_none;
        int table = -1;
        for (int k = 0; k < f->m.n; k++) {
            struct nl_mention *c = fr_at(f, k);
            if (fr_is_col(c) && !c->used && nl_is_date(fr_c(f, c->ref)) && ref.table < 0) {
                ref = c->ref;
                c->used = true;
            }
        }
        for (int k = 0; k < f->m.n && table < 0; k++)
            if (f->m.m[k].kind == KIND_TABLE && !f->m.m[k].used) {
                table = f->m.m[k].table;
                f->m.m[k].used = true;
            }
        if (table < 0 && ref.table >= 0)
            table = ref.table;
        for (int k = 0; k < f->r.n_filters && table < 0; k++)
            table = f->r.filters[k].ref.table;
        if (table < 0)
            table = f->s->only;
        if (table < 0 || (ref.table < 0 && !fr_date_column(f, table, &ref)))
            return;
        m->used = true;
        if (f->said[FM_WHEN]) {
            fr_add_measure(f, ref, m->arg > 0 ? FUNC_MAX : FUNC_MIN);
            for (int k = i + 1; k < f->m.n; k++) /* "the first and the last" */
                if (fr_is(fr_at(f, k), FM_FIRST)) {
                    fr_add_measure(f, ref, fr_at(f, k)->arg > 0 ? FUNC_MAX : FUNC_MIN);
                    fr_at(f, k)->used = true;
                }
            f->anchor = ref.table;
            return;
        }
        if (several) { /* the latest 5 */
            f->super_n = (int)next->number;
            next->used = true;
        }
        f->super = m->arg;
        f->entity = (struct nl_ref){ table, -1 };
        f->by = fr_item(ref, -1);
        f->has_by = f->super_rows = true;
        return;
    }
}
