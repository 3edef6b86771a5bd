/*
 * Names and contents are the code's, so both are taken for hostile: names have been checked for
 * what could climb (workspace_files_ok()), no link below the directory is followed, nothing is
 * replaced unasked, and no more is written than the sandbox could have held.
 */

#include "cli/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/macros.h"
#include "cli/table.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/*
 * A descriptor of the directory that the last name is in, made as needed unless only looked for;
 * NOT_FOUND then.
 */
static int open_parent(int top, const char *path, bool make, const char **ret_name, struct err *err)
{
    char name[NAME_MAX + 1];
    int dir = fcntl(top, F_DUPFD_CLOEXEC, 0);
    for (const char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
        if (make)
            (void)mkdirat(dir, name, 0755);
        int next = openat(dir, name, DIR_FLAGS), errnum = errno;
        close(dir);
        if (next < 0)
            return err_errno(err, errnum == ENOENT ? ERR_NOT_FOUND : ERR_CONFLICT, errnum,
                             "directory '%s'", name);
        dir = next;
    }
    *ret_name = path;
    return dir < 0 ? err_errno(err, ERR_IO, errno, "opening a directory") : dir;
}

/* The bytes of the directory's name before a slash and the name of a file. */
static int shown_len(const struct save *s)
{
    size_t n = strlen(s->directory);
    while (n > 0 && s->directory[n - 1] == '/')
        n--;
    return (int)n;
}

/* Nothing may stand where a file is to go; with force, nothing but a file. */
static int check_free(const struct save *s, int top, const char *path, struct err *err)
{
    const char *name;
    struct stat st;
    auto_close int dir = open_parent(top, path, false, &name, err);
    if (dir == -ERR_NOT_FOUND)
        return 0;
    if (dir < 0)
        return err_wrap(err, "saving '%s'", path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (s->force && !S_ISDIR(st.st_mode)))
        return 0;
    return err_set(err, ERR_CONFLICT, "'%.*s/%s' is there already and nothing was saved%s",
                   shown_len(s), s->directory, path,
                   s->force ? ": it is a directory" : "; --force replaces it");
}

/* Piece by piece, up to the size that was told and the bytes that are left. */
static int copy_content(struct foreground *fg, struct lease *lease, const char *path, int fd,
                        int64_t size, int64_t *left, struct err *err)
{
    auto_buf struct buf data = BUF_INIT(2 * FILE_PIECE_MAX);
    struct file_piece piece = { .end = false };
    for (int64_t at = 0; !piece.end && at < size; at += (int64_t)piece.len) {
        int r = foreground_read_file(
            fg, lease, path, at, MIN_OF(size - at, (int64_t)FILE_PIECE_MAX), &data, &piece, err);
        if (r == 0 && (int64_t)piece.len > *left)
            r = err_set(err, ERR_TOO_LARGE, "the files are larger than all of /workspace may be");
        if (r == 0)
            r = fd_write_all(fd, piece.data, piece.len, err);
        if (r < 0)
            return r;
        *left -= (int64_t)piece.len;
    }
    return 0;
}

static int save_file(const struct save *s, struct foreground *fg, struct lease *lease, int top,
                     const json_t *file, int64_t *left, struct err *err)
{
    const char *path = json_string_value(json_object_get(file, "path")), *name;
    char id[17], temporary[64];
    auto_close int dir = open_parent(top, path, true, &name, err);
    if (dir < 0)
        return dir;
    id_hex(id, 16);
    snprintf(temporary, sizeof(temporary), ".riddle-%s", id);
    auto_close int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               0644);
    if (fd < 0)
        return err_errno(err, ERR_IO, errno, "creating a file in '%s'", s->directory);
    int r = copy_content(fg, lease, path, fd, json_integer_value(json_object_get(file, "size")),
                         left, err);
    if (r == 0 && renameat2(dir, temporary, dir, name, s->force ? 0 : RENAME_NOREPLACE) < 0 &&
        (errno != EINVAL || linkat(dir, temporary, dir, name, 0) <
                                0)) /* EINVAL: a file system that only knows rename */
        r = err_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_IO, errno, "naming it");
    (void)unlinkat(dir, temporary, 0);
    return r;
}

int save_files(const struct save *s, struct foreground *fg, struct lease *lease, const json_t *body,
               struct err *err)
{
    const json_t *files = json_object_get(body, "files"), *f;
    int64_t left = s->max_bytes;
    size_t i;
    int r = fd_mkdir_p(s->directory, 0755, err);
    if (r < 0)
        return r;
    auto_close int top = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return err_errno(err, ERR_IO, errno, "'%s'", s->directory);
    json_array_foreach(files, i, f) {
        r = check_free(s, top, json_string_value(json_object_get(f, "path")), err);
        if (r < 0)
            return r;
    }
    json_array_foreach(files, i, f) {
        const json_t *path = json_object_get(f, "path");
        r = save_file(s, fg, lease, top, f, &left, err);
        if (r < 0)
            return err_wrap(err, "saving '%s'", json_string_value(path));
        auto_buf struct buf shown = BUF_INIT(8192);
        (void)table_append_visible(&shown, json_string_value(path), json_string_length(path), false,
                                   NULL);
        fprintf(stderr, "file: %.*s/%s\n", shown_len(s), s->directory, buf_cstr(&shown));
    }
    if (json_is_true(json_object_get(body, "files_truncated")))
        return err_set(
            err, ERR_TOO_LARGE,
            "not everything in /workspace was saved: too many files, too deep, or names that cannot be told");
    return 0;
}
