/*
 * Parts of the file of a thread (`riddle thread export`, `import`): what is known of it, the image
 * of its variables, its messages. Files go by /files.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "agent/agent.h"
#include "api/app.h"
#include "api/chats.h"
#include "base/fdio.h"

struct waiting {
    struct http_request *req; /* NULL: the client left */
    struct chat *chat;        /* a reference; NULL until it is open */
};

/* Takes the answer. */
static void end(struct waiting *w, json_t *answer, const struct err *err)
{
    if (w->req && err && err->code == ERR_UNAVAILABLE)
        http_reply_busy(w->req, 1, "%s", err->message);
    else if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req && answer)
        http_reply_json(w->req, 200, json_incref(answer));
    json_decref(answer);
    chat_unref(w->chat);
    free(w);
}

/* What is done with the chat takes the waiting unless it fails. */
static void with_chat(struct waiting *w, struct chat *c, const struct err *err,
                      int (*act)(struct waiting *w, struct err *err))
{
    struct err why = ERR_INIT;
    w->chat = c;
    if (err)
        end(w, NULL, err);
    else if (!w->req)
        end(w, NULL, NULL);
    else if (act(w, &why) < 0)
        end(w, NULL, &why);
}

static void open_to(struct http_request *req, chat_fn opened)
{
    struct err err = ERR_INIT;
    struct waiting *w = calloc(1, sizeof(*w));
    int r = w ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->req = req;
        r = chat_open(app_of(req)->agent, http_owner(req), http_param(req, "thread_id"), opened, w,
                      &err);
    }
    if (r < 0) {
        free(w);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &w->req);
}

/* ---- POST export, GET image ---- */

static void on_exported(json_t *answer, const struct err *err, void *arg)
{
    end(arg, json_incref(answer), err);
}

static int export_chat(struct waiting *w, struct err *err)
{
    return chat_export(w->chat, on_exported, w, err);
}

static void opened_to_export(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, export_chat);
}

static void post_export(struct http_request *req)
{
    open_to(req, opened_to_export);
}

static int send_image(struct waiting *w, struct err *err)
{
    int64_t bytes;
    int fd, r = chat_open_image(w->chat, &fd, &bytes, err);
    if (r < 0)
        return r;
    http_add_header(w->req, "Cache-Control", "private, no-store");
    http_reply_file(w->req, 200, "application/octet-stream", fd, 0, (uint64_t)bytes);
    w->req = NULL;
    end(w, NULL, NULL);
    return 0;
}

static void opened_to_send(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, send_image);
}

static void get_image(struct http_request *req)
{
    open_to(req, opened_to_send);
}

/* ---- PUT image ---- */

/* An image on its way in. It ends with its request. */
struct arriving {
    int fd;
    int64_t left; /* bytes that may still come */
    char path[AGENT_PATH_SIZE];
};

static void arriving_gone(void *arg)
{
    struct arriving *a = arg;
    close(a->fd);
    (void)unlink(a->path); /* the thread has a link to it */
    free(a);
}

static int put_headers(struct http_request *req, struct err *err)
{
    int64_t bytes = http_body_length(req);
    struct arriving *a = calloc(1, sizeof(*a));
    if (!a)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    a->left = bytes;
    a->fd = agent_begin_image(app_of(req)->agent, bytes, a->path, err);
    if (a->fd < 0) {
        free(a);
        return -(int)err->code;
    }
    http_set_data(req, a, arriving_gone);
    return 0;
}

static ssize_t put_body(struct http_request *req, const char *data, size_t len, struct err *err)
{
    struct arriving *a = http_get_data(req);
    if ((int64_t)len > a->left)
        return err_set(err, ERR_TOO_LARGE, "the image is longer than it was said to be");
    int r = fd_write_all(a->fd, data, len, err);
    a->left -= (int64_t)len;
    return r < 0 ? r : (ssize_t)len;
}

static int take_image(struct waiting *w, struct err *err)
{
    const struct arriving *a = http_get_data(w->req);
    int r = chat_import_image(w->chat, a->path, http_query(w->req, "data"), err);
    if (r == 0)
        end(w, json_pack("{s:s, s:b}", "thread_id", chat_id(w->chat), "has_variables", 1), NULL);
    return r;
}

static void opened_to_take(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, take_image);
}

static void put_image(struct http_request *req)
{
    open_to(req, opened_to_take);
}

/* ---- POST messages ---- */

static const char *const roles[] = { "user", "assistant", NULL };
static const struct schema_field message_fields[] = {
    { .name = "role", .types = SCHEMA_STRING, .required = true, .choices = roles },
    { .name = "content", .types = SCHEMA_STRING, .required = true },
    { .name = NULL },
};
static const struct schema message_schema = { .name = "EarlierMessage", .fields = message_fields };
static const struct schema_field message_item = { .name = "",
                                                  .types = SCHEMA_OBJECT,
                                                  .object = &message_schema };
static const struct schema_field messages_fields[] = {
    { .name = "messages",
      .types = SCHEMA_ARRAY,
      .required = true,
      .items = &message_item,
      SCHEMA_RANGE(1, CHAT_IMPORT_MAX) },
    { .name = NULL },
};
static const struct schema messages_schema = { .name = "EarlierMessages",
                                               .doc = "Messages that a thread elsewhere had.",
                                               .fields = messages_fields };

static void on_stored(const struct err *err, void *arg)
{
    struct waiting *w = arg;
    json_t *answer = NULL;
    if (!err)
        answer = json_pack("{s:s, s:I}", "thread_id", chat_id(w->chat), "message_count",
                           (json_int_t)chat_message_count(w->chat));
    end(w, answer, err);
}

static int take_messages(struct waiting *w, struct err *err)
{
    const json_t *messages = json_object_get(http_body_json(w->req), "messages");
    return chat_import_messages(w->chat, messages, on_stored, w, err);
}

static void opened_to_append(struct chat *c, const struct err *err, void *arg)
{
    with_chat(arg, c, err, take_messages);
}

static void post_messages(struct http_request *req)
{
    open_to(req, opened_to_append);
}

/* ---- the table ---- */

static const struct route_param put_params[] = {
    THREAD_PARAM,
    ROUTE_QUERY("data", STRING, "`data` of the thread that the image was of.", .required = true,
                SCHEMA_RANGE(1, 100)),
    { .field = { .name = NULL } },
};
static const struct route_response get_responses[] = {
    { 200, "application/octet-stream", "The image." }, { .status = 0 }
};

#define ERRORS (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(UNAVAILABLE))

static const struct route routes[] = {
    { HTTP_POST, "/thread/{thread_id}/export", post_export, .id = "exportThread", .tag = "threads",
      .summary = "What a file of a thread needs beside its messages and files",
      .params = thread_params, .errors = ERRORS },
    { HTTP_GET, "/thread/{thread_id}/image", get_image, .id = "getThreadImage", .tag = "threads",
      .summary = "The image of a thread that is cold", .params = thread_params,
      .responses = get_responses, .errors = ERRORS },
    { HTTP_PUT, "/thread/{thread_id}/image", put_image, .id = "putThreadImage", .tag = "threads",
      .summary = "Give a thread without variables an image", .params = put_params,
      .consumes = "application/octet-stream",
      .errors = ERRORS | ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE), .flags = ROUTE_NEED_LENGTH,
      .on_headers = put_headers, .on_body = put_body },
    { HTTP_POST, "/thread/{thread_id}/messages", post_messages, .id = "importMessages",
      .tag = "threads", .summary = "Append messages that a thread elsewhere had",
      .params = thread_params, .body = &messages_schema,
      .errors = ERRORS | ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) },
};

const struct route_table thread_export_routes = { routes, ARRAY_SIZE(routes) };
