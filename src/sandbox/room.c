#include "sandbox/room.h"

#include <stdlib.h>
#include "base/clock.h"

#define HELD_MAX_MS 500 /* a figure of 4 MB comes within 50 ms */
#define CHECK_MS 100    /* for places that do not count any more */

struct places {
    struct room_place *first, **last; /* NULL: of `first` */
};

static struct {
    struct places waiting, held; /* the oldest first */
    size_t bytes;                /* held */
} room;

static void append(struct places *list, struct room_place *p)
{
    p->next = NULL;
    p->prev = list->last ? list->last : &list->first;
    *p->prev = p;
    list->last = &p->next;
}

static void take_out(struct places *list, struct room_place *p)
{
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
    else
        list->last = p->prev;
    p->next = NULL;
    p->prev = NULL;
}

uint64_t room_owner(const char *name)
{
    uint64_t n = 14695981039346656037u; /* FNV-1a */
    for (const char *c = name; *c; c++)
        n = (n ^ (unsigned char)*c) * 1099511628211u;
    return n;
}

static size_t held_by(uint64_t owner)
{
    size_t bytes = 0;
    for (const struct room_place *p = room.held.first; p; p = p->next)
        bytes += p->owner == owner ? p->bytes : 0;
    return bytes;
}

/* A message that is larger than a room has it for itself. */
static bool fits_in(size_t room_bytes, size_t held, size_t bytes)
{
    return held == 0 || held + bytes <= room_bytes;
}

/* An owner's places are granted in their order. */
static bool is_first_of_owner(const struct room_place *p)
{
    const struct room_place *first = room.waiting.first;
    while (first != p && first->owner != p->owner)
        first = first->next;
    return first == p;
}

/*
 * Of those whose owner has room for them: the first one of the owner who holds least. It may have
 * to wait for others' places; nobody is let past it meanwhile.
 */
static struct room_place *next_waiting(void)
{
    struct room_place *best = NULL;
    size_t least = 0;
    for (struct room_place *p = room.waiting.first; p; p = p->next) {
        size_t held = held_by(p->owner);
        if (is_first_of_owner(p) && fits_in(ROOM_BYTES, held, p->bytes) &&
            (!best || held < least)) {
            best = p;
            least = held;
        }
    }
    return best;
}

static bool fits(const struct room_place *p)
{
    return p == next_waiting() && fits_in(ROOM_BYTES_ALL, room.bytes, p->bytes);
}

static void stop_counting(struct room_place *p)
{
    take_out(&room.held, p);
    room.bytes -= p->bytes;
}

static void expire(void)
{
    int64_t now = clock_now_ms();
    while (room.held.first && now - room.held.first->since_ms >= HELD_MAX_MS)
        stop_counting(room.held.first);
}

static void free_timer(uv_handle_t *h)
{
    free(h);
}

static void stop_waiting(struct room_place *p)
{
    take_out(&room.waiting, p);
    uv_close((uv_handle_t *)p->timer, free_timer);
    p->timer = NULL;
}

static void on_check(uv_timer_t *h);

/* From the loop, not from within: who leaves may be in the middle of something. */
static void wake_next(void)
{
    struct room_place *p = next_waiting();
    if (p && fits(p))
        uv_timer_start(p->timer, on_check, 0, CHECK_MS);
}

static void on_check(uv_timer_t *h)
{
    struct room_place *p = h->data;
    expire();
    if (!p->hurries && !fits(p)) {
        wake_next();
        return;
    }
    stop_waiting(p);
    room_hold(p, p->owner, p->bytes);
    wake_next();
    p->granted(p->arg);
}

bool room_enter(struct room_place *p, uv_loop_t *loop, uint64_t owner, size_t bytes,
                void (*granted)(void *arg), void *arg)
{
    *p = (struct room_place){ .owner = owner, .bytes = bytes, .granted = granted, .arg = arg };
    append(&room.waiting, p);
    uv_timer_t *timer = fits(p) ? NULL : malloc(sizeof(*timer));
    if (!timer) {
        take_out(&room.waiting, p);
        room_hold(p, owner, bytes);
        return true;
    }
    p->timer = timer;
    uv_timer_init(loop, timer);
    timer->data = p;
    uv_timer_start(timer, on_check, CHECK_MS, CHECK_MS);
    return false;
}

void room_hold(struct room_place *p, uint64_t owner, size_t bytes)
{
    p->owner = owner;
    p->bytes = bytes;
    p->since_ms = clock_now_ms();
    append(&room.held, p);
    room.bytes += bytes;
}

void room_hurry(struct room_place *p)
{
    if (!room_waits(p))
        return;
    p->hurries = true;
    uv_timer_start(p->timer, on_check, 0, CHECK_MS);
}

bool room_waits(const struct room_place *p)
{
    return p->timer != NULL;
}

void room_leave(struct room_place *p)
{
    if (room_waits(p))
        stop_waiting(p);
    else if (p->prev)
        stop_counting(p);
    wake_next();
}
