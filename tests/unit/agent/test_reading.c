/* Questions driven by hand: what is run, what is fed, what is answered. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "agent/reading.h"
#include "agent/summary.h"
#include "base/macros.h"
#include "base/str.h"
#include "shop.h"

static struct reading *begin(struct catalog *c, const char *question, bool run)
{
    struct err err = ERR_INIT;
    struct reading *r = NULL;
    assert_int_equal(reading_begin(c, question, NULL, run, &r, &err), 0);
    return r;
}

static const char *text_of(const struct reading *r, const char *key)
{
    return json_string_value(json_object_get(reading_answer(r), key));
}

static void test_answered(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    struct reading *r = begin(c, "total amount by city", true);
    auto_json json_t *body = json_of(
        "{'columns':['city','total_amount'],'types':['VARCHAR','DOUBLE'],'rows':[['Rome',20.0],['Paris',21.0]],"
        "'row_count':2,'truncated':false}");
    int64_t rows = 0;
    const char *sql;
    bool seen = false;
    assert_null(reading_answer(r));
    for (int i = 0; (sql = reading_next_sql(r, &rows)); i++) {
        assert_true(i <= NL_CHOICES_MAX);
        assert_int_equal(rows, READING_ROWS_MAX);
        seen |= strstr(sql, "SUM(\"amount\")") && strstr(sql, "GROUP BY \"city\"");
        reading_feed(r, body, NULL);
    }
    assert_true(seen);
    assert_string_equal(text_of(r, "status"), "answered");
    assert_non_null(strstr(text_of(r, "sql"), "SUM(\"amount\")"));
    assert_non_null(strstr(text_of(r, "reading"), "sum of `amount`"));
    assert_true(json_object_get(reading_answer(r), "rows") == json_object_get(body, "rows"));
    assert_true(json_is_false(json_object_get(reading_answer(r), "truncated")));
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(reading_answer(r), "plan"), "dataset_id")),
                        "shop");
    reading_destroy(r);
    catalog_unref(c);
}

/* What the limit left out although it equals the last row is told; rows that tie have no order. */
static void test_ties(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    struct reading *r = begin(c, "which city has the highest total amount", true);
    auto_json json_t *one = json_of(
        "{'columns':['city','total_amount'],'types':['VARCHAR','DOUBLE'],"
        "'rows':[['Rome',20.0]],'row_count':1,'truncated':false}");
    auto_json json_t *all = json_of(
        "{'columns':['city','total_amount'],'types':['VARCHAR','DOUBLE'],"
        "'rows':[['Oslo',20.0],['Rome',20.0],['Paris',3.0]],'row_count':3,'truncated':false}");
    int64_t rows = 0;
    const char *sql;
    bool asked = false;
    while ((sql = reading_next_sql(r, &rows))) {
        bool is_one = str_ends(sql, "LIMIT 1");
        asked |= !is_one;
        reading_feed(r, is_one ? one : all, NULL);
    }
    assert_true(asked);
    assert_string_equal(text_of(r, "status"), "answered");
    assert_true(json_object_get(reading_answer(r), "rows") == json_object_get(one, "rows"));
    auto_json json_t *tied = json_of("[['Oslo',20.0]]");
    const json_t *ties = json_object_get(reading_answer(r), "ties");
    assert_true(json_equal(json_object_get(ties, "rows"), tied));
    auto_buf struct buf b = BUF_INIT(1000);
    struct err err = ERR_INIT;
    assert_int_equal(summary_write_ties(ties, 1, &b, &err), 0);
    assert_string_equal(buf_cstr(&b), " Tied with it: Oslo has the same total amount.");
    reading_destroy(r);
    catalog_unref(c);
}

static void test_not_run(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    struct reading *r = begin(c, "total amount by city", false);
    int64_t rows;
    assert_null(reading_next_sql(r, &rows));
    assert_string_equal(text_of(r, "status"), "answered");
    assert_null(json_object_get(reading_answer(r), "rows"));
    assert_non_null(strstr(text_of(r, "sql"), "SUM(\"amount\")"));
    reading_destroy(r);
    catalog_unref(c);
}

/* When no reading can be run the reason is told, of the best. */
static void test_failed_run(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    struct reading *r = begin(c, "total amount by city", true);
    struct err why = ERR_INIT;
    int64_t rows;
    (void)err_set(&why, ERR_UNAVAILABLE, "no sandbox");
    while (reading_next_sql(r, &rows))
        reading_feed(r, NULL, &why);
    assert_string_equal(text_of(r, "status"), "error");
    const json_t *error = json_object_get(reading_answer(r), "error");
    assert_string_equal(json_string_value(json_object_get(error, "type")), "UNAVAILABLE");
    assert_string_equal(json_string_value(json_object_get(error, "message")), "no sandbox");
    reading_destroy(r);
    catalog_unref(c);
}

static void test_declined(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    struct reading *r = begin(c, "why does the purple elephant dream of thunder", true);
    auto_json json_t *body = json_of(
        "{'columns':['n'],'types':['BIGINT'],'rows':[[1]],'row_count':1,'truncated':false}");
    int64_t rows;
    while (reading_next_sql(r, &rows))
        reading_feed(r, body, NULL);
    assert_string_equal(text_of(r, "status"), "declined");
    assert_true(json_array_size(json_object_get(reading_answer(r), "suggestions")) > 0);
    reading_feed(r, body, NULL); /* past the end: nothing */
    reading_destroy(r);
    catalog_unref(c);
}

static void test_a_question_that_is_too_long(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    char question[NL_QUESTION_MAX_BYTES + 10];
    memset(question, 'a', sizeof(question));
    question[sizeof(question) - 1] = '\0';
    struct reading *r = begin(c, question, true);
    int64_t rows;
    assert_null(reading_next_sql(r, &rows));
    assert_string_equal(text_of(r, "status"), "error");
    reading_destroy(r);
    catalog_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answered), cmocka_unit_test(test_ties),
        cmocka_unit_test(test_not_run),  cmocka_unit_test(test_failed_run),
        cmocka_unit_test(test_declined), cmocka_unit_test(test_a_question_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
