#ifndef RIDDLE_SANDBOX_LOCAL_LOCAL_IMPL_H
#define RIDDLE_SANDBOX_LOCAL_LOCAL_IMPL_H

/* What the files of the local provider share: local.c (zygotes, kernels, pool), session.c (a run), tables.c (ingest), shown.c (files). */

#include <stdbool.h>
#include "base/fdio.h"
#include "base/hash.h"
#include <sys/types.h>
#include "base/limits.h"
#include "sandbox/local/cgroup.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"

struct zygote {
    pid_t pid; /* 0: not running */
    bool greeted; /* it has said hello */
    int sock;
    int userns_fd;    /* root only: for id-mapped mounts */
    int stderr_fd;    /* its last words */
    int64_t anon_kb;  /* memory that its kernels share with it */
    unsigned starts;
};

/* A forked kernel: boxed, not yet told what it is for. */
struct kernel_proc {
    pid_t pid;
    int pidfd, control, out, errout;
    struct cgroup group;
    int64_t shared_kb;
};

#define KERNEL_PROC_NONE { .pid = 0, .pidfd = -1, .control = -1, .out = -1, .errout = -1, .group = CGROUP_NONE }
#define POOL_MAX 256

struct provider {
    const struct config *cfg;
    char kernel_path[4096];
    char home[4096]; /* absolute */
    bool root;       /* started by root: kernels run as cfg->sandbox_uid */
    bool pool_only;  /* kernels are forked elsewhere: take only what is there */
    bool one_shot;   /* see provider_one_shot() */
    bool plots;      /* … and the code wants its plotting packages */
    bool told_missing; /* the layers that a partial jail goes without */
    struct cgroup_tree cgroups;
    struct zygote zygotes[_RUN_KIND_MAX];
    struct kernel_proc pool[_RUN_KIND_MAX][POOL_MAX];
    size_t n_pool[_RUN_KIND_MAX];
    struct ingest *unsettled; /* tables that are in use before they are on the disk */
};

/* ---- local.c ---- */

/* pooled: it will wait, and may use the time to prepare itself. */
int kernel_spawn(struct provider *p, enum run_kind kind, bool pooled, const struct sandbox_limits *limits,
                 struct kernel_proc *ret, struct err *err);
/* From the pool if there is one, else spawned. */
int kernel_take(struct provider *p, enum run_kind kind, const struct sandbox_limits *limits,
                struct kernel_proc *ret, struct err *err);
/* Lets go of those at the end of the pool that died. */
void kernel_pool_trim(struct provider *p, enum run_kind kind);
/* Forks one into an empty pool, best effort. */
void kernel_prepare(struct provider *p, enum run_kind kind);
void kernel_kill(struct kernel_proc *k); /* kills, waits, closes, removes its group */

/* ---- shown.c: host files in a jail ---- */

struct shown_file {
    char target[320]; /* "data/orders.csv" */
    char path[4096];
    uint64_t dev, ino;
    int mount_fd; /* -1: the kernel binds the path itself */
    bool writable;
};

/* Opens the file or directory as something a kernel of this provider can show. */
int shown_open(struct provider *p, const char *path, const char *target, bool writable, struct shown_file *ret,
               struct err *err);
void shown_close(struct shown_file *f);

struct table_file;

/* As sandbox_create, with every table at hand. Does not block but for a fork when the pool is empty. */
int sandbox_create_loaded(struct provider *p, const struct sandbox_spec *spec, const struct table_file *tables,
                          struct sandbox **ret, struct err *err);

/* ---- session.c ---- */

struct sandbox_start {
    enum run_kind kind;
    const char *dataset_id;
    struct shown_file *shown;
    size_t n_shown;
    struct {
        const char *name;
        size_t shown; /* index */
    } tables[SANDBOX_FILES_MAX];
    size_t n_tables;
    struct sandbox_limits limits;
    int threads;
};

/* Takes the kernel over (also on failure), tells it what it is for, and makes a sandbox of it. */
int sandbox_start(struct provider *p, struct kernel_proc *k, const struct sandbox_start *start,
                  struct sandbox **ret, struct err *err);
/* As sandbox_begin, with a request frame of any kind (its "id" is set here). */
int sandbox_begin_json(struct sandbox *sb, json_t *request, int64_t timeout_ms, int64_t max_output_bytes,
                       const struct run_events *events, struct err *err);
/* … with bytes in front of the frame, and at most so many in front of its answer. */
int sandbox_begin_bytes(struct sandbox *sb, json_t *request, const void *bytes, size_t n_bytes, size_t max_bytes_back,
                        int64_t timeout_ms, int64_t max_output_bytes, const struct run_events *events, struct err *err);
/* Times spent before the first run, and the lines that ingests left out (an array, taken over); reported with the first result. */
void sandbox_set_load(struct sandbox *sb, int64_t start_us, int64_t load_us, json_t *rejects);

/* ---- tables.c ---- */

struct table_file {
    char path[4096]; /* the ingested file */
    json_t *report;  /* of its ingest */
};

/* SHA-256 of the file, in hexadecimal. Blocks; may run in a worker thread. Refuses what is no file, and empty ones. */
int tables_hash(const struct sandbox_file *file, const struct run_events *events, char ret_hex[HASH_HEX_SIZE],
                struct err *err);
/* A file that is only shown must be a readable regular one, but may be empty. */
int tables_check_raw(const struct sandbox_file *file, struct err *err);
bool tables_find(struct provider *p, const char *hex, struct table_file *ret);

/* An ingest under way: poll and advance its sandbox until it has a result, then finish. Both ends free it. */
struct ingest;
int ingest_begin(struct provider *p, const struct sandbox_file *file, const char *hex,
                 const struct run_events *events, struct ingest **ret, struct err *err);
struct sandbox *ingest_sandbox(struct ingest *in);
int ingest_finish(struct ingest *in, const struct run_result *result, struct table_file *ret, struct err *err);
void ingest_abort(struct ingest *in);

/*
 * All of it, blocking: the ingested form of a data file, made now if it is not there yet. prepare: it is for a run of SQL, whose
 * kernel is forked meanwhile.
 */
int tables_ensure(struct provider *p, const struct sandbox_file *file, const struct run_events *events,
                  bool prepare, struct table_file *ret, struct err *err);
/* Syncs and publishes what a single run used before it was on the disk. After its sandboxes are gone. */
void tables_settle(struct provider *p);

#endif
