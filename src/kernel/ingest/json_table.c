/*
 * Tables of JSON, which DuckDB reads: what it cannot hold or make sense of becomes text, and one
 * object that is a table in itself becomes rows.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql/sql_value.h"

#define SNIFFED_ROWS 20480 /* DuckDB's default sample */

static bool is_json(const struct ingest *g)
{
    return g->source.format == DATA_JSON || g->source.format == DATA_NDJSON;
}

/* ---- names and types, before reading ---- */

/* How many columns DuckDB sees in JSON or Parquet. 1: g->failure. */
static int count_columns(struct ingest *g, int64_t *ret, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    auto_result duckdb_result result = { 0 };
    int r = buf_append_str(&sql, "SELECT count(*)::BIGINT FROM (DESCRIBE SELECT * FROM ", err);

    if (r == 0)
        r = data_source_write_sql(&g->source, SNIFFED_ROWS, g->sparse, &sql, err);
    if (r == 0)
        r = buf_append_str(&sql, ")", err);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return ingest_note_failure(g, duckdb_result_error(&result), err);
    *ret = duckdb_value_int64(&result, 0, 0);
    return 0;
}

int ingest_look_at_records(struct ingest *g, struct err *err)
{
    int64_t n = 1;
    int r;

    g->sparse = false;
    free(g->json.loosened);
    g->json = (struct json_changes){ 0 };
    buf_clear(&g->source.json_columns);
    r = count_columns(g, &n, err);
    /* Records with more keys than most of them use look like maps: DuckDB is told otherwise. */
    if (r == 1 && strstr(g->failure, "expected records")) {
        g->sparse = true;
        r = count_columns(g, &n, err);
    }
    g->n_columns = (size_t)n;
    return r;
}

/* ---- integers that are too large ---- */

/* DuckDB takes them for BIGINT and fails: integers are read as text then. */
int ingest_loosen_records(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    struct buf *columns = &g->source.json_columns;
    int r;

    if (!is_json(g) || columns->len > 0 || !strstr(g->failure, "to numerical"))
        return 0;
    r = buf_append_str(&sql, "SELECT * FROM ", err);
    if (r == 0)
        r = data_source_write_sql(&g->source, -1, g->sparse, &sql, err);
    if (r == 0)
        r = ingest_describe(g, buf_cstr(&sql), err);
    free(g->json.loosened);
    g->json.loosened = calloc(g->dialect.n_columns + 1, sizeof(bool));
    if (r == 0 && !g->json.loosened)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    for (size_t i = 0; r == 0 && i < g->dialect.n_columns; i++) {
        g->json.loosened[i] = str_ends(g->dialect.types[i], "BIGINT");
        r = buf_append_str(columns, i ? "," : ",columns={", err);
        if (r == 0)
            r = buf_append_quoted(columns, "'", g->dialect.names[i], err);
        if (r == 0)
            r = buf_append_str(columns, ":", err);
        if (r == 0)
            r = buf_append_quoted(columns, "'",
                                  g->json.loosened[i] ? "VARCHAR" : g->dialect.types[i], err);
    }
    if (r == 0)
        r = buf_append_str(columns, "}", err);
    return r < 0 ? r : 1;
}

static bool runs(struct ingest *g, const char *sql)
{
    struct err ignored = ERR_INIT;

    return sql_run(g->e, sql, &ignored) == 0;
}

/* Those that are not too large are integers again. */
static int tighten(struct ingest *g, struct err *err)
{
    const struct csv_dialect *d = &g->dialect;
    char table[INGEST_TABLE_SIZE];

    ingest_table_name(g->n_parts, table);
    for (size_t i = 0; g->json.loosened && i < d->n_columns; i++) {
        auto_buf struct buf name = BUF_INIT(64 * 1024), sql = BUF_INIT(256 * 1024);
        int r = buf_append_quoted(&name, "\"", d->names[i], err);

        if (r == 0)
            r = buf_printf(&sql, err, "ALTER TABLE %s ALTER %s TYPE BIGINT", table,
                           buf_cstr(&name));
        if (r < 0)
            return r;
        if (g->json.loosened[i] && !runs(g, buf_cstr(&sql)))
            g->json.n_large++;
    }
    return g->json.loosened ? ingest_describe(g, NULL, err) : 0;
}

/* ---- one object that is a table ---- */

/* `each` for every column, with `between` between them; $ in it is the column's quoted name. */
static int write_columns(const struct ingest *g, const char *each, const char *between,
                         struct buf *sql, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < g->dialect.n_columns; i++) {
        r = i ? buf_append_str(sql, between, err) : 0;
        for (const char *p = each; r == 0 && *p; p++)
            r = *p == '$' ? buf_append_quoted(sql, "\"", g->dialect.names[i], err) :
                            buf_append(sql, p, 1, err);
    }
    return r;
}

/* Are all columns lists, or all of them objects? */
static bool all_are(const struct ingest *g, bool lists)
{
    for (size_t i = 0; i < g->dialect.n_columns; i++) {
        const char *type = g->dialect.types[i];
        bool list = str_ends(type, "[]");

        if (lists ? !list : list || !str_starts(type, "STRUCT("))
            return false;
    }
    return g->dialect.n_columns > !lists;
}

/*
 * {"a": [1, 2], "b": ["x", "y"]} has columns a and b; {"x": {"n": 1}, "y": {"n": 2}} has rows x
 * and y.
 */
static int spread(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    auto_result duckdb_result result = { 0 };
    bool lists = all_are(g, true);
    char table[INGEST_TABLE_SIZE];
    int r;

    if (g->source.records.layout != RECORDS_OBJECTS || g->n_rows != 1 ||
        (!lists && !all_are(g, false)))
        return 0;
    ingest_table_name(g->n_parts, table);
    r = buf_printf(&sql, err, "CREATE OR REPLACE TABLE %s AS SELECT ", table);
    if (r == 0 && lists) {
        r = write_columns(g, "unnest($) AS $", ",", &sql, err);
        if (r == 0)
            r = buf_printf(&sql, err, " FROM %s WHERE len(list_distinct([", table);
        if (r == 0)
            r = write_columns(g, "coalesce(len($),-1)", ",", &sql, err);
        if (r == 0)
            r = buf_append_str(&sql, "]))=1 OR error('lists of several lengths')", err);
    } else if (r == 0) {
        r = buf_printf(&sql, err,
                       "key,unnest(value) FROM (UNPIVOT %s ON COLUMNS(*) INTO NAME key VALUE "
                       "value)",
                       table);
    }
    if (r < 0 || !runs(g, buf_cstr(&sql)))
        return r; /* they do not go together: it is one row */
    buf_clear(&sql);
    r = buf_printf(&sql, err, "SELECT count(*)::BIGINT FROM %s", table);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "counting rows: %s", duckdb_result_error(&result));
    g->n_rows = duckdb_value_int64(&result, 0, 0);
    g->json.spread = lists ? JSON_LISTS : JSON_KEYS;
    return ingest_describe(g, NULL, err);
}

/* ---- values of several kinds ---- */

/* 12 and "12" in one column are JSON to DuckDB, with quotes around the second: here text. */
static int plain_text(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    char table[INGEST_TABLE_SIZE];
    size_t n = 0;
    int r;

    ingest_table_name(g->n_parts, table);
    r = buf_printf(&sql, err, "CREATE OR REPLACE TABLE %s AS SELECT * REPLACE (", table);
    for (size_t i = 0; r == 0 && i < g->dialect.n_columns; i++) {
        auto_buf struct buf name = BUF_INIT(64 * 1024);

        if (!str_eq(g->dialect.types[i], "JSON"))
            continue;
        r = buf_append_quoted(&name, "\"", g->dialect.names[i], err);
        if (r == 0)
            r = buf_printf(&sql, err,
                           "%sCASE WHEN json_type(%s) IN ('OBJECT','ARRAY') THEN %s::VARCHAR ELSE "
                           "%s->>'$' END AS %s",
                           n++ ? "," : "", buf_cstr(&name), buf_cstr(&name), buf_cstr(&name),
                           buf_cstr(&name));
    }
    if (r == 0)
        r = buf_printf(&sql, err, ") FROM %s", table);
    if (r < 0 || n == 0)
        return r;
    g->json.n_mixed = n;
    r = sql_run(g->e, buf_cstr(&sql), err);
    return r < 0 ? r : ingest_describe(g, NULL, err);
}

/* ---- moments ---- */

#define MOMENT "'\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d(:\\d\\d(\\.\\d{1,6})?)?Z?'"

/* Are all texts of a column moments as ISO 8601 writes them? */
static int is_moment(struct ingest *g, const char *table, const char *name, int64_t rows, bool *ret,
                     struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(256 * 1024);
    auto_result duckdb_result result = { 0 };
    int r = buf_append_str(&sql,
                           "SELECT coalesce(bool_and(regexp_full_match(c," MOMENT
                           ")),false)::BIGINT FROM (SELECT ",
                           err);

    if (r == 0)
        r = buf_append_quoted(&sql, "\"", name, err);
    if (r == 0)
        r = buf_printf(&sql, err, " AS c FROM %s LIMIT %lld)", table, (long long)rows);
    if (r == 0)
        *ret = duckdb_query(g->e->con, buf_cstr(&sql), &result) == DuckDBSuccess &&
               duckdb_value_int64(&result, 0, 0) == 1;
    return r;
}

/* DuckDB knows them only if all are written to the same fraction of a second. */
static int read_moments(struct ingest *g, struct err *err)
{
    char table[INGEST_TABLE_SIZE];
    bool any = false;

    ingest_table_name(g->n_parts, table);
    for (size_t i = 0; i < g->dialect.n_columns; i++) {
        auto_buf struct buf sql = BUF_INIT(256 * 1024);
        const char *name = g->dialect.names[i];
        bool moment = false;
        int r = str_eq(g->dialect.types[i], "VARCHAR") ?
                    is_moment(g, table, name, 100, &moment, err) : /* most are told by a few */
                    0;

        if (r == 0 && moment)
            r = is_moment(g, table, name, INT64_MAX, &moment, err);
        if (r == 0)
            r = buf_printf(&sql, err, "ALTER TABLE %s ALTER ", table);
        if (r == 0)
            r = buf_append_quoted(&sql, "\"", name, err);
        if (r == 0)
            r = buf_append_str(&sql, " TYPE TIMESTAMP", err);
        if (r < 0)
            return r;
        any = (moment && runs(g, buf_cstr(&sql))) || any;
    }
    return any ? ingest_describe(g, NULL, err) : 0;
}

/* ---- GeoJSON ---- */

static bool has_column(const struct ingest *g, const char *name, const char *type)
{
    for (size_t i = 0; i < g->dialect.n_columns; i++)
        if (str_eq(g->dialect.names[i], name))
            return str_starts(g->dialect.types[i], type);
    return false;
}

/* The columns of a Feature are its properties, beside its geometry. */
static int spread_features(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(4096);
    char table[INGEST_TABLE_SIZE];
    int r;

    if (!has_column(g, "type", "VARCHAR") || !has_column(g, "properties", "STRUCT(") ||
        !has_column(g, "geometry", ""))
        return 0;
    ingest_table_name(g->n_parts, table);
    r = buf_printf(&sql, err,
                   "CREATE OR REPLACE TABLE %s AS SELECT * EXCLUDE (properties, geometry), "
                   "unnest(properties), geometry FROM %s WHERE type='Feature' OR "
                   "error('no features')",
                   table, table);
    /* Where a property is called as a member of the feature is, it stays as it is. */
    return r < 0 || !runs(g, buf_cstr(&sql)) ? r : ingest_describe(g, NULL, err);
}

int ingest_tidy_records(struct ingest *g, struct err *err)
{
    int r = is_json(g) ? tighten(g, err) : 0;

    if (r == 0 && is_json(g))
        r = spread(g, err);
    if (r == 0 && is_json(g))
        r = spread_features(g, err);
    if (r == 0 && is_json(g))
        r = plain_text(g, err);
    return r == 0 && is_json(g) ? read_moments(g, err) : r;
}

/* ---- lists of objects inside the objects ---- */

/* What tells the rows of a table apart: a column that is called so, if its values do. */
static int find_key(struct ingest *g, const struct csv_dialect *d, const char *table,
                    const char **ret, struct err *err)
{
    static const char *const names[] = { "id", "_id", "uuid", "key", "code", "number" };

    *ret = NULL;
    for (size_t k = 0; !*ret && k < ARRAY_SIZE(names); k++)
        for (size_t i = 0; !*ret && i < d->n_columns; i++) {
            auto_buf struct buf sql = BUF_INIT(64 * 1024);
            auto_result duckdb_result result = { 0 };
            int r;

            if (!str_ieq(d->names[i], names[k]) ||
                (!str_eq(d->types[i], "BIGINT") && !str_eq(d->types[i], "VARCHAR") &&
                 !str_eq(d->types[i], "UUID")))
                continue;
            r = buf_append_str(&sql, "SELECT (count(DISTINCT ", err);
            if (r == 0)
                r = buf_append_quoted(&sql, "\"", d->names[i], err);
            if (r == 0)
                r = buf_printf(&sql, err, ")=count(*))::BIGINT FROM %s", table);
            if (r < 0)
                return r;
            if (duckdb_query(g->e->con, buf_cstr(&sql), &result) == DuckDBSuccess &&
                duckdb_value_int64(&result, 0, 0) == 1)
                *ret = d->names[i];
        }
    return 0;
}

/* A table of the list in `column`: the key of its record, and the list's own keys. */
static int write_nested(const char *parent, const char *table, const char *column, const char *key,
                        struct buf *sql, struct err *err)
{
    int r = buf_printf(sql, err, "CREATE TABLE %s AS SELECT ", table);

    if (r == 0)
        r = key ? buf_append_quoted(sql, "\"", key, err) : buf_append_str(sql, "rowid+1", err);
    if (r == 0)
        r = buf_append_str(sql, " AS \"parent_", err);
    if (r == 0)
        r = buf_append_str(sql, key ? key : "row", err);
    if (r == 0)
        r = buf_append_str(sql, "\",unnest(", err);
    if (r == 0)
        r = buf_append_quoted(sql, "\"", column, err);
    if (r == 0)
        r = buf_printf(sql, err, ",max_depth:=2) FROM %s", parent);
    return r;
}

static int keep_nested(struct ingest *g, size_t parent, size_t i, const char *key, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(256 * 1024);
    auto_result duckdb_result result = { 0 };
    const struct csv_dialect *d = &g->parts[parent].dialect;
    char from[INGEST_TABLE_SIZE], table[INGEST_TABLE_SIZE];
    int r;

    ingest_table_name(parent, from);
    ingest_table_name(g->n_parts, table);
    r = write_nested(from, table, d->names[i], key, &sql, err);
    if (r < 0 || !runs(g, buf_cstr(&sql)))
        return r; /* two columns would have one name, say: the list stays where it is */
    buf_clear(&sql);
    r = buf_printf(&sql, err, "SELECT count(*)::BIGINT FROM %s", table);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "counting rows: %s", duckdb_result_error(&result));
    g->n_rows = duckdb_value_int64(&result, 0, 0);
    r = ingest_describe(g, NULL, err);
    if (r < 0)
        return r;
    const char *name = d->names[i];
    size_t n = str_utf8_cut(name, strlen(name), sizeof(g->title) - 1);
    snprintf(g->title, sizeof(g->title), "%.*s", (int)n, name);
    r = ingest_keep_part(g, err);
    g->title[0] = '\0';
    return r;
}

int ingest_keep_nested(struct ingest *g, struct err *err)
{
    size_t parent = g->n_parts - 1;
    char table[INGEST_TABLE_SIZE];
    const char *key = NULL;
    bool looked = false;
    int r = 0;

    ingest_table_name(parent, table);
    for (size_t i = 0; is_json(g) && r == 0 && i < g->parts[parent].dialect.n_columns; i++) {
        const char *type = g->parts[parent].dialect.types[i];

        if (!str_starts(type, "STRUCT(") || !str_ends(type, ")[]") || str_ends(type, "[][]") ||
            g->n_parts == DATA_MAX_PARTS)
            continue;
        if (!looked)
            r = find_key(g, &g->parts[parent].dialect, table, &key, err);
        looked = true;
        if (r == 0)
            r = keep_nested(g, parent, i, key, err);
    }
    return r;
}
