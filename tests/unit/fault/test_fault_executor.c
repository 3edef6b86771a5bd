/*
 * A run from the queue to its result on the fake provider, when memory runs out at any step, or
 * when the provider fails at one: one callback for each call that was accepted, a reason with each
 * failure, and an executor that runs the next one.
 */

#include <uv.h>
#include "base/check.h"
#include "base/config.h"
#include "fault/fault.h"
#include "sandbox/fake.h"
#include "sandbox/pool/executor.h"

#define ROUNDS_MAX 20000

/* The fake provider, which stands for other processes: its own memory never runs out. */
static struct provider_ops ops;

static int quiet_open(uv_loop_t *loop, const struct config *cfg, const struct provider_options *opt,
                      struct provider **ret, struct err *err)
{
    fault_pause();
    int r = fake_provider.open(loop, cfg, opt, ret, err);
    if (r == 0)
        (*ret)->ops = &ops;
    fault_resume();
    return r;
}

static int quiet_spawn(struct provider *p, const struct spawn_spec *spec, spawn_fn done, void *arg,
                       struct err *err)
{
    fault_pause();
    int r = fake_provider.spawn(p, spec, done, arg, err);
    fault_resume();
    return r;
}

/* What a kernel says is read by the code under test. */
static struct {
    const struct link_events *events;
    void *arg;
} said;

static void hear_control(void *arg, const char *bytes, size_t len)
{
    (void)arg;
    fault_resume();
    said.events->control(said.arg, bytes, len);
    fault_pause();
}

static void hear_output(void *arg, bool is_stderr, const char *bytes, size_t len)
{
    (void)arg;
    fault_resume();
    said.events->output(said.arg, is_stderr, bytes, len);
    fault_pause();
}

static void hear_exited(void *arg, const struct kernel_exit *how)
{
    (void)arg;
    fault_resume();
    said.events->exited(said.arg, how);
    fault_pause();
}

static int quiet_start(struct kernel_link *l, json_t *start, const struct kernel_mount *mounts,
                       size_t n_mounts, struct err *err)
{
    static const struct link_events hear = { .control = hear_control,
                                             .output = hear_output,
                                             .exited = hear_exited };

    fault_pause();
    if (l->events != &hear) {
        said.events = l->events;
        said.arg = l->arg;
        l->events = &hear;
    }
    int r = fake_provider.start(l, start, mounts, n_mounts, err);
    fault_resume();
    return r;
}

static int quiet_send(struct kernel_link *l, const void *bytes, size_t len, struct err *err)
{
    fault_pause();
    int r = fake_provider.send(l, bytes, len, err);
    fault_resume();
    return r;
}

/* In place of the table of providers: the one that no setting chooses. */
const struct provider_ops *provider_find(const char *name, struct err *err)
{
    (void)name, (void)err;
    return &ops;
}

const struct provider_ops *provider_at(size_t i)
{
    return i == 0 ? &ops : NULL;
}

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
    fault_spare_turns(true);
    clearenv();
    fake_reset();
    ops = fake_provider;
    ops.open = quiet_open;
    ops.spawn = quiet_spawn;
    ops.start = quiet_start;
    ops.send = quiet_send;
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
