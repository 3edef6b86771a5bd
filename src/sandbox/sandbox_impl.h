#ifndef RIDDLE_SANDBOX_SANDBOX_IMPL_H
#define RIDDLE_SANDBOX_SANDBOX_IMPL_H

/* What makes sandboxes shares with sandbox.c: the pool, the table cache, files of /workspace. */

#include "sandbox/provider.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire.h"

/* What a kernel is told when it becomes a sandbox. */
struct sandbox_start {
    void (*freed)(void *arg); /* its kernel was ended and nobody knows it any more; may be NULL */
    void *freed_arg;
    const char *owner; /* whose room its long messages take; NULL: nobody's */
    const char *dataset_id;
    const struct kernel_mount *mounts;
    size_t n_mounts;
    const struct wire_start_table *tables;
    size_t n_tables;
    struct sandbox_limits limits;
    int threads;
    const char *image; /* what the kernel becomes; NULL: a new one */
    struct kernel_link *source; /* … or a living one */
    /* As of struct sandbox_spec. */
    const char *python_allowed, *python_blocked;
    bool agent, debugging;
};

/*
 * Takes the link over (also on failure), tells the kernel what it is for, and makes a sandbox of
 * it.
 */
int sandbox_open(struct kernel_link *link, const struct sandbox_start *start, struct sandbox **ret,
                 struct err *err);
struct kernel_link *sandbox_link(struct sandbox *sb);
/*
 * Times spent before the first run, and the lines that ingests left out (an array, taken over);
 * reported with the first result.
 */
void sandbox_set_load(struct sandbox *sb, int64_t start_us, int64_t load_us, json_t *rejects);

/* A request of any kind. */
struct sandbox_request {
    enum wire_type type;
    const json_t *body; /* NULL: no members */
    const void *bytes;  /* in front of it */
    size_t n_bytes;
    size_t max_bytes_back; /* in front of its answer */
    int64_t timeout_ms, max_output_bytes;
    int64_t pause_ms;       /* of a debugged run */
    size_t max_steps_bytes; /* … 0: it is not debugged */
};

int sandbox_request(struct sandbox *sb, const struct sandbox_request *req,
                    const struct run_events *events, sandbox_done_fn done, void *arg,
                    struct err *err);

/* True if the kernel ended by itself before it could run anything: another one may do better. */
bool sandbox_died_early(const struct sandbox *sb);
/* It has said so: requests before that have run nothing. */
bool sandbox_was_ready(const struct sandbox *sb);

#endif
