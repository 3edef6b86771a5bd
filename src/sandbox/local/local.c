/*
 * The local provider: zygotes, the kernels forked from them, and the pool.
 *
 * Theory of operation. riddle starts `riddle-kernel --zygote=sql|python` on first use and keeps a socket to it. A kernel is asked for
 * with three descriptors (control socket, stdout, stderr); the zygote clones it as riddle's own child and answers with a pidfd.
 * It enters its control group, or riddle puts it there, and only then is it told what it is for; until then it does nothing. A zygote that died
 * is started again at the next request; its kernels live on.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/proc.h"
#include "base/str.h"
#include "sandbox/local/local_impl.h"
#include "sandbox/workspace.h"

#define ZYGOTE_START_MS 60000
#define SPAWN_MS 10000
#define SMALL_TABLES_BYTES (8 << 20)

void sandbox_limits_default(const struct config *cfg, struct sandbox_limits *ret)
{
    *ret = (struct sandbox_limits){
        .memory_bytes = cfg->memory_bytes,
        .cpus = cfg->cpus,
        .pids = (int)cfg->pids,
        .open_files = (int)cfg->open_files,
        .file_bytes = cfg->file_bytes,
        .workspace_bytes = cfg->workspace_bytes,
        .tmp_bytes = cfg->tmp_bytes,
        .inodes = cfg->inodes,
    };
}

/* ---- the zygote's process ---- */

/* In the child: becomes the zygote. It has riddle's memory until then: system calls only, and no handler of riddle's may run. */
static _Noreturn void exec_zygote(struct provider *p, int sock, int stderr_fd, char *const argv[],
                                  char *const envp[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* A group of its own, as its kernels have: what is typed at a terminal, Ctrl-C above all, is for riddle alone. */
    setpgid(0, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(stderr_fd, 2);
    dup2(sock, 3); /* clears close-on-exec */
    close_range(4, ~0u, 0);
    for (int sig = 1; sig < _NSIG; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Equal layouts in every run: cold images are diffs against the zygote. */
    personality(ADDR_NO_RANDOMIZE);
    execve(p->kernel_path, argv, envp);
    static const char msg[] = "cannot run riddle-kernel\n";
    (void)!write(2, msg, sizeof(msg) - 1);
    _exit(127);
}

/* The zygote's last words, for an error message. */
static void read_last_words(struct zygote *z, char *ret, size_t n)
{
    size_t len = 0;
    struct pollfd pfd = { .fd = z->stderr_fd, .events = POLLIN };
    while (len + 1 < n && poll(&pfd, 1, 200) == 1) {
        ssize_t got = read(z->stderr_fd, ret + len, n - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    while (len && ret[len - 1] == '\n')
        len--;
    ret[len] = 0;
}

static void zygote_stop(struct zygote *z)
{
    if (z->pid > 0) {
        kill(z->pid, SIGKILL);
        waitpid(z->pid, NULL, 0);
    }
    if (z->pid > 0 || z->starts) {
        int *fds[] = { &z->sock, &z->userns_fd, &z->stderr_fd };
        for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
            if (*fds[i] >= 0)
                close(*fds[i]);
            *fds[i] = -1;
        }
    }
    z->pid = 0;
    z->greeted = false;
}

static int wait_record(struct zygote *z, int timeout_ms, struct zygote_record *rec, int *fds, size_t max_fds,
                       size_t *ret_n_fds, struct err *err)
{
    struct pollfd pfd = { .fd = z->sock, .events = POLLIN };
    int64_t until = clock_now_ms() + timeout_ms;
    int n;
    do {
        int64_t left = until - clock_now_ms();
        n = poll(&pfd, 1, left > 0 ? (int)left : 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_TIMEOUT, "the zygote did not answer within %d s", timeout_ms / 1000);
    return zygote_recv(z->sock, rec, fds, max_fds, ret_n_fds, err);
}

static int write_maps(struct provider *p, pid_t pid, struct err *err)
{
    char path[64], line[64];
    snprintf(line, sizeof(line), "0 %lld 1", p->cfg->sandbox_uid);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    int r = fd_write_file(path, line, err);
    if (r == 0) {
        snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
        r = fd_write_file(path, line, err);
    }
    return r;
}

static int zygote_handshake(struct provider *p, struct zygote *z, struct err *err)
{
    for (;;) {
        struct zygote_record rec;
        size_t n_fds = 0;
        int r = wait_record(z, ZYGOTE_START_MS, &rec, NULL, 0, &n_fds, err);
        if (r < 0)
            return r;
        if (rec.op == ZYGOTE_HELLO)
            return 0;
        if (rec.op != ZYGOTE_MAP || !p->root)
            return err_set(err, ERR_PROTOCOL, "the zygote sent record %u instead of hello", rec.op);
        struct err why = ERR_INIT;
        r = write_maps(p, z->pid, &why);
        r = zygote_send(z->sock, ZYGOTE_MAPPED, 0, r < 0 ? EPERM : 0, NULL, 0, err);
        if (r < 0)
            return r;
    }
}

/* Starts it without waiting for its hello. */
static int zygote_launch(struct provider *p, enum run_kind kind, struct err *err)
{
    struct zygote *z = &p->zygotes[kind];
    zygote_stop(z);
    z->starts++;

    char preload[1200], cache[4200];
    snprintf(preload, sizeof(preload), "--preload=%s", p->one_shot && !p->plots ? "" : p->cfg->preload);
    snprintf(cache, sizeof(cache), "MPLCONFIGDIR=%s/cache/matplotlib", p->home);
    char *argv[8] = { (char *)"riddle-kernel", (char *)(kind == RUN_PYTHON ? "--zygote=python" : "--zygote=sql"),
                      preload };
    size_t n = 3;
    if (str_eq(p->cfg->jail, "partial"))
        argv[n++] = (char *)"--partial";
    if (p->one_shot)
        argv[n++] = (char *)"--one-shot";
    if (p->root)
        argv[n++] = (char *)"--parent-maps";
    argv[n] = NULL;
    char *envp[] = { cache, NULL }; /* nothing of ours */

    int pair[2], words[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, ERR_IO, errno, "making the zygote's socket");
    if (pipe2(words, O_CLOEXEC) < 0) {
        close(pair[0]);
        close(pair[1]);
        return err_errno(err, ERR_IO, errno, "making the zygote's pipe");
    }
    /* No copy of riddle's memory is made for it, so it begins at once; riddle waits until it has begun. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        exec_zygote(p, pair[1], words[1], argv, envp);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    close(words[1]);
    z->pid = pid;
    z->sock = pair[0];
    z->stderr_fd = words[0];
    z->userns_fd = -1;
    if (pid < 0) {
        zygote_stop(z);
        return err_errno(err, ERR_UNAVAILABLE, why, "starting riddle-kernel");
    }
    return 0;
}

static int zygote_greet(struct provider *p, struct zygote *z, struct err *err)
{
    struct err why = ERR_INIT;
    int r = zygote_handshake(p, z, &why);
    if (r < 0) {
        char last[600];
        read_last_words(z, last, sizeof(last));
        zygote_stop(z);
        const char *text = *last ? last : why.message;
        enum err_code code = strstr(text, "namespace") || strstr(text, "jail") ? ERR_ISOLATION : ERR_UNAVAILABLE;
        return err_set(err, code, "%s", str_starts(text, "riddle-kernel: ") ? text + 15 : text);
    }
    z->anon_kb = proc_status_value(z->pid, "RssAnon");
    z->greeted = true;
    return 0;
}

static int zygote_start(struct provider *p, enum run_kind kind, struct err *err)
{
    int r = zygote_launch(p, kind, err);
    return r < 0 ? r : zygote_greet(p, &p->zygotes[kind], err);
}

static int zygote_ensure(struct provider *p, enum run_kind kind, struct err *err)
{
    struct zygote *z = &p->zygotes[kind];
    if (z->pid > 0 && !z->greeted)
        return zygote_greet(p, z, err);
    if (z->pid > 0) {
        struct pollfd pfd = { .fd = z->sock, .events = POLLIN };
        if (poll(&pfd, 1, 0) == 0)
            return 0;
        /* Nothing is expected now: the socket is closed, the zygote dead. */
    }
    return zygote_start(p, kind, err);
}

/* ---- kernels ---- */

static void close_kernel_fds(struct kernel_proc *k)
{
    int *fds[] = { &k->pidfd, &k->control, &k->out, &k->errout };
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

void kernel_kill(struct kernel_proc *k)
{
    if (k->pid > 0) {
        if (k->pidfd >= 0)
            (void)proc_pidfd_signal(k->pidfd, SIGKILL, NULL);
        /* Ends when every process of the pid namespace is gone. */
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    k->pid = 0;
    close_kernel_fds(k);
    cgroup_destroy(&k->group);
}

static int ask_for_kernel(struct zygote *z, bool pooled, const int child_fds[3], struct err *err)
{
    if (zygote_send(z->sock, ZYGOTE_SPAWN, pooled, 0, child_fds, 3, err) < 0)
        return err_set(err, ERR_UNAVAILABLE, "the zygote is gone");
    return 0;
}

/* The first thing a kernel reads: the control groups that it is to enter. */
static int send_groups(const struct kernel_proc *k, struct err *err)
{
    int fds[_CGROUP_CONTROLLER_MAX];
    size_t n = cgroup_join_fds(&k->group, fds);
    char frame[64];
    int len = snprintf(frame, sizeof(frame), "{\"op\":\"join\",\"groups\":%zu}", n);
    return wire_send(k->control, frame, (size_t)len, fds, n, err);
}

static int receive_kernel(struct zygote *z, struct kernel_proc *k, struct err *err)
{
    struct zygote_record rec;
    int pidfd = -1;
    size_t n_fds = 0;
    int r = wait_record(z, SPAWN_MS, &rec, &pidfd, 1, &n_fds, err);
    if (r < 0)
        return r;
    if (rec.op != ZYGOTE_SPAWNED || (rec.status == 0 && n_fds != 1)) {
        if (n_fds)
            close(pidfd);
        return err_set(err, ERR_PROTOCOL, "the zygote sent record %u instead of a kernel", rec.op);
    }
    if (rec.status)
        return err_errno(err, ERR_UNAVAILABLE, rec.status, "forking a kernel");
    k->pid = (pid_t)rec.value;
    k->pidfd = pidfd;
    return 0;
}

static int spawn_once(struct provider *p, enum run_kind kind, bool pooled, const struct sandbox_limits *limits,
                      struct kernel_proc *ret, struct err *err)
{
    int r = 0;
    struct kernel_proc k = KERNEL_PROC_NONE;
    int control[2] = { -1, -1 }, out[2] = { -1, -1 }, errout[2] = { -1, -1 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        pipe2(errout, O_CLOEXEC) < 0) {
        r = err_errno(err, ERR_IO, errno, "making a kernel's pipes");
    } else {
        k.control = control[0];
        k.out = out[0];
        k.errout = errout[0];
        fcntl(k.control, F_SETFL, O_NONBLOCK);
        fcntl(k.out, F_SETFL, O_NONBLOCK);
        fcntl(k.errout, F_SETFL, O_NONBLOCK);
        const int child_fds[3] = { control[1], out[1], errout[1] };
        struct zygote *z = &p->zygotes[kind];
        r = ask_for_kernel(z, pooled, child_fds, err);
        /* Its group is made while it is being cloned; the answer is read in any case, or the next one would be taken for it. */
        struct err why = ERR_INIT;
        int made = cgroup_create(&p->cgroups, limits, &k.group, &why);
        if (made == 0)
            made = send_groups(&k, &why);
        if (r == 0)
            r = receive_kernel(z, &k, err);
        if (r == 0 && made < 0) {
            *err = why;
            r = made;
        }
        k.shared_kb = z->anon_kb;
    }
    int *ours[] = { &control[1], &out[1], &errout[1] };
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (*ours[i] >= 0)
            close(*ours[i]);
    if (r == 0)
        r = cgroup_add(&k.group, k.pid, err);
    if (r < 0) {
        if (k.control < 0 && control[0] >= 0)
            close(control[0]);
        kernel_kill(&k);
        return r;
    }
    *ret = k;
    return 0;
}

int kernel_spawn(struct provider *p, enum run_kind kind, bool pooled, const struct sandbox_limits *limits,
                 struct kernel_proc *ret, struct err *err)
{
    int r = zygote_ensure(p, kind, err);
    if (r == 0)
        r = spawn_once(p, kind, pooled, limits, ret, err);
    /*
     * The zygote has died: once more with a new one, and with a socket of its own. The old one may have cloned before it died; that
     * kernel finds its socket closed and ends.
     */
    if (r == -ERR_UNAVAILABLE && zygote_start(p, kind, err) == 0)
        r = spawn_once(p, kind, pooled, limits, ret, err);
    return r;
}

static bool is_gone(const struct kernel_proc *k)
{
    struct pollfd pfd = { .fd = k->pidfd, .events = POLLIN };
    return poll(&pfd, 1, 0) != 0;
}

void kernel_pool_trim(struct provider *p, enum run_kind kind)
{
    while (p->n_pool[kind] > 0 && is_gone(&p->pool[kind][p->n_pool[kind] - 1]))
        kernel_kill(&p->pool[kind][--p->n_pool[kind]]);
}

void kernel_prepare(struct provider *p, enum run_kind kind)
{
    struct sandbox_limits limits;
    struct err err = ERR_INIT;
    sandbox_limits_default(p->cfg, &limits);
    if (p->n_pool[kind] == 0 && kernel_spawn(p, kind, false, &limits, &p->pool[kind][0], &err) == 0)
        p->n_pool[kind] = 1;
}

int kernel_take(struct provider *p, enum run_kind kind, const struct sandbox_limits *limits,
                struct kernel_proc *ret, struct err *err)
{
    while (p->n_pool[kind] > 0) {
        struct kernel_proc k = p->pool[kind][--p->n_pool[kind]];
        if (!is_gone(&k) && cgroup_limit(&k.group, limits, err) == 0) {
            *ret = k;
            return 0;
        }
        kernel_kill(&k);
    }
    if (p->pool_only)
        return err_set(err, ERR_UNAVAILABLE, "the waiting kernel was gone; try again");
    return kernel_spawn(p, kind, false, limits, ret, err);
}

/* ---- the provider ---- */

static int find_kernel(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    if (*cfg->kernel_path) {
        snprintf(ret, n, "%s", cfg->kernel_path);
    } else {
        char dir[PATH_MAX - 32];
        int r = proc_self_dir(dir, sizeof(dir), err);
        if (r < 0)
            return r;
        snprintf(ret, n, "%s/riddle-kernel", dir);
    }
    if (access(ret, X_OK) < 0)
        return err_errno(err, ERR_CONFIG, errno,
                         "the program riddle-kernel is not at '%s'; build it with 'make' or set RIDDLE_KERNEL", ret);
    return 0;
}

static int open_home(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    char path[PATH_MAX];
    int r = fd_mkdir_p(cfg->home, 0700, err);
    if (r == 0 && !realpath(cfg->home, path))
        r = err_errno(err, ERR_IO, errno, "'%s'", cfg->home);
    if (r < 0)
        return err_wrap(err, "RIDDLE_HOME");
    if (snprintf(ret, n, "%s", path) >= (int)n - 64)
        return err_set(err, ERR_CONFIG, "RIDDLE_HOME is too long: '%s'", path);
    char sub[PATH_MAX + 32];
    snprintf(sub, sizeof(sub), "%s/tables", path);
    r = fd_mkdir_p(sub, 0700, err);
    if (r == 0) {
        snprintf(sub, sizeof(sub), "%s/cache/matplotlib", path);
        r = fd_mkdir_p(sub, 0700, err);
    }
    return r < 0 ? err_wrap(err, "RIDDLE_HOME") : 0;
}

int provider_open_local(const struct config *cfg, struct provider **ret, struct err *err)
{
    struct provider *p = calloc(1, sizeof(*p));
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    p->cfg = cfg;
    p->root = geteuid() == 0;
    for (int i = 0; i < _RUN_KIND_MAX; i++)
        p->zygotes[i] = (struct zygote){ .sock = -1, .userns_fd = -1, .stderr_fd = -1 };
    int r = find_kernel(cfg, p->kernel_path, sizeof(p->kernel_path), err);
    if (r == 0)
        r = open_home(cfg, p->home, sizeof(p->home), err);
    if (r < 0) {
        free(p);
        return r;
    }
    signal(SIGPIPE, SIG_IGN);
    cgroup_tree_open(&p->cgroups);
    *ret = p;
    return 0;
}

void provider_one_shot(struct provider *p, const char *code)
{
    static const char *const words[] = { "plot", "seaborn", "sns.", "plt." };
    p->one_shot = true;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        p->plots = p->plots || strstr(code, words[i]);
}

void provider_close(struct provider *p)
{
    if (!p)
        return;
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++)
        if (p->zygotes[kind].pid > 0) /* they end while the kernels do */
            kill(p->zygotes[kind].pid, SIGKILL);
    for (int kind = 0; kind < _RUN_KIND_MAX; kind++) {
        while (p->n_pool[kind] > 0)
            kernel_kill(&p->pool[kind][--p->n_pool[kind]]);
        zygote_stop(&p->zygotes[kind]);
    }
    tables_settle(p);
    cgroup_tree_close(&p->cgroups);
    free(p);
}

bool provider_refill(struct provider *p, enum run_kind kind, struct err *err)
{
    if (p->n_pool[kind] >= (size_t)MIN_OF(p->cfg->pool_size, POOL_MAX))
        return false;
    struct sandbox_limits limits;
    sandbox_limits_default(p->cfg, &limits);
    if (kernel_spawn(p, kind, true, &limits, &p->pool[kind][p->n_pool[kind]], err) < 0)
        return false;
    p->n_pool[kind]++;
    return true;
}

int provider_warm(struct provider *p, enum run_kind kind, struct err *err)
{
    int r = zygote_ensure(p, kind, err);
    struct err why = ERR_INIT;
    while (r == 0 && provider_refill(p, kind, &why))
        ;
    if (r == 0 && why.code != ERR_NONE) {
        *err = why;
        r = -(int)why.code;
    }
    return r;
}

unsigned provider_zygote_starts(const struct provider *p)
{
    return p->zygotes[RUN_SQL].starts + p->zygotes[RUN_PYTHON].starts;
}

/* ---- making a sandbox ---- */

/* What the kernel shall see of the files: each one's table, and for Python the file itself. */
static int show_files(struct provider *p, const struct sandbox_spec *spec, const struct table_file *tables,
                      struct sandbox_start *start, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < spec->n_files && r == 0; i++) {
        const struct sandbox_file *f = &spec->files[i];
        char target[320];
        if (f->raw) {
            r = tables_check_raw(f, err);
        } else {
            snprintf(target, sizeof(target), "data/.tables/%zu.duckdb", i);
            r = shown_open(p, tables[i].path, target, false, &start->shown[start->n_shown], err);
        }
        if (r < 0)
            break;
        if (!f->raw) {
            start->tables[start->n_tables].name = f->table;
            start->tables[start->n_tables++].shown = start->n_shown++;
        }
        if (spec->kind == RUN_PYTHON) {
            snprintf(target, sizeof(target), "data/%.255s", f->name);
            r = shown_open(p, f->path, target, false, &start->shown[start->n_shown], err);
            if (r == 0)
                start->n_shown++;
        }
    }
    return r;
}

static json_t *collect_rejects(const struct sandbox_spec *spec, const struct table_file *tables)
{
    json_t *rejects = json_array();
    for (size_t i = 0; i < spec->n_files; i++) {
        json_t *of_file = json_object_get(tables[i].report, "rejects");
        if (json_integer_value(json_object_get(of_file, "count")) > 0)
            json_array_append_new(rejects, json_pack("{s:s, s:O}", "file", spec->files[i].name, "rejects", of_file));
    }
    return rejects;
}

/* One is faster as long as the tables are small: more only pay off over many row groups. */
static int engine_threads(const struct sandbox_spec *spec, const struct table_file *tables)
{
    off_t bytes = 0;
    for (size_t i = 0; i < spec->n_files; i++) {
        struct stat st;
        if (!spec->files[i].raw && stat(tables[i].path, &st) == 0)
            bytes += st.st_size;
    }
    if (bytes < SMALL_TABLES_BYTES)
        return 1;
    return (int)MAX_OF(1, MIN_OF((long)spec->limits.cpus, sysconf(_SC_NPROCESSORS_ONLN)));
}

int sandbox_create_loaded(struct provider *p, const struct sandbox_spec *spec, const struct table_file *tables,
                          struct sandbox **ret, struct err *err)
{
    auto_free struct shown_file *shown = calloc(2 * spec->n_files + 1, sizeof(*shown));
    if (!shown)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    struct sandbox_start start = { .kind = spec->kind, .dataset_id = spec->dataset_id, .shown = shown,
                                   .limits = spec->limits };
    struct kernel_proc k = KERNEL_PROC_NONE;
    int r = show_files(p, spec, tables, &start, err);
    if (r == 0)
        r = kernel_take(p, spec->kind, &spec->limits, &k, err);
    if (r == 0) {
        start.threads = engine_threads(spec, tables);
        r = sandbox_start(p, &k, &start, ret, err);
    }
    if (r == 0)
        sandbox_set_load(*ret, 0, 0, collect_rejects(spec, tables));
    for (size_t i = 0; i < start.n_shown; i++)
        shown_close(&shown[i]);
    return r;
}

int sandbox_create(struct provider *p, const struct sandbox_spec *spec, const struct run_events *events,
                   struct sandbox **ret, struct err *err)
{
    if (spec->n_files > SANDBOX_FILES_MAX)
        return err_set(err, ERR_VALIDATION, "%zu files; a sandbox takes at most %d", spec->n_files,
                       SANDBOX_FILES_MAX);
    if (sandbox_files_check(spec, err) < 0)
        return -(int)err->code;
    int64_t begun = clock_now_us();
    /* It loads while the files are hashed. What hinders it is told when it is needed. */
    struct err ignored = ERR_INIT;
    if (p->one_shot && p->zygotes[spec->kind].pid == 0)
        (void)zygote_launch(p, spec->kind, &ignored);
    struct table_file *tables = calloc(spec->n_files + 1, sizeof(*tables));
    int r = tables ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < spec->n_files && r == 0; i++)
        r = spec->files[i].raw ? 0 : tables_ensure(p, &spec->files[i], events, spec->kind == RUN_SQL, &tables[i], err);
    int64_t loaded = clock_now_us();
    if (r == 0)
        r = sandbox_create_loaded(p, spec, tables, ret, err);
    if (r == 0)
        sandbox_set_load(*ret, clock_now_us() - loaded, loaded - begun, collect_rejects(spec, tables));
    for (size_t i = 0; tables && i < spec->n_files; i++)
        json_decref(tables[i].report);
    free(tables);
    return r;
}
