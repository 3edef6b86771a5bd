/*
 * Putting a reading together from the shape that the words gave it: what is counted, what is shown
 * where nothing was named, which columns groups are made by, and which order the best come in.
 */

#include <string.h>

#include "base/str.h"
#include "nl/shape.h"

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
    const struct nl_link_key *key = sh->counted && sh->counted->kind == KIND_TABLE ?
                                        nl_key_to(&p->r->scope, sh->counted->table) :
                                        NULL;
    if (key && !other) {
        /* A join repeats the rows of the one for each of the many. */
        p->f[FEATURE_COUNT_ROWS] += 1;
        add_select(
            p->r, aggregate((struct nl_ref){ key->to_table, key->to_column }, FUNC_COUNT_DISTINCT));
        return;
    }
    struct nl_ref own;
    if (sh->counted && sh->counted->kind == KIND_TABLE && p->r->scope.n == 1 &&
        sh->count_distinct != other && nl_id_called(p, sh->counted, &own)) {
        p->f[sh->count_distinct ? FEATURE_DISTINCT_SAID : FEATURE_COUNT_DISTINCT] += 1;
        p->f[FEATURE_COUNT_ENTITY] += 1;
        add_select(p->r, aggregate(own, FUNC_COUNT_DISTINCT));
        return;
    }
    if (sh->counted && sh->counted->kind == KIND_TABLE && p->r->scope.n == 1 && !other &&
        nl_own_id(p->s, sh->counted->table, &own) && !nl_col(p->s, own)->is_key &&
        p->s->tables[sh->counted->table].n_rows >= LARGE_ROWS) {
        /* Sensors that have many readings each. */
        p->f[FEATURE_COUNT_ENTITY] += 1;
        add_select(p->r, aggregate(own, FUNC_COUNT_DISTINCT));
        return;
    }
    p->f[FEATURE_COUNT_REPEATED] += key != NULL;
    bool distinct = c && sh->count_distinct;
    if (other)
        distinct = c ? !distinct : false;
    if (distinct) {
        p->f[sh->count_distinct ? FEATURE_DISTINCT_SAID : FEATURE_COUNT_DISTINCT] += 1;
        p->f[FEATURE_COUNT_ENTITY] += c->is_id && !c->is_key;
        add_select(p->r, aggregate(sh->counted->ref, FUNC_COUNT_DISTINCT));
        if (sh->counted_too)
            add_select(p->r, aggregate(sh->counted_too->ref, FUNC_COUNT_DISTINCT));
    } else {
        p->f[FEATURE_COUNT_ROWS] += 1;
        if (sh->count_distinct)
            p->f[FEATURE_DISTINCT_DROPPED] += 1;
        if (c)
            p->f[FEATURE_COUNT_OF_NAME] += c->is_name || c->is_id ? 0.5 : 1;
        add_select(p->r, aggregate(no_ref, FUNC_COUNT));
    }
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
        all |= str_eq(p->q->t[i].text, "information") || str_eq(p->q->t[i].text, "everything") ||
               str_eq(p->q->t[i].text, "info") || str_eq(p->q->t[i].text, "details");
    if (all)
        other = !other;
    for (int c = 0; c < t->n_columns; c++)
        has_name |= t->columns[c].is_name;
    if (!has_name && !all && nl_own_id(p->s, table, &own)) {
        bool alone = sh->counts_rows || (other && nl_col(p->s, own)->is_key);
        p->f[alone && !sh->counts_rows ? FEATURE_DEFAULT_KEY_ONLY : FEATURE_DEFAULT_KEY] += 1;
        /*
         * Rows without a name of their own are shown as they are; of things with many rows, which
         * they are.
         */
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
            if (t->columns[c].type == TYPE_TEXT && !t->columns[c].is_id &&
                !t->columns[c].numeric_text) {
                add_select(r, plain((struct nl_ref){ table, c }));
                names++;
            }
        p->f[FEATURE_DEFAULT_NAME] += 1;
    }
    if (r->n_select == 0)
        p->f[FEATURE_DEFAULT_ALL] += 1;
    p->f[FEATURE_WHO] += sh->who && !other;
}

static bool is_plural(const struct nl_token *t)
{
    size_t n = strlen(t->text);
    return n > 3 && t->text[n - 1] == 's' && t->text[n - 2] != 's' && !str_eq(t->stem, t->text);
}

/*
 * "Which customers spent the most" is a list where there are many; in a small table it is the first
 * one.
 */
static int how_many_best(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    if (p->s->tables[p->r->scope.tables[0]].n_rows < MANY_ROWS)
        return 1;
    for (int i = 0; i < p->mentions.n; i++) {
        const struct nl_mention *m = nl_at(p, i);
        if (nl_is_mark(m, MARK_BUCKET))
            return is_plural(&p->q->t[m->end - 1]) ? TOP_DEFAULT : 1;
        if (m->kind == KIND_TABLE || (is_column(m) && !is_measure(p, m)))
            return is_plural(&p->q->t[m->end - 1]) ? TOP_DEFAULT : 1;
    }
    return 1;
}

static bool asks_for_thing(const struct nl_tokens *q)
{
    static const char *const words[] = { "which", "who", "whom", "whose", "where", "when" };
    for (int i = 0; i < q->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(words); k++)
            if (str_eq(q->t[i].text, words[k]))
                return true;
    return false;
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
        bool with = before && before->kind == KIND_MARK &&
                    (before->mark == MARK_WHERE || before->mark == MARK_WHO);
        for (int k = m->start - 1; k >= 0 && k >= m->start - 2; k--)
            with |= str_eq(p->q->t[k].text, "has") || str_eq(p->q->t[k].text, "have") ||
                    str_eq(p->q->t[k].text, "had") || str_eq(p->q->t[k].text, "with");
        bool value = !others_shown && !with && !sh->super_hinted && sh->limit <= 1;
        if (sh->super2_dir || sh->has_group_mark || has_aggregate(r))
            value = true;
        if (sh->more_of.table >= 0 && r->n_select == 0) { /* "more with A or with B" */
            add_select(r, plain(sh->more_of));
            p->f[FEATURE_MORE_OF] += 1;
            value = false;
        }
        /* "What is the highest price?" has one meaning: nobody asks which, who or where. */
        if (value && !asks_for_thing(p->q))
            flip = false;
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
    p->f[!sh->super_count ? FEATURE_SUPER_ORDER :
         common           ? FEATURE_SUPER_COMMON :
         sh->super_bare   ? FEATURE_SUPER_COUNT :
                            FEATURE_SUPER_COUNT_SAID] += 1;
    const struct nl_column *c = nl_col(p->s, sh->super.ref);
    const struct nl_column *what = r->n_select > 0 && r->select[0].func < 0 ?
                                       nl_col(p->s, r->select[0].ref) :
                                       NULL;
    /* Of things with many rows it is the sum that counts; a join makes many rows of one. */
    bool many = p->s->tables[r->scope.tables[0]].n_rows >= LARGE_ROWS ||
                p->s->tables[r->scope.tables[r->scope.n - 1]].n_rows >= LARGE_ROWS;
    bool joined = what && sh->super.ref.table >= 0 &&
                  nl_key_to(&r->scope, r->select[0].ref.table) &&
                  !nl_key_to(&r->scope, sh->super.ref.table);
    bool repeated = what && (joined || (!what->is_unique && !what->is_key)) &&
                    (!what->is_numeric || what->is_id) && many && c && !c->is_rate;
    if (sh->super.func < 0 && c && c->is_numeric &&
        ((r->n_group > 0 && r->group[0].bucket >= 0) || (repeated && r->n_group == 0)))
        sh->super.func = c->is_rate ? FUNC_AVG : FUNC_SUM;
    add_order(r, sh->super, sh->super_dir > 0 ? -1 : 1);
    r->limit = sh->limit ? sh->limit : how_many_best(sh);
}

/*
 * "revenue by region" is its sum for each, "temperature by room" the average, "orders by status"
 * how many there are.
 */
static void imply_aggregate(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    int n = 0;
    for (int i = 0; i < r->n_select; i++) { /* "hires per year": the day that is put into years */
        bool bucketed = false;
        for (int k = 0; k < r->n_group; k++)
            bucketed |= r->group[k].bucket >= 0 && same_ref(r->group[k].ref, r->select[i].ref) &&
                        r->select[i].bucket < 0;
        if (!bucketed)
            r->select[n++] = r->select[i];
    }
    r->n_select = n;
    bool any = false, table = sh->compare > 0 || r->n_select == 0;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_column *c = nl_col(p->s, r->select[i].ref);
        if (r->select[i].bucket >= 0 || !c->is_numeric || c->is_id || nl_is_year(c))
            continue;
        if (c->is_flag) { /* "returned orders by month": those for which it is set */
            struct nl_filter *f = nl_add_filter(p, r->select[i].ref, FILTER_EQ, 0);
            if (f)
                f->text[f->n_texts++] = "true";
            r->select[i] = aggregate(no_ref, FUNC_COUNT);
            any = true;
            continue;
        }
        r->select[i].func = c->is_rate ? FUNC_AVG : FUNC_SUM;
        any = true;
    }
    if (!any && table && r->n_group > 0) {
        struct nl_item count = aggregate(no_ref, FUNC_COUNT);
        for (int i = 0; i < p->mentions.n && r->scope.n > 1; i++) {
            const struct nl_link_key *k = nl_at(p, i)->kind == KIND_TABLE ?
                                              nl_key_to(&r->scope, nl_at(p, i)->table) :
                                              NULL;
            if (k)
                count = aggregate((struct nl_ref){ k->to_table, k->to_column },
                                  FUNC_COUNT_DISTINCT);
        }
        add_select(r, count);
        p->f[FEATURE_IMPLIED_COUNT] += 1;
        any = true;
    } else {
        p->f[FEATURE_IMPLIED_AGG] += any;
    }
}

/*
 * Who a key belongs to, if the other table of the scope tells: products by their name, not only by
 * their number.
 */
static void name_groups(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    struct nl_reading *r = p->r;
    int n = r->n_group;
    for (int i = 0; i < n && r->scope.n > 1; i++) {
        struct nl_ref ref = r->group[i].ref, name;
        const struct nl_link_key *k = NULL;
        for (int j = 1; j < r->scope.n; j++) {
            const struct nl_link_key *x = r->scope.keys[j];
            if ((ref.table == x->from_table && ref.column == x->from_column) ||
                (ref.table == x->to_table && ref.column == x->to_column))
                k = x;
        }
        if (!k || r->group[i].bucket >= 0)
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
        if (str_eq(p->q->t[k].stem, "id") || str_eq(p->q->t[k].stem, "number") ||
            str_eq(p->q->t[k].stem, "code"))
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
    if (r->n_select == 0 || r->n_group > 0 || sh->super_dir || sh->wants_count || r->n_order > 0 ||
        has_aggregate(r) || p->s->tables[r->scope.tables[0]].n_rows < LARGE_ROWS)
        return false;
    for (int i = 0; i < r->n_select; i++) {
        const struct nl_column *c = nl_col(p->s, r->select[i].ref);
        if (!c->is_numeric || c->is_id || c->is_flag || nl_is_year(c))
            return false;
    }
    return true;
}

void nl_assemble(struct shape *sh)
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
    if (sh->wants_count &&
        is_column(sh->counted)) { /* "teams of players and the number of players in each" */
        int n = 0;
        for (int i = 0; i < r->n_select; i++)
            if (!(r->select[i].func < 0 && same_ref(r->select[i].ref, sh->counted->ref)))
                r->select[n++] = r->select[i];
        r->n_select = n;
    }
    bool order_aggregate = sh->super_dir && (sh->super_count || sh->super.func >= 0) &&
                           !(p->variant & VARIANT_SUPER && !sh->is_top);
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
        bool drop = p->variant & VARIANT_GROUP && r->n_group == 0 && aggregates &&
                    !order_aggregate && !having;
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
            /*
             * "how many rooms have a king bed": what comes behind the count is hardly what it is
             * for.
             */
            int what = -1, column = -1;
            for (int i = 0; i < p->mentions.n; i++) {
                const struct nl_mention *m = nl_at(p, i);
                if (what < 0 && (nl_is_mark(m, MARK_COUNT) || nl_is_mark(m, MARK_AGG) ||
                                 nl_is_mark(m, MARK_SUPER)))
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
        if (order_aggregate && nl_is_mark(nl_at(p, sh->super_at), MARK_COMMON) && sh->super_dir &&
            r->n_group == 1 && r->group[0].ref.table >= 0)
            nl_add_filter(p, r->group[0].ref, FILTER_IS_NOT_NULL, p->mentions.n);
        name_groups(sh);
        for (int i = 0; i < r->n_group; i++) {
            const struct nl_column *c = nl_col(p->s, r->group[i].ref);
            p->f[FEATURE_GROUP_UNIQUE] += c && (c->is_unique || c->is_key) &&
                                          r->group[i].bucket < 0;
            p->f[FEATURE_GROUP_MEASURE] += c && c->is_numeric && !c->is_id && !c->is_flag &&
                                           !nl_is_year(c);
            bool named = false;
            for (int k = 0; k < p->s->n_keys && r->scope.n == 1; k++)
                named |= same_ref(r->group[i].ref, (struct nl_ref){ p->s->keys[k].from_table,
                                                                    p->s->keys[k].from_column });
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
                there |= same_ref(shown[k].ref, r->order[i].ref) &&
                         shown[k].func == r->order[i].func;
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
        bool repeats = true; /* a column without repetitions is distinct anyway, but in a join */
        for (int i = 0; i < r->n_select && r->scope.n == 1; i++)
            repeats &= !nl_col(p->s, r->select[i].ref)->is_unique;
        p->f[FEATURE_SHOWS_REPEATED] += r->n_select == 1 && repeats && !sh->wants_distinct &&
                                        r->n_filters == 0;
        r->distinct = repeats && sh->wants_distinct != ((p->variant & VARIANT_DISTINCT) != 0);
        p->f[FEATURE_LARGE_REPEATED] += r->n_select == 1 && repeats && !r->distinct &&
                                        r->limit == 0 &&
                                        p->s->tables[r->scope.tables[0]].n_rows >= LARGE_ROWS;
        if (r->n_select == 0)
            r->distinct = false;
        if (r->distinct)
            p->f[sh->wants_distinct ? FEATURE_DISTINCT_SAID : FEATURE_DISTINCT_UNSAID] += 1;
        else if (sh->wants_distinct)
            p->f[FEATURE_DISTINCT_DROPPED] += 1;
        if (r->distinct && !sh->wants_distinct && r->n_filters > 0)
            p->f[FEATURE_DISTINCT_FILTERED] += 1;
        p->f[FEATURE_DISTINCT_JOINED] += r->distinct && !sh->wants_distinct && r->scope.n > 1;
        if (r->distinct)
            for (int i = 0; i < r->n_order; i++)
                if (r->order[i].ref.table >= 0)
                    add_select(r, r->order[i]);
    }
    for (int i = 0; i < r->n_order; i++) /* the figure, if there is one */
        for (int k = 0; k < r->n_select && r->order[i].ref.table == -4; k++)
            if (r->select[k].func >= 0 || k + 1 == r->n_select)
                r->order[i] = r->select[k].func >= 0 ? r->select[k] : r->select[0];
    for (int i = 0; i < r->n_order; i++)
        if (r->order[i].ref.table == -2 || r->order[i].ref.table == -4)
            r->order[i] = r->n_select ? r->select[0] :
                                        plain((struct nl_ref){ r->scope.tables[0], 0 });
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
void nl_leave_out_totals(struct shape *sh)
{
    struct nl_parse *p = sh->p;
    const struct nl_table *t = &p->s->tables[p->r->scope.tables[0]];
    if (p->r->n_order == 0 && !has_aggregate(p->r))
        return;
    for (int c = 0; c < t->n_columns && c < 3; c++)
        for (size_t v = 0; v < t->columns[c].n_values; v++) {
            const char *x = t->columns[c].values[v];
            if (!str_ieq(x, "total") && !str_ieq(x, "totals") && !str_ieq(x, "total:") &&
                !str_ieq(x, "grand total"))
                continue;
            /* A table that people call by its name has things in it, and one may be called so. */
            if (nl_table_mentioned(p->s, p->r->scope.tables[0], p->q) >= 0.5)
                return;
            for (int i = 0; i < p->r->n_filters; i++)
                if (p->r->filters[i].ref.column == c &&
                    p->r->filters[i].ref.table == p->r->scope.tables[0])
                    return;
            struct nl_filter *f = nl_add_filter(p, (struct nl_ref){ p->r->scope.tables[0], c },
                                                FILTER_EQ, p->mentions.n);
            if (f) {
                f->text[f->n_texts++] = x;
                f->negated = true;
            }
            return;
        }
}
