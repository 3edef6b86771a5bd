/*
 * Drives the sandbox interface from a test: one JSON request per line on standard input, one JSON answer per line on standard
 * output. It is what a server does with sandboxes, without the server.
 *
 *   {"op":"create","kind":"python","files":[{"name","path","table","raw"?}],"limits":{…},"dataset_id"?,"code"?} → {"sandbox":N,"pid":P,"us":T};
 *     with code, T is the time until its result, whose verdict is told too
 *   {"op":"run","sandbox":N,"kind":"python","code":"…","policy":"open","timeout_ms":…,"interrupt_after_ms"?} → {"verdict",…}
 *   {"op":"begin",…} as run, without waiting · {"op":"wait","sandbox":N} → as run
 *   {"op":"list_files","sandbox":N} → {"verdict",…} · {"op":"read_file","sandbox":N,"path","offset"?,"max_bytes"?} → {"data","size","end"}
 *   {"op":"write_file","sandbox":N,"path","data","append"?} → {"ok"}; data is base64
 *   {"op":"destroy","sandbox":N} · {"op":"zygotes"} → {"sql":pid,"python":pid}
 */

#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/json.h"
#include "base/str.h"
#include "sandbox/local/local_impl.h"

#define SANDBOXES_MAX 512

static struct provider *provider;
static struct config cfg;
static struct sandbox *sandboxes[SANDBOXES_MAX];

static long long number(const json_t *req, const char *key, long long dflt)
{
    const json_t *v = json_object_get(req, key);
    return json_is_integer(v) ? json_integer_value(v) : dflt;
}

static enum run_kind kind_of(const json_t *req)
{
    return str_eq(json_string_value(json_object_get(req, "kind")), "sql") ? RUN_SQL : RUN_PYTHON;
}

static struct run_request run_request_of(const json_t *req)
{
    const json_t *code = json_object_get(req, "code");
    return (struct run_request){
        .kind = kind_of(req),
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .policy = str_eq(json_string_value(json_object_get(req, "policy")), "restricted") ? POLICY_RESTRICTED
                                                                                         : POLICY_OPEN,
        .timeout_ms = number(req, "timeout_ms", 10000),
        .max_rows = number(req, "max_rows", 200),
        .max_output_bytes = number(req, "max_output_bytes", 65536),
        .svg = json_is_true(json_object_get(req, "svg")),
    };
}

static json_t *create(const json_t *req, struct err *err)
{
    struct sandbox_file files[SANDBOX_FILES_MAX];
    struct sandbox_spec spec = { .kind = kind_of(req), .files = files,
                                 .dataset_id = json_string_value(json_object_get(req, "dataset_id")) };
    sandbox_limits_default(&cfg, &spec.limits);
    const json_t *l = json_object_get(req, "limits");
    spec.limits.memory_bytes = number(l, "memory_bytes", spec.limits.memory_bytes);
    spec.limits.pids = (int)number(l, "pids", spec.limits.pids);
    spec.limits.open_files = (int)number(l, "open_files", spec.limits.open_files);
    spec.limits.file_bytes = number(l, "file_bytes", spec.limits.file_bytes);
    spec.limits.workspace_bytes = number(l, "workspace_bytes", spec.limits.workspace_bytes);
    spec.limits.tmp_bytes = number(l, "tmp_bytes", spec.limits.tmp_bytes);
    spec.limits.inodes = number(l, "inodes", spec.limits.inodes);
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(req, "files"), i, f) {
        files[spec.n_files++] = (struct sandbox_file){ .name = json_string_value(json_object_get(f, "name")),
                                                       .path = json_string_value(json_object_get(f, "path")),
                                                       .table = json_string_value(json_object_get(f, "table")),
                                                       .raw = json_is_true(json_object_get(f, "raw")) };
    }
    int n = 0;
    while (n < SANDBOXES_MAX && sandboxes[n])
        n++;
    if (n == SANDBOXES_MAX) {
        err_set(err, ERR_UNAVAILABLE, "no more than %d sandboxes", SANDBOXES_MAX);
        return NULL;
    }
    int64_t begun = clock_now_us();
    if (sandbox_create(provider, &spec, NULL, &sandboxes[n], err) < 0)
        return NULL;
    const char *verdict = "ok";
    if (json_object_get(req, "code")) {
        struct run_request r = run_request_of(req);
        struct run_result res = { 0 };
        if (sandbox_begin(sandboxes[n], &r, NULL, err) < 0 || sandbox_wait(sandboxes[n], &res, err) < 0)
            return NULL;
        verdict = verdict_name(res.verdict);
        run_result_finish(&res);
    }
    return json_pack("{s:i, s:i, s:I, s:s}", "sandbox", n, "pid", (int)sandbox_pid(sandboxes[n]), "us",
                     (json_int_t)(clock_now_us() - begun), "verdict", verdict);
}

/* sandbox_wait, with an interrupt on the way. */
static int wait_run(struct sandbox *sb, int64_t interrupt_after_ms, struct run_result *ret, struct err *err)
{
    int64_t at = interrupt_after_ms < 0 ? -1 : clock_now_ms() + interrupt_after_ms;
    if (at < 0)
        return sandbox_wait(sb, ret, err);
    for (;;) {
        int r = sandbox_advance(sb, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
        struct pollfd fds[SANDBOX_POLL_MAX];
        int64_t deadline;
        size_t n = sandbox_poll_fds(sb, fds, &deadline);
        int64_t until = at >= 0 && (deadline < 0 || at < deadline) ? at : deadline;
        poll(fds, n, (int)MAX_OF(0, until - clock_now_ms()));
        if (at >= 0 && clock_now_ms() >= at) {
            sandbox_interrupt(sb);
            at = -1;
        }
    }
}

static json_t *describe(struct sandbox *sb, struct run_result *res, int64_t us)
{
    json_t *answer = json_pack(
        "{s:s, s:b, s:b, s:O, s:O, s:o, s:o, s:b, s:b, s:b, s:I, s:I}", "verdict", verdict_name(res->verdict),
        "interrupted", res->interrupted, "state_lost", res->state_lost, "body", res->body, "displays", res->displays,
        "stdout", json_text(res->out.data, res->out.len), "stderr", json_text(res->errout.data, res->errout.len),
        "stdout_truncated", res->out_truncated, "stderr_truncated", res->errout_truncated, "alive", sandbox_alive(sb),
        "us", (json_int_t)us, "peak_memory_bytes", (json_int_t)res->peak_memory_bytes);
    run_result_finish(res);
    return answer;
}

static json_t *run(struct sandbox *sb, const json_t *req, bool wait, struct err *err)
{
    struct run_request r = run_request_of(req);
    struct run_result res = { 0 };
    int64_t begun = clock_now_us();
    if (sandbox_begin(sb, &r, NULL, err) < 0)
        return NULL;
    if (!wait)
        return json_pack("{s:b}", "ok", 1);
    if (wait_run(sb, number(req, "interrupt_after_ms", -1), &res, err) < 0)
        return NULL;
    return describe(sb, &res, clock_now_us() - begun);
}

static json_t *read_file(struct sandbox *sb, const json_t *req, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(2 * FILE_PIECE_MAX), text = BUF_INIT(4 * FILE_PIECE_MAX);
    struct file_piece piece;
    const char *path = json_string_value(json_object_get(req, "path"));
    if (sandbox_read_file(sb, path, number(req, "offset", 0), number(req, "max_bytes", FILE_PIECE_MAX), &data, &piece, err) < 0 ||
        base64_encode(piece.data, piece.len, &text, err) < 0)
        return NULL;
    return json_pack("{s:s, s:I, s:b}", "data", buf_cstr(&text), "size", (json_int_t)piece.size, "end", piece.end);
}

static json_t *write_file(struct sandbox *sb, const json_t *req, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(4 * FILE_PIECE_MAX);
    const json_t *text = json_object_get(req, "data");
    const char *path = json_string_value(json_object_get(req, "path"));
    if (base64_decode(json_string_value(text), json_string_length(text), &data, err) < 0 ||
        sandbox_write_file(sb, path, data.data, data.len, json_is_true(json_object_get(req, "append")), err) < 0)
        return NULL;
    return json_pack("{s:b}", "ok", 1);
}

static json_t *answer(const json_t *req, struct err *err)
{
    const char *op = json_string_value(json_object_get(req, "op"));
    long long n = number(req, "sandbox", -1);
    if (str_eq(op, "create"))
        return create(req, err);
    if (str_eq(op, "zygotes"))
        return json_pack("{s:i, s:i}", "sql", (int)provider->zygotes[RUN_SQL].pid, "python",
                         (int)provider->zygotes[RUN_PYTHON].pid);
    if (str_eq(op, "warm"))
        return provider_warm(provider, kind_of(req), err) < 0 ? NULL : json_pack("{s:b}", "ok", 1);
    if (n < 0 || n >= SANDBOXES_MAX || !sandboxes[n]) {
        err_set(err, ERR_NOT_FOUND, "no sandbox %lld", n);
        return NULL;
    }
    struct run_result res = { 0 };
    if (str_eq(op, "run") || str_eq(op, "begin"))
        return run(sandboxes[n], req, str_eq(op, "run"), err);
    if (str_eq(op, "wait"))
        return sandbox_wait(sandboxes[n], &res, err) < 0 ? NULL : describe(sandboxes[n], &res, 0);
    if (str_eq(op, "list_files"))
        return sandbox_list_files(sandboxes[n], &res, err) < 0 ? NULL : describe(sandboxes[n], &res, 0);
    if (str_eq(op, "read_file"))
        return read_file(sandboxes[n], req, err);
    if (str_eq(op, "write_file"))
        return write_file(sandboxes[n], req, err);
    if (str_eq(op, "destroy")) {
        sandbox_destroy(sandboxes[n]);
        sandboxes[n] = NULL;
        return json_pack("{s:b}", "ok", 1);
    }
    err_set(err, ERR_INVALID_INPUT, "unknown op");
    return NULL;
}

int main(void)
{
    struct err err = ERR_INIT;
    if (config_load(&cfg, ".env", &err) < 0 || provider_open_local(&cfg, &provider, &err) < 0) {
        fprintf(stderr, "sandbox-driver: %s\n", err.message);
        return 1;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) > 0) {
        struct err why = ERR_INIT;
        json_t *req = NULL, *out = NULL;
        if (json_parse(line, (size_t)len, &req, &why) == 0)
            out = answer(req, &why);
        if (!out)
            out = json_pack("{s:o}", "error", json_error(&why));
        char *text = json_to_str(out);
        printf("%s\n", text);
        fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(req);
    }
    free(line);
    for (int i = 0; i < SANDBOXES_MAX; i++)
        sandbox_destroy(sandboxes[i]);
    provider_close(provider);
    config_finish(&cfg);
    return 0;
}
