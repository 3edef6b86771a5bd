#ifndef RIDDLE_SANDBOX_WORKSPACE_H
#define RIDDLE_SANDBOX_WORKSPACE_H

/*
 * Files of a live sandbox's /workspace: riddle's side. The kernel does the reading and writing
 * inside its own jail (src/kernel/workspace.c); riddle never opens any of these files, it only
 * checks what it is told.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/sandbox.h"
#include "sandbox/workspace_path.h"

/*
 * Whether "files" and "files_truncated" of a kernel's result, if there, are of the agreed shape:
 * sorted, each path once.
 */
bool workspace_files_ok(const json_t *body);

/* ---- requests and their answers, for whoever waits for them in whatever way ---- */

struct workspace_op {
    json_t *request; /* the caller's to free */
    bool write;
    const void *data; /* of a write, borrowed */
    size_t len;
    int64_t offset, max_bytes; /* of a read */
};

int workspace_read_op(const char *path, int64_t offset, int64_t max_bytes, struct workspace_op *ret,
                      struct err *err);
int workspace_write_op(const char *path, const void *data, size_t len, bool append,
                       struct workspace_op *ret, struct err *err);
int workspace_remove_op(const char *path, struct workspace_op *ret, struct err *err);
/* Sends it; CONFLICT while a run is under way. */
int workspace_begin(struct sandbox *sb, const struct workspace_op *op, sandbox_done_fn done,
                    void *arg, struct err *err);
/* variables: those of Python, too. */
int workspace_begin_list(struct sandbox *sb, bool variables, sandbox_done_fn done, void *arg,
                         struct err *err);
/* What came of it. The piece points into the result. */
int workspace_answer(const struct workspace_op *op, const struct run_result *result,
                     struct file_piece *ret, struct err *err);

/* A kernel that takes longer than this for a piece is stopped like one whose run takes too long. */
#define WORKSPACE_TIMEOUT_MS 10000

/* ---- files of a specification ---- */

/*
 * VALIDATION for a raw file whose name cannot stand below /data, and for two files of one name
 * there.
 */
int sandbox_files_check(const struct sandbox_spec *spec, struct err *err);

#endif
