/*
 * Files of a sandbox's /workspace. The kernel reads and writes them inside its jail; riddle hands
 * pieces on, as fast as the slower side takes them, and keeps one of them in memory.
 */

#include <stdio.h>
#include <string.h>
#include "api/files.h"
#include "data/threads.h"
#include "api/sandboxes.h"
#include "base/buf.h"
#include "base/limits.h"
#include "sandbox/workspace_path.h"

static const char *path_of(const struct http_request *req)
{
    return http_param(req, "path");
}

static bool check_path(struct http_request *req)
{
    const char *path = path_of(req);
    if (workspace_path_ok(path, strlen(path)))
        return true;
    http_reply_fail(req, ERR_VALIDATION, "Invalid file path.");
    return false;
}

/* ---- GET ---- */

static void download(struct http_request *req, struct chat *c)
{
    workspace_download(req, c, path_of(req));
}

static void get_file(struct http_request *req)
{
    if (check_path(req))
        sandbox_with(req, download);
}

/* ---- list and delete ---- */

struct asking {
    struct http_request *req;
    struct chat *chat;
    struct kernel_file_op *op;
};

static void asking_left(void *arg)
{
    struct asking *a = arg;
    kernel_file_op_drop(a->op);
    chat_unref(a->chat);
    free(a);
}

static struct asking *ask_for(struct http_request *req, struct chat *c)
{
    struct asking *a = calloc(1, sizeof(*a));
    if (a)
        *a = (struct asking){ .req = req, .chat = chat_ref(c) };
    return a;
}

static void asked(struct asking *a, int r, struct err *err)
{
    if (r == 0) {
        http_defer(a->req, asking_left, a);
        return;
    }
    http_reply_error(a->req, err);
    asking_left(a);
}

static void reply_list(struct http_request *req, const struct chat *c, const json_t *files)
{
    http_reply_json(req, 200,
                    json_pack("{s:s, s:o}", "sandbox_id", chat_id(c), "files",
                              files ? json_deep_copy(files) : json_array()));
}

static void on_listed(const json_t *files, const struct err *err, void *arg)
{
    struct asking *a = arg;
    a->op = NULL;
    reply_list(a->req, a->chat, err ? NULL : files); /* without a kernel there are none */
    asking_left(a);
}

static void list(struct http_request *req, struct chat *c)
{
    struct err err = ERR_INIT;
    struct asking *a = chat_has_kernel(c) ? ask_for(req, c) : NULL;
    if (a)
        asked(a, chat_list_files(c, on_listed, a, &a->op, &err), &err);
    else
        reply_list(req, c, NULL);
}

static void list_files(struct http_request *req)
{
    sandbox_with(req, list);
}

static void on_removed(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct asking *a = arg;
    (void)piece;
    a->op = NULL;
    if (err)
        http_reply_error(a->req, err);
    else
        http_reply_json(a->req, 200,
                        json_pack("{s:s, s:s, s:b}", "sandbox_id", chat_id(a->chat), "path",
                                  path_of(a->req), "deleted", 1));
    asking_left(a);
}

static void remove_file(struct http_request *req, struct chat *c)
{
    struct err err = ERR_INIT;
    struct asking *a = ask_for(req, c);
    if (a)
        asked(a, chat_remove_file(c, path_of(req), on_removed, a, &a->op, &err), &err);
    else
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
}

static void delete_file(struct http_request *req)
{
    if (check_path(req))
        sandbox_with(req, remove_file);
}

/* ---- PUT ---- */

/* A file on its way in. It ends with its request. */
struct arriving {
    struct http_request *req;
    struct chat *chat;
    struct kernel_file_op *op;
    struct buf piece;
    bool ready; /* the kernel is there */
    bool writing;
    bool ended; /* the whole body has come */
    bool begun; /* a piece was written: the next ones are appended */
    bool left;
    unsigned refs; /* callbacks that still come, and the request */
    int64_t size;
    struct err err;
};

static void arriving_unref(struct arriving *u)
{
    if (--u->refs > 0)
        return;
    chat_unref(u->chat);
    buf_finish(&u->piece);
    free(u);
}

static void arriving_gone(void *arg)
{
    struct arriving *u = arg;
    u->left = true;
    u->req = NULL;
    if (u->op) { /* the kernel calls back no more */
        kernel_file_op_drop(u->op);
        u->op = NULL;
        u->refs--;
    }
    arriving_unref(u);
}

static void arriving_reply(struct arriving *u)
{
    struct http_request *req = u->req;
    if (u->err.code == ERR_NOT_FOUND && !u->chat)
        sandbox_reply_unknown(req);
    else if (u->err.code)
        http_reply_error(req, &u->err);
    else
        http_reply_json(req, 200,
                        json_pack("{s:s, s:s, s:I}", "sandbox_id", chat_id(u->chat), "path",
                                  path_of(req), "size", (json_int_t)u->size));
}

static void arriving_go_on(struct arriving *u);

static void on_written(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct arriving *u = arg;
    u->op = NULL;
    u->writing = false;
    u->begun = true;
    if (err)
        u->err = *err;
    else
        u->size = piece->size;
    buf_clear(&u->piece);
    if (!u->left)
        arriving_go_on(u);
    arriving_unref(u);
}

/* A piece is written if it is full or the last one; then the client may send more. */
static void arriving_go_on(struct arriving *u)
{
    bool full = u->piece.len == FILE_PIECE_MAX, last = u->ended && (u->piece.len > 0 || !u->begun);
    if (u->writing || !u->ready)
        return;
    if (!u->err.code && (full || last)) {
        u->writing = true;
        u->refs++;
        if (chat_write_file(u->chat, path_of(u->req), u->piece.data, u->piece.len, u->begun,
                            on_written, u, &u->op, &u->err) == 0)
            return;
        u->writing = false;
        u->refs--;
    }
    if (u->ended)
        arriving_reply(u);
    else
        http_body_resume(u->req);
}

static void on_kernel(void *arg)
{
    struct arriving *u = arg;
    u->ready = true;
    if (!chat_has_kernel(u->chat))
        err_set(&u->err, ERR_UNAVAILABLE, "the sandbox has no kernel to take the file");
    if (!u->left)
        arriving_go_on(u);
    arriving_unref(u);
}

static void on_open(struct chat *c, const struct err *err, void *arg)
{
    struct arriving *u = arg;
    if (err) {
        u->err = *err;
    } else if (!chat_terms(c)) {
        err_set(&u->err, ERR_NOT_FOUND, "no sandbox");
        chat_unref(c);
    } else {
        u->chat = c;
    }
    if (u->left) {
        arriving_unref(u);
    } else if (!u->chat) {
        u->ready = true;
        arriving_go_on(u);
        arriving_unref(u);
    } else if (chat_wake(c, &u->err) < 0) {
        u->ready = true;
        arriving_go_on(u);
        arriving_unref(u);
    } else {
        chat_when_settled(c, on_kernel, u);
    }
}

static int put_headers(struct http_request *req, struct err *err)
{
    const char *path = path_of(req);
    if (!workspace_path_ok(path, strlen(path)))
        return err_set(err, ERR_VALIDATION, "Invalid file path.");
    struct arriving *u = calloc(1, sizeof(*u));
    if (!u)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    u->req = req;
    u->refs = 2; /* the request, and what opens the sandbox */
    buf_init(&u->piece, FILE_PIECE_MAX + 1);
    int r = chat_open(app_of(req)->agent, http_owner(req), http_param(req, "sandbox_id"), on_open,
                      u, err);
    if (r < 0) {
        buf_finish(&u->piece);
        free(u);
        return r == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "Sandbox not found") : r;
    }
    http_set_data(req, u, arriving_gone);
    return 0;
}

static ssize_t put_body(struct http_request *req, const char *data, size_t len, struct err *err)
{
    struct arriving *u = http_get_data(req);
    if (u->err.code)
        return (ssize_t)len; /* the answer tells why */
    if (u->writing)
        return 0;
    size_t n = MIN_OF(len, FILE_PIECE_MAX - u->piece.len);
    if (buf_append(&u->piece, data, n, err) < 0)
        return -(ssize_t)err->code;
    if (u->piece.len == FILE_PIECE_MAX)
        arriving_go_on(u);
    return (ssize_t)n;
}

static void put_file(struct http_request *req)
{
    struct arriving *u = http_get_data(req);
    u->ended = true;
    http_defer(req, NULL, NULL);
    arriving_go_on(u);
}

/* ---- the table ---- */

static const struct route_param file_params[] = {
    SANDBOX_PARAM,
    ROUTE_PATH("path", STRING, "Below /workspace, the directory that code starts in.",
               SCHEMA_RANGE(1, WORKSPACE_PATH_MAX)),
    { .field = { .name = NULL } },
};
static const struct route_response get_responses[] = {
    { 200, "application/octet-stream", "The file." }, { .status = 0 }
};

#define FILE_ERRORS                                                                                \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) |                       \
     ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(CONFLICT))

static const struct route routes[] = {
    { HTTP_GET, "/sandbox/{sandbox_id}/files", list_files, .id = "listSandboxFiles",
      .tag = "sandboxes", .summary = "Files of a sandbox", .params = sandbox_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/sandbox/{sandbox_id}/files/{path...}", get_file, .id = "getSandboxFile",
      .tag = "sandboxes", .summary = "A file of a sandbox", .params = file_params,
      .responses = get_responses, .errors = FILE_ERRORS },
    { HTTP_PUT, "/sandbox/{sandbox_id}/files/{path...}", put_file, .id = "putSandboxFile",
      .tag = "sandboxes", .summary = "Write a file into a sandbox", .params = file_params,
      .consumes = "*", .errors = FILE_ERRORS, .on_headers = put_headers, .on_body = put_body },
    { HTTP_DELETE, "/sandbox/{sandbox_id}/files/{path...}", delete_file, .id = "deleteSandboxFile",
      .tag = "sandboxes", .summary = "Remove a file of a sandbox", .params = file_params,
      .errors = FILE_ERRORS },
};

const struct route_table sandbox_file_routes = { routes, ARRAY_SIZE(routes) };
