/*
 * Calls go through src/net/client.h, which has libcurl speak HTTP over a Unix socket or TCP. An
 * attached stream is a connection of its own: one request by hand, an answer `101 UPGRADED`, and
 * from then on bytes both ways. What comes is in frames of 8 bytes (stream, three zeros, length as
 * u32 in network order) and their payload.
 */

#include "sandbox/docker/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include "base/buf.h"
#include "base/str.h"
#include "net/client.h"

#define ANSWER_MAX (4u << 20)
#define HEAD_MAX 16384
#define STREAM_HEAD_BYTES 8

struct engine {
    uv_loop_t *loop;
    struct client *client;
    bool is_unix;
    char base[300]; /* of URLs */
    char path[108]; /* of the socket */
    char name[256]; /* host and port */
    char port[8];
};

int engine_create(uv_loop_t *loop, const char *host, struct engine **ret, struct err *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    e->loop = loop;
    int r = 0;
    if (str_starts(host, "unix://")) {
        e->is_unix = true;
        if (snprintf(e->path, sizeof(e->path), "%s", host + 7) >= (int)sizeof(e->path) ||
            e->path[0] != '/')
            r = err_set(
                err, ERR_CONFIG,
                "DOCKER_HOST: '%s' is not the absolute path of a socket of at most %zu bytes",
                host + 7, sizeof(e->path) - 1);
        snprintf(e->base, sizeof(e->base), "http://docker");
    } else if (str_starts(host, "tcp://")) {
        const char *colon = strrchr(host, ':');
        long long port = 0;
        if (!colon || colon <= host + 6 ||
            str_parse_i64(colon + 1, "port", 1, 65535, &port, NULL) < 0 ||
            (size_t)(colon - host - 6) >= sizeof(e->name))
            r = err_set(err, ERR_CONFIG, "DOCKER_HOST: '%s' is not tcp://HOST:PORT", host);
        else
            snprintf(e->name, sizeof(e->name), "%.*s", (int)(colon - host - 6), host + 6);
        snprintf(e->port, sizeof(e->port), "%lld", port);
        snprintf(e->base, sizeof(e->base), "http://%s:%s", e->name, e->port);
    } else {
        r = err_set(err, ERR_CONFIG, "DOCKER_HOST: '%s' is neither unix:// nor tcp://", host);
    }
    if (r == 0)
        r = client_create(loop, NULL, &e->client, err);
    if (r < 0) {
        free(e);
        return r;
    }
    *ret = e;
    return 0;
}

void engine_destroy(struct engine *e)
{
    if (!e)
        return;
    client_destroy(e->client);
    free(e);
}

/* ---- calls ---- */

struct call {
    struct buf answer;
    engine_fn done;
    void *arg;
};

static int take_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                     struct err *err)
{
    struct call *c = arg;
    (void)resp;
    return buf_append(&c->answer, data, len, err);
}

static void call_done(void *arg, const struct client_response *resp, const struct err *err)
{
    struct call *c = arg;
    struct err why = ERR_INIT;
    auto_json json_t *body = NULL;
    if (err)
        err_set(&why, err->code == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE,
                "the Docker daemon: %s", err->message);
    else if (c->answer.len)
        (void)json_parse(c->answer.data, c->answer.len, &body, NULL);
    if (!err && resp->status >= 400) {
        const char *message = json_string_value(json_object_get(body, "message"));
        char shown[400];
        str_show(message ? message : "", message ? strlen(message) : 0, shown, sizeof(shown));
        err_set(&why,
                resp->status == 404 ? ERR_NOT_FOUND :
                resp->status == 409 ? ERR_CONFLICT :
                                      ERR_UNAVAILABLE,
                "the Docker daemon answered %d: %s", resp->status, shown);
    }
    c->done(c->arg, body, why.code ? &why : NULL);
    buf_finish(&c->answer);
    free(c);
}

int engine_call(struct engine *e, const char *method, const char *path, const json_t *body,
                int64_t timeout_ms, engine_fn done, void *arg, struct err *err)
{
    char url[1024];
    auto_free char *text = body ? json_to_str(body) : NULL;
    struct call *c = calloc(1, sizeof(*c));
    if (!c || (body && !text)) {
        free(c);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *c = (struct call){ .done = done, .arg = arg };
    buf_init(&c->answer, ANSWER_MAX);
    snprintf(url, sizeof(url), "%s%s", e->base, path);
    static const struct client_header type = { "Content-Type", "application/json" };
    struct client_options o = {
        .method = method,
        .url = url,
        .unix_socket = e->is_unix ? e->path : NULL,
        .headers = &type,
        .n_headers = text ? 1 : 0,
        .body = text                   ? text :
                str_eq(method, "POST") ? "" :
                                         NULL,
        .body_len = text ? strlen(text) : 0,
        .timeout_ms = timeout_ms,
        .max_body_bytes = ANSWER_MAX,
    };
    struct client_events events = { .body = take_body, .done = call_done, .arg = c };
    int r = client_start(e->client, &o, &events, NULL, err);
    if (r < 0)
        free(c);
    return r;
}

/* ---- attached streams ---- */

struct engine_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } u;
    uv_connect_t connect;
    uv_getaddrinfo_t lookup;
    struct engine *engine;
    const struct engine_stream_events *events;
    void *arg;
    char container[80];
    struct buf head; /* of the HTTP answer, until it is whole */
    bool upgraded, reading, looking_up, closing, is_closed;
    unsigned char frame[STREAM_HEAD_BYTES];
    size_t frame_len, payload_left;
    size_t queued;
    void (*closed)(void *arg);
    void *closed_arg;
};

struct write {
    uv_write_t req;
    struct engine_stream *stream;
    size_t len;
    char bytes[];
};

static void maybe_free(struct engine_stream *s)
{
    if (s->looking_up || !s->is_closed)
        return;
    void (*closed)(void *) = s->closed;
    void *arg = s->closed_arg;
    buf_finish(&s->head);
    free(s);
    if (closed)
        closed(arg);
}

static void on_closed(uv_handle_t *h)
{
    struct engine_stream *s = h->data;
    s->is_closed = true;
    maybe_free(s);
}

void engine_stream_close(struct engine_stream *s, void (*closed)(void *arg), void *arg)
{
    if (s->closing)
        return;
    s->closing = true;
    s->events = NULL;
    s->closed = closed;
    s->closed_arg = arg;
    if (s->looking_up)
        uv_cancel((uv_req_t *)&s->lookup);
    uv_close(&s->u.handle, on_closed);
}

static void end_stream(struct engine_stream *s, const struct err *err)
{
    const struct engine_stream_events *events = TAKE_PTR(s->events);
    uv_read_stop(&s->u.stream);
    if (events)
        events->ended(s->arg, err);
}

static void fail_stream(struct engine_stream *s, const char *what, int uv_error)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_UNAVAILABLE, "the Docker daemon: %s: %s", what, uv_strerror(uv_error));
    end_stream(s, &err);
}

/* Gives the payload of frames on as it comes. */
static void demux(struct engine_stream *s, const char *p, size_t len)
{
    while (len && s->events) {
        if (s->payload_left == 0) {
            size_t n = MIN_OF(len, STREAM_HEAD_BYTES - s->frame_len);
            memcpy(s->frame + s->frame_len, p, n);
            s->frame_len += n;
            p += n;
            len -= n;
            if (s->frame_len < STREAM_HEAD_BYTES)
                return;
            if (s->frame[0] > 2 || s->frame[1] || s->frame[2] || s->frame[3]) {
                struct err err = ERR_INIT;
                err_set(&err, ERR_PROTOCOL,
                        "the Docker daemon: the stream of a container is out of step");
                end_stream(s, &err);
                return;
            }
            s->frame_len = 0;
            s->payload_left = (size_t)s->frame[4] << 24 | (size_t)s->frame[5] << 16 |
                              (size_t)s->frame[6] << 8 | s->frame[7];
            continue;
        }
        size_t n = MIN_OF(len, s->payload_left);
        s->payload_left -= n;
        s->events->data(s->arg, s->frame[0] == 2, p, n);
        p += n;
        len -= n;
    }
}

/* The HTTP answer; what is behind it is the stream's. */
static void take_head(struct engine_stream *s, const char *bytes, size_t len)
{
    struct err err = ERR_INIT;
    if (buf_append(&s->head, bytes, len, &err) < 0) {
        end_stream(s, &err);
        return;
    }
    const char *text = buf_cstr(&s->head), *end = strstr(text, "\r\n\r\n");
    if (!end)
        return;
    if (!str_starts(text, "HTTP/1.1 101") && !str_starts(text, "HTTP/1.1 200")) {
        char shown[200];
        str_show(text, strcspn(text, "\r"), shown, sizeof(shown));
        err_set(&err, ERR_UNAVAILABLE, "the Docker daemon does not attach to a container: %s",
                shown);
        end_stream(s, &err);
        return;
    }
    s->upgraded = true;
    s->events->attached(s->arg);
    size_t from = (size_t)(end + 4 - text);
    demux(s, s->head.data + from, s->head.len - from);
    if (!s->closing)
        buf_finish(&s->head);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char chunk[65536]; /* one loop, and a chunk is used before the next is read */
    (void)h, (void)suggested;
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct engine_stream *s = h->data;
    if (n == 0 || !s->events)
        return;
    if (n == UV_EOF && s->upgraded)
        end_stream(s, NULL);
    else if (n < 0)
        fail_stream(s, "the stream of a container", (int)n);
    else if (s->upgraded)
        demux(s, buf->base, (size_t)n);
    else
        take_head(s, buf->base, (size_t)n);
}

void engine_stream_read(struct engine_stream *s, bool on)
{
    if (s->closing || s->reading == on)
        return;
    s->reading = on;
    if (on)
        uv_read_start(&s->u.stream, on_alloc, on_read);
    else
        uv_read_stop(&s->u.stream);
}

static void on_connected(uv_connect_t *req, int status)
{
    struct engine_stream *s = req->data;
    if (s->closing)
        return;
    if (status < 0) {
        fail_stream(s, "connecting", status);
        return;
    }
    char request[400];
    int len = snprintf(
        request, sizeof(request),
        "POST /containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\nHost: docker\r\n"
        "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n",
        s->container);
    struct err err = ERR_INIT;
    if (engine_stream_write(s, request, (size_t)len, &err) < 0)
        end_stream(s, &err);
    else
        engine_stream_read(s, true);
}

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct engine_stream *s = req->data;
    s->looking_up = false;
    if (s->closing) {
        uv_freeaddrinfo(found);
        maybe_free(s);
        return;
    }
    if (status == 0)
        status = uv_tcp_connect(&s->connect, &s->u.tcp, found->ai_addr, on_connected);
    uv_freeaddrinfo(found);
    if (status < 0)
        fail_stream(s, "finding its host", status);
}

int engine_attach(struct engine *e, const char *container,
                  const struct engine_stream_events *events, void *arg, struct engine_stream **ret,
                  struct err *err)
{
    struct engine_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    s->engine = e;
    s->events = events;
    s->arg = arg;
    buf_init(&s->head, HEAD_MAX + 65536);
    snprintf(s->container, sizeof(s->container), "%s", container);
    s->connect.data = s->lookup.data = s;
    int r = 0;
    if (e->is_unix) {
        uv_pipe_init(e->loop, &s->u.pipe, 0);
        s->u.handle.data = s;
        uv_pipe_connect(&s->connect, &s->u.pipe, e->path, on_connected);
    } else {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
        uv_tcp_init(e->loop, &s->u.tcp);
        uv_tcp_nodelay(&s->u.tcp, 1);
        s->u.handle.data = s;
        r = uv_getaddrinfo(e->loop, &s->lookup, on_looked_up, e->name, e->port, &hints);
        s->looking_up = r == 0;
    }
    if (r < 0) {
        engine_stream_close(s, NULL, NULL);
        return err_set(err, ERR_UNAVAILABLE, "the Docker daemon: %s", uv_strerror(r));
    }
    *ret = s;
    return 0;
}

static void on_written(uv_write_t *req, int status)
{
    struct write *w = (struct write *)req;
    struct engine_stream *s = w->stream;
    s->queued -= w->len;
    free(w);
    if (!s->events)
        return;
    if (status < 0)
        fail_stream(s, "writing to a container", status);
    else if (s->queued == 0 && s->upgraded)
        s->events->drained(s->arg);
}

int engine_stream_write(struct engine_stream *s, const void *bytes, size_t len, struct err *err)
{
    if (!s->events)
        return err_set(err, ERR_UNAVAILABLE, "the stream of the container has ended");
    size_t done = 0;
    if (s->queued == 0) {
        uv_buf_t now = uv_buf_init((char *)bytes, (unsigned)len);
        int n = uv_try_write(&s->u.stream, &now, 1);
        if (n < 0 && n != UV_EAGAIN)
            return err_set(err, ERR_UNAVAILABLE, "writing to a container: %s", uv_strerror(n));
        done = n > 0 ? (size_t)n : 0;
    }
    if (done == len)
        return 0;
    struct write *w = malloc(sizeof(*w) + len - done);
    if (!w)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    w->stream = s;
    w->len = len - done;
    memcpy(w->bytes, (const char *)bytes + done, w->len);
    uv_buf_t later = uv_buf_init(w->bytes, (unsigned)w->len);
    int r = uv_write(&w->req, &s->u.stream, &later, 1, on_written);
    if (r < 0) {
        free(w);
        return err_set(err, ERR_UNAVAILABLE, "writing to a container: %s", uv_strerror(r));
    }
    s->queued += w->len;
    return 0;
}

size_t engine_stream_queued(const struct engine_stream *s)
{
    return s->queued;
}
