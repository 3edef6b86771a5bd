/* The arena: a list of blocks, the first of which is allocated from. */

#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES 8192u
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t cap, used;
    _Alignas(max_align_t) char data[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
    *a = (struct arena){ .head = NULL, .used_bytes = 0, .max_bytes = max_bytes };
}

static void free_blocks(struct arena_block *b)
{
    while (b) {
        struct arena_block *next = b->next;

        free(b);
        b = next;
    }
}

void arena_finish(struct arena *a)
{
    free_blocks(a->head);
    a->head = NULL;
    a->used_bytes = 0;
}

void arena_clear(struct arena *a)
{
    a->used_bytes = 0;
    if (!a->head)
        return;
    free_blocks(a->head->next);
    a->head->next = NULL;
    a->head->used = 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_block *b = a->head;
    size_t rounded;
    void *p;

    if (size > SIZE_MAX - sizeof(struct arena_block) - ARENA_ALIGN)
        return NULL;
    /* An empty allocation takes room as well, so that each has an address of its own. */
    rounded = (MAX_OF(size, 1) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (size > a->max_bytes - MIN_OF(a->used_bytes, a->max_bytes))
        return NULL;

    if (!b || rounded > b->cap - b->used) {
        size_t cap = MAX_OF(rounded, ARENA_BLOCK_BYTES);

        b = malloc(sizeof(*b) + cap);
        if (!b)
            return NULL;
        b->cap = cap;
        b->used = 0;
        if (a->head && rounded > ARENA_BLOCK_BYTES / 4) {
            /* A large one gets a block to itself behind the head, whose room stays in use. */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    p = b->data + b->used;
    b->used += rounded;
    a->used_bytes += rounded;
    return memset(p, 0, rounded);
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    size_t n = strnlen(s, len);
    char *p = arena_alloc(a, n + 1);

    return p ? memcpy(p, s, n) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args;
    char *p;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return NULL;
    p = arena_alloc(a, (size_t)n + 1);
    if (!p)
        return NULL;
    va_start(args, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, args);
    va_end(args);
    return p;
}
