/*
 * One kernel. It boxes itself, waits to be told what it is for ("start"), closes its jail, and then answers requests one
 * at a time: "exec" runs SQL or Python, "ingest" turns a data file into a table, "profile" describes one, "list", "read" and "write" are
 * about files in /workspace. docs/wire.md has the frames.
 *
 * SIGINT is the only way in while a request runs: it stops the query and raises KeyboardInterrupt, and is ignored when idle.
 */

#include "kernel/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/str.h"
#include "kernel/sql/profile.h"
#include "kernel/ingest/nosync.h"
#include "kernel/python/python.h"
#include "kernel/workspace.h"
#include "kernel/zygote/hot_pages.h"
#include "sandbox/wire.h"
#include "sandbox/workspace_path.h"

#define CONTROL_FD 3
#define POOL_IDLE_MS 200
#define MAX_MOUNTS FD_PASS_MAX

struct kernel {
    const struct kernel_parts *parts;
    struct wire_reader reader;
    struct buf bytes; /* that came with the request */
    json_t *start; /* the specification; strings below point into it */
    struct jail_mount mounts[MAX_MOUNTS];
    size_t n_mounts;
    int64_t memory_bytes;
    int threads;
};

/* A signal handler has no argument: what it may touch is here. */
static struct {
    struct sql_engine *engine;
    atomic_bool busy;
    bool has_python;
} interruptible;

static void on_sigint(int sig)
{
    (void)sig;
    if (!atomic_load(&interruptible.busy))
        return;
    sql_interrupt(interruptible.engine);
    if (interruptible.has_python)
        python_interrupt();
}

static void send_event(const char *json, size_t len)
{
    struct err err = ERR_INIT;
    /* riddle is the only reader; if it is gone, so are we. */
    if (wire_send(CONTROL_FD, json, len, NULL, 0, &err) < 0)
        _exit(1);
}

static void send_json(json_t *event)
{
    auto_free char *text = json_to_str(event);
    json_decref(event);
    if (!text)
        _exit(1);
    send_event(text, strlen(text));
}

static void send_failed(const struct err *err)
{
    send_json(json_pack("{s:s, s:o}", "event", "failed", "error", json_error(err)));
}

/* ---- frames ---- */

static bool next_frame(struct kernel *k, const char **ret_text, size_t *ret_len)
{
    while (!wire_reader_next(&k->reader, ret_text, ret_len)) {
        struct err err = ERR_INIT;
        if (wire_reader_fill(&k->reader, CONTROL_FD, &err) < 0)
            return false;
    }
    return true;
}

/* Waits for the next request and parses it; bytes in front of it are kept for it. NULL when riddle has closed the socket. */
static json_t *next_request(struct kernel *k)
{
    const char *text;
    size_t len;
    json_t *req = NULL;
    struct err err = ERR_INIT;
    buf_clear(&k->bytes);
    while (!req) {
        if (!next_frame(k, &text, &len))
            return NULL;
        if (wire_is_bytes(text, len)) {
            buf_clear(&k->bytes);
            if (buf_append(&k->bytes, text + 1, len - 1, &err) < 0)
                return NULL;
        } else if (json_parse(text, len, &req, &err) < 0) {
            return NULL;
        }
        wire_reader_next_done(&k->reader);
    }
    return req;
}

static long long int_of(const json_t *obj, const char *key)
{
    return json_integer_value(json_object_get(obj, key));
}

static const char *str_of(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

/* ---- join ---- */

/* The first frame: control groups that a process may enter by itself, as descriptors of their files. */
static int join_groups(struct kernel *k, struct err *err)
{
    json_t *req = next_request(k);
    if (!req)
        _exit(0);
    size_t n = (size_t)int_of(req, "groups");
    bool good = str_eq(str_of(req, "op"), "join") && n <= k->reader.n_fds;
    json_decref(req);
    if (!good)
        return err_set(err, ERR_PROTOCOL, "the first request must be 'join'");
    for (size_t i = 0; i < n; i++) {
        if (write(k->reader.fds[i], "0", 1) != 1)
            return err_errno(err, ERR_ISOLATION, errno, "entering a control group");
        close(k->reader.fds[i]);
    }
    /* Those of the next frame may have come with the end of this one. */
    k->reader.n_fds -= n;
    memmove(k->reader.fds, k->reader.fds + n, k->reader.n_fds * sizeof(k->reader.fds[0]));
    return 0;
}

/* ---- start ---- */

static int read_mounts(struct kernel *k, struct err *err)
{
    json_t *list = json_object_get(k->start, "mounts"), *item;
    size_t i, next_fd = 0;
    json_array_foreach(list, i, item) {
        if (i >= MAX_MOUNTS)
            return err_set(err, ERR_VALIDATION, "more than %d files", MAX_MOUNTS);
        struct jail_mount *m = &k->mounts[k->n_mounts++];
        *m = (struct jail_mount){
            .target = str_of(item, "target"),
            .path = str_of(item, "path"),
            .fd = -1,
            .dev = (uint64_t)int_of(item, "dev"),
            .ino = (uint64_t)int_of(item, "ino"),
            .writable = json_is_true(json_object_get(item, "writable")),
        };
        if (!m->target || !m->path)
            return err_set(err, ERR_PROTOCOL, "a mount without target or path");
        if (json_is_true(json_object_get(item, "fd"))) {
            if (next_fd >= k->reader.n_fds)
                return err_set(err, ERR_PROTOCOL, "a mount without its descriptor");
            m->fd = k->reader.fds[next_fd++];
        }
    }
    return 0;
}

static void close_mount_fds(struct kernel *k)
{
    for (size_t i = 0; i < k->reader.n_fds; i++)
        close(k->reader.fds[i]);
    k->reader.n_fds = 0;
}

static void emit(void *arg, const char *json, size_t len)
{
    (void)arg;
    send_event(json, len);
}

static int start_python(struct kernel *k, struct err *err)
{
    const char *names[MAX_MOUNTS];
    size_t n = 0, i;
    json_t *tables = json_object_get(k->start, "tables"), *item;
    json_array_foreach(tables, i, item) {
        if (n < MAX_MOUNTS)
            names[n++] = str_of(item, "name");
    }
    struct python_setup setup = {
        .table_names = names,
        .n_tables = n,
        .policy_allowed = str_of(k->start, "python_allowed"),
        .policy_blocked = str_of(k->start, "python_blocked"),
        .emit = emit,
    };
    return python_start(&setup, err);
}

/* DuckDB's own limit leaves room for the rest of the process below the cgroup's. */
static int64_t engine_memory(const struct kernel *k)
{
    return k->memory_bytes / 10 * 6;
}

/* Attaches the tables and locks the engine: before the first statement, whoever it comes from. */
static int prepare_sql(void *arg, struct err *err)
{
    struct kernel *k = arg;
    struct sql_table tables[MAX_MOUNTS];
    char paths[MAX_MOUNTS][160];
    size_t n = 0, i;
    json_t *list = json_object_get(k->start, "tables"), *item;
    json_array_foreach(list, i, item) {
        long long at = int_of(item, "mount");
        if (n >= MAX_MOUNTS || at < 0 || (size_t)at >= k->n_mounts)
            return err_set(err, ERR_PROTOCOL, "a table without its file");
        tables[n].name = str_of(item, "name");
        tables[n].db_path = jail_path(k->parts->jail, &k->mounts[at], paths[n], sizeof(paths[n]));
        n++;
    }
    struct sql_setup setup = {
        .dataset_id = str_of(k->start, "dataset_id"),
        .tables = tables,
        .n_tables = n,
        .memory_bytes = engine_memory(k),
        .threads = k->threads,
        .temp_directory = "/tmp",
    };
    return sql_engine_setup(k->parts->engine, &setup, err);
}

static int start(struct kernel *k, struct err *err)
{
    int r = read_mounts(k, err);
    if (r < 0)
        return r;
    struct jail_spec spec = {
        .mounts = k->mounts,
        .n_mounts = k->n_mounts,
        .workspace_bytes = int_of(k->start, "workspace_bytes"),
        .tmp_bytes = int_of(k->start, "tmp_bytes"),
        .inodes = int_of(k->start, "inodes"),
        .file_bytes = int_of(k->start, "file_bytes"),
        .pids = (int)int_of(k->start, "pids"),
        .open_files = (int)int_of(k->start, "open_files"),
    };
    k->memory_bytes = int_of(k->start, "memory_bytes");
    k->threads = (int)int_of(k->start, "threads");
    r = jail_close(k->parts->jail, &spec, err);
    close_mount_fds(k);
    if (r < 0)
        return r;
    sql_engine_defer(k->parts->engine, prepare_sql, k);
    return k->parts->has_python ? start_python(k, err) : 0;
}

/* ---- requests ---- */

/* Without namespaces cells work in the machine's /tmp, which is nobody's to list. */
static const char *workspace_root(const struct kernel *k)
{
    return jail_has_tree(k->parts->jail) ? "/workspace" : NULL;
}

static int run_exec(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    const json_t *code = json_object_get(req, "code");
    if (!json_is_string(code))
        return err_set(err, ERR_PROTOCOL, "a request without code");
    if (str_eq(str_of(req, "kind"), "sql")) {
        struct sql_request sql = {
            .sql = json_string_value(code),
            .sql_len = json_string_length(code),
            .policy = true,
            .max_rows = int_of(req, "max_rows"),
            .max_bytes = int_of(req, "max_bytes"),
        };
        int r = sql_engine_ready(k->parts->engine, err);
        return r < 0 ? r : sql_execute(k->parts->engine, &sql, out, err);
    }
    if (!k->parts->has_python)
        return err_set(err, ERR_PROTOCOL, "this kernel has no Python");
    struct python_request py = {
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .restricted = json_is_true(json_object_get(req, "restricted")),
        .svg = json_is_true(json_object_get(req, "svg")),
        .max_rows = int_of(req, "max_rows"),
        .max_output_bytes = int_of(req, "max_bytes"),
    };
    int r = python_execute(&py, out, err);
    if (r == 0)
        workspace_list(workspace_root(k), &out->json);
    return r;
}

static void ingest_progress(void *arg, double fraction)
{
    (void)arg;
    send_json(json_pack("{s:s, s:f}", "event", "progress", "fraction", fraction));
}

static int run_ingest(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    char file[600], db[600];
    if (k->n_mounts < 2)
        return err_set(err, ERR_PROTOCOL, "an ingest without its file");
    const char *out_dir = jail_path(k->parts->jail, &k->mounts[1], db, sizeof(db));
    char out_path[700];
    snprintf(out_path, sizeof(out_path), "%s/table.duckdb", out_dir);
    struct sql_ingest in = {
        .path = jail_path(k->parts->jail, &k->mounts[0], file, sizeof(file)),
        .name = str_of(req, "name"),
        .out_path = out_path,
        .threads = k->threads,
        .memory_bytes = engine_memory(k),
        .temp_directory = out_dir, /* on a disk, where /tmp is memory; what is left in it goes with it */
        .progress = ingest_progress,
    };
    nosync_set(json_is_true(json_object_get(req, "unsynced"))); /* this kernel does nothing else */
    return sql_ingest(k->parts->engine, &in, out, err);
}

static int run_profile(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    const char *table = str_of(req, "table");
    if (!table)
        return err_set(err, ERR_PROTOCOL, "a profile of no table");
    int r = sql_engine_ready(k->parts->engine, err);
    if (r < 0)
        return r;
    result_begin(out, WIRE_VERDICT_OK);
    json_out_key(&out->json, "profile");
    r = sql_profile(k->parts->engine, table, json_out_begin(&out->json), err);
    if (r == -ERR_CANCELLED)
        result_fail(out, WIRE_VERDICT_INTERRUPTED, "SQL_EXECUTION_ERROR", err->message);
    return r == -ERR_CANCELLED ? 0 : r;
}

static int run_list(struct kernel *k, struct result *out)
{
    result_begin(out, WIRE_VERDICT_OK);
    workspace_list(workspace_root(k), &out->json);
    return 0;
}

static void answer(struct kernel *k, const json_t *req)
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(result_finish))) struct result out;
    result_init(&out, WIRE_EVENT_MAX - 4096);
    int64_t begun = clock_now_us();
    atomic_store(&interruptible.busy, true);
    int r;
    if (str_eq(str_of(req, "op"), "exec"))
        r = run_exec(k, req, &out, &err);
    else if (str_eq(str_of(req, "op"), "ingest"))
        r = run_ingest(k, req, &out, &err);
    else if (str_eq(str_of(req, "op"), "profile"))
        r = run_profile(k, req, &out, &err);
    else if (str_eq(str_of(req, "op"), "list"))
        r = run_list(k, &out);
    else if (str_eq(str_of(req, "op"), "read"))
        r = workspace_read(workspace_root(k), req, emit, NULL, &out, &err);
    else if (str_eq(str_of(req, "op"), "write"))
        r = workspace_write(workspace_root(k), req, k->bytes.data, k->bytes.len, &out, &err);
    else
        r = err_set(&err, ERR_PROTOCOL, "unknown request '%s'", str_of(req, "op"));
    atomic_store(&interruptible.busy, false);
    if (r == 0) {
        json_out_key(&out.json, "exec_time_ms");
        json_out_fixed(&out.json, (double)(clock_now_us() - begun) / 1000, 3);
        json_out_key(&out.json, "event");
        json_out_text(&out.json, "result");
        json_out_key(&out.json, "id");
        json_out_int(&out.json, int_of(req, "id"));
        r = result_end(&out, &err);
    }
    if (r < 0)
        send_failed(&err);
    else
        send_event(out.json.text.data, out.json.text.len);
}

/* ---- life ---- */

/* Descriptors 0 to 3 are set and nothing else is left. */
static int take_fds(int control_fd, int stdout_fd, int stderr_fd, struct err *err)
{
    /* Out of the way first, so that no dup2 below overwrites one that is still needed. */
    int control = fcntl(control_fd, F_DUPFD, 10), out = fcntl(stdout_fd, F_DUPFD, 10),
        errout = fcntl(stderr_fd, F_DUPFD, 10);
    if (control < 0 || out < 0 || errout < 0)
        return err_errno(err, ERR_INTERNAL, errno, "duplicating descriptors");
    if (dup2(control, CONTROL_FD) < 0 || dup2(out, 1) < 0 || dup2(errout, 2) < 0)
        return err_errno(err, ERR_INTERNAL, errno, "placing descriptors");
    const int keep[] = { CONTROL_FD };
    return fd_close_all_but(3, keep, 1, err);
}

static void set_signals(const struct kernel_parts *parts)
{
    interruptible.engine = parts->engine;
    interruptible.has_python = parts->has_python;
    struct sigaction sa = { .sa_handler = on_sigint }; /* no SA_RESTART: a blocked call must notice */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* A write past the file-size limit is EFBIG, not death. */
    signal(SIGXFSZ, SIG_IGN);
}

/*
 * Under load a kernel is taken before the time is up, and then copies only the pages that its cells
 * write to.
 */
static void wait_in_pool(void)
{
    struct pollfd pfd = { .fd = CONTROL_FD, .events = POLLIN };
    if (poll(&pfd, 1, POOL_IDLE_MS) == 0)
        hot_pages_populate();
}

_Noreturn void kernel_main(const struct kernel_parts *parts, int control_fd, int stdout_fd, int stderr_fd)
{
    static struct kernel k; /* one per process; too large for a comfortable stack frame */
    struct err err = ERR_INIT;
    k.parts = parts;
    wire_reader_init(&k.reader, WIRE_REQUEST_MAX);
    k.reader.accept_fds = true;
    buf_init(&k.bytes, FILE_PIECE_MAX);
    int r = take_fds(control_fd, stdout_fd, stderr_fd, &err);
    if (r < 0)
        _exit(1);
    set_signals(parts);
    prctl(PR_SET_NAME, "riddle-kernel", 0, 0, 0);
    r = join_groups(&k, &err);
    if (r == 0)
        r = jail_box(parts->jail, &err);
    if (r == 0 && parts->has_python)
        r = python_prepare(&err);
    if (r == 0) {
        if (parts->pooled)
            wait_in_pool();
        k.start = next_request(&k);
        if (!k.start)
            _exit(0);
        if (!str_eq(str_of(k.start, "op"), "start"))
            r = err_set(&err, ERR_PROTOCOL, "the second request must be 'start'");
    }
    if (r == 0)
        r = start(&k, &err);
    if (r < 0) {
        send_failed(&err);
        _exit(1);
    }
    send_json(json_pack("{s:s, s:s}", "event", "ready", "missing", parts->jail->missing));

    json_t *req;
    while ((req = next_request(&k))) {
        answer(&k, req);
        json_decref(req);
        if (parts->answered)
            parts->answered();
    }
    _exit(0);
}
