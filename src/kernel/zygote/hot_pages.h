#ifndef RIDDLE_KERNEL_ZYGOTE_HOT_PAGES_H
#define RIDDLE_KERNEL_ZYGOTE_HOT_PAGES_H

/*
 * Pages that a first cell uses. A fork shares all pages, and a kernel copies each at the first
 * write to it, one page fault at a time. The zygote learns once which pages these are, from a child
 * that does what kernels do. A kernel that waits in the pool populates them before a cell does; a
 * kernel that is taken at once does not, because most cells need only some of them.
 */

#include <stdint.h>

struct hot_rehearsal {
    /* In a child; returns, or calls hot_pages_rehearsed() when it has done what kernels do. */
    void (*run)(void *arg);
    void *arg;
    uint64_t clone_flags; /* of that child */
};

/* In the zygote, once, after its memory is arranged. Best effort: on failure no page is known. */
void hot_pages_learn(const struct hot_rehearsal *rehearsal);

_Noreturn void hot_pages_rehearsed(void);

/*
 * In a kernel: copies the pages that are written to, and maps those that are only read. Content
 * stays the same.
 */
void hot_pages_populate(void);

#endif
