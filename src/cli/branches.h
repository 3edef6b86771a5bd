#ifndef RIDDLE_CLI_BRANCHES_H
#define RIDDLE_CLI_BRANCHES_H

/* Forks and checkpoints of threads and sandboxes of a running server. */

#include <stdbool.h>
#include "cli/remote.h"

#define BRANCHES_USAGE                                                                             \
    "  fork          makes a new one with the same data and variables, and prints its id\n"        \
    "  checkpoint    keeps the present variables, and prints the id of the checkpoint\n"           \
    "  checkpoints   lists what rollback can go back to\n"                                         \
    "  rollback      sets the variables back to CHECKPOINT, or to the newest one\n"

bool branches_knows(const char *action);
/* words: the id, then for rollback a checkpoint. name: of --name, or NULL. An exit status. */
int branches_act(const struct remote *to, bool is_sandbox, const char *action, const char *name,
                 char **words, int n);

#endif
