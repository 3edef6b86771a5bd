/*
 * /runs/{run_id}/rows and /export: all rows of a run's result. A capsule keeps the first of them
 * only, so the statement is run again, on the data that it ran on: of another version of the data
 * nothing is answered. What Python made cannot be made again and is taken from the capsule, unless
 * that has only part of it.
 */

#include <stdio.h>
#include <string.h>
#include "api/rows.h"
#include "base/limits.h"
#include "base/str.h"

#define CHANGED "the data has changed since this run; run the query again"

struct run_rows {
    struct http_request *req; /* NULL: the client left */
    struct app *app;
    bool exports;
    struct arena arena;
    char *sql, *dataset_id, *version;
    int64_t total;
    struct dataset_handle handle;
    struct chat *chat;
    struct sandbox_file *files;
    size_t n_files;
    const char *database;
    char name[16];
};

static void rows_free(void *arg)
{
    struct run_rows *rr = arg;
    dataset_handle_release(&rr->handle);
    chat_unref(rr->chat);
    arena_finish(&rr->arena);
    free(rr);
}

static void refuse(struct run_rows *rr, enum err_code code, const char *message)
{
    struct http_request *req = rr->req;
    rows_free(rr);
    if (req)
        http_reply_fail(req, code, "%s", message);
}

static void start(struct run_rows *rr)
{
    struct http_request *req = rr->req;
    if (!req) {
        rows_free(rr);
        return;
    }
    struct selection s = { .owner = http_owner(req),
                           .dataset_id = rr->dataset_id,
                           .database = rr->database,
                           .files = rr->files,
                           .n_files = rr->n_files,
                           .sql = rr->sql,
                           .name = rr->name,
                           .total = rr->total,
                           .release = rows_free,
                           .held = rr };
    if (rr->exports)
        rows_export(req, &s);
    else
        rows_send(req, &s);
}

/* ---- what Python made ---- */

static int add_value(struct buf *b, const json_t *v, struct err *err)
{
    if (!v || json_is_null(v))
        return buf_append_str(b, "NULL", err);
    if (json_is_boolean(v))
        return buf_append_str(b, json_is_true(v) ? "true" : "false", err);
    if (json_is_integer(v))
        return buf_printf(b, err, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    if (json_is_real(v))
        return buf_printf(b, err, "%.17g::DOUBLE", json_real_value(v));
    auto_free char *text = json_is_string(v) ? strdup(json_string_value(v)) : json_to_str(v);
    return text ? buf_append_quoted(b, "'", text, err) :
                  err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* SELECT * FROM (VALUES …) AS "v"("a", …): rows that are kept, as a statement. */
static int write_values(const json_t *columns, const json_t *rows, struct buf *b, struct err *err)
{
    size_t i, k, n = json_array_size(columns);
    json_t *row, *name;
    int r = buf_append_str(b, "SELECT * FROM (VALUES ", err);
    json_array_foreach(rows, i, row) {
        for (k = 0; r == 0 && k < n; k++) {
            r = buf_append_str(b, k ? ", " : i ? "), (" : "(", err);
            if (r == 0)
                r = add_value(b, json_array_get(row, k), err);
        }
    }
    if (r == 0)
        r = buf_append_str(b, ")) AS \"v\"(", err);
    json_array_foreach(columns, i, name) {
        if (r == 0 && i > 0)
            r = buf_append_str(b, ", ", err);
        if (r == 0)
            r = buf_append_quoted(b, "\"", json_string_value(name) ?: "", err);
    }
    return r < 0 ? r : buf_append(b, ")", 1, err);
}

static void start_kept(struct run_rows *rr, const json_t *result)
{
    const json_t *columns = json_object_get(result, "columns"),
                 *rows = json_object_get(result, "rows");
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    struct err err = ERR_INIT;
    if (json_is_true(json_object_get(result, "truncated"))) {
        refuse(rr, ERR_CONFLICT,
               "only the first rows of what this Python cell made are kept; "
               "write them to a file in the cell, such as df.to_csv(\"/data/outputs/result.csv\")");
        return;
    }
    if (json_array_size(columns) == 0 || json_array_size(rows) == 0) {
        refuse(rr, ERR_CONFLICT, "this run has no rows");
        return;
    }
    if (write_values(columns, rows, &sql, &err) < 0 ||
        !(rr->sql = arena_strdup(&rr->arena, buf_cstr(&sql)))) {
        refuse(rr, ERR_TOO_LARGE, "what is kept of this run is too large to be read as rows");
        return;
    }
    rr->total = (int64_t)json_array_size(rows);
    start(rr);
}

/* ---- the data of a statement ---- */

static void chat_opened(struct chat *chat, const struct err *err, void *arg)
{
    struct run_rows *rr = arg;
    const struct data_view *d = chat ? chat_data(chat) : NULL;
    rr->chat = chat;
    if (err || !d) {
        refuse(rr, ERR_NOT_FOUND, "the data of this run is gone");
        return;
    }
    if (rr->version && !str_eq(rr->version, d->version_hash)) {
        refuse(rr, ERR_CONFLICT, CHANGED);
        return;
    }
    rr->files = d->files;
    rr->n_files = d->n_files;
    rr->database = d->database;
    start(rr);
}

static void find_data(struct run_rows *rr, const char *thread_id)
{
    struct err err = ERR_INIT;
    const char *owner = http_owner(rr->req);
    if (thread_id) {
        if (chat_open(rr->app->agent, owner, thread_id, chat_opened, rr, &err) < 0)
            refuse(rr, err.code, err.message);
        return;
    }
    if (data_find(rr->app->data, owner, rr->dataset_id, &rr->handle, &err) < 0) {
        refuse(rr, ERR_NOT_FOUND, "the data of this run is gone");
        return;
    }
    const struct dataset *d = rr->handle.dataset;
    if (rr->version && !str_eq(rr->version, d->version_hash)) {
        refuse(rr, ERR_CONFLICT, CHANGED);
        return;
    }
    rr->files = arena_alloc(&rr->arena, (d->n_files + 1) * sizeof(*rr->files));
    if (!rr->files) {
        refuse(rr, ERR_NO_MEMORY, "out of memory");
        return;
    }
    rr->database = dataset_handle_database(&rr->handle);
    for (; rr->n_files < dataset_handle_n_files(&rr->handle); rr->n_files++)
        rr->files[rr->n_files] = dataset_handle_file(&rr->handle, rr->n_files);
    start(rr);
}

/* ---- the capsule ---- */

static int parse_result(const struct store_query *query, struct store_page *page, struct err *err)
{
    const char *text = page->capsules[0].result_json;
    (void)query;
    (void)err;
    if (text)
        (void)json_parse(text, strlen(text), &page->value, NULL);
    return 0;
}

static void got_run(const struct err *err, const struct store_page *page, void *arg)
{
    struct run_rows *rr = arg;
    const struct capsule *c = err ? NULL : &page->capsules[0];
    if (!rr->req) {
        rows_free(rr);
        return;
    }
    if (err) {
        bool none = err->code == ERR_NOT_FOUND;
        refuse(rr, err->code, none ? "Run not found" : err->message);
        return;
    }
    const json_t *result = page->value;
    if (!str_eq(c->status, "succeeded")) {
        refuse(rr, ERR_CONFLICT, "this run did not succeed and has no rows");
        return;
    }
    if (c->python_code || !c->compiled_sql) {
        start_kept(rr, result);
        return;
    }
    rr->sql = arena_strdup(&rr->arena, c->compiled_sql);
    rr->dataset_id = arena_strdup(&rr->arena, c->dataset_id ? c->dataset_id : "");
    rr->version = c->dataset_version_hash ? arena_strdup(&rr->arena, c->dataset_version_hash) :
                                            NULL;
    auto_free char *thread_id = c->thread_id ? strdup(c->thread_id) : NULL;
    rr->total = json_is_false(json_object_get(result, "truncated")) ?
                    json_integer_value(json_object_get(result, "row_count")) :
                    -1;
    if (!rr->sql || !rr->dataset_id)
        refuse(rr, ERR_NO_MEMORY, "out of memory");
    else
        find_data(rr, thread_id);
}

static void read_run(struct http_request *req, bool exports)
{
    struct err err = ERR_INIT;
    struct run_rows *rr = calloc(1, sizeof(*rr));
    int r = rr ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        rr->req = req;
        rr->app = app_of(req);
        rr->exports = exports;
        rr->total = -1;
        arena_init(&rr->arena, 8u << 20);
        snprintf(rr->name, sizeof(rr->name), "run-%.8s", http_param(req, "run_id"));
        r = store_get_made(rr->app->store, RECORD_CAPSULE, http_owner(req),
                           http_param(req, "run_id"), parse_result, got_run, rr, &err);
    }
    if (r < 0) {
        if (rr)
            rows_free(rr);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &rr->req);
}

static void get_rows(struct http_request *req)
{
    read_run(req, false);
}

static void get_export(struct http_request *req)
{
    read_run(req, true);
}

static const struct route_param page_params[] = {
    RUN_PARAM,
    ROWS_PAGE_PARAMS,
    { .field = { .name = NULL } },
};
static const struct route_param export_params[] = {
    RUN_PARAM,
    ROWS_EXPORT_PARAMS,
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_GET, "/runs/{run_id}/rows", get_rows, .id = "getRunRows", .tag = "runs",
      .summary = "Rows of a run's result, a page at a time", .params = page_params,
      .responses = rows_page_responses, .errors = ROWS_ERRORS },
    { HTTP_GET, "/runs/{run_id}/export", get_export, .id = "exportRun", .tag = "runs",
      .summary = "All rows of a run's result as a file", .params = export_params,
      .responses = rows_export_responses, .errors = ROWS_ERRORS },
};

const struct route_table run_rows_routes = { routes, ARRAY_SIZE(routes) };
