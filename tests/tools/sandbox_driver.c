/*
 * Drives sandboxes from a test: one JSON request per line on standard input, one JSON answer per
 * line on standard output. It is what a server does with sandboxes, without the server.
 *
 *   {"op":"create","kind":"python","files":[{"name","path","table","raw"?}],"limits":{…},"dataset_id"?,"code"?} → {"sandbox":N,"pid":P,"us":T};
 *     with code, T is the time until its result, whose verdict is told too
 *   {"op":"run","sandbox":N,"kind":"python","code":"…","policy":"open","timeout_ms":…,"interrupt_after_ms"?} → {"verdict",…}
 *   {"op":"begin",…} as run, without waiting · {"op":"wait","sandbox":N} → as run
 *   {"op":"list_files","sandbox":N} → {"verdict",…} · {"op":"read_file","sandbox":N,"path","offset"?,"max_bytes"?} → {"data","size","end"}
 *   {"op":"write_file","sandbox":N,"path","data","append"?} → {"ok"}; data is base64
 *   {"op":"destroy","sandbox":N} · {"op":"zygotes"} → {"sql":pid,"python":pid}
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/base64.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/json.h"
#include "base/str.h"
#include "run/foreground.h"
#include "sandbox/local/local_impl.h"

#define SANDBOXES_MAX 512

static struct foreground *fg;
static struct config cfg;
static struct lease *leases[SANDBOXES_MAX];
static struct foreground_result waiting[SANDBOXES_MAX]; /* of what was begun */

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
        .policy = str_eq(json_string_value(json_object_get(req, "policy")), "restricted") ?
                      POLICY_RESTRICTED :
                      POLICY_OPEN,
        .timeout_ms = number(req, "timeout_ms", 10000),
        .max_rows = number(req, "max_rows", 200),
        .max_output_bytes = number(req, "max_output_bytes", 65536),
        .svg = json_is_true(json_object_get(req, "svg")),
    };
}

static json_t *create(const json_t *req, struct err *err)
{
    struct sandbox_file files[SANDBOX_FILES_MAX];
    struct sandbox_spec spec = { .kind = kind_of(req),
                                 .files = files,
                                 .dataset_id = json_string_value(
                                     json_object_get(req, "dataset_id")) };
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
        files[spec.n_files++] = (struct sandbox_file){
            .name = json_string_value(json_object_get(f, "name")),
            .path = json_string_value(json_object_get(f, "path")),
            .table = json_string_value(json_object_get(f, "table")),
            .raw = json_is_true(json_object_get(f, "raw"))
        };
    }
    int n = 0;
    while (n < SANDBOXES_MAX && leases[n])
        n++;
    if (n == SANDBOXES_MAX) {
        err_set(err, ERR_UNAVAILABLE, "no more than %d sandboxes", SANDBOXES_MAX);
        return NULL;
    }
    int64_t begun = clock_now_us();
    if (foreground_acquire(fg, &spec, NULL, &leases[n], err) < 0)
        return NULL;
    const char *verdict = "ok";
    if (json_object_get(req, "code")) {
        struct run_request r = run_request_of(req);
        struct run_result res = { 0 };
        if (foreground_run(fg, leases[n], &r, &res, err) < 0)
            return NULL;
        verdict = verdict_name(res.verdict);
        run_result_finish(&res);
    }
    return json_pack("{s:i, s:i, s:I, s:s}", "sandbox", n, "pid",
                     (int)local_link_pid(lease_link(leases[n])), "us",
                     (json_int_t)(clock_now_us() - begun), "verdict", verdict);
}

static void on_interrupt(uv_timer_t *t)
{
    lease_interrupt(t->data);
}

/* Waits for the run that was begun in lease n, with an interrupt on the way if one is wanted. */
static int wait_run(long long n, int64_t interrupt_after_ms, struct run_result *ret,
                    struct err *err)
{
    uv_timer_t *timer = calloc(1, sizeof(*timer));
    uv_timer_init(foreground_loop(fg), timer);
    timer->data = leases[n];
    if (interrupt_after_ms >= 0)
        uv_timer_start(timer, on_interrupt, (uint64_t)interrupt_after_ms, 0);
    int r = foreground_wait(fg, &waiting[n], ret, err);
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    return r;
}

static json_t *describe(struct lease *lease, struct run_result *res, int64_t us)
{
    json_t *answer = json_pack(
        "{s:s, s:b, s:b, s:O, s:O, s:o, s:o, s:b, s:b, s:b, s:I, s:I}", "verdict",
        verdict_name(res->verdict), "interrupted", res->interrupted, "state_lost", res->state_lost,
        "body", res->body, "displays", res->displays, "stdout",
        json_text(res->out.data, res->out.len), "stderr",
        json_text(res->errout.data, res->errout.len), "stdout_truncated", res->out_truncated,
        "stderr_truncated", res->errout_truncated, "alive", lease_alive(lease), "us",
        (json_int_t)us, "peak_memory_bytes", (json_int_t)res->peak_memory_bytes);
    run_result_finish(res);
    return answer;
}

static json_t *run(long long n, const json_t *req, bool wait, struct err *err)
{
    struct run_request r = run_request_of(req);
    struct run_result res = { 0 };
    int64_t begun = clock_now_us();
    struct foreground_result fresh = { .err = ERR_INIT };
    struct foreground_result before = waiting[n];
    waiting[n] = fresh;
    if (lease_run(leases[n], &r, NULL, foreground_ran, &waiting[n], err) < 0) {
        waiting[n] = before; /* of the run under way */
        return NULL;
    }
    if (!wait)
        return json_pack("{s:b}", "ok", 1);
    if (wait_run(n, number(req, "interrupt_after_ms", -1), &res, err) < 0)
        return NULL;
    return describe(leases[n], &res, clock_now_us() - begun);
}

static json_t *list_files(long long n, struct err *err)
{
    struct run_result res = { 0 };
    struct foreground_result w = { .err = ERR_INIT };
    if (lease_list_files(leases[n], foreground_ran, &w, err) < 0 ||
        foreground_wait(fg, &w, &res, err) < 0)
        return NULL;
    return describe(leases[n], &res, 0);
}

static json_t *read_file(struct lease *lease, const json_t *req, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(2 * FILE_PIECE_MAX), text = BUF_INIT(4 * FILE_PIECE_MAX);
    struct file_piece piece;
    const char *path = json_string_value(json_object_get(req, "path"));
    if (foreground_read_file(fg, lease, path, number(req, "offset", 0),
                             number(req, "max_bytes", FILE_PIECE_MAX), &data, &piece, err) < 0 ||
        base64_encode(piece.data, piece.len, &text, err) < 0)
        return NULL;
    return json_pack("{s:s, s:I, s:b}", "data", buf_cstr(&text), "size", (json_int_t)piece.size,
                     "end", piece.end);
}

static json_t *write_file(struct lease *lease, const json_t *req, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(4 * FILE_PIECE_MAX);
    const json_t *text = json_object_get(req, "data");
    const char *path = json_string_value(json_object_get(req, "path"));
    if (base64_decode(json_string_value(text), json_string_length(text), &data, err) < 0 ||
        foreground_write_file(fg, lease, path, data.data, data.len,
                              json_is_true(json_object_get(req, "append")), err) < 0)
        return NULL;
    return json_pack("{s:b}", "ok", 1);
}

/*
 * Runs the loop until the pool of a kind is full, or one kernel of it has been started and ended.
 */
static json_t *warm(const json_t *req, struct err *err)
{
    struct sandbox_spec spec = { .kind = kind_of(req) };
    struct lease *lease;
    struct executor_stats stats;
    sandbox_limits_default(&cfg, &spec.limits);
    if (foreground_acquire(fg, &spec, NULL, &lease, err) < 0)
        return NULL;
    lease_release(lease);
    do {
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
        executor_stats(foreground_executor(fg), &stats);
    } while (stats.pooled < 2 * (size_t)cfg.pool_size);
    return json_pack("{s:b}", "ok", 1);
}

/* Waits until nothing of it is left. */
static void destroy(long long n)
{
    pid_t pid = local_link_pid(lease_link(leases[n]));
    lease_release(TAKE_PTR(leases[n]));
    while (pid > 0 && kill(pid, 0) == 0)
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    /* its control groups go when its handles are closed */
    uv_run(foreground_loop(fg), UV_RUN_NOWAIT);
}

static json_t *answer(const json_t *req, struct err *err)
{
    const char *op = json_string_value(json_object_get(req, "op"));
    long long n = number(req, "sandbox", -1);
    if (str_eq(op, "create"))
        return create(req, err);
    struct provider *provider = executor_provider(foreground_executor(fg));
    if (str_eq(op, "zygotes"))
        return json_pack("{s:i, s:i}", "sql", (int)local_zygote_pid(provider, RUN_SQL), "python",
                         (int)local_zygote_pid(provider, RUN_PYTHON));
    if (str_eq(op, "warm"))
        return warm(req, err);
    if (n < 0 || n >= SANDBOXES_MAX || !leases[n]) {
        err_set(err, ERR_NOT_FOUND, "no sandbox %lld", n);
        return NULL;
    }
    struct run_result res = { 0 };
    if (str_eq(op, "run") || str_eq(op, "begin"))
        return run(n, req, str_eq(op, "run"), err);
    if (str_eq(op, "wait"))
        return foreground_wait(fg, &waiting[n], &res, err) < 0 ? NULL :
                                                                 describe(leases[n], &res, 0);
    if (str_eq(op, "list_files"))
        return list_files(n, err);
    if (str_eq(op, "read_file"))
        return read_file(leases[n], req, err);
    if (str_eq(op, "write_file"))
        return write_file(leases[n], req, err);
    if (str_eq(op, "destroy")) {
        destroy(n);
        return json_pack("{s:b}", "ok", 1);
    }
    err_set(err, ERR_INVALID_INPUT, "unknown op");
    return NULL;
}

/* As many sandboxes at once as there is room for here. */
static int open_driver(struct err *err)
{
    int r = config_load(&cfg, ".env", err);
    if (r < 0)
        return r;
    cfg.max_kernels = SANDBOXES_MAX;
    cfg.idle_kernels = 0;
    struct executor_options opt = { .lazy = true };
    if (!getenv("RIDDLE_POOL_SIZE"))
        cfg.pool_size = 0; /* what a test counts are the kernels that it made */
    return foreground_open(&cfg, &opt, &fg, err);
}

static struct buf input = BUF_INIT(64u << 20);
static bool ended;

static void on_input(uv_poll_t *h, int status, int events)
{
    char chunk[65536];
    (void)h, (void)status, (void)events;
    ssize_t n = read(0, chunk, sizeof(chunk));
    ended = n <= 0 || buf_append(&input, chunk, (size_t)n, NULL) < 0;
}

/*
 * The next line of standard input. The loop runs meanwhile: kernels that were given back are
 * reaped.
 */
static bool next_line(struct buf *ret)
{
    uv_poll_t *poll = calloc(1, sizeof(*poll));
    uv_poll_init(foreground_loop(fg), poll, 0);
    uv_poll_start(poll, UV_READABLE, on_input);
    char *end;
    while (!(end = input.len ? memchr(input.data, '\n', input.len) : NULL) && !ended)
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    uv_close((uv_handle_t *)poll, (uv_close_cb)free);
    buf_clear(ret);
    if (!end)
        return false;
    size_t len = (size_t)(end - input.data);
    (void)buf_append(ret, input.data, len, NULL);
    buf_consume(&input, len + 1);
    return true;
}

int main(void)
{
    struct err err = ERR_INIT;
    if (open_driver(&err) < 0) {
        fprintf(stderr, "sandbox-driver: %s\n", err.message);
        return 1;
    }
    auto_buf struct buf line = BUF_INIT(64u << 20);
    while (next_line(&line)) {
        struct err why = ERR_INIT;
        json_t *req = NULL, *out = NULL;
        if (json_parse(line.data, line.len, &req, &why) == 0)
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
    for (int i = 0; i < SANDBOXES_MAX; i++)
        lease_release(leases[i]);
    foreground_close(fg);
    buf_finish(&input);
    config_finish(&cfg);
    return 0;
}
