/* Static files over a socket: types, ETag, gzip, headers, and paths that must not lead anywhere. */

#include "client.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "base/fdio.h"
#include "base/log.h"
#include "net/static.h"

static struct fixture f;
static struct static_site *site, *memory;
static char dir[64];
static char script[40001];
static unsigned char packed[40001];

static void get_file(struct http_request *req)
{
    static_reply(http_query(req, "memory") ? memory : site, req, http_param(req, "path"));
}

static const struct route_param params[] = {
    { .field = { .name = "path", .types = SCHEMA_STRING } }, { .field = { .name = NULL } }
};
static const struct route routes[] = {
    { HTTP_GET, "/{path...}", get_file, .params = params, .flags = ROUTE_HIDDEN | ROUTE_NAVIGABLE },
};

static void write_file(const char *name, const char *text)
{
    char path[160];
    struct err e;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_works(fd_replace_file(path, text, strlen(text), 0644, &e), &e);
}

static size_t pack_script(void)
{
    z_stream z = { .next_in = (unsigned char *)script,
                   .avail_in = sizeof(script) - 1,
                   .next_out = packed,
                   .avail_out = sizeof(packed) };

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static int setup(void **state)
{
    static struct static_file files[] = { { "index.html", "<p>memory</p>", 13 },
                                          { "app-1A2B.js.gz", packed, 0 },
                                          { NULL, NULL, 0 } };
    struct static_options o = { .dir = dir, .fallback = "index.html", .max_age_s = 0 };
    struct static_options m = {
        .files = files, .max_age_s = 60, .hashed_names = true, .csp = "default-src 'none'"
    };
    char path[160];
    struct err e;

    (void)state;
    log_setup(LOG_ERROR, LOG_FORMAT_KV);
    make_scratch(dir);
    write_file("index.html", "<p>dir</p>");
    for (size_t i = 0; i < sizeof(script) - 1; i++)
        script[i] = "abcdefgh\n"[i * i % 9];
    write_file("app.js", script);
    files[1].len = pack_script();
    write_file(".secret", "secret");
    snprintf(path, sizeof(path), "%s/sub", dir);
    assert_int_equal(mkdir(path, 0755), 0);
    write_file("sub/data.csv", "a,b\n");
    snprintf(path, sizeof(path), "%s/link", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_works(static_create(&o, &site, &e), &e);
    assert_works(static_create(&m, &memory, &e), &e);
    memset(&f, 0, sizeof(f));
    fixture_start(&f, routes, ARRAY_SIZE(routes));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    static_destroy(site);
    static_destroy(memory);
    return fd_remove_tree(dir, NULL);
}

static void get(const char *path, const char *headers, struct reply *r)
{
    char request[1024];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path,
             headers);
    ask(f.port, request, r);
}

static void test_files(void **state)
{
    struct reply r;

    (void)state;
    get("/", "", &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "<p>dir</p>");
    assert_string_equal(header_of(&r, "Content-Type"), "text/html; charset=utf-8");
    assert_string_equal(header_of(&r, "Content-Security-Policy"), STATIC_CSP);
    assert_string_equal(header_of(&r, "X-Frame-Options"), "DENY");
    assert_string_equal(header_of(&r, "Referrer-Policy"), "no-referrer");
    assert_string_equal(header_of(&r, "X-Content-Type-Options"), "nosniff");
    assert_string_equal(header_of(&r, "Cache-Control"), "no-cache");
    get("/sub/data.csv", "", &r);
    assert_string_equal(r.body, "a,b\n");
    assert_string_equal(header_of(&r, "Content-Type"), "text/csv; charset=utf-8");
    assert_null(header_of(&r, "Content-Security-Policy"));
    get("/?memory=1", "", &r);
    assert_string_equal(r.body, "<p>memory</p>");
    assert_string_equal(header_of(&r, "Cache-Control"), "public, max-age=60");
    assert_string_equal(header_of(&r, "Content-Security-Policy"), "default-src 'none'");
}

/* A file that is compiled in compressed is the same file to every client, and kept for ever. */
static void test_kept_packed(void **state)
{
    static const char *const forever = "public, max-age=31536000, immutable";
    struct reply r;

    (void)state;
    get("/app-1A2B.js?memory=1", "", &r);
    assert_int_equal(r.status, 200);
    assert_null(header_of(&r, "Content-Encoding"));
    assert_string_equal(r.body, script);
    assert_string_equal(header_of(&r, "Cache-Control"), forever);
    get("/app-1A2B.js?memory=1", "Accept-Encoding: gzip\r\n", &r);
    assert_string_equal(header_of(&r, "Content-Encoding"), "gzip");
    assert_string_equal(header_of(&r, "Content-Type"), "text/javascript; charset=utf-8");
    assert_true(r.len < sizeof(script) / 2);
    assert_memory_equal(r.body, packed, r.len);
    get("/app-1A2B?memory=1", "", &r);
    assert_int_equal(r.status, 404);
}

static void test_missing(void **state)
{
    struct reply r;

    (void)state;
    get("/none.js", "", &r);
    expect_error(&r, 404, "NOT_FOUND", "there is no file 'none.js'");
    get("/some/page", "Accept: text/html,*/*\r\n", &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "<p>dir</p>");
    get("/some/page?memory=1", "Accept: text/html\r\n", &r);
    expect_error(&r, 404, "NOT_FOUND", "there is no file 'some/page'");
}

static void test_no_way_out(void **state)
{
    static const char *const paths[] = { "/../etc/passwd",
                                         "/..%2f..%2fetc/passwd",
                                         "/%2fetc/passwd",
                                         "/sub/../index.html",
                                         "/link",
                                         "/.secret",
                                         "/sub/%2e%2e/index.html",
                                         "/sub//data.csv",
                                         "/sub",
                                         "/sub/",
                                         "/..%5cx" };
    struct reply r;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        get(paths[i], "", &r);
        if (r.status != 404)
            fail_msg("'%s' gave %d", paths[i], r.status);
    }
}

static void test_etag(void **state)
{
    char tag[128], headers[256];
    struct reply r;

    (void)state;
    get("/sub/data.csv", "", &r);
    snprintf(tag, sizeof(tag), "%s", header_of(&r, "ETag"));
    snprintf(headers, sizeof(headers), "If-None-Match: \"other\", W/%s\r\n", tag);
    get("/sub/data.csv", headers, &r);
    assert_int_equal(r.status, 304);
    assert_int_equal(r.len, 0);
    assert_string_equal(header_of(&r, "ETag"), tag);
    get("/sub/data.csv", "If-None-Match: \"other\"\r\n", &r);
    assert_int_equal(r.status, 200);
    write_file("sub/data.csv", "a,b,c\n");
    get("/sub/data.csv", headers, &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "a,b,c\n");
    write_file("sub/data.csv", "a,b\n");
}

static void expect_script(const struct reply *r)
{
    static unsigned char plain[65536];
    z_stream z = { .next_in = (unsigned char *)(uintptr_t)r->body,
                   .avail_in = (unsigned)r->len,
                   .next_out = plain,
                   .avail_out = sizeof(plain) };

    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, sizeof(script) - 1);
    assert_memory_equal(plain, script, sizeof(script) - 1);
    inflateEnd(&z);
}

static void test_gzip(void **state)
{
    char headers[256];
    struct reply r;

    (void)state;
    for (int i = 0; i < 2; i++) { /* made by a worker, then from memory */
        get("/app.js", "Accept-Encoding: gzip\r\n", &r);
        assert_int_equal(r.status, 200);
        assert_string_equal(header_of(&r, "Content-Encoding"), "gzip");
        assert_string_equal(header_of(&r, "Content-Type"), "text/javascript; charset=utf-8");
        assert_string_equal(header_of(&r, "Vary"), "Accept-Encoding");
        expect_script(&r);
    }
    snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n", header_of(&r, "ETag"));
    assert_non_null(strstr(headers, "-gz\""));
    get("/app.js", headers, &r);
    assert_int_equal(r.status, 304);
    get("/app.js", "", &r);
    assert_null(header_of(&r, "Content-Encoding"));
    assert_int_equal(r.len, sizeof(script) - 1);
    /* A new version is compressed anew. */
    script[0] = 'Z';
    write_file("app.js", script);
    get("/app.js", "Accept-Encoding: gzip\r\n", &r);
    expect_script(&r);
}

static void test_no_directory(void **state)
{
    struct static_options o = { .dir = "/nonexistent/dir" };
    struct static_site *s;
    struct err e;

    (void)state;
    assert_fails(static_create(&o, &s, &e), &e, ERR_NOT_FOUND,
                 "cannot open '/nonexistent/dir': No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_kept_packed),  cmocka_unit_test(test_no_way_out),
        cmocka_unit_test(test_etag),         cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_no_directory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
