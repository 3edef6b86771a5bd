/*
 * /data: every data set that its owner can use, whatever it is from: the server's own, uploads,
 * files that were given to one thread. Its tables with what is known of their columns, their rows
 * page by page, and all of them as a file.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "api/rows.h"
#include "data/file_sets.h"
#include "data/told.h"
#include "base/fdio.h"
#include "base/str.h"
#include "sandbox/table_names.h"


/* ---- GET /data ---- */

static json_t *bundled_item(const struct dataset *d)
{
    json_t *tables = dataset_tables_json(d);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "id", d->id, "name", d->name,
                     "description", d->description, "kind", "bundled", "status", "ready",
                     "size_bytes", (json_int_t)d->size_bytes, "tables", tables);
}

/* Of a thread only those that are in it. */
static bool is_shown(const struct file_set *set, const char *owner)
{
    return file_set_visible(set, owner) && (!set->thread_id || set->thread);
}

static void get_data(struct http_request *req)
{
    struct app *app = app_of(req);
    const char *owner = http_owner(req);
    json_t *list = json_array();
    for (struct file_set *set = app->data->files->newest; set; set = set->next)
        if (is_shown(set, owner))
            json_array_append_new(list, file_set_item(set));
    for (size_t i = 0; i < registry_count(app->data->registry); i++)
        json_array_append_new(list, bundled_item(registry_get(app->data->registry, i)));
    http_reply_json(req, 200, json_pack("{s:o}", "data", list));
}

/* ---- one of them ---- */

static void not_found(struct http_request *req)
{
    http_reply_fail(req, ERR_NOT_FOUND, "there is no such data set; GET /data lists yours");
}

struct waiting {
    struct http_request *req; /* NULL: the client left */
    struct app *app;
    struct dataset_handle handle;
    const char *word; /* what was done */
    char id[64];
    /* of a table */
    char name[PART_TABLE_SIZE];
    struct dataset_table found;
};

static struct waiting *wait_begin(struct http_request *req)
{
    struct waiting *w = calloc(1, sizeof(*w));
    if (!w) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    w->req = req;
    w->app = app_of(req);
    snprintf(w->id, sizeof(w->id), "%.60s", http_param(req, "data_id"));
    return w;
}

static void wait_free(struct waiting *w)
{
    dataset_handle_release(&w->handle);
    free(w);
}

static void wait_fail(struct waiting *w, const struct err *err)
{
    struct http_request *req = w->req;
    struct err why = *err;
    wait_free(w);
    if (req)
        http_reply_error(req, &why);
}

static json_t *item_of(struct data_room *room, const char *owner, const char *id)
{
    struct file_set *set = file_set_find(room->files, owner, id);
    const struct dataset *d = registry_find(room->registry, id);
    json_t *item = d ? bundled_item(d) : set && is_shown(set, owner) ? file_set_item(set) : NULL;
    file_set_unref(set);
    return item;
}

static void reply_item(struct http_request *req, const char *id)
{
    json_t *item = item_of(app_of(req)->data, http_owner(req), id);
    if (item)
        http_reply_json(req, 200, item);
    else
        not_found(req);
}

static void get_one(struct http_request *req)
{
    reply_item(req, http_param(req, "data_id"));
}

/* ---- changing and deleting ---- */

static void changed(const struct err *err, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    if (err) {
        wait_fail(w, err);
        return;
    }
    char id[64];
    const char *word = w->word;
    snprintf(id, sizeof(id), "%s", w->id);
    wait_free(w);
    if (req && word)
        http_reply_json(req, 200, json_pack("{s:s, s:s}", "id", id, "status", word));
    else if (req)
        reply_item(req, id);
}

/* An upload or a file of a thread, to be changed; NULL: it was answered why not. */
static struct file_set *find_own(struct http_request *req)
{
    struct data_room *room = app_of(req)->data;
    const char *owner = http_owner(req), *id = http_param(req, "data_id");
    struct file_set *set = file_set_find(room->files, owner, id);
    if (set && is_shown(set, owner))
        return set;
    file_set_unref(set);
    if (registry_find(room->registry, id))
        http_reply_fail(req, ERR_FORBIDDEN,
                        "this data set is the server's own and cannot be changed");
    else
        not_found(req);
    return NULL;
}

/* Takes what the call that changes it returned, and the reference. */
static void wait_for_change(struct http_request *req, struct waiting *w, struct file_set *set,
                            int r, const struct err *err)
{
    file_set_unref(set); /* the last one removes the file */
    if (r < 0)
        wait_fail(w, err);
    else
        http_hold(req, &w->req);
}

static void delete_one(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct file_set *set = find_own(req);
    struct waiting *w = set ? wait_begin(req) : NULL;
    if (!w) {
        file_set_unref(set);
        return;
    }
    w->word = "deleted";
    int r = file_set_delete(set, changed, w, &err);
    wait_for_change(req, w, set, r, &err);
}

/* `name` or `options`: one at a time, so that what fails has changed nothing. */
static int change_set(struct file_set *set, const json_t *body, struct waiting *w, struct err *err)
{
    const char *name = json_string_value(json_object_get(body, "name"));
    const json_t *options = json_object_get(body, "options");
    if (!name == !options)
        return err_set(err, ERR_VALIDATION, "give either `name` or `options`");
    return name ? file_set_rename(set, name, changed, w, err) :
                  file_set_reread(set, options, changed, w, err);
}

static void patch_one(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct file_set *set = find_own(req);
    struct waiting *w = set ? wait_begin(req) : NULL;
    if (!w) {
        file_set_unref(set);
        return;
    }
    int r = !set->thread_id ?
                change_set(set, http_body_json(req), w, &err) :
                err_set(&err, ERR_CONFLICT,
                        "a file of a thread has the name that code finds it by, and the table "
                        "that code has seen; upload it again");
    wait_for_change(req, w, set, r, &err);
}

/* ---- one table ---- */

/* What a column is for, as far as its type and its values tell. */
static const char *role_of(const json_t *column, int64_t rows)
{
    const char *type = dataset_type_of(json_string_value(json_object_get(column, "type")));
    const char *name = json_string_value(json_object_get(column, "name"));
    json_int_t distinct = json_integer_value(json_object_get(column, "distinct"));
    size_t n = strlen(name);
    bool named_id = str_ieq(name, "id") ||
                    (n > 2 && (str_ieq(name + n - 3, "_id") || str_eq(name + n - 2, "Id")));
    if (str_eq(type, "date") || str_eq(type, "datetime") || str_eq(type, "time"))
        return "time";
    if (str_eq(type, "boolean") || (distinct == 2 && str_eq(type, "string")))
        return "flag";
    if (named_id)
        return "id";
    if (str_eq(type, "integer") || str_eq(type, "float"))
        return "measure";
    return str_eq(type, "string") && distinct > 0 && distinct <= MAX_OF(50, rows / 20) ?
               "category" :
               "text";
}

/* New reference. */
static json_t *describe_table(const struct waiting *w)
{
    const struct dataset_file *f = &w->found.file;
    auto_json json_t *schema = told_schema(w->app->data, http_owner(w->req), w->handle.dataset);
    json_t *shown = NULL, *columns = json_array(), *column, *file;
    size_t i;
    json_array_foreach(json_object_get(schema, "files"), i, file)
        if (str_eq(json_string_value(json_object_get(file, "table")), f->table))
            shown = file;
    json_t *told = json_object_get(shown, "schema");
    json_array_foreach(json_object_get(f->profile, "columns"), i, column) {
        const char *name = json_string_value(json_object_get(column, "name"));
        json_t *c = json_object_get(told, name) ? json_copy(json_object_get(told, name)) :
                                                  json_object();
        json_object_set_new(c, "name", json_string(name));
        if (!json_object_get(c, "role"))
            json_object_set_new(c, "role", json_string(role_of(column, f->row_count)));
        if (json_object_get(column, "histogram"))
            json_object_set(c, "histogram", json_object_get(column, "histogram"));
        json_array_append_new(columns, c);
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:o, s:O?, s:o}", "id", w->handle.dataset->id,
                         "name", f->table, "file", f->name, "rows", (json_int_t)f->row_count,
                         "columns", columns, "sample_rows", json_object_get(shown, "sample_rows"),
                         "report",
                         json_incref(json_object_get(f->profile, "report")) ?: json_null());
}

static void table_profiled(const struct err *err, void *arg)
{
    struct waiting *w = arg;
    struct err why = ERR_INIT;
    if (!w->req) {
        wait_free(w);
        return;
    }
    if (err) {
        wait_fail(w, err);
        return;
    }
    if (!dataset_handle_has_tables(&w->handle) ||
        !dataset_find_table(w->handle.dataset, w->name, &w->found)) {
        err_set(&why, ERR_NOT_FOUND, "the data set has no such table");
        wait_fail(w, &why);
        return;
    }
    struct http_request *req = w->req;
    json_t *table = describe_table(w);
    wait_free(w);
    http_reply_json(req, 200, table);
}

/* The data set that the path names; false: it was answered that there is none. */
static bool find_set(struct http_request *req, struct dataset_handle *ret)
{
    struct err err = ERR_INIT;
    if (data_find(app_of(req)->data, http_owner(req), http_param(req, "data_id"), ret, &err) == 0)
        return true;
    not_found(req);
    return false;
}

static void get_table(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct dataset_handle h;
    if (!find_set(req, &h))
        return;
    struct waiting *w = wait_begin(req);
    if (!w) {
        dataset_handle_release(&h);
        return;
    }
    w->handle = h;
    snprintf(w->name, sizeof(w->name), "%s", http_param(req, "table"));
    if (data_profile(w->app->data, &w->handle, http_owner(req), table_profiled, w, &err) < 0)
        wait_fail(w, &err);
    else
        http_hold(req, &w->req);
}

/* ---- rows ---- */

struct table_rows {
    struct dataset_handle handle;
    struct dataset_table found;
    struct sandbox_file file;
    struct buf sql;
    char name[PART_TABLE_SIZE + 16]; /* of the file to be saved */
};

static void table_rows_free(void *arg)
{
    struct table_rows *t = arg;
    dataset_handle_release(&t->handle);
    buf_finish(&t->sql);
    free(t);
}

static void send_table(struct http_request *req, bool refused,
                       void (*send)(struct http_request *, const struct selection *))
{
    struct err err = ERR_INIT;
    struct dataset_handle h;
    if (!find_set(req, &h))
        return;
    struct table_rows *t = calloc(1, sizeof(*t));
    int r = t ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (t) {
        t->handle = h;
        buf_init(&t->sql, 4096);
        if (!dataset_handle_has_tables(&h) ||
            !dataset_find_table(h.dataset, http_param(req, "table"), &t->found))
            r = err_set(&err, ERR_NOT_FOUND, "the data set has no such table");
        else
            t->file = dataset_handle_file(&h, t->found.at);
        if (r == 0)
            r = buf_append_str(&t->sql, "SELECT * FROM ", &err);
        if (r == 0)
            r = buf_append_quoted(&t->sql, "\"", t->found.file.table, &err);
    } else {
        dataset_handle_release(&h);
    }
    if (r < 0) {
        if (t)
            table_rows_free(t);
        http_reply_error(req, &err);
        return;
    }
    snprintf(t->name, sizeof(t->name), "%.*s%s", PART_TABLE_SIZE, t->found.file.table,
             refused ? "-refused" : "");
    struct selection s = { .owner = http_owner(req),
                           .database = dataset_handle_database(&h),
                           .files = &t->file,
                           .n_files = 1,
                           .sql = buf_cstr(&t->sql),
                           .name = t->name,
                           .refused = refused,
                           .total = t->found.file.profile ? t->found.file.row_count : -1,
                           .release = table_rows_free,
                           .held = t };
    send(req, &s);
}

static void get_rows(struct http_request *req)
{
    send_table(req, false, rows_send);
}

static void get_export(struct http_request *req)
{
    send_table(req, false, rows_export);
}

static void get_refused(struct http_request *req)
{
    send_table(req, true, rows_export);
}

/* ---- the table of routes ---- */

#define DATA_PARAM ROUTE_PATH("data_id", STRING, "An `id` of GET /data.", SCHEMA_RANGE(1, 200))
#define TABLE_PARAM ROUTE_PATH("table", STRING, "The name of a table of it.", SCHEMA_RANGE(1, 200))

static const struct route_param one_params[] = { DATA_PARAM, { .field = { .name = NULL } } };
static const struct route_param table_params[] = { DATA_PARAM,
                                                   TABLE_PARAM,
                                                   { .field = { .name = NULL } } };
static const struct route_param page_params[] = {
    DATA_PARAM, TABLE_PARAM, ROWS_PAGE_PARAMS, { .field = { .name = NULL } }
};
static const struct route_param export_params[] = {
    DATA_PARAM, TABLE_PARAM, ROWS_EXPORT_PARAMS, { .field = { .name = NULL } }
};

static const struct schema_field patch_fields[] = {
    SCHEMA_FIELD("name", STRING,
                 "Another name for the file; its ending stays. The table is called after it.",
                 SCHEMA_RANGE(1, 200)),
    SCHEMA_FIELD(
        "options", OBJECT,
        "How to read the file, put over what was said before: it is read again, and the new "
        "table takes the place of the old one. If that fails the old one stays.",
        .object = &read_options_schema),
    { .name = NULL },
};
static const struct schema patch_schema = { .name = "DataChange", .fields = patch_fields };

static const struct route_response refused_responses[] = {
    { 200, "application/octet-stream",
      "A file with the columns `line`, `reason` and `text`, streamed as those of exportTable; its "
      "header alone if the table was read without refusing a row. At most 1,000,000 rows and "
      "256 MiB of them are kept, and 16 KiB of each text; `refused_kept` of the report is there if "
      "some are not." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/data", get_data, .id = "listData", .tag = "data",
      .summary = "Your data: uploads, files of threads, and the server's own sets" },
    { HTTP_GET, "/data/{data_id}", get_one, .id = "getData", .tag = "data",
      .summary = "One data set", .params = one_params, .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_PATCH, "/data/{data_id}", patch_one, .id = "changeData", .tag = "data",
      .summary = "Rename a data set, or read its file again in another way", .params = one_params,
      .body = &patch_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(FORBIDDEN) | ROUTE_ERR(VALIDATION) |
                ROUTE_ERR(CONFLICT) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_DELETE, "/data/{data_id}", delete_one, .id = "deleteData", .tag = "data",
      .summary = "Delete a data set", .params = one_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(FORBIDDEN) },
    { HTTP_GET, "/data/{data_id}/tables/{table}", get_table, .id = "getTable", .tag = "data",
      .summary = "A table: its columns, what is in them, and how it was read",
      .params = table_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_GET, "/data/{data_id}/tables/{table}/rows", get_rows, .id = "getTableRows",
      .tag = "data", .summary = "Rows of a table, a page at a time", .params = page_params,
      .responses = rows_page_responses, .errors = ROWS_ERRORS },
    { HTTP_GET, "/data/{data_id}/tables/{table}/export", get_export, .id = "exportTable",
      .tag = "data", .summary = "All rows of a table as a file", .params = export_params,
      .responses = rows_export_responses, .errors = ROWS_ERRORS },
    { HTTP_GET, "/data/{data_id}/tables/{table}/refused", get_refused, .id = "exportRefusedRows",
      .tag = "data", .summary = "All rows of the file that were refused when the table was read",
      .params = export_params, .responses = refused_responses, .errors = ROWS_ERRORS },
};

const struct route_table data_routes = { routes, ARRAY_SIZE(routes) };
