#ifndef RIDDLE_BASE_MACROS_H
#define RIDDLE_BASE_MACROS_H

/*
 * Small language helpers that every module uses: attributes, scope-bound cleanup, ownership moves.
 */

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#define MUST_CHECK __attribute__((warn_unused_result))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
/* The struct that has this member. */
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* A local that is freed / closed when its scope ends. Hand it on with TAKE_PTR / TAKE_FD. */
#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_close __attribute__((cleanup(cleanup_close)))

/* Moves ownership out of a local: yields the value and leaves the local empty. */
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

#define SWAP_VALUES(a, b)                                                                          \
    do {                                                                                           \
        __typeof__(a) swapped = (a);                                                               \
        (a) = (b);                                                                                 \
        (b) = swapped;                                                                             \
    } while (0)

#endif
