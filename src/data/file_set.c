/* One file as a data set: its names, what it counts for the quota, and how it is shown. */

#include "data/file_sets.h"

#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "data/scan.h"
#include "data/threads.h"
#include "sandbox/table_names.h"

#define SET_ARENA_BYTES (64u << 10)

static const char *const status_names[_FILE_STATUS_MAX] = { "processing", "ready", "failed" };

const char *file_status_name(enum file_status s)
{
    return status_names[s];
}

/* ---- names ---- */

void file_safe_name(const char *filename, char ret[FILE_NAME_SIZE])
{
    snprintf(ret, FILE_NAME_SIZE, "%s", filename);
    for (char *p = ret; *p; p++)
        if (*p == '/')
            *p = '_';
    if (*ret == '.')
        *ret = '_';
}

void file_table_name(const char *name, char ret[DATASET_TABLE_MAX])
{
    char stem[FILE_NAME_SIZE];
    str_stem(name, stem, sizeof(stem));
    dataset_safe_name(stem, "data", true, ret, DATASET_TABLE_MAX);
}

bool file_is_tabular(const char *name)
{
    static const char *const text[] = { ".csv",    ".tsv",   ".tab",     ".psv", ".json",
                                        ".ndjson", ".jsonl", ".geojson", ".sql" },
                             *const other[] = { ".parquet", ".xlsx",    ".xlsm",  ".xls",
                                                ".ods",     ".zip",     ".db",    ".db3",
                                                ".sqlite",  ".sqlite3", ".duckdb" };
    size_t n = strlen(name);
    size_t packed = n > 3 && str_ieq(name + n - 3, ".gz")  ? 3 :
                    n > 4 && str_ieq(name + n - 4, ".zst") ? 4 :
                                                             0;
    char plain[FILE_NAME_SIZE];
    snprintf(plain, sizeof(plain), "%.*s", (int)(n - packed), name);
    n = strlen(plain);
    for (size_t i = 0; i < ARRAY_SIZE(text); i++)
        if (n > strlen(text[i]) && str_ieq(plain + n - strlen(text[i]), text[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(other) && !packed; i++)
        if (n > strlen(other[i]) && str_ieq(plain + n - strlen(other[i]), other[i]))
            return true;
    return false;
}

const char *file_way_out(const char *name)
{
    static const struct {
        const char *ending, *advice;
    } others[] = {
        { ".xlsb", "save it as .xlsx" },
        { ".numbers", "export it as .xlsx or CSV" },
        { ".feather", "write it as Parquet" },
        { ".arrow", "write it as Parquet" },
        { ".orc", "write it as Parquet" },
        { ".avro", "write it as Parquet or JSON" },
        { ".pkl", "write the frame as Parquet (df.to_parquet)" },
        { ".pickle", "write the frame as Parquet (df.to_parquet)" },
        { ".h5", "write its tables as Parquet" },
        { ".hdf5", "write its tables as Parquet" },
        { ".rds", "write it as CSV (write.csv) or Parquet" },
        { ".rdata", "write its tables as CSV (write.csv) or Parquet" },
        { ".dta", "export it from Stata as CSV" },
        { ".sav", "save it from SPSS as CSV or .xlsx" },
        { ".por", "save it from SPSS as CSV or .xlsx" },
        { ".sas7bdat", "export it from SAS as CSV" },
        { ".xpt", "export it from SAS as CSV" },
        { ".mdb", "export its tables from Access as .xlsx or CSV" },
        { ".accdb", "export its tables from Access as .xlsx or CSV" },
        { ".dbf", "save it as .xlsx or CSV" },
        { ".xml", "convert its records to JSON or CSV" },
        { ".html", "copy the table into a sheet, and send it as .xlsx or CSV" },
        { ".htm", "copy the table into a sheet, and send it as .xlsx or CSV" },
        { ".pdf", "copy its tables into a sheet, and send that as .xlsx or CSV" },
        { ".docx", "copy its tables into a sheet, and send that as .xlsx or CSV" },
        { ".yaml", "convert it to JSON" },
        { ".yml", "convert it to JSON" },
        { ".shp", "convert it to GeoJSON or CSV" },
        { ".tar", "unpack it and send the files inside, or a .zip of them" },
        { ".tgz", "unpack it and send the files inside, or a .zip of them" },
        { ".7z", "unpack it and send the files inside, or a .zip of them" },
        { ".rar", "unpack it and send the files inside, or a .zip of them" },
        { ".bz2", "pack it by gzip, zstd or zip" },
        { ".xz", "pack it by gzip, zstd or zip" },
    };
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(others); i++)
        if (str_ieq(dot, others[i].ending))
            return others[i].advice;
    return NULL;
}

/* ---- where it lies ---- */

/* An id or an owner as a directory: what begins with a dot gets a '%', which neither can have. */
static const char *dir_mark(const char *name)
{
    return *name == '.' ? "%" : "";
}

static void set_dir(const struct file_sets *all, const struct file_facts *f, char ret[PATH_MAX])
{
    if (f->thread_id)
        snprintf(ret, PATH_MAX, "%.3800s/%s%.64s/%s%.100s/%.32s", all->threads_root,
                 dir_mark(f->owner), f->owner, dir_mark(f->thread_id), f->thread_id, f->id);
    else
        file_part_dir(all, f->owner, f->id, false, ret);
}

void file_part_dir(const struct file_sets *all, const char *owner, const char *id, bool of_thread,
                   char ret[PATH_MAX])
{
    char safe[128];
    dataset_safe_name(owner, "owner", false, safe,
                      sizeof(safe)); /* two owners may share it: ids do not repeat */
    if (of_thread)                   /* which one may be said behind the file */
        snprintf(ret, PATH_MAX, "%.3800s/.uploading/%.32s", all->threads_root, id);
    else
        snprintf(ret, PATH_MAX, "%.3900s/%s/%.32s", all->uploads_root, safe, id);
}

void file_set_part(const struct file_set *set, char ret[PATH_MAX + 16])
{
    char dir[PATH_MAX];
    if (set->thread_id && !file_is_output(set->file.name)) {
        file_part_dir(set->all, set->owner, set->dataset.id, true, dir);
        snprintf(ret, PATH_MAX + 16, "%.3900s/%s", dir, set->file.name);
    } else {
        snprintf(ret, PATH_MAX + 16, "%s/" FILE_PART, set->dir);
    }
}

/* ---- quota ---- */

struct file_use *file_use_of(struct file_sets *all, const char *owner)
{
    for (struct file_use *u = all->uses; u; u = u->next)
        if (str_eq(u->owner, owner))
            return u;
    struct file_use *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    snprintf(u->owner, sizeof(u->owner), "%s", owner);
    u->next = all->uses;
    all->uses = u;
    return u;
}

int file_may_grow(const struct file_use *use, const struct config *cfg, int64_t bytes,
                  struct err *err)
{
    if (cfg->upload_quota_bytes > 0 && use->bytes + bytes > cfg->upload_quota_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "your uploads would take more than the %lld bytes that they may "
                       "(UPLOAD_QUOTA_BYTES); delete some first",
                       cfg->upload_quota_bytes);
    return 0;
}

/* What its table takes counts, too. */
void file_set_count(struct file_set *set)
{
    int64_t bytes = set->file.size_bytes + table_beside_bytes(set->file.full_path);
    set->use->bytes += bytes - set->counted_bytes;
    set->counted_bytes = bytes;
}

void file_set_uncount(struct file_set *set)
{
    set->use->bytes -= set->counted_bytes;
    set->counted_bytes = 0;
}

/* ---- life ---- */

bool file_set_describe(struct file_set *set)
{
    size_t n = json_array_size(set->columns);
    char *text = set->thread_id ?
                     arena_printf(&set->arena, "A file of thread %s", set->thread_id) :
                 set->file.row_count < 0 ?
                     arena_strdup(&set->arena, "Uploaded file") :
                     arena_printf(&set->arena, "Uploaded file, %lld row%s, %zu column%s",
                                  (long long)set->file.row_count,
                                  set->file.row_count == 1 ? "" : "s", n, n == 1 ? "" : "s");
    if (text)
        set->dataset.description = text;
    return text != NULL;
}

static const char *copy(struct file_set *set, const char *text)
{
    return text ? arena_strdup(&set->arena, text) : NULL;
}

struct file_set *file_set_create(struct file_sets *all, const struct file_facts *facts)
{
    struct file_use *use = file_use_of(all, facts->owner);
    struct file_set *set = use ? calloc(1, sizeof(*set)) : NULL;
    if (!set)
        return NULL;
    char name[FILE_NAME_SIZE], table[DATASET_TABLE_MAX], dir[PATH_MAX];
    arena_init(&set->arena, SET_ARENA_BYTES);
    if (facts->thread_id)
        snprintf(name, sizeof(name), "%s", facts->filename);
    else
        file_safe_name(facts->filename, name);
    file_table_name(name, table);
    set_dir(all, facts, dir);
    set->refs = 1;
    set->all = file_sets_ref(all);
    set->use = use;
    set->counted_bytes = facts->size_bytes;
    use->bytes += facts->size_bytes;
    use->n += !facts->thread_id;
    set->owner = copy(set, facts->owner);
    set->filename = copy(set, facts->filename);
    set->thread_id = copy(set, facts->thread_id);
    set->dir = copy(set, dir);
    set->error = (struct err)ERR_INIT;
    snprintf(set->created_at, sizeof(set->created_at), "%s", facts->created_at);
    snprintf(set->expires_at, sizeof(set->expires_at), "%s",
             facts->expires_at ? facts->expires_at : "");
    struct dataset_file *f = &set->file;
    f->name = f->path = copy(set, name);
    f->table = copy(set, facts->table ? facts->table : table);
    f->full_path = arena_printf(&set->arena, "%s/%s", dir, name);
    f->description = "";
    f->options = copy(set, facts->options);
    f->row_count = -1;
    f->size_bytes = facts->size_bytes;
    snprintf(f->sha256, sizeof(f->sha256), "%s", facts->sha256);
    struct dataset *d = &set->dataset;
    d->id = copy(set, facts->id);
    d->name = set->filename;
    d->domain = "";
    snprintf(d->version_hash, sizeof(d->version_hash), "sha256:%s", f->sha256);
    d->size_bytes = facts->size_bytes;
    d->files = f;
    d->n_files = 1;
    d->prompts = json_array(); /* those of its schema are made from what is in it */
    d->tags = json_array();
    if (!set->owner || !set->filename || !set->thread_id != !facts->thread_id || !set->dir ||
        !f->name || !f->table || !f->full_path || (facts->options && !f->options) || !d->id ||
        !d->prompts || !d->tags || !file_set_describe(set)) {
        file_set_unref(set);
        return NULL;
    }
    return set;
}

struct file_set *file_set_ref(struct file_set *set)
{
    if (set)
        set->refs++;
    return set;
}

void file_set_unref(struct file_set *set)
{
    if (!set || --set->refs > 0)
        return;
    if (set->remove_files && set->dir)
        file_set_remove_files(set);
    file_set_uncount(set);
    set->use->n -= !set->thread_id;
    json_decref(set->dataset.prompts);
    json_decref(set->dataset.tags);
    json_decref(set->file.profile);
    json_decref(set->columns);
    arena_finish(&set->arena);
    file_sets_unref(set->all);
    free(set);
}

static json_t *column_names(const json_t *profile)
{
    json_t *names = json_array(), *column;
    size_t i;
    json_array_foreach(json_object_get(profile, "columns"), i, column)
        json_array_append(names, json_object_get(column, "name"));
    return names;
}

int file_set_profile(struct file_set *set, json_t *profile, struct err *err)
{
    int r = table_profile_check(profile, err);
    if (r < 0)
        return r;
    json_t *names = column_names(profile);
    if (!names)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (json_array_size(names) < json_array_size(set->columns) &&
        dataset_profile_is_partial(set->file.profile)) {
        json_decref(names); /* a profile leaves out columns of a wide table, its ingest does not */
        names = json_incref(set->columns);
    }
    json_incref(profile);
    json_decref(set->file.profile);
    set->file.profile = profile;
    json_decref(set->columns);
    set->columns = names;
    int64_t rows = json_integer_value(json_object_get(profile, "row_count"));
    if (set->file.row_count != rows) {
        set->file.row_count = rows;
        (void)file_set_describe(set);
    }
    return 0;
}

/* ---- watching ---- */

void file_watch(struct file_set *set, struct file_watcher *w)
{
    w->next = set->watchers;
    w->prev = &set->watchers;
    if (w->next)
        w->next->prev = &w->next;
    set->watchers = w;
}

void file_unwatch(struct file_watcher *w)
{
    if (!w->prev)
        return;
    *w->prev = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->prev = NULL;
}

void file_set_notify(struct file_set *set)
{
    file_set_ref(set); /* the last watcher may let go of it */
    for (struct file_watcher *w = set->watchers, *next; w; w = next) {
        next = w->next;
        w->changed(set, w->arg);
    }
    file_set_unref(set);
}

/* ---- JSON ---- */

static void add_options(const struct file_set *set, json_t *j)
{
    const char *text = set->file.options;
    json_t *options = NULL;
    if (text && json_parse(text, strlen(text), &options, NULL) == 0)
        json_object_set_new(j, "options", options);
}

static void add_note(const struct file_set *set, json_t *j)
{
    if (set->status == FILE_READY && set->note)
        json_object_set_new(j, "note", json_text(set->note, strlen(set->note)));
}

json_t *file_set_item(const struct file_set *set)
{
    bool failed = set->status == FILE_FAILED, has_table = !failed && !set->raw;
    json_t *tables = has_table ? dataset_tables_json(&set->dataset) : json_array(),
           *first = json_array_get(tables, 0);
    if (first && (set->columns || !set->thread_id) && !json_object_get(first, "columns"))
        json_object_set_new(first, "columns",
                            json_integer((json_int_t)json_array_size(set->columns)));
    json_t *j = json_pack("{s:s, s:o, s:s, s:s*, s:s, s:I, s:s, s:s*, s:s*, s:o}", "id",
                          set->dataset.id, "name", json_text(set->filename, strlen(set->filename)),
                          "kind", set->thread_id ? "thread" : "upload", "thread_id", set->thread_id,
                          "status", file_status_name(set->status), "size_bytes",
                          (json_int_t)set->file.size_bytes, "created_at", set->created_at,
                          "expires_at", *set->expires_at ? set->expires_at : NULL, "error",
                          failed ? set->error.message : NULL, "tables", tables);
    add_note(set, j);
    add_options(set, j);
    return j;
}

/* Those behind the first: [{table, rows, columns, report}]. */
static json_t *other_tables(const struct file_set *set)
{
    json_t *list = json_array();
    struct dataset_table t = { 0 };
    while (dataset_next_table(&set->dataset, &t)) {
        json_t *columns = t.part ? column_names(t.file.profile) : NULL;
        if (columns)
            json_array_append_new(list,
                                  json_pack("{s:s, s:I, s:o, s:O*}", "table", t.file.table, "rows",
                                            (json_int_t)t.file.row_count, "columns", columns,
                                            "report", json_object_get(t.file.profile, "report")));
    }
    return list;
}

void file_set_report(const struct file_set *set, json_t *answer)
{
    json_t *report = json_object_get(set->file.profile, "report");
    if (!set->raw)
        json_object_set_new(
            answer, "profiled",
            json_boolean(set->file.profile && !dataset_profile_is_partial(set->file.profile)));
    if (report)
        json_object_set(answer, "report", report);
    if (report && json_object_get(set->file.profile, "tables"))
        json_object_set_new(answer, "tables", other_tables(set));
}

json_t *file_set_json(const struct file_set *set)
{
    bool failed = set->status == FILE_FAILED;
    json_t *j = json_pack(
        "{s:s, s:o, s:I, s:s?, s:s, s:f, s:o, s:O?, s:o, s:s, s:s?}", "file_id", set->dataset.id,
        "filename", json_text(set->filename, strlen(set->filename)), "size_bytes",
        (json_int_t)set->file.size_bytes, "table", set->raw ? NULL : set->file.table, "status",
        file_status_name(set->status), "progress", set->progress, "rows",
        set->file.row_count < 0 || failed ? json_null() : json_integer(set->file.row_count),
        "columns", failed ? NULL : set->columns, "error",
        failed ? json_text(set->error.message, strlen(set->error.message)) : json_null(),
        "created_at", set->created_at, "expires_at", *set->expires_at ? set->expires_at : NULL);
    if (!failed)
        file_set_report(set, j);
    add_note(set, j);
    add_options(set, j);
    return j;
}
