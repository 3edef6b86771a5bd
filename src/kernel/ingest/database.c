/*
 * Databases as files.
 *
 * A DuckDB file is attached read-only. SQLite's rows come through a table function, because the
 * library has no reader of its own: database_choose() sets what it reads. There is one ingest at a
 * time in a process, so that is a variable.
 */

#include "kernel/ingest/database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/sqlite_file.h"
#include "kernel/sql/sql_impl.h"

#define FUNCTION_NAME "riddle_sqlite"
#define SOURCE_DB "__source"
#define MAX_TABLES 10000

struct database {
    struct database_options options;
    bool is_sqlite, is_open, is_attached;
    struct sqlite_file sqlite;
    struct arena arena;
    struct duckdb_source_table {
        const char *schema, *table, *shown;
    } * tables; /* of a DuckDB file */
    size_t n_tables, n_views;
    size_t chosen;
};

/* ---- SQLite as a table function ------------------------------------------------------------- */

static struct sqlite_file *being_read;

static const duckdb_type scanned_types[] = {
    [SQLITE_COLUMN_TEXT] = DUCKDB_TYPE_VARCHAR,
    [SQLITE_COLUMN_INTEGER] = DUCKDB_TYPE_BIGINT,
    [SQLITE_COLUMN_REAL] = DUCKDB_TYPE_DOUBLE,
    [SQLITE_COLUMN_BOOLEAN] = DUCKDB_TYPE_BOOLEAN,
    [SQLITE_COLUMN_DATE] = DUCKDB_TYPE_VARCHAR,
    [SQLITE_COLUMN_TIMESTAMP] = DUCKDB_TYPE_VARCHAR,
    [SQLITE_COLUMN_TIMESTAMP_ZONE] = DUCKDB_TYPE_VARCHAR,
    [SQLITE_COLUMN_BLOB] = DUCKDB_TYPE_BLOB,
};

static void bind(duckdb_bind_info info)
{
    const struct sqlite_file *f = being_read;
    char name[32];

    if (!f) {
        duckdb_bind_set_error(info, "no table is being read");
        return;
    }
    for (size_t i = 0; i < f->n_columns; i++) {
        duckdb_logical_type type = duckdb_create_logical_type(scanned_types[f->columns[i].type]);

        snprintf(name, sizeof(name), "c%zu", i);
        duckdb_bind_add_result_column(info, name, type);
        duckdb_destroy_logical_type(&type);
    }
    duckdb_bind_set_cardinality(info, (idx_t)f->n_rows, true);
}

static void init(duckdb_init_info info)
{
    sqlite_rewind(being_read);
    duckdb_init_set_max_threads(info, 1);
}

static int put_text(struct sqlite_file *f, size_t column, duckdb_vector vector, idx_t row,
                    struct err *err)
{
    size_t len;
    struct err why = ERR_INIT;
    const char *s = sqlite_text(f, column, &len, &why);

    if (why.code)
        return err_set(err, why.code, "%s", why.message);
    if (!s)
        return 0;
    duckdb_vector_assign_string_element_len(vector, row, s, len);
    return 1;
}

/* 1: there is a value; 0: it is null. */
static int put_value(struct sqlite_file *f, size_t column, duckdb_vector vector, idx_t row,
                     struct err *err)
{
    int type = sqlite3_column_type(f->rows, (int)column), c = (int)column;
    bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    void *data = duckdb_vector_get_data(vector);
    const void *blob;

    switch (f->columns[column].type) {
    case SQLITE_COLUMN_INTEGER:
        ((int64_t *)data)[row] = number ? sqlite3_column_int64(f->rows, c) : 0;
        return number;
    case SQLITE_COLUMN_REAL:
        ((double *)data)[row] = number ? sqlite3_column_double(f->rows, c) : 0;
        return number;
    case SQLITE_COLUMN_BOOLEAN:
        ((bool *)data)[row] = number && sqlite3_column_int64(f->rows, c) != 0;
        return number;
    case SQLITE_COLUMN_BLOB:
        if (type != SQLITE_BLOB)
            return 0;
        blob = sqlite3_column_blob(f->rows, c);
        duckdb_vector_assign_string_element_len(vector, row, blob ? blob : "",
                                                (idx_t)sqlite3_column_bytes(f->rows, c));
        return 1;
    default:
        return put_text(f, column, vector, row, err);
    }
}

static void scan(duckdb_function_info info, duckdb_data_chunk output)
{
    struct sqlite_file *f = being_read;
    idx_t most = duckdb_vector_size(), n = 0;
    struct err err = ERR_INIT;
    int r = 0;

    for (size_t i = 0; i < f->n_columns; i++)
        duckdb_vector_ensure_validity_writable(duckdb_data_chunk_get_vector(output, i));
    while (n < most && (r = sqlite_next_row(f, &err)) == 1) {
        for (size_t i = 0; r >= 0 && i < f->n_columns; i++) {
            duckdb_vector vector = duckdb_data_chunk_get_vector(output, i);

            r = put_value(f, i, vector, n, &err);
            if (r == 0)
                duckdb_validity_set_row_invalid(duckdb_vector_get_validity(vector), n);
        }
        if (r < 0)
            break;
        n++;
    }
    if (r >= 0 && f->must_stop && f->must_stop(f->stop_arg))
        r = err_set(&err, ERR_CANCELLED, "INTERRUPT Error: Interrupted!");
    if (r < 0)
        duckdb_function_set_error(info, err.message);
    duckdb_data_chunk_set_size(output, r < 0 ? 0 : n);
}

static int register_function(struct sql_engine *e, struct err *err)
{
    duckdb_table_function function;
    duckdb_state state;

    if (e->reads_sqlite)
        return 0;
    function = duckdb_create_table_function();
    duckdb_table_function_set_name(function, FUNCTION_NAME);
    duckdb_table_function_set_bind(function, bind);
    duckdb_table_function_set_init(function, init);
    duckdb_table_function_set_function(function, scan);
    state = duckdb_register_table_function(e->con, function);
    duckdb_destroy_table_function(&function);
    e->reads_sqlite = state == DuckDBSuccess;
    return e->reads_sqlite ?
               0 :
               err_set(err, ERR_INTERNAL, "DuckDB does not take the table function " FUNCTION_NAME);
}

static int open_sqlite(struct database *d, const char *path, struct err *err)
{
    const struct sqlite_options options = { .memory_bytes = d->options.memory_bytes / 4,
                                            .text = d->options.text,
                                            .must_stop = d->options.must_stop,
                                            .stop_arg = d->options.stop_arg };
    struct err why = ERR_INIT;
    int r = register_function(d->options.engine, err);

    if (r < 0)
        return r;
    d->is_open = true;
    r = sqlite_open_file(&d->sqlite, path, &options, &why);
    if (r == -ERR_VALIDATION)
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is an SQLite database that %s; send a copy made by its owner "
                       "(.backup, VACUUM INTO), or its tables as CSV",
                       d->options.name, why.message);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

/* ---- DuckDB --------------------------------------------------------------------------------- */

/* DuckDB's own words are about its options and paths of ours. */
static int refuse_duckdb(const struct database *d, const char *message, struct err *err)
{
    const char *what = strcasestr(message, "encrypt") || strcasestr(message, "key") ?
                           "that is encrypted; send an unencrypted copy" :
                       strcasestr(message, "version") ?
                           "of a version that cannot be read here; export its tables as Parquet" :
                           "that is damaged; send it again, or its tables as Parquet or CSV";

    return err_set(err, ERR_VALIDATION, "'%.200s' is a DuckDB database %s", d->options.name, what);
}

/* schema, table, and whether it has rows; those with rows first. */
static const char list_sql[] =
    "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name='" SOURCE_DB
    "' AND NOT internal AND NOT temporary ORDER BY estimated_size = 0, table_oid LIMIT 10000";

static int add_tables(struct database *d, duckdb_data_chunk chunk, struct err *err)
{
    for (idx_t i = 0; i < duckdb_data_chunk_get_size(chunk) && d->n_tables < MAX_TABLES; i++) {
        auto_free char *schema = sql_copy_text(chunk, 0, i), *table = sql_copy_text(chunk, 1, i);
        struct duckdb_source_table *t = &d->tables[d->n_tables++];

        if (schema && table) {
            t->schema = arena_strdup(&d->arena, schema);
            t->table = arena_strdup(&d->arena, table);
            t->shown = str_eq(schema, "main") ? t->table :
                                                arena_printf(&d->arena, "%s.%s", schema, table);
        }
        if (!t->schema || !t->table || !t->shown)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the names of tables");
    }
    return 0;
}

static int list_duckdb(struct database *d, struct err *err)
{
    duckdb_connection con = d->options.engine->con;
    auto_result duckdb_result tables = { 0 }, views = { 0 };
    duckdb_data_chunk chunk;
    int r = 0;

    if (duckdb_query(con, list_sql, &tables) != DuckDBSuccess)
        return refuse_duckdb(d, duckdb_result_error(&tables), err);
    d->tables = arena_alloc(&d->arena, MAX_TABLES * sizeof(*d->tables));
    if (!d->tables)
        return err_set(err, ERR_NO_MEMORY, "out of memory for tables");
    while (r == 0 && (chunk = duckdb_fetch_chunk(tables))) {
        r = add_tables(d, chunk, err);
        duckdb_destroy_data_chunk(&chunk);
    }
    if (r == 0 &&
        duckdb_query(con,
                     "SELECT count(*)::BIGINT FROM duckdb_views() WHERE database_name='" SOURCE_DB
                     "' AND NOT internal",
                     &views) == DuckDBSuccess)
        d->n_views = (size_t)duckdb_value_int64(&views, 0, 0);
    return r;
}

static int attach_duckdb(struct database *d, const char *path, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    auto_result duckdb_result result = { 0 };
    int r = buf_append_str(&sql, "ATTACH ", err);

    if (r == 0)
        r = buf_append_quoted(&sql, "'", path, err);
    if (r == 0)
        r = buf_append_str(&sql, " AS " SOURCE_DB " (READ_ONLY, TYPE duckdb)", err);
    if (r < 0)
        return r;
    if (duckdb_query(d->options.engine->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return refuse_duckdb(d, duckdb_result_error(&result), err);
    d->is_attached = true;
    return list_duckdb(d, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

bool database_is_sqlite(const unsigned char *head, size_t len)
{
    return len >= 16 && memcmp(head, "SQLite format 3", 16) == 0;
}

bool database_is_duckdb(const unsigned char *head, size_t len)
{
    return len >= 12 && memcmp(head + 8, "DUCK", 4) == 0;
}

int database_open(const char *path, bool is_sqlite, const struct database_options *options,
                  struct database **ret, struct err *err)
{
    struct database *d = calloc(1, sizeof(*d));
    int r;

    if (!d)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a database");
    d->options = *options;
    d->is_sqlite = is_sqlite;
    arena_init(&d->arena, 64 << 20);
    r = is_sqlite ? open_sqlite(d, path, err) : attach_duckdb(d, path, err);
    if (r == 0 && database_n_tables(d) == 0)
        r = err_set(err, ERR_VALIDATION, "'%.200s' is a database without a table%s", options->name,
                    database_n_views(d) ? ": it has views only, and those are not run; save what "
                                          "they show as tables" :
                                          "; send one with rows");
    if (r < 0)
        database_close(d);
    else
        *ret = d;
    return r;
}

void database_close(struct database *d)
{
    struct err ignored = ERR_INIT;

    if (!d)
        return;
    if (d->is_open) {
        being_read = NULL;
        sqlite_finish(&d->sqlite);
    }
    if (d->is_attached)
        sql_run(d->options.engine, "DETACH " SOURCE_DB, &ignored);
    arena_finish(&d->arena);
    free(d);
}

size_t database_n_tables(const struct database *d)
{
    return d->is_sqlite ? d->sqlite.n_tables : d->n_tables;
}

const char *database_table_name(const struct database *d, size_t i)
{
    return d->is_sqlite ? d->sqlite.tables[i].name : d->tables[i].shown;
}

size_t database_n_views(const struct database *d)
{
    return d->is_sqlite ? d->sqlite.n_views : d->n_views;
}

size_t database_n_virtual(const struct database *d)
{
    return d->is_sqlite ? d->sqlite.n_virtual : 0;
}

int database_choose(struct database *d, size_t table, struct err *err)
{
    d->chosen = table;
    being_read = d->is_sqlite ? &d->sqlite : NULL;
    return d->is_sqlite ? sqlite_choose(&d->sqlite, table, err) : 0;
}

/* c0 AS "name", or CAST(c0 AS DATE) AS "name". */
static int write_column(const struct sqlite_column *c, size_t i, struct buf *sql, struct err *err)
{
    static const char *const casts[_SQLITE_COLUMN_TYPE_MAX] = {
        [SQLITE_COLUMN_DATE] = "DATE",
        [SQLITE_COLUMN_TIMESTAMP] = "TIMESTAMP",
        [SQLITE_COLUMN_TIMESTAMP_ZONE] = "TIMESTAMPTZ",
    };
    int r = casts[c->type] ?
                buf_printf(sql, err, "%sCAST(c%zu AS %s) AS ", i ? "," : "", i, casts[c->type]) :
                buf_printf(sql, err, "%sc%zu AS ", i ? "," : "", i);

    return r < 0 ? r : buf_append_quoted(sql, "\"", c->name, err);
}

int database_write_sql(const struct database *d, struct buf *sql, struct err *err)
{
    int r = 0;

    if (!d->is_sqlite) {
        const struct duckdb_source_table *t = &d->tables[d->chosen];

        r = buf_append_str(sql,
                           d->options.text ? "(SELECT COLUMNS(*)::VARCHAR FROM " SOURCE_DB "." :
                                             SOURCE_DB ".",
                           err);
        if (r == 0)
            r = buf_append_quoted(sql, "\"", t->schema, err);
        if (r == 0)
            r = buf_append_str(sql, ".", err);
        if (r == 0)
            r = buf_append_quoted(sql, "\"", t->table, err);
        return r < 0 || !d->options.text ? r : buf_append_str(sql, ")", err);
    }
    r = buf_append_str(sql, "(SELECT ", err);
    for (size_t i = 0; r == 0 && i < d->sqlite.n_columns; i++)
        r = write_column(&d->sqlite.columns[i], i, sql, err);
    return r < 0 ? r : buf_append_str(sql, " FROM " FUNCTION_NAME "())", err);
}

int64_t database_n_rows(const struct database *d)
{
    return d->is_sqlite ? d->sqlite.n_rows : -1;
}

struct database_changes database_changes(const struct database *d)
{
    struct database_changes c = { 0 };

    if (!d->is_sqlite)
        return c;
    c.n_replaced = d->sqlite.n_replaced;
    c.n_nul = d->sqlite.n_nul;
    for (size_t i = 0; i < d->sqlite.n_columns; i++) {
        const struct sqlite_column *x = &d->sqlite.columns[i];

        if (x->type == SQLITE_COLUMN_TEXT)
            c.mixed = c.mixed || x->n_integers + x->n_reals + x->n_blobs > 0;
        else
            c.n_null_words += x->n_null_words;
    }
    return c;
}
