#ifndef RIDDLE_FUZZ_SCRATCH_H
#define RIDDLE_FUZZ_SCRATCH_H

/*
 * A directory for a fuzzer that needs files: in memory where that exists, made at the first use,
 * gone when the process ends.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"

static char scratch[64]; /* its path; "" before the first use */

static void remove_scratch(void)
{
    struct err err = ERR_INIT;
    (void)fd_remove_tree(scratch, &err);
}

/* True when it was made by this call. */
static bool make_scratch(void)
{
    if (scratch[0])
        return false;
    snprintf(scratch, sizeof(scratch), "%s/riddle-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(scratch) || atexit(remove_scratch) != 0)
        abort();
    return true;
}

static void scratch_write(const char *name, const void *data, size_t len)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", scratch, name);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
        abort();
}

#endif
