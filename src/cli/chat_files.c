/*
 * A file is made under its own name with O_EXCL and removed again when something fails. A copy
 * reads the chat's own sandbox, piece by piece; a chart is drawn in another one, so that it finds
 * nothing of the person's code in its way: its input is written there, the trusted code run
 * (src/agent/draw.h), and what comes of it read and checked.
 */

#include "cli/chat_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/draw.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/macros.h"
#include "cli/ask_chart.h"

struct chat_file {
    struct chat_file_listener listener;
    char path[PATH_MAX]; /* of the host */
    int fd;              /* -1: not made yet */
    char *from;          /* in /workspace */
    int64_t at, max_bytes;
    struct chat *chat;         /* of a copy */
    struct kernel_file_op *op; /* a piece on its way */
    struct lease *lease;       /* of a chart */
    const char *format;
    struct buf input, image;
};

static void file_free(struct chat_file *f)
{
    buf_finish(&f->input);
    buf_finish(&f->image);
    cleanup_close(&f->fd);
    free(f->from);
    free(f);
}

/* Tells; err is NULL when all is written. */
static void file_end(struct chat_file *f, const struct err *err)
{
    struct err copy = ERR_INIT;
    if (err) {
        copy = *err;
        if (f->fd >= 0)
            (void)unlink(f->path);
    }
    kernel_file_op_drop(TAKE_PTR(f->op));
    lease_release(TAKE_PTR(f->lease));
    f->listener.done(f->listener.arg, f->path, err ? &copy : NULL);
    file_free(f);
}

static int make_file(struct chat_file *f, struct err *err)
{
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (f->fd >= 0)
        return 0;
    return errno == EEXIST ? err_set(err, ERR_CONFLICT, "'%s' is there already", f->path) :
                             err_errno(err, ERR_IO, errno, "creating '%s'", f->path);
}

static struct chat_file *file_new(const struct chat_file_listener *listener, struct err *err)
{
    struct chat_file *f = calloc(1, sizeof(*f));
    if (!f) {
        err_set(err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    f->listener = *listener;
    f->fd = -1;
    buf_init(&f->input, DRAW_MAX_BYTES);
    buf_init(&f->image, DRAW_MAX_BYTES);
    return f;
}

/* ---- copies ---- */

static void on_piece(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct chat_file *f = arg;
    struct err why = ERR_INIT;
    f->op = NULL;
    if (err) {
        file_end(f, err);
        return;
    }
    int r = f->fd < 0 ? make_file(f, &why) : 0;
    if (r == 0 && f->at + (int64_t)piece->len > f->max_bytes)
        r = err_set(&why, ERR_TOO_LARGE, "the file is larger than all of /workspace may be");
    if (r == 0)
        r = fd_write_all(f->fd, piece->data, piece->len, &why);
    f->at += (int64_t)piece->len;
    if (r == 0 && (piece->end || piece->len == 0)) {
        file_end(f, NULL);
        return;
    }
    if (r == 0)
        r = chat_read_file(f->chat, f->from, f->at, on_piece, f, &f->op, &why);
    if (r < 0)
        file_end(f, &why);
}

static int name_copy(struct chat_file *f, const char *to, struct err *err)
{
    struct stat st;
    const char *slash = strrchr(f->from, '/'), *base = slash ? slash + 1 : f->from;
    bool into = to && stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    int n = to && !into ?
                snprintf(f->path, sizeof(f->path), "%s", to) :
                snprintf(f->path, sizeof(f->path), "%s%s%s", into ? to : "", into ? "/" : "", base);
    if (n <= 0 || (size_t)n >= sizeof(f->path) || !*base)
        return err_set(err, ERR_VALIDATION, "'%.200s' is no name for a file", to ? to : f->from);
    if (lstat(f->path, &st) == 0)
        return err_set(err, ERR_CONFLICT, "'%s' is there already", f->path);
    return 0;
}

int chat_file_save(struct chat *chat, const char *from, const char *to, int64_t max_bytes,
                   const struct chat_file_listener *listener, struct chat_file **ret,
                   struct err *err)
{
    struct chat_file *f = file_new(listener, err);
    if (!f)
        return -(int)err->code;
    f->from = strdup(from);
    f->chat = chat;
    f->max_bytes = max_bytes;
    int r = f->from ? name_copy(f, to, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = chat_read_file(chat, f->from, 0, on_piece, f, &f->op, err);
    if (r < 0) {
        file_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

/* ---- charts ---- */

static void finish_chart(struct chat_file *f)
{
    struct err err = ERR_INIT;
    int r = draw_check(f->format, f->image.data, f->image.len, &err);
    if (r == 0)
        r = make_file(f, &err);
    if (r == 0)
        r = fd_write_all(f->fd, f->image.data, f->image.len, &err);
    file_end(f, r < 0 ? &err : NULL);
}

static void on_image(struct lease *lease, const struct file_piece *piece, const struct err *err,
                     void *arg)
{
    struct chat_file *f = arg;
    struct err why = ERR_INIT;
    if (err) {
        file_end(f, err);
        return;
    }
    int r = buf_append(&f->image, piece->data, piece->len, &why);
    if (r == 0 && (piece->end || piece->len == 0)) {
        finish_chart(f);
        return;
    }
    if (r == 0)
        r = lease_read_file(lease, DRAW_OUTPUT, (int64_t)f->image.len, FILE_PIECE_MAX, on_image, f,
                            &why);
    if (r < 0)
        file_end(f, &why);
}

static void on_drawn(struct lease *lease, struct run_result *result, const struct err *err,
                     void *arg)
{
    struct chat_file *f = arg;
    struct err why = ERR_INIT;
    int r = 0;
    if (err) {
        why = *err;
        r = -(int)err->code;
    } else if (result->verdict != VERDICT_OK) {
        const char *message = json_string_value(
            json_object_get(json_object_get(result->body, "error"), "message"));
        r = err_set(&why, ERR_INTERNAL, "drawing the chart failed: %s",
                    message ? message : verdict_name(result->verdict));
    }
    if (result)
        run_result_finish(result);
    if (r == 0)
        r = lease_read_file(lease, DRAW_OUTPUT, 0, FILE_PIECE_MAX, on_image, f, &why);
    if (r < 0)
        file_end(f, &why);
}

static void on_written(struct lease *lease, const struct file_piece *piece, const struct err *err,
                       void *arg);

static int put_input(struct chat_file *f, struct err *err)
{
    int64_t at = f->at;
    size_t len = MIN_OF(f->input.len - (size_t)at, (size_t)FILE_PIECE_MAX);
    f->at += (int64_t)len;
    return lease_write_file(f->lease, DRAW_INPUT, f->input.data + at, len, at > 0, on_written, f,
                            err);
}

static void on_written(struct lease *lease, const struct file_piece *piece, const struct err *err,
                       void *arg)
{
    struct chat_file *f = arg;
    struct err why = ERR_INIT;
    const char *code = draw_code();
    struct run_request req = { .kind = RUN_PYTHON,
                               .code = code,
                               .code_len = strlen(code),
                               .policy = POLICY_OPEN,
                               .timeout_ms = DRAW_TIMEOUT_MS,
                               .max_rows = 1,
                               .max_output_bytes = 1 << 16 };
    (void)piece;
    if (err) {
        file_end(f, err);
        return;
    }
    int r = (size_t)f->at < f->input.len ? put_input(f, &why) :
                                           lease_run(lease, &req, NULL, on_drawn, f, &why);
    if (r < 0)
        file_end(f, &why);
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct chat_file *f = arg;
    struct err why = ERR_INIT;
    (void)lease;
    if (err)
        f->lease = NULL; /* it is gone already */
    if (err || put_input(f, &why) < 0)
        file_end(f, err ? err : &why);
}

int chat_file_draw(struct executor *ex, const struct config *cfg, const json_t *result,
                   const json_t *chart, const char *to, const struct chat_file_listener *listener,
                   struct chat_file **ret, struct err *err)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };
    struct chat_file *f = file_new(listener, err);
    if (!f)
        return -(int)err->code;
    sandbox_limits_default(cfg, &spec.limits);
    f->format = ask_chart_format(to);
    int r = ask_chart_check(to, true, err);
    if (r == 0 && access(to, F_OK) == 0)
        r = err_set(err, ERR_CONFLICT, "'%s' is there already", to);
    if (r == 0 && (size_t)snprintf(f->path, sizeof(f->path), "%s", to) >= sizeof(f->path))
        r = err_set(err, ERR_VALIDATION, "the chart's name is too long");
    if (r == 0)
        r = draw_input(result, chart, f->format, &f->input, err);
    if (r == 0)
        r = executor_acquire(ex, "chart", &spec, NULL, on_ready, f, &f->lease, err);
    if (r < 0) {
        file_free(f);
        return r;
    }
    *ret = f;
    return 0;
}

void chat_file_stop(struct chat_file *f)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_CANCELLED, "stopped; nothing was written");
    file_end(f, &err);
}
