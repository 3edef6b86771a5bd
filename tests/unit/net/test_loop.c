/*
 * The loop: order of deferred calls, timers, workers, signals, and an end that frees what is open.
 */

#include "base/check.h"
#include <signal.h>
#include <pthread.h>
#include <unistd.h>
#include "net/loop.h"

static struct loop *loop;
static char order[64];
static pthread_t worker;

static int setup(void **state)
{
    struct err e;

    (void)state;
    order[0] = '\0';
    assert_works(loop_create(&loop, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}

static void note(void *arg)
{
    strcat(order, arg);
}

static void note_and_defer(void *arg)
{
    struct err e;

    strcat(order, arg);
    assert_works(loop_defer(loop, note, (void *)"d", &e), &e);
}

static void test_defer(void **state)
{
    struct err e;

    (void)state;
    assert_works(loop_defer(loop, note, (void *)"a", &e), &e);
    assert_works(loop_defer(loop, note_and_defer, (void *)"b", &e), &e);
    assert_works(loop_defer(loop, note, (void *)"c", &e), &e);
    assert_string_equal(order, "");
    loop_run(loop);
    assert_string_equal(order, "abcd");
}

static void test_timers(void **state)
{
    struct loop_timer *never;
    struct err e;

    (void)state;
    assert_works(loop_after(loop, 20, note, (void *)"2", NULL, &e), &e);
    assert_works(loop_after(loop, 1, note, (void *)"1", NULL, &e), &e);
    assert_works(loop_after(loop, 5, note, (void *)"x", &never, &e), &e);
    loop_cancel(never);
    loop_cancel(NULL);
    loop_run(loop);
    assert_string_equal(order, "12");
}

static void work(void *arg)
{
    (void)arg;
    worker = pthread_self();
}

static void work_done(void *arg)
{
    assert_false(pthread_equal(worker, pthread_self()));
    note(arg);
}

static void test_work(void **state)
{
    struct err e;

    (void)state;
    assert_works(loop_work(loop, work, work_done, (void *)"w", &e), &e);
    loop_run(loop);
    assert_string_equal(order, "w");
}

static void on_signal(void *arg, int count)
{
    note(arg);
    if (count == 2)
        loop_quit(loop);
    else
        kill(getpid(), SIGTERM);
}

static void raise_interrupt(void *arg)
{
    (void)arg;
    kill(getpid(), SIGINT);
}

static void test_signals(void **state)
{
    struct loop_timer *far;
    struct err e;

    (void)state;
    assert_works(loop_on_stop_signal(loop, on_signal, (void *)"s", &e), &e);
    assert_works(loop_after(loop, 60000, note, (void *)"x", &far, &e), &e);
    assert_works(loop_defer(loop, raise_interrupt, NULL, &e), &e);
    loop_run(loop);
    assert_string_equal(order, "ss");
}

/* Open timers, deferred calls and work under way: nothing leaks, which AddressSanitizer checks. */
static void test_destroy_busy(void **state)
{
    struct err e;

    (void)state;
    assert_works(loop_after(loop, 60000, note, (void *)"x", NULL, &e), &e);
    assert_works(loop_defer(loop, note, (void *)"x", &e), &e);
    assert_works(loop_work(loop, work, note_and_defer, (void *)"w", &e), &e);
    loop_destroy(loop);
    assert_string_equal(order, "w");
    setup(state);
}

static void block_50_ms(void *arg)
{
    (void)arg;
    usleep(50000);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void test_lag_is_busy_time(void **state)
{
    struct loop_lag lag;
    struct err e;

    (void)state;
    /* 100 ms of waiting are no lag; 50 ms inside a callback are. */
    assert_works(loop_after(loop, 100, nothing, NULL, NULL, &e), &e);
    loop_run(loop);
    loop_lag(loop, &lag);
    assert_true(lag.max_s < 0.05);
    assert_works(loop_after(loop, 1, block_50_ms, NULL, NULL, &e), &e);
    assert_works(loop_after(loop, 60, nothing, NULL, NULL, &e), &e);
    loop_run(loop);
    loop_lag(loop, &lag);
    assert_true(lag.max_s >= 0.05);
    assert_true(lag.busy.sum_s >= lag.max_s);
    assert_true(lag.cpu.sum_s < 0.05 && lag.cpu.count == lag.busy.count);
    uint64_t n = 0, long_ones = 0;
    for (size_t i = 0; i < LOOP_LAG_BUCKETS; i++) {
        n += lag.busy.counts[i];
        if (loop_lag_bounds[i] > 0.05)
            long_ones += lag.busy.counts[i];
    }
    assert_true(n <= lag.busy.count);
    assert_int_equal(long_ones + lag.busy.count - n, 1);
}

static void slow_work(void *arg)
{
    usleep(50000);
    *(pthread_t *)arg = pthread_self();
}

static void background_done(void *arg)
{
    assert_false(pthread_equal(*(pthread_t *)arg, pthread_self()));
    strcat(order, "b");
}

static void test_background(void **state)
{
    pthread_t of[2];
    struct err e;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_works(loop_background(loop_uv(loop), slow_work, background_done, &of[i], &e), &e);
    assert_string_equal(order, "");
    loop_run(loop);
    assert_string_equal(order, "bb");
}

/* A loop that ends waits for it: nothing wakes a loop that is gone. */
static void test_destroy_with_background_work(void **state)
{
    struct loop *other;
    pthread_t of;
    struct err e;

    (void)state;
    assert_works(loop_create(&other, &e), &e);
    assert_works(loop_background(loop_uv(other), slow_work, background_done, &of, &e), &e);
    loop_destroy(other);
    assert_string_equal(order, "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_background, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroy_with_background_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lag_is_busy_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroy_busy, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
