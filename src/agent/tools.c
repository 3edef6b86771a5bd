/* The tools of a model. */

#include "agent/tools.h"

#include <stdio.h>
#include <string.h>
#include "base/str.h"

#define ROWS_SHOWN 50
#define ROWS_MAX_BYTES 12000
#define PRINTED_MAX_BYTES 6000

struct tool {
    const char *name, *description, *parameters;
    bool python;
};

static const struct tool tools[] = {
    { "run_plan", "Run a QueryPlan: a checked, structured query on one table (and tables joined to it by declared relationships). Prefer it "
                  "for plain questions: it cannot be misspelt into something else.",
      "{\"type\":\"object\",\"required\":[\"plan\"],\"properties\":{\"plan\":{\"type\":\"object\",\"description\":\"{dataset_id, table, "
      "select: [{column, alias?} | {func: count|count_distinct|sum|avg|min|max|median, column (or * for count), alias}], filters: "
      "[{column, op: = != < <= > >= in between contains startswith endswith is_null is_not_null, value}], group_by: [column], order_by: "
      "[{expr: alias or column, direction}], limit}\"}}}", false },
    { "run_sql", "Run one SELECT (DuckDB's dialect) on the tables and get its rows.",
      "{\"type\":\"object\",\"required\":[\"sql\"],\"properties\":{\"sql\":{\"type\":\"string\",\"description\":\"One SELECT or WITH "
      "statement.\"}}}", false },
    { "run_python", "Run a Python cell. pandas is pd, numpy np; each table is a DataFrame by its name; sql(\"SELECT …\") gives a DataFrame. "
                    "Variables stay from cell to cell. Figures drawn with matplotlib are shown to the person. Files written to /workspace can "
                    "be downloaded. The value of the last expression, and what is printed, come back.",
      "{\"type\":\"object\",\"required\":[\"code\"],\"properties\":{\"code\":{\"type\":\"string\",\"description\":\"Python source.\"}}}", true },
    { "describe_table", "Columns of a table with types, ranges, frequent values and sample rows.",
      "{\"type\":\"object\",\"required\":[\"table\"],\"properties\":{\"table\":{\"type\":\"string\"}}}", false },
    { "list_files", "Files that code can read (/data) and files that code has left (/workspace).",
      "{\"type\":\"object\",\"properties\":{}}", false },
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
        struct llm_tool tool = { .name = tools[i].name, .description = tools[i].description, .parameters = schemas[i] };
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
    return "run_plan, run_sql, run_python, describe_table, list_files";
}

static int append_cut(struct buf *b, const char *title, const char *text, size_t max, struct err *err)
{
    if (!text || !*text)
        return 0;
    size_t len = strlen(text), cut = str_utf8_cut(text, len, max);
    int r = buf_printf(b, err, "%s:\n%.*s", title, (int)cut, text);
    if (r == 0)
        r = buf_append_str(b, cut < len ? "\n… (cut)\n" : "\n", err);
    return r;
}

int tools_result_text(const json_t *result, struct buf *b, struct err *err)
{
    const json_t *error = json_object_get(result, "error"), *rows = json_object_get(result, "rows");
    const char *message = json_string_value(json_object_get(error, "message")), *type = json_string_value(json_object_get(error, "type"));
    const char *trace = json_string_value(json_object_get(error, "traceback"));
    int r = append_cut(b, "printed", json_string_value(json_object_get(result, "stdout")), PRINTED_MAX_BYTES, err);
    if (r == 0)
        r = append_cut(b, "stderr", json_string_value(json_object_get(result, "stderr")), PRINTED_MAX_BYTES / 3, err);
    if (r < 0)
        return r;
    if (message) {
        r = buf_printf(b, err, "error %s: ", type ? type : "");
        if (r == 0)
            r = buf_append_str(b, message, err);
        if (r == 0 && trace)
            r = append_cut(b, "\ntraceback", trace, PRINTED_MAX_BYTES / 2, err);
        return r;
    }
    size_t n = json_array_size(rows), shown = 0, start = b->len;
    if (json_array_size(json_object_get(result, "columns")) == 0)
        return b->len ? 0 : buf_append_str(b, "done, without output", err);
    if (n == 0)
        return buf_append_str(b, "no rows. If rows were expected, check the spelling of values and the filters.", err);
    r = buf_append_str(b, "columns: ", err);
    if (r == 0)
        r = json_write(json_object_get(result, "columns"), b, err);
    while (r == 0 && shown < n && shown < ROWS_SHOWN && b->len - start < ROWS_MAX_BYTES) {
        r = buf_append_str(b, "\n", err);
        if (r == 0)
            r = json_write(json_array_get(rows, shown++), b, err);
    }
    if (r == 0)
        r = buf_printf(b, err, "\n(%zu of %zu rows shown%s)", shown, n,
                       json_is_true(json_object_get(result, "truncated")) ? "; there are more than the limit" : "");
    return r;
}

int tools_describe_table(const struct turn *t, const char *table, struct buf *b, struct err *err)
{
    const json_t *tables = json_object_get(catalog_describe(t->chat->catalog), "tables");
    size_t i;
    json_t *one;
    json_array_foreach(tables, i, one)
        if (str_ieq(json_string_value(json_object_get(one, "name")), table))
            return json_write(one, b, err);
    int r = err_set(err, ERR_NOT_FOUND, "there is no table '%.80s'; the tables are:", table);
    json_array_foreach(tables, i, one)
        snprintf(err->message + strlen(err->message), sizeof(err->message) - strlen(err->message), "%s %s", i ? "," : "",
                 json_string_value(json_object_get(one, "name")));
    return r;
}

int tools_list_files(const struct turn *t, struct buf *b, struct err *err)
{
    const struct agent_data *d = &t->chat->data;
    int r = buf_append_str(b, "read-only:", err);
    for (size_t i = 0; i < d->n_files && r == 0; i++) {
        char place[KERNEL_PLACE_SIZE];
        const char *note;
        if (!chat_file_place(t->chat, d->files[i].path, place, &note))
            continue;
        r = buf_printf(b, err, "\n%s", *place ? place : d->files[i].name);
        if (r == 0 && d->files[i].table)
            r = buf_printf(b, err, " (table %s%s)", d->files[i].table, str_starts(place, "/data/") ? "" : "; in SQL only");
        if (r == 0 && note)
            r = buf_printf(b, err, ": %s", note);
    }
    if (r == 0)
        r = buf_append_str(b, "\nleft by code:", err);
    size_t i;
    json_t *f;
    json_array_foreach(t->files, i, f)
        if (r == 0)
            r = buf_printf(b, err, "\n/workspace/%s (%lld bytes)", json_string_value(json_object_get(f, "path")),
                           (long long)json_integer_value(json_object_get(f, "size")));
    if (r == 0 && json_array_size(t->files) == 0)
        r = buf_append_str(b, " nothing", err);
    return r;
}
