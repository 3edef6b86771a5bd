/*
 * `riddle doctor` for the local provider. What only the kernel program can know (the layers of the
 * jail, Python's packages, DuckDB) it is asked for, by `riddle-kernel --probe`: the answer is that
 * of the program which will build the jails, under the same user. Control groups are riddle's to
 * make, so they are looked at here.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/version.h"
#include "gen/platform.h"
#include "sandbox/local/local_impl.h"

#define PROBE_TIMEOUT_MS                                                                           \
    120000 /* it imports pandas and matplotlib, on whatever disk this machine has */
#define PROBE_MAX_BYTES (1u << 20)

struct sink {
    probe_fn fn;
    void *arg;
};

static void say(const struct sink *to, const char *name, enum probe_level level, const char *remedy,
                const char *fmt, ...) PRINTF_LIKE(5, 6);
static void say(const struct sink *to, const char *name, enum probe_level level, const char *remedy,
                const char *fmt, ...)
{
    char detail[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    to->fn(to->arg, level, name, detail, remedy);
}

static enum probe_level level_of(const json_t *layer)
{
    const char *status = json_string_value(json_object_get(layer, "status"));
    if (str_eq(status, "pass"))
        return PROBE_PASS;
    /* what cannot be understood has not passed */
    return str_eq(status, "caution") ? PROBE_CAUTION : PROBE_FAIL;
}

/* ---- asking the kernel program ---- */

/* Reads both pipes to their end, or until the time is over. */
static int collect(int out_fd, int err_fd, struct buf *out, struct buf *errout, struct err *err)
{
    int64_t deadline_ms = clock_now_ms() + PROBE_TIMEOUT_MS;
    struct pollfd fds[2] = { { .fd = out_fd, .events = POLLIN },
                             { .fd = err_fd, .events = POLLIN } };
    struct buf *bufs[2] = { out, errout };
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int64_t left_ms = deadline_ms - clock_now_ms();
        if (left_ms <= 0)
            return err_set(err, ERR_TIMEOUT, "it gave no answer within %d seconds",
                           PROBE_TIMEOUT_MS / 1000);
        if (poll(fds, 2, (int)left_ms) < 0 && errno != EINTR)
            return err_errno(err, ERR_IO, errno, "reading its answer");
        for (int i = 0; i < 2; i++) {
            char chunk[4096];
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            ssize_t n = read(fds[i].fd, chunk, sizeof(chunk));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                fds[i].fd = -1;
            else if (buf_append(bufs[i], chunk, (size_t)n, err) < 0)
                return -(int)err->code;
        }
    }
    return 0;
}

/* Runs `path option` and waits. The exit status is in the sense of wait(2). */
static int ask_kernel(const char *path, const char *option, struct buf *out, struct buf *errout,
                      int *ret_status, struct err *err)
{
    extern char **environ;
    int out_pipe[2], err_pipe[2];
    pid_t pid;
    char *const argv[] = { (char *)path, (char *)option, NULL };

    if (pipe2(out_pipe, O_CLOEXEC) < 0)
        return err_errno(err, ERR_IO, errno, "making a pipe");
    auto_close int out_fd = out_pipe[0], out_end = out_pipe[1];
    if (pipe2(err_pipe, O_CLOEXEC) < 0)
        return err_errno(err, ERR_IO, errno, "making a pipe");
    auto_close int err_fd = err_pipe[0], err_end = err_pipe[1];

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_end, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_end, STDERR_FILENO);
    int failed = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return err_errno(err, ERR_NOT_FOUND, failed, "'%s' cannot be started", path);
    close(TAKE_FD(out_end));
    close(TAKE_FD(err_end));

    int r = collect(out_fd, err_fd, out, errout, err);
    if (r < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* The first line of a text, cut. */
static void first_line(const struct buf *b, char *ret, size_t n)
{
    const char *s = buf_cstr(b);
    snprintf(ret, n, "%.*s", (int)MIN_OF(strcspn(s, "\n"), n - 1), s);
}

/* True if riddle-kernel is there, starts, and is of this version. */
static bool check_kernel(const char *path, const struct sink *to)
{
    static const char build[] =
        "run 'make' in the source tree, or set RIDDLE_KERNEL to the program's path";
    struct err err = ERR_INIT;
    auto_buf struct buf out = BUF_INIT(PROBE_MAX_BYTES), errout = BUF_INIT(PROBE_MAX_BYTES);
    char line[512], ended[128];
    int status;

    if (access(path, X_OK) < 0) {
        say(to, "riddle-kernel", PROBE_FAIL, build, "'%s' is no program that can be run: %s", path,
            strerror(errno));
        return false;
    }
    if (ask_kernel(path, "--version", &out, &errout, &status, &err) < 0) {
        say(to, "riddle-kernel", PROBE_FAIL, build, "%s", err.message);
        return false;
    }
    if (status != 0) {
        first_line(&errout, line, sizeof(line));
        proc_describe_exit(status, ended, sizeof(ended));
        /* The dynamic linker names the library that it misses; there are two that matter. */
        const char *remedy = strstr(line, "libduckdb") ?
                                 "run 'make deps', which fetches DuckDB" :
                             strstr(line, "libpython") ?
                                 "apt-get install " PLATFORM_PYTHON_LIBRARY_PACKAGE :
                             strstr(line, ".so") ?
                                 "run 'make deps', which installs what is missing" :
                                 build;
        say(to, "riddle-kernel", PROBE_FAIL, remedy, "it does not start: %s (%s)",
            line[0] ? line : "no message", ended);
        return false;
    }
    first_line(&out, line, sizeof(line));
    const char *space = strchr(line, ' ');
    if (!str_starts(line, "riddle-kernel ") || !space ||
        strncmp(space + 1, RIDDLE_VERSION, strlen(RIDDLE_VERSION)) != 0 ||
        (space[1 + strlen(RIDDLE_VERSION)] != '\0' && space[1 + strlen(RIDDLE_VERSION)] != ' ')) {
        say(to, "riddle-kernel", PROBE_FAIL, build, "'%s' says it is '%s', and this is riddle %s",
            path, line, RIDDLE_VERSION);
        return false;
    }
    say(to, "riddle-kernel", PROBE_PASS, NULL, "%s (%s)", path, RIDDLE_VERSION);
    return true;
}

/* Layers of the jail, Python and DuckDB, as the kernel program sees them. */
static bool check_probe(const char *path, const struct sink *to)
{
    struct err err = ERR_INIT;
    auto_buf struct buf out = BUF_INIT(PROBE_MAX_BYTES), errout = BUF_INIT(PROBE_MAX_BYTES);
    auto_json json_t *answer = NULL;
    json_t *layers = NULL, *layer;
    char line[512], ended[128];
    size_t i;
    int status = 0;
    static const char remedy[] = "run 'riddle-kernel --probe' by hand to see why";

    int r = ask_kernel(path, "--probe", &out, &errout, &status, &err);
    if (r >= 0)
        r = json_parse(buf_cstr(&out), out.len, &answer, &err);
    if (r >= 0)
        r = json_get_array(answer, "layers", &layers, &err);
    if (r < 0 || json_array_size(layers) == 0) {
        first_line(&errout, line, sizeof(line));
        proc_describe_exit(status, ended, sizeof(ended));
        say(to, "probe", PROBE_FAIL, remedy,
            "riddle-kernel --probe gave no answer that can be used: %s (%s)",
            line[0] ? line :
            r < 0   ? err.message :
                      "it names no layers",
            ended);
        return false;
    }
    json_array_foreach(layers, i, layer) {
        const char *name, *detail, *fix;
        if (json_get_str(layer, "name", "?", &name, &err) < 0 ||
            json_get_str(layer, "detail", "", &detail, &err) < 0 ||
            json_get_str(layer, "remedy", NULL, &fix, &err) < 0) {
            say(to, "probe", PROBE_FAIL, remedy, "riddle-kernel --probe: %s", err.message);
            continue;
        }
        say(to, name, level_of(layer), fix, "%s", detail);
    }
    return true;
}

/* ---- control groups ---- */

static void check_cgroups(const struct sink *to)
{
    static const char *const without[] = {
        [CGROUP_MEMORY] = "memory is watched every 10 ms instead of limited by the kernel",
        [CGROUP_PIDS] = "processes are limited by RLIMIT_NPROC instead",
        [CGROUP_CPU] = "a kernel may use every processor",
    };
    static const char remedy[] =
        "start riddle as root, or as a user with: systemd-run --user --scope -p Delegate=yes riddle …";
    struct cgroup_tree tree;
    cgroup_tree_open(&tree);
    for (int c = 0; c < _CGROUP_CONTROLLER_MAX; c++) {
        char name[32];
        snprintf(name, sizeof(name), "cgroup %s", cgroup_controller_name(c));
        if (tree.at[c].version != 0)
            say(to, name, PROBE_PASS, NULL, "v%d", tree.at[c].version);
        else
            say(to, name, PROBE_CAUTION, remedy, "%s", without[c]);
    }
    cgroup_tree_close(&tree);
}

/* ---- user ids ---- */

/* Whether this process may use all of them: a container may have fewer. */
static bool are_mapped(long long first, long long n)
{
    struct err ignored = ERR_INIT;
    auto_buf struct buf map = BUF_INIT(PROBE_MAX_BYTES);
    if (fd_read_file("/proc/self/uid_map", &map, &ignored) < 0)
        return false;
    for (const char *line = buf_cstr(&map); *line;
         line = strchrnul(line, '\n') + (*strchrnul(line, '\n') != 0)) {
        long long inside, outside, count;
        if (sscanf(line, "%lld %lld %lld", &inside, &outside, &count) == 3 && inside <= first &&
            first + n <= inside + count)
            return true;
    }
    return false;
}

static void check_user_ids(const struct config *cfg, const struct sink *to)
{
    static const char shared[] = "all kernels have one user id, and share what Linux counts by "
                                 "user: pages of pipes, descriptors that are on their way";
    if (geteuid() != 0)
        say(to, "user ids", PROBE_CAUTION, "start riddle as root", "%s", shared);
    else if (cfg->sandbox_uids < 2 || !are_mapped(cfg->sandbox_uid, cfg->sandbox_uids))
        say(to, "user ids", PROBE_CAUTION,
            "let RIDDLE_SANDBOX_UID and RIDDLE_SANDBOX_UIDS name a range that this system has",
            "%s", shared);
    else
        say(to, "user ids", PROBE_PASS, NULL, "%lld, from %lld on: one for each kernel",
            cfg->sandbox_uids, cfg->sandbox_uid);
}

bool local_probe(const struct config *cfg, probe_fn fn, void *arg)
{
    struct sink to = { .fn = fn, .arg = arg };
    struct err err = ERR_INIT;
    char path[4096];
    if (local_kernel_path(cfg, path, sizeof(path), &err) < 0) {
        say(&to, "riddle-kernel", PROBE_FAIL, "mount /proc", "%s", err.message);
        return false;
    }
    if (!check_kernel(path, &to) || !check_probe(path, &to))
        return false;
    check_cgroups(&to);
    check_user_ids(cfg, &to);
    return true;
}
