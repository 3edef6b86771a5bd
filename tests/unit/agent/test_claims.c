/* Figures that results bear out, and figures that they do not. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/claims.h"
#include "base/macros.h"
#include "shop.h"

#define SALES                                                                                            \
    "{'columns':['category','total_amount','rate'],'types':['VARCHAR','DOUBLE','DOUBLE'],'row_count':3," \
    "'rows':[['Housing',12345.678,0.4567],['Food',2345.5,0.25],['Level 7 items',100,0.1]]}"
#define MONTHS                                                                                                                          \
    "{'columns':['month','n'],'types':['DATE','BIGINT'],'row_count':4,'rows':[['2024-01-01',120],['2024-02-01',150],['2024-03-01',90]," \
    "['2024-04-15',-30]]}"

/* The texts of the figures that were not found, with "|" between them. */
static void unfounded(const char *text, const char *result, const char *question, char *ret,
                      size_t size)
{
    auto_json json_t *j = json_of(result);
    const json_t *results[] = { j };
    auto_json json_t *list = claims_unfounded(text, results, 1, &question, 1);
    size_t i;
    json_t *v;
    assert_non_null(list);
    ret[0] = '\0';
    json_array_foreach(list, i, v) {
        const char *s = json_string_value(json_object_get(v, "text"));
        size_t at = (size_t)json_integer_value(json_object_get(v, "offset"));
        assert_memory_equal(text + at, s, strlen(s));
        snprintf(ret + strlen(ret), size - strlen(ret), "%s%s", i ? "|" : "", s);
    }
}

static void test_figures(void **state)
{
    (void)state;
    static const struct {
        const char *result, *text, *question, *want;
    } cases[] = {
        /* cells, with rounding, separators and scales */
        { SALES, "Housing is 12,345.678, or 12,345.68, 12,345.7, 12,346, 12.3k, $12.35k.", NULL,
          "" },
        { SALES, "Housing is 12,345.69.", NULL, "12,345.69" },
        { SALES, "Housing is 12,344.", NULL, "12,344" },
        { SALES, "Housing is 12.9k and 0.0123 million and 0.0129 million.", NULL,
          "12.9k|0.0129 million" },
        { SALES, "About 12,000 for Housing; exactly 12,000 would be wrong.", NULL, "12,000" },
        { SALES, "Roughly $2,300 for Food.", NULL, "" },
        { SALES, "Roughly $2,800 for Food.", NULL, "2,800" },
        { SALES, "The rate is 45.67%, 45.7% or 46 percent.", NULL, "" },
        { SALES, "The rate is 47%.", NULL, "47%" },
        { SALES, "-100 and (100) and 100.", NULL, "" },
        /* counts, names, order */
        { SALES, "There are 3 rows and 3 columns.", NULL, "" },
        { SALES, "There are 8 rows.", NULL, "8" },
        { SALES, "Level 7 items come last; Level 8 items do not exist.", NULL, "8" },
        { SALES, "1. Housing\n2. Food\n 3) the rest, the 1st and the 22nd, Q3, SEN-001, col_9, #1.",
          NULL, "" },
        { SALES, "The top 3 are these; the top 9 are not.", NULL, "9" },
        { SALES, "It all sums to 100%.", NULL, "" },
        { SALES, "Above 500 as you asked.", "what is above 500?", "" },
        { SALES, "Above 600 as you did not ask.", "what is above 500?", "600" },
        /* two cells */
        { SALES,
          "Together 14,691.18, a difference of 10,000.18, 5.26 times as much, 23.46 times as much.",
          NULL, "" },
        { SALES, "In all 14,791.18.", NULL, "" },
        { SALES, "Housing is 83.5% of the total.", NULL, "" },
        { SALES, "Housing is 71.2% of the total.", NULL, "71.2%" },
        { MONTHS, "It rose by 25% from January to February, 30 more, then fell by 40%.", NULL, "" },
        { MONTHS, "It rose by 26%.", NULL, "26%" },
        { MONTHS, "The average is 82.5.", NULL, "" },
        { MONTHS, "It fell to -30.", NULL, "" },
        /* dates */
        { MONTHS, "Between January 2024 and 2024-04-15, on April 15 and 1 February.", NULL, "" },
        { MONTHS, "In 2023 and on 2024-05-01, and on April 16.", NULL, "2023|2024-05-01|16" },
        { MONTHS, "At 10:30.", NULL, "10:30" },
        { MONTHS, "At 10:30.", "what happened at 10:30?", "" },
        /* code is not prose */
        { MONTHS, "```sql\nSELECT 999 LIMIT 17\n```\nand `x > 55` but `777`", NULL, "777" },
        { MONTHS, "see https://example.org/1234/5678", NULL, "" },
        { "{'columns':[],'rows':[]}", "", NULL, "" },
        { "{'columns':[],'rows':[]}", "Nothing but 42", NULL, "42" },
        { "{'columns':['t'],'rows':[['a 12,5 b'],[null],[{'x':31}],[[71]]]}", "12 31 71 13", NULL,
          "13" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char got[512];
        unfounded(cases[i].text, cases[i].result, cases[i].question, got, sizeof(got));
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s: '%s', not '%s'", cases[i].text, got, cases[i].want);
    }
}

static void test_between_results(void **state)
{
    (void)state;
    auto_json json_t *a = json_of("{'columns':['n'],'rows':[[200]]}"),
                     *b = json_of("{'columns':['m'],'rows':[[37]]}");
    const json_t *results[] = { a, NULL, b };
    auto_json json_t *none = claims_unfounded("18.5% of them", results, 3, NULL, 0);
    assert_int_equal(json_array_size(none), 0);
    auto_json json_t *one = claims_unfounded("18.7% of them", results, 3, NULL, 0);
    assert_int_equal(json_array_size(one), 1);
    assert_true(json_real_value(json_object_get(json_array_get(one, 0), "value")) == 18.7);
}

/* Thousands of cells do not bear out anything, and the list is bounded. */
static void test_a_large_result(void **state)
{
    (void)state;
    json_t *rows = json_array();
    auto_json json_t *result = json_pack("{s:[s,s], s:o}", "columns", "a", "b", "rows", rows);
    for (int i = 0; i < 20000; i++)
        json_array_append_new(rows, json_pack("[i,f]", i * 1000, i * 17.31));
    const json_t *results[] = { result };
    char text[4096] = "";
    for (int i = 0; i < 200; i++)
        strcat(text, "123,456.7 ");
    auto_json json_t *list = claims_unfounded(text, results, 1, NULL, 0);
    assert_int_equal(json_array_size(list), CLAIMS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_figures),
                                        cmocka_unit_test(test_between_results),
                                        cmocka_unit_test(test_a_large_result) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
