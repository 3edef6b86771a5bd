/* The databases of DATABASES, and queries under way; see database.h. */

#include "database/database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "database/database_impl.h"

#define QUERIES_MAX 256 /* under way or waiting, of one database */
#define GRACE_MS 2000   /* past the time-out that the server itself was told */
#define SCHEMA_TIMEOUT_MS 15000

struct database {
    struct databases *databases;
    struct db_entry entry;
    struct db_backend *backend;
    struct db_query *queries;
    size_t n_queries;
};

struct databases {
    uv_loop_t *loop;
    const struct config *cfg;
    struct database *all;
    size_t n;
    size_t open; /* backends that are not closed yet */
    size_t timers;
};

static const struct database_ops *const kinds[] = { &database_postgres_ops, &database_sqlite_ops,
                                                    &database_clickhouse_ops };

const char *database_kind_name(size_t i)
{
    return i < ARRAY_SIZE(kinds) ? kinds[i]->kind : NULL;
}

uv_loop_t *databases_loop(const struct databases *d)
{
    return d->loop;
}

uv_loop_t *db_loop(const struct db_backend *b)
{
    return b->databases->loop;
}

long long db_connections_max(const struct db_backend *b)
{
    return b->databases->cfg->database_connections;
}

const char *db_ca_file(const struct db_backend *b)
{
    const struct config *cfg = b->databases->cfg;
    return *cfg->curl_ca_bundle ? cfg->curl_ca_bundle : cfg->ssl_cert_file;
}

void db_backend_closed(struct db_backend *b)
{
    b->databases->open--;
}

/* ---- the setting ---- */

static const struct database_ops *kind_of(const char *url)
{
    char scheme[16];
    size_t n = strcspn(url, ":");
    if (n == 0 || n >= sizeof(scheme) || url[n] != ':')
        return NULL;
    memcpy(scheme, url, n);
    scheme[n] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_has_word(kinds[i]->schemes, scheme))
            return kinds[i];
    return NULL;
}

/* "a+b" → "a b" */
static char *word_list(const char *text)
{
    char *list = strdup(text);
    for (char *p = list; p && *p; p++)
        if (*p == '+')
            *p = ' ';
    return list;
}

static int read_option(struct db_entry *e, char *option, struct err *err)
{
    char *value = strchr(option, '=');
    if (value)
        *value++ = '\0';
    if (value && str_eq(option, "write"))
        e->writable = word_list(value);
    else if (value && str_eq(option, "redact"))
        e->redact = word_list(value);
    else if (value && str_eq(option, "superuser") && (str_eq(value, "yes") || str_eq(value, "no")))
        e->superuser = str_eq(value, "yes");
    else
        return err_set(err, ERR_CONFIG,
                       "the entry '%s' has an option that is none of write=table+table, "
                       "redact=parameter+parameter, superuser=yes",
                       e->name);
    return 0;
}

/* name=url;option=value;… */
static int read_entry(struct databases *d, char *text, struct err *err)
{
    char *url = strchr(text, '='), *rest = NULL;
    if (!url)
        return err_set(err, ERR_CONFIG, "entry %zu is not name=url", d->n + 1);
    *url++ = '\0';
    if (!str_is_identifier(text) || strlen(text) > 63)
        return err_set(err, ERR_CONFIG,
                       "entry %zu: a database's name has letters, digits and '_' only", d->n + 1);
    if (d->n == DATABASES_MAX)
        return err_set(err, ERR_CONFIG, "more than %d databases", DATABASES_MAX);
    for (size_t i = 0; i < d->n; i++)
        if (str_eq(d->all[i].entry.name, text))
            return err_set(err, ERR_CONFIG, "two databases are called '%s'", text);
    const char *first = strtok_r(url, ";", &rest);
    struct database *db = &d->all[d->n];
    db->databases = d;
    db->entry.name = strdup(text);
    db->entry.url = strdup(first ? first : "");
    d->n++;
    if (!db->entry.name || !db->entry.url)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (char *o; (o = strtok_r(NULL, ";", &rest));)
        if (read_option(&db->entry, o, err) < 0)
            return -err->code;
    const struct database_ops *ops = kind_of(db->entry.url);
    if (!ops)
        return err_set(err, ERR_CONFIG,
                       "the URL of '%s' does not begin with postgresql://, clickhouse:// or "
                       "sqlite://",
                       text);
    int r = ops->open(d, &db->entry, &db->backend, err);
    if (r < 0)
        return err_wrap(err, "'%s'", text);
    db->backend->ops = ops;
    db->backend->databases = d;
    db->backend->entry = &db->entry;
    d->open++;
    return 0;
}

int databases_create(uv_loop_t *loop, const struct config *cfg, struct databases **ret,
                     struct err *err)
{
    struct databases *d = calloc(1, sizeof(*d));
    auto_free char *text = strdup(cfg->databases);
    char *rest = NULL;
    int r = d && text ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && !(d->all = calloc(DATABASES_MAX, sizeof(*d->all))))
        r = err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        free(d);
        return r;
    }
    d->loop = loop;
    d->cfg = cfg;
    for (char *e = strtok_r(text, ",\n", &rest); e && r == 0; e = strtok_r(NULL, ",\n", &rest)) {
        e += strspn(e, " \t");
        if (*e)
            r = read_entry(d, e, err);
    }
    if (r < 0) {
        databases_destroy(d);
        return err_wrap(err, "DATABASES");
    }
    *ret = d;
    return 0;
}

void databases_destroy(struct databases *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++)
        while (d->all[i].queries)
            db_query_cancel(d->all[i].queries);
    for (size_t i = 0; i < d->n; i++)
        if (d->all[i].backend)
            d->all[i].backend->ops->close(d->all[i].backend);
    while (d->open > 0 || d->timers > 0)
        uv_run(d->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < d->n; i++) {
        struct db_entry *e = &d->all[i].entry;
        if (e->url)
            explicit_bzero(e->url, strlen(e->url));
        free(e->name);
        free(e->url);
        free(e->writable);
        free(e->redact);
    }
    free(d->all);
    free(d);
}

size_t databases_count(const struct databases *d)
{
    return d->n;
}

struct database *databases_get(const struct databases *d, size_t i)
{
    return &d->all[i];
}

int databases_find(const struct databases *d, const char *name, struct database **ret,
                   struct err *err)
{
    auto_buf struct buf names = BUF_INIT(ERR_MESSAGE_MAX);
    char shown[STR_SHOWN_SIZE];
    if (d->n == 0)
        return err_set(err, ERR_NOT_FOUND, "no database is configured (DATABASES)");
    for (size_t i = 0; i < d->n; i++) {
        if (!name || !*name || str_eq(name, d->all[i].entry.name)) {
            *ret = &d->all[i];
            return 0;
        }
        (void)buf_printf(&names, NULL, "%s%s", i ? ", " : "", d->all[i].entry.name);
    }
    return err_set(err, ERR_NOT_FOUND, "there is no database '%s'; there are: %s",
                   str_show(name, strlen(name), shown, sizeof(shown)), buf_cstr(&names));
}

const char *database_name(const struct database *db)
{
    return db->entry.name;
}

const char *database_kind(const struct database *db)
{
    return db->backend->ops->kind;
}

json_t *database_writable(const struct database *db)
{
    json_t *tables = json_array();
    auto_free char *list = strdup(db->entry.writable ? db->entry.writable : "");
    char *rest = NULL;
    for (char *t = list ? strtok_r(list, " ", &rest) : NULL; t; t = strtok_r(NULL, " ", &rest))
        json_array_append_new(tables, json_text(t, strlen(t)));
    return tables;
}

bool database_redacts(const struct database *db, const char *parameter)
{
    return db->entry.redact && str_has_word(db->entry.redact, parameter);
}

/* ---- queries ---- */

static void timer_closed(uv_handle_t *handle)
{
    struct databases *d = handle->data;
    d->timers--;
    free(handle);
}

static void stop_timer(struct db_query *q)
{
    uv_timer_t *t = TAKE_PTR(q->timer);
    if (!t)
        return;
    uv_timer_stop(t);
    t->data = q->db->databases;
    uv_close((uv_handle_t *)t, timer_closed);
}

static void free_query(struct db_query *q)
{
    struct database *db = q->db;
    stop_timer(q);
    if (q->prev)
        q->prev->next = q->next;
    else
        db->queries = q->next;
    if (q->next)
        q->next->prev = q->prev;
    db->n_queries--;
    db_result_finish(&q->result);
    json_decref(q->params);
    free(q->sql);
    free(q);
}

void db_query_end(struct db_query *q, const struct err *err)
{
    stop_timer(q);
    q->done(err ? NULL : &q->result, err, q->arg);
    free_query(q);
}

void db_query_cancel(struct db_query *q)
{
    if (!q)
        return;
    q->db->backend->ops->cancel(q->db->backend, q);
    free_query(q);
}

static void on_late(uv_timer_t *timer)
{
    struct db_query *q = timer->data;
    struct err err = ERR_INIT;
    err_set(&err, ERR_TIMEOUT, "the query took longer than %lld ms", (long long)q->timeout_ms);
    q->db->backend->ops->cancel(q->db->backend, q);
    db_query_end(q, &err);
}

static int start_timer(struct db_query *q, struct err *err)
{
    struct databases *d = q->db->databases;
    uv_timer_t *t = malloc(sizeof(*t));
    if (!t || uv_timer_init(d->loop, t) < 0) {
        free(t);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    d->timers++;
    t->data = q;
    q->timer = t;
    uv_timer_start(t, on_late, (uint64_t)(q->timeout_ms + GRACE_MS), 0);
    return 0;
}

static int64_t within(int64_t wanted, int64_t most)
{
    return wanted <= 0 ? most : MIN_OF(wanted, most);
}

static int start_query(struct database *db, const struct db_request *req, bool internal,
                       db_done_fn done, void *arg, struct db_query **ret, struct err *err)
{
    const struct config *cfg = db->databases->cfg;
    if (strlen(req->sql) > DB_SQL_MAX)
        return err_set(err, ERR_TOO_LARGE, "a statement has at most %u bytes", DB_SQL_MAX);
    if (req->params &&
        (!json_is_object(req->params) || json_object_size(req->params) > DB_PARAMS_MAX))
        return err_set(err, ERR_VALIDATION, "parameters are an object of at most %d members",
                       DB_PARAMS_MAX);
    if (db->n_queries >= QUERIES_MAX)
        return err_set(err, ERR_UNAVAILABLE, "%d queries of '%s' are under way", QUERIES_MAX,
                       db->entry.name);
    struct db_query *q = calloc(1, sizeof(*q));
    if (!q)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    q->db = db;
    q->sql = strdup(req->sql);
    q->params = req->params ? json_deep_copy(req->params) : json_object();
    q->internal = internal;
    q->timeout_ms = within(req->timeout_ms, cfg->database_timeout_s * 1000);
    q->done = done;
    q->arg = arg;
    db_result_init(&q->result, within(req->max_rows, cfg->database_max_rows),
                   within(req->max_bytes, cfg->database_max_bytes));
    q->next = db->queries;
    if (q->next)
        q->next->prev = q;
    db->queries = q;
    db->n_queries++;
    int r = q->sql && q->params ? start_timer(q, err) :
                                  err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = db->backend->ops->begin(db->backend, q, err);
    if (r < 0) {
        free_query(q);
        return r;
    }
    *ret = q;
    return 0;
}

int database_query(struct database *db, const struct db_request *req, db_done_fn done, void *arg,
                   struct db_query **ret, struct err *err)
{
    return start_query(db, req, false, done, arg, ret, err);
}

/* ---- schema ---- */

int database_schema(struct database *db, const char *table, db_done_fn done, void *arg,
                    struct db_query **ret, struct err *err)
{
    auto_json json_t *params = json_pack("{s:s?}", "table", table && *table ? table : NULL);
    struct db_request req = { .sql = db->backend->ops->schema_sql,
                              .params = params,
                              .timeout_ms = SCHEMA_TIMEOUT_MS };
    if (!params)
        return err_set(err, ERR_VALIDATION, "the table's name is not valid UTF-8");
    return start_query(db, &req, true, done, arg, ret, err);
}

int database_facts(struct database *db, db_done_fn done, void *arg, struct db_query **ret,
                   struct err *err)
{
    struct db_request req = { .sql = db->backend->ops->facts_sql, .timeout_ms = SCHEMA_TIMEOUT_MS };
    return start_query(db, &req, true, done, arg, ret, err);
}

json_t *database_schema_json(const struct db_result *schema)
{
    auto_json json_t *rows = NULL;
    json_t *names = json_array(), *tables = json_object(), *row;
    struct err err = ERR_INIT;
    size_t i;
    auto_json json_t *j = json_pack("{s:o, s:o}", "tables", names, "schema", tables);
    if (!j || db_result_json(schema, &rows, &err) < 0)
        return NULL;
    json_array_foreach(json_object_get(rows, "rows"), i, row) {
        const char *table = json_string_value(json_array_get(row, 0));
        json_t *columns = table ? json_object_get(tables, table) : NULL;
        if (!table)
            continue;
        if (!columns) {
            columns = json_array();
            json_object_set_new(tables, table, columns);
            json_array_append_new(names, json_string(table));
        }
        json_array_append_new(
            columns, json_pack("{s:O, s:O, s:O, s:O}", "column_name", json_array_get(row, 1),
                               "data_type", json_array_get(row, 2), "is_nullable",
                               json_array_get(row, 3), "column_default", json_array_get(row, 4)));
    }
    json_object_set_new(j, "total_tables", json_integer((json_int_t)json_array_size(names)));
    return TAKE_PTR(j);
}

/* ---- doctor ---- */

struct check {
    bool over;
    char detail[512];
    struct err err;
};

static void on_checked(const struct db_result *result, const struct err *err, void *arg)
{
    struct check *c = arg;
    struct db_cell cell = { .data = NULL };
    c->over = true;
    if (err) {
        c->err = *err;
        return;
    }
    struct db_cursor at = { .column = result->columns };
    if (result->n_columns > 0 && db_cursor_next(&at, &cell) && cell.data)
        snprintf(c->detail, sizeof(c->detail), "%.*s", (int)cell.len, cell.data);
}

int database_check(struct database *db, char *ret_detail, size_t n, struct err *err)
{
    struct check c = { .err = ERR_INIT };
    struct db_query *q;
    struct db_request req = { .sql = db->backend->ops->describe_sql, .timeout_ms = 10000 };
    int r = start_query(db, &req, true, on_checked, &c, &q, err);
    while (r == 0 && !c.over)
        uv_run(db->databases->loop, UV_RUN_ONCE);
    if (r < 0)
        return r;
    if (c.err.code != ERR_NONE) {
        *err = c.err;
        return -err->code;
    }
    snprintf(ret_detail, n, "%s: %s%s%s", database_kind(db), c.detail,
             db->entry.writable ? "; may write to: " : "; read-only",
             db->entry.writable ? db->entry.writable : "");
    return 0;
}
