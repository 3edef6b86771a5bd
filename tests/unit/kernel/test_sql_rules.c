/*
 * The policy on real SQL, through DuckDB's own parser: what people write is allowed, what reaches
 * outside is refused.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "base/macros.h"
#include "kernel/sql_fixture.h"

/* One of a row of materialised CTEs, each of which DuckDB nests into the one before. */
#define M(n) " a" #n " AS MATERIALIZED (SELECT * FROM orders), "

static void test_policy_allows(void **state)
{
    static const char *const queries[] = {
        "SELECT 1;",
        "SELECT 1 -- drop table orders\n;",
        "/* insert */ select count(*) from Orders where status = 'drop table; delete'",
        "SELECT * FROM \"my shop\".orders",
        "SELECT * FROM \"My Shop\".\"Orders\"",
        "SELECT * FROM main.orders",
        "FROM orders",
        "TABLE orders",
        "VALUES (1, 'a'), (2, 'b')",
        "DESCRIBE orders",
        "SUMMARIZE orders",
        "SHOW TABLES",
        "DESCRIBE SELECT order_id FROM orders",
        "SELECT o.status, count(*), sum(total) FILTER (WHERE total > 1) FROM orders o JOIN order_items i USING (order_id) GROUP BY ALL "
        "HAVING count(*) > 0 ORDER BY 2 DESC, 1 LIMIT 3",
        "WITH a AS (SELECT * FROM orders), b AS MATERIALIZED (SELECT * FROM a), c AS (SELECT * FROM b) SELECT * FROM c, a",
        "WITH a AS MATERIALIZED (SELECT 1 x), b AS MATERIALIZED (SELECT * FROM a) SELECT * FROM a UNION ALL SELECT * FROM b",
        "WITH a AS MATERIALIZED (WITH i AS MATERIALIZED (SELECT 1 x) SELECT * FROM i) SELECT * FROM a WHERE x IN (SELECT x FROM a)",
        "WITH " M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
            M(12) " z AS (SELECT 1) SELECT * FROM a12",
        "WITH orders AS (SELECT 1 AS x) SELECT x FROM orders",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r",
        "WITH RECURSIVE r(n) AS MATERIALIZED (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5), m AS MATERIALIZED (FROM r) SELECT * FROM m",
        "SELECT * FROM orders WHERE order_id IN (SELECT order_id FROM order_items) AND EXISTS (FROM order_items i WHERE i.order_id = orders.order_id)",
        "SELECT status, row_number() OVER (PARTITION BY status ORDER BY total) r, lag(total) OVER (ORDER BY order_id), "
        "first_value(total IGNORE NULLS) OVER w FROM orders WINDOW w AS (ORDER BY total ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) QUALIFY r = 1",
        "SELECT * EXCLUDE (total) REPLACE (upper(status) AS status) FROM orders",
        "SELECT COLUMNS('.*id') FROM orders",
        "SELECT max(COLUMNS(*)) FROM orders",
        "SELECT * RENAME (total AS t) FROM orders",
        "PIVOT orders ON status IN ('completed', 'returned') USING sum(total)",
        "UNPIVOT (SELECT order_id, total::DOUBLE total, 1::DOUBLE y FROM orders) ON total, y INTO NAME n VALUE v",
        "SELECT * FROM (PIVOT orders ON status IN ('completed') USING count(*))",
        "SELECT * FROM range(3) t(i), unnest([1, 2]) u(x), generate_series(1, 2), repeat('a', 2)",
        "SELECT list_transform([1, 2], x -> x + 1), list_filter([1, 2], lambda x: x > 1), [x * 2 FOR x IN [1, 2] IF x > 1]",
        "SELECT CASE WHEN total > 1 THEN 'a' ELSE 'b' END, coalesce(NULL, 1), nullif(1, 2), ifnull(NULL, 2), if(true, 1, 2), "
        "TRY_CAST('x' AS INT), 'a' LIKE 'b' ESCAPE '!', 'a' ILIKE 'A', 'a' SIMILAR TO 'a', 'a' ~ 'a', status COLLATE NOCASE FROM orders",
        "SELECT extract(year FROM DATE '2024-01-01'), date_trunc('month', now()), INTERVAL 3 DAY, current_date, "
        "TIMESTAMP '2024-01-01' AT TIME ZONE 'UTC', strftime(today(), '%Y'), age(DATE '2020-01-01')",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), median(total), mode(status), quantile_cont(total, 0.9), "
        "approx_count_distinct(status), string_agg(status, ',' ORDER BY status), arg_max(status, total), list(status) FROM orders",
        "SELECT a.j->'x', a.j->>'$.x', json_extract_string(a.j, '$.x') FROM (SELECT '{\"x\":1}'::JSON AS j) a",
        "SELECT array(SELECT order_id FROM orders), (SELECT max(total) FROM orders), 1 = ANY (SELECT 1), 2 IN (1, 2)",
        "SELECT status.upper().lower() FROM orders",
        "SELECT {'a': 1}.a, [1,2,3][1:2], [1,2][-1], map {'a': 1}['a'], (1, 2)",
        "SELECT #1 FROM orders ORDER BY ALL",
        "SELECT * FROM orders TABLESAMPLE 50%",
        "SELECT * FROM orders USING SAMPLE 2",
        "SELECT DISTINCT ON (status) * FROM orders",
        "SELECT status, GROUPING(status) FROM orders GROUP BY CUBE (status)",
        "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4",
        "SELECT 1 UNION ALL BY NAME SELECT 2",
        "SELECT * FROM orders o ASOF JOIN order_items i ON o.order_id >= i.order_id",
        "SELECT * FROM orders POSITIONAL JOIN order_items",
        "SELECT * FROM orders SEMI JOIN order_items USING (order_id)",
        "SELECT * FROM orders, LATERAL (SELECT orders.total + 1)",
        "SELECT count(DISTINCT status), bool_and(total > 0), corr(total, order_id), regr_slope(total, order_id) FROM orders",
        "SELECT trim(BOTH 'x' FROM 'xax'), position('a' IN 'ba'), substring('abc' FROM 2 FOR 1), overlay('abc' PLACING 'x' FROM 1)",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        json_t *result = fixture_sql(engine, queries[i], true, 100, -1);

        /* overlay() is SQL that DuckDB parses but does not have; the policy says so. */
        if (i == ARRAY_SIZE(queries) - 1)
            assert_non_null(strstr(fixture_message(result), "function 'overlay' does not exist"));
        else if (strcmp(fixture_verdict(result), "ok") != 0)
            fail_msg("%s\n  → %s: %s", queries[i], fixture_verdict(result),
                     fixture_message(result));
        json_decref(result);
    }
}

static void test_policy_refuses(void **state)
{
    static const struct {
        const char *sql, *message;
    } cases[] = {
        { "SELECT 1; SELECT 2", "Multiple SQL statements are not allowed. Send them one by one" },
        { "SELECT 1; DROP VIEW orders", "Multiple SQL statements are not allowed." },
        { "INSERT INTO orders VALUES (1)", "Only SELECT/WITH queries are allowed." },
        { "DELETE FROM orders", "Only SELECT/WITH queries are allowed." },
        { "UPDATE orders SET total = 1", "Only SELECT/WITH queries are allowed." },
        { "DROP VIEW orders", "Only SELECT/WITH queries are allowed." },
        { "CREATE TABLE x AS SELECT 1", "Only SELECT/WITH queries are allowed." },
        { "COPY orders TO '/tmp/x'", "Only SELECT/WITH queries are allowed." },
        { "ATTACH '/tmp/x.db'", "Only SELECT/WITH queries are allowed." },
        { "INSTALL httpfs", "Only SELECT/WITH queries are allowed." },
        { "LOAD httpfs", "Only SELECT/WITH queries are allowed." },
        { "PRAGMA database_list", "Only SELECT/WITH queries are allowed." },
        { "CALL pragma_version()", "Only SELECT/WITH queries are allowed." },
        { "SET threads = 1", "Only SELECT/WITH queries are allowed." },
        { "EXPLAIN SELECT 1", "Leave out EXPLAIN" },
        { "PIVOT orders ON status USING sum(total)", "list them: PIVOT t ON column IN" },
        { "SELECT * FROM '/etc/passwd'", "reading files is not allowed: '/etc/passwd'" },
        { "SELECT * FROM 'data.csv'", "reading files is not allowed: 'data.csv'" },
        { "SELECT * FROM read_csv('/etc/passwd')",
          "reading files is not allowed: read_csv(); query a table by name (orders, order_items)" },
        { "SELECT * FROM READ_TEXT('/etc/passwd')", "reading files is not allowed: read_text()" },
        { "SELECT * FROM glob('*')", "reading files is not allowed: glob()" },
        { "SELECT * FROM sniff_csv('x')", "reading files is not allowed: sniff_csv()" },
        { "SELECT * FROM parquet_metadata('x')", "reading files is not allowed" },
        { "SELECT * FROM orders WHERE total > (SELECT count(*) FROM read_blob('/x'))",
          "reading files is not allowed: read_blob()" },
        { "SELECT CASE WHEN EXISTS (FROM read_text('/x')) THEN 1 END",
          "reading files is not allowed: read_text()" },
        { "WITH a AS (FROM read_json('/x')) SELECT 1",
          "reading files is not allowed: read_json()" },
        { "SELECT 1 ORDER BY (SELECT content FROM read_text('/x'))",
          "reading files is not allowed: read_text()" },
        { "SELECT * FROM range((SELECT count(*) FROM read_text('/x')))",
          "reading files is not allowed: read_text()" },
        { "SELECT * FROM query('SELECT 1')", "running SQL from a text is not allowed: query()" },
        { "SELECT * FROM query_table('orders')",
          "running SQL from a text is not allowed: query_table()" },
        { "SELECT * FROM json_execute_serialized_sql('{}')",
          "running SQL from a text is not allowed" },
        { "SELECT getenv('HOME')", "reading settings is not allowed: getenv()" },
        { "SELECT current_setting('memory_limit')",
          "reading settings is not allowed: current_setting()" },
        { "SELECT getvariable('x')", "reading settings is not allowed: getvariable()" },
        { "SELECT * FROM duckdb_settings()",
          "the system catalog is not available: duckdb_settings()" },
        { "SELECT * FROM duckdb_tables", "the system catalog is not available: 'duckdb_tables'" },
        { "SELECT * FROM information_schema.tables",
          "the system catalog is not available: 'information_schema.tables'" },
        { "SELECT * FROM pg_catalog.pg_class", "the system catalog is not available" },
        { "SELECT * FROM sqlite_master", "the system catalog is not available" },
        { "SELECT pg_get_viewdef(1)", "the system catalog is not available" },
        { "SELECT nextval('s')", "function 'nextval' does not exist or is not allowed" },
        { "SELECT * FROM ordrs", "unknown table 'ordrs'; did you mean 'orders'?" },
        { "SELECT * FROM nowhere.orders",
          "unknown table 'nowhere.orders'; the tables are: orders, order_items" },
        { "SELECT * FROM __riddle_0.data", "unknown table '__riddle_0.data'" },
        { "SELECT * FROM __riddle_0.main.data", "unknown table 'main.data'" },
        { "SELECT summ(total) FROM orders", "did you mean 'sum'?" },
        { "SELECT ?", "query parameters" },
        { "SELECT $1", "query parameters" },
        { "SHOW ALL TABLES", "only SHOW TABLES" },
        { "SHOW DATABASES", "only SHOW TABLES" },
        { "DESCRIBE nope", "unknown table 'nope'" },
        { "SUMMARIZE FROM read_csv('x')", "reading files is not allowed" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *result = fixture_sql(engine, cases[i].sql, true, 100, -1);

        bool unknown = strncmp(cases[i].message, "unknown table", 13) == 0;
        if (strcmp(fixture_verdict(result), unknown ? "error" : "policy") != 0)
            fail_msg("%s\n  → %s: %s", cases[i].sql, fixture_verdict(result),
                     fixture_message(result));
        assert_string_equal(fixture_type(result),
                            unknown ? "SQL_EXECUTION_ERROR" : "SQL_POLICY_VIOLATION");
        if (!strstr(fixture_message(result), cases[i].message))
            fail_msg("%s\n  → %s\n  lacks: %s", cases[i].sql, fixture_message(result),
                     cases[i].message);
        assert_int_equal(json_array_size(json_object_get(result, "rows")), 0);
        json_decref(result);
    }
}

/*
 * SQL deep enough to endanger a recursive reader is refused by one bound or another, and nothing
 * falls over.
 */
static void test_deep_queries(void **state)
{
    static const struct {
        const char *open, *middle, *close;
        int n;
        bool ok;
    } cases[] = {
        { "1+", "1", "", 400, true },
        { "(SELECT ", "1", ")", 12, true },
        { "(SELECT ", "1", ")", 13, false },
        { "(SELECT ", "1", ")", 100, false },
        { "* FROM (SELECT ", "1", ")", 100, true },
        { "abs(", "1", ")", 5000, false },
        { "1+", "1", "", 20000, false },
        { "[", "1", "]", 3000, false },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_buf struct buf sql = BUF_INIT(1 << 20);
        struct err err = ERR_INIT;
        json_t *result;

        assert_int_equal(buf_append_str(&sql, "SELECT ", &err), 0);
        for (int n = 0; n < cases[i].n; n++)
            assert_int_equal(buf_append_str(&sql, cases[i].open, &err), 0);
        assert_int_equal(buf_append_str(&sql, cases[i].middle, &err), 0);
        for (int n = 0; n < cases[i].n; n++)
            assert_int_equal(buf_append_str(&sql, cases[i].close, &err), 0);
        result = fixture_sql(engine, buf_cstr(&sql), true, 10, -1);
        if ((strcmp(fixture_verdict(result), "ok") == 0) != cases[i].ok)
            fail_msg("%d times '%s': %s %s", cases[i].n, cases[i].open, fixture_verdict(result),
                     fixture_message(result));
        json_decref(result);
    }
    {
        json_t *result = fixture_sql(engine, "SELECT count(*) FROM orders", true, 10, -1);

        assert_string_equal(fixture_verdict(result), "ok");
        json_decref(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_allows),
        cmocka_unit_test(test_policy_refuses),
        cmocka_unit_test(test_deep_queries),
    };

    return cmocka_run_group_tests_name("kernel/sql_rules", tests, fixture_open_shop,
                                       fixture_close_engine);
}
