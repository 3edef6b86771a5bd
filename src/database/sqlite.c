/*
 * SQLite files, asked by worker processes (sqlite_worker.h). A worker is kept for the next query;
 * one that is cancelled is killed. No descriptor, setting or credential of `riddle` reaches it.
 */

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "database/database_impl.h"
#include "database/sqlite_worker.h"

#define CELLS_MAX_BYTES ((size_t)64 << 20)

struct worker {
    struct sqlite *lite;
    struct worker *next;
    uv_process_t process;
    uv_pipe_t in, out;
    unsigned handles; /* that are not closed yet */
    struct db_query *q;
    struct buf line;
    json_t *head; /* of the answer, once its line is there */
    size_t column;
    bool ended;
};

struct sqlite {
    struct db_backend base;
    char path[PATH_MAX];
    struct worker *all;
    size_t n;
    struct db_query *waiting[256]; /* in order */
    size_t n_waiting;
    size_t handles;
    uv_idle_t kick;
    bool closing;
};

static void advance(struct sqlite *lite);

/* ---- workers ---- */

static void gone(struct sqlite *lite)
{
    lite->handles--;
    if (!lite->closing || lite->handles > 0)
        return;
    db_backend_closed(&lite->base);
    free(lite);
}

static void handle_closed(uv_handle_t *handle)
{
    struct worker *w = handle->data;
    struct sqlite *lite = w->lite;
    if (--w->handles == 0) {
        buf_finish(&w->line);
        json_decref(w->head);
        free(w);
    }
    gone(lite);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

/* Whatever it does. Its process is reaped by libuv before the last handle closes. */
static void end_worker(struct worker *w)
{
    struct sqlite *lite = w->lite;
    if (w->ended)
        return;
    w->ended = true;
    w->q = NULL;
    for (struct worker **at = &lite->all; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    lite->n--;
    close_handle((uv_handle_t *)&w->in);
    close_handle((uv_handle_t *)&w->out);
    if (uv_process_kill(&w->process, SIGKILL) < 0)
        close_handle((uv_handle_t *)&w->process); /* it has ended; else on_exit() closes */
}

static void fail(struct worker *w, const char *why)
{
    struct db_query *q = w->q;
    struct sqlite *lite = w->lite;
    struct err err = ERR_INIT;
    end_worker(w);
    if (q) {
        err_set(&err, ERR_UNAVAILABLE, "the database '%s' could not be asked: %s",
                lite->base.entry->name, why);
        db_query_end(q, &err);
    }
    advance(lite);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct worker *w = process->data;
    (void)status;
    (void)signal;
    close_handle((uv_handle_t *)process);
    if (!w->ended)
        fail(w, "its process ended");
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    (void)handle;
    *ret = uv_buf_init(malloc(size), (unsigned)size);
    if (!ret->base)
        ret->len = 0;
}

/* ---- answers ---- */

static int take_head(struct worker *w, const char *line, size_t len, struct err *err)
{
    struct db_result *r = &w->q->result;
    int e = json_parse(line, len, &w->head, err);
    if (e < 0)
        return e;
    const json_t *columns = json_object_get(w->head, "columns");
    const json_t *types = json_object_get(w->head, "types");
    for (size_t i = 0; i < json_array_size(columns) && e == 0; i++)
        e = db_result_add_column(r, json_string_value(json_array_get(columns, i)),
                                 json_string_value(json_array_get(types, i)), err);
    r->n_rows = json_integer_value(json_object_get(w->head, "rows"));
    r->truncated = json_is_true(json_object_get(w->head, "truncated"));
    r->has_private = true; /* look for it */
    if (!json_object_get(w->head, "error"))
        r->affected_rows = json_integer_value(json_object_get(w->head, "affected"));
    w->column = 0;
    return e;
}

static void finish_answer(struct worker *w)
{
    struct sqlite *lite = w->lite;
    struct db_query *q = TAKE_PTR(w->q);
    const json_t *error = json_object_get(w->head, "error");
    const char *type = json_string_value(json_object_get(error, "type"));
    const char *message = json_string_value(json_object_get(error, "message"));
    struct err err = ERR_INIT;
    for (int code = 1; error && code < ERR_CODE_MAX; code++)
        if (str_eq(type, err_name((enum err_code)code)))
            err_set(&err, (enum err_code)code, "%s", message ? message : "");
    if (err.code == ERR_UNAVAILABLE)
        err_wrap(&err, "the database '%s' could not be asked", lite->base.entry->name);
    json_decref(TAKE_PTR(w->head));
    buf_clear(&w->line);
    db_query_end(q, error ? &err : NULL);
    advance(lite);
}

/* Cells of the columns, as many bytes as the head says. True: the answer is whole. */
static bool take_cells(struct worker *w, const char **data, size_t *len, struct err *err)
{
    const json_t *bytes = json_object_get(w->head, "bytes");
    struct db_result *r = &w->q->result;
    for (; w->column < r->n_columns; w->column++) {
        struct buf *cells = &r->columns[w->column].cells;
        size_t want = (size_t)json_integer_value(json_array_get(bytes, w->column));
        size_t n = MIN_OF(want - cells->len, *len);
        if (n > 0 && buf_append(cells, *data, n, err) < 0)
            return false;
        *data += n;
        *len -= n;
        if (cells->len < want)
            return false;
    }
    return true;
}

static void take(struct worker *w, const char *data, size_t len)
{
    struct err err = ERR_INIT;
    const char *end = NULL;
    if (!w->q) {
        fail(w, "it spoke unasked");
        return;
    }
    if (!w->head) {
        end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        int r = buf_append(&w->line, data, n, &err);
        if (r == 0 && end)
            r = take_head(w, buf_cstr(&w->line), w->line.len, &err);
        if (r < 0) {
            fail(w, err.message);
            return;
        }
        if (!end)
            return;
        data = end + 1;
        len -= n + 1;
    }
    bool whole = take_cells(w, &data, &len, &err);
    if (err.code != ERR_NONE)
        fail(w, err.message);
    else if (whole)
        finish_answer(w);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct worker *w = stream->data;
    if (n > 0)
        take(w, buf->base, (size_t)n);
    else if (n < 0 && !w->ended)
        fail(w, "its process ended");
    free(buf->base);
}

/* ---- asking ---- */

struct sending {
    uv_write_t req;
    struct buf text;
};

static void on_sent(uv_write_t *req, int status)
{
    struct sending *s = req->data;
    (void)status; /* a worker that is gone is told by its end */
    buf_finish(&s->text);
    free(s);
}

static int ask(struct worker *w, struct db_query *q, struct err *err)
{
    const struct sqlite *lite = w->lite;
    struct sending *s = calloc(1, sizeof(*s));
    auto_json json_t *j = json_pack(
        "{s:s, s:s?, s:b, s:s, s:O, s:I, s:I, s:I}", "path", lite->path, "writable",
        lite->base.entry->writable, "internal", q->internal, "sql", q->sql, "params", q->params,
        "timeout_ms", (json_int_t)q->timeout_ms, "max_rows", (json_int_t)q->result.max_rows,
        "max_bytes", (json_int_t)q->result.max_bytes);
    if (!s || !j) {
        free(s);
        return err_set(err, ERR_VALIDATION, "the statement is not valid UTF-8");
    }
    buf_init(&s->text, SQLITE_WORKER_LINE_MAX);
    s->req.data = s;
    int r = json_write(j, &s->text, err);
    if (r == 0)
        r = buf_append_str(&s->text, "\n", err);
    uv_buf_t buf = uv_buf_init(s->text.data, (unsigned)s->text.len);
    if (r == 0 && uv_write(&s->req, (uv_stream_t *)&w->in, &buf, 1, on_sent) < 0)
        r = err_set(err, ERR_UNAVAILABLE, "its process does not listen");
    if (r < 0) {
        buf_finish(&s->text);
        free(s);
        return r;
    }
    w->q = q;
    q->op = w;
    return 0;
}

static struct worker *start_worker(struct sqlite *lite)
{
    struct worker *w = calloc(1, sizeof(*w));
    char program[] = "/proc/self/exe", name[] = "riddle", verb[] = "--sqlite-worker";
    char locale[] = "LC_ALL=C.UTF-8";
    char *args[] = { name, verb, NULL }, *env[] = { locale, NULL };
    uv_loop_t *loop = db_loop(&lite->base);
    if (!w)
        return NULL;
    w->lite = lite;
    buf_init(&w->line, SQLITE_WORKER_LINE_MAX);
    uv_pipe_init(loop, &w->in, 0);
    uv_pipe_init(loop, &w->out, 0);
    w->in.data = w->out.data = w->process.data = w;
    uv_stdio_container_t stdio[] = {
        { .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&w->in },
        { .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&w->out },
        { .flags = UV_IGNORE },
    };
    uv_process_options_t options = { .exit_cb = on_exit_of,
                                     .file = program,
                                     .args = args,
                                     .env = env,
                                     .stdio = stdio,
                                     .stdio_count = ARRAY_SIZE(stdio) };
    int r = uv_spawn(loop, &w->process, &options);
    w->handles = 3;
    lite->handles += 3;
    if (r < 0) {
        w->ended = true;
        close_handle((uv_handle_t *)&w->in);
        close_handle((uv_handle_t *)&w->out);
        close_handle((uv_handle_t *)&w->process);
        return NULL;
    }
    uv_read_start((uv_stream_t *)&w->out, on_alloc, on_read);
    w->next = lite->all;
    lite->all = w;
    lite->n++;
    return w;
}

static struct worker *free_worker(struct sqlite *lite)
{
    for (struct worker *w = lite->all; w; w = w->next)
        if (!w->q)
            return w;
    return (long long)lite->n < db_connections_max(&lite->base) ? start_worker(lite) : NULL;
}

static void remove_waiting(struct sqlite *lite, size_t i)
{
    lite->n_waiting--;
    memmove(lite->waiting + i, lite->waiting + i + 1,
            (lite->n_waiting - i) * sizeof(lite->waiting[0]));
}

static void advance(struct sqlite *lite)
{
    while (lite->n_waiting > 0 && !lite->closing) {
        struct err err = ERR_INIT;
        struct db_query *q = lite->waiting[0];
        struct worker *w = free_worker(lite);
        if (!w && lite->n > 0)
            return; /* until one is free */
        remove_waiting(lite, 0);
        int r = w ? ask(w, q, &err) :
                    err_set(&err, ERR_UNAVAILABLE, "no process could be started for the database");
        if (r < 0)
            db_query_end(q, &err);
    }
}

static void on_kick(uv_idle_t *kick)
{
    uv_idle_stop(kick);
    advance(kick->data);
}

static int begin(struct db_backend *b, struct db_query *q, struct err *err)
{
    struct sqlite *lite = (struct sqlite *)b;
    if (lite->n_waiting == ARRAY_SIZE(lite->waiting))
        return err_set(err, ERR_UNAVAILABLE, "too many queries wait");
    lite->waiting[lite->n_waiting++] = q;
    uv_idle_start(&lite->kick, on_kick);
    return 0;
}

static void cancel(struct db_backend *b, struct db_query *q)
{
    struct sqlite *lite = (struct sqlite *)b;
    for (size_t i = 0; i < lite->n_waiting; i++)
        if (lite->waiting[i] == q) {
            remove_waiting(lite, i);
            return;
        }
    end_worker(q->op);
    uv_idle_start(&lite->kick, on_kick);
}

static int open_backend(struct databases *d, const struct db_entry *entry, struct db_backend **ret,
                        struct err *err)
{
    const char *path = strstr(entry->url, "://");
    struct sqlite *lite = calloc(1, sizeof(*lite));
    if (!lite)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    path = path ? path + 3 : "";
    if (*path != '/' || strlen(path) >= sizeof(lite->path)) {
        free(lite);
        return err_set(err, ERR_CONFIG, "a URL of SQLite is sqlite:///path/of/file");
    }
    memcpy(lite->path, path, strlen(path) + 1);
    uv_idle_init(databases_loop(d), &lite->kick);
    lite->kick.data = lite;
    *ret = &lite->base;
    return 0;
}

static void kick_closed(uv_handle_t *handle)
{
    gone(handle->data);
}

static void close_backend(struct db_backend *b)
{
    struct sqlite *lite = (struct sqlite *)b;
    lite->closing = true;
    lite->handles++;
    while (lite->all)
        end_worker(lite->all);
    uv_close((uv_handle_t *)&lite->kick, kick_closed);
}

static const char schema_sql[] =
    "SELECT m.name, p.name, CASE WHEN p.type = '' THEN 'any' ELSE lower(p.type) END, "
    "CASE WHEN p.\"notnull\" OR p.pk THEN 'NO' ELSE 'YES' END, p.dflt_value "
    "FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type IN ('table', 'view') "
    "AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND (:table IS NULL OR m.name = :table) "
    "ORDER BY m.name, p.cid";

static const char facts_sql[] =
    "SELECT 'key', m.name, f.\"from\", f.\"table\", coalesce(f.\"to\", (SELECT p.name FROM "
    "pragma_table_info(f.\"table\") p WHERE p.pk = 1)) FROM sqlite_master m, "
    "pragma_foreign_key_list(m.name) f WHERE m.type = 'table' AND NOT EXISTS (SELECT 1 FROM "
    "pragma_foreign_key_list(m.name) g WHERE g.id = f.id AND g.seq > 0) ORDER BY 2, 3";

const struct database_ops database_sqlite_ops = {
    .kind = "sqlite",
    .schemes = "sqlite",
    .open = open_backend,
    .close = close_backend,
    .begin = begin,
    .cancel = cancel,
    .schema_sql = schema_sql,
    .facts_sql = facts_sql,
    .describe_sql = "SELECT 'SQLite ' || sqlite_version() || ', ' || count(*) || ' tables' FROM "
                    "sqlite_master WHERE type = 'table'",
};
