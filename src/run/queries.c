/* Queries of databases, logged, and code that asks for them; see queries.h. */

#include "run/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

#define PARAMS_LOGGED_MAX (60u << 10)

struct query {
    const struct queries *qs;
    struct database *db;
    struct db_query *query;
    char *owner, *thread_id, *run_id, *sql;
    json_t *params; /* as the log shows them */
    char created_at[CLOCK_ISO_SIZE];
    int64_t begun_ms;
    db_done_fn done;
    void *arg;
};

static void query_free(struct query *q)
{
    free(q->owner);
    free(q->thread_id);
    free(q->run_id);
    free(q->sql);
    json_decref(q->params);
    free(q);
}

/* ---- the log ---- */

static const char *status_of(const struct err *err)
{
    if (!err)
        return "ok";
    switch (err->code) {
    case ERR_FORBIDDEN:
        return "refused";
    case ERR_TIMEOUT:
        return "timeout";
    case ERR_CANCELLED:
        return "cancelled";
    case ERR_UNAVAILABLE:
        return "unavailable";
    default:
        return "error";
    }
}

static void on_logged(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    (void)arg;
    if (err)
        log_error("database.log", LOG_STR("error", err->message));
}

static void log_query(const struct query *q, const struct db_result *result, const struct err *err)
{
    char id[ID_UUID_SIZE];
    struct err why = ERR_INIT;
    auto_free char *params = q->params ? json_to_str(q->params) : NULL;
    if (params && strlen(params) > PARAMS_LOGGED_MAX) {
        free(params);
        params = strdup("\"(too long to keep)\"");
    }
    /* In order among those of the same millisecond. */
    static unsigned count;
    snprintf(id, sizeof(id), "%08x-", count++);
    id_hex(id + 9, 16);
    const struct asked_query record = {
        .query_id = id,
        .owner = q->owner,
        .created_at = q->created_at,
        .dataset_id = database_name(q->db),
        .thread_id = q->thread_id,
        .run_id = q->run_id,
        .sql = q->sql,
        .params_json = params,
        .status = status_of(err),
        .error = err ? err->message : NULL,
        .row_count = result ?
                         (result->affected_rows >= 0 ? result->affected_rows : result->n_rows) :
                         -1,
        .exec_time_ms = clock_now_ms() - q->begun_ms,
        .wrote = result && result->affected_rows >= 0,
    };
    const struct store_put put = { RECORD_QUERY, &record, STORE_PUT };
    if (q->qs->store && store_put_batch(q->qs->store, &put, 1, on_logged, NULL, &why) < 0)
        on_logged(&why, 0, NULL);
    if (record.wrote)
        log_info("database.write", LOG_STR("database", record.dataset_id),
                 LOG_STR("owner", q->owner), LOG_INT("rows", result->affected_rows));
}

/* A copy of the parameters without the values that are marked. */
static json_t *shown_params(const struct database *db, const json_t *params, const json_t *redact)
{
    json_t *shown = json_object(), *value, *name;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)params, key, value) {
        bool hide = database_redacts(db, key);
        json_array_foreach(redact, i, name)
            hide = hide || str_eq(json_string_value(name), key);
        if (hide)
            json_object_set_new(shown, key, json_string("(redacted)"));
        else
            json_object_set(shown, key, value);
    }
    return shown;
}

/* ---- a query ---- */

static void on_done(const struct db_result *result, const struct err *err, void *arg)
{
    struct query *q = arg;
    log_query(q, result, err);
    q->done(result, err, q->arg);
    query_free(q);
}

static char *copy(const char *s, bool *good)
{
    char *c = s ? strdup(s) : NULL;
    *good = *good && (c || !s);
    return c;
}

int query_start(const struct queries *qs, const struct query_origin *origin, struct database *db,
                const struct db_request *req, const json_t *redact, db_done_fn done, void *arg,
                struct query **ret, struct err *err)
{
    struct query *q = calloc(1, sizeof(*q));
    bool good = q != NULL;
    if (!q)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *q = (struct query){ .qs = qs,
                         .db = db,
                         .owner = copy(origin->owner, &good),
                         .thread_id = copy(origin->thread_id, &good),
                         .run_id = copy(origin->run_id, &good),
                         .sql = copy(req->sql, &good),
                         .params = shown_params(db, req->params, redact),
                         .begun_ms = clock_now_ms(),
                         .done = done,
                         .arg = arg };
    clock_iso8601(clock_wall_ms(), q->created_at);
    int r = good && q->params ? database_query(db, req, on_done, q, &q->query, err) :
                                err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        if (good)
            log_query(q, NULL, err);
        query_free(q);
        return r;
    }
    *ret = q;
    return 0;
}

void query_cancel(struct query *q)
{
    struct err err = ERR_INIT;
    if (!q)
        return;
    err_set(&err, ERR_CANCELLED, "whoever asked is gone");
    db_query_cancel(q->query);
    log_query(q, NULL, &err);
    query_free(q);
}

/* ---- code that asks ---- */

struct answer {
    struct answer **place; /* where its run keeps it */
    struct lease *lease;
    uint32_t id;
    struct query *query;   /* one of these */
    struct db_query *look; /* at a schema */
};

static void tell(struct answer *a, const json_t *value, const struct err *err)
{
    struct lease *lease = a->lease;
    uint32_t id = a->id;
    *a->place = NULL;
    free(a);
    lease_reply(lease, id, value, err);
}

static void on_rows(const struct db_result *result, const struct err *err, void *arg)
{
    struct answer *a = arg;
    struct err why = ERR_INIT;
    auto_json json_t *value = NULL;
    a->query = NULL;
    if (!err && db_result_pack(result, &value, &why) < 0)
        err = &why;
    tell(a, value, err);
}

static void on_schema(const struct db_result *result, const struct err *err, void *arg)
{
    struct answer *a = arg;
    struct err why = ERR_INIT;
    auto_json json_t *value = err ? NULL : database_schema_json(result);
    a->look = NULL;
    if (!err && !value) {
        err_set(&why, ERR_NO_MEMORY, "out of memory");
        err = &why;
    }
    tell(a, value, err);
}

static int start_query(struct answer *a, const struct answer_context *c, struct database *db,
                       const json_t *args, struct err *err)
{
    int64_t left = c->deadline_ms - clock_now_ms();
    struct db_request req = { .sql = json_string_value(json_object_get(args, "sql")),
                              .params = json_object_get(args, "params"),
                              .timeout_ms = MAX_OF(left, 1) };
    if (!req.sql)
        return err_set(err, ERR_VALIDATION, "a query is a text");
    if (req.params && !json_is_object(req.params))
        return err_set(err, ERR_VALIDATION, "parameters are a dict");
    return query_start(c->queries, &c->origin, db, &req, json_object_get(args, "redact"), on_rows,
                       a, &a->query, err);
}

bool answer_begin(struct answer **a, const struct answer_context *c, uint32_t id, const char *what,
                  const json_t *args)
{
    struct database *db;
    struct err err = ERR_INIT;
    answer_drop(a);
    bool is_query = str_eq(what, "db_query");
    if (!c->queries || (!is_query && !str_eq(what, "db_schema")))
        return false;
    struct answer *mine = calloc(1, sizeof(*mine));
    if (!mine)
        return false;
    *mine = (struct answer){ .place = a, .lease = c->lease, .id = id };
    *a = mine;
    const char *table = json_string_value(json_object_get(args, "table"));
    const char *named = json_string_value(json_object_get(args, "db"));
    int r = databases_find(c->queries->databases, named && *named ? named : c->database, &db, &err);
    if (r == 0)
        r = is_query ? start_query(mine, c, db, args, &err) :
                       database_schema(db, table, on_schema, mine, &mine->look, &err);
    if (r < 0)
        tell(mine, NULL, &err);
    return true;
}

void answer_drop(struct answer **a)
{
    struct answer *old = TAKE_PTR(*a);
    if (!old)
        return;
    query_cancel(old->query);
    db_query_cancel(old->look);
    free(old);
}
