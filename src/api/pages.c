/*
 * The page for people, at / and /ui, and at /t/ID with a thread. web/build.mjs bundles it and
 * scripts/embed-files compiles it in: the program needs nothing beside it, and the page asks nobody
 * else for anything. What programs get at / instead is a list of where things are.
 */

#include "api/app.h"
#include "base/version.h"

extern const struct static_file page_files[]; /* gen/page_files.c */

/*
 * Nothing but its own files and its own server; what a model or a cell of a table says can load and
 * run nothing.
 */
#define PAGE_CSP                                                                                                \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob: 'self'; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

int pages_open(struct app *app, struct err *err)
{
    /* The index is asked for each time (304) and names the other files by their hashes. */
    struct static_options options = { .files = page_files,
                                      .index = "index.html",
                                      .fallback = "index.html",
                                      .csp = PAGE_CSP,
                                      .hashed_names = true };
    return static_create(&options, &app->page, err);
}

static void get_page(struct http_request *req)
{
    static_reply(app_of(req)->page, req, "");
}

static void get_file(struct http_request *req)
{
    static_reply(app_of(req)->page, req, http_param(req, "path"));
}

static void get_root(struct http_request *req)
{
    http_add_header(req, "Vary", "Accept");
    if (static_wants_html(req)) {
        get_page(req);
        return;
    }
    json_t *endpoints = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "datasets", "/datasets",
                                  "upload", "/upload", "threads", "/thread/new", "chat", "/chat",
                                  "runs", "/runs", "plans", "/plans/compile", "openapi",
                                  "/openapi.json");
    http_reply_json(req, 200,
                    json_pack("{s:s, s:s, s:s, s:s, s:o}", "status", "ok", "version",
                              RIDDLE_VERSION, "ui", "/ui", "docs", "/docs", "endpoints",
                              endpoints));
}

static const struct route_param file_params[] = {
    ROUTE_PATH("path", STRING, "A file of the page.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_GET, "/", get_root, .id = "root", .tag = "server", .summary = "Where things are",
      .flags = ROUTE_PUBLIC | ROUTE_NAVIGABLE },
    { HTTP_GET, "/ui", get_page, .flags = ROUTE_HIDDEN | ROUTE_PUBLIC | ROUTE_NAVIGABLE },
    { HTTP_GET, "/t/{thread_id}", get_page, .params = thread_params,
      .flags = ROUTE_HIDDEN | ROUTE_PUBLIC | ROUTE_NAVIGABLE },
    { HTTP_GET, "/ui/{path...}", get_file, .params = file_params,
      .flags = ROUTE_HIDDEN | ROUTE_PUBLIC | ROUTE_NAVIGABLE },
};

const struct route_table page_routes = { routes, ARRAY_SIZE(routes) };
