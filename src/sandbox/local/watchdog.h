#ifndef RIDDLE_SANDBOX_LOCAL_WATCHDOG_H
#define RIDDLE_SANDBOX_LOCAL_WATCHDOG_H

/*
 * What stands in for control groups where riddle may not make any: the memory of a kernel's
 * processes, added up from outside, and the means to hold all of them still while nobody adds up.
 * `first` is the first process of the kernel's pid namespace and a child of ours; `max` bounds how
 * many processes are looked at (the sandbox's limit of them).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory of all of them in kB, beyond `shared_kb` in each that it has from the zygote. */
int64_t watchdog_used_kb(pid_t first, int max, int64_t shared_kb);

/*
 * Stops all of them. False if they multiply faster than they can be stopped: then only SIGKILL is
 * left.
 */
bool watchdog_stop(pid_t first, int max);
void watchdog_continue(pid_t first, int max);

#endif
