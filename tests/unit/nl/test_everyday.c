/*
 * Everyday questions over three tables: a lending library with its members and loans, and what each
 * becomes.
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

struct table {
    const char *name;
    long long rows;
    const char *columns[9][2];
};

static const struct table tables[] = {
    { "loans",
      8000,
      { { "loan_id", "BIGINT" },
        { "member_id", "BIGINT" },
        { "branch", "VARCHAR" },
        { "genre", "VARCHAR" },
        { "fee", "DOUBLE" },
        { "days_kept", "BIGINT" },
        { "lent_at", "TIMESTAMP" },
        { "overdue", "BOOLEAN" } } },
    { "members",
      900,
      { { "member_id", "BIGINT" },
        { "name", "VARCHAR" },
        { "town", "VARCHAR" },
        { "joined_on", "DATE" } } },
};

static const struct {
    int table, column;
    const char *value;
} values[] = {
    { 0, 2, "Harbour" }, { 0, 2, "Hilltop" }, { 0, 2, "Market" }, { 0, 3, "Crime" },
    { 0, 3, "Poetry" },  { 0, 3, "History" }, { 1, 2, "Dover" },  { 1, 2, "Leeds" },
};

static struct nl_schema *schema_of_library(void)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    assert_int_equal(nl_schema_create("library", &s, &err), 0);
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        assert_int_equal(nl_schema_add_table(s, tables[t].name, tables[t].rows, &err), (int)t);
        for (int c = 0; tables[t].columns[c][0]; c++)
            assert_int_equal(nl_schema_add_column(s, (int)t, tables[t].columns[c][0],
                                                  tables[t].columns[c][1], &err),
                             c);
    }
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        assert_int_equal(
            nl_schema_add_value(s, values[i].table, values[i].column, values[i].value, &err), 0);
    assert_int_equal(
        nl_schema_set_range(s, 0, 6, "2023-01-02 09:00:00", "2024-05-31 18:30:00", &err), 0);
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
        if (*p != '"' && (!(*p == '\n' || *p == ' ') || (k > 0 && ret[k - 1] != ' ')))
            ret[k++] = *p == '\n' ? ' ' : *p;
    ret[k] = '\0';
}

#define MONTH "CAST(date_trunc('month', lent_at) AS DATE)"
#define LAST " LIMIT 1000"

static void test_questions(void **state)
{
    static const struct {
        const char *question, *sql;
    } cases[] = {
        { "how many loans were there?", "SELECT COUNT(*) AS row_count FROM loans" LAST },
        { "total fee by branch", "SELECT branch, SUM(fee) AS total_fee FROM loans GROUP BY branch "
                                 "ORDER BY total_fee DESC, branch ASC" LAST },
        { "fees by branch", "SELECT branch, SUM(fee) AS total_fee FROM loans GROUP BY branch "
                            "ORDER BY total_fee DESC, branch ASC" LAST },
        { "median fee of poetry loans",
          "SELECT MEDIAN(fee) AS median_fee FROM loans WHERE genre = 'Poetry'" LAST },
        { "overdue rate by genre",
          "SELECT genre, 100.0 * COUNT(CASE WHEN overdue = TRUE THEN 1 END) / COUNT(overdue) AS "
          "percentage_overdue FROM loans GROUP BY genre "
          "ORDER BY percentage_overdue DESC, genre ASC" LAST },
        { "how many loans are overdue?",
          "SELECT COUNT(*) AS row_count FROM loans WHERE overdue = TRUE" LAST },
        { "what share of fees comes from crime?",
          "SELECT 100.0 * SUM(CASE WHEN genre = 'Crime' THEN fee END) / SUM(fee) AS percentage FROM loans" LAST },
        { "share of loans by branch",
          "SELECT branch, COUNT(*) AS row_count, (100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()) AS "
          "percentage FROM loans "
          "GROUP BY branch ORDER BY row_count DESC, branch ASC" LAST },
        { "loans per month",
          "SELECT " MONTH " AS month, COUNT(*) AS row_count FROM loans GROUP BY " MONTH
          " ORDER BY month ASC" LAST },
        { "loans by branch and genre",
          "SELECT branch, genre, COUNT(*) AS row_count FROM loans GROUP BY branch, genre "
          "ORDER BY row_count DESC, branch ASC, genre ASC" LAST },
        { "genre split by branch",
          "SELECT branch, genre, COUNT(*) AS row_count FROM loans GROUP BY branch, genre "
          "ORDER BY row_count DESC, branch ASC, genre ASC" LAST },
        { "total fee in March",
          "SELECT SUM(fee) AS total_fee FROM loans WHERE lent_at >= '2024-03-01' AND lent_at < '2024-04-01'" LAST },
        { "how many loans in the last 24 hours?",
          "SELECT COUNT(*) AS row_count FROM loans WHERE lent_at > '2024-05-30 18:30:00'" LAST },
        { "how many loans in the last 3 months?",
          "SELECT COUNT(*) AS row_count FROM loans WHERE lent_at >= '2024-03-01'" LAST },
        { "how many loans were not in Harbour?",
          "SELECT COUNT(*) AS row_count FROM loans WHERE branch != 'Harbour'" LAST },
        { "how many loans have no fee?",
          "SELECT COUNT(*) AS row_count FROM loans WHERE fee = 0" LAST },
        { "top 3 branches by fee",
          "SELECT branch, SUM(fee) AS total_fee FROM loans GROUP BY branch ORDER BY total_fee "
          "DESC LIMIT 3" },
        { "which genre is the most popular?",
          "SELECT genre, COUNT(*) AS row_count FROM loans WHERE genre IS NOT NULL GROUP BY genre "
          "ORDER BY "
          "row_count DESC LIMIT 1" },
        { "total fee by town",
          "SELECT members.town, SUM(loans.fee) AS total_fee FROM loans JOIN members ON "
          "loans.member_id = members.member_id "
          "GROUP BY members.town "
          "ORDER BY total_fee DESC, members.town ASC" LAST },
        { "members by town", "SELECT town, COUNT(*) AS row_count FROM members GROUP BY town "
                             "ORDER BY row_count DESC, town ASC" LAST },
    };
    struct nl_schema *s = schema_of_library();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        char sql[2000] = "";
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_plan(s, cases[i].question, NULL, &a, &answer, &err), 0);
        if (answer.n_choices > 0)
            to_sql(answer.choices[0].plan, sql, sizeof(sql));
        if (strcmp(sql, cases[i].sql) != 0)
            print_error("%s\n", cases[i].question);
        assert_string_equal(sql, cases[i].sql);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* What is offered instead of an answer has one. */
static void test_suggestions_work(void **state)
{
    struct nl_schema *s = schema_of_library();
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer declined;
    (void)state;
    arena_init(&a, 8 * NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, "will the moon quarrel with philosophy, or merely whisper?", NULL,
                             &a, &declined, &err),
                     0);
    assert_int_equal(declined.status, NL_DECLINED);
    assert_int_equal(declined.n_suggestions, 3);
    for (size_t i = 0; i < declined.n_suggestions; i++) {
        struct nl_answer answer;
        assert_int_equal(nl_plan(s, declined.suggestions[i], NULL, &a, &answer, &err), 0);
        if (answer.status != NL_ANSWERED)
            fail_msg("'%s' is offered and not answered", declined.suggestions[i]);
        nl_answer_finish(&answer);
    }
    nl_answer_finish(&declined);
    nl_schema_destroy(s);
}

/* Rows that a join repeats are counted once. */
static void test_repeated_rows_count_once(void **state)
{
    struct nl_schema *s = schema_of_library();
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    char sql[2000];
    (void)state;
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, "how many members by branch", NULL, &a, &answer, &err), 0);
    assert_true(answer.n_choices > 0);
    to_sql(answer.choices[0].plan, sql, sizeof(sql));
    assert_string_equal(sql, "SELECT branch, COUNT(DISTINCT member_id) AS distinct_member_id "
                             "FROM loans GROUP BY branch "
                             "ORDER BY distinct_member_id DESC, branch ASC" LAST);
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

/* The kinds of questions that only the reader by rules knows. */
static void test_rules(void **state)
{
    static const struct {
        const char *question, *rule, *sql;
    } cases[] = {
        { "what columns does the loans table have?", "columns",
          "SELECT column_name, column_type FROM (DESCRIBE loans) LIMIT 200" },
        { "which members never borrowed anything?", "absent",
          "SELECT member_id, name FROM members WHERE member_id NOT IN ( SELECT * FROM ( "
          "SELECT member_id FROM loans ) AS "
          "list(item) WHERE item IS NOT NULL )" LAST },
        { "do fee and days kept correlate?", "correlation",
          "SELECT CORR(fee, days_kept) AS correlation FROM loans" LAST },
        { "cumulative fee by month", "series",
          "SELECT " MONTH " AS month, SUM(fee) AS total_fee, SUM(SUM(fee)) OVER (ORDER "
          "BY " MONTH ") AS running_total FROM loans "
          "GROUP BY " MONTH " ORDER BY month ASC" LAST },
        { "how many loans have an above average fee?", "than the average",
          "SELECT COUNT(*) AS row_count FROM loans WHERE fee > ( SELECT AVG(fee) AS "
          "average FROM loans )" LAST },
        { "average number of loans per member", "mean of groups",
          "SELECT AVG(row_count) AS average FROM ( SELECT member_id, COUNT(*) AS "
          "row_count FROM loans WHERE member_id IS NOT NULL "
          "GROUP BY member_id ) AS source LIMIT 200" },
        { "how many members have more than 5 loans?", "groups with",
          "SELECT COUNT(*) AS row_count FROM ( SELECT member_id, COUNT(*) AS row_count "
          "FROM loans WHERE member_id IS NOT NULL "
          "GROUP BY member_id HAVING COUNT(*) > 5 ) AS source LIMIT 200" },
        { "how many loans were kept longer than average?", "than the average",
          "SELECT COUNT(*) AS row_count FROM loans WHERE days_kept > ( SELECT AVG(days_kept) AS "
          "average FROM loans )" LAST },
        { "total fee by member town", "sums",
          "SELECT members.town, SUM(loans.fee) AS total_fee FROM loans JOIN members ON "
          "loans.member_id = members.member_id GROUP BY members.town ORDER BY total_fee DESC, "
          "members.town ASC" LAST },
        { "a pie chart of genres", "sums",
          "SELECT genre, COUNT(*) AS row_count FROM loans GROUP BY genre ORDER BY row_count DESC, "
          "genre ASC" LAST },
        { "maximum fee per member", "sums",
          "SELECT members.member_id, MAX(loans.fee) AS max_fee FROM loans JOIN members ON "
          "loans.member_id = members.member_id GROUP BY members.member_id ORDER BY "
          "members.member_id ASC" LAST },
        { "fee per day kept by branch", "ratio",
          "SELECT branch, SUM(fee) * 1.0 / SUM(days_kept) AS ratio FROM loans GROUP BY branch "
          "ORDER BY ratio DESC, branch ASC" LAST },
        { "is crime cheaper than poetry?", "sums",
          "SELECT genre, AVG(fee) AS avg_fee FROM loans WHERE genre IN ('Crime', 'Poetry') "
          "GROUP BY genre ORDER BY avg_fee DESC, genre ASC" LAST },
        { "does the fee go up with days kept?", "correlation",
          "SELECT CORR(fee, days_kept) AS correlation FROM loans" LAST },
        { "difference in average fee between Harbour and Market", "difference",
          "SELECT AVG(CASE WHEN branch = 'Harbour' THEN fee END) AS Harbour, AVG(CASE WHEN "
          "branch = 'Market' THEN fee END) AS Market, AVG(CASE WHEN branch = 'Harbour' "
          "THEN fee END) - AVG(CASE WHEN branch = 'Market' THEN fee END) AS difference "
          "FROM loans WHERE branch IN ('Harbour', 'Market')" LAST },
        { "weekends compared to weekdays, average fee", "weekend",
          "SELECT CASE WHEN dayname(lent_at) IN ('Saturday', 'Sunday') THEN 'weekend' ELSE "
          "'weekday' END AS days, AVG(fee) AS avg_fee FROM loans GROUP BY CASE WHEN "
          "dayname(lent_at) IN ('Saturday', 'Sunday') THEN 'weekend' ELSE 'weekday' END "
          "ORDER BY days ASC" LAST },
        { "average loans per month", "mean of groups",
          "SELECT AVG(row_count) AS average FROM ( SELECT CAST(date_trunc('month', "
          "lent_at) AS DATE) AS month, COUNT(*) AS row_count FROM loans GROUP BY "
          "CAST(date_trunc('month', lent_at) AS DATE) ) AS source LIMIT 200" },
        { "average daily fee per branch", "mean of groups",
          "SELECT group_of, AVG(total_fee) AS average FROM ( SELECT CAST(date_trunc('day', "
          "lent_at) AS DATE) AS day, branch AS group_of, SUM(fee) AS total_fee FROM loans "
          "GROUP BY CAST(date_trunc('day', lent_at) AS DATE), branch ) AS source GROUP BY "
          "group_of LIMIT 200" },
        { "latest 5 loans", "ranking",
          "SELECT loan_id, lent_at FROM loans WHERE lent_at IS NOT NULL ORDER BY lent_at "
          "DESC LIMIT 5" },
        { "which genres are there", "list", "SELECT DISTINCT genre FROM loans" LAST },
        { "in which month was the fee highest", "ranking",
          "SELECT CAST(date_trunc('month', lent_at) AS DATE) AS month, SUM(fee) AS "
          "total_fee FROM loans GROUP BY CAST(date_trunc('month', lent_at) AS DATE) ORDER "
          "BY total_fee DESC LIMIT 1" },
        { "loans with 10 to 20 days kept", "list",
          "SELECT loan_id, days_kept, member_id, branch, genre, fee, lent_at, overdue FROM "
          "loans WHERE days_kept BETWEEN 10 AND 20" LAST },
        { "unusually high fee at Harbour", "outliers",
          "SELECT loan_id, fee FROM loans WHERE branch = 'Harbour' AND fee > ( SELECT "
          "QUANTILE_CONT(fee, 0.75) + 1.5 * (QUANTILE_CONT(fee, 0.75) - QUANTILE_CONT(fee, "
          "0.25)) AS edge FROM loans WHERE branch = 'Harbour' ) ORDER BY fee DESC" LAST },
        { "most popular genre in each branch", "ranking",
          "SELECT branch, genre, row_count FROM ( SELECT branch, genre, COUNT(*) AS "
          "row_count, rank() OVER (PARTITION BY branch "
          "ORDER BY COUNT(*) DESC NULLS LAST) AS place FROM loans WHERE genre IS NOT "
          "NULL GROUP BY branch, genre ) AS source WHERE "
          "place <= 1 ORDER BY branch ASC, place ASC" LAST },
    };
    struct nl_schema *s = schema_of_library();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        char sql[2000] = "";
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_plan(s, cases[i].question, NULL, &a, &answer, &err), 0);
        if (answer.n_choices > 0)
            to_sql(answer.choices[0].plan, sql, sizeof(sql));
        if (strcmp(sql, cases[i].sql) != 0 || answer.status != NL_ANSWERED)
            print_error("%s\n", cases[i].question);
        assert_string_equal(sql, cases[i].sql);
        assert_int_equal(answer.status, NL_ANSWERED);
        assert_string_equal(answer.choices[0].rule, cases[i].rule);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* What no query gives is declined by its name; words that mean nothing here are named. */
static void test_declined_by_name(void **state)
{
    struct nl_schema *s = schema_of_library();
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    (void)state;
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, "what will the fees be next year?", NULL, &a, &answer, &err), 0);
    assert_int_equal(answer.status, NL_DECLINED);
    assert_string_equal(answer.reason, "the future");
    nl_answer_finish(&answer);
    assert_int_equal(nl_plan(s, "how many loans of imported cookbooks?", NULL, &a, &answer, &err),
                     0);
    assert_int_not_equal(answer.status, NL_ANSWERED);
    assert_int_equal(answer.n_not_understood, 2);
    assert_string_equal(answer.not_understood[0], "imported");
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

/* What leans on a question that is not there, and what leaves out a part of what was said. */
static void test_not_answered(void **state)
{
    static const char *const questions[] = { "and in May?", "only Poetry", "what about Leeds?",
                                             "how many loans came back on time?",
                                             "how many loans were rated 5" };
    struct nl_schema *s = schema_of_library();
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_plan(s, questions[i], NULL, &a, &answer, &err), 0);
        if (answer.status == NL_ANSWERED)
            fail_msg("'%s' is answered", questions[i]);
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* Numbers that count the rows are neither offered nor summed up. */
static void test_serial_numbers(void **state)
{
    struct nl_schema *s = NULL;
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    (void)state;
    assert_int_equal(nl_schema_create("d", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "tickets", 500, &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "ticket", "BIGINT", &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "seat", "BIGINT", &err), 1);
    assert_int_equal(nl_schema_add_column(s, 0, "fare", "DOUBLE", &err), 2);
    nl_schema_set_counts(s, 0, 0, 0, true);
    nl_schema_set_counts(s, 0, 1, 0, true);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, "xyzzy plugh", NULL, &a, &answer, &err), 0);
    assert_int_not_equal(answer.status, NL_ANSWERED);
    assert_string_equal(answer.suggestions[1], "what is the average fare?");
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

/* Columns of pages and spreadsheets, whose names no program would have. */
static void test_names_with_spaces(void **state)
{
    struct nl_schema *s = NULL;
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    struct nl_answer answer;
    (void)state;
    assert_int_equal(nl_schema_create("page", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "t_1", 20, &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "Bird (English)", "VARCHAR", &err), 0);
    assert_int_equal(nl_schema_add_column(s, 0, "Wing span, cm", "BIGINT", &err), 1);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_plan(s, "what is the average wing span?", NULL, &a, &answer, &err), 0);
    assert_int_equal(answer.status, NL_ANSWERED);
    assert_string_equal(answer.choices[0].reading, "average of `Wing span, cm` of `t_1`");
    nl_answer_finish(&answer);
    nl_schema_destroy(s);
}

/* A sanitizer makes planning many times slower: it sees the same code in a sample of the rounds. */
#if defined(__SANITIZE_ADDRESS__)
#define ROUNDS 200
#else
#define ROUNDS 1000
#endif

/* Words in any order: no crash, and every plan that comes of them compiles. */
static void test_any_words(void **state)
{
    static const char *const words[] = { "how many",
                                         "which",
                                         "what",
                                         "who",
                                         "total",
                                         "average",
                                         "median",
                                         "highest",
                                         "lowest",
                                         "most",
                                         "least",
                                         "most common",
                                         "top 3",
                                         "bottom",
                                         "by",
                                         "per",
                                         "each",
                                         "and",
                                         "or",
                                         "not",
                                         "no",
                                         "without",
                                         "only",
                                         "between",
                                         "more than",
                                         "less than",
                                         "at least",
                                         "after",
                                         "before",
                                         "since",
                                         "last",
                                         "first",
                                         "next",
                                         "previous",
                                         "share of",
                                         "rate",
                                         "percentage of",
                                         "in March",
                                         "in 2024",
                                         "last 30 days",
                                         "monthly",
                                         "month",
                                         "weekday",
                                         "over time",
                                         "trend",
                                         "sorted by",
                                         "descending",
                                         "different",
                                         "number of",
                                         "difference between",
                                         "loans",
                                         "members",
                                         "branch",
                                         "genre",
                                         "fee",
                                         "fees",
                                         "days kept",
                                         "lent at",
                                         "overdue",
                                         "town",
                                         "name",
                                         "joined on",
                                         "member",
                                         "Harbour",
                                         "Hilltop",
                                         "Crime",
                                         "Poetry",
                                         "Dover",
                                         "\"Leeds\"",
                                         "'x'",
                                         "5",
                                         "10",
                                         "1,000",
                                         "2023",
                                         "3rd",
                                         "$40",
                                         "as a chart",
                                         "instead",
                                         "what about",
                                         "compare",
                                         "distribution of",
                                         "out of",
                                         "longest",
                                         "on Mondays",
                                         "during working hours",
                                         "contains",
                                         "starts with A",
                                         "empty",
                                         "is",
                                         "are",
                                         "?",
                                         ",",
                                         "revenue",
                                         "purple",
                                         "the",
                                         "of",
                                         "with",
                                         "for",
                                         "from",
                                         "to" };
    struct nl_schema *s = schema_of_library();
    auto_json json_t *before = NULL;
    uint32_t seed = 12345;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct err err = ERR_INIT;
        auto_arena struct arena a;
        struct nl_answer answer;
        char question[600] = "", sql[4000];
        for (int n = 1 + round % 9; n > 0; n--) {
            seed = seed * 1664525u + 1013904223u;
            strcat(question, words[(seed >> 8) % ARRAY_SIZE(words)]);
            strcat(question, " ");
        }
        arena_init(&a, 2 * NL_ARENA_BYTES);
        struct nl_context ctx = { .previous_plan = before, .previous_question = "?" };
        assert_int_equal(nl_plan(s, question, round % 2 ? &ctx : NULL, &a, &answer, &err), 0);
        for (size_t i = 0; i < answer.n_choices; i++) {
            auto_arena struct arena b;
            auto_buf struct buf out = BUF_INIT(1u << 20);
            struct query_plan *plan;
            arena_init(&b, PLAN_ARENA_BYTES);
            if (plan_parse(answer.choices[i].plan, &b, &plan, &err) < 0 ||
                plan_compile(plan, NULL, &out, &err) < 0)
                fail_msg("'%s': %s: %s", question, answer.choices[i].reading, err.message);
        }
        if (answer.n_choices > 0) {
            json_decref(before);
            before = json_incref(answer.choices[0].plan);
            to_sql(before, sql, sizeof(sql));
        }
        nl_answer_finish(&answer);
    }
    nl_schema_destroy(s);
}

/* What words do to each other by where they stand, on a table of trips between places. */
struct asked {
    const char *question, *sql; /* NULL: no answer */
};

static void check_asked(const struct nl_schema *s, const struct asked *cases, size_t n)
{
    struct err err = ERR_INIT;
    for (size_t i = 0; i < n; i++) {
        auto_arena struct arena a;
        struct nl_answer answer;
        char sql[2000] = "";
        arena_init(&a, NL_ARENA_BYTES);
        assert_int_equal(nl_plan(s, cases[i].question, NULL, &a, &answer, &err), 0);
        if (answer.status == NL_ANSWERED)
            to_sql(answer.choices[0].plan, sql, sizeof(sql));
        if (strcmp(sql, cases[i].sql ? cases[i].sql : "") != 0)
            print_error("%s\n", cases[i].question);
        assert_string_equal(sql, cases[i].sql ? cases[i].sql : "");
        nl_answer_finish(&answer);
    }
}

/* Rows that are called as what they sum up to, and columns with names that are cut short. */
static void test_amounts(void **state)
{
    static const char *const columns[][2] = { { "entered_on", "DATE" }, { "sale_dt", "DATE" },
                                              { "region", "VARCHAR" },  { "prod_nm", "VARCHAR" },
                                              { "qty", "BIGINT" },      { "amt", "DOUBLE" },
                                              { "transit_h", "BIGINT" } };
    static const struct asked cases[] = {
        { "sales by region",
          "SELECT region, SUM(amt) AS total_amt FROM sales GROUP BY region ORDER BY total_amt DESC, "
          "region ASC LIMIT 1000" },
        { "how many sales by region",
          "SELECT region, COUNT(*) AS row_count FROM sales GROUP BY region ORDER BY row_count DESC, "
          "region ASC LIMIT 1000" },
        { "sales in May 2024",
          "SELECT SUM(amt) AS total_amt FROM sales WHERE sale_dt >= '2024-05-01' AND sale_dt < "
          "'2024-06-01' LIMIT 1000" },
        { "which region sells the most",
          "SELECT region, SUM(qty) AS total_qty FROM sales GROUP BY region "
          "ORDER BY total_qty DESC LIMIT 1" },
        { "top region by amount", "SELECT region, SUM(amt) AS total_amt FROM sales GROUP BY region "
                                  "ORDER BY total_amt DESC LIMIT 1" },
        { "total quantity by product",
          "SELECT prod_nm, SUM(qty) AS total_qty FROM sales GROUP BY prod_nm ORDER BY total_qty DESC, "
          "prod_nm ASC LIMIT 1000" },
        { "total hours by region",
          "SELECT region, SUM(transit_h) AS total_transit_h FROM sales GROUP BY region ORDER BY "
          "total_transit_h DESC, region ASC LIMIT 1000" },
        { "top 3 regions by diagnosis", NULL },
    };
    static const char *const regions[] = { "North", "South" };
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    (void)state;
    assert_int_equal(nl_schema_create("shop", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "sales", 900, &err), 0);
    for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
        assert_int_equal(nl_schema_add_column(s, 0, columns[c][0], columns[c][1], &err), (int)c);
    for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
        assert_int_equal(nl_schema_add_value(s, 0, 2, regions[i], &err), 0);
    assert_int_equal(nl_schema_set_range(s, 0, 1, "2023-01-02", "2024-05-31", &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    check_asked(s, cases, ARRAY_SIZE(cases));
    nl_schema_destroy(s);
}

static void test_constructions(void **state)
{
    static const char *const columns[][2] = {
        { "trip", "VARCHAR" },         { "left_on", "DATE" },    { "origin", "VARCHAR" },
        { "destination", "VARCHAR" },  { "carrier", "VARCHAR" }, { "dep_delay_min", "BIGINT" },
        { "arr_delay_min", "BIGINT" }, { "fare_eur", "DOUBLE" }, { "cancelled", "BOOLEAN" }
    };
    static const struct asked cases[] = {
        { "trips from Oslo to Rome, how many?",
          "SELECT COUNT(*) AS row_count FROM trips WHERE origin = 'Oslo' AND destination = 'Rome' LIMIT 1000" },
        { "how many Oslo trips", NULL }, /* from there, or to it? */
        { "average delay at departure by carrier",
          "SELECT carrier, AVG(dep_delay_min) AS avg_dep_delay_min FROM trips GROUP BY carrier "
          "ORDER BY avg_dep_delay_min DESC, carrier ASC LIMIT 1000" },
        { "how much did we earn with Norwave",
          "SELECT SUM(fare_eur) AS total_fare_eur FROM trips WHERE carrier = 'Norwave' LIMIT 1000" },
        { "trip volume per carrier",
          "SELECT carrier, COUNT(*) AS row_count FROM trips GROUP BY carrier ORDER BY row_count DESC, carrier ASC LIMIT 1000" },
        { "split the trips by carrier type",
          "SELECT carrier, COUNT(*) AS row_count FROM trips GROUP BY carrier ORDER BY row_count DESC, carrier ASC LIMIT 1000" },
        { "how many trips are still out", NULL },
        { "how much VAT did we pay", NULL },
        { "revenue by carrier",
          "SELECT carrier, SUM(fare_eur) AS total_fare_eur FROM trips GROUP BY carrier "
          "ORDER BY total_fare_eur DESC, carrier ASC LIMIT 1000" },
        { "cancelled trips between 10 and 20 March 2024, how many",
          "SELECT COUNT(*) AS row_count FROM trips WHERE cancelled = TRUE AND left_on >= '2024-03-10' AND "
          "left_on < '2024-03-21' LIMIT 1000" },
    };
    static const struct {
        int column;
        const char *value;
    } places[] = { { 2, "Oslo" }, { 2, "Rome" },    { 3, "Oslo" },
                   { 3, "Rome" }, { 4, "Norwave" }, { 4, "Iberis" } };
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    (void)state;
    assert_int_equal(nl_schema_create("travel", &s, &err), 0);
    assert_int_equal(nl_schema_add_table(s, "trips", 900, &err), 0);
    for (size_t c = 0; c < ARRAY_SIZE(columns); c++)
        assert_int_equal(nl_schema_add_column(s, 0, columns[c][0], columns[c][1], &err), (int)c);
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        assert_int_equal(nl_schema_add_value(s, 0, places[i].column, places[i].value, &err), 0);
    assert_int_equal(nl_schema_set_range(s, 0, 1, "2023-01-02", "2024-05-31", &err), 0);
    assert_int_equal(nl_schema_finish(s, &err), 0);
    check_asked(s, cases, ARRAY_SIZE(cases));
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constructions),
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_declined_by_name),
        cmocka_unit_test(test_suggestions_work),
        cmocka_unit_test(test_repeated_rows_count_once),
        cmocka_unit_test(test_not_answered),
        cmocka_unit_test(test_serial_numbers),
        cmocka_unit_test(test_names_with_spaces),
        cmocka_unit_test(test_any_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
