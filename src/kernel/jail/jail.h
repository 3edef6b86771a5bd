#ifndef RIDDLE_KERNEL_JAIL_JAIL_H
#define RIDDLE_KERNEL_JAIL_JAIL_H

/*
 * The jail: what makes a forked kernel harmless. SECURITY.md says what each layer is for.
 *
 * Three moments:
 *   jail_confine()    in the zygote, once, after everything is preloaded: own user and mount namespace, the host's tree moved to
 *                     /host, a template of the jail's root at /jail, most of the system-call filter.
 *   jail_box()        in a kernel, right after clone3: stage one, all that does not depend on what the kernel is for. A pooled kernel
 *                     waits here.
 *   jail_close()      in a kernel, once its specification is known: stage two, after which it cannot change anything about its box.
 *
 * Each stage is an ordered list of named steps; each step is verified after it is set, and the
 * first one that fails ends the kernel. With `partial` (RIDDLE_JAIL=partial) a layer that the
 * machine denies is left out and named.
 */

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "kernel/jail/nets.h"

#define JAIL_UID 1000 /* what a kernel sees itself as */
#define JAIL_NS_COUNT 7

/* Both are needed: seccomp.c says why there are two. */
struct seccomp_filters {
    struct sock_fprog first, last;
};

struct jail_template {
    bool partial;    /* go on without what the machine denies */
    bool namespaces; /* false: denied, and partial; or a container's are used */
    bool container;  /* a container's namespaces, root and groups stand for those of our own */
    struct nets nets;
    struct seccomp_filters filters;
    unsigned user;                    /* id of the kernel in the zygote's user namespace */
    uint64_t ns_inode[JAIL_NS_COUNT]; /* the zygote's: a kernel's must differ */
    char missing[256];                /* names of the layers left out, by commas */
};

/*
 * write_maps is called when the process cannot write its own id maps (root, which maps to other
 * ids): it must return once /proc/<pid>/uid_map and gid_map are written by the parent. 0 there
 * stands for the first unprivileged host id.
 */
struct jail_confine_options {
    bool partial;
    bool container;
    bool parent_maps;
    bool again; /* the template was of a zygote that this process is made from: filters are kept */
    int (*write_maps)(void *arg, struct err *err);
    void *arg;
};

int jail_confine(struct jail_template *t, const struct jail_confine_options *opt, struct err *err);

/*
 * Flags for clone3 of a kernel: all namespaces, or none in a partial jail without them; but for
 * that of the network, if the zygote is in one that the kernel shall have (nets.h).
 */
uint64_t jail_clone_flags(const struct jail_template *t);

/*
 * The zygote takes the id that the next kernel shall have, and its own again. If the latter fails,
 * it must not go on. Without namespaces there is one id only, and nothing is done.
 */
int jail_become(struct jail_template *t, unsigned user, struct err *err);
int jail_become_zygote(struct jail_template *t, struct err *err);

/* Something of the host shown inside the jail. */
struct jail_mount {
    const char *target; /* relative to the jail's root: "data/orders.csv", "out" */
    const char *path;   /* on the host */
    int fd;             /* a detached mount to attach, or -1: bind `path` */
    uint64_t dev, ino;  /* what `path` must be (a race against renames is refused) */
    bool writable;
};

struct jail_spec {
    const struct jail_mount *mounts;
    size_t n_mounts;
    int64_t workspace_bytes, tmp_bytes, inodes;
    int64_t file_bytes;
    int pids, open_files;
};

int jail_box(struct jail_template *t, struct err *err);
int jail_close(struct jail_template *t, const struct jail_spec *spec, struct err *err);

/*
 * Code may write to /data/outputs although the rest of /data is read-only: it is a link to a
 * directory of /workspace. That one has another name, because code makes an `outputs` of its own.
 */
#define JAIL_OUTPUTS "outputs"
#define JAIL_OUTPUTS_DIR ".outputs"

/* Whether the tree is that of a jail: /workspace, /data and /tmp are this kernel's own. */
static inline bool jail_has_tree(const struct jail_template *t)
{
    return t->namespaces || t->container;
}

/*
 * Where a target is once the jail is closed: "/target" with namespaces of our own, else its path.
 */
const char *jail_path(const struct jail_template *t, const struct jail_mount *m, char *buf,
                      size_t n);

/* ---- the layers with a file of their own ---- */

/*
 * Compiles the policy into two BPF programs; they are the caller's to free with seccomp_finish().
 */
int seccomp_compile(struct seccomp_filters *ret, struct err *err);
void seccomp_finish(struct seccomp_filters *filters);
/*
 * With no_new_privs. After the first, a zygote can make kernels and these can close their jails;
 * after the last nobody can.
 */
int seccomp_apply_first(const struct seccomp_filters *filters, struct err *err);
int seccomp_apply_last(const struct seccomp_filters *filters, struct err *err);

#endif
