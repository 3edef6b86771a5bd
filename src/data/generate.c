/* Writes the bundled sets and their registry. */

#include "data/generate.h"

#include <stdio.h>
#include <string.h>
#include "base/fdio.h"
#include "base/json.h"
#include "base/str.h"
#include "data/bundled.h"
#include "data/version.h"
#include "data/registry.h"

#define FILE_MAX_BYTES (16 * 1024 * 1024)
#define GENERATED_AT                                                                               \
    "2026-02-01T00:00:00+00:00" /* the sets' own day, not the clock's: bytes must not differ */

/* ---- registry entries ---- */

/* The parts of "a|b|c" as an array; as numbers where the column is one. NULL when out of memory. */
static json_t *split(const char *list, bool integers)
{
    json_t *array = json_array();

    while (array && *list) {
        size_t n = strcspn(list, "|");
        json_t *part = integers ? json_integer(strtol(list, NULL, 10)) : json_stringn(list, n);

        if (json_array_append_new(array, part) < 0) {
            json_decref(array);
            return NULL;
        }
        list += n + (list[n] == '|');
    }
    return array;
}

static json_t *describe_columns(const struct bundled_file *file)
{
    json_t *schema = json_object();
    int bad = 0;

    for (size_t i = 0; i < file->n_columns; i++) {
        const struct bundled_column *c = &file->columns[i];
        json_t *column = json_pack("{s:s, s:s}", "type", c->type, "description", c->description);

        if (c->values)
            bad |= json_object_set_new(column, "values",
                                       split(c->values, str_eq(c->type, "integer")));
        if (c->nullable)
            bad |= json_object_set_new(column, "nullable", json_true());
        bad |= json_object_set_new(schema, c->name, column);
    }
    if (bad) {
        json_decref(schema);
        return NULL;
    }
    return schema;
}

static json_t *describe_relationships(const struct bundled_set *set)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < set->n_relationships; i++)
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:s}", "from", set->relationships[i][0], "to",
                                        set->relationships[i][1], "type", "many-to-one"));
    return array;
}

static json_t *describe_file(const struct bundled_set *set, const struct bundled_file *file)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", set->id, file->name);
    return json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", file->name, "path", path, "description",
                     file->description, "row_count", file->rows, "schema", describe_columns(file));
}

static json_t *describe_set(const struct bundled_set *set, const struct buf *files,
                            const char *version_hash)
{
    json_t *file_list = json_array(), *prompts = json_array(), *entry;
    json_int_t rows = 0, size = 0;

    for (size_t i = 0; i < set->n_files; i++) {
        json_array_append_new(file_list, describe_file(set, &set->files[i]));
        rows += set->files[i].rows;
        size += (json_int_t)files[i].len;
    }
    for (size_t i = 0; i < BUNDLED_PROMPTS; i++)
        json_array_append_new(prompts, json_string(set->prompts[i]));
    entry = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "id", set->id,
                      "name", set->name, "description", set->description, "domain", set->domain,
                      "version_hash", version_hash, "row_count", rows, "size_bytes", size, "files",
                      file_list, "relationships", describe_relationships(set), "prompts", prompts,
                      "tags", split(set->tags, false));
    return entry;
}

/* ---- files ---- */

static int write_set(const char *dir, const struct bundled_set *set, const struct buf *files,
                     struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_BYTES_MAX);
    int r = buf_printf(&path, err, "%s/%s", dir, set->id);

    if (r == 0)
        r = fd_mkdir_p(buf_cstr(&path), 0755, err);
    for (size_t i = 0; r == 0 && i < set->n_files; i++) {
        buf_clear(&path);
        r = buf_printf(&path, err, "%s/%s/%s", dir, set->id, set->files[i].name);
        if (r == 0)
            r = fd_replace_file(buf_cstr(&path), files[i].data, files[i].len, 0644, err);
    }
    return r;
}

/* Makes the files of a set, writes them, and returns its registry entry. */
static int make_set(const char *dir, const struct bundled_set *set, json_t **ret_entry,
                    struct err *err)
{
    struct buf files[BUNDLED_MAX_FILES];
    auto_buf struct buf lines = BUF_INIT(4096);
    char hex[HASH_HEX_SIZE], version[HASH_VERSION_SIZE];
    int r;

    for (size_t i = 0; i < BUNDLED_MAX_FILES; i++)
        buf_init(&files[i], FILE_MAX_BYTES);
    r = set->write(files, err);
    for (size_t i = 0; r == 0 && i < set->n_files; i++) {
        r = hash_bytes(files[i].data, files[i].len, hex, err);
        if (r == 0)
            r = hash_add_line(&lines, hex, set->files[i].name, err);
    }
    if (r == 0)
        r = hash_version(&lines, version, err);
    if (r == 0)
        r = write_set(dir, set, files, err);
    if (r == 0) {
        *ret_entry = describe_set(set, files, version);
        if (!*ret_entry)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    }
    for (size_t i = 0; i < BUNDLED_MAX_FILES; i++)
        buf_finish(&files[i]);
    return r < 0 ? err_wrap(err, "generating dataset '%s'", set->id) : 0;
}

/* ---- the registry ---- */

static bool is_bundled(const json_t *entry)
{
    const char *id = json_string_value(json_object_get(entry, "id"));

    for (size_t i = 0; i < n_bundled_sets; i++) {
        if (str_eq(id, bundled_sets[i].id))
            return true;
    }
    return false;
}

/* Entries of others in a registry that is already there. */
static int read_others(const char *path, json_t **ret, struct err *err)
{
    auto_json json_t *old = NULL;
    json_t *others = json_array(), *entry;
    struct err missing = ERR_INIT;
    size_t i;
    int r = registry_read_json(path, &old, &missing);

    if (r < 0 && missing.code != ERR_NOT_FOUND) {
        json_decref(others);
        return err_set(err, missing.code, "%s; nothing was written", missing.message);
    }
    if (!others)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    json_array_foreach(json_object_get(old, "datasets"), i, entry) {
        if (!is_bundled(entry))
            json_array_append(others, entry);
    }
    *ret = others;
    return 0;
}

static int write_registry(const char *path, json_t *datasets, struct err *err)
{
    auto_json json_t *registry = json_pack(
        "{s:s, s:s, s:s, s:O}", "version", REGISTRY_VERSION, "generated_at", GENERATED_AT,
        "description",
        "Datasets for questions: files, columns, relationships and examples of what to ask",
        "datasets", datasets);
    auto_free char *text = registry ? json_dumps(registry, JSON_INDENT(2)) : NULL;
    auto_buf struct buf b = BUF_INIT(REGISTRY_MAX_BYTES);
    int r;

    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    r = buf_append_str(&b, text, err);
    if (r == 0)
        r = buf_append(&b, "\n", 1, err);
    return r < 0 ? r : fd_replace_file(path, b.data, b.len, 0644, err);
}

int datasets_generate(const char *dir, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_BYTES_MAX);
    auto_json json_t *datasets = json_array(), *others = NULL;
    int r = buf_printf(&path, err, "%s/" REGISTRY_FILE, dir);

    if (r == 0 && !datasets)
        r = err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    if (r == 0)
        r = read_others(buf_cstr(&path), &others, err);
    for (size_t i = 0; r == 0 && i < n_bundled_sets; i++) {
        json_t *entry = NULL;

        r = make_set(dir, &bundled_sets[i], &entry, err);
        if (r == 0 && json_array_append_new(datasets, entry) < 0)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    }
    if (r == 0 && json_array_extend(datasets, others) < 0)
        r = err_set(err, ERR_NO_MEMORY, "out of memory for the registry");
    /* Last: what the registry names is there. */
    return r < 0 ? r : write_registry(buf_cstr(&path), datasets, err);
}
