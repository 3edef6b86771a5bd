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
    } good[] = { { "a", "a" },
                 { "a/b.csv", "a/b.csv" },
                 { "/workspace/a b", "a b" },
                 { "./a", "a" },
                 { "././a", "a" },
                 { "/workspace/./a/b", "a/b" },
                 { "...", "..." },
                 { "..a/b..", "..a/b.." },
                 { "ü/€", "ü/€" },
                 { "1/2/3/4/5/6/7/8", "1/2/3/4/5/6/7/8" },
                 { "workspace/a", "workspace/a" } };
    static const char *const bad[] = { "",
                                       ".",
                                       "..",
                                       "/",
                                       "./",
                                       "/workspace",
                                       "/workspace/",
                                       "/workspace/.",
                                       "/etc/passwd",
                                       "a/..",
                                       "../a",
                                       "a/../b",
                                       "a/./b",
                                       "a//b",
                                       "a/",
                                       "//a",
                                       "a\n",
                                       "a\x7f",
                                       "\x01",
                                       "a\xff",
                                       "1/2/3/4/5/6/7/8/9" };
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
    static const char *const good[] = {
        "{}", "{\"files\":[]}", "{\"files\":[" F("a") "," F("b/c") "],\"files_truncated\":true}"
    };
    static const char *const bad[] = {
        "{\"files\":{}}",
        "{\"files\":null}",
        "{\"files\":[1]}",
        "{\"files\":[{}]}",
        "{\"files\":[" F("") "]}",
        "{\"files\":[" F("../a") "]}",
        "{\"files\":[" F("/a") "]}",
        "{\"files\":[" F("a\\n") "]}",
        "{\"files\":[" F("b") "," F("a") "]}",
        "{\"files\":[" F("a") "," F("a") "]}",
        "{\"files_truncated\":1}",
        "{\"files\":[{\"path\":\"a\",\"size\":-1,\"modified\":2}]}",
        "{\"files\":[{\"path\":\"a\",\"size\":1.5,\"modified\":2}]}",
        "{\"files\":[{\"path\":\"a\",\"size\":1,\"modified\":null}]}",
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

static char piece_data[8]; /* of the last answer that was taken */

static int answer(bool write, int64_t offset, const char *text, const char *bytes,
                  enum verdict verdict, struct file_piece *ret, struct err *err)
{
    struct workspace_op op = { .write = write, .offset = offset, .max_bytes = 4 };
    struct run_result result = { .verdict = verdict,
                                 .body = parse(text),
                                 .state_lost = verdict == VERDICT_MEMORY,
                                 .bytes = BUF_INIT(100) };
    assert_int_equal(buf_append_str(&result.bytes, bytes, NULL), 0);
    *err = (struct err)ERR_INIT;
    int r = workspace_answer(&op, &result, ret, err);
    if (r == 0 && ret->data)
        memcpy(piece_data, ret->data, ret->len);
    run_result_finish(&result);
    return r;
}

static void test_answers(void **state)
{
    (void)state;
    struct err err;
    struct file_piece p;
    assert_works(answer(false, 0, "{\"size\":10,\"bytes\":3}", "ABC", VERDICT_OK, &p, &err), &err);
    assert_int_equal(p.len, 3);
    assert_memory_equal(piece_data, "ABC", 3);
    assert_int_equal(p.size, 10);
    assert_false(p.end);
    assert_works(answer(false, 7, "{\"size\":10,\"bytes\":3}", "ABC", VERDICT_OK, &p, &err), &err);
    assert_true(p.end);
    /* Nothing more is nothing more, whatever its size is said to be; sums do not overflow. */
    assert_works(
        answer(false, 0, "{\"size\":9223372036854775807,\"bytes\":0}", "", VERDICT_OK, &p, &err),
        &err);
    assert_true(p.end && p.len == 0);
    assert_works(answer(false, INT64_MAX, "{\"size\":0,\"bytes\":3}", "ABC", VERDICT_OK, &p, &err),
                 &err);
    assert_true(p.end);
    assert_works(answer(true, 0, "{\"size\":10}", "", VERDICT_OK, &p, &err), &err);
    assert_true(p.size == 10 && p.len == 0 && !p.data);
    static const char *const bad[] = { "{}",
                                       "{\"size\":3}",
                                       "{\"bytes\":3}",
                                       "{\"size\":\"3\",\"bytes\":3}",
                                       "{\"size\":-1,\"bytes\":3}",
                                       "{\"size\":3,\"bytes\":2}",
                                       "{\"size\":3,\"bytes\":4}",
                                       "{\"size\":3,\"bytes\":\"ABC\"}",
                                       "{\"size\":3,\"bytes\":0}" };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(answer(false, 0, bad[i], "ABC", VERDICT_OK, &p, &err), -ERR_PROTOCOL);
    assert_int_equal(answer(false, 0, "{\"size\":99,\"bytes\":5}", "ABCDE", VERDICT_OK, &p, &err),
                     -ERR_PROTOCOL);
}

static void test_failures(void **state)
{
    (void)state;
    struct err err;
    struct file_piece p;
#define E(type) "{\"error\":{\"type\":\"" type "\",\"message\":\"m\"}}"
    assert_int_equal(answer(false, 0, E("NOT_FOUND"), "", VERDICT_ERROR, &p, &err), -ERR_NOT_FOUND);
    assert_int_equal(answer(false, 0, E("VALIDATION_ERROR"), "", VERDICT_ERROR, &p, &err),
                     -ERR_VALIDATION);
    assert_int_equal(answer(true, 0, E("TOO_LARGE"), "", VERDICT_ERROR, &p, &err), -ERR_TOO_LARGE);
    assert_string_equal(err.message, "m");
    assert_int_equal(answer(false, 0, E("UNAUTHORIZED"), "", VERDICT_ERROR, &p, &err), -ERR_IO);
    assert_int_equal(
        answer(false, 0, "{\"error\":{\"message\":\"a\\u001bb\"}}", "", VERDICT_ERROR, &p, &err),
        -ERR_IO);
    assert_string_equal(err.message, "a?b");
    assert_int_equal(answer(true, 0, E("KILLED"), "", VERDICT_MEMORY, &p, &err), -ERR_TOO_LARGE);
    assert_int_equal(answer(true, 0, E("KILLED"), "", VERDICT_TIMEOUT, &p, &err), -ERR_TIMEOUT);
    assert_int_equal(answer(true, 0, E("NOT_FOUND"), "", VERDICT_KILLED, &p, &err), -ERR_CANCELLED);
}

static void test_requests(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct workspace_op op;
    static char large[FILE_PIECE_MAX + 1];
    assert_works(workspace_read_op("/workspace/a", 5, INT64_MAX, &op, &err), &err);
    assert_int_equal(op.max_bytes, FILE_PIECE_MAX);
    assert_string_equal(json_string_value(json_object_get(op.request, "path")), "a");
    json_decref(op.request);
    assert_int_equal(workspace_read_op("a", -1, 1, &op, &err), -ERR_VALIDATION);
    assert_int_equal(workspace_read_op("a", 0, 0, &op, &err), -ERR_VALIDATION);
    assert_int_equal(workspace_write_op("../a", "x", 1, false, &op, &err), -ERR_VALIDATION);
    assert_int_equal(workspace_write_op("a", large, sizeof(large), false, &op, &err),
                     -ERR_TOO_LARGE);
    err = (struct err)ERR_INIT;
    assert_works(workspace_write_op("a", large, FILE_PIECE_MAX, true, &op, &err), &err);
    assert_true(op.write && op.len == FILE_PIECE_MAX &&
                json_is_true(json_object_get(op.request, "append")));
    json_decref(op.request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_answers),  cmocka_unit_test(test_failures),
        cmocka_unit_test(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
