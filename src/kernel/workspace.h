#ifndef RIDDLE_KERNEL_WORKSPACE_H
#define RIDDLE_KERNEL_WORKSPACE_H

/*
 * Files of /workspace, from inside the jail. What lies there is user code's, and its processes may
 * go on changing it meanwhile: no link is followed, nothing but regular files and directories is
 * opened for good, no open waits.
 *
 * `root` is "/workspace", or NULL where the jail has none of its own. A file that is not there or
 * is not for reading is a result with the verdict "error", not a failure.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "kernel/result.h"

/*
 * Adds "files":[{"path","size","modified"}…],"files_truncated":true|false to an object. Nothing
 * without a root.
 */
void workspace_list(const char *root, struct json_out *out);
/*
 * The request `read`: "size" of the file and "bytes", the length of the piece. The piece itself,
 * unless it is empty, goes to emit.
 */
void workspace_read(const char *root, const json_t *req,
                    void (*emit)(const char *bytes, size_t len), struct result *out);
/*
 * The request `write` and the bytes that came with it: "size". A piece that does not fit is taken
 * back.
 */
void workspace_write(const char *root, const json_t *req, const char *data, size_t len,
                     struct result *out);

#endif
