#ifndef RIDDLE_NL_SHAPE_H
#define RIDDLE_NL_SHAPE_H

/*
 * What the files that make a reading share: the shape found so far, and small steps towards a
 * reading.
 */

#include "base/macros.h"
#include "nl/nl_impl.h"

#define TOP_DEFAULT 10 /* "the top products" */
#define MANY_ROWS 500
#define LARGE_ROWS 100 /* no longer a table that one reads as a whole */

struct shape {
    struct nl_parse *p;
    struct nl_item super; /* what a superlative is about; func FUNC_COUNT: rows */
    int super_dir;        /* 0: there is none */
    int super_at;
    int super2_dir;        /* "maximum and minimum" */
    struct nl_ref more_of; /* which of two values of this column has more; table < 0: not asked */
    bool super_count, super_bare, super_hinted;
    int limit;
    bool wants_distinct, wants_count, count_distinct, has_group_mark, is_top;
    bool has_by; /* grouped by "by", "per" or a unit of time: what is shown is summed up for each */
    int compare; /* 1: how does … differ; 2: distribution of … */
    struct nl_mention *counted, *counted_too;
    bool counts_rows; /* groups are wanted, so that something has to be grouped by */
    bool who;
};

static inline struct nl_item plain(struct nl_ref ref)
{
    return (struct nl_item){ .ref = ref, .func = -1, .bucket = -1 };
}

static inline struct nl_item aggregate(struct nl_ref ref, int func)
{
    return (struct nl_item){ .ref = ref, .func = func, .bucket = -1 };
}

static const struct nl_ref no_ref = { -1, -1 };

static inline bool same_ref(struct nl_ref a, struct nl_ref b)
{
    return a.table == b.table && a.column == b.column;
}

static inline void add_select(struct nl_reading *r, struct nl_item item)
{
    for (int i = 0; i < r->n_select; i++)
        if (same_ref(r->select[i].ref, item.ref) && r->select[i].func == item.func &&
            r->select[i].bucket == item.bucket)
            return;
    if (r->n_select < NL_MAX_SELECT)
        r->select[r->n_select++] = item;
}

static inline void add_group(struct nl_reading *r, struct nl_item item)
{
    for (int i = 0; i < r->n_group; i++)
        if (same_ref(r->group[i].ref, item.ref) && r->group[i].bucket == item.bucket)
            return;
    if (r->n_group < (int)ARRAY_SIZE(r->group))
        r->group[r->n_group++] = item;
}

static inline void add_order(struct nl_reading *r, struct nl_item item, int dir)
{
    if (r->n_order < (int)ARRAY_SIZE(r->order)) {
        r->order_dir[r->n_order] = dir;
        r->order[r->n_order++] = item;
    }
}

static inline bool is_column(const struct nl_mention *m)
{
    return m && m->kind == KIND_COLUMN;
}

static inline bool is_measure(const struct nl_parse *p, const struct nl_mention *m)
{
    const struct nl_column *c = is_column(m) ? nl_col(p->s, m->ref) : NULL;
    return c && (c->is_numeric || nl_is_date(c)) && !c->is_id;
}

static inline bool has_aggregate(const struct nl_reading *r)
{
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0)
            return true;
    return false;
}

/* Rows are what is asked for: no other column is spoken of that they could be put together by. */
static inline bool asks_for_rows(const struct nl_parse *p)
{
    struct nl_ref own;
    for (int i = 0; i < p->mentions.n; i++)
        if (is_column(&p->mentions.m[i]) && !p->mentions.m[i].used &&
            !is_measure(p, &p->mentions.m[i]))
            return false;
    for (int i = 0; i < p->mentions.n; i++) /* rows of the other table come many times */
        if (p->mentions.m[i].kind == KIND_TABLE && p->mentions.m[i].table != p->r->scope.tables[0])
            return false;
    return p->r->scope.n == 1 && nl_own_id(p->s, p->r->scope.tables[0], &own) &&
           nl_col(p->s, own)->is_key;
}

/* ---- read.c ---- */

bool nl_id_called(const struct nl_parse *p, const struct nl_mention *m, struct nl_ref *ret);

/* ---- read_order.c ---- */

void nl_read_order(struct shape *sh);
void nl_read_chain(struct shape *sh);
void nl_read_super(struct shape *sh);

/* ---- assemble.c, judge.c ---- */

void nl_assemble(struct shape *sh);
void nl_leave_out_totals(struct shape *sh);
void nl_judge(struct shape *sh, const double *table_scores);

#endif
