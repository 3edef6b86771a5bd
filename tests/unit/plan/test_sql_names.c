/* Table names without their data set. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "plan/sql_names.h"

static const char *const tables[] = { "tickets", "support", "Odd Name" };
static const struct sql_policy names = { .dataset_id = "support",
                                         .tables = tables,
                                         .n_tables = ARRAY_SIZE(tables) };

static void test_names(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "SELECT * FROM support.tickets", "SELECT * FROM tickets" },
        { "SELECT * FROM SUPPORT . Tickets t", "SELECT * FROM Tickets t" },
        { "FROM \"support\".\"tickets\"", "FROM \"tickets\"" },
        { "FROM support.\"odd name\"", "FROM \"odd name\"" },
        { "SELECT support.tickets.id, support.x FROM support.tickets",
          "SELECT tickets.id, support.x FROM tickets" },
        { "SELECT support.support.id FROM support.support", "SELECT support.id FROM support" },
        { "FROM x.support.tickets", "FROM x.support.tickets" },
        { "FROM support.tickets_2, mysupport.tickets",
          "FROM support.tickets_2, mysupport.tickets" },
        { "SELECT 'support.tickets', 'it''s support.tickets'",
          "SELECT 'support.tickets', 'it''s support.tickets'" },
        { "SELECT E'\\'support.tickets', $$support.tickets$$, $a$support.tickets$a$",
          "SELECT E'\\'support.tickets', $$support.tickets$$, $a$support.tickets$a$" },
        { "SELECT 1 -- support.tickets\n FROM support.tickets",
          "SELECT 1 -- support.tickets\n FROM tickets" },
        { "/* /* support.tickets */ support.tickets */ FROM support.tickets",
          "/* /* support.tickets */ support.tickets */ FROM tickets" },
        { "SELECT \"a support.tickets\"", "SELECT \"a support.tickets\"" },
        { "'support.tickets", "'support.tickets" },
        { "$x$ support.tickets", "$x$ support.tickets" },
        { "support.", "support." },
        { "", "" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_buf struct buf b = BUF_INIT(1000);
        struct err err = ERR_INIT;
        assert_int_equal(sql_plain_names(&names, cases[i][0], &b, &err), 0);
        assert_string_equal(buf_cstr(&b), cases[i][1]);
    }
}

static void test_limit(void **state)
{
    (void)state;
    auto_buf struct buf b = BUF_INIT(5);
    struct err err = ERR_INIT;
    assert_true(sql_plain_names(&names, "SELECT 1", &b, &err) < 0);
    assert_int_equal(err.code, ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
