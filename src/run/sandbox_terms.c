/* The terms of a sandbox, read from JSON. */

#include "run/sandbox_terms.h"

#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

#define MEGABYTE (1 << 20)

/* Modules that code may import when its sandbox names none. */
static const char *const modules[] = {
    "json",      "datetime",     "math",     "random",      "collections", "itertools",
    "functools", "operator",     "re",       "string",      "uuid",        "hashlib",
    "base64",    "urllib.parse", "typing",   "dataclasses", "enum",        "asyncio",
    "pandas",    "numpy",        "requests", "aiohttp",
};

static json_t *default_modules(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
        json_array_append_new(list, json_string(modules[i]));
    return list;
}

/* Names of modules and functions: they are sent as one list, separated by commas. */
static bool is_name(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    for (size_t i = 0; i < n; i++) {
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (!letter && !(i > 0 && ((s[i] >= '0' && s[i] <= '9') || s[i] == '.')))
            return false;
    }
    return n > 0 && n <= 100;
}

static int join(const json_t *names, const char *what, struct buf *b, struct err *err)
{
    size_t i;
    json_t *name;
    if (json_array_size(names) > SANDBOX_NAMES_MAX)
        return err_set(err, ERR_VALIDATION, "%s has %zu names; at most %d are taken", what,
                       json_array_size(names), SANDBOX_NAMES_MAX);
    json_array_foreach(names, i, name) {
        if (!is_name(json_string_value(name)))
            return err_set(err, ERR_VALIDATION, "%s[%zu] is no name of a module or function", what,
                           i);
        int r = buf_printf(b, err, "%s%s", b->len > 1 ? "," : "", json_string_value(name));
        if (r < 0)
            return r;
    }
    return 0;
}

/* "=a,b": these modules alone; and what is blocked besides what the server blocks. */
static int read_names(const struct config *cfg, struct sandbox_terms *t, struct err *err)
{
    auto_buf struct buf allowed = BUF_INIT(64u << 10), blocked = BUF_INIT(64u << 10);
    int r = buf_append_str(&allowed, "=", err);
    if (r == 0)
        r = join(json_object_get(t->config, "allowed_modules"), "allowed_modules", &allowed, err);
    if (r == 0)
        r = buf_printf(&blocked, err, "%s", cfg->python_blocked ? cfg->python_blocked : "");
    if (r == 0 && blocked.len > 0)
        r = buf_append_str(&blocked, ",", err);
    if (r == 0)
        r = join(json_object_get(t->config, "blocked_operations"), "blocked_operations", &blocked,
                 err);
    if (r < 0)
        return r;
    t->allowed = strdup(buf_cstr(&allowed));
    t->blocked = strdup(buf_cstr(&blocked));
    return t->allowed && t->blocked ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}

static int take_int(struct sandbox_terms *t, const json_t *asked, const char *key, long long dflt,
                    long long min, long long max, long long *ret, struct err *err)
{
    int r = json_get_i64(asked, key, dflt, min, max, ret, err);
    if (r == 0)
        json_object_set_new(t->config, key, json_integer(*ret));
    return r;
}

static bool take_bool(struct sandbox_terms *t, const json_t *asked, const char *key)
{
    const json_t *v = json_object_get(asked, key);
    bool on = !v || !json_is_false(v);
    json_object_set_new(t->config, key, json_boolean(on));
    return on;
}

static void take_list(struct sandbox_terms *t, const json_t *asked, const char *key, json_t *dflt)
{
    json_t *v = json_object_get(asked, key);
    json_object_set_new(t->config, key, json_is_array(v) ? json_deep_copy(v) : json_incref(dflt));
    json_decref(dflt);
}

static int read_limits(const struct config *cfg, const json_t *asked, struct sandbox_terms *t,
                       struct err *err)
{
    long long seconds, memory, cpu, files, threads, idle, life, idle_max = cfg->sandbox_idle_s,
                                                                life_max = cfg->sandbox_life_s;
    int r = take_int(t, asked, "max_execution_time", 30, 1, SANDBOX_SECONDS_MAX, &seconds, err);
    if (r == 0)
        r = take_int(t, asked, "max_memory_mb", 256, SANDBOX_MEMORY_MIN_MB, SANDBOX_MEMORY_MAX_MB,
                     &memory, err);
    if (r == 0)
        r = take_int(t, asked, "max_cpu_percent", 50, SANDBOX_CPU_MIN, SANDBOX_CPU_MAX, &cpu, err);
    if (r == 0)
        r = take_int(t, asked, "max_open_files", 100, SANDBOX_FILES_MIN, SANDBOX_OPEN_FILES_MAX,
                     &files, err);
    if (r == 0)
        r = take_int(t, asked, "max_threads", 10, SANDBOX_THREADS_MIN, SANDBOX_THREADS_MAX,
                     &threads, err);
    if (r == 0)
        r = take_int(t, asked, "idle_seconds", idle_max, 1, idle_max, &idle, err);
    if (r == 0)
        r = take_int(t, asked, "ttl_seconds", life_max, 1, life_max, &life, err);
    if (r < 0)
        return r;
    t->timeout_ms = seconds * 1000;
    t->idle_ms = idle * 1000;
    t->life_ms = life * 1000;
    t->limits.memory_bytes = memory * MEGABYTE;
    t->limits.cpus = (double)cpu / 100;
    t->limits.open_files = (int)files;
    t->limits.pids = (int)threads;
    return 0;
}

/* One that was asked for because of what it isolates is never replaced by another. */
static int read_provider(const struct config *cfg, const json_t *asked, struct sandbox_terms *t,
                         struct err *err)
{
    const char *wanted = json_string_value(json_object_get(asked, "provider"));
    json_object_set_new(t->config, "provider", json_string(cfg->sandbox_provider));
    if (!wanted || str_eq(wanted, cfg->sandbox_provider))
        return 0;
    return err_set(err, ERR_VALIDATION,
                   "'provider' is '%s', but this server runs sandboxes by '%s'; leave it out, or "
                   "start a server with SANDBOX_PROVIDER=%s",
                   wanted, cfg->sandbox_provider, wanted);
}

int sandbox_terms_create(const struct config *cfg, const json_t *asked, struct sandbox_terms **ret,
                         struct err *err)
{
    struct sandbox_terms *t = calloc(1, sizeof(*t));
    if (!t || !(t->config = json_object())) {
        free(t);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    sandbox_limits_default(cfg, &t->limits);
    int r = read_limits(cfg, asked, t, err);
    if (r == 0)
        r = read_provider(cfg, asked, t, err);
    t->debugging = take_bool(t, asked, "enable_debugging");
    (void)take_bool(t, asked, "save_intermediate_results");
    const char *policy = json_string_value(json_object_get(asked, "policy"));
    t->policy = str_eq(policy, "open") ? POLICY_OPEN : POLICY_RESTRICTED;
    json_object_set_new(t->config, "policy",
                        json_string(t->policy == POLICY_OPEN ? "open" : "restricted"));
    take_list(t, asked, "allowed_modules", default_modules());
    take_list(t, asked, "blocked_operations", json_array());
    if (r == 0)
        r = read_names(cfg, t, err);
    if (r < 0) {
        sandbox_terms_destroy(t);
        return r;
    }
    *ret = t;
    return 0;
}

void sandbox_terms_destroy(struct sandbox_terms *t)
{
    if (!t)
        return;
    json_decref(t->config);
    free(t->allowed);
    free(t->blocked);
    free(t);
}

void sandbox_terms_apply(const struct sandbox_terms *t, struct sandbox_spec *spec)
{
    spec->limits = t->limits;
    spec->python_allowed = t->allowed;
    spec->python_blocked = t->blocked;
    spec->agent = true;
    spec->debugging = t->debugging;
}
