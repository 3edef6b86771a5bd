#ifndef RIDDLE_NET_LOOP_H
#define RIDDLE_NET_LOOP_H

/*
 * The event loop: a thin shell around libuv that everything of the server runs in. One thread, no
 * locks. What blocks goes through loop_work(). `uv_loop_t` is not hidden: modules with descriptors
 * of their own use libuv directly.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "base/err.h"

struct loop;

int loop_create(struct loop **ret, struct err *err);
/* Closes every handle that is still open (close callbacks run), then frees. NULL is fine. */
void loop_destroy(struct loop *loop);

uv_loop_t *loop_uv(struct loop *loop);

/* Until loop_quit(), or until nothing is left to wait for. */
void loop_run(struct loop *loop);
void loop_quit(struct loop *loop);

/*
 * Calls fn(arg) once, soon, from the loop and not from inside the caller. In the order of the
 * calls.
 */
int loop_defer(struct loop *loop, void (*fn)(void *arg), void *arg, struct err *err);

/* Calls fn(arg) once, delay_ms from now, unless cancelled before. */
struct loop_timer;
int loop_after(struct loop *loop, uint64_t delay_ms, void (*fn)(void *arg), void *arg,
               struct loop_timer **ret, struct err *err);
void loop_cancel(struct loop_timer *timer); /* not after it fired; NULL is fine */

/* work(arg) in the worker pool, then done(arg) in the loop. */
int loop_work(struct loop *loop, void (*work)(void *arg), void (*done)(void *arg), void *arg,
              struct err *err);

/*
 * The same in a thread of lower priority (base/background.h), for work whose amount a caller
 * decides. Of any loop of libuv; done() comes from the loop's own thread, never from within.
 */
int loop_background(uv_loop_t *uv, void (*work)(void *arg), void (*done)(void *arg), void *arg,
                    struct err *err);
/* The same for work of an owner's that may take a second: background_run_long(). */
int loop_background_long(uv_loop_t *uv, const char *owner, void (*work)(void *arg),
                         void (*done)(void *arg), void *arg, struct err *err);

/*
 * How long the loop was busy between two waits: for so long a descriptor that became ready may have
 * waited. Measured at each iteration, from the start of the loop.
 */
#define LOOP_LAG_BUCKETS 12
extern const double loop_lag_bounds[LOOP_LAG_BUCKETS]; /* seconds, inclusive */

struct loop_times {
    uint64_t counts[LOOP_LAG_BUCKETS]; /* not cumulative; above the last bound: in count only */
    uint64_t count;
    double sum_s;
};
struct loop_lag {
    struct loop_times busy;
    /* processor time of the same spans: what a busy machine adds is not in it */
    struct loop_times cpu;
    double max_s; /* of busy, of the last one to two minutes */
};
void loop_lag(struct loop *loop, struct loop_lag *ret);

/*
 * Calls fn(arg, count) for each SIGINT or SIGTERM; count is 1 for the first, so that a second one
 * can mean "now". SIGPIPE is ignored from here on. Once per loop.
 */
int loop_on_stop_signal(struct loop *loop, void (*fn)(void *arg, int count), void *arg,
                        struct err *err);

#endif
