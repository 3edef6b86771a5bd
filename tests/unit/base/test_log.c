/* Log lines: quoting in both formats, cutting, levels, one write per line. */

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "check.h"

/* A datagram socket keeps writes apart, so that reading one shows what one write(2) was. */
static int ends[2];
static char line[70000];

static int open_log(void **state)
{
    int size = 1 << 20;

    (void)state;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends) < 0 ||
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) < 0)
        return -1;
    log_set_fd(ends[1]);
    return 0;
}

static int close_log(void **state)
{
    (void)state;
    log_set_fd(2);
    return close(ends[0]) + close(ends[1]);
}

/* The next line without its time, which is checked for its form. */
static const char *next_line(const char *before_time, size_t after_time)
{
    ssize_t n = recv(ends[0], line, sizeof(line) - 1, 0);
    char *time = line + strlen(before_time);

    assert_true(n > 0);
    assert_int_equal(line[n - 1], '\n');
    line[n - 1] = '\0';
    assert_null(memchr(line, '\n', (size_t)n - 1));
    assert_true(str_starts(line, before_time));
    assert_int_equal(time[4], '-');
    assert_int_equal(time[10], 'T');
    assert_memory_equal(time + 23, "+00:00", 6);
    return time + 29 + after_time;
}

static const char *next_kv(void)
{
    return next_line("time=", 1);
}

static const char *next_json(void)
{
    return next_line("{\"time\":\"", 2);
}

static void test_kv(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_KV);
    log_info("kernel.exit", LOG_STR("thread", "t-1"), LOG_INT("status", -9),
             LOG_DBL("seconds", 0.1));
    assert_string_equal(next_kv(), "level=info event=kernel.exit thread=t-1 status=-9 seconds=0.1");
    log_error("bare");
    assert_string_equal(next_kv(), "level=error event=bare");
    log_warn("q", LOG_STR("a", "two words"), LOG_STR("b", "x=y"), LOG_STR("c", "say \"hi\""),
             LOG_STR("d", ""), LOG_STR("e", NULL), LOG_STR("f", "c:\\x"));
    assert_string_equal(
        next_kv(),
        "level=warn event=q a=\"two words\" b=\"x=y\" c=\"say \\\"hi\\\"\" d=\"\" e=null "
        "f=\"c:\\\\x\"");
    log_warn("q", LOG_STR("a", "1\n2\r\t\x1b[31m\x7f"), LOG_STR("b", "é"), LOG_STR("c", "\xff!"),
             LOG_STR("d", "\xc2\x9b"), LOG_DBL("e", NAN));
    assert_string_equal(next_kv(), "level=warn event=q a=\"1\\n2\\r\\t\\u001b[31m\\u007f\" b=\"é\" "
                                   "c=\"\xef\xbf\xbd!\" d=\"\\u009b\" e=nan");
}

static void test_json(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_FORMAT_JSON);
    log_info("kernel.exit", LOG_STR("thread", "t 1"), LOG_INT("status", 3),
             LOG_DBL("seconds", 1.5));
    assert_string_equal(
        next_json(), "\"level\":\"info\",\"event\":\"kernel.exit\",\"thread\":\"t 1\",\"status\":3,"
                     "\"seconds\":1.5}");
    log_info("q", LOG_STR("a", "\"\\\n\x01é\xff"), LOG_STR("b", NULL), LOG_DBL("c", INFINITY));
    assert_string_equal(
        next_json(),
        "\"level\":\"info\",\"event\":\"q\",\"a\":\"\\\"\\\\\\n\\u0001é\xef\xbf\xbd\",\"b\":null,"
        "\"c\":null}");
    log_info("alone");
    assert_string_equal(next_json(), "\"level\":\"info\",\"event\":\"alone\"}");
}

static void test_levels(void **state)
{
    (void)state;
    log_setup(LOG_WARN, LOG_FORMAT_KV);
    assert_false(log_enabled(LOG_INFO));
    assert_true(log_enabled(LOG_WARN));
    log_info("no");
    log_debug("no");
    log_event(LOG_INFO, "no", NULL);
    log_event(LOG_ERROR, "yes", NULL);
    assert_string_equal(next_kv(), "level=error event=yes");
    assert_int_equal(recv(ends[0], line, sizeof(line), 0), -1);
    log_setup(LOG_DEBUG, LOG_FORMAT_KV);
    log_debug("now");
    assert_string_equal(next_kv(), "level=debug event=now");
}

static void test_long_value(void **state)
{
    static char value[5001];
    const char *start;

    (void)state;
    for (size_t i = 0; i < 4998; i += 3)
        memcpy(value + i, "€", 3);
    log_setup(LOG_INFO, LOG_FORMAT_KV);
    log_info("big", LOG_STR("v", value), LOG_INT("after", 1));
    start = next_kv();
    assert_true(str_starts(start, "level=info event=big v=\"€"));
    assert_true(str_ends(start, "€\" after=1"));
    assert_int_equal(strlen(start), strlen("level=info event=big v=\"\" after=1") + 2046);
}

/* Fields that do not fit are left out whole, and the line says so. */
static void test_long_line(void **state)
{
    static char value[2001];
    struct log_field fields[42] = { { .key = NULL } };
    json_t *j;

    (void)state;
    memset(value, 1, 2000); /* six bytes each when escaped */
    for (size_t i = 0; i < 40; i++)
        fields[i] = LOG_STR("v", value);
    fields[40] = LOG_INT("last", 7);
    log_setup(LOG_INFO, LOG_FORMAT_JSON);
    log_event(LOG_INFO, "big", fields);
    next_json();
    j = json_loads(line, 0, NULL);
    assert_non_null(j);
    assert_true(json_is_true(json_object_get(j, "cut")));
    assert_int_equal(json_integer_value(json_object_get(j, "last")), 7);
    json_decref(j);

    log_setup(LOG_INFO, LOG_FORMAT_KV);
    log_event(LOG_INFO, "big", fields);
    assert_true(str_ends(next_kv(), " last=7 cut=true"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv),        cmocka_unit_test(test_json),
        cmocka_unit_test(test_levels),    cmocka_unit_test(test_long_value),
        cmocka_unit_test(test_long_line),
    };

    return cmocka_run_group_tests(tests, open_log, close_log);
}
