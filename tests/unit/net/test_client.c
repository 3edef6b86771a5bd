/*
 * The HTTP client: what a user may do from within its callbacks, and its limits. What servers do to
 * it is tested through models (tests/integration/test_llm.py, tests/unit/llm/test_llm_fuzzed.c).
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/buf.h"
#include "base/str.h"
#include "net/client.h"

/* A server that gives every connection the same answer and then waits for its end. */
struct server {
    int listener, port;
    pthread_t thread;
    const char *answer;
};

static void *run_server(void *arg)
{
    struct server *s = arg;
    int fd;

    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        char request[4096];
        size_t len = 0;
        ssize_t n;

        while ((n = recv(fd, request + len, sizeof(request) - 1 - len, 0)) > 0) {
            len += (size_t)n;
            request[len] = '\0';
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        (void)!send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, request, sizeof(request), 0) > 0)
            ;
        close(fd);
    }
    return NULL;
}

static void start_server(struct server *s, const char *answer)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);

    s->answer = answer;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(s->listener, 16), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, run_server, s), 0);
}

static void stop_server(struct server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

#define ANSWER                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Type: Text/Plain; charset=x\r\nRetry-After: 1.5\r\nConnection: close\r\n\r\nhello"

enum deed { NOTHING, CANCEL, DESTROY, START, START_AND_CANCEL, FAIL, ENOUGH };

struct asked {
    struct client *client;
    struct client_request *request;
    char url[64];
    enum deed in_body, in_done;
    unsigned bodies, dones;
    struct buf body;
    struct client_response resp;
    struct err err;
    struct asked *other; /* what START starts */
    uint64_t max_body_bytes;
    int64_t timeout_ms;
};

static void begin(struct asked *a);

static void act(struct asked *a, enum deed deed)
{
    switch (deed) {
    case CANCEL:
        client_cancel(a->request);
        break;
    case DESTROY:
        client_destroy(a->client);
        break;
    case START:
        begin(a->other);
        break;
    case START_AND_CANCEL:
        begin(a->other);
        client_cancel(a->other->request);
        break;
    case NOTHING:
    case FAIL:
    case ENOUGH:
        break;
    }
}

static int on_body(void *arg, const struct client_response *resp, const char *data, size_t len,
                   struct err *err)
{
    struct asked *a = arg;

    assert_int_equal(resp->status, 200);
    assert_int_equal(buf_append(&a->body, data, len, NULL), 0);
    a->bodies++;
    act(a, a->in_body);
    return a->in_body == FAIL ? err_set(err, ERR_CONFLICT, "not like this") : a->in_body == ENOUGH;
}

static void on_done(void *arg, const struct client_response *resp, const struct err *err)
{
    struct asked *a = arg;

    a->dones++;
    a->resp = *resp;
    if (err)
        a->err = *err;
    act(a, a->in_done);
}

static void begin(struct asked *a)
{
    static const struct client_header header = { "X-Test", "1" };
    struct client_options o = { .method = "GET",
                                .url = a->url,
                                .headers = &header,
                                .n_headers = 1,
                                .timeout_ms = a->timeout_ms ? a->timeout_ms : 10000,
                                .max_body_bytes = a->max_body_bytes ? a->max_body_bytes : 1000 };
    struct client_events events = { .body = on_body, .done = on_done, .arg = a };
    struct err err = ERR_INIT;

    assert_works(client_start(a->client, &o, &events, &a->request, &err), &err);
    assert_int_equal(a->dones, 0);
}

/* Two askers and what became of them: the first does its deeds, the second is plain. */
static void ask(const char *answer, struct asked a[2], enum deed in_body, enum deed in_done)
{
    struct server server;
    struct client *client;
    struct err err = ERR_INIT;
    uv_loop_t loop;
    bool destroys = in_body == DESTROY || in_done == DESTROY;

    start_server(&server, answer);
    uv_loop_init(&loop);
    assert_works(client_create(&loop, NULL, &client, &err), &err);
    for (int i = 0; i < 2; i++) {
        a[i].client = client;
        a[i].body = (struct buf)BUF_INIT(1000);
        a[i].err = (struct err)ERR_INIT;
        snprintf(a[i].url, sizeof(a[i].url), "http://127.0.0.1:%d/", server.port);
    }
    a[0].other = &a[1];
    a[0].in_body = in_body;
    a[0].in_done = in_done;
    begin(&a[0]);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!destroys)
        client_destroy(client);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    stop_server(&server);
}

static void forget(struct asked a[2])
{
    buf_finish(&a[0].body);
    buf_finish(&a[1].body);
}

static void test_plain(void **state)
{
    struct asked a[2] = { 0 };

    (void)state;
    ask(ANSWER, a, NOTHING, NOTHING);
    assert_int_equal(a[0].dones, 1);
    assert_int_equal(a[0].err.code, ERR_NONE);
    assert_string_equal(buf_cstr(&a[0].body), "hello");
    assert_string_equal(a[0].resp.content_type, "text/plain");
    assert_int_equal(a[0].resp.retry_after_ms, 1500);
    forget(a);
}

static void test_deeds(void **state)
{
    static const struct {
        enum deed in_body, in_done;
        unsigned dones[2];
        enum err_code code;
    } cases[] = {
        { CANCEL, NOTHING, { 0, 0 }, ERR_NONE },
        { DESTROY, NOTHING, { 0, 0 }, ERR_NONE },
        { NOTHING, DESTROY, { 1, 0 }, ERR_NONE },
        { START, NOTHING, { 1, 1 }, ERR_NONE },
        { NOTHING, START, { 1, 1 }, ERR_NONE },
        { START_AND_CANCEL, NOTHING, { 1, 0 }, ERR_NONE },
        { NOTHING, START_AND_CANCEL, { 1, 0 }, ERR_NONE },
        { START, DESTROY, { 1, 0 }, ERR_NONE },
        { FAIL, NOTHING, { 1, 0 }, ERR_CONFLICT },
        { FAIL, START, { 1, 1 }, ERR_CONFLICT },
        { ENOUGH, NOTHING, { 1, 0 }, ERR_NONE },
        { ENOUGH, START, { 1, 1 }, ERR_NONE },
        { ENOUGH, DESTROY, { 1, 0 }, ERR_NONE },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct asked a[2] = { 0 };

        ask(ANSWER, a, cases[i].in_body, cases[i].in_done);
        assert_int_equal(a[0].bodies, 1);
        assert_int_equal(a[0].dones, cases[i].dones[0]);
        assert_int_equal(a[1].dones, cases[i].dones[1]);
        assert_int_equal(a[0].err.code, cases[i].code);
        if (a[1].dones > 0)
            assert_string_equal(buf_cstr(&a[1].body), "hello");
        forget(a);
    }
}

static void test_limits(void **state)
{
    struct asked a[2] = { { .max_body_bytes = 4 } };
    char want[200];

    (void)state;
    ask(ANSWER, a, NOTHING, NOTHING);
    assert_int_equal(a[0].bodies, 0);
    assert_int_equal(a[0].err.code, ERR_TOO_LARGE);
    snprintf(want, sizeof(want), "the answer of %.*s is larger than its limit: 4 bytes of body",
             (int)strlen(a[0].url) - 1, a[0].url);
    assert_string_equal(a[0].err.message, want);
    forget(a);
}

static void test_nothing(void **state)
{
    struct asked a[2] = { { .timeout_ms = 200 } };

    (void)state;
    ask("", a, NOTHING, NOTHING);
    assert_int_equal(a[0].dones, 1);
    assert_int_equal(a[0].err.code, ERR_UNAVAILABLE);
    assert_true(str_ends(a[0].err.message, " closed the connection without an answer"));
    forget(a);
}

static void test_cut(void **state)
{
    struct asked a[2] = { 0 };

    (void)state;
    ask("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhell", a, NOTHING, NOTHING);
    assert_int_equal(a[0].err.code, ERR_UNAVAILABLE);
    assert_string_equal(buf_cstr(&a[0].body), "hell");
    assert_non_null(strstr(a[0].err.message, " broke: "));
    forget(a);
}

static void test_refused(void **state)
{
    static const struct client_header split = { "X-Test", "a\r\nX-Other: b" };
    struct client *client;
    struct client_options o = {
        .method = "GET", .url = "http://127.0.0.1:1/", .headers = &split, .n_headers = 1
    };
    struct client_events events = { .done = on_done };
    struct err err = ERR_INIT;
    uv_loop_t loop;

    (void)state;
    uv_loop_init(&loop);
    assert_works(client_create(&loop, NULL, &client, &err), &err);
    assert_fails(client_start(client, &o, &events, NULL, &err), &err, ERR_INVALID_INPUT,
                 "the header 'X-Test' has a line break in its value");
    o.n_headers = 0;
    o.url = "file:///etc/passwd";
    assert_fails(client_start(client, &o, &events, NULL, &err), &err, ERR_INVALID_INPUT,
                 "not an http or https URL");
    client_destroy(client);
    client_destroy(NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_deeds),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_cut),    cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
