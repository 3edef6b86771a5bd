/*
 * Moves of kernels between hot, warm and cold: counted for all and for each owner, logged, and for
 * a thread that has left memory the last one is kept, as long as no other thread takes its place.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/agent_impl.h"
#include "base/log.h"
#include "base/str.h"

#define REMEMBERED 4096u /* a power of two */

struct remembered_move {
    char thread[IMAGE_THREAD_HEX + 1];
    struct kernel_moved moved;
};

static const char *const names[_MOVE_STATE_MAX] = { "hot", "warm", "cold" };

/* There is room for moves. */
static struct remembered_move *place_of(const struct agent *a, const char *thread)
{
    char digits[9];
    snprintf(digits, sizeof(digits), "%.8s", thread);
    return &a->moves[strtoul(digits, NULL, 16) % REMEMBERED];
}

static void remember(struct agent *a, const struct chat *c, const struct kernel_moved *moved)
{
    char thread[HASH_HEX_SIZE];
    if (!a->moves)
        a->moves = calloc(REMEMBERED, sizeof(*a->moves));
    if (!a->moves || !keeper_thread_name(c->owner, c->id, thread))
        return;
    struct remembered_move *m = place_of(a, thread);
    snprintf(m->thread, sizeof(m->thread), "%.*s", IMAGE_THREAD_HEX, thread);
    m->moved = *moved;
}

void moves_note(struct chat *c, const struct kernel_moved *moved)
{
    struct agent *a = c->agent;
    size_t from = 0, to = 0;
    while (from < _MOVE_STATE_MAX && !str_eq(names[from], moved->from))
        from++;
    while (to < _MOVE_STATE_MAX && !str_eq(names[to], moved->to))
        to++;
    if (from == _MOVE_STATE_MAX || to == _MOVE_STATE_MAX)
        return;
    a->stats.moves.n[from][to]++;
    a->stats.moves.seconds[from][to] += (double)moved->us / 1e6;
    agent_count_move(a, c->owner, from, to);
    remember(a, c, moved);
    log_info("thread.moved", LOG_STR("thread", c->id), LOG_STR("owner", c->owner),
             LOG_STR("from", moved->from), LOG_STR("to", moved->to), LOG_INT("us", moved->us));
}

bool agent_last_move(const struct agent *a, const char *owner, const char *thread_id,
                     struct kernel_moved *ret)
{
    char thread[HASH_HEX_SIZE];
    if (!a->moves || !keeper_thread_name(owner, thread_id, thread))
        return false;
    const struct remembered_move *m = place_of(a, thread);
    if (strncmp(m->thread, thread, IMAGE_THREAD_HEX) != 0)
        return false;
    *ret = m->moved;
    return true;
}

void agent_each_move(const struct agent_moves *moves,
                     void (*each)(void *arg, const char *from, const char *to, uint64_t n,
                                  double seconds),
                     void *arg)
{
    for (size_t from = 0; from < _MOVE_STATE_MAX; from++)
        for (size_t to = 0; to < _MOVE_STATE_MAX; to++)
            if (moves->n[from][to] > 0)
                each(arg, names[from], names[to], moves->n[from][to], moves->seconds[from][to]);
}

void moves_forget(struct agent *a)
{
    free(TAKE_PTR(a->moves));
}
