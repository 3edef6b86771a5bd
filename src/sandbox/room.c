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

/* A message that is larger than the room has it for itself. */
static bool fits(size_t bytes)
{
    return room.bytes == 0 || room.bytes + bytes <= ROOM_BYTES;
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
static void wake_first(void)
{
    if (room.waiting.first && fits(room.waiting.first->bytes))
        uv_timer_start(room.waiting.first->timer, on_check, 0, CHECK_MS);
}

static void on_check(uv_timer_t *h)
{
    struct room_place *p = h->data;
    expire();
    if (!p->hurries && (p != room.waiting.first || !fits(p->bytes))) {
        wake_first();
        return;
    }
    stop_waiting(p);
    room_hold(p, p->bytes);
    wake_first();
    p->granted(p->arg);
}

bool room_enter(struct room_place *p, uv_loop_t *loop, size_t bytes, void (*granted)(void *arg),
                void *arg)
{
    bool at_once = !room.waiting.first && fits(bytes);
    uv_timer_t *timer = at_once ? NULL : malloc(sizeof(*timer));
    if (!timer) {
        room_hold(p, bytes);
        return true;
    }
    *p = (struct room_place){ .bytes = bytes, .timer = timer, .granted = granted, .arg = arg };
    uv_timer_init(loop, timer);
    timer->data = p;
    append(&room.waiting, p);
    uv_timer_start(timer, on_check, CHECK_MS, CHECK_MS);
    return false;
}

void room_hold(struct room_place *p, size_t bytes)
{
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
    wake_first();
}
