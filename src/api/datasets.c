/*
 * /datasets: what can be asked about. Schemas come with a profile of the data, made once per
 * content, in a jail.
 */

#include <string.h>
#include "api/app.h"
#include "data/database_sets.h"
#include "data/file_sets.h"
#include "data/told.h"

/* Says of the entries from this one on where their data is from. */
static size_t set_kind(json_t *list, size_t from, const char *kind)
{
    size_t i = from;
    for (; i < json_array_size(list); i++)
        json_object_set_new(json_array_get(list, i), "kind", json_string(kind));
    return i;
}

static json_t *all_summaries(struct data_room *room, const char *owner)
{
    json_t *list = json_array();
    for (size_t i = 0; i < registry_count(room->registry); i++)
        json_array_append_new(list, told_summary(room, owner, registry_get(room->registry, i)));
    size_t n = set_kind(list, 0, "bundled");
    database_sets_append(room, list, told_summary, owner);
    n = set_kind(list, n, "database");
    for (struct file_set *set = room->files->newest; set; set = set->next)
        if (!set->thread_id && set->status == FILE_READY && !set->raw &&
            file_set_visible(set, owner))
            json_array_append_new(list, told_summary(room, owner, &set->dataset));
    set_kind(list, n, "upload");
    return json_pack("{s:o}", "datasets", list);
}

struct listing {
    struct http_request *req; /* NULL: the client left */
};

static void listing_done(void *arg)
{
    struct http_request *req = ((struct listing *)arg)->req;
    free(arg);
    if (req)
        http_reply_json(req, 200, all_summaries(app_of(req)->data, http_owner(req)));
}

static void get_datasets(struct http_request *req)
{
    struct data_room *room = app_of(req)->data;
    struct listing *l = calloc(1, sizeof(*l));
    if (l && data_reload(room, listing_done, l)) {
        l->req = req;
        http_hold(req, &l->req);
        return;
    }
    free(l);
    http_reply_json(req, 200, all_summaries(room, http_owner(req)));
}

/* ---- one schema ---- */

struct schema_wait {
    struct http_request *req; /* NULL: the client left */
    struct dataset_handle handle;
};

static void schema_profiled(const struct err *err, void *arg)
{
    struct schema_wait *w = arg;
    if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req)
        http_reply_json(w->req, 200,
                        told_schema(app_of(w->req)->data, http_owner(w->req), w->handle.dataset));
    dataset_handle_release(&w->handle);
    free(w);
}

static void get_schema(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct schema_wait *w = calloc(1, sizeof(*w));
    if (!w || data_find(app->data, http_owner(req), http_param(req, "dataset_id"), &w->handle,
                        &err) < 0) {
        free(w);
        if (err.code == ERR_UNAVAILABLE)
            http_reply_error(req, &err);
        else
            http_reply_fail(req, ERR_NOT_FOUND, "Dataset not found");
        return;
    }
    w->req = req;
    if (data_profile(app->data, &w->handle, http_owner(req), schema_profiled, w, &err) < 0) {
        dataset_handle_release(&w->handle);
        free(w);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &w->req);
}

static const struct route_param params[] = {
    ROUTE_PATH("dataset_id", STRING, "A dataset, or the `file_id` of an upload.",
               SCHEMA_RANGE(1, 200)),
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_GET, "/datasets", get_datasets, .id = "listDatasets", .tag = "datasets",
      .summary = "What can be asked about" },
    { HTTP_GET, "/datasets/{dataset_id}/schema", get_schema, .id = "getDatasetSchema",
      .tag = "datasets", .summary = "Tables, columns and what is in them", .params = params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table dataset_routes = { routes, ARRAY_SIZE(routes) };
