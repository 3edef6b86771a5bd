#include "sandbox/local/user_ids.h"

#include <assert.h>

void user_ids_init(struct user_ids *ids, unsigned n)
{
    assert(n >= 1 && n <= USER_IDS_MAX);
    *ids = (struct user_ids){ .lock = PTHREAD_MUTEX_INITIALIZER, .n = n, .taken = { 1 } };
}

unsigned user_ids_take(struct user_ids *ids)
{
    unsigned id = 0;
    pthread_mutex_lock(&ids->lock);
    for (unsigned i = 0; i < (ids->n + 63) / 64; i++)
        if (~ids->taken[i]) {
            id = i * 64 + (unsigned)__builtin_ctzll(~ids->taken[i]);
            break;
        }
    if (id >= ids->n)
        id = 0;
    ids->taken[id / 64] |= 1ull << (id % 64);
    pthread_mutex_unlock(&ids->lock);
    return id;
}

void user_ids_give_back(struct user_ids *ids, unsigned id)
{
    if (id == 0)
        return;
    pthread_mutex_lock(&ids->lock);
    ids->taken[id / 64] &= ~(1ull << (id % 64));
    pthread_mutex_unlock(&ids->lock);
}

void user_ids_limit(struct user_ids *ids, unsigned n)
{
    pthread_mutex_lock(&ids->lock);
    if (n < ids->n)
        ids->n = n;
    pthread_mutex_unlock(&ids->lock);
}
