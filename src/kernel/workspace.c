/*
 * Theory of operation. Paths are walked name by name with O_NOFOLLOW, each directory opened in the
 * one before it: the filter refuses openat2, and a name that becomes a link between two steps is
 * refused by the step that opens it. Files are opened without blocking and looked at before they
 * are used, so that a FIFO is no trap. The jail bounds all of this besides: nothing outside it can
 * be reached by any path.
 *
 * /data/outputs is a directory of /workspace with another name: its files are listed and read as
 * outputs/….
 *
 * The list is made after every Python cell, so it has to be cheap when there is nothing: an empty
 * workspace is looked at again only when one of its two directories has changed.
 */

#include "kernel/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/jail/jail.h"
#include "sandbox/workspace_path.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FILE_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
/* Entries of any kind that are looked at for one list. */
#define VISITS_MAX 4096
#define CTIME_TICK_MS 20

/* ---- the list ---- */

struct found {
    char *path;
    int64_t size, modified_ms;
};

struct walk {
    struct found files[WORKSPACE_FILES_MAX];
    size_t n, visits;
    bool cut;  /* something is left out */
    bool full; /* … and nothing more is looked for */
    char path[WORKSPACE_PATH_MAX + 1];
};

static void add_file(struct walk *w, size_t len, const struct stat *st)
{
    char *copy = w->n < WORKSPACE_FILES_MAX ? strndup(w->path, len) : NULL;
    if (!copy) {
        w->cut = w->full = true;
        return;
    }
    w->files[w->n++] = (struct found){ .path = copy,
                                       .size = st->st_size,
                                       .modified_ms = (int64_t)st->st_mtim.tv_sec * 1000 +
                                                      st->st_mtim.tv_nsec / 1000000 };
}

static void walk_directory(struct walk *w, int fd, size_t len, int depth);

/* One entry of the directory `fd`, whose path is the first `len` bytes of w->path. */
static void visit(struct walk *w, int fd, size_t len, int depth, const struct dirent64 *e)
{
    if (e->d_type != DT_REG && e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)
        return;
    const char *name = depth == 1 && str_eq(e->d_name, JAIL_OUTPUTS_DIR) ? JAIL_OUTPUTS : e->d_name;
    size_t n = strlen(name), at = len ? len + 1 : 0;
    struct stat st;
    if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return;
    if (at + n > WORKSPACE_PATH_MAX || !workspace_name_ok(name, n)) {
        w->cut = true;
        return;
    }
    if (len)
        w->path[len] = '/';
    memcpy(w->path + at, name, n);
    if (S_ISREG(st.st_mode)) {
        add_file(w, at + n, &st);
        return;
    }
    auto_close int sub = depth < WORKSPACE_DEPTH_MAX ? openat(fd, e->d_name, DIR_FLAGS) : -1;
    if (sub < 0)
        w->cut = true; /* too deep, not readable, or gone meanwhile */
    else
        walk_directory(w, sub, at + n, depth + 1);
}

static void walk_directory(struct walk *w, int fd, size_t len, int depth)
{
    char entries[4096] __attribute__((aligned(8)));
    while (!w->full) {
        ssize_t n = getdents64(fd, entries, sizeof(entries));
        if (n < 0)
            w->cut = true;
        if (n <= 0)
            return;
        for (ssize_t at = 0; at < n && !w->full;) {
            const struct dirent64 *e = (const struct dirent64 *)(const void *)(entries + at);
            at += e->d_reclen;
            if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
                continue;
            if (w->visits++ == VISITS_MAX)
                w->cut = w->full = true;
            else
                visit(w, fd, len, depth, e);
        }
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

static void write_found(struct walk *w, struct json_out *out)
{
    qsort(w->files, w->n, sizeof(w->files[0]), by_path);
    for (size_t i = 0; i < w->n; i++) {
        /* A name that was given to two files while we looked is listed once. */
        if (i > 0 && str_eq(w->files[i].path, w->files[i - 1].path))
            continue;
        json_out_open(out, '{');
        json_out_key(out, "path");
        json_out_text(out, w->files[i].path);
        json_out_key(out, "size");
        json_out_int(out, w->files[i].size);
        json_out_key(out, "modified");
        json_out_int(out, w->files[i].modified_ms);
        json_out_close(out, '}');
    }
}

/* The directories of an empty workspace, when it was found to be empty. */
struct emptiness {
    struct stat root, outputs;
    bool is_known;
};

static bool look(const char *root, struct emptiness *ret)
{
    char outputs[PATH_MAX];
    int n = snprintf(outputs, sizeof(outputs), "%s/" JAIL_OUTPUTS_DIR, root);
    return n < (int)sizeof(outputs) && lstat(root, &ret->root) == 0 &&
           lstat(outputs, &ret->outputs) == 0 && S_ISDIR(ret->outputs.st_mode);
}

/* A change is told by ctime, which no program can set. Its clock may tick every 10 ms only. */
static bool is_settled(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ms = ((int64_t)now.tv_sec - st->st_ctim.tv_sec) * 1000 +
                 (now.tv_nsec - st->st_ctim.tv_nsec) / 1000000;
    return ms > CTIME_TICK_MS;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void walk_workspace(const char *root, struct walk *w)
{
    static struct emptiness empty;
    struct emptiness now = { .is_known = false };
    bool seen = look(root, &now);
    if (seen && empty.is_known && is_same(&now.root, &empty.root) &&
        is_same(&now.outputs, &empty.outputs))
        return;
    auto_close int fd = open(root, DIR_FLAGS);
    if (fd < 0)
        w->cut = true; /* no descriptor left, or made unreadable */
    else
        walk_directory(w, fd, 0, 1);
    empty = now;
    /* Nothing was there but the directory of outputs. */
    empty.is_known = seen && w->n == 0 && w->visits == 1 && !w->cut && is_settled(&now.root) &&
                     is_settled(&now.outputs);
}

void workspace_list(const char *root, struct json_out *out)
{
    struct walk w;
    if (!root)
        return;
    w.n = w.visits = 0;
    w.cut = w.full = false;
    walk_workspace(root, &w);
    json_out_key(out, "files");
    json_out_open(out, '[');
    write_found(&w, out);
    json_out_close(out, ']');
    json_out_key(out, "files_truncated");
    json_out_bool(out, w.cut);
    for (size_t i = 0; i < w.n; i++)
        free(w.files[i].path);
}

/* ---- one file ---- */

/* A refusal is a result. */
static void write_refusal(struct result *out, const struct err *why)
{
    result_begin(out, WIRE_VERDICT_ERROR);
    json_out_key(&out->json, "error");
    json_out_open(&out->json, '{');
    json_out_key(&out->json, "type");
    json_out_text(&out->json, err_name(why->code));
    json_out_key(&out->json, "message");
    json_out_text(&out->json, why->message);
    json_out_close(&out->json, '}');
}

static void write_size(struct result *out, int64_t size)
{
    result_begin(out, WIRE_VERDICT_OK);
    json_out_key(&out->json, "size");
    json_out_int(&out->json, size);
}

static int refuse_open(const char *path, int errnum, struct err *why)
{
    switch (errnum) {
    case ENOENT:
        return err_set(why, ERR_NOT_FOUND, "there is no '%s' in /workspace", path);
    case ELOOP:
        return err_set(why, ERR_VALIDATION, "'%s' is a link, and links are not followed", path);
    case ENOTDIR:
        return err_set(why, ERR_VALIDATION,
                       "'%s' leads through a link or something else that is no directory", path);
    case ENXIO:
    case ENODEV:
        return err_set(why, ERR_VALIDATION, "'%s' is not a regular file", path);
    case EISDIR:
        return err_set(why, ERR_VALIDATION, "'%s' is a directory", path);
    default:
        return err_errno(why, ERR_VALIDATION, errnum, "opening '%s'", path);
    }
}

/*
 * The limits are those of the file system and of the process: the message names the one that was
 * hit.
 */
static int refuse_space(const char *path, int dir, int errnum, struct err *why)
{
    struct statfs fs;
    struct rlimit limit;
    if (errnum == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0)
        return err_set(why, ERR_TOO_LARGE,
                       "'%s' would be larger than a file may be: %llu bytes (RIDDLE_FILE_SIZE)",
                       path, (unsigned long long)limit.rlim_cur);
    if ((errnum == ENOSPC || errnum == EDQUOT) && fstatfs(dir, &fs) == 0) {
        if (fs.f_ffree == 0)
            return err_set(
                why, ERR_TOO_LARGE,
                "no room for '%s': /workspace holds at most %llu files and directories (RIDDLE_INODES)",
                path, (unsigned long long)fs.f_files);
        return err_set(
            why, ERR_TOO_LARGE,
            "no room for '%s': /workspace holds at most %llu bytes (RIDDLE_WORKSPACE_SIZE)", path,
            (unsigned long long)fs.f_blocks * (unsigned long long)fs.f_bsize);
    }
    return err_errno(why, ERR_IO, errnum, "writing '%s'", path);
}

/* The directory that the last name of the path is in, as a descriptor; *ret_name is that name. */
static int open_parent(const char *root, const char *path, bool create, const char **ret_name,
                       struct err *why)
{
    char name[WORKSPACE_NAME_MAX + 1];
    if (!root)
        return err_set(why, ERR_UNAVAILABLE,
                       "this jail has no /workspace of its own; 'riddle doctor' tells why");
    if (!workspace_path_ok(path, strlen(path)))
        return err_set(why, ERR_VALIDATION, "no path of a file in /workspace");
    int dir = open(root, DIR_FLAGS);
    if (dir < 0)
        return err_errno(why, ERR_IO, errno, "opening /workspace");
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = 0;
        int next = openat(dir, name, DIR_FLAGS);
        if (next < 0 && errno == ENOENT && create) {
            if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST) {
                int r = refuse_space(name, dir, errno, why);
                close(dir);
                return r;
            }
            next = openat(dir, name, DIR_FLAGS);
        }
        int errnum = errno;
        close(dir);
        if (next < 0)
            return refuse_open(name, errnum, why);
        dir = next;
    }
    *ret_name = path;
    return dir;
}

/* Opens the file itself, which must be a regular one. */
static int open_regular(int dir, const char *name, int flags, struct stat *ret_st, struct err *why)
{
    auto_close int fd = openat(dir, name, FILE_FLAGS | flags, 0644);
    if (fd < 0)
        return errno == ENOSPC || errno == EDQUOT ? refuse_space(name, dir, errno, why) :
                                                    refuse_open(name, errno, why);
    if (fstat(fd, ret_st) < 0)
        return err_errno(why, ERR_IO, errno, "looking at '%s'", name);
    if (!S_ISREG(ret_st->st_mode))
        return refuse_open(name, S_ISDIR(ret_st->st_mode) ? EISDIR : ENODEV, why);
    return TAKE_FD(fd);
}

static int open_path(const char *root, const char *path, struct stat *ret_st, struct err *why)
{
    const char *name;
    auto_close int dir = open_parent(root, path, false, &name, why);
    return dir < 0 ? dir : open_regular(dir, name, O_RDONLY, ret_st, why);
}

static int read_piece(const char *root, const json_t *req, struct buf *piece, int64_t *ret_size,
                      struct err *why)
{
    const char *path = json_string_value(json_object_get(req, "path"));
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct stat st;
    int64_t offset = json_integer_value(json_object_get(req, "offset"));
    int64_t max = json_integer_value(json_object_get(req, "max_bytes"));
    char there[WORKSPACE_PATH_MAX + 8];
    auto_close int fd = open_path(root, path, &st, why);
    if (fd == -ERR_NOT_FOUND && str_starts(path, JAIL_OUTPUTS "/")) {
        struct err ignored = ERR_INIT;
        snprintf(there, sizeof(there), JAIL_OUTPUTS_DIR "%s", path + strlen(JAIL_OUTPUTS));
        int again = open_path(root, there, &st, &ignored);
        if (again >= 0)
            fd = again;
    }
    if (fd < 0)
        return fd;
    *ret_size = st.st_size;
    if (offset >= st.st_size)
        return 0;
    int r = buf_reserve(piece, (size_t)MIN_OF(max, st.st_size - offset), why);
    const size_t start = piece->len;
    while (r == 0 && (int64_t)(piece->len - start) < max) {
        char chunk[65536];
        int64_t got = (int64_t)(piece->len - start);
        ssize_t n = pread(fd, chunk, (size_t)MIN_OF((int64_t)sizeof(chunk), max - got),
                          offset + got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(why, ERR_IO, errno, "reading '%s'", name);
        if (n == 0)
            break;
        r = buf_append(piece, chunk, (size_t)n, why);
    }
    return r;
}

void workspace_read(const char *root, const json_t *req,
                    void (*emit)(const char *bytes, size_t len), struct result *out)
{
    struct err why = ERR_INIT;
    auto_buf struct buf piece = BUF_INIT(FILE_PIECE_MAX);
    int64_t size = 0;
    if (read_piece(root, req, &piece, &size, &why) < 0) {
        write_refusal(out, &why);
        return;
    }
    if (piece.len > 0)
        emit(piece.data, piece.len);
    write_size(out, size);
    json_out_key(&out->json, "bytes");
    json_out_int(&out->json, (int64_t)piece.len);
}

/* All of it, or nothing: what a full file system took is cut off again. */
static int write_all(int fd, int dir, const char *name, int64_t start, const char *data, size_t len,
                     struct err *why)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = pwrite(fd, data + at, len - at, start + (int64_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int r = refuse_space(name, dir, n < 0 ? errno : ENOSPC, why);
            (void)!ftruncate(fd, start);
            return r;
        }
        at += (size_t)n;
    }
    return 0;
}

static int write_piece(const char *root, const char *path, bool append, const char *data,
                       size_t len, int64_t *ret_size, struct err *why)
{
    const char *name;
    struct stat st;
    auto_close int dir = open_parent(root, path, true, &name, why);
    if (dir < 0)
        return dir;
    struct stat before;
    bool is_new = fstatat(dir, name, &before, AT_SYMLINK_NOFOLLOW) < 0;
    auto_close int fd = open_regular(dir, name, O_WRONLY | O_CREAT, &st, why);
    if (fd < 0)
        return fd;
    if (!append && ftruncate(fd, 0) < 0)
        return err_errno(why, ERR_IO, errno, "emptying '%s'", name);
    int64_t start = append ? st.st_size : 0;
    int r = write_all(fd, dir, name, start, data, len, why);
    if (r < 0 && is_new)
        (void)unlinkat(dir, name, 0);
    *ret_size = start + (int64_t)len;
    return r;
}

/* A file or a link, never what it points to. */
static int remove_file(const char *root, const char *path, struct err *why)
{
    const char *name;
    auto_close int dir = open_parent(root, path, false, &name, why);
    if (dir < 0)
        return dir;
    return unlinkat(dir, name, 0) < 0 ? refuse_open(name, errno, why) : 0;
}

void workspace_write(const char *root, const json_t *req, const char *data, size_t len,
                     struct result *out)
{
    struct err why = ERR_INIT;
    const char *path = json_string_value(json_object_get(req, "path"));
    int64_t size = 0;
    /* a cell may have changed it so that what we make could not be read */
    mode_t mask = umask(022);
    int r = json_is_true(json_object_get(req, "remove")) ?
                remove_file(root, path, &why) :
                write_piece(root, path, json_is_true(json_object_get(req, "append")), data, len,
                            &size, &why);
    umask(mask);
    if (r < 0)
        write_refusal(out, &why);
    else
        write_size(out, size);
}
