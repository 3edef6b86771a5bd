#ifndef RIDDLE_RUN_FOREGROUND_H
#define RIDDLE_RUN_FOREGROUND_H

/*
 * Sandboxes for a command that does one thing after the other: the executor with an event loop of
 * its own, which runs while the command waits. Everything here blocks. A command that runs one
 * piece of code calls foreground_execute(); one that does several things with a sandbox acquires a
 * lease.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "run/run.h"
#include "sandbox/pool/executor.h"
#include "sandbox/sandbox.h"

struct foreground;

#define FOREGROUND_OWNER "local" /* whom sandboxes and runs of commands belong to */

/* With opt one_shot the provider prepares only what the code needs; opt may be NULL. */
int foreground_open(const struct config *cfg, const struct executor_options *opt,
                    struct foreground **ret, struct err *err);
/* Releases what is left, kills it and waits for its end. NULL is fine. */
void foreground_close(struct foreground *fg);
struct executor *foreground_executor(struct foreground *fg);
uv_loop_t *foreground_loop(struct foreground *fg);

/*
 * stop->fd is readable when the person wants out, as a signalfd is: the first time the run is
 * interrupted and its result still comes; the second time CANCELLED is returned at once.
 * stop->count tells how often that was.
 */
struct run_stop {
    int fd;
    int count;
};

/*
 * A run of run.h from its specification to its end; nothing is kept of it. Of the listener, which
 * may be NULL, phase, ended and done are not called. stop works from when the code begins; stop and
 * ret_lease may be NULL. *ret_lease is the sandbox after the run, for lease_release(); NULL where
 * there is none any more.
 */
int foreground_execute(struct foreground *fg, const struct run_spec *spec,
                       const struct run_listener *listener, struct run_stop *stop,
                       struct lease **ret_lease, struct run_result *ret, struct err *err);

/* Hashes and ingests what is new, and makes a sandbox. lease_release() gives it back. */
int foreground_acquire(struct foreground *fg, const struct sandbox_spec *spec,
                       const struct run_events *events, struct lease **ret, struct err *err);
int foreground_run(struct foreground *fg, struct lease *lease, const struct run_request *req,
                   struct run_result *ret, struct err *err);
/* Waits for what lease_run() began with this callback. */
struct foreground_result {
    bool done;
    struct run_result result;
    struct err err;
};
/* arg: one of these */
void foreground_ran(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg);
int foreground_wait(struct foreground *fg, struct foreground_result *waiting,
                    struct run_result *ret, struct err *err);

/*
 * lease_export() to its end; each piece is handed to write(), whose failure ends it. The first stop
 * is the last.
 */
int foreground_export(struct foreground *fg, struct lease *lease, const struct lease_export *export,
                      int (*write)(void *arg, const void *data, size_t len, struct err *err),
                      void *arg, struct run_stop *stop, struct err *err);

/*
 * At most max_bytes, and at most FILE_PIECE_MAX. The piece points into `data`, which must be able
 * to hold it.
 */
int foreground_read_file(struct foreground *fg, struct lease *lease, const char *path,
                         int64_t offset, int64_t max_bytes, struct buf *data,
                         struct file_piece *ret, struct err *err);
int foreground_write_file(struct foreground *fg, struct lease *lease, const char *path,
                          const void *data, size_t len, bool append, struct err *err);

#endif
