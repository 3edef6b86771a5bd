/*
 * Learning what tables hold: the catalog of some data is made once, of the records of its files,
 * and shared by every chat on the same contents. Whoever needs it meanwhile waits for the one that is
 * being made.
 */

#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "data/catalog_read.h"

/* ---- catalogs that chats on the same data share ---- */

struct catalog *agent_known_catalog(struct agent *a, const char *key)
{
    for (size_t i = 0; i < a->n_catalogs; i++)
        if (str_eq(a->catalogs[i].key, key)) {
            a->catalogs[i].used_ms = clock_now_ms();
            return catalog_ref(a->catalogs[i].catalog);
        }
    return NULL;
}

void agent_keep_catalog(struct agent *a, const char *key, struct catalog *catalog)
{
    size_t at = a->n_catalogs;
    char *copy = strdup(key);
    if (!copy)
        return;
    if (at == CATALOGS_KEPT) {
        at = 0;
        for (size_t i = 1; i < a->n_catalogs; i++)
            if (a->catalogs[i].used_ms < a->catalogs[at].used_ms)
                at = i;
        free(a->catalogs[at].key);
        catalog_unref(a->catalogs[at].catalog);
    } else {
        a->n_catalogs++;
    }
    a->catalogs[at] = (struct catalog_entry){ .key = copy,
                                              .catalog = catalog_ref(catalog),
                                              .used_ms = clock_now_ms() };
}

/* ---- learning ---- */

struct learning {
    struct agent *agent;
    struct learning *next;
    struct data_view data; /* of its own: the chat may go away meanwhile */
    char owner[64];
    struct catalog_reading *reading;
    struct turn *waiting; /* linked by next_learner */
};

static void learning_free(struct learning *l)
{
    struct learning **at = &l->agent->learning;
    while (*at && *at != l)
        at = &(*at)->next;
    if (*at)
        *at = l->next;
    catalog_read_stop(l->reading);
    data_view_finish(&l->data);
    free(l);
}

/* Over, well or not: those who wait are told. */
static void on_read(struct catalog *catalog, const struct err *err, void *arg)
{
    struct learning *l = arg;
    struct turn *t = TAKE_PTR(l->waiting);
    l->reading = NULL;
    if (err)
        log_warn("agent.learn", LOG_STR("dataset", l->data.dataset_id),
                 LOG_STR("error", err->message));
    else
        agent_keep_catalog(l->agent, l->data.catalog_key, catalog);
    learning_free(l);
    for (struct turn *next; t; t = next) {
        next = t->next_learner;
        t->next_learner = NULL;
        t->learning = NULL;
        if (err) {
            turn_fail(t, err);
            continue;
        }
        catalog_unref(t->chat->catalog);
        t->chat->catalog = catalog_ref(catalog);
        TAKE_PTR(t->after_catalog)(t);
    }
}

static void on_progress(void *arg, const char *stage, double fraction)
{
    struct learning *l = arg;
    for (struct turn *t = l->waiting; t; t = t->next_learner)
        turn_say(t, "status",
                 json_pack("{s:s, s:s, s:s, s:f}", "stage", "loading", "text", stage, "what", stage,
                           "progress", fraction));
}

static int begin(struct learning *l, struct err *err)
{
    const struct data_view *d = &l->data;
    struct catalog_source source = { .records = l->agent->env.records,
                                     .owner = l->owner,
                                     .dataset_id = d->dataset_id,
                                     .database = d->database,
                                     .look = d->look,
                                     .dialect = d->dialect,
                                     .files = d->files,
                                     .n_files = d->n_files,
                                     .tables = d->tables,
                                     .n_tables = d->n_tables,
                                     .relationships = d->relationships,
                                     .words = d->words };
    return catalog_read(l->agent->env.executor, &source, on_progress, on_read, l, &l->reading, err);
}

/* The one under way for this data, or a new one. */
static int learning_of(struct agent *a, const char *owner, const char *thread_id,
                       const json_t *datasets, const json_t *uploads, const char *key,
                       struct learning **ret, struct err *err)
{
    for (struct learning *l = a->learning; l; l = l->next)
        if (key && str_eq(l->data.catalog_key, key)) {
            *ret = l;
            return 0;
        }
    struct learning *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    l->agent = a;
    snprintf(l->owner, sizeof(l->owner), "%s", owner);
    data_view_init(&l->data);
    l->next = a->learning;
    a->learning = l;
    int r = agent_find_data(a, owner, thread_id, datasets, uploads, &l->data, err);
    struct catalog *known = r == 0 ? agent_known_catalog(a, l->data.catalog_key) : NULL;
    if (known || (r == 0 && !data_view_has_tables(&l->data)))
        r = err_set(err, ERR_CONFLICT, "there is nothing to learn");
    catalog_unref(known);
    if (r == 0)
        r = begin(l, err);
    if (r < 0) {
        learning_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

void agent_learn(struct agent *a, const char *owner, const json_t *datasets, const json_t *uploads)
{
    struct learning *l;
    struct err err = ERR_INIT;
    if (!a->closing && learning_of(a, owner, NULL, datasets, uploads, NULL, &l, &err) < 0)
        log_debug("agent.learn",
                  LOG_STR("error", err.message)); /* the first question will say so itself */
}

void turn_need_catalog(struct turn *t, turn_next_fn next)
{
    struct chat *c = t->chat;
    struct err err = ERR_INIT;
    struct learning *l;
    if (!c->catalog) {
        chat_refresh_due(c); /* what is learnt is how things are now */
        c->catalog = agent_known_catalog(c->agent, c->data.catalog_key);
    }
    if (!c->catalog && !data_view_has_tables(&c->data) &&
        (catalog_create(c->data.dataset_id, DIALECT_DUCKDB, NULL, NULL, &c->catalog, &err) < 0 ||
         catalog_finish(c->catalog, &err) < 0)) {
        turn_fail(t, &err);
        return;
    }
    if (c->catalog) {
        next(t);
        return;
    }
    turn_stage(t, "loading", "Looking at the data...");
    if (learning_of(c->agent, c->owner, c->id, c->datasets, c->uploads, c->data.catalog_key, &l,
                    &err) < 0) {
        turn_fail(t, &err);
        return;
    }
    t->after_catalog = next;
    t->learning = l;
    t->next_learner = l->waiting;
    l->waiting = t;
}

void turn_forget_learning(struct turn *t)
{
    if (!t->learning)
        return;
    struct turn **at = &t->learning->waiting;
    while (*at && *at != t)
        at = &(*at)->next_learner;
    if (*at)
        *at = t->next_learner;
    t->learning = NULL;
}

void agent_stop_learning(struct agent *a)
{
    for (struct learning *l = a->learning; l; l = l->next)
        catalog_read_stop(TAKE_PTR(l->reading));
}

void agent_forget_learning(struct agent *a)
{
    while (a->learning)
        learning_free(a->learning);
}
