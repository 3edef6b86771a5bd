/*
 * Memory of frozen kernels goes to swap, where there is some, so that the machine has it for those
 * that work. A kernel that is thawed has its pages back as it touches them. Done by a worker
 * thread: Linux writes meanwhile. Whatever fails leaves the memory where it is.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/maps.h"
#include "sandbox/local/local_impl.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21 /* Linux 5.4 */
#endif

#define SWAP_FREE_MIN_KB (64 << 10)
#define PIECES 256 /* of one process_madvise() */

struct pageout {
    uv_work_t work;
    pid_t pid;
    int pidfd;                        /* the process may be gone and its number be another's */
    char group[CGROUP_PATH_MAX + 64]; /* of version 2; "": there is none */
};

static bool has_swap(void)
{
    auto_buf struct buf text = BUF_INIT(1 << 16);
    long long kb = 0;
    struct err ignored = ERR_INIT;
    if (fd_read_file("/proc/meminfo", &text, &ignored) < 0)
        return false;
    const char *line = strstr(buf_cstr(&text), "SwapFree:");
    return line && sscanf(line, "SwapFree: %lld kB", &kb) == 1 && kb >= SWAP_FREE_MIN_KB;
}

/* All of the group, as far as Linux can. */
static bool reclaim(const char *group)
{
    char path[sizeof(((struct pageout *)0)->group) + 32];
    auto_buf struct buf bytes = BUF_INIT(64);
    struct err ignored = ERR_INIT;
    snprintf(path, sizeof(path), "%s/memory.current", group);
    if (fd_read_file(path, &bytes, &ignored) < 0)
        return false;
    snprintf(path, sizeof(path), "%s/memory.reclaim", group);
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, buf_cstr(&bytes), bytes.len); /* EAGAIN: less than asked for */
    return fd >= 0;
}

static void advise(int pidfd, struct iovec *pieces, size_t *n)
{
    if (*n > 0)
        (void)syscall(SYS_process_madvise, pidfd, pieces, *n, MADV_PAGEOUT, 0);
    *n = 0;
}

/* Its own pages: Linux leaves alone what other processes map, too. */
static void page_out(const struct pageout *p)
{
    char proc[64];
    struct maps maps;
    struct maps_entry m;
    struct iovec pieces[PIECES];
    size_t n = 0;
    snprintf(proc, sizeof(proc), "%d", (int)p->pid);
    if (!maps_open_of(&maps, "/proc", proc))
        return;
    while (maps_next(&maps, &m)) {
        if (m.perms[0] != 'r' || m.perms[3] != 'p' || m.path[0] == '/')
            continue;
        pieces[n++] = (struct iovec){ (void *)m.from, m.to - m.from };
        if (n == PIECES)
            advise(p->pidfd, pieces, &n);
    }
    advise(p->pidfd, pieces, &n);
    maps_close(&maps);
}

static void work(uv_work_t *w)
{
    const struct pageout *p = w->data;
    if (has_swap() && (!p->group[0] || !reclaim(p->group)))
        page_out(p);
}

static void done(uv_work_t *w, int status)
{
    struct pageout *p = w->data;
    (void)status;
    close(p->pidfd);
    free(p);
}

void local_page_out(struct local_link *l)
{
    struct pageout *p = l->kernel.pidfd >= 0 ? calloc(1, sizeof(*p)) : NULL;
    int pidfd = p ? fcntl(l->kernel.pidfd, F_DUPFD_CLOEXEC, 3) : -1;
    if (pidfd < 0) {
        free(p);
        return;
    }
    *p = (struct pageout){ .pid = l->kernel.pid, .pidfd = pidfd };
    cgroup_reclaim_dir(&l->kernel.group, p->group, sizeof(p->group));
    p->work.data = p;
    if (uv_queue_work(provider_of(l)->base.loop, &p->work, work, done) < 0)
        abort(); /* only without a callback */
}
