/*
 * /thread/{id}/data: the data sets of a thread, added and removed while it runs. The thread's
 * record is read, the thread takes the new list (which finds the files at once), and the record is
 * stored; only then is the client answered.
 */

#include <stdio.h>
#include <string.h>
#include "api/app.h"
#include "base/limits.h"
#include "base/str.h"

struct change {
    struct http_request *req; /* NULL: the client left */
    struct app *app;
    char owner[64], id[THREAD_ID_MAX + 1];
    json_t *add;  /* ids; NULL: none */
    char *remove; /* an id; NULL: none */
    char *title, *state, *updated_at;
    int64_t pinned;
    json_t *datasets, *uploads; /* of the thread; NULL: it was made without a word about them */
    struct chat *chat;
};

static void change_free(struct change *c)
{
    chat_unref(c->chat);
    json_decref(c->add);
    json_decref(c->datasets);
    json_decref(c->uploads);
    free(c->remove);
    free(c->title);
    free(c->state);
    free(c->updated_at);
    free(c);
}

static void change_fail(struct change *c, const struct err *err)
{
    struct http_request *req = c->req;
    struct err why = *err;
    change_free(c);
    if (req)
        http_reply_error(req, &why);
}

/* ---- the list ---- */

static bool take_out(json_t *ids, const char *id)
{
    size_t i;
    json_t *item;
    json_array_foreach(ids, i, item) {
        if (str_eq(json_string_value(item), id))
            return json_array_remove(ids, i) == 0;
    }
    return false;
}

/* What the thread has without a word about it is named before anything joins or leaves it. */
static void name_default(struct change *c)
{
    const struct data_view *d = chat_data(c->chat);
    if (c->datasets || json_array_size(c->uploads) > 0)
        return;
    c->datasets = json_array();
    if (d && c->app->data->registry && registry_find(c->app->data->registry, d->dataset_id))
        json_array_append_new(c->datasets, json_string(d->dataset_id));
}

static int edit_list(struct change *c, struct err *err)
{
    size_t i;
    json_t *id;
    name_default(c);
    if (!c->datasets)
        c->datasets = json_array();
    if (!c->uploads)
        c->uploads = json_array();
    if (c->remove && !take_out(c->datasets, c->remove) && !take_out(c->uploads, c->remove))
        return err_set(err, ERR_NOT_FOUND, "the thread has no data set '%.64s'", c->remove);
    json_array_foreach(c->add, i, id) {
        const char *text = json_string_value(id);
        bool own = !c->app->data->registry || !registry_find(c->app->data->registry, text);
        json_t *list = own ? c->uploads : c->datasets;
        (void)take_out(list, text);
        json_array_append(list, id);
    }
    return 0;
}

/* ---- the steps ---- */

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct change *c = arg;
    if (err) {
        change_fail(c, err);
        return;
    }
    struct http_request *req = c->req;
    const struct data_view *d = chat_data(c->chat);
    json_t *files = json_array();
    for (size_t i = 0; d && i < d->n_files; i++) {
        char place[KERNEL_PLACE_SIZE];
        const char *note = NULL;
        bool known = chat_file_place(c->chat, d->files[i].path, place, &note);
        json_array_append_new(files, json_pack("{s:s, s:s?, s:s*, s:s*}", "name", d->files[i].name,
                                               "table", d->files[i].table, "path",
                                               known && *place ? place : NULL, "note", note));
    }
    json_t *answer = json_pack("{s:s, s:O, s:O, s:o}", "thread_id", c->id, "datasets", c->datasets,
                               "file_ids", c->uploads, "files", files);
    change_free(c);
    if (req)
        http_reply_json(req, 200, answer);
    else
        json_decref(answer);
}

static void on_added(void *arg)
{
    struct change *c = arg;
    struct err err = ERR_INIT;
    auto_free char *datasets = json_to_str(c->datasets), *uploads = json_to_str(c->uploads);
    struct thread record = { .thread_id = c->id,
                             .owner = c->owner,
                             .title = c->title,
                             .state = c->state,
                             .updated_at = c->updated_at,
                             .pinned = c->pinned,
                             .datasets_json = datasets,
                             .uploads_json = uploads };
    if (store_put_thread(c->app->store, &record, STORE_PUT, on_stored, c, &err) < 0)
        change_fail(c, &err);
}

static void opened(struct chat *chat, const struct err *err, void *arg)
{
    struct change *c = arg;
    struct err why = ERR_INIT;
    c->chat = chat;
    if (err) {
        change_fail(c, err);
        return;
    }
    int r = edit_list(c, &why);
    if (r == 0)
        r = chat_change_data(chat, c->datasets, c->uploads, on_added, c, &why);
    if (r < 0)
        change_fail(c, &why);
}

static void got_thread(const struct err *err, const struct store_page *page, void *arg)
{
    struct change *c = arg;
    struct err why = ERR_INIT;
    if (err) {
        why = *err;
        if (err->code == ERR_NOT_FOUND)
            err_set(&why, ERR_NOT_FOUND, "Thread not found");
        change_fail(c, &why);
        return;
    }
    const struct thread *t = &page->threads[0];
    c->title = t->title ? strdup(t->title) : NULL;
    c->state = t->state ? strdup(t->state) : NULL;
    c->updated_at = t->updated_at ? strdup(t->updated_at) : NULL;
    c->pinned = t->pinned;
    if (t->datasets_json)
        (void)json_parse(t->datasets_json, strlen(t->datasets_json), &c->datasets, NULL);
    if (t->uploads_json)
        (void)json_parse(t->uploads_json, strlen(t->uploads_json), &c->uploads, NULL);
    if (chat_open(c->app->agent, c->owner, c->id, opened, c, &why) < 0)
        change_fail(c, &why);
}

static void begin_change(struct http_request *req, json_t *add, const char *remove)
{
    struct err err = ERR_INIT;
    struct change *c = calloc(1, sizeof(*c));
    int r = c ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        c->req = req;
        c->app = app_of(req);
        c->add = json_incref(add);
        c->remove = remove ? strdup(remove) : NULL;
        snprintf(c->owner, sizeof(c->owner), "%s", http_owner(req));
        snprintf(c->id, sizeof(c->id), "%s", http_param(req, "thread_id"));
        r = store_get(c->app->store, RECORD_THREAD, c->owner, c->id, got_thread, c, &err);
    }
    if (r < 0) {
        if (c)
            change_free(c);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &c->req);
}

static void post_data(struct http_request *req)
{
    begin_change(req, json_object_get(http_body_json(req), "data"), NULL);
}

static void delete_data(struct http_request *req)
{
    begin_change(req, NULL, http_param(req, "data_id"));
}

/* ---- the table of routes ---- */

static const struct route_param remove_params[] = {
    THREAD_PARAM,
    ROUTE_PATH("data_id", STRING, "An `id` of GET /data.", SCHEMA_RANGE(1, 200)),
    { .field = { .name = NULL } }
};

static const struct schema_field one_id = { .types = SCHEMA_STRING, SCHEMA_RANGE(1, 200) };
static const struct schema_field add_fields[] = {
    SCHEMA_REQUIRED(
        "data", ARRAY,
        "Ids of GET /data: uploads, files of other threads of yours, the server's sets.",
        .items = &one_id, SCHEMA_RANGE(1, 16)),
    { .name = NULL },
};
static const struct schema add_schema = { .name = "ThreadData", .fields = add_fields };

static const struct route routes[] = {
    { HTTP_POST, "/thread/{thread_id}/data", post_data, .id = "addThreadData", .tag = "threads",
      .summary = "Give data sets to a thread", .params = thread_params, .body = &add_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_DELETE, "/thread/{thread_id}/data/{data_id}", delete_data, .id = "removeThreadData",
      .tag = "threads", .summary = "Take a data set from a thread", .params = remove_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table thread_data_routes = { routes, ARRAY_SIZE(routes) };
