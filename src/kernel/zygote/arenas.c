/*
 * Arenas of CPython's object allocator, side by side in one reserved range. What is freed goes back
 * to the machine and is the first to be used again; when the range is full, arenas are mappings of
 * their own, as they are without this file.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel/zygote/arenas.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define ARENA_BYTES (1u << 20) /* of CPython 3.10 and later; other sizes are mapped one by one */
#define ARENAS_MAX 1024
#define HUGE_PAGE_BYTES (2u << 20)

/* One interpreter per process: its allocator is just as global. */
static struct {
    char *base;
    bool used[ARENAS_MAX];
    size_t lowest_free;
} arenas;

static void *arena_alloc(void *ctx, size_t size)
{
    (void)ctx;
    size_t i = arenas.lowest_free;
    while (i < ARENAS_MAX && arenas.used[i])
        i++;
    if (size == ARENA_BYTES && arenas.base && i < ARENAS_MAX) {
        arenas.used[i] = true;
        arenas.lowest_free = i + 1;
        return arenas.base + i * ARENA_BYTES;
    }
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void arena_free(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    uintptr_t at = (uintptr_t)ptr - (uintptr_t)arenas.base;
    if (!arenas.base || at >= (uintptr_t)ARENAS_MAX * ARENA_BYTES) {
        munmap(ptr, size);
        return;
    }
    (void)madvise(ptr, size, MADV_DONTNEED);
    arenas.used[at / ARENA_BYTES] = false;
    if (at / ARENA_BYTES < arenas.lowest_free)
        arenas.lowest_free = at / ARENA_BYTES;
}

void arenas_install(void)
{
    const size_t size = (size_t)ARENAS_MAX * ARENA_BYTES;
    if (arenas.base)
        return;
    char *p = mmap(NULL, size + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return;
    size_t skip = (HUGE_PAGE_BYTES - (uintptr_t)p % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    arenas.base = p + skip;
    PyObjectArenaAllocator allocator = { NULL, arena_alloc, arena_free };
    PyObject_SetArenaAllocator(&allocator);
}
