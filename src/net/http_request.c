/*
 * A request on its way in: the checks in their order, the body, and what handlers ask about it. MHD
 * calls request_access() once when the headers are there, then for each piece of the body, then
 * once more at its end, and again after a suspension.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/background.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "net/http_impl.h"

#define PARSE_AT_ONCE_MAX 16384 /* bytes: half a millisecond. Longer ones: beside the loop */

#define HELD_UNCOUNTED_BYTES (256u << 10) /* a shorter body is not looked at */
#define VALUE_BYTES 64                    /* of memory, which a value of JSON takes */

/* ---- life ---- */

struct http_request *request_create(struct http_conn *conn, const char *url)
{
    struct http_server *s = conn->server;
    struct http_request *req = s->spare;
    struct arena arena;

    if (req) {
        s->spare = req->next;
        s->n_spare--;
        arena = req->arena;
    } else {
        req = malloc(sizeof(*req));
        if (!req)
            return NULL;
        arena_init(&arena, HTTP_ARENA_MAX);
    }
    memset(req, 0, sizeof(*req));
    req->arena = arena;
    req->server = s;
    req->conn = conn;
    req->owner = "-";
    req->start_us = clock_now_us();
    req->last_header = &req->headers;
    req->url_len = strlen(url);
    /*
     * One that is too long is refused later, with an answer; its beginning is enough for the log.
     */
    req->url = arena_strndup(&req->arena, url, MIN_OF(req->url_len, (size_t)HTTP_URL_MAX));
    req->path_len = req->url ? strcspn(req->url, "?") : 0;
    req->path = req->url ? arena_strndup(&req->arena, req->url, req->path_len) : NULL;
    if (!req->path) {
        arena_finish(&req->arena);
        free(req);
        return NULL;
    }
    req->next = s->active;
    req->prev = &s->active;
    if (req->next)
        req->next->prev = &req->next;
    s->active = req;
    s->n_active++;
    metric_add(s->in_flight, 1);
    conn->req = req;
    return req;
}

void request_destroy(struct http_request *req)
{
    struct http_server *s = req->server;

    if (req->destroy_data)
        req->destroy_data(req->data);
    if (req->response)
        mhd_lib.destroy_response(req->response);
    json_discard(req->json);
    buf_finish(&req->body);
    *req->prev = req->next;
    if (req->next)
        req->next->prev = req->prev;
    s->n_active--;
    if (s->n_spare >= HTTP_SPARE_MAX) {
        arena_finish(&req->arena);
        free(req);
        return;
    }
    arena_clear(&req->arena);
    req->next = s->spare;
    s->spare = req;
    s->n_spare++;
}

/* ---- headers ---- */

struct wanted {
    const char *host, *origin, *fetch_site, *fetch_mode, *authorization, *x_api_key, *request_id;
    const char *forwarded_for;
    const char *content_type, *content_length, *content_encoding, *transfer_encoding, *expect;
    unsigned n_hosts, n_lengths, n_encodings;
    bool bad_name, bad_value;
};

/* One walk over the headers instead of a search for each. */
static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } table[] = {
        { "host", offsetof(struct wanted, host) },
        { "origin", offsetof(struct wanted, origin) },
        { "sec-fetch-site", offsetof(struct wanted, fetch_site) },
        { "sec-fetch-mode", offsetof(struct wanted, fetch_mode) },
        { "authorization", offsetof(struct wanted, authorization) },
        { "x-api-key", offsetof(struct wanted, x_api_key) },
        { "x-request-id", offsetof(struct wanted, request_id) },
        { "x-forwarded-for", offsetof(struct wanted, forwarded_for) },
        { "content-type", offsetof(struct wanted, content_type) },
        { "content-length", offsetof(struct wanted, content_length) },
        { "content-encoding", offsetof(struct wanted, content_encoding) },
        { "transfer-encoding", offsetof(struct wanted, transfer_encoding) },
        { "expect", offsetof(struct wanted, expect) },
    };
    struct wanted *w = cls;
    char first = (char)(name[0] | 0x20);
    size_t len = strlen(name);

    (void)kind;
    w->bad_name |= len == 0 || name[len - 1] == ' ' || name[len - 1] == '\t';
    for (const char *p = value; p && *p; p++) /* a lone CR ends a line for some */
        w->bad_value |= ((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (first != table[i].name[0] || strcasecmp(name, table[i].name) != 0)
            continue;
        *(const char **)((char *)w + table[i].offset) = value ? value : "";
        w->n_hosts += i == 0;
        w->n_lengths += table[i].offset == offsetof(struct wanted, content_length);
        w->n_encodings += table[i].offset == offsetof(struct wanted, transfer_encoding);
        break;
    }
    return MHD_YES;
}

static void take_request_id(struct http_request *req, const char *given)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = given ? strlen(given) : 0;
    uint32_t number;

    if (n > 0 && n < HTTP_REQUEST_ID_SIZE &&
        strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n) {
        memcpy(req->id, given, n + 1);
        return;
    }
    number = ++req->server->id_counter;
    memcpy(req->id, req->server->id_prefix, 8);
    for (int i = 0; i < 8; i++)
        req->id[8 + i] = hex[number >> (28 - 4 * i) & 15];
    req->id[16] = '\0';
}

/* Type and subtype are those of `want`; parameters do not matter. */
static bool is_media_type(const char *type, const char *want)
{
    size_t n = strlen(want);

    return strncasecmp(type, want, n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || type[n] == ' ' || type[n] == '\t');
}

/*
 * Where the body ends. Two readings of that are how requests are smuggled past a proxy: after an
 * error here the connection cannot go on.
 */
static int check_framing(struct http_request *req, const struct wanted *w, struct err *err)
{
    req->body_length = 0;
    if (w->bad_name || strchr(req->url, ' '))
        return err_set(err, ERR_INVALID_INPUT, "%s has a blank",
                       w->bad_name ? "a header's name" : "the request target");
    if (w->bad_value)
        return err_set(err, ERR_INVALID_INPUT, "a header's value has a control character");
    if (w->transfer_encoding && req->is_http_1_0)
        return err_set(err, ERR_INVALID_INPUT, "HTTP/1.0 has no Transfer-Encoding");
    if (w->n_hosts > 1 || w->n_lengths > 1 || w->n_encodings > 1)
        return err_set(err, ERR_INVALID_INPUT, "the request has more than one %s header",
                       w->n_hosts > 1   ? "Host" :
                       w->n_lengths > 1 ? "Content-Length" :
                                          "Transfer-Encoding");
    if (w->transfer_encoding && w->content_length)
        return err_set(err, ERR_INVALID_INPUT,
                       "the request has both Content-Length and Transfer-Encoding");
    if (w->transfer_encoding) {
        if (!str_ieq(w->transfer_encoding, "chunked"))
            return err_set(err, ERR_INVALID_INPUT,
                           "the only Transfer-Encoding supported is 'chunked'");
        req->has_body = true;
        req->body_length = -1;
    } else if (w->content_length) {
        long long n;
        int r = str_parse_i64(w->content_length, "Content-Length", 0, INT64_MAX, &n, err);

        if (r < 0)
            return err_set(err, ERR_INVALID_INPUT, "the Content-Length header is no number");
        req->body_length = n;
        req->has_body = n > 0;
    }
    return 0;
}

static int check_body(struct http_request *req, const struct wanted *w, struct err *err)
{
    const struct route *route = req->match.route;
    bool streamed = route->on_body != NULL;
    const char *want = route->body ? "application/json" : route->consumes;
    char shown[STR_SHOWN_SIZE];

    if (!route->body && !streamed)
        return 0; /* whatever comes is discarded */
    if (!w->content_length && !w->transfer_encoding && !(route->flags & ROUTE_BODY_OPTIONAL))
        return err_set(err, ERR_LENGTH_REQUIRED,
                       "a body is needed: send Content-Length or Transfer-Encoding: chunked");
    if (req->body_length < 0 && route->flags & ROUTE_NEED_LENGTH)
        return err_set(err, ERR_LENGTH_REQUIRED, "a Content-Length header is needed here");
    req->max_body = route->max_body_bytes ? route->max_body_bytes :
                    streamed              ? SIZE_MAX :
                                            HTTP_BODY_MAX;
    if (req->body_length > 0 && (uint64_t)req->body_length > req->max_body)
        return err_set(err, ERR_TOO_LARGE,
                       "the body has %" PRId64 " bytes; at most %zu are allowed", req->body_length,
                       req->max_body);
    if (!req->has_body)
        return 0;
    if (w->content_encoding && !str_ieq(w->content_encoding, "identity"))
        return err_set(
            err, ERR_UNSUPPORTED_MEDIA, "a body with Content-Encoding '%s' is not supported",
            str_show(w->content_encoding, strlen(w->content_encoding), shown, sizeof(shown)));
    if (want && !str_eq(want, "*") && (w->content_type || streamed) &&
        (!w->content_type || !is_media_type(w->content_type, want)))
        return err_set(err, ERR_UNSUPPORTED_MEDIA, "the content type must be %s, not '%s'", want,
                       w->content_type ? str_show(w->content_type, strlen(w->content_type), shown,
                                                  sizeof(shown)) :
                                         "");
    buf_init(&req->body, req->max_body);
    return 0;
}

static int parse_query(struct http_request *req, struct err *err)
{
    const char *p = req->url + req->path_len;
    size_t n = 1;

    if (*p != '?' || p[1] == '\0')
        return 0;
    for (const char *c = ++p; *c; c++)
        n += *c == '&';
    req->query = arena_alloc(&req->arena, n * sizeof(*req->query));
    if (!req->query)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the URL");
    while (*p) {
        size_t len = strcspn(p, "&"), name_len = strcspn(p, "=&");
        const char *name = route_decode(&req->arena, p, name_len, true, err), *value = "";

        if (name && name_len < len)
            value = route_decode(&req->arena, p + name_len + 1, len - name_len - 1, true, err);
        if (!name || !value)
            return -(int)err->code;
        req->query[req->n_query++] = (struct query_item){ .name = name, .value = value };
        p += len + (p[len] == '&');
    }
    return 0;
}

static int refuse_unknown(struct http_request *req, struct err *err)
{
    const char *names[ROUTE_PARAMS_MAX];
    char shown[STR_SHOWN_SIZE];
    size_t n = 0;

    for (const struct route_param *p = req->match.route->params; p && p->field.name; p++)
        if (p->in_query && n < ARRAY_SIZE(names))
            names[n++] = p->field.name;
    for (size_t i = 0; i < req->n_query; i++) {
        const char *name = req->query[i].name;
        struct schema_report report = { .fault = "extra_forbidden" };
        size_t k = 0;

        while (k < n && !str_eq(names[k], name))
            k++;
        if (k < n)
            continue;
        const char *near = str_nearest(name, names, n);

        str_show(name, strlen(name), shown, sizeof(shown));
        snprintf(report.path, sizeof(report.path), "%s", shown);
        err_set(err, ERR_VALIDATION, "there is no query parameter '%s'%s%s%s", shown,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        reply_invalid(req, "query", &report, err);
        return -(int)err->code;
    }
    return 0;
}

static int check_params(struct http_request *req, struct err *err)
{
    const struct route *route = req->match.route;
    struct schema_report report;
    int r = parse_query(req, err);

    if (r < 0)
        return r;
    for (const struct route_param *p = route->params; p && p->field.name; p++) {
        const char *text = p->in_query ? http_query(req, p->field.name) :
                                         http_param(req, p->field.name);
        auto_json json_t *value = NULL;

        if (!text) {
            if (p->in_query && p->field.required) {
                report = (struct schema_report){ .fault = "missing" };
                snprintf(report.path, sizeof(report.path), "%s", p->field.name);
                r = err_set(err, ERR_VALIDATION, "query parameter '%s' is required", p->field.name);
                reply_invalid(req, "query", &report, err);
                return r;
            }
            continue;
        }
        r = schema_parse_text(&p->field, text, &value, &report, err);
        if (r < 0) {
            reply_invalid(req, p->in_query ? "query" : "path", &report, err);
            return r;
        }
    }
    return route->flags & ROUTE_CLOSED ? refuse_unknown(req, err) : 0;
}

/*
 * When half of the connections are busy, an owner who has half of those is refused. Without keys
 * there is one owner.
 */
static int check_share(const struct http_request *req, struct err *err)
{
    const struct http_server *s = req->server;
    size_t n = 0;

    if (!guard_has_keys(s->options.guard) || s->n_active <= s->options.max_connections / 2)
        return 0;
    for (const struct http_request *other = s->active; other; other = other->next)
        n += other->owner == req->owner;
    if (n <= s->options.max_connections / 4)
        return 0;
    return err_set(err, ERR_UNAVAILABLE,
                   "%zu requests of yours are under way, a large part of all; try again soon",
                   n - 1);
}

static int check_caller(struct http_request *req, const struct wanted *w, unsigned flags,
                        struct err *err)
{
    struct http_server *s = req->server;
    struct guard *guard = s->options.guard;
    const char *owner = NULL;
    unsigned retry_after_s;
    char text[16];
    int r, rate;

    r = guard_check_key(guard, w->authorization, w->x_api_key, &owner, err);
    if (owner)
        req->owner = owner;
    /* Guessing keys is limited by address. */
    if (!(flags & ROUTE_NO_RATE_LIMIT)) {
        struct err limited = ERR_INIT;
        char client[GUARD_ADDRESS_SIZE];
        bool is_scarce = flags & ROUTE_CHAT || (r < 0 && !(flags & ROUTE_PUBLIC));

        guard_client(guard, req->conn->peer, w->forwarded_for, client);
        rate = guard_check_rate(guard, owner && guard_has_keys(guard) ? owner : client, is_scarce,
                                req->start_us / 1000, &retry_after_s, &limited);
        if (rate < 0) {
            *err = limited;
            snprintf(text, sizeof(text), "%u", retry_after_s);
            http_add_header(req, "Retry-After", text);
            return rate;
        }
    }
    if (r < 0 && flags & ROUTE_PUBLIC) {
        req->owner = "-";
        return 0;
    }
    if (r < 0)
        http_add_header(req, "WWW-Authenticate", "Bearer realm=\"riddle\"");
    if (r == 0 && !(flags & ROUTE_NO_RATE_LIMIT))
        r = check_share(req, err);
    return r;
}

static void reply_options(struct http_request *req)
{
    char allow[ROUTE_ALLOW_SIZE];

    route_allow_header(req->match.allowed, allow);
    http_add_header(req, "Allow", allow);
    if (req->origin && guard_cors_origin(req->server->options.guard, req->origin)) {
        const char *headers = http_header(req, "Access-Control-Request-Headers");

        http_add_header(req, "Access-Control-Allow-Methods", allow);
        http_add_header(req, "Access-Control-Allow-Headers",
                        headers ? headers : "Authorization, Content-Type, X-Request-Id");
        http_add_header(req, "Access-Control-Max-Age", "600");
    }
    http_reply_empty(req, 204);
}

static int reply_unknown(struct http_request *req, struct err *err)
{
    char shown[STR_SHOWN_SIZE], allow[ROUTE_ALLOW_SIZE];
    const char *nearest;

    str_show(req->path, req->path_len, shown, sizeof(shown));
    if (req->match.allowed) {
        route_allow_header(req->match.allowed, allow);
        http_add_header(req, "Allow", allow);
        return err_set(err, ERR_METHOD_NOT_ALLOWED, "'%s' is not allowed on '%s'; allowed are %s",
                       req->bad_method ? "this method" :
                       req->is_head    ? "HEAD" :
                                         http_method_name(req->method),
                       shown, allow);
    }
    nearest = router_nearest(req->server->router, req->path);
    if (nearest)
        return err_set(err, ERR_NOT_FOUND, "there is no '%s'; did you mean '%s'?", shown, nearest);
    return err_set(err, ERR_NOT_FOUND, "there is no '%s'; the API is described at /openapi.json",
                   shown);
}

/* Everything that can be said before the body. 0 to go on; otherwise an answer is there. */
static int check_request(struct http_request *req, const struct wanted *w, const char *method,
                         struct err *err)
{
    struct http_server *s = req->server;
    struct guard *guard = s->options.guard;
    const struct route *route;
    int r;

    req->bad_method = !http_method_parse(method, &req->method);
    req->is_head = req->method == HTTP_HEAD;
    r = guard_check_host(guard, w->host, err);
    if (r < 0)
        return r;
    if (req->url[0] != '/' && !str_eq(req->url, "*"))
        return err_set(err, ERR_INVALID_INPUT, "the request target must begin with '/'");
    r = router_match(s->router, req->method, req->url, req->path_len, &req->arena, &req->match,
                     err);
    if (r < 0)
        return r;
    if (req->bad_method)
        req->match.route = NULL;
    route = req->match.route;
    r = guard_check_origin(guard, w->host, w->origin, w->fetch_site, w->fetch_mode,
                           route && route->method == HTTP_GET && route->flags & ROUTE_NAVIGABLE,
                           err);
    if (r < 0)
        return r;
    req->origin = w->origin;
    if (req->method == HTTP_OPTIONS && !req->bad_method &&
        (req->match.allowed || str_eq(req->url, "*"))) {
        reply_options(req);
        return 0;
    }
    if (s->stopping)
        return err_set(err, ERR_UNAVAILABLE, "the server is stopping");
    r = check_caller(req, w, route ? route->flags : ROUTE_PUBLIC, err);
    if (r < 0)
        return r;
    if (!route)
        return reply_unknown(req, err);
    r = check_params(req, err);
    if (r < 0)
        return r;
    r = check_body(req, w, err);
    if (r < 0)
        return r;
    return route->on_headers ? route->on_headers(req, err) : 0;
}

/* ---- the phases ---- */

static enum MHD_Result begin(struct http_request *req, const char *method)
{
    struct wanted w = { .host = NULL };
    struct err e = ERR_INIT;
    const union MHD_ConnectionInfo *info;

    mhd_lib.get_connection_values(req->conn->mhd, MHD_HEADER_KIND, take_header, &w);
    take_request_id(req, w.request_id);
    req->state = REQUEST_BODY;
    info = mhd_lib.get_connection_info(req->conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (check_framing(req, &w, &e) < 0) {
        reply_raw_error(req, 400, e.code, e.message);
        return MHD_NO;
    }
    if (req->url_len > HTTP_URL_MAX) {
        err_set(&e, ERR_TOO_LARGE, "the URL is longer than %d bytes", HTTP_URL_MAX);
        http_reply_error_status(req, 414, &e);
    } else if (info && info->header_size > HTTP_HEADERS_MAX) {
        err_set(&e, ERR_TOO_LARGE, "the headers are longer than %d bytes", HTTP_HEADERS_MAX);
        http_reply_error_status(req, 431, &e);
    } else if (check_request(req, &w, method, &e) < 0 && !req->response) {
        http_reply_error(req, &e);
    }
    if (!req->response)
        return MHD_YES;
    /*
     * An answer now would make MHD close the connection. A small body is drained instead; a large
     * one, or one that the client has not begun to send, is not waited for.
     */
    if (req->has_body && (w.expect || req->body_length > (int64_t)HTTP_DRAIN_MAX))
        return reply_queue(req);
    return MHD_YES;
}

/* Throws the rest of the body away; when there is too much of it, answers past MHD and hangs up. */
static enum MHD_Result drain(struct http_request *req, size_t *len)
{
    req->discarded += *len;
    *len = 0;
    if (req->discarded <= HTTP_DRAIN_MAX)
        return MHD_YES;
    if (req->response && req->error)
        reply_raw_error(req, req->status, req->error_code, req->error);
    else
        reply_raw_error(req, 413, ERR_TOO_LARGE, "a body is not expected here");
    return MHD_NO;
}

/*
 * Bodies are held in memory until their requests end: as text, then as values. Whether this owner's
 * may hold so much. False: it is answered.
 */
static bool may_hold(struct http_request *req, size_t bytes)
{
    size_t own = bytes, all = bytes;

    req->held_bytes = 0;
    if (bytes > HELD_UNCOUNTED_BYTES) {
        for (const struct http_request *other = req->server->active; other; other = other->next) {
            all += other->held_bytes;
            own += other->owner == req->owner ? other->held_bytes : 0;
        }
    }
    if (own <= HTTP_HELD_OWNER_MAX && all <= HTTP_HELD_MAX) {
        req->held_bytes = bytes;
        return true;
    }
    buf_finish(&req->body);
    http_reply_busy(req, 1, "large bodies of %s requests take too much memory; try again soon",
                    own > HTTP_HELD_OWNER_MAX ? "your" : "all");
    return false;
}

static enum MHD_Result take_body(struct http_request *req, const char *data, size_t *len)
{
    const struct route *route = req->match.route;
    struct err e = ERR_INIT;
    ssize_t n;

    if (req->gone)
        return MHD_NO;
    if (req->response || !route || (!route->body && !route->on_body))
        return drain(req, len);
    if (*len > req->max_body - MIN_OF(req->received, (uint64_t)req->max_body)) {
        err_set(&e, ERR_TOO_LARGE, "the body is larger than %zu bytes", req->max_body);
        http_reply_error(req, &e);
        return drain(req, len);
    }
    if (route->body) {
        if (!may_hold(req, req->body.len + *len))
            return drain(req, len);
        if (buf_append(&req->body, data, *len, &e) < 0) {
            http_reply_error(req, &e);
            return drain(req, len);
        }
        req->received += *len;
        *len = 0;
        return MHD_YES;
    }

    req->body_resumed = false;
    n = route->on_body(req, data, *len, &e);
    if (n < 0) {
        http_reply_error(req, &e);
        return drain(req, len);
    }
    n = MIN_OF(n, (ssize_t)*len);
    req->received += (uint64_t)n;
    *len -= (size_t)n;
    if (*len > 0 && !req->body_resumed) {
        req->body_paused = true;
        req->paused_at_ms = clock_now_ms();
        http_suspend(req);
    }
    return MHD_YES;
}

/* ---- the body as JSON ---- */

struct parsed_body {
    struct http_request *req; /* NULL: it has ended */
    const struct schema *schema;
    struct buf text;
    json_t *json;
    size_t n_values;
    struct schema_report report;
    bool is_invalid; /* JSON, but not as the schema has it */
    bool is_optional, is_done;
    struct err err;
};

/* In any thread. */
static void parse(void *arg)
{
    struct parsed_body *p = arg;

    if (p->text.len == 0 && p->is_optional) {
        p->json = json_object();
        if (!p->json)
            err_set(&p->err, ERR_NO_MEMORY, "out of memory for the body");
    } else {
        (void)json_parse_within(buf_cstr(&p->text), p->text.len, HTTP_BODY_VALUES_MAX, &p->json,
                                &p->n_values, &p->err);
    }
    buf_finish(&p->text);
    p->is_invalid = p->json && schema_validate(p->schema, p->json, &p->report, &p->err) < 0;
}

static void take_parsed(struct http_request *req, struct parsed_body *p)
{
    req->json = TAKE_PTR(p->json);
    if (req->json && !may_hold(req, p->n_values * VALUE_BYTES))
        return;
    if (p->is_invalid)
        reply_invalid(req, "body", &p->report, &p->err);
    else if (!req->json)
        http_reply_error(req, &p->err);
    else if (p->report.ignored[0])
        log_debug("http.ignored", LOG_STR("request", req->id), LOG_STR("path", req->path),
                  LOG_STR("fields", p->report.ignored));
}

static void parsed_later(void *arg)
{
    struct parsed_body *p = arg;

    p->is_done = true;
    if (p->req) {
        http_resume(p->req);
    } else {
        json_discard(p->json);
        free(p);
    }
}

/* True: request_access() is called again when it is parsed. */
static bool parse_later(struct http_request *req)
{
    struct err ignored = ERR_INIT;
    struct parsed_body *p = malloc(sizeof(*p));

    if (!p)
        return false;
    *p = (struct parsed_body){ .req = req, .schema = req->match.route->body, .text = req->body };
    if (loop_background(loop_uv(req->server->loop), parse, parsed_later, p, &ignored) < 0) {
        free(p);
        return false;
    }
    buf_init(&req->body, 0);
    req->parsing = p;
    return true;
}

void request_forget_parsing(struct http_request *req)
{
    struct parsed_body *p = TAKE_PTR(req->parsing);

    if (p && p->is_done) {
        json_discard(p->json);
        free(p);
    } else if (p) {
        p->req = NULL;
    }
}

static void parse_at_once(struct http_request *req)
{
    const struct route *route = req->match.route;
    struct parsed_body p = { .schema = route->body,
                             .is_optional = route->flags & ROUTE_BODY_OPTIONAL,
                             .text = req->body };

    buf_init(&req->body, 0);
    parse(&p);
    take_parsed(req, &p);
}

static enum MHD_Result handle_parsed(struct http_request *req);

static enum MHD_Result handle(struct http_request *req)
{
    bool has_json = !req->response && req->match.route->body;

    req->state = REQUEST_HANDLING;
    if (has_json && req->body.len > PARSE_AT_ONCE_MAX && parse_later(req)) {
        http_suspend(req);
        return MHD_YES;
    }
    if (has_json)
        parse_at_once(req);
    return handle_parsed(req);
}

static enum MHD_Result handle_parsed(struct http_request *req)
{
    const struct route *route = req->match.route;
    struct err e = ERR_INIT;

    if (!req->response)
        route->handler(req);
    if (req->response)
        return reply_queue(req);
    if (!req->deferred) {
        err_set(&e, ERR_INTERNAL, "the server gave no answer");
        http_reply_error(req, &e);
        return req->response ? reply_queue(req) : MHD_NO;
    }
    http_suspend(req);
    return MHD_YES;
}

enum MHD_Result request_access(struct http_request *req, const char *method, const char *data,
                               size_t *len)
{
    switch (req->state) {
    case REQUEST_NEW:
        return begin(req, method);
    case REQUEST_BODY:
        return *len > 0 ? take_body(req, data, len) : req->gone ? MHD_NO : handle(req);
    case REQUEST_HANDLING:
        /* Resumed: there is JSON or an answer, or nobody who wants it. */
        if (req->parsing && !req->gone) {
            take_parsed(req, req->parsing);
            request_forget_parsing(req);
            return handle_parsed(req);
        }
        if (req->gone || !req->response)
            return MHD_NO;
        return reply_queue(req);
    case REQUEST_SENDING:
        break;
    }
    return MHD_NO;
}

/* ---- accessors ---- */

void *http_request_app(const struct http_request *req)
{
    return req->server->options.app;
}

struct loop *http_request_loop(const struct http_request *req)
{
    return req->server->loop;
}

const char *http_owner(const struct http_request *req)
{
    return req->owner;
}

struct arena *http_arena(struct http_request *req)
{
    return &req->arena;
}

const char *http_param(const struct http_request *req, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < req->match.n_params; i++) {
        if (req->match.params[i].name_len == n && memcmp(req->match.params[i].name, name, n) == 0)
            return req->match.params[i].value;
    }
    return NULL;
}

const char *http_query(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_query; i++) {
        if (str_eq(req->query[i].name, name))
            return req->query[i].value;
    }
    return NULL;
}

long long http_query_i64(const struct http_request *req, const char *name, long long dflt)
{
    const char *text = http_query(req, name);

    return text && text[0] ? strtoll(text, NULL, 10) : dflt;
}

bool http_query_bool(const struct http_request *req, const char *name, bool dflt)
{
    const char *text = http_query(req, name);

    return text && text[0] ? str_eq(text, "true") || str_eq(text, "1") : dflt;
}

const char *http_header(const struct http_request *req, const char *name)
{
    return mhd_lib.lookup_connection_value(req->conn->mhd, MHD_HEADER_KIND, name);
}

json_t *http_body_json(const struct http_request *req)
{
    return req->json;
}

int64_t http_body_length(const struct http_request *req)
{
    return req->body_length;
}

void http_set_data(struct http_request *req, void *data, void (*destroy)(void *data))
{
    req->data = data;
    req->destroy_data = destroy;
}

void *http_get_data(const struct http_request *req)
{
    return req->data;
}

void http_body_resume(struct http_request *req)
{
    req->body_resumed = true;
    if (req->body_paused)
        http_resume(req);
}
