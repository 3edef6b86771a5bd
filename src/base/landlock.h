#ifndef RIDDLE_BASE_LANDLOCK_H
#define RIDDLE_BASE_LANDLOCK_H

/* Rules for files that a process sets on itself, for kernels and for the worker of SQLite. */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

/* ABI version of the running kernel, 0 if there is none. */
int landlock_abi(void);

struct landlock_path {
    const char *path;
    bool writable;
};
/*
 * From now on this process reads and writes below these paths only. Those that do not exist are
 * skipped. ISOLATION. Needs no_new_privs or a capability.
 */
int landlock_apply(const struct landlock_path *paths, size_t n, struct err *err);

#endif
