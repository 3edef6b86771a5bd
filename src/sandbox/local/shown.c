/*
 * Files of the host inside a jail. A plain user's kernels have that user's rights, so they bind the
 * path themselves (and check that it still is the file riddle opened). Root's kernels run as
 * another user and could not even walk to the file: for them riddle makes a detached, read-only
 * mount and passes it on, mapped so that a file which only its owner may read can be read.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fdio.h"
#include "sandbox/local/local_impl.h"

/* In a child that shares riddle's memory: nothing but a wait for its end. */
static int wait_for_end(void *arg) __attribute__((noreturn));
static int wait_for_end(void *arg)
{
    (void)arg;
    for (;;)
        pause();
}

/*
 * A user namespace in which `from` (the owner on disk) is the kernels' id: what mount_setattr wants
 * as a map. A child makes it, riddle writes its maps and keeps the descriptor. The child shares
 * riddle's memory, so that nothing is copied for it.
 */
static int mapping_userns(uid_t from_uid, gid_t from_gid, unsigned to_uid, unsigned to_gid,
                          struct err *err)
{
    static char stack[4096] __attribute__((aligned(16)));
    sigset_t all, before;
    sigfillset(&all); /* no handler of riddle's may run in the child */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(wait_for_end, stack + sizeof(stack), CLONE_NEWUSER | CLONE_VM | SIGCHLD,
                      NULL);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return err_errno(err, ERR_ISOLATION, why, "making a user namespace for an id map");
    char path[64], line[64];
    int fd = -1;
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    snprintf(line, sizeof(line), "%u %u 1", from_uid, to_uid);
    int r = fd_write_file(path, line, err);
    if (r == 0) {
        snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
        snprintf(line, sizeof(line), "%u %u 1", from_gid, to_gid);
        r = fd_write_file(path, line, err);
    }
    if (r == 0) {
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            r = err_errno(err, ERR_ISOLATION, errno, "opening an id map");
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r < 0 ? r : fd;
}

/* One for each owner and id of a kernel; both are few. Past the maximum the oldest is given up. */
static int id_map(struct local *p, uid_t uid, gid_t gid, unsigned user, struct err *err)
{
    for (size_t i = 0; i < p->n_id_maps; i++)
        if (p->id_maps[i].uid == uid && p->id_maps[i].gid == gid && p->id_maps[i].user == user)
            return p->id_maps[i].userns;
    unsigned to = (unsigned)p->base.cfg->sandbox_uid;
    int fd = mapping_userns(uid, gid, to + user, to, err);
    if (fd < 0)
        return fd;
    if (p->n_id_maps == ID_MAPS_MAX) {
        close(p->id_maps[0].userns);
        memmove(&p->id_maps[0], &p->id_maps[1], (ID_MAPS_MAX - 1) * sizeof(p->id_maps[0]));
        p->n_id_maps--;
    }
    p->id_maps[p->n_id_maps++] = (struct id_map){
        .uid = uid, .gid = gid, .user = user, .userns = fd
    };
    return fd;
}

void id_maps_close(struct local *p)
{
    while (p->n_id_maps > 0)
        close(p->id_maps[--p->n_id_maps].userns);
}

static int detached_mount(struct local *p, const struct kernel_mount *m, unsigned user,
                          const struct stat *st, struct shown_file *f, struct err *err)
{
    f->mount_fd = open_tree(AT_FDCWD, m->path,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (f->mount_fd < 0)
        return err_errno(err, ERR_ISOLATION, errno, "mounting '%s'", m->path);
    struct stat now;
    if (fstat(f->mount_fd, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return err_set(err, ERR_CONFLICT, "'%s' was replaced while it was being opened; try again",
                       m->path);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                           MOUNT_ATTR_NOEXEC |
                                           (m->writable ? 0u : MOUNT_ATTR_RDONLY) };
    bool mapped = !m->writable && !(st->st_mode & S_IROTH);
    if (mapped) {
        int userns = id_map(p, st->st_uid, st->st_gid, user, err);
        if (userns < 0)
            return userns;
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns;
    }
    if (mount_setattr(f->mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        if (mapped)
            return err_errno(
                err, ERR_ISOLATION, errno,
                "'%s' can be read by its owner only, and its file system has no id-mapped mounts; "
                "make it readable (chmod o+r) or run riddle as its owner",
                m->path);
        return err_errno(err, ERR_ISOLATION, errno, "restricting the mount of '%s'", m->path);
    }
    return 0;
}

int shown_open(struct local *p, const struct kernel_mount *m, unsigned user, struct shown_file *ret,
               struct err *err)
{
    struct stat st;
    *ret = (struct shown_file){ .mount_fd = -1 };
    if (lstat(m->path, &st) < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "'%s'", m->path);
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    int r = p->root ? detached_mount(p, m, user, &st, ret, err) : 0;
    if (r < 0)
        shown_close(ret);
    return r;
}

void shown_close(struct shown_file *f)
{
    if (f->mount_fd >= 0)
        close(f->mount_fd);
    f->mount_fd = -1;
}
