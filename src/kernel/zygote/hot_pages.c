/*
 * Learning and populating. Nothing here allocates from the heap: addresses must be the same in the
 * child that rehearses and in the kernels that come later.
 */

#include "kernel/zygote/hot_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/macros.h"
#include "base/maps.h"
#include "kernel/jail/syscalls.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u
#define RUNS_MAX 2048
#define PAGES_MAX 4096 /* that are written to: each idle kernel has a copy of all of them */
/* Larger mappings are reserved addresses, not heap. */
#define MAPPING_MAX (4ul << 30)

/* Of /proc/PID/pagemap. */
#define PM_EXCLUSIVE (1ull << 56)
#define PM_FILE (1ull << 61)
#define PM_PRESENT (1ull << 63)

/* Neighbouring pages, by rising addresses. */
struct runs {
    size_t n, n_pages;
    struct {
        uintptr_t from;
        size_t bytes;
    } runs[RUNS_MAX];
};

struct hot_pages {
    struct runs written, read;
};

static struct hot_pages hot;
/* In the child that rehearses: where to note them, shared with the zygote. */
static struct hot_pages *rehearsed;

/* ---- in the child that rehearses ---- */

static void note_page(struct runs *r, uintptr_t at)
{
    if (r->n > 0 && r->runs[r->n - 1].from + r->runs[r->n - 1].bytes == at) {
        r->runs[r->n - 1].bytes += PAGE;
    } else if (r->n < RUNS_MAX) {
        r->runs[r->n].from = at;
        r->runs[r->n++].bytes = PAGE;
    } else {
        return;
    }
    r->n_pages++;
}

/* Notes the pages of the mapping whose entry in the page map, seen through `mask`, is `want`. */
static void note_mapping(int pagemap, const struct maps_entry *m, uint64_t mask, uint64_t want,
                         struct runs *runs)
{
    static uint64_t entries[512];
    ssize_t n;
    for (uintptr_t at = m->from; at < m->to; at += (size_t)n / sizeof(entries[0]) * PAGE) {
        size_t pages = MIN_OF((m->to - at) / PAGE, ARRAY_SIZE(entries));
        n = pread(pagemap, entries, pages * sizeof(entries[0]),
                  (off_t)(at / PAGE * sizeof(entries[0])));
        if (n < (ssize_t)sizeof(entries[0]))
            return;
        for (size_t i = 0; i < (size_t)n / sizeof(entries[0]) && runs->n_pages < PAGES_MAX; i++)
            if ((entries[i] & mask) == want)
                note_page(runs, at + i * PAGE);
    }
}

_Noreturn void hot_pages_rehearsed(void)
{
    static struct maps maps;
    struct maps_entry m;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (!rehearsed || pagemap < 0 || !maps_open(&maps, "/proc"))
        _exit(1);
    while (maps_next(&maps, &m)) {
        if (m.to - m.from > MAPPING_MAX)
            continue;
        if (strcmp(m.perms, "rw-p") == 0) /* shared with nobody: it was written to */
            note_mapping(pagemap, &m, PM_PRESENT | PM_EXCLUSIVE | PM_FILE,
                         PM_PRESENT | PM_EXCLUSIVE, &rehearsed->written);
        else if (m.inode != 0 && m.perms[3] == 'p')
            note_mapping(pagemap, &m, PM_PRESENT | PM_FILE, PM_PRESENT | PM_FILE, &rehearsed->read);
    }
    _exit(0);
}

/* ---- in the zygote ---- */

static pid_t fork_child(uint64_t flags)
{
    struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };
    pid_t zygote = getpid(), pid = (pid_t)sys_clone3(&args, sizeof(args));
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
                     (!(flags & CLONE_NEWPID) && getppid() != zygote)))
        _exit(1);
    return pid;
}

void hot_pages_learn(const struct hot_rehearsal *rehearsal)
{
    struct hot_pages *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return;
    pid_t pid = fork_child(rehearsal->clone_flags);
    if (pid == 0) {
        rehearsed = shared;
        rehearsal->run(rehearsal->arg);
        hot_pages_rehearsed();
    }
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && status == 0)
        hot = *shared;
    /* Nothing that one kernel could write for all others may be left. */
    munmap(shared, sizeof(*shared));
}

/* ---- in a kernel ---- */

void hot_pages_populate(void)
{
    /* A run that is no longer mapped, or an older Linux, fails; the cell then takes the fault. */
    for (size_t i = 0; i < hot.written.n; i++)
        (void)madvise((void *)hot.written.runs[i].from, hot.written.runs[i].bytes,
                      MADV_POPULATE_WRITE);
    for (size_t i = 0; i < hot.read.n; i++)
        (void)madvise((void *)hot.read.runs[i].from, hot.read.runs[i].bytes, MADV_POPULATE_READ);
}
