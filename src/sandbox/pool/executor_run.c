/*
 * Runs in the sandbox of a lease.
 *
 * Two faults are repaired here without the user of the lease knowing. A kernel that ends before it
 * ran anything is replaced: nothing was done that could be done twice. So is one that died while it
 * was kept for the next statement. When a statement finds that
 * a table on the disk is damaged, the table is removed and the statement begun anew, which ingests
 * the file again; that is done once. Both go back to loading (executor_load.c) with the request
 * kept, and `again` says that it is a result that somebody waits for.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "sandbox/pool/executor_impl.h"

#define REPLACED_MAX 3

void executor_running(struct lease *l, lease_done_fn done, void *arg, bool is_file_op)
{
    l->done = done;
    l->done_arg = arg;
    l->is_file_op = is_file_op;
    l->state = LEASE_RUNNING;
}

static void drop_pending(struct lease *l)
{
    free(l->pending.code);
    json_decref((json_t *)l->pending.request.context);
    json_decref((json_t *)l->pending.request.debug);
    l->pending = (struct pending_run){ .code = NULL };
}

/* ---- beginning anew ---- */

bool lease_may_replace(struct lease *l)
{
    return !l->ex->closing && l->n_replaced++ < REPLACED_MAX;
}

/* Back to loading, with the request kept. The caller's sandbox is gone. */
static void begin_again(struct lease *l)
{
    sandbox_destroy(TAKE_PTR(l->sandbox));
    for (size_t i = 0; i < l->spec.n_files; i++) {
        json_decref(l->tables[i].report);
        l->tables[i].report = NULL;
    }
    l->at = 0;
    l->key[0] = '\0';
    l->again = true;
    l->is_reused = l->spoilt = false;
    l->state = LEASE_LOADING;
    l->is_restarting = l->ex->restarts = true; /* from the loop, never from within a caller */
    executor_kick(l->ex);
}

void executor_restart(struct executor *ex)
{
    for (struct lease *l = ex->restarts ? ex->all : NULL; l;) {
        if (!l->is_restarting) {
            l = l->next;
            continue;
        }
        l->is_restarting = false;
        load_advance(l);
        l = ex->all; /* the list may have changed */
    }
    ex->restarts = false;
}

static void stop_again(struct lease *l)
{
    l->again = l->is_restarting = false;
    l->waits_for_kernel = l->waits_for_table = false;
    load_stop(l);
}

void lease_fail_again(struct lease *l, const struct err *err)
{
    struct err copy = *err;
    stop_again(l);
    drop_pending(l);
    l->state = LEASE_IDLE;
    l->done(l, NULL, &copy, l->done_arg);
}

/*
 * True if the result says that a table cannot be read. The words are of the kernel's engine and
 * come first, so that no statement can put them there: its own errors have another prefix.
 */
static bool says_damaged(const struct run_result *result)
{
    static const char *const before[] = { "the kernel failed: ", "SqlError: " };
    const json_t *error = json_object_get(result->body, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    if (!message || result->verdict == VERDICT_OK)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(before); i++)
        if (str_starts(message, before[i]))
            message += strlen(before[i]);
    if (str_starts(message, "attaching table "))
        return strstr(message, ": IO Error: ") != NULL;
    return str_starts(message, "IO Error: ") &&
           (strstr(message, "Corrupt database file") || strstr(message, "/data/.tables/"));
}

/*
 * Removes what the lease cannot read, so that it is made anew. Code of a Python kernel can say
 * anything: it is believed about tables of its own owner only.
 */
static void remove_damaged(struct lease *l)
{
    for (size_t i = 0; i < l->spec.n_files; i++)
        if (!l->spec.files[i].raw && (l->spec.kind == RUN_SQL || l->spec.files[i].is_beside))
            (void)unlink(l->tables[i].path);
    executor_forget_idle(l->ex, l->owner);
}

/*
 * A kernel that was kept for the next statement died, and nobody had seen it yet. Statements change
 * nothing: this one is run in a new kernel.
 */
static bool ended_idle(const struct lease *l, const struct run_result *result)
{
    return l->is_reused && l->spec.kind == RUN_SQL && result->verdict == VERDICT_KILLED &&
           result->state_lost && !result->interrupted && !l->pending.interrupted;
}

/* ---- the run ---- */

void executor_ran(struct sandbox *sb, struct run_result *result, const struct err *err, void *arg)
{
    struct lease *l = arg;
    bool is_run = l->pending.code != NULL;
    if (is_run && err && sandbox_died_early(sb) && lease_may_replace(l)) {
        begin_again(l);
        return;
    }
    if (is_run && result && ended_idle(l, result) && lease_may_replace(l)) {
        run_result_finish(result);
        begin_again(l);
        return;
    }
    if (is_run && result && !l->is_remade && says_damaged(result)) {
        l->is_remade = true;
        remove_damaged(l);
        if (l->spec.kind == RUN_SQL && !l->ex->closing) {
            run_result_finish(result);
            begin_again(l);
            return;
        }
    }
    l->state = LEASE_IDLE;
    drop_pending(l);
    if (result && !l->is_file_op)
        l->ex->runs[result->verdict]++;
    if (result && result->peak_memory_bytes > 0)
        l->memory_bytes = result->peak_memory_bytes;
    l->spoilt = l->spoilt || err ||
                (result->verdict != VERDICT_OK && result->verdict != VERDICT_ERROR &&
                 result->verdict != VERDICT_POLICY);
    l->done(l, result, err, l->done_arg);
}

/* ---- SQL that a database runs ---- */

static void engine_ran(struct run_result *result, const struct err *err, void *arg)
{
    struct lease *l = arg;
    l->engine_run = NULL;
    l->state = LEASE_IDLE;
    drop_pending(l);
    if (result)
        l->ex->runs[result->verdict]++;
    l->done(l, result, err, l->done_arg);
}

void lease_stop_engine(struct lease *l)
{
    if (l->engine_run)
        l->ex->engine.cancel(TAKE_PTR(l->engine_run));
}

static int begin_engine(struct lease *l, struct err *err)
{
    const struct sql_engine *e = &l->ex->engine;
    const struct pending_run *p = &l->pending;
    struct run_request req = p->request;
    req.run_id = *p->run_id ? p->run_id : NULL;
    req.thread_id = *p->thread_id ? p->thread_id : NULL;
    int r = p->is_export ?
                err_set(err, ERR_INTERNAL, "a database runs statements only") :
                e->begin(e->arg, l->owner, l->spec.database, &req, engine_ran, l, &l->engine_run,
                         err);
    if (r == 0)
        executor_running(l, l->done, l->done_arg, false);
    else
        drop_pending(l);
    return r;
}

int lease_begin(struct lease *l, struct err *err)
{
    const struct pending_run *p = &l->pending;
    int r;
    if (lease_is_database(l))
        return begin_engine(l, err);
    if (p->is_export)
        r = lease_begin_export(l, err);
    else
        r = sandbox_begin(l->sandbox, &p->request, &p->events, executor_ran, l, err);
    if (r == 0) {
        executor_running(l, l->done, l->done_arg, false);
        return 0;
    }
    /* Nobody took the request, and no variable is lost. That it ended may not be known yet. */
    bool anew = !sandbox_was_ready(l->sandbox) || l->spec.kind == RUN_SQL;
    if (r == -ERR_UNAVAILABLE && anew && lease_may_replace(l)) {
        begin_again(l);
        return 0;
    }
    drop_pending(l);
    l->state = LEASE_IDLE;
    return r;
}

void lease_begin_pending(struct lease *l)
{
    struct err err = ERR_INIT;
    l->state = LEASE_IDLE;
    if (lease_begin(l, &err) < 0)
        l->done(l, NULL, &err, l->done_arg);
}

void executor_drop_interrupted(struct executor *ex)
{
    for (struct lease *l = ex->interrupted ? ex->all : NULL; l;) {
        if (!l->pending.interrupted) {
            l = l->next;
            continue;
        }
        struct run_result result = { .verdict = VERDICT_KILLED,
                                     .interrupted = true,
                                     .body = json_object(),
                                     .displays = json_array() };
        if (l->again)
            stop_again(l);
        drop_pending(l);
        l->state = LEASE_IDLE;
        if (l->ticket.state != TICKET_PARKED)
            admission_park(&ex->admission, &l->ticket, l->ticket.held);
        l->done(l, &result, NULL, l->done_arg);
        l = ex->all; /* the list may have changed */
    }
    ex->interrupted = false;
}

int lease_keep_request(struct lease *l, const struct pending_run *p, const char *text, size_t len,
                       lease_done_fn done, void *arg, struct err *err)
{
    int r = lease_check_idle(l, err);
    if (r < 0)
        return r;
    char *copy = malloc(len + 1);
    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    memcpy(copy, text, len);
    copy[len] = '\0';
    l->pending = *p;
    l->pending.code = copy;
    l->pending.request.code = copy;
    l->pending.request.code_len = len;
    json_incref((json_t *)l->pending.request.context);
    json_incref((json_t *)l->pending.request.debug);
    l->done = done;
    l->done_arg = arg;
    return 0;
}

int lease_run(struct lease *l, const struct run_request *req, const struct run_events *events,
              lease_done_fn done, void *arg, struct err *err)
{
    struct pending_run p = { .request = *req,
                             .events = events ? *events : (struct run_events){ 0 } };
    snprintf(p.run_id, sizeof(p.run_id), "%s", req->run_id ? req->run_id : "");
    snprintf(p.thread_id, sizeof(p.thread_id), "%s", req->thread_id ? req->thread_id : "");
    int r = lease_keep_request(l, &p, req->code, req->code_len, done, arg, err);
    if (r < 0 || l->ticket.state == TICKET_ACTIVE)
        return r < 0 ? r : lease_begin(l, err);
    l->state = LEASE_RESUMING;
    (void)lease_has_place(l, place_of(req->kind), l->spec.limits.memory_bytes);
    return 0;
}

void lease_reply(struct lease *l, uint32_t ask, const json_t *value, const struct err *error)
{
    if (l && l->sandbox && l->state == LEASE_RUNNING)
        sandbox_reply(l->sandbox, ask, value, error);
}

void lease_pause(struct lease *l)
{
    if (l && l->sandbox && l->state == LEASE_RUNNING)
        sandbox_pause(l->sandbox);
}

void lease_interrupt(struct lease *l)
{
    if (l->engine_run) {
        lease_stop_engine(l);
        l->pending.interrupted = l->ex->interrupted = true; /* its result comes from the loop */
    } else if (l->state == LEASE_RUNNING) {
        l->is_reused = false; /* its end is no accident */
        sandbox_interrupt(l->sandbox);
    } else if (l->state == LEASE_RESUMING || l->again) {
        l->pending.interrupted = l->ex->interrupted = true; /* its result comes from the loop */
    }
    executor_kick(l->ex);
}
