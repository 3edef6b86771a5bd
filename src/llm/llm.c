/*
 * Calls of models. A call makes one request or, while failures pass and no token has been told, several: each answer is read by the
 * provider's functions into a draft, which becomes the reply. The whole call has one deadline.
 *
 *   llm_start → try_now → (client) → on_body … → on_done ─→ finish: reply, or error
 *                  ↑                                      └→ wait: retry() is told, a timer runs
 *                  └──────────────────────────────────────────┘
 *
 * A user may cancel a call, or destroy everything, from within any callback. What is on the stack then is freed when the stack is
 * unwound: `busy` counts the frames.
 */

#include "llm/llm_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/str.h"
#include "llm/sse_read.h"

#define BACKOFF_FIRST_MS 500
#define BACKOFF_MAX_MS 8000
#define CONNECT_TIMEOUT_MS 10000

enum mode { MODE_NONE, MODE_STREAM, MODE_WHOLE, MODE_ERROR };

struct llm {
    uv_loop_t *loop;
    struct client *client;
    const struct llm_provider *provider;
    struct llm_target target;
    char origin[CLIENT_ORIGIN_SIZE];
    unsigned quirks; /* known and learned */
    int64_t timeout_ms;
    unsigned max_retries;
    struct llm_call *calls;
    struct llm_stats stats;
    int busy;
    bool destroyed;
};

struct llm_call {
    struct llm *llm;
    struct llm_call *next, **prev;
    struct llm_events events;
    json_t *body;
    unsigned quirks; /* already applied to the body */
    struct llm_draft draft;
    struct sse_reader reader;
    struct buf answer; /* what is not streamed */
    enum mode mode;
    struct client_request *request;
    uv_timer_t timer; /* between tries */
    int64_t start_us, deadline_ms, first_token_us;
    unsigned attempts, retries;
    bool told; /* a token: no more tries */
    int busy;
    bool dead; /* cancelled or finished while busy */
};

static void try_now(struct llm_call *call);

/* ---- life ---- */

static void call_closed(uv_handle_t *h)
{
    struct llm_call *call = h->data;

    llm_draft_finish(&call->draft);
    sse_reader_finish(&call->reader);
    buf_finish(&call->answer);
    json_decref(call->body);
    free(call);
}

/* Out of the list, and freed as soon as nothing of it is on the stack. */
static void call_drop(struct llm_call *call)
{
    if (!call->dead) {
        call->dead = true;
        if (call->request)
            client_cancel(TAKE_PTR(call->request));
        uv_timer_stop(&call->timer);
        *call->prev = call->next;
        if (call->next)
            call->next->prev = call->prev;
    }
    if (call->busy == 0)
        uv_close((uv_handle_t *)&call->timer, call_closed);
}

static void llm_free(struct llm *llm)
{
    client_destroy(llm->client);
    llm_target_finish(&llm->target);
    free(llm);
}

static void enter(struct llm_call *call)
{
    call->busy++;
    call->llm->busy++;
}

/* True when the call is gone. */
static bool leave(struct llm_call *call)
{
    struct llm *llm = call->llm;
    bool dead = call->dead;

    if (--call->busy == 0 && dead)
        call_drop(call);
    if (--llm->busy == 0 && llm->destroyed)
        llm_free(llm);
    return dead;
}

static const struct llm_provider *const providers[] = { &llm_openai, &llm_anthropic, &llm_builtin };

static bool is_usable(const struct llm_target *t)
{
    return *t->key || !t->is_own;
}

/* By name; for `auto`, the first that can be used: builtin is the last, and always can. */
static int choose(struct llm *llm, const struct config *cfg, struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(providers); i++) {
        bool is_auto = str_eq(cfg->llm_provider, "auto");
        int r;

        if (!is_auto && !str_eq(cfg->llm_provider, providers[i]->name))
            continue;
        r = providers[i]->configure(cfg, &llm->target, err);
        if (r < 0)
            return r;
        llm->provider = providers[i];
        if (is_usable(&llm->target))
            return 0;
        if (!is_auto)
            return err_set(err, ERR_CONFIG, "LLM_PROVIDER is '%s', but %s is not set", providers[i]->name,
                           llm->target.key_setting);
        llm_target_finish(&llm->target);
    }
    return err_set(err, ERR_CONFIG, "there is no LLM_PROVIDER '%s'", cfg->llm_provider);
}

int llm_create(uv_loop_t *loop, const struct config *cfg, struct llm **ret, struct err *err)
{
    struct llm *llm = calloc(1, sizeof(*llm));
    int r;

    if (!llm)
        return err_set(err, ERR_NO_MEMORY, "out of memory for models");
    llm->loop = loop;
    llm->timeout_ms = cfg->llm_timeout_s * 1000;
    llm->max_retries = (unsigned)cfg->llm_max_retries;
    r = choose(llm, cfg, err);
    if (r == 0 && !llm_is_builtin(llm)) {
        r = client_create(loop, *cfg->curl_ca_bundle ? cfg->curl_ca_bundle : cfg->ssl_cert_file, &llm->client, err);
        if (r == 0) {
            client_origin(llm->target.url, llm->origin);
            if (!llm->origin[0])
                r = err_set(err, ERR_CONFIG, "%s must be an http or https URL", llm->target.url_setting);
        }
        if (r == 0 && llm->provider->quirks)
            llm->quirks = llm->provider->quirks(llm->target.model);
    }
    if (r < 0) {
        llm_free(llm);
        return r;
    }
    *ret = llm;
    return 0;
}

void llm_destroy(struct llm *llm)
{
    if (!llm)
        return;
    while (llm->calls)
        call_drop(llm->calls);
    llm->destroyed = true;
    if (llm->busy == 0)
        llm_free(llm);
}

const char *llm_provider(const struct llm *llm)
{
    return llm->provider->name;
}

const char *llm_model(const struct llm *llm)
{
    return llm->target.model;
}

bool llm_is_builtin(const struct llm *llm)
{
    return llm->provider == &llm_builtin;
}

void llm_stats(const struct llm *llm, struct llm_stats *ret)
{
    *ret = llm->stats;
}

/* ---- the end of a call ---- */

static void tell_reply(struct llm_call *call)
{
    struct llm *llm = call->llm;
    struct llm_draft *d = &call->draft;
    struct llm_tool_call calls[LLM_CALLS_MAX];
    struct llm_reply reply = {
        .text = buf_cstr(&d->text),
        .calls = calls,
        .n_calls = d->n_calls,
        .stop = d->stop,
        .usage = { .input_tokens = d->input_tokens, .output_tokens = d->output_tokens },
        .first_token_us = call->first_token_us,
        .total_us = clock_now_us() - call->start_us,
        .attempts = call->attempts,
    };

    for (size_t i = 0; i < d->n_calls; i++)
        calls[i] = (struct llm_tool_call){ .id = buf_cstr(&d->calls[i].id),
                                           .name = buf_cstr(&d->calls[i].name),
                                           .arguments = buf_cstr(&d->calls[i].arguments) };
    reply.usage.cost_usd = d->input_tokens + d->output_tokens > 0 ?
                               llm_price(llm->target.model, d->input_tokens, d->output_tokens) :
                               -1;
    llm->stats.input_tokens += (uint64_t)d->input_tokens;
    llm->stats.output_tokens += (uint64_t)d->output_tokens;
    if (reply.usage.cost_usd > 0)
        llm->stats.cost_usd += reply.usage.cost_usd;
    call->events.done(call->events.arg, &reply, NULL);
}

/* Between enter and leave. */
static void finish(struct llm_call *call, const struct err *err)
{
    if (err) {
        call->llm->stats.failures++;
        call->events.done(call->events.arg, NULL, err);
    } else {
        call->llm->quirks |= call->quirks; /* it worked like this */
        tell_reply(call);
    }
    if (!call->dead)
        call_drop(call);
}

/* ---- trying again ---- */

static void waited(uv_timer_t *timer)
{
    struct llm_call *call = timer->data;

    enter(call);
    try_now(call);
    leave(call);
}

static void try_later(struct llm_call *call, int64_t wait_ms, const struct err *why)
{
    call->retries++;
    call->llm->stats.retries++;
    if (call->events.retry)
        call->events.retry(call->events.arg, wait_ms, why);
    if (call->dead)
        return;
    uv_update_time(call->llm->loop);
    uv_timer_start(&call->timer, waited, (uint64_t)wait_ms, 0);
}

static int64_t back_off_ms(const struct llm_call *call)
{
    int64_t ms = BACKOFF_FIRST_MS << MIN_OF(call->retries, 10u);

    ms = MIN_OF(ms, BACKOFF_MAX_MS);
    /* Those that failed together must not come back together. */
    return ms * 3 / 4 + clock_now_us() % (ms / 2 + 1);
}

static void failed(struct llm_call *call, struct err *err, bool passes, int64_t retry_after_ms)
{
    int64_t left_ms = call->deadline_ms - clock_now_ms();
    int64_t wait_ms = retry_after_ms >= 0 ? retry_after_ms : back_off_ms(call);

    if (passes && !call->told && call->retries < call->llm->max_retries) {
        if (wait_ms < left_ms) {
            try_later(call, wait_ms, err);
            return;
        }
        if (retry_after_ms > 0) {
            char said[ERR_MESSAGE_MAX];

            strcpy(said, err->message);
            err_set(err, err->code, "%s; it asks to wait %lld s, more than is left of this call", said,
                    (long long)(retry_after_ms + 999) / 1000);
        }
    }
    finish(call, err);
}

/* ---- what servers refuse ---- */

static bool names(const struct llm_complaint *c, const char *parameter)
{
    return str_eq(c->param, parameter) || strstr(c->message, parameter);
}

static unsigned learn_quirks(const struct llm_call *call, const struct llm_complaint *c)
{
    unsigned more = 0;

    if (names(c, "temperature"))
        more |= LLM_NO_TEMPERATURE;
    if (names(c, "stream_options"))
        more |= LLM_NO_STREAM_OPTIONS;
    if (names(c, "max_completion_tokens") && !(call->quirks & LLM_COMPLETION_TOKENS))
        more |= LLM_COMPLETION_TOKENS; /* "use 'max_completion_tokens' instead" */
    else if (names(c, "max_tokens") || names(c, "max_completion_tokens"))
        more |= LLM_NO_MAX_TOKENS; /* too large for this model, or not known at all */
    return more & call->llm->provider->possible_quirks & ~call->quirks;
}

static void apply_quirks(struct llm_call *call, unsigned quirks)
{
    json_t *limit = json_object_get(call->body, "max_tokens");

    if (quirks & LLM_NO_TEMPERATURE)
        json_object_del(call->body, "temperature");
    if (quirks & LLM_NO_STREAM_OPTIONS)
        json_object_del(call->body, "stream_options");
    if (quirks & LLM_COMPLETION_TOKENS && limit) {
        json_object_set(call->body, "max_completion_tokens", limit);
        json_object_del(call->body, "max_tokens");
    }
    if (quirks & LLM_NO_MAX_TOKENS) {
        json_object_del(call->body, "max_tokens");
        json_object_del(call->body, "max_completion_tokens");
    }
    call->quirks |= quirks;
}

/* ---- answers that are errors ---- */

/* A status other than 200. True when the request can be put in another way. */
static bool read_refusal(struct llm_call *call, const struct client_response *resp, bool *ret_passes, struct err *err)
{
    const struct llm_target *t = &call->llm->target;
    const char *origin = call->llm->origin;
    auto_json json_t *body = NULL;
    struct llm_complaint c = { .message = "", .type = "", .code = "", .param = "" };
    char message[400];
    const char *colon;
    int status = resp->status;

    *ret_passes = false;
    if (call->answer.len > 0 && json_parse(call->answer.data, call->answer.len, &body, NULL) == 0) {
        if (!llm_complaint_read(body, &c) && json_is_string(json_object_get(body, "detail")))
            c.message = json_string_value(json_object_get(body, "detail"));
        if (!*c.message && json_is_string(json_object_get(body, "message")))
            c.message = json_string_value(json_object_get(body, "message"));
    } else if (str_eq(resp->content_type, "text/plain")) {
        c.message = buf_cstr(&call->answer);
    }
    llm_show(c.message, t->key, message, sizeof(message));
    colon = *message ? ": " : "";
    if (status == 401 || status == 403) {
        /* The server's words are left out: some repeat the key. */
        err_set(err, ERR_LLM_REJECTED, "%s does not accept the key (HTTP %d); check %s", origin, status, t->key_setting);
    } else if (status == 404) {
        err_set(err, ERR_LLM_REJECTED, "%s has no such model or path (HTTP 404); check %s ('%s') and %s%s%s", origin,
                t->model_setting, t->model, t->url_setting, colon, message);
    } else if (status >= 300 && status < 400) {
        err_set(err, ERR_LLM_REJECTED, "%s redirects (HTTP %d), which is not followed; check %s", origin, status, t->url_setting);
    } else if (status == 429) {
        *ret_passes = !str_eq(c.code, "insufficient_quota") && !str_eq(c.type, "insufficient_quota");
        err_set(err, ERR_LLM_RATE_LIMITED, "%s answers that the limit is reached (HTTP 429)%s%s", origin, colon, message);
    } else if (status >= 500 || status == 408) {
        *ret_passes = true;
        err_set(err, ERR_LLM_UNAVAILABLE, "%s failed (HTTP %d)%s%s", origin, status, colon, message);
    } else {
        err_set(err, ERR_LLM_REJECTED, "%s refuses the request (HTTP %d)%s%s", origin, status, colon, message);
        if (status == 400 || status == 422) {
            unsigned more = learn_quirks(call, &c);

            apply_quirks(call, more);
            return more != 0;
        }
    }
    return false;
}

/* An error of the client as one of ours. */
static void translate(struct err *err)
{
    switch (err->code) {
    case ERR_TIMEOUT:
        err->code = ERR_LLM_TIMEOUT;
        break;
    case ERR_UNAVAILABLE:
        err->code = ERR_LLM_UNAVAILABLE;
        break;
    case ERR_PROTOCOL:
    case ERR_TOO_LARGE:
        err->code = ERR_LLM_BAD_RESPONSE;
        break;
    default:
        break;
    }
}

static bool passes(const struct err *err)
{
    return err->code == ERR_LLM_UNAVAILABLE || err->code == ERR_LLM_TIMEOUT || err->code == ERR_LLM_RATE_LIMITED;
}

/* ---- an answer ---- */

static void note_first_token(struct llm_call *call)
{
    if (call->first_token_us < 0)
        call->first_token_us = clock_now_us() - call->start_us;
}

static int on_token(void *arg, const char *text, size_t len)
{
    struct llm_call *call = arg;

    note_first_token(call);
    call->told = true;
    if (call->events.token)
        call->events.token(call->events.arg, text, len);
    return call->dead;
}

static int on_event(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct llm_call *call = arg;
    int r;

    call->draft.has_event = true;
    r = call->llm->provider->event(&call->draft, event, data, len, err);
    if (call->draft.n_calls > 0)
        note_first_token(call);
    return r;
}

static int choose_mode(struct llm_call *call, const struct client_response *resp, char first, struct err *err)
{
    const char *type = resp->content_type;
    char shown[STR_SHOWN_SIZE];

    if (resp->status != 200)
        call->mode = MODE_ERROR;
    else if (str_eq(type, "text/event-stream"))
        call->mode = MODE_STREAM;
    else if (str_eq(type, "application/json"))
        call->mode = MODE_WHOLE;
    else if (!*type) /* not told: an object, or a stream */
        call->mode = first == '{' ? MODE_WHOLE : MODE_STREAM;
    else
        return err_set(err, ERR_LLM_BAD_RESPONSE, "%s answers with '%s' instead of an event stream; check %s", call->llm->origin,
                       str_show(type, strlen(type), shown, sizeof(shown)), call->llm->target.url_setting);
    return 0;
}

static int on_body(void *arg, const struct client_response *resp, const char *data, size_t len, struct err *err)
{
    struct llm_call *call = arg;
    struct err why = ERR_INIT;
    int r = 0;

    if (len == 0)
        return 0;
    enter(call);
    if (call->mode == MODE_NONE)
        r = choose_mode(call, resp, data[0], err);
    if (r == 0) {
        switch (call->mode) {
        case MODE_STREAM:
            r = sse_read(&call->reader, data, len, on_event, call, err);
            break;
        case MODE_WHOLE:
            r = buf_append(&call->answer, data, len, &why);
            if (r < 0)
                err_set(err, ERR_LLM_BAD_RESPONSE, "the model's answer is larger than the limit of %u bytes", LLM_WHOLE_MAX);
            break;
        case MODE_ERROR: /* as much as fits will do */
            r = buf_append(&call->answer, data, len, &why) < 0 ? 1 : 0;
            break;
        case MODE_NONE:
            break;
        }
    }
    return leave(call) ? -ERR_CANCELLED : r;
}

/* The answer has ended well as far as HTTP goes. */
static int read_answer(struct llm_call *call, struct err *err)
{
    struct llm_draft *d = &call->draft;
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;
    int r;

    if (call->mode == MODE_WHOLE) {
        if (json_parse(buf_cstr(&call->answer), call->answer.len, &body, &why) < 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's answer cannot be read: %s", why.message);
        r = call->llm->provider->whole(d, body, err);
        if (r != 0)
            return r;
    } else if (!d->is_whole && !d->has_stop) {
        if (!d->has_event && !sse_reader_is_inside(&call->reader))
            return err_set(err, ERR_LLM_UNAVAILABLE, "the answer of %s is empty", call->llm->origin);
        return err_set(err, ERR_LLM_UNAVAILABLE, "the model's stream was cut off%s",
                       sse_reader_is_inside(&call->reader) ? " in the middle of an event" : " before its end");
    }
    return llm_draft_close(d, err);
}

static void on_done(void *arg, const struct client_response *resp, const struct err *client_err)
{
    struct llm_call *call = arg;
    struct err err = ERR_INIT;
    bool again = false, may_pass;
    int r;

    enter(call);
    call->request = NULL;
    if (client_err && !(call->draft.has_stop && call->mode == MODE_STREAM &&
                        (client_err->code == ERR_UNAVAILABLE || client_err->code == ERR_TIMEOUT))) {
        err = *client_err;
        translate(&err);
        may_pass = passes(&err);
        r = -1;
    } else if (resp->status != 200) {
        again = read_refusal(call, resp, &may_pass, &err);
        r = -1;
    } else {
        r = read_answer(call, &err);
        may_pass = passes(&err);
    }
    if (call->dead)
        ; /* cancelled by the last token of an answer that came as a whole */
    else if (r == 0)
        finish(call, NULL);
    else if (again)
        try_now(call);
    else
        failed(call, &err, may_pass, resp->retry_after_ms);
    leave(call);
}

/* ---- a try ---- */

static int send_request(struct llm_call *call, struct err *err)
{
    struct llm *llm = call->llm;
    auto_buf struct buf body = BUF_INIT(LLM_REQUEST_MAX), scratch = BUF_INIT(64u << 10);
    struct client_header headers[LLM_HEADERS_MAX];
    struct client_options o = {
        .method = "POST",
        .url = llm->target.url,
        .headers = headers,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .timeout_ms = MAX_OF(call->deadline_ms - clock_now_ms(), 1),
        .max_body_bytes = LLM_BODY_MAX,
    };
    struct client_events events = { .body = on_body, .done = on_done, .arg = call };
    int r = json_write(call->body, &body, err);

    if (r < 0)
        return err_wrap(err, "writing a request to a model");
    o.n_headers = llm->provider->headers(&llm->target, &scratch, headers);
    o.body = body.data;
    o.body_len = body.len;
    r = client_start(llm->client, &o, &events, &call->request, err);
    if (scratch.data)
        explicit_bzero(scratch.data, scratch.len);
    return r;
}

/* Forgets what an earlier try brought, and asks. */
static int try_once(struct llm_call *call, struct err *err)
{
    llm_draft_clear(&call->draft);
    sse_reader_finish(&call->reader);
    sse_reader_init(&call->reader);
    buf_clear(&call->answer);
    call->mode = MODE_NONE;
    call->first_token_us = -1;
    call->attempts++;
    return send_request(call, err);
}

static void try_now(struct llm_call *call)
{
    struct err err = ERR_INIT;

    if (try_once(call, &err) < 0)
        finish(call, &err);
}

int llm_start(struct llm *llm, const struct llm_request *req, const struct llm_events *events, struct llm_call **ret,
              struct err *err)
{
    struct llm_call *call;
    int r;

    assert(events->done);
    if (llm_is_builtin(llm) || llm->destroyed)
        return err_set(err, ERR_INTERNAL, "there is no model to ask");
    call = calloc(1, sizeof(*call));
    if (!call)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a call of a model");
    call->llm = llm;
    call->events = *events;
    call->start_us = clock_now_us();
    call->deadline_ms = clock_now_ms() + (req->timeout_ms > 0 ? req->timeout_ms : llm->timeout_ms);
    llm_draft_init(&call->draft);
    call->draft.secret = llm->target.key;
    call->draft.token = on_token;
    call->draft.token_arg = call;
    sse_reader_init(&call->reader);
    buf_init(&call->answer, LLM_WHOLE_MAX);
    uv_timer_init(llm->loop, &call->timer);
    call->timer.data = call;
    call->next = llm->calls;
    call->prev = &llm->calls;
    if (call->next)
        call->next->prev = &call->next;
    llm->calls = call;

    call->body = llm->provider->request(&llm->target, req);
    if (call->body) {
        apply_quirks(call, llm->quirks);
        r = try_once(call, err);
    } else {
        r = err_set(err, ERR_NO_MEMORY, "out of memory for a request to a model");
    }
    if (r < 0) {
        call_drop(call);
        return r;
    }
    llm->stats.calls++;
    if (ret)
        *ret = call;
    return 0;
}

void llm_cancel(struct llm_call *call)
{
    if (call)
        call_drop(call);
}
