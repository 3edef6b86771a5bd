/* Images as files, from the outside. */

#include "sandbox/image_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/macros.h"
#include "base/str.h"

#define BASE_PREFIX "base-"
#define SALT_HEX 32

struct file_head {
    char magic[8];
    struct {
        char base_id[IMAGE_BASE_ID_SIZE];
        char salt[SALT_HEX + 1]; /* "": it is not sealed */
    } known;                     /* what the key of the file is derived from besides */
    char check[HASH_HEX_SIZE];
    struct image_notes notes;
    char unused[IMAGE_FILE_HEAD_BYTES - 8 - IMAGE_BASE_ID_SIZE - SALT_HEX - 1 - HASH_HEX_SIZE -
                sizeof(struct image_notes)];
};

_Static_assert(sizeof(struct file_head) == IMAGE_FILE_HEAD_BYTES, "pages of images are aligned");

static const char magic[8] = "RddlImg2";

int image_file_begin(int fd, const char *base_id, const char *key, struct seal *ret_seal,
                     struct err *err)
{
    struct file_head h = { 0 };
    int r = 0;
    *ret_seal = (struct seal){ 0 };
    memcpy(h.magic, magic, sizeof(magic));
    snprintf(h.known.base_id, sizeof(h.known.base_id), "%s", base_id);
    if (key[0]) {
        id_hex(h.known.salt, SALT_HEX);
        r = seal_begin(ret_seal, key, &h.known, sizeof(h.known), h.check, err);
    }
    if (r == 0 && write(fd, &h, sizeof(h)) != (ssize_t)sizeof(h))
        r = err_errno(err, ERR_IO, errno, "writing an image");
    if (r < 0)
        seal_end(ret_seal);
    return r;
}

static bool is_id(const char *s, size_t size)
{
    return s[size - 1] == 0 && strspn(s, "0123456789abcdef") == strlen(s);
}

static int read_head(int fd, struct file_head *ret, struct err *err)
{
    ssize_t n = read(fd, ret, sizeof(*ret));
    if (n != (ssize_t)sizeof(*ret) || memcmp(ret->magic, magic, sizeof(magic)) != 0 ||
        !is_id(ret->known.base_id, sizeof(ret->known.base_id)) ||
        !is_id(ret->known.salt, sizeof(ret->known.salt)) || !is_id(ret->check, sizeof(ret->check)))
        return err_set(err, ERR_VALIDATION, "the image is damaged: it has no head");
    return 0;
}

int image_file_open(int fd, char ret_base_id[IMAGE_BASE_ID_SIZE], struct err *err)
{
    struct file_head h;
    int r = read_head(fd, &h, err);
    if (r == 0)
        memcpy(ret_base_id, h.known.base_id, sizeof(h.known.base_id));
    return r;
}

int image_file_unlock(int fd, const char *key, char ret_base_id[IMAGE_BASE_ID_SIZE],
                      struct seal *ret_seal, struct err *err)
{
    struct file_head h;
    char check[HASH_HEX_SIZE];
    *ret_seal = (struct seal){ 0 };
    int r = read_head(fd, &h, err);
    if (r < 0)
        return r;
    memcpy(ret_base_id, h.known.base_id, sizeof(h.known.base_id));
    if (!h.known.salt[0] && !key[0])
        return 0;
    if (!h.known.salt[0])
        return err_set(err, ERR_CONFLICT, "the image is not sealed with RIDDLE_IMAGE_KEY");
    if (!key[0])
        return err_set(err, ERR_CONFLICT, "the image is sealed, and RIDDLE_IMAGE_KEY is not set");
    r = seal_begin(ret_seal, key, &h.known, sizeof(h.known), check, err);
    if (r == 0 && !str_eq(check, h.check))
        r = err_set(err, ERR_CONFLICT,
                    "the image is sealed with another key than RIDDLE_IMAGE_KEY");
    if (r < 0)
        seal_end(ret_seal);
    return r;
}

int image_read_piece(int fd, char *piece, size_t n, size_t *ret_len, struct err *err)
{
    size_t len = 0;
    while (len < n) {
        ssize_t more = read(fd, piece + len, n - len);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return err_errno(err, ERR_IO, errno, "reading an image");
        if (more == 0)
            break;
        len += (size_t)more;
    }
    *ret_len = len;
    return 0;
}

void image_file_note(const char *path, const struct image_notes *notes)
{
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        (void)!pwrite(fd, notes, sizeof(*notes), offsetof(struct file_head, notes));
}

void image_file_noted(const char *path, struct image_notes *ret)
{
    struct file_head h;
    struct err ignored = ERR_INIT;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    *ret = (struct image_notes){ 0 };
    if (fd < 0 || read_head(fd, &h, &ignored) < 0)
        return;
    str_show(h.notes.not_kept, strnlen(h.notes.not_kept, sizeof(h.notes.not_kept)), ret->not_kept,
             sizeof(ret->not_kept));
    str_show(h.notes.not_elsewhere, strnlen(h.notes.not_elsewhere, sizeof(h.notes.not_elsewhere)),
             ret->not_elsewhere, sizeof(ret->not_elsewhere));
}

void image_base_path(const char *dir, const char *base_id, char *ret, size_t n)
{
    snprintf(ret, n, "%s/" BASE_PREFIX "%s", dir, base_id);
}

bool image_newest_base(const char *path, const char *key, char ret_id[IMAGE_BASE_ID_SIZE])
{
    struct timespec newest = { 0 };
    struct stat st;
    bool found = false;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *id = e->d_name + strlen(BASE_PREFIX);
        if (!str_starts(e->d_name, BASE_PREFIX) || !str_starts(id, key) ||
            strlen(id) != IMAGE_BASE_ID_SIZE - 1 || fstatat(dirfd(dir), e->d_name, &st, 0) < 0 ||
            (found && (st.st_mtim.tv_sec < newest.tv_sec || (st.st_mtim.tv_sec == newest.tv_sec &&
                                                             st.st_mtim.tv_nsec < newest.tv_nsec))))
            continue;
        found = true;
        newest = st.st_mtim;
        memcpy(ret_id, id, IMAGE_BASE_ID_SIZE);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* ---- bases that nobody needs ---- */

struct used_bases {
    char (*ids)[IMAGE_BASE_ID_SIZE];
    size_t n;
};

/* False if it cannot be remembered. */
static bool note_used(struct used_bases *used, const char *id)
{
    for (size_t i = 0; i < used->n; i++)
        if (str_eq(used->ids[i], id))
            return true;
    void *more = realloc(used->ids, (used->n + 1) * sizeof(used->ids[0]));
    if (!more)
        return false;
    used->ids = more;
    memcpy(used->ids[used->n++], id, IMAGE_BASE_ID_SIZE);
    return true;
}

static bool find_used(DIR *dir, struct used_bases *used)
{
    char id[IMAGE_BASE_ID_SIZE];
    struct err ignored = ERR_INIT;
    bool complete = true;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' || str_starts(e->d_name, BASE_PREFIX))
            continue;
        auto_close int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && image_file_open(fd, id, &ignored) == 0 && id[0])
            complete = note_used(used, id) && complete;
    }
    return complete;
}

void image_sweep_bases(const char *path)
{
    struct used_bases used = { 0 };
    char newest[IMAGE_BASE_ID_SIZE];
    DIR *dir = opendir(path);
    bool complete = !image_newest_base(path, "", newest) || note_used(&used, newest);
    if (dir && complete && find_used(dir, &used)) {
        rewinddir(dir);
        for (struct dirent *e; (e = readdir(dir));) {
            bool keep = !str_starts(e->d_name, BASE_PREFIX);
            for (size_t i = 0; i < used.n && !keep; i++)
                keep = str_eq(e->d_name + strlen(BASE_PREFIX), used.ids[i]);
            if (!keep)
                unlinkat(dirfd(dir), e->d_name, 0);
        }
    }
    if (dir)
        closedir(dir);
    free(used.ids);
}
