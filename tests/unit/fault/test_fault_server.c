/*
 * The whole server on the fake provider, when memory runs out or the disk is full at any step of a
 * request: the client gets an answer or its connection is closed, and the next request succeeds.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "api/app.h"
#include "base/check.h"
#include "base/config.h"
#include "fault/fault.h"
#include "fault/quiet_fake.h"
#include "net/http.h"
#include "net/loop.h"

#define ROUNDS_MAX 100000

static struct {
    char home[64];
    struct config cfg;
    struct loop *loop;
    struct app *app;
    uv_async_t answered;
} f;

/* ---- a client in a thread of its own, which calls nothing that can be made to fail ---- */

struct call {
    char request[4096];
    char answer[1 << 16];
    size_t len;
    int status; /* 0: the connection was closed without an answer */
    bool done;
};

static void *talk(void *arg)
{
    struct call *c = arg;
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)http_server_port(f.app->server)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = { .tv_sec = 20 };
    ssize_t n = connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 ?
                    syscall(SYS_write, fd, c->request, strlen(c->request)) :
                    -1;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    while (n > 0 && c->len < sizeof(c->answer) - 1) {
        n = recv(fd, c->answer + c->len, sizeof(c->answer) - 1 - c->len, 0);
        c->len += n > 0 ? (size_t)n : 0;
    }
    c->answer[c->len] = '\0';
    if (strncmp(c->answer, "HTTP/1.1 ", 9) == 0)
        c->status = atoi(c->answer + 9);
    close(fd);
    __atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
    uv_async_send(&f.answered);
    return NULL;
}

static void ignore(uv_async_t *h)
{
    (void)h;
}

static void call(struct call *c, const char *method, const char *path, const char *body)
{
    pthread_t thread;

    fault_pause();
    c->len = 0;
    c->status = 0;
    c->done = false;
    snprintf(c->request, sizeof(c->request),
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             method, path, strlen(body), body);
    assert_int_equal(pthread_create(&thread, NULL, talk, c), 0);
    fault_resume();
    while (!__atomic_load_n(&c->done, __ATOMIC_ACQUIRE))
        uv_run(loop_uv(f.loop), UV_RUN_ONCE);
    pthread_join(thread, NULL);
}

/* ---- cases ---- */

struct request {
    const char *method, *path, *body;
    const char *expected; /* in the answer of one that goes well */
};

static struct call c;
static char thread_path[100];

static void expect_good(const struct request *r)
{
    call(&c, r->method, r->path, r->body);
    if (c.status != 200 || !strstr(c.answer, r->expected))
        fail_msg("%s %s: %.1000s", r->method, r->path, c.answer);
}

static void request_case(void *arg)
{
    const struct request *r = arg;

    call(&c, r->method, r->path, r->body);
    fault_pause();
    if (c.status != 200 || !strstr(c.answer, r->expected))
        assert_true(fault_fired());
    /* Whatever is answered has a reason. */
    if (c.status >= 400 && !strstr(c.answer, "message") && !strstr(c.answer, "detail"))
        fail_msg("%s %s: %.1000s", r->method, r->path, c.answer);
    expect_good(r);
}

static void try_both(struct request *r, long most)
{
    expect_good(r);
    assert_true(fault_rounds(FAULT_ALLOC, false, most, request_case, r) > 10);
    (void)fault_rounds(FAULT_WRITE, false, most, request_case, r);
}

static void test_run_in_a_thread(void **state)
{
    struct request r = { "POST", thread_path, "{\"language\":\"python\",\"code\":\"print('hi')\"}",
                         "succeeded" };

    (void)state;
    try_both(&r, ROUNDS_MAX);
}

static void test_turn(void **state)
{
    struct request r = { "POST", "/chat", "{\"message\":\"PYTHON: print('hi')\"}", "succeeded" };

    (void)state;
    try_both(&r, ROUNDS_MAX);
}

static void test_lists(void **state)
{
    struct request runs = { "GET", "/runs?limit=5", "", "runs" },
                   threads = { "GET", "/threads?limit=5", "", "threads" },
                   metrics = { "GET", "/metrics", "", "riddle_runs_total" };

    (void)state;
    try_both(&runs, ROUNDS_MAX);
    try_both(&threads, ROUNDS_MAX);
    try_both(&metrics, ROUNDS_MAX);
}

static int setup(void **state)
{
    struct err err = ERR_INIT;
    char data[80];

    (void)state;
    fault_init();
    clearenv();
    quiet_fake_init();
    snprintf(f.home, sizeof(f.home), "/tmp/riddle-unit-XXXXXX");
    assert_non_null(mkdtemp(f.home));
    snprintf(data, sizeof(data), "%s/data", f.home);
    assert_int_equal(mkdir(data, 0700), 0); /* no data sets are made where the directory exists */
    setenv("RIDDLE_HOME", f.home, 1);
    setenv("DATASETS_DIR", data, 1);
    setenv("PORT", "0", 1);
    setenv("LOG_LEVEL", "error", 1);
    if (config_load(&f.cfg, NULL, &err) < 0 || loop_create(&f.loop, &err) < 0 ||
        app_create(f.loop, &f.cfg, &f.app, &err) < 0)
        fail_msg("%s", err.message);
    assert_int_equal(uv_async_init(loop_uv(f.loop), &f.answered, ignore), 0);
    call(&c, "POST", "/thread/new", "{}");
    const char *id = strstr(c.answer, "\"thread_id\":\"");
    assert_non_null(id);
    snprintf(thread_path, sizeof(thread_path), "/thread/%.*s/execute", (int)strcspn(id + 13, "\""),
             id + 13);
    return 0;
}

static int teardown(void **state)
{
    char command[100];

    (void)state;
    app_destroy(f.app);
    loop_destroy(f.loop);
    config_finish(&f.cfg);
    snprintf(command, sizeof(command), "rm -rf %s", f.home);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_in_a_thread),
        cmocka_unit_test(test_turn),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
