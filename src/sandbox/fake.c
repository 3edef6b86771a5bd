/*
 * Theory of operation. A fake kernel has an inbox for the bytes that riddle sends and an outbox of
 * what it will say. Both are worked off by a timer with no delay, so every event comes from the
 * loop, in the order in which it was said.
 */

#include "sandbox/fake.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "sandbox/wire.h"

#define NAMES_MAX 8

enum said_kind { SAID_CONTROL, SAID_OUT, SAID_ERR, SAID_EXIT };

struct said {
    struct said *next;
    enum said_kind kind;
    struct kernel_exit how;
    size_t len;
    char bytes[];
};

struct fake_link {
    struct kernel_link base;
    uv_timer_t turn;
    struct buf inbox; /* not looked at yet */
    struct wire_reader reader;
    struct said *first, **end;
    bool busy, released, spinning, control_paused;
    struct fake_request spun; /* the request under way while it spins; without its body */
    json_t *names;            /* variables */
    link_done_fn settled;
    void *settled_arg;
};

struct fake {
    struct provider base;
    size_t n_links;
    void (*closed)(void *arg);
    void *closed_arg;
    unsigned starts;
};

static struct {
    unsigned fail_at[_FAKE_STEP_MAX], calls[_FAKE_STEP_MAX];
    fake_script_fn script;
    void *arg;
} plan;

void fake_reset(void)
{
    memset(&plan, 0, sizeof(plan));
}

void fake_fail(enum fake_step step, unsigned n)
{
    plan.fail_at[step] = n == 0 || n == FAKE_EVERY ? n : plan.calls[step] + n;
}

unsigned fake_count(enum fake_step step)
{
    return plan.calls[step];
}

void fake_script(fake_script_fn fn, void *arg)
{
    plan.script = fn;
    plan.arg = arg;
}

static int step(enum fake_step s, struct err *err)
{
    static const char *const names[] = { "spawn", "start", "send", "limit" };
    if (++plan.calls[s] == plan.fail_at[s] || plan.fail_at[s] == FAKE_EVERY)
        return err_set(err, ERR_UNAVAILABLE, "the script fails this %s", names[s]);
    return 0;
}

static struct fake_link *of(struct kernel_link *l)
{
    return (struct fake_link *)l;
}

/* ---- what a kernel says ---- */

static void on_turn(uv_timer_t *h);

static void say(struct fake_link *l, enum said_kind kind, const void *bytes, size_t len,
                const struct kernel_exit *how)
{
    struct said *s = calloc(1, sizeof(*s) + len + 1);
    if (!s)
        abort();
    s->kind = kind;
    s->len = len;
    if (how)
        s->how = *how;
    if (len)
        memcpy(s->bytes, bytes, len);
    *l->end = s;
    l->end = &s->next;
    uv_timer_start(&l->turn, on_turn, 0, 0);
}

void fake_say_bytes(struct kernel_link *l, const char *bytes, size_t len)
{
    say(of(l), SAID_CONTROL, bytes, len, NULL);
}

void fake_say(struct kernel_link *l, enum wire_type type, uint32_t id, json_t *taken_body)
{
    auto_free char *text = json_to_str(taken_body);
    unsigned char raw[WIRE_HEAD_BYTES];
    auto_buf struct buf frame = BUF_INIT(SIZE_MAX);
    wire_head_write(&(struct wire_head){ .len = (uint32_t)strlen(text), .id = id, .type = type },
                    raw);
    if (buf_append(&frame, raw, sizeof(raw), NULL) < 0 || buf_append_str(&frame, text, NULL) < 0)
        abort();
    json_decref(taken_body);
    fake_say_bytes(l, frame.data, frame.len);
}

void fake_print(struct kernel_link *l, bool is_stderr, const char *text)
{
    say(of(l), is_stderr ? SAID_ERR : SAID_OUT, text, strlen(text), NULL);
}

void fake_exit(struct kernel_link *l, int code, int signal)
{
    struct kernel_exit how = { .code = signal ? -1 : code, .signal = signal };
    say(of(l), SAID_EXIT, NULL, 0, &how);
}

/* What the answer to each kind of request must have when it went well. */
static const char *members_of(enum wire_type request)
{
    switch (request) {
    case WIRE_EXEC:
        return "{\"columns\":[],\"types\":[],\"rows\":[],\"row_count\":0,\"truncated\":false}";
    case WIRE_INGEST:
        return "{\"columns\":[],\"types\":[],\"row_count\":0,\"report\":{\"rows\":0}}";
    case WIRE_LIST:
        return "{\"files\":[],\"files_truncated\":false}";
    case WIRE_READ:
    case WIRE_EXPORT:
        return "{\"size\":0,\"bytes\":0}";
    default:
        return "{\"size\":0}";
    }
}

void fake_answer(struct kernel_link *l, const struct fake_request *req, const char *verdict)
{
    json_t *body = json_loads(members_of(req->type), 0, NULL);
    json_object_set_new(body, "verdict", json_string(verdict));
    json_object_set_new(body, "exec_time_ms", json_real(0.1));
    if (!str_eq(verdict, "ok"))
        json_object_set_new(
            body, "error",
            json_pack("{s:s, s:s}", "type", "Error", "message", "the script says so"));
    fake_say(l, wire_message(req->type)->answer, req->id, body);
}

static void answer_value(struct kernel_link *l, const struct fake_request *req, json_int_t value)
{
    fake_say(l, WIRE_RESULT, req->id,
             json_pack("{s:s, s:[s], s:[s], s:[[I]], s:i, s:b, s:n, s:f}", "verdict", "ok",
                       "columns", "value", "types", "BIGINT", "rows", value, "row_count", 1,
                       "truncated", 0, "error", "exec_time_ms", 0.1));
}

void fake_answer_exec(struct kernel_link *link, const struct fake_request *request)
{
    struct fake_link *l = of(link);
    const char *code = json_string_value(json_object_get(request->body, "code"));
    char name[32], text[256];
    long long value;
    int n = 0;
    if (sscanf(code, "SELECT %lld%n", &value, &n) == 1 && !code[n]) {
        answer_value(link, request, value);
    } else if (sscanf(code, "%lld%n", &value, &n) == 1 && !code[n]) {
        answer_value(link, request, value);
    } else if (sscanf(code, "%31[a-z] = %lld%n", name, &value, &n) == 2 && !code[n]) {
        json_object_set_new(l->names, name, json_integer(value));
        fake_answer(link, request, "ok");
    } else if (sscanf(code, "print('%255[^']')%n", text, &n) == 1 && n > 0 && !code[n]) {
        fake_print(link, false, text);
        fake_print(link, false, "\n");
        fake_answer(link, request, "ok");
    } else if (str_eq(code, "raise")) {
        fake_answer(link, request, "error");
    } else if (str_eq(code, "spin()")) {
        l->spinning = true;
        l->spun = (struct fake_request){ .type = request->type, .id = request->id };
    } else if (sscanf(code, "import os; os._exit(%lld)%n", &value, &n) == 1 && n > 0 && !code[n]) {
        fake_exit(link, (int)value, 0);
    } else if (json_is_integer(json_object_get(l->names, code))) {
        answer_value(link, request, json_integer_value(json_object_get(l->names, code)));
    } else {
        fake_answer(link, request, "error");
    }
}

/* ---- a turn: what was said is delivered, what was asked is answered ---- */

static void answer(struct fake_link *l)
{
    const struct wire_head *h = &l->reader.head;
    auto_json json_t *body = NULL;
    size_t nodes = SIZE_MAX;
    if (h->type == WIRE_BYTES ||
        wire_parse(h->type, l->reader.body, h->len, &nodes, &body, NULL) < 0)
        return;
    struct fake_request req = { .type = h->type, .id = h->id, .body = body };
    if (plan.script)
        plan.script(&l->base, &req, plan.arg);
    else if (h->type == WIRE_EXEC)
        fake_answer_exec(&l->base, &req);
    else if (wire_message(h->type)->kind == WIRE_REQUEST)
        fake_answer(&l->base, &req, "ok");
}

static void answer_requests(struct fake_link *l)
{
    const char *bytes = l->inbox.data;
    size_t len = l->inbox.len;
    enum wire_step step;
    while (!l->released && !l->base.dead &&
           (step = wire_reader_step(&l->reader, &bytes, &len)) != WIRE_MORE) {
        if (step == WIRE_MESSAGE)
            answer(l);
        else if (step == WIRE_BROKEN)
            break;
    }
    buf_clear(&l->inbox);
}

static bool ends(const struct said *s)
{
    while (s && s->kind != SAID_EXIT)
        s = s->next;
    return s;
}

static void on_turn(uv_timer_t *h)
{
    struct fake_link *l = h->data;
    link_done_fn settled = TAKE_PTR(l->settled);
    if (settled)
        settled(l->settled_arg, NULL);
    if (l->released)
        return;
    answer_requests(l);
    while (l->first && !l->released && !l->base.dead && !l->control_paused) {
        struct said *s = l->first;
        if (!l->busy && s->kind != SAID_EXIT && !ends(s))
            return; /* nobody reads now */
        l->first = s->next;
        if (!l->first)
            l->end = &l->first;
        const struct link_events *events = l->base.events;
        if (s->kind == SAID_EXIT)
            l->base.dead = true;
        if (events && s->kind == SAID_EXIT)
            events->exited(l->base.arg, &s->how);
        else if (events && s->kind == SAID_CONTROL)
            events->control(l->base.arg, s->bytes, s->len);
        else if (events)
            events->output(l->base.arg, s->kind == SAID_ERR, s->bytes, s->len);
        free(s);
    }
}

/* ---- ops ---- */

static void finish_close(struct fake *p)
{
    if (!p->closed || p->n_links > 0)
        return;
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    free(p);
    closed(arg);
}

static void free_link(uv_handle_t *h)
{
    struct fake_link *l = h->data;
    struct fake *p = (struct fake *)l->base.provider;
    for (struct said *s; (s = l->first);) {
        l->first = s->next;
        free(s);
    }
    buf_finish(&l->inbox);
    wire_reader_finish(&l->reader);
    json_decref(l->names);
    free(l);
    p->n_links--;
    finish_close(p);
}

static void fake_release(struct kernel_link *link)
{
    if (!link)
        return;
    struct fake_link *l = of(link);
    l->released = true;
    l->base.events = NULL;
    uv_close((uv_handle_t *)&l->turn, free_link);
}

static void fake_kill(struct kernel_link *l)
{
    if (!l->dead)
        fake_exit(l, 0, SIGKILL);
}

/* Frozen or thawed: a fake kernel does nothing between requests either way. */
static void fake_settle(struct kernel_link *link, link_done_fn done, void *arg)
{
    struct fake_link *l = of(link);
    l->settled = done;
    l->settled_arg = arg;
    uv_timer_start(&l->turn, on_turn, 0, 0);
}

static void fake_interrupt(struct kernel_link *link)
{
    struct fake_link *l = of(link);
    if (!l->spinning)
        return;
    l->spinning = false;
    fake_answer(link, &l->spun, "interrupted");
}

struct fake_spawn {
    uv_timer_t turn;
    struct fake *provider;
    spawn_fn done;
    void *arg;
};

static void free_spawn(uv_handle_t *h)
{
    free(h->data);
}

static void on_spawn(uv_timer_t *h)
{
    struct fake_spawn *s = h->data;
    struct fake_link *l = calloc(1, sizeof(*l));
    struct err err = ERR_INIT;
    int r = l ? step(FAKE_SPAWN, &err) : err_set(&err, ERR_NO_MEMORY, "out of memory");
    uv_close((uv_handle_t *)h, free_spawn);
    if (r < 0) {
        free(l);
        s->done(s->arg, NULL, &err);
        return;
    }
    l->base.provider = &s->provider->base;
    l->end = &l->first;
    l->names = json_object();
    buf_init(&l->inbox, SIZE_MAX);
    wire_reader_init(&l->reader, WIRE_TO_KERNEL);
    uv_timer_init(s->provider->base.loop, &l->turn);
    l->turn.data = l;
    s->provider->n_links++;
    s->done(s->arg, &l->base, NULL);
}

static int fake_spawn_kernel(struct provider *base, const struct spawn_spec *spec, spawn_fn done,
                             void *arg, struct err *err)
{
    struct fake_spawn *s = calloc(1, sizeof(*s));
    (void)spec;
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *s = (struct fake_spawn){ .provider = (struct fake *)base, .done = done, .arg = arg };
    uv_timer_init(base->loop, &s->turn);
    s->turn.data = s;
    uv_timer_start(&s->turn, on_spawn, 0, 0);
    return 0;
}

static int fake_start(struct kernel_link *l, json_t *start, const struct kernel_mount *mounts,
                      size_t n_mounts, struct err *err)
{
    (void)start, (void)mounts, (void)n_mounts;
    int r = step(FAKE_START, err);
    if (r == 0)
        fake_say(l, WIRE_READY, 0, json_pack("{s:i, s:s}", "version", WIRE_VERSION, "missing", ""));
    return r;
}

static int fake_send(struct kernel_link *link, const void *bytes, size_t len, struct err *err)
{
    struct fake_link *l = of(link);
    int r = step(FAKE_SEND, err);
    if (r == 0 && l->base.dead)
        r = err_set(err, ERR_UNAVAILABLE, "the kernel of this sandbox is gone");
    if (r == 0)
        r = buf_append(&l->inbox, bytes, len, err);
    if (r == 0)
        uv_timer_start(&l->turn, on_turn, 0, 0);
    return r;
}

static void fake_set_busy(struct kernel_link *l, bool busy)
{
    of(l)->busy = busy;
    if (busy)
        uv_timer_start(&of(l)->turn, on_turn, 0, 0);
}

static void fake_pause_control(struct kernel_link *l, bool paused)
{
    of(l)->control_paused = paused;
    if (!paused)
        uv_timer_start(&of(l)->turn, on_turn, 0, 0);
}

static void fake_drain(struct kernel_link *l)
{
    (void)l; /* output and answers share one queue */
}

static int fake_limit(struct kernel_link *l, const struct sandbox_limits *limits, struct err *err)
{
    (void)l, (void)limits;
    return step(FAKE_LIMIT, err);
}

static bool fake_probe(const struct config *cfg, probe_fn say_line, void *arg)
{
    (void)cfg;
    say_line(arg, PROBE_CAUTION, "fake provider", "runs no code", "it is for tests");
    return true;
}

static void fake_health(const struct provider *p, enum run_kind kind, struct kernel_health *ret)
{
    (void)p, (void)kind, (void)ret;
}

static int fake_open(uv_loop_t *loop, const struct config *cfg, const struct provider_options *opt,
                     struct provider **ret, struct err *err)
{
    struct fake *p = calloc(1, sizeof(*p));
    (void)opt;
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    p->base = (struct provider){ .ops = &fake_provider, .loop = loop, .cfg = cfg };
    *ret = &p->base;
    return 0;
}

static void on_closing(uv_handle_t *h)
{
    struct fake *p = h->data;
    free(h);
    finish_close(p);
}

static void fake_close(struct provider *base, void (*closed)(void *arg), void *arg)
{
    struct fake *p = (struct fake *)base;
    p->closed = closed;
    p->closed_arg = arg;
    if (p->n_links > 0)
        return;
    uv_timer_t *turn = calloc(1, sizeof(*turn));
    if (!turn)
        abort();
    uv_timer_init(base->loop, turn);
    turn->data = p;
    uv_close((uv_handle_t *)turn, on_closing);
}

const struct provider_ops fake_provider = {
    .name = "fake",
    .caps = PROVIDER_INTERRUPT | PROVIDER_LIMIT | PROVIDER_FREEZE,
    .probe = fake_probe,
    .open = fake_open,
    .close = fake_close,
    .spawn = fake_spawn_kernel,
    .start = fake_start,
    .send = fake_send,
    .set_busy = fake_set_busy,
    .pause_control = fake_pause_control,
    .drain = fake_drain,
    .limit = fake_limit,
    .freeze = fake_settle,
    .thaw = fake_settle,
    .interrupt = fake_interrupt,
    .kill = fake_kill,
    .release = fake_release,
    .health = fake_health,
};
