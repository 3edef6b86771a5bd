#ifndef RIDDLE_SANDBOX_ROOM_H
#define RIDDLE_SANDBOX_ROOM_H

/*
 * Room for long messages of kernels: a budget of bytes for the kernels of each owner, and one for
 * all kernels of the server. A message takes its place before its body is read and holds it until
 * it is parsed and passed on; a figure that is written to its file holds one as well. Where there
 * is no room, the kernel's socket is not read until others have left: back-pressure. The owner who
 * holds least is next; places of one owner are first come, first served.
 *
 * A kernel may announce a message and then send nothing. A place counts for HELD_MAX_MS at the
 * most, so that nobody can keep the others waiting.
 *
 * Everything is called from the thread of the loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define ROOM_BYTES (8u << 20) /* of one owner */
#define ROOM_BYTES_ALL (4 * ROOM_BYTES)
/* Shorter messages need no place. From this size on the server's malloc() maps memory. */
#define ROOM_MESSAGE_MIN (256u << 10)

/* All zero: neither waits nor holds. */
struct room_place {
    struct room_place *next, **prev;
    uint64_t owner; /* room_owner() */
    size_t bytes;
    int64_t since_ms;
    uv_timer_t *timer; /* while it waits */
    bool hurries;
    void (*granted)(void *arg);
    void *arg;
};

/* The owner's name as a number; 0 is nobody's. */
uint64_t room_owner(const char *name);
/*
 * True if the place is held now. Otherwise granted(arg) is called from the loop when it is; false
 * is not returned where the place could not wait for want of memory.
 */
bool room_enter(struct room_place *p, uv_loop_t *loop, uint64_t owner, size_t bytes,
                void (*granted)(void *arg), void *arg);
/* Holds a place whether there is room or not. */
void room_hold(struct room_place *p, uint64_t owner, size_t bytes);
/* If it waits: is granted the place soon, whether there is room or not. */
void room_hurry(struct room_place *p);
bool room_waits(const struct room_place *p);
/* Neither waits nor holds any more. Also for one that does neither. */
void room_leave(struct room_place *p);

#endif
