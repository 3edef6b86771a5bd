/* Threads that have files: found by owner and id, counted, swept, cleared, forked. */

#include "data/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"

#define THREADS_PER_OWNER 10000
#define SWEEP_MIN_MS 500
#define SWEEP_MAX_MS (600 * 1000)
#define TOUCH_MAX_MS (60 * 1000)
#define CLEARED_MAX 1024

/* ---- finding ---- */

static struct data_thread **bucket_of(struct file_sets *all, const char *id)
{
    uint32_t h = 2166136261u;
    for (const char *p = id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return &all->threads[h % FILE_BUCKETS];
}

static struct data_thread *lookup(struct file_sets *all, const char *owner, const char *id)
{
    for (struct data_thread *t = *bucket_of(all, id); t; t = t->next)
        if (str_eq(t->id, id) && str_eq(t->owner, owner))
            return t;
    return NULL;
}

static struct data_thread *thread_create(struct file_sets *all, const char *owner, const char *id)
{
    struct data_thread *t = calloc(1, sizeof(*t));
    struct file_set **files = calloc(THREAD_FILES_ROOM, sizeof(struct file_set *));
    if (!t || !files) {
        free(t);
        free(files);
        return NULL;
    }
    t->all = file_sets_ref(all);
    t->files = files;
    snprintf(t->owner, sizeof(t->owner), "%s", owner);
    snprintf(t->id, sizeof(t->id), "%s", id);
    t->used_ms = t->touched_ms = clock_wall_ms();
    struct data_thread **bucket = bucket_of(all, id);
    t->next = *bucket;
    *bucket = t;
    return t;
}

static void thread_free(struct data_thread *t)
{
    struct data_thread **at = bucket_of(t->all, t->id);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    for (size_t i = 0; i < t->n_files; i++) {
        t->files[i]->thread = NULL;
        file_set_unref(t->files[i]);
    }
    file_sets_unref(t->all);
    free(t->files);
    free(t);
}

void data_thread_unpin(struct data_thread *t)
{
    if (--t->pins == 0 && (t->n_files == 0 || !t->all->room))
        thread_free(t);
}

static int64_t ttl_ms(const struct file_sets *all)
{
    return all->room->env.cfg->session_ttl_s * 1000;
}

static bool is_expired(const struct data_thread *t)
{
    int64_t ttl = ttl_ms(t->all);
    return ttl > 0 && t->pins == 0 && clock_wall_ms() - t->used_ms >= ttl;
}

/* The time of use is that of whichever of its records says the latest. */
static void touch(struct data_thread *t)
{
    int64_t ttl = ttl_ms(t->all);
    struct err err = ERR_INIT;
    t->used_ms = clock_wall_ms();
    size_t i = t->n_files;
    while (i > 0 && t->files[i - 1]->status != FILE_READY)
        i--;
    if (ttl == 0 || i == 0 || t->used_ms - t->touched_ms < MIN_OF(TOUCH_MAX_MS, ttl / 4))
        return;
    if (file_set_store(t->files[i - 1], FILE_READY, NULL, STORE_PUT, NULL, NULL, &err) < 0)
        log_warn("thread.touch", LOG_STR("thread", t->id), LOG_STR("error", err.message));
    else
        t->touched_ms = t->used_ms;
}

static void expire(struct data_thread *t)
{
    struct err err = ERR_INIT;
    log_info("session.expired", LOG_STR("session", t->id), LOG_STR("owner", t->owner),
             LOG_INT("files", (int64_t)t->n_files));
    if (data_thread_clear(t, NULL, NULL, &err) < 0)
        log_error("session.expired", LOG_STR("session", t->id), LOG_STR("error", err.message));
}

static struct data_thread *find(struct file_sets *all, const char *owner, const char *id)
{
    struct data_thread *t = lookup(all, owner, id);
    if (t && is_expired(t)) {
        expire(t);
        return NULL;
    }
    if (t)
        touch(t);
    return t;
}

struct data_thread *data_thread_find(struct data_room *room, const char *owner, const char *id)
{
    return room->files ? find(room->files, owner, id) : NULL;
}

static int count_of(const struct file_sets *all, const char *owner)
{
    int n = 0;
    for (size_t i = 0; i < FILE_BUCKETS; i++)
        for (const struct data_thread *t = all->threads[i]; t; t = t->next)
            n += str_eq(t->owner, owner);
    return n;
}

int data_thread_pin(struct file_sets *all, const char *owner, const char *id,
                    struct data_thread **ret, struct err *err)
{
    int r = thread_id_check(id, err);
    if (r < 0)
        return r;
    struct data_thread *t = find(all, owner, id);
    if (!t && count_of(all, owner) >= THREADS_PER_OWNER)
        return err_set(err, ERR_TOO_LARGE,
                       "there are already %d sessions with files; clear some (POST /files/clear)",
                       THREADS_PER_OWNER);
    if (!t)
        t = thread_create(all, owner, id);
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    t->pins++;
    *ret = t;
    return 0;
}

/* ---- its files ---- */

struct file_set *data_thread_named(const struct data_thread *t, const char *name)
{
    for (size_t i = 0; i < t->n_files; i++)
        if (str_eq(t->files[i]->file.name, name))
            return t->files[i];
    return NULL;
}

struct file_set *data_thread_at(struct data_room *room, const char *owner, const char *id, size_t i)
{
    struct data_thread *t = room->files && id ? lookup(room->files, owner, id) : NULL;
    for (size_t k = 0; t && k < t->n_files; k++)
        if (!file_is_output(t->files[k]->file.name) && i-- == 0)
            return t->files[k];
    return NULL;
}

bool data_thread_has_table(struct file_sets *all, const char *owner, const char *id,
                           const char *table, const char *but_name)
{
    for (const struct file_set *set = all->newest; set; set = set->next)
        if (set->thread_id && str_eq(set->thread_id, id) && str_eq(set->owner, owner) &&
            !set->deleting && !set->raw && !str_eq(set->file.name, but_name) &&
            str_ieq(set->file.table, table))
            return true;
    return false;
}

static void tell_changed(struct file_sets *all, const char *owner, const char *id)
{
    struct data_room *room = all->room;
    if (room && room->user)
        room->user->thread_changed(room->user_arg, owner, id);
}

static void take_out(struct file_set *set)
{
    struct data_thread *t = TAKE_PTR(set->thread);
    size_t i = 0;
    while (t->files[i] != set)
        i++;
    t->n_files--;
    memmove(&t->files[i], &t->files[i + 1], (t->n_files - i) * sizeof(*t->files));
    t->bytes -= set->file.size_bytes;
    file_set_unref(set);
    if (t->n_files == 0 && t->pins == 0)
        thread_free(t);
}

void data_thread_leave(struct file_set *set)
{
    struct data_thread *t = set->thread;
    t->pins++;
    take_out(set);
    tell_changed(t->all, t->owner, t->id);
    data_thread_unpin(t);
}

/* By when they came, whichever was read first. */
static void put_in(struct data_thread *t, struct file_set *set)
{
    size_t i = t->n_files;
    while (i > 0 && strcmp(t->files[i - 1]->created_at, set->created_at) > 0)
        i--;
    memmove(&t->files[i + 1], &t->files[i], (t->n_files - i) * sizeof(*t->files));
    t->files[i] = file_set_ref(set);
    t->n_files++;
    t->bytes += set->file.size_bytes;
    set->thread = t;
}

static void delete_quietly(struct file_set *set)
{
    struct err err = ERR_INIT;
    if (file_set_delete(set, NULL, NULL, &err) < 0)
        log_error("upload.delete", LOG_STR("file_id", set->dataset.id),
                  LOG_STR("error", err.message));
}

static void delete_named(struct data_thread *t, const char *name)
{
    struct file_set *old = file_set_ref(data_thread_named(t, name));
    if (!old)
        return;
    t->pins++;
    take_out(old);
    delete_quietly(old);
    t->pins--;
    file_set_unref(old);
}

void data_thread_join(struct file_set *set)
{
    struct data_thread *t = lookup(set->all, set->owner, set->thread_id);
    if (set->thread)
        return;
    if (!t)
        t = thread_create(set->all, set->owner, set->thread_id);
    if (t)
        delete_named(t, set->file.name);
    if (!t || t->n_files == THREAD_FILES_ROOM)
        delete_quietly(set);
    else
        put_in(t, set);
    if (t)
        t->used_ms = clock_wall_ms();
}

void data_thread_load(struct file_set *set, const char *used_at)
{
    struct data_thread *t = lookup(set->all, set->owner, set->thread_id);
    int64_t used_ms = store_time_ms(used_at);
    bool is_new = !t;
    if (!t)
        t = thread_create(set->all, set->owner, set->thread_id);
    if (t && (is_new || used_ms > t->used_ms))
        t->used_ms = t->touched_ms = used_ms;
    if (!t || t->n_files == THREAD_FILES_ROOM || data_thread_named(t, set->file.name))
        delete_quietly(set); /* a newer one has taken its place */
    else
        put_in(t, set);
}

/* ---- clearing ---- */

struct clearing {
    size_t n; /* deletions under way */
    struct err err;
    data_done_fn done;
    void *arg;
};

static void clearing_end(void *arg)
{
    struct clearing *c = arg;
    if (c->done)
        c->done(c->err.code ? &c->err : NULL, c->arg);
    free(c);
}

static void one_gone(const struct err *err, void *arg)
{
    struct clearing *c = arg;
    if (err && !c->err.code)
        c->err = *err;
    if (--c->n == 0)
        clearing_end(c);
}

int data_thread_clear(struct data_thread *t, data_done_fn done, void *arg, struct err *err)
{
    struct clearing *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *c = (struct clearing){ .n = 1, .err = ERR_INIT, .done = done, .arg = arg };
    t->pins++;
    for (size_t n = t->n_files; n > 0; n--) {
        struct file_set *set = file_set_ref(t->files[n - 1]);
        take_out(set);
        if (file_set_delete(set, one_gone, c, &c->err) == 0)
            c->n++;
        else
            put_in(t, set);
        file_set_unref(set);
    }
    tell_changed(t->all, t->owner, t->id);
    int r = --c->n > 0 ? 0 : loop_defer(t->all->loop, clearing_end, c, err);
    if (r < 0)
        free(c);
    data_thread_unpin(t);
    return r;
}

bool data_thread_forget(struct data_room *room, const char *owner, const char *id)
{
    struct data_thread *t = room->files ? lookup(room->files, owner, id) : NULL;
    bool had = t && t->n_files > 0;
    struct err err = ERR_INIT;
    if (had && data_thread_clear(t, NULL, NULL, &err) < 0)
        log_error("thread.forget", LOG_STR("thread", id), LOG_STR("error", err.message));
    return had;
}

static struct cleared_thread {
    char owner[64], id[THREAD_ID_MAX + 1];
    int64_t at_ms;
} * cleared_place(struct file_sets *all, const char *owner, const char *id)
{
    for (size_t i = 0; i < all->n_cleared; i++)
        if (str_eq(all->cleared[i].id, id) && str_eq(all->cleared[i].owner, owner))
            return &all->cleared[i];
    return NULL;
}

void data_thread_note_cleared(struct file_sets *all, const char *owner, const char *id)
{
    struct cleared_thread *c = cleared_place(all, owner, id);
    if (!c && !all->cleared && !(all->cleared = calloc(CLEARED_MAX, sizeof(*all->cleared))))
        return;
    if (!c && all->n_cleared < CLEARED_MAX)
        c = &all->cleared[all->n_cleared++];
    else if (!c) /* any of them: only what is shown suffers */
        c = &all->cleared[clock_now_ms() % CLEARED_MAX];
    snprintf(c->owner, sizeof(c->owner), "%s", owner);
    snprintf(c->id, sizeof(c->id), "%s", id);
    c->at_ms = clock_wall_ms();
}

bool data_thread_hides(struct file_sets *all, const char *owner, const char *id, const char *path,
                       int64_t modified_ms)
{
    const struct cleared_thread *c = file_is_output(path) ? cleared_place(all, owner, id) : NULL;
    return c && modified_ms <= c->at_ms;
}

bool data_thread_was_cleared(struct file_sets *all, const char *owner, const char *id)
{
    return cleared_place(all, owner, id) != NULL;
}

/* ---- forking: the fork has links to the files under ids of its own ---- */

struct forking {
    struct file_sets *all; /* a reference */
    size_t n;              /* records under way */
    struct file_set **copies;
    size_t n_copies;
    struct err err;
    data_done_fn done;
    void *arg;
};

/* The file and the tables beside it. `.part` says that the directory has no record yet. */
static int link_files(const char *from_dir, const char *to_dir, struct err *err)
{
    int r = fd_mkdir_p(to_dir, 0700, err);
    DIR *from = r == 0 ? opendir(from_dir) : NULL;
    auto_close int to = from ? open(to_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    auto_close int part = to < 0 ? -1 : openat(to, FILE_PART, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;
    if (r == 0 && part < 0)
        r = err_errno(err, ERR_IO, errno, "opening the files of a thread");
    for (struct dirent *e; r == 0 && (e = readdir(from));)
        if (fstatat(dirfd(from), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            linkat(dirfd(from), e->d_name, to, e->d_name, 0) < 0)
            r = err_errno(err, ERR_IO, errno, "linking the files of a thread");
    if (r == 0 && fsync(to) < 0)
        r = err_errno(err, ERR_IO, errno, "linking the files of a thread");
    if (from)
        closedir(from);
    return r;
}

/* An output lies in directories below its own. */
static int link_output(const struct file_set *from, const struct file_set *to, struct err *err)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", to->file.full_path);
    *strrchr(dir, '/') = '\0';
    int r = fd_mkdir_p(dir, 0700, err);
    if (r == 0 && link(from->file.full_path, to->file.full_path) < 0)
        r = err_errno(err, ERR_IO, errno, "linking the files of a thread");
    return r;
}

static int fork_file(struct forking *fk, const struct file_set *of, const char *to_id,
                     struct err *err)
{
    char id[FILE_ID_DIGITS + 1];
    id_hex(id, FILE_ID_DIGITS);
    struct file_facts facts = { .owner = of->owner,
                                .id = id,
                                .filename = of->filename,
                                .sha256 = of->file.sha256,
                                .created_at = of->created_at,
                                .options = of->file.options,
                                .thread_id = to_id,
                                .table = of->file.table,
                                .size_bytes = of->file.size_bytes };
    struct file_set *copy = file_set_create(fk->all, &facts);
    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    copy->raw = of->raw;
    copy->note = of->note ? arena_strdup(&copy->arena, of->note) : NULL;
    copy->remove_files = true; /* until it is recorded */
    fk->copies[fk->n_copies++] = copy;
    int r = link_files(of->dir, copy->dir, err);
    return r == 0 && file_is_output(of->file.name) ? link_output(of, copy, err) : r;
}

static void forking_end(struct forking *fk)
{
    bool ok = !fk->err.code && fk->all->room;
    char part[PATH_MAX + 16];
    for (size_t i = 0; i < fk->n_copies; i++) {
        struct file_set *copy = fk->copies[i];
        if (ok) {
            snprintf(part, sizeof(part), "%s/" FILE_PART, copy->dir);
            (void)unlink(part);
            copy->remove_files = false;
            file_set_list(copy);
            file_set_settle(copy, NULL);
        } else if (fk->all->room) {
            delete_quietly(copy); /* those that have a record lose it */
        }
        file_set_unref(copy);
    }
    if (fk->done)
        fk->done(fk->err.code ? &fk->err : NULL, fk->arg);
    file_sets_unref(fk->all);
    free(fk->copies);
    free(fk);
}

static void fork_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct forking *fk = arg;
    if (err && !fk->err.code)
        fk->err = *err;
    if (--fk->n == 0)
        forking_end(fk);
}

static void forking_done(void *arg)
{
    forking_end(arg);
}

int data_thread_fork(struct data_room *room, const char *owner, const char *from_id,
                     const char *to_id, data_done_fn done, void *arg, struct err *err)
{
    struct data_thread *from = data_thread_find(room, owner, from_id);
    struct forking *fk = calloc(1, sizeof(*fk));
    struct file_set **copies = calloc(THREAD_FILES_ROOM, sizeof(struct file_set *));
    struct file_use *use = file_use_of(room->files, owner);
    int64_t bytes = 0;
    for (size_t i = 0; from && i < from->n_files; i++)
        bytes += from->files[i]->counted_bytes;
    int r = fk && copies && use ? file_may_grow(use, room->env.cfg, bytes, err) :
                                  err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = thread_id_check(to_id, err);
    if (r < 0) {
        free(fk);
        free(copies);
        return r;
    }
    *fk = (struct forking){ .all = file_sets_ref(room->files),
                            .n = 1,
                            .copies = copies,
                            .err = ERR_INIT,
                            .done = done,
                            .arg = arg };
    for (size_t i = 0; from && i < from->n_files && r == 0; i++)
        if (from->files[i]->status == FILE_READY)
            r = fork_file(fk, from->files[i], to_id, err);
    for (size_t i = 0; i < fk->n_copies && r == 0; i++) {
        r = file_set_store(fk->copies[i], FILE_READY, NULL, STORE_CREATE, fork_stored, fk, err);
        fk->n += r == 0;
    }
    bool waits = --fk->n > 0;
    if (r < 0 && waits) {
        fk->err = *err; /* done comes with it */
        r = 0;
    } else if (r < 0) {
        fk->done = NULL;
        fk->err = *err;
        forking_end(fk);
    } else if (!waits) {
        r = loop_defer(fk->all->loop, forking_done, fk, err);
        if (r < 0) {
            fk->done = NULL;
            forking_end(fk);
        }
    }
    return r;
}

/* ---- time, and the end ---- */

void data_threads_sweep(struct file_sets *all)
{
    for (size_t i = 0; i < FILE_BUCKETS; i++)
        for (struct data_thread *t = all->threads[i], *next; t; t = next) {
            next = t->next;
            if (is_expired(t))
                expire(t);
        }
}

int64_t data_threads_sweep_ms(const struct file_sets *all)
{
    int64_t ttl = ttl_ms(all);
    return ttl > 0 ? MAX_OF(SWEEP_MIN_MS, MIN_OF(SWEEP_MAX_MS, ttl / 4)) : INT64_MAX;
}

void data_threads_close(struct file_sets *all)
{
    for (size_t i = 0; i < FILE_BUCKETS; i++)
        for (struct data_thread *t = all->threads[i], *next; t; t = next) {
            next = t->next;
            if (t->pins == 0)
                thread_free(t);
        }
}
