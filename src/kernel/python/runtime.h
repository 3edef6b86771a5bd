#ifndef RIDDLE_KERNEL_PYTHON_RUNTIME_H
#define RIDDLE_KERNEL_PYTHON_RUNTIME_H

/*
 * The Python files of runtime/, compiled in by scripts/embed-files. The list ends with a NULL name.
 */

#include <stddef.h>

struct runtime_file {
    const char *name; /* "session", "__init__" */
    const char *text; /* UTF-8, terminated */
    size_t len;
};

extern const struct runtime_file runtime_files[];

#endif
