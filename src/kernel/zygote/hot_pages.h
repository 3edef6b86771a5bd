#ifndef RIDDLE_KERNEL_ZYGOTE_HOT_PAGES_H
#define RIDDLE_KERNEL_ZYGOTE_HOT_PAGES_H

/*
 * Pages that every kernel uses in its first cell. Linux shares pages at a fork and copies each at the first write, one fault at a
 * time; pages that are pinned it copies at once, in the fork, at a quarter of the price. Of programs and libraries a fork maps
 * nothing: what a child runs, it faults in, except where a mapping has a page of its own. So the zygote learns which pages these are,
 * from a child that does what kernels do, pins those that it writes to, and has those that it only reads mapped in the fork.
 */

#include <stdint.h>

struct hot_rehearsal {
    void (*run)(void *arg); /* in a child; returns, or calls hot_pages_rehearsed() when it has done what kernels do */
    void *arg;
    uint64_t clone_flags;   /* of that child */
    const char *proc;       /* where the zygote has /proc */
};

/* Before the process confines itself: what will hold the pins; -1 if it is not to be had. Afterwards a limit might forbid them. */
int hot_pages_open(void);

/*
 * Once, after the heap has been collapsed into huge pages. Best effort: where io_uring, which holds the pins, is not to be had,
 * kernels copy page by page.
 */
void hot_pages_learn(int ring, const struct hot_rehearsal *rehearsal);

_Noreturn void hot_pages_rehearsed(void);

#endif
