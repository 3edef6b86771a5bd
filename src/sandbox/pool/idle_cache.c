/* A few dozen entries at most: an array in order of use, oldest first. */

#include "sandbox/pool/idle_cache.h"

#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/hash.h"
#include "base/str.h"
#include "sandbox/tables.h"

void idle_cache_init(struct idle_cache *c, size_t max)
{
    memset(c, 0, sizeof(*c));
    c->max = MIN_OF(max, (size_t)IDLE_CACHE_MAX);
}

bool idle_cache_key(const char *owner, const struct sandbox_spec *spec,
                    const struct table_file *tables, char ret[IDLE_KEY_SIZE])
{
    /* A length before each text: no two different lists read the same. */
    auto_buf struct buf b = BUF_INIT(1u << 20);
    const struct sandbox_limits *l = &spec->limits;
    const char *dataset = spec->dataset_id ? spec->dataset_id : "";
    int r = buf_printf(&b, NULL, "%zu:%s %zu:%s %lld %f %d %d ", strlen(owner), owner,
                       strlen(dataset), dataset, (long long)l->memory_bytes, l->cpus, l->pids,
                       l->open_files);
    for (size_t i = 0; i < spec->n_files && r == 0; i++) {
        if (spec->files[i].raw)
            continue; /* SQL does not see it */
        r = buf_printf(&b, NULL, "%zu:%s %zu:%s ", strlen(spec->files[i].table),
                       spec->files[i].table, strlen(tables[i].path), tables[i].path);
    }
    return r == 0 && hash_bytes(b.data, b.len, ret, NULL) == 0;
}

static struct sandbox *remove_at(struct idle_cache *c, size_t i)
{
    struct sandbox *sb = c->at[i].sandbox;
    memmove(&c->at[i], &c->at[i + 1], (c->n - i - 1) * sizeof(c->at[0]));
    c->n--;
    return sb;
}

struct sandbox *idle_cache_take(struct idle_cache *c, const char *key)
{
    for (size_t i = c->n; i-- > 0;) /* the one used last has the warmest caches */
        if (str_eq(c->at[i].key, key))
            return remove_at(c, i);
    return NULL;
}

static size_t count_of(const struct idle_cache *c, const char *owner)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += str_eq(c->at[i].owner, owner);
    return n;
}

/* The oldest one of the owner who has most, counting the one that comes. */
static size_t to_go(const struct idle_cache *c, const char *comer)
{
    size_t best = 0, most = 0;
    for (size_t i = 0; i < c->n; i++) {
        size_t n = count_of(c, c->at[i].owner) + str_eq(c->at[i].owner, comer);
        if (n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

struct sandbox *idle_cache_put(struct idle_cache *c, const char *owner, const char *key,
                               struct sandbox *sb, int64_t now_ms)
{
    if (c->max == 0)
        return sb;
    struct sandbox *gone = c->n == c->max ? remove_at(c, to_go(c, owner)) : NULL;
    snprintf(c->at[c->n].key, sizeof(c->at[c->n].key), "%s", key);
    snprintf(c->at[c->n].owner, sizeof(c->at[c->n].owner), "%s", owner);
    c->at[c->n].sandbox = sb;
    c->at[c->n].since_ms = now_ms;
    c->n++;
    return gone;
}

struct sandbox *idle_cache_expire(struct idle_cache *c, int64_t before_ms)
{
    return c->n > 0 && c->at[0].since_ms < before_ms ? remove_at(c, 0) : NULL;
}

struct sandbox *idle_cache_take_of(struct idle_cache *c, const char *owner)
{
    for (size_t i = 0; i < c->n; i++)
        if (str_eq(c->at[i].owner, owner))
            return remove_at(c, i);
    return NULL;
}
