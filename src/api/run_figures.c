/*
 * GET /runs/{run_id}/figures/{n}: a figure of a run, by its number among the run's outputs. A large
 * one is a file (run/figures.h); a small one is inside the run's capsule and taken from there.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "api/app.h"
#include "base/limits.h"
#include "base/str.h"
#include "run/figures.h"

/* A client that waits for a figure; req is NULL once it has left. */
struct asking {
    struct app *app;
    struct http_request *req;
    char run_id[104];
    int n, part;
    char *result; /* JSON of the capsule's */
    struct buf bytes;
    enum figure_part found;
    struct err err;
};

static void asking_free(struct asking *a)
{
    buf_finish(&a->bytes);
    free(a->result);
    free(a);
}

/* A figure never changes. Code drew it, so no browser may take it for a page of this server. */
static bool add_headers(struct asking *a, enum figure_part part)
{
    char tag[160], disposition[80];
    const char *known = http_header(a->req, "If-None-Match");
    snprintf(tag, sizeof(tag), "\"%s-%d-%s\"", a->run_id, a->n, figure_part_names[part]);
    snprintf(disposition, sizeof(disposition), "%s; filename=\"figure-%d.%s\"",
             part == FIGURE_PNG || part == FIGURE_SVG ? "inline" : "attachment", a->n,
             figure_part_names[part]);
    http_add_header(a->req, "ETag", tag);
    http_add_header(a->req, "Cache-Control", "private, max-age=31536000, immutable");
    http_add_header(a->req, "Content-Disposition", disposition);
    http_add_header(a->req, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    if (!known || !strstr(known, tag))
        return true;
    http_reply_empty(a->req, 304);
    return false;
}

/* True if there was a file, and the client has it. */
static bool reply_file(struct asking *a)
{
    struct err ignored = ERR_INIT;
    enum figure_part part;
    int64_t size;
    int fd;
    if (figures_open(a->app->figures, a->run_id, a->n, a->part, &fd, &size, &part, &ignored) < 0)
        return false;
    if (add_headers(a, part))
        http_reply_file(a->req, 200, figure_content_type(part), fd, 0, (uint64_t)size);
    else
        close(fd);
    return true;
}

/* ---- of a run under way ---- */

static void on_written(void *arg)
{
    struct asking *a = arg;
    if (a->req && !reply_file(a))
        http_reply_fail(a->req, ERR_NOT_FOUND, "Figure not found");
    asking_free(a);
}

/* ---- of one that has a capsule ---- */

static void decode(void *arg)
{
    struct asking *a = arg;
    auto_json json_t *result = NULL;
    int r = json_parse(a->result, strlen(a->result), &result, &a->err);
    if (r == 0)
        (void)figures_from_result(result, a->n, a->part, &a->bytes, &a->found, &a->err);
}

static void decoded(void *arg)
{
    struct asking *a = arg;
    if (a->req && a->err.code != ERR_NONE) {
        http_reply_error(a->req, &a->err);
    } else if (a->req && add_headers(a, a->found)) {
        size_t len = a->bytes.len;
        http_reply_taken(a->req, 200, figure_content_type(a->found), buf_take(&a->bytes), len);
    }
    asking_free(a);
}

static void got_capsule(const struct err *err, const struct store_page *page, void *arg)
{
    struct asking *a = arg;
    struct err why = ERR_INIT;
    if (a->req && err && err->code == ERR_NOT_FOUND) {
        http_reply_fail(a->req, ERR_NOT_FOUND, "Run not found");
    } else if (a->req && err) {
        http_reply_error(a->req, err);
    } else if (a->req && !reply_file(a)) {
        const char *result = page->capsules[0].result_json;
        a->result = strdup(result ? result : "{}");
        int r = a->result ? loop_work(a->app->loop, decode, decoded, a, &why) :
                            err_set(&why, ERR_NO_MEMORY, "out of memory");
        if (r == 0)
            return;
        http_reply_error(a->req, &why);
    }
    asking_free(a);
}

static void get_figure(struct http_request *req)
{
    struct app *app = app_of(req);
    struct err err = ERR_INIT;
    long long n;
    const char *part = http_query(req, "part");
    struct asking *a = calloc(1, sizeof(*a));
    int r = a ? str_parse_i64(http_param(req, "n"), "n", 1, DISPLAYS_MAX, &n, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(a);
        http_reply_fail(req, ERR_NOT_FOUND, "Figure not found");
        return;
    }
    *a = (struct asking){
        .app = app, .req = req, .n = (int)n, .part = -1, .bytes = BUF_INIT(RESULT_MAX_BYTES)
    };
    snprintf(a->run_id, sizeof(a->run_id), "%s", http_param(req, "run_id"));
    for (int i = 0; part && i < _FIGURE_PART_MAX; i++)
        if (str_eq(part, figure_part_names[i]))
            a->part = i;
    if (figures_in_flight(app->figures, http_owner(req), a->run_id)) {
        http_hold(req, &a->req);
        figures_wait(app->figures, a->run_id, on_written, a);
        return;
    }
    r = store_get(app->store, RECORD_CAPSULE, http_owner(req), a->run_id, got_capsule, a, &err);
    if (r < 0) {
        asking_free(a);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &a->req);
}

static const struct route_param params[] = {
    RUN_PARAM,
    ROUTE_PATH("n", INTEGER, "Number of the output, from 1.", SCHEMA_RANGE(1, DISPLAYS_MAX)),
    ROUTE_QUERY("part", STRING, "Which form of it; the first that it has.",
                .choices = figure_part_names),
    { .field = { .name = NULL } },
};
static const struct route_response responses[] = {
    { 200, "image/png", "The figure: PNG or SVG; HTML or JSON of an output that is no figure." },
    { 304, NULL, "The client has it: a figure never changes." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_GET, "/runs/{run_id}/figures/{n}", get_figure, .id = "getFigure", .tag = "runs",
      .summary = "A figure of a run", .params = params, .responses = responses,
      .errors = ROUTE_ERR(NOT_FOUND) },
};

const struct route_table figure_routes = { routes, ARRAY_SIZE(routes) };
