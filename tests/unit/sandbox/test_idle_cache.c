/* Sandboxes that are kept for their owner's next query. None is used: any pointer serves. */

#include "base/check.h"
#include "sandbox/pool/idle_cache.h"

static char boxes[16];
#define BOX(i) ((struct sandbox *)&boxes[i])

static void test_the_owner_who_has_most_gives_up_first(void **state)
{
    struct idle_cache c;

    (void)state;
    idle_cache_init(&c, 4);
    assert_null(idle_cache_put(&c, "bob", "b1", BOX(0), 1));
    assert_null(idle_cache_put(&c, "alice", "a1", BOX(1), 2));
    assert_null(idle_cache_put(&c, "alice", "a2", BOX(2), 3));
    assert_null(idle_cache_put(&c, "alice", "a3", BOX(3), 4));
    /* However many alice uses, bob's stays, though it is the oldest. */
    assert_ptr_equal(idle_cache_put(&c, "alice", "a4", BOX(4), 5), BOX(1));
    assert_ptr_equal(idle_cache_put(&c, "alice", "a5", BOX(5), 6), BOX(2));
    assert_ptr_equal(idle_cache_put(&c, "bob", "b2", BOX(6), 7), BOX(3));
    assert_ptr_equal(idle_cache_take(&c, "b1"), BOX(0));
    assert_ptr_equal(idle_cache_take(&c, "b2"), BOX(6));
}

static void test_one_owner_loses_the_oldest(void **state)
{
    struct idle_cache c;

    (void)state;
    idle_cache_init(&c, 2);
    assert_null(idle_cache_put(&c, "bob", "b1", BOX(0), 1));
    assert_null(idle_cache_put(&c, "bob", "b2", BOX(1), 2));
    assert_ptr_equal(idle_cache_put(&c, "bob", "b3", BOX(2), 3), BOX(0));
    idle_cache_init(&c, 0);
    assert_ptr_equal(idle_cache_put(&c, "bob", "b1", BOX(0), 1), BOX(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_owner_who_has_most_gives_up_first),
        cmocka_unit_test(test_one_owner_loses_the_oldest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
