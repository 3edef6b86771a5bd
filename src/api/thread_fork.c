/* POST /thread/{id}/fork, /sandbox/{id}/fork: one that goes on twice from its present state. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/agent.h"
#include "data/threads.h"
#include "api/sandboxes.h"
#include "base/id.h"

#define THREAD_ID_DIGITS 12

struct forking {
    struct http_request *req; /* NULL: the client left */
    struct app *app;
    struct chat *chat; /* a reference; NULL until it is open */
    char owner[64], id[THREAD_ID_MAX + 1];
    char *title;
    bool is_sandbox;
};

static void forking_free(struct forking *f)
{
    chat_unref(f->chat);
    free(f->title);
    free(f);
}

static void fail(struct forking *f, const struct err *err)
{
    (void)data_thread_forget(f->app->data, f->owner, f->id);
    if (f->req && f->is_sandbox && err->code == ERR_NOT_FOUND)
        sandbox_reply_unknown(f->req);
    else if (f->req && err->code == ERR_UNAVAILABLE)
        http_reply_busy(f->req, 1, "%s", err->message);
    else if (f->req)
        http_reply_error(f->req, err);
    forking_free(f);
}

static void on_forked(struct chat *fork, const char *not_kept, const struct err *err, void *arg)
{
    struct forking *f = arg;
    struct chat_sandbox sandbox;
    if (err) {
        fail(f, err);
        return;
    }
    chat_sandbox(fork, &sandbox);
    if (f->req && f->is_sandbox)
        http_reply_json(f->req, 200,
                        json_pack("{s:s, s:s, s:b, s:s*}", "sandbox_id", chat_id(fork),
                                  "forked_from", chat_id(f->chat), "has_variables",
                                  sandbox.has_variables, "not_kept", not_kept));
    else if (f->req)
        http_reply_json(f->req, 200,
                        json_pack("{s:s, s:s, s:s?, s:I, s:b, s:s*}", "thread_id", chat_id(fork),
                                  "forked_from", chat_id(f->chat), "title", f->title,
                                  "message_count", (json_int_t)chat_message_count(fork),
                                  "has_variables", sandbox.has_variables, "not_kept", not_kept));
    chat_unref(fork);
    forking_free(f);
}

static void on_files(const struct err *err, void *arg)
{
    struct forking *f = arg;
    struct err why = ERR_INIT;
    if (err)
        fail(f, err);
    else if (chat_fork(f->chat, f->id, f->title, on_forked, f, &why) < 0)
        fail(f, &why);
}

static void on_opened(struct chat *c, const struct err *err, void *arg)
{
    struct forking *f = arg;
    struct err why = ERR_INIT;
    f->chat = c;
    if (err) {
        fail(f, err);
        return;
    }
    int r = chat_is_busy(c) ? err_set(&why, ERR_CONFLICT,
                                      "this thread is busy; try again when its answer is there, or "
                                      "stop it") :
                              0;
    if (r == 0)
        r = data_thread_fork(f->app->data, f->owner, chat_id(c), f->id, on_files, f, &why);
    if (r < 0)
        fail(f, &why);
}

/* Only the record has the title. */
static void on_record(const struct err *err, const struct store_page *page, void *arg)
{
    struct forking *f = arg;
    struct err why = ERR_INIT;
    if (err && err->code == ERR_NOT_FOUND)
        err_set(&why, ERR_NOT_FOUND, "Thread not found");
    else if (err)
        why = *err;
    else if (page->threads[0].title && !(f->title = strdup(page->threads[0].title)))
        err_set(&why, ERR_NO_MEMORY, "out of memory");
    else if (f->is_sandbox && !page->threads[0].terms_json)
        err_set(&why, ERR_NOT_FOUND, "Sandbox not found");
    else if (f->req)
        (void)chat_open(f->app->agent, f->owner, page->threads[0].thread_id, on_opened, f, &why);
    else
        err_set(&why, ERR_CANCELLED, "the client left");
    if (why.code)
        fail(f, &why);
}

static void post_fork(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct forking *f = calloc(1, sizeof(*f));
    int r = f ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        f->req = req;
        f->app = app_of(req);
        snprintf(f->owner, sizeof(f->owner), "%s", http_owner(req));
        const char *sandbox = http_param(req, "sandbox_id");
        f->is_sandbox = sandbox != NULL;
        if (sandbox)
            sandbox_new_id(f->id);
        else
            id_hex(f->id, THREAD_ID_DIGITS);
        r = store_get(f->app->store, RECORD_THREAD, f->owner,
                      sandbox ? sandbox : http_param(req, "thread_id"), on_record, f, &err);
    }
    if (r < 0) {
        free(f);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &f->req);
}

#define FORK_ERRORS                                                                                \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNAVAILABLE))

static const struct route routes[] = {
    { HTTP_POST, "/thread/{thread_id}/fork", post_fork, .id = "forkThread", .tag = "threads",
      .summary = "Make a new thread that goes on from the present state of this one",
      .params = thread_params, .errors = FORK_ERRORS },
    { HTTP_POST, "/sandbox/{sandbox_id}/fork", post_fork, .id = "forkSandbox", .tag = "sandboxes",
      .summary = "Make a new sandbox that goes on from the present state of this one",
      .params = sandbox_params, .errors = FORK_ERRORS },
};

const struct route_table thread_fork_routes = { routes, ARRAY_SIZE(routes) };
