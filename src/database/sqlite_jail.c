/* The jail of the worker of SQLite; see sqlite_jail.h. */

#include "database/sqlite_jail.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/landlock.h"
#include "base/macros.h"

#ifdef __x86_64__
#define OUR_ARCH AUDIT_ARCH_X86_64
#else
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

/* ---- system calls ---- */

/* All others answer EPERM, which SQLite and C's library tell as an error of the file. */
static const int allowed[] = {
    /* the pipes to riddle, and files */
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_openat,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fcntl,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_ftruncate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_unlinkat,
    SYS_fchmod,
    SYS_fchown,
#ifdef SYS_open
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
#endif
    /* memory */
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    /* time, and waiting for a lock */
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_futex,
#ifdef SYS_time
    SYS_time,
#endif
    /* itself */
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_sched_yield,
};

static int filter_calls(struct err *err)
{
    struct sock_filter code[ARRAY_SIZE(allowed) + 8];
    size_t n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i],
                                                 (unsigned char)(ARRAY_SIZE(allowed) - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
                                             SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA));
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = (unsigned short)n, .filter = code };
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "filtering system calls");
    if (syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) >= 0)
        return err_set(err, ERR_ISOLATION, "the filter of system calls does not hold");
    return 0;
}

/* ---- files ---- */

static int limit_files(const char *path, bool writable, struct err *err)
{
    char directory[4096];
    snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    if (!slash)
        return err_set(err, ERR_ISOLATION, "the path of the file is not absolute");
    slash[slash == directory] = '\0';
    const struct landlock_path paths[] = { { directory, writable }, { "/dev/urandom", false } };
    return landlock_abi() > 0 ? landlock_apply(paths, ARRAY_SIZE(paths), err) : 0;
}

/* ---- rights ---- */

/* As root: those that open a file of somebody else's, which is how operators give them. */
static int drop_capabilities(bool writable, struct err *err)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };
    if (syscall(SYS_capget, &head, data) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "reading capabilities");
    unsigned kept = 1u << CAP_DAC_READ_SEARCH | (writable ? 1u << CAP_DAC_OVERRIDE : 0);
    data[0].effective = data[0].permitted = data[0].permitted & kept;
    data[1].effective = data[1].permitted = 0;
    data[0].inheritable = data[1].inheritable = 0;
    if (syscall(SYS_capset, &head, data) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "giving up capabilities");
    return 0;
}

int sqlite_jail(const char *path, bool writable, struct err *err)
{
    struct rlimit files = { 16, 16 }, none = { 0, 0 };
    tzset(); /* reads its file while it can */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "no_new_privs");
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_NPROC, &none) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "setting limits");
    int r = limit_files(path, writable, err);
    if (r == 0)
        r = drop_capabilities(writable, err);
    return r == 0 ? filter_calls(err) : r;
}
