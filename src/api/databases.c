/* /databases: what there is to ask, its schema, a query, and the log of queries. */

#include "api/databases.h"

#include <stdlib.h>
#include <string.h>
#include "api/app.h"
#include "api/sandboxes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "run/queries.h"

/* A request that waits for a database or for the store. */
struct waiting {
    struct http_request *req;
    struct query *query;   /* one of these */
    struct db_query *look; /* at a schema */
    char *database, *id_name, *id;
};

static void waiting_free(struct waiting *w)
{
    free(w->database);
    free(w->id_name);
    free(w->id);
    free(w);
}

static void left(void *arg)
{
    struct waiting *w = arg;
    query_cancel(w->query);
    db_query_cancel(w->look);
    waiting_free(w);
}

/* ---- a query ---- */

static json_t *query_answer(struct http_request *req, const struct db_result *r, struct err *err)
{
    const json_t *body = http_body_json(req);
    char now[CLOCK_ISO_SIZE];
    auto_json json_t *whole = NULL;
    json_t *results = NULL;
    if (db_result_json(r, &whole, err) < 0 || db_result_objects(r, &results, err) < 0)
        return NULL;
    clock_iso8601(clock_wall_ms(), now);
    int64_t count = r->affected_rows >= 0 && r->n_columns == 0 ? r->affected_rows : r->n_rows;
    if (r->affected_rows >= 0 && r->n_columns == 0)
        json_array_append_new(results,
                              json_pack("{s:I}", "affected_rows", (json_int_t)r->affected_rows));
    json_t *parameters = json_object_get(body, "parameters");
    return json_pack("{s:O, s:O?, s:o, s:I, s:O, s:O, s:b, s:O, s:s}", "query",
                     json_object_get(body, "query"), "parameters", parameters, "results", results,
                     "count", (json_int_t)count, "columns", json_object_get(whole, "columns"),
                     "types", json_object_get(whole, "types"), "truncated", r->truncated,
                     "affected_rows", json_object_get(whole, "affected_rows"), "timestamp", now);
}

static void on_rows(const struct db_result *result, const struct err *err, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    struct err why = ERR_INIT;
    waiting_free(w);
    json_t *answer = err ? NULL : query_answer(req, result, &why);
    if (answer)
        http_reply_json(req, 200, answer);
    else
        http_reply_error(req, err ? err : &why);
}

void database_serve_query(struct http_request *req, const char *database, const char *thread_id)
{
    struct app *app = app_of(req);
    const json_t *body = http_body_json(req);
    struct err err = ERR_INIT;
    struct database *db;
    const json_t *parameters = json_object_get(body, "parameters");
    struct db_request q = {
        .sql = json_string_value(json_object_get(body, "query")),
        .params = json_is_object(parameters) ? parameters : NULL,
        .timeout_ms = json_integer_value(json_object_get(body, "timeout_seconds")) * 1000,
        .max_rows = json_integer_value(json_object_get(body, "max_rows")),
    };
    struct query_origin origin = { .owner = http_owner(req), .thread_id = thread_id };
    struct waiting *w = calloc(1, sizeof(*w));
    if (!database)
        database = json_string_value(json_object_get(body, "database"));
    int r = w ? databases_find(app->databases, database, &db, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->req = req;
        r = query_start(&app->queries, &origin, db, &q, json_object_get(body, "redact"), on_rows, w,
                        &w->query, &err);
    }
    if (r < 0) {
        free(w);
        http_reply_error(req, &err);
    } else {
        http_defer(req, left, w);
    }
}

static void query_database(struct http_request *req)
{
    database_serve_query(req, http_param(req, "name"), NULL);
}

/* ---- a schema ---- */

static void on_schema(const struct db_result *result, const struct err *err, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    char now[CLOCK_ISO_SIZE];
    json_t *schema = err ? NULL : database_schema_json(result);
    clock_iso8601(clock_wall_ms(), now);
    if (err) {
        http_reply_error(req, err);
    } else {
        json_t *answer = json_pack("{s:s, s:o, s:s}", "database", w->database, "schema", schema,
                                   "timestamp", now);
        if (w->id_name)
            json_object_set_new(answer, w->id_name, json_string(w->id));
        http_reply_json(req, 200, answer);
    }
    waiting_free(w);
}

void database_serve_schema(struct http_request *req, const char *database, const char *table,
                           const char *id_name, const char *id)
{
    struct err err = ERR_INIT;
    struct database *db;
    struct waiting *w = calloc(1, sizeof(*w));
    int r = w ? databases_find(app_of(req)->databases, database, &db, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->req = req;
        w->database = strdup(database_name(db));
        w->id_name = id_name ? strdup(id_name) : NULL;
        w->id = id ? strdup(id) : NULL;
        r = w->database ? database_schema(db, table, on_schema, w, &w->look, &err) :
                          err_set(&err, ERR_NO_MEMORY, "out of memory");
    }
    if (r < 0) {
        if (w)
            waiting_free(w);
        http_reply_error(req, &err);
    } else {
        http_defer(req, left, w);
    }
}

static void get_schema(struct http_request *req)
{
    database_serve_schema(req, http_param(req, "name"), http_query(req, "table"), NULL, NULL);
}

/* ---- the same for a sandbox ---- */

static void query_of(struct http_request *req, struct chat *c)
{
    database_serve_query(req, NULL, chat_id(c));
}

static void query_for_sandbox(struct http_request *req)
{
    sandbox_with(req, query_of);
}

static void schema_of(struct http_request *req, struct chat *c)
{
    database_serve_schema(req, http_query(req, "database"), http_query(req, "table"), "sandbox_id",
                          chat_id(c));
}

static void schema_for_sandbox(struct http_request *req)
{
    sandbox_with(req, schema_of);
}

/* ---- lists ---- */

static void list_databases(struct http_request *req)
{
    const struct databases *all = app_of(req)->databases;
    json_t *list = json_array();
    for (size_t i = 0; i < databases_count(all); i++) {
        const struct database *db = databases_get(all, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:b}", "name", database_name(db),
                                              "kind", database_kind(db), "writable",
                                              database_writable(db), "default", i == 0));
    }
    http_reply_json(req, 200, json_pack("{s:o}", "databases", list));
}

struct listing {
    struct http_request *req; /* NULL: the client left */
};

static int write_queries(const struct store_query *query, struct store_page *page, struct err *err)
{
    (void)query;
    return records_json(RECORD_QUERY, "{\"queries\":[", page, false, "next", &page->text, err);
}

static void listed(const struct err *err, const struct store_page *page, void *arg)
{
    struct listing *l = arg;
    struct http_request *req = l->req;
    free(l);
    if (req)
        reply_page(req, err, page);
}

static void list_queries(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    struct database *db;
    struct listing *l = calloc(1, sizeof(*l));
    int r = l ? databases_find(app->databases, http_param(req, "name"), &db, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        struct store_query query = { .owner = http_owner(req),
                                     .dataset_id = database_name(db),
                                     .thread_id = http_query(req, "thread_id"),
                                     .status = http_query(req, "verdict"),
                                     .cursor = http_query(req, "cursor"),
                                     .limit = (int)http_query_i64(req, "limit",
                                                                  STORE_LIMIT_DEFAULT),
                                     .make = write_queries };
        l->req = req;
        r = store_list(app->store, RECORD_QUERY, &query, listed, l, &err);
    }
    if (r < 0) {
        free(l);
        http_reply_error(req, &err);
    } else {
        http_hold(req, &l->req);
    }
}

/* ---- routes ---- */

static const struct schema_field any_name = { .name = "", .types = SCHEMA_STRING };
static const struct schema_field query_fields[] = {
    SCHEMA_REQUIRED("query", STRING, "One statement that reads. Parameters are written `:name`.",
                    SCHEMA_RANGE(1, DB_SQL_MAX),
                    .example = "\"SELECT * FROM users WHERE id = :id\""),
    { .name = "parameters",
      .types = SCHEMA_OBJECT,
      .nullable = true,
      .doc =
          "Name → value. `{\"type\":\"decimal\",\"value\":\"1.10\"}` for what JSON lacks: "
          "decimal, date, time, timestamp, timestamptz, interval, uuid, bytes (base64), integer, "
          "real, json." },
    SCHEMA_OPTIONAL("redact", ARRAY, "Parameters whose values the log does not keep.",
                    .items = &any_name),
    SCHEMA_OPTIONAL("max_rows", INTEGER, "At most DATABASE_MAX_ROWS.", SCHEMA_RANGE(1, 10000000)),
    SCHEMA_OPTIONAL("timeout_seconds", INTEGER, "At most DATABASE_TIMEOUT_SECONDS.",
                    SCHEMA_RANGE(1, 3600)),
    SCHEMA_OPTIONAL("database", STRING,
                    "Where the path names none; the first of DATABASES when missing.",
                    SCHEMA_MAX(63)),
    { .name = NULL },
};
const struct schema database_query_schema = {
    .name = "DatabaseQuery",
    .doc = "A statement for a database.",
    .closed = true,
    .fields = query_fields,
    .example = "{\"query\":\"SELECT * FROM users WHERE id = :id\",\"parameters\":{\"id\":1}}"
};

static const struct route_param name_params[] = {
    ROUTE_PATH("name", STRING, "Name of the database in DATABASES.", SCHEMA_RANGE(1, 63)),
    { .field = { .name = NULL } },
};
static const struct route_param schema_params[] = {
    ROUTE_PATH("name", STRING, "Name of the database in DATABASES.", SCHEMA_RANGE(1, 63)),
    ROUTE_QUERY("table", STRING, "Of this table only.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};
static const struct route_param sandbox_schema_params[] = {
    SANDBOX_PARAM,
    ROUTE_QUERY("database", STRING, "Name of a database; the first of DATABASES when missing.",
                SCHEMA_MAX(63)),
    ROUTE_QUERY("table", STRING, "Of this table only.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};
static const struct route_param queries_params[] = {
    ROUTE_PATH("name", STRING, "Name of the database in DATABASES.", SCHEMA_RANGE(1, 63)),
    ROUTE_QUERY("thread_id", STRING, "Of code of this thread or sandbox only.", SCHEMA_MAX(128)),
    ROUTE_QUERY("verdict", STRING, "ok, refused, error, timeout, cancelled or unavailable.",
                SCHEMA_MAX(32)),
    ROUTE_QUERY("limit", INTEGER, "At most so many.", SCHEMA_RANGE(1, STORE_LIMIT_MAX),
                .dflt = "50"),
    ROUTE_QUERY("cursor", STRING, "`next` of the page before.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};
const struct route_response database_query_responses[] = {
    { 200, NULL,
      "{query, parameters, results: [{column: value}], count, columns, types, truncated, "
      "affected_rows, timestamp}" },
    { .status = 0 }
};
const struct route_response database_schema_responses[] = {
    { 200, NULL,
      "{database, schema: {tables: [name], schema: {table: [{column_name, data_type, is_nullable, "
      "column_default}]}, total_tables}, timestamp}" },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/databases", list_databases, .id = "listDatabases", .tag = "databases",
      .summary = "Databases that can be asked",
      .doc = "Those of the setting DATABASES. Addresses and credentials are not shown." },
    { HTTP_GET, "/databases/{name}/schema", get_schema, .id = "getDatabaseSchema",
      .tag = "databases", .summary = "Tables and columns of a database", .params = schema_params,
      .responses = database_schema_responses, .errors = DATABASE_ERRORS },
    { HTTP_POST, "/databases/{name}/query", query_database, .id = "queryDatabase",
      .tag = "databases", .summary = "Ask a database",
      .doc =
          "One statement that reads, with limits on time, rows and bytes. What is refused and why: "
          "docs/databases.md. A client that leaves cancels the query on its server.",
      .params = name_params, .body = &database_query_schema, .responses = database_query_responses,
      .errors = DATABASE_ERRORS },
    { HTTP_GET, "/databases/{name}/queries", list_queries, .id = "listDatabaseQueries",
      .tag = "databases", .summary = "Log of your queries", .params = queries_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_POST, "/sandbox/{sandbox_id}/database/query", query_for_sandbox,
      .id = "querySandboxDatabase", .tag = "sandboxes", .summary = "Ask a database for a sandbox",
      .doc = "As `POST /databases/{name}/query`; the log names the sandbox.",
      .params = sandbox_params, .body = &database_query_schema,
      .responses = database_query_responses, .errors = DATABASE_ERRORS },
    { HTTP_GET, "/sandbox/{sandbox_id}/database/schema", schema_for_sandbox,
      .id = "getSandboxDatabaseSchema", .tag = "sandboxes",
      .summary = "Tables and columns that a sandbox can ask for", .params = sandbox_schema_params,
      .responses = database_schema_responses, .errors = DATABASE_ERRORS },
};

const struct route_table database_routes = { routes, ARRAY_SIZE(routes) };
