/* The text of events. Streams over sockets are in test_http_async.c. */

#include "base/check.h"
#include "net/http_impl.h"
#include "net/sse.h"

static void formats(const char *event, const char *value, const char *text)
{
    auto_buf struct buf b = BUF_INIT(1000);
    auto_json json_t *j = NULL;
    struct err e;

    if (value)
        assert_works(json_parse(value, strlen(value), &j, &e), &e);
    assert_works(sse_format(&b, event, true, j, &e), &e);
    assert_string_equal(buf_cstr(&b), text);
}

static void test_format(void **state)
{
    (void)state;
    formats("token", "{\"text\":\"a\\n\\nb\\r\"}",
            "event: token\ndata: {\"type\":\"token\",\"text\":\"a\\n\\nb\\r\"}\n\n");
    formats("done", NULL, "event: done\ndata: {\"type\":\"done\"}\n\n");
    formats("step", "[1,2]", "event: step\ndata: {\"type\":\"step\",\"value\":[1,2]}\n\n");
    /* The name wins over a member of the same key. */
    formats("result", "{\"a\":1,\"type\":\"table\"}",
            "event: result\ndata: {\"type\":\"result\",\"a\":1}\n\n");
}

static void test_unnamed(void **state)
{
    auto_buf struct buf b = BUF_INIT(1000);
    auto_json json_t *j = json_pack("{s:s}", "text", "x");
    struct err e = ERR_INIT;

    (void)state;
    assert_works(sse_format(&b, "token", false, j, &e), &e);
    assert_string_equal(buf_cstr(&b), "data: {\"type\":\"token\",\"text\":\"x\"}\n\n");
}

static void test_appends_or_leaves_alone(void **state)
{
    auto_buf struct buf b = BUF_INIT(60);
    auto_json json_t *j = json_pack("{s:s}", "text", "0123456789012345678901234567890123456789");
    struct err e = ERR_INIT;

    (void)state;
    assert_works(sse_format(&b, "a", true, NULL, &e), &e);
    assert_int_equal(sse_format(&b, "b", true, j, &e), -ERR_TOO_LARGE);
    assert_string_equal(buf_cstr(&b), "event: a\ndata: {\"type\":\"a\"}\n\n");
}

/* ---- which stream ends when too much waits for all ---- */

static void test_many_short_queues_of_one_owner(void **state)
{
    struct http_server s = { 0 };
    struct http_request alice = { .owner = "alice" }, bob = { .owner = "bob" };
    struct sse streams[6];

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        streams[i] = (struct sse){ .req = i ? &alice : &bob, .queued = 100, .next = s.streams };
        s.streams = &streams[i];
    }
    streams[0].queued = 300; /* the longest, but alice has 500 in all */
    streams[3].queued = 101;
    assert_ptr_equal(sse_longest_queue(&s), &streams[3]);
    streams[0].queued = 600;
    assert_ptr_equal(sse_longest_queue(&s), &streams[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_unnamed),
        cmocka_unit_test(test_appends_or_leaves_alone),
        cmocka_unit_test(test_many_short_queues_of_one_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
