/*
 * Writing images. The kernel only has the end of a pipe: how much is written, and where, is decided
 * here. Bytes are copied in large pieces: splice() does it page by page, which takes three times as
 * long.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "sandbox/image_file.h"
#include "sandbox/local/local_impl.h"

#define PIPE_BYTES (1 << 20) /* of an image on its way */

struct image_writer {
    uv_work_t work;
    int pipe, file;
    struct seal seal; /* not begun: as the kernel writes it */
    int64_t max_bytes;
    link_done_fn done;
    void *arg;
    struct err err;
};

static int write_piece(struct image_writer *w, const char *piece, size_t n, char *sealed)
{
    if (!w->seal.cipher)
        return fd_write_all(w->file, piece, n, &w->err);
    int r = seal_piece(&w->seal, n < IMAGE_PIECE_BYTES, piece, n, sealed, &w->err);
    return r < 0 ? r : fd_write_all(w->file, sealed, n + SEAL_TAG_BYTES, &w->err);
}

static void write_work(uv_work_t *work)
{
    struct image_writer *w = work->data;
    auto_free char *piece = malloc(IMAGE_PIECE_BYTES), *sealed = malloc(IMAGE_SEALED_PIECE_BYTES);
    int64_t bytes = 0;
    int r = piece && sealed ? 0 : err_set(&w->err, ERR_NO_MEMORY, "out of memory");
    while (r == 0) {
        size_t n = 0;
        r = image_read_piece(w->pipe, piece, IMAGE_PIECE_BYTES, &n, &w->err);
        bytes += (int64_t)n;
        if (r == 0 && bytes > w->max_bytes)
            r = err_set(&w->err, ERR_TOO_LARGE, "the image has more than %lld bytes",
                        (long long)w->max_bytes);
        if (r == 0)
            r = write_piece(w, piece, n, sealed);
        if (r == 0) /* less to wait for at the end; ignored where it cannot be */
            (void)sync_file_range(w->file, 0, 0, SYNC_FILE_RANGE_WRITE);
        if (n < IMAGE_PIECE_BYTES)
            break;
    }
    close(TAKE_FD(w->pipe)); /* a kernel that still writes is told */
    if (!w->err.code && fdatasync(w->file) < 0)
        err_errno(&w->err, ERR_IO, errno, "writing an image");
}

static void write_done(uv_work_t *work, int status)
{
    struct image_writer *w = work->data;
    if (status < 0 && !w->err.code)
        err_set(&w->err, ERR_CANCELLED, "writing an image was cancelled");
    if (w->pipe >= 0)
        close(w->pipe);
    close(w->file);
    seal_end(&w->seal);
    w->done(w->arg, w->err.code ? &w->err : NULL);
    free(w);
}

static int image_writer_begin(const struct local *p, int pipe, const char *path,
                              const char *base_id, int64_t max_bytes, link_done_fn done, void *arg,
                              struct err *err)
{
    struct image_writer *w = calloc(1, sizeof(*w));
    struct seal seal;
    unlink(path);
    int file = w ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        free(w);
        return err_errno(err, ERR_IO, errno, "making an image");
    }
    int r = image_file_begin(file, base_id, p->base.cfg->image_key, &seal, err);
    if (r < 0) {
        close(file);
        free(w);
        return r;
    }
    *w = (struct image_writer){ .pipe = pipe,
                                .file = file,
                                .seal = seal,
                                .max_bytes = max_bytes,
                                .done = done,
                                .arg = arg,
                                .err = ERR_INIT };
    w->work.data = w;
    if (uv_queue_work(p->base.loop, &w->work, write_work, write_done) < 0)
        abort(); /* only without a callback */
    return 0;
}

/* ---- images of a link ---- */

static void on_written(void *arg, const struct err *err)
{
    struct local_link *l = arg;
    l->is_writing = false;
    if (!l->released)
        l->written(l->written_arg, err);
    local_put_link(l);
}

static void on_not_written(uv_timer_t *h)
{
    struct local_link *l = h->data;
    l->written(l->written_arg, &l->settle_err);
}

static int open_base(struct local *p, const char *id)
{
    char dir[4200], path[4300];
    snprintf(dir, sizeof(dir), "%s/images", p->home);
    image_base_path(dir, id, path, sizeof(path));
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* An image whose base cannot be opened is a whole one. */
static void pass_base(struct local_link *l)
{
    if (l->passed_base >= 0)
        close(l->passed_base);
    l->passed_base = l->base_id[0] ? open_base(provider_of(l), l->base_id) : -1;
    if (l->passed_base < 0)
        l->base_id[0] = '\0';
}

struct base_work {
    uv_work_t work;
    struct local_link *link;
    char id[IMAGE_BASE_ID_SIZE];
    struct err err;
};

static void base_work(uv_work_t *work)
{
    struct base_work *w = work->data;
    (void)zygote_base(provider_of(w->link), w->link->kind, w->link->kernel.generation, w->id,
                      &w->err);
}

static void base_done(uv_work_t *work, int status)
{
    struct base_work *w = work->data;
    struct local_link *l = w->link;
    if (status == 0 && !w->err.code) {
        memcpy(l->base_id, w->id, sizeof(w->id));
        memcpy(provider_of(l)->bases[l->kind].id, w->id, sizeof(w->id));
        provider_of(l)->bases[l->kind].generation = l->kernel.generation;
    }
    free(w);
    if (!l->released)
        l->written(l->written_arg, NULL);
    local_put_link(l);
}

static void on_prepared(uv_timer_t *h)
{
    struct local_link *l = h->data;
    l->written(l->written_arg, NULL);
}

void local_prepare_image(struct kernel_link *link, link_done_fn done, void *arg)
{
    struct local_link *l = of(link);
    struct local *p = provider_of(l);
    struct base_work *w = NULL;
    l->written = done;
    l->written_arg = arg;
    if (!l->base_id[0] && p->bases[l->kind].generation == l->kernel.generation)
        memcpy(l->base_id, p->bases[l->kind].id, sizeof(l->base_id));
    if (!l->base_id[0])
        w = calloc(1, sizeof(*w));
    if (!w) {
        uv_timer_start(&l->settle, on_prepared, 0, 0);
        return;
    }
    *w = (struct base_work){ .link = l, .err = ERR_INIT };
    w->work.data = w;
    l->open_handles++;
    if (uv_queue_work(p->base.loop, &w->work, base_work, base_done) < 0)
        abort(); /* only without a callback */
}

void local_image(struct kernel_link *link, const char *path, int64_t max_bytes, link_done_fn done,
                 void *arg)
{
    struct local_link *l = of(link);
    struct err *err = &l->settle_err;
    int ends[2];
    l->settle_err = (struct err)ERR_INIT;
    l->written = done;
    l->written_arg = arg;
    int r = pipe2(ends, O_CLOEXEC) < 0 ? err_errno(err, ERR_IO, errno, "making a pipe") : 0;
    if (r == 0) {
        (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
        pass_base(l);
        r = image_writer_begin(provider_of(l), ends[0], path, l->base_id, max_bytes,
                               on_written, l, err);
        if (r < 0) {
            close(ends[0]);
            close(ends[1]);
        }
    }
    if (r < 0) {
        uv_timer_start(&l->settle, on_not_written, 0, 0);
        return;
    }
    l->is_writing = true;
    l->open_handles++;
    if (l->passed >= 0)
        close(l->passed);
    l->passed = ends[1];
}

/*
 * A kernel maps the file, and its code sees the path in /proc/self/maps: behind a mount of the file
 * alone, where riddle may make one, that is "/".
 */
static int open_image(const struct local *p, const char *path)
{
    char link[64];
    auto_close int mount = p->root ? open_tree(AT_FDCWD, path,
                                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                                   AT_SYMLINK_NOFOLLOW) :
                                     -1;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", mount);
    int fd = mount >= 0 ? open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    return fd >= 0 ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

int local_restore(struct kernel_link *link, const char *path, struct err *err)
{
    struct local_link *l = of(link);
    struct seal seal;
    if (l->image >= 0)
        close(TAKE_FD(l->image));
    if (l->image_base >= 0)
        close(TAKE_FD(l->image_base));
    l->image = open_image(provider_of(l), path);
    if (l->image < 0)
        return err_errno(err, ERR_NOT_FOUND, errno, "opening an image");
    int r = image_file_unlock(l->image, l->base.provider->cfg->image_key, l->base_id, &seal, err);
    if (r == 0 && l->base_id[0]) /* without it, the kernel reads what follows the image */
        l->image_base = open_base(provider_of(l), l->base_id);
    if (r == 0 && seal.cipher)
        r = unseal_begin(l, TAKE_FD(l->image), &seal, err);
    else
        seal_end(&seal);
    return r;
}

int local_branch(struct kernel_link *from, struct kernel_link *to, struct err *err)
{
    struct local_link *f = of(from), *t = of(to);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, ERR_IO, errno, "making a pipe");
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
    pass_base(f);
    if (f->passed >= 0)
        close(f->passed);
    f->passed = ends[1];
    if (t->image >= 0)
        close(t->image);
    if (t->image_base >= 0)
        close(t->image_base);
    t->image = ends[0];
    memcpy(t->base_id, f->base_id, sizeof(t->base_id));
    t->image_base = f->base_id[0] ? open_base(provider_of(f), f->base_id) : -1;
    return 0;
}

/* Its memory is that of its own zygote, whatever the file was a difference to. */
void local_was_ported(struct kernel_link *link)
{
    of(link)->base_id[0] = '\0';
}

/* Whether the kernel was forked from the process that its image is a difference to. */
bool local_is_own_base(const struct local_link *l)
{
    const struct local *p = (const struct local *)l->base.provider;
    return l->base_id[0] && str_eq(p->bases[l->kind].id, l->base_id) &&
           p->bases[l->kind].generation == l->kernel.generation;
}
