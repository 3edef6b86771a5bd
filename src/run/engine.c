/* SQL of leases that a database runs; see engine.h. */

#include "run/engine.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

struct engine_run {
    struct query *query;
    uv_timer_t *later; /* tells an error that was known at once; NULL: the database is asked */
    struct err err;
    int64_t begun_us;
    engine_done_fn done;
    void *arg;
};

/*
 * What the database said against the statement is a result of the run. What keeps it from being
 * asked at all is an error.
 */
static bool verdict_of(const struct err *err, enum verdict *ret, const char **ret_type)
{
    switch (err->code) {
    case ERR_FORBIDDEN:
        *ret = VERDICT_POLICY;
        *ret_type = "SQL_POLICY_VIOLATION";
        return true;
    case ERR_TIMEOUT:
        *ret = VERDICT_TIMEOUT;
        *ret_type = "RUNNER_TIMEOUT";
        return true;
    case ERR_VALIDATION:
    case ERR_TOO_LARGE:
        *ret = VERDICT_ERROR;
        *ret_type = "SQL_EXECUTION_ERROR";
        return true;
    default:
        return false;
    }
}

static void on_done(const struct db_result *rows, const struct err *err, void *arg)
{
    struct engine_run *run = arg;
    struct engine_run of = *run;
    struct err why = ERR_INIT;
    const char *type;
    struct run_result result = { .verdict = VERDICT_OK,
                                 .execute_us = clock_now_us() - of.begun_us };
    free(run);
    if (rows && db_result_body(rows, &result.body, &why) < 0)
        err = &why;
    if (err && !verdict_of(err, &result.verdict, &type)) {
        of.done(NULL, err, of.arg);
        return;
    }
    if (err)
        result.body = json_pack("{s:{s:s, s:o}}", "error", "type", type, "message",
                                json_text(err->message, strlen(err->message)));
    result.displays = json_array();
    if (!result.body || !result.displays) {
        err_set(&why, ERR_NO_MEMORY, "out of memory");
        run_result_finish(&result);
        of.done(NULL, &why, of.arg);
        return;
    }
    json_object_set_new(result.body, "exec_time_ms", json_real((double)result.execute_us / 1000));
    of.done(&result, NULL, of.arg);
}

static void close_later(struct engine_run *run)
{
    uv_timer_t *timer = TAKE_PTR(run->later);
    if (timer)
        uv_close((uv_handle_t *)timer, (uv_close_cb)free);
}

static void on_later(uv_timer_t *timer)
{
    struct engine_run *run = timer->data;
    const struct err err = run->err;
    close_later(run);
    on_done(NULL, &err, run);
}

/* A statement that is refused before anybody is asked is a result too, and comes from the loop. */
static int tell_later(const struct queries *qs, struct engine_run *run, const struct err *why,
                      struct err *err)
{
    enum verdict verdict;
    const char *type;
    if (!verdict_of(why, &verdict, &type))
        return -(int)why->code;
    run->err = *why;
    run->later = malloc(sizeof(*run->later));
    if (!run->later || uv_timer_init(qs->loop, run->later) < 0) {
        free(TAKE_PTR(run->later));
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    run->later->data = run;
    uv_timer_start(run->later, on_later, 0, 0);
    return 0;
}

static int begin(void *arg, const char *owner, const char *database, const struct run_request *req,
                 engine_done_fn done, void *done_arg, struct engine_run **ret, struct err *err)
{
    const struct queries *qs = arg;
    const struct query_origin origin = { .owner = owner,
                                         .thread_id = req->thread_id,
                                         .run_id = req->run_id };
    const struct db_request query = { .sql = req->code,
                                      .timeout_ms = req->timeout_ms,
                                      .max_rows = req->max_rows,
                                      .max_bytes = req->max_output_bytes };
    struct database *db;
    struct engine_run *run = calloc(1, sizeof(*run));
    if (!run)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *run = (struct engine_run){ .begun_us = clock_now_us(), .done = done, .arg = done_arg };
    int r = databases_find(qs->databases, database, &db, err);
    if (r == 0)
        r = query_start(qs, &origin, db, &query, NULL, on_done, run, &run->query, err);
    if (r < 0) {
        const struct err why = *err;
        r = tell_later(qs, run, &why, err);
    }
    if (r < 0) {
        free(run);
        return r;
    }
    *ret = run;
    return 0;
}

static void cancel(struct engine_run *run)
{
    query_cancel(run->query);
    close_later(run);
    free(run);
}

struct sql_engine engine_of(const struct queries *qs)
{
    return (struct sql_engine){ .begin = begin, .cancel = cancel, .arg = (void *)(uintptr_t)qs };
}
