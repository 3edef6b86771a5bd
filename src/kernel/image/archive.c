/* Files of /workspace and /tmp, one record after the other, directories before what is in them. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/image/image_impl.h"

#define DEPTH_MAX 64

enum { ARCHIVE_END, ARCHIVE_DIR, ARCHIVE_FILE, ARCHIVE_LINK };

struct record {
    uint32_t kind, mode;
    uint64_t size; /* of what follows the path */
    int64_t modified_s, modified_ns;
    uint32_t path_len, unused;
};

static const char *const roots[] = { "/workspace", "/tmp" };

int image_write(int fd, const void *data, size_t len, struct err *err)
{
    for (const char *p = data; len > 0;) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_errno(err, ERR_IO, errno, "writing the image");
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int image_read(int fd, void *data, size_t len, struct err *err)
{
    for (char *p = data; len > 0;) {
        ssize_t n = read(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_IO, errno, "reading the image");
        if (n == 0)
            return err_set(err, ERR_VALIDATION, "the image is damaged: it is cut off");
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- writing ---- */

static int put_record(int fd, uint64_t *at, uint32_t kind, const char *path, const struct stat *st,
                      uint64_t size, struct err *err)
{
    struct record rec = { .kind = kind, .size = size };
    if (st) {
        rec.mode = st->st_mode & 0777;
        rec.modified_s = st->st_mtim.tv_sec;
        rec.modified_ns = st->st_mtim.tv_nsec;
    }
    rec.path_len = path ? (uint32_t)strlen(path) : 0;
    int r = image_write(fd, &rec, sizeof(rec), err);
    if (r == 0 && path)
        r = image_write(fd, path, rec.path_len, err);
    *at += sizeof(rec) + rec.path_len + size;
    return r;
}

static int put_file(int fd, uint64_t *at, const char *path, struct err *err)
{
    static char chunk[65536];
    struct stat st;
    auto_close int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (in < 0 || fstat(in, &st) < 0)
        return err_errno(err, ERR_CONFLICT, errno, "the file '%s', which cannot be read", path);
    int r = put_record(fd, at, ARCHIVE_FILE, path, &st, (uint64_t)st.st_size, err);
    for (uint64_t left = (uint64_t)st.st_size; r == 0 && left > 0;) {
        ssize_t n = read(in, chunk, MIN_OF(left, sizeof(chunk)));
        if (n <= 0)
            return err_set(err, ERR_CONFLICT, "the file '%s', which cannot be read", path);
        r = image_write(fd, chunk, (size_t)n, err);
        left -= (uint64_t)n;
    }
    return r;
}

static int put_directory(int fd, uint64_t *at, const char *path, int depth, struct err *err)
{
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    int r = dir ? 0 : err_set(err, ERR_CONFLICT, "the directory '%s', which cannot be read", path);
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        char sub[PATH_MAX], target[PATH_MAX];
        struct stat st;
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
            continue;
        if (snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name) >= (int)sizeof(sub) ||
            lstat(sub, &st) < 0) {
            r = err_set(err, ERR_CONFLICT, "the file '%.200s', which cannot be read", sub);
        } else if (S_ISDIR(st.st_mode)) {
            r = put_record(fd, at, ARCHIVE_DIR, sub, &st, 0, err);
            if (r == 0)
                r = put_directory(fd, at, sub, depth + 1, err);
        } else if (S_ISREG(st.st_mode)) {
            r = put_file(fd, at, sub, err);
        } else if (S_ISLNK(st.st_mode)) {
            ssize_t n = readlink(sub, target, sizeof(target));
            r = n < 0 ? err_errno(err, ERR_CONFLICT, errno, "the link '%s'", sub) :
                        put_record(fd, at, ARCHIVE_LINK, sub, &st, (uint64_t)n, err);
            if (r == 0)
                r = image_write(fd, target, (size_t)n, err);
        } else {
            r = err_set(err, ERR_CONFLICT, "'%s', which is no file and no directory", sub);
        }
    }
    if (dir)
        closedir(dir);
    return r;
}

int archive_write_none(int fd, uint64_t *at, struct err *err)
{
    return put_record(fd, at, ARCHIVE_END, NULL, NULL, 0, err);
}

int archive_write(int fd, uint64_t *at, struct err *err)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(roots) && r == 0; i++)
        r = put_directory(fd, at, roots[i], 0, err);
    return r < 0 ? r : put_record(fd, at, ARCHIVE_END, NULL, NULL, 0, err);
}

/* ---- reading ---- */

static bool may_be(const char *path)
{
    bool below = false;
    for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
        below = below || (str_starts(path, roots[i]) && path[strlen(roots[i])] == '/');
    return below && !strstr(path, "/../") &&
           !(strlen(path) >= 3 && str_eq(path + strlen(path) - 3, "/.."));
}

static int take_file(int fd, const char *path, const struct record *rec, struct err *err)
{
    static char chunk[65536];
    auto_close int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                              rec->mode & 0777);
    int r = out < 0 ?
                err_errno(err, ERR_VALIDATION, errno, "the image is damaged: making '%s'", path) :
                0;
    for (uint64_t left = rec->size; r == 0 && left > 0;) {
        size_t n = MIN_OF(left, sizeof(chunk));
        r = image_read(fd, chunk, n, err);
        if (r == 0)
            r = image_write(out, chunk, n, err);
        left -= n;
    }
    const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
                                       { rec->modified_s, rec->modified_ns } };
    if (r == 0)
        (void)futimens(out, times);
    return r;
}

static int take_record(int fd, const struct record *rec, struct err *err)
{
    char path[PATH_MAX], target[PATH_MAX];
    int r = image_read(fd, path, rec->path_len, err);
    if (r < 0)
        return r;
    path[rec->path_len] = 0;
    if (strlen(path) != rec->path_len || !may_be(path))
        return err_set(err, ERR_VALIDATION,
                       "the image is damaged: a file outside of /workspace and /tmp");
    if (rec->kind == ARCHIVE_FILE)
        return take_file(fd, path, rec, err);
    if (rec->kind == ARCHIVE_DIR && rec->size == 0)
        return mkdir(path, (rec->mode & 0777) | 0700) == 0 || errno == EEXIST ?
                   0 :
                   err_errno(err, ERR_VALIDATION, errno, "making '%s'", path);
    if (rec->kind != ARCHIVE_LINK || rec->size == 0 || rec->size >= sizeof(target))
        return err_set(err, ERR_VALIDATION, "the image is damaged: a file of an unknown kind");
    r = image_read(fd, target, rec->size, err);
    target[rec->size] = 0;
    if (r == 0 && symlink(target, path) < 0 && errno != EEXIST)
        r = err_errno(err, ERR_VALIDATION, errno, "making '%s'", path);
    return r;
}

static int skip_record(int fd, const struct record *rec, struct err *err)
{
    off_t n = (off_t)(rec->path_len + rec->size);
    return rec->size < INT64_MAX / 2 && lseek(fd, n, SEEK_CUR) >= 0 ?
               0 :
               err_set(err, ERR_VALIDATION, "the image is damaged: it is cut off");
}

typedef int (*record_fn)(int fd, const struct record *rec, struct err *err);

static int each_record(int fd, uint64_t *at, record_fn fn, struct err *err)
{
    for (;;) {
        struct record rec;
        int r = image_read(fd, &rec, sizeof(rec), err);
        if (r < 0)
            return r;
        *at += sizeof(rec);
        if (rec.kind == ARCHIVE_END)
            return 0;
        if (rec.path_len >= PATH_MAX)
            return err_set(err, ERR_VALIDATION, "the image is damaged: a path is too long");
        r = fn(fd, &rec, err);
        if (r < 0)
            return r;
        *at += rec.path_len + rec.size;
    }
}

int archive_read(int fd, uint64_t *at, struct err *err)
{
    return each_record(fd, at, take_record, err);
}

int archive_skip(int fd, uint64_t *at, struct err *err)
{
    return each_record(fd, at, skip_record, err);
}

/* ---- the portable form ---- */

int image_write_portable(int fd, struct err *err)
{
    const uint64_t magic = PORTABLE_MAGIC;
    uint64_t at = sizeof(magic);
    int r = image_write(fd, &magic, sizeof(magic), err);
    return r < 0 ? r : archive_write(fd, &at, err);
}

uint64_t image_magic(int fd)
{
    uint64_t magic = 0;
    struct err ignored = ERR_INIT;
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at < 0)
        return image_read(fd, &magic, sizeof(magic), &ignored) < 0 ? 0 : magic;
    return pread(fd, &magic, sizeof(magic), at) == (ssize_t)sizeof(magic) ? magic : 0;
}

bool image_is_portable(uint64_t magic)
{
    return magic == PORTABLE_MAGIC;
}

int image_read_portable(int fd, struct err *err)
{
    uint64_t at = sizeof(uint64_t);
    if (lseek(fd, sizeof(uint64_t), SEEK_CUR) < 0 && errno != ESPIPE)
        return err_errno(err, ERR_IO, errno, "reading the image");
    return archive_read(fd, &at, err);
}

/* ---- … behind an image ---- */

int image_write_companion(int fd, struct err *err)
{
    const uint64_t magic = COMPANION_MAGIC;
    return image_write(fd, &magic, sizeof(magic), err);
}

int image_find_companion(int fd, int64_t begin, struct err *err)
{
    struct image_mark mark;
    struct image_head head;
    uint64_t at = (uint64_t)begin + sizeof(mark), magic = 0;
    int r = lseek(fd, begin, SEEK_SET) < 0 ? err_errno(err, ERR_IO, errno, "reading the image") :
                                             image_read(fd, &mark, sizeof(mark), err);
    if (r == 0 && mark.magic != IMAGE_MAGIC)
        r = err_set(err, ERR_NOT_FOUND, "the image is of another version of Riddle");
    if (r == 0)
        r = archive_skip(fd, &at, err);
    if (r == 0 && pread(fd, &head, sizeof(head), (off_t)image_pad(at)) != (ssize_t)sizeof(head))
        r = err_set(err, ERR_NOT_FOUND, "the image is cut off");
    if (r < 0)
        return r;
    if (head.magic != IMAGE_MAGIC || !image_sizes_are_good(&head))
        return err_set(err, ERR_NOT_FOUND, "the image has no head");
    off_t end = (off_t)(image_pad(image_pad(at) + image_tables_bytes(&head)) +
                        head.n_pages * IMAGE_PAGE + 8 * (1 + head.n_longs));
    if (pread(fd, &magic, sizeof(magic), end) != (ssize_t)sizeof(magic) ||
        magic != COMPANION_MAGIC || lseek(fd, end + (off_t)sizeof(magic), SEEK_SET) < 0)
        return err_set(err, ERR_NOT_FOUND, "no variables follow the image");
    return 0;
}
