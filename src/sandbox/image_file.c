/* Images as files, from the outside. */

#include "sandbox/image_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"

#define BASE_PREFIX "base-"

struct file_head {
    char magic[8];
    char base_id[IMAGE_BASE_ID_SIZE];
    char unused[IMAGE_FILE_HEAD_BYTES - 8 - IMAGE_BASE_ID_SIZE];
};

_Static_assert(sizeof(struct file_head) == IMAGE_FILE_HEAD_BYTES, "pages of images are aligned");

static const char magic[8] = "RddlImg2";

int image_file_begin(int fd, const char *base_id, struct err *err)
{
    struct file_head h = { 0 };
    memcpy(h.magic, magic, sizeof(magic));
    snprintf(h.base_id, sizeof(h.base_id), "%s", base_id);
    ssize_t n = write(fd, &h, sizeof(h));
    return n == (ssize_t)sizeof(h) ? 0 : err_errno(err, ERR_IO, errno, "writing an image");
}

static bool is_id(const char *s)
{
    return strspn(s, "0123456789abcdef") == strlen(s);
}

int image_file_open(int fd, char ret_base_id[IMAGE_BASE_ID_SIZE], struct err *err)
{
    struct file_head h;
    ssize_t n = read(fd, &h, sizeof(h));
    if (n != (ssize_t)sizeof(h) || memcmp(h.magic, magic, sizeof(magic)) != 0 ||
        h.base_id[sizeof(h.base_id) - 1] != 0 || !is_id(h.base_id))
        return err_set(err, ERR_VALIDATION, "the image is damaged: it has no head");
    memcpy(ret_base_id, h.base_id, sizeof(h.base_id));
    return 0;
}

void image_base_path(const char *dir, const char *base_id, char *ret, size_t n)
{
    snprintf(ret, n, "%s/" BASE_PREFIX "%s", dir, base_id);
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
    DIR *dir = opendir(path);
    if (dir && find_used(dir, &used)) {
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
