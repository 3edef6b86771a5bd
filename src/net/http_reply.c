/*
 * Answers. A reply function makes the MHD response and marks the request as answered; reply_queue()
 * hands it to MHD from inside MHD's own callback, now or after the suspended connection was
 * resumed. Long JSON is written, and long text packed, by a thread in the background; the request
 * is suspended meanwhile.
 */

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <zlib.h>
#include "base/background.h"
#include "base/str.h"
#include "net/http_impl.h"
#include "net/websocket.h"

/*
 * MHD's buffer of a response with a known size, which it allocates with the response. One of
 * unknown size is sent in chunks through the connection's memory instead, so a thousand event
 * streams do not need a thousand of these.
 */
#define STREAM_BLOCK_BYTES 32768
#define CHUNKED_BLOCK_BYTES 1024

/* ---- handing over ---- */

/* The request has its answer (NULL: memory is out, the connection will be cut). */
static void answer(struct http_request *req, int status, struct MHD_Response *response,
                   uint64_t bytes)
{
    assert(!req->replied);
    req->replied = true;
    req->status = status;
    req->response = response;
    req->bytes_sent = req->is_head ? 0 : bytes;
    http_resume(req);
}

static void add(struct http_request *req, const char *name, const char *value)
{
    mhd_lib.add_response_header(req->response, name, value);
}

enum MHD_Result reply_queue(struct http_request *req)
{
    const char *cors = req->origin ? guard_cors_origin(req->server->options.guard, req->origin) :
                                     NULL;

    req->state = REQUEST_SENDING;
    for (const struct header *h = req->headers; h; h = h->next)
        add(req, h->name, h->value);
    add(req, "X-Request-Id", req->id);
    add(req, "X-Content-Type-Options", "nosniff");
    if (cors) {
        add(req, "Access-Control-Allow-Origin", cors);
        add(req, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After, ETag");
        add(req, "Vary", "Origin");
    }
    if (req->server->stopping)
        add(req, "Connection", "close");
    return mhd_lib.queue_response(req->conn->mhd, (unsigned)req->status, req->response);
}

void http_defer(struct http_request *req, void (*on_close)(void *arg), void *arg)
{
    req->deferred = true;
    req->on_close = on_close;
    req->close_arg = arg;
}

static void clear_slot(void *slot)
{
    *(struct http_request **)slot = NULL;
}

void http_hold(struct http_request *req, struct http_request **slot)
{
    http_defer(req, clear_slot, slot);
}

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    struct header *h = arena_alloc(&req->arena, sizeof(*h));

    for (const char *p = value; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return;
    }
    if (!h)
        return;
    h->name = arena_strdup(&req->arena, name);
    h->value = arena_strdup(&req->arena, value);
    if (!h->name || !h->value)
        return;
    *req->last_header = h;
    req->last_header = &h->next;
}

/* ---- bytes ---- */

static void reply_buffer(struct http_request *req, int status, const char *content_type,
                         const void *data, size_t len, enum MHD_ResponseMemoryMode mode)
{
    /* MHD takes no const, though it changes only what it owns. */
    struct MHD_Response *response = mhd_lib.create_response_from_buffer(
        len, (void *)(uintptr_t)data, mode);

    if (!response && mode == MHD_RESPMEM_MUST_FREE)
        free((void *)(uintptr_t)data);
    if (response && content_type)
        mhd_lib.add_response_header(response, "Content-Type", content_type);
    answer(req, status, response, len);
}

bool http_accepts_gzip(const struct http_request *req)
{
    const char *p = http_header(req, "Accept-Encoding");

    while (p && *p) {
        size_t len;

        p += strspn(p, " \t,");
        len = strcspn(p, ",; \t");
        if (len == 4 && strncasecmp(p, "gzip", 4) == 0) {
            const char *rest = p + len + strspn(p + len, " \t");
            double q = 1;

            if (*rest == ';' && sscanf(rest, "; q=%lf", &q) == 1 && q <= 0)
                return false;
            return true;
        }
        p = strchr(p, ',');
    }
    return false;
}

static bool is_compressible(const char *type)
{
    return str_starts(type, "text/") || str_starts(type, "application/json") ||
           strstr(type, "+json") || strstr(type, "xml") || strstr(type, "javascript");
}

/* A new buffer with the compressed bytes, or NULL when it does not pay. */
static void *gzip(const void *data, size_t len, size_t *ret_len)
{
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)len };
    size_t room = len - len / 8; /* less gain is not worth the client's time */
    void *out = malloc(room);
    int r;

    if (!out || deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(out);
        return NULL;
    }
    z.next_out = out;
    z.avail_out = (unsigned)room;
    r = deflate(&z, Z_FINISH);
    *ret_len = z.total_out;
    deflateEnd(&z);
    if (r == Z_STREAM_END)
        return out;
    free(out);
    return NULL;
}

static bool is_packed_size(size_t len)
{
    return len >= HTTP_GZIP_MIN && len <= HTTP_GZIP_MAX;
}

static void reply_packed(struct http_request *req, int status, const char *content_type,
                         void *packed, size_t len)
{
    http_add_header(req, "Content-Encoding", "gzip");
    reply_buffer(req, status, content_type, packed, len, MHD_RESPMEM_MUST_FREE);
}

/* ---- large answers ---- */

struct large_reply {
    struct http_request *req; /* NULL: it has ended */
    int status;
    const char *content_type; /* in the request's memory */
    json_t *json;             /* to be written to data */
    void *data;               /* NULL afterwards: memory is out */
    size_t len;
    bool wants_gzip, is_packed;
};

static void write_large(void *arg)
{
    struct large_reply *l = arg;
    auto_buf struct buf b = BUF_INIT(SIZE_MAX);

    if (l->json && json_write(l->json, &b, NULL) == 0) {
        l->len = b.len;
        l->data = buf_take(&b);
    }
    if (l->data && l->wants_gzip && is_packed_size(l->len)) {
        size_t len;
        void *packed = gzip(l->data, l->len, &len);

        if (packed) {
            free(l->data);
            l->data = packed;
            l->len = len;
            l->is_packed = true;
        }
    }
}

static void reply_no_memory(struct http_request *req)
{
    static const char text[] =
        "{\"error\":{\"type\":\"OUT_OF_MEMORY\",\"message\":\"out of memory\"},"
        "\"detail\":\"out of memory\"}";

    http_reply_static(req, 500, "application/json", text, sizeof(text) - 1);
}

static void large_written(void *arg)
{
    struct large_reply *l = arg;
    struct http_request *req = l->req;

    if (req) {
        req->large = NULL;
        req->replied = false;
    }
    if (req && !l->data)
        reply_no_memory(req);
    else if (req && l->is_packed)
        reply_packed(req, l->status, l->content_type, TAKE_PTR(l->data), l->len);
    else if (req)
        reply_buffer(req, l->status, l->content_type, TAKE_PTR(l->data), l->len,
                     MHD_RESPMEM_MUST_FREE);
    free(l->data);
    json_discard(l->json);
    free(l);
}

void reply_forget_large(struct http_request *req)
{
    if (req->large)
        req->large->req = NULL;
    req->large = NULL;
}

/* Takes json or data when it returns true: it is answered later. */
static bool reply_later(struct http_request *req, int status, const char *content_type,
                        json_t *json, void *data, size_t len, bool wants_gzip)
{
    struct err ignored = ERR_INIT;
    struct large_reply *l = req->state == REQUEST_HANDLING ? malloc(sizeof(*l)) : NULL;

    if (!l)
        return false;
    *l = (struct large_reply){ .req = req,
                               .status = status,
                               .content_type = arena_strdup(&req->arena, content_type),
                               .json = json,
                               .data = data,
                               .len = len,
                               .wants_gzip = wants_gzip };
    if (!l->content_type ||
        loop_background(loop_uv(req->server->loop), write_large, large_written, l, &ignored) < 0) {
        free(l);
        return false;
    }
    req->large = l;
    req->replied = req->deferred = true;
    return true;
}

/* Whether the client takes the content packed; says that the answer depends on it. */
static bool may_pack(struct http_request *req, const char *content_type)
{
    if (!content_type || !is_compressible(content_type))
        return false;
    http_add_header(req, "Vary", "Accept-Encoding");
    return http_accepts_gzip(req);
}

/* owned: the data, if it may be kept; NULL: it is the caller's. True: it was taken or copied. */
static bool reply_gzip(struct http_request *req, int status, const char *content_type,
                       const void *data, void *owned, size_t len)
{
    size_t packed_len;
    void *packed, *kept = owned;

    if (!is_packed_size(len) || !may_pack(req, content_type))
        return false;
    if (len > HTTP_GZIP_AT_ONCE_MAX) {
        if (!kept && (kept = malloc(len)))
            memcpy(kept, data, len);
        if (kept && reply_later(req, status, content_type, NULL, kept, len, true))
            return true;
        if (!owned)
            free(kept);
        return false;
    }
    packed = gzip(data, len, &packed_len);
    if (!packed)
        return false;
    free(owned);
    reply_packed(req, status, content_type, packed, packed_len);
    return true;
}

void http_reply_bytes(struct http_request *req, int status, const char *content_type,
                      const void *data, size_t len)
{
    if (!reply_gzip(req, status, content_type, data, NULL, len))
        reply_buffer(req, status, content_type, data, len, MHD_RESPMEM_MUST_COPY);
}

void http_reply_taken(struct http_request *req, int status, const char *content_type, void *data,
                      size_t len)
{
    if (!reply_gzip(req, status, content_type, data, data, len))
        reply_buffer(req, status, content_type, data, len, MHD_RESPMEM_MUST_FREE);
}

void http_reply_packed(struct http_request *req, int status, const char *content_type, void *data,
                       size_t len)
{
    reply_buffer(req, status, content_type, data, len, MHD_RESPMEM_MUST_FREE);
}

void http_reply_text(struct http_request *req, int status, const char *content_type,
                     const char *text)
{
    http_reply_bytes(req, status, content_type, text, strlen(text));
}

void http_reply_static(struct http_request *req, int status, const char *content_type,
                       const void *data, size_t len)
{
    reply_buffer(req, status, content_type, data, len, MHD_RESPMEM_PERSISTENT);
}

void http_reply_empty(struct http_request *req, int status)
{
    reply_buffer(req, status, NULL, "", 0, MHD_RESPMEM_PERSISTENT);
}

void http_reply_file(struct http_request *req, int status, const char *content_type, int fd,
                     uint64_t offset, uint64_t size)
{
    struct MHD_Response *response = mhd_lib.create_response_from_fd_at_offset64(size, fd, offset);

    if (!response)
        close(fd);
    if (response && content_type)
        mhd_lib.add_response_header(response, "Content-Type", content_type);
    answer(req, status, response, size);
}

/* ---- JSON and errors ---- */

void http_reply_json(struct http_request *req, int status, json_t *taken)
{
    static const char type[] = "application/json";
    auto_discard json_t *json = taken;
    auto_buf struct buf b = BUF_INIT(SIZE_MAX);
    size_t len;
    char *text;

    if (json && json_is_large(json) &&
        reply_later(req, status, type, json, NULL, 0, may_pack(req, type))) {
        json = NULL;
        return;
    }
    if (!json || json_write(json, &b, NULL) < 0) {
        reply_no_memory(req);
        return;
    }
    len = b.len;
    text = buf_take(&b);
    http_reply_taken(req, status, type, text, len);
}

static json_t *error_json(const struct err *err)
{
    json_t *inner = json_error(err);

    return json_pack("{s:o, s:O}", "error", inner, "detail", json_object_get(inner, "message"));
}

void http_reply_error_status(struct http_request *req, int status, const struct err *err)
{
    req->error = arena_strdup(&req->arena, err->message);
    req->error_code = err->code;
    http_reply_json(req, status, error_json(err));
}

void http_reply_error(struct http_request *req, const struct err *err)
{
    http_reply_error_status(req, err->code == ERR_NONE ? 500 : err_http_status(err->code), err);
}

void reply_invalid(struct http_request *req, const char *where, const struct schema_report *report,
                   const struct err *err)
{
    json_t *json = error_json(err);

    if (json && report->fault)
        json_object_set_new(json, "detail", schema_fault_to_json(report, where, err));
    req->error = arena_strdup(&req->arena, err->message);
    req->error_code = err->code;
    http_reply_json(req, report->fault ? HTTP_UNPROCESSABLE : err_http_status(err->code), json);
}

void http_reply_fail(struct http_request *req, enum err_code code, const char *fmt, ...)
{
    struct err e = ERR_INIT;
    char message[ERR_MESSAGE_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    err_set(&e, code, "%s", message);
    http_reply_error(req, &e);
}

void http_reply_busy(struct http_request *req, unsigned retry_after_s, const char *fmt, ...)
{
    struct err e = ERR_INIT;
    char message[ERR_MESSAGE_MAX], seconds[16];
    va_list args;

    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    err_set(&e, ERR_UNAVAILABLE, "%s", message);
    snprintf(seconds, sizeof(seconds), "%u", retry_after_s);
    http_add_header(req, "Retry-After", seconds);
    http_reply_error(req, &e);
}

void reply_raw_error(struct http_request *req, int status, enum err_code code, const char *message)
{
    struct err e = ERR_INIT;
    auto_free char *body = NULL;
    auto_json json_t *json = NULL;
    char head[512];
    int n;

    err_set(&e, code, "%s", message);
    json = error_json(&e);
    body = json ? json_to_str(json) : NULL;
    if (!body)
        return;
    n = snprintf(
        head, sizeof(head),
        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nX-Request-Id: %s\r\n"
        "Connection: close\r\n\r\n",
        status, mhd_lib.get_reason_phrase_for((unsigned)status), strlen(body), req->id);
    req->status = status;
    req->state = REQUEST_SENDING;
    req->error = arena_strdup(&req->arena, message);
    req->bytes_sent = strlen(body);
    if (send(req->conn->fd, head, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE) == n)
        (void)!send(req->conn->fd, body, strlen(body), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- WebSockets ---- */

/* MHD closes its descriptor of the connection at once: the callee has one of its own. */
static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *con_cls, const char *extra,
                       size_t len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    struct http_request *req = con_cls;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    (void)cls;
    (void)mhd;
    if (own >= 0)
        req->on_upgraded(req, own, extra, len);
    mhd_lib.upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    http_run_soon(req->server);
}

static bool has_token(const char *list, const char *token)
{
    while (list && *list) {
        list += strspn(list, " \t,");
        size_t n = strcspn(list, " \t,");

        if (n == strlen(token) && strncasecmp(list, token, n) == 0)
            return true;
        list += n;
    }
    return false;
}

void http_reply_websocket(struct http_request *req, http_upgraded_fn upgraded)
{
    struct err err = ERR_INIT;
    struct MHD_Response *response;
    char accept[WS_ACCEPT_SIZE];

    if (!has_token(http_header(req, "Upgrade"), "websocket") ||
        !has_token(http_header(req, "Connection"), "upgrade")) {
        http_add_header(req, "Upgrade", "websocket");
        err_set(&err, ERR_INVALID_INPUT, "this is the address of a WebSocket");
        http_reply_error_status(req, 426, &err);
        return;
    }
    if (!str_eq(http_header(req, "Sec-WebSocket-Version"), "13")) {
        http_add_header(req, "Sec-WebSocket-Version", "13");
        err_set(&err, ERR_INVALID_INPUT, "only version 13 of the WebSocket protocol is spoken");
        http_reply_error_status(req, 426, &err);
        return;
    }
    if (ws_accept(http_header(req, "Sec-WebSocket-Key"), accept, &err) < 0) {
        http_reply_error(req, &err);
        return;
    }
    response = mhd_lib.create_response_for_upgrade(on_upgrade, NULL);
    if (response) {
        mhd_lib.add_response_header(response, "Upgrade", "websocket");
        mhd_lib.add_response_header(response, "Sec-WebSocket-Accept", accept);
    }
    req->on_upgraded = upgraded;
    answer(req, 101, response, 0);
}

/* ---- streams ---- */

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_stream *stream = cls;
    struct http_request *req = stream->req;
    ssize_t n;

    (void)pos;
    if (req->gone || !stream->source)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    stream->ready_pending = false;
    n = stream->source->read(stream->arg, buf, max);
    if (n == HTTP_STREAM_WAIT && stream->ready_pending)
        n = stream->source->read(stream->arg, buf, max);
    if (n > 0) {
        req->bytes_sent += (uint64_t)n;
        stream->ended = stream->size >= 0 && req->bytes_sent >= (uint64_t)stream->size;
        return n;
    }
    switch (n) {
    case HTTP_STREAM_WAIT:
        http_suspend(req);
        return 0;
    case HTTP_STREAM_END:
        stream->ended = true;
        return MHD_CONTENT_READER_END_OF_STREAM;
    default:
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
}

struct http_stream *http_reply_stream(struct http_request *req, int status,
                                      const char *content_type, int64_t size,
                                      const struct http_source *source, void *arg)
{
    struct http_stream *stream = &req->stream;
    struct MHD_Response *response = mhd_lib.create_response_from_callback(
        size < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)size,
        size < 0 ? CHUNKED_BLOCK_BYTES : STREAM_BLOCK_BYTES, read_stream, stream, NULL);

    *stream = (struct http_stream){ .req = req, .source = source, .arg = arg, .size = size };
    if (response && content_type)
        mhd_lib.add_response_header(response, "Content-Type", content_type);
    answer(req, status, response, 0);
    return stream;
}

void http_stream_ready(struct http_stream *stream)
{
    stream->ready_pending = true;
    if (stream->req->state == REQUEST_SENDING)
        http_resume(stream->req);
}
