/* Which picture fits which result. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/chart.h"
#include "agent/draw.h"
#include "base/macros.h"
#include "shop.h"

/* "bar x y series" of the suggestion, or "none". */
static void kind_of(const json_t *result, const json_t *hint, char *ret, size_t n)
{
    auto_json json_t *spec = chart_suggest(result, hint);
    const json_t *meta = json_object_get(spec, "usermeta");
    if (!spec) {
        snprintf(ret, n, "none");
        return;
    }
    const char *series = json_string_value(json_object_get(meta, "series"));
    snprintf(ret, n, "%s %s %s%s%s", json_string_value(json_object_get(meta, "kind")),
             json_string_value(json_object_get(meta, "x")),
             json_string_value(json_object_get(meta, "y")), series ? " " : "",
             series ? series : "");
    assert_string_equal(json_string_value(json_object_get(json_object_get(spec, "data"), "name")),
                        "result");
    assert_string_equal(json_string_value(json_object_get(json_object_get(spec, "mark"), "type")),
                        json_string_value(json_object_get(meta, "kind")));
    assert_true(json_string_length(json_object_get(spec, "title")) > 0);
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        const char *result, *hint, *want;
    } cases[] = {
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}", NULL,
          "bar city n" },
        { "{'columns':['n','city'],'types':['BIGINT','VARCHAR'],'rows':[[1,'a'],[2,'b']]}", NULL,
          "bar city n" },
        { "{'columns':['m','n'],'types':['DATE','BIGINT'],'rows':[['2024-01-01',1],['2024-02-01',2]]}",
          NULL, "line m n" },
        { "{'columns':['d','c','n'],'types':['DATE','VARCHAR','BIGINT'],'rows':[['2024-01-01','a',1],['2024-01-01','b',1],['2024-02-01','a',2]]}",
          NULL, "line d n c" },
        { "{'columns':['d','x'],'types':['DATE','DOUBLE'],'rows':[['2024-01-01',1],['2024-01-01',2],['2024-02-01',3]]}",
          NULL, "point d x" },
        { "{'columns':['year','n'],'types':['BIGINT','BIGINT'],'rows':[[2020,1],[2021,5],[2022,3]]}",
          NULL, "line year n" },
        { "{'columns':['year','n'],'types':['BIGINT','BIGINT'],'rows':[[2022,9],[2020,5],[2021,3]]}",
          NULL, "bar year n" },
        { "{'columns':['a','b'],'types':['DOUBLE','DOUBLE'],'rows':[[1.5,2],[0.5,4]]}", NULL,
          "point a b" },
        { "{'columns':['items','orders'],'types':['BIGINT','BIGINT'],'rows':[[1,20],[2,10],[3,4]]}",
          NULL, "bar items orders" },
        { "{'columns':['city','kind','n'],'types':['VARCHAR','VARCHAR','BIGINT'],'rows':[['a','x',1],['a','y',2],['b','x',3]]}",
          NULL, "bar city n kind" },
        /* a name beside its key is no colour */
        { "{'columns':['name','product_id','n'],'types':['VARCHAR','BIGINT','BIGINT'],"
          "'rows':[['a',7,1],['b',9,2],['c',4,3]]}",
          NULL, "bar name n" },
        { "{'columns':['name','product_id','n'],'types':['VARCHAR','BIGINT','BIGINT'],"
          "'rows':[['a',7,1],['b',9,2],['a',4,3]]}",
          "{'mark':'bar','x':'name','y':'n','series':'product_id'}", "bar product_id n" },
        { "{'columns':['kind','sum'],'types':['object','float64'],'rows':[['a',1.5],['b',2]]}",
          NULL, "bar kind sum" },
        { "{'columns':['returned','sum'],'types':['BOOLEAN','DOUBLE'],'rows':[[true,1.5],[false,2]]}",
          NULL, "bar returned sum" },
        /* none */
        { "{'columns':['n'],'types':['BIGINT'],'rows':[[1]]}", NULL, "none" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1]]}", NULL, "none" },
        { "{'columns':['a','b'],'types':['VARCHAR','VARCHAR'],'rows':[['a','c'],['b','d']]}", NULL,
          "none" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',null],['b',null]]}",
          NULL, "none" },
        { "{'columns':['city','amount'],'types':['VARCHAR','DOUBLE'],'rows':[['a',1],['a',2],['b',3]]}",
          NULL, "none" },
        { "{'columns':['id','date','what','amount','kind','state'],'types':['VARCHAR','DATE','VARCHAR','DOUBLE','VARCHAR','VARCHAR'],"
          "'rows':[['1','2024-01-01','a',1,'b','c'],['2','2024-01-02','a',1,'b','c']]}",
          NULL, "none" },
        { "{'columns':['city','n'],'rows':[['a',1],['b',2]],'error':{'type':'X','message':'y'}}",
          NULL, "none" },
        { "{'columns':['','n'],'rows':[['a',1],['b',2]]}", NULL, "none" },
        { "{}", NULL, "none" },
        /* hints */
        { "{'columns':['city','n','m'],'types':['VARCHAR','BIGINT','BIGINT'],'rows':[['a',1,5],['b',2,6]]}",
          "{'mark':'bar','x':{'field':'city'},'y':{'field':'m'}}", "bar city m" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}",
          "{'mark':'pie','x':'city','y':'n'}", "arc city n" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',-2]]}",
          "{'mark':'arc','x':'city','y':'n'}", "bar city n" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}",
          "{'mark':'line','x':'city','y':'n'}", "bar city n" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}",
          "{'mark':'bar','x':'nothing','y':'n'}", "bar city n" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}",
          "{'mark':'bar','x':'n','y':'city'}", "bar city n" },
        { "{'columns':['city','n'],'types':['VARCHAR','BIGINT'],'rows':[['a',1],['b',2]]}", "['x']",
          "bar city n" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char got[256];
        auto_json json_t *result = json_of(cases[i].result),
                         *hint = cases[i].hint ? json_of(cases[i].hint) : NULL;
        kind_of(result, hint, got, sizeof(got));
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s: %s, not %s", cases[i].result, got, cases[i].want);
    }
}

static void test_many_rows(void **state)
{
    (void)state;
    static const struct {
        int rows;
        const char *name, *type, *want;
    } cases[] = {
        { CHART_BARS_MAX, "city", "VARCHAR", "bar city n" },
        { CHART_BARS_MAX + 1, "city", "VARCHAR", "none" },
        { 40, "order_id", "BIGINT", "none" },
        { CHART_ROWS_MAX, "x", "DOUBLE", "point x n" },
        { CHART_ROWS_MAX + 1, "x", "DOUBLE", "none" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char got[256], text[32];
        json_t *rows = json_array();
        auto_json json_t *result = json_pack("{s:[s,s], s:[s,s], s:o}", "columns", cases[i].name,
                                             "n", "types", cases[i].type, "BIGINT", "rows", rows);
        for (int k = 0; k < cases[i].rows; k++) {
            snprintf(text, sizeof(text), "city %d", k);
            json_array_append_new(rows, json_pack("[o,i]",
                                                  strcmp(cases[i].type, "VARCHAR") == 0 ?
                                                      json_string(text) :
                                                      json_integer(k),
                                                  k % 7));
        }
        kind_of(result, NULL, got, sizeof(got));
        assert_string_equal(got, cases[i].want);
    }
}

static void test_the_encoding(void **state)
{
    (void)state;
    auto_json json_t *result = json_of(
        "{'columns':['a.b[c]','total_x'],'types':['VARCHAR','DOUBLE'],'rows':[['p',1],['q',2]]}");
    auto_json json_t *spec = chart_suggest(result, NULL);
    auto_json json_t *want = json_of(
        "{'x':{'field':'a\\\\.b\\\\[c\\\\]','type':'nominal','title':'a.b[c]','sort':null},"
        "'y':{'field':'total_x','type':'quantitative','title':'total x'}}");
    assert_true(json_equal(json_object_get(spec, "encoding"), want));
    assert_string_equal(json_string_value(json_object_get(spec, "title")), "Total x by a.b[c]");
    assert_string_equal(json_string_value(json_object_get(json_object_get(spec, "usermeta"), "x")),
                        "a.b[c]");
    auto_json json_t *grouped = json_of(
        "{'columns':['c','k','n'],'types':['VARCHAR','VARCHAR','BIGINT'],'rows':[['a','x',1],['a','y',2],['b','x',3]]}");
    auto_json json_t *bars = chart_suggest(grouped, NULL);
    assert_non_null(json_object_get(json_object_get(bars, "encoding"), "xOffset"));
}

static void test_drawing(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(1u << 16);
    auto_json json_t *result = json_of("{'columns':['a'],'rows':[[1]],'types':['BIGINT']}"),
                     *spec = json_of("{'title':'t'}");
    assert_non_null(strstr(draw_code(), DRAW_INPUT));
    assert_non_null(strstr(draw_code(), DRAW_OUTPUT));
    assert_int_equal(draw_input(result, spec, "png", &b, &err), 0);
    assert_string_equal(
        buf_cstr(&b),
        "{\"format\":\"png\",\"spec\":{\"title\":\"t\"},\"result\":{\"columns\":[\"a\"],\"rows\":[[1]]}}");
    assert_int_equal(draw_input(spec, spec, "png", &b, &err), -ERR_VALIDATION);
    static const struct {
        const char *format, *data;
        size_t len;
        int want;
    } cases[] = {
        { "png", "\x89PNG\r\n\x1a\nrest", 12, 0 },
        { "png", "\x89PNG", 4, -ERR_PROTOCOL },
        { "svg", "<?xml version='1.0'?><svg/>", 27, 0 },
        { "svg", "<?xml version='1.0'?><html/>", 28, -ERR_PROTOCOL },
        { "svg", "\x89PNG\r\n\x1a\nrest", 12, -ERR_PROTOCOL },
        { "png", "", 0, -ERR_PROTOCOL },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(draw_check(cases[i].format, cases[i].data, cases[i].len, &err),
                         cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_kinds),
                                        cmocka_unit_test(test_many_rows),
                                        cmocka_unit_test(test_the_encoding),
                                        cmocka_unit_test(test_drawing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
