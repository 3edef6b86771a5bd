#ifndef RIDDLE_KERNEL_ZYGOTE_PLACEMENT_H
#define RIDDLE_KERNEL_ZYGOTE_PLACEMENT_H

/*
 * Where CPython's blocks live that kernels write to. Even reading a Python object writes to it (its count of references), and the
 * objects that a first cell uses lie scattered over some thousand pages, each of which a fork has to copy. But a zygote that loads the
 * same packages makes the same allocations in the same order: so it is learnt once, when Riddle is built, which of them are written to
 * (placement_learn), and a zygote that knows puts those side by side.
 *
 * The plan names a block by its section (the package that was being loaded) and its number there. If a package has changed since,
 * other blocks are put there, and forks cost what they cost without a plan; nothing else depends on it.
 */

#include "base/err.h"

/* Before CPython starts. No plan at that path: blocks are where they always are. */
void placement_follow(const char *plan_path);
/* Or: notes every block, for placement_learn(). */
int placement_record(struct err *err);

/* Numbers start again. */
void placement_section(const char *name);
/* Everything is loaded: CPython's own allocator takes over. */
void placement_end(void);

/* Runs `rehearse`, sees what it writes to, and writes the plan. Takes some seconds. */
int placement_learn(void (*rehearse)(void), const char *plan_path, struct err *err);

#endif
