/* A server thread and a raw client: see client.h. */

#include "client.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- the server's side ---- */

static void on_wake(uv_async_t *wake)
{
    struct fixture *f = wake->data;
    void (*fn)(void *arg) = TAKE_PTR(f->call);

    if (fn) {
        fn(f->call_arg);
        sem_post(&f->called);
    }
}

static void *serve(void *arg)
{
    struct fixture *f = arg;

    loop_run(f->loop);
    return NULL;
}

void fixture_start(struct fixture *f, const struct route *routes, size_t n)
{
    struct err e;

    assert_works(loop_create(&f->loop, &e), &e);
    assert_works(http_server_create(f->loop, &f->options, &f->server, &e), &e);
    assert_works(http_server_add_routes(f->server, routes, n, &e), &e);
    assert_works(http_server_start(f->server, &e), &e);
    f->port = http_server_port(f->server);
    assert_int_equal(uv_async_init(loop_uv(f->loop), &f->wake, on_wake), 0);
    f->wake.data = f;
    sem_init(&f->called, 0, 0);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void in_loop(struct fixture *f, void (*fn)(void *arg), void *arg)
{
    f->call_arg = arg;
    f->call = fn;
    uv_async_send(&f->wake);
    await(&f->called);
}

static void quit(void *arg)
{
    struct fixture *f = arg;

    loop_quit(f->loop);
}

void fixture_stop(struct fixture *f)
{
    in_loop(f, quit, f);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    http_server_destroy(f->server);
    loop_destroy(f->loop);
    sem_destroy(&f->called);
}

void await(sem_t *event)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    while (sem_timedwait(event, &until) < 0) {
        if (errno != EINTR)
            fail_msg("an event did not come in time");
    }
}

/* ---- the client's side ---- */

int dial(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

void put_bytes(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n < 0)
            return; /* the server may hang up early; what it answered is what counts */
        p += n;
        len -= (size_t)n;
    }
}

void put(int fd, const char *text)
{
    put_bytes(fd, text, strlen(text));
}

/* Bytes read, 0 at the end (or a reset). Fails the test when nothing comes. */
static size_t some(int fd, char *data, size_t len)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    ssize_t n;

    if (poll(&p, 1, PATIENCE_MS) == 0)
        fail_msg("the server sent nothing in time");
    n = recv(fd, data, len, 0);
    return n > 0 ? (size_t)n : 0;
}

void take_head_only(int fd, struct reply *ret)
{
    size_t n = 0;

    memset(ret, 0, sizeof(*ret));
    while (n < sizeof(ret->head) - 1 && (n < 4 || memcmp(ret->head + n - 4, "\r\n\r\n", 4) != 0)) {
        if (some(fd, ret->head + n, 1) == 0)
            fail_msg("the connection closed within headers: '%s'", ret->head);
        n++;
    }
    assert_int_equal(sscanf(ret->head, "HTTP/1.1 %d", &ret->status), 1);
}

const char *header_of(const struct reply *r, const char *name)
{
    static char value[2048];
    size_t n = strlen(name);

    for (const char *line = strstr(r->head, "\r\n"); line && line[2] != '\r';
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, n) != 0 || line[2 + n] != ':')
            continue;
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + 2 + n + 2, "\r"),
                 line + 2 + n + 2);
        return value;
    }
    return NULL;
}

static void take_bytes(int fd, struct reply *ret, size_t want)
{
    assert_true(ret->len + want < sizeof(ret->body));
    while (want > 0) {
        size_t n = some(fd, ret->body + ret->len, want);

        if (n == 0)
            fail_msg("the connection closed within a body");
        ret->len += n;
        want -= n;
    }
}

static void take_chunks(int fd, struct reply *ret)
{
    for (;;) {
        char line[32];
        size_t n = 0, size;
        char end[2];

        do {
            assert_true(n < sizeof(line) - 1);
            assert_int_equal(some(fd, line + n, 1), 1);
        } while (line[n++] != '\n');
        size = strtoul(line, NULL, 16);
        take_bytes(fd, ret, size);
        assert_int_equal(some(fd, end, 1), 1);
        assert_int_equal(some(fd, end + 1, 1), 1);
        assert_memory_equal(end, "\r\n", 2);
        if (size == 0)
            return;
    }
}

void take(int fd, struct reply *ret)
{
    const char *length;

    take_head_only(fd, ret);
    length = header_of(ret, "Content-Length");
    if (length) {
        take_bytes(fd, ret, strtoul(length, NULL, 10));
    } else if (header_of(ret, "Transfer-Encoding")) {
        take_chunks(fd, ret);
    } else if (ret->status != 204 && ret->status != 304) {
        size_t n;

        while ((n = some(fd, ret->body + ret->len, sizeof(ret->body) - 1 - ret->len)) > 0)
            ret->len += n;
    }
    ret->body[ret->len] = '\0';
}

void take_until(int fd, const char *text, char *ret)
{
    size_t n = 0;

    ret[0] = '\0';
    while (!strstr(ret, text)) {
        size_t more = some(fd, ret + n, 65535 - n);

        if (more == 0)
            fail_msg("the connection closed before '%s'; there was: %s", text, ret);
        n += more;
        ret[n] = '\0';
    }
}

void expect_closed(int fd)
{
    char c;

    assert_int_equal(some(fd, &c, 1), 0);
    close(fd);
}

void ask(int port, const char *request, struct reply *ret)
{
    int fd = dial(port);

    put(fd, request);
    take(fd, ret);
    close(fd);
}

void expect_error(const struct reply *r, int status, const char *type, const char *message)
{
    auto_json json_t *j = NULL;
    const char *got_type, *got_message;
    json_t *detail;
    struct err e;

    assert_works(json_parse(r->body, r->len, &j, &e), &e);
    assert_int_equal(json_unpack(j, "{s:{s:s, s:s}, s:o}", "error", "type", &got_type, "message",
                                 &got_message, "detail", &detail),
                     0);
    assert_string_equal(got_message, message);
    assert_string_equal(got_type, type);
    if (status == 422)
        detail = json_object_get(json_array_get(detail, 0), "msg");
    assert_string_equal(json_string_value(detail), message);
    assert_int_equal(r->status, status);
}
