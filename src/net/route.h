#ifndef RIDDLE_NET_ROUTE_H
#define RIDDLE_NET_ROUTE_H

/*
 * Routes are declared once, in tables of this struct: the router, validation of parameters and
 * bodies, GET /openapi.json and the metrics by route all come from it. The tables are static data
 * and outlive the server.
 *
 *   static const struct route run_routes[] = {
 *       { HTTP_GET, "/runs/{id}", get_run, .id = "getRun", .tag = "runs", .summary = "A run",
 *         .params = run_params, .responses = run_responses, .errors = ROUTE_ERR(NOT_FOUND) },
 *   };
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/arena.h"
#include "base/err.h"
#include "net/schema.h"

struct http_request;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    _HTTP_METHOD_MAX
};
const char *http_method_name(enum http_method m);
bool http_method_parse(const char *name, enum http_method *ret);

/* A parameter of the path (its name stands in braces there) or of the query. */
struct route_param {
    struct schema_field field; /* .name NULL ends the list; one of the path is always required */
    bool in_query;
};
/* Rows of a table of parameters, as SCHEMA_FIELD(). */
#define ROUTE_PATH(name_, type_, doc_, ...)                                                        \
    {                                                                                              \
        .field = SCHEMA_FIELD(name_, type_, doc_, __VA_ARGS__)                                     \
    }
#define ROUTE_QUERY(name_, type_, doc_, ...)                                                       \
    {                                                                                              \
        .field = SCHEMA_FIELD(name_, type_, doc_, __VA_ARGS__), .in_query = true                   \
    }

struct route_response {
    int status;               /* 0 ends the list */
    const char *content_type; /* NULL: application/json, of the type that net/answers.h has */
    const char *doc;
};

#define ROUTE_ERR(code) (1u << ERR_##code)

enum route_flags {
    ROUTE_PUBLIC = 1 << 0, /* answers without a key */
    ROUTE_QUIET = 1 << 1,  /* its successes are logged at debug only: probes */
    ROUTE_NO_RATE_LIMIT = 1 << 2,
    ROUTE_HIDDEN = 1 << 3,        /* not in the API description: pages and files */
    ROUTE_BODY_OPTIONAL = 1 << 4, /* a JSON body may be missing; it is then {} with the defaults */
    ROUTE_NEED_LENGTH = 1 << 5,   /* 411 for a chunked body */
    ROUTE_CHAT = 1 << 7,          /* a message: counted apart by the rate limit */
    ROUTE_NAVIGABLE =
        1 << 6, /* a page: links of other sites may lead here (their scripts may not) */
    ROUTE_CLOSED = 1 << 8, /* an unknown parameter of the query is refused, the nearest told */
};

#define ROUTE_PARAMS_MAX 8
#define HTTP_UNPROCESSABLE 422 /* a body or a parameter that its schema refuses */

struct route {
    enum http_method method; /* a GET route answers HEAD as well */
    const char *path; /* "/a/{id}"; a last segment "{name...}" takes the rest, slashes included */
    void (*handler)(struct http_request *req);

    const char *id; /* operationId, and the label of metrics; required unless hidden */
    const char *tag;
    const char *summary;
    const char *doc; /* Markdown; may be NULL */
    const struct route_param *params;
    const struct schema *body; /* JSON body; validated before the handler runs */
    const char *consumes; /* type of a streamed body: "multipart/form-data", …, or "*" for any */
    const struct schema *form; /* describes the parts of a multipart body (documentation) */
    const struct route_response *responses;
    uint32_t errors; /* ROUTE_ERR(…) or-ed: what it may answer besides those that every route may */
    size_t max_body_bytes; /* 0: HTTP_BODY_MAX for JSON, none for what is streamed to on_body */
    unsigned flags;

    /*
     * A streamed body instead of a JSON one. on_headers (may be NULL) runs first, when the request
     * has passed every check; then on_body for each piece, in order; then the handler. on_body
     * returns how much it took (less than len pauses the client until http_body_resume()) or -code
     * with err set: then the rest is discarded and that error is the answer.
     */
    int (*on_headers)(struct http_request *req, struct err *err);
    ssize_t (*on_body)(struct http_request *req, const char *data, size_t len, struct err *err);
};

/* ---- matching (used by the server; here for its tests) ---- */

struct router;

struct route_match {
    const struct route *route; /* NULL when there is none: see allowed */
    size_t index;              /* of the route in the order of adding */
    uint32_t allowed; /* bits 1 << enum http_method of the methods this path has; 0: unknown path */
    size_t n_params;
    struct {
        const char *name; /* into the route's path, not terminated */
        size_t name_len;
        char *value; /* percent-decoded, in the arena */
    } params[ROUTE_PARAMS_MAX];
};

int router_create(struct router **ret, struct err *err);
void router_destroy(struct router *r);
/* CONFIG for a malformed path, a duplicate, a parameter that is not declared. */
int router_add(struct router *r, const struct route *routes, size_t n, struct err *err);
size_t router_count(const struct router *r);
const struct route *router_at(const struct router *r, size_t index);

/*
 * Matches a raw path (no query). Literal segments win over parameters. INVALID_INPUT for bad
 * escapes, an encoded NUL or text that is not UTF-8; otherwise 0, also without a match.
 */
int router_match(const struct router *r, enum http_method method, const char *path, size_t len,
                 struct arena *arena, struct route_match *ret, struct err *err);

/* The known path nearest to one that is unknown, or NULL: for "did you mean". */
const char *router_nearest(const struct router *r, const char *path);

/* "GET, HEAD, OPTIONS" */
#define ROUTE_ALLOW_SIZE 64
void route_allow_header(uint32_t allowed, char ret[ROUTE_ALLOW_SIZE]);

/* Percent-decodes into the arena ('+' is a space if plus); NULL with err set as in router_match. */
char *route_decode(struct arena *arena, const char *s, size_t len, bool plus, struct err *err);

#endif
