/* Code in a sandbox: /sandbox/{id}/execute, and sandboxes for one execution (/sandbox/agent). */

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "api/chats.h"
#include "api/sandboxes.h"
#include "base/limits.h"
#include "base/str.h"

#define ROWS 1000 /* of the table that is kept with the run */

/* ---- what came of it ---- */

/* In the words that clients of /sandbox know. */
static json_t *error_text(const json_t *error, const struct sandbox_terms *terms,
                          int64_t timeout_ms)
{
    const char *type = json_string_value(json_object_get(error, "type")),
               *message = json_string_value(json_object_get(error, "message"));
    if (!json_is_object(error))
        return json_null();
    if (str_eq(type, "RUNNER_TIMEOUT"))
        return json_sprintf("Execution timeout after %lld seconds",
                            (long long)(timeout_ms + 999) / 1000);
    if (str_eq(type, "MEMORY_LIMIT"))
        return json_sprintf("Memory limit exceeded (%lld MB)",
                            (long long)(terms->limits.memory_bytes >> 20));
    if (str_eq(type, "CANCELLED"))
        return json_string("Execution cancelled");
    return json_sprintf("Execution error: %s", message ? message : "unknown");
}

static json_t *or_null(json_t *v)
{
    return v ? json_incref(v) : json_null();
}

double sandbox_seconds(const json_t *ms)
{
    return (double)llround(json_number_value(ms) * 1000) / 1e6;
}

json_t *sandbox_answer_json(const json_t *answer, const char *sandbox_id,
                            const struct sandbox_terms *terms, int64_t timeout_ms)
{
    static const char *const extras[] = { "files", "outputs", "stdout_truncated",
                                          "stderr_truncated", "stepped" };
    static const char *const losses[] = { "state_lost", "state_lost_reason" };
    const json_t *result = json_object_get(answer, "result"),
                 *error = json_object_get(result, "error"),
                 *timings = json_object_get(answer, "timings_ms");
    const json_t *ms = json_object_get(timings,
                                       "exec_total"); /* of a turn; a run calls it otherwise */
    const char *status = json_string_value(json_object_get(answer, "status"));
    json_t *out = json_object_get(result, "stdout"), *errout = json_object_get(result, "stderr");
    json_t *a = json_pack(
        "{s:O, s:s?, s:s, s:o, s:o, s:o, s:o, s:f, s:o, s:o}", "execution_id",
        json_object_get(answer, "run_id"), "sandbox_id", sandbox_id, "status",
        sandbox_status(status), "result", or_null(json_object_get(result, "returned")), "stdout",
        out ? json_incref(out) : json_string(""), "stderr",
        errout ? json_incref(errout) : json_string(""), "error",
        error_text(error, terms, timeout_ms), "execution_time",
        sandbox_seconds(ms ? ms : json_object_get(timings, "execute")), "debug_info",
        execution_debug_info(json_object_get(result, "debug"), true), "timestamp", sandbox_now());
    if (!a)
        return NULL;
    if (json_is_object(error))
        json_object_set(a, "error_details", (json_t *)error);
    for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
        if (json_object_get(result, extras[i]))
            json_object_set(a, extras[i], json_object_get(result, extras[i]));
    for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
        if (json_object_get(answer, losses[i]))
            json_object_set(a, losses[i], json_object_get(answer, losses[i]));
    return a;
}

/* ---- POST /sandbox/{id}/execute ---- */

static const struct schema_field execute_fields[] = { SANDBOX_CODE_FIELD,
                                                      SANDBOX_CONTEXT_FIELD,
                                                      SANDBOX_TIMEOUT_FIELD,
                                                      SANDBOX_OUTPUT_FIELD,
                                                      { .name = NULL } };
static const struct schema execute_schema = { .name = "SandboxCode",
                                              .doc = "Code for a sandbox.",
                                              .closed = true,
                                              .fields = execute_fields };

static int check_context(const json_t *context, struct err *err)
{
    return json_object_size(context) <= 256 ?
               0 :
               err_set(err, ERR_VALIDATION, "context has %zu variables; at most 256 are taken",
                       json_object_size(context));
}

int sandbox_read_code(const json_t *body, struct chat_code *ret, struct err *err)
{
    long long seconds, bytes;
    int r = json_get_i64(body, "timeout_seconds", 0, 0, SANDBOX_SECONDS_MAX, &seconds, err);
    if (r == 0)
        r = json_get_i64(body, "max_output_bytes", RUN_OUTPUT_MAX, RUN_OUTPUT_MIN, RUN_OUTPUT_MAX,
                         &bytes, err);
    if (r < 0)
        return r;
    const json_t *context = json_object_get(body, "context");
    *ret = (struct chat_code){ .language = "python",
                               .code = json_string_value(json_object_get(body, "code")),
                               .timeout_ms = seconds * 1000,
                               .max_rows = ROWS,
                               .max_output_bytes = bytes,
                               .context = json_object_size(context) ? context : NULL };
    if (ret->code && strlen(ret->code) > CODE_MAX_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu bytes; at most %u are taken",
                       strlen(ret->code), CODE_MAX_BYTES);
    return check_context(context, err);
}

static void serve(struct http_request *req, bool stream)
{
    struct err err = ERR_INIT;
    struct chat_code code;
    if (sandbox_read_code(http_body_json(req), &code, &err) < 0) {
        http_reply_error(req, &err);
        return;
    }
    struct chat_request ask = { .form = FORM_SANDBOX,
                                .stream = stream,
                                .code = &code,
                                .thread_id = http_param(req, "sandbox_id") };
    chat_serve(req, &ask);
}

static void post_execute(struct http_request *req)
{
    serve(req, false);
}

static void post_execute_stream(struct http_request *req)
{
    serve(req, true);
}

/* ---- a sandbox for one execution ---- */

struct quick {
    struct http_request *req;
    struct run *run;
    struct sandbox_terms *terms;
    int64_t timeout_ms;
};

static void quick_free(struct quick *q)
{
    sandbox_terms_destroy(q->terms);
    free(q);
}

static void quick_left(void *arg)
{
    struct quick *q = arg;
    run_drop(q->run);
    quick_free(q);
}

static void reply_not_run(struct http_request *req, const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", err->message);
    else
        http_reply_error(req, err);
}

static void quick_done(void *arg, const struct run_report *report, const struct err *err)
{
    struct quick *q = arg;
    struct http_request *req = q->req;
    if (err) {
        quick_free(q);
        reply_not_run(req, err);
        return;
    }
    auto_json json_t *answer = json_pack("{s:s, s:s, s:O, s:O}", "run_id", report->run_id, "status",
                                         report->status, "result", report->result, "timings_ms",
                                         report->timings);
    json_t *a = sandbox_answer_json(answer, NULL, q->terms, q->timeout_ms);
    agent_count_execution(app_of(req)->agent, http_owner(req), str_eq(report->status, "succeeded"),
                          json_number_value(json_object_get(a, "execution_time")));
    quick_free(q);
    http_reply_json(req, 200, a);
}

static void release_data(void *held)
{
    data_view_finish(held);
    free(held);
}

/* The code runs in a kernel of its own, which ends with it. */
static int start_quick(struct http_request *req, const json_t *asked_terms,
                       const struct chat_code *code, const json_t *datasets, const json_t *uploads,
                       struct err *err)
{
    struct app *app = app_of(req);
    struct quick *q = calloc(1, sizeof(*q));
    struct data_view *data = calloc(1, sizeof(*data));
    struct run_listener listener = { .done = quick_done, .arg = q };
    struct err off = ERR_INIT;
    const json_t *asked = json_is_object(asked_terms) ? asked_terms : NULL;
    auto_json json_t *none = json_array();
    int r = q && data ? sandbox_terms_create(app->cfg, asked, &q->terms, err) :
                        err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(q);
        free(data);
        return r;
    }
    data_view_init(data);
    q->req = req;
    q->timeout_ms = code->timeout_ms ? MIN_OF(code->timeout_ms, q->terms->timeout_ms) :
                                       q->terms->timeout_ms;
    r = data_view_find(app->data, http_owner(req), NULL, datasets ? datasets : none, uploads, data,
                       err);
    if (r == 0) {
        struct run_spec spec = {
            .owner = http_owner(req),
            .dataset_id = data->dataset_id,
            .dataset_version_hash = data->version_hash,
            .query_mode = "python",
            .python = code->code,
            .request = { .timeout_ms = q->timeout_ms,
                         .max_rows = code->max_rows,
                         .max_output_bytes = code->max_output_bytes,
                         .context = code->context },
            .terms = q->terms,
            .files = data->files,
            .n_files = data->n_files,
            .release = release_data,
            .held = data,
        };
        if (!app->cfg->enable_python) {
            err_set(&off, ERR_FEATURE_DISABLED,
                    "Python is switched off on this server (ENABLE_PYTHON_EXECUTION)");
            spec.refused = &off;
        }
        r = run_start(&app->runs, &spec, &listener, &q->run, err);
    }
    if (r < 0) {
        release_data(data);
        quick_free(q);
        return r;
    }
    http_defer(req, quick_left, q);
    return 0;
}

static const struct schema_field quick_fields[] = {
    SANDBOX_CODE_FIELD,
    SANDBOX_CONTEXT_FIELD,
    SANDBOX_TIMEOUT_FIELD,
    SANDBOX_OUTPUT_FIELD,
    SCHEMA_OPTIONAL("config", OBJECT, "Terms and data, as for POST /sandbox/create.",
                    .object = &sandbox_terms_schema),
    { .name = NULL },
};
static const struct schema quick_schema = {
    .name = "QuickExecution",
    .doc = "Code for a sandbox that lives for one execution.",
    .closed = true,
    .fields = quick_fields,
};

static void post_quick(struct http_request *req)
{
    struct err err = ERR_INIT;
    const json_t *body = http_body_json(req), *config = json_object_get(body, "config"),
                 *datasets = json_object_get(config, "datasets"),
                 *uploads = json_object_get(config, "file_ids");
    struct chat_code code;
    int r = sandbox_read_code(body, &code, &err);
    if (r == 0)
        r = start_quick(req, config, &code, json_is_array(datasets) ? datasets : NULL,
                        json_array_size(uploads) ? uploads : NULL, &err);
    if (r < 0)
        reply_not_run(req, &err);
}

/* ---- POST /sandbox/agent/analyze-data ---- */

/* The name comes as a variable and is quoted as an identifier: it is never part of the code. */
static const char analysis[] =
    "name = '\"' + table_name.replace('\"', '\"\"') + '\"'\n"
    "if analysis_type not in ('summary', 'schema'):\n"
    "    __result__ = {'available_tables': list(dfs), 'requested_table': table_name,\n"
    "                  'analysis_type': analysis_type}\n"
    "elif table_name not in dfs:\n"
    "    __result__ = {'error': 'No data found', 'table_name': table_name,\n"
    "                  'available_tables': list(dfs)}\n"
    "elif analysis_type == 'summary':\n"
    "    rows = sql(f'SELECT * FROM {name} LIMIT {int(limit)}')\n"
    "    total = int(sql(f'SELECT count(*) AS n FROM {name}')['n'].iloc[0])\n"
    "    __result__ = {'table_name': table_name, 'total_rows': total,\n"
    "                  'columns': [str(c) for c in rows.columns],\n"
    "                  'sample_data': rows.head(5).to_dict('records'),\n"
    "                  'analysis_type': 'summary'}\n"
    "    if total == 0:\n"
    "        __result__ = {'error': 'No data found'}\n"
    "else:\n"
    "    rows = sql(f'SELECT * FROM {name} LIMIT 1000')\n"
    "    schema = [{'column_name': str(c), 'data_type': str(rows[c].dtype), 'is_nullable': 'YES',\n"
    "               'column_default': None} for c in rows.columns]\n"
    "    __result__ = {'table_name': table_name, 'schema': schema, 'column_count': len(schema),\n"
    "                  'analysis_type': 'schema'}\n";

/* The data set that has a table of this name; NULL: none of the server's. */
static const char *dataset_with(const struct app *app, const char *table)
{
    for (size_t i = 0; app->data->registry && i < registry_count(app->data->registry); i++) {
        const struct dataset *d = registry_get(app->data->registry, i);
        for (size_t k = 0; k < d->n_files; k++)
            if (str_eq(d->files[k].table, table))
                return d->id;
    }
    return NULL;
}

static void post_analyze(struct http_request *req)
{
    struct err err = ERR_INIT;
    const char *table = http_query(req, "table_name"), *kind = http_query(req, "analysis_type"),
               *dataset = http_query(req, "dataset_id");
    if (!dataset)
        dataset = dataset_with(app_of(req), table);
    auto_json json_t *datasets = dataset ? json_pack("[s]", dataset) : NULL;
    auto_json json_t *context = json_pack("{s:s, s:s, s:I}", "table_name", table, "analysis_type",
                                          kind ? kind : "summary", "limit",
                                          (json_int_t)http_query_i64(req, "limit", 100));
    struct chat_code code = {
        .code = analysis, .max_rows = ROWS, .max_output_bytes = RUN_OUTPUT_MAX, .context = context
    };
    if (start_quick(req, NULL, &code, datasets, NULL, &err) < 0)
        reply_not_run(req, &err);
}

/* ---- the table ---- */

static const struct route_param analyze_params[] = {
    { .in_query = true,
      .field = { .name = "table_name",
                 .types = SCHEMA_STRING,
                 .required = true,
                 SCHEMA_RANGE(1, 200) } },
    ROUTE_QUERY("analysis_type", STRING,
                "summary (when missing), schema; anything else lists the tables.", SCHEMA_MAX(100)),
    ROUTE_QUERY("limit", INTEGER, "Rows that are looked at; 100 when missing.",
                SCHEMA_RANGE(1, 100000)),
    { .in_query = true,
      .field = { .name = "dataset_id",
                 .types = SCHEMA_STRING,
                 SCHEMA_RANGE(1, 200),
                 .doc =
                     "A data set or upload; when missing the first data set with such a table." } },
    { .field = { .name = NULL } },
};
static const struct route_response stream_responses[] = {
    { 200, "text/event-stream", "Events: status, step (live output), image, result, error, done." },
    { .status = 0 }
};

#define RUN_ERRORS                                                                                 \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) |                       \
     ROUTE_ERR(FEATURE_DISABLED) | ROUTE_ERR(TOO_LARGE))

static const struct route routes[] = {
    { HTTP_POST, "/sandbox/{sandbox_id}/execute", post_execute, .id = "executeInSandbox",
      .tag = "sandboxes", .summary = "Run code in a sandbox", .params = sandbox_params,
      .body = &execute_schema, .errors = RUN_ERRORS, .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/sandbox/{sandbox_id}/execute/stream", post_execute_stream,
      .id = "streamExecuteInSandbox", .tag = "sandboxes", .summary = "The same, with live output",
      .params = sandbox_params, .body = &execute_schema, .responses = stream_responses,
      .errors = RUN_ERRORS, .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/sandbox/agent/quick-execute", post_quick, .id = "quickExecute",
      .tag = "sandboxes", .summary = "Run code in a sandbox that lives for this execution",
      .body = &quick_schema, .errors = RUN_ERRORS, .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/sandbox/agent/analyze-data", post_analyze, .id = "analyzeData",
      .tag = "sandboxes", .summary = "Look at a table", .params = analyze_params,
      .errors = RUN_ERRORS, .flags = ROUTE_CLOSED },
};

const struct route_table sandbox_run_routes = { routes, ARRAY_SIZE(routes) };
