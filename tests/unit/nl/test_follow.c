/*
 * Questions that lean on the one before, over a table of deliveries: what they become, and which
 * stand on their own.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "nl/nl.h"
#include "plan/compile.h"

static struct nl_schema *schema_of_deliveries(void)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    static const char *const columns[][2] = { { "delivery_id", "BIGINT" }, { "region", "VARCHAR" },
                                              { "product", "VARCHAR" },    { "cost", "DOUBLE" },
                                              { "sent_on", "DATE" },       { "late", "BOOLEAN" },
                                              { "carrier", "VARCHAR" } };
    static const struct {
        int column;
        const char *value;
    } values[] = { { 1, "North" }, { 1, "South" }, { 2, "Books" },
                   { 2, "Toys" },  { 6, "Swift" }, { 6, "Crane" } };
    assert_int_equal(nl_schema_create("d", &s, &err), 0);
    int t = nl_schema_add_table(s, "deliveries", 5000, &err);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        assert_int_equal(nl_schema_add_column(s, t, columns[i][0], columns[i][1], &err), (int)i);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        assert_int_equal(nl_schema_add_value(s, t, values[i].column, values[i].value, &err), 0);
    assert_int_equal(nl_schema_set_range(s, t, 4, "2023-01-01", "2024-06-30", &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

static void to_sql(const json_t *plan, char *ret, size_t n)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    auto_buf struct buf sql = BUF_INIT(1u << 20);
    struct query_plan *parsed;
    size_t k = 0;
    arena_init(&a, PLAN_ARENA_BYTES);
    if (plan_parse(plan, &a, &parsed, &err) < 0 || plan_compile(parsed, NULL, &sql, &err) < 0)
        fail_msg("%s", err.message);
    for (const char *p = buf_cstr(&sql); *p && k + 1 < n; p++)
        if (!(*p == '\n' || *p == ' ') || (k > 0 && ret[k - 1] != ' '))
            ret[k++] = *p == '\n' ? ' ' : *p;
    ret[k] = '\0';
}

/* Asks one question after the other; the caller gets the last answer, and its arena. */
static void ask(const struct nl_schema *s, const char *const *questions, struct arena *a,
                struct nl_answer *ret)
{
    struct err err = ERR_INIT;
    auto_json json_t *plan = NULL;
    const char *before = NULL;
    for (size_t i = 0; questions[i]; i++) {
        struct nl_context ctx = { .previous_plan = plan, .previous_question = before };
        assert_int_equal(nl_plan(s, questions[i], before ? &ctx : NULL, a, ret, &err), 0);
        before = ret->meant ? ret->meant : questions[i];
        if (!questions[i + 1])
            break;
        assert_int_equal(ret->status, NL_ANSWERED);
        json_decref(plan);
        plan = json_incref(ret->choices[0].plan);
        nl_answer_finish(ret);
    }
}

#define LARGEST_FIRST "GROUP BY \"region\" ORDER BY \"total_cost\" DESC, \"region\" ASC LIMIT 1000"
#define BY_REGION "SELECT \"region\", SUM(\"cost\") AS \"total_cost\" FROM \"deliveries\" "

static void test_follow_ups(void **state)
{
    static const struct {
        const char *questions[4], *sql;
    } cases[] = {
        { { "total cost", "and by region?" }, BY_REGION LARGEST_FIRST },
        { { "total cost by product", "and by region?" }, BY_REGION LARGEST_FIRST },
        { { "total cost by region", "only the late ones" },
          BY_REGION "WHERE \"late\" = TRUE " LARGEST_FIRST },
        { { "total cost by region", "only Books" },
          BY_REGION "WHERE \"product\" = 'Books' " LARGEST_FIRST },
        { { "total cost by region", "only Books", "what about Toys?" },
          BY_REGION "WHERE \"product\" = 'Toys' " LARGEST_FIRST },
        { { "total cost by region", "without Books" },
          BY_REGION "WHERE \"product\" != 'Books' " LARGEST_FIRST },
        { { "total cost by region", "what about March?" },
          BY_REGION
          "WHERE \"sent_on\" >= '2024-03-01' AND \"sent_on\" < '2024-04-01' " LARGEST_FIRST },
        { { "total cost by region", "in May 2023", "and in June 2023?" },
          BY_REGION
          "WHERE \"sent_on\" >= '2023-06-01' AND \"sent_on\" < '2023-07-01' " LARGEST_FIRST },
        { { "top 5 regions by cost", "top 3 instead" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 3" },
        { { "total cost by region", "top 3" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC, \"region\" ASC LIMIT 3" },
        { { "total cost by region", "and the average?" },
          "SELECT \"region\", AVG(\"cost\") AS \"avg_cost\" FROM \"deliveries\" GROUP BY "
          "\"region\" ORDER BY \"avg_cost\" DESC, \"region\" ASC LIMIT 1000" },
        { { "how many deliveries by region", "and the median cost?" },
          "SELECT \"region\", MEDIAN(\"cost\") AS \"median_cost\" FROM \"deliveries\" GROUP BY "
          "\"region\" ORDER BY \"median_cost\" DESC, \"region\" ASC LIMIT 1000" },
        { { "total cost by region", "sort by cost descending" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 1000" },
        { { "total cost by region", "sort by region" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"region\" ASC LIMIT 1000" },
        { { "total cost by region", "as a chart" }, BY_REGION LARGEST_FIRST },
        { { "how many deliveries in 2023", "and in 2024?", "only Toys" },
          "SELECT COUNT(*) AS \"row_count\" FROM \"deliveries\" WHERE \"product\" = 'Toys' AND "
          "\"sent_on\" >= '2024-01-01' AND \"sent_on\" < '2025-01-01' LIMIT 1000" },
        { { "average cost of Books by region", "for Toys" },
          "SELECT \"region\", AVG(\"cost\") AS \"avg_cost\" FROM \"deliveries\" WHERE "
          "\"product\" = 'Toys' GROUP BY \"region\" ORDER BY \"avg_cost\" DESC, \"region\" ASC "
          "LIMIT 1000" },
        { { "total cost of Books by region", "remove the filter" }, BY_REGION LARGEST_FIRST },
        { { "total cost by region", "as percentages" },
          "SELECT \"region\", SUM(\"cost\") AS \"total_cost\", (100.0 * SUM(\"cost\") / "
          "SUM(SUM(\"cost\")) OVER ()) AS \"percentage\" FROM \"deliveries\" " LARGEST_FIRST },
        { { "total cost by region", "which is the lowest?" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" ASC, \"region\" ASC LIMIT 1" },
        { { "which region has the highest total cost?", "and the second highest?" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 1 OFFSET 1" },
        { { "total cost by region", "only Books", "what's the total?" },
          "SELECT SUM(\"cost\") AS \"total_cost\" FROM \"deliveries\" WHERE \"product\" = "
          "'Books' LIMIT 1000" },
        { { "top 5 regions by cost", "make it 10" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 10" },
        { { "top 5 regions by cost", "show all of them" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 1000" },
        { { "total cost by region", "break it down by product" },
          "SELECT \"region\", \"product\", SUM(\"cost\") AS \"total_cost\" FROM "
          "\"deliveries\" GROUP BY \"region\", \"product\" ORDER BY \"total_cost\" DESC LIMIT "
          "1000" },
        { { "total cost by product", "only North", "and by region?" },
          BY_REGION "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 1000" },
        { { "total cost by region", "May 2023" },
          BY_REGION
          "WHERE \"sent_on\" >= '2023-05-01' AND \"sent_on\" < '2023-06-01' " LARGEST_FIRST },
        { { "which region has the highest total cost?", "what is its average cost?" },
          "SELECT AVG(\"cost\") AS \"avg_cost\" FROM \"deliveries\" WHERE \"region\" IN ( "
          "SELECT \"region\" FROM ( " BY_REGION
          "GROUP BY \"region\" ORDER BY \"total_cost\" DESC LIMIT 1 ) AS \"source\" ) LIMIT "
          "1000" },
        { { "how many deliveries were late?", "and per month?" },
          "SELECT CAST(date_trunc('month', \"sent_on\") AS DATE) AS \"month\", COUNT(*) AS \"row_count\" FROM \"deliveries\" WHERE \"late\" = "
          "TRUE GROUP BY CAST(date_trunc('month', \"sent_on\") AS DATE) ORDER BY \"month\" ASC LIMIT 1000" },
    };
    struct nl_schema *s = schema_of_deliveries();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_arena struct arena a;
        struct nl_answer answer;
        char sql[2000];
        arena_init(&a, 8 * NL_ARENA_BYTES);
        ask(s, cases[i].questions, &a, &answer);
        if (answer.n_choices == 0)
            fail_msg("'%s' after '%s' is not understood", cases[i].questions[1],
                     cases[i].questions[0]);
        to_sql(answer.choices[0].plan, sql, sizeof(sql));
        if (strcmp(sql, cases[i].sql) != 0)
            print_error("'%s' after '%s'\n", cases[i].questions[1], cases[i].questions[0]);
        assert_string_equal(sql, cases[i].sql);
        assert_int_equal(answer.status, NL_ANSWERED);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

static void test_charts(void **state)
{
    static const struct {
        const char *questions[3], *mark, *x;
    } cases[] = {
        { { "total cost by region", "as a chart" }, "bar", "region" },
        { { "total cost by region", "as a pie chart please" }, "arc", "region" },
        { { "total cost per month", "make it a bar chart" }, "bar", "month" },
        { { "total cost per month", "plot it" }, "line", "month" },
    };
    struct nl_schema *s = schema_of_deliveries();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_arena struct arena a;
        struct nl_answer answer;
        arena_init(&a, 8 * NL_ARENA_BYTES);
        ask(s, cases[i].questions, &a, &answer);
        assert_int_equal(answer.status, NL_ANSWERED);
        assert_non_null(answer.choices[0].chart);
        assert_string_equal(json_string_value(json_object_get(answer.choices[0].chart, "mark")),
                            cases[i].mark);
        assert_string_equal(json_string_value(json_object_get(
                                json_object_get(answer.choices[0].chart, "x"), "field")),
                            cases[i].x);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* The same with and without what came before. */
static void test_complete_questions_stand_alone(void **state)
{
    static const char *const questions[] = { "how many deliveries are there?",
                                             "average cost by carrier",
                                             "which region has the highest total cost?",
                                             "and how many deliveries were late in 2023?" };
    struct nl_schema *s = schema_of_deliveries();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer alone, after;
        arena_init(&a, 8 * NL_ARENA_BYTES);
        ask(s, (const char *const[]){ "total cost by product", questions[i], NULL }, &a, &after);
        assert_int_equal(nl_plan(s, questions[i], NULL, &a, &alone, &err), 0);
        assert_int_equal(alone.status, NL_ANSWERED);
        assert_true(json_equal(alone.choices[0].plan, after.choices[0].plan));
        nl_answer_finish(&alone);
        nl_answer_finish(&after);
    }
    nl_schema_destroy(s);
}

/* A plan that somebody else wrote, and words that mean nothing here. */
static void test_what_cannot_follow(void **state)
{
    static const char *const plans[] = {
        "{}", "[]", "{\"table\": \"nowhere\"}",
        "{\"table\": 5, \"select\": {\"a\": 1}, \"filters\": 7}",
        ("{\"table\": \"deliveries\", \"select\": [1, {}, null], \"group_by\": \"x\", \"order_by\": [3], "
         "\"filters\": [null, {\"not\": 1}]}")
    };
    static const char *const questions[] = { "and by region?",      "as a chart",   "top 3 instead",
                                             "and the average?",    "sort by cost", "without Books",
                                             "only the purple ones" };
    struct nl_schema *s = schema_of_deliveries();
    struct err err = ERR_INIT;
    (void)state;
    for (size_t p = 0; p < ARRAY_SIZE(plans); p++)
        for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
            auto_arena struct arena a;
            struct nl_answer answer;
            auto_json json_t *plan = json_loads(plans[p], JSON_DECODE_ANY, NULL);
            assert_non_null(plan);
            arena_init(&a, 2 * NL_ARENA_BYTES);
            assert_int_equal(
                nl_plan(s, questions[i], &(struct nl_context){ plan, "?" }, &a, &answer, &err), 0);
            nl_answer_finish(&answer);
        }
    auto_arena struct arena a;
    struct nl_answer answer;
    arena_init(&a, 8 * NL_ARENA_BYTES);
    ask(s, (const char *const[]){ "total cost by region", "only the purple ones", NULL }, &a,
        &answer);
    assert_int_not_equal(answer.status, NL_ANSWERED);
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follow_ups),
        cmocka_unit_test(test_charts),
        cmocka_unit_test(test_complete_questions_stand_alone),
        cmocka_unit_test(test_what_cannot_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
