/* One entry of registry.json: every member checked, with messages that name the place. */

#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "data/registry_impl.h"

/* ---- members ---- */

static int get_text(const json_t *obj, const char *key, bool required, const char **ret,
                    struct err *err)
{
    int r = json_get_str(obj, key, NULL, ret, err);

    if (r < 0)
        return r;
    if (required && (!*ret || !**ret))
        return err_set(err, ERR_VALIDATION, "'%s' is required", key);
    if (*ret && strlen(*ret) > REGISTRY_MAX_TEXT)
        return err_set(err, ERR_VALIDATION, "'%s' is longer than %d bytes", key, REGISTRY_MAX_TEXT);
    if (!*ret)
        *ret = "";
    return 0;
}

/* An array of at most `max` members; *ret is NULL when it is missing. */
static int get_list(const json_t *obj, const char *key, size_t max, json_t **ret, struct err *err)
{
    int r = json_get_array(obj, key, ret, err);

    if (r == 0 && json_array_size(*ret) > max)
        r = err_set(err, ERR_VALIDATION, "'%s' has %zu members; the maximum is %zu", key,
                    json_array_size(*ret), max);
    return r;
}

/* A list of texts. New reference, empty when missing. */
static int get_texts(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
    json_t *list, *text;
    size_t i;
    int r = get_list(obj, key, REGISTRY_MAX_LIST, &list, err);

    if (r < 0)
        return r;
    json_array_foreach(list, i, text) {
        if (!json_is_string(text))
            return err_set(err, ERR_VALIDATION, "'%s' must hold strings; number %zu is of type %s",
                           key, i + 1, json_type_name(text));
        if (json_string_length(text) > REGISTRY_MAX_TEXT)
            return err_set(err, ERR_VALIDATION, "'%s' number %zu is longer than %d bytes", key,
                           i + 1, REGISTRY_MAX_TEXT);
    }
    *ret = list ? json_incref(list) : json_array();
    return *ret ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
}

/* ---- columns ---- */

static int check_column(const json_t *column, struct err *err)
{
    static const char *const keys[] = { "type",   "description", "unit", "role",
                                        "values", "nullable",    NULL };
    const char *text;
    json_t *values, *value;
    bool nullable;
    size_t i;
    int r = json_check_keys(column, keys, err);

    if (r == 0)
        r = get_text(column, "type", true, &text, err);
    if (r == 0)
        r = get_text(column, "description", false, &text, err);
    if (r == 0)
        r = get_text(column, "unit", false, &text, err);
    if (r == 0)
        r = get_text(column, "role", false, &text, err);
    if (r == 0)
        r = json_get_bool(column, "nullable", false, &nullable, err);
    if (r == 0)
        r = get_list(column, "values", REGISTRY_MAX_LIST, &values, err);
    if (r < 0)
        return r;
    json_array_foreach(values, i, value) {
        if (json_is_array(value) || json_is_object(value))
            return err_set(err, ERR_VALIDATION,
                           "'values' must hold single values; number %zu is of type %s", i + 1,
                           json_type_name(value));
    }
    return 0;
}

static int read_schema(const json_t *entry, json_t **ret, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    json_t *schema, *column;
    const char *name;
    int r = json_get_object(entry, "schema", &schema, err);

    if (r < 0 || !schema)
        return r;
    if (json_object_size(schema) == 0)
        return err_set(err, ERR_VALIDATION,
                       "'schema' has no columns; leave it out to have it inferred");
    if (json_object_size(schema) > REGISTRY_MAX_COLUMNS)
        return err_set(err, ERR_VALIDATION, "'schema' has %zu columns; the maximum is %d",
                       json_object_size(schema), REGISTRY_MAX_COLUMNS);
    json_object_foreach(schema, name, column) {
        r = check_column(column, err);
        if (r < 0)
            return err_wrap(err, "column '%s'", str_show(name, strlen(name), shown, sizeof(shown)));
    }
    *ret = json_incref(schema);
    return 0;
}

/* ---- files ---- */

/*
 * A relative path without "", "." or ".." between its slashes. Links are resolved later, when the
 * file is looked at.
 */
static int check_path(const char *path, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    const char *p = path;

    str_show(path, strlen(path), shown, sizeof(shown));
    if (*path == '/')
        return err_set(err, ERR_VALIDATION,
                       "path '%s' must be relative to the registry's directory", shown);
    while (*p) {
        size_t n = strcspn(p, "/");

        if (n == 2 && p[0] == '.' && p[1] == '.')
            return err_set(err, ERR_VALIDATION, "path '%s' leads out of the registry's directory",
                           shown);
        if (n == 0 || (n == 1 && p[0] == '.') || (p[n] == '/' && p[n + 1] == '\0'))
            return err_set(err, ERR_VALIDATION,
                           "path '%s' must be names with a single '/' between them", shown);
        p += n + (p[n] == '/');
    }
    return 0;
}

static int read_file_entry(struct registry *r, const json_t *entry, struct dataset_file *f,
                           struct err *err)
{
    static const char *const keys[] = {
        "name", "path", "description", "row_count", "schema", NULL
    };
    char stem[DATASET_TABLE_MAX + 2];
    long long rows;
    int n = json_check_keys(entry, keys, err);

    if (n == 0)
        n = get_text(entry, "name", true, &f->name, err);
    if (n < 0)
        return n;
    str_stem(f->name, stem, sizeof(stem));
    if (strchr(f->name, '/') || !str_is_identifier(stem) || strlen(stem) > DATASET_TABLE_MAX) {
        char shown[STR_SHOWN_SIZE];

        return err_set(
            err, ERR_VALIDATION,
            "name '%s' must be a table's name and an extension, such as 'orders.csv' (letters, digits and '_', "
            "at most %d)",
            str_show(f->name, strlen(f->name), shown, sizeof(shown)), DATASET_TABLE_MAX);
    }
    n = get_text(entry, "path", true, &f->path, err);
    if (n == 0)
        n = check_path(f->path, err);
    if (n == 0)
        n = get_text(entry, "description", false, &f->description, err);
    if (n == 0)
        n = json_get_i64(entry, "row_count", -1, 0, INT64_MAX, &rows, err);
    if (n == 0)
        n = read_schema(entry, &f->schema, err);
    if (n < 0)
        return n;
    f->row_count = rows;
    f->table = registry_strdup(r, stem, err);
    return f->table ? 0 : -ERR_NO_MEMORY;
}

static int read_files(struct registry *r, const json_t *entry, struct dataset *d, struct err *err)
{
    json_t *list, *file;
    size_t i;
    int n = get_list(entry, "files", REGISTRY_MAX_FILES, &list, err);

    if (n < 0)
        return n;
    if (json_array_size(list) == 0)
        return err_set(err, ERR_VALIDATION, "'files' must name at least one file");
    d->files = registry_alloc(r, json_array_size(list) * sizeof(*d->files), err);
    if (!d->files)
        return -ERR_NO_MEMORY;
    json_array_foreach(list, i, file) {
        struct dataset_file *f = &d->files[i];

        d->n_files = i + 1; /* so that a schema is released even if this one fails */
        n = read_file_entry(r, file, f, err);
        if (n < 0)
            return err_wrap(err, "file %zu", i + 1);
        for (size_t k = 0; k < i; k++) {
            if (str_ieq(d->files[k].table, f->table))
                return err_set(err, ERR_VALIDATION, "two files make a table '%s'", f->table);
        }
    }
    return 0;
}

/* ---- relationships ---- */

/* "table.column" of this dataset. */
static int check_end(const struct dataset *d, const char *key, const char *end, struct err *err)
{
    char table[DATASET_TABLE_MAX + 1], shown[STR_SHOWN_SIZE];
    size_t n = strcspn(end, ".");
    struct dataset_table found;
    const struct dataset_file *f;

    str_show(end, strlen(end), shown, sizeof(shown));
    if (end[n] != '.' || n == 0 || n >= sizeof(table) || !end[n + 1])
        return err_set(err, ERR_VALIDATION, "'%s' must be 'table.column', not '%s'", key, shown);
    memcpy(table, end, n);
    table[n] = '\0';
    f = dataset_find_table(d, table, &found) ? &found.file : NULL;
    if (!f)
        return err_set(err, ERR_VALIDATION, "'%s' names '%s', but the dataset has no table '%s'",
                       key, shown, table);
    if (f->schema && !json_object_get(f->schema, end + n + 1))
        return err_set(err, ERR_VALIDATION,
                       "'%s' names '%s', but the table's schema has no such column", key, shown);
    return 0;
}

static int read_relationship(const struct dataset *d, const json_t *entry,
                             struct dataset_relationship *ret, struct err *err)
{
    static const char *const keys[] = { "from", "to", "type", NULL };
    static const char *const types[] = { "many-to-one", "one-to-many", "one-to-one",
                                         "many-to-many" };
    char shown[STR_SHOWN_SIZE];
    int r = json_check_keys(entry, keys, err);

    if (r == 0)
        r = get_text(entry, "from", true, &ret->from, err);
    if (r == 0)
        r = get_text(entry, "to", true, &ret->to, err);
    if (r == 0)
        r = get_text(entry, "type", true, &ret->type, err);
    if (r == 0)
        r = check_end(d, "from", ret->from, err);
    if (r == 0)
        r = check_end(d, "to", ret->to, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (str_eq(ret->type, types[i]))
            return 0;
    }
    return err_set(err, ERR_VALIDATION,
                   "'type' must be many-to-one, one-to-many, one-to-one or many-to-many, not '%s'",
                   str_show(ret->type, strlen(ret->type), shown, sizeof(shown)));
}

static int read_relationships(struct registry *r, const json_t *entry, struct dataset *d,
                              struct err *err)
{
    json_t *list, *relationship;
    size_t i;
    int n = get_list(entry, "relationships", REGISTRY_MAX_LIST, &list, err);

    if (n < 0 || json_array_size(list) == 0)
        return n;
    d->relationships = registry_alloc(r, json_array_size(list) * sizeof(*d->relationships), err);
    if (!d->relationships)
        return -ERR_NO_MEMORY;
    json_array_foreach(list, i, relationship) {
        n = read_relationship(d, relationship, &d->relationships[i], err);
        if (n < 0)
            return err_wrap(err, "relationship %zu", i + 1);
        d->n_relationships = i + 1;
    }
    return 0;
}

/* ---- the dataset ---- */

/* {"revenue": "sum of amount where status is completed"} */
static int read_metrics(const json_t *entry, struct dataset *d, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    json_t *metrics, *meaning;
    const char *name;
    int n = json_get_object(entry, "metrics", &metrics, err);

    if (n < 0)
        return n;
    if (json_object_size(metrics) > REGISTRY_MAX_LIST)
        return err_set(err, ERR_VALIDATION, "'metrics' has %zu members; the maximum is %d",
                       json_object_size(metrics), REGISTRY_MAX_LIST);
    json_object_foreach(metrics, name, meaning) {
        if (!json_is_string(meaning) || json_string_length(meaning) > REGISTRY_MAX_TEXT)
            return err_set(err, ERR_VALIDATION, "metric '%s' must be a text of at most %d bytes",
                           str_show(name, strlen(name), shown, sizeof(shown)), REGISTRY_MAX_TEXT);
    }
    d->metrics = json_incref(metrics);
    return 0;
}

static int read_members(struct registry *r, const json_t *entry, struct dataset *d, struct err *err)
{
    long long ignored;
    const char *declared_hash;
    int n = get_text(entry, "name", true, &d->name, err);

    if (n == 0)
        n = get_text(entry, "description", false, &d->description, err);
    if (n == 0)
        n = get_text(entry, "domain", false, &d->domain, err);
    /* Sums of the files; checked for their type, then counted anew. */
    if (n == 0)
        n = json_get_i64(entry, "row_count", 0, 0, INT64_MAX, &ignored, err);
    if (n == 0)
        n = json_get_i64(entry, "size_bytes", 0, 0, INT64_MAX, &ignored, err);
    if (n == 0)
        n = get_text(entry, "version_hash", false, &declared_hash, err);
    if (n == 0 && strlen(declared_hash) < sizeof(d->version_hash))
        strcpy(d->version_hash, declared_hash); /* until the files are hashed */
    if (n == 0)
        n = get_texts(entry, "prompts", &d->prompts, err);
    if (n == 0)
        n = get_texts(entry, "tags", &d->tags, err);
    if (n == 0)
        n = get_texts(entry, "notes", &d->notes, err);
    if (n == 0 && json_object_get(entry, "metrics"))
        n = read_metrics(entry, d, err);
    if (n == 0)
        n = read_files(r, entry, d, err);
    if (n == 0)
        n = read_relationships(r, entry, d, err);
    return n;
}

int registry_read_entry(struct registry *r, const json_t *entry, struct dataset **ret,
                        struct err *err)
{
    static const char *const keys[] = {
        "id",         "name",  "description",   "domain",  "version_hash", "row_count",
        "size_bytes", "files", "relationships", "prompts", "tags",         "notes",
        "metrics",    NULL
    };
    char shown[STR_SHOWN_SIZE];
    struct dataset *d = registry_alloc(r, sizeof(*d), err);
    int n;

    if (!d)
        return -ERR_NO_MEMORY;
    d->is_declared = true;
    *ret = d; /* the caller releases its references, whatever happens */
    n = json_check_keys(entry, keys, err);
    if (n == 0)
        n = get_text(entry, "id", true, &d->id, err);
    if (n < 0)
        return n;
    if (!dataset_is_id(d->id))
        return err_set(
            err, ERR_VALIDATION,
            "id '%s' must begin with a letter or digit and hold only letters, digits, '_' and '-' (at most %d)",
            str_show(d->id, strlen(d->id), shown, sizeof(shown)), DATASET_ID_MAX);
    n = read_members(r, entry, d, err);
    return n < 0 ? err_wrap(err, "dataset '%s'", d->id) : 0;
}
