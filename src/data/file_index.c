/*
 * The index of all files: found by id and owner, recorded in the store, deleted, swept, read back
 * at start.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"
#include "data/receive.h"
#include "data/told.h"

#define SWEEP_MS (3600 * 1000)
#define COLUMNS_TEXT_MAX (1000u << 10) /* the store keeps a little more */

struct file_sets *file_sets_ref(struct file_sets *all)
{
    all->refs++;
    return all;
}

void file_sets_unref(struct file_sets *all)
{
    if (--all->refs > 0)
        return;
    while (all->uses) {
        struct file_use *u = all->uses;
        all->uses = u->next;
        free(u);
    }
    if (all->threads_fd >= 0)
        close(all->threads_fd);
    free(all->cleared);
    free(all);
}

/* ---- the list ---- */

static struct file_set **bucket_of(struct file_sets *all, const char *id)
{
    uint32_t h = 2166136261u;
    for (const char *p = id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return &all->buckets[h % FILE_BUCKETS];
}

void file_set_list(struct file_set *set)
{
    struct file_sets *all = set->all;
    struct file_set **bucket = bucket_of(all, set->dataset.id);
    set->listed = true;
    set->hash_next = *bucket;
    *bucket = set;
    set->next = all->newest;
    set->prev = &all->newest;
    if (set->next)
        set->next->prev = &set->next;
    all->newest = file_set_ref(set);
}

static void unlist(struct file_set *set)
{
    struct file_set **at = bucket_of(set->all, set->dataset.id);
    while (*at != set)
        at = &(*at)->hash_next;
    *at = set->hash_next;
    *set->prev = set->next;
    if (set->next)
        set->next->prev = set->prev;
    set->listed = false;
    told_forget(set->all->room, set->owner, set->dataset.id);
    file_set_unref(set);
}

static bool is_expired(const struct file_set *set)
{
    char now[CLOCK_ISO_SIZE];
    clock_iso8601(clock_wall_ms(), now);
    return *set->expires_at &&
           strcmp(set->expires_at, now) <= 0; /* both are in the same form: text sorts by time */
}

bool file_set_visible(const struct file_set *set, const char *owner)
{
    return !set->deleting && str_eq(set->owner, owner) && !is_expired(set) &&
           !file_is_output(set->file.name);
}

struct file_set *file_set_find(struct file_sets *all, const char *owner, const char *id)
{
    for (struct file_set *set = *bucket_of(all, id); set; set = set->hash_next)
        if (str_eq(set->dataset.id, id))
            return file_set_visible(set, owner) ? file_set_ref(set) : NULL;
    return NULL;
}

/* ---- records ---- */

int file_set_store(struct file_set *set, enum file_status status, const struct err *error,
                   enum store_mode mode, store_done_fn done, void *arg, struct err *err)
{
    auto_free char *columns = set->columns ? json_to_str(set->columns) : NULL;
    char used[CLOCK_ISO_SIZE];
    clock_iso8601(clock_wall_ms(), used);
    struct upload u = {
        .file_id = set->dataset.id,
        .owner = set->owner,
        .filename = set->filename,
        .size_bytes = set->file.size_bytes,
        .sha256 = set->file.sha256,
        .path = status == FILE_FAILED ? NULL : set->file.full_path,
        .rows = set->raw ? -1 : set->file.row_count,
        .options_json = set->file.options,
        .columns_json = columns && strlen(columns) <= COLUMNS_TEXT_MAX ? columns : NULL,
        .status = file_status_name(status),
        .error = error ? error->message : set->note,
        .created_at = set->created_at,
        .expires_at = *set->expires_at ? set->expires_at : NULL,
        .thread_id = set->thread_id,
        .table_name = set->thread_id ? set->raw ? "" : set->file.table : NULL,
        .used_at = set->thread_id ? used : NULL,
    };
    return store_put_upload(set->all->room->env.store, &u, mode, done, arg, err);
}

void file_set_settle(struct file_set *set, const struct err *error)
{
    struct data_room *room = set->all->room;
    if (error) {
        set->status = FILE_FAILED;
        set->error = *error;
        if (set->thread)
            data_thread_leave(set);
        file_set_uncount(set);
        file_set_remove_files(set);
    } else {
        set->status = FILE_READY;
        set->progress = 1;
        if (!set->raw)
            file_set_count(set);
        if (room && set->thread_id)
            data_thread_join(set);
        else if (room && room->user && !set->raw)
            room->user->ready(room->user_arg, set->owner, set->dataset.id, true);
    }
    file_set_notify(set);
}

/*
 * ---- deleting ----
 *
 * The directory is marked first, then the record goes, then the directory. So whatever is left when
 * the server is killed in between is known for what it is, and a directory whose record is missing
 * for another reason (a store that was put back from a backup) is not taken for it.
 */

struct removal {
    char dir[PATH_MAX];
    int levels; /* of directories above that go with it, if they are empty */
    void (*done)(void *arg);
    void *arg;
};

static void remove_work(void *arg)
{
    struct removal *rm = arg;
    (void)fd_remove_tree(rm->dir, NULL); /* what is left is removed at the next start */
    for (int up = 0; up < rm->levels; up++) {
        *strrchr(rm->dir, '/') = '\0';
        if (rmdir(rm->dir) < 0)
            break;
    }
}

static void remove_done(void *arg)
{
    struct removal *rm = arg;
    if (rm->done)
        rm->done(rm->arg);
    free(rm);
}

/*
 * Removes the file's directory in the worker pool; done (may be NULL) comes later, or now if there
 * is no memory for that.
 */
static void remove_files(struct file_set *set, void (*done)(void *arg), void *arg)
{
    struct removal *rm = calloc(1, sizeof(*rm));
    set->remove_files = false;
    if (rm) {
        snprintf(rm->dir, sizeof(rm->dir), "%s", set->dir);
        rm->levels = set->thread_id ? 2 : 1;
        rm->done = done;
        rm->arg = arg;
        if (loop_work(set->all->loop, remove_work, remove_done, rm, NULL) == 0)
            return;
        free(rm);
    }
    (void)fd_remove_tree(set->dir, NULL);
    if (done)
        done(arg);
}

void file_set_remove_files(struct file_set *set)
{
    remove_files(set, NULL, NULL);
}

struct deletion {
    struct file_set *set;
    data_done_fn done;
    void *arg;
    struct err err;
};

static void mark_path(const char *dir, char ret[PATH_MAX + 16])
{
    snprintf(ret, PATH_MAX + 16, "%s/" FILE_DELETED, dir);
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
    file_set_unref(del->set);
    free(del);
}

static void deletion_failed(struct deletion *del, const struct err *err)
{
    struct file_set *set = del->set;
    log_error("upload.delete", LOG_STR("file_id", set->dataset.id), LOG_STR("error", err->message));
    set->deleting = false;
    unmark(set->dir);
    if (set->all->room && set->status == FILE_PROCESSING && !set->job)
        (void)file_ingest(set, NULL); /* its outcome was dropped because it was going */
    else if (set->all->room && set->status == FILE_READY && set->thread_id)
        data_thread_join(set);
    if (del->done)
        del->done(err, del->arg);
    file_set_unref(set);
    free(del);
}

static void on_removed(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct deletion *del = arg;
    struct file_set *set = del->set;
    struct data_room *room = set->all->room;
    if (err && err->code != ERR_NOT_FOUND) {
        deletion_failed(del, err);
        return;
    }
    set->remove_files = true;
    if (room) {
        file_ingest_cancel(set);
        file_set_uncount(set);
        file_set_notify(set);
        if (set->listed)
            unlist(set);
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
    struct file_set *set = del->set;
    struct data_room *room = set->all->room;
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

int file_set_delete(struct file_set *set, data_done_fn done, void *arg, struct err *err)
{
    struct deletion *del = calloc(1, sizeof(*del));
    if (!del)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *del = (struct deletion){ .set = file_set_ref(set), .done = done, .arg = arg, .err = ERR_INIT };
    set->deleting = true;
    int r = loop_work(set->all->loop, mark_work, mark_done, del, err);
    if (r < 0) {
        set->deleting = false;
        file_set_unref(set);
        free(del);
        return r;
    }
    if (set->thread)
        data_thread_leave(set);
    struct err gone = ERR_INIT;
    err_set(&gone, ERR_NOT_FOUND, "the file was deleted");
    if (set->all->room)
        data_profile_stop(set->all->room, set, &gone);
    return 0;
}

static void sweep(void *arg)
{
    struct file_sets *all = arg;
    struct err err = ERR_INIT;
    all->sweep = NULL;
    for (struct file_set *set = all->newest; set; set = set->next) {
        if (set->deleting || !is_expired(set))
            continue;
        log_info("upload.expired", LOG_STR("file_id", set->dataset.id),
                 LOG_STR("owner", set->owner));
        if (file_set_delete(set, NULL, NULL, &err) < 0)
            break; /* the next sweep */
    }
    data_threads_sweep(all);
    int64_t every = MIN_OF((int64_t)SWEEP_MS, data_threads_sweep_ms(all));
    if (loop_after(all->loop, (uint64_t)every, sweep, all, &all->sweep, &err) < 0)
        log_error("upload.sweep", LOG_STR("error", err.message));
}

/* ---- start ---- */

static bool has_file(const struct file_set *set)
{
    char part[PATH_MAX + 16];
    struct stat st;
    file_set_part(set, part);
    if (lstat(set->file.full_path, &st) < 0 &&
        (set->status != FILE_PROCESSING || lstat(part, &st) < 0))
        return false;
    return S_ISREG(st.st_mode) && st.st_size == set->file.size_bytes;
}

int file_put_off(struct file_sets *all, const char *id, const char *owner, const struct err *err)
{
    all->has_put_off = true;
    log_warn("upload.put_off", LOG_STR("file_id", id), LOG_STR("owner", owner),
             LOG_STR("error", err->message));
    return 0;
}

/* What could not be done before the last server ended. */
static int forget_one(struct file_sets *all, const struct upload *u, const char *dir, bool expired,
                      struct err *err)
{
    struct err ignored = ERR_INIT;
    (void)mark_deleted(dir, &ignored);
    int r = store_remove_wait(all->room->env.store, RECORD_UPLOAD, u->owner, u->file_id, err);
    if (r == 0)
        r = fd_remove_tree(dir, err);
    if (r < 0)
        return file_put_off(all, u->file_id, u->owner, err);
    log_info(expired ? "upload.expired" : "upload.deleted", LOG_STR("file_id", u->file_id),
             LOG_STR("owner", u->owner));
    return 0;
}

static void note_lost(struct file_set *set, const struct upload *u, struct err *err)
{
    struct upload lost = *u;
    err_set(&set->error, ERR_IO, "The file is no longer there; upload it again");
    set->status = FILE_FAILED;
    file_set_uncount(set);
    lost.status = file_status_name(FILE_FAILED);
    lost.error = set->error.message;
    lost.path = NULL;
    log_warn("upload.lost", LOG_STR("file_id", u->file_id), LOG_STR("owner", u->owner));
    if (store_put_wait(set->all->room->env.store, RECORD_UPLOAD, &lost, STORE_PUT, NULL, err) < 0)
        (void)file_put_off(set->all, u->file_id, u->owner, err);
}

static int load_one(struct file_sets *all, const struct upload *u, const char *now, struct err *err)
{
    char mark[PATH_MAX + 16];
    struct file_facts facts = { .owner = u->owner,
                                .id = u->file_id,
                                .filename = u->filename,
                                .sha256 = u->sha256 ? u->sha256 : "",
                                .created_at = u->created_at,
                                .expires_at = u->expires_at,
                                .options = u->options_json,
                                .thread_id = u->thread_id,
                                .table = u->table_name && *u->table_name ? u->table_name : NULL,
                                .size_bytes = u->size_bytes };
    struct file_set *set = file_set_create(all, &facts);
    if (!set)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    bool expired = u->expires_at && strcmp(u->expires_at, now) <= 0;
    mark_path(set->dir, mark);
    if (expired || access(mark, F_OK) == 0) {
        int r = forget_one(all, u, set->dir, expired, err);
        file_set_unref(set);
        return r;
    }
    int r = 0;
    const char *on_disk = u->path && !u->thread_id ? strrchr(u->path, '/') : NULL;
    if (on_disk && !str_eq(on_disk + 1, set->file.name)) { /* it was renamed */
        char *full_path = arena_printf(&set->arena, "%s%s", set->dir, on_disk);
        set->file.full_path = full_path ? full_path : set->file.full_path;
    }
    if (u->columns_json)
        (void)json_parse(u->columns_json, strlen(u->columns_json), &set->columns, NULL);
    set->file.row_count = u->rows;
    (void)file_set_describe(set);
    set->status = str_eq(u->status, "ready")  ? FILE_READY :
                  str_eq(u->status, "failed") ? FILE_FAILED :
                                                FILE_PROCESSING;
    set->progress = set->status == FILE_READY ? 1 : 0;
    if (set->status == FILE_FAILED) {
        err_set(&set->error, ERR_VALIDATION, "%s", u->error ? u->error : "The upload failed");
        file_set_uncount(set);
        (void)fd_remove_tree(set->dir, NULL);
    } else if (!has_file(set) && u->thread_id) {
        r = forget_one(all, u, set->dir, false, err);
        file_set_unref(set);
        return r;
    } else if (!has_file(set)) {
        note_lost(set, u, err);
    }
    bool ready = set->status == FILE_READY;
    set->raw = ready && (u->thread_id ? !facts.table : u->rows < 0);
    if (ready && u->error)
        set->note = arena_strdup(&set->arena, u->error);
    if (ready && !set->raw)
        file_set_count(set);
    file_set_list(set);
    if (ready && u->thread_id)
        data_thread_load(set, u->used_at);
    if (r == 0 && set->status == FILE_PROCESSING)
        r = file_ingest(set, err); /* a server that died had not got through with it */
    file_set_unref(set);
    return r;
}

/*
 * Newest come first from the store and are listed first: the list is the other way round
 * afterwards.
 */
static void reverse_list(struct file_sets *all)
{
    struct file_set *set = all->newest;
    all->newest = NULL;
    while (set) {
        struct file_set *next = set->next;
        set->next = all->newest;
        set->prev = &all->newest;
        if (set->next)
            set->next->prev = &set->next;
        all->newest = set;
        set = next;
    }
}

static int load_all(struct file_sets *all, struct err *err)
{
    struct store_query query = { .owner = store_any_owner, .limit = STORE_LIMIT_MAX };
    char cursor[STORE_CURSOR_SIZE], now[CLOCK_ISO_SIZE];
    int r = 0;
    clock_iso8601(clock_wall_ms(), now);
    do {
        struct store_page page;
        r = store_list_wait(all->room->env.store, RECORD_UPLOAD, &query, &page, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < page.n && r == 0; i++)
            r = load_one(all, &page.uploads[i], now, err);
        snprintf(cursor, sizeof(cursor), "%s", page.next);
        query.cursor = cursor;
        store_page_finish(&page);
    } while (r == 0 && *cursor);
    reverse_list(all);
    return r;
}

static bool is_known(struct file_sets *all, const char *id)
{
    for (struct file_set *set = *bucket_of(all, id); set; set = set->hash_next)
        if (str_eq(set->dataset.id, id))
            return true;
    return false;
}

/*
 * What a killed server left: directories without a record that hold a `.part`, the mark of a
 * deletion, or nothing. Others are not touched. depth: of directories above those of files.
 */
static void remove_leftovers(struct file_sets *all, const char *dir, int depth)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char path[PATH_MAX], mark[PATH_MAX + 16];
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= sizeof(path))
            continue;
        if (depth > 0) {
            remove_leftovers(all, path, depth - 1);
            (void)rmdir(path);
            continue;
        }
        if (is_known(all, e->d_name))
            continue;
        snprintf(mark, sizeof(mark), "%s/" FILE_PART, path);
        bool known = access(mark, F_OK) == 0;
        mark_path(path, mark);
        if (known || access(mark, F_OK) == 0 || rmdir(path) == 0) {
            (void)fd_remove_tree(path, NULL);
            log_info("upload.leftover", LOG_STR("file_id", e->d_name));
        }
    }
    if (d)
        closedir(d);
}

/* What was on its way to a thread; what has a record has its file there still. */
static void remove_arrivals(struct file_sets *all)
{
    char path[PATH_MAX], at[PATH_MAX + 300];
    snprintf(path, sizeof(path), "%.4000s/.uploading", all->threads_root);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(at, sizeof(at), "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && !is_known(all, e->d_name))
            (void)fd_remove_tree(at, NULL);
    }
    if (d)
        closedir(d);
}

static int make_roots(struct file_sets *all, struct err *err)
{
    char path[PATH_MAX];
    const char *home = all->room->env.home;
    snprintf(all->uploads_root, sizeof(all->uploads_root), "%.4000s/uploads", home);
    snprintf(all->threads_root, sizeof(all->threads_root), "%.3700s/sessions", home);
    snprintf(path, sizeof(path), "%.3800s/.uploading", all->threads_root);
    int r = fd_mkdir_p(all->uploads_root, 0700, err);
    if (r == 0)
        r = fd_mkdir_p(path, 0700, err);
    all->threads_fd = r < 0 ? -1 : open(all->threads_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && all->threads_fd < 0)
        r = err_errno(err, ERR_IO, errno, "opening '%s'", all->threads_root);
    return r;
}

int file_sets_open(struct data_room *room, struct err *err)
{
    struct file_sets *all = calloc(1, sizeof(*all));
    if (!all)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    all->refs = 1;
    all->threads_fd = -1;
    all->room = room;
    all->loop = room->env.loop;
    room->files = all;
    int r = make_roots(all, err);
    if (r == 0)
        r = data_threads_adopt(all, err);
    if (r == 0)
        r = load_all(all, err);
    if (r == 0 && !all->has_put_off) { /* marks of deleted files stay with their records */
        remove_leftovers(all, all->uploads_root, 1);
        remove_leftovers(all, all->threads_root, 2);
        remove_arrivals(all);
    }
    if (r == 0)
        sweep(all);
    return r < 0 ? err_wrap(err, "reading the files") : 0;
}

void file_sets_close(struct data_room *room)
{
    struct file_sets *all = room->files;
    if (!all)
        return;
    loop_cancel(all->sweep);
    file_ingest_close(all);
    room->files = NULL;
    all->room = NULL;
    while (all->newest) {
        file_set_notify(all->newest);
        unlist(all->newest);
    }
    receivers_close(all);
    data_threads_close(all);
    file_sets_unref(all);
}
