/*
 * One client: bytes in and out, and the execution that it debugs. Requests are worked on one after
 * the other, because the debugger takes one command at a time.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "dap/dap_impl.h"
#include "dap/frame.h"
#include "run/sandbox_terms.h"

#define SESSIONS_MAX 64
#define SESSIONS_OF_OWNER_MAX 8
#define ATTACH_MS 15000
#define LINGER_MS 60000        /* after the end of its execution */
#define AWAIT_MS 600000        /* for an execution that somebody else starts */
#define REQUESTS_MAX 256       /* that wait */
#define UNREAD_MAX (16u << 20) /* bytes that a client has not read: it is gone */
#define IN_MAX (DAP_MESSAGE_MAX + DAP_HEAD_MAX + (64u << 10))

/* ---- the connection ---- */

struct sent {
    uv_write_t req;
    struct session *session;
    size_t len;
    char *bytes;
};

static void maybe_free(struct session *s)
{
    if (!s->is_closed || s->is_opening)
        return;
    buf_finish(&s->in);
    json_decref(s->waiting);
    json_decref(s->request);
    json_decref(s->pause);
    json_decref(s->breakpoints);
    dap_values_clear(&s->values);
    offer_free(s->offer);
    ws_reader_finish(&s->websocket);
    free(s->owner);
    free(s->sandbox_id);
    free(s->debug_id);
    free(s->steps);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct session *s = h->data;
    s->is_closed = true;
    maybe_free(s);
}

void session_end(struct session *s)
{
    if (s->is_closing)
        return;
    s->is_closing = true;
    if (s->prev)
        s->prev->next = s->next;
    else
        s->dap->sessions = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->dap->n_sessions--;
    loop_cancel(TAKE_PTR(s->timer));
    if (s->told)
        chat_debug_forget(s->chat, s);
    s->told = NULL;
    if (s->is_awaiting)
        chat_await_end(s->chat, s);
    if (s->turn && s->is_anothers)
        turn_cancel(s->turn);
    if (s->turn)
        turn_drop(TAKE_PTR(s->turn), s); /* a debugger that is gone would leave it paused */
    chat_unref(TAKE_PTR(s->chat));
    uv_close((uv_handle_t *)&s->tcp, on_closed);
}

static void on_late(void *arg)
{
    struct session *s = arg;
    s->timer = NULL;
    session_end(s);
}

static void on_written(uv_write_t *req, int status)
{
    struct sent *w = CONTAINER_OF(req, struct sent, req);
    struct session *s = w->session;
    s->queued_bytes -= w->len;
    free(w->bytes);
    free(w);
    if (!s->is_closing && (status < 0 || (s->is_ending && s->queued_bytes == 0)))
        session_end(s);
}

/* out is emptied. A client that does not read is gone. */
static void send_bytes(struct session *s, struct buf *out)
{
    struct sent *w = calloc(1, sizeof(*w));
    if (!w || s->queued_bytes + out->len > UNREAD_MAX) {
        free(w);
        session_end(s);
        return;
    }
    w->session = s;
    w->len = out->len;
    w->bytes = buf_take(out);
    uv_buf_t piece = uv_buf_init(w->bytes, (unsigned)w->len);
    s->queued_bytes += w->len;
    int r = w->bytes ? uv_write(&w->req, (uv_stream_t *)&s->tcp, &piece, 1, on_written) : UV_ENOMEM;
    if (r < 0) {
        s->queued_bytes -= w->len;
        free(w->bytes);
        free(w);
        session_end(s);
    }
}

static int write_message(const struct session *s, const json_t *message, struct buf *out,
                         struct err *err)
{
    if (!s->is_websocket)
        return dap_write(message, out, err);
    auto_free char *text = json_to_str(message);
    return text ? ws_append(out, WS_TEXT, text, strlen(text), err) :
                  err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* message is taken. */
static void send_message(struct session *s, json_t *message)
{
    auto_json json_t *m = message;
    auto_buf struct buf out = BUF_INIT(UNREAD_MAX);
    struct err err = ERR_INIT;
    if (s->is_closing || s->is_ending)
        return;
    json_object_set_new(m, "seq", json_integer(++s->seq));
    if (write_message(s, m, &out, &err) < 0)
        session_end(s);
    else
        send_bytes(s, &out);
}

void session_finish(struct session *s)
{
    auto_buf struct buf out = BUF_INIT(WS_CONTROL_MAX);
    struct err err = ERR_INIT;
    if (s->is_websocket && !s->is_ending && ws_append_close(&out, WS_NORMAL, &err) == 0)
        send_bytes(s, &out);
    if (s->is_closing)
        return;
    if (s->queued_bytes == 0)
        session_end(s);
    else
        s->is_ending = true;
}

void session_event(struct session *s, const char *event, json_t *body)
{
    send_message(s, json_pack("{s:s, s:s, s:o}", "type", "event", "event", event, "body", body));
}

/* ---- requests, one after the other ---- */

static json_t *answer_to(const json_t *request, bool success)
{
    return json_pack("{s:s, s:O, s:O, s:b}", "type", "response", "request_seq",
                     json_object_get(request, "seq"), "command",
                     json_object_get(request, "command"), "success", success);
}

void session_answer(struct session *s, json_t *body)
{
    auto_json json_t *request = TAKE_PTR(s->request);
    json_t *answer = answer_to(request, true);
    json_object_set_new(answer, "body", body ? body : json_object());
    send_message(s, answer);
}

static void refuse_request(struct session *s, const json_t *request, const char *message)
{
    json_t *answer = answer_to(request, false);
    json_object_set_new(answer, "message", json_string(message));
    json_object_set_new(
        answer, "body",
        json_pack("{s:{s:i, s:s, s:b}}", "error", "id", 1, "format", message, "showUser", 1));
    send_message(s, answer);
}

void session_fail(struct session *s, const struct err *err)
{
    auto_json json_t *request = TAKE_PTR(s->request);
    refuse_request(s, request, err->message);
}

void session_refuse(struct session *s, const char *fmt, ...)
{
    struct err err = ERR_INIT;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err.message, sizeof(err.message), fmt, args);
    va_end(args);
    session_fail(s, &err);
}

static void work(struct session *s)
{
    while (!s->is_closing && !s->is_ending && !s->request && json_array_size(s->waiting) > 0) {
        s->request = json_incref(json_array_get(s->waiting, 0));
        json_array_remove(s->waiting, 0);
        request_begin(s);
    }
}

/* The one that ends everything does not wait for an answer that may never come. */
static void jump_queue(struct session *s, json_t *request)
{
    auto_json json_t *given_up = TAKE_PTR(s->request);
    if (given_up) {
        if (s->told)
            chat_debug_forget(s->chat, s);
        s->told = NULL;
        refuse_request(s, given_up, "cancelled");
    }
    json_array_clear(s->waiting);
    s->request = json_incref(request);
    request_begin(s);
}

/* As dap_take_request(). Pings are answered on the way. */
static int take_websocket_request(struct session *s, json_t **ret, struct err *err)
{
    while (!s->is_closing && !s->is_ending) {
        auto_buf struct buf pong = BUF_INIT(2 * WS_CONTROL_MAX);
        struct ws_message m;
        int r = ws_take(&s->websocket, &s->in, &m, err);
        if (r <= 0)
            return r;
        switch (m.opcode) {
        case WS_TEXT:
            r = dap_parse_request(m.data, m.len, ret, err);
            return r < 0 ? r : 1;
        case WS_PING:
            if (ws_append(&pong, WS_PONG, m.data, m.len, err) == 0)
                send_bytes(s, &pong);
            break;
        case WS_CLOSE:
            session_finish(s);
            break;
        case WS_PONG:
            break;
        case WS_BINARY:
        case WS_CONTINUATION:
            return err_set(err, ERR_PROTOCOL, "messages are texts, one JSON object each");
        }
    }
    return 0;
}

static void take_requests(struct session *s)
{
    struct err err = ERR_INIT;
    while (!s->is_closing && !s->is_ending) {
        auto_json json_t *request = NULL;
        int r = s->is_websocket ? take_websocket_request(s, &request, &err) :
                                  dap_take_request(&s->in, &request, &err);
        if (r == 0)
            return;
        if (r < 0 || json_array_size(s->waiting) >= REQUESTS_MAX) {
            session_event(s, "output",
                          json_pack("{s:s, s:s+}", "category", "important", "output",
                                    r < 0 ? err.message : "too many requests wait", "\n"));
            session_finish(s);
        } else if (request_is_urgent(request)) {
            jump_queue(s, request);
        } else {
            json_array_append(s->waiting, request);
            work(s);
        }
    }
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char chunk[65536]; /* one loop, and a chunk is used before the next is read */
    (void)h, (void)suggested;
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct session *s = stream->data;
    struct err err = ERR_INIT;
    if (n < 0 || (n > 0 && buf_append(&s->in, buf->base, (size_t)n, &err) < 0))
        session_end(s);
    else if (n > 0)
        take_requests(s);
}

/* A session whose connection is still to be opened; NULL: out of memory. */
static struct session *session_create(struct dap *d)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct session){ .dap = d,
                           .in = BUF_INIT(IN_MAX),
                           .exceptions = "uncaught",
                           .waiting = json_array(),
                           .breakpoints = json_array(),
                           .next = d->sessions };
    ws_reader_init(&s->websocket, DAP_MESSAGE_MAX);
    uv_tcp_init(loop_uv(d->loop), &s->tcp);
    s->tcp.data = s;
    if (d->sessions)
        d->sessions->prev = s;
    d->sessions = s;
    d->n_sessions++;
    return s;
}

/* Its connection is open. False: it has ended. */
static bool session_begin(struct session *s)
{
    struct dap *d = s->dap;
    struct err err = ERR_INIT;
    if (d->n_sessions > SESSIONS_MAX || !s->waiting || !s->breakpoints ||
        loop_after(d->loop, ATTACH_MS, on_late, s, &s->timer, &err) < 0 ||
        uv_read_start((uv_stream_t *)&s->tcp, on_alloc, on_read) < 0) {
        session_end(s);
        return false;
    }
    uv_tcp_nodelay(&s->tcp, 1);
    return true;
}

void session_start(struct dap *d)
{
    struct session *s = session_create(d);
    if (s && uv_accept((uv_stream_t *)&d->listener, (uv_stream_t *)&s->tcp) < 0)
        session_end(s);
    else if (s)
        (void)session_begin(s);
}

void dap_serve_websocket(struct dap *d, int fd, const char *bytes, size_t len, const char *owner,
                         const char *sandbox_id)
{
    struct session *s = session_create(d);
    struct err err = ERR_INIT;
    if (!s || uv_tcp_open(&s->tcp, fd) < 0)
        close(fd);
    if (!s)
        return;
    s->is_websocket = true;
    s->owner = strdup(owner);
    s->sandbox_id = strdup(sandbox_id);
    if (!s->owner || !s->sandbox_id || buf_append(&s->in, bytes, len, &err) < 0)
        session_end(s);
    else if (session_begin(s))
        take_requests(s);
}

/* ---- the execution ---- */

static const char *text_in(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void print(struct session *s, const char *category, const char *text)
{
    session_event(s, "output",
                  json_pack("{s:s, s:s}", "category", category, "output", text ? text : ""));
}

void session_stopped(struct session *s, const char *reason)
{
    const json_t *exception = json_object_get(s->pause, "exception"),
                 *point = json_object_get(s->pause, "breakpoint");
    json_t *body = json_pack("{s:s, s:i, s:b, s:b}", "reason", reason, "threadId", DAP_THREAD,
                             "preserveFocusHint", str_eq(reason, "pause"), "allThreadsStopped", 1);
    if (exception) {
        json_object_set(body, "text", json_object_get(exception, "type"));
        json_object_set(body, "description", json_object_get(exception, "message"));
    }
    if (point && str_eq(reason, "breakpoint"))
        json_object_set_new(body, "hitBreakpointIds", json_pack("[O]", point));
    if (text_in(s->pause, "note"))
        print(s, "console", text_in(s->pause, "note"));
    session_event(s, "stopped", body);
}

static void on_pause(struct session *s, json_t *pause)
{
    enum session_state was = s->state;
    json_decref(s->pause);
    s->pause = json_incref(pause);
    dap_values_clear(&s->values);
    if (was == SESSION_STARTING) {
        s->state = SESSION_CONFIGURING;
        session_answer(s, NULL);
        session_event(s, "initialized", json_object());
        session_event(s, "process",
                      json_pack("{s:s?, s:b, s:s}", "name", s->offer->sandbox_id, "isLocalProcess",
                                0, "startMethod", s->is_launched ? "launch" : "attach"));
        session_event(s, "thread",
                      json_pack("{s:s, s:i}", "reason", "started", "threadId", DAP_THREAD));
        work(s);
        return;
    }
    s->state = SESSION_PAUSED;
    if (!s->is_going_back) /* else the answer to that comes first */
        session_stopped(s, text_in(pause, "reason") ? text_in(pause, "reason") : "pause");
}

static void note_step(struct session *s, const json_t *step)
{
    if (!s->steps)
        s->steps = calloc(DAP_STEPS_MAX, sizeof(*s->steps));
    int64_t number = json_integer_value(json_object_get(step, "step"));
    if (!s->steps || json_is_true(json_object_get(step, "resumed")))
        return;
    /* Those behind it are told anew after going back. */
    while (s->n_steps > 0 && s->steps[s->n_steps - 1].step >= number)
        s->n_steps--;
    if (s->n_steps == DAP_STEPS_MAX)
        memmove(s->steps, s->steps + 1, --s->n_steps * sizeof(*s->steps));
    s->steps[s->n_steps].step = number;
    s->steps[s->n_steps++].line = json_object_get(step, "cell") ?
                                      0 :
                                      (int)json_integer_value(json_object_get(step, "line"));
}

static void on_event(void *arg, const char *type, json_t *data)
{
    struct session *s = arg;
    const char *stage = text_in(data, "stage");
    if (str_eq(type, "step") && text_in(data, "text")) {
        print(s, str_eq(text_in(data, "stream"), "stderr") ? "stderr" : "stdout",
              text_in(data, "text"));
    } else if (str_eq(type, "step")) {
        note_step(s, data);
        if (text_in(data, "log")) {
            auto_json json_t *line = json_sprintf("%s\n", text_in(data, "log"));
            print(s, "console", json_string_value(line));
        }
    } else if (str_eq(type, "image")) {
        print(s, "console", "(a figure: see the execution's result)\n");
    } else if (str_eq(type, "status") && str_eq(stage, "debugging")) {
        free(s->debug_id);
        s->debug_id = strdup(text_in(data, "debug_id"));
    } else if (str_eq(type, "status") && str_eq(stage, "paused")) {
        on_pause(s, data);
    } else if (str_eq(type, "status") && str_eq(stage, "running")) {
        json_decref(TAKE_PTR(s->pause));
        dap_values_clear(&s->values);
        s->state = SESSION_RUNNING;
    }
}

static void print_result(struct session *s, const json_t *answer, const struct err *err)
{
    const json_t *result = json_object_get(answer, "result"),
                 *error = json_object_get(result, "error"),
                 *value = json_object_get(result, "value");
    const char *trace = text_in(error, "traceback"),
               *text = trace ? trace : text_in(error, "message");
    if (err)
        text = err->message;
    auto_json json_t *line = json_sprintf("%s\n", text ? text : text_in(value, "text"));
    if (text)
        print(s, "stderr", json_string_value(line));
    else if (text_in(value, "text"))
        print(s, "console", json_string_value(line));
}

static void on_done(void *arg, json_t *answer, const struct err *err)
{
    struct session *s = arg;
    struct err ignored = ERR_INIT;
    bool was_starting = s->state == SESSION_STARTING;
    s->turn = NULL;
    (void)loop_after(s->dap->loop, LINGER_MS, on_late, s, &s->timer, &ignored);
    s->state = SESSION_OVER;
    json_decref(TAKE_PTR(s->pause));
    dap_values_clear(&s->values);
    print_result(s, answer, err);
    if (was_starting) { /* it cannot even be compiled, or had no kernel */
        const json_t *error = json_object_get(json_object_get(answer, "result"), "error");
        const char *why = err ? err->message : text_in(error, "message");
        session_refuse(s, "%s", why ? why : "the execution ended before its first line");
    } else {
        session_event(s, "thread",
                      json_pack("{s:s, s:i}", "reason", "exited", "threadId", DAP_THREAD));
    }
    session_event(s, "terminated", json_object());
    work(s);
}

/* ---- an execution that somebody else starts ---- */

static void on_not_begun(void *arg)
{
    struct session *s = arg;
    s->timer = NULL;
    session_refuse(s, "nothing was executed in this sandbox for %d minutes", AWAIT_MS / 60000);
    session_finish(s);
}

static void on_begun(void *arg, struct turn *t, const char *code)
{
    struct session *s = arg;
    struct err err = ERR_INIT;
    struct turn_listener listener = { .event = on_event, .done = on_done, .arg = s };
    s->is_awaiting = false;
    loop_cancel(TAKE_PTR(s->timer));
    s->offer->code.code = arena_strdup(&s->offer->arena, code);
    int r = s->offer->code.code ? turn_follow(t, &listener, &err) :
                                  err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        turn_cancel(t); /* nobody would go on from its first pause */
        session_fail(s, &err);
        session_finish(s);
        return;
    }
    s->is_anothers = true;
    s->turn = t;
}

static int await_execution(struct session *s, const json_t *options, struct err *err)
{
    const struct chat_debugger d = { .options = options, .begun = on_begun, .arg = s };
    loop_cancel(TAKE_PTR(s->timer));
    int r = loop_after(s->dap->loop, AWAIT_MS, on_not_begun, s, &s->timer, err);
    if (r == 0)
        r = chat_await(s->chat, &d, err);
    s->is_awaiting = r == 0;
    return r;
}

static void on_open(struct chat *chat, const struct err *err, void *arg)
{
    struct session *s = arg;
    struct err why = ERR_INIT;
    s->is_opening = false;
    if (s->is_closing) {
        chat_unref(chat);
        maybe_free(s);
        return;
    }
    s->chat = chat;
    const struct sandbox_terms *terms = chat ? chat_terms(chat) : NULL;
    if (err || !terms) {
        session_refuse(s, "there is no sandbox '%s' any more", s->offer->sandbox_id);
        return;
    }
    if (!terms->debugging) {
        session_refuse(s, "this sandbox was created without enable_debugging");
        return;
    }
    auto_json json_t *options = json_pack("{s:i, s:i, s:b, s:b, s:s, s:[]}", "max_steps",
                                          DAP_STEPS_MAX, "max_bytes", 8 << 20, "stop_on_entry", 1,
                                          "rewind", 1, "exceptions", s->exceptions, "breakpoints");
    struct chat_code code = s->offer->code;
    int64_t most = terms->timeout_ms;
    code.timeout_ms = code.timeout_ms ? MIN_OF(code.timeout_ms, most) : most;
    code.debug = options;
    struct turn_listener listener = { .event = on_event, .done = on_done, .arg = s };
    s->state = SESSION_STARTING;
    if (!code.code && await_execution(s, options, &why) == 0)
        return;
    if (code.code && chat_execute(chat, &code, &listener, &s->turn, &why) == 0) {
        loop_cancel(TAKE_PTR(s->timer));
        return;
    }
    s->state = SESSION_OVER;
    session_fail(s, &why);
}

int session_execute(struct session *s, struct err *err)
{
    size_t n = 0;
    for (const struct session *other = s->dap->sessions; other; other = other->next)
        n += other != s && other->offer && str_eq(other->offer->owner, s->offer->owner);
    if (n >= SESSIONS_OF_OWNER_MAX)
        return err_set(err, ERR_UNAVAILABLE, "%zu debuggers are attached already", n);
    s->is_opening = true;
    int r = chat_open(s->dap->agent, s->offer->owner, s->offer->sandbox_id, on_open, s, err);
    if (r < 0)
        s->is_opening = false;
    return r;
}

static void on_told(void *arg, const json_t *value, const struct err *err)
{
    struct session *s = arg;
    told_fn told = TAKE_PTR(s->told);
    told(s, value, err);
    work(s);
}

void session_ask(struct session *s, json_t *command, told_fn told)
{
    auto_json json_t *c = command;
    struct err err = ERR_INIT;
    s->told = told;
    if (!s->turn || !s->debug_id)
        err_set(&err, ERR_CONFLICT, "the execution has ended");
    else if (chat_debug(s->chat, s->debug_id, c, on_told, s, &err) == 0)
        return;
    s->told = NULL;
    told(s, NULL, &err);
}
