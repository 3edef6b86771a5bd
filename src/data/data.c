/*
 * Data sets, whatever they are from: found by id, profiled in a jail once per content; and the
 * server's own ones, read again while the server runs.
 */

#include "data/data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/background.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "data/database_sets.h"
#include "data/file_sets.h"
#include "data/generate.h"
#include "data/told.h"
#include "sandbox/table_names.h"

#define RELOAD_AFTER_MS 2000
#define RELOAD_EVERY_MS 5000
#define PROFILE_TIMEOUT_MS (10 * 60 * 1000)

/* ---- finding ---- */

static void attach_known_profile(struct data_room *room, const struct dataset_handle *h);

int data_find(struct data_room *room, const char *owner, const char *id, struct dataset_handle *ret,
              struct err *err)
{
    const struct dataset *d = room->registry ? registry_find(room->registry, id) : NULL;
    *ret = (struct dataset_handle){ 0 };
    if (d) {
        ret->dataset = d;
        ret->registry = registry_ref(room->registry);
        return 0;
    }
    struct file_set *set = room->files ? file_set_find(room->files, owner, id) : NULL;
    if (!set || set->status != FILE_READY) {
        file_set_unref(set);
        int r = database_set_find(room, id, &ret->database, err);
        ret->dataset = r == 0 ? database_set_dataset(ret->database) : NULL;
        return r;
    }
    ret->file = set;
    ret->dataset = &set->dataset;
    attach_known_profile(room, ret);
    return 0;
}

void dataset_handle_release(struct dataset_handle *h)
{
    registry_unref(h->registry);
    file_set_unref(h->file);
    database_set_unref(h->database);
    *h = (struct dataset_handle){ 0 };
}

bool dataset_handle_has_tables(const struct dataset_handle *h)
{
    return !h->file || !h->file->raw;
}

size_t dataset_handle_n_files(const struct dataset_handle *h)
{
    return h->database ? 0 : h->dataset->n_files;
}

const char *dataset_handle_database(const struct dataset_handle *h)
{
    return h->database ? h->dataset->id : NULL;
}

struct sandbox_file dataset_handle_file(const struct dataset_handle *h, size_t i)
{
    const struct dataset_file *f = &h->dataset->files[i];
    bool raw = !dataset_handle_has_tables(h);
    return (struct sandbox_file){ .name = f->name,
                                  .path = f->full_path,
                                  .table = raw ? NULL : f->table,
                                  .raw = raw,
                                  .sha256 = *f->sha256 ? f->sha256 : NULL,
                                  .options = f->options,
                                  .is_beside = !h->registry };
}

/* ---- profiling ---- */

struct profiling {
    struct data_room *room;
    struct dataset_handle handle;
    char owner[64];
    size_t at;
    size_t part;     /* of that file's tables */
    json_t *profile; /* of the first of them, while the others are profiled */
    struct lease *lease;
    data_done_fn done;
    void *arg;
    bool again; /* the one that is profiled was begun a second time */
    struct profiling *next, **prev;
    struct profiling *followers; /* by their next: they want the same of the same file */
};

static void profile_next(void *arg);
static void profile_end(struct profiling *p, const struct err *err);

static void profile_path(const struct profiling *p, char ret[TABLE_PATH_SIZE])
{
    struct sandbox_file file = dataset_handle_file(&p->handle, p->at);
    table_profile_path(p->room->env.home, &file, p->handle.dataset->files[p->at].sha256, ret);
}

static int attach(struct profiling *p, json_t *profile, struct err *err)
{
    const struct dataset_file *f = &p->handle.dataset->files[p->at];
    if (p->handle.registry)
        return registry_set_profile(p->handle.registry, f->sha256, profile, err);
    return file_set_profile(p->handle.file, profile, err);
}

static void profile_begin(struct profiling *p)
{
    p->next = p->room->profilings;
    p->prev = &p->room->profilings;
    if (p->next)
        p->next->prev = &p->next;
    p->room->profilings = p;
}

/* The first of those who waited looks whether there is something left to do, for the others too. */
static void profile_pass_on(struct profiling *p)
{
    struct profiling *first = TAKE_PTR(p->followers);
    struct err why = ERR_INIT;
    if (!first)
        return;
    first->followers = TAKE_PTR(first->next);
    profile_begin(first);
    if (loop_defer(p->room->env.loop, profile_next, first, &why) < 0)
        profile_end(first, &why);
}

/* Tells whoever waits; of one that is in no list. */
static void profile_settle(struct profiling *p, const struct err *err)
{
    lease_release(p->lease);
    json_discard(p->profile);
    if (p->done)
        p->done(err, p->arg);
    dataset_handle_release(&p->handle);
    free(p);
}

static void profile_leave(struct profiling *p)
{
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
}

static void profile_end(struct profiling *p, const struct err *err)
{
    profile_leave(p);
    profile_pass_on(p);
    profile_settle(p, err);
}

/* All tables of the file are profiled. */
static int file_profiled(struct profiling *p, struct err *err)
{
    auto_discard json_t *profile = TAKE_PTR(p->profile);
    int r = attach(p, profile, err);
    auto_free char *text = r == 0 ? json_to_str(profile) : NULL;
    if (text) {
        char path[TABLE_PATH_SIZE];
        struct err ignored = ERR_INIT;
        profile_path(p, path);
        (void)fd_replace_file(path, text, strlen(text), 0600, &ignored); /* only a cache */
    }
    lease_release(TAKE_PTR(p->lease));
    p->at++;
    p->part = 0;
    p->again = false;
    return r;
}

/* Of the first table, or added to that as `tables`. */
static void keep_profile(struct profiling *p, const struct lease_table *t, json_t *profile)
{
    if (t->report)
        json_object_set_new(profile, "report", json_deep_copy(t->report));
    if (!p->profile) {
        p->profile = json_incref(profile);
        return;
    }
    json_object_set_new(profile, "name", json_string(t->suffix));
    if (!json_object_get(p->profile, "tables"))
        json_object_set_new(p->profile, "tables", json_array());
    json_array_append(json_object_get(p->profile, "tables"), profile);
}

static void profile_table(struct profiling *p);

static void profiled(struct lease *lease, struct run_result *result, const struct err *err,
                     void *arg)
{
    struct profiling *p = arg;
    struct err why = ERR_INIT;
    size_t n;
    const struct lease_table *tables = lease_tables(lease, &n);
    int r = 0;
    if (err) {
        why = *err;
        r = -(int)err->code;
    } else if (result->verdict == VERDICT_KILLED && !p->again) {
        p->again = true; /* by somebody else: a profile changes nothing */
        run_result_finish(result);
        lease_release(TAKE_PTR(p->lease));
        json_decref(TAKE_PTR(p->profile));
        p->part = 0;
        profile_next(p);
        return;
    } else if (result->verdict != VERDICT_OK) {
        r = err_set(&why, result->verdict == VERDICT_KILLED ? ERR_UNAVAILABLE : ERR_INTERNAL,
                    "profiling '%s' ended in %s", p->handle.dataset->files[p->at].name,
                    verdict_name(result->verdict));
    } else {
        keep_profile(p, &tables[p->part++], json_object_get(result->body, "profile"));
    }
    if (result)
        run_result_finish(result);
    if (r == 0 && p->part < n) {
        profile_table(p);
        return;
    }
    if (r == 0)
        r = file_profiled(p, &why);
    if (r < 0)
        profile_end(p, &why);
    else
        profile_next(p);
}

static void profile_table(struct profiling *p)
{
    struct err why = ERR_INIT;
    size_t n;
    const struct lease_table *tables = lease_tables(p->lease, &n);
    if (lease_profile(p->lease, tables[p->part].name, PROFILE_TIMEOUT_MS, profiled, p, &why) < 0)
        profile_end(p, &why);
}

static void profile_ready(struct lease *lease, const struct err *err, void *arg)
{
    (void)lease;
    struct profiling *p = arg;
    if (err) {
        p->lease = NULL;
        profile_end(p, err);
        return;
    }
    profile_table(p);
}

static bool profile_from_cache(struct profiling *p)
{
    char path[TABLE_PATH_SIZE];
    auto_buf struct buf text = BUF_INIT(CATALOG_OUTPUT_MAX_BYTES);
    auto_json json_t *profile = NULL;
    profile_path(p, path);
    return fd_read_file(path, &text, NULL) == 0 &&
           json_parse(text.data, text.len, &profile, NULL) == 0 && attach(p, profile, NULL) == 0;
}

/*
 * A server that ended before the profile was made. Should it fail, it is made when it is asked for.
 */
static void profile_once_more(struct data_room *room, const struct dataset_handle *h)
{
    struct err ignored = ERR_INIT;
    if (!h->file || h->file->thread_id || h->file->profile_begun)
        return;
    h->file->profile_begun = true;
    (void)data_profile(room, h, h->file->owner, NULL, NULL, &ignored);
}

/* An upload of before a restart: what was found out about it then is read with its first use. */
static void attach_known_profile(struct data_room *room, const struct dataset_handle *h)
{
    struct profiling p = { .room = room, .handle = *h };
    if (!dataset_handle_has_tables(h))
        return;
    for (; p.at < h->dataset->n_files; p.at++)
        if (!h->dataset->files[p.at].profile && !profile_from_cache(&p))
            profile_once_more(room, h);
}

static bool is_profiled(const struct dataset_file *f)
{
    return f->profile && !dataset_profile_is_partial(f->profile);
}

static void profile_next(void *arg)
{
    struct profiling *p = arg;
    const struct dataset *d = p->handle.dataset;
    struct err err = ERR_INIT;
    if (p->handle.file && p->handle.file->deleting) {
        err_set(&err, ERR_NOT_FOUND, "the file was deleted");
        profile_end(p, &err);
        return;
    }
    if (!dataset_handle_has_tables(&p->handle))
        p->at = d->n_files;
    while (p->at < d->n_files && (is_profiled(&d->files[p->at]) || profile_from_cache(p)))
        p->at++;
    if (p->at == d->n_files) {
        profile_end(p, NULL);
        return;
    }
    struct sandbox_file file = dataset_handle_file(&p->handle, p->at);
    struct sandbox_spec spec = { .kind = RUN_SQL, .files = &file, .n_files = 1 };
    sandbox_limits_default(p->room->env.cfg, &spec.limits);
    spec.limits.memory_bytes = MAX_OF(spec.limits.memory_bytes,
                                      p->room->env.cfg->ingest_memory_bytes);
    if (executor_acquire(p->room->env.executor, p->owner, &spec, NULL, profile_ready, p, &p->lease,
                         &err) < 0)
        profile_end(p, &err);
}

int data_profile(struct data_room *room, const struct dataset_handle *h, const char *owner,
                 data_done_fn done, void *arg, struct err *err)
{
    if (h->database)
        return database_set_profile(room, h->database, owner, done, arg, err);
    struct profiling *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    p->room = room;
    p->handle.dataset = h->dataset;
    p->handle.registry = h->registry ? registry_ref(h->registry) : NULL;
    p->handle.file = file_set_ref(h->file);
    snprintf(p->owner, sizeof(p->owner), "%s", owner);
    p->done = done;
    p->arg = arg;
    for (struct profiling *other = room->profilings; h->file && other; other = other->next) {
        if (other->handle.file != h->file)
            continue;
        struct profiling **last = &other->followers;
        while (*last)
            last = &(*last)->next;
        *last = p;
        return 0;
    }
    int r = loop_defer(room->env.loop, profile_next, p, err);
    if (r == 0) {
        profile_begin(p);
    } else {
        dataset_handle_release(&p->handle);
        free(p);
    }
    return r;
}

void data_profile_stop(struct data_room *room, const struct file_set *set, const struct err *why)
{
    struct profiling *p = room->profilings;
    while (p && p->handle.file != set)
        p = p->next;
    if (!p || !p->lease) /* it has not begun yet, and looks first */
        return;
    struct profiling *followers = TAKE_PTR(p->followers);
    profile_leave(p);
    profile_settle(p, why);
    while (followers) {
        struct profiling *next = followers->next;
        profile_settle(followers, why);
        followers = next;
    }
}

/* ---- the server's own sets ---- */

static void set_registry(struct data_room *room, struct registry *fresh)
{
    if (room->registry)
        registry_adopt_profiles(fresh, room->registry);
    registry_unref(room->registry);
    room->registry = fresh;
}

static int open_registry(struct data_room *room, struct err *err)
{
    const char *dir = room->env.cfg->datasets_dir;
    struct registry *registry = NULL;
    struct stat st;
    int r = 0;
    if (stat(dir, &st) < 0) {
        log_info("datasets.generate", LOG_STR("dir", dir));
        r = datasets_generate(dir, err);
    }
    if (r == 0)
        r = registry_load(dir, NULL, &registry, err);
    if (r < 0)
        return err_wrap(err, "DATASETS_DIR '%s'", dir);
    size_t i;
    json_t *note;
    json_array_foreach(registry_notes(registry), i, note) {
        log_warn("datasets.note", LOG_STR("note", json_string_value(note)));
    }
    set_registry(room, registry);
    room->registry_loaded_ms = clock_now_ms();
    return 0;
}

struct reload {
    struct data_room *room;
    struct registry *previous, *fresh;
    struct err err;
    void (*done)(void *arg);
    void *arg;
};

static void reload_work(void *arg)
{
    struct reload *rl = arg;
    (void)registry_load(rl->room->env.cfg->datasets_dir, rl->previous, &rl->fresh, &rl->err);
}

static void reload_done(void *arg)
{
    struct reload *rl = arg;
    if (rl->fresh)
        set_registry(rl->room, rl->fresh);
    else
        log_warn("datasets.reload", LOG_STR("error", rl->err.message)); /* what was there stays */
    if (rl->done)
        rl->done(rl->arg);
    registry_unref(rl->previous);
    free(rl);
}

bool data_reload(struct data_room *room, void (*done)(void *arg), void *arg)
{
    int64_t now = clock_now_ms();
    struct err err = ERR_INIT;
    struct reload *rl = now - room->registry_loaded_ms > RELOAD_AFTER_MS ? calloc(1, sizeof(*rl)) :
                                                                           NULL;
    if (!rl)
        return false;
    *rl = (struct reload){ .room = room, .err = ERR_INIT, .done = done, .arg = arg };
    rl->previous = room->registry ? registry_ref(room->registry) : NULL;
    room->registry_loaded_ms = now;
    if (loop_work(room->env.loop, reload_work, reload_done, rl, &err) == 0)
        return true;
    registry_unref(rl->previous);
    free(rl);
    return false;
}

/* Every few seconds: a folder that was dropped in is known soon, whether or not anybody asks. */
static void look_again(void *arg)
{
    struct data_room *room = arg;
    struct err err = ERR_INIT;
    room->reload_timer = NULL;
    if (room->stopping)
        return;
    if (loop_after(room->env.loop, RELOAD_EVERY_MS, look_again, room, &room->reload_timer, &err) <
        0)
        log_warn("datasets.watch", LOG_STR("error", err.message));
    (void)data_reload(room, NULL, NULL);
}

/* Profiles them one after the other, so that first questions find them ready. */
struct warming {
    struct data_room *room;
    size_t at;
    char *id; /* of the one that is being looked at */
};

static void warm_next(const struct err *err, void *arg)
{
    struct warming *w = arg;
    struct data_room *room = w->room;
    struct err why = ERR_INIT;
    if (err)
        log_warn("datasets.profile", LOG_STR("error", err->message));
    else if (w->id && room->user)
        room->user->ready(room->user_arg, "server", w->id, false);
    free(TAKE_PTR(w->id));
    if (!room->stopping && room->registry && w->at < registry_count(room->registry)) {
        struct dataset_handle h = { .dataset = registry_get(room->registry, w->at++),
                                    .registry = room->registry };
        w->id = strdup(h.dataset->id);
        if (data_profile(room, &h, "server", warm_next, w, &why) == 0)
            return;
    }
    free(w->id);
    free(w);
}

void data_room_watch(struct data_room *room)
{
    struct warming *w = calloc(1, sizeof(*w));
    if (w) {
        w->room = room;
        warm_next(NULL, w);
    }
    look_again(room);
}

/* ---- the room ---- */

int data_room_open(const struct data_env *env, struct data_room **ret, struct err *err)
{
    struct data_room *room = calloc(1, sizeof(*room));
    if (!room)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    room->env = *env;
    int r = open_registry(room, err);
    if (r == 0)
        r = database_sets_open(room, err);
    if (r == 0)
        r = told_open(room, err);
    if (r == 0)
        r = file_sets_open(room, err);
    if (r < 0) {
        data_room_stop(room);
        data_room_destroy(room);
        return r;
    }
    *ret = room;
    return 0;
}

void data_room_stop(struct data_room *room)
{
    if (!room)
        return;
    room->stopping = true;
    loop_cancel(TAKE_PTR(room->reload_timer));
    file_sets_close(room);
    database_sets_close(room);
}

void data_room_destroy(struct data_room *room)
{
    if (!room)
        return;
    told_close(room);
    registry_unref(room->registry);
    free(room);
}
