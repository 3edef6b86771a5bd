/*
 * Static files. What a request names is looked up afresh each time (a file may change under a
 * running server), identified by an ETag, and sent by the kernel from its descriptor. The
 * compressed form of a file is made once per version by a worker and kept; requests that come
 * meanwhile get the plain form.
 */

#include "net/static.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>
#include "base/fdio.h"
#include "base/str.h"
#include "net/loop.h"

#define GZIP_MIN_BYTES 1400
#define GZIP_MAX_BYTES (16u * 1024 * 1024)
#define CACHE_MAX_BYTES (32u * 1024 * 1024)
#define ETAG_SIZE 48

struct packed {
    struct packed *next;
    char *path;
    char etag[ETAG_SIZE]; /* of the plain form */
    bool in_work;
    void *data; /* NULL: in work, or not worth it */
    size_t len;
};

struct static_site {
    struct static_options options;
    int dir_fd;
    struct packed *cache;
    size_t cache_bytes;
    unsigned n_jobs;
    bool dead; /* destroyed while a worker was busy */
};

/* One that was found: a descriptor or memory. */
struct found {
    const char *path;
    int fd;
    const void *data;
    size_t len;
    bool is_packed; /* data is the compressed form */
    char etag[ETAG_SIZE];
};

struct job {
    struct static_site *site;
    struct packed *entry;
    struct http_request *req; /* NULL when its client has gone */
    const char *content_type;
    int fd;
    const void *data;
    size_t len;
    void *packed;
    size_t packed_len;
};

/* ---- set-up ---- */

int static_create(const struct static_options *options, struct static_site **ret, struct err *err)
{
    struct static_site *site = calloc(1, sizeof(*site));

    if (!site)
        return err_set(err, ERR_NO_MEMORY, "out of memory for static files");
    site->options = *options;
    site->dir_fd = -1;
    if (!site->options.index)
        site->options.index = "index.html";
    if (!site->options.csp)
        site->options.csp = STATIC_CSP;
    if (options->dir) {
        site->dir_fd = open(options->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (site->dir_fd < 0) {
            int e = errno;

            free(site);
            return err_errno(err, e == ENOENT ? ERR_NOT_FOUND : ERR_IO, e, "cannot open '%s'",
                             options->dir);
        }
    }
    site->options.dir = NULL; /* not kept */
    *ret = site;
    return 0;
}

void static_destroy(struct static_site *site)
{
    if (!site)
        return;
    if (site->n_jobs > 0) {
        site->dead = true; /* the last job frees it */
        return;
    }
    while (site->cache) {
        struct packed *p = site->cache;

        site->cache = p->next;
        free(p->path);
        free(p->data);
        free(p);
    }
    if (site->dir_fd >= 0)
        close(site->dir_fd);
    free(site);
}

const char *static_content_type(const char *path)
{
    static const struct {
        const char *suffix, *type;
    } types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".mjs", "text/javascript; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".json", "application/json" },
        { ".map", "application/json" },
        { ".svg", "image/svg+xml" },
        { ".png", "image/png" },
        { ".jpg", "image/jpeg" },
        { ".gif", "image/gif" },
        { ".webp", "image/webp" },
        { ".ico", "image/x-icon" },
        { ".woff2", "font/woff2" },
        { ".woff", "font/woff" },
        { ".wasm", "application/wasm" },
        { ".txt", "text/plain; charset=utf-8" },
        { ".md", "text/markdown; charset=utf-8" },
        { ".csv", "text/csv; charset=utf-8" },
        { ".xml", "application/xml" },
        { ".pdf", "application/pdf" },
        { ".zip", "application/zip" },
        { ".parquet", "application/vnd.apache.parquet" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (str_ends(path, types[i].suffix))
            return types[i].type;
    }
    return "application/octet-stream";
}

static bool is_compressible(const char *type)
{
    return str_starts(type, "text/") || str_eq(type, "application/json") || strstr(type, "xml") ||
           strstr(type, "wasm");
}

/* ---- finding ---- */

/* Relative, no empty segment, none that begins with a dot: no way up and no hidden file. */
static bool is_plain_path(const char *path)
{
    if (strlen(path) >= 1024 || strchr(path, '\\'))
        return false;
    for (const char *p = path;;) {
        size_t len = strcspn(p, "/");

        if (len == 0 || p[0] == '.')
            return false;
        p += len;
        if (*p == '\0')
            return true;
        p++;
    }
}

static uint64_t fnv(const unsigned char *data, size_t len)
{
    uint64_t h = 14695981039346656037ull;

    for (size_t i = 0; i < len; i++)
        h = (h ^ data[i]) * 1099511628211ull;
    return h;
}

static bool find_in_dir(struct static_site *site, const char *path, struct found *ret)
{
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    auto_close int fd = (int)syscall(SYS_openat2, site->dir_fd, path, &how, sizeof(how));
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    snprintf(ret->etag, sizeof(ret->etag), "%llx-%llx", (unsigned long long)st.st_size,
             (unsigned long long)st.st_mtim.tv_sec * 1000000000ull +
                 (unsigned long long)st.st_mtim.tv_nsec);
    ret->len = (size_t)st.st_size;
    ret->fd = TAKE_FD(fd);
    return true;
}

static bool find(struct static_site *site, const char *path, struct found *ret)
{
    if (path[0] == '\0')
        path = site->options.index;
    *ret = (struct found){ .path = path, .fd = -1 };
    if (!is_plain_path(path))
        return false;
    for (const struct static_file *f = site->options.files; f && f->path; f++) {
        size_t n = strlen(path);

        if (strncmp(f->path, path, n) != 0 || (f->path[n] && !str_eq(f->path + n, ".gz")))
            continue;
        ret->is_packed = f->path[n] != '\0';
        ret->data = f->data;
        ret->len = f->len;
        snprintf(ret->etag, sizeof(ret->etag), "%zx-%llx", f->len,
                 (unsigned long long)fnv(f->data, f->len));
        return true;
    }
    return site->dir_fd >= 0 && find_in_dir(site, path, ret);
}

/* ---- headers ---- */

void static_page_headers(struct http_request *req, const char *csp)
{
    http_add_header(req, "Content-Security-Policy", csp ? csp : STATIC_CSP);
    http_add_header(req, "X-Frame-Options", "DENY");
    http_add_header(req, "Referrer-Policy", "no-referrer");
    http_add_header(req, "Cross-Origin-Opener-Policy", "same-origin");
}

static void add_headers(struct static_site *site, struct http_request *req, const struct found *f,
                        const char *type, bool packed)
{
    char text[ETAG_SIZE + 8];

    snprintf(text, sizeof(text), "\"%s%s\"", f->etag, packed ? "-gz" : "");
    http_add_header(req, "ETag", text);
    if (site->options.max_age_s > 0)
        snprintf(text, sizeof(text), "public, max-age=%u", site->options.max_age_s);
    if (site->options.hashed_names && !str_eq(f->path, site->options.index))
        http_add_header(req, "Cache-Control", "public, max-age=31536000, immutable");
    else
        http_add_header(req, "Cache-Control", site->options.max_age_s > 0 ? text : "no-cache");
    http_add_header(req, "Cross-Origin-Resource-Policy", "same-origin");
    if (is_compressible(type))
        http_add_header(req, "Vary", "Accept-Encoding");
    if (packed)
        http_add_header(req, "Content-Encoding", "gzip");
    if (str_starts(type, "text/html") || str_starts(type, "image/svg"))
        static_page_headers(req, site->options.csp);
}

/* If-None-Match names this file, in either form. */
static bool is_known(const struct http_request *req, const struct found *f)
{
    const char *p = http_header(req, "If-None-Match");
    size_t n = strlen(f->etag);

    if (!p)
        return false;
    if (str_eq(p, "*"))
        return true;
    while ((p = strchr(p, '"'))) {
        p++;
        if (strncmp(p, f->etag, n) == 0 && (p[n] == '"' || strncmp(p + n, "-gz\"", 4) == 0))
            return true;
        p = strchr(p, '"');
        if (!p)
            break;
        p++;
    }
    return false;
}

/* ---- the compressed form ---- */

static struct packed *packed_of(struct static_site *site, const struct found *f)
{
    struct packed **link = &site->cache;

    while (*link) {
        struct packed *p = *link;

        if (!str_eq(p->path, f->path)) {
            link = &p->next;
        } else if (str_eq(p->etag, f->etag) || p->in_work) {
            return p;
        } else { /* of a version that is gone */
            *link = p->next;
            site->cache_bytes -= p->len;
            free(p->path);
            free(p->data);
            free(p);
        }
    }
    return NULL;
}

static void pack(void *arg)
{
    struct job *job = arg;
    auto_buf struct buf plain = BUF_INIT(GZIP_MAX_BYTES + 1);
    z_stream z = { .next_in = NULL };
    size_t room = job->len - job->len / 8;

    /* The plain form, if it comes to that, is sent from offset 0 whatever was read here. */
    if (!job->data && (fd_read_to_end(job->fd, &plain, NULL) < 0 || plain.len != job->len))
        return;
    z.next_in = (unsigned char *)(uintptr_t)(job->data ? job->data : plain.data);
    z.avail_in = (unsigned)job->len;
    job->packed = malloc(room);
    if (!job->packed)
        return;
    z.next_out = job->packed;
    z.avail_out = (unsigned)room;
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(TAKE_PTR(job->packed));
        return;
    }
    if (deflate(&z, Z_FINISH) == Z_STREAM_END)
        job->packed_len = z.total_out;
    else
        free(TAKE_PTR(job->packed));
    deflateEnd(&z);
}

static void reply_plain(struct static_site *site, struct http_request *req, struct found *f,
                        const char *type)
{
    add_headers(site, req, f, type, false);
    if (f->data)
        http_reply_static(req, 200, type, f->data, f->len);
    else
        http_reply_file(req, 200, type, TAKE_FD(f->fd), 0, f->len);
}

static void reply_packed(struct static_site *site, struct http_request *req, const struct found *f,
                         const char *type, const struct packed *p)
{
    void *copy = malloc(p->len);

    if (!copy) {
        http_reply_json(req, 500, NULL);
        return;
    }
    memcpy(copy, p->data, p->len);
    add_headers(site, req, f, type, true);
    http_reply_packed(req, 200, type, copy, p->len);
}

/* A file that is kept in its compressed form only. */
static void reply_kept_packed(struct static_site *site, struct http_request *req,
                              const struct found *f, const char *type)
{
    const unsigned char *end = (const unsigned char *)f->data + f->len;
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)f->data, .avail_in = (unsigned)f->len };

    if (http_accepts_gzip(req)) {
        add_headers(site, req, f, type, true);
        http_reply_static(req, 200, type, f->data, f->len);
        return;
    }
    /* The last four bytes are the plain length, the lowest first. */
    size_t len = (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 |
                 (size_t)end[-1] << 24;
    auto_free void *plain = malloc(len + 1);
    if (!plain || inflateInit2(&z, 15 + 16) != Z_OK) {
        http_reply_json(req, 500, NULL);
        return;
    }
    z.next_out = plain;
    z.avail_out = (unsigned)len + 1;
    int r = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (r != Z_STREAM_END) {
        http_reply_json(req, 500, NULL);
        return;
    }
    add_headers(site, req, f, type, false);
    http_reply_packed(req, 200, type, TAKE_PTR(plain), z.total_out);
}

static void pack_done(void *arg)
{
    struct job *job = arg;
    struct static_site *site = job->site;
    struct packed *p = job->entry;
    struct found f = { .path = p->path, .fd = job->fd, .data = job->data, .len = job->len };

    p->in_work = false;
    if (job->packed && site->cache_bytes + job->packed_len <= CACHE_MAX_BYTES) {
        p->data = TAKE_PTR(job->packed);
        p->len = job->packed_len;
        site->cache_bytes += p->len;
    }
    memcpy(f.etag, p->etag, sizeof(f.etag));
    if (job->req && p->data && !site->dead)
        reply_packed(site, job->req, &f, job->content_type, p);
    else if (job->req)
        reply_plain(site, job->req, &f, job->content_type);
    if (f.fd >= 0)
        close(f.fd);
    free(job->packed);
    free(job);
    site->n_jobs--;
    if (site->dead)
        static_destroy(site);
}

static void forget_request(void *arg)
{
    struct job *job = arg;

    job->req = NULL;
}

/* True when a worker will answer. */
static bool start_packing(struct static_site *site, struct http_request *req, struct found *f,
                          const char *type)
{
    struct packed *p = calloc(1, sizeof(*p));
    struct job *job = calloc(1, sizeof(*job));

    if (p)
        p->path = strdup(f->path);
    if (!p || !job || !p->path)
        goto fail;
    memcpy(p->etag, f->etag, sizeof(p->etag));
    p->in_work = true;
    *job = (struct job){ .site = site,
                         .entry = p,
                         .req = req,
                         .content_type = type,
                         .fd = f->fd,
                         .data = f->data,
                         .len = f->len };
    if (loop_work(http_request_loop(req), pack, pack_done, job, NULL) < 0)
        goto fail;
    f->fd = -1;
    p->next = site->cache;
    site->cache = p;
    site->n_jobs++;
    http_defer(req, forget_request, job);
    return true;

fail:
    if (p)
        free(p->path);
    free(p);
    free(job);
    return false;
}

/* ---- answering ---- */

bool static_wants_html(const struct http_request *req)
{
    const char *accept = http_header(req, "Accept");

    return accept && strstr(accept, "text/html");
}

void static_reply(struct static_site *site, struct http_request *req, const char *path)
{
    char shown[STR_SHOWN_SIZE];
    struct packed *p;
    const char *type;
    struct found f;

    if (!find(site, path, &f) && !(site->options.fallback && static_wants_html(req) &&
                                   find(site, site->options.fallback, &f))) {
        http_reply_fail(req, ERR_NOT_FOUND, "there is no file '%s'",
                        str_show(path, strlen(path), shown, sizeof(shown)));
        return;
    }
    type = static_content_type(f.path);
    if (is_known(req, &f)) {
        add_headers(site, req, &f, type, false);
        http_reply_empty(req, 304);
    } else if (f.is_packed) {
        reply_kept_packed(site, req, &f, type);
    } else if (!is_compressible(type) || f.len < GZIP_MIN_BYTES || f.len > GZIP_MAX_BYTES ||
               !http_accepts_gzip(req)) {
        reply_plain(site, req, &f, type);
    } else {
        p = packed_of(site, &f);
        if (p && p->data && str_eq(p->etag, f.etag))
            reply_packed(site, req, &f, type, p);
        else if (p || !start_packing(site, req, &f, type))
            reply_plain(site, req, &f, type);
    }
    if (f.fd >= 0)
        close(f.fd);
}
