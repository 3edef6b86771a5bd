/* Wiring of the server: settings in, an application that answers out. */

#include "api/app.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "api/chats.h"
#include "api/sandboxes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/home_lock.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "run/engine.h"
#include "run/figures.h"

#define OTHERS_MIN 1200 /* of the rate limit: requests that are no messages, in a window */

void reply_page(struct http_request *req, const struct err *err, const struct store_page *page)
{
    if (err) {
        http_reply_error(req, err);
        return;
    }
    size_t len;
    char *text = store_page_take_text(page, &len);
    http_reply_taken(req, 200, "application/json", text, len);
}

/* ---- figures for /metrics ---- */

const struct route_param run_params[] = { RUN_PARAM, { .field = { .name = NULL } } };
const struct route_param thread_params[] = { THREAD_PARAM, { .field = { .name = NULL } } };
const struct route_param sandbox_params[] = { SANDBOX_PARAM, { .field = { .name = NULL } } };

static void collect_move(void *arg, const char *from, const char *to, uint64_t n, double seconds)
{
    struct metrics *m = arg;
    metric_set(metric_series(metrics_counter(m, "riddle_thread_moves_total",
                                             "Moves of threads between hot, warm and cold.", "from",
                                             "to", NULL),
                             from, to),
               (double)n);
    metric_set(metric_series(metrics_counter(m, "riddle_thread_move_seconds_total",
                                             "Time that these moves took.", "from", "to", NULL),
                             from, to),
               seconds);
}

static void collect_chats(struct app *app)
{
    struct agent_stats chats;
    struct llm_stats llm;
    struct metrics *m = app->metrics;
    agent_stats(app->agent, &chats);
    llm_stats(app->llm, &llm);
    struct metric_family *threads = metrics_gauge(
        m, "riddle_threads",
        "Threads in memory, those with a kernel that is awake (hot) or frozen (warm), and those "
        "whose kernel is a file (cold).",
        "state", NULL);
    metric_set(metric_series(threads, "open"), (double)chats.chats);
    metric_set(metric_series(threads, "hot"), (double)chats.hot);
    metric_set(metric_series(threads, "warm"), (double)chats.warm);
    metric_set(metric_series(threads, "cold"), (double)chats.cold);
    metric_set(metric_series(metrics_gauge(m, "riddle_images_bytes",
                                           "Bytes of files that cold threads are.", NULL)),
               (double)chats.images_bytes);
    metric_set(metric_series(
                   metrics_gauge(m, "riddle_turns", "Messages being answered or waiting.", NULL)),
               (double)chats.turns);
    struct metric_family *turns = metrics_counter(m, "riddle_turns_total",
                                                  "Messages by how they ended.", "outcome", NULL);
    metric_set(metric_series(turns, "answered"), (double)chats.answered);
    metric_set(metric_series(turns, "failed"), (double)chats.failed);
    metric_set(metric_series(metrics_counter(m, "riddle_threads_evicted_total",
                                             "Kernels with variables given up for others.", NULL)),
               (double)chats.evicted);
    agent_each_move(&chats.moves, collect_move, m);
    struct metric_family *calls = metrics_counter(m, "riddle_llm_calls_total",
                                                  "Calls of the model.", "outcome", NULL);
    metric_set(metric_series(calls, "ok"), (double)(llm.calls - llm.failures));
    metric_set(metric_series(calls, "failed"), (double)llm.failures);
    metric_set(metric_series(calls, "retried"), (double)llm.retries);
    struct metric_family *tokens = metrics_counter(
        m, "riddle_llm_tokens_total", "Tokens that the model counted.", "direction", NULL);
    metric_set(metric_series(tokens, "in"), (double)llm.input_tokens);
    metric_set(metric_series(tokens, "out"), (double)llm.output_tokens);
    metric_set(metric_series(metrics_counter(m, "riddle_llm_cost_usd_total",
                                             "Cost of calls whose price is known.", NULL)),
               llm.cost_usd);
}

static void collect_loop(struct app *app)
{
    struct loop_lag lag;
    loop_lag(app->loop, &lag);
    struct metric_family *seconds = metrics_histogram(
        app->metrics, "riddle_loop_lag_seconds",
        "Time that the event loop was busy between two waits for events.", loop_lag_bounds,
        LOOP_LAG_BUCKETS, NULL);
    metric_set_histogram(metric_series(seconds), lag.busy.counts, lag.busy.count, lag.busy.sum_s);
    struct metric_family *cpu = metrics_histogram(
        app->metrics, "riddle_loop_cpu_seconds",
        "Processor time that the event loop used between two waits for events.", loop_lag_bounds,
        LOOP_LAG_BUCKETS, NULL);
    metric_set_histogram(metric_series(cpu), lag.cpu.counts, lag.cpu.count, lag.cpu.sum_s);
    metric_set(
        metric_series(metrics_gauge(app->metrics, "riddle_loop_lag_max_seconds",
                                    "The longest of them in the last one to two minutes.", NULL)),
        lag.max_s);
}

static void collect(void *arg)
{
    struct app *app = arg;
    struct metrics *m = app->metrics;
    struct executor_stats ex;
    struct store_stats st;
    executor_stats(app->executor, &ex);
    store_stats(app->store, &st);
    struct metric_family *kernels = metrics_gauge(m, "riddle_kernels", "Kernels by state.", "state",
                                                  NULL);
    metric_set(metric_series(kernels, "loading"), (double)ex.loading);
    metric_set(metric_series(kernels, "running"), (double)ex.running);
    metric_set(metric_series(kernels, "idle"), (double)ex.idle);
    metric_set(metric_series(kernels, "pooled"), (double)ex.pooled);
    metric_set(metric_series(metrics_gauge(m, "riddle_kernel_places",
                                           "Kernels that may be in use at once.", NULL)),
               (double)ex.places);
    struct metric_family *memory = metrics_gauge(
        m, "riddle_kernel_memory_bytes", "Memory that kernels may take, and the most that all may.",
        "what", NULL);
    metric_set(metric_series(memory, "held"), (double)ex.held_bytes);
    metric_set(metric_series(memory, "budget"), (double)ex.memory_bytes);
    metric_set(
        metric_series(metrics_gauge(m, "riddle_queue_depth", "Runs that wait for a kernel.", NULL)),
        (double)ex.queued);
    metric_set(metric_series(metrics_counter(m, "riddle_zygote_restarts_total",
                                             "Zygotes started again since the start.", NULL)),
               (double)ex.zygote_restarts);
    metric_set(
        metric_series(metrics_counter(m, "riddle_runs_refused_total",
                                      "Runs answered 503 because the queue was full.", NULL)),
        (double)ex.refused);
    struct metric_family *runs = metrics_counter(m, "riddle_runs_total", "Runs by verdict.",
                                                 "verdict", NULL);
    for (int v = 0; v < _VERDICT_MAX; v++)
        metric_set(metric_series(runs, verdict_name(v)), (double)ex.runs[v]);
    struct metric_family *ops = metrics_counter(m, "riddle_store_operations_total",
                                                "Operations of the store.", "kind", NULL);
    metric_set(metric_series(ops, "write"), (double)st.writes);
    metric_set(metric_series(ops, "read"), (double)st.reads);
    metric_set(metric_series(ops, "commit"), (double)st.commits);
    metric_set(metric_series(ops, "error"), (double)(st.write_errors + st.read_errors));
    double bounds[STORE_BUCKETS];
    for (size_t i = 0; i < STORE_BUCKETS; i++)
        bounds[i] = (double)store_bucket_us[i] / 1e6;
    struct metric_family *seconds = metrics_histogram(
        m, "riddle_store_seconds",
        "Time of the store's operations; commit: one sync for all that wait.", bounds,
        STORE_BUCKETS, "kind", NULL);
    metric_set_histogram(metric_series(seconds, "write"), st.write.counts, st.write.count,
                         (double)st.write.sum_us / 1e6);
    metric_set_histogram(metric_series(seconds, "read"), st.read.counts, st.read.count,
                         (double)st.read.sum_us / 1e6);
    metric_set_histogram(metric_series(seconds, "commit"), st.commit.counts, st.commit.count,
                         (double)st.commit.sum_us / 1e6);
    collect_chats(app);
    collect_loop(app);
}

static int open_metrics(struct app *app, struct err *err)
{
    app->metrics = metrics_create();
    if (!app->metrics)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    app->runs.seconds = metrics_histogram(
        app->metrics, "riddle_run_seconds", "Time of runs, from request to result.",
        metrics_latency_bounds, metrics_n_latency_bounds, "mode", "verdict", NULL);
    return metrics_on_collect(app->metrics, collect, app, err);
}

/* ---- the server ---- */

static int open_docs(struct app *app, struct err *err)
{
    /* Beside the program when it is built, below share/ when it is installed. */
    static const char *const places[] = { "../third_party/swagger-ui",
                                          "../share/riddle/swagger-ui" };
    char dir[PATH_MAX], path[PATH_MAX + 64];
    if (proc_self_dir(dir, sizeof(dir), err) < 0)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
        if (access(path, R_OK) == 0) {
            struct static_options options = { .dir = path, .max_age_s = 3600 };
            return static_create(&options, &app->docs, err);
        }
    }
    return 0;
}

static int open_server(struct app *app, struct err *err)
{
    const struct config *cfg = app->cfg;
    struct guard_options guard = { .api_keys = cfg->api_keys,
                                   .allowed_hosts = cfg->allowed_hosts,
                                   .cors_origins = cfg->cors_origins,
                                   .window_ms = cfg->rate_limit_window_ms,
                                   .trusted_proxies = cfg->trusted_proxies,
                                   .max_chats = cfg->rate_limit_max,
                                   .max_requests = cfg->rate_limit_max ?
                                                       MAX_OF(cfg->rate_limit_max, OTHERS_MIN) :
                                                       0 };
    int r = guard_create(&guard, &app->guard, err);
    struct http_options options = { .host = cfg->host,
                                    .port = (int)cfg->port,
                                    .allow_open = cfg->allow_open,
                                    .max_connections = (unsigned)cfg->max_connections,
                                    .guard = app->guard,
                                    .metrics = app->metrics,
                                    .app = app };
    if (r == 0)
        r = http_server_create(app->loop, &options, &app->server, err);
    const struct route_table *tables[] = {
        &page_routes,          &health_routes,     &dataset_routes,     &upload_routes,
        &plan_routes,          &run_routes,        &run_rows_routes,    &data_routes,
        &figure_routes,        &chat_routes,       &thread_routes,      &file_routes,
        &told_routes,          &verified_routes,   &thread_edit_routes, &thread_data_routes,
        &thread_fork_routes,   &checkpoint_routes, &database_routes,    &doctor_routes,
        &thread_export_routes, &input_routes
    };
    for (size_t i = 0; i < ARRAY_SIZE(tables) && r == 0; i++)
        r = http_server_add_routes(app->server, tables[i]->routes, tables[i]->n, err);
    if (r == 0)
        r = sandbox_add_routes(app->server, err);
    return r == 0 ? http_server_start(app->server, err) : r;
}

/* ---- what is kept of runs ---- */

#define TRIM_EVERY_MS 2000
#define EXPIRE_EVERY_MS 60000

static void trim_later(struct app *app);

static uint64_t store_writes(struct app *app)
{
    struct store_stats stats;
    store_stats(app->store, &stats);
    return stats.writes;
}

static void on_trimmed(const struct err *err, int64_t n, void *arg)
{
    struct app *app = arg;
    if (app->stopping)
        return;
    if (!err && n > 0) {
        log_info("runs.trimmed", LOG_INT("runs", n));
        figure_store_sweep(app->figures, app->store);
    }
    app->trimmed_at = n > 0 ? 0 : store_writes(app); /* there may be more to remove */
    trim_later(app);
}

/* Only when something was stored since, or when time alone may have ended a run's. */
static void trim_runs(void *arg)
{
    struct app *app = arg;
    struct err err = ERR_INIT;
    int64_t now = clock_now_ms();
    char before[CLOCK_ISO_SIZE];
    app->trim_timer = NULL;
    bool due = app->cfg->run_ttl_s > 0 && now - app->expired_ms >= EXPIRE_EVERY_MS;
    clock_iso8601(clock_wall_ms() - app->cfg->run_ttl_s * 1000, before);
    if (due)
        app->expired_ms = now;
    if ((!due && store_writes(app) == app->trimmed_at) ||
        store_trim_runs(app->store, app->cfg->run_quota_bytes, due ? before : NULL, on_trimmed, app,
                        &err) < 0)
        trim_later(app);
}

static void trim_later(struct app *app)
{
    struct err ignored = ERR_INIT;
    if (app->cfg->run_quota_bytes > 0 || app->cfg->run_ttl_s > 0)
        (void)loop_after(app->loop, TRIM_EVERY_MS, trim_runs, app, &app->trim_timer, &ignored);
}

int app_create(struct loop *loop, const struct config *cfg, struct app **ret, struct err *err)
{
    struct app *app = calloc(1, sizeof(*app));
    if (!app)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    app->cfg = cfg;
    app->loop = loop;
    app->lock_fd = -1;
    app->started_ms = clock_now_ms();
    char home[PATH_MAX];
    int r = fd_mkdir_p(cfg->home, 0700, err);
    if (r == 0 && !realpath(cfg->home, home))
        r = err_set(err, ERR_IO, "RIDDLE_HOME '%s' cannot be used", cfg->home);
    if (r == 0) {
        snprintf(app->home, sizeof(app->home), "%.4000s", home);
        r = home_lock(app->home, "riddle serve", &app->lock_fd, err);
    }
    if (r == 0)
        r = open_metrics(app, err);
    if (r == 0)
        r = store_open_configured(cfg, loop_uv(loop), &app->store, err);
    int64_t abandoned = 0;
    if (r == 0)
        r = store_abandon_runs_wait(
            app->store,
            "{\"type\":\"SERVER_STOPPED\",\"message\":\"The server stopped while this ran.\"}",
            &abandoned, err);
    if (r == 0)
        r = executor_create(loop_uv(loop), cfg, NULL, &app->executor, err);
    if (r == 0)
        r = databases_create(loop_uv(loop), cfg, &app->databases, err);
    app->queries = (struct queries){ .loop = loop_uv(loop),
                                     .databases = app->databases,
                                     .store = app->store };
    if (r == 0) {
        const struct sql_engine engine = engine_of(&app->queries);
        executor_set_engine(app->executor, &engine);
    }
    if (r == 0)
        r = figure_store_open(loop, app->home, &app->figures, err);
    struct data_env data = { .loop = loop,
                             .cfg = cfg,
                             .executor = app->executor,
                             .store = app->store,
                             .databases = app->databases,
                             .home = app->home };
    if (r == 0)
        r = data_room_open(&data, &app->data, err);
    if (r == 0)
        r = doctor_open(app, err);
    if (r == 0)
        r = llm_create(loop_uv(loop), cfg, &app->llm, err);
    struct agent_env env = { .loop = loop,
                             .cfg = cfg,
                             .executor = app->executor,
                             .store = app->store,
                             .figures = app->figures,
                             .queries = &app->queries,
                             .llm = app->llm,
                             .records = app->data ? app->data->records : NULL,
                             .room = app->data };
    if (r == 0)
        r = agent_create(&env, &app->agent, err);
    if (r == 0)
        r = dap_create(loop, app->agent, cfg->host, (int)cfg->dap_port, &app->dap, err);
    if (r == 0)
        r = open_docs(app, err);
    if (r == 0)
        r = pages_open(app, err);
    if (r == 0)
        r = open_server(app, err);
    if (r < 0) {
        app_destroy(app);
        return r;
    }
    app->runs.executor = app->executor;
    app->runs.store = app->store;
    app->runs.figures = app->figures;
    app->runs.queries = &app->queries;
    figure_store_sweep(app->figures, app->store);
    app->expired_ms = clock_now_ms() - EXPIRE_EVERY_MS;
    trim_later(app);
    data_room_watch(app->data);
    *ret = app;
    return 0;
}

/* Requests are answered: what threads hold is put aside. */
static void on_served(void *arg)
{
    struct app *app = arg;
    agent_put_aside(app->agent, app->cfg->stop_timeout_s * 1000, app->stopped, app->stopped_arg);
}

void app_stop(struct app *app, void (*done)(void *arg), void *arg)
{
    app->stopping = true;
    app->stopped = done;
    app->stopped_arg = arg;
    dap_destroy(TAKE_PTR(app->dap)); /* a paused execution would hold up the stop */
    http_server_stop(app->server, (unsigned)app->cfg->stop_timeout_s * 1000, on_served, app);
}

void app_destroy(struct app *app)
{
    if (!app)
        return;
    app->stopping = true;
    loop_cancel(app->trim_timer);
    http_server_destroy(app->server);
    runs_abandon(&app->runs);
    data_room_stop(app->data);
    dap_destroy(app->dap);
    agent_stop(app->agent);
    llm_destroy(app->llm);
    executor_destroy(app->executor);
    databases_destroy(app->databases); /* its last queries go into the log */
    store_close(app->store);           /* calls back whoever still waits for it */
    agent_destroy(app->agent);
    figure_store_close(app->figures);
    static_destroy(app->docs);
    static_destroy(app->page);
    guard_destroy(app->guard);
    metrics_destroy(app->metrics);
    doctor_close(app);
    data_room_destroy(app->data);
    free(app->openapi);
    if (app->lock_fd >= 0)
        close(app->lock_fd);
    free(app);
}
