/* Descriptions, units and metrics that people wrote: the questions that they make answerable. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "nl/nl.h"
#include "plan/compile.h"

struct told {
    int table, column;
    const char *text;
};
struct metric {
    const char *name, *meaning;
};

static const struct told none[] = { { -1, -1, NULL } };

/* Two tables whose columns have short names, as exports of older systems do. */
static struct nl_schema *schema_of(const struct told *told, size_t n_told,
                                   const struct metric *metrics, size_t n_metrics)
{
    static const char *const columns[][3] = {
        { "0", "id", "BIGINT" },      { "0", "cust_id", "BIGINT" }, { "0", "st", "VARCHAR" },
        { "0", "qty", "BIGINT" },     { "0", "prc", "DOUBLE" },     { "0", "v1", "DOUBLE" },
        { "0", "v2", "DOUBLE" },      { "0", "day", "DATE" },       { "1", "cust_id", "BIGINT" },
        { "1", "region", "VARCHAR" },
    };
    static const char *const statuses[] = { "completed", "returned", "open" };
    static const char *const regions[] = { "North", "South" };
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    assert_int_equal(nl_schema_create("shop", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "orders", 1000, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "customers", 100, &err), 1);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        assert_true(
            nl_schema_add_column(s, *columns[i][0] - '0', columns[i][1], columns[i][2], &err) >= 0);
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
        assert_int_equal(nl_schema_add_value(s, 0, 2, statuses[i], &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
        assert_int_equal(nl_schema_add_value(s, 1, 1, regions[i], &err), 0);
    assert_int_equal(nl_schema_add_relationship(s, "orders.cust_id", "customers.cust_id", &err), 0);
    for (size_t i = 0; i < n_told && told[i].text; i++)
        assert_int_equal(
            nl_schema_tell_column(s, told[i].table, told[i].column, told[i].text, &err), 0);
    for (size_t i = 0; i < n_metrics; i++)
        assert_int_equal(nl_schema_add_metric(s, metrics[i].name, metrics[i].meaning, &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

/* The SQL of the best reading on one line, and how the planner says it; "-" when there is none. */
static void sql_of(const struct nl_schema *s, const char *question, char *ret, size_t n,
                   char *ret_reading)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a, b;
    auto_buf struct buf sql = BUF_INIT(1u << 20);
    struct nl_answer answer;
    struct query_plan *plan;
    arena_init(&a, NL_ARENA_BYTES);
    arena_init(&b, PLAN_ARENA_BYTES);
    assert_int_equal(nl_plan(s, question, NULL, &a, &answer, &err), 0);
    snprintf(ret, n, "-");
    if (answer.n_choices > 0) {
        size_t k = 0;
        assert_int_equal(plan_parse(answer.choices[0].plan, &b, &plan, &err), 0);
        assert_int_equal(plan_compile(plan, NULL, &sql, &err), 0);
        for (const char *p = buf_cstr(&sql); *p && k + 1 < n; p++)
            if (!(*p == '\n' || *p == ' ') || (k > 0 && ret[k - 1] != ' '))
                ret[k++] = *p == '\n' ? ' ' : *p;
        ret[k] = '\0';
        if (ret_reading)
            snprintf(ret_reading, 500, "%s", answer.choices[0].reading);
    }
    nl_answer_finish(&answer);
}

static void test_descriptions_and_units_lead_to_their_column(void **state)
{
    (void)state;
    static const struct told told[] = {
        { 0, 5, "Shipping weight of the parcel (kg)" },
        { 0, 6, "Insurance premium of the order (EUR)" },
        { 0, 3, "Pieces in the order" },
    };
    static const struct {
        const char *question, *sql;
    } cases[] = {
        { "What is the average weight?",
          "SELECT AVG(\"v1\") AS \"avg_v1\" FROM \"orders\" LIMIT 1000" },
        { "total premium by st",
          "SELECT \"st\", SUM(\"v2\") AS \"total_v2\" FROM \"orders\" GROUP BY \"st\" "
          "ORDER BY \"total_v2\" DESC, \"st\" ASC LIMIT 1000" },
        { "total kg per st",
          "SELECT \"st\", SUM(\"v1\") AS \"total_v1\" FROM \"orders\" GROUP BY \"st\" "
          "ORDER BY \"total_v1\" DESC, \"st\" ASC LIMIT 1000" },
        { "maximum insurance premium",
          "SELECT MAX(\"v2\") AS \"max_v2\" FROM \"orders\" LIMIT 1000" },
        /* "order" is a table's name and no word of a description: */
        { "how many orders are there?",
          "SELECT COUNT(*) AS \"row_count\" FROM \"orders\" LIMIT 1000" },
    };
    struct nl_schema *with = schema_of(told, ARRAY_SIZE(told), NULL, 0),
                     *without = schema_of(none, 1, NULL, 0);
    char sql[2000];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        sql_of(with, cases[i].question, sql, sizeof(sql), NULL);
        assert_string_equal(sql, cases[i].sql);
        sql_of(without, cases[i].question, sql, sizeof(sql), NULL);
        assert_true((strcmp(sql, cases[i].sql) == 0) == (i == ARRAY_SIZE(cases) - 1));
    }
    nl_schema_destroy(with);
    nl_schema_destroy(without);
}

static void test_a_metric_is_a_measure(void **state)
{
    (void)state;
    static const struct metric metrics[] = {
        { "revenue", "sum of prc where st is completed" },
        { "gross merchandise value", "sum(qty * prc)" },
        { "net volume", "SUM( qty ) where st is completed" },
        { "finished orders", "number of orders where st is completed" },
        { "nonsense", "whatever the moon says" },
    };
    static const struct {
        const char *question, *sql;
    } cases[] = {
        { "What was the total revenue?", "SELECT SUM(\"prc\") AS \"total_prc\" FROM \"orders\" "
                                         "WHERE \"st\" = 'completed' LIMIT 1000" },
        { "revenue by region", "SELECT \"customers\".\"region\", SUM(\"orders\".\"prc\") AS "
                               "\"total_prc\" FROM \"orders\" JOIN \"customers\" ON "
                               "\"orders\".\"cust_id\" = \"customers\".\"cust_id\" WHERE "
                               "\"orders\".\"st\" = 'completed' GROUP BY "
                               "\"customers\".\"region\" ORDER BY \"total_prc\" DESC, "
                               "\"customers\".\"region\" ASC LIMIT 1000" },
        { "gross merchandise value by st", "SELECT \"st\", SUM(\"qty\" * \"prc\") AS \"total_qty\" "
                                           "FROM \"orders\" GROUP BY \"st\" ORDER BY "
                                           "\"total_qty\" DESC, \"st\" ASC LIMIT 1000" },
        { "net volume", "SELECT SUM(\"qty\") AS \"total_qty\" FROM \"orders\" WHERE \"st\" = "
                        "'completed' LIMIT 1000" },
        { "finished orders", "SELECT COUNT(*) AS \"row_count\" FROM \"orders\" WHERE \"st\" = "
                             "'completed' LIMIT 1000" },
    };
    struct nl_schema *s = schema_of(none, 1, metrics, ARRAY_SIZE(metrics));
    char sql[2000], reading[500] = "";
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        sql_of(s, cases[i].question, sql, sizeof(sql), reading);
        assert_string_equal(sql, cases[i].sql);
        assert_non_null(strstr(reading, ": "));
    }
    /* What the metric does not say is not made up: the average of a sum. */
    sql_of(s, "average revenue", sql, sizeof(sql), NULL);
    assert_null(strstr(sql, "completed"));
    sql_of(s, "nonsense by region", sql, sizeof(sql),
           NULL); /* read as if there were no such metric */
    nl_schema_destroy(s);
}

/* A metric that is said by its own name does not go round in circles. */
static void test_a_metric_may_name_itself(void **state)
{
    (void)state;
    static const struct metric metrics[] = { { "prc", "sum of prc where st is completed" } };
    struct nl_schema *s = schema_of(none, 1, metrics, 1);
    char sql[2000];
    sql_of(s, "total prc", sql, sizeof(sql), NULL);
    assert_string_equal(sql, "SELECT SUM(\"prc\") AS \"total_prc\" FROM \"orders\" WHERE \"st\" = "
                             "'completed' LIMIT 1000");
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions_and_units_lead_to_their_column),
        cmocka_unit_test(test_a_metric_is_a_measure),
        cmocka_unit_test(test_a_metric_may_name_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
