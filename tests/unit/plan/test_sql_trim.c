/* Where a statement ends: what stands in parentheses behind it must be SQL and no comment. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "base/macros.h"
#include "plan/sql_trim.h"

static void test_ends(void **state)
{
    static const struct {
        const char *sql, *trimmed;
    } cases[] = {
        { "SELECT 1", "SELECT 1" },
        { "SELECT 1 ;; \n", "SELECT 1" },
        { "SELECT 1; -- done", "SELECT 1" },
        { "SELECT 1 /* a /* b */ ; */ ;", "SELECT 1" },
        { "SELECT 1 -- one\n + 2 -- two", "SELECT 1 -- one\n + 2" },
        { "SELECT '--' ; --", "SELECT '--'" },
        { "SELECT 'it''s; --'", "SELECT 'it''s; --'" },
        { "SELECT E'\\'; --';", "SELECT E'\\'; --'" },
        { "SELECT \"a;--\" ;", "SELECT \"a;--\"" },
        { "SELECT $$; --$$ ;", "SELECT $$; --$$" },
        { "SELECT $t$; $$ --$t$; /* x", "SELECT $t$; $$ --$t$" },
        { "SELECT 'open -- ;", "SELECT 'open -- ;" },
        { " ; -- nothing", "" },
        { "", "" },
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t n = sql_trimmed(cases[i].sql, strlen(cases[i].sql));
        assert_int_equal(n, strlen(cases[i].trimmed));
        assert_memory_equal(cases[i].sql, cases[i].trimmed, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ends) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
