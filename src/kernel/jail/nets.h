#ifndef RIDDLE_KERNEL_JAIL_NETS_H
#define RIDDLE_KERNEL_JAIL_NETS_H

/*
 * Network namespaces of kernels, kept by the zygote. Making one and taking it down costs a
 * millisecond of processor time, so a namespace whose kernel has ended is given to a later one. A
 * kernel is the first process of its pid namespace: when its pidfd says that it is gone, every
 * process in there is, and with them all sockets. No kernel has a right over its network
 * namespace, so nothing else in it can have changed. Two kernels never have the same one at a
 * time.
 *
 * The zygote moves into the namespace, clones the kernel there, and goes home.
 */

#include "base/err.h"

#define NETS_MAX 64

struct nets {
    int home;    /* the zygote's own, -1: it has none yet */
    int current; /* the zygote is in this one of the table; -1: at home */
    int n;
    struct {
        int ns;
        int kernel; /* pidfd of the one that has it; -1: free */
    } table[NETS_MAX];
};

void nets_init(struct nets *nets);
/* Makes one if none is free: while nobody waits. */
void nets_make_ahead(struct nets *nets);
/* Before the clone. Best effort: at home still, CLONE_NEWNET has to make one. */
void nets_enter(struct nets *nets);
/*
 * After it: goes home. -1 for pidfd: there is no kernel. If this fails, the zygote must not go on.
 */
int nets_leave(struct nets *nets, int pidfd, struct err *err);

#endif
