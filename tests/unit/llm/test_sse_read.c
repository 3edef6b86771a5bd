/* The reader of event streams: line ends, comments, fields, splits, limits. */

#include "base/check.h"
#include "llm/sse_read.h"

/* What was read, as "name|data;" of each event. */
struct heard {
    char text[4096];
    int stop_at; /* the event that returns 1; 0 for none */
    int n;
};

static int hear(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct heard *h = arg;

    (void)err;
    assert_int_equal(strlen(data), len);
    snprintf(h->text + strlen(h->text), sizeof(h->text) - strlen(h->text), "%s|%s;", event, data);
    return ++h->n == h->stop_at;
}

static void expect_inside(const char *stream, const char *events, bool inside)
{
    size_t len = strlen(stream);

    for (size_t step = 1; step <= len; step++) {
        struct heard h = { .text = "" };
        struct sse_reader r;
        struct err err = ERR_INIT;

        sse_reader_init(&r);
        for (size_t at = 0; at < len; at += step)
            assert_int_equal(sse_read(&r, stream + at, MIN_OF(step, len - at), hear, &h, &err), 0);
        assert_string_equal(h.text, events);
        assert_int_equal(sse_reader_is_inside(&r), inside);
        sse_reader_finish(&r);
    }
}

static void expect(const char *stream, const char *events)
{
    expect_inside(stream, events, false);
}

static void test_lines(void **state)
{
    (void)state;
    expect("data: a\n\ndata: b\n\n", "|a;|b;");
    expect("data: a\r\n\r\ndata: b\r\n\r\n", "|a;|b;");
    expect("data: a\r\rdata: b\r\r", "|a;|b;");
    expect("data:a\n\n", "|a;");
    expect("data:  a\n\n", "| a;");
    expect("data: a:b: c\n\n", "|a:b: c;");
    expect("\n\n\ndata: a\n\n\n\n", "|a;");
    expect("\xef\xbb\xbf"
           "data: a\n\n",
           "|a;");
}

static void test_fields(void **state)
{
    (void)state;
    expect("event: ping\ndata: {}\n\n", "ping|{};");
    expect("data: {}\nevent: late\n\ndata: next\n\n", "late|{};|next;");
    expect("data: one\ndata: two\ndata:\n\n", "|one\ntwo\n;");
    expect("data\n\n", "|;");
    expect(": a comment\nid: 7\nretry: 10\nnonsense\ndatabase: x\ndata: a\n\n", "|a;");
    expect("event: without data\n\ndata: a\n\n", "|a;");
    expect("", "");
}

static void test_cut(void **state)
{
    (void)state;
    expect_inside("data: a\n\ndata: b\n", "|a;", true);
    expect_inside("data: a\n\ndata: b", "|a;", true);
    expect_inside("data: a\n\nda", "|a;", true);
    expect_inside("data: a\n\n: comment\n", "|a;", false);
}

static void test_stops(void **state)
{
    struct heard h = { .stop_at = 2 };
    struct sse_reader r;
    struct err err = ERR_INIT;
    const char *stream = "data: a\n\ndata: b\n\ndata: c\n\n";

    (void)state;
    sse_reader_init(&r);
    assert_int_equal(sse_read(&r, stream, strlen(stream), hear, &h, &err), 1);
    assert_string_equal(h.text, "|a;|b;");
    sse_reader_finish(&r);
}

static void test_long_name(void **state)
{
    struct heard h = { .text = "" };
    struct sse_reader r;
    struct err err = ERR_INIT;
    char stream[300], want[100];

    (void)state;
    snprintf(stream, sizeof(stream), "event: %0200d\ndata: a\n\n", 0);
    snprintf(want, sizeof(want), "%0*d|a;", SSE_READ_NAME_SIZE - 1, 0);
    sse_reader_init(&r);
    assert_works(sse_read(&r, stream, strlen(stream), hear, &h, &err), &err);
    assert_string_equal(h.text, want);
    sse_reader_finish(&r);
}

/*
 * A line without end, and an event of endless lines: both are refused at the limit, and hold no
 * more memory than it.
 */
static void test_limits(void **state)
{
    static const char *const pieces[] = {
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct heard h = { .text = "" };
        struct sse_reader r;
        struct err err = ERR_INIT;
        size_t len = strlen(pieces[i]), n = 0;
        int result = 0;

        sse_reader_init(&r);
        while (result == 0 && n++ < 2 * SSE_READ_EVENT_MAX / len)
            result = sse_read(&r, pieces[i], len, hear, &h, &err);
        assert_int_equal(result, -ERR_LLM_BAD_RESPONSE);
        assert_string_equal(
            err.message,
            "an event of the model's stream is larger than the limit of 4194304 bytes");
        assert_true(r.line.cap + r.data.cap <= SSE_READ_EVENT_MAX + 128);
        sse_reader_finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),     cmocka_unit_test(test_fields),
        cmocka_unit_test(test_cut),       cmocka_unit_test(test_stops),
        cmocka_unit_test(test_long_name), cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
