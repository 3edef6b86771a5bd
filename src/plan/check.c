/* The check of a plan, part by part; check_expr.c has the check of the expressions in it. */

#include "plan/plan_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

/* ---- joins ---- */

static size_t table_index(const struct scope *s, const char *name)
{
    size_t i = 0;

    while (i < s->n_tables && !str_ieq(s->names[i], name))
        i++;
    return i;
}

/* A join may use the tables before it and must use its own. */
static int check_on(struct walk *w, const struct scope *s, size_t index, const struct expr *e)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ON };
    enum plan_type type;
    bool own = false, unknown = false;

    if (e->op == OP_AND) {
        int r = check_on(w, s, index, e->args[0]);
        return r < 0 ? r : check_on(w, s, index, e->args[1]);
    }
    int r = check_visit(w, &at, e, true, &type);
    for (int i = 0; i < 2 && r >= 0; i++) {
        struct target t;

        r = scope_resolve(&at, e->args[i], &t, w->err);
        if (r < 0)
            return r;
        unknown = unknown || !t.table;
        if (!t.table)
            continue;
        size_t found = table_index(s, t.table);
        if (found > index + 1)
            return err_set(w->err, ERR_VALIDATION, "'%s' is joined later than it is used", t.table);
        own = own || found == index + 1;
    }
    if (r >= 0 && !own && !unknown)
        return err_set(w->err, ERR_VALIDATION,
                       "'on' must equate a column of '%s' with one of a table before it",
                       s->names[index + 1]);
    return r;
}

static int check_joins(struct walk *w, const struct scope *s)
{
    for (size_t i = 0; i < s->plan->n_joins; i++) {
        const struct plan_join *join = &s->plan->joins[i];
        struct join_keys keys;
        int r = join->on ? check_on(w, s, i, join->on) : scope_relationship(s, i, &keys, w->err);

        if (r < 0)
            return err_wrap(w->err, "joins[%zu]", i);
    }
    return 0;
}

/* ---- select and group by ---- */

/* An alias has the form of a name, or is the name of a column as it is. */
static int check_alias(const struct scope *s, const struct plan_item *item, struct err *err)
{
    for (size_t i = 0; i < s->n_tables && s->schema; i++)
        if (plan_table_column(s->tables[i], item->alias))
            return 0;
    return scope_check_name(item->alias, err);
}

static int check_item(struct walk *w, const struct scope *s, size_t index)
{
    const struct plan_item *items = s->plan->select, *item = &items[index];
    const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = index };
    char shown[STR_SHOWN_SIZE];
    enum plan_type type;

    if (item->alias_given) {
        int r = check_alias(s, item, w->err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < index && item->alias; i++)
        if (items[i].alias && str_ieq(items[i].alias, item->alias))
            return err_set(w->err, ERR_VALIDATION, "the alias '%s' is used twice",
                           str_show(item->alias, strlen(item->alias), shown, sizeof(shown)));
    return check_visit(w, &at, item->operand.what, check_is_grouped_item(s, index), &type);
}

static int check_select(struct walk *w, const struct scope *s)
{
    const struct query_plan *plan = s->plan;

    if (!plan->select && plan->n_group_by > 0)
        return err_set(w->err, ERR_VALIDATION, "'group_by' requires a 'select' list");
    for (size_t i = 0; i < plan->n_select; i++)
        if (check_item(w, s, i) < 0)
            return err_wrap(w->err, "select[%zu]", i);
    return 0;
}

static int check_group_by(struct walk *w, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_GROUP };
    enum plan_type type;

    for (size_t i = 0; i < s->plan->n_group_by; i++) {
        int before = w->columns;
        int r = check_visit(w, &at, s->plan->group_by[i], true, &type);

        /* GROUP BY 1 would mean the first column. */
        if (r >= 0 && w->columns == before)
            r = err_set(w->err, ERR_VALIDATION, "'%s' is the same for every row",
                        s->plan->group_by[i]->name);
        if (r < 0)
            return err_wrap(w->err, "group_by[%zu]", i);
    }
    return 0;
}

/* ---- filters ---- */

static bool is_pattern(enum plan_filter_op op)
{
    return op == FILTER_CONTAINS || op == FILTER_NOT_CONTAINS || op == FILTER_STARTSWITH ||
           op == FILTER_ENDSWITH;
}

/* The value may be compared with something of this type; otherwise what it should be. */
static const char *wanted_instead(const struct plan_value *v, enum plan_type t)
{
    bool text = v->type == VALUE_TEXT;

    if (v->type == VALUE_NULL || !check_is_known(t))
        return NULL;
    if (check_is_number(t))
        return text && !check_is_number_text(v->s, t == TYPE_INTEGER) ? "a number" : NULL;
    if (check_is_time(t))
        return !text || !check_is_date_text(v->s) ? "a date such as \"2025-01-31\"" : NULL;
    if (t == TYPE_BOOL)
        return text && !check_is_bool_text(v->s) ? "true or false" : NULL;
    return text ? NULL : "a string";
}

static void show_value(const struct plan_value *v, char ret[STR_SHOWN_SIZE])
{
    char shown[STR_SHOWN_SIZE - 2], digits[EXPR_DOUBLE_SIZE];

    switch (v->type) {
    case VALUE_TEXT:
        snprintf(ret, STR_SHOWN_SIZE, "'%s'", str_show(v->s, strlen(v->s), shown, sizeof(shown)));
        return;
    case VALUE_INT:
        snprintf(ret, STR_SHOWN_SIZE, "%lld", v->i);
        return;
    case VALUE_REAL:
        expr_from_double(v->d, digits);
        snprintf(ret, STR_SHOWN_SIZE, "%s", digits);
        return;
    default:
        snprintf(ret, STR_SHOWN_SIZE, "%s",
                 v->type == VALUE_NULL ? "null" :
                 v->b                  ? "true" :
                                         "false");
    }
}

/* What the inner plan gives goes with what it is compared with. */
static int check_compared_plan(struct walk *w, const struct standpoint *at,
                               const struct plan_filter *f, enum plan_type t)
{
    char what[CHECK_DESCRIBE_SIZE];
    struct scope *in = malloc(sizeof(*in));
    enum plan_type inner = TYPE_UNKNOWN;

    if (!in)
        return err_set(w->err, ERR_NO_MEMORY, "out of memory");
    int r = plan_check(f->plan, at->scope->schema, w->err);
    if (r >= 0)
        r = scope_init(in, f->plan, at->scope->schema, w->err);
    if (r >= 0) {
        const struct standpoint item = { .scope = in, .place = PLACE_SELECT };
        inner = check_type_of(&item, f->plan->select[0].operand.what);
    }
    free(in);
    if (r < 0)
        return err_wrap(w->err, "plan");
    bool same = t == inner || (check_is_number(t) && check_is_number(inner)) ||
                (check_is_time(t) && check_is_time(inner));
    if (same || !check_is_known(t) || !check_is_known(inner))
        return 0;
    return err_set(w->err, ERR_VALIDATION, "%s is %s, but the plan gives %s",
                   check_describe(at, f->operand.what, what), plan_type_words[t],
                   plan_type_words[inner]);
}

static int check_condition(struct walk *w, const struct standpoint *at, const struct plan_filter *f)
{
    char what[CHECK_DESCRIBE_SIZE], value[STR_SHOWN_SIZE];
    const struct expr *e = f->operand.what;
    enum plan_type t = TYPE_UNKNOWN;
    int r = check_visit(w, at, e, false, &t);

    if (r < 0)
        return r;
    if (!f->has_op)
        return check_is_condition(t) ?
                   0 :
                   check_mismatch(w, at, "a filter without 'op'", "a condition", e, t);
    if (is_pattern(f->op))
        return 0;
    if (f->ignore_case && t != TYPE_UNKNOWN && t != TYPE_TEXT)
        return check_mismatch(w, at, "'ignore_case'", "text", e, t);
    if (f->plan)
        return check_compared_plan(w, at, f, t);
    for (size_t i = 0; i < f->n_values; i++) {
        const char *instead = wanted_instead(&f->values[i], t);

        if (!instead)
            continue;
        show_value(&f->values[i], value);
        return err_set(w->err, ERR_VALIDATION, "%s is %s: compare it with %s, not with %s",
                       check_describe(at, e, what), plan_type_words[t], instead, value);
    }
    return 0;
}

static int check_filters(struct walk *w, const struct standpoint *at, const char *path,
                         const struct plan_filter *filters, size_t n)
{
    static const char *const groups[] = {
        [FILTER_CONDITION] = "", [FILTER_AND] = ".and", [FILTER_OR] = ".or", [FILTER_NOT] = ".not"
    };

    for (size_t i = 0; i < n; i++) {
        const struct plan_filter *f = &filters[i];
        char here[256];
        int r;

        /* What stands behind "not" is one, not a list. */
        if (str_ends(path, ".not"))
            snprintf(here, sizeof(here), "%s", path);
        else
            snprintf(here, sizeof(here), "%.200s[%zu]", path, i);
        if (f->kind == FILTER_CONDITION) {
            r = check_condition(w, at, f);
            if (r < 0)
                return err_wrap(w->err, "%s", here);
            continue;
        }
        snprintf(here + strlen(here), sizeof(here) - strlen(here), "%s", groups[f->kind]);
        r = check_filters(w, at, here, f->parts, f->n_parts);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- order ---- */

/* The rows of SELECT DISTINCT have only what is selected to be ordered by. */
static bool is_selected(const struct scope *s, const struct expr *e)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    struct target t, c;

    if (!s->plan->select)
        return true;
    if (e->kind != EXPR_COLUMN || scope_resolve(&at, e, &t, NULL) < 0)
        return false;
    if (t.item)
        return true;
    for (size_t i = 0; i < s->plan->n_select; i++) {
        const struct standpoint item = { .scope = s, .place = PLACE_SELECT, .item = i };
        const struct expr *what = s->plan->select[i].operand.what;

        if (what->kind == EXPR_COLUMN && scope_resolve(&item, what, &c, NULL) >= 0 && !c.item &&
            str_ieq(c.name, t.name) && (!c.table || !t.table || str_ieq(c.table, t.table)))
            return true;
    }
    return false;
}

static int check_order(struct walk *w, const struct scope *s, const struct plan_order *order)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    const struct expr *e;
    struct target t;
    enum plan_type type;
    int before = w->columns, r = scope_order(s, order, &e, w->err);

    if (r < 0)
        return r;
    /* An item is in order as it was selected. */
    if (e->kind == EXPR_COLUMN && scope_resolve(&at, e, &t, NULL) >= 0 && t.item)
        return 0;
    r = check_visit(w, &at, e, false, &type);
    if (r < 0)
        return r;
    if (w->columns == before)
        return err_set(w->err, ERR_VALIDATION, "the expression is the same for every row");
    if (s->plan->distinct && !is_selected(s, e))
        return err_set(w->err, ERR_VALIDATION,
                       "with 'distinct' only what is selected can be ordered by");
    return 0;
}

static int check_order_by(struct walk *w, const struct scope *s)
{
    for (size_t i = 0; i < s->plan->n_order_by; i++)
        if (check_order(w, s, &s->plan->order_by[i]) < 0)
            return err_wrap(w->err, "order_by[%zu]", i);
    return 0;
}

/* ---- the plan ---- */

static bool is_aggregated(const struct query_plan *plan)
{
    if (plan->n_group_by > 0 || plan->n_having > 0 || plan_has_aggregate(plan))
        return true;
    for (size_t i = 0; i < plan->n_order_by; i++)
        if (plan->order_by[i].expr && expr_has_aggregate(plan->order_by[i].expr))
            return true;
    return false;
}

static int check_whole(const struct query_plan *plan, const struct plan_schema *schema,
                       struct scope *scope, struct err *err)
{
    struct walk w = { .err = err, .aggregated = is_aggregated(plan) };
    int r = scope_init(scope, plan, schema, err);
    const struct standpoint where = { .scope = scope, .place = PLACE_WHERE };
    const struct standpoint having = { .scope = scope, .place = PLACE_HAVING };

    if (r >= 0)
        r = check_joins(&w, scope);
    if (r >= 0 && plan->n_having > 0 && plan->n_group_by == 0 && !plan_has_aggregate(plan))
        return err_set(err, ERR_VALIDATION, "'having' requires 'group_by' or an aggregation");
    if (r >= 0)
        r = check_select(&w, scope);
    if (r >= 0)
        r = check_filters(&w, &where, "filters", plan->filters, plan->n_filters);
    if (r >= 0)
        r = check_group_by(&w, scope);
    if (r >= 0)
        r = check_filters(&w, &having, "having", plan->having, plan->n_having);
    if (r >= 0)
        r = check_order_by(&w, scope);
    return r < 0 ? r : 0;
}

int plan_check(const struct query_plan *plan, const struct plan_schema *schema, struct err *err)
{
    if (plan->source && plan_check(plan->source, schema, err) < 0)
        return err_wrap(err, "source");
    struct scope *scope = malloc(sizeof(*scope)); /* a large one, and plans nest */
    if (!scope)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int r = check_whole(plan, schema, scope, err);
    free(scope);
    return r;
}
