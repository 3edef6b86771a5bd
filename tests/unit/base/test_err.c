/* Errors: codes, names, bounded messages. */

#include <errno.h>
#include "base/str.h"
#include "check.h"

static void test_set(void **state)
{
    struct err e;

    (void)state;
    assert_fails(err_set(&e, ERR_IO, "cannot read '%s'", "a.csv"), &e, ERR_IO,
                 "cannot read 'a.csv'");
    assert_int_equal(err_set(NULL, ERR_TIMEOUT, "%d", 1), -ERR_TIMEOUT);
}

static void test_set_from_own_message(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    err_set(&e, ERR_IO, "disk full");
    err_set(&e, ERR_INTERNAL, "[%s] [%s]", e.message, e.message);
    assert_string_equal(e.message, "[disk full] [disk full]");
}

static void test_errno(void **state)
{
    struct err e;

    (void)state;
    assert_fails(err_errno(&e, ERR_NOT_FOUND, ENOENT, "cannot open '%s'", "x"), &e, ERR_NOT_FOUND,
                 "cannot open 'x': No such file or directory");
    assert_fails(err_errno(&e, ERR_IO, 98765, "odd"), &e, ERR_IO, "odd: unknown error 98765");
    assert_int_equal(err_errno(NULL, ERR_IO, EIO, "x"), -ERR_IO);
}

static void test_wrap(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    err_set(&e, ERR_CONFLICT, "busy");
    assert_int_equal(err_wrap(&e, "thread '%s'", "t1"), -ERR_CONFLICT);
    assert_int_equal(err_wrap(&e, "server"), -ERR_CONFLICT);
    assert_string_equal(e.message, "server: thread 't1': busy");
    assert_int_equal(err_wrap(NULL, "x"), -ERR_INTERNAL);
    e = (struct err)ERR_INIT;
    assert_int_equal(err_wrap(&e, "nothing wrapped"), -ERR_INTERNAL);
    assert_int_equal(e.code, ERR_INTERNAL);
}

/* A message that is too long ends between two characters, at every alignment of the cut. */
static void test_long_message(void **state)
{
    struct err e = ERR_INIT;
    char text[2 * ERR_MESSAGE_MAX];

    (void)state;
    for (size_t shift = 0; shift < 4; shift++) {
        size_t n = shift;

        memset(text, 'x', shift);
        while (n + 4 < sizeof(text)) {
            memcpy(text + n, "😀", 4);
            n += 4;
        }
        text[n] = '\0';
        err_set(&e, ERR_IO, "%s", text);
        n = strlen(e.message);
        assert_true(n < ERR_MESSAGE_MAX && n >= ERR_MESSAGE_MAX - 4);
        assert_true(str_is_utf8(e.message, n));
        assert_int_equal((n - shift) % 4, 0);

        err_wrap(&e, "é");
        n = strlen(e.message);
        assert_true(n < ERR_MESSAGE_MAX && n >= ERR_MESSAGE_MAX - 4);
        assert_true(str_is_utf8(e.message, n));
    }
    memset(text, 'y', ERR_MESSAGE_MAX - 1);
    text[ERR_MESSAGE_MAX - 1] = '\0';
    err_set(&e, ERR_IO, "%s", text);
    assert_string_equal(e.message, text);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(err_name(ERR_NONE), "OK");
    assert_int_equal(err_http_status(ERR_NONE), 200);
    assert_string_equal(err_name(ERR_VALIDATION), "VALIDATION_ERROR");
    assert_int_equal(err_http_status(ERR_VALIDATION), 400);
    assert_string_equal(err_name(ERR_TIMEOUT), "TIMEOUT");
    assert_int_equal(err_http_status(ERR_TIMEOUT), 504);
    assert_string_equal(err_name((enum err_code)999), "RUNNER_INTERNAL_ERROR");
    assert_int_equal(err_http_status((enum err_code)999), 500);
    for (int i = 0; i < ERR_CODE_MAX; i++)
        assert_non_null(err_name((enum err_code)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),   cmocka_unit_test(test_set_from_own_message),
        cmocka_unit_test(test_errno), cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_names), cmocka_unit_test(test_long_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
