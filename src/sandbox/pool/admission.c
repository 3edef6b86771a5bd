/* The queue in front of all kernels. */

#include "sandbox/pool/admission.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"

#define OWNER_SIZE 64

/* An owner with at least one ticket. */
struct admission_owner {
    struct admission_owner *next;
    char name[OWNER_SIZE];
    size_t n_tickets;
    size_t waiting[_PLACE_MAX], active[_PLACE_MAX];
    struct ticket *first[_PLACE_MAX], *last[_PLACE_MAX]; /* waiting, by number */
    uint64_t served[_PLACE_MAX];                         /* the turn in which it was last */
};

void admission_init(struct admission *a, const struct admission_limits *limits)
{
    *a = (struct admission){ .limits = *limits };
    for (int p = 0; p < _PLACE_MAX; p++) {
        if (a->limits.places[p] == 0)
            a->limits.places[p] = 1;
        if (a->limits.owner_places[p] == 0)
            a->limits.owner_places[p] = a->limits.places[p];
    }
}

/* ---- owners ---- */

/* A new one joins behind those that wait: it counts as served just now. */
static struct admission_owner *owner_get(struct admission *a, const char *name)
{
    struct admission_owner **at = &a->owners;
    for (; *at; at = &(*at)->next)
        if (strncmp((*at)->name, name, OWNER_SIZE - 1) == 0)
            return *at;
    struct admission_owner *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    snprintf(o->name, sizeof(o->name), "%s", name);
    for (int p = 0; p < _PLACE_MAX; p++)
        o->served[p] = a->turns;
    return *at = o;
}

static void owner_drop(struct admission *a, struct admission_owner *o)
{
    if (--o->n_tickets > 0)
        return;
    struct admission_owner **at = &a->owners;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    free(o);
}

/* ---- states ---- */

static void count_memory(struct admission *a, struct ticket *t, int64_t bytes)
{
    a->held[t->place] += bytes - t->held;
    t->held = bytes;
}

static void wait_for_place(struct admission *a, struct ticket *t)
{
    struct admission_owner *o = t->owner;
    struct ticket *before = o->last[t->place];
    while (before && before->number > t->number)
        before = before->prev;
    t->prev = before;
    t->next = before ? before->next : o->first[t->place];
    *(before ? &before->next : &o->first[t->place]) = t;
    *(t->next ? &t->next->prev : &o->last[t->place]) = t;
    o->waiting[t->place]++;
    a->waiting[t->place]++;
    t->state = TICKET_WAITING;
}

/* Out of its state, still with the memory that is counted for it. */
static void withdraw(struct admission *a, struct ticket *t)
{
    struct admission_owner *o = t->owner;
    switch (t->state) {
    case TICKET_WAITING:
        *(t->prev ? &t->prev->next : &o->first[t->place]) = t->next;
        *(t->next ? &t->next->prev : &o->last[t->place]) = t->prev;
        t->next = t->prev = NULL;
        o->waiting[t->place]--;
        a->waiting[t->place]--;
        return;
    case TICKET_ACTIVE:
        o->active[t->place]--;
        a->active[t->place]--;
        return;
    case TICKET_PARKED:
        a->parked--;
        a->held_parked -= t->held;
        return;
    case TICKET_NONE:
        return;
    }
}

int admission_enter(struct admission *a, struct ticket *t, const char *owner, enum place place,
                    int64_t bytes, bool patient, struct err *err)
{
    assert(t->state == TICKET_NONE);
    struct admission_owner *o = owner_get(a, owner);
    if (!o)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    o->n_tickets++;
    size_t left = a->limits.places[place] - (a->active[place] < a->limits.places[place] ?
                                                 a->active[place] :
                                                 a->limits.places[place]);
    if (!patient && o->waiting[place] >= a->limits.queue_max + left) {
        size_t n = o->waiting[place];
        owner_drop(a, o);
        a->refused++;
        return err_set(err, ERR_UNAVAILABLE,
                       "the server is busy: %zu runs of yours are waiting; try again soon", n);
    }
    *t = (struct ticket){ .place = place, .bytes = bytes, .owner = o, .number = ++a->numbers };
    wait_for_place(a, t);
    return 0;
}

void admission_move(struct admission *a, struct ticket *t, enum place place, int64_t bytes)
{
    assert(t->state != TICKET_NONE);
    int64_t kept = t->state == TICKET_ACTIVE ? 0 : t->held;
    withdraw(a, t);
    if (t->state == TICKET_PARKED)
        t->number = ++a->numbers;
    count_memory(a, t, 0);
    t->place = place;
    t->bytes = bytes;
    count_memory(a, t, kept);
    wait_for_place(a, t);
}

void admission_park(struct admission *a, struct ticket *t, int64_t bytes)
{
    assert(t->state == TICKET_ACTIVE || t->state == TICKET_WAITING);
    withdraw(a, t);
    count_memory(a, t, bytes < t->bytes ? bytes : t->bytes);
    t->state = TICKET_PARKED;
    a->parked++;
    a->held_parked += t->held;
}

void admission_leave(struct admission *a, struct ticket *t)
{
    if (t->state == TICKET_NONE)
        return;
    withdraw(a, t);
    count_memory(a, t, 0);
    owner_drop(a, t->owner);
    *t = (struct ticket){ 0 };
}

/* ---- whose turn it is ---- */

static struct admission_owner *owner_in_turn(const struct admission *a, enum place p)
{
    struct admission_owner *best = NULL;
    for (struct admission_owner *o = a->owners; o; o = o->next) {
        if (!o->first[p] || o->active[p] >= a->limits.owner_places[p])
            continue;
        if (!best || o->active[p] < best->active[p] ||
            (o->active[p] == best->active[p] && o->served[p] < best->served[p]))
            best = o;
    }
    return best;
}

/*
 * A kind of place in which nothing is active always may have one: a limit that is larger than all
 * memory is no reason to wait for ever.
 */
static bool memory_allows(const struct admission *a, const struct ticket *t)
{
    int64_t all = t->bytes - t->held + a->held_idle, most = a->limits.memory_bytes / 4 * 3;
    if (a->active[t->place] == 0)
        return true;
    for (int p = 0; p < _PLACE_MAX; p++)
        all += a->held[p];
    return all <= a->limits.memory_bytes && a->held[t->place] - t->held + t->bytes <= most;
}

struct ticket *admission_next(struct admission *a)
{
    for (int p = 0; p < _PLACE_MAX; p++) {
        struct admission_owner *o = a->active[p] < a->limits.places[p] ?
                                        owner_in_turn(a, (enum place)p) :
                                        NULL;
        struct ticket *t = o ? o->first[p] : NULL;
        if (!t || !memory_allows(a, t))
            continue;
        withdraw(a, t);
        count_memory(a, t, t->bytes);
        t->state = TICKET_ACTIVE;
        o->active[p]++;
        a->active[p]++;
        o->served[p] = ++a->turns;
        return t;
    }
    return NULL;
}

bool admission_wants_room(const struct admission *a)
{
    if (a->held_parked + a->held_idle <= a->limits.memory_bytes / 2)
        return false;
    for (int p = 0; p < _PLACE_MAX; p++) {
        const struct admission_owner *o = a->active[p] < a->limits.places[p] ?
                                              owner_in_turn(a, (enum place)p) :
                                              NULL;
        if (o && !memory_allows(a, o->first[p]))
            return true;
    }
    return false;
}
