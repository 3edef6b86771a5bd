/*
 * Sealed images (RIDDLE_IMAGE_KEY): a worker thread opens the file into memory that has no name,
 * and the kernel's start waits for it. The kernel gets that instead of the file, and reads it.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "sandbox/image_file.h"
#include "sandbox/local/local_impl.h"
#include "sandbox/wire.h"

struct unsealing {
    uv_work_t work;
    struct local_link *link;
    struct seal seal;
    int file, memory; /* who holds the link's image closes the memory */
    struct err err;
    json_t *start; /* waits to be sent; NULL: not yet asked for */
    int fds[FD_PASS_MAX];
    size_t n_fds;
};

static int unseal(struct unsealing *u, struct err *err)
{
    static const char head[IMAGE_FILE_HEAD_BYTES];
    auto_free char *sealed = malloc(IMAGE_SEALED_PIECE_BYTES), *plain = malloc(IMAGE_PIECE_BYTES);
    if (!sealed || !plain)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int r = fd_write_all(u->memory, head, sizeof(head), err);
    for (bool is_last = false; !is_last && r == 0;) {
        size_t n = 0;
        r = image_read_piece(u->file, sealed, IMAGE_SEALED_PIECE_BYTES, &n, err);
        is_last = n < IMAGE_SEALED_PIECE_BYTES;
        if (r == 0)
            r = seal_open_piece(&u->seal, is_last, sealed, n, plain, err);
        if (r == 0)
            r = fd_write_all(u->memory, plain, n - SEAL_TAG_BYTES, err);
    }
    explicit_bzero(plain, IMAGE_PIECE_BYTES);
    return r;
}

static void unseal_work(uv_work_t *work)
{
    struct unsealing *u = work->data;
    if (unseal(u, &u->err) < 0 && ftruncate(u->memory, 0) < 0)
        abort(); /* half an image must not be used */
    (void)lseek(u->memory, IMAGE_FILE_HEAD_BYTES, SEEK_SET);
    (void)fcntl(u->memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
}

static void unseal_done(uv_work_t *work, int status)
{
    struct unsealing *u = work->data;
    struct local_link *l = u->link;
    struct err err = ERR_INIT;
    l->unsealing = NULL;
    /* Of a file that does not open the kernel gets nothing, and says that it is damaged. */
    if (u->start && !l->released &&
        (status < 0 ||
         wire_send_json(l->kernel.control, WIRE_START, 0, u->start, u->fds, u->n_fds, &err) < 0))
        l->base.provider->ops->kill(&l->base);
    else if (!l->released && !l->base.dead)
        local_poll_control(l); /* requests that came behind the start */
    for (size_t i = 0; i < u->n_fds; i++)
        close(u->fds[i]);
    json_decref(u->start);
    close(u->file);
    seal_end(&u->seal);
    free(u);
    local_put_link(l);
}

int unseal_begin(struct local_link *l, int file, const struct seal *seal, struct err *err)
{
    struct unsealing *u = calloc(1, sizeof(*u));
    int memory = u ? memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    struct seal taken = *seal;
    if (memory < 0) {
        (void)err_errno(err, ERR_UNAVAILABLE, errno, "opening a sealed image");
        close(file);
        seal_end(&taken);
        free(u);
        return -ERR_UNAVAILABLE;
    }
    *u = (struct unsealing){
        .link = l, .seal = taken, .file = file, .memory = memory, .err = ERR_INIT
    };
    u->work.data = u;
    l->image = memory;
    l->unsealing = u;
    l->open_handles++;
    if (uv_queue_work(l->base.provider->loop, &u->work, unseal_work, unseal_done) < 0)
        abort(); /* only without a callback */
    return 0;
}

void unseal_hold_start(struct local_link *l, json_t *start, const int *fds, size_t n_fds)
{
    struct unsealing *u = l->unsealing;
    u->start = json_incref(start);
    memcpy(u->fds, fds, n_fds * sizeof(*fds));
    u->n_fds = n_fds;
}
