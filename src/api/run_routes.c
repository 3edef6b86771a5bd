/*
 * /runs: start one and wait, start one and watch, look at what is kept, cancel what is under way.
 */

#include <stdio.h>
#include <string.h>
#include "api/app.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "net/sse.h"
#include "run/figures.h"

/* ---- what a request says ---- */

static const char *const query_types[] = { "sql", "plan", "python", NULL };
static const char *const policies[] = { "restricted", "open", NULL };
static const char *const statuses[] = { "succeeded", "failed",    "rejected",
                                        "timed_out", "cancelled", NULL };

static const struct schema_field run_fields[] = {
    SCHEMA_REQUIRED("dataset_id", STRING,
                    "A dataset of GET /datasets, or the `file_id` of an upload.",
                    SCHEMA_RANGE(1, 200), .example = "\"ecommerce\""),
    SCHEMA_FIELD("query_type", STRING, "What is to run.", .choices = query_types,
                 .dflt = "\"sql\""),
    SCHEMA_OPTIONAL("sql", STRING, "One SELECT or WITH; for query_type sql.",
                    .example = "\"SELECT count(*) AS n FROM orders\""),
    { .name = "python_code",
      .types = SCHEMA_STRING,
      .nullable = true,
      .doc =
          "A cell; its result is `result_df`, `result_rows`, `result`, `__result__` or the last expression. For query_type python." },
    SCHEMA_OPTIONAL("plan_json", OBJECT, "A QueryPlan; for query_type plan."),
    SCHEMA_OPTIONAL("question", STRING, "Kept with the run.", SCHEMA_MAX(10000)),
    SCHEMA_OPTIONAL("timeout_seconds", INTEGER, "Wall time; RUN_TIMEOUT_SECONDS when missing.",
                    SCHEMA_RANGE(1, RUN_TIMEOUT_MAX_S)),
    SCHEMA_OPTIONAL("max_rows", INTEGER,
                    "Rows of the result; more set `truncated`. MAX_ROWS when missing.",
                    SCHEMA_RANGE(1, RUN_ROWS_MAX)),
    SCHEMA_OPTIONAL("max_output_bytes", INTEGER,
                    "Bytes of stdout, of stderr and of the rows. MAX_OUTPUT_BYTES when missing.",
                    SCHEMA_RANGE(RUN_OUTPUT_MIN, RUN_OUTPUT_MAX)),
    { .name = "python_policy",
      .types = SCHEMA_STRING,
      .choices = policies,
      .dflt = "\"restricted\"",
      .doc =
          "`restricted` allows a list of modules, `open` whatever is installed; the jail holds either way." },
    { .name = NULL },
};
static const struct schema run_schema = {
    .name = "RunRequest",
    .doc = "SQL, a plan or Python to run on a dataset.",
    .fields = run_fields,
    .example = "{\"dataset_id\":\"ecommerce\",\"query_type\":\"sql\",\"sql\":\"SELECT status, "
               "count(*) AS n FROM orders GROUP BY status\"}"
};

/* ---- starting ---- */

static void release_dataset(void *held)
{
    dataset_handle_release(held);
    free(held);
}

/* What is to run: SQL as it came or compiled from a plan, or Python. */
static int take_code(struct http_request *req, const struct dataset_handle *h, struct buf *sql,
                     struct run_spec *ret, struct err *err)
{
    const json_t *body = http_body_json(req), *plan = json_object_get(body, "plan_json");
    const char *type = json_string_value(json_object_get(body, "query_type"));
    ret->query_mode = type;
    if (str_eq(type, "sql")) {
        ret->sql = json_string_value(json_object_get(body, "sql"));
        return ret->sql && *ret->sql ?
                   0 :
                   err_set(err, ERR_VALIDATION, "sql is required for query_type=sql");
    }
    if (str_eq(type, "python")) {
        ret->python = json_string_value(json_object_get(body, "python_code"));
        if (!ret->python || !*ret->python)
            return err_set(err, ERR_VALIDATION, "python_code is required for query_type=python");
        return 0;
    }
    if (!plan || json_is_null(plan))
        return err_set(err, ERR_VALIDATION, "plan_json is required for query_type=plan");
    ret->plan = plan;
    int r = app_compile_plan(h, plan, http_arena(req), sql, err);
    ret->sql = buf_cstr(sql);
    return r;
}

/* Checks everything that can be checked at once: NOT_FOUND, VALIDATION, UNAVAILABLE. */
static int start_run(struct http_request *req, const struct run_listener *listener,
                     struct run **ret, struct err *err)
{
    struct app *app = app_of(req);
    const struct config *cfg = app->cfg;
    const json_t *body = http_body_json(req);
    long long seconds, rows, bytes;
    int r = json_get_i64(body, "timeout_seconds", cfg->run_timeout_s, 1, RUN_TIMEOUT_MAX_S,
                         &seconds, err);
    if (r == 0)
        r = json_get_i64(body, "max_rows", cfg->max_rows, 1, RUN_ROWS_MAX, &rows, err);
    if (r == 0)
        r = json_get_i64(body, "max_output_bytes", cfg->max_output_bytes, RUN_OUTPUT_MIN,
                         RUN_OUTPUT_MAX, &bytes, err);
    if (r < 0)
        return r;
    struct dataset_handle *held = calloc(1, sizeof(*held));
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    struct sandbox_file *files = NULL;
    struct run_spec spec = {
        .owner = http_owner(req),
        .dataset_id = json_string_value(json_object_get(body, "dataset_id")),
        .question = json_string_value(json_object_get(body, "question")),
        .request = { .policy = str_eq(json_string_value(json_object_get(body, "python_policy")),
                                      "open") ?
                                   POLICY_OPEN :
                                   POLICY_RESTRICTED,
                     .timeout_ms = seconds * 1000,
                     .max_rows = rows,
                     .max_output_bytes = bytes },
        .release = release_dataset,
        .held = held,
    };
    sandbox_limits_default(cfg, &spec.limits);
    r = held ? data_find(app->data, spec.owner, spec.dataset_id, held, err) :
               err_set(err, ERR_NO_MEMORY, "out of memory");
    const struct dataset *d = r == 0 ? held->dataset : NULL;
    if (d && !(files = arena_alloc(http_arena(req), (d->n_files + 1) * sizeof(*files))))
        r = err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; r == 0 && i < dataset_handle_n_files(held); i++)
        files[i] = dataset_handle_file(held, i);
    if (r == 0)
        r = take_code(req, held, &sql, &spec, err);
    struct err off = ERR_INIT;
    if (r == 0 && spec.python && !cfg->enable_python) {
        err_set(&off, ERR_FEATURE_DISABLED,
                "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
        spec.refused = &off;
    }
    if (r == 0) {
        spec.dataset_version_hash = d->version_hash;
        spec.files = files;
        spec.n_files = dataset_handle_n_files(held);
        spec.database = dataset_handle_database(held);
        r = run_start(&app->runs, &spec, listener, ret, err);
    }
    if (r < 0 && held)
        release_dataset(held);
    return r;
}

static json_t *response_json(const struct run_report *r)
{
    const struct run_spec *s = r->spec;
    return json_pack("{s:s, s:s, s:n, s:s, s:O, s:{s:s, s:s, s:O?, s:s?, s:s?, s:O}}",
                     "assistant_message", "Run submitted and executed.", "run_id", r->run_id,
                     "thread_id", "status", r->status, "result", r->result, "details", "dataset_id",
                     s->dataset_id, "query_mode", s->query_mode, "plan_json", s->plan,
                     "compiled_sql", s->sql, "python_code", s->python, "timings_ms", r->timings);
}

static void reply_not_started(struct http_request *req, const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", err->message);
    else
        http_reply_error(req, err);
}

/* ---- POST /runs ---- */

/* One waiting client. Freed by done or by the client's leaving, whichever comes. */
struct waiter {
    struct http_request *req;
    struct run *run;
};

static void waiter_done(void *arg, const struct run_report *report, const struct err *err)
{
    struct waiter *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (err)
        reply_not_started(req, err);
    else
        http_reply_json(req, 200, response_json(report));
}

static void waiter_left(void *arg)
{
    struct waiter *w = arg;
    run_drop(w->run);
    free(w);
}

static void post_run(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiter *w = calloc(1, sizeof(*w));
    struct run_listener listener = { .done = waiter_done, .arg = w };
    int r = w ? start_run(req, &listener, &w->run, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(w);
        reply_not_started(req, &err);
        return;
    }
    w->req = req;
    http_defer(req, waiter_left, w);
}

/* ---- POST /runs/stream ---- */

struct watcher {
    struct sse *sse;
    struct run *run;
};

static void say(struct watcher *w, const char *event, json_t *data)
{
    struct err err = ERR_INIT;
    /* a client that does not read is told off by the stream itself */
    (void)sse_send(w->sse, event, data, &err);
}

static void watcher_phase(void *arg, const char *name)
{
    say(arg, "status", json_pack("{s:s}", "stage", name));
}

static void watcher_output(void *arg, bool is_stderr, const char *text, size_t len)
{
    struct watcher *w = arg;
    struct err err = ERR_INIT;
    json_t *step = json_pack("{s:s, s:o}", "stream", is_stderr ? "stderr" : "stdout", "text",
                             json_text(text, len));
    (void)sse_send_text(w->sse, "step", step, "text", NULL, &err);
}

static void watcher_display(void *arg, json_t *data)
{
    say(arg, "image", json_incref(data));
}

static bool watcher_is_slow(void *arg)
{
    return sse_is_full(((struct watcher *)arg)->sse);
}

static void watcher_progress(void *arg, const char *stage, double fraction)
{
    if (watcher_is_slow(arg))
        return; /* the next one says as much */
    say(arg, "status",
        json_pack("{s:s, s:s, s:f}", "stage", "loading", "what", stage, "progress", fraction));
}

static void watcher_done(void *arg, const struct run_report *report, const struct err *err)
{
    struct watcher *w = arg;
    if (err) {
        say(w, "error",
            json_pack("{s:s, s:s}", "error_type", err_name(err->code), "message", err->message));
        say(w, "done", json_object());
    } else {
        say(w, "result", response_json(report));
        say(w, "done", json_pack("{s:s}", "run_id", report->run_id));
    }
    sse_end(w->sse);
    free(w);
}

static void watcher_left(void *arg)
{
    struct watcher *w = arg;
    run_drop(w->run);
    free(w);
}

static void post_run_stream(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct watcher *w = calloc(1, sizeof(*w));
    struct run_listener listener = { .phase = watcher_phase,
                                     .output = watcher_output,
                                     .display = watcher_display,
                                     .is_slow = watcher_is_slow,
                                     .progress = watcher_progress,
                                     .done = watcher_done,
                                     .arg = w };
    /* No callback comes from within: the stream is there before the first one. */
    int r = w ? start_run(req, &listener, &w->run, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(w);
        reply_not_started(req, &err);
        return;
    }
    const char *id = run_id(w->run);
    w->sse = http_reply_sse(req);
    say(w, "status", json_pack("{s:s, s:s}", "stage", "queued", "run_id", id));
    sse_on_close(w->sse, watcher_left, w);
}

/* ---- what is kept ---- */

/* A request that waits for the store; gone says that the client left first. */
struct reading {
    struct http_request *req;
};

static struct reading *begin_reading(struct http_request *req)
{
    struct reading *rd = calloc(1, sizeof(*rd));
    if (rd)
        rd->req = req;
    return rd;
}

static int write_run(const struct store_query *query, struct store_page *page, struct err *err)
{
    (void)query;
    return record_json(RECORD_CAPSULE, &page->capsules[0], false, &page->text, err);
}

static void got_run(const struct err *err, const struct store_page *page, void *arg)
{
    struct reading *rd = arg;
    struct http_request *req = rd->req;
    free(rd);
    if (!req)
        return;
    if (err && err->code == ERR_NOT_FOUND) {
        http_reply_fail(req, ERR_NOT_FOUND, "Run not found");
        return;
    }
    reply_page(req, err, page);
}

/* Hands the request over to a read of the store, or answers why not. */
static void read_one(struct http_request *req, store_make_fn make, store_read_fn done)
{
    struct err err = ERR_INIT;
    struct reading *rd = begin_reading(req);
    int r = rd ? store_get_made(app_of(req)->store, RECORD_CAPSULE, http_owner(req),
                                http_param(req, "run_id"), make, done, rd, &err) :
                 err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(rd);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &rd->req);
}

static void get_run(struct http_request *req)
{
    read_one(req, write_run, got_run);
}

static json_t *status_json(const char *id, const char *status)
{
    return json_pack("{s:s, s:s}", "run_id", id, "status", status);
}

static void got_status(const struct err *err, const struct store_page *page, void *arg)
{
    struct reading *rd = arg;
    struct http_request *req = rd->req;
    free(rd);
    if (!req)
        return;
    if (err && err->code != ERR_NOT_FOUND)
        http_reply_error(req, err);
    else
        http_reply_json(
            req, 200,
            status_json(http_param(req, "run_id"), err ? "not_found" : page->capsules[0].status));
}

static void get_status(struct http_request *req)
{
    struct run *run = run_find(&app_of(req)->runs, http_owner(req), http_param(req, "run_id"));
    if (run)
        http_reply_json(req, 200, status_json(run_id(run), run_phase(run)));
    else
        read_one(req, NULL, got_status);
}

static int write_runs(const struct store_query *query, struct store_page *page, struct err *err)
{
    (void)query;
    return records_json(RECORD_CAPSULE, "{\"runs\":[", page, true, "next", &page->text, err);
}

static void got_runs(const struct err *err, const struct store_page *page, void *arg)
{
    struct reading *rd = arg;
    struct http_request *req = rd->req;
    free(rd);
    if (req)
        reply_page(req, err, page);
}

static void list_runs(struct http_request *req)
{
    struct err err = ERR_INIT;
    char since[CLOCK_ISO_SIZE], until[CLOCK_ISO_SIZE];
    const char *from = http_query(req, "since"), *to = http_query(req, "until");
    int r = from ? store_parse_time(from, since, &err) : 0;
    if (r == 0 && to)
        r = store_parse_time(to, until, &err);
    struct store_query query = {
        .owner = http_owner(req),
        .dataset_id = http_query(req, "dataset_id"),
        .status = http_query(req, "status"),
        .query_mode = http_query(req, "query_mode"),
        .since = from ? since : NULL,
        .until = to ? until : NULL,
        .cursor = http_query(req, "cursor"),
        .limit = (int)http_query_i64(req, "limit", STORE_LIMIT_DEFAULT),
        .make = write_runs,
    };
    struct reading *rd = begin_reading(req);
    if (r == 0)
        r = rd ? store_list(app_of(req)->store, RECORD_CAPSULE, &query, got_runs, rd, &err) :
                 err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(rd);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &rd->req);
}

/* ---- DELETE ---- */

struct removing {
    struct http_request *req;
    struct app *app;
    char run_id[128];
};

static void got_ended(const struct err *err, const struct store_page *page, void *arg)
{
    struct reading *rd = arg;
    struct http_request *req = rd->req;
    free(rd);
    if (!req)
        return;
    if (err && err->code == ERR_NOT_FOUND)
        http_reply_fail(req, ERR_NOT_FOUND, "Run not found");
    else if (err)
        http_reply_error(req, err);
    else
        http_reply_fail(req, ERR_CONFLICT, "This run has already ended: %s",
                        page->capsules[0].status);
}

static void on_removed(const struct err *err, int64_t n, void *arg)
{
    struct removing *rm = arg;
    struct http_request *req = rm->req;
    (void)n;
    if (!err)
        figure_store_remove(rm->app->figures, rm->run_id);
    if (req && err && err->code == ERR_NOT_FOUND)
        http_reply_fail(req, ERR_NOT_FOUND, "Run not found");
    else if (req && err)
        http_reply_error(req, err);
    else if (req)
        http_reply_json(req, 200, status_json(rm->run_id, "deleted"));
    free(rm);
}

/* What is kept of a run that has ended. */
static void remove_capsule(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct removing *rm = calloc(1, sizeof(*rm));
    int r = rm ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        *rm = (struct removing){ .req = req, .app = app };
        snprintf(rm->run_id, sizeof(rm->run_id), "%s", http_param(req, "run_id"));
        r = store_remove(app->store, RECORD_CAPSULE, http_owner(req), rm->run_id, on_removed, rm,
                         &err);
    }
    if (r < 0) {
        free(rm);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &rm->req);
}

static void delete_run(struct http_request *req)
{
    struct run *run = run_find(&app_of(req)->runs, http_owner(req), http_param(req, "run_id"));
    bool capsule = http_query_bool(req, "capsule", false);
    if (!run && capsule) {
        remove_capsule(req);
        return;
    }
    if (!run) {
        read_one(req, NULL, got_ended);
        return;
    }
    if (capsule) {
        http_reply_fail(req, ERR_CONFLICT,
                        "This run is under way: cancel it before its capsule is deleted");
        return;
    }
    json_t *answer = status_json(run_id(run), "cancelling");
    run_cancel(run);
    http_reply_json(req, 202, answer);
}

/* ---- the table ---- */

static const struct route_param delete_params[] = {
    RUN_PARAM,
    ROUTE_QUERY("capsule", BOOLEAN,
                "Delete what is kept of a run that has ended, its figures included.",
                .dflt = "false"),
    { .field = { .name = NULL } },
};
static const struct route_param list_params[] = {
    ROUTE_QUERY("dataset_id", STRING, "Only runs on it.", SCHEMA_MAX(200)),
    ROUTE_QUERY("status", STRING, "Only these.", .choices = statuses),
    ROUTE_QUERY("query_mode", STRING, "sql, plan, python or chat.", SCHEMA_MAX(20)),
    ROUTE_QUERY("since", STRING, "A date or time; from then on.", SCHEMA_MAX(40)),
    ROUTE_QUERY("until", STRING, "A date or time; before then.", SCHEMA_MAX(40)),
    PAGE_PARAMS,
    { .field = { .name = NULL } },
};

static const struct route_response stream_responses[] = {
    { 200, "text/event-stream",
      "Events: status, step (live output), image, result (a RunResponse), error, done." },
    { .status = 0 }
};
static const struct route_response cancel_responses[] = {
    { 200, NULL, "Its capsule is deleted." },
    { 202, NULL, "It is being stopped; its status will be `cancelled`." },
    { .status = 0 }
};

#define RUN_ERRORS (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE))

static const struct route routes[] = {
    { HTTP_POST, "/runs", post_run, .id = "createRun", .tag = "runs",
      .summary = "Run SQL, a plan or Python on a dataset", .body = &run_schema,
      .errors = RUN_ERRORS, .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/runs/stream", post_run_stream, .id = "streamRun", .tag = "runs",
      .summary = "The same, with live output", .body = &run_schema, .responses = stream_responses,
      .errors = RUN_ERRORS, .max_body_bytes = RUN_BODY_MAX },
    { HTTP_GET, "/runs", list_runs, .id = "listRuns", .tag = "runs",
      .summary = "Your runs, newest first", .params = list_params },
    { HTTP_GET, "/runs/{run_id}", get_run, .id = "getRun", .tag = "runs",
      .summary = "A run and its capsule", .params = run_params, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/runs/{run_id}/status", get_status, .id = "getRunStatus", .tag = "runs",
      .summary = "How far a run is", .params = run_params },
    { HTTP_DELETE, "/runs/{run_id}", delete_run, .id = "cancelRun", .tag = "runs",
      .summary = "Cancel a run in flight, or delete what is kept of one", .params = delete_params,
      .responses = cancel_responses, .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(CONFLICT) },
};

const struct route_table run_routes = { routes, ARRAY_SIZE(routes) };
