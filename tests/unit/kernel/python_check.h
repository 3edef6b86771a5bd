#ifndef RIDDLE_TESTS_UNIT_KERNEL_PYTHON_CHECK_H
#define RIDDLE_TESTS_UNIT_KERNEL_PYTHON_CHECK_H

/*
 * What the tests of the Python half share: one interpreter with a real DuckDB and a table `orders`,
 * cells run in this process without a jail, and checks of their results.
 */

#include <duckdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/str.h"
#include "kernel/python/python.h"
#include "kernel/sql/sql.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
/*
 * CPython keeps what it has allocated until the process ends; a huge malloc() of a cell must fail,
 * not abort.
 */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}
#endif

static struct sql_engine *engine;
static char scratch[64];

/* Events that the last cell sent. */
static json_t *events;

static void collect_event(const char *json, size_t len)
{
    struct err err = ERR_INIT;
    json_t *event = NULL;
    if (json_parse(json, len, &event, &err) < 0)
        fail_msg("an event is no JSON: %s", err.message);
    json_array_append_new(events, event);
}

struct cell {
    bool restricted, svg;
    long long max_rows, max_bytes; /* 0: 200 and 65536 */
};

static json_t *run_bytes(const char *code, size_t len, struct cell how)
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(result_finish))) struct result out;
    result_init(&out, 64 << 20);
    struct python_request req = {
        .code = code,
        .code_len = len,
        .restricted = how.restricted,
        .svg = how.svg,
        .max_rows = how.max_rows ? how.max_rows : 200,
        .max_output_bytes = how.max_bytes ? how.max_bytes : 65536,
    };
    json_decref(events);
    events = json_array();
    if (python_execute(&req, &out, &err) < 0)
        fail_msg("python_execute: %s", err.message);
    assert_int_equal(result_end(&out, &err), 0);
    json_t *result = NULL;
    /* The strict parser: what the kernel writes must pass it whatever user code does. */
    if (json_parse(out.json.text.data, out.json.text.len, &result, &err) < 0)
        fail_msg("not JSON: %s\n%.2000s", err.message, out.json.text.data);
    return result;
}

static json_t *run_how(const char *code, struct cell how)
{
    return run_bytes(code, strlen(code), how);
}

static inline json_t *run(const char *code)
{
    return run_how(code, (struct cell){ 0 });
}

static const char *text_at(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));
    return s ? s : "(none)";
}

/* Member `key` is this JSON. */
static void check_json(const json_t *obj, const char *key, const char *expected)
{
    auto_free char *found = json_to_str(json_object_get(obj, key));
    if (!str_eq(found, expected)) {
        auto_free char *all = json_to_str(obj);
        print_error("%s: expected %s\nin %.3000s\n", key, expected, all);
    }
    assert_string_equal(found, expected);
}

static inline void check_ok(const char *code)
{
    auto_json json_t *r = run(code);
    if (!str_eq(text_at(r, "verdict"), "ok"))
        print_error("%s\n", text_at(json_object_get(r, "error"), "traceback"));
    assert_string_equal(text_at(r, "verdict"), "ok");
    assert_true(json_is_null(json_object_get(r, "error")));
}

/* Verdict, error type and message; columns and rows are empty. */
static inline void check_failure(json_t *result, const char *verdict, const char *type,
                                 const char *message)
{
    auto_json json_t *r = result;
    const json_t *error = json_object_get(r, "error");
    assert_string_equal(text_at(error, "message"), message);
    assert_string_equal(text_at(r, "verdict"), verdict);
    assert_string_equal(text_at(error, "type"), type);
    check_json(r, "columns", "[]");
    check_json(r, "rows", "[]");
    check_json(r, "value", "null");
    assert_true(json_is_false(json_object_get(r, "has_result")));
}

static inline void check_table(const char *code, const char *columns, const char *rows)
{
    auto_json json_t *r = run(code);
    check_json(r, "error", "null");
    check_json(r, "columns", columns);
    check_json(r, "rows", rows);
    assert_true(json_is_true(json_object_get(r, "has_result")));
    assert_int_equal(json_integer_value(json_object_get(r, "row_count")),
                     json_array_size(json_object_get(r, "rows")));
    assert_int_equal(json_array_size(json_object_get(r, "types")),
                     json_array_size(json_object_get(r, "columns")));
}

static void start_session(const char *allowed, const char *blocked)
{
    struct err err = ERR_INIT;
    struct sql_table table = { .name = "orders", .db_path = "/dev/null" };
    struct python_setup setup = {
        .tables = &table,
        .n_tables = 1,
        .policy_allowed = allowed,
        .policy_blocked = blocked,
        .display = collect_event,
    };
    if (python_prepare(&err) < 0 || python_start(&setup, &err) < 0)
        fail_msg("python_start: %s", err.message);
}

/* The file that ingest would have made. */
static void make_table(const char *path)
{
    duckdb_database db;
    duckdb_connection con;
    assert_int_equal(duckdb_open(path, &db), DuckDBSuccess);
    assert_int_equal(duckdb_connect(db, &con), DuckDBSuccess);
    assert_int_equal(
        duckdb_query(con,
                     "CREATE TABLE data AS SELECT * FROM (VALUES (1, 'a', 1.5), (2, 'b', 2.5), "
                     "(3, 'a', 3.5)) t(id, kind, total)",
                     NULL),
        DuckDBSuccess);
    duckdb_disconnect(&con);
    duckdb_close(&db);
}

static int start_python(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char path[128];
    strcpy(scratch, "/tmp/riddle-unit-XXXXXX");
    assert_non_null(mkdtemp(scratch));
    snprintf(path, sizeof(path), "%s/orders.duckdb", scratch);
    make_table(path);
    setenv("RIDDLE_SECRET", "of the host", 1);
    if (sql_engine_create(&engine, &err) < 0 ||
        python_init("numpy,pandas,matplotlib", engine, &err) < 0 || python_warm(&err) < 0) {
        print_error("starting Python: %s\n", err.message);
        return -1;
    }
    struct sql_table table = { .name = "orders", .db_path = path };
    struct sql_setup setup = {
        .tables = &table,
        .n_tables = 1,
        .memory_bytes = 256 << 20,
        .threads = 1,
        .temp_directory = scratch,
    };
    if (sql_engine_setup(engine, &setup, &err) < 0) {
        print_error("starting DuckDB: %s\n", err.message);
        return -1;
    }
    start_session(NULL, NULL);
    return 0;
}

static int stop_python(void **state)
{
    (void)state;
    char command[160];
    json_decref(events);
    events = NULL;
    snprintf(command, sizeof(command), "rm -rf %s", scratch);
    return system(command) == 0 ? 0 : -1;
}

#endif
