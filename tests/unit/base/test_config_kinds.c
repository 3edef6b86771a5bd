/*
 * Every kind of setting, on a table of this test: config.c is compiled in here under other names
 * with that table in the place of the real one.
 */

#define RIDDLE_BASE_CONFIG_TABLE_H
#define CONFIG_TABLE                                                                               \
    CONFIG_SECTION("All kinds")                                                                    \
    CONFIG_SECRET(key, "TEST_KEY", "", "A key | a token.")                                         \
    CONFIG_BOOL(on, "TEST_ON", true, "On.")                                                        \
    CONFIG_BOOL(off, "TEST_OFF", false, "Off.")                                                    \
    CONFIG_INT(below_zero, "TEST_BELOW", -5, -10, 10, "Below zero.")                               \
    CONFIG_DOUBLE(share, "TEST_SHARE", 0.25, 0, 1, "A share.")                                     \
    CONFIG_BYTES(size, "TEST_SIZE", "2k", 0, 1536, "The default is too large.")
#define config_load kinds_config_load
#define config_finish kinds_config_finish
#define config_print_markdown kinds_config_print_markdown
#include "../../../src/base/config.c"

#include "check.h"

static int clean(void **state)
{
    (void)state;
    clearenv();
    setenv("TEST_SIZE", "0", 1);
    return 0;
}

static void test_bool(void **state)
{
    static const struct {
        const char *text;
        bool value;
    } cases[] = { { "true", true },   { "1", true },  { "YES", true }, { "On", true },
                  { "false", false }, { "0", false }, { "no", false }, { "off", false } };
    struct config c;
    struct err e;

    (void)state;
    assert_works(config_load(&c, NULL, &e), &e);
    assert_true(c.on);
    assert_false(c.off);
    assert_int_equal(c.below_zero, -5);
    assert_true(c.share == 0.25);
    assert_int_equal(c.size, 0);
    config_finish(&c);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        setenv("TEST_ON", cases[i].text, 1);
        assert_works(config_load(&c, NULL, &e), &e);
        assert_int_equal(c.on, cases[i].value);
        config_finish(&c);
    }
    setenv("TEST_ON", "maybe", 1);
    assert_fails(config_load(&c, NULL, &e), &e, ERR_CONFIG,
                 "TEST_ON is 'maybe', but must be true or false");
}

static void test_secret_is_never_told(void **state)
{
    struct config c;
    struct err e;

    (void)state;
    setenv("TEST_KEY", "sk-123", 1);
    assert_works(config_load(&c, NULL, &e), &e);
    assert_string_equal(c.key, "sk-123");
    config_finish(&c);
    setenv("TEST_KEY", "sk-123\n", 1);
    assert_fails(config_load(&c, NULL, &e), &e, ERR_CONFIG,
                 "TEST_KEY must be text without control characters (its value is not shown)");
}

static void test_bad_default_is_found(void **state)
{
    struct config c;
    struct err e;

    (void)state;
    unsetenv("TEST_SIZE");
    assert_fails(
        config_load(&c, NULL, &e), &e, ERR_CONFIG,
        "TEST_SIZE is '2k', but must be a size between 0 and 1536 (bytes, or with k, m, g or t)");
}

static void test_markdown_escapes_bars(void **state)
{
    auto_buf struct buf b = BUF_INIT(1 << 16);
    struct err e;

    (void)state;
    assert_works(config_print_markdown(&b, &e), &e);
    assert_non_null(strstr(
        buf_cstr(&b),
        "| `TEST_KEY` | (empty) | text without control characters | A key \\| a token. |\n"));
    assert_non_null(strstr(buf_cstr(&b), "| `TEST_ON` | `true` | true or false | On. |\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_bool, clean),
        cmocka_unit_test_setup(test_secret_is_never_told, clean),
        cmocka_unit_test_setup(test_bad_default_is_found, clean),
        cmocka_unit_test_setup(test_markdown_escapes_bars, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
