#ifndef RIDDLE_KERNEL_PYTHON_REWIND_H
#define RIDDLE_KERNEL_PYTHON_REWIND_H

/*
 * Back in time: a debugged kernel forks at some of its steps, and each fork waits. To go back, the
 * nearest one before the step that is wanted is let go, and runs up to that step.
 *
 * The process that riddle has started cannot end: its end is the kernel's. Once it has gone back it
 * only supervises: it passes interrupts on to the process that runs now, and ends with it. Any
 * other process ends when it has let another one go. A fork that is let go leaves a fork of its own
 * behind, so that a step can be returned to more than once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define REWIND_ORDERS_MAX (1u << 20)

/* What a fork is told when it is let go. */
struct rewind_goal {
    int64_t step;
    char *orders; /* text of whoever let it go; the receiver's to free */
    size_t len;
};

/*
 * How many processes the kernel may have: at most half of them are forks that wait, so that a fork
 * is never what hits the limit of code that keeps within it.
 */
void rewind_limit(int pids);
/*
 * Forks. 0: this process goes on. 1: it is the fork, and was let go (much later). Negative: there
 * is none, e.g. because the limit of processes is reached or the process has threads.
 */
int rewind_mark(int64_t step, struct rewind_goal *ret_goal);
/* Lets the nearest fork up to `step` go. Comes back only with an error: NOT_FOUND. */
int rewind_go(int64_t step, const char *orders, size_t len, struct err *err);
/* The forks that are left end. */
void rewind_end(void);
/* Whether this process took the place of the one that riddle has started. */
bool rewind_is_fork(void);
/* Async-signal-safe: true if an interrupt was meant for another process, which has got it now. */
bool rewind_pass_on(int sig);

#endif
