/* Processes: what /proc tells, how one ended, pidfds. */

#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "base/str.h"

int proc_self_dir(char *ret, size_t n, struct err *err)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
    size_t end;

    if (len < 0)
        return err_errno(err, ERR_IO, errno, "cannot read '/proc/self/exe'");
    end = (size_t)len;
    while (end > 0 && path[end - 1] != '/')
        end--;
    if (end == 0)
        return err_set(err, ERR_IO, "'/proc/self/exe' is no path");
    if (end > 1)
        end--; /* the slash, unless it is the root */
    if ((size_t)len == sizeof(path) || end >= n)
        return err_set(err, ERR_TOO_LARGE, "the path of the running program is too long");
    memcpy(ret, path, end);
    ret[end] = '\0';
    return 0;
}

long long proc_status_value(pid_t pid, const char *field)
{
    char path[48], text[8192];
    size_t len = 0, field_len = strlen(field);
    auto_close int fd = -1;

    if (pid == 0)
        snprintf(path, sizeof(path), "/proc/self/status");
    else
        snprintf(path, sizeof(path), "/proc/%d/status", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (len < sizeof(text) - 1) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    text[len] = '\0';

    for (const char *line = text; line; line = strchr(line, '\n')) {
        long long v = 0;

        line += *line == '\n';
        if (strncmp(line, field, field_len) != 0 || line[field_len] != ':')
            continue;
        line += field_len + 1;
        while (*line == ' ' || *line == '\t')
            line++;
        if (*line < '0' || *line > '9')
            return -1;
        for (; *line >= '0' && *line <= '9'; line++) {
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *line - '0', &v))
                return -1;
        }
        return v;
    }
    return -1;
}

void proc_describe_exit(int wait_status, char *ret, size_t n)
{
    if (WIFEXITED(wait_status)) {
        snprintf(ret, n, "exit status %d", WEXITSTATUS(wait_status));
    } else if (WIFSIGNALED(wait_status) || WIFSTOPPED(wait_status)) {
        int sig = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WSTOPSIG(wait_status);
        const char *name = sigdescr_np(sig);

        snprintf(ret, n, "%ssignal %d (%s)", WIFSTOPPED(wait_status) ? "stopped by " : "", sig,
                 name ? name : "unknown");
    } else {
        snprintf(ret, n, "wait status %#x", (unsigned)wait_status);
    }
}

int proc_pidfd_open(pid_t pid, struct err *err)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0u);

    if (fd < 0)
        return err_errno(err, errno == ESRCH ? ERR_NOT_FOUND : ERR_IO, errno,
                         "cannot open process %d", pid);
    return fd;
}

int proc_pidfd_signal(int pidfd, int sig, struct err *err)
{
    if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0u) < 0)
        return err_errno(err, errno == ESRCH ? ERR_NOT_FOUND : ERR_IO, errno,
                         "cannot send signal %d", sig);
    return 0;
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool proc_have_program(const char *name)
{
    const char *dir = getenv("PATH");

    if (!*name)
        return false;
    if (strchr(name, '/'))
        return is_program(name);
    while (dir && *dir) {
        size_t n = strcspn(dir, ":");
        char path[PATH_MAX];

        /*
         * An empty entry means the working directory; nothing of ours should be found there by
         * accident.
         */
        if (n > 0 &&
            snprintf(path, sizeof(path), "%.*s/%s", (int)MIN_OF(n, INT_MAX), dir, name) <
                (int)sizeof(path) &&
            is_program(path))
            return true;
        dir += n + (dir[n] == ':');
    }
    return false;
}

/* As in <linux/sched/types.h>, which does not go with every <sched.h>. */
struct slice_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
};
#define KEEP_POLICY 0x08
#define LONG_SLICE_NS 20000000

void proc_run_in_long_slices(pid_t pid)
{
    struct slice_attr attr = { .size = sizeof(attr),
                               .flags = KEEP_POLICY,
                               .nice = getpriority(PRIO_PROCESS, (id_t)pid),
                               .slice_ns = LONG_SLICE_NS };
    (void)syscall(SYS_sched_setattr, pid, &attr, 0);
}

char proc_state(pid_t pid)
{
    char path[48], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 'X';
    text[n] = '\0';
    const char *end = strrchr(text, ')'); /* of the name, which may hold anything */
    return end && end[1] == ' ' && end[2] ? end[2] : 'X';
}

static size_t zombies_of(const char *task, pid_t *ret, size_t max)
{
    char path[300];
    size_t n = 0;
    int pid;
    snprintf(path, sizeof(path), "/proc/self/task/%.200s/children", task);
    FILE *f = fopen(path, "re");
    while (f && n < max && fscanf(f, "%d", &pid) == 1)
        if (proc_state(pid) == 'Z')
            ret[n++] = pid;
    if (f)
        fclose(f);
    return n;
}

size_t proc_zombies(pid_t *ret, size_t max)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    size_t n = 0;
    while (d && (e = readdir(d)) && n < max)
        if (e->d_name[0] != '.')
            n += zombies_of(e->d_name, ret + n, max - n);
    if (d)
        closedir(d);
    return n;
}
