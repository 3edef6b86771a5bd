#ifndef RIDDLE_KERNEL_WORKSPACE_H
#define RIDDLE_KERNEL_WORKSPACE_H

/*
 * Files of /workspace, from inside the jail. What lies there is user code's, and its processes may go on changing it meanwhile: no link
 * is followed, nothing but regular files and directories is opened for good, no open waits.
 *
 * `root` is "/workspace", or NULL where the jail has none of its own. A file that is not there or is not for reading is a result with
 * the verdict "error", not a failure.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "kernel/result.h"

/* Adds "files":[{"path","size","modified"}…],"files_truncated":true|false to an object. Nothing without a root. */
void workspace_list(const char *root, struct json_out *out);
/* A request {"path","offset","max_bytes"}: "verdict","size","bytes", the length of the piece; the piece itself, behind a NUL, goes to emit. */
int workspace_read(const char *root, const json_t *req, void (*emit)(void *arg, const char *frame, size_t len), void *arg,
                   struct result *out, struct err *err);
/* A request {"path","append"} and the bytes that came with it: "verdict","size". A piece that does not fit is taken back. */
int workspace_write(const char *root, const json_t *req, const char *data, size_t len, struct result *out, struct err *err);

#endif
