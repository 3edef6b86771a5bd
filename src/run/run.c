/*
 * The life of a run: QUEUED → LOADING (only if something is ingested) → RUNNING → STORING → gone.
 */

#include "run/run.h"

#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "plan/sql_names.h"
#include "run/capsule.h"
#include "run/figures.h"
#include "run/outcome.h"
#include "run/queries.h"
#include "run/sandbox_terms.h"

#define RUN_ARENA_BYTES (32u << 20)

enum phase { RUN_QUEUED, RUN_LOADING, RUN_RUNNING, RUN_STORING };

struct run {
    struct runs *runs;
    struct run *next, *prev;
    struct arena arena;
    char id[ID_UUID_SIZE];
    char created_at[CLOCK_ISO_SIZE];
    struct run_spec spec;
    json_t *plan;
    struct run_listener listener;
    bool dropped, cancelled;
    enum phase phase;
    struct lease *lease;
    struct lease_times times;
    int64_t begun_us;
    const char *status;
    json_t *result, *timings;
    struct figures *figures; /* NULL until there is one */
    struct answer *answer;   /* to what its code asks */
    int64_t deadline_ms;
    bool stored;
};

const char *run_id(const struct run *run)
{
    return run->id;
}

const char *run_phase(const struct run *run)
{
    static const char *const names[] = { "queued", "loading", "running", "running" };
    return names[run->phase];
}

static void unlink_run(struct run *run)
{
    if (run->prev)
        run->prev->next = run->next;
    else if (run->runs->all == run)
        run->runs->all = run->next;
    if (run->next)
        run->next->prev = run->prev;
    run->next = run->prev = NULL;
}

static void run_free(struct run *run)
{
    unlink_run(run);
    answer_drop(&run->answer);
    lease_release(run->lease);
    figures_end(run->figures, run->stored);
    if (run->spec.release)
        run->spec.release(run->spec.held);
    json_decref(run->plan);
    json_decref((json_t *)run->spec.request.context);
    json_discard(run->result);
    json_decref(run->timings);
    arena_finish(&run->arena);
    free(run);
}

static void enter_phase(struct run *run, enum phase phase, const char *name)
{
    run->phase = phase;
    if (!run->dropped && run->listener.phase)
        run->listener.phase(run->listener.arg, name);
}

/* ran: as the report has it. */
static void finish_run(struct run *run, struct run_result *ran, const struct err *err)
{
    const struct run_report report = { .run_id = run->id,
                                       .spec = &run->spec,
                                       .status = run->status,
                                       .result = run->result,
                                       .timings = run->timings,
                                       .ran = ran };
    if (!run->dropped)
        run->listener.done(run->listener.arg, err ? NULL : &report, err);
    run_free(run);
}

/* ---- the end ---- */

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct run *run = arg;
    if (err)
        log_error("run.store", LOG_STR("run", run->id), LOG_STR("error", err->message));
    run->stored = !err;
    finish_run(run, NULL, err);
}

static int store_run(struct run *run, const struct run_result *res, struct err *err)
{
    auto_json json_t *usage = capsule_usage(res);
    const struct run_spec *s = &run->spec;
    const struct capsule_spec capsule = {
        .run_id = run->id,
        .owner = s->owner,
        .created_at = run->created_at,
        .dataset_id = s->dataset_id,
        .dataset_version_hash = s->dataset_version_hash,
        .query_mode = s->query_mode,
        .replay_of = s->replay_of,
        .question = s->question,
        .status = run->status,
        .sql = s->sql,
        .python = s->python,
        .plan = s->plan,
        .request = &s->request,
        .limits = &s->limits,
        .result = run->result,
        .timings = run->timings,
        .usage = usage,
    };
    return capsule_store(run->runs->store, &capsule, NULL, 0, on_stored, run, err);
}

/* The sandbox has done its part. */
static void complete(struct run *run, struct run_result *res)
{
    const struct outcome_of of = { .request = &run->spec.request,
                                   .limits = &run->spec.limits,
                                   .cancelled = run->cancelled };
    struct err err = ERR_INIT;
    run->status = outcome_status(&of, res->verdict);
    run->result = outcome_result(&of, res);
    run->timings = capsule_timings(&run->times, res);
    metric_observe(
        metric_series(run->runs->seconds, run->spec.query_mode, verdict_name(res->verdict)),
        (double)(clock_now_us() - run->begun_us) / 1e6);
    run->phase = RUN_STORING;
    int r = 0;
    if (!run->result || !run->timings)
        r = err_set(&err, ERR_NO_MEMORY, "out of memory");
    else if (run->runs->store)
        r = store_run(run, res, &err);
    if (r < 0 || !run->runs->store)
        finish_run(run, res, r < 0 ? &err : NULL);
}

/* ---- the sandbox ---- */

static void on_ran(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    struct run *run = arg;
    answer_drop(&run->answer);
    /* The end of its kernel would compete with the answer for processors; it comes after that. */
    if (run->listener.ended && !run->dropped)
        run->listener.ended(run->listener.arg, TAKE_PTR(run->lease));
    else if (lease_is_awaited(lease))
        lease_release(TAKE_PTR(run->lease));
    if (err && run->cancelled) {
        /*
         * The interrupt came while the kernel was still setting itself up: a broken sandbox, but
         * what was asked for.
         */
        struct run_result nothing = { .verdict = VERDICT_KILLED };
        complete(run, &nothing);
        return;
    }
    if (err) {
        log_error("run.sandbox", LOG_STR("run", run->id), LOG_STR("error", err->message));
        finish_run(run, NULL, err);
        return;
    }
    if (run->figures) {
        json_decref(result->displays);
        result->displays = json_incref(figures_list(run->figures));
    }
    complete(run, result);
    run_result_finish(result);
}

static void on_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    struct run *run = arg;
    if (!run->dropped && run->listener.output)
        run->listener.output(run->listener.arg, is_stderr, text, len);
}

static bool on_display(void *arg, const json_t *data)
{
    struct run *run = arg;
    bool slow = !run->dropped && run->listener.is_slow && run->listener.is_slow(run->listener.arg);
    if (!run->figures)
        run->figures = figures_begin(run->runs->figures, run->spec.owner, run->id);
    json_t *shown = run->figures ? figures_take(run->figures, data, slow) : NULL;
    if (shown && !run->dropped && run->listener.display)
        run->listener.display(run->listener.arg, shown);
    return true;
}

static bool on_ask(void *arg, uint32_t id, const char *what, const json_t *args)
{
    struct run *run = arg;
    const struct answer_context context = { .queries = run->runs->queries,
                                            .origin = { .owner = run->spec.owner,
                                                        .run_id = run->id },
                                            .database = run->spec.database,
                                            .lease = run->lease,
                                            .deadline_ms = run->deadline_ms };
    if (answer_begin(&run->answer, &context, id, what, args))
        return true;
    return run->listener.ask && !run->dropped &&
           run->listener.ask(run->listener.arg, run->lease, id, what, args);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct run *run = arg;
    if (run->phase == RUN_QUEUED)
        enter_phase(run, RUN_LOADING, "loading");
    if (!run->dropped && run->listener.progress)
        run->listener.progress(run->listener.arg, stage, fraction);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct run *run = arg;
    struct err why = ERR_INIT;
    if (err) {
        run->lease = NULL;
        finish_run(run, NULL, err);
        return;
    }
    lease_times(lease, &run->times);
    struct run_events events = {
        .output = on_output, .display = on_display, .ask = on_ask, .arg = run
    };
    run->deadline_ms = clock_now_ms() + run->spec.request.timeout_ms;
    enter_phase(run, RUN_RUNNING, "executing");
    if (!run->dropped && run->listener.begun)
        run->listener.begun(run->listener.arg, lease);
    if (lease_run(lease, &run->spec.request, &events, on_ran, run, &why) < 0)
        finish_run(run, NULL, &why);
}

void run_cancel(struct run *run)
{
    run->cancelled = true;
    if (run->phase == RUN_RUNNING) {
        lease_interrupt(run->lease);
    } else if (run->phase == RUN_QUEUED || run->phase == RUN_LOADING) {
        /* It need not wait for a kernel to be told that it is not to run. */
        struct run_result nothing = { .verdict = VERDICT_KILLED };
        lease_times(run->lease, &run->times);
        lease_release(TAKE_PTR(run->lease));
        complete(run, &nothing);
    }
}

void run_drop(struct run *run)
{
    run->dropped = true;
    if (run->phase == RUN_QUEUED || run->phase == RUN_LOADING)
        run_free(run); /* nothing ran: there is nothing to keep */
    else
        run_cancel(run);
}

void runs_abandon(struct runs *runs)
{
    while (runs->all) {
        struct run *run = runs->all;
        if (run->phase != RUN_STORING) {
            run_free(run);
            continue;
        }
        lease_release(TAKE_PTR(run->lease));
        run->dropped = true; /* the store still calls back, and that frees it */
        unlink_run(run);
    }
}

struct run *run_find(const struct runs *runs, const char *owner, const char *id)
{
    for (struct run *run = runs->all; run; run = run->next)
        if (str_eq(run->id, id) && str_eq(run->spec.owner, owner))
            return run;
    return NULL;
}

/* ---- starting ---- */

static int refuse(struct run *run, const struct err *why, struct err *err)
{
    const struct outcome_of of = { .request = &run->spec.request, .limits = &run->spec.limits };
    const struct run_result nothing = { .verdict = VERDICT_POLICY };
    run->status = outcome_status(&of, nothing.verdict);
    run->result = outcome_result(&of, &nothing);
    run->timings = capsule_timings(&run->times, &nothing);
    if (!run->result || !run->timings)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    json_object_set_new(run->result, "error", json_error(why));
    run->phase = RUN_STORING;
    return store_run(run, &nothing, err);
}

const char *run_plain_sql(struct arena *arena, const char *dataset_id,
                          const struct sandbox_file *files, size_t n_files, const char *sql)
{
    auto_buf struct buf plain = BUF_INIT(CODE_MAX_BYTES + 1);
    const char **tables = arena_alloc(arena, (n_files + 1) * sizeof(*tables));
    struct sql_policy names = { .dataset_id = dataset_id, .tables = tables };
    struct err err = ERR_INIT;
    if (!tables)
        return NULL;
    for (size_t i = 0; i < n_files; i++)
        if (files[i].table)
            tables[names.n_tables++] = files[i].table;
    if (strlen(sql) > CODE_MAX_BYTES) /* which is refused as it came */
        return sql;
    return sql_plain_names(&names, sql, &plain, &err) < 0 ? NULL :
                                                            arena_strdup(arena, buf_cstr(&plain));
}

static int copy_spec(struct run *run, const struct run_spec *spec, struct err *err)
{
    struct run_spec *s = &run->spec;
    const char **const texts[] = { &s->owner,      &s->dataset_id, &s->dataset_version_hash,
                                   &s->query_mode, &s->sql,        &s->python,
                                   &s->question,   &s->replay_of,  &s->database };
    *s = *spec;
    s->release = NULL; /* until it has started */
    json_incref((json_t *)s->request.context);
    if (spec->terms) {
        s->limits = spec->terms->limits;
        s->request.policy = spec->terms->policy;
    }
    s->terms = NULL;
    s->refused = NULL;
    s->plan = run->plan = json_deep_copy(spec->plan);
    bool copied = run->plan || !spec->plan;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (*texts[i])
            copied = (*texts[i] = arena_strdup(&run->arena, *texts[i])) && copied;
    if (copied && s->sql && !s->database)
        copied = (s->sql = run_plain_sql(&run->arena, s->dataset_id, spec->files, spec->n_files,
                                         s->sql));
    if (!copied)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    s->request.kind = s->python ? RUN_PYTHON : RUN_SQL;
    s->request.code = s->python ? s->python : s->sql;
    s->request.code_len = strlen(s->request.code);
    s->request.run_id = run->id;
    if (s->request.code_len > CODE_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu bytes; at most %u are taken",
                       s->request.code_len, CODE_MAX_BYTES);
    return 0;
}

int run_start(struct runs *runs, const struct run_spec *spec, const struct run_listener *listener,
              struct run **ret, struct err *err)
{
    struct run *run = calloc(1, sizeof(*run));
    if (!run)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&run->arena, RUN_ARENA_BYTES);
    run->runs = runs;
    run->listener = *listener;
    run->begun_us = clock_now_us();
    id_uuid4(run->id);
    clock_iso8601(clock_wall_ms(), run->created_at);
    run->next = runs->all;
    if (runs->all)
        runs->all->prev = run;
    runs->all = run;
    int r = copy_spec(run, spec, err);
    struct sandbox_spec sandbox = { .kind = run->spec.request.kind,
                                    .dataset_id = run->spec.dataset_id,
                                    .database = run->spec.database,
                                    .files = spec->files,
                                    .n_files = spec->n_files,
                                    .limits = spec->limits,
                                    .refusable = true };
    if (spec->terms)
        sandbox_terms_apply(spec->terms, &sandbox);
    struct run_events events = { .progress = on_progress, .arg = run };
    if (r == 0 && spec->refused)
        r = refuse(run, spec->refused, err);
    else if (r == 0)
        r = executor_acquire(runs->executor, run->spec.owner, &sandbox, &events, on_ready, run,
                             &run->lease, err);
    if (r < 0) {
        run_free(run);
        return r;
    }
    run->spec.release = spec->release;
    *ret = run;
    return 0;
}
