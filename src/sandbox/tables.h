#ifndef RIDDLE_SANDBOX_TABLES_H
#define RIDDLE_SANDBOX_TABLES_H

/*
 * Ingested tables: a data file becomes a columnar file. A kernel of its own makes it, jailed like
 * any other. The name of a table always stands for one that is whole and on the disk;
 * table_names.h says where it is.
 */

#include <stdbool.h>
#include <uv.h>
#include "base/config.h"
#include "base/hash.h"
#include "sandbox/sandbox_impl.h"
#include "sandbox/table_names.h"

struct table_cache {
    uv_loop_t *loop;
    const struct config *cfg;
    char home[4096]; /* absolute */
    /* small tables are used where they were made, and published by tables_settle() */
    bool one_shot;
    struct ingest *unsettled; /* … these */
    size_t n_ending;          /* ingests and directories of kernels that are being removed */
};

struct table_file {
    char path[TABLE_PATH_SIZE]; /* the ingested file */
    json_t *report;             /* of its ingest */
};

/* Unless one_shot it also removes what killed ingests left. */
int tables_open(struct table_cache *c, uv_loop_t *loop, const struct config *cfg, bool one_shot,
                struct err *err);
/*
 * Syncs and publishes what a single run used before it was on the disk. Blocks; after its sandboxes
 * are gone.
 */
void tables_settle(struct table_cache *c);

/*
 * SHA-256 of the file, in hexadecimal. Blocks: for a worker thread. Refuses what is no file, and
 * empty ones.
 */
int tables_hash(const struct sandbox_file *file, void (*progress)(void *arg, int64_t bytes),
                void *arg, char ret_hex[HASH_HEX_SIZE], struct err *err);
/* A file that is only shown must be a readable regular one, but may be empty. */
int tables_check_raw(const struct sandbox_file *file, struct err *err);
bool tables_find(struct table_cache *c, const struct sandbox_file *file, const char *hex,
                 struct table_file *ret);
/*
 * Whether hashing the file is worth doing beside its ingest: it is large, and no file of its size
 * has been ingested before.
 * *ret_size is its size, or -1.
 */
bool tables_is_new(struct table_cache *c, const struct sandbox_file *file, int64_t *ret_size);

/* The limits that an ingest's kernel needs. */
void ingest_limits(const struct config *cfg, struct sandbox_limits *ret);

/*
 * A directory on the disk for one kernel, which it may write to. Whoever ends the kernel drops it:
 * a worker removes it with all that is in it. One that a killed process left goes with its ingests.
 */
struct scratch;
int scratch_make(struct table_cache *c, struct scratch **ret, struct err *err);
const char *scratch_path(const struct scratch *s);
void scratch_drop(void *scratch);

/*
 * An ingest in a kernel of its own, whose link is taken over (also on failure). done comes once,
 * when nothing writes to the table any more: without err ingest_publish() is next, with one the
 * ingest is gone already.
 */
struct ingest;
/* INTERNAL: its kernel was killed or crashed, which may not be the fault of the file. */
typedef void (*ingest_done_fn)(void *arg, const struct err *err);
int ingest_begin(struct table_cache *c, struct kernel_link *link, const struct sandbox_file *file,
                 const struct run_events *events, ingest_done_fn done, void *arg,
                 struct ingest **ret, struct err *err);
/* Gives the table its name, unless the cache has one of that content by now. Frees the ingest. */
int ingest_publish(struct ingest *in, const char *hex, struct table_file *ret, struct err *err);
/*
 * At any time before that: kills its kernel and removes what it made, behind the scenes. NULL is
 * fine.
 */
void ingest_abort(struct ingest *in);

#endif
