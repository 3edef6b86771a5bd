#ifndef RIDDLE_KERNEL_IMAGE_BASE_H
#define RIDDLE_KERNEL_IMAGE_BASE_H

/*
 * The memory of a zygote as a file. Images of its kernels hold only pages that differ from it, so
 * it is written once and kept as long as there are such images.
 */

#include "kernel/image/image_impl.h"

#define BASE_MAGIC 0x3165736142646452ull /* "RddBase1" */

/* Behind it: runs; padding to a page; pages; the zygote's image, a difference to them. */
struct base_head {
    uint64_t magic;
    uint64_t check; /* of the head, without this, and of the runs */
    uint64_t n_runs, n_pages;
    uint64_t pages_check; /* of all pages */
};

/* A base that is mapped. Without runs: there is none. */
struct base {
    const struct base_head *head;
    const struct image_run *runs;
    size_t n_runs;
    const char *pages;
};

/* A walk by rising addresses. */
struct base_cursor {
    size_t run, change;
    uint64_t before; /* pages of the runs before it */
};

/* Maps the file at the place that is reserved for it. VALIDATION if it is no base. */
int base_map(int fd, struct base *ret, struct err *err);
void base_unmap(void);

/* What the base has for this page; NULL: nothing. */
static inline __attribute__((always_inline)) const void *base_page(const struct base *b,
                                                                   struct base_cursor *c,
                                                                   uint64_t at)
{
    while (c->run < b->n_runs && b->runs[c->run].from + b->runs[c->run].pages * IMAGE_PAGE <= at) {
        c->before += b->runs[c->run].pages;
        c->run++;
    }
    if (c->run == b->n_runs || b->runs[c->run].from > at)
        return NULL;
    return b->pages + c->before * IMAGE_PAGE + (at - b->runs[c->run].from);
}

/* Whether the zygote may have this page otherwise than its base. Asked by rising addresses. */
static inline __attribute__((always_inline)) bool base_differs(const struct image_changes *changes,
                                                               struct base_cursor *c, uint64_t at)
{
    if (changes->any)
        return true;
    while (c->change < changes->n &&
           changes->runs[c->change].from + changes->runs[c->change].pages * IMAGE_PAGE <= at)
        c->change++;
    return c->change < changes->n && changes->runs[c->change].from <= at;
}

/*
 * Up to where the base has every page as the zygote has it, from one on that base_page() and
 * base_differs() were asked for last and that is such a page.
 */
static inline __attribute__((always_inline)) uint64_t base_same_until(
    const struct base *b, const struct image_changes *changes, const struct base_cursor *c)
{
    uint64_t end = b->runs[c->run].from + b->runs[c->run].pages * IMAGE_PAGE;
    uint64_t change = c->change < changes->n ? changes->runs[c->change].from : end;
    return change < end ? change : end;
}

/* How many pages of the first n are there and shared, by their entries. */
static inline __attribute__((always_inline)) size_t pages_shared(const uint64_t *entries, size_t n)
{
    size_t i = 0;
    while (i < n && (entries[i] & (PM_PRESENT | PM_EXCLUSIVE | PM_FILE)) == PM_PRESENT)
        i++;
    return i;
}

/* Before this address the base has no page that base_page() was not asked for. */
static inline __attribute__((always_inline)) uint64_t base_next(const struct base *b,
                                                                const struct base_cursor *c)
{
    return c->run < b->n_runs ? b->runs[c->run].from : IMAGE_ADDRESS_MAX;
}

static inline __attribute__((always_inline)) bool page_is_zero(const void *page)
{
    const checksum_word *p = page;
    for (size_t i = 0; i < IMAGE_PAGE / sizeof(*p); i += 8)
        if (p[i] | p[i + 1] | p[i + 2] | p[i + 3] | p[i + 4] | p[i + 5] | p[i + 6] | p[i + 7])
            return false;
    return true;
}

#define PAGE_BLOCK 64 /* bytes that are compared at a time */

static inline __attribute__((always_inline)) bool blocks_are_equal(const void *x, const void *y)
{
    typedef uint64_t __attribute__((vector_size(16), may_alias)) pair;
    const pair *a = x, *b = y;
    pair differ = (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
    return (differ[0] | differ[1]) == 0;
}

static inline __attribute__((always_inline)) bool pages_are_equal(const void *x, const void *y)
{
    for (size_t i = 0; i < IMAGE_PAGE; i += PAGE_BLOCK)
        if (!blocks_are_equal((const char *)x + i, (const char *)y + i))
            return false;
    return true;
}

#endif
