/*
 * Fuzzes the SQL policy with trees of any shape. A second, simpler walk looks at what it accepts:
 * no table but the dataset's and those that a WITH names, no function that is not listed.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "plan/sql_functions.h"
#include "plan/sql_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const tables[] = { "orders", "order_items" };
static const struct sql_policy policy = { .dataset_id = "shop",
                                          .tables = tables,
                                          .n_tables = ARRAY_SIZE(tables) };

/* Members that hold no part of a query, whatever they look like. */
static const char *const plain_members[] = {
    "alias",
    "aliases",
    "cast_type",
    "catalog",
    "catalog_name",
    "class",
    "collation",
    "column_name",
    "column_name_alias",
    "column_names",
    "columns",
    "comparison_type",
    "cte_name",
    "distinct",
    "exclude_clause",
    "exclude_list",
    "expected_names",
    "expected_types",
    "function_name",
    "group_sets",
    "groups",
    "index",
    "join_type",
    "key",
    "lambda_idx",
    "materialized",
    "named_param_map",
    "null_order",
    "pivot_enum",
    "qualified_exclude_list",
    "query_location",
    "ref_type",
    "relation_name",
    "rename_list",
    "sample",
    "schema",
    "schema_name",
    "setop_type",
    "show_type",
    "start",
    "end",
    "subquery_type",
    "syntax_type",
    "table_name",
    "try_cast",
    "type",
    "union_all",
    "unit",
    "unpivot_names",
    "using_columns",
    "delim_flipped",
    "is_implicit",
    "include_nulls",
    "with_ordinality",
    "ignore_nulls",
    "is_operator",
    "export_state",
    "aggregate_handling",
    "setop_all",
    "error",
};

static const char *text_of(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));
    return s ? s : "";
}

static bool is_plain(const json_t *obj, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(plain_members); i++) {
        if (str_eq(key, plain_members[i]))
            return true;
    }
    /* A constant's value, and those of a pivot's columns. */
    if (str_eq(key, "value"))
        return !json_object_get(obj, "key");
    return str_eq(key, "values") && !str_eq(text_of(obj, "type"), "EXPRESSION_LIST");
}

/* Is a query of this name anywhere in the tree? */
static bool names_query(const json_t *tree, const char *name)
{
    const char *key;
    json_t *value;
    size_t i;

    if (str_ieq(text_of(tree, "key"), name) || str_ieq(text_of(tree, "cte_name"), name))
        return true;
    json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
        if (names_query(value, name))
            return true;
    }
    json_array_foreach(tree, i, value) {
        if (names_query(value, name))
            return true;
    }
    return false;
}

static bool is_our_table(const json_t *obj, const json_t *tree)
{
    const char *name = text_of(obj, "table_name"), *schema = text_of(obj, "schema_name"),
               *catalog = text_of(obj, "catalog_name");

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        if (str_ieq(name, tables[i]))
            return (!*schema || str_ieq(schema, "main") || str_ieq(schema, "shop")) &&
                   (!*catalog || str_ieq(catalog, "shop"));
    }
    return !*schema && !*catalog && names_query(tree, name);
}

static bool is_listed(const char *given)
{
    char name[128];

    if (strlen(given) >= sizeof(name))
        return false;
    for (size_t i = 0; i <= strlen(given); i++)
        name[i] = (char)(given[i] >= 'A' && given[i] <= 'Z' ? given[i] + 'a' - 'A' : given[i]);
    return sql_function_is_allowed(name) || sql_function_in(&sql_table_functions, name);
}

static void look(const json_t *value, const json_t *tree)
{
    const char *key;
    json_t *member;
    size_t i;

    json_array_foreach(value, i, member) {
        look(member, tree);
    }
    if (!json_is_object(value))
        return;
    const char *class = text_of(value, "class");
    if ((str_eq(class, "FUNCTION") || str_eq(class, "WINDOW")) &&
        !is_listed(text_of(value, "function_name")))
        abort();
    if (!*class && str_eq(text_of(value, "type"), "BASE_TABLE") && !is_our_table(value, tree))
        abort();
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        if (!is_plain(value, key))
            look(member, tree);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    json_error_t where;
    /* As the kernel reads what DuckDB writes. */
    auto_json json_t *tree = json_loadb((const char *)data, size,
                                        JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &where);

    if (!tree)
        return 0;
    if (sql_policy_check(&policy, tree, &err) < 0) {
        if ((err.code != ERR_VALIDATION && err.code != ERR_NOT_FOUND) || err.message[0] == '\0')
            abort();
        return 0;
    }
    look(tree, tree);
    return 0;
}
