/*
 * Fork servers and the kernels forked from them.
 *
 * Theory of operation. riddle starts `riddle-kernel --zygote=sql|python` on first use and keeps a
 * socket to it. A kernel is asked for with three descriptors (control socket, stdout, stderr); the
 * zygote clones it as riddle's own child and answers with a pidfd. The kernel enters its control
 * group, or riddle puts it there, and only then is it told what it is for; until then it does
 * nothing. A zygote that died is started again at the next request; its kernels live on.
 *
 * All of this waits for other processes, so it runs in libuv's worker threads. A zygote is killed
 * when the thread that started it ends (PR_SET_PDEATHSIG counts threads, not processes); libuv's
 * workers live as long as riddle does.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/version.h"
#include "sandbox/local/local_impl.h"

#define ZYGOTE_START_MS 60000
#define BASE_MS 20000
#define LAST_WORDS_MS 200
#define SPAWN_MS 6000 /* a clone takes milliseconds; one that takes this long is hung */

/* ---- the zygote's process ---- */

/*
 * In the child: becomes the zygote. It has riddle's memory until then: system calls only, and no
 * handler of riddle's may run.
 */
static _Noreturn void exec_zygote(struct local *p, int sock, int base, int stderr_fd,
                                  char *const argv[], char *const envp[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /*
     * A group of its own, as its kernels have: what is typed at a terminal, Ctrl-C above all, is
     * for riddle alone.
     */
    setpgid(0, 0);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(stderr_fd, 2);
    int high = fcntl(base, F_DUPFD, 10);
    dup2(sock, 3); /* clears close-on-exec */
    if (high >= 0)
        dup2(high, 4);
    close_range(high >= 0 ? 5 : 4, ~0u, 0);
    for (int sig = 1; sig < _NSIG; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /*
     * Equal addresses in every zygote, so that a kernel's memory can be kept as a difference to it.
     */
    personality(ADDR_NO_RANDOMIZE);
    execve(p->kernel_path, argv, envp);
    static const char msg[] = "cannot run riddle-kernel\n";
    (void)!write(2, msg, sizeof(msg) - 1);
    _exit(127);
}

/* The zygote's last words, for an error message. */
static void read_last_words(struct zygote *z, int wait_ms, char *ret, size_t n)
{
    size_t len = 0;
    struct pollfd pfd = { .fd = z->stderr_fd, .events = POLLIN };
    while (len + 1 < n && poll(&pfd, 1, wait_ms) == 1) {
        ssize_t got = read(z->stderr_fd, ret + len, n - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    while (len && ret[len - 1] == '\n')
        len--;
    ret[len] = 0;
}

/* Its wait status, or -1 if there was none. */
static int end_zygote(struct zygote *z)
{
    int status = -1;
    if (z->pid > 0) {
        kill(z->pid, SIGKILL);
        while (waitpid(z->pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    int *fds[] = { &z->sock, &z->stderr_fd };
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    z->pid = 0;
    z->greeted = z->lost = false;
    return status;
}

void zygote_stop(struct zygote *z)
{
    (void)end_zygote(z);
}

static int wait_record(struct zygote *z, int timeout_ms, struct zygote_record *rec, int *fds,
                       size_t max_fds, size_t *ret_n_fds, struct err *err)
{
    struct pollfd pfd = { .fd = z->sock, .events = POLLIN };
    int64_t until = clock_now_ms() + timeout_ms;
    int n;
    do {
        int64_t left = until - clock_now_ms();
        n = poll(&pfd, 1, left > 0 ? (int)left : 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return err_set(err, ERR_TIMEOUT, "the fork server of kernels did not answer within %d s",
                       timeout_ms / 1000);
    return zygote_recv(z->sock, rec, fds, max_fds, ret_n_fds, err);
}

/* A container may have fewer ids than a machine. Then kernels share one. */
static int write_maps(struct local *p, pid_t pid, struct err *err)
{
    char path[64], line[64];
    struct err ignored = ERR_INIT;
    long long first = p->base.cfg->sandbox_uid;
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    snprintf(line, sizeof(line), "0 %lld %u", first, p->users.n);
    int r = fd_write_file(path, line, &ignored);
    snprintf(line, sizeof(line), "0 %lld 1", first);
    if (r < 0) {
        user_ids_limit(&p->users, 1);
        r = fd_write_file(path, line, err);
    }
    if (r == 0) {
        snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
        r = fd_write_file(path, line, err);
    }
    return r;
}

static void base_path(const struct local *p, const char *id, char ret[4300])
{
    char dir[4200];
    snprintf(dir, sizeof(dir), "%s/images", p->home);
    image_base_path(dir, id, ret, 4300);
}

/* Images that need a base which is damaged would bring back anything but what they were. */
static void note_base(const struct local *p, struct zygote *z, int made)
{
    char why[300], path[4300];
    if (made == ZYGOTE_FROM_BASE)
        memcpy(z->base_id, z->offered_id, sizeof(z->base_id));
    if (made == ZYGOTE_FROM_BASE || !z->offered_id[0])
        return;
    read_last_words(z, 0, why, sizeof(why));
    base_path(p, z->offered_id, path);
    if (made == ZYGOTE_BASE_DAMAGED)
        unlink(path);
    log_info("zygote.base_not_used", LOG_STR("base", z->offered_id), LOG_STR("reason", why));
}

static int zygote_handshake(struct local *p, struct zygote *z, struct err *err)
{
    for (;;) {
        struct zygote_record rec;
        size_t n_fds = 0;
        int r = wait_record(z, ZYGOTE_START_MS, &rec, NULL, 0, &n_fds, err);
        if (r < 0)
            return r;
        if (rec.op == ZYGOTE_HELLO) {
            note_base(p, z, rec.status);
            return 0;
        }
        if (rec.op != ZYGOTE_MAP || !p->root)
            return err_set(err, ERR_PROTOCOL, "the zygote sent record %u instead of hello", rec.op);
        struct err why = ERR_INIT;
        r = write_maps(p, z->pid, &why);
        r = zygote_send(z->sock, ZYGOTE_MAPPED, 0, r < 0 ? EPERM : 0, NULL, 0, err);
        if (r < 0)
            return r;
    }
}

/*
 * Of all zygotes with these words on their command line. Whether a base is of the same Python and
 * libraries, too, is for the zygote to find out.
 */
static int base_key(char *const argv[], char ret[BASE_KEY_HEX + 1], struct err *err)
{
    char hash[HASH_HEX_SIZE];
    auto_buf struct buf b = BUF_INIT(4096);
    int r = buf_printf(&b, err, "%s", RIDDLE_VERSION);
    for (size_t i = 1; argv[i] && r == 0; i++)
        r = buf_printf(&b, err, "\n%s", argv[i]);
    if (r == 0)
        r = hash_bytes(buf_cstr(&b), b.len, hash, err);
    if (r == 0)
        snprintf(ret, BASE_KEY_HEX + 1, "%.*s", BASE_KEY_HEX, hash);
    return r;
}

/* A base that an earlier zygote of this kind has left. Negative: there is none. */
static int offer_base(struct local *p, struct zygote *z, char *const argv[])
{
    char dir[4200], path[4300];
    struct stat st;
    struct err ignored = ERR_INIT;
    z->offered_id[0] = '\0';
    snprintf(dir, sizeof(dir), "%s/images", p->home);
    if (base_key(argv, z->base_key, &ignored) < 0) {
        z->base_key[0] = '\0';
        return -1;
    }
    if (z->is_base_bad || p->one_shot || !image_newest_base(dir, z->base_key, z->offered_id))
        return -1;
    base_path(p, z->offered_id, path);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077)) {
        /* a zygote is what its base says: nobody else may have written it */
        z->offered_id[0] = '\0';
        return -1;
    }
    return TAKE_FD(fd);
}

int zygote_launch(struct local *p, enum run_kind kind, struct err *err)
{
    struct zygote *z = &p->zygotes[kind];
    zygote_stop(z);
    z->generation++;
    z->base_id[0] = '\0';

    char preload[1200], cache[4200];
    snprintf(preload, sizeof(preload), "--preload=%s",
             p->one_shot && !p->plots ? "" : p->base.cfg->preload);
    snprintf(cache, sizeof(cache), "MPLCONFIGDIR=%s/cache/matplotlib", p->home);
    char *argv[9] = { (char *)"riddle-kernel",
                      (char *)(kind == RUN_PYTHON ? "--zygote=python" : "--zygote=sql"), preload };
    size_t n = 3;
    if (str_eq(p->base.cfg->jail, "partial"))
        argv[n++] = (char *)"--partial";
    if (p->one_shot)
        argv[n++] = (char *)"--one-shot";
    if (p->root)
        argv[n++] = (char *)"--parent-maps";
    argv[n] = NULL;
    auto_close int base = offer_base(p, z, argv);
    if (base >= 0)
        argv[n++] = (char *)"--base";
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
    /*
     * No copy of riddle's memory is made for it, so it begins at once; riddle waits until it has
     * begun.
     */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        exec_zygote(p, pair[1], base, words[1], argv, envp);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    close(words[1]);
    if (kind == RUN_PYTHON && pid > 0)
        proc_run_in_long_slices(pid);
    z->pid = pid;
    z->sock = pair[0];
    z->stderr_fd = words[0];
    if (pid < 0) {
        zygote_stop(z);
        return err_errno(err, ERR_UNAVAILABLE, why, "starting riddle-kernel");
    }
    return 0;
}

static int greet_once(struct local *p, struct zygote *z, struct err *err)
{
    struct err why = ERR_INIT;
    int r = zygote_handshake(p, z, &why);
    if (r < 0) {
        char last[600];
        read_last_words(z, LAST_WORDS_MS, last, sizeof(last)); /* up to its end, if it is ending */
        int status = end_zygote(z);
        z->lost = WIFSIGNALED(status) && why.code != ERR_TIMEOUT; /* somebody killed it */
        char ended[80];
        snprintf(ended, sizeof(ended), "the fork server of kernels ended with signal %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        const char *text = *last                                    ? last :
                           r != -ERR_TIMEOUT && WIFSIGNALED(status) ? ended :
                                                                      why.message;
        bool denied = WIFEXITED(status) && WEXITSTATUS(status) == ZYGOTE_EXIT_ISOLATION;
        return err_set(err, denied ? ERR_ISOLATION : ERR_UNAVAILABLE, "%s",
                       str_starts(text, "riddle-kernel: ") ? text + 15 : text);
    }
    z->anon_kb = proc_status_value(z->pid, "RssAnon");
    z->greeted = true;
    return 0;
}

/* One that did not live through becoming its base is started without. */
static int zygote_greet(struct local *p, struct zygote *z, struct err *err)
{
    struct err why = ERR_INIT;
    int r = greet_once(p, z, &why);
    if (r < 0 && z->offered_id[0] && why.code != ERR_ISOLATION && !atomic_load(&p->closing)) {
        log_warn("zygote.base", LOG_STR("base", z->offered_id), LOG_STR("error", why.message));
        z->is_base_bad = true;
        why = (struct err)ERR_INIT;
        r = zygote_launch(p, (enum run_kind)(z - p->zygotes), &why);
        if (r == 0)
            r = greet_once(p, z, &why);
    }
    if (r < 0)
        *err = why;
    return r;
}

static int zygote_start(struct local *p, enum run_kind kind, unsigned *starts, struct err *err)
{
    if (atomic_load(&p->closing))
        return err_set(err, ERR_CANCELLED, "the fork server of kernels is stopping");
    (*starts)++;
    int r = zygote_launch(p, kind, err);
    return r < 0 ? r : zygote_greet(p, &p->zygotes[kind], err);
}

static int zygote_ensure(struct local *p, enum run_kind kind, unsigned *starts, struct err *err)
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
    return zygote_start(p, kind, starts, err);
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

void kernel_kill(struct local *p, struct kernel_proc *k)
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
    user_ids_give_back(&p->users, k->user);
    k->user = 0;
}

static int ask_for_kernel(struct zygote *z, unsigned user, bool pooled, const int child_fds[3],
                          struct err *err)
{
    z->lost = zygote_send(z->sock, ZYGOTE_SPAWN, user, pooled, child_fds, 3, err) < 0;
    if (z->lost)
        return err_set(err, ERR_UNAVAILABLE, "the fork server of kernels is gone");
    return 0;
}

/* The first thing a kernel reads: the control groups that it is to enter. */
static int send_groups(const struct kernel_proc *k, struct err *err)
{
    int fds[_CGROUP_CONTROLLER_MAX];
    size_t n = cgroup_join_fds(&k->group, fds);
    auto_json json_t *body = json_pack("{s:I}", "groups", (json_int_t)n);
    return wire_send_json(k->control, WIRE_JOIN, 0, body, fds, n, err);
}

static int receive_kernel(struct zygote *z, struct kernel_proc *k, struct err *err)
{
    struct zygote_record rec;
    int pidfd = -1;
    size_t n_fds = 0;
    int r = wait_record(z, SPAWN_MS, &rec, &pidfd, 1, &n_fds, err);
    z->lost = r < 0;
    if (r < 0)
        return r;
    if (rec.op != ZYGOTE_SPAWNED || (rec.status == 0 && n_fds != 1)) {
        if (n_fds)
            close(pidfd);
        z->lost = true;
        return err_set(err, ERR_PROTOCOL, "the zygote sent record %u instead of a kernel", rec.op);
    }
    if (rec.status)
        return err_errno(err, ERR_UNAVAILABLE, rec.status, "forking a kernel");
    k->pid = (pid_t)rec.value;
    k->pidfd = pidfd;
    return 0;
}

static int spawn_once(struct local *p, const struct spawn_spec *spec, struct kernel_proc *ret,
                      struct err *err)
{
    int r = 0;
    struct kernel_proc k = KERNEL_PROC_NONE;
    k.user = user_ids_take(&p->users);
    int control[2] = { -1, -1 }, out[2] = { -1, -1 }, errout[2] = { -1, -1 };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0 ||
        pipe2(out, O_CLOEXEC) < 0 || pipe2(errout, O_CLOEXEC) < 0) {
        r = err_errno(err, ERR_IO, errno, "making a kernel's pipes");
    } else {
        k.control = control[0];
        k.out = out[0];
        k.errout = errout[0];
        fcntl(k.control, F_SETFL, O_NONBLOCK);
        fcntl(k.out, F_SETFL, O_NONBLOCK);
        fcntl(k.errout, F_SETFL, O_NONBLOCK);
        const int child_fds[3] = { control[1], out[1], errout[1] };
        struct zygote *z = &p->zygotes[spec->kind];
        r = ask_for_kernel(z, k.user, spec->pooled, child_fds, err);
        /*
         * Its group is made while it is being cloned; the answer is read in any case, or the next
         * one would be taken for it.
         */
        struct err why = ERR_INIT;
        int made = cgroup_create(&p->cgroups, &spec->limits, &k.group, &why);
        if (made == 0)
            made = send_groups(&k, &why);
        if (r == 0)
            r = receive_kernel(z, &k, err);
        if (r == 0 && made < 0) {
            *err = why;
            r = made;
        }
        k.shared_kb = z->anon_kb;
        k.generation = z->generation;
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
        kernel_kill(p, &k);
        return r;
    }
    *ret = k;
    return 0;
}

int kernel_spawn(struct local *p, const struct spawn_spec *spec, struct kernel_proc *ret,
                 unsigned *starts, struct err *err)
{
    pthread_mutex_lock(&p->zygotes[spec->kind].lock);
    int r = zygote_ensure(p, spec->kind, starts, err);
    if (r == 0)
        r = spawn_once(p, spec, ret, err);
    /*
     * The zygote has died, or hangs: once more with a new one, and with a socket of its own. The
     * old one may have cloned before it ended; that kernel finds its socket closed and ends. A
     * zygote that only says that it cannot clone now is kept.
     */
    struct zygote *z = &p->zygotes[spec->kind];
    if (r < 0 && z->lost) {
        r = zygote_start(p, spec->kind, starts, err);
        if (r == 0)
            r = spawn_once(p, spec, ret, err);
        if (r < 0 && z->lost)
            zygote_stop(z); /* the next one who asks gets a new one */
    }
    pthread_mutex_unlock(&z->lock);
    return r;
}

int zygote_revive(struct local *p, enum run_kind kind, unsigned *starts, struct err *err)
{
    pthread_mutex_lock(&p->zygotes[kind].lock);
    int r = zygote_ensure(p, kind, starts, err);
    pthread_mutex_unlock(&p->zygotes[kind].lock);
    return r;
}

/* ---- bases of images ---- */

static int ask_for_base(struct zygote *z, int fd, struct err *err)
{
    struct zygote_record rec;
    size_t n_fds = 0;
    int r = zygote_send(z->sock, ZYGOTE_BASE, 0, 0, &fd, 1, err);
    if (r == 0)
        r = wait_record(z, BASE_MS, &rec, NULL, 0, &n_fds, err);
    if (r == 0 && (rec.op != ZYGOTE_BASED || rec.status != 0))
        r = err_set(err, ERR_UNAVAILABLE, "the zygote cannot write its memory to a file");
    if (r == 0 && fdatasync(fd) < 0)
        r = err_errno(err, ERR_IO, errno, "writing the base of images");
    return r;
}

static int make_base(struct local *p, struct zygote *z, struct err *err)
{
    char path[4300], partial[4320], id[IMAGE_BASE_ID_SIZE];
    snprintf(id, sizeof(id), "%s", z->base_key);
    id_hex(id + strlen(id), sizeof(id) - 1 - strlen(id));
    base_path(p, id, path);
    snprintf(partial, sizeof(partial), "%s.partial", path);
    auto_close int fd = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "making the base of images");
    int r = ask_for_base(z, fd, err);
    if (r == 0 && rename(partial, path) < 0)
        r = err_errno(err, ERR_IO, errno, "making the base of images");
    if (r < 0)
        unlink(partial);
    else
        memcpy(z->base_id, id, sizeof(id));
    return r;
}

int zygote_base(struct local *p, enum run_kind kind, unsigned generation,
                char ret_id[IMAGE_BASE_ID_SIZE], struct err *err)
{
    struct zygote *z = &p->zygotes[kind];
    int r = 0;
    pthread_mutex_lock(&z->lock);
    if (z->pid <= 0 || !z->greeted || z->generation != generation)
        r = err_set(err, ERR_CONFLICT, "the fork server of this kernel is gone");
    else if (!z->base_id[0])
        r = make_base(p, z, err);
    if (r == 0)
        memcpy(ret_id, z->base_id, IMAGE_BASE_ID_SIZE);
    pthread_mutex_unlock(&z->lock);
    return r;
}
