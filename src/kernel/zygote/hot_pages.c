/*
 * Learning and pinning. Nothing here allocates from the heap: addresses must be the same in the child that rehearses and in the
 * kernels that come later.
 *
 * The pins are those of an io_uring without any operation: buffers that are registered stay where they are, so a fork may not
 * turn them into shared pages. The descriptor lives as long as the zygote; kernels close it with all others before anything else.
 */

#include "kernel/zygote/hot_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "base/macros.h"
#include "base/maps.h"
#include "kernel/jail/syscalls.h"

#define PAGE 4096u
/* Each kernel has a copy of all of them, used or not. */
#define PAGES_MAX 1600
#define REHEARSAL_MAX 4096
#define TEXT_MAX 8192
/* Larger mappings are reserved addresses, not heap. */
#define MAPPING_MAX (4ul << 30)

/* What a child has used, by rising addresses; shared with it. */
struct rehearsal {
    size_t n, n_text;
    uint64_t pages[REHEARSAL_MAX]; /* written to */
    uint64_t text[TEXT_MAX];       /* of files, read */
};

static struct rehearsal *rehearsed; /* in the child: where to note it */

/* ---- pages ---- */

/* Of /proc/PID/pagemap. */
#define PM_EXCLUSIVE (1ull << 56)
#define PM_FILE (1ull << 61)
#define PM_PRESENT (1ull << 63)

struct scan {
    int pagemap;
    uint64_t entries[512];
};

static bool scan_open(struct scan *s, const char *proc)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/self/pagemap", proc);
    s->pagemap = open(path, O_RDONLY | O_CLOEXEC);
    return s->pagemap >= 0;
}

/* The entries of up to 512 pages from `at`; how many there are. */
static size_t read_entries(struct scan *s, uintptr_t at, uintptr_t to)
{
    size_t want = MIN_OF((to - at) / PAGE, ARRAY_SIZE(s->entries));
    ssize_t n = pread(s->pagemap, s->entries, want * sizeof(uint64_t), (off_t)(at / PAGE * sizeof(uint64_t)));
    return n > 0 ? (size_t)n / sizeof(uint64_t) : 0;
}

/* Notes the pages of the mapping whose entry, seen through `mask`, is `want`. */
static void note_range(struct scan *s, const struct maps_entry *m, uint64_t mask, uint64_t want, uint64_t *pages, size_t max,
                       size_t *n_pages)
{
    size_t n;
    for (uintptr_t at = m->from; at < m->to && (n = read_entries(s, at, m->to)) > 0; at += n * PAGE)
        for (size_t i = 0; i < n; i++)
            if ((s->entries[i] & mask) == want && *n_pages < max)
                pages[(*n_pages)++] = at + i * PAGE;
}

/* ---- in the child ---- */

_Noreturn void hot_pages_rehearsed(void)
{
    static struct maps maps; /* not the zygote's own: that would be one more page that kernels write to */
    static struct scan scan;
    struct rehearsal *r = rehearsed;
    struct maps_entry m;
    if (!r || !maps_open(&maps, "/proc") || !scan_open(&scan, "/proc"))
        _exit(1);
    while (maps_next(&maps, &m)) {
        if (m.to - m.from > MAPPING_MAX)
            continue;
        if (strcmp(m.perms, "rw-p") == 0) /* shared with nobody: it was written to */
            note_range(&scan, &m, PM_PRESENT | PM_EXCLUSIVE | PM_FILE, PM_PRESENT | PM_EXCLUSIVE, r->pages, REHEARSAL_MAX, &r->n);
        else if (m.inode != 0 && m.perms[3] == 'p')
            note_range(&scan, &m, PM_PRESENT | PM_FILE, PM_PRESENT | PM_FILE, r->text, TEXT_MAX, &r->n_text);
    }
    _exit(0);
}

static pid_t fork_child(uint64_t flags)
{
    struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };
    pid_t zygote = getpid(), pid = (pid_t)sys_clone3(&args, sizeof(args));
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || (!(flags & CLONE_NEWPID) && getppid() != zygote)))
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

static bool learn(const struct hot_rehearsal *rehearsal, struct rehearsal *r)
{
    pid_t pid = fork_child(rehearsal->clone_flags);
    if (pid == 0) {
        rehearsed = r;
        rehearsal->run(rehearsal->arg);
        hot_pages_rehearsed();
    }
    return wait_child(pid) == 0;
}

/* ---- what is written to ---- */

/*
 * Takes the pages out of the huge pages they are part of, because pinning a part pins the whole: with a child that shares
 * everything, each write makes a small copy. False if there was no child.
 */
__attribute__((no_sanitize_address)) static bool make_small(const uint64_t *pages, size_t n)
{
    pid_t pid = fork_child(0);
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
static size_t keep_ours(struct rehearsal *r, struct scan *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n && kept < PAGES_MAX; i++)
        if (read_entries(s, r->pages[i], r->pages[i] + PAGE) == 1 && (s->entries[0] & PM_PRESENT) && !(s->entries[0] & PM_FILE))
            r->pages[kept++] = r->pages[i];
    return kept;
}

static bool pin(int ring, const uint64_t *pages, size_t n)
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
    return syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, runs, n_runs) == 0;
}

/* ---- what is only read ---- */

/*
 * A fork copies the entries of a mapping of a file only if it has a page of its own. One is made, of a page that kernels read; and
 * no entry is left but those of such pages.
 */
__attribute__((no_sanitize_address)) static void show_in_forks(const struct maps_entry *m, const uint64_t *pages, size_t n)
{
    const int prot = PROT_READ | (m->perms[2] == 'x' ? PROT_EXEC : 0);
    void *from = (void *)m->from;
    (void)madvise(from, m->to - m->from, MADV_DONTNEED);
    volatile char *p;
    for (size_t i = n; i-- > 0;) {
        p = (volatile char *)(uintptr_t)pages[i];
        (void)*p;
    }
    /* Executable all the while: this very code may be in it. */
    if (mprotect(from, m->to - m->from, prot | PROT_WRITE) < 0)
        return;
    *p = *p;
    (void)mprotect(from, m->to - m->from, prot);
}

static bool has_own_pages(struct scan *s, const struct maps_entry *m)
{
    size_t n;
    for (uintptr_t at = m->from; at < m->to && (n = read_entries(s, at, m->to)) > 0; at += n * PAGE)
        for (size_t i = 0; i < n; i++)
            if ((s->entries[i] & PM_PRESENT) && !(s->entries[i] & PM_FILE))
                return true;
    return false;
}

static void show_text(const struct rehearsal *r, const char *proc, struct scan *s)
{
    static struct maps maps;
    struct maps_entry m;
    size_t at = 0;
    maps_open(&maps, proc);
    while (maps_next(&maps, &m)) {
        while (at < r->n_text && r->text[at] < m.from)
            at++;
        size_t end = at;
        while (end < r->n_text && r->text[end] < m.to)
            end++;
        if (end > at && m.inode != 0 && !has_own_pages(s, &m))
            show_in_forks(&m, &r->text[at], end - at);
        at = end;
    }
    maps_close(&maps);
}

/* ---- both ---- */

int hot_pages_open(void)
{
    struct io_uring_params params = { .flags = IORING_SETUP_R_DISABLED };
    return (int)syscall(SYS_io_uring_setup, 1, &params);
}

void hot_pages_learn(int ring, const struct hot_rehearsal *rehearsal)
{
    static struct scan scan;
    bool pinned = false;
    struct rehearsal *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r != MAP_FAILED && learn(rehearsal, r) && scan_open(&scan, rehearsal->proc)) {
        show_text(r, rehearsal->proc, &scan);
        size_t n = keep_ours(r, &scan);
        close(scan.pagemap);
        pinned = ring >= 0 && n && make_small(r->pages, n) && pin(ring, r->pages, n);
    }
    if (ring >= 0 && !pinned)
        close(ring); /* a limit on locked memory, most likely */
    if (r != MAP_FAILED)
        munmap(r, sizeof(*r)); /* nothing that one kernel could write for all others may be left */
}
