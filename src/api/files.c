/* /files: what a session's files are, and its routes. */

#include <stdio.h>
#include <string.h>
#include "api/files.h"
#include "data/receive.h"
#include "base/str.h"

/* ---- GET /files/list ---- */

struct listing {
    struct http_request *req;
    struct chat *chat;
    struct kernel_file_op *op;
};

bool file_is_image(const char *name)
{
    static const char *const kinds[] = { ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg" };
    size_t n = strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (n > strlen(kinds[i]) && str_ieq(name + n - strlen(kinds[i]), kinds[i]))
            return true;
    return false;
}

static void add(json_t *list, const char *where, const char *path, json_int_t size,
                json_int_t modified, const char *table, const char *note)
{
    json_array_append_new(list,
                          json_pack("{s:o, s:I, s:I, s:s, s:s*, s:s*}", "path",
                                    json_sprintf("/%s/%s", where, path), "size", size, "modified",
                                    modified, "where", where, "table", table, "note", note));
}

static void add_kept(json_t *all, json_t *images, const char *where, const struct file_set *set)
{
    add(all, where, set->file.name, set->file.size_bytes, store_time_ms(set->created_at),
        set->raw ? NULL : set->file.table, set->note);
    if (file_is_image(set->file.name))
        json_array_append_new(images, json_string(set->file.name));
}

/* files: of the kernel's /workspace, or NULL. */
static void reply_list(struct http_request *req, const json_t *files)
{
    struct data_room *room = app_of(req)->data;
    const char *owner = http_owner(req), *id = http_query(req, "session_id");
    struct data_thread *t = data_thread_find(room, owner, id);
    json_t *images = json_array(), *all = json_array(), *f;
    size_t i;
    for (i = 0; t && i < t->n_files; i++)
        if (!file_is_output(t->files[i]->file.name))
            add_kept(all, images, "data", t->files[i]);
    json_array_foreach(files, i, f) {
        const char *path = json_string_value(json_object_get(f, "path"));
        int64_t modified = json_integer_value(json_object_get(f, "modified"));
        if (data_thread_hides(room->files, owner, id, path, modified) ||
            (t && file_is_output(path) && data_thread_named(t, path)))
            continue;
        add(all, "workspace", path, json_integer_value(json_object_get(f, "size")), modified, NULL,
            NULL);
        /* One that is hidden behind an uploaded one of the same name needs its whole path. */
        if (file_is_image(path))
            json_array_append_new(images, t && data_thread_named(t, path) ?
                                              json_sprintf("/workspace/%s", path) :
                                              json_string(path));
    }
    for (i = 0; t && i < t->n_files; i++)
        if (file_is_output(t->files[i]->file.name))
            add_kept(all, images, "workspace", t->files[i]);
    http_reply_json(req, 200, json_pack("{s:o, s:o}", "images", images, "files", all));
}

static void listing_left(void *arg)
{
    struct listing *l = arg;
    kernel_file_op_drop(l->op);
    chat_unref(l->chat);
    free(l);
}

static void on_listed(const json_t *files, const struct err *err, void *arg)
{
    struct listing *l = arg;
    struct http_request *req = l->req;
    (void)err; /* no kernel, no files of it */
    l->op = NULL;
    listing_left(l);
    reply_list(req, files);
}

static bool good_session(struct http_request *req, const char *id)
{
    struct err err = ERR_INIT;
    if (thread_id_check(id, &err) == 0)
        return true;
    http_reply_error(req, &err);
    return false;
}

static void list_files(struct http_request *req)
{
    struct app *app = app_of(req);
    const char *id = http_query(req, "session_id");
    struct err err = ERR_INIT;
    if (!good_session(req, id))
        return;
    struct chat *c = chat_find(app->agent, http_owner(req), id);
    struct listing *l = c && chat_has_kernel(c) ? calloc(1, sizeof(*l)) : NULL;
    if (!l) {
        reply_list(req, NULL);
        return;
    }
    l->req = req;
    l->chat = chat_ref(c);
    if (chat_list_files(c, on_listed, l, &l->op, &err) < 0) {
        listing_left(l);
        http_reply_error(req, &err);
        return;
    }
    http_defer(req, listing_left, l);
}

/* ---- POST /files/clear ---- */

struct clearing {
    struct http_request *req; /* NULL: the client left */
};

static void on_cleared(const struct err *err, void *arg)
{
    struct clearing *cl = arg;
    struct http_request *req = cl->req;
    free(cl);
    if (!req)
        return;
    if (err)
        http_reply_error(req, err);
    else
        http_reply_json(req, 200, json_pack("{s:s}", "status", "ok"));
}

static void clear_files(struct http_request *req)
{
    struct app *app = app_of(req);
    const char *id = json_string_value(json_object_get(http_body_json(req), "session_id"));
    struct err err = ERR_INIT;
    if (!good_session(req, id))
        return;
    struct data_thread *t = data_thread_find(app->data, http_owner(req), id);
    struct chat *c = chat_find(app->agent, http_owner(req), id);
    if (c && chat_has_kernel(c))
        data_thread_note_cleared(app->data->files, http_owner(req), id);
    if (!t) {
        http_reply_json(req, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    struct clearing *cl = calloc(1, sizeof(*cl));
    int r = cl ? data_thread_clear(t, on_cleared, cl, &err) :
                 err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(cl);
        http_reply_error(req, &err);
        return;
    }
    cl->req = req;
    http_hold(req, &cl->req);
}

/* ---- POST /files/upload ---- */

static void reply_received(void *arg)
{
    struct receiver *rx = arg;
    struct app *app = rx->terms.arg;
    struct http_request *req = intake_take_request(&rx->in);
    struct chat *c = rx->all->room ? chat_find(app->agent, rx->thread->owner, rx->thread->id) :
                                     NULL;
    json_t *files = json_array();
    for (struct incoming *f = incoming_first(rx); f; f = incoming_next(f)) {
        const struct file_set *set = f->set;
        if (!set)
            continue;
        char place[KERNEL_PLACE_SIZE];
        const char *note = NULL;
        if (!c || !chat_file_place(c, set->file.full_path, place, &note))
            snprintf(place, sizeof(place), "/data/%s", set->file.name);
        if (!note)
            note = set->note;
        if (!note && c && chat_is_busy(c))
            note = "A message is being answered; the file is there from the next one on.";
        json_array_append_new(
            files, json_pack("{s:s, s:I, s:s*, s:s*, s:s*}", "name", set->file.name, "size",
                             (json_int_t)set->file.size_bytes, "where", *place ? place : NULL,
                             "table", set->raw ? NULL : set->file.table, "note", note));
    }
    json_t *body = json_pack("{s:s, s:s, s:o}", "status", "ok", "session_id", rx->thread->id,
                             "files", files);
    receiver_free(rx);
    if (req)
        http_reply_json(req, 200, body);
    else
        json_decref(body);
}

static void answer_received(struct receiver *rx, bool settled, const struct err *err)
{
    (void)settled;
    struct app *app = rx->terms.arg;
    struct http_request *req = err ? intake_take_request(&rx->in) : NULL;
    struct chat *c = err || !rx->all->room ?
                         NULL :
                         chat_find(app->agent, rx->thread->owner, rx->thread->id);
    if (req)
        http_reply_error(req, err);
    if (err)
        receiver_free(rx);
    if (c)
        receiver_hold(rx);
    if (c)
        chat_refresh_data(c, reply_received, rx);
    else if (!err)
        reply_received(rx);
}

static int receive_headers(struct http_request *req, struct err *err)
{
    struct receive_terms terms = {
        .for_thread = true, .wait = true, .answer = answer_received, .arg = app_of(req)
    };
    return receive_begin(req, app_of(req)->data, &terms, err);
}

static void upload_files(struct http_request *req)
{
    receive_end(req, true);
}

/* ---- the table ---- */

static const struct schema_field file_part = { .types = SCHEMA_STRING, .format = "binary" };
static const struct schema_field form_fields[] = {
    { .name = "session_id",
      .types = SCHEMA_STRING,
      .required = true,
      SCHEMA_RANGE(1, THREAD_ID_MAX),
      .doc =
          "The `session_id` or `thread_id` of a chat; one that does not exist yet may be chatted "
          "with later." },
    SCHEMA_REQUIRED(
        "files[]", ARRAY,
        "Files of any kind; `files` is understood, too. One of a name that is there already "
        "replaces it.",
        .items = &file_part, SCHEMA_MIN(1)),
    { .name = NULL },
};
static const struct schema form_schema = { .name = "SessionForm",
                                           .fields = form_fields,
                                           .open = true };

static const struct schema_field clear_fields[] = {
    { .name = "session_id",
      .types = SCHEMA_STRING,
      .required = true,
      SCHEMA_RANGE(1, THREAD_ID_MAX),
      .example = "\"session-1\"" },
    { .name = NULL },
};
static const struct schema clear_schema = { .name = "ClearFiles", .fields = clear_fields };

#define SESSION_PARAM                                                                              \
    ROUTE_QUERY("session_id", STRING, "The `session_id` or `thread_id` of a chat.",                \
                .required = true, SCHEMA_RANGE(1, THREAD_ID_MAX))
static const struct route_param list_params[] = { SESSION_PARAM, { .field = { .name = NULL } } };
static const struct route_param download_params[] = {
    SESSION_PARAM,
    { .in_query = true,
      .field = { .name = "path",
                 .types = SCHEMA_STRING,
                 .required = true,
                 SCHEMA_MAX(1024),
                 .doc =
                     "/data/…, /workspace/…, or a path that is looked for in both, in this order." } },
    { .field = { .name = NULL } },
};

static const struct route_response download_responses[] = {
    { 200, "application/octet-stream", "The file." }, { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_POST, "/files/upload", upload_files, .id = "uploadSessionFiles", .tag = "files",
      .summary = "Give files to a session",
      .doc =
          "Code sees them at /data, read-only. Data files, workbooks and databases become tables "
          "if they can be read as such.",
      .consumes = "multipart/form-data", .form = &form_schema,
      .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNSUPPORTED_MEDIA),
      .on_headers = receive_headers, .on_body = intake_body },
    { HTTP_POST, "/files/clear", clear_files, .id = "clearSessionFiles", .tag = "files",
      .summary = "Remove a session's uploaded files",
      .doc = "What code left in /workspace stays as long as its sandbox.", .body = &clear_schema,
      .errors = ROUTE_ERR(VALIDATION) },
    { HTTP_GET, "/files/list", list_files, .id = "listSessionFiles", .tag = "files",
      .summary = "A session's files, uploaded and left by code", .params = list_params,
      .errors = ROUTE_ERR(VALIDATION) },
    { HTTP_GET, "/files/download", session_download, .id = "downloadSessionFile", .tag = "files",
      .summary = "A file of a session", .params = download_params, .responses = download_responses,
      .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(NOT_FOUND) },
};

const struct route_table file_routes = { routes, ARRAY_SIZE(routes) };
