/*
 * From a request to a chat's answer: the thread is opened or made, the message sent, and what comes
 * back is told in the client's form, at once as events or at the end as JSON.
 */

#include <stdio.h>
#include <string.h>
#include "api/files.h"
#include "api/chats.h"
#include "data/threads.h"
#include "api/sandboxes.h"
#include "base/background.h"
#include "base/id.h"
#include "base/str.h"
#include "net/sse.h"

/*
 * A client that waits. Ends by its answer, or by the client's leaving once nothing calls back any
 * more.
 */
struct serving {
    struct app *app;
    struct http_request *req; /* NULL once streaming or left */
    struct sse *sse;
    struct arena arena;
    enum chat_form form;
    bool stream, left, opening, may_create, set_data, follow;
    bool spoken; /* a token went out */
    const char *owner, *message, *thread_id;
    int64_t timeout_ms;
    struct chat_code code;
    json_t *datasets, *uploads, *earlier;
    struct chat *chat;
    struct turn *turn;
    char *made; /* the text of the answer, before it may be told */
    size_t made_len;
};

static void serving_free(struct serving *s)
{
    free(s->made);
    chat_unref(s->chat);
    json_decref(s->datasets);
    json_decref(s->uploads);
    json_decref(s->earlier);
    json_decref((json_t *)s->code.context);
    json_decref((json_t *)s->code.debug);
    arena_finish(&s->arena);
    free(s);
}

/* ---- what is said, by form ---- */

static void say(struct serving *s, const char *event, json_t *data)
{
    struct err err = ERR_INIT;
    if (s->sse)
        (void)sse_send(s->sse, event, data,
                       &err); /* a client that does not read is told off by the stream itself */
    else
        json_decref(data);
}

/* Names of the images that a client can fetch, as sessions know them. */
static json_t *image_paths(const json_t *answer)
{
    json_t *list = json_array(), *f;
    size_t i;
    json_array_foreach(json_object_get(answer, "files"), i, f) {
        const char *path = json_string_value(json_object_get(f, "path"));
        if (path && file_is_image(path))
            json_array_append_new(list, json_string(path));
    }
    return list;
}

/* An answer in FORM_THREAD has its own names for the same things, and everything else as it is. */
static json_t *shaped(const struct serving *s, json_t *answer)
{
    if (s->form == FORM_SANDBOX)
        return sandbox_answer_json(answer, chat_id(s->chat), chat_terms(s->chat),
                                   s->code.timeout_ms);
    json_t *out = json_copy(answer);
    if (!out || !json_object_get(answer, "assistant_message"))
        return out;
    json_object_set(out, "openai_calls", json_object_get(answer, "llm_calls"));
    if (s->form == FORM_THREAD)
        json_object_set(out, "response", json_object_get(answer, "assistant_message"));
    if (s->form == FORM_SESSION) {
        json_object_set(out, "reply", json_object_get(answer, "assistant_message"));
        json_object_set(out, "session_id", json_object_get(answer, "thread_id"));
        json_object_set(out, "figures", json_object_get(out, "images"));
        json_object_set_new(out, "images", image_paths(answer));
    }
    return out;
}

static const char *text_in(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/*
 * Clients of FORM_THREAD show every `status` to a person, and know those of code that runs. Other
 * stages are `progress`, which they pass over.
 */
static const char *type_of(const struct serving *s, const char *type, const json_t *data)
{
    const char *stage = text_in(data, "stage");
    bool known = str_eq(stage, "executing") || str_eq(stage, "following");
    return s->form == FORM_THREAD && str_eq(type, "status") && !known ? "progress" : type;
}

static void on_event(void *arg, const char *type, json_t *data)
{
    struct serving *s = arg;
    struct err err = ERR_INIT;
    json_t *copy = json_copy(data);
    const char *alias = s->form == FORM_SESSION ? "value" : "content";
    bool is_token = str_eq(type, "token");
    type = type_of(s, type, data);
    s->spoken = s->spoken || is_token;
    if (is_token) /* every form's name for it */
        json_object_set(copy, alias, json_object_get(data, "text"));
    if (s->sse && (is_token || (str_eq(type, "step") && json_object_get(copy, "text"))))
        (void)sse_send_text(s->sse, type, copy, "text", is_token ? alias : NULL, &err);
    else
        say(s, type, copy);
}

/* Clients of FORM_THREAD take `error` for the end. */
static void say_error(struct serving *s, const struct err *err)
{
    say(s, "error",
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "error_type", err_name(err->code), "message",
                  err->message, "error", "type", err_name(err->code), "message", err->message));
    if (s->form != FORM_THREAD)
        say(s, "done", json_object());
}

/*
 * No answer, because the model or this server failed: not because of what was asked. Code that
 * went wrong is an answer.
 */
static bool is_failure(const json_t *answer)
{
    const json_t *error = json_object_get(json_object_get(answer, "result"), "error");
    const char *status = text_in(answer, "status"), *type = text_in(error, "type");
    if (!type || !json_object_get(answer, "assistant_message") ||
        json_array_size(json_object_get(answer, "code_runs")) > 0)
        return false;
    bool asked_model = json_integer_value(json_object_get(answer, "llm_calls")) > 0;
    return str_eq(status, "failed") || str_eq(status, "timed_out") ||
           (asked_model && str_starts(type, "LLM_"));
}

/* What a client is told of a failure: error, message and the ids of the run. New reference. */
static json_t *failure_json(const struct serving *s, const json_t *answer)
{
    const json_t *error = json_object_get(json_object_get(answer, "result"), "error");
    json_t *o = json_pack("{s:O, s:O, s:O, s:O, s:O}", "error", error, "message",
                          json_object_get(answer, "assistant_message"), "run_id",
                          json_object_get(answer, "run_id"), "thread_id",
                          json_object_get(answer, "thread_id"), "status",
                          json_object_get(answer, "status"));
    if (s->form == FORM_SESSION)
        json_object_set(o, "session_id", json_object_get(answer, "thread_id"));
    return o;
}

static void stream_failure(struct serving *s, const json_t *answer)
{
    say(s, "error", failure_json(s, answer));
    if (s->form == FORM_SESSION)
        say(s, "done",
            json_pack("{s:O, s:O}", "session_id", json_object_get(answer, "thread_id"), "status",
                      json_object_get(answer, "status")));
}

static void stream_answer(struct serving *s, json_t *answer)
{
    auto_json json_t *all = shaped(s, answer);
    /* an execution, which any form may have followed */
    bool code = !json_object_get(answer, "assistant_message");
    if ((s->form == FORM_THREAD || s->form == FORM_SESSION) && is_failure(answer)) {
        stream_failure(s, answer);
        return;
    }
    if (!s->spoken &&
        !code) { /* what was asked cannot be done: the words were not said as they came */
        auto_json json_t *words = json_pack("{s:O}", "text",
                                            json_object_get(answer, "assistant_message"));
        on_event(s, "token", words);
    }
    if (s->form == FORM_SESSION)
        say(s, "images", json_pack("{s:O}", "value", json_object_get(all, "images")));
    else if (s->form == FORM_CHAT || code)
        say(s, "result", json_incref(all));
    if (s->form == FORM_SANDBOX)
        say(s, "done",
            json_pack("{s:O, s:O}", "execution_id", json_object_get(all, "execution_id"), "status",
                      json_object_get(all, "status")));
    else if (s->form == FORM_CHAT || code)
        say(s, "done",
            json_pack("{s:O, s:O, s:O, s:O}", "run_id", json_object_get(all, "run_id"), "thread_id",
                      json_object_get(all, "thread_id"), "status", json_object_get(all, "status"),
                      "timings_ms", json_object_get(all, "timings_ms")));
    else
        say(s, "done", json_incref(all));
}

/* ---- the end ---- */

static void reply_error(const struct serving *s, struct http_request *req, const struct err *err)
{
    if (s->form == FORM_SANDBOX && err->code == ERR_NOT_FOUND && !s->chat)
        sandbox_reply_unknown(req);
    else if (err->code == ERR_UNAVAILABLE)
        http_reply_busy(req, 1, "%s", err->message);
    else
        http_reply_error(req, err);
}

static void end_with_error(struct serving *s, const struct err *err)
{
    if (s->sse) {
        say_error(s, err);
        sse_end(s->sse);
    } else if (s->req) {
        reply_error(s, s->req, err);
    }
    serving_free(s);
}

static void on_made(void *arg, json_t *answer)
{
    struct serving *s = arg;
    auto_json json_t *all = s->req && !s->sse && !json_is_large(answer) ? shaped(s, answer) : NULL;
    auto_buf struct buf text = BUF_INIT(SIZE_MAX);
    if (all && json_write(all, &text, NULL) == 0) {
        s->made_len = text.len;
        s->made = buf_take(&text);
    }
}

static void on_done(void *arg, json_t *answer, const struct err *err)
{
    struct serving *s = arg;
    s->turn = NULL;
    if (err) {
        end_with_error(s, err);
        return;
    }
    if (s->sse) {
        stream_answer(s, answer);
        sse_end(s->sse);
    } else if ((s->form == FORM_THREAD || s->form == FORM_SESSION) && is_failure(answer)) {
        json_t *failure = failure_json(s, answer);
        json_object_set_new(failure, "detail",
                            s->form == FORM_SESSION ?
                                json_string("Something went wrong while running the agent.") :
                                json_incref(json_object_get(answer, "assistant_message")));
        const char *type = text_in(json_object_get(failure, "error"), "type");
        bool gone = s->form == FORM_THREAD && str_eq(type, err_name(ERR_NOT_FOUND)); /* its data */
        http_reply_json(s->req, gone ? 404 : 500, failure);
    } else if (s->made) {
        http_reply_taken(s->req, 200, "application/json", TAKE_PTR(s->made), s->made_len);
    } else {
        http_reply_json(s->req, 200, shaped(s, answer));
    }
    serving_free(s);
}

static void on_left(void *arg)
{
    struct serving *s = arg;
    s->left = true;
    s->req = NULL;
    s->sse = NULL;
    /* A debugger that is gone would leave its execution paused. */
    if (s->turn && (s->form == FORM_CHAT || s->form == FORM_SESSION || s->code.debug))
        turn_drop(s->turn, s);
    else if (s->turn)
        turn_leave(s->turn, s);
    if (!s->opening)
        serving_free(s);
}

/* ---- the beginning ---- */

static void start_stream(struct serving *s)
{
    s->sse = http_reply_sse(s->req);
    s->req = NULL;
    if (s->form == FORM_THREAD || s->form == FORM_SESSION)
        sse_set_unnamed(s->sse);
    if (!s->follow)
        say(s, s->form == FORM_THREAD ? "progress" : "status",
            json_pack("{s:s, s:s}", "stage", "queued", "text", "Received"));
    sse_on_close(s->sse, on_left, s);
}

/* The stream begins before the turn's first events are told from within turn_follow(). */
static void follow(struct serving *s, const struct turn_listener *listener)
{
    struct err err = ERR_INIT;
    s->turn = chat_turn(s->chat);
    if (!s->turn) {
        http_reply_empty(s->req, 204);
        serving_free(s);
        return;
    }
    start_stream(s);
    if (turn_follow(s->turn, listener, &err) < 0)
        end_with_error(s, &err);
}

static void on_open(struct chat *chat, const struct err *err, void *arg)
{
    struct serving *s = arg;
    struct err why = ERR_INIT;
    s->opening = false;
    s->chat = chat;
    if (s->left) {
        serving_free(s);
        return;
    }
    if (err && err->code == ERR_NOT_FOUND && s->may_create) {
        struct chat_spec spec = { .owner = s->owner,
                                  .thread_id = s->thread_id,
                                  .datasets = s->datasets,
                                  .uploads = s->uploads };
        s->may_create = false;
        if (chat_create(s->app->agent, &spec, on_open, s, &why) < 0) {
            end_with_error(s, &why);
            return;
        }
        s->opening = true;
        if (s->stream && !s->sse)
            start_stream(s);
        return;
    }
    if (err) {
        why = *err;
        end_with_error(s, &why);
        return;
    }
    if (s->form == FORM_SANDBOX && !chat_terms(chat)) {
        chat_unref(TAKE_PTR(s->chat));
        err_set(&why, ERR_NOT_FOUND, "Sandbox not found");
        end_with_error(s, &why);
        return;
    }
    if (s->form == FORM_SANDBOX) { /* a request may ask for less than the sandbox has */
        int64_t most = chat_terms(chat)->timeout_ms;
        s->code.timeout_ms = s->code.timeout_ms ? MIN_OF(s->code.timeout_ms, most) : most;
    }
    if (s->code.debug && !chat_terms(chat)->debugging) {
        err_set(&why, ERR_CONFLICT, "this sandbox was created without enable_debugging");
        end_with_error(s, &why);
        return;
    }
    struct turn_listener listener = {
        .event = s->stream ? on_event : NULL, .made = on_made, .done = on_done, .arg = s
    };
    if (s->follow) {
        follow(s, &listener);
        return;
    }
    int r = s->set_data ? chat_set_data(chat, s->datasets, s->uploads, &why) : 0;
    struct chat_message message = { .text = s->message,
                                    .timeout_ms = s->timeout_ms,
                                    .earlier = s->earlier };
    if (r == 0 && (s->form == FORM_CODE || s->form == FORM_SANDBOX))
        r = chat_execute(chat, &s->code, &listener, &s->turn, &why);
    else if (r == 0)
        r = chat_send(chat, &message, &listener, &s->turn, &why);
    if (r < 0) {
        end_with_error(s, &why);
        return;
    }
    if (s->stream && !s->sse)
        start_stream(s);
}

/* What is needed of the request after its handler has returned. False when out of memory. */
static bool keep(struct serving *s, const struct chat_request *ask)
{
    const struct chat_code *code = ask->code;
    char uuid[ID_UUID_SIZE];
    id_uuid4(uuid);
    s->owner = arena_strdup(&s->arena, http_owner(s->req));
    s->message = ask->message ? arena_strdup(&s->arena, ask->message) : NULL;
    s->thread_id = ask->thread_id ?
                       arena_strdup(&s->arena, ask->thread_id) :
                       arena_printf(&s->arena, "%s%s", ask->id_prefix ? ask->id_prefix : "", uuid);
    if (code) {
        s->code = *code;
        s->code.language = arena_strdup(&s->arena, code->language);
        s->code.code = arena_strdup(&s->arena, code->code);
        s->code.context = json_deep_copy(code->context);
        s->code.debug = json_deep_copy(code->debug);
    }
    s->datasets = json_deep_copy(ask->datasets);
    s->uploads = json_deep_copy(ask->uploads);
    s->earlier = json_deep_copy(ask->earlier);
    s->timeout_ms = ask->timeout_ms;
    return s->owner && s->thread_id && (s->message || !ask->message) &&
           (!code || (s->code.language && s->code.code && (s->code.context || !code->context) &&
                      (s->code.debug || !code->debug))) &&
           (s->datasets || !ask->datasets) && (s->uploads || !ask->uploads) &&
           (s->earlier || !ask->earlier);
}

void chat_serve(struct http_request *req, const struct chat_request *ask)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    /* Before a stream begins, so that it is an answer of its own. */
    if ((ask->message && chat_check_message(app->cfg, ask->message, &err) < 0) ||
        (ask->may_create && ask->thread_id && thread_id_check(ask->thread_id, &err) < 0)) {
        http_reply_error(req, &err);
        return;
    }
    struct serving *s = calloc(1, sizeof(*s));
    if (!s) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    arena_init(&s->arena, 8u << 20);
    *s = (struct serving){ .app = app,
                           .req = req,
                           .arena = s->arena,
                           .form = ask->form,
                           .stream = ask->stream,
                           .may_create = ask->may_create,
                           .set_data = ask->set_data,
                           .follow = ask->follow,
                           .opening = true };
    if (!keep(s, ask)) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        serving_free(s);
        return;
    }
    int r;
    if (ask->thread_id) {
        (void)data_thread_find(app->data, s->owner, ask->thread_id);
        r = chat_open(app->agent, s->owner, s->thread_id, on_open, s, &err);
    } else {
        s->may_create = false;
        struct chat_spec spec = { .owner = s->owner,
                                  .thread_id = s->thread_id,
                                  .datasets = s->datasets,
                                  .uploads = s->uploads };
        r = chat_create(app->agent, &spec, on_open, s, &err);
    }
    if (r < 0) {
        reply_error(s, req, &err);
        serving_free(s);
        return;
    }
    if (s->stream && !ask->thread_id)
        start_stream(
            s); /* nothing can be wrong with the thread any more: the client need not wait for the store */
    else
        http_defer(req, on_left, s);
}
