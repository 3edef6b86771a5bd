/* The server over real sockets: framing, limits, routing, answers. */

#include "client.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "net/guard.h"

static struct fixture f;

/* ---- routes ---- */

static void get_hello(struct http_request *req)
{
    http_reply_json(req, 200, json_pack("{s:s}", "hello", "world"));
}

static void get_item(struct http_request *req)
{
    const char *q = http_query(req, "q");

    http_reply_json(req, 200,
                    json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", http_param(req, "id"), "q",
                              q ? q : "", "limit", (json_int_t)http_query_i64(req, "limit", 10),
                              "owner", http_owner(req), "app", http_request_app(req)));
}

static void post_echo(struct http_request *req)
{
    http_reply_json(req, 201, json_incref(http_body_json(req)));
}

/* As many numbers as are written beside the loop. */
static void get_many(struct http_request *req)
{
    json_t *list = json_array();

    for (int i = 0; i < 20000; i++)
        json_array_append_new(list, json_integer(i % 10));
    http_reply_json(req, 200, list);
}

static void get_big(struct http_request *req)
{
    static char text[20001];

    memset(text, 'a', sizeof(text) - 1);
    http_reply_text(req, 200, "text/plain; charset=utf-8", text);
}

static void get_silent(struct http_request *req)
{
    (void)req; /* a handler with a bug */
}

static void in_worker(void *arg)
{
    (void)arg;
}

static void worker_done(void *arg)
{
    http_reply_json(arg, 200, json_pack("{s:b}", "worked", 1));
}

static void get_work(struct http_request *req)
{
    http_defer(req, NULL, NULL);
    assert_int_equal(loop_work(http_request_loop(req), in_worker, worker_done, req, NULL), 0);
}

static const struct schema_field echo_fields[] = {
    { .name = "text", .types = SCHEMA_STRING, .required = true, SCHEMA_RANGE(1, 10) },
    { .name = "n", .types = SCHEMA_INTEGER, .dflt = "7", SCHEMA_RANGE(1, 60) },
    { .name = NULL },
};
static const struct schema echo_schema = { .name = "Echo", .fields = echo_fields };

static const struct route_param item_params[] = {
    { .field = { .name = "id", .types = SCHEMA_STRING, SCHEMA_MAX(8) } },
    { .field = { .name = "limit", .types = SCHEMA_INTEGER, SCHEMA_RANGE(1, 100) },
      .in_query = true },
    { .field = { .name = NULL } },
};

static const struct route routes[] = {
    { HTTP_GET, "/hello", get_hello, .id = "hello" },
    { HTTP_GET, "/items/{id}", get_item, .id = "item", .params = item_params },
    { HTTP_POST, "/echo", post_echo, .id = "echo", .body = &echo_schema, .max_body_bytes = 200 },
    { HTTP_PUT, "/echo", post_echo, .id = "optional", .body = &echo_schema,
      .flags = ROUTE_BODY_OPTIONAL },
    { HTTP_GET, "/big", get_big, .id = "big" },
    { HTTP_GET, "/many", get_many, .id = "many" },
    { HTTP_GET, "/silent", get_silent, .id = "silent" },
    { HTTP_GET, "/work", get_work, .id = "work" },
};

static int setup(void **state)
{
    (void)state;
    log_setup(LOG_ERROR, LOG_FORMAT_KV);
    memset(&f, 0, sizeof(f));
    f.options.app = (void *)"the app";
    fixture_start(&f, routes, ARRAY_SIZE(routes));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    return 0;
}

#define HOST "Host: localhost\r\n"

/* ---- answers ---- */

static void test_json(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /hello HTTP/1.1\r\n" HOST "\r\n", &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "{\"hello\":\"world\"}");
    assert_string_equal(header_of(&r, "Content-Type"), "application/json");
    assert_string_equal(header_of(&r, "X-Content-Type-Options"), "nosniff");
    assert_int_equal(strlen(header_of(&r, "X-Request-Id")), 16);
}

static void test_parameters(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /items/a%2Fb?q=x+%26y&limit=20&q=2 HTTP/1.1\r\n" HOST "\r\n", &r);
    assert_string_equal(
        r.body,
        "{\"id\":\"a/b\",\"q\":\"x &y\",\"limit\":20,\"owner\":\"local\",\"app\":\"the app\"}");
    ask(f.port, "GET /items/a?limit=101 HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 422, "VALIDATION_ERROR",
                 "'limit' must be an integer between 1 and 100, not 101");
    ask(f.port, "GET /items/a?limit=ten HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 422, "VALIDATION_ERROR",
                 "'limit' must be an integer between 1 and 100, not \"ten\"");
    ask(f.port, "GET /items/123456789 HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "'id' must have at most 8 characters, not 9");
    ask(f.port, "GET /items/a%00b HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 400, "INVALID_INPUT", "the URL has an encoded NUL character");
    ask(f.port, "GET /items/a%f HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 400, "INVALID_INPUT",
                 "the URL has a '%' that two hexadecimal digits do not follow");
    ask(f.port, "GET /items/a?limit=%zz HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 400, "INVALID_INPUT",
                 "the URL has a '%' that two hexadecimal digits do not follow");
    ask(f.port, "GET /items/%ff HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 400, "INVALID_INPUT", "the URL is not UTF-8");
}

static void test_request_id(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /hello HTTP/1.1\r\n" HOST "X-Request-Id: my-id.1\r\n\r\n", &r);
    assert_string_equal(header_of(&r, "X-Request-Id"), "my-id.1");
    ask(f.port, "GET /hello HTTP/1.1\r\n" HOST "X-Request-Id: a b\r\n\r\n", &r);
    assert_int_equal(strlen(header_of(&r, "X-Request-Id")), 16);
}

static void test_keep_alive_and_pipelining(void **state)
{
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    for (int i = 0; i < 3; i++) {
        put(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        take(fd, &r);
        assert_int_equal(r.status, 200);
    }
    /* An error, too, leaves the connection in order, and what is behind it is answered in order. */
    put(fd, "GET /nothing HTTP/1.1\r\n" HOST "\r\n"
            "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 13\r\n\r\n{\"text\":\"ab\"}"
            "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n12345"
            "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    take(fd, &r);
    assert_int_equal(r.status, 404);
    take(fd, &r);
    assert_int_equal(r.status, 201);
    assert_string_equal(r.body, "{\"text\":\"ab\",\"n\":7}");
    take(fd, &r);
    assert_int_equal(r.status, 404);
    take(fd, &r);
    assert_string_equal(r.body, "{\"hello\":\"world\"}");
    expect_closed(fd);
}

static void test_head(void **state)
{
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    put(fd, "HEAD /hello HTTP/1.1\r\n" HOST "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
    take_head_only(fd, &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(header_of(&r, "Content-Length"), "17");
    take(fd, &r); /* no body came between */
    assert_string_equal(r.body, "{\"hello\":\"world\"}");
    close(fd);
}

static void test_options(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "OPTIONS /echo HTTP/1.1\r\n" HOST "\r\n", &r);
    assert_int_equal(r.status, 204);
    assert_string_equal(header_of(&r, "Allow"), "POST, PUT, OPTIONS");
    assert_null(header_of(&r, "Access-Control-Allow-Methods"));
    ask(f.port, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &r);
    assert_int_equal(r.status, 204);
}

static void test_unknown(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /helo HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 404, "NOT_FOUND", "there is no '/helo'; did you mean '/hello'?");
    ask(f.port, "GET /completely/else HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 404, "NOT_FOUND",
                 "there is no '/completely/else'; the API is described at /openapi.json");
    ask(f.port, "DELETE /hello HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 405, "METHOD_NOT_ALLOWED",
                 "'DELETE' is not allowed on '/hello'; allowed are GET, HEAD, OPTIONS");
    assert_string_equal(header_of(&r, "Allow"), "GET, HEAD, OPTIONS");
    ask(f.port, "BREW /hello HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 405, "METHOD_NOT_ALLOWED",
                 "'this method' is not allowed on '/hello'; allowed are GET, HEAD, OPTIONS");
    ask(f.port, "GET /silent HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 500, "RUNNER_INTERNAL_ERROR", "the server gave no answer");
}

/*
 * A late answer leaves when it is given, not when the server happens to look: its tick is 500 ms.
 */
static void test_late_answers_leave_at_once(void **state)
{
    int64_t start_ms = clock_now_ms();
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    for (int i = 0; i < 20; i++) {
        put(fd, "GET /work HTTP/1.1\r\n" HOST "\r\n");
        take(fd, &r);
        assert_string_equal(r.body, "{\"worked\":true}");
    }
    close(fd);
    assert_true(clock_now_ms() - start_ms < 20 * 500 / 2);
}

/* ---- bodies ---- */

static void post(const char *headers, const char *body, struct reply *r)
{
    char request[2048];

    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n%s", headers,
             strlen(body), body);
    ask(f.port, request, r);
}

static void test_json_body(void **state)
{
    struct reply r;

    (void)state;
    post("Content-Type: application/json\r\n", "{\"text\":\"hi\",\"n\":60}", &r);
    assert_int_equal(r.status, 201);
    assert_string_equal(r.body, "{\"text\":\"hi\",\"n\":60}");
    post("Content-Type: application/json; charset=utf-8\r\n", "{\"text\":\"\xc3\xa4\"}", &r);
    assert_string_equal(r.body, "{\"text\":\"\xc3\xa4\",\"n\":7}");
    post("", "{\"text\":\"hi\",\"n\":61}", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "'n' must be an integer between 1 and 60, not 61");
    post("", "{\"n\":1}", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "'text' is required");
    post("", "{\"txt\":\"a\"}", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "'text' is required");
    post("", "{\"text\":\"a\",\"txt\":{\"n\":[]}}", &r);
    assert_string_equal(r.body, "{\"text\":\"a\",\"n\":7}");
    post("", "[1]", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "the body must be an object, not an array");
    post("", "{\"text\":", &r);
    expect_error(&r, 400, "INVALID_JSON",
                 "invalid JSON at line 1, column 8: unexpected token near end of file");
    post("", "", &r);
    expect_error(&r, 400, "INVALID_JSON", "invalid JSON at line 1, column 1: the text is empty");
}

static void test_json_depth(void **state)
{
    char deep[160] = "";
    struct reply r;

    (void)state;
    memset(deep, '[', 65);
    post("", deep, &r);
    expect_error(&r, 400, "INVALID_JSON",
                 "invalid JSON at line 1, column 65: nested deeper than 64 levels");
}

static void test_chunked_body(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port,
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
        "8\r\n{\"text\":\r\n5\r\n\"abc\"\r\n1\r\n}\r\n0\r\n\r\n",
        &r);
    assert_int_equal(r.status, 201);
    assert_string_equal(r.body, "{\"text\":\"abc\",\"n\":7}");
}

static void test_optional_body(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "PUT /echo HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 422, "VALIDATION_ERROR", "'text' is required");
}

static void test_refused_bodies(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "POST /echo HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 411, "LENGTH_REQUIRED",
                 "a body is needed: send Content-Length or Transfer-Encoding: chunked");
    post("Content-Type: text/plain\r\n", "{\"text\":\"a\"}", &r);
    expect_error(&r, 415, "UNSUPPORTED_MEDIA_TYPE",
                 "the content type must be application/json, not 'text/plain'");
    post("Content-Encoding: gzip\r\n", "{\"text\":\"a\"}", &r);
    expect_error(&r, 415, "UNSUPPORTED_MEDIA_TYPE",
                 "a body with Content-Encoding 'gzip' is not supported");
    ask(f.port,
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 201\r\nExpect: 100-continue\r\n\r\n", &r);
    expect_error(&r, 413, "TOO_LARGE", "the body has 201 bytes; at most 200 are allowed");
    ask(f.port, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5000000000\r\n\r\n", &r);
    expect_error(&r, 413, "TOO_LARGE", "the body has 5000000000 bytes; at most 200 are allowed");
}

static void test_endless_body(void **state)
{
    static char chunk[65536 + 16];
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    put(fd, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    memcpy(chunk, "10000\r\n", 7);
    memset(chunk + 7, ' ', 65536);
    memcpy(chunk + 7 + 65536, "\r\n", 2);
    for (int i = 0; i < 16; i++)
        put_bytes(fd, chunk, 65536 + 9);
    take(fd, &r);
    expect_error(&r, 413, "TOO_LARGE", "the body is larger than 200 bytes");
    assert_string_equal(header_of(&r, "Connection"), "close");
    expect_closed(fd);
}

/* ---- limits of the head ---- */

static void test_long_url(void **state)
{
    char request[12000];
    struct reply r;
    size_t n = (size_t)sprintf(request, "GET /");

    (void)state;
    memset(request + n, 'a', 9000);
    strcpy(request + n + 9000, " HTTP/1.1\r\n" HOST "\r\n");
    ask(f.port, request, &r);
    expect_error(&r, 414, "TOO_LARGE", "the URL is longer than 8192 bytes");
}

static void test_long_headers(void **state)
{
    static char request[200000];
    struct reply r;
    size_t n = (size_t)sprintf(request, "GET /hello HTTP/1.1\r\n" HOST);

    (void)state;
    for (int i = 0; i < 17; i++) {
        n += (size_t)sprintf(request + n, "X-H%d: ", i);
        memset(request + n, 'b', 1000);
        n += 1000;
        n += (size_t)sprintf(request + n, "\r\n");
    }
    strcpy(request + n, "\r\n");
    ask(f.port, request, &r);
    expect_error(&r, 431, "TOO_LARGE", "the headers are longer than 16384 bytes");

    /* Far more never gets past the connection's memory. */
    for (int i = 0; i < 100; i++) {
        n += (size_t)sprintf(request + n, "X-H%d: ", i);
        memset(request + n, 'b', 1000);
        n += 1000;
        n += (size_t)sprintf(request + n, "\r\n");
    }
    strcpy(request + n, "\r\n");
    ask(f.port, request, &r);
    assert_int_equal(r.status, 431);
}

static void test_malformed(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /hello HTTP/1.1\r\n\r\n", &r);
    assert_int_equal(r.status, 400);
    ask(f.port, "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &r);
    assert_int_equal(r.status, 400);
    ask(f.port, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: abc\r\n\r\n", &r);
    assert_int_equal(r.status, 400);
    ask(f.port, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n", &r);
    assert_int_equal(r.status, 400);
    /* Refused by libmicrohttpd since version 1.0, by us before. */
    ask(f.port,
        "POST /echo HTTP/1.1\r\n" HOST
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &r);
    assert_int_equal(r.status, 400);
    ask(f.port, "GET http://other/hello HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 400, "INVALID_INPUT", "the request target must begin with '/'");
}

static void test_gzip(void **state)
{
    struct reply r;

    (void)state;
    ask(f.port, "GET /big HTTP/1.1\r\n" HOST "Accept-Encoding: br, gzip;q=0.8\r\n\r\n", &r);
    assert_string_equal(header_of(&r, "Content-Encoding"), "gzip");
    assert_string_equal(header_of(&r, "Vary"), "Accept-Encoding");
    assert_true(r.len < 200);
    assert_memory_equal(r.body, "\x1f\x8b", 2);
    ask(f.port, "GET /big HTTP/1.1\r\n" HOST "Accept-Encoding: gzip;q=0\r\n\r\n", &r);
    assert_null(header_of(&r, "Content-Encoding"));
    assert_string_equal(header_of(&r, "Vary"), "Accept-Encoding");
    assert_int_equal(r.len, 20000);
    ask(f.port, "GET /hello HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n", &r);
    assert_null(header_of(&r, "Content-Encoding"));
}

static void test_large_answers(void **state)
{
    static const char request[] = "GET /many HTTP/1.1\r\n" HOST "\r\n";
    struct reply r;

    (void)state;
    ask(f.port, request, &r);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.len, 40001);
    assert_memory_equal(r.body, "[0,1,2,", 7);
    ask(f.port, "GET /many HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n", &r);
    assert_string_equal(header_of(&r, "Content-Encoding"), "gzip");
    assert_string_equal(header_of(&r, "Vary"), "Accept-Encoding");
    assert_true(r.len < 1000);
    /* Clients that leave meanwhile. */
    for (int i = 0; i < 50; i++) {
        int fd = dial(f.port);

        assert_int_equal(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL),
                         sizeof(request) - 1);
        close(fd);
    }
    ask(f.port, request, &r);
    assert_int_equal(r.len, 40001);
}

/* ---- binding ---- */

static void test_binding(void **state)
{
    struct http_options o = { .host = "0.0.0.0" };
    struct http_server *s = NULL;
    struct loop *loop;
    struct err e;
    char message[160];

    (void)state;
    assert_works(loop_create(&loop, &e), &e);
    assert_fails(
        http_server_create(loop, &o, &s, &e), &e, ERR_CONFIG,
        "'0.0.0.0' can be reached from other machines and there are no keys: set RIDDLE_API_KEYS, or "
        "RIDDLE_ALLOW_OPEN=1 to let everybody run code here");
    o.allow_open = true;
    assert_works(http_server_create(loop, &o, &s, &e), &e);
    http_server_destroy(s);
    o = (struct http_options){ .port = f.port };
    snprintf(message, sizeof(message),
             "port %d of 127.0.0.1 is in use by another program; choose one with --port or PORT",
             f.port);
    assert_fails(http_server_create(loop, &o, &s, &e), &e, ERR_IO, message);
    loop_destroy(loop);
}

/* ---- the end ---- */

static void set_flag(void *arg)
{
    *(bool *)arg = true;
}

static void on_event(uv_poll_t *h, int status, int events)
{
    (void)status, (void)events;
    uv_poll_stop(h);
    *(int *)h->data += 1;
}

/* Files that have the numbers of the daemon's descriptors are still watched when the server is destroyed. */
static void test_end_leaves_other_files_alone(void **state)
{
    enum { FILES = 12 };
    uv_poll_t polls[FILES];
    struct http_options o = { .host = "127.0.0.1" };
    struct http_server *s = NULL;
    struct loop *loop;
    struct err e;
    bool is_stopped = false;
    int fds[FILES], n_seen = 0;

    (void)state;
    assert_works(loop_create(&loop, &e), &e);
    assert_works(http_server_create(loop, &o, &s, &e), &e);
    assert_works(http_server_start(s, &e), &e);
    http_server_stop(s, 0, set_flag, &is_stopped);
    while (!is_stopped)
        uv_run(loop_uv(loop), UV_RUN_ONCE);
    for (int i = 0; i < FILES; i++) {
        fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(fds[i] >= 0);
        assert_int_equal(uv_poll_init(loop_uv(loop), &polls[i], fds[i]), 0);
        polls[i].data = &n_seen;
        assert_int_equal(uv_poll_start(&polls[i], UV_READABLE, on_event), 0);
    }
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    http_server_destroy(s);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(eventfd_write(fds[i], 1), 0);
    for (int i = 0; i < 3; i++)
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    assert_int_equal(n_seen, FILES);
    for (int i = 0; i < FILES; i++) {
        uv_close((uv_handle_t *)&polls[i], NULL);
        close(fds[i]);
    }
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),           cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_request_id),     cmocka_unit_test(test_keep_alive_and_pipelining),
        cmocka_unit_test(test_head),           cmocka_unit_test(test_options),
        cmocka_unit_test(test_unknown),        cmocka_unit_test(test_late_answers_leave_at_once),
        cmocka_unit_test(test_json_body),      cmocka_unit_test(test_json_depth),
        cmocka_unit_test(test_chunked_body),   cmocka_unit_test(test_optional_body),
        cmocka_unit_test(test_refused_bodies), cmocka_unit_test(test_endless_body),
        cmocka_unit_test(test_long_url),       cmocka_unit_test(test_long_headers),
        cmocka_unit_test(test_malformed),      cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_large_answers),
        cmocka_unit_test(test_binding),        cmocka_unit_test(test_end_leaves_other_files_alone),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
