/*
 * A run from the queue to its result on the fake provider, when memory runs out at any step, or
 * when the provider fails at one: one callback for each call that was accepted, a reason with each
 * failure, and an executor that runs the next one.
 */

#include <uv.h>
#include "base/check.h"
#include "base/config.h"
#include "fault/fault.h"
#include "fault/quiet_fake.h"
#include "sandbox/fake.h"
#include "sandbox/pool/executor.h"

#define ROUNDS_MAX 20000

static struct {
    uv_loop_t loop;
    struct config cfg;
    struct executor *ex;
} f;

/* What became of one run. */
struct outcome {
    int ready, done;
    struct err err;
    enum verdict verdict;
    struct lease *lease;
};

static void check_reason(const struct err *err)
{
    assert_true(err->code != ERR_NONE);
    assert_true(err->message[0]);
}

static void on_done(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    struct outcome *o = arg;

    (void)lease;
    o->done++;
    if (err) {
        check_reason(err);
        o->err = *err;
        return;
    }
    o->verdict = result->verdict;
    run_result_finish(result);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    static const struct run_request request = { .kind = RUN_PYTHON,
                                                .code = "print('hi')",
                                                .code_len = 11,
                                                .policy = POLICY_OPEN,
                                                .timeout_ms = 200,
                                                .max_rows = 10,
                                                .max_output_bytes = 65536 };
    struct outcome *o = arg;
    struct err why = ERR_INIT;

    o->ready++;
    if (err) {
        check_reason(err);
        o->err = *err;
        o->lease = NULL;
        o->done++;
        return;
    }
    if (lease_run(lease, &request, NULL, on_done, o, &why) < 0) {
        check_reason(&why);
        o->err = why;
        o->done++;
    }
}

/* Runs one cell to its end; o tells how it went. */
static void run_once(struct outcome *o)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };

    *o = (struct outcome){ .err = ERR_INIT, .verdict = _VERDICT_MAX };
    sandbox_limits_default(&f.cfg, &spec.limits);
    if (executor_acquire(f.ex, "ann", &spec, NULL, on_ready, o, &o->lease, &o->err) < 0) {
        check_reason(&o->err);
        return;
    }
    while (!o->done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(o->ready, 1);
    assert_int_equal(o->done, 1);
    lease_release(o->lease);
}

static void expect_good_run(void)
{
    struct outcome o;

    run_once(&o);
    if (o.err.code != ERR_NONE)
        fail_msg("%s", o.err.message);
    assert_int_equal(o.verdict, VERDICT_OK);
}

static void run_case(void *arg)
{
    struct outcome o;

    (void)arg;
    run_once(&o);
    if (o.err.code != ERR_NONE || o.verdict != VERDICT_OK)
        assert_true(fault_fired());
    fault_pause();
    expect_good_run();
}

static void create_case(void *arg)
{
    static const struct executor_options lazy = { .lazy = true };
    struct executor *ex = NULL;
    struct err err = ERR_INIT;

    (void)arg;
    if (executor_create(&f.loop, &f.cfg, &lazy, &ex, &err) < 0) {
        assert_true(fault_fired());
        check_reason(&err);
        return;
    }
    fault_pause();
    executor_destroy(ex);
}

static void test_create(void **state)
{
    (void)state;
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, create_case, NULL) > 1);
}

static void test_run(void **state)
{
    (void)state;
    expect_good_run();
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, run_case, NULL) > 10);
}

static void test_provider_fails(void **state)
{
    static const enum fake_step steps[] = { FAKE_SPAWN, FAKE_START, FAKE_SEND };

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct outcome o;
        bool failed = false;

        /* A kernel that takes nothing is replaced; when all are so, that is told. */
        for (unsigned n = 1; n <= 4; n++) {
            fake_fail(steps[i], n < 4 ? n : FAKE_EVERY);
            run_once(&o);
            failed |= o.err.code != ERR_NONE || o.verdict != VERDICT_OK;
            fake_fail(steps[i], 0);
            expect_good_run();
        }
        /* Another kernel may have been in the pool. */
        assert_true(failed || steps[i] == FAKE_SPAWN);
    }
}

static int setup(void **state)
{
    static const struct executor_options lazy = { .lazy = true };
    struct err err = ERR_INIT;

    (void)state;
    fault_init();
    clearenv();
    quiet_fake_init();
    if (config_load(&f.cfg, NULL, &err) < 0 || uv_loop_init(&f.loop) < 0 ||
        executor_create(&f.loop, &f.cfg, &lazy, &f.ex, &err) < 0)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    executor_destroy(f.ex);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    config_finish(&f.cfg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_provider_fails),
        cmocka_unit_test(test_create),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
