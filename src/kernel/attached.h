#ifndef RIDDLE_KERNEL_ATTACHED_H
#define RIDDLE_KERNEL_ATTACHED_H

#include <stdbool.h>
#include "base/err.h"

struct attached_options {
    bool python;
    const char *preload; /* packages, by commas */
};

/*
 * The first process of a container: starts one kernel and relays between it and the frames of mux.h
 * on standard input and output, until the kernel ends or input does. Returns the exit status of the
 * program. What cannot be done is said on standard error.
 */
int attached_run(const struct attached_options *opt);

#endif
