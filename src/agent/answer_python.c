/*
 * Requests for Python without a model: what the planner read is written as a cell of pandas and
 * run, so that the person gets the code that was asked for.
 */

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "agent/agent_impl.h"
#include "base/str.h"

bool message_wants_python(const char *message)
{
    static const char *const phrases[] = { "use pandas",   "using pandas",    "with pandas",
                                           "in pandas",    "in python",       "with python",
                                           "using python", "use python",      "python code",
                                           "pandas code",  "python dataframe" };
    for (size_t i = 0; i < ARRAY_SIZE(phrases); i++)
        if (strcasestr(message, phrases[i]))
            return true;
    return false;
}

static bool is_named(const json_t *about, const char *word)
{
    size_t i, k;
    json_t *table, *column;
    json_array_foreach(json_object_get(about, "tables"), i, table) {
        if (strcasestr(json_string_value(json_object_get(table, "name")), word))
            return true;
        json_array_foreach(json_object_get(table, "columns"), k, column)
            if (strcasestr(json_string_value(json_object_get(column, "name")), word))
                return true;
    }
    return false;
}

bool message_needs_more_than_a_query(const char *message, const json_t *about)
{
    static const char *const methods[] = { "regress",
                                           "covarian",
                                           "cluster",
                                           "k-means",
                                           "kmeans",
                                           "t-test",
                                           "anova",
                                           "p-value",
                                           "chi-square",
                                           "arima",
                                           "principal component",
                                           "decision tree",
                                           "random forest",
                                           "machine learning",
                                           "neural",
                                           "extrapolat",
                                           "predict",
                                           "forecast" };
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        const char *at = strcasestr(message, methods[i]);
        bool begins = at && (at == message || !isalnum((unsigned char)at[-1]));
        if (begins && !is_named(about, methods[i]))
            return true;
    }
    return false;
}

/* Text of Python, in double quotes: a string of JSON is one. */
static int append_quoted(struct buf *b, const char *s, struct err *err)
{
    auto_json json_t *text = json_string(s);
    auto_free char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    return quoted ? buf_append_str(b, quoted, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* One aggregate by one column of one table, the largest first, and nothing besides. */
static bool is_plain_group(const json_t *plan, const char **ret_by, const json_t **ret_aggregate)
{
    static const char *const known[] = { "dataset_id", "table", "select", "group_by",
                                         "order_by",   "limit", "notes" };
    const json_t *select = json_object_get(plan, "select"), *by = json_object_get(plan, "group_by"),
                 *first = json_array_get(json_object_get(plan, "order_by"), 0);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)plan, key, value) {
        bool is_known = false;
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
            is_known = is_known || str_eq(key, known[i]);
        if (!is_known && json_array_size(value) > 0)
            return false;
    }
    *ret_by = json_string_value(json_array_get(by, 0));
    *ret_aggregate = json_array_get(select, 1);
    const char *column = text_of(*ret_aggregate, "column");
    if (first && (!str_eq(text_of(first, "expr"), text_of(*ret_aggregate, "alias")) ||
                  !str_eq(text_of(first, "direction"), "desc")))
        return false;
    return json_array_size(by) == 1 && json_array_size(select) == 2 && *ret_by && column &&
           str_eq(text_of(json_array_get(select, 0), "column"), *ret_by) &&
           !json_object_get(json_array_get(select, 0), "alias") &&
           str_is_identifier(text_of(plan, "table")) && text_of(*ret_aggregate, "alias");
}

static int write_group(const char *table, const char *by, const json_t *aggregate, struct buf *b,
                       struct err *err)
{
    static const char *const funcs[][2] = {
        { "sum", "sum" }, { "avg", "mean" },      { "min", "min" },
        { "max", "max" }, { "median", "median" }, { "count_distinct", "nunique" }
    };
    const char *func = text_of(aggregate, "func"), *column = text_of(aggregate, "column"),
               *method = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(funcs); i++)
        if (str_eq(func, funcs[i][0]))
            method = funcs[i][1];
    bool size = str_eq(func, "count") && str_eq(column, "*");
    if (!size && !method)
        return err_set(err, ERR_NOT_FOUND, "pandas has another word for it");
    int r = buf_printf(b, err, "result_df = %s.groupby(", table);
    if (r == 0)
        r = append_quoted(b, by, err);
    if (r == 0 && size)
        r = buf_append_str(b, ", dropna=False).size()", err);
    if (r == 0 && !size) {
        r = buf_append_str(b, ", dropna=False)[", err);
        if (r == 0)
            r = append_quoted(b, column, err);
        if (r == 0)
            r = buf_printf(b, err, "].%s()", method);
    }
    if (r == 0)
        r = buf_append_str(b, ".reset_index(name=", err);
    if (r == 0)
        r = append_quoted(b, text_of(aggregate, "alias"), err);
    if (r == 0)
        r = buf_append_str(b, ").sort_values(", err);
    if (r == 0)
        r = append_quoted(b, text_of(aggregate, "alias"), err);
    return r == 0 ? buf_append_str(b, ", ascending=False)", err) : r;
}

int python_of_plan(const json_t *plan, const char *sql, const char *database, struct buf *b,
                   struct err *err)
{
    const char *by;
    const json_t *aggregate;
    struct err ignored = ERR_INIT;
    if (!database && is_plain_group(plan, &by, &aggregate) &&
        write_group(text_of(plan, "table"), by, aggregate, b, &ignored) == 0)
        return 0;
    buf_clear(b);
    int r = buf_append_str(b, database ? "result_df = db_query(" : "result_df = sql(", err);
    if (r == 0)
        r = append_quoted(b, sql, err);
    if (r == 0 && database)
        return buf_printf(b, err, ", db=\"%s\").df()", database);
    return r == 0 ? buf_append_str(b, ")", err) : r;
}
