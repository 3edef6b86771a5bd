/* What a catalog asks for, and what it makes of the answers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "data/catalog.h"
#include "base/macros.h"
#include "plan/compile.h"
#include "shop.h"

static void test_two_queries_a_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    static const char *const tables[] = { "sales", "a \"b\"" };
    int64_t rows = 0;
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, tables, 2, NULL, NULL, &c, &err), 0);
    assert_string_equal(catalog_next_sql(c, &rows),
                        "SELECT *, (SELECT count(*) FROM \"sales\") FROM \"sales\" LIMIT 3");
    assert_int_equal(rows, 3);
    feed_catalog(c, SALES_SHAPE);
    const char *sql = catalog_next_sql(c, &rows);
    assert_true(rows > 100000);
    assert_non_null(strstr(sql, "max(\"sold_at\")"));
    assert_non_null(strstr(sql, "avg(\"amount\")"));
    assert_null(strstr(sql, "avg(\"city\")"));
    assert_non_null(strstr(sql, "histogram(left(\"city\"::VARCHAR,"));
    assert_non_null(strstr(sql, "histogram(\"returned\")"));
    assert_null(strstr(sql, "histogram(\"amount\")"));
    assert_null(strstr(sql, "UNION")); /* its parts are planned in the square of their number */
    feed_catalog(c, SALES_FACTS);
    assert_string_equal(
        catalog_next_sql(c, &rows),
        "SELECT *, (SELECT count(*) FROM \"a \"\"b\"\"\") FROM \"a \"\"b\"\"\" LIMIT 3");
    feed_catalog(c, "{'columns':['x','n'],'types':['DOUBLE','BIGINT'],'rows':[]}");
    feed_catalog(c, "{'rows':[[0,1,null,null,null,0,null]]}");
    assert_null(catalog_next_sql(c, &rows));
    assert_int_equal(catalog_plan_schema(c)->n_tables, 2);
    assert_int_equal(catalog_feed(c, NULL, &err), -ERR_CONFLICT);
    catalog_unref(c);
}

/* Many columns of a small table are asked about at once. */
static void test_wide_tables(void **state)
{
    (void)state;
    static const char *const tables[] = { "t" };
    auto_json json_t *shape = json_pack("{s:[], s:[], s:[[]]}", "columns", "types", "rows");
    json_t *row = json_array_get(json_object_get(shape, "rows"), 0);
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    int64_t rows = 0;
    int n = 0;
    for (int i = 0; i <= 300; i++) {
        json_array_append_new(json_object_get(shape, "columns"), json_sprintf("c%d", i));
        json_array_append_new(json_object_get(shape, "types"), json_string("BIGINT"));
        json_array_append_new(row, json_integer(7));
    }
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
    assert_int_equal(catalog_feed(c, shape, &err), 0);
    for (; catalog_next_sql(c, &rows); n++)
        feed_catalog(c, "{'rows':[]}");
    assert_int_equal(n, 3);
    catalog_unref(c);
}

static void test_the_description(void **state)
{
    (void)state;
    struct catalog *c = catalog_of_sales();
    auto_json json_t *want = json_of(
        "{'dataset_id':'shop','relationships':[],'tables':[{'name':'sales','row_count':4,'columns':["
        "{'name':'sale_id','type':'BIGINT','min':1,'max':4,'mean':2.5,'distinct':2,'top':[{'value':1,'count':1},{'value':2,'count':1}]},"
        "{'name':'city','type':'VARCHAR','nulls':1,'distinct':2,'top':[{'value':'Paris','count':2},{'value':'Rome','count':1}]},"
        "{'name':'amount','type':'DOUBLE','min':10.5,'mean':20.25},"
        "{'name':'sold_at','type':'TIMESTAMP','min':'2024-01-01 10:00:00','max':'2024-12-31 09:00:00'},"
        "{'name':'returned','type':'BOOLEAN','distinct':2,'top':[{'value':false,'count':3},{'value':true,'count':1}]}],"
        "'sample_rows':[[1,'Paris',10.5,'2024-01-01T10:00:00',false],[2,'Rome',20.0,'2024-02-01T10:00:00',true]]}]}");
    auto_free char *got = json_to_str(catalog_describe(c));
    if (!json_equal(catalog_describe(c), want))
        fail_msg("%s", got);
    catalog_unref(c);
}

/* Of many values only so many are listed, and a cut answer does not pretend to have counted. */
static void test_many_values(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    for (int cut = 0; cut < 2; cut++) {
        struct catalog *c = NULL;
        static const char *const tables[] = { "t" };
        json_t *rows = json_array(),
               *body = json_pack("{s:o, s:b}", "rows", rows, "truncated", cut);
        assert_int_equal(catalog_create("d", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
        feed_catalog(
            c,
            "{'columns':['name','n','rows'],'types':['VARCHAR','INTEGER','BIGINT'],'rows':[['v1',1,5000]]}");
        for (int i = 0; i < (cut ? 500 : NL_VALUES_PER_COLUMN + 1); i++) {
            char value[16];
            snprintf(value, sizeof(value), "v%d", i);
            json_array_append_new(rows, json_pack("[i,i,s,n,n,i]", 0, 2, value, 4));
        }
        for (int i = 0; i < 60; i++) {
            char value[16];
            snprintf(value, sizeof(value), "%d", i);
            json_array_append_new(rows, json_pack("[i,i,s,n,n,i]", 1, 2, value, 4));
        }
        assert_int_equal(catalog_feed(c, body, &err), 0);
        const json_t *columns = json_object_get(
            json_array_get(json_object_get(catalog_describe(c), "tables"), 0), "columns");
        const json_t *name = json_array_get(columns, 0), *n = json_array_get(columns, 1);
        assert_null(json_object_get(name, "distinct"));
        assert_int_equal(json_integer_value(json_object_get(name, "distinct_more_than")),
                         cut ? 499 : NL_VALUES_PER_COLUMN);
        assert_int_equal(json_array_size(json_object_get(name, "top")), CATALOG_TOP_VALUES);
        assert_null(json_object_get(n, "top"));
        json_decref(body);
        catalog_unref(c);
    }
}

/* What hardly repeats is not grouped, and has no top list. */
static void test_a_large_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    static const char *const tables[] = { "t" };
    int64_t rows;
    assert_int_equal(catalog_create("d", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
    feed_catalog(
        c,
        "{'columns':['ref','city','x','n'],'types':['VARCHAR','VARCHAR','DOUBLE','BIGINT'],'rows':[['R1','Paris',1.5,1000000]]}");
    const char *sql = catalog_next_sql(c, &rows);
    assert_non_null(
        strstr(sql, "SELECT \"ref\" AS v FROM \"t\" WHERE \"ref\" IS NOT NULL LIMIT 20000"));
    assert_null(strstr(sql, "SELECT \"x\" AS v"));
    assert_null(strstr(sql, "GROUP BY"));
    feed_catalog(
        c,
        "{'rows':[[0,1,null,null,null,1000000,19990],[1,1,null,null,null,900000,2],[2,1,'1','2','1.5',1000000,null]]}");
    sql = catalog_next_sql(c, &rows);
    assert_non_null(strstr(
        sql, "SELECT DISTINCT v, 1 AS n FROM (SELECT \"ref\" AS v FROM \"t\" WHERE \"ref\" IS NOT "
             "NULL LIMIT 20000) AS q LIMIT 1001)"));
    assert_non_null(strstr(
        sql, "SELECT \"city\" AS v, count(*) AS n FROM \"t\" WHERE \"city\" IS NOT NULL GROUP BY "
             "\"city\""));
    feed_catalog(
        c,
        "{'rows':[[0,2,'R1',null,null,1,null],[1,2,'Paris',null,null,800000,null],[1,2,'Rome',null,null,100000,null]]}");
    assert_null(catalog_next_sql(c, &rows));
    const json_t *columns = json_object_get(
        json_array_get(json_object_get(catalog_describe(c), "tables"), 0), "columns");
    assert_null(json_object_get(json_array_get(columns, 0), "top"));
    assert_null(json_object_get(json_array_get(columns, 0), "distinct"));
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(columns, 0), "distinct_more_than")),
        NL_VALUES_PER_COLUMN);
    assert_int_equal(json_array_size(json_object_get(json_array_get(columns, 1), "top")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(columns, 1), "nulls")),
                     100000);
    assert_true(json_real_value(json_object_get(json_array_get(columns, 2), "mean")) == 1.5);
    catalog_unref(c);
    /* Without a column that has values there is nothing more to ask. */
    assert_int_equal(catalog_create("d", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
    feed_catalog(c, "{'columns':['x','n'],'types':['DOUBLE','BIGINT'],'rows':[[1.5,1000000]]}");
    feed_catalog(c, "{'rows':[[0,1,'1','2','1.5',1000000,null]]}");
    assert_null(catalog_next_sql(c, &rows));
    catalog_unref(c);
}

static void test_relationships(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    static const char *const tables[] = { "orders", "items" };
    auto_json json_t *rels = json_of(
        "[{'from':'items.order','to':'orders.number','type':'many-to-one'},{'from':'items.nothing','to':'orders.number'}]");
    assert_int_equal(catalog_create("shop", DIALECT_DUCKDB, tables, 2, rels, NULL, &c, &err), 0);
    feed_catalog(
        c, "{'columns':['number','city','n'],'types':['BIGINT','VARCHAR','BIGINT'],'rows':[]}");
    feed_catalog(c, "{'rows':[]}");
    feed_catalog(
        c, "{'columns':['order','price','n'],'types':['BIGINT','DOUBLE','BIGINT'],'rows':[]}");
    feed_catalog(c, "{'rows':[]}");
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
        const char *shape, *facts;
        enum err_code code;
    } cases[] = {
        { "{}", NULL, ERR_PROTOCOL },
        { "{'columns':['a'],'types':[]}", NULL, ERR_PROTOCOL },
        { "{'columns':['a'],'types':['DATE']}", NULL, ERR_PROTOCOL },
        { "{'columns':['a','n'],'types':[1,'BIGINT'],'rows':[]}", NULL, ERR_PROTOCOL },
        { "{'columns':['a','n'],'types':['DATE','BIGINT'],'rows':[]}", "{}", ERR_PROTOCOL },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        struct catalog *c = NULL;
        static const char *const tables[] = { "t" };
        assert_int_equal(catalog_create("d", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
        auto_json json_t *shape = json_of(cases[i].shape),
                         *facts = cases[i].facts ? json_of(cases[i].facts) : NULL;
        int r = catalog_feed(c, shape, &err);
        if (r >= 0 && facts)
            r = catalog_feed(c, facts, &err);
        assert_int_equal(r, -(int)cases[i].code);
        catalog_unref(c);
    }
    /* Rows that speak of columns that are not there are passed over. */
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    static const char *const tables[] = { "t" };
    assert_int_equal(catalog_create("d", DIALECT_DUCKDB, tables, 1, NULL, NULL, &c, &err), 0);
    feed_catalog(c, "{'columns':['a','n'],'types':['VARCHAR','BIGINT'],'rows':[]}");
    feed_catalog(c, "{'rows':[[7,2,'x',null,null,1],[-5,1,'x','y',null,1],['a','b'],5]}");
    catalog_unref(c);
}

static void test_no_table(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct catalog *c = NULL;
    int64_t max_rows = 0;
    auto_buf struct buf sql = BUF_INIT(4096);
    assert_int_equal(catalog_create("files", DIALECT_DUCKDB, NULL, 0, NULL, NULL, &c, &err), 0);
    assert_null(catalog_next_sql(c, &max_rows));
    assert_int_equal(json_array_size(json_object_get(catalog_describe(c), "tables")), 0);
    auto_json json_t *plan = json_of("{'dataset_id':'files','table':'t'}");
    assert_int_equal(catalog_compile(c, plan, &sql, &err), -ERR_VALIDATION);
    catalog_unref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_queries_a_table),   cmocka_unit_test(test_wide_tables),
        cmocka_unit_test(test_the_description),       cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_a_large_table),         cmocka_unit_test(test_relationships),
        cmocka_unit_test(test_answers_that_are_none), cmocka_unit_test(test_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
