/* Verified questions: a person confirms the answer of a run, and alike questions are answered by
 * its example. */

#include <string.h>
#include <strings.h>
#include "api/app.h"
#include "base/str.h"

/* A request that waits for the store. */
struct waiting {
    struct app *app;
    struct http_request *req; /* NULL: the client left */
    char *record;             /* as the API shows it, once it is being kept */
};

static struct waiting *wait_for(struct http_request *req)
{
    struct waiting *w = calloc(1, sizeof(*w));
    if (w)
        *w = (struct waiting){ .app = app_of(req), .req = req };
    return w;
}

static void end(struct waiting *w, const struct err *err, json_t *taken)
{
    if (w->req && err)
        http_reply_error(w->req, err);
    else if (w->req)
        http_reply_json(w->req, 200, json_incref(taken));
    json_decref(taken);
    free(w->record);
    free(w);
}

/* ---- confirming ---- */

static void kept(const struct err *err, int64_t value, void *arg)
{
    struct waiting *w = arg;
    (void)value;
    if (w->req && !err)
        http_reply_bytes(w->req, 200, "application/json", w->record, strlen(w->record));
    else if (w->req)
        http_reply_error(w->req, err);
    free(w->record);
    free(w);
}

/* VALIDATION for a run that answers no question by code that can be repeated. */
static int verified_of(const struct capsule *c, struct verified *ret, struct err *err)
{
    static const char *const prefixes[] = { "SQL:", "PYTHON:", "PLAN:" };
    const char *plan = c->plan_json && !str_eq(c->plan_json, "null") ? c->plan_json : NULL;
    if (!str_eq(c->status, "succeeded"))
        return err_set(err, ERR_VALIDATION, "only an answer can be confirmed; this run is '%s'",
                       c->status);
    if (!c->question || !*c->question)
        return err_set(err, ERR_VALIDATION, "this run answers no question");
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (strncasecmp(c->question, prefixes[i], strlen(prefixes[i])) == 0)
            return err_set(err, ERR_VALIDATION, "this run answers no question, it is code");
    if (!plan && !c->compiled_sql && !c->python_code)
        return err_set(err, ERR_VALIDATION,
                       "this answer was found without running code; there is nothing to repeat");
    *ret = (struct verified){ .run_id = c->run_id,
                              .owner = c->owner,
                              .dataset_id = c->dataset_id,
                              .question = c->question,
                              .query_mode = plan            ? "plan" :
                                            c->compiled_sql ? "sql" :
                                                              "python",
                              .plan_json = plan,
                              .compiled_sql = c->compiled_sql,
                              .python_code = c->python_code };
    return 0;
}

static void got_run(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct verified v;
    struct err why = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(8u << 20);
    char now[CLOCK_ISO_SIZE];
    if (err && err->code == ERR_NOT_FOUND)
        err_set(&why, ERR_NOT_FOUND, "Run not found");
    else if (err)
        why = *err;
    int r = err ? -1 : verified_of(&page->capsules[0], &v, &why);
    if (r == 0)
        r = store_has_room(w->app->store, v.owner, &why);
    if (r == 0) {
        clock_iso8601(clock_wall_ms(), now);
        v.created_at = now;
        r = record_json(RECORD_VERIFIED, &v, false, &text, &why);
    }
    if (r == 0 && !(w->record = strdup(buf_cstr(&text))))
        r = err_set(&why, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && w->app->stopping)
        r = err_set(&why, ERR_UNAVAILABLE, "the server is stopping");
    struct store_put put = { RECORD_VERIFIED, &v, STORE_PUT };
    if (r == 0)
        r = store_put_batch(w->app->store, &put, 1, kept, w, &why);
    if (r < 0)
        end(w, &why, NULL);
}

static void start(struct http_request *req, struct waiting *w, int r, const struct err *err)
{
    if (r < 0) {
        free(w);
        http_reply_error(req, err);
    } else {
        http_hold(req, &w->req);
    }
}

static void verify_run(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    int r = w ? store_get(app_of(req)->store, RECORD_CAPSULE, http_owner(req),
                          http_param(req, "run_id"), got_run, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    start(req, w, r, &err);
}

/* ---- taking it back ---- */

static void removed(const struct err *err, int64_t value, void *arg)
{
    struct waiting *w = arg;
    (void)value;
    end(w, err,
        err || !w->req ?
            NULL :
            json_pack("{s:s, s:b}", "run_id", http_param(w->req, "run_id"), "verified", 0));
}

static void unverify_run(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    int r = w ? store_remove(app_of(req)->store, RECORD_VERIFIED, http_owner(req),
                             http_param(req, "run_id"), removed, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    start(req, w, r, &err);
}

/* ---- the list ---- */

static int write_list(const struct store_query *query, struct store_page *page, struct err *err)
{
    (void)query;
    return records_json(RECORD_VERIFIED, "{\"verified\":[", page, true, "next", &page->text, err);
}

static void listed(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (req)
        reply_page(req, err, page);
}

static void list_verified(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    struct store_query query = { .owner = http_owner(req),
                                 .dataset_id = http_query(req, "dataset_id"),
                                 .cursor = http_query(req, "cursor"),
                                 .limit = (int)http_query_i64(req, "limit", STORE_LIMIT_DEFAULT),
                                 .make = write_list };
    int r = w ? store_list(app_of(req)->store, RECORD_VERIFIED, &query, listed, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    start(req, w, r, &err);
}

static const struct route_param list_params[] = {
    ROUTE_QUERY("dataset_id", STRING, "Of this dataset only.", SCHEMA_MAX(200)),
    ROUTE_QUERY("limit", INTEGER, "At most so many.", SCHEMA_RANGE(1, STORE_LIMIT_MAX),
                .dflt = "50"),
    ROUTE_QUERY("cursor", STRING, "`next` of the page before.", SCHEMA_MAX(200)),
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_POST, "/runs/{run_id}/verify", verify_run, .id = "verifyRun", .tag = "runs",
      .summary = "Confirm an answer", .params = run_params,
      .doc =
          "The question and the code that answered it become an example: models are shown it with "
          "alike questions about the same dataset, "
          "and the planner answers the same question by the same code. At most 500 for a dataset.",
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(TOO_LARGE) |
                ROUTE_ERR(UNAVAILABLE) },
    { HTTP_DELETE, "/runs/{run_id}/verify", unverify_run, .id = "unverifyRun", .tag = "runs",
      .summary = "Take a confirmation back", .params = run_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_GET, "/verified", list_verified, .id = "listVerified", .tag = "runs",
      .summary = "Your verified questions", .params = list_params,
      .errors = ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table verified_routes = { routes, ARRAY_SIZE(routes) };
