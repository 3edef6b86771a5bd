#ifndef RIDDLE_BASE_MEMORY_H
#define RIDDLE_BASE_MEMORY_H

/*
 * How much memory there is for this process and what it starts: the machine's, or that of the
 * control groups around it where they allow less, as in a container. Control groups of both
 * versions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * root is "" but in tests, whose files are elsewhere. Both are -1 when nothing is known. They read
 * files: not for every request.
 */
int64_t memory_limit_bytes(const char *root);
int64_t memory_available_bytes(const char *root);

/*
 * ---- where control groups are: text of /proc/self/cgroup and /proc/self/mountinfo; controller ""
 * stands for version 2 ----
 */

bool cgroup_own_path(const char *cgroup_file, const char *controller, char *ret, size_t n);
bool cgroup_mount_point(const char *mountinfo, const char *controller, char *ret, size_t n);

#endif
