/*
 * A sandbox: a link to one kernel, and the run under way in it.
 *
 * States of a run: RUNNING until the kernel answers, its time is up, it floods its output or
 * someone interrupts; then INTERRUPTING: an interrupt, again every 100 ms, so that a cell that
 * swallows one gets the next; then, when it has not yielded within the grace, KILLING: the provider
 * kills the kernel with all that it started. What is told is why the stop was begun, whether state
 * was kept, and nothing that the kernel only claims.
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/background.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/inbox.h"
#include "sandbox/parsing.h"
#include "sandbox/room.h"
#include "sandbox/sandbox_impl.h"

#define INTERRUPT_GRACE_MS 800
#define INTERRUPT_AGAIN_MS 100
/* Output beyond the limit is cut; a cell that goes on to this many times as much is stopped. */
#define FLOOD_FACTOR 64
#define FLOOD_MIN_BYTES (4 << 20)

enum run_state { STATE_IDLE, STATE_RUNNING, STATE_INTERRUPTING, STATE_KILLING };

struct sandbox {
    struct kernel_link *link;
    const struct provider_ops *ops;
    struct inbox inbox;
    /* Of a long message. Nothing is read from the kernel while it waits for room or is parsed. */
    struct room_place room;
    uint64_t room_owner;
    struct parsing *parsing;
    struct buf behind; /* what had been read already */
    struct sandbox_limits limits;
    void (*freed)(void *arg);
    void *freed_arg;
    bool died_early; /* before it was ready */
    bool broken;     /* it broke the protocol and was killed */
    bool has_image;  /* it is made from one */
    /* of the run's deadlines; outlives the sandbox until the loop has closed it */
    uv_timer_t *timer;

    enum run_state state;
    uint32_t run_id;          /* of the last request */
    enum verdict stop_reason; /* why INTERRUPTING or KILLING began */
    char breach[ERR_MESSAGE_MAX +
                100];    /* what the kernel did that ended it, in words; "": nothing */
    int64_t kill_ms;     /* end of the grace */
    int64_t deadline_ms; /* of a run that is not paused */
    struct {
        bool is_debugged, is_on, was_too_long;
        uint32_t ask;     /* the question that waits for a command */
        int64_t max_ms;   /* of one pause */
        int64_t until_ms; /* end of this one */
        int64_t left_ms;  /* of the run */
        int64_t begun_cpu_us;
    } pause;
    int64_t begun_us;
    struct kernel_usage before; /* figures at the run's begin */
    int64_t max_output_bytes;
    int64_t output_bytes; /* seen, kept or not */
    struct run_events events;
    sandbox_done_fn done;
    void *done_arg;
    struct run_result result; /* being collected */
    int64_t start_us, load_us;
    json_t *rejects;
    bool is_exec;            /* only a run tells what loading took and left out */
    void (*gone)(void *arg); /* after sandbox_end() */
    void *gone_arg;
};

/* ---- start and end ---- */

static const struct link_events link_events;

static json_t *start_message(const struct provider *p, const struct sandbox_start *s)
{
    const struct sandbox_limits *l = &s->limits;
    struct wire_start start = {
        .dataset_id = s->dataset_id,
        .tables = s->tables,
        .n_tables = s->n_tables,
        .memory_bytes = l->memory_bytes,
        .workspace_bytes = l->workspace_bytes,
        .tmp_bytes = l->tmp_bytes,
        .inodes = l->inodes,
        .file_bytes = l->file_bytes,
        .pids = l->pids,
        .open_files = l->open_files,
        .threads = s->threads,
        .interrupts = !(p->ops->caps & PROVIDER_INTERRUPT),
        .python_allowed = s->python_allowed ? s->python_allowed : p->cfg->python_allowed,
        .python_blocked = s->python_blocked ? s->python_blocked : p->cfg->python_blocked,
        .agent = s->agent,
        .debugging = s->debugging,
    };
    return wire_start_body(&start);
}

static void free_timer(uv_handle_t *h)
{
    free(h);
}

static void forget_message(struct sandbox *sb)
{
    parsing_forget(sb->parsing);
    sb->parsing = NULL;
    room_leave(&sb->room);
}

static void free_sandbox(struct sandbox *sb)
{
    if (sb->timer)
        uv_close((uv_handle_t *)sb->timer, free_timer);
    forget_message(sb);
    buf_finish(&sb->behind);
    inbox_finish(&sb->inbox);
    run_result_finish(&sb->result);
    json_decref(sb->rejects);
    if (sb->freed)
        sb->freed(sb->freed_arg);
    free(sb);
}

int sandbox_open(struct kernel_link *link, const struct sandbox_start *start, struct sandbox **ret,
                 struct err *err)
{
    struct sandbox *sb = calloc(1, sizeof(*sb));
    uv_timer_t *timer = sb ? calloc(1, sizeof(*timer)) : NULL;
    const struct provider_ops *ops = link->provider->ops;
    if (!timer) {
        free(sb);
        ops->release(link);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    auto_json json_t *message = start_message(link->provider, start);
    uv_timer_init(link->provider->loop, timer);
    timer->data = sb;
    *sb = (struct sandbox){ .link = link,
                            .ops = ops,
                            .limits = start->limits,
                            .timer = timer,
                            .room_owner = start->owner ? room_owner(start->owner) : 0,
                            .has_image = start->image || start->source,
                            .freed = start->freed,
                            .freed_arg = start->freed_arg };
    inbox_init(&sb->inbox);
    link->events = &link_events;
    link->arg = sb;
    int r = message ? 0 :
                      err_set(err, ERR_VALIDATION,
                              "a table's name or the dataset's id is not valid UTF-8");
    if (r == 0 && start->image)
        r = ops->caps & PROVIDER_IMAGE ?
                ops->restore(link, start->image, err) :
                err_set(err, ERR_UNAVAILABLE, "the sandbox provider '%s' reads no images",
                        ops->name);
    if (r == 0 && start->source)
        r = ops->branch(start->source, link, err);
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

bool sandbox_died_early(const struct sandbox *sb)
{
    return sb->died_early || (sb->link->dead && !sb->inbox.ready);
}

bool sandbox_was_ready(const struct sandbox *sb)
{
    return sb->inbox.ready;
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

static void set_run_deadline(struct sandbox *sb, int64_t ms)
{
    sb->deadline_ms = clock_now_ms() + ms;
    set_deadline(sb, ms);
}

/* What a provider does not know counts as nothing. */
static struct kernel_usage usage(struct sandbox *sb, unsigned figures)
{
    struct kernel_usage u = { .peak_memory_bytes = -1 };
    if (sb->ops->caps & PROVIDER_USAGE)
        sb->ops->usage(sb->link, figures, &u);
    return u;
}

int sandbox_request(struct sandbox *sb, const struct sandbox_request *req,
                    const struct run_events *events, sandbox_done_fn done, void *arg,
                    struct err *err)
{
    if (sb->state != STATE_IDLE)
        return err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
    if (!sandbox_alive(sb))
        return err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    auto_buf struct buf frame = BUF_INIT(WIRE_REQUEST_MAX + (2u << 20));
    if (++sb->run_id == 0)
        sb->run_id = 1;
    int r = req->n_bytes ? wire_append_bytes(&frame, sb->run_id, req->bytes, req->n_bytes, err) : 0;
    if (r == 0)
        r = wire_append(&frame, req->type, sb->run_id, req->body, err);
    if (r < 0)
        return err_wrap(err, "sending a request to the kernel");
    run_result_finish(&sb->result);
    buf_init(&sb->result.out, (size_t)req->max_output_bytes);
    buf_init(&sb->result.errout, (size_t)req->max_output_bytes);
    sb->result.displays = json_array();
    sb->is_exec = req->type == WIRE_EXEC;
    sb->breach[0] = '\0';
    inbox_begin(
        &sb->inbox,
        &(struct inbox_request){
            .type = req->type,
            .id = sb->run_id,
            .max_rows = sb->is_exec ? json_integer_value(json_object_get(req->body, "max_rows")) :
                                      -1,
            .max_bytes = sb->is_exec ? json_integer_value(json_object_get(req->body, "max_bytes")) :
                                       -1,
            .max_bytes_back = req->max_bytes_back,
            .max_steps_bytes = req->max_steps_bytes,
        });
    sb->output_bytes = 0;
    sb->max_output_bytes = req->max_output_bytes;
    sb->events = events ? *events : (struct run_events){ 0 };
    sb->before = usage(sb, USAGE_CPU | USAGE_REFUSALS);
    sb->begun_us = clock_now_us();
    sb->ops->set_busy(sb->link, true);
    struct err why = ERR_INIT;
    r = sb->ops->send(sb->link, frame.data, frame.len, &why);
    /* A kernel that refused its image may be gone by now: what it left in its socket tells why. */
    if (r < 0 && !(sb->has_image && !sb->inbox.ready)) {
        sb->ops->set_busy(sb->link, false);
        *err = why;
        return r;
    }
    sb->done = done;
    sb->done_arg = arg;
    sb->stop_reason = VERDICT_OK;
    sb->state = STATE_RUNNING;
    memset(&sb->pause, 0, sizeof(sb->pause));
    sb->pause.is_debugged = req->max_steps_bytes > 0;
    sb->pause.max_ms = req->pause_ms;
    set_run_deadline(sb, req->timeout_ms);
    return 0;
}

int sandbox_begin(struct sandbox *sb, const struct run_request *req,
                  const struct run_events *events, sandbox_done_fn done, void *arg, struct err *err)
{
    json_t *code = json_stringn(req->code, req->code_len);
    if (!code)
        return err_set(err, ERR_VALIDATION, "the code is not valid UTF-8");
    auto_json json_t *message = json_pack(
        "{s:s, s:o, s:b, s:b, s:I, s:I}", "kind", req->kind == RUN_PYTHON ? "python" : "sql",
        "code", code, "restricted", req->policy == POLICY_RESTRICTED, "svg", req->svg, "max_rows",
        (json_int_t)req->max_rows, "max_bytes", (json_int_t)req->max_output_bytes);
    if (!message)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (req->context)
        json_object_set(message, "context", (json_t *)req->context);
    if (req->debug)
        json_object_set(message, "debug", (json_t *)req->debug);
    int64_t step_bytes = json_integer_value(json_object_get(req->debug, "max_bytes"));
    struct sandbox_request request = { .type = WIRE_EXEC,
                                       .body = message,
                                       .timeout_ms = req->timeout_ms,
                                       .max_output_bytes = req->max_output_bytes,
                                       .pause_ms = req->pause_ms };
    /* A kernel goes past its budget before it samples less: see trace.c. */
    if (req->debug)
        request.max_steps_bytes = 3 * (size_t)MAX_OF(0, step_bytes) + WIRE_STEPS_MAX;
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

/* A message of the run under way. Should the kernel be gone, its exit tells. */
static void send_message(struct sandbox *sb, enum wire_type type, uint32_t id, const json_t *body)
{
    auto_buf struct buf frame = BUF_INIT(WIRE_HEAD_BYTES + wire_message(type)->max_bytes);
    struct err err = ERR_INIT;
    if (wire_append(&frame, type, id, body, &err) == 0)
        (void)sb->ops->send(sb->link, frame.data, frame.len, &err);
}

static void interrupt(struct sandbox *sb)
{
    set_deadline(sb, INTERRUPT_AGAIN_MS);
    if (sb->ops->caps & PROVIDER_INTERRUPT)
        sb->ops->interrupt(sb->link);
    else
        send_message(sb, WIRE_INTERRUPT, sb->run_id, NULL);
}

static void begin_interrupt(struct sandbox *sb, enum verdict reason)
{
    if (sb->state != STATE_RUNNING)
        return;
    sb->state = STATE_INTERRUPTING;
    sb->stop_reason = reason;
    sb->kill_ms = clock_now_ms() + INTERRUPT_GRACE_MS;
    room_hurry(&sb->room); /* a kernel that cannot write its message cannot answer */
    interrupt(sb);
}

/* ---- pauses: a debugged run waits for a command, or input() for a line ---- */

static int64_t pause_cpu_ms(struct sandbox *sb)
{
    return MAX_OF(0, usage(sb, USAGE_CPU).cpu_us - sb->pause.begun_cpu_us) / 1000;
}

/* The kernel says that it waits: it is not believed about the processor time that it uses. */
static void watch_pause(struct sandbox *sb)
{
    int64_t now = clock_now_ms(), left = sb->pause.left_ms - pause_cpu_ms(sb);
    if (left <= 0) {
        begin_interrupt(sb, VERDICT_TIMEOUT);
    } else if (now >= sb->pause.until_ms) {
        sb->pause.was_too_long = true;
        begin_interrupt(sb, VERDICT_TIMEOUT);
    } else {
        set_deadline(sb, MIN_OF(sb->pause.until_ms - now, left + 10));
    }
}

static void begin_pause(struct sandbox *sb, uint32_t ask)
{
    int64_t now = clock_now_ms();
    if (sb->state != STATE_RUNNING)
        return;
    sb->pause.ask = ask;
    if (sb->pause.is_on)
        return; /* it asks once more without a reply: the same pause */
    sb->pause.is_on = true;
    sb->pause.left_ms = MAX_OF(1, sb->deadline_ms - now);
    sb->pause.until_ms = now + sb->pause.max_ms;
    sb->pause.begun_cpu_us = usage(sb, USAGE_CPU).cpu_us;
    watch_pause(sb);
}

static void end_pause(struct sandbox *sb)
{
    sb->pause.is_on = false;
    if (sb->state == STATE_RUNNING)
        set_run_deadline(sb, MAX_OF(1, sb->pause.left_ms - pause_cpu_ms(sb)));
}

void sandbox_pause(struct sandbox *sb)
{
    if (sb->state == STATE_RUNNING && sb->pause.is_debugged && !sb->pause.is_on)
        send_message(sb, WIRE_PAUSE, sb->run_id, NULL);
}

static void on_deadline(uv_timer_t *h)
{
    struct sandbox *sb = h->data;
    if (sb->state == STATE_RUNNING && sb->pause.is_on) {
        watch_pause(sb);
    } else if (sb->state == STATE_RUNNING) {
        /*
         * A process that the machine killed for its memory is often what the others wait for in
         * vain. Code that has as many processes as it may is kept from its end by that limit.
         */
        struct kernel_usage now = usage(sb, USAGE_REFUSALS | USAGE_PIDS);
        bool oom = now.oom_kills > sb->before.oom_kills;
        bool bomb = now.pids >= sb->limits.pids;
        begin_interrupt(sb, oom ? VERDICT_MEMORY : bomb ? VERDICT_PROCESSES : VERDICT_TIMEOUT);
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

/*
 * After a broken protocol nothing that the kernel says can be used: it is killed, and the sandbox
 * is dead.
 */
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

static void set_error(struct sandbox *sb, const char *type, const char *message)
{
    if (!sb->result.body)
        sb->result.body = json_pack("{s:[], s:[], s:[], s:i, s:b}", "columns", "types", "rows",
                                    "row_count", 0, "truncated", 0);
    json_object_set_new(sb->result.body, "error",
                        json_pack("{s:s, s:s}", "type", type, "message", message));
}

/* sb->result is complete but for what is measured. */
static void finish(struct sandbox *sb)
{
    struct run_result *r = &sb->result;
    struct kernel_usage now = usage(sb, USAGE_CPU | USAGE_PEAK);
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
    r->displays_truncated = sb->inbox.displays_dropped;
    r->bytes = sb->inbox.bytes;
    buf_init(&sb->inbox.bytes, 0);
    inbox_end(&sb->inbox);
    struct run_result result = *r;
    memset(r, 0, sizeof(*r));
    end_run(sb, &result, NULL);
}

/* The kernel answered. Decides the verdict from its word and from what we saw happen. */
static void take_result(struct sandbox *sb, enum wire_verdict said, json_t *taken_body)
{
    static const enum verdict verdicts[_WIRE_VERDICT_MAX] = {
        [WIRE_VERDICT_OK] = VERDICT_OK,
        [WIRE_VERDICT_ERROR] = VERDICT_ERROR,
        [WIRE_VERDICT_MEMORY] = VERDICT_MEMORY,
        [WIRE_VERDICT_PROCESSES] = VERDICT_PROCESSES,
        [WIRE_VERDICT_FILESIZE] = VERDICT_FILESIZE,
        [WIRE_VERDICT_POLICY] = VERDICT_POLICY,
        [WIRE_VERDICT_INTERRUPTED] = VERDICT_KILLED,
    };
    struct run_result *r = &sb->result;
    bool interrupted = said == WIRE_VERDICT_INTERRUPTED;
    r->verdict = verdicts[said];
    json_discard(r->body);
    r->body = taken_body;
    sb->ops->drain(sb->link);
    if (interrupted) {
        r->interrupted = true;
        r->verdict = sb->stop_reason == VERDICT_OK ? VERDICT_KILLED : sb->stop_reason;
        r->paused_too_long = sb->pause.was_too_long;
        set_error(sb, "KILLED", "the run was interrupted; variables of earlier runs are kept");
    } else if (r->verdict == VERDICT_ERROR) {
        /* An exception whose cause is a limit is that limit's verdict. */
        struct kernel_usage now = usage(sb, USAGE_REFUSALS);
        if (now.oom_kills > sb->before.oom_kills)
            r->verdict = VERDICT_MEMORY;
        else if (now.pids_refused > sb->before.pids_refused)
            r->verdict = VERDICT_PROCESSES;
    }
    finish(sb);
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

/*
 * Nothing that the kernel says can be used any more: it is killed, and the run ends with a verdict.
 */
static void give_up(struct sandbox *sb, enum verdict verdict, const char *before, const char *what,
                    const char *after)
{
    sb->broken = true;
    snprintf(sb->breach, sizeof(sb->breach), "%s%s%s; its variables are lost", before, what, after);
    begin_kill(sb, verdict);
    sb->stop_reason = verdict;
}

void sandbox_reply(struct sandbox *sb, uint32_t ask, const json_t *value, const struct err *error)
{
    if (sb->state == STATE_IDLE || sb->inbox.ask != ask)
        return;
    auto_json json_t *body = json_pack("{s:O?, s:o}", "value", value, "error",
                                       error ? json_error(error) : json_null());
    if (wire_check(WIRE_REPLY, body, NULL) < 0)
        return;
    sb->inbox.ask = 0;
    if (sb->pause.is_on && sb->pause.ask == ask)
        end_pause(sb);
    send_message(sb, WIRE_REPLY, ask, body);
}

static void take_question(struct sandbox *sb, const struct inbox_item *item)
{
    bool of_person = str_eq(item->text, "input") ||
                     (sb->pause.is_debugged && str_eq(item->text, "debug"));
    if (of_person && sb->pause.max_ms > 0)
        begin_pause(sb, item->id);
    else if (sb->pause.is_on)
        end_pause(sb); /* another question replaces the one of a pause */
    if (sb->events.ask && sb->events.ask(sb->events.arg, item->id, item->text, item->body))
        return;
    struct err nobody = ERR_INIT;
    err_set(&nobody, ERR_UNAVAILABLE, "nobody is there to answer");
    sandbox_reply(sb, item->id, NULL, &nobody);
}

/* An error of the start: no user code has run yet. */
static enum err_code code_of_failure(const struct sandbox *sb, const struct err *err)
{
    bool is_ours = err->code == ERR_INTERNAL || (err->code == ERR_VALIDATION && !sb->has_image);
    return is_ours ? ERR_ISOLATION : err->code;
}

/* In the result `json` is a value, however large. */
static void keep_display(struct sandbox *sb, json_t *display)
{
    const json_t *text = json_object_get(display, "json_text");
    json_t *value = NULL;
    if (text && json_parse(json_string_value(text), json_string_length(text), &value, NULL) == 0)
        json_object_set_new(display, "json", value);
    json_object_del(display, "json_text");
    json_array_append(sb->result.displays, display);
}

/* Everything but an answer. Negative when the kernel could not start. */
static int take_item(struct sandbox *sb, const struct inbox_item *item, struct err *err)
{
    switch (item->what) {
    case INBOX_READY:
        tell_missing(item->text);
        break;
    case INBOX_FAILED:
        if (!sb->inbox.ready || item->err.code == ERR_PROTOCOL)
            return err_set(err, code_of_failure(sb, &item->err), "%s", item->err.message);
        if (sb->state == STATE_INTERRUPTING) {
            sb->broken = true;
            begin_kill(sb, sb->stop_reason); /* its failure is the interrupt's doing */
        } else {
            give_up(sb, VERDICT_KILLED, "the kernel failed: ", item->err.message, "");
        }
        break;
    case INBOX_BROKEN:
        if (!sb->inbox.ready)
            return err_set(err, ERR_PROTOCOL, "%s", item->err.message);
        give_up(sb, VERDICT_KILLED, "the kernel broke the protocol (", item->err.message,
                ") and was ended");
        break;
    case INBOX_FLOOD:
        give_up(sb, VERDICT_OUTPUT, "the code sent more to its control socket than a run may", "",
                ", and its kernel was ended");
        break;
    case INBOX_DISPLAY:
        if (!sb->events.display || !sb->events.display(sb->events.arg, item->body))
            keep_display(sb, item->body);
        break;
    case INBOX_STEPS:
        if (sb->events.steps)
            sb->events.steps(sb->events.arg, item->body);
        break;
    case INBOX_PROGRESS:
        if (sb->events.progress)
            sb->events.progress(sb->events.arg, "ingest", item->fraction);
        break;
    case INBOX_ASK:
        take_question(sb, item);
        break;
    case INBOX_ANNOUNCED:
    case INBOX_LARGE:
    case INBOX_ANSWER:
    case INBOX_NOTHING:
        break;
    }
    return 0;
}

static void on_room(void *arg);
static void on_parsed(void *arg, struct inbox_large *large);

static bool is_held_back(const struct sandbox *sb)
{
    return sb->parsing || room_waits(&sb->room);
}

static void hold_back(struct sandbox *sb, const char *behind, size_t len)
{
    buf_init(&sb->behind, SIZE_MAX);
    (void)buf_append(&sb->behind, behind, len, NULL);
    sb->ops->pause_control(sb->link, true);
}

/* The message at hand goes to a worker, and the rest waits for it. */
static void begin_parsing(struct sandbox *sb, struct inbox_large *large, const char *behind,
                          size_t len, struct inbox_item *ret)
{
    sb->parsing = parsing_begin(sb->link->provider->loop, large, on_parsed, sb);
    if (!sb->parsing) {
        inbox_parse(large);
        inbox_parsed(&sb->inbox, large, ret);
        return;
    }
    hold_back(sb, behind, len);
    ret->what = INBOX_NOTHING;
}

/*
 * Takes an item and those in the bytes that follow. The answer is passed on last: its receiver may
 * end the sandbox. What comes behind it is dropped.
 */
static void take_items(struct sandbox *sb, struct inbox_item *item, const char *bytes, size_t len)
{
    struct err err = ERR_INIT;
    enum wire_verdict verdict = WIRE_VERDICT_ERROR;
    json_t *answer = NULL;
    int r = 0;
    for (;;) {
        if (item->what == INBOX_ANNOUNCED &&
            !room_enter(&sb->room, sb->link->provider->loop, sb->room_owner, item->n_bytes, on_room,
                        sb))
            hold_back(sb, bytes, len);
        if (item->what == INBOX_LARGE)
            begin_parsing(sb, item->large, bytes, len, item);
        if (item->what == INBOX_ANSWER) {
            verdict = item->verdict;
            answer = TAKE_PTR(item->body);
        } else if (!answer && sb->state != STATE_IDLE) {
            r = take_item(sb, item, &err);
        }
        json_discard(item->body);
        if (r < 0 || is_held_back(sb) || sb->inbox.over ||
            (item->what == INBOX_NOTHING && len == 0))
            break;
        inbox_take(&sb->inbox, &bytes, &len, item);
    }
    if (r < 0) {
        abandon(sb, &err);
    } else if (answer) {
        if (sb->inbox.over) {
            sb->broken = true; /* behind its answer */
            sb->ops->kill(sb->link);
        }
        take_result(sb, verdict, answer);
    }
}

static void on_control(void *arg, const char *bytes, size_t len)
{
    struct sandbox *sb = arg;
    struct inbox_item item;
    if (sb->gone)
        return;
    if (is_held_back(sb)) { /* a provider had read it already */
        (void)buf_append(&sb->behind, bytes, len, NULL);
        return;
    }
    inbox_take(&sb->inbox, &bytes, &len, &item);
    take_items(sb, &item, bytes, len);
}

/* Reads on. Takes the item first. */
static void read_on(struct sandbox *sb, struct inbox_item *item)
{
    auto_buf struct buf behind = sb->behind;
    buf_init(&sb->behind, 0);
    sb->ops->pause_control(sb->link, false);
    if (sb->gone)
        json_discard(item->body);
    else
        take_items(sb, item, behind.data, behind.len);
}

static void on_room(void *arg)
{
    struct inbox_item nothing = { .what = INBOX_NOTHING };
    read_on(arg, &nothing);
}

static void on_parsed(void *arg, struct inbox_large *large)
{
    struct sandbox *sb = arg;
    struct inbox_item item;
    sb->parsing = NULL;
    inbox_parsed(&sb->inbox, large, &item);
    room_leave(&sb->room);
    read_on(sb, &item);
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
    if (sb->breach[0]) {
        snprintf(cause, n, "%s", sb->breach);
        return sb->stop_reason;
    }
    if (stopped && sb->stop_reason != VERDICT_MEMORY) {
        verdict = sb->stop_reason;
        snprintf(words, sizeof(words), "the run did not yield and its kernel was killed");
    } else if (stopped || how->memory ||
               usage(sb, USAGE_REFUSALS).oom_kills > sb->before.oom_kills) {
        verdict = VERDICT_MEMORY;
        snprintf(words, sizeof(words), "the kernel ran out of memory");
    } else if (how->signal == SIGSYS) {
        verdict = VERDICT_POLICY;
        snprintf(words, sizeof(words),
                 "the code made a system call that the sandbox does not allow");
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

/* A kernel that ends while it reads its image ends by what is in it, unless it was killed. */
static void tell_early_death(const struct sandbox *sb, const struct kernel_exit *how,
                             struct err *err)
{
    const char *kind = how->signal ? "signal" : "exit status";
    int number = how->signal ? how->signal : how->code;
    if (sb->has_image && how->memory)
        err_set(err, ERR_NO_MEMORY, "the kernel ran out of memory while it read its image");
    else if (sb->has_image && how->signal != SIGKILL)
        err_set(err, ERR_VALIDATION, "the kernel ended while it read its image (%s %d)", kind,
                number);
    else
        err_set(err, ERR_UNAVAILABLE, "the kernel ended before it ran anything (%s %d); try again",
                kind, number);
}

static void on_exited(void *arg, const struct kernel_exit *how)
{
    struct sandbox *sb = arg;
    char message[sizeof(sb->breach)];
    if (sb->gone) {
        on_gone(sb->timer);
        return;
    }
    if (sb->state == STATE_IDLE)
        return;
    forget_message(sb); /* what it said last does not matter: it was ended from outside */
    if (!sb->inbox.ready && sb->state == STATE_RUNNING) {
        struct err err = ERR_INIT;
        sb->died_early = true;
        tell_early_death(sb, how, &err);
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

static const struct link_events link_events = { .control = on_control,
                                                .output = on_output,
                                                .exited = on_exited };
