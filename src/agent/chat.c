/*
 * Chats in memory. One is there while somebody holds it, while a turn of it waits or runs, or while
 * its kernel lives; otherwise it is only in the store, and chat_open() brings it back with the
 * newest part of its history.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include "agent/agent_impl.h"
#include "agent/tools.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "data/data.h"

/* ---- data ---- */

int agent_find_data(struct agent *a, const char *owner, const char *thread_id,
                    const json_t *datasets, const json_t *uploads, struct data_view *ret,
                    struct err *err)
{
    return a->env.room ?
               data_view_find(a->env.room, owner, thread_id, datasets, uploads, ret, err) :
               data_view_share(a->env.data, ret, err);
}

static void drop_data(struct chat *c)
{
    if (c->has_data)
        data_view_finish(&c->data);
    c->has_data = false;
    catalog_unref(TAKE_PTR(c->catalog));
}

static const struct sandbox_file *find_file(const struct data_view *d, const char *path)
{
    for (size_t i = 0; i < d->n_files; i++)
        if (str_eq(d->files[i].path, path))
            return &d->files[i];
    return NULL;
}

static bool is_read_alike(const struct sandbox_file *a, const struct sandbox_file *b)
{
    return str_eq(a->options ? a->options : "", b->options ? b->options : "");
}

/* Those of the new files that the old data has not, for a kernel that is kept. */
static void carry_new(struct chat *c, const struct data_view *old)
{
    struct sandbox_file added[SANDBOX_FILES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < c->data.n_files && n < ARRAY_SIZE(added); i++) {
        const struct sandbox_file *f = &c->data.files[i], *was = find_file(old, f->path);
        if (!was)
            added[n++] = *f;
        else if (!is_read_alike(was, f))
            thread_kernel_note_reread(c->kernel, f);
    }
    thread_kernel_add_files(c->kernel, added, n);
}

static int find_data(struct chat *c, bool keep_kernel, struct err *err)
{
    struct data_view fresh;
    data_view_init(&fresh);
    int r = agent_find_data(c->agent, c->owner, c->id, c->datasets, c->uploads, &fresh, err);
    if (r < 0) {
        data_view_finish(&fresh);
        return r;
    }
    if (c->has_data && str_eq(c->data.catalog_key, fresh.catalog_key)) {
        data_view_finish(&fresh);
        return 0;
    }
    struct data_view old = c->data;
    if (c->has_data &&
        str_eq(old.key, fresh.key)) { /* only words about it: kernel and last plan stay */
        catalog_unref(TAKE_PTR(c->catalog));
        c->data = fresh;
        data_view_finish(&old);
        return 0;
    }
    bool had = c->has_data, keep = had && keep_kernel && thread_kernel_is_kept(c->kernel) &&
                                   thread_kernel_has_variables(c->kernel);
    if (had)
        keeper_remove_checkpoints(c);
    if (had && !keep)
        thread_kernel_drop(c->kernel, "the thread's data changed");
    catalog_unref(TAKE_PTR(c->catalog));
    c->data = fresh;
    c->has_data = true;
    if (keep)
        carry_new(c, &old);
    if (had)
        data_view_finish(&old);
    json_decref(TAKE_PTR(c->last_plan));
    return 0;
}

static bool same_ids(const json_t *a, const json_t *b)
{
    return json_array_size(a) == json_array_size(b) &&
           (json_array_size(a) == 0 || json_equal(a, b));
}

int chat_replace_data(struct chat *c, const json_t *datasets, const json_t *uploads,
                      struct err *err)
{
    if (c->has_data && same_ids(c->datasets, datasets) && same_ids(c->uploads, uploads))
        return 0;
    json_t *old_datasets = c->datasets, *old_uploads = c->uploads;
    c->datasets = json_deep_copy(datasets);
    c->uploads = json_deep_copy(uploads);
    int r = find_data(c, false, err);
    if (r < 0) {
        json_decref(c->datasets);
        json_decref(c->uploads);
        c->datasets = old_datasets;
        c->uploads = old_uploads;
        return r;
    }
    json_decref(old_datasets);
    json_decref(old_uploads);
    return 0;
}

int chat_set_data(struct chat *c, const json_t *datasets, const json_t *uploads, struct err *err)
{
    struct data_view found;
    if (!c->turns)
        return chat_replace_data(c, datasets, uploads, err);
    data_view_init(&found); /* turns under way go on with what they have */
    int r = agent_find_data(c->agent, c->owner, c->id, datasets, uploads, &found, err);
    data_view_finish(&found);
    if (r < 0)
        return r;
    json_decref(c->next_data);
    c->next_data = json_pack("{s:O*, s:O*}", "datasets", datasets, "uploads", uploads);
    return c->next_data ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static void refresh(struct chat *c)
{
    struct err err = ERR_INIT;
    c->refresh_due = false;
    int r = find_data(c, true, &err);
    if (r == -ERR_NOT_FOUND) { /* deleted: nothing of it is held, and the next turn says so */
        thread_kernel_drop(c->kernel, "the thread's data was deleted");
        drop_data(c);
    } else if (r < 0) {
        log_warn("agent.data", LOG_STR("thread", c->id), LOG_STR("error", err.message));
    }
}

void chat_refresh_due(struct chat *c)
{
    if (c->refresh_due)
        refresh(c);
}

void chat_refresh_data(struct chat *c, void (*done)(void *arg), void *arg)
{
    if (c->turns || thread_kernel_state(c->kernel) == KERNEL_STARTING)
        c->refresh_due = true; /* what runs or is being prepared goes on with what it has */
    else
        refresh(c);
    if (done)
        thread_kernel_when_added(c->kernel, done, arg);
}

int chat_change_data(struct chat *c, const json_t *datasets, const json_t *uploads,
                     void (*done)(void *arg), void *arg, struct err *err)
{
    struct data_view found;
    data_view_init(&found);
    int r = agent_find_data(c->agent, c->owner, c->id, datasets, uploads, &found, err);
    data_view_finish(&found);
    if (r < 0)
        return r;
    json_decref(c->datasets);
    json_decref(c->uploads);
    json_decref(TAKE_PTR(c->next_data));
    c->datasets = json_deep_copy(datasets);
    c->uploads = json_deep_copy(uploads);
    chat_refresh_data(c, done, arg);
    return 0;
}

static void refresh_all(void *arg, const char *owner)
{
    struct agent *a = arg;
    for (struct chat *c = a->chats; c; c = c->next)
        if (c->has_data && !c->deleted && str_eq(c->owner, owner))
            chat_refresh_data(c, NULL, NULL);
}

/*
 * Hot and warm kernels with variables keep the table that they have, and the list of files says so;
 * cold ones are given up, and their next answer says so.
 */
static void data_reread(void *arg, const char *owner, const char *id)
{
    keeper_forget_data(arg, owner, id); /* a kernel brought back would read the old table */
    refresh_all(arg, owner);
}

static bool names(const json_t *ids, const char *id)
{
    size_t i;
    json_t *item;
    json_array_foreach(ids, i, item)
        if (str_eq(json_string_value(item), id))
            return true;
    return false;
}

/* The threads that named it let go of its files. */
static void data_gone(void *arg, const char *owner, const char *dataset_id)
{
    struct agent *a = arg;
    keeper_forget_data(a, owner, dataset_id);
    for (struct chat *c = a->closing ? NULL : a->chats, *next; c; c = next) {
        next = c->next;
        if (!str_eq(c->owner, owner) ||
            !(names(c->datasets, dataset_id) || names(c->uploads, dataset_id)))
            continue;
        chat_ref(c);
        keeper_forget_chat(c);
        chat_refresh_data(c, NULL, NULL);
        chat_unref(c);
    }
}

static void data_ready(void *arg, const char *owner, const char *id, bool own)
{
    auto_json json_t *ids = json_pack("[s]", id);
    agent_learn(arg, owner, own ? NULL : ids, own ? ids : NULL);
}

static void thread_changed(void *arg, const char *owner, const char *thread_id)
{
    struct chat *c = chat_find(arg, owner, thread_id);
    if (c)
        chat_refresh_data(c, NULL, NULL);
    else
        agent_forget_files(arg, owner, thread_id);
}

static const struct data_user data_user = { .ready = data_ready,
                                            .reread = data_reread,
                                            .gone = data_gone,
                                            .changed = refresh_all,
                                            .thread_changed = thread_changed };

bool chat_file_place(const struct chat *c, const char *path, char ret[KERNEL_PLACE_SIZE],
                     const char **ret_note)
{
    *ret_note = NULL;
    for (size_t i = 0; c->has_data && i < c->data.n_files; i++)
        if (str_eq(c->data.files[i].path, path)) {
            if (!thread_kernel_added_place(c->kernel, path, ret, ret_note))
                snprintf(ret, KERNEL_PLACE_SIZE, "/data/%s", c->data.files[i].name);
            return true;
        }
    return false;
}

/* ---- life ---- */

static void chat_free(struct chat *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else if (c->agent->chats == c)
        c->agent->chats = c->next;
    if (c->next)
        c->next->prev = c->prev;
    thread_kernel_destroy(c->kernel);
    drop_data(c);
    json_decref(c->datasets);
    json_decref(c->uploads);
    json_decref(c->next_data);
    json_decref(c->history);
    json_decref(c->last_plan);
    free(c->last_question);
    sandbox_terms_destroy(c->terms);
    json_decref(c->last_execution);
    free(c);
}

/* Nobody needs it in memory any more. */
static void maybe_free(struct chat *c)
{
    /* A loss that is still to be told of is remembered here only. */
    enum kernel_state state = thread_kernel_state(c->kernel);
    bool kept = !c->deleted &&
                (c->terms || (state != KERNEL_NONE && state != KERNEL_COLD) ||
                 thread_kernel_has_loss(c->kernel) || thread_kernel_is_busy(c->kernel));
    if (c->agent->closing)
        return; /* agent_destroy() */
    if (c->refs == 0 && !c->turns && !kept && (c->agent->env.store || c->deleted))
        chat_free(c);
}

struct chat *chat_ref(struct chat *c)
{
    c->refs++;
    return c;
}

void chat_unref(struct chat *c)
{
    if (c && --c->refs == 0)
        maybe_free(c);
}

/* What code of the thread sees. */
static void kernel_spec(void *arg, struct sandbox_spec *ret)
{
    struct chat *c = arg;
    ret->dataset_id = c->data.dataset_id;
    ret->database = c->data.database;
    ret->files = c->data.files;
    ret->n_files = c->data.n_files;
    sandbox_limits_default(c->agent->env.cfg, &ret->limits);
    if (c->terms)
        sandbox_terms_apply(c->terms, ret);
}

static void kernel_changed(void *arg, bool arrived)
{
    struct chat *c = arg;
    bool refused = thread_kernel_refusal(c->kernel) != NULL;
    if (thread_kernel_is_hot(c->kernel) && !refused)
        c->used_ms = clock_now_ms();
    if (arrived || refused)
        agent_trim(c->agent, arrived ? c : NULL);
    chat_ref(c);
    keeper_tell_settled(c);
    chat_unref(c);
}

static void kernel_moved(void *arg, const struct kernel_moved *moved)
{
    moves_note(arg, moved);
}

static struct chat *chat_new(struct agent *a, const char *owner, const char *id)
{
    struct chat *c = calloc(1, sizeof(*c));
    struct err err = ERR_INIT;
    struct thread_kernel_env env = { .loop = a->env.loop,
                                     .executor = a->env.executor,
                                     .sleep = thread_sleep_ops(a->env.executor),
                                     .owner = owner,
                                     .thread_id = id,
                                     .queries = a->env.queries,
                                     .spec = kernel_spec,
                                     .changed = kernel_changed,
                                     .moved = kernel_moved,
                                     .arg = c };
    if (!c || thread_kernel_create(&env, &c->kernel, &err) < 0) {
        free(c);
        return NULL;
    }
    c->agent = a;
    c->refs = 1;
    snprintf(c->id, sizeof(c->id), "%s", id);
    snprintf(c->owner, sizeof(c->owner), "%s", owner);
    c->history = json_array();
    c->used_ms = clock_now_ms();
    c->next = a->chats;
    if (a->chats)
        a->chats->prev = c;
    a->chats = c;
    return c;
}

struct chat *chat_find(struct agent *a, const char *owner, const char *thread_id)
{
    for (struct chat *c = a->chats; c; c = c->next)
        if (!c->deleted && str_eq(c->id, thread_id) && str_eq(c->owner, owner))
            return c;
    return NULL;
}

const char *chat_id(const struct chat *c)
{
    return c->id;
}

const struct data_view *chat_data(const struct chat *c)
{
    return c->has_data ? &c->data : NULL;
}

bool chat_is_hot(const struct chat *c)
{
    return thread_kernel_is_hot(c->kernel);
}

bool chat_has_kernel(const struct chat *c)
{
    return thread_kernel_is_kept(c->kernel);
}

int64_t chat_message_count(const struct chat *c)
{
    return c->message_count;
}

bool chat_is_busy(const struct chat *c)
{
    return c->turns != NULL;
}

/*
 * Cut in blocks of half the window: in between, what a model is told only grows, and its provider's
 * cache holds.
 */
void chat_remember(struct chat *c, const char *role, const char *content, const json_t *calls)
{
    size_t keep = (size_t)c->agent->env.cfg->thread_history_window;
    json_array_append_new(c->history, history_entry(role, content, calls));
    if (json_array_size(c->history) > keep)
        for (size_t n = MAX_OF(keep / 4 * 2, json_array_size(c->history) - keep); n > 0; n--)
            json_array_remove(c->history, 0);
}

static const json_t *find_entry(const json_t *history, const json_t *message, size_t *at)
{
    for (size_t i = *at; i < json_array_size(history); i++) {
        const json_t *entry = json_array_get(history, i);
        if (json_equal(json_object_get(entry, "role"), json_object_get(message, "role")) &&
            json_equal(json_object_get(entry, "content"), json_object_get(message, "content"))) {
            *at = i + 1;
            return entry;
        }
    }
    return NULL;
}

void chat_adopt(struct chat *c, const json_t *earlier)
{
    auto_json json_t *known = c->history;
    size_t at = 0, i;
    json_t *m;
    c->history = json_array();
    json_array_foreach(earlier, i, m) {
        const char *role = json_string_value(json_object_get(m, "role")),
                   *content = json_string_value(json_object_get(m, "content"));
        const json_t *entry = find_entry(known, m, &at);
        if (role && content)
            chat_remember(c, role, content, json_object_get(entry, "calls"));
    }
    if (at == json_array_size(known))
        return;
    json_decref(TAKE_PTR(c->last_plan)); /* it belongs to an answer that the client left out */
    free(TAKE_PTR(c->last_question));
}

void chat_warm(struct chat *c, int64_t wait_ms, void (*done)(void *arg, bool is_hot), void *arg)
{
    if (c->agent->env.cfg->enable_python && !c->agent->closing)
        thread_kernel_prepare(c->kernel);
    agent_learn(c->agent, c->owner, c->datasets, c->uploads);
    thread_kernel_when_ready(c->kernel, wait_ms, done, arg);
}

int chat_read_file(struct chat *c, const char *path, int64_t offset, kernel_file_fn done, void *arg,
                   struct kernel_file_op **ret, struct err *err)
{
    return thread_kernel_read_file(c->kernel, path, offset, done, arg, ret, err);
}

int chat_list_files(struct chat *c, kernel_list_fn done, void *arg, struct kernel_file_op **ret,
                    struct err *err)
{
    return thread_kernel_list_files(c->kernel, done, arg, ret, err);
}

/* ---- opening ---- */

/* A chat on its way from or to the store. */
struct opening {
    struct agent *agent;
    struct chat *chat; /* the one made, or NULL until its record came */
    char owner[64], id[THREAD_ID_MAX + 1];
    bool had_python; /* of its last messages one left variables, */
    bool told;       /* … or one said that they are gone */
    bool is_new;     /* made since the server started */
    chat_fn done;
    void *arg;
};

static void open_end(struct opening *o, struct chat *chat, const struct err *err)
{
    struct err why = ERR_INIT;
    if (o->agent->closing)
        err_set(&why, ERR_CANCELLED, "the server stops");
    if (o->agent->closing || !o->done)
        chat_unref(TAKE_PTR(chat));
    if (o->done)
        o->done(chat, why.code ? &why : err, o->arg);
    free(o);
}

static void open_soon(void *arg)
{
    struct opening *o = arg;
    open_end(o, TAKE_PTR(o->chat), NULL);
}

static void on_created(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct opening *o = arg;
    struct chat *c = TAKE_PTR(o->chat);
    if (err) {
        c->deleted = true;
        chat_unref(c);
        c = NULL;
    }
    open_end(o, c, err);
}

int chat_create(struct agent *a, const struct chat_spec *spec, chat_fn done, void *arg,
                struct err *err)
{
    char id[THREAD_ID_MAX + 1];
    if (spec->thread_id) {
        int r = thread_id_check(spec->thread_id, err);
        if (r < 0)
            return r;
        snprintf(id, sizeof(id), "%s", spec->thread_id);
    } else {
        id_hex(id, 12);
    }
    if (chat_find(a, spec->owner, id))
        return err_set(err, ERR_CONFLICT, "there is a thread '%s' already", id);
    if (a->env.store && store_has_room(a->env.store, spec->owner, err) < 0)
        return -(int)err->code;
    struct opening *o = calloc(1, sizeof(*o));
    struct chat *c = chat_new(a, spec->owner, id);
    if (!o || !c) {
        free(o);
        chat_unref(c);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *o = (struct opening){ .agent = a, .chat = c, .done = done, .arg = arg };
    int r = spec->terms ? chat_set_terms(c, spec->terms, clock_wall_ms(), err) : 0;
    if (r == 0)
        r = chat_replace_data(c, spec->datasets, spec->uploads, err);
    if (r == 0 && !a->env.store) {
        r = loop_defer(a->env.loop, open_soon, o, err);
    } else if (r == 0) {
        auto_free char *datasets = json_to_str(spec->datasets ? spec->datasets : json_null());
        auto_free char *uploads = json_to_str(spec->uploads ? spec->uploads : json_null());
        struct thread record = { .thread_id = id,
                                 .owner = spec->owner,
                                 .title = spec->title,
                                 .datasets_json = spec->datasets ? datasets : NULL,
                                 .uploads_json = spec->uploads ? uploads : NULL,
                                 .state = "open",
                                 .forked_from = spec->forked_from };
        auto_free char *terms = c->terms ? json_to_str(c->terms->config) : NULL;
        if (c->terms) {
            record.state = "sandbox";
            record.terms_json = terms;
        }
        r = store_put_thread(a->env.store, &record, STORE_CREATE, on_created, o, err);
    }
    if (r < 0) {
        free(o);
        c->deleted = true;
        chat_unref(c);
    }
    return r;
}

#define RESTARTED "the server has been started anew since"

/* Unless there is an image of them, variables of the thread went with the server. */
static void note_restart(struct chat *c)
{
    if (thread_kernel_state(c->kernel) == KERNEL_NONE)
        thread_kernel_note_loss(c->kernel, RESTARTED);
}

/* Executions are no messages: their capsules tell whether Python held variables. */
static void on_python_runs(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct chat *c = TAKE_PTR(o->chat);
    if (!err && page->n > 0)
        note_restart(c);
    open_end(o, c, NULL);
}

/*
 * A thread that ran something since this server started was told with the first of it what was lost
 * by the start; what it lost later is remembered by its chat in memory.
 */
static void on_last_run(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct agent *a = o->agent;
    struct store_query query = {
        .owner = o->owner, .thread_id = o->id, .query_mode = "python", .limit = 1
    };
    struct err ignored = ERR_INIT;
    bool seen = !err && page->n > 0 && strcmp(page->capsules[0].created_at, a->started_at) >= 0;
    if (!seen && o->had_python)
        note_restart(o->chat);
    if (seen || o->had_python || o->told || a->closing ||
        store_list(a->env.store, RECORD_CAPSULE, &query, on_python_runs, o, &ignored) < 0)
        open_end(o, TAKE_PTR(o->chat), NULL);
}

static void on_history(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct chat *c = TAKE_PTR(o->chat);
    if (err) {
        chat_unref(c);
        open_end(o, NULL, err);
        return;
    }
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(page->value, "messages"), i, m)
        chat_remember(c, json_string_value(json_object_get(m, "role")),
                      json_string_value(json_object_get(m, "content")),
                      json_object_get(m, "calls"));
    o->told = json_is_true(json_object_get(page->value, "told"));
    o->had_python = json_is_true(json_object_get(page->value, "had_python"));
    c->last_plan = json_incref(json_object_get(page->value, "plan"));
    struct store_query query = { .owner = o->owner, .thread_id = o->id, .limit = 1 };
    struct err ignored = ERR_INIT;
    o->chat = c;
    if (o->is_new || thread_kernel_state(c->kernel) != KERNEL_NONE ||
        store_list(o->agent->env.store, RECORD_CAPSULE, &query, on_last_run, o, &ignored) < 0)
        open_end(o, TAKE_PTR(o->chat), NULL);
}

static void on_record(const struct err *err, const struct store_page *page, void *arg)
{
    struct opening *o = arg;
    struct agent *a = o->agent;
    struct err why = ERR_INIT;
    if (err || a->closing) {
        if (err && err->code == ERR_NOT_FOUND)
            err_set(&why, ERR_NOT_FOUND, "Thread not found");
        else if (err)
            why = *err;
        open_end(o, NULL, &why);
        return;
    }
    struct chat *c = chat_find(a, o->owner, o->id); /* somebody else was quicker */
    if (c) {
        open_end(o, chat_ref(c), NULL);
        return;
    }
    const struct thread *t = &page->threads[0];
    o->is_new = strcmp(t->created_at, a->started_at) >= 0;
    c = chat_new(a, o->owner, o->id);
    int r = c ? 0 : err_set(&why, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        auto_json json_t *datasets = NULL, *uploads = NULL;
        if (t->datasets_json)
            (void)json_parse(t->datasets_json, strlen(t->datasets_json), &datasets, NULL);
        if (t->uploads_json)
            (void)json_parse(t->uploads_json, strlen(t->uploads_json), &uploads, NULL);
        c->message_count = MAX_OF(t->message_count, 0);
        c->datasets = TAKE_PTR(datasets);
        c->uploads = TAKE_PTR(uploads);
        auto_json json_t *terms = NULL;
        if (t->terms_json && json_parse(t->terms_json, strlen(t->terms_json), &terms, NULL) == 0)
            r = chat_set_terms(c, terms, store_time_ms(t->created_at), &why);
        if (r == 0)
            r = find_data(c, false, &why);
        if (r == 0) {
            keeper_adopt(c);
            checkpoints_adopt(c);
        }
        if (r == -ERR_NOT_FOUND)
            r = 0; /* its data is gone, its history is not: the next turn says so */
    }
    struct store_query query = { .owner = o->owner,
                                 .thread_id = o->id,
                                 .limit = (int)a->env.cfg->thread_history_window,
                                 .make = history_make };
    o->chat = c;
    if (r == 0)
        r = store_list(a->env.store, RECORD_MESSAGE, &query, on_history, o, &why);
    if (r < 0) {
        chat_unref(TAKE_PTR(o->chat));
        open_end(o, NULL, &why);
    }
}

int chat_open(struct agent *a, const char *owner, const char *thread_id, chat_fn done, void *arg,
              struct err *err)
{
    int r = thread_id_check(thread_id, err);
    if (r < 0)
        return err_set(err, ERR_NOT_FOUND, "Thread not found");
    struct opening *o = calloc(1, sizeof(*o));
    if (!o)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *o = (struct opening){ .agent = a, .done = done, .arg = arg };
    snprintf(o->owner, sizeof(o->owner), "%s", owner);
    snprintf(o->id, sizeof(o->id), "%s", thread_id);
    struct chat *c = chat_find(a, owner, thread_id);
    if (c) {
        o->chat = chat_ref(c);
        r = loop_defer(a->env.loop, open_soon, o, err);
    } else if (a->env.store) {
        r = store_get(a->env.store, RECORD_THREAD, owner, thread_id, on_record, o, err);
    } else {
        r = err_set(err, ERR_NOT_FOUND, "Thread not found");
    }
    if (r < 0) {
        chat_unref(o->chat);
        free(o);
    }
    return r;
}

int chat_delete(struct agent *a, const char *owner, const char *thread_id, store_done_fn done,
                void *arg, struct err *err)
{
    struct chat *c = chat_find(a, owner, thread_id);
    keeper_remove_images(a, owner, thread_id);
    int r = a->env.store ?
                store_remove(a->env.store, RECORD_THREAD, owner, thread_id, done, arg, err) :
                0;
    if (r == 0 && c) {
        chat_ref(c);
        c->deleted = true;
        chat_stop(c);
        if (!c->turns)
            thread_kernel_drop(c->kernel, NULL);
        chat_unref(c);
    }
    return r;
}

/* ---- the agent ---- */

int agent_create(const struct agent_env *env, struct agent **ret, struct err *err)
{
    struct agent *a = calloc(1, sizeof(*a));
    if (!a)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    a->env = *env;
    int r = keeper_begin(a, err);
    if (r < 0) {
        free(a);
        return r;
    }
    clock_iso8601(clock_wall_ms(), a->started_at);
    a->started_ms = clock_now_ms();
    if (env->room) {
        env->room->user = &data_user;
        env->room->user_arg = a;
    }
    *ret = a;
    return 0;
}

void agent_stop(struct agent *a)
{
    if (!a || a->closing)
        return;
    a->closing = true;
    executor_on_shortage(a->env.executor, NULL, NULL);
    loop_cancel(a->sweep);
    if (a->env.room)
        a->env.room->user = NULL;
    outputs_close(a);
    agent_stop_learning(a);
    for (struct chat *c = a->chats; c; c = c->next) {
        if (c->turns)
            model_talk_destroy(c->turns);
        thread_kernel_close(c->kernel);
    }
}

void agent_destroy(struct agent *a)
{
    if (!a)
        return;
    agent_stop(a);
    for (struct chat *c = a->chats; c; c = c->next)
        keeper_forget(c);
    while (a->chats) {
        struct chat *c = a->chats;
        while (c->turns)
            turn_free(c->turns);
        chat_free(c);
    }
    agent_forget_learning(a);
    agent_forget_stats(a);
    moves_forget(a);
    free(a->images.sizes);
    for (size_t i = 0; i < a->n_catalogs; i++) {
        free(a->catalogs[i].key);
        catalog_unref(a->catalogs[i].catalog);
    }
    free(a);
}

void agent_stats(struct agent *a, struct agent_stats *ret)
{
    *ret = a->stats;
    keeper_stats(a, ret);
    for (const struct chat *c = a->chats; c; c = c->next) {
        ret->chats++;
        ret->hot += thread_kernel_is_hot(c->kernel);
        ret->warm += thread_kernel_is_kept(c->kernel) && !thread_kernel_is_hot(c->kernel);
        for (const struct turn *t = c->turns; t; t = t->next)
            ret->turns++;
    }
}
