/*
 * Files of the host inside a jail. A plain user's kernels have that user's rights, so they bind the path themselves (and check
 * that it still is the file riddle opened). Root's kernels run as another user and could not even walk to the file: for them
 * riddle makes a detached, read-only mount and passes it on, mapped so that a file which only its owner may read can be read.
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

/*
 * A user namespace in which `from` (the owner on disk) is the kernels' id: what mount_setattr wants as a map. A child makes
 * it, we write its maps and keep the descriptor.
 */
static int mapping_userns(uid_t from_uid, gid_t from_gid, unsigned to, struct err *err)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_errno(err, ERR_IO, errno, "making a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        char c = unshare(CLONE_NEWUSER) < 0 ? 'n' : 'y';
        (void)!write(go[1], &c, 1);
        pause(); /* until it is killed */
        _exit(0);
    }
    close(go[1]);
    char c = 'n', path[64], line[64];
    ssize_t n = pid > 0 ? read(go[0], &c, 1) : -1;
    close(go[0]);
    int fd = -1, r = 0;
    if (n != 1 || c != 'y') {
        r = err_set(err, ERR_ISOLATION, "making a user namespace for an id map");
    } else {
        snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
        snprintf(line, sizeof(line), "%u %u 1", from_uid, to);
        r = fd_write_file(path, line, err);
        if (r == 0) {
            snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
            snprintf(line, sizeof(line), "%u %u 1", from_gid, to);
            r = fd_write_file(path, line, err);
        }
        if (r == 0) {
            snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
            fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0)
                r = err_errno(err, ERR_ISOLATION, errno, "opening an id map");
        }
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return r < 0 ? r : fd;
}

static int detached_mount(struct provider *p, const struct stat *st, struct shown_file *f, struct err *err)
{
    f->mount_fd = open_tree(AT_FDCWD, f->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (f->mount_fd < 0)
        return err_errno(err, ERR_ISOLATION, errno, "mounting '%s'", f->path);
    struct stat now;
    if (fstat(f->mount_fd, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino)
        return err_set(err, ERR_CONFLICT, "'%s' was replaced while it was being opened; try again", f->path);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                           (f->writable ? 0u : MOUNT_ATTR_RDONLY) };
    auto_close int userns = -1;
    if (!f->writable && !(st->st_mode & S_IROTH)) {
        userns = mapping_userns(st->st_uid, st->st_gid, (unsigned)p->cfg->sandbox_uid, err);
        if (userns < 0)
            return userns;
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns;
    }
    if (mount_setattr(f->mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
        if (userns >= 0)
            return err_errno(err, ERR_ISOLATION, errno,
                             "'%s' can be read by its owner only, and its file system has no id-mapped mounts; "
                             "make it readable (chmod o+r) or run riddle as its owner",
                             f->path);
        return err_errno(err, ERR_ISOLATION, errno, "restricting the mount of '%s'", f->path);
    }
    return 0;
}

int shown_open(struct provider *p, const char *path, const char *target, bool writable, struct shown_file *ret,
               struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    ret->mount_fd = -1;
    ret->writable = writable;
    if (snprintf(ret->target, sizeof(ret->target), "%s", target) >= (int)sizeof(ret->target) ||
        snprintf(ret->path, sizeof(ret->path), "%s", path) >= (int)sizeof(ret->path))
        return err_set(err, ERR_VALIDATION, "the path '%.200s…' is too long", path);
    struct stat st;
    if (lstat(path, &st) < 0)
        return err_errno(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "'%s'", path);
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    int r = p->root ? detached_mount(p, &st, ret, err) : 0;
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
