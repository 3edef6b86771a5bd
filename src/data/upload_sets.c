/*
 * Uploads that are known: found by id and owner, shown as datasets, counted for the quota, deleted,
 * swept, read back at start.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "data/told.h"
#include "data/uploads_impl.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/table_names.h"

#define SWEEP_MS (3600 * 1000)
#define SET_ARENA_BYTES (64u << 10)
#define COLUMNS_TEXT_MAX (1000u << 10) /* the store keeps a little more */

static const char *const status_names[_UPLOAD_STATUS_MAX] = { "processing", "ready", "failed" };

const char *upload_status_name(enum upload_status s)
{
    return status_names[s];
}

struct uploads *uploads_ref(struct uploads *up)
{
    up->refs++;
    return up;
}

void uploads_unref(struct uploads *up)
{
    if (--up->refs > 0)
        return;
    while (up->uses) {
        struct upload_use *u = up->uses;
        up->uses = u->next;
        free(u);
    }
    free(up);
}

/* ---- names and counts ---- */

struct upload_use *uploads_use(struct uploads *up, const char *owner)
{
    for (struct upload_use *u = up->uses; u; u = u->next)
        if (str_eq(u->owner, owner))
            return u;
    struct upload_use *u = calloc(1, sizeof(*u));
    if (!u)
        return NULL;
    snprintf(u->owner, sizeof(u->owner), "%s", owner);
    u->next = up->uses;
    up->uses = u;
    return u;
}

void upload_dir(const struct uploads *up, const char *owner, const char *file_id, char *ret,
                size_t n)
{
    char safe[128];
    dataset_safe_name(owner, "owner", false, safe,
                      sizeof(safe)); /* two owners may share it: ids do not repeat */
    snprintf(ret, n, "%.3900s/%s/%.32s", up->root, safe, file_id);
}

void upload_file_name(const char *filename, char ret[UPLOAD_NAME_SIZE])
{
    snprintf(ret, UPLOAD_NAME_SIZE, "%s", filename);
    for (char *p = ret; *p; p++)
        if (*p == '/')
            *p = '_';
    if (*ret == '.')
        *ret = '_';
}

/* ---- one upload as a dataset ---- */

static json_t *generic_prompts(void)
{
    return json_pack("[s, s, s]", "How many rows are there?", "Show the first 10 rows",
                     "What are the most frequent values of each column?");
}

bool upload_set_describe(struct upload_set *set)
{
    char *text = set->file.row_count < 0 ?
                     arena_strdup(&set->arena, "Uploaded file") :
                     arena_printf(&set->arena, "Uploaded file, %lld row%s, %zu column%s",
                                  (long long)set->file.row_count,
                                  set->file.row_count == 1 ? "" : "s",
                                  json_array_size(set->columns),
                                  json_array_size(set->columns) == 1 ? "" : "s");
    if (text)
        set->dataset.description = text;
    return text != NULL;
}

void upload_table_name(const char *name, char ret[DATASET_TABLE_MAX])
{
    char stem[UPLOAD_NAME_SIZE];
    str_stem(name, stem, sizeof(stem));
    dataset_safe_name(stem, "data", true, ret, DATASET_TABLE_MAX);
}

struct upload_set *upload_set_create(struct uploads *up, const struct upload_facts *facts)
{
    struct upload_use *use = uploads_use(up, facts->owner);
    struct upload_set *set = use ? calloc(1, sizeof(*set)) : NULL;
    if (!set)
        return NULL;
    char name[UPLOAD_NAME_SIZE], table[DATASET_TABLE_MAX], dir[PATH_MAX];
    arena_init(&set->arena, SET_ARENA_BYTES);
    upload_file_name(facts->filename, name);
    upload_table_name(name, table);
    upload_dir(up, facts->owner, facts->file_id, dir, sizeof(dir));
    set->refs = 1;
    set->uploads = uploads_ref(up);
    set->use = use;
    set->counted_bytes = facts->size_bytes;
    use->bytes += facts->size_bytes;
    use->n++;
    set->owner = arena_strdup(&set->arena, facts->owner);
    set->filename = arena_strdup(&set->arena, facts->filename);
    set->dir = arena_strdup(&set->arena, dir);
    set->error = (struct err)ERR_INIT;
    snprintf(set->created_at, sizeof(set->created_at), "%s", facts->created_at);
    snprintf(set->expires_at, sizeof(set->expires_at), "%s",
             facts->expires_at ? facts->expires_at : "");
    struct dataset_file *f = &set->file;
    f->name = f->path = arena_strdup(&set->arena, name);
    f->table = arena_strdup(&set->arena, table);
    f->full_path = arena_printf(&set->arena, "%s/%s", dir, name);
    f->description = "";
    f->options = facts->options ? arena_strdup(&set->arena, facts->options) : NULL;
    f->row_count = -1;
    f->size_bytes = facts->size_bytes;
    snprintf(f->sha256, sizeof(f->sha256), "%s", facts->sha256);
    struct dataset *d = &set->dataset;
    d->id = arena_strdup(&set->arena, facts->file_id);
    d->name = set->filename;
    d->domain = "";
    snprintf(d->version_hash, sizeof(d->version_hash), "sha256:%s", f->sha256);
    d->size_bytes = facts->size_bytes;
    d->files = f;
    d->n_files = 1;
    d->prompts = generic_prompts();
    d->tags = json_array();
    if (!set->owner || !set->filename || !set->dir || !f->name || !f->table || !f->full_path ||
        (facts->options && !f->options) || !d->id || !d->prompts || !d->tags ||
        !upload_set_describe(set)) {
        upload_set_unref(set);
        return NULL;
    }
    return set;
}

struct upload_set *upload_set_ref(struct upload_set *set)
{
    if (set)
        set->refs++;
    return set;
}

/* What its table takes counts, too. */
void upload_set_count(struct upload_set *set)
{
    int64_t bytes = set->file.size_bytes + table_beside_bytes(set->file.full_path);
    set->use->bytes += bytes - set->counted_bytes;
    set->counted_bytes = bytes;
}

/* What a failed or deleted upload no longer takes. */
static void uncount(struct upload_set *set)
{
    set->use->bytes -= set->counted_bytes;
    set->counted_bytes = 0;
}

struct removal {
    char dir[PATH_MAX];
    void (*done)(void *arg);
    void *arg;
};

static void remove_work(void *arg)
{
    struct removal *rm = arg;
    char *slash = strrchr(rm->dir, '/');
    (void)fd_remove_tree(rm->dir,
                         NULL); /* what is left without a record is removed at the next start */
    *slash = '\0';
    (void)rmdir(rm->dir); /* the owner's, if this was the last one */
}

static void remove_done(void *arg)
{
    struct removal *rm = arg;
    if (rm->done)
        rm->done(rm->arg);
    free(rm);
}

/*
 * Removes the upload's directory in the worker pool; done (may be NULL) comes later, or now if
 * there is no memory for that.
 */
static void remove_files(struct upload_set *set, void (*done)(void *arg), void *arg)
{
    struct removal *rm = calloc(1, sizeof(*rm));
    set->remove_files = false;
    if (rm) {
        snprintf(rm->dir, sizeof(rm->dir), "%s", set->dir);
        rm->done = done;
        rm->arg = arg;
        if (loop_work(set->uploads->loop, remove_work, remove_done, rm, NULL) == 0)
            return;
        free(rm);
    }
    (void)fd_remove_tree(set->dir, NULL);
    if (done)
        done(arg);
}

void upload_set_unref(struct upload_set *set)
{
    if (!set || --set->refs > 0)
        return;
    if (set->remove_files && set->dir)
        remove_files(set, NULL, NULL);
    uncount(set);
    set->use->n--;
    json_decref(set->dataset.prompts);
    json_decref(set->dataset.tags);
    json_decref(set->file.profile);
    json_decref(set->columns);
    arena_finish(&set->arena);
    uploads_unref(set->uploads);
    free(set);
}

bool upload_set_is_raw(const struct upload_set *set)
{
    return set->raw;
}

const struct dataset *upload_set_dataset(const struct upload_set *set)
{
    return &set->dataset;
}

static json_t *column_names(const json_t *profile)
{
    json_t *names = json_array(), *column;
    size_t i;
    json_array_foreach(json_object_get(profile, "columns"), i, column)
        json_array_append(names, json_object_get(column, "name"));
    return names;
}

int upload_set_profile(struct upload_set *set, json_t *profile, struct err *err)
{
    int r = dataset_check_profile(profile, err);
    if (r < 0)
        return r;
    json_t *names = column_names(profile);
    if (!names)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    json_incref(profile);
    json_decref(set->file.profile);
    set->file.profile = profile;
    json_decref(set->columns);
    set->columns = names;
    int64_t rows = json_integer_value(json_object_get(profile, "row_count"));
    if (set->file.row_count != rows) {
        set->file.row_count = rows;
        (void)upload_set_describe(set);
    }
    return 0;
}

/* ---- the list ---- */

static struct upload_set **bucket_of(struct uploads *up, const char *file_id)
{
    uint32_t h = 2166136261u;
    for (const char *p = file_id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return &up->buckets[h % UPLOAD_BUCKETS];
}

void upload_set_list(struct upload_set *set)
{
    struct uploads *up = set->uploads;
    struct upload_set **bucket = bucket_of(up, set->dataset.id);
    set->listed = true;
    set->hash_next = *bucket;
    *bucket = set;
    set->next = up->newest;
    set->prev = &up->newest;
    if (set->next)
        set->next->prev = &set->next;
    up->newest = upload_set_ref(set);
}

static void unlist(struct upload_set *set)
{
    struct upload_set **at = bucket_of(set->uploads, set->dataset.id);
    while (*at != set)
        at = &(*at)->hash_next;
    *at = set->hash_next;
    *set->prev = set->next;
    if (set->next)
        set->next->prev = set->prev;
    set->listed = false;
    told_forget(set->uploads->room, set->owner, set->dataset.id);
    upload_set_unref(set);
}

static bool is_expired(const struct upload_set *set)
{
    char now[CLOCK_ISO_SIZE];
    clock_iso8601(clock_wall_ms(), now);
    return *set->expires_at &&
           strcmp(set->expires_at, now) <= 0; /* both are in the same form: text sorts by time */
}

bool upload_set_visible(const struct upload_set *set, const char *owner)
{
    return !set->deleting && str_eq(set->owner, owner) && !is_expired(set);
}

struct upload_set *uploads_lookup(struct uploads *up, const char *owner, const char *file_id)
{
    for (struct upload_set *set = *bucket_of(up, file_id); set; set = set->hash_next)
        if (str_eq(set->dataset.id, file_id))
            return upload_set_visible(set, owner) ? upload_set_ref(set) : NULL;
    return NULL;
}

struct upload_set *uploads_find(struct data_room *room, const char *owner, const char *file_id)
{
    struct upload_set *set = uploads_lookup(room->uploads, owner, file_id);
    if (set && set->status != UPLOAD_READY) {
        upload_set_unref(set);
        return NULL;
    }
    return set;
}

void uploads_append_summaries(struct data_room *room, const char *owner, json_t *list)
{
    for (struct upload_set *set = room->uploads->newest; set; set = set->next)
        if (set->status == UPLOAD_READY && !set->raw && upload_set_visible(set, owner))
            json_array_append_new(list, told_summary(room, owner, &set->dataset));
}

static void add_options(const struct upload_set *set, json_t *j)
{
    const char *text = set->file.options;
    json_t *options = NULL;
    if (text && json_parse(text, strlen(text), &options, NULL) == 0)
        json_object_set_new(j, "options", options);
}

json_t *upload_item(const struct upload_set *set)
{
    bool failed = set->status == UPLOAD_FAILED, has_table = !failed && !set->raw;
    json_t *tables = has_table ? dataset_tables_json(&set->dataset) : json_array(),
           *first = json_array_get(tables, 0);
    if (first && !json_object_get(first, "columns"))
        json_object_set_new(first, "columns",
                            json_integer((json_int_t)json_array_size(set->columns)));
    json_t *j =
        json_pack("{s:s, s:o, s:s, s:s, s:I, s:s, s:s*, s:s*, s:o}", "id", set->dataset.id,
                     "name", json_text(set->filename, strlen(set->filename)), "kind", "upload",
                     "status", upload_status_name(set->status), "size_bytes",
                     (json_int_t)set->file.size_bytes, "created_at", set->created_at, "expires_at",
                     *set->expires_at ? set->expires_at : NULL, "error",
                     failed ? set->error.message : NULL, "tables", tables);
    add_options(set, j);
    return j;
}

bool upload_is_tabular(const char *name)
{
    static const char *const text[] = { ".csv", ".tsv", ".json", ".ndjson", ".jsonl" },
                             *const other[] = { ".parquet", ".xlsx", ".xlsm",   ".xls",     ".ods",   ".zip",
                                               ".db",      ".db3",    ".sqlite",  ".sqlite3", ".duckdb" };
    size_t n = strlen(name);
    size_t packed = n > 3 && str_ieq(name + n - 3, ".gz")  ? 3 :
                    n > 4 && str_ieq(name + n - 4, ".zst") ? 4 :
                                                             0;
    char plain[UPLOAD_NAME_SIZE];
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

/* ---- watching ---- */

void upload_watch(struct upload_set *set, struct upload_watcher *w)
{
    w->next = set->watchers;
    w->prev = &set->watchers;
    if (w->next)
        w->next->prev = &w->next;
    set->watchers = w;
}

void upload_unwatch(struct upload_watcher *w)
{
    if (!w->prev)
        return;
    *w->prev = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->prev = NULL;
}

void upload_set_notify(struct upload_set *set)
{
    upload_set_ref(set); /* the last watcher may let go of it */
    for (struct upload_watcher *w = set->watchers, *next; w; w = next) {
        next = w->next;
        w->changed(set, w->arg);
    }
    upload_set_unref(set);
}

/* ---- records ---- */

int upload_set_store(struct upload_set *set, enum upload_status status, const struct err *error,
                     enum store_mode mode, store_done_fn done, void *arg, struct err *err)
{
    auto_free char *columns = set->columns ? json_to_str(set->columns) : NULL;
    struct upload u = {
        .file_id = set->dataset.id,
        .owner = set->owner,
        .filename = set->filename,
        .size_bytes = set->file.size_bytes,
        .sha256 = set->file.sha256,
        .path = status == UPLOAD_FAILED ? NULL : set->file.full_path,
        .rows = set->file.row_count,
        .options_json = set->file.options,
        .columns_json = columns && strlen(columns) <= COLUMNS_TEXT_MAX ? columns : NULL,
        .status = upload_status_name(status),
        .error = error ? error->message : NULL,
        .created_at = set->created_at,
        .expires_at = *set->expires_at ? set->expires_at : NULL,
    };
    return store_put_upload(set->uploads->room->env.store, &u, mode, done, arg, err);
}

void upload_set_settle(struct upload_set *set, const struct err *error)
{
    if (error) {
        set->status = UPLOAD_FAILED;
        set->error = *error;
        uncount(set);
        remove_files(set, NULL, NULL);
    } else {
        set->status = UPLOAD_READY;
        set->progress = 1;
        if (!set->raw)
            upload_set_count(set);
        struct data_room *room = set->uploads->room;
        if (room && room->user && !set->raw)
            room->user->ready(room->user_arg, set->owner, set->dataset.id, true);
    }
    upload_set_notify(set);
}

/* Those behind the first: [{table, rows, columns, report}]. */
static json_t *other_tables(const struct upload_set *set)
{
    json_t *list = json_array();
    struct dataset_table t = { 0 };
    while (dataset_next_table(&set->dataset, &t)) {
        json_t *columns = t.part ? column_names(t.file.profile) : NULL;
        if (columns)
            json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:O*}", "table", t.file.table,
                                                  "rows", (json_int_t)t.file.row_count, "columns",
                                                  columns, "report",
                                                  json_object_get(t.file.profile, "report")));
    }
    return list;
}

void upload_set_report(const struct upload_set *set, json_t *answer)
{
    json_t *report = json_object_get(set->file.profile, "report");
    if (report)
        json_object_set(answer, "report", report);
    if (report && json_object_get(set->file.profile, "tables"))
        json_object_set_new(answer, "tables", other_tables(set));
}

json_t *upload_json(const struct upload_set *set)
{
    bool failed = set->status == UPLOAD_FAILED;
    json_t *j = json_pack(
        "{s:s, s:o, s:I, s:s?, s:s, s:f, s:o, s:O?, s:o, s:s, s:s?}", "file_id", set->dataset.id,
        "filename", json_text(set->filename, strlen(set->filename)), "size_bytes",
        (json_int_t)set->file.size_bytes, "table", set->raw ? NULL : set->file.table, "status",
        upload_status_name(set->status), "progress", set->progress, "rows",
        set->file.row_count < 0 || failed ? json_null() : json_integer(set->file.row_count),
        "columns", failed ? NULL : set->columns, "error",
        failed ? json_text(set->error.message, strlen(set->error.message)) : json_null(),
        "created_at", set->created_at, "expires_at", *set->expires_at ? set->expires_at : NULL);
    if (!failed)
        upload_set_report(set, j);
    add_options(set, j);
    return j;
}

/*
 * ---- deleting ----
 *
 * The directory is marked first, then the record goes, then the directory. So whatever is left when
 * the server is killed in between is known for what it is, and a directory whose record is missing
 * for another reason (a store that was put back from a backup) is not taken for it.
 */

struct deletion {
    struct upload_set *set;
    upload_done_fn done;
    void *arg;
    struct err err;
};

static void mark_path(const char *dir, char ret[PATH_MAX + 16])
{
    snprintf(ret, PATH_MAX + 16, "%s/" UPLOAD_DELETED, dir);
}

/* A failed upload may have no directory any more. */
static int mark_deleted(const char *dir, struct err *err)
{
    char path[PATH_MAX + 16];
    mark_path(dir, path);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT)
        return 0;
    auto_close int dir_fd = fd < 0 ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fsync(dir_fd) < 0)
        return err_errno(err, ERR_IO, errno, "deleting '%s'", dir);
    return 0;
}

static void unmark(const char *dir)
{
    char path[PATH_MAX + 16];
    mark_path(dir, path);
    (void)unlink(path);
}

static void deletion_end(void *arg)
{
    struct deletion *del = arg;
    if (del->done)
        del->done(NULL, del->arg);
    upload_set_unref(del->set);
    free(del);
}

static void on_removed(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct deletion *del = arg;
    struct upload_set *set = del->set;
    if (err && err->code != ERR_NOT_FOUND) {
        log_error("upload.delete", LOG_STR("file_id", set->dataset.id),
                  LOG_STR("error", err->message));
        set->deleting = false;
        unmark(set->dir);
        if (set->uploads->room && set->status == UPLOAD_PROCESSING && !set->job)
            (void)upload_ingest(set, NULL); /* its outcome was dropped because it was going */
        if (del->done)
            del->done(err, del->arg);
        upload_set_unref(set);
        free(del);
        return;
    }
    set->remove_files = true;
    if (set->uploads->room) {
        upload_ingest_cancel(set);
        uncount(set);
        upload_set_notify(set);
        if (set->listed)
            unlist(set);
        struct data_room *room = set->uploads->room;
        if (room->user)
            room->user->gone(room->user_arg, set->owner, set->dataset.id);
        executor_forget_idle(room->env.executor, set->owner);
    }
    /* Runs that began with it keep the file until they are through. */
    if (set->refs == 1)
        remove_files(set, deletion_end, del);
    else
        deletion_end(del);
}

static void mark_work(void *arg)
{
    struct deletion *del = arg;
    (void)mark_deleted(del->set->dir, &del->err);
}

static void mark_done(void *arg)
{
    struct deletion *del = arg;
    struct upload_set *set = del->set;
    struct data_room *room = set->uploads->room;
    struct err *err = &del->err;
    /* On a full disk nothing can be marked; the record and the files can go all the same. */
    *err = (struct err)ERR_INIT;
    if (!room)
        err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    else if (store_remove(room->env.store, RECORD_UPLOAD, set->owner, set->dataset.id, on_removed,
                          del, err) == 0)
        return;
    struct err why = *err;
    on_removed(&why, 0, del);
}

int upload_set_delete(struct upload_set *set, upload_done_fn done, void *arg, struct err *err)
{
    struct deletion *del = calloc(1, sizeof(*del));
    if (!del)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *del = (struct deletion){
        .set = upload_set_ref(set), .done = done, .arg = arg, .err = ERR_INIT
    };
    set->deleting = true;
    int r = loop_work(set->uploads->loop, mark_work, mark_done, del, err);
    if (r < 0) {
        set->deleting = false;
        upload_set_unref(set);
        free(del);
    }
    return r;
}

static void sweep(void *arg)
{
    struct uploads *up = arg;
    struct err err = ERR_INIT;
    up->sweep = NULL;
    for (struct upload_set *set = up->newest; set; set = set->next) {
        if (set->deleting || !is_expired(set))
            continue;
        log_info("upload.expired", LOG_STR("file_id", set->dataset.id),
                 LOG_STR("owner", set->owner));
        if (upload_set_delete(set, NULL, NULL, &err) < 0)
            break; /* the store is busy: the next sweep */
    }
    if (loop_after(up->loop, SWEEP_MS, sweep, up, &up->sweep, &err) < 0)
        log_error("upload.sweep", LOG_STR("error", err.message));
}

/* ---- start and end ---- */

static bool has_file(const struct upload_set *set)
{
    char part[PATH_MAX + 16];
    struct stat st;
    snprintf(part, sizeof(part), "%s/" UPLOAD_PART, set->dir);
    if (stat(set->file.full_path, &st) < 0 &&
        (set->status != UPLOAD_PROCESSING || stat(part, &st) < 0))
        return false;
    return S_ISREG(st.st_mode) && st.st_size == set->file.size_bytes;
}

/* A disk that is full, say, must not keep the server from starting: the next start does it. */
static int put_off(struct uploads *up, const struct upload *u, const struct err *err)
{
    up->has_put_off = true;
    log_warn("upload.put_off", LOG_STR("file_id", u->file_id), LOG_STR("owner", u->owner),
             LOG_STR("error", err->message));
    return 0;
}

static int load_one(struct uploads *up, const struct upload *u, const char *now, struct err *err)
{
    char dir[PATH_MAX], mark[PATH_MAX + 16];
    upload_dir(up, u->owner, u->file_id, dir, sizeof(dir));
    mark_path(dir, mark);
    bool expired = u->expires_at && strcmp(u->expires_at, now) <= 0;
    if (expired || access(mark, F_OK) == 0) {
        struct err ignored = ERR_INIT;
        (void)mark_deleted(dir, &ignored);
        int r = store_remove_wait(up->room->env.store, RECORD_UPLOAD, u->owner, u->file_id, err);
        if (r == 0)
            r = fd_remove_tree(dir, err);
        if (r < 0)
            return put_off(up, u, err);
        log_info(expired ? "upload.expired" : "upload.deleted", LOG_STR("file_id", u->file_id),
                 LOG_STR("owner", u->owner));
        return 0;
    }
    struct upload_facts facts = { .owner = u->owner,
                                  .file_id = u->file_id,
                                  .filename = u->filename,
                                  .sha256 = u->sha256 ? u->sha256 : "",
                                  .created_at = u->created_at,
                                  .expires_at = u->expires_at,
                                  .options = u->options_json,
                                  .size_bytes = u->size_bytes };
    struct upload_set *set = upload_set_create(up, &facts);
    if (!set)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int r = 0;
    const char *on_disk = u->path ? strrchr(u->path, '/') : NULL;
    if (on_disk && !str_eq(on_disk + 1, set->file.name)) { /* it was renamed */
        char *full_path = arena_printf(&set->arena, "%s%s", dir, on_disk);
        set->file.full_path = full_path ? full_path : set->file.full_path;
    }
    if (u->columns_json)
        (void)json_parse(u->columns_json, strlen(u->columns_json), &set->columns, NULL);
    set->file.row_count = u->rows;
    (void)upload_set_describe(set);
    set->status = str_eq(u->status, "ready")  ? UPLOAD_READY :
                  str_eq(u->status, "failed") ? UPLOAD_FAILED :
                                                UPLOAD_PROCESSING;
    set->progress = set->status == UPLOAD_READY ? 1 : 0;
    if (set->status == UPLOAD_FAILED) {
        err_set(&set->error, ERR_VALIDATION, "%s", u->error ? u->error : "The upload failed");
        uncount(set);
        (void)fd_remove_tree(dir, NULL);
    } else if (!has_file(set)) {
        struct upload lost = *u;
        err_set(&set->error, ERR_IO, "The file is no longer there; upload it again");
        set->status = UPLOAD_FAILED;
        uncount(set);
        lost.status = upload_status_name(UPLOAD_FAILED);
        lost.error = set->error.message;
        lost.path = NULL;
        log_warn("upload.lost", LOG_STR("file_id", u->file_id), LOG_STR("owner", u->owner));
        if (store_put_wait(up->room->env.store, RECORD_UPLOAD, &lost, STORE_PUT, NULL, err) < 0)
            r = put_off(up, u, err);
    }
    set->raw = set->status == UPLOAD_READY && u->rows < 0;
    if (set->status == UPLOAD_READY && !set->raw)
        upload_set_count(set);
    upload_set_list(set);
    if (r == 0 && set->status == UPLOAD_PROCESSING)
        r = upload_ingest(set, err); /* a server that died had not got through with it */
    upload_set_unref(set);
    return r;
}

/*
 * Newest come first from the store and are listed first: the list is the other way round
 * afterwards.
 */
static void reverse_list(struct uploads *up)
{
    struct upload_set *set = up->newest;
    up->newest = NULL;
    while (set) {
        struct upload_set *next = set->next;
        set->next = up->newest;
        set->prev = &up->newest;
        if (set->next)
            set->next->prev = &set->next;
        up->newest = set;
        set = next;
    }
}

static int load_all(struct uploads *up, struct err *err)
{
    struct store_query query = { .owner = store_any_owner, .limit = STORE_LIMIT_MAX };
    char cursor[STORE_CURSOR_SIZE], now[CLOCK_ISO_SIZE];
    int r = 0;
    clock_iso8601(clock_wall_ms(), now);
    do {
        struct store_page page;
        r = store_list_wait(up->room->env.store, RECORD_UPLOAD, &query, &page, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < page.n && r == 0; i++)
            r = load_one(up, &page.uploads[i], now, err);
        snprintf(cursor, sizeof(cursor), "%s", page.next);
        query.cursor = cursor;
        store_page_finish(&page);
    } while (r == 0 && *cursor);
    reverse_list(up);
    return r;
}

static bool is_known(struct uploads *up, const char *file_id)
{
    for (struct upload_set *set = *bucket_of(up, file_id); set; set = set->hash_next)
        if (str_eq(set->dataset.id, file_id))
            return true;
    return false;
}

/*
 * What a killed server left: directories without a record that hold a `.part`, the mark of a
 * deletion, or nothing. Others are not touched.
 */
static void remove_leftovers(struct uploads *up, const char *owner_dir)
{
    DIR *d = opendir(owner_dir);
    struct dirent *e;
    char path[PATH_MAX + 1024], mark[PATH_MAX + 1040];
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || is_known(up, e->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s/" UPLOAD_PART, owner_dir, e->d_name);
        bool known = access(path, F_OK) == 0;
        *strrchr(path, '/') = '\0';
        snprintf(mark, sizeof(mark), "%s/" UPLOAD_DELETED, path);
        if (known || access(mark, F_OK) == 0 || rmdir(path) == 0) {
            (void)fd_remove_tree(path, NULL);
            log_info("upload.leftover", LOG_STR("file_id", e->d_name));
        }
    }
    if (d)
        closedir(d);
    (void)rmdir(owner_dir);
}

static void remove_all_leftovers(struct uploads *up)
{
    DIR *d = opendir(up->root);
    struct dirent *e;
    char path[PATH_MAX + 512];
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", up->root, e->d_name);
        if (e->d_name[0] != '.')
            remove_leftovers(up, path);
    }
    if (d)
        closedir(d);
}

int uploads_open(struct data_room *room, struct err *err)
{
    struct uploads *up = calloc(1, sizeof(*up));
    if (!up)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    up->refs = 1;
    up->room = room;
    up->loop = room->env.loop;
    room->uploads = up;
    snprintf(up->root, sizeof(up->root), "%.4000s/uploads", room->env.home);
    int r = fd_mkdir_p(up->root, 0700, err);
    if (r == 0)
        r = load_all(up, err);
    if (r == 0) {
        if (!up->has_put_off) /* marks of deleted uploads stay with their records */
            remove_all_leftovers(up);
        r = loop_after(up->loop, SWEEP_MS, sweep, up, &up->sweep, err);
    }
    return r < 0 ? err_wrap(err, "reading the uploads") : 0;
}

void uploads_close(struct data_room *room)
{
    struct uploads *up = room->uploads;
    if (!up)
        return;
    loop_cancel(up->sweep);
    upload_ingest_close(up);
    room->uploads = NULL;
    up->room = NULL;
    while (up->newest) {
        upload_set_notify(up->newest);
        unlist(up->newest);
    }
    uploads_unref(up);
}
