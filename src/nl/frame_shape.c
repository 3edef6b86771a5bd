/* What is asked for: groups, superlatives, measures, counts, columns to list. */

#include <string.h>

#include "nl/frame.h"

#define SMALL_ROWS 30
#define FEW_VALUES 15

static struct nl_item item_of(struct nl_ref ref, int func)
{
    return (struct nl_item){ .ref = ref, .func = func, .bucket = -1 };
}

static void add_measure(struct frame *f, struct nl_ref ref, int func)
{
    for (int i = 0; i < f->n_measures; i++)
        if (fr_same(f->measures[i].ref, ref) && f->measures[i].func == func)
            return;
    if (f->n_measures < FRAME_MEASURES)
        f->measures[f->n_measures++] = item_of(ref, func);
}

static void add_group_item(struct frame *f, struct nl_ref ref, int bucket)
{
    for (int i = 0; i < f->r.n_group; i++)
        if (fr_same(f->r.group[i].ref, ref) && f->r.group[i].bucket == bucket)
            return;
    if (f->r.n_group < (int)ARRAY_SIZE(f->r.group)) {
        f->r.group[f->r.n_group] = item_of(ref, -1);
        f->r.group[f->r.n_group++].bucket = bucket;
    }
}

static bool is_measure_at(const struct frame *f, const struct nl_mention *m)
{
    return fr_is_col(m) && !m->used && fr_is_measure(fr_c(f, m->ref));
}

/* ---- groups ---- */

/* "by revenue", "by average spend", "by number of reviews": what a ranking goes by. */
static bool read_by_measure(struct frame *f, int i)
{
    struct nl_mention *m = fr_at(f, i), *a = fr_at(f, i + 1), *b = fr_at(f, i + 2);
    /* "A vs B by price": compared by it */
    if (f->said[FM_VS] && m->end - m->start == 1 && f->r.n_filters > 0) {
        bool func = fr_is(a, FM_AGG) && is_measure_at(f, b);
        struct nl_mention *c = func ? b : a;
        if (func || (is_measure_at(f, a) && fr_c(f, a->ref)->n_values > SMALL_ROWS)) {
            add_measure(f, c->ref, func ? a->arg : fr_default_func(fr_c(f, c->ref)));
            m->used = a->used = c->used = true;
            return true;
        }
    }
    bool ranks = f->said[FM_SUPER] || f->said[FM_TOP] || f->said[FM_RANK] || f->said[FM_COMMON];
    if (!ranks || !a)
        return false;
    if (fr_is(a, FM_AGG) && is_measure_at(f, b)) {
        f->by = item_of(b->ref, a->arg);
        a->used = b->used = true;
    } else if (fr_is(a, FM_COUNT) && b &&
               (b->kind == KIND_TABLE || (fr_is_col(b) && !fr_is_measure(fr_c(f, b->ref))))) {
        f->by = item_of(fr_none, FUNC_COUNT);
        if (b->kind == KIND_TABLE)
            f->anchor = b->table;
        a->used = b->used = true;
    } else if (is_measure_at(f, a)) {
        f->by = item_of(a->ref, -1);
        a->used = true;
    } else {
        return false;
    }
    m->used = f->has_by = true;
    return true;
}

/* "borrower type", "by customer country": the first says whose column the second is. */
static bool is_owner(const struct frame *f, const struct nl_mention *m,
                     const struct nl_mention *next)
{
    int table = m->kind == KIND_TABLE ? m->table : fr_is_col(m) ? m->ref.table : -1;
    if (table < 0 || !fr_is_col(next) || next->used || next->start != m->end ||
        next->ref.table != table || f->q->t[m->end - 1].comma_after ||
        !fr_is_category(f, next->ref))
        return false;
    const struct nl_name *n = &f->s->tables[table].words;
    const struct nl_column *c = fr_c(f, m->ref);
    return m->kind == KIND_TABLE ||
           (c->words.n == 1 && n->n == 1 && str_eq(c->words.stems[0], n->stems[0]));
}

static bool read_group_at(struct frame *f, int k)
{
    struct nl_mention *m = fr_at(f, k), *next = fr_at(f, k + 1);
    if (!m || m->used)
        return false;
    /* "for each number of bedrooms": the number itself */
    bool number = fr_is(m, FM_COUNT) && !str_eq(f->q->t[m->start].text, "how") && fr_is_col(next) &&
                  !next->used && fr_c(f, next->ref)->is_numeric && next->start == m->end;
    if (fr_is(m, FM_DISTINCT) || number || is_owner(f, m, next)) {
        m->used = true;
        return read_group_at(f, k + 1);
    }
    if (fr_is(m, FM_BUCKET)) {
        struct nl_mention *c = fr_at(f, k - 1);
        struct nl_ref ref = fr_none;
        if (fr_is_col(c) && !c->used && nl_is_date(fr_c(f, c->ref))) { /* "by exam month" */
            ref = c->ref;
            c->used = true;
        }
        add_group_item(f, ref, m->arg);
        m->used = true;
        return true;
    }
    if (fr_is_col(m)) {
        const struct nl_column *c = fr_c(f, m->ref);
        if (nl_is_date(c) && fr_is(next, FM_BUCKET) && next->start - m->end <= 1) {
            add_group_item(f, m->ref, next->arg);
            next->used = true;
        } else {
            add_group_item(f, m->ref, nl_is_date(c) ? BUCKET_DAY : -1);
        }
        m->used = true;
        return true;
    }
    if (m->kind == KIND_TABLE) {
        struct nl_ref ref;
        if (!fr_label(f->s, m->table, &ref))
            return false;
        add_group_item(f, ref, -1);
        m->used = true;
        return true;
    }
    return false;
}

/* "cost per kilo": divided by the column that is in kilos. */
static bool read_per_unit(struct frame *f, int i)
{
    struct nl_mention *m = fr_at(f, i), *before = fr_at(f, i - 1);
    int at = m->end;
    if (!fr_is(m, FM_EACH) || m->arg != 1 || m->used || !fr_is_col(before) || before->used ||
        !fr_is_measure(fr_c(f, before->ref)))
        return false;
    for (int k = 0; k < f->m.n; k++)
        if (f->m.m[k].start <= at && f->m.m[k].end > at)
            return false;
    bool square = at + 1 < f->q->n && str_eq(f->q->t[at].text, "square");
    const char *unit = square ? "sqm" : at < f->q->n ? f->q->t[at].text : "";
    int found = -1, n = 0, table = before->ref.table;
    for (int c = 0; c < f->s->tables[table].n_columns && fr_is_unit(unit); c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        bool named = false;
        for (int w = 0; w < col->words.n; w++)
            named |= fr_is_unit(col->words.words[w]);
        if (named && fr_is_measure(col) && fr_unit_factor(col, unit) == 1 &&
            c != before->ref.column) {
            found = c;
            n++;
        }
    }
    if (n != 1)
        return false;
    f->per_ref = (struct nl_ref){ table, found };
    m->used = true;
    for (int k = at; k <= at + square; k++)
        f->q->t[k].is_stop = true;
    return true;
}

/* A few depots, departments, machines: "cost per machine" is of each of them. */
static bool is_small(const struct frame *f, int table)
{
    bool one = false; /* of something else */
    for (int i = 0; i < f->s->n_keys; i++)
        one |= f->s->keys[i].to_table == table;
    return one && f->s->tables[table].n_rows > 0 && f->s->tables[table].n_rows <= SMALL_ROWS;
}

/* "total amount per customer": of each of those that the rows speak of, not of each row. */
static bool is_of_others(const struct nl_mention *measure, const struct nl_mention *per)
{
    return fr_is_col(measure) && per->kind == KIND_TABLE && per->table != measure->ref.table;
}

static void read_groups(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *next = fr_at(f, i + 1);
        if (read_per_unit(f, i))
            continue;
        if (fr_is(m, FM_BUCKET) && m->hint && *m->hint == '!' && !m->used) {
            add_group_item(f, fr_none, m->arg);
            m->used = true;
            continue;
        }
        if ((!fr_is(m, FM_BY) && !fr_is(m, FM_EACH)) || m->used || !next)
            continue;
        if (next->start - m->end > 2 || fr_gap(f, m, next) > 0)
            continue;
        if (fr_is(m, FM_BY) && read_by_measure(f, i))
            continue;
        const char *verb = m->start > 0 ? f->q->t[m->start - 1].text : "";
        size_t len = strlen(verb);
        if (fr_is(m, FM_BY) && m->end - m->start == 1 && next->kind == KIND_TABLE && len > 3 &&
            str_eq(verb + len - 2, "ed") && !f->said[FM_COUNT] && !f->said[FM_AGG] &&
            !f->said[FM_RATE] && !f->said[FM_SHARE])
            continue; /* "used by parties" says who does it */
        /* "revenue per order", "spend per purchase": one divided by the other */
        if (fr_is(m, FM_EACH) && m->arg == 1) {
            struct nl_mention *before = fr_at(f, i - 1);
            if (fr_is(before, FM_MORE))
                before = fr_at(f, i - 2);
            /* "maximum speed per machine" is of each machine */
            const struct nl_mention *func = before > f->m.m ? before - 1 : NULL;
            bool of_each = (fr_is(func, FM_AGG) && func->arg != FUNC_AVG &&
                            (func->arg != FUNC_SUM || is_of_others(before, next))) ||
                           (fr_is(func, FM_SUPER) && !fr_is_unit(f->q->t[next->start].text));
            bool measure = fr_is_col(before) && fr_is_measure(fr_c(f, before->ref)) &&
                           !before->used && !of_each;
            if (measure && next->kind == KIND_TABLE && !is_small(f, next->table)) {
                f->per = next->table;
                m->used = next->used = true;
                continue;
            }
            bool of_few = fr_is(func, FM_AGG) && func->arg != FUNC_SUM && is_measure_at(f, next) &&
                          fr_c(f, next->ref)->type == TYPE_INTEGER &&
                          fr_c(f, next->ref)->n_values <= FEW_VALUES;
            if (measure && is_measure_at(f, next) && !of_few) {
                f->per_ref = next->ref;
                m->used = next->used = true;
                continue;
            }
        }
        int k = i + 1;
        if (!read_group_at(f, k))
            continue;
        m->used = true;
        for (;;) { /* "by channel and status" */
            struct nl_mention *sep = fr_at(f, k + 1);
            bool comma = f->q->t[fr_at(f, k)->end - 1].comma_after;
            if (sep && sep->used && fr_is(sep, FM_BUCKET))
                sep = fr_at(f, ++k + 1);
            if (fr_is(sep, FM_AND) && read_group_at(f, k + 2)) {
                sep->used = true;
                k += 2;
            } else if (comma && sep && !fr_is(sep, FM_AND) && fr_is_col(sep) &&
                       !fr_is_measure(fr_c(f, sep->ref)) && read_group_at(f, k + 1)) {
                k += 1;
            } else {
                break;
            }
        }
    }
}

/* ---- superlatives ---- */

static bool is_entity(const struct frame *f, const struct nl_mention *m)
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
        if (n->kind == KIND_NUMBER && !n->used && is_entity(f, what) && what->start == n->end &&
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
    if (near && fr_is(a, FM_AGG) && is_measure_at(f, b)) {
        f->by = item_of(b->ref, a->arg);
        a->used = b->used = f->has_by = true;
    } else if (near && fr_is(a, FM_COUNT) && b && !b->used &&
               (b->kind == KIND_TABLE || fr_is_col(b))) {
        a->used = b->used = f->has_by = true;
        if (b->kind == KIND_TABLE) {
            f->by = item_of(fr_none, FUNC_COUNT);
            f->anchor = b->table;
        } else {
            f->by = item_of(b->ref, fr_is_measure(fr_c(f, b->ref)) ? -1 : FUNC_COUNT_DISTINCT);
        }
    } else if (near && is_measure_at(f, a)) {
        f->by = item_of(a->ref, -1);
        a->used = f->has_by = true;
    } else if (near && hint && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) &&
               fr_hint_like(f, a->ref, hint, &f->by.ref)) { /* "the most expensive sale" */
        f->by = item_of(f->by.ref, -1);
        a->used = f->has_by = true;
    } else if (near && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) &&
               !str_eq(f->q->t[m->end - 1].text, "most") &&
               !str_eq(f->q->t[m->end - 1].text, "least")) {
        f->by = item_of(a->ref, -1);
        a->used = f->has_by = true;
    } else if (near && fr_is_col(a) && !a->used && nl_is_date(fr_c(f, a->ref)) && b &&
               b->kind == KIND_TABLE && b->table != a->ref.table) { /* "the most moved item" */
        f->by = item_of(fr_none, FUNC_COUNT);
        f->anchor = a->ref.table;
        a->used = f->has_by = true;
    }
    /* whose: behind the adjective, or before it */
    for (int e = i + 1; e < f->m.n && e <= i + 3 && !has_entity(f) &&
                        (hint || fr_is(m, FM_TOP) || fr_is(m, FM_COMMON) || f->has_by);
         e++)
        if (is_entity(f, fr_at(f, e)) && fr_gap(f, m, fr_at(f, e)) <= 1)
            set_entity(f, fr_at(f, e));
    for (int e = 0; e < i && !has_entity(f);
         e++) /* "the name of the airport with …": the airport */
        if (is_entity(f, fr_at(f, e)) && fr_at(f, e)->kind == KIND_TABLE && f->has_by &&
            f->by.func < 0 && f->by.ref.table == fr_at(f, e)->table)
            set_entity(f, fr_at(f, e));
    for (int e = 0; e < i && !has_entity(f); e++)
        if (is_entity(f, fr_at(f, e)))
            set_entity(f, fr_at(f, e));
    if (!has_entity(f))
        for (int e = i + 1; e < f->m.n && e <= i + 3 && !has_entity(f); e++)
            if (is_entity(f, fr_at(f, e)) && fr_gap(f, m, fr_at(f, e)) <= 1)
                set_entity(f, fr_at(f, e));
    /* "which city has the most customers" */
    if (!f->has_by && !hint)
        for (int e = i + 1; e < f->m.n && e <= i + 2; e++) {
            struct nl_mention *t = fr_at(f, e);
            if (t->kind == KIND_TABLE && !t->used && fr_gap(f, m, t) <= 2) {
                f->by = item_of(fr_none, FUNC_COUNT);
                f->anchor = t->table;
                t->used = f->has_by = true;
                break;
            }
            if (is_measure_at(f, t)) {
                f->by = item_of(t->ref, -1);
                t->used = f->has_by = true;
                break;
            }
        }
    /* "in which month was revenue highest" */
    bool one = has_entity(f) && (!f->entity_many || f->super_n > 0);
    for (int e = i - 1; e >= 0 && e >= i - 2 && !f->has_by && !hint && one; e--) {
        struct nl_mention *t = fr_at(f, e), *func = fr_at(f, e - 1);
        if (!is_measure_at(f, t))
            continue;
        bool said = fr_is(func, FM_AGG) && !func->used;
        f->by = item_of(t->ref, said ? func->arg : -1);
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
        f->by = item_of(fr_none, FUNC_COUNT);
        f->anchor = verb->ref.table;
        verb->used = f->has_by = true;
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
            f->by = item_of(ref, -1);
            f->super *= dir;
            f->has_by = true;
        } else {
            for (int t = 0; t < f->s->n_tables && !f->has_by; t++)
                if (t != f->entity.table && fr_hint(f, t, hint, &ref, &dir)) {
                    f->by = item_of(ref, -1);
                    f->super *= dir;
                    f->has_by = true;
                }
        }
    }
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
static void read_ends(struct frame *f)
{
    for (int i = 0; i + 2 < f->m.n; i++) {
        struct nl_mention *a = fr_at(f, i), *and_ = fr_at(f, i + 1), *b = fr_at(f, i + 2);
        if (!fr_is(a, FM_SUPER) || a->used || !fr_is(and_, FM_AND) || !fr_is(b, FM_SUPER) ||
            b->used || a->arg + b->arg != 0 || f->said[FM_DIFF])
            continue;
        struct nl_mention *c = NULL;
        for (int k = i + 3; k < f->m.n && k <= i + 5 && !c; k++)
            if (is_measure_at(f, fr_at(f, k)))
                c = fr_at(f, k);
            else if (is_entity(f, fr_at(f, k)))
                return; /* which of them, not how much */
        for (int k = i - 1; k >= 0 && k >= i - 2 && !c; k--)
            if (is_measure_at(f, fr_at(f, k)))
                c = fr_at(f, k);
        if (!c)
            return;
        add_measure(f, c->ref, a->arg > 0 ? FUNC_MAX : FUNC_MIN);
        add_measure(f, c->ref, b->arg > 0 ? FUNC_MAX : FUNC_MIN);
        a->used = and_->used = b->used = c->used = true;
    }
}

static void read_super(struct frame *f)
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
            f->by = item_of(fr_none, FUNC_COUNT);
            f->has_by = true;
        }
        /* "highest price": the greatest value, unless something has it */
        int way = f->super;
        read_target(f, i, hint);
        if (!f->has_by && !hint && has_entity(f) && fr_amount_of_verb(f, i, &f->by.ref)) {
            f->by = item_of(f->by.ref, -1);
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
static void read_first(struct frame *f)
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
        if (table < 0 && f->s->n_tables == 1)
            table = 0;
        if (table < 0 || (ref.table < 0 && !fr_date_column(f, table, &ref)))
            return;
        m->used = true;
        if (f->said[FM_WHEN]) {
            add_measure(f, ref, m->arg > 0 ? FUNC_MAX : FUNC_MIN);
            for (int k = i + 1; k < f->m.n; k++) /* "the first and the last" */
                if (fr_is(fr_at(f, k), FM_FIRST)) {
                    add_measure(f, ref, fr_at(f, k)->arg > 0 ? FUNC_MAX : FUNC_MIN);
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
        f->by = item_of(ref, -1);
        f->has_by = f->super_rows = true;
        return;
    }
}

/* ---- measures ---- */

/* Whether a name has one of the hint's words, or a unit of them. */
static bool speaks_of(const struct frame *f, const char *hint, struct nl_ref ref)
{
    const struct nl_column *c = fr_c(f, ref);
    for (hint += *hint == '#'; *hint; hint += strcspn(hint, "|"), hint += *hint == '|') {
        size_t n = strcspn(hint, "|");
        for (int w = 0; w < c->words.n; w++)
            if (strncmp(c->words.stems[w], hint, n) == 0 || fr_is_unit(c->words.words[w]))
                return true;
    }
    return false;
}

static void read_aggregates(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is(m, FM_AGG) || m->used)
            continue;
        for (int k = i + 1; k < f->m.n && k <= i + 5 && !m->used; k++) {
            struct nl_mention *c = fr_at(f, k);
            if (is_measure_at(f, c) ||
                (fr_is_col(c) && !c->used && fr_c(f, c->ref)->is_numeric && m->arg != FUNC_SUM &&
                 !fr_c(f, c->ref)->is_id && !nl_is_year(fr_c(f, c->ref)))) {
                add_measure(f, c->ref, m->arg);
                for (int j = i + 1; j < k; j++) /* "minimum and maximum price" */
                    if (fr_is(fr_at(f, j), FM_AGG) && !fr_at(f, j)->used) {
                        add_measure(f, c->ref, fr_at(f, j)->arg);
                        fr_at(f, j)->used = true;
                    }
                m->used = c->used = true;
                struct nl_mention *and_ = fr_at(f, k + 1), *more = fr_at(f, k + 2);
                if (fr_is(and_, FM_AND) && is_measure_at(f, more) && more->start - and_->end <= 1) {
                    add_measure(f, more->ref, m->arg);
                    and_->used = more->used = true;
                }
            } else if (fr_is(c, FM_COUNT) && is_measure_at(f, fr_at(f, k + 1)) &&
                       fr_at(f, k + 1)->start - c->end <= 1) {
                c->used = true; /* "median number of seats" */
            } else if (fr_is(c, FM_AGG) && c->arg == FUNC_SUM && m->arg == FUNC_AVG && k == i + 1 &&
                       is_measure_at(f, fr_at(f, k + 1)) && f->r.n_group == 1) {
                add_measure(f, fr_at(f, k + 1)->ref, FUNC_SUM); /* "average total cost per day" */
                f->average_of_groups = m->used = c->used = fr_at(f, k + 1)->used = true;
            } else if (fr_is(c, FM_COUNT) && m->arg == FUNC_AVG) {
                f->average_of_groups = m->used = true;
            } else if (fr_is(c, FM_BUCKET) && c->used && m->arg == FUNC_AVG && k == i + 1) {
                f->average_of_groups = true; /* average daily sessions */
            } else if (c->kind == KIND_TABLE || fr_is(c, FM_DISTINCT) || fr_is(c, FM_AND) ||
                       fr_is(c, FM_AGG) || c->kind == KIND_VALUE || fr_is(c, FM_EACH)) {
                continue;
            } else {
                break;
            }
        }
        struct nl_mention *thing = fr_at(f, i + 1);
        if (!m->used && m->arg == FUNC_AVG && thing && thing->kind == KIND_TABLE &&
            f->r.n_group == 1 && fr_gap(f, m, thing) == 0 &&
            str_eq(f->q->t[thing->end - 1].text + strlen(f->q->t[thing->end - 1].text) - 1,
                   "s")) { /* "average loans per month" */
            f->average_of_groups = f->counts = m->used = thing->used = true;
            f->anchor = f->head = thing->table;
        }
        for (int k = i - 1; k >= 0 && k >= i - 4 && !m->used; k--) /* "hours spent in total" */
            if (is_measure_at(f, fr_at(f, k))) {
                add_measure(f, fr_at(f, k)->ref, m->arg);
                m->used = fr_at(f, k)->used = true;
            }
    }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is(m, FM_ONAVG) && !fr_is(m, FM_ADVERB))
            continue;
        if (fr_is(m, FM_ADVERB) && f->n_measures > 0) {
            m->used = true;
            continue;
        }
        if (fr_is(m, FM_ADVERB)) {
            struct nl_ref ref;
            int dir, table = -1;
            for (int k = 0; k < f->m.n && table < 0; k++)
                if (f->m.m[k].kind == KIND_TABLE)
                    table = f->m.m[k].table;
            int with = 0, only = -1; /* the only table that has such a column */
            for (int t = 0; t < f->s->n_tables && table < 0; t++)
                if (fr_hint(f, t, m->hint, &ref, &dir) && dir > 0) {
                    only = t;
                    with++;
                }
            if (table < 0 && with == 1)
                table = only;
            for (int k = 0; k < f->m.n;
                 k++) { /* a column that is named comes before the adverb's */
                struct nl_mention *c = fr_at(f, k);
                if (is_measure_at(f, c) && k > i && speaks_of(f, m->hint, c->ref)) {
                    add_measure(f, c->ref, FUNC_AVG);
                    c->used = m->used = true;
                    break;
                }
            }
            if (!m->used && table >= 0 && fr_hint(f, table, m->hint, &ref, &dir) && dir > 0) {
                add_measure(f, ref, FUNC_AVG);
                m->used = true;
            }
            continue;
        }
        for (int k = 0; k < f->n_measures; k++)
            m->used |= f->measures[k].func == FUNC_AVG;
        for (int k = i - 1; k >= 0 && !m->used; k--)
            if (is_measure_at(f, fr_at(f, k))) {
                add_measure(f, fr_at(f, k)->ref, FUNC_AVG);
                m->used = fr_at(f, k)->used = true;
            }
        for (int k = i + 1; k < f->m.n && !m->used; k++)
            if (is_measure_at(f, fr_at(f, k))) {
                add_measure(f, fr_at(f, k)->ref, FUNC_AVG);
                m->used = fr_at(f, k)->used = true;
            }
        if (!m->used && f->by.func < 0 && f->has_by && f->by.ref.table >= 0) {
            f->by.func = FUNC_AVG;
            m->used = true;
        }
        if (!m->used && f->said[FM_COUNT])
            f->average_of_groups = m->used = true;
        if (!m->used && f->r.n_group > 0)
            f->average_of_groups = m->used = true;
    }
}

/* Only words between that go with any noun. */
static bool is_adjacent(const struct frame *f, int from, int to)
{
    for (int i = from; i < to; i++) {
        const char *w = f->q->t[i].text;
        if (!(str_eq(w, "the") || str_eq(w, "of") || str_eq(w, "different") ||
              str_eq(w, "distinct") || str_eq(w, "unique") || str_eq(w, "our") ||
              str_eq(w, "all") || f->q->t[i].quoted))
            return false;
    }
    return true;
}

static void read_counts(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i), *next = fr_at(f, i + 1);
        if (!fr_is(m, FM_COUNT) || m->used)
            continue;
        bool distinct = false;
        int k = i + 1;
        if (fr_is(next, FM_DISTINCT)) {
            distinct = next->used = true;
            next = fr_at(f, ++k);
        }
        while (next && (next->used || next->kind == KIND_VALUE) && next->kind != KIND_TABLE &&
               k < i + 4)
            next = fr_at(f, ++k);
        bool near = next && fr_gap(f, m, next) <= 1;
        struct nl_mention *before = fr_at(f, i - 1);
        if (before && before->kind == KIND_TABLE && before->end == m->start) { /* "ticket count" */
            f->counts = m->used = before->used = true;
            f->anchor = f->anchor < 0 ? before->table : f->anchor;
            f->head = f->head < 0 ? before->table : f->head;
        } else if (near && next->kind == KIND_TABLE) {
            f->counts = m->used = true;
            if (f->anchor < 0)
                f->anchor = next->table;
            f->head = f->head < 0 ? next->table : f->head;
            next->used = true;
            if (distinct && !fr_key(f->s, next->table, &f->counted))
                return;
        } else if (near && fr_is_col(next) && !next->used && is_adjacent(f, m->end, next->start) &&
                   !(m->end - m->start > 2 && str_eq(f->q->t[m->end - 1].text, "times"))) {
            const struct nl_column *c = fr_c(f, next->ref);
            m->used = next->used = true;
            if (nl_is_date(c)) {
                f->counts = true; /* exams by their date: the rows */
                f->anchor = next->ref.table;
            } else if (fr_is_measure(c) && !distinct) {
                add_measure(f, next->ref, f->average_of_groups ? FUNC_AVG : FUNC_SUM);
                f->average_of_groups = false;
            } else {
                f->counts = true;
                f->counted = next->ref;
            }
        } else if (near && fr_is_col(next) && !next->used && nl_is_date(fr_c(f, next->ref)) &&
                   fr_gap(f, m, next) == 0 && f->anchor < 0) {
            f->counts = m->used = next->used = true; /* "how many people joined" */
            f->anchor = next->ref.table;
            if (fr_c(f, next->ref)->has_nulls)
                (void)fr_filter(f, next->ref, FILTER_IS_NOT_NULL);
        } else if (!f->counts) {
            f->counts = m->used = true;
            /* an unknown noun in the only table is its rows */
            int at = m->end;
            while (at < f->q->n && f->q->t[at].is_stop)
                at++;
            bool linked = false;
            for (int j = 0; j < f->m.n; j++)
                linked |= f->m.m[j].start <= at && f->m.m[j].end > at;
            if (f->s->n_tables == 1 && f->noun < 0 && at < f->q->n && !linked && at - m->end <= 1)
                f->noun = at;
        } else {
            m->used = true;
        }
        if (distinct && f->counted.table < 0 && next && next->kind == KIND_TABLE)
            (void)fr_key(f->s, next->table, &f->counted);
    }
}

/* ---- the rest ---- */

static void read_rest(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->kind == KIND_TABLE && f->head < 0) {
            f->head = m->table;
            m->used = true;
        } else if (m->kind == KIND_TABLE) {
            m->used = m->used || m->table == f->head;
        }
    }
    bool summed = f->r.n_group > 0 || f->n_measures > 0 || f->said[FM_SHARE] ||
                  f->said[FM_RUNNING] || f->said[FM_CHANGE] || f->said[FM_VS] || f->said[FM_TREND];
    int columns = 0, measures = 0;
    for (int i = 0; i < f->m.n; i++)
        if (fr_is_col(fr_at(f, i)) && !fr_at(f, i)->used) {
            columns++;
            measures += is_measure_at(f, fr_at(f, i));
        }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is_col(m) || m->used)
            continue;
        const struct nl_column *c = fr_c(f, m->ref);
        const char *start = f->q->n > 0 ? f->q->t[0].text : "";
        bool asks_list = str_eq(start, "show") || str_eq(start, "list") || str_eq(start, "find") ||
                         str_eq(start, "which") || str_eq(start, "return") ||
                         str_eq(start, "display") ||
                         (str_eq(start, "what") && f->q->n > 1 && str_eq(f->q->t[1].text, "are"));
        bool bare = columns == 1 && !asks_list && !f->counts && f->head < 0 && !f->super &&
                    f->q->n > 1 && !str_eq(f->q->t[0].text, "how");
        bool of_table = columns == 1 && measures == 1 && !f->counts && !f->super &&
                        f->head == m->ref.table && (f->r.n_filters > 0 || f->n_times > 0) &&
                        i + 1 < f->m.n &&
                        str_eq(m->end < f->q->n ? f->q->t[m->end].text : "", "of");
        if (is_measure_at(f, m) && (summed || bare || of_table) && !f->counts &&
            f->n_measures < FRAME_MEASURES && (f->n_measures == 0 || summed)) {
            add_measure(f, m->ref, fr_default_func(c));
            m->used = true;
        } else if (!summed && !f->counts && f->r.n_select < NL_MAX_SELECT) {
            f->r.select[f->r.n_select++] = item_of(m->ref, -1);
            f->lists = m->used = true;
        }
    }
}

/* "how many members have a phone number": of those that a cell is not empty for. */
static void read_having(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (!fr_is_col(m) || m->used || !f->counts || m->start == 0)
            continue;
        const struct nl_column *c = fr_c(f, m->ref);
        bool has = false;
        for (int k = m->start - 1; k >= 0 && k >= m->start - 2; k--) {
            const char *w = f->q->t[k].text;
            has |= str_eq(w, "have") || str_eq(w, "has") || str_eq(w, "had") || str_eq(w, "with");
        }
        if (!has || !c->has_nulls || c->is_flag || !(f->anchor < 0 || f->anchor == m->ref.table))
            continue;
        (void)fr_filter(f, m->ref, FILTER_IS_NOT_NULL);
        m->used = true;
    }
}

void fr_read_shape(struct frame *f)
{
    read_groups(f);
    read_ends(f);
    read_super(f);
    read_first(f);
    read_aggregates(f);
    fr_read_amounts(f);
    read_counts(f);
    read_rest(f);
    read_having(f);
    /* "a pie chart of devices": how many rows of each */
    bool categories = f->charts && f->r.n_select > 0 && f->r.n_select <= 2 && f->n_measures == 0 &&
                      f->r.n_group == 0 && !f->super;
    for (int i = 0; i < f->r.n_select && categories; i++)
        categories = fr_is_category(f, f->r.select[i].ref);
    if (categories) {
        for (int i = 0; i < f->r.n_select; i++)
            add_group_item(f, f->r.select[i].ref, -1);
        f->r.n_select = 0;
        f->counts = true;
    }
}
