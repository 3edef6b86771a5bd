/*
 * A sandbox: a link to one kernel, and the run under way in it.
 *
 * States of a run: RUNNING until the kernel answers, its time is up, it floods its output or someone interrupts; then
 * INTERRUPTING: an interrupt, again every 100 ms, so that a cell that swallows one gets the next; then, when it has not
 * yielded within the grace, KILLING: the provider kills the kernel with all that it started. What is told is why the stop was
 * begun, whether state was kept, and nothing that the kernel only claims.
 */

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/sandbox_impl.h"
#include "sandbox/wire.h"
#include "sandbox/workspace.h"

#define INTERRUPT_GRACE_MS 800
#define INTERRUPT_AGAIN_MS 100
/* Output beyond the limit is cut; a cell that goes on to this many times as much is stopped. */
#define FLOOD_FACTOR 64
#define FLOOD_MIN_BYTES (4 << 20)

enum run_state { STATE_IDLE, STATE_RUNNING, STATE_INTERRUPTING, STATE_KILLING };

struct sandbox {
    struct kernel_link *link;
    const struct provider_ops *ops;
    struct wire_reader reader;
    struct sandbox_limits limits;
    bool ready; /* the kernel has said that its jail is closed */
    bool broken; /* it broke the protocol and was killed */
    uv_timer_t *timer; /* of the run's deadlines; outlives the sandbox until the loop has closed it */

    enum run_state state;
    int64_t run_id;           /* echoed by the kernel: an answer to anything else is dropped */
    enum verdict stop_reason; /* why INTERRUPTING or KILLING began */
    int64_t kill_ms;          /* end of the grace */
    int64_t begun_us;
    struct kernel_usage before; /* figures at the run's begin */
    int64_t max_output_bytes;
    int64_t output_bytes;     /* seen, kept or not */
    struct run_events events;
    sandbox_done_fn done;
    void *done_arg;
    struct run_result result; /* being collected */
    size_t n_displays, display_bytes;
    int64_t start_us, load_us;
    json_t *rejects;
    bool is_exec;             /* only a run tells what loading took and left out */
    void (*gone)(void *arg);  /* after sandbox_end() */
    void *gone_arg;
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

void sandbox_limits_default(const struct config *cfg, struct sandbox_limits *ret)
{
    *ret = (struct sandbox_limits){
        .memory_bytes = cfg->memory_bytes,
        .cpus = cfg->cpus,
        .pids = (int)cfg->pids,
        .open_files = (int)cfg->open_files,
        .file_bytes = cfg->file_bytes,
        .workspace_bytes = cfg->workspace_bytes,
        .tmp_bytes = cfg->tmp_bytes,
        .inodes = cfg->inodes,
    };
}

/* ---- start and end ---- */

static const struct link_events link_events;

/* Without its mounts, which the provider adds. */
static json_t *start_message(const struct config *cfg, const struct sandbox_start *s)
{
    json_t *tables = json_array();
    for (size_t i = 0; i < s->n_tables; i++)
        json_array_append_new(tables, json_pack("{s:s, s:I}", "name", s->tables[i].name, "mount",
                                                (json_int_t)s->tables[i].mount));
    const struct sandbox_limits *l = &s->limits;
    return json_pack("{s:s, s:s?, s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s}", "op", "start", "dataset_id",
                     s->dataset_id, "tables", tables, "memory_bytes", (json_int_t)l->memory_bytes, "workspace_bytes",
                     (json_int_t)l->workspace_bytes, "tmp_bytes", (json_int_t)l->tmp_bytes, "inodes",
                     (json_int_t)l->inodes, "file_bytes", (json_int_t)l->file_bytes, "pids", l->pids, "open_files",
                     l->open_files, "threads", s->threads, "python_allowed", cfg->python_allowed, "python_blocked",
                     cfg->python_blocked);
}

static void free_timer(uv_handle_t *h)
{
    free(h);
}

static void free_sandbox(struct sandbox *sb)
{
    if (sb->timer)
        uv_close((uv_handle_t *)sb->timer, free_timer);
    wire_reader_finish(&sb->reader);
    run_result_finish(&sb->result);
    json_decref(sb->rejects);
    free(sb);
}

int sandbox_open(struct kernel_link *link, const struct sandbox_start *start, struct sandbox **ret, struct err *err)
{
    struct sandbox *sb = calloc(1, sizeof(*sb));
    uv_timer_t *timer = sb ? calloc(1, sizeof(*timer)) : NULL;
    const struct provider_ops *ops = link->provider->ops;
    if (!timer) {
        free(sb);
        ops->release(link);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    auto_json json_t *message = start_message(link->provider->cfg, start);
    uv_timer_init(link->provider->loop, timer);
    timer->data = sb;
    *sb = (struct sandbox){ .link = link, .ops = ops, .limits = start->limits, .timer = timer };
    wire_reader_init(&sb->reader, WIRE_EVENT_MAX);
    link->events = &link_events;
    link->arg = sb;
    int r = message ? 0 : err_set(err, ERR_VALIDATION, "a table's name or the dataset's id is not valid UTF-8");
    if (r == 0)
        r = ops->start(link, message, start->mounts, start->n_mounts, err);
    if (r < 0) {
        sandbox_destroy(sb);
        return err_wrap(err, "starting a kernel");
    }
    *ret = sb;
    return 0;
}

struct kernel_link *sandbox_link(struct sandbox *sb)
{
    return sb->link;
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
    sb->ops->release(sb->link);
    free_sandbox(sb);
}

static void on_gone(uv_timer_t *h)
{
    struct sandbox *sb = h->data;
    void (*gone)(void *) = sb->gone;
    void *arg = sb->gone_arg;
    sandbox_destroy(sb);
    gone(arg);
}

void sandbox_end(struct sandbox *sb, void (*gone)(void *arg), void *arg)
{
    sb->gone = gone;
    sb->gone_arg = arg;
    sb->done = NULL;
    sb->events = (struct run_events){ 0 };
    if (sb->link->dead)
        uv_timer_start(sb->timer, on_gone, 0, 0); /* never from within this call */
    else
        sb->ops->kill(sb->link);
}

bool sandbox_alive(const struct sandbox *sb)
{
    return !sb->link->dead && !sb->broken;
}

/* ---- a run ---- */

static void on_deadline(uv_timer_t *h);

static void set_deadline(struct sandbox *sb, int64_t ms)
{
    uv_timer_start(sb->timer, on_deadline, (uint64_t)MAX_OF(0, ms), 0);
}

/* What a provider does not know counts as nothing. */
static struct kernel_usage usage(struct sandbox *sb)
{
    struct kernel_usage u = { .peak_memory_bytes = -1 };
    if (sb->ops->caps & PROVIDER_USAGE)
        sb->ops->usage(sb->link, &u);
    return u;
}

/* The length of the frame that begins at `at` and ends here. */
static void close_frame(struct buf *b, size_t at)
{
    size_t len = b->len - at - 4;
    for (size_t i = 0; i < 4; i++)
        b->data[at + i] = (char)(len >> (8 * i));
}

static int write_request(struct buf *b, const json_t *request, const void *bytes, size_t n_bytes, struct err *err)
{
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

int sandbox_request(struct sandbox *sb, const struct sandbox_request *req, const struct run_events *events,
                    sandbox_done_fn done, void *arg, struct err *err)
{
    if (sb->state != STATE_IDLE)
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    if (!sandbox_alive(sb))
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    auto_buf struct buf frame = BUF_INIT(WIRE_REQUEST_MAX + (2u << 20));
    json_object_set_new(req->message, "id", json_integer(++sb->run_id));
    int r = write_request(&frame, req->message, req->bytes, req->n_bytes, err);
    if (r < 0)
        return r;
    run_result_finish(&sb->result);
    buf_init(&sb->result.bytes, req->max_bytes_back);
    buf_init(&sb->result.out, (size_t)req->max_output_bytes);
    buf_init(&sb->result.errout, (size_t)req->max_output_bytes);
    sb->result.displays = json_array();
    sb->is_exec = str_eq(json_string_value(json_object_get(req->message, "op")), "exec");
    sb->n_displays = sb->display_bytes = 0;
    sb->output_bytes = 0;
    sb->max_output_bytes = req->max_output_bytes;
    sb->events = events ? *events : (struct run_events){ 0 };
    sb->before = usage(sb);
    sb->begun_us = clock_now_us();
    sb->ops->set_busy(sb->link, true);
    r = sb->ops->send(sb->link, frame.data, frame.len, err);
    if (r < 0) {
        sb->ops->set_busy(sb->link, false);
        return r;
    }
    sb->done = done;
    sb->done_arg = arg;
    sb->stop_reason = VERDICT_OK;
    sb->state = STATE_RUNNING;
    set_deadline(sb, req->timeout_ms);
    return 0;
}

int sandbox_begin(struct sandbox *sb, const struct run_request *req, const struct run_events *events,
                  sandbox_done_fn done, void *arg, struct err *err)
{
    json_t *code = json_stringn(req->code, req->code_len);
    if (!code)
        return err_set(err, ERR_VALIDATION, "the code is not valid UTF-8");
    auto_json json_t *message =
        json_pack("{s:s, s:s, s:o, s:b, s:b, s:I, s:I}", "op", "exec", "kind",
                  req->kind == RUN_PYTHON ? "python" : "sql", "code", code, "restricted",
                  req->policy == POLICY_RESTRICTED, "svg", req->svg, "max_rows", (json_int_t)req->max_rows,
                  "max_bytes", (json_int_t)req->max_output_bytes);
    if (!message)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    struct sandbox_request request = { .message = message, .timeout_ms = req->timeout_ms,
                                       .max_output_bytes = req->max_output_bytes };
    return sandbox_request(sb, &request, events, done, arg, err);
}

static void begin_kill(struct sandbox *sb, enum verdict reason)
{
    if (sb->state != STATE_INTERRUPTING)
        sb->stop_reason = reason;
    sb->state = STATE_KILLING;
    uv_timer_stop(sb->timer);
    sb->ops->kill(sb->link);
}

/* Without a way to interrupt, the end of the grace is the only one. */
static void interrupt(struct sandbox *sb)
{
    set_deadline(sb, INTERRUPT_AGAIN_MS);
    if (sb->ops->caps & PROVIDER_INTERRUPT)
        sb->ops->interrupt(sb->link);
}

static void begin_interrupt(struct sandbox *sb, enum verdict reason)
{
    if (sb->state != STATE_RUNNING)
        return;
    sb->state = STATE_INTERRUPTING;
    sb->stop_reason = reason;
    sb->kill_ms = clock_now_ms() + INTERRUPT_GRACE_MS;
    interrupt(sb);
}

static void on_deadline(uv_timer_t *h)
{
    struct sandbox *sb = h->data;
    if (sb->state == STATE_RUNNING) {
        /* A process that the machine killed for its memory is often what the others wait for in vain. */
        bool oom = usage(sb).oom_kills > sb->before.oom_kills;
        begin_interrupt(sb, oom ? VERDICT_MEMORY : VERDICT_TIMEOUT);
    } else if (sb->state == STATE_INTERRUPTING && clock_now_ms() >= sb->kill_ms) {
        begin_kill(sb, sb->stop_reason);
    } else if (sb->state == STATE_INTERRUPTING) {
        interrupt(sb);
    }
}

void sandbox_interrupt(struct sandbox *sb)
{
    begin_interrupt(sb, VERDICT_KILLED);
}

/* The run is over: its user hears of it last, because that may be the end of the sandbox. */
static void end_run(struct sandbox *sb, struct run_result *result, const struct err *err)
{
    sandbox_done_fn done = sb->done;
    sb->done = NULL;
    sb->state = STATE_IDLE;
    uv_timer_stop(sb->timer);
    sb->ops->set_busy(sb->link, false);
    if (done)
        done(sb, result, err, sb->done_arg);
    else if (result)
        run_result_finish(result);
}

/* After a broken protocol nothing that the kernel says can be used: it is killed, and the sandbox is dead. */
static void abandon(struct sandbox *sb, const struct err *err)
{
    struct err why = *err;
    sb->broken = true;
    sb->ops->kill(sb->link);
    run_result_finish(&sb->result);
    end_run(sb, NULL, &why);
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

/* sb->result is complete but for what is measured. */
static void finish(struct sandbox *sb)
{
    struct run_result *r = &sb->result;
    struct kernel_usage now = usage(sb);
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
    r->peak_memory_bytes = now.peak_memory_bytes;
    r->cpu_us = MAX_OF(0, now.cpu_us - sb->before.cpu_us);
    struct run_result result = *r;
    memset(r, 0, sizeof(*r));
    end_run(sb, &result, NULL);
}

/* The kernel answered. Decides the verdict from its word and from what we saw happen. */
static int take_result(struct sandbox *sb, json_t *body, struct err *err)
{
    struct run_result *r = &sb->result;
    bool interrupted = false;
    int rc = check_result(body, &r->verdict, &interrupted, err);
    if (rc < 0)
        return rc;
    json_decref(r->body);
    r->body = json_incref(body);
    sb->ops->drain(sb->link);
    struct kernel_usage now = usage(sb);
    if (interrupted) {
        r->interrupted = true;
        r->verdict = sb->stop_reason == VERDICT_OK ? VERDICT_KILLED : sb->stop_reason;
        set_error(sb, "KILLED", "the run was interrupted; variables of earlier runs are kept");
    } else if (r->verdict == VERDICT_ERROR) {
        /* An exception whose cause is a limit is that limit's verdict. */
        if (now.oom_kills > sb->before.oom_kills)
            r->verdict = VERDICT_MEMORY;
        else if (now.pids_refused > sb->before.pids_refused)
            r->verdict = VERDICT_PROCESSES;
    }
    finish(sb);
    return 1;
}

/* frame_bytes: of the frame that brought it. */
static void take_display(struct sandbox *sb, json_t *data, size_t frame_bytes)
{
    static const char *const keys[] = { "text", "html", "png", "svg", "json", "data", "chart" };
    if (sb->n_displays == DISPLAYS_MAX || sb->display_bytes + frame_bytes > DISPLAY_BYTES_MAX) {
        sb->result.displays_truncated = true;
        return;
    }
    sb->n_displays++;
    sb->display_bytes += frame_bytes;
    json_t *clean = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        json_t *v = json_object_get(data, keys[i]);
        bool structured = i >= 4;
        if (v && (structured || json_is_string(v)))
            json_object_set(clean, keys[i], v);
    }
    if (!sb->events.display || !sb->events.display(sb->events.arg, clean))
        json_array_append(sb->result.displays, clean);
    json_decref(clean);
}

/* Those of the answer that follows. More than was asked for, or any that nobody asked for, are nobody's. */
static void take_bytes(struct sandbox *sb, const char *bytes, size_t len)
{
    buf_clear(&sb->result.bytes);
    (void)buf_append(&sb->result.bytes, bytes, len, NULL);
}

/* Once: all kernels of a provider go without the same layers. */
static void tell_missing(const char *missing)
{
    static bool told;
    if (!missing || !*missing || told)
        return;
    told = true;
    log_warn("kernel.partial", LOG_STR("missing", missing));
}

/* 1: the run ended; 0: go on; negative: the kernel broke the protocol or could not start. */
static int take_event(struct sandbox *sb, const char *text, size_t len, struct err *err)
{
    auto_json json_t *msg = NULL;
    if (wire_is_bytes(text, len)) {
        take_bytes(sb, text + 1, len - 1);
        wire_reader_next_done(&sb->reader);
        return 0;
    }
    int r = json_parse(text, len, &msg, err);
    wire_reader_next_done(&sb->reader);
    if (r < 0)
        return err_set(err, ERR_PROTOCOL, "the kernel sent something that is not JSON");
    const char *event = json_string_value(json_object_get(msg, "event"));
    if (str_eq(event, "ready")) {
        sb->ready = true;
        tell_missing(json_string_value(json_object_get(msg, "missing")));
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
        return take_result(sb, msg, err);
    if (str_eq(event, "display")) {
        take_display(sb, json_object_get(msg, "data"), len);
    } else if (str_eq(event, "progress")) {
        double f = json_number_value(json_object_get(msg, "fraction"));
        if (sb->events.progress && isfinite(f))
            sb->events.progress(sb->events.arg, "ingest", f < 0 ? 0 : f > 1 ? 1 : f);
    }
    return 0;
}

static void on_control(void *arg, const char *bytes, size_t len)
{
    struct sandbox *sb = arg;
    struct err err = ERR_INIT;
    const char *text;
    size_t n;
    if (sb->state == STATE_IDLE || sb->gone)
        return; /* nobody asked */
    int r = wire_reader_push(&sb->reader, bytes, len, &err);
    while (r == 0 && wire_reader_next(&sb->reader, &text, &n)) {
        r = take_event(sb, text, n, &err);
        if (r > 0)
            return; /* the sandbox may be gone; what follows is dropped by the next run */
    }
    if (r < 0)
        abandon(sb, &err);
}

static void on_output(void *arg, bool is_stderr, const char *bytes, size_t len)
{
    struct sandbox *sb = arg;
    if (sb->state != STATE_IDLE && !sb->gone)
        take_output(sb, is_stderr, bytes, len);
}

/* ---- the kernel's death ---- */

/* How the kernel ended. What the verdict means to a client is said by run/outcome.c. */
static enum verdict judge_death(struct sandbox *sb, const struct kernel_exit *how, char *cause,
                                size_t n)
{
    bool stopped = sb->state == STATE_INTERRUPTING || sb->state == STATE_KILLING;
    enum verdict verdict = VERDICT_KILLED;
    char words[128];
    if (stopped && sb->stop_reason != VERDICT_MEMORY) {
        verdict = sb->stop_reason;
        snprintf(words, sizeof(words), "the run did not yield and its kernel was killed");
    } else if (stopped || how->memory || usage(sb).oom_kills > sb->before.oom_kills) {
        verdict = VERDICT_MEMORY;
        snprintf(words, sizeof(words), "the kernel ran out of memory");
    } else if (how->signal == SIGSYS) {
        verdict = VERDICT_POLICY;
        snprintf(words, sizeof(words), "the code made a system call that the sandbox does not allow");
    } else if (how->signal == SIGXFSZ) {
        verdict = VERDICT_FILESIZE;
        snprintf(words, sizeof(words), "the code wrote a file past its size limit");
    } else if (how->signal) {
        snprintf(words, sizeof(words), "the kernel ended by itself (signal %d (%s))", how->signal,
                 strsignal(how->signal));
    } else {
        snprintf(words, sizeof(words), "the kernel ended by itself (exit status %d)", how->code);
    }
    snprintf(cause, n, "%s; its variables are lost", words);
    return verdict;
}

static void on_exited(void *arg, const struct kernel_exit *how)
{
    struct sandbox *sb = arg;
    char message[256];
    if (sb->gone) {
        on_gone(sb->timer);
        return;
    }
    if (sb->state == STATE_IDLE)
        return;
    if (!sb->ready && sb->state == STATE_RUNNING) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_ISOLATION, "the kernel ended while its jail was being closed");
        abandon(sb, &err);
        return;
    }
    sb->result.verdict = judge_death(sb, how, message, sizeof(message));
    sb->result.state_lost = true;
    json_decref(sb->result.body);
    sb->result.body = NULL;
    set_error(sb, "KILLED", message);
    finish(sb);
}

static const struct link_events link_events = { .control = on_control, .output = on_output, .exited = on_exited };
