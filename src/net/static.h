#ifndef RIDDLE_NET_STATIC_H
#define RIDDLE_NET_STATIC_H

/*
 * Static files, from a directory or from memory, with ETag and If-None-Match, content type by
 * extension, gzip (compressed once, in the worker pool, and kept) and the security headers of
 * pages. A route with a "{path...}" parameter hands over here.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "net/http.h"

struct static_file {
    /*
     * "index.html", "assets/app.js"; NULL ends the list. "app.js.gz" is app.js, compressed by gzip:
     * clients that do not take gzip get it unpacked.
     */
    const char *path;
    const void *data;
    size_t len;
};

struct static_options {
    const char *dir; /* a directory; symbolic links that lead out of it are not followed */
    const struct static_file *files; /* or files in memory, which outlive the server */
    const char *index;               /* served for the empty path; NULL: "index.html" */
    const char *fallback; /* served for what is not there, if the client wants HTML; NULL: 404 */
    const char *csp;      /* Content-Security-Policy of pages; NULL: STATIC_CSP */
    unsigned max_age_s;   /* 0: clients ask again each time (and get 304) */
    bool hashed_names;    /* names of all files but the index hold a hash: cached for ever */
};

#define STATIC_CSP                                                                                 \
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "           \
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

struct static_site;

int static_create(const struct static_options *options, struct static_site **ret, struct err *err);
void static_destroy(struct static_site *site);

/*
 * Answers the request with the file of this path (decoded, relative; "" is the index), 304 or 404.
 */
void static_reply(struct static_site *site, struct http_request *req, const char *path);

/* Headers of an HTML answer that a handler makes itself. */
void static_page_headers(struct http_request *req, const char *csp);

/* True for browsers that open a page; programs get JSON at the same address. */
bool static_wants_html(const struct http_request *req);

const char *static_content_type(const char *path);

#endif
