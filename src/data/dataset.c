/* What is told about a dataset: its summary, and its schema with what the profile found. */

#include "data/dataset.h"

#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "sandbox/pool/executor.h"

#define VALUES_SHOWN 10 /* a text column without more different values lists them all */

/* ---- names ---- */

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool dataset_is_id(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > DATASET_ID_MAX || !is_alnum(s[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(s[i]) && s[i] != '_' && s[i] != '-')
            return false;
    }
    return true;
}

void dataset_safe_name(const char *s, const char *fallback, bool is_table, char *ret, size_t size)
{
    size_t n = 0;

    for (; *s && n + 3 < size; s++) {
        bool ok = is_alnum(*s);

        if (ok && n == 0 && is_table && *s <= '9') {
            ret[n++] = 't';
            ret[n++] = '_';
        }
        if (ok)
            ret[n++] = *s;
        else if (n > 0 && ret[n - 1] != '_')
            ret[n++] = '_';
    }
    while (n > 0 && ret[n - 1] == '_')
        n--;
    ret[n] = '\0';
    if (n == 0)
        snprintf(ret, size, "%s", fallback);
}

/* ---- lookups ---- */

static bool take_part(const struct dataset_file *f, struct dataset_table *t)
{
    const json_t *parts = json_object_get(f->profile, "tables");

    for (; t->part < json_array_size(parts); t->part++) {
        json_t *profile = json_array_get(parts, t->part);

        part_table_name(f->table, json_string_value(json_object_get(profile, "name")), t->name);
        if (!*t->name)
            continue;
        t->part++;
        t->file = *f;
        t->file.table = t->name;
        t->file.description = "";
        t->file.schema = NULL;
        t->file.profile = profile;
        t->file.row_count = json_integer_value(json_object_get(profile, "row_count"));
        return true;
    }
    return false;
}

bool dataset_next_table(const struct dataset *d, struct dataset_table *t)
{
    if (t->begun && t->at < d->n_files && take_part(&d->files[t->at], t))
        return true;
    t->at += t->begun;
    t->begun = true;
    t->part = 0;
    if (t->at >= d->n_files)
        return false;
    t->file = d->files[t->at];
    return true;
}

bool dataset_find_table(const struct dataset *d, const char *table, struct dataset_table *ret)
{
    *ret = (struct dataset_table){ 0 };
    while (dataset_next_table(d, ret))
        if (str_ieq(ret->file.table, table))
            return true;
    return false;
}

int64_t dataset_row_count(const struct dataset *d)
{
    struct dataset_table t = { 0 };
    int64_t rows = 0;

    while (dataset_next_table(d, &t)) {
        if (t.file.row_count < 0)
            return -1;
        rows += t.file.row_count;
    }
    return rows;
}

const char *dataset_type_of(const char *sql_type)
{
    static const struct {
        const char *prefix, *type;
    } types[] = {
        { "DECIMAL", "float" },     { "DOUBLE", "float" },     { "FLOAT", "float" },
        { "TINYINT", "integer" },   { "SMALLINT", "integer" }, { "INTEGER", "integer" },
        { "BIGINT", "integer" },    { "HUGEINT", "integer" },  { "UTINYINT", "integer" },
        { "USMALLINT", "integer" }, { "UINTEGER", "integer" }, { "UBIGINT", "integer" },
        { "UHUGEINT", "integer" },  { "VARCHAR", "string" },   { "ENUM", "string" },
        { "UUID", "string" },       { "DATE", "date" },        { "TIMESTAMP", "datetime" },
        { "TIME", "time" },         { "BOOLEAN", "boolean" },
    };
    size_t n = strlen(sql_type);

    if (n > 0 && sql_type[n - 1] == ']') /* a list, whatever of */
        return "other";
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (str_starts(sql_type, types[i].prefix))
            return types[i].type;
    }
    return "other";
}

/* ---- profiles ---- */

bool dataset_profile_is_partial(const json_t *profile)
{
    return json_is_true(json_object_get(profile, "partial"));
}

static json_t *shape_of(const json_t *made)
{
    const json_t *types = json_object_get(made, "types");
    json_t *shape = json_pack("{s:O, s:[], s:O*}", "row_count", json_object_get(made, "row_count"),
                              "columns", "report", json_object_get(made, "report")),
           *columns = json_object_get(shape, "columns"), *name;
    size_t i;
    json_array_foreach(json_object_get(made, "columns"), i, name)
        json_array_append_new(
            columns, json_pack("{s:O, s:O}", "name", name, "type", json_array_get(types, i)));
    return shape;
}

json_t *dataset_shape(const struct lease_table *tables, size_t n)
{
    json_t *shape = n > 0 ? shape_of(tables[0].made) : NULL, *parts = n > 1 ? json_array() : NULL;
    for (size_t i = 1; i < n; i++) {
        json_t *part = shape_of(tables[i].made);
        if (part)
            json_object_set_new(part, "name", json_string(tables[i].suffix));
        json_array_append_new(parts, part);
    }
    if (shape)
        json_object_set_new(shape, "partial", json_true());
    if (parts)
        json_object_set_new(shape, "tables", parts);
    return shape;
}

/* ---- JSON ---- */

json_t *dataset_summary(const struct dataset *d)
{
    return json_pack("{s:o, s:o, s:o, s:O, s:s}", "id", json_text(d->id, strlen(d->id)), "name",
                     json_text(d->name, strlen(d->name)), "description",
                     json_text(d->description, strlen(d->description)), "prompts", d->prompts,
                     "version_hash", d->version_hash);
}

/*
 * All values of a text column that has few, from its profile; NULL if there are more than the
 * profile lists.
 */
static json_t *all_values(const json_t *column)
{
    json_t *top = json_object_get(column, "top"), *values, *entry;
    json_int_t distinct = json_integer_value(json_object_get(column, "distinct"));
    size_t i;

    if (distinct == 0 || distinct > VALUES_SHOWN || (size_t)distinct != json_array_size(top))
        return NULL;
    values = json_array();
    json_array_foreach(top, i, entry)
        json_array_append(values, json_object_get(entry, "value"));
    return values;
}

/* A column of the file: what was declared about it, and what its data says. */
static json_t *merge_column(const json_t *declared, const json_t *found)
{
    static const char *const copied[] = { "nulls", "distinct", "distinct_is_approximate",
                                          "min",   "max",      "mean",
                                          "top" };
    const char *sql_type = json_string_value(json_object_get(found, "type"));
    json_t *column = declared ? json_copy((json_t *)declared) : json_object(), *values;
    bool nulls = json_integer_value(json_object_get(found, "nulls")) > 0;

    if (!declared) {
        json_object_set_new(column, "type", json_string(dataset_type_of(sql_type)));
        json_object_set_new(column, "description", json_string(""));
        values = str_eq(dataset_type_of(sql_type), "string") ? all_values(found) : NULL;
        if (values)
            json_object_set_new(column, "values", values);
    }
    if (nulls || !json_object_get(column, "nullable"))
        json_object_set_new(column, "nullable", json_boolean(nulls));
    json_object_set_new(column, "sql_type", json_string(sql_type));
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++) {
        json_t *j = json_object_get(found, copied[i]);

        if (j)
            json_object_set(column, copied[i], j);
    }
    return column;
}

static json_t *file_schema(const struct dataset_file *f)
{
    json_t *schema, *found;
    size_t i;

    if (!f->profile)
        return f->schema ? json_incref(f->schema) : json_object();
    schema = json_object();
    json_array_foreach(json_object_get(f->profile, "columns"), i, found) {
        const char *name = json_string_value(json_object_get(found, "name"));

        json_object_set_new(schema, name, merge_column(json_object_get(f->schema, name), found));
    }
    return schema;
}

/* Rows by the names of their columns, as text: a null is "", as in the file. */
static json_t *sample_rows(const json_t *profile)
{
    const json_t *columns = json_object_get(profile, "columns");
    json_t *out = json_array(), *row, *cell;
    size_t i, k;
    json_array_foreach(json_object_get(profile, "sample_rows"), i, row) {
        json_t *object = json_object();
        json_array_foreach(row, k, cell) {
            auto_free char *text = json_is_string(cell) || json_is_null(cell) ?
                                       NULL :
                                       json_dumps(cell, JSON_ENCODE_ANY);
            json_object_set_new(
                object, json_string_value(json_object_get(json_array_get(columns, k), "name")),
                json_is_string(cell) ? json_incref(cell) : json_string(text ? text : ""));
        }
        json_array_append_new(out, object);
    }
    return out;
}

static json_t *file_json(const struct dataset_file *f)
{
    json_t *report = json_object_get(f->profile, "report");
    json_t *j = json_pack(
        "{s:o, s:o, s:s, s:s, s:o, s:I, s:b, s:o, s:o}", "name",
        json_text(f->name, strlen(f->name)), "path", json_text(f->path, strlen(f->path)), "table",
        f->table, "description", f->description, "row_count",
        f->row_count < 0 ? json_null() : json_integer(f->row_count), "size_bytes",
        (json_int_t)f->size_bytes, "profiled",
        f->profile && !dataset_profile_is_partial(f->profile), "schema", file_schema(f),
        "sample_rows", sample_rows(f->profile));
    if (report)
        json_object_set(j, "report", report);
    return j;
}

json_t *dataset_tables_json(const struct dataset *d)
{
    json_t *tables = json_array();
    struct dataset_table t = { 0 };

    while (dataset_next_table(d, &t)) {
        const struct dataset_file *f = &t.file;
        json_t *j = json_pack("{s:s, s:o, s:o}", "name", f->table, "file",
                              json_text(f->name, strlen(f->name)), "rows",
                              f->row_count < 0 ? json_null() : json_integer(f->row_count));

        if (f->profile)
            json_object_set_new(
                j, "columns",
                json_integer((json_int_t)json_array_size(json_object_get(f->profile, "columns"))));
        json_array_append_new(tables, j);
    }
    return tables;
}

json_t *dataset_schema_json(const struct dataset *d)
{
    auto_json json_t *files = json_array(), *relationships = json_array();

    struct dataset_table t = { 0 };

    while (dataset_next_table(d, &t))
        if (json_array_append_new(files, file_json(&t.file)) < 0)
            return NULL;
    for (size_t i = 0; i < d->n_relationships; i++) {
        const struct dataset_relationship *r = &d->relationships[i];

        if (json_array_append_new(relationships, json_pack("{s:s, s:s, s:s}", "from", r->from, "to",
                                                           r->to, "type", r->type)) < 0)
            return NULL;
    }
    return json_pack("{s:o, s:o, s:o, s:s, s:O, s:O}", "id", json_text(d->id, strlen(d->id)),
                     "name", json_text(d->name, strlen(d->name)), "description",
                     json_text(d->description, strlen(d->description)), "version_hash",
                     d->version_hash, "relationships", relationships, "files", files);
}
