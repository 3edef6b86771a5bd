/*
 * Images of a kernel, and its variables in the portable form.
 *
 * An image that lasts is a file, and is followed by the variables in the portable form, for a kernel that cannot
 * become the image. A child pickles them (the companion), because code of the user's classes runs
 * meanwhile: what it changes, and how long it takes, does not reach the image. The child is forked
 * when the pages of the image have been found: before, its pages would be shared with it, and not
 * with the zygote alone. It pickles while the kernel writes the image, and writes when it may.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "kernel/control.h"
#include "kernel/image/image.h"
#include "kernel/kernel_impl.h"
#include "kernel/python/rewind.h"

#define TEMPORARY_MAX 64 /* tables of SQL that are named when they are lost */
/* Of an image with more bytes no portable form is made. */
#define COMPANION_IMAGE_MAX (64ll << 20)
#define COMPANION_MS 5000

/* ---- from an image ---- */

int kernel_restore(struct kernel *k, int *ret_portable, struct err *err)
{
    size_t len;
    const void *unread = control_unread(&len);
    struct image_source source = { .fd = control_take_fd(), .base_fd = control_take_fd() };
    source.is_base = json_is_true(json_object_get(k->start, "own_base"));
    if (source.fd < 0)
        return err_set(err, ERR_PROTOCOL, "an image without its descriptor");
    off_t begin = lseek(source.fd, 0, SEEK_CUR);
    source.magic = image_magic(source.fd);
    if (!image_is_portable(source.magic)) {
        int r = image_restore(&source, unread, len, err);
        struct err ignored = ERR_INIT;
        k->has_files = true;
        if (source.follows) {
            *err = (struct err)ERR_INIT;
            *ret_portable = source.fd;
            return 0;
        }
        if (image_find_companion(source.fd, begin, &ignored) < 0) {
            close(source.fd);
            return r;
        }
        snprintf(k->no_image, sizeof(k->no_image), "%s", err->message);
        *err = (struct err)ERR_INIT;
        *ret_portable = source.fd;
        return 0;
    }
    if (source.base_fd >= 0)
        close(source.base_fd);
    *ret_portable = source.fd;
    return 0;
}

int kernel_read_portable(struct kernel *k, int fd, struct err *err)
{
    k->is_ported = true;
    int r = !k->parts->has_python ? err_set(err, ERR_PROTOCOL, "this kernel has no Python") :
            k->has_files          ? 0 :
                                    image_read_portable(fd, err);
    if (r == 0)
        r = python_load(fd, k->not_kept, sizeof(k->not_kept), err);
    if (r < 0 && k->no_image[0])
        err_set(err, err->code, "%s; variables behind it cannot be read either", k->no_image);
    return r;
}

/* ---- the portable form ---- */

static int save_variables(struct kernel *k, int fd, int go_fd, char not_kept[PYTHON_NOT_KEPT_SIZE],
                          struct err *err)
{
    static char tables[TEMPORARY_MAX][SQL_NAME_SIZE];
    size_t n = sql_temporary(k->parts->engine, tables, TEMPORARY_MAX);
    return python_save(fd, go_fd, tables, n, not_kept, PYTHON_NOT_KEPT_SIZE, err);
}

/* has_files: they have been written as those of an image. */
static void write_portable(struct kernel *k, int fd, bool has_files, struct result *out)
{
    char not_kept[PYTHON_NOT_KEPT_SIZE];
    struct err why = ERR_INIT;
    int r = !k->parts->has_python ? err_set(&why, ERR_CONFLICT, "a kernel without Python") :
            has_files             ? image_write_companion(fd, &why) :
                                    image_write_portable(fd, &why);
    if (r == 0)
        r = save_variables(k, fd, -1, not_kept, &why);
    result_begin(out, r < 0 ? WIRE_VERDICT_ERROR : WIRE_VERDICT_OK);
    if (r < 0) {
        result_error(out, "IMAGE", why.message);
        return;
    }
    json_out_key(&out->json, "not_kept");
    json_out_str(&out->json, not_kept, strlen(not_kept));
}

/* ---- the companion ---- */

/* In the frame of whoever writes the image: nothing else of the kernel may change meanwhile. */
struct companion {
    struct kernel *kernel;
    int fd;   /* of the image */
    int go;   /* the child writes when this is closed */
    int told; /* where it says what it lacks, when it is done */
    pid_t pid;
};

static _Noreturn void run_companion(const struct companion *c, int go, int told)
{
    struct err err = ERR_INIT;
    char not_kept[PYTHON_NOT_KEPT_SIZE];
    python_is_forked();
    bool done = save_variables(c->kernel, c->fd, go, not_kept, &err) == 0;
    close(c->fd);
    if (done)
        (void)!write(told, not_kept, strlen(not_kept) + 1); /* less than a pipe takes at once */
    close(told);
    for (;;) /* until it is reaped: taking it apart now would delay the answer */
        pause();
}

static void fork_companion(void *arg, int64_t bytes)
{
    struct companion *c = arg;
    int go[2], told[2];
    if (bytes > COMPANION_IMAGE_MAX || pipe2(go, O_CLOEXEC) < 0)
        return;
    if (pipe2(told, O_CLOEXEC) < 0) {
        close(go[0]);
        close(go[1]);
        return;
    }
    c->pid = _Fork(); /* no handlers of fork(): they would change the kernel */
    if (c->pid == 0) {
        close(go[1]);
        close(told[0]);
        run_companion(c, go[0], told[1]);
    }
    close(go[0]);
    close(told[1]);
    c->go = go[1];
    c->told = told[0];
}

/* Waits until the child has written, and tells what is not in it. */
static void await_companion(struct companion *c, struct result *out)
{
    char not_kept[PYTHON_NOT_KEPT_SIZE];
    size_t len = 0;
    int64_t until = clock_now_ms() + COMPANION_MS;
    struct err ignored = ERR_INIT;
    if (image_write_companion(c->fd, &ignored) < 0)
        return;
    close(TAKE_FD(c->go));
    for (bool any = true; any && len < sizeof(not_kept) && (len == 0 || not_kept[len - 1]);) {
        struct pollfd pfd = { .fd = c->told, .events = POLLIN };
        int64_t left = until - clock_now_ms();
        int r = left > 0 ? poll(&pfd, 1, (int)left) : 0;
        if (r < 0 && errno == EINTR)
            continue;
        ssize_t n = r > 0 ? read(c->told, not_kept + len, sizeof(not_kept) - len) : 0;
        any = n > 0;
        len += any ? (size_t)n : 0;
    }
    if (len > 0 && !not_kept[len - 1]) {
        json_out_key(&out->json, "companion_lacks");
        json_out_str(&out->json, not_kept, len - 1);
    }
}

/* The child is ended after the answer: nobody waits while Linux takes it apart. */
static void end_companion(struct companion *c)
{
    if (c->go >= 0)
        close(TAKE_FD(c->go));
    if (c->told >= 0)
        close(TAKE_FD(c->told));
    c->kernel->companion = MAX_OF(c->pid, 0);
}

void kernel_reap_companion(struct kernel *k)
{
    if (!k->companion)
        return;
    kill(k->companion, SIGKILL);
    while (waitpid(k->companion, NULL, 0) < 0 && errno == EINTR)
        ;
    k->companion = 0;
}

/* ---- the request ---- */

int kernel_run_image(struct kernel *k, const json_t *req, struct result *out, struct err *err)
{
    auto_close int fd = control_take_fd();
    auto_close int base = control_take_fd(); /* or none */
    struct err why = ERR_INIT;
    int64_t bytes = 0;
    if (fd < 0)
        return err_set(err, ERR_PROTOCOL, "an image without its descriptor");
    if (rewind_is_fork()) {
        result_begin(out, WIRE_VERDICT_ERROR);
        result_error(out, "IMAGE", "a debugger has gone back to an earlier step of its code");
        return 0;
    }
    if (json_is_true(json_object_get(req, "portable"))) {
        write_portable(k, fd, false, out);
        return 0;
    }
    bool is_live = json_is_true(json_object_get(req, "live"));
    struct companion companion = { .kernel = k, .fd = fd, .go = -1, .told = -1 };
    bool wants_companion =
        json_is_true(json_object_get(req, "companion")) && k->parts->has_python;
    struct image_hooks hooks = { .carry = control_resume,
                                 .found = wants_companion ? fork_companion : NULL,
                                 .arg = &companion,
                                 .is_live = is_live };
    bool suspended = k->parts->has_python && python_suspend();
    int r = image_save(fd, base, &hooks, &bytes, &why);
    if (suspended)
        python_resume();
    if (r == IMAGE_RESTORED) {
        fd = base = -1; /* another kernel's */
        kernel_tell_ready(k->parts);
        return 1;
    }
    if (r == -ERR_CONFLICT && is_live) {
        write_portable(k, fd, bytes > 0, out);
        return 0;
    }
    result_begin(out, r < 0 ? WIRE_VERDICT_ERROR : WIRE_VERDICT_OK);
    if (r < 0) {
        result_error(out, "IMAGE", why.message);
    } else {
        json_out_key(&out->json, "bytes");
        json_out_int(&out->json, bytes);
        if (companion.pid > 0)
            await_companion(&companion, out);
    }
    end_companion(&companion);
    return 0;
}
