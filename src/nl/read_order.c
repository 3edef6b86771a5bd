/*
 * The words that put rows in order: "sorted by", "the highest", "top five", "minimum and maximum".
 */

#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

/* ---- order ---- */

/* "sort the names in descending order of price": what follows the later words is meant. */
static bool is_said_again(struct nl_parse *p, int i)
{
    const struct nl_mention *m = nl_at(p, i);
    const char *last = p->q->t[m->end - 1].text;
    if (!nl_is_mark(m, MARK_ORDER) || str_eq(last, "by") || str_eq(last, "of"))
        return false;
    for (int k = i + 1; k < p->mentions.n; k++) {
        const struct nl_mention *n = nl_at(p, k);
        last = p->q->t[n->end - 1].text;
        if ((nl_is_mark(n, MARK_ASC) || nl_is_mark(n, MARK_DESC) || nl_is_mark(n, MARK_ORDER) ||
             nl_is_mark(n, MARK_ALPHA)) &&
            (str_eq(last, "of") || str_eq(last, "by")))
            return true;
        if (nl_is_mark(n, MARK_BY))
            return true;
    }
    return false;
}

/* "and name", "and then by name", "and descending price" go on with the order. */
static bool is_key_next(struct nl_parse *p, int k)
{
    while (nl_is_mark(nl_at(p, k), MARK_BY) || nl_is_mark(nl_at(p, k), MARK_DESC) ||
           nl_is_mark(nl_at(p, k), MARK_ASC))
        k++;
    return is_column(nl_at(p, k)) && !nl_at(p, k)->used;
}

/* What rows are ordered by, key after key, each with its own direction. False: nothing. */
static bool read_keys(struct nl_parse *p, int i, int dir)
{
    int func = -1, keys = 0, first = p->r->n_order, turn = dir;
    bool count = false, counted = false;
    for (int k = i + 1; k < p->mentions.n && k <= i + 10; k++) {
        struct nl_mention *n = nl_at(p, k);
        if (p->q->t[n->start].begins_sentence)
            break;
        if (nl_is_mark(n, MARK_DESC) || nl_is_mark(n, MARK_ASC) || nl_is_mark(n, MARK_ALPHA)) {
            turn = nl_is_mark(n, MARK_DESC) ? -1 : 1;
            if (p->r->n_order > first && !count && func < 0)
                p->r->order_dir[p->r->n_order - 1] = turn;
            n->used = true;
        } else if (nl_is_mark(n, MARK_AGG) && keys == 0) {
            func = n->arg;
            n->used = true;
        } else if (nl_is_mark(n, MARK_SUPER) && keys == 0 && func < 0 && !n->hint) {
            func = n->arg > 0 ? FUNC_MAX : FUNC_MIN; /* "by their highest score" */
            n->used = true;
        } else if (nl_is_mark(n, MARK_COUNT) && keys == 0) {
            count = n->used = true;
        } else if (count && !counted && (n->kind == KIND_TABLE || is_column(n))) {
            bool figure = is_measure(p, n) && n->score >= 0.6;
            add_order(p->r, figure ? plain(n->ref) : aggregate(no_ref, FUNC_COUNT), turn);
            n->used = counted = true;
            count = false;
            keys++;
        } else if (is_column(n) && !n->used && !count) {
            add_order(p->r, aggregate(n->ref, func), keys ? dir : turn);
            n->used = true;
            func = -1;
            keys++;
        } else if (n->kind == KIND_TABLE || nl_is_mark(n, MARK_BY) || nl_is_mark(n, MARK_ORDER)) {
            n->used = n->used || n->kind == KIND_MARK;
        } else if (nl_is_mark(n, MARK_AND) && keys > 0 && is_key_next(p, k + 1)) {
            n->used = true;
        } else {
            break;
        }
    }
    if (count) {
        add_order(p->r, aggregate(no_ref, FUNC_COUNT), turn);
        keys++;
    }
    return keys > 0;
}

void nl_read_order(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        bool by = nl_is_mark(m, MARK_ORDER), alpha = nl_is_mark(m, MARK_ALPHA);
        bool dir_of = (nl_is_mark(m, MARK_ASC) || nl_is_mark(m, MARK_DESC));
        if (m->used || !(by || alpha || dir_of))
            continue;
        if (is_said_again(p, i)) {
            m->used = true;
            for (int k = i + 1; k < p->mentions.n; k++)
                if (nl_is_mark(nl_at(p, k), MARK_BY))
                    nl_at(p, k)->mark = MARK_ORDER;
            continue;
        }
        bool down = nl_is_mark(m, MARK_DESC) || (alpha && m->arg < 0) || (by && m->arg == 1);
        m->used = true;
        if (read_keys(p, i, down ? -1 : 1))
            continue;
        struct nl_ref ref = no_ref;
        bool reversed = false;
        struct nl_mention *said = dir_of ? nl_at(p, i - 1) : NULL, *what = nl_at(p, i - 2);
        int dir = down ? -1 : 1;
        if (m->hint && nl_hint_column(p, m->hint, &ref, &reversed)) {
            add_order(p->r, plain(ref), reversed ? -dir : dir);
        } else if (is_column(said) && !said->used && nl_gap(p, said, m) == 0 &&
                   (nl_is_mark(what, MARK_BY) || nl_is_mark(what, MARK_ORDER))) {
            /* "by the date of sale, ascending" */
            said->used = what->used = true;
            add_order(p->r, plain(said->ref), dir);
        } else {
            /* By what is shown first, or by the figure beside it, as soon as that is known. */
            struct nl_mention *last = said && said->kind == KIND_TABLE ? what : said;
            bool figure = nl_is_mark(last, MARK_COUNT) || nl_is_mark(last, MARK_AGG) ||
                          (is_column(last) &&
                           (nl_is_mark(what, MARK_AGG) || nl_is_mark(what, MARK_COUNT)));
            struct nl_ref later = { figure ? -4 : -2, -2 };
            add_order(p->r, (struct nl_item){ .ref = later, .func = -1, .bucket = -1 }, dir);
        }
    }
}

/* ---- superlatives ---- */

/* "average, minimum and maximum price": several of one column. */
void nl_read_chain(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    for (int i = 0; i < p->mentions.n; i++) {
        int funcs[6], n = 0, k = i;
        for (; k < p->mentions.n && n < 6; k++) {
            struct nl_mention *m = nl_at(p, k);
            if (m->used)
                break;
            /* "best average score" is one, "minimum, average and maximum score" are three */
            bool joined = n == 0 || k == i || nl_is_mark(nl_at(p, k - 1), MARK_AND) ||
                          p->q->t[nl_at(p, k - 1)->end - 1].comma_after;
            if (!joined && (nl_is_mark(m, MARK_AGG) || nl_is_mark(m, MARK_SUPER)))
                break;
            if (nl_is_mark(m, MARK_AGG))
                funcs[n++] = m->arg;
            else if (nl_is_mark(m, MARK_SUPER))
                funcs[n++] = m->arg > 0 ? FUNC_MAX : FUNC_MIN;
            else if (n == 0 || (!nl_is_mark(m, MARK_AND) && !nl_is_mark(m, MARK_COUNT)))
                break;
        }
        struct nl_mention *column = nl_at(p, k);
        if (n < 2 || !is_measure(p, column) || column->used ||
            nl_gap(p, nl_at(p, k - 1), column) > 0)
            continue;
        for (int f = 0; f < n; f++)
            add_select(p->r, aggregate(column->ref, funcs[f]));
        for (int m = i; m <= k; m++)
            nl_at(p, m)->used = true;
    }
}

static int number_beside(struct nl_parse *p, int i)
{
    struct nl_mention *b = nl_at(p, i - 1), *a = nl_at(p, i + 1), *m = nl_at(p, i);
    struct nl_mention *owner = nl_at(p, i - 2); /* "course 301 most recently" */
    bool owned = b && is_column(owner) && owner->end == b->start;
    if (b && b->kind == KIND_NUMBER && !owned && !b->used && m->start - b->end <= 1 &&
        b->number >= 1 && b->number <= 1000) {
        b->used = true;
        return (int)b->number;
    }
    if (a && a->kind == KIND_NUMBER && !a->used && a->start == m->end && a->number >= 1 &&
        a->number <= 1000) {
        a->used = true;
        return (int)a->number;
    }
    return 0;
}

/*
 * "open the longest", "were offline the longest": the state is a value, and how long it lasted is
 * told by when its rows began, or by how many there are where a thing has a row for each time that
 * it was looked at.
 */
static bool longest_state(struct shape *sh, int i)
{
    struct nl_parse *p = sh->p;
    struct nl_mention *m = nl_at(p, i), *before = nl_at(p, i - 1);
    struct nl_ref own, date;
    if (!before || before->kind != KIND_VALUE || !before->used || nl_gap(p, before, m) > 0 ||
        !str_eq(p->q->t[m->end - 1].text, "longest") || !nl_date_column(p, &date) ||
        !nl_own_id(p->s, p->r->scope.tables[0], &own))
        return false;
    p->f[FEATURE_HINT] += 1;
    if (nl_col(p->s, own)->is_key) {
        sh->super = plain(date);
        sh->super_dir = -1;
        sh->super_hinted = true;
    } else {
        sh->super = aggregate(no_ref, FUNC_COUNT);
        sh->super_count = true;
    }
    return true;
}

/* "more gold medals than any other country" */
static bool than_any_other(struct nl_parse *p, const struct nl_mention *m)
{
    for (int i = m->end; i + 2 < p->q->n && i < m->end + 6; i++)
        if (str_eq(p->q->t[i].text, "than") && str_eq(p->q->t[i + 1].text, "any") &&
            str_eq(p->q->t[i + 2].text, "other"))
            return true;
    return false;
}

/* The measure that a table is called after. */
static bool named_measure(const struct nl_parse *p, const struct nl_mention *m, struct nl_ref *ret)
{
    const struct nl_table *t = &p->s->tables[m->table];
    for (int c = 0; c < t->n_columns; c++)
        if (t->columns[c].is_numeric && !t->columns[c].is_id && t->columns[c].words.n == 1 &&
            str_eq(t->columns[c].words.stems[0], p->q->t[m->end - 1].stem)) {
            *ret = (struct nl_ref){ m->table, c };
            return true;
        }
    return false;
}

/* The highest rank is the first one. */
static void turn_rank(struct shape *sh, const struct nl_mention *m)
{
    const struct nl_column *c = sh->super_count || sh->super.func >= 0 ?
                                    NULL :
                                    nl_col(sh->p->s, sh->super.ref);
    const char *word = sh->p->q->t[m->end - 1].text;
    bool turns = str_eq(word, "highest") || str_eq(word, "best") || str_eq(word, "top") ||
                 str_eq(word, "lowest") || str_eq(word, "worst");
    for (int i = 0; c && turns && i < c->words.n; i++)
        if (str_eq(c->words.stems[i], "rank") || str_eq(c->words.stems[i], "position") ||
            str_eq(c->words.stems[i], "plac")) {
            sh->super_dir = -sh->super_dir;
            sh->super_hinted = true;
            sh->p->f[FEATURE_RANK] += 1;
            return;
        }
}

/*
 * "the most anomalies" are rows where the flag is set; "the highest return rate" is the share of
 * them.
 */
static bool flag_super(struct shape *sh, int i)
{
    struct nl_parse *p = sh->p;
    struct nl_mention *m = nl_at(p, i), *flag = nl_at(p, i + 1), *rate = nl_at(p, i + 2);
    if (!is_column(flag) || flag->used || nl_gap(p, m, flag) > 1 ||
        !nl_col(p->s, flag->ref)->is_flag)
        return false;
    flag->used = true;
    if (nl_is_mark(rate, MARK_SHARE)) {
        rate->used = true;
        sh->super = aggregate(flag->ref, FUNC_AVG);
        return true;
    }
    struct nl_filter *f = nl_add_filter(p, flag->ref, FILTER_EQ, i + 1);
    if (f)
        f->text[f->n_texts++] = "true";
    sh->super = aggregate(no_ref, FUNC_COUNT);
    sh->super_count = true;
    return true;
}

void nl_read_super(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    int top = 0; /* how many, said before the superlative */
    for (int i = 0; i < p->mentions.n; i++) {
        struct nl_mention *m = nl_at(p, i);
        if (m->used || m->kind != KIND_MARK)
            continue;
        if (m->mark == MARK_COMMON && !sh->super_dir) {
            sh->super_dir = m->arg;
            sh->super_at = i;
            sh->super = aggregate(no_ref, FUNC_COUNT);
            sh->super_count = true;
            sh->limit = number_beside(p, i);
            sh->limit = sh->limit ? sh->limit : top;
            m->used = true;
            continue;
        }
        if (m->mark == MARK_TOP && !sh->super_dir) {
            int n = number_beside(p, i);
            struct nl_mention *beside = nl_at(p, i + 1);
            if (beside && beside->kind == KIND_NUMBER && beside->used)
                beside = nl_at(p, i + 2);
            if (is_measure(p, beside) && beside->start - m->end <= 2 && !beside->used) {
                /* "the top speed", "the top 3 scores" */
                top = n;
                m->mark = MARK_SUPER;
                i--;
                continue;
            }
            if (beside && (nl_is_mark(beside, MARK_SUPER) || nl_is_mark(beside, MARK_COMMON)) &&
                beside->arg == m->arg && beside->start - m->end <= 2) {
                top = n; /* "top 3 highest" */
                m->used = true;
                continue;
            }
            sh->is_top = m->used = true;
            sh->super_dir = m->arg;
            sh->super_at = i;
            sh->limit = n ? n : TOP_DEFAULT;
            sh->super = aggregate(no_ref, FUNC_COUNT);
            sh->super_count = true;
            continue;
        }
        bool row = m->mark == MARK_LAST;
        bool more = false; /* "which is higher, a or b" */
        for (int k = 0; k < p->r->n_filters && m->mark == MARK_MORE; k++)
            if (p->r->filters[k].n_texts == 2) {
                more = true;
                sh->more_of = p->r->filters[k].ref;
            }
        more |= m->mark == MARK_MORE && !sh->super_dir && than_any_other(p, m);
        if (m->mark != MARK_SUPER && !row && !more)
            continue;
        if (sh->is_top && sh->super_count && m->mark == MARK_SUPER && sh->super_dir == m->arg &&
            sh->super_at < i) { /* "the top three that were bought in the largest amount" */
            top = sh->limit;
            sh->is_top = sh->super_count = false;
            sh->super_dir = 0;
            sh->super = (struct nl_item){ .ref = no_ref };
        }
        if (sh->super_dir) {
            struct nl_mention *and_ = nl_at(p, i - 1);
            if (nl_is_mark(and_, MARK_AND) && !sh->super2_dir && !row) {
                sh->super2_dir = m->arg;
                m->used = true;
                struct nl_mention *next = nl_at(p, i + 1);
                if (sh->super.ref.table < 0 && is_measure(p, next) && !next->used) {
                    sh->super = plain(next->ref);
                    sh->super_count = sh->super_bare = false;
                    next->used = true;
                } else if (is_column(next) && same_ref(next->ref, sh->super.ref)) {
                    next->used = true;
                }
            } else if (sh->super_bare && sh->is_top) {
                continue;
            }
            continue;
        }
        int dir = row ? (m->arg < 0 ? 1 : -1) : m->arg;
        int n = number_beside(p, i);
        n = n ? n : top;
        struct nl_mention *next = nl_at(p, i + 1);
        if (next && next->kind == KIND_NUMBER && next->used)
            next = nl_at(p, i + 2);
        struct nl_mention *twin = nl_at(p, i + 2);
        if (nl_is_mark(next, MARK_AND) && nl_is_mark(twin, MARK_SUPER) && nl_at(p, i + 3)) {
            sh->super2_dir = twin->arg;
            twin->used = next->used = true;
            next = nl_at(p, i + 3);
            m = twin;
            i += 2;
            nl_at(p, i - 2)->used = true;
        }
        bool near = next && nl_gap(p, m, next) <= 1 && next->start - m->end <= 3;
        if (near && next->kind == KIND_MARK && next->mark != MARK_COUNT && next->mark != MARK_AGG)
            near = false;
        bool reversed = false;
        struct nl_ref ref;
        sh->super_dir = dir;
        sh->super_at = i;
        sh->limit = n;
        m->used = true;
        if (longest_state(sh, i)) {
            continue;
        } else if (near && nl_is_mark(next, MARK_COUNT)) {
            struct nl_mention *what = nl_at(p, i + 2);
            next->used = true;
            if (what && is_measure(p, what) && !what->used && what->score > 0.8) {
                sh->super = plain(what->ref);
                what->used = true;
            } else {
                sh->super = aggregate(no_ref, FUNC_COUNT);
                sh->super_count = true;
                if (what && (what->kind == KIND_TABLE || is_column(what)) &&
                    nl_gap(p, next, what) == 0)
                    what->used = true;
            }
        } else if (near && nl_is_mark(next, MARK_AGG)) {
            struct nl_mention *what = nl_at(p, i + 2);
            next->used = true;
            if (what && is_measure(p, what)) {
                sh->super = aggregate(what->ref, next->arg);
                what->used = true;
            } else {
                sh->super = aggregate(no_ref, FUNC_COUNT);
                sh->super_count = true;
            }
        } else if (flag_super(sh, i)) {
            continue;
        } else if (near && is_measure(p, next) && !next->used) {
            sh->super = plain(next->ref);
            next->used = true;
            turn_rank(sh, m);
        } else if (near && next->kind == KIND_TABLE && named_measure(p, next, &ref)) {
            sh->super = plain(ref); /* "the highest salary", of a table of salaries */
            next->used = true;
        } else if (m->hint && is_measure(p, nl_at(p, i - 1)) &&
                   nl_gap(p, nl_at(p, i - 1), m) == 0 && !nl_at(p, i - 1)->used && i > 1) {
            sh->super = plain(nl_at(p, i - 1)->ref);
            nl_at(p, i - 1)->used = true;
        } else if (m->hint && nl_hint_column(p, m->hint, &ref, &reversed)) {
            sh->super = plain(ref);
            sh->super_hinted = true;
            if (reversed)
                sh->super_dir = -dir;
        } else if (row) {
            bool listed = m->hint != NULL;
            for (int k = 0; k < p->q->n; k++)
                listed |= str_eq(p->q->t[k].text, "listed") || str_eq(p->q->t[k].text, "list") ||
                          str_eq(p->q->t[k].text, "chart");
            if (!listed && !(p->variant & VARIANT_SUPER) &&
                nl_hint_column(p, "dat|year|season", &ref, &reversed)) {
                sh->super = plain(ref);
                sh->super_hinted = true;
            } else { /* the first or last row, as the table has them */
                sh->super = (struct nl_item){ .ref = { -3, -3 }, .func = -1, .bucket = -1 };
                p->f[FEATURE_ROW_ORDER] += 1;
                p->f[FEATURE_ROW_LISTED] += listed;
                p->f[FEATURE_ROW_LAST] += dir > 0;
            }
        } else if (near && (next->kind == KIND_TABLE || is_column(next)) && !next->used &&
                   str_eq(p->q->t[m->start].text, m->arg > 0 ? "most" : "fewest")) {
            sh->super = aggregate(no_ref, FUNC_COUNT);
            sh->super_count = true;
            next->used = true;
        } else {
            /* A number that was spoken of elsewhere, or how often. */
            struct nl_mention *behind = nl_at(p, i - 1);
            if (is_measure(p, behind) && !behind->used && !near && i > 1 &&
                nl_gap(p, behind, m) == 0) {
                /* "which customers spent the most" */
                sh->super = aggregate(behind->ref,
                                      nl_col(p->s, behind->ref)->is_rate ? FUNC_AVG : FUNC_SUM);
                behind->used = true;
                if (asks_for_rows(p)) {
                    sh->super = plain(behind->ref);
                    sh->super_hinted = true;
                }
                continue;
            }
            for (int k = i + 2; k < p->mentions.n && k < i + 4 && sh->super.func == 0; k++)
                if (is_measure(p, nl_at(p, k)) && !nl_at(p, k)->used) {
                    sh->super = plain(nl_at(p, k)->ref);
                    nl_at(p, k)->used = true;
                }
            if (sh->super.func == 0) {
                sh->super = aggregate(no_ref, FUNC_COUNT);
                sh->super_count = sh->super_bare = true;
                /* "the fastest": counting is no measure of it */
                p->f[FEATURE_UNSUPPORTED] += m->hint != NULL && p->s->n_tables > 0;
            }
        }
    }
}
