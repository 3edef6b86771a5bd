/*
 * Files into containers and out of them. All reading and writing of this host's files is done by
 * the loop's worker threads, one piece at a time: a piece is read when the stream has taken the one
 * before, and the stream is not read while a piece is being written.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/str.h"
#include "sandbox/docker/docker_impl.h"

#define PIECE_BYTES MUX_PAYLOAD_MAX
/* What may wait in the stream before the next piece is read. */
#define QUEUED_MAX (1u << 20)

static int uv_err(struct err *err, int code, const char *what)
{
    return err_set(err, ERR_IO, "%s: %s", what, uv_strerror(code));
}

/* ---- into a container ---- */

int docker_outbound_add(struct docker_outbound *o, const struct kernel_mount *mount,
                        struct err *err)
{
    void *more = realloc(o->files, (o->n_files + 1) * sizeof(*o->files));
    char *path = mount->writable ? NULL : strdup(mount->path), *target = strdup(mount->target);
    if (more)
        o->files = more;
    if (!more || (!path && !mount->writable) || !target) {
        free(path);
        free(target);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    o->files[o->n_files].path = path;
    o->files[o->n_files++].target = target;
    return 0;
}

static void close_now(int *fd)
{
    if (*fd >= 0)
        close(TAKE_FD(*fd));
}

void docker_outbound_finish(struct docker_outbound *o)
{
    close_now(&o->fd);
    for (size_t i = 0; i < o->n_files; i++) {
        free(o->files[i].path);
        free(o->files[i].target);
    }
    free(TAKE_PTR(o->files));
    free(TAKE_PTR(o->chunk));
    o->n_files = o->next = 0;
}

static int announce(const struct docker_outbound *o, struct engine_stream *stream, struct err *err)
{
    auto_buf struct buf frame = BUF_INIT(MUX_PAYLOAD_MAX + MUX_HEAD_BYTES);
    const char *target = o->files[o->next].target;
    auto_json json_t *head = o->files[o->next].path ?
                                 json_pack("{s:s, s:I}", "target", target, "size",
                                           (json_int_t)o->size) :
                                 json_pack("{s:s, s:b}", "target", target, "writable", 1);
    auto_free char *text = head ? json_to_str(head) : NULL;
    if (!text)
        return err_set(err, ERR_VALIDATION, "a file's name is not valid UTF-8");
    int r = mux_append(&frame, MUX_FILE, text, strlen(text), err);
    return r < 0 ? r : engine_stream_write(stream, frame.data, frame.len, err);
}

/* The end of a step: req is cleaned up, the link is told. */
static void outbound_step(struct docker_outbound *o, int r, const struct err *err)
{
    uv_fs_req_cleanup(&o->req);
    o->under_way = false;
    docker_outbound_ready(o->link, r < 0 ? err : NULL);
}

static void on_read(uv_fs_t *req)
{
    struct docker_outbound *o = req->data;
    struct err err = ERR_INIT;
    int r = 0;
    if (req->result < 0)
        r = uv_err(&err, (int)req->result, "reading a data file");
    else if (req->result == 0 || req->result > o->size - o->offset)
        r = err_set(&err, ERR_CONFLICT,
                    "a data file changed while it was being sent to its container");
    else
        o->offset += req->result;
    outbound_step(o, r, &err);
}

static void on_opened(uv_fs_t *req)
{
    struct docker_outbound *o = req->data;
    struct err err = ERR_INIT;
    struct stat st;
    int r = 0;
    o->fd = (int)req->result;
    o->offset = 0;
    if (o->fd < 0)
        r = uv_err(&err, o->fd, "opening a data file");
    else if (fstat(o->fd, &st) < 0 || !S_ISREG(st.st_mode))
        r = err_set(&err, ERR_VALIDATION, "a data file is no regular file");
    else
        o->size = st.st_size;
    outbound_step(o, r, &err);
}

/* A piece has been read: it goes to the stream. */
static int send_piece(struct docker_outbound *o, struct engine_stream *stream, size_t len,
                      struct err *err)
{
    auto_buf struct buf frame = BUF_INIT(PIECE_BYTES + MUX_HEAD_BYTES);
    int r = mux_append(&frame, MUX_DATA, o->chunk, len, err);
    return r < 0 ? r : engine_stream_write(stream, frame.data, frame.len, err);
}

int docker_outbound_pump(struct docker_outbound *o, struct engine_stream *stream, struct err *err)
{
    uv_loop_t *loop = docker_link_loop(o->link);
    int r = 0;
    while (r == 0 && o->next < o->n_files) {
        if (o->under_way || engine_stream_queued(stream) > QUEUED_MAX)
            return 0;
        o->req.data = o;
        if (o->sent < o->offset) {
            r = send_piece(o, stream, (size_t)(o->offset - o->sent), err);
            o->sent = o->offset;
            continue;
        }
        if (!o->files[o->next].path) {
            r = announce(o, stream, err);
            o->next++;
        } else if (o->fd < 0) {
            o->announced = false;
            o->sent = 0;
            r = uv_fs_open(loop, &o->req, o->files[o->next].path,
                           O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0, on_opened);
            o->under_way = r == 0;
        } else if (!o->announced) {
            r = announce(o, stream, err);
            o->announced = true;
        } else if (o->offset == o->size) {
            close_now(&o->fd);
            o->next++;
        } else {
            if (!o->chunk && !(o->chunk = malloc(PIECE_BYTES)))
                return err_set(err, ERR_NO_MEMORY, "out of memory");
            uv_buf_t buf = uv_buf_init(o->chunk, PIECE_BYTES);
            r = uv_fs_read(loop, &o->req, o->fd, &buf, 1, o->offset, on_read);
            o->under_way = r == 0;
        }
    }
    return r < 0 ? r : 1;
}

/* ---- out of a container ---- */

static void inbound_step(struct docker_inbound *in, int r, const struct err *err)
{
    uv_fs_req_cleanup(&in->req);
    in->under_way = false;
    docker_inbound_ready(in->link, r < 0 ? err : NULL);
}

static void on_synced(uv_fs_t *req)
{
    struct docker_inbound *in = req->data;
    struct err err = ERR_INIT;
    int r = req->result < 0 ? uv_err(&err, (int)req->result, "syncing a table") : 0;
    close_now(&in->fd);
    inbound_step(in, r, &err);
}

/* The file is whole: on the disk before the answer that speaks of it. */
static int sync_file(struct docker_inbound *in)
{
    in->under_way = true;
    return uv_fs_fsync(docker_link_loop(in->link), &in->req, in->fd, on_synced);
}

static void on_written(uv_fs_t *req)
{
    struct docker_inbound *in = req->data;
    struct err err = ERR_INIT;
    int r = 0;
    ssize_t n = req->result;
    if (n != in->chunk_len)
        r = uv_err(&err, n < 0 ? (int)n : UV_ENOSPC, "writing a table");
    in->offset += in->chunk_len;
    if (r == 0 && in->left == 0) {
        uv_fs_req_cleanup(req);
        int code = sync_file(in);
        if (code == 0)
            return;
        r = uv_err(&err, code, "syncing a table");
    }
    inbound_step(in, r, &err);
}

/* "out/table.duckdb" for the directory "out". */
int docker_inbound_begin(struct docker_inbound *in, const struct mux_frame *f, struct err *err)
{
    auto_json json_t *head = NULL;
    const char *target = NULL;
    long long size = 0;
    int r = json_parse(f->data, f->len, &head, err);
    if (r == 0)
        r = json_get_str(head, "target", "", &target, err);
    if (r == 0)
        r = json_get_i64(head, "size", 0, 0, INT64_MAX, &size, err);
    size_t len = in->target ? strlen(in->target) : 0;
    if (r < 0 || in->fd >= 0 || in->left || !in->target || strncmp(target, in->target, len) != 0 ||
        target[len] != '/')
        return err_set(err, ERR_PROTOCOL, "a container sent a file that nobody asked for");
    const char *name = target + len + 1;
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 200)
        return err_set(err, ERR_PROTOCOL, "a container sent a file of a bad name");
    if (size > in->max_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "a container sent a file of %lld bytes; the limit is %lld", size,
                       (long long)in->max_bytes);
    char path[4600];
    snprintf(path, sizeof(path), "%.4200s/%s", in->path, name);
    /* An answer before this one may have sent it already. */
    (void)unlink(path);
    in->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (in->fd < 0)
        return err_set(err, ERR_IO, "creating a table");
    in->left = size;
    in->offset = 0;
    in->req.data = in;
    if (size == 0)
        close_now(&in->fd);
    return 0;
}

int docker_inbound_data(struct docker_inbound *in, const struct mux_frame *f, struct err *err)
{
    if (in->fd < 0 || (int64_t)f->len > in->left)
        return err_set(err, ERR_PROTOCOL, "a container sent more of a file than it announced");
    if (f->len == 0)
        return 0;
    if (!in->chunk && !(in->chunk = malloc(PIECE_BYTES)))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    memcpy(in->chunk, f->data, f->len);
    in->chunk_len = (ssize_t)f->len;
    in->left -= (int64_t)f->len;
    uv_buf_t buf = uv_buf_init(in->chunk, (unsigned)f->len);
    in->under_way = true;
    int r = uv_fs_write(docker_link_loop(in->link), &in->req, in->fd, &buf, 1, in->offset,
                        on_written);
    return r < 0 ? uv_err(err, r, "writing a table") : 0;
}

void docker_inbound_finish(struct docker_inbound *in)
{
    close_now(&in->fd);
    free(TAKE_PTR(in->target));
    free(TAKE_PTR(in->path));
    free(TAKE_PTR(in->chunk));
}
