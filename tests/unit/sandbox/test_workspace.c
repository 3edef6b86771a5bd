/* riddle's side of files in /workspace: paths, and what a kernel says about files. */

#include "base/check.h"

#include "base/json.h"
#include "sandbox/workspace.h"

static json_t *parse(const char *text)
{
    struct err err;
    json_t *ret = NULL;
    assert_works(json_parse(text, strlen(text), &ret, &err), &err);
    return ret;
}

static void test_paths(void **state)
{
    (void)state;
    static const struct {
        const char *given, *clean;
    } good[] = { { "a", "a" },       { "a/b.csv", "a/b.csv" },           { "/workspace/a b", "a b" }, { "./a", "a" },
                 { "././a", "a" },   { "/workspace/./a/b", "a/b" },      { "...", "..." },            { "..a/b..", "..a/b.." },
                 { "ü/€", "ü/€" }, { "1/2/3/4/5/6/7/8", "1/2/3/4/5/6/7/8" }, { "workspace/a", "workspace/a" } };
    static const char *const bad[] = { "", ".", "..", "/", "./", "/workspace", "/workspace/", "/workspace/.", "/etc/passwd", "a/..",
                                       "../a", "a/../b", "a/./b", "a//b", "a/", "//a", "a\n", "a\x7f", "\x01", "a\xff", "1/2/3/4/5/6/7/8/9" };
    char clean[WORKSPACE_PATH_MAX + 1], long_path[WORKSPACE_PATH_MAX + 2];
    struct err err;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_works(workspace_path(good[i].given, clean, &err), &err);
        assert_string_equal(clean, good[i].clean);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        err = (struct err)ERR_INIT;
        assert_int_equal(workspace_path(bad[i], clean, &err), -ERR_VALIDATION);
    }
    /* As long as can be, and one more. */
    memset(long_path, 'x', sizeof(long_path));
    long_path[255] = long_path[511] = '/';
    long_path[WORKSPACE_PATH_MAX] = 0;
    assert_false(workspace_path_ok(long_path, WORKSPACE_PATH_MAX)); /* ends in a slash */
    long_path[511] = 'x';
    assert_false(workspace_path_ok(long_path, WORKSPACE_PATH_MAX)); /* a name of 256 */
    long_path[500] = '/';
    assert_true(workspace_path_ok(long_path, WORKSPACE_PATH_MAX));
    long_path[WORKSPACE_PATH_MAX] = 'x';
    assert_false(workspace_path_ok(long_path, WORKSPACE_PATH_MAX + 1));
}

#define F(path) "{\"path\":\"" path "\",\"size\":1,\"modified\":2}"

static void test_files(void **state)
{
    (void)state;
    static const char *const good[] = { "{}", "{\"files\":[]}", "{\"files\":[" F("a") "," F("b/c") "],\"files_truncated\":true}" };
    static const char *const bad[] = {
        "{\"files\":{}}", "{\"files\":null}", "{\"files\":[1]}", "{\"files\":[{}]}", "{\"files\":[" F("") "]}",
        "{\"files\":[" F("../a") "]}", "{\"files\":[" F("/a") "]}", "{\"files\":[" F("a\\n") "]}", "{\"files\":[" F("b") "," F("a") "]}",
        "{\"files\":[" F("a") "," F("a") "]}", "{\"files_truncated\":1}", "{\"files\":[{\"path\":\"a\",\"size\":-1,\"modified\":2}]}",
        "{\"files\":[{\"path\":\"a\",\"size\":1.5,\"modified\":2}]}", "{\"files\":[{\"path\":\"a\",\"size\":1,\"modified\":null}]}",
        "{\"files\":[{\"path\":\"a\",\"size\":1,\"modified\":2,\"more\":3}]}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        auto_json json_t *body = parse(good[i]);
        assert_true(workspace_files_ok(body));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        auto_json json_t *body = parse(bad[i]);
        if (workspace_files_ok(body))
            fail_msg("taken: %s", bad[i]);
    }
}

static int answer(bool write, int64_t offset, const char *text, enum verdict verdict, struct buf *data, struct file_piece *ret,
                  struct err *err)
{
    struct workspace_op op = { .write = write, .offset = offset, .max_bytes = 4 };
    struct run_result result = { .verdict = verdict, .body = parse(text), .state_lost = verdict == VERDICT_MEMORY };
    *err = (struct err)ERR_INIT;
    int r = workspace_answer(&op, &result, data, ret, err);
    run_result_finish(&result);
    return r;
}

static void test_answers(void **state)
{
    (void)state;
    struct err err;
    struct file_piece p;
    auto_buf struct buf data = BUF_INIT(100);
    assert_works(answer(false, 0, "{\"size\":10,\"data\":\"QUJD\"}", VERDICT_OK, &data, &p, &err), &err);
    assert_int_equal(p.len, 3);
    assert_memory_equal(p.data, "ABC", 3);
    assert_int_equal(p.size, 10);
    assert_false(p.end);
    assert_works(answer(false, 7, "{\"size\":10,\"data\":\"QUJD\"}", VERDICT_OK, &data, &p, &err), &err);
    assert_true(p.end);
    /* Nothing more is nothing more, whatever its size is said to be; sums do not overflow. */
    assert_works(answer(false, 0, "{\"size\":9223372036854775807,\"data\":\"\"}", VERDICT_OK, &data, &p, &err), &err);
    assert_true(p.end && p.len == 0);
    assert_works(answer(false, INT64_MAX, "{\"size\":0,\"data\":\"QUJD\"}", VERDICT_OK, &data, &p, &err), &err);
    assert_true(p.end);
    assert_works(answer(true, 0, "{\"size\":10}", VERDICT_OK, &data, &p, &err), &err);
    assert_true(p.size == 10 && p.len == 0);
    static const char *const bad[] = { "{}", "{\"size\":1}", "{\"data\":\"\"}", "{\"size\":\"1\",\"data\":\"\"}",
                                       "{\"size\":-1,\"data\":\"\"}", "{\"size\":1,\"data\":\"QUI\"}", "{\"size\":1,\"data\":5}",
                                       "{\"size\":99,\"data\":\"QUJDREU=\"}" };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(answer(false, 0, bad[i], VERDICT_OK, &data, &p, &err), -ERR_PROTOCOL);
}

static void test_failures(void **state)
{
    (void)state;
    struct err err;
    struct file_piece p;
    auto_buf struct buf data = BUF_INIT(100);
#define E(type) "{\"error\":{\"type\":\"" type "\",\"message\":\"m\"}}"
    assert_int_equal(answer(false, 0, E("NOT_FOUND"), VERDICT_ERROR, &data, &p, &err), -ERR_NOT_FOUND);
    assert_int_equal(answer(false, 0, E("VALIDATION_ERROR"), VERDICT_ERROR, &data, &p, &err), -ERR_VALIDATION);
    assert_int_equal(answer(true, 0, E("TOO_LARGE"), VERDICT_ERROR, &data, &p, &err), -ERR_TOO_LARGE);
    assert_string_equal(err.message, "m");
    assert_int_equal(answer(false, 0, E("UNAUTHORIZED"), VERDICT_ERROR, &data, &p, &err), -ERR_IO);
    assert_int_equal(answer(false, 0, "{\"error\":{\"message\":\"a\\u001bb\"}}", VERDICT_ERROR, &data, &p, &err), -ERR_IO);
    assert_string_equal(err.message, "a?b");
    assert_int_equal(answer(true, 0, E("KILLED"), VERDICT_MEMORY, &data, &p, &err), -ERR_TOO_LARGE);
    assert_int_equal(answer(true, 0, E("KILLED"), VERDICT_TIMEOUT, &data, &p, &err), -ERR_TIMEOUT);
    assert_int_equal(answer(true, 0, E("NOT_FOUND"), VERDICT_KILLED, &data, &p, &err), -ERR_CANCELLED);
}

static void test_requests(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workspace_op op;
    static char large[FILE_PIECE_MAX + 1];
    auto_json json_t *read = workspace_read_request("/workspace/a", 5, INT64_MAX, &op, &err);
    assert_int_equal(op.max_bytes, FILE_PIECE_MAX);
    assert_string_equal(json_string_value(json_object_get(read, "path")), "a");
    assert_null(workspace_read_request("a", -1, 1, &op, &err));
    assert_int_equal(err.code, ERR_VALIDATION);
    assert_null(workspace_read_request("a", 0, 0, &op, &err));
    assert_null(workspace_write_request("../a", "x", 1, false, &op, &err));
    assert_int_equal(err.code, ERR_VALIDATION);
    assert_null(workspace_write_request("a", large, sizeof(large), false, &op, &err));
    assert_int_equal(err.code, ERR_TOO_LARGE);
    auto_json json_t *write = workspace_write_request("a", large, FILE_PIECE_MAX, true, &op, &err);
    assert_true(op.write && json_is_true(json_object_get(write, "append")));
    assert_int_equal(json_string_length(json_object_get(write, "data")), (FILE_PIECE_MAX + 2) / 3 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),    cmocka_unit_test(test_files),    cmocka_unit_test(test_answers),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
