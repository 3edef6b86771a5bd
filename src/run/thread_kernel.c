/* The kernel of a thread: takes the steps of thread_states.c and runs one job at a time. */

#include "run/thread_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/macros.h"
#include "run/queries.h"
#include "run/thread_kernel_impl.h"

/* So often an image is tried that needs more memory than its kernel may have. */
#define TOO_LARGE_MAX 3

/* ---- life ---- */

int thread_kernel_create(const struct thread_kernel_env *env, struct thread_kernel **ret,
                         struct err *err)
{
    struct thread_kernel *k = calloc(1, sizeof(*k));
    char *owner = strdup(env->owner), *id = env->thread_id ? strdup(env->thread_id) : NULL;
    if (!k || !owner || (env->thread_id && !id)) {
        free(k);
        free(owner);
        free(id);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    k->env = *env;
    k->env.owner = k->owner = owner;
    k->env.thread_id = k->thread_id = id;
    k->times.wait_us = -1;
    k->ops_end = &k->ops;
    *ret = k;
    return 0;
}

void kernel_enter(struct thread_kernel *k)
{
    k->depth++;
}

void kernel_leave(struct thread_kernel *k)
{
    if (--k->depth > 0 || !k->destroyed)
        return;
    json_decref(k->added);
    free(k->image);
    free(k->owner);
    free(k->thread_id);
    free(k);
}

enum kernel_state thread_kernel_state(const struct thread_kernel *k)
{
    return k->state;
}

bool thread_kernel_is_hot(const struct thread_kernel *k)
{
    return kernel_state_is_hot(k->state) && lease_alive(k->lease);
}

bool thread_kernel_is_kept(const struct thread_kernel *k)
{
    return kernel_state_is_kept(k->state) && lease_alive(k->lease);
}

bool thread_kernel_is_busy(const struct thread_kernel *k)
{
    return k->stage != JOB_NONE || k->ops || k->adding || k->when_ready;
}

bool thread_kernel_has_variables(const struct thread_kernel *k)
{
    return k->variables;
}

bool thread_kernel_has_job(const struct thread_kernel *k)
{
    return k->stage != JOB_NONE;
}

struct kernel_times *thread_kernel_times(struct thread_kernel *k)
{
    return &k->times;
}

/* ---- the job ---- */

static void go_on(struct thread_kernel *k);

static struct kernel_job take_job(struct thread_kernel *k)
{
    struct kernel_job job = k->job;
    k->stage = JOB_NONE;
    k->job = (struct kernel_job){ 0 };
    answer_drop(&k->answer);
    free((char *)job.code);
    free((char *)job.run_id);
    json_decref((json_t *)job.context);
    json_decref((json_t *)job.debug);
    job.code = job.run_id = NULL;
    job.context = job.debug = NULL;
    return job;
}

static void end_job(struct thread_kernel *k, const struct run_result *result, const struct err *err)
{
    struct kernel_job job = take_job(k);
    job.done(job.arg, result, err);
    if (!k->closed)
        kernel_wake(k);
}

static void fail_job(struct thread_kernel *k, const struct err *err)
{
    k->job_err = *err;
    k->stage = JOB_FAILED;
    kernel_wake(k);
}

static void on_ran(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    struct thread_kernel *k = arg;
    struct err why = ERR_INIT, ignored = ERR_INIT;
    kernel_enter(k);
    if (err)
        why = *err;
    if (lease == k->lent)
        lease_release(TAKE_PTR(k->lent));
    else if (err || result->state_lost || !lease_alive(lease))
        (void)kernel_step(k, KERNEL_EV_DIED, "the code that ran last ended its sandbox", &ignored);
    else
        (void)kernel_step(k, KERNEL_EV_RAN, "its sandbox broke", &ignored);
    end_job(k, result, err ? &why : NULL);
    if (result)
        run_result_finish(result);
    kernel_leave(k);
}

static void on_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    const struct thread_kernel *k = arg;
    if (k->job.events.output)
        k->job.events.output(k->job.events.arg, is_stderr, text, len);
}

static bool on_display(void *arg, const json_t *data)
{
    const struct thread_kernel *k = arg;
    return k->job.events.display && k->job.events.display(k->job.events.arg, data);
}

static void spec_of(struct thread_kernel *k, enum run_kind kind, struct sandbox_spec *ret)
{
    *ret = (struct sandbox_spec){ .kind = kind };
    k->env.spec(k->env.arg, ret);
    ret->kind = kind;
}

static void on_steps(void *arg, json_t *steps)
{
    const struct thread_kernel *k = arg;
    if (k->job.events.steps)
        k->job.events.steps(k->job.events.arg, steps);
}

static bool on_ask(void *arg, uint32_t id, const char *what, const json_t *args)
{
    struct thread_kernel *k = arg;
    struct sandbox_spec spec;
    spec_of(k, RUN_PYTHON, &spec);
    const struct answer_context context = {
        .database = spec.database,
        .queries = k->env.queries,
        .origin = { .owner = k->owner, .thread_id = k->thread_id, .run_id = k->job.run_id },
        .lease = k->lent ? k->lent : k->lease,
        .deadline_ms = k->deadline_ms
    };
    if (k->job.events.ask && k->job.events.ask(k->job.events.arg, id, what, args)) {
        if (!k->paused_ms) /* for a command of the debugger, or a line */
            k->paused_ms = clock_now_ms();
        return true;
    }
    return answer_begin(&k->answer, &context, id, what, args);
}

static void on_job_progress(void *arg, const char *stage, double fraction)
{
    const struct thread_kernel *k = arg;
    if (k->job.events.progress)
        k->job.events.progress(k->job.events.arg, stage, fraction);
}

static int begin_job(struct thread_kernel *k, struct lease *lease, struct err *err)
{
    const struct run_events events = { .output = on_output,
                                       .display = on_display,
                                       .progress = on_job_progress,
                                       .steps = on_steps,
                                       .ask = on_ask,
                                       .arg = k };
    struct run_request req = {
        .kind = k->job.kind,
        .code = k->job.code,
        .code_len = strlen(k->job.code),
        .policy = k->job.policy,
        .context = k->job.context,
        .run_id = k->job.run_id,
        .thread_id = k->thread_id,
        .debug = k->job.debug,
        .pause_ms = k->job.pause_ms,
        .timeout_ms = k->job.timeout_ms,
        .max_rows = k->job.max_rows,
        .max_output_bytes = k->job.max_output_bytes,
    };
    k->stage = JOB_RUNS;
    k->deadline_ms = clock_now_ms() + k->job.timeout_ms;
    k->paused_ms = 0;
    return lease_run(lease, &req, &events, on_ran, k, err);
}

/* ---- sandboxes ---- */

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct thread_kernel *k = arg;
    if (k->stage != JOB_NONE && k->job.events.progress)
        k->job.events.progress(k->job.events.arg, stage, fraction);
}

static int acquire(struct thread_kernel *k, enum run_kind kind, lease_ready_fn ready,
                   struct lease **ret, struct err *err)
{
    struct sandbox_spec spec;
    struct run_events events = { .progress = on_progress, .arg = k };
    spec_of(k, kind, &spec);
    return executor_acquire(k->env.executor, k->owner, &spec, &events, ready, k, ret, err);
}

static void on_lent(struct lease *lease, const struct err *err, void *arg)
{
    struct thread_kernel *k = arg;
    struct err why = ERR_INIT;
    kernel_enter(k);
    k->times.wait_us = clock_now_us() - k->lent_us;
    if (err) {
        why = *err;
        k->lent = NULL; /* it is gone already */
        end_job(k, NULL, &why);
    } else if (begin_job(k, lease, &why) < 0) {
        lease_release(TAKE_PTR(k->lent));
        fail_job(k, &why);
    }
    kernel_leave(k);
}

/* A change that began at since_us is over. */
static void note_move(struct thread_kernel *k, const char *from, const char *to)
{
    k->moved = (struct kernel_moved){
        .from = from, .to = to, .at_ms = clock_now_ms(), .us = clock_now_us() - k->since_us
    };
    if (to == kernel_state_name(KERNEL_HOT)) {
        k->times.woke_from = from;
        k->times.woke_us = k->moved.us;
    }
    if (k->env.moved && k->state != KERNEL_STARTING) /* a start is no move of what was there */
        k->env.moved(k->env.arg, &k->moved);
}

/*
 * A start that fails is the end of the job. An image that cannot be used is a loss, and the job
 * goes on in a new kernel; one that can only not be used now stays.
 */
static void fail_start(struct thread_kernel *k, const struct err *why)
{
    struct err ignored = ERR_INIT;
    bool restoring = k->state == KERNEL_RESTORING;
    bool unusable = why->code == ERR_VALIDATION || why->code == ERR_CONFLICT ||
                    why->code == ERR_NOT_FOUND ||
                    (why->code == ERR_NO_MEMORY && ++k->too_large == TOO_LARGE_MAX);
    if (restoring && (unusable || !k->image)) {
        snprintf(k->loss_text, sizeof(k->loss_text), "its %s cannot be used (%s)",
                 k->image ? "image" : "copy of another thread's sandbox", why->message);
        (void)kernel_step(k, KERNEL_EV_FAILED, k->loss_text, &ignored);
        go_on(k);
        return;
    }
    (void)kernel_step(k, restoring ? KERNEL_EV_IMAGED : KERNEL_EV_FAILED,
                      "its sandbox could not be brought back", &ignored);
    if (k->stage == JOB_WAITS)
        fail_job(k, why);
}

/* What a portable form lacks is told with the next answer. */
static void tell_not_kept(struct thread_kernel *k, const struct lease *lease)
{
    const char *text = lease_not_kept(lease), *why = lease_no_image(lease);
    k->not_kept[0] = '\0';
    if (!text && !why)
        return;
    if (why)
        snprintf(k->loss_text, sizeof(k->loss_text),
                 "its image cannot be used (%s): variables were read from their pickles%s%s", why,
                 text ? "; lost: " : ", all of them", text ? text : "");
    else
        snprintf(k->loss_text, sizeof(k->loss_text), "not all variables could be kept; lost: %s",
                 text);
    k->loss = k->loss_text;
}

/* Of a start or a restore. */
static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct thread_kernel *k = arg;
    struct err why = ERR_INIT;
    int64_t took = clock_now_us() - k->since_us;
    kernel_enter(k);
    if (k->stage == JOB_WAITS)
        k->times.wait_us = took;
    else if (!err)
        k->times.ahead_us = took;
    if (err) {
        why = *err;
        k->lease = NULL; /* it is gone already */
        fail_start(k, &why);
    } else {
        k->arrived = true;
        k->too_large = 0;
        tell_not_kept(k, lease);
        note_move(k, kernel_state_name(KERNEL_COLD), kernel_state_name(KERNEL_HOT));
        (void)kernel_step(k, KERNEL_EV_READY, "its sandbox broke", &why);
        go_on(k);
    }
    kernel_wake(k);
    kernel_leave(k);
}

static void note_image(struct thread_kernel *k)
{
    if (k->env.sleep->imaged)
        k->env.sleep->imaged(k->image);
    k->is_retired = false;
}

static void refuse_image(struct thread_kernel *k, const struct err *err)
{
    snprintf(k->refusal, sizeof(k->refusal), "%s", err->message);
    k->is_unportable = k->ports;
}

/* Of a sandbox that stays where it is: frozen, thawed or imaged. */
static void on_slept(struct lease *lease, const struct err *err, void *arg)
{
    static const enum kernel_event after[_KERNEL_STATE_MAX] = {
        [KERNEL_FREEZING] = KERNEL_EV_FROZEN,
        [KERNEL_THAWING] = KERNEL_EV_READY,
        [KERNEL_IMAGING] = KERNEL_EV_IMAGED,
    };
    struct thread_kernel *k = arg;
    struct err ignored = ERR_INIT;
    enum kernel_event event = err ? KERNEL_EV_FAILED : after[k->state];
    bool branched = k->is_branching;
    k->is_branching = false;
    if (!err && k->state == KERNEL_IMAGING && !branched)
        k->unsaved_ms = 0;
    k->is_branched = branched && !err;
    if (k->state == KERNEL_IMAGING)
        snprintf(k->not_kept, sizeof(k->not_kept), "%s",
                 !err && lease_not_kept(lease) ? lease_not_kept(lease) : "");
    if (!err && k->state == KERNEL_IMAGING && !branched) {
        const char *lacks = lease_companion_lacks(lease);
        k->has_companion = lacks != NULL;
        snprintf(k->companion_lacks, sizeof(k->companion_lacks), "%s", lacks ? lacks : "");
        k->is_companion_known = true;
    }
    kernel_enter(k);
    if (k->state == KERNEL_THAWING && k->stage == JOB_WAITS)
        k->times.wait_us = clock_now_us() - k->since_us;
    if (!err && k->state == KERNEL_THAWING)
        note_move(k, kernel_state_name(KERNEL_WARM), kernel_state_name(KERNEL_HOT));
    else if (err && k->state == KERNEL_IMAGING)
        refuse_image(k, err);
    else if (!err && branched)
        event = KERNEL_EV_READY;
    else if (!err && k->state == KERNEL_IMAGING && (k->stays || k->stage == JOB_WAITS)) {
        event = KERNEL_EV_READY;
        note_image(k); /* the kernel goes on from the new one */
    } else if (!err)
        note_move(k, kernel_state_name(KERNEL_HOT),
                  kernel_state_name(k->state == KERNEL_IMAGING ? KERNEL_COLD : KERNEL_WARM));
    (void)kernel_step(k, lease_alive(lease) ? event : KERNEL_EV_DIED,
                      "its sandbox ended while it was put aside", &ignored);
    kernel_wake(k);
    kernel_leave(k);
}

/* ---- actions ---- */

static void discard_image(struct thread_kernel *k)
{
    char *image = TAKE_PTR(k->image);
    if (image && k->env.sleep->discard)
        k->env.sleep->discard(image);
    free(image);
}

/* Something is about to change in the kernel. */
static void outdate_image(struct thread_kernel *k)
{
    if (k->unsaved_ms)
        return;
    k->unsaved_ms = clock_now_ms();
    if (k->image && k->is_retired && k->env.sleep->outdate)
        k->env.sleep->outdate(k->image);
}

static void release(struct thread_kernel *k, const char *why)
{
    k->unsaved_ms = 0;
    lease_release(TAKE_PTR(k->lease));
    discard_image(k);
    kernel_forget_files(k);
    k->epoch++;
    if (k->variables)
        k->loss = why ? why : "its sandbox ended";
    k->variables = false;
}

static int act(struct thread_kernel *k, enum kernel_action action, const char *why, struct err *err)
{
    struct sandbox_spec spec;
    switch (action) {
    case KERNEL_DO_NOTHING:
        return 0;
    case KERNEL_DO_START:
        k->since_us = clock_now_us();
        return acquire(k, RUN_PYTHON, on_ready, &k->lease, err);
    case KERNEL_DO_REST:
        if (k->image && !k->is_retired && k->env.sleep->retire)
            k->env.sleep->retire(k->image);
        k->is_retired = true;
        if (k->stage == JOB_WAITS)
            return 0; /* the job begins in a moment */
        return lease_park(k->lease) < 0 ?
                   err_set(err, ERR_UNAVAILABLE, "%s", why ? why : "its sandbox broke") :
                   0;
    case KERNEL_DO_RUN:
        outdate_image(k);
        if (k->job.kind == RUN_PYTHON)
            k->variables = true;
        k->refusal[0] = '\0';
        k->is_unportable = false;
        return begin_job(k, k->lease, err);
    case KERNEL_DO_COPY:
        outdate_image(k);
        return kernel_begin_file(k, err);
    case KERNEL_DO_FREEZE:
        k->since_us = clock_now_us();
        return k->env.sleep->freeze(k->lease, on_slept, k, err);
    case KERNEL_DO_THAW:
        k->since_us = clock_now_us();
        return k->env.sleep->thaw(k->lease, on_slept, k, err);
    case KERNEL_DO_IMAGE:
        k->since_us = clock_now_us();
        if (k->branch)
            return kernel_step(k->branch, KERNEL_EV_WANT, NULL, err);
        return k->ports ? k->env.sleep->port(k->lease, k->image, on_slept, k, err) :
                          k->env.sleep->image(k->lease, k->image, on_slept, k, err);
    case KERNEL_DO_SHELVE:
        note_image(k);
        lease_release(TAKE_PTR(k->lease));
        return 0;
    case KERNEL_DO_RESTORE:
        k->since_us = clock_now_us();
        spec_of(k, RUN_PYTHON, &spec);
        if (k->source)
            return k->env.sleep->branch(k->source->lease, k->owner, &spec, on_ready, k, &k->lease,
                                        on_slept, k->source, err);
        return k->env.sleep->restore(k->env.executor, k->owner, &spec, k->image, on_ready, k,
                                     &k->lease, err);
    case KERNEL_DO_RELEASE:
        release(k, why);
        return 0;
    }
    return 0;
}

unsigned kernel_caps(const struct thread_kernel *k)
{
    const struct kernel_sleep_ops *s = k->env.sleep;
    return (s && s->freeze && s->thaw ? KERNEL_CAN_FREEZE : 0) |
           (s && s->image && s->restore ? KERNEL_CAN_IMAGE : 0);
}

int kernel_step(struct thread_kernel *k, enum kernel_event event, const char *why, struct err *err)
{
    struct kernel_move move;
    struct err ignored = ERR_INIT;
    int r = kernel_move(k->state, event, kernel_caps(k), &move, err);
    if (r < 0)
        return r;
    k->state = move.next;
    r = act(k, move.action, why, err);
    if (k->state == KERNEL_LOST && !k->loss)
        k->state = KERNEL_NONE;
    if (r < 0)
        (void)kernel_step(k, KERNEL_EV_FAILED, why, &ignored);
    return r;
}

/* ---- what waits ---- */

/* SQL that need not wait for the kernel, or must not run in it. */
static bool wants_lent(struct thread_kernel *k)
{
    bool absent = kernel_state_is_gone(k->state) || k->state == KERNEL_STARTING;
    struct sandbox_spec spec;
    if (k->job.kind != RUN_SQL)
        return false;
    spec_of(k, RUN_SQL, &spec);
    return k->stale || absent || spec.database;
}

/* Starts the job that waits, if it can. */
static void go_on(struct thread_kernel *k)
{
    struct err err = ERR_INIT;
    int r = 0;
    if (k->stage != JOB_WAITS)
        return;
    if (k->state == KERNEL_HOT && !lease_alive(k->lease))
        (void)kernel_step(k, KERNEL_EV_DIED, "its sandbox ended", &err);
    if (wants_lent(k)) {
        k->stage = JOB_LENDING;
        k->lent_us = clock_now_us();
        r = acquire(k, RUN_SQL, on_lent, &k->lent, &err);
    } else if (k->state != KERNEL_HOT) {
        r = kernel_step(k, KERNEL_EV_WANT, NULL, &err);
    } else if (!k->adding) {
        r = kernel_step(k, KERNEL_EV_RUN, "its sandbox broke", &err);
    }
    if (r < 0)
        fail_job(k, &err);
}

static bool is_coming(const struct thread_kernel *k)
{
    return k->state == KERNEL_STARTING || k->state == KERNEL_THAWING ||
           k->state == KERNEL_RESTORING;
}

static void tell_ready(struct thread_kernel *k)
{
    void (*fn)(void *, bool) = TAKE_PTR(k->when_ready);
    loop_cancel(TAKE_PTR(k->patience));
    if (fn)
        fn(k->when_ready_arg, thread_kernel_is_hot(k));
}

static void on_pump(void *arg)
{
    struct thread_kernel *k = arg;
    bool arrived = k->arrived;
    k->pump = NULL;
    k->arrived = false;
    kernel_enter(k);
    if (k->stage == JOB_FAILED) {
        struct err why = k->job_err;
        end_job(k, NULL, &why);
    }
    if (!k->closed)
        go_on(k);
    if (!k->closed)
        kernel_pump_files(k);
    if (!k->closed && k->when_ready && !is_coming(k))
        tell_ready(k);
    if (!k->closed)
        k->env.changed(k->env.arg, arrived);
    kernel_leave(k);
}

void kernel_wake(struct thread_kernel *k)
{
    struct err err = ERR_INIT;
    if (!k->pump && !k->closed)
        (void)loop_after(k->env.loop, 0, on_pump, k, &k->pump, &err);
}

int thread_kernel_run(struct thread_kernel *k, const struct kernel_job *job, struct err *err)
{
    if (k->stage != JOB_NONE || k->closed)
        return err_set(err, ERR_CONFLICT, "this thread is busy with other code");
    char *code = strdup(job->code), *run_id = job->run_id ? strdup(job->run_id) : NULL;
    if (!code) {
        free(run_id);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    k->job = *job;
    k->job.code = code;
    json_incref((json_t *)job->context);
    json_incref((json_t *)job->debug);
    k->job.run_id = run_id;
    k->times.wait_us = -1;
    k->stage = JOB_WAITS;
    go_on(k);
    return 0;
}

void thread_kernel_reply(struct thread_kernel *k, uint32_t ask, const json_t *value)
{
    if (k->stage != JOB_RUNS)
        return;
    if (k->paused_ms)
        k->deadline_ms += clock_now_ms() - k->paused_ms;
    k->paused_ms = 0;
    lease_reply(k->lent ? k->lent : k->lease, ask, value, NULL);
}

void thread_kernel_pause(struct thread_kernel *k)
{
    if (k->stage == JOB_RUNS)
        lease_pause(k->lent ? k->lent : k->lease);
}

void thread_kernel_interrupt(struct thread_kernel *k)
{
    struct err err = ERR_INIT;
    if (k->stage == JOB_RUNS) {
        lease_interrupt(k->lent ? k->lent : k->lease);
    } else if (k->stage != JOB_NONE) {
        err_set(&err, ERR_CANCELLED, "cancelled before it ran");
        kernel_enter(k);
        lease_release(TAKE_PTR(k->lent));
        end_job(k, NULL, &err);
        kernel_leave(k);
    }
}

/* Ends the job with what ran it; for `why`. */
static void end_by_force(struct thread_kernel *k, bool whole, const char *why, const char *word)
{
    struct err err = ERR_INIT, ignored = ERR_INIT;
    kernel_enter(k);
    bool in_kernel = k->stage == JOB_RUNS && !k->lent;
    lease_release(TAKE_PTR(k->lent));
    if (whole || in_kernel)
        (void)kernel_step(k, KERNEL_EV_DROP, why, &ignored);
    if (k->stage != JOB_NONE) {
        err_set(&err, ERR_CANCELLED, "%s", word);
        end_job(k, NULL, &err);
    }
    if (!k->closed)
        kernel_wake(k);
    kernel_leave(k);
}

void thread_kernel_kill(struct thread_kernel *k)
{
    if (k->stage != JOB_NONE)
        end_by_force(k, false, "its sandbox was stopped by force", "stopped by force");
}

void thread_kernel_drop(struct thread_kernel *k, const char *why)
{
    end_by_force(k, true, why, why ? why : "the thread gave its sandbox up");
}

void thread_kernel_prepare(struct thread_kernel *k)
{
    struct err ignored = ERR_INIT; /* the first job will tell */
    if (!k->closed && kernel_step(k, KERNEL_EV_WANT, NULL, &ignored) < 0)
        kernel_wake(k);
}

void thread_kernel_rouse(struct thread_kernel *k)
{
    if (k->state == KERNEL_WARM || k->state == KERNEL_COLD)
        thread_kernel_prepare(k);
}

struct kernel_moved thread_kernel_moved(const struct thread_kernel *k)
{
    return k->moved;
}

static void on_patience(void *arg)
{
    struct thread_kernel *k = arg;
    k->patience = NULL;
    kernel_enter(k);
    tell_ready(k);
    if (!k->closed)
        kernel_wake(k);
    kernel_leave(k);
}

void thread_kernel_when_ready(struct thread_kernel *k, int64_t wait_ms,
                              void (*fn)(void *arg, bool is_hot), void *arg)
{
    struct err ignored = ERR_INIT;
    k->when_ready = fn;
    k->when_ready_arg = arg;
    if (is_coming(k))
        (void)loop_after(k->env.loop, (uint64_t)wait_ms, on_patience, k, &k->patience, &ignored);
    else
        kernel_wake(k);
}

const char *thread_kernel_take_loss(struct thread_kernel *k)
{
    const char *loss = k->loss;
    struct err ignored = ERR_INIT;
    k->loss = NULL;
    if (k->state == KERNEL_LOST)
        (void)kernel_step(k, KERNEL_EV_TOLD, NULL, &ignored);
    return loss;
}

bool thread_kernel_has_loss(const struct thread_kernel *k)
{
    return k->loss != NULL;
}

void thread_kernel_note_loss(struct thread_kernel *k, const char *why)
{
    k->loss = why;
    if (k->state == KERNEL_NONE)
        k->state = KERNEL_LOST;
}

void thread_kernel_close(struct thread_kernel *k)
{
    if (k->closed)
        return;
    k->closed = true;
    loop_cancel(TAKE_PTR(k->pump));
    loop_cancel(TAKE_PTR(k->patience));
    kernel_close_files(k);
    lease_release(TAKE_PTR(k->lent));
    lease_release(TAKE_PTR(k->lease));
    k->when_ready = NULL;
    if (k->stage != JOB_NONE)
        (void)take_job(k);
    k->state = KERNEL_NONE;
}

void thread_kernel_destroy(struct thread_kernel *k)
{
    if (!k)
        return;
    kernel_enter(k);
    thread_kernel_close(k);
    k->destroyed = true;
    kernel_leave(k);
}
