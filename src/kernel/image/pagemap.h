#ifndef RIDDLE_KERNEL_IMAGE_PAGEMAP_H
#define RIDDLE_KERNEL_IMAGE_PAGEMAP_H

/*
 * What /proc/self/pagemap tells, beyond its entries: where pages are, without a look at each
 * address, and which of them are Linux's page of zeros, without a look at their content (Linux
 * 6.7). Usable in the second half of restoring: makes system calls itself and touches no variable
 * of the program.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernel/jail/syscalls.h"

#if defined(__x86_64__)

#define BARE_INLINE static inline __attribute__((always_inline))

BARE_INLINE long bare_call(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

/* As Linux has them (linux/fs.h); Debian 12's headers are older. */
struct pagemap_range {
    uint64_t from, to, categories;
};

struct pagemap_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

_Static_assert(sizeof(struct pagemap_scan_arg) == 96, "IOCTL_PAGEMAP_SCAN has its size");

#define PAGE_PRESENT (1ull << 3)
#define PAGE_SWAPPED (1ull << 4)
#define PAGE_ZERO (1ull << 5)

#define PAGEMAP_RANGES 512
#define PAGEMAP_ENTRIES 4096
/* So many addresses without a page are read over rather than passed over. */
#define PAGEMAP_GAP (256 * 4096ull)

/* Returns the number of ranges, or an error as Linux has it. */
BARE_INLINE long pagemap_scan(int fd, struct pagemap_scan_arg *arg, struct pagemap_range *ranges,
                              size_t n)
{
    arg->size = sizeof(*arg);
    arg->vec = (uint64_t)ranges;
    arg->vec_len = n;
    return bare_call(SYS_ioctl, fd, (long)IOCTL_PAGEMAP_SCAN, (long)arg, 0, 0, 0);
}

/* ---- what is there ---- */

/*
 * A walk by rising addresses over all pages that are there. Whether a page is a file's is not asked
 * for: Linux would have to look at each. With the fewest system calls: kernels have hundreds of
 * mappings, and each call passes their filter.
 */
struct pagemap_walk {
    int fd;
    bool is_blind; /* Linux cannot tell: every mapping is one range */
    uint64_t next, end;
    size_t n, i;
    struct pagemap_range ranges[PAGEMAP_RANGES];
    uint64_t from, to; /* of the entries */
    uint64_t entries[PAGEMAP_ENTRIES];
};

static inline void pagemap_walk_begin(struct pagemap_walk *w, int fd, uint64_t from, uint64_t to)
{
    w->fd = fd;
    w->next = from;
    w->end = to;
    w->n = w->i = 0;
    w->is_blind = false;
    w->from = w->to = 0;
}

/*
 * The next pages of one kind between two addresses, the first of which only rises. False: there are
 * no more.
 */
static inline bool pagemap_walk_next(struct pagemap_walk *w, uint64_t from, uint64_t to,
                                     struct pagemap_range *ret)
{
    while (!w->is_blind) {
        for (; w->i < w->n && w->ranges[w->i].to <= from; w->i++)
            ;
        if (w->i < w->n) {
            *ret = w->ranges[w->i];
            ret->from = ret->from > from ? ret->from : from;
            ret->to = ret->to < to ? ret->to : to;
            return ret->from < ret->to;
        }
        if (w->next >= w->end)
            return false;
        struct pagemap_scan_arg arg = { .start = w->next > from ? w->next : from,
                                        .end = w->end,
                                        .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
                                        .return_mask = PAGE_ZERO };
        long n = pagemap_scan(w->fd, &arg, w->ranges, PAGEMAP_RANGES);
        w->is_blind = n < 0 || arg.walk_end <= w->next;
        w->next = arg.walk_end;
        w->n = n < 0 ? 0 : (size_t)n;
        w->i = 0;
    }
    *ret = (struct pagemap_range){ from, to, 0 };
    return from < to;
}

/* The entry of a page of the range that the walk gave last. False if it cannot be read. */
static inline bool pagemap_walk_entry(struct pagemap_walk *w, const struct pagemap_range *range,
                                      uint64_t at, uint64_t *ret)
{
    if (at < w->from || at >= w->to) {
        uint64_t to = range->to, max = at + PAGEMAP_ENTRIES * 4096ull;
        for (size_t k = w->i + 1; k < w->n && to < max && w->ranges[k].from - to <= PAGEMAP_GAP;
             k++)
            to = w->ranges[k].to;
        w->from = at;
        w->to = to < max ? to : max;
        long len = (long)((w->to - w->from) / 4096 * 8);
        if (bare_call(SYS_pread64, w->fd, (long)w->entries, len, (long)(at / 4096 * 8), 0, 0) !=
            len) {
            w->to = 0;
            return false;
        }
    }
    *ret = w->entries[(at - w->from) / 4096];
    return true;
}

/* ---- pages of zeros ---- */

#define PAGEMAP_ZEROS 64

struct pagemap_zeros {
    long n; /* negative: not known */
    struct pagemap_range ranges[PAGEMAP_ZEROS];
};

BARE_INLINE void pagemap_find_zeros(int fd, uint64_t from, uint64_t to, struct pagemap_zeros *ret)
{
    struct pagemap_scan_arg arg = {
        .start = from, .end = to, .category_mask = PAGE_ZERO, .return_mask = PAGE_ZERO
    };
    ret->n = pagemap_scan(fd, &arg, ret->ranges, PAGEMAP_ZEROS);
    if (ret->n == PAGEMAP_ZEROS || arg.walk_end < to)
        ret->n = -1;
}

/* Whether none of these pages is Linux's page of zeros. */
BARE_INLINE bool pagemap_has_no_zeros(const struct pagemap_zeros *zeros, uint64_t from, uint64_t to)
{
    for (long i = 0; i < zeros->n; i++)
        if (zeros->ranges[i].from < to && zeros->ranges[i].to > from)
            return false;
    return zeros->n >= 0;
}

#endif

#endif
