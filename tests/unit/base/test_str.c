/* Strings: UTF-8 at its edges, strict numbers, nearest names. */

#include <limits.h>
#include <math.h>
#include "base/str.h"
#include "check.h"

static void test_compare(void **state)
{
    (void)state;
    assert_true(str_eq("a", "a"));
    assert_false(str_eq("a", "b"));
    assert_false(str_eq("a", NULL));
    assert_false(str_eq(NULL, "a"));
    assert_true(str_eq(NULL, NULL));
    assert_true(str_starts("export X", "export"));
    assert_false(str_starts("ex", "export"));
    assert_false(str_starts(NULL, "x"));
    assert_true(str_ends("a.csv", ".csv"));
    assert_false(str_ends("csv", ".csv"));
    assert_true(str_has_word("rw,memory\n", "memory"));
    assert_true(str_has_word("cpu pids", "cpu"));
    assert_false(str_has_word("cpuset,cpuacct", "cpu"));
    assert_true(str_ieq("SELECT", "select"));
    assert_false(str_ieq("select", "selects"));
    assert_false(str_ieq("selects", "select"));
    assert_false(str_ieq("[", "{")); /* they differ by the bit of letter case */
    assert_true(str_ieq(NULL, NULL));
    assert_false(str_ieq("", NULL));
}

static void test_identifier(void **state)
{
    (void)state;
    assert_true(str_is_identifier("_a9Z"));
    assert_false(str_is_identifier("9a"));
    assert_false(str_is_identifier(""));
    assert_false(str_is_identifier(NULL));
    assert_false(str_is_identifier("a-b"));
    assert_false(str_is_identifier("a b"));
    assert_false(str_is_identifier("é"));
    assert_false(str_is_identifier("a\n"));
}

static void test_utf8(void **state)
{
    static const char *const good[] = {
        "",
        "plain",
        "\x7f",
        "\xc2\x80",
        "\xdf\xbf",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "é€😀",
    };
    static const char *const bad[] = {
        "\x80",             /* continuation alone */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* surrogate */
        "\xed\xbf\xbf",     /* surrogate */
        "\xf4\x90\x80\x80", /* past U+10FFFF */
        "\xf5\x80\x80\x80", /* no lead byte */
        "\xff",             /* no lead byte */
        "\xc2",             /* cut */
        "\xe2\x82",         /* cut */
        "\xf0\x9f\x98",     /* cut */
        "\xe2\x82x",        /* a letter in a character */
        "ok\xfeok",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(str_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(str_is_utf8(bad[i], strlen(bad[i])));
    assert_true(str_is_utf8("a\0b", 3));
    assert_false(str_is_utf8("€", 2));
}

static void test_utf8_cut(void **state)
{
    (void)state;
    assert_int_equal(str_utf8_cut("hello", 5, 3), 3);
    assert_int_equal(str_utf8_cut("hello", 5, 5), 5);
    assert_int_equal(str_utf8_cut("hello", 5, 99), 5);
    assert_int_equal(str_utf8_cut("a€b", 5, 1), 1);
    assert_int_equal(str_utf8_cut("a€b", 5, 2), 1);
    assert_int_equal(str_utf8_cut("a€b", 5, 3), 1);
    assert_int_equal(str_utf8_cut("a€b", 5, 4), 4);
    assert_int_equal(str_utf8_cut("😀", 4, 3), 0);
    assert_int_equal(str_utf8_cut("😀", 4, 0), 0);
    assert_int_equal(str_utf8_cut("\x80\x80\x80\x80\x80", 5, 4),
                     4); /* no UTF-8: nothing to protect */
    assert_int_equal(str_utf8_cut("caf\xe9", 4, 4), 4);
}

static void test_show(void **state)
{
    char ret[16];

    (void)state;
    assert_string_equal(str_show("plain", 5, ret, sizeof(ret)), "plain");
    assert_string_equal(str_show("a\nb\x7f", 4, ret, sizeof(ret)), "a?b?");
    assert_string_equal(str_show("a\xff\xc2\x85z", 5, ret, sizeof(ret)), "a??z");
    assert_string_equal(str_show("123456789012345", 15, ret, sizeof(ret)), "123456789012345");
    assert_string_equal(str_show("1234567890123456", 16, ret, sizeof(ret)), "123456789012…");
    assert_string_equal(str_show("12345678901é3456", 17, ret, sizeof(ret)), "12345678901…");
    assert_string_equal(str_show("abcdef", 6, ret, 3), "ab");
    assert_string_equal(str_show("a\0b", 3, ret, sizeof(ret)), "a?b");
}

static void test_parse_i64(void **state)
{
    static const char *const bad[] = { "",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "1e3",
                                       "0x10",
                                       "--1",
                                       "ten",
                                       "1\n",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999999999" };
    long long v = 7;
    struct err e;

    (void)state;
    assert_works(str_parse_i64("42", "n", 0, 100, &v, &e), &e);
    assert_int_equal(v, 42);
    assert_works(str_parse_i64("-9223372036854775808", "n", LLONG_MIN, LLONG_MAX, &v, &e), &e);
    assert_true(v == LLONG_MIN);
    assert_works(str_parse_i64("9223372036854775807", "n", LLONG_MIN, LLONG_MAX, &v, &e), &e);
    assert_true(v == LLONG_MAX);
    assert_works(str_parse_i64("-1", "n", -1, 1, &v, &e), &e);
    assert_int_equal(v, -1);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(str_parse_i64(bad[i], "n", LLONG_MIN, LLONG_MAX, &v, &e), -ERR_VALIDATION);
    assert_int_equal(v, -1); /* failure does not touch it */
    assert_fails(str_parse_i64("0", "RIDDLE_PIDS", 1, 4096, &v, &e), &e, ERR_VALIDATION,
                 "RIDDLE_PIDS is '0', but must be a whole number between 1 and 4096");
    assert_fails(str_parse_i64("4097", "n", 1, 4096, &v, &e), &e, ERR_VALIDATION,
                 "n is '4097', but must be a whole number between 1 and 4096");
}

static void test_parse_bytes(void **state)
{
    static const char *const bad[] = {
        "", "k", "-1", "1kb", "1.5m", "1 k", "1x", "16777216t", "18446744073709551616", "64k\n"
    };
    unsigned long long v = 7;
    struct err e;

    (void)state;
    assert_works(str_parse_bytes("65536", "n", &v, &e), &e);
    assert_int_equal(v, 65536);
    assert_works(str_parse_bytes("64k", "n", &v, &e), &e);
    assert_int_equal(v, 65536);
    assert_works(str_parse_bytes("512M", "n", &v, &e), &e);
    assert_int_equal(v, 512ull << 20);
    assert_works(str_parse_bytes("2g", "n", &v, &e), &e);
    assert_int_equal(v, 2ull << 30);
    assert_works(str_parse_bytes("1t", "n", &v, &e), &e);
    assert_int_equal(v, 1ull << 40);
    assert_works(str_parse_bytes("18446744073709551615", "n", &v, &e), &e);
    assert_true(v == ULLONG_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(str_parse_bytes(bad[i], "n", &v, &e), -ERR_VALIDATION);
    assert_fails(str_parse_bytes("lots", "RIDDLE_MEMORY", &v, &e), &e, ERR_VALIDATION,
                 "RIDDLE_MEMORY is 'lots', but must be a size such as 65536, 64k, 512m or 2g");
}

/* Short numbers are written without printf: as "%.15g" does. */
static void test_from_double_is_what_printf_says(void **state)
{
    char text[STR_DOUBLE_SIZE], want[STR_DOUBLE_SIZE], whole[STR_I64_SIZE];
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (int i = 0; i < 400000; i++) {
        double v;

        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        v = (double)(int64_t)(seed >> (seed % 60)) / pow(10, (double)(seed % 12));
        if (i % 4 == 0)
            memcpy(&v, &seed, sizeof(v)); /* any double */
        else if (i % 2)
            v = -v;
        if (isnan(v))
            continue;
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(want, sizeof(want), "%.*g", digits, v);
            if (strtod(want, NULL) == v)
                break;
        }
        str_from_double(v, text);
        assert_string_equal(text, want);
        snprintf(want, sizeof(want), "%lld", (long long)seed);
        assert_int_equal(str_from_i64((int64_t)seed, whole), strlen(want));
        assert_string_equal(whole, want);
    }
    assert_int_equal(str_from_i64(INT64_MIN, whole), 20);
    assert_string_equal(whole, "-9223372036854775808");
    assert_int_equal(str_from_i64(0, whole), 1);
    assert_string_equal(whole, "0");
}

static void test_from_double(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        { 0.1, "0.1" },
        { 1.0, "1" },
        { -0.0, "-0" },
        { 1e300, "1e+300" },
        { 1.0 / 3, "0.3333333333333333" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { 5e-324, "4.94065645841247e-324" },
        { INFINITY, "inf" },
    };
    char text[STR_DOUBLE_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        str_from_double(cases[i].v, text);
        assert_string_equal(text, cases[i].text);
        assert_true(strtod(text, NULL) == cases[i].v);
    }
    str_from_double(NAN, text);
    assert_non_null(strstr(text, "nan"));
}

static void test_nearest(void **state)
{
    static const char *const names[] = { "query_type", "timeout_seconds", "max_rows", "sql" };
    char longer[200];

    (void)state;
    assert_string_equal(str_nearest("quary_type", names, 4), "query_type");
    assert_string_equal(str_nearest("qurey_type", names, 4), "query_type"); /* a swap is one edit */
    assert_string_equal(str_nearest("TIMEOUT_SECOND", names, 4), "timeout_seconds");
    assert_string_equal(str_nearest("sq", names, 4), "sql");
    assert_null(str_nearest("python", names, 4));
    assert_null(str_nearest("", names, 4));
    assert_null(str_nearest("sql", names, 0));
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_null(str_nearest(longer, names, 4));
}

static void test_stem(void **state)
{
    static const struct {
        const char *path, *stem;
    } cases[] = {
        { "/data/orders.csv", "orders" },
        { "orders", "orders" },
        { "a/b.csv.gz", "b" },
        { "a/b.c.csv.GZ", "b.c" },
        { "b.gz", "b" },
        { ".hidden", ".hidden" },
        { "x/.env.csv", ".env" },
        { "dir/", "dir" },
        { "/", "" },
        { "", "" },
        { "a.b/c", "c" },
        { "end.", "end" },
    };
    char ret[8];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        str_stem(cases[i].path, ret, sizeof(ret));
        assert_string_equal(ret, cases[i].stem);
    }
    str_stem("abcdeé€.csv", ret, sizeof(ret));
    assert_string_equal(ret, "abcdeé");
    str_stem("abcdef€.csv", ret, sizeof(ret));
    assert_string_equal(ret, "abcdef");
}

static void test_rounded(void **state)
{
    static const struct {
        double v;
        int places;
        const char *want;
    } cases[] = {
        { 79203.125, 2, "79203.13" },
        { -79203.125, 2, "-79203.13" },
        { 0.375, 2, "0.38" },
        { 2.5, 0, "3" },
        { 0.5, 0, "1" },
        { 1.5, 0, "2" },
        { 1.005, 2, "1" }, /* the double is less than that half */
        { 0.145, 2, "0.14" },
        { 8.345, 2, "8.35" }, /* and this one more */
        { 0.001953125, 8, "0.00195313" },
        { -0.001, 2, "0" },
        { 0, 2, "0" },
        { 100, 0, "100" },
        { 1e15, 2, "1000000000000000" },
        { 5694.870000000002, 6, "5694.87" },
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[64];
        str_rounded(cases[i].v, cases[i].places, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),     cmocka_unit_test(test_identifier),
        cmocka_unit_test(test_utf8),        cmocka_unit_test(test_utf8_cut),
        cmocka_unit_test(test_show),        cmocka_unit_test(test_parse_i64),
        cmocka_unit_test(test_parse_bytes), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_stem),        cmocka_unit_test(test_from_double),
        cmocka_unit_test(test_rounded),     cmocka_unit_test(test_from_double_is_what_printf_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
