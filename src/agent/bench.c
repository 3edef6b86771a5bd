/* The kernel of a chat: got when the first code needs it, kept while Python holds variables. */

#include <string.h>
#include "agent/agent_impl.h"
#include "base/log.h"
#include "base/str.h"

void bench_init(struct chat *c)
{
    c->bench = (struct bench){ .restore_us = -1 };
    c->bench.ops_end = &c->bench.ops;
}

bool bench_is_hot(const struct chat *c)
{
    return c->bench.lease && c->bench.ready && lease_alive(c->bench.lease);
}

/* ---- whose turn it is to run ---- */

static void admit(struct chat *c);

static void leave_queue(struct chat *c)
{
    struct agent *a = c->agent;
    struct chat **at = &a->waiting;
    while (*at && *at != c)
        at = &(*at)->bench.next_waiting;
    if (*at) {
        *at = c->bench.next_waiting;
        if (a->waiting_end == &c->bench.next_waiting)
            a->waiting_end = at;
    }
    c->bench.next_waiting = NULL;
    c->bench.waits = false;
}

static void admit_waiting(struct agent *a)
{
    while (a->waiting && a->n_jobs < a->jobs_max && !a->closing) {
        struct chat *c = chat_ref(a->waiting);
        leave_queue(c);
        admit(c);
        chat_unref(c);
    }
}

/* The job is over, or will never be: its place is free. */
static struct bench_job take_job(struct chat *c)
{
    struct bench *b = &c->bench;
    struct bench_job job = b->job;
    if (b->waits)
        leave_queue(c);
    if (b->admitted)
        c->agent->n_jobs--;
    b->has_job = b->admitted = false;
    b->job = (struct bench_job){ 0 };
    free(TAKE_PTR(job.code));
    return job;
}

static void end_job(struct chat *c, const struct run_result *result, const struct err *err)
{
    struct agent *a = c->agent;
    struct bench_job job = take_job(c);
    job.done(job.arg, result, err);
    admit_waiting(a);
}

/* ---- running ---- */

static void tell_failure(void *arg);
static void tell_ready(void *arg);

static void give_up_kernel(struct chat *c, const char *why)
{
    struct bench *b = &c->bench;
    struct err err = ERR_INIT;
    if (!b->lease)
        return;
    lease_release(TAKE_PTR(b->lease));
    if (b->when_ready && !b->ready && !c->agent->closing && loop_defer(c->agent->env.loop, tell_ready, c, &err) == 0)
        chat_ref(c);
    b->stale = b->op_busy = false;
    b->epoch++;
    json_decref(TAKE_PTR(b->carried));
    bench_files_wake(c);
    if (b->has_state) {
        b->lost = true;
        b->lost_why = why;
    }
    b->ready = b->has_state = false;
}

void bench_lose_kernel(struct chat *c, const char *why)
{
    give_up_kernel(c, why);
}

static void on_ran(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    struct chat *c = chat_ref(arg);
    struct bench *b = &c->bench;
    b->running = NULL;
    if (lease == b->lent)
        lease_release(TAKE_PTR(b->lent));
    else if (err || result->state_lost || !lease_alive(b->lease))
        give_up_kernel(c, "the code that ran last ended its sandbox");
    else if (lease_park(b->lease) < 0)
        give_up_kernel(c, "its sandbox broke");
    c->used_ms = clock_now_ms();
    end_job(c, result, err);
    if (result)
        run_result_finish(result);
    bench_files_wake(c);
    chat_unref(c);
}

static void start_job(struct chat *c, struct lease *lease)
{
    struct bench *b = &c->bench;
    struct err err = ERR_INIT;
    struct run_request req = {
        .kind = b->job.kind,
        .code = b->job.code,
        .code_len = strlen(b->job.code),
        .policy = POLICY_OPEN,
        .timeout_ms = b->job.timeout_ms,
        .max_rows = b->job.max_rows,
        .max_output_bytes = b->job.max_output_bytes,
    };
    struct run_events events = b->job.events;
    if (lease == b->lease && bench_files_busy(c))
        return; /* bench_go_on() */
    b->running = lease;
    if (b->job.kind == RUN_PYTHON)
        b->has_state = true;
    if (lease_run(lease, &req, &events, on_ran, c, &err) < 0) {
        b->running = NULL;
        if (lease == b->lent)
            lease_release(TAKE_PTR(b->lent));
        else
            give_up_kernel(c, "its sandbox broke");
        b->failed = err; /* never from within the call that asked for it */
        struct err ignored = ERR_INIT;
        if (loop_defer(c->agent->env.loop, tell_failure, chat_ref(c), &ignored) < 0)
            tell_failure(c);
    }
}

static void tell_ready(void *arg)
{
    struct chat *c = arg;
    void (*fn)(void *, bool) = TAKE_PTR(c->bench.when_ready);
    loop_cancel(TAKE_PTR(c->bench.patience));
    if (fn && !c->agent->closing)
        fn(c->bench.when_ready_arg, bench_is_hot(c));
    if (!c->agent->closing)
        chat_unref(c);
}

static void on_patience(void *arg)
{
    struct chat *c = arg;
    c->bench.patience = NULL;
    tell_ready(chat_ref(c));
}

void bench_when_ready(struct chat *c, int64_t wait_ms, void (*fn)(void *arg, bool is_hot), void *arg)
{
    struct err err = ERR_INIT;
    c->bench.when_ready = fn;
    c->bench.when_ready_arg = arg;
    if (c->bench.lease && !c->bench.ready && loop_after(c->agent->env.loop, (uint64_t)wait_ms, on_patience, c, &c->bench.patience, &err) == 0)
        return;
    chat_ref(c);
    if (loop_defer(c->agent->env.loop, tell_ready, c, &err) < 0)
        tell_ready(c);
}

static void on_lent(struct lease *lease, const struct err *err, void *arg)
{
    struct chat *c = chat_ref(arg);
    struct bench *b = &c->bench;
    struct err why = ERR_INIT;
    b->restore_us = clock_now_us() - b->since_us;
    if (err) {
        why = *err;
        b->lent = NULL; /* it is gone already */
        end_job(c, NULL, &why);
    } else {
        start_job(c, lease);
    }
    chat_unref(c);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct chat *c = chat_ref(arg);
    struct bench *b = &c->bench;
    struct err why = ERR_INIT;
    bool awaited = b->admitted && !b->running && !b->lent;
    b->ready = !err;
    if (awaited)
        b->restore_us = clock_now_us() - b->since_us;
    else if (!err)
        b->ahead_us = clock_now_us() - b->since_us;
    if (err) {
        why = *err;
        b->lease = NULL; /* it is gone already */
        if (awaited)
            end_job(c, NULL, &why);
    } else if (awaited) {
        start_job(c, lease);
    } else if (lease_park(lease) < 0) {
        give_up_kernel(c, NULL);
    }
    agent_trim(c->agent, c);
    tell_ready(chat_ref(c));
    chat_unref(c);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct chat *c = arg;
    const struct run_events *ev = &c->bench.job.events;
    if (c->bench.has_job && ev->progress)
        ev->progress(ev->arg, stage, fraction);
}

static int get_kernel(struct chat *c, enum run_kind kind, lease_ready_fn ready, struct lease **ret, struct err *err)
{
    const struct agent_env *env = &c->agent->env;
    struct sandbox_spec spec = { .kind = kind, .dataset_id = c->data.dataset_id, .files = c->data.files,
                                 .n_files = c->data.n_files };
    struct run_events events = { .progress = on_progress, .arg = c };
    sandbox_limits_default(env->cfg, &spec.limits);
    c->bench.since_us = clock_now_us();
    return executor_acquire(env->executor, c->owner, &spec, &events, ready, c, ret, err);
}

static void tell_failure(void *arg)
{
    struct chat *c = arg;
    struct bench *b = &c->bench;
    if (b->has_job && b->failed.code != ERR_NONE && !c->agent->closing)
        end_job(c, NULL, &b->failed);
    if (!c->agent->closing)
        chat_unref(c);
}

/* Starts the job, in the kernel that is there or in one that is got. */
static void dispatch(struct chat *c)
{
    struct bench *b = &c->bench;
    struct err ignored = ERR_INIT;
    int r = 0;
    if (b->ready && !lease_alive(b->lease))
        give_up_kernel(c, "its sandbox ended");
    if (b->ready && !(b->stale && b->job.kind == RUN_SQL))
        start_job(c, b->lease);
    else if (b->job.kind == RUN_SQL) /* need not wait for Python */
        r = get_kernel(c, RUN_SQL, on_lent, &b->lent, &b->failed);
    else if (!b->lease)
        r = get_kernel(c, RUN_PYTHON, on_ready, &b->lease, &b->failed);
    if (r < 0 && loop_defer(c->agent->env.loop, tell_failure, chat_ref(c), &ignored) < 0)
        tell_failure(c);
}

static void admit(struct chat *c)
{
    c->bench.admitted = true;
    c->bench.failed = (struct err)ERR_INIT;
    c->agent->n_jobs++;
    dispatch(c);
}

void bench_go_on(struct chat *c)
{
    struct bench *b = &c->bench;
    if (b->admitted && b->failed.code == ERR_NONE && !b->running && !b->lent && (b->ready || !b->lease))
        dispatch(c);
}

int bench_run(struct chat *c, const struct bench_job *job, struct err *err)
{
    struct bench *b = &c->bench;
    if (b->has_job)
        return err_set(err, ERR_CONFLICT, "this chat is busy with other code");
    b->job = *job;
    b->job.code = strdup(job->code);
    if (!b->job.code)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    b->has_job = true;
    b->restore_us = -1;
    if (c->agent->n_jobs < c->agent->jobs_max) {
        admit(c);
    } else {
        b->waits = true;
        *c->agent->waiting_end = c;
        c->agent->waiting_end = &b->next_waiting;
    }
    return 0;
}

void bench_prepare(struct chat *c)
{
    struct err err = ERR_INIT;
    if (!c->bench.lease && get_kernel(c, RUN_PYTHON, on_ready, &c->bench.lease, &err) < 0)
        log_debug("agent.prepare", LOG_STR("error", err.message)); /* the first cell will say so itself */
}

void bench_interrupt(struct chat *c)
{
    struct bench *b = &c->bench;
    struct err err = ERR_INIT;
    if (b->running) {
        lease_interrupt(b->running);
    } else if (b->has_job) {
        err_set(&err, ERR_CANCELLED, "cancelled before it ran");
        lease_release(TAKE_PTR(b->lent));
        end_job(c, NULL, &err);
    }
}

void bench_kill(struct chat *c)
{
    struct bench *b = &c->bench;
    struct err err = ERR_INIT;
    if (!b->has_job)
        return;
    lease_release(TAKE_PTR(b->lent));
    if (b->running && b->running == b->lease)
        give_up_kernel(c, "its sandbox was stopped by force");
    b->running = NULL;
    err_set(&err, ERR_CANCELLED, "stopped by force");
    end_job(c, NULL, &err);
}

void bench_drop(struct chat *c, const char *why)
{
    struct bench *b = &c->bench;
    loop_cancel(TAKE_PTR(b->patience));
    lease_release(TAKE_PTR(b->lent));
    give_up_kernel(c, why);
    b->running = NULL;
    if (b->has_job) {
        (void)take_job(c);
        admit_waiting(c->agent);
    }
}
