/*
 * Sandboxes: threads without a conversation, on terms of their own (run/sandbox_terms.h). One stays
 * in memory until it is deleted or expires: its terms are cheap, and its idle time is counted
 * there. After a restart it is in the store alone until somebody uses it; if nobody does for the
 * longest idle time that the server grants, it is deleted from there.
 */

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/log.h"
#include "base/str.h"

#define STORE_SWEEP_MS 60000
#define RECENT_LOGS 10
#define OWNERS_MAX 10000 /* whose executions are counted */

struct owner_stats {
    struct owner_stats *next;
    char owner[64];
    struct sandbox_stats stats;
};

/* ---- terms ---- */

const struct sandbox_terms *chat_terms(const struct chat *c)
{
    return c->terms;
}

void chat_limits(const struct chat *c, struct sandbox_limits *ret)
{
    if (c->terms)
        *ret = c->terms->limits;
    else
        sandbox_limits_default(c->agent->env.cfg, ret);
}

enum python_policy chat_policy(const struct chat *c)
{
    if (c->terms)
        return c->terms->policy;
    return str_eq(c->agent->env.cfg->python_policy, "open") ? POLICY_OPEN : POLICY_RESTRICTED;
}

static size_t count(const struct agent *a, const char *owner)
{
    size_t n = 0;
    for (const struct chat *c = a->chats; c; c = c->next)
        n += c->terms && !c->deleted && str_eq(c->owner, owner);
    return n;
}

int chat_set_terms(struct chat *c, const json_t *terms, int64_t born_wall_ms, struct err *err)
{
    const struct config *cfg = c->agent->env.cfg;
    if (count(c->agent, c->owner) >= (size_t)cfg->sandboxes_max)
        return err_set(err, ERR_UNAVAILABLE,
                       "you have %lld sandboxes, and no more are allowed: delete one, or raise "
                       "RIDDLE_SANDBOXES",
                       (long long)cfg->sandboxes_max);
    c->born_wall_ms = born_wall_ms;
    return sandbox_terms_create(cfg, terms, &c->terms, err);
}

bool agent_has_sandboxes(const struct agent *a)
{
    for (const struct chat *c = a->chats; c; c = c->next)
        if (c->terms)
            return true;
    return false;
}

/* ---- files and variables ---- */

int chat_write_file(struct chat *c, const char *path, const void *data, size_t len, bool append,
                    kernel_file_fn done, void *arg, struct kernel_file_op **ret, struct err *err)
{
    return thread_kernel_write_file(c->kernel, path, data, len, append, done, arg, ret, err);
}

int chat_remove_file(struct chat *c, const char *path, kernel_file_fn done, void *arg,
                     struct kernel_file_op **ret, struct err *err)
{
    return thread_kernel_remove_file(c->kernel, path, done, arg, ret, err);
}

int chat_inspect(struct chat *c, kernel_list_fn done, void *arg, struct kernel_file_op **ret,
                 struct err *err)
{
    return thread_kernel_inspect(c->kernel, done, arg, ret, err);
}

/* ---- executions ---- */

json_t *execution_debug_info(const json_t *debug, bool with_logs)
{
    const json_t *logs = json_object_get(debug, "logs");
    if (!json_is_object(debug))
        return json_null();
    json_t *info = json_copy((json_t *)debug), *recent = json_array();
    size_t n = json_array_size(logs);
    for (size_t i = n > RECENT_LOGS ? n - RECENT_LOGS : 0; i < n; i++)
        json_array_append(recent, json_array_get(logs, i));
    json_object_set_new(info, "recent_logs", recent);
    if (!with_logs)
        json_object_del(info, "logs");
    return info;
}

const json_t *chat_last_execution(const struct chat *c)
{
    return c->last_execution;
}

void chat_note_execution(struct chat *c, const json_t *answer)
{
    const char *status = json_string_value(json_object_get(answer, "status"));
    double ms = json_number_value(
        json_object_get(json_object_get(answer, "timings_ms"), "exec_total"));
    json_decref(c->last_execution);
    c->last_execution = json_pack(
        "{s:O, s:s, s:f, s:o}", "run_id", json_object_get(answer, "run_id"), "status", status,
        "execution_time", (double)llround(ms * 1000) / 1e6, "debug",
        execution_debug_info(json_object_get(json_object_get(answer, "result"), "debug"), false));
    agent_count_execution(c->agent, c->owner, str_eq(status, "succeeded"), ms / 1000);
}

static struct owner_stats *stats_of(const struct agent *a, const char *owner)
{
    for (struct owner_stats *s = a->owners; s; s = s->next)
        if (str_eq(s->owner, owner))
            return s;
    return NULL;
}

/* NULL: there are too many owners. */
static struct owner_stats *make_stats(struct agent *a, const char *owner)
{
    struct owner_stats *s = stats_of(a, owner);
    size_t n = 0;
    for (const struct owner_stats *o = a->owners; !s && o; o = o->next)
        n++;
    if (!s && n < OWNERS_MAX && (s = calloc(1, sizeof(*s)))) {
        snprintf(s->owner, sizeof(s->owner), "%s", owner);
        s->next = a->owners;
        a->owners = s;
    }
    return s;
}

void agent_count_execution(struct agent *a, const char *owner, bool ok, double seconds)
{
    struct owner_stats *s = make_stats(a, owner);
    if (!s)
        return;
    s->stats.executions++;
    s->stats.succeeded += ok;
    s->stats.seconds += seconds;
}

void agent_count_move(struct agent *a, const char *owner, size_t from, size_t to)
{
    struct owner_stats *s = make_stats(a, owner);
    if (s)
        s->stats.moves.n[from][to]++;
}

void agent_sandbox_stats(const struct agent *a, const char *owner, struct sandbox_stats *ret)
{
    const struct owner_stats *s = stats_of(a, owner);
    *ret = s ? s->stats : (struct sandbox_stats){ 0 };
    ret->active = count(a, owner);
}

void agent_forget_stats(struct agent *a)
{
    while (a->owners) {
        struct owner_stats *s = a->owners;
        a->owners = s->next;
        free(s);
    }
}

/* ---- the end ---- */

int64_t chat_expires_in_ms(const struct chat *c)
{
    int64_t idle = c->terms->idle_ms - (clock_now_ms() - c->used_ms);
    int64_t life = c->terms->life_ms - (clock_wall_ms() - c->born_wall_ms);
    return MAX_OF(0, c->turns ? life : MIN_OF(idle, life));
}

/* Those that nobody has opened since the server started. */
static void on_stored_sandboxes(const struct err *err, const struct store_page *page, void *arg)
{
    struct agent *a = arg;
    struct err why = ERR_INIT;
    int64_t now = clock_wall_ms(), idle = clock_now_ms() - a->started_ms;
    if (err || a->closing)
        return;
    for (size_t i = 0; i < page->n; i++) {
        const struct thread *t = &page->threads[i];
        if (chat_find(a, t->owner, t->thread_id))
            continue;
        if (idle > a->env.cfg->sandbox_idle_s * 1000 ||
            now - store_time_ms(t->created_at) > a->env.cfg->sandbox_life_s * 1000)
            (void)chat_delete(a, t->owner, t->thread_id, NULL, NULL, &why);
    }
    struct store_query query = {
        .owner = store_any_owner, .state = "sandbox", .cursor = page->next, .limit = STORE_LIMIT_MAX
    };
    if (*page->next)
        (void)store_list(a->env.store, RECORD_THREAD, &query, on_stored_sandboxes, a, &why);
}

void agent_expire_sandboxes(struct agent *a)
{
    struct err err = ERR_INIT;
    for (struct chat *c = a->chats, *next; c; c = next) {
        next = c->next;
        if (!c->terms || c->deleted || chat_expires_in_ms(c) > 0)
            continue;
        log_info("sandbox.expired", LOG_STR("sandbox", c->id), LOG_STR("owner", c->owner));
        if (chat_delete(a, c->owner, c->id, NULL, NULL, &err) == 0)
            next = a->chats;
    }
    if (!a->env.store || clock_now_ms() - a->expired_ms < STORE_SWEEP_MS)
        return;
    a->expired_ms = clock_now_ms();
    struct store_query query = { .owner = store_any_owner,
                                 .state = "sandbox",
                                 .limit = STORE_LIMIT_MAX };
    (void)store_list(a->env.store, RECORD_THREAD, &query, on_stored_sandboxes, a, &err);
}
