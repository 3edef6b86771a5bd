/*
 * Theory of operation. A lease goes QUEUED → LOADING (executor_load.c: hash and ingest, file by
 * file) → STARTING → IDLE ⇄ RUNNING → gone. Kernels come from the pool, which is filled one spawn
 * at a time for each kind, also when it has size 0 and somebody waits. A SQL sandbox that is given
 * back in good order is kept a while for the same owner's next query on the same tables
 * (idle_cache.h).
 *
 * A lease needs a place (admission.h) while it loads, starts and runs: one of its kind, or one for
 * ingests as long as it makes a table. Between runs it may be parked, and its next run waits for a
 * place again (RESUMING). Nothing here knows which provider the kernels come from.
 */

#include "sandbox/pool/executor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/str.h"
#include "sandbox/pool/executor_impl.h"

#define IDLE_KEPT_MS 60000
#define UNLIMITED_MAX 3 /* kernels in a row whose limits cannot be set */
#define SWEEP_MS 3000
#define REFILL_MS 5
#define INGESTS_MAX 4
/* A kernel that runs nothing and was not measured is counted with this part of its limit. */
#define UNMEASURED_SHARE 8

static void lease_free(struct lease *l);
static void trim_pool(struct executor *ex, enum run_kind kind);

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

enum place place_of(enum run_kind kind)
{
    return kind == RUN_PYTHON ? PLACE_PYTHON : PLACE_SQL;
}

bool lease_has_place(struct lease *l, enum place place, int64_t memory_bytes)
{
    struct ticket *t = &l->ticket;
    if (t->place == place && t->state == TICKET_ACTIVE)
        return true;
    if (t->place != place || t->state != TICKET_WAITING)
        admission_move(&l->ex->admission, t, place, memory_bytes);
    executor_kick(l->ex);
    return false;
}

void lease_give_up_place(struct lease *l)
{
    if (l->ticket.state != TICKET_PARKED)
        admission_park(&l->ex->admission, &l->ticket, 0);
    executor_kick(l->ex);
}

/* The lease whose turn it is has its place. */
static void go_on(struct lease *l)
{
    if (l->state == LEASE_RESUMING) {
        lease_begin_pending(l);
        return;
    }
    if (l->state == LEASE_QUEUED) {
        l->times.queue_us = clock_now_us() - l->since_us;
        l->since_us = clock_now_us();
        l->state = LEASE_LOADING;
    }
    load_advance(l);
}

/* Frees memory of kernels that run nothing for those who wait: first what nobody misses. */
static void make_room(struct executor *ex)
{
    struct sandbox *sb = idle_cache_expire(&ex->idle, INT64_MAX);
    sandbox_destroy(sb);
    if (sb || (ex->make_room && ex->make_room(ex->make_room_arg)))
        executor_kick(ex);
}

static void on_kick(uv_idle_t *h)
{
    struct executor *ex = h->data;
    struct admission *a = &ex->admission;
    struct ticket *t;
    uv_idle_stop(h);
    executor_drop_interrupted(ex);
    if (!ex->closing)
        executor_restart(ex);
    a->held_idle = (int64_t)ex->idle.n * (ex->cfg->memory_bytes / UNMEASURED_SHARE);
    while (!ex->closing && (t = admission_next(a)))
        go_on(CONTAINER_OF(t, struct lease, ticket));
    if (!ex->closing && admission_wants_room(a))
        make_room(ex);
}

static void on_sweep(uv_timer_t *h)
{
    struct executor *ex = h->data;
    struct sandbox *sb;
    while ((sb = idle_cache_expire(&ex->idle, clock_now_ms() - IDLE_KEPT_MS)))
        sandbox_destroy(sb);
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        trim_pool(ex, (enum run_kind)kind);
    executor_fill_pool(ex); /* what could not be started may be possible again */
}

void executor_kick(struct executor *ex)
{
    if (!ex->closing)
        uv_idle_start(&ex->kick, on_kick);
}

/* ---- the pool ---- */

static enum run_kind kind_waited_for(const struct lease *l)
{
    return l->state == LEASE_LOADING ? RUN_SQL : l->spec.kind;
}

static struct lease *oldest_waiting(const struct executor *ex, enum run_kind kind)
{
    struct lease *oldest = NULL;
    for (struct lease *l = ex->all; l; l = l->next) /* newest first */
        if (l->waits_for_kernel && kind_waited_for(l) == kind)
            oldest = l;
    return oldest;
}

/* A command that runs once has the kernel of its query made while the table is. */
static bool wanted_soon(const struct executor *ex, enum run_kind kind)
{
    for (const struct lease *l = ex->all; ex->one_shot && l; l = l->next)
        if (l->ingest && l->spec.kind == kind)
            return true;
    return false;
}

bool executor_can_use(const struct executor *ex, struct kernel_link *link)
{
    const struct provider_ops *ops = ex->provider->ops;
    return !link->dead && (!ops->usable || ops->usable(link));
}

/* Lets go of those that died or were stopped while they waited. */
static void trim_pool(struct executor *ex, enum run_kind kind)
{
    size_t kept = 0;
    for (size_t i = 0; i < ex->n_pool[kind]; i++) {
        struct kernel_link *link = ex->pool[kind][i];
        if (!executor_can_use(ex, link))
            ex->provider->ops->release(link);
        else
            ex->pool[kind][kept++] = link;
    }
    ex->n_pool[kind] = kept;
}

/*
 * The oldest one that waits for this kind of kernel goes on; or, if there is none to be had, every
 * one is told.
 */
static void serve_waiting(struct executor *ex, enum run_kind kind, const struct err *err)
{
    struct lease *l;
    while ((err || ex->n_pool[kind] > 0) && (l = oldest_waiting(ex, kind))) {
        l->waits_for_kernel = false;
        if (err)
            lease_fail(l, err);
        else
            load_advance(l);
    }
}

struct spawning {
    struct executor *ex;
    enum run_kind kind;
};

static void on_spawned(void *arg, struct kernel_link *link, const struct err *err)
{
    struct spawning *s = arg;
    struct executor *ex = s->ex;
    enum run_kind kind = s->kind;
    free(s);
    ex->is_spawning[kind] = false;
    if (ex->closing) {
        ex->provider->ops->release(link);
        return;
    }
    if (err && kind == RUN_SQL)
        ex->first = *err;
    if (!err)
        ex->pool[kind][ex->n_pool[kind]++] = link;
    serve_waiting(ex, kind, err);
    if (!err)
        executor_fill_pool(ex);
}

/* Starts one more kernel of each kind that the pool is short of, or that somebody waits for. */
void executor_fill_pool(struct executor *ex)
{
    size_t size = ex->one_shot ? 0 : (size_t)MIN_OF(ex->cfg->pool_size, POOL_MAX - 1);
    for (int kind = 0; kind < _RUN_KIND_MAX && !ex->closing; kind++) {
        bool waited_for = oldest_waiting(ex, kind) ||
                          (ex->n_pool[kind] == 0 && wanted_soon(ex, kind));
        if (ex->is_spawning[kind] || (ex->n_pool[kind] >= size && !waited_for))
            continue;
        struct spawning *s = calloc(1, sizeof(*s));
        struct spawn_spec spec = { .kind = (enum run_kind)kind, .pooled = !waited_for };
        struct err err = ERR_INIT;
        sandbox_limits_default(ex->cfg, &spec.limits);
        spec.limits.yields = kind == RUN_PYTHON;
        if (s)
            *s = (struct spawning){ .ex = ex, .kind = (enum run_kind)kind };
        ex->is_spawning[kind] = true;
        if (!s || ex->provider->ops->spawn(ex->provider, &spec, on_spawned, s, &err) < 0) {
            ex->is_spawning[kind] = false;
            free(s);
            if (err.code == ERR_NONE)
                err_set(&err, ERR_NO_MEMORY, "out of memory");
            if (kind == RUN_SQL)
                ex->first = err;
            serve_waiting(ex, kind, &err);
        }
    }
}

static void on_refill(uv_timer_t *h)
{
    executor_fill_pool(h->data);
}

void executor_refill(struct executor *ex)
{
    if (ex->one_shot) /* the kernel of the query starts while the table is made */
        executor_fill_pool(ex);
    else if (!ex->closing && !uv_is_active((uv_handle_t *)&ex->refill))
        uv_timer_start(&ex->refill, on_refill, REFILL_MS, 0);
}

struct kernel_link *executor_take_kernel(struct lease *l, enum run_kind kind,
                                         const struct sandbox_limits *limits)
{
    struct executor *ex = l->ex;
    const struct provider_ops *ops = ex->provider->ops;
    while (ex->n_pool[kind] > 0) {
        /* The one that has waited longest: it has copied its pages (hot_pages.h). */
        struct kernel_link *link = ex->pool[kind][0];
        struct err err = ERR_INIT;
        ex->n_pool[kind]--;
        memmove(ex->pool[kind], ex->pool[kind] + 1, ex->n_pool[kind] * sizeof(ex->pool[kind][0]));
        if (!executor_can_use(ex, link)) { /* it died or was stopped while it waited */
            ops->release(link);
            continue;
        }
        if (!(ops->caps & PROVIDER_LIMIT) || ops->limit(link, limits, &err) == 0)
            return link;
        ops->release(link);
        /* Another kernel may do better; a machine that refuses several in a row will not. */
        if (++l->n_unlimited == UNLIMITED_MAX) {
            lease_fail(l, &err);
            return NULL;
        }
    }
    l->waits_for_kernel = true;
    executor_fill_pool(ex);
    return NULL;
}

/* ---- running ---- */

void lease_fail(struct lease *l, const struct err *err)
{
    if (l->again) {
        lease_fail_again(l, err);
        return;
    }
    lease_ready_fn ready = l->ready;
    void *arg = l->ready_arg;
    struct err copy = *err;
    lease_release(l);
    ready(NULL, &copy, arg);
}

void lease_is_ready(struct lease *l)
{
    l->state = LEASE_IDLE;
    if (l->again) {
        l->again = false;
        lease_begin_pending(l);
        return;
    }
    l->ready(l, NULL, l->ready_arg);
}

int lease_check_idle(const struct lease *l, struct err *err)
{
    return l->state == LEASE_IDLE ?
               0 :
               err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
}

void lease_times(const struct lease *l, struct lease_times *ret)
{
    *ret = l->times;
}

const struct lease_table *lease_tables(const struct lease *l, size_t *ret_n)
{
    *ret_n = l->n_all;
    return l->all;
}

size_t lease_table_names(const struct lease *l, const char **ret, size_t max)
{
    size_t n = MIN_OF(l->n_all, max);
    for (size_t i = 0; i < n; i++)
        ret[i] = l->all[i].name;
    return n;
}

int lease_park(struct lease *l)
{
    if (l->state != LEASE_IDLE || !lease_alive(l))
        return -ERR_CONFLICT;
    if (l->ticket.state != TICKET_PARKED)
        admission_park(&l->ex->admission, &l->ticket,
                       l->memory_bytes > 0 ? l->memory_bytes :
                                             l->spec.limits.memory_bytes / UNMEASURED_SHARE);
    executor_kick(l->ex);
    return 0;
}

bool lease_alive(const struct lease *l)
{
    return lease_is_database(l) || (l->sandbox && sandbox_alive(l->sandbox));
}

struct kernel_link *lease_link(const struct lease *l)
{
    return l->sandbox ? sandbox_link(l->sandbox) : NULL;
}

struct provider *executor_provider(const struct executor *ex)
{
    return ex->provider;
}

uv_loop_t *executor_loop(const struct executor *ex)
{
    return ex->loop;
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
    l->spec.database = spec->database ? arena_strdup(&l->arena, spec->database) : NULL;
    good = good && (l->spec.database || !spec->database);
    l->spec.image = spec->image ? arena_strdup(&l->arena, spec->image) : NULL;
    good = good && (l->spec.image || !spec->image);
    l->spec.python_allowed = spec->python_allowed ? arena_strdup(&l->arena, spec->python_allowed) :
                                                    NULL;
    l->spec.python_blocked = spec->python_blocked ? arena_strdup(&l->arena, spec->python_blocked) :
                                                    NULL;
    for (size_t i = 0; good && i < n; i++) {
        files[i].name = arena_strdup(&l->arena, spec->files[i].name);
        files[i].path = arena_strdup(&l->arena, spec->files[i].path);
        files[i].raw = spec->files[i].raw;
        files[i].alias = spec->files[i].alias ? arena_strdup(&l->arena, spec->files[i].alias) :
                                                NULL;
        files[i].is_beside = spec->files[i].is_beside;
        files[i].options = spec->files[i].options ?
                               arena_strdup(&l->arena, spec->files[i].options) :
                               NULL;
        files[i].table = files[i].raw ? NULL : arena_strdup(&l->arena, spec->files[i].table);
        if (spec->files[i].sha256)
            snprintf(l->hashes[i], sizeof(l->hashes[i]), "%s", spec->files[i].sha256);
        good = files[i].name && files[i].path && (files[i].table || files[i].raw) &&
               (files[i].options || !spec->files[i].options);
    }
    l->spec.files = files;
    return good ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

int executor_acquire(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                     const struct run_events *events, lease_ready_fn ready, void *arg,
                     struct lease **ret, struct err *err)
{
    if (ex->closing)
        return err_set(err, ERR_UNAVAILABLE, "the server is shutting down");
    if (spec->n_files > SANDBOX_FILES_MAX)
        return err_set(err, ERR_VALIDATION, "%zu files; a sandbox takes at most %d", spec->n_files,
                       SANDBOX_FILES_MAX);
    if (sandbox_files_check(spec, err) < 0)
        return -(int)err->code;
    struct sandbox_spec asked = *spec;
    if (spec->database && spec->kind == RUN_SQL) {
        if (!ex->engine.begin || spec->exports)
            return err_set(err, ERR_VALIDATION,
                           spec->exports ? "results of a database are not exported as a whole; ask "
                                           "for their rows page by page" :
                                           "there are no databases here");
        asked.n_files = 0; /* the database has no use for them */
        asked.limits.memory_bytes = 0;
    }
    spec = &asked;
    struct lease *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&l->arena, 4u << 20);
    l->ex = ex;
    int r = copy_spec(l, spec, err);
    if (r == 0)
        r = admission_enter(&ex->admission, &l->ticket, owner, place_of(spec->kind),
                            spec->limits.memory_bytes, !spec->refusable, err);
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
    executor_kick(ex);
    *ret = l;
    return 0;
}

static void lease_free(struct lease *l)
{
    for (size_t i = 0; l->tables && i < l->spec.n_files; i++)
        json_decref(l->tables[i].report);
    lease_forget_image(l);
    arena_finish(&l->arena);
    free(l);
}

/* False when a file of the lease was deleted meanwhile. */
static bool has_tables(const struct lease *l)
{
    for (size_t i = 0; i < l->spec.n_files; i++)
        if (!l->spec.files[i].raw && access(l->tables[i].path, F_OK) < 0)
            return false;
    return true;
}

void executor_forget_idle(struct executor *ex, const char *owner)
{
    struct sandbox *sb;
    while ((sb = idle_cache_take_of(&ex->idle, owner)))
        sandbox_destroy(sb);
}

void lease_release(struct lease *l)
{
    if (!l)
        return;
    struct executor *ex = l->ex;
    lease_leave_branch(l);
    unlink_lease(l);
    admission_leave(&ex->admission, &l->ticket);
    lease_stop_engine(l);
    free(TAKE_PTR(l->pending.code));
    json_decref((json_t *)TAKE_PTR(l->pending.request.context));
    json_decref((json_t *)TAKE_PTR(l->pending.request.debug));
    if (l->sandbox && l->state == LEASE_IDLE && *l->key && !l->spoilt && !ex->closing &&
        sandbox_alive(l->sandbox) && has_tables(l))
        sandbox_destroy(
            idle_cache_put(&ex->idle, l->owner, l->key, TAKE_PTR(l->sandbox), clock_now_ms()));
    else
        sandbox_destroy(TAKE_PTR(l->sandbox));
    executor_kick(ex);
    load_stop(l);
    lease_free(l);
}

bool lease_is_awaited(const struct lease *l)
{
    const struct admission *a = &l->ex->admission;
    for (int place = 0; place < _PLACE_MAX; place++)
        if (a->waiting[place] > 0)
            return true;
    return false;
}

/* ---- the executor ---- */

/*
 * More kernels than some for each processor would only slow each other down. More than memory holds
 * at their limits, with a fifth left for the machine, would only swap. One owner cannot take every
 * place.
 */
static void open_admission(struct executor *ex)
{
    const struct config *cfg = ex->cfg;
    int64_t memory = memory_limit_bytes("");
    size_t places = cfg->max_kernels ? (size_t)cfg->max_kernels :
                                       (size_t)MAX_OF(4, 4 * sysconf(_SC_NPROCESSORS_ONLN));
    size_t ingests = MIN_OF(places, INGESTS_MAX);
    struct admission_limits limits = {
        .places = { [PLACE_SQL] = places, [PLACE_PYTHON] = places, [PLACE_INGEST] = ingests },
        .owner_places = { [PLACE_SQL] = places - places / 8,
                          [PLACE_PYTHON] = places - places / 8,
                          [PLACE_INGEST] = MAX_OF(1, ingests - 1) },
        .memory_bytes = memory > 0 ? memory / 5 * 4 : INT64_MAX / 2,
        .queue_max = (size_t)cfg->queue_max,
    };
    admission_init(&ex->admission, &limits);
}

void executor_set_engine(struct executor *ex, const struct sql_engine *engine)
{
    ex->engine = *engine;
}

void executor_on_shortage(struct executor *ex, bool (*fn)(void *arg), void *arg)
{
    ex->make_room = fn;
    ex->make_room_arg = arg;
}

static void on_closed(void *arg)
{
    struct executor *ex = arg;
    ex->closed = true;
}

/* Everything in the loop that is ours ends by itself. */
static void close_all(struct executor *ex)
{
    ex->closing = true;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        while (ex->n_pool[kind] > 0)
            ex->provider->ops->release(ex->pool[kind][--ex->n_pool[kind]]);
    if (ex->provider->ops->cancel_spawns)
        ex->provider->ops->cancel_spawns(ex->provider);
    while (ex->is_spawning[RUN_SQL] || ex->is_spawning[RUN_PYTHON] || ex->n_hashing > 0 ||
           ex->tables.n_ending > 0)
        uv_run(ex->loop, UV_RUN_ONCE);
    ex->provider->ops->close(ex->provider, on_closed, ex);
    while (!ex->closed)
        uv_run(ex->loop, UV_RUN_ONCE);
    tables_settle(&ex->tables);
    uv_close((uv_handle_t *)&ex->sweep, NULL);
    uv_close((uv_handle_t *)&ex->refill, NULL);
    uv_close((uv_handle_t *)&ex->kick, NULL);
    uv_run(ex->loop, UV_RUN_NOWAIT);
    free(ex);
}

static unsigned starts(const struct executor *ex)
{
    unsigned sum = 0;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++) {
        struct kernel_health h;
        executor_health(ex, (enum run_kind)kind, &h);
        sum += h.starts;
    }
    return sum;
}

/*
 * A kernel of SQL is started in no time and shows that sandboxes can be had here; Python's start
 * while the server serves.
 */
static int wait_for_first(struct executor *ex, struct err *err)
{
    size_t pool_size = (size_t)ex->cfg->pool_size;
    executor_fill_pool(ex);
    if (pool_size == 0) { /* nothing fills the pool by itself */
        struct spawn_spec spec = { .kind = RUN_SQL };
        struct spawning *s = calloc(1, sizeof(*s));
        if (!s)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        *s = (struct spawning){ .ex = ex, .kind = RUN_SQL };
        sandbox_limits_default(ex->cfg, &spec.limits);
        ex->is_spawning[RUN_SQL] = true;
        int r = ex->provider->ops->spawn(ex->provider, &spec, on_spawned, s, err);
        if (r < 0) {
            ex->is_spawning[RUN_SQL] = false;
            free(s);
            return r;
        }
    }
    while (ex->n_pool[RUN_SQL] == 0 && ex->first.code == ERR_NONE)
        uv_run(ex->loop, UV_RUN_ONCE);
    if (ex->n_pool[RUN_SQL] == 0) {
        *err = ex->first;
        return -(int)err->code;
    }
    return 0;
}

int executor_create(uv_loop_t *loop, const struct config *cfg, const struct executor_options *opt,
                    struct executor **ret, struct err *err)
{
    const struct provider_ops *ops = opt && opt->provider ?
                                         opt->provider :
                                         provider_find(cfg->sandbox_provider, err);
    struct executor *ex = ops ? calloc(1, sizeof(*ex)) : NULL;
    if (!ex)
        return ops ? err_set(err, ERR_NO_MEMORY, "out of memory") : -(int)err->code;
    struct provider_options options = { 0 };
    if (opt)
        options = (struct provider_options){ .one_shot = opt->one_shot,
                                             .kind = opt->kind,
                                             .code = opt->code };
    ex->loop = loop;
    ex->cfg = cfg;
    ex->one_shot = options.one_shot;
    open_admission(ex);
    int r = tables_open(&ex->tables, loop, cfg, ex->one_shot, err);
    if (r == 0)
        r = ops->open(loop, cfg, &options, &ex->provider, err);
    if (r < 0) {
        free(ex);
        return r;
    }
    idle_cache_init(&ex->idle, (size_t)cfg->idle_kernels);
    uv_timer_init(loop, &ex->sweep);
    ex->sweep.data = ex;
    uv_timer_start(&ex->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_unref((uv_handle_t *)&ex->sweep);
    uv_timer_init(loop, &ex->refill);
    ex->refill.data = ex;
    uv_idle_init(loop, &ex->kick);
    ex->kick.data = ex;
    if (!ex->one_shot && !(opt && opt->lazy))
        r = wait_for_first(ex, err);
    if (r < 0) {
        close_all(ex);
        return r;
    }
    ex->first_starts = _RUN_KIND_MAX; /* one for each kind is no restart */
    *ret = ex;
    return 0;
}

/* Whoever waits for a lease or for a result is told that nothing will come of it. */
static void tell_the_end(struct lease *l)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_CANCELLED, "the server is shutting down");
    if (l->state < LEASE_IDLE) {
        lease_fail(l, &err);
    } else if (l->state == LEASE_RUNNING || l->state == LEASE_RESUMING) {
        lease_stop_engine(l);
        sandbox_destroy(TAKE_PTR(l->sandbox));
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
        sandbox_destroy(sb);
    close_all(ex);
}

void executor_stats(const struct executor *ex, struct executor_stats *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (const struct lease *l = ex->all; l; l = l->next) {
        ret->loading += l->state > LEASE_QUEUED && l->state < LEASE_IDLE;
        ret->running += l->state >= LEASE_RESUMING;
        ret->idle += l->state == LEASE_IDLE;
    }
    ret->idle += ex->idle.n;
    ret->parked = ex->admission.parked;
    for (int p = 0; p < _PLACE_MAX; p++) {
        ret->queued += ex->admission.waiting[p];
        ret->held_bytes += ex->admission.held[p];
    }
    ret->places = ex->admission.limits.places[PLACE_SQL] +
                  ex->admission.limits.places[PLACE_PYTHON];
    ret->memory_bytes = ex->admission.limits.memory_bytes;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        ret->pooled += ex->n_pool[kind];
    memcpy(ret->runs, ex->runs, sizeof(ret->runs));
    unsigned n = starts(ex);
    ret->zygote_restarts = n > ex->first_starts ? n - ex->first_starts : 0;
    ret->caps = ex->provider->ops->caps;
    ret->refused = ex->admission.refused;
}

void executor_health(const struct executor *ex, enum run_kind kind, struct kernel_health *ret)
{
    *ret = (struct kernel_health){ .err = ERR_INIT };
    ex->provider->ops->health(ex->provider, kind, ret);
}

bool executor_ready(const struct executor *ex)
{
    bool good = !ex->closing;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++) {
        struct kernel_health h;
        executor_health(ex, (enum run_kind)kind, &h);
        good = good && h.err.code == ERR_NONE;
    }
    return good;
}
