#ifndef RIDDLE_NET_HTTP_H
#define RIDDLE_NET_HTTP_H

/*
 * The HTTP server: libmicrohttpd in external-epoll mode inside the event loop. One thread.
 *
 * Life of a request: headers arrive → Host, Origin, key, rate, size and type are checked, the route
 * is found and its parameters validated → the body is read (JSON: parsed and validated against the
 * route's schema; streamed: handed to on_body) → the handler runs → the answer is sent, the request
 * is logged and counted. A handler answers exactly once, by one of the http_reply_… functions,
 * either before it returns or, after http_defer(), later.
 *
 * Ownership: `req` and everything that its accessors return live until the answer is given. A
 * handler that answers later must call http_defer(). Then exactly one of two things happens: the
 * application answers, or on_close(arg) is called because the client went away or the server stops.
 * Either way `req` is gone afterwards (after the reply function returns, or as soon as on_close
 * returns): drop every pointer to it.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "net/guard.h"
#include "net/loop.h"
#include "net/metrics.h"
#include "net/route.h"

#define HTTP_URL_MAX 8192            /* 414 */
#define HTTP_HEADERS_MAX 16384       /* 431, of the request line and all headers together */
#define HTTP_BODY_MAX (1024u * 1024) /* 413, of a JSON body whose route names no maximum */
#define HTTP_BODY_VALUES_MAX 200000u /* 413, of values in a JSON body; each takes some 60 bytes */
#define HTTP_HELD_MAX (256u << 20)      /* 503, of memory for bodies, of all requests … */
#define HTTP_HELD_OWNER_MAX (64u << 20) /* … and of one owner's */
#define HTTP_REQUEST_ID_SIZE 65

struct http_server;
struct http_request;
struct http_stream;
struct sse;

/* ---- server ---- */

struct http_options {
    const char *host;         /* address or name to bind; NULL: 127.0.0.1 */
    int port;                 /* 0: any free one, see http_server_port() */
    bool allow_open;          /* bind beyond loopback though there are no keys */
    unsigned max_connections; /* 0: 1024 */
    /* Of a connection without a request, or whose headers are on their way; 0: 60000. */
    unsigned idle_timeout_ms;
    /* A body may take this and a second per kB; 0: 30000. */
    unsigned body_timeout_ms;
    unsigned heartbeat_ms; /* of event streams; 0: 15000 */
    struct guard
        *guard; /* borrowed; NULL: everybody is "local", loopback hosts and own origin only */
    struct metrics *metrics; /* borrowed; NULL: nothing is counted */
    void *app;               /* http_request_app() */
};

/*
 * Binds but does not listen to routes yet: add them, then http_server_start(). CONFIG when the host
 * is beyond loopback and there are neither keys nor allow_open; IO when the address cannot be bound
 * (the message says what is in the way).
 */
int http_server_create(struct loop *loop, const struct http_options *options,
                       struct http_server **ret, struct err *err);
int http_server_add_routes(struct http_server *s, const struct route *routes, size_t n,
                           struct err *err);
int http_server_start(struct http_server *s, struct err *err);

int http_server_port(const struct http_server *s);
const struct router *http_server_router(const struct http_server *s);
size_t http_server_active(
    const struct http_server *s); /* requests under way, event streams included */

/*
 * Graceful: refuses new connections, lets what is in flight finish for deadline_ms, then fails it
 * (503; event streams end in an `error` event; on_close callbacks run) and calls done(arg). Once.
 */
void http_server_stop(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg),
                      void *arg);

/*
 * After done(), or without stop: then everything is cut. Not from inside a handler or a callback of
 * a request. The memory goes when the loop runs next (loop_destroy() does). NULL is fine.
 */
void http_server_destroy(struct http_server *s);

/* ---- the request ---- */

void *http_request_app(const struct http_request *req);
struct loop *http_request_loop(const struct http_request *req);
const char *http_owner(
    const struct http_request *req); /* name of the key; "local" when keys are off */
struct arena *http_arena(struct http_request *req);

/* Declared parameters have been checked against their fields. NULL when missing. */
const char *http_param(const struct http_request *req, const char *name);
const char *http_query(const struct http_request *req, const char *name);
/* As numbers; the field's range was checked. dflt when missing. */
long long http_query_i64(const struct http_request *req, const char *name, long long dflt);
bool http_query_bool(const struct http_request *req, const char *name, bool dflt);
const char *http_header(const struct http_request *req, const char *name);

/* The validated body, defaults in place; borrowed. NULL for a route without a JSON body. */
json_t *http_body_json(const struct http_request *req);
int64_t http_body_length(const struct http_request *req); /* Content-Length; -1 when chunked */

/*
 * State of a streamed upload. destroy(data) is called when the request ends, however it ends (NULL:
 * never).
 */
void http_set_data(struct http_request *req, void *data, void (*destroy)(void *data));
void *http_get_data(const struct http_request *req);
void http_body_resume(
    struct http_request *req); /* on_body took less than it was given: offer the rest again */

/* ---- answers ---- */

/*
 * The handler returns without an answer; see the top. With on_close NULL a client that goes away is
 * not noticed before the answer, which must come in any case and before the server is destroyed.
 */
void http_defer(struct http_request *req, void (*on_close)(void *arg), void *arg);
/* The same for one whose address somebody keeps: *slot becomes NULL when the client goes away. */
void http_hold(struct http_request *req, struct http_request **slot);

/*
 * Adds a header to the answer that comes. Name and value are copied; a value with control
 * characters is dropped.
 */
void http_add_header(struct http_request *req, const char *name, const char *value);

void http_reply_json(struct http_request *req, int status,
                     json_t *taken); /* NULL: 500 out of memory */
void http_reply_error(struct http_request *req, const struct err *err);
void http_reply_error_status(struct http_request *req, int status, const struct err *err);
void http_reply_fail(struct http_request *req, enum err_code code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* 503 with Retry-After, for queues that are full. */
void http_reply_busy(struct http_request *req, unsigned retry_after_s, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void http_reply_empty(struct http_request *req, int status); /* 204, 304, … */

/*
 * Answers a WebSocket's handshake. When it is sent, the connection is the callee's: fd, and the
 * bytes that came behind the request. Should the client leave before, nothing is called. A request
 * that is no handshake gets an error.
 */
typedef void (*http_upgraded_fn)(struct http_request *req, int fd, const char *bytes, size_t len);
void http_reply_websocket(struct http_request *req, http_upgraded_fn upgraded);
void http_reply_text(struct http_request *req, int status, const char *content_type,
                     const char *text);
void http_reply_bytes(struct http_request *req, int status, const char *content_type,
                      const void *data, size_t len);
/* As bytes, without a copy: freed with free() when sent. */
void http_reply_taken(struct http_request *req, int status, const char *content_type, void *data,
                      size_t len);
/* As taken, but never compressed: it already is. */
void http_reply_packed(struct http_request *req, int status, const char *content_type, void *data,
                       size_t len);
/* As bytes that outlive the server: no copy, no compression. */
void http_reply_static(struct http_request *req, int status, const char *content_type,
                       const void *data, size_t len);
/* A regular file from offset; the descriptor is taken. */
void http_reply_file(struct http_request *req, int status, const char *content_type, int fd,
                     uint64_t offset, uint64_t size);

/*
 * True when the client takes gzip. http_reply_json/text/bytes/taken compress on their own where it
 * pays.
 */
bool http_accepts_gzip(const struct http_request *req);

/*
 * A body made piece by piece. read() fills buf with up to max bytes and returns how many,
 * HTTP_STREAM_WAIT when there is nothing now (call http_stream_ready() when there is),
 * HTTP_STREAM_END, or HTTP_STREAM_FAIL (the connection is cut, so that the client sees that the
 * body is not whole). It is called only when the client can take more. close() is called exactly
 * once at the end; whole says whether all was handed to the client's socket.
 */
enum { HTTP_STREAM_WAIT = 0, HTTP_STREAM_END = -1, HTTP_STREAM_FAIL = -2 };
struct http_source {
    ssize_t (*read)(void *arg, char *buf, size_t max);
    void (*close)(void *arg, bool whole);
};
/* size: -1 when unknown. The stream lives until close() is called. */
struct http_stream *http_reply_stream(struct http_request *req, int status,
                                      const char *content_type, int64_t size,
                                      const struct http_source *source, void *arg);
void http_stream_ready(struct http_stream *stream);

/*
 * An event stream: see sse.h. Never NULL; a stream that could not be made tells so by its on_close.
 */
struct sse *http_reply_sse(struct http_request *req);

#endif
