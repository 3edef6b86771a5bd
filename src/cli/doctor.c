/*
 * `riddle doctor`: does this machine have what Riddle needs, and does every layer of the jail hold on it?
 *
 * Each check is PASS, CAUTION (it works, but something is weaker or slower than it should be) or FAIL, and one that is not
 * PASS says what to do. What only the kernel can know (the layers, Python's packages, DuckDB) it is asked for, by
 * `riddle-kernel --probe`: the answer is that of the program which will build the jails, under the same user.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "gen/platform.h"
#include "llm/llm.h"
#include "sandbox/local/cgroup.h"

#define PROBE_TIMEOUT_MS 120000 /* it imports pandas and matplotlib, on whatever disk this machine has */
#define PROBE_MAX_BYTES (1u << 20)
#define MEGABYTE (1024LL * 1024)

enum status { PASS, CAUTION, FAIL, _STATUS_MAX };
static const char *const status_names[_STATUS_MAX] = { "pass", "caution", "fail" };
static const char *const status_labels[_STATUS_MAX] = { "PASS", "CAUTION", "FAIL" };
static const char *const status_colours[_STATUS_MAX] = { "\033[32m", "\033[33m", "\033[31m" };

/* ---- checks are an array of {"name","status","detail","remedy"} ---- */

static void add(json_t *checks, const char *name, enum status status, const char *remedy, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
static void add(json_t *checks, const char *name, enum status status, const char *remedy, const char *fmt, ...)
{
    char detail[ERR_MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    json_t *check = json_object();
    json_object_set_new(check, "name", json_text(name, strlen(name)));
    json_object_set_new(check, "status", json_string(status_names[status]));
    json_object_set_new(check, "detail", json_text(detail, strlen(detail)));
    if (status != PASS && remedy)
        json_object_set_new(check, "remedy", json_text(remedy, strlen(remedy)));
    json_array_append_new(checks, check);
}

static enum status status_of(const json_t *check)
{
    const char *name = json_string_value(json_object_get(check, "status"));
    for (size_t i = 0; i < _STATUS_MAX; i++)
        if (str_eq(name, status_names[i]))
            return (enum status)i;
    return FAIL; /* what cannot be understood has not passed */
}

/* ---- asking the kernel program ---- */

/* Reads both pipes to their end, or until the time is over. */
static int collect(int out_fd, int err_fd, struct buf *out, struct buf *errout, struct err *err)
{
    int64_t deadline_ms = clock_now_ms() + PROBE_TIMEOUT_MS;
    struct pollfd fds[2] = { { .fd = out_fd, .events = POLLIN }, { .fd = err_fd, .events = POLLIN } };
    struct buf *bufs[2] = { out, errout };
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int64_t left_ms = deadline_ms - clock_now_ms();
        if (left_ms <= 0)
            return err_set(err, ERR_TIMEOUT, "it gave no answer within %d seconds", PROBE_TIMEOUT_MS / 1000);
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
static int ask_kernel(const char *path, const char *option, struct buf *out, struct buf *errout, int *ret_status,
                      struct err *err)
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

static int kernel_path(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    char dir[PATH_MAX];
    if (cfg->kernel_path[0]) {
        snprintf(ret, n, "%s", cfg->kernel_path);
        return 0;
    }
    int r = proc_self_dir(dir, sizeof(dir), err);
    if (r < 0)
        return r;
    if ((size_t)snprintf(ret, n, "%s/riddle-kernel", dir) >= n)
        return err_set(err, ERR_TOO_LARGE, "the path of riddle-kernel is too long");
    return 0;
}

/* The first line of a text, cut. */
static void first_line(const struct buf *b, char *ret, size_t n)
{
    const char *s = buf_cstr(b);
    snprintf(ret, n, "%.*s", (int)MIN_OF(strcspn(s, "\n"), n - 1), s);
}

/* True if riddle-kernel is there, starts, and is of this version. */
static bool check_kernel(const char *version, const char *path, json_t *checks)
{
    static const char build[] = "run 'make' in the source tree, or set RIDDLE_KERNEL to the program's path";
    struct err err = ERR_INIT;
    auto_buf struct buf out = BUF_INIT(PROBE_MAX_BYTES), errout = BUF_INIT(PROBE_MAX_BYTES);
    char line[512], ended[128];
    int status;

    if (access(path, X_OK) < 0) {
        add(checks, "riddle-kernel", FAIL, build, "'%s' is no program that can be run: %s", path, strerror(errno));
        return false;
    }
    if (ask_kernel(path, "--version", &out, &errout, &status, &err) < 0) {
        add(checks, "riddle-kernel", FAIL, build, "%s", err.message);
        return false;
    }
    if (status != 0) {
        first_line(&errout, line, sizeof(line));
        proc_describe_exit(status, ended, sizeof(ended));
        /* The dynamic linker names the library that it misses; there are two that matter. */
        const char *remedy = strstr(line, "libduckdb")    ? "run 'make deps', which fetches DuckDB"
                             : strstr(line, "libpython") ? "apt-get install " PLATFORM_PYTHON_LIBRARY_PACKAGE
                             : strstr(line, ".so")       ? "run 'make deps', which installs what is missing"
                                                         : build;
        add(checks, "riddle-kernel", FAIL, remedy, "it does not start: %s (%s)", line[0] ? line : "no message", ended);
        return false;
    }
    first_line(&out, line, sizeof(line));
    const char *space = strchr(line, ' ');
    if (!str_starts(line, "riddle-kernel ") || !space || strncmp(space + 1, version, strlen(version)) != 0 ||
        (space[1 + strlen(version)] != '\0' && space[1 + strlen(version)] != ' ')) {
        add(checks, "riddle-kernel", FAIL, build, "'%s' says it is '%s', and this is riddle %s", path, line, version);
        return false;
    }
    add(checks, "riddle-kernel", PASS, NULL, "%s (%s)", path, version);
    return true;
}

/* Layers of the jail, Python and DuckDB, as the kernel program sees them. */
static void check_probe(const char *path, json_t *checks)
{
    struct err err = ERR_INIT;
    auto_buf struct buf out = BUF_INIT(PROBE_MAX_BYTES), errout = BUF_INIT(PROBE_MAX_BYTES);
    auto_json json_t *answer = NULL;
    json_t *layers = NULL, *layer;
    char line[512], ended[128];
    size_t i;
    int status = 0;
    static const char remedy[] = "run 'riddle-kernel --probe' by hand to see why";

    /* A group of v2 that was delegated to riddle is of use to the probe only when we are not in it ourselves. */
    struct cgroup_tree cgroups;
    cgroup_tree_open(&cgroups);
    int r = ask_kernel(path, "--probe", &out, &errout, &status, &err);
    cgroup_tree_close(&cgroups);
    if (r >= 0)
        r = json_parse(buf_cstr(&out), out.len, &answer, &err);
    if (r >= 0)
        r = json_get_array(answer, "layers", &layers, &err);
    if (r < 0 || json_array_size(layers) == 0) {
        first_line(&errout, line, sizeof(line));
        proc_describe_exit(status, ended, sizeof(ended));
        add(checks, "probe", FAIL, remedy, "riddle-kernel --probe gave no answer that can be used: %s (%s)",
            line[0]        ? line
            : r < 0        ? err.message
                           : "it names no layers",
            ended);
        return;
    }
    json_array_foreach(layers, i, layer)
    {
        const char *name, *detail, *fix;
        if (json_get_str(layer, "name", "?", &name, &err) < 0 || json_get_str(layer, "detail", "", &detail, &err) < 0 ||
            json_get_str(layer, "remedy", NULL, &fix, &err) < 0) {
            add(checks, "probe", FAIL, remedy, "riddle-kernel --probe: %s", err.message);
            continue;
        }
        add(checks, name, status_of(layer), fix, "%s", detail);
    }
}

/* ---- the machine ---- */

static void check_home(const struct config *cfg, json_t *checks)
{
    struct err err = ERR_INIT;
    struct statvfs fs;
    auto_free char *probe = NULL;
    static const char remedy[] = "set RIDDLE_HOME to a directory that this user may write";

    if (fd_mkdir_p(cfg->home, 0700, &err) < 0) {
        add(checks, "home", FAIL, remedy, "%s", err.message);
        return;
    }
    if (asprintf(&probe, "%s/.doctor-XXXXXX", cfg->home) < 0) {
        probe = NULL;
        return;
    }
    auto_close int fd = mkostemp(probe, O_CLOEXEC);
    if (fd < 0) {
        add(checks, "home", FAIL, remedy, "no file can be made in '%s': %s", cfg->home, strerror(errno));
        return;
    }
    unlink(probe);
    add(checks, "home", PASS, NULL, "'%s' can be written", cfg->home);

    if (fstatvfs(fd, &fs) < 0) {
        add(checks, "disk space", CAUTION, "see df", "the free space of '%s' is not known: %s", cfg->home, strerror(errno));
        return;
    }
    long long free_mb = (long long)(fs.f_bavail * (unsigned long long)fs.f_frsize) / MEGABYTE;
    add(checks, "disk space", free_mb < 100 ? FAIL : free_mb < 1024 ? CAUTION : PASS,
        "free some space, or move RIDDLE_HOME to another disk: ingested tables are kept there", "%lld MB free in '%s'",
        free_mb, cfg->home);
}

static long long available_memory_mb(void)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(65536);
    long long kb = 0;
    if (fd_read_file("/proc/meminfo", &b, &err) < 0)
        return -1;
    const char *line = strstr(buf_cstr(&b), "MemAvailable:");
    return line && sscanf(line, "MemAvailable: %lld kB", &kb) == 1 ? kb / 1024 : -1;
}

static void check_machine(const struct config *cfg, json_t *checks)
{
    static const char remedy[] = "lower RIDDLE_MEMORY, RIDDLE_POOL_SIZE, or free some memory";
    long long have_mb = available_memory_mb(), kernel_mb = cfg->memory_bytes / MEGABYTE;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (have_mb < 0)
        add(checks, "memory", CAUTION, "mount /proc", "the free memory of this machine is not known");
    else /* the zygote holds about 130 MB beside what a kernel may take */
        add(checks, "memory", have_mb < 256 ? FAIL : have_mb < kernel_mb + 256 ? CAUTION : PASS, remedy,
            "%lld MB available; one kernel may take %lld MB", have_mb, kernel_mb);
    add(checks, "processors", cores < 2 || (double)cores < cfg->cpus ? CAUTION : PASS,
        "runs will wait for each other; a second processor helps, and RIDDLE_CPUS should not be more than there are",
        "%ld online; one kernel may use %g", cores, cfg->cpus);
}

#define MODEL_END_SOON_DAYS 90

/* Days from today to a day written "2027-01-14". */
static long days_until(const char *day)
{
    struct tm tm = { .tm_isdst = -1 };
    if (sscanf(day, "%d-%d-%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday) != 3)
        return LONG_MAX;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (long)(((int64_t)timegm(&tm) * 1000 - clock_wall_ms()) / 86400000);
}

/* Which model answers, and whether its maker ends it soon. Nothing is asked over the network. */
static void check_model(const struct config *cfg, json_t *checks)
{
    struct err err = ERR_INIT;
    struct llm *llm;
    uv_loop_t loop;
    char remedy[200];

    uv_loop_init(&loop);
    if (llm_create(&loop, cfg, &llm, &err) < 0) {
        add(checks, "model", FAIL, "see docs/models.md", "%s", err.message);
    } else {
        const char *ends = llm_model_ends(llm);
        long days = *ends ? days_until(ends) : LONG_MAX;
        snprintf(remedy, sizeof(remedy), "set %s to a model that goes on; see docs/models.md", llm_model_setting(llm));
        if (llm_is_builtin(llm))
            add(checks, "model", PASS, NULL, "none: the built-in planner answers");
        else if (days < 0)
            add(checks, "model", CAUTION, remedy, "%s: its maker ended it on %s", llm_model(llm), ends);
        else if (days < MODEL_END_SOON_DAYS)
            add(checks, "model", CAUTION, remedy, "%s: its maker ends it on %s, in %ld days", llm_model(llm), ends, days);
        else
            add(checks, "model", PASS, NULL, "%s by %s", llm_model(llm), llm_provider(llm));
        llm_destroy(llm);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

/* ---- printing ---- */

static void print_visible(const char *text)
{
    auto_buf struct buf b = BUF_INIT(65536);
    if (table_append_visible(&b, text, strlen(text), false, NULL) >= 0)
        fputs(buf_cstr(&b), stdout);
}

static void print_checks(const json_t *checks)
{
    struct table_style style;
    int name_width = 0, counts[_STATUS_MAX] = { 0 };
    size_t i;
    json_t *check;

    table_style_for(STDOUT_FILENO, &style);
    json_array_foreach(checks, i, check)
        name_width = MAX_OF(name_width, (int)MIN_OF(json_string_length(json_object_get(check, "name")), (size_t)32));
    json_array_foreach(checks, i, check)
    {
        enum status status = status_of(check);
        const char *remedy = json_string_value(json_object_get(check, "remedy"));
        counts[status]++;
        printf("%s%-7s%s  %-*s  ", style.colour ? status_colours[status] : "", status_labels[status],
               style.colour ? "\033[0m" : "", name_width, json_string_value(json_object_get(check, "name")));
        print_visible(json_string_value(json_object_get(check, "detail")));
        putchar('\n');
        if (remedy && *remedy) {
            printf("%*s", 7 + 2 + name_width + 2, "");
            fputs("→ ", stdout);
            print_visible(remedy);
            putchar('\n');
        }
    }
    printf("%d passed, %d with caution, %d failed\n", counts[PASS], counts[CAUTION], counts[FAIL]);
}

static int print_json(const char *version, const json_t *checks, enum status worst)
{
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(4 * PROBE_MAX_BYTES);
    auto_json json_t *report = json_pack("{s:s, s:s, s:O}", "status", status_names[worst], "version", version, "checks",
                                         checks);
    if (!report || json_write(report, &b, &err) < 0 || buf_append_str(&b, "\n", &err) < 0 ||
        fd_write_all(STDOUT_FILENO, b.data, b.len, &err) < 0) {
        cli_complain("%s", err.message);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static const char usage[] =
    "usage: riddle doctor [--json]\n"
    "\n"
    "Checks what Riddle needs and every layer of the jail, and says what to do about what is missing.\n"
    "Exit status: 0 when everything is PASS or CAUTION, 1 when something is FAIL.\n";

static const struct option long_options[] = {
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

int cli_doctor(const struct cli *cli, int argc, char **argv)
{
    bool json = false;
    struct err err = ERR_INIT;
    struct config cfg;
    char path[PATH_MAX];
    int c;

    opterr = 0;
    optind = 0;
    while ((c = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (c == 'h') {
            fputs(usage, stdout);
            return CLI_OK;
        }
        if (c != 'j')
            return cli_bad_option("doctor", argv, long_options);
        json = true;
    }
    if (optind < argc) {
        cli_complain("'doctor' takes no '%s'; see 'riddle doctor --help'", argv[optind]);
        return CLI_USAGE;
    }
    int status = cli_load_config(&cfg);
    if (status != CLI_OK)
        return status;

    auto_json json_t *checks = json_array();
    if (kernel_path(&cfg, path, sizeof(path), &err) < 0)
        add(checks, "riddle-kernel", FAIL, "mount /proc", "%s", err.message);
    else if (check_kernel(cli->version, path, checks))
        check_probe(path, checks);
    check_home(&cfg, checks);
    check_machine(&cfg, checks);
    check_model(&cfg, checks);

    enum status worst = PASS;
    size_t i;
    json_t *check;
    json_array_foreach(checks, i, check)
        worst = MAX_OF(worst, status_of(check));
    status = worst == FAIL ? CLI_FAILED : CLI_OK;
    if (!json)
        print_checks(checks);
    else if (print_json(cli->version, checks, worst) != CLI_OK)
        status = CLI_FAILED;
    config_finish(&cfg);
    return status;
}
