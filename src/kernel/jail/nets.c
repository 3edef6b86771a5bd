/*
 * Nothing here writes to memory other than the caller's: a zygote shares the rest with its
 * kernels.
 */

#include "kernel/jail/nets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define OWN_NET "/host/proc/self/ns/net"

void nets_init(struct nets *nets)
{
    nets->home = nets->current = -1;
    nets->n = 0;
}

/* Frees what ended kernels had. Returns a free one, or -1. */
static int find_free(struct nets *nets)
{
    struct pollfd kernels[NETS_MAX];
    int found = -1;
    for (int i = 0; i < nets->n; i++) {
        if (nets->table[i].kernel < 0)
            return i;
        kernels[i] = (struct pollfd){ .fd = nets->table[i].kernel, .events = POLLIN };
    }
    if (poll(kernels, (nfds_t)nets->n, 0) <= 0)
        return -1;
    for (int i = 0; i < nets->n; i++)
        if (kernels[i].revents & POLLIN) {
            close(nets->table[i].kernel);
            nets->table[i].kernel = -1;
            found = i;
        }
    return found;
}

static bool have_home(struct nets *nets)
{
    if (nets->home < 0 && unshare(CLONE_NEWNET) == 0)
        nets->home = open(OWN_NET, O_RDONLY | O_CLOEXEC);
    return nets->home >= 0;
}

/* Makes one and is in it then. */
static int make(struct nets *nets)
{
    struct stat home, made;
    if (nets->n == NETS_MAX || !have_home(nets) || unshare(CLONE_NEWNET) < 0)
        return -1;
    int ns = open(OWN_NET, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || fstat(nets->home, &home) < 0 || fstat(ns, &made) < 0 ||
        home.st_ino == made.st_ino) {
        if (ns >= 0)
            close(ns);
        (void)setns(nets->home, CLONE_NEWNET);
        return -1;
    }
    nets->table[nets->n].ns = ns;
    nets->table[nets->n].kernel = -1;
    return nets->n++;
}

void nets_make_ahead(struct nets *nets)
{
    if (find_free(nets) < 0 && make(nets) >= 0)
        (void)setns(nets->home, CLONE_NEWNET);
}

void nets_enter(struct nets *nets)
{
    int i = find_free(nets);
    if (i < 0)
        i = make(nets);
    else if (setns(nets->table[i].ns, CLONE_NEWNET) < 0)
        i = -1;
    nets->current = i;
}

int nets_leave(struct nets *nets, int pidfd, struct err *err)
{
    int i = nets->current;
    if (i < 0)
        return 0;
    nets->current = -1;
    if (setns(nets->home, CLONE_NEWNET) < 0)
        return err_errno(err, ERR_ISOLATION, errno, "jail: leaving a kernel's network namespace");
    if (pidfd < 0)
        return 0;
    nets->table[i].kernel = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
    if (nets->table[i].kernel >= 0)
        return 0;
    /* Nobody would know when it is free. */
    close(nets->table[i].ns);
    nets->table[i] = nets->table[--nets->n];
    return 0;
}
