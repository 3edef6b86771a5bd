/*
 * The runner's checks (every bad request: which error, which words) and the response for every way
 * a run can end.
 */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fdio.h"
#include "base/str.h"
#include "run/runner.h"

static char dir[] = "/tmp/riddle-test-runner-XXXXXX";
static char root[64];
static struct config cfg;

static void write_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    struct err err = ERR_INIT;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(fd_write_file(path, text, &err), 0);
}

static int setup(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    snprintf(root, sizeof(root), "%s/data", dir);
    assert_int_equal(mkdir(root, 0755), 0);
    write_file("data/orders.csv", "id,total\n1,2\n");
    write_file("data/items.csv", "id\n1\n");
    write_file("data/2nd.csv", "id\n1\n");
    write_file("data/empty.csv", "");
    write_file("data/secret.csv", "id\n1\n");
    write_file("outside.csv", "id\n1\n");
    snprintf(path, sizeof(path), "%s/data/secret.csv", dir);
    assert_int_equal(chmod(path, 0), 0);
    snprintf(path, sizeof(path), "%s/data/link.csv", dir);
    assert_int_equal(symlink("../outside.csv", path), 0);
    snprintf(path, sizeof(path), "%s/data/fifo.csv", dir);
    assert_int_equal(mkfifo(path, 0644), 0);
    cfg = (struct config){
        .run_timeout_s = 10,
        .max_rows = 200,
        .max_output_bytes = 65536,
        .memory_bytes = 512 << 20,
        .cpus = 1,
        .pids = 64,
        .file_bytes = 64 << 20,
        .data_root = root,
    };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    return fd_remove_tree(dir, &err);
}

/* '@' in a template stands for the data directory. */
static char *expand(const char *template)
{
    struct err err = ERR_INIT;
    struct buf b = BUF_INIT(32u << 20);
    for (const char *s = template; *s; s++)
        assert_true((*s == '@' ? buf_append_str(&b, root, &err) : buf_append(&b, s, 1, &err)) >= 0);
    return buf_take(&b);
}

static int parse(const char *template, unsigned flags, struct runner_request *ret, struct err *err)
{
    auto_free char *text = expand(template);
    return runner_request_parse(&cfg, flags, text, strlen(text), ret, err);
}

/* ---- requests ---- */

#define ORDERS "\"files\":[{\"name\":\"orders.csv\",\"path\":\"@/orders.csv\"}]"
#define SQL "\"sql\":\"SELECT 1\""

static void test_defaults(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    assert_int_equal(parse("{" ORDERS "," SQL "}", 0, &req, &err), 0);
    assert_string_equal(req.dataset_id, "unknown");
    assert_int_equal(req.run.kind, RUN_SQL);
    assert_string_equal(req.run.code, "SELECT 1");
    assert_int_equal(req.run.code_len, 8);
    assert_int_equal(req.run.policy, POLICY_RESTRICTED);
    assert_int_equal(req.run.timeout_ms, 10000);
    assert_int_equal(req.run.max_rows, 200);
    assert_int_equal(req.run.max_output_bytes, 65536);
    assert_false(req.run.svg);
    assert_int_equal(req.limits.memory_bytes, 512 << 20);
    assert_int_equal(req.n_files, 1);
    assert_string_equal(req.files[0].name, "orders.csv");
    assert_string_equal(req.files[0].table, "orders");
    assert_int_equal(req.files[0].path[0], '/');
    runner_request_finish(&req);
}

static void test_every_field(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    assert_int_equal(
        parse(
            "{\"dataset_id\":\"shop-1.b\",\"files\":[{\"path\":\"@/orders.csv\"},{\"name\":\"Things.csv\","
            "\"path\":\"@/items.csv\"}],\"query_type\":\"python\",\"sql\":null,\"python_code\":\"1\","
            "\"timeout_seconds\":60,\"max_rows\":1000,\"max_output_bytes\":1000000,\"svg\":true,"
            "\"python_policy\":\"open\",\"memory_mb\":64}",
            0, &req, &err),
        0);
    assert_string_equal(req.dataset_id, "shop-1.b");
    assert_int_equal(req.run.kind, RUN_PYTHON);
    assert_int_equal(req.run.policy, POLICY_OPEN);
    assert_int_equal(req.run.timeout_ms, 60000);
    assert_int_equal(req.run.max_rows, 1000);
    assert_int_equal(req.run.max_output_bytes, 1000000);
    assert_true(req.run.svg);
    assert_int_equal(req.limits.memory_bytes, 64 << 20);
    assert_int_equal(req.n_files, 2);
    assert_string_equal(req.files[0].name, "orders.csv");
    assert_string_equal(req.files[1].name, "Things.csv");
    assert_string_equal(req.files[1].table, "Things");
    runner_request_finish(&req);
}

/*
 * Without query_type the code that is there decides, as with the two entrypoints of the first
 * runner.
 */
static void test_kind_inferred(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    assert_int_equal(parse("{" ORDERS ",\"python_code\":\"1\"}", 0, &req, &err), 0);
    assert_int_equal(req.run.kind, RUN_PYTHON);
    runner_request_finish(&req);
    assert_int_equal(
        parse("{" ORDERS ",\"python_code\":\"1\"," SQL ",\"query_type\":null}", 0, &req, &err), 0);
    assert_int_equal(req.run.kind, RUN_SQL);
    runner_request_finish(&req);
}

static void test_paths_of_the_host(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    char outside[PATH_MAX];
    static const char outer[] = "{\"files\":[{\"path\":\"@/../outside.csv\"}]," SQL "}";
    snprintf(outside, sizeof(outside), "%s/outside.csv", dir);
    assert_int_equal(parse(outer, RUNNER_HOST_PATHS, &req, &err), 0);
    assert_string_equal(req.files[0].path, outside);
    runner_request_finish(&req);
    assert_int_equal(
        parse("{\"files\":[{\"path\":\"@/link.csv\"}]," SQL "}", RUNNER_HOST_PATHS, &req, &err), 0);
    assert_string_equal(req.files[0].path, outside);
    assert_string_equal(req.files[0].table, "link");
    runner_request_finish(&req);
    assert_int_equal(parse("{" SQL "}", RUNNER_HOST_PATHS | RUNNER_FILES_OPTIONAL, &req, &err), 0);
    assert_int_equal(req.n_files, 0);
    runner_request_finish(&req);
}

static const struct {
    const char *request;
    enum err_code code;
    const char *words; /* "=" before it: the whole message */
} bad[] = {
    { "", ERR_INVALID_INPUT, "no input" },
    { " \n\t", ERR_INVALID_INPUT, "no input" },
    { "hello", ERR_INVALID_JSON, "line 1" },
    { "{\"sql\":", ERR_INVALID_JSON, "line 1" },
    { "{} {}", ERR_INVALID_JSON, "" },
    { "{\"sql\":\"a\",\"sql\":\"b\"}", ERR_INVALID_JSON, "" },
    { "[]", ERR_INVALID_INPUT, "must be a JSON object, not array" },
    { "\"SELECT 1\"", ERR_INVALID_INPUT, "must be a JSON object, not string" },
    { "null", ERR_INVALID_INPUT, "must be a JSON object, not null" },
    { "{" ORDERS "," SQL ",\"query_type\":\"sparql\"}", ERR_VALIDATION,
      "=unknown query_type 'sparql': use one of sql, python, plan" },
    { "{" ORDERS "," SQL ",\"query_type\":1}", ERR_VALIDATION, "'query_type' must be a string" },
    { "{" ORDERS ",\"sql\":5}", ERR_VALIDATION, "'sql' must be a string" },
    { "{" ORDERS ",\"python_code\":{}}", ERR_VALIDATION, "'python_code' must be a string" },
    { "{" ORDERS "}", ERR_VALIDATION, "=SQL query is required" },
    { "{" ORDERS ",\"sql\":\" \\n\"}", ERR_VALIDATION, "=SQL query is required" },
    { "{" ORDERS ",\"query_type\":\"python\"," SQL "}", ERR_VALIDATION,
      "=python_code is required" },
    { "{" ORDERS ",\"query_type\":\"python\",\"python_code\":\"\"}", ERR_VALIDATION,
      "=python_code is required" },
    { "{" SQL "}", ERR_VALIDATION, "=At least one file is required" },
    { "{" SQL ",\"files\":[]}", ERR_VALIDATION, "=At least one file is required" },
    { "{" SQL ",\"files\":{}}", ERR_VALIDATION, "'files' must be an array" },
    { "{" SQL ",\"files\":[1]}", ERR_VALIDATION, "files[0]: expected an object" },
    { "{" SQL ",\"files\":[{\"name\":\"orders.csv\"}]}", ERR_VALIDATION,
      "files[0]: 'path' is required" },
    { "{" SQL ",\"files\":[{\"path\":7}]}", ERR_VALIDATION, "files[0]: 'path' must be a string" },
    { "{" SQL ",\"files\":[{\"pth\":\"@/orders.csv\"}]}", ERR_VALIDATION,
      "files[0]: 'path' is required" },
    { "{" ORDERS "," SQL ",\"timeout_seconds\":0}", ERR_VALIDATION,
      "=Timeout must be between 1 and 60 seconds" },
    { "{" ORDERS "," SQL ",\"timeout_seconds\":61}", ERR_VALIDATION,
      "=Timeout must be between 1 and 60 seconds" },
    { "{" ORDERS "," SQL ",\"timeout_seconds\":\"5\"}", ERR_VALIDATION,
      "='timeout_seconds' must be an integer, not string" },
    { "{" ORDERS "," SQL ",\"timeout_seconds\":2.5}", ERR_VALIDATION,
      "='timeout_seconds' must be an integer, not number" },
    { "{" ORDERS "," SQL ",\"timeout_seconds\":true}", ERR_VALIDATION,
      "='timeout_seconds' must be an integer, not boolean" },
    { "{" ORDERS "," SQL ",\"max_rows\":0}", ERR_VALIDATION,
      "='max_rows' must be between 1 and 1000, not 0" },
    { "{" ORDERS "," SQL ",\"max_rows\":1001}", ERR_VALIDATION,
      "='max_rows' must be between 1 and 1000, not 1001" },
    { "{" ORDERS "," SQL ",\"max_output_bytes\":1024}", ERR_VALIDATION,
      "='max_output_bytes' must be greater than 1024 and at most 1000000" },
    { "{" ORDERS "," SQL ",\"max_output_bytes\":1000001}", ERR_VALIDATION,
      "='max_output_bytes' must be greater than 1024 and at most 1000000" },
    { "{" ORDERS "," SQL ",\"memory_mb\":63}", ERR_VALIDATION,
      "='memory_mb' must be between 64 and 512, not 63" },
    { "{" ORDERS "," SQL ",\"memory_mb\":513}", ERR_VALIDATION,
      "='memory_mb' must be between 64 and 512, not 513" },
    { "{" ORDERS "," SQL ",\"svg\":1}", ERR_VALIDATION, "'svg' must be" },
    { "{" ORDERS "," SQL ",\"python_policy\":\"lax\"}", ERR_VALIDATION,
      "=unknown python_policy 'lax': use restricted or open" },
    { "{" ORDERS "," SQL ",\"dataset_id\":\"\"}", ERR_VALIDATION, "'dataset_id' must be 1 to 128" },
    { "{" ORDERS "," SQL ",\"dataset_id\":\"a\\\"b\"}", ERR_VALIDATION,
      "'dataset_id' must be 1 to 128" },
    { "{" SQL ",\"files\":[{\"path\":\"orders.csv\"}]}", ERR_VALIDATION,
      "path 'orders.csv' must be absolute" },
    { "{" SQL ",\"files\":[{\"path\":\"@/nothing.csv\"}]}", ERR_VALIDATION,
      "/nothing.csv' does not exist" },
    { "{" SQL ",\"files\":[{\"path\":\"@/orders.csv/x.csv\"}]}", ERR_VALIDATION,
      "/x.csv' does not exist" },
    { "{" SQL ",\"files\":[{\"path\":\"/etc/passwd\"}]}", ERR_VALIDATION,
      "path '/etc/passwd' must be under /data (here /tmp/" },
    { "{" SQL ",\"files\":[{\"path\":\"/etc/no_such_file\"}]}", ERR_VALIDATION,
      "path '/etc/no_such_file' must be under /data (here /tmp/" },
    { "{" SQL ",\"files\":[{\"path\":\"@x/orders.csv\"}]}", ERR_VALIDATION,
      "must be under /data (here /tmp/" },
    { "{" SQL ",\"files\":[{\"path\":\"@/../outside.csv\"}]}", ERR_VALIDATION,
      "and it leads outside" },
    { "{" SQL ",\"files\":[{\"path\":\"@/link.csv\"}]}", ERR_VALIDATION, "and it leads outside" },
    { "{" SQL ",\"files\":[{\"name\":\"data.csv\",\"path\":\"@/.\"}]}", ERR_VALIDATION,
      "must be under /data (here /tmp/" },
    { "{" SQL ",\"files\":[{\"path\":\"@/fifo.csv\"}]}", ERR_VALIDATION, "is not a regular file" },
    { "{" SQL ",\"files\":[{\"path\":\"@/empty.csv\"}]}", ERR_VALIDATION, "empty.csv' is empty" },
    { "{" SQL ",\"files\":[{\"path\":\"@/2nd.csv\"}]}", ERR_VALIDATION,
      "Invalid table name '2nd' (from file '2nd.csv')" },
    { "{" SQL ",\"files\":[{\"name\":\"a b.csv\",\"path\":\"@/orders.csv\"}]}", ERR_VALIDATION,
      "Invalid table name 'a b'" },
    { "{" SQL ",\"files\":[{\"name\":\"../up.csv\",\"path\":\"@/orders.csv\"}]}", ERR_VALIDATION,
      "file name '../up.csv' cannot be used" },
    { "{" SQL ",\"files\":[{\"name\":\"\",\"path\":\"@/orders.csv\"}]}", ERR_VALIDATION,
      "file name '' cannot be used" },
    { "{" SQL
      ",\"files\":[{\"path\":\"@/orders.csv\"},{\"name\":\"Orders.tsv\",\"path\":\"@/items.csv\"}]}",
      ERR_VALIDATION, "duplicate table name 'Orders' (from files 'orders.csv' and 'Orders.tsv')" },
};

static void test_bad_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err err = ERR_INIT;
        struct runner_request req;
        const char *words = bad[i].words;
        int r = parse(bad[i].request, 0, &req, &err);
        bool right = words[0] == '=' ? str_eq(err.message, words + 1) :
                                       strstr(err.message, words) != NULL;
        if (r != -(int)bad[i].code || !right)
            fail_msg("%s\n  gave %s: %s\n  not %s: %s", bad[i].request, err_name(err.code),
                     err.message, err_name(bad[i].code), words);
    }
}

static void test_directory(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    assert_int_equal(parse("{\"files\":[{\"name\":\"d.csv\",\"path\":\"@\"}]," SQL "}",
                           RUNNER_HOST_PATHS, &req, &err),
                     -ERR_VALIDATION);
    assert_non_null(strstr(err.message, "is a directory: name a CSV file in it"));
}

static void test_unreadable(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    bool is_root = geteuid() == 0; /* root reads everything, so it steps down for this one */
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    int r = parse("{\"files\":[{\"path\":\"@/secret.csv\"}]," SQL "}", 0, &req, &err);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(r, -ERR_VALIDATION);
    assert_non_null(
        strstr(err.message, "secret.csv' cannot be read: give this user the right to read it"));
    assert_non_null(strstr(err.message, "Permission denied"));
}

static void test_too_many_files(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req;
    auto_json json_t *request = json_pack("{s:s, s:[]}", "sql", "SELECT 1", "files");
    for (int i = 0; i <= SANDBOX_FILES_MAX; i++)
        json_array_append_new(json_object_get(request, "files"), json_object());
    assert_int_equal(runner_request_from_json(&cfg, 0, request, &req, &err), -ERR_VALIDATION);
    assert_string_equal(err.message, "'files' has 64 entries and the limit is 63");
}

static void check_code_of(size_t len, const char *key, const char *type, int expected)
{
    struct err err = ERR_INIT;
    struct runner_request req;
    auto_free char *code = malloc(len + 1), *path = expand("@/orders.csv");
    memset(code, 'x', len);
    code[len] = '\0';
    auto_json json_t *request = json_pack("{s:s, s:s, s:[{s:s}]}", key, code, "query_type", type,
                                          "files", "path", path);
    assert_int_equal(runner_request_from_json(&cfg, 0, request, &req, &err), expected);
    if (expected < 0) {
        assert_non_null(strstr(err.message, "the limit is 1 MB (1048576 bytes)"));
        assert_non_null(strstr(err.message, key));
    } else {
        assert_int_equal(req.run.code_len, len);
        runner_request_finish(&req);
    }
}

static void test_code_size(void **state)
{
    (void)state;
    check_code_of(CODE_MAX_BYTES, "sql", "sql", 0);
    check_code_of(CODE_MAX_BYTES + 1, "sql", "sql", -ERR_VALIDATION);
    check_code_of(10u << 20, "python_code", "python", -ERR_VALIDATION);
}

/* ---- responses ---- */

static struct runner_request request_of(enum run_kind kind)
{
    return (struct runner_request){
        .limits = { .memory_bytes = 512 << 20, .pids = 64, .file_bytes = 64 << 20 },
        .run = { .kind = kind, .timeout_ms = 7000, .max_rows = 200, .max_output_bytes = 65536 },
    };
}

static const char *text_at(const json_t *response, const char *key)
{
    return json_string_value(json_object_get(response, key));
}

static const char *error_at(const json_t *response, const char *key)
{
    return json_string_value(json_object_get(json_object_get(response, "error"), key));
}

static void test_success(void **state)
{
    (void)state;
    struct runner_request req = request_of(RUN_SQL);
    struct run_result result = {
        .verdict = VERDICT_OK,
        .body = json_pack(
            "{s:[ss], s:[ss], s:[[i,s],[i,n]], s:i, s:b, s:n, s:f, s:[{s:s, s:{s:i}}]}", "columns",
            "id", "name", "types", "BIGINT", "VARCHAR", "rows", 1, "a", 2, "row_count", 2,
            "truncated", 1, "error", "exec_time_ms", 12.6, "rejects", "file", "a.csv", "rejects",
            "count", 3),
        .displays = json_array(),
        .start_us = 4500,
        .load_us = 250,
        .execute_us = 12600,
    };
    assert_non_null(result.body);
    auto_json json_t *response = runner_response(&req, &result);
    auto_json json_t *expected = json_loads(
        "{\"status\":\"success\",\"columns\":[\"id\",\"name\"],\"rows\":[[1,\"a\"],[2,null]],\"row_count\":2,"
        "\"exec_time_ms\":13,\"stdout_trunc\":\"\",\"stderr_trunc\":\"\",\"error\":null,\"truncated\":true,"
        "\"verdict\":\"ok\",\"types\":[\"BIGINT\",\"VARCHAR\"],\"stdout_truncated\":false,\"stderr_truncated\":false,"
        "\"interrupted\":false,\"state_lost\":false,\"rejects\":[{\"file\":\"a.csv\",\"rejects\":{\"count\":3}}],"
        "\"timings_ms\":{\"start\":4.5,\"load\":0.25,\"execute\":12.6}}",
        0, NULL);
    auto_free char *got = json_to_str(response), *wanted = json_to_str(expected);
    assert_string_equal(got, wanted);
    assert_true(runner_succeeded(response));
    run_result_finish(&result);
}

static const struct {
    enum verdict verdict;
    enum run_kind kind;
    bool interrupted;
    const char *error_type, *error_message; /* of the kernel; NULL: none */
    const char *status, *type, *words;
} endings[] = {
    { VERDICT_ERROR, RUN_SQL, false, "SQL_EXECUTION_ERROR", "no such table", "error",
      "SQL_EXECUTION_ERROR", "=no such table" },
    { VERDICT_ERROR, RUN_PYTHON, false, "PYTHON_EXECUTION_ERROR",
      "ZeroDivisionError: division by zero", "error", "PYTHON_EXECUTION_ERROR",
      "=ZeroDivisionError: division by zero" },
    { VERDICT_ERROR, RUN_PYTHON, false, "VALIDATION_ERROR", "result_df must be a DataFrame",
      "error", "VALIDATION_ERROR", "=result_df must be a DataFrame" },
    { VERDICT_ERROR, RUN_SQL, false, NULL, NULL, "error", "RUNNER_INTERNAL_ERROR",
      "gave no reason" },
    { VERDICT_TIMEOUT, RUN_SQL, false, NULL, NULL, "timeout", "RUNNER_TIMEOUT",
      "=Query exceeded timeout of 7 seconds" },
    { VERDICT_TIMEOUT, RUN_PYTHON, false, NULL, NULL, "timeout", "RUNNER_TIMEOUT",
      "=Python execution exceeded timeout of 7 seconds" },
    { VERDICT_POLICY, RUN_SQL, false, "SQL_POLICY_VIOLATION", "only SELECT", "error",
      "SQL_POLICY_VIOLATION", "=only SELECT" },
    { VERDICT_POLICY, RUN_PYTHON, false, "PYTHON_POLICY_VIOLATION", "Blocked import: os", "error",
      "PYTHON_POLICY_VIOLATION", "=Blocked import: os" },
    { VERDICT_POLICY, RUN_PYTHON, false, NULL, NULL, "error", "PYTHON_POLICY_VIOLATION",
      "not allowed by the policy" },
    { VERDICT_POLICY, RUN_PYTHON, false, "KILLED", "a forbidden system call", "error",
      "PYTHON_POLICY_VIOLATION", "=a forbidden system call" },
    { VERDICT_MEMORY, RUN_PYTHON, false, "PYTHON_EXECUTION_ERROR", "MemoryError", "error",
      "MEMORY_LIMIT", "memory limit of 512 MB" },
    { VERDICT_PROCESSES, RUN_PYTHON, false, NULL, NULL, "error", "PROCESS_LIMIT",
      "limit of 64 processes and threads" },
    { VERDICT_OUTPUT, RUN_PYTHON, false, NULL, NULL, "error", "OUTPUT_LIMIT",
      "limit of 65536 bytes" },
    { VERDICT_FILESIZE, RUN_PYTHON, false, NULL, NULL, "error", "FILE_SIZE_LIMIT",
      "limit of 64 MB" },
    { VERDICT_KILLED, RUN_PYTHON, true, NULL, NULL, "error", "KILLED", "was interrupted" },
    { VERDICT_KILLED, RUN_PYTHON, false, NULL, NULL, "error", "KILLED",
      "was killed before it ended" },
    { VERDICT_KILLED, RUN_PYTHON, false, "KILLED", "the kernel ended by itself (signal 11)",
      "error", "KILLED", "the kernel ended by itself (signal 11): run it again" },
};

static void test_every_ending(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        struct runner_request req = request_of(endings[i].kind);
        struct run_result result = {
            .verdict = endings[i].verdict,
            .interrupted = endings[i].interrupted,
            .state_lost = !endings[i].interrupted,
            .body = json_pack("{s:[s], s:[[i]]}", "columns", "left over", "rows", 1),
            .displays = json_array(),
        };
        if (endings[i].error_type)
            json_object_set_new(result.body, "error",
                                json_pack("{s:s, s:s, s:i}", "type", endings[i].error_type,
                                          "message", endings[i].error_message, "line", 3));
        auto_json json_t *response = runner_response(&req, &result);
        const char *message = error_at(response, "message"), *words = endings[i].words;
        assert_string_equal(text_at(response, "status"), endings[i].status);
        assert_string_equal(error_at(response, "type"), endings[i].type);
        if (words[0] == '=')
            assert_string_equal(message, words + 1);
        else if (!strstr(message, words))
            fail_msg("'%s' is not in '%s'", words, message);
        assert_string_equal(text_at(response, "verdict"), verdict_name(endings[i].verdict));
        assert_int_equal(json_array_size(json_object_get(response, "columns")), 0);
        assert_int_equal(json_array_size(json_object_get(response, "rows")), 0);
        assert_int_equal(json_integer_value(json_object_get(response, "row_count")), 0);
        assert_int_equal(json_is_true(json_object_get(response, "state_lost")),
                         !endings[i].interrupted);
        if (endings[i].error_type)
            assert_int_equal(
                json_integer_value(json_object_get(json_object_get(response, "error"), "line")), 3);
        assert_false(runner_succeeded(response));
        run_result_finish(&result);
    }
}

/* Python that leaves nothing at all is told what to do; printing or drawing is enough. */
static void test_python_without_result(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct runner_request req = request_of(RUN_PYTHON);
    struct run_result result = {
        .verdict = VERDICT_OK,
        .body = json_pack("{s:[], s:[], s:b, s:n}", "columns", "rows", "has_result", 0, "value"),
        .displays = json_array(),
    };
    buf_init(&result.out, 1000);
    auto_json json_t *silent = runner_response(&req, &result);
    assert_string_equal(text_at(silent, "status"), "error");
    assert_string_equal(error_at(silent, "type"), "PYTHON_EXECUTION_ERROR");
    assert_non_null(strstr(error_at(silent, "message"), "no result produced: set result_df"));

    json_array_append_new(result.displays, json_pack("{s:s}", "png", "AAAA"));
    json_array_append_new(result.displays, json_pack("{s:s}", "text", "a table"));
    auto_json json_t *drew = runner_response(&req, &result);
    assert_string_equal(text_at(drew, "status"), "success");
    assert_int_equal(json_array_size(json_object_get(drew, "images")), 1);
    assert_int_equal(json_array_size(json_object_get(drew, "displays")), 1);
    json_array_clear(result.displays);

    assert_true(buf_append(&result.out, "hi\xff", 3, &err) >= 0);
    result.out_truncated = true;
    auto_json json_t *printed = runner_response(&req, &result);
    assert_string_equal(text_at(printed, "status"), "success");
    assert_string_equal(text_at(printed, "stdout_trunc"), "hi\xef\xbf\xbd");
    assert_true(json_is_true(json_object_get(printed, "stdout_truncated")));
    assert_null(json_object_get(printed, "images"));
    run_result_finish(&result);
}

static void test_failures(void **state)
{
    (void)state;
    static const struct {
        enum err_code code;
        const char *status, *type, *message;
    } cases[] = {
        { ERR_INVALID_JSON, "error", "INVALID_JSON", "why" },
        { ERR_INVALID_INPUT, "error", "INVALID_INPUT", "why" },
        { ERR_VALIDATION, "error", "VALIDATION_ERROR", "why" },
        { ERR_ISOLATION, "error", "ISOLATION_UNAVAILABLE", "why" },
        { ERR_IO, "error", "RUNNER_INTERNAL_ERROR", "why" },
        { ERR_UNAVAILABLE, "error", "RUNNER_INTERNAL_ERROR", "why" },
        { ERR_CANCELLED, "error", "KILLED", "why" },
        { ERR_TIMEOUT, "error", "RUNNER_INTERNAL_ERROR", "why" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        err_set(&err, cases[i].code, "why");
        auto_json json_t *response = runner_failure(&err);
        assert_string_equal(text_at(response, "status"), cases[i].status);
        assert_string_equal(error_at(response, "type"), cases[i].type);
        assert_string_equal(error_at(response, "message"), cases[i].message);
        assert_true(json_is_array(json_object_get(response, "rows")));
        assert_false(runner_succeeded(response));
    }
}

/*
 * What never reaches a sandbox still gets a whole response on the descriptor, and the exit status
 * of a failure.
 */
static void test_once(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(fd_write_all(in[1], "[1]", 3, &err), 0);
    close(in[1]);
    assert_int_equal(runner_run_once(&cfg, 0, in[0], out[1]), 1);
    close(in[0]);
    close(out[1]);
    auto_buf struct buf b = BUF_INIT(65536);
    assert_int_equal(fd_read_to_end(out[0], &b, &err), 0);
    close(out[0]);
    assert_int_equal(b.data[b.len - 1], '\n');
    auto_json json_t *response = NULL;
    assert_int_equal(json_parse(b.data, b.len, &response, &err), 0);
    assert_string_equal(error_at(response, "type"), "INVALID_INPUT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_kind_inferred), cmocka_unit_test(test_paths_of_the_host),
        cmocka_unit_test(test_bad_requests),  cmocka_unit_test(test_directory),
        cmocka_unit_test(test_unreadable),    cmocka_unit_test(test_too_many_files),
        cmocka_unit_test(test_code_size),     cmocka_unit_test(test_success),
        cmocka_unit_test(test_every_ending),  cmocka_unit_test(test_python_without_result),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
