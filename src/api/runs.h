#ifndef RIDDLE_API_RUNS_H
#define RIDDLE_API_RUNS_H

/*
 * A run: one piece of SQL, plan or Python on one dataset, from a request to a stored capsule. The routes of runs.c start them for
 * clients; other files may start them for themselves.
 */

#include <stdint.h>
#include "api/app.h"
#include "base/id.h"
#include "sandbox/sandbox.h"

enum run_phase { RUN_QUEUED, RUN_LOADING, RUN_RUNNING, RUN_STORING, _RUN_PHASE_MAX };
const char *run_phase_name(enum run_phase p);

/* What is asked. Strings are copied. */
struct run_spec {
    const char *owner;
    const char *dataset_id;
    const char *query_type; /* sql, plan, python */
    const char *sql, *python_code;
    const json_t *plan;
    const char *question; /* may be NULL */
    const char *replay_of;
    enum python_policy policy;
    int64_t timeout_ms, max_rows, max_output_bytes;
};

/* Called in the loop. Any may be NULL but done, which comes exactly once unless the run is dropped. */
struct run_listener {
    void (*phase)(void *arg, const char *name);
    void (*output)(void *arg, bool is_stderr, const char *text, size_t len);
    void (*display)(void *arg, const json_t *data);
    void (*progress)(void *arg, const char *stage, double fraction);
    /* response: as POST /runs answers it (borrowed); err instead when there is none: the store failed, the server is busy, … */
    void (*done)(void *arg, json_t *response, const struct err *err);
    void *arg;
};

/* Checks everything that can be checked at once: NOT_FOUND, VALIDATION, UNAVAILABLE. */
int run_start(struct app *app, const struct run_spec *spec, const struct run_listener *listener, struct run **ret,
              struct err *err);
const char *run_id(const struct run *run);
/* Nobody listens any more: the run is interrupted and its capsule still stored. No callback comes after this. */
void run_drop(struct run *run);
/* Interrupts; done still comes, with verdict killed. The run may be gone when this returns. */
void run_cancel(struct run *run);

/* At the end of the server: forgets the run without a word. */
void run_abandon(struct run *run);

struct run *run_in_flight(struct app *app, const char *owner, const char *id); /* NULL: none */
enum run_phase run_phase_of(const struct run *run);

/* Plan → SQL, checked against what is known of the dataset (NULL: its form only). */
int app_compile_plan(const struct dataset *d, const json_t *plan, struct arena *a, struct buf *ret_sql, struct err *err);

#endif
