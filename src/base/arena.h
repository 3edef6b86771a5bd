#ifndef RIDDLE_BASE_ARENA_H
#define RIDDLE_BASE_ARENA_H

/* One arena per request or turn: allocations are bumps, freed all at once. Bounded by max_bytes. */

#include <stdarg.h>
#include <stddef.h>
#include "base/macros.h"

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used_bytes;
    size_t max_bytes;
};

#define auto_arena __attribute__((cleanup(arena_finish)))

void arena_init(struct arena *a, size_t max_bytes);
void arena_finish(struct arena *a);
void arena_clear(struct arena *a); /* frees all but one block */

/* NULL when the maximum is reached or memory is out. Aligned for any type, zeroed. */
void *arena_alloc(struct arena *a, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
