/* Who may ask: hosts, origins, keys, rates. */

#include "base/check.h"
#include "base/str.h"
#include "net/guard.h"

static struct guard *make(struct guard_options o)
{
    struct guard *g;
    struct err e;

    assert_works(guard_create(&o, &g, &e), &e);
    return g;
}

static void test_hosts(void **state)
{
    struct guard *g = make((struct guard_options){ .allowed_hosts = "riddle.example , *.lan" });
    static const char *const good[] = { "localhost",      "localhost:8000",   "LOCALHOST.",
                                        "127.0.0.1:8000", "[::1]:8000",       "a.localhost",
                                        "192.168.0.7",    "riddle.example:1", "Riddle.Example",
                                        "x.lan",          "[fe80::1]" };
    static const char *const foreign[] = {
        "evil.example", "evil.example:8000", "localhost.evil.example", "riddle.example.evil",
        "xlan",         "notlocalhost",      "127.0.0.1.evil.example", "2130706433",
        "0x7f.1"
    };
    static const char *const malformed[] = {
        "a b",  "user@localhost", "localhost:", "localhost:80:80", "localhost:99999999",
        "[::1", "[::1]x",         ":80",        "localhost/x",     "localhost:8x"
    };
    char message[256];
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_works(guard_check_host(g, good[i], &e), &e);
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
        snprintf(
            message, sizeof(message),
            "host '%.*s' is not one of this server's names; add it to RIDDLE_ALLOWED_HOSTS if it is",
            (int)strcspn(foreign[i], ":"), foreign[i]);
        assert_fails(guard_check_host(g, foreign[i], &e), &e, ERR_FORBIDDEN, message);
    }
    for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
        if (str_eq(malformed[i], "localhost:")) /* an empty port is none */
            assert_works(guard_check_host(g, malformed[i], &e), &e);
        else
            assert_fails(guard_check_host(g, malformed[i], &e), &e, ERR_INVALID_INPUT,
                         "the Host header is malformed");
    }
    assert_fails(guard_check_host(g, NULL, &e), &e, ERR_INVALID_INPUT,
                 "the request has no Host header");
    assert_fails(
        guard_check_host(NULL, "evil.example", &e), &e, ERR_FORBIDDEN,
        "host 'evil.example' is not one of this server's names; add it to RIDDLE_ALLOWED_HOSTS if it is");
    guard_destroy(g);
    g = make((struct guard_options){ .allowed_hosts = "*" });
    assert_works(guard_check_host(g, "evil.example", &e), &e);
    guard_destroy(g);
}

static void test_origins(void **state)
{
    struct guard *g = make(
        (struct guard_options){ .cors_origins = "https://app.example,http://b:3000" });
    static const struct {
        const char *host, *origin, *site, *mode;
        bool navigable;
        const char *message;
    } cases[] = {
        { "localhost:8000", NULL, NULL, NULL, false, NULL },
        { "localhost:8000", "http://localhost:8000", "same-origin", "cors", false, NULL },
        { "riddle.example", "https://riddle.example", NULL, NULL, false, NULL },
        { "riddle.example:443", "https://riddle.example", NULL, NULL, false, NULL },
        { "localhost:8000", "https://app.example", "cross-site", "cors", false, NULL },
        { "localhost:8000", "http://b:3000", "cross-site", "cors", false, NULL },
        { "localhost:8000", "http://localhost:3000", NULL, NULL, false,
          "pages of 'http://localhost:3000' may not use this server; add the origin to CORS_ORIGINS if they may" },
        { "localhost:8000", "http://evil.example", NULL, NULL, false,
          "pages of 'http://evil.example' may not use this server; add the origin to CORS_ORIGINS if they may" },
        { "localhost:8000", "null", NULL, NULL, true,
          "pages of 'null' may not use this server; add the origin to CORS_ORIGINS if they may" },
        { "localhost:8000", "file://localhost:8000", NULL, NULL, false,
          "pages of 'file://localhost:8000' may not use this server; add the origin to CORS_ORIGINS if they may" },
        { "localhost:8000", NULL, "none", "navigate", false, NULL },
        { "localhost:8000", NULL, "same-origin", "no-cors", false, NULL },
        { "localhost:8000", NULL, "cross-site", "navigate", true, NULL },
        { "localhost:8000", NULL, "cross-site", "navigate", false,
          "pages of other sites may not use this server" },
        { "localhost:8000", NULL, "cross-site", "no-cors", true,
          "pages of other sites may not use this server" },
        { "localhost:8000", NULL, "same-site", "no-cors", false,
          "pages of other sites may not use this server" },
    };
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (cases[i].message)
            assert_fails(guard_check_origin(g, cases[i].host, cases[i].origin, cases[i].site,
                                            cases[i].mode, cases[i].navigable, &e),
                         &e, ERR_FORBIDDEN, cases[i].message);
        else
            assert_works(guard_check_origin(g, cases[i].host, cases[i].origin, cases[i].site,
                                            cases[i].mode, cases[i].navigable, &e),
                         &e);
    }
    assert_string_equal(guard_cors_origin(g, "https://app.example"), "https://app.example");
    assert_null(guard_cors_origin(g, "http://localhost:8000"));
    guard_destroy(g);
    g = make((struct guard_options){ .cors_origins = "*" });
    assert_string_equal(guard_cors_origin(g, "https://any.example"), "*");
    assert_works(
        guard_check_origin(g, "localhost", "https://any.example", "cross-site", "cors", false, &e),
        &e);
    guard_destroy(g);
}

static void test_keys(void **state)
{
    struct guard *g = make(
        (struct guard_options){ .api_keys = "ann:0123456789abcdef, bob:fedcba9876543210" });
    static const struct {
        const char *authorization, *x_api_key, *owner, *message;
    } cases[] = {
        { "Bearer 0123456789abcdef", NULL, "ann", NULL },
        { "bearer  fedcba9876543210", NULL, "bob", NULL },
        { NULL, "fedcba9876543210", "bob", NULL },
        { NULL, NULL, NULL, "a key is needed: 'Authorization: Bearer KEY'" },
        { "Bearer ", NULL, NULL, "a key is needed: 'Authorization: Bearer KEY'" },
        { "Basic 0123456789abcdef", NULL, NULL, "the Authorization header must be 'Bearer KEY'" },
        { "Bearer 0123456789abcdeF", NULL, NULL, "the key is not known" },
        { "Bearer 0123456789abcde", NULL, NULL, "the key is not known" },
        { "Bearer 0123456789abcdef0", NULL, NULL, "the key is not known" },
        { "Bearer wrong", "0123456789abcdef", NULL, "the key is not known" },
    };
    const char *owner;
    struct err e;

    (void)state;
    assert_true(guard_has_keys(g));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (cases[i].owner) {
            assert_works(guard_check_key(g, cases[i].authorization, cases[i].x_api_key, &owner, &e),
                         &e);
            assert_string_equal(owner, cases[i].owner);
        } else {
            assert_fails(guard_check_key(g, cases[i].authorization, cases[i].x_api_key, &owner, &e),
                         &e, ERR_UNAUTHORIZED, cases[i].message);
        }
    }
    guard_destroy(g);
    g = make((struct guard_options){ .api_keys = "" });
    assert_false(guard_has_keys(g));
    assert_works(guard_check_key(g, NULL, NULL, &owner, &e), &e);
    assert_string_equal(owner, "local");
    guard_destroy(g);
}

static void test_bad_settings(void **state)
{
    static const struct {
        struct guard_options o;
        const char *message;
    } cases[] = {
        { { .api_keys = "nokey" },
          "RIDDLE_API_KEYS: item 1 must be 'name:key' with a name of 1 to 64 letters, digits, '_', '-', '.' or '@'" },
        { { .api_keys = "a:0123456789abcdef,b c:0123456789abcdef" },
          "RIDDLE_API_KEYS: item 2 must be 'name:key' with a name of 1 to 64 letters, digits, '_', '-', '.' or '@'" },
        { { .api_keys = "ann:short" },
          "RIDDLE_API_KEYS: the key of 'ann' must have 16 to 512 characters" },
        { { .api_keys = "ann:0123456789 abcdef" },
          "RIDDLE_API_KEYS: the key of 'ann' must be printable ASCII without blanks" },
        { { .api_keys = "ann:0123456789abcdef,bob:0123456789abcdef" },
          "RIDDLE_API_KEYS: 'ann' and 'bob' have the same key" },
        { { .api_keys = "*" }, "RIDDLE_API_KEYS: '*' is no key" },
        { { .cors_origins = "app.example" },
          "CORS_ORIGINS: 'app.example' is no origin, such as https://app.example" },
        { { .cors_origins = "https://app.example/" },
          "CORS_ORIGINS: 'https://app.example/' is no origin, such as https://app.example" },
    };
    struct guard *g;
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_fails(guard_create(&cases[i].o, &g, &e), &e, ERR_CONFIG, cases[i].message);
}

/* The address that the last trusted proxy saw; what the client wrote before it does not count. */
static void test_client(void **state)
{
    static const struct {
        const char *peer, *forwarded, *client;
    } cases[] = {
        { "10.0.0.9", NULL, "10.0.0.9" },
        { "10.0.0.9", "1.2.3.4", "10.0.0.9" },
        { "127.0.0.1", NULL, "127.0.0.1" },
        { "127.0.0.1", "1.2.3.4", "1.2.3.4" },
        { "127.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4" },
        { "127.0.0.1", "6.6.6.6, 1.2.3.4 , 10.0.0.1", "1.2.3.4" },
        { "127.0.0.1", "10.0.0.1", "10.0.0.1" },
        { "127.0.0.1", "2001:db8::1", "2001:db8::1" },
        { "127.0.0.1", "nonsense", "127.0.0.1" },
        { "127.0.0.1", "", "127.0.0.1" },
        { "127.0.0.1", ",,", "127.0.0.1" },
    };
    struct guard *g = make((struct guard_options){ .trusted_proxies = "127.0.0.1, 10.0.0.1" });
    char got[GUARD_ADDRESS_SIZE];
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        guard_client(g, cases[i].peer, cases[i].forwarded, got);
        assert_string_equal(got, cases[i].client);
    }
    guard_destroy(g);
    assert_fails(guard_create(&(struct guard_options){ .trusted_proxies = "proxy" }, &g, &e), &e,
                 ERR_CONFIG, "TRUSTED_PROXIES: 'proxy' is no address");
}

static void test_rate(void **state)
{
    struct guard *g = make((struct guard_options){ .window_ms = 1500, .max_requests = 2 });
    unsigned retry = 0;
    struct err e;

    (void)state;
    assert_works(guard_check_rate(g, "ann", false, 10000, &retry, &e), &e);
    assert_works(guard_check_rate(g, "ann", false, 10100, &retry, &e), &e);
    assert_fails(guard_check_rate(g, "ann", false, 10200, &retry, &e), &e, ERR_RATE_LIMITED,
                 "Rate limit exceeded. Please wait and try again.");
    assert_int_equal(retry, 2);
    assert_works(guard_check_rate(g, "bob", false, 10200, &retry, &e), &e);
    assert_fails(guard_check_rate(g, "ann", false, 11499, &retry, &e), &e, ERR_RATE_LIMITED,
                 "Rate limit exceeded. Please wait and try again.");
    assert_works(guard_check_rate(g, "ann", false, 11500, &retry, &e), &e);
    guard_destroy(g);
    g = make((struct guard_options){ .window_ms = 1500, .max_chats = 1, .max_requests = 2 });
    assert_works(guard_check_rate(g, "ann", true, 10000, &retry, &e), &e);
    assert_works(guard_check_rate(g, "ann", false, 10000, &retry, &e), &e);
    assert_works(guard_check_rate(g, "ann", false, 10000, &retry, &e), &e);
    assert_int_equal(guard_check_rate(g, "ann", true, 10000, &retry, &e), -ERR_RATE_LIMITED);
    assert_int_equal(guard_check_rate(g, "ann", false, 10000, &retry, &e), -ERR_RATE_LIMITED);
    guard_destroy(g);
    g = make((struct guard_options){ .max_requests = 0 });
    for (int i = 0; i < 1000; i++)
        assert_works(guard_check_rate(g, "ann", false, 1, &retry, &e), &e);
    guard_destroy(g);
}

/*
 * More callers than the table holds: none is refused for another's requests while there is room in
 * its slots.
 */
static void test_many_callers(void **state)
{
    struct guard *g = make((struct guard_options){ .window_ms = 1000, .max_requests = 1000000 });
    unsigned retry;
    struct err e;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char who[32];

        snprintf(who, sizeof(who), "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        assert_works(guard_check_rate(g, who, false, 5, &retry, &e), &e);
    }
    guard_destroy(g);
}

static void test_loopback(void **state)
{
    (void)state;
    assert_true(guard_is_loopback("127.0.0.1"));
    assert_true(guard_is_loopback("127.8.9.1"));
    assert_true(guard_is_loopback("::1"));
    assert_true(guard_is_loopback("localhost"));
    assert_false(guard_is_loopback("0.0.0.0"));
    assert_false(guard_is_loopback("::"));
    assert_false(guard_is_loopback("10.0.0.1"));
    assert_false(guard_is_loopback("example.org"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_rate),         cmocka_unit_test(test_client),
        cmocka_unit_test(test_many_callers), cmocka_unit_test(test_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
