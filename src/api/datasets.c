/* /datasets: what can be asked about. Schemas come with a profile of the data, made once per content, in a jail. */

#include <stdio.h>
#include <string.h>
#include "api/app.h"
#include "api/database_sets.h"
#include "api/files.h"
#include "api/told.h"
#include "api/uploads.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/table_names.h"

#define RELOAD_AFTER_MS 2000
#define RELOAD_EVERY_MS 5000
#define PROFILE_TIMEOUT_MS (10 * 60 * 1000)

/* ---- finding ---- */

static void attach_known_profile(struct app *app, const struct dataset_handle *h);

int app_find_dataset(struct app *app, const char *owner, const char *id, struct dataset_handle *ret, struct err *err)
{
    const struct dataset *d = app->registry ? registry_find(app->registry, id) : NULL;
    *ret = (struct dataset_handle){ 0 };
    if (d) {
        ret->dataset = d;
        ret->registry = registry_ref(app->registry);
        return 0;
    }
    ret->upload = uploads_find(app, owner, id);
    if (!ret->upload)
        ret->file = session_file_find(app, owner, id);
    if (!ret->upload && !ret->file) {
        int r = database_set_find(app, id, &ret->database, err);
        ret->dataset = r == 0 ? database_set_dataset(ret->database) : NULL;
        return r;
    }
    ret->dataset = ret->upload ? upload_set_dataset(ret->upload) : session_file_dataset(ret->file);
    attach_known_profile(app, ret);
    return 0;
}

void dataset_handle_release(struct dataset_handle *h)
{
    registry_unref(h->registry);
    upload_set_unref(h->upload);
    session_file_unref(h->file);
    database_set_unref(h->database);
    *h = (struct dataset_handle){ 0 };
}

bool dataset_handle_has_tables(const struct dataset_handle *h)
{
    return h->upload ? !upload_set_is_raw(h->upload) : !h->file || session_file_has_table(h->file);
}

size_t dataset_handle_n_files(const struct dataset_handle *h)
{
    return h->database ? 0 : h->dataset->n_files;
}

const char *dataset_handle_database(const struct dataset_handle *h)
{
    return h->database ? h->dataset->id : NULL;
}

struct sandbox_file dataset_handle_file(const struct dataset_handle *h, size_t i)
{
    const struct dataset_file *f = &h->dataset->files[i];
    bool raw = !dataset_handle_has_tables(h);
    return (struct sandbox_file){ .name = f->name,
                                  .path = f->full_path,
                                  .table = raw ? NULL : f->table,
                                  .raw = raw,
                                  .sha256 = *f->sha256 ? f->sha256 : NULL,
                                  .options = f->options,
                                  .is_beside = !h->registry };
}

/* ---- profiling ---- */

struct profiling {
    struct app *app;
    struct dataset_handle handle;
    char owner[64];
    size_t at;
    size_t part;     /* of that file's tables */
    json_t *profile; /* of the first of them, while the others are profiled */
    struct lease *lease;
    profile_done_fn done;
    void *arg;
    bool again; /* the one that is profiled was begun a second time */
};

static void profile_next(void *arg);

static void profile_path(const struct profiling *p, char ret[TABLE_PATH_SIZE])
{
    struct sandbox_file file = dataset_handle_file(&p->handle, p->at);
    table_profile_path(p->app->home, &file, p->handle.dataset->files[p->at].sha256, ret);
}

static int attach(struct profiling *p, json_t *profile, struct err *err)
{
    const struct dataset_file *f = &p->handle.dataset->files[p->at];
    if (p->handle.registry)
        return registry_set_profile(p->handle.registry, f->sha256, profile, err);
    if (p->handle.file)
        return session_file_set_profile(p->handle.file, profile, err);
    return upload_set_profile(p->handle.upload, profile, err);
}

static void profile_end(struct profiling *p, const struct err *err)
{
    lease_release(p->lease);
    json_decref(p->profile);
    if (p->done)
        p->done(err, p->arg);
    dataset_handle_release(&p->handle);
    free(p);
}

/* All tables of the file are profiled. */
static int file_profiled(struct profiling *p, struct err *err)
{
    auto_json json_t *profile = TAKE_PTR(p->profile);
    int r = attach(p, profile, err);
    auto_free char *text = r == 0 ? json_to_str(profile) : NULL;
    if (text) {
        char path[TABLE_PATH_SIZE];
        struct err ignored = ERR_INIT;
        profile_path(p, path);
        (void)fd_replace_file(path, text, strlen(text), 0600, &ignored); /* only a cache */
    }
    lease_release(TAKE_PTR(p->lease));
    p->at++;
    p->part = 0;
    p->again = false;
    return r;
}

/* Of the first table, or added to that as `tables`. */
static void keep_profile(struct profiling *p, const struct lease_table *t, json_t *profile)
{
    if (t->report)
        json_object_set_new(profile, "report", json_deep_copy(t->report));
    if (!p->profile) {
        p->profile = json_incref(profile);
        return;
    }
    json_object_set_new(profile, "name", json_string(t->suffix));
    if (!json_object_get(p->profile, "tables"))
        json_object_set_new(p->profile, "tables", json_array());
    json_array_append(json_object_get(p->profile, "tables"), profile);
}

static void profile_table(struct profiling *p);

static void profiled(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    struct profiling *p = arg;
    struct err why = ERR_INIT;
    size_t n;
    const struct lease_table *tables = lease_tables(lease, &n);
    int r = 0;
    if (err) {
        why = *err;
        r = -(int)err->code;
    } else if (result->verdict == VERDICT_KILLED && !p->again) {
        p->again = true; /* by somebody else: a profile changes nothing */
        run_result_finish(result);
        lease_release(TAKE_PTR(p->lease));
        json_decref(TAKE_PTR(p->profile));
        p->part = 0;
        profile_next(p);
        return;
    } else if (result->verdict != VERDICT_OK) {
        r = err_set(&why, result->verdict == VERDICT_KILLED ? ERR_UNAVAILABLE : ERR_INTERNAL,
                    "profiling '%s' ended in %s", p->handle.dataset->files[p->at].name,
                    verdict_name(result->verdict));
    } else {
        keep_profile(p, &tables[p->part++], json_object_get(result->body, "profile"));
    }
    if (result)
        run_result_finish(result);
    if (r == 0 && p->part < n) {
        profile_table(p);
        return;
    }
    if (r == 0)
        r = file_profiled(p, &why);
    if (r < 0)
        profile_end(p, &why);
    else
        profile_next(p);
}

static void profile_table(struct profiling *p)
{
    struct err why = ERR_INIT;
    size_t n;
    const struct lease_table *tables = lease_tables(p->lease, &n);
    if (lease_profile(p->lease, tables[p->part].name, PROFILE_TIMEOUT_MS, profiled, p, &why) < 0)
        profile_end(p, &why);
}

static void profile_ready(struct lease *lease, const struct err *err, void *arg)
{
    (void)lease;
    struct profiling *p = arg;
    if (err) {
        p->lease = NULL;
        profile_end(p, err);
        return;
    }
    profile_table(p);
}

static bool profile_from_cache(struct profiling *p)
{
    char path[TABLE_PATH_SIZE];
    auto_buf struct buf text = BUF_INIT(CATALOG_OUTPUT_MAX_BYTES);
    auto_json json_t *profile = NULL;
    profile_path(p, path);
    return fd_read_file(path, &text, NULL) == 0 && json_parse(text.data, text.len, &profile, NULL) == 0 &&
           attach(p, profile, NULL) == 0;
}

/* An upload of before a restart: what was found out about it then is read with its first use. */
static void attach_known_profile(struct app *app, const struct dataset_handle *h)
{
    struct profiling p = { .app = app, .handle = *h };
    if (!dataset_handle_has_tables(h))
        return;
    for (; p.at < h->dataset->n_files; p.at++)
        if (!h->dataset->files[p.at].profile)
            (void)profile_from_cache(&p);
}

static void profile_next(void *arg)
{
    struct profiling *p = arg;
    const struct dataset *d = p->handle.dataset;
    if (!dataset_handle_has_tables(&p->handle))
        p->at = d->n_files;
    while (p->at < d->n_files && (d->files[p->at].profile || profile_from_cache(p)))
        p->at++;
    if (p->at == d->n_files) {
        profile_end(p, NULL);
        return;
    }
    struct sandbox_file file = dataset_handle_file(&p->handle, p->at);
    struct sandbox_spec spec = { .kind = RUN_SQL, .files = &file, .n_files = 1 };
    struct err err = ERR_INIT;
    sandbox_limits_default(p->app->cfg, &spec.limits);
    spec.limits.memory_bytes = MAX_OF(spec.limits.memory_bytes, p->app->cfg->ingest_memory_bytes);
    if (executor_acquire(p->app->executor, p->owner, &spec, NULL, profile_ready, p, &p->lease, &err) < 0)
        profile_end(p, &err);
}

int app_profile_dataset(struct app *app, const struct dataset_handle *h, const char *owner, profile_done_fn done, void *arg,
                        struct err *err)
{
    if (h->database)
        return database_set_profile(app, h->database, owner, done, arg, err);
    struct profiling *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    p->app = app;
    p->handle.dataset = h->dataset;
    p->handle.registry = h->registry ? registry_ref(h->registry) : NULL;
    p->handle.upload = upload_set_ref(h->upload);
    p->handle.file = h->file ? session_file_ref(h->file) : NULL;
    snprintf(p->owner, sizeof(p->owner), "%s", owner);
    p->done = done;
    p->arg = arg;
    int r = loop_defer(app->loop, profile_next, p, err);
    if (r < 0) {
        dataset_handle_release(&p->handle);
        free(p);
    }
    return r;
}

/* ---- the registry, read again when somebody looks ---- */

struct reload {
    struct app *app;
    struct registry *previous, *fresh;
    struct err err;
    struct http_request *req; /* NULL: the client left */
};

static void reload_work(void *arg)
{
    struct reload *rl = arg;
    (void)registry_load(rl->app->cfg->datasets_dir, rl->previous, &rl->fresh, &rl->err);
}

static json_t *all_summaries(struct app *app, const char *owner)
{
    json_t *list = json_array();
    for (size_t i = 0; app->registry && i < registry_count(app->registry); i++)
        json_array_append_new(list, told_summary(app, owner, registry_get(app->registry, i)));
    database_sets_append(app, list, told_summary, owner);
    uploads_append_summaries(app, owner, list);
    return json_pack("{s:o}", "datasets", list);
}

void app_set_registry(struct app *app, struct registry *fresh)
{
    if (app->registry)
        registry_adopt_profiles(fresh, app->registry);
    registry_unref(app->registry);
    app->registry = fresh;
}

static void reload_done(void *arg)
{
    struct reload *rl = arg;
    struct app *app = rl->app;
    if (rl->fresh)
        app_set_registry(app, rl->fresh);
    else
        log_warn("datasets.reload", LOG_STR("error", rl->err.message)); /* what was there stays */
    if (rl->req)
        http_reply_json(rl->req, 200, all_summaries(app, http_owner(rl->req)));
    registry_unref(rl->previous);
    free(rl);
}

static void reload_left(void *arg)
{
    ((struct reload *)arg)->req = NULL;
}

/* Every few seconds: a folder that was dropped in is known soon, whether or not anybody asks for the list. */
static void look_again(void *arg)
{
    struct app *app = arg;
    struct err err = ERR_INIT;
    app->reload_timer = NULL;
    if (app->stopping)
        return;
    app_watch_datasets(app);
    if (clock_now_ms() - app->registry_loaded_ms <= RELOAD_AFTER_MS)
        return;
    struct reload *rl = calloc(1, sizeof(*rl));
    if (!rl)
        return;
    rl->app = app;
    rl->previous = app->registry ? registry_ref(app->registry) : NULL;
    app->registry_loaded_ms = clock_now_ms();
    if (loop_work(app->loop, reload_work, reload_done, rl, &err) < 0) {
        registry_unref(rl->previous);
        free(rl);
    }
}

void app_watch_datasets(struct app *app)
{
    struct err err = ERR_INIT;
    if (loop_after(app->loop, RELOAD_EVERY_MS, look_again, app, &app->reload_timer, &err) < 0)
        log_warn("datasets.watch", LOG_STR("error", err.message));
}

static void get_datasets(struct http_request *req)
{
    struct app *app = app_of(req);
    int64_t now = clock_now_ms();
    struct reload *rl = now - app->registry_loaded_ms > RELOAD_AFTER_MS ? calloc(1, sizeof(*rl)) : NULL;
    struct err err = ERR_INIT;
    if (rl) {
        rl->app = app;
        rl->req = req;
        rl->previous = app->registry ? registry_ref(app->registry) : NULL;
        app->registry_loaded_ms = now;
        if (loop_work(app->loop, reload_work, reload_done, rl, &err) == 0) {
            http_defer(req, reload_left, rl);
            return;
        }
        registry_unref(rl->previous);
        free(rl);
    }
    http_reply_json(req, 200, all_summaries(app, http_owner(req)));
}

/* ---- one schema ---- */

struct schema_wait {
    struct http_request *req; /* NULL: the client left */
    struct dataset_handle handle;
};

static void schema_left(void *arg)
{
    ((struct schema_wait *)arg)->req = NULL;
}

static void schema_profiled(const struct err *err, void *arg)
{
    struct schema_wait *w = arg;
    if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req)
        http_reply_json(w->req, 200,
                        told_schema(app_of(w->req), http_owner(w->req), w->handle.dataset));
    dataset_handle_release(&w->handle);
    free(w);
}

static void get_schema(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct schema_wait *w = calloc(1, sizeof(*w));
    if (!w || app_find_dataset(app, http_owner(req), http_param(req, "dataset_id"), &w->handle, &err) < 0) {
        free(w);
        if (err.code == ERR_UNAVAILABLE)
            http_reply_error(req, &err);
        else
            http_reply_fail(req, ERR_NOT_FOUND, "Dataset not found");
        return;
    }
    w->req = req;
    if (app_profile_dataset(app, &w->handle, http_owner(req), schema_profiled, w, &err) < 0) {
        dataset_handle_release(&w->handle);
        free(w);
        http_reply_error(req, &err);
        return;
    }
    http_defer(req, schema_left, w);
}

static const struct route_param params[] = {
    { .field = { .name = "dataset_id", .types = SCHEMA_STRING, SCHEMA_RANGE(1, 200), .doc = "A dataset, or the `file_id` of an upload." } },
    { .field = { .name = NULL } },
};
static const struct route_response list_responses[] = {
    { 200, NULL, NULL, false, "{datasets: [{id, name, description, prompts, version_hash}]}: the server's, then your uploads." },
    { .status = 0 } };
static const struct route_response schema_responses[] = {
    { 200, NULL, NULL, false,
      "Files, columns with types, ranges and frequent values, relationships, sample rows; what was "
      "written about them, `notes` and `metrics`, and your own `words`." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/datasets", get_datasets, .id = "listDatasets", .tag = "datasets", .summary = "What can be asked about",
      .responses = list_responses },
    { HTTP_GET, "/datasets/{dataset_id}/schema", get_schema, .id = "getDatasetSchema", .tag = "datasets",
      .summary = "Tables, columns and what is in them", .params = params, .responses = schema_responses,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table dataset_routes = { routes, ARRAY_SIZE(routes) };
