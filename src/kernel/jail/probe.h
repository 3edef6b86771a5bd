#ifndef RIDDLE_KERNEL_JAIL_PROBE_H
#define RIDDLE_KERNEL_JAIL_PROBE_H

#include <stdio.h>

/*
 * What of the jail holds on this machine, tried for real in short-lived children, and what of the
 * kernel's libraries is there. One JSON object on one line:
 * {"layers":[{"name","status":"pass|caution|fail","detail","remedy"}]}. Returns the exit status.
 */
int probe_print(FILE *out);

#endif
