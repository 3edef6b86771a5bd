/* What is asked for: groups, measures, counts, columns to list; frame_super.c has the best ones. */

#include <string.h>

#include "nl/rules.h"

#define SMALL_ROWS 30
#define FEW_VALUES 15

void fr_add_measure(struct frame *f, struct nl_ref ref, int func)
{
    for (int i = 0; i < f->n_measures; i++)
        if (fr_same(f->measures[i].ref, ref) && f->measures[i].func == func)
            return;
    if (f->n_measures < FRAME_MEASURES)
        f->measures[f->n_measures++] = fr_item(ref, func);
}

static void add_group_item(struct frame *f, struct nl_ref ref, int bucket)
{
    for (int i = 0; i < f->r.n_group; i++)
        if (fr_same(f->r.group[i].ref, ref) && f->r.group[i].bucket == bucket)
            return;
    if (f->r.n_group < (int)ARRAY_SIZE(f->r.group)) {
        f->r.group[f->r.n_group] = fr_item(ref, -1);
        f->r.group[f->r.n_group++].bucket = bucket;
    }
}

bool fr_measure_at(const struct frame *f, const struct nl_mention *m)
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
        bool func = fr_is(a, FM_AGG) && fr_measure_at(f, b);
        struct nl_mention *c = func ? b : a;
        if (func || (fr_measure_at(f, a) && fr_c(f, a->ref)->n_values > SMALL_ROWS)) {
            fr_add_measure(f, c->ref, func ? a->arg : fr_default_func(fr_c(f, c->ref)));
            m->used = a->used = c->used = true;
            return true;
        }
    }
    bool ranks = f->said[FM_SUPER] || f->said[FM_TOP] || f->said[FM_RANK] || f->said[FM_COMMON];
    if (!ranks || !a)
        return false;
    if (fr_is(a, FM_AGG) && fr_measure_at(f, b)) {
        f->by = fr_item(b->ref, a->arg);
        a->used = b->used = true;
    } else if (fr_is(a, FM_COUNT) && b &&
               (b->kind == KIND_TABLE || (fr_is_col(b) && !fr_is_measure(fr_c(f, b->ref))))) {
        f->by = fr_item(fr_none, FUNC_COUNT);
        if (b->kind == KIND_TABLE)
            f->anchor = b->table;
        a->used = b->used = true;
    } else if (fr_measure_at(f, a)) {
        f->by = fr_item(a->ref, -1);
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
    if (fr_mention_of(f, at))
        return false;
    bool square = at + 1 < f->q->n && str_eq(f->q->t[at].text, "square");
    const char *unit = square ? "sqm" : at < f->q->n ? f->q->t[at].text : "";
    int found = -1, n = 0, table = before->ref.table;
    for (int c = 0; c < f->s->tables[table].n_columns && fr_is_unit(unit); c++) {
        const struct nl_column *col = &f->s->tables[table].columns[c];
        if (fr_has_unit(col) && fr_is_measure(col) && fr_unit_factor(col, unit) == 1 &&
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
            bool of_few = fr_is(func, FM_AGG) && func->arg != FUNC_SUM && fr_measure_at(f, next) &&
                          fr_c(f, next->ref)->type == TYPE_INTEGER &&
                          fr_c(f, next->ref)->n_values <= FEW_VALUES;
            if (measure && fr_measure_at(f, next) && !of_few) {
                f->per_ref = next->ref;
                m->used = next->used = true;
                continue;
            }
        }
        int k = i + 1;
        struct nl_mention *also = fr_at(f, i - 1); /* "gender split by plan": by both */
        bool split = fr_is(m, FM_BY) && str_starts(f->q->t[m->start].text, "split") &&
                     fr_is_col(also) && !also->used && fr_is_category(f, also->ref) &&
                     also->end == m->start;
        if (!read_group_at(f, k))
            continue;
        if (split && read_group_at(f, i - 1))
            f->counts = true;
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
            if (fr_measure_at(f, c) ||
                (fr_is_col(c) && !c->used && fr_c(f, c->ref)->is_numeric && m->arg != FUNC_SUM &&
                 !fr_c(f, c->ref)->is_id && !nl_is_year(fr_c(f, c->ref)))) {
                fr_add_measure(f, c->ref, m->arg);
                for (int j = i + 1; j < k; j++) /* "minimum and maximum price" */
                    if (fr_is(fr_at(f, j), FM_AGG) && !fr_at(f, j)->used) {
                        fr_add_measure(f, c->ref, fr_at(f, j)->arg);
                        fr_at(f, j)->used = true;
                    }
                m->used = c->used = true;
                struct nl_mention *and_ = fr_at(f, k + 1), *more = fr_at(f, k + 2);
                if (fr_is(and_, FM_AND) && fr_measure_at(f, more) && more->start - and_->end <= 1) {
                    fr_add_measure(f, more->ref, m->arg);
                    and_->used = more->used = true;
                }
            } else if (fr_is(c, FM_COUNT) && fr_measure_at(f, fr_at(f, k + 1)) &&
                       fr_at(f, k + 1)->start - c->end <= 1) {
                c->used = true; /* "median number of seats" */
            } else if (fr_is(c, FM_AGG) && c->arg == FUNC_SUM && m->arg == FUNC_AVG && k == i + 1 &&
                       fr_measure_at(f, fr_at(f, k + 1)) && f->r.n_group == 1) {
                /* "average total cost per day" */
                fr_add_measure(f, fr_at(f, k + 1)->ref, FUNC_SUM);
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
            if (fr_measure_at(f, fr_at(f, k))) {
                fr_add_measure(f, fr_at(f, k)->ref, m->arg);
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
                if (fr_measure_at(f, c) && k > i && speaks_of(f, m->hint, c->ref)) {
                    fr_add_measure(f, c->ref, FUNC_AVG);
                    c->used = m->used = true;
                    break;
                }
            }
            if (!m->used && table >= 0 && fr_hint(f, table, m->hint, &ref, &dir) && dir > 0) {
                fr_add_measure(f, ref, FUNC_AVG);
                m->used = true;
            }
            continue;
        }
        for (int k = 0; k < f->n_measures; k++)
            m->used |= f->measures[k].func == FUNC_AVG;
        for (int k = i - 1; k >= 0 && !m->used; k--)
            if (fr_measure_at(f, fr_at(f, k))) {
                fr_add_measure(f, fr_at(f, k)->ref, FUNC_AVG);
                m->used = fr_at(f, k)->used = true;
            }
        for (int k = i + 1; k < f->m.n && !m->used; k++)
            if (fr_measure_at(f, fr_at(f, k))) {
                fr_add_measure(f, fr_at(f, k)->ref, FUNC_AVG);
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

/* Only words between that go with any noun, or values: "how many monthly donors". */
static bool is_adjacent(const struct frame *f, int from, int to)
{
    for (int i = from; i < to; i++) {
        const char *w = f->q->t[i].text;
        bool fine = str_eq(w, "the") || str_eq(w, "of") || str_eq(w, "different") ||
                    str_eq(w, "distinct") || str_eq(w, "unique") || str_eq(w, "our") ||
                    str_eq(w, "all") || f->q->t[i].quoted;
        for (int k = 0; k < f->m.n && !fine; k++)
            fine = f->m.m[k].kind == KIND_VALUE && f->m.m[k].start <= i && f->m.m[k].end > i;
        if (!fine)
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
                fr_add_measure(f, next->ref, f->average_of_groups ? FUNC_AVG : FUNC_SUM);
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
            if (f->s->only >= 0 && f->noun < 0 && at < f->q->n && !fr_mention_of(f, at) &&
                at - m->end <= 1)
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
            measures += fr_measure_at(f, fr_at(f, i));
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
        if (fr_measure_at(f, m) && (summed || bare || of_table) && !f->counts &&
            f->n_measures < FRAME_MEASURES && (f->n_measures == 0 || summed)) {
            bool earned = fr_is_earned(fr_word(f, m->start));
            fr_add_measure(f, m->ref, earned ? FUNC_SUM : fr_default_func(c));
            m->used = true;
        } else if (!summed && !f->counts && f->r.n_select < NL_MAX_SELECT) {
            f->r.select[f->r.n_select++] = fr_item(m->ref, -1);
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
    fr_read_ends(f);
    fr_read_super(f);
    fr_read_first(f);
    read_aggregates(f);
    fr_read_amounts(f);
    read_counts(f);
    read_rest(f);
    read_having(f);
    /* "a pie chart of devices", "why do they leave": how many rows of each */
    bool categories = (f->charts || f->asks_why) && f->r.n_select > 0 && f->r.n_select <= 2 &&
                      f->n_measures == 0 && f->r.n_group == 0 && !f->super;
    for (int i = 0; i < f->r.n_select && categories; i++)
        categories = fr_is_category(f, f->r.select[i].ref);
    if (categories) {
        for (int i = 0; i < f->r.n_select; i++)
            add_group_item(f, f->r.select[i].ref, -1);
        f->r.n_select = 0;
        f->counts = true;
    }
}
