/*
 * Calls of models. A call makes one request or, while failures pass and no token has been told,
 * several: each answer is read by the provider's functions into a draft, which becomes the reply.
 * The whole call has one deadline.
 *
 *   llm_start → try_now → (client) → on_body … → on_done ─→ finish: reply, or error
 *                  ↑                                      └→ wait: retry() is told, a timer runs
 *                  └──────────────────────────────────────────┘
 *
 * A user may cancel a call, or destroy everything, from within any callback. What is on the stack
 * then is freed when the stack is unwound: `busy` counts the frames.
 */

#include "llm/llm_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/fdio.h"
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
    bool sees;
    int64_t timeout_ms;
    unsigned max_retries;
    char *record_dir; /* LLM_RECORD; NULL: nothing is kept */
    struct llm_call *calls;
    struct llm_stats stats;
    int busy;
    bool destroyed;
};

struct llm_call {
    struct llm *llm;
    struct llm_call *next, **prev;
    struct llm_events events;
    struct arena arena; /* of the request */
    struct llm_request req;
    unsigned quirks; /* of this try */
    struct llm_draft draft;
    struct sse_reader reader;
    struct buf answer; /* what is not streamed */
    enum mode mode;
    struct llm_record record;
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
    buf_finish(&call->record.request);
    buf_finish(&call->record.answer);
    llm_request_release(&call->req);
    arena_finish(&call->arena);
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
    free(llm->record_dir);
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

/*
 * Who reads and writes with these quirks: Chat Completions become Responses where a server asks for
 * them.
 */
static const struct llm_provider *provider_of(const struct llm *llm, unsigned quirks)
{
    return llm->provider == &llm_openai && quirks & LLM_RESPONSES && !(quirks & LLM_NO_RESPONSES) ?
               &llm_responses :
               llm->provider;
}

static const char *url_of(const struct llm *llm, unsigned quirks)
{
    return provider_of(llm, quirks) == llm->provider ? llm->target.url : llm->target.responses_url;
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
    r = llm_choose(cfg, &llm->provider, &llm->target, err);
    if (r == 0 && !llm_is_builtin(llm)) {
        r = client_create(loop, *cfg->curl_ca_bundle ? cfg->curl_ca_bundle : cfg->ssl_cert_file,
                          &llm->client, err);
        if (r == 0) {
            client_origin(llm->target.url, llm->origin);
            if (!llm->origin[0])
                r = err_set(err, ERR_CONFIG, "%s must be an http or https URL",
                            llm->target.url_setting);
        }
        llm->quirks = llm_quirks_known(llm->target.url, llm->target.model);
        llm->sees = str_eq(cfg->llm_vision, "on") ||
                    (str_eq(cfg->llm_vision, "auto") &&
                     llm_model_flags(llm->target.model) & LLM_MODEL_SEES);
        if (r == 0 && *cfg->llm_record && fd_mkdir_p(cfg->llm_record, 0700, err) < 0)
            r = err_wrap(err, "LLM_RECORD");
        if (r == 0 && *cfg->llm_record && !(llm->record_dir = strdup(cfg->llm_record)))
            r = err_set(err, ERR_NO_MEMORY, "out of memory for models");
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
    return provider_of(llm, llm->quirks)->name;
}

const char *llm_model_setting(const struct llm *llm)
{
    return llm->target.model_setting;
}

const char *llm_model_ends(const struct llm *llm)
{
    return llm_ends(llm->target.model);
}

bool llm_sees(const struct llm *llm)
{
    return llm->sees && !(llm->quirks & LLM_NO_IMAGES);
}

bool llm_kept_lasts(const json_t *kept)
{
    /*
     * Of Chat Completions, where servers refuse a conversation without it. What Anthropic signs is
     * bound to the conversation before it, and the Responses API takes earlier turns without their
     * reasoning.
     */
    return str_starts(json_string_value(json_object_get(kept, "from")), "openai ");
}

int64_t llm_max_tokens(const struct llm *llm)
{
    return llm->target.max_tokens;
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

/* Names the server and the model that want this back. */
static void label(const struct llm *llm, const struct llm_provider *p, const char *url,
                  char ret[600])
{
    snprintf(ret, 600, "%s %s %s", p->name, url, llm->target.model);
}

static void tell_reply(struct llm_call *call)
{
    struct llm *llm = call->llm;
    struct llm_draft *d = &call->draft;
    struct llm_tool_call calls[LLM_CALLS_MAX];
    const struct llm_provider *p = provider_of(llm, call->quirks);
    auto_json json_t *value = p->keep ? p->keep(d) : NULL, *kept = NULL;
    struct llm_reply reply = {
        .text = buf_cstr(&d->text),
        .thinking = buf_cstr(&d->thinking),
        .calls = calls,
        .n_calls = d->n_calls,
        .stop = d->stop,
        .usage = { .input_tokens = d->input_tokens,
                   .output_tokens = d->output_tokens,
                   .cached_tokens = d->cached_tokens },
        .first_token_us = call->first_token_us,
        .total_us = clock_now_us() - call->start_us,
        .attempts = call->attempts,
    };

    if (value) {
        char from[600];

        label(llm, p, url_of(llm, call->quirks), from);
        reply.kept = kept = json_pack("{s:s, s:O}", "from", from, "value", value);
    }
    for (size_t i = 0; i < d->n_calls; i++)
        calls[i] = (struct llm_tool_call){ .id = buf_cstr(&d->calls[i].id),
                                           .name = buf_cstr(&d->calls[i].name),
                                           .arguments = buf_cstr(&d->calls[i].arguments) };
    reply.usage.cost_usd = d->input_tokens + d->output_tokens > 0 ?
                               llm_price(llm->target.model, d->input_tokens, d->cached_tokens,
                                         d->written_tokens, d->output_tokens) :
                               -1;
    llm->stats.input_tokens += (uint64_t)d->input_tokens;
    llm->stats.output_tokens += (uint64_t)d->output_tokens;
    llm->stats.cached_tokens += (uint64_t)d->cached_tokens;
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
        if (call->draft.stop != LLM_STOP_OVERFLOW) /* it worked like this */
            call->llm->quirks |= call->quirks;
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
            err_set(err, err->code, "%s; it asks to wait %lld s, more than is left of this call",
                    said, (long long)(retry_after_ms + 999) / 1000);
        }
    }
    finish(call, err);
}

/* ---- answers that are errors ---- */

enum verdict {
    VERDICT_FAILS,  /* with the error that was set */
    VERDICT_PASSES, /* the same, but it may pass: try later */
    VERDICT_AGAIN,  /* the request can be put in another way: try now */
    /*
     * it says something about the reply or the request that the caller can act on; it is in the
     * draft
     */
    VERDICT_REPLY,
};

static void read_complaint(struct llm_call *call, const struct client_response *resp,
                           struct llm_complaint *ret)
{
    auto_json json_t *body = NULL;

    memset(ret, 0, sizeof(*ret));
    if (call->answer.len > 0 &&
        llm_json_read(call->answer.data, call->answer.len, &body, NULL) == 0) {
        (void)llm_complaint_read(body, true, ret);
    } else if (!strstr(resp->content_type, "html")) {
        snprintf(ret->message, sizeof(ret->message), "%s", buf_cstr(&call->answer));
        snprintf(ret->text, sizeof(ret->text), "%s", buf_cstr(&call->answer));
        for (char *p = ret->text; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    }
}

/* As a reply without an answer; the text is told by its stop reason, not as tokens. */
static enum verdict reply_with(struct llm_call *call, enum llm_stop stop, const char *text)
{
    struct err ignored = ERR_INIT;

    llm_draft_clear(&call->draft);
    call->draft.stop = stop;
    (void)buf_append_str(&call->draft.text, text, &ignored);
    return VERDICT_REPLY;
}

/* A refusal of the request as it is put (HTTP 400, 404, 413, 422). */
static enum verdict read_refusal(struct llm_call *call, int status, const struct llm_complaint *c,
                                 const char *message)
{
    struct llm *llm = call->llm;
    const struct llm_provider *p = provider_of(llm, call->quirks);
    unsigned more;

    /* no Responses API here: as before */
    if (p != llm->provider && (status == 404 || status == 405 || status == 501)) {
        call->quirks = (call->quirks & ~(unsigned)LLM_RESPONSES) | LLM_NO_RESPONSES |
                       LLM_EFFORT_NONE;
        return VERDICT_AGAIN;
    }
    if (*c->failed || strstr(c->text, "tool_use_failed")) {
        enum verdict v = reply_with(call, LLM_STOP_BAD_CALL, "");
        const char *text = *c->failed ? c->failed : message;

        /* What the server could not read may still be a call. */
        if (llm_text_calls(&call->draft, text, strlen(text)) &&
            llm_draft_close(&call->draft, NULL) == 0)
            call->draft.stop = LLM_STOP_TOOLS;
        else
            v = reply_with(call, LLM_STOP_BAD_CALL, text);
        return v;
    }
    more = llm_quirks_learn(c, call->quirks, p->possible_quirks);
    if (more && status != 413) {
        call->quirks |= more;
        return VERDICT_AGAIN;
    }
    if (llm_is_overflow(c) || status == 413)
        return reply_with(call, LLM_STOP_OVERFLOW, message);
    return VERDICT_FAILS;
}

/* A status other than 200. */
static enum verdict read_error(struct llm_call *call, const struct client_response *resp,
                               struct err *err)
{
    const struct llm_target *t = &call->llm->target;
    const char *origin = call->llm->origin, *colon;
    struct llm_complaint c;
    char message[400];
    int status = resp->status;
    enum verdict v = VERDICT_FAILS;

    read_complaint(call, resp, &c);
    llm_show(c.message, t->key, message, sizeof(message));
    colon = *message ? ": " : "";
    if (status == 401) {
        /* The server's words are left out: some repeat parts of the key. */
        err_set(err, ERR_LLM_REJECTED, "%s does not accept the key (HTTP 401); check %s", origin,
                t->key_setting);
    } else if (status == 403) {
        err_set(err, ERR_LLM_REJECTED,
                "%s does not allow this with the key (HTTP 403); check %s%s%s", origin,
                t->key_setting, colon, message);
    } else if (status == 404) {
        err_set(err, ERR_LLM_REJECTED,
                "%s has no such model or path (HTTP 404); check %s ('%s') and %s%s%s", origin,
                t->model_setting, t->model, t->url_setting, colon, message);
        v = read_refusal(call, status, &c, message);
    } else if (status >= 300 && status < 400) {
        err_set(err, ERR_LLM_REJECTED, "%s redirects (HTTP %d), which is not followed; check %s",
                origin, status, t->url_setting);
    } else if (status == 429) {
        v = c.is_quota ? VERDICT_FAILS : VERDICT_PASSES;
        err_set(err, ERR_LLM_RATE_LIMITED, "%s answers that the limit is reached (HTTP 429)%s%s",
                origin, colon, message);
    } else if (status >= 500 || status == 408 || status == 409) {
        v = VERDICT_PASSES;
        err_set(err, ERR_LLM_UNAVAILABLE, "%s failed (HTTP %d)%s%s", origin, status, colon,
                message);
        /* llama.cpp's way of saying so */
        if (status == 501 || (status == 500 && llm_is_overflow(&c)))
            v = read_refusal(call, status, &c, message);
    } else {
        err_set(err, ERR_LLM_REJECTED, "%s refuses the request (HTTP %d)%s%s", origin, status,
                colon, message);
        if (status == 400 || status == 405 || status == 413 || status == 422)
            v = read_refusal(call, status, &c, message);
    }
    if (v <= VERDICT_PASSES && resp->should_retry >= 0)
        v = resp->should_retry ? VERDICT_PASSES : VERDICT_FAILS;
    return v;
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
    return err->code == ERR_LLM_UNAVAILABLE || err->code == ERR_LLM_TIMEOUT ||
           err->code == ERR_LLM_RATE_LIMITED;
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

static int on_thought(void *arg, const char *text, size_t len)
{
    struct llm_call *call = arg;

    note_first_token(call);
    if (call->events.thinking)
        call->events.thinking(call->events.arg, text, len);
    return call->dead;
}

static int on_event(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct llm_call *call = arg;
    int r;

    call->draft.has_event = true;
    r = provider_of(call->llm, call->quirks)->event(&call->draft, event, data, len, err);
    if (call->draft.n_calls > 0)
        note_first_token(call);
    return r;
}

static bool begins_stream(const char *data, size_t len)
{
    static const char *const starts[] = { "data",   "event",        ":",  "id:",
                                          "retry:", "\xef\xbb\xbf", "\n", "\r" };

    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (memcmp(data, starts[i], MIN_OF(len, strlen(starts[i]))) == 0)
            return true;
    return false;
}

/* By the type that the server tells, or, where that says nothing, by the first bytes. */
static int choose_mode(struct llm_call *call, const struct client_response *resp, const char *data,
                       size_t len, struct err *err)
{
    const char *type = resp->content_type;
    bool is_vague = !*type || str_eq(type, "text/plain") ||
                    str_eq(type, "application/octet-stream");
    char shown[STR_SHOWN_SIZE], says[200] = "";

    if (resp->status != 200)
        call->mode = MODE_ERROR;
    else if (str_eq(type, "text/event-stream"))
        call->mode = MODE_STREAM;
    else if (str_eq(type, "application/json"))
        call->mode = *data != '{' && *data != '[' && begins_stream(data, len) ? MODE_STREAM :
                                                                                MODE_WHOLE;
    else if (is_vague && (*data == '{' || *data == '['))
        call->mode = MODE_WHOLE;
    else if (is_vague && begins_stream(data, len))
        call->mode = MODE_STREAM;
    if (call->mode != MODE_NONE)
        return 0;
    if (is_vague)
        str_show(data, len, says, sizeof(says));
    return err_set(err, ERR_LLM_BAD_RESPONSE,
                   "%s answers with '%s' instead of an event stream; check %s%s%s",
                   call->llm->origin, str_show(type, strlen(type), shown, sizeof(shown)),
                   call->llm->target.url_setting, *says ? ": " : "", says);
}

static int on_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                   struct err *err)
{
    struct llm_call *call = arg;
    struct err why = ERR_INIT;
    int r = 0;

    if (len == 0)
        return 0;
    if (call->record.dir)
        llm_record_data(&call->record, data, len);
    enter(call);
    if (call->mode == MODE_NONE)
        r = choose_mode(call, resp, data, len, err);
    if (r == 0) {
        switch (call->mode) {
        case MODE_STREAM:
            r = sse_read(&call->reader, data, len, on_event, call, err);
            break;
        case MODE_WHOLE:
            r = buf_append(&call->answer, data, len, &why);
            if (r < 0)
                err_set(err, ERR_LLM_BAD_RESPONSE,
                        "the model's answer is larger than the limit of %u bytes", LLM_WHOLE_MAX);
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
        if (llm_json_read(buf_cstr(&call->answer), call->answer.len, &body, &why) < 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's answer cannot be read: %s",
                           why.message);
        r = provider_of(call->llm, call->quirks)->whole(d, body, err);
        if (r != 0)
            return r;
    } else if (!d->is_whole && !d->has_stop) {
        if (!d->has_event && !sse_reader_is_inside(&call->reader))
            return err_set(err, ERR_LLM_UNAVAILABLE, "the answer of %s is empty",
                           call->llm->origin);
        return err_set(err, ERR_LLM_UNAVAILABLE, "the model's stream was cut off%s",
                       sse_reader_is_inside(&call->reader) ? " in the middle of an event" :
                                                             " before its end");
    }
    return llm_draft_close(d, err);
}

static void on_done(void *arg, const struct client_response *resp, const struct err *client_err)
{
    struct llm_call *call = arg;
    struct err err = ERR_INIT;
    enum verdict v = VERDICT_REPLY;

    enter(call);
    call->request = NULL;
    if (call->record.dir)
        llm_record_end(&call->record, &call->llm->target,
                       provider_of(call->llm, call->quirks)->name, resp);
    if (client_err && !(call->draft.has_stop && call->mode == MODE_STREAM &&
                        (client_err->code == ERR_UNAVAILABLE || client_err->code == ERR_TIMEOUT))) {
        err = *client_err;
        translate(&err);
        v = passes(&err) ? VERDICT_PASSES : VERDICT_FAILS;
    } else if (resp->status != 200) {
        v = read_error(call, resp, &err);
    } else if (read_answer(call, &err) != 0) {
        v = passes(&err) ? VERDICT_PASSES : VERDICT_FAILS;
    }
    if (call->dead)
        ; /* cancelled by the last token of an answer that came as a whole */
    else if (v == VERDICT_REPLY)
        finish(call, NULL);
    else if (v == VERDICT_AGAIN)
        try_now(call);
    else
        failed(call, &err, v == VERDICT_PASSES, resp->retry_after_ms);
    leave(call);
}

/* ---- a try ---- */

/* What a message keeps goes to the server and the model that it came from, and to no other. */
static json_t *write_body(struct llm_call *call, const struct llm_provider *p, const char *url)
{
    struct llm *llm = call->llm;
    struct llm_request req = call->req;
    auto_free struct llm_message *messages = calloc(req.n_messages + 1, sizeof(*messages));
    char to[600];

    if (!messages)
        return NULL;
    label(llm, p, url, to);
    for (size_t i = 0; i < req.n_messages; i++) {
        const json_t *kept = req.messages[i].kept;

        messages[i] = req.messages[i];
        messages[i].kept = str_eq(json_string_value(json_object_get(kept, "from")), to) ?
                               json_object_get(kept, "value") :
                               NULL;
        if (!llm->sees)
            messages[i].n_images = 0;
    }
    req.messages = messages;
    return p->request(&llm->target, &req, call->quirks);
}

static int send_request(struct llm_call *call, struct err *err)
{
    struct llm *llm = call->llm;
    const struct llm_provider *p = provider_of(llm, call->quirks);
    const char *url = url_of(llm, call->quirks);
    auto_buf struct buf body = BUF_INIT(LLM_REQUEST_MAX), scratch = BUF_INIT(64u << 10);
    auto_json json_t *value = write_body(call, p, url);
    struct client_header headers[LLM_HEADERS_MAX];
    struct client_options o = {
        .method = "POST",
        .url = url,
        .headers = headers,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .timeout_ms = MAX_OF(call->deadline_ms - clock_now_ms(), 1),
        .max_body_bytes = LLM_BODY_MAX,
    };
    struct client_events events = { .body = on_body, .done = on_done, .arg = call };
    int r = value ? json_write(value, &body, err) :
                    err_set(err, ERR_NO_MEMORY, "out of memory for a request to a model");

    if (r < 0)
        return err_wrap(err, "writing a request to a model");
    o.n_headers = p->headers(&llm->target, &scratch, headers);
    o.body = body.data;
    o.body_len = body.len;
    if (call->record.dir)
        llm_record_begin(&call->record, body.data, body.len);
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

int llm_start(struct llm *llm, const struct llm_request *req, const struct llm_events *events,
              struct llm_call **ret, struct err *err)
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
    call->record.dir = llm->record_dir;
    buf_init(&call->record.request, LLM_RECORD_MAX);
    buf_init(&call->record.answer, LLM_RECORD_MAX);
    call->events = *events;
    call->start_us = clock_now_us();
    call->deadline_ms = clock_now_ms() + (req->timeout_ms > 0 ? req->timeout_ms : llm->timeout_ms);
    call->quirks = llm->quirks;
    arena_init(&call->arena, LLM_REQUEST_ARENA_BYTES);
    llm_draft_init(&call->draft);
    call->draft.secret = llm->target.key;
    call->draft.token = on_token;
    call->draft.thought = on_thought;
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

    r = llm_request_copy(&call->arena, req, &call->req, err);
    call->draft.tools = call->req.tools;
    call->draft.n_tools = call->req.n_tools;
    if (r == 0)
        r = try_once(call, err);
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
