/* Questions to try about a data set that nobody wrote any for: see prompts.h. */

#include <stdio.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"
#include "data/prompts.h"
#include "nl/nl.h"

#define SERIAL_GAPS 2   /* numbers of rows are closer together than this */
#define COLUMNS_MAX 120 /* to plan questions for on the event loop: some milliseconds */

static int add_values(struct nl_schema *s, int table, int column, const json_t *about,
                      struct err *err)
{
    const json_t *values = json_object_get(about, "values"), *top = json_object_get(about, "top");
    json_t *one;
    size_t i;
    int r = 0;
    json_array_foreach(values, i, one)
        if (r == 0 && json_is_string(one))
            r = nl_schema_add_value(s, table, column, json_string_value(one), err);
    if (json_array_size(values) == 0)
        json_array_foreach(top, i, one) {
            const char *text = json_string_value(json_object_get(one, "value"));
            if (r == 0 && text)
                r = nl_schema_add_value(s, table, column, text, err);
        }
    return r;
}

static int add_column(struct nl_schema *s, int table, const char *name, const json_t *about,
                      json_int_t n_rows, struct err *err)
{
    const char *type = json_string_value(json_object_get(about, "sql_type"));
    const char *role = json_string_value(json_object_get(about, "role"));
    const json_t *min = json_object_get(about, "min"), *max = json_object_get(about, "max");
    json_int_t nulls = json_integer_value(json_object_get(about, "nulls"));
    json_int_t distinct = json_integer_value(json_object_get(about, "distinct"));
    int column = nl_schema_add_column(s, table, name, type ? type : "VARCHAR", err);
    if (column < 0)
        return column;
    bool serial = json_is_integer(min) && json_is_integer(max) && distinct == n_rows &&
                  json_integer_value(max) - json_integer_value(min) < SERIAL_GAPS * n_rows;
    nl_schema_set_counts(s, table, column, nulls, serial);
    if (json_is_string(min) && json_is_string(max) && type &&
        (str_eq(type, "DATE") || str_starts(type, "TIMESTAMP"))) {
        int r = nl_schema_set_range(s, table, column, json_string_value(min),
                                    json_string_value(max), err);
        return r < 0 ? r : 0;
    }
    /* of what every row has its own the record holds but some: nobody counts rows by that */
    int r = distinct > 1 && distinct + nulls == n_rows ? 0 :
                                                         add_values(s, table, column, about, err);
    return r < 0 ? r : role ? nl_schema_set_role(s, table, column, role, err) : 0;
}

static int add_tables(struct nl_schema *s, const json_t *schema, struct err *err)
{
    json_t *file, *about;
    const char *name;
    size_t i;
    json_array_foreach(json_object_get(schema, "files"), i, file) {
        json_int_t n_rows = json_integer_value(json_object_get(file, "row_count"));
        int table = nl_schema_add_table(s, json_string_value(json_object_get(file, "table")),
                                        n_rows, err);
        if (table < 0)
            return table;
        json_object_foreach(json_object_get(file, "schema"), name, about) {
            int r = add_column(s, table, name, about, n_rows, err);
            if (r < 0)
                return r;
        }
    }
    return nl_schema_finish(s, err);
}

static size_t count_columns(const json_t *schema)
{
    size_t i, n = 0;
    json_t *file;
    json_array_foreach(json_object_get(schema, "files"), i, file)
        n += json_object_size(json_object_get(file, "schema"));
    return n;
}

json_t *prompts_of(const json_t *schema)
{
    size_t n_columns = count_columns(schema);
    if (n_columns == 0)
        return json_array();
    if (n_columns > COLUMNS_MAX)
        return json_pack("[s, s]", "How many rows are there?", "Show the first 10 rows");
    struct nl_schema *s = NULL;
    struct err err = ERR_INIT;
    struct arena arena;
    const char *found[PROMPTS_MAX];
    json_t *prompts = json_array();
    arena_init(&arena, NL_ARENA_BYTES);
    if (nl_schema_create(json_string_value(json_object_get(schema, "id")), &s, &err) >= 0 &&
        add_tables(s, schema, &err) >= 0) {
        size_t n = nl_prompts(s, &arena, found, ARRAY_SIZE(found));
        for (size_t i = 0; i < n; i++)
            json_array_append_new(prompts, json_string(found[i]));
    }
    nl_schema_destroy(s);
    arena_finish(&arena);
    return prompts;
}
