/*
 * Leases and places, with kernels of the fake provider: who waits for whom, and what becomes of a
 * lease meanwhile.
 */

#include "base/check.h"

#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/memory.h"
#include "sandbox/fake.h"
#include "sandbox/pool/executor.h"

static char dir[64];
static uv_loop_t loop;
static struct config cfg;
static struct executor *executor;
static int64_t memory_bytes; /* limit of the kernels of a test */

/* What a lease and its last run came to. */
struct seen {
    struct lease *lease;
    bool ready, done;
    enum err_code code;
    enum verdict verdict;
    bool interrupted;
    long long value;
};

static int setup(void **state)
{
    (void)state;
    struct err err;
    make_scratch(dir);
    fake_reset();
    memory_bytes = 64 << 20;
    setenv("RIDDLE_HOME", dir, 1);
    assert_works(config_load(&cfg, NULL, &err), &err);
    cfg.memory_bytes = memory_bytes;
    cfg.pool_size = 0;
    cfg.max_kernels = cfg.queue_max = 1;
    assert_int_equal(uv_loop_init(&loop), 0);
    const struct executor_options options = { .provider = &fake_provider };
    assert_works(executor_create(&loop, &cfg, &options, &executor, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct err err;
    executor_destroy(executor);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    config_finish(&cfg);
    assert_works(fd_remove_tree(dir, &err), &err);
    return 0;
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct seen *s = arg;
    assert_true(err || lease == s->lease);
    s->ready = !err;
    s->code = err ? err->code : ERR_NONE;
    if (err)
        s->lease = NULL;
}

static void on_done(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    struct seen *s = arg;
    (void)lease;
    s->done = true;
    s->code = err ? err->code : ERR_NONE;
    if (!result)
        return;
    s->verdict = result->verdict;
    s->interrupted = result->interrupted;
    s->value = json_integer_value(
        json_array_get(json_array_get(json_object_get(result->body, "rows"), 0), 0));
    run_result_finish(result);
}

static int acquire(struct seen *s, const char *owner, enum run_kind kind, bool refusable,
                   struct err *err)
{
    struct sandbox_spec spec = { .kind = kind, .refusable = refusable };
    sandbox_limits_default(&cfg, &spec.limits);
    spec.limits.memory_bytes = memory_bytes;
    *s = (struct seen){ .lease = NULL };
    return executor_acquire(executor, owner, &spec, NULL, on_ready, s, &s->lease, err);
}

static void begin(struct seen *s, enum run_kind kind, const char *code)
{
    struct err err;
    const struct run_request req = { .kind = kind,
                                     .code = code,
                                     .code_len = strlen(code),
                                     .timeout_ms = 60000,
                                     .max_rows = 10,
                                     .max_output_bytes = 2000 };
    s->done = false;
    assert_works(lease_run(s->lease, &req, NULL, on_done, s, &err), &err);
    assert_false(s->done);
}

static void until(const bool *flag)
{
    for (int i = 0; !*flag && i < 100000; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(*flag);
}

/* Everything that can happen without anything else has happened. */
static void settle(void)
{
    for (int i = 0; i < 50; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void ready(struct seen *s, const char *owner, enum run_kind kind)
{
    struct err err;
    assert_works(acquire(s, owner, kind, false, &err), &err);
    until(&s->ready);
}

static void test_sql_does_not_wait_for_python(void **state)
{
    (void)state;
    struct err err;
    struct seen python, second, sql;
    ready(&python, "ann", RUN_PYTHON);
    begin(&python, RUN_PYTHON, "spin()");
    assert_works(acquire(&second, "ann", RUN_PYTHON, false, &err), &err);
    ready(&sql, "ann", RUN_SQL);
    begin(&sql, RUN_SQL, "SELECT 7");
    until(&sql.done);
    assert_int_equal(sql.verdict, VERDICT_OK);
    settle();
    assert_false(second.ready);
    lease_interrupt(python.lease);
    until(&python.done);
    lease_release(python.lease);
    until(&second.ready);
    lease_release(second.lease);
    lease_release(sql.lease);
}

static void test_what_may_be_refused_is(void **state)
{
    (void)state;
    struct err err;
    struct seen first, waits, refused, patient, others;
    struct executor_stats stats;
    ready(&first, "ann", RUN_PYTHON);
    assert_works(acquire(&waits, "ann", RUN_PYTHON, true, &err), &err);
    assert_fails(acquire(&refused, "ann", RUN_PYTHON, true, &err), &err, ERR_UNAVAILABLE,
                 "the server is busy: 1 runs of yours are waiting; try again soon");
    assert_works(acquire(&patient, "ann", RUN_PYTHON, false, &err), &err);
    assert_works(acquire(&others, "bob", RUN_PYTHON, true, &err), &err);
    executor_stats(executor, &stats);
    assert_int_equal(stats.queued, 3);
    assert_int_equal(stats.refused, 1);
    lease_release(first.lease);
    until(&waits.ready);
    lease_release(waits.lease);
    until(&others.ready); /* before ann's other one, which came before it */
    lease_release(others.lease);
    until(&patient.ready);
    lease_release(patient.lease);
}

static void test_a_parked_lease_waits_for_its_next_run(void **state)
{
    (void)state;
    struct seen kept, other;
    struct executor_stats stats;
    ready(&kept, "ann", RUN_PYTHON);
    begin(&kept, RUN_PYTHON, "x = 42");
    until(&kept.done);
    assert_int_equal(lease_park(kept.lease), 0);
    ready(&other, "bob", RUN_PYTHON); /* the place is free */
    executor_stats(executor, &stats);
    assert_int_equal(stats.parked, 1);
    assert_int_equal(stats.held_bytes, memory_bytes + memory_bytes / 8);
    begin(&other, RUN_PYTHON, "spin()");
    begin(&kept, RUN_PYTHON, "x");
    settle();
    assert_false(kept.done);
    /* Stopped before it began: its variables are as they were. */
    lease_interrupt(kept.lease);
    assert_false(kept.done); /* not from within */
    until(&kept.done);
    assert_int_equal(kept.code, ERR_NONE);
    assert_int_equal(kept.verdict, VERDICT_KILLED);
    assert_true(kept.interrupted && lease_alive(kept.lease));
    begin(&kept, RUN_PYTHON, "x");
    settle();
    assert_false(kept.done);
    lease_release(other.lease); /* with its run */
    until(&kept.done);
    assert_int_equal(kept.verdict, VERDICT_OK);
    assert_int_equal(kept.value, 42);
    lease_release(kept.lease);
    executor_stats(executor, &stats);
    assert_int_equal(stats.held_bytes, 0);
}

static void test_a_waiting_run_ends_with_its_lease_and_with_the_executor(void **state)
{
    (void)state;
    struct seen kept[2], other;
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        ready(&kept[i], "ann", RUN_PYTHON);
        assert_int_equal(lease_park(kept[i].lease), 0);
    }
    ready(&other, "bob", RUN_PYTHON);
    begin(&kept[0], RUN_PYTHON, "1");
    begin(&kept[1], RUN_PYTHON, "1");
    settle();
    lease_release(kept[0].lease);
    settle();
    assert_false(kept[0].done);
    executor_destroy(executor);
    executor = NULL;
    assert_true(kept[1].done);
    assert_int_equal(kept[1].code, ERR_CANCELLED);
}

static struct seen parked[5];
static unsigned asked;

static bool make_room(void *arg)
{
    (void)arg;
    asked++;
    for (size_t i = 0; i < ARRAY_SIZE(parked); i++)
        if (parked[i].lease) {
            lease_release(TAKE_PTR(parked[i].lease));
            return true;
        }
    return false;
}

/*
 * Each may use all the memory that there is, and one that is parked is counted with an eighth of
 * that.
 */
static void test_parked_kernels_make_room(void **state)
{
    (void)state;
    struct err err;
    struct seen runs, waits;
    executor_destroy(executor);
    cfg.max_kernels = 2;
    const struct executor_options options = { .provider = &fake_provider };
    assert_works(executor_create(&loop, &cfg, &options, &executor, &err), &err);
    executor_on_shortage(executor, make_room, NULL);
    asked = 0;
    memory_bytes = memory_limit_bytes("") / 5 * 4;
    for (size_t i = 0; i < ARRAY_SIZE(parked); i++) {
        ready(&parked[i], "ann", RUN_PYTHON);
        assert_int_equal(lease_park(parked[i].lease), 0);
    }
    settle();
    assert_int_equal(asked, 0); /* nobody waits for it */
    ready(&runs, "bob", RUN_PYTHON);
    assert_works(acquire(&waits, "bob", RUN_PYTHON, false, &err), &err);
    settle();
    assert_int_equal(asked, 1); /* those that are left hold half of it */
    assert_false(waits.ready);
    lease_release(runs.lease);
    until(&waits.ready);
    lease_release(waits.lease);
    while (make_room(NULL))
        ;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sql_does_not_wait_for_python, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_may_be_refused_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_parked_lease_waits_for_its_next_run, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_waiting_run_ends_with_its_lease_and_with_the_executor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parked_kernels_make_room, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
