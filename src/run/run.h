#ifndef RIDDLE_RUN_RUN_H
#define RIDDLE_RUN_RUN_H

/*
 * A run: one piece of SQL or Python on some files, from its specification to a stored capsule. It
 * waits for a lease of a sandbox (admission, ingest and start are the executor's), runs, is put
 * into words (outcome.h) and kept (capsule.h). The capsule is stored before anybody is told the
 * result: what was acknowledged is kept. Runs of commands (foreground.h) are not kept.
 *
 * Everything happens in the loop's thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/json.h"
#include "net/metrics.h"
#include "sandbox/pool/executor.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

struct run;
struct sandbox_terms;
struct queries;

/* What runs share, and the ones in flight. Filled by its owner. */
struct runs {
    struct executor *executor;
    struct store *store;           /* NULL: nothing is kept */
    struct figure_store *figures;  /* NULL: figures are inside results, whatever their size */
    const struct queries *queries; /* databases that code may ask; NULL: none */
    struct metric_family *seconds; /* by query_mode and verdict; may be NULL */
    struct run *all;
};

/* Copied. */
struct run_spec {
    const char *owner;
    const char *dataset_id, *dataset_version_hash;
    const char *query_mode;   /* sql, plan, python */
    const char *sql, *python; /* exactly one of these; SQL may be compiled from the plan */
    const json_t *plan;
    const char *question, *replay_of; /* may be NULL */
    struct run_request request;       /* policy and limits; kind and code are set here */
    struct sandbox_limits limits;
    const struct sandbox_terms *terms; /* of an agent's sandbox (then limits and policy are theirs),
                                          until run_start() returns; NULL */
    const char *database;              /* SQL is run by it; NULL: by a kernel */
    const struct sandbox_file *files;
    size_t n_files;
    const struct err
        *refused; /* it does not run, and is kept as rejected with this error; NULL: it runs */
    /*
     * Called with held when the run is gone, which keeps the files until then. Not called when
     * run_start() fails.
     */
    void (*release)(void *held);
    void *held;
};

/* How a run ended. Lives for the time of the call. */
struct run_report {
    const char *run_id;
    const struct run_spec *spec;
    const char *status;
    json_t *result;  /* outcome_result() */
    json_t *timings; /* capsule_timings() */
    /* What the sandbox said, where nothing is kept; else NULL. Whoever takes it over clears it. */
    struct run_result *ran;
};

/*
 * Called in the loop, never from within run_start(). Any may be NULL but done, which comes exactly
 * once unless the run is dropped.
 */
struct run_listener {
    void (*phase)(void *arg, const char *name); /* loading, executing */
    void (*output)(void *arg, bool is_stderr, const char *text, size_t len);
    void (*display)(void *arg, json_t *data); /* as answers have it (figures.h); borrowed */
    bool (*is_slow)(void *arg);               /* the client reads slowly: figures go by reference */
    void (*progress)(void *arg, const char *stage, double fraction);
    void (*begun)(void *arg, struct lease *lease); /* the code is about to run there */
    /* What its code asks for besides databases, as run_events.ask. */
    bool (*ask)(void *arg, struct lease *lease, uint32_t id, const char *what, const json_t *args);
    /* The code has ended, and done follows: takes over the lease, with what is in the sandbox. */
    void (*ended)(void *arg, struct lease *lease);
    /* err instead of a report when there is none: the sandbox broke, the store failed. */
    void (*done)(void *arg, const struct run_report *report, const struct err *err);
    void *arg;
};

/*
 * The SQL that is run and kept: its tables named without the data set. In the arena; NULL when out
 * of memory.
 */
const char *run_plain_sql(struct arena *arena, const char *dataset_id,
                          const struct sandbox_file *files, size_t n_files, const char *sql);

/* TOO_LARGE for the code, UNAVAILABLE when too many wait. */
int run_start(struct runs *runs, const struct run_spec *spec, const struct run_listener *listener,
              struct run **ret, struct err *err);
const char *run_id(const struct run *run);
const char *run_phase(const struct run *run); /* queued, loading, running */
/*
 * Nobody listens any more: the run is interrupted and its capsule still stored. No callback comes
 * after this.
 */
void run_drop(struct run *run);
/* Interrupts; done still comes, with verdict killed. The run may be gone when this returns. */
void run_cancel(struct run *run);
/* The run in flight of this owner; NULL: none. */
struct run *run_find(const struct runs *runs, const char *owner, const char *id);

/* At the end of the server: forgets all runs without a word. */
void runs_abandon(struct runs *runs);

#endif
