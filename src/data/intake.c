/*
 * Files on their way in.
 *
 * Theory of operation. The multipart parser hands pieces of the body on; they are copied into
 * chunks, which wait in a list. As soon as the worker pool is free for this request it takes the
 * whole list: opens, writes, hashes, syncs. While it is at work the next list fills up; when that
 * is full too the parser is paused, and with it the client, so a request never holds more than two
 * lists.
 */

#include "data/intake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/log.h"
#include "base/str.h"

#define CHUNK_BYTES (64u << 10)
#define PENDING_MAX (256u << 10)
#define FIELD_MAX (64u << 10) /* of a plain form field */

struct intake_chunk {
    struct intake_chunk *next;
    struct intake_file *file;
    bool last; /* of its file */
    size_t len, cap;
    char data[];
};

/* ---- memory ---- */

static void free_chunks(struct intake_chunk *c)
{
    while (c) {
        struct intake_chunk *next = c->next;
        free(c);
        c = next;
    }
}

static void recycle_chunks(struct intake *in, struct intake_chunk *c)
{
    while (c) {
        struct intake_chunk *next = c->next;
        if (c->cap == CHUNK_BYTES) {
            c->next = in->spare;
            in->spare = c;
        } else {
            free(c);
        }
        c = next;
    }
}

void intake_file_finish(struct intake_file *f)
{
    if (f->fd >= 0)
        close(TAKE_FD(f->fd));
    hash_drop(&f->hash);
}

void intake_finish(struct intake *in)
{
    free_chunks(TAKE_PTR(in->pending));
    free_chunks(TAKE_PTR(in->spare));
    multipart_destroy(TAKE_PTR(in->parser));
    buf_finish(&in->field);
}

/* ---- in the worker pool ---- */

static int open_file(struct intake_file *f, struct err *err)
{
    char path[PATH_MAX + INTAKE_NAME_SIZE];
    int r = -1;
    /*
     * Another request of this owner may just have removed the directory above because it was empty:
     * then once more.
     */
    for (int tries = 0; tries < 3 && r < 0; tries++)
        r = fd_mkdir_p(f->dir, 0700, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%s/%s", f->dir, f->name);
    /*
     * Readable for all below a directory that is not: kernels run as another user and get the file
     * by a mount.
     */
    f->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0)
        return err_errno(err, ERR_IO, errno, "storing '%s'", f->filename);
    (void)fchmod(f->fd, 0644);
    return hash_begin(&f->hash, err);
}

static int close_file(struct intake_file *f, struct err *err)
{
    if (fdatasync(f->fd) < 0)
        return err_errno(err, ERR_IO, errno, "storing '%s'", f->filename);
    int fd = TAKE_FD(f->fd);
    if (close(fd) < 0)
        return err_errno(err, ERR_IO, errno, "storing '%s'", f->filename);
    return hash_end(&f->hash, f->sha256, err);
}

static int write_chunk(const struct intake_chunk *c, struct err *err)
{
    struct intake_file *f = c->file;
    int r = f->fd < 0 ? open_file(f, err) : 0;
    if (r == 0 && c->len > 0) {
        r = fd_write_all(f->fd, c->data, c->len, err);
        if (r == 0)
            r = hash_update(&f->hash, c->data, c->len, err);
        if (r < 0)
            err_wrap(err, "storing '%s'", f->filename);
    }
    return r == 0 && c->last ? close_file(f, err) : r;
}

static void write_work(void *arg)
{
    struct intake *in = arg;
    for (const struct intake_chunk *c = in->working; c; c = c->next)
        if (write_chunk(c, &in->work_err) < 0)
            return;
}

static void remove_work(void *arg)
{
    struct intake *in = arg;
    in->user->remove(in);
}

static void remove_done(void *arg)
{
    struct intake *in = arg;
    in->user->free(in);
}

/* ---- between loop and workers ---- */

void intake_abort(struct intake *in)
{
    in->aborted = true;
    in->req = NULL;
    in->user->uncount(in);
    if (in->busy)
        return;
    for (struct intake_file *f = in->files; f; f = f->next)
        if (f->fd >= 0)
            close(TAKE_FD(f->fd));
    if (loop_work(in->loop, remove_work, remove_done, in, NULL) < 0) {
        in->user->remove(in);
        in->user->free(in);
    }
}

static void written(void *arg);

static int pump(struct intake *in, struct err *err)
{
    if (in->busy || !in->pending)
        return 0;
    in->working = TAKE_PTR(in->pending);
    in->pending_end = &in->pending;
    in->pending_bytes = 0;
    in->busy = true;
    int r = loop_work(in->loop, write_work, written, in, err);
    if (r < 0) {
        in->busy = false;
        free_chunks(TAKE_PTR(in->working));
    }
    return r;
}

struct http_request *intake_take_request(struct intake *in)
{
    struct http_request *req = TAKE_PTR(in->req);
    if (req)
        http_set_data(req, NULL, NULL);
    return req;
}

static void written(void *arg)
{
    struct intake *in = arg;
    in->busy = false;
    in->err = in->work_err;
    recycle_chunks(in, TAKE_PTR(in->working));
    if (in->aborted) {
        intake_abort(in);
        return;
    }
    if (in->err.code == ERR_NONE)
        (void)pump(in, &in->err);
    if (!in->ended) {
        http_body_resume(in->req); /* on_body tells the error, if there is one */
        return;
    }
    if (in->err.code != ERR_NONE) {
        struct err why = in->err;
        struct http_request *req = intake_take_request(in);
        log_error("upload.write", LOG_STR("owner", in->owner), LOG_STR("error", why.message));
        intake_abort(in);
        if (req)
            http_reply_error(req, &why);
    } else if (!in->busy) {
        in->user->whole(in);
    }
}

static struct intake_chunk *chunk_for(struct intake *in, size_t cap, struct err *err)
{
    struct intake_chunk *c = cap == CHUNK_BYTES ? in->spare : NULL;
    if (c)
        in->spare = c->next;
    else
        c = malloc(sizeof(*c) + cap);
    if (!c) {
        err_set(err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    *c = (struct intake_chunk){ .file = in->current, .cap = cap };
    *in->pending_end = c;
    in->pending_end = &c->next;
    return c;
}

/* ---- callbacks of the parser ---- */

static int begin_part(void *arg, const struct multipart_part *part, struct err *err)
{
    struct intake *in = arg;
    in->current = NULL;
    buf_clear(&in->field);
    snprintf(in->field_name, sizeof(in->field_name), "%s", part->name);
    if (!part->filename) {
        if (str_eq(part->name, "files") || str_eq(part->name, "files[]"))
            return err_set(err, ERR_VALIDATION, "the part '%s' is no file: it has no filename",
                           part->name);
        return 0;
    }
    struct intake_file *f = NULL;
    int r = in->user->begin(in, part, &f, err);
    if (r < 0)
        return r;
    f->fd = -1;
    f->err = (struct err)ERR_INIT;
    snprintf(f->filename, sizeof(f->filename), "%s", part->filename);
    *in->files_end = f;
    in->files_end = &f->next;
    in->n_files++;
    in->current = f;
    return 0;
}

static ssize_t part_data(void *arg, const char *data, size_t len, struct err *err)
{
    struct intake *in = arg;
    if (!in->current) {
        if (in->field.len + len > FIELD_MAX)
            return err_set(err, ERR_TOO_LARGE, "a form field is larger than %u bytes", FIELD_MAX);
        int r = buf_append(&in->field, data, len, err);
        return r < 0 ? r : (ssize_t)len;
    }
    len = MIN_OF(len, PENDING_MAX - MIN_OF(in->pending_bytes, (size_t)PENDING_MAX));
    if (len == 0)
        return 0;
    int r = in->user->count(in, in->current, len, err);
    if (r < 0)
        return r;
    in->current->size += (int64_t)len;
    struct intake_chunk *c = NULL;
    if (in->pending)
        c = (struct intake_chunk *)((char *)in->pending_end - offsetof(struct intake_chunk, next));
    for (size_t at = 0; at < len;) {
        if (!c || c->file != in->current || c->last || c->len == c->cap)
            c = chunk_for(in, CHUNK_BYTES, err);
        if (!c)
            return -ERR_NO_MEMORY;
        size_t n = MIN_OF(len - at, CHUNK_BYTES - c->len);
        memcpy(c->data + c->len, data + at, n);
        c->len += n;
        at += n;
        in->pending_bytes += n;
    }
    return (ssize_t)len;
}

static int end_part(void *arg, struct err *err)
{
    struct intake *in = arg;
    struct intake_file *f = in->current;
    if (!f && !in->user->field)
        return 0;
    if (!f && memchr(buf_cstr(&in->field), '\0', in->field.len))
        return err_set(err, ERR_VALIDATION, "the form field '%s' has a zero byte", in->field_name);
    if (!f)
        return in->user->field(in, in->field_name, buf_cstr(&in->field), err);
    int r = in->user->end(in, f, err);
    if (r == 0 && (f->err.code == ERR_NONE || f->size > 0)) {
        struct intake_chunk *c = chunk_for(in, 0, err);
        r = c ? 0 : -ERR_NO_MEMORY;
        if (c)
            c->last = true;
    }
    in->current = NULL;
    return r;
}

/* ---- the request ---- */

/* The client left, or the server cuts it off, before the body was whole. */
static void interrupted(void *data)
{
    intake_abort(data);
}

int intake_start(struct intake *in, struct http_request *req, size_t max_parts,
                 const struct intake_user *user, struct err *err)
{
    static const struct multipart_handler handler = { begin_part, part_data, end_part };
    in->user = user;
    in->loop = http_request_loop(req);
    in->req = req;
    in->files_end = &in->files;
    in->pending_end = &in->pending;
    in->err = in->work_err = (struct err)ERR_INIT;
    buf_init(&in->field, FIELD_MAX + 1);
    snprintf(in->owner, sizeof(in->owner), "%s", http_owner(req));
    int r = multipart_create(http_header(req, "Content-Type"), max_parts, &handler, in, &in->parser,
                             err);
    if (r == 0)
        http_set_data(req, in, interrupted);
    return r;
}

ssize_t intake_body(struct http_request *req, const char *data, size_t len, struct err *err)
{
    struct intake *in = http_get_data(req);
    ssize_t n = 0;
    if (in->err.code != ERR_NONE) {
        log_error("upload.write", LOG_STR("owner", in->owner), LOG_STR("error", in->err.message));
        *err = in->err;
        n = -(ssize_t)in->err.code;
    }
    if (n == 0)
        n = multipart_feed(in->parser, data, len, err);
    if (n >= 0) {
        int r = pump(in, err);
        n = r < 0 ? r : n;
    }
    if (n < 0) {
        intake_take_request(in);
        intake_abort(in);
    }
    return n;
}

/* The body is whole; from here on a client that leaves only does without the answer. */
static void left(void *arg)
{
    intake_take_request(arg);
}

void intake_end(struct http_request *req, const char *nothing)
{
    struct intake *in = http_get_data(req);
    struct err err = ERR_INIT;
    if (!in) { /* a body of no bytes at all never reached us */
        http_reply_fail(req, ERR_VALIDATION, "%s", nothing);
        return;
    }
    int r = in->err.code ? (err = in->err, -(int)err.code) : multipart_finish(in->parser, &err);
    if (r == 0)
        r = in->user->check(in, &err);
    if (r == 0 && in->n_files == 0)
        r = err_set(&err, ERR_VALIDATION, "%s", nothing);
    if (r < 0) {
        intake_take_request(in);
        intake_abort(in);
        http_reply_error(req, &err);
        return;
    }
    in->ended = true;
    http_defer(req, left, in);
    if (!in->busy)
        in->user->whole(in);
}
