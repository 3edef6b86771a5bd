/* Nothing here allocates from the heap that it arranges. */

#include "kernel/zygote/memory.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/maps.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define CACHED_MAX                                                                                 \
    (1u << 20) /* free memory of a thread's cache, which mallinfo2() does not count */

void memory_fill_gaps(void)
{
    const struct mallinfo2 heap = mallinfo2();
    const uintptr_t end = (uintptr_t)sbrk(0) - heap.keepcost;
    /* No gap is left after so much; another malloc() may give nothing but addresses below `end`. */
    size_t left = heap.fordblks + CACHED_MAX;
    for (size_t size = 64u << 10; size >= 24; size -= size > 1024 ? size / 8 / 16 * 16 : 16) {
        void *volatile p;
        do {
            p = malloc(size);
            left -= MIN_OF(left, size);
        } while (p && (uintptr_t)p < end && left > 0);
        free(p);
    }
}

void memory_collapse(void)
{
    const uintptr_t huge = 2u << 20;
    struct maps maps;
    struct maps_entry m;
    maps_open(&maps, "/proc");
    while (maps_next(&maps, &m)) {
        uintptr_t from = (m.from + huge - 1) & ~(huge - 1), to = m.to & ~(huge - 1);
        if (m.inode == 0 && strcmp(m.perms, "rw-p") == 0 && from < to)
            (void)madvise((void *)from, to - from, MADV_COLLAPSE);
    }
    maps_close(&maps);
}

static bool has_rights(const struct maps_entry *m, const char *perms)
{
    return strcmp(m->perms, perms) == 0;
}

static bool are_beside(const struct maps_entry *a, const struct maps_entry *b)
{
    return a->inode != 0 && a->inode == b->inode && a->device == b->device && a->to == b->from;
}

/*
 * A library is mapped as symbols (r--), code (r-x), constants (r--), relocated pointers (r--) and
 * variables (rw-). Linux joins neighbours of the same file that have the same rights.
 */
static void join(const struct maps_entry *before, const struct maps_entry *m,
                 const struct maps_entry *next)
{
    int prot = 0;
    if (!has_rights(m, "r--p"))
        return;
    if ((are_beside(before, m) && has_rights(before, "r-xp")) ||
        (are_beside(m, next) && has_rights(next, "r-xp")))
        prot = PROT_READ | PROT_EXEC;
    else if (are_beside(m, next) && has_rights(next, "rw-p"))
        prot = PROT_READ | PROT_WRITE;
    if (prot)
        (void)mprotect((void *)m->from, m->to - m->from, prot);
}

void memory_join_libraries(void)
{
    struct maps maps;
    struct maps_entry before = { 0 }, m = { 0 }, next;
    maps_open(&maps, "/proc");
    while (maps_next(&maps, &next)) {
        join(&before, &m, &next);
        before = m;
        m = next;
    }
    maps_close(&maps);
}
