#ifndef RIDDLE_SANDBOX_LOCAL_USER_IDS_H
#define RIDDLE_SANDBOX_LOCAL_USER_IDS_H

/*
 * The user ids of kernels. Linux counts some things by user (pages in pipes, descriptors that are
 * on their way through a socket), so kernels of one user could use up each other's share. With a
 * range of ids each kernel has its own.
 *
 * An id is a number in the user namespace of a zygote: 0 is the zygote's own, and is shared by the
 * kernels that came when all others were taken. The lowest free one is taken first, so that id maps
 * of mounts are found again (shown.c).
 */

#include <pthread.h>
#include <stdint.h>

#define USER_IDS_MAX 65536

struct user_ids {
    pthread_mutex_t lock;
    unsigned n; /* 1: all kernels share one */
    uint64_t taken[USER_IDS_MAX / 64];
};

void user_ids_init(struct user_ids *ids, unsigned n);
unsigned user_ids_take(struct user_ids *ids);
void user_ids_give_back(struct user_ids *ids, unsigned id);
/* There are fewer than it seemed. */
void user_ids_limit(struct user_ids *ids, unsigned n);

#endif
