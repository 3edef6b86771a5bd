/* PATCH /thread/{id}: the title of a thread, and whether its owner pinned it. */

#include <stdlib.h>
#include "api/app.h"
#include "base/str.h"

#define TITLE_MAX 200

static const struct schema_field edit_fields[] = {
    { .name = "title",
      .types = SCHEMA_STRING,
      .nullable = true,
      SCHEMA_RANGE(1, TITLE_MAX),
      .example = "\"Returns in spring\"" },
    SCHEMA_FIELD("pinned", BOOLEAN, "Pinned threads are listed first by the page."),
    { .name = NULL },
};
static const struct schema edit_schema = { .name = "ThreadEdit",
                                           .doc = "What is to be changed; the rest stays.",
                                           .fields = edit_fields };

/* A request that waits for the store. */
struct waiting {
    struct http_request *req; /* NULL: the client left */
    json_t *answer;
};

static void end(struct waiting *w, const struct err *err)
{
    if (w->req && err && err->code == ERR_NOT_FOUND)
        http_reply_fail(w->req, ERR_NOT_FOUND, "Thread not found");
    else if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req)
        http_reply_json(w->req, 200, json_incref(w->answer));
    json_decref(w->answer);
    free(w);
}

static void kept(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    end(arg, err);
}

/* A message that is stored in between moves updated_at forward again with the next one. */
static void got(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    if (err || !w->req) {
        end(w, err);
        return;
    }
    const json_t *body = http_body_json(w->req), *title = json_object_get(body, "title");
    const json_t *pinned = json_object_get(body, "pinned");
    struct thread t = page->threads[0];
    struct err why = ERR_INIT;
    if (title)
        t.title = json_string_value(title);
    if (pinned)
        t.pinned = json_is_true(pinned);
    w->answer = json_pack("{s:s, s:s?, s:b}", "thread_id", t.thread_id, "title", t.title, "pinned",
                          t.pinned > 0);
    if (store_put_thread(app_of(w->req)->store, &t, STORE_PUT, kept, w, &why) < 0)
        end(w, &why);
}

static void patch_thread(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = calloc(1, sizeof(*w));
    int r = w ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->req = req;
        r = store_get(app_of(req)->store, RECORD_THREAD, http_owner(req),
                      http_param(req, "thread_id"), got, w, &err);
    }
    if (r < 0) {
        free(w);
        http_reply_error(req, &err);
        return;
    }
    http_hold(req, &w->req);
}

static const struct route routes[] = {
    { HTTP_PATCH, "/thread/{thread_id}", patch_thread, .id = "editThread", .tag = "threads",
      .summary = "Rename or pin a thread", .params = thread_params, .body = &edit_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) },
};

const struct route_table thread_edit_routes = { routes, ARRAY_SIZE(routes) };
