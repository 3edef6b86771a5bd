/*
 * Reading a catalog. Per table one query gives its columns, a few rows and their number, and one
 * gives everything about all its columns, as rows: what a row is about (c: the column, k: which
 * kind of row), and v, w, x, n, d.
 *
 *   c       k = 1   v, w, x: least, greatest, mean; n: how many are not null; d: different ones among the first
 *   c       k = 2   v: a value; n: how often it occurs
 *
 * Of a large table the two kinds are asked for one after the other. The values of a column that
 * hardly repeats are not worth grouping: d tells which those are.
 */

#include "data/catalog.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "plan/compile.h"

#define VALUES_ROWS_MAX 200000
#define INTEGER_VALUES 200
#define LISTED_INTEGERS 50     /* a number with more different values has no top list */
#define LOOKED_AT_COLUMNS 400  /* of a table; of the rest only name and type are known */
#define ASKED_COLUMNS 16       /* in one query: planning a UNION takes the square of its parts */
#define AGGREGATED_COLUMNS 100 /* in one query of aggregates, which has no UNION */
#define SMALL_ROWS 100000      /* up to here all is asked for at once */
#define PROBED_ROWS                                                                                \
    20000             /* a look at so many tells columns that repeat from those that hardly do */
#define SERIAL_GAPS 4 /* numbers of rows span at most so many times their count */
#define HARDLY_REPEATS 0.9    /* different values among those */
#define DATABASE_ROWS 1000000 /* tables of databases with more are sampled */
#define DATABASE_SAMPLE 100000
#define ARENA_BYTES (64u << 20)

enum step { STEP_SHAPE, STEP_RANGES, STEP_VALUES, STEP_DONE };
enum row_kind { ROW_RANGE = 1, ROW_VALUE = 2 };

struct catalog {
    unsigned refs;
    struct arena arena;
    const char *dataset_id;
    enum plan_dialect dialect;
    const char **tables;
    size_t n_tables;
    json_t *relationships; /* array */
    json_t *words;         /* what people wrote; NULL: nothing */

    size_t table; /* being read */
    enum step step;
    struct buf sql;
    json_t *columns, *types; /* of that table */
    size_t asked;            /* columns before this one have been asked for in this step */
    long long n_rows;
    bool is_sampled;
    bool is_cut;   /* an answer about it was */
    bool *repeats; /* of its columns; NULL while that is not known */

    struct nl_schema *nl;
    struct plan_schema *plan;
    json_t *described;
    json_t *short_schema; /* for plan_schema_parse() */
};

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- the queries ---- */

/* The rows of a table that are looked at, as an entry of FROM. */
static int append_rows(const struct catalog *c, struct buf *b, const char *table, struct err *err)
{
    int r = c->is_sampled ? buf_append_str(b, "(SELECT * FROM ", err) : 0;
    if (r >= 0)
        r = buf_append_quoted(b, "\"", table, err);
    return r < 0 || !c->is_sampled ? r : buf_printf(b, err, " LIMIT %d) AS s", DATABASE_SAMPLE);
}

/*
 * fmt with each "%n" replaced by the column, "%t" by the table's rows, "%s" and "%i" by the types
 * of texts and whole numbers, and "%v", "%w", "%x" and "%c" by names for the columns of the answer.
 * In ClickHouse those take the place of the table's columns that are called the same.
 */
static int append_sql(const struct catalog *c, struct buf *b, const char *fmt, const char *column,
                      const char *table, struct err *err)
{
    bool click = c->dialect == DIALECT_CLICKHOUSE;
    int r = 0;
    while (*fmt && r >= 0) {
        size_t n = strcspn(fmt, "%");
        r = buf_append(b, fmt, n, err);
        fmt += n;
        if (r < 0 || !*fmt)
            break;
        char what = fmt[1];
        fmt += 2;
        if (what == 'n')
            r = buf_append_quoted(b, "\"", column, err);
        else if (what == 't')
            r = append_rows(c, b, table, err);
        else if (what == 's')
            r = buf_append_str(b, click ? "Nullable(String)" : "VARCHAR", err);
        else if (what == 'i')
            r = buf_append_str(b, click ? "Nullable(Int64)" : "BIGINT", err);
        else
            r = buf_printf(b, err, click ? "\"%c=\"" : "%c", what == 'c' ? 'n' : what);
    }
    return r;
}

static int shape_query(struct catalog *c, struct err *err)
{
    const char *table = c->tables[c->table];
    buf_clear(&c->sql);
    c->is_sampled = false;
    int r = c->dialect == DIALECT_DUCKDB ?
                append_sql(c, &c->sql, "SELECT *, (SELECT count(*) FROM %t) FROM %t LIMIT ", NULL,
                           table, err) :
                append_sql(c, &c->sql, "SELECT *, (SELECT count(*) FROM (SELECT 1 FROM %t LIMIT ",
                           NULL, table, err);
    if (r >= 0 && c->dialect != DIALECT_DUCKDB)
        r = buf_printf(&c->sql, err, "%d) AS q) AS \"rows=\" FROM ", DATABASE_ROWS + 1);
    if (r >= 0 && c->dialect != DIALECT_DUCKDB)
        r = append_sql(c, &c->sql, "%t LIMIT ", NULL, table, err);
    return r < 0 ? r : buf_printf(&c->sql, err, "%d", CATALOG_SAMPLE_ROWS);
}

static enum plan_type column_type(const struct catalog *c, size_t i)
{
    return plan_type_from_name(json_string_value(json_array_get(c->types, i)));
}

static const char *column_name(const struct catalog *c, size_t i)
{
    return json_string_value(json_array_get(c->columns, i));
}

static bool has_values(enum plan_type type)
{
    return type == TYPE_TEXT || type == TYPE_INTEGER || type == TYPE_BOOL;
}

static int range_query(const struct catalog *c, struct buf *b, const char *column,
                       const char *table, size_t i, enum plan_type type, bool probe,
                       struct err *err)
{
    /* Engines other than DuckDB take the types of a UNION from its first part. */
    const char *range = "CAST(NULL AS %s) AS %v, CAST(NULL AS %s) AS %w, CAST(NULL AS %s) AS %x, ";
    if (type == TYPE_DATE || type == TYPE_TIMESTAMP)
        range = "CAST(min(%n) AS %s) AS %v, CAST(max(%n) AS %s) AS %w, CAST(NULL AS %s) AS %x, ";
    else if (type == TYPE_INTEGER || type == TYPE_NUMBER)
        range = "CAST(min(%n) AS %s) AS %v, CAST(max(%n) AS %s) AS %w, CAST(avg(%n) AS %s) AS %x, ";
    int r = buf_printf(b, err, "%sSELECT %zu AS c, %d AS k, ", b->len ? " UNION ALL " : "", i,
                       ROW_RANGE);
    if (r >= 0)
        r = append_sql(c, b, range, column, table, err);
    if (r >= 0 && probe && (type == TYPE_TEXT || type == TYPE_INTEGER)) {
        r = append_sql(
            c, b,
            "CAST(count(%n) AS %i) AS %c, (SELECT CAST(count(DISTINCT %v) AS %i) FROM (SELECT %n "
            "AS %v FROM %t WHERE %n IS NOT NULL LIMIT ",
            column, table, err);
        if (r >= 0)
            r = buf_printf(b, err, "%d) AS q) AS d FROM ", PROBED_ROWS);
        return r < 0 ? r : append_rows(c, b, table, err);
    }
    return r < 0 ? r :
                   append_sql(c, b, "CAST(count(%n) AS %i) AS %c, CAST(NULL AS %i) AS d FROM %t",
                              column, table, err);
}

/*
 * The most frequent values first. A text is cut to just more than the planner takes, so that long
 * ones cost nothing on the way here and are still left out by it.
 */
static int values_query(const struct catalog *c, struct buf *b, const char *column,
                        const char *table, size_t i, enum plan_type type, bool repeats,
                        struct err *err)
{
    int limit = type == TYPE_TEXT ? NL_VALUES_PER_COLUMN + 1 : INTEGER_VALUES;
    int r = buf_printf(b, err, "%sSELECT %zu AS c, %d AS k, ", b->len ? " UNION ALL " : "", i,
                       ROW_VALUE);
    const char *cut = type != TYPE_TEXT                ? "CAST(%v AS %s" :
                      c->dialect == DIALECT_SQLITE     ? "substr(%v, 1, " :
                      c->dialect == DIALECT_CLICKHOUSE ? "CAST(substringUTF8(toString(%v), 1, " :
                                                         "left(CAST(%v AS %s), ";
    if (r >= 0)
        r = append_sql(c, b, cut, column, table, err);
    if (r >= 0 && type == TYPE_TEXT)
        r = buf_printf(b, err, "%d", NL_VALUE_MAX_BYTES + 1);
    if (r >= 0 && type == TYPE_TEXT && c->dialect == DIALECT_CLICKHOUSE)
        r = append_sql(c, b, ") AS %s", column, table, err);
    if (r >= 0)
        r = append_sql(c, b,
                       ") AS %v, CAST(NULL AS %s) AS %w, CAST(NULL AS %s) AS %x, CAST(%c AS %i) AS "
                       "%c, CAST(NULL AS %i) AS d FROM (SELECT ",
                       column, table, err);
    if (r >= 0 && !repeats)
        r = append_sql(c, b,
                       "DISTINCT %v, 1 AS %c FROM (SELECT %n AS %v FROM %t WHERE %n IS NOT NULL",
                       column, table, err);
    else if (r >= 0)
        r = append_sql(c, b,
                       "%n AS %v, count(*) AS %c FROM %t WHERE %n IS NOT NULL GROUP BY %n ORDER BY "
                       "%c DESC, %v",
                       column, table, err);
    if (r >= 0 && !repeats)
        r = buf_printf(b, err, " LIMIT %d) AS q", PROBED_ROWS);
    return r < 0 ? r : buf_printf(b, err, " LIMIT %d) AS p", limit);
}

/*
 * Small tables in DuckDB: ranges and values of many columns are aggregates of one scan, as many
 * times faster as there are columns in it. The answer has the same rows as those of a UNION.
 */
static bool is_aggregated(const struct catalog *c)
{
    return c->dialect == DIALECT_DUCKDB && c->n_rows <= PROBED_ROWS;
}

static int aggregated_range(const struct catalog *c, struct buf *b, const char *column, size_t i,
                            enum plan_type type, struct err *err)
{
    bool when = type == TYPE_DATE || type == TYPE_TIMESTAMP,
         number = type == TYPE_INTEGER || type == TYPE_NUMBER;
    int r = buf_printf(b, err, "[{'c':%zu,'k':%d,'v':", i, ROW_RANGE);
    if (r >= 0)
        r = append_sql(c, b,
                       when || number ? "min(%n)::VARCHAR,'w':max(%n)::VARCHAR,'x':" :
                                        "NULL::VARCHAR,'w':NULL::VARCHAR,'x':",
                       column, NULL, err);
    if (r >= 0)
        r = append_sql(c, b,
                       number ? "avg(%n)::VARCHAR,'n':count(%n),'d':NULL::BIGINT}]," :
                                "NULL::VARCHAR,'n':count(%n),'d':NULL::BIGINT}],",
                       column, NULL, err);
    return r;
}

/* An entry of a histogram. A name that no column has: theirs come first. */
#define ENTRY "\"entry of riddle\""

static int aggregated_values(const struct catalog *c, struct buf *b, const char *column, size_t i,
                             enum plan_type type, struct err *err)
{
    int limit = type == TYPE_TEXT ? NL_VALUES_PER_COLUMN + 1 : INTEGER_VALUES;
    int r = buf_append_str(b, "list_transform(list_sort(list_transform(map_entries(histogram(",
                           err);
    if (r >= 0)
        r = append_sql(c, b, type == TYPE_TEXT ? "left(%n::VARCHAR," : "%n", column, NULL, err);
    if (r >= 0 && type == TYPE_TEXT)
        r = buf_printf(b, err, "%d)", NL_VALUE_MAX_BYTES + 1);
    if (r >= 0)
        r = buf_printf(b, err,
                       ")),lambda " ENTRY ": {'n':-" ENTRY ".value::BIGINT,'v':" ENTRY
                       ".key}))[1:%d],lambda " ENTRY ": {'c':%zu,'k':%d,'v':" ENTRY
                       ".v::VARCHAR,'w':NULL::VARCHAR,'x':NULL::VARCHAR,'n':-" ENTRY
                       ".n,'d':NULL::BIGINT}),",
                       limit, i, ROW_VALUE);
    return r;
}

static int aggregated_query(struct catalog *c, size_t from, size_t to, struct err *err)
{
    struct buf *b = &c->sql;
    int r = buf_append_str(b, "SELECT unnest(flatten([", err);
    for (size_t i = from; i < to && r >= 0; i++)
        r = aggregated_range(c, b, column_name(c, i), i, column_type(c, i), err);
    for (size_t i = from; i < to && r >= 0; i++)
        if (has_values(column_type(c, i)))
            r = aggregated_values(c, b, column_name(c, i), i, column_type(c, i), err);
    if (r >= 0)
        r = append_sql(c, b, "[]]),recursive:=true) FROM %t", NULL, c->tables[c->table], err);
    return r;
}

static size_t looked_at(const struct catalog *c)
{
    return MIN_OF(json_array_size(c->columns), (size_t)LOOKED_AT_COLUMNS);
}

/*
 * About the next columns that have something to be asked; an empty text when there are none. Ranges
 * come before values: a cut answer then lacks the less important.
 */
static int facts_query(struct catalog *c, struct err *err)
{
    const char *table = c->tables[c->table];
    bool ranges = c->step == STEP_RANGES || !c->repeats, values = c->step == STEP_VALUES;
    int r = 0;
    buf_clear(&c->sql);
    while (r >= 0 && c->sql.len == 0 && c->asked < looked_at(c)) {
        size_t most = is_aggregated(c) ? AGGREGATED_COLUMNS : ASKED_COLUMNS;
        size_t from = c->asked, to = MIN_OF(from + most, looked_at(c));
        if (is_aggregated(c)) {
            /* Long names may make it longer than code may be: then fewer at a time. */
            while ((r = aggregated_query(c, from, to, err)) == -ERR_TOO_LARGE && to > from + 1) {
                to = from + (to - from) / 2;
                buf_clear(&c->sql);
            }
            ranges = values = false;
        }
        for (size_t i = from; i < to && r >= 0 && ranges; i++)
            r = range_query(c, &c->sql, column_name(c, i), table, i, column_type(c, i), !values,
                            err);
        for (size_t i = from; i < to && r >= 0 && values; i++)
            if (has_values(column_type(c, i)))
                r = values_query(c, &c->sql, column_name(c, i), table, i, column_type(c, i),
                                 !c->repeats || c->repeats[i], err);
        c->asked = to;
    }
    return r;
}

/* ---- what comes back ---- */

/* Text as a number of JSON; NULL if it is none or not finite. */
static json_t *number_of(const char *text)
{
    char *end;
    errno = 0;
    long long i = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0')
        return json_integer(i);
    double d = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(d) ? json_real(d) : NULL;
}

static json_t *shown_text(const char *text)
{
    size_t len = strlen(text), at = 0;
    for (int i = 0; i < CATALOG_TEXT_CHARACTERS && at < len; i++) {
        size_t bad, n = str_utf8_next(text + at, len - at, &bad);
        at += n ? n : bad;
    }
    if (at >= len)
        return json_string(text);
    auto_free char *cut = malloc(at + sizeof("…"));
    if (!cut)
        return NULL;
    memcpy(cut, text, at);
    memcpy(cut + at, "…", sizeof("…"));
    return json_string(cut);
}

static json_t *shown_rows(const json_t *rows, size_t n_columns)
{
    json_t *out = json_array(), *row, *cell;
    size_t i, k;
    json_array_foreach(rows, i, row) {
        json_t *list = json_array();
        json_array_foreach(row, k, cell) {
            if (k == n_columns)
                break;
            if (json_is_string(cell))
                json_array_append_new(list, shown_text(json_string_value(cell)));
            else
                json_array_append(list, cell);
        }
        json_array_append_new(out, list);
    }
    return out;
}

static int add_table(struct catalog *c, struct err *err)
{
    int r = nl_schema_add_table(c->nl, c->tables[c->table], c->n_rows, err);
    for (size_t i = 0; i < json_array_size(c->columns) && r >= 0; i++)
        r = nl_schema_add_column(c->nl, (int)c->table, column_name(c, i),
                                 json_string_value(json_array_get(c->types, i)), err);
    return r < 0 ? r : 0;
}

static int feed_shape(struct catalog *c, const json_t *body, struct err *err)
{
    const char *table = c->tables[c->table];
    const json_t *rows = json_object_get(body, "rows");
    json_t *columns = json_copy(json_object_get(body, "columns")),
           *types = json_copy(json_object_get(body, "types"));
    size_t n = json_array_size(columns);
    c->columns = columns;
    c->types = types;
    if (n < 2 || json_array_size(types) != n)
        return err_set(err, ERR_PROTOCOL, "the columns of table '%s' did not come with their types",
                       table);
    /* The last is the number of rows, which no row means that there are none. */
    n--;
    json_array_remove(columns, n);
    json_array_remove(types, n);
    c->n_rows = json_integer_value(json_array_get(json_array_get(rows, 0), n));
    c->is_sampled = c->dialect != DIALECT_DUCKDB && c->n_rows > DATABASE_ROWS;
    if (n > PLAN_MAX_COLUMNS)
        return err_set(err, ERR_TOO_LARGE, "table '%s' has more than %d columns", table,
                       PLAN_MAX_COLUMNS);
    json_t *list = json_array(), *short_table = json_object();
    json_t *described = json_pack("{s:s, s:I, s:o, s:o}", "name", table, "row_count",
                                  (json_int_t)c->n_rows, "columns", list, "sample_rows",
                                  shown_rows(rows, n));
    if (c->is_sampled)
        json_object_set_new(described, "sampled_rows", json_integer(DATABASE_SAMPLE));
    json_array_append_new(json_object_get(c->described, "tables"), described);
    json_object_set_new(json_object_get(c->short_schema, "tables"), table, short_table);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(columns, i)),
                   *type = json_string_value(json_array_get(types, i));
        if (!name || !type)
            return err_set(err, ERR_PROTOCOL, "a column of '%s' has no name or type", table);
        if (json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "type", type)) < 0 ||
            json_object_set_new(short_table, name, json_string(type)) < 0)
            return no_memory(err);
    }
    return add_table(c, err);
}

static void describe_range(json_t *column, enum plan_type type, long long n_rows, const char *low,
                           const char *high, const char *mean, long long n)
{
    bool number = type == TYPE_INTEGER || type == TYPE_NUMBER;
    if (n_rows > n)
        json_object_set_new(column, "nulls", json_integer(n_rows - n));
    /*
     * A number that JSON has no form for leaves its member out: json_object_set_new() refuses NULL.
     */
    if (low && high) {
        json_object_set_new(column, "min", number ? number_of(low) : json_string(low));
        json_object_set_new(column, "max", number ? number_of(high) : json_string(high));
    }
    if (mean)
        json_object_set_new(column, "mean", number_of(mean));
}

static void describe_value(json_t *column, enum plan_type type, const char *value, long long n)
{
    json_t *top = json_object_get(column, "top");
    if (!top) {
        top = json_array();
        json_object_set_new(column, "top", top);
    }
    json_object_set_new(column, "distinct",
                        json_integer(json_integer_value(json_object_get(column, "distinct")) + 1));
    if (json_array_size(top) == CATALOG_TOP_VALUES)
        return;
    json_t *v = type == TYPE_INTEGER ? number_of(value) :
                type == TYPE_BOOL    ? json_boolean(str_eq(value, "true")) :
                                       shown_text(value);
    json_array_append_new(top, json_pack("{s:o, s:I}", "value", v, "count", (json_int_t)n));
}

/* The answer lists values only so far; what it was cut at is not their number. */
static void finish_column(json_t *column, enum plan_type type, bool repeats, bool is_cut)
{
    json_int_t distinct = json_integer_value(json_object_get(column, "distinct"));
    json_int_t most = type == TYPE_TEXT ? NL_VALUES_PER_COLUMN : INTEGER_VALUES - 1;
    if (distinct > most || !repeats || (is_cut && distinct > 0)) {
        json_object_del(column, "distinct");
        json_object_set_new(column, "distinct_more_than",
                            json_integer(repeats ? MIN_OF(distinct - 1, most) : most));
    }
    if ((type == TYPE_INTEGER && distinct > LISTED_INTEGERS) || !repeats)
        json_object_del(column, "top");
}

static int feed_facts(struct catalog *c, const json_t *body, struct err *err)
{
    const json_t *rows = json_object_get(body, "rows");
    json_t *columns = json_object_get(
               json_array_get(json_object_get(c->described, "tables"), c->table), "columns"),
           *row;
    size_t i, n_columns = json_array_size(c->columns);
    int r = 0, t = (int)c->table;
    if (!json_is_array(rows))
        return err_set(err, ERR_PROTOCOL, "the query about table '%s' gave no rows",
                       c->tables[c->table]);
    if (c->step == STEP_RANGES && !c->repeats)
        c->repeats = calloc(n_columns, sizeof(*c->repeats));
    if (c->step == STEP_RANGES && !c->repeats)
        return no_memory(err);
    json_array_foreach(rows, i, row) {
        json_int_t at = json_integer_value(json_array_get(row, 0)),
                   kind = json_integer_value(json_array_get(row, 1));
        const char *v = json_string_value(json_array_get(row, 2)),
                   *w = json_string_value(json_array_get(row, 3));
        long long n = json_integer_value(json_array_get(row, 5));
        if (at < 0 || at >= (json_int_t)n_columns || r < 0 || !json_is_array(row))
            continue;
        enum plan_type type = column_type(c, (size_t)at);
        json_t *column = json_array_get(columns, (size_t)at);
        if (kind == ROW_RANGE) {
            describe_range(column, type, c->is_sampled ? DATABASE_SAMPLE : c->n_rows, v, w,
                           json_string_value(json_array_get(row, 4)), n);
            if (c->step == STEP_RANGES)
                c->repeats[at] = n <= PROBED_ROWS ||
                                 (double)json_integer_value(json_array_get(row, 6)) <
                                     HARDLY_REPEATS * PROBED_ROWS;
            if (v && w && (type == TYPE_DATE || type == TYPE_TIMESTAMP || type == TYPE_INTEGER ||
                           type == TYPE_NUMBER))
                r = nl_schema_set_range(c->nl, t, (int)at, v, w, err);
            long long looked_at = MIN_OF(n, PROBED_ROWS);
            bool serial = type == TYPE_INTEGER && v && w && n == c->n_rows &&
                          json_integer_value(json_array_get(row, 6)) >= looked_at &&
                          strtod(w, NULL) - strtod(v, NULL) < SERIAL_GAPS * (double)n;
            nl_schema_set_counts(c->nl, t, (int)at, c->n_rows - n, serial);
        } else if (kind == ROW_VALUE && v) {
            describe_value(column, type, v, n);
            if (type != TYPE_BOOL)
                r = nl_schema_add_value(c->nl, t, (int)at, v, err);
        }
    }
    if (json_is_true(json_object_get(body, "truncated")))
        c->is_cut = true;
    return r < 0 ? r : 0;
}

static void finish_columns(struct catalog *c)
{
    json_t *columns = json_object_get(
        json_array_get(json_object_get(c->described, "tables"), c->table), "columns");
    for (size_t i = 0; i < json_array_size(c->columns); i++)
        finish_column(json_array_get(columns, i), column_type(c, i), !c->repeats || c->repeats[i],
                      c->is_cut);
}

/* ---- the end ---- */

static void take_relationships(struct catalog *c)
{
    json_t *kept = json_array(), *notes = json_array(), *rel;
    size_t i;
    json_array_foreach(c->relationships, i, rel) {
        struct err why = ERR_INIT;
        const char *from = json_string_value(json_object_get(rel, "from")),
                   *to = json_string_value(json_object_get(rel, "to"));
        int r = from && to ? nl_schema_add_relationship(c->nl, from, to, &why) :
                             err_set(&why, ERR_VALIDATION, "a relationship has no 'from' or 'to'");
        if (r >= 0)
            json_array_append(kept, rel);
        else
            json_array_append_new(notes, json_string(why.message));
    }
    json_object_set(c->described, "relationships", kept);
    json_object_set_new(c->short_schema, "relationships", kept);
    if (json_array_size(notes) > 0)
        json_object_set(c->described, "notes", notes);
    json_decref(notes);
}

/* Descriptions, units, roles and metrics, for the planner. */
static int take_words(struct catalog *c, struct err *err)
{
    const json_t *tables = json_object_get(c->described, "tables");
    json_t *table, *column, *meaning;
    const char *name;
    size_t t, k;
    int r = 0;
    json_array_foreach(tables, t, table) {
        const json_t *told = json_object_get(c->words,
                                             json_string_value(json_object_get(table, "name")));
        const json_t *columns = json_object_get(told, "columns"),
                     *roles = json_object_get(told, "roles");
        json_array_foreach(json_object_get(table, "columns"), k, column) {
            const char *about = json_string_value(
                json_object_get(columns, json_string_value(json_object_get(column, "name"))));
            const char *role = json_string_value(
                json_object_get(roles, json_string_value(json_object_get(column, "name"))));
            if (about && r >= 0)
                r = nl_schema_tell_column(c->nl, (int)t, (int)k, about, err);
            if (role && r >= 0)
                r = nl_schema_set_role(c->nl, (int)t, (int)k, role, err);
        }
    }
    json_object_foreach(json_object_get(c->words, ".metrics"), name, meaning)
        if (r >= 0 && json_is_string(meaning))
            r = nl_schema_add_metric(c->nl, name, json_string_value(meaning), err);
    return r;
}

static int finish(struct catalog *c, struct err *err)
{
    take_relationships(c);
    int r = take_words(c, err);
    if (r >= 0)
        r = nl_schema_finish(c->nl, err);
    if (r >= 0)
        r = plan_schema_parse(c->short_schema, NULL, &c->arena, &c->plan, err);
    if (r >= 0)
        c->plan->dialect = c->dialect;
    if (r < 0)
        return r;
    json_decref(TAKE_PTR(c->short_schema));
    json_decref(TAKE_PTR(c->relationships));
    json_decref(TAKE_PTR(c->words));
    buf_finish(&c->sql);
    c->step = STEP_DONE;
    return 0;
}

static void leave_table(struct catalog *c)
{
    c->is_cut = false;
    json_decref(TAKE_PTR(c->columns));
    json_decref(TAKE_PTR(c->types));
    free(TAKE_PTR(c->repeats));
}

int catalog_feed(struct catalog *c, const json_t *body, struct err *err)
{
    int r = 0;
    switch (c->step) {
    case STEP_SHAPE:
        r = feed_shape(c, body, err);
        c->step = c->n_rows > SMALL_ROWS ? STEP_RANGES : STEP_VALUES;
        c->asked = 0;
        break;
    case STEP_RANGES:
        r = feed_facts(c, body, err);
        if (r >= 0 && c->asked == looked_at(c)) {
            c->step = STEP_VALUES;
            c->asked = 0;
        }
        break;
    case STEP_VALUES:
        r = feed_facts(c, body, err);
        break;
    case STEP_DONE:
        return err_set(err, ERR_CONFLICT, "the catalog is finished");
    }
    if (r >= 0)
        r = facts_query(c, err);
    if (r < 0 || c->sql.len > 0)
        return r;
    finish_columns(c);
    leave_table(c);
    c->step = STEP_SHAPE;
    return ++c->table == c->n_tables ? finish(c, err) : shape_query(c, err);
}

/* ---- life ---- */

int catalog_create(const char *dataset_id, enum plan_dialect dialect, const char *const *tables,
                   size_t n_tables, const json_t *relationships, const json_t *words,
                   struct catalog **ret, struct err *err)
{
    struct catalog *c = calloc(1, sizeof(*c));
    int r = 0;
    if (!c)
        return no_memory(err);
    c->refs = 1;
    c->dialect = dialect;
    arena_init(&c->arena, ARENA_BYTES);
    buf_init(&c->sql, CODE_MAX_BYTES);
    c->dataset_id = arena_strdup(&c->arena, dataset_id);
    c->tables = arena_alloc(&c->arena, MAX_OF(n_tables, (size_t)1) * sizeof(*c->tables));
    c->relationships = json_is_array(relationships) ? json_deep_copy(relationships) : json_array();
    c->words = json_deep_copy(words);
    c->described = json_pack("{s:s, s:[]}", "dataset_id", dataset_id, "tables");
    c->short_schema = json_pack("{s:s, s:{}}", "id", dataset_id, "tables");
    if (!c->dataset_id || !c->tables || !c->relationships || !c->described || !c->short_schema)
        r = no_memory(err);
    for (size_t i = 0; i < n_tables && r >= 0; i++) {
        c->tables[c->n_tables++] = arena_strdup(&c->arena, tables[i]);
        if (!c->tables[i])
            r = no_memory(err);
    }
    if (r >= 0)
        r = nl_schema_create(dataset_id, &c->nl, err);
    if (r >= 0)
        r = n_tables > 0 ? shape_query(c, err) : finish(c, err);
    if (r < 0) {
        catalog_unref(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct catalog *catalog_ref(struct catalog *c)
{
    c->refs++;
    return c;
}

void catalog_unref(struct catalog *c)
{
    if (!c || --c->refs > 0)
        return;
    leave_table(c);
    json_decref(c->relationships);
    json_decref(c->words);
    json_decref(c->described);
    json_decref(c->short_schema);
    nl_schema_destroy(c->nl);
    buf_finish(&c->sql);
    arena_finish(&c->arena);
    free(c);
}

const char *catalog_next_sql(const struct catalog *c, int64_t *ret_max_rows)
{
    if (c->step == STEP_DONE)
        return NULL;
    *ret_max_rows = c->step == STEP_SHAPE ? CATALOG_SAMPLE_ROWS : VALUES_ROWS_MAX;
    return buf_cstr(&c->sql);
}

const struct nl_schema *catalog_schema(const struct catalog *c)
{
    return c->nl;
}

const struct plan_schema *catalog_plan_schema(const struct catalog *c)
{
    return c->plan;
}

const json_t *catalog_describe(const struct catalog *c)
{
    return c->described;
}

int catalog_compile(const struct catalog *c, const json_t *plan, struct buf *ret_sql,
                    struct err *err)
{
    auto_arena struct arena a;
    struct query_plan *parsed = NULL;
    arena_init(&a, PLAN_ARENA_BYTES);
    size_t before = ret_sql->len;
    int r = plan_parse(plan, &a, &parsed, err);
    if (r >= 0)
        r = plan_compile(parsed, c->plan, ret_sql, err);
    if (r < 0)
        return r;
    /*
     * A limit that nobody asked for is only the size of the answer, which the run has too; without
     * it rows that are equal in what they are ordered by keep the order of the file.
     */
    static const char tail[] = "\nLIMIT 1000";
    size_t len = ret_sql->len - before;
    if (parsed->limit == PLAN_LIMIT_MAX && len > sizeof(tail) &&
        str_ends(buf_cstr(ret_sql), tail)) {
        ret_sql->len -= sizeof(tail) - 1;
        ret_sql->data[ret_sql->len] = '\0';
    }
    return 0;
}
