#ifndef RIDDLE_NET_GUARD_H
#define RIDDLE_NET_GUARD_H

/*
 * Who may ask: Host and Origin (DNS rebinding, pages of other sites), bearer keys, rate limit,
 * CORS. Decides on plain strings, so that it is tested without a socket.
 *
 * Host: addresses, localhost, *.localhost and the configured names are fine; any other name is how
 * a rebinding attack looks. Origin: the server's own and the configured ones. A request with no
 * Origin comes from no script of another site, except for embedded resources, which Sec-Fetch-Site
 * gives away.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct guard;

struct guard_options {
    const char *api_keys;        /* "name:key,name2:key2"; empty: off */
    const char *allowed_hosts;   /* names, comma-separated, "*" for any */
    const char *cors_origins;    /* "https://a.example,http://b:3000", or "*" */
    const char *trusted_proxies; /* addresses whose X-Forwarded-For is believed */
    int64_t window_ms;           /* of the rate limit */
    long long max_chats;         /* messages in a window; 0: no limit */
    long long max_requests;      /* others in a window; 0: no limit */
};

/* CONFIG for a malformed list; messages never hold a key. */
int guard_create(const struct guard_options *options, struct guard **ret, struct err *err);
void guard_destroy(struct guard *g);

bool guard_has_keys(const struct guard *g);

/* FORBIDDEN for a foreign host name; INVALID_INPUT when there is none or it is malformed. */
int guard_check_host(const struct guard *g, const char *host, struct err *err);

/*
 * FORBIDDEN for a script or an embedded resource of another site. Values may be NULL (no such
 * header). navigable: pages, which a link elsewhere may lead to.
 */
int guard_check_origin(const struct guard *g, const char *host, const char *origin,
                       const char *fetch_site, const char *fetch_mode, bool navigable,
                       struct err *err);

/* The value of Access-Control-Allow-Origin for this origin, or NULL when none is to be sent. */
const char *guard_cors_origin(const struct guard *g, const char *origin);

/*
 * Owner of the key in an Authorization header ("Bearer …") or an X-API-Key header; UNAUTHORIZED
 * when there is none or it is wrong. Without keys: "local". The owner lives as long as the guard.
 */
int guard_check_key(const struct guard *g, const char *authorization, const char *x_api_key,
                    const char **ret_owner, struct err *err);

/*
 * Address of the client: the peer, or, if that is a trusted proxy, the last address of its
 * X-Forwarded-For (NULL: none) that is none itself.
 */
#define GUARD_ADDRESS_SIZE 48
void guard_client(const struct guard *g, const char *peer, const char *forwarded,
                  char ret[GUARD_ADDRESS_SIZE]);

/*
 * RATE_LIMITED with the seconds to wait. `who` is an owner or an address; now_ms is monotonic.
 * Messages to a chat are counted apart from all other requests.
 */
int guard_check_rate(struct guard *g, const char *who, bool is_chat, int64_t now_ms,
                     unsigned *ret_retry_after_s, struct err *err);

/* True for 127.0.0.0/8, ::1 and "localhost". */
bool guard_is_loopback(const char *host);

#endif
