#ifndef RIDDLE_SANDBOX_WORKSPACE_PATH_H
#define RIDDLE_SANDBOX_WORKSPACE_PATH_H

/* What both sides of the wire agree on about files of /workspace. */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/limits.h"

#define WORKSPACE_FILES_MAX 200 /* listed after a run */
#define WORKSPACE_DEPTH_MAX 8   /* names in a path */
#define WORKSPACE_PATH_MAX 512  /* bytes of a path */
#define WORKSPACE_NAME_MAX 255

/* One name of a path: UTF-8 without control characters, not "", "." or "..". */
bool workspace_name_ok(const char *name, size_t len);
/* Names with single slashes between them, within the limits above. */
bool workspace_path_ok(const char *path, size_t len);
/*
 * A caller's path as the kernel takes it, relative to /workspace: "/workspace/" and "./" in front
 * are dropped. VALIDATION for what could lead, or only seems to lead, anywhere else.
 */
int workspace_path(const char *path, char ret[WORKSPACE_PATH_MAX + 1], struct err *err);

#endif
