/*
 * Profiles of tables: every kind of column, nothing but nulls, strange names, estimates,
 * interruption.
 */

#include <pthread.h>
#include "base/check.h"
#include "base/json.h"
#include "base/macros.h"
#include "kernel/sql/profile.h"
#include "kernel/sql/sql_impl.h"

static struct sql_engine *engine;

static int open_engine(void **state)
{
    struct err err;

    (void)state;
    assert_works(sql_engine_create(&engine, &err), &err);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    sql_engine_destroy(engine);
    return 0;
}

static void run(const char *sql)
{
    struct err err;

    assert_works(sql_run(engine, sql, &err), &err);
}

/* The profile, read by the strict parser that the server has. */
static json_t *profile(const char *table)
{
    auto_buf struct buf b = BUF_INIT(64u << 20);
    json_t *json = NULL;
    struct err err;

    assert_works(sql_profile(engine, table, &b, &err), &err);
    assert_works(json_parse(b.data, b.len, &json, &err), &err);
    return json;
}

static const json_t *column_of(const json_t *profile_json, const char *name)
{
    const json_t *columns = json_object_get(profile_json, "columns");

    for (size_t i = 0; i < json_array_size(columns); i++) {
        const json_t *column = json_array_get(columns, i);

        if (strcmp(json_string_value(json_object_get(column, "name")), name) == 0)
            return column;
    }
    print_error("no column '%s'\n", name);
    fail();
    return NULL;
}

/* Compares a column, written as JSON without its name, with what the profile says. */
static void check_column(const json_t *profile_json, const char *name, const char *expected)
{
    auto_json json_t *column = json_copy((json_t *)column_of(profile_json, name));
    auto_free char *text = NULL;

    json_object_del(column, "name");
    text = json_to_str(column);
    assert_string_equal(text, expected);
}

static void test_kinds(void **state)
{
    auto_json json_t *json = NULL;
    auto_free char *samples = NULL;

    (void)state;
    run("CREATE OR REPLACE TABLE t (i INTEGER, s VARCHAR, d DATE, ts TIMESTAMP, m DECIMAL(8,2), f DOUBLE, b BOOLEAN, "
        "l INTEGER[], e ENUM('y', 'x')); INSERT INTO t VALUES "
        "(1, 'b', DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00:00', 1.50, 0.5, true, [1], 'x'), "
        "(2, 'a', DATE '2024-02-01', TIMESTAMP '2024-01-31 10:00:00', 2.50, 'nan', false, [1], 'y'), "
        "(3, 'b', NULL, NULL, NULL, '-inf', true, [2], NULL), "
        "(4, NULL, DATE '2024-02-01', NULL, 2.50, 1.5, NULL, NULL, 'x')");
    json = profile("t");
    assert_int_equal(json_integer_value(json_object_get(json, "row_count")), 4);
    assert_int_equal(json_array_size(json_object_get(json, "columns")), 9);
    assert_null(json_object_get(json, "columns_left_out"));
    check_column(
        json, "i",
        "{\"type\":\"INTEGER\",\"nulls\":0,\"distinct\":4,\"min\":1,\"max\":4,\"mean\":2.5,\"top\":["
        "{\"value\":1,\"count\":1},{\"value\":2,\"count\":1},{\"value\":3,\"count\":1},{\"value\":4,\"count\":1}]}");
    check_column(
        json, "s",
        "{\"type\":\"VARCHAR\",\"nulls\":1,\"distinct\":2,\"min\":\"a\",\"max\":\"b\",\"top\":["
        "{\"value\":\"b\",\"count\":2},{\"value\":\"a\",\"count\":1}]}");
    check_column(
        json, "d",
        "{\"type\":\"DATE\",\"nulls\":1,\"distinct\":2,\"min\":\"2024-01-31\",\"max\":\"2024-02-01\",\"top\":["
        "{\"value\":\"2024-02-01\",\"count\":2},{\"value\":\"2024-01-31\",\"count\":1}]}");
    check_column(
        json, "ts",
        "{\"type\":\"TIMESTAMP\",\"nulls\":2,\"distinct\":1,\"min\":\"2024-01-31 10:00:00\","
        "\"max\":\"2024-01-31 10:00:00\","
        "\"top\":[{\"value\":\"2024-01-31 10:00:00\",\"count\":2}]}");
    /* Not a number and the infinities are values, but have no part in the rest. */
    check_column(
        json, "f",
        "{\"type\":\"DOUBLE\",\"nulls\":0,\"distinct\":4,\"min\":0.5,\"max\":1.5,\"mean\":1.0,\"top\":["
        "{\"value\":0.5,\"count\":1},{\"value\":1.5,\"count\":1}]}");
    check_column(
        json, "b",
        "{\"type\":\"BOOLEAN\",\"nulls\":1,\"distinct\":2,\"min\":false,\"max\":true,\"top\":["
        "{\"value\":true,\"count\":2},{\"value\":false,\"count\":1}]}");
    check_column(
        json, "l",
        "{\"type\":\"INTEGER[]\",\"nulls\":1,\"distinct\":2,\"min\":null,\"max\":null,\"top\":[]}");
    check_column(
        json, "e",
        "{\"type\":\"ENUM('y', 'x')\",\"nulls\":1,\"distinct\":2,\"min\":\"y\",\"max\":\"x\",\"top\":["
        "{\"value\":\"x\",\"count\":2},{\"value\":\"y\",\"count\":1}]}");
    assert_true(json_real_value(json_object_get(column_of(json, "m"), "mean")) == 6.5 / 3);
    samples = json_to_str(json_array_get(json_object_get(json, "sample_rows"), 2));
    assert_string_equal(
        samples,
        "{\"i\":\"3\",\"s\":\"b\",\"d\":\"\",\"ts\":\"\",\"m\":\"\",\"f\":\"-inf\",\"b\":\"true\",\"l\":\"[2]\","
        "\"e\":\"\"}");
    assert_int_equal(json_array_size(json_object_get(json, "sample_rows")), 3);
}

static void test_empty(void **state)
{
    auto_json json_t *none = NULL, *nulls = NULL;

    (void)state;
    run("CREATE OR REPLACE TABLE t (a INTEGER, s VARCHAR)");
    none = profile("t");
    check_column(
        none, "a",
        "{\"type\":\"INTEGER\",\"nulls\":0,\"distinct\":0,\"min\":null,\"max\":null,\"mean\":null,\"top\":[]}");
    assert_int_equal(json_array_size(json_object_get(none, "sample_rows")), 0);
    run("INSERT INTO t SELECT NULL, NULL FROM range(5)");
    nulls = profile("t");
    check_column(
        nulls, "s",
        "{\"type\":\"VARCHAR\",\"nulls\":5,\"distinct\":0,\"min\":null,\"max\":null,\"top\":[]}");
}

static void test_strange_names(void **state)
{
    auto_json json_t *json = NULL;

    (void)state;
    run("CREATE OR REPLACE TABLE \"a \"\"b\" AS SELECT 1 AS \"select\", 2 AS \"x\"\"y\", 3 AS \"ü, (\", 4 AS \"n\", 5 AS \"v\"");
    json = profile("a \"b");
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = { "select", "x\"y", "ü, (", "n", "v" };

        assert_int_equal(json_integer_value(json_object_get(column_of(json, names[i]), "min")),
                         i + 1);
        assert_int_equal(json_array_size(json_object_get(column_of(json, names[i]), "top")), 1);
    }
}

/* Long texts are cut, and a NUL inside one does not make JSON that nobody takes. */
static void test_texts(void **state)
{
    auto_json json_t *json = NULL;
    const json_t *column;

    (void)state;
    run("CREATE OR REPLACE TABLE t AS SELECT repeat('ü', 1000) AS l, 'a' || chr(0) || 'b' AS z");
    json = profile("t");
    column = column_of(json, "l");
    assert_int_equal(json_string_length(json_object_get(column, "min")),
                     2 * PROFILE_TEXT_CHARACTERS);
    assert_int_equal(json_string_length(json_object_get(
                         json_array_get(json_object_get(column, "top"), 0), "value")),
                     2 * PROFILE_TEXT_CHARACTERS);
    assert_string_equal(json_string_value(json_object_get(column_of(json, "z"), "max")),
                        "a\xef\xbf\xbd"
                        "b");
}

/* Top lists are for what repeats. */
static void test_top(void **state)
{
    auto_json json_t *json = NULL;
    const json_t *top;

    (void)state;
    run("CREATE OR REPLACE TABLE t AS SELECT 'id ' || i AS id, i % 51 AS many, i % 50 AS few, 'c' || least(i % 40, 20) AS s "
        "FROM range(4000) r(i)");
    json = profile("t");
    assert_int_equal(json_array_size(json_object_get(column_of(json, "id"), "top")), 0);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "many"), "top")), 0);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "few"), "top")), PROFILE_TOP);
    top = json_object_get(column_of(json, "s"), "top");
    assert_int_equal(json_array_size(top), PROFILE_TOP);
    assert_string_equal(json_string_value(json_object_get(json_array_get(top, 0), "value")), "c20");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(top, 0), "count")), 2000);
    assert_string_equal(json_string_value(json_object_get(json_array_get(top, 1), "value")), "c0");
    assert_int_equal(json_integer_value(json_object_get(column_of(json, "s"), "distinct")), 21);
}

static void check_distinct(const json_t *json, const char *name, int64_t distinct, bool estimated)
{
    const json_t *column = column_of(json, name);
    int64_t found = json_integer_value(json_object_get(column, "distinct"));

    assert_int_equal(json_is_true(json_object_get(column, "distinct_is_approximate")), estimated);
    if (estimated)
        assert_in_range(found, distinct * 6 / 10, distinct * 14 / 10);
    else
        assert_int_equal(found, distinct);
}

/* Beyond the small: keys and categories stay exact, measurements are estimated and say so. */
static void test_large(void **state)
{
    auto_json json_t *json = NULL;

    (void)state;
    run("CREATE OR REPLACE TABLE t AS SELECT i AS id, 'u' || i AS u, 'k' || (i // 2) AS pair, 'c' || (i % 300) AS c, "
        "i / 7.0 AS f, TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND AS ts, DATE '2024-01-01' + (i % 365)::INT AS d, "
        /* one value for long, then all different: what the first rows promise is not kept */
        "CASE WHEN i < 50000 THEN 's' ELSE 's' || i END AS late, CASE WHEN i < 50000 THEN 0 ELSE i END AS late_number "
        "FROM range(150000) r(i)");
    json = profile("t");
    check_distinct(json, "id", 150000, false);
    check_distinct(json, "u", 150000, false);
    check_distinct(json, "pair", 75000, false);
    check_distinct(json, "c", 300, false);
    check_distinct(json, "d", 365, false);
    check_distinct(json, "f", 150000, true);
    check_distinct(json, "ts", 150000, false);
    check_distinct(json, "late", 100001, false);
    check_distinct(json, "late_number", 100001, false);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "u"), "top")), 0);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "pair"), "top")), PROFILE_TOP);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "c"), "top")), PROFILE_TOP);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "late"), "top")), 0);
    assert_int_equal(json_array_size(json_object_get(column_of(json, "late_number"), "top")), 0);
}

static void test_many_columns(void **state)
{
    auto_buf struct buf sql = BUF_INIT(1u << 20);
    auto_json json_t *json = NULL;
    struct err err;

    (void)state;
    assert_works(buf_append_str(&sql, "CREATE OR REPLACE TABLE t AS SELECT 0 AS c0", &err), &err);
    for (int i = 1; i < PROFILE_MAX_COLUMNS + 3; i++)
        assert_works(buf_printf(&sql, &err, ",%d AS c%d", i, i), &err);
    run(buf_cstr(&sql));
    json = profile("t");
    assert_int_equal(json_array_size(json_object_get(json, "columns")), PROFILE_MAX_COLUMNS);
    assert_int_equal(json_integer_value(json_object_get(json, "columns_left_out")), 3);
    assert_int_equal(json_integer_value(json_object_get(column_of(json, "c999"), "max")), 999);
    assert_int_equal(json_object_size(json_array_get(json_object_get(json, "sample_rows"), 0)),
                     PROFILE_MAX_COLUMNS);
}

/* What does not fit into memory is estimated, and the rest is as ever. */
static void test_little_memory(void **state)
{
    auto_json json_t *json = NULL;

    (void)state;
    run("CREATE OR REPLACE TABLE t AS SELECT i AS id, 'c' || (i % 3) AS c FROM range(1500000) r(i)");
    run("SET memory_limit='36MB'");
    json = profile("t");
    run("RESET memory_limit");
    check_distinct(json, "id", 1500000, true);
    check_distinct(json, "c", 3, false);
}

static void test_no_table(void **state)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    struct err err = ERR_INIT;

    (void)state;
    assert_int_equal(sql_profile(engine, "none", &b, &err), -ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "profiling table 'none': "));
    assert_int_equal(b.len, 0);
}

static void *interrupt_when_busy(void *arg)
{
    (void)arg;
    while (!atomic_load(&engine->busy))
        sched_yield();
    sql_interrupt(engine);
    return NULL;
}

static void test_interrupt(void **state)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    struct err err = ERR_INIT;
    pthread_t thread;

    (void)state;
    /* A view, so that every query of the profile takes its time. */
    run("CREATE OR REPLACE VIEW slow AS SELECT hash(i) AS h, i FROM range(20000000) r(i)");
    assert_int_equal(pthread_create(&thread, NULL, interrupt_when_busy, NULL), 0);
    assert_int_equal(sql_profile(engine, "slow", &b, &err), -ERR_CANCELLED);
    assert_string_equal(err.message, "profiling table 'slow': the profile was interrupted");
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* The connection survives. */
    run("CREATE OR REPLACE TABLE t AS SELECT 1 AS a");
    json_decref(profile("t"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_empty),
        cmocka_unit_test(test_strange_names), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_top),           cmocka_unit_test(test_large),
        cmocka_unit_test(test_many_columns),  cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_no_table),      cmocka_unit_test(test_interrupt),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
