/*
 * The SQL policy on hand-made trees: what is allowed, what is refused and how, and that the unknown
 * is refused.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/macros.h"
#include "plan/sql_functions.h"
#include "plan/sql_policy.h"

#define CONST_1                                                                                    \
    "{\"class\":\"CONSTANT\",\"type\":\"VALUE_CONSTANT\",\"value\":{\"type\":{\"id\":\"INTEGER\"},\"value\":1}}"
#define SELECT(list, from)                                                                         \
    "{\"type\":\"SELECT_NODE\",\"select_list\":[" list "],\"from_table\":" from "}"
#define TREE(node) "{\"error\":false,\"statements\":[{\"node\":" node "}]}"
#define TABLE(name) "{\"type\":\"BASE_TABLE\",\"table_name\":\"" name "\"}"
#define EMPTY "{\"type\":\"EMPTY\"}"
#define CALL(name) "{\"class\":\"FUNCTION\",\"type\":\"FUNCTION\",\"function_name\":\"" name "\"}"
#define CTE(name, node)                                                                            \
    "{\"key\":\"" name "\",\"value\":{\"query\":{\"node\":" node "},\"materialized\":\"X\"}}"

static const char *const table_names[] = { "orders", "order_items" };
static const struct sql_policy policy = { .dataset_id = "Shop",
                                          .tables = table_names,
                                          .n_tables = 2 };

/* NULL if the tree may run, else the message (in a static buffer). */
static const char *check(const char *text)
{
    static struct err err;
    json_error_t where;
    json_t *tree = json_loads(text, 0, &where);
    int r;

    if (!tree)
        fail_msg("the test's tree is no JSON: %s at %d: %s", where.text, where.position, text);
    err = (struct err)ERR_INIT;
    r = sql_policy_check(&policy, tree, &err);
    json_decref(tree);
    if (r == 0)
        return NULL;
    bool unknown = strncmp(err.message, "unknown table", 13) == 0;
    assert_int_equal(r, unknown ? -ERR_NOT_FOUND : -ERR_VALIDATION);
    return err.message;
}

static void assert_refused(const char *tree, const char *part)
{
    const char *message = check(tree);

    if (!message)
        fail_msg("was allowed: %s", tree);
    if (!strstr(message, part))
        fail_msg("refused with '%s', which lacks '%s'", message, part);
}

static void assert_allowed(const char *tree)
{
    const char *message = check(tree);

    if (message)
        fail_msg("refused with '%s': %s", message, tree);
}

static void test_tables(void **state)
{
    (void)state;
    assert_allowed(TREE(SELECT(CONST_1, EMPTY)));
    assert_allowed(TREE(SELECT(CONST_1, TABLE("Orders"))));
    assert_allowed(TREE(SELECT(
        CONST_1, "{\"type\":\"BASE_TABLE\",\"schema_name\":\"main\",\"table_name\":\"orders\"}")));
    assert_allowed(TREE(SELECT(
        CONST_1, "{\"type\":\"BASE_TABLE\",\"schema_name\":\"shop\",\"table_name\":\"orders\"}")));
    assert_refused(
        TREE(SELECT(
            CONST_1,
            "{\"type\":\"BASE_TABLE\",\"schema_name\":\"other\",\"table_name\":\"orders\"}")),
        "unknown table 'other.orders'; the tables are: orders, order_items");
    assert_refused(
        TREE(SELECT(CONST_1,
                    "{\"type\":\"BASE_TABLE\",\"catalog_name\":\"x\",\"schema_name\":\"main\","
                    "\"table_name\":\"orders\"}")),
        "unknown table 'main.orders'");
    assert_refused(TREE(SELECT(CONST_1, TABLE("ordrs"))),
                   "unknown table 'ordrs'; did you mean 'orders'?");
    assert_refused(
        TREE(SELECT(CONST_1, TABLE("/etc/passwd"))),
        "reading files is not allowed: '/etc/passwd'; query a table by name (orders, order_items)");
    assert_refused(
        TREE(SELECT(CONST_1, "{\"type\":\"BASE_TABLE\",\"schema_name\":\"information_schema\","
                             "\"table_name\":\"tables\"}")),
        "the system catalog is not available");
}

static void test_functions(void **state)
{
    (void)state;
    assert_allowed(TREE(SELECT(CALL("sum"), EMPTY)));
    assert_allowed(TREE(SELECT(CALL("Upper"), EMPTY)));
    assert_allowed(TREE(SELECT(CALL("+"), EMPTY)));
    assert_refused(TREE(SELECT(CALL("getenv"), EMPTY)),
                   "reading settings is not allowed: getenv()");
    assert_refused(TREE(SELECT(CALL("current_setting"), EMPTY)), "reading settings is not allowed");
    assert_refused(TREE(SELECT(CALL("summ"), EMPTY)),
                   "function 'summ' does not exist or is not allowed; did you mean 'sum'?");
    assert_refused(TREE(SELECT(CALL(""), EMPTY)), "does not exist or is not allowed");
    assert_allowed(
        TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CALL("range") "}")));
    assert_refused(
        TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CALL("read_csv") "}")),
        "reading files is not allowed: read_csv(); query a table by name (orders, order_items)");
    assert_refused(TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CALL(
                                            "duckdb_tables") "}")),
                   "the system catalog is not available: duckdb_tables()");
    assert_refused(
        TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CALL("query") "}")),
        "running SQL from a text is not allowed");
    assert_refused(
        TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CALL("sum") "}")),
        "cannot stand in FROM");
    assert_refused(TREE(SELECT(CONST_1, "{\"type\":\"TABLE_FUNCTION\",\"function\":" CONST_1 "}")),
                   "table function CONSTANT");
}

/* A name counts as a CTE only where DuckDB would see it as one. */
static void test_scopes(void **state)
{
    (void)state;
    assert_allowed(TREE(
        "{\"type\":\"SELECT_NODE\",\"cte_map\":{\"map\":[" CTE("a", SELECT(CONST_1, EMPTY)) "," CTE(
            "b", SELECT(CONST_1, TABLE("A"))) "]},\"from_table\":" TABLE("b") "}"));
    assert_refused(
        TREE("{\"type\":\"SELECT_NODE\",\"cte_map\":{\"map\":[" CTE(
            "a", SELECT(CONST_1,
                        TABLE("b"))) "," CTE("b",
                                             SELECT(CONST_1,
                                                    EMPTY)) "]},\"from_table\":" TABLE("a") "}"),
        "unknown table 'b'");
    assert_refused(TREE("{\"type\":\"SELECT_NODE\",\"cte_map\":{\"map\":[" CTE(
                       "/x", SELECT(CONST_1, TABLE("/x"))) "]},\"from_table\":" TABLE("/x") "}"),
                   "reading files is not allowed: '/x'");
    /* A qualified name is never a CTE. */
    assert_refused(
        TREE("{\"type\":\"SELECT_NODE\",\"cte_map\":{\"map\":[" CTE(
            "a",
            SELECT(
                CONST_1,
                EMPTY)) "]},\"from_table\":{\"type\":\"BASE_TABLE\",\"schema_name\":\"main\",\"table_name\":\"a\"}}"),
        "unknown table 'main.a'");
    /* The recursive half sees itself, the other does not. */
    assert_allowed(TREE("{\"type\":\"RECURSIVE_CTE_NODE\",\"cte_name\":\"r\",\"left\":" SELECT(
        CONST_1, EMPTY) ",\"right\":" SELECT(CONST_1, TABLE("r")) "}"));
    assert_refused(TREE("{\"type\":\"RECURSIVE_CTE_NODE\",\"cte_name\":\"r\",\"left\":" SELECT(
                       CONST_1, TABLE("r")) ",\"right\":" SELECT(CONST_1, TABLE("r")) "}"),
                   "unknown table 'r'");
    /* The copy in a materialised CTE must be the one that was checked. */
    assert_refused(
        TREE("{\"type\":\"CTE_NODE\",\"cte_name\":\"a\",\"cte_map\":{\"map\":[" CTE(
            "a",
            SELECT(
                CONST_1,
                EMPTY)) "]},\"query\":" SELECT(CONST_1,
                                               TABLE("secret")) ",\"child\":" SELECT(CONST_1,
                                                                                     TABLE(
                                                                                         "a")) "}"),
        "materialized WITH a");
    assert_allowed(TREE("{\"type\":\"CTE_NODE\",\"cte_name\":\"a\",\"cte_map\":{\"map\":[" CTE(
        "a", SELECT(CONST_1,
                    EMPTY)) "]},\"query\":" SELECT(CONST_1,
                                                   EMPTY) ",\"child\":" SELECT(CONST_1,
                                                                               TABLE("a")) "}"));
}

/* Wherever an expression or a query may stand, a bad one there is found. */
static void test_every_place_is_walked(void **state)
{
    static const char *const places[] = {
        TREE(SELECT("%s", EMPTY)),
        TREE("{\"type\":\"SELECT_NODE\",\"where_clause\":%s}"),
        TREE("{\"type\":\"SELECT_NODE\",\"having\":%s}"),
        TREE("{\"type\":\"SELECT_NODE\",\"qualify\":%s}"),
        TREE("{\"type\":\"SELECT_NODE\",\"group_expressions\":[%s]}"),
        TREE(
            "{\"type\":\"SELECT_NODE\",\"modifiers\":[{\"type\":\"LIMIT_MODIFIER\",\"limit\":%s}]}"),
        TREE(
            "{\"type\":\"SELECT_NODE\",\"modifiers\":[{\"type\":\"DISTINCT_MODIFIER\",\"distinct_on_targets\":[%s]}]}"),
        TREE(
            "{\"type\":\"SELECT_NODE\",\"modifiers\":[{\"type\":\"ORDER_MODIFIER\",\"orders\":[{\"expression\":%s}]}]}"),
        TREE("{\"type\":\"SET_OPERATION_NODE\",\"setop_type\":\"UNION\",\"children\":[" SELECT(
            "%s", EMPTY) "]}"),
        TREE("{\"type\":\"SET_OPERATION_NODE\",\"left\":" SELECT("%s", EMPTY) "}"),
        TREE(SELECT(CONST_1,
                    "{\"type\":\"JOIN\",\"left\":" EMPTY ",\"right\":" EMPTY ",\"condition\":%s}")),
        TREE(SELECT(CONST_1,
                    "{\"type\":\"SUBQUERY\",\"subquery\":{\"node\":" SELECT("%s", EMPTY) "}}")),
        TREE(SELECT(CONST_1, "{\"type\":\"EXPRESSION_LIST\",\"values\":[[%s]]}")),
        TREE(SELECT(CONST_1, "{\"type\":\"PIVOT\",\"source\":" EMPTY ",\"aggregates\":[%s]}")),
        TREE(SELECT(CONST_1, "{\"type\":\"PIVOT\",\"source\":" EMPTY
                             ",\"pivots\":[{\"pivot_expressions\":[%s]}]}")),
        TREE(SELECT(CONST_1, "{\"type\":\"PIVOT\",\"source\":" EMPTY
                             ",\"pivots\":[{\"entries\":[{\"star_expr\":%s}]}]}")),
        TREE(SELECT(CONST_1, "{\"type\":\"SHOW_REF\",\"show_type\":\"DESCRIBE\",\"query\":" SELECT(
                                 "%s", EMPTY) "}")),
        TREE(SELECT(
            CONST_1,
            "{\"type\":\"TABLE_FUNCTION\",\"function\":{\"class\":\"FUNCTION\",\"function_name\":\"range\","
            "\"children\":[%s]}}")),
        TREE(SELECT(
            CONST_1,
            "{\"type\":\"BASE_TABLE\",\"table_name\":\"orders\",\"at_clause\":{\"unit\":\"V\",\"expr\":%s}}")),
        TREE(SELECT("{\"class\":\"BETWEEN\",\"upper\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"CASE\",\"case_checks\":[{\"when_expr\":%s}]}", EMPTY)),
        TREE(SELECT("{\"class\":\"CASE\",\"else_expr\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"CAST\",\"child\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"COLLATE\",\"child\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"COMPARISON\",\"left\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"CONJUNCTION\",\"children\":[%s]}", EMPTY)),
        TREE(SELECT("{\"class\":\"LAMBDA\",\"expr\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"OPERATOR\",\"type\":\"OPERATOR_NOT\",\"children\":[%s]}", EMPTY)),
        TREE(SELECT("{\"class\":\"STAR\",\"replace_list\":[{\"key\":\"x\",\"value\":%s}]}", EMPTY)),
        TREE(SELECT("{\"class\":\"STAR\",\"expr\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"FUNCTION\",\"function_name\":\"sum\",\"filter\":%s}", EMPTY)),
        TREE(SELECT(
            "{\"class\":\"FUNCTION\",\"function_name\":\"sum\",\"order_bys\":{\"type\":\"ORDER_MODIFIER\","
            "\"orders\":[{\"expression\":%s}]}}",
            EMPTY)),
        TREE(SELECT("{\"class\":\"WINDOW\",\"function_name\":\"sum\",\"partitions\":[%s]}", EMPTY)),
        TREE(SELECT("{\"class\":\"WINDOW\",\"function_name\":\"sum\",\"start_expr\":%s}", EMPTY)),
        TREE(SELECT("{\"class\":\"SUBQUERY\",\"subquery\":{\"node\":" SELECT("%s", EMPTY) "}}",
                    EMPTY)),
        TREE(SELECT("{\"class\":\"SUBQUERY\",\"child\":%s}", EMPTY)),
        TREE(
            "{\"type\":\"SELECT_NODE\",\"cte_map\":{\"map\":[" CTE("a", SELECT("%s", EMPTY)) "]}}"),
    };
    char tree[2000];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        const char *hole = strstr(places[i], "%s");

        assert_non_null(hole);
        snprintf(tree, sizeof(tree), "%.*s%s%s", (int)(hole - places[i]), places[i], CONST_1,
                 hole + 2);
        assert_allowed(tree);
        snprintf(tree, sizeof(tree), "%.*s%s%s", (int)(hole - places[i]), places[i], CALL("getenv"),
                 hole + 2);
        assert_refused(tree, "reading settings is not allowed: getenv()");
    }
}

static void test_unknown_is_refused(void **state)
{
    (void)state;
    assert_refused("{\"error\":true}", "Only SELECT/WITH queries are allowed.");
    assert_refused("{\"error\":false,\"statements\":[]}", "Multiple SQL statements");
    assert_refused("{\"error\":false,\"statements\":[{},{}]}",
                   "Multiple SQL statements are not allowed. Send them one by one");
    assert_refused("{\"error\":false,\"statements\":[{\"extra\":1}]}",
                   "not supported: statement extra");
    assert_refused(TREE("{\"type\":\"INSERT_NODE\"}"), "not supported: query INSERT_NODE");
    assert_refused(TREE("{\"type\":\"SELECT_NODE\",\"into\":{}}"),
                   "not supported: SELECT_NODE into");
    assert_refused(TREE("{\"type\":\"SELECT_NODE\",\"cte_map\":{\"list\":[]}}"),
                   "not supported: WITH list");
    assert_refused(TREE(SELECT(CONST_1, "{\"type\":\"COLUMN_DATA\"}")),
                   "not supported: table reference COLUMN_DATA");
    assert_refused(TREE(SELECT(CONST_1, "{\"type\":\"SHOW_REF\",\"table_name\":\"databases\"}")),
                   "only SHOW TABLES");
    assert_refused(TREE(SELECT("{\"class\":\"BOUND_FUNCTION\"}", EMPTY)),
                   "not supported: expression BOUND_FUNCTION");
    assert_refused(TREE(SELECT("{\"class\":\"OPERATOR\",\"type\":\"OPERATOR_NEW\"}", EMPTY)),
                   "not supported: operator OPERATOR_NEW");
    assert_refused(TREE(SELECT("{\"class\":\"PARAMETER\"}", EMPTY)), "query parameters");
    assert_refused(TREE(SELECT("3", EMPTY)), "not supported: expression");
    assert_refused(TREE("{\"type\":\"SELECT_NODE\",\"modifiers\":[{\"type\":\"NEW_MODIFIER\"}]}"),
                   "not supported: modifier NEW_MODIFIER");
    assert_refused(TREE("{\"type\":\"SELECT_NODE\",\"select_list\":{}}"), "malformed list");
}

static void test_depth_is_bounded(void **state)
{
    struct err err = ERR_INIT;
    json_t *expression = json_pack("{s:s}", "class", "COLUMN_REF");
    json_t *tree;

    (void)state;
    for (int i = 0; i < 4000; i++)
        expression = json_pack("{s:s,s:o}", "class", "CAST", "child", expression);
    tree = json_pack("{s:b,s:[{s:{s:s,s:[o]}}]}", "error", 0, "statements", "node", "type",
                     "SELECT_NODE", "select_list", expression);
    assert_non_null(tree);
    assert_int_equal(sql_policy_check(&policy, tree, &err), -ERR_VALIDATION);
    assert_non_null(strstr(err.message, "nested too deeply"));
    json_decref(tree);
}

static void test_function_lists(void **state)
{
    static const char *const forbidden[] = {
        "read_csv",
        "read_csv_auto",
        "read_text",
        "read_blob",
        "read_parquet",
        "read_json",
        "glob",
        "getenv",
        "query",
        "query_table",
        "nextval",
        "currval",
        "current_setting",
        "getvariable",
        "which_secret",
        "duckdb_tables",
        "pragma_version",
        "pg_get_viewdef",
        "has_table_privilege",
        "in_search_path",
        "json_execute_serialized_sql",
        "json_serialize_sql",
        "json_deserialize_sql",
        "write_log",
        "sniff_csv",
        "parquet_metadata",
        "checkpoint",
        "force_checkpoint",
        "inet_client_addr",
        "create_sort_key",
    };

    (void)state;
    for (size_t g = 0; g < sql_n_function_groups; g++) {
        for (size_t i = 0; i < sql_function_groups[g].n_names; i++) {
            const char *name = sql_function_groups[g].names[i];

            if (i && strcmp(sql_function_groups[g].names[i - 1], name) >= 0)
                fail_msg("'%s' is out of order in %s", name, sql_function_groups[g].theme);
            assert_true(sql_function_is_allowed(name));
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
        if (sql_function_is_allowed(forbidden[i]) ||
            sql_function_in(&sql_table_functions, forbidden[i]))
            fail_msg("'%s' is allowed", forbidden[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_every_place_is_walked),
        cmocka_unit_test(test_unknown_is_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_function_lists),
    };

    return cmocka_run_group_tests_name("plan/sql_policy", tests, NULL, NULL);
}
