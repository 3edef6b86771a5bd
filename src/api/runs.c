/*
 * Runs. Life of one: checked and compiled here → a lease of a sandbox (waiting in the executor's queue, ingesting what is new) → the
 * code runs → the capsule is stored → the answer. A capsule is stored before anybody is told the result: what was acknowledged
 * is kept.
 */

#include "api/runs.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "plan/compile.h"
#include "plan/query_plan.h"
#include "run/capsule.h"
#include "run/outcome.h"

#define RUN_ARENA_BYTES (32u << 20)

struct run {
    struct app *app;
    struct run *next, *prev;
    struct arena arena;
    char id[ID_UUID_SIZE];
    char created_at[CLOCK_ISO_SIZE];
    struct run_spec spec;
    struct dataset_handle dataset;
    char *compiled_sql; /* what runs when it is no Python */
    struct run_request request;
    struct sandbox_limits limits;
    json_t *plan;
    struct run_listener listener;
    bool dropped, cancelled;
    enum run_phase phase;
    struct lease *lease;
    struct lease_times times;
    int64_t begun_us;
    json_t *response;
};

static const char *const phase_names[_RUN_PHASE_MAX] = { "queued", "loading", "running", "running" };

const char *run_phase_name(enum run_phase p)
{
    return phase_names[p];
}

const char *run_id(const struct run *run)
{
    return run->id;
}

static void run_free(struct run *run)
{
    if (run->prev)
        run->prev->next = run->next;
    else if (run->app->runs == run)
        run->app->runs = run->next;
    if (run->next)
        run->next->prev = run->prev;
    lease_release(run->lease);
    dataset_handle_release(&run->dataset);
    json_decref(run->plan);
    json_decref(run->response);
    arena_finish(&run->arena);
    free(run);
}

static void enter_phase(struct run *run, enum run_phase phase)
{
    run->phase = phase;
    if (!run->dropped && run->listener.phase)
        run->listener.phase(run->listener.arg, phase == RUN_RUNNING ? "executing" : run_phase_name(phase));
}

static void finish_run(struct run *run, const struct err *err)
{
    if (!run->dropped)
        run->listener.done(run->listener.arg, err ? NULL : run->response, err);
    run_free(run);
}

/* ---- the answer and its capsule ---- */

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct run *run = arg;
    if (err)
        log_error("run.store", LOG_STR("run", run->id), LOG_STR("error", err->message));
    finish_run(run, err);
}

static int store_run(struct run *run, const struct run_result *res, const char *status, struct err *err)
{
    auto_json json_t *timings = capsule_timings(&run->times, res), *usage = capsule_usage(res);
    json_object_set(json_object_get(run->response, "details"), "timings_ms", timings);
    const struct capsule_spec spec = {
        .run_id = run->id,
        .owner = run->spec.owner,
        .created_at = run->created_at,
        .dataset_id = run->spec.dataset_id,
        .dataset_version_hash = run->dataset.dataset->version_hash,
        .query_mode = run->spec.query_type,
        .replay_of = run->spec.replay_of,
        .question = run->spec.question,
        .status = status,
        .sql = run->compiled_sql,
        .python = run->spec.python_code,
        .plan = run->plan,
        .request = &run->request,
        .limits = &run->limits,
        .result = json_object_get(run->response, "result"),
        .timings = timings,
        .usage = usage,
    };
    return capsule_store(run->app->store, &spec, NULL, 0, on_stored, run, err);
}

/* The sandbox has done its part. */
static void complete(struct run *run, const struct run_result *res)
{
    const struct outcome_of of = { .request = &run->request, .limits = &run->limits, .cancelled = run->cancelled };
    const char *status = outcome_status(&of, res->verdict);
    struct err err = ERR_INIT;
    run->response = json_pack("{s:s, s:s, s:n, s:s, s:o, s:{s:s, s:s, s:O?, s:s?, s:s?}}", "assistant_message",
                              "Run submitted and executed.", "run_id", run->id, "thread_id", "status", status, "result",
                              outcome_result(&of, res), "details", "dataset_id", run->spec.dataset_id, "query_mode",
                              run->spec.query_type, "plan_json", run->plan, "compiled_sql", run->compiled_sql, "python_code",
                              run->spec.python_code);
    int r = run->response ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    metric_observe(metric_series(run->app->run_seconds, run->spec.query_type, verdict_name(res->verdict)),
                   (double)(clock_now_us() - run->begun_us) / 1e6);
    run->phase = RUN_STORING;
    if (r == 0)
        r = store_run(run, res, status, &err);
    if (r < 0)
        finish_run(run, &err);
}

/* ---- the sandbox ---- */

static void on_ran(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    (void)lease;
    struct run *run = arg;
    lease_release(run->lease);
    run->lease = NULL;
    if (err && run->cancelled) {
        /* The interrupt came while the kernel was still setting itself up: a broken sandbox, but what was asked for. */
        struct run_result nothing = { .verdict = VERDICT_KILLED };
        complete(run, &nothing);
        return;
    }
    if (err) {
        log_error("run.sandbox", LOG_STR("run", run->id), LOG_STR("error", err->message));
        finish_run(run, err);
        return;
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

static void on_display(void *arg, const json_t *data)
{
    struct run *run = arg;
    if (!run->dropped && run->listener.display)
        run->listener.display(run->listener.arg, data);
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct run *run = arg;
    if (run->phase == RUN_QUEUED)
        enter_phase(run, RUN_LOADING);
    if (!run->dropped && run->listener.progress)
        run->listener.progress(run->listener.arg, stage, fraction);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct run *run = arg;
    struct err why = ERR_INIT;
    if (err) {
        run->lease = NULL;
        finish_run(run, err);
        return;
    }
    lease_times(lease, &run->times);
    struct run_events events = { .output = on_output, .display = on_display, .arg = run };
    enter_phase(run, RUN_RUNNING);
    if (lease_run(lease, &run->request, &events, on_ran, run, &why) < 0)
        finish_run(run, &why);
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

void run_abandon(struct run *run)
{
    if (run->phase != RUN_STORING) {
        run_free(run);
        return;
    }
    /* The store still calls back; until then it is nobody's. */
    run->dropped = true;
    if (run->next)
        run->next->prev = run->prev;
    if (run->prev)
        run->prev->next = run->next;
    else
        run->app->runs = run->next;
    run->next = run->prev = NULL;
}

/* ---- starting ---- */

static char *keep(struct run *run, const char *s)
{
    return s ? arena_strdup(&run->arena, s) : NULL;
}

/* The dataset's schema as plans are checked against it; NULL while nothing is known about its columns. */
static int plan_schema_of(const struct dataset *d, struct arena *a, struct plan_schema **ret, struct err *err)
{
    *ret = NULL;
    for (size_t i = 0; i < d->n_files; i++)
        if (!d->files[i].schema && !d->files[i].profile)
            return 0;
    auto_json json_t *schema = dataset_schema_json(d);
    return plan_schema_parse(schema, NULL, a, ret, err);
}

int app_compile_plan(const struct dataset *d, const json_t *plan, struct arena *a, struct buf *ret_sql, struct err *err)
{
    struct query_plan *parsed;
    struct plan_schema *schema;
    int r = plan_parse(plan, a, &parsed, err);
    if (r == 0 && d && !str_eq(parsed->dataset_id, d->id))
        r = err_set(err, ERR_VALIDATION, "the plan is for dataset '%s', the request for '%s'", parsed->dataset_id, d->id);
    if (r == 0)
        r = d ? plan_schema_of(d, a, &schema, err) : (schema = NULL, 0);
    if (r == 0)
        r = plan_check(parsed, schema, err);
    if (r == 0)
        r = plan_compile(parsed, schema, ret_sql, err);
    return r;
}

static int check_spec(struct run *run, struct err *err)
{
    struct run_spec *s = &run->spec;
    const char *code = NULL;
    if (str_eq(s->query_type, "sql")) {
        code = s->sql;
        if (!code || !*code)
            return err_set(err, ERR_VALIDATION, "sql is required for query_type=sql");
        run->compiled_sql = (char *)s->sql;
        s->python_code = NULL;
    } else if (str_eq(s->query_type, "python")) {
        code = s->python_code;
        if (!code || !*code)
            return err_set(err, ERR_VALIDATION, "python_code is required for query_type=python");
        if (!run->app->cfg->enable_python)
            return err_set(err, ERR_FORBIDDEN, "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
    } else {
        if (!run->plan || json_is_null(run->plan))
            return err_set(err, ERR_VALIDATION, "plan_json is required for query_type=plan");
        auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
        int r = app_compile_plan(run->dataset.dataset, run->plan, &run->arena, &sql, err);
        if (r < 0)
            return r;
        run->compiled_sql = arena_strdup(&run->arena, buf_cstr(&sql));
        s->python_code = NULL;
        code = run->compiled_sql;
    }
    if (!code)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (strlen(code) > CODE_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu bytes; at most %u are taken", strlen(code), CODE_MAX_BYTES);
    sandbox_limits_default(run->app->cfg, &run->limits);
    run->request = (struct run_request){
        .kind = s->python_code ? RUN_PYTHON : RUN_SQL,
        .code = code,
        .code_len = strlen(code),
        .policy = s->policy,
        .timeout_ms = s->timeout_ms,
        .max_rows = s->max_rows,
        .max_output_bytes = s->max_output_bytes,
    };
    return 0;
}

static int acquire(struct run *run, struct err *err)
{
    const struct dataset *d = run->dataset.dataset;
    struct sandbox_file *files = arena_alloc(&run->arena, (d->n_files + 1) * sizeof(*files));
    if (!files)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < d->n_files; i++)
        files[i] = (struct sandbox_file){ .name = d->files[i].name, .path = d->files[i].full_path, .table = d->files[i].table,
                                          .sha256 = d->files[i].sha256 };
    struct sandbox_spec spec = { .kind = run->request.kind, .dataset_id = d->id, .files = files, .n_files = d->n_files,
                                 .limits = run->limits };
    struct run_events events = { .progress = on_progress, .arg = run };
    return executor_acquire(run->app->executor, run->spec.owner, &spec, &events, on_ready, run, &run->lease, err);
}

int run_start(struct app *app, const struct run_spec *spec, const struct run_listener *listener, struct run **ret,
              struct err *err)
{
    struct run *run = calloc(1, sizeof(*run));
    if (!run)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&run->arena, RUN_ARENA_BYTES);
    run->app = app;
    run->listener = *listener;
    run->begun_us = clock_now_us();
    id_uuid4(run->id);
    clock_iso8601(clock_wall_ms(), run->created_at);
    run->spec = *spec;
    run->spec.owner = keep(run, spec->owner);
    run->spec.dataset_id = keep(run, spec->dataset_id);
    run->spec.query_type = keep(run, spec->query_type);
    run->spec.sql = keep(run, spec->sql);
    run->spec.python_code = keep(run, spec->python_code);
    run->spec.question = keep(run, spec->question);
    run->spec.replay_of = keep(run, spec->replay_of);
    run->plan = json_deep_copy(spec->plan);
    run->next = app->runs;
    if (app->runs)
        app->runs->prev = run;
    app->runs = run;
    int r = app_find_dataset(app, run->spec.owner, run->spec.dataset_id, &run->dataset, err);
    if (r == 0)
        r = check_spec(run, err);
    if (r == 0)
        r = acquire(run, err);
    if (r < 0) {
        run_free(run);
        return r;
    }
    *ret = run;
    return 0;
}

struct run *run_in_flight(struct app *app, const char *owner, const char *id)
{
    for (struct run *run = app->runs; run; run = run->next)
        if (str_eq(run->id, id) && str_eq(run->spec.owner, owner))
            return run;
    return NULL;
}

enum run_phase run_phase_of(const struct run *run)
{
    return run->phase;
}
