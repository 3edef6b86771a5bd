#ifndef RIDDLE_KERNEL_JAIL_SYSCALLS_H
#define RIDDLE_KERNEL_JAIL_SYSCALLS_H

/*
 * Every raw system call of riddle-kernel, where glibc 2.36 has no wrapper (or one that does too
 * much).
 */

#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* PAGEMAP_SCAN, _IOWR('f', 16, struct pm_scan_arg): Linux 6.7. */
#define IOCTL_PAGEMAP_SCAN 0xc0606610u

static inline long sys_clone3(struct clone_args *args, size_t size)
{
    return syscall(SYS_clone3, args, size);
}

/* On the caller's stack, as fork. x86-64 has the thread id before the TLS. */
static inline long sys_clone(uint64_t flags, int *ret_pidfd, void *child_tid)
{
    return syscall(SYS_clone, flags, NULL, ret_pidfd, child_tid, NULL);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_seccomp(unsigned int op, unsigned int flags, void *args)
{
    return (int)syscall(SYS_seccomp, op, flags, args);
}

#endif
