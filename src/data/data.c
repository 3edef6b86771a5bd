/*
 * Data sets, whatever they are from: found by id, profiled in a jail once per content; and the
 * server's own ones, read again while the server runs.
 */

#include "data/data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "data/database_sets.h"
#include "data/file_sets.h"
#include "data/generate.h"
#include "data/told.h"

#define RELOAD_AFTER_MS 2000
#define RELOAD_EVERY_MS 5000

/* ---- finding ---- */

static void attach_known_profile(struct data_room *room, struct dataset_handle *h);

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
    size_t at; /* the file whose record is waited for */
    struct record_wait *wait;
    data_done_fn done;
    void *arg;
    struct profiling *next, **prev;
};

static void profile_next(void *arg);

static int attach(struct dataset_handle *h, size_t at, json_t *profile, struct err *err)
{
    if (h->registry)
        return registry_set_profile(h->registry, h->dataset->files[at].sha256, profile, err);
    return file_set_profile(h->file, profile, err);
}

static void profile_end(struct profiling *p, const struct err *err)
{
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
    record_wait_stop(p->wait);
    if (p->done)
        p->done(err, p->arg);
    dataset_handle_release(&p->handle);
    free(p);
}

static void on_record(const struct record *record, const struct err *err, void *arg)
{
    struct profiling *p = arg;
    struct err why = ERR_INIT;
    p->wait = NULL;
    int r = err ? err_set(&why, err->code, "%s", err->message) :
            p->handle.database ?
                  database_set_attach(p->handle.database, record->profile, &why) :
                  attach(&p->handle, p->at, record->profile, &why);
    p->at = p->handle.database ? p->handle.dataset->n_files : p->at + 1;
    if (r < 0)
        profile_end(p, &why);
    else
        profile_next(p);
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
    if (p->room->stopping || (p->handle.file && p->handle.file->deleting)) {
        if (p->room->stopping)
            err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
        else
            err_set(&err, ERR_NOT_FOUND, "the file was deleted");
        profile_end(p, &err);
        return;
    }
    if (!dataset_handle_has_tables(&p->handle))
        p->at = d->n_files;
    while (p->at < d->n_files && is_profiled(&d->files[p->at]))
        p->at++;
    if (p->at == d->n_files) {
        profile_end(p, NULL);
        return;
    }
    struct sandbox_file file = p->handle.database ? (struct sandbox_file){ 0 } :
                                                    dataset_handle_file(&p->handle, p->at);
    struct record_subject subject = { .file = &file };
    if (p->handle.database)
        database_set_subject(p->handle.database, &subject);
    if (records_need(p->room->records, p->owner, &subject, NULL, on_record, p, &p->wait, &err) < 0)
        profile_end(p, &err);
}

int data_profile(struct data_room *room, const struct dataset_handle *h, const char *owner,
                 data_done_fn done, void *arg, struct err *err)
{
    struct profiling *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *p = (struct profiling){ .room = room, .done = done, .arg = arg };
    p->handle = (struct dataset_handle){
        .dataset = h->dataset,
        .registry = h->registry ? registry_ref(h->registry) : NULL,
        .file = file_set_ref(h->file),
        .database = h->database ? database_set_ref(h->database) : NULL,
    };
    snprintf(p->owner, sizeof(p->owner), "%s", owner);
    int r = loop_defer(room->env.loop, profile_next, p, err);
    if (r < 0) {
        dataset_handle_release(&p->handle);
        free(p);
        return r;
    }
    p->next = room->profilings;
    p->prev = &room->profilings;
    if (p->next)
        p->next->prev = &p->next;
    room->profilings = p;
    return 0;
}

void data_profile_stop(struct data_room *room, const struct file_set *set, const struct err *why)
{
    struct profiling *next;
    for (struct profiling *p = room->profilings; p; p = next) {
        next = p->next;
        if (p->handle.file == set && p->wait) /* one that has not begun yet looks first */
            profile_end(p, why);
    }
}

/*
 * An upload of before a restart: what was found out about it then is read with its first use. A
 * server that ended before it was found out makes up for it. Should that fail, it is made when it
 * is asked for.
 */
static void attach_known_profile(struct data_room *room, struct dataset_handle *h)
{
    struct err ignored = ERR_INIT;
    for (size_t i = 0; dataset_handle_has_tables(h) && i < dataset_handle_n_files(h); i++) {
        struct sandbox_file file = dataset_handle_file(h, i);
        if (h->dataset->files[i].profile)
            continue;
        auto_json json_t *profile = records_kept_profile(room->records, &file);
        if ((profile && attach(h, i, profile, &ignored) == 0) || !h->file || h->file->thread_id ||
            h->file->profile_begun)
            continue;
        h->file->profile_begun = true;
        (void)data_profile(room, h, h->file->owner, NULL, NULL, &ignored);
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
    int r = records_create(env->executor, env->cfg, env->home, &room->records, err);
    if (r == 0)
        r = open_registry(room, err);
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
    struct err stopping = ERR_INIT;
    room->stopping = true;
    loop_cancel(TAKE_PTR(room->reload_timer));
    err_set(&stopping, ERR_UNAVAILABLE, "the server is stopping");
    for (struct profiling *p = room->profilings, *next; p; p = next) {
        next = p->next;
        if (p->wait)
            profile_end(p, &stopping);
    }
    records_destroy(TAKE_PTR(room->records));
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
