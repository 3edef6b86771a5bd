/*
 * What takes its time: deferred answers, clients that go, event streams, generated and uploaded
 * bodies, slow clients, stopping.
 */

#include "client.h"

#include <unistd.h>
#include "base/log.h"
#include "net/multipart.h"
#include "net/sse.h"

static struct fixture f;
static struct metrics *metrics;

/* What handlers tell the test. The semaphores order the rest. */
static sem_t started, closed, destroyed;
static struct http_request *waiting;
static struct sse *stream;
static bool whole;

/* ---- routes ---- */

static void on_close(void *arg)
{
    assert_string_equal(arg, "deferred");
    waiting = NULL;
    sem_post(&closed);
}

static void get_wait(struct http_request *req)
{
    waiting = req;
    http_defer(req, on_close, (void *)"deferred");
    sem_post(&started);
}

static void get_at_once(struct http_request *req)
{
    http_defer(req, on_close, (void *)"deferred");
    http_reply_json(req, 200, json_pack("{s:b}", "now", 1));
}

static void in_worker(void *arg)
{
    (void)arg;
}

static void worker_done(void *arg)
{
    http_reply_json(arg, 200, json_pack("{s:b}", "worked", 1));
}

/* No on_close: the answer comes in any case. */
static void get_work(struct http_request *req)
{
    http_defer(req, NULL, NULL);
    assert_int_equal(loop_work(http_request_loop(req), in_worker, worker_done, req, NULL), 0);
}

static void stream_closed(void *arg)
{
    assert_string_equal(arg, "stream");
    stream = NULL;
    sem_post(&closed);
}

static void get_events(struct http_request *req)
{
    stream = http_reply_sse(req);
    sse_on_close(stream, stream_closed, (void *)"stream");
    sem_post(&started);
}

/* A body of `left` bytes in pieces of 1000, with a pause after each. */
static size_t left;
static struct http_stream *body_stream;

static ssize_t read_piece(void *arg, char *out, size_t max)
{
    static bool pause;
    size_t n = MIN_OF(MIN_OF(max, left), (size_t)1000);

    assert_string_equal(arg, "generator");
    if (left == 0)
        return HTTP_STREAM_END;
    pause = !pause;
    if (pause) {
        sem_post(&started);
        return HTTP_STREAM_WAIT;
    }
    memset(out, 'x', n);
    left -= n;
    return (ssize_t)n;
}

static void piece_closed(void *arg, bool is_whole)
{
    (void)arg;
    whole = is_whole;
    sem_post(&closed);
}

static const struct http_source pieces = { .read = read_piece, .close = piece_closed };

static void get_pieces(struct http_request *req)
{
    left = 2500;
    body_stream = http_reply_stream(req, 200, "text/plain", http_query(req, "sized") ? 2500 : -1,
                                    &pieces, (void *)"generator");
}

static void piece_ready(void *arg)
{
    (void)arg;
    http_stream_ready(body_stream);
}

/* An upload that takes at most 10 bytes at a time and pauses after each. */
struct upload {
    char text[200];
    size_t len;
};
static struct http_request *uploading;

static void destroy_upload(void *data)
{
    free(data);
    sem_post(&destroyed);
}

static int upload_begins(struct http_request *req, struct err *err)
{
    if (http_header(req, "X-Refuse"))
        return err_set(err, ERR_CONFLICT, "refused by its headers");
    http_set_data(req, calloc(1, sizeof(struct upload)), destroy_upload);
    uploading = req;
    return 0;
}

static ssize_t upload_data(struct http_request *req, const char *data, size_t len, struct err *err)
{
    struct upload *u = http_get_data(req);
    size_t n = MIN_OF(len, (size_t)10);

    if (memchr(data, '!', len))
        return err_set(err, ERR_VALIDATION, "no exclamations");
    memcpy(u->text + u->len, data, n);
    u->len += n;
    if (n < len)
        sem_post(&started);
    return (ssize_t)n;
}

static void go_on(void *arg)
{
    (void)arg;
    http_body_resume(uploading);
}

static void post_upload(struct http_request *req)
{
    struct upload *u = http_get_data(req);

    http_reply_text(req, 200, "text/plain", u->text);
}

static const struct route routes[] = {
    { HTTP_GET, "/wait", get_wait, .id = "wait" },
    { HTTP_GET, "/at-once", get_at_once, .id = "atOnce" },
    { HTTP_GET, "/work", get_work, .id = "work" },
    { HTTP_GET, "/events", get_events, .id = "events" },
    { HTTP_GET, "/pieces", get_pieces, .id = "pieces" },
    { HTTP_POST, "/upload", post_upload, .id = "upload", .consumes = "text/plain",
      .max_body_bytes = 100, .on_headers = upload_begins, .on_body = upload_data },
};

static int setup(void **state)
{
    (void)state;
    log_setup(LOG_ERROR, LOG_FORMAT_KV);
    sem_init(&started, 0, 0);
    sem_init(&closed, 0, 0);
    sem_init(&destroyed, 0, 0);
    memset(&f, 0, sizeof(f));
    metrics = metrics_create();
    f.options.metrics = metrics;
    f.options.heartbeat_ms = 200;
    f.options.idle_timeout_ms = 300;
    f.options.body_timeout_ms = 400;
    fixture_start(&f, routes, ARRAY_SIZE(routes));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    metrics_destroy(metrics);
    return 0;
}

#define HOST "Host: localhost\r\n"

/* ---- deferred answers ---- */

static void answer_waiting(void *arg)
{
    (void)arg;
    http_reply_json(waiting, 200, json_pack("{s:b}", "late", 1));
    waiting = NULL;
}

static void test_deferred(void **state)
{
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    /* What is pipelined behind it waits. */
    put(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\nGET /at-once HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    in_loop(&f, answer_waiting, NULL);
    take(fd, &r);
    assert_string_equal(r.body, "{\"late\":true}");
    take(fd, &r);
    assert_string_equal(r.body, "{\"now\":true}");
    put(fd, "GET /work HTTP/1.1\r\n" HOST "\r\n");
    take(fd, &r);
    assert_string_equal(r.body, "{\"worked\":true}");
    close(fd);
}

static void test_client_goes(void **state)
{
    int fd = dial(f.port);

    (void)state;
    put(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    close(fd);
    await(&closed);
    assert_null(waiting);
}

static void test_client_goes_while_another_waits(void **state)
{
    int a = dial(f.port), b = dial(f.port);
    struct reply r;

    (void)state;
    put(a, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    put(b, "GET /events HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    close(b);
    await(&closed);
    assert_null(stream);
    in_loop(&f, answer_waiting, NULL);
    take(a, &r);
    assert_int_equal(r.status, 200);
    close(a);
}

/* ---- event streams ---- */

static void send_two(void *arg)
{
    (void)arg;
    assert_int_equal(sse_send(stream, "token", json_pack("{s:s}", "text", "a\nb"), NULL), 0);
    assert_int_equal(sse_send(stream, "done", json_object(), NULL), 0);
}

static void end_stream(void *arg)
{
    (void)arg;
    sse_end(stream);
    stream = NULL;
}

static void test_events(void **state)
{
    static char text[65536];
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    put(fd, "GET /events HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    take_head_only(fd, &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(header_of(&r, "Content-Type"), "text/event-stream; charset=utf-8");
    assert_string_equal(header_of(&r, "Cache-Control"), "no-cache, no-transform");
    in_loop(&f, send_two, NULL);
    take_until(fd, "event: done\ndata: {\"type\":\"done\"}\n\n", text);
    assert_non_null(
        strstr(text, "event: token\ndata: {\"type\":\"token\",\"text\":\"a\\nb\"}\n\n"));
    /* Nothing is sent: the next that comes is a heartbeat. */
    take_until(fd, ": heartbeat\n\n", text);
    in_loop(&f, end_stream, NULL);
    take_until(fd, "0\r\n\r\n", text);
    /* The connection goes on. */
    put(fd, "GET /at-once HTTP/1.1\r\n" HOST "\r\n");
    take(fd, &r);
    assert_int_equal(r.status, 200);
    close(fd);
    assert_int_equal(sem_trywait(&closed), -1);
}

static void send_much(void *arg)
{
    auto_free char *text = malloc(100001);
    int *result = arg;

    memset(text, 'e', 100000);
    text[100000] = '\0';
    *result = 0;
    for (int i = 0; i < 200 && *result == 0; i++) {
        if (sse_is_full(stream))
            return;
        *result = sse_send(stream, "token", json_pack("{s:s}", "text", text), NULL);
    }
}

static void send_too_much(void *arg)
{
    auto_free char *text = malloc(500001);
    struct err *e = arg;

    memset(text, 'e', 500000);
    text[500000] = '\0';
    for (int i = 0; i < 200; i++) {
        if (sse_send(stream, "token", json_pack("{s:s}", "text", text), e) < 0)
            return;
    }
}

static void ask_full(void *arg)
{
    *(bool *)arg = sse_is_full(stream);
}

/* What the stream sends until its end, without the chunks' frames. */
static void take_events(int fd, struct buf *ret)
{
    auto_buf struct buf raw = BUF_INIT(256u << 20);
    static char some[1 << 20];
    struct err e;

    while (raw.len < 5 || memcmp(raw.data + raw.len - 5, "0\r\n\r\n", 5) != 0) {
        ssize_t n = recv(fd, some, sizeof(some), 0);

        assert_true(n > 0);
        assert_works(buf_append(&raw, some, (size_t)n, &e), &e);
    }
    for (const char *at = raw.data;;) {
        char *data;
        size_t len = strtoul(at, &data, 16);

        if (len == 0)
            return;
        assert_works(buf_append(ret, data + 2, len, &e), &e);
        at = data + 2 + len + 2;
    }
}

static void open_events(int fd)
{
    struct reply r;

    put(fd, "GET /events HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    take_head_only(fd, &r);
    assert_int_equal(r.status, 200);
}

static void test_back_pressure(void **state)
{
    static char buffer[65536];
    int fd = dial(f.port), result;
    bool full = true;

    (void)state;
    open_events(fd);
    in_loop(&f, send_much, &result);
    assert_int_equal(result, 0); /* it stopped because the queue was full, not because it failed */
    /* Reading drains it. */
    while (full) {
        assert_true(recv(fd, buffer, sizeof(buffer), 0) > 0);
        in_loop(&f, ask_full, &full);
    }
    close(fd);
    await(&closed);
}

#define LARGE_EVENT (5u << 20)

static void send_large(void *arg)
{
    auto_free char *text = malloc(LARGE_EVENT + 1);

    (void)arg;
    memset(text, 'e', LARGE_EVENT);
    text[LARGE_EVENT] = '\0';
    assert_int_equal(sse_send(stream, "image", json_pack("{s:s}", "png", text), NULL), 0);
    assert_int_equal(sse_send(stream, "done", NULL, NULL), 0);
    end_stream(NULL);
}

static void test_large_event_arrives_whole(void **state)
{
    auto_buf struct buf all = BUF_INIT(16u << 20);
    int fd = dial(f.port);
    const char *png;

    (void)state;
    open_events(fd);
    in_loop(&f, send_large, NULL);
    take_events(fd, &all);
    png = strstr(all.data, "\"png\":\"");
    assert_non_null(png);
    assert_int_equal(strspn(png + 7, "e"), LARGE_EVENT);
    assert_string_equal(png + 7 + LARGE_EVENT, "\"}\n\nevent: done\ndata: {\"type\":\"done\"}\n\n");
    close(fd);
}

#define BITS 100000

/* Small bits of text for a client that reads nothing meanwhile, on two streams in turns. */
static void send_bits(void *arg)
{
    int result;

    (void)arg;
    send_much(&result);
    assert_true(sse_is_full(stream));
    for (int i = 0; i < BITS; i++) {
        json_t *bit = json_pack("{s:s, s:s}", "stream", i < BITS / 2 ? "stdout" : "stderr", "text",
                                "b");

        assert_int_equal(sse_send_text(stream, "step", bit, "text", NULL, NULL), 0);
    }
    assert_int_equal(sse_send_text(stream, "token",
                                   json_pack("{s:s, s:s}", "text", "é", "content", "é"), "text",
                                   "content", NULL),
                     0);
    assert_int_equal(sse_send(stream, "done", NULL, NULL), 0);
    end_stream(NULL);
}

static void test_bits_of_a_slow_client_are_put_together(void **state)
{
    auto_buf struct buf all = BUF_INIT(64u << 20);
    int fd = dial(f.port);
    size_t bits = 0, events = 0;

    (void)state;
    open_events(fd);
    in_loop(&f, send_bits, NULL);
    take_events(fd, &all);
    for (const char *p = all.data; (p = strstr(p, "event: step\n")); p++) {
        const char *text = strstr(p, "\"text\":\"") + 8;

        assert_non_null(
            strstr(p, bits < BITS / 2 ? "\"stream\":\"stdout\"" : "\"stream\":\"stderr\""));
        bits += strspn(text, "b");
        events++;
    }
    assert_int_equal(bits, BITS);
    assert_true(events < 10);
    assert_non_null(strstr(all.data,
                           "event: token\ndata: {\"type\":\"token\",\"text\":\"é\",\"content\":"
                           "\"é\"}"
                           "\n\nevent: done\n"));
    close(fd);
}

static void test_client_that_does_not_read_gets_an_error(void **state)
{
    auto_buf struct buf all = BUF_INIT(128u << 20);
    int fd = dial(f.port);
    struct err e = ERR_INIT;
    const char *error;

    (void)state;
    open_events(fd);
    in_loop(&f, send_too_much, &e);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_string_equal(e.message, "the client does not read its events");
    await(&closed);
    assert_null(stream);
    /* What had begun to leave is whole, and the last event says why there are no more. */
    take_events(fd, &all);
    assert_true(all.len < 2u << 20);
    error = strstr(all.data,
                   "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"UNAVAILABLE\"");
    assert_non_null(error);
    assert_true(error == all.data || memcmp(error - 2, "\n\n", 2) == 0);
    assert_string_equal(all.data + all.len - 2, "\n\n");
    close(fd);
}

/* ---- generated bodies ---- */

static void test_pieces(void **state)
{
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    for (int sized = 0; sized < 2; sized++) {
        put(fd, sized ? "GET /pieces?sized=1 HTTP/1.1\r\n" HOST "\r\n" :
                        "GET /pieces HTTP/1.1\r\n" HOST "\r\n");
        for (int i = 0; i < 3; i++) {
            await(&started);
            in_loop(&f, piece_ready, NULL);
        }
        take(fd, &r);
        assert_int_equal(r.len, 2500);
        assert_int_equal(strspn(r.body, "x"), 2500);
        await(&closed);
        assert_true(whole);
    }
    close(fd);
}

static void test_pieces_client_goes(void **state)
{
    int fd = dial(f.port);

    (void)state;
    put(fd, "GET /pieces HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    close(fd);
    await(&closed);
    assert_false(whole);
}

/* ---- uploads ---- */

#define UPLOAD "POST /upload HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\n"

static void test_upload(void **state)
{
    int fd = dial(f.port);
    struct reply r;

    (void)state;
    put(fd, UPLOAD "Content-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz");
    await(&started);
    in_loop(&f, go_on, NULL);
    await(&started);
    in_loop(&f, go_on, NULL);
    take(fd, &r);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "abcdefghijklmnopqrstuvwxyz");
    await(&destroyed);
    /* Refused on the way: the connection stays in order. */
    put(fd, UPLOAD "Content-Length: 3\r\n\r\na!b");
    take(fd, &r);
    expect_error(&r, 400, "VALIDATION_ERROR", "no exclamations");
    await(&destroyed);
    put(fd, UPLOAD "X-Refuse: 1\r\nContent-Length: 3\r\n\r\nabc");
    take(fd, &r);
    expect_error(&r, 409, "CONFLICT", "refused by its headers");
    put(fd,
        "POST /upload HTTP/1.1\r\n" HOST "Content-Type: text/csv\r\nContent-Length: 3\r\n\r\nabc");
    take(fd, &r);
    expect_error(&r, 415, "UNSUPPORTED_MEDIA_TYPE",
                 "the content type must be text/plain, not 'text/csv'");
    put(fd, UPLOAD "Content-Length: 101\r\nExpect: 100-continue\r\n\r\n");
    take(fd, &r);
    expect_error(&r, 413, "TOO_LARGE", "the body has 101 bytes; at most 100 are allowed");
    expect_closed(fd);
}

static void test_upload_interrupted(void **state)
{
    int fd = dial(f.port);

    (void)state;
    put(fd, UPLOAD "Content-Length: 26\r\n\r\nabcdefghijklm");
    await(&started); /* paused with data in hand */
    close(fd);
    in_loop(&f, go_on, NULL);
    await(&destroyed);
}

/* ---- slow clients ---- */

static void test_slow_clients(void **state)
{
    int idle = dial(f.port), trickle = dial(f.port), body = dial(f.port);
    struct reply r;

    (void)state;
    put(trickle, "GET /at-once HTTP/1.1\r\nHost:");
    put(body, UPLOAD "Content-Length: 26\r\n\r\nabc");
    expect_closed(idle);
    expect_closed(trickle);
    take(body, &r);
    expect_error(&r, 408, "TIMEOUT", "the body came too slowly");
    expect_closed(body);
    await(&destroyed);
}

/* ---- metrics ---- */

static void print_metrics(void *arg)
{
    assert_int_equal(metrics_print(metrics, arg, NULL), 0);
}

static void test_counted(void **state)
{
    auto_buf struct buf b = BUF_INIT(1 << 20);
    struct reply r;

    (void)state;
    ask(f.port, "GET /at-once HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", &r);
    ask(f.port, "GET /none-such HTTP/1.1\r\n" HOST "\r\n", &r);
    in_loop(&f, print_metrics, &b);
    assert_non_null(strstr(
        b.data, "riddle_http_requests_total{route=\"/at-once\",method=\"GET\",status=\"200\"} "));
    assert_non_null(strstr(
        b.data, "riddle_http_requests_total{route=\"none\",method=\"any\",status=\"404\"} "));
    assert_non_null(strstr(
        b.data, "riddle_http_requests_total{route=\"/wait\",method=\"GET\",status=\"499\"} 1\n"));
    assert_non_null(strstr(b.data, "riddle_http_request_seconds_count{route=\"/at-once\"} "));
    assert_non_null(strstr(b.data, "\nriddle_http_event_streams 0\n"));
    assert_non_null(strstr(b.data, "\nriddle_http_requests_in_flight 0\n"));
}

/* ---- stopping ---- */

static sem_t stopped;

static void on_stopped(void *arg)
{
    (void)arg;
    sem_post(&stopped);
}

static void stop_soon(void *arg)
{
    http_server_stop(f.server, *(unsigned *)arg, on_stopped, NULL);
}

static void test_stop(void **state)
{
    static char text[65536];
    unsigned deadline_ms = 100;
    int wait = dial(f.port), events = dial(f.port), idle = dial(f.port);
    struct reply r;

    (void)state;
    sem_init(&stopped, 0, 0);
    put(wait, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    put(events, "GET /events HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    take_head_only(events, &r);
    in_loop(&f, stop_soon, &deadline_ms);
    expect_closed(idle);
    take(wait, &r);
    expect_error(&r, 503, "UNAVAILABLE", "the server is stopping");
    assert_string_equal(header_of(&r, "Connection"), "close");
    take_until(events, "0\r\n\r\n", text);
    assert_non_null(strstr(
        text,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"UNAVAILABLE\",\"message\":"
        "\"the server is stopping\"},\"message\":\"the server is stopping\"}\n\n"));
    await(&closed);
    await(&closed);
    await(&stopped);
    expect_closed(wait);
    close(events);
}

static void test_stop_waits(void **state)
{
    unsigned deadline_ms = PATIENCE_MS;
    int wait = dial(f.port);
    struct reply r;

    (void)state;
    put(wait, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    in_loop(&f, stop_soon, &deadline_ms);
    in_loop(&f, answer_waiting, NULL);
    take(wait, &r);
    assert_string_equal(r.body, "{\"late\":true}");
    await(&stopped);
    expect_closed(wait);
}

/* Cut with everything in flight: nothing is left behind (AddressSanitizer would tell). */
static void test_cut(void **state)
{
    int wait = dial(f.port), events = dial(f.port), upload = dial(f.port);

    (void)state;
    put(wait, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    put(events, "GET /events HTTP/1.1\r\n" HOST "\r\n");
    await(&started);
    put(upload, UPLOAD "Content-Length: 26\r\n\r\nabcdefghijklm");
    await(&started);
    teardown(state);
    await(&closed);
    await(&closed);
    await(&destroyed);
    close(wait);
    close(events);
    close(upload);
    setup(state); /* for the teardown that follows */
}

int main(void)
{
    const struct CMUnitTest together[] = {
        cmocka_unit_test(test_deferred),
        cmocka_unit_test(test_client_goes),
        cmocka_unit_test(test_client_goes_while_another_waits),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_large_event_arrives_whole),
        cmocka_unit_test(test_bits_of_a_slow_client_are_put_together),
        cmocka_unit_test(test_client_that_does_not_read_gets_an_error),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_pieces_client_goes),
        cmocka_unit_test(test_upload),
        cmocka_unit_test(test_upload_interrupted),
        cmocka_unit_test(test_slow_clients),
        cmocka_unit_test(test_counted),
    };
    const struct CMUnitTest alone[] = {
        cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
    };
    int failed = cmocka_run_group_tests(together, setup, teardown);

    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
