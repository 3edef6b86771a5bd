/*
 * The router. A path without parameters is found by its whole text in a small hash table. Otherwise
 * the routes, which are tens, are walked: each pattern was split once, at start, and the most
 * specific match wins.
 */

#include "net/route.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"

#define SEGMENTS_MAX 16
#define EXACT_SLOTS 256 /* a power of two */

struct segment {
    const char *text; /* into the route's path */
    size_t len;
    bool is_param;
    bool takes_rest;
};

struct entry {
    const struct route *route;
    struct segment segments[SEGMENTS_MAX];
    size_t n;
    bool has_params;
    size_t next_exact; /* index + 1 of the next entry in the same slot */
};

struct router {
    struct entry *entries;
    size_t n, cap;
    size_t exact[EXACT_SLOTS]; /* index + 1 */
};

static const char *const method_names[_HTTP_METHOD_MAX] = {
    [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
    [HTTP_OPTIONS] = "OPTIONS",
};

const char *http_method_name(enum http_method m)
{
    return method_names[m];
}

bool http_method_parse(const char *name, enum http_method *ret)
{
    for (int i = 0; i < _HTTP_METHOD_MAX; i++) {
        if (strcmp(method_names[i], name) == 0) {
            *ret = (enum http_method)i;
            return true;
        }
    }
    return false;
}

static size_t hash(const char *s, size_t len)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h & (EXACT_SLOTS - 1);
}

/* ---- building ---- */

int router_create(struct router **ret, struct err *err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for the routes");
}

void router_destroy(struct router *r)
{
    if (!r)
        return;
    free(r->entries);
    free(r);
}

static bool has_param(const struct route *route, const char *name, size_t len)
{
    for (const struct route_param *p = route->params; p && p->field.name; p++) {
        if (!p->in_query && strlen(p->field.name) == len && memcmp(p->field.name, name, len) == 0)
            return true;
    }
    return false;
}

static int parse_pattern(struct entry *e, struct err *err)
{
    const struct route *route = e->route;
    const char *p = route->path;
    size_t n_params = 0;

    if (p[0] != '/')
        return err_set(err, ERR_CONFIG, "route '%s': a path begins with '/'", p);
    for (p++;; p++) {
        size_t len = strcspn(p, "/");
        struct segment *s = &e->segments[e->n];

        if (e->n == SEGMENTS_MAX)
            return err_set(err, ERR_CONFIG, "route '%s': more than %d segments", route->path,
                           SEGMENTS_MAX);
        *s = (struct segment){ .text = p, .len = len };
        e->n++;
        if (memchr(p, '{', len) || memchr(p, '}', len)) {
            if (p[0] != '{' || p[len - 1] != '}' || len < 3)
                return err_set(err, ERR_CONFIG,
                               "route '%s': a parameter is a whole segment in braces", route->path);
            s->is_param = e->has_params = true;
            s->text++;
            s->len -= 2;
            if (s->len > 3 && memcmp(s->text + s->len - 3, "...", 3) == 0) {
                s->takes_rest = true;
                s->len -= 3;
                if (p[len] != '\0')
                    return err_set(err, ERR_CONFIG, "route '%s': nothing may follow '{name...}'",
                                   route->path);
            }
            if (!has_param(route, s->text, s->len))
                return err_set(err, ERR_CONFIG, "route '%s': parameter '%.*s' is not declared",
                               route->path, (int)s->len, s->text);
            if (++n_params > ROUTE_PARAMS_MAX)
                return err_set(err, ERR_CONFIG, "route '%s': more than %d parameters", route->path,
                               ROUTE_PARAMS_MAX);
        }
        p += len;
        if (*p == '\0')
            return 0;
    }
}

/* The same requests would match both: as specific at each segment. */
static bool same_pattern(const struct entry *a, const struct entry *b)
{
    if (a->route->method != b->route->method || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct segment *x = &a->segments[i], *y = &b->segments[i];

        if (x->is_param != y->is_param || x->takes_rest != y->takes_rest)
            return false;
        if (!x->is_param && (x->len != y->len || memcmp(x->text, y->text, x->len) != 0))
            return false;
    }
    return true;
}

int router_add(struct router *r, const struct route *routes, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct route *route = &routes[i];
        struct entry *e;
        int result;

        if (r->n == r->cap) {
            size_t cap = r->cap ? r->cap * 2 : 32;
            struct entry *more = reallocarray(r->entries, cap, sizeof(*more));

            if (!more)
                return err_set(err, ERR_NO_MEMORY, "out of memory for the routes");
            r->entries = more;
            r->cap = cap;
        }
        e = &r->entries[r->n];
        *e = (struct entry){ .route = route };
        result = parse_pattern(e, err);
        if (result < 0)
            return result;
        if (!route->handler)
            return err_set(err, ERR_CONFIG, "route '%s': no handler", route->path);
        if (route->method == HTTP_HEAD || route->method == HTTP_OPTIONS)
            return err_set(err, ERR_CONFIG, "route '%s': %s is answered for every route",
                           route->path, http_method_name(route->method));
        if (!route->id && !(route->flags & ROUTE_HIDDEN))
            return err_set(err, ERR_CONFIG, "route '%s': no id", route->path);
        if (route->body && route->on_body)
            return err_set(err, ERR_CONFIG, "route '%s': a body is JSON or streamed, not both",
                           route->path);
        for (size_t k = 0; k < r->n; k++) {
            if (same_pattern(e, &r->entries[k]))
                return err_set(err, ERR_CONFIG, "route '%s %s' is there twice",
                               http_method_name(route->method), route->path);
            if (route->id && str_eq(route->id, r->entries[k].route->id))
                return err_set(err, ERR_CONFIG, "route id '%s' is there twice", route->id);
        }
        if (!e->has_params) {
            size_t slot = hash(route->path, strlen(route->path));

            e->next_exact = r->exact[slot];
            r->exact[slot] = r->n + 1;
        }
        r->n++;
    }
    return 0;
}

size_t router_count(const struct router *r)
{
    return r->n;
}

const struct route *router_at(const struct router *r, size_t index)
{
    return r->entries[index].route;
}

/* ---- decoding ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

char *route_decode(struct arena *arena, const char *s, size_t len, bool plus, struct err *err)
{
    char *out = arena_alloc(arena, len + 1);
    size_t n = 0;

    if (!out) {
        err_set(err, ERR_NO_MEMORY, "out of memory for the URL");
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '%') {
            int high = i + 1 < len ? hex_digit(s[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(s[i + 2]) : -1;

            if (high < 0 || low < 0) {
                err_set(err, ERR_INVALID_INPUT,
                        "the URL has a '%%' that two hexadecimal digits do not follow");
                return NULL;
            }
            out[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[n++] = plus && s[i] == '+' ? ' ' : s[i];
        }
    }
    if (memchr(out, '\0', n)) {
        err_set(err, ERR_INVALID_INPUT, "the URL has an encoded NUL character");
        return NULL;
    }
    if (!str_is_utf8(out, n)) {
        err_set(err, ERR_INVALID_INPUT, "the URL is not UTF-8");
        return NULL;
    }
    out[n] = '\0';
    return out;
}

/* ---- matching ---- */

static bool segment_matches(const struct segment *s, const char *text, size_t len)
{
    return s->is_param ? len > 0 : s->len == len && memcmp(s->text, text, len) == 0;
}

/*
 * How specific a match is: a literal segment before a parameter, earlier segments first. 0 when it
 * is none.
 */
static uint64_t score(const struct entry *e, const struct segment *parts, size_t n)
{
    uint64_t points = 0;

    for (size_t i = 0; i < e->n; i++) {
        const struct segment *s = &e->segments[i];

        if (s->takes_rest)
            return i < n ? points | 1ull << 2 * (SEGMENTS_MAX - i) :
                           0; /* the rest may be empty: "/files/" */
        if (i >= n || !segment_matches(s, parts[i].text, parts[i].len))
            return 0;
        points |= (s->is_param ? 2ull : 3ull) << 2 * (SEGMENTS_MAX - i);
    }
    return e->n == n ? points : 0;
}

static int take_params(const struct entry *e, const struct segment *parts, const char *end,
                       struct arena *arena, struct route_match *m, struct err *err)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct segment *s = &e->segments[i];
        char *value;

        if (!s->is_param)
            continue;
        value = route_decode(arena, parts[i].text,
                             s->takes_rest ? (size_t)(end - parts[i].text) : parts[i].len, false,
                             err);
        if (!value)
            return err ? -(int)err->code : -ERR_INVALID_INPUT;
        m->params[m->n_params].name = s->text;
        m->params[m->n_params].name_len = s->len;
        m->params[m->n_params].value = value;
        m->n_params++;
    }
    return 0;
}

static void allow(struct route_match *m, const struct route *route)
{
    m->allowed |= 1u << route->method | 1u << HTTP_OPTIONS;
    if (route->method == HTTP_GET)
        m->allowed |= 1u << HTTP_HEAD;
}

int router_match(const struct router *r, enum http_method method, const char *path, size_t len,
                 struct arena *arena, struct route_match *ret, struct err *err)
{
    enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    struct segment parts[SEGMENTS_MAX];
    const struct entry *best = NULL;
    uint64_t best_score = 0;
    size_t n = 0;

    ret->route = NULL;
    ret->allowed = 0;
    ret->n_params = 0;

    for (size_t i = r->exact[hash(path, len)]; i > 0; i = r->entries[i - 1].next_exact) {
        const struct route *route = r->entries[i - 1].route;

        if (strlen(route->path) != len || memcmp(route->path, path, len) != 0)
            continue;
        allow(ret, route);
        if (route->method == wanted) {
            ret->route = route;
            ret->index = i - 1;
            return 0;
        }
    }

    if (len == 0 || path[0] != '/')
        return 0;
    for (const char *p = path + 1, *end = path + len;; p++) {
        const char *slash = memchr(p, '/', (size_t)(end - p));

        if (n == SEGMENTS_MAX) {
            n++; /* longer than any pattern: only a "{name...}" can match */
            break;
        }
        parts[n++] = (struct segment){ .text = p, .len = (size_t)((slash ? slash : end) - p) };
        if (!slash)
            break;
        p = slash;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct entry *e = &r->entries[i];
        uint64_t points = score(e, parts, n);

        if (points == 0)
            continue;
        allow(ret, e->route);
        if (e->route->method == wanted && points > best_score) {
            best = e;
            best_score = points;
        }
    }
    if (!best)
        return 0;
    ret->route = best->route;
    ret->index = (size_t)(best - r->entries);
    return take_params(best, parts, path + len, arena, ret, err);
}

const char *router_nearest(const struct router *r, const char *path)
{
    const char *names[512];
    size_t n = 0;

    for (size_t i = 0; i < r->n && n < ARRAY_SIZE(names); i++) {
        if (!(r->entries[i].route->flags & ROUTE_HIDDEN))
            names[n++] = r->entries[i].route->path;
    }
    return str_nearest(path, names, n);
}

void route_allow_header(uint32_t allowed, char ret[ROUTE_ALLOW_SIZE])
{
    size_t n = 0;

    ret[0] = '\0';
    for (int i = 0; i < _HTTP_METHOD_MAX; i++) {
        if (allowed & 1u << i)
            n += (size_t)snprintf(ret + n, ROUTE_ALLOW_SIZE - n, "%s%s", n ? ", " : "",
                                  method_names[i]);
    }
    assert(n < ROUTE_ALLOW_SIZE);
}
