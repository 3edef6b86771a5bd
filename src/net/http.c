/*
 * The daemon in the loop. libmicrohttpd keeps its sockets in an epoll descriptor of its own; that
 * descriptor is polled by libuv, and mhd_lib.run() does what is ready. MHD does not watch a
 * connection while it is suspended, so a second epoll descriptor does: a client that goes away then
 * ends the request (and what works for it).
 *
 * Time: MHD's own time-out (whole seconds without any progress) is the net below. A tick looks at
 * every connection: one that has had no complete request for idle_timeout_ms is closed however
 * slowly it trickles, and a body has to keep a pace.
 */

#include "net/http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "net/http_impl.h"

#define BACKLOG 1024
#define STALLED_MS 2000 /* a request of which nothing more came while the server is stopping */
#define CROWDED_IDLE_MS 1000u
#define FLUSH_MS 1000        /* what answers of a stopping server get to leave, past the deadline */
#define BODY_PACE_BYTES 1024 /* per second */
#define RUNS_IN_A_ROW 8

/* ---- running ---- */

static void run_daemon(struct http_server *s);

static void on_again(uv_idle_t *idle)
{
    struct http_server *s = idle->data;

    uv_idle_stop(idle);
    if (s->daemon) /* it may have been stopped in between */
        run_daemon(s);
}

void http_run_soon(struct http_server *s)
{
    if (!uv_is_closing((uv_handle_t *)&s->again))
        uv_idle_start(&s->again, on_again);
}

static void run_daemon(struct http_server *s)
{
    for (int i = 0; i < RUNS_IN_A_ROW; i++) {
        MHD_UNSIGNED_LONG_LONG timeout_ms = 1;

        mhd_lib.run(s->daemon);
        /* Only "at once" matters here: the tick takes care of the rest. */
        if (mhd_lib.get_timeout(s->daemon, &timeout_ms) != MHD_YES || timeout_ms > 0)
            return;
    }
    http_run_soon(s);
}

static void on_watch(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    conn_watch(poll->data);
}

static void on_mhd(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run_daemon(poll->data);
}

static void fail_in_flight(struct http_server *s);
static void finish_stop(struct http_server *s);

/* A stopping server waits for requests that are on their way in, as long as they come nearer. */
static bool has_stalled(struct http_request *req, int64_t now_ms)
{
    uint64_t bytes = req->received + req->discarded;

    if (req->seen_ms == 0 || bytes != req->seen_bytes || req->body_paused) {
        req->seen_ms = now_ms;
        req->seen_bytes = bytes;
    }
    return now_ms - req->seen_ms >= STALLED_MS;
}

static void check_connection(struct http_server *s, struct http_conn *conn, int64_t now_ms)
{
    struct http_request *req = conn->req;
    int64_t body_ms;

    if (!req || req->state == REQUEST_NEW) {
        int64_t since_ms = req ? req->start_us / 1000 : conn->idle_since_ms;
        /* When connections run out, those that do nothing go first. */
        bool crowded = s->n_conns >= s->options.max_connections - s->options.max_connections / 16;
        int64_t patience_ms = crowded ? MIN_OF(s->options.idle_timeout_ms, CROWDED_IDLE_MS) :
                                        s->options.idle_timeout_ms;

        /* A stopping server does not wait for a request that has not begun. */
        if (now_ms - since_ms >= patience_ms || (s->stopping && (!req || has_stalled(req, now_ms))))
            shutdown(conn->fd, SHUT_RDWR);
        return;
    }
    if (req->state == REQUEST_BODY && s->stopping && has_stalled(req, now_ms)) {
        shutdown(conn->fd, SHUT_RDWR);
        return;
    }
    if (req->state != REQUEST_BODY || req->body_paused)
        return;
    body_ms = now_ms - req->start_us / 1000 - req->paused_ms;
    if (body_ms > s->options.body_timeout_ms +
                      (int64_t)(req->received + req->discarded) * 1000 / BODY_PACE_BYTES) {
        reply_raw_error(req, 408, ERR_TIMEOUT, "the body came too slowly");
        shutdown(conn->fd, SHUT_RDWR);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct http_server *s = timer->data;
    int64_t now_ms = clock_now_ms();

    for (struct http_conn *conn = s->conns; conn; conn = conn->next)
        check_connection(s, conn, now_ms);
    sse_heartbeats(s, now_ms);
    run_daemon(s);
    if (!s->stopping)
        return;
    if (!s->failing && now_ms >= s->fail_at_ms)
        fail_in_flight(s);
    if (s->n_active == 0 || now_ms >= s->cut_at_ms)
        finish_stop(s);
}

/* ---- set-up ---- */

static int listen_on(const struct http_options *o, int *ret_fd, int *ret_port, struct err *err)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE },
                    *list;
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    auto_close int fd = -1;
    bool loopback = true;
    char port[16];
    int r;

    snprintf(port, sizeof(port), "%d", o->port);
    r = getaddrinfo(o->host, port, &hints, &list);
    if (r != 0)
        return err_set(err, ERR_CONFIG, "cannot bind '%s': %s", o->host, gai_strerror(r));
    /* What is bound counts, not what it is called. */
    if (list->ai_family == AF_INET)
        loopback = ntohl(((struct sockaddr_in *)list->ai_addr)->sin_addr.s_addr) >> 24 == 127;
    else
        loopback = IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)list->ai_addr)->sin6_addr);
    if (!loopback && !guard_has_keys(o->guard) && !o->allow_open) {
        freeaddrinfo(list);
        return err_set(
            err, ERR_CONFIG,
            "'%s' can be reached from other machines and there are no keys: set RIDDLE_API_KEYS, or "
            "RIDDLE_ALLOW_OPEN=1 to let everybody run code here",
            o->host);
    }
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    r = fd < 0 ? -errno : 0;
    if (r == 0) {
        int on = 1, off = 0;

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (list->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        if (bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &len) < 0)
            r = -errno;
    }
    freeaddrinfo(list);
    if (r == -EADDRINUSE)
        return err_set(err, ERR_IO,
                       "port %d of %s is in use by another program; choose one with --port or PORT",
                       o->port, o->host);
    if (r < 0)
        return err_errno(err, ERR_IO, -r, "cannot listen on port %d of %s", o->port, o->host);
    *ret_port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port :
                                                     ((struct sockaddr_in6 *)&address)->sin6_port);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int http_server_create(struct loop *loop, const struct http_options *options,
                       struct http_server **ret, struct err *err)
{
    struct http_server *s = calloc(1, sizeof(*s));
    struct http_options *o;
    int r;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the server");
    s->loop = loop;
    s->listen_fd = s->watch_fd = -1;
    s->options = *options;
    o = &s->options;
    o->host = o->host && o->host[0] ? o->host : "127.0.0.1";
    o->max_connections = o->max_connections ? o->max_connections : 1024;
    o->idle_timeout_ms = o->idle_timeout_ms ? o->idle_timeout_ms : 60000;
    o->body_timeout_ms = o->body_timeout_ms ? o->body_timeout_ms : 30000;
    o->heartbeat_ms = o->heartbeat_ms ? o->heartbeat_ms : 15000;
    id_hex(s->id_prefix, 8);
    r = mhd_lib_load(err);
    if (r == 0)
        r = router_create(&s->router, err);
    if (r == 0)
        r = listen_on(o, &s->listen_fd, &s->port, err);
    if (r == 0) {
        s->watch_fd = epoll_create1(EPOLL_CLOEXEC);
        if (s->watch_fd < 0)
            r = err_errno(err, ERR_IO, errno, "cannot make an epoll descriptor");
    }
    if (r < 0) {
        http_server_destroy(s);
        return r;
    }
    o->host = NULL; /* not kept */
    *ret = s;
    return 0;
}

int http_server_add_routes(struct http_server *s, const struct route *routes, size_t n,
                           struct err *err)
{
    assert(!s->daemon);
    return router_add(s->router, routes, n, err);
}

static void make_metrics(struct http_server *s)
{
    struct metrics *m = s->options.metrics;

    s->requests_total = metrics_counter(m, "riddle_http_requests_total",
                                        "HTTP requests by route, method and status.", "route",
                                        "method", "status", NULL);
    s->latency = metrics_histogram(m, "riddle_http_request_seconds",
                                   "Time from the request's first line to the end of its answer.",
                                   metrics_latency_bounds, metrics_n_latency_bounds, "route", NULL);
    s->connections = metric_series(
        metrics_gauge(m, "riddle_http_connections", "Open connections.", NULL));
    s->in_flight = metric_series(
        metrics_gauge(m, "riddle_http_requests_in_flight", "Requests under way.", NULL));
    s->streams_open = metric_series(
        metrics_gauge(m, "riddle_http_event_streams", "Open event streams.", NULL));
}

#define DESCRIPTORS_MAX (1u << 20)
#define DESCRIPTORS_BESIDE 512 /* files, and some dozens of kernels with seven each */

/*
 * Connections, kernels and files are descriptors, and more than one setting says how many there may
 * be: all that the system allows are taken.
 */
static void raise_descriptor_limit(unsigned connections)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
        return;
    lim.rlim_cur = MAX_OF(lim.rlim_cur, MIN_OF(lim.rlim_max, (rlim_t)DESCRIPTORS_MAX));
    setrlimit(RLIMIT_NOFILE, &lim);
    if (lim.rlim_cur < connections + DESCRIPTORS_BESIDE)
        log_warn("http.descriptors", LOG_INT("limit", (long long)lim.rlim_cur),
                 LOG_INT("wanted", connections + DESCRIPTORS_BESIDE),
                 LOG_STR("remedy", "raise 'ulimit -n' or lower RIDDLE_MAX_CONNECTIONS"));
}

int http_server_start(struct http_server *s, struct err *err)
{
    const struct http_options *o = &s->options;
    uint64_t tick_ms = MIN_OF(
        500u, MIN_OF(o->idle_timeout_ms, MIN_OF(o->body_timeout_ms, o->heartbeat_ms)) / 4 + 1);
    uv_loop_t *uv = loop_uv(s->loop);
    int r;

    s->stats = calloc(router_count(s->router) + 1, sizeof(*s->stats));
    if (!s->stats)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the server");
    make_metrics(s);
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit(o->max_connections);
    s->daemon = conn_start_daemon(s);
    if (!s->daemon)
        return err_set(err, ERR_IO, "libmicrohttpd could not be started");
    s->listen_fd = -1; /* MHD's now */

    uv_timer_init(uv, &s->tick);
    s->handles[s->n_handles++] = (uv_handle_t *)&s->tick;
    uv_idle_init(uv, &s->again);
    s->handles[s->n_handles++] = (uv_handle_t *)&s->again;
    s->mhd_poll.data = s->watch_poll.data = s->tick.data = s->again.data = s;
    r = uv_poll_init(uv, &s->mhd_poll,
                     mhd_lib.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
    if (r == 0) {
        s->handles[s->n_handles++] = (uv_handle_t *)&s->mhd_poll;
        r = uv_poll_init(uv, &s->watch_poll, s->watch_fd);
    }
    if (r < 0)
        return err_set(err, ERR_IO, "cannot poll the server's sockets: %s", uv_strerror(r));
    s->handles[s->n_handles++] = (uv_handle_t *)&s->watch_poll;
    uv_poll_start(&s->mhd_poll, UV_READABLE, on_mhd);
    uv_poll_start(&s->watch_poll, UV_READABLE, on_watch);
    uv_timer_start(&s->tick, on_tick, tick_ms, tick_ms);
    return 0;
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

const struct router *http_server_router(const struct http_server *s)
{
    return s->router;
}

size_t http_server_active(const struct http_server *s)
{
    return s->n_active;
}

/* ---- stopping ---- */

void http_server_stop(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg),
                      void *arg)
{
    int fd;

    if (s->stopping)
        return;
    if (!s->daemon) { /* never started */
        done(arg);
        return;
    }
    s->stopping = true;
    s->on_stopped = done;
    s->stopped_arg = arg;
    s->fail_at_ms = clock_now_ms() + deadline_ms;
    s->cut_at_ms = s->fail_at_ms + FLUSH_MS;
    fd = mhd_lib.quiesce_daemon(s->daemon);
    if (fd >= 0)
        close(fd);
    log_info("http.stopping", LOG_INT("in_flight", s->n_active),
             LOG_INT("deadline_ms", deadline_ms));
    uv_timer_start(&s->tick, on_tick, 0, 20);
}

/* The deadline has passed: what waits for an answer gets one that says so. */
static void fail_in_flight(struct http_server *s)
{
    struct err e = ERR_INIT;
    struct http_request *req, *next;

    s->failing = true;
    if (s->n_active > 0)
        log_warn("http.failing", LOG_INT("in_flight", s->n_active));
    err_set(&e, ERR_UNAVAILABLE, "the server is stopping");
    for (req = s->active; req; req = next) {
        next = req->next;
        if (req->sse.req && !req->sse.ended) {
            sse_fail(&req->sse, &e);
        } else if (req->state == REQUEST_HANDLING && req->deferred && !req->replied) {
            if (req->on_close) {
                void (*fn)(void *arg) = TAKE_PTR(req->on_close);

                fn(req->close_arg);
            }
            http_reply_error(req, &e);
        } else if (!req->large && (req->state != REQUEST_SENDING || req->stream.source)) {
            http_kill(req);
        }
    }
}

/* Everything is cut. MHD refuses to stop while a connection is suspended. */
static void stop_daemon(struct http_server *s)
{
    struct MHD_Daemon *daemon = s->daemon;

    for (struct http_request *req = s->active; req; req = req->next) {
        req->gone = true;
        http_resume(req);
    }
    mhd_lib.stop_daemon(daemon);
    s->daemon = NULL;
}

static void free_server(struct http_server *s)
{
    while (s->spare) {
        struct http_request *req = s->spare;

        s->spare = req->next;
        arena_finish(&req->arena);
        free(req);
    }
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->watch_fd >= 0)
        close(s->watch_fd);
    router_destroy(s->router);
    free(s->stats);
    free(s);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;

    if (++s->n_closed == s->n_handles)
        free_server(s);
}

static void finish_stop(struct http_server *s)
{
    uv_timer_stop(&s->tick);
    uv_idle_stop(&s->again);
    uv_poll_stop(&s->watch_poll);
    /*
     * Before the daemon closes its descriptor: the end of a handle takes the descriptor's number out
     * of the loop's epoll set, where it may already stand for another file.
     */
    uv_close((uv_handle_t *)&s->mhd_poll, on_handle_closed);
    stop_daemon(s);
    log_info("http.stopped");
    if (s->on_stopped)
        s->on_stopped(s->stopped_arg);
}

void http_server_destroy(struct http_server *s)
{
    size_t n;

    if (!s)
        return;
    n = s->n_handles;
    for (size_t i = 0; i < n; i++) /* stops them; on_handle_closed runs later, from the loop */
        if (!uv_is_closing(s->handles[i]))
            uv_close(s->handles[i], on_handle_closed);
    if (s->daemon)
        stop_daemon(s);
    if (n == 0)
        free_server(s);
}
