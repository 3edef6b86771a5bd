/*
 * Ids of kernels: each its own while there are some, the lowest first, and 0 for those who come too
 * late.
 */

#include "base/check.h"
#include "sandbox/local/user_ids.h"

static struct user_ids ids;

static void test_each_has_its_own(void **state)
{
    (void)state;
    user_ids_init(&ids, 130);
    for (unsigned i = 1; i < 130; i++)
        assert_int_equal(user_ids_take(&ids), i);
    assert_int_equal(user_ids_take(&ids), 0);
    assert_int_equal(user_ids_take(&ids), 0);
    user_ids_give_back(&ids, 0); /* still shared */
    assert_int_equal(user_ids_take(&ids), 0);
    user_ids_give_back(&ids, 129);
    user_ids_give_back(&ids, 64);
    assert_int_equal(user_ids_take(&ids), 64);
    assert_int_equal(user_ids_take(&ids), 129);
    assert_int_equal(user_ids_take(&ids), 0);
}

static void test_one_is_shared(void **state)
{
    (void)state;
    user_ids_init(&ids, 1);
    assert_int_equal(user_ids_take(&ids), 0);
    assert_int_equal(user_ids_take(&ids), 0);
}

static void test_fewer_than_it_seemed(void **state)
{
    (void)state;
    user_ids_init(&ids, 512);
    assert_int_equal(user_ids_take(&ids), 1);
    user_ids_limit(&ids, 1);
    user_ids_limit(&ids, 9);
    assert_int_equal(user_ids_take(&ids), 0);
    user_ids_give_back(&ids, 1);
    assert_int_equal(user_ids_take(&ids), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_has_its_own),
        cmocka_unit_test(test_one_is_shared),
        cmocka_unit_test(test_fewer_than_it_seemed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
