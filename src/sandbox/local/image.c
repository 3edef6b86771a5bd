/*
 * Writing images. The kernel only has the end of a pipe: how much is written, and where, is decided
 * here. Bytes go from the pipe to the file without passing through this process.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/macros.h"
#include "sandbox/local/local_impl.h"

#define PIECE_BYTES (1u << 20)

struct image_writer {
    uv_work_t work;
    int pipe, file;
    int64_t max_bytes;
    link_done_fn done;
    void *arg;
    struct err err;
};

static void write_work(uv_work_t *work)
{
    struct image_writer *w = work->data;
    int64_t bytes = 0;
    for (;;) {
        ssize_t n = splice(w->pipe, NULL, w->file, NULL, PIECE_BYTES, SPLICE_F_MOVE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err_errno(&w->err, ERR_IO, errno, "writing an image");
        if (n <= 0)
            break;
        bytes += n;
        if (bytes > w->max_bytes) {
            err_set(&w->err, ERR_TOO_LARGE, "the image has more than %lld bytes",
                    (long long)w->max_bytes);
            break;
        }
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
    w->done(w->arg, w->err.code ? &w->err : NULL);
    free(w);
}

int image_writer_begin(uv_loop_t *loop, int pipe, const char *path, int64_t max_bytes,
                       link_done_fn done, void *arg, struct err *err)
{
    struct image_writer *w = calloc(1, sizeof(*w));
    unlink(path);
    int file = w ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (file < 0) {
        free(w);
        return err_errno(err, ERR_IO, errno, "making an image");
    }
    *w = (struct image_writer){ .pipe = pipe,
                                .file = file,
                                .max_bytes = max_bytes,
                                .done = done,
                                .arg = arg,
                                .err = ERR_INIT };
    w->work.data = w;
    if (uv_queue_work(loop, &w->work, write_work, write_done) < 0)
        abort(); /* only without a callback */
    return 0;
}
