/*
 * The kernel of a thread: its table, pair by pair, and the machine on scripted sandboxes. The
 * functions of the executor are this file's own: what a test does not answer stays under way.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/macros.h"
#include "base/str.h"
#include "run/thread_kernel.h"

/* ---- the table ---- */

/*
 * For each state, by event: the next state, "" when the event is refused; with f or i when the
 * provider must freeze or image.
 */
#define EVENTS "want ready failed run ran copy copied freeze frozen image imaged died drop told"
static const char *const expected[_KERNEL_STATE_MAX][_KERNEL_EVENT_MAX + 1] = {
    { "none", "starting", "", "", "", "", "", "", "", "", "", "", "", "none", "" },
    { "starting", "starting", "hot", "lost", "", "", "", "", "", "", "", "", "", "lost", "" },
    { "hot", "hot", "", "lost", "running", "", "copying", "", "f:freezing", "", "i:imaging", "",
      "lost", "lost", "" },
    { "running", "running", "", "lost", "", "hot", "", "", "", "", "", "", "lost", "lost", "" },
    { "copying", "copying", "", "hot", "", "", "", "hot", "", "", "", "", "lost", "lost", "" },
    { "freezing", "freezing", "", "hot", "", "", "", "", "", "warm", "", "", "lost", "lost", "" },
    { "warm", "thawing", "", "", "", "", "", "", "", "", "i:imaging", "", "lost", "lost", "" },
    { "thawing", "thawing", "hot", "lost", "", "", "", "", "", "", "", "", "lost", "lost", "" },
    { "imaging", "imaging", "hot", "hot", "", "", "", "", "", "", "", "cold", "lost", "lost", "" },
    { "cold", "i:restoring", "", "", "", "", "", "", "", "", "", "", "", "lost", "" },
    { "restoring", "restoring", "hot", "lost", "", "", "", "", "", "", "", "cold", "", "lost", "" },
    { "lost", "starting", "", "", "", "", "", "", "", "", "", "", "", "lost", "none" },
};

static void table_decides_every_pair(void **state)
{
    (void)state;
    char events[256] = "";
    for (int e = 0; e < _KERNEL_EVENT_MAX; e++) {
        strcat(events, e ? " " : "");
        strcat(events, kernel_event_name((enum kernel_event)e));
    }
    assert_string_equal(events, EVENTS);
    for (int s = 0; s < _KERNEL_STATE_MAX; s++) {
        assert_string_equal(kernel_state_name((enum kernel_state)s), expected[s][0]);
        for (int e = 0; e < _KERNEL_EVENT_MAX; e++) {
            const char *want = expected[s][e + 1];
            unsigned needs = want[0] && want[1] == ':' ?
                                 (*want == 'f' ? KERNEL_CAN_FREEZE : KERNEL_CAN_IMAGE) :
                                 0;
            struct kernel_move move;
            struct err err = ERR_INIT;
            int r = kernel_move((enum kernel_state)s, (enum kernel_event)e, ~0u, &move, &err);
            if (!*want) {
                assert_int_equal(r, -ERR_CONFLICT);
                assert_non_null(strstr(err.message, kernel_state_name((enum kernel_state)s)));
                assert_non_null(strstr(err.message, kernel_event_name((enum kernel_event)e)));
                continue;
            }
            assert_int_equal(r, 0);
            assert_string_equal(kernel_state_name(move.next), want + (needs ? 2 : 0));
            assert_int_equal(move.needs, needs);
            r = kernel_move((enum kernel_state)s, (enum kernel_event)e, ~needs & 3u, &move, &err);
            assert_int_equal(r, needs ? -ERR_UNAVAILABLE : 0);
        }
    }
}

/* Every state can be reached from `none`, and given up. */
static void table_has_no_dead_ends(void **state)
{
    (void)state;
    bool seen[_KERNEL_STATE_MAX] = { [KERNEL_NONE] = true };
    for (int round = 0; round < _KERNEL_STATE_MAX; round++)
        for (int s = 0; s < _KERNEL_STATE_MAX; s++)
            for (int e = 0; e < _KERNEL_EVENT_MAX; e++) {
                struct kernel_move move;
                if (seen[s] &&
                    kernel_move((enum kernel_state)s, (enum kernel_event)e, ~0u, &move, NULL) == 0)
                    seen[move.next] = true;
            }
    for (int s = 0; s < _KERNEL_STATE_MAX; s++) {
        struct kernel_move move;
        assert_true(seen[s]);
        assert_int_equal(kernel_move((enum kernel_state)s, KERNEL_EV_DROP, 0, &move, NULL), 0);
        assert_true(kernel_state_is_gone(move.next));
    }
}

/* ---- scripted sandboxes ---- */

struct lease {
    enum run_kind kind;
    bool alive, parked, released;
    lease_ready_fn ready;
    lease_done_fn done;
    lease_file_fn file;
    void *arg;
    unsigned interrupts, pauses, runs;
};

static struct lease leases[8];
static size_t n_leases;
static bool refuse_run, refuse_acquire;

int executor_acquire(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                     const struct run_events *events, lease_ready_fn ready, void *arg,
                     struct lease **ret, struct err *err)
{
    (void)ex, (void)events;
    assert_string_equal(owner, "ann");
    if (refuse_acquire)
        return err_set(err, ERR_UNAVAILABLE, "the queue is full");
    assert_true(n_leases < ARRAY_SIZE(leases));
    *ret = &leases[n_leases++];
    **ret = (struct lease){ .kind = spec->kind, .ready = ready, .arg = arg };
    return 0;
}

int lease_run(struct lease *l, const struct run_request *req, const struct run_events *events,
              lease_done_fn done, void *arg, struct err *err)
{
    (void)req, (void)events;
    if (refuse_run)
        return err_set(err, ERR_IO, "broken pipe");
    l->done = done;
    l->arg = arg;
    l->parked = false;
    l->runs++;
    return 0;
}

static int begin_file(struct lease *l, lease_file_fn done, void *arg)
{
    assert_null(l->done);
    l->file = done;
    l->arg = arg;
    return 0;
}

int lease_read_file(struct lease *l, const char *path, int64_t offset, int64_t max_bytes,
                    lease_file_fn done, void *arg, struct err *err)
{
    (void)path, (void)offset, (void)max_bytes, (void)err;
    return begin_file(l, done, arg);
}

int lease_write_file(struct lease *l, const char *path, const void *data, size_t len, bool append,
                     lease_file_fn done, void *arg, struct err *err)
{
    (void)path, (void)data, (void)len, (void)append, (void)err;
    return begin_file(l, done, arg);
}

int lease_list_files(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    (void)err;
    l->done = done;
    l->arg = arg;
    return 0;
}

int lease_inspect(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    return lease_list_files(l, done, arg, err);
}

int lease_remove_file(struct lease *l, const char *path, lease_file_fn done, void *arg,
                      struct err *err)
{
    return lease_write_file(l, path, "", 0, false, done, arg, err);
}

void lease_reply(struct lease *l, uint32_t ask, const json_t *value, const struct err *error)
{
    (void)l;
    (void)ask;
    (void)value;
    (void)error;
    fail(); /* nothing asks here */
}

void lease_pause(struct lease *l)
{
    l->pauses++;
}

void lease_interrupt(struct lease *l)
{
    l->interrupts++;
}

bool lease_alive(const struct lease *l)
{
    return l->alive;
}

int lease_park(struct lease *l)
{
    l->parked = l->alive;
    return l->alive ? 0 : -ERR_CONFLICT;
}

void lease_release(struct lease *l)
{
    if (l) {
        l->released = true;
        l->alive = false;
        l->done = NULL;
        l->file = NULL;
        l->ready = NULL;
    }
}

static void answer_ready(struct lease *l)
{
    lease_ready_fn fn = TAKE_PTR(l->ready);
    l->alive = true;
    fn(l, NULL, l->arg);
}

static enum err_code fail_with = ERR_UNAVAILABLE;

static void answer_failed(struct lease *l)
{
    struct err err = ERR_INIT;
    lease_ready_fn fn = TAKE_PTR(l->ready);
    err_set(&err, fail_with, "no fork today");
    fail_with = ERR_UNAVAILABLE;
    fn(l, &err, l->arg);
}

static void answer_ran(struct lease *l, bool lost)
{
    struct run_result result = { .verdict = lost ? VERDICT_KILLED : VERDICT_OK,
                                 .state_lost = lost,
                                 .body = json_object() };
    lease_done_fn fn = TAKE_PTR(l->done);
    if (lost)
        l->alive = false;
    fn(l, &result, NULL, l->arg);
}

static void answer_piece(struct lease *l)
{
    struct file_piece piece = { 0 };
    TAKE_PTR(l->file)(l, &piece, NULL, l->arg);
}

/* ---- sleep ---- */

static lease_ready_fn slept;
static void *slept_arg;
static unsigned discarded, retired, outdated, imaged, ported;

static int op_sleep(struct lease *l, lease_ready_fn done, void *arg, struct err *err)
{
    (void)l, (void)err;
    slept = done;
    slept_arg = arg;
    return 0;
}

static int op_image(struct lease *l, const char *path, lease_ready_fn done, void *arg,
                    struct err *err)
{
    assert_string_equal(path, "image-1");
    return op_sleep(l, done, arg, err);
}

/* The lease that is made is told ready by the test, and so is the one that it is made from. */
static int op_branch(struct lease *from, const char *owner, const struct sandbox_spec *spec,
                     lease_ready_fn ready, void *arg, struct lease **ret, lease_ready_fn done,
                     void *done_arg, struct err *err)
{
    int r = executor_acquire(NULL, owner, spec, NULL, ready, arg, ret, err);
    return r < 0 ? r : op_sleep(from, done, done_arg, err);
}

static int op_restore(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                      const char *path, lease_ready_fn ready, void *arg, struct lease **ret,
                      struct err *err)
{
    assert_string_equal(path, "image-1");
    return executor_acquire(ex, owner, spec, NULL, ready, arg, ret, err);
}

static void op_retire(const char *path)
{
    assert_string_equal(path, "image-1");
    retired++;
}

static void op_outdate(const char *path)
{
    assert_string_equal(path, "image-1");
    outdated++;
}

static void op_imaged(const char *path)
{
    assert_string_equal(path, "image-1");
    imaged++;
}

static void op_discard(const char *path)
{
    assert_string_equal(path, "image-1");
    discarded++;
}

static int op_port(struct lease *l, const char *path, lease_ready_fn done, void *arg,
                   struct err *err)
{
    ported++;
    return op_image(l, path, done, arg, err);
}

static const struct kernel_sleep_ops sleep_ops = { .freeze = op_sleep,
                                                   .thaw = op_sleep,
                                                   .image = op_image,
                                                   .port = op_port,
                                                   .restore = op_restore,
                                                   .retire = op_retire,
                                                   .outdate = op_outdate,
                                                   .imaged = op_imaged,
                                                   .discard = op_discard,
                                                   .branch = op_branch };

static const char *not_kept; /* of every lease */

const char *lease_not_kept(const struct lease *l)
{
    (void)l;
    return not_kept;
}

const char *lease_no_image(const struct lease *l)
{
    (void)l;
    return NULL;
}

const char *lease_companion_lacks(const struct lease *l)
{
    (void)l;
    return NULL;
}

static void answer_slept(struct lease *l)
{
    TAKE_PTR(slept)(l, NULL, slept_arg);
}

/* ---- a thread ---- */

static struct loop *loop;
static struct thread_kernel *kernel;
static unsigned n_done, n_arrived;
static enum err_code last_err;
static enum verdict last_verdict;
static bool inside, destroy_when_done;

static void spec(void *arg, struct sandbox_spec *ret)
{
    (void)arg, (void)ret;
}

static void changed(void *arg, bool arrived)
{
    (void)arg;
    n_arrived += arrived;
}

static void turn_loop(void)
{
    for (int i = 0; i < 20; i++)
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
}

static void make(const struct kernel_sleep_ops *sleep_of, struct thread_kernel **ret)
{
    struct err err = ERR_INIT;
    struct thread_kernel_env env = {
        .loop = loop, .sleep = sleep_of, .owner = "ann", .spec = spec, .changed = changed
    };
    assert_int_equal(thread_kernel_create(&env, ret, &err), 0);
}

static int setup(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    memset(leases, 0, sizeof(leases));
    n_leases = n_done = n_arrived = discarded = retired = outdated = imaged = 0;
    refuse_run = refuse_acquire = inside = destroy_when_done = false;
    last_err = ERR_NONE;
    assert_int_equal(loop_create(&loop, &err), 0);
    make(&sleep_ops, &kernel);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    thread_kernel_destroy(TAKE_PTR(kernel));
    for (size_t i = 0; i < n_leases; i++)
        assert_true(leases[i].released || !leases[i].alive);
    loop_destroy(TAKE_PTR(loop));
    return 0;
}

static void on_done(void *arg, const struct run_result *result, const struct err *err)
{
    (void)arg;
    assert_false(inside);
    n_done++;
    last_err = err ? err->code : ERR_NONE;
    last_verdict = result ? result->verdict : _VERDICT_MAX;
    if (destroy_when_done)
        thread_kernel_destroy(TAKE_PTR(kernel));
}

static int run(struct thread_kernel *k, enum run_kind kind)
{
    struct err err = ERR_INIT;
    struct kernel_job job = { .kind = kind, .code = "x", .timeout_ms = 1000, .done = on_done };
    inside = true;
    int r = thread_kernel_run(k, &job, &err);
    inside = false;
    return r;
}

static void assert_state(enum kernel_state want)
{
    assert_string_equal(kernel_state_name(thread_kernel_state(kernel)), kernel_state_name(want));
}

/* A kernel in which Python ran. */
static struct lease *make_hot(void)
{
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_state(KERNEL_STARTING);
    struct lease *l = &leases[n_leases - 1];
    answer_ready(l);
    assert_state(KERNEL_RUNNING);
    answer_ran(l, false);
    turn_loop();
    assert_state(KERNEL_HOT);
    assert_true(l->parked);
    assert_true(thread_kernel_has_variables(kernel));
    n_done = 0;
    return l;
}

static void code_starts_a_kernel_and_keeps_it(void **state)
{
    (void)state;
    struct lease *l = make_hot();
    assert_int_equal(n_arrived, 1);
    assert_true(thread_kernel_times(kernel)->wait_us >= 0);
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_int_equal(run(kernel, RUN_PYTHON), -ERR_CONFLICT);
    assert_int_equal(thread_kernel_times(kernel)->wait_us, -1);
    thread_kernel_pause(kernel);
    assert_int_equal(l->pauses, 1);
    thread_kernel_interrupt(kernel);
    assert_int_equal(l->interrupts, 1);
    answer_ran(l, false);
    assert_int_equal(n_done, 1);
    assert_int_equal(run(kernel, RUN_SQL), 0); /* where the DataFrames are */
    assert_int_equal(n_leases, 1);
    answer_ran(l, false);
    turn_loop();
    assert_state(KERNEL_HOT);
    assert_null(thread_kernel_take_loss(kernel));
}

static void sql_does_not_wait_for_python(void **state)
{
    (void)state;
    thread_kernel_times(kernel)->ahead_us = -1;
    thread_kernel_prepare(kernel);
    assert_int_equal(run(kernel, RUN_SQL), 0);
    assert_int_equal(n_leases, 2);
    assert_int_equal(leases[1].kind, RUN_SQL);
    answer_ready(&leases[1]);
    assert_state(KERNEL_STARTING);
    answer_ready(&leases[0]);
    assert_state(KERNEL_HOT);
    assert_true(leases[0].parked);
    answer_ran(&leases[1], false);
    turn_loop();
    assert_int_equal(n_done, 1);
    assert_true(leases[1].released);
    assert_int_equal(leases[0].runs, 0);
    assert_true(thread_kernel_times(kernel)->ahead_us >= 0);
    thread_kernel_drop(kernel, "nobody needs it"); /* no variables: no loss */
    assert_state(KERNEL_NONE);
    assert_null(thread_kernel_take_loss(kernel));
}

static void a_kernel_that_dies_is_a_loss_until_it_is_told(void **state)
{
    (void)state;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ran(l, true);
    turn_loop();
    assert_int_equal(last_verdict, VERDICT_KILLED);
    assert_state(KERNEL_LOST);
    assert_true(l->released);
    assert_string_equal(thread_kernel_take_loss(kernel),
                        "the code that ran last ended its sandbox");
    assert_state(KERNEL_NONE);
    l = make_hot();
    l->alive = false; /* between two runs */
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_state(KERNEL_STARTING);
    answer_ready(&leases[n_leases - 1]);
    answer_ran(&leases[n_leases - 1], false);
    assert_string_equal(thread_kernel_take_loss(kernel), "its sandbox ended");
    assert_state(KERNEL_HOT);
}

static void failures_end_the_job_and_come_later(void **state)
{
    (void)state;
    refuse_acquire = true;
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_int_equal(n_done, 0);
    turn_loop();
    assert_int_equal(n_done, 1);
    assert_int_equal(last_err, ERR_UNAVAILABLE);
    assert_state(KERNEL_NONE);
    refuse_acquire = false;
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_failed(&leases[0]);
    turn_loop();
    assert_int_equal(n_done, 2);
    assert_int_equal(last_err, ERR_UNAVAILABLE);
    assert_state(KERNEL_NONE);
    refuse_run = true;
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ready(&leases[1]);
    turn_loop();
    assert_int_equal(n_done, 3);
    assert_int_equal(last_err, ERR_IO);
    assert_state(KERNEL_LOST);
}

static void freezing_and_thawing(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    assert_int_equal(thread_kernel_freeze(kernel, &err), -ERR_CONFLICT);
    struct lease *l = make_hot();
    assert_int_equal(thread_kernel_freeze(kernel, &err), 0);
    assert_int_equal(run(kernel, RUN_SQL), 0); /* waits: it may name DataFrames */
    assert_state(KERNEL_FREEZING);
    answer_slept(l);
    assert_state(KERNEL_WARM);
    turn_loop();
    assert_state(KERNEL_THAWING);
    answer_slept(l);
    turn_loop();
    assert_state(KERNEL_RUNNING);
    answer_ran(l, false);
    assert_int_equal(n_done, 1);
    assert_true(thread_kernel_times(kernel)->wait_us >= 0);
    assert_int_equal(n_leases, 1);
}

static void imaging_and_restoring(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct lease *l = make_hot();
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), 0);
    answer_slept(l);
    turn_loop();
    assert_state(KERNEL_COLD);
    assert_true(l->released);
    assert_false(thread_kernel_is_hot(kernel));
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_state(KERNEL_RESTORING);
    answer_ready(&leases[1]);
    assert_state(KERNEL_RUNNING);
    answer_ran(&leases[1], false);
    assert_int_equal(retired, 1); /* once, however much runs */
    assert_int_equal(imaged, 1);
    assert_int_equal(discarded, 0);
    assert_null(thread_kernel_take_loss(kernel));
    assert_true(thread_kernel_has_variables(kernel));
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), 0);
    answer_slept(&leases[1]);
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_failed(&leases[2]); /* not now: the image stays, and the job is told */
    turn_loop();
    assert_int_equal(last_err, ERR_UNAVAILABLE);
    assert_state(KERNEL_COLD);
    assert_int_equal(imaged, 2);
    assert_int_equal(discarded, 0);
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    fail_with = ERR_CONFLICT;
    answer_failed(&leases[3]); /* never: the job goes on in a new kernel, and the loss is told */
    turn_loop();
    assert_state(KERNEL_STARTING);
    assert_int_equal(discarded, 1);
    assert_non_null(strstr(thread_kernel_take_loss(kernel), "its image cannot be used"));
}

static void a_job_during_imaging_runs_in_the_kernel(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct lease *l = make_hot();
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), 0);
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_state(KERNEL_IMAGING);
    answer_slept(l);
    turn_loop();
    assert_state(KERNEL_RUNNING);
    assert_false(l->released);
    assert_int_equal(retired, 1);
    assert_int_equal(outdated, 1); /* the image is older than what runs now */
    answer_ran(l, false);
    assert_state(KERNEL_HOT);
    assert_int_equal(n_leases, 1);
    assert_null(thread_kernel_take_loss(kernel));
}

static void a_kernel_is_branched(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct thread_kernel *to, *other;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ran(l, false);
    int64_t unsaved = thread_kernel_unsaved_ms(kernel);
    make(&sleep_ops, &to);
    make(&sleep_ops, &other);
    assert_int_equal(thread_kernel_branch(kernel, to, &err), 0);
    assert_int_equal(thread_kernel_state(to), KERNEL_RESTORING);
    assert_true(thread_kernel_has_variables(to));
    assert_int_equal(thread_kernel_branch(kernel, other, &err), -ERR_CONFLICT);
    assert_int_equal(thread_kernel_state(other), KERNEL_NONE);
    assert_int_equal(run(kernel, RUN_PYTHON), 0); /* both wait until it is there */
    assert_int_equal(run(to, RUN_PYTHON), 0);
    assert_state(KERNEL_IMAGING);
    answer_slept(l);
    turn_loop();
    assert_state(KERNEL_RUNNING);
    assert_true(thread_kernel_is_branched(kernel));
    assert_int_equal(thread_kernel_unsaved_ms(kernel), unsaved); /* it is no image of this one */
    answer_ready(&leases[n_leases - 1]);
    assert_int_equal(thread_kernel_state(to), KERNEL_RUNNING);
    assert_true(thread_kernel_unsaved_ms(to) > 0); /* nor of the branch */
    assert_int_equal(imaged + retired + outdated, 0);
    answer_ran(&leases[n_leases - 1], false);
    answer_ran(l, false);
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), 0);
    answer_slept(l);
    assert_state(KERNEL_COLD);
    assert_false(thread_kernel_is_branched(kernel));
    assert_int_equal(thread_kernel_branch(kernel, other, &err), -ERR_CONFLICT);
    thread_kernel_destroy(to);
    thread_kernel_destroy(other);
}

/* There is no image to come back to: what was to be copied is a loss, and the job goes on. */
static void a_branch_that_fails_is_a_loss(void **state)
{
    (void)state;
    struct err err = ERR_INIT, gone = ERR_INIT;
    struct thread_kernel *to;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ran(l, false);
    make(&sleep_ops, &to);
    assert_int_equal(thread_kernel_branch(kernel, to, &err), 0);
    assert_int_equal(run(to, RUN_PYTHON), 0);
    answer_failed(&leases[n_leases - 1]);
    turn_loop();
    assert_int_equal(thread_kernel_state(to), KERNEL_STARTING);
    assert_true(thread_kernel_has_loss(to));
    assert_non_null(strstr(thread_kernel_take_loss(to), "no fork today"));
    err_set(&gone, ERR_CONFLICT, "a thread");
    TAKE_PTR(slept)(l, &gone, slept_arg);
    assert_state(KERNEL_HOT);
    assert_false(thread_kernel_is_branched(kernel));
    assert_string_equal(thread_kernel_refusal(kernel), "a thread");
    thread_kernel_destroy(to);
}

static void what_is_not_kept_is_told(void **state)
{
    (void)state;
    struct err err = ERR_INIT, why = ERR_INIT;
    struct lease *l = make_hot();
    ported = 0;
    err_set(&why, ERR_CONFLICT, "no pickle either");
    assert_int_equal(thread_kernel_port(kernel, "image-1", &err), 0);
    TAKE_PTR(slept)(l, &why, slept_arg);
    assert_state(KERNEL_HOT);
    assert_int_equal(thread_kernel_port(kernel, "image-1", &err), -ERR_CONFLICT); /* in vain */
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ran(l, false);
    assert_int_equal(thread_kernel_port(kernel, "image-1", &err), 0); /* code ran since */
    not_kept = "lock (lock)";
    answer_slept(l);
    assert_state(KERNEL_COLD);
    assert_string_equal(thread_kernel_not_kept(kernel), not_kept);
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    answer_ready(&leases[1]);
    answer_ran(&leases[1], false);
    assert_non_null(strstr(thread_kernel_take_loss(kernel), "lost: lock (lock)"));
    assert_null(thread_kernel_take_loss(kernel));
    assert_null(thread_kernel_not_kept(kernel));
    assert_int_equal(ported, 2);
    not_kept = NULL;
}

static void a_kernel_that_is_saved_goes_on(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct lease *l = make_hot();
    for (unsigned n = 1; n <= 2; n++) {
        assert_int_equal(run(kernel, RUN_PYTHON), 0);
        answer_ran(l, false);
        assert_true(thread_kernel_unsaved_ms(kernel) > 0);
        assert_int_equal(thread_kernel_save(kernel, "image-1", &err), 0);
        assert_state(KERNEL_IMAGING);
        answer_slept(l);
        turn_loop();
        assert_state(KERNEL_HOT);
        assert_int_equal(thread_kernel_unsaved_ms(kernel), 0);
        assert_int_equal(retired, n);
        assert_int_equal(imaged, n); /* the one before it goes */
        assert_int_equal(outdated, n - 1);
    }
    assert_false(l->released);
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), 0);
    answer_slept(l);
    turn_loop();
    assert_state(KERNEL_COLD);
}

static void a_provider_without_sleep_refuses_it(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    thread_kernel_destroy(TAKE_PTR(kernel));
    make(NULL, &kernel);
    make_hot();
    assert_int_equal(thread_kernel_freeze(kernel, &err), -ERR_UNAVAILABLE);
    assert_int_equal(thread_kernel_image(kernel, "image-1", &err), -ERR_UNAVAILABLE);
    assert_state(KERNEL_HOT);
}

static unsigned pieces;
static enum err_code piece_err;

static void on_piece(const struct file_piece *piece, const struct err *err, void *arg)
{
    (void)piece, (void)arg;
    pieces++;
    piece_err = err ? err->code : ERR_NONE;
}

static void files_and_code_take_turns(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    struct kernel_file_op *op;
    pieces = 0;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_int_equal(thread_kernel_read_file(kernel, "a.txt", 0, on_piece, NULL, &op, &err), 0);
    turn_loop();
    assert_state(KERNEL_RUNNING);
    answer_ran(l, false);
    turn_loop();
    assert_state(KERNEL_COPYING);
    assert_int_equal(run(kernel, RUN_PYTHON), 0); /* waits for the piece */
    assert_state(KERNEL_COPYING);
    answer_piece(l);
    assert_int_equal(pieces, 1);
    turn_loop();
    assert_state(KERNEL_RUNNING);
    assert_int_equal(thread_kernel_read_file(kernel, "a.txt", 0, on_piece, NULL, &op, &err), 0);
    thread_kernel_kill(kernel);
    assert_int_equal(last_err, ERR_CANCELLED);
    turn_loop();
    assert_int_equal(pieces, 2);
    assert_int_equal(piece_err, ERR_NOT_FOUND);
    assert_state(KERNEL_LOST);
}

static void giving_up_ends_the_job(void **state)
{
    (void)state;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    thread_kernel_drop(kernel, "the thread's data changed");
    assert_int_equal(n_done, 1);
    assert_int_equal(last_err, ERR_CANCELLED);
    assert_true(l->released);
    assert_string_equal(thread_kernel_take_loss(kernel), "the thread's data changed");
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    assert_state(KERNEL_STARTING);
    thread_kernel_drop(kernel, NULL); /* while it waits */
    assert_int_equal(n_done, 2);
    assert_state(KERNEL_NONE);
}

static void a_callback_may_destroy_the_kernel(void **state)
{
    (void)state;
    struct lease *l = make_hot();
    assert_int_equal(run(kernel, RUN_PYTHON), 0);
    destroy_when_done = true;
    answer_ran(l, false);
    assert_null(kernel);
    assert_true(l->released);
    turn_loop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_decides_every_pair),
        cmocka_unit_test(table_has_no_dead_ends),
        cmocka_unit_test_setup_teardown(code_starts_a_kernel_and_keeps_it, setup, teardown),
        cmocka_unit_test_setup_teardown(sql_does_not_wait_for_python, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kernel_that_dies_is_a_loss_until_it_is_told, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(failures_end_the_job_and_come_later, setup, teardown),
        cmocka_unit_test_setup_teardown(freezing_and_thawing, setup, teardown),
        cmocka_unit_test_setup_teardown(imaging_and_restoring, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_during_imaging_runs_in_the_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kernel_is_branched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_branch_that_fails_is_a_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_kept_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kernel_that_is_saved_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_provider_without_sleep_refuses_it, setup, teardown),
        cmocka_unit_test_setup_teardown(files_and_code_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(giving_up_ends_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_callback_may_destroy_the_kernel, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
