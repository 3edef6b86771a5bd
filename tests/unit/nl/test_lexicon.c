/* Words and what they have to do with each other. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "nl/lexicon.h"

static double match(const char *a, const char *b)
{
    struct nl_lex x, y;
    nl_lex_find(a, &x);
    nl_lex_find(b, &y);
    return nl_lex_match(&x, &y);
}

static void test_near(void **state)
{
    (void)state;
    assert_true(match("salary", "wages") >= 0.7);
    assert_true(match("physicians", "doctor") >= 0.7);
    assert_true(match("clients", "customer") >= 0.7);
    assert_true(match("cancellation", "cancelled") >= 0.6);
    assert_true(match("heavy", "weight") >= 0.6);
    assert_true(match("employees", "worker") >= 0.5);
}

static void test_far(void **state)
{
    (void)state;
    assert_true(match("salary", "city") == 0);
    assert_true(match("revenue", "stock") == 0);
    assert_true(match("zzyzx", "zzyzx") == 0);
    assert_true(match("", "day") == 0);
}

static double cosine(const char *a, const char *b)
{
    struct nl_lex x, y;
    nl_lex_find(a, &x);
    nl_lex_find(b, &y);
    return nl_lex_cosine(&x, &y);
}

static void test_use(void **state)
{
    (void)state;
    assert_true(cosine("nations", "country") > 0.8);
    assert_true(cosine("boss", "manager") > 0.6);
    assert_true(cosine("salary", "salary") > 0.999);
    assert_true(cosine("salary", "river") < 0.3);
    assert_true(cosine("zzyzx", "salary") == 0);
    assert_true(cosine("aaa", "salary") < 0.3); /* before the first and behind the last word */
    assert_true(cosine("zzz", "salary") < 0.3);
}

static void test_forms(void **state)
{
    struct nl_lex x;
    (void)state;
    nl_lex_find("sold", &x);
    assert_true(x.is_known && x.is_verb);
    nl_lex_find("collects", &x);
    assert_true(x.is_verb && !x.is_noun);
    nl_lex_find("mice", &x);
    assert_true(x.is_noun);
    nl_lex_find("overdue", &x);
    assert_true(x.is_other && !x.is_verb);
    nl_lex_find("supercalifragilisticexpialidocious", &x);
    assert_false(x.is_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_use),
        cmocka_unit_test(test_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
