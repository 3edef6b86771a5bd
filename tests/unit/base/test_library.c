/* Libraries that are loaded when they are needed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/library.h"

static double (*cosine)(double);
static double (*nothing)(double);

static void test_load(void **state)
{
    (void)state;
    const struct library_symbol symbols[] = { { "cos", &cosine } };
    struct err err = ERR_INIT;
    assert_int_equal(library_load("libm.so.6", "libc6", symbols, 1, &err), 0);
    assert_true(cosine(0) == 1);
}

static void test_no_such_library(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(library_load("libriddle-none.so.7", "libriddle-none7", NULL, 0, &err),
                     -ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "libriddle-none.so.7"));
    assert_non_null(strstr(err.message, "Debian: libriddle-none7"));
}

static void test_no_such_symbol(void **state)
{
    (void)state;
    const struct library_symbol symbols[] = { { "riddle_none", &nothing } };
    struct err err = ERR_INIT;
    assert_int_equal(library_load("libm.so.6", "libc6", symbols, 1, &err), -ERR_UNAVAILABLE);
    assert_string_equal(err.message, "'libm.so.6' has no riddle_none");
    assert_null(nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_no_such_library),
        cmocka_unit_test(test_no_such_symbol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
