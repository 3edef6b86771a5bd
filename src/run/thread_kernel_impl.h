#ifndef RIDDLE_RUN_THREAD_KERNEL_IMPL_H
#define RIDDLE_RUN_THREAD_KERNEL_IMPL_H

/* What thread_kernel.c and thread_files.c share. */

#include "run/thread_kernel.h"

/* Where the job is. It runs in the thread's own kernel when that is RUNNING, else in `lent`. */
enum job_stage {
    JOB_NONE,
    JOB_WAITS,   /* for the kernel: to start, to wake, or to end with its files */
    JOB_FAILED,  /* could not begin; about to be told */
    JOB_LENDING, /* a sandbox for one statement was asked for */
    JOB_RUNS,
};

struct thread_kernel {
    struct thread_kernel_env env;
    char *owner, *thread_id;
    struct answer *answer; /* to what the job asks */
    int64_t deadline_ms;   /* of the job */
    int64_t paused_ms;     /* when its debugger paused it; 0: it runs */
    enum kernel_state state;
    struct lease *lease;
    char *image;        /* the file it is when it is cold, or was */
    bool is_retired;    /* … and a kernel was made from it */
    bool stays;         /* … when its image is written */
    struct thread_kernel *branch; /* that is to go on as this one is, while that is begun */
    struct thread_kernel *source; /* … the other way round */
    bool is_branching;  /* what it writes is for a branch */
    bool is_branched;   /* … which got it, the last time */
    int64_t unsaved_ms; /* when code ran first that is in no image; 0: none did */
    bool variables;     /* Python ran in it */
    const char *loss;   /* why variables went away, until it is told */
    char loss_text[ERR_MESSAGE_MAX + LEASE_NOT_KEPT_SIZE + 100]; /* … when it is not a fixed text */
    char refusal
        [ERR_MESSAGE_MAX]; /* why no image could be written; "": none was tried since code ran */
    bool ports;            /* … when its image is written, in the portable form if need be */
    bool is_unportable;    /* … which could not be either */
    char not_kept[LEASE_NOT_KEPT_SIZE];     /* variables that are not in that form; "": none */
    bool is_companion_known, has_companion; /* of its image */
    char companion_lacks[LEASE_NOT_KEPT_SIZE];
    unsigned too_large; /* so often its image did not fit into a kernel */
    unsigned epoch;     /* counts kernels: what was asked of one never goes to the next */

    struct kernel_job job;
    enum job_stage stage;
    struct lease *lent;
    struct err job_err;
    struct kernel_times times;
    struct kernel_moved moved;
    int64_t since_us, lent_us; /* when the kernel and the lent sandbox were asked for */

    void (*when_ready)(void *arg, bool is_hot);
    void *when_ready_arg;
    struct loop_timer *patience;

    /* thread_files.c */
    struct kernel_file_op *ops, **ops_end; /* the first one is under way when COPYING */
    bool stale;                            /* started before the thread's data changed */
    json_t *added;                         /* path on the host → {where, note?} */
    struct adding *adding;                 /* files on their way into it */

    struct loop_timer *pump; /* deferred: begins what can begin, tells what is to be told */
    bool arrived;            /* … that it became hot */
    unsigned depth;          /* calls on the stack: it is not freed below them */
    bool closed, destroyed;
};

/* enum kernel_cap: what the provider can do with its kernel. */
unsigned kernel_caps(const struct thread_kernel *k);
/*
 * Takes one step of the table. why is the loss if variables go with it. An action that fails is
 * followed by FAILED, and err tells.
 */
int kernel_step(struct thread_kernel *k, enum kernel_event event, const char *why, struct err *err);
/* Soon: looks at what waits. */
void kernel_wake(struct thread_kernel *k);
/* Around everything that calls back: the kernel stays until the last one leaves. */
void kernel_enter(struct thread_kernel *k);
void kernel_leave(struct thread_kernel *k);

int kernel_begin_file(struct thread_kernel *k, struct err *err); /* the first of `ops` */
void kernel_pump_files(struct thread_kernel *k);
void kernel_forget_files(struct thread_kernel *k); /* the kernel is gone */
void kernel_close_files(struct thread_kernel *k);  /* without a word */

#endif
