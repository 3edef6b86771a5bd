/*
 * Connections: what libmicrohttpd calls back for, suspending and resuming, and the end of a request
 * with its log line and its counts.
 */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "net/http_impl.h"

/*
 * Of each connection: its read buffer and parsed headers. MHD zeroes all of it after each request,
 * so more costs time on every one. Must hold HTTP_HEADERS_MAX and what the headers are parsed into,
 * or MHD answers 414 and 431 in its own, terser words.
 */
#define CONNECTION_MEMORY (24u * 1024)

/* ---- suspending ---- */

void http_suspend(struct http_request *req)
{
    struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = req };

    assert(!req->suspended);
    mhd_lib.suspend_connection(req->conn->mhd);
    req->suspended = true;
    /*
     * A paused upload sees the end of its client when it reads on, and without on_close nobody
     * could be told to drop the request.
     */
    if (req->body_paused || (req->state == REQUEST_HANDLING && !req->on_close))
        return;
    req->watched = epoll_ctl(req->server->watch_fd, EPOLL_CTL_ADD, req->conn->fd, &ev) == 0;
    if (!req->watched)
        log_warn("http.watch", LOG_STR("error", strerrordesc_np(errno)));
}

static void unwatch(struct http_request *req)
{
    if (req->watched)
        epoll_ctl(req->server->watch_fd, EPOLL_CTL_DEL, req->conn->fd, NULL);
    req->watched = false;
}

void http_resume(struct http_request *req)
{
    if (!req->suspended)
        return;
    req->suspended = false;
    unwatch(req);
    if (req->body_paused)
        req->paused_ms += clock_now_ms() - req->paused_at_ms;
    req->body_paused = false;
    mhd_lib.resume_connection(req->conn->mhd);
    /* Without threads MHD has no way to wake up whoever waits for its descriptor. */
    http_run_soon(req->server);
}

void http_kill(struct http_request *req)
{
    req->gone = true;
    shutdown(req->conn->fd, SHUT_RDWR);
    http_resume(req);
}

void conn_watch(struct http_server *s)
{
    struct epoll_event ev[64];
    int n;

    n = epoll_wait(s->watch_fd, ev, ARRAY_SIZE(ev), 0);
    for (int i = 0; i < n; i++) {
        struct http_request *req = ev[i].data.ptr;

        req->gone = true;
        http_resume(req);
    }
}

/* ---- callbacks of MHD ---- */

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *s = cls;
    struct http_conn *conn;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        conn = *context;
        if (!conn)
            return;
        *conn->prev = conn->next;
        if (conn->next)
            conn->next->prev = conn->prev;
        s->n_conns--;
        metric_add(s->connections, -1);
        free(conn);
        *context = NULL;
        return;
    }
    conn = calloc(1, sizeof(*conn));
    *context = conn;
    if (!conn)
        return; /* its requests are refused */
    conn->server = s;
    conn->mhd = mhd;
    conn->idle_since_ms = clock_now_ms();
    info = mhd_lib.get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    conn->fd = info->connect_fd;
    info = mhd_lib.get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info->client_addr->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)info->client_addr)->sin6_addr;

        if (IN6_IS_ADDR_V4MAPPED(a))
            inet_ntop(AF_INET, &a->s6_addr[12], conn->peer, sizeof(conn->peer));
        else
            inet_ntop(AF_INET6, a, conn->peer, sizeof(conn->peer));
    } else {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)info->client_addr)->sin_addr, conn->peer,
                  sizeof(conn->peer));
    }
    conn->next = s->conns;
    conn->prev = &s->conns;
    if (conn->next)
        conn->next->prev = &conn->next;
    s->conns = conn;
    s->n_conns++;
    metric_add(s->connections, 1);
}

static void *on_url(void *cls, const char *url, struct MHD_Connection *mhd)
{
    struct http_conn *conn =
        mhd_lib.get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

    (void)cls;
    void *req = conn ? request_create(conn, url) : NULL;
    /*
     * The URL lies in MHD's read buffer. Its list of arguments is not used, and a long one would
     * use up the connection's memory, which MHD 0.9 answers by hanging up: it finds an empty query.
     */
    char *query = strchr((char *)(uintptr_t)url, '?');
    if (query && query[1])
        query[1] = '\0';
    return req;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *len, void **con_cls)
{
    struct http_request *req = *con_cls;

    (void)cls;
    (void)mhd;
    (void)url;
    if (req)
        req->is_http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    return req ? request_access(req, method, data, len) : MHD_NO;
}

/*
 * Paths are decoded by the router, segment by segment; MHD's decoding would cut at an encoded NUL.
 */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *s)
{
    (void)cls;
    (void)mhd;
    return strlen(s);
}

static struct route_stats *stats_of(struct http_request *req)
{
    struct http_server *s = req->server;

    return &s->stats[req->match.route ? req->match.index : router_count(s->router)];
}

static void count(struct http_request *req, int status, double seconds)
{
    struct http_server *s = req->server;
    struct route_stats *stats = stats_of(req);
    const char *route = req->match.route ? req->match.route->path : "none";
    struct metric *requests = NULL;
    char text[16];
    size_t i = 0;

    if (!s->options.metrics)
        return;
    while (i < ARRAY_SIZE(stats->by_status) && stats->by_status[i].status != status &&
           stats->by_status[i].status)
        i++;
    if (i < ARRAY_SIZE(stats->by_status) && stats->by_status[i].status == status) {
        requests = stats->by_status[i].requests;
    } else {
        snprintf(text, sizeof(text), "%d", status);
        /* Without a route the method is the client's choice, so it is no label. */
        requests = metric_series(
            s->requests_total, route,
            req->match.route ? http_method_name(req->match.route->method) : "any", text);
        if (i < ARRAY_SIZE(stats->by_status)) {
            stats->by_status[i].status = status;
            stats->by_status[i].requests = requests;
        }
    }
    metric_add(requests, 1);
    if (!stats->latency)
        stats->latency = metric_series(s->latency, route);
    /* How long a stream was open says nothing about the server. */
    if (!req->sse.req)
        metric_observe(stats->latency, seconds);
    metric_add(s->in_flight, -1);
}

static void log_access(const struct http_request *req, int status, int64_t us)
{
    bool quiet = req->match.route && req->match.route->flags & ROUTE_QUIET && status < 400;
    enum log_level level = quiet ? LOG_DEBUG : status >= 500 ? LOG_WARN : LOG_INFO;

    if (req->error)
        log_at(level, "http",
               LOG_STR("method", req->is_head ? "HEAD" : http_method_name(req->method)),
               LOG_STR("path", req->path), LOG_INT("status", status),
               LOG_DBL("ms", (double)us / 1000), LOG_STR("owner", req->owner),
               LOG_INT("bytes", req->bytes_sent), LOG_STR("peer", req->conn->peer),
               LOG_STR("request_id", req->id), LOG_STR("error", req->error));
    else
        log_at(
            level, "http", LOG_STR("method", req->is_head ? "HEAD" : http_method_name(req->method)),
            LOG_STR("path", req->path), LOG_INT("status", status), LOG_DBL("ms", (double)us / 1000),
            LOG_STR("owner", req->owner), LOG_INT("bytes", req->bytes_sent),
            LOG_STR("peer", req->conn->peer), LOG_STR("request_id", req->id));
}

/* The end of every request, whatever happened. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    struct http_request *req = *con_cls;
    int64_t us;
    int status;

    (void)cls;
    *con_cls = NULL;
    if (!req)
        return;
    status = req->status;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK && req->state != REQUEST_SENDING) {
        status = 499; /* the client left before there was an answer */
    } else if (status == 0) {
        /* MHD answered by itself: the request was malformed. */
        const union MHD_ConnectionInfo *info = mhd_lib.get_connection_info(
            mhd, MHD_CONNECTION_INFO_HTTP_STATUS);

        status = info && info->http_status ? (int)info->http_status : 400;
    }
    req->suspended = false;
    unwatch(req);
    reply_forget_large(req);
    request_forget_parsing(req);
    if (req->deferred && !req->replied && req->on_close) {
        req->replied = true;
        req->on_close(req->close_arg);
    }
    if (req->stream.source) {
        const struct http_source *source = TAKE_PTR(req->stream.source);

        if (source->close)
            source->close(req->stream.arg,
                          req->stream.ended && code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    }
    us = clock_now_us() - req->start_us;
    count(req, status, (double)us / 1e6);
    log_access(req, status, us);
    req->conn->req = NULL;
    req->conn->idle_since_ms = clock_now_ms();
    request_destroy(req);
}

/*
 * MHD refuses a head that it cannot read, such as one with the length "+4", before anybody is
 * asked. MHD 0.9 then sends the head of its answer twice. It says so first: the answer goes out
 * past it, and what it sends finds a closed socket. It does not say which connection that is; where
 * more than one is within its head, MHD's answer stands.
 */
static void refuse_unread(struct http_server *s, int status)
{
    struct http_request *unread = NULL;
    size_t n = 0;

    for (struct http_request *req = s->active; req; req = req->next) {
        if (req->state != REQUEST_NEW)
            continue;
        unread = req;
        n++;
    }
    if (n != 1)
        return;
    reply_raw_error(unread, status, status == 413 ? ERR_TOO_LARGE : ERR_INVALID_INPUT,
                    "the head of the request is malformed");
    (void)shutdown(unread->conn->fd, SHUT_WR);
}

PRINTF_LIKE(2, 0)
static void on_mhd_message(void *cls, const char *fmt, va_list args)
{
    char text[256];

    if (str_starts(fmt, "Error processing request (HTTP response code is %u")) {
        va_list copy;
        va_copy(copy, args);
        refuse_unread(cls, (int)va_arg(copy, unsigned));
        va_end(copy);
    }
    if (!log_enabled(LOG_DEBUG))
        return;
    vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    log_debug("http.mhd", LOG_STR("message", text));
}

/* ---- the daemon ---- */

struct MHD_Daemon *conn_start_daemon(struct http_server *s)
{
    const struct http_options *o = &s->options;

    /* Not strict: what MHD 0.9 refuses by itself has two heads. begin() refuses more. */
    return mhd_lib.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_TURBO |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_message, s,
        MHD_OPTION_LISTEN_SOCKET, s->listen_fd, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_CONNECTION_LIMIT, o->max_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, MAX_OF(o->idle_timeout_ms, o->body_timeout_ms) / 1000 + 1,
        MHD_OPTION_URI_LOG_CALLBACK, on_url, s, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        s, MHD_OPTION_END);
}
