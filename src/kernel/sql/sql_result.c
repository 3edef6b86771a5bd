/*
 * The result of a statement: executed as a stream, its rows written as JSON until a limit is met,
 * or its failure sorted into what the query did wrong, what ran out, and what was asked to stop.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_impl.h"
#include "kernel/sql/sql_value.h"

#define MAX_COLUMNS_BYTES (8 * 1024 * 1024) /* of one type's name */
#define BEHIND_ROWS_BYTES 256               /* room for the members that follow the rows */

static void cleanup_pending(duckdb_pending_result *p)
{
    if (*p)
        duckdb_destroy_pending(p);
}

#define auto_pending __attribute__((cleanup(cleanup_pending)))

/* ---- failures ------------------------------------------------------------------------------------------------------ */

enum sql_failure sql_classify(const struct sql_engine *e, const char *message)
{
    if (str_starts(message, "FATAL Error") || strstr(message, "database has been invalidated"))
        return SQL_FATAL;
    if (sql_must_stop(e) || str_starts(message, "INTERRUPT Error"))
        return SQL_INTERRUPTED;
    if (str_starts(message, "Out of Memory Error") || strstr(message, "std::bad_alloc") ||
        strstr(message, "failed to allocate") || strstr(message, "could not allocate"))
        return SQL_NO_MEMORY;
    return SQL_FAILED;
}

int sql_write_failure(struct sql_engine *e, const char *message, struct result *out,
                      struct err *err)
{
    static const char type[] = "SQL_EXECUTION_ERROR";

    if (!message || !*message)
        message = "the query failed and DuckDB gave no reason";
    switch (sql_classify(e, message)) {
    case SQL_FATAL:
        return err_set(err, ERR_INTERNAL, "DuckDB: %s", message);
    case SQL_INTERRUPTED:
        result_fail(out, WIRE_VERDICT_INTERRUPTED, type, "the query was interrupted");
        break;
    case SQL_NO_MEMORY: {
        auto_buf struct buf text = BUF_INIT(RESULT_MESSAGE_MAX);
        int r = buf_printf(
            &text, err, "%.*s\nAggregate or filter earlier, or select fewer columns.",
            (int)str_utf8_cut(message, strlen(message), RESULT_MESSAGE_MAX / 2), message);

        if (r < 0)
            return r;
        result_fail(out, WIRE_VERDICT_MEMORY, type, buf_cstr(&text));
        break;
    }
    default:
        result_fail(out, WIRE_VERDICT_ERROR, type, message);
    }
    return 0;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

struct columns {
    struct sql_type **types;
    idx_t n;
};

static void cleanup_columns(struct columns *c)
{
    for (idx_t i = 0; c->types && i < c->n; i++)
        sql_type_destroy(c->types[i]);
    free(c->types);
}

static int read_columns(duckdb_result *result, struct columns *ret, struct err *err)
{
    ret->n = duckdb_column_count(result);
    ret->types = calloc(ret->n ? ret->n : 1, sizeof(struct sql_type *));
    if (!ret->types)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %" PRIu64 " columns",
                       (uint64_t)ret->n);
    for (idx_t i = 0; i < ret->n; i++) {
        duckdb_logical_type type = duckdb_column_logical_type(result, i);

        ret->types[i] = sql_type_create(type);
        duckdb_destroy_logical_type(&type);
        if (!ret->types[i])
            return err_set(err, ERR_NO_MEMORY, "out of memory for %" PRIu64 " columns",
                           (uint64_t)ret->n);
    }
    return 0;
}

/* "columns":[…],"types":[…] */
static int write_columns(duckdb_result *result, const struct columns *columns, struct json_out *out,
                         struct err *err)
{
    int r = 0;

    json_out_key(out, "columns");
    json_out_open(out, '[');
    for (idx_t i = 0; i < columns->n; i++)
        json_out_text(out, duckdb_column_name(result, i));
    json_out_close(out, ']');
    json_out_key(out, "types");
    json_out_open(out, '[');
    for (idx_t i = 0; r == 0 && i < columns->n; i++) {
        auto_buf struct buf name = BUF_INIT(MAX_COLUMNS_BYTES);

        r = sql_type_write_name(columns->types[i], &name, err);
        json_out_str(out, buf_cstr(&name), name.len);
    }
    json_out_close(out, ']');
    return r < 0 ? r : json_out_status(out, err);
}

struct rows {
    struct buf *out;
    size_t start;     /* where the rows begin in out */
    size_t max_bytes; /* of the rows */
    int64_t max_rows;
    int64_t n;
    bool truncated;
};

/* One row; *ret_full when it did not fit (out is then as before). */
static int write_row(struct rows *rows, const struct columns *columns, duckdb_data_chunk chunk,
                     idx_t row, bool *ret_full, struct err *err)
{
    struct buf *out = rows->out;
    size_t before = out->len;
    struct err full = ERR_INIT;
    int r = buf_append_str(out, rows->n ? ",[" : "[", &full);

    for (idx_t i = 0; r == 0 && i < columns->n; i++) {
        if (i)
            r = buf_append(out, ",", 1, &full);
        if (r == 0) {
            r = sql_value_write(columns->types[i], duckdb_data_chunk_get_vector(chunk, i), row, out,
                                &rows->truncated, &full);
        }
        if (r == 0 && out->len - rows->start > rows->max_bytes)
            r = err_set(&full, ERR_TOO_LARGE, "the rows are larger than %zu bytes",
                        rows->max_bytes);
    }
    if (r == 0)
        r = buf_append(out, "]", 1, &full);
    if (r == 0 && out->len - rows->start > rows->max_bytes)
        r = err_set(&full, ERR_TOO_LARGE, "the rows are larger than %zu bytes", rows->max_bytes);
    if (r == 0) {
        rows->n++;
        return 0;
    }
    out->len = before;
    if (out->data)
        out->data[before] = '\0';
    if (full.code != ERR_TOO_LARGE)
        return err_set(err, full.code, "%s", full.message);
    *ret_full = true;
    return 0;
}

/*
 * Pulls chunks until the rows or the bytes are enough. A failure of the query on the way is not an
 * error of this function:
 * *ret_failure then has DuckDB's message.
 */
static int write_rows(struct sql_engine *e, duckdb_result *result, const struct columns *columns,
                      struct rows *rows, const char **ret_failure, struct err *err)
{
    bool full = false;
    int r = 0;

    while (!full && r == 0) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(*result);
        idx_t n;

        if (!chunk) {
            *ret_failure = duckdb_result_error(result);
            break;
        }
        if (sql_must_stop(e)) {
            duckdb_destroy_data_chunk(&chunk);
            *ret_failure = "INTERRUPT Error: Interrupted!";
            break;
        }
        n = duckdb_data_chunk_get_size(chunk);
        for (idx_t i = 0; r == 0 && !full && i < n; i++) {
            if (rows->max_rows >= 0 && rows->n >= rows->max_rows)
                full = true;
            else
                r = write_row(rows, columns, chunk, i, &full, err);
        }
        duckdb_destroy_data_chunk(&chunk);
    }
    rows->truncated = rows->truncated || full;
    return r;
}

int sql_run_statement(struct sql_engine *e, duckdb_prepared_statement statement,
                      const struct sql_request *req, struct result *out, struct err *err)
{
    /* Declared in the order in which they must outlive each other: cleanups run backwards. */
    auto_pending duckdb_pending_result pending = NULL;
    auto_result duckdb_result result = { 0 };
    __attribute__((cleanup(cleanup_columns))) struct columns columns = { 0 };
    struct json_out *json = &out->json;
    struct rows rows = { .max_rows = req->max_rows };
    struct err unshowable = ERR_INIT;
    const char *failure = NULL;
    int r;

    if (duckdb_pending_prepared_streaming(statement, &pending) != DuckDBSuccess)
        return sql_write_failure(e, duckdb_pending_error(pending), out, err);
    /* DuckDB forgot interrupts from before this point. */
    if (sql_must_stop(e))
        return sql_write_failure(e, "INTERRUPT Error: Interrupted!", out, err);
    if (duckdb_execute_pending(pending, &result) != DuckDBSuccess)
        return sql_write_failure(e, duckdb_result_error(&result), out, err);
    r = read_columns(&result, &columns, err);
    for (idx_t i = 0; r == 0 && i < columns.n; i++) {
        if (sql_type_check(columns.types[i], duckdb_column_name(&result, i), &unshowable) < 0) {
            result_fail(out, WIRE_VERDICT_ERROR, "SQL_EXECUTION_ERROR", unshowable.message);
            return 0;
        }
    }
    result_begin(out, WIRE_VERDICT_OK);
    if (r == 0)
        r = write_columns(&result, &columns, json, err);
    json_out_key(json, "rows");
    json_out_open(json, '[');
    if (r == 0)
        r = json_out_status(json, err);
    if (r < 0)
        return r;
    rows.out = &json->text;
    rows.start = rows.out->len;
    rows.max_bytes = rows.out->max_bytes -
                     MIN_OF(rows.out->max_bytes, rows.out->len + BEHIND_ROWS_BYTES);
    if (req->max_bytes >= 0)
        rows.max_bytes = MIN_OF(rows.max_bytes, (size_t)req->max_bytes);
    r = write_rows(e, &result, &columns, &rows, &failure, err);
    if (r < 0)
        return r;
    if (failure)
        return sql_write_failure(e, failure, out, err);
    json_out_close(json, ']');
    json_out_key(json, "row_count");
    json_out_int(json, rows.n);
    json_out_key(json, "truncated");
    json_out_bool(json, rows.truncated);
    json_out_key(json, "error");
    json_out_null(json);
    return json_out_status(json, err);
}

char *sql_copy_text(duckdb_data_chunk chunk, idx_t column, idx_t row)
{
    duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, column);
    uint64_t *validity = duckdb_vector_get_validity(vector);
    duckdb_string_t s;

    if (validity && !duckdb_validity_row_is_valid(validity, row))
        return strdup("");
    s = ((duckdb_string_t *)duckdb_vector_get_data(vector))[row];
    /* No strndup(): it is for strings, and one of twelve bytes has no end inside the struct. */
    size_t len = duckdb_string_t_length(s);
    char *text = malloc(len + 1);
    if (text) {
        memcpy(text, duckdb_string_t_data(&s), len);
        text[len] = '\0';
    }
    return text;
}
