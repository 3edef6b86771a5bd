/* Tables for a terminal of any width, and CSV. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/macros.h"
#include "cli/table.h"

static json_t *load(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

static void check_table(const char *columns, const char *types, const char *rows,
                        struct table_style style, const char *expected)
{
    struct err err = ERR_INIT;
    auto_json json_t *c = load(columns), *t = load(types), *r = load(rows);
    auto_buf struct buf b = BUF_INIT(1u << 20);
    assert_true(table_render(c, t, r, &style, &b, &err) >= 0);
    assert_string_equal(buf_cstr(&b), expected);
}

static void check_csv(const char *columns, const char *rows, const char *expected)
{
    struct err err = ERR_INIT;
    auto_json json_t *c = load(columns), *r = load(rows);
    auto_buf struct buf b = BUF_INIT(1u << 20);
    assert_true(table_render_csv(c, r, &b, &err) >= 0);
    assert_string_equal(buf_cstr(&b), expected);
}

static const struct table_style plain = { .width = 0, .colour = false };

static void test_alignment(void **state)
{
    (void)state;
    check_table("[\"name\",\"n\"]", "[\"VARCHAR\",\"BIGINT\"]", "[[\"a\",1],[\"long one\",-1234]]",
                plain,
                "name          n\n"
                "────────  ─────\n"
                "a             1\n"
                "long one  -1234\n");
    /* A decimal that comes as text is a number by its type; without types the values decide. */
    check_table("[\"d\",\"x\"]", "[\"DECIMAL(18,2)\",\"VARCHAR\"]",
                "[[\"1.50\",\"1\"],[\"22.00\",\"22\"]]", plain,
                "    d  x\n"
                "─────  ──\n"
                " 1.50  1\n"
                "22.00  22\n");
    check_table("[\"d\",\"e\"]", "[]", "[[null,1.5],[10,\"x\"]]", plain,
                "   d  e\n"
                "────  ───\n"
                "NULL  1.5\n"
                "  10  x\n");
}

static void test_wide_characters(void **state)
{
    (void)state;
    check_table("[\"w\",\"z\"]", "[]", "[[\"日本\",\"1\"],[\"e\xcc\x81\",\"2\"],[\"äö\",\"3\"]]",
                plain,
                "w     z\n"
                "────  ─\n"
                "日本  1\n"
                "e\xcc\x81     2\n"
                "äö    3\n");
}

static void test_values(void **state)
{
    (void)state;
    check_table(
        "[\"v\"]", "[]",
        "[[true],[9007199254740993],[0.1],[1e300],[{\"a\":[1,null]}],[\"\"],[\"a\\nb\\tc\\u001b[31m\\u009b\\u202e\"]]",
        plain,
        "v\n"
        "─────────────────────────\n"
        "true\n"
        "9007199254740993\n"
        "0.1\n"
        "1e+300\n"
        "{\"a\":[1,null]}\n"
        "\n"
        "a\\nb\\tc\\x1b[31m\\x9b\\u202e\n");
}

static void test_narrow(void **state)
{
    (void)state;
    /* Text gives way, the widest first. */
    check_table("[\"id\",\"text\"]", "[\"INTEGER\",\"VARCHAR\"]",
                "[[123456,\"abcdefghijklmnopqrstuvwxyz\"]]", (struct table_style){ .width = 20 },
                "    id  text\n"
                "──────  ────────────\n"
                "123456  abcdefghijk…\n");
    /* A wide character that would be halved is left out whole. */
    check_table("[\"t\"]", "[]", "[[\"日本語日本語日本語\"]]", (struct table_style){ .width = 10 },
                "t\n"
                "──────────\n"
                "日本語日…\n");
    /* Numbers are never cut: the columns that have no room are counted instead. */
    check_table("[\"a\",\"b\",\"c\"]", "[]", "[[123456789012,123456789012,5]]",
                (struct table_style){ .width = 20 },
                "           a\n"
                "────────────\n"
                "123456789012\n"
                "… 2 more columns; use --csv to have all\n");
    check_table("[\"a\",\"b\"]", "[]", "[[123456789012,123456789012]]",
                (struct table_style){ .width = 5 },
                "           a\n"
                "────────────\n"
                "123456789012\n"
                "… 1 more column; use --csv to have all\n");
}

static void test_ten_thousand_columns(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    const struct table_style style = { .width = 80 };
    auto_json json_t *columns = json_array(), *rows = json_array();
    json_t *row = json_array();
    for (int i = 0; i < 10000; i++) {
        json_array_append_new(columns, json_sprintf("column_%05d", i));
        json_array_append_new(row, json_string("some text that is cut"));
    }
    json_array_append_new(rows, row);
    auto_buf struct buf b = BUF_INIT(1u << 20);
    assert_true(table_render(columns, NULL, rows, &style, &b, &err) >= 0);
    assert_non_null(strstr(b.data, "… 9992 more columns"));
    assert_non_null(strstr(b.data, "column_…"));
}

static void test_colour(void **state)
{
    (void)state;
    check_table("[\"a\"]", "[]", "[[null],[1]]", (struct table_style){ .width = 0, .colour = true },
                "   \033[1ma\033[0m\n"
                "────\n"
                "\033[2mNULL\033[0m\n"
                "   1\n");
}

static void test_nothing(void **state)
{
    (void)state;
    check_table("[]", "[]", "[]", plain, "");
    check_table("[\"a\"]", "[]", "[]", plain, "a\n─\n");
    check_csv("[]", "[]", "");
    check_csv("[\"a\"]", "[]", "a\r\n");
}

static void test_csv(void **state)
{
    (void)state;
    check_csv("[\"a\",\"b c\",\"d,e\"]",
              "[[1,null,\"\"],[\"x\\\"y\\\"\",\"l1\\nl2\",0.1],[true,{\"k\":[1]},\"日本\"]]",
              "a,b c,\"d,e\"\r\n"
              "1,,\"\"\r\n"
              "\"x\"\"y\"\"\",\"l1\nl2\",0.1\r\n"
              "true,\"{\"\"k\"\":[1]}\",日本\r\n");
}

static void test_visible(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(1000);
    assert_int_equal(table_append_visible(&b, "a\n\033]0;x\a\xff\xe6\x97", 10, true, &err), 15);
    assert_string_equal(b.data, "a\n\\x1b]0;x\\x07\xef\xbf\xbd\xef\xbf\xbd");
    struct buf tiny = BUF_INIT(2);
    assert_int_equal(table_append_visible(&tiny, "abc", 3, true, &err), -ERR_TOO_LARGE);
    buf_finish(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_wide_characters),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_ten_thousand_columns),
        cmocka_unit_test(test_colour),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
