/*
 * From mentions to a reading. The filters take their words first (read_filters.c); then order, superlatives, groups, aggregates
 * and counts take theirs, and the columns that are left are what the question wants to see. Where words allow two
 * meanings, the variant chooses, and the features tell which was chosen: scores decide, not this file.
 */

#include <math.h>
#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

#define TABLE_SAID 0.6 /* a table that is spoken of no better is not missed */

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
        if (nl_is_mark(m, MARK_BUCKET) && m->hint) {
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
        bool summed = by || str_eq(p->q->t[m->start].text, "per") || str_eq(p->q->t[m->start].text, "across") || sh->compare;
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
            if (nl_is_mark(and_, MARK_AND) && is_column(second) && !second->used && !is_measure(p, second)) {
                add_group(p->r, plain(second->ref));
                and_->used = second->used = true;
            }
        } else if (by && sh->is_top && is_measure(p, next)) {
            continue; /* read_top() */
        } else if (is_column(next) && !next->used && (each || !is_measure(p, next) || nl_is_year(nl_col(p->s, next->ref)))) {
            struct nl_item item = plain(next->ref);
            if (nl_is_date(nl_col(p->s, next->ref)) && by)
                item.bucket = -1;
            add_group(p->r, item);
            m->used = next->used = sh->has_group_mark = true;
            sh->has_by |= summed;
            struct nl_mention *and_ = nl_at(p, i + 2), *second = nl_at(p, i + 3);
            if (nl_is_mark(and_, MARK_AND) && (nl_is_mark(second, MARK_BY) || nl_is_mark(second, MARK_GROUP)) && second->start == and_->end) {
                second->used = true; /* "by zone and by day" */
                second = nl_at(p, i + 4);
            }
            if (nl_is_mark(and_, MARK_AND) && nl_is_mark(second, MARK_BUCKET) && nl_date_column(p, &ref)) {
                struct nl_item bucket = plain(ref);
                bucket.bucket = second->arg;
                add_group(p->r, bucket);
                and_->used = second->used = true;
            } else if (nl_is_mark(and_, MARK_AND) && is_column(second) && !second->used && !is_measure(p, second)) {
                add_group(p->r, plain(second->ref));
                and_->used = second->used = true;
            }
        } else if (each && next->kind == KIND_TABLE && key_of_table(p->s, next->table, &ref)) {
            struct nl_mention *after = nl_at(p, i + 2);
            m->used = next->used = sh->has_group_mark = true;
            if (is_column(after) && after->start == next->end && !after->used && !is_measure(p, after)) {
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
        if (sh->compare == 2 && is_column(next) && !next->used && !is_measure(p, next) && p->r->n_group == 0) {
            add_group(p->r, plain(next->ref));
            next->used = sh->has_group_mark = sh->has_by = true;
        }
    }
    /* "compare the sales of Books and Toys" */
    for (int i = 0; i < p->r->n_filters && p->r->n_group == 0; i++)
        if (p->r->filters[i].n_texts > 1 && p->r->filters[i].op == FILTER_EQ && !p->r->filters[i].negated) {
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
            if (n->kind == KIND_MARK && (n->mark == MARK_AND || n->mark == MARK_AGG || n->mark == MARK_SUPER || n->mark == MARK_DISTINCT ||
                                         n->mark == MARK_GROUP))
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
            if (nl_is_mark(and_, MARK_AND) && is_measure(p, second) && !second->used && second->start - n->end <= 2 && agg) {
                add_select(p->r, aggregate(second->ref, func));
                second->used = true;
            }
            break;
        }
        /* "average order value" */
        struct nl_mention *what = nl_at(p, i + 1);
        struct nl_ref main;
        bool of_table = what && what->kind == KIND_TABLE && what->start - m->end <= 1;
        if (!m->used && (of_table || much) && !sh->super_dir && nl_main_measure(p->s, of_table ? what->table : p->r->scope.tables[0], &main)) {
            add_select(p->r, aggregate(main, func));
            m->used = true;
            p->f[FEATURE_DEFAULT_MEASURE] += 1;
        }
        /* The superlative beside it has the column: "average, maximum and minimum price" */
        if (!m->used && sh->super_dir && !sh->super_count && sh->super.ref.table >= 0 && sh->super_at - i <= 2 && sh->super_at > i) {
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
        struct nl_mention *next = nl_at(p, i + 1);
        if (nl_is_mark(next, MARK_DISTINCT)) {
            sh->count_distinct = next->used = true;
            next = nl_at(p, i + 2);
        }
        if (next && nl_gap(p, m, next) <= 1 && !next->used && (is_column(next) || next->kind == KIND_TABLE)) {
            struct nl_mention *after = nl_at(p, p->mentions.n > i + 2 ? i + 2 : -1);
            sh->counted = next;
            next->used = true;
            if (next->kind == KIND_TABLE && is_column(after) && after->start == next->end && !after->used && sh->count_distinct) {
                sh->counted = after;
                after->used = true;
            }
        }
    }
}

/* "how many caps did A and B win": together */
static bool names_several(const struct nl_parse *p)
{
    for (int i = 0; i < p->r->n_filters; i++)
        if (p->r->filters[i].n_texts > 1 && !p->r->filters[i].negated)
            return true;
    return false;
}

/* The count as an item: rows, different values, or a column that already holds numbers. */
static void place_count(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    bool other = p->variant & VARIANT_COUNT;
    const struct nl_column *c = is_column(sh->counted) ? nl_col(p->s, sh->counted->ref) : NULL;
    if (c && c->is_numeric && !c->is_id && !c->is_flag && !sh->count_distinct) {
        p->f[FEATURE_COUNT_NUMERIC] += 1;
        if (nl_is_year(c) != ((p->variant & VARIANT_DEFAULT) != 0)) {
            p->f[FEATURE_COUNT_ROWS] += 1;
            add_select(p->r, aggregate(no_ref, other ? FUNC_COUNT_DISTINCT : FUNC_COUNT));
            if (other)
                p->r->select[p->r->n_select - 1].ref = sh->counted->ref;
        } else if (other != (p->r->n_filters > 0 && !names_several(p))) {
            p->f[FEATURE_COUNT_COLUMN] += 1;
            add_select(p->r, plain(sh->counted->ref));
        } else {
            p->f[FEATURE_SUM_FOR_COUNT] += 1;
            add_select(p->r, aggregate(sh->counted->ref, FUNC_SUM));
        }
        return;
    }
    if (c && c->is_flag && !sh->count_distinct && !other) {
        struct nl_filter *f = nl_add_filter(p, sh->counted->ref, FILTER_EQ, 0);
        if (f)
            f->text[f->n_texts++] = "true";
        add_select(p->r, aggregate(no_ref, FUNC_COUNT));
        p->f[FEATURE_COUNT_FLAG] += 1;
        return;
    }
    const struct nl_link_key *key = p->r->scope.key;
    if (sh->counted && sh->counted->kind == KIND_TABLE && p->r->scope.n > 1 && key->to_table == sh->counted->table) {
        /* A join repeats the rows of the one for each of the many. */
        p->f[FEATURE_COUNT_ROWS] += 1;
        add_select(p->r, aggregate((struct nl_ref){ key->to_table, key->to_column }, FUNC_COUNT_DISTINCT));
        return;
    }
    struct nl_ref own;
    if (sh->counted && sh->counted->kind == KIND_TABLE && p->r->scope.n == 1 && !other && nl_own_id(p->s, sh->counted->table, &own) &&
        !nl_col(p->s, own)->is_key && p->s->tables[sh->counted->table].n_rows >= LARGE_ROWS) {
        /* Sensors that have many readings each. */
        p->f[FEATURE_COUNT_ENTITY] += 1;
        add_select(p->r, aggregate(own, FUNC_COUNT_DISTINCT));
        return;
    }
    bool distinct = c && sh->count_distinct;
    if (other)
        distinct = c ? !distinct : false;
    if (distinct) {
        p->f[sh->count_distinct ? FEATURE_DISTINCT_SAID : FEATURE_COUNT_DISTINCT] += 1;
        p->f[FEATURE_COUNT_ENTITY] += c->is_id && !c->is_key;
        add_select(p->r, aggregate(sh->counted->ref, FUNC_COUNT_DISTINCT));
    } else {
        p->f[FEATURE_COUNT_ROWS] += 1;
        if (sh->count_distinct)
            p->f[FEATURE_DISTINCT_DROPPED] += 1;
        if (c)
            p->f[FEATURE_COUNT_OF_NAME] += c->is_name || c->is_id ? 0.5 : 1;
        add_select(p->r, aggregate(no_ref, FUNC_COUNT));
    }
}

/* ---- putting it together ---- */

static bool has_aggregate(const struct nl_reading *r)
{
    for (int i = 0; i < r->n_select; i++)
        if (r->select[i].func >= 0)
            return true;
    return false;
}

static void add_defaults(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    bool other = p->variant & VARIANT_DEFAULT;
    int names = 0, table = r->scope.tables[0];
    for (int i = p->mentions.n - 1; i >= 0; i--) /* of two tables the one that is spoken of first */
        if (nl_at(p, i)->kind == KIND_TABLE)
            table = nl_at(p, i)->table;
    const struct nl_table *t = &p->s->tables[table];
    struct nl_ref own;
    bool has_name = false;
    if (r->n_select > 0)
        return;
    for (int i = 0; i < r->n_filters && !other; i++)
        if (r->filters[i].around) { /* "who came after X": another one of what X is */
            add_select(r, plain(r->filters[i].ref));
            return;
        }
    bool all = false;
    for (int i = 0; i < p->q->n; i++) /* "all information about" */
        all |= str_eq(p->q->t[i].text, "information") || str_eq(p->q->t[i].text, "everything") || str_eq(p->q->t[i].text, "info") ||
               str_eq(p->q->t[i].text, "details");
    if (all)
        other = !other;
    for (int c = 0; c < t->n_columns; c++)
        has_name |= t->columns[c].is_name;
    if (!has_name && !all && nl_own_id(p->s, table, &own)) {
        bool alone = sh->counts_rows || (other && nl_col(p->s, own)->is_key);
        p->f[alone && !sh->counts_rows ? FEATURE_DEFAULT_KEY_ONLY : FEATURE_DEFAULT_KEY] += 1;
        /* Rows without a name of their own are shown as they are; of things with many rows, which they are. */
        if (!nl_col(p->s, own)->is_key && !other) {
            add_select(r, plain(own));
            sh->wants_distinct = true;
            return;
        }
        if (alone)
            add_select(r, plain(own));
        return;
    }
    if (!other) {
        for (int c = 0; c < t->n_columns && names < 2; c++)
            if (t->columns[c].is_name) {
                add_select(r, plain((struct nl_ref){ table, c }));
                names++;
            }
        /* No name: the first text, which in a hand-made table is what the row is about. */
        for (int c = 0; c < t->n_columns && names == 0; c++)
            if (t->columns[c].type == TYPE_TEXT && !t->columns[c].is_id && !t->columns[c].numeric_text) {
                add_select(r, plain((struct nl_ref){ table, c }));
                names++;
            }
        p->f[FEATURE_DEFAULT_NAME] += 1;
    }
    if (r->n_select == 0)
        p->f[FEATURE_DEFAULT_ALL] += 1;
    p->f[FEATURE_WHO] += sh->who && !other;
}

/* "the 3 counties with the smallest population" */
static void read_how_many(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < sh->super_at && sh->super_dir && sh->limit == 0; i++) {
        struct nl_mention *m = nl_at(p, i), *next = nl_at(p, i + 1);
        if (m->kind == KIND_NUMBER && !m->used && m->number >= 1 && m->number <= 1000 && next && next->start - m->end <= 1 &&
            (next->kind == KIND_TABLE || is_column(next))) {
            sh->limit = (int)m->number;
            m->used = true;
        }
    }
}

static bool is_plural(const struct nl_token *t)
{
    size_t n = strlen(t->text);
    return n > 3 && t->text[n - 1] == 's' && t->text[n - 2] != 's' && !str_eq(t->stem, t->text);
}

/* "Which customers spent the most" is a list where there are many; in a small table it is the first one. */
static int how_many_best(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    if (p->s->tables[p->r->scope.tables[0]].n_rows < MANY_ROWS)
        return 1;
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = nl_at(p, i);
        if (m->kind == KIND_TABLE || (is_column(m) && !is_measure(p, m)))
            return is_plural(&p->q->t[m->end - 1]) ? TOP_DEFAULT : 1;
    }
    return 1;
}

static void place_super(struct shape *sh, bool others_shown)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    bool flip = p->variant & VARIANT_SUPER;
    if (!sh->super_dir)
        return;
    if (sh->super.ref.table == -3) {
        r->limit = sh->limit ? sh->limit : 1;
        if (sh->super_dir > 0)
            add_order(r, sh->super, -1);
        return;
    }
    if (!sh->super_count && sh->super.func < 0) {
        /* Of a column: its greatest value, or the row that has it. */
        struct nl_mention *m = nl_at(p, sh->super_at), *before = nl_at(p, sh->super_at - 1);
        bool with = before && before->kind == KIND_MARK && (before->mark == MARK_WHERE || before->mark == MARK_WHO);
        for (int k = m->start - 1; k >= 0 && k >= m->start - 2; k--)
            with |= str_eq(p->q->t[k].text, "has") || str_eq(p->q->t[k].text, "have") || str_eq(p->q->t[k].text, "had") ||
                    str_eq(p->q->t[k].text, "with");
        bool value = !others_shown && !with && !sh->super_hinted && sh->limit <= 1;
        if (sh->super2_dir || sh->has_group_mark || has_aggregate(r))
            value = true;
        p->f[FEATURE_SUPER_FLIPPED] += flip;
        if (flip)
            value = !value;
        if (value) {
            p->f[FEATURE_SUPER_AGG] += 1;
            p->f[FEATURE_SUPER_AGG_WITH_SELECT] += others_shown && !sh->has_group_mark;
            add_select(r, aggregate(sh->super.ref, sh->super_dir > 0 ? FUNC_MAX : FUNC_MIN));
            if (sh->super2_dir)
                add_select(r, aggregate(sh->super.ref, sh->super2_dir > 0 ? FUNC_MAX : FUNC_MIN));
            return;
        }
    } else if (flip && !sh->is_top) {
        p->f[FEATURE_UNUSED_SUPER] += 1;
        return;
    }
    p->f[FEATURE_SUPER_HINTED] += sh->super_hinted;
    bool common = nl_is_mark(nl_at(p, sh->super_at), MARK_COMMON);
    p->f[!sh->super_count ? FEATURE_SUPER_ORDER : common ? FEATURE_SUPER_COMMON :
         sh->super_bare ? FEATURE_SUPER_COUNT : FEATURE_SUPER_COUNT_SAID] += 1;
    add_order(r, sh->super, sh->super_dir > 0 ? -1 : 1);
    r->limit = sh->limit ? sh->limit : how_many_best(sh);
}

/* "revenue by region" is its sum for each, "temperature by room" the average, "orders by status" how many there are. */
static void imply_aggregate(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    int n = 0;
    for (int i = 0; i < r->n_select; i++) { /* "hires per year": the day that is put into years */
        bool bucketed = false;
        for (int k = 0; k < r->n_group; k++)
            bucketed |= r->group[k].bucket >= 0 && same_ref(r->group[k].ref, r->select[i].ref) && r->select[i].bucket < 0;
        if (!bucketed)
            r->select[n++] = r->select[i];
    }
    r->n_select = n;
    bool any = false, table = sh->compare > 0 || r->n_select == 0;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_column *c = nl_col(p->s, r->select[i].ref);
        if (r->select[i].bucket >= 0 || !c->is_numeric || c->is_id || nl_is_year(c))
            continue;
        r->select[i].func = c->is_rate || c->is_flag ? FUNC_AVG : FUNC_SUM;
        any = true;
    }
    if (!any && table && r->n_group > 0) {
        struct nl_item count = aggregate(no_ref, FUNC_COUNT);
        for (int i = 0; i < p->mentions.n && r->scope.n > 1; i++)
            if (nl_at(p, i)->kind == KIND_TABLE && nl_at(p, i)->table == r->scope.key->to_table)
                count = aggregate((struct nl_ref){ r->scope.key->to_table, r->scope.key->to_column }, FUNC_COUNT_DISTINCT);
        add_select(r, count);
        p->f[FEATURE_IMPLIED_COUNT] += 1;
        any = true;
    } else {
        p->f[FEATURE_IMPLIED_AGG] += any;
    }
}

/* Who a key belongs to, if the other table of the scope tells: products by their name, not only by their number. */
static void name_groups(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    const struct nl_link_key *k = r->scope.key;
    int n = r->n_group;
    for (int i = 0; i < n && r->scope.n > 1; i++) {
        struct nl_ref ref = r->group[i].ref, name;
        bool from = ref.table == k->from_table && ref.column == k->from_column, to = ref.table == k->to_table && ref.column == k->to_column;
        if ((!from && !to) || r->group[i].bucket >= 0)
            continue;
        const struct nl_table *t = &p->s->tables[k->to_table];
        for (int c = 0; c < t->n_columns; c++)
            if (t->columns[c].is_name) {
                name = (struct nl_ref){ k->to_table, c };
                add_group(r, plain(name));
                p->f[FEATURE_GROUP_NAMED] += 1;
                break;
            }
    }
}

/* "which products" are shown with their names, even if only their number is called product. */
static void name_id(struct shape *sh, const struct nl_mention *m)
{
    struct nl_parse *p = sh->p;
    const struct nl_table *t = &p->s->tables[m->ref.table];
    if (!t->columns[m->ref.column].is_key)
        return;
    for (int k = m->start; k < m->end; k++)
        if (str_eq(p->q->t[k].stem, "id") || str_eq(p->q->t[k].stem, "number") || str_eq(p->q->t[k].stem, "code"))
            return;
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_name) {
            add_select(p->r, plain((struct nl_ref){ m->ref.table, c }));
            return;
        }
}

/* "revenue in France": of many rows nobody wants a list of bare numbers. */
static bool only_numbers(struct shape *sh)
{
    const struct nl_parse *p = sh->p;
    const struct nl_reading *r = p->r;
    if (r->n_select == 0 || r->n_group > 0 || sh->super_dir || sh->wants_count || r->n_order > 0 || has_aggregate(r) ||
        p->s->tables[r->scope.tables[0]].n_rows < LARGE_ROWS)
        return false;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_column *c = nl_col(p->s, r->select[i].ref);
        if (!c->is_numeric || c->is_id || c->is_flag || nl_is_year(c))
            return false;
    }
    return true;
}

static void assemble(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    bool others = false;

    if (sh->wants_count)
        place_count(sh);
    /* What is left is what is to be shown; a flag is a condition instead. */
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (!is_column(m) || m->used)
            continue;
        const struct nl_column *c = nl_col(p->s, m->ref);
        bool is_condition = c->is_flag && (sh->wants_count || r->n_select > 0 || i > 0);
        m->used = true;
        if (is_condition) {
            struct nl_filter *f = nl_add_filter(p, m->ref, FILTER_EQ, i);
            if (f)
                f->text[f->n_texts++] = nl_is_mark(nl_at(p, i - 1), MARK_NOT) ? "false" : "true";
            if (nl_is_mark(nl_at(p, i - 1), MARK_NOT))
                nl_at(p, i - 1)->used = true;
            continue;
        }
        others = true;
        add_select(r, plain(m->ref));
        name_id(sh, m);
    }
    if (sh->has_by && !has_aggregate(r) && !sh->super_dir)
        imply_aggregate(sh);
    else if (only_numbers(sh) && !(p->variant & VARIANT_GROUP))
        imply_aggregate(sh);
    if (sh->wants_count && is_column(sh->counted)) { /* "teams of players and the number of players in each" */
        int n = 0;
        for (int i = 0; i < r->n_select; i++)
            if (!(r->select[i].func < 0 && same_ref(r->select[i].ref, sh->counted->ref)))
                r->select[n++] = r->select[i];
        r->n_select = n;
    }
    bool order_aggregate = sh->super_dir && (sh->super_count || sh->super.func >= 0) && !(p->variant & VARIANT_SUPER && !sh->is_top);
    place_super(sh, others || (sh->wants_count && r->n_select > 0));
    for (int i = 0; i < r->n_order; i++)
        order_aggregate |= r->order[i].func >= 0;
    bool having = false;
    for (int i = 0; i < r->n_filters; i++)
        having |= r->filters[i].having >= 0;

    bool aggregates = has_aggregate(r);
    if (aggregates || order_aggregate || having) {
        /* Columns beside an aggregate are what it is for. */
        bool implied = false;
        sh->counts_rows = true;
        if (r->n_select == 0 && r->n_group == 0)
            add_defaults(sh);
        bool drop = p->variant & VARIANT_GROUP && r->n_group == 0 && aggregates && !order_aggregate && !having;
        if (!drop && (!(p->variant & VARIANT_GROUP) || r->n_group == 0))
            for (int i = 0; i < r->n_select; i++)
                if (r->select[i].func < 0) {
                    add_group(r, r->select[i]);
                    implied = true;
                }
        if (sh->has_group_mark)
            p->f[FEATURE_GROUP_SAID] += 1;
        if (implied)
            p->f[FEATURE_GROUP_IMPLIED] += 1;
        if (implied && !sh->has_group_mark && !order_aggregate && !having && aggregates) {
            /* "how many rooms have a king bed": what comes behind the count is hardly what it is for. */
            int what = -1, column = -1;
            for (int i = 0; i < p->mentions.n; i++) {
                const struct nl_mention *m = nl_at(p, i);
                if (what < 0 && (nl_is_mark(m, MARK_COUNT) || nl_is_mark(m, MARK_AGG) || nl_is_mark(m, MARK_SUPER)))
                    what = i;
                for (int k = 0; k < r->n_group && column < 0; k++)
                    if (is_column(m) && same_ref(m->ref, r->group[k].ref))
                        column = i;
            }
            p->f[FEATURE_GROUP_AFTER] += column > what;
            p->f[FEATURE_GROUP_BEFORE] += column < what;
        }
        if (r->n_group == 0 && !aggregates)
            p->f[FEATURE_HAVING_NO_GROUP] += 1;
        if (drop || (p->variant & VARIANT_GROUP && r->n_group > 0 && !implied)) {
            p->f[FEATURE_GROUP_DROPPED] += 1;
            int n = 0; /* only what was said is grouped by; other plain columns go */
            for (int i = 0; i < r->n_select; i++)
                if (r->select[i].func >= 0)
                    r->select[n++] = r->select[i];
            r->n_select = n;
        }
        /* The most common value is a value. */
        if (order_aggregate && nl_is_mark(nl_at(p, sh->super_at), MARK_COMMON) && sh->super_dir && r->n_group == 1 && r->group[0].ref.table >= 0)
            nl_add_filter(p, r->group[0].ref, FILTER_IS_NOT_NULL, p->mentions.n);
        name_groups(sh);
        for (int i = 0; i < r->n_group; i++) {
            const struct nl_column *c = nl_col(p->s, r->group[i].ref);
            p->f[FEATURE_GROUP_UNIQUE] += c && (c->is_unique || c->is_key) && r->group[i].bucket < 0;
            p->f[FEATURE_GROUP_MEASURE] += c && c->is_numeric && !c->is_id && !c->is_flag && !nl_is_year(c);
            bool named = false;
            for (int k = 0; k < p->s->n_keys && r->scope.n == 1; k++)
                named |= same_ref(r->group[i].ref, (struct nl_ref){ p->s->keys[k].from_table, p->s->keys[k].from_column });
            p->f[FEATURE_GROUP_UNNAMED] += named;
        }
        /* The groups come first in the result. */
        struct nl_item shown[NL_MAX_SELECT];
        int n = 0;
        for (int i = 0; i < r->n_group; i++)
            shown[n++] = r->group[i];
        for (int i = 0; i < r->n_select && n < NL_MAX_SELECT; i++)
            if (r->select[i].func >= 0)
                shown[n++] = r->select[i];
        for (int i = 0; i < r->n_order && n < NL_MAX_SELECT; i++) {
            bool there = false;
            for (int k = 0; k < n; k++)
                there |= same_ref(shown[k].ref, r->order[i].ref) && shown[k].func == r->order[i].func;
            if (!there && r->order[i].func >= 0)
                shown[n++] = r->order[i];
        }
        memcpy(r->select, shown, sizeof(shown));
        r->n_select = n;
        /* An order by a plain column of a grouped table is by its total; its only row otherwise. */
        for (int i = 0; i < r->n_order; i++) {
            bool grouped = r->order[i].func >= 0 || r->order[i].ref.table < 0;
            for (int k = 0; k < r->n_group; k++)
                grouped |= same_ref(r->group[k].ref, r->order[i].ref);
            if (!grouped)
                r->order[i].func = FUNC_MAX;
        }
    } else {
        for (int i = 0; i < r->n_group; i++) /* "the name of each student": nothing to group */
            add_select(r, r->group[i]);
        r->n_group = 0;
        add_defaults(sh);
        bool repeats = true; /* a column without repetitions is distinct anyway */
        for (int i = 0; i < r->n_select; i++)
            repeats &= !nl_col(p->s, r->select[i].ref)->is_unique;
        p->f[FEATURE_SHOWS_REPEATED] += r->n_select == 1 && repeats && !sh->wants_distinct && r->n_filters == 0;
        r->distinct = repeats && sh->wants_distinct != ((p->variant & VARIANT_DISTINCT) != 0);
        p->f[FEATURE_LARGE_REPEATED] +=
            r->n_select == 1 && repeats && !r->distinct && r->limit == 0 && p->s->tables[r->scope.tables[0]].n_rows >= LARGE_ROWS;
        if (r->n_select == 0)
            r->distinct = false;
        if (r->distinct)
            p->f[sh->wants_distinct ? FEATURE_DISTINCT_SAID : FEATURE_DISTINCT_UNSAID] += 1;
        else if (sh->wants_distinct)
            p->f[FEATURE_DISTINCT_DROPPED] += 1;
        if (r->distinct && !sh->wants_distinct && r->n_filters > 0)
            p->f[FEATURE_DISTINCT_FILTERED] += 1;
        if (r->distinct)
            for (int i = 0; i < r->n_order; i++)
                if (r->order[i].ref.table >= 0)
                    add_select(r, r->order[i]);
    }
    for (int i = 0; i < r->n_order; i++)
        if (r->order[i].ref.table == -2)
            r->order[i] = r->n_select ? r->select[0] : plain((struct nl_ref){ r->scope.tables[0], 0 });
    /* What rows are ordered by is shown with them. */
    if (r->n_select > 0 && !r->distinct && r->n_group == 0 && !has_aggregate(r))
        for (int i = 0; i < r->n_order; i++)
            if (r->order[i].func < 0 && r->order[i].ref.table >= 0) {
                struct nl_item key = r->order[i];
                key.hidden_key = true;
                add_select(r, key);
            }
}

/* A table that ends with its own total must not count it as one more row. */
static void leave_out_totals(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    const struct nl_table *t = &p->s->tables[p->r->scope.tables[0]];
    if (p->r->n_order == 0 && !has_aggregate(p->r))
        return;
    for (int c = 0; c < t->n_columns && c < 3; c++)
        for (size_t v = 0; v < t->columns[c].n_values; v++) {
            const char *x = t->columns[c].values[v];
            if (!str_ieq(x, "total") && !str_ieq(x, "totals") && !str_ieq(x, "total:") && !str_ieq(x, "grand total"))
                continue;
            for (int i = 0; i < p->r->n_filters; i++)
                if (p->r->filters[i].ref.column == c && p->r->filters[i].ref.table == p->r->scope.tables[0])
                    return;
            struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ p->r->scope.tables[0], c }, FILTER_EQ, p->mentions.n);
            if (f) {
                f->text[f->n_texts++] = x;
                f->negated = true;
            }
            return;
        }
}

/*
 * Which filters a share counts, and which say of what: "what percentage of the orders from Paris were returned". Those behind the
 * verb are counted; days belong to the whole.
 */
static void split_share(struct nl_parse *p, int share, int only)
{
    static const char *const verbs[] = { "is", "are", "was", "were", "goes", "go", "went", "has", "have", "had", "come", "comes", "came", "did" };
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
            f->in_share = only >= 0 ? p->filter_at[i] == only : !days && (pass > 0 || verb < 0 || (m && m->start > verb));
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
        bool named = m->arg == 1 && before && before->kind == KIND_VALUE && before->used && nl_gap(p, before, m) == 0;
        struct nl_item item = { .ref = no_ref, .func = FUNC_AVG, .bucket = -1, .is_share = true };
        for (int k = i + 1; k <= i + 2 && m->arg == 0; k++) {
            struct nl_mention *c = nl_at(p, k);
            if (is_measure(p, c) && !c->used && nl_col(p->s, c->ref)->is_numeric && !nl_col(p->s, c->ref)->is_rate) {
                item.ref = c->ref; /* of the money, not of the rows */
                c->used = true;
                break;
            }
        }
        if (p->r->n_filters > 0 && (m->arg == 0 || named) && (p->r->n_group == 0 || named || !sh->has_by)) {
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

/* ---- features of what was left ---- */

/* Numbers that only tell rows apart: weeks, rounds, years. Nobody adds them up. */
static bool is_sequence(const struct nl_column *c)
{
    static const char *const words[] = { "no", "number", "week", "round", "gam", "episod", "pick", "rank", "match", "stag", "heat", "lan", "seed" };
    if (!c || c->formula || !c->is_numeric)
        return false;
    for (int i = 0; i < c->words.n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(words); k++)
            if (str_eq(c->words.stems[i], words[k]) && c->is_unique)
                return true;
    return nl_is_year(c) || c->is_id;
}

/* Does what is shown fit what was asked for, as far as its kind tells? */
static void judge_kind(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    const struct nl_reading *r = p->r;
    double *f = p->f;
    const struct nl_mention *asked = NULL;
    bool who = false, when = false, number = false;
    for (int i = 0; i < p->q->n; i++) {
        const char *w = p->q->t[i].text;
        bool wh = str_eq(w, "which") || str_eq(w, "what") || str_eq(w, "whose");
        for (int k = 0; k < p->mentions.n && wh && !asked; k++) {
            const struct nl_mention *m = nl_at(p, k);
            int gap = 0;
            for (int t = i + 1; t < m->start; t++)
                gap += !p->q->t[t].is_stop;
            if (m->start > i && is_column(m) && gap == 0 && m->start - i <= 4)
                asked = m;
            if (m->start > i)
                break;
        }
        who |= str_eq(w, "who") || str_eq(w, "whom");
        when |= str_eq(w, "when");
        number |= i + 1 < p->q->n && str_eq(w, "how") && (str_eq(p->q->t[i + 1].text, "many") || str_eq(p->q->t[i + 1].text, "much"));
    }
    const struct nl_item *first = r->n_select > 0 ? &r->select[0] : NULL;
    const struct nl_column *c = first ? nl_col(p->s, first->ref) : NULL;
    bool figure = first && (first->func >= 0 || (c && c->is_numeric));
    bool day = c && first->func < 0 && (nl_is_date(c) || nl_is_year(c));
    for (int i = 0; c && !day && first->func < 0 && i < c->words.n; i++)
        day = str_eq(c->words.stems[i], "dat") || str_eq(c->words.stems[i], "year") || str_eq(c->words.stems[i], "tim");
    bool shown = false;
    for (int i = 0; asked && i < r->n_select; i++)
        shown |= same_ref(r->select[i].ref, asked->ref);
    f[FEATURE_ASKED_SHOWN] = asked && shown;
    f[FEATURE_ASKED_MISSING] = asked && !shown;
    f[FEATURE_WHO_FIGURE] = who && figure && !day;
    f[FEATURE_WHEN_OTHER] = when && !day && first;
    f[FEATURE_NUMBER_TEXT] = number && !figure;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_item *it = &r->select[i];
        f[FEATURE_SUM_SEQUENCE] += it->func == FUNC_SUM && is_sequence(nl_col(p->s, it->ref));
        for (int k = 0; k < r->n_filters && !it->hidden_key; k++)
            if (same_ref(it->ref, r->filters[k].ref) && r->filters[k].op == FILTER_EQ && r->filters[k].n_texts == 1 && !r->filters[k].negated &&
                !r->filters[k].around && !it->is_share) {
                f[FEATURE_COUNT_FIXED] += it->func == FUNC_COUNT_DISTINCT;
                f[FEATURE_SHOWS_FIXED] += it->func < 0 && r->n_select == 1;
            }
    }
}

static void judge(struct shape *sh, const double *table_scores)
{
    struct nl_parse *p = sh->p;
    double *f = p->f, links = 0, quality = 0;
    bool covered[NL_MAX_TOKENS] = { false };
    int words = 0, unused = 0;

    f[FEATURE_BIAS] = 1;
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = nl_at(p, i);
        for (int k = m->start; k < m->end; k++)
            covered[k] = true;
        if (m->kind == KIND_COLUMN) {
            links++;
            quality += m->score;
            f[FEATURE_LINK_WEAK] += m->score < 0.7;
            if (m->other.table >= 0) {
                f[FEATURE_LINK_AMBIGUOUS] += 1;
                if (p->variant & VARIANT_ALTERNATE)
                    f[FEATURE_ALTERNATE_GAP] += m->other_score - m->score;
            }
            f[FEATURE_UNUSED_COLUMN] += !m->used;
        }
        if (m->used || m->kind == KIND_COLUMN || m->kind == KIND_TABLE)
            continue;
        if (m->kind == KIND_NUMBER || m->kind == KIND_DATE) {
            f[FEATURE_UNUSED_NUMBER] += str_eq(p->q->t[m->start].text, "one") ? 0.3 : 1;
            continue;
        }
        if (m->kind != KIND_MARK) {
            f[FEATURE_UNUSED_OTHER] += 1;
            continue;
        }
        switch (m->mark) {
        case MARK_NOT:
            f[FEATURE_UNUSED_NOT] += 1;
            break;
        case MARK_OR:
            f[FEATURE_UNUSED_OR] += 1;
            break;
        case MARK_CMP:
        case MARK_BETWEEN:
        case MARK_CONTAINS:
        case MARK_NULL:
            f[FEATURE_UNUSED_CMP] += 1;
            break;
        case MARK_GROUP:
            f[FEATURE_UNUSED_GROUP] += p->r->n_group == 0 && !sh->wants_count ? 0.3 : 1;
            break;
        case MARK_BY: /* "by category", and there is none */
            f[FEATURE_UNUSED_BY] += m->end < p->q->n && !p->q->t[m->end].is_stop && !p->q->t[m->end].capital &&
                                    !(i + 1 < p->mentions.n && nl_at(p, i + 1)->start == m->end);
            break;
        case MARK_SUPER:
        case MARK_COMMON:
        case MARK_TOP:
            f[FEATURE_UNUSED_SUPER] += 1;
            break;
        case MARK_AGG:
        case MARK_HOWMUCH:
            f[FEATURE_UNUSED_AGG] += 1;
            break;
        case MARK_COUNT:
            f[FEATURE_UNUSED_COUNT] += 1;
            break;
        case MARK_ORDER:
        case MARK_ASC:
        case MARK_DESC:
        case MARK_ALPHA:
            f[FEATURE_UNUSED_ORDER] += 1;
            break;
        case MARK_DIFF:
        case MARK_AFTER:
        case MARK_SHARE:
        case MARK_LAST:
            f[FEATURE_UNSUPPORTED] += 1;
            break;
        case MARK_BUCKET:
        case MARK_TREND:
        case MARK_TIMES:
        case MARK_OUT:
        case MARK_COMPARE:
            f[FEATURE_UNUSED_OTHER] += 1;
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < p->q->n; i++) {
        const struct nl_token *t = &p->q->t[i];
        if (t->is_stop)
            continue;
        words++;
        if (!covered[i]) {
            unused++;
            f[FEATURE_UNUSED_CAPITAL] += (t->capital && i > 0) || t->quoted;
        }
    }
    f[FEATURE_UNUSED_WORDS] = MIN_OF(unused, 3);
    f[FEATURE_UNUSED_WORDS_2] = MAX_OF(unused - 3, 0) > 4 ? 4 : MAX_OF(unused - 3, 0);
    f[FEATURE_UNUSED_SHARE] = words ? (double)unused / words : 0;
    f[FEATURE_LINK_QUALITY] = links ? quality / links : 0.7;
    f[FEATURE_ALTERNATE] = (p->variant & VARIANT_ALTERNATE) != 0;
    f[FEATURE_N_FILTERS] = MIN_OF(p->r->n_filters, 4);
    f[FEATURE_NO_FILTER] = p->r->n_filters == 0;
    f[FEATURE_MANY_SELECT] = MAX_OF(p->r->n_select - 3, 0);
    f[FEATURE_JOINED] = p->r->scope.n > 1;
    /* A join repeats the rows of the one: sums over them would be too large. */
    for (int i = 0; i < p->r->n_select && p->r->scope.n > 1; i++)
        if (p->r->select[i].func == FUNC_SUM && p->r->select[i].ref.table == p->r->scope.key->to_table)
            f[FEATURE_UNSUPPORTED] += 1;
    f[FEATURE_LISTS] = p->r->n_group > 0 || p->r->limit > 1;
    f[FEATURE_LONG] = MAX_OF(p->q->n - 12, 0) / 5.0;
    f[FEATURE_SINGLE_TABLE] = p->s->n_tables == 1;
    f[FEATURE_ONLY_TABLE_SAID] = p->s->n_tables == 1 ? table_scores[0] : 0;
    if (p->s->n_tables > 1) {
        double mine = table_scores[p->r->scope.tables[0]], best = 0;
        for (int t = 0; t < p->s->n_tables; t++)
            if (table_scores[t] >= TABLE_SAID && t != p->r->scope.tables[0] && !(p->r->scope.n > 1 && t == p->r->scope.tables[1]))
                best = MAX_OF(best, table_scores[t]);
        f[FEATURE_TABLE_SCORE] = mine;
        f[FEATURE_TABLE_OTHER_BETTER] = MAX_OF(best - mine, 0);
        f[FEATURE_TABLE_NOT_SAID] = mine < 0.4;
    }
    static const char *const auxiliaries[] = { "is", "are", "was", "were", "did", "does", "do", "has", "have" };
    for (size_t i = 0; i < ARRAY_SIZE(auxiliaries) && p->q->n > 0; i++)
        f[FEATURE_YES_NO] += str_eq(p->q->t[0].text, auxiliaries[i]);
    for (int i = 0; i < p->r->n_filters; i++)
        f[FEATURE_HAS_HAVING] += p->r->filters[i].having >= 0;
}

/* A table that nothing is taken from has no place in a join. */
static bool speaks_of(const struct nl_reading *r, int table)
{
    bool any = r->n_select == 0;
    for (int i = 0; i < r->n_select; i++)
        any |= r->select[i].ref.table == table;
    for (int i = 0; i < r->n_filters; i++)
        any |= r->filters[i].ref.table == table;
    for (int i = 0; i < r->n_group; i++)
        any |= r->group[i].ref.table == table;
    for (int i = 0; i < r->n_order; i++)
        any |= r->order[i].ref.table == table;
    for (int i = 0; i < r->n_select; i++) /* the rows of the many are what is counted */
        any |= r->select[i].func == FUNC_COUNT && r->select[i].ref.table < 0 && r->scope.key->from_table == table;
    return any;
}

int nl_read(const struct nl_schema *s, const struct nl_scope *scope, const struct nl_tokens *q, unsigned variant,
            const struct nl_mentions *mentions, const double *table_scores, struct arena *a, struct nl_candidate *ret, struct err *err)
{
    struct nl_parse *p = arena_alloc(a, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "the question does not fit");
    *ret = (struct nl_candidate){ .reading = { .scope = *scope } };
    *p = (struct nl_parse){ .s = s, .q = q, .variant = variant, .r = &ret->reading, .f = ret->features, .arena = a };
    struct shape sh = { .p = p, .super = { .ref = no_ref } };
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
        if (is_column(m) && m->end == m->start + 1 && str_eq(q->t[m->start].stem, "nam") && m->score < 0.95 && is_column(next) &&
            nl_col(s, next->ref)->type == TYPE_TEXT && next->start - m->end <= 3 && m->end < q->n && str_eq(q->t[m->end].text, "of"))
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
    assemble(&sh);
    /* Places in the table mean nothing once rows are put together. */
    bool placed = false;
    for (int i = 0; i < ret->reading.n_filters; i++)
        placed |= ret->reading.filters[i].around != 0;
    for (int i = 0; i < ret->reading.n_order; i++)
        placed |= ret->reading.order[i].ref.table == -3;
    if (placed && (ret->reading.n_group > 0 || has_aggregate(&ret->reading) || ret->reading.scope.n > 1))
        return 1;
    if (placed)
        ret->reading.distinct = false;
    for (int t = 0; t < scope->n && scope->n > 1; t++)
        if (!speaks_of(&ret->reading, scope->tables[t]))
            return 1;
    leave_out_totals(&sh);
    judge(&sh, table_scores);
    judge_kind(&sh);
    return 0;
}
