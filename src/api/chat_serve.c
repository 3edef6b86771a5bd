/*
 * From a request to a chat's answer: the thread is opened or made, the message sent, and what comes back is told in the client's form, at
 * once as events or at the end as JSON.
 */

#include <stdio.h>
#include <string.h>
#include "api/chats.h"
#include "api/files.h"
#include "base/id.h"
#include "base/str.h"
#include "net/sse.h"

/* A client that waits. Ends by its answer, or by the client's leaving once nothing calls back any more. */
struct serving {
    struct app *app;
    struct http_request *req; /* NULL once streaming or left */
    struct sse *sse;
    struct arena arena;
    enum chat_form form;
    bool stream, left, opening, may_create, set_data, follow;
    const char *owner, *message, *thread_id;
    struct chat_code code;
    json_t *datasets, *uploads, *messages;
    struct chat *chat;
    struct turn *turn;
};

static void serving_free(struct serving *s)
{
    chat_unref(s->chat);
    json_decref(s->datasets);
    json_decref(s->uploads);
    json_decref(s->messages);
    arena_finish(&s->arena);
    free(s);
}

/* ---- what is said, by form ---- */

static void say(struct serving *s, const char *event, json_t *data)
{
    struct err err = ERR_INIT;
    if (s->sse)
        (void)sse_send(s->sse, event, data, &err); /* a client that does not read is told off by the stream itself */
    else
        json_decref(data);
}

/* Names of the images that a client can fetch, as sessions know them. */
static json_t *image_paths(const json_t *answer)
{
    json_t *list = json_array(), *f;
    size_t i;
    json_array_foreach(json_object_get(answer, "files"), i, f)
    {
        const char *path = json_string_value(json_object_get(f, "path"));
        if (path && file_is_image(path))
            json_array_append_new(list, json_string(path));
    }
    return list;
}

/* An answer in FORM_THREAD has its own names for the same things, and everything else as it is. */
static json_t *shaped(const struct serving *s, json_t *answer)
{
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

static void on_event(void *arg, const char *type, json_t *data)
{
    struct serving *s = arg;
    struct err err = ERR_INIT;
    json_t *copy = json_copy(data);
    const char *alias = s->form == FORM_SESSION ? "value" : "content";
    bool is_token = str_eq(type, "token");
    if (is_token) /* every form's name for it */
        json_object_set(copy, alias, json_object_get(data, "text"));
    if (s->sse && (is_token || str_eq(type, "step")))
        (void)sse_send_text(s->sse, type, copy, "text", is_token ? alias : NULL, &err);
    else
        say(s, type, copy);
}

static void say_error(struct serving *s, const struct err *err)
{
    say(s, "error", json_pack("{s:s, s:s, s:{s:s, s:s}}", "error_type", err_name(err->code), "message", err->message, "error", "type",
                              err_name(err->code), "message", err->message));
    say(s, "done", json_object());
}

static void stream_answer(struct serving *s, json_t *answer)
{
    auto_json json_t *all = shaped(s, answer);
    const json_t *error = json_object_get(json_object_get(answer, "result"), "error");
    bool code = !json_object_get(answer, "assistant_message"); /* an execution, which any form may have followed */
    if (s->form == FORM_SESSION)
        say(s, "images", json_pack("{s:O}", "value", json_object_get(all, "images")));
    else if (s->form == FORM_CHAT || code)
        say(s, "result", json_incref(all));
    else if (!str_eq(json_string_value(json_object_get(answer, "status")), "succeeded") && !json_is_null(error) &&
             json_array_size(json_object_get(answer, "code_runs")) == 0)
        say(s, "error", json_pack("{s:O, s:O}", "message", json_object_get(answer, "assistant_message"), "error", error));
    if (s->form == FORM_CHAT || code)
        say(s, "done", json_pack("{s:O, s:O, s:O, s:O}", "run_id", json_object_get(all, "run_id"), "thread_id",
                                 json_object_get(all, "thread_id"), "status", json_object_get(all, "status"), "timings_ms",
                                 json_object_get(all, "timings_ms")));
    else
        say(s, "done", json_incref(all));
}

/* ---- the end ---- */

static void reply_error(struct http_request *req, const struct err *err)
{
    if (err->code == ERR_UNAVAILABLE)
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
        reply_error(s->req, err);
    }
    serving_free(s);
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
    if (s->turn && (s->form == FORM_CHAT || s->form == FORM_SESSION))
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
    if (!s->follow)
        say(s, "status", json_pack("{s:s, s:s}", "stage", "queued", "text", "Received"));
    sse_on_close(s->sse, on_left, s);
}

/* What a session's client says was said before, for a thread that knows of nothing. */
static void adopt_history(struct serving *s)
{
    size_t i, n = json_array_size(s->messages);
    json_t *m;
    if (chat_message_count(s->chat) > 0 || n < 2)
        return;
    json_array_foreach(s->messages, i, m)
    {
        if (i + 1 == n)
            break;
        chat_recall(s->chat, json_string_value(json_object_get(m, "role")), json_string_value(json_object_get(m, "content")));
    }
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
        struct chat_spec spec = { .owner = s->owner, .thread_id = s->thread_id, .datasets = s->datasets, .uploads = s->uploads };
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
    struct turn_listener listener = { .event = s->stream ? on_event : NULL, .done = on_done, .arg = s };
    if (s->follow) {
        follow(s, &listener);
        return;
    }
    int r = s->set_data ? chat_set_data(chat, s->datasets, s->uploads, &why) : 0;
    if (s->form == FORM_SESSION)
        adopt_history(s);
    if (r == 0 && s->form == FORM_CODE)
        r = chat_execute(chat, &s->code, &listener, &s->turn, &why);
    else if (r == 0)
        r = chat_send(chat, s->message, &listener, &s->turn, &why);
    if (r < 0) {
        end_with_error(s, &why);
        return;
    }
    if (s->stream && !s->sse)
        start_stream(s);
}

void chat_serve(struct http_request *req, const struct chat_request *ask)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct serving *s = calloc(1, sizeof(*s));
    if (!s) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    arena_init(&s->arena, 8u << 20);
    *s = (struct serving){ .app = app, .req = req, .arena = s->arena, .form = ask->form, .stream = ask->stream,
                           .may_create = ask->may_create, .set_data = ask->set_data, .follow = ask->follow, .opening = true };
    s->owner = arena_strdup(&s->arena, http_owner(req));
    s->message = ask->message ? arena_strdup(&s->arena, ask->message) : NULL;
    if (ask->code) {
        s->code = *ask->code;
        s->code.language = arena_strdup(&s->arena, ask->code->language);
        s->code.code = arena_strdup(&s->arena, ask->code->code);
    }
    s->datasets = json_deep_copy(ask->datasets);
    s->uploads = json_deep_copy(ask->uploads);
    s->messages = json_deep_copy(ask->messages);
    int r;
    if (ask->thread_id) {
        session_touch(app, s->owner, ask->thread_id);
        s->thread_id = arena_strdup(&s->arena, ask->thread_id);
        r = chat_open(app->agent, s->owner, s->thread_id, on_open, s, &err);
    } else {
        char uuid[ID_UUID_SIZE];
        id_uuid4(uuid);
        s->thread_id = arena_printf(&s->arena, "%s%s", ask->id_prefix ? ask->id_prefix : "", uuid);
        s->may_create = false;
        struct chat_spec spec = { .owner = s->owner, .thread_id = s->thread_id, .datasets = s->datasets, .uploads = s->uploads };
        r = chat_create(app->agent, &spec, on_open, s, &err);
    }
    if (r < 0) {
        serving_free(s);
        reply_error(req, &err);
        return;
    }
    if (s->stream && !ask->thread_id)
        start_stream(s); /* nothing can be wrong with the thread any more: the client need not wait for the store */
    else
        http_defer(req, on_left, s);
}
