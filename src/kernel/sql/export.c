/*
 * The statement is wrapped: SELECT … FROM (statement) AS "r"("c0", "c1", …). The outer SELECT
 * gives each column its name back and the form that the format wants: JSON text for nested values,
 * text of formulas defused. The names "c0" … keep columns of one name apart.
 */

#include "kernel/sql/export.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/export_xlsx.h"
#include "kernel/sql/sql_impl.h"
#include "plan/sql_trim.h"

#define PIPE_BYTES (1 << 20)
#define STATEMENT_MAX (8u << 20)

struct sql_export {
    struct sql_engine *engine;
    int in, out; /* of the pipe: the thread writes to in */
    char path[32];
    struct buf statement;
    struct export_column *columns;
    size_t n_columns;
    enum export_format format;
    pthread_t thread;
    bool is_running;
    char *failure; /* DuckDB's or ours; NULL: it went well */
};

static const char *const format_names[_EXPORT_FORMAT_MAX] = {
    [EXPORT_CSV] = "csv",
    [EXPORT_JSON] = "json",
    [EXPORT_PARQUET] = "parquet",
    [EXPORT_XLSX] = "xlsx",
};

int export_format_from_name(const char *name)
{
    for (int i = 0; i < _EXPORT_FORMAT_MAX; i++)
        if (str_eq(name, format_names[i]))
            return i;
    return -1;
}

int sql_export_create(struct sql_export **ret, struct err *err)
{
    struct sql_export *x = calloc(1, sizeof(*x));
    int fds[2];

    if (!x)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (pipe2(fds, O_CLOEXEC) < 0) {
        free(x);
        return err_errno(err, ERR_INTERNAL, errno, "making a pipe");
    }
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* smaller ones only take longer */
    x->out = fds[0];
    x->in = fds[1];
    buf_init(&x->statement, STATEMENT_MAX);
    snprintf(x->path, sizeof(x->path), "/dev/fd/%d", x->in);
    *ret = x;
    return 0;
}

const char *sql_export_path(const struct sql_export *x)
{
    return x->path;
}

/* ---- the statement ---- */

static enum export_kind kind_of(duckdb_type type)
{
    switch (type) {
    case DUCKDB_TYPE_BOOLEAN:
        return EXPORT_BOOLEAN;
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_DECIMAL:
        return EXPORT_NUMBER;
    case DUCKDB_TYPE_DATE:
        return EXPORT_DATE;
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_S:
    case DUCKDB_TYPE_TIMESTAMP_MS:
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return EXPORT_TIMESTAMP;
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
    case DUCKDB_TYPE_STRUCT:
    case DUCKDB_TYPE_MAP:
    case DUCKDB_TYPE_UNION:
        return EXPORT_NESTED;
    default:
        return EXPORT_TEXT;
    }
}

/* A column of the outer SELECT. */
static int add_column(struct buf *b, const struct export_request *req, size_t i,
                      const struct export_column *c, struct err *err)
{
    /*
     * What a spreadsheet takes for a formula, and a formula may start programs: = + - @, a tab or a
     * carriage return come first. As numbers: texts of one character would take a third of the
     * time.
     */
    static const char defused[] =
        "CASE WHEN ascii(\"c%zu\") IN (61, 43, 45, 64, 9, 13) AND "
        "try_cast(\"c%zu\" AS DOUBLE) IS NULL THEN '''' || \"c%zu\" ELSE \"c%zu\" END";
    bool is_flat = req->format == EXPORT_CSV || req->format == EXPORT_XLSX;
    int r = buf_append_str(b, i ? ", " : "", err);

    if (r < 0)
        return r;
    if (is_flat && c->kind == EXPORT_NESTED)
        r = buf_printf(b, err, "CAST(to_json(\"c%zu\") AS VARCHAR)", i);
    else if (req->format == EXPORT_XLSX)
        r = buf_printf(b, err, "CAST(\"c%zu\" AS VARCHAR)", i);
    else if (req->format == EXPORT_CSV && c->is_varchar && !req->plain)
        r = buf_printf(b, err, defused, i, i, i, i);
    else
        r = buf_printf(b, err, "\"c%zu\"", i);
    if (r == 0)
        r = buf_append_str(b, " AS ", err);
    return r < 0 ? r : buf_append_quoted(b, "\"", c->name, err);
}

static int write_statement(struct sql_export *x, const struct export_request *req, struct err *err)
{
    static const char *const options[_EXPORT_FORMAT_MAX] = {
        [EXPORT_CSV] = "FORMAT csv, HEADER, new_line '\\r\\n'",
        [EXPORT_JSON] = "FORMAT json, ARRAY true",
        [EXPORT_PARQUET] = "FORMAT parquet",
    };
    const char *copy = options[req->format];
    struct buf *b = &x->statement;
    int r = buf_append_str(b, copy ? "COPY (SELECT " : "SELECT ", err);

    for (size_t i = 0; r == 0 && i < x->n_columns; i++)
        r = add_column(b, req, i, &x->columns[i], err);
    if (r == 0)
        r = buf_printf(b, err, " FROM (%.*s\n) AS \"r\"(",
                       (int)sql_trimmed(req->sql, strlen(req->sql)), req->sql);
    for (size_t i = 0; r == 0 && i < x->n_columns; i++)
        r = buf_printf(b, err, "%s\"c%zu\"", i ? ", " : "", i);
    if (r == 0)
        r = buf_append(b, ")", 1, err);
    return r < 0 || !copy ? r : buf_printf(b, err, ") TO '%s' (%s)", x->path, copy);
}

static int read_columns(struct sql_export *x, duckdb_prepared_statement statement, struct err *err)
{
    x->n_columns = duckdb_prepared_statement_column_count(statement);
    x->columns = calloc(x->n_columns ? x->n_columns : 1, sizeof(*x->columns));
    if (!x->columns)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the columns");
    for (size_t i = 0; i < x->n_columns; i++) {
        const char *name = duckdb_prepared_statement_column_name(statement, i);
        duckdb_type type = duckdb_prepared_statement_column_type(statement, i);

        x->columns[i].name = strdup(name ? name : "");
        duckdb_free((void *)name);
        x->columns[i].kind = kind_of(type);
        x->columns[i].is_varchar = type == DUCKDB_TYPE_VARCHAR;
        if (!x->columns[i].name)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the columns");
    }
    return 0;
}

/* ---- the thread ---- */

static void *work(void *arg)
{
    struct sql_export *x = arg;
    auto_result duckdb_result result = { 0 };

    if (x->format == EXPORT_XLSX) {
        x->failure = export_xlsx(x->engine, buf_cstr(&x->statement), x->columns, x->n_columns,
                                 x->in);
    } else if (duckdb_query(x->engine->con, buf_cstr(&x->statement), &result) != DuckDBSuccess) {
        const char *message = duckdb_result_error(&result);
        x->failure = strdup(message ? message : "the query failed and DuckDB gave no reason");
    }
    close(x->in);
    return NULL;
}

int sql_export_begin(struct sql_export *x, struct sql_engine *e, const struct export_request *req,
                     struct result *out, bool *ret_begun, struct err *err)
{
    duckdb_prepared_statement statement = NULL;

    *ret_begun = false;
    x->engine = e;
    x->format = req->format;
    sql_begin(e);
    int r = sql_prepare_select(e, req->sql, &statement, out, err);
    if (r == 0)
        r = read_columns(x, statement, err);
    if (statement)
        duckdb_destroy_prepare(&statement);
    if (r == 0)
        r = write_statement(x, req, err);
    if (r == 0 && sql_must_stop(e))
        r = sql_write_failure(e, "INTERRUPT Error: Interrupted!", out, err) < 0 ? -ERR_INTERNAL : 1;
    if (r != 0) {
        sql_end(e);
        return r < 0 ? r : 0;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_create(&x->thread, NULL, work, x) != 0)
        return err_set(err, ERR_INTERNAL, "starting a thread failed");
    x->is_running = *ret_begun = true;
    return 0;
}

/* Nothing more comes. */
static int finish(struct sql_export *x, struct result *out, struct err *err)
{
    int r = 0;

    if (x->is_running)
        (void)pthread_join(x->thread, NULL);
    x->is_running = false;
    if (x->failure)
        r = sql_write_failure(x->engine, x->failure, out, err);
    sql_end(x->engine);
    return r;
}

int sql_export_read(struct sql_export *x, char *buf, size_t max, size_t *ret_n, struct result *out,
                    struct err *err)
{
    size_t n = 0;

    while (n < max) {
        ssize_t got = read(x->out, buf + n, max - n);
        if (got < 0 && errno == EINTR)
            continue; /* the query was told, too: it ends */
        if (got < 0)
            return err_errno(err, ERR_INTERNAL, errno, "reading from the pipe");
        if (got == 0)
            break;
        n += (size_t)got;
    }
    /*
     * A failure is told behind the last bytes, and before them when the first piece is all there
     * is.
     */
    if (n < max) {
        int r = finish(x, out, err);
        if (r < 0)
            return r;
        if (x->failure)
            n = 0;
    }
    *ret_n = n;
    return 0;
}
