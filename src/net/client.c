/*
 * The HTTP client. libcurl says which descriptors it waits for and when it wants to be called
 * (socket_wanted, timer_wanted); libuv calls back (socket_ready, timer_fired); both end in act(),
 * the only place that drives transfers.
 *
 * libcurl refuses that transfers are added or removed while it runs one of its callbacks, and a
 * user may do both from body(). So inside of act() a start only queues and a cancel only marks;
 * settle() does the work once libcurl has returned. It also calls done(), which therefore never
 * runs inside of libcurl.
 *
 * A request is in one of these states:
 *   QUEUED     not yet given to libcurl
 *   RUNNING    in libcurl
 *   ENOUGH     body() has all that it needs: done() is due
 *   DRAINING   done() was called; the rest of the body may come for a moment, so that the connection can be used again
 *   DEAD       cancelled, or its time to drain is over: to be removed and freed
 */

#include "net/client.h"

#include <assert.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/str.h"
#include "base/version.h"
#include "net/curl_lib.h"

#define CONNECT_TIMEOUT_MS 10000
#define DRAIN_MS 500
#define DRAIN_MAX (64u << 10)
#define RETRY_AFTER_MAX_S (24 * 3600)

enum state { QUEUED, RUNNING, ENOUGH, DRAINING, DEAD };

struct client {
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_timer_t drain_timer;
    CURLM *multi;
    char *ca_file;
    struct client_request *requests;
    bool acting;    /* libcurl or settle() is on the stack */
    bool destroyed; /* while it was */
    int open_handles;
};

struct client_request {
    struct client *client;
    struct client_request *next, **prev;
    enum state state;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    struct client_events events;
    struct client_response resp;
    uint64_t max_body_bytes, body_bytes;
    bool has_retry_ms; /* retry_after_ms is of retry-after-ms */
    size_t head_bytes;
    int64_t drain_until_ms;
    struct err failure;              /* of body(), or a limit of ours */
    char origin[CLIENT_ORIGIN_SIZE]; /* for messages: of the URL, or the path of the socket */
    bool is_unix;
    char curl_error[CURL_ERROR_SIZE];
};

struct watch {
    uv_poll_t poll;
    struct client *client;
    curl_socket_t fd;
};

static void act(struct client *c, curl_socket_t fd, int events);

/* ---- life of a client ---- */

static void client_free(struct client *c)
{
    free(c->ca_file);
    free(c);
}

static void handle_closed(uv_handle_t *h)
{
    struct client *c = h->data;

    if (--c->open_handles == 0)
        client_free(c);
}

static void request_free(struct client_request *r)
{
    if (r->prev) {
        *r->prev = r->next;
        if (r->next)
            r->next->prev = r->prev;
    }
    if (r->easy) {
        if (r->state != QUEUED)
            curl_lib.multi_remove_handle(r->client->multi, r->easy);
        curl_lib.easy_cleanup(r->easy);
    }
    curl_lib.slist_free_all(r->headers);
    free(r->body);
    free(r);
}

static void watch_closed(uv_handle_t *h)
{
    free(h->data);
}

static void socket_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;
    int flags = 0;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    else
        flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    act(w->client, w->fd, flags);
}

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct client *c = arg;
    struct watch *w = socket_arg;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            curl_lib.multi_assign(c->multi, fd, NULL);
            uv_poll_stop(&w->poll);
            uv_close((uv_handle_t *)&w->poll, watch_closed);
        }
        return 0;
    }
    if (!w) {
        w = calloc(1, sizeof(*w));
        if (!w || uv_poll_init_socket(c->loop, &w->poll, fd) < 0) {
            free(w);
            return -1;
        }
        w->client = c;
        w->fd = fd;
        w->poll.data = w;
        curl_lib.multi_assign(c->multi, fd, w);
    }
    if (what & CURL_POLL_IN)
        events |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        events |= UV_WRITABLE;
    return uv_poll_start(&w->poll, events, socket_ready) < 0 ? -1 : 0;
}

static void timer_fired(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int timer_wanted(CURLM *multi, long timeout_ms, void *arg)
{
    struct client *c = arg;

    (void)multi;
    if (timeout_ms < 0) {
        uv_timer_stop(&c->timer);
    } else {
        uv_update_time(c->loop);
        uv_timer_start(&c->timer, timer_fired, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

int client_create(uv_loop_t *loop, const char *ca_file, struct client **ret, struct err *err)
{
    struct client *c;
    int r = curl_lib_load(err);

    if (r < 0)
        return r;
    /*
     * OpenSSL writes to sockets as to files: a peer that is gone must be an error, not the end of
     * the process.
     */
    signal(SIGPIPE, SIG_IGN);
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "out of memory for an HTTP client");
    c->multi = curl_lib.multi_init();
    c->ca_file = ca_file && *ca_file ? strdup(ca_file) : NULL;
    if (!c->multi || (ca_file && *ca_file && !c->ca_file)) {
        curl_lib.multi_cleanup(c->multi);
        client_free(c);
        return err_set(err, ERR_NO_MEMORY, "out of memory for an HTTP client");
    }
    c->loop = loop;
    uv_timer_init(loop, &c->timer);
    uv_timer_init(loop, &c->drain_timer);
    c->timer.data = c->drain_timer.data = c;
    c->open_handles = 2;
    curl_lib.multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted);
    curl_lib.multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    curl_lib.multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
    curl_lib.multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    curl_lib.multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 16L); /* idle ones that are kept */
    *ret = c;
    return 0;
}

static void client_close(struct client *c)
{
    while (c->requests)
        request_free(c->requests);
    curl_lib.multi_cleanup(c->multi);
    c->multi = NULL;
    uv_close((uv_handle_t *)&c->timer, handle_closed);
    uv_close((uv_handle_t *)&c->drain_timer, handle_closed);
}

void client_destroy(struct client *c)
{
    if (!c)
        return;
    if (c->acting) {
        c->destroyed = true;
        for (struct client_request *r = c->requests; r; r = r->next)
            client_cancel(r);
        return;
    }
    client_close(c);
}

/* ---- what libcurl tells ---- */

/* As many bytes as were given mean success to libcurl, any other number stops the transfer. */
static size_t stop_transfer(struct client_request *r, enum err_code code, const char *what,
                            uint64_t limit)
{
    err_set(&r->failure, code, "the answer of %s is larger than its limit: %llu bytes of %s",
            r->origin, (unsigned long long)limit, what);
    return 0;
}

static void read_retry_after(struct client_request *r, const char *value)
{
    char *end;
    double seconds = strtod(value, &end);

    if (end != value && *end == '\0') {
        if (!(seconds >= 0))
            return;
    } else {
        time_t at = curl_lib.getdate(value, NULL);

        if (at == (time_t)-1)
            return;
        seconds = (double)at - (double)clock_wall_ms() / 1000;
        seconds = MAX_OF(seconds, 0.0);
    }
    r->resp.retry_after_ms = (int64_t)(MIN_OF(seconds, (double)RETRY_AFTER_MAX_S) * 1000);
}

static size_t got_header(char *data, size_t size, size_t n, void *arg)
{
    struct client_request *r = arg;
    size_t len = size * n, name_len, value_len;
    char value[128];
    const char *colon, *v;

    r->head_bytes += len;
    if (r->head_bytes > CLIENT_HEAD_MAX)
        return stop_transfer(r, ERR_TOO_LARGE, "headers", CLIENT_HEAD_MAX);
    if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        /* The head of an interim answer (100, 103) is not the head of the answer. */
        r->resp = (struct client_response){ .retry_after_ms = -1, .should_retry = -1 };
        r->has_retry_ms = false;
        return len;
    }
    colon = memchr(data, ':', len);
    if (!colon)
        return len;
    name_len = (size_t)(colon - data);
    v = colon + 1;
    value_len = (size_t)(data + len - v);
    while (value_len > 0 && strchr(" \t", *v))
        v++, value_len--;
    while (value_len > 0 && strchr(" \t\r\n", v[value_len - 1]))
        value_len--;
    if (value_len >= sizeof(value) || memchr(v, '\0', value_len))
        return len;
    memcpy(value, v, value_len);
    value[value_len] = '\0';
    if (name_len == 12 && strncasecmp(data, "content-type", 12) == 0) {
        size_t i, end = strcspn(value, "; \t");

        end = MIN_OF(end, sizeof(r->resp.content_type) - 1);
        for (i = 0; i < end; i++)
            r->resp.content_type[i] = (char)(value[i] >= 'A' && value[i] <= 'Z' ? value[i] + 32 :
                                                                                  value[i]);
        r->resp.content_type[i] = '\0';
    } else if (name_len == 11 && strncasecmp(data, "retry-after", 11) == 0 && !r->has_retry_ms) {
        read_retry_after(r, value);
    } else if (name_len == 14 && strncasecmp(data, "retry-after-ms", 14) == 0) {
        char *end;
        /* more exact than Retry-After, which may stand beside it */
        double ms = strtod(value, &end);

        if (end != value && *end == '\0' && ms >= 0) {
            r->resp.retry_after_ms = (int64_t)MIN_OF(ms, (double)RETRY_AFTER_MAX_S * 1000);
            r->has_retry_ms = true;
        }
    } else if (name_len == 14 && strncasecmp(data, "x-should-retry", 14) == 0) {
        r->resp.should_retry = str_ieq(value, "true") ? 1 : str_ieq(value, "false") ? 0 : -1;
    }
    return len;
}

static void note_status(struct client_request *r)
{
    long status = 0;

    if (r->resp.status == 0 &&
        curl_lib.easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
        r->resp.status = (int)status;
}

static size_t got_body(char *data, size_t size, size_t n, void *arg)
{
    struct client_request *r = arg;
    size_t len = size * n;
    int done;

    if (r->state == ENOUGH || r->state == DRAINING) {
        r->body_bytes += len;
        return r->body_bytes > DRAIN_MAX ? 0 : len;
    }
    if (r->state == DEAD)
        return 0;
    if (len > r->max_body_bytes - r->body_bytes)
        return stop_transfer(r, ERR_TOO_LARGE, "body", r->max_body_bytes);
    r->body_bytes += len;
    note_status(r);
    done = r->events.body ? r->events.body(r->events.arg, &r->resp, data, len, &r->failure) : 0;
    if (r->state == DEAD || done < 0)
        return 0;
    if (done > 0) {
        r->state = ENOUGH;
        r->body_bytes = 0;
    }
    return len;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    (void)arg;
    (void)purpose;
    /* Programs that we start must not inherit it. */
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* ---- the end of requests ---- */

static void describe_failure(struct client_request *r, CURLcode code, struct err *err)
{
    const char *why = r->curl_error[0] ? r->curl_error : curl_lib.easy_strerror(code);
    char shown[200];

    if (r->failure.code != ERR_NONE) {
        *err = r->failure;
        return;
    }
    /* libcurl's own words name the address again, and for a socket of this machine a port. */
    long os_errno = 0;
    if (code == CURLE_COULDNT_CONNECT &&
        curl_lib.easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &os_errno) == CURLE_OK && os_errno)
        why = strerror((int)os_errno);
    str_show(why, strlen(why), shown, sizeof(shown));
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        if (r->resp.status == 0 && r->body_bytes == 0)
            err_set(err, ERR_TIMEOUT, "%s did not answer in time", r->origin);
        else
            err_set(err, ERR_TIMEOUT, "%s did not finish its answer in time", r->origin);
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        err_set(err, ERR_UNAVAILABLE, "cannot connect to %s: %s", r->origin, shown);
        break;
    case CURLE_GOT_NOTHING:
        err_set(err, ERR_UNAVAILABLE, "%s closed the connection without an answer", r->origin);
        break;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        err_set(err, ERR_UNAVAILABLE, "the connection to %s broke: %s", r->origin, shown);
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
        err_set(err, ERR_PROTOCOL,
                "the certificate of %s is not trusted (SSL_CERT_FILE names those that are): %s",
                r->origin, shown);
        break;
    case CURLE_SSL_CACERT_BADFILE:
        err_set(err, ERR_CONFIG,
                "cannot read the certificates to trust; check SSL_CERT_FILE and CURL_CA_BUNDLE: %s",
                shown);
        break;
    case CURLE_SSL_CONNECT_ERROR:
        err_set(err, ERR_PROTOCOL, "no TLS connection to %s: %s", r->origin, shown);
        break;
    case CURLE_OUT_OF_MEMORY:
        err_set(err, ERR_NO_MEMORY, "out of memory for a request to %s", r->origin);
        break;
    default:
        err_set(err, ERR_PROTOCOL, "the request to %s failed: %s", r->origin, shown);
    }
}

static void drain_over(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* Frees what is dead and due, and sees to it that somebody looks again when the next one is. */
static void sweep(struct client *c)
{
    int64_t now = clock_now_ms(), next = -1;
    struct client_request *r = c->requests, *following;

    for (; r; r = following) {
        following = r->next;
        if (r->state == DEAD || (r->state == DRAINING && r->drain_until_ms <= now))
            request_free(r);
        else if (r->state == DRAINING)
            next = next < 0 ? r->drain_until_ms : MIN_OF(next, r->drain_until_ms);
    }
    if (next < 0) {
        uv_timer_stop(&c->drain_timer);
    } else {
        uv_update_time(c->loop);
        uv_timer_start(&c->drain_timer, drain_over, (uint64_t)(next - now) + 1, 0);
    }
}

static struct client_request *find_state(struct client *c, enum state state)
{
    struct client_request *r = c->requests;

    while (r && r->state != state)
        r = r->next;
    return r;
}

static void tell_done(struct client_request *r, enum state next, const struct err *err)
{
    void (*done)(void *arg, const struct client_response *resp,
                 const struct err *err) = r->events.done;

    note_status(r);
    r->state = next;
    r->drain_until_ms = clock_now_ms() + DRAIN_MS;
    done(r->events.arg, &r->resp, err);
}

static void begin(struct client_request *r)
{
    r->state = RUNNING;
    if (curl_lib.multi_add_handle(r->client->multi, r->easy) != CURLM_OK) {
        struct err err = ERR_INIT;

        err_set(&err, ERR_INTERNAL, "libcurl refuses a request to %s", r->origin);
        curl_lib.easy_cleanup(TAKE_PTR(r->easy));
        tell_done(r, DEAD, &err);
    }
}

/* What could not be done while libcurl was running. Calls of users may add to it. */
static void settle(struct client *c)
{
    struct client_request *r;
    CURLMsg *m;
    int left;

    for (;;) {
        if ((r = find_state(c, ENOUGH))) {
            tell_done(r, DRAINING, NULL);
        } else if ((r = find_state(c, QUEUED))) {
            begin(r);
        } else if ((m = curl_lib.multi_info_read(c->multi, &left))) {
            struct err err = ERR_INIT;
            CURLcode code = m->data.result;

            if (m->msg != CURLMSG_DONE)
                continue;
            curl_lib.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r);
            if (r->state == RUNNING) {
                if (code != CURLE_OK)
                    describe_failure(r, code, &err);
                tell_done(r, DEAD, code == CURLE_OK ? NULL : &err);
            } else {
                r->state = DEAD;
            }
        } else {
            break;
        }
    }
    sweep(c);
}

static void act(struct client *c, curl_socket_t fd, int events)
{
    int running;

    c->acting = true;
    curl_lib.multi_socket_action(c->multi, fd, events, &running);
    settle(c);
    c->acting = false;
    if (c->destroyed)
        client_close(c);
}

/* ---- requests ---- */

/* 0 and the parts; libcurl's own reading of a URL, so that it is the one that is connected to. */
static int parse_url(const char *url, char ret_origin[CLIENT_ORIGIN_SIZE], bool *ret_loopback,
                     struct err *err)
{
    CURLU *u;
    char *scheme = NULL, *host = NULL, *port = NULL;
    bool good;
    int r = curl_lib_load(err);

    ret_origin[0] = '\0';
    *ret_loopback = false;
    if (r < 0)
        return r;
    u = curl_lib.url();
    good = u && curl_lib.url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
           curl_lib.url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
           curl_lib.url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK && *host &&
           (str_ieq(scheme, "http") || str_ieq(scheme, "https"));
    if (good) {
        char shown[128];

        curl_lib.url_get(u, CURLUPART_PORT, &port, 0);
        snprintf(ret_origin, CLIENT_ORIGIN_SIZE, "%s://%s%s%s", scheme,
                 str_show(host, strlen(host), shown, sizeof(shown)), port ? ":" : "",
                 port ? port : "");
        *ret_loopback = str_ieq(host, "localhost") || str_starts(host, "127.") ||
                        str_eq(host, "[::1]");
    }
    curl_lib.free(scheme);
    curl_lib.free(host);
    curl_lib.free(port);
    curl_lib.url_cleanup(u);
    return good ? 0 : err_set(err, ERR_INVALID_INPUT, "not an http or https URL");
}

void client_origin(const char *url, char ret[CLIENT_ORIGIN_SIZE])
{
    bool loopback;

    (void)parse_url(url, ret, &loopback, NULL);
}

static int set_headers(struct client_request *r, const struct client_options *o, struct err *err)
{
    /*
     * No "Expect: 100-continue": it costs a round trip, and a second where a server does not know
     * it.
     */
    struct curl_slist *list = curl_lib.slist_append(NULL, "Expect:");

    for (size_t i = 0; list && i < o->n_headers; i++) {
        const struct client_header *h = &o->headers[i];
        auto_free char *line = NULL;
        struct curl_slist *longer;

        if (h->value[strcspn(h->value, "\r\n")] != '\0') {
            curl_lib.slist_free_all(list);
            return err_set(err, ERR_INVALID_INPUT, "the header '%s' has a line break in its value",
                           h->name);
        }
        longer = asprintf(&line, "%s: %s", h->name, h->value) < 0 ?
                     NULL :
                     curl_lib.slist_append(list, line);
        if (line)
            explicit_bzero(line, strlen(line));
        if (!longer)
            curl_lib.slist_free_all(list);
        list = longer;
    }
    if (!list)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the headers of a request");
    r->headers = list;
    return 0;
}

static int set_up(struct client_request *r, const struct client_options *o, bool loopback,
                  struct err *err)
{
    CURL *e = r->easy;
    bool good = true;

#define SET(option, value)                                                                         \
    good = good && curl_lib.easy_setopt(e, CURLOPT_##option, value) == CURLE_OK
    SET(NOSIGNAL, 1L);
    SET(QUICK_EXIT, 1L); /* a name server that is silent must not hold up the loop */
    SET(PROTOCOLS_STR, "http,https");
    SET(FOLLOWLOCATION, 0L);
    SET(SUPPRESS_CONNECT_HEADERS, 1L);
    SET(TCP_NODELAY, 1L);
    SET(ERRORBUFFER, r->curl_error);
    SET(PRIVATE, r);
    SET(OPENSOCKETFUNCTION, open_socket);
    SET(HEADERFUNCTION, got_header);
    SET(HEADERDATA, r);
    SET(WRITEFUNCTION, got_body);
    SET(WRITEDATA, r);
    SET(URL, o->url);
    SET(HTTPHEADER, r->headers);
    SET(USERAGENT, "riddle/" RIDDLE_VERSION);
    SET(CONNECTTIMEOUT_MS,
        (long)(o->connect_timeout_ms > 0 ? o->connect_timeout_ms : CONNECT_TIMEOUT_MS));
    SET(TIMEOUT_MS, (long)MAX_OF(o->timeout_ms, 0));
    if (r->client->ca_file)
        SET(CAINFO, r->client->ca_file);
    if (loopback || o->unix_socket)
        SET(PROXY, "");
    if (o->unix_socket)
        SET(UNIX_SOCKET_PATH, o->unix_socket);
    if (o->body) {
        SET(POSTFIELDSIZE_LARGE, (curl_off_t)o->body_len);
        SET(POSTFIELDS, r->body);
    }
    if (!str_eq(o->method, o->body ? "POST" : "GET"))
        SET(CUSTOMREQUEST, o->method);
#undef SET
    return good ? 0 :
                  err_set(err, ERR_INTERNAL, "libcurl refuses an option of a request to %s",
                          r->origin);
}

int client_start(struct client *c, const struct client_options *o,
                 const struct client_events *events, struct client_request **ret, struct err *err)
{
    struct client_request *r;
    bool loopback;
    int code;

    assert(events->done && !c->destroyed);
    r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a request");
    r->client = c;
    r->state = QUEUED;
    r->events = *events;
    r->resp.retry_after_ms = -1;
    r->resp.should_retry = -1;
    r->max_body_bytes = o->max_body_bytes;
    r->is_unix = o->unix_socket != NULL;
    code = parse_url(o->url, r->origin, &loopback, err);
    if (r->is_unix)
        snprintf(r->origin, sizeof(r->origin), "%s", o->unix_socket);
    if (code == 0) {
        r->easy = curl_lib.easy_init();
        r->body = malloc(o->body_len + 1);
        if (!r->easy || !r->body)
            code = err_set(err, ERR_NO_MEMORY, "out of memory for a request to %s", r->origin);
        else if (o->body_len > 0)
            memcpy(r->body, o->body, o->body_len);
    }
    if (code == 0)
        code = set_headers(r, o, err);
    if (code == 0)
        code = set_up(r, o, loopback, err);
    if (code < 0) {
        request_free(r);
        return code;
    }
    r->next = c->requests;
    r->prev = &c->requests;
    if (r->next)
        r->next->prev = &r->next;
    c->requests = r;
    if (!c->acting) {
        if (curl_lib.multi_add_handle(c->multi, r->easy) != CURLM_OK) {
            request_free(r);
            return err_set(err, ERR_INTERNAL, "libcurl refuses a request");
        }
        r->state = RUNNING;
    }
    if (ret)
        *ret = r;
    return 0;
}

void client_cancel(struct client_request *r)
{
    if (!r)
        return;
    if (r->client->acting) {
        if (r->state == QUEUED && r->easy) /* request_free must not take out what was never in */
            curl_lib.easy_cleanup(TAKE_PTR(r->easy));
        r->state = DEAD;
    } else {
        request_free(r);
    }
}
