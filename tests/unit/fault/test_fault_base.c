/* Settings, JSON and files when memory or the disk runs out at any step: a reason or the whole. */

#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/check.h"
#include "base/config.h"
#include "base/fdio.h"
#include "base/json.h"
#include "fault/fault.h"

#define ROUNDS_MAX 20000

static char dir[64], path[96];

static void check_failure(int r, const struct err *err, enum err_code code)
{
    assert_int_equal(r, -(int)code);
    assert_int_equal(err->code, code);
    assert_true(err->message[0]);
}

static const char text[] =
    "{\"a\":[1,2.5,true,null,\"\\u00e9\\n\"],\"b\":{\"c\":\"d\",\"e\":{}},\"f\":-9007199254740993}";

static void json_case(void *arg)
{
    struct err err = ERR_INIT;
    auto_json json_t *j = NULL;
    auto_buf struct buf b = BUF_INIT(4096);
    int r = json_parse(text, sizeof(text) - 1, &j, &err);

    (void)arg;
    if (r == 0)
        r = buf_append_str(&b, "before", &err);
    if (r == 0) {
        size_t before = b.len;

        r = json_write(j, &b, &err);
        if (r < 0)
            assert_int_equal(b.len, before);
    }
    if (r < 0) {
        assert_true(fault_fired());
        check_failure(r, &err, ERR_NO_MEMORY);
        return;
    }
    auto_free char *whole = json_to_str(j);
    if (!whole) {
        assert_true(fault_fired());
        return;
    }
    assert_string_equal(buf_cstr(&b) + strlen("before"), whole);
    if (!strstr(whole, "-9007199254740993"))
        fail_msg("%s", whole);
}

static void text_case(void *arg)
{
    /* Bytes that are no UTF-8, and an error as the API shows it. */
    struct err err = ERR_INIT;

    (void)arg;
    err_set(&err, ERR_IO, "it broke");
    auto_json json_t *shown = json_text("a\xff\0b", 4), *error = json_error(&err);
    if (!shown || !error) {
        assert_true(fault_fired());
        return;
    }
    assert_string_equal(json_string_value(shown), "a\xef\xbf\xbd\xef\xbf\xbd"
                                                  "b");
    assert_string_equal(json_string_value(json_object_get(error, "message")), "it broke");
}

static void config_case(void *arg)
{
    struct config c = { .storage = NULL };
    struct err err = ERR_INIT;
    int r = config_load(&c, path, &err);

    (void)arg;
    if (r < 0) {
        assert_true(fault_fired());
        assert_true(err.code == ERR_NO_MEMORY || err.code == ERR_CONFIG);
        assert_true(err.message[0]);
        assert_null(c.storage);
        return;
    }
    assert_int_equal(c.session_ttl_s, 77);
    assert_int_equal(c.memory_bytes, 300 << 20);
    config_finish(&c);
}

/* A file is the old one or the new one, and nothing else is left in its directory. */
static void replace_case(void *arg)
{
    struct err err = ERR_INIT;
    struct stat st;
    auto_buf struct buf b = BUF_INIT(4096);

    (void)arg;
    fault_pause();
    assert_works(fd_replace_file(path, "old", 3, 0600, &err), &err);
    fault_resume();
    int r = fd_replace_file(path, "new one", 7, 0600, &err);
    fault_pause();
    if (r < 0) {
        assert_int_equal(r, -(int)err.code);
        assert_non_null(strstr(err.message, path));
    }
    err = (struct err)ERR_INIT;
    assert_works(fd_read_file(path, &b, &err), &err);
    assert_string_equal(buf_cstr(&b), r < 0 ? "old" : "new one");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(stat(dir, &st), 0);
}

static void test_json(void **state)
{
    (void)state;
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, json_case, NULL) > 20);
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, text_case, NULL) > 3);
}

static void test_config(void **state)
{
    static const char file[] = "SESSION_TTL_S=77\nCPYTHON_AS_MB=300\n";

    (void)state;
    assert_int_equal(fd_replace_file(path, file, sizeof(file) - 1, 0600, NULL), 0);
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, config_case, NULL) > 3);
    assert_int_equal(unlink(path), 0);
}

static void test_replace(void **state)
{
    (void)state;
    assert_true(fault_rounds(FAULT_WRITE, false, ROUNDS_MAX, replace_case, NULL) > 2);
    assert_true(fault_rounds(FAULT_WRITE, true, ROUNDS_MAX, replace_case, NULL) > 2);
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, replace_case, NULL) >= 1);
}

static int setup(void **state)
{
    (void)state;
    fault_init();
    clearenv();
    make_scratch(dir);
    snprintf(path, sizeof(path), "%s/file", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fd_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_replace),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
