/*
 * Which tables a question is read over. Each table covers some words of the question by its name,
 * its columns and its values. Tables that cover much are worth a reading alone; two or three that
 * cover more together are worth one if keys join them, directly or through tables between them.
 */

#include <string.h>

#include "base/macros.h"
#include "nl/nl_impl.h"

#define SINGLE_MAX 4
#define SINGLE_WORTH 0.6 /* of the best one's */
#define JOINED_OF 6      /* tables that explain most, each with each */
#define JOINED_MAX 5     /* joins that are read, in both directions */
#define TABLES_MAX 5     /* of one join */
#define ADDS_WORTH 0.35  /* what a table has to add to a join */
#define BETWEEN_COST 0.3 /* of a table that is there only to join others */
#define SAID_WORTH 0.8
#define CALLED 0.95 /* a table that is called by its name may be joined though it adds no word */

struct worth {
    double of[NL_MAX_TOKENS]; /* how well each word is covered */
    double sum;
};

struct join {
    struct nl_scope scope;
    double worth;
};

/* How much of the question a table's own name, columns and values explain. */
static int explain(const struct nl_schema *s, int t, const struct nl_tokens *q, double said,
                   struct arena *a, struct worth *ret, struct err *err)
{
    struct nl_scope scope = { .tables = { t }, .n = 1 };
    struct nl_mentions *m = arena_alloc(a, sizeof(*m));
    int r = m ? nl_link(s, &scope, q, a, m, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0)
        return r;
    *ret = (struct worth){ .sum = said * SAID_WORTH };
    for (int i = 0; i < m->n; i++) {
        const struct nl_mention *x = &m->m[i];
        bool names = x->kind == KIND_COLUMN || x->kind == KIND_VALUE;
        double score = x->score * x->score;
        if (names)
            ret->sum += (x->end - x->start) * score;
        for (int k = x->start; k < x->end && (names || x->kind == KIND_TABLE); k++)
            ret->of[k] = score * (x->kind == KIND_TABLE ? SAID_WORTH : 1);
    }
    return 0;
}

/* What tables [0, n) of the scope explain together. */
static double together(const struct worth *w, const struct nl_scope *scope, int n, int tokens)
{
    double sum = 0;
    for (int k = 0; k < tokens; k++) {
        double best = 0;
        for (int i = 0; i < n; i++)
            best = MAX_OF(best, w[scope->tables[i]].of[k]);
        sum += best;
    }
    return sum;
}

/* The better key: declared, then by its name, then by its values. */
static bool is_better(const struct nl_link_key *k, const struct nl_link_key *than)
{
    return !than || (k->declared && !than->declared) ||
           (!k->by_values && than->by_values && !than->declared);
}

/* It names one row of the other table: a join by anything else repeats rows of both by chance. */
static bool is_sound(const struct nl_schema *s, const struct nl_link_key *k)
{
    const struct nl_column *to = &s->tables[k->to_table].columns[k->to_column];
    return k->declared || to->is_unique || to->is_key || to->is_serial;
}

static const struct nl_link_key *key_between(const struct nl_schema *s, int a, int b)
{
    const struct nl_link_key *best = NULL;
    for (int i = 0; i < s->n_keys; i++) {
        const struct nl_link_key *k = &s->keys[i];
        if (((k->from_table == a && k->to_table == b) ||
             (k->from_table == b && k->to_table == a)) &&
            is_sound(s, k) && is_better(k, best))
            best = k;
    }
    return best;
}

/*
 * Adds the shortest way from the tables of the scope to this one. Of ways of one length the one is
 * taken that explains more. False: there is none that is short enough.
 */
static bool reach(const struct nl_schema *s, const struct worth *w, struct nl_scope *scope, int to)
{
    int before[NL_MAX_TABLES], depth[NL_MAX_TABLES], queue[NL_MAX_TABLES], n = 0;
    for (int t = 0; t < s->n_tables; t++)
        before[t] = depth[t] = -1;
    for (int i = 0; i < scope->n; i++) {
        depth[scope->tables[i]] = 0;
        queue[n++] = scope->tables[i];
    }
    for (int i = 0; i < n && depth[to] < 0; i++)
        for (int t = 0; t < s->n_tables; t++) {
            bool better = depth[t] == depth[queue[i]] + 1 && before[t] >= 0 &&
                          w[queue[i]].sum > w[before[t]].sum;
            if ((depth[t] >= 0 && !better) || !key_between(s, queue[i], t))
                continue;
            if (depth[t] < 0)
                queue[n++] = t;
            depth[t] = depth[queue[i]] + 1;
            before[t] = queue[i];
        }
    if (depth[to] < 0 || scope->n + depth[to] > TABLES_MAX)
        return false;
    int way[NL_MAX_TABLES], len = 0;
    for (int t = to; depth[t] > 0; t = before[t])
        way[len++] = t;
    while (len > 0) {
        int t = way[--len];
        scope->keys[scope->n] = key_between(s, before[t], t);
        scope->tables[scope->n++] = t;
    }
    return true;
}

static bool same_tables(const struct nl_scope *a, const struct nl_scope *b)
{
    for (int i = 0; i < a->n; i++)
        if (!nl_in_scope(b, a->tables[i]))
            return false;
    return a->n == b->n;
}

/* Keeps the best ones, in order. */
static void keep(struct join *list, int *n, const struct join *x)
{
    for (int i = 0; i < *n; i++)
        if (same_tables(&list[i].scope, &x->scope))
            return;
    int k = MIN_OF(*n, JOINED_MAX);
    for (; k > 0 && list[k - 1].worth < x->worth; k--)
        if (k < JOINED_MAX)
            list[k] = list[k - 1];
    if (k < JOINED_MAX) {
        list[k] = *x;
        *n = MIN_OF(*n + 1, JOINED_MAX);
    }
}

/* The same join from its other end: columns of its first table come first. */
static struct nl_scope turned(const struct nl_scope *scope)
{
    struct nl_scope ret = { .tables = { scope->tables[scope->n - 1] }, .n = 1 };
    while (ret.n < scope->n)
        for (int i = 1; i < scope->n; i++) {
            const struct nl_link_key *k = scope->keys[i];
            bool from = nl_in_scope(&ret, k->from_table), to = nl_in_scope(&ret, k->to_table);
            if (from == to)
                continue;
            ret.keys[ret.n] = k;
            ret.tables[ret.n++] = from ? k->to_table : k->from_table;
        }
    return ret;
}

int nl_find_scopes(const struct nl_schema *s, const struct nl_tokens *q,
                   double said[NL_MAX_TABLES], struct arena *a,
                   struct nl_scope ret[NL_SCOPES_MAX], struct err *err)
{
    struct worth *w = arena_alloc(a, sizeof(*w) * NL_MAX_TABLES);
    struct join joins[JOINED_MAX + 1];
    int order[NL_MAX_TABLES], n = 0, n_joins = 0;
    if (!w)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    for (int t = 0; t < s->n_tables; t++)
        said[t] = nl_table_mentioned(s, t, q);
    if (s->n_tables == 1) {
        ret[0] = (struct nl_scope){ .tables = { 0 }, .n = 1 };
        return 1;
    }
    for (int t = 0; t < s->n_tables; t++) {
        int r = explain(s, t, q, said[t], a, &w[t], err), k = t;
        if (r < 0)
            return r;
        for (; k > 0 && w[order[k - 1]].sum < w[t].sum; k--)
            order[k] = order[k - 1];
        order[k] = t;
    }
    for (int i = 0; i < MIN_OF(s->n_tables, SINGLE_MAX); i++)
        if (i == 0 || w[order[i]].sum >= SINGLE_WORTH * w[order[0]].sum)
            ret[n++] = (struct nl_scope){ .tables = { order[i] }, .n = 1 };
    int best = MIN_OF(s->n_tables, JOINED_OF);
    for (int i = 0; i < best; i++)
        for (int j = i + 1; j < best; j++)
            for (int k = j; k < best; k++) { /* k == j: two of them */
                struct join x = { .scope = { .tables = { order[i] }, .n = 1 } };
                struct nl_scope three = { .tables = { order[i], order[j], order[k] } };
                struct nl_scope two = { .tables = { order[i], order[j] } },
                                last = { .tables = { order[j] } },
                                other = { .tables = { order[i], order[k] } },
                                rest = { .tables = { order[j], order[k] } };
                int ends = k == j ? 2 : 3;
                x.worth = together(w, &three, 3, q->n);
                /* Each has to add something that the others do not have. */
                bool adds = ends == 2 ? x.worth >= together(w, &three, 1, q->n) + ADDS_WORTH &&
                                            x.worth >= together(w, &last, 1, q->n) + ADDS_WORTH :
                                        x.worth >= together(w, &two, 2, q->n) + ADDS_WORTH &&
                                            x.worth >= together(w, &other, 2, q->n) + ADDS_WORTH &&
                                            x.worth >= together(w, &rest, 2, q->n) + ADDS_WORTH;
                bool called = ends == 2 && said[order[i]] >= CALLED && said[order[j]] >= CALLED &&
                              key_between(s, order[i], order[j]);
                if (!(adds || called) || !reach(s, w, &x.scope, order[j]) ||
                    (ends == 3 && !nl_in_scope(&x.scope, order[k]) &&
                     !reach(s, w, &x.scope, order[k])))
                    continue;
                x.worth -= BETWEEN_COST * (x.scope.n - ends);
                keep(joins, &n_joins, &x);
            }
    for (int i = 0; i < n_joins; i++) {
        ret[n++] = joins[i].scope;
        ret[n++] = turned(&joins[i].scope);
    }
    return n;
}
