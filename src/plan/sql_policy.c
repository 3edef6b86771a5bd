/*
 * The SQL policy, on DuckDB's own syntax tree.
 *
 * Theory of operation. Every kind of object that json_serialize_sql can write is described below as
 * a shape: the members it may have and what each holds (an expression, a table reference, plain
 * data …). The walk goes by these shapes only. An object of unknown kind, or a known one with an
 * unknown member, is refused rather than skipped, so nothing can hide in a part of the tree that
 * this file has never heard of, and a newer DuckDB fails closed.
 *
 * Table names resolve as DuckDB resolves them: an unqualified name is a CTE in scope or else a
 * table. The scope is never wider than DuckDB's, because a name taken for a CTE here and for a file
 * there would be a hole.
 */

#include "plan/sql_policy.h"

#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "plan/sql_functions.h"

/* DuckDB's own limit for expressions is 1000; the walk takes about two levels for each of them. */
#define MAX_DEPTH 2400
/*
 * Planning takes DuckDB twice as long for every level of these, and no interrupt reaches it there.
 */
#define MAX_SUBQUERY_DEPTH 12
#define MAX_NAME 200 /* bytes of a user's name that a message repeats */

enum member_kind {
    DATA,      /* names, flags, constants, types: nothing to walk */
    EXPR,      /* expression */
    EXPRS,     /* array of expressions */
    EXPR_ROWS, /* array of arrays of expressions */
    EXPR_MAP,  /* array of {key, value: expression} */
    NODE,      /* query node */
    NODES,     /* array of query nodes */
    STATEMENT, /* {node, named_param_map} */
    TABLE,     /* table reference */
    CTES,      /* {map: [{key, value: {query, …}}]}: handled before all other members */
    MODIFIER,  /* ORDER BY, LIMIT, DISTINCT */
    MODIFIERS, /* array of them */
    ORDERS,    /* array of {type, null_order, expression} */
    CASES,     /* array of {when_expr, then_expr} */
    PIVOTS,    /* array of pivot columns */
    ENTRIES,   /* array of pivot column entries */
    AT_CLAUSE, /* {unit, expr} */
    CTE_QUERY, /* the query of a CTE_NODE, a second copy of one in its map */
    CTE_CHILD, /* what uses it */
    SELF_NODE, /* the recursive half of a recursive CTE, which sees itself */
};

struct member {
    const char *name;
    enum member_kind kind;
};

struct shape {
    const char *name;
    const struct member *members; /* ends with a NULL name */
};

/*
 * One name that unqualified tables may have; scopes live on the stack of the walk, innermost first.
 */
struct scope {
    const char *name;
    const struct scope *outer;
};

struct walk {
    const struct sql_policy *policy;
    struct err *err;
    int n_subqueries; /* around the expression that is being walked */
};

#define MEMBERS(...) ((const struct member[]){ __VA_ARGS__, { NULL, DATA } })

/* ---- shapes -------------------------------------------------------------------------------------------------------- */

static const struct shape expressions[] = {
    { "BETWEEN", MEMBERS({ "input", EXPR }, { "lower", EXPR }, { "upper", EXPR }) },
    { "CASE", MEMBERS({ "case_checks", CASES }, { "else_expr", EXPR }) },
    { "CAST", MEMBERS({ "child", EXPR }, { "cast_type", DATA }, { "try_cast", DATA }) },
    { "COLLATE", MEMBERS({ "child", EXPR }, { "collation", DATA }) },
    { "COLUMN_REF", MEMBERS({ "column_names", DATA }) },
    { "COMPARISON", MEMBERS({ "left", EXPR }, { "right", EXPR }) },
    { "CONJUNCTION", MEMBERS({ "children", EXPRS }) },
    { "CONSTANT", MEMBERS({ "value", DATA }) },
    { "FUNCTION",
      MEMBERS({ "function_name", DATA }, { "schema", DATA }, { "catalog", DATA },
              { "children", EXPRS }, { "filter", EXPR }, { "order_bys", MODIFIER },
              { "distinct", DATA }, { "is_operator", DATA }, { "export_state", DATA }) },
    { "LAMBDA", MEMBERS({ "lhs", EXPR }, { "expr", EXPR }, { "syntax_type", DATA }) },
    { "LAMBDA_REF", MEMBERS({ "lambda_idx", DATA }, { "column_name", DATA }) },
    { "OPERATOR", MEMBERS({ "children", EXPRS }) },
    { "POSITIONAL_REFERENCE", MEMBERS({ "index", DATA }) },
    { "STAR", MEMBERS({ "relation_name", DATA }, { "exclude_list", DATA },
                      { "replace_list", EXPR_MAP }, { "columns", DATA }, { "expr", EXPR },
                      { "qualified_exclude_list", DATA }, { "rename_list", DATA }) },
    { "SUBQUERY", MEMBERS({ "subquery_type", DATA }, { "subquery", STATEMENT }, { "child", EXPR },
                          { "comparison_type", DATA }) },
    { "WINDOW",
      MEMBERS({ "function_name", DATA }, { "schema", DATA }, { "catalog", DATA },
              { "children", EXPRS }, { "partitions", EXPRS }, { "orders", ORDERS },
              { "start", DATA }, { "end", DATA }, { "start_expr", EXPR }, { "end_expr", EXPR },
              { "offset_expr", EXPR }, { "default_expr", EXPR }, { "ignore_nulls", DATA },
              { "filter_expr", EXPR }, { "exclude_clause", DATA }, { "distinct", DATA },
              { "arg_orders", ORDERS }) },
};
static const struct member expression_members[] = {
    /* of every expression */
    { "class", DATA },          { "type", DATA }, { "alias", DATA },
    { "query_location", DATA }, { NULL, DATA },
};

static const struct shape tables[] = {
    { "BASE_TABLE",
      MEMBERS({ "schema_name", DATA }, { "table_name", DATA }, { "column_name_alias", DATA },
              { "catalog_name", DATA }, { "at_clause", AT_CLAUSE }) },
    { "EMPTY", MEMBERS({ NULL, DATA }) },
    { "EXPRESSION_LIST",
      MEMBERS({ "expected_names", DATA }, { "expected_types", DATA }, { "values", EXPR_ROWS }) },
    { "JOIN",
      MEMBERS({ "left", TABLE }, { "right", TABLE }, { "condition", EXPR }, { "join_type", DATA },
              { "ref_type", DATA }, { "using_columns", DATA }, { "delim_flipped", DATA },
              { "duplicate_eliminated_columns", EXPRS }, { "is_implicit", DATA }) },
    { "PIVOT", MEMBERS({ "source", TABLE }, { "aggregates", EXPRS }, { "unpivot_names", DATA },
                       { "pivots", PIVOTS }, { "groups", DATA }, { "column_name_alias", DATA },
                       { "include_nulls", DATA }) },
    { "SHOW_REF", MEMBERS({ "table_name", DATA }, { "query", NODE }, { "show_type", DATA },
                          { "catalog_name", DATA }, { "schema_name", DATA }) },
    { "SUBQUERY", MEMBERS({ "subquery", STATEMENT }, { "column_name_alias", DATA }) },
    { "TABLE_FUNCTION",
      MEMBERS({ "function", EXPR }, { "column_name_alias", DATA }, { "with_ordinality", DATA }) },
};
static const struct member table_members[] = {
    { "type", DATA },           { "alias", DATA }, { "sample", DATA },
    { "query_location", DATA }, { NULL, DATA },
};

static const struct shape nodes[] = {
    { "SELECT_NODE", MEMBERS({ "select_list", EXPRS }, { "from_table", TABLE },
                             { "where_clause", EXPR }, { "group_expressions", EXPRS },
                             { "group_sets", DATA }, { "aggregate_handling", DATA },
                             { "having", EXPR }, { "sample", DATA }, { "qualify", EXPR }) },
    { "SET_OPERATION_NODE", MEMBERS({ "setop_type", DATA }, { "left", NODE }, { "right", NODE },
                                    { "setop_all", DATA }, { "children", NODES }) },
    { "RECURSIVE_CTE_NODE",
      MEMBERS({ "cte_name", DATA }, { "union_all", DATA }, { "left", NODE }, { "right", SELF_NODE },
              { "aliases", DATA }, { "key_targets", EXPRS }) },
    { "CTE_NODE", MEMBERS({ "cte_name", DATA }, { "query", CTE_QUERY }, { "child", CTE_CHILD },
                          { "aliases", DATA }, { "materialized", DATA }) },
};
static const struct member node_members[] = {
    { "type", DATA },
    { "modifiers", MODIFIERS },
    { "cte_map", CTES },
    { NULL, DATA },
};

static const struct shape modifiers[] = {
    { "ORDER_MODIFIER", MEMBERS({ "orders", ORDERS }) },
    { "LIMIT_MODIFIER", MEMBERS({ "limit", EXPR }, { "offset", EXPR }) },
    { "LIMIT_PERCENT_MODIFIER", MEMBERS({ "limit", EXPR }, { "offset", EXPR }) },
    { "DISTINCT_MODIFIER", MEMBERS({ "distinct_on_targets", EXPRS }) },
};
static const struct member modifier_members[] = { { "type", DATA }, { NULL, DATA } };

/* Objects with no "type" of their own: where they stand says what they are. */
static const struct member no_members[] = { { NULL, DATA } };
static const struct shape statement_shape = { "statement", MEMBERS({ "node", NODE },
                                                                   { "named_param_map", DATA }) };
static const struct shape cte_shape = { "CTE", MEMBERS({ "aliases", DATA }, { "query", STATEMENT },
                                                       { "materialized", DATA },
                                                       { "key_targets", EXPRS }) };
static const struct shape map_entry_shape = { "map entry",
                                              MEMBERS({ "key", DATA }, { "value", EXPR }) };
static const struct shape order_shape = { "order", MEMBERS({ "type", DATA }, { "null_order", DATA },
                                                           { "expression", EXPR }) };
static const struct shape case_shape = { "case",
                                         MEMBERS({ "when_expr", EXPR }, { "then_expr", EXPR }) };
static const struct shape pivot_shape = {
    "pivot", MEMBERS({ "pivot_expressions", EXPRS }, { "unpivot_names", DATA },
                     { "entries", ENTRIES }, { "pivot_enum", DATA }, { "subquery", NODE })
};
static const struct shape entry_shape = {
    "pivot entry", MEMBERS({ "values", DATA }, { "star_expr", EXPR }, { "alias", DATA })
};
static const struct shape at_shape = { "AT", MEMBERS({ "unit", DATA }, { "expr", EXPR }) };

/*
 * Operators are a class of their own; each is harmless, and one that is not listed is not known to
 * be.
 */
static const char *const operator_types[] = {
    "OPERATOR_NOT",         "OPERATOR_IS_NULL",
    "OPERATOR_IS_NOT_NULL", "OPERATOR_UNPACK",
    "OPERATOR_NULLIF",      "OPERATOR_COALESCE",
    "OPERATOR_TRY",         "COMPARE_IN",
    "COMPARE_NOT_IN",       "ARRAY_EXTRACT",
    "ARRAY_SLICE",          "STRUCT_EXTRACT",
    "ARRAY_CONSTRUCTOR",    "ARROW",
    "GROUPING_FUNCTION",
};

/* ---- messages ------------------------------------------------------------------------------------------------------ */

/* "orders, order_items, …" for the end of a message. */
static void list_tables(const struct sql_policy *policy, char *ret, size_t size)
{
    size_t len = 0;

    if (policy->n_tables == 0) {
        snprintf(ret, size, "there are none");
        return;
    }
    ret[0] = '\0';
    for (size_t i = 0; i < policy->n_tables; i++) {
        const char *name = policy->tables[i];

        if (i == 12 || len + strlen(name) + 8 > size) {
            snprintf(ret + len, size - len, ", …");
            return;
        }
        len += (size_t)snprintf(ret + len, size - len, "%s%s", i ? ", " : "", name);
    }
}

static int refuse_construct(struct walk *w, const char *what, const char *name)
{
    return err_set(w->err, ERR_VALIDATION,
                   "this kind of SQL is not supported: %s %.*s; write it as a plain SELECT", what,
                   MAX_NAME, name);
}

static const char *text_of(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));

    return s ? s : "";
}

static bool looks_like_file(const char *name)
{
    return strchr(name, '/') || strchr(name, '*') || strstr(name, ".csv") ||
           strstr(name, ".parquet") || strstr(name, ".json") || strstr(name, ".tsv") ||
           strstr(name, ".txt") || strstr(name, ".db") || strstr(name, ".xlsx");
}

static int refuse_function(struct walk *w, const char *name)
{
    char names[400];

    list_tables(w->policy, names, sizeof(names));
    if (str_starts(name, "read_") || str_starts(name, "parquet_") || str_eq(name, "glob") ||
        str_eq(name, "sniff_csv") || str_ends(name, "_scan")) {
        return err_set(w->err, ERR_VALIDATION,
                       "reading files is not allowed: %.*s(); query a table by name (%s)", MAX_NAME,
                       name, names);
    }
    if (str_eq(name, "getenv") || str_eq(name, "current_setting") || str_eq(name, "getvariable") ||
        str_eq(name, "which_secret")) {
        return err_set(w->err, ERR_VALIDATION,
                       "reading settings is not allowed: %.*s(); query a table by name (%s)",
                       MAX_NAME, name, names);
    }
    if (str_starts(name, "duckdb_") || str_starts(name, "pragma_") || str_starts(name, "pg_") ||
        str_starts(name, "has_")) {
        return err_set(
            w->err, ERR_VALIDATION,
            "the system catalog is not available: %.*s(); DESCRIBE <table> shows the columns of a table (%s)",
            MAX_NAME, name, names);
    }
    if (str_eq(name, "query") || str_eq(name, "query_table") || strstr(name, "_sql")) {
        return err_set(w->err, ERR_VALIDATION,
                       "running SQL from a text is not allowed: %.*s(); write the query itself",
                       MAX_NAME, name);
    }
    for (size_t i = 0; i < sql_n_function_groups; i++) {
        const struct sql_function_group *g = &sql_function_groups[i];
        const char *nearest = str_nearest(name, g->names, g->n_names);

        if (nearest && strlen(nearest) > 2) {
            return err_set(w->err, ERR_VALIDATION,
                           "function '%.*s' does not exist or is not allowed; did you mean '%s'?",
                           MAX_NAME, name, nearest);
        }
    }
    return err_set(
        w->err, ERR_VALIDATION,
        "function '%.*s' does not exist or is not allowed; use DuckDB's ordinary functions on values and tables",
        MAX_NAME, name);
}

static int refuse_table(struct walk *w, const char *schema, const char *name)
{
    const struct sql_policy *p = w->policy;
    const char *nearest = str_nearest(name, p->tables, p->n_tables);
    const char *dot = schema[0] ? "." : "";
    char names[400];

    list_tables(p, names, sizeof(names));
    if (!schema[0] && looks_like_file(name)) {
        return err_set(w->err, ERR_VALIDATION,
                       "reading files is not allowed: '%.*s'; query a table by name (%s)", MAX_NAME,
                       name, names);
    }
    if (str_ieq(schema, "information_schema") || str_ieq(schema, "pg_catalog") ||
        (!schema[0] &&
         (str_starts(name, "duckdb_") || str_starts(name, "pg_") || str_starts(name, "sqlite_")))) {
        return err_set(
            w->err, ERR_VALIDATION,
            "the system catalog is not available: '%.*s%s%.*s'; DESCRIBE <table> shows the columns of a table (%s)",
            MAX_NAME, schema, dot, MAX_NAME, name, names);
    }
    if (nearest && !schema[0]) {
        return err_set(w->err, ERR_NOT_FOUND, "unknown table '%.*s'; did you mean '%s'?", MAX_NAME,
                       name, nearest);
    }
    return err_set(w->err, ERR_NOT_FOUND, "unknown table '%.*s%s%.*s'; the tables are: %s",
                   MAX_NAME, schema, dot, MAX_NAME, name, names);
}

/* ---- checks of single nodes ---------------------------------------------------------------------------------------- */

static int check_function(struct walk *w, const json_t *obj, bool in_from)
{
    char name[128];
    const char *given = text_of(obj, "function_name");
    size_t len = strlen(given);

    if (len == 0 || len >= sizeof(name))
        return refuse_function(w, given);
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)(given[i] >= 'A' && given[i] <= 'Z' ? given[i] + 'a' - 'A' : given[i]);
    if (in_from ? sql_function_in(&sql_table_functions, name) : sql_function_is_allowed(name))
        return 0;
    if (in_from && sql_function_is_allowed(name)) {
        return err_set(
            w->err, ERR_VALIDATION,
            "function '%s' cannot stand in FROM here; use it in the SELECT list (in FROM: range, generate_series, unnest, repeat)",
            name);
    }
    return refuse_function(w, name);
}

static int check_base_table(struct walk *w, const json_t *obj, const struct scope *scope)
{
    const struct sql_policy *p = w->policy;
    const char *name = text_of(obj, "table_name");
    const char *schema = text_of(obj, "schema_name");
    const char *catalog = text_of(obj, "catalog_name");
    bool ours;

    if (!schema[0] && !catalog[0]) {
        for (; scope; scope = scope->outer) {
            if (str_ieq(scope->name, name))
                return 0;
        }
    }
    ours = !schema[0] || str_ieq(schema, "main") ||
           (p->dataset_id && str_ieq(schema, p->dataset_id));
    if (catalog[0] && !(p->dataset_id && str_ieq(catalog, p->dataset_id)))
        ours = false;
    for (size_t i = 0; ours && i < p->n_tables; i++) {
        if (str_ieq(name, p->tables[i]))
            return 0;
    }
    return refuse_table(w, schema[0] ? schema : catalog, name);
}

/*
 * DESCRIBE and SUMMARIZE hold the query they tell about, which is walked; of the others only SHOW
 * TABLES is harmless.
 */
static int check_show(struct walk *w, const json_t *obj)
{
    const char *name = text_of(obj, "table_name");

    if (json_object_get(obj, "query") && !name[0])
        return 0;
    if (str_eq(name, "\"tables\"") && str_eq(text_of(obj, "show_type"), "DESCRIBE") &&
        !text_of(obj, "catalog_name")[0] && !text_of(obj, "schema_name")[0])
        return 0;
    return err_set(
        w->err, ERR_VALIDATION,
        "only SHOW TABLES, DESCRIBE <table or query> and SUMMARIZE <table or query> are allowed, not SHOW %.*s",
        MAX_NAME, name);
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

static int walk_value(struct walk *w, const json_t *value, enum member_kind kind,
                      const json_t *parent, const struct scope *scope, int depth);

static const struct member *find_member(const struct member *members, const char *name)
{
    for (const struct member *m = members; m->name; m++) {
        if (str_eq(m->name, name))
            return m;
    }
    return NULL;
}

static const struct shape *find_shape(const struct shape *shapes, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(shapes[i].name, name))
            return &shapes[i];
    }
    return NULL;
}

static int walk_members(struct walk *w, const json_t *obj, const struct shape *shape,
                        const struct member *common, const struct scope *scope, int depth)
{
    const char *key;
    json_t *value;

    if (depth > MAX_DEPTH) {
        return err_set(
            w->err, ERR_VALIDATION,
            "the query is nested too deeply; split it into several WITH parts or shorter expressions");
    }
    if (!json_is_object(obj))
        return refuse_construct(w, "malformed", shape->name);
    json_object_foreach((json_t *)obj, key, value) {
        const struct member *m = find_member(shape->members, key);
        int r;

        if (!m)
            m = find_member(common, key);
        if (!m)
            return refuse_construct(w, shape->name, key);
        if (m->kind == DATA || m->kind == CTES || json_is_null(value))
            continue;
        r = walk_value(w, value, m->kind, obj, scope, depth + 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static int walk_expression(struct walk *w, const json_t *obj, const struct scope *scope, int depth)
{
    const char *class = text_of(obj, "class");
    const struct shape *shape = find_shape(expressions, ARRAY_SIZE(expressions), class);
    int r;

    if (str_eq(class, "PARAMETER"))
        return err_set(w->err, ERR_VALIDATION,
                       "query parameters (? and $1) have no value here; write the value itself");
    if (!shape)
        return refuse_construct(w, "expression", class);
    if (str_eq(class, "FUNCTION") || str_eq(class, "WINDOW")) {
        r = check_function(w, obj, false);
        if (r < 0)
            return r;
    }
    if (str_eq(class, "OPERATOR")) {
        const char *type = text_of(obj, "type");
        bool known = false;

        for (size_t i = 0; i < ARRAY_SIZE(operator_types); i++)
            known = known || str_eq(type, operator_types[i]);
        if (!known)
            return refuse_construct(w, "operator", type);
    }
    if (str_eq(class, "SUBQUERY") && w->n_subqueries == MAX_SUBQUERY_DEPTH) {
        return err_set(
            w->err, ERR_VALIDATION,
            "subqueries are nested more than %d deep; give the inner ones a name with WITH",
            MAX_SUBQUERY_DEPTH);
    }
    w->n_subqueries += str_eq(class, "SUBQUERY");
    r = walk_members(w, obj, shape, expression_members, scope, depth);
    w->n_subqueries -= str_eq(class, "SUBQUERY");
    return r;
}

static int walk_table(struct walk *w, const json_t *obj, const struct scope *scope, int depth)
{
    const char *type = text_of(obj, "type");
    const struct shape *shape = find_shape(tables, ARRAY_SIZE(tables), type);
    int r = 0;

    if (!shape)
        return refuse_construct(w, "table reference", type);
    if (str_eq(type, "BASE_TABLE"))
        r = check_base_table(w, obj, scope);
    else if (str_eq(type, "SHOW_REF"))
        r = check_show(w, obj);
    else if (str_eq(type, "TABLE_FUNCTION")) {
        const json_t *function = json_object_get(obj, "function");
        const struct shape *call = find_shape(expressions, ARRAY_SIZE(expressions), "FUNCTION");

        if (!str_eq(text_of(function, "class"), "FUNCTION"))
            return refuse_construct(w, "table function", text_of(function, "class"));
        r = check_function(w, function, true);
        /* Its own name has been judged as a table function; its arguments are ordinary. */
        if (r == 0)
            r = walk_members(w, function, call, expression_members, scope, depth + 1);
        if (r < 0)
            return r;
        {
            const char *key;
            json_t *value;

            json_object_foreach((json_t *)obj, key, value) {
                if (!find_member(shape->members, key) && !find_member(table_members, key))
                    return refuse_construct(w, shape->name, key);
            }
        }
        return 0;
    }
    if (r < 0)
        return r;
    return walk_members(w, obj, shape, table_members, scope, depth);
}

/* A query node sees the names of its cte_map; each CTE sees those before it. */
static int walk_ctes(struct walk *w, const json_t *node, const json_t *map,
                     const struct shape *shape, const struct scope *scope, int depth)
{
    size_t n = json_array_size(map);
    auto_free struct scope *names = calloc(n ? n : 1, sizeof(*names));

    if (!names)
        return err_set(w->err, ERR_NO_MEMORY, "out of memory for %zu WITH parts", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(map, i);
        const char *key;
        json_t *unused;
        int r;

        json_object_foreach((json_t *)entry, key, unused) {
            if (!str_eq(key, "key") && !str_eq(key, "value"))
                return refuse_construct(w, "WITH", key);
        }
        names[i] = (struct scope){ .name = text_of(entry, "key"), .outer = scope };
        if (!names[i].name[0])
            return refuse_construct(w, "WITH", "entry without a name");
        r = walk_members(w, json_object_get(entry, "value"), &cte_shape, no_members, scope,
                         depth + 1);
        if (r < 0)
            return r;
        scope = &names[i];
    }
    return walk_members(w, node, shape, node_members, scope, depth);
}

static int walk_node(struct walk *w, const json_t *obj, const struct scope *scope, int depth)
{
    const char *type = text_of(obj, "type");
    const struct shape *shape = find_shape(nodes, ARRAY_SIZE(nodes), type);
    const json_t *cte_map = json_object_get(obj, "cte_map");
    const char *key;
    json_t *unused;

    if (!shape)
        return refuse_construct(w, "query", type);
    if (cte_map && !json_is_null(cte_map) && !json_is_object(cte_map))
        return refuse_construct(w, "malformed", "WITH");
    json_object_foreach((json_t *)cte_map, key, unused) {
        if (!str_eq(key, "map") || !json_is_array(unused))
            return refuse_construct(w, "WITH", key);
    }
    return walk_ctes(w, obj, json_object_get(cte_map, "map"), shape, scope, depth);
}

static int walk_array(struct walk *w, const json_t *array, enum member_kind kind,
                      const json_t *parent, const struct scope *scope, int depth)
{
    size_t i;
    json_t *value;

    if (!json_is_array(array))
        return refuse_construct(w, "malformed", "list");
    json_array_foreach(array, i, value) {
        int r = walk_value(w, value, kind, parent, scope, depth + 1);

        if (r < 0)
            return r;
    }
    return 0;
}

/* The elements of an array whose objects have one fixed shape. */
static int walk_shapes(struct walk *w, const json_t *array, const struct shape *shape,
                       const struct scope *scope, int depth)
{
    size_t i;
    json_t *value;

    if (!json_is_array(array))
        return refuse_construct(w, "malformed", "list");
    json_array_foreach(array, i, value) {
        int r = walk_members(w, value, shape, no_members, scope, depth + 1);

        if (r < 0)
            return r;
    }
    return 0;
}

static int walk_modifier(struct walk *w, const json_t *obj, const struct scope *scope, int depth)
{
    const char *type = text_of(obj, "type");
    const struct shape *shape = find_shape(modifiers, ARRAY_SIZE(modifiers), type);

    if (!shape)
        return refuse_construct(w, "modifier", type);
    return walk_members(w, obj, shape, modifier_members, scope, depth);
}

/*
 * A materialised CTE: `query` is a second copy of the entry `cte_name` in the node's own map, which
 * has been walked with the right scope. The copy is only compared; one that differs has no scope
 * that this file knows.
 */
static int walk_cte_query(struct walk *w, const json_t *query, const json_t *node)
{
    const json_t *map = json_object_get(json_object_get(node, "cte_map"), "map");
    size_t i;
    json_t *entry;

    json_array_foreach(map, i, entry) {
        const json_t *original = json_object_get(json_object_get(entry, "value"), "query");

        if (str_ieq(text_of(entry, "key"), text_of(node, "cte_name")) &&
            json_equal(query, json_object_get(original, "node")))
            return 0;
    }
    return refuse_construct(w, "materialized WITH", text_of(node, "cte_name"));
}

static int walk_value(struct walk *w, const json_t *value, enum member_kind kind,
                      const json_t *parent, const struct scope *scope, int depth)
{
    switch (kind) {
    case DATA:
    case CTES:
        return 0;
    case EXPR:
        return walk_expression(w, value, scope, depth);
    case EXPRS:
        return walk_array(w, value, EXPR, parent, scope, depth);
    case EXPR_ROWS:
        return walk_array(w, value, EXPRS, parent, scope, depth);
    case EXPR_MAP:
        return walk_shapes(w, value, &map_entry_shape, scope, depth);
    case NODE:
        return walk_node(w, value, scope, depth);
    case NODES:
        return walk_array(w, value, NODE, parent, scope, depth);
    case STATEMENT:
        return walk_members(w, value, &statement_shape, no_members, scope, depth);
    case TABLE:
        return walk_table(w, value, scope, depth);
    case MODIFIER:
        return walk_modifier(w, value, scope, depth);
    case MODIFIERS:
        return walk_array(w, value, MODIFIER, parent, scope, depth);
    case ORDERS:
        return walk_shapes(w, value, &order_shape, scope, depth);
    case CASES:
        return walk_shapes(w, value, &case_shape, scope, depth);
    case PIVOTS:
        return walk_shapes(w, value, &pivot_shape, scope, depth);
    case ENTRIES:
        return walk_shapes(w, value, &entry_shape, scope, depth);
    case AT_CLAUSE:
        return walk_members(w, value, &at_shape, no_members, scope, depth);
    case CTE_QUERY:
        return walk_cte_query(w, value, parent);
    case CTE_CHILD:
    case SELF_NODE: {
        struct scope inner = { .name = text_of(parent, "cte_name"), .outer = scope };

        return walk_node(w, value, inner.name[0] ? &inner : scope, depth);
    }
    }
    return refuse_construct(w, "unknown", "part");
}

int sql_policy_check(const struct sql_policy *policy, const json_t *tree, struct err *err)
{
    struct walk w = { .policy = policy, .err = err };
    const json_t *statements = json_object_get(tree, "statements");

    if (!json_is_object(tree) || !json_is_false(json_object_get(tree, "error")) ||
        !json_is_array(statements))
        return err_set(err, ERR_VALIDATION, "Only SELECT/WITH queries are allowed.");
    if (json_array_size(statements) != 1) {
        return err_set(
            err, ERR_VALIDATION,
            "Multiple SQL statements are not allowed. Send them one by one, or combine them with WITH.");
    }
    return walk_members(&w, json_array_get(statements, 0), &statement_shape, no_members, NULL, 0);
}
