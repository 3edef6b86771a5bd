#ifndef RIDDLE_RUN_CAPSULE_H
#define RIDDLE_RUN_CAPSULE_H

/*
 * The capsule of a run (store.h, struct capsule): the one place that writes it and that makes a
 * request of it again. A run and, in a thread, the messages that belong to it are one transaction.
 */

#include "sandbox/pool/executor.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

/* A run that ended. NULL stands for what it does not have. */
struct capsule_spec {
    const char *run_id, *owner, *created_at;
    const char *dataset_id, *dataset_version_hash;
    const char *query_mode; /* sql, plan, python, chat */
    const char *thread_id, *replay_of, *question;
    const char *status; /* outcome_status(), or how the turn ended in which nothing ran */
    const char *sql, *python;
    const json_t *plan;
    const struct run_request *request; /* its policy and limits */
    const struct sandbox_limits *limits;
    /* As outcome_result() gives it: verdict, error and exec_time_ms are taken from it. */
    const json_t *result;
    const json_t *timings, *usage;
};

/* As store_put_batch(). At most STORE_BATCH_MAX - 1 messages. */
int capsule_store(struct store *s, const struct capsule_spec *spec, const struct message *messages,
                  size_t n_messages, store_done_fn done, void *arg, struct err *err);

/*
 * In milliseconds, by stage: queue, load, start, execute (from the request to its answer as the
 * server sees it), kernel (the part of it that the kernel counted). New reference.
 */
json_t *capsule_timings(const struct lease_times *times, const struct run_result *res);
/* {peak_memory_bytes, cpu_ms}. New reference. */
json_t *capsule_usage(const struct run_result *res);

/*
 * What repeats the run: its code (the capsule's own memory), policy and limits. VALIDATION if it
 * holds no code.
 */
int capsule_request(const struct capsule *c, const struct config *cfg, struct run_request *ret,
                    struct err *err);

#endif
