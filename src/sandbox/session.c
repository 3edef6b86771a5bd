/*
 * A sandbox: one kernel and the run under way in it.
 *
 * States of a run: RUNNING until the kernel answers, its time is up, it floods its output or someone interrupts; then INTERRUPTING:
 * SIGINT, again every 100 ms, so that a cell that swallows one gets the next; then, when it has not yielded within the grace,
 * KILLING: SIGKILL to the first process of the pid namespace, which takes all the others with it. What is told is why the stop
 * was begun, whether state was kept, and nothing that the kernel only claims.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local/local_impl.h"
#include "sandbox/local/watchdog.h"
#include "sandbox/workspace.h"

#define INTERRUPT_GRACE_MS 800
#define INTERRUPT_AGAIN_MS 100
/* Without control groups memory is looked at this often, or more seldom where looking takes long. */
#define SPIN_US 200
#define WATCHDOG_MS 10
#define WATCHDOG_SHARE 10
/* A request that the kernel does not take at once is offered again after this while. */
#define REQUEST_AGAIN_MS 2
/* Output beyond the limit is cut; a cell that goes on to this many times as much is stopped. */
#define FLOOD_FACTOR 64
#define FLOOD_MIN_BYTES (4 << 20)
/* Frames taken in one go: a kernel that never stops sending must not keep the event loop to itself. */
#define FRAMES_PER_ADVANCE 64

enum run_state { STATE_IDLE, STATE_RUNNING, STATE_INTERRUPTING, STATE_KILLING };

struct sandbox {
    struct provider *provider;
    struct kernel_proc kernel;
    struct wire_reader reader;
    struct sandbox_limits limits;
    bool ready;     /* the kernel has said that its jail is closed */
    bool dead;      /* reaped */
    int wait_status;
    struct rusage usage;

    enum run_state state;
    int64_t run_id;           /* echoed by the kernel: an answer to anything else is dropped */
    enum verdict stop_reason; /* why INTERRUPTING or KILLING began */
    int64_t deadline_ms;      /* of the state */
    int64_t kill_ms;          /* end of the grace */
    int64_t begun_us, cpu_begun_us;
    int64_t max_output_bytes;
    int64_t output_bytes;     /* seen, kept or not */
    int64_t pids_refused, oom_kills;
    struct run_events events;
    struct buf request;       /* the frame of the run, and how much of it has been sent */
    size_t request_sent;
    struct run_result result; /* being collected */
    size_t display_bytes;
    int64_t start_us, load_us;
    json_t *rejects;
    bool is_exec;             /* only a run tells what loading took and left out */
    bool watch_memory;  /* no control group does */
    int64_t watch_at_ms; /* next look */
    bool held;          /* stopped until the next run: nobody watches an idle kernel */
};

/* ---- names ---- */

static const char *const verdict_names[_VERDICT_MAX] = {
#define X(code, name) [VERDICT_##code] = name,
    VERDICT_LIST(X)
#undef X
};

const char *verdict_name(enum verdict v)
{
    return v < _VERDICT_MAX ? verdict_names[v] : "unknown";
}

int verdict_from_name(const char *name)
{
    for (int i = 0; name && i < _VERDICT_MAX; i++)
        if (str_eq(verdict_names[i], name))
            return i;
    return -1;
}

void run_result_finish(struct run_result *r)
{
    json_decref(r->body);
    json_decref(r->displays);
    buf_finish(&r->bytes);
    buf_finish(&r->out);
    buf_finish(&r->errout);
    memset(r, 0, sizeof(*r));
}

/* ---- start and end ---- */

static json_t *start_frame(struct provider *p, const struct sandbox_start *s, int *fds, size_t *n_fds)
{
    json_t *mounts = json_array(), *tables = json_array();
    for (size_t i = 0; i < s->n_shown; i++) {
        const struct shown_file *f = &s->shown[i];
        json_array_append_new(mounts, json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "target", f->target, "path", f->path,
                                                "dev", (json_int_t)f->dev, "ino", (json_int_t)f->ino, "fd",
                                                f->mount_fd >= 0, "writable", f->writable));
        if (f->mount_fd >= 0)
            fds[(*n_fds)++] = f->mount_fd;
    }
    for (size_t i = 0; i < s->n_tables; i++)
        json_array_append_new(tables, json_pack("{s:s, s:I}", "name", s->tables[i].name, "mount",
                                                (json_int_t)s->tables[i].shown));
    const struct sandbox_limits *l = &s->limits;
    return json_pack("{s:s, s:s?, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s}", "op", "start",
                     "dataset_id", s->dataset_id, "mounts", mounts, "tables", tables, "memory_bytes",
                     (json_int_t)l->memory_bytes, "workspace_bytes", (json_int_t)l->workspace_bytes, "tmp_bytes",
                     (json_int_t)l->tmp_bytes, "inodes", (json_int_t)l->inodes, "file_bytes",
                     (json_int_t)l->file_bytes, "pids", l->pids, "open_files", l->open_files, "threads", s->threads,
                     "python_allowed", p->cfg->python_allowed, "python_blocked", p->cfg->python_blocked);
}

int sandbox_start(struct provider *p, struct kernel_proc *k, const struct sandbox_start *start,
                  struct sandbox **ret, struct err *err)
{
    struct sandbox *sb = calloc(1, sizeof(*sb));
    int fds[2 * SANDBOX_FILES_MAX + 2];
    size_t n_fds = 0;
    auto_json json_t *frame = start_frame(p, start, fds, &n_fds);
    int r = 0;
    if (!sb || !frame)
        r = err_set(err, ERR_INTERNAL, "a file name or dataset id is not valid UTF-8");
    if (r == 0)
        r = wire_send_json(k->control, frame, fds, n_fds, err);
    if (r < 0) {
        kernel_kill(k);
        free(sb);
        return err_wrap(err, "starting a kernel");
    }
    sb->provider = p;
    sb->kernel = *k;
    *k = (struct kernel_proc)KERNEL_PROC_NONE;
    sb->limits = start->limits;
    wire_reader_init(&sb->reader, WIRE_EVENT_MAX);
    buf_init(&sb->request, WIRE_REQUEST_MAX + 4);
    sb->watch_memory = p->cgroups.at[CGROUP_MEMORY].version == 0;
    *ret = sb;
    return 0;
}

void sandbox_set_load(struct sandbox *sb, int64_t start_us, int64_t load_us, json_t *rejects)
{
    sb->start_us = start_us;
    sb->load_us = load_us;
    json_decref(sb->rejects);
    sb->rejects = rejects;
}

void sandbox_destroy(struct sandbox *sb)
{
    if (!sb)
        return;
    if (sb->dead)
        sb->kernel.pid = 0;
    kernel_kill(&sb->kernel);
    wire_reader_finish(&sb->reader);
    buf_finish(&sb->request);
    run_result_finish(&sb->result);
    json_decref(sb->rejects);
    free(sb);
}

bool sandbox_alive(const struct sandbox *sb)
{
    return !sb->dead;
}

int sandbox_pidfd(const struct sandbox *sb)
{
    return sb->kernel.pidfd;
}

pid_t sandbox_pid(const struct sandbox *sb)
{
    return sb->dead ? 0 : sb->kernel.pid;
}

/* ---- a run ---- */

/* Processor time of the kernel so far, its ended children not included while it lives. */
static int64_t cpu_us(const struct sandbox *sb)
{
    clockid_t clock;
    struct timespec t;
    if (sb->dead)
        return (int64_t)(sb->usage.ru_utime.tv_sec + sb->usage.ru_stime.tv_sec) * 1000000 + sb->usage.ru_utime.tv_usec +
               sb->usage.ru_stime.tv_usec;
    if (clock_getcpuclockid(sb->kernel.pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}


/*
 * Sends what the kernel takes now. User code may have left it so that it takes nothing ever: the rest waits, and the run's time
 * goes on. 0, or UNAVAILABLE when nobody is there to take it.
 */
static int send_request(struct sandbox *sb, struct err *err)
{
    while (sb->request_sent < sb->request.len && sb->kernel.control >= 0) {
        ssize_t n = send(sb->kernel.control, sb->request.data + sb->request_sent, sb->request.len - sb->request_sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            sb->request_sent += (size_t)n;
        else if (n < 0 && errno != EINTR)
            return errno == EAGAIN ? 0 : err_errno(err, ERR_UNAVAILABLE, errno, "sending a request to the kernel");
    }
    return 0;
}

/* The length of the frame that begins at `at` and ends here. */
static void close_frame(struct buf *b, size_t at)
{
    size_t len = b->len - at - 4;
    for (size_t i = 0; i < 4; i++)
        b->data[at + i] = (char)(len >> (8 * i));
}

static int write_request(struct sandbox *sb, const json_t *request, const void *bytes, size_t n_bytes, struct err *err)
{
    struct buf *b = &sb->request;
    buf_clear(b);
    sb->request_sent = 0;
    int r = 0;
    if (n_bytes) {
        r = buf_append(b, "\0\0\0\0", 5, err); /* a length, and the NUL that says bytes */
        if (r == 0)
            r = buf_append(b, bytes, n_bytes, err);
        if (r == 0)
            close_frame(b, 0);
    }
    size_t at = b->len;
    if (r == 0)
        r = buf_append(b, "\0\0\0\0", 4, err);
    if (r == 0)
        r = json_write(request, b, err);
    if (r < 0)
        return err_wrap(err, "sending a request to the kernel");
    close_frame(b, at);
    return 0;
}

/* Without control groups an idle kernel does nothing: what its cells left running would take memory unseen. */
static void hold(struct sandbox *sb)
{
    if (!sb->watch_memory || sb->dead || sb->kernel.pidfd < 0)
        return;
    sb->held = true;
    if (!watchdog_stop(sb->kernel.pid, sb->limits.pids))
        (void)proc_pidfd_signal(sb->kernel.pidfd, SIGKILL, NULL);
}

static void release(struct sandbox *sb)
{
    if (sb->held)
        watchdog_continue(sb->kernel.pid, sb->limits.pids);
    sb->held = false;
}

int sandbox_begin_json(struct sandbox *sb, json_t *request, int64_t timeout_ms, int64_t max_output_bytes,
                       const struct run_events *events, struct err *err)
{
    return sandbox_begin_bytes(sb, request, NULL, 0, 0, timeout_ms, max_output_bytes, events, err);
}

int sandbox_begin_bytes(struct sandbox *sb, json_t *request, const void *bytes, size_t n_bytes, size_t max_bytes_back,
                        int64_t timeout_ms, int64_t max_output_bytes, const struct run_events *events, struct err *err)
{
    if (sb->state != STATE_IDLE)
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    if (sb->dead)
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    json_object_set_new(request, "id", json_integer(++sb->run_id));
    sb->is_exec = str_eq(json_string_value(json_object_get(request, "op")), "exec");
    int r = write_request(sb, request, bytes, n_bytes, err);
    int64_t begun_us = clock_now_us(); /* before it is sent: an answer may come before this thread runs again */
    if (r == 0)
        r = send_request(sb, err);
    if (r < 0)
        return r;
    release(sb);
    run_result_finish(&sb->result);
    buf_init(&sb->result.bytes, max_bytes_back);
    buf_init(&sb->result.out, (size_t)max_output_bytes);
    buf_init(&sb->result.errout, (size_t)max_output_bytes);
    sb->result.displays = json_array();
    sb->display_bytes = 0;
    sb->output_bytes = 0;
    sb->max_output_bytes = max_output_bytes;
    sb->events = events ? *events : (struct run_events){ 0 };
    sb->pids_refused = cgroup_pids_refused(&sb->kernel.group);
    sb->oom_kills = cgroup_oom_kills(&sb->kernel.group);
    sb->begun_us = begun_us;
    sb->cpu_begun_us = cpu_us(sb);
    sb->deadline_ms = clock_now_ms() + timeout_ms;
    sb->watch_at_ms = clock_now_ms() + WATCHDOG_MS;
    sb->stop_reason = VERDICT_OK;
    sb->state = STATE_RUNNING;
    return 0;
}

int sandbox_begin(struct sandbox *sb, const struct run_request *req, const struct run_events *events,
                  struct err *err)
{
    json_t *code = json_stringn(req->code, req->code_len);
    if (!code)
        return err_set(err, ERR_VALIDATION, "the code is not valid UTF-8");
    auto_json json_t *frame =
        json_pack("{s:s, s:s, s:o, s:b, s:b, s:I, s:I}", "op", "exec", "kind",
                  req->kind == RUN_PYTHON ? "python" : "sql", "code", code, "restricted",
                  req->policy == POLICY_RESTRICTED, "svg", req->svg, "max_rows", (json_int_t)req->max_rows,
                  "max_bytes", (json_int_t)req->max_output_bytes);
    if (!frame)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return sandbox_begin_json(sb, frame, req->timeout_ms, req->max_output_bytes, events, err);
}

static void signal_kernel(struct sandbox *sb, int sig)
{
    if (!sb->dead && sb->kernel.pidfd >= 0)
        (void)proc_pidfd_signal(sb->kernel.pidfd, sig, NULL);
}

static void begin_kill(struct sandbox *sb, enum verdict reason)
{
    if (sb->state != STATE_INTERRUPTING)
        sb->stop_reason = reason;
    sb->state = STATE_KILLING;
    sb->deadline_ms = -1;
    signal_kernel(sb, SIGKILL);
}

static void begin_interrupt(struct sandbox *sb, enum verdict reason)
{
    if (sb->state != STATE_RUNNING)
        return;
    int64_t now = clock_now_ms();
    sb->state = STATE_INTERRUPTING;
    sb->stop_reason = reason;
    sb->deadline_ms = now + INTERRUPT_AGAIN_MS;
    sb->kill_ms = now + INTERRUPT_GRACE_MS;
    signal_kernel(sb, SIGINT);
}

/* After a broken protocol nothing that the kernel says can be used: it is killed, and the sandbox is dead. */
static void sandbox_abandon(struct sandbox *sb)
{
    signal_kernel(sb, SIGKILL);
    while (!sb->dead && wait4(sb->kernel.pid, &sb->wait_status, 0, &sb->usage) < 0 && errno == EINTR)
        ;
    sb->dead = true;
    sb->state = STATE_IDLE;
}

void sandbox_interrupt(struct sandbox *sb)
{
    if (sb->state == STATE_RUNNING)
        begin_interrupt(sb, VERDICT_KILLED);
}

/* ---- what the kernel sends ---- */

static void take_output(struct sandbox *sb, bool is_stderr, const char *data, size_t len)
{
    struct buf *b = is_stderr ? &sb->result.errout : &sb->result.out;
    bool *cut = is_stderr ? &sb->result.errout_truncated : &sb->result.out_truncated;
    size_t room = (size_t)sb->max_output_bytes - b->len;
    size_t keep = MIN_OF(len, room);
    sb->output_bytes += (int64_t)len;
    if (keep && buf_append(b, data, keep, NULL) == 0 && sb->events.output)
        sb->events.output(sb->events.arg, is_stderr, data, keep);
    if (keep < len)
        *cut = true;
    int64_t flood = MAX_OF((int64_t)FLOOD_MIN_BYTES, sb->max_output_bytes * FLOOD_FACTOR);
    if (sb->output_bytes > flood)
        begin_interrupt(sb, VERDICT_OUTPUT);
}

/* Reads a pipe until it is empty, or for a while if it never is. */
static void drain(struct sandbox *sb, bool is_stderr)
{
    int *fd = is_stderr ? &sb->kernel.errout : &sb->kernel.out;
    char chunk[65536];
    for (int i = 0; *fd >= 0 && i < 64; i++) {
        ssize_t n = read(*fd, chunk, sizeof(chunk));
        if (n > 0) {
            take_output(sb, is_stderr, chunk, (size_t)n);
        } else if (n == 0) {
            close(*fd);
            *fd = -1;
        } else {
            return;
        }
    }
}

static bool is_string_array(const json_t *a)
{
    size_t i;
    json_t *v;
    if (!json_is_array(a))
        return false;
    json_array_foreach(a, i, v) {
        if (!json_is_string(v))
            return false;
    }
    return true;
}

/* A kernel may say anything; a result that is not of the agreed shape is not passed on. */
static int check_result(const json_t *body, enum verdict *ret_verdict, bool *ret_interrupted, struct err *err)
{
    const char *name = json_string_value(json_object_get(body, "verdict"));
    const json_t *columns = json_object_get(body, "columns"), *rows = json_object_get(body, "rows");
    const json_t *error = json_object_get(body, "error");
    *ret_interrupted = str_eq(name, "interrupted");
    int v = *ret_interrupted ? VERDICT_KILLED : verdict_from_name(name);
    bool good = v >= 0;
    if (columns)
        good = good && is_string_array(columns);
    if (rows) {
        size_t i, width = json_array_size(columns);
        json_t *row;
        good = good && json_is_array(rows);
        json_array_foreach(rows, i, row) {
            good = good && json_is_array(row) && json_array_size(row) == width;
        }
    }
    if (error && !json_is_null(error))
        good = good && json_is_string(json_object_get(error, "type")) &&
               json_is_string(json_object_get(error, "message"));
    if (!good || !workspace_files_ok(body))
        return err_set(err, ERR_PROTOCOL, "the kernel sent a result of the wrong shape");
    *ret_verdict = (enum verdict)v;
    return 0;
}

static void set_error(struct sandbox *sb, const char *type, const char *message)
{
    if (!sb->result.body)
        sb->result.body = json_pack("{s:[], s:[], s:[], s:i, s:b}", "columns", "types", "rows", "row_count", 0,
                                    "truncated", 0);
    json_object_set_new(sb->result.body, "error", json_pack("{s:s, s:s}", "type", type, "message", message));
}

/* The run is over and sb->result complete but for what is measured. */
static void finish(struct sandbox *sb, struct run_result *ret)
{
    struct run_result *r = &sb->result;
    r->execute_us = clock_now_us() - sb->begun_us;
    if (sb->is_exec) {
        r->start_us = sb->start_us;
        r->load_us = sb->load_us;
        sb->start_us = sb->load_us = 0;
        if (sb->rejects && json_array_size(sb->rejects))
            json_object_set(r->body, "rejects", sb->rejects);
        json_decref(sb->rejects);
        sb->rejects = NULL;
    }
    r->peak_memory_bytes = cgroup_peak_memory(&sb->kernel.group);
    r->cpu_us = MAX_OF(0, cpu_us(sb) - sb->cpu_begun_us);
    *ret = *r;
    memset(r, 0, sizeof(*r));
    sb->state = STATE_IDLE;
    buf_clear(&sb->request);
    sb->request_sent = 0;
    hold(sb);
}

/* The kernel answered. Decides the verdict from its word and from what we saw happen. */
static int take_result(struct sandbox *sb, json_t *body, struct run_result *ret, struct err *err)
{
    struct run_result *r = &sb->result;
    bool interrupted = false;
    int rc = check_result(body, &r->verdict, &interrupted, err);
    if (rc < 0)
        return rc;
    json_decref(r->body);
    r->body = json_incref(body);
    /* What it wrote before its answer is in the pipes by now. */
    drain(sb, false);
    drain(sb, true);
    if (interrupted) {
        r->interrupted = true;
        r->verdict = sb->stop_reason == VERDICT_OK ? VERDICT_KILLED : sb->stop_reason;
        char message[160];
        snprintf(message, sizeof(message), "the run was interrupted; variables of earlier runs are kept");
        set_error(sb, "KILLED", message);
    } else if (r->verdict == VERDICT_ERROR) {
        /* An exception whose cause is a limit is that limit's verdict. */
        if (cgroup_oom_kills(&sb->kernel.group) > sb->oom_kills)
            r->verdict = VERDICT_MEMORY;
        else if (cgroup_pids_refused(&sb->kernel.group) > sb->pids_refused)
            r->verdict = VERDICT_PROCESSES;
    }
    finish(sb, ret);
    return 1;
}

static void take_display(struct sandbox *sb, json_t *data)
{
    static const char *const keys[] = { "text", "html", "png", "svg", "json", "data", "chart" };
    json_t *clean = json_object();
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        json_t *v = json_object_get(data, keys[i]);
        bool structured = i >= 4;
        if (v && (structured || json_is_string(v))) {
            json_object_set(clean, keys[i], v);
            bytes += json_string_length(v);
        }
    }
    if (json_array_size(sb->result.displays) < DISPLAYS_MAX && sb->display_bytes + bytes <= DISPLAY_BYTES_MAX) {
        sb->display_bytes += bytes;
        json_array_append(sb->result.displays, clean);
        if (sb->events.display)
            sb->events.display(sb->events.arg, clean);
    }
    json_decref(clean);
}

/* Those of the answer that follows. More than was asked for, or any that nobody asked for, are nobody's. */
static void take_bytes(struct sandbox *sb, const char *bytes, size_t len)
{
    buf_clear(&sb->result.bytes);
    (void)buf_append(&sb->result.bytes, bytes, len, NULL);
}

/* Once: all kernels of a zygote go without the same layers. */
static void tell_missing(struct provider *p, const char *missing)
{
    if (!missing || !*missing || p->told_missing)
        return;
    p->told_missing = true;
    log_warn("kernel.partial", LOG_STR("missing", missing));
}

/* 1: the run ended; 0: go on; negative: the kernel broke the protocol or could not start. */
static int take_event(struct sandbox *sb, const char *text, size_t len, struct run_result *ret, struct err *err)
{
    auto_json json_t *msg = NULL;
    if (wire_is_bytes(text, len)) {
        take_bytes(sb, text + 1, len - 1);
        return 0;
    }
    int r = json_parse(text, len, &msg, err);
    if (r < 0)
        return err_set(err, ERR_PROTOCOL, "the kernel sent something that is not JSON");
    const char *event = json_string_value(json_object_get(msg, "event"));
    if (str_eq(event, "ready")) {
        sb->ready = true;
        tell_missing(sb->provider, json_string_value(json_object_get(msg, "missing")));
        return 0;
    }
    if (str_eq(event, "failed")) {
        const json_t *error = json_object_get(msg, "error");
        const char *message = json_string_value(json_object_get(error, "message"));
        const char *type = json_string_value(json_object_get(error, "type"));
        enum err_code code = sb->ready ? ERR_INTERNAL : ERR_ISOLATION;
        if (str_eq(type, err_name(ERR_CONFLICT)))
            code = ERR_CONFLICT;
        return err_set(err, code, "%s", message ? message : "the kernel failed");
    }
    if (sb->state == STATE_IDLE)
        return 0; /* a word after the end of a run is nobody's */
    if (str_eq(event, "result") && json_integer_value(json_object_get(msg, "id")) != sb->run_id)
        return 0;
    if (str_eq(event, "result"))
        return take_result(sb, msg, ret, err);
    if (str_eq(event, "display")) {
        take_display(sb, json_object_get(msg, "data"));
    } else if (str_eq(event, "progress")) {
        double f = json_number_value(json_object_get(msg, "fraction"));
        if (sb->events.progress && isfinite(f))
            sb->events.progress(sb->events.arg, "ingest", f < 0 ? 0 : f > 1 ? 1 : f);
    }
    return 0;
}

/* ---- the kernel's death ---- */

static bool reap(struct sandbox *sb)
{
    if (sb->dead)
        return true;
    pid_t pid = wait4(sb->kernel.pid, &sb->wait_status, WNOHANG, &sb->usage);
    if (pid == 0 || (pid < 0 && errno != ECHILD))
        return false;
    sb->dead = true;
    return true;
}

static void describe_death(struct sandbox *sb, enum verdict *ret_verdict, char *message, size_t n)
{
    char how[80];
    proc_describe_exit(sb->wait_status, how, sizeof(how));
    int sig = WIFSIGNALED(sb->wait_status) ? WTERMSIG(sb->wait_status) : 0;
    bool stopped = sb->state == STATE_INTERRUPTING || sb->state == STATE_KILLING;
    if (stopped && sb->stop_reason != VERDICT_MEMORY) {
        *ret_verdict = sb->stop_reason;
        snprintf(message, n, "the run did not yield and its kernel was killed; its variables are lost");
    } else if (stopped || cgroup_oom_kills(&sb->kernel.group) > sb->oom_kills) {
        *ret_verdict = VERDICT_MEMORY;
        snprintf(message, n, "the run needed more than its %lld MB of memory; its variables are lost",
                 (long long)(sb->limits.memory_bytes >> 20));
    } else if (sig == SIGSYS) {
        *ret_verdict = VERDICT_POLICY;
        snprintf(message, n, "the code made a system call that the sandbox does not allow; its variables are lost");
    } else if (sig == SIGXFSZ) {
        *ret_verdict = VERDICT_FILESIZE;
        snprintf(message, n, "the code wrote a file past its size limit; its variables are lost");
    } else {
        *ret_verdict = VERDICT_KILLED;
        snprintf(message, n, "the kernel ended by itself (%s); its variables are lost", how);
    }
}

static int take_death(struct sandbox *sb, struct run_result *ret, struct err *err)
{
    char message[256];
    drain(sb, false);
    drain(sb, true);
    if (!sb->ready && sb->state == STATE_RUNNING)
        return err_set(err, ERR_ISOLATION, "the kernel ended while its jail was being closed");
    enum verdict verdict;
    describe_death(sb, &verdict, message, sizeof(message));
    sb->result.verdict = verdict;
    sb->result.state_lost = true;
    json_decref(sb->result.body);
    sb->result.body = NULL;
    set_error(sb, "KILLED", message);
    finish(sb, ret);
    return 1;
}

/* ---- the loop's half ---- */

size_t sandbox_poll_fds(struct sandbox *sb, struct pollfd fds[SANDBOX_POLL_MAX], int64_t *ret_deadline_ms)
{
    size_t n = 0;
    const int list[] = { sb->kernel.control, sb->kernel.out, sb->kernel.errout, sb->kernel.pidfd };
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        if (list[i] >= 0)
            fds[n++] = (struct pollfd){ .fd = list[i], .events = POLLIN };
    *ret_deadline_ms = sb->state == STATE_IDLE ? -1 : sb->deadline_ms;
    if (sb->state != STATE_RUNNING && sb->state != STATE_INTERRUPTING)
        return n;
    const char *text;
    size_t len;
    int64_t now = clock_now_ms();
    if (sb->watch_memory && sb->state == STATE_RUNNING)
        *ret_deadline_ms = MIN_OF(*ret_deadline_ms, sb->watch_at_ms);
    if (sb->request_sent < sb->request.len && sb->kernel.control >= 0) {
        fds[0].events |= POLLOUT;
        *ret_deadline_ms = MIN_OF(*ret_deadline_ms, now + REQUEST_AGAIN_MS); /* for loops that only wait for input */
    }
    /* Frames that are here already make no descriptor readable. */
    if (wire_reader_next(&sb->reader, &text, &len))
        *ret_deadline_ms = now;
    return n;
}

static void check_memory(struct sandbox *sb, int64_t now)
{
    if (!sb->watch_memory || sb->state != STATE_RUNNING || now < sb->watch_at_ms)
        return;
    int64_t begun_us = clock_now_us();
    if (watchdog_used_kb(sb->kernel.pid, sb->limits.pids, sb->kernel.shared_kb) * 1024 > sb->limits.memory_bytes)
        begin_kill(sb, VERDICT_MEMORY);
    sb->watch_at_ms = now + MAX_OF((int64_t)WATCHDOG_MS, (clock_now_us() - begun_us) * WATCHDOG_SHARE / 1000);
}

static void check_time(struct sandbox *sb)
{
    int64_t now = clock_now_ms();
    check_memory(sb, now);
    if (sb->deadline_ms < 0 || now < sb->deadline_ms)
        return;
    if (sb->state == STATE_RUNNING) {
        /* A process that the machine killed for its memory is often what the others wait for in vain. */
        bool oom = cgroup_oom_kills(&sb->kernel.group) > sb->oom_kills;
        begin_interrupt(sb, oom ? VERDICT_MEMORY : VERDICT_TIMEOUT);
    } else if (sb->state == STATE_INTERRUPTING && now >= sb->kill_ms) {
        begin_kill(sb, sb->stop_reason);
    } else if (sb->state == STATE_INTERRUPTING) {
        signal_kernel(sb, SIGINT);
        sb->deadline_ms = now + INTERRUPT_AGAIN_MS;
    }
}

int sandbox_advance(struct sandbox *sb, struct run_result *ret, struct err *err)
{
    if (sb->state == STATE_IDLE)
        return 0;
    struct err unsent = ERR_INIT;
    (void)send_request(sb, &unsent); /* its death is noticed below */
    drain(sb, false);
    drain(sb, true);
    int frames = 0;
    while (frames < FRAMES_PER_ADVANCE) {
        const char *text;
        size_t len;
        while (frames < FRAMES_PER_ADVANCE && wire_reader_next(&sb->reader, &text, &len)) {
            frames++;
            int r = take_event(sb, text, len, ret, err);
            wire_reader_next_done(&sb->reader);
            if (r != 0) {
                if (r < 0)
                    sandbox_abandon(sb);
                return r;
            }
        }
        if (frames >= FRAMES_PER_ADVANCE)
            break;
        struct err why = ERR_INIT;
        int r = sb->kernel.control < 0 ? 0 : wire_reader_fill(&sb->reader, sb->kernel.control, &why);
        if (r == 1)
            continue;
        if (r == -ERR_PROTOCOL) {
            *err = why;
            sandbox_abandon(sb);
            return r;
        }
        if (r == -ERR_UNAVAILABLE && sb->kernel.control >= 0) {
            /* Without its control socket a kernel cannot answer any more; if it is not dead already, it is now. */
            close(TAKE_FD(sb->kernel.control));
            signal_kernel(sb, SIGKILL);
        }
        break;
    }
    if (frames < FRAMES_PER_ADVANCE && reap(sb))
        return take_death(sb, ret, err);
    check_time(sb);
    return 0;
}

/* Most answers to a live kernel come sooner than a sleeping processor wakes up: looks a moment before it sleeps. */
static void look_a_moment(const struct pollfd *fds, size_t n)
{
    int64_t until = clock_now_us() + SPIN_US;
    struct pollfd copy[SANDBOX_POLL_MAX];
    memcpy(copy, fds, n * sizeof(*fds));
    while (poll(copy, n, 0) == 0 && clock_now_us() < until)
        ;
}

int sandbox_wait(struct sandbox *sb, struct run_result *ret, struct err *err)
{
    bool looked = false;
    for (;;) {
        int r = sandbox_advance(sb, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
        if (sb->state == STATE_IDLE)
            return err_set(err, ERR_CONFLICT, "no run is under way");
        struct pollfd fds[SANDBOX_POLL_MAX];
        int64_t deadline;
        size_t n = sandbox_poll_fds(sb, fds, &deadline);
        if (!looked)
            look_a_moment(fds, n);
        looked = true;
        int64_t left = deadline < 0 ? -1 : MAX_OF(0, deadline - clock_now_ms());
        poll(fds, n, (int)MIN_OF(left, 60000));
    }
}
