#ifndef RIDDLE_API_APP_H
#define RIDDLE_API_APP_H

/*
 * The application behind the HTTP routes: what they share, and the door of src/api. One file per
 * resource; each ends with its table of routes. Everything runs in the loop's thread.
 */

#include <stdbool.h>
#include "agent/agent.h"
#include "base/config.h"
#include "base/err.h"
#include "dap/dap.h"
#include "data/data.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/metrics.h"
#include "net/static.h"
#include "run/queries.h"
#include "run/run.h"
#include "sandbox/pool/executor.h"
#include "store/store.h"

struct doctor;

/* Parameters of many routes, and lists of the one alone. */
#define RUN_PARAM ROUTE_PATH("run_id", STRING, "The `run_id` of a run.", SCHEMA_RANGE(1, 100))
#define THREAD_PARAM                                                                               \
    ROUTE_PATH("thread_id", STRING, "The `thread_id` of a thread.", SCHEMA_RANGE(1, 100))
#define SANDBOX_PARAM                                                                              \
    ROUTE_PATH("sandbox_id", STRING, "The `sandbox_id` of a sandbox.", SCHEMA_RANGE(1, 100))
extern const struct route_param run_params[], thread_params[], sandbox_params[];
/* Of a page of what the store has. */
#define PAGE_PARAMS                                                                                \
    ROUTE_QUERY("limit", INTEGER, "Per page.", SCHEMA_RANGE(1, STORE_LIMIT_MAX)),                  \
        ROUTE_QUERY("cursor", STRING, "`next` of a page.", SCHEMA_MAX(STORE_CURSOR_SIZE))

struct app {
    int lock_fd; /* of RIDDLE_HOME */
    const struct config *cfg;
    struct loop *loop;
    struct executor *executor;
    struct store *store;
    struct data_room *data; /* what can be asked about */
    struct loop_timer *trim_timer;
    uint64_t trimmed_at; /* writes of the store when runs were last trimmed */
    int64_t expired_ms;
    struct metrics *metrics;
    struct guard *guard;
    struct http_server *server;
    struct static_site *docs; /* swagger-ui's files; NULL when they are not installed */
    struct static_site *page; /* pages.c */
    struct runs runs;
    struct databases *databases;
    struct queries queries;
    struct figure_store *figures;
    struct doctor *doctor; /* doctor.c */
    struct llm *llm;
    struct agent *agent; /* threads and who answers in them */
    struct dap *dap;     /* debuggers of editors; NULL: the server stops */
    char *openapi;       /* the description, rendered once */
    char home[4096];
    int64_t started_ms;
    void (*stopped)(void *arg);
    void *stopped_arg;
    bool stopping;
};

/* Opens everything and binds; the loop is the caller's. The server answers once the loop runs. */
int app_create(struct loop *loop, const struct config *cfg, struct app **ret, struct err *err);
/* Graceful stop; done(arg) when all requests have ended. */
void app_stop(struct app *app, void (*done)(void *arg), void *arg);
void app_destroy(struct app *app);

/* Plan → SQL, checked against what is known of the dataset (if it has none: its form only). */
int app_compile_plan(const struct dataset_handle *h, const json_t *plan, struct arena *a,
                     struct buf *ret_sql, struct err *err);

/* The page's files, from within the program; static_destroy(app->page). */
int pages_open(struct app *app, struct err *err);

/* doctor.c: checks of the machine, for GET /doctor. */
int doctor_open(struct app *app, struct err *err);
void doctor_close(struct app *app);

/* answers.json: what every route answers. Compiled in by scripts/embed-files. */
struct api_file {
    const char *name;
    const char *text; /* UTF-8, terminated */
    size_t len;
};
extern const struct api_file api_files[];

/* ---- routes, one table per file ---- */

struct route_table {
    const struct route *routes;
    size_t n;
};
extern const struct route_table page_routes, health_routes, dataset_routes, plan_routes, run_routes,
    run_rows_routes, data_routes, figure_routes, upload_routes, chat_routes, thread_routes,
    file_routes, told_routes, verified_routes, thread_edit_routes, thread_data_routes,
    thread_fork_routes, checkpoint_routes, thread_export_routes, database_routes, doctor_routes,
    input_routes;

/* The error, or the text that a thread of the store wrote of a page. */
void reply_page(struct http_request *req, const struct err *err, const struct store_page *page);

static inline struct app *app_of(struct http_request *req)
{
    return http_request_app(req);
}

#endif
