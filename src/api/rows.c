#include "api/rows.h"

#include <stdio.h>
#include <string.h>
#include "base/limits.h"
#include "base/str.h"
#include "plan/sql_trim.h"

#define EXPORT_TIMEOUT_MS (10 * 60 * 1000)
#define SORT_COLUMNS_MAX 16

/* ---- parameters ---- */

const char *const rows_formats[] = { "csv", "xlsx", "parquet", "json", NULL };

const struct route_response rows_page_responses[] = { { 200, NULL, "A page of rows." },
                                                      { .status = 0 } };
const struct route_response rows_export_responses[] = {
    { 200, "application/octet-stream",
      "All rows as a file, streamed. A connection that is cut means that the file is not "
      "whole. In CSV, text that a spreadsheet would take for a formula has a single "
      "quote in front." },
    { .status = 0 }
};

/* ---- the statement ---- */

/* One column of `sort` into name; where the next one begins, or NULL with err set. */
static const char *sort_column(const char *at, char *name, size_t size, struct err *err)
{
    size_t n = 0;
    bool quoted = *at == '"';
    for (at += quoted; *at && (quoted || *at != ','); at++) {
        if (quoted && *at == '"' && at[1] != '"')
            break;
        at += quoted && *at == '"';
        if (n + 1 < size)
            name[n++] = *at;
    }
    name[n] = '\0';
    bool closed = !quoted || *at == '"';
    at += quoted && closed;
    if (n == 0 || !closed || (*at && *at != ',')) {
        (void)err_set(err, ERR_VALIDATION,
                      "sort: a column is missing or its name is not closed; write sort=-total,id");
        return NULL;
    }
    return *at ? at + 1 : at;
}

static int add_sort(struct buf *b, const char *sort, struct err *err)
{
    char name[1024];
    int r = buf_append_str(b, " ORDER BY ", err);
    for (int n = 0; r == 0 && *sort; n++) {
        bool down = *sort == '-';
        sort = sort_column(sort + down, name, sizeof(name), err);
        if (!sort)
            return -ERR_VALIDATION;
        if (n == SORT_COLUMNS_MAX)
            return err_set(err, ERR_VALIDATION, "sort: at most %d columns", SORT_COLUMNS_MAX);
        r = buf_append_str(b, n ? ", " : "", err);
        if (r == 0)
            r = buf_append_quoted(b, "\"", name, err);
        if (r == 0)
            r = buf_append_str(b, down ? " DESC NULLS LAST" : " ASC NULLS LAST", err);
    }
    return r;
}

/* SELECT what FROM the statement, filtered, and sorted unless it is counted. */
static int wrap(struct buf *b, const char *what, const char *sql, const char *filter,
                const char *sort, struct err *err)
{
    int r = buf_printf(b, err, "SELECT %s FROM (%.*s\n) AS \"r\"", what,
                       (int)sql_trimmed(sql, strlen(sql)), sql);
    if (r == 0 && filter)
        r = buf_printf(b, err, " WHERE (%.*s\n)", (int)sql_trimmed(filter, strlen(filter)), filter);
    return r == 0 && sort ? add_sort(b, sort, err) : r;
}

/* ---- one request ---- */

struct rows_op {
    struct http_request *req; /* NULL once the stream is there */
    struct app *app;
    struct selection selection;
    struct lease *lease;
    struct buf sql, count;
    int64_t offset, limit, total;
    json_t *body; /* of the page */
    /* of an export */
    const char *format;
    char name[300];
    struct http_stream *stream;
    struct buf piece, next; /* the one that is being sent, and the one behind it */
    size_t at;
    bool has_next, is_asked, is_over, failed;
};

static void op_free(struct rows_op *op)
{
    lease_release(op->lease);
    if (op->selection.release)
        op->selection.release(op->selection.held);
    buf_finish(&op->sql);
    buf_finish(&op->count);
    buf_finish(&op->piece);
    buf_finish(&op->next);
    json_decref(op->body);
    free(op);
}

static void op_left(void *arg)
{
    op_free(arg);
}

static void op_fail(struct rows_op *op, const struct err *err)
{
    struct http_request *req = TAKE_PTR(op->req);
    struct err why = *err;
    op_free(op);
    if (why.code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", why.message);
    else
        http_reply_error(req, &why);
}

static struct rows_op *op_create(struct http_request *req, const struct selection *s,
                                 struct err *err)
{
    struct rows_op *op = calloc(1, sizeof(*op));
    if (!op) {
        if (s->release)
            s->release(s->held);
        (void)err_set(err, ERR_NO_MEMORY, "out of memory");
        http_reply_error(req, err);
        return NULL;
    }
    op->req = req;
    op->app = app_of(req);
    op->selection = *s;
    op->total = http_query(req, "filter") ? -1 : s->total;
    buf_init(&op->sql, 2 * CODE_MAX_BYTES);
    buf_init(&op->count, 2 * CODE_MAX_BYTES);
    buf_init(&op->piece, FILE_PIECE_MAX + 1);
    buf_init(&op->next, FILE_PIECE_MAX + 1);
    return op;
}

static void op_begin(struct rows_op *op, bool exports, lease_ready_fn ready)
{
    const struct selection *s = &op->selection;
    const struct config *cfg = op->app->cfg;
    struct sandbox_spec spec = { .kind = RUN_SQL,
                                 .dataset_id = s->dataset_id,
                                 .database = s->database,
                                 .files = s->files,
                                 .n_files = s->n_files,
                                 .refusable = true,
                                 .exports = exports };
    struct err err = ERR_INIT;
    sandbox_limits_default(cfg, &spec.limits);
    if (exports) {
        /* XLSX is made in /tmp, which is memory. */
        spec.limits.memory_bytes = MAX_OF(spec.limits.memory_bytes, cfg->ingest_memory_bytes);
        spec.limits.tmp_bytes = MAX_OF(spec.limits.tmp_bytes, spec.limits.memory_bytes);
        spec.limits.file_bytes = MAX_OF(spec.limits.file_bytes, spec.limits.memory_bytes);
    }
    if (executor_acquire(op->app->executor, s->owner, &spec, NULL, ready, op, &op->lease, &err) <
        0) {
        op_fail(op, &err);
        return;
    }
    http_defer(op->req, op_left, op);
}

/* ---- a page ---- */

static void send_page(struct rows_op *op)
{
    struct http_request *req = TAKE_PTR(op->req);
    json_t *page = json_pack(
        "{s:O, s:O, s:O, s:O, s:I, s:I, s:o, s:O}", "columns", json_object_get(op->body, "columns"),
        "types", json_object_get(op->body, "types"), "rows", json_object_get(op->body, "rows"),
        "row_count", json_object_get(op->body, "row_count"), "offset", (json_int_t)op->offset,
        "limit", (json_int_t)op->limit, "total",
        op->total < 0 ? json_null() : json_integer(op->total), "truncated",
        json_object_get(op->body, "truncated"));
    op_free(op);
    http_reply_json(req, 200, page);
}

static int run_next(struct rows_op *op, const char *sql, lease_done_fn done, struct err *err)
{
    struct run_request run = { .kind = RUN_SQL,
                               .code = sql,
                               .code_len = strlen(sql),
                               .timeout_ms = (int64_t)op->app->cfg->run_timeout_s * 1000,
                               .max_rows = op->limit,
                               .max_output_bytes = RUN_OUTPUT_MAX };
    return lease_run(op->lease, &run, NULL, done, op, err);
}

/* Why there are no rows. */
static int judge(const struct run_result *result, struct err *err)
{
    const json_t *message = json_object_get(json_object_get(result->body, "error"), "message");
    const char *text = json_is_string(message) ? json_string_value(message) :
                                                 "the kernel gave no reason";
    switch (result->verdict) {
    case VERDICT_OK:
        return 0;
    case VERDICT_ERROR:
    case VERDICT_POLICY:
        return err_set(err, ERR_VALIDATION, "%.900s", text);
    case VERDICT_TIMEOUT:
        return err_set(err, ERR_TIMEOUT, "the rows took too long; sort or filter less");
    case VERDICT_MEMORY:
        return err_set(err, ERR_TOO_LARGE, "the rows need more memory than a sandbox has: %.800s",
                       text);
    default:
        return err_set(err, ERR_UNAVAILABLE, "%.900s", text);
    }
}

static void on_counted(struct lease *lease, struct run_result *result, const struct err *err,
                       void *arg)
{
    (void)lease;
    struct rows_op *op = arg;
    struct err why = ERR_INIT;
    const json_t *rows = result ? json_object_get(result->body, "rows") : NULL;
    int r = 0;
    if (err)
        why = *err;
    else
        r = judge(result, &why);
    if (!err && r == 0)
        op->total = json_integer_value(json_array_get(json_array_get(rows, 0), 0));
    if (result)
        run_result_finish(result);
    if (err || r < 0)
        op_fail(op, &why);
    else
        send_page(op);
}

static void on_page(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    (void)lease;
    struct rows_op *op = arg;
    struct err why = ERR_INIT;
    int r = 0;
    if (err)
        why = *err;
    else
        r = judge(result, &why);
    if (!err && r == 0)
        op->body = json_incref(result->body);
    if (result)
        run_result_finish(result);
    int64_t n = (int64_t)json_array_size(json_object_get(op->body, "rows"));
    bool is_last = n > 0 && n < op->limit && !json_is_true(json_object_get(op->body, "truncated"));
    if (is_last || (n == 0 && op->offset == 0))
        op->total = op->offset + n;
    if (!err && r == 0 && op->total < 0)
        r = run_next(op, buf_cstr(&op->count), on_counted, &why);
    else if (!err && r == 0) {
        send_page(op);
        return;
    }
    if (err || r < 0)
        op_fail(op, &why);
}

static void on_rows_ready(struct lease *lease, const struct err *err, void *arg)
{
    (void)lease;
    struct rows_op *op = arg;
    struct err why = ERR_INIT;
    if (err) {
        op->lease = NULL;
        op_fail(op, err);
    } else if (run_next(op, buf_cstr(&op->sql), on_page, &why) < 0) {
        op_fail(op, &why);
    }
}

void rows_send(struct http_request *req, const struct selection *s)
{
    struct err err = ERR_INIT;
    struct rows_op *op = op_create(req, s, &err);
    if (!op)
        return;
    const char *filter = http_query(req, "filter");
    op->offset = http_query_i64(req, "offset", 0);
    op->limit = http_query_i64(req, "limit", ROWS_LIMIT_DEFAULT);
    int r = wrap(&op->sql, "*", s->sql, filter, http_query(req, "sort"), &err);
    if (r == 0)
        r = buf_printf(&op->sql, &err, " LIMIT %lld OFFSET %lld", (long long)op->limit,
                       (long long)op->offset);
    if (r == 0)
        r = wrap(&op->count, "count(*)", s->sql, filter, NULL, &err);
    if (r < 0)
        op_fail(op, &err);
    else
        op_begin(op, false, on_rows_ready);
}

/* ---- all of them, as a file ---- */

/* The next piece is made while this one is on its way. */
static void ask_next(struct rows_op *op)
{
    struct err err = ERR_INIT;
    if (op->is_over || op->is_asked || op->has_next || op->failed)
        return;
    op->is_asked = lease_export_next(op->lease, &err) == 0;
    op->failed = !op->is_asked;
}

static void take_next(struct rows_op *op)
{
    SWAP_VALUES(op->piece, op->next);
    op->at = 0;
    op->has_next = false;
}

static ssize_t stream_read(void *arg, char *buf, size_t max)
{
    struct rows_op *op = arg;
    if (op->failed)
        return HTTP_STREAM_FAIL;
    if (op->at == op->piece.len && op->has_next)
        take_next(op);
    size_t n = MIN_OF(max, op->piece.len - op->at);
    if (n > 0)
        memcpy(buf, op->piece.data + op->at, n);
    op->at += n;
    ask_next(op);
    if (n > 0)
        return (ssize_t)n;
    return op->failed ? HTTP_STREAM_FAIL : op->is_over ? HTTP_STREAM_END : HTTP_STREAM_WAIT;
}

static void stream_close(void *arg, bool is_whole)
{
    (void)is_whole;
    op_free(arg);
}

static void on_piece(struct lease *lease, const struct file_piece *piece, const struct err *err,
                     void *arg)
{
    static const struct http_source source = { stream_read, stream_close };
    (void)lease;
    struct rows_op *op = arg;
    struct err why = ERR_INIT;
    op->is_asked = false;
    buf_clear(&op->next);
    if (!err && buf_append(&op->next, piece->data, piece->len, &why) < 0)
        err = &why;
    op->is_over = !err && piece->end;
    op->has_next = !err && !piece->end;
    if (op->stream) {
        op->failed = err != NULL; /* the client must see that this is not the whole file */
        http_stream_ready(op->stream);
    } else if (err) {
        op_fail(op, err);
    } else {
        struct http_request *req = TAKE_PTR(op->req);
        op->stream = http_reply_stream(req, 200, download_headers(req, op->name), -1, &source, op);
    }
}

static void on_export_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct rows_op *op = arg;
    struct err why = ERR_INIT;
    struct lease_export export = { .sql = buf_cstr(&op->sql),
                                   .format = op->format,
                                   .refused = op->selection.refused,
                                   .timeout_ms = EXPORT_TIMEOUT_MS };
    if (err) {
        op->lease = NULL;
        op_fail(op, err);
    } else if (lease_export(lease, &export, on_piece, op, &why) < 0) {
        op_fail(op, &why);
    }
}

void rows_export(struct http_request *req, const struct selection *s)
{
    struct err err = ERR_INIT;
    struct rows_op *op = op_create(req, s, &err);
    if (!op)
        return;
    const char *filter = http_query(req, "filter"), *sort = http_query(req, "sort");
    const char *asked = http_query(req, "format");
    for (size_t i = 0; rows_formats[i]; i++)
        if (str_eq(rows_formats[i], asked ? asked : "csv"))
            op->format = rows_formats[i];
    snprintf(op->name, sizeof(op->name), "%.200s.%s", s->name, op->format);
    int r = filter || sort ? wrap(&op->sql, "*", s->sql, filter, sort, &err) :
                             buf_append_str(&op->sql, s->sql, &err);
    if (r < 0)
        op_fail(op, &err);
    else
        op_begin(op, true, on_export_ready);
}
