/*
 * Event streams: a queue of events as text that an http_stream reads from. `struct sse` is part of
 * its request (http_impl.h) and goes with it; on_close is called from the stream's close, which
 * MHD's end of the request calls.
 *
 * The text of a large event is written by a thread in the background; those that follow it wait.
 *
 * Memory: each event is a piece of its own, freed once it is sent, so a large one needs no more
 * than its size. Past SSE_QUEUE_HIGH text is put together instead of queued (sse_send_text), and
 * producers see sse_is_full(). Past SSE_QUEUE_MAX, or SSE_TOTAL_MAX for all streams, a client is
 * taken for one that does not read, and its stream ends.
 */

#include "net/sse.h"

#include <string.h>
#include "base/background.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "net/http_impl.h"

/* A copy of the value's members, with the event's type. */
static int add_type(const char *event, json_t *value, json_t **ret, struct err *err)
{
    auto_json json_t *obj = json_object();

    if (!obj || json_object_set_new(obj, "type", json_string(event)) < 0 ||
        (json_is_object(value) ? json_object_update_missing(obj, value) :
         value                 ? json_object_set(obj, "value", value) :
                                 0) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an event");
    *ret = TAKE_PTR(obj);
    return 0;
}

static int write_event(struct buf *b, const json_t *obj, bool named, struct err *err)
{
    const char *event = json_string_value(json_object_get(obj, "type"));
    size_t before = b->len;
    int r = named ? buf_printf(b, err, "event: %s\ndata: ", event) :
                    buf_append_str(b, "data: ", err);

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

int sse_format(struct buf *b, const char *event, bool named, json_t *value, struct err *err)
{
    auto_json json_t *obj = NULL;
    int r = add_type(event, value, &obj, err);

    return r < 0 ? r : write_event(b, obj, named, err);
}

/* ---- the queue ---- */

/* Of a piece whose text a thread in the background writes. */
struct sse_writing {
    struct sse *sse;
    struct sse_piece *piece; /* NULL: the stream has ended, or left it out */
    json_t *obj;
    bool named;
    char *text; /* NULL afterwards: memory is out */
    size_t len;
};

static void free_piece(struct sse *sse, struct sse_piece *p)
{
    size_t left = p->len - p->at;

    sse->queued -= left;
    sse->req->server->sse_queued -= left;
    if (p->writing)
        p->writing->piece = NULL;
    free(p->text);
    free(p);
}

static void drop_piece(struct sse *sse)
{
    struct sse_piece *p = sse->first;

    sse->first = p->next;
    if (!sse->first)
        sse->last = &sse->first;
    free_piece(sse, p);
}

/* The stream whose client has most to read. */
static size_t queued_for(const struct http_server *s, const char *owner)
{
    size_t sum = 0;

    for (const struct sse *sse = s->streams; sse; sse = sse->next) {
        if (sse->req->owner == owner) /* one pointer for each owner: guard.h */
            sum += sse->queued;
    }
    return sum;
}

/* Of the owner for whom most waits: many short queues of one must not end the stream of another. */
struct sse *sse_longest_queue(struct http_server *s)
{
    struct sse *longest = NULL;
    const char *owner = NULL;
    size_t most = 0;

    for (struct sse *sse = s->streams; sse; sse = sse->next) {
        size_t n = sse->req->owner == owner ? most : queued_for(s, sse->req->owner);

        if (!longest || n > most || (n == most && sse->queued > longest->queued)) {
            longest = sse;
            owner = sse->req->owner;
            most = n;
        }
    }
    return longest;
}

static void end_overrun(void *arg);

static void overrun(struct http_server *s, struct sse *sse)
{
    sse->overrun = true;
    if (s->overrun)
        return;
    s->overrun = true;
    if (loop_defer(s->loop, end_overrun, s, NULL) < 0) {
        s->overrun = false;
        sse->broken = true;
        http_kill(sse->req);
    }
}

static void set_len(struct sse *sse, struct sse_piece *p, size_t len)
{
    sse->queued += len - p->len;
    sse->req->server->sse_queued += len - p->len;
    p->len = len;
    if (sse->queued > SSE_QUEUE_HIGH)
        sse->full = true;
}

/* text is taken. */
static void set_text(struct sse *sse, struct sse_piece *p, char *text, size_t len)
{
    p->text = text;
    set_len(sse, p, len);
    http_stream_ready(&sse->req->stream);
}

/* NULL when out of memory. */
static struct sse_piece *push_piece(struct sse *sse, struct err *err)
{
    struct sse_piece *p = calloc(1, sizeof(*p));

    if (!p) {
        err_set(err, ERR_NO_MEMORY, "out of memory for an event");
        return NULL;
    }
    *sse->last = p;
    sse->last = &p->next;
    sse->last_sent_ms = clock_now_ms();
    return p;
}

/* text is taken. */
static int push(struct sse *sse, char *text, size_t len, struct err *err)
{
    struct sse_piece *p = text ? push_piece(sse, err) : NULL;

    if (!p) {
        free(text);
        return err_set(err, ERR_NO_MEMORY, "out of memory for an event");
    }
    set_text(sse, p, text, len);
    return 0;
}

/* ---- large events ---- */

#define LARGE_MIN_BYTES 16384

static void write_large(void *arg)
{
    struct sse_writing *w = arg;
    auto_buf struct buf b = BUF_INIT(SSE_QUEUE_MAX);

    if (write_event(&b, w->obj, w->named, NULL) < 0)
        return;
    w->len = b.len;
    w->text = buf_take(&b);
    char *exact = realloc(w->text, w->len + 1); /* the buffer has grown by doubling */
    w->text = exact ? exact : w->text;
}

static void large_written(void *arg)
{
    struct sse_writing *w = arg;

    if (w->piece) {
        w->piece->writing = NULL;
        if (w->text) {
            set_text(w->sse, w->piece, TAKE_PTR(w->text), w->len);
        } else {
            w->sse->broken = true;
            http_kill(w->sse->req);
        }
    }
    free(w->text);
    json_discard(w->obj);
    free(w);
}

/* What the text will be at least: a member is large, or there are thousands of values. */
static size_t least_len(json_t *obj)
{
    size_t sum = LARGE_MIN_BYTES;
    const char *key;
    json_t *member;

    json_object_foreach(obj, key, member)
        sum += json_string_length(member);
    return sum;
}

/* False: it was not taken. What comes later waits behind it. */
static bool push_large(struct sse *sse, json_t *obj)
{
    struct err ignored = ERR_INIT;
    uv_loop_t *loop = loop_uv(sse->req->server->loop);
    struct sse_writing *w = malloc(sizeof(*w));

    if (!w)
        return false;
    *w = (struct sse_writing){ .sse = sse, .obj = json_incref(obj), .named = !sse->unnamed };
    if (loop_background(loop, write_large, large_written, w, &ignored) < 0) {
        json_decref(obj);
        free(w);
        return false;
    }
    w->piece = push_piece(sse, &ignored);
    if (w->piece) {
        w->piece->writing = w;
        set_len(sse, w->piece, least_len(obj));
    } else {
        sse->broken = true;
        http_stream_ready(&sse->req->stream);
    }
    return true;
}

static int push_event(struct sse *sse, const char *event, json_t *value, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(SSE_QUEUE_MAX);
    auto_json json_t *obj = NULL;
    int r = add_type(event, value, &obj, err);

    if (r == 0 && json_is_large(obj) && push_large(sse, obj))
        return 0;
    if (r == 0)
        r = write_event(&b, obj, !sse->unnamed, err);
    size_t len = b.len;
    return r < 0 ? r : push(sse, buf_take(&b), len, err);
}

/* ---- text that is held back ---- */

#define HELD_EVENT_BYTES 65536 /* of one event of it */

/* The first bytes of it as an event. */
static int push_held(struct sse *sse, struct err *err)
{
    size_t n = str_utf8_cut(sse->held.text.data, sse->held.text.len, HELD_EVENT_BYTES);
    auto_json json_t *value = json_copy(sse->held.members);
    json_t *text = json_text(sse->held.text.data, n);
    int r = value && text ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for an event");

    if (r == 0)
        json_object_set(value, sse->held.key, text);
    if (r == 0 && sse->held.alias)
        json_object_set(value, sse->held.alias, text);
    json_decref(text);
    if (r == 0)
        r = push_event(sse, sse->held.event, value, err);
    if (r == 0)
        buf_consume(&sse->held.text, n);
    return r;
}

static void drop_held(struct sse *sse)
{
    json_decref(TAKE_PTR(sse->held.members));
    buf_finish(&sse->held.text);
}

/* Sends it: all, or as much as the client takes. */
static int flush_held(struct sse *sse, bool all, struct err *err)
{
    int r = 0;

    while (r == 0 && sse->held.text.len > 0 && (all || !sse->full))
        r = push_held(sse, err);
    if (sse->held.text.len == 0)
        drop_held(sse);
    return r;
}

/* ---- as a source ---- */

static ssize_t read_events(void *arg, char *out, size_t max)
{
    struct sse *sse = arg;
    size_t n = 0;

    if (sse->broken)
        return HTTP_STREAM_FAIL;
    while (sse->first && !sse->first->writing && n < max) {
        struct sse_piece *p = sse->first;
        size_t some = MIN_OF(max - n, p->len - p->at);

        memcpy(out + n, p->text + p->at, some);
        n += some;
        p->at += some;
        sse->queued -= some;
        sse->req->server->sse_queued -= some;
        if (p->at == p->len)
            drop_piece(sse);
        if (sse->full && sse->queued < SSE_QUEUE_HIGH / 2) {
            struct err ignored;

            sse->full = false;
            if (flush_held(sse, false, &ignored) < 0)
                sse->broken =
                    true; /* memory is out: the client must see that something is missing */
        }
    }
    if (n > 0)
        return (ssize_t)n;
    return sse->ended && !sse->first ? HTTP_STREAM_END : HTTP_STREAM_WAIT;
}

static void tell_closed(struct sse *sse)
{
    void (*fn)(void *arg) = TAKE_PTR(sse->on_close);

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
    while (sse->first)
        drop_piece(sse);
    drop_held(sse);
    tell_closed(sse);
}

static const struct http_source sse_source = { .read = read_events, .close = close_events };

struct sse *http_reply_sse(struct http_request *req)
{
    struct http_server *s = req->server;
    struct sse *sse = &req->sse;

    sse->req = req;
    sse->first = NULL;
    sse->last = &sse->first;
    buf_init(&sse->held.text, SSE_QUEUE_MAX);
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

/*
 * Room for another event. Past the limits the stream cannot go on, because an event cannot be left
 * out without the client knowing.
 */
static int check_room(struct sse *sse, struct err *err)
{
    struct http_server *s = sse->req->server;
    struct sse *longest;

    if (sse->broken || sse->ended || sse->overrun)
        return err_set(err, ERR_UNAVAILABLE, "the event stream has ended");
    if (sse->queued + sse->held.text.len > SSE_QUEUE_MAX) {
        overrun(s, sse);
        return err_set(err, ERR_UNAVAILABLE, "the client does not read its events");
    }
    if (s->sse_queued > SSE_TOTAL_MAX) {
        longest = sse_longest_queue(s);
        overrun(s, longest);
        if (longest == sse)
            return err_set(err, ERR_UNAVAILABLE, "the client does not read its events");
    }
    return 0;
}

static int failed_to_send(struct sse *sse, int r)
{
    if (r < 0) {
        sse->broken = true;
        http_kill(sse->req);
    }
    return r;
}

int sse_send(struct sse *sse, const char *event, json_t *taken, struct err *err)
{
    auto_discard json_t *value = taken;
    int r = check_room(sse, err);

    if (r < 0)
        return r;
    r = flush_held(sse, true, err);
    if (r == 0)
        r = push_event(sse, event, value, err);
    return failed_to_send(sse, r);
}

int sse_send_text(struct sse *sse, const char *event, json_t *taken, const char *key,
                  const char *alias, struct err *err)
{
    auto_json json_t *value = taken;
    auto_json json_t *text = json_incref(json_object_get(value, key));
    int r;

    if (!sse->full || !json_is_string(text) || strlen(event) >= sizeof(sse->held.event))
        return sse_send(sse, event, TAKE_PTR(value), err);
    r = check_room(sse, err);
    if (r < 0)
        return r;
    json_object_del(value, key);
    if (alias)
        json_object_del(value, alias);
    if (sse->held.members &&
        (strcmp(sse->held.event, event) != 0 || !json_equal(sse->held.members, value)))
        r = flush_held(sse, true, err);
    if (r == 0 && !sse->held.members) {
        strcpy(sse->held.event, event);
        sse->held.members = json_incref(value);
        sse->held.key = key;
        sse->held.alias = alias;
    }
    if (r == 0)
        r = buf_append(&sse->held.text, json_string_value(text), json_string_length(text), err);
    return failed_to_send(sse, r);
}

bool sse_is_full(const struct sse *sse)
{
    return sse->full;
}

void sse_set_unnamed(struct sse *sse)
{
    sse->unnamed = true;
}

void sse_on_close(struct sse *sse, void (*fn)(void *arg), void *arg)
{
    sse->on_close = fn;
    sse->close_arg = arg;
}

void sse_end(struct sse *sse)
{
    struct err ignored;

    if (!sse || sse->ended)
        return;
    if (flush_held(sse, true, &ignored) < 0)
        sse->broken = true;
    sse->ended = true;
    http_stream_ready(&sse->req->stream);
}

void sse_fail(struct sse *sse, const struct err *err)
{
    auto_json json_t *value = json_pack("{s:o, s:s}", "error", json_error(err), "message",
                                        err->message);

    struct err ignored;

    if (sse->ended)
        return;
    if (!sse->overrun)
        (void)flush_held(sse, true, &ignored);
    (void)push_event(sse, "error", value, &ignored);
    tell_closed(sse);
    http_stream_ready(&sse->req->stream);
}

/* The event that is being sent still goes out whole, then the error. */
static void end_overrun(void *arg)
{
    struct http_server *s = arg;
    struct sse *next;
    struct err e = ERR_INIT;

    s->overrun = false;
    err_set(&e, ERR_UNAVAILABLE, "events were not read for too long: more than %u MB were waiting",
            (unsigned)(MIN_OF(SSE_QUEUE_MAX, SSE_TOTAL_MAX) >> 20));
    for (struct sse *sse = s->streams; sse; sse = next) {
        next = sse->next;
        if (!sse->overrun)
            continue;
        struct sse_piece *started = sse->first && sse->first->at > 0 ? sse->first : NULL;

        drop_held(sse);
        if (started) {
            struct sse_piece *rest = started->next;

            started->next = NULL;
            sse->last = &started->next;
            while (rest) {
                struct sse_piece *p = rest;

                rest = p->next;
                free_piece(sse, p);
            }
        }
        while (!started && sse->first)
            drop_piece(sse);
        sse_fail(sse, &e);
    }
}

void sse_heartbeats(struct http_server *s, int64_t now_ms)
{
    struct err ignored;

    for (struct sse *sse = s->streams; sse; sse = sse->next) {
        if (sse->ended || sse->broken || sse->queued > 0 ||
            now_ms - sse->last_sent_ms < s->options.heartbeat_ms)
            continue;
        (void)push(sse, strdup(": heartbeat\n\n"), strlen(": heartbeat\n\n"), &ignored);
    }
}
