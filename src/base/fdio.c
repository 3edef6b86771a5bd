/*
 * Descriptors and files: whole reads and writes, atomic replacement, passing descriptors, removing
 * trees safely.
 */

#include "base/fdio.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/id.h"
#include "base/str.h"

#define READ_CHUNK_BYTES 65536u
#define POPULATE_MAX_BYTES (64 << 20)

/* ---- reading and writing ---- */

/*
 * Waits until fd is ready, so that a non-blocking descriptor can be used by code that wants all of
 * it.
 */
static int wait_ready(int fd, short events, struct err *err)
{
    struct pollfd p = { .fd = fd, .events = events };

    while (poll(&p, 1, -1) < 0) {
        if (errno != EINTR)
            return err_errno(err, ERR_IO, errno, "cannot wait for a descriptor");
    }
    return 0; /* on POLLERR and POLLHUP the next call tells what is wrong */
}

int fd_write_all(int fd, const void *data, size_t len, struct err *err)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            int r = wait_ready(fd, POLLOUT, err);

            if (r < 0)
                return r;
        } else if (errno != EINTR) {
            return err_errno(err, ERR_IO, errno, "cannot write");
        }
    }
    return 0;
}

/* One read(2) that retries; the byte count, 0 at the end, or an error. */
static ssize_t read_some(int fd, void *data, size_t len, struct err *err)
{
    for (;;) {
        ssize_t n = read(fd, data, len);

        if (n >= 0)
            return n;
        if (errno == EAGAIN) {
            int r = wait_ready(fd, POLLIN, err);

            if (r < 0)
                return r;
        } else if (errno != EINTR) {
            return err_errno(err, ERR_IO, errno, "cannot read");
        }
    }
}

int fd_read_to_end(int fd, struct buf *b, struct err *err)
{
    size_t before = b->len;
    ssize_t n;

    do {
        size_t room = b->max_bytes - MIN_OF(b->max_bytes, b->len);
        char probe;

        if (room == 0) { /* full: only the end of the file may follow */
            n = read_some(fd, &probe, 1, err);
            if (n > 0)
                n = err_set(err, ERR_TOO_LARGE, "larger than the limit of %zu bytes", b->max_bytes);
        } else {
            room = MIN_OF(room, READ_CHUNK_BYTES);
            n = buf_reserve(b, room, err);
            if (n == 0)
                n = read_some(fd, b->data + b->len, room, err);
            if (n > 0)
                b->len += (size_t)n;
        }
    } while (n > 0);

    if (n < 0)
        b->len = before;
    if (b->data)
        b->data[b->len] = '\0';
    return (int)n;
}

int fd_read_file(const char *path, struct buf *b, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_errno(err, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO, errno,
                         "cannot open '%s'", path);
    r = fd_read_to_end(fd, b, err);
    return r < 0 ? err_wrap(err, "reading '%s'", path) : 0;
}

int fd_write_file(const char *path, const char *text, struct err *err)
{
    size_t len = strlen(text);
    auto_close int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    ssize_t n;

    /*
     * Creating is a second step: in /proc and in a cgroup it is denied, and the reason told should
     * be that nothing was there.
     */
    if (fd < 0 && errno == ENOENT) {
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return err_errno(err, ERR_NOT_FOUND, errno, "'%s' does not exist and cannot be created",
                             path);
    }
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "cannot open '%s'", path);
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(err, ERR_IO, errno, "cannot write to '%s'", path);
    if ((size_t)n != len)
        return err_set(err, ERR_IO, "wrote only %zd of %zu bytes to '%s'", n, len, path);
    return 0;
}

/*
 * Makes a rename durable. Some file systems cannot sync a directory; that is no reason to report a
 * failure.
 */
static void sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    auto_close int fd = -1;

    if (slash && (size_t)(slash - path) < sizeof(dir) - 1) {
        size_t n = slash == path ? 1 : (size_t)(slash - path);

        memcpy(dir, path, n);
        dir[n] = '\0';
    } else {
        strcpy(dir, ".");
    }
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        fsync(fd);
}

int fd_replace_file(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    char tmp[PATH_MAX], random[17];
    auto_close int fd = -1;
    int r = 0;

    id_hex(random, 16);
    if (snprintf(tmp, sizeof(tmp), "%s.tmp-%s", path, random) >= (int)sizeof(tmp))
        return err_errno(err, ERR_IO, ENAMETOOLONG, "cannot create '%s'", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO, errno,
                         "cannot create '%s'", tmp);

    r = fd_write_all(fd, data, len, err);
    if (r < 0)
        err_wrap(err, "writing '%s'", tmp);
    else if (fchmod(fd, mode) < 0)
        r = err_errno(err, ERR_IO, errno, "cannot set the mode of '%s'", tmp);
    else if (fsync(fd) < 0)
        r = err_errno(err, ERR_IO, errno, "cannot sync '%s'", tmp);
    else if (rename(tmp, path) < 0)
        r = err_errno(err, ERR_IO, errno, "cannot rename '%s' to '%s'", tmp, path);
    if (r < 0) {
        unlink(tmp);
        return r;
    }
    sync_parent(path);
    return 0;
}

/* ---- flags ---- */

static int set_flag(int fd, int get, int set, int flag, bool on, struct err *err)
{
    int flags = fcntl(fd, get);

    if (flags < 0 || (((flags & flag) != 0) != on && fcntl(fd, set, flags ^ flag) < 0))
        return err_errno(err, ERR_IO, errno, "cannot set the flags of descriptor %d", fd);
    return 0;
}

int fd_set_nonblock(int fd, bool on, struct err *err)
{
    return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on, err);
}

int fd_set_cloexec(int fd, bool on, struct err *err)
{
    return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on, err);
}

/* ---- directories ---- */

int fd_mkdir_p(const char *path, mode_t mode, struct err *err)
{
    size_t len = strlen(path);
    char part[PATH_MAX];
    struct stat st;

    if (len == 0 || len >= sizeof(part))
        return err_errno(err, ERR_IO, len ? ENAMETOOLONG : ENOENT, "cannot create directory '%s'",
                         path);
    memcpy(part, path, len + 1);
    while (len > 1 && part[len - 1] == '/')
        part[--len] = '\0';

    for (char *p = part + 1;; p++) {
        bool last = *p == '\0';

        if (!last && *p != '/')
            continue;
        *p = '\0';
        /* We must be able to enter what we create and put the next one into it. */
        if (mkdir(part, last ? mode : mode | 0700) < 0 && errno != EEXIST) {
            int saved = errno;

            /* On the way a directory that exists may answer EROFS or EACCES instead of EEXIST. */
            if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
                return err_errno(err, ERR_IO, saved, "cannot create directory '%s'", part);
        }
        if (last)
            break;
        *p = '/';
    }
    if (stat(part, &st) < 0)
        return err_errno(err, ERR_IO, errno, "cannot create directory '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return err_errno(err, ERR_IO, ENOTDIR, "cannot create directory '%s'", path);
    return 0;
}

/*
 * Removing a tree. What is inside may be changed by someone else while we work, so a name is never
 * used twice for a decision: a directory is entered by openat(O_NOFOLLOW) from its parent's
 * descriptor, and whatever turns out to be no directory is unlinked by name in that same directory,
 * which cannot reach outside. A mount point is not entered: behind it may be a directory of the
 * host. A directory at the depth bound is moved up to the top of the tree and removed from there,
 * so depth costs neither stack nor descriptors.
 */
#define REMOVE_MAX_DEPTH 64
#define REMOVE_MAX_PASSES 100000

struct remover {
    const char *path; /* for messages */
    int root_fd;
    unsigned long long mount_id;
    bool moved; /* something was moved up to the root since its last pass */
};

static int mount_of(int fd, unsigned long long *ret)
{
    struct statx sx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &sx) < 0)
        return -errno;
    /* Before Linux 5.8 there is no mount id; the device at least tells file systems apart. */
    *ret = (sx.stx_mask & STATX_MNT_ID) ?
               sx.stx_mnt_id :
               ((unsigned long long)sx.stx_dev_major << 32 | sx.stx_dev_minor);
    return 0;
}

/*
 * Opens a directory for removal, giving ourselves access to it if it is ours. -1 and errno on
 * failure.
 */
static int open_dir(int parent, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = openat(parent, name, flags);
    struct stat st;

    if (fd < 0 && errno == EACCES) {
        auto_close int pinned = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char link[40];

        if (pinned < 0)
            return -1;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", pinned);
        if (chmod(link, 0700) < 0) {
            errno = EACCES;
            return -1;
        }
        return openat(parent, name, flags);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        fchmod(fd, 0700); /* if this is denied, removing will say so */
    return fd;
}

static int remove_children(struct remover *rm, int dir_fd, int depth, struct err *err);

static int remove_entry(struct remover *rm, int dir_fd, const char *name, int depth,
                        struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    auto_close int fd = -1;
    unsigned long long mount;
    int refusal, r;

    str_show(name, strlen(name), shown, sizeof(shown));
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    refusal = errno;
    if (refusal != EISDIR && refusal != EPERM) /* Linux says EISDIR, POSIX EPERM */
        return err_errno(err, ERR_IO, refusal, "cannot remove '%s' in '%s'", shown, rm->path);

    fd = open_dir(dir_fd, name);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return err_errno(err, ERR_IO, refusal, "cannot remove '%s' in '%s'", shown, rm->path);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "cannot open '%s' in '%s'", shown, rm->path);
    r = mount_of(fd, &mount);
    if (r < 0)
        return err_errno(err, ERR_IO, -r, "cannot inspect '%s' in '%s'", shown, rm->path);
    if (mount != rm->mount_id)
        return err_set(err, ERR_IO, "will not remove '%s' in '%s': something is mounted there",
                       shown, rm->path);

    if (depth >= REMOVE_MAX_DEPTH) {
        char aside[40] = ".removing-";

        id_hex(aside + strlen(aside), 24);
        if (renameat(dir_fd, name, rm->root_fd, aside) < 0 && errno != ENOENT)
            return err_errno(err, ERR_IO, errno, "cannot move '%s' up in '%s'", shown, rm->path);
        rm->moved = true;
        return 0;
    }
    r = remove_children(rm, fd, depth + 1, err);
    if (r < 0)
        return r;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(err, ERR_IO, errno, "cannot remove directory '%s' in '%s'", shown,
                         rm->path);
    return 0;
}

static int remove_children(struct remover *rm, int dir_fd, int depth, struct err *err)
{
    int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3); /* closedir() takes the descriptor with it */
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = err_errno(err, ERR_IO, errno, "cannot list a directory in '%s'", rm->path);
        if (copy >= 0)
            close(copy);
        return r;
    }
    rewinddir(dir); /* the copy shares its position with dir_fd */
    while (r == 0 && (errno = 0, entry = readdir(dir))) {
        if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
            r = remove_entry(rm, dir_fd, entry->d_name, depth, err);
    }
    if (r == 0 && errno != 0)
        r = err_errno(err, ERR_IO, errno, "cannot list a directory in '%s'", rm->path);
    closedir(dir);
    return r;
}

int fd_remove_tree(const char *path, struct err *err)
{
    auto_close int fd = open_dir(AT_FDCWD, path);
    struct remover rm = { .path = path, .root_fd = fd };
    int r, passes = 0;

    if (fd < 0) {
        if (errno == ENOENT)
            return 0;
        if (errno != ENOTDIR && errno != ELOOP)
            return err_errno(err, ERR_IO, errno, "cannot open '%s'", path);
        if (unlink(path) < 0 && errno != ENOENT)
            return err_errno(err, ERR_IO, errno, "cannot remove '%s'", path);
        return 0;
    }
    r = mount_of(fd, &rm.mount_id);
    if (r < 0)
        return err_errno(err, ERR_IO, -r, "cannot inspect '%s'", path);
    do {
        rm.moved = false;
        r = remove_children(&rm, fd, 0, err);
        if (r < 0)
            return r;
    } while (rm.moved && ++passes < REMOVE_MAX_PASSES);
    if (rmdir(path) < 0 && errno != ENOENT)
        return err_errno(err, ERR_IO, errno, "cannot remove directory '%s'", path);
    return 0;
}

/* ---- passing descriptors ---- */

union control {
    char bytes[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
    struct cmsghdr align;
};

int fd_send_fds(int sock, const void *data, size_t len, const int *fds, size_t n_fds,
                struct err *err)
{
    union control control;
    struct iovec iov;
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    const char *p = data;

    if (n_fds > FD_PASS_MAX)
        return err_set(err, ERR_TOO_LARGE, "cannot pass %zu descriptors at once, only %d", n_fds,
                       FD_PASS_MAX);
    if (len == 0)
        return err_set(err, ERR_INVALID_INPUT, "cannot send descriptors without a byte");
    if (n_fds > 0) {
        struct cmsghdr *cmsg;

        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
    }
    while (len > 0) {
        ssize_t n;

        iov = (struct iovec){ .iov_base = (void *)(uintptr_t)p, .iov_len = len };
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
            msg.msg_control = NULL; /* they went with the first byte */
            msg.msg_controllen = 0;
        } else if (n < 0 && errno == EAGAIN) {
            int r = wait_ready(sock, POLLOUT, err);

            if (r < 0)
                return r;
        } else if (n < 0 && errno != EINTR) {
            return err_errno(err, errno == EPIPE || errno == ECONNRESET ? ERR_UNAVAILABLE : ERR_IO,
                             errno, "cannot send %zu bytes with %zu descriptors", len, n_fds);
        }
    }
    return 0;
}

ssize_t fd_recv_fds(int sock, void *data, size_t len, int *ret_fds, size_t max_fds,
                    size_t *ret_n_fds, struct err *err)
{
    union control control;
    struct iovec iov = { .iov_base = data, .iov_len = len };
    struct msghdr msg = { .msg_iov = &iov,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    size_t kept = 0;
    bool reset = false;
    ssize_t n;

    *ret_n_fds = 0;
    /*
     * A peer that ends with something unread is told first, and once; behind that is what it had
     * sent, and the end.
     */
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset && (reset = true))));
    if (n < 0) {
        if (errno == EAGAIN)
            return err_set(err, ERR_UNAVAILABLE, "nothing to receive now");
        return err_errno(err, ERR_IO, errno, "cannot receive");
    }

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (kept < max_fds)
                ret_fds[kept++] = fd;
            else
                close(fd);
        }
    }
    /*
     * With part of the descriptors or of the record gone, what is left cannot be trusted to mean
     * what was sent.
     */
    if (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
        while (kept > 0)
            close(ret_fds[--kept]);
        return err_set(err, ERR_PROTOCOL, "received a message whose %s cut off",
                       msg.msg_flags & MSG_CTRUNC ? "descriptors were" : "end was");
    }
    *ret_n_fds = kept;
    return n;
}

int fd_map_file(const char *path, struct fd_mapping *ret, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *data;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, ERR_IO, errno, "cannot open '%s'", path);
    if (st.st_size == 0) {
        *ret = (struct fd_mapping){ 0 };
        return 0;
    }
    /* A small file in one go; a large one as it is read, so that its first bytes come at once. */
    data = mmap(NULL, (size_t)st.st_size, PROT_READ,
                MAP_PRIVATE | (st.st_size <= POPULATE_MAX_BYTES ? MAP_POPULATE : 0), fd, 0);
    if (data == MAP_FAILED)
        return err_errno(err, ERR_IO, errno, "cannot map '%s'", path);
    madvise(data, (size_t)st.st_size, MADV_SEQUENTIAL);
    *ret = (struct fd_mapping){ .data = data, .len = (size_t)st.st_size };
    return 0;
}

void fd_mapping_finish(struct fd_mapping *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->len);
    *m = (struct fd_mapping){ 0 };
}

int fd_close_all_but(int first, const int *keep, size_t n_keep, struct err *err)
{
    unsigned from = (unsigned)MAX_OF(first, 0);

    /*
     * The lowest kept one at or above `from`, again and again: no copy to sort, so this is safe
     * after fork(2).
     */
    for (;;) {
        unsigned next = UINT_MAX;

        for (size_t i = 0; i < n_keep; i++) {
            if (keep[i] >= 0 && (unsigned)keep[i] >= from)
                next = MIN_OF(next, (unsigned)keep[i]);
        }
        /* INT_MAX: gVisor takes the numbers for signed ones. */
        if (next > from && close_range(from, next == UINT_MAX ? INT_MAX : next - 1, 0) < 0)
            return err_errno(err, ERR_IO, errno, "cannot close descriptors from %u on", from);
        if (next == UINT_MAX)
            return 0;
        from = next + 1;
    }
}
