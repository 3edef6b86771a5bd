/*
 * Theory of operation.
 *
 * The zygote calls jail_confine() when everything is loaded. It enters its own user and mount
 * namespace and arranges its tree as
 *     /host   everything the machine has (the old root)
 *     /jail   the template: a tmpfs with read-only binds of what Python and DuckDB read, and empty mount points
 * A kernel is cloned into fresh namespaces, which gives it a private copy of that tree. Stage one
 * (jail_box) maps its user id, names its host and mounts its own /proc and scratch. Stage two
 * (jail_close) adds what depends on the request (tmpfs sizes, data files), makes /jail the root,
 * forgets /host, drops every privilege, and installs Landlock and the rest of the system-call
 * filter, most of which it inherits from the zygote.
 *
 * Nothing in a kernel before the end of jail_close() runs user code or looks at user data.
 */

#include "kernel/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include "base/fdio.h"
#include "base/landlock.h"
#include "base/str.h"
#include "gen/platform.h"
#include "kernel/jail/syscalls.h"

/*
 * Read by Python, its packages and DuckDB after the fork. What a machine does not have is left out.
 */
static const char *const root_paths[] = {
    "/usr/lib/python3", PLATFORM_PYTHON_STDLIB,  PLATFORM_PYTHON_LOCAL,       PLATFORM_LIBRARIES,
    "/usr/lib/locale",  "/usr/share/matplotlib", "/usr/share/python3-plotly", "/usr/share/zoneinfo",
    "/usr/share/fonts", "/etc/alternatives",     "/etc/ld.so.cache",          "/etc/matplotlibrc",
};

static const char *const devices[] = { "null", "zero", "full", "random", "urandom" };

static const struct {
    const char *target, *link;
} links[] = {
    { "usr/lib", "lib" },
    { "/proc/self/fd", "dev/fd" },
    { "/proc/self/fd/0", "dev/stdin" },
    { "/proc/self/fd/1", "dev/stdout" },
    { "/proc/self/fd/2", "dev/stderr" },
    { "/tmp", "dev/shm" },
    /* Where code of other systems looks for files and leaves them. */
    { "/workspace", "mnt/data" },
    { "/workspace", "home/user" },
};

static const char *const ns_names[JAIL_NS_COUNT] = { "user", "pid", "mnt",   "net",
                                                     "ipc",  "uts", "cgroup" };

#define ISOLATION_ERRNO(err, ...) err_errno(err, ERR_ISOLATION, errno, __VA_ARGS__)

/* ---- the zygote's half ---- */

static int make_parents(const char *path, bool is_dir, struct err *err)
{
    char dir[640];
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (!is_dir && slash)
        *slash = 0;
    return fd_mkdir_p(dir, 0755, err);
}

static int bind_readonly(const char *from, const char *to, uint64_t attr_set, struct err *err)
{
    /*
     * Recursive: a non-recursive bind of a tree with locked submounts is refused in a user
     * namespace.
     */
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
        return ISOLATION_ERRNO(err, "binding '%s'", to);
    struct mount_attr attr = { .attr_set = attr_set };
    if (mount_setattr(AT_FDCWD, to, AT_RECURSIVE, &attr, sizeof(attr)) < 0)
        return ISOLATION_ERRNO(err, "making '%s' read-only", to);
    return 0;
}

static int build_template(struct err *err)
{
    if (mount("jail", "/jail", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=256,mode=755") < 0)
        return ISOLATION_ERRNO(err, "mounting the template of the jail's root");
    char from[512], to[512];
    for (size_t i = 0; i < ARRAY_SIZE(root_paths); i++) {
        struct stat st;
        snprintf(from, sizeof(from), "/host%s", root_paths[i]);
        snprintf(to, sizeof(to), "/jail%s", root_paths[i]);
        if (stat(from, &st) < 0)
            continue;
        bool is_dir = S_ISDIR(st.st_mode);
        int r = make_parents(to, is_dir, err);
        if (r < 0)
            return r;
        if (!is_dir) {
            int fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
            if (fd < 0)
                return ISOLATION_ERRNO(err, "creating '%s'", to);
            close(fd);
        }
        r = bind_readonly(from, to, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
        if (r < 0)
            return r;
    }
    static const char *const dirs[] = { "dev", "proc", "data", "tables", "workspace",
                                        "tmp", "out",  "mnt",  "home" };
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        snprintf(to, sizeof(to), "/jail/%s", dirs[i]);
        if (mkdir(to, 0755) < 0 && errno != EEXIST)
            return ISOLATION_ERRNO(err, "creating '%s'", to);
    }
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
        snprintf(from, sizeof(from), "/host/dev/%s", devices[i]);
        snprintf(to, sizeof(to), "/jail/dev/%s", devices[i]);
        int fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (fd < 0)
            return ISOLATION_ERRNO(err, "creating '%s'", to);
        close(fd);
        /*
         * Writing to a device is not writing to its file system: the node's mode and times are what
         * this protects.
         */
        int r = bind_readonly(from, to, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                              err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        snprintf(to, sizeof(to), "/jail/%s", links[i].link);
        if (symlink(links[i].target, to) < 0)
            return ISOLATION_ERRNO(err, "creating '%s'", to);
    }
    /* Without AT_RECURSIVE: the device nodes below keep being writable. */
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                           MOUNT_ATTR_NODEV };
    if (mount_setattr(AT_FDCWD, "/jail", 0, &attr, sizeof(attr)) < 0)
        return ISOLATION_ERRNO(err, "making the template read-only");
    return 0;
}

static int write_own_maps(uid_t uid, gid_t gid, unsigned inside, const char *proc, struct err *err)
{
    char path[128], line[64];
    snprintf(path, sizeof(path), "%s/self/setgroups", proc);
    int r = fd_write_file(path, "deny", err);
    if (r == 0) {
        snprintf(path, sizeof(path), "%s/self/uid_map", proc);
        snprintf(line, sizeof(line), "%u %u 1", inside, uid);
        r = fd_write_file(path, line, err);
    }
    if (r == 0) {
        snprintf(path, sizeof(path), "%s/self/gid_map", proc);
        snprintf(line, sizeof(line), "%u %u 1", inside, gid);
        r = fd_write_file(path, line, err);
    }
    return r < 0 ? err_set(err, ERR_ISOLATION, "mapping the user id: %s", err->message) : 0;
}

static int namespace_inodes(const char *proc, uint64_t ret[JAIL_NS_COUNT], struct err *err)
{
    for (size_t i = 0; i < JAIL_NS_COUNT; i++) {
        char path[128];
        struct stat st;
        snprintf(path, sizeof(path), "%s/self/ns/%s", proc, ns_names[i]);
        if (stat(path, &st) < 0)
            return ISOLATION_ERRNO(err, "looking at the %s namespace", ns_names[i]);
        ret[i] = st.st_ino;
    }
    return 0;
}

/*
 * Whoever wrote the map: who we are outside must not be the machine's root, or the files of root
 * would be ours.
 */
static int check_outside_id(struct err *err)
{
    auto_buf struct buf map = BUF_INIT(4096);
    unsigned long inside = 1, outside = 0, count = 0;
    int r = fd_read_file("/proc/self/uid_map", &map, err);
    if (r < 0)
        return err_set(err, ERR_ISOLATION, "reading the map of user ids: %s", err->message);
    if (sscanf(buf_cstr(&map), "%lu %lu %lu", &inside, &outside, &count) != 3 || inside != 0 ||
        count < 1)
        return err_set(err, ERR_ISOLATION, "the map of user ids is not of one range");
    if (outside == 0)
        return err_set(err, ERR_ISOLATION,
                       "the user namespace would make kernels root of this machine");
    return 0;
}

static int enter_own_tree(const struct jail_confine_options *opt, struct err *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return errno == ENOSPC ?
                   err_set(
                       err, ERR_ISOLATION,
                       "this machine allows no more user namespaces (user.max_user_namespaces)") :
                   ISOLATION_ERRNO(err, "entering a user namespace");
    int r = opt->parent_maps ? opt->write_maps(opt->arg, err) :
                               write_own_maps(uid, gid, 0, "/proc", err);
    if (r == 0)
        r = check_outside_id(err);
    if (r < 0)
        return r;
    if (opt->parent_maps && setgroups(0, NULL) < 0)
        return ISOLATION_ERRNO(err, "dropping supplementary groups");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return ISOLATION_ERRNO(err, "taking the unprivileged user id");
    /* jail_become() keeps capabilities. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return ISOLATION_ERRNO(err, "setting securebits");
    /* Slave, not private: what is mounted on the machine later stays reachable below /host. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return ISOLATION_ERRNO(err, "detaching from the machine's mounts");
    if (mount("riddle", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755") < 0)
        return ISOLATION_ERRNO(err, "mounting the zygote's root");
    if (mkdir("/tmp/host", 0755) < 0 || mkdir("/tmp/jail", 0755) < 0)
        return ISOLATION_ERRNO(err, "laying out the zygote's root");
    if (sys_pivot_root("/tmp", "/tmp/host") < 0 || chdir("/") < 0)
        return ISOLATION_ERRNO(err, "moving the machine's tree to /host");
    return build_template(err);
}

static void note_missing(struct jail_template *t, const char *layer)
{
    size_t len = strlen(t->missing);
    snprintf(t->missing + len, sizeof(t->missing) - len, "%s%s", len ? "," : "", layer);
}

/* What the zygote's kernels inherit. */
static int filter_calls(const struct jail_template *t, struct err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return ISOLATION_ERRNO(err, "setting no_new_privs");
    return seccomp_apply_first(&t->filters, err);
}

int jail_confine(struct jail_template *t, const struct jail_confine_options *opt, struct err *err)
{
    const struct seccomp_filters compiled = t->filters;
    memset(t, 0, sizeof(*t));
    nets_init(&t->nets);
    t->partial = opt->partial;
    t->container = opt->container;
    int r = 0;
    if (opt->again)
        t->filters = compiled;
    else
        r = seccomp_compile(&t->filters, err);
    if (r < 0)
        return r;
    struct err why = ERR_INIT;
    if (!t->container) {
        r = enter_own_tree(opt, &why);
        if (r == 0)
            r = namespace_inodes("/host/proc", t->ns_inode, &why);
        t->namespaces = r == 0;
        if (r < 0 && !t->partial)
            return err_set(err, ERR_ISOLATION, "%s; 'riddle doctor' tells what to do", why.message);
        if (r < 0)
            note_missing(t, "namespaces");
    }
    r = filter_calls(t, &why);
    if (r < 0 && !t->partial) /* where it is partial, a kernel's own step finds it missing */
        return err_set(err, ERR_ISOLATION, "jail: %s; 'riddle doctor' tells what to do",
                       why.message);
    return 0;
}

uint64_t jail_clone_flags(const struct jail_template *t)
{
    if (!t->namespaces)
        return 0;
    return CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
           CLONE_NEWCGROUP | (t->nets.current >= 0 ? 0 : CLONE_NEWNET);
}

static int take_id(unsigned user, struct err *err)
{
    if (setresuid(user, user, user) < 0)
        return ISOLATION_ERRNO(err, "jail: taking the user id %u", user);
    /*
     * A change of credentials clears it, and a process that is not dumpable does not own its /proc.
     */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return 0;
}

int jail_become(struct jail_template *t, unsigned user, struct err *err)
{
    int r = t->namespaces && user ? take_id(user, err) : 0;
    t->user = t->namespaces && r == 0 ? user : 0;
    return r;
}

int jail_become_zygote(struct jail_template *t, struct err *err)
{
    int r = t->user ? take_id(0, err) : 0;
    if (r == 0 && t->user)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cleared, too */
    t->user = 0;
    return r;
}

/* ---- the kernel's half: steps ---- */

enum where {
    ANYWHERE,
    OWN,        /* what is made with namespaces of our own */
    CONTAINED,  /* what a container must have made instead */
    IF_ALLOWED, /* anywhere; a container may deny it */
};

struct step {
    const char *name;
    enum where where;
    int (*set)(struct jail_template *t, const struct jail_spec *spec, struct err *err);
};

static int run_steps(const struct step *steps, size_t n, struct jail_template *t,
                     const struct jail_spec *spec, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if ((steps[i].where == OWN && !t->namespaces) ||
            (steps[i].where == CONTAINED && !t->container))
            continue;
        struct err why = ERR_INIT;
        int r = steps[i].set(t, spec, &why);
        if (r == 0)
            continue;
        bool may_lack = t->partial || (t->container && steps[i].where == IF_ALLOWED);
        if (!may_lack || why.code != ERR_ISOLATION)
            return err_set(err, why.code, "jail step '%s': %s", steps[i].name, why.message);
        note_missing(t, steps[i].name);
    }
    return 0;
}

static int step_session(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    /*
     * A process group is of no namespace: kill(0, …) reaches all that is in it, the zygote and
     * other kernels, if they have the same user. Landlock forbids that only from ABI 6 on.
     */
    if (setsid() < 0)
        return ISOLATION_ERRNO(err, "starting a session");
    if (getpgrp() != getpid() || getsid(0) != getpid())
        return err_set(err, ERR_ISOLATION, "the process group is still that of others");
    return 0;
}

static int step_user(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)spec;
    uid_t real, effective, saved;
    /*
     * This id of the zygote's namespace, an unprivileged one of the machine, is JAIL_UID here:
     * there is no root at all.
     */
    int r = write_own_maps(t->user, 0, JAIL_UID, "/host/proc", err);
    if (r < 0)
        return r;
    if (getresuid(&real, &effective, &saved) < 0 || real != JAIL_UID || effective != JAIL_UID ||
        saved != JAIL_UID || getgid() != JAIL_UID)
        return err_set(err, ERR_ISOLATION, "the user id is %u, not %d", getuid(), JAIL_UID);
    return 0;
}

static int step_hostname(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    struct utsname uts;
    if (sethostname("riddle", 6) < 0 || uname(&uts) < 0)
        return ISOLATION_ERRNO(err, "naming the host");
    return str_eq(uts.nodename, "riddle") ?
               0 :
               err_set(err, ERR_ISOLATION, "the host name did not change");
}

static int check_no_network(struct err *err)
{
    struct if_nameindex *list = if_nameindex();
    bool only_loopback = list != NULL;
    for (struct if_nameindex *i = list; i && i->if_name; i++)
        only_loopback &= str_eq(i->if_name, "lo");
    if_freenameindex(list);
    if (!only_loopback)
        return err_set(err, ERR_ISOLATION, "the network namespace has an interface");
    return 0;
}

/* What a container was asked for: believed when it is seen. */
static int step_container(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    /*
     * Everybody may write to this directory. gVisor does not tell that a file system is read-only.
     */
    if (access("/usr/share/riddle/anybody", W_OK) == 0 || errno != EROFS)
        return err_set(err, ERR_ISOLATION, "the container's root is not read-only");
    if (getuid() == 0 || geteuid() == 0)
        return err_set(err, ERR_ISOLATION, "the container runs as root");
    if (getppid() != 1)
        return err_set(err, ERR_ISOLATION, "the container has a process before riddle-kernel");
    return check_no_network(err);
}

static int step_namespaces(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)spec;
    uint64_t mine[JAIL_NS_COUNT];
    int r = namespace_inodes("/host/proc", mine, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < JAIL_NS_COUNT; i++)
        if (mine[i] == t->ns_inode[i])
            return err_set(err, ERR_ISOLATION, "the %s namespace is not new", ns_names[i]);
    return check_no_network(err);
}

static int step_root(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    /*
     * The copy inherited from the zygote is locked; a bind of it onto itself is this kernel's own
     * and can become the root.
     */
    if (mount("/jail", "/jail", NULL, MS_BIND | MS_REC, NULL) < 0)
        return ISOLATION_ERRNO(err, "taking the template");
    return 0;
}

static int step_proc(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/jail/proc", "proc", flags, "subset=pid,hidepid=invisible") < 0)
        return ISOLATION_ERRNO(err, "mounting /proc");
    if (access("/jail/proc/1/status", R_OK) < 0 || access("/jail/proc/sys", F_OK) == 0)
        return err_set(err, ERR_ISOLATION, "/proc shows more than the kernel's own processes");
    return 0;
}

/* `flags` is MS_REMOUNT for one that is there and shall have another size. */
static int mount_tmpfs(const char *target, unsigned long flags, int64_t bytes, int64_t inodes,
                       struct err *err)
{
    char options[128];
    snprintf(options, sizeof(options), "size=%lld,nr_inodes=%lld,mode=755", (long long)bytes,
             (long long)inodes);
    if (mount("tmpfs", target, "tmpfs", flags | MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
        return ISOLATION_ERRNO(err, "mounting %s", target);
    struct statfs fs;
    if (statfs(target, &fs) < 0)
        return ISOLATION_ERRNO(err, "looking at %s", target);
    const unsigned long closed = ST_NOSUID | ST_NODEV | ST_NOEXEC;
    if (((unsigned long)fs.f_flags & closed) != closed)
        return err_set(err, ERR_ISOLATION, "%s would serve programs or devices", target);
    int64_t page = fs.f_bsize;
    if ((int64_t)fs.f_blocks > (bytes + page - 1) / page || (int64_t)fs.f_files > inodes)
        return err_set(err, ERR_ISOLATION, "%s is larger than it should be", target);
    return 0;
}

static int step_scratch(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    int r = mount_tmpfs("/jail/workspace", 0, 4096, 1, err);
    return r < 0 ? r : mount_tmpfs("/jail/tmp", 0, 4096, 1, err);
}

static int step_workspace(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t;
    int r = mount_tmpfs("/jail/workspace", MS_REMOUNT, spec->workspace_bytes, spec->inodes, err);
    return r < 0 ? r : mount_tmpfs("/jail/tmp", MS_REMOUNT, spec->tmp_bytes, spec->inodes, err);
}

/*
 * A mount of the machine's tree by its path; refused if the path no longer is what riddle looked
 * at.
 */
static int bind_by_path(const struct jail_mount *m, const char *target, struct err *err)
{
    char from[4200];
    snprintf(from, sizeof(from), "/host%s", m->path);
    auto_close int tree = open_tree(AT_FDCWD, from,
                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return ISOLATION_ERRNO(err, "opening '%s'", m->path);
    struct stat st;
    if (fstat(tree, &st) < 0 || st.st_dev != m->dev || st.st_ino != m->ino)
        return err_set(err, ERR_CONFLICT, "'%s' was replaced while it was being opened; try again",
                       m->path);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                           MOUNT_ATTR_NOEXEC |
                                           (m->writable ? 0u : MOUNT_ATTR_RDONLY) };
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return ISOLATION_ERRNO(err, "restricting '%s'", m->path);
    if (move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return ISOLATION_ERRNO(err, "showing '%s' as '%s'", m->path, target);
    return 0;
}

static int attach_mount(const struct jail_mount *m, struct err *err)
{
    char target[600];
    if (snprintf(target, sizeof(target), "/jail/%s", m->target) >= (int)sizeof(target))
        return err_set(err, ERR_VALIDATION, "the file name '%s' is too long", m->target);
    if (!m->writable) {
        int r = make_parents(target, false, err);
        if (r < 0)
            return r;
        int fd = open(target, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
        if (fd < 0)
            return ISOLATION_ERRNO(err, "creating '%s'", m->target);
        close(fd);
    }
    if (m->fd < 0) {
        int r = bind_by_path(m, target, err);
        if (r < 0)
            return r;
    } else if (move_mount(m->fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return ISOLATION_ERRNO(err, "attaching '%s'", m->target);
    }
    struct statvfs vfs;
    if (statvfs(target, &vfs) < 0)
        return ISOLATION_ERRNO(err, "looking at '%s'", m->target);
    if (!m->writable && !(vfs.f_flag & ST_RDONLY))
        return err_set(err, ERR_ISOLATION, "'%s' is not read-only", m->target);
    return 0;
}

static int step_data(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t;
    int64_t inodes = 16 + 2 * (int64_t)spec->n_mounts;
    bool has_tables = false;
    for (size_t i = 0; i < spec->n_mounts; i++)
        has_tables = has_tables || str_starts(spec->mounts[i].target, "tables/");
    int r = mount_tmpfs("/jail/data", 0, 65536, inodes, err);
    /* Not below /data: code that lists its files is not shown what it did not upload. */
    if (r == 0 && has_tables)
        r = mount_tmpfs("/jail/tables", 0, 65536, inodes, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        r = attach_mount(&spec->mounts[i], err);
        if (r < 0)
            return r;
    }
    if (symlink("/workspace/" JAIL_OUTPUTS_DIR, "/jail/data/" JAIL_OUTPUTS) < 0 && errno != EEXIST)
        return ISOLATION_ERRNO(err, "making /data/" JAIL_OUTPUTS);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
    if (mount_setattr(AT_FDCWD, "/jail/data", 0, &attr, sizeof(attr)) < 0 ||
        (has_tables && mount_setattr(AT_FDCWD, "/jail/tables", 0, &attr, sizeof(attr)) < 0))
        return ISOLATION_ERRNO(err, "making /data read-only");
    return 0;
}

static int step_cgroup(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    /*
     * riddle has moved us into our group since the clone. A namespace made now has it as its top
     * and hides what is above.
     */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return ISOLATION_ERRNO(err, "hiding the control groups");
    return 0;
}

static int step_pivot(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    /*
     * The old root is stacked on the new one and unmounted from under our feet: no directory for it
     * is needed.
     */
    if (chdir("/jail") < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return ISOLATION_ERRNO(err, "changing the root");
    struct statvfs vfs;
    if (access("/host", F_OK) == 0 || access("/jail", F_OK) == 0)
        return err_set(err, ERR_ISOLATION, "the machine's tree can still be seen");
    if (statvfs("/", &vfs) < 0 || !(vfs.f_flag & ST_RDONLY))
        return err_set(err, ERR_ISOLATION, "the root is not read-only");
    return 0;
}

/*
 * The list of a process's mounts (/proc/self/mountinfo) tells where on the machine each file lies.
 * It lists the mounts of the mount namespace that can be reached from the root. So the root becomes
 * a copy of the tree that is in no namespace; the copy lives for as long as it is somebody's root.
 */
static int step_mounts(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    auto_close int tree = open_tree(AT_FDCWD, "/",
                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0 || fchdir(tree) < 0 || chroot(".") < 0)
        return ISOLATION_ERRNO(err, "hiding the list of mounts");
    auto_close int list = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    char byte;
    if (list < 0 || read(list, &byte, 1) != 0)
        return err_set(err, ERR_ISOLATION, "the list of mounts can still be seen");
    return 0;
}

static int step_limits(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    /*
     * Memory is the cgroup's (or the watchdog's) business: RLIMIT_AS would break allocators that
     * reserve address space.
     */
    const struct {
        __rlimit_resource_t what;
        rlim_t value;
    } limits[] = {
        /* 1: no dump, and no handler of dumps either (core_pattern of the machine), which 0 has */
        { RLIMIT_CORE, 1 },
        { RLIMIT_NPROC, (rlim_t)spec->pids },
        { RLIMIT_NOFILE, (rlim_t)spec->open_files },
        { RLIMIT_FSIZE, (rlim_t)spec->file_bytes },
        /* gVisor lacks those from here on. The system-call filter denies what they would bound. */
        { RLIMIT_MEMLOCK, 65536 },
        { RLIMIT_MSGQUEUE, 0 },
        { RLIMIT_SIGPENDING, 1024 },
        { RLIMIT_NICE, 0 },
        { RLIMIT_RTPRIO, 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct rlimit is, want = { limits[i].value, limits[i].value };
        if (getrlimit(limits[i].what, &is) < 0)
            return ISOLATION_ERRNO(err, "reading limit %d", (int)limits[i].what);
        /* Counted per user, whom all containers share: the container's own limit holds instead. */
        if (t->container && limits[i].what == RLIMIT_NPROC)
            continue;
        if (want.rlim_max > is.rlim_max)
            want.rlim_cur = want.rlim_max = is.rlim_max;
        if (setrlimit(limits[i].what, &want) < 0 && t->container && errno == EPERM && i > 3)
            continue;
        if (setrlimit(limits[i].what, &want) < 0 || getrlimit(limits[i].what, &is) < 0 ||
            is.rlim_max != want.rlim_max)
            return ISOLATION_ERRNO(err, "setting limit %d", (int)limits[i].what);
    }
    return 0;
}

/*
 * What nobody shall ever have again. It takes nothing away yet: the kernel holds what it needs to
 * close its jail.
 */
static int step_bounds(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)spec;
    /*
     * The bounding set and securebits can only be changed while CAP_SETPCAP is held; without
     * namespaces it may not be.
     */
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
            t->namespaces)
            return ISOLATION_ERRNO(err, "dropping capability %d", cap);
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 && t->namespaces)
        return ISOLATION_ERRNO(err, "setting securebits");
    /* EINVAL: a container's system, gVisor for one, has none. */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 &&
        !(t->container && errno == EINVAL))
        return ISOLATION_ERRNO(err, "clearing ambient capabilities");
    return 0;
}

static int step_privileges(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)t, (void)spec;
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    if (syscall(SYS_capset, &head, caps) < 0)
        return ISOLATION_ERRNO(err, "dropping capabilities");
    /*
     * The kernel dies with riddle even while it is busy. After the last change of credentials,
     * which clears it.
     */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return ISOLATION_ERRNO(err, "tying the kernel's life to riddle's");

    memset(caps, 0xff, sizeof(caps));
    if (syscall(SYS_capget, &head, caps) < 0 || caps[0].effective || caps[0].permitted ||
        caps[0].inheritable || caps[1].effective || caps[1].permitted || caps[1].inheritable)
        return err_set(err, ERR_ISOLATION, "capabilities are left");
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return err_set(err, ERR_ISOLATION, "no_new_privs is not set");
    return 0;
}

static int step_landlock(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    struct landlock_path paths[ARRAY_SIZE(root_paths) + 16 + FD_PASS_MAX];
    size_t n = 0;
    if (t->namespaces) {
        paths[n++] = (struct landlock_path){ "/", false };
        paths[n++] = (struct landlock_path){ "/workspace", true };
        paths[n++] = (struct landlock_path){ "/out", true };
    } else if (t->container) {
        paths[n++] = (struct landlock_path){ "/", false };
        paths[n++] = (struct landlock_path){ "/workspace", true };
        for (size_t i = 0; i < spec->n_mounts && i < FD_PASS_MAX; i++)
            if (spec->mounts[i].writable)
                paths[n++] = (struct landlock_path){ spec->mounts[i].path, true };
    } else {
        for (size_t i = 0; i < ARRAY_SIZE(root_paths); i++)
            paths[n++] = (struct landlock_path){ root_paths[i], false };
        paths[n++] = (struct landlock_path){ "/proc/self", false };
        for (size_t i = 0; i < spec->n_mounts && i < FD_PASS_MAX; i++)
            paths[n++] = (struct landlock_path){ spec->mounts[i].path, spec->mounts[i].writable };
    }
    paths[n++] = (struct landlock_path){ "/tmp", true };
    paths[n++] = (struct landlock_path){ "/dev/null", true };
    paths[n++] = (struct landlock_path){ "/dev/zero", true };
    paths[n++] = (struct landlock_path){ "/dev/full", true };
    int r = landlock_apply(paths, n, err);
    if (r < 0)
        return r;
    /* Verified by an open that only Landlock refuses: the device is writable by everybody. */
    auto_close int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES)
        return err_set(err, ERR_ISOLATION, "the Landlock rules are not in force");
    return 0;
}

static int step_seccomp(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    (void)spec;
    return seccomp_apply_last(&t->filters, err);
}

static const struct step box_steps[] = {
    { "session", ANYWHERE, step_session },
    { "container", CONTAINED, step_container },
    { "user", OWN, step_user },
    { "hostname", OWN, step_hostname },
    { "namespaces", OWN, step_namespaces },
    { "root", OWN, step_root },
    { "proc", OWN, step_proc },
    { "scratch", OWN, step_scratch },
    { "bounds", ANYWHERE, step_bounds },
};

static const struct step close_steps[] = {
    { "workspace", OWN, step_workspace },
    { "data", OWN, step_data },
    { "cgroup", OWN, step_cgroup },
    { "pivot", OWN, step_pivot },
    { "mounts", OWN, step_mounts },
    { "limits", ANYWHERE, step_limits },
    { "privileges", ANYWHERE, step_privileges },
    { "landlock", IF_ALLOWED, step_landlock },
    { "seccomp", ANYWHERE, step_seccomp },
};

int jail_box(struct jail_template *t, struct err *err)
{
    return run_steps(box_steps, ARRAY_SIZE(box_steps), t, NULL, err);
}

int jail_close(struct jail_template *t, const struct jail_spec *spec, struct err *err)
{
    int r = run_steps(close_steps, ARRAY_SIZE(close_steps), t, spec, err);
    if (r < 0)
        return r;
    if (chdir(jail_has_tree(t) ? "/workspace" : "/tmp") < 0)
        return ISOLATION_ERRNO(err, "entering the workspace");
    return 0;
}

const char *jail_path(const struct jail_template *t, const struct jail_mount *m, char *buf,
                      size_t n)
{
    if (!t->namespaces)
        return m->path;
    snprintf(buf, n, "/%s", m->target);
    return buf;
}
