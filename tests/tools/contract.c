/*
 * The contract of sandbox providers: the same cases for every one. `contract --list PROVIDER` prints their names, `contract PROVIDER
 * CASE` runs one and prints nothing if the provider keeps to it, or what it did instead (exit status 1). tests/contract drives it.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/config.h"
#include "base/str.h"
#include "run/foreground.h"
#include "sandbox/fake.h"
#include "sandbox/provider.h"

static struct config cfg;
static struct foreground *fg;
static const struct provider_ops *provider;

static _Noreturn void fail(const char *fmt, ...) PRINTF_LIKE(1, 2);
static _Noreturn void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    exit(1);
}

#define CHECK(condition)                                          \
    do {                                                          \
        if (!(condition))                                         \
            fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* ---- helpers ---- */

static void open_executor(void)
{
    struct err err = ERR_INIT;
    struct executor_options opt = { .lazy = true, .provider = provider };
    if (foreground_open(&cfg, &opt, &fg, &err) < 0)
        fail("opening: %s", err.message);
}

static struct lease *acquire(enum run_kind kind)
{
    struct sandbox_spec spec = { .kind = kind };
    struct err err = ERR_INIT;
    struct lease *lease = NULL;
    sandbox_limits_default(&cfg, &spec.limits);
    if (foreground_acquire(fg, &spec, NULL, &lease, &err) < 0)
        fail("acquiring: %s", err.message);
    return lease;
}

static struct run_request request(enum run_kind kind, const char *code, int64_t timeout_ms)
{
    return (struct run_request){ .kind = kind, .code = code, .code_len = strlen(code), .policy = POLICY_OPEN,
                                 .timeout_ms = timeout_ms, .max_rows = 10, .max_output_bytes = 65536 };
}

/* The result is the caller's to finish. */
static struct run_result run(struct lease *lease, const char *code, int64_t timeout_ms)
{
    struct run_request req = request(RUN_PYTHON, code, timeout_ms);
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    if (foreground_run(fg, lease, &req, &result, &err) < 0)
        fail("running '%s': %s", code, err.message);
    return result;
}

static void run_as(struct lease *lease, const char *code, enum verdict verdict)
{
    struct run_result result = run(lease, code, 30000);
    if (result.verdict != verdict)
        fail("'%s' ended with verdict %s, not %s", code, verdict_name(result.verdict), verdict_name(verdict));
    run_result_finish(&result);
}

static long long value_of(struct lease *lease, const char *code)
{
    struct run_result result = run(lease, code, 30000);
    json_t *cell = json_array_get(json_array_get(json_object_get(result.body, "rows"), 0), 0);
    if (result.verdict != VERDICT_OK || !json_is_integer(cell))
        fail("'%s' gave no integer (%s)", code, verdict_name(result.verdict));
    long long value = json_integer_value(cell);
    run_result_finish(&result);
    return value;
}

/* A cell that never ends by itself. */
static void define_spin(struct lease *lease)
{
    struct run_result result = run(lease, "def spin():\n    while True: pass\n", 30000);
    run_result_finish(&result); /* the fake one has it already and understands no definition */
}

/* ---- cases for every provider ---- */

static void runs_sql(void)
{
    struct lease *lease = acquire(RUN_SQL);
    struct run_request req = request(RUN_SQL, "SELECT 42", 30000);
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    CHECK(foreground_run(fg, lease, &req, &result, &err) == 0);
    CHECK(result.verdict == VERDICT_OK);
    CHECK(json_integer_value(json_array_get(json_array_get(json_object_get(result.body, "rows"), 0), 0)) == 42);
    run_result_finish(&result);
    lease_release(lease);
}

static void keeps_state(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    run_as(lease, "x = 7", VERDICT_OK);
    CHECK(value_of(lease, "x") == 7);
    lease_release(lease);
}

static void shares_no_state(void)
{
    struct lease *one = acquire(RUN_PYTHON), *two = acquire(RUN_PYTHON);
    run_as(one, "x = 7", VERDICT_OK);
    run_as(two, "x", VERDICT_ERROR);
    lease_release(one);
    lease_release(two);
}

static void output_comes_before_the_result(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    for (int i = 0; i < 20; i++) {
        struct run_result result = run(lease, "print('hello')", 30000);
        CHECK(result.verdict == VERDICT_OK);
        CHECK(str_eq(buf_cstr(&result.out), "hello\n"));
        run_result_finish(&result);
    }
    lease_release(lease);
}

static void an_error_is_a_result(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    run_as(lease, "raise", VERDICT_ERROR);
    CHECK(value_of(lease, "5") == 5);
    lease_release(lease);
}

static void a_timeout_keeps_state(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    define_spin(lease);
    run_as(lease, "x = 3", VERDICT_OK);
    struct run_result result = run(lease, "spin()", 500);
    CHECK(result.verdict == VERDICT_TIMEOUT);
    CHECK(result.interrupted && !result.state_lost);
    run_result_finish(&result);
    CHECK(value_of(lease, "x") == 3);
    lease_release(lease);
}

static void on_timer(uv_timer_t *t)
{
    lease_interrupt(t->data);
    uv_close((uv_handle_t *)t, NULL);
}

static void an_interrupt_keeps_state(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    define_spin(lease);
    uv_timer_t timer = { .data = lease };
    uv_timer_init(foreground_loop(fg), &timer);
    uv_timer_start(&timer, on_timer, 300, 0);
    struct run_result result = run(lease, "spin()", 60000);
    CHECK(result.verdict == VERDICT_KILLED && result.interrupted && !result.state_lost);
    run_result_finish(&result);
    CHECK(value_of(lease, "4") == 4);
    lease_release(lease);
}

static void a_death_is_a_result(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    struct run_result result = run(lease, "import os; os._exit(3)", 30000);
    struct run_request req = request(RUN_PYTHON, "1", 1000);
    struct err err = ERR_INIT;
    CHECK(result.verdict == VERDICT_KILLED && result.state_lost);
    run_result_finish(&result);
    CHECK(!lease_alive(lease));
    CHECK(foreground_run(fg, lease, &req, &result, &err) == -ERR_UNAVAILABLE);
    lease_release(lease);
}

static void never(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    (void)lease, (void)result, (void)err, (void)arg;
    fail("a callback came after the release");
}

static void a_release_ends_a_run(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    struct run_request req = request(RUN_PYTHON, "spin()", 60000);
    struct err err = ERR_INIT;
    define_spin(lease);
    CHECK(lease_run(lease, &req, NULL, never, NULL, &err) == 0);
    CHECK(lease_run(lease, &req, NULL, never, NULL, &err) == -ERR_CONFLICT);
    lease_release(lease);
    lease = acquire(RUN_PYTHON); /* the loop runs, and others go on */
    CHECK(value_of(lease, "6") == 6);
    lease_release(lease);
}

static void many_at_once(void)
{
    struct lease *leases[6];
    for (size_t i = 0; i < ARRAY_SIZE(leases); i++)
        leases[i] = acquire(RUN_PYTHON);
    for (size_t i = 0; i < ARRAY_SIZE(leases); i++)
        CHECK(value_of(leases[i], "9") == 9);
    for (size_t i = 0; i < ARRAY_SIZE(leases); i++)
        lease_release(leases[i]);
}

static unsigned n_spawned;

static void on_spawned(void *arg, struct kernel_link *link, const struct err *err)
{
    struct kernel_link **ret = arg;
    if (err)
        fail("spawning: %s", err->message);
    *ret = link;
    n_spawned++;
}

static void links_end_by_release(void)
{
    struct provider *p = executor_provider(foreground_executor(fg));
    struct spawn_spec spec = { .kind = RUN_SQL, .pooled = true };
    struct kernel_link *links[3] = { NULL };
    struct err err = ERR_INIT;
    sandbox_limits_default(&cfg, &spec.limits);
    for (size_t i = 0; i < ARRAY_SIZE(links); i++)
        CHECK(p->ops->spawn(p, &spec, on_spawned, &links[i], &err) == 0);
    CHECK(n_spawned == 0); /* never from within */
    while (n_spawned < ARRAY_SIZE(links))
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        CHECK(!links[i]->dead);
        if (p->ops->caps & PROVIDER_LIMIT)
            CHECK(p->ops->limit(links[i], &spec.limits, &err) == 0);
        p->ops->release(links[i]);
    }
    p->ops->release(NULL);
}

/* ---- freezing ---- */

struct settled {
    bool done;
    struct err err;
};

static void on_settled(struct lease *lease, const struct err *err, void *arg)
{
    (void)lease;
    struct settled *s = arg;
    s->done = true;
    if (err)
        s->err = *err;
}

static void move(int (*fn)(struct lease *, lease_ready_fn, void *, struct err *),
                 struct lease *lease)
{
    struct settled s = { .err = ERR_INIT };
    struct err err = ERR_INIT;
    if (fn(lease, on_settled, &s, &err) < 0)
        fail("freezing or thawing: %s", err.message);
    CHECK(!s.done);
    while (!s.done)
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    if (s.err.code)
        fail("freezing or thawing: %s", s.err.message);
}

static bool cannot_freeze(void)
{
    return !(provider->caps & PROVIDER_FREEZE);
}

static void a_frozen_kernel_keeps_its_state(void)
{
    if (cannot_freeze())
        return;
    struct lease *lease = acquire(RUN_PYTHON);
    struct err err = ERR_INIT;
    run_as(lease, "x = 7", VERDICT_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(lease_thaw(lease, on_settled, NULL, &err) == -ERR_CONFLICT);
        move(lease_freeze, lease);
        CHECK(lease_freeze(lease, on_settled, NULL, &err) == -ERR_CONFLICT);
        struct run_request req = request(RUN_PYTHON, "x", 1000);
        CHECK(lease_run(lease, &req, NULL, foreground_ran, NULL, &err) == -ERR_CONFLICT);
        move(lease_thaw, lease);
        CHECK(value_of(lease, "x") == 7);
    }
    lease_release(lease);
}

/* A process that a cell left behind measures the longest time between two of its steps. */
static void what_runs_on_is_frozen_too(void)
{
    if (cannot_freeze() || provider == &fake_provider)
        return;
    struct lease *lease = acquire(RUN_PYTHON);
    run_as(lease,
           "import os, time\n"
           "if os.fork() == 0:\n"
           "    longest, last = 0, time.monotonic()\n"
           "    while True:\n"
           "        time.sleep(0.002)\n"
           "        now = time.monotonic()\n"
           "        if now - last > longest:\n"
           "            longest = now - last\n"
           "            with open('/tmp/new', 'w') as f: f.write(str(int(longest * 1000)))\n"
           "            os.rename('/tmp/new', '/tmp/longest')\n"
           "        last = now\n"
           "while not os.path.exists('/tmp/longest'): time.sleep(0.002)\n",
           VERDICT_OK);
    move(lease_freeze, lease);
    uv_sleep(1500);
    move(lease_thaw, lease);
    for (int i = 0; i < 1000 && value_of(lease, "int(open('/tmp/longest').read())") < 1000; i++)
        uv_sleep(10);
    CHECK(value_of(lease, "int(open('/tmp/longest').read())") >= 1000);
    lease_release(lease);
}

static void a_frozen_kernel_can_be_ended(void)
{
    if (cannot_freeze())
        return;
    struct lease *one = acquire(RUN_PYTHON), *two = acquire(RUN_PYTHON);
    struct err err = ERR_INIT;
    move(lease_freeze, one);
    lease_release(one);
    move(lease_freeze, two);
    provider->kill(lease_link(two));
    while (lease_alive(two))
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    CHECK(lease_thaw(two, on_settled, NULL, &err) == -ERR_UNAVAILABLE);
    lease_release(two);
}

static void a_release_while_freezing_is_silent(void)
{
    if (cannot_freeze())
        return;
    struct lease *lease = acquire(RUN_PYTHON);
    struct settled s = { .err = ERR_INIT };
    struct err err = ERR_INIT;
    CHECK(lease_freeze(lease, on_settled, &s, &err) == 0);
    lease_release(lease);
    lease = acquire(RUN_PYTHON);
    CHECK(value_of(lease, "1") == 1);
    CHECK(!s.done);
    lease_release(lease);
}

/* ---- images ---- */

static struct settled image(struct lease *lease, const char *path)
{
    struct settled s = { .err = ERR_INIT };
    struct err err = ERR_INIT;
    if (lease_image(lease, path, on_settled, &s, &err) < 0)
        fail("writing an image: %s", err.message);
    while (!s.done)
        uv_run(foreground_loop(fg), UV_RUN_ONCE);
    return s;
}

static int restore(const char *path, struct lease **ret, struct err *err)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON, .image = path };
    sandbox_limits_default(&cfg, &spec.limits);
    return foreground_acquire(fg, &spec, NULL, ret, err);
}

static bool cannot_image(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true; /* the sanitizer's own memory is no part of an image */
#endif
    return !(provider->caps & PROVIDER_IMAGE);
}

/*
 * A kernel that is written to a file, ended, and read back: twice, the second time from the first
 * copy.
 */
static void an_image_keeps_state(void)
{
    if (cannot_image())
        return;
    struct lease *lease = acquire(RUN_PYTHON);
    struct err err = ERR_INIT;
    run_as(lease,
           "x = 7\n"
           "squares = (n * n for n in range(10))\n"
           "next(squares), next(squares)\n"
           "class Point:\n"
           "    def __init__(self, n): self.n = n\n"
           "point = Point(5)\n"
           "big = {n: str(n) for n in range(100000)}\n"
           "add = lambda n: n + x\n"
           "open('/workspace/a.txt', 'w').write('hello')\n"
           "f = open('/workspace/a.txt')\n"
           "first = f.read(2)\n",
           VERDICT_OK);
    for (int i = 0; i < 2; i++) {
        struct settled s = image(lease, "one.image");
        if (s.err.code)
            fail("writing an image: %s", s.err.message);
        CHECK(value_of(lease, "x") == 7); /* it goes on */
        lease_release(lease);
        if (restore("one.image", &lease, &err) < 0)
            fail("reading an image: %s", err.message);
        CHECK(value_of(lease, "x") == 7);
        CHECK(value_of(lease, "next(squares)") == (i == 0 ? 4 : 9));
        CHECK(value_of(lease, "point.n + add(1) + len(big) + int(big[99999])") ==
              5 + 8 + 100000 + 99999);
        CHECK(value_of(lease, "len(f.read()) + f.seek(2)") == 5);
        run_as(lease, "import decimal, json; json.dumps([1]); Point(3); [0] * 1000000", VERDICT_OK);
    }
    lease_release(lease);
}

static void what_cannot_be_imaged_is_named(void)
{
    if (cannot_image())
        return;
    struct lease *lease = acquire(RUN_PYTHON);
    run_as(lease, "import socket; x = 7; pair = socket.socketpair()", VERDICT_OK);
    struct settled s = image(lease, "two.image");
    if (s.err.code != ERR_CONFLICT || !strstr(s.err.message, "socket:"))
        fail("an open socket: %s", s.err.message);
    run_as(
        lease,
        "pair[0].close(); pair[1].close(); import threading, time; "
        "t = threading.Thread(target=lambda: time.sleep(1000)); t.daemon = True; t.start()",
        VERDICT_OK);
    s = image(lease, "two.image");
    CHECK(s.err.code == ERR_CONFLICT && strstr(s.err.message, "1 threads"));
    CHECK(access("two.image", F_OK) < 0 && access("two.image.partial", F_OK) < 0);
    CHECK(value_of(lease, "x") == 7);
    lease_release(lease);
}

/* ---- cases of the fake one: any step may fail ---- */

static void a_failed_spawn_is_told(void)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };
    struct lease *lease;
    struct err err = ERR_INIT;
    sandbox_limits_default(&cfg, &spec.limits);
    fake_fail(FAKE_SPAWN, 1);
    CHECK(foreground_acquire(fg, &spec, NULL, &lease, &err) == -ERR_UNAVAILABLE);
    CHECK(strstr(err.message, "fails this spawn"));
    CHECK(foreground_acquire(fg, &spec, NULL, &lease, &err) == 0); /* the next one is not harmed */
    lease_release(lease);
}

static void a_failed_start_is_told(void)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };
    struct lease *lease;
    struct err err = ERR_INIT;
    sandbox_limits_default(&cfg, &spec.limits);
    fake_fail(FAKE_START, 1);
    CHECK(foreground_acquire(fg, &spec, NULL, &lease, &err) == 0); /* another kernel is tried */
    lease_release(lease);
    fake_fail(FAKE_START, FAKE_EVERY);
    CHECK(foreground_acquire(fg, &spec, NULL, &lease, &err) == -ERR_UNAVAILABLE);
    CHECK(strstr(err.message, "fails this start"));
}

static void a_failed_send_is_told(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    struct run_request req = request(RUN_PYTHON, "1", 1000);
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    fake_fail(FAKE_SEND, 1);
    CHECK(value_of(lease, "1") == 1); /* nothing ran in the first kernel: another one takes it */
    CHECK(fake_count(FAKE_SPAWN) == 2);
    fake_fail(FAKE_SEND, 1); /* this one may have variables */
    CHECK(foreground_run(fg, lease, &req, &result, &err) == -ERR_UNAVAILABLE);
    lease_release(lease);
}

static void a_kernel_that_cannot_be_limited_is_replaced(void)
{
    fake_fail(FAKE_LIMIT, 1);
    struct lease *lease = acquire(RUN_PYTHON);
    CHECK(fake_count(FAKE_SPAWN) == 2);
    CHECK(value_of(lease, "1") == 1);
    lease_release(lease);
}

static void limits_that_cannot_be_set_are_told(void)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };
    struct lease *lease;
    struct err err = ERR_INIT;
    sandbox_limits_default(&cfg, &spec.limits);
    fake_fail(FAKE_LIMIT, FAKE_EVERY);
    CHECK(foreground_acquire(fg, &spec, NULL, &lease, &err) == -ERR_UNAVAILABLE);
    CHECK(strstr(err.message, "fails this limit"));
}

static void say_nonsense(struct kernel_link *l, const struct fake_request *req, void *arg)
{
    (void)req, (void)arg;
    fake_say_bytes(l, "no message at all", WIRE_HEAD_BYTES);
}

static void a_broken_frame_ends_the_sandbox(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    struct run_request req = request(RUN_PYTHON, "1", 1000);
    struct run_result result = { 0 };
    struct err err = ERR_INIT;
    fake_script(say_nonsense, NULL);
    int r = foreground_run(fg, lease, &req, &result, &err);
    CHECK(r == 0 && result.verdict == VERDICT_KILLED && result.state_lost);
    CHECK(!lease_alive(lease));
    run_result_finish(&result);
    lease_release(lease);
}

static void say_nothing(struct kernel_link *l, const struct fake_request *req, void *arg)
{
    (void)l, (void)req, (void)arg;
}

static void a_silent_kernel_is_killed(void)
{
    struct lease *lease = acquire(RUN_PYTHON);
    fake_script(say_nothing, NULL);
    struct run_result result = run(lease, "1", 200);
    CHECK(result.verdict == VERDICT_TIMEOUT && result.state_lost);
    run_result_finish(&result);
    lease_release(lease);
}

static const struct {
    const char *name;
    void (*fn)(void);
    bool fake_only;
} cases[] = {
#define CASE(fn) { #fn, fn, false }
#define FAKE_CASE(fn) { #fn, fn, true }
    CASE(runs_sql),
    CASE(keeps_state),
    CASE(shares_no_state),
    CASE(output_comes_before_the_result),
    CASE(an_error_is_a_result),
    CASE(a_timeout_keeps_state),
    CASE(an_interrupt_keeps_state),
    CASE(a_death_is_a_result),
    CASE(a_release_ends_a_run),
    CASE(many_at_once),
    CASE(links_end_by_release),
    CASE(a_frozen_kernel_keeps_its_state),
    CASE(what_runs_on_is_frozen_too),
    CASE(a_frozen_kernel_can_be_ended),
    CASE(a_release_while_freezing_is_silent),
    CASE(an_image_keeps_state),
    CASE(what_cannot_be_imaged_is_named),
    FAKE_CASE(a_failed_spawn_is_told),
    FAKE_CASE(a_failed_start_is_told),
    FAKE_CASE(a_failed_send_is_told),
    FAKE_CASE(a_kernel_that_cannot_be_limited_is_replaced),
    FAKE_CASE(limits_that_cannot_be_set_are_told),
    FAKE_CASE(a_broken_frame_ends_the_sandbox),
    FAKE_CASE(a_silent_kernel_is_killed),
};

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    if (argc == 3 && str_eq(argv[1], "--list")) {
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
            if (!cases[i].fake_only || str_eq(argv[2], "fake"))
                puts(cases[i].name);
        return 0;
    }
    if (argc != 3 || config_load(&cfg, "", &err) < 0)
        fail("usage: contract [--list] PROVIDER CASE; %s", err.message);
    provider = str_eq(argv[1], "fake") ? &fake_provider : provider_find(argv[1], &err);
    if (!provider)
        fail("%s", err.message);
    cfg.pool_size = 0;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!str_eq(cases[i].name, argv[2]))
            continue;
        open_executor();
        cases[i].fn();
        foreground_close(fg);
        config_finish(&cfg);
        return 0;
    }
    fail("no case '%s'", argv[2]);
}
