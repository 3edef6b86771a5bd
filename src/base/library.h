#ifndef RIDDLE_BASE_LIBRARY_H
#define RIDDLE_BASE_LIBRARY_H

/*
 * Libraries that are loaded when they are first needed, because most commands of `riddle` never do
 * and should not wait for them.
 */

#include <stddef.h>
#include "base/err.h"

struct library_symbol {
    const char *name;
    void *pointer; /* to the pointer that gets its address */
};

/*
 * Loads a library by its soname; package is what Debian calls it (gen/platform.h has both). It
 * stays loaded. UNAVAILABLE when it or one of its symbols is not to be had.
 */
int library_load(const char *file, const char *package, const struct library_symbol *symbols,
                 size_t n, struct err *err);

#endif
