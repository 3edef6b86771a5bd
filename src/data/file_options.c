/* How an upload is to be read, where its owner says it: as form fields and as JSON. */

#include <string.h>
#include "base/str.h"
#include "data/receive.h"
#include "net/schema.h"
#include "sandbox/table_names.h"

static const char *const decimals[] = { ".", ",", NULL };
static const char *const groups[] = { ".", ",", "'", " ", NULL };
static const char *const orders[] = { "dmy", "mdy", "ymd", NULL };
static const char *const typings[] = { "auto", "text", NULL };
static const struct schema_field null_word = { .types = SCHEMA_STRING, SCHEMA_RANGE(0, 100) };

/* clang-format off */
#define OPTION_FIELDS                                                                              \
    { .name = "encoding", .types = SCHEMA_STRING, .nullable = true, SCHEMA_RANGE(1, 39),           \
      .doc = "As iconv names it: `windows-1252`." },                                               \
    { .name = "delimiter", .types = SCHEMA_STRING, .nullable = true, SCHEMA_RANGE(1, 5),           \
      .doc = "One to three characters, `tab` or `space`." },                                       \
    { .name = "quote", .types = SCHEMA_STRING, .nullable = true, SCHEMA_RANGE(0, 1),               \
      .doc = "One character; empty: none." },                                                      \
    { .name = "header_line", .types = SCHEMA_INTEGER, .nullable = true, SCHEMA_RANGE(0, 1000000),  \
      .doc = "The line of the header; 0: there is none." },                                        \
    { .name = "decimal", .types = SCHEMA_STRING, .nullable = true, .choices = decimals },          \
    { .name = "thousands", .types = SCHEMA_STRING, .nullable = true, .choices = groups },          \
    { .name = "date_order", .types = SCHEMA_STRING, .nullable = true, .choices = orders,           \
      .doc = "Where a column leaves it open." },                                                   \
    { .name = "types", .types = SCHEMA_STRING, .nullable = true, .choices = typings,               \
      .doc = "`text`: every value as it stands in the file." },                                    \
    { .name = "sheet", .types = SCHEMA_STRING, .nullable = true, SCHEMA_RANGE(1, 200),             \
      .doc = "The sheet of a workbook; the list of JSON, the file of an archive." },               \
    SCHEMA_OPTIONAL("nulls", ARRAY, "Further words for \"no value\"; in a form one field each.", .items = &null_word, \
      SCHEMA_RANGE(0, 32))
/* clang-format on */

static const struct schema_field option_fields[] = { OPTION_FIELDS, { .name = NULL } };

const struct schema read_options_schema = {
    .name = "ReadOptions",
    .doc = "How a file is read, where it is said (docs/files.md); null: as it looks.",
    .fields = option_fields,
    .closed = true,
};

static const struct schema_field file_part = { .types = SCHEMA_STRING, .format = "binary" };
static const struct schema_field form_fields[] = {
    SCHEMA_REQUIRED(
        "files", ARRAY,
        "One or more files: CSV, TSV, JSON, NDJSON (also by gzip or zstd), Parquet, XLSX, "
        "XLS, ODS, SQLite, DuckDB, or ZIP archives of them.",
        .items = &file_part, SCHEMA_RANGE(1, RECEIVE_FILES_MAX)),
    OPTION_FIELDS,
    { .name = NULL },
};
const struct schema upload_form_schema = { .name = "UploadForm",
                                           .fields = form_fields,
                                           .open = true };

/* Empty inputs of a form say nothing; an empty quote is a choice. */
int read_options_field(json_t *options, const char *name, const char *value, struct err *err)
{
    const char *names[ARRAY_SIZE(option_fields)];
    const struct schema_field *f = option_fields;
    json_t *parsed;
    size_t n = 0;
    for (; f->name && !str_eq(f->name, name); f++)
        names[n++] = f->name;
    if (!f->name) {
        char shown[STR_SHOWN_SIZE];
        const char *near = str_nearest(name, names, n);
        return near ? err_set(err, ERR_VALIDATION, "there is no field '%s'; did you mean '%s'?",
                              str_show(name, strlen(name), shown, sizeof(shown)), near) :
                      0;
    }
    if (!*value && !str_eq(name, "quote"))
        return 0;
    struct schema_field word = null_word;
    word.name = name;
    int r = schema_parse_text(f->items ? &word : f, value, &parsed, NULL, err);
    if (r < 0)
        return r;
    json_t *list = f->items ? json_object_get(options, name) : NULL;
    if (f->items && !list) {
        list = json_array();
        json_object_set_new(options, name, list);
    }
    if (list && json_array_size(list) == (size_t)f->max) {
        json_decref(parsed);
        return err_set(err, ERR_VALIDATION, "'%s' takes at most %lld words", name, f->max);
    }
    r = list ? json_array_append_new(list, parsed) : json_object_set_new(options, name, parsed);
    return r < 0 ? err_set(err, ERR_NO_MEMORY, "out of memory") : 0;
}

int read_options_text(const json_t *options, char **ret, struct err *err)
{
    *ret = NULL;
    if (json_object_size(options) == 0)
        return 0;
    char *text = json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (strlen(text) >= TABLE_OPTIONS_MAX) {
        free(text);
        return err_set(err, ERR_VALIDATION, "the options take more than %d bytes",
                       TABLE_OPTIONS_MAX - 1);
    }
    *ret = text;
    return 0;
}

int read_options_merge(const char *stored, const json_t *change, char **ret, struct err *err)
{
    auto_json json_t *all = NULL;
    const char *key;
    json_t *value;
    if (!stored || json_parse(stored, strlen(stored), &all, NULL) < 0)
        all = json_object();
    json_object_foreach((json_t *)change, key, value) {
        if (json_is_null(value))
            json_object_del(all, key);
        else
            json_object_set(all, key, value);
    }
    return read_options_text(all, ret, err);
}
