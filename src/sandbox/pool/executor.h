#ifndef RIDDLE_SANDBOX_POOL_EXECUTOR_H
#define RIDDLE_SANDBOX_POOL_EXECUTOR_H

/*
 * Sandboxes for an event loop: nothing here blocks. A lease is a sandbox of one owner, from
 * executor_acquire() to lease_release(). Acquiring waits for a place (admission.h), hashes and
 * ingests what is new, and takes a kernel from the pool.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "base/config.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

struct executor;
struct lease;
struct provider_ops;

struct executor_options {
    bool lazy;                           /* start nothing before it is needed */
    bool one_shot;                       /* for a command that makes one sandbox and ends */
    enum run_kind kind;                  /* … what it runs */
    const char *code;                    /* … to know which packages that needs; may be NULL */
    const struct provider_ops *provider; /* NULL: the one that SANDBOX_PROVIDER names */
};

/*
 * Opens the provider that SANDBOX_PROVIDER names. Waits, by running the loop, until the first SQL
 * kernel is there, which shows that sandboxes can be had on this machine; Python's come up while
 * the loop runs. Not so with opt (may be NULL) lazy or one_shot.
 */
int executor_create(uv_loop_t *loop, const struct config *cfg, const struct executor_options *opt,
                    struct executor **ret, struct err *err);
/* Releases everything and kills what is left, by running the loop. */
void executor_destroy(struct executor *ex);

struct executor_stats {
    size_t queued, loading, running, idle, parked, pooled,
        places;                       /* places of SQL and Python together */
    int64_t memory_bytes, held_bytes; /* for kernels in all; counted for those that are there */
    uint64_t runs[_VERDICT_MAX], zygote_restarts, refused;
    unsigned caps; /* of the provider */
};
void executor_stats(const struct executor *ex, struct executor_stats *ret);
/* How kernels of this kind can be had: whether the last start failed, why and since when. */
void executor_health(const struct executor *ex, enum run_kind kind, struct kernel_health *ret);
/* True unless the last start of a kernel of some kind failed. */
bool executor_ready(const struct executor *ex);

/* Time in each stage so far, in microseconds. */
struct lease_times {
    int64_t queue_us, load_us, start_us;
};

/*
 * err is NULL when the sandbox is there; otherwise the lease is already gone when this is called.
 */
typedef void (*lease_ready_fn)(struct lease *lease, const struct err *err, void *arg);
/*
 * result belongs to the callee (run_result_finish); err is set instead when the sandbox broke:
 * release it.
 */
typedef void (*lease_done_fn)(struct lease *lease, struct run_result *result, const struct err *err,
                              void *arg);

/*
 * UNAVAILABLE at once for a refusable spec when the queue is full. ready is never called from
 * within this call. The spec is copied; events are called for the progress of an ingest.
 */
int executor_acquire(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                     const struct run_events *events, lease_ready_fn ready, void *arg,
                     struct lease **ret, struct err *err);
/* A lease that was parked waits for a place first. */
int lease_run(struct lease *lease, const struct run_request *req, const struct run_events *events,
              lease_done_fn done, void *arg, struct err *err);
/*
 * The whole result of a SELECT as a file: "csv", "json", "parquet" or "xlsx". done gets its first
 * piece, and with each lease_export_next() the next one, at most FILE_PIECE_MAX bytes; piece->end:
 * there are no more. The lease's spec says that it exports. VALIDATION for a statement that cannot
 * run; TIMEOUT, TOO_LARGE (memory), UNAVAILABLE. plain: of CSV, text that looks like a formula is
 * left as it is. refused: a table has the columns line, reason and text, and the rows that were
 * refused when it was read.
 */
struct lease_export {
    const char *sql, *format;
    bool plain, refused;
    int64_t timeout_ms; /* of each piece */
};
typedef void (*lease_file_fn)(struct lease *lease, const struct file_piece *piece,
                              const struct err *err, void *arg);
int lease_export(struct lease *lease, const struct lease_export *export, lease_file_fn done,
                 void *arg, struct err *err);
int lease_export_next(struct lease *lease, struct err *err);

/* As lease_run: what is in /workspace now. The result's body has "files" and "files_truncated". */
int lease_list_files(struct lease *lease, lease_done_fn done, void *arg, struct err *err);
/* The same, with "variables" {name: short repr} and "globals" [name] of Python. */
int lease_inspect(struct lease *lease, lease_done_fn done, void *arg, struct err *err);
/*
 * Files of /workspace between runs, a piece at a time, of at most FILE_PIECE_MAX bytes (sandbox.h).
 * CONFLICT at once while a run or another piece is under way. Exactly one of piece and err is set,
 * for the time of the call; after an err lease_alive() tells whether the sandbox is still good. Of
 * a write the piece has only the file's new size.
 */
int lease_read_file(struct lease *lease, const char *path, int64_t offset, int64_t max_bytes,
                    lease_file_fn done, void *arg, struct err *err);
/* The data is copied. */
int lease_write_file(struct lease *lease, const char *path, const void *data, size_t len,
                     bool append, lease_file_fn done, void *arg, struct err *err);
int lease_remove_file(struct lease *lease, const char *path, lease_file_fn done, void *arg,
                      struct err *err);
/* Answers run_events.ask of the run under way, as sandbox_reply(). */
void lease_reply(struct lease *lease, uint32_t ask, const json_t *value, const struct err *error);
/* As sandbox_pause(). */
void lease_pause(struct lease *lease);
/* Stops the run under way; its result still comes. */
void lease_interrupt(struct lease *lease);
void lease_times(const struct lease *lease, struct lease_times *ret);
/*
 * Every table that code of the sandbox sees: a file may have several (base/part_name.h). For as
 * long as the lease lives.
 */
struct lease_table {
    const char *name;
    const char *suffix;   /* behind the name of the file's first table; "" for that one */
    size_t file, part;    /* of its spec; which table of the file */
    const json_t *made;   /* by its ingest: columns, types, row_count */
    const json_t *report; /* of how it was read (docs/files.md) */
};
const struct lease_table *lease_tables(const struct lease *lease, size_t *ret_n);
size_t lease_table_names(const struct lease *lease, const char **ret, size_t max);
bool lease_alive(const struct lease *lease);
/* Lines that the ingests of its files left out, as run_result.body has them. New reference. */
json_t *lease_rejects(const struct lease *lease);
/* For tests of a provider. */
struct kernel_link;
struct kernel_link *lease_link(const struct lease *lease);
struct provider *executor_provider(const struct executor *ex);
uv_loop_t *executor_loop(const struct executor *ex);
/*
 * Between runs, a sandbox that is kept for its variables: it makes room for others until its next
 * run. Negative when there is nothing to keep: release it.
 */
int lease_park(struct lease *lease);
/*
 * Between runs: a sandbox that is frozen uses no processor and keeps its memory. Nothing but
 * thawing and releasing may be asked of it. CONFLICT while something is under way; UNAVAILABLE when
 * it is dead, or its provider cannot freeze. done is never called from within; after an err
 * lease_alive() tells whether the sandbox is still good.
 */
int lease_freeze(struct lease *lease, lease_ready_fn done, void *arg, struct err *err);
int lease_thaw(struct lease *lease, lease_ready_fn done, void *arg, struct err *err);
/*
 * Writes the sandbox to a new file, which replaces one of the same name when it is complete and
 * synced. A frozen sandbox is thawed first. The sandbox goes on. By the callback: CONFLICT names
 * what cannot be kept.
 */
int lease_image(struct lease *lease, const char *path, lease_ready_fn done, void *arg,
                struct err *err);
/*
 * The same, and where there can be no image, the portable form: files, and those variables that can
 * be pickled.
 */
int lease_port(struct lease *lease, const char *path, lease_ready_fn done, void *arg,
               struct err *err);
/*
 * Variables that are not in the portable form that was written last, or that the sandbox was made
 * from, and why. NULL: nothing is missing.
 */
#define LEASE_NOT_KEPT_SIZE 1024
const char *lease_not_kept(const struct lease *lease);
/* Why the sandbox was made from the portable form behind its image. NULL: it was not. */
const char *lease_no_image(const struct lease *lease);
/*
 * Of the image that was written last: what a server that cannot use it will not have. "": all
 * variables will be there; NULL: none will.
 */
const char *lease_companion_lacks(const struct lease *lease);
#define LEASE_NO_COMPANION "all of them: they are too large to be pickled, or could not be"
/*
 * A new lease that goes on as `from` is now, or, where that cannot be an image, with what the
 * portable form keeps of it (lease_not_kept()). ready comes as from executor_acquire(). done comes
 * when `from` may be used again; an err there means that there is nothing to go on from, and that
 * ready comes with an error, too.
 */
int lease_branch(struct lease *from, const char *owner, const struct sandbox_spec *spec,
                 lease_ready_fn ready, void *arg, struct lease **ret, lease_ready_fn done,
                 void *done_arg, struct err *err);
/* In any state; no callback comes after this. */
void lease_release(struct lease *lease);
/* Somebody waits for the place that it has. */
bool lease_is_awaited(const struct lease *lease);

/*
 * Files of this owner were deleted: kernels that wait with their tables open are let go, and with
 * them what is still on the disk without a name.
 */
void executor_forget_idle(struct executor *ex, const char *owner);

/*
 * Runs the SQL of leases whose spec names a database. Such a lease has no kernel: it waits for a
 * place like any other, lease_run() calls begin, and lease_interrupt() and lease_release() call
 * cancel.
 */
struct engine_run;
/* result is the callee's; err is set instead when the database cannot be asked. */
typedef void (*engine_done_fn)(struct run_result *result, const struct err *err, void *arg);
struct sql_engine {
    /* done comes from the loop, never from within, unless cancel() comes first. */
    int (*begin)(void *arg, const char *owner, const char *database, const struct run_request *req,
                 engine_done_fn done, void *done_arg, struct engine_run **ret, struct err *err);
    void (*cancel)(struct engine_run *run);
    void *arg;
};
/* Before the first lease that names a database. */
void executor_set_engine(struct executor *ex, const struct sql_engine *engine);

/*
 * make_room is called when parked leases hold the memory that others wait for. It releases one and
 * returns true, or returns false if there is none to give up.
 */
void executor_on_shortage(struct executor *ex, bool (*make_room)(void *arg), void *arg);

#endif
