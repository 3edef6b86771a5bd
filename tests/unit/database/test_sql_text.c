/* Tokens of a statement, as PostgreSQL and ClickHouse read them; results that are packed. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/json.h"
#include "base/macros.h"
#include "database/result.h"
#include "database/sql_text.h"

/* The kinds of the tokens, a letter for each. */
static const char *kinds(enum sql_dialect dialect, const char *sql)
{
    static char text[64];
    static const char letters[] = {
        [SQL_WORD] = 'w',  [SQL_QUOTED] = 'q', [SQL_STRING] = 's', [SQL_NUMBER] = 'n',
        [SQL_PARAM] = ':', [SQL_OP] = 'o',     [SQL_PUNCT] = '.'
    };
    struct sql_text t;
    struct err err = ERR_INIT;
    if (sql_text_read(dialect, sql, &t, &err) < 0)
        return err.code == ERR_FORBIDDEN ? "refused" : "error";
    size_t n = 0;
    for (; n < t.n && n + 1 < sizeof(text); n++)
        text[n] = letters[t.tokens[n].kind];
    text[n] = '\0';
    sql_text_finish(&t);
    return text;
}

static void test_tokens(void **state)
{
    static const struct {
        const char *sql, *kinds;
    } cases[] = {
        { "", "" },
        { "SELECT 1", "wn" },
        { "SELECT 'a''b'", "ws" },
        { "SELECT 'a\\', 1", "ws.n" },     /* a backslash is a plain character … */
        { "SELECT E'a\\', 1'", "ws" },     /* … unless the string says so */
        { "SELECT E'a'\n'\\', 1'", "ws" }, /* and what continues it is read alike */
        { "SELECT E'a' '\\'", "wss" },     /* which needs a line break */
        { "SELECT E'a' -- x\n'\\', 1'", "ws" },
        { "SELECT $$ ' $$, $a$ $$ $a$", "ws.s" },
        { "SELECT a$b$c", "ww" },
        { "SELECT $1", "refused" },
        { "SELECT U&\"a\"", "refused" },
        { "SELECT U&'a'", "ws" },
        { "SELECT /* a /* b */ ' */ 1", "wn" },
        { "SELECT /* a", "error" },
        { "SELECT 'a", "error" },
        { "SELECT $a$ b", "error" },
        { "SELECT \"a\"\"b\"", "wq" },
        { "SELECT :a::int, a[1:b], ':c'", "w:ow.w.n.w..s" },
        { "SELECT 1--1\n+2", "wnon" },
        { "SELECT \xff", "error" },
        { "SELECT \\", "error" },
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(kinds(SQL_POSTGRES, cases[i].sql), cases[i].kinds);
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT 'a\\'', `b`"), "ws.q");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT `a\\`b`"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT /* * / */ 1"), "wn");
    /* what servers of different ages read differently */
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT /* /* */ 1"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT 1 # x"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT $$x$$"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT \xe2\x80\x98x\xe2\x80\x99"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT a\xe2\x80\x98x"), "refused");
    assert_string_equal(kinds(SQL_CLICKHOUSE, "SELECT '#$\xc3\xa9', \"\xc3\xa9\""), "ws.q");
}

/* PostgreSQL cuts names: the rest must not hide what is called. */
static void test_long_names_are_cut(void **state)
{
    char sql[200];
    struct sql_text t;
    struct err err = ERR_INIT;
    (void)state;
    memset(sql, 'A', 150);
    memcpy(sql + 150, "()", 3);
    assert_int_equal(sql_text_read(SQL_POSTGRES, sql, &t, &err), 0);
    assert_int_equal(strlen(t.tokens[0].name), 63);
    assert_int_equal(t.tokens[0].name[0], 'a');
    assert_int_equal(sql_call_at(&t, 0), SQL_CALL_PLAIN);
    sql_text_finish(&t);
}

/* The separator is a character that no cell has, whatever the cells hold. */
static void test_packed_results_can_be_taken_apart(void **state)
{
    struct db_result r;
    struct err err = ERR_INIT;
    const struct db_cell rows[][1] = { { { "a\xee\x80\x80", 4 } }, { { NULL, 0 } }, { { "", 0 } } };
    json_t *packed = NULL;
    (void)state;
    db_result_init(&r, 3, 1000);
    assert_int_equal(db_result_add_column(&r, "c", "VARCHAR", &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(db_result_add_row(&r, rows[i], &err), 0);
    assert_int_equal(db_result_add_row(&r, rows[0], &err), -ERR_TOO_LARGE);
    assert_true(r.truncated);
    assert_int_equal(db_result_pack(&r, &packed, &err), 0);
    assert_string_equal(json_string_value(json_object_get(packed, "separator")), "\xee\x80\x81");
    assert_string_equal(json_string_value(json_object_get(packed, "null")), "\xee\x80\x82");
    assert_string_equal(json_string_value(json_array_get(json_object_get(packed, "data"), 0)),
                        "a\xee\x80\x80\xee\x80\x81\xee\x80\x82\xee\x80\x81");
    json_decref(packed);
    db_result_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_packed_results_can_be_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
