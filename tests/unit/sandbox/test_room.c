/* Room for long messages: bounds for each owner and for all, and nobody keeps it for long. */

#include <uv.h>
#include "base/check.h"
#include "base/clock.h"
#include "sandbox/room.h"

#define MB (1u << 20)

static uv_loop_t loop;
static struct room_place places[8];
static int order[8], n_granted;

static void granted(void *arg)
{
    order[n_granted++] = (int)((struct room_place *)arg - places);
}

static bool enter_of(const char *owner, int i, size_t bytes)
{
    return room_enter(&places[i], &loop, room_owner(owner), bytes, granted, &places[i]);
}

static bool enter(int i, size_t bytes)
{
    return enter_of("ann", i, bytes);
}

static void run_until_granted(int n)
{
    int64_t end = clock_now_ms() + 10000;
    while (n_granted < n && clock_now_ms() < end)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n_granted, n);
}

static int setup(void **state)
{
    (void)state;
    n_granted = 0;
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        room_leave(&places[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    assert_true(enter(0, 5 * MB));
    assert_false(enter(1, 5 * MB));
    assert_false(enter(2, 1)); /* it would fit, but another was first */
    assert_true(room_waits(&places[1]) && room_waits(&places[2]));
    room_leave(&places[0]);
    assert_int_equal(n_granted, 0); /* never from within */
    run_until_granted(2);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 2);
    assert_false(room_waits(&places[1]));
}

static void test_larger_than_the_room(void **state)
{
    (void)state;
    assert_true(enter(0, 1));
    assert_false(enter(1, 4 * ROOM_BYTES));
    assert_false(enter(2, 1));
    room_leave(&places[2]); /* who waits can leave, too */
    room_leave(&places[0]);
    run_until_granted(1);
    assert_int_equal(order[0], 1);
    assert_false(enter(3, 1));
}

static void test_what_is_held_anyway_counts(void **state)
{
    (void)state;
    room_hold(&places[0], room_owner("ann"), ROOM_BYTES);
    room_hold(&places[1], room_owner("ann"), ROOM_BYTES);
    assert_false(enter(2, MB));
    room_leave(&places[0]);
    assert_false(enter(3, MB));
    room_hurry(&places[3]);
    run_until_granted(1);
    assert_int_equal(order[0], 3);
    assert_true(room_waits(&places[2]));
}

static void test_nobody_keeps_it_for_long(void **state)
{
    (void)state;
    int64_t begun = clock_now_ms();
    assert_true(enter(0, ROOM_BYTES));
    assert_false(enter(1, ROOM_BYTES));
    run_until_granted(1);
    assert_true(clock_now_ms() - begun >= 400);
    room_leave(&places[0]); /* does not count any more, so it gives nothing back */
    assert_false(enter(2, 1));
}

static void test_an_owner_who_takes_all_keeps_nobody_waiting(void **state)
{
    (void)state;
    assert_true(enter(0, ROOM_BYTES));
    for (int i = 1; i < 5; i++)
        assert_false(enter(i, ROOM_BYTES));
    assert_true(enter_of("ben", 5, ROOM_BYTES)); /* at once, past those who wait */
    assert_false(enter_of("ben", 6, 1));
}

static void test_owners_take_turns_at_the_bound_of_all(void **state)
{
    (void)state;
    static const char *const names[] = { "ann", "ben", "cem", "dan" };
    for (int i = 0; i < 4; i++)
        assert_true(enter_of(names[i], i, ROOM_BYTES));
    assert_false(enter(4, MB));
    assert_false(enter(5, MB));
    assert_false(enter_of("eve", 6, MB));
    room_leave(&places[0]);
    run_until_granted(3);
    assert_int_equal(order[0], 4); /* neither ann nor eve holds anything: the oldest */
    assert_int_equal(order[1], 6); /* ann holds something now */
    assert_int_equal(order[2], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_come_first_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_larger_than_the_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_held_anyway_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_keeps_it_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_owner_who_takes_all_keeps_nobody_waiting, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_owners_take_turns_at_the_bound_of_all, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
