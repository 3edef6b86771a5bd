/*
 * The tools of a model: what each is called with, and what it answers in words. The words are the
 * truth about the run: what was made, what was cut and why, what exists when a name is wrong.
 */

#include "agent/tools.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/str.h"

#define ROWS_SHOWN 50
#define ROWS_MAX_BYTES 12000
#define CELL_MAX_BYTES 300 /* of a cell that is shown; longer ones are cut, with a note */
#define PRINTED_MAX_BYTES 6000
#define DESCRIBED_BYTES 8000 /* of one page of describe_table */

struct tool {
    const char *name, *description, *parameters;
    bool python;  /* only where Python is on */
    bool retired; /* understood, but not offered */
};

static const struct tool tools[] = {
    { "run_sql", "Run one SELECT on the tables and get its rows.",
      "{\"type\":\"object\",\"required\":[\"sql\"],\"properties\":{\"sql\":{\"type\":\"string\","
      "\"description\":\"One SELECT or WITH "
      "statement.\"}}}",
      false, false },
    { "run_python",
      "Run a Python cell. pandas is pd, numpy np; each table is a DataFrame by its name; "
      "sql(\"SELECT …\") gives a DataFrame. "
      "Variables stay from cell to cell. Figures drawn with matplotlib are shown to the person. "
      "Files written to /workspace can "
      "be downloaded. The value of the last expression, and what is printed, come back.",
      "{\"type\":\"object\",\"required\":[\"code\"],\"properties\":{\"code\":{\"type\":\"string\","
      "\"description\":\"Python source.\"}}}",
      true, false },
    { "describe_table",
      "Columns of a table with types, ranges, frequent values, descriptions and sample rows, in "
      "pages.",
      "{\"type\":\"object\",\"required\":[\"table\"],\"properties\":{\"table\":{\"type\":"
      "\"string\"},\"from\":{\"type\":\"integer\","
      "\"description\":\"Number of the first column of the page; 1 when left "
      "out.\"},\"match\":{\"type\":\"string\",\"description\":\"Only "
      "columns whose name or description has this text.\"}}}",
      false, false },
    { "find_values",
      "Find how something is spelt in the data: values of text columns that are like the text, "
      "with their columns.",
      "{\"type\":\"object\",\"required\":[\"text\"],\"properties\":{\"text\":{\"type\":\"string\"}}"
      "}",
      false, false },
    { "show_chart",
      "Draw the rows of the last result for the person. Columns are named as in the result.",
      "{\"type\":\"object\",\"required\":[\"kind\",\"x\",\"y\"],\"properties\":{\"kind\":{\"type\":"
      "\"string\",\"enum\":[\"bar\",\"line\","
      "\"point\",\"arc\"]},\"x\":{\"type\":\"string\"},\"y\":{\"type\":\"string\"},\"series\":{"
      "\"type\":\"string\"}}}",
      false, false },
    { "ask_person",
      "Ask the person which of several readings is meant. Ends your turn; the person picks a "
      "choice or writes.",
      "{\"type\":\"object\",\"required\":[\"question\",\"choices\"],\"properties\":{\"question\":{"
      "\"type\":\"string\"},\"choices\":{\"type\":"
      "\"array\",\"items\":{\"type\":\"string\"},\"description\":\"Two to four questions that each "
      "stand for themselves.\"}}}",
      false, false },
    { "run_plan", "",
      "{\"type\":\"object\",\"required\":[\"plan\"],\"properties\":{\"plan\":{\"type\":\"object\"}}"
      "}",
      false, true },
    { "list_files", "", "{\"type\":\"object\",\"properties\":{}}", false, true },
};

/* Parsed once; they live as long as the process. */
static json_t *schemas[ARRAY_SIZE(tools)];
static struct llm_tool listed[2][ARRAY_SIZE(tools)];
static size_t n_listed[2];

static void prepare(void)
{
    if (schemas[0])
        return;
    for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
        struct err err = ERR_INIT;
        (void)json_parse(tools[i].parameters, strlen(tools[i].parameters), &schemas[i], &err);
        struct llm_tool tool = { .name = tools[i].name,
                                 .description = tools[i].description,
                                 .parameters = schemas[i] };
        if (tools[i].retired)
            continue;
        listed[1][n_listed[1]++] = tool;
        if (!tools[i].python)
            listed[0][n_listed[0]++] = tool;
    }
}

size_t tools_list(const struct turn *t, const struct llm_tool **ret)
{
    bool python = turn_cfg(t)->enable_python;
    prepare();
    *ret = listed[python];
    return n_listed[python];
}

const json_t *tools_schema(const char *name)
{
    prepare();
    for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
        if (str_eq(tools[i].name, name))
            return schemas[i];
    return NULL;
}

const char *tools_names(void)
{
    return "run_sql, run_python, describe_table, find_values, show_chart, ask_person";
}

/* ---- results ---- */

static int append_cut(struct buf *b, const char *title, const char *text, size_t max,
                      struct err *err)
{
    if (!text || !*text)
        return 0;
    size_t len = strlen(text), cut = str_utf8_cut(text, len, max);
    int r = buf_printf(b, err, "%s%s:\n%.*s", b->len ? "\n" : "", title, (int)cut, text);
    if (r == 0 && cut < len)
        r = buf_printf(b, err, "\n… (the first %zu of %zu bytes)", cut, len);
    return r;
}

/* A row with its long texts cut; true in *ret_cut when one was. */
static int append_row(struct buf *b, const json_t *row, bool *ret_cut, struct err *err)
{
    size_t i;
    json_t *cell;
    int r = buf_append_str(b, "\n[", err);
    json_array_foreach(row, i, cell) {
        auto_json json_t *shorter = NULL;
        auto_free char *text = json_is_string(cell) ? NULL : json_to_str(cell);
        const char *s = text ? text : json_string_value(cell);
        size_t len = s ? strlen(s) : 0;
        if (len > CELL_MAX_BYTES) {
            size_t cut = str_utf8_cut(s, len, CELL_MAX_BYTES);
            auto_free char *kept = NULL;
            if (asprintf(&kept, "%.*s… (%zu bytes)", (int)cut, s, len) > 0)
                shorter = json_text(kept, strlen(kept));
            *ret_cut = true;
        }
        if (r == 0 && i > 0)
            r = buf_append_str(b, ",", err);
        if (r == 0)
            r = json_write(shorter ? shorter : cell, b, err);
    }
    return r == 0 ? buf_append_str(b, "]", err) : r;
}

static int append_rows(struct buf *b, const json_t *result, struct err *err)
{
    const json_t *rows = json_object_get(result, "rows");
    size_t n = json_array_size(rows), shown = 0, start = b->len;
    bool truncated = json_is_true(json_object_get(result, "truncated")), cut = false;
    long long count = (long long)json_integer_value(json_object_get(result, "row_count"));
    int r = buf_printf(b, err, "%scolumns: ", b->len ? "\n" : "");
    if (r == 0)
        r = json_write(json_object_get(result, "columns"), b, err);
    if (n == 0 && r == 0) {
        if (truncated || count > 0)
            return buf_append_str(
                b,
                "\nthere are rows, but they are too large to be returned. Select fewer columns, or shorten texts with left(column, 200).",
                err);
        return buf_append_str(
            b,
            "\nno rows. If rows were expected, check the spelling of values with find_values, and the filters.",
            err);
    }
    while (r == 0 && shown < n && shown < ROWS_SHOWN && b->len - start < ROWS_MAX_BYTES)
        r = append_row(b, json_array_get(rows, shown++), &cut, err);
    if (r == 0)
        r = buf_printf(
            b, err, "\n(%zu of %zu rows shown%s%s)", shown, n,
            truncated ?
                "; the result was cut there, the query has more rows: aggregate, or filter" :
                "",
            cut ? "; texts that end in … were shortened" : "");
    return r;
}

static bool is_known(const json_t *files, const json_t *file)
{
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f)
        if (json_equal(json_object_get(f, "path"), json_object_get(file, "path")) &&
            json_equal(json_object_get(f, "size"), json_object_get(file, "size")) &&
            json_equal(json_object_get(f, "modified"), json_object_get(file, "modified")))
            return true;
    return false;
}

/* Figures and files that this run made. */
static int append_made(struct buf *b, const json_t *result, const json_t *files_before,
                       struct err *err)
{
    const json_t *outputs = json_object_get(result, "outputs");
    size_t i, figures = 0;
    json_t *o;
    int r = 0;
    json_array_foreach(outputs, i, o)
        figures += json_object_get(o, "png") || json_object_get(o, "svg") ||
                   json_object_get(o, "png_url") || json_object_get(o, "svg_url");
    if (figures > 0)
        r = buf_printf(b, err, "%s%zu figure%s drawn, and the person sees %s.", b->len ? "\n" : "",
                       figures, figures == 1 ? " was" : "s were", figures == 1 ? "it" : "them");
    json_array_foreach(json_object_get(result, "files"), i, o)
        if (r == 0 && !is_known(files_before, o))
            r = buf_printf(b, err,
                           "%swrote /workspace/%s (%lld bytes); the person can download it.",
                           b->len ? "\n" : "", json_string_value(json_object_get(o, "path")),
                           (long long)json_integer_value(json_object_get(o, "size")));
    return r;
}

/* KeyError says what is not there; this says what is. */
static int append_columns_there(struct buf *b, const struct turn *t, struct err *err)
{
    const json_t *tables = json_object_get(catalog_describe(t->chat->catalog), "tables");
    size_t i, k, start = b->len;
    json_t *table, *column;
    int r = 0;
    json_array_foreach(tables, i, table) {
        if (r < 0 || b->len - start > 1500)
            break;
        r = buf_printf(b, err,
                       "\ncolumns of %s:", json_string_value(json_object_get(table, "name")));
        json_array_foreach(json_object_get(table, "columns"), k, column) {
            if (r < 0 || b->len - start > 1500)
                break;
            r = buf_append_str(b, k ? ", " : " ", err);
            if (r == 0)
                r = prompt_name(b, json_string_value(json_object_get(column, "name")), err);
        }
    }
    return r;
}

int tools_result_text(const struct turn *t, const json_t *result, const json_t *files_before,
                      struct buf *b, struct err *err)
{
    const json_t *error = json_object_get(result, "error");
    const char *message = json_string_value(json_object_get(error, "message")),
               *type = json_string_value(json_object_get(error, "type"));
    const char *trace = json_string_value(json_object_get(error, "traceback"));
    const char *value = json_string_value(
        json_object_get(json_object_get(result, "value"), "text"));
    bool has_columns = json_array_size(json_object_get(result, "columns")) > 0;
    int r = append_cut(b, "printed", json_string_value(json_object_get(result, "stdout")),
                       PRINTED_MAX_BYTES, err);
    if (r == 0)
        r = append_cut(b, "stderr", json_string_value(json_object_get(result, "stderr")),
                       PRINTED_MAX_BYTES / 3, err);
    if (r == 0 && message) {
        r = buf_printf(b, err, "%serror %s: ", b->len ? "\n" : "", type ? type : "");
        if (r == 0)
            r = buf_append_str(b, message, err);
        if (r == 0)
            r = append_cut(b, "traceback", trace, PRINTED_MAX_BYTES / 2, err);
        if (r == 0 && t && strstr(message, "KeyError"))
            r = append_columns_there(b, t, err);
    } else if (r == 0 && has_columns) {
        r = append_rows(b, result, err);
    } else if (r == 0 && value) {
        r = append_cut(b, "value", value, PRINTED_MAX_BYTES, err);
    }
    if (r == 0)
        r = append_made(b, result, files_before, err);
    if (r == 0 && b->len == 0)
        r = buf_append_str(
            b, "done; nothing was printed, drawn or written, and the last line has no value", err);
    return r;
}

/* ---- describe_table ---- */

static bool mentions(const json_t *column, const char *words, const char *match)
{
    return !match || !*match ||
           strcasestr(json_string_value(json_object_get(column, "name")), match) ||
           (words && strcasestr(words, match));
}

static int no_such_table(const json_t *tables, const char *table, struct err *err)
{
    size_t i;
    json_t *one;
    int r = err_set(err, ERR_NOT_FOUND, "there is no table '%.80s'; the tables are:", table);
    json_array_foreach(tables, i, one)
        snprintf(err->message + strlen(err->message), sizeof(err->message) - strlen(err->message),
                 "%s %s", i ? "," : "", json_string_value(json_object_get(one, "name")));
    return r;
}

int tools_describe_table(const struct turn *t, const json_t *args, struct buf *b, struct err *err)
{
    const json_t *tables = json_object_get(catalog_describe(t->chat->catalog), "tables");
    const char *table = json_string_value(json_object_get(args, "table")),
               *match = json_string_value(json_object_get(args, "match"));
    json_int_t from = json_integer_value(json_object_get(args, "from"));
    size_t i, start, at = 0, listed_columns = 0;
    json_t *one = NULL, *column, *row;
    int r = 0;
    from = from < 1 ? 1 : from;
    json_array_foreach(tables, i, one)
        if (str_ieq(json_string_value(json_object_get(one, "name")), table ? table : ""))
            break;
    if (!one || i == json_array_size(tables))
        return no_such_table(tables, table ? table : "", err);
    const json_t *columns = json_object_get(one, "columns");
    r = prompt_table(t, one, b, err);
    start = b->len;
    for (at = (size_t)from - 1;
         at < json_array_size(columns) && r == 0 && b->len - start < DESCRIBED_BYTES; at++) {
        column = json_array_get(columns, at);
        const char *words = prompt_words(t, json_string_value(json_object_get(one, "name")),
                                         json_string_value(json_object_get(column, "name")));
        if (!mentions(column, words, match))
            continue;
        listed_columns++;
        r = prompt_column(t, one, column, b, err);
    }
    if (r == 0)
        r = buf_printf(b, err, "\n(%zu columns%s, numbers %lld to %zu of %zu", listed_columns,
                       match && *match ? " that match" : "", (long long)from, at,
                       json_array_size(columns));
    if (r == 0 && at < json_array_size(columns))
        r = buf_printf(b, err, "; for the next ones call describe_table with from = %zu", at + 1);
    if (r == 0)
        r = buf_append_str(b, ")", err);
    json_array_foreach(json_object_get(one, "sample_rows"), i, row) {
        bool cut;
        if (r < 0 || from > 1 || json_array_size(columns) > 60)
            break;
        r = i == 0 ? buf_append_str(b, "\nsample rows:", err) : 0;
        if (r == 0)
            r = append_row(b, row, &cut, err);
    }
    return r;
}

/* ---- find_values ---- */

#define FIND_COLUMNS_MAX 60
#define FIND_ROWS 30

int tools_find_values(const struct turn *t, const char *text, struct buf *b, struct err *err)
{
    struct nl_like found[FIND_ROWS];
    size_t n = nl_values_like(catalog_schema(t->chat->catalog), text, found, FIND_ROWS);
    int r = n > 0 ? buf_append_str(b, "columns: [\"table\",\"column\",\"value\"]", err) : 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        auto_json json_t *row = json_pack("[s, s, s]", found[i].table, found[i].column,
                                          found[i].value);
        bool cut = false;
        r = append_row(b, row, &cut, err);
    }
    return r;
}

int tools_find_values_sql(const struct turn *t, const char *text, struct buf *b, struct err *err)
{
    const json_t *tables = json_object_get(catalog_describe(t->chat->catalog), "tables");
    size_t i, k, n = 0;
    json_t *table, *column;
    int r = buf_append_str(
        b, "SELECT t AS \"table\", c AS \"column\", v AS \"value\", n AS \"rows\" FROM (", err);
    json_array_foreach(tables, i, table) {
        json_array_foreach(json_object_get(table, "columns"), k, column) {
            const char *name = json_string_value(json_object_get(column, "name")),
                       *of = json_string_value(json_object_get(table, "name"));
            const json_t *distinct = json_object_get(column, "distinct");
            if (!str_eq(json_string_value(json_object_get(column, "type")), "VARCHAR") ||
                n == FIND_COLUMNS_MAX || r < 0)
                continue;
            if (distinct && !json_is_true(json_object_get(column, "distinct_is_approximate")) &&
                nl_has_values(catalog_schema(t->chat->catalog), (int)i, (int)k,
                                          json_integer_value(distinct)))
                continue; /* tools_find_values() knows them all */
            r = buf_append_str(b, n++ ? " UNION ALL SELECT " : "SELECT ", err);
            if (r == 0)
                r = buf_append_quoted(b, "'", of, err);
            if (r == 0)
                r = buf_append_str(b, " AS t, ", err);
            if (r == 0)
                r = buf_append_quoted(b, "'", name, err);
            if (r == 0)
                r = buf_append_str(b, " AS c, left(", err);
            if (r == 0)
                r = buf_append_quoted(b, "\"", name, err);
            if (r == 0)
                r = buf_append_str(b, ", 200) AS v, count(*) AS n FROM ", err);
            if (r == 0)
                r = buf_append_quoted(b, "\"", of, err);
            if (r == 0)
                r = buf_append_str(b, " GROUP BY 3", err);
        }
    }
    if (r == 0 && n == 0) {
        buf_clear(b);
        return 0;
    }
    if (r == 0)
        r = buf_append_str(b, ") WHERE v ILIKE '%' || ", err);
    if (r == 0)
        r = buf_append_quoted(b, "'", text, err);
    if (r == 0)
        r = buf_append_str(b, " || '%' OR jaro_winkler_similarity(lower(v), lower(", err);
    if (r == 0)
        r = buf_append_quoted(b, "'", text, err);
    if (r == 0)
        r = buf_append_str(b, ")) > 0.82 ORDER BY jaro_winkler_similarity(lower(v), lower(", err);
    if (r == 0)
        r = buf_append_quoted(b, "'", text, err);
    return r == 0 ? buf_printf(b, err, ")) DESC, n DESC LIMIT %d", FIND_ROWS) : r;
}

/* ---- list_files ---- */

int tools_list_files(const struct turn *t, struct buf *b, struct err *err)
{
    const struct data_view *d = &t->chat->data;
    int r = buf_append_str(b, "read-only:", err);
    for (size_t i = 0; i < d->n_files && r == 0; i++) {
        char place[KERNEL_PLACE_SIZE];
        const char *note;
        if (!chat_file_place(t->chat, d->files[i].path, place, &note))
            continue;
        r = buf_printf(b, err, "\n%s", *place ? place : d->files[i].name);
        if (r == 0 && d->files[i].table)
            r = buf_printf(b, err, " (table %s%s)", d->files[i].table,
                           str_starts(place, "/data/") ? "" : "; in SQL only");
        if (r == 0 && note)
            r = buf_printf(b, err, ": %s", note);
    }
    if (r == 0)
        r = buf_append_str(b, "\nleft by code:", err);
    size_t i;
    json_t *f;
    json_array_foreach(t->files, i, f)
        if (r == 0)
            r = buf_printf(b, err, "\n/workspace/%s (%lld bytes)",
                           json_string_value(json_object_get(f, "path")),
                           (long long)json_integer_value(json_object_get(f, "size")));
    if (r == 0 && json_array_size(t->files) == 0)
        r = buf_append_str(b, " nothing", err);
    return r;
}
