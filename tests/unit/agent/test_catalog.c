/* What a scan asks for, what it makes of the answers, and the catalog that is made of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "data/catalog.h"
#include "data/scan.h"
#include "plan/compile.h"
#include "shop.h"

static void test_three_queries_a_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct table_scan *s = NULL;
    int64_t rows = 0;
    assert_int_equal(table_scan_create("a \"b\"", DIALECT_DUCKDB, &s, &err), 0);
    assert_string_equal(
        table_scan_next_sql(s, &rows),
        "SELECT *, (SELECT count(*) FROM \"a \"\"b\"\"\") FROM \"a \"\"b\"\"\" LIMIT 3");
    assert_int_equal(rows, 3);
    feed_scan(s, SALES_SHAPE);
    const char *sql = table_scan_next_sql(s, &rows);
    assert_non_null(strstr(sql, "max(\"sold_at\")"));
    assert_non_null(strstr(sql, "avg(\"amount\")"));
    assert_null(strstr(sql, "avg(\"city\")"));
    feed_scan(s, SALES_FIGURES);
    sql = table_scan_next_sql(s, &rows);
    assert_true(rows > 100000);
    assert_non_null(strstr(sql, "histogram(left(\"city\"::VARCHAR,"));
    assert_non_null(strstr(sql, "histogram(\"returned\")"));
    assert_null(strstr(sql, "UNION")); /* its parts are planned in the square of their number */
    feed_scan(s, SALES_VALUES);
    assert_null(table_scan_next_sql(s, &rows));
    assert_int_equal(table_scan_feed(s, NULL, &err), -ERR_CONFLICT);
    table_scan_destroy(s);
}

/* Many columns of a small table are asked about at once. */
static void test_wide_tables(void **state)
{
    (void)state;
    auto_json json_t *shape = json_pack("{s:[], s:[], s:[[]]}", "columns", "types", "rows");
    json_t *row = json_array_get(json_object_get(shape, "rows"), 0);
    struct err err = ERR_INIT;
    struct table_scan *s = NULL;
    json_t *profile, *values;
    int64_t rows = 0;
    int n = 0;
    for (int i = 0; i <= 20000; i++) {
        json_array_append_new(json_object_get(shape, "columns"), json_sprintf("c%d", i));
        json_array_append_new(json_object_get(shape, "types"), json_string("BIGINT"));
        json_array_append_new(row, json_integer(7));
    }
    auto_json json_t *figures = json_pack("{s:[[]]}", "rows");
    for (int i = 0; i < 100; i++)
        for (int f = 0; f < 5; f++)
            json_array_append_new(json_array_get(json_object_get(figures, "rows"), 0),
                                  f < 2 ? json_integer(1) : json_string("7"));
    assert_int_equal(table_scan_create("t", DIALECT_DUCKDB, &s, &err), 0);
    assert_int_equal(table_scan_feed(s, shape, &err), 0);
    for (const char *sql; (sql = table_scan_next_sql(s, &rows)); n++)
        assert_int_equal(table_scan_feed(s, figures, &err), 0);
    assert_int_equal(n, 2 * SCAN_COLUMNS / 100);
    table_scan_take(s, &profile, &values);
    assert_int_equal(json_array_size(json_object_get(profile, "columns")), PLAN_MAX_COLUMNS);
    assert_int_equal(json_integer_value(json_object_get(profile, "columns_left_out")), 10000);
    json_decref(profile);
    json_decref(values);
    table_scan_destroy(s);
}

static void test_the_record(void **state)
{
    (void)state;
    static const char *const answers[] = { SALES_SHAPE, SALES_FIGURES, SALES_VALUES };
    auto_json json_t *values = NULL,
                     *got = scan_of("sales", DIALECT_DUCKDB, answers, 3, &values);
    auto_json json_t *want = json_of(
        "{'row_count':4,'columns':["
        "{'name':'sale_id','type':'BIGINT','nulls':0,'min':1,'max':4,'mean':2.5,'distinct':4,'top':[{'value':1,'count':1},{'value':2,'count':1}],"
        "'histogram':{'from':1,'to':4,'counts':[3,0,0,0,0,0,0,0,0,0,0,1]}},"
        "{'name':'city','type':'VARCHAR','nulls':1,'min':'Paris','max':'Rome','distinct':2,'top':[{'value':'Paris','count':2},{'value':'Rome','count':1}]},"
        "{'name':'amount','type':'DOUBLE','nulls':0,'min':10.5,'max':null,'mean':20.25,'distinct':4,'top':[]},"
        "{'name':'sold_at','type':'TIMESTAMP','nulls':0,'min':'2024-01-01T10:00:00','max':'2024-12-31T09:00:00','distinct':4,'top':[]},"
        "{'name':'returned','type':'BOOLEAN','nulls':0,'min':false,'max':true,'distinct':2,'top':[{'value':false,'count':3},{'value':true,'count':1}]}],"
        "'sample_rows':[[1,'Paris',10.5,'2024-01-01T10:00:00',false],[2,'Rome',20.0,'2024-02-01T10:00:00',true]]}");
    auto_free char *text = json_to_str(got);
    if (!json_equal(got, want))
        fail_msg("%s", text);
    auto_json json_t *words = json_of("[['1','2'],['Paris','Rome'],null,null,null]");
    assert_true(json_equal(values, words));
}

/* Of a large table what hardly repeats is not grouped, and a cut answer has not counted. */
static void test_a_large_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct table_scan *s = NULL;
    int64_t rows;
    for (int cut = 0; cut < 2; cut++) {
        json_t *profile, *values;
        assert_int_equal(table_scan_create("t", DIALECT_DUCKDB, &s, &err), 0);
        feed_scan(
            s, "{'columns':['id','ref','city','n'],'types':['BIGINT','VARCHAR','VARCHAR','BIGINT'],"
               "'rows':[[1,'R1','Paris',1000000]]}");
        assert_non_null(strstr(table_scan_next_sql(s, &rows), "approx_count_distinct(\"ref\")"));
        feed_scan(s, "{'rows':[[1000000,1010000,'1','1000001','5',1000000,990000,'R1','R9',null,"
                     "900000,4,'Oslo','Rome',null]]}");
        assert_non_null(strstr(table_scan_next_sql(s, &rows),
                               " FROM (SELECT \"id\",\"ref\",\"city\" FROM \"t\" LIMIT 20000)"));
        feed_scan(s, "{'rows':[[20000,19990,3]]}");
        const char *sql = table_scan_next_sql(s, &rows);
        assert_non_null(strstr(sql, "SELECT DISTINCT \"v=\", 1 AS \"n=\" FROM (SELECT \"ref\""));
        assert_non_null(strstr(sql, "GROUP BY \"city\""));
        if (cut) /* too slow: the same of a sample, then not at all */
            assert_true(table_scan_pass(s));
        assert_int_equal(strstr(table_scan_next_sql(s, &rows), "\"city\" AS \"v=\", count(*) AS "
                                                               "\"n=\" FROM (SELECT * FROM \"t\" "
                                                               "USING SAMPLE 10.000000 PERCENT") !=
                             NULL,
                         cut);
        feed_scan(s, cut ? "{'rows':[[1,1,'R1',1],[2,1,'Paris',80]],'truncated':true}" :
                           "{'rows':[[1,1,'R1',1],[2,1,'Paris',800000],[2,1,'Rome',100000]]}");
        table_scan_take(s, &profile, &values);
        const json_t *columns = json_object_get(profile, "columns"),
                     *id = json_array_get(columns, 0), *ref = json_array_get(columns, 1),
                     *city = json_array_get(columns, 2);
        assert_true(json_is_true(json_object_get(id, "is_serial")));
        assert_int_equal(json_integer_value(json_object_get(id, "distinct")), 1000000);
        assert_true(json_is_true(json_object_get(id, "distinct_is_approximate")));
        assert_int_equal(json_array_size(json_object_get(ref, "top")), 0);
        assert_int_equal(json_integer_value(json_object_get(city, "distinct")), cut ? 4 : 2);
        assert_int_equal(json_is_true(json_object_get(city, "distinct_is_approximate")), cut);
        assert_int_equal(json_integer_value(json_object_get(profile, "sampled_rows")),
                         cut ? 100000 : 0);
        json_decref(profile);
        json_decref(values);
        table_scan_destroy(s);
    }
}

static void test_relationships(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    auto_json json_t *rels = json_of(
        "[{'from':'items.order','to':'orders.number','type':'many-to-one'},{'from':'items.nothing','to':'orders.number'}]");
    auto_json json_t *orders = json_of("{'row_count':0,'columns':[{'name':'number','type':'BIGINT'},{'name':'city','type':'VARCHAR'}]}"),
                     *items = json_of("{'row_count':0,'columns':[{'name':'order','type':'BIGINT'},{'name':'price','type':'DOUBLE'}]}");
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, rels, NULL, &c, &err), 0);
    assert_int_equal(catalog_add(c, "orders", orders, NULL, &err), 0);
    assert_int_equal(catalog_add(c, "items", items, NULL, &err), 0);
    assert_int_equal(catalog_finish(c, &err), 0);
    assert_int_equal(catalog_plan_schema(c)->n_relationships, 1);
    assert_int_equal(json_array_size(json_object_get(catalog_describe(c), "relationships")), 1);
    const json_t *notes = json_object_get(catalog_describe(c), "notes");
    assert_int_equal(json_array_size(notes), 1);
    assert_non_null(strstr(json_string_value(json_array_get(notes, 0)), "items.nothing"));
    auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
    auto_json json_t *plan = json_of(
        "{'dataset_id':'shop','table':'items','joins':[{'table':'orders'}],'select':[{'column':'city'},"
        "{'func':'sum','column':'price','alias':'total'}],'group_by':['city'],'limit':1000}");
    if (catalog_compile(c, plan, &sql, &err) < 0)
        fail_msg("%s", err.message);
    assert_non_null(strstr(buf_cstr(&sql), "JOIN \"orders\""));
    assert_null(strstr(buf_cstr(&sql), "LIMIT"));
    catalog_unref(c);
}

static void test_answers_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *figures;
    } cases[] = {
        { "{}", NULL },
        { "{'columns':['a'],'types':[]}", NULL },
        { "{'columns':['a'],'types':['DATE']}", NULL },
        { "{'columns':['a','n'],'types':[1,'BIGINT'],'rows':[]}", NULL },
        { "{'columns':['a','n'],'types':['DATE','BIGINT'],'rows':[[1,-4]]}", NULL },
        { "{'columns':['a','n'],'types':['DATE','BIGINT'],'rows':[]}", "{}" },
        { "{'columns':['a','n'],'types':['DATE','BIGINT'],'rows':[]}", "{'rows':[[1,2]]}" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        struct table_scan *s = NULL;
        assert_int_equal(table_scan_create("t", DIALECT_DUCKDB, &s, &err), 0);
        auto_json json_t *shape = json_of(cases[i].shape),
                         *figures = cases[i].figures ? json_of(cases[i].figures) : NULL;
        int r = table_scan_feed(s, shape, &err);
        if (r >= 0 && figures)
            r = table_scan_feed(s, figures, &err);
        assert_int_equal(r, -ERR_PROTOCOL);
        table_scan_destroy(s);
    }
    /* Rows that speak of columns that are not there are passed over, and so are wrong figures. */
    static const char *const answers[] = {
        "{'columns':['a','n'],'types':['VARCHAR','BIGINT'],'rows':[['x',3]]}",
        "{'rows':[[-5,'y',{},[],7]]}",
    };
    static const char *const more[] = {
        "{'columns':['a','n'],'types':['VARCHAR','BIGINT'],'rows':[['x',3]]}",
        "{'rows':[[9,9,{},[],7]]}",
        "{'rows':[[7,1,'x',1],[-5,2,'x',1],['a','b'],5,[0,2,'99',1],[0,1,null,1]]}",
    };
    auto_json json_t *values = NULL, *profile = scan_of("t", DIALECT_DUCKDB, answers, 2, &values),
                     *other_values = NULL,
                     *other = scan_of("t", DIALECT_DUCKDB, more, 3, &other_values);
    assert_int_equal(table_profile_check(profile, NULL), 0);
    assert_int_equal(table_profile_check(other, NULL), 0);
    assert_true(json_is_null(json_array_get(other_values, 0)));
}

static void test_no_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    auto_buf struct buf sql = BUF_INIT(4096);
    assert_int_equal(catalog_create("files", DIALECT_DUCKDB, NULL, NULL, &c, &err), 0);
    assert_int_equal(catalog_finish(c, &err), 0);
    assert_int_equal(json_array_size(json_object_get(catalog_describe(c), "tables")), 0);
    auto_json json_t *plan = json_of("{'dataset_id':'files','table':'t'}");
    assert_int_equal(catalog_compile(c, plan, &sql, &err), -ERR_VALIDATION);
    catalog_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_queries_a_table), cmocka_unit_test(test_wide_tables),
        cmocka_unit_test(test_the_record),            cmocka_unit_test(test_a_large_table),
        cmocka_unit_test(test_relationships),         cmocka_unit_test(test_answers_that_are_none),
        cmocka_unit_test(test_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
