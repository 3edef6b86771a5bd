/* Prints the SQL of a plan from its trees. The plan has been checked: every name resolves. */

#include "plan/compile.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "plan/compile_impl.h"

/* ---- clauses ---- */

/* Those that look at other rows have a clause of their own, behind the others. */
static int put_filters(struct printer *p, const struct standpoint *at, const char *clause,
                       bool around, const struct plan_filter *filters, size_t n)
{
    int r = 0;
    bool any = false;

    for (size_t i = 0; i < n && r >= 0; i++) {
        if (looks_around(&filters[i]) != around)
            continue;
        r = any ? put(p, "\n  AND ") : buf_printf(p->out, p->err, "\n%s\n  ", clause);
        any = true;
        if (r >= 0)
            r = put_filter(p, at, &filters[i]);
    }
    return r;
}

static int put_select(struct printer *p, const struct scope *s)
{
    const struct query_plan *plan = s->plan;
    int r = put(p, plan->distinct ? "SELECT DISTINCT" : "SELECT");

    if (r >= 0 && !plan->select)
        r = put(p, " *");
    for (size_t i = 0; i < plan->n_select && r >= 0; i++) {
        const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = i };

        r = put(p, i > 0 ? ",\n  " : "\n  ");
        if (r >= 0)
            r = put_expr(p, &at, plan->select[i].operand.what, BIND_OR);
        /* ClickHouse calls a column of a join by its table's name, too. */
        const char *name = p->dialect == DIALECT_CLICKHOUSE ? item_name(s, i) :
                                                              plan->select[i].alias;
        if (r >= 0 && name) {
            r = put(p, " AS ");
            if (r >= 0)
                r = put_name(p, name);
        }
    }
    return r;
}

static int put_from(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ON };
    bool click = p->dialect == DIALECT_CLICKHOUSE;
    int r = put(p, "\nFROM ");

    /*
     * ClickHouse would look for the second table on each server of a distributed one. GLOBAL is for
     * that, but version 18 does not know the columns of ON then.
     */
    if (r >= 0 && click && s->plan->n_joins > 0 && !s->plan->source) {
        r = put(p, "(SELECT * FROM ");
        if (r >= 0)
            r = put_name(p, s->names[0]);
        if (r >= 0)
            r = put(p, ") AS ");
    }
    if (r >= 0 && s->plan->source) {
        r = put(p, "(\n");
        if (r >= 0)
            r = put_plan(p, s->plan->source, s->schema, true);
        if (r >= 0)
            r = put(p, "\n) AS ");
    }
    if (r >= 0)
        r = put_name(p, s->names[0]);
    for (size_t i = 0; i < s->plan->n_joins && r >= 0; i++) {
        const struct plan_join *join = &s->plan->joins[i];
        struct join_keys keys;

        r = put(p, !click && join->left ? "\nLEFT JOIN " :
                   !click               ? "\nJOIN " :
                   join->left           ? "\nALL LEFT JOIN " :
                                          "\nALL INNER JOIN ");
        if (r >= 0)
            r = put_name(p, s->names[i + 1]);
        if (r >= 0)
            r = put(p, " ON ");
        if (r >= 0 && join->on) {
            r = put_expr(p, &at, join->on, BIND_OR);
            continue;
        }
        if (r >= 0)
            r = scope_relationship(s, i, &keys, p->err);
        if (r >= 0)
            r = put_column(p, keys.left_table, keys.left_column);
        if (r >= 0)
            r = put(p, " = ");
        if (r >= 0)
            r = put_column(p, keys.right_table, keys.right_column);
    }
    return r;
}

static int put_group_by(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_GROUP };
    int r = 0;

    for (size_t i = 0; i < s->plan->n_group_by && r >= 0; i++) {
        r = put(p, i > 0 ? ", " : "\nGROUP BY ");
        if (r >= 0)
            r = put_expr(p, &at, s->plan->group_by[i], BIND_OR);
    }
    return r;
}

/* What an entry of order_by is called outside of the query that has it. */
static int order_alias(const struct scope *s, size_t i, const char **ret,
                       const struct expr **ret_expr, struct err *err)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    struct target t;
    int r = scope_order(s, &s->plan->order_by[i], ret_expr, err);

    *ret = NULL;
    if (r >= 0 && (*ret_expr)->kind == EXPR_COLUMN &&
        scope_resolve(&at, *ret_expr, &t, NULL) >= 0 && t.item)
        *ret = t.item->alias;
    return r;
}

static int put_direction(struct printer *p, const struct plan_order *order)
{
    int r = put(p, order->descending ? " DESC" : " ASC");

    if (r >= 0 && (order->nulls != NULLS_DEFAULT || p->dialect != DIALECT_DUCKDB))
        r = put(p, order->nulls == NULLS_FIRST ? " NULLS FIRST" : " NULLS LAST");
    return r;
}

static int put_order_by(struct printer *p, const struct scope *s)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    int r = 0;

    for (size_t i = 0; i < s->plan->n_order_by && r >= 0; i++) {
        const struct expr *e;
        const char *alias;

        r = order_alias(s, i, &alias, &e, p->err);
        if (r >= 0)
            r = put(p, i > 0 ? ", " : "\nORDER BY ");
        if (r >= 0)
            r = alias ? put_name(p, alias) : put_expr(p, &at, e, BIND_OR);
        if (r >= 0)
            r = put_direction(p, &s->plan->order_by[i]);
    }
    return r;
}

/* DESCRIBE and SUMMARIZE as tables, so that they have the form of a SELECT. */
static int put_description(struct printer *p, const struct scope *s)
{
    if (p->dialect != DIALECT_DUCKDB)
        return dialect_put_description(p, s);
    bool statistics = s->plan->describe == DESCRIBE_STATISTICS;
    int r = put(p, statistics ? "SELECT\n  *\nFROM (SUMMARIZE " :
                                "SELECT\n  column_name,\n  column_type\nFROM (DESCRIBE ");
    if (r >= 0)
        r = put_name(p, s->names[0]);
    return r < 0 ? r : put(p, ")");
}

static bool filters_look_around(const struct query_plan *plan)
{
    for (size_t i = 0; i < plan->n_filters; i++)
        if (looks_around(&plan->filters[i]))
            return true;
    return false;
}

/* What an item is called inside. In ClickHouse that must be the name of no column. */
static int put_inner_name(struct printer *p, const struct scope *s, size_t i)
{
    const char *name = item_name(s, i);
    if (!name)
        return buf_printf(p->out, p->err, "\"column_%zu\"", i + 1);
    return p->dialect == DIALECT_CLICKHOUSE ? buf_printf(p->out, p->err, "\"item_%zu=\"", i + 1) :
                                              put_name(p, name);
}

/* The columns of the result by their names, which those of `SELECT *` are only if they differ. */
static int put_names(struct printer *p, const struct scope *s)
{
    int r = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->plan->n_select && r >= 0; i++) {
        const char *name = item_name(s, i);

        r = put(p, n++ > 0 ? ", " : " ");
        if (r >= 0)
            r = put_inner_name(p, s, i);
        if (r >= 0 && name && p->dialect == DIALECT_CLICKHOUSE) {
            r = put(p, " AS ");
            if (r >= 0)
                r = put_name(p, name);
        }
    }
    for (size_t i = 0; i < s->n_tables && r >= 0 && !s->plan->select; i++) {
        if (!s->tables[i] || s->n_tables > 1)
            return err_set(p->err, ERR_VALIDATION, "name the columns that are wanted");
        for (size_t k = 0; k < s->tables[i]->n_columns && r >= 0; k++) {
            r = put(p, n++ > 0 ? ", " : " ");
            if (r >= 0)
                r = put_name(p, s->tables[i]->columns[k].name);
        }
    }
    return r;
}

static int put_kept_items(struct printer *p, const struct scope *s)
{
    const struct standpoint where = { .scope = s, .place = PLACE_WHERE };
    const struct standpoint order = { .scope = s, .place = PLACE_ORDER };
    const struct query_plan *plan = s->plan;
    const struct expr *e;
    const char *alias;
    int r = put(p, "SELECT");

    if (r >= 0 && !plan->select)
        r = put(p, " *");
    for (size_t i = 0; i < plan->n_select && r >= 0; i++) {
        const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = i };

        r = put(p, i > 0 ? ",\n  " : "\n  ");
        if (r >= 0)
            r = put_expr(p, &at, plan->select[i].operand.what, BIND_OR);
        if (r >= 0)
            r = put(p, " AS ");
        if (r >= 0)
            r = put_inner_name(p, s, i);
    }
    bool any = false;
    for (size_t i = 0; i < plan->n_filters && r >= 0; i++) {
        if (!looks_around(&plan->filters[i]))
            continue;
        r = put(p, any ? " AND " : ",\n  (");
        any = true;
        if (r >= 0)
            r = put_filter(p, &where, &plan->filters[i]);
    }
    if (r >= 0 && any)
        r = put(p, ") AS \"is_kept\"");
    for (size_t i = 0; i < plan->n_order_by && r >= 0; i++) {
        r = order_alias(s, i, &alias, &e, p->err);
        if (r < 0 || alias)
            continue;
        r = put(p, ",\n  ");
        if (r >= 0)
            r = put_expr(p, &order, e, BIND_OR);
        if (r >= 0)
            r = buf_printf(p->out, p->err, " AS \"order_%zu\"", i + 1);
    }
    return r;
}

/*
 * For engines without QUALIFY: whether a row is kept is one more column of an inner query. For
 * ClickHouse also where an alias is the name of a column, which it would take the place of.
 */
static int put_kept(struct printer *p, const struct scope *s)
{
    const struct standpoint where = { .scope = s, .place = PLACE_WHERE };
    const struct standpoint having = { .scope = s, .place = PLACE_HAVING };
    const struct query_plan *plan = s->plan;
    int r = put(p, plan->distinct ? "SELECT DISTINCT" : "SELECT");

    if (r >= 0)
        r = put_names(p, s);
    if (r >= 0)
        r = put(p, "\nFROM (\n");
    if (r >= 0)
        r = put_kept_items(p, s);
    if (r >= 0)
        r = put_from(p, s);
    if (r >= 0)
        r = put_filters(p, &where, "WHERE", false, plan->filters, plan->n_filters);
    if (r >= 0)
        r = put_group_by(p, s);
    if (r >= 0)
        r = put_filters(p, &having, "HAVING", false, plan->having, plan->n_having);
    if (r >= 0)
        r = put(p, filters_look_around(plan) ? "\n) AS \"all_rows\"\nWHERE \"is_kept\"" :
                                               "\n) AS \"all_rows\"");
    for (size_t i = 0; i < plan->n_order_by && r >= 0; i++) {
        const struct expr *e;
        const char *alias;

        r = order_alias(s, i, &alias, &e, p->err);
        if (r >= 0)
            r = put(p, i > 0 ? ", " : "\nORDER BY ");
        if (r >= 0)
            r = alias ? put_name(p, alias) : buf_printf(p->out, p->err, "\"order_%zu\"", i + 1);
        if (r >= 0)
            r = put_direction(p, &plan->order_by[i]);
    }
    return r;
}

/* An item that is no plain column is called as a column is. */
static bool hides_column(const struct scope *s)
{
    for (size_t i = 0; i < s->plan->n_select; i++) {
        const char *alias = s->plan->select[i].alias;
        const struct standpoint at = { .scope = s, .place = PLACE_SELECT, .item = i };
        const struct expr *what = s->plan->select[i].operand.what;
        struct target t;
        if (!alias || (what->kind == EXPR_COLUMN && scope_resolve(&at, what, &t, NULL) >= 0 &&
                       !t.item && str_eq(t.name, alias)))
            continue;
        for (size_t k = 0; k < s->n_tables; k++)
            for (size_t c = 0; s->tables[k] && c < s->tables[k]->n_columns; c++)
                if (str_eq(s->tables[k]->columns[c].name, alias))
                    return true;
        const struct query_plan *source = s->plan->source;
        for (size_t k = 0; source && k < source->n_select; k++)
            if (source->select[k].alias && str_eq(source->select[k].alias, alias))
                return true;
    }
    return false;
}

static int put_clauses(struct printer *p, const struct scope *scope)
{
    const struct query_plan *plan = scope->plan;
    const struct standpoint where = { .scope = scope, .place = PLACE_WHERE };
    const struct standpoint having = { .scope = scope, .place = PLACE_HAVING };
    if (plan->describe != DESCRIBE_NONE)
        return put_description(p, scope);
    if ((p->dialect != DIALECT_DUCKDB && filters_look_around(plan)) ||
        (p->dialect == DIALECT_CLICKHOUSE && hides_column(scope)))
        return put_kept(p, scope);
    int r = put_select(p, scope);
    if (r >= 0)
        r = put_from(p, scope);
    if (r >= 0)
        r = put_filters(p, &where, "WHERE", false, plan->filters, plan->n_filters);
    if (r >= 0)
        r = put_group_by(p, scope);
    if (r >= 0)
        r = put_filters(p, &having, "HAVING", false, plan->having, plan->n_having);
    if (r >= 0)
        r = put_filters(p, &where, "QUALIFY", true, plan->filters, plan->n_filters);
    return r < 0 ? r : put_order_by(p, scope);
}

int compile_put_plan(struct printer *p, const struct query_plan *plan,
                     const struct plan_schema *schema, bool inner)
{
    struct scope *scope = malloc(sizeof(*scope));
    if (!scope)
        return err_set(p->err, ERR_NO_MEMORY, "out of memory");
    int r = scope_init(scope, plan, schema, p->err);
    if (r >= 0)
        r = put_clauses(p, scope);
    free(scope);
    if (r >= 0 && (!inner || plan->limit_given))
        r = buf_printf(p->out, p->err, "\nLIMIT %d", plan->limit);
    if (r >= 0 && plan->offset > 0)
        r = buf_printf(p->out, p->err, " OFFSET %lld", plan->offset);
    return r;
}

int plan_compile(const struct query_plan *plan, const struct plan_schema *schema,
                 struct buf *ret_sql, struct err *err)
{
    struct printer p = { .out = ret_sql,
                         .err = err,
                         .dialect = schema ? schema->dialect : DIALECT_DUCKDB };
    size_t before = ret_sql->len;
    int r = plan_check(plan, schema, err);

    if (r >= 0)
        r = put_plan(&p, plan, schema, false);
    if (r >= 0)
        return 0;
    ret_sql->len = before;
    if (ret_sql->data)
        ret_sql->data[before] = '\0';
    return err_wrap(err, "Failed to compile QueryPlan");
}
