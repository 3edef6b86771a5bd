#ifndef RIDDLE_CLI_SAVE_H
#define RIDDLE_CLI_SAVE_H

/* What code left in its sandbox's /workspace, copied into a directory of the host. */

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "run/foreground.h"

struct save {
    const char *directory; /* made if it is not there */
    bool force;            /* replaces files that are there */
    int64_t max_bytes;     /* in all */
};

/*
 * Copies the files that a run's body lists and prints their names on standard error. CONFLICT, with
 * nothing copied, if one of them is there already. Each file is whole or not there.
 */
int save_files(const struct save *s, struct foreground *fg, struct lease *lease, const json_t *body,
               struct err *err);

#endif
