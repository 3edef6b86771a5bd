#ifndef RIDDLE_BASE_HOME_LOCK_H
#define RIDDLE_BASE_HOME_LOCK_H

/*
 * One server, or one restore, for each RIDDLE_HOME: two would remove what the other is receiving.
 * The lock is Linux's (flock), so it goes with the process, however that ends.
 */

#include "base/err.h"

/* CONFLICT names the process that has it. *ret_fd holds the lock until it is closed. */
int home_lock(const char *home, const char *who, int *ret_fd, struct err *err);

#endif
