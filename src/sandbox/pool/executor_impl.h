#ifndef RIDDLE_SANDBOX_POOL_EXECUTOR_IMPL_H
#define RIDDLE_SANDBOX_POOL_EXECUTOR_IMPL_H

/*
 * What executor.c, executor_load.c, executor_files.c, executor_export.c and executor_sleep.c share.
 */

#include <stdatomic.h>
#include <uv.h>
#include "base/arena.h"
#include "sandbox/pool/admission.h"
#include "sandbox/pool/executor.h"
#include "sandbox/pool/idle_cache.h"
#include "sandbox/provider.h"
#include "sandbox/tables.h"
#include "sandbox/workspace.h"

#define POOL_MAX 256

enum lease_state {
    LEASE_QUEUED,
    LEASE_LOADING,
    LEASE_STARTING,
    LEASE_IDLE,
    LEASE_FROZEN, /* or on its way there or back */
    LEASE_RESUMING,
    LEASE_RUNNING
};

/* The run of a lease: it waits for a place, is under way, or is begun anew in another kernel. */
struct pending_run {
    struct run_request request;
    char *code;
    struct run_events events;
    bool interrupted;
    bool is_export;  /* `code` is a statement whose whole result is wanted as a file */
    char run_id[64], thread_id[128]; /* "": none */
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
    struct lease_table *all; /* once they are all there */
    size_t n_all;
    size_t at;               /* file being loaded */
    struct hashing *hashing; /* of that file */
    struct ingest *ingest;   /* of that file */
    bool ingested;           /* … which is over: it waits for its hash */
    struct sandbox *sandbox;
    struct engine_run *engine_run; /* of a database, instead of a run in the sandbox */
    bool waits_for_kernel;
    unsigned n_unlimited; /* kernels that were given up because their limits could not be set */
    bool waits_for_table; /* another lease is making it */
    bool woken;
    bool again; /* its run is begun anew: it has a user who waits for a result, not for a lease */
    bool is_restarting;  /* … in the next turn of the loop */
    unsigned n_replaced; /* kernels that ended before they ran anything */
    bool is_reused;      /* its sandbox has answered other runs */
    bool is_remade;      /* its tables were, because one was damaged */
    bool spoilt;         /* a run ended badly: not for reuse */
    struct ticket ticket;
    struct pending_run pending;
    int64_t
        memory_bytes; /* the most that its kernel has had, as far as that is known; 0: it is not */
    char key[IDLE_KEY_SIZE];
    struct run_events events;
    lease_ready_fn ready;
    lease_done_fn done;
    void *ready_arg, *done_arg;
    bool is_file_op; /* what is under way is no run */
    struct workspace_op file_op;
    lease_ready_fn slept;
    void *slept_arg;
    bool is_frozen;
    struct {
        char *path, *partial; /* where it shall be, and where it is written */
        bool written, answered;
        bool may_port; /* what cannot be an image is written in the portable form */
        bool is_portable;
        bool is_prepared; /* … for lease_branch() */
        struct err err;
    } image;                            /* being written */
    struct lease *branch;               /* that is to go on as this one is; NULL: none */
    bool waits_for_source;              /* … and this one waits to */
    char not_kept[LEASE_NOT_KEPT_SIZE]; /* of its portable form; "": nothing is missing */
    char no_image[ERR_MESSAGE_MAX];     /* why it is made from that form although it had an image */
    bool has_companion; /* the image that was written last is followed by that form … */
    char companion_lacks[LEASE_NOT_KEPT_SIZE]; /* … without these */
    lease_file_fn file_done;
    void *file_arg;
    const char *export_format; /* a constant */
    bool is_plain, is_refused;
    int64_t export_timeout_ms;
    struct lease_times times;
    int64_t since_us;
};

struct executor {
    uv_loop_t *loop;
    const struct config *cfg;
    struct provider *provider;
    struct table_cache tables;
    bool one_shot;
    struct lease *all; /* newest first */
    size_t n_hashing;
    struct admission admission;
    bool interrupted; /* a lease that waits to resume was */
    bool restarts;    /* a lease begins anew */
    struct sql_engine engine;
    bool (*make_room)(void *arg);
    void *make_room_arg;
    struct kernel_link *pool[_RUN_KIND_MAX][POOL_MAX];
    size_t n_pool[_RUN_KIND_MAX];
    /* one at a time of each kind: a slow one holds up only its own */
    bool is_spawning[_RUN_KIND_MAX];
    struct idle_cache idle;
    uv_timer_t sweep; /* lets go of what was idle too long */
    uv_timer_t refill;
    uv_idle_t kick; /* starts queued leases from the loop, never from within a caller */
    uint64_t runs[_VERDICT_MAX];
    unsigned first_starts;
    struct err first; /* why the first kernel could not be started */
    bool closing, closed;
};

/* ---- executor.c ---- */

/* True if the lease has this place; otherwise it waits for it, and load_advance() follows. */
bool lease_has_place(struct lease *l, enum place place, int64_t memory_bytes);
/* What is to be waited for needs no place: the lease has none until it asks again. */
void lease_give_up_place(struct lease *l);
enum place place_of(enum run_kind kind);

/*
 * A kernel of this kind with these limits, or NULL: the lease goes on (load_advance()) when there
 * is one, or has failed.
 */
struct kernel_link *executor_take_kernel(struct lease *l, enum run_kind kind,
                                         const struct sandbox_limits *limits);
void executor_fill_pool(struct executor *ex);
/* The same a moment after a kernel was taken: a fork beside its first cell would delay that. */
void executor_refill(struct executor *ex);
/* The lease is over; its user is told why. */
void lease_fail(struct lease *l, const struct err *err);
/* The lease has its sandbox. */
void lease_is_ready(struct lease *l);
/* Starts queued leases from the loop. */
void executor_kick(struct executor *ex);
/* False for a kernel that waits and is dead, or stopped. */
bool executor_can_use(const struct executor *ex, struct kernel_link *link);
/* sandbox_done_fn of everything that runs in a lease's sandbox; arg is the lease. */
void executor_ran(struct sandbox *sb, struct run_result *result, const struct err *err, void *arg);
/*
 * Keeps what was asked for until its answer is there: it may have to begin again in another kernel.
 */
int lease_keep_request(struct lease *l, const struct pending_run *p, const char *text, size_t len,
                       lease_done_fn done, void *arg, struct err *err);
/* Begins what is kept. 0: it has begun, or is begun anew in another kernel. */
int lease_begin(struct lease *l, struct err *err);
/* Something has begun in the lease's sandbox. */
void executor_running(struct lease *l, lease_done_fn done, void *arg, bool is_file_op);
int lease_check_idle(const struct lease *l, struct err *err);

/* ---- executor_run.c ---- */

/* Its SQL is run by a database: it has no sandbox. */
static inline bool lease_is_database(const struct lease *l)
{
    return l->spec.database && l->spec.kind == RUN_SQL;
}
/* Cancels what the database does for it; no callback comes. */
void lease_stop_engine(struct lease *l);

/* The place, or the new sandbox, is there: what was asked for begins. */
void lease_begin_pending(struct lease *l);
/* The run that was begun anew cannot be: whoever waits for its result is told. */
void lease_fail_again(struct lease *l, const struct err *err);
/* A kernel ended before it ran anything: true if another may be tried. */
bool lease_may_replace(struct lease *l);
/* Goes on with leases that begin anew. */
void executor_restart(struct executor *ex);
/* Runs that were stopped while they waited: their sandboxes are as they were. */
void executor_drop_interrupted(struct executor *ex);

/* ---- executor_sleep.c ---- */

/*
 * The kernel of the lease becomes what its image holds; lease_is_ready() or lease_fail() follows.
 */
int lease_await_restored(struct lease *l, struct err *err);
/* Its branch has been told to read; the other half of that. */
void lease_write_to_branch(struct lease *from);
/* It is about to be freed: the other half of a branch is told. */
void lease_leave_branch(struct lease *l);
void lease_forget_image(struct lease *l);

/* ---- executor_export.c ---- */

/* Begins the export that is pending. */
int lease_begin_export(struct lease *l, struct err *err);

/* ---- executor_load.c: from files to a sandbox ---- */

/* Goes on until something has to be waited for. */
void load_advance(struct lease *l);
/* Forgets what is under way; others that waited for the same table are told. */
void load_stop(struct lease *l);

#endif
