/*
 * GET /files/download. What was uploaded is sent from disk; what code left in /workspace is read
 * from the session's live kernel, a piece at a time, as fast as the client takes it.
 *
 * Files are people's and code's: a browser must never take one for a page of this server. Only
 * plain images are shown, everything else is saved, and whatever it is, it may run nothing.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "api/files.h"
#include "data/threads.h"
#include "api/rows.h"
#include "base/str.h"
#include "sandbox/workspace.h"

#define NO_FILE "File not found."
#define NO_KERNEL                                                                                  \
    "File not found. The session has no sandbox now: what code left in /workspace is there only "  \
    "while its sandbox lives; /data/outputs is kept."

/* ---- headers ---- */

static const struct {
    const char *ending, *type;
    bool shown;
} kinds[] = {
    { ".png", "image/png", true },
    { ".jpg", "image/jpeg", true },
    { ".jpeg", "image/jpeg", true },
    { ".gif", "image/gif", true },
    { ".webp", "image/webp", true },
    { ".svg", "image/svg+xml", false },
    { ".csv", "text/csv; charset=utf-8", false },
    { ".tsv", "text/tab-separated-values; charset=utf-8", false },
    { ".txt", "text/plain; charset=utf-8", false },
    { ".md", "text/plain; charset=utf-8", false },
    { ".json", "application/json", false },
    { ".pdf", "application/pdf", false },
    { ".zip", "application/zip", false },
    { ".gz", "application/gzip", false },
    { ".parquet", "application/vnd.apache.parquet", false },
    { ".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false },
};

static const char *type_of(const char *name, bool *ret_shown)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        size_t k = strlen(kinds[i].ending);
        if (n > k && str_ieq(name + n - k, kinds[i].ending)) {
            *ret_shown = kinds[i].shown;
            return kinds[i].type;
        }
    }
    *ret_shown = false;
    return "application/octet-stream";
}

const char *download_headers(struct http_request *req, const char *name)
{
    char plain[256], coded[3 * 256 + 1], value[1200];
    size_t n = 0, k = 0;
    bool shown;
    const char *type = type_of(name, &shown);
    for (const char *p = name; *p && n + 1 < sizeof(plain) && k + 3 < sizeof(coded); p++) {
        unsigned char ch = (unsigned char)*p;
        bool safe = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                    (ch >= '0' && ch <= '9') || strchr("-_.", ch);
        plain[n++] = safe || ch == ' ' ? (char)ch : '_';
        if (safe)
            coded[k++] = (char)ch;
        else
            k += (size_t)snprintf(coded + k, 4, "%%%02X", ch);
    }
    plain[n] = coded[k] = '\0';
    snprintf(value, sizeof(value), "%s; filename=\"%s\"; filename*=UTF-8''%s",
             shown ? "inline" : "attachment", plain, coded);
    http_add_header(req, "Content-Disposition", value);
    http_add_header(req, "Content-Security-Policy", "default-src 'none'; sandbox");
    http_add_header(req, "Cache-Control", "private, no-cache");
    return type;
}

/* ---- from disk ---- */

/* False: it is not there. */
static bool send_file(struct http_request *req, const struct file_set *set)
{
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    struct stat st;
    int fd = (int)syscall(SYS_openat2, set->all->threads_fd,
                          set->file.full_path + strlen(set->all->threads_root) + 1, &how,
                          sizeof(how));
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    const char *slash = strrchr(set->file.name, '/'); /* of an output */
    const char *type = download_headers(req, slash ? slash + 1 : set->file.name);
    http_reply_file(req, 200, type, fd, 0, (uint64_t)st.st_size);
    return true;
}

/* ---- from the kernel ---- */

struct download {
    struct http_request *req; /* NULL once the stream is there, or the client has left */
    struct http_stream *stream;
    struct chat *chat; /* a reference */
    struct kernel_file_op *op;
    char path[WORKSPACE_PATH_MAX + 1];
    int64_t size, asked, sent; /* promised; where the next piece begins; handed on */
    bool failed;
    struct buf piece;
    size_t at;
};

static void download_free(struct download *d)
{
    kernel_file_op_drop(d->op);
    chat_unref(d->chat);
    buf_finish(&d->piece);
    free(d);
}

static void left(void *arg)
{
    download_free(arg);
}

static void on_piece(const struct file_piece *piece, const struct err *err, void *arg);

static int ask(struct download *d, struct err *err)
{
    return chat_read_file(d->chat, d->path, d->asked, on_piece, d, &d->op, err);
}

static ssize_t stream_read(void *arg, char *buf, size_t max)
{
    struct download *d = arg;
    struct err err = ERR_INIT;
    if (d->failed)
        return HTTP_STREAM_FAIL;
    if (d->sent == d->size)
        return HTTP_STREAM_END;
    size_t n = MIN_OF(max, MIN_OF(d->piece.len - d->at, (size_t)(d->size - d->sent)));
    if (n == 0)
        return d->op || ask(d, &err) == 0 ? HTTP_STREAM_WAIT : HTTP_STREAM_FAIL;
    memcpy(buf, d->piece.data + d->at, n);
    d->at += n;
    d->sent += (int64_t)n;
    return (ssize_t)n;
}

static void stream_close(void *arg, bool is_whole)
{
    (void)is_whole;
    download_free(arg);
}

static void refuse(struct download *d, const struct err *err)
{
    struct http_request *req = TAKE_PTR(d->req);
    struct err why = *err;
    bool alive = chat_has_kernel(d->chat);
    download_free(d);
    if (why.code == ERR_NOT_FOUND)
        http_reply_fail(req, ERR_NOT_FOUND, alive ? NO_FILE : NO_KERNEL);
    else if (why.code == ERR_VALIDATION)
        http_reply_fail(req, ERR_VALIDATION, "Invalid file path.");
    else
        http_reply_error(req, &why);
}

static void on_piece(const struct file_piece *piece, const struct err *err, void *arg)
{
    static const struct http_source source = { stream_read, stream_close };
    struct download *d = arg;
    struct err why = ERR_INIT;
    d->op = NULL;
    d->at = 0;
    buf_clear(&d->piece);
    if (piece && buf_append(&d->piece, piece->data, piece->len, &why) < 0)
        err = &why;
    if (!err)
        d->asked += (int64_t)piece->len;
    if (d->stream) {
        /*
         * Shorter than it was when it was promised: the client must see that this is not the file.
         */
        d->failed = err || piece->len == 0;
        http_stream_ready(d->stream);
    } else if (err) {
        refuse(d, err);
    } else {
        const char *slash = strrchr(d->path, '/');
        struct http_request *req = TAKE_PTR(d->req);
        const char *type = download_headers(req, slash ? slash + 1 : d->path);
        d->size = piece->size;
        d->stream = http_reply_stream(req, 200, type, d->size, &source, d);
    }
}

void workspace_download(struct http_request *req, struct chat *c, const char *path)
{
    struct err err = ERR_INIT;
    if (!c || !chat_has_kernel(c)) {
        http_reply_fail(req, ERR_NOT_FOUND, NO_KERNEL);
        return;
    }
    struct download *d = calloc(1, sizeof(*d));
    if (!d) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    d->req = req;
    d->chat = chat_ref(c);
    buf_init(&d->piece, FILE_PIECE_MAX + 1);
    snprintf(d->path, sizeof(d->path), "%s", path);
    if (ask(d, &err) < 0)
        refuse(d, &err);
    else
        http_defer(req, left, d);
}

/* ---- which ---- */

void session_download(struct http_request *req)
{
    struct app *app = app_of(req);
    const char *id = http_query(req, "session_id"), *path = http_query(req, "path"), *at = path;
    struct err err = ERR_INIT;
    if (thread_id_check(id, &err) < 0) {
        http_reply_error(req, &err);
        return;
    }
    bool data = str_starts(path, "/data/"), workspace = str_starts(path, "/workspace/");
    if (data || workspace)
        at = strchr(path + 1, '/') + 1;
    if (!workspace_path_ok(at, strlen(at))) {
        http_reply_fail(req, ERR_VALIDATION, "Invalid file path.");
        return;
    }
    struct data_room *room = app->data;
    struct data_thread *t = data_thread_find(room, http_owner(req), id);
    bool output = file_is_output(at);
    const struct file_set *f = t && (!workspace || output) ? data_thread_named(t, at) : NULL;
    if (f && send_file(req, f))
        return;
    /* An output that has just been copied has its name a moment later: the kernel still has it. */
    if (output ? data_thread_was_cleared(room->files, http_owner(req), id) : data || f)
        http_reply_fail(req, ERR_NOT_FOUND, NO_FILE);
    else
        workspace_download(req, chat_find(app->agent, http_owner(req), id), at);
}
