/*
 * Theory of operation. A lease goes QUEUED → HASHING (a worker thread reads the files) → INGESTING (one file after the other, each
 * in its own jail) → STARTING → IDLE ⇄ RUNNING → gone. Kernels come from the pool only: it is filled by the worker pool, one fork
 * at a time, so that neither a fork nor the start of a new zygote ever holds up the loop. A SQL sandbox that is given back in good
 * order is kept a while for the same owner's next query on the same tables (idle_cache.h).
 *
 * At most `places` leases are past QUEUED; the queue serves owners in turn, so that one who asks a thousand times does not keep
 * another waiting. Sandboxes are polled through their descriptors, with one timer each for limits and interrupts
 * (executor_watch.c). A kernel that is no longer wanted is killed at once and reaped when its pidfd says so.
 */

#include "sandbox/pool/executor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/pool/executor_impl.h"

#define IDLE_KEPT_MS 60000
#define SWEEP_MS 10000

static void lease_free(struct lease *l);
static void advance_load(struct lease *l);
static void unpark(struct lease *l);

/* ---- the queue ---- */

static void unlink_lease(struct lease *l)
{
    struct executor *ex = l->ex;
    if (l->prev)
        l->prev->next = l->next;
    else
        ex->all = l->next;
    if (l->next)
        l->next->prev = l->prev;
}

/* Oldest queued lease of the owner whose name comes next after the last served; owners take turns. */
static struct lease *next_in_turn(struct executor *ex)
{
    struct lease *after = NULL, *first = NULL;
    for (struct lease *l = ex->all; l; l = l->next) { /* newest first: the last match is the oldest */
        if (l->state != LEASE_QUEUED)
            continue;
        if (!first || strcmp(l->owner, first->owner) <= 0)
            first = l;
        if (strcmp(l->owner, ex->last_owner) > 0 && (!after || strcmp(l->owner, after->owner) <= 0))
            after = l;
    }
    return after ? after : first;
}

static void on_kick(uv_idle_t *h)
{
    struct executor *ex = h->data;
    uv_idle_stop(h);
    while (!ex->closing && ex->n_active < ex->places && ex->n_queued > 0) {
        struct lease *l = next_in_turn(ex);
        snprintf(ex->last_owner, sizeof(ex->last_owner), "%s", l->owner);
        ex->n_queued--;
        ex->n_active++;
        l->times.queue_us = clock_now_us() - l->since_us;
        l->since_us = clock_now_us();
        l->state = LEASE_HASHING;
        advance_load(l);
    }
}

static void on_sweep(uv_timer_t *h)
{
    struct executor *ex = h->data;
    struct sandbox *sb;
    while ((sb = idle_cache_expire(&ex->idle, clock_now_ms() - IDLE_KEPT_MS)))
        retire(ex, sb);
}

static void kick(struct executor *ex)
{
    if (!ex->closing)
        uv_idle_start(&ex->kick, on_kick);
}

/* ---- the pool ---- */

static bool kernel_wanted(const struct executor *ex, enum run_kind kind)
{
    for (const struct lease *l = ex->all; l; l = l->next)
        if (l->waits_for_kernel && (l->state == LEASE_INGESTING ? RUN_SQL : l->spec.kind) == kind)
            return true;
    return false;
}

static void spawn_work(uv_work_t *work)
{
    struct spawning *s = work->data;
    s->result = kernel_spawn(s->ex->provider, s->kind, true, &s->limits, &s->kernel, &s->err);
}

static void fill_pool(struct executor *ex);
static void fail_ready(struct lease *l, const struct err *err);

/* The oldest one that waits for this kind of kernel goes on; or, if there is none to be had, every one is told. */
static void serve_waiting(struct executor *ex, enum run_kind kind, const struct err *err)
{
    struct lease *oldest;
    do {
        oldest = NULL;
        for (struct lease *l = ex->all; l; l = l->next)
            if (l->waits_for_kernel && (l->state == LEASE_INGESTING ? RUN_SQL : l->spec.kind) == kind)
                oldest = l;
        if (!oldest)
            return;
        oldest->waits_for_kernel = false;
        if (err)
            fail_ready(oldest, err);
        else
            advance_load(oldest);
    } while (err || ex->provider->n_pool[kind] > 0);
}

static void spawn_done(uv_work_t *work, int status)
{
    struct spawning *s = work->data;
    struct executor *ex = s->ex;
    ex->is_spawning[s->kind] = false;
    if (status < 0 || ex->closing) {
        if (status == 0 && s->result == 0)
            kernel_kill(&s->kernel);
        return;
    }
    ex->zygotes_good = s->result == 0;
    if (s->result == 0)
        ex->provider->pool[s->kind][ex->provider->n_pool[s->kind]++] = s->kernel;
    struct err err = s->err;
    serve_waiting(ex, s->kind, s->result < 0 ? &err : NULL);
    if (s->result == 0)
        fill_pool(ex);
}

/* Forks one more kernel of each kind that the pool is short of, or that somebody waits for. */
static void fill_pool(struct executor *ex)
{
    size_t size = (size_t)MIN_OF(ex->cfg->pool_size, POOL_MAX - 1);
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++) {
        bool short_of_one = ex->provider->n_pool[kind] < size || kernel_wanted(ex, kind);
        if (ex->closing || ex->is_spawning[kind] || !short_of_one)
            continue;
        struct spawning *s = &ex->spawning[kind];
        *s = (struct spawning){ .ex = ex, .kind = (enum run_kind)kind, .work.data = s, .kernel = KERNEL_PROC_NONE };
        sandbox_limits_default(ex->cfg, &s->limits);
        ex->is_spawning[kind] = uv_queue_work(ex->loop, &s->work, spawn_work, spawn_done) == 0;
    }
}

/* True if a kernel of this kind can be taken now; otherwise the lease will be called again when one can. */
static bool kernel_at_hand(struct lease *l, enum run_kind kind)
{
    kernel_pool_trim(l->ex->provider, kind);
    if (l->ex->provider->n_pool[kind] > 0)
        return true;
    l->waits_for_kernel = true;
    fill_pool(l->ex);
    return false;
}

/* ---- loading ---- */

static void fail_ready(struct lease *l, const struct err *err)
{
    lease_ready_fn ready = l->ready;
    void *arg = l->ready_arg;
    struct err copy = *err;
    lease_release(l);
    ready(NULL, &copy, arg);
}

static void hash_work(uv_work_t *work)
{
    struct lease *l = work->data;
    l->hash_result = 0;
    for (size_t i = 0; i < l->spec.n_files && l->hash_result == 0; i++)
        if (!l->hashes[i][0] && !l->spec.files[i].raw)
            l->hash_result = tables_hash(&l->spec.files[i], NULL, l->hashes[i], &l->hash_err);
}

static void hash_done(uv_work_t *work, int status)
{
    struct lease *l = work->data;
    l->working = false;
    if (l->released) {
        lease_free(l);
        return;
    }
    if (status < 0)
        l->hash_result = err_set(&l->hash_err, ERR_CANCELLED, "cancelled");
    if (l->hash_result < 0) {
        fail_ready(l, &l->hash_err);
        return;
    }
    l->state = LEASE_INGESTING;
    advance_load(l);
}

/* One that was given back; those that died meanwhile are let go. */
static struct sandbox *take_idle(struct lease *l)
{
    struct sandbox *sb;
    while ((sb = idle_cache_take(&l->ex->idle, l->key))) {
        struct pollfd pfd = { .fd = sandbox_pidfd(sb), .events = POLLIN };
        if (poll(&pfd, 1, 0) == 0)
            return sb;
        retire(l->ex, sb);
    }
    return NULL;
}

static void finish_load(struct lease *l)
{
    struct err err = ERR_INIT;
    if (l->state != LEASE_STARTING) {
        l->state = LEASE_STARTING;
        l->times.load_us = clock_now_us() - l->since_us;
        l->since_us = clock_now_us();
    }
    if (l->spec.kind == RUN_SQL && idle_cache_key(l->owner, &l->spec, (const char (*)[HASH_HEX_SIZE])l->hashes, l->key))
        l->sandbox = take_idle(l);
    if (l->sandbox) {
        l->state = LEASE_IDLE;
        l->ready(l, NULL, l->ready_arg);
        return;
    }
    if (!kernel_at_hand(l, l->spec.kind))
        return;
    int r = sandbox_create_loaded(l->ex->provider, &l->spec, l->tables, &l->sandbox, &err);
    l->times.start_us = clock_now_us() - l->since_us;
    fill_pool(l->ex);
    if (r < 0) {
        fail_ready(l, &err);
        return;
    }
    l->state = LEASE_IDLE;
    l->ready(l, NULL, l->ready_arg);
}

/* True if another lease is making the table that this one needs next. */
static bool is_being_made(const struct lease *l)
{
    for (const struct lease *o = l->ex->all; o; o = o->next)
        if (o != l && (o->ingest || o->ending) && str_eq(o->hashes[o->at], l->hashes[l->at]))
            return true;
    return false;
}

/* An ingest ended, well or not: whoever waited for that table looks again, once. */
static void wake_for_table(struct executor *ex, const char *hash)
{
    for (struct lease *l = ex->all; l; l = l->next) {
        l->woken = l->waits_for_table && str_eq(l->hashes[l->at], hash);
        l->waits_for_table = l->waits_for_table && !l->woken;
    }
    for (struct lease *l = ex->all; l;) {
        if (!l->woken) {
            l = l->next;
            continue;
        }
        l->woken = false;
        advance_load(l);
        l = ex->all; /* the list may have changed */
    }
}

/* Goes on until something has to be waited for. */
static void advance_load(struct lease *l)
{
    struct executor *ex = l->ex;
    if (l->state == LEASE_HASHING) {
        bool known = true;
        for (size_t i = 0; i < l->spec.n_files; i++)
            known = known && (l->hashes[i][0] || l->spec.files[i].raw);
        if (!known) {
            l->work.data = l;
            l->working = true;
            if (uv_queue_work(ex->loop, &l->work, hash_work, hash_done) == 0)
                return;
            l->working = false;
        }
        l->state = LEASE_INGESTING;
    }
    for (; l->at < l->spec.n_files; l->at++) {
        if (l->spec.files[l->at].raw || tables_find(ex->provider, l->hashes[l->at], &l->tables[l->at]))
            continue;
        if (is_being_made(l)) {
            l->waits_for_table = true;
            return;
        }
        if (!kernel_at_hand(l, RUN_SQL))
            return;
        struct err err = ERR_INIT;
        int r = ingest_begin(ex->provider, &l->spec.files[l->at], l->hashes[l->at], &l->events, &l->ingest, &err);
        fill_pool(ex);
        if (r == 0)
            r = watch_update(l, &err);
        if (r < 0)
            fail_ready(l, &err);
        return;
    }
    finish_load(l);
}

/* ---- running ---- */

static void on_ending_closed(uv_handle_t *h)
{
    struct ending *e = h->data;
    e->ex->n_dying--;
    free(e);
}

/* The ingest's kernel is gone: what it left can be published, or is thrown away. */
static void on_ended(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    struct ending *e = h->data;
    struct lease *l = e->lease;
    struct err err = ERR_INIT;
    uv_poll_stop(h);
    if (!l) {
        ingest_abort(e->ingest);
        run_result_finish(&e->result);
        uv_close((uv_handle_t *)h, on_ending_closed);
        return;
    }
    l->ending = NULL;
    char hash[HASH_HEX_SIZE];
    snprintf(hash, sizeof(hash), "%s", l->hashes[l->at]);
    struct executor *ex = l->ex;
    int r = ingest_finish(e->ingest, &e->result, &l->tables[l->at], &err);
    run_result_finish(&e->result);
    uv_close((uv_handle_t *)h, on_ending_closed);
    if (r < 0) {
        fail_ready(l, &err);
    } else {
        l->at++;
        advance_load(l);
    }
    wake_for_table(ex, hash);
}

static void end_ingest(struct lease *l, struct run_result *result)
{
    struct err err = ERR_INIT;
    struct ending *e = calloc(1, sizeof(*e));
    int pidfd = sandbox_pidfd(ingest_sandbox(l->ingest));
    if (!e || uv_poll_init(l->ex->loop, &e->poll, pidfd) < 0) {
        free(e);
        run_result_finish(result);
        err_set(&err, ERR_NO_MEMORY, "out of memory");
        fail_ready(l, &err);
        return;
    }
    e->poll.data = e;
    e->ex = l->ex;
    e->ex->n_dying++;
    e->lease = l;
    e->ingest = TAKE_PTR(l->ingest);
    e->result = *result;
    l->ending = e;
    (void)proc_pidfd_signal(pidfd, SIGKILL, NULL);
    uv_poll_start(&e->poll, UV_READABLE, on_ended);
}

static void step_ingest(struct lease *l)
{
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    int r = sandbox_advance(ingest_sandbox(l->ingest), &result, &err);
    if (r == 0) {
        (void)watch_update(l, &err);
        return;
    }
    watch_stop(l);
    if (r < 0)
        fail_ready(l, &err);
    else
        end_ingest(l, &result);
}

void executor_step(struct lease *l)
{
    if (l->ingest) {
        step_ingest(l);
        return;
    }
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    int r = sandbox_advance(l->sandbox, &result, &err);
    if (r == 0) {
        (void)watch_update(l, &err);
        return;
    }
    watch_stop(l);
    l->state = LEASE_IDLE;
    if (r > 0 && !l->is_file_op)
        l->ex->runs[result.verdict]++;
    l->spoilt = l->spoilt || r < 0 || (result.verdict != VERDICT_OK && result.verdict != VERDICT_ERROR && result.verdict != VERDICT_POLICY);
    l->done(l, r > 0 ? &result : NULL, r > 0 ? NULL : &err, l->done_arg);
}

int executor_running(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    l->done = done;
    l->done_arg = arg;
    l->is_file_op = false;
    l->state = LEASE_RUNNING;
    return watch_update(l, err);
}

int lease_run(struct lease *l, const struct run_request *req, const struct run_events *events, lease_done_fn done,
              void *arg, struct err *err)
{
    if (l->state != LEASE_IDLE)
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    unpark(l);
    int r = sandbox_begin(l->sandbox, req, events, err);
    return r < 0 ? r : executor_running(l, done, arg, err);
}

int lease_profile(struct lease *l, const char *table, int64_t timeout_ms, lease_done_fn done, void *arg, struct err *err)
{
    if (l->state != LEASE_IDLE)
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    auto_json json_t *req = json_pack("{s:s, s:s}", "op", "profile", "table", table);
    if (!req)
        return err_set(err, ERR_VALIDATION, "the table's name is not valid UTF-8");
    int r = sandbox_begin_json(l->sandbox, req, timeout_ms, 65536, NULL, err);
    return r < 0 ? r : executor_running(l, done, arg, err);
}

void lease_interrupt(struct lease *l)
{
    struct err err = ERR_INIT;
    if (l->state != LEASE_RUNNING)
        return;
    sandbox_interrupt(l->sandbox);
    (void)watch_update(l, &err);
}

void lease_times(const struct lease *l, struct lease_times *ret)
{
    *ret = l->times;
}

int lease_park(struct lease *l)
{
    if (l->state != LEASE_IDLE || !lease_alive(l))
        return -ERR_CONFLICT;
    if (!l->parked) {
        l->parked = true;
        l->ex->n_active--;
        kick(l->ex);
    }
    return 0;
}

/* Back among the active ones. It need not queue again: its memory is already taken. */
static void unpark(struct lease *l)
{
    if (l->parked) {
        l->parked = false;
        l->ex->n_active++;
    }
}

bool lease_alive(const struct lease *l)
{
    return l->sandbox && sandbox_alive(l->sandbox);
}

/* ---- leases ---- */

static int copy_spec(struct lease *l, const struct sandbox_spec *spec, struct err *err)
{
    l->spec = *spec;
    size_t n = spec->n_files;
    struct sandbox_file *files = arena_alloc(&l->arena, (n + 1) * sizeof(*files));
    l->hashes = arena_alloc(&l->arena, (n + 1) * sizeof(*l->hashes));
    l->tables = arena_alloc(&l->arena, (n + 1) * sizeof(*l->tables));
    bool good = files && l->hashes && l->tables;
    l->spec.dataset_id = spec->dataset_id ? arena_strdup(&l->arena, spec->dataset_id) : NULL;
    for (size_t i = 0; good && i < n; i++) {
        files[i].name = arena_strdup(&l->arena, spec->files[i].name);
        files[i].path = arena_strdup(&l->arena, spec->files[i].path);
        files[i].raw = spec->files[i].raw;
        files[i].table = files[i].raw ? NULL : arena_strdup(&l->arena, spec->files[i].table);
        if (spec->files[i].sha256)
            snprintf(l->hashes[i], sizeof(l->hashes[i]), "%s", spec->files[i].sha256);
        good = files[i].name && files[i].path && (files[i].table || files[i].raw);
    }
    l->spec.files = files;
    return good ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

int executor_acquire(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                     const struct run_events *events, lease_ready_fn ready, void *arg, struct lease **ret,
                     struct err *err)
{
    if (ex->closing)
        return err_set(err, ERR_UNAVAILABLE, "the server is shutting down");
    if (ex->n_active + ex->n_queued >= ex->places + ex->queue_max) {
        ex->refused++;
        return err_set(err, ERR_UNAVAILABLE, "the server is busy: %zu runs are waiting; try again soon", ex->n_queued);
    }
    if (spec->n_files > SANDBOX_FILES_MAX)
        return err_set(err, ERR_VALIDATION, "%zu files; a sandbox takes at most %d", spec->n_files,
                       SANDBOX_FILES_MAX);
    if (sandbox_files_check(spec, err) < 0)
        return -(int)err->code;
    struct lease *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&l->arena, 4u << 20);
    l->ex = ex;
    int r = copy_spec(l, spec, err);
    if (r < 0) {
        lease_free(l);
        return r;
    }
    snprintf(l->owner, sizeof(l->owner), "%s", owner);
    l->events = events ? *events : (struct run_events){ 0 };
    l->ready = ready;
    l->ready_arg = arg;
    l->since_us = clock_now_us();
    l->state = LEASE_QUEUED;
    l->next = ex->all;
    if (ex->all)
        ex->all->prev = l;
    ex->all = l;
    ex->n_queued++;
    kick(ex);
    *ret = l;
    return 0;
}

static void lease_free(struct lease *l)
{
    for (size_t i = 0; l->tables && i < l->spec.n_files; i++)
        json_decref(l->tables[i].report);
    arena_finish(&l->arena);
    free(l);
}

void lease_release(struct lease *l)
{
    if (!l)
        return;
    struct executor *ex = l->ex;
    watch_stop(l);
    unlink_lease(l);
    if (l->state == LEASE_QUEUED)
        ex->n_queued--;
    else if (!l->parked)
        ex->n_active--;
    bool made_table = l->ingest || l->ending;
    if (l->ingest)
        ingest_abort(TAKE_PTR(l->ingest));
    if (l->ending)
        l->ending->lease = NULL; /* on_ended cleans up */
    if (l->sandbox && l->state == LEASE_IDLE && *l->key && !l->spoilt && !ex->closing && sandbox_alive(l->sandbox))
        retire(ex, idle_cache_put(&ex->idle, l->key, TAKE_PTR(l->sandbox), clock_now_ms()));
    else if (l->sandbox)
        retire(ex, TAKE_PTR(l->sandbox));
    kick(ex);
    if (made_table && !ex->closing)
        wake_for_table(ex, l->hashes[l->at]); /* somebody else has to make it */
    if (l->working)
        l->released = true; /* hash_done frees it */
    else
        lease_free(l);
}

/* ---- the executor ---- */

/* As many kernels as memory holds at their limit, with a fifth left for the machine; more than that would only swap. */
static size_t default_places(const struct config *cfg)
{
    struct sysinfo info;
    if (sysinfo(&info) < 0)
        return 8;
    unsigned long long bytes = (unsigned long long)info.totalram * info.mem_unit / 5 * 4;
    unsigned long long n = bytes / (unsigned long long)cfg->memory_bytes;
    return (size_t)MAX_OF(1ull, MIN_OF(n, 1024ull));
}

int executor_create(uv_loop_t *loop, const struct config *cfg, struct executor **ret, struct err *err)
{
    struct executor *ex = calloc(1, sizeof(*ex));
    if (!ex)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    ex->loop = loop;
    ex->cfg = cfg;
    ex->places = cfg->max_kernels ? (size_t)cfg->max_kernels : default_places(cfg);
    ex->queue_max = (size_t)cfg->queue_max;
    /* The SQL zygote is up in no time and shows that jails hold on this machine; Python's starts while the server serves. */
    int r = provider_open_local(cfg, &ex->provider, err);
    if (r == 0)
        r = provider_warm(ex->provider, RUN_SQL, err);
    if (r < 0) {
        provider_close(ex->provider);
        free(ex);
        return r;
    }
    /* From here on only the worker talks to the zygotes. */
    ex->provider->pool_only = true;
    ex->first_starts = provider_zygote_starts(ex->provider) + 1;
    ex->zygotes_good = true;
    idle_cache_init(&ex->idle, (size_t)cfg->idle_kernels);
    uv_timer_init(loop, &ex->sweep);
    ex->sweep.data = ex;
    uv_timer_start(&ex->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_unref((uv_handle_t *)&ex->sweep);
    uv_idle_init(loop, &ex->kick);
    ex->kick.data = ex;
    fill_pool(ex);
    *ret = ex;
    return 0;
}

/* Whoever waits for a lease or for a result is told that nothing will come of it. */
static void tell_the_end(struct lease *l)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_CANCELLED, "the server is shutting down");
    if (l->state < LEASE_IDLE) {
        fail_ready(l, &err);
    } else if (l->state == LEASE_RUNNING) {
        watch_stop(l);
        l->state = LEASE_IDLE;
        l->done(l, NULL, &err, l->done_arg);
    } else {
        lease_release(l);
    }
}

void executor_destroy(struct executor *ex)
{
    if (!ex)
        return;
    ex->closing = true;
    while (ex->all)
        tell_the_end(ex->all);
    struct sandbox *sb;
    while ((sb = idle_cache_expire(&ex->idle, INT64_MAX)))
        retire(ex, sb);
    uv_close((uv_handle_t *)&ex->sweep, NULL);
    uv_close((uv_handle_t *)&ex->kick, NULL);
    /* Everything still open in the loop at this point is ours or the caller's last word; both end by themselves. */
    while (ex->n_dying > 0 || ex->is_spawning[RUN_SQL] || ex->is_spawning[RUN_PYTHON])
        uv_run(ex->loop, UV_RUN_ONCE);
    uv_run(ex->loop, UV_RUN_NOWAIT);
    provider_close(ex->provider);
    free(ex);
}

void executor_stats(const struct executor *ex, struct executor_stats *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (const struct lease *l = ex->all; l; l = l->next) {
        ret->loading += l->state > LEASE_QUEUED && l->state < LEASE_IDLE;
        ret->running += l->state == LEASE_RUNNING;
        ret->idle += l->state == LEASE_IDLE;
    }
    ret->queued = ex->n_queued;
    ret->idle += ex->idle.n;
    ret->places = ex->places;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        ret->pooled += ex->provider->n_pool[kind];
    memcpy(ret->runs, ex->runs, sizeof(ret->runs));
    unsigned starts = provider_zygote_starts(ex->provider);
    ret->zygote_restarts = starts > ex->first_starts ? starts - ex->first_starts : 0;
    ret->refused = ex->refused;
}

bool executor_ready(const struct executor *ex)
{
    return !ex->closing && ex->zygotes_good;
}
