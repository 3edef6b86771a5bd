#ifndef RIDDLE_DATABASE_SQLITE_JAIL_H
#define RIDDLE_DATABASE_SQLITE_JAIL_H

/*
 * What the worker of SQLite gives up before it opens its file, for good: system calls but those
 * that SQLite and the C library need, every file but those in the directory of its own, and, as
 * root, every capability but those that open it. A file that makes SQLite run its own code then
 * reads what lies beside it, and nothing else.
 */

#include <stdbool.h>
#include "base/err.h"

/* path: of the file. ISOLATION: the worker must end. Landlock is left out where Linux has none. */
int sqlite_jail(const char *path, bool writable, struct err *err);

#endif
