/*
 * The guard. Keys are kept as SHA-256 digests and a presented key is compared with every one of
 * them, each in constant time, so that neither the length of the right part nor the place of the
 * match shows in the time taken.
 *
 * Rate windows live in a table of fixed size, so that many addresses cannot take memory: a caller
 * that collides with a live window of another probes a few slots further and at worst shares the
 * oldest.
 */

#include "net/guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/str.h"

#define KEYS_MAX 1000
#define KEY_MIN_CHARS 16
#define KEY_MAX_CHARS 512
#define NAME_MAX_CHARS 64
#define WINDOWS 4096 /* a power of two */
#define PROBES 8

struct key {
    char *name;
    char digest[HASH_HEX_SIZE];
};

struct window {
    uint64_t who; /* hash; 0: free */
    int64_t start_ms;
    long long count;
};

struct names {
    char **list;
    size_t n;
    bool any; /* "*" */
};

struct guard {
    struct key *keys;
    size_t n_keys;
    struct names hosts, origins, proxies;
    int64_t window_ms;
    long long max_chats, max_requests;
    struct window windows[WINDOWS];
};

/* ---- set-up ---- */

static void names_finish(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->list[i]);
    free(names->list);
}

/* Items of a comma-separated list, blanks around them removed, empty ones skipped. */
static int names_parse(const char *text, struct names *ret, struct err *err)
{
    size_t n = 1;

    for (const char *p = text; *p; p++)
        n += *p == ',';
    ret->list = calloc(n, sizeof(*ret->list));
    if (!ret->list)
        return err_set(err, ERR_NO_MEMORY, "out of memory for settings");
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ","), lead = strspn(p, " \t");
        const char *item = p + MIN_OF(lead, len);
        size_t item_len = len - MIN_OF(lead, len);

        while (item_len > 0 && (item[item_len - 1] == ' ' || item[item_len - 1] == '\t'))
            item_len--;
        if (item_len == 1 && item[0] == '*') {
            ret->any = true;
        } else if (item_len > 0) {
            ret->list[ret->n] = strndup(item, item_len);
            if (!ret->list[ret->n])
                return err_set(err, ERR_NO_MEMORY, "out of memory for settings");
            ret->n++;
        }
        p += len + (p[len] == ',');
    }
    return 0;
}

static int add_key(struct guard *g, const char *item, size_t position, struct err *err)
{
    static const char name_chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-";
    const char *colon = strchr(item, ':');
    struct key *k = &g->keys[g->n_keys];
    size_t name_len = colon ? (size_t)(colon - item) : 0;
    size_t key_len;

    if (!colon || name_len == 0 || name_len > NAME_MAX_CHARS ||
        strspn(item, name_chars) != name_len)
        return err_set(
            err, ERR_CONFIG,
            "RIDDLE_API_KEYS: item %zu must be 'name:key' with a name of 1 to %d letters, digits, '_', '-', '.' or '@'",
            position, NAME_MAX_CHARS);
    key_len = strlen(colon + 1);
    if (key_len < KEY_MIN_CHARS || key_len > KEY_MAX_CHARS)
        return err_set(err, ERR_CONFIG,
                       "RIDDLE_API_KEYS: the key of '%.*s' must have %d to %d characters",
                       (int)name_len, item, KEY_MIN_CHARS, KEY_MAX_CHARS);
    for (const char *p = colon + 1; *p; p++) {
        if (*p <= ' ' || *p > '~')
            return err_set(
                err, ERR_CONFIG,
                "RIDDLE_API_KEYS: the key of '%.*s' must be printable ASCII without blanks",
                (int)name_len, item);
    }
    int r = hash_bytes(colon + 1, key_len, k->digest, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < g->n_keys; i++) {
        if (memcmp(g->keys[i].digest, k->digest, sizeof(k->digest)) == 0)
            return err_set(err, ERR_CONFIG, "RIDDLE_API_KEYS: '%s' and '%.*s' have the same key",
                           g->keys[i].name, (int)name_len, item);
    }
    k->name = strndup(item, name_len);
    if (!k->name)
        return err_set(err, ERR_NO_MEMORY, "out of memory for settings");
    g->n_keys++;
    return 0;
}

static int add_keys(struct guard *g, const char *text, struct err *err)
{
    struct names items = { .n = 0 };
    int r = names_parse(text, &items, err);

    if (r == 0 && (items.any || items.n > KEYS_MAX))
        r = err_set(err, ERR_CONFIG,
                    items.any ? "RIDDLE_API_KEYS: '*' is no key" :
                                "RIDDLE_API_KEYS: too many keys");
    if (r == 0 && items.n > 0) {
        g->keys = calloc(items.n, sizeof(*g->keys));
        if (!g->keys)
            r = err_set(err, ERR_NO_MEMORY, "out of memory for settings");
    }
    for (size_t i = 0; r == 0 && i < items.n; i++)
        r = add_key(g, items.list[i], i + 1, err);
    for (size_t i = 0; i < items.n; i++)
        explicit_bzero(items.list[i], strlen(items.list[i]));
    names_finish(&items);
    return r;
}

static int check_origins(const struct names *origins, struct err *err)
{
    for (size_t i = 0; i < origins->n; i++) {
        const char *o = origins->list[i], *host = strstr(o, "://");
        char shown[STR_SHOWN_SIZE];

        if (!host || host == o || host[3] == '\0' || strpbrk(host + 3, "/?# "))
            return err_set(err, ERR_CONFIG,
                           "CORS_ORIGINS: '%s' is no origin, such as https://app.example",
                           str_show(o, strlen(o), shown, sizeof(shown)));
    }
    return 0;
}

static int check_proxies(const struct names *proxies, struct err *err)
{
    unsigned char address[sizeof(struct in6_addr)];
    char shown[STR_SHOWN_SIZE];

    for (size_t i = 0; i < proxies->n; i++) {
        const char *p = proxies->list[i];

        if (inet_pton(AF_INET, p, address) != 1 && inet_pton(AF_INET6, p, address) != 1)
            return err_set(err, ERR_CONFIG, "TRUSTED_PROXIES: '%s' is no address",
                           str_show(p, strlen(p), shown, sizeof(shown)));
    }
    if (proxies->any)
        return err_set(err, ERR_CONFIG, "TRUSTED_PROXIES: name the addresses; '*' is none");
    return 0;
}

int guard_create(const struct guard_options *options, struct guard **ret, struct err *err)
{
    struct guard *g = calloc(1, sizeof(*g));
    int r;

    if (!g)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the guard");
    g->window_ms = options->window_ms > 0 ? options->window_ms : 60000;
    g->max_chats = options->max_chats;
    g->max_requests = options->max_requests;
    r = add_keys(g, options->api_keys ? options->api_keys : "", err);
    if (r == 0)
        r = names_parse(options->allowed_hosts ? options->allowed_hosts : "", &g->hosts, err);
    if (r == 0)
        r = names_parse(options->cors_origins ? options->cors_origins : "", &g->origins, err);
    if (r == 0)
        r = check_origins(&g->origins, err);
    if (r == 0)
        r = names_parse(options->trusted_proxies ? options->trusted_proxies : "", &g->proxies, err);
    if (r == 0)
        r = check_proxies(&g->proxies, err);
    if (r < 0) {
        guard_destroy(g);
        return r;
    }
    *ret = g;
    return 0;
}

void guard_destroy(struct guard *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_keys; i++)
        free(g->keys[i].name);
    free(g->keys);
    names_finish(&g->hosts);
    names_finish(&g->origins);
    names_finish(&g->proxies);
    free(g);
}

bool guard_has_keys(const struct guard *g)
{
    return g && g->n_keys > 0;
}

/* ---- host ---- */

struct authority {
    char host[256]; /* lower case is not forced; an IPv6 address without brackets */
    char port[8];   /* "" when not told */
};

/* "name", "name:8000", "[::1]:8000" */
static bool parse_authority(const char *text, struct authority *ret)
{
    size_t host_len, port_len;
    const char *rest;

    if (text[0] == '[') {
        host_len = strcspn(text + 1, "]");
        if (text[1 + host_len] != ']')
            return false;
        rest = text + host_len + 2;
        text++;
    } else {
        host_len = strcspn(text, ":");
        rest = text + host_len;
    }
    if (host_len == 0 || host_len >= sizeof(ret->host))
        return false;
    for (size_t i = 0; i < host_len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c <= ' ' || c >= 0x7f || strchr("/?#@\\\"<>", c))
            return false;
    }
    memcpy(ret->host, text, host_len);
    ret->host[host_len] = '\0';
    /* "localhost." is localhost. */
    if (host_len > 1 && ret->host[host_len - 1] == '.')
        ret->host[host_len - 1] = '\0';
    ret->port[0] = '\0';
    if (*rest == '\0')
        return true;
    port_len = strlen(rest + 1);
    if (*rest != ':' || port_len > 5 || strspn(rest + 1, "0123456789") != port_len)
        return false;
    memcpy(ret->port, rest + 1, port_len + 1);
    return true;
}

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool ends_with_label(const char *host, const char *suffix)
{
    size_t n = strlen(host), m = strlen(suffix);

    return n > m && strcasecmp(host + n - m, suffix) == 0;
}

bool guard_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return str_ieq(host, "localhost");
}

int guard_check_host(const struct guard *g, const char *host, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    struct authority a;

    if (!host || host[0] == '\0')
        return err_set(err, ERR_INVALID_INPUT, "the request has no Host header");
    if (!parse_authority(host, &a))
        return err_set(err, ERR_INVALID_INPUT, "the Host header is malformed");
    if (is_address(a.host) || str_ieq(a.host, "localhost") || ends_with_label(a.host, ".localhost"))
        return 0;
    if (g && g->hosts.any)
        return 0;
    for (size_t i = 0; g && i < g->hosts.n; i++) {
        const char *name = g->hosts.list[i];

        /* "*.example.org" and ".example.org" stand for every name below. */
        if (str_ieq(name, a.host) ||
            (str_starts(name, "*.") && ends_with_label(a.host, name + 1)) ||
            (name[0] == '.' && ends_with_label(a.host, name)))
            return 0;
    }
    return err_set(
        err, ERR_FORBIDDEN,
        "host '%s' is not one of this server's names; add it to RIDDLE_ALLOWED_HOSTS if it is",
        str_show(a.host, strlen(a.host), shown, sizeof(shown)));
}

/* ---- origin ---- */

static bool is_default_port(const char *port)
{
    return port[0] == '\0' || str_eq(port, "80") || str_eq(port, "443");
}

/* The page came from where the request goes. The scheme may differ: TLS may end at a proxy. */
static bool is_own_origin(const char *host, const char *origin)
{
    const char *sep = strstr(origin, "://");
    struct authority a, b;

    if (!sep || !host || !parse_authority(sep + 3, &a) || !parse_authority(host, &b))
        return false;
    if (!str_starts(origin, "http://") && !str_starts(origin, "https://"))
        return false;
    return str_ieq(a.host, b.host) &&
           (str_eq(a.port, b.port) || (is_default_port(a.port) && is_default_port(b.port)));
}

const char *guard_cors_origin(const struct guard *g, const char *origin)
{
    if (!g || !origin)
        return NULL;
    for (size_t i = 0; i < g->origins.n; i++) {
        if (str_ieq(g->origins.list[i], origin))
            return origin;
    }
    return g->origins.any ? "*" : NULL;
}

int guard_check_origin(const struct guard *g, const char *host, const char *origin,
                       const char *fetch_site, const char *fetch_mode, bool navigable,
                       struct err *err)
{
    char shown[STR_SHOWN_SIZE];

    if (origin) {
        if (is_own_origin(host, origin) || guard_cors_origin(g, origin))
            return 0;
        return err_set(
            err, ERR_FORBIDDEN,
            "pages of '%s' may not use this server; add the origin to CORS_ORIGINS if they may",
            str_show(origin, strlen(origin), shown, sizeof(shown)));
    }
    if (!fetch_site || str_eq(fetch_site, "same-origin") || str_eq(fetch_site, "none"))
        return 0;
    if (navigable && str_eq(fetch_mode, "navigate"))
        return 0;
    if (g && g->origins.any)
        return 0;
    return err_set(err, ERR_FORBIDDEN, "pages of other sites may not use this server");
}

/* ---- keys ---- */

/* In a time that does not depend on where they differ. */
static bool same_digest(const char a[HASH_HEX_SIZE], const char b[HASH_HEX_SIZE])
{
    volatile unsigned char differ = 0;

    for (size_t i = 0; i < HASH_HEX_SIZE; i++)
        differ = (unsigned char)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

int guard_check_key(const struct guard *g, const char *authorization, const char *x_api_key,
                    const char **ret_owner, struct err *err)
{
    char digest[HASH_HEX_SIZE];
    const char *key = x_api_key, *owner = NULL;
    int r;

    if (!guard_has_keys(g)) {
        *ret_owner = "local";
        return 0;
    }
    if (authorization && strncasecmp(authorization, "bearer", 6) == 0 && authorization[6] == ' ')
        key = authorization + 6 + strspn(authorization + 6, " ");
    else if (authorization)
        return err_set(err, ERR_UNAUTHORIZED, "the Authorization header must be 'Bearer KEY'");
    if (!key || key[0] == '\0')
        return err_set(err, ERR_UNAUTHORIZED, "a key is needed: 'Authorization: Bearer KEY'");
    r = hash_bytes(key, strlen(key), digest, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < g->n_keys; i++) {
        if (same_digest(g->keys[i].digest, digest))
            owner = g->keys[i].name;
    }
    if (!owner)
        return err_set(err, ERR_UNAUTHORIZED, "the key is not known");
    *ret_owner = owner;
    return 0;
}

/* ---- rate ---- */

static uint64_t hash(const char *s)
{
    uint64_t h = 14695981039346656037ull;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211ull;
    return h ? h : 1;
}

static struct window *window_of(struct guard *g, uint64_t who, int64_t now_ms)
{
    struct window *free_one = NULL, *oldest = NULL;

    for (size_t i = 0; i < PROBES; i++) {
        struct window *w = &g->windows[(who + i) & (WINDOWS - 1)];

        if (w->who == who)
            return w;
        if (!free_one && (w->who == 0 || now_ms - w->start_ms >= g->window_ms))
            free_one = w;
        if (!oldest || w->start_ms < oldest->start_ms)
            oldest = w;
    }
    if (!free_one)
        return oldest; /* shared */
    *free_one = (struct window){ .who = who, .start_ms = now_ms };
    return free_one;
}

static bool is_trusted(const struct guard *g, const char *address)
{
    for (size_t i = 0; i < g->proxies.n; i++)
        if (str_ieq(g->proxies.list[i], address))
            return true;
    return false;
}

void guard_client(const struct guard *g, const char *peer, const char *forwarded,
                  char ret[GUARD_ADDRESS_SIZE])
{
    size_t end = forwarded ? strlen(forwarded) : 0;

    snprintf(ret, GUARD_ADDRESS_SIZE, "%s", peer);
    /* From the right: what stands left of the address that a trusted proxy saw is anybody's. */
    while (g && end > 0 && is_trusted(g, ret)) {
        size_t start = end, len;
        char item[GUARD_ADDRESS_SIZE];

        while (start > 0 && forwarded[start - 1] != ',')
            start--;
        const char *from = forwarded + start + strspn(forwarded + start, " \t");
        len = strcspn(from, ", \t");
        snprintf(item, sizeof(item), "%.*s", (int)MIN_OF(len, sizeof(item) - 1), from);
        if (!is_address(item))
            return;
        snprintf(ret, GUARD_ADDRESS_SIZE, "%s", item);
        end = start > 0 ? start - 1 : 0;
    }
}

int guard_check_rate(struct guard *g, const char *who, bool is_chat, int64_t now_ms,
                     unsigned *ret_retry_after_s, struct err *err)
{
    long long max = g ? is_chat ? g->max_chats : g->max_requests : 0;
    struct window *w;
    uint64_t key;
    int64_t left_ms;

    if (max <= 0)
        return 0;
    key = hash(who) ^ (is_chat ? 0x9e3779b97f4a7c15ull : 0);
    w = window_of(g, key ? key : 1, now_ms);
    if (now_ms - w->start_ms >= g->window_ms) {
        w->start_ms = now_ms;
        w->count = 0;
    }
    if (w->count < max) {
        w->count++;
        return 0;
    }
    left_ms = w->start_ms + g->window_ms - now_ms;
    *ret_retry_after_s = (unsigned)((left_ms + 999) / 1000);
    return err_set(err, ERR_RATE_LIMITED, "Rate limit exceeded. Please wait and try again.");
}
