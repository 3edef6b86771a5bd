/*
 * Finding the processes of a pid namespace from outside, parents before children. A process is
 * found through whichever thread forked it, and one whose parent has died is a child of the first.
 */

#include "sandbox/local/watchdog.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/proc.h"

/*
 * Sweeps until a sweep finds nobody new. Whoever is stopped forks no more, so each leaves only the
 * offspring of the dead.
 */
#define STOP_SWEEPS 8

struct family {
    pid_t *pids;
    size_t n, max;
};

static bool is_member(const struct family *f, pid_t pid)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->pids[i] == pid)
            return true;
    return false;
}

static void add_children_of_thread(struct family *f, const char *path)
{
    auto_buf struct buf list = BUF_INIT(65536);
    if (fd_read_file(path, &list, NULL) < 0)
        return;
    for (const char *p = buf_cstr(&list); *p && f->n < f->max;) {
        char *end;
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        /* Moved to another parent while we look, it could come up twice. */
        if (pid > 0 && !is_member(f, (pid_t)pid))
            f->pids[f->n++] = (pid_t)pid;
        p = end;
    }
}

static void add_children(struct family *f, pid_t pid)
{
    char path[64 + NAME_MAX];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, e->d_name);
        add_children_of_thread(f, path);
    }
    closedir(dir);
}

/* Calls visit() for each, before its children are looked for. */
static void family_walk(struct family *f, pid_t first,
                        void (*visit)(pid_t first, pid_t pid, void *arg), void *arg)
{
    f->n = 0;
    f->pids[f->n++] = first;
    for (size_t i = 0; i < f->n; i++) {
        visit(first, f->pids[i], arg);
        add_children(f, f->pids[i]);
    }
}

static bool family_init(struct family *f, int max)
{
    f->max = (size_t)MAX_OF(1, max);
    f->n = 0;
    f->pids = calloc(f->max, sizeof(*f->pids));
    return f->pids != NULL;
}

/* ---- memory ---- */

struct sum {
    int64_t kb, shared_kb;
};

static void add_memory(pid_t first, pid_t pid, void *arg)
{
    (void)first;
    struct sum *sum = arg;
    long long anon = proc_status_value(pid, "RssAnon"), shmem = proc_status_value(pid, "RssShmem");
    sum->kb += MAX_OF(0, anon - sum->shared_kb) + MAX_OF(0, shmem);
}

int64_t watchdog_used_kb(pid_t first, int max, int64_t shared_kb)
{
    struct family f;
    struct sum sum = { .shared_kb = shared_kb };
    if (!family_init(&f, max))
        return 0;
    family_walk(&f, first, add_memory, &sum);
    free(f.pids);
    return sum.kb;
}

/* ---- standing still ---- */

/*
 * Only `first` is ours to wait for: the number of any other may be somebody else's by now, so its
 * parent is asked for.
 */
static void signal_one(pid_t first, pid_t pid, int sig)
{
    auto_close int fd = proc_pidfd_open(pid, NULL);
    if (fd < 0)
        return;
    if (pid != first) {
        pid_t up = pid;
        for (int i = 0; i < 4096 && up > 1 && up != first; i++)
            up = (pid_t)proc_status_value(up, "PPid");
        if (up != first)
            return;
    }
    (void)proc_pidfd_signal(fd, sig, NULL);
}

struct sweep {
    const struct family *before;
    int sig;
    bool found_new;
};

static void visit_signal(pid_t first, pid_t pid, void *arg)
{
    struct sweep *s = arg;
    if (s->before && is_member(s->before, pid))
        return;
    s->found_new |= pid != first;
    signal_one(first, pid, s->sig);
}

bool watchdog_stop(pid_t first, int max)
{
    struct family sweeps[2];
    /* Room for one more than there may be: a sweep that fills it has not seen all. */
    bool ok = family_init(&sweeps[0], max + 1);
    if (!family_init(&sweeps[1], max + 1) || !ok) {
        free(sweeps[0].pids);
        free(sweeps[1].pids);
        return false;
    }
    ok = false;
    for (int i = 0; i < STOP_SWEEPS && !ok; i++) {
        struct sweep s = { .before = i ? &sweeps[(i + 1) % 2] : NULL, .sig = SIGSTOP };
        family_walk(&sweeps[i % 2], first, visit_signal, &s);
        ok = !s.found_new && sweeps[i % 2].n < sweeps[i % 2].max;
    }
    free(sweeps[0].pids);
    free(sweeps[1].pids);
    return ok;
}

void watchdog_continue(pid_t first, int max)
{
    struct family f;
    struct sweep s = { .sig = SIGCONT };
    if (!family_init(&f, max + 1))
        return;
    family_walk(&f, first, visit_signal, &s);
    free(f.pids);
}
