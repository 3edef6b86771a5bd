/*
 * The system-call policy, as data. Three answers: allowed; an errno for what libraries probe and
 * can do without; and for everything else, named here or not, the process is killed with SIGSYS.
 * New system calls are therefore refused.
 *
 * It is installed in two parts. Checking and translating a long filter takes Linux longer than any
 * other step of the jail, so the zygote installs the long one, once, on itself: kernels inherit it.
 * It allows what the zygote and the steps of the jail need besides. The short one answers those
 * calls as the policy does, and is a kernel's last step. Of two answers Linux takes the stricter.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "kernel/jail/jail.h"
#include "kernel/jail/syscalls.h"

#define SC(name) SCMP_SYS(name)

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system-call filter does not know this processor"
#endif

static const int allowed[] = {
    /* memory */
    SC(brk),
    SC(mmap),
    SC(munmap),
    SC(mremap),
    SC(mprotect),
    SC(madvise),
    SC(mincore),
    SC(msync),
    SC(mlock),
    SC(munlock),
    SC(membarrier),
    /* files: what can be reached is decided by the mount namespace and Landlock */
    SC(read),
    SC(write),
    SC(readv),
    SC(writev),
    SC(pread64),
    SC(pwrite64),
    SC(preadv),
    SC(pwritev),
    SC(preadv2),
    SC(pwritev2),
    SC(open),
    SC(openat),
    SC(creat),
    SC(close),
    SC(close_range),
    SC(lseek),
    SC(stat),
    SC(fstat),
    SC(lstat),
    SC(newfstatat),
    SC(statx),
    SC(access),
    SC(faccessat),
    SC(faccessat2),
    SC(readlink),
    SC(readlinkat),
    SC(getdents),
    SC(getdents64),
    SC(getcwd),
    SC(chdir),
    SC(fchdir),
    SC(rename),
    SC(renameat),
    SC(renameat2),
    SC(mkdir),
    SC(mkdirat),
    SC(rmdir),
    SC(unlink),
    SC(unlinkat),
    SC(link),
    SC(linkat),
    SC(symlink),
    SC(symlinkat),
    SC(chmod),
    SC(fchmod),
    SC(fchmodat),
    SC(utime),
    SC(utimes),
    SC(utimensat),
    SC(futimesat),
    SC(truncate),
    SC(ftruncate),
    SC(fallocate),
    SC(fsync),
    SC(fdatasync),
    SC(sync_file_range),
    SC(copy_file_range),
    SC(sendfile),
    SC(umask),
    SC(dup),
    SC(dup2),
    SC(dup3),
    SC(fcntl),
    SC(flock),
    SC(pipe),
    SC(pipe2),
    SC(statfs),
    SC(fstatfs),
    SC(fadvise64),
    SC(readahead),
    /* processes and threads: only this pid namespace can be seen or signalled */
    SC(fork),
    SC(vfork),
    SC(exit),
    SC(exit_group),
    SC(wait4),
    SC(waitid),
    SC(getpid),
    SC(getppid),
    SC(gettid),
    SC(getpgid),
    SC(getpgrp),
    SC(setpgid),
    SC(getsid),
    SC(setsid),
    SC(kill),
    SC(tkill),
    SC(tgkill),
    SC(getuid),
    SC(geteuid),
    SC(getgid),
    SC(getegid),
    SC(getresuid),
    SC(getresgid),
    SC(getgroups),
    SC(set_tid_address),
    SC(set_robust_list),
    SC(get_robust_list),
    SC(rseq),
    SC(futex),
    SC(futex_waitv),
    SC(arch_prctl),
    SC(sched_yield),
    SC(sched_getaffinity),
    SC(sched_getparam),
    SC(sched_getscheduler),
    SC(sched_get_priority_max),
    SC(sched_get_priority_min),
    SC(getpriority),
    SC(getrusage),
    SC(getrlimit),
    SC(setrlimit),
    SC(prlimit64),
    SC(capget),
    SC(pidfd_open),
    SC(pidfd_send_signal),
    /* signals and time */
    SC(rt_sigaction),
    SC(rt_sigprocmask),
    SC(rt_sigreturn),
    SC(rt_sigpending),
    SC(rt_sigtimedwait),
    SC(rt_sigsuspend),
    SC(rt_sigqueueinfo),
    SC(rt_tgsigqueueinfo),
    SC(sigaltstack),
    SC(restart_syscall),
    SC(pause),
    SC(alarm),
    SC(setitimer),
    SC(getitimer),
    SC(timer_create),
    SC(timer_settime),
    SC(timer_gettime),
    SC(timer_getoverrun),
    SC(timer_delete),
    SC(timerfd_create),
    SC(timerfd_settime),
    SC(timerfd_gettime),
    SC(nanosleep),
    SC(clock_nanosleep),
    SC(clock_gettime),
    SC(clock_getres),
    SC(gettimeofday),
    SC(time),
    SC(times),
    /* waiting */
    SC(poll),
    SC(ppoll),
    SC(select),
    SC(pselect6),
    SC(epoll_create),
    SC(epoll_create1),
    SC(epoll_ctl),
    SC(epoll_wait),
    SC(epoll_pwait),
    SC(epoll_pwait2),
    SC(eventfd),
    SC(eventfd2),
    SC(signalfd),
    SC(signalfd4),
    /* sockets: only AF_UNIX ones can be made (below), within an empty network namespace */
    SC(bind),
    SC(connect),
    SC(listen),
    SC(accept),
    SC(accept4),
    SC(getsockname),
    SC(getpeername),
    SC(sendto),
    SC(recvfrom),
    SC(sendmsg),
    SC(recvmsg),
    SC(sendmmsg),
    SC(recvmmsg),
    SC(shutdown),
    SC(getsockopt),
    SC(setsockopt),
    /* the machine */
    SC(uname),
    SC(sysinfo),
    SC(getrandom),
    SC(getcpu),
};

/* Probed by libraries (or tried by ordinary programs), which take the errno and go on. */
static const struct {
    int errnum;
    int nr[40];
} refused[] = {
    { ENOSYS,
      { SC(clone3),
        SC(openat2),
        SC(io_uring_setup),
        SC(io_uring_enter),
        SC(io_uring_register),
        SC(mbind),
        SC(set_mempolicy),
        SC(get_mempolicy),
        SC(migrate_pages),
        SC(move_pages),
        SC(pkey_alloc),
        SC(pkey_free),
        SC(pkey_mprotect),
        SC(inotify_init),
        SC(inotify_init1),
        SC(inotify_add_watch),
        SC(mq_open),
        SC(shmget),
        SC(shmat),
        SC(shmctl),
        SC(shmdt),
        SC(semget),
        SC(semop),
        SC(semctl),
        SC(msgget),
        SC(msgsnd),
        SC(msgrcv),
        SC(landlock_create_ruleset),
        SC(landlock_add_rule),
        SC(landlock_restrict_self),
        452 /* fchmodat2 */,
        451 /* cachestat */,
        -1 } },
    { EPERM,
      { SC(memfd_create),
        SC(memfd_secret),
        SC(mlock2),
        SC(mlockall),
        SC(mknod),
        SC(mknodat),
        SC(chown),
        SC(fchown),
        SC(lchown),
        SC(fchownat),
        SC(setuid),
        SC(setgid),
        SC(setreuid),
        SC(setregid),
        SC(setresuid),
        SC(setresgid),
        SC(setgroups),
        SC(setfsuid),
        SC(setfsgid),
        SC(capset),
        SC(sched_setaffinity),
        SC(sched_setscheduler),
        SC(sched_setparam),
        SC(sched_setattr),
        SC(sched_getattr),
        SC(setpriority),
        SC(ioprio_set),
        SC(ioprio_get),
        SC(sethostname),
        SC(setdomainname),
        SC(seccomp),
        SC(chroot),
        SC(syslog),
        SC(personality),
        SC(kcmp),
        -1 } },
    { EOPNOTSUPP,
      { SC(getxattr), SC(lgetxattr), SC(fgetxattr), SC(setxattr), SC(lsetxattr), SC(fsetxattr),
        SC(listxattr), SC(llistxattr), SC(flistxattr), SC(removexattr), SC(lremovexattr),
        SC(fremovexattr), SC(name_to_handle_at), SC(splice), SC(tee), SC(vmsplice), -1 } },
    /*
     * There is no program to run in the jail; "permission denied" is what subprocess callers
     * handle.
     */
    { EACCES, { SC(execve), SC(execveat), -1 } },
};

/*
 * Calls that are judged by an argument. libseccomp cannot say "these values are allowed, any other
 * gets this errno" when its default is to kill, so these few are decided by a prelude that runs
 * before its program. All of these arguments are 32-bit.
 */
#define ZERO UINT32_MAX
static const struct arg_rule {
    int nr;
    unsigned int arg;
    int errnum;          /* for every other value */
    uint32_t forbidden;  /* bits that must be clear; 0: `values` decides */
    uint32_t values[14]; /* allowed, 0-terminated; ZERO stands for 0 */
} by_argument[] = {
    /* threads and forks, but no new namespace (0x80: CLONE_NEWTIME) */
    { SC(clone),
      0,
      EPERM,
      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
          CLONE_NEWCGROUP | 0x80,
      { 0 } },
    { SC(socket), 0, EACCES, 0, { AF_UNIX } },
    { SC(socketpair), 0, EACCES, 0, { AF_UNIX } },
    /*
     * terminal and pipe questions, and which of the process's own pages are there; any other is
     * answered as by a file that is no terminal
     */
    { SC(ioctl),
      1,
      ENOTTY,
      0,
      { TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, FIOASYNC, IOCTL_PAGEMAP_SCAN } },
    /* not leases, notices, owners or signals: those reach whoever else has the file open */
    { SC(fcntl),
      1,
      EINVAL,
      0,
      { F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK,
        F_OFD_SETLKW, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, ZERO /* F_DUPFD */ } },
    /* not RLIMIT_CORE: at 1 no handler of dumps is started, at 0 one would be */
    { SC(prlimit64),
      1,
      EPERM,
      0,
      { RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE,
        RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO,
        RLIMIT_RTTIME, ZERO /* RLIMIT_CPU */ } },
    { SC(setrlimit),
      0,
      EPERM,
      0,
      { RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_RSS, RLIMIT_NPROC, RLIMIT_NOFILE,
        RLIMIT_MEMLOCK, RLIMIT_AS, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_RTPRIO,
        RLIMIT_RTTIME, ZERO } },
    /* not PR_SET_PDEATHSIG: a kernel that clears it would outlive riddle */
    { SC(prctl),
      0,
      EPERM,
      0,
      { PR_SET_NAME, PR_GET_NAME, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_CAPBSET_READ,
        PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_GET_SECUREBITS, PR_SET_TIMERSLACK,
        PR_GET_TIMERSLACK } },
};

/*
 * What a zygote needs to make kernels, and a kernel to close its jail: judged by the last filter
 * only.
 */
static const int until_closed[] = {
    /* kernels and their namespaces */
    SC(clone3),
    SC(setns),
    SC(unshare),
    SC(sethostname),
    SC(io_uring_register),
    /* the tree */
    SC(mount),
    SC(umount2),
    SC(pivot_root),
    SC(open_tree),
    SC(move_mount),
    SC(mount_setattr),
    SC(chroot),
    /* the id that the next kernel shall have */
    SC(setresuid),
    /* looking at the network, and the layers themselves */
    SC(socket),
    SC(ioctl),
    SC(prctl),
    SC(capset),
    SC(landlock_create_ruleset),
    SC(landlock_add_rule),
    SC(landlock_restrict_self),
    SC(seccomp),
    /* limits, and the owner of the control socket's signals */
    SC(prlimit64),
    SC(setrlimit),
    SC(fcntl),
};

static bool is_until_closed(int nr)
{
    for (size_t i = 0; i < ARRAY_SIZE(until_closed); i++)
        if (until_closed[i] == nr)
            return true;
    return false;
}

/* Enough for every rule by argument and every call that is judged last. */
#define HAND_MADE_MAX                                                                              \
    (4 + ARRAY_SIZE(by_argument) * (4 + 2 * ARRAY_SIZE(by_argument[0].values)) +                   \
     2 * ARRAY_SIZE(until_closed))

/*
 * The calls that are judged by an argument in this filter. The program goes on behind it with the
 * call's number in the accumulator.
 */
static size_t build_by_argument(struct sock_filter *code, bool last)
{
    size_t n = 0;
    const unsigned int allow = SECCOMP_RET_ALLOW;
    /*
     * A foreign architecture is left to libseccomp's program, which kills it; its jump is filled in
     * at the end.
     */
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, arch));
    size_t arch_jump = n++;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_SIZE(by_argument); i++) {
        const struct arg_rule *rule = &by_argument[i];
        if (is_until_closed(rule->nr) != last)
            continue;
        size_t skip = n++;
        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                 (unsigned)offsetof(struct seccomp_data, args) +
                                                     8 * rule->arg);
        if (rule->forbidden) {
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, rule->forbidden, 1,
                                                     0);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allow);
        }
        for (size_t k = 0; k < ARRAY_SIZE(rule->values) && rule->values[k]; k++) {
            uint32_t value = rule->values[k] == ZERO ? 0 : rule->values[k];
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, allow);
        }
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                                 SECCOMP_RET_ERRNO | (unsigned)rule->errnum);
        /* The accumulator still holds the call's number when the block is jumped over. */
        code[skip] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)rule->nr, 0,
                                                  (unsigned char)(n - skip - 1));
    }
    code[arch_jump] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 0,
                                                   (unsigned char)(n - arch_jump - 1));
    return n;
}

/* Everything that is not until_closed is allowed: the first filter has judged it. */
static size_t build_last(struct sock_filter *code)
{
    size_t n = build_by_argument(code, true);
    for (size_t i = 0; i < ARRAY_SIZE(until_closed); i++) {
        unsigned int answer = SECCOMP_RET_KILL_PROCESS;
        for (size_t k = 0; k < ARRAY_SIZE(refused); k++)
            for (size_t m = 0; m < ARRAY_SIZE(refused[k].nr) && refused[k].nr[m] != -1; m++)
                if (refused[k].nr[m] == until_closed[i])
                    answer = SECCOMP_RET_ERRNO | (unsigned)refused[k].errnum;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)until_closed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return n;
}

static int allow_all(scmp_filter_ctx ctx, const int *calls, size_t n)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        if (calls[i] >= 0) /* below zero: libseccomp has no number for it on this machine */
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
    return r;
}

static int add_rules(scmp_filter_ctx ctx)
{
    int r = allow_all(ctx, allowed, ARRAY_SIZE(allowed));
    if (r == 0)
        r = allow_all(ctx, until_closed, ARRAY_SIZE(until_closed));
    for (size_t i = 0; i < ARRAY_SIZE(refused) && r == 0; i++)
        for (size_t k = 0; k < ARRAY_SIZE(refused[i].nr) && refused[i].nr[k] != -1 && r == 0; k++)
            if (refused[i].nr[k] >= 0 && !is_until_closed(refused[i].nr[k]))
                r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)refused[i].errnum),
                                     refused[i].nr[k], 0);
    return r;
}

/* libseccomp's program behind the part made by hand. */
static int compile_first(struct sock_fprog *ret, struct err *err)
{
    /* libseccomp asks whether the system knows an action; gVisor cannot answer. Corrected below. */
    uint32_t kill = SCMP_ACT_KILL_PROCESS;
    scmp_filter_ctx ctx = seccomp_init(kill);
    if (!ctx)
        ctx = seccomp_init(kill = SCMP_ACT_KILL_THREAD);
    if (!ctx)
        return err_set(err, ERR_NO_MEMORY, "seccomp: out of memory");
    /* Binary tree instead of a list: a filtered call costs a few comparisons, not a hundred. */
    (void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, kill);
    if (r == 0)
        r = add_rules(ctx);
    if (r < 0) {
        seccomp_release(ctx);
        return err_errno(err, ERR_INTERNAL, -r, "seccomp: building the filter");
    }

    auto_close int fd = memfd_create("riddle-seccomp", MFD_CLOEXEC);
    if (fd < 0 || (r = seccomp_export_bpf(ctx, fd)) < 0) {
        seccomp_release(ctx);
        return err_errno(err, ERR_INTERNAL, fd < 0 ? errno : -r, "seccomp: exporting the filter");
    }
    seccomp_release(ctx);
    off_t size = lseek(fd, 0, SEEK_END);
    if (size <= 0)
        return err_set(err, ERR_INTERNAL, "seccomp: the exported filter is empty");
    size_t main_len = (size_t)size / sizeof(struct sock_filter);
    struct sock_filter *code = calloc(HAND_MADE_MAX + main_len, sizeof(*code));
    if (!code)
        return err_set(err, ERR_NO_MEMORY, "seccomp: out of memory");
    size_t n = build_by_argument(code, false);
    if (pread(fd, code + n, (size_t)size, 0) != size) {
        free(code);
        return err_set(err, ERR_INTERNAL, "seccomp: reading the filter back");
    }
    for (size_t i = n; i < n + main_len; i++)
        if (code[i].code == (BPF_RET | BPF_K) && code[i].k == SECCOMP_RET_KILL_THREAD)
            code[i].k = SECCOMP_RET_KILL_PROCESS;
    *ret = (struct sock_fprog){ (unsigned short)(n + main_len), code };
    return 0;
}

int seccomp_compile(struct seccomp_filters *ret, struct err *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(until_closed); i++)
        if (until_closed[i] < 0) /* the first filter would kill who uses it */
            return err_set(
                err, ERR_INTERNAL,
                "seccomp: libseccomp has no number for a call that the jail is made with");
    struct sock_filter *last = calloc(HAND_MADE_MAX, sizeof(*last));
    if (!last)
        return err_set(err, ERR_NO_MEMORY, "seccomp: out of memory");
    int r = compile_first(&ret->first, err);
    if (r < 0) {
        free(last);
        return r;
    }
    ret->last = (struct sock_fprog){ (unsigned short)build_last(last), last };
    return 0;
}

void seccomp_finish(struct seccomp_filters *filters)
{
    free(filters->first.filter);
    free(filters->last.filter);
}

static int install(const struct sock_fprog *filter, struct err *err)
{
    if (sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, (void *)filter) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "installing the system-call filter");
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
        return err_set(err, ERR_ISOLATION, "the system-call filter is not in force");
    return 0;
}

int seccomp_apply_first(const struct seccomp_filters *filters, struct err *err)
{
    return install(&filters->first, err);
}

int seccomp_apply_last(const struct seccomp_filters *filters, struct err *err)
{
    int r = install(&filters->last, err);
    if (r < 0)
        return r;
    /* Verified by what they do: each by a call that only it refuses in this way. */
    errno = 0;
    if (syscall(SYS_mlockall, 0) == 0 || errno != EPERM) /* EINVAL without the first */
        return err_set(err, ERR_ISOLATION, "the system-call filter does not refuse mlockall");
    errno = 0;
    if (syscall(SYS_capset, NULL, NULL) == 0 || errno != EPERM) /* EFAULT without the last */
        return err_set(err, ERR_ISOLATION, "the system-call filter does not refuse capset");
    return 0;
}
