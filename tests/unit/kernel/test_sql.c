/*
 * The SQL engine: values as JSON, limits, the lock, interrupts, memory, and the life across a fork.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/macros.h"
#include "kernel/sql_fixture.h"

static char *dump(const json_t *j)
{
    return json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static void test_values(void **state)
{
    static const struct {
        const char *expression, *type, *json;
    } cases[] = {
        { "NULL", "INTEGER", "null" },
        { "true", "BOOLEAN", "true" },
        { "(-128)::TINYINT", "TINYINT", "-128" },
        { "9223372036854775807", "BIGINT", "9223372036854775807" },
        { "18446744073709551615::UBIGINT", "UBIGINT", "\"18446744073709551615\"" },
        { "5::UBIGINT", "UBIGINT", "5" },
        { "sum(3)", "HUGEINT", "3" },
        { "'-170141183460469231731687303715884105728'::HUGEINT", "HUGEINT",
          "\"-170141183460469231731687303715884105728\"" },
        { "340282366920938463463374607431768211455::UHUGEINT", "UHUGEINT",
          "\"340282366920938463463374607431768211455\"" },
        { "1e0", "DOUBLE", "1.0" },
        { "0.1::DOUBLE", "DOUBLE",
          "0.10000000000000001" }, /* as jansson prints 0.1 with 17 digits */
        { "0.1::FLOAT", "FLOAT", "0.10000000000000001" },
        { "'nan'::DOUBLE", "DOUBLE", "null" },
        { "'-inf'::FLOAT", "FLOAT", "null" },
        { "1.50::DECIMAL(18,2)", "DECIMAL(18,2)", "\"1.50\"" },
        { "(-0.05)::DECIMAL(4,2)", "DECIMAL(4,2)", "\"-0.05\"" },
        { "12345678901234.567::DECIMAL(18,3)", "DECIMAL(18,3)", "\"12345678901234.567\"" },
        { "(-123456789012345678901234567890.12)::DECIMAL(38,2)", "DECIMAL(38,2)",
          "\"-123456789012345678901234567890.12\"" },
        { "DATE '2024-02-29'", "DATE", "\"2024-02-29\"" },
        { "DATE '1969-12-31'", "DATE", "\"1969-12-31\"" },
        { "'0044-03-15 (BC)'::DATE", "DATE", "\"-0043-03-15\"" },
        { "'infinity'::DATE", "DATE", "\"infinity\"" },
        { "'-infinity'::TIMESTAMP", "TIMESTAMP", "\"-infinity\"" },
        { "TIMESTAMP '2024-01-02 03:04:05'", "TIMESTAMP", "\"2024-01-02 03:04:05\"" },
        { "TIMESTAMP '1969-12-31 23:59:59.5'", "TIMESTAMP", "\"1969-12-31 23:59:59.500000\"" },
        { "'2024-01-02 03:04:05'::TIMESTAMP_S", "TIMESTAMP_S", "\"2024-01-02 03:04:05\"" },
        { "'2024-01-02 03:04:05.123'::TIMESTAMP_MS", "TIMESTAMP_MS",
          "\"2024-01-02 03:04:05.123000\"" },
        { "'2024-01-02 03:04:05.123456789'::TIMESTAMP_NS", "TIMESTAMP_NS",
          "\"2024-01-02 03:04:05.123456789\"" },
        { "'2024-01-02 03:04:05+02'::TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE",
          "\"2024-01-02 01:04:05+00:00\"" },
        { "TIME '03:04:05.25'", "TIME", "\"03:04:05.250000\"" },
        { "'03:04:05+05:30'::TIMETZ", "TIME WITH TIME ZONE", "\"03:04:05+05:30\"" },
        { "INTERVAL '1 year 2 months 3 days 4 hours'", "INTERVAL",
          "\"1 year 2 months 3 days 04:00:00\"" },
        { "INTERVAL '-90 seconds'", "INTERVAL", "\"-00:01:30\"" },
        { "INTERVAL '0 days'", "INTERVAL", "\"00:00:00\"" },
        { "'b'::ENUM('a','b')", "ENUM", "\"b\"" },
        { "'4ac7a9e9-607c-4c8a-84f3-843f0191e3fd'::UUID", "UUID",
          "\"4ac7a9e9-607c-4c8a-84f3-843f0191e3fd\"" },
        { "'10101'::BIT", "BIT", "\"10101\"" },
        { "'\\xFF\\x00ab'::BLOB", "BLOB", "\"/wBhYg==\"" },
        { "''::BLOB", "BLOB", "\"\"" },
        { "'a\"b\\c' || chr(10) || chr(1) || '\xc3\xa4'", "VARCHAR",
          "\"a\\\"b\\\\c\\n\\u0001\xc3\xa4\"" },
        { "'{\"a\":1}'::JSON", "JSON", "\"{\\\"a\\\":1}\"" },
        { "[1,NULL,3]", "INTEGER[]", "[1,null,3]" },
        { "[]::INT[]", "INTEGER[]", "[]" },
        { "[[1],[2,3]]", "INTEGER[][]", "[[1],[2,3]]" },
        { "[1,2]::INT[2]", "INTEGER[2]", "[1,2]" },
        { "{'a':1,'b c':[true]}", "STRUCT(a INTEGER, \"b c\" BOOLEAN[])",
          "{\"a\":1,\"b c\":[true]}" },
        { "row(1,'x')", "STRUCT(INTEGER, VARCHAR)", "{\"1\":1,\"2\":\"x\"}" },
        { "map {'k':1}", "MAP(VARCHAR, INTEGER)", "{\"k\":1}" },
        { "map {2:'v'}", "MAP(INTEGER, VARCHAR)", "[{\"key\":2,\"value\":\"v\"}]" },
        { "union_value(k := 7)", "UNION(k INTEGER)", "7" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char sql[300];
        json_t *result;
        char *value;
        const char *type;

        snprintf(sql, sizeof(sql), "SELECT %s AS v", cases[i].expression);
        result = fixture_sql(engine, sql, true, 10, -1);
        if (strcmp(fixture_verdict(result), "ok") != 0)
            fail_msg("%s: %s", sql, fixture_message(result));
        value = dump(json_array_get(json_array_get(json_object_get(result, "rows"), 0), 0));
        type = json_string_value(json_array_get(json_object_get(result, "types"), 0));
        if (strcmp(value, cases[i].json) != 0)
            fail_msg("%s: got %s, expected %s", cases[i].expression, value, cases[i].json);
        if (strcmp(type, cases[i].type) != 0)
            fail_msg("%s: got type %s, expected %s", cases[i].expression, type, cases[i].type);
        free(value);
        json_decref(result);
    }
}

/* Values from a table with many chunks: offsets into lists and texts must be the row's own. */
static void test_values_of_later_rows(void **state)
{
    json_t *result = fixture_sql(
        engine,
        "SELECT i, 'text number ' || i, [i, i + 1], {'x': i}, CASE WHEN i % 2 = 0 THEN i END, [i, i]::BIGINT[2] "
        "FROM range(5000) t(i) ORDER BY i",
        true, -1, -1);
    const json_t *rows = json_object_get(result, "rows");
    char *row;

    (void)state;
    assert_int_equal(json_array_size(rows), 5000);
    assert_true(json_is_false(json_object_get(result, "truncated")));
    row = dump(json_array_get(rows, 4567));
    assert_string_equal(row,
                        "[4567,\"text number 4567\",[4567,4568],{\"x\":4567},null,[4567,4567]]");
    free(row);
    json_decref(result);
}

static void test_unshowable_types(void **state)
{
    json_t *result = fixture_sql(engine, "SELECT 1::BIGNUM AS big", true, 10, -1);

    (void)state;
    assert_string_equal(fixture_verdict(result), "error");
    assert_non_null(strstr(fixture_message(result), "column 'big' has type BIGNUM"));
    assert_non_null(strstr(fixture_message(result), "CAST(… AS VARCHAR)"));
    json_decref(result);
}

/* ---- limits -------------------------------------------------------------------------------------------------------- */

static void check_rows(const char *sql, int64_t max_rows, int64_t max_bytes, size_t n,
                       bool truncated)
{
    json_t *result = fixture_sql(engine, sql, true, max_rows, max_bytes);

    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s: %s", sql, fixture_message(result));
    assert_int_equal(json_array_size(json_object_get(result, "rows")), n);
    assert_int_equal(json_integer_value(json_object_get(result, "row_count")), n);
    assert_int_equal(json_is_true(json_object_get(result, "truncated")), truncated);
    json_decref(result);
}

static void test_row_limits(void **state)
{
    int64_t start;

    (void)state;
    check_rows("SELECT * FROM orders", 3, -1, 3, false);
    check_rows("SELECT * FROM orders", 2, -1, 2, true);
    check_rows("SELECT * FROM orders", 0, -1, 0, true);
    check_rows("SELECT * FROM orders WHERE false", 5, -1, 0, false);
    check_rows("SELECT i FROM range(2048) t(i)", 2048, -1, 2048, false);
    check_rows("SELECT i FROM range(2049) t(i)", 2048, -1, 2048, true);
    /* What is not asked for is not computed: all of this would take hours. */
    start = clock_now_ms();
    check_rows("SELECT i, i::VARCHAR FROM range(100000000000) t(i)", 5, -1, 5, true);
    assert_true(clock_now_ms() - start < 5000);
}

static void test_byte_limits(void **state)
{
    (void)state;
    check_rows("SELECT 'aaaa' FROM range(10)", -1, 9, 1, true); /* ["aaaa"] */
    check_rows("SELECT 'aaaa' FROM range(10)", -1, 8, 1, true);
    check_rows("SELECT 'aaaa' FROM range(10)", -1, 7, 0, true);
    check_rows("SELECT 'aaaa' FROM range(10)", -1, 17, 2, true);
    check_rows("SELECT 'aaaa' FROM range(10)", -1, 89, 10, false);
    /* A list that could never be sent is left when the limit is met. */
    check_rows("SELECT range(10000000)", -1, 100000, 0, true);
    /* The buffer's own maximum (16 MB here) is a limit as well. */
    check_rows("SELECT repeat('x', 60000) FROM range(1000)", -1, -1, 279, true);
}

static void test_long_text_is_cut(void **state)
{
    json_t *result = fixture_sql(engine, "SELECT repeat('\xc3\xa4', 40000) AS a, 'x' AS b", true,
                                 10, -1);
    const json_t *row = json_array_get(json_object_get(result, "rows"), 0);
    const char *text = json_string_value(json_array_get(row, 0));

    (void)state;
    assert_true(json_is_true(json_object_get(result, "truncated")));
    assert_int_equal(strlen(text), 65536 + strlen("…"));
    assert_string_equal(text + 65534, "\xc3\xa4…");
    assert_string_equal(json_string_value(json_array_get(row, 1)), "x");
    json_decref(result);
}

static void test_bad_texts(void **state)
{
    static const struct {
        const char *sql, *type, *message;
    } cases[] = {
        { "", "VALIDATION_ERROR", "SQL query is required" },
        { " \n\t", "VALIDATION_ERROR", "SQL query is required" },
        { "-- nothing\n/* here */ ;", "VALIDATION_ERROR", "SQL query is required" },
        { "SELECT '\xff'", "VALIDATION_ERROR", "not UTF-8" },
        { "SELEC 1", "SQL_EXECUTION_ERROR", "syntax error at or near \"SELEC\"" },
        { "SELECT (1", "SQL_EXECUTION_ERROR", "syntax error" },
        { "SELECT nope FROM orders", "SQL_EXECUTION_ERROR",
          "Referenced column \"nope\" not found" },
        { "SELECT 'x'::INTEGER", "SQL_EXECUTION_ERROR", "Could not convert string 'x' to INT32" },
        { "SELECT error('my own')", "SQL_EXECUTION_ERROR", "my own" },
    };
    size_t len = (1 << 20) + 1;
    auto_free char *text = malloc(len + 1);
    __attribute__((cleanup(result_finish))) struct result out;
    struct err err = ERR_INIT;
    json_t *result;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        result = fixture_sql(engine, cases[i].sql, true, 10, -1);
        assert_string_equal(fixture_verdict(result), "error");
        assert_string_equal(fixture_type(result), cases[i].type);
        if (!strstr(fixture_message(result), cases[i].message))
            fail_msg("%s: %s", cases[i].sql, fixture_message(result));
        json_decref(result);
    }
    assert_non_null(text);
    memset(text, ' ', len);
    text[len] = '\0';
    result = fixture_sql(engine, text, true, 10, -1);
    assert_string_equal(fixture_type(result), "VALIDATION_ERROR");
    assert_non_null(strstr(fixture_message(result), "longer than 1 MB"));
    json_decref(result);
    result_init(&out, 1 << 20);
    assert_int_equal(
        sql_execute(engine,
                    &(struct sql_request){ .sql = "SELECT\0 1", .sql_len = 9, .policy = true },
                    &out, &err),
        0);
    assert_non_null(strstr(buf_cstr(&out.json.text), "has a NUL byte"));
}

/* A NUL in a text must not make the result unreadable: riddle's parser refuses one. */
static void test_nul_in_a_value(void **state)
{
    (void)state;
    json_t *result = fixture_sql(engine, "SELECT 'a' || chr(0) || 'b' AS x", true, 10, -1);
    assert_string_equal(fixture_verdict(result), "ok");
    assert_string_equal(
        json_string_value(json_array_get(json_array_get(json_object_get(result, "rows"), 0), 0)),
        "a\xef\xbf\xbd"
        "b");
    json_decref(result);
}

/* ---- the lock ------------------------------------------------------------------------------------------------------ */

/* Without the policy (Python's sql()) the engine itself must refuse. */
static void test_lock(void **state)
{
    static const struct {
        const char *sql, *message;
    } cases[] = {
        { "SELECT * FROM read_text('/etc/passwd')", "Permission Error" },
        { "SELECT * FROM '/etc/passwd.csv'", "Permission Error" },
        { "SELECT * FROM glob('/*')", "Permission Error" },
        { "COPY orders TO '/tmp/riddle-x.csv'", "Permission Error" },
        { "ATTACH '/tmp/riddle-x.db' AS x", "Permission Error" },
        { "EXPORT DATABASE '/tmp/riddle-x'", "Permission Error" },
        { "INSTALL httpfs", "Permission Error" },
        { "LOAD '/tmp/x.duckdb_extension'", "Permission Error" },
        { "SET threads = 8", "configuration has been locked" },
        { "SET enable_external_access = true", "configuration has been locked" },
        { "RESET memory_limit", "configuration has been locked" },
        { "SET lock_configuration = false", "configuration has been locked" },
        { "INSERT INTO __riddle_0.main.data VALUES (1, 'x', 2)", "read-only" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_t *result = fixture_sql(engine, cases[i].sql, false, 10, -1);

        if (strcmp(fixture_verdict(result), "error") != 0 ||
            !strstr(fixture_message(result), cases[i].message))
            fail_msg("%s → %s: %s", cases[i].sql, fixture_verdict(result), fixture_message(result));
        json_decref(result);
    }
}

static void test_without_policy(void **state)
{
    json_t *result = fixture_sql(engine, "CREATE TABLE mine AS SELECT 42 AS x; SELECT x FROM mine",
                                 false, 10, -1);
    char *rows = dump(json_object_get(result, "rows"));

    (void)state;
    assert_string_equal(rows, "[[42]]");
    free(rows);
    json_decref(result);
    result = fixture_sql(engine, "PIVOT orders ON status USING sum(total)", false, 10, -1);
    assert_string_equal(fixture_verdict(result), "ok");
    json_decref(result);
    result = fixture_sql(engine, "SELECT nope; DROP TABLE mine", false, 10, -1);
    assert_string_equal(fixture_verdict(result), "error");
    json_decref(result);
    result = fixture_sql(engine, "DROP TABLE mine", false, 10,
                         -1); /* the statement behind the failing one did not run */
    assert_string_equal(fixture_verdict(result), "ok");
    json_decref(result);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static void test_dataset_names(void **state)
{
    static const struct {
        const char *id, *query, *verdict;
    } cases[] = {
        { "ecommerce", "SELECT * FROM ECommerce.Orders", "ok" },
        { "ecommerce", "SELECT \"ecommerce\".\"orders\".total FROM \"ecommerce\".\"orders\"",
          "ok" },
        { "a\"b c.d-e", "SELECT * FROM \"a\"\"b c.d-e\".orders", "ok" },
        { "orders", "SELECT * FROM orders.orders", "ok" },
        { "data", "SELECT * FROM data.orders", "ok" },
        { "select", "SELECT * FROM \"select\".orders", "ok" },
        { "main", "SELECT * FROM main.orders", "ok" },
        { "Memory", "SELECT * FROM memory.orders", "ok" },
        { "__RIDDLE_0", "SELECT * FROM __riddle_0.orders", "ok" },
        { "temp", "SELECT * FROM temp.orders", "error" },
        { "system", "SELECT * FROM system.orders", "error" },
        { "information_schema", "SELECT * FROM information_schema.tables", "policy" },
        { "pg_catalog", "SELECT * FROM pg_catalog.orders", "policy" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sql_engine *e = fixture_engine(cases[i].id, 256 << 20, fixture_dir);
        json_t *result = fixture_sql(e, cases[i].query, true, 10, -1);

        if (strcmp(fixture_verdict(result), cases[i].verdict) != 0)
            fail_msg("dataset %s: %s → %s", cases[i].id, cases[i].query, fixture_message(result));
        json_decref(result);
        result = fixture_sql(e, "SELECT count(*) FROM orders", true, 10, -1);
        assert_string_equal(fixture_verdict(result), "ok");
        json_decref(result);
        sql_engine_destroy(e);
    }
}

/* The schema of the data set is made when it is first named. */
static void test_dataset_name_outlives_a_rollback(void **state)
{
    static const char *const statements[] = { "BEGIN", "SELECT * FROM shop.orders", "ROLLBACK",
                                              "SELECT * FROM shop.orders" };
    (void)state;
    struct sql_engine *e = fixture_engine("shop", 256 << 20, fixture_dir);
    for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
        json_t *result = fixture_sql(e, statements[i], false, 10, -1);
        if (strcmp(fixture_verdict(result), "ok") != 0)
            fail_msg("%s: %s", statements[i], fixture_message(result));
        json_decref(result);
    }
    sql_engine_destroy(e);
}

static void test_bad_set_up(void **state)
{
    struct sql_table missing = { "t", "/nonexistent/t.db", 0 };
    struct sql_table twice[] = { { "t", fixture_path("orders.db"), 0 },
                                 { "T", fixture_path("items.db"), 0 } };
    struct sql_setup setup = {
        .tables = &missing, .n_tables = 1, .memory_bytes = 64 << 20, .threads = 1
    };
    struct sql_engine *e = fixture_create();
    struct err err = ERR_INIT;

    (void)state;
    assert_true(sql_engine_setup(e, &setup, &err) < 0);
    assert_non_null(strstr(err.message, "attaching table 't'"));
    sql_engine_destroy(e);
    e = fixture_create();
    setup.tables = twice;
    setup.n_tables = 2;
    assert_true(sql_engine_setup(e, &setup, &err) < 0);
    assert_non_null(strstr(err.message, "attaching table 'T'"));
    assert_non_null(strstr(err.message, "already exists"));
    sql_engine_destroy(e);
    sql_engine_destroy(NULL);
}

/* ---- interrupts ---------------------------------------------------------------------------------------------------- */

static void on_alarm(int sig)
{
    (void)sig;
    sql_interrupt(engine);
}

static void alarm_in_ms(int ms)
{
    struct itimerval timer = { .it_value = { .tv_usec = ms * 1000 } };

    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void test_interrupt(void **state)
{
    static const char *const queries[] = {
        "SELECT count(*) FROM range(100000000000) a",
        "SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "SELECT i FROM range(100000000000) t(i) WHERE i < 0", /* a stream that finds nothing */
    };
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART }, before;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        int64_t start = clock_now_ms(), took;
        json_t *result;

        alarm_in_ms(100);
        result = fixture_sql(engine, queries[i], true, 10, -1);
        took = clock_now_ms() - start;
        if (strcmp(fixture_verdict(result), "interrupted") != 0)
            fail_msg("%s → %s %s", queries[i], fixture_verdict(result), fixture_message(result));
        if (took > 1500)
            fail_msg("%s took %lld ms to stop", queries[i], (long long)took);
        json_decref(result);
        check_rows("SELECT * FROM orders", 10, -1, 3, false);
    }
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

/* One that comes between queries must not stop the next. */
static void test_interrupt_while_idle(void **state)
{
    (void)state;
    sql_interrupt(engine);
    check_rows("SELECT * FROM orders", 10, -1, 3, false);
    sql_interrupt(engine);
    sql_interrupt(engine);
    check_rows("SELECT count(*) FROM range(3000000)", 10, -1, 1, false);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

#define SORT_MANY                                                                                  \
    "SELECT max(x) FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS x FROM range(4000000) t(i))"

static void test_memory(void **state)
{
    struct sql_engine *e = fixture_engine("ds", 48 << 20, NULL);
    json_t *result = fixture_sql(e, SORT_MANY, true, 10, -1);

    (void)state;
    if (strcmp(fixture_verdict(result), "memory") != 0)
        fail_msg("%s: %s", fixture_verdict(result), fixture_message(result));
    assert_string_equal(fixture_type(result), "SQL_EXECUTION_ERROR");
    assert_non_null(strstr(fixture_message(result), "Aggregate or filter earlier"));
    json_decref(result);
    result = fixture_sql(e, "SELECT count(*) FROM orders", true, 10, -1);
    assert_string_equal(fixture_verdict(result), "ok");
    json_decref(result);
    sql_engine_destroy(e);
}

/*
 * With a directory to spill to, the same query works, although the engine may open no other file.
 */
static void test_spill(void **state)
{
    struct sql_engine *e = fixture_engine("ds", 48 << 20, fixture_path("spill"));
    json_t *result = fixture_sql(e, SORT_MANY, true, 10, -1);

    (void)state;
    if (strcmp(fixture_verdict(result), "ok") != 0)
        fail_msg("%s: %s", fixture_verdict(result), fixture_message(result));
    assert_int_equal(
        json_integer_value(json_array_get(json_array_get(json_object_get(result, "rows"), 0), 0)),
        4000000);
    assert_int_equal(access(fixture_path("spill"), F_OK), 0);
    json_decref(result);
    sql_engine_destroy(e);
}

/* ---- fork ---------------------------------------------------------------------------------------------------------- */

static int count_threads(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    int n = -1;

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    }
    if (f)
        fclose(f);
    return n;
}

/* As in the zygote: made before the fork with one thread, set up after it with two. */
static int in_child(struct sql_engine *e)
{
    __attribute__((cleanup(result_finish))) struct result out;
    struct err err = ERR_INIT;
    const char sql[] = "SELECT count(*), sum(i) FROM range(1000000) t(i), orders";
    struct sql_request req = {
        .sql = sql, .sql_len = strlen(sql), .policy = true, .max_rows = 10, .max_bytes = -1
    };

    result_init(&out, 1 << 20);
    if (count_threads() != 1)
        return 2;
    if (fixture_set_up(e, "ds", 128 << 20, fixture_dir, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    if (count_threads() != 2)
        return 4;
    if (sql_execute(e, &req, &out, &err) < 0 ||
        !strstr(buf_cstr(&out.json.text), "\"rows\":[[3000000,1499998500000]]"))
        return 5;
    return 0;
}

static void test_fork(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        /*
         * A first process whose only thread makes the engine and forks again: this one is the
         * zygote.
         */
        struct sql_engine *e = NULL;
        struct err err = ERR_INIT;

        if (sql_engine_create(&e, &err) < 0 || count_threads() != 1)
            _exit(10);
        pid = fork();
        if (pid == 0)
            _exit(in_child(e));
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            _exit(11);
        _exit(WEXITSTATUS(status));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_values_of_later_rows),
        cmocka_unit_test(test_unshowable_types),
        cmocka_unit_test(test_row_limits),
        cmocka_unit_test(test_byte_limits),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_nul_in_a_value),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_without_policy),
        cmocka_unit_test(test_dataset_names),
        cmocka_unit_test(test_dataset_name_outlives_a_rollback),
        cmocka_unit_test(test_bad_set_up),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_while_idle),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_spill),
        cmocka_unit_test(test_fork),
    };

    return cmocka_run_group_tests_name("kernel/sql", tests, fixture_open_shop,
                                       fixture_close_engine);
}
