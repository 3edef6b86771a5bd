#ifndef RIDDLE_NET_HTTP_IMPL_H
#define RIDDLE_NET_HTTP_IMPL_H

/*
 * What the files of the HTTP server share: http.c (the loop, set-up, shutdown), http_conn.c
 * (connections, ends of requests), http_request.c (checks, bodies, accessors), http_reply.c
 * (answers), sse.c.
 *
 * States of a request: NEW (its URL was read) → BODY (headers passed or refused; a refused one
 * still drains a small body, so that the connection lives on) → HANDLING (the handler ran;
 * suspended until there is a response) → SENDING → gone in notify_completed, whatever the reason.
 * That is the one place where on_close and the close of a stream are called from, with the
 * exception of a server that stops.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "net/http.h"
#include "net/mhd_lib.h"
#include "net/sse.h"

#define HTTP_DRAIN_MAX (256u * 1024) /* body that is read and thrown away behind an error */
#define HTTP_ARENA_MAX (4u * 1024 * 1024)
#define HTTP_SPARE_MAX 256          /* requests kept for reuse */
#define HTTP_GZIP_MIN 1400          /* less fits into one packet anyway */
#define HTTP_GZIP_MAX (512u * 1024) /* more takes longer than most clients save by it */
#define HTTP_GZIP_AT_ONCE_MAX (64u * 1024) /* more is packed beside the loop */

enum request_state { REQUEST_NEW, REQUEST_BODY, REQUEST_HANDLING, REQUEST_SENDING };

struct http_conn {
    struct http_server *server;
    struct http_conn *next, **prev;
    struct MHD_Connection *mhd;
    struct http_request *req; /* in progress; NULL between requests */
    int64_t idle_since_ms;
    int fd;
    char peer[INET6_ADDRSTRLEN];
};

struct http_stream {
    struct http_request *req;
    const struct http_source *source; /* NULL when closed */
    void *arg;
    int64_t size;       /* -1: unknown */
    bool ended;         /* all was read */
    bool ready_pending; /* http_stream_ready() was called while not suspended */
};

/* An event that waits, as text. */
struct sse_writing;

struct sse_piece {
    struct sse_piece *next;
    struct sse_writing *writing; /* NULL: text is there */
    char *text;
    size_t len, at; /* up to `at` it has been sent */
};

struct sse {
    struct http_request *req;
    struct sse *next, **prev; /* among the server's open streams */
    struct sse_piece *first, **last;
    size_t queued; /* bytes that wait, held text not counted */
    int64_t last_sent_ms;
    void (*on_close)(void *arg);
    void *close_arg;
    /* Text that is held back because the client is slow, and what it will be an event of. */
    struct {
        char event[16];
        json_t *members;
        const char *key, *alias;
        struct buf text;
    } held;
    bool unnamed; /* events have no `event:` line */
    bool full;    /* was past SSE_QUEUE_HIGH and has not drained yet */
    bool ended;   /* by sse_end(), or because the server stops */
    bool overrun; /* too much waits: ends in an error soon */
    bool broken;
};

struct header {
    struct header *next;
    const char *name, *value;
};

struct query_item {
    const char *name, *value;
};

struct http_request {
    struct http_server *server;
    struct http_conn *conn;
    struct http_request *next, **prev; /* active, or free (next only) */
    struct arena arena;
    enum request_state state;

    enum http_method method;
    bool is_head, bad_method;
    const char *url; /* raw */
    size_t url_len, path_len;
    char *path;
    struct query_item *query;
    size_t n_query;
    struct route_match match;
    const char *owner;
    char id[HTTP_REQUEST_ID_SIZE];
    const char *origin;

    int64_t body_length; /* -1: chunked */
    bool has_body;
    bool is_http_1_0;
    uint64_t received, discarded;
    size_t max_body;
    struct buf body;
    json_t *json;
    size_t held_bytes; /* of memory, for the body or its values */
    struct parsed_body *parsing; /* the body, which is being parsed beside the loop */
    bool body_paused, body_resumed;
    int64_t paused_at_ms, paused_ms; /* time that the application took, not the client */
    uint64_t seen_bytes; /* of the body, when it last grew while the server is stopping */
    int64_t seen_ms;
    void *data;
    void (*destroy_data)(void *data);

    bool deferred, replied, suspended, watched, gone;
    struct large_reply *large; /* its answer is being written beside the loop */
    void (*on_close)(void *arg);
    void *close_arg;

    struct MHD_Response *response;
    http_upgraded_fn on_upgraded;
    int status;
    struct header *headers, **last_header;
    const char *error; /* message of an error answer, for the log */
    enum err_code error_code;
    struct http_stream stream;
    struct sse sse;

    int64_t start_us;
    uint64_t bytes_sent;
};

struct route_stats {
    struct metric *latency;
    struct {
        int status;
        struct metric *requests;
    } by_status[6];
};

struct http_server {
    struct loop *loop;
    struct http_options options;
    struct router *router;
    struct route_stats *stats; /* one per route, and one for what has none */
    struct metric_family *requests_total, *latency;
    struct metric *connections, *in_flight, *streams_open;
    struct MHD_Daemon *daemon;
    int listen_fd;
    int port;
    int watch_fd; /* epoll of suspended connections, to see clients go */
    uv_poll_t mhd_poll, watch_poll;
    uv_timer_t tick;
    uv_idle_t again;
    uv_handle_t *handles[4]; /* those that are initialised */
    size_t n_handles, n_closed;

    struct http_conn *conns;
    struct http_request *active, *spare;
    struct sse *streams;
    size_t n_conns, n_active, n_spare, n_streams;
    size_t sse_queued; /* bytes of all streams that wait for clients */
    bool overrun;      /* a stream is to be ended: end_overrun() is on its way */
    char id_prefix[9];
    uint32_t id_counter;

    bool stopping, failing;
    int64_t fail_at_ms, cut_at_ms;
    void (*on_stopped)(void *arg);
    void *stopped_arg;
};

/* ---- http.c ---- */

void http_run_soon(
    struct http_server *s); /* MHD has something to do that its descriptor does not show */

/* ---- http_conn.c ---- */

struct MHD_Daemon *conn_start_daemon(struct http_server *s); /* NULL when MHD refuses */
void conn_watch(struct http_server *s);      /* ends the requests of clients that went away */
void http_suspend(struct http_request *req); /* from inside an MHD callback only */
void http_resume(struct http_request *req);  /* nothing if it is not suspended */
void http_kill(struct http_request *req);    /* cuts the connection, soon */

/* ---- http_request.c ---- */

struct http_request *request_create(struct http_conn *conn, const char *url);
void request_destroy(struct http_request *req);
enum MHD_Result request_access(struct http_request *req, const char *method, const char *data,
                               size_t *len);
/* The request ends before its body is parsed. */
void request_forget_parsing(struct http_request *req);

/* ---- http_reply.c ---- */

enum MHD_Result reply_queue(struct http_request *req);
/* The request ends before its large answer is written. */
void reply_forget_large(struct http_request *req);
/* 422, and the fault in `detail` as FastAPI lists it, besides the error object. */
void reply_invalid(struct http_request *req, const char *where, const struct schema_report *report,
                   const struct err *err);
/* Past MHD, onto the socket, which must be closed next: for a body that does not end. */
void reply_raw_error(struct http_request *req, int status, enum err_code code, const char *message);

/* ---- sse.c ---- */

void sse_heartbeats(struct http_server *s, int64_t now_ms);
/* The stream that ends when too much waits for all. */
struct sse *sse_longest_queue(struct http_server *s);
void sse_fail(struct sse *sse,
              const struct err *err); /* an `error` event, then the end; on_close runs */

#endif
