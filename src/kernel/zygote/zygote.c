/*
 * The fork server. Everything slow happens once, before the hello: CPython, its packages and DuckDB
 * are loaded and warmed, the collector is frozen, and the process confines itself. From then on it
 * only waits for records and calls clone3, with nothing but its stack: every other page stays
 * shared with its kernels and equal to what it was at the hello.
 *
 * Kernels are siblings, not children (CLONE_PARENT): riddle reaps them, and they outlive a zygote
 * that dies.
 */

#include "kernel/zygote/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include "base/proc.h"
#include "kernel/image/image.h"
#include "kernel/jail/jail.h"
#include "kernel/kernel.h"
#include "kernel/python/python.h"
#include "kernel/sql/sql.h"
#include "kernel/jail/syscalls.h"
#include "kernel/zygote/arenas.h"
#include "kernel/zygote/hot_pages.h"
#include "kernel/zygote/memory.h"
#include "sandbox/wire.h"

#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

#define IDLE_MS 3

/* False if the benchmarks have switched this off, to see what it buys. */
static bool does(const struct zygote_options *opt, const char *what)
{
    return !opt->one_shot && !(opt->without && strstr(opt->without, what));
}

/* Asks riddle, which is root, to write our id maps, and waits until it has. */
static int ask_for_maps(void *arg, struct err *err)
{
    int sock = *(int *)arg;
    int r = zygote_send(sock, ZYGOTE_MAP, getpid(), 0, NULL, 0, err);
    if (r < 0)
        return r;
    struct zygote_record rec;
    int fds[1];
    size_t n_fds = 0;
    r = zygote_recv(sock, &rec, fds, 1, &n_fds, err);
    if (r < 0)
        return r;
    if (rec.op != ZYGOTE_MAPPED || rec.status != 0)
        return err_errno(err, ERR_ISOLATION, rec.status, "mapping the zygote's user id");
    return 0;
}

/*
 * fork(2) with namespaces. glibc keeps the thread id in the thread's descriptor and would refresh
 * it in fork(); the kernel knows where that is, and is asked to refresh it instead.
 */
static pid_t clone_kernel(uint64_t flags, int *ret_pidfd)
{
    uint64_t tid_address = 0;
    if (prctl(PR_GET_TID_ADDRESS, &tid_address, 0, 0, 0) < 0)
        tid_address = 0;
    int pidfd = -1;
    struct clone_args args = {
        .flags = flags | CLONE_PARENT | CLONE_PIDFD |
                 (tid_address ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0),
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .child_tid = tid_address,
    };
    long pid = sys_clone3(&args, sizeof(args));
    /* Filters of containers refuse clone3 so; without namespaces the older call does as well. */
    if (pid < 0 && errno == ENOSYS && !flags)
        pid = sys_clone(args.flags | SIGCHLD, &pidfd, (void *)(uintptr_t)tid_address);
    if (pid > 0)
        *ret_pidfd = pidfd;
    return (pid_t)pid;
}

static int serve_spawn(const struct zygote_options *opt, const struct kernel_parts *parts,
                       unsigned user, bool pooled, const int fds[3], struct err *err)
{
    struct nets *nets = &parts->jail->nets;
    int pidfd = -1;
    if (parts->jail->namespaces && does(opt, "nets"))
        nets_enter(nets);
    int r = jail_become(parts->jail, user, err);
    if (r < 0)
        return r;
    pid_t pid = clone_kernel(jail_clone_flags(parts->jail), &pidfd);
    if (pid == 0) {
        struct kernel_parts mine = *parts;
        mine.pooled = pooled;
        close(opt->sock);
        kernel_main(&mine, fds[0], fds[1], fds[2]);
    }
    int status = pid < 0 ? errno : 0;
    r = jail_become_zygote(parts->jail, err);
    if (r == 0)
        r = nets_leave(nets, pidfd, err);
    if (r < 0)
        return r;
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    r = zygote_send(opt->sock, ZYGOTE_SPAWNED, pid, status, &pidfd, pid < 0 ? 0 : 1, err);
    if (pidfd >= 0)
        close(pidfd);
    return r;
}

/* Writes this process to the file, as the base of images. 1 in a process that was made from it. */
static int serve_base(int sock, int fd, struct err *err)
{
    struct err why = ERR_INIT;
    int r = image_write_base(fd, &why);
    if (r == IMAGE_RESTORED)
        return 1;
    close(fd);
    return zygote_send(sock, ZYGOTE_BASED, 0, r < 0 ? 1 : 0, NULL, 0, err);
}

int zygote_load_parts(const struct zygote_options *opt, struct kernel_parts *parts, struct err *err)
{
    int r = sql_engine_create(&parts->engine, err);
    if (r == 0 && !opt->one_shot)
        r = sql_engine_warm(parts->engine, err);
    if (r < 0)
        return err_wrap(err, "loading DuckDB");
    if (!opt->python)
        return 0;
    if (does(opt, "arenas"))
        arenas_install();
    r = python_init(opt->preload, parts->engine, err);
    if (r < 0)
        return err_wrap(err, "loading Python");
    r = opt->one_shot ? python_settle(err) : python_warm(err);
    if (r < 0)
        return err_wrap(err, "warming Python");
    parts->has_python = true;
    return opt->one_shot ? 0 : python_note_sources(err);
}

static void arrange_memory(const struct zygote_options *opt)
{
    if (!opt->one_shot)
        memory_fill_gaps();
    if (does(opt, "join"))
        memory_join_libraries();
    if (does(opt, "arenas"))
        memory_collapse();
}

struct rehearsal {
    struct kernel_parts parts;
    int control; /* the kernel's end; its requests are there already */
};

static void rehearse_kernel(void *arg)
{
    struct rehearsal *r = arg;
    kernel_main(&r->parts, r->control, 1, 1); /* the zygote's own output goes nowhere */
}

#define REHEARSED_CELLS 2

static void rehearsed_cell(void)
{
    static int n;
    if (++n == REHEARSED_CELLS)
        hot_pages_rehearsed();
}

static int send_cell(int sock, uint32_t id, const char *code, bool restricted, struct err *err)
{
    auto_json json_t *exec = json_pack("{s:s, s:s, s:b, s:b, s:i, s:i}", "kind", "python", "code",
                                       code, "restricted", restricted, "svg", 0, "max_rows", 200,
                                       "max_bytes", 65536);
    return wire_send_json(sock, WIRE_EXEC, id, exec, NULL, 0, err);
}

/*
 * The requests of a kernel's life up to its first answers. A kernel for an agent uses what others
 * use, and more.
 */
static int send_first_requests(int sock, struct err *err)
{
    static const struct wire_start start = {
        .memory_bytes = 512 << 20,
        .workspace_bytes = 64 << 20,
        .tmp_bytes = 64 << 20,
        .inodes = 4096,
        .file_bytes = 64 << 20,
        .pids = 64,
        .open_files = 256,
        .threads = 1,
        .agent = true,
        .debugging = true,
        .python_allowed = "=json,datetime,math,random,re,asyncio,"
                          "collections,itertools,typing,pandas,numpy"
    };
    auto_json json_t *join = json_pack("{s:i}", "groups", 0), *body = wire_start_body(&start);
    int r = wire_send_json(sock, WIRE_JOIN, 0, join, NULL, 0, err);
    if (r == 0)
        r = wire_send_json(sock, WIRE_START, 0, body, NULL, 0, err);
    if (r == 0)
        r = send_cell(sock, 1, python_first_cell(), false, err);
    return r < 0 ? r : send_cell(sock, 2, "1 + 1", true, err);
}

/* The pages that kernels use are learnt from one that lives, in a jail, up to its first answers. */
static void learn_hot_pages(const struct kernel_parts *parts)
{
    int control[2];
    struct err err = ERR_INIT;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) < 0)
        return;
    int r = send_first_requests(control[0], &err);
    struct rehearsal rehearsal = { .parts = *parts, .control = control[1] };
    rehearsal.parts.answered = rehearsed_cell;
    struct hot_rehearsal hot = {
        .run = rehearse_kernel,
        .arg = &rehearsal,
        .clone_flags = jail_clone_flags(parts->jail),
    };
    if (r == 0)
        hot_pages_learn(&hot);
    close(control[0]);
    close(control[1]);
}

/* Confines itself and serves. 1 in a process that was made from the base of this one. */
static int serve(const struct zygote_options *opt, struct kernel_parts *parts,
                 enum zygote_made made, struct err *err)
{
    struct jail_template *jail = parts->jail;
    int sock = opt->sock;
    struct jail_confine_options confine = {
        .partial = opt->partial,
        .parent_maps = opt->parent_maps,
        .again = made == ZYGOTE_FROM_BASE,
        .write_maps = ask_for_maps,
        .arg = &sock,
    };
    int r = jail_confine(jail, &confine, err);
    if (r < 0)
        return r;
    /* Again, because the change of credentials cleared it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    prctl(PR_SET_NAME, opt->python ? "riddle-zygote-p" : "riddle-zygote-s", 0, 0, 0);
    if (made == ZYGOTE_FROM_BASE)
        image_note_changes(); /* the pages that kernels use are known */
    else if (parts->has_python && does(opt, "hot"))
        learn_hot_pages(parts);
    r = zygote_send(sock, ZYGOTE_HELLO, getpid(), (int)made, NULL, 0, err);

    while (r == 0) {
        struct pollfd pfd = { .fd = sock, .events = POLLIN };
        /* Not at once: what it locks, the kernel that was just cloned wants too. */
        if (jail->namespaces && does(opt, "nets") && poll(&pfd, 1, IDLE_MS) == 0)
            nets_make_ahead(&jail->nets);
        struct zygote_record rec;
        int fds[3];
        size_t n_fds = 0;
        r = zygote_recv(sock, &rec, fds, 3, &n_fds, err);
        if (r == -ERR_UNAVAILABLE)
            return 0; /* riddle is gone */
        if (r < 0)
            break;
        if (rec.op == ZYGOTE_BASE && n_fds == 1) {
            r = serve_base(sock, fds[0], err);
            continue;
        }
        if (rec.op != ZYGOTE_SPAWN || n_fds != 3)
            return err_set(err, ERR_PROTOCOL, "record %u with %zu descriptors is not permitted",
                           rec.op, n_fds);
        r = serve_spawn(opt, parts, (unsigned)rec.value, rec.status == 1, fds, err);
    }
    return r;
}

/* With modules of today instead of those that the base was made with. */
static int start_over(const struct zygote_options *opt, struct err *err)
{
    size_t n = 0;
    for (char **arg = opt->argv; *arg; arg++)
        if (strcmp(*arg, ZYGOTE_BASE_OPTION) != 0)
            opt->argv[n++] = *arg;
    opt->argv[n] = NULL;
    fprintf(stderr, "riddle-kernel: Python's modules are no longer what they were\n");
    execv("/proc/self/exe", opt->argv);
    return err_errno(err, ERR_UNAVAILABLE, errno, "starting riddle-kernel again");
}

int zygote_serve(const struct zygote_options *opt, struct err *err)
{
    struct jail_template jail = { 0 };
    struct kernel_parts parts = { .jail = &jail };
    struct err why = ERR_INIT;
    if (opt->base >= 0) {
        (void)image_become_base(opt->base, &why); /* it returns only if that cannot be */
        fprintf(stderr, "riddle-kernel: %s\n", why.message);
        close(opt->base);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a Ctrl-C at the terminal is riddle's to handle */
    int r = zygote_load_parts(opt, &parts, err);
    if (r < 0)
        return r;

    long long threads = proc_status_value(0, "Threads");
    if (threads > 1)
        return err_set(err, ERR_INTERNAL, "the zygote has %lld threads; it can only fork with one",
                       threads);
    arrange_memory(opt);
    r = serve(opt, &parts, why.code == ERR_VALIDATION ? ZYGOTE_BASE_DAMAGED : ZYGOTE_LOADED, err);
    if (r != 1)
        return r;
    /* Here, memory is that of the zygote that wrote the base, and everything else is new. */
    if (parts.has_python && python_sources_changed())
        return start_over(opt, err);
    if (does(opt, "arenas"))
        memory_collapse();
    r = serve(opt, &parts, ZYGOTE_FROM_BASE, err);
    return r == 1 ? err_set(err, ERR_INTERNAL, "a base of a base") : r;
}
