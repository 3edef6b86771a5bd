/* Keys, hosts, origins, rates and CORS as a client meets them. */

#include "client.h"

#include "base/log.h"
#include "net/guard.h"

static struct fixture f;
static struct guard *guard;

static void get_owner(struct http_request *req)
{
    http_reply_json(req, 200, json_pack("{s:s}", "owner", http_owner(req)));
}

static const struct schema body = { .name = "B" };
static const struct route routes[] = {
    { HTTP_GET, "/owner", get_owner, .id = "owner" },
    { HTTP_POST, "/owner", get_owner, .id = "change", .body = &body },
    { HTTP_GET, "/public", get_owner, .id = "public", .flags = ROUTE_PUBLIC | ROUTE_NO_RATE_LIMIT },
    { HTTP_GET, "/page", get_owner, .flags = ROUTE_HIDDEN | ROUTE_PUBLIC | ROUTE_NAVIGABLE },
};

static void start(struct guard_options o)
{
    struct err e;

    log_setup(LOG_ERROR, LOG_FORMAT_KV);
    memset(&f, 0, sizeof(f));
    assert_works(guard_create(&o, &guard, &e), &e);
    f.options.guard = guard;
    fixture_start(&f, routes, ARRAY_SIZE(routes));
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    guard_destroy(guard);
    return 0;
}

#define HOST "Host: localhost\r\n"
#define ANN "Authorization: Bearer 0123456789abcdef\r\n"

static void test_keys(void **state)
{
    struct reply r;

    (void)state;
    start((struct guard_options){ .api_keys = "ann:0123456789abcdef" });
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST ANN "\r\n", &r);
    assert_string_equal(r.body, "{\"owner\":\"ann\"}");
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST "\r\n", &r);
    expect_error(&r, 401, "UNAUTHORIZED", "a key is needed: 'Authorization: Bearer KEY'");
    assert_string_equal(header_of(&r, "WWW-Authenticate"), "Bearer realm=\"riddle\"");
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST "Authorization: Bearer 0123456789abcdeg\r\n\r\n",
        &r);
    expect_error(&r, 401, "UNAUTHORIZED", "the key is not known");
    ask(f.port, "GET /public HTTP/1.1\r\n" HOST "\r\n", &r);
    assert_string_equal(r.body, "{\"owner\":\"-\"}");
    ask(f.port, "GET /public HTTP/1.1\r\n" HOST ANN "\r\n", &r);
    assert_string_equal(r.body, "{\"owner\":\"ann\"}");
    /* Without a key nothing of the body is read or judged. */
    ask(f.port, "POST /owner HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n}}}", &r);
    expect_error(&r, 401, "UNAUTHORIZED", "a key is needed: 'Authorization: Bearer KEY'");
}

/*
 * A page of evil.example whose name was made to point at 127.0.0.1: the browser sends the request,
 * with that name.
 */
static void test_dns_rebinding(void **state)
{
    struct reply r;

    (void)state;
    start((struct guard_options){ .allowed_hosts = "riddle.lan" });
    ask(f.port,
        "GET /owner HTTP/1.1\r\nHost: evil.example:8000\r\nOrigin: http://evil.example:8000\r\n\r\n",
        &r);
    expect_error(
        &r, 403, "FORBIDDEN",
        "host 'evil.example' is not one of this server's names; add it to RIDDLE_ALLOWED_HOSTS if it is");
    ask(f.port, "GET /public HTTP/1.1\r\nHost: evil.example\r\n\r\n", &r);
    assert_int_equal(r.status, 403);
    ask(f.port, "GET /owner HTTP/1.1\r\nHost: riddle.lan\r\n\r\n", &r);
    assert_int_equal(r.status, 200);
}

static void test_cross_site(void **state)
{
    struct reply r;

    (void)state;
    start((struct guard_options){ .api_keys = NULL });
    ask(f.port,
        "POST /owner HTTP/1.1\r\n" HOST
        "Origin: http://evil.example\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
        &r);
    expect_error(
        &r, 403, "FORBIDDEN",
        "pages of 'http://evil.example' may not use this server; add the origin to CORS_ORIGINS if they may");
    assert_null(header_of(&r, "Access-Control-Allow-Origin"));
    ask(f.port,
        "GET /owner HTTP/1.1\r\n" HOST
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n",
        &r);
    expect_error(&r, 403, "FORBIDDEN", "pages of other sites may not use this server");
    ask(f.port,
        "GET /page HTTP/1.1\r\n" HOST
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n",
        &r);
    assert_int_equal(r.status, 200);
    ask(f.port,
        "OPTIONS /owner HTTP/1.1\r\n" HOST
        "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n",
        &r);
    assert_int_equal(r.status, 403);
}

static void test_cors(void **state)
{
    struct reply r;

    (void)state;
    start((struct guard_options){ .cors_origins = "https://app.example",
                                  .api_keys = "ann:0123456789abcdef" });
    ask(f.port,
        "OPTIONS /owner HTTP/1.1\r\n" HOST
        "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
        "Access-Control-Request-Headers: authorization,content-type\r\n\r\n",
        &r);
    assert_int_equal(r.status, 204);
    assert_string_equal(header_of(&r, "Access-Control-Allow-Origin"), "https://app.example");
    assert_string_equal(header_of(&r, "Access-Control-Allow-Methods"), "GET, HEAD, POST, OPTIONS");
    assert_string_equal(header_of(&r, "Access-Control-Allow-Headers"),
                        "authorization,content-type");
    assert_string_equal(header_of(&r, "Vary"), "Origin");
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST ANN "Origin: https://app.example\r\n\r\n", &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(header_of(&r, "Access-Control-Allow-Origin"), "https://app.example");
    /* An error must be readable for the page as well. */
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n", &r);
    assert_int_equal(r.status, 401);
    assert_string_equal(header_of(&r, "Access-Control-Allow-Origin"), "https://app.example");
}

static void test_rate(void **state)
{
    struct reply r;

    (void)state;
    start((struct guard_options){ .window_ms = 3600000,
                                  .max_chats = 2,
                                  .max_requests = 2,
                                  .api_keys = "ann:0123456789abcdef" });
    for (int i = 0; i < 2; i++) {
        ask(f.port, "GET /owner HTTP/1.1\r\n" HOST ANN "\r\n", &r);
        assert_int_equal(r.status, 200);
    }
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST ANN "\r\n", &r);
    expect_error(&r, 429, "RATE_LIMITED", "Rate limit exceeded. Please wait and try again.");
    assert_string_equal(header_of(&r, "Retry-After"), "3600");
    ask(f.port, "GET /public HTTP/1.1\r\n" HOST ANN "\r\n", &r);
    assert_int_equal(r.status, 200);
    /* Guessing keys is counted by address. */
    for (int i = 0; i < 2; i++) {
        ask(f.port, "GET /owner HTTP/1.1\r\n" HOST "Authorization: Bearer guess\r\n\r\n", &r);
        assert_int_equal(r.status, 401);
    }
    ask(f.port, "GET /owner HTTP/1.1\r\n" HOST "Authorization: Bearer guess\r\n\r\n", &r);
    assert_int_equal(r.status, 429);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_keys, teardown),
        cmocka_unit_test_teardown(test_dns_rebinding, teardown),
        cmocka_unit_test_teardown(test_cross_site, teardown),
        cmocka_unit_test_teardown(test_cors, teardown),
        cmocka_unit_test_teardown(test_rate, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
