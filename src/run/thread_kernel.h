#ifndef RIDDLE_RUN_THREAD_KERNEL_H
#define RIDDLE_RUN_THREAD_KERNEL_H

/*
 * The kernel of a thread: started when the first code needs it, kept while Python holds variables.
 * It has one state (thread_states.h) and one job at a time.
 *
 * Python runs in the thread's own kernel. SQL runs there as well once that kernel is awake, because
 * it may name DataFrames; until then, and after the thread's data changed, SQL runs in a sandbox
 * that the executor lends for one statement, and does not wait for Python to start.
 *
 * Nothing blocks. Callbacks come from the loop, never from within the call that asked for them,
 * except where it says so. A callback may destroy the kernel.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/json.h"
#include "net/loop.h"
#include "run/thread_states.h"
#include "sandbox/pool/executor.h"

struct thread_kernel;
struct queries;

/* Operations of providers that can freeze or image a kernel. A pair may be NULL. */
struct kernel_sleep_ops {
    int (*freeze)(struct lease *lease, lease_ready_fn done, void *arg, struct err *err);
    int (*thaw)(struct lease *lease, lease_ready_fn done, void *arg, struct err *err);
    int (*image)(struct lease *lease, const char *path, lease_ready_fn done, void *arg,
                 struct err *err);
    /* The same, in the portable form where it can be no image. NULL: there is none. */
    int (*port)(struct lease *lease, const char *path, lease_ready_fn done, void *arg,
                struct err *err);
    /* As executor_acquire(). */
    int (*restore)(struct executor *ex, const char *owner, const struct sandbox_spec *spec,
                   const char *path, lease_ready_fn ready, void *arg, struct lease **ret,
                   struct err *err);
    /* A kernel lives that is as the image: the image is kept in case that the server is killed. */
    void (*retire)(const char *path);
    /* … and code is about to run in it. */
    void (*outdate)(const char *path);
    /* The image is written: what was retired under its name goes. */
    void (*imaged)(const char *path);
    /* The image, and what was retired under its name. */
    void (*discard)(const char *path);
    /* A kernel that goes on as another one is: lease_branch(). */
    int (*branch)(struct lease *from, const char *owner, const struct sandbox_spec *spec,
                  lease_ready_fn ready, void *arg, struct lease **ret, lease_ready_fn done,
                  void *done_arg, struct err *err);
};

/*
 * An image that a kernel was made from before the server was killed is one again; is_old: code ran
 * in that kernel, or may have. Says the same until there is a new image. False if there is
 * none.
 */
bool thread_sleep_recover(const char *path, bool *ret_is_old);

/* Those that the executor's provider can do; NULL: none. */
const struct kernel_sleep_ops *thread_sleep_ops(const struct executor *ex);

/* The last change between hot, warm and cold. */
struct kernel_moved {
    const char *from, *to; /* static text; NULL: it never changed */
    int64_t at_ms;         /* of the clock of clock_now_ms() */
    int64_t us;            /* how long it took */
};

struct thread_kernel_env {
    struct loop *loop;
    struct executor *executor;
    const struct kernel_sleep_ops *sleep; /* NULL: kernels are hot or gone */
    const char *owner, *thread_id;        /* copied; the id may be NULL */
    const struct queries *queries;        /* databases that code may ask; NULL: none */
    /*
     * What a sandbox of this thread sees. Strings and files are borrowed for the time of one call.
     */
    void (*spec)(void *arg, struct sandbox_spec *ret);
    /* Something ended. arrived: the kernel has just become hot. */
    void (*changed)(void *arg, bool arrived);
    /* It has moved between hot, warm and cold: takes note of that. May be NULL. */
    void (*moved)(void *arg, const struct kernel_moved *moved);
    void *arg;
};

int thread_kernel_create(const struct thread_kernel_env *env, struct thread_kernel **ret,
                         struct err *err);
/* Releases everything; no callback comes after this. NULL is fine. */
void thread_kernel_destroy(struct thread_kernel *k);
/* The same, but the kernel can still be looked at and destroyed: before the executor goes. */
void thread_kernel_close(struct thread_kernel *k);

enum kernel_state thread_kernel_state(const struct thread_kernel *k);
bool thread_kernel_is_hot(const struct thread_kernel *k);  /* awake and alive */
bool thread_kernel_is_kept(const struct thread_kernel *k); /* awake or frozen, and alive */
/* a job or a file waits or is under way */
bool thread_kernel_is_busy(const struct thread_kernel *k);
bool thread_kernel_has_variables(const struct thread_kernel *k); /* Python ran in it */

/* ---- code ---- */

/* result is borrowed; err is set instead when there was no kernel to run it. */
typedef void (*kernel_job_fn)(void *arg, const struct run_result *result, const struct err *err);

struct kernel_job {
    enum run_kind kind;
    const char *code;   /* copied */
    const char *run_id; /* copied; may be NULL */
    enum python_policy policy;
    int64_t timeout_ms, max_rows, max_output_bytes;
    const json_t *context; /* variables that Python sets first; may be NULL; a reference is taken */
    const json_t *debug;   /* as of struct run_request; may be NULL; a reference is taken */
    int64_t pause_ms;
    struct run_events events;
    kernel_job_fn done;
    void *arg;
};

/* CONFLICT while another job is under way. */
int thread_kernel_run(struct thread_kernel *k, const struct kernel_job *job, struct err *err);
bool thread_kernel_has_job(const struct thread_kernel *k);
/* Answers run_events.ask of the job. Ignored when that question is not open any more. */
void thread_kernel_reply(struct thread_kernel *k, uint32_t ask, const json_t *value);
/* A debugged job pauses at its next line. */
void thread_kernel_pause(struct thread_kernel *k);
/* Stops the job. Its done still comes; from within when the code has not begun. */
void thread_kernel_interrupt(struct thread_kernel *k);
/* Ends the job at once, and the kernel that it runs in. done comes from within. */
void thread_kernel_kill(struct thread_kernel *k);

struct kernel_times {
    int64_t wait_us;  /* how long the last job waited for a sandbox; -1: one was there */
    int64_t ahead_us; /* how long the kernel took that was started ahead of its code; 0: none was */
    const char
        *woke_from;  /* the state that the kernel was brought back from last; NULL: it was awake */
    int64_t woke_us; /* … and how long that took */
};
/* The times may be reset by the caller. */
struct kernel_times *thread_kernel_times(struct thread_kernel *k);

/* ---- life ---- */

/* Starts the kernel, or wakes it, ahead of the first code. */
void thread_kernel_prepare(struct thread_kernel *k);
/* Wakes the kernel that is put aside; starts none. */
void thread_kernel_rouse(struct thread_kernel *k);

/* For a status. */
struct kernel_moved thread_kernel_moved(const struct thread_kernel *k);
/* Calls once: when the kernel that was prepared is there or cannot be had, or after wait_ms. */
void thread_kernel_when_ready(struct thread_kernel *k, int64_t wait_ms,
                              void (*fn)(void *arg, bool is_hot), void *arg);
/*
 * Gives the kernel up. why (static text) is the loss that will be told if variables go with it. A
 * job under way ends with CANCELLED, from within.
 */
void thread_kernel_drop(struct thread_kernel *k, const char *why);
/* Variables went away and nobody was told yet: the reason, once. NULL: nothing was lost. */
const char *thread_kernel_take_loss(struct thread_kernel *k);
bool thread_kernel_has_loss(const struct thread_kernel *k);
/* Variables of an earlier kernel are gone, e.g. by a restart of the server. */
void thread_kernel_note_loss(struct thread_kernel *k, const char *why);

/*
 * Refused by name: CONFLICT unless it is hot (image: or warm), UNAVAILABLE without the capability.
 */
int thread_kernel_freeze(struct thread_kernel *k, struct err *err);
int thread_kernel_image(struct thread_kernel *k, const char *path, struct err *err);
/*
 * The same for a kernel that has to go: what can be no image is written in the portable form, and
 * the next answer names the variables that are not in it. CONFLICT when that was tried in vain
 * since code ran last.
 */
int thread_kernel_port(struct thread_kernel *k, const char *path, struct err *err);
/* Variables that its portable form has not, and why; NULL: it has none, or nothing is missing. */
const char *thread_kernel_not_kept(const struct thread_kernel *k);
/*
 * Of a kernel that is cold: variables that only the same build on this machine can bring back.
 * NULL: none, or that is not known, because its image was written before this server started.
 */
const char *thread_kernel_not_elsewhere(const struct thread_kernel *k);
/* As thread_kernel_image(), and the kernel goes on. */
int thread_kernel_save(struct thread_kernel *k, const char *path, struct err *err);
/*
 * A kernel that nothing ran in yet goes on as this one is, which is IMAGING until then. Afterwards
 * thread_kernel_is_branched() tells whether it could be; if not, thread_kernel_refusal().
 */
int thread_kernel_branch(struct thread_kernel *k, struct thread_kernel *to, struct err *err);
bool thread_kernel_is_branched(const struct thread_kernel *k);
/* Since when code ran that is in no image; 0: there is none. */
int64_t thread_kernel_unsaved_ms(const struct thread_kernel *k);
/* Why the last image could not be written; NULL when it could, or when code has run since. */
const char *thread_kernel_refusal(const struct thread_kernel *k);
/* A kernel that nothing ran in yet is the image at this path. */
int thread_kernel_adopt(struct thread_kernel *k, const char *path, struct err *err);

/* ---- files of its /workspace: thread_files.c ---- */

#define KERNEL_PLACE_SIZE 640

/*
 * Each waits for the job under way, and the next job waits for it. By the callback: NOT_FOUND when
 * there is no kernel (any more), and what lease_read_file() says. A piece is valid during the call;
 * files is [{path, size, modified}], borrowed.
 */
struct kernel_file_op;
typedef void (*kernel_file_fn)(const struct file_piece *piece, const struct err *err, void *arg);
typedef void (*kernel_list_fn)(const json_t *files, const struct err *err, void *arg);
int thread_kernel_read_file(struct thread_kernel *k, const char *path, int64_t offset,
                            kernel_file_fn done, void *arg, struct kernel_file_op **ret,
                            struct err *err);
int thread_kernel_list_files(struct thread_kernel *k, kernel_list_fn done, void *arg,
                             struct kernel_file_op **ret, struct err *err);
/* The same with Python's variables: the callback gets {files, variables, globals}. */
int thread_kernel_inspect(struct thread_kernel *k, kernel_list_fn done, void *arg,
                          struct kernel_file_op **ret, struct err *err);
/* The data must stay until the callback came or the operation is dropped. */
int thread_kernel_write_file(struct thread_kernel *k, const char *path, const void *data,
                             size_t len, bool append, kernel_file_fn done, void *arg,
                             struct kernel_file_op **ret, struct err *err);
int thread_kernel_remove_file(struct thread_kernel *k, const char *path, kernel_file_fn done,
                              void *arg, struct kernel_file_op **ret, struct err *err);
/* Nobody waits for it any more. Not after its callback. NULL is fine. */
void kernel_file_op_drop(struct kernel_file_op *op);

/*
 * The thread's data changed: from now on SQL runs in lent sandboxes, and `added` are copied into
 * /workspace before the next job.
 */
void thread_kernel_add_files(struct thread_kernel *k, const struct sandbox_file *added, size_t n);
/* Calls when no file is being copied any more. */
void thread_kernel_when_added(struct thread_kernel *k, void (*done)(void *arg), void *arg);
/* The file's table was made anew; a kernel that has it as it was keeps it, and a note says so. */
void thread_kernel_note_reread(struct thread_kernel *k, const struct sandbox_file *file);
/*
 * Where a file that was added is, by its path on the host. False: it was not added. "" and a note
 * when the kernel had no room for it.
 */
bool thread_kernel_added_place(const struct thread_kernel *k, const char *path,
                               char ret[KERNEL_PLACE_SIZE], const char **ret_note);

#endif
