#ifndef RIDDLE_KERNEL_ZYGOTE_ZYGOTE_H
#define RIDDLE_KERNEL_ZYGOTE_ZYGOTE_H

#include <stdbool.h>
#include "base/err.h"

#define ZYGOTE_BASE_OPTION "--base"

struct zygote_options {
    bool python;         /* false: DuckDB only, ready in a fraction of the time */
    const char *preload; /* Python packages */
    bool one_shot;       /* for a kernel or two: what pays off only with many is left out */
    bool partial;        /* RIDDLE_JAIL=partial */
    bool parent_maps;    /* started by root: riddle writes the id maps */
    const char *without; /* of arenas, join, hot, nets, for bench/kernel; NULL: nothing */
    int sock;
    int base;    /* of an earlier zygote of this kind, to become; negative: none */
    char **argv; /* to start over with */
};

struct kernel_parts;
/* Sets what there is to load: the engine, and Python if it is wanted. */
int zygote_load_parts(const struct zygote_options *opt, struct kernel_parts *parts,
                      struct err *err);

/* Loads, confines itself, says hello, and serves until the socket closes. Returns 0 then. */
int zygote_serve(const struct zygote_options *opt, struct err *err);

#endif
