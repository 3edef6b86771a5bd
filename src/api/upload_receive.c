/*
 * POST /upload: files on their way in.
 *
 * Theory of operation. The multipart parser hands pieces of the body on; they are copied into
 * chunks, which wait in a list. As soon as the worker pool is free for this request it takes the
 * whole list: opens, writes, hashes, syncs. While it is at work the next list fills up; when that
 * is full too the parser is paused, and with it the client, so a request never holds more than two
 * lists. When the body is over and everything is written, each file gets a record and an ingest,
 * and the answer waits for those (or not: `wait=false`). Until then whatever ends the request (the
 * client leaves, a limit, a full disk) removes every trace of it.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "api/uploads_impl.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "net/multipart.h"

#define CHUNK_BYTES (64u << 10)
#define PENDING_MAX (256u << 10)
#define FIELD_MAX (64u << 10) /* of a plain form field, which is ignored */
#define FIELDS_MAX 16
#define FRAMING_MAX (1 << 20) /* what headers and boundaries may add to the files */

struct incoming {
    struct receiver *rx;
    char filename[UPLOAD_NAME_SIZE];
    char file_id[UPLOAD_ID_DIGITS + 1];
    char dir[PATH_MAX];
    int64_t size;
    /* The worker's while it is busy: */
    int fd;
    struct hash hash;
    char sha256[HASH_HEX_SIZE];
    /* After the body: */
    struct upload_set *set; /* NULL when there is an error instead */
    struct err err;
    struct upload_watcher watcher;
};

struct chunk {
    struct chunk *next;
    struct incoming *file;
    bool last; /* of its file */
    size_t len, cap;
    char data[];
};

struct receiver {
    struct uploads *up;
    struct http_request *req; /* NULL: nobody waits for an answer */
    struct upload_use *use;
    int64_t counted_bytes;
    char owner[128];
    struct multipart *parser;
    struct incoming *files[UPLOAD_FILES_MAX];
    size_t n_files;
    struct incoming *current; /* NULL while a plain field passes */
    size_t field_bytes;
    struct chunk *pending, **pending_end;
    size_t pending_bytes;
    struct chunk *working;
    struct chunk *spare; /* written ones, to be filled again */
    bool busy;           /* a worker has `working` */
    bool aborted;        /* remove everything as soon as the worker lets go */
    bool ended;          /* the body is over */
    bool wait;
    struct err err;      /* of the worker, once it is known here */
    struct err work_err; /* the worker's own */
    size_t n_open;       /* records, then ingests, that are still awaited */
};

/* ---- memory ---- */

static void free_chunks(struct chunk *c)
{
    while (c) {
        struct chunk *next = c->next;
        free(c);
        c = next;
    }
}

static void recycle_chunks(struct receiver *rx, struct chunk *c)
{
    while (c) {
        struct chunk *next = c->next;
        if (c->cap == CHUNK_BYTES) {
            c->next = rx->spare;
            rx->spare = c;
        } else {
            free(c);
        }
        c = next;
    }
}

static void free_incoming(struct incoming *f)
{
    if (f->fd >= 0)
        close(f->fd);
    hash_drop(&f->hash);
    upload_unwatch(&f->watcher);
    upload_set_unref(f->set);
    free(f);
}

static void uncount(struct receiver *rx)
{
    rx->use->bytes -= rx->counted_bytes;
    rx->counted_bytes = 0;
}

static void free_receiver(struct receiver *rx)
{
    uncount(rx);
    for (size_t i = 0; i < rx->n_files; i++)
        free_incoming(rx->files[i]);
    free_chunks(rx->pending);
    free_chunks(rx->spare);
    multipart_destroy(rx->parser);
    uploads_unref(rx->up);
    free(rx);
}

/* ---- in the worker pool ---- */

static int open_part(struct incoming *f, struct err *err)
{
    char path[PATH_MAX + 16];
    int r = -1;
    /*
     * Another request of this owner may just have removed the directory above because it was empty:
     * then once more.
     */
    for (int tries = 0; tries < 3 && r < 0; tries++)
        r = fd_mkdir_p(f->dir, 0700, err);
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "%s/" UPLOAD_PART, f->dir);
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

static int close_part(struct incoming *f, struct err *err)
{
    if (fdatasync(f->fd) < 0)
        return err_errno(err, ERR_IO, errno, "storing '%s'", f->filename);
    int fd = TAKE_FD(f->fd);
    if (close(fd) < 0)
        return err_errno(err, ERR_IO, errno, "storing '%s'", f->filename);
    return hash_end(&f->hash, f->sha256, err);
}

static int write_chunk(const struct chunk *c, struct err *err)
{
    struct incoming *f = c->file;
    int r = f->fd < 0 ? open_part(f, err) : 0;
    if (r == 0 && c->len > 0) {
        r = fd_write_all(f->fd, c->data, c->len, err);
        if (r == 0)
            r = hash_update(&f->hash, c->data, c->len, err);
        if (r < 0)
            err_wrap(err, "storing '%s'", f->filename);
    }
    return r == 0 && c->last ? close_part(f, err) : r;
}

static void write_work(void *arg)
{
    struct receiver *rx = arg;
    for (const struct chunk *c = rx->working; c; c = c->next)
        if (write_chunk(c, &rx->work_err) < 0)
            return;
}

static void remove_work(void *arg)
{
    struct receiver *rx = arg;
    for (size_t i = 0; i < rx->n_files; i++) {
        char dir[PATH_MAX];
        snprintf(dir, sizeof(dir), "%s", rx->files[i]->dir);
        (void)fd_remove_tree(dir, NULL);
        *strrchr(dir, '/') = '\0';
        (void)rmdir(dir);
    }
}

static void remove_done(void *arg)
{
    free_receiver(arg);
}

/* ---- between loop and workers ---- */

static void commit(struct receiver *rx);
static void written(void *arg);

/* Removes what was written, then frees; the request must not be asked for any more. */
static void abort_receiving(struct receiver *rx)
{
    rx->aborted = true;
    rx->req = NULL;
    if (rx->busy)
        return;
    for (size_t i = 0; i < rx->n_files; i++)
        if (rx->files[i]->fd >= 0)
            close(TAKE_FD(rx->files[i]->fd));
    if (loop_work(rx->up->loop, remove_work, remove_done, rx, NULL) < 0) {
        remove_work(rx);
        free_receiver(rx);
    }
}

static int pump(struct receiver *rx, struct err *err)
{
    if (rx->busy || !rx->pending)
        return 0;
    rx->working = TAKE_PTR(rx->pending);
    rx->pending_end = &rx->pending;
    rx->pending_bytes = 0;
    rx->busy = true;
    int r = loop_work(rx->up->loop, write_work, written, rx, err);
    if (r < 0) {
        rx->busy = false;
        free_chunks(TAKE_PTR(rx->working));
    }
    return r;
}

/* Takes the request away from the receiver in order to answer it. */
static struct http_request *take_request(struct receiver *rx)
{
    struct http_request *req = TAKE_PTR(rx->req);
    if (req)
        http_set_data(req, NULL, NULL);
    return req;
}

static void written(void *arg)
{
    struct receiver *rx = arg;
    rx->busy = false;
    rx->err = rx->work_err;
    recycle_chunks(rx, TAKE_PTR(rx->working));
    if (rx->aborted) {
        abort_receiving(rx);
        return;
    }
    if (rx->err.code == ERR_NONE)
        (void)pump(rx, &rx->err);
    if (!rx->ended) {
        http_body_resume(rx->req); /* on_body tells the error, if there is one */
        return;
    }
    if (rx->err.code != ERR_NONE) {
        struct err why = rx->err;
        struct http_request *req = take_request(rx);
        log_error("upload.write", LOG_STR("owner", rx->owner), LOG_STR("error", why.message));
        abort_receiving(rx);
        if (req)
            http_reply_error(req, &why);
    } else if (!rx->busy) {
        commit(rx);
    }
}

static struct chunk *chunk_for(struct receiver *rx, size_t cap, struct err *err)
{
    struct chunk *c = cap == CHUNK_BYTES ? rx->spare : NULL;
    if (c)
        rx->spare = c->next;
    else
        c = malloc(sizeof(*c) + cap);
    if (!c) {
        err_set(err, ERR_NO_MEMORY, "out of memory");
        return NULL;
    }
    *c = (struct chunk){ .file = rx->current, .cap = cap };
    *rx->pending_end = c;
    rx->pending_end = &c->next;
    return c;
}

/* ---- callbacks of the parser ---- */

static int begin_part(void *arg, const struct multipart_part *part, struct err *err)
{
    struct receiver *rx = arg;
    char shown[STR_SHOWN_SIZE];
    rx->current = NULL;
    rx->field_bytes = 0;
    if (!part->filename) {
        if (str_eq(part->name, "files"))
            return err_set(err, ERR_VALIDATION, "the part 'files' is no file: it has no filename");
        return 0;
    }
    if (!str_eq(part->name, "files"))
        return err_set(err, ERR_VALIDATION,
                       "a file came in the field '%s'; files go into the field 'files'",
                       str_show(part->name, strlen(part->name), shown, sizeof(shown)));
    if (rx->n_files == UPLOAD_FILES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "more than %d files in one request; send the others in another",
                       UPLOAD_FILES_MAX);
    if (rx->use->n + (int64_t)rx->n_files >= UPLOADS_PER_OWNER)
        return err_set(err, ERR_TOO_LARGE,
                       "there are already %d uploads; delete some (DELETE /uploads/{file_id})",
                       UPLOADS_PER_OWNER);
    struct incoming *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    f->rx = rx;
    f->fd = -1;
    f->err = (struct err)ERR_INIT;
    snprintf(f->filename, sizeof(f->filename), "%s", part->filename);
    id_hex(f->file_id, UPLOAD_ID_DIGITS);
    upload_dir(rx->up, rx->owner, f->file_id, f->dir, sizeof(f->dir));
    rx->files[rx->n_files++] = rx->current = f;
    return 0;
}

static int over_quota(const struct config *cfg, struct err *err)
{
    return err_set(err, ERR_TOO_LARGE,
                   "your uploads would take more than the %lld bytes that they may "
                   "(UPLOAD_QUOTA_BYTES); delete some first",
                   cfg->upload_quota_bytes);
}

static int count_bytes(struct receiver *rx, size_t len, struct err *err)
{
    const struct config *cfg = rx->up->app->cfg;
    char shown[STR_SHOWN_SIZE];
    struct incoming *f = rx->current;
    if (f->size + (int64_t)len > cfg->max_upload_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "'%s' is larger than the %lld bytes that a file may have (MAX_UPLOAD_BYTES)",
                       str_show(f->filename, strlen(f->filename), shown, sizeof(shown)),
                       cfg->max_upload_bytes);
    if (cfg->upload_quota_bytes > 0 && rx->use->bytes + (int64_t)len > cfg->upload_quota_bytes)
        return over_quota(cfg, err);
    f->size += (int64_t)len;
    rx->counted_bytes += (int64_t)len;
    rx->use->bytes += (int64_t)len;
    return 0;
}

static ssize_t part_data(void *arg, const char *data, size_t len, struct err *err)
{
    struct receiver *rx = arg;
    if (!rx->current) {
        rx->field_bytes += len;
        if (rx->field_bytes > FIELD_MAX)
            return err_set(err, ERR_TOO_LARGE, "a form field is larger than %u bytes", FIELD_MAX);
        return (ssize_t)len;
    }
    len = MIN_OF(len, PENDING_MAX - MIN_OF(rx->pending_bytes, (size_t)PENDING_MAX));
    if (len == 0)
        return 0;
    int r = count_bytes(rx, len, err);
    struct chunk *c = rx->pending ?
                          (struct chunk *)((char *)rx->pending_end - offsetof(struct chunk, next)) :
                          NULL;
    for (size_t at = 0; at < len && r == 0;) {
        if (!c || c->file != rx->current || c->last || c->len == c->cap)
            c = chunk_for(rx, CHUNK_BYTES, err);
        if (!c)
            return -ERR_NO_MEMORY;
        size_t n = MIN_OF(len - at, CHUNK_BYTES - c->len);
        memcpy(c->data + c->len, data + at, n);
        c->len += n;
        at += n;
        rx->pending_bytes += n;
    }
    return r < 0 ? r : (ssize_t)len;
}

static int end_part(void *arg, struct err *err)
{
    struct receiver *rx = arg;
    struct incoming *f = rx->current;
    int r = 0;
    if (f && f->size == 0) {
        err_set(&f->err, ERR_VALIDATION, *f->filename ? "File is empty" : "No file was chosen");
    } else if (f) {
        struct chunk *c = chunk_for(rx, 0, err);
        r = c ? 0 : -ERR_NO_MEMORY;
        if (c)
            c->last = true;
        if (!*f->filename)
            snprintf(f->filename, sizeof(f->filename), "upload");
    }
    rx->current = NULL;
    return r;
}

/* ---- the request ---- */

/* The client left, or the server cuts it off, before the body was whole. */
static void interrupted(void *data)
{
    abort_receiving(data);
}

int upload_receive_headers(struct http_request *req, struct err *err)
{
    static const struct multipart_handler handler = { begin_part, part_data, end_part };
    struct app *app = app_of(req);
    struct receiver *rx = calloc(1, sizeof(*rx));
    if (!rx)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    rx->up = uploads_ref(app->uploads);
    rx->req = req;
    rx->pending_end = &rx->pending;
    rx->err = rx->work_err = (struct err)ERR_INIT;
    rx->wait = http_query_bool(req, "wait", true);
    snprintf(rx->owner, sizeof(rx->owner), "%s", http_owner(req));
    rx->use = uploads_use(app->uploads, rx->owner);
    int r = rx->use ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = multipart_create(http_header(req, "Content-Type"), UPLOAD_FILES_MAX + FIELDS_MAX,
                             &handler, rx, &rx->parser, err);
    long long quota = app->cfg->upload_quota_bytes;
    if (r == 0 && quota > 0 && http_body_length(req) - FRAMING_MAX > quota - rx->use->bytes)
        r = over_quota(app->cfg, err);
    if (r < 0) {
        uploads_unref(rx->up);
        multipart_destroy(rx->parser);
        free(rx);
        return r;
    }
    http_set_data(req, rx, interrupted);
    return 0;
}

ssize_t upload_receive_body(struct http_request *req, const char *data, size_t len, struct err *err)
{
    struct receiver *rx = http_get_data(req);
    ssize_t n = 0;
    if (rx->err.code != ERR_NONE) {
        log_error("upload.write", LOG_STR("owner", rx->owner), LOG_STR("error", rx->err.message));
        *err = rx->err;
        n = -(ssize_t)rx->err.code;
    }
    if (n == 0)
        n = multipart_feed(rx->parser, data, len, err);
    if (n >= 0) {
        int r = pump(rx, err);
        n = r < 0 ? r : n;
    }
    if (n < 0) {
        take_request(rx);
        abort_receiving(rx);
    }
    return n;
}

/* The body is whole; from here on a client that leaves only does without the answer. */
static void left(void *arg)
{
    struct receiver *rx = arg;
    take_request(rx);
}

void upload_receive_end(struct http_request *req)
{
    struct receiver *rx = http_get_data(req);
    struct err err = ERR_INIT;
    if (!rx) { /* a body of no bytes at all never reached us */
        http_reply_fail(req, ERR_VALIDATION,
                        "No files were sent; send them in the multipart field 'files'");
        return;
    }
    int r = rx->err.code ? (err = rx->err, -(int)err.code) : multipart_finish(rx->parser, &err);
    if (r == 0 && rx->n_files == 0)
        r = err_set(&err, ERR_VALIDATION,
                    "No files were sent; send them in the multipart field 'files'");
    if (r < 0) {
        take_request(rx);
        abort_receiving(rx);
        http_reply_error(req, &err);
        return;
    }
    rx->ended = true;
    http_defer(req, left, rx);
    if (!rx->busy)
        commit(rx);
}

/* ---- what becomes of the files ---- */

static json_t *file_json(const struct incoming *f, bool settled)
{
    const struct upload_set *set = f->set;
    json_t *j = json_pack("{s:s, s:o, s:I, s:o, s:O?, s:s}", "file_id", f->file_id, "filename",
                          json_text(f->filename, strlen(f->filename)), "size_bytes",
                          (json_int_t)f->size, "rows",
                          settled ? json_integer(set->file.row_count) : json_null(), "columns",
                          settled ? set->columns : NULL, "table", set->file.table);
    if (!settled)
        json_object_set_new(j, "status", json_string(upload_status_name(set->status)));
    return j;
}

/* Answers, if somebody still waits. Files without an error are listed, the others told. */
static void answer(struct receiver *rx, bool settled)
{
    json_t *files = json_array(), *errors = json_array();
    const struct err *first = NULL;
    struct http_request *req = take_request(rx);
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->err.code == ERR_NONE) {
            json_array_append_new(files, file_json(f, settled));
            continue;
        }
        first = first ? first : &f->err;
        json_array_append_new(
            errors, json_pack("{s:o, s:o}", "filename", json_text(f->filename, strlen(f->filename)),
                              "error", json_text(f->err.message, strlen(f->err.message))));
        /* Whoever sent it knows now. */
        if (req && f->set && !f->set->deleting && f->set->uploads->app)
            (void)upload_set_delete(f->set, NULL, NULL, NULL);
    }
    size_t n = json_array_size(files);
    json_t *body = n > 0 ? json_pack("{s:o, s:o}", "message",
                                     json_sprintf("%zu file(s) uploaded successfully", n), "files",
                                     json_incref(files)) :
                           json_pack("{s:{s:O}, s:o}", "detail", "errors", errors, "error",
                                     json_error(first));
    if (n > 0 && json_array_size(errors) > 0)
        json_object_set(body, "errors", errors);
    json_decref(files);
    json_decref(errors);
    if (req)
        http_reply_json(req, n == 0 ? err_http_status(first->code) : settled ? 200 : 202, body);
    else
        json_decref(body);
    free_receiver(rx);
}

static void changed(struct upload_set *set, void *arg)
{
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (set->status == UPLOAD_PROCESSING && !set->deleting && rx->up->app)
        return;
    upload_unwatch(&f->watcher);
    if (set->deleting)
        err_set(&f->err, ERR_CONFLICT, "The upload was deleted while it was being read");
    else if (set->status == UPLOAD_FAILED)
        f->err = set->error;
    if (--rx->n_open == 0)
        answer(rx, true);
}

/* Every file has a record, or an error. */
static void recorded(struct receiver *rx)
{
    uncount(rx); /* the sets count now */
    rx->n_open = 1;
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->err.code != ERR_NONE)
            continue;
        upload_set_list(f->set);
        f->watcher = (struct upload_watcher){ .changed = changed, .arg = f };
        if (rx->wait) {
            upload_watch(f->set, &f->watcher);
            rx->n_open++;
        }
        if (upload_ingest(f->set, &f->err) < 0) { /* out of memory; the next start takes it up */
            rx->n_open -= rx->wait;
            upload_unwatch(&f->watcher);
        }
    }
    if (--rx->n_open == 0)
        answer(rx, rx->wait);
}

static void on_recorded(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (err) {
        log_error("upload.record", LOG_STR("file_id", f->file_id), LOG_STR("error", err->message));
        f->err = *err;
        f->set->remove_files = true;
        upload_set_unref(TAKE_PTR(f->set));
    }
    if (--rx->n_open > 0)
        return;
    if (rx->up->app)
        recorded(rx);
    else
        free_receiver(rx); /* the server has stopped; the next one finds the records */
}

static void commit(struct receiver *rx)
{
    char created[CLOCK_ISO_SIZE], expires[CLOCK_ISO_SIZE];
    int64_t now = clock_wall_ms();
    struct app *app = rx->up->app;
    if (!app) {
        abort_receiving(rx);
        return;
    }
    clock_iso8601(now, created);
    clock_iso8601(now + app->cfg->upload_ttl_s * 1000, expires);
    rx->n_open = 1;
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->err.code != ERR_NONE)
            continue;
        struct upload_facts facts = { .owner = rx->owner,
                                      .file_id = f->file_id,
                                      .filename = f->filename,
                                      .sha256 = f->sha256,
                                      .created_at = created,
                                      .expires_at = app->cfg->upload_ttl_s ? expires : NULL,
                                      .size_bytes = f->size };
        f->set = upload_set_create(rx->up, &facts);
        int r = f->set ? upload_set_store(f->set, UPLOAD_PROCESSING, NULL, STORE_CREATE,
                                          on_recorded, f, &f->err) :
                         err_set(&f->err, ERR_NO_MEMORY, "out of memory");
        if (r == 0) {
            rx->n_open++;
        } else if (f->set) {
            f->set->remove_files = true;
            upload_set_unref(TAKE_PTR(f->set));
        }
    }
    if (--rx->n_open == 0)
        recorded(rx);
}
