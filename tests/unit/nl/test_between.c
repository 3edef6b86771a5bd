/*
 * Questions about what lies between two columns of a row, about states by other words than the data
 * has for them, and with nouns that can be left out: repairs, with their dates and reasons.
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

#define LAST " LIMIT 1000"
#define DAYS(from, to) "date_diff('day', " #from ", " #to ")"

static const char *const columns[][2] = {
    { "repair_id", "BIGINT" },      { "reported_on", "DATE" },     { "due_on", "DATE" },
    { "fixed_on", "DATE" },         { "outcome", "VARCHAR" },      { "fault_reason", "VARCHAR" },
    { "parts_on_hand", "BIGINT" },  { "reorder_level", "BIGINT" }, { "cost_eur", "DOUBLE" },
    { "engineer_email", "VARCHAR" }, { "Job No", "VARCHAR" },
    { "receiver", "VARCHAR" },
};

static const struct {
    int column;
    const char *value;
} values[] = { { 4, "Rejected" }, { 4, "Fixed" }, { 5, "Water damage" }, { 5, "Broken screen" },
             { 11, "Ana" },      { 11, "Bo" } };

static struct nl_schema *schema_of_repairs(void)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    assert_int_equal(nl_schema_create("shop", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "repairs", 900, &err), 0);
    for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
        assert_int_equal(nl_schema_add_column(s, 0, columns[c][0], columns[c][1], &err), (int)c);
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        assert_int_equal(nl_schema_add_value(s, 0, values[i].column, values[i].value, &err), 0);
    for (int c = 1; c <= 3; c++)
        assert_int_equal(nl_schema_set_range(s, 0, c, "2024-01-02", "2025-05-31", &err), 0);
    assert_int_equal(nl_schema_set_range(s, 0, 6, "0", "80", &err), 0);
    assert_int_equal(nl_schema_set_range(s, 0, 7, "5", "40", &err), 0);
    assert_int_equal(nl_schema_set_range(s, 0, 8, "3.50", "900", &err), 0);
    nl_schema_set_counts(s, 0, 3, 40, false);
    nl_schema_set_counts(s, 0, 9, 30, false);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

/* NULL: no answer is given. */
static void assert_read(const struct nl_schema *s, const char *question, const char *sql)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a, of_plan;
    auto_buf struct buf text = BUF_INIT(1u << 16);
    struct nl_answer answer = { .n_choices = 0 };
    struct query_plan *plan;
    char said[2000];
    size_t k = 0;
    arena_init(&a, NL_ARENA_BYTES);
    arena_init(&of_plan, PLAN_ARENA_BYTES);
    assert_int_equal(nl_plan(s, question, NULL, &a, &answer, &err), 0);
    bool answered = answer.status == NL_ANSWERED;
    if (answered != (sql != NULL))
        fail_msg("%s: %s", question, nl_status_names[answer.status]);
    if (answered) {
        assert_int_equal(plan_parse(answer.choices[0].plan, &of_plan, &plan, &err), 0);
        assert_int_equal(plan_compile(plan, NULL, &text, &err), 0);
        for (const char *p = buf_cstr(&text); *p && k + 1 < sizeof(said); p++)
            if (*p != '"' && (!(*p == '\n' || *p == ' ') || (k > 0 && said[k - 1] != ' ')))
                said[k++] = *p == '\n' ? ' ' : *p;
        said[k] = '\0';
        if (strcmp(said, sql) != 0)
            fail_msg("%s:\n  %s\n  %s", question, said, sql);
    }
    nl_answer_finish(&answer);
}

static void test_between(void **state)
{
    static const char *const cases[][2] = {
        { "how many days does it take on average until a repair is fixed?",
          "SELECT AVG(" DAYS(reported_on, fixed_on) ") AS avg_days_from_reported_on_to_fixed_on "
          "FROM repairs" LAST },
        { "how long does it take to fix a repair, by outcome?",
          "SELECT outcome, AVG(" DAYS(reported_on, fixed_on) ") AS "
          "avg_days_from_reported_on_to_fixed_on FROM repairs GROUP BY outcome "
          "ORDER BY avg_days_from_reported_on_to_fixed_on DESC, outcome ASC" LAST },
        { "how many repairs took more than 25 days from report to fix?",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE " DAYS(reported_on, fixed_on)
          " > 25" LAST },
        { "how many repairs were fixed after they were due?",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE " DAYS(due_on, fixed_on) " > 0" LAST },
        { "what share of the repairs was fixed late?",
          "SELECT 100.0 * COUNT(CASE WHEN " DAYS(due_on, fixed_on)
          " > 0 AND outcome = 'Fixed' THEN 1 END) / COUNT(*) AS percentage FROM repairs" LAST },
        { "what percentage of water damage repairs were fixed late?",
          "SELECT 100.0 * COUNT(CASE WHEN " DAYS(due_on, fixed_on)
          " > 0 AND outcome = 'Fixed' THEN 1 END) / COUNT(*) AS percentage FROM repairs "
          "WHERE fault_reason = 'Water damage'" LAST },
        { "how many repairs have parts on hand below the reorder level?",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE parts_on_hand - reorder_level < 0" LAST },
        /* of three dates none is spoken of */
        { "how long does it take on average?", NULL },
    };
    struct nl_schema *s = schema_of_repairs();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_read(s, cases[i][0], cases[i][1]);
    nl_schema_destroy(s);
}

static void test_states(void **state)
{
    static const char *const cases[][2] = {
        { "rejection rate by fault reason",
          "SELECT fault_reason, 100.0 * COUNT(CASE WHEN outcome = 'Rejected' THEN 1 END) / "
          "COUNT(*) AS percentage FROM repairs GROUP BY fault_reason "
          "ORDER BY percentage DESC, fault_reason ASC" LAST },
        { "why do repairs come in?",
          "SELECT fault_reason, COUNT(*) AS row_count FROM repairs GROUP BY fault_reason "
          "ORDER BY row_count DESC, fault_reason ASC" LAST },
        { "how many repairs have no engineer e-mail?",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE engineer_email IS NULL" LAST },
        { "how many repairs are there where we dont have an engineer email?",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE engineer_email IS NULL" LAST },
        { "what share of the repairs has an engineer email?",
          "SELECT 100.0 * COUNT(CASE WHEN engineer_email IS NOT NULL THEN 1 END) / COUNT(*) AS "
          "percentage FROM repairs" LAST },
        { "who received the most repairs?",
          "SELECT receiver, COUNT(*) AS row_count FROM repairs WHERE receiver IS NOT NULL "
          "GROUP BY receiver ORDER BY row_count DESC LIMIT 1" },
    };
    struct nl_schema *s = schema_of_repairs();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_read(s, cases[i][0], cases[i][1]);
    nl_schema_destroy(s);
}

static void test_numbers_and_nouns(void **state)
{
    static const char *const cases[][2] = {
        /* 300 lies within the costs only */
        { "how many fixed ones over 300",
          "SELECT COUNT(*) AS row_count FROM repairs WHERE cost_eur > 300 AND outcome = 'Fixed'" LAST },
        { "how many fixed ones over 20", NULL },
        { "average device cost by outcome",
          "SELECT outcome, AVG(cost_eur) AS avg_cost_eur FROM repairs GROUP BY outcome "
          "ORDER BY avg_cost_eur DESC, outcome ASC" LAST },
        { "average cost in Oslo by outcome", NULL },
    };
    struct nl_schema *s = schema_of_repairs();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_read(s, cases[i][0], cases[i][1]);
    nl_schema_destroy(s);
}

/* Both tables have a shop: the words that are of one table only say which is meant. */
static void test_fewer_tables(void **state)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    (void)state;
    assert_int_equal(nl_schema_create("shops", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "courses", 40, &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "shop", "VARCHAR", &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "places", "BIGINT", &err), 1);
    assert_int_equal(nl_schema_add_table(s, "till_log", 900, &err), 1);
    assert_int_equal(nl_schema_add_column(s, 1, "shopName", "VARCHAR", &err), 0);
    assert_int_equal(nl_schema_add_column(s, 1, "cafeRev", "DOUBLE", &err), 1);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(nl_schema_add_value(s, t, 0, "Harbour", &err), 0);
        assert_int_equal(nl_schema_add_value(s, t, 0, "Sportdome", &err), 0);
    }
    assert_int_equal(nl_schema_finish(s, &err), 0);
    assert_read(s, "total cafe income for Sportdome",
                "SELECT SUM(cafeRev) AS total_cafeRev FROM till_log WHERE shopName = "
                "'Sportdome'" LAST);
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_numbers_and_nouns),
        cmocka_unit_test(test_fewer_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
