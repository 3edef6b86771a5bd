#ifndef RIDDLE_RUN_QUERIES_H
#define RIDDLE_RUN_QUERIES_H

/*
 * Queries of databases with their line in the log, and answers to code that asks for one while it
 * runs (docs/databases.md). Every kind of run has them: API runs, cells of threads, commands.
 */

#include <stdint.h>
#include "base/json.h"
#include "database/database.h"
#include "sandbox/pool/executor.h"
#include "store/store.h"

/* What the queries of a server share. Filled by its owner. */
struct queries {
    uv_loop_t *loop;
    struct databases *databases;
    struct store *store; /* NULL: no log */
};

/* Who asks. Strings are copied. */
struct query_origin {
    const char *owner;
    const char *thread_id, *run_id; /* may be NULL */
};

struct query;

/* As database_query(). redact: names of parameters that the log does not keep; may be NULL. */
int query_start(const struct queries *qs, const struct query_origin *origin, struct database *db,
                const struct db_request *req, const json_t *redact, db_done_fn done, void *arg,
                struct query **ret, struct err *err);
/* Stops it, also on its server; the log says so. done does not come. NULL is fine. */
void query_cancel(struct query *q);

/* ---- code that asks ---- */

/* The question of one run; a run has at most one at a time. */
struct answer;

struct answer_context {
    const struct queries *queries;
    struct query_origin origin;
    const char *database; /* the one that is meant when none is named; NULL: the first */
    struct lease *lease;
    int64_t deadline_ms; /* of the run, by clock_now_ms(): a query gets no more time than is left */
};

/*
 * For run_events.ask: what is db_query {sql, params, db, redact} or db_schema {db, table}.
 * False: it is something else, or there are no databases. *a is the question before
 * this one, which is dropped, and becomes this one.
 */
bool answer_begin(struct answer **a, const struct answer_context *context, uint32_t id,
                  const char *what, const json_t *args);
/* The run is over or asks something else: a query under way is cancelled. */
void answer_drop(struct answer **a);

#endif
