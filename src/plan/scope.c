/* Names in a plan: which table, column or alias each one means. */

#include "plan/plan_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

#define SUGGESTIONS_MAX 512

int scope_check_name(const char *name, struct err *err)
{
    char shown[STR_SHOWN_SIZE];

    if (expr_is_plain_name(name))
        return 0;
    return err_set(err, ERR_VALIDATION,
                   "Invalid identifier: %s. Only alphanumeric and underscore allowed.",
                   str_show(name, strlen(name), shown, sizeof(shown)));
}

/* "…; did you mean 'x'?", or all the names there are. */
static int unknown(const char *what, const char *name, const char *const *names, size_t n,
                   struct err *err)
{
    char list[400] = "", shown[STR_SHOWN_SIZE];
    const char *near = str_nearest(name, names, n);
    size_t used = 0;

    str_show(name, strlen(name), shown, sizeof(shown));
    if (near)
        return err_set(err, ERR_VALIDATION, "Unknown %s '%s'; did you mean '%s'?", what, shown,
                       near);
    for (size_t i = 0; i < n && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    return err_set(err, ERR_VALIDATION, "Unknown %s '%s'; there %s %s%s", what, shown,
                   n == 1 ? "is" : "are", list, used < sizeof(list) ? "" : ", …");
}

/* ---- tables ---- */

static int unknown_table(const struct plan_schema *schema, const char *name, struct err *err)
{
    const char *names[64];
    size_t n = MIN_OF(schema->n_tables, ARRAY_SIZE(names));

    for (size_t i = 0; i < n; i++)
        names[i] = schema->tables[i].name;
    return unknown("table", name, names, n, err);
}

static int add_table(struct scope *s, const char *name, struct err *err)
{
    char shown[STR_SHOWN_SIZE];

    if (s->schema) {
        const struct plan_table *t = plan_schema_table(s->schema, name);
        if (!t)
            return unknown_table(s->schema, name, err);
        s->tables[s->n_tables] = t;
        name = t->name;
    } else {
        int r = scope_check_name(name, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < s->n_tables; i++)
        if (str_ieq(s->names[i], name))
            return err_set(err, ERR_VALIDATION, "Table '%s' is in the plan already",
                           str_show(name, strlen(name), shown, sizeof(shown)));
    s->names[s->n_tables++] = name;
    return 0;
}

/* The items of the inner plan, which has been checked, are the columns. */
static int add_source(struct scope *s, const struct plan_schema *schema, struct err *err)
{
    const struct query_plan *inner = s->plan->source;
    struct scope *in = malloc(sizeof(*in));
    int r = in ? scope_init(in, inner, schema, err) : err_set(err, ERR_NO_MEMORY, "out of memory");

    for (size_t i = 0; i < inner->n_select && r >= 0; i++) {
        const struct plan_item *item = &inner->select[i];
        const struct standpoint at = { .scope = in, .place = PLACE_SELECT, .item = i };
        struct target t = { .name = item->alias };
        if (!item->alias)
            r = scope_resolve(&at, item->operand.what, &t, err);
        if (r >= 0)
            s->source_columns[i] = (struct plan_column){
                .name = t.name,
                .type_name = "",
                .type = check_type_of(&at, item->operand.what),
            };
    }
    free(in);
    s->source = (struct plan_table){ .name = PLAN_SOURCE_NAME,
                                     .columns = s->source_columns,
                                     .n_columns = inner->n_select };
    s->tables[0] = &s->source;
    s->names[0] = PLAN_SOURCE_NAME;
    s->n_tables = 1;
    return r;
}

int scope_init(struct scope *s, const struct query_plan *plan, const struct plan_schema *schema,
               struct err *err)
{
    char shown[STR_SHOWN_SIZE], known[STR_SHOWN_SIZE];

    s->plan = plan;
    s->schema = schema;
    s->n_tables = 0;
    memset(s->tables, 0, sizeof(s->tables));
    if (schema && schema->dataset_id && !str_eq(schema->dataset_id, plan->dataset_id))
        return err_set(
            err, ERR_VALIDATION, "The plan is for dataset '%s', not for '%s'",
            str_show(plan->dataset_id, strlen(plan->dataset_id), shown, sizeof(shown)),
            str_show(schema->dataset_id, strlen(schema->dataset_id), known, sizeof(known)));
    int r = plan->source ? add_source(s, schema, err) : add_table(s, plan->table, err);
    for (size_t i = 0; i < plan->n_joins && r >= 0; i++) {
        r = add_table(s, plan->joins[i].table, err);
        if (r < 0)
            err_wrap(err, "joins[%zu]", i);
    }
    return r;
}

/* ---- columns ---- */

static void set_column(const struct scope *s, size_t table, const struct plan_column *c,
                       bool qualified, struct target *ret)
{
    *ret = (struct target){
        .table = s->names[table],
        .name = c->name,
        .qualified = qualified,
        .type = c->type,
        .type_name = c->type_name,
    };
}

/* The one table that has the column. 1, 0 if none has it, VALIDATION if several have. */
static int find_unqualified(const struct scope *s, const char *name, struct target *ret,
                            struct err *err)
{
    const struct plan_column *found = NULL;
    char shown[STR_SHOWN_SIZE];
    size_t first = 0;

    for (size_t i = 0; i < s->n_tables; i++) {
        const struct plan_column *c = plan_table_column(s->tables[i], name);

        if (c && found)
            return err_set(err, ERR_VALIDATION,
                           "Column '%s' is in '%s' and in '%s'; write '%s.%s' or '%s.%s'",
                           str_show(name, strlen(name), shown, sizeof(shown)), s->names[first],
                           s->names[i], s->names[first], shown, s->names[i], shown);
        if (c) {
            found = c;
            first = i;
        }
    }
    if (found)
        set_column(s, first, found, false, ret);
    return found != NULL;
}

static int find_with_schema(const struct scope *s, const struct expr *e, struct target *ret,
                            struct err *err)
{
    if (e->whole) {
        int r = find_unqualified(s, e->text, ret, err);
        if (r == 0 && !str_eq(e->text, e->name))
            r = find_unqualified(s, e->name, ret, err);
        if (r != 0)
            return r;
    }
    for (size_t i = 0; i < s->n_tables && e->table; i++) {
        if (!str_ieq(s->names[i], e->table))
            continue;
        const struct plan_column *c = plan_table_column(s->tables[i], e->column);
        if (c) {
            set_column(s, i, c, true, ret);
            return 1;
        }
    }
    return 0;
}

/* Without a schema a column is whatever has the form of one. */
static int find_by_form(const struct scope *s, const struct expr *e, struct target *ret)
{
    *ret = (struct target){ .name = e->name };
    if (e->whole && expr_is_plain_name(e->name))
        return 1;
    if (!e->table || !expr_is_plain_name(e->table) || !expr_is_plain_name(e->column))
        return 0;
    for (size_t i = 0; i < s->n_tables; i++)
        if (str_ieq(s->names[i], e->table)) {
            *ret = (struct target){ .table = s->names[i], .name = e->column, .qualified = true };
            return 1;
        }
    return 0;
}

static int find_column(const struct scope *s, const struct expr *e, struct target *ret,
                       struct err *err)
{
    return s->schema ? find_with_schema(s, e, ret, err) : find_by_form(s, e, ret);
}

static int unknown_column(const struct standpoint *at, const struct expr *e, struct err *err)
{
    const struct scope *s = at->scope;
    const char *names[SUGGESTIONS_MAX];
    bool known_table = false;
    size_t n = 0;

    for (size_t i = 0; i < s->n_tables; i++)
        known_table = known_table || (e->table && str_ieq(s->names[i], e->table));
    if (e->table && !known_table && expr_is_plain_name(e->table))
        return unknown("table of this plan", e->table, s->names, s->n_tables, err);
    if (!s->schema)
        return scope_check_name(known_table ? e->column : e->name, err);
    for (size_t i = 0; i < s->n_tables; i++) {
        if (known_table && !str_ieq(s->names[i], e->table))
            continue;
        for (size_t k = 0; k < s->tables[i]->n_columns && n < SUGGESTIONS_MAX; k++)
            names[n++] = s->tables[i]->columns[k].name;
    }
    if (at->place != PLACE_ON && !e->table)
        for (size_t i = 0; i < s->plan->n_select && n < SUGGESTIONS_MAX; i++)
            if (s->plan->select[i].alias && (at->place != PLACE_SELECT || i < at->item))
                names[n++] = s->plan->select[i].alias;
    return unknown("column", known_table ? e->column : e->name, names, n, err);
}

/* ---- aliases ---- */

static bool uses_column_named(const struct expr *e, const char *name)
{
    if (e->kind == EXPR_COLUMN)
        return str_ieq(e->column ? e->column : e->name, name);
    for (size_t i = 0; i < e->n_args; i++)
        if (uses_column_named(e->args[i], name))
            return true;
    return false;
}

static bool is_plain_column(const struct plan_item *item)
{
    return item->operand.what->kind == EXPR_COLUMN;
}

/* The item that bears the alias, if the place may name it. */
static bool find_alias(const struct standpoint *at, const struct expr *e, struct target *ret)
{
    const struct query_plan *plan = at->scope->plan;
    size_t end = at->place == PLACE_SELECT ? at->item : plan->n_select;

    if (at->place == PLACE_ON || !e->whole)
        return false;
    for (size_t i = 0; i < end; i++) {
        const struct plan_item *item = &plan->select[i];

        if (!item->alias || !str_ieq(item->alias, e->name))
            continue;
        if (at->place == PLACE_GROUP && expr_has_aggregate(item->operand.what))
            return false;
        *ret = (struct target){ .item = item, .index = i };
        return true;
    }
    return false;
}

/*
 * In group_by the alias of a plain column stands for it, unless that column is grouped by its own
 * name: then the name of the alias rather means a column that happens to have it.
 */
static bool is_grouped_by_name(const struct query_plan *plan, const struct plan_item *item)
{
    for (size_t i = 0; i < plan->n_group_by && is_plain_column(item); i++)
        if (str_ieq(plan->group_by[i]->name, item->operand.what->name))
            return true;
    return false;
}

int scope_resolve(const struct standpoint *at, const struct expr *e, struct target *ret,
                  struct err *err)
{
    bool alias_first = !at->in_aggregate && (at->place == PLACE_GROUP ||
                                             at->place == PLACE_HAVING || at->place == PLACE_ORDER);
    struct target alias = { .item = NULL };
    bool has_alias = find_alias(at, e, &alias);

    /*
     * Without a schema any name could be a column's; that of something computed from other columns
     * is taken as that.
     */
    if (has_alias && !alias_first && !at->scope->schema)
        alias_first = !is_plain_column(alias.item) &&
                      !uses_column_named(alias.item->operand.what, alias.item->alias);
    if (has_alias && at->place == PLACE_GROUP && is_grouped_by_name(at->scope->plan, alias.item))
        alias_first = false;
    if (!has_alias || !alias_first) {
        int r = find_column(at->scope, e, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    if (!has_alias)
        return unknown_column(at, e, err);
    *ret = alias;
    return 0;
}

struct standpoint scope_within(const struct standpoint *at, const struct target *alias)
{
    return (struct standpoint){
        .scope = at->scope,
        .place = PLACE_SELECT,
        .item = alias->index,
        .in_aggregate = at->in_aggregate,
        .no_aggregate = at->no_aggregate || at->place == PLACE_WHERE || at->place == PLACE_GROUP,
    };
}

/* ---- joins and order ---- */

int scope_relationship(const struct scope *s, size_t index, struct join_keys *ret, struct err *err)
{
    const char *joined = s->names[index + 1];
    size_t found = 0;

    if (!s->schema)
        return err_set(err, ERR_VALIDATION,
                       "Joining '%s' needs 'on': without a schema no relationship is known",
                       joined);
    for (size_t i = 0; i < s->schema->n_relationships; i++) {
        const struct plan_relationship *rel = &s->schema->relationships[i];

        for (size_t k = 0; k <= index; k++) {
            bool forth = str_ieq(rel->to_table, joined) && str_ieq(rel->from_table, s->names[k]);
            bool back = str_ieq(rel->from_table, joined) && str_ieq(rel->to_table, s->names[k]);

            if (!forth && !back)
                continue;
            const char *left = forth ? rel->from_column : rel->to_column;
            const char *right = forth ? rel->to_column : rel->from_column;
            const struct plan_column *lc = plan_table_column(s->tables[k], left);
            const struct plan_column *rc = plan_table_column(s->tables[index + 1], right);
            if (!lc || !rc)
                return err_set(err, ERR_VALIDATION,
                               "The relationship '%s.%s' to '%s.%s' names an unknown column",
                               s->names[k], left, joined, right);
            *ret = (struct join_keys){ s->names[k], lc->name, joined, rc->name };
            found++;
        }
    }
    if (found == 1)
        return 0;
    if (found > 1)
        return err_set(err, ERR_VALIDATION,
                       "More than one relationship leads to '%s'; choose with 'on'", joined);
    return err_set(err, ERR_VALIDATION, "No declared relationship leads to '%s'; give 'on'",
                   joined);
}

int scope_order(const struct scope *s, const struct plan_order *order, const struct expr **ret,
                struct err *err)
{
    const struct standpoint at = { .scope = s, .place = PLACE_ORDER };
    const struct expr *n = order->name;
    struct err problem = ERR_INIT;
    struct target t;

    *ret = n;
    if (scope_resolve(&at, n, &t, &problem) >= 0)
        return 0;
    /*
     * A name that is merely unknown is told as that; what has not the form of a name may be an
     * expression.
     */
    if (expr_is_plain_name(n->name) ||
        (n->table && expr_is_plain_name(n->table) && expr_is_plain_name(n->column)))
        return err_set(err, problem.code, "%s", problem.message);
    if (order->expr) {
        *ret = order->expr;
        return 0;
    }
    scope_check_name(n->name, &problem);
    return err_set(err, ERR_VALIDATION, "%s (%s)", problem.message, order->expr_problem);
}
