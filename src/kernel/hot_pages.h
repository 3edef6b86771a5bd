#ifndef RIDDLE_KERNEL_HOT_PAGES_H
#define RIDDLE_KERNEL_HOT_PAGES_H

/*
 * Pages that every kernel writes to in its first cell. Linux shares pages at a fork and copies each at the first write, one
 * fault at a time; pages that are pinned it copies at once, in the fork, at a quarter of the price. So the zygote learns which
 * pages these are, from a child that runs what kernels run, and pins them.
 */

/*
 * In the zygote, once, after its heap has been collapsed into huge pages. `rehearse` runs in the child. Best effort: where
 * io_uring, which holds the pins, is not to be had, kernels copy page by page.
 */
void hot_pages_pin(void (*rehearse)(void));

#endif
