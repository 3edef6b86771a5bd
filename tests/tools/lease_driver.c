/*
 * Drives the executor, sandboxes in an event loop, from a test: one JSON request per line on
 * standard input, one JSON answer per line on standard output. There is one lease at a time. With
 * "nowait":true a request is only begun: its answer is that of "finish".
 *
 *   {"op":"acquire","kind":"python","files":[{"name","path","table","raw"?}]} → {"ok"}
 *   {"op":"run","kind":"python","code":"…"} · {"op":"list"} → {"verdict","body"}
 *   {"op":"read","path","offset"?,"max_bytes"?} → {"data","size","end"} · {"op":"write","path","data","append"?} → {"size"}; data is base64
 *   {"op":"interrupt"} · {"op":"release"} · {"op":"stats"} → {"runs","alive","idle"} · {"op":"finish"} · {"op":"destroy"}, the executor
 */

#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/config.h"
#include "base/json.h"
#include "base/str.h"
#include "sandbox/pool/executor.h"

static uv_loop_t loop;
static struct config cfg;
static struct executor *executor;
static struct lease *lease;
static json_t *told; /* by the callback of what was begun */
static bool pending;

static void tell(json_t *answer)
{
    json_decref(told);
    told = answer;
    pending = false;
}

static void tell_error(const struct err *err)
{
    tell(json_pack("{s:o}", "error", json_error(err)));
}

static void on_ready(struct lease *l, const struct err *err, void *arg)
{
    (void)arg;
    lease = l;
    if (err)
        tell_error(err);
    else
        tell(json_pack("{s:b}", "ok", 1));
}

static void on_done(struct lease *l, struct run_result *result, const struct err *err, void *arg)
{
    (void)l, (void)arg;
    if (err) {
        tell_error(err);
        return;
    }
    tell(json_pack("{s:s, s:O}", "verdict", verdict_name(result->verdict), "body", result->body));
    run_result_finish(result);
}

static void on_piece(struct lease *l, const struct file_piece *piece, const struct err *err,
                     void *arg)
{
    (void)l, (void)arg;
    auto_buf struct buf text = BUF_INIT(4 * FILE_PIECE_MAX);
    if (err)
        tell_error(err);
    else if (!piece->data)
        tell(json_pack("{s:I}", "size", (json_int_t)piece->size));
    else if (base64_encode(piece->data, piece->len, &text, NULL) == 0)
        tell(json_pack("{s:s, s:I, s:b}", "data", buf_cstr(&text), "size", (json_int_t)piece->size,
                       "end", piece->end));
}

static const char *text_of(const json_t *req, const char *key)
{
    return json_string_value(json_object_get(req, key));
}

static int acquire(const json_t *req, struct err *err)
{
    struct sandbox_file files[8] = { 0 };
    struct sandbox_spec spec = { .kind = str_eq(text_of(req, "kind"), "sql") ? RUN_SQL : RUN_PYTHON,
                                 .files = files };
    size_t i;
    json_t *f;
    sandbox_limits_default(&cfg, &spec.limits);
    json_array_foreach(json_object_get(req, "files"), i, f) {
        if (spec.n_files < 8)
            files[spec.n_files++] = (struct sandbox_file){ .name = text_of(f, "name"),
                                                           .path = text_of(f, "path"),
                                                           .table = text_of(f, "table"),
                                                           .raw = json_is_true(
                                                               json_object_get(f, "raw")) };
    }
    struct lease *made;
    return executor_acquire(executor, "test", &spec, NULL, on_ready, NULL, &made, err);
}

static int run(const json_t *req, struct err *err)
{
    const json_t *code = json_object_get(req, "code");
    struct run_request r = { .kind = str_eq(text_of(req, "kind"), "sql") ? RUN_SQL : RUN_PYTHON,
                             .code = json_string_value(code),
                             .code_len = json_string_length(code),
                             .policy = POLICY_OPEN,
                             .timeout_ms = 10000,
                             .max_rows = 200,
                             .max_output_bytes = 65536 };
    return lease_run(lease, &r, NULL, on_done, NULL, err);
}

static int write_file(const json_t *req, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(4 * FILE_PIECE_MAX);
    const json_t *text = json_object_get(req, "data");
    int r = base64_decode(json_string_value(text), json_string_length(text), &data, err);
    return r < 0 ?
               r :
               lease_write_file(lease, text_of(req, "path"), data.data, data.len,
                                json_is_true(json_object_get(req, "append")), on_piece, NULL, err);
}

static int begin(const json_t *req, const char *op, struct err *err)
{
    const json_t *max = json_object_get(req, "max_bytes");
    if (str_eq(op, "acquire"))
        return acquire(req, err);
    if (!lease)
        return err_set(err, ERR_NOT_FOUND, "no lease");
    if (str_eq(op, "run"))
        return run(req, err);
    if (str_eq(op, "list"))
        return lease_list_files(lease, on_done, NULL, err);
    if (str_eq(op, "read"))
        return lease_read_file(lease, text_of(req, "path"),
                               json_integer_value(json_object_get(req, "offset")),
                               max ? json_integer_value(max) : FILE_PIECE_MAX, on_piece, NULL, err);
    if (str_eq(op, "write"))
        return write_file(req, err);
    return err_set(err, ERR_INVALID_INPUT, "unknown op");
}

static json_t *finish(void)
{
    while (pending && uv_run(&loop, UV_RUN_ONCE))
        ;
    return pending ? json_pack("{s:s}", "error", "nothing will come") : json_incref(told);
}

static json_t *stats(void)
{
    struct executor_stats s;
    executor_stats(executor, &s);
    return json_pack("{s:I, s:b, s:I}", "runs", (json_int_t)s.runs[VERDICT_OK], "alive",
                     lease && lease_alive(lease), "idle", (json_int_t)s.idle);
}

static json_t *answer(const json_t *req)
{
    struct err err = ERR_INIT;
    const char *op = text_of(req, "op");
    if (str_eq(op, "finish"))
        return finish();
    if (str_eq(op, "stats"))
        return stats();
    if (str_eq(op, "interrupt"))
        lease_interrupt(lease);
    if (str_eq(op, "release")) {
        lease_release(lease);
        lease = NULL;
    }
    if (str_eq(op, "destroy")) {
        executor_destroy(executor);
        executor = NULL;
        lease = NULL;
        return told ? json_incref(told) : json_null();
    }
    if (str_eq(op, "release") || str_eq(op, "interrupt"))
        return json_pack("{s:b}", "ok", 1);
    if (begin(req, op, &err) < 0)
        return json_pack("{s:o}", "error", json_error(&err));
    pending = true;
    return json_is_true(json_object_get(req, "nowait")) ? json_pack("{s:b}", "ok", 1) : finish();
}

int main(void)
{
    struct err err = ERR_INIT;
    uv_loop_init(&loop);
    if (config_load(&cfg, ".env", &err) < 0 ||
        executor_create(&loop, &cfg, NULL, &executor, &err) < 0) {
        fprintf(stderr, "lease-driver: %s\n", err.message);
        return 1;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while (executor && (len = getline(&line, &cap, stdin)) > 0) {
        auto_json json_t *req = NULL, *out = NULL;
        struct err why = ERR_INIT;
        out = json_parse(line, (size_t)len, &req, &why) == 0 ?
                  answer(req) :
                  json_pack("{s:o}", "error", json_error(&why));
        auto_free char *text = json_to_str(out);
        printf("%s\n", text);
        fflush(stdout);
    }
    free(line);
    executor_destroy(executor);
    json_decref(told);
    uv_run(&loop, UV_RUN_DEFAULT);
    int left = uv_loop_close(&loop);
    config_finish(&cfg);
    return left == 0 ? 0 : 3; /* a handle that nobody closed */
}
