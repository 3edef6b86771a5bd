#ifndef RIDDLE_SANDBOX_POOL_IDLE_CACHE_H
#define RIDDLE_SANDBOX_POOL_IDLE_CACHE_H

/*
 * Sandboxes that are done but not yet let go: a SQL kernel holds nothing but read-only tables and a
 * locked engine, so the next query of the same owner on the same tables may have it. Bounded in
 * number and in time; the least recently used goes first.
 */

#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"
#include "sandbox/sandbox.h"

#define IDLE_CACHE_MAX 64
#define IDLE_KEY_SIZE HASH_HEX_SIZE

struct idle_cache {
    struct {
        char key[IDLE_KEY_SIZE];
        char owner[64];
        struct sandbox *sandbox;
        int64_t since_ms;
    } at[IDLE_CACHE_MAX];
    size_t n, max;
};

void idle_cache_init(struct idle_cache *c, size_t max);

/*
 * The key of what a sandbox is for: owner, data set, names and files of its tables, limits. False
 * when out of memory.
 */
struct table_file;
bool idle_cache_key(const char *owner, const struct sandbox_spec *spec,
                    const struct table_file *tables, char ret[IDLE_KEY_SIZE]);

/* One for this key, which is then the caller's; NULL if there is none. */
struct sandbox *idle_cache_take(struct idle_cache *c, const char *key);
/*
 * Keeps it. Returns one that has to go for it (perhaps this very one), or NULL: the oldest one of
 * the owner who has most.
 */
struct sandbox *idle_cache_put(struct idle_cache *c, const char *owner, const char *key,
                               struct sandbox *sb, int64_t now_ms);
/* The next one kept since before this time, now the caller's; NULL when there is no more. */
struct sandbox *idle_cache_expire(struct idle_cache *c, int64_t before_ms);
/* One of this owner's, now the caller's; NULL when there is no more. */
struct sandbox *idle_cache_take_of(struct idle_cache *c, const char *owner);

#endif
