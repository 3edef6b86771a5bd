/* Schemas for plans, read from the registry's JSON or from its short form. */

#include "plan/plan_schema.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"

enum plan_type plan_type_from_name(const char *name)
{
    static const struct {
        const char *name;
        enum plan_type type;
    } types[] = {
        { "TINYINT", TYPE_INTEGER },     { "SMALLINT", TYPE_INTEGER },
        { "INTEGER", TYPE_INTEGER },     { "INT", TYPE_INTEGER },
        { "BIGINT", TYPE_INTEGER },      { "UTINYINT", TYPE_INTEGER },
        { "USMALLINT", TYPE_INTEGER },   { "UINTEGER", TYPE_INTEGER },
        { "UBIGINT", TYPE_NUMBER },      { "HUGEINT", TYPE_NUMBER },
        { "UHUGEINT", TYPE_NUMBER },     { "FLOAT", TYPE_NUMBER },
        { "REAL", TYPE_NUMBER },         { "DOUBLE", TYPE_NUMBER },
        { "DECIMAL", TYPE_NUMBER },      { "NUMERIC", TYPE_NUMBER },
        { "NUMBER", TYPE_NUMBER },       { "VARCHAR", TYPE_TEXT },
        { "TEXT", TYPE_TEXT },           { "STRING", TYPE_TEXT },
        { "ENUM", TYPE_TEXT },           { "DATE", TYPE_DATE },
        { "TIMESTAMP", TYPE_TIMESTAMP }, { "TIMESTAMPTZ", TYPE_TIMESTAMP },
        { "DATETIME", TYPE_TIMESTAMP },  { "BOOLEAN", TYPE_BOOL },
        { "BOOL", TYPE_BOOL },
    };
    char word[32];

    if (*name == '\0')
        return TYPE_UNKNOWN;
    if (str_ends(name, "[]"))
        return TYPE_OTHER;
    /* "DECIMAL(10,2)", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "ENUM('a', 'b')" */
    size_t n = strcspn(name, "( _");
    snprintf(word, sizeof(word), "%.*s", (int)MIN_OF(n, sizeof(word) - 1), name);
    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (str_ieq(word, types[i].name))
            return types[i].type;
    return TYPE_OTHER;
}

const struct plan_table *plan_schema_table(const struct plan_schema *s, const char *name)
{
    for (size_t i = 0; i < s->n_tables; i++)
        if (str_eq(s->tables[i].name, name))
            return &s->tables[i];
    for (size_t i = 0; i < s->n_tables; i++)
        if (str_ieq(s->tables[i].name, name))
            return &s->tables[i];
    return NULL;
}

const struct plan_column *plan_table_column(const struct plan_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_columns; i++)
        if (str_eq(t->columns[i].name, name))
            return &t->columns[i];
    for (size_t i = 0; i < t->n_columns; i++)
        if (str_ieq(t->columns[i].name, name))
            return &t->columns[i];
    return NULL;
}

/* ---- JSON ---- */

static int no_room(struct err *err)
{
    return err_set(err, ERR_TOO_LARGE, "the schema is too large");
}

/* {"total": "double"} or {"total": {"type": "double", …}} */
static int read_columns(const json_t *columns, struct arena *a, struct plan_table *t,
                        struct err *err)
{
    json_t *o = (json_t *)(uintptr_t)columns; /* iterated, not changed */
    size_t n = json_object_size(columns);
    const char *key;
    json_t *value;

    if (!json_is_object(columns))
        return err_set(err, ERR_VALIDATION, "table '%s' must have an object of columns, not %s",
                       t->name, json_type_name(columns));
    if (n > PLAN_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "table '%s' has more than %d columns", t->name,
                       PLAN_MAX_COLUMNS);
    struct plan_column *out = arena_alloc(a, MAX_OF(n, 1) * sizeof(*out));
    if (!out)
        return no_room(err);
    t->columns = out;
    json_object_foreach(o, key, value) {
        const char *type = json_string_value(value);

        if (json_is_object(value)) {
            int r = json_get_str(value, "type", "", &type, err);
            if (r < 0)
                return err_wrap(err, "column '%s' of table '%s'", key, t->name);
        } else if (!type) {
            return err_set(
                err, ERR_VALIDATION,
                "column '%s' of table '%s' must be the name of a type or an object, not %s", key,
                t->name, json_type_name(value));
        }
        out->name = arena_strdup(a, key);
        out->type_name = arena_strdup(a, type);
        if (!out->name || !out->type_name)
            return no_room(err);
        out->type = plan_type_from_name(type);
        out++;
        t->n_columns++;
    }
    return 0;
}

static int read_short_form(const json_t *tables, struct arena *a, struct plan_schema *s,
                           struct plan_table *out, struct err *err)
{
    json_t *o = (json_t *)(uintptr_t)tables;
    const char *key;
    json_t *value;

    json_object_foreach(o, key, value) {
        struct plan_table *t = &out[s->n_tables];

        t->name = arena_strdup(a, key);
        if (!t->name)
            return no_room(err);
        int r = read_columns(value, a, t, err);
        if (r < 0)
            return r;
        s->n_tables++;
    }
    return 0;
}

/* A file's table is called as `table` says, else by its stem: "orders.csv" is orders. */
static int read_files(const json_t *files, struct arena *a, struct plan_schema *s,
                      struct plan_table *out, struct err *err)
{
    size_t i;
    json_t *file;

    json_array_foreach(files, i, file) {
        struct plan_table *t = &out[s->n_tables];
        char stem[EXPR_NAME_MAX_BYTES + 1];
        const char *name, *table = NULL;

        int r = json_get_str(file, "name", NULL, &name, err);
        if (r >= 0)
            r = json_get_str(file, "table", NULL, &table, err);
        if (r >= 0 && !name)
            r = err_set(err, ERR_VALIDATION, "'name' is missing");
        if (r < 0)
            return err_wrap(err, "files[%zu]", i);
        str_stem(name, stem, sizeof(stem));
        t->name = arena_strdup(a, table ? table : stem);
        if (!t->name)
            return no_room(err);
        r = read_columns(json_object_get(file, "schema"), a, t, err);
        if (r < 0)
            return err_wrap(err, "files[%zu]", i);
        s->n_tables++;
    }
    return 0;
}

/* "orders.order_id" into its halves. */
static int read_end(const json_t *rel, const char *key, struct arena *a, const char **ret_table,
                    const char **ret_column, struct err *err)
{
    const char *text;
    int r = json_get_str(rel, key, "", &text, err);

    if (r < 0)
        return r;
    const char *dot = strchr(text, '.');
    if (!dot || dot == text || !dot[1])
        return err_set(err, ERR_VALIDATION, "'%s' must be \"table.column\"", key);
    *ret_table = arena_strndup(a, text, (size_t)(dot - text));
    *ret_column = arena_strdup(a, dot + 1);
    return *ret_table && *ret_column ? 0 : no_room(err);
}

static int read_relationships(const json_t *j, struct arena *a, struct plan_schema *s,
                              struct err *err)
{
    json_t *list, *rel;
    size_t i;
    int r = json_get_array(j, "relationships", &list, err);

    if (r < 0 || !list)
        return r;
    if (json_array_size(list) > PLAN_MAX_TABLES)
        return err_set(err, ERR_VALIDATION, "more than %d relationships", PLAN_MAX_TABLES);
    struct plan_relationship *out = arena_alloc(a, MAX_OF(json_array_size(list), 1) * sizeof(*out));
    if (!out)
        return no_room(err);
    s->relationships = out;
    json_array_foreach(list, i, rel) {
        r = read_end(rel, "from", a, &out[i].from_table, &out[i].from_column, err);
        if (r >= 0)
            r = read_end(rel, "to", a, &out[i].to_table, &out[i].to_column, err);
        if (r < 0)
            return err_wrap(err, "relationships[%zu]", i);
        s->n_relationships++;
    }
    return 0;
}

static int pick_dataset(const json_t *datasets, const char *id, const json_t **ret, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    json_t *dataset;
    size_t i;

    json_array_foreach(datasets, i, dataset) {
        if (id && str_eq(json_string_value(json_object_get(dataset, "id")), id)) {
            *ret = dataset;
            return 0;
        }
    }
    if (!id)
        return err_set(err, ERR_NOT_FOUND, "the registry needs the name of a dataset");
    return err_set(err, ERR_NOT_FOUND, "no dataset '%s' in the registry",
                   str_show(id, strlen(id), shown, sizeof(shown)));
}

int plan_schema_parse(const json_t *j, const char *dataset_id, struct arena *a,
                      struct plan_schema **ret, struct err *err)
{
    const json_t *datasets = json_object_get(j, "datasets");
    const char *id;
    int r;

    if (!json_is_object(j))
        return err_set(err, ERR_VALIDATION, "a schema must be an object, not %s",
                       json_type_name(j));
    if (json_is_array(datasets)) {
        r = pick_dataset(datasets, dataset_id, &j, err);
        if (r < 0)
            return r;
    }
    const json_t *tables = json_object_get(j, "tables"), *files = json_object_get(j, "files");
    if (!json_is_object(tables) && !json_is_array(files))
        return err_set(err, ERR_VALIDATION,
                       "a schema must have 'tables' (an object) or 'files' (an array)");
    size_t n = json_is_object(tables) ? json_object_size(tables) : json_array_size(files);
    if (n > PLAN_MAX_TABLES)
        return err_set(err, ERR_VALIDATION, "more than %d tables", PLAN_MAX_TABLES);

    struct plan_schema *s = arena_alloc(a, sizeof(*s));
    struct plan_table *out = arena_alloc(a, MAX_OF(n, 1) * sizeof(*out));
    if (!s || !out)
        return no_room(err);
    s->tables = out;
    r = json_get_str(j, "id", NULL, &id, err);
    if (r >= 0 && id) {
        s->dataset_id = arena_strdup(a, id);
        if (!s->dataset_id)
            r = no_room(err);
    }
    if (r >= 0)
        r = json_is_object(tables) ? read_short_form(tables, a, s, out, err) :
                                     read_files(files, a, s, out, err);
    if (r >= 0)
        r = read_relationships(j, a, s, err);
    if (r < 0)
        return r;
    *ret = s;
    return 0;
}
