/*
 * Event streams: a bounded queue of text that an http_stream reads from. `struct sse` is part of
 * its request (http_impl.h) and goes with it; on_close is called from the stream's close, which
 * MHD's end of the request calls.
 */

#include "net/sse.h"

#include <string.h>
#include "base/clock.h"
#include "net/http_impl.h"

#define KEEP_QUEUE_BYTES 16384 /* of memory, once the queue is empty */

int sse_format(struct buf *b, const char *event, json_t *value, struct err *err)
{
    auto_json json_t *obj = json_object();
    size_t before = b->len;
    int r;

    if (!obj || json_object_set_new(obj, "type", json_string(event)) < 0 ||
        (json_is_object(value) ? json_object_update_missing(obj, value) :
         value                 ? json_object_set(obj, "value", value) :
                                 0) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an event");
    r = buf_printf(b, err, "event: %s\ndata: ", event);
    /* What json_write() writes has no line break. */
    if (r == 0)
        r = json_write(obj, b, err);
    if (r == 0)
        r = buf_append_str(b, "\n\n", err);
    if (r < 0 && b->data) {
        b->len = before;
        b->data[before] = '\0';
    }
    return r;
}

/* ---- as a source ---- */

static ssize_t read_events(void *arg, char *out, size_t max)
{
    struct sse *sse = arg;
    size_t n = MIN_OF(max, sse->queue.len);

    if (sse->broken)
        return HTTP_STREAM_FAIL;
    if (n == 0)
        return sse->ended ? HTTP_STREAM_END : HTTP_STREAM_WAIT;
    memcpy(out, sse->queue.data, n);
    buf_consume(&sse->queue, n);
    if (sse->queue.len == 0 && sse->queue.cap > KEEP_QUEUE_BYTES)
        buf_finish(&sse->queue);
    if (sse->full && sse->queue.len < SSE_QUEUE_HIGH / 2) {
        sse->full = false;
        if (sse->on_drain && !sse->ended)
            sse->on_drain(sse->drain_arg);
    }
    return (ssize_t)n;
}

static void tell_closed(struct sse *sse)
{
    void (*fn)(void *arg) = TAKE_PTR(sse->on_close);

    sse->on_drain = NULL;
    if (fn && !sse->ended)
        fn(sse->close_arg);
    sse->ended = true;
}

static void close_events(void *arg, bool whole)
{
    struct sse *sse = arg;
    struct http_server *s = sse->req->server;

    (void)whole;
    *sse->prev = sse->next;
    if (sse->next)
        sse->next->prev = sse->prev;
    s->n_streams--;
    metric_add(s->streams_open, -1);
    tell_closed(sse);
}

static const struct http_source sse_source = { .read = read_events, .close = close_events };

struct sse *http_reply_sse(struct http_request *req)
{
    struct http_server *s = req->server;
    struct sse *sse = &req->sse;

    sse->req = req;
    buf_init(&sse->queue, SSE_QUEUE_MAX);
    sse->last_sent_ms = clock_now_ms();
    sse->next = s->streams;
    sse->prev = &s->streams;
    if (sse->next)
        sse->next->prev = &sse->next;
    s->streams = sse;
    s->n_streams++;
    metric_add(s->streams_open, 1);
    http_add_header(req, "Cache-Control", "no-cache, no-transform");
    /* nginx would else hold events back. */
    http_add_header(req, "X-Accel-Buffering", "no");
    http_reply_stream(req, 200, "text/event-stream; charset=utf-8", -1, &sse_source, sse);
    return sse;
}

/* ---- sending ---- */

static void sent(struct sse *sse)
{
    sse->last_sent_ms = clock_now_ms();
    if (sse->queue.len > SSE_QUEUE_HIGH)
        sse->full = true;
    http_stream_ready(&sse->req->stream);
}

int sse_send(struct sse *sse, const char *event, json_t *taken, struct err *err)
{
    auto_json json_t *value = taken;
    int r;

    if (sse->broken || sse->ended)
        return err_set(err, ERR_UNAVAILABLE, "the event stream has ended");
    r = sse_format(&sse->queue, event, value, err);
    if (r == -ERR_TOO_LARGE || r == -ERR_NO_MEMORY) {
        /* An event cannot be left out without the client knowing, so the stream cannot go on. */
        sse->broken = true;
        http_kill(sse->req);
        return err_set(err, ERR_UNAVAILABLE, "the client does not read its events");
    }
    if (r < 0)
        return r;
    sent(sse);
    return 0;
}

bool sse_is_full(const struct sse *sse)
{
    return sse->full;
}

void sse_on_drain(struct sse *sse, void (*fn)(void *arg), void *arg)
{
    sse->on_drain = fn;
    sse->drain_arg = arg;
}

void sse_on_close(struct sse *sse, void (*fn)(void *arg), void *arg)
{
    sse->on_close = fn;
    sse->close_arg = arg;
}

void sse_end(struct sse *sse)
{
    if (!sse || sse->ended)
        return;
    sse->ended = true;
    http_stream_ready(&sse->req->stream);
}

void sse_fail(struct sse *sse, const struct err *err)
{
    auto_json json_t *value = json_pack("{s:o, s:s}", "error", json_error(err), "message",
                                        err->message);

    if (sse->ended)
        return;
    sse_format(&sse->queue, "error", value, NULL);
    tell_closed(sse);
    http_stream_ready(&sse->req->stream);
}

void sse_heartbeats(struct http_server *s, int64_t now_ms)
{
    for (struct sse *sse = s->streams; sse; sse = sse->next) {
        if (sse->ended || sse->broken || sse->queue.len > 0 ||
            now_ms - sse->last_sent_ms < s->options.heartbeat_ms)
            continue;
        if (buf_append_str(&sse->queue, ": heartbeat\n\n", NULL) == 0)
            sent(sse);
    }
}
