#ifndef RIDDLE_SANDBOX_POOL_ADMISSION_H
#define RIDDLE_SANDBOX_POOL_ADMISSION_H

/*
 * Who may use the processors and the memory now. Everything that needs a kernel (an API run, a cell
 * of a thread, an ingest) has a ticket here, and there is no other queue.
 *
 * A ticket is WAITING → ACTIVE → PARKED → WAITING … until it leaves. An active one has a place:
 * there are so many for SQL, for Python and for ingests, each of its own, so that a query never
 * waits for somebody's Python. It is counted with the memory that its kernel may use. A parked one
 * has no place: its kernel is kept for its variables and is counted with the memory that it holds.
 *
 * Places go to owners in turn: to the one with the fewest active tickets, then to the one that was
 * served least recently. Tickets of one owner are served in the order in which they came.
 *
 * Pure bookkeeping: no clock, no callback, no kernel. The executor asks admission_next() whenever
 * something has changed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum place { PLACE_SQL, PLACE_PYTHON, PLACE_INGEST, _PLACE_MAX };

struct admission_limits {
    size_t places[_PLACE_MAX];
    size_t owner_places
        [_PLACE_MAX]; /* that one owner may have: the rest is there when another comes. 0: all */
    int64_t
        memory_bytes; /* of all kernels together; one kind of place may have three quarters of it */
    size_t queue_max; /* tickets of one owner that may wait for one kind of place */
};

enum ticket_state { TICKET_NONE, TICKET_WAITING, TICKET_ACTIVE, TICKET_PARKED };

/* Embedded in what waits. All zero before admission_enter(). */
struct ticket {
    enum ticket_state state;
    enum place place;
    int64_t bytes; /* what its kernel may use */
    int64_t held;  /* what is counted for it now */
    struct admission_owner *owner;
    struct ticket *next, *prev;
    uint64_t number;
};

struct admission {
    struct admission_limits limits;
    struct admission_owner *owners;
    size_t waiting[_PLACE_MAX], active[_PLACE_MAX], parked;
    int64_t held[_PLACE_MAX], held_parked; /* held_parked is part of the others */
    int64_t held_idle; /* by kernels that nobody has a ticket for; kept up to date by the user */
    uint64_t numbers, turns, refused;
};

void admission_init(struct admission *a, const struct admission_limits *limits);

/* UNAVAILABLE when this owner has too many waiting already; a patient one is never refused. */
int admission_enter(struct admission *a, struct ticket *t, const char *owner, enum place place,
                    int64_t bytes, bool patient, struct err *err);
/* The next one to begin, now active; NULL: none can. */
struct ticket *admission_next(struct admission *a);
/*
 * For another place, or to run again when it was parked: it waits, keeping its turn or its memory,
 * and is not refused.
 */
void admission_move(struct admission *a, struct ticket *t, enum place place, int64_t bytes);
/* It gives its place up, or its turn. What is kept of it holds so much memory. */
void admission_park(struct admission *a, struct ticket *t, int64_t bytes);
/* In any state. */
void admission_leave(struct admission *a, struct ticket *t);

/*
 * True if somebody waits for memory and kernels that run nothing hold more than half of it: the
 * least useful one should go.
 */
bool admission_wants_room(const struct admission *a);

#endif
