/* Questions of every kind over two small tables, and the SQL that they become. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "nl/nl.h"
#include "plan/compile.h"

static struct nl_schema *schema_of_shop(void)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    static const char *const cities[] = { "Paris", "London", "Rome", "New York" },
                             *const categories[] = { "Toys", "Books", "Food" };
    assert_int_equal(nl_schema_create("shop", &s, &err), 0);
    int t = nl_schema_add_table(s, "sales", 1000, &err);
    static const char *const columns[][2] = { { "sale_id", "BIGINT" }, { "category", "VARCHAR" },
                                              { "amount", "DOUBLE" },  { "city", "VARCHAR" },
                                              { "sale_date", "DATE" }, { "returned", "BOOLEAN" } };
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        assert_int_equal(nl_schema_add_column(s, t, columns[i][0], columns[i][1], &err), (int)i);
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
        assert_int_equal(nl_schema_add_value(s, t, 1, categories[i], &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cities); i++)
        assert_int_equal(nl_schema_add_value(s, t, 3, cities[i], &err), 0);
    assert_int_equal(nl_schema_set_range(s, t, 4, "2023-01-01", "2024-12-31", &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

/* The SQL of the best reading on one line. */
static void sql_of(const struct nl_schema *s, const char *question, char *ret, size_t n)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a, b;
    auto_buf struct buf sql = BUF_INIT(1u << 20);
    struct nl_answer answer;
    struct query_plan *plan;
    arena_init(&a, NL_ARENA_BYTES);
    arena_init(&b, PLAN_ARENA_BYTES);
    assert_int_equal(nl_plan(s, question, NULL, &a, &answer, &err), 0);
    assert_true(answer.n_choices > 0);
    assert_int_equal(plan_parse(answer.choices[0].plan, &b, &plan, &err), 0);
    assert_int_equal(plan_compile(plan, NULL, &sql, &err), 0);
    size_t k = 0;
    for (const char *p = buf_cstr(&sql); *p && k + 1 < n; p++)
        if (!(*p == '\n' || *p == ' ') || (k > 0 && ret[k - 1] != ' '))
            ret[k++] = *p == '\n' ? ' ' : *p;
    ret[k] = '\0';
    nl_answer_finish(&answer);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *question, *sql;
    } cases[] = {
        { "How many sales are there?",
          "SELECT COUNT(*) AS \"row_count\" FROM \"sales\" LIMIT 1000" },
        { "What is the average amount?",
          "SELECT AVG(\"amount\") AS \"avg_amount\" FROM \"sales\" LIMIT 1000" },
        { "median amount",
          "SELECT MEDIAN(\"amount\") AS \"median_amount\" FROM \"sales\" LIMIT 1000" },
        { "What is the maximum amount?",
          "SELECT MAX(\"amount\") AS \"max_amount\" FROM \"sales\" LIMIT 1000" },
        { "minimum and maximum amount",
          "SELECT MIN(\"amount\") AS \"min_amount\", MAX(\"amount\") AS \"max_amount\" FROM "
          "\"sales\" LIMIT 1000" },
        { "how many different cities are there?",
          "SELECT COUNT(DISTINCT \"city\") AS \"distinct_city\" FROM \"sales\" LIMIT 1000" },
        { "total amount by category",
          "SELECT \"category\", SUM(\"amount\") AS \"total_amount\" FROM \"sales\" GROUP BY "
          "\"category\" "
          "ORDER BY \"total_amount\" DESC, \"category\" ASC LIMIT 1000" },
        { "how many sales for each city",
          "SELECT \"city\", COUNT(*) AS \"row_count\" FROM \"sales\" GROUP BY \"city\" "
          "ORDER BY \"row_count\" DESC, \"city\" ASC LIMIT 1000" },
        { "top 5 categories by amount",
          "SELECT \"category\", SUM(\"amount\") AS \"total_amount\" FROM \"sales\" GROUP BY "
          "\"category\" "
          "ORDER BY \"total_amount\" DESC LIMIT 5" },
        { "average amount in Paris",
          "SELECT AVG(\"amount\") AS \"avg_amount\" FROM \"sales\" WHERE \"city\" = 'Paris' LIMIT "
          "1000" },
        { "how many sales are in Paris or New York?",
          "SELECT COUNT(*) AS \"row_count\" FROM \"sales\" WHERE \"city\" IN ('Paris', 'New York') LIMIT 1000" },
        { "how many sales have an amount greater than 1,000",
          "SELECT COUNT(*) AS \"row_count\" FROM \"sales\" WHERE \"amount\" > 1000 LIMIT 1000" },
        { "how many sales have an amount between 10 and 20",
          "SELECT COUNT(*) AS \"row_count\" FROM \"sales\" WHERE \"amount\" BETWEEN 10 AND 20 LIMIT 1000" },
        { "total amount in March 2024",
          "SELECT SUM(\"amount\") AS \"total_amount\" FROM \"sales\" WHERE \"sale_date\" >= "
          "'2024-03-01' "
          "AND \"sale_date\" < '2024-04-01' LIMIT 1000" },
        { "total amount in the last 30 days",
          "SELECT SUM(\"amount\") AS \"total_amount\" FROM \"sales\" WHERE \"sale_date\" >= '2024-12-02' LIMIT 1000" },
        { "total amount per month",
          "SELECT CAST(date_trunc('month', \"sale_date\") AS DATE) AS \"month\", SUM(\"amount\") "
          "AS "
          "\"total_amount\" FROM \"sales\" GROUP BY CAST(date_trunc('month', \"sale_date\") AS "
          "DATE) ORDER BY "
          "\"month\" ASC LIMIT 1000" },
        { "What is the most common category?",
          "SELECT \"category\", COUNT(*) AS \"row_count\" FROM \"sales\" WHERE \"category\" IS NOT "
          "NULL GROUP BY \"category\" ORDER BY \"row_count\" DESC LIMIT 1" },
        { "which categories have more than 3 sales",
          "SELECT \"category\", COUNT(*) AS \"row_count\" FROM \"sales\" WHERE \"category\" IS NOT "
          "NULL GROUP BY \"category\" HAVING COUNT(*) > 3 ORDER BY \"row_count\" DESC, "
          "\"category\" ASC LIMIT 1000" },
    };
    struct nl_schema *s = schema_of_shop();
    char sql[2000];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        sql_of(s, cases[i].question, sql, sizeof(sql));
        if (strcmp(sql, cases[i].sql) != 0)
            print_error("%s\n", cases[i].question);
        assert_string_equal(sql, cases[i].sql);
    }
    nl_schema_destroy(s);
}

/* Kinds of questions whose reading has to be among the candidates; weights choose. */
static void test_among_the_readings(void **state)
{
    static const struct {
        const char *question, *reading;
    } cases[] = {
        { "sales with an amount above 50 or below 20",
          "all columns of `sales` where `amount` > 50 or `amount` < 20" },
        { "which cities have two or more sales",
          "groups by `city` of `sales` where number of rows >= 2" },
        { "sales in 2024 or after", "all columns of `sales` where `sale_date` >= '2024-01-01'" },
        { "cities with an amount over 500 and an amount under 100",
          "different `city` of `sales` where `city` is among: `city` of `sales` where "
          "`amount` > 500 and `city` is among: `city` of `sales` where `amount` < 100" },
        { "the average amount for Toys and Books",
          "average of `amount` by `category` of `sales` where `category` = 'Toys' or "
          "'Books'" },
        { "the top 3 highest amounts",
          "`sale_id` of `sales`, ordered by `amount` downwards, top 3" },
        { "city and amount of all sales, sorted by amount descending and then by city",
          "`city`, `amount` of `sales`, ordered by `amount` downwards, then `city`" },
        { "cities that came up at least twice",
          "groups by `city` of `sales` where number of rows >= 2" },
        { "the number of different cities and categories",
          "number of different `city`, number of different `category` of `sales`" },
        { "which categories are in the same city as Toys",
          "different `category` of `sales` where `city` = the greatest `city` of `sales` "
          "where `category` = 'Toys' and `category` not = 'Toys'" },
        { "cities that end with the letter e", "all columns of `sales` where `city` endswith 'e'" },
    };
    struct nl_schema *s = schema_of_shop();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        json_t *all = NULL, *c;
        size_t k;
        bool found = false;
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_candidates(s, cases[i].question, &a, &all, &err), 0);
        json_array_foreach(all, k, c)
            found = found ||
                    strcmp(json_string_value(json_object_get(c, "reading")), cases[i].reading) == 0;
        json_array_foreach(all, k, c)
            if (!found)
                print_error("'%s': %s\n", cases[i].question,
                            json_string_value(json_object_get(c, "reading")));
        json_decref(all);
        assert_true(found);
    }
    nl_schema_destroy(s);
}

/* What the best reading calls its figure; readings that are not valid plans are no choices. */
static void assert_named(const struct nl_schema *s, const char *question, const char *name)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, question, NULL, &a, &answer, &err), 0);
    assert_true(answer.n_choices > 0);
    const json_t *select = json_object_get(answer.choices[0].plan, "select");
    assert_string_equal(json_string_value(json_object_get(json_array_get(select, 0), "alias")),
                        name);
    nl_answer_finish(&answer);
}

/* A reading in words says which rows it is about, whichever rule made it. */
static void test_words_name_the_rows(void **state)
{
    static const char *const cases[] = {
        "highest amount in Rome",
        "the 3 sales with the highest amount in Rome",
        "difference in average amount between Toys and Books in Rome",
        "amount at weekends vs weekdays in Rome",
        "running total of amount by month in Rome",
    };
    struct nl_schema *s = schema_of_shop();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_plan(s, cases[i], NULL, &a, &answer, &err), 0);
        assert_true(answer.n_choices > 0);
        if (!strstr(answer.choices[0].reading, "`city` = 'Rome'"))
            fail_msg("'%s' is read as: %s", cases[i], answer.choices[0].reading);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* Signs and letters of other scripts in names of columns. */
static void test_signs_in_names(void **state)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    (void)state;
    assert_int_equal(nl_schema_create("garden", &s, &err), 0);
    int t = nl_schema_add_table(s, "plots", 50, &err);
    assert_true(nl_schema_add_column(s, t, "Rent (€)", "DOUBLE", &err) >= 0);
    assert_true(nl_schema_add_column(s, t, "Soil °C", "DOUBLE", &err) >= 0);
    assert_true(nl_schema_add_column(s, t, "Größe", "DOUBLE", &err) >= 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    assert_named(s, "average rent", "avg_Rent");
    assert_named(s, "maximum soil", "max_Soil_C");
    assert_named(s, "median größe", "median_Größe");
    nl_schema_destroy(s);
}

static void test_nonsense_is_declined(void **state)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    struct nl_schema *s = schema_of_shop();
    (void)state;
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(
        nl_plan(
            s,
            "does the purple elephant dream of quantum thunder tonight, and why would anybody care",
            NULL, &a, &answer, &err),
        0);
    assert_int_equal(answer.status, NL_DECLINED);
    assert_int_equal(answer.n_suggestions, 3);
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

static void test_bad_questions(void **state)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    struct nl_schema *s = schema_of_shop();
    char *longer = test_malloc(NL_QUESTION_MAX_BYTES + 2);
    (void)state;
    arena_init(&a, NL_ARENA_BYTES);
    memset(longer, 'a', NL_QUESTION_MAX_BYTES + 1);
    longer[NL_QUESTION_MAX_BYTES + 1] = '\0';
    assert_int_equal(nl_plan(s, longer, NULL, &a, &answer, &err), -ERR_VALIDATION);
    assert_int_equal(nl_plan(s, "caf\xe9", NULL, &a, &answer, &err), -ERR_VALIDATION);
    assert_int_equal(nl_plan(s, "", NULL, &a, &answer, &err), 0);
    assert_int_equal(answer.status == NL_ANSWERED, 0);
    nl_answer_finish(&answer);
    test_free(longer);
    nl_schema_destroy(s);
}

static void test_same_rows_are_one_answer(void **state)
{
    struct nl_answer answer = { .n_choices = 2, .others = 1 };
    size_t order[NL_CHOICES_MAX];
    auto_json json_t *rows = json_pack("[[i]]", 5), *again = json_pack("[[i]]", 5);
    const json_t *both[NL_CHOICES_MAX] = { rows, again };
    (void)state;
    answer.choices[0] = (struct nl_choice){ .reading = "a", .score = 0.1 };
    answer.choices[1] = (struct nl_choice){ .reading = "b", .score = 0.0 };
    nl_settle(&answer, both, order);
    assert_int_equal(answer.n_choices, 1);
    assert_int_equal(order[0], 0);
    assert_int_equal(answer.status, NL_ANSWERED);
    nl_answer_finish(&answer);
}

/* Of the processor: a busy machine makes nothing slower. */
static int64_t used_us(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The best of a few plans over a table of so many columns. */
static int64_t planning_us(int columns)
{
    static const char question[] =
        "what is the average measure of part 7 for each measure of part 8?";
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    assert_int_equal(nl_schema_create("wide", &s, &err), 0);
    int t = nl_schema_add_table(s, "readings", 100000, &err);
    for (int i = 0; i < columns; i++) {
        char name[64];
        snprintf(name, sizeof(name), "measure_of_part_%d", i);
        const char *type = i % 2 ? "DOUBLE" : "VARCHAR";
        assert_true(nl_schema_add_column(s, t, name, type, &err) >= 0);
    }
    assert_int_equal(nl_schema_finish(s, &err), 0);
    int64_t best_us = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        auto_arena struct arena a;
        struct nl_answer answer;
        arena_init(&a, NL_ARENA_BYTES);
        int64_t start = used_us();
        assert_int_equal(nl_plan(s, question, NULL, &a, &answer, &err), 0);
        best_us = MIN_OF(best_us, used_us() - start);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
    return best_us;
}

/* How planning grows, not how long it takes: bench/planner measures that. */
static void test_planning_grows_with_columns(void **state)
{
    (void)state;
    int64_t narrow = planning_us(25), wide = planning_us(100);
    print_message("planning: %lld us over 25 columns, %lld us over 100\n", (long long)narrow,
                  (long long)wide);
    assert_true(wide < 16 * narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_among_the_readings),
        cmocka_unit_test(test_words_name_the_rows),
        cmocka_unit_test(test_signs_in_names),
        cmocka_unit_test(test_nonsense_is_declined),
        cmocka_unit_test(test_bad_questions),
        cmocka_unit_test(test_planning_grows_with_columns),
        cmocka_unit_test(test_same_rows_are_one_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
