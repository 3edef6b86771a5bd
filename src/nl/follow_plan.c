/*
 * Plans that the question before left: what their parts are called, words for them, and a picture.
 */

#include "nl/follow.h"

#include <string.h>

#include "base/macros.h"
#include "base/str.h"

int follow_table_of(const struct nl_schema *s, const char *name)
{
    for (int t = 0; name && t < s->n_tables; t++)
        if (str_ieq(s->tables[t].name, name))
            return t;
    return -1;
}

bool follow_is_aggregate(const json_t *item)
{
    const char *e = json_string_value(json_object_get(item, "expr"));
    return json_object_get(item, "func") || (e && (strstr(e, "sum(") || strstr(e, "count(") ||
                                                   strstr(e, "avg(") || strstr(e, "share(")));
}

const char *follow_name_of(const json_t *item)
{
    const char *alias = json_string_value(json_object_get(item, "alias"));
    return alias ? alias : json_string_value(json_object_get(item, "column"));
}

const json_t *follow_first_aggregate(const json_t *plan)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plan, "select"), i, item)
        if (follow_is_aggregate(item))
            return item;
    return NULL;
}

const char *follow_filter_subject(const json_t *filter)
{
    const json_t *inner = json_object_get(filter, "not");
    const char *column = json_string_value(json_object_get(inner ? inner : filter, "column"));
    return column ? column : json_string_value(json_object_get(inner ? inner : filter, "expr"));
}

json_t *follow_list_of(json_t *plan, const char *key)
{
    json_t *list = json_object_get(plan, key);
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(plan, key, list);
    }
    return list;
}

static void say_json_item(const json_t *item, struct buf *b)
{
    const char *func = json_string_value(json_object_get(item, "func")),
               *column = json_string_value(json_object_get(item, "column"));
    const char *bucket = json_string_value(json_object_get(item, "bucket")),
               *e = json_string_value(json_object_get(item, "expr"));
    static const char *const words[][2] = { { "sum", "sum of" },
                                            { "avg", "average of" },
                                            { "count", "number of" },
                                            { "min", "least" },
                                            { "max", "greatest" },
                                            { "median", "median of" },
                                            { "count_distinct", "number of different" },
                                            { "stddev", "standard deviation of" } };
    for (size_t i = 0; func && i < ARRAY_SIZE(words); i++)
        if (str_eq(func, words[i][0]))
            func = words[i][1];
    if (func && column && str_eq(column, "*"))
        (void)buf_append_str(b, "number of rows", NULL);
    else if (e && str_starts(e, "share("))
        (void)buf_append_str(b, "its percentage", NULL);
    else
        (void)buf_printf(b, NULL, "%s%s%s%s`%s`", func ? func : "", func ? " " : "",
                         bucket ? bucket : "", bucket ? " of " : "",
                         column ? column :
                         e      ? e :
                                  "?");
}

static void say_json_filter(const json_t *filter, struct buf *b)
{
    static const char *const groups[] = { "or", "and" };
    size_t i;
    json_t *x;
    for (size_t g = 0; g < 2; g++)
        json_array_foreach(json_object_get(filter, groups[g]), i, x) {
            if (i > 0)
                (void)buf_printf(b, NULL, " %s ", groups[g]);
            say_json_filter(x, b);
        }
    if (json_object_get(filter, "not")) {
        (void)buf_append_str(b, "not ", NULL);
        say_json_filter(json_object_get(filter, "not"), b);
    }
    const char *subject = follow_filter_subject(filter);
    if (!subject || json_object_get(filter, "not"))
        return;
    (void)buf_printf(b, NULL, "`%s` %s", subject, json_string_value(json_object_get(filter, "op")));
    json_t *v = json_object_get(filter, "value");
    auto_free char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    if (json_is_string(v))
        (void)buf_printf(b, NULL, " '%s'", json_string_value(v));
    else if (text)
        (void)buf_printf(b, NULL, " %s", text);
}

const char *follow_describe(const json_t *plan, struct arena *a)
{
    auto_buf struct buf b = BUF_INIT(4000);
    const json_t *group = json_object_get(plan, "group_by"),
                 *select = json_object_get(plan, "select");
    size_t i, said = 0;
    json_t *item;
    json_array_foreach(select, i, item) {
        if (json_array_size(group) > 0 && !follow_is_aggregate(item))
            continue;
        (void)buf_append_str(&b, said++ ? ", " : "", NULL);
        say_json_item(item, &b);
    }
    if (said == 0)
        (void)buf_append_str(&b, json_array_size(group) > 0 ? "groups" : "all columns", NULL);
    said = 0;
    json_array_foreach(select, i, item)
        if (json_array_size(group) > 0 && !follow_is_aggregate(item)) {
            (void)buf_append_str(&b, said++ ? " and " : " by ", NULL);
            say_json_item(item, &b);
        }
    (void)buf_printf(&b, NULL, " of `%s`", json_string_value(json_object_get(plan, "table")));
    json_array_foreach(json_object_get(plan, "filters"), i, item) {
        (void)buf_append_str(&b, i ? " and " : " where ", NULL);
        say_json_filter(item, &b);
    }
    json_array_foreach(json_object_get(plan, "order_by"), i, item)
        (void)buf_printf(&b, NULL, "%s`%s`%s", i ? ", then " : ", ordered by ",
                         json_string_value(json_object_get(item, "expr")),
                         str_eq(json_string_value(json_object_get(item, "direction")), "desc") ?
                             " downwards" :
                             "");
    json_int_t limit = json_integer_value(json_object_get(plan, "limit")),
               offset = json_integer_value(json_object_get(plan, "offset"));
    if (offset > 0 && limit == 1)
        (void)buf_printf(&b, NULL, ", number %lld", (long long)offset + 1);
    else if (limit > 0 && limit < PLAN_LIMIT_MAX)
        (void)buf_printf(&b, NULL, ", top %lld", (long long)limit);
    return arena_strdup(a, buf_cstr(&b));
}

json_t *follow_draw(const struct nl_schema *s, const json_t *plan, const char *mark)
{
    const json_t *x = NULL, *y = NULL, *series = NULL;
    int table = follow_table_of(s, json_string_value(json_object_get(plan, "table")));
    bool sums = follow_first_aggregate(plan) != NULL;
    if (table < 0)
        return NULL;
    const struct nl_table *t = &s->tables[table];
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(plan, "select"), i, item) {
        bool number = follow_is_aggregate(item);
        const char *column = json_string_value(json_object_get(item, "column"));
        for (int c = 0; !sums && column && c < t->n_columns; c++) {
            const struct nl_column *col = &t->columns[c];
            number |= str_ieq(col->name, column) && col->is_numeric && !col->is_id;
        }
        if (number && !y)
            y = item;
        else if (!number && !x)
            x = item;
        else if (!number && !series)
            series = item;
    }
    if (!x || !y || !follow_name_of(x) || !follow_name_of(y))
        return NULL;
    bool temporal = json_object_get(x, "bucket") != NULL;
    const char *kind = mark && *mark ? mark : temporal ? "line" : "bar";
    const char *column = json_string_value(json_object_get(x, "column")),
               *dot = column ? strrchr(column, '.') : NULL;
    const char *xn = json_object_get(x, "alias") ? follow_name_of(x) :
                     dot                         ? dot + 1 :
                                                   follow_name_of(x);
    json_t *j = json_pack("{s:s, s:{s:s, s:s}, s:{s:s, s:s}}", "mark", kind, "x", "field", xn,
                          "type", temporal ? "temporal" : "nominal", "y", "field",
                          follow_name_of(y), "type", "quantitative");
    if (j && series && follow_name_of(series))
        json_object_set_new(
            j, "series",
            json_pack("{s:s, s:s}", "field", follow_name_of(series), "type", "nominal"));
    return j;
}
