#ifndef RIDDLE_SANDBOX_POOL_EXECUTOR_IMPL_H
#define RIDDLE_SANDBOX_POOL_EXECUTOR_IMPL_H

/* What executor.c, executor_files.c and executor_watch.c share. */

#include <uv.h>
#include "base/arena.h"
#include "sandbox/pool/executor.h"
#include "sandbox/pool/idle_cache.h"
#include "sandbox/local/local_impl.h"
#include "sandbox/workspace.h"

enum lease_state { LEASE_QUEUED, LEASE_HASHING, LEASE_INGESTING, LEASE_STARTING, LEASE_IDLE, LEASE_RUNNING };

/* A sandbox in the loop: its descriptors and its timer. Outlives the lease until every handle is closed. */
struct watch {
    uv_poll_t polls[SANDBOX_POLL_MAX];
    uv_timer_t timer;
    int fds[SANDBOX_POLL_MAX];
    size_t n_polls;
    int open_handles;
    struct lease *lease; /* NULL once stopped */
};

struct lease {
    struct executor *ex;
    struct lease *next, *prev; /* in the executor's list of all */
    struct arena arena;
    char owner[64];
    enum lease_state state;
    struct sandbox_spec spec;
    char (*hashes)[HASH_HEX_SIZE];
    struct table_file *tables;
    size_t at; /* file being looked at */
    struct ingest *ingest;
    struct ending *ending; /* the ingest's kernel is being killed */
    struct sandbox *sandbox;
    struct watch *watch;
    bool waits_for_kernel;
    bool waits_for_table; /* another lease is making it */
    bool woken;
    bool spoilt; /* a run ended badly: not for reuse */
    bool parked; /* idle and not counted among the active */
    char key[IDLE_KEY_SIZE];
    struct run_events events;
    lease_ready_fn ready;
    lease_done_fn done;
    void *ready_arg, *done_arg;
    bool is_file_op; /* what is under way is no run */
    struct workspace_op file_op;
    lease_file_fn file_done;
    void *file_arg;
    struct lease_times times;
    int64_t since_us;
    bool working;  /* a worker thread is using it */
    bool released; /* while it was */
    struct err hash_err;
    int hash_result;
    uv_work_t work;
};

/* An ingest that is over: its table is published when its kernel is surely gone. */
struct ending {
    uv_poll_t poll;
    struct executor *ex;
    struct lease *lease; /* NULL: released meanwhile */
    struct ingest *ingest;
    struct run_result result;
};

/* A fork under way in the worker pool. */
struct spawning {
    uv_work_t work;
    struct executor *ex;
    enum run_kind kind;
    struct sandbox_limits limits;
    struct kernel_proc kernel;
    struct err err;
    int result;
};

/* A killed kernel, waiting to be reaped. */
struct dying {
    uv_poll_t poll;
    struct executor *ex;
    struct sandbox *sandbox;
};

struct executor {
    uv_loop_t *loop;
    const struct config *cfg;
    struct provider *provider;
    struct lease *all;   /* newest first */
    size_t n_queued, n_active, n_dying;
    size_t places, queue_max;
    char last_owner[64]; /* whose turn it was */
    struct spawning spawning[_RUN_KIND_MAX]; /* one fork at a time of each kind: a zygote that starts holds up only its own */
    bool is_spawning[_RUN_KIND_MAX];
    bool zygotes_good;
    struct idle_cache idle;
    uv_timer_t sweep; /* lets go of what was idle too long */
    uv_idle_t kick; /* starts queued leases from the loop, never from within a caller */
    uint64_t runs[_VERDICT_MAX], refused;
    unsigned first_starts;
    bool closing;
};

/* ---- executor_watch.c ---- */

/* Polls what the lease's sandbox (or its ingest's) wants polled now; executor_step() is called when something comes. */
int watch_update(struct lease *l, struct err *err);
void watch_stop(struct lease *l);
/* Kills a sandbox's kernel and reaps it when it is gone. NULL is fine. */
void retire(struct executor *ex, struct sandbox *sb);

/* ---- executor.c ---- */

void executor_step(struct lease *l);
/* Something has begun in the lease's sandbox: it is watched until its result comes. */
int executor_running(struct lease *l, lease_done_fn done, void *arg, struct err *err);

#endif
