/* What people write about their data, and where it shows. */

#include "data/prompts.h"
#include "data/told.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/str.h"
#include "data/words.h"

#define TOLD_BUCKETS 256
#define TOLD_MAX_BYTES (64u << 20) /* of all owners, in memory */

struct entry {
    struct entry *next;
    char *owner, *dataset_id;
    json_t *words;
    size_t bytes;
};

struct told {
    struct entry *buckets[TOLD_BUCKETS];
    size_t bytes;
};

/* ---- what is known ---- */

static struct entry **place(struct told *t, const char *owner, const char *dataset_id)
{
    uint32_t h = 2166136261u;
    for (const char *p = owner; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (const char *p = dataset_id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    struct entry **at = &t->buckets[h % TOLD_BUCKETS];
    while (*at && !(str_eq((*at)->owner, owner) && str_eq((*at)->dataset_id, dataset_id)))
        at = &(*at)->next;
    return at;
}

static void take_out(struct told *t, struct entry **at)
{
    struct entry *e = *at;
    if (!e)
        return;
    *at = e->next;
    t->bytes -= e->bytes;
    json_decref(e->words);
    free(e->owner);
    free(e->dataset_id);
    free(e);
}

/* words empty or NULL: removes. */
static int set(struct told *t, const char *owner, const char *dataset_id, json_t *words,
               size_t bytes, struct err *err)
{
    struct entry **at = place(t, owner, dataset_id);
    if (!words || json_object_size(words) == 0) {
        take_out(t, at);
        return 0;
    }
    if (t->bytes - (*at ? (*at)->bytes : 0) + bytes > TOLD_MAX_BYTES)
        return err_set(err, ERR_UNAVAILABLE, "this server keeps no more words about data sets");
    struct entry *e = calloc(1, sizeof(*e));
    if (e)
        *e = (struct entry){ NULL, strdup(owner), strdup(dataset_id), json_incref(words), bytes };
    if (e)
        t->bytes += bytes;
    if (!e || !e->owner || !e->dataset_id) {
        take_out(t, &e);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    take_out(t, at);
    e->next = *at;
    *at = e;
    return 0;
}

const json_t *told_find(struct data_room *room, const char *owner, const char *dataset_id)
{
    struct entry *e = *place(room->told, owner, dataset_id);
    return e ? e->words : NULL;
}

void told_forget(struct data_room *room, const char *owner, const char *dataset_id)
{
    if (room && room->told)
        take_out(room->told, place(room->told, owner, dataset_id));
}

int told_open(struct data_room *room, struct err *err)
{
    char cursor[STORE_CURSOR_SIZE] = "";
    int r = 0;
    room->told = calloc(1, sizeof(*room->told));
    if (!room->told)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    do {
        struct store_query query = { .owner = store_any_owner,
                                     .cursor = cursor,
                                     .limit = STORE_LIMIT_MAX };
        struct store_page page;
        r = store_list_wait(room->env.store, RECORD_WORDS, &query, &page, err);
        if (r < 0)
            break;
        for (size_t i = 0; i < page.n; i++) {
            const struct dataset_words *w = &page.words[i];
            auto_json json_t *words = NULL;
            struct err why = ERR_INIT;
            size_t len = strlen(w->words_json);
            if (json_parse(w->words_json, len, &words, &why) < 0 ||
                set(room->told, w->owner, w->dataset_id, words, len, &why) < 0)
                log_warn("datasets.words", LOG_STR("dataset", w->dataset_id),
                         LOG_STR("error", why.message));
        }
        snprintf(cursor, sizeof(cursor), "%s", page.next);
        store_page_finish(&page);
    } while (*cursor);
    return r;
}

void told_close(struct data_room *room)
{
    for (size_t i = 0; room->told && i < TOLD_BUCKETS; i++)
        while (room->told->buckets[i])
            take_out(room->told, &room->told->buckets[i]);
    free(TAKE_PTR(room->told));
}

/* ---- where it shows ---- */

json_t *told_summary(struct data_room *room, const char *owner, const struct dataset *d)
{
    json_t *summary = dataset_summary(d),
           *description = json_object_get(told_find(room, owner, d->id), "description");
    if (description)
        json_object_set(summary, "description", description);
    return summary;
}

/* Puts words about columns into the columns of a file's schema. */
static void describe_columns(json_t *schema, const json_t *columns)
{
    const char *name;
    json_t *about;
    json_object_foreach((json_t *)(uintptr_t)columns, name, about) {
        json_t *column = json_object_get(schema, name), *own = column ? json_copy(column) : NULL;
        if (!own)
            continue;
        json_object_update(own, about);
        json_object_set_new(schema, name, own);
    }
}

json_t *told_schema(struct data_room *room, const char *owner, const struct dataset *d)
{
    const json_t *own = told_find(room, owner, d->id);
    json_t *schema = dataset_schema_json(d), *file;
    auto_json json_t *words = words_of(d, own);
    size_t i;
    if (!schema || !words) {
        json_decref(schema);
        return NULL;
    }
    json_object_set(schema, "description", json_object_get(words, "description"));
    json_object_set_new(schema, "notes",
                        json_copy(json_object_get(words, "notes")) ?: json_array());
    json_object_set_new(schema, "metrics",
                        json_copy(json_object_get(words, "metrics")) ?: json_object());
    json_object_set_new(schema, "words", own ? json_deep_copy(own) : json_object());
    json_array_foreach(json_object_get(schema, "files"), i, file) {
        const json_t *about = json_object_get(json_object_get(words, "tables"),
                                              json_string_value(json_object_get(file, "table")));
        json_t *description = json_object_get(about, "description");
        json_t *columns = json_copy(json_object_get(file, "schema"));
        if (description)
            json_object_set(file, "description", description);
        describe_columns(columns, json_object_get(about, "columns"));
        json_object_set_new(file, "schema", columns);
    }
    bool written = json_array_size(d->prompts) > 0;
    json_object_set_new(schema, "prompts", written ? json_incref(d->prompts) : prompts_of(schema));
    return schema;
}

/* ---- changing it ---- */

struct change {
    struct data_room *room;
    struct dataset_handle handle;
    char owner[64];
    json_t *patch, *before, *after;
    told_changed_fn done;
    void *arg;
};

static void change_free(struct change *c)
{
    dataset_handle_release(&c->handle);
    json_decref(c->patch);
    json_decref(c->before);
    json_decref(c->after);
    free(c);
}

static void change_end(struct change *c, const struct err *err)
{
    c->done(err ? NULL : c->after, err, c->arg);
    change_free(c);
}

/* What could not be kept is taken back, unless somebody changed it again. */
static void take_back(struct change *c)
{
    const char *id = c->handle.dataset->id;
    const json_t *now = told_find(c->room, c->owner, id);
    auto_free char *text = c->before ? json_to_str(c->before) : NULL;
    struct err ignored = ERR_INIT;
    if (now ? json_equal((json_t *)(uintptr_t)now, c->after) : json_object_size(c->after) == 0)
        (void)set(c->room->told, c->owner, id, c->before, text ? strlen(text) : 0, &ignored);
}

static void kept(const struct err *err, int64_t value, void *arg)
{
    struct change *c = arg;
    struct data_room *room = c->room;
    (void)value;
    if (err && err->code == ERR_NOT_FOUND)
        err = NULL; /* there was nothing to remove */
    if (err)
        take_back(c);
    else if (!room->stopping && room->user)
        room->user->changed(room->user_arg, c->owner);
    change_end(c, err);
}

/* The columns are known now. */
static void change_now(const struct err *err, void *arg)
{
    struct change *c = arg;
    struct data_room *room = c->room;
    const char *id = c->handle.dataset->id;
    struct err why = ERR_INIT;
    if (err || room->stopping) {
        why = err ? *err : why;
        if (!err)
            err_set(&why, ERR_UNAVAILABLE, "the server is stopping");
        change_end(c, &why);
        return;
    }
    c->before = json_deep_copy(told_find(room, c->owner, id));
    int r = words_patch(c->handle.dataset, c->before, c->patch, &c->after, &why);
    if (r == 0 && json_object_size(c->after) > 0)
        r = store_has_room(room->env.store, c->owner, &why);
    auto_free char *text = r == 0 ? json_to_str(c->after) : NULL;
    if (r == 0)
        r = text ? set(room->told, c->owner, id, c->after, strlen(text), &why) :
                   err_set(&why, ERR_NO_MEMORY, "out of memory");
    if (r < 0) {
        change_end(c, &why);
        return;
    }
    struct dataset_words record = { .dataset_id = id, .owner = c->owner, .words_json = text };
    struct store_put put = { RECORD_WORDS, &record, STORE_PUT };
    r = json_object_size(c->after) == 0 ?
            store_remove(room->env.store, RECORD_WORDS, c->owner, id, kept, c, &why) :
            store_put_batch(room->env.store, &put, 1, kept, c, &why);
    if (r < 0) {
        take_back(c);
        change_end(c, &why);
    }
}

int told_change(struct data_room *room, const char *owner, const char *id, json_t *patch,
                told_changed_fn done, void *arg, struct err *err)
{
    struct change *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *c = (struct change){ .room = room, .patch = json_incref(patch), .done = done, .arg = arg };
    snprintf(c->owner, sizeof(c->owner), "%s", owner);
    int r = data_find(room, owner, id, &c->handle, err);
    if (r < 0)
        err_set(err, ERR_NOT_FOUND, "Dataset not found");
    else
        r = data_profile(room, &c->handle, c->owner, change_now, c, err);
    if (r < 0)
        change_free(c);
    return r;
}
