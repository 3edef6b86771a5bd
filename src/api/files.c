/* /files: what a session's files are, and its routes. */

#include <stdio.h>
#include <string.h>
#include "api/files.h"
#include "data/thread_files_impl.h"
#include "data/intake.h"
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

static void add(json_t *list, const char *where, const char *path, json_int_t size, json_int_t modified, const char *table, const char *note)
{
    json_array_append_new(list, json_pack("{s:o, s:I, s:I, s:s, s:s*, s:s*}", "path", json_sprintf("/%s/%s", where, path), "size", size,
                                          "modified", modified, "where", where, "table", table, "note", note));
}

/* files: of the kernel's /workspace, or NULL. */
static void reply_list(struct http_request *req, const json_t *files)
{
    struct session *s = session_find(app_of(req)->data->sessions, http_owner(req),
                                     http_query(req, "session_id"));
    json_t *images = json_array(), *all = json_array(), *f;
    size_t i;
    for (i = 0; s && i < s->n_files; i++) {
        const struct session_file *sf = s->files[i];
        if (file_is_output(sf->name))
            continue;
        add(all, "data", sf->name, sf->size, sf->modified_ms, *sf->table ? sf->table : NULL, *sf->note ? sf->note : NULL);
        if (file_is_image(sf->name))
            json_array_append_new(images, json_string(sf->name));
    }
    json_array_foreach(files, i, f)
    {
        const char *path = json_string_value(json_object_get(f, "path"));
        int64_t modified = json_integer_value(json_object_get(f, "modified"));
        if (session_hides(app_of(req)->data->sessions, http_owner(req),
                          http_query(req, "session_id"), path, modified) ||
            (s && file_is_output(path) && session_file_named(s, path)))
            continue;
        add(all, "workspace", path, json_integer_value(json_object_get(f, "size")), json_integer_value(json_object_get(f, "modified")), NULL,
            NULL);
        if (file_is_image(path)) /* one that is hidden behind an uploaded one of the same name needs its whole path */
            json_array_append_new(images, s && session_file_named(s, path) ? json_sprintf("/workspace/%s", path) : json_string(path));
    }
    for (i = 0; s && i < s->n_files; i++) {
        const struct session_file *sf = s->files[i];
        if (!file_is_output(sf->name))
            continue;
        add(all, "workspace", sf->name, sf->size, sf->modified_ms, NULL, NULL);
        if (file_is_image(sf->name))
            json_array_append_new(images, json_string(sf->name));
    }
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

static void clearing_left(void *arg)
{
    ((struct clearing *)arg)->req = NULL;
}

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
    struct session *s = session_find(app->data->sessions, http_owner(req), id);
    struct chat *c = chat_find(app->agent, http_owner(req), id);
    if (c && chat_has_kernel(c))
        session_note_cleared(app->data->sessions, http_owner(req), id);
    if (!s) {
        http_reply_json(req, 200, json_pack("{s:s}", "status", "ok"));
        return;
    }
    struct clearing *cl = calloc(1, sizeof(*cl));
    s->pins++;
    session_clear(s);
    int r = cl ? session_save(s, on_cleared, cl, &err) : err_set(&err, ERR_NO_MEMORY, "out of memory");
    session_unpin(s);
    if (r < 0) {
        free(cl);
        http_reply_error(req, &err);
        return;
    }
    cl->req = req;
    http_defer(req, clearing_left, cl);
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
    { .name = "files[]",
      .types = SCHEMA_ARRAY,
      .items = &file_part,
      .required = true,
      SCHEMA_MIN(1),
      .doc =
          "Files of any kind; `files` is understood, too. One of a name that is there already "
          "replaces it." },
    { .name = NULL },
};
static const struct schema form_schema = { .name = "SessionForm", .fields = form_fields, .open = true };

static const struct schema_field uploaded_fields[] = {
    { .name = "name", .types = SCHEMA_STRING },
    { .name = "size", .types = SCHEMA_INTEGER },
    { .name = "where", .types = SCHEMA_STRING, .doc = "Where code finds it: /data/…, or /workspace/… when Python has been keeping variables "
                                                      "since before it came. Missing when that Python has no room for it." },
    { .name = "table", .types = SCHEMA_STRING, .doc = "The name to query it by; missing when it is no table." },
    { .name = "note", .types = SCHEMA_STRING, .doc = "Why it is no table, or what else is not as expected." },
    { .name = NULL },
};
static const struct schema uploaded_schema = { .name = "SessionFile", .fields = uploaded_fields };
static const struct schema_field uploaded_item = { .types = SCHEMA_OBJECT, .object = &uploaded_schema };
static const struct schema_field upload_fields[] = {
    { .name = "status", .types = SCHEMA_STRING },
    { .name = "session_id", .types = SCHEMA_STRING },
    { .name = "files", .types = SCHEMA_ARRAY, .items = &uploaded_item },
    { .name = NULL },
};
static const struct schema upload_schema = { .name = "SessionUpload", .fields = upload_fields };

static const char *const places[] = { "data", "workspace", NULL };
static const struct schema_field listed_fields[] = {
    { .name = "path", .types = SCHEMA_STRING, .doc = "/data/… or /workspace/…" },
    { .name = "size", .types = SCHEMA_INTEGER },
    { .name = "modified", .types = SCHEMA_INTEGER, .doc = "Unix time in milliseconds." },
    { .name = "where", .types = SCHEMA_STRING, .choices = places, .doc = "Uploaded, or left by code." },
    { .name = "table", .types = SCHEMA_STRING },
    { .name = "note", .types = SCHEMA_STRING },
    { .name = NULL },
};
static const struct schema listed_schema = { .name = "ListedFile", .fields = listed_fields };
static const struct schema_field listed_item = { .types = SCHEMA_OBJECT, .object = &listed_schema };
static const struct schema_field image_item = { .types = SCHEMA_STRING };
static const struct schema_field list_fields[] = {
    { .name = "images", .types = SCHEMA_ARRAY, .items = &image_item, .doc = "Paths of those that are images." },
    { .name = "files", .types = SCHEMA_ARRAY, .items = &listed_item },
    { .name = NULL },
};
static const struct schema list_schema = { .name = "SessionFiles", .fields = list_fields };

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
    {                                                                                              \
        .in_query = true, .field = {                                                               \
            .name = "session_id",                                                                  \
            .types = SCHEMA_STRING,                                                                \
            .required = true,                                                                      \
            SCHEMA_RANGE(1, THREAD_ID_MAX),                                                        \
            .doc = "The `session_id` or `thread_id` of a chat."                                    \
        }                                                                                          \
    }
static const struct route_param list_params[] = { SESSION_PARAM, { .field = { .name = NULL } } };
static const struct route_param download_params[] = {
    SESSION_PARAM,
    { .in_query = true, .field = { .name = "path", .types = SCHEMA_STRING, .required = true, SCHEMA_MAX(1024),
                                   .doc = "/data/…, /workspace/…, or a path that is looked for in both, in this order." } },
    { .field = { .name = NULL } },
};

static const struct route_response upload_responses[] = { { 200, NULL, &upload_schema, false, "Stored." }, { .status = 0 } };
static const struct route_response clear_responses[] = { { 200, NULL, NULL, false, "{status}" }, { .status = 0 } };
static const struct route_response list_responses[] = { { 200, NULL, &list_schema, false, "What there is." }, { .status = 0 } };
static const struct route_response download_responses[] = { { 200, "application/octet-stream", NULL, false, "The file." }, { .status = 0 } };

static const struct route routes[] = {
    { HTTP_POST, "/files/upload", session_receive_end, .id = "uploadSessionFiles", .tag = "files", .summary = "Give files to a session",
      .doc = "Code sees them at /data, read-only. Data files, workbooks and databases become tables if they can be read as such.",
      .consumes = "multipart/form-data", .form = &form_schema, .responses = upload_responses,
      .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNSUPPORTED_MEDIA), .on_headers = session_receive_headers,
      .on_body = intake_body },
    { HTTP_POST, "/files/clear", clear_files, .id = "clearSessionFiles", .tag = "files", .summary = "Remove a session's uploaded files",
      .doc = "What code left in /workspace stays as long as its sandbox.", .body = &clear_schema, .responses = clear_responses,
      .errors = ROUTE_ERR(VALIDATION) },
    { HTTP_GET, "/files/list", list_files, .id = "listSessionFiles", .tag = "files", .summary = "A session's files, uploaded and left by code",
      .params = list_params, .responses = list_responses, .errors = ROUTE_ERR(VALIDATION) },
    { HTTP_GET, "/files/download", session_download, .id = "downloadSessionFile", .tag = "files", .summary = "A file of a session",
      .params = download_params, .responses = download_responses, .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(NOT_FOUND) },
};

const struct route_table file_routes = { routes, ARRAY_SIZE(routes) };
