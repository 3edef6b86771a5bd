/* Words, numbers, dates and names, as the planner takes them apart. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "nl/nl_impl.h"

static struct nl_tokens tokens(struct arena *a, const char *question)
{
    struct nl_tokens q;
    struct err err = ERR_INIT;
    assert_int_equal(nl_tokenize(question, a, &q, &err), 0);
    return q;
}

static void test_numbers(void **state)
{
    static const struct {
        const char *text;
        double number;
    } cases[] = { { "1,234", 1234 },     { "12.5", 12.5 },       { "$40", 40 },
                  { "30%", 30 },         { "12k", 12000 },       { "seven", 7 },
                  { "twenty five", 25 }, { "two million", 2e6 }, { "3rd", 3 },
                  { "-4", -4 } };
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct nl_tokens q = tokens(&a, cases[i].text);
        assert_int_equal(q.n, 1);
        assert_true(q.t[0].is_number);
        assert_float_equal(q.t[0].number, cases[i].number, 1e-9);
    }
    assert_true(tokens(&a, "3rd").t[0].is_ordinal);
    assert_false(tokens(&a, "b2b").t[0].is_number);
}

static void test_quotes_and_possessives(void **state)
{
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    struct nl_tokens q = tokens(&a, "the customer's \"Red Lion Inn\", isn't it");
    assert_int_equal(q.n, 6);
    assert_string_equal(q.t[1].text, "customer");
    assert_true(q.t[2].quoted);
    assert_string_equal(q.t[2].raw, "Red Lion Inn");
    assert_true(q.t[2].comma_after);
    assert_string_equal(q.t[4].text, "not");
}

static void test_stems(void **state)
{
    static const char *const same[][2] = { { "categories", "category" }, { "boxes", "box" },
                                           { "ordered", "order" },       { "people", "person" },
                                           { "named", "name" },          { "cities", "city" },
                                           { "running", "run" },         { "classes", "class" } };
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        assert_string_equal(nl_stem(&a, same[i][0]), nl_stem(&a, same[i][1]));
    assert_string_not_equal(nl_stem(&a, "status"), nl_stem(&a, "state"));
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        int n;
        const char *first, *last;
    } cases[] = { { "order_date", 2, "order", "date" }, { "orderDate", 2, "order", "date" },
                  { "Order Date", 2, "order", "date" }, { "HTTPStatus", 2, "http", "status" },
                  { "fname", 2, "first", "name" },      { "StuID", 2, "stu", "id" } };
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct nl_name n;
        assert_int_equal(nl_split_name(&a, cases[i].name, &n), 0);
        assert_int_equal(n.n, cases[i].n);
        assert_string_equal(n.words[0], cases[i].first);
        assert_string_equal(n.words[n.n - 1], cases[i].last);
    }
}

static void test_words_that_agree(void **state)
{
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    struct nl_tokens q = tokens(&a, "department catgeory wages banana");
    struct nl_name n;
    assert_int_equal(nl_split_name(&a, "dept_category_salary", &n), 0);
    assert_true(nl_word_match(&n, 0, &q.t[0]) > 0.5);
    assert_true(nl_word_match(&n, 1, &q.t[1]) > 0.5); /* a typo */
    assert_true(nl_word_match(&n, 2, &q.t[2]) > 0.5);
    assert_true(nl_word_match(&n, 2, &q.t[3]) == 0);
    assert_int_equal(nl_edit_distance("form", "from", 2), 1);
}

static void test_dates(void **state)
{
    static const struct {
        const char *text, *from, *to;
        int n;
    } cases[] = { { "March 2024", "2024-03-01", "2024-03-31", 2 },
                  { "7th September, 1987", "1987-09-07", "1987-09-07", 3 },
                  { "2024-02-29", "2024-02-29", "2024-02-29", 1 },
                  { "Feb 2023", "2023-02-01", "2023-02-28", 2 },
                  { "Q2 2023", "2023-04-01", "2023-06-30", 2 },
                  { "December 25 2020", "2020-12-25", "2020-12-25", 3 },
                  { "2023-02-29", NULL, NULL, 0 },
                  { "may be", NULL, NULL, 0 } };
    (void)state;
    auto_arena struct arena a;
    arena_init(&a, 1u << 20);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char from[11], to[11];
        struct nl_tokens q = tokens(&a, cases[i].text);
        assert_int_equal(nl_read_date(&q, 0, from, to), cases[i].n);
        if (cases[i].n) {
            assert_string_equal(from, cases[i].from);
            assert_string_equal(to, cases[i].to);
        }
    }
    char next[11];
    assert_true(nl_add_days("2024-02-28", 2, next));
    assert_string_equal(next, "2024-03-01");
    assert_false(nl_add_days("yesterday", 1, next));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_quotes_and_possessives),
        cmocka_unit_test(test_stems),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_words_that_agree),
        cmocka_unit_test(test_dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
