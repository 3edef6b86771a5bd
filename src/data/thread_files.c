/* Sessions that have files: found by owner and id, counted, saved, swept, read back at start. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "data/thread_files_impl.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "sandbox/table_names.h"
#include "sandbox/workspace_path.h"

#define INDEX "index.json"
#define INDEX_MAX_BYTES (1u << 20)
#define SESSIONS_PER_OWNER 10000
#define SWEEP_MIN_MS 500
#define SWEEP_MAX_MS (600 * 1000)
#define TOUCH_MAX_MS (60 * 1000)
#define CLEARED_MAX 1024

struct save_waiter {
    struct save_waiter *next;
    session_saved_fn done;
    void *arg;
};

struct sessions *sessions_ref(struct sessions *all)
{
    all->refs++;
    return all;
}

void sessions_unref(struct sessions *all)
{
    if (--all->refs > 0)
        return;
    uploads_unref(all->uploads);
    if (all->root_fd >= 0)
        close(all->root_fd);
    free(all->cleared);
    free(all);
}

/* ---- names ---- */

/* An id or an owner as a directory: what begins with a dot gets a '%' before it, which neither can have. */
static const char *dir_mark(const char *name)
{
    return *name == '.' ? "%" : "";
}

static void session_dir(const struct sessions *all, const char *owner, const char *id, char ret[PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%.3800s/%s%.64s/%s%.100s", all->root, dir_mark(owner), owner, dir_mark(id), id);
}

static struct session **bucket_of(struct sessions *all, const char *id)
{
    uint32_t h = 2166136261u;
    for (const char *p = id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return &all->buckets[h % SESSION_BUCKETS];
}

/* ---- files ---- */

struct session_file *session_file_create(struct session *s, const char *id, const char *name, int64_t size)
{
    struct upload_use *use = uploads_use(s->all->uploads, s->owner);
    struct session_file *f = use ? calloc(1, sizeof(*f)) : NULL;
    if (!f)
        return NULL;
    f->refs = 1;
    f->all = sessions_ref(s->all);
    f->use = use;
    use->bytes += size;
    f->size = size;
    snprintf(f->session, sizeof(f->session), "%s", s->id);
    snprintf(f->owner, sizeof(f->owner), "%s", s->owner);
    snprintf(f->id, sizeof(f->id), "%s", id);
    snprintf(f->name, sizeof(f->name), "%s", name);
    if ((size_t)snprintf(f->path, sizeof(f->path), "%s/%s/%s", s->dir, id, name) >= sizeof(f->path))
        f->path[0] = '\0'; /* RIDDLE_HOME is too deep; it cannot have been stored */
    return f;
}

struct session_file *session_file_ref(struct session_file *f)
{
    f->refs++;
    return f;
}

struct removal {
    char dir[PATH_MAX];
};

/* The file's directory, and the two above it if nothing else is in them. */
static void remove_work(void *arg)
{
    struct removal *rm = arg;
    (void)fd_remove_tree(rm->dir, NULL); /* what is left has no entry and is removed at the next start */
    for (int up = 0; up < 2; up++) {
        *strrchr(rm->dir, '/') = '\0';
        if (rmdir(rm->dir) < 0)
            break;
    }
}

static void remove_dir(struct loop *loop, const char *dir)
{
    struct removal *rm = calloc(1, sizeof(*rm));
    if (!rm)
        return;
    snprintf(rm->dir, sizeof(rm->dir), "%s", dir);
    if (loop_work(loop, remove_work, free, rm, NULL) < 0) {
        remove_work(rm);
        free(rm);
    }
}

void session_file_unref(struct session_file *f)
{
    if (!f || --f->refs > 0)
        return;
    if (f->removed && *f->path) {
        *strrchr(f->path, '/') = '\0';
        remove_dir(f->all->loop, f->path);
    }
    f->use->bytes -= f->size + f->table_bytes;
    json_decref(f->dataset.prompts);
    json_decref(f->dataset.tags);
    json_decref(f->table_file.profile);
    sessions_unref(f->all);
    free(f);
}

const struct session_file *session_file_named(const struct session *s, const char *name)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (str_eq(s->files[i]->name, name))
            return s->files[i];
    return NULL;
}

static bool table_taken(const struct session *s, const char *table)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (str_ieq(s->files[i]->table, table))
            return true;
    return false;
}

void session_drop(struct session *s, struct session_file *f)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (s->files[i] == f) {
            memmove(&s->files[i], &s->files[i + 1], (s->n_files - i - 1) * sizeof(*s->files));
            s->n_files--;
            s->bytes -= f->size;
            f->removed = true;
            session_file_unref(f);
            if (s->all->room)
                executor_forget_idle(s->all->room->env.executor, s->owner);
            return;
        }
}

void session_add(struct session *s, struct session_file *f)
{
    session_drop(s, (struct session_file *)session_file_named(s, f->name));
    if (*f->table) {
        char base[DATASET_TABLE_MAX];
        snprintf(base, sizeof(base), "%s", f->table);
        for (unsigned n = 2; table_taken(s, f->table) && n < 1000; n++)
            snprintf(f->table, sizeof(f->table), "%.50s_%u", base, n);
    }
    f->table_bytes = table_beside_bytes(f->path);
    f->use->bytes += f->table_bytes;
    s->files[s->n_files++] = f;
    s->bytes += f->size;
}

/* ---- files as data sets ---- */

struct session_file *session_file_find(struct data_room *room, const char *owner, const char *id)
{
    for (size_t i = 0; room->sessions && i < SESSION_BUCKETS; i++)
        for (struct session *s = room->sessions->buckets[i]; s; s = s->next)
            for (size_t k = 0; str_eq(s->owner, owner) && k < s->n_files; k++)
                if (str_eq(s->files[k]->id, id) && !file_is_output(s->files[k]->name))
                    return session_file_ref(s->files[k]);
    return NULL;
}

bool session_file_has_table(const struct session_file *f)
{
    return *f->table;
}

const struct dataset *session_file_dataset(struct session_file *f)
{
    struct dataset *d = &f->dataset;
    if (d->id)
        return d;
    f->table_file = (struct dataset_file){ .name = f->name,
                                           .path = f->name,
                                           .full_path = f->path,
                                           .table = f->table,
                                           .description = "",
                                           .row_count = -1,
                                           .size_bytes = f->size };
    memcpy(f->table_file.sha256, f->sha256, sizeof(f->sha256));
    snprintf(f->description, sizeof(f->description), "A file of thread %.200s", f->session);
    *d = (struct dataset){ .id = f->id,
                           .name = f->name,
                           .description = f->description,
                           .domain = "",
                           .size_bytes = f->size,
                           .files = &f->table_file,
                           .n_files = 1,
                           .prompts = json_array(),
                           .tags = json_array() };
    snprintf(d->version_hash, sizeof(d->version_hash), "sha256:%s", f->sha256);
    return d;
}

int session_file_set_profile(struct session_file *f, json_t *profile, struct err *err)
{
    int r = dataset_check_profile(profile, err);
    if (r < 0)
        return r;
    json_decref(f->table_file.profile);
    f->table_file.profile = json_incref(profile);
    f->table_file.row_count = json_integer_value(json_object_get(profile, "row_count"));
    return 0;
}

void session_files_append(struct data_room *room, const char *owner, json_t *list)
{
    for (size_t i = 0; room->sessions && i < SESSION_BUCKETS; i++)
        for (struct session *s = room->sessions->buckets[i]; s; s = s->next)
            for (size_t k = 0; str_eq(s->owner, owner) && k < s->n_files; k++) {
                const struct session_file *f = s->files[k];
                char created[CLOCK_ISO_SIZE];
                if (file_is_output(f->name))
                    continue;
                clock_iso8601(f->modified_ms, created);
                json_array_append_new(
                    list,
                    json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:o}", "id", f->id, "name",
                              f->name, "kind", "thread", "thread_id", s->id, "status", "ready",
                              "size_bytes", (json_int_t)f->size, "created_at", created, "tables",
                              *f->table ? json_pack("[{s:s, s:s, s:o}]", "name", f->table, "file",
                                                    f->name, "rows",
                                                    f->table_file.profile ?
                                                        json_integer(f->table_file.row_count) :
                                                        json_null()) :
                                          json_array()));
            }
}

int session_file_remove(struct data_room *room, struct session_file *f, session_saved_fn done,
                        void *arg, struct err *err)
{
    struct session *s = session_find(room->sessions, f->owner, f->session);
    if (!s || session_file_named(s, f->name) != f)
        return err_set(err, ERR_NOT_FOUND, "the file is gone");
    s->pins++;
    session_drop(s, f);
    int r = session_save(s, done, arg, err);
    session_changed(room->sessions, s->owner, s->id);
    session_unpin(s);
    return r;
}

/* ---- sessions ---- */

static void unlist(struct session *s)
{
    struct session **at = bucket_of(s->all, s->id);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
}

static void session_free(struct session *s)
{
    for (size_t i = 0; i < s->n_files; i++)
        session_file_unref(s->files[i]);
    unlist(s);
    sessions_unref(s->all);
    free(s->files);
    free(s);
}

void session_unpin(struct session *s)
{
    if (--s->pins == 0 && (s->n_files == 0 || !s->all->room))
        session_free(s);
}

static bool is_expired(const struct session *s)
{
    int64_t ttl_ms = s->all->room->env.cfg->session_ttl_s * 1000;
    return ttl_ms > 0 && s->pins == 0 && clock_wall_ms() - s->used_ms >= ttl_ms;
}

struct touching {
    char path[PATH_MAX + 16];
};

static void touch_work(void *arg)
{
    struct touching *t = arg;
    (void)utimensat(AT_FDCWD, t->path, NULL, 0);
}

static void touch(struct session *s)
{
    int64_t ttl_ms = s->all->room->env.cfg->session_ttl_s * 1000;
    s->used_ms = clock_wall_ms();
    if (ttl_ms == 0 || s->n_files == 0 || s->used_ms - s->touched_ms < MIN_OF(TOUCH_MAX_MS, ttl_ms / 4))
        return;
    struct touching *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    snprintf(t->path, sizeof(t->path), "%s/" INDEX, s->dir);
    if (loop_work(s->all->loop, touch_work, free, t, NULL) < 0)
        free(t);
    else
        s->touched_ms = s->used_ms;
}

static void expire(struct session *s)
{
    log_info("session.expired", LOG_STR("session", s->id), LOG_STR("owner", s->owner), LOG_INT("files", (int64_t)s->n_files));
    session_clear(s);
}

static struct session *lookup(struct sessions *all, const char *owner, const char *id)
{
    for (struct session *s = *bucket_of(all, id); s; s = s->next)
        if (str_eq(s->id, id) && str_eq(s->owner, owner))
            return s;
    return NULL;
}

struct session *session_find(struct sessions *all, const char *owner, const char *id)
{
    struct session *s = all ? lookup(all, owner, id) : NULL;
    if (s && is_expired(s)) {
        expire(s);
        return NULL;
    }
    if (s)
        touch(s);
    return s;
}

static int count_of(const struct sessions *all, const char *owner)
{
    int n = 0;
    for (size_t i = 0; i < SESSION_BUCKETS; i++)
        for (const struct session *s = all->buckets[i]; s; s = s->next)
            n += str_eq(s->owner, owner);
    return n;
}

static struct session *session_create(struct sessions *all, const char *owner, const char *id)
{
    struct session *s = calloc(1, sizeof(*s));
    struct session_file **files = calloc(SESSION_FILES_ROOM + 1, sizeof(struct session_file *));
    if (!s || !files) {
        free(s);
        free(files);
        return NULL;
    }
    s->all = sessions_ref(all);
    s->files = files;
    snprintf(s->owner, sizeof(s->owner), "%s", owner);
    snprintf(s->id, sizeof(s->id), "%s", id);
    session_dir(all, owner, id, s->dir);
    s->used_ms = clock_wall_ms();
    struct session **bucket = bucket_of(all, id);
    s->next = *bucket;
    *bucket = s;
    return s;
}

int session_pin(struct sessions *all, const char *owner, const char *id, struct session **ret, struct err *err)
{
    int r = thread_id_check(id, err);
    if (r < 0)
        return r;
    struct session *s = session_find(all, owner, id);
    if (!s && count_of(all, owner) >= SESSIONS_PER_OWNER)
        return err_set(err, ERR_TOO_LARGE, "there are already %d sessions with files; clear some (POST /files/clear)", SESSIONS_PER_OWNER);
    if (!s)
        s = session_create(all, owner, id);
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    s->pins++;
    *ret = s;
    return 0;
}

void session_changed(struct sessions *all, const char *owner, const char *id)
{
    if (all->room && all->room->user)
        all->room->user->thread_changed(all->room->user_arg, owner, id);
}

void session_clear(struct session *s)
{
    struct err err = ERR_INIT;
    s->pins++;
    while (s->n_files)
        session_drop(s, s->files[s->n_files - 1]);
    if (session_save(s, NULL, NULL, &err) < 0)
        log_error("session.save", LOG_STR("session", s->id), LOG_STR("error", err.message));
    session_changed(s->all, s->owner, s->id);
    session_unpin(s);
}

/* ---- the index ---- */

struct saving {
    struct session *session; /* pinned */
    char dir[PATH_MAX];
    char *text; /* NULL: there are no files any more */
    struct save_waiter *waiters;
    struct err err;
};

static char *index_text(const struct session *s)
{
    auto_json json_t *files = json_array();
    for (size_t i = 0; i < s->n_files; i++) {
        const struct session_file *f = s->files[i];
        json_array_append_new(files, json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I}", "id", f->id, "name", f->name, "size", (json_int_t)f->size,
                                               "sha256", f->sha256, "table", f->table, "note", f->note, "modified",
                                               (json_int_t)f->modified_ms));
    }
    auto_json json_t *index = json_pack("{s:O}", "files", files);
    return index ? json_to_str(index) : NULL;
}

static void save_work(void *arg)
{
    struct saving *sv = arg;
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" INDEX, sv->dir);
    if (!sv->text) {
        if (unlink(path) < 0 && errno != ENOENT)
            err_errno(&sv->err, ERR_IO, errno, "removing the session's index");
        if (rmdir(sv->dir) == 0) {
            *strrchr(sv->dir, '/') = '\0';
            (void)rmdir(sv->dir);
        }
        return;
    }
    /* Whoever removed the last file may just have removed the directory: then once more. */
    int r = -1;
    for (int tries = 0; tries < 3 && r < 0; tries++) {
        r = fd_mkdir_p(sv->dir, 0700, &sv->err);
        if (r == 0)
            r = fd_replace_file(path, sv->text, strlen(sv->text), 0600, &sv->err);
    }
    if (r == 0)
        sv->err = (struct err)ERR_INIT;
}

static int start_save(struct session *s, struct err *err);

static void save_done(void *arg)
{
    struct saving *sv = arg;
    struct session *s = sv->session;
    struct err why = ERR_INIT;
    s->saving = false;
    if (sv->err.code)
        log_error("session.save", LOG_STR("session", s->id), LOG_STR("error", sv->err.message));
    else
        s->touched_ms = clock_wall_ms();
    for (struct save_waiter *w = sv->waiters, *next; w; w = next) {
        next = w->next;
        if (w->done)
            w->done(sv->err.code ? &sv->err : NULL, w->arg);
        free(w);
    }
    free(sv->text);
    free(sv);
    if (s->waiters && !s->saving)
        (void)start_save(s, &why);
    session_unpin(s);
}

static int start_save(struct session *s, struct err *err)
{
    struct saving *sv = calloc(1, sizeof(*sv));
    char *text = s->n_files ? index_text(s) : NULL;
    if (!sv || (s->n_files && !text)) {
        free(sv);
        free(text);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    sv->session = s;
    sv->text = text;
    sv->err = (struct err)ERR_INIT;
    snprintf(sv->dir, sizeof(sv->dir), "%s", s->dir);
    sv->waiters = TAKE_PTR(s->waiters);
    s->saving = true;
    s->pins++;
    int r = loop_work(s->all->loop, save_work, save_done, sv, err);
    if (r < 0) {
        s->saving = false;
        s->pins--;
        s->waiters = sv->waiters;
        free(text);
        free(sv);
    }
    return r;
}

int session_save(struct session *s, session_saved_fn done, void *arg, struct err *err)
{
    struct save_waiter *w = malloc(sizeof(*w));
    if (!w)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *w = (struct save_waiter){ .next = s->waiters, .done = done, .arg = arg };
    s->waiters = w;
    int r = s->saving ? 0 : start_save(s, err);
    if (r < 0) {
        s->waiters = w->next;
        free(w);
    }
    return r;
}

/* ---- sessions that were cleared while their kernel went on ---- */

static struct cleared_session *cleared_place(struct sessions *all, const char *owner,
                                             const char *id)
{
    for (size_t i = 0; i < all->n_cleared; i++)
        if (str_eq(all->cleared[i].id, id) && str_eq(all->cleared[i].owner, owner))
            return &all->cleared[i];
    return NULL;
}

void session_note_cleared(struct sessions *all, const char *owner, const char *id)
{
    struct cleared_session *c = cleared_place(all, owner, id);
    if (!c && !all->cleared && !(all->cleared = calloc(CLEARED_MAX, sizeof(*all->cleared))))
        return;
    if (!c && all->n_cleared < CLEARED_MAX)
        c = &all->cleared[all->n_cleared++];
    else if (!c)
        c = &all->cleared[clock_now_ms() %
                          CLEARED_MAX]; /* any of them: only what is shown suffers */
    snprintf(c->owner, sizeof(c->owner), "%s", owner);
    snprintf(c->id, sizeof(c->id), "%s", id);
    c->at_ms = clock_wall_ms();
}

bool session_hides(struct sessions *all, const char *owner, const char *id, const char *path,
                   int64_t modified_ms)
{
    const struct cleared_session *c = file_is_output(path) ? cleared_place(all, owner, id) : NULL;
    return c && modified_ms <= c->at_ms;
}

bool session_was_cleared(struct sessions *all, const char *owner, const char *id)
{
    return cleared_place(all, owner, id) != NULL;
}

/* ---- for threads ---- */

const struct session_file *session_file_at(struct data_room *room, const char *owner,
                                           const char *thread_id, size_t i,
                                           struct sandbox_file *ret)
{
    struct session *s = room->sessions && thread_id ? lookup(room->sessions, owner, thread_id) :
                                                      NULL;
    const struct session_file *f = NULL;
    for (size_t k = 0; s && !f && k < s->n_files; k++)
        if (!file_is_output(s->files[k]->name) && i-- == 0)
            f = s->files[k];
    if (!f)
        return NULL;
    *ret = (struct sandbox_file){ .name = f->name,
                                  .path = f->path,
                                  .sha256 = f->sha256,
                                  .is_beside = true,
                                  .raw = !*f->table,
                                  .table = *f->table ? f->table : NULL };
    return f;
}

void session_touch(struct data_room *room, const char *owner, const char *thread_id)
{
    (void)session_find(room->sessions, owner, thread_id);
}

bool session_forget(struct data_room *room, const char *owner, const char *thread_id)
{
    struct session *s = room->sessions ? lookup(room->sessions, owner, thread_id) : NULL;
    bool had = s && s->n_files > 0;
    if (had)
        session_clear(s);
    return had;
}

/* ---- start and end ---- */

static void sweep(void *arg)
{
    struct sessions *all = arg;
    struct err err = ERR_INIT;
    int64_t ttl_ms = all->room->env.cfg->session_ttl_s * 1000;
    all->sweep = NULL;
    for (size_t i = 0; i < SESSION_BUCKETS; i++)
        for (struct session *s = all->buckets[i], *next; s; s = next) {
            next = s->next;
            if (is_expired(s))
                expire(s);
        }
    if (ttl_ms > 0 && loop_after(all->loop, (uint64_t)MAX_OF(SWEEP_MIN_MS, MIN_OF(SWEEP_MAX_MS, ttl_ms / 4)), sweep, all, &all->sweep, &err) < 0)
        log_error("session.sweep", LOG_STR("error", err.message));
}

/* An entry of an index; what it says must be so. */
static bool load_file(struct session *s, const json_t *entry)
{
    const char *id = json_string_value(json_object_get(entry, "id")), *name = json_string_value(json_object_get(entry, "name"));
    const char *sha256 = json_string_value(json_object_get(entry, "sha256")), *table = json_string_value(json_object_get(entry, "table"));
    const char *note = json_string_value(json_object_get(entry, "note"));
    int64_t size = json_integer_value(json_object_get(entry, "size"));
    struct stat st;
    if (!id || strlen(id) != SESSION_FILE_DIGITS || strchr(id, '/') || *id == '.' || !name ||
        *name == '.' ||
        (strchr(name, '/') && !(file_is_output(name) && workspace_path_ok(name, strlen(name)))) ||
        !sha256 || strlen(sha256) != HASH_HEX_SIZE - 1 || !table ||
        (*table && !str_is_identifier(table)) || s->n_files >= SESSION_FILES_ROOM)
        return false;
    struct session_file *f = session_file_create(s, id, name, size);
    if (!f)
        return false;
    if (lstat(f->path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != size) {
        session_file_unref(f);
        return false;
    }
    snprintf(f->sha256, sizeof(f->sha256), "%s", sha256);
    snprintf(f->table, sizeof(f->table), "%.63s", table);
    snprintf(f->note, sizeof(f->note), "%s", note ? note : "");
    f->modified_ms = json_integer_value(json_object_get(entry, "modified"));
    session_add(s, f);
    return true;
}

static bool has_id(const struct session *s, const char *id)
{
    for (size_t i = 0; i < s->n_files; i++)
        if (str_eq(s->files[i]->id, id))
            return true;
    return false;
}

/* What is in a session's directory and in no index was never acknowledged, or is deleted. */
static void remove_leftovers(const struct session *s)
{
    DIR *d = opendir(s->dir);
    struct dirent *e;
    char path[PATH_MAX + 300];
    while (d && (e = readdir(d))) {
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || str_eq(e->d_name, INDEX) || has_id(s, e->d_name))
            continue;
        snprintf(path, sizeof(path), "%s/%s", s->dir, e->d_name);
        (void)fd_remove_tree(path, NULL);
    }
    if (d)
        closedir(d);
}

static int load_session(struct sessions *all, const char *owner, const char *id, struct err *err)
{
    struct err why = ERR_INIT;
    char path[PATH_MAX + 16];
    auto_buf struct buf text = BUF_INIT(INDEX_MAX_BYTES);
    auto_json json_t *index = NULL;
    struct stat st;
    size_t i;
    json_t *entry;
    if (strlen(owner) >= sizeof(((struct session *)0)->owner) || thread_id_check(id, &why) < 0)
        return 0; /* not ours */
    struct session *s = session_create(all, owner, id);
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    snprintf(path, sizeof(path), "%s/" INDEX, s->dir);
    bool good = stat(path, &st) == 0 && fd_read_file(path, &text, &why) == 0 && json_parse(buf_cstr(&text), text.len, &index, &why) == 0;
    if (good)
        s->used_ms = s->touched_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    json_array_foreach(json_object_get(index, "files"), i, entry)
        if (!load_file(s, entry))
            log_warn("session.lost", LOG_STR("session", id), LOG_STR("owner", owner),
                     LOG_STR("name", json_string_value(json_object_get(entry, "name"))));
    if (good || (stat(path, &st) < 0 && errno == ENOENT)) /* an index that cannot be read is left as it is, with its files */
        remove_leftovers(s);
    if (s->n_files > 0)
        return 0;
    if (good)
        (void)unlink(path);
    (void)rmdir(s->dir);
    session_free(s);
    return 0;
}

static int load_owner(struct sessions *all, const char *owner, const char *dir, struct err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int r = 0;
    while (r == 0 && d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            r = load_session(all, owner, e->d_name[0] == '%' ? e->d_name + 1 : e->d_name, err);
    if (d)
        closedir(d);
    (void)rmdir(dir);
    return r;
}

int sessions_open(struct data_room *room, struct err *err)
{
    struct sessions *all = calloc(1, sizeof(*all));
    char path[PATH_MAX + 512];
    if (!all)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    all->refs = 1;
    all->room = room;
    all->loop = room->env.loop;
    all->uploads = uploads_ref(room->uploads);
    all->root_fd = -1;
    room->sessions = all;
    snprintf(all->root, sizeof(all->root), "%.3700s/sessions", room->env.home);
    snprintf(path, sizeof(path), "%s/.uploading", all->root);
    int r = fd_remove_tree(path, err);
    if (r == 0)
        r = fd_mkdir_p(path, 0700, err);
    if (r == 0 && (all->root_fd = open(all->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = err_errno(err, ERR_IO, errno, "opening '%s'", all->root);
    DIR *d = r == 0 ? opendir(all->root) : NULL;
    struct dirent *e;
    while (r == 0 && d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%s", all->root, e->d_name);
        if (e->d_name[0] != '.')
            r = load_owner(all, e->d_name[0] == '%' ? e->d_name + 1 : e->d_name, path, err);
    }
    if (d)
        closedir(d);
    if (r == 0)
        sweep(all);
    return r < 0 ? err_wrap(err, "reading the files of sessions") : 0;
}

void sessions_close(struct data_room *room)
{
    struct sessions *all = room->sessions;
    if (!all)
        return;
    loop_cancel(all->sweep);
    room->sessions = NULL;
    all->room = NULL;
    if (all->close_arrivals)
        all->close_arrivals(all);
    for (size_t i = 0; i < SESSION_BUCKETS; i++)
        for (struct session *s = all->buckets[i], *next; s; s = next) {
            next = s->next;
            if (s->pins == 0)
                session_free(s);
        }
    sessions_unref(all);
}
