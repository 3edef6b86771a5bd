/* Questions over three tables that join: what their best reading by weights says. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/macros.h"
#include "nl/nl.h"

static int table_of(struct nl_schema *s, const char *name, int rows,
                    const char *const (*columns)[2], int n)
{
    struct err err = ERR_INIT;
    int t = nl_schema_add_table(s, name, rows, &err);
    assert_true(t >= 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(nl_schema_add_column(s, t, columns[i][0], columns[i][1], &err), i);
    return t;
}

static void values_of(struct nl_schema *s, int table, int column, const char *const *values, int n)
{
    struct err err = ERR_INIT;
    for (int i = 0; i < n; i++)
        assert_int_equal(nl_schema_add_value(s, table, column, values[i], &err), 0);
}
#define VALUES(s, table, column, ...)                                                              \
    values_of((s), (table), (column), (const char *const[]){ __VA_ARGS__ },                        \
              (int)ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

/* Pupils, lessons, and which pupil is in which lesson. */
static struct nl_schema *schema_of_school(void)
{
    struct err err = ERR_INIT;
    struct nl_schema *s = NULL;
    static const char *const pupil[][2] = { { "pupil_id", "BIGINT" },
                                            { "name", "VARCHAR" },
                                            { "age", "BIGINT" },
                                            { "city", "VARCHAR" } },
                             *const visit[][2] = { { "pupil_id", "BIGINT" },
                                                   { "lesson_id", "BIGINT" },
                                                   { "grade", "VARCHAR" } },
                             *const lesson[][2] = { { "lesson_id", "BIGINT" },
                                                    { "title", "VARCHAR" },
                                                    { "hours", "BIGINT" } };
    assert_int_equal(nl_schema_create("school", &s, &err), 0);
    int p = table_of(s, "pupil", 4, pupil, 4), v = table_of(s, "visit", 6, visit, 3),
        l = table_of(s, "lesson", 3, lesson, 3);
    VALUES(s, p, 0, "1", "2", "3", "4");
    VALUES(s, p, 1, "Anna", "Bert", "Carl", "Dora");
    VALUES(s, p, 3, "Oslo", "Bergen");
    VALUES(s, v, 0, "1", "2", "3");
    VALUES(s, v, 1, "10", "11");
    VALUES(s, v, 2, "good", "poor");
    VALUES(s, l, 0, "10", "11", "12");
    VALUES(s, l, 1, "Chess", "Drawing", "Music");
    assert_int_equal(nl_schema_finish(s, &err), 0);
    return s;
}

static void assert_reads(const struct nl_schema *s, const char *question, const char *reading)
{
    struct err err = ERR_INIT;
    auto_arena struct arena a;
    auto_json json_t *list = NULL;
    arena_init(&a, NL_ARENA_BYTES);
    assert_int_equal(nl_candidates(s, question, &a, &list, &err), 0);
    const char *best = json_string_value(json_object_get(json_array_get(list, 0), "reading"));
    assert_string_equal(best, reading);
}

static void test_two_tables(void **state)
{
    struct nl_schema *s = schema_of_school();
    (void)state;
    assert_reads(s, "names of the pupils with the grade good",
                 "`name` of `visit` with `pupil` where `grade` = 'good'");
    nl_schema_destroy(s);
}

static void test_through_a_third(void **state)
{
    struct nl_schema *s = schema_of_school();
    (void)state;
    assert_reads(s, "names of the pupils that are in the lesson Chess",
                 "`name` of `pupil` with `visit` and `lesson` where `title` = 'Chess'");
    nl_schema_destroy(s);
}

static void test_absent(void **state)
{
    struct nl_schema *s = schema_of_school();
    (void)state;
    assert_reads(s, "names of the pupils that do not have any visit",
                 "`name` of `pupil` where `pupil_id` is not among: `pupil_id` of `pupil` with "
                 "`visit`");
    nl_schema_destroy(s);
}

static void test_both(void **state)
{
    struct nl_schema *s = schema_of_school();
    (void)state;
    assert_reads(s, "names of the pupils that are in both the lesson Chess and the lesson Music",
                 "different `name` of `pupil` where `pupil_id` is among: `pupil_id` of `pupil` "
                 "with `visit` and `lesson` where `title` = 'Chess' and `pupil_id` is among: "
                 "`pupil_id` of `pupil` with `visit` and `lesson` where `title` = 'Music'");
    nl_schema_destroy(s);
}

static void test_than_all(void **state)
{
    struct nl_schema *s = schema_of_school();
    (void)state;
    assert_reads(s, "titles of the lessons whose hours are higher than the average hours",
                 "`title` of `lesson` where `hours` > the average of `hours`");
    assert_reads(s, "which pupils are older than the average",
                 "`name` of `pupil` where `age` > the average of `age`");
    nl_schema_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_tables), cmocka_unit_test(test_through_a_third),
        cmocka_unit_test(test_absent),     cmocka_unit_test(test_both),
        cmocka_unit_test(test_than_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
