/* What people write about a data set: changing it, checking it, and laying it over what was
 * declared. */

#include "data/words.h"

#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"

/* ---- changing ---- */

static bool is_nothing(const json_t *j)
{
    return json_is_null(j) || (json_is_string(j) && json_string_length(j) == 0) ||
           (json_is_object(j) && json_object_size(j) == 0) ||
           (json_is_array(j) && json_array_size(j) == 0);
}

/* New reference. What is empty afterwards is left out. */
static json_t *merge(const json_t *old, const json_t *patch)
{
    const char *key;
    json_t *value;
    if (!json_is_object(patch))
        return json_deep_copy(patch);
    json_t *out = json_is_object(old) ? json_deep_copy(old) : json_object();
    json_object_foreach((json_t *)(uintptr_t)patch, key, value) {
        json_t *merged = merge(json_object_get(out, key), value);
        if (is_nothing(merged)) {
            json_object_del(out, key);
            json_decref(merged);
        } else {
            json_object_set_new(out, key, merged);
        }
    }
    return out;
}

/* ---- checking ---- */

static int check_text(const json_t *j, const char *what, const char *of, size_t max,
                      struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    str_show(of, strlen(of), shown, sizeof(shown));
    if (!json_is_string(j))
        return err_set(err, ERR_VALIDATION, "%s '%s' must be a text, found %s", what, shown,
                       json_type_name(j));
    if (json_string_length(j) > max)
        return err_set(err, ERR_VALIDATION, "%s '%s' is longer than %zu bytes", what, shown, max);
    return 0;
}

static int unknown(const char *name, const char *where, const char *known, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    return err_set(err, ERR_VALIDATION, "unknown member '%s' of %s; there is %s",
                   str_show(name, strlen(name), shown, sizeof(shown)), where, known);
}

static int check_object(const json_t *j, const char *what, size_t max, struct err *err)
{
    if (!json_is_object(j))
        return err_set(err, ERR_VALIDATION, "'%s' must be an object, found %s", what,
                       json_type_name(j));
    if (json_object_size(j) > max)
        return err_set(err, ERR_VALIDATION, "'%s' has %zu members; the maximum is %zu", what,
                       json_object_size(j), max);
    return 0;
}

static int check_notes(const json_t *notes, struct err *err)
{
    size_t i;
    json_t *note;
    char name[32];
    int r = 0;
    if (!json_is_array(notes) || json_array_size(notes) > WORDS_NOTES_MAX)
        return err_set(err, ERR_VALIDATION, "'notes' must be a list of at most %d texts",
                       WORDS_NOTES_MAX);
    json_array_foreach(notes, i, note) {
        snprintf(name, sizeof(name), "%zu", i + 1);
        if (r == 0)
            r = check_text(note, "note", name, WORDS_TEXT_MAX, err);
    }
    return r;
}

static int check_metrics(const json_t *metrics, struct err *err)
{
    const char *name;
    json_t *meaning;
    int r = check_object(metrics, "metrics", WORDS_METRICS_MAX, err);
    json_object_foreach((json_t *)(uintptr_t)metrics, name, meaning) {
        if (r == 0 && (!*name || strlen(name) > WORDS_NAME_MAX))
            r = err_set(err, ERR_VALIDATION, "the name of a metric has 1 to %d bytes",
                        WORDS_NAME_MAX);
        if (r == 0)
            r = check_text(meaning, "metric", name, WORDS_TEXT_MAX, err);
    }
    return r;
}

/* True as well when nothing is known about the columns. */
static bool has_column(const struct dataset_file *f, const char *name)
{
    size_t i;
    json_t *column;
    json_array_foreach(json_object_get(f->profile, "columns"), i, column)
        if (str_eq(json_string_value(json_object_get(column, "name")), name))
            return true;
    return f->profile ? false : !f->schema || json_object_get(f->schema, name);
}

static int check_role(const json_t *value, const char *column, struct err *err)
{
    static const char *const roles[] = { "id", "measure", "category", "text" };
    char shown[STR_SHOWN_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
        if (str_eq(json_string_value(value), roles[i]))
            return 0;
    return err_set(err, ERR_VALIDATION,
                   "the role of '%s' must be one of id, measure, category, text",
                   str_show(column, strlen(column), shown, sizeof(shown)));
}

static int check_column(const struct dataset_file *f, const char *name, const json_t *about,
                        struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    const char *key;
    json_t *value;
    int r = check_object(about, name, 3, err);
    if (r == 0 && !has_column(f, name))
        return err_set(err, ERR_VALIDATION, "table '%s' has no column '%s'", f->table,
                       str_show(name, strlen(name), shown, sizeof(shown)));
    json_object_foreach((json_t *)(uintptr_t)about, key, value) {
        bool unit = str_eq(key, "unit"), role = str_eq(key, "role");
        if (r == 0 && !unit && !role && !str_eq(key, "description"))
            r = unknown(key, "a column", "description, unit, role", err);
        if (r == 0 && role)
            r = check_role(value, name, err);
        else if (r == 0)
            r = check_text(value, unit ? "the unit of" : "the description of", name,
                           unit ? WORDS_UNIT_MAX : WORDS_TEXT_MAX, err);
    }
    return r;
}

static int check_table(const struct dataset *d, const char *name, const json_t *about,
                       struct err *err)
{
    struct dataset_table found;
    const struct dataset_file *f = dataset_find_table(d, name, &found) ? &found.file : NULL;
    char shown[STR_SHOWN_SIZE];
    const char *key, *column;
    json_t *value, *told;
    int r = check_object(about, name, 2, err);
    if (r == 0 && (!f || !str_eq(f->table, name)))
        return err_set(err, ERR_VALIDATION, "there is no table '%s'%s%s%s",
                       str_show(name, strlen(name), shown, sizeof(shown)),
                       d->n_files ? "; the first one is '" : "",
                       d->n_files ? d->files[0].table : "", d->n_files ? "'" : "");
    json_object_foreach((json_t *)(uintptr_t)about, key, value) {
        if (r == 0 && str_eq(key, "description")) {
            r = check_text(value, "the description of", name, WORDS_TEXT_MAX, err);
        } else if (r == 0 && str_eq(key, "columns")) {
            r = check_object(value, "columns", SIZE_MAX, err);
            json_object_foreach(value, column, told)
                if (r == 0)
                    r = check_column(f, column, told, err);
        } else if (r == 0) {
            r = unknown(key, "a table", "description, columns", err);
        }
    }
    return r;
}

static int check(const struct dataset *d, const json_t *words, struct err *err)
{
    const char *key, *table;
    json_t *value, *about;
    int r = check_object(words, "words", SIZE_MAX, err);
    json_object_foreach((json_t *)(uintptr_t)words, key, value) {
        if (r < 0)
            break;
        if (str_eq(key, "description")) {
            r = check_text(value, "the description of", d->id, WORDS_DESCRIPTION_MAX, err);
        } else if (str_eq(key, "notes")) {
            r = check_notes(value, err);
        } else if (str_eq(key, "metrics")) {
            r = check_metrics(value, err);
        } else if (str_eq(key, "tables")) {
            r = check_object(value, "tables", SIZE_MAX, err);
            json_object_foreach(value, table, about)
                if (r == 0)
                    r = check_table(d, table, about, err);
        } else {
            r = unknown(key, "a data set", "description, notes, metrics, tables", err);
        }
    }
    return r;
}

int words_patch(const struct dataset *d, const json_t *old, const json_t *patch, json_t **ret,
                struct err *err)
{
    auto_json json_t *words = merge(old, patch);
    int r = words ? check(d, words, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    auto_free char *text = r == 0 ? json_to_str(words) : NULL;
    if (r == 0 && !text)
        r = err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0 && strlen(text) > WORDS_MAX_BYTES)
        r = err_set(err, ERR_VALIDATION,
                    "the words about a data set take %zu bytes; the maximum is %u", strlen(text),
                    WORDS_MAX_BYTES);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(words);
    return 0;
}

/* ---- laying one over the other ---- */

static json_t *declared_columns(const struct dataset_file *f)
{
    static const char *const kept[] = { "description", "unit", "role" };
    json_t *out = json_object(), *about;
    const char *name;
    json_object_foreach(f->schema, name, about) {
        json_t *column = json_object();
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
            if (json_string_length(json_object_get(about, kept[i])) > 0)
                json_object_set(column, kept[i], json_object_get(about, kept[i]));
        if (json_object_size(column) > 0)
            json_object_set(out, name, column);
        json_decref(column);
    }
    return out;
}

json_t *words_of(const struct dataset *d, const json_t *own)
{
    struct dataset_table t = { 0 };
    json_t *tables = json_object();
    json_t *out = json_pack("{s:s, s:o, s:O*, s:o}", "description", d->description, "notes",
                            d->notes ? json_deep_copy(d->notes) : json_array(), "metrics",
                            d->metrics, "tables", tables);
    if (!out)
        return NULL;
    while (dataset_next_table(d, &t))
        json_object_set_new(tables, t.file.table,
                            json_pack("{s:s, s:o}", "description", t.file.description, "columns",
                                      declared_columns(&t.file)));
    auto_json json_t *added = own ? json_copy((json_t *)(uintptr_t)own) : json_object();
    json_array_extend(json_object_get(out, "notes"), json_object_get(own, "notes"));
    json_object_del(added, "notes");
    json_t *merged = merge(out, added);
    json_decref(out);
    return merged;
}
