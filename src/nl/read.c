/*
 * From mentions to a reading. The filters take their words first (read_filters.c); then order,
 * superlatives, groups, aggregates and counts take theirs, and the columns that are left are what
 * the question wants to see. Where words allow two meanings, the variant chooses, and the features
 * tell which was chosen: scores decide, not this file.
 */

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

/* ---- groups ---- */

static bool key_of_table(const struct nl_schema *s, int table, struct nl_ref *ret)
{
    const struct nl_table *t = &s->tables[table];
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_name)
            return *ret = (struct nl_ref){ table, c }, true;
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_id)
            return *ret = (struct nl_ref){ table, c }, true;
    return false;
}

/* The id of what a table of something else has many rows of: each customer of customer_cards. */
bool nl_id_called(const struct nl_parse *p, const struct nl_mention *m, struct nl_ref *ret)
{
    const struct nl_table *t = &p->s->tables[m->table];
    const char *stem = p->q->t[m->end - 1].stem;
    for (int c = 0; c < t->n_columns && t->words.n > 1; c++) {
        const struct nl_column *x = &t->columns[c];
        for (int w = 0; w < x->words.n && x->is_id && !x->is_key; w++)
            if (str_eq(x->words.stems[w], stem)) {
                *ret = (struct nl_ref){ m->table, c };
                return true;
            }
    }
    return false;
}

/* "develop", "over time": by month, if no other unit was said and there are months to speak of. */
static void read_trend(struct shape *sh, int at)
{
    struct nl_parse *p = sh->p;
    struct nl_ref ref;
    struct nl_mention *m = nl_at(p, at);
    bool timed = false;
    for (int k = 0; k < p->r->n_group; k++)
        timed |= p->r->group[k].bucket >= 0 || nl_is_year(nl_col(p->s, p->r->group[k].ref));
    if (!timed) {
        if (!nl_date_column(p, &ref))
            return;
        const struct nl_column *c = nl_col(p->s, ref);
        char later[11];
        struct nl_item item = plain(ref);
        item.bucket = BUCKET_MONTH;
        if (c->min && c->max && nl_add_months(c->min, 2, later) && strncmp(later, c->max, 10) > 0)
            item.bucket = BUCKET_DAY;
        add_group(p->r, item);
    }
    m->used = sh->has_group_mark = sh->has_by = true;
}

static void read_groups(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    int trend = -1;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        struct nl_ref ref;
        if (nl_is_mark(m, MARK_COMPARE)) {
            sh->compare = m->arg + 1;
            continue;
        }
        if (nl_is_mark(m, MARK_TREND)) {
            trend = i;
            continue;
        }
        bool which = nl_is_mark(m, MARK_BUCKET) && !m->hint && m->start > 0 && sh->super_dir &&
                     (str_eq(p->q->t[m->start - 1].text, "which") ||
                      str_eq(p->q->t[m->start - 1].text, "what"));
        if (nl_is_mark(m, MARK_BUCKET) && (m->hint || which)) {
            if (!m->used && nl_date_column(p, &ref)) {
                struct nl_item item = plain(ref);
                item.bucket = m->arg;
                add_group(p->r, item);
                m->used = sh->has_group_mark = sh->has_by = true;
            }
            continue;
        }
        bool by = nl_is_mark(m, MARK_BY), each = nl_is_mark(m, MARK_GROUP);
        if (sh->compare && nl_is_mark(m, MARK_BETWEEN) && is_column(next))
            each = true;
        bool summed = by || str_eq(p->q->t[m->start].text, "per") ||
                      str_eq(p->q->t[m->start].text, "across") || sh->compare;
        if (m->used || (!by && !each) || !next)
            continue;
        if (nl_is_mark(next, MARK_DISTINCT))
            next = nl_at(p, i + 2);
        if (!next || next->start - m->end > 3 || nl_gap(p, m, next) > 1)
            continue;
        if (nl_is_mark(next, MARK_BUCKET) && nl_date_column(p, &ref)) {
            struct nl_item item = plain(ref);
            item.bucket = next->arg;
            add_group(p->r, item);
            m->used = next->used = sh->has_group_mark = sh->has_by = true;
            struct nl_mention *and_ = nl_at(p, i + 2), *second = nl_at(p, i + 3);
            if (nl_is_mark(and_, MARK_AND) && is_column(second) && !second->used &&
                !is_measure(p, second)) {
                add_group(p->r, plain(second->ref));
                and_->used = second->used = true;
            }
        } else if (by && sh->is_top && is_measure(p, next)) {
            continue; /* read_top() */
        } else if (is_column(next) && !next->used &&
                   (each || !is_measure(p, next) || nl_is_year(nl_col(p->s, next->ref)))) {
            struct nl_item item = plain(next->ref);
            if (nl_is_date(nl_col(p->s, next->ref)) && by)
                item.bucket = -1;
            add_group(p->r, item);
            m->used = next->used = sh->has_group_mark = true;
            sh->has_by |= summed;
            struct nl_mention *and_ = nl_at(p, i + 2), *second = nl_at(p, i + 3);
            if (nl_is_mark(and_, MARK_AND) &&
                (nl_is_mark(second, MARK_BY) || nl_is_mark(second, MARK_GROUP)) &&
                second->start == and_->end) {
                second->used = true; /* "by zone and by day" */
                second = nl_at(p, i + 4);
            }
            if (nl_is_mark(and_, MARK_AND) && nl_is_mark(second, MARK_BUCKET) &&
                nl_date_column(p, &ref)) {
                struct nl_item bucket = plain(ref);
                bucket.bucket = second->arg;
                add_group(p->r, bucket);
                and_->used = second->used = true;
            } else if (nl_is_mark(and_, MARK_AND) && is_column(second) && !second->used &&
                       !is_measure(p, second)) {
                add_group(p->r, plain(second->ref));
                and_->used = second->used = true;
            }
        } else if (each && next->kind == KIND_TABLE &&
                   (nl_id_called(p, next, &ref) || key_of_table(p->s, next->table, &ref))) {
            struct nl_mention *after = nl_at(p, i + 2);
            m->used = next->used = sh->has_group_mark = true;
            if (is_column(after) && after->start == next->end && !after->used &&
                !is_measure(p, after)) {
                ref = after->ref; /* "each student's city" */
                after->used = true;
            } else {
                p->f[FEATURE_GROUP_TABLE] += 1;
            }
            add_group(p->r, plain(ref));
        }
    }
    if (trend >= 0)
        read_trend(sh, trend);
    if (!sh->compare)
        return;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (!nl_is_mark(m, MARK_COMPARE))
            continue;
        m->used = true;
        /* "distribution of status": how many of each */
        if (sh->compare == 2 && is_column(next) && !next->used && !is_measure(p, next) &&
            p->r->n_group == 0) {
            add_group(p->r, plain(next->ref));
            next->used = sh->has_group_mark = sh->has_by = true;
        }
    }
    /* "compare the sales of Books and Toys" */
    for (int i = 0; i < p->r->n_filters && p->r->n_group == 0; i++)
        if (p->r->filters[i].n_texts > 1 && p->r->filters[i].op == FILTER_EQ &&
            !p->r->filters[i].negated) {
            add_group(p->r, plain(p->r->filters[i].ref));
            sh->has_group_mark = sh->has_by = true;
        }
}

/* "top 5 categories by spend": the total of the number, for each. */
static void read_top(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n && sh->is_top; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (!nl_is_mark(m, MARK_BY) || m->used || !next)
            continue;
        int func = FUNC_SUM;
        if (nl_is_mark(next, MARK_AGG)) {
            func = next->arg;
            next->used = true;
            next = nl_at(p, i + 2);
        } else if (nl_is_mark(next, MARK_COUNT)) {
            next->used = m->used = true;
            if (nl_at(p, i + 2))
                nl_at(p, i + 2)->used = true;
            continue;
        }
        if (is_measure(p, next) && !next->used) {
            m->used = next->used = true;
            sh->super = aggregate(next->ref, func);
            if (func == FUNC_SUM && nl_col(p->s, next->ref)->is_rate)
                sh->super.func = FUNC_AVG;
            if (func == FUNC_SUM && p->r->n_group == 0 && asks_for_rows(p))
                sh->super = plain(next->ref);
            sh->super_hinted = sh->super.func < 0; /* the rows, not their greatest value */
            sh->super_count = false;
        }
    }
}

/* ---- aggregates and counts ---- */

static void read_aggregates(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        bool agg = nl_is_mark(m, MARK_AGG), much = nl_is_mark(m, MARK_HOWMUCH);
        if (m->used || (!agg && !much))
            continue;
        int func = much ? FUNC_SUM : m->arg;
        for (int k = i + 1; k < p->mentions.n && k <= i + 4; k++) {
            struct nl_mention *n = nl_at(p, k);
            if (n->kind == KIND_MARK &&
                (n->mark == MARK_AND || n->mark == MARK_AGG || n->mark == MARK_SUPER ||
                 n->mark == MARK_DISTINCT || n->mark == MARK_GROUP))
                continue;
            if (n->kind == KIND_MARK && n->mark == MARK_COUNT)
                continue;
            if (n->kind == KIND_TABLE)
                continue;
            if (!is_column(n))
                break;
            const struct nl_column *c = nl_col(p->s, n->ref);
            if (!c->is_numeric && !c->is_flag) {
                p->f[FEATURE_AGG_NOT_NUMERIC] += 1;
                if (func != FUNC_AVG && func != FUNC_SUM)
                    break;
                continue;
            }
            p->f[FEATURE_AGG_ID] += c->is_id;
            add_select(p->r, aggregate(n->ref, func));
            m->used = n->used = true;
            /* "average age and weight" */
            struct nl_mention *and_ = nl_at(p, k + 1), *second = nl_at(p, k + 2);
            if (nl_is_mark(and_, MARK_AND) && is_measure(p, second) && !second->used &&
                second->start - n->end <= 2 && agg) {
                add_select(p->r, aggregate(second->ref, func));
                second->used = true;
            }
            break;
        }
        /* "average order value" */
        struct nl_mention *what = nl_at(p, i + 1);
        struct nl_ref main;
        bool of_table = what && what->kind == KIND_TABLE && what->start - m->end <= 1;
        if (!m->used && (of_table || much) && !sh->super_dir &&
            (of_table ? nl_main_measure(p->s, what->table, &main) :
                        nl_money_measure(p->s, p->r->scope.tables[0], &main))) {
            add_select(p->r, aggregate(main, func));
            m->used = true;
            p->f[FEATURE_DEFAULT_MEASURE] += 1;
        }
        /* The superlative beside it has the column: "average, maximum and minimum price" */
        if (!m->used && sh->super_dir && !sh->super_count && sh->super.ref.table >= 0 &&
            sh->super_at - i <= 2 && sh->super_at > i) {
            add_select(p->r, aggregate(sh->super.ref, func));
            m->used = true;
        }
    }
}

static void read_counts(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (m->used || !nl_is_mark(m, MARK_COUNT) || sh->wants_count)
            continue;
        m->used = sh->wants_count = true;
        if (nl_is_mark(nl_at(p, i + 1), MARK_COUNT) && nl_at(p, i + 1)->start - m->end <= 1)
            nl_at(p, ++i)->used = true; /* "count the number of" */
        struct nl_mention *next = nl_at(p, i + 1);
        if (nl_is_mark(next, MARK_DISTINCT)) {
            sh->count_distinct = next->used = true;
            next = nl_at(p, i + 2);
        }
        if (next && nl_gap(p, m, next) <= 1 && !next->used &&
            (is_column(next) || next->kind == KIND_TABLE)) {
            struct nl_mention *after = nl_at(p, sh->count_distinct ? i + 3 : i + 2);
            sh->counted = next;
            next->used = true;
            /* "how many movie directors": different ones, or rows */
            if (next->kind == KIND_TABLE && is_column(after) && after->start == next->end &&
                !after->used && (sh->count_distinct || !is_measure(p, after))) {
                sh->counted = after;
                after->used = true;
            }
            /* "the number of different majors and cities" */
            struct nl_mention *and_ = nl_at(p, i + (sh->count_distinct ? 3 : 2)),
                              *too = nl_at(p, i + (sh->count_distinct ? 4 : 3));
            if (sh->count_distinct && is_column(sh->counted) && nl_is_mark(and_, MARK_AND) &&
                is_column(too) && !too->used && nl_gap(p, and_, too) == 0 &&
                (!nl_at(p, i + 5) || !nl_is_mark(nl_at(p, i + 5), MARK_GROUP))) {
                sh->counted_too = too;
                too->used = and_->used = true;
            }
        }
    }
}

/* "the 3 counties with the smallest population" */
static void read_how_many(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < sh->super_at && sh->super_dir && sh->limit == 0; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (m->kind == KIND_NUMBER && !m->used && m->number >= 1 && m->number <= 1000 && next &&
            next->start - m->end <= 1 && (next->kind == KIND_TABLE || is_column(next))) {
            sh->limit = (int)m->number;
            m->used = true;
        }
    }
}

/*
 * Which filters a share counts, and which say of what: "what percentage of the orders from Paris
 * were returned". Those behind the verb are counted; days belong to the whole.
 */
static void split_share(struct nl_parse *p, int share, int only)
{
    static const char *const verbs[] = { "is",  "are",  "was", "were", "goes",  "go",   "went",
                                         "has", "have", "had", "come", "comes", "came", "did" };
    int verb = -1, counted = 0;
    for (int i = nl_at(p, share)->end; i < p->q->n && verb < 0; i++)
        for (size_t k = 0; k < ARRAY_SIZE(verbs); k++)
            if (str_eq(p->q->t[i].text, verbs[k]))
                verb = i;
    for (int pass = 0; pass < 2 && counted == 0; pass++)
        for (int i = 0; i < p->r->n_filters; i++) {
            struct nl_filter *f = &p->r->filters[i];
            const struct nl_mention *m = nl_at(p, p->filter_at[i]);
            bool days = nl_is_date(nl_col(p->s, f->ref)) || f->having >= 0;
            f->in_share = only >= 0 ? p->filter_at[i] == only :
                                      !days && (pass > 0 || verb < 0 || (m && m->start > verb));
            counted += f->in_share;
        }
}

static void read_share(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *before = nl_at(p, i - 1);
        if (!nl_is_mark(m, MARK_SHARE) || m->used)
            continue;
        for (int k = i - 1; k <= i + (m->arg == 0 ? 4 : 2); k++) {
            struct nl_mention *c = nl_at(p, k);
            const struct nl_column *col = is_column(c) && !c->used ? nl_col(p->s, c->ref) : NULL;
            if (col && (col->is_flag)) {
                add_select(p->r, aggregate(c->ref, FUNC_AVG));
                c->used = m->used = true;
                p->f[FEATURE_IS_SHARE] += 1;
                return;
            }
        }
        bool named = m->arg == 1 && before && before->kind == KIND_VALUE && before->used &&
                     nl_gap(p, before, m) == 0;
        struct nl_item item = { .ref = no_ref, .func = FUNC_AVG, .bucket = -1, .is_share = true };
        for (int k = i + 1; k <= i + 2 && m->arg == 0; k++) {
            struct nl_mention *c = nl_at(p, k);
            if (is_measure(p, c) && !c->used && nl_col(p->s, c->ref)->is_numeric &&
                !nl_col(p->s, c->ref)->is_rate) {
                item.ref = c->ref; /* of the money, not of the rows */
                c->used = true;
                break;
            }
        }
        if (p->r->n_filters > 0 && (m->arg == 0 || named) &&
            (p->r->n_group == 0 || named || !sh->has_by)) {
            split_share(p, i, named ? i - 1 : -1);
            p->r->share = m->used = true;
            p->f[FEATURE_IS_SHARE] += 1;
            add_select(p->r, item);
            return;
        }
        if (p->r->n_group > 0 && m->arg == 0) {
            struct nl_item whole = aggregate(item.ref, item.ref.table >= 0 ? FUNC_SUM : FUNC_COUNT);
            item = whole;
            item.is_part = true;
            m->used = true;
            p->f[FEATURE_IS_SHARE] += 1;
            add_select(p->r, whole);
            if (p->r->n_select < NL_MAX_SELECT)
                p->r->select[p->r->n_select++] = item;
            return;
        }
    }
}

/* "difference in points between A and B", "how many more points did A have than B" */
static void read_difference(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!nl_is_mark(m, MARK_DIFF))
            continue;
        struct nl_filter *f = &p->r->filters[0];
        if (p->r->n_filters != 1 || f->n_texts != 2 || f->negated)
            continue;
        for (int k = 0; k < p->mentions.n; k++) {
            struct nl_mention *c = nl_at(p, k);
            if (is_column(c) && !c->used && nl_col(p->s, c->ref)->is_numeric) {
                p->r->diff = 1;
                add_select(p->r, aggregate(c->ref, FUNC_SUM));
                c->used = m->used = true;
                p->f[FEATURE_IS_DIFF] += 1;
                return;
            }
        }
    }
}

/* A table that nothing is taken from has no place in a join. */
static bool speaks_of(const struct nl_reading *r, int table)
{
    bool any = r->n_select == 0 && table == r->scope.tables[0];
    for (int i = 0; i < r->n_select; i++)
        any |= r->select[i].ref.table == table;
    for (int i = 0; i < r->n_filters; i++)
        any |= r->filters[i].ref.table == table;
    for (int i = 0; i < r->n_group; i++)
        any |= r->group[i].ref.table == table;
    for (int i = 0; i < r->n_order; i++)
        any |= r->order[i].ref.table == table;
    for (int i = 0; i < r->n_select; i++) /* the rows of the many are what is counted */
        any |= r->select[i].func == FUNC_COUNT && r->select[i].ref.table < 0 &&
               !nl_key_to(&r->scope, table);
    for (int i = 0; i < r->n_filters; i++)
        any |= r->filters[i].having == FUNC_COUNT && r->filters[i].ref.table < 0 &&
               !nl_key_to(&r->scope, table);
    return any;
}

/* Two others join it: it may be there only for that. */
static bool is_between(const struct nl_scope *scope, int table)
{
    int n = 0;
    for (int i = 1; i < scope->n; i++)
        n += scope->keys[i]->from_table == table || scope->keys[i]->to_table == table;
    return n > 1;
}

/* "pilots that have records": rows of the table there are, though nothing of them is shown. */
static bool is_named_only(struct nl_parse *p, int table)
{
    for (int i = 0; i < p->mentions.n; i++)
        if (nl_at(p, i)->kind == KIND_TABLE && nl_at(p, i)->table == table &&
            nl_at(p, i)->score >= 0.8)
            return true;
    return false;
}

int nl_read(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q,
            unsigned variant, const struct nl_mentions *mentions, const double *table_scores,
            struct arena *a, struct nl_candidate *ret, struct err *err)
{
    struct nl_parse *p = arena_alloc(a, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    *ret = (struct nl_candidate){ .reading = { .scope = *scope } };
    *p = (struct nl_parse){
        .s = s, .q = q, .variant = variant, .r = &ret->reading, .f = ret->features, .arena = a
    };
    struct shape sh = { .p = p, .super = { .ref = no_ref }, .more_of = no_ref };
    p->mentions = *mentions;
    bool any = false;
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = nl_at(p, i);
        any |= m->kind != KIND_MARK && m->kind != KIND_NUMBER;
        sh.who |= nl_is_mark(m, MARK_WHO) && i == 0;
        any |= nl_is_mark(m, MARK_COUNT) || nl_is_mark(m, MARK_COMMON);
    }
    if (!any && !(variant & VARIANT_FRAGMENT))
        return 1;
    /* "the name of the studio" is the studio. */
    for (int i = 0; i + 1 < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (is_column(m) && m->end == m->start + 1 && str_eq(q->t[m->start].stem, "nam") &&
            m->score < 0.95 && is_column(next) && nl_col(s, next->ref)->type == TYPE_TEXT &&
            next->start - m->end <= 3 && m->end < q->n && str_eq(q->t[m->end].text, "of"))
            m->used = true;
    }
    nl_read_filters(p);
    read_difference(&sh);
    nl_read_order(&sh);
    nl_read_chain(&sh);
    nl_read_super(&sh);
    read_how_many(&sh);
    read_groups(&sh);
    read_top(&sh);
    read_share(&sh);
    read_aggregates(&sh);
    read_counts(&sh);
    for (int i = 0; i < p->mentions.n; i++)
        if (nl_is_mark(nl_at(p, i), MARK_DISTINCT) && !nl_at(p, i)->used)
            sh.wants_distinct = nl_at(p, i)->used = true;
    nl_assemble(&sh);
    /* Places in the table mean nothing once rows are put together. */
    bool placed = false;
    for (int i = 0; i < ret->reading.n_filters; i++)
        placed |= ret->reading.filters[i].around != 0;
    for (int i = 0; i < ret->reading.n_order; i++)
        placed |= ret->reading.order[i].ref.table == -3;
    if (placed &&
        (ret->reading.n_group > 0 || has_aggregate(&ret->reading) || ret->reading.scope.n > 1))
        return 1;
    if (placed)
        ret->reading.distinct = false;
    for (int t = 0; t < scope->n && scope->n > 1; t++)
        if (!speaks_of(&ret->reading, scope->tables[t]) && !is_between(scope, scope->tables[t])) {
            if (!is_named_only(p, scope->tables[t]))
                return 1;
            p->f[FEATURE_JOIN_EXISTS] += 1;
        }
    nl_leave_out_totals(&sh);
    nl_judge(&sh, table_scores);
    return 0;
}
