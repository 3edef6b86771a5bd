/*
 * The reader by rules as others see it: joins, words that were left over, and the whole way of a
 * question.
 */

#include <string.h>

#include "nl/frame.h"

#define JOIN_TABLES_MAX 6
#define WEAKER 0.1 /* as much less as a link may be worth over fewer tables */

int fr_gap(const struct frame *f, const struct nl_mention *a, const struct nl_mention *b)
{
    int n = 0;
    for (int i = a->end; i < b->start; i++)
        n += !f->q->t[i].is_stop && !fr_is_light(f->q->t[i].text);
    return n;
}

/* ---- joins ---- */

/* The column that the question speaks of, where two lead to the same table. */
static bool is_said(const struct frame *f, const struct nl_link_key *k)
{
    for (int i = 0; i < f->m.n; i++)
        if (f->m.m[i].kind == KIND_COLUMN && f->m.m[i].ref.table == k->from_table &&
            f->m.m[i].ref.column == k->from_column)
            return true;
    return false;
}

static const struct nl_link_key *key_from(const struct frame *f, int from, int to,
                                          bool *ret_ambiguous)
{
    const struct nl_link_key *best = NULL;
    bool said = false;
    *ret_ambiguous = false;
    for (int i = 0; i < f->s->n_keys; i++) {
        const struct nl_link_key *k = &f->s->keys[i];
        if (k->from_table != from || k->to_table != to)
            continue;
        if (!best || (is_said(f, k) && !said)) {
            *ret_ambiguous = false;
            best = k;
            said = is_said(f, k);
        } else if (!said && !is_said(f, k)) {
            *ret_ambiguous = true;
        }
    }
    return best;
}

static bool add_to_scope(struct frame *f, int table)
{
    struct nl_scope *sc = &f->r.scope;
    bool ambiguous;
    if (nl_in_scope(sc, table))
        return true;
    for (int i = 0; i < sc->n && sc->n < JOIN_TABLES_MAX; i++) {
        const struct nl_link_key *k = key_from(f, sc->tables[i], table, &ambiguous);
        if (ambiguous)
            return false;
        if (!k)
            continue;
        sc->keys[sc->n] = k;
        sc->tables[sc->n++] = table;
        return true;
    }
    /* by way of a third */
    for (int mid = 0; mid < f->s->n_tables && sc->n + 1 < JOIN_TABLES_MAX; mid++) {
        if (nl_in_scope(sc, mid) || !key_from(f, mid, table, &ambiguous) || ambiguous)
            continue;
        for (int i = 0; i < sc->n; i++)
            if (key_from(f, sc->tables[i], mid, &ambiguous) && !ambiguous)
                return add_to_scope(f, mid) && add_to_scope(f, table);
    }
    return false;
}

static bool is_shown(const struct frame *f, int table)
{
    for (int i = 0; i < f->r.n_select; i++)
        if (f->r.select[i].ref.table == table)
            return true;
    for (int i = 0; i < f->r.n_group; i++)
        if (f->r.group[i].ref.table == table)
            return true;
    for (int i = 0; i < f->r.n_order; i++)
        if (f->r.order[i].ref.table == table)
            return true;
    return false;
}

/*
 * "customers by channel": the rows of the many are gone through, and each of the one is counted
 * once.
 */
static bool count_from_many(struct frame *f)
{
    bool ambiguous;
    for (int i = 0; i < f->r.n_group; i++) {
        int t = f->r.group[i].ref.table;
        const struct nl_link_key *k = t != f->anchor ? key_from(f, t, f->anchor, &ambiguous) : NULL;
        if (!k || ambiguous || key_from(f, f->anchor, t, &ambiguous))
            continue;
        for (int j = 0; j < f->r.n_select; j++) {
            struct nl_item *item = &f->r.select[j];
            if (item->func >= 0 && item->ref.table < 0)
                *item = (struct nl_item){ .ref = { t, k->from_column },
                                          .func = FUNC_COUNT_DISTINCT,
                                          .bucket = -1 };
            else if (item->func >= 0 && item->ref.table == f->anchor)
                return false; /* each would be summed many times */
        }
        f->anchor = t;
    }
    return true;
}

static bool join_all(struct frame *f)
{
    bool ambiguous;
    if (!count_from_many(f))
        return false;
    f->r.scope = (struct nl_scope){ .tables = { f->anchor }, .n = 1 };
    for (int i = 0; i < f->r.n_select; i++)
        if (f->r.select[i].ref.table >= 0 && !add_to_scope(f, f->r.select[i].ref.table))
            return false;
    for (int i = 0; i < f->r.n_group; i++)
        if (f->r.group[i].ref.table >= 0 && !add_to_scope(f, f->r.group[i].ref.table))
            return false;
    for (int i = 0; i < f->r.n_filters; i++) {
        struct nl_filter *x = &f->r.filters[i];
        int t = x->ref.table;
        if (t < 0 || add_to_scope(f, t))
            continue;
        const struct nl_link_key *k = key_from(f, t, f->anchor, &ambiguous);
        if (!k || ambiguous || is_shown(f, t) || (f->semi >= 0 && f->semi != t) || x->having >= 0)
            return false;
        f->semi = t;
        f->semi_key = k;
        f->inside[f->n_inside++] = *x;
        memmove(x, x + 1, sizeof(*x) * (size_t)(f->r.n_filters - i - 1));
        f->r.n_filters--;
        i--;
    }
    return true;
}

bool fr_join(struct frame *f)
{
    if (f->anchor < 0) {
        f->stopped = "no table";
        return false;
    }
    fr_place_times(f);
    bool joined = join_all(f);
    if (!joined)
        f->stopped = "no way between the tables";
    return joined;
}

/* ---- what is not there ---- */

/*
 * "customers who never ordered", "students without any grades", "who has never been assigned an
 * issue"
 */
static void read_absent(struct frame *f)
{
    int at = -1, first = -1;
    for (int i = 0; i < f->m.n; i++) {
        if (fr_is(fr_at(f, i), FM_NOT) && at < 0 && fr_at(f, i)->arg != 3)
            at = i;
        if (f->m.m[i].kind == KIND_TABLE && first < 0)
            first = f->m.m[i].table;
    }
    if (at < 0)
        return;
    int mark = fr_at(f, at)->arg;
    /* a column that leads to a table of those who are asked for */
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        for (int k = 0; fr_is_col(m) && k < f->s->n_keys; k++) {
            const struct nl_link_key *key = &f->s->keys[k];
            if (key->from_table != m->ref.table || key->from_column != m->ref.column)
                continue;
            bool asked = f->said[FM_WHO] || first == key->to_table;
            if (!asked || i < at)
                continue;
            f->anti = key->from_table;
            f->head = key->to_table;
            f->key_hint = m->ref;
            m->used = true;
            for (int j = 0; j < f->m.n; j++)
                if (f->m.m[j].kind == KIND_TABLE)
                    f->m.m[j].used |= f->m.m[j].table == f->anti || f->m.m[j].table == f->head;
            fr_at(f, at)->used = true;
            return;
        }
    }
    if (first < 0)
        return;
    /* "items that were never moved": a column of the rows that there are none of */
    for (int i = at + 1; i < f->m.n && mark == 2; i++) {
        struct nl_mention *m = fr_at(f, i);
        for (int k = 0; k < f->s->n_keys && fr_is_col(m) && m->ref.table != first; k++)
            if (f->s->keys[k].from_table == m->ref.table && f->s->keys[k].to_table == first &&
                i + 1 == f->m.n && !fr_is_measure(fr_c(f, m->ref))) {
                f->anti = m->ref.table;
                f->head = first;
                m->used = fr_at(f, at)->used = true;
                return;
            }
    }
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->kind != KIND_TABLE || m->table == first)
            continue;
        for (int k = 0; k < f->s->n_keys; k++)
            if (f->s->keys[k].from_table == m->table && f->s->keys[k].to_table == first &&
                (i > at || mark == 2)) {
                f->anti = m->table;
                f->head = first;
                m->used = fr_at(f, at)->used = true;
                return;
            }
    }
    /* "articles that were never sold": the only table that speaks of them */
    if (mark != 2 && !(mark == 1 && at + 1 < f->m.n && f->m.m[at + 1].kind == KIND_TABLE))
        return;
    for (int i = at + 1; i < f->m.n; i++)
        if (fr_is_col(fr_at(f, i)) || f->m.m[i].kind == KIND_VALUE)
            return;
    int found = -1;
    for (int k = 0; k < f->s->n_keys; k++)
        if (f->s->keys[k].to_table == first) {
            if (found >= 0 && found != f->s->keys[k].from_table)
                return;
            found = f->s->keys[k].from_table;
        }
    int end = fr_at(f, at)->end;
    if (found < 0 || !fr_is_done_in(f, found, end))
        return;
    f->anti = found;
    f->head = first;
    fr_at(f, at)->used = true;
    /* the verb says what the other table is full of */
    for (int i = end; i < f->q->n && i <= end + 2; i++)
        f->q->t[i].is_stop = true;
}

/* ---- the whole way ---- */

static void note_marks(struct frame *f)
{
    static const char *const yes[] = { "is",   "are", "was", "were", "did",
                                       "does", "do",  "has", "have" };
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        if (m->kind != KIND_MARK)
            continue;
        f->said[m->mark] = true;
        bool orders = m->arg == 0 || m->start == 0; /* "send …", but not "did we send" */
        if (fr_is(m, FM_DECLINE) && !f->reason && orders)
            f->reason = m->hint;
    }
    for (size_t i = 0; i < ARRAY_SIZE(yes) && f->q->n > 0; i++)
        f->yes_no |= str_eq(f->q->t[0].text, yes[i]);
}

/* The first mention that begins at the token or after words that say nothing. */
static int mention_at(const struct frame *f, int at)
{
    for (int i = 0; i < f->m.n; i++) {
        if (f->m.m[i].start < at)
            continue;
        for (int k = at; k < f->m.m[i].start; k++)
            if (!f->q->t[k].is_stop)
                return -1;
        return i;
    }
    return -1;
}

/*
 * "heavier than average" compares with the average, "is rail cheaper than road" compares two
 * values: no number stands behind these comparisons.
 */
static void turn_comparisons(struct frame *f)
{
    for (int i = 0; i < f->m.n; i++) {
        struct nl_mention *m = fr_at(f, i);
        bool sides = fr_is(m, FM_CMP) && (m->arg == FILTER_GT || m->arg == FILTER_LT) &&
                     !(m->hint && (m->hint[0] == '@' || m->hint[0] == '<'));
        int k = sides ? mention_at(f, m->end) : -1;
        if (k >= 0 && fr_is(fr_at(f, k), FM_CMP) && f->m.m[k].hint && str_eq(f->m.m[k].hint, "@~"))
            k = mention_at(f, f->m.m[k].end); /* "higher than from Italy" */
        bool twin = false;                    /* "is A higher than B" */
        for (int j = 0; j < i && k > i; j++)
            twin |= f->m.m[j].kind == KIND_VALUE && fr_same(f->m.m[j].ref, f->m.m[k].ref);
        struct nl_mention *next = k > i ? fr_at(f, k) : NULL, *then = fr_at(f, k + 1);
        if (!next)
            continue;
        bool of_column = fr_is_col(then) && fr_gap(f, next, then) == 0 && k > i;
        if (fr_is(next, FM_AGG) && next->arg == FUNC_AVG && !of_column) {
            m->mark = (enum nl_mark)FM_THAN_AVG;
            next->mark = (enum nl_mark)FM_LIGHT;
        } else if ((m->hint || twin) && next->kind == KIND_VALUE) {
            m->mark = (enum nl_mark)FM_MORE;
            m->arg = m->arg == FILTER_GT ? 1 : -1;
            f->said[FM_VS] = true;
        }
    }
}

int fr_begin(const struct nl_schema *s, const char *question, struct arena *a, struct frame **ret,
             struct err *err)
{
    struct frame *f = arena_alloc(a, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    *f = (struct frame){ .s = s,
                         .a = a,
                         .head = -1,
                         .anchor = -1,
                         .anti = -1,
                         .semi = -1,
                         .noun = -1,
                         .per = -1,
                         .counted = fr_none,
                         .entity = fr_none,
                         .entity_bucket = -1,
                         .per_ref = fr_none,
                         .per_bucket = -1,
                         .key_hint = fr_none,
                         .by = { .ref = fr_none, .func = -1, .bucket = -1 } };
    *ret = f;
    f->q = arena_alloc(a, sizeof(*f->q));
    if (!f->q)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int r = nl_tokenize(question, a, f->q, err);
    return r < 0 ? r : fr_link(f, err);
}

/* other: words that two columns fit are taken for the second one. */
static int read_as(const struct nl_schema *s, const char *question, bool other, struct arena *a,
                   struct frame **ret, bool *ret_complete, struct err *err)
{
    *ret_complete = false;
    int r = fr_begin(s, question, a, ret, err);
    struct frame *f = *ret;
    if (r < 0)
        return r;
    if (other)
        nl_alternate(&f->m);
    turn_comparisons(f);
    note_marks(f);
    if (f->reason)
        return 0;
    read_absent(f);
    fr_read_filters(f);
    for (int i = 0; i < f->m.n; i++) /* "over 20 %" is no share */
        if (f->m.m[i].kind == KIND_MARK && f->m.m[i].used && !fr_is(&f->m.m[i], FM_TIME) &&
            !fr_is(&f->m.m[i], FM_NOT) && !fr_is(&f->m.m[i], FM_VS) && !fr_is(&f->m.m[i], FM_OR))
            f->said[f->m.m[i].mark] = false;
    for (int i = 0; i < f->m.n; i++)
        if (f->m.m[i].kind == KIND_MARK && !f->m.m[i].used)
            f->said[f->m.m[i].mark] = true;
    fr_find_noun(f);
    fr_read_shape(f);
    bool made = fr_apply_rules(f);
    bool understood = fr_understood(f);
    if (made && understood && !f->is_ambiguous && f->plan && nl_is_valid(f->s, f->plan)) {
        *ret_complete = true;
        f->reading = f->reading ?
                         arena_printf(a, "%s%s", f->reading, nl_describe_filters(f->s, &f->r, a)) :
                         nl_describe(f->s, &f->r, a);
        if (!json_object_get(f->plan, "source") && !json_object_get(f->plan, "describe"))
            f->chart = nl_chart(f->s, &f->r, a);
        return 0;
    }
    if (!f->stopped)
        f->stopped = !made           ? "the rule does not fit" :
                     !understood     ? "words are left over" :
                     f->is_ambiguous ? "a value of two columns" :
                                       "not a valid plan";
    json_decref(f->plan);
    f->plan = NULL;
    return 0;
}

/* Both ways to take words that two columns fit. */
static int read_both(const struct nl_schema *s, const char *question, struct arena *a,
                     struct frame **ret, bool *ret_complete, struct err *err)
{
    struct frame *second = NULL;
    bool complete = false, two = false;
    int r = read_as(s, question, false, a, ret, ret_complete, err);
    if (r < 0 || *ret_complete || (*ret)->reason || (*ret)->n_foreign > 0)
        return r;
    for (int i = 0; i < (*ret)->m.n; i++)
        two |= (*ret)->m.m[i].kind == KIND_COLUMN && (*ret)->m.m[i].other.table >= 0;
    if (!two)
        return 0;
    r = read_as(s, question, true, a, &second, &complete, err);
    if (r >= 0 && complete) {
        *ret = second;
        *ret_complete = true;
    }
    return r;
}

/* ---- the same question over fewer tables ---- */

/* The schema with the tables of the scope only; the others keep their places, without columns. */
static const struct nl_schema *within(const struct nl_schema *s, const struct nl_scope *scope,
                                      struct arena *a)
{
    struct nl_schema *few = arena_alloc(a, sizeof(*few));
    struct nl_link_key *keys = arena_alloc(a, sizeof(*keys) * (size_t)MAX_OF(s->n_keys, 1));
    if (!few || !keys)
        return NULL;
    *few = *s;
    few->keys = keys;
    few->n_keys = 0;
    few->only = scope->n == 1 ? scope->tables[0] : -1;
    for (int t = 0; t < s->n_tables; t++)
        if (!nl_in_scope(scope, t)) {
            few->tables[t].n_columns = 0;
            few->tables[t].words.n = 0;
        }
    for (int k = 0; k < s->n_keys; k++)
        if (nl_in_scope(scope, s->keys[k].from_table) && nl_in_scope(scope, s->keys[k].to_table))
            keys[few->n_keys++] = s->keys[k];
    return few;
}

static bool is_name(const struct nl_mention *m)
{
    return m && (m->kind == KIND_COLUMN || m->kind == KIND_TABLE || m->kind == KIND_VALUE);
}

/* Every word that names something of all tables names something of these, and as well. */
static bool keeps_names(const struct frame *all, const struct frame *few)
{
    for (int i = 0; i < all->q->n; i++) {
        const struct nl_mention *m = fr_mention_of(all, i), *own = fr_mention_of(few, i);
        if (is_name(m) && !(own && own->score >= m->score - WEAKER &&
                            (own->used || fr_is_harmless(few, own))))
            return false;
    }
    return few->noun < 0 && few->n_left_out == 0 && few->n_foreign_verbs == 0;
}

static double worth(const struct frame *f)
{
    double sum = 0;
    for (int i = 0; i < f->m.n; i++)
        if (is_name(&f->m.m[i]))
            sum += (f->m.m[i].end - f->m.m[i].start) * f->m.m[i].score;
    return sum;
}

static int read_within(const struct nl_schema *s, const char *question, struct arena *a,
                       struct frame **ret, bool *ret_complete, struct err *err)
{
    struct nl_scope *scopes = arena_alloc(a, sizeof(*scopes) * NL_SCOPES_MAX);
    struct nl_tokens *q = arena_alloc(a, sizeof(*q));
    struct frame *best = NULL;
    double said[NL_MAX_TABLES], most = 0;
    if (!scopes || !q)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    int r = nl_tokenize(question, a, q, err);
    if (r < 0)
        return r;
    nl_prefer_names(s, q);
    int n = nl_find_scopes(s, q, said, a, scopes, err);
    for (int i = 0; i < n && r >= 0; i++) {
        const struct nl_schema *few = within(s, &scopes[i], a);
        struct frame *f = NULL;
        bool complete = false;
        if (!few)
            return err_set(err, ERR_NO_MEMORY, "the question does not fit");
        r = read_both(few, question, a, &f, &complete, err);
        if (r < 0 || !complete)
            continue;
        bool better = worth(f) > most && keeps_names(*ret, f);
        struct frame *loser = better ? best : f;
        if (loser) {
            json_decref(loser->plan);
            json_decref(loser->chart);
        }
        if (better) {
            most = worth(f);
            best = f;
        }
    }
    if (r < 0 || n < 0 || !best)
        return n < 0 ? n : r;
    *ret = best;
    *ret_complete = true;
    return 0;
}

int fr_read(const struct nl_schema *s, const char *question, struct arena *a, struct frame **ret,
            bool *ret_complete, struct err *err)
{
    int r = read_both(s, question, a, ret, ret_complete, err);
    if (r < 0 || *ret_complete || (*ret)->reason || s->n_tables == 1 || (*ret)->n_foreign > 0)
        return r;
    return read_within(s, question, a, ret, ret_complete, err);
}

/* ---- in words ---- */

static const char *const mark_names[_FM_MAX] = {
    [FM_COUNT] = "count",
    [FM_AGG] = "aggregate",
    [FM_SUPER] = "superlative",
    [FM_COMMON] = "most common",
    [FM_CMP] = "comparison",
    [FM_BETWEEN] = "between",
    [FM_EACH] = "for each",
    [FM_BY] = "by",
    [FM_ORDER] = "order",
    [FM_DISTINCT] = "distinct",
    [FM_NOT] = "not",
    [FM_OR] = "or",
    [FM_AND] = "and",
    [FM_CONTAINS] = "contains",
    [FM_NULL] = "empty",
    [FM_SHARE] = "share",
    [FM_RATE] = "rate",
    [FM_TOP] = "top",
    [FM_BUCKET] = "unit of time",
    [FM_VS] = "compared",
    [FM_CHANGE] = "change",
    [FM_RUNNING] = "running total",
    [FM_CORR] = "correlation",
    [FM_OUTLIER] = "outliers",
    [FM_DIST] = "distribution",
    [FM_RATIO] = "ratio",
    [FM_DIFF] = "difference",
    [FM_THAN_AVG] = "than average",
    [FM_COLUMNS] = "columns",
    [FM_DESCRIBE] = "description",
    [FM_ROWS] = "rows",
    [FM_RANK] = "rank",
    [FM_ONAVG] = "on average",
    [FM_DECLINE] = "cannot be answered",
    [FM_MORE] = "comparative",
    [FM_ANY] = "any",
    [FM_WHEN] = "when",
    [FM_WHO] = "who",
    [FM_FIRST] = "first or last",
    [FM_TREND] = "trend",
    [FM_TIME] = "time",
    [FM_LIGHT] = "nothing",
    [FM_OUT] = "out of",
    [FM_ADVERB] = "how much of it",
    [FM_UNREAD] = "not understood",
};

static const char *say_mention(struct frame *f, const struct nl_mention *m)
{
    const struct nl_column *c = fr_c(f, m->ref);
    switch (m->kind) {
    case KIND_COLUMN:
        return arena_printf(f->a, "column %s.%s (%.2f)", f->s->tables[m->ref.table].name, c->name,
                            m->score);
    case KIND_VALUE:
        return arena_printf(f->a, "value '%s' of %s.%s", m->text, f->s->tables[m->ref.table].name,
                            c->name);
    case KIND_TABLE:
        return arena_printf(f->a, "table %s (%.2f)", f->s->tables[m->table].name, m->score);
    case KIND_NUMBER:
        return arena_printf(f->a, "number %g", m->number);
    case KIND_MARK:
        return (size_t)m->mark < ARRAY_SIZE(mark_names) && mark_names[m->mark] ?
                   mark_names[m->mark] :
                   "phrase";
    default:
        return m->kind == KIND_DATE ? "date" : "text";
    }
}

static void put_words(const struct frame *f, int from, int end, struct buf *b)
{
    for (int k = from; k < end; k++)
        (void)buf_printf(b, NULL, "%s%s", k > from ? " " : "", f->q->t[k].text);
}

/* What words stand for in the data; NULL: they are no names of anything. */
static const char *say_meaning(struct frame *f, const struct nl_mention *m)
{
    switch (m->kind) {
    case KIND_COLUMN:
        return arena_printf(f->a, "column `%s`", fr_c(f, m->ref)->name);
    case KIND_VALUE:
        return arena_printf(f->a, "value '%s' of `%s`", m->text, fr_c(f, m->ref)->name);
    case KIND_TABLE:
        return arena_printf(f->a, "table `%s`", f->s->tables[m->table].name);
    default:
        return NULL;
    }
}

json_t *fr_meanings(struct frame *f)
{
    json_t *words = json_array();
    for (int i = 0; i < f->q->n; i++) {
        const struct nl_mention *m = fr_mention_of(f, i);
        const char *is = m && m->used ? say_meaning(f, m) : NULL;
        if (is) {
            auto_buf struct buf text = BUF_INIT(4000);
            put_words(f, i, m->end, &text);
            json_array_append_new(words,
                                  json_pack("{s:s, s:s}", "text", buf_cstr(&text), "is", is));
        }
        i = m ? m->end - 1 : i;
    }
    return words;
}

json_t *fr_explain(struct frame *f)
{
    json_t *words = json_array();
    for (int i = 0; i < f->q->n;) {
        const struct nl_mention *m = fr_mention_of(f, i);
        int end = m ? m->end : i + 1;
        auto_buf struct buf text = BUF_INIT(4000);
        put_words(f, i, end, &text);
        json_t *w = json_pack("{s:s, s:s}", "text", buf_cstr(&text), "is",
                              m ? say_mention(f, m) :
                              f->q->t[i].is_stop || fr_is_light(f->q->t[i].text) ?
                                  "function word" :
                                  "not understood");
        if (w && m)
            json_object_set_new(w, "used", json_boolean(m->used || fr_is_harmless(f, m)));
        json_array_append_new(words, w);
        i = end;
    }
    return words;
}
