/*
 * Profiling: one query counts, bounds and averages many columns in one scan; then columns are
 * grouped or counted one by one. A column store reads only the column that is asked for, and what a
 * query of one column holds in memory is bounded by that column. Different values are counted
 * exactly where somebody will rely on it (is this a key? are these all categories?) and where that
 * is affordable; measurements and huge tables get an estimate, and the profile says so.
 */

#include "kernel/sql/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_impl.h"

#define BATCH 32           /* columns of one query: states of all its aggregates live at once */
#define SMALL_ROWS 100000  /* up to here everything is counted exactly, in the first scan */
#define EXACT_ROWS 2000000 /* up to here what matters is */
#define PROBED_ROWS 20000  /* a look at so many tells columns that repeat from those that do not */
#define GROUPED_VALUES                                                                             \
    20000 /* estimated different values up to which the text of a huge table is grouped */
#define LISTED_VALUES 50 /* different values up to which numbers and dates have a top list */
/*
 * DuckDB binds every column of a table for each query, so that one query per column takes time in
 * the square of their number. Wide tables are studied in copies of a few columns at a time, as long
 * as a copy is small.
 */
#define COPIED_CELLS 4000000
#define COPY_NAME "riddle profile of a few columns"
#define WIDE_COPY_NAME "riddle profile of the first columns"
/* After so much processor time the columns that are left are left out. */
#define BUDGET_MS 5000
#define BUDGET_ROWS_PER_MS 1000 /* … and a millisecond more for so many rows */

/* ---- kinds of columns ---- */

enum kind { KIND_NUMBER, KIND_FLOAT, KIND_TEXT, KIND_TIME, KIND_BOOLEAN, KIND_OTHER, _KIND_MAX };

static enum kind kind_of(const char *type)
{
    static const struct {
        const char *prefix;
        enum kind kind;
    } kinds[] = {
        { "DECIMAL", KIND_NUMBER },  { "TINYINT", KIND_NUMBER },   { "SMALLINT", KIND_NUMBER },
        { "INTEGER", KIND_NUMBER },  { "BIGINT", KIND_NUMBER },    { "HUGEINT", KIND_NUMBER },
        { "UTINYINT", KIND_NUMBER }, { "USMALLINT", KIND_NUMBER }, { "UINTEGER", KIND_NUMBER },
        { "UBIGINT", KIND_NUMBER },  { "UHUGEINT", KIND_NUMBER },  { "FLOAT", KIND_FLOAT },
        { "DOUBLE", KIND_FLOAT },    { "VARCHAR", KIND_TEXT },     { "ENUM(", KIND_TEXT },
        { "UUID", KIND_TEXT },       { "DATE", KIND_TIME },        { "TIMESTAMP", KIND_TIME },
        { "TIME", KIND_TIME },       { "BOOLEAN", KIND_BOOLEAN },
    };

    if (str_ends(type, "]")) /* a list, whatever of */
        return KIND_OTHER;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (str_starts(type, kinds[i].prefix))
            return kinds[i].kind;
    }
    return KIND_OTHER;
}

/* ---- queries ---- */

struct column {
    const char *name, *type;
    enum kind kind;
    int64_t not_null;
    int64_t probed;   /* different values among the first rows */
    int64_t distinct; /* -1: not known yet */
    bool is_estimate;
    json_t *low, *high, *mean;
    json_t *top;
};

struct profile {
    struct sql_engine *e;
    const char *table;
    json_t *described; /* [[name, type]…]: the names and types of the columns point into it */
    struct column *columns;
    size_t n;
    int64_t rows;
};

static void cleanup_prepared(duckdb_prepared_statement *s)
{
    if (*s)
        duckdb_destroy_prepare(s);
}
#define auto_prepared __attribute__((cleanup(cleanup_prepared)))

static int failure(enum wire_verdict verdict, const json_t *result, struct err *err)
{
    const char *message = json_string_value(
        json_object_get(json_object_get(result, "error"), "message"));

    message = message ? message : "no reason given";
    if (verdict == WIRE_VERDICT_INTERRUPTED)
        return err_set(err, ERR_CANCELLED, "the profile was interrupted");
    if (verdict == WIRE_VERDICT_MEMORY)
        return err_set(err, ERR_NO_MEMORY, "%s", message);
    if (str_starts(message, "Catalog Error"))
        return err_set(err, ERR_NOT_FOUND, "%s", message);
    return err_set(err, ERR_INTERNAL, "%s", message);
}

/* Runs a query and returns its rows. */
static int query(struct profile *p, const struct buf *sql, json_t **ret_rows, struct err *err)
{
    auto_prepared duckdb_prepared_statement statement = NULL;
    __attribute__((cleanup(result_finish))) struct result out;
    auto_json json_t *result = NULL;
    struct sql_request req = { .max_rows = -1, .max_bytes = -1 };
    int r;

    result_init(&out, CATALOG_OUTPUT_MAX_BYTES);
    if (duckdb_prepare(p->e->con, buf_cstr(sql), &statement) != DuckDBSuccess)
        r = sql_write_failure(p->e, statement ? duckdb_prepare_error(statement) : NULL, &out, err);
    else
        r = sql_run_statement(p->e, statement, &req, &out, err);
    if (r == 0)
        r = result_end(&out, err);
    if (r == 0)
        r = json_parse(out.json.text.data, out.json.text.len, &result, err);
    if (r < 0)
        return r;
    if (out.verdict != WIRE_VERDICT_OK)
        return failure(out.verdict, result, err);
    *ret_rows = json_incref(json_object_get(result, "rows"));
    return 0;
}

static int put_from(const struct profile *p, struct buf *sql, struct err *err)
{
    int r = buf_append_str(sql, " FROM ", err);

    return r < 0 ? r : buf_append_quoted(sql, "\"", p->table, err);
}

/* before + "column" + after */
static int put_column(struct buf *sql, const char *before, const char *column, const char *after,
                      struct err *err)
{
    int r = buf_append_str(sql, before, err);

    if (r == 0)
        r = buf_append_quoted(sql, "\"", column, err);
    return r < 0 ? r : buf_append_str(sql, after, err);
}

#define STR(x) #x
#define STR_OF(x) STR(x)
#define CUT_END "," STR_OF(PROFILE_TEXT_CHARACTERS) ")"

/* ---- first: names and types ---- */

static int describe(struct profile *p, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    int r = buf_append_str(&sql, "SELECT column_name, column_type FROM (DESCRIBE ", err);

    if (r == 0)
        r = buf_append_quoted(&sql, "\"", p->table, err);
    if (r == 0)
        r = buf_append(&sql, ")", 1, err);
    if (r == 0)
        r = query(p, &sql, &p->described, err);
    if (r < 0)
        return r;
    p->n = MIN_OF(json_array_size(p->described), PROFILE_MAX_COLUMNS);
    p->columns = calloc(MAX_OF(p->n, 1), sizeof(*p->columns));
    if (!p->columns)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    for (size_t i = 0; i < p->n; i++) {
        const json_t *row = json_array_get(p->described, i);

        p->columns[i].name = json_string_value(json_array_get(row, 0));
        p->columns[i].type = json_string_value(json_array_get(row, 1));
        p->columns[i].kind = kind_of(p->columns[i].type);
    }
    buf_clear(&sql);
    r = buf_append_str(&sql, "SELECT count(*)", err);
    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    if (r == 0)
        p->rows = json_integer_value(json_array_get(json_array_get(rows, 0), 0));
    return r;
}

/* ---- second: counts, bounds, means ---- */

enum figure { NOT_NULL, DISTINCT, LOWEST, HIGHEST, MEAN, _FIGURE_MAX };

/* Nobody takes a measurement for a key or a category. DuckDB's estimates may be a quarter off. */
static bool may_be_estimated(const struct profile *p, const struct column *c)
{
    return p->rows > EXACT_ROWS || c->kind == KIND_FLOAT || c->kind == KIND_OTHER;
}

/* The five figures of a column, as expressions; what it does not have, or not yet, is NULL. */
static int put_figures(const struct profile *p, const struct column *c, struct buf *sql,
                       struct err *err)
{
    /* What stands before and after the column's name. */
    static const char *const bounds[_KIND_MAX][3][2] = {
        [KIND_NUMBER] = { { "min(", ")" }, { "max(", ")" }, { "avg(", ")::DOUBLE" } },
        [KIND_TIME] = { { "min(", ")" }, { "max(", ")" } },
        [KIND_BOOLEAN] = { { "min(", ")" }, { "max(", ")" } },
        [KIND_TEXT] = { { "left(min(", ")::VARCHAR" CUT_END },
                        { "left(max(", ")::VARCHAR" CUT_END } },
    };
    static const char *const finite[] = { "min(", "max(", "avg(" };
    int r = put_column(sql, "count(", c->name, "),", err);

    if (r == 0 && p->rows <= SMALL_ROWS)
        r = put_column(sql, "count(DISTINCT ", c->name, ")", err);
    else if (r == 0 && may_be_estimated(p, c))
        r = put_column(sql, "approx_count_distinct(", c->name, ")", err);
    else if (r == 0)
        r = buf_append_str(sql, "NULL", err);
    for (int k = 0; r == 0 && k < 3; k++) {
        r = buf_append(sql, ",", 1, err);
        if (r == 0 && c->kind == KIND_FLOAT) {
            r = put_column(sql, finite[k], c->name, ")", err);
            if (r == 0)
                r = put_column(sql, " FILTER (WHERE isfinite(", c->name, "))", err);
        } else if (r == 0 && bounds[c->kind][k][0]) {
            r = put_column(sql, bounds[c->kind][k][0], c->name, bounds[c->kind][k][1], err);
        } else if (r == 0) {
            r = buf_append_str(sql, "NULL", err);
        }
    }
    return r;
}

/* A value as it may be told: NUL characters, which readers refuse, are replaced. New reference. */
static json_t *told(const json_t *value)
{
    if (json_is_string(value))
        return json_text(json_string_value(value), json_string_length(value));
    return value ? json_incref((json_t *)value) : json_null();
}

static void take_figures(const struct profile *p, struct column *c, const json_t *row, size_t at)
{
    const json_t *distinct = json_array_get(row, at + DISTINCT);

    c->not_null = json_integer_value(json_array_get(row, at + NOT_NULL));
    c->distinct = json_is_integer(distinct) ? json_integer_value(distinct) : -1;
    c->is_estimate = c->distinct >= 0 && p->rows > SMALL_ROWS;
    if (c->is_estimate)
        c->distinct = MIN_OF(c->distinct, c->not_null); /* it may be more than there can be */
    c->low = told(json_array_get(row, at + LOWEST));
    c->high = told(json_array_get(row, at + HIGHEST));
    if (c->kind == KIND_NUMBER || c->kind == KIND_FLOAT)
        c->mean = told(json_array_get(row, at + MEAN));
}

static int measure(struct profile *p, size_t first, size_t end, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    int r = buf_append_str(&sql, "SELECT ", err);

    for (size_t i = first; r == 0 && i < end; i++) {
        if (i > first)
            r = buf_append(&sql, ",", 1, err);
        if (r == 0)
            r = put_figures(p, &p->columns[i], &sql, err);
    }
    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    for (size_t i = first; r == 0 && i < end; i++)
        take_figures(p, &p->columns[i], json_array_get(rows, 0), (i - first) * _FIGURE_MAX);
    return r;
}

/* How many different values the first rows have. */
static int probe(struct profile *p, size_t first, size_t end, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    int r = buf_append_str(&sql, "SELECT ", err);

    for (size_t i = first; r == 0 && i < end; i++)
        r = put_column(&sql, i > first ? ",count(DISTINCT " : "count(DISTINCT ", p->columns[i].name,
                       ")", err);
    if (r == 0)
        r = buf_append_str(&sql, " FROM (SELECT *", err);
    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0)
        r = buf_printf(&sql, err, " LIMIT %d)", PROBED_ROWS);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    for (size_t i = first; r == 0 && i < end; i++)
        p->columns[i].probed = json_integer_value(
            json_array_get(json_array_get(rows, 0), i - first));
    return r;
}

/* ---- third: what is frequent ---- */

static bool wants_top(const struct profile *p, const struct column *c)
{
    if (c->distinct == 0)
        return false;
    /*
     * Names and numbers of things repeat too seldom for any of them to be frequent, unless all can
     * be shown.
     */
    if (c->kind == KIND_TEXT)
        return c->distinct <= PROFILE_TOP ||
               (c->distinct <= c->not_null / 2 &&
                (p->rows <= EXACT_ROWS || c->distinct <= GROUPED_VALUES));
    return c->kind != KIND_OTHER && c->distinct <= LISTED_VALUES;
}

/* Groups a column: its most frequent values, and the exact number of different ones. */
static int find_top(struct profile *p, struct column *c, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    json_t *row;
    size_t i;
    int r = buf_append_str(
        &sql, c->kind == KIND_TEXT ? "SELECT left(v::VARCHAR" CUT_END : "SELECT v", err);

    if (r == 0)
        r = put_column(&sql, ",n,count(*) OVER () FROM (SELECT ", c->name, " AS v,count(*) AS n",
                       err);
    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0 && c->kind == KIND_FLOAT)
        r = put_column(&sql, " WHERE isfinite(", c->name, ")", err);
    else if (r == 0)
        r = put_column(&sql, " WHERE ", c->name, " IS NOT NULL", err);
    if (r == 0)
        r = buf_printf(&sql, err, " GROUP BY 1) ORDER BY n DESC,v LIMIT %d", PROFILE_TOP);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    if (r < 0)
        return r;
    if (c->distinct < 0 || c->is_estimate) {
        c->distinct = json_integer_value(json_array_get(json_array_get(rows, 0), 2));
        c->is_estimate = false;
    }
    /* Grouped on the promise of the first rows: without it this would not have been listed. */
    if (!wants_top(p, c))
        return 0;
    json_array_foreach(rows, i, row) {
        json_t *entry = json_object();

        json_object_set_new(entry, "value", told(json_array_get(row, 0)));
        json_object_set(entry, "count", json_array_get(row, 1));
        if (json_array_append_new(c->top, entry) < 0)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    }
    return 0;
}

/* Has it a top list that a query must find? The one value of a column is its lowest, too. */
static bool has_top_to_find(const struct profile *p, const struct column *c)
{
    return wants_top(p, c) && (c->distinct != 1 || c->kind == KIND_FLOAT);
}

/* An entry of a histogram. A name that no column has: theirs come first. */
#define ENTRY "\"entry of riddle\""

/* The top list of a column as an expression: [{v, n}, …] */
static int put_top(const struct column *c, struct buf *sql, struct err *err)
{
    int r = put_column(sql, "list_transform(list_sort(list_transform(map_entries(histogram(",
                       c->name, ")", err);

    if (r == 0 && c->kind == KIND_FLOAT)
        r = put_column(sql, " FILTER (WHERE isfinite(", c->name, "))", err);
    if (r == 0)
        r = buf_printf(
            sql, err,
            "),lambda " ENTRY ": {'n':-" ENTRY ".value::BIGINT,'v':" ENTRY ".key}))[1:%d],"
            "lambda " ENTRY ": {'v':%s,'n':-" ENTRY ".n})",
            PROFILE_TOP, c->kind == KIND_TEXT ? "left(" ENTRY ".v::VARCHAR" CUT_END : ENTRY ".v");
    return r;
}

/* Small tables: all top lists of some columns in one scan, as find_top() would find them. */
static int find_tops(struct profile *p, size_t first, size_t end, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    size_t n = 0, k;
    int r = buf_append_str(&sql, "SELECT ", err);

    for (size_t i = first; r == 0 && i < end; i++) {
        if (!has_top_to_find(p, &p->columns[i]))
            continue;
        r = n++ ? buf_append(&sql, ",", 1, err) : 0;
        if (r == 0)
            r = put_top(&p->columns[i], &sql, err);
    }
    if (r == 0 && n > 0)
        r = put_from(p, &sql, err);
    if (r == 0 && n > 0)
        r = query(p, &sql, &rows, err);
    n = 0;
    for (size_t i = first; r == 0 && i < end; i++) {
        struct column *c = &p->columns[i];
        json_t *entry;

        if (!has_top_to_find(p, c))
            continue;
        c->top = json_array();
        json_array_foreach(json_array_get(json_array_get(rows, 0), n), k, entry)
            json_array_append_new(c->top, json_pack("{s:o, s:O?}", "value",
                                                    told(json_object_get(entry, "v")), "count",
                                                    json_object_get(entry, "n")));
        n++;
        if (!c->top)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    }
    return r;
}

/* The one value of a column, which the bounds have told already. */
static int take_only_value(struct column *c, struct err *err)
{
    json_t *entry = json_pack("{s:O, s:I}", "value", c->low, "count", (json_int_t)c->not_null);

    if (json_array_append_new(c->top, entry) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    return 0;
}

/*
 * The number of different values by `expression` of the column. Hashes, unlike long texts, fit into
 * memory.
 */
static int count_distinct(struct profile *p, struct column *c, const char *before,
                          const char *after, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL;
    int r = put_column(&sql, before, c->name, after, err);

    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0)
        r = put_column(&sql, " WHERE ", c->name, " IS NOT NULL", err);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    if (r == 0)
        c->distinct = MIN_OF(json_integer_value(json_array_get(json_array_get(rows, 0), 0)),
                             c->not_null);
    return r;
}

static int count_values(struct profile *p, struct column *c, struct err *err)
{
    int r = 0;

    if (c->top) /* by find_tops() */
        return 0;
    c->top = json_array();
    if (!c->top)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    if (c->distinct < 0 && c->probed > MIN_OF(PROBED_ROWS, c->not_null) / 2)
        r = count_distinct(p, c, "SELECT count(DISTINCT hash(", "))", err);
    if (r < 0)
        return r;
    /* Infinities are counted as different values, but have no part in the bounds. */
    if (c->distinct == 1 && !c->is_estimate && c->kind != KIND_FLOAT && c->kind != KIND_OTHER)
        return take_only_value(c, err);
    if (c->distinct < 0 || wants_top(p, c))
        r = find_top(p, c, err);
    return r;
}

/*
 * A column whose values do not fit into memory is estimated: its profile is poorer, and there still
 * is one.
 */
static int study(struct profile *p, struct column *c, struct err *err)
{
    struct err full = ERR_INIT;
    int r = count_values(p, c, &full);

    if (r < 0 && full.code != ERR_NO_MEMORY)
        return err_set(err, full.code, "%s", full.message);
    if (r < 0 && c->distinct < 0) {
        c->is_estimate = true;
        return count_distinct(p, c, "SELECT approx_count_distinct(", ")", err);
    }
    return 0;
}

/* ---- fourth: rows to look at ---- */

static int sample(struct profile *p, json_t **ret, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    auto_json json_t *rows = NULL, *samples = json_array();
    json_t *row;
    size_t k;
    int r = buf_append_str(&sql, "SELECT ", err);

    for (size_t i = 0; r == 0 && i < p->n; i++)
        r = put_column(&sql, i ? ",coalesce(left(" : "coalesce(left(", p->columns[i].name,
                       "::VARCHAR" CUT_END ",'')", err);
    if (r == 0)
        r = put_from(p, &sql, err);
    if (r == 0)
        r = buf_printf(&sql, err, " LIMIT %d", PROFILE_SAMPLES);
    if (r == 0)
        r = query(p, &sql, &rows, err);
    if (r < 0)
        return r;
    json_array_foreach(rows, k, row) {
        json_t *cells = json_object();

        for (size_t i = 0; i < p->n; i++)
            json_object_set_new(cells, p->columns[i].name, told(json_array_get(row, i)));
        if (json_array_append_new(samples, cells) < 0)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    }
    *ret = TAKE_PTR(samples);
    return 0;
}

/* ---- all of it ---- */

static json_t *column_json(const struct profile *p, const struct column *c)
{
    json_t *j = json_pack("{s:s, s:s, s:I, s:I}", "name", c->name, "type", c->type, "nulls",
                          (json_int_t)(p->rows - c->not_null), "distinct", (json_int_t)c->distinct);

    if (c->is_estimate)
        json_object_set_new(j, "distinct_is_approximate", json_true());
    json_object_set(j, "min", c->low);
    json_object_set(j, "max", c->high);
    if (c->mean)
        json_object_set(j, "mean", c->mean);
    json_object_set(j, "top", c->top);
    return j;
}

static int write_profile(const struct profile *p, json_t *samples, struct buf *out, struct err *err)
{
    auto_json json_t *columns = json_array();
    auto_json json_t *whole = json_pack("{s:I, s:O}", "row_count", (json_int_t)p->rows, "columns",
                                        columns);
    size_t left_out = json_array_size(p->described) - p->n;
    int bad = 0;

    for (size_t i = 0; i < p->n; i++)
        bad |= json_array_append_new(columns, column_json(p, &p->columns[i]));
    if (left_out)
        bad |= json_object_set_new(whole, "columns_left_out", json_integer((json_int_t)left_out));
    bad |= json_object_set(whole, "sample_rows", samples);
    if (bad)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the profile");
    return json_write(whole, out, err);
}

static void drop_copy(const struct profile *p, const char *name)
{
    char sql[128];

    snprintf(sql, sizeof(sql), "DROP TABLE IF EXISTS temp.\"%s\"", name);
    (void)duckdb_query(p->e->con, sql, NULL);
}

/* Some columns as a table of their own. False: it is too large, or there is no memory for it. */
static bool copy_columns(const struct profile *p, const char *name, size_t first, size_t end)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES);
    struct err ignored = ERR_INIT;
    int r;

    if (p->rows * (int64_t)(end - first) > COPIED_CELLS)
        return false;
    drop_copy(p, name);
    r = buf_printf(&sql, &ignored, "CREATE TEMP TABLE \"%s\" AS SELECT ", name);
    for (size_t i = first; r == 0 && i < end; i++)
        r = put_column(&sql, i > first ? "," : "", p->columns[i].name, "", &ignored);
    if (r == 0)
        r = put_from(p, &sql, &ignored);
    return r == 0 && duckdb_query(p->e->con, buf_cstr(&sql), NULL) == DuckDBSuccess;
}

static int study_batch(struct profile *p, size_t first, size_t end, struct err *err)
{
    const char *whole = p->table;
    bool is_wide = p->n > BATCH && copy_columns(p, COPY_NAME, first, end);
    int r;

    if (is_wide)
        p->table = COPY_NAME;
    r = measure(p, first, end, err);
    if (r == 0 && p->rows > SMALL_ROWS && p->rows <= EXACT_ROWS)
        r = probe(p, first, end, err);
    if (r == 0 && p->rows <= PROBED_ROWS)
        r = find_tops(p, first, end, err);
    for (size_t i = first; r == 0 && i < end; i++)
        r = study(p, &p->columns[i], err);
    p->table = whole;
    return r;
}

static int64_t used_ms(void)
{
    struct timespec t = { 0 };

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int study_columns(struct profile *p, struct err *err)
{
    int64_t until_ms = used_ms() + BUDGET_MS + p->rows / BUDGET_ROWS_PER_MS;
    int r = 0;

    for (size_t i = 0; r == 0 && i < p->n; i += BATCH) {
        if (i > 0 && used_ms() > until_ms)
            p->n = i;
        else
            r = study_batch(p, i, MIN_OF(i + BATCH, p->n), err);
    }
    return r;
}

static int run(struct profile *p, struct buf *out, struct err *err)
{
    auto_json json_t *samples = NULL;
    const char *whole = p->table;
    int r = describe(p, err);

    if (r == 0 && p->n > 4 * BATCH && copy_columns(p, WIDE_COPY_NAME, 0, p->n))
        p->table = WIDE_COPY_NAME;
    if (r == 0)
        r = study_columns(p, err);
    if (r == 0)
        r = sample(p, &samples, err);
    p->table = whole;
    drop_copy(p, COPY_NAME);
    drop_copy(p, WIDE_COPY_NAME);
    return r < 0 ? r : write_profile(p, samples, out, err);
}

int sql_profile(struct sql_engine *e, const char *table, struct buf *ret_json, struct err *err)
{
    struct profile p = { .e = e, .table = table };
    int r;

    sql_begin(e);
    r = run(&p, ret_json, err);
    sql_end(e);
    for (size_t i = 0; p.columns && i < p.n; i++) {
        json_decref(p.columns[i].low);
        json_decref(p.columns[i].high);
        json_decref(p.columns[i].mean);
        json_decref(p.columns[i].top);
    }
    free(p.columns);
    json_decref(p.described);
    return r < 0 ? err_wrap(err, "profiling table '%.100s'", table) : 0;
}
