#include "kernel/python/rewind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"

#define MARKS_MAX 5 /* forks that wait; they count as processes of the sandbox */

struct mark {
    pid_t pid;
    int64_t step;
    int fd; /* where it is told to go */
};

static struct {
    atomic_int *active; /* shared by all: the process that runs; 0: the first one */
    pid_t first;
    bool is_fork;              /* this process was let go */
    struct mark at[MARKS_MAX]; /* by step */
    size_t n, max;
} r;

struct order {
    int64_t step;
    uint64_t len;
};

void rewind_limit(int pids)
{
    r.max = (size_t)MAX_OF(0, MIN_OF(MARKS_MAX, pids / 2 - 1));
}

static bool read_all(int fd, void *to, size_t len)
{
    char *p = to;
    while (len > 0) {
        ssize_t n = read(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* A fork has one thread: what others were about to do would never be done in it. */
static bool has_one_thread(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    if (!d)
        return false;
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n == 1;
}

static void drop(size_t i)
{
    kill(r.at[i].pid, SIGKILL);
    (void)waitpid(r.at[i].pid, NULL, 0); /* unless it is another's child, who reaps it */
    close(r.at[i].fd);
    memmove(&r.at[i], &r.at[i + 1], (--r.n - i) * sizeof(r.at[0]));
}

/* Makes room: the one goes that leaves the smallest gap. The first one and the last one stay. */
static void thin(void)
{
    size_t best = 1;
    for (size_t i = 2; i + 1 < r.n; i++)
        if (r.at[i + 1].step - r.at[i - 1].step < r.at[best + 1].step - r.at[best - 1].step)
            best = i;
    drop(best);
}

static bool set_up(void)
{
    if (r.active)
        return true;
    void *page = mmap(NULL, sizeof(*r.active), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    if (page == MAP_FAILED)
        return false;
    r.active = page;
    r.first = getpid();
    return true;
}

/* 1 in the fork when it is told to go, 0 in its parent, negative when there is none. */
static int fork_off(int64_t step, struct rewind_goal *ret)
{
    int fds[2];
    struct order order;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid != 0) {
        close(fds[0]);
        if (pid < 0)
            close(fds[1]);
        else
            r.at[r.n++] = (struct mark){ .pid = pid, .step = step, .fd = fds[1] };
        return pid < 0 ? -1 : 0;
    }
    close(fds[1]);
    if (!read_all(fds[0], &order, sizeof(order)) || order.len > REWIND_ORDERS_MAX)
        _exit(0);
    *ret = (struct rewind_goal){ .step = order.step,
                                 .orders = malloc(order.len + 1),
                                 .len = order.len };
    if (!ret->orders || !read_all(fds[0], ret->orders, order.len))
        _exit(0);
    ret->orders[order.len] = '\0';
    close(fds[0]);
    return 1;
}

int rewind_mark(int64_t step, struct rewind_goal *ret_goal)
{
    struct rewind_goal again;
    if (!has_one_thread() || !set_up())
        return -1;
    if (r.n > 0 && r.at[r.n - 1].step >= step)
        return 0;
    if (r.n >= r.max && r.max < 3)
        return -1; /* too few to choose from: the first one stays */
    if (r.n >= r.max)
        thin();
    int rc = fork_off(step, ret_goal);
    /* What is let go leaves another of its kind behind, which is let go in its turn. */
    while (rc == 1 && fork_off(step, &again) == 1) {
        free(ret_goal->orders);
        *ret_goal = again;
    }
    r.is_fork = r.is_fork || rc == 1;
    return rc;
}

static _Noreturn void supervise(void)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR)
            _exit(1);
        if (pid > 0 && pid == atomic_load(r.active))
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

int rewind_go(int64_t step, const char *orders, size_t len, struct err *err)
{
    struct order order = { .step = step, .len = len };
    while (r.n > 0 && r.at[r.n - 1].step > step)
        drop(r.n - 1); /* what comes behind it will not have happened */
    if (r.n == 0)
        return err_set(err, ERR_NOT_FOUND, "no state is kept of this step or before it");
    if (len > REWIND_ORDERS_MAX)
        return err_set(err, ERR_TOO_LARGE, "the breakpoints are too large to take along");
    while (r.n > 0) {
        const struct mark *m = &r.at[r.n - 1];
        atomic_store(r.active, m->pid);
        if (fd_write_all(m->fd, &order, sizeof(order), NULL) == 0 &&
            fd_write_all(m->fd, orders, len, NULL) == 0) {
            if (getpid() != r.first)
                _exit(0);
            supervise();
        }
        /* A process that ran later had thinned it out. One that is older runs for longer. */
        close(m->fd);
        r.n--;
    }
    atomic_store(r.active, getpid() == r.first ? 0 : getpid());
    return err_set(err, ERR_NOT_FOUND, "the states that were kept of this step are gone");
}

void rewind_end(void)
{
    while (r.n > 0)
        drop(r.n - 1);
    if (r.active)
        munmap(TAKE_PTR(r.active), sizeof(*r.active));
}

bool rewind_is_fork(void)
{
    return r.is_fork;
}

bool rewind_pass_on(int sig)
{
    pid_t active = r.active ? atomic_load(r.active) : 0;
    if (active == 0 || r.first != getpid())
        return false;
    kill(active, sig);
    return true;
}
