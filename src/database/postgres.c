/*
 * PostgreSQL through libpq.
 *
 * Connecting happens in the worker pool, because libpq looks names up there and then; so does
 * cancelling, which needs a connection of its own. Queries run in the loop, in libpq's pipeline
 * mode: a guard (postgres_catalog.h) and the statement go out together and cost one round trip.
 * They are one transaction, and read-only, because the session's transactions are. When the guard
 * fails, the server skips the statement, and two more round trips ask the catalog and, if nothing is
 * refused, the statement.
 *
 * A statement that writes has BEGIN READ WRITE in front of it; behind it deferred triggers run and
 * a last query tells whether a table changed that is not granted. COMMIT or ROLLBACK is a round
 * trip of its own.
 *
 * A query that is cancelled, or has more rows than it may, gives its connection up: a cancellation
 * can arrive late and would hit the next statement.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "database/database_impl.h"
#include "database/postgres_catalog.h"
#include "database/postgres_text.h"
#include "database/pq_lib.h"

#define CONNECT_TIMEOUT_S "5"
#define OLDEST_VERSION 120000

enum step {
    STEP_BEGIN,
    STEP_SETTINGS,
    STEP_GUARD,
    STEP_CATALOG,
    STEP_QUERY,
    STEP_CHANGES,
    STEP_COMMIT,
    STEP_ROLLBACK
};

/* A query on its way. */
struct op {
    struct op *next;
    struct db_query *q;
    struct sql_text text;
    struct sql_verdict verdict;
    struct postgres_statement *statement;
    struct postgres_names names;
    bool retried, answered, described;
    bool suspect, looking; /* its guard failed; the catalog is asked */
    struct err err;        /* the first one */
};

struct connection {
    struct postgres *pg;
    struct connection *next;
    PGconn *conn;
    uv_poll_t *poll;
    struct op *op;
    enum step steps[8]; /* whose results are still to come */
    size_t n_steps, at;
    bool in_transaction;
};

struct postgres {
    struct db_backend base;
    struct connection *all;
    size_t n, works; /* connections and those being made; jobs of the worker pool */
    struct op *waiting, **waiting_end;
    uv_idle_t kick; /* begins what waits */
    bool closing;
};

/* ---- operations ---- */

static void op_free(struct op *op)
{
    if (!op)
        return;
    sql_text_finish(&op->text);
    postgres_statement_free(op->statement);
    postgres_names_finish(&op->names);
    free(op);
}

static void end_op(struct op *op)
{
    struct db_query *q = op->q;
    struct err err = op->err;
    op_free(op);
    if (q)
        db_query_end(q, err.code == ERR_NONE ? NULL : &err);
}

static void wait_in_line(struct postgres *pg, struct op *op, bool first)
{
    if (first) {
        op->next = pg->waiting;
        if (!pg->waiting)
            pg->waiting_end = &op->next;
        pg->waiting = op;
    } else {
        op->next = NULL;
        *pg->waiting_end = op;
        pg->waiting_end = &op->next;
    }
}

static struct op *next_op(struct postgres *pg)
{
    struct op *op = pg->waiting;
    if (op) {
        pg->waiting = op->next;
        if (!pg->waiting)
            pg->waiting_end = &pg->waiting;
    }
    return op;
}

static void work_over(struct postgres *pg)
{
    pg->works--;
    if (!pg->closing || pg->works > 0)
        return;
    db_backend_closed(&pg->base);
    free(pg);
}

static void advance(struct postgres *pg);

/* ---- giving a connection up ---- */

struct farewell {
    uv_work_t work;
    struct postgres *pg;
    PGconn *conn;
    PGcancel *cancel; /* NULL: nothing runs there */
};

static void say_farewell(uv_work_t *work)
{
    struct farewell *f = work->data;
    char ignored[256];
    if (f->cancel) {
        (void)pq_lib.cancel(f->cancel, ignored, sizeof(ignored));
        pq_lib.freeCancel(f->cancel);
    }
    pq_lib.finish(f->conn);
}

static void said_farewell(uv_work_t *work, int status)
{
    struct farewell *f = work->data;
    (void)status;
    work_over(f->pg);
    free(f);
}

static void poll_closed(uv_handle_t *handle)
{
    struct postgres *pg = handle->data;
    free(handle);
    work_over(pg);
}

static void close_connection(struct connection *c, bool cancel)
{
    struct postgres *pg = c->pg;
    struct farewell *f = malloc(sizeof(*f));
    for (struct connection **at = &pg->all; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pg->n--;
    if (c->poll) {
        pg->works++;
        c->poll->data = pg;
        uv_poll_stop(c->poll);
        uv_close((uv_handle_t *)c->poll, poll_closed);
    }
    if (f) {
        *f = (struct farewell){ .pg = pg,
                                .conn = c->conn,
                                .cancel = cancel ? pq_lib.getCancel(c->conn) : NULL };
        f->work.data = f;
        pg->works++;
        if (uv_queue_work(db_loop(&pg->base), &f->work, say_farewell, said_farewell) < 0) {
            pg->works--;
            say_farewell(&f->work);
            free(f);
        }
    } else {
        pq_lib.finish(c->conn);
    }
    free(c);
}

/* The connection broke. What has not begun to answer and changes nothing is tried once more. */
static void lose_connection(struct connection *c)
{
    struct postgres *pg = c->pg;
    struct op *op = TAKE_PTR(c->op);
    close_connection(c, false);
    if (op && !op->retried && !op->answered && !op->verdict.writes) {
        op->retried = true;
        op->suspect = op->looking = false;
        op->err = (struct err)ERR_INIT;
        wait_in_line(pg, op, true);
    } else if (op) {
        op->err = (struct err)ERR_INIT;
        err_set(&op->err, ERR_UNAVAILABLE, "the connection to the database '%s' broke",
                pg->base.entry->name);
        end_op(op);
    }
    advance(pg);
}

/* ---- connecting, in the worker pool ---- */

struct greeting {
    uv_work_t work;
    struct postgres *pg;
    PGconn *conn;
    struct err err;
};

static void no_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

/* libpq's words name host and user, so they are not passed on. */
static int cannot_connect(const struct postgres *pg, const char *message, struct err *err)
{
    static const struct {
        const char *says, *means;
    } reasons[] = {
        { "authentication failed", "its server refused the login" },
        { "no password supplied", "its server wants a password" },
        { "no pg_hba.conf entry", "its server refused the login" },
        { "Connection refused", "nothing listens there" },
        { "No such file or directory", "nothing listens there" },
        { "could not translate host name", "its host is not known" },
        { "timeout expired", "its server does not answer" },
        { "too many clients", "its server has too many connections" },
        { "too many connections", "its server has too many connections" },
        { "does not exist", "its server knows no such role or database" },
        { "SSL", "the encrypted connection failed" },
        { "invalid", "its URL in DATABASES cannot be read" },
        { "missing", "its URL in DATABASES cannot be read" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
        if (strstr(message, reasons[i].says))
            return err_set(err, ERR_UNAVAILABLE, "the database '%s' cannot be reached: %s",
                           pg->base.entry->name, reasons[i].means);
    return err_set(err, ERR_UNAVAILABLE, "the database '%s' cannot be reached",
                   pg->base.entry->name);
}

/* One text, "" for none. NULL after a failure. */
static char *ask_text(PGconn *conn, const char *sql)
{
    PGresult *res = pq_lib.exec(conn, sql);
    char *text = NULL;
    if (pq_lib.resultStatus(res) == PGRES_TUPLES_OK && pq_lib.ntuples(res) == 1)
        text = strdup(pq_lib.getvalue(res, 0, 0));
    pq_lib.clear(res);
    return text;
}

static const char role_sql[] =
    "SELECT CASE WHEN rolsuper THEN 'is a superuser' WHEN rolreplication THEN 'may replicate' "
    "WHEN EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname IN ('pg_read_server_files',"
    "'pg_write_server_files','pg_execute_server_program') AND "
    "pg_catalog.pg_has_role(current_user, r.oid, 'MEMBER')) THEN 'may use files of its server' "
    "ELSE '' END FROM pg_catalog.pg_roles WHERE rolname = current_user";

static bool command(PGconn *conn, const char *sql)
{
    PGresult *res = pq_lib.exec(conn, sql);
    bool good = pq_lib.resultStatus(res) == PGRES_COMMAND_OK;
    pq_lib.clear(res);
    return good;
}

/* The guard is planned once and for all, which would be a bad plan for other statements. */
static int set_up(struct greeting *g)
{
    static const char settings[] =
        "SET standard_conforming_strings = on; SET datestyle = 'ISO, YMD'; "
        "SET intervalstyle = 'postgres'; SET bytea_output = 'hex'; SET extra_float_digits = 1; "
        "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '60s'; "
        "SET xmloption = 'content'; SET default_transaction_read_only = on; "
        "SET plan_cache_mode = 'force_generic_plan'";
    const struct db_entry *entry = g->pg->base.entry;
    auto_free char *role = NULL;
    if (pq_lib.serverVersion(g->conn) < OLDEST_VERSION)
        return err_set(&g->err, ERR_UNAVAILABLE,
                       "the server of the database '%s' is older than PostgreSQL %d", entry->name,
                       OLDEST_VERSION / 10000);
    if (command(g->conn, settings) && command(g->conn, postgres_guard_sql) &&
        command(g->conn, postgres_changes_sql))
        role = ask_text(g->conn, role_sql);
    if (role && *role && !entry->superuser)
        return err_set(&g->err, ERR_FORBIDDEN,
                       "the role of the database '%s' %s; use one that can only read, or write "
                       "superuser=yes into its entry",
                       entry->name, role);
    if (!role)
        return err_set(&g->err, ERR_UNAVAILABLE, "the database '%s' could not be set up",
                       entry->name);
    if (!pq_lib.enterPipelineMode(g->conn) || pq_lib.setnonblocking(g->conn, 1) != 0)
        return err_set(&g->err, ERR_UNAVAILABLE, "libpq has no pipeline mode");
    return 0;
}

static void connect_work(uv_work_t *work)
{
    struct greeting *g = work->data;
    const char *const keys[] = { "dbname",          "connect_timeout", "application_name",
                                 "client_encoding", "keepalives_idle", NULL };
    const char *const values[] = {
        g->pg->base.entry->url, CONNECT_TIMEOUT_S, "riddle", "UTF8", "30", NULL
    };
    g->conn = pq_lib.connectdbParams(keys, values, 1);
    if (!g->conn)
        err_set(&g->err, ERR_NO_MEMORY, "out of memory");
    else if (pq_lib.status(g->conn) != CONNECTION_OK)
        cannot_connect(g->pg, pq_lib.errorMessage(g->conn), &g->err);
    else
        pq_lib.setNoticeProcessor(g->conn, no_notice, NULL);
    if (g->err.code == ERR_NONE)
        (void)set_up(g);
}

static void on_socket(uv_poll_t *poll, int status, int events);

static struct connection *adopt(struct greeting *g)
{
    struct postgres *pg = g->pg;
    struct connection *c = calloc(1, sizeof(*c));
    uv_poll_t *poll = malloc(sizeof(*poll));
    if (!c || !poll || uv_poll_init(db_loop(&pg->base), poll, pq_lib.socket(g->conn)) < 0) {
        free(c);
        free(poll);
        err_set(&g->err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    *c = (struct connection){ .pg = pg, .next = pg->all, .conn = TAKE_PTR(g->conn), .poll = poll };
    poll->data = c;
    uv_poll_start(poll, UV_READABLE, on_socket);
    pg->all = c;
    return c;
}

static void connected(uv_work_t *work, int status)
{
    struct greeting *g = work->data;
    struct postgres *pg = g->pg;
    (void)status;
    bool good = !pg->closing && g->err.code == ERR_NONE && adopt(g);
    if (!good) {
        pg->n--;
        if (g->conn)
            pq_lib.finish(g->conn);
        /* All that wait would meet the same, unless other connections serve them. */
        struct op *op = pg->closing || pg->all ? NULL : pg->waiting;
        if (op) {
            pg->waiting = NULL;
            pg->waiting_end = &pg->waiting;
        }
        while (op) {
            struct op *next = op->next;
            op->err = g->err;
            end_op(op);
            op = next;
        }
    }
    free(g);
    if (good)
        advance(pg);
    work_over(pg);
}

static int connect_one(struct postgres *pg, struct err *err)
{
    struct greeting *g = calloc(1, sizeof(*g));
    if (!g)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    g->pg = pg;
    g->work.data = g;
    pg->n++;
    pg->works++;
    if (uv_queue_work(db_loop(&pg->base), &g->work, connect_work, connected) < 0) {
        pg->n--;
        pg->works--;
        free(g);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    return 0;
}

/* ---- sending ---- */

static bool send_step(struct connection *c, enum step step, const char *sql)
{
    c->steps[c->n_steps++] = step;
    return pq_lib.sendQueryParams(c->conn, sql, 0, NULL, NULL, NULL, NULL, 0);
}

static bool send_values(struct connection *c, enum step step, const char *sql, size_t n,
                        const char *const *values)
{
    c->steps[c->n_steps++] = step;
    return step == STEP_GUARD || step == STEP_CHANGES ?
               pq_lib.sendQueryPrepared(c->conn, sql, (int)n, values, NULL, NULL, 0) :
               pq_lib.sendQueryParams(c->conn, sql, (int)n, NULL, values, NULL, NULL, 0);
}

static bool send_guard(struct connection *c)
{
    const struct op *op = c->op;
    const char *values[_POSTGRES_LIST_MAX + 2];
    char ms[24];
    snprintf(ms, sizeof(ms), "%lld", (long long)op->q->timeout_ms);
    values[0] = ms;
    values[1] = op->verdict.writes ? "off" : "on";
    for (size_t i = 0; i < _POSTGRES_LIST_MAX; i++)
        values[2 + i] = buf_cstr(&op->names.lists[i]);
    if (op->q->internal || op->suspect) /* nothing to look for, or it was looked for */
        return send_values(c, STEP_SETTINGS, postgres_settings_sql, 2, values);
    return send_values(c, STEP_GUARD, POSTGRES_GUARD, ARRAY_SIZE(values), values);
}

static bool send_query(struct connection *c)
{
    const struct postgres_statement *s = c->op->statement;
    c->steps[c->n_steps++] = STEP_QUERY;
    return pq_lib.sendQueryParams(c->conn, buf_cstr(&s->sql), (int)s->n, s->types, s->texts,
                                  s->lens, s->formats, 0);
}

/* Without the compiler that PostgreSQL takes for costly plans: it takes longer than the query. */
static bool send_catalog(struct connection *c)
{
    const char *values[_POSTGRES_LIST_MAX];
    for (size_t i = 0; i < _POSTGRES_LIST_MAX; i++)
        values[i] = buf_cstr(&c->op->names.lists[i]);
    c->op->looking = true;
    return (!c->in_transaction || send_step(c, STEP_ROLLBACK, "ROLLBACK")) &&
           send_step(c, STEP_SETTINGS, "SELECT pg_catalog.set_config('jit', 'off', true)") &&
           send_values(c, STEP_CATALOG, postgres_catalog_sql, ARRAY_SIZE(values), values);
}

/* What has happened by then is all that happens: deferred triggers run first. */
static bool send_changes(struct connection *c)
{
    const char *granted = c->pg->base.entry->writable;
    return send_step(c, STEP_SETTINGS, "SET CONSTRAINTS ALL IMMEDIATE") &&
           send_values(c, STEP_CHANGES, POSTGRES_CHANGES, 1, &granted);
}

/* Sends what libpq holds; listens for room while it could not. */
static bool flush(struct connection *c)
{
    int r = pq_lib.flush(c->conn);
    if (r >= 0)
        uv_poll_start(c->poll, UV_READABLE | (r > 0 ? UV_WRITABLE : 0), on_socket);
    return r >= 0;
}

static bool sync_up(struct connection *c)
{
    c->at = 0;
    if (!pq_lib.pipelineSync(c->conn))
        return false;
    if (c->steps[0] == STEP_QUERY)
        (void)pq_lib.setSingleRowMode(c->conn);
    return flush(c);
}

static void begin_op(struct connection *c, struct op *op)
{
    bool writes = op->verdict.writes;
    c->op = op;
    c->n_steps = 0;
    c->in_transaction = writes;
    if (!(!writes || send_step(c, STEP_BEGIN, "BEGIN READ WRITE")) || !send_guard(c) ||
        !send_query(c) || !(!writes || send_changes(c)) || !sync_up(c))
        lose_connection(c);
}

/* ---- what is allowed ---- */

static int prepare(struct postgres *pg, struct op *op, struct err *err)
{
    struct db_query *q = op->q;
    int r = sql_text_read(SQL_POSTGRES, q->sql, &op->text, err);
    if (r == 0 && !q->internal)
        r = sql_check_statement(&op->text, pg->base.entry->writable, &op->verdict, err);
    if (r == 0 && !q->internal)
        r = postgres_check_calls(&op->text, err);
    if (r == 0 && !q->internal)
        r = postgres_names_read(&op->text, &op->names, err);
    if (r == 0)
        r = postgres_statement_make(&op->text, q->params, &op->statement, err);
    return r;
}

static void take_catalog(struct op *op, const PGresult *res)
{
    if (pq_lib.ntuples(res) > 0)
        err_set(&op->err, ERR_FORBIDDEN,
                "the %s '%s' may have side effects (it is or calls a function that is VOLATILE) "
                "and is refused",
                pq_lib.getvalue(res, 0, 0), pq_lib.getvalue(res, 0, 1));
}

static void take_changes(struct op *op, const PGresult *res)
{
    const char *table = pq_lib.getvalue(res, 0, 0);
    if (!pq_lib.getisnull(res, 0, 0))
        err_set(&op->err, ERR_FORBIDDEN,
                "the statement changes the table '%s', too, by a trigger, rule, foreign key or "
                "function of the database, and was undone: the entry in DATABASES gives no right "
                "to write to that table; name it in write= to allow it",
                table);
}

/* ---- receiving ---- */

/* Classes of SQLSTATE and what they mean to whoever asked. */
static enum err_code code_of(const char *state)
{
    if (str_eq(state, "57014"))
        return ERR_TIMEOUT;
    if (str_eq(state, "25006") || str_eq(state, "42501"))
        return ERR_FORBIDDEN;
    return str_starts(state, "08") || str_starts(state, "53") || str_starts(state, "57") ?
               ERR_UNAVAILABLE :
               ERR_VALIDATION;
}

static void take_error(struct op *op, const PGresult *res)
{
    const char *state = pq_lib.resultErrorField(res, PG_DIAG_SQLSTATE);
    const char *message = pq_lib.resultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = pq_lib.resultErrorField(res, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = pq_lib.resultErrorField(res, PG_DIAG_MESSAGE_HINT);
    if (op->err.code != ERR_NONE)
        return;
    if (state && str_eq(state, "57014"))
        err_set(&op->err, ERR_TIMEOUT, "the query took longer than %lld ms",
                (long long)op->q->timeout_ms);
    else
        err_set(&op->err, code_of(state ? state : ""), "%s%s%s%s%s",
                message ? message : "the statement failed", detail ? ": " : "",
                detail ? detail : "", hint ? "; hint: " : "", hint ? hint : "");
}

static bool is_guard(const PGresult *res)
{
    const char *state = pq_lib.resultErrorField(res, PG_DIAG_SQLSTATE);
    return state && str_eq(state, POSTGRES_GUARD_STATE);
}

static int add_columns(struct db_result *r, const PGresult *res, struct err *err)
{
    for (int i = 0; i < pq_lib.nfields(res); i++)
        if (db_result_add_column(r, pq_lib.fname(res, i), postgres_type_name(pq_lib.ftype(res, i)),
                                 err) < 0)
            return -err->code;
    return 0;
}

static int add_row(struct db_result *r, const PGresult *res, int row, struct err *err)
{
    int n = pq_lib.nfields(res);
    auto_free struct db_cell *cells = calloc((size_t)MAX_OF(n, 1), sizeof(*cells));
    auto_free struct buf *scratch = calloc((size_t)MAX_OF(n, 1), sizeof(*scratch));
    int e = cells && scratch ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    for (int i = 0; i < n && e == 0; i++) {
        buf_init(&scratch[i], (size_t)64 << 20);
        if (!pq_lib.getisnull(res, row, i))
            e = postgres_cell(pq_lib.ftype(res, i), pq_lib.getvalue(res, row, i),
                              (size_t)pq_lib.getlength(res, row, i), &scratch[i], &cells[i], err);
    }
    if (e == 0)
        e = db_result_add_row(r, cells, err);
    for (int i = 0; i < n && scratch; i++)
        buf_finish(&scratch[i]);
    return e;
}

/* False: no more is wanted of this query. */
static bool take_rows(struct op *op, const PGresult *res)
{
    struct db_result *r = &op->q->result;
    struct err err = ERR_INIT;
    op->answered = true;
    int e = op->described ? 0 : add_columns(r, res, &err);
    op->described = true;
    for (int i = 0; i < pq_lib.ntuples(res) && e == 0; i++)
        e = add_row(r, res, i, &err);
    if (e < 0 && !r->truncated)
        op->err = err;
    return e == 0;
}

static bool take_result(struct connection *c, const PGresult *res)
{
    struct op *op = c->op;
    enum step step = c->at < c->n_steps ? c->steps[c->at] : STEP_ROLLBACK;
    switch (pq_lib.resultStatus(res)) {
    case PGRES_SINGLE_TUPLE:
    case PGRES_TUPLES_OK:
        if (step == STEP_CATALOG)
            take_catalog(op, res);
        else if (step == STEP_CHANGES && op->err.code == ERR_NONE)
            take_changes(op, res);
        else if (step == STEP_QUERY && !take_rows(op, res) && !op->verdict.writes)
            return false; /* a write is only whole with its last row */
        if (step == STEP_QUERY && op->verdict.writes && *pq_lib.cmdTuples((PGresult *)res))
            op->q->result.affected_rows = atoll(pq_lib.cmdTuples((PGresult *)res));
        break;
    case PGRES_COMMAND_OK:
        if (step == STEP_QUERY) {
            op->answered = true;
            op->q->result.affected_rows = atoll(pq_lib.cmdTuples((PGresult *)res));
        } else if (step == STEP_COMMIT || step == STEP_ROLLBACK) {
            c->in_transaction = false;
        }
        break;
    case PGRES_FATAL_ERROR:
        if (step == STEP_GUARD && is_guard(res))
            op->suspect = true;
        else
            take_error(op, res);
        break;
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
        err_set(&op->err, ERR_FORBIDDEN, "COPY is refused");
        return false;
    default:
        break;
    }
    return true;
}

/* All results of what was sent are there. */
static void synced(struct connection *c)
{
    struct op *op = c->op;
    bool looked = op->looking, good = op->err.code == ERR_NONE, sent;
    op->looking = false;
    c->n_steps = 0;
    if (looked && good) {
        begin_op(c, op);
        return;
    }
    if (op->suspect && good && !op->answered) {
        sent = send_catalog(c) && sync_up(c);
    } else if (c->in_transaction) {
        sent = (good ? send_step(c, STEP_COMMIT, "COMMIT") :
                       send_step(c, STEP_ROLLBACK, "ROLLBACK")) &&
               sync_up(c);
    } else {
        struct postgres *pg = c->pg;
        c->op = NULL;
        end_op(op);
        advance(pg);
        return;
    }
    if (!sent)
        lose_connection(c);
}

/* Enough rows: the query ends well, and what its server still does is cancelled. */
static void stop_early(struct connection *c)
{
    struct postgres *pg = c->pg;
    struct op *op = TAKE_PTR(c->op);
    close_connection(c, true);
    end_op(op);
    advance(pg);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    if (status < 0 || ((events & UV_WRITABLE) && !flush(c)) || !pq_lib.consumeInput(c->conn)) {
        lose_connection(c);
        return;
    }
    if (!c->op) { /* an idle one says something: its server ends it */
        if (pq_lib.status(c->conn) != CONNECTION_OK)
            lose_connection(c);
        return;
    }
    while (!pq_lib.isBusy(c->conn)) {
        PGresult *res = pq_lib.getResult(c->conn);
        if (!res) {
            if (c->at + 1 > c->n_steps) {
                lose_connection(c);
                return;
            }
            c->at++;
            if (c->at < c->n_steps && c->steps[c->at] == STEP_QUERY)
                (void)pq_lib.setSingleRowMode(c->conn);
            continue;
        }
        bool is_sync = pq_lib.resultStatus(res) == PGRES_PIPELINE_SYNC;
        bool wanted = is_sync || take_result(c, res);
        pq_lib.clear(res);
        if (is_sync) {
            synced(c);
            return;
        }
        if (!wanted) {
            stop_early(c);
            return;
        }
    }
    if (pq_lib.status(c->conn) != CONNECTION_OK)
        lose_connection(c);
}

/* ---- the pool ---- */

static struct connection *idle_one(struct postgres *pg)
{
    for (struct connection *c = pg->all; c; c = c->next)
        if (!c->op)
            return c;
    return NULL;
}

/* Begins what waits, as far as there are connections for it. */
static void advance(struct postgres *pg)
{
    struct err err = ERR_INIT;
    while (pg->waiting && !pg->closing) {
        struct connection *c = idle_one(pg);
        if (!c) {
            if ((long long)pg->n < db_connections_max(&pg->base))
                (void)connect_one(pg, &err);
            return;
        }
        begin_op(c, next_op(pg));
    }
}

static void on_kick(uv_idle_t *kick)
{
    uv_idle_stop(kick);
    advance(kick->data);
}

/* Soon, from the loop: a callback never comes from within the call that asked. */
static void advance_later(struct postgres *pg)
{
    uv_idle_start(&pg->kick, on_kick);
}

static int begin(struct db_backend *b, struct db_query *q, struct err *err)
{
    struct postgres *pg = (struct postgres *)b;
    struct op *op = calloc(1, sizeof(*op));
    int r = op ? pq_lib_load(err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        op->q = q;
        r = prepare(pg, op, err);
    }
    if (r < 0) {
        op_free(op);
        return r;
    }
    q->op = op;
    wait_in_line(pg, op, false);
    advance_later(pg);
    return 0;
}

static void cancel(struct db_backend *b, struct db_query *q)
{
    struct postgres *pg = (struct postgres *)b;
    struct op *op = q->op;
    for (struct op **at = &pg->waiting; *at; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            if (!*at)
                pg->waiting_end = at;
            op_free(op);
            return;
        }
    for (struct connection *c = pg->all; c; c = c->next)
        if (c->op == op) {
            c->op = NULL;
            close_connection(c, true);
            break;
        }
    op_free(op);
    advance_later(pg);
}

static int open_backend(struct databases *d, const struct db_entry *entry, struct db_backend **ret,
                        struct err *err)
{
    struct postgres *pg = calloc(1, sizeof(*pg));
    (void)entry;
    if (!pg)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    pg->waiting_end = &pg->waiting;
    uv_idle_init(databases_loop(d), &pg->kick);
    pg->kick.data = pg;
    *ret = &pg->base;
    return 0;
}

static void kick_closed(uv_handle_t *handle)
{
    work_over(handle->data);
}

static void close_backend(struct db_backend *b)
{
    struct postgres *pg = (struct postgres *)b;
    pg->closing = true;
    pg->works++;
    while (pg->all)
        close_connection(pg->all, false);
    uv_close((uv_handle_t *)&pg->kick, kick_closed);
}

/* Tables of the schema public by their name, others by schema.table. */
static const char schema_sql[] =
    "SELECT CASE WHEN table_schema = 'public' THEN table_name ELSE table_schema || '.' || "
    "table_name END, column_name, CASE WHEN data_type = 'ARRAY' THEN ltrim(udt_name, '_') || "
    "'[]' WHEN data_type = 'USER-DEFINED' THEN udt_name ELSE data_type END, is_nullable, "
    "column_default FROM information_schema.columns "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND (:table::text IS NULL "
    "OR table_name = :table OR table_schema || '.' || table_name = :table) "
    "ORDER BY table_schema, table_name, ordinal_position";

/* Of the schema public: other tables are no part of the data set. */
static const char facts_sql[] =
    "SELECT 'comment', c.relname::text, a.attname::text, d.description, NULL "
    "FROM pg_catalog.pg_description d JOIN pg_catalog.pg_class c ON c.oid = d.objoid "
    "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid "
    "AND d.objsubid > 0 "
    "WHERE d.classoid = 'pg_catalog.pg_class'::regclass "
    "AND c.relnamespace = 'public'::regnamespace "
    "UNION ALL SELECT 'key', c.relname::text, a.attname::text, f.relname::text, b.attname::text "
    "FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid "
    "JOIN pg_catalog.pg_class f ON f.oid = k.confrelid "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.conkey[1] "
    "JOIN pg_catalog.pg_attribute b ON b.attrelid = f.oid AND b.attnum = k.confkey[1] "
    "WHERE k.contype = 'f' AND array_length(k.conkey, 1) = 1 "
    "AND c.relnamespace = 'public'::regnamespace AND f.relnamespace = 'public'::regnamespace "
    "ORDER BY 1, 2, 3";

static const char describe_sql[] =
    "SELECT 'server ' || current_setting('server_version') || CASE WHEN rolsuper THEN "
    "', as a superuser' ELSE '' END FROM pg_catalog.pg_roles WHERE rolname = current_user";

const struct database_ops database_postgres_ops = {
    .kind = "postgresql",
    .schemes = "postgresql postgres",
    .open = open_backend,
    .close = close_backend,
    .begin = begin,
    .cancel = cancel,
    .schema_sql = schema_sql,
    .facts_sql = facts_sql,
    .describe_sql = describe_sql,
};
