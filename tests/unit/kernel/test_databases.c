/* Files that are databases: every table of them becomes a table; what cannot be read is told. */

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/sqlite_file.h"
#include "kernel/sql_fixture.h"
#include "kernel/sql/sql_impl.h"

static void make_sqlite(const char *name, const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    unlink(fixture_path(name));
    assert_int_equal(sqlite3_open(fixture_path(name), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(db);
}

static void make_duckdb(const char *name, const char *sql)
{
    duckdb_database db = NULL;
    duckdb_connection con = NULL;
    duckdb_result result = { 0 };

    unlink(fixture_path(name));
    assert_int_equal(duckdb_open(fixture_path(name), &db), DuckDBSuccess);
    assert_int_equal(duckdb_connect(db, &con), DuckDBSuccess);
    if (duckdb_query(con, sql, &result) != DuckDBSuccess)
        fail_msg("%s", duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    duckdb_disconnect(&con);
    duckdb_close(&db);
}

static json_t *ingest(const char *name)
{
    json_t *result;

    unlink(fixture_path("out.db"));
    result = fixture_ingest(engine, name, "out.db");
    assert_int_equal(access(fixture_path("out.db"), F_OK) == 0,
                     str_eq(fixture_verdict(result), "ok"));
    return result;
}

static json_t *ingest_well(const char *name)
{
    json_t *result = ingest(name);

    if (!str_eq(fixture_verdict(result), "ok"))
        fail_msg("%s: %s", name, fixture_message(result));
    return result;
}

static void assert_json(const json_t *result, const char *key, const char *expected)
{
    char *text = json_dumps(json_object_get(result, key), JSON_COMPACT | JSON_ENCODE_ANY);

    if (!str_eq(text, expected))
        fail_msg("%s: got %s, expected %s", key, text, expected);
    free(text);
}

static void assert_rows(size_t part, const char *sql, const char *expected)
{
    struct sql_table table = { "t", fixture_path("out.db"), part };
    struct sql_setup setup = {
        .tables = &table, .n_tables = 1, .memory_bytes = 128 << 20, .threads = 1
    };
    struct sql_engine *e = fixture_create();
    struct err err = ERR_INIT;
    json_t *result;

    if (sql_engine_setup(e, &setup, &err) < 0)
        fail_msg("%s", err.message);
    result = fixture_sql(e, sql, true, 100, -1);
    assert_json(result, "rows", expected);
    json_decref(result);
    sql_engine_destroy(e);
}

static void assert_note(const json_t *result, const char *text)
{
    const json_t *notes = json_object_get(json_object_get(result, "report"), "notes"), *note;
    size_t i;

    json_array_foreach(notes, i, note)
        if (strstr(json_string_value(note), text))
            return;
    fail_msg("no note '%s'", text);
}

static void assert_refused(const char *name, const char *message)
{
    json_t *result = ingest(name);

    assert_string_equal(fixture_verdict(result), "error");
    assert_string_equal(fixture_type(result), "VALIDATION_ERROR");
    if (!strstr(fixture_message(result), message))
        fail_msg("%s: got '%s', expected '%s' in it", name, fixture_message(result), message);
    if (strstr(fixture_message(result), fixture_dir))
        fail_msg("a path of ours in '%s'", fixture_message(result));
    json_decref(result);
}

static void test_sqlite_types(void **state)
{
    json_t *result;

    (void)state;
    make_sqlite(
        "types.db",
        "CREATE TABLE t(i INTEGER, r REAL, b BOOLEAN, d DATE, m TIMESTAMP, z, x BLOB, mixed, "
        "code TEXT, big NUMERIC, score INT, later DATETIME, frac TEXT);"
        "INSERT INTO t VALUES(9007199254740993, 0.1, 1, '2024-02-29', '2024-01-31T10:00', "
        "'2024-01-01 00:00:00+02:00', x'00ff', 7, '007', 9007199254740993, 3, NULL, "
        "'2024-01-01 00:00:00.123456789');"
        "INSERT INTO t VALUES(-1, 2, 0, '', '2024-01-31 10:00:05.25', '2024-01-01T00:00:00Z', "
        "x'', 'seven', '1e5', 0.1, 'n/a', NULL, '2024-01-01 00:00:00.1');"
        "INSERT INTO t(i) VALUES(NULL);");
    result = ingest_well("types.db");
    assert_json(result, "types",
                "[\"BIGINT\",\"DOUBLE\",\"BOOLEAN\",\"DATE\",\"TIMESTAMP\",\"TIMESTAMP WITH TIME "
                "ZONE\",\"BLOB\",\"VARCHAR\",\"VARCHAR\",\"VARCHAR\",\"BIGINT\",\"TIMESTAMP\","
                "\"VARCHAR\"]");
    assert_json(result, "row_count", "3");
    assert_note(result, "columns with values of several types are text");
    assert_note(result, "2 words for no value");
    json_decref(result);
    assert_rows(
        0, "SELECT i, r, b, d, m FROM t",
        "[[9007199254740993,0.10000000000000001,true,\"2024-02-29\",\"2024-01-31 10:00:00\"],"
        "[-1,2.0,false,null,\"2024-01-31 10:00:05.250000\"],[null,null,null,null,null]]");
    assert_rows(
        0, "SELECT epoch(z)::BIGINT, hex(x), mixed, code, big, score, frac FROM t LIMIT 2",
        "[[1704060000,\"00FF\",\"7\",\"007\",\"9007199254740993\",3,\"2024-01-01 "
        "00:00:00.123456789\"],[1704067200,\"\",\"seven\",\"1e5\",\"0.1\",null,\"2024-01-01 "
        "00:00:00.1\"]]");
}

static void test_sqlite_tables(void **state)
{
    json_t *result, *tables;

    (void)state;
    make_sqlite("shop.db",
                "CREATE TABLE none(a INT, A1 TEXT);"
                "CREATE TABLE \"Order \"\"items\"(a INT, \"\" INT);"
                "INSERT INTO \"Order \"\"items\" VALUES(1, 2);"
                "CREATE TABLE people(n TEXT); INSERT INTO people VALUES('x' || char(0) || 'y'),"
                "(CAST(x'41ff' AS TEXT));"
                "CREATE VIEW v AS SELECT * FROM people;"
                "CREATE INDEX j ON people(n);");
    result = ingest_well("shop.db");
    assert_json(result, "columns", "[\"a\",\"column1\"]");
    assert_json(json_object_get(result, "report"), "format", "\"sqlite\"");
    assert_json(json_object_get(result, "report"), "table", "\"Order \\\"items\"");
    assert_json(json_object_get(result, "report"), "tables", "3");
    assert_note(result, "1 views were left out");
    tables = json_object_get(result, "tables");
    assert_int_equal(json_array_size(tables), 2);
    assert_json(json_array_get(tables, 0), "name", "\"people\"");
    assert_json(json_array_get(tables, 1), "name", "\"none\"");
    assert_json(json_array_get(tables, 1), "row_count", "0");
    assert_note(json_array_get(tables, 0), "1 NUL characters");
    assert_note(json_array_get(tables, 0), "no valid UTF-8 became U+FFFD: 1");
    json_decref(result);
    assert_rows(1, "SELECT n FROM t", "[[\"xy\"],[\"A\xef\xbf\xbd\"]]");
}

static void test_sqlite_odd(void **state)
{
    static char bytes[40000];
    FILE *f;
    size_t n;
    json_t *result;

    (void)state;
    make_sqlite("views.db", "CREATE VIEW v AS SELECT 1");
    assert_refused("views.db", "it has views only");
    make_sqlite("none.db", "CREATE TABLE x(a); DROP TABLE x");
    assert_refused("none.db", "a database without a table");
    /* A generated column may not call what could do harm; the other table is read all the same. */
    make_sqlite(
        "good.db",
        "CREATE TABLE a(x INT, y AS (x / 0)); INSERT INTO a VALUES(1);"
        "CREATE TABLE big(t TEXT); INSERT INTO big SELECT hex(randomblob(2000)) FROM "
        "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c LIMIT 4) SELECT * FROM c);");
    result = ingest_well("good.db");
    json_decref(result);
    assert_rows(0, "SELECT * FROM t", "[[1,null]]");
    f = fopen(fixture_path("good.db"), "r");
    assert_non_null(f);
    n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    assert_true(n > 4096 * 2);
    /* Cut behind the first table: that one is whole. */
    memset(bytes + 4096 * 2, 0xee, n - 4096 * 2);
    fixture_write("half.db", bytes, n);
    result = ingest_well("half.db");
    assert_note(result, "1 tables could not be read: table 'big' of 'half.db' is damaged");
    json_decref(result);
    memset(bytes + 100, 0xee, n - 100);
    fixture_write("bad.db", bytes, n);
    assert_refused("bad.db", "is an SQLite database that is damaged");
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 % 31);
    fixture_write("cipher.sqlite", bytes, sizeof(bytes));
    assert_refused("cipher.sqlite", "send an unencrypted copy");
}

static void test_duckdb(void **state)
{
    json_t *result;
    char bytes[8192];
    FILE *f;

    (void)state;
    make_duckdb("w.duckdb",
                "CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE none(x INT);"
                "CREATE TABLE t(id INT PRIMARY KEY, m mood, s STRUCT(a INT, b VARCHAR[]), d "
                "DECIMAL(10, 2));"
                "INSERT INTO t VALUES (1, 'a', {'a': 1, 'b': ['x']}, 1.25);"
                "CREATE SCHEMA other; CREATE TABLE other.u AS SELECT range AS i FROM range(5000);"
                "CREATE VIEW v AS SELECT 1");
    result = ingest_well("w.duckdb");
    assert_json(json_object_get(result, "report"), "format", "\"duckdb\"");
    assert_json(
        result, "types",
        "[\"INTEGER\",\"ENUM('a', 'b')\",\"STRUCT(a INTEGER, b VARCHAR[])\",\"DECIMAL(10,2)\"]");
    assert_json(json_array_get(json_object_get(result, "tables"), 0), "name", "\"other_u\"");
    assert_json(json_array_get(json_object_get(result, "tables"), 0), "row_count", "5000");
    assert_json(json_array_get(json_object_get(result, "tables"), 1), "row_count", "0");
    assert_note(result, "1 views were left out");
    json_decref(result);
    assert_rows(1, "SELECT sum(i)::BIGINT FROM t", "[[12497500]]");
    f = fopen(fixture_path("w.duckdb"), "r");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, sizeof(bytes), f), sizeof(bytes));
    fclose(f);
    fixture_write("cut.duckdb", bytes, sizeof(bytes));
    assert_refused("cut.duckdb", "is a DuckDB database that is damaged");
    bytes[12] = 99; /* the version of the storage */
    fixture_write("new.duckdb", bytes, sizeof(bytes));
    assert_refused("new.duckdb", "is a DuckDB database");
    json_decref(ingest_well("w.duckdb")); /* nothing of the refused ones is attached */
}

static bool stop_at_once(const void *arg)
{
    return *(const bool *)arg;
}

static void test_sqlite_stops(void **state)
{
    bool stop = false;
    struct sqlite_options options = { .must_stop = stop_at_once, .stop_arg = &stop };
    struct sqlite_file f;
    struct err err = ERR_INIT;

    (void)state;
    make_sqlite("long.db",
                "CREATE TABLE t AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 "
                "FROM c LIMIT 20000) SELECT i FROM c");
    assert_int_equal(sqlite_open_file(&f, fixture_path("long.db"), &options, &err), 0);
    assert_int_equal(sqlite_choose(&f, 0, &err), 0);
    assert_int_equal(f.n_rows, 20000);
    stop = true;
    assert_int_equal(sqlite_choose(&f, 0, &err), -ERR_CANCELLED);
    sqlite_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sqlite_types), cmocka_unit_test(test_sqlite_tables),
        cmocka_unit_test(test_sqlite_odd),   cmocka_unit_test(test_sqlite_stops),
        cmocka_unit_test(test_duckdb),
    };

    return cmocka_run_group_tests_name("kernel/databases", tests, fixture_open_engine,
                                       fixture_close_engine);
}
