#ifndef RIDDLE_KERNEL_KERNEL_H
#define RIDDLE_KERNEL_KERNEL_H

/* The life of one kernel: from clone3 to its last request. */

#include <stdbool.h>
#include "kernel/jail/jail.h"
#include "kernel/sql/sql.h"

struct kernel_parts {
    struct jail_template *jail;
    struct sql_engine *engine;
    bool has_python;
    bool pooled;            /* it will wait for its start: time to prepare */
    void (*answered)(void); /* after each answer, or NULL */
};

/*
 * Runs in the child of clone3 and never returns. The three descriptors become 3 (control), 1 and 2;
 * everything else is closed.
 */
_Noreturn void kernel_main(const struct kernel_parts *parts, int control_fd, int stdout_fd,
                           int stderr_fd);

#endif
