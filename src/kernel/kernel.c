/*
 * One kernel. It boxes itself, waits to be told what it is for ("start"), closes its jail, and then
 * answers requests one at a time, by the table `ops`. docs/wire.md has the messages.
 *
 * While a request runs, SIGINT or an interrupt message stops the query and raises
 * KeyboardInterrupt; both are ignored when idle. A request that asks riddle (control.h) waits for
 * the reply where it is.
 */

#include "kernel/kernel_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/str.h"
#include "kernel/control.h"
#include "kernel/sql/export.h"
#include "kernel/ingest/nosync.h"
#include "kernel/ingest/read_options.h"
#include "kernel/python/rewind.h"
#include "kernel/workspace.h"
#include "kernel/zygote/hot_pages.h"
#include "sandbox/wire.h"
#include "sandbox/workspace_path.h"

#define POOL_IDLE_MS 200

/* A signal handler has no argument: what it may touch is here. */
static struct {
    struct sql_engine *engine;
    atomic_bool busy;
    bool has_python;
} interruptible;

/* Async-signal-safe. */
static void interrupt(void)
{
    if (!atomic_load(&interruptible.busy))
        return;
    sql_interrupt(interruptible.engine);
    if (interruptible.has_python)
        python_interrupt();
}

static void on_sigint(int sig)
{
    if (!rewind_pass_on(sig))
        interrupt();
}

/* ---- join ---- */

/* Waits for a message that has its place in the life of a kernel; what else comes ends it. */
static json_t *expect(enum wire_type type, struct err *err)
{
    struct control_message m;
    if (!control_next(&m))
        _exit(0);
    if (m.type == type)
        return m.body;
    json_decref(m.body);
    (void)err_set(err, ERR_PROTOCOL, "expected '%s', not '%s'", wire_message(type)->name,
                  wire_message(m.type)->name);
    return NULL;
}

/*
 * The first message: control groups that a process may enter by itself, as descriptors of their
 * files.
 */
static int join_groups(struct err *err)
{
    auto_json json_t *req = expect(WIRE_JOIN, err);
    if (!req)
        return -(int)err->code;
    for (long long n = int_of(req, "groups"); n > 0; n--) {
        auto_close int fd = control_take_fd();
        if (fd < 0)
            return err_set(err, ERR_PROTOCOL, "a control group without its descriptor");
        if (write(fd, "0", 1) != 1)
            return err_errno(err, ERR_ISOLATION, errno, "entering a control group");
    }
    return 0;
}

/* ---- start ---- */

static int read_mounts(struct kernel *k, struct err *err)
{
    json_t *list = json_object_get(k->start, "mounts"), *item;
    size_t i;
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
            m->fd = control_take_fd();
            if (m->fd < 0)
                return err_set(err, ERR_PROTOCOL, "a mount without its descriptor");
        }
    }
    return 0;
}

static void close_mount_fds(struct kernel *k)
{
    for (size_t i = 0; i < k->n_mounts; i++)
        if (k->mounts[i].fd >= 0)
            close(TAKE_FD(k->mounts[i].fd));
}

static void show(const char *json, size_t len)
{
    control_event(WIRE_DISPLAY, json, len);
}

/*
 * Code finds its files in its working directory as well, by their own names, and the first table's
 * file as data.csv; /data/outputs is there to write to. What cannot be linked is left out.
 */
static void link_files(const struct kernel *k)
{
    const json_t *first = json_array_get(json_object_get(k->start, "tables"), 0);
    const char *csv = NULL;
    char from[NAME_MAX + 16];

    if (!jail_has_tree(k->parts->jail))
        return;
    (void)mkdir(JAIL_OUTPUTS_DIR, 0755);
    (void)!symlink("/workspace/" JAIL_OUTPUTS_DIR, "/data/" JAIL_OUTPUTS); /* in a container */
    for (size_t i = 0; i < k->n_mounts; i++) {
        const char *name = k->mounts[i].target + strlen("data/");

        if (!str_starts(k->mounts[i].target, "data/") || strchr(name, '/'))
            continue;
        snprintf(from, sizeof(from), "/data/%s", name);
        (void)!symlink(from, name);
        /* The file of a table follows it. */
        if (first && i == (size_t)json_integer_value(json_object_get(first, "mount")) + 1 &&
            strlen(name) > 4 && strcasecmp(name + strlen(name) - 4, ".csv") == 0)
            csv = name;
    }
    if (csv) {
        snprintf(from, sizeof(from), "/data/%s", csv);
        (void)!symlink(from, "data.csv");
    }
}

static void send_steps(const char *json, size_t len)
{
    control_event(WIRE_STEPS, json, len);
}

/* Names and files of the tables. The paths are in `paths`. */
static int list_tables(struct kernel *k, struct sql_table tables[SANDBOX_TABLES_MAX],
                       char paths[MAX_MOUNTS][160], size_t *ret_n, struct err *err)
{
    size_t n = 0, i;
    json_t *list = json_object_get(k->start, "tables"), *item;
    json_array_foreach(list, i, item) {
        long long at = int_of(item, "mount");
        if (n >= SANDBOX_TABLES_MAX || at < 0 || (size_t)at >= k->n_mounts)
            return err_set(err, ERR_PROTOCOL, "a table without its file");
        tables[n].name = str_of(item, "name");
        tables[n].part = (size_t)int_of(item, "part");
        tables[n].db_path = jail_path(k->parts->jail, &k->mounts[at], paths[at], sizeof(paths[at]));
        n++;
    }
    *ret_n = n;
    return 0;
}

static int start_python(struct kernel *k, struct err *err)
{
    struct sql_table tables[SANDBOX_TABLES_MAX];
    char paths[MAX_MOUNTS][160];
    size_t n = 0;
    int r = list_tables(k, tables, paths, &n, err);
    if (r < 0)
        return r;
    struct python_setup setup = {
        .tables = tables,
        .n_tables = n,
        .policy_allowed = str_of(k->start, "python_allowed"),
        .policy_blocked = str_of(k->start, "python_blocked"),
        .agent = json_is_true(json_object_get(k->start, "agent")),
        .debugging = json_is_true(json_object_get(k->start, "debugging")),
        .display = show,
        .ask = control_ask,
        .reply = control_reply,
        .withdraw = control_withdraw,
        .steps = send_steps,
        .take_pause = control_take_pause,
        .adopt = control_adopter(),
    };
    rewind_limit((int)int_of(k->start, "pids"));
    link_files(k);
    return python_start(&setup, err);
}

/* DuckDB's own limit leaves room for the rest of the process below the cgroup's. */
static int64_t engine_memory(const struct kernel *k)
{
    return k->memory_bytes / 10 * 6;
}

/* On the disk if there is room for that, else in memory. */
static const char *spill_directory(const struct kernel *k, char *buf, size_t n)
{
    for (size_t i = 0; i < k->n_mounts; i++)
        if (k->mounts[i].writable)
            return jail_path(k->parts->jail, &k->mounts[i], buf, n);
    return "/tmp";
}

/* Attaches the tables and locks the engine: before the first statement, whoever it comes from. */
static int prepare_sql(void *arg, struct err *err)
{
    struct kernel *k = arg;
    struct sql_table tables[SANDBOX_TABLES_MAX];
    char paths[MAX_MOUNTS][160];
    size_t n = 0;
    int r = list_tables(k, tables, paths, &n, err);
    if (r < 0)
        return r;
    char spill[160];
    struct sql_setup setup = {
        .dataset_id = str_of(k->start, "dataset_id"),
        .tables = tables,
        .n_tables = n,
        .memory_bytes = engine_memory(k),
        .threads = k->threads,
        .temp_directory = spill_directory(k, spill, sizeof(spill)),
        .refused = k->exports_refused,
        .written_path = k->export ? sql_export_path(k->export) : NULL,
        .has_files = k->parts->has_python && jail_has_tree(k->parts->jail),
    };
    if (!str_eq(setup.temp_directory, "/tmp")) /* all that its files may hold together */
        setup.spill_bytes = int_of(k->start, "file_bytes");
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
    if (json_is_true(json_object_get(k->start, "interrupts")))
        r = control_watch(err);
    if (r == 0)
        r = jail_close(k->parts->jail, &spec, err);
    close_mount_fds(k);
    auto_close int portable = -1;
    if (r == 0 && json_is_true(json_object_get(k->start, "image")))
        r = kernel_restore(k, &portable, err);
    if (r < 0)
        return r;
    sql_engine_defer(k->parts->engine, prepare_sql, k);
    r = k->parts->has_python ? start_python(k, err) : 0;
    return r == 0 && portable >= 0 ? kernel_read_portable(k, portable, err) : r;
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
    const json_t *context = json_object_get(req, "context");
    const json_t *debug = json_object_get(req, "debug");
    auto_free char *variables = context ? json_to_str(context) : NULL;
    auto_free char *stepping = debug ? json_to_str(debug) : NULL;
    struct python_request py = {
        .code = json_string_value(code),
        .code_len = json_string_length(code),
        .restricted = json_is_true(json_object_get(req, "restricted")),
        .svg = json_is_true(json_object_get(req, "svg")),
        .max_rows = int_of(req, "max_rows"),
        .max_output_bytes = int_of(req, "max_bytes"),
        .context = variables,
        .debug = stepping,
    };
    int r = python_execute(&py, out, err);
    if (r == 0)
        workspace_list(workspace_root(k), &out->json);
    return r;
}

static void ingest_progress(void *arg, double fraction)
{
    (void)arg;
    char text[64];
    int n = snprintf(text, sizeof(text), "{\"fraction\":%.4f}",
                     fraction < 0 ? 0.0 :
                     fraction > 1 ? 1.0 :
                                    fraction);
    control_event(WIRE_PROGRESS, text, (size_t)n);
}

static int run_ingest(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    char file[600], db[600];
    if (k->n_mounts < 2)
        return err_set(err, ERR_PROTOCOL, "an ingest without its file");
    const char *out_dir = jail_path(k->parts->jail, &k->mounts[1], db, sizeof(db));
    char out_path[700];
    snprintf(out_path, sizeof(out_path), "%s/table.duckdb", out_dir);
    struct read_options options;
    struct err refused = ERR_INIT;
    if (read_options_parse(json_object_get(req, "options"), &options, &refused) < 0) {
        result_fail(out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", refused.message);
        return 0;
    }
    struct sql_ingest in = {
        .options = &options,
        .path = jail_path(k->parts->jail, &k->mounts[0], file, sizeof(file)),
        .name = str_of(req, "name"),
        .out_path = out_path,
        .threads = k->threads,
        .memory_bytes = engine_memory(k),
        .temp_directory =
            out_dir, /* on a disk, where /tmp is memory; what is left in it goes with it */
        .progress = ingest_progress,
    };
    /* Of a command that runs once: its answer waits for as little as possible. */
    bool unsynced = json_is_true(json_object_get(req, "unsynced"));
    in.stores_frames = !unsynced;
    nosync_set(unsynced); /* this kernel does nothing else */
    return sql_ingest(k->parts->engine, &in, out, err);
}

static int run_list(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    (void)err;
    result_begin(out, WIRE_VERDICT_OK);
    workspace_list(workspace_root(k), &out->json);
    if (k->parts->has_python && json_is_true(json_object_get(req, "variables")))
        python_state(out);
    if (k->not_kept[0]) {
        json_out_key(&out->json, "not_kept");
        json_out_str(&out->json, k->not_kept, strlen(k->not_kept));
        k->not_kept[0] = 0;
    }
    if (k->is_ported) {
        json_out_key(&out->json, "ported");
        json_out_bool(&out->json, true);
        k->is_ported = false;
    }
    if (k->no_image[0]) {
        json_out_key(&out->json, "no_image");
        json_out_str(&out->json, k->no_image, strlen(k->no_image));
        k->no_image[0] = 0;
    }
    return 0;
}

static void send_bytes(const char *bytes, size_t len)
{
    control_event(WIRE_BYTES, bytes, len);
}

static int run_read(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    (void)err;
    workspace_read(workspace_root(k), req, send_bytes, out);
    return 0;
}

static int run_write(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    const struct buf *bytes = control_bytes();
    (void)err;
    workspace_write(workspace_root(k), req, buf_cstr(bytes), bytes->len, out);
    return 0;
}

void kernel_tell_ready(const struct kernel_parts *parts)
{
    control_set_state(WIRE_IDLE, 0);
    control_send_json(
        WIRE_READY, 0,
        json_pack("{s:i, s:s}", "version", WIRE_VERSION, "missing", parts->jail->missing));
}

/*
 * The engine is set up with the one file that it may write: an export comes before any other
 * statement.
 */
static int begin_export(struct kernel *k, const json_t *req, struct result *out, bool *ret_begun,
                        struct err *err)
{
    int format = export_format_from_name(str_of(req, "format"));
    if (k->export || format < 0 || sql_engine_is_ready(k->parts->engine))
        return err_set(err, ERR_PROTOCOL, "an export is the first request of its kernel");
    struct export_request export = { .sql = str_of(req, "sql"),
                                     .format = (enum export_format)format,
                                     .plain = json_is_true(json_object_get(req, "plain")) };
    int r = sql_export_create(&k->export, err);
    k->exports_refused = json_is_true(json_object_get(req, "refused"));
    if (r == 0)
        r = sql_engine_ready(k->parts->engine, err);
    return r < 0 ? r : sql_export_begin(k->export, k->parts->engine, &export, out, ret_begun, err);
}

static int run_export(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    bool begun = true;
    size_t n = 0;
    int r = 0;
    if (json_is_string(json_object_get(req, "sql")))
        r = begin_export(k, req, out, &begun, err);
    else if (!k->export)
        r = err_set(err, ERR_PROTOCOL, "there is no export to go on with");
    if (r < 0 || !begun)
        return r;
    auto_free char *bytes = malloc(FILE_PIECE_MAX);
    if (!bytes)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    result_begin(out, WIRE_VERDICT_OK);
    r = sql_export_read(k->export, bytes, FILE_PIECE_MAX, &n, out, err);
    if (r < 0 || out->verdict != WIRE_VERDICT_OK)
        return r;
    if (n > 0)
        send_bytes(bytes, n);
    k->exported += (int64_t)n;
    json_out_key(&out->json, "size");
    json_out_int(&out->json, k->exported);
    json_out_key(&out->json, "bytes");
    json_out_int(&out->json, (int64_t)n);
    return 0;
}

/*
 * Requests of a kernel that is ready. When each is permitted, and what is in it, is in
 * sandbox/wire_table.c.
 */
static const struct {
    enum wire_type type;
    int (*run)(struct kernel *k, const json_t *req, struct result *out, struct err *err);
} ops[] = {
    { WIRE_EXEC, run_exec },   { WIRE_INGEST, run_ingest },
    { WIRE_LIST, run_list },   { WIRE_READ, run_read },     { WIRE_WRITE, run_write },
    { WIRE_IMAGE, kernel_run_image }, { WIRE_EXPORT, run_export },
};

static int run(struct kernel *k, const struct control_message *m, struct result *out,
               struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
        if (ops[i].type == m->type)
            return ops[i].run(k, m->body, out, err);
    return err_set(err, ERR_PROTOCOL, "'%s' is no request", wire_message(m->type)->name);
}

/* An answer that does not fit is a result that says so. */
static int end_result(struct result *out, int64_t begun_us, struct err *err)
{
    double ms = (double)(clock_now_us() - begun_us) / 1000;
    int r = json_out_status(&out->json, err);
    if (r == -ERR_TOO_LARGE)
        result_fail(out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR",
                    "the result is too large; ask for fewer columns or shorter names");
    else if (r < 0)
        return r;
    json_out_key(&out->json, "exec_time_ms");
    json_out_fixed(&out->json, ms, 3);
    return result_end(out, err);
}

static void answer(struct kernel *k, const struct control_message *m)
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(result_finish))) struct result out;
    enum wire_type type = wire_message(m->type)->answer;
    result_init(&out, type == WIRE_RESULT ? wire_result_bytes(int_of(m->body, "max_bytes")) :
                                            wire_message(type)->max_bytes);
    int64_t begun = clock_now_us();
    control_set_state(WIRE_BUSY, m->id);
    atomic_store(&interruptible.busy, true);
    control_watch_now();
    int r = run(k, m, &out, &err);
    atomic_store(&interruptible.busy, false);
    if (r > 0)
        return;
    if (r == 0)
        r = end_result(&out, begun, &err);
    control_set_state(WIRE_IDLE, 0);
    if (r < 0)
        control_send_failed(m->id, &err);
    else
        control_send(type, m->id, out.json.text.data, out.json.text.len);
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
    /* no SA_RESTART: a blocked call must notice */
    struct sigaction sa = { .sa_handler = on_sigint };
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

_Noreturn void kernel_main(const struct kernel_parts *parts, int control_fd, int stdout_fd,
                           int stderr_fd)
{
    static struct kernel k; /* one per process; too large for a comfortable stack frame */
    struct err err = ERR_INIT;
    struct control_message m;
    k.parts = parts;
    control_open(interrupt);
    int r = take_fds(control_fd, stdout_fd, stderr_fd, &err);
    if (r < 0)
        _exit(1);
    set_signals(parts);
    prctl(PR_SET_NAME, "riddle-kernel", 0, 0, 0);
    r = join_groups(&err);
    if (r == 0)
        r = jail_box(parts->jail, &err);
    if (r == 0 && parts->has_python)
        r = python_prepare(&err);
    if (r == 0) {
        if (parts->pooled)
            wait_in_pool();
        control_set_state(WIRE_BOXED, 0);
        k.start = expect(WIRE_START, &err);
        control_set_state(WIRE_STARTING, 0);
        r = k.start ? start(&k, &err) : -(int)err.code;
    }
    if (r < 0) {
        control_send_failed(0, &err);
        _exit(1);
    }
    kernel_tell_ready(parts);

    while (control_next(&m)) {
        answer(&k, &m);
        json_decref(m.body);
        kernel_reap_companion(&k);
        if (parts->answered)
            parts->answered();
    }
    _exit(0);
}
