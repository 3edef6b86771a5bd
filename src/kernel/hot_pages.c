/*
 * Learning and pinning. Nothing here allocates from the heap: addresses must be the same in the child that rehearses and in the
 * kernels that come later.
 *
 * The pins are those of an io_uring without any operation: buffers that are registered stay where they are, so a fork may not
 * turn them into shared pages. The descriptor lives as long as the zygote; kernels close it with all others before anything else.
 */

#include "kernel/hot_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "base/macros.h"
#include "kernel/syscalls.h"

#define PAGE 4096u
/* Each kernel has a copy of all of them, used or not. */
#define PAGES_MAX 1600
#define REHEARSAL_MAX 4096
/* Larger mappings are reserved addresses, not heap. */
#define MAPPING_MAX (4ul << 30)

struct rehearsal {
    size_t n;
    uint64_t pages[REHEARSAL_MAX];
};

/* Of /proc/PID/pagemap. */
#define PM_EXCLUSIVE (1ull << 56)
#define PM_FILE (1ull << 61)
#define PM_PRESENT (1ull << 63)

struct scan {
    int pagemap;
    uint64_t entries[512];
};

/* The entries of up to 512 pages from `at`; how many there are. */
static size_t read_entries(struct scan *s, uintptr_t at, uintptr_t to)
{
    size_t want = MIN_OF((to - at) / PAGE, ARRAY_SIZE(s->entries));
    ssize_t n = pread(s->pagemap, s->entries, want * sizeof(uint64_t), (off_t)(at / PAGE * sizeof(uint64_t)));
    return n > 0 ? (size_t)n / sizeof(uint64_t) : 0;
}

/* Notes the private pages of this process that it shares with nobody: in a child, what it has written to. */
static void note_range(struct scan *s, uintptr_t from, uintptr_t to, struct rehearsal *r)
{
    size_t n;
    for (uintptr_t at = from; at < to && (n = read_entries(s, at, to)) > 0; at += n * PAGE)
        for (size_t i = 0; i < n; i++) {
            uint64_t is = s->entries[i] & (PM_PRESENT | PM_EXCLUSIVE | PM_FILE);
            if (is == (PM_PRESENT | PM_EXCLUSIVE) && r->n < REHEARSAL_MAX)
                r->pages[r->n++] = at + i * PAGE;
        }
}

static void note_written(struct rehearsal *r)
{
    static struct scan s;
    static char text[65536];
    s.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got;
    while (s.pagemap >= 0 && (got = read(maps, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)got;
        text[len] = 0;
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            unsigned long from, to;
            char perms[5];
            if (sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && strncmp(perms, "rw-p", 4) == 0 &&
                to - from <= MAPPING_MAX)
                note_range(&s, from, to, r);
        }
        len -= (size_t)(line - text);
        memmove(text, line, len);
    }
    if (maps >= 0)
        close(maps);
    if (s.pagemap >= 0)
        close(s.pagemap);
}

static pid_t fork_child(void)
{
    struct clone_args args = { .exit_signal = SIGCHLD };
    pid_t zygote = getpid(), pid = (pid_t)sys_clone3(&args, sizeof(args));
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != zygote))
        _exit(1);
    return pid;
}

/* Its status; -1 if there is none. */
static int wait_child(pid_t pid)
{
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static bool learn(void (*rehearse)(void), struct rehearsal *r)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        rehearse();
        note_written(r);
        _exit(0);
    }
    return wait_child(pid) == 0;
}

/*
 * Takes the pages out of the huge pages they are part of, because pinning a part pins the whole: with a child that shares
 * everything, each write makes a small copy. False if there was no child.
 */
__attribute__((no_sanitize_address)) static bool make_small(const uint64_t *pages, size_t n)
{
    pid_t pid = fork_child();
    if (pid == 0)
        for (;;)
            pause();
    for (size_t i = 0; pid > 0 && i < n; i++) {
        volatile char *p = (volatile char *)(uintptr_t)pages[i];
        *p = *p;
    }
    if (pid > 0)
        kill(pid, SIGKILL);
    return wait_child(pid) >= 0;
}

/* Of what the child has written, what the zygote has too. In place; how many there are. */
static size_t keep_ours(struct rehearsal *r)
{
    static struct scan s;
    s.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t kept = 0;
    for (size_t i = 0; i < r->n && kept < PAGES_MAX; i++)
        if (read_entries(&s, r->pages[i], r->pages[i] + PAGE) == 1 && (s.entries[0] & PM_PRESENT) && !(s.entries[0] & PM_FILE))
            r->pages[kept++] = r->pages[i];
    if (s.pagemap >= 0)
        close(s.pagemap);
    return kept;
}

static void pin(int ring, const uint64_t *pages, size_t n)
{
    static struct iovec runs[PAGES_MAX];
    unsigned n_runs = 0;
    for (size_t i = 0; i < n; i++) {
        struct iovec *last = n_runs ? &runs[n_runs - 1] : NULL;
        if (last && (uintptr_t)last->iov_base + last->iov_len == pages[i])
            last->iov_len += PAGE;
        else
            runs[n_runs++] = (struct iovec){ (void *)(uintptr_t)pages[i], PAGE };
    }
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, runs, n_runs) < 0)
        close(ring); /* a limit on locked memory, most likely */
}

void hot_pages_pin(void (*rehearse)(void))
{
    struct io_uring_params params = { .flags = IORING_SETUP_R_DISABLED };
    int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring < 0)
        return;
    struct rehearsal *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n = r != MAP_FAILED && learn(rehearse, r) ? keep_ours(r) : 0;
    if (n && make_small(r->pages, n))
        pin(ring, r->pages, n);
    else
        close(ring);
    if (r != MAP_FAILED)
        munmap(r, sizeof(*r)); /* nothing that one kernel could write for all others may be left */
}
