/* The data of a thread: the sets that it names and its own files, as one sandbox sees them. */

#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/str.h"
#include "data/database_sets.h"
#include "data/threads.h"
#include "data/told.h"
#include "data/words.h"

#define DATASETS_MAX 16
#define DEFAULT_DATASET "transactions"

/* What keeps the files from going away while the chat may use them. */
struct held {
    size_t n;
    struct dataset_handle handles[DATASETS_MAX];
    size_t n_files;
    struct file_set *files[SANDBOX_FILES_MAX];
};

static void let_go(void *arg)
{
    struct held *h = arg;
    for (size_t i = 0; i < h->n; i++)
        dataset_handle_release(&h->handles[i]);
    for (size_t i = 0; i < h->n_files; i++)
        file_set_unref(h->files[i]);
    free(h);
}

void data_view_init(struct data_view *d)
{
    *d = (struct data_view){ 0 };
    arena_init(&d->arena, 16u << 20);
}

void data_view_finish(struct data_view *d)
{
    if (d->release)
        d->release(d->held);
    json_decref(d->relationships);
    json_decref(d->prompts);
    json_decref(d->words);
    arena_finish(&d->arena);
    *d = (struct data_view){ 0 };
}

bool data_view_has_tables(const struct data_view *d)
{
    if (d->database)
        return d->n_tables > 0;
    for (size_t i = 0; i < d->n_files; i++)
        if (d->files[i].table)
            return true;
    return false;
}

static bool table_taken(const struct data_view *d, const char *table)
{
    for (size_t i = 0; i < d->n_files; i++)
        if ((d->files[i].table && str_ieq(d->files[i].table, table)) ||
            str_ieq(d->files[i].name, table))
            return true;
    return false;
}

static bool name_taken(const struct data_view *d, const char *name)
{
    for (size_t i = 0; i < d->n_files; i++)
        if (str_ieq(d->files[i].name, name))
            return true;
    return false;
}

/* Adds a file under names that no other has. */
static int add_file(struct data_view *d, const struct sandbox_file *f, struct err *err)
{
    char table[DATASET_TABLE_MAX + 8], name[300];
    if (d->n_files == SANDBOX_FILES_MAX)
        return err_set(err, ERR_VALIDATION, "a thread takes at most %d files", SANDBOX_FILES_MAX);
    snprintf(table, sizeof(table), "%s", f->raw ? "" : f->table);
    for (unsigned n = 2; !f->raw && table_taken(d, table) && n < 100; n++)
        snprintf(table, sizeof(table), "%.56s_%u", f->table, n);
    const char *dot = strrchr(f->name, '.');
    int stem = dot ? (int)(dot - f->name) : (int)strlen(f->name);
    snprintf(name, sizeof(name), "%s", f->name);
    if (!f->raw && name_taken(d, name))
        snprintf(name, sizeof(name), "%s%s", table, dot ? dot : "");
    for (unsigned n = 2; name_taken(d, name) && n < 100; n++)
        snprintf(name, sizeof(name), "%.*s_%u%s", MIN_OF(stem, 200), f->name, n, dot ? dot : "");
    d->files[d->n_files++] = (struct sandbox_file){
        .name = arena_strdup(&d->arena, name),
        .path = arena_strdup(&d->arena, f->path),
        .table = f->raw ? NULL : arena_strdup(&d->arena, table),
        .sha256 = f->sha256 ? arena_strdup(&d->arena, f->sha256) : NULL,
        .options = f->options ? arena_strdup(&d->arena, f->options) : NULL,
        .alias = f->alias && !name_taken(d, f->alias) ? arena_strdup(&d->arena, f->alias) : NULL,
        .is_beside = f->is_beside,
        .raw = f->raw
    };
    const struct sandbox_file *last = &d->files[d->n_files - 1];
    return last->name && last->path && (last->table || last->raw) &&
                   (last->options || !f->options) ?
               0 :
               err_set(err, ERR_NO_MEMORY, "out of memory");
}

/*
 * The files that were given to the thread itself. Those that find no place beside its data sets are
 * left out.
 */
static int add_thread(struct data_room *room, const char *owner, const char *thread_id,
                      struct held *held, struct data_view *d, struct err *err)
{
    struct file_set *set;
    int r = 0;
    while (r == 0 && d->n_files < SANDBOX_FILES_MAX &&
           (set = data_thread_at(room, owner, thread_id, held->n_files))) {
        struct dataset_handle h = { .dataset = &set->dataset, .file = set };
        struct sandbox_file f = dataset_handle_file(&h, 0);
        held->files[held->n_files++] = file_set_ref(set);
        r = add_file(d, &f, err);
    }
    return r;
}

/* What people wrote about a table and its columns: a text each, and what a column is for. */
static void add_table_words(struct data_view *d, const json_t *about, const char *table)
{
    json_t *columns = json_object(), *roles = json_object(), *column;
    const char *name;
    json_object_foreach(json_object_get(about, "columns"), name, column) {
        const char *words = json_string_value(json_object_get(column, "description"));
        const char *unit = json_string_value(json_object_get(column, "unit"));
        if (words && *words)
            json_object_set_new(columns, name,
                                unit && *unit ? json_sprintf("%s (%s)", words, unit) :
                                                json_string(words));
        else if (unit && *unit)
            json_object_set_new(columns, name, json_string(unit));
        if (json_object_get(column, "role"))
            json_object_set(roles, name, json_object_get(column, "role"));
    }
    json_object_set_new(d->words, table,
                        json_pack("{s:O*, s:o, s:o}", "description",
                                  json_object_get(about, "description"), "columns", columns,
                                  "roles", roles));
}

/* What people wrote about the whole. */
static void add_words(struct data_view *d, const json_t *words)
{
    json_t *texts = json_object_get(d->words, "."),
           *metrics = json_object_get(d->words, ".metrics"), *meaning;
    const char *name, *description = json_string_value(json_object_get(words, "description"));
    if (description && *description)
        json_array_append_new(texts, json_string(description));
    json_array_extend(texts, json_object_get(words, "notes"));
    json_object_foreach(json_object_get(words, "metrics"), name, meaning) {
        json_array_append_new(texts, json_sprintf("%s: %s", name, json_string_value(meaning)));
        json_object_set(metrics, name, meaning);
    }
}

/* Its tables are asked where they are; other data sets of the thread are Python's then. */
static int add_database(struct data_view *d, const struct dataset_handle *h, const json_t *words,
                        struct err *err)
{
    const struct dataset *set = h->dataset;
    if (d->database)
        return err_set(err, ERR_VALIDATION,
                       "a thread asks one database: '%s' or '%s'; in Python, db_query(…, db=…) "
                       "asks any",
                       d->database, set->id);
    d->tables = arena_alloc(&d->arena, (set->n_files + 1) * sizeof(*d->tables));
    d->database = arena_strdup(&d->arena, set->id);
    d->look = database_set_serial(h->database);
    d->dialect = database_set_dialect(h->database);
    if (!d->tables || !d->database)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < set->n_files; i++) {
        if (!(d->tables[d->n_tables++] = arena_strdup(&d->arena, set->files[i].table)))
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        add_table_words(d, json_object_get(json_object_get(words, "tables"), set->files[i].table),
                        set->files[i].table);
    }
    return 0;
}

static int add_dataset(struct data_room *room, const char *owner, const char *id, bool is_upload,
                       struct held *held, struct data_view *d, struct err *err)
{
    if (held->n == DATASETS_MAX)
        return err_set(err, ERR_VALIDATION, "a thread takes at most %d datasets and uploads",
                       DATASETS_MAX);
    struct dataset_handle *h = &held->handles[held->n];
    int r = data_find(room, owner, id, h, err);
    if (r == -ERR_NOT_FOUND && is_upload)
        return err_set(err, ERR_NOT_FOUND,
                       "file_id '%.100s' not found. Upload a file first via POST /upload", id);
    if (r < 0)
        return r;
    held->n++;
    auto_json json_t *words = words_of(h->dataset, told_find(room, owner, id));
    if (h->database)
        r = add_database(d, h, words, err);
    for (size_t i = 0; i < dataset_handle_n_files(h) && r == 0; i++) {
        const struct dataset_file *f = &h->dataset->files[i];
        struct sandbox_file file = dataset_handle_file(h, i);
        char alias[128];
        const char *dot = strrchr(file.name, '.');
        if (is_upload) {
            snprintf(alias, sizeof(alias), "%.64s%.32s", id, dot ? dot : "");
            file.alias = alias;
        }
        r = add_file(d, &file, err);
        if (r == 0 && d->files[d->n_files - 1].table)
            add_table_words(d, json_object_get(json_object_get(words, "tables"), f->table),
                            d->files[d->n_files - 1].table);
    }
    add_words(d, words);
    for (size_t i = 0; i < h->dataset->n_relationships && r == 0; i++)
        json_array_append_new(d->relationships, json_pack("{s:s, s:s, s:s*}", "from",
                                                          h->dataset->relationships[i].from, "to",
                                                          h->dataset->relationships[i].to, "type",
                                                          h->dataset->relationships[i].type));
    if (!d->dataset_id || h->database)
        d->dataset_id = arena_strdup(&d->arena, h->dataset->id);
    if (json_array_size(d->prompts) == 0)
        json_array_extend(d->prompts, h->dataset->prompts);
    return r;
}

/* Same tables with the same contents have the same key. */
static int make_key(struct data_view *d, const char *owner, const struct database_set *set,
                    struct err *err)
{
    auto_buf struct buf b = BUF_INIT(1u << 20);
    bool own = false; /* what one owner's files hold is learnt for that owner only */
    for (size_t i = 0; i < d->n_files; i++)
        own = own || d->files[i].is_beside;
    int r = buf_printf(&b, err, "%s%s%s", d->dataset_id, own ? " " : "", own ? owner : "");
    for (size_t i = 0; i < d->n_files && r == 0; i++)
        r = buf_printf(&b, err, " %s=%s:%s%s", d->files[i].name,
                       d->files[i].table ? d->files[i].table : "",
                       d->files[i].sha256 ? d->files[i].sha256 : d->files[i].path,
                       d->files[i].options ? d->files[i].options : "");
    if (r == 0 && set)
        r = buf_printf(&b, err, " database=%s:%s", d->database,
                       database_set_dataset(set)->version_hash);
    auto_free char *words = r == 0 ? json_dumps(d->words, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    char hash[HASH_HEX_SIZE];
    if (r == 0)
        r = words ? hash_bytes(words, strlen(words), hash, err) :
                    err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r < 0)
        return r;
    d->key = arena_strdup(&d->arena, buf_cstr(&b));
    d->catalog_key = arena_printf(&d->arena, "%s words=%s look=%u", buf_cstr(&b), hash,
                                  set ? database_set_serial(set) : 0);
    return d->key && d->catalog_key ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

int data_view_share(const struct data_view *of, struct data_view *ret, struct err *err)
{
    ret->files = arena_alloc(&ret->arena, (of->n_files + 1) * sizeof(*ret->files));
    if (!ret->files)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    memcpy(ret->files, of->files, of->n_files * sizeof(*of->files));
    ret->n_files = of->n_files;
    ret->dataset_id = of->dataset_id;
    ret->key = of->key;
    ret->catalog_key = of->catalog_key;
    ret->version_hash = of->version_hash;
    return 0;
}

int data_view_find(struct data_room *room, const char *owner, const char *thread_id,
                   const json_t *datasets, const json_t *uploads, struct data_view *ret,
                   struct err *err)
{
    struct held *held = calloc(1, sizeof(*held));
    size_t i;
    json_t *id;
    int r = 0;
    ret->files = arena_alloc(&ret->arena, (SANDBOX_FILES_MAX + 1) * sizeof(*ret->files));
    ret->relationships = json_array();
    ret->prompts = json_array();
    ret->words = json_pack("{s:[], s:{}}", ".", ".metrics");
    if (!held || !ret->files) {
        free(held);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    ret->held = held;
    ret->release = let_go;
    json_array_foreach(datasets, i, id)
        if (r == 0)
            r = add_dataset(room, owner, json_string_value(id), false, held, ret, err);
    json_array_foreach(uploads, i, id)
        if (r == 0)
            r = add_dataset(room, owner, json_string_value(id), true, held, ret, err);
    if (r == 0 && !datasets && json_array_size(uploads) == 0 &&
        registry_count(room->registry) > 0) {
        const struct dataset *d = registry_find(room->registry, DEFAULT_DATASET);
        r = add_dataset(room, owner, d ? d->id : registry_get(room->registry, 0)->id, false, held,
                        ret, err);
    }
    if (r == 0)
        r = add_thread(room, owner, thread_id, held, ret, err);
    if (!ret->dataset_id)
        ret->dataset_id = "files";
    const struct database_set *set = NULL;
    for (i = 0; i < held->n; i++)
        set = held->handles[i].database ? held->handles[i].database : set;
    if (r == 0)
        r = make_key(ret, owner, set, err);
    if (r == 0) {
        char hash[HASH_HEX_SIZE];
        if (hash_bytes(ret->key, strlen(ret->key), hash, err) < 0)
            return -ERR_INTERNAL;
        ret->version_hash = held->n == 1 && held->n_files == 0 &&
                                    held->handles[0].dataset->version_hash[0] ?
                                arena_strdup(&ret->arena, held->handles[0].dataset->version_hash) :
                                arena_printf(&ret->arena, "sha256:%s", hash);
    }
    return r;
}
