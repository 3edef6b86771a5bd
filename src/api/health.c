/* What operators and documentation need: /healthz, /metrics, /openapi.json, /docs. */

#include <stdio.h>
#include <string.h>
#include "api/app.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/version.h"
#include "net/openapi.h"

static json_t *kind_json(const struct kernel_health *h)
{
    char since[CLOCK_ISO_SIZE];
    if (h->err.code == ERR_NONE)
        return json_pack("{s:s}", "status", "ok");
    clock_iso8601(h->since_ms, since);
    return json_pack("{s:s, s:o, s:s}", "status", "failing", "error",
                     json_text(h->err.message, strlen(h->err.message)), "since", since);
}

static void get_healthz(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    if (store_ready(app->store, &err) == 0 && executor_ready(app->executor)) {
        static const char good[] = "{\"status\":\"ok\"}";
        http_reply_static(req, 200, "application/json", good, sizeof(good) - 1);
        return;
    }
    json_t *kernels = json_object();
    const char *sandbox = "ok";
    struct kernel_health h[_RUN_KIND_MAX];
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++) {
        executor_health(app->executor, (enum run_kind)kind, &h[kind]);
        if (h[kind].err.code != ERR_NONE)
            sandbox = h[kind].err.message;
        json_object_set_new(kernels, kind == RUN_PYTHON ? "python" : "sql", kind_json(&h[kind]));
    }
    bool store_good = err.code == ERR_NONE;
    http_reply_json(req, 503,
                    json_pack("{s:s, s:s, s:s, s:o}", "status", "unavailable", "store",
                              store_good ? "ok" : err.message, "sandbox", sandbox, "kernels",
                              kernels));
}

static void get_metrics(struct http_request *req)
{
    auto_buf struct buf text = BUF_INIT(8u << 20);
    struct err err = ERR_INIT;
    if (metrics_print(app_of(req)->metrics, &text, &err) < 0)
        http_reply_error(req, &err);
    else
        http_reply_bytes(req, 200, METRICS_CONTENT_TYPE, text.data, text.len);
}

static void get_settings(struct http_request *req)
{
    json_t *all = config_in_force(app_of(req)->cfg);
    http_reply_json(req, all ? 200 : 500, all ? json_pack("{s:o}", "settings", all) : NULL);
}

static void get_openapi(struct http_request *req)
{
    struct app *app = app_of(req);
    auto_json json_t *answers = NULL, *doc = NULL;
    struct err err = ERR_INIT;
    if (!app->openapi && json_parse(api_files[0].text, api_files[0].len, &answers, &err) < 0) {
        http_reply_error(req, &err);
        return;
    }
    if (!app->openapi) {
        struct openapi_info info = {
            .title = "Riddle",
            .version = RIDDLE_VERSION,
            .has_keys = guard_has_keys(app->guard),
            .description =
                "A self-hosted data analyst: SQL, plans and Python on your data, in sandboxes "
                "that start in milliseconds.",
            .answers = answers
        };
        doc = openapi_document(http_server_router(app->server), &info);
        app->openapi = doc ? json_to_str(doc) : NULL;
    }
    if (!app->openapi)
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
    else
        http_reply_bytes(req, 200, "application/json", app->openapi, strlen(app->openapi));
}

/* Swagger UI with its files beside it; its script is ours, so that the page needs no inline one. */
static const char docs_page[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Riddle API</title>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<link rel=\"stylesheet\" href=\"/docs/assets/swagger-ui.css\"></head>\n"
    "<body><div id=\"swagger-ui\"></div>\n<script src=\"/docs/assets/swagger-ui-bundle.js\"></script>\n"
    "<script src=\"/docs/start.js\"></script></body></html>\n";
static const char docs_script[] =
    "window.ui = SwaggerUIBundle({ url: '/openapi.json', dom_id: '#swagger-ui', deepLinking: true,\n"
    "  displayRequestDuration: true, tryItOutEnabled: true, validatorUrl: null });\n";

static void get_docs(struct http_request *req)
{
    if (!app_of(req)->docs) {
        http_reply_fail(
            req, ERR_NOT_FOUND,
            "the documentation page's files are not installed; run 'make deps' (the API description "
            "itself is at /openapi.json)");
        return;
    }
    static_page_headers(req, NULL);
    http_reply_static(req, 200, "text/html; charset=utf-8", docs_page, sizeof(docs_page) - 1);
}

static void get_docs_script(struct http_request *req)
{
    http_reply_static(req, 200, "text/javascript; charset=utf-8", docs_script,
                      sizeof(docs_script) - 1);
}

static void get_docs_file(struct http_request *req)
{
    if (app_of(req)->docs)
        static_reply(app_of(req)->docs, req, http_param(req, "path"));
    else
        http_reply_fail(req, ERR_NOT_FOUND, "no such file");
}

static const struct route_param file_params[] = {
    ROUTE_PATH("path", STRING, "A file of the page.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};
static const struct route_response health_responses[] = {
    { 200, NULL, "{status: ok}: sandboxes and store answer." },
    { 503, NULL,
      "{status: unavailable, store, sandbox, kernels: "
      "{sql, python: {status, error, since}}}." },
    { .status = 0 }
};
static const struct route_response metrics_responses[] = {
    { 200, METRICS_CONTENT_TYPE, "Prometheus text." }, { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/healthz", get_healthz, .id = "health", .tag = "server",
      .summary = "Whether the server can work", .responses = health_responses,
      .flags = ROUTE_PUBLIC | ROUTE_QUIET | ROUTE_NO_RATE_LIMIT },
    { HTTP_GET, "/metrics", get_metrics, .id = "metrics", .tag = "server",
      .summary = "Figures for Prometheus", .responses = metrics_responses,
      .flags = ROUTE_QUIET | ROUTE_NO_RATE_LIMIT },
    { HTTP_GET, "/settings", get_settings, .id = "settings", .tag = "server",
      .summary = "Settings that are in force" },
    { HTTP_GET, "/openapi.json", get_openapi, .id = "openapi", .tag = "server",
      .summary = "This description", .flags = ROUTE_PUBLIC },
    { HTTP_GET, "/docs", get_docs, .flags = ROUTE_HIDDEN | ROUTE_PUBLIC | ROUTE_NAVIGABLE },
    { HTTP_GET, "/docs/start.js", get_docs_script, .flags = ROUTE_HIDDEN | ROUTE_PUBLIC },
    { HTTP_GET, "/docs/assets/{path...}", get_docs_file, .params = file_params,
      .flags = ROUTE_HIDDEN | ROUTE_PUBLIC },
};

const struct route_table health_routes = { routes, ARRAY_SIZE(routes) };
