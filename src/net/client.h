#ifndef RIDDLE_NET_CLIENT_H
#define RIDDLE_NET_CLIENT_H

/*
 * HTTP requests to others, inside the loop: libcurl's multi interface on libuv's descriptors and
 * one timer. Bodies stream in as they come; times and sizes are bounded; redirects are answers like
 * any other. Connections are kept and used again.
 *
 * Proxies are taken from the environment as libcurl does (https_proxy, http_proxy, all_proxy,
 * no_proxy), except that loopback is never asked of a proxy. Header values and credentials of a URL
 * are in no message.
 */

#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/err.h"

#define CLIENT_HEAD_MAX (256u << 10) /* bytes of a response's headers */
#define CLIENT_ORIGIN_SIZE 160

struct client;
/* one under way; its owner's pointer is good until done() was called or client_cancel() */
struct client_request;

struct client_header {
    const char *name, *value;
};

/* Everything is copied by client_start(). */
struct client_options {
    const char *method; /* "GET", "POST", … */
    const char *url;    /* http or https */
    /* path of the socket to connect to instead of the URL's host; NULL: none */
    const char *unix_socket;
    const struct client_header *headers;
    size_t n_headers;
    const void *body; /* NULL for none */
    size_t body_len;
    int64_t connect_timeout_ms; /* names, TCP and TLS; 0: 10 s */
    int64_t timeout_ms;         /* from the start to the last byte; 0: no limit */
    uint64_t max_body_bytes;    /* of the response */
};

struct client_response {
    int status;            /* 0 until there is one */
    char content_type[96]; /* lower case, without parameters; "" when there is none */
    /* of Retry-After, by seconds or by date, or of retry-after-ms; -1 when there is none */
    int64_t retry_after_ms;
    int should_retry; /* of x-should-retry: 1 or 0; -1 when there is none */
};

struct client_events {
    /*
     * The next bytes of the body. A negative code (and err set) ends the request with that error;
     * positive: what is needed is here, so done() follows without an error, and the rest is read
     * and dropped if it comes soon.
     */
    int (*body)(void *arg, const struct client_response *resp, const char *data, size_t len,
                struct err *err);
    /*
     * Exactly once, unless cancelled. err is NULL when the response is whole, whatever its status.
     */
    void (*done)(void *arg, const struct client_response *resp, const struct err *err);
    void *arg;
};

/*
 * ca_file: certificates to trust instead of the system's; NULL or "" for those. SIGPIPE is ignored
 * from here on.
 */
int client_create(uv_loop_t *loop, const char *ca_file, struct client **ret, struct err *err);
/* Cancels what is under way; NULL is fine. The loop must still run once. */
void client_destroy(struct client *c);

/*
 * No callback comes from within. May be called in any callback of this client. INVALID_INPUT for a
 * URL that is none. Errors of requests: UNAVAILABLE (no connection, or it broke), TIMEOUT, PROTOCOL
 * (no HTTP, bad TLS), TOO_LARGE.
 */
int client_start(struct client *c, const struct client_options *o,
                 const struct client_events *events, struct client_request **ret, struct err *err);
/* No callback comes after this; the connection is closed. May be called in any callback. */
void client_cancel(struct client_request *r);

/*
 * "https://host:port" of a URL, for messages: no credentials, no path. "" when it is no http or
 * https URL.
 */
void client_origin(const char *url, char ret[CLIENT_ORIGIN_SIZE]);

#endif
