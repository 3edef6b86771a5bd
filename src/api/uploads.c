/* /upload and /uploads: files that people bring, and how they get on. */

#include "api/app.h"
#include <stdio.h>
#include <string.h>
#include "data/receive.h"
#include "base/str.h"
#include "net/sse.h"

#define LIST_DEFAULT 50
#define LIST_MAX 200

static void not_found(struct http_request *req)
{
    const char *id = http_param(req, "file_id");
    char shown[STR_SHOWN_SIZE];
    http_reply_fail(req, ERR_NOT_FOUND,
                    "file_id '%s' not found. Upload a file first via POST /upload",
                    str_show(id, strlen(id), shown, sizeof(shown)));
}

/* The upload that the path names; NULL: it was answered that there is none. */
static struct file_set *asked_for(struct http_request *req)
{
    struct file_set *set = file_set_find(app_of(req)->data->files, http_owner(req),
                                         http_param(req, "file_id"));
    if (set && !set->thread_id)
        return set;
    file_set_unref(set);
    not_found(req);
    return NULL;
}

static bool is_listed(const struct file_set *set, const char *owner)
{
    return !set->thread_id && file_set_visible(set, owner);
}

static void list_uploads(struct http_request *req)
{
    const char *owner = http_owner(req), *cursor = http_query(req, "cursor"),
               *status = http_query(req, "status");
    long long limit = http_query_i64(req, "limit", LIST_DEFAULT), n = 0;
    struct file_set *set = app_of(req)->data->files->newest;
    const char *last = NULL, *next = NULL;
    if (cursor) {
        while (set && !(str_eq(set->dataset.id, cursor) && is_listed(set, owner)))
            set = set->next;
        if (!set) {
            http_reply_fail(
                req, ERR_VALIDATION,
                "cursor is not one that a list of uploads gave, or that upload is gone");
            return;
        }
        set = set->next;
    }
    json_t *list = json_array();
    for (; set; set = set->next) {
        if (!is_listed(set, owner) || (status && !str_eq(status, file_status_name(set->status))))
            continue;
        if (n++ == limit) {
            next = last;
            break;
        }
        last = set->dataset.id;
        json_array_append_new(list, file_set_json(set));
    }
    http_reply_json(req, 200, json_pack("{s:o, s:s?}", "uploads", list, "next", next));
}

static void get_upload(struct http_request *req)
{
    struct file_set *set = asked_for(req);
    if (!set)
        return;
    http_reply_json(req, 200, file_set_json(set));
    file_set_unref(set);
}

/* ---- POST /upload ---- */

static json_t *received_json(const struct incoming *f, bool settled)
{
    const struct file_set *set = f->set;
    json_t *j = json_pack(
        "{s:s, s:o, s:I, s:o, s:O?, s:s?}", "file_id", f->id, "filename",
        json_text(f->in.filename, strlen(f->in.filename)), "size_bytes", (json_int_t)f->in.size,
        "rows", settled && !set->raw ? json_integer(set->file.row_count) : json_null(), "columns",
        settled ? set->columns : NULL, "table", set->raw ? NULL : set->file.table);
    if (settled && set->note)
        json_object_set_new(j, "note", json_text(set->note, strlen(set->note)));
    if (settled)
        file_set_report(set, j);
    else
        json_object_set_new(j, "status", json_string(file_status_name(set->status)));
    return j;
}

/* Files without an error are listed, the others told. */
static void answer_received(struct receiver *rx, bool settled, const struct err *err)
{
    (void)err;
    json_t *files = json_array(), *errors = json_array();
    struct err first = ERR_INIT;
    struct http_request *req = intake_take_request(&rx->in);
    for (struct incoming *f = incoming_first(rx); f; f = incoming_next(f)) {
        if (f->in.err.code == ERR_NONE) {
            json_array_append_new(files, received_json(f, settled));
            continue;
        }
        first = first.code ? first : f->in.err;
        json_array_append_new(errors,
                              json_pack("{s:o, s:o}", "filename",
                                        json_text(f->in.filename, strlen(f->in.filename)), "error",
                                        json_text(f->in.err.message, strlen(f->in.err.message))));
        /* Whoever sent it knows now. */
        if (req && f->set && !f->set->deleting && rx->all->room)
            (void)file_set_delete(f->set, NULL, NULL, NULL);
    }
    receiver_free(rx);
    size_t n = json_array_size(files);
    json_t *body = n > 0 ? json_pack("{s:o, s:o}", "message",
                                     json_sprintf("%zu file(s) uploaded successfully", n), "files",
                                     json_incref(files)) :
                           json_pack("{s:{s:O}, s:o}", "detail", "errors", errors, "error",
                                     json_error(&first));
    if (n > 0 && json_array_size(errors) > 0)
        json_object_set(body, "errors", errors);
    json_decref(files);
    json_decref(errors);
    if (req)
        http_reply_json(req, n == 0 ? err_http_status(first.code) : settled ? 200 : 202, body);
    else
        json_decref(body);
}

static int receive_headers(struct http_request *req, struct err *err)
{
    struct receive_terms terms = { .wait = http_query_bool(req, "wait", true),
                                   .answer = answer_received };
    return receive_begin(req, app_of(req)->data, &terms, err);
}

static void upload_files(struct http_request *req)
{
    receive_end(req, false);
}

/* ---- events ---- */

struct follower {
    struct sse *sse;
    struct file_set *set;
    struct file_watcher watcher;
};

static void follower_free(struct follower *fo)
{
    file_unwatch(&fo->watcher);
    file_set_unref(fo->set);
    free(fo);
}

static void follower_left(void *arg)
{
    follower_free(arg);
}

/* Tells how it stands; ends the stream when there is nothing more to come. */
static void follower_tell(struct file_set *set, void *arg)
{
    struct follower *fo = arg;
    struct err err = ERR_INIT; /* a client that does not read is told off by the stream itself */
    if (set->deleting)
        (void)sse_send(fo->sse, "error",
                       json_pack("{s:s, s:s}", "error_type", err_name(ERR_NOT_FOUND), "message",
                                 "The upload was deleted"),
                       &err);
    else
        (void)sse_send(fo->sse, "status", file_set_json(set), &err);
    if (set->status == FILE_PROCESSING && !set->deleting)
        return;
    (void)sse_send(fo->sse, "done",
                   json_pack("{s:s, s:s}", "file_id", set->dataset.id, "status",
                             set->deleting ? "deleted" : file_status_name(set->status)),
                   &err);
    sse_end(fo->sse);
    follower_free(fo);
}

static void get_events(struct http_request *req)
{
    struct file_set *set = asked_for(req);
    struct follower *fo = set ? calloc(1, sizeof(*fo)) : NULL;
    if (!set)
        return;
    if (!fo) {
        file_set_unref(set);
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    fo->set = set;
    fo->watcher = (struct file_watcher){ .changed = follower_tell, .arg = fo };
    fo->sse = http_reply_sse(req);
    sse_on_close(fo->sse, follower_left, fo);
    file_watch(set, &fo->watcher);
    follower_tell(set, fo);
}

/* ---- deleting ---- */

struct deleting {
    struct http_request *req; /* NULL: the client left */
    char file_id[32];
};

static void deleted(const struct err *err, void *arg)
{
    struct deleting *d = arg;
    if (d->req && err)
        http_reply_error(d->req, err);
    else if (d->req)
        http_reply_json(d->req, 200,
                        json_pack("{s:o, s:s}", "message",
                                  json_sprintf("Upload %s deleted", d->file_id), "file_id",
                                  d->file_id));
    free(d);
}

static void delete_upload(struct http_request *req)
{
    struct file_set *set = asked_for(req);
    struct err err = ERR_INIT;
    if (!set)
        return;
    struct deleting *d = calloc(1, sizeof(*d));
    int r = d ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        d->req = req;
        snprintf(d->file_id, sizeof(d->file_id), "%s", set->dataset.id);
        r = file_set_delete(set, deleted, d, &err);
    }
    file_set_unref(set);
    if (r < 0) {
        free(d);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &d->req);
}

/* ---- the table ---- */

static const char *const statuses[] = { "processing", "ready", "failed", NULL };

static const struct route_param upload_params[] = {
    ROUTE_QUERY("wait", BOOLEAN,
                "`false` answers 202 as soon as the files are stored; "
                "follow them at /uploads/{file_id}.",
                .dflt = "true"),
    { .field = { .name = NULL } },
};
static const struct route_param file_params[] = {
    ROUTE_PATH("file_id", STRING, "The `file_id` of an upload.", SCHEMA_RANGE(1, 64)),
    { .field = { .name = NULL } },
};
static const struct route_param list_params[] = {
    ROUTE_QUERY("status", STRING, "Only these.", .choices = statuses),
    ROUTE_QUERY("limit", INTEGER, "Per page.", SCHEMA_RANGE(1, LIST_MAX)),
    ROUTE_QUERY("cursor", STRING, "`next` of a page.", SCHEMA_RANGE(1, 64)),
    { .field = { .name = NULL } },
};

static const struct route_response post_responses[] = {
    { 200, NULL, "At least one file is ready; `errors` has the others." },
    { 202, NULL, "With `wait=false`: stored, and being read." },
    { .status = 0 }
};
static const struct route_response event_responses[] = {
    { 200, "text/event-stream", "Events: status (an Upload) whenever it gets on, error, done." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_POST, "/upload", upload_files, .id = "uploadFiles", .tag = "uploads",
      .summary = "Upload data files",
      .doc = "Each file becomes a dataset whose id is its `file_id`. When no file can be used the "
             "answer is 400 with "
             "`{detail: {errors: [{filename, error}]}}`.",
      .params = upload_params, .consumes = "multipart/form-data", .form = &upload_form_schema,
      .responses = post_responses,
      .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNSUPPORTED_MEDIA) |
                ROUTE_ERR(UNAVAILABLE),
      .on_headers = receive_headers, .on_body = intake_body },
    { HTTP_GET, "/uploads", list_uploads, .id = "listUploads", .tag = "uploads",
      .summary = "Your uploads, newest first", .params = list_params },
    { HTTP_GET, "/uploads/{file_id}", get_upload, .id = "getUpload", .tag = "uploads",
      .summary = "An upload and how it gets on", .params = file_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/uploads/{file_id}/events", get_events, .id = "followUpload", .tag = "uploads",
      .summary = "The same as events, until it is ready or has failed", .params = file_params,
      .responses = event_responses, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_DELETE, "/uploads/{file_id}", delete_upload, .id = "deleteUpload", .tag = "uploads",
      .summary = "Delete an upload", .doc = "Runs that are under way on it still finish.",
      .params = file_params, .errors = ROUTE_ERR(NOT_FOUND) },
};

const struct route_table upload_routes = { routes, ARRAY_SIZE(routes) };
