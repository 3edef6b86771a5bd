/* /sandbox: create, look at, delete; history, statistics, help. */

#include <stdio.h>
#include <string.h>
#include "data/threads.h"
#include "api/sandboxes.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"

/* ---- the terms ---- */

static const char *const policies[] = { "restricted", "open", NULL };
static const char *const providers[] = { "local", "docker", NULL };
static const struct schema_field name_item = { .name = "",
                                               .types = SCHEMA_STRING,
                                               SCHEMA_RANGE(1, 100) };
static const struct schema_field id_item = { .name = "",
                                             .types = SCHEMA_STRING,
                                             SCHEMA_RANGE(1, 200) };

static const struct schema_field terms_fields[] = {
    SCHEMA_OPTIONAL("max_execution_time", INTEGER, "Seconds of one execution; 30 when missing.",
                    SCHEMA_RANGE(1, SANDBOX_SECONDS_MAX)),
    SCHEMA_OPTIONAL("max_memory_mb", INTEGER, "256 when missing.",
                    SCHEMA_RANGE(SANDBOX_MEMORY_MIN_MB, SANDBOX_MEMORY_MAX_MB)),
    SCHEMA_OPTIONAL("max_cpu_percent", INTEGER, "Of one processor; 50 when missing.",
                    SCHEMA_RANGE(SANDBOX_CPU_MIN, SANDBOX_CPU_MAX)),
    SCHEMA_OPTIONAL("max_open_files", INTEGER, "100 when missing.",
                    SCHEMA_RANGE(SANDBOX_FILES_MIN, SANDBOX_OPEN_FILES_MAX)),
    SCHEMA_OPTIONAL("max_threads", INTEGER, "Threads and processes together; 10 when missing.",
                    SCHEMA_RANGE(SANDBOX_THREADS_MIN, SANDBOX_THREADS_MAX)),
    SCHEMA_OPTIONAL(
        "idle_seconds", INTEGER,
        "Unused for so long it is deleted; at most RIDDLE_SANDBOX_IDLE_SECONDS, which it is "
        "when missing.",
        SCHEMA_MIN(1)),
    SCHEMA_OPTIONAL(
        "ttl_seconds", INTEGER,
        "At this age it is deleted; at most RIDDLE_SANDBOX_TTL_SECONDS, which it is when "
        "missing.",
        SCHEMA_MIN(1)),
    SCHEMA_OPTIONAL("enable_debugging", BOOLEAN,
                    "debug() and inspect_var() are kept; true when missing."),
    SCHEMA_OPTIONAL("save_intermediate_results", BOOLEAN,
                    "Shown in the config. Every execution is kept as a run in any case."),
    SCHEMA_OPTIONAL(
        "policy", STRING,
        "`restricted` (when missing): imports and calls are checked. `open`: anything inside "
        "the jail.",
        .choices = policies),
    SCHEMA_OPTIONAL(
        "provider", STRING,
        "What runs the code. A server has one (`SANDBOX_PROVIDER`) and refuses to make a "
        "sandbox of another.",
        .choices = providers),
    SCHEMA_OPTIONAL("allowed_modules", ARRAY, "All that `restricted` code may import.",
                    .items = &name_item, SCHEMA_MAX(SANDBOX_NAMES_MAX)),
    SCHEMA_OPTIONAL(
        "blocked_operations", ARRAY,
        "Modules and built-in functions that `restricted` code may not use, besides those "
        "that it never may.",
        .items = &name_item, SCHEMA_MAX(SANDBOX_NAMES_MAX)),
    SCHEMA_OPTIONAL("datasets", ARRAY, "Data sets whose tables the code sees.", .items = &id_item,
                    SCHEMA_MAX(16)),
    SCHEMA_OPTIONAL("file_ids", ARRAY, "Uploads whose tables the code sees.", .items = &id_item,
                    SCHEMA_MAX(16)),
    { .name = NULL },
};
const struct schema sandbox_terms_schema = {
    .name = "SandboxTerms",
    .doc = "Limits, modules, lifetime and data of a sandbox.",
    .fields = terms_fields,
    .closed = true,
    .example = "{\"max_execution_time\":30,\"max_memory_mb\":256}"
};

/* ---- finding ---- */

static const char *id_of(const struct http_request *req)
{
    return http_param(req, "sandbox_id");
}

void sandbox_reply_unknown(struct http_request *req)
{
    char shown[STR_SHOWN_SIZE];
    http_reply_fail(req, ERR_NOT_FOUND, "Sandbox not found: %s",
                    str_show(id_of(req), strlen(id_of(req)), shown, sizeof(shown)));
}

struct opening {
    struct http_request *req; /* NULL: the client left */
    sandbox_fn fn;
};

static void call_with(struct http_request *req, struct chat *c, sandbox_fn fn)
{
    if (chat_terms(c))
        fn(req, c);
    else
        sandbox_reply_unknown(req);
}

static void on_open(struct chat *c, const struct err *err, void *arg)
{
    struct opening *o = arg;
    struct http_request *req = o->req;
    sandbox_fn fn = o->fn;
    free(o);
    if (req && err && err->code == ERR_NOT_FOUND)
        sandbox_reply_unknown(req);
    else if (req && err)
        http_reply_error(req, err);
    else if (req)
        call_with(req, c, fn);
    chat_unref(c);
}

void sandbox_with(struct http_request *req, sandbox_fn fn)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct chat *c = chat_find(app->agent, http_owner(req), id_of(req));
    if (c) {
        chat_ref(c);
        call_with(req, c, fn);
        chat_unref(c);
        return;
    }
    struct opening *o = calloc(1, sizeof(*o));
    if (!o) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    *o = (struct opening){ .req = req, .fn = fn };
    if (chat_open(app->agent, http_owner(req), id_of(req), on_open, o, &err) < 0) {
        free(o);
        if (err.code == ERR_NOT_FOUND)
            sandbox_reply_unknown(req);
        else
            http_reply_error(req, &err);
        return;
    }
    http_hold(req, &o->req);
}

json_t *sandbox_now(void)
{
    char now[CLOCK_ISO_SIZE];
    clock_iso8601(clock_wall_ms(), now);
    return json_string(now);
}

/* ---- POST /sandbox/create ---- */

void sandbox_new_id(char ret[THREAD_ID_MAX + 1])
{
    strcpy(ret, "sandbox-");
    id_hex(ret + strlen(ret), 16);
}

static void on_created(struct chat *c, const struct err *err, void *arg)
{
    struct opening *o = arg;
    struct http_request *req = o->req;
    free(o);
    if (req && err && err->code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", err->message);
    else if (req && err)
        http_reply_error(req, err);
    else if (req)
        http_reply_json(req, 200,
                        json_pack("{s:s, s:s, s:s, s:{s:O}}", "sandbox_id", chat_id(c), "status",
                                  "created", "message", "Sandbox created successfully", "data",
                                  "config", chat_terms(c)->config));
    chat_unref(c);
}

static void post_create(struct http_request *req)
{
    struct err err = ERR_INIT;
    const json_t *body = http_body_json(req), *uploads = json_object_get(body, "file_ids");
    json_t *datasets = json_object_get(body, "datasets");
    auto_json json_t *data = json_is_array(datasets) ? json_incref(datasets) : json_array();
    struct opening *o = calloc(1, sizeof(*o));
    char id[THREAD_ID_MAX + 1];
    sandbox_new_id(id);
    struct chat_spec spec = { .owner = http_owner(req),
                              .thread_id = id,
                              .datasets = data,
                              .uploads = json_array_size(uploads) ? uploads : NULL,
                              .terms = body };
    if (o)
        o->req = req;
    int r = o ? chat_create(app_of(req)->agent, &spec, on_created, o, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        http_hold(req, &o->req);
        return;
    }
    free(o);
    if (err.code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", err.message);
    else
        http_reply_error(req, &err);
}

/* ---- GET /sandbox/{id}/status ---- */

#define QUERIES_SHOWN 100

/* First the kernel is asked for its variables, then the store for the log of queries. */
struct looking {
    struct http_request *req; /* NULL: the client left */
    struct chat *chat;
    struct kernel_file_op *op;
    json_t *found;   /* by the kernel; NULL: there is none, or it is busy */
    bool is_listing; /* the store will call back */
};

static void looking_free(struct looking *l)
{
    kernel_file_op_drop(l->op);
    json_decref(l->found);
    chat_unref(l->chat);
    free(l);
}

static void looking_left(void *arg)
{
    struct looking *l = arg;
    l->req = NULL;
    if (!l->is_listing)
        looking_free(l);
}

static int make_query_log(const struct store_query *query, struct store_page *page, struct err *err)
{
    (void)query;
    page->value = json_array();
    for (size_t i = 0; i < page->n; i++) {
        const struct asked_query *q = &page->queries[i];
        json_t *params = NULL;
        if (!q->params_json ||
            json_parse(q->params_json, strlen(q->params_json), &params, NULL) < 0)
            params = json_object();
        json_t *one = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s?, s:I}", "query", q->sql,
                                "parameters", params, "timestamp", q->created_at, "user_id",
                                q->owner, "database", q->dataset_id, "verdict", q->status,
                                "execution_id", q->run_id, "rows", (json_int_t)q->row_count);
        json_array_append_new(page->value, one);
    }
    return page->value ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static void reply_state(struct http_request *req, const struct chat *c, const json_t *found,
                        const struct store_page *queries)
{
    const json_t *last = chat_last_execution(c);
    const char *status = chat_is_busy(c) ? "running" :
                         last ? sandbox_status(json_string_value(json_object_get(last, "status"))) :
                                "created";
    char expires[CLOCK_ISO_SIZE];
    struct chat_sandbox kernel;
    json_t *variables = json_object_get(found, "variables"),
           *globals = json_object_get(found, "globals"), *debug = json_object_get(last, "debug");
    chat_sandbox(c, &kernel);
    clock_iso8601(clock_wall_ms() + chat_expires_in_ms(c), expires);
    json_t *state = json_pack("{s:O?, s:s, s:o, s:o, s:o, s:o, s:f, s:O, s:s, s:b, s:s}",
                              "execution_id", json_object_get(last, "run_id"), "status", status,
                              "variables", variables ? json_incref(variables) : json_object(),
                              "globals", globals ? json_incref(globals) : json_array(),
                              "debug_info", debug ? json_incref(debug) : json_null(), "query_log",
                              queries ? json_incref(queries->value) : json_array(),
                              "execution_time",
                              json_number_value(json_object_get(last, "execution_time")), "config",
                              chat_terms(c)->config, "kernel", kernel.state, "has_variables",
                              kernel.has_variables, "expires_at", expires);
    http_reply_json(req, 200,
                    json_pack("{s:s, s:s, s:s, s:o}", "sandbox_id", chat_id(c), "status", "active",
                              "message", "Sandbox state retrieved successfully", "data", state));
}

static void on_queries(const struct err *err, const struct store_page *page, void *arg)
{
    struct looking *l = arg;
    if (l->req)
        reply_state(l->req, l->chat, l->found, err ? NULL : page);
    looking_free(l);
}

static void list_queries(struct looking *l)
{
    struct err err = ERR_INIT;
    struct app *app = app_of(l->req);
    const struct store_query query = { .owner = http_owner(l->req),
                                       .thread_id = chat_id(l->chat),
                                       .limit = QUERIES_SHOWN,
                                       .make = make_query_log };
    l->is_listing = store_list(app->store, RECORD_QUERY, &query, on_queries, l, &err) == 0;
    if (!l->is_listing)
        on_queries(&err, NULL, l);
}

static void on_looked(const json_t *found, const struct err *err, void *arg)
{
    struct looking *l = arg;
    l->op = NULL;
    l->found = err ? NULL : json_incref((json_t *)(uintptr_t)found);
    list_queries(l);
}

/* Variables are read between executions: a sandbox that is busy tells without them. */
static void look(struct http_request *req, struct chat *c)
{
    struct err err = ERR_INIT;
    struct looking *l = calloc(1, sizeof(*l));
    if (!l) {
        reply_state(req, c, NULL, NULL);
        return;
    }
    *l = (struct looking){ .req = req, .chat = chat_ref(c) };
    bool asks = chat_has_kernel(c) && !chat_is_busy(c) &&
                chat_inspect(c, on_looked, l, &l->op, &err) == 0;
    http_defer(req, looking_left, l);
    if (!asks)
        list_queries(l);
}

static void get_status(struct http_request *req)
{
    sandbox_with(req, look);
}

/* ---- DELETE /sandbox/{id}, POST /sandbox/cleanup-all, interrupt ---- */

static void on_deleted(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct opening *o = arg;
    struct http_request *req = o->req;
    free(o);
    if (req && err && err->code == ERR_NOT_FOUND)
        sandbox_reply_unknown(req);
    else if (req && err)
        http_reply_error(req, err);
    else if (req)
        http_reply_json(req, 200,
                        json_pack("{s:o}", "message",
                                  json_sprintf("Sandbox %s cleaned up successfully", id_of(req))));
}

static void clean_up(struct http_request *req, struct chat *c)
{
    struct err err = ERR_INIT;
    struct app *app = app_of(req);
    struct opening *o = calloc(1, sizeof(*o));
    if (o)
        o->req = req;
    int r = o ? chat_delete(app->agent, http_owner(req), chat_id(c), on_deleted, o, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(o);
        http_reply_error(req, &err);
        return;
    }
    (void)data_thread_forget(app->data, http_owner(req), id_of(req));
    http_hold(req, &o->req);
}

static void delete_sandbox(struct http_request *req)
{
    sandbox_with(req, clean_up);
}

/* All of an owner's sandboxes, a page of the store at a time. */
struct cleaning {
    struct app *app;
    struct http_request *req; /* NULL: the client left */
    char owner[64];
    size_t n, left; /* deleted; under way */
};

static void clean_page(struct cleaning *cl);

static void cleaning_end(struct cleaning *cl, const struct err *err)
{
    struct http_request *req = cl->req;
    size_t n = cl->n;
    free(cl);
    if (req && err)
        http_reply_error(req, err);
    else if (req)
        http_reply_json(req, 200,
                        json_pack("{s:o, s:I}", "message",
                                  json_sprintf("%zu sandboxes cleaned up", n), "cleaned_up",
                                  (json_int_t)n));
}

static void on_cleaned(const struct err *err, int64_t value, void *arg)
{
    struct cleaning *cl = arg;
    (void)value;
    cl->n += !err; /* one that expired meanwhile is gone, too */
    if (--cl->left == 0)
        clean_page(cl);
}

static void got_page(const struct err *err, const struct store_page *page, void *arg)
{
    struct cleaning *cl = arg;
    struct err why = ERR_INIT;
    if (err || page->n == 0 || cl->app->stopping) {
        cleaning_end(cl, err);
        return;
    }
    for (size_t i = 0; i < page->n; i++) {
        if (chat_delete(cl->app->agent, cl->owner, page->threads[i].thread_id, on_cleaned, cl,
                        &why) < 0)
            continue;
        (void)data_thread_forget(cl->app->data, cl->owner, page->threads[i].thread_id);
        cl->left++;
    }
    if (cl->left == 0)
        cleaning_end(cl, &why);
}

static void clean_page(struct cleaning *cl)
{
    struct err err = ERR_INIT;
    struct store_query query = { .owner = cl->owner, .state = "sandbox", .limit = STORE_LIMIT_MAX };
    if (store_list(cl->app->store, RECORD_THREAD, &query, got_page, cl, &err) < 0)
        cleaning_end(cl, &err);
}

static void post_cleanup(struct http_request *req)
{
    struct cleaning *cl = calloc(1, sizeof(*cl));
    if (!cl) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    cl->app = app_of(req);
    cl->req = req;
    snprintf(cl->owner, sizeof(cl->owner), "%s", http_owner(req));
    http_hold(req, &cl->req);
    clean_page(cl);
}

static void interrupt(struct http_request *req, struct chat *c)
{
    http_reply_json(
        req, 200,
        json_pack("{s:s, s:I}", "sandbox_id", chat_id(c), "interrupted", (json_int_t)chat_stop(c)));
}

static void post_interrupt(struct http_request *req)
{
    sandbox_with(req, interrupt);
}

/* ---- GET /sandbox/{id}/history, /sandbox/statistics ---- */

const char *sandbox_status(const char *status)
{
    static const char *const names[][2] = {
        { "succeeded", "completed" }, { "timed_out", "timeout" }, { "cancelled", "cancelled" },
        { "queued", "created" },      { "running", "running" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_eq(status, names[i][0]))
            return names[i][1];
    return "failed"; /* rejected by the policy, too */
}

static json_t *entry_json(const struct capsule *c)
{
    auto_json json_t *error = NULL, *usage = NULL, *timings = NULL;
    if (c->error_json)
        (void)json_parse(c->error_json, strlen(c->error_json), &error, NULL);
    if (c->usage_json)
        (void)json_parse(c->usage_json, strlen(c->usage_json), &usage, NULL);
    if (c->timings_json)
        (void)json_parse(c->timings_json, strlen(c->timings_json), &timings, NULL);
    return json_pack("{s:s, s:s, s:f, s:s, s:O?, s:b}", "execution_id", c->run_id, "status",
                     sandbox_status(c->status), "execution_time",
                     sandbox_seconds(json_object_get(timings, "exec_total")), "created_at",
                     c->created_at, "error", json_object_get(error, "message"), "has_result",
                     json_is_true(json_object_get(usage, "has_result")));
}

static int make_history(const struct store_query *query, struct store_page *page, struct err *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < page->n; i++)
        json_array_append_new(list, entry_json(&page->capsules[i]));
    auto_json json_t *answer = json_pack("{s:s, s:o, s:I, s:s?}", "sandbox_id", query->thread_id,
                                         "history", list, "total_executions",
                                         (json_int_t)json_array_size(list), "next",
                                         *page->next ? page->next : NULL);
    return answer ? json_write(answer, &page->text, err) :
                    err_set(err, ERR_NO_MEMORY, "out of memory");
}

static void got_history(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct http_request *req = o->req;
    free(o);
    if (req)
        reply_page(req, err, page);
}

/* A page of the owner's records; got takes a struct opening. */
static void list(struct http_request *req, enum record_type type, struct store_query *query,
                 store_read_fn got)
{
    struct err err = ERR_INIT;
    struct opening *o = calloc(1, sizeof(*o));
    query->owner = http_owner(req);
    query->cursor = http_query(req, "cursor");
    query->limit = (int)http_query_i64(req, "limit", STORE_LIMIT_MAX);
    if (o)
        o->req = req;
    int r = o ? store_list(app_of(req)->store, type, query, got, o, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(o);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &o->req);
}

static void list_history(struct http_request *req, struct chat *c)
{
    struct store_query query = { .thread_id = chat_id(c), .make = make_history };
    list(req, RECORD_CAPSULE, &query, got_history);
}

/* Those that nobody has used since a restart are cold: their time begins when they are used. */
static json_t *sandbox_json(struct agent *a, const struct thread *t)
{
    struct chat *c = chat_find(a, t->owner, t->thread_id);
    struct chat_sandbox kernel = { .state = "cold" };
    char expires[CLOCK_ISO_SIZE];
    bool is_known = c && chat_terms(c);
    if (is_known) {
        chat_sandbox(c, &kernel);
        clock_iso8601(clock_wall_ms() + chat_expires_in_ms(c), expires);
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:s?}", "sandbox_id", t->thread_id, "created_at",
                     t->created_at, "kernel", kernel.state, "running", is_known && chat_is_busy(c),
                     "expires_at", is_known ? expires : NULL);
}

static void got_sandboxes(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct http_request *req = o->req;
    free(o);
    if (req && err)
        http_reply_error(req, err);
    if (!req || err)
        return;
    json_t *sandboxes = json_array();
    for (size_t i = 0; i < page->n; i++)
        json_array_append_new(sandboxes, sandbox_json(app_of(req)->agent, &page->threads[i]));
    http_reply_json(
        req, 200,
        json_pack("{s:o, s:s?}", "sandboxes", sandboxes, "next", *page->next ? page->next : NULL));
}

static void get_sandboxes(struct http_request *req)
{
    struct store_query query = { .state = "sandbox" };
    list(req, RECORD_THREAD, &query, got_sandboxes);
}

static void get_history(struct http_request *req)
{
    sandbox_with(req, list_history);
}

static void add_move(void *arg, const char *from, const char *to, uint64_t n, double seconds)
{
    char name[32];
    (void)seconds;
    snprintf(name, sizeof(name), "%s→%s", from, to);
    json_object_set_new(arg, name, json_integer((json_int_t)n));
}

static void get_statistics(struct http_request *req)
{
    struct sandbox_stats s;
    agent_sandbox_stats(app_of(req)->agent, http_owner(req), &s);
    double n = s.executions ? (double)s.executions : 1;
    json_t *moves = json_object();
    agent_each_move(&s.moves, add_move, moves);
    json_t *stats = json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o, s:o}", "active_sandboxes", (json_int_t)s.active,
        "total_executions", (json_int_t)s.executions, "successful_executions",
        (json_int_t)s.succeeded, "failed_executions", (json_int_t)(s.executions - s.succeeded),
        "success_rate", 100.0 * (double)s.succeeded / n, "average_execution_time", s.seconds / n,
        "image_bytes", (json_int_t)agent_owner_image_bytes(app_of(req)->agent, http_owner(req)),
        "moves", moves, "timestamp", sandbox_now());
    http_reply_json(req, 200,
                    json_pack("{s:o, s:s, s:o}", "statistics", stats, "user_id", http_owner(req),
                              "timestamp", sandbox_now()));
}

/* ---- help and templates ---- */

static void tell_functions(struct http_request *req, struct chat *c)
{
    http_reply_json(req, 200, sandbox_help_functions(chat_terms(c)));
}

static void get_functions(struct http_request *req)
{
    sandbox_with(req, tell_functions);
}

static void tell_examples(struct http_request *req, struct chat *c)
{
    (void)c;
    http_reply_json(req, 200, sandbox_help_examples());
}

static void get_examples(struct http_request *req)
{
    sandbox_with(req, tell_examples);
}

static const struct schema_field template_fields[] = {
    { .name = "processor_type",
      .types = SCHEMA_STRING,
      .nullable = true,
      .dflt = "\"data_processor\"",
      SCHEMA_MAX(100),
      .doc =
          "data_processor, text_analyzer or database_connector; anything else is data_processor." },
    { .name = NULL },
};
static const struct schema template_schema = { .name = "ProcessorTemplate",
                                               .closed = true,
                                               .fields = template_fields };

static void tell_template(struct http_request *req, struct chat *c)
{
    const char *type = json_string_value(json_object_get(http_body_json(req), "processor_type"));
    http_reply_json(req, 200,
                    json_pack("{s:s, s:s, s:s, s:s, s:o}", "sandbox_id", chat_id(c),
                              "processor_type", type ? type : sandbox_template_types[0],
                              "template_code", sandbox_template(type), "instructions",
                              "Modify this template to create your custom processor", "timestamp",
                              sandbox_now()));
}

static void post_template(struct http_request *req)
{
    sandbox_with(req, tell_template);
}

/* ---- the table ---- */

static const struct route_param history_params[] = {
    SANDBOX_PARAM,
    PAGE_PARAMS,
    { .field = { .name = NULL } },
};

#define ANSWERS(name, text)                                                                        \
    static const struct route_response name[] = { { 200, NULL, text }, { .status = 0 } }
ANSWERS(create_responses, "{sandbox_id, status: created, message, data: {config}}");
ANSWERS(status_responses,
        "{sandbox_id, status: active, message, data: {execution_id, status, variables, globals, "
        "debug_info, query_log, execution_time, config, kernel, has_variables, expires_at}}");
ANSWERS(delete_responses, "{message}");
ANSWERS(list_responses, "{sandboxes: [{sandbox_id, created_at, kernel: hot, warm or cold, "
                        "running, expires_at}], next}");
ANSWERS(cleanup_responses, "{message, cleaned_up}");
ANSWERS(interrupt_responses, "{sandbox_id, interrupted}: how many executions are being stopped.");
ANSWERS(history_responses,
        "{sandbox_id, history: [{execution_id, status, execution_time, created_at, error, "
        "has_result}], total_executions, next}, newest first");
ANSWERS(
    statistics_responses,
    "{statistics: {active_sandboxes, total_executions, successful_executions, failed_executions, "
    "success_rate, average_execution_time, timestamp}, user_id, timestamp}: yours, since the "
    "server started");
ANSWERS(functions_responses,
        "{database_functions, debug_functions, built_in_functions, allowed_modules, examples}");
ANSWERS(examples_responses, "{examples: {name: {title, description, code}}, usage_notes}");
ANSWERS(template_responses, "{sandbox_id, processor_type, template_code, instructions, timestamp}");

static const struct route routes[] = {
    { HTTP_POST, "/sandbox/create", post_create, .id = "createSandbox", .tag = "sandboxes",
      .summary = "Make a sandbox", .body = &sandbox_terms_schema, .responses = create_responses,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE),
      .flags = ROUTE_BODY_OPTIONAL },
    { HTTP_GET, "/sandbox", get_sandboxes, .id = "listSandboxes", .tag = "sandboxes",
      .summary = "Your sandboxes, the newest first", .params = &history_params[1],
      .responses = list_responses, .errors = ROUTE_ERR(VALIDATION), .flags = ROUTE_CLOSED },
    { HTTP_GET, "/sandbox/statistics", get_statistics, .id = "getSandboxStatistics",
      .tag = "sandboxes", .summary = "Figures of your sandboxes",
      .responses = statistics_responses },
    { HTTP_POST, "/sandbox/cleanup-all", post_cleanup, .id = "cleanUpSandboxes", .tag = "sandboxes",
      .summary = "Delete all your sandboxes", .responses = cleanup_responses },
    { HTTP_GET, "/sandbox/{sandbox_id}/status", get_status, .id = "getSandboxStatus",
      .tag = "sandboxes", .summary = "A sandbox and its variables", .params = sandbox_params,
      .responses = status_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_DELETE, "/sandbox/{sandbox_id}", delete_sandbox, .id = "deleteSandbox",
      .tag = "sandboxes", .summary = "Delete a sandbox", .params = sandbox_params,
      .responses = delete_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/sandbox/{sandbox_id}/interrupt", post_interrupt, .id = "interruptSandbox",
      .tag = "sandboxes", .summary = "Stop what runs and waits in a sandbox",
      .params = sandbox_params, .responses = interrupt_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/sandbox/{sandbox_id}/history", get_history, .id = "getSandboxHistory",
      .tag = "sandboxes", .summary = "Executions of a sandbox", .params = history_params,
      .responses = history_responses, .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION),
      .flags = ROUTE_CLOSED },
    { HTTP_GET, "/sandbox/{sandbox_id}/help/functions", get_functions, .id = "getSandboxFunctions",
      .tag = "sandboxes", .summary = "Functions that code may call", .params = sandbox_params,
      .responses = functions_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/sandbox/{sandbox_id}/help/examples", get_examples, .id = "getSandboxExamples",
      .tag = "sandboxes", .summary = "Code that runs as it is", .params = sandbox_params,
      .responses = examples_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/sandbox/{sandbox_id}/templates/processor", post_template,
      .id = "getProcessorTemplate", .tag = "sandboxes", .summary = "A processor to begin with",
      .params = sandbox_params, .body = &template_schema, .responses = template_responses,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION), .flags = ROUTE_BODY_OPTIONAL },
};

int sandbox_add_routes(struct http_server *s, struct err *err)
{
    const struct route_table *more[] = { &sandbox_run_routes, &sandbox_file_routes,
                                         &sandbox_debug_routes };
    int r = http_server_add_routes(s, routes, ARRAY_SIZE(routes), err);
    for (size_t i = 0; i < ARRAY_SIZE(more) && r == 0; i++)
        r = http_server_add_routes(s, more[i]->routes, more[i]->n, err);
    return r;
}
