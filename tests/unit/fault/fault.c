/* The countdown of fault.h, and the functions that it makes fail. */

#include "fault/fault.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>
#include "base/check.h"

static struct {
    atomic_long left[_FAULT_MAX]; /* calls until one fails; 0: none will */
    atomic_int pauses;
    atomic_bool from, fired;
} f;

/* Whether this call is the one. */
static bool hit(enum fault kind)
{
    long left = atomic_load(&f.left[kind]);

    if (atomic_load(&f.pauses))
        return false;
    while (left > 1)
        if (atomic_compare_exchange_weak(&f.left[kind], &left, left - 1))
            return false;
    if (left == 0)
        return false;
    if (!atomic_load(&f.from) && !atomic_compare_exchange_strong(&f.left[kind], &left, 0))
        return false;
    atomic_store(&f.fired, true);
    return true;
}

void fault_arm(enum fault kind, long nth, bool from)
{
    atomic_store(&f.fired, false);
    atomic_store(&f.pauses, 0);
    atomic_store(&f.from, from);
    atomic_store(&f.left[kind], nth);
}

bool fault_disarm(void)
{
    for (size_t i = 0; i < _FAULT_MAX; i++)
        atomic_store(&f.left[i], 0);
    return atomic_load(&f.fired);
}

void fault_pause(void)
{
    atomic_fetch_add(&f.pauses, 1);
}

void fault_resume(void)
{
    atomic_fetch_sub(&f.pauses, 1);
}

bool fault_fired(void)
{
    return atomic_load(&f.fired);
}

long fault_rounds(enum fault kind, bool from, long max, void (*run)(void *arg), void *arg)
{
    for (long n = 1; n <= max; n += 1 + n / 100) {
        fault_arm(kind, n, from);
        run(arg);
        if (!fault_disarm())
            return n;
    }
    fail_msg("still failing after %ld rounds", max);
    return max;
}

/* ---- our own code ---- */

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t size)
{
    if (!hit(FAULT_ALLOC))
        return __real_malloc(size);
    errno = ENOMEM;
    return NULL;
}

WRAP(void *, calloc, size_t n, size_t size)
{
    if (!hit(FAULT_ALLOC))
        return __real_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

WRAP(void *, realloc, void *p, size_t size)
{
    if (!hit(FAULT_ALLOC))
        return __real_realloc(p, size);
    errno = ENOMEM;
    return NULL;
}

WRAP(void *, reallocarray, void *p, size_t n, size_t size)
{
    if (!hit(FAULT_ALLOC))
        return __real_reallocarray(p, n, size);
    errno = ENOMEM;
    return NULL;
}

WRAP(char *, strdup, const char *s)
{
    if (!hit(FAULT_ALLOC))
        return __real_strdup(s);
    errno = ENOMEM;
    return NULL;
}

WRAP(char *, strndup, const char *s, size_t n)
{
    if (!hit(FAULT_ALLOC))
        return __real_strndup(s, n);
    errno = ENOMEM;
    return NULL;
}

#define NO_SPACE(call)                                                                             \
    do {                                                                                           \
        if (!hit(FAULT_WRITE))                                                                     \
            return call;                                                                           \
        errno = ENOSPC;                                                                            \
        return -1;                                                                                 \
    } while (0)

WRAP(ssize_t, write, int fd, const void *p, size_t n)
{
    NO_SPACE(__real_write(fd, p, n));
}

WRAP(ssize_t, send, int fd, const void *p, size_t n, int flags)
{
    NO_SPACE(__real_send(fd, p, n, flags));
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *m, int flags)
{
    NO_SPACE(__real_sendmsg(fd, m, flags));
}

WRAP(int, rename, const char *from, const char *to)
{
    NO_SPACE(__real_rename(from, to));
}

WRAP(int, renameat, int from_fd, const char *from, int to_fd, const char *to)
{
    NO_SPACE(__real_renameat(from_fd, from, to_fd, to));
}

WRAP(pid_t, fork, void)
{
    if (!hit(FAULT_SPAWN))
        return __real_fork();
    errno = EAGAIN;
    return -1;
}

/* vfork() returns twice into its caller's frame, which no wrapper can pass on. */
pid_t __wrap_vfork(void);
pid_t __wrap_vfork(void)
{
    return __wrap_fork();
}

/* ---- turns of a loop ---- */

static struct {
    uv_timer_t *timer;
    uv_timer_cb turn;
} turns[64];
static bool spares_turns;

void fault_spare_turns(bool on)
{
    spares_turns = on;
}

static void take_turn(uv_timer_t *timer)
{
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++)
        if (turns[i].timer == timer) {
            turns[i].timer = NULL;
            fault_pause();
            turns[i].turn(timer);
            fault_resume();
            return;
        }
}

WRAP(int, uv_timer_start, uv_timer_t *timer, uv_timer_cb turn, uint64_t ms, uint64_t again_ms)
{
    size_t i = 0;

    if (!spares_turns || ms > 0 || again_ms > 0)
        return __real_uv_timer_start(timer, turn, ms, again_ms);
    while (i < sizeof(turns) / sizeof(turns[0]) && turns[i].timer && turns[i].timer != timer)
        i++;
    assert_true(i < sizeof(turns) / sizeof(turns[0]));
    turns[i].timer = timer;
    turns[i].turn = turn;
    return __real_uv_timer_start(timer, take_turn, 0, 0);
}

/* ---- jansson and SQLite ---- */

/* In place of the C library's, for SQLite as well: nothing here has to survive a loss of power. */
int fsync(int fd)
{
    (void)fd;
    NO_SPACE(0);
}

int fdatasync(int fd)
{
    (void)fd;
    NO_SPACE(0);
}

static sqlite3_mem_methods sqlite_memory;
static ssize_t (*sqlite_write)(int, const void *, size_t);
static ssize_t (*sqlite_pwrite)(int, const void *, size_t, off_t);
static int (*sqlite_ftruncate)(int, off_t);

static void *sqlite_malloc(int n)
{
    return hit(FAULT_ALLOC) ? NULL : sqlite_memory.xMalloc(n);
}

static void *sqlite_realloc(void *p, int n)
{
    return hit(FAULT_ALLOC) ? NULL : sqlite_memory.xRealloc(p, n);
}

static ssize_t failing_write(int fd, const void *p, size_t n)
{
    NO_SPACE(sqlite_write(fd, p, n));
}

static ssize_t failing_pwrite(int fd, const void *p, size_t n, off_t at)
{
    NO_SPACE(sqlite_pwrite(fd, p, n, at));
}

static int failing_ftruncate(int fd, off_t size)
{
    NO_SPACE(sqlite_ftruncate(fd, size));
}

#define OVERRIDE(vfs, name, to, with)                                                              \
    do {                                                                                           \
        sqlite3_syscall_ptr was_ = (vfs)->xGetSystemCall((vfs), (name));                           \
        assert_non_null(was_);                                                                     \
        to = (__typeof__(to))was_;                                                                 \
        assert_int_equal((vfs)->xSetSystemCall((vfs), (name), (sqlite3_syscall_ptr)(with)),        \
                         SQLITE_OK);                                                               \
    } while (0)

void fault_init(void)
{
    sqlite3_mem_methods failing;

    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory), SQLITE_OK);
    failing = sqlite_memory;
    failing.xMalloc = sqlite_malloc;
    failing.xRealloc = sqlite_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &failing), SQLITE_OK);
    assert_int_equal(sqlite3_initialize(), SQLITE_OK);

    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    OVERRIDE(vfs, "write", sqlite_write, failing_write);
    OVERRIDE(vfs, "pwrite64", sqlite_pwrite, failing_pwrite);
    OVERRIDE(vfs, "ftruncate", sqlite_ftruncate, failing_ftruncate);
}
