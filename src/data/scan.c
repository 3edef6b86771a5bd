/*
 * Scanning a table. Four kinds of queries, each about many columns:
 *
 *   shape     the columns, a few rows and the number of all
 *   figures   one row of aggregates: how many are not null, how many differ, least, greatest, mean
 *   probe     how many values differ among the first rows: what hardly repeats is not worth grouping
 *   values    rows [column, kind of row, text, count]: values by frequency, and buckets of histograms
 *
 * All of them are plain SQL for every dialect, but for what only DuckDB has.
 */

#include "data/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "nl/nl.h"

#define VALUES_ROWS_MAX 200000
#define INTEGER_VALUES 200
#define LISTED_VALUES 50       /* a number or a time with more different values has no top list */
#define FIGURES_COLUMNS 100    /* in one query of aggregates */
#define UNION_COLUMNS 16       /* in one query: planning a UNION takes the square of its parts */
#define HISTOGRAM_COLUMNS 100  /* of a table */
#define HISTOGRAM_ROWS 1000000 /* a table with more is sampled for them */
#define SMALL_ROWS 100000      /* up to here different values are counted, and all is grouped */
#define PROBED_ROWS 20000
#define HARDLY_REPEATS 0.9    /* different values among those */
#define SERIAL_GAPS 4         /* numbers of rows span at most so many times their count */
#define DATABASE_ROWS 1000000 /* tables of databases with more are looked at by a sample */
#define DATABASE_SAMPLE 100000
#define TIME_MS 5000         /* then the columns that are left are left out … */
#define TIME_ROWS_PER_MS 500 /* … and a millisecond more for so many rows */

enum step { STEP_SHAPE, STEP_FIGURES, STEP_PROBE, STEP_VALUES, STEP_DONE };
enum row_kind { ROW_VALUE = 1, ROW_BUCKET = 2 };
enum figure { NOT_NULL, DISTINCT, LEAST, GREATEST, MEAN, _FIGURE_MAX };

struct column {
    const char *name;
    enum plan_type type;
    bool is_float, is_time;
    json_t *about;  /* the record's */
    json_t *values; /* NULL: none */
    long long not_null, distinct, probed; /* -1: not known */
    bool is_approximate, hardly_repeats;
    size_t n_values;
    double low, high; /* low < high: it has a histogram */
    json_int_t counts[SCAN_BUCKETS];
    bool has_counts;
};

struct table_scan {
    char *table;
    enum plan_dialect dialect;
    enum step step;
    struct buf sql;
    size_t from, to; /* the columns that the query is about */
    size_t n_histograms;
    long long n_rows, n_sampled; /* n_sampled 0: all are looked at */
    bool is_cut;                 /* an answer was */
    int64_t until_ms;
    struct column *columns; /* those that are looked at */
    size_t n;
    json_t *profile;
};

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- the queries ---- */

static bool is_duckdb(const struct table_scan *s)
{
    return s->dialect == DIALECT_DUCKDB;
}

/* About `rows` of all rows, as an entry of FROM; 0: all. */
static int put_rows(const struct table_scan *s, struct buf *b, long long rows, struct err *err)
{
    int r = rows ? buf_append_str(b, "(SELECT * FROM ", err) : 0;
    if (r >= 0)
        r = buf_append_quoted(b, "\"", s->table, err);
    if (r < 0 || !rows)
        return r;
    return is_duckdb(s) ? buf_printf(b, err, " USING SAMPLE %.6f PERCENT (system, 1)) AS s",
                                     100.0 * (double)rows / (double)s->n_rows) :
                          buf_printf(b, err, " LIMIT %lld) AS s", rows);
}

/*
 * fmt with each "%n" replaced by the column, "%t" by the table's rows, "%s" and "%i" by the types
 * of texts and whole numbers, and "%v" and "%c" by names for a value and a count. In ClickHouse
 * those take the place of the table's columns that are called the same.
 */
static int put(const struct table_scan *s, struct buf *b, const char *fmt, const char *column,
               struct err *err)
{
    bool click = s->dialect == DIALECT_CLICKHOUSE;
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
            r = put_rows(s, b, s->n_sampled, err);
        else if (what == 's')
            r = buf_append_str(b, click ? "Nullable(String)" : "VARCHAR", err);
        else if (what == 'i')
            r = buf_append_str(b, click ? "Nullable(Int64)" : "BIGINT", err);
        else
            r = buf_append_str(b, what == 'v' ? "\"v=\"" : "\"n=\"", err);
    }
    return r;
}

static int shape_query(struct table_scan *s, struct err *err)
{
    int r = put(s, &s->sql,
                is_duckdb(s) ? "SELECT *, (SELECT count(*) FROM %t) FROM %t" :
                               "SELECT *, (SELECT count(*) FROM (SELECT 1 FROM %t LIMIT ",
                NULL, err);
    if (r >= 0 && !is_duckdb(s))
        r = buf_printf(&s->sql, err, "%d) AS q) AS \"rows=\" FROM ", DATABASE_ROWS + 1);
    if (r >= 0 && !is_duckdb(s))
        r = put(s, &s->sql, "%t", NULL, err);
    return r < 0 ? r : buf_printf(&s->sql, err, " LIMIT %d", SCAN_SAMPLE_ROWS);
}

/* What stands in a query for a figure of a column; those that it does not have are NULL. */
static const char *figure_sql(const struct table_scan *s, const struct column *c, enum figure f)
{
    static const char *const of_numbers[] = { "CAST(min(%n) AS %s)", "CAST(max(%n) AS %s)",
                                              "CAST(avg(%n) AS %s)" };
    static const char *const of_floats[] = {
        "min(%n) FILTER (WHERE isfinite(%n))::VARCHAR",
        "max(%n) FILTER (WHERE isfinite(%n))::VARCHAR",
        "avg(%n) FILTER (WHERE isfinite(%n))::VARCHAR",
    };
    static const char *const of_texts[] = { "left(min(%n)::VARCHAR, 120)",
                                            "left(max(%n)::VARCHAR, 120)" };
    bool is_number = c->type == TYPE_INTEGER || c->type == TYPE_NUMBER;
    switch (f) {
    case NOT_NULL:
        return "CAST(count(%n) AS %i)";
    case DISTINCT:
        return !is_duckdb(s)                                  ? "CAST(NULL AS %i)" :
               (s->n_sampled ?: s->n_rows) <= SMALL_ROWS      ? "count(DISTINCT %n)" :
                                                                "approx_count_distinct(%n)";
    case MEAN:
        if (!is_number)
            return "CAST(NULL AS %s)";
        break;
    default:
        if (is_duckdb(s) && c->type == TYPE_TEXT)
            return of_texts[f - LEAST];
        if (!is_number && !c->is_time && !(is_duckdb(s) && c->type == TYPE_BOOL))
            return "CAST(NULL AS %s)";
    }
    return (is_duckdb(s) && c->is_float ? of_floats : of_numbers)[f - LEAST];
}

static int figures_query(struct table_scan *s, struct err *err)
{
    int r = buf_append_str(&s->sql, "SELECT ", err);
    for (size_t i = s->from; i < s->to; i++)
        for (int f = 0; f < _FIGURE_MAX && r >= 0; f++) {
            r = put(s, &s->sql, figure_sql(s, &s->columns[i], (enum figure)f), s->columns[i].name,
                    err);
            if (r >= 0)
                r = buf_printf(&s->sql, err, " AS \"f%zu_%d=\"%s", i, f,
                               i + 1 < s->to || f + 1 < _FIGURE_MAX ? "," : " FROM ");
        }
    return r < 0 ? r : put(s, &s->sql, "%t", NULL, err);
}

static bool is_probed(const struct column *c)
{
    return c->type == TYPE_TEXT || c->type == TYPE_INTEGER;
}

static int probe_query(struct table_scan *s, struct err *err)
{
    size_t n = 0;
    int r = 0;
    for (size_t i = s->from; i < s->to && r >= 0; i++) {
        if (!is_probed(&s->columns[i]))
            continue;
        r = buf_append_str(&s->sql, n++ ? "," : "SELECT ", err);
        if (r >= 0)
            r = put(s, &s->sql, "CAST(count(DISTINCT %n) AS %i)", s->columns[i].name, err);
        if (r >= 0)
            r = buf_printf(&s->sql, err, " AS \"p%zu=\"", i);
    }
    if (n == 0 || r < 0)
        return r;
    r = buf_append_str(&s->sql, " FROM (SELECT ", err);
    n = 0;
    for (size_t i = s->from; i < s->to && r >= 0; i++)
        if (is_probed(&s->columns[i]))
            r = put(s, &s->sql, n++ ? ",%n" : "%n", s->columns[i].name, err);
    if (r >= 0)
        r = put(s, &s->sql, " FROM %t", NULL, err);
    return r < 0 ? r : buf_printf(&s->sql, err, " LIMIT %d) AS q", PROBED_ROWS);
}

static bool is_listed(const struct column *c)
{
    if (c->not_null == 0)
        return false;
    return c->type == TYPE_TEXT || c->type == TYPE_INTEGER || c->type == TYPE_BOOL ||
           (c->type != TYPE_OTHER && c->distinct >= 0 && c->distinct <= LISTED_VALUES) ||
           (c->is_time && c->distinct >= 0 && c->distinct <= LISTED_VALUES);
}

static int values_limit(const struct column *c)
{
    return c->type == TYPE_TEXT      ? NL_VALUES_PER_COLUMN + 1 :
           is_listed(c) && is_probed(c) ? INTEGER_VALUES :
                                          LISTED_VALUES + 1;
}

/*
 * The most frequent values first. A text is cut to just more than the planner takes, so that long
 * ones cost nothing on the way here and are still left out by it.
 */
static int values_part(struct table_scan *s, size_t i, struct err *err)
{
    const struct column *c = &s->columns[i];
    struct buf *b = &s->sql;
    int r = buf_printf(b, err, "%sSELECT %zu AS c, %d AS k, ", b->len ? " UNION ALL " : "", i,
                       ROW_VALUE);
    const char *cut = c->type != TYPE_TEXT             ? "CAST(%v AS %s" :
                      s->dialect == DIALECT_SQLITE     ? "substr(%v, 1, " :
                      s->dialect == DIALECT_CLICKHOUSE ? "CAST(substringUTF8(toString(%v), 1, " :
                                                         "left(CAST(%v AS %s), ";
    if (r >= 0)
        r = put(s, b, cut, c->name, err);
    if (r >= 0 && c->type == TYPE_TEXT)
        r = buf_printf(b, err, "%d", NL_VALUE_MAX_BYTES + 1);
    if (r >= 0 && c->type == TYPE_TEXT && s->dialect == DIALECT_CLICKHOUSE)
        r = put(s, b, ") AS %s", c->name, err);
    if (r >= 0)
        r = put(s, b, ") AS %v, CAST(%c AS %i) AS %c FROM (SELECT ", c->name, err);
    if (r >= 0 && c->hardly_repeats) {
        r = put(s, b, "DISTINCT %v, 1 AS %c FROM (SELECT %n AS %v FROM %t WHERE %n IS NOT NULL",
                c->name, err);
        if (r >= 0)
            r = buf_printf(b, err, " LIMIT %d) AS q", PROBED_ROWS);
    } else if (r >= 0) {
        r = put(s, b,
                c->is_float && is_duckdb(s) ?
                    "%n AS %v, count(*) AS %c FROM %t WHERE isfinite(%n) GROUP BY %n ORDER BY "
                    "%c DESC, %v" :
                    "%n AS %v, count(*) AS %c FROM %t WHERE %n IS NOT NULL GROUP BY %n ORDER BY "
                    "%c DESC, %v",
                c->name, err);
    }
    return r < 0 ? r : buf_printf(b, err, " LIMIT %d) AS p", values_limit(c));
}

/* A number of the column's as a bucket. */
static int put_bucket(struct table_scan *s, const struct column *c, struct err *err)
{
    int r = buf_printf(&s->sql, err, "CAST(least(%d, greatest(0, floor((", SCAN_BUCKETS - 1);
    if (r >= 0)
        r = put(s, &s->sql, "CAST(%n AS DOUBLE)", c->name, err);
    return r < 0 ? r :
                   buf_printf(&s->sql, err, " - %.17g) / %.17g))) AS INTEGER)", c->low,
                              (c->high - c->low) / SCAN_BUCKETS);
}

static int buckets_part(struct table_scan *s, size_t i, struct err *err)
{
    const struct column *c = &s->columns[i];
    long long rows = s->n_sampled ? s->n_sampled : s->n_rows > HISTOGRAM_ROWS ? HISTOGRAM_ROWS : 0;
    int r = buf_printf(&s->sql, err,
                       "%sSELECT %zu AS c, %d AS k, CAST(b AS VARCHAR) AS \"v=\", n AS \"n=\" FROM "
                       "(SELECT ",
                       s->sql.len ? " UNION ALL " : "", i, ROW_BUCKET);
    if (r >= 0)
        r = put_bucket(s, c, err);
    if (r >= 0)
        r = buf_append_str(&s->sql, " AS b, count(*) AS n FROM ", err);
    if (r >= 0)
        r = put_rows(s, &s->sql, rows, err);
    return r < 0 ? r :
                   put(s, &s->sql, " WHERE isfinite(CAST(%n AS DOUBLE)) GROUP BY 1)", c->name, err);
}

/*
 * Small tables in DuckDB: values of many columns are aggregates of one scan, as many times faster
 * as there are columns in it. The answer has the same rows as that of a UNION.
 */
static bool is_aggregated(const struct table_scan *s)
{
    return is_duckdb(s) && s->n_rows <= PROBED_ROWS;
}

/* An entry of a histogram. A name that no column has: theirs come first. */
#define ENTRY "\"entry of riddle\""

static int aggregated_values(struct table_scan *s, size_t i, struct err *err)
{
    const struct column *c = &s->columns[i];
    bool is_text = c->type == TYPE_TEXT;
    int r = buf_append_str(&s->sql, "list_transform(list_sort(list_transform(map_entries(histogram(",
                           err);
    if (r >= 0)
        r = put(s, &s->sql, is_text ? "left(%n::VARCHAR," : "%n", c->name, err);
    if (r >= 0 && is_text)
        r = buf_printf(&s->sql, err, "%d)", NL_VALUE_MAX_BYTES + 1);
    if (r >= 0)
        r = put(s, &s->sql, c->is_float ? ") FILTER (WHERE isfinite(%n))" : ")", c->name, err);
    if (r >= 0)
        r = buf_printf(&s->sql, err,
                       "),lambda " ENTRY ": {'n':-" ENTRY ".value::BIGINT,'v':" ENTRY
                       ".key}))[1:%d],lambda " ENTRY ": {'c':%zu,'k':%d,'v':" ENTRY
                       ".v::VARCHAR,'n':-" ENTRY ".n}),",
                       values_limit(c), i, ROW_VALUE);
    return r;
}

static int aggregated_buckets(struct table_scan *s, size_t i, struct err *err)
{
    int r = buf_append_str(&s->sql, "list_transform(map_entries(histogram(", err);
    if (r >= 0)
        r = put_bucket(s, &s->columns[i], err);
    if (r >= 0)
        r = put(s, &s->sql, ") FILTER (WHERE isfinite(CAST(%n AS DOUBLE)))", s->columns[i].name,
                err);
    return r < 0 ? r :
                   buf_printf(&s->sql, err,
                              "),lambda " ENTRY ": {'c':%zu,'k':%d,'v':" ENTRY
                              ".key::VARCHAR,'n':" ENTRY ".value::BIGINT}),",
                              i, ROW_BUCKET);
}

static int values_query(struct table_scan *s, struct err *err)
{
    bool is_one = is_aggregated(s);
    int r = is_one ? buf_append_str(&s->sql, "SELECT unnest(flatten([", err) : 0;
    size_t before = s->sql.len;
    for (size_t i = s->from; i < s->to && r >= 0; i++)
        if (is_listed(&s->columns[i]))
            r = is_one ? aggregated_values(s, i, err) : values_part(s, i, err);
    for (size_t i = s->from; i < s->to && r >= 0; i++)
        if (s->columns[i].low < s->columns[i].high)
            r = is_one ? aggregated_buckets(s, i, err) : buckets_part(s, i, err);
    if (s->sql.len == before)
        buf_clear(&s->sql);
    else if (r >= 0 && is_one)
        r = put(s, &s->sql, "[]]),recursive:=true) FROM %t", NULL, err);
    return r;
}

static int step_query(struct table_scan *s, struct err *err)
{
    buf_clear(&s->sql);
    switch (s->step) {
    case STEP_FIGURES:
        return figures_query(s, err);
    case STEP_PROBE:
        return probe_query(s, err);
    case STEP_VALUES:
        return values_query(s, err);
    default:
        return 0;
    }
}

static bool needs_step(const struct table_scan *s)
{
    if (s->step == STEP_PROBE)
        return !is_duckdb(s) || s->n_rows > SMALL_ROWS;
    return s->step == STEP_FIGURES || s->n_rows > 0;
}

static void finish(struct table_scan *s);

/* The query about the next columns that have something to be asked; the end when there are none. */
static int next_query(struct table_scan *s, struct err *err)
{
    int r = 0;
    buf_clear(&s->sql);
    s->from = s->to;
    while (r >= 0 && s->sql.len == 0 && s->step != STEP_DONE) {
        bool late = s->step == STEP_VALUES && s->from > 0 && clock_now_ms() > s->until_ms;
        if (s->from == s->n || !needs_step(s) || late) {
            s->step++;
            s->from = 0;
            continue;
        }
        size_t most = s->step == STEP_VALUES && !is_aggregated(s) ? UNION_COLUMNS : FIGURES_COLUMNS;
        s->to = MIN_OF(s->from + most, s->n);
        /* Long names may make it longer than code may be: then fewer at a time. */
        while ((r = step_query(s, err)) == -ERR_TOO_LARGE && s->to > s->from + 1)
            s->to = s->from + (s->to - s->from) / 2;
        if (r >= 0 && s->sql.len == 0)
            s->from = s->to;
    }
    if (r >= 0 && s->step == STEP_DONE)
        finish(s);
    return r < 0 ? r : 0;
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

static json_t *shown_text(const char *text, size_t len)
{
    size_t at = 0;
    for (int i = 0; i < SCAN_TEXT_CHARACTERS && at < len; i++) {
        size_t bad, n = str_utf8_next(text + at, len - at, &bad);
        at += n ? n : bad;
    }
    if (at >= len)
        return json_text(text, len);
    auto_free char *cut = malloc(at + sizeof("…"));
    if (!cut)
        return NULL;
    memcpy(cut, text, at);
    memcpy(cut + at, "…", sizeof("…"));
    return json_text(cut, at + strlen("…"));
}

/* A value that an engine wrote as text, as JSON has it: times as ISO 8601. NULL: it has no form. */
static json_t *value_of(const struct column *c, const char *text)
{
    if (c->type == TYPE_INTEGER || c->type == TYPE_NUMBER)
        return number_of(text);
    if (c->type == TYPE_BOOL)
        return json_boolean(str_eq(text, "true") || str_eq(text, "1"));
    size_t len = strlen(text);
    if (c->type != TYPE_TIMESTAMP || len < 11 || text[10] != ' ')
        return shown_text(text, len);
    auto_free char *iso = strdup(text);
    if (iso)
        iso[10] = 'T';
    return iso ? shown_text(iso, len) : NULL;
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
                json_array_append_new(
                    list, shown_text(json_string_value(cell), json_string_length(cell)));
            else
                json_array_append(list, cell);
        }
        json_array_append_new(out, list);
    }
    return out;
}

static void begin_column(struct column *c, const char *type)
{
    *c = (struct column){ .name = json_string_value(json_object_get(c->about, "name")),
                          .about = c->about,
                          .type = plan_type_from_name(type),
                          .is_float = str_starts(type, "DOUBLE") || str_starts(type, "FLOAT"),
                          .distinct = -1,
                          .probed = -1 };
    c->is_time = c->type == TYPE_DATE || c->type == TYPE_TIMESTAMP || str_eq(type, "TIME");
}

static int feed_shape(struct table_scan *s, const json_t *body, struct err *err)
{
    const json_t *rows = json_object_get(body, "rows"), *names = json_object_get(body, "columns"),
                 *types = json_object_get(body, "types");
    size_t n = json_array_size(names);
    if (n < 2 || json_array_size(types) != n)
        return err_set(err, ERR_PROTOCOL, "the columns of table '%s' did not come with their types",
                       s->table);
    n--; /* the last is the number of rows: no row, no rows */
    s->n_rows = json_integer_value(json_array_get(json_array_get(rows, 0), n));
    if (s->n_rows < 0)
        return err_set(err, ERR_PROTOCOL, "table '%s' has %lld rows", s->table, s->n_rows);
    s->n_sampled = !is_duckdb(s) && s->n_rows > DATABASE_ROWS ? DATABASE_SAMPLE : 0;
    s->until_ms = clock_now_ms() + TIME_MS + s->n_rows / TIME_ROWS_PER_MS;
    size_t kept = MIN_OF(n, (size_t)PLAN_MAX_COLUMNS);
    s->n = MIN_OF(n, (size_t)SCAN_COLUMNS);
    s->columns = calloc(s->n, sizeof(*s->columns));
    json_t *list = json_array();
    s->profile = json_pack("{s:I, s:o, s:o}", "row_count", (json_int_t)s->n_rows, "columns", list,
                           "sample_rows", shown_rows(rows, kept));
    if (!s->columns || !s->profile)
        return no_memory(err);
    if (n > kept)
        json_object_set_new(s->profile, "columns_left_out", json_integer((json_int_t)(n - kept)));
    for (size_t i = 0; i < kept; i++) {
        const char *name = json_string_value(json_array_get(names, i)),
                   *type = json_string_value(json_array_get(types, i));
        if (!name || !type)
            return err_set(err, ERR_PROTOCOL, "a column of '%s' has no name or type", s->table);
        json_t *about = json_pack("{s:s, s:s}", "name", name, "type", type);
        if (json_array_append_new(list, about) < 0)
            return no_memory(err);
        if (i < s->n) {
            s->columns[i].about = about;
            begin_column(&s->columns[i], type);
        }
    }
    return 0;
}

static long long looked_at(const struct table_scan *s)
{
    return s->n_sampled ? s->n_sampled : s->n_rows;
}

static void take_figures(struct table_scan *s, struct column *c, const json_t *row, size_t at)
{
    static const char *const names[] = { "min", "max", "mean" };
    c->not_null = json_integer_value(json_array_get(row, at + NOT_NULL));
    c->not_null = MAX_OF(0, MIN_OF(c->not_null, s->n_rows));
    const json_t *distinct = json_array_get(row, at + DISTINCT);
    if (json_is_integer(distinct)) { /* an estimate may be more than there can be */
        c->distinct = MAX_OF(0, MIN_OF(json_integer_value(distinct), c->not_null));
        c->is_approximate = looked_at(s) > SMALL_ROWS;
    }
    json_object_set_new(c->about, "nulls", json_integer(MAX_OF(0, looked_at(s) - c->not_null)));
    for (int f = LEAST; f < _FIGURE_MAX; f++) {
        const char *text = json_string_value(json_array_get(row, at + (size_t)f));
        json_t *value = text ? value_of(c, text) : NULL;
        if (f != MEAN || value)
            json_object_set_new(c->about, names[f - LEAST], value ? value : json_null());
    }
    json_t *low = json_object_get(c->about, "min"), *high = json_object_get(c->about, "max");
    if (is_duckdb(s) && json_is_number(low) && json_is_number(high) &&
        s->n_histograms < HISTOGRAM_COLUMNS) {
        c->low = json_number_value(low);
        c->high = json_number_value(high);
        s->n_histograms += c->low < c->high;
    }
}

static int feed_figures(struct table_scan *s, const json_t *rows, struct err *err)
{
    const json_t *row = json_array_get(rows, 0);
    if (json_array_size(row) != (s->to - s->from) * _FIGURE_MAX)
        return err_set(err, ERR_PROTOCOL, "the query about table '%s' gave no row", s->table);
    for (size_t i = s->from; i < s->to; i++)
        take_figures(s, &s->columns[i], row, (i - s->from) * _FIGURE_MAX);
    return 0;
}

static int feed_probe(struct table_scan *s, const json_t *rows)
{
    size_t n = 0;
    for (size_t i = s->from; i < s->to; i++) {
        struct column *c = &s->columns[i];
        if (!is_probed(c))
            continue;
        c->probed = json_integer_value(json_array_get(json_array_get(rows, 0), n++));
        c->hardly_repeats = s->n_rows > SMALL_ROWS && c->not_null > PROBED_ROWS &&
                            (double)c->probed >= HARDLY_REPEATS * PROBED_ROWS;
        if (s->n_rows <= PROBED_ROWS)
            c->distinct = c->probed; /* those were all */
    }
    return 0;
}

static int feed_values(struct table_scan *s, const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        json_int_t at = json_integer_value(json_array_get(row, 0)),
                   kind = json_integer_value(json_array_get(row, 1)),
                   n = json_integer_value(json_array_get(row, 3));
        const char *text = json_string_value(json_array_get(row, 2));
        if (at < (json_int_t)s->from || at >= (json_int_t)s->to || !text)
            continue;
        struct column *c = &s->columns[at];
        int bucket = kind == ROW_BUCKET ? atoi(text) : -1;
        if (bucket >= 0 && bucket < SCAN_BUCKETS) {
            c->counts[bucket] = n;
            c->has_counts = true;
        }
        if (kind != ROW_VALUE || (int)c->n_values == values_limit(c))
            continue;
        c->n_values++;
        if (is_probed(c)) {
            if (!c->values)
                c->values = json_array();
            json_array_append_new(c->values, json_string(text));
        }
        json_t *top = json_object_get(c->about, "top");
        if (!top) {
            top = json_array();
            json_object_set_new(c->about, "top", top);
        }
        json_t *value = json_array_size(top) < SCAN_TOP_VALUES ? value_of(c, text) : NULL;
        if (value)
            json_array_append_new(top, json_pack("{s:o, s:I}", "value", value, "count", n));
    }
    return 0;
}

/* ---- the end ---- */

static void finish_column(const struct table_scan *s, struct column *c)
{
    bool all = is_listed(c) && !c->hardly_repeats && !s->is_cut &&
               (int)c->n_values < values_limit(c);
    if (c->n_values > 0 && all && (c->distinct < 0 || c->is_approximate)) {
        c->distinct = (long long)c->n_values;
        c->is_approximate = s->n_sampled > 0;
    }
    if (c->distinct < 0 && c->n_values > 0) { /* at least */
        c->distinct = c->probed > 0 ? MAX_OF(c->probed, (long long)c->n_values) :
                                      (long long)c->n_values;
        c->is_approximate = true;
    }
    if (c->distinct >= 0)
        json_object_set_new(c->about, "distinct", json_integer(c->distinct));
    if (c->is_approximate)
        json_object_set_new(c->about, "distinct_is_approximate", json_true());
    if (!json_object_get(c->about, "top") || c->hardly_repeats ||
        (c->type != TYPE_TEXT && c->distinct > LISTED_VALUES))
        json_object_set_new(c->about, "top", json_array());
    double span = json_number_value(json_object_get(c->about, "max")) -
                  json_number_value(json_object_get(c->about, "min"));
    if (c->type == TYPE_INTEGER && c->probed >= MIN_OF(c->not_null, PROBED_ROWS) &&
        s->n_rows > SMALL_ROWS && c->not_null == s->n_rows &&
        span < SERIAL_GAPS * (double)c->not_null)
        json_object_set_new(c->about, "is_serial", json_true());
    if (!c->has_counts)
        return;
    json_t *counts = json_array();
    for (int i = 0; i < SCAN_BUCKETS; i++)
        json_array_append_new(counts, json_integer(c->counts[i]));
    json_object_set_new(c->about, "histogram",
                        json_pack("{s:O, s:O, s:o}", "from", json_object_get(c->about, "min"), "to",
                                  json_object_get(c->about, "max"), "counts", counts));
}

static void finish(struct table_scan *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (json_object_get(s->columns[i].about, "nulls"))
            finish_column(s, &s->columns[i]);
    if (s->n_sampled)
        json_object_set_new(s->profile, "sampled_rows", json_integer(s->n_sampled));
}

int table_scan_feed(struct table_scan *s, const json_t *body, struct err *err)
{
    const json_t *rows = json_object_get(body, "rows");
    int r = 0;
    if (s->step == STEP_DONE)
        return err_set(err, ERR_CONFLICT, "the table '%s' was looked at", s->table);
    if (!json_is_array(rows) && s->step != STEP_SHAPE)
        return err_set(err, ERR_PROTOCOL, "the query about table '%s' gave no rows", s->table);
    if (s->step == STEP_SHAPE)
        r = feed_shape(s, body, err);
    else if (s->step == STEP_FIGURES)
        r = feed_figures(s, rows, err);
    else if (s->step == STEP_PROBE)
        r = feed_probe(s, rows);
    else
        r = feed_values(s, rows);
    if (r < 0)
        return r;
    s->is_cut = s->is_cut || (s->step == STEP_VALUES && json_is_true(json_object_get(body, "truncated")));
    if (s->step == STEP_SHAPE)
        s->step = STEP_FIGURES;
    return next_query(s, err);
}

bool table_scan_pass(struct table_scan *s)
{
    struct err ignored = ERR_INIT;
    if (s->step == STEP_SHAPE || s->step == STEP_DONE)
        return false;
    if (s->n_sampled || s->n_rows <= PROBED_ROWS || !is_duckdb(s))
        return next_query(s, &ignored) == 0;
    s->n_sampled = MIN_OF(s->n_rows / 10, (long long)HISTOGRAM_ROWS);
    return step_query(s, &ignored) == 0;
}

/* ---- life ---- */

int table_scan_create(const char *table, enum plan_dialect dialect, struct table_scan **ret,
                      struct err *err)
{
    struct table_scan *s = calloc(1, sizeof(*s));
    if (!s)
        return no_memory(err);
    s->dialect = dialect;
    s->table = strdup(table);
    buf_init(&s->sql, CODE_MAX_BYTES);
    int r = s->table ? shape_query(s, err) : no_memory(err);
    if (r < 0) {
        table_scan_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void table_scan_destroy(struct table_scan *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n && s->columns; i++)
        json_decref(s->columns[i].values);
    json_decref(s->profile);
    free(s->columns);
    free(s->table);
    buf_finish(&s->sql);
    free(s);
}

const char *table_scan_next_sql(const struct table_scan *s, int64_t *ret_max_rows)
{
    if (s->step == STEP_DONE)
        return NULL;
    *ret_max_rows = s->step == STEP_SHAPE ? SCAN_SAMPLE_ROWS : VALUES_ROWS_MAX;
    return buf_cstr(&s->sql);
}

void table_scan_take(struct table_scan *s, json_t **ret_profile, json_t **ret_values)
{
    json_t *values = json_array();
    for (size_t i = 0; i < s->n; i++)
        json_array_append_new(values, s->columns[i].values ? TAKE_PTR(s->columns[i].values) :
                                                             json_null());
    *ret_profile = TAKE_PTR(s->profile);
    *ret_values = values;
}

/* ---- what was kept ---- */

static int check_table(const json_t *table, struct err *err)
{
    size_t i;
    json_t *column;
    if (!json_is_integer(json_object_get(table, "row_count")) ||
        !json_is_array(json_object_get(table, "columns")))
        return err_set(err, ERR_VALIDATION, "profile: it has no 'row_count' or 'columns'");
    json_array_foreach(json_object_get(table, "columns"), i, column)
        if (!json_is_string(json_object_get(column, "name")) ||
            !json_is_string(json_object_get(column, "type")))
            return err_set(err, ERR_VALIDATION, "profile: column %zu has no name or type", i + 1);
    return 0;
}

int table_profile_check(const json_t *profile, struct err *err)
{
    size_t i;
    json_t *part;
    int r = check_table(profile, err);
    json_array_foreach(json_object_get(profile, "tables"), i, part) {
        if (r == 0 && !json_is_string(json_object_get(part, "name")))
            r = err_set(err, ERR_VALIDATION, "profile: part %zu has no name", i + 1);
        if (r == 0)
            r = check_table(part, err);
    }
    return r;
}
