/* Checkpoints of threads and sandboxes: made, listed, gone back to, deleted. */

#include <stdlib.h>
#include <string.h>
#include "agent/agent.h"
#include "api/chats.h"
#include "api/sandboxes.h"

#define NAME_MAX_CHARS 200

static const struct schema_field make_fields[] = {
    { .name = "name",
      .types = SCHEMA_STRING,
      .nullable = true,
      SCHEMA_RANGE(1, NAME_MAX_CHARS),
      .example = "\"before the join\"" },
    { .name = NULL },
};
static const struct schema make_schema = { .name = "NewCheckpoint",
                                           .closed = true,
                                           .doc = "What the checkpoint is called.",
                                           .fields = make_fields };
static const struct schema_field back_fields[] = {
    SCHEMA_REQUIRED("checkpoint", STRING, "The `checkpoint_id` of one of the thread.",
                    SCHEMA_RANGE(1, 100), .example = "\"0a1b2c3d\""),
    { .name = NULL },
};
static const struct schema back_schema = { .name = "Rollback",
                                           .closed = true,
                                           .doc = "The checkpoint to go on from.",
                                           .fields = back_fields };

struct waiting {
    struct http_request *req; /* NULL: the client left */
    struct chat *chat;        /* a reference; NULL until it is open */
    bool is_sandbox;
};

static const char *id_name(const struct waiting *w)
{
    return w->is_sandbox ? "sandbox_id" : "thread_id";
}

/* A sandbox has no messages to count. */
static json_t *shown(const struct waiting *w, json_t *checkpoint)
{
    if (w->is_sandbox) {
        json_object_del(checkpoint, "message_count");
        json_object_del(checkpoint, "messages_after");
    }
    return checkpoint;
}

/* Takes the answer. */
static void end(struct waiting *w, json_t *answer, const struct err *err)
{
    if (w->req && err && err->code == ERR_UNAVAILABLE)
        http_reply_busy(w->req, 1, "%s", err->message);
    else if (w->req && err && err->code == ERR_NOT_FOUND && w->is_sandbox && !w->chat)
        sandbox_reply_unknown(w->req);
    else if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req)
        http_reply_json(w->req, 200, json_incref(answer));
    json_decref(answer);
    chat_unref(w->chat);
    free(w);
}

static void on_checkpoint(json_t *answer, const struct err *err, void *arg)
{
    struct waiting *w = arg;
    json_t *whole = err ? NULL : shown(w, json_deep_copy(answer));
    if (whole)
        json_object_set_new(whole, id_name(w), json_string(chat_id(w->chat)));
    end(w, whole, err);
}

static const char *text_of(struct http_request *req, const char *key)
{
    return json_string_value(json_object_get(http_body_json(req), key));
}

static int make(struct waiting *w, struct err *err)
{
    return chat_checkpoint(w->chat, text_of(w->req, "name"), on_checkpoint, w, err);
}

static int back(struct waiting *w, struct err *err)
{
    return chat_rollback(w->chat, text_of(w->req, "checkpoint"), on_checkpoint, w, err);
}

static int list(struct waiting *w, struct err *err)
{
    json_t *checkpoints = chat_checkpoints(w->chat), *item;
    size_t i;
    if (!checkpoints)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    json_array_foreach(checkpoints, i, item)
        shown(w, item);
    end(w, json_pack("{s:s, s:o}", id_name(w), chat_id(w->chat), "checkpoints", checkpoints), NULL);
    return 0;
}

static int drop(struct waiting *w, struct err *err)
{
    const char *id = http_param(w->req, "checkpoint_id");
    int r = chat_remove_checkpoint(w->chat, id, err);
    if (r == 0)
        end(w,
            json_pack("{s:s, s:s, s:b}", id_name(w), chat_id(w->chat), "checkpoint_id", id,
                      "deleted", 1),
            NULL);
    return r;
}

/* What is done with the chat takes the waiting unless it fails. */
static void with_chat(struct waiting *w, struct chat *c, const struct err *err,
                      int (*act)(struct waiting *w, struct err *err))
{
    struct err why = ERR_INIT;
    if (c && w->is_sandbox && !chat_terms(c)) {
        err_set(&why, ERR_NOT_FOUND, "Sandbox not found");
        chat_unref(c);
        end(w, NULL, &why);
        return;
    }
    w->chat = c;
    if (err)
        end(w, NULL, err);
    else if (!w->req)
        end(w, NULL, NULL);
    else if (act(w, &why) < 0)
        end(w, NULL, &why);
}

static void opened_to_make(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, make);
}

static void opened_to_list(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, list);
}

static void opened_to_go_back(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, back);
}

static void opened_to_drop(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, drop);
}

static void open_to(struct http_request *req, chat_fn opened)
{
    struct err err = ERR_INIT;
    struct waiting *w = calloc(1, sizeof(*w));
    int r = w ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->req = req;
        w->is_sandbox = http_param(req, "sandbox_id") != NULL;
        r = chat_open(app_of(req)->agent, http_owner(req), http_param(req, id_name(w)), opened, w,
                      &err);
    }
    if (r < 0 && w) {
        end(w, NULL, &err);
        return;
    }
    if (r < 0)
        http_reply_error(req, &err);
    else
        http_hold(req, &w->req);
}

static void post_checkpoint(struct http_request *req)
{
    open_to(req, opened_to_make);
}

static void get_checkpoints(struct http_request *req)
{
    open_to(req, opened_to_list);
}

static void post_rollback(struct http_request *req)
{
    open_to(req, opened_to_go_back);
}

static void delete_checkpoint(struct http_request *req)
{
    open_to(req, opened_to_drop);
}

#define CHECKPOINT_PARAM                                                                           \
    ROUTE_PATH("checkpoint_id", STRING, "The `checkpoint_id` of one of its checkpoints.",          \
               SCHEMA_RANGE(1, 100))
static const struct route_param checkpoint_params[] = { THREAD_PARAM,
                                                        CHECKPOINT_PARAM,
                                                        { .field = { .name = NULL } } };
static const struct route_param sandbox_checkpoint_params[] = {
    SANDBOX_PARAM,
    CHECKPOINT_PARAM,
    { .field = { .name = NULL } },
};

#define MAKE_ERRORS                                                                                \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(UNAVAILABLE))
#define BACK_ERRORS (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(CONFLICT))

static const struct route routes[] = {
    { HTTP_POST, "/thread/{thread_id}/checkpoint", post_checkpoint, .id = "checkpointThread",
      .tag = "threads", .summary = "Keep the present variables of a thread to go back to",
      .params = thread_params, .body = &make_schema, .errors = MAKE_ERRORS,
      .flags = ROUTE_BODY_OPTIONAL },
    { HTTP_GET, "/thread/{thread_id}/checkpoints", get_checkpoints, .id = "listCheckpoints",
      .tag = "threads", .summary = "Checkpoints of a thread", .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/thread/{thread_id}/rollback", post_rollback, .id = "rollbackThread",
      .tag = "threads", .summary = "Set the variables of a thread back to a checkpoint",
      .params = thread_params, .body = &back_schema, .errors = BACK_ERRORS },
    { HTTP_DELETE, "/thread/{thread_id}/checkpoints/{checkpoint_id}", delete_checkpoint,
      .id = "deleteCheckpoint", .tag = "threads", .summary = "Delete a checkpoint",
      .params = checkpoint_params, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/sandbox/{sandbox_id}/checkpoint", post_checkpoint, .id = "checkpointSandbox",
      .tag = "sandboxes", .summary = "Keep the present variables of a sandbox to go back to",
      .params = sandbox_params, .body = &make_schema, .errors = MAKE_ERRORS,
      .flags = ROUTE_BODY_OPTIONAL },
    { HTTP_GET, "/sandbox/{sandbox_id}/checkpoints", get_checkpoints,
      .id = "listSandboxCheckpoints", .tag = "sandboxes", .summary = "Checkpoints of a sandbox",
      .params = sandbox_params, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/sandbox/{sandbox_id}/rollback", post_rollback, .id = "rollbackSandbox",
      .tag = "sandboxes", .summary = "Set the variables of a sandbox back to a checkpoint",
      .params = sandbox_params, .body = &back_schema, .errors = BACK_ERRORS },
    { HTTP_DELETE, "/sandbox/{sandbox_id}/checkpoints/{checkpoint_id}", delete_checkpoint,
      .id = "deleteSandboxCheckpoint", .tag = "sandboxes",
      .summary = "Delete a checkpoint of a sandbox", .params = sandbox_checkpoint_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
};

const struct route_table checkpoint_routes = { routes, ARRAY_SIZE(routes) };
