/* Sentences about results of every shape. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/shape.h"
#include "agent/summary.h"
#include "base/macros.h"
#include "shop.h"

#define TWO "'columns':['city','total_amount'],'types':['VARCHAR','DOUBLE'],"

static void test_sentences(void **state)
{
    (void)state;
    static const struct {
        const char *result, *language, *reading, *want;
    } cases[] = {
        { "{'columns':[],'rows':[],'error':{'type':'X','message':'no such column'}}", "sql", "r",
          "This could not be run: no such column." },
        { "{'columns':['a'],'rows':[],'error':null}", "sql", NULL, "No row fits." },
        { "{'columns':['a'],'rows':[]}", "plan", "all columns of `t`",
          "No row fits: all columns of `t`." },
        { "{'columns':[],'rows':[]}", "python", NULL, "The code ran and gave no table." },
        { "{'columns':['total_orders'],'rows':[[4018]]}", "sql", NULL, "There are 4,018 orders." },
        { "{'columns':['order_count'],'rows':[[1]]}", "sql", NULL, "There is 1 order." },
        { "{'columns':['row_count'],'rows':[[0]]}", "plan", "number of rows of `t`",
          "The count is 0. Read as: number of rows of `t`." },
        { "{'columns':['avg_price'],'types':['DOUBLE'],'rows':[[1234.5678]]}", "sql", NULL,
          "Average price: 1,234.57." },
        { "{'columns':['total_amount'],'types':['DOUBLE'],'rows':[[-1234567.5]]}", "sql", NULL,
          "Total amount: -1,234,567.5." },
        { "{'columns':['rate'],'types':['DOUBLE'],'rows':[[0.034567]]}", "sql", NULL,
          "Rate: 3.46 %." },
        { "{'columns':['total'],'types':['HUGEINT'],'rows':[['123456789012345678901']]}", "sql",
          NULL, "Total: 123,456,789,012,345,678,901." },
        { "{'columns':['max_date'],'types':['DATE'],'rows':[['2024-01-05']]}", "sql", NULL,
          "Greatest date: 2024-01-05." },
        { "{'columns':['sum_x'],'types':['DOUBLE'],'rows':[[null]]}", "sql", NULL,
          "There is no total x: nothing to compute it from." },
        { "{'columns':['quarter','percentage'],'types':['DATE','DOUBLE'],"
          "'rows':[['2024-04-01',5.5],"
          "['2024-07-01',94.5]]}",
          "sql", NULL,
          "Percentage by quarter, Q2 2024 to Q3 2024: highest in Q3 2024 (94.5 %), lowest in Q2 "
          "2024 "
          "(5.5 %)." },
        { "{'columns':['plan','cancelled_rate'],'types':['VARCHAR','DOUBLE'],'rows':[['a',0.25],"
          "['b',0.125]]}",
          "sql", NULL, "Cancelled rate by plan: highest for a (25 %), down to b (12.5 %)." },
        { "{'columns':['exchange_rate'],'types':['DOUBLE'],'rows':[[0.85]]}", "sql", NULL,
          "Exchange rate: 0.85." },
        { "{'columns':['year'],'types':['BIGINT'],'rows':[[2024]]}", "sql", NULL, "Year: 2024." },
        { "{" TWO "'rows':[['Paris',1500]]}", "sql", NULL, "City: Paris, total amount: 1,500." },
        { "{" TWO "'rows':[['Paris',1500.25],['Rome',20.0],['Oslo',3.0]]}", "sql", NULL,
          "Total amount by city: highest for Paris (1,500.25), down to Oslo (3)." },
        { "{" TWO "'rows':[['Oslo',3.0],['Rome',20.0]]}", "sql", NULL,
          "Total amount by city: lowest for Oslo (3), up to Rome (20)." },
        { "{" TWO "'rows':[['Paris',20.0],['Rome',20.0],['Oslo',3.0]]}", "sql", NULL,
          "Total amount by city: highest for Paris and Rome (20), down to Oslo (3)." },
        { "{" TWO "'rows':[['Paris',20.0],['Rome',20.0],['Bern',20.0],['Oslo',3.0]]}", "sql", NULL,
          "Total amount by city: highest for Paris and 2 others (20), down to Oslo (3)." },
        { "{" TWO "'rows':[['Paris',79203.125],['Rome',20.0]]}", "sql", NULL,
          "Total amount by city: highest for Paris (79,203.13), down to Rome (20)." },
        { "{'columns':['region','row_count','percentage'],'types':['VARCHAR','BIGINT','DOUBLE'],"
          "'rows':[['West',333,27.75],['Nord',270,22.5]]}",
          "plan", NULL,
          "Percentage by region: highest for West (27.75 %), down to Nord (22.5 %)." },
        { "{'columns':['year','sum_x','percentage'],'types':['BIGINT','DOUBLE','DOUBLE'],"
          "'rows':[[2015,3,30],[2022,3,30],[2020,4,40]]}",
          "plan", NULL,
          "Percentage by year: lowest for year 2015 and year 2022 (30 %), up to year 2020 "
          "(40 %)." },
        { "{" TWO "'rows':[['Paris',20.0],['Rome',20.0]]}", "sql", NULL,
          "All 2 rows have the same total amount (20)." },
        { "{" TWO "'rows':[['Paris',20.0],['Rome',20.0],['Oslo',null]]}", "sql", NULL,
          "3 rows. The first: city Paris, total amount 20." },
        { "{" TWO "'rows':[['Paris',30.0],['Rome',20.0]],'truncated':true}", "sql", NULL,
          "Total amount by city: highest for Paris (30). Only the first 2 rows were kept; there "
          "are more." },
        { "{" TWO "'rows':[['Paris',10.0],['Rome',20.0],['Oslo',15.0]],'truncated':true}", "sql",
          NULL,
          "Total amount by city, of the rows that were kept: highest for Rome (20), lowest for "
          "Paris (10). "
          "Only the first 3 rows were kept; there are more." },
        { "{'columns':['month','n'],'types':['TIMESTAMP','BIGINT'],'rows':[['2024-01-01T00:00:00',5],['2024-02-01T00:00:00',7],"
          "['2024-03-01T00:00:00',6]]}",
          "sql", NULL,
          "Count by month, Jan 2024 to Mar 2024: highest in Feb 2024 (7), lowest in Jan 2024 "
          "(5)." },
        { "{'columns':['year','n'],'types':['BIGINT','BIGINT'],'rows':[[2023,5],[2024,7]]}", "sql",
          NULL, "Count by year: lowest for year 2023 (5), up to year 2024 (7)." },
        { "{'columns':['city','kind','n'],'types':['VARCHAR','VARCHAR','BIGINT'],'rows':[['Rome','a',9],['Rome',null,7],['Oslo','a',1]]}",
          "sql", NULL, "Count by city and kind: highest for Rome / a (9), down to Oslo / a (1)." },
        { "{'columns':['a','b','c'],'types':['VARCHAR','BIGINT','DOUBLE'],"
          "'rows':[['x',1000,2.5],['y',2,3]]}",
          "sql", NULL, "2 rows. The first: a x, b 1,000, c 2.5." },
        { "{'columns':['a','b','c'],'rows':[['x',1,true],['y',2,true],['y',2,true],['y',2,true],['y',2,true],['y',2,true]]}",
          "python", NULL, "The code gave 6 rows with 3 columns." },
        { "{'columns':['a','b','c'],'types':['VARCHAR','VARCHAR','VARCHAR'],'rows':[['x','y','z'],"
          "['u','v','w']],'truncated':true}",
          "sql", NULL, "The query gave more than 2 rows with 3 columns." },
        { "{'columns':['a'],'rows':[['one\\nline']]}", "sql", NULL, "A: one?line." },
        { "{'columns':['x','y'],'types':['object','float64'],'rows':[['a',1.5],['b',0.5]]}",
          "python", NULL, "Y by x: highest for a (1.5), down to b (0.5)." },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_json json_t *result = json_of(cases[i].result);
        auto_buf struct buf b = BUF_INIT(4096);
        assert_int_equal(summary_write(result, cases[i].language, cases[i].reading, &b, &err), 0);
        assert_string_equal(buf_cstr(&b), cases[i].want);
    }
}

static void test_a_full_buffer_is_left_as_it_was(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    auto_json json_t *result = json_of("{'columns':['avg_price'],'rows':[[1.5]]}");
    auto_buf struct buf b = BUF_INIT(12);
    assert_int_equal(buf_append_str(&b, "so: ", &err), 0);
    assert_int_equal(summary_write(result, "sql", NULL, &b, &err), -ERR_TOO_LARGE);
    assert_string_equal(buf_cstr(&b), "so: ");
}

static void test_kinds(void **state)
{
    (void)state;
    auto_json json_t *r = json_of(
        "{'columns':['id','order_count','x','d','t','m','l','i','h'],"
        "'types':['BIGINT','int64','object','datetime64[ns]','category','object','INTEGER[]','INTERVAL','UHUGEINT'],"
        "'rows':[[1,2,1.5,'2024-01-01 00:00:00','a',1,[1],'1 day','99999999999999999999'],[2,2,2,null,'b','x',null,null,null]]}");
    static const enum shape_kind want[] = { SHAPE_INTEGER, SHAPE_INTEGER, SHAPE_NUMBER,
                                            SHAPE_TIME,    SHAPE_TEXT,    SHAPE_OTHER,
                                            SHAPE_OTHER,   SHAPE_TEXT,    SHAPE_INTEGER };
    for (size_t i = 0; i < ARRAY_SIZE(want); i++)
        assert_int_equal(shape_kind_of(r, i), want[i]);
    assert_true(shape_is_label(r, 0));
    assert_false(shape_is_label(r, 1));
    assert_true(shape_is_date("2024-01-05T10:30:00Z"));
    assert_false(shape_is_date("2024-01-05x"));
    assert_false(shape_is_date("12"));
}

static void test_words_of_columns(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "total_total", "total" },
        { "sum_total", "total" },
        { "total_Order_No_", "total Order No" },
        { "avg_price", "average price" },
        { "a__b", "a b" },
        { "row_count", "number of rows" },
        { "__", "__" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char words[SHAPE_WORDS_SIZE];
        shape_words(cases[i][0], words);
        assert_string_equal(words, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_sentences),
                                        cmocka_unit_test(test_a_full_buffer_is_left_as_it_was),
                                        cmocka_unit_test(test_kinds),
                                        cmocka_unit_test(test_words_of_columns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
