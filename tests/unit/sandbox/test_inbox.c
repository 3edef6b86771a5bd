/*
 * What riddle makes of what a kernel sends: what is taken, what is dropped by its head, what ends
 * the kernel, what it may cost.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "sandbox/inbox.h"

#define RUN 7u

#define OK_HEAD "\"verdict\":\"ok\",\"exec_time_ms\":1.5"
#define TABLE                                                                                      \
    OK_HEAD                                                                                        \
    ",\"columns\":[\"a\"],\"types\":[\"INT\"],\"rows\":[[1]],\"row_count\":1"                      \
    ",\"truncated\":false"

static struct inbox in;
static struct inbox_item item;

static void add(struct buf *out, enum wire_type type, uint32_t id, const char *body)
{
    unsigned char raw[WIRE_HEAD_BYTES];
    wire_head_write(&(struct wire_head){ .len = (uint32_t)strlen(body), .id = id, .type = type },
                    raw);
    assert_int_equal(buf_append(out, raw, sizeof(raw), NULL), 0);
    assert_int_equal(buf_append_str(out, body, NULL), 0);
}

/* The first item that comes of these bytes. */
static enum inbox_what take(const char *bytes, size_t len)
{
    json_decref(item.body);
    do
        inbox_take(&in, &bytes, &len, &item);
    while (item.what == INBOX_ANNOUNCED);
    if (item.what == INBOX_LARGE) {
        inbox_parse(item.large);
        inbox_parsed(&in, item.large, &item);
    }
    return item.what;
}

static enum inbox_what send(enum wire_type type, uint32_t id, const char *body)
{
    auto_buf struct buf b = BUF_INIT(64u << 20);
    add(&b, type, id, body);
    return take(b.data, b.len);
}

static void begin(enum wire_type type)
{
    inbox_begin(
        &in, &(struct inbox_request){
                 .type = type, .id = RUN, .max_rows = 2, .max_bytes = 65536, .max_bytes_back = 8 });
}

static int open_box(void **state)
{
    (void)state;
    inbox_init(&in);
    memset(&item, 0, sizeof(item));
    begin(WIRE_EXEC);
    return 0;
}

static int open_ready(void **state)
{
    open_box(state);
    assert_int_equal(send(WIRE_READY, 0, "{\"version\":4,\"missing\":\"landlock\"}"), INBOX_READY);
    assert_string_equal(item.text, "landlock");
    return 0;
}

static int close_box(void **state)
{
    (void)state;
    json_decref(item.body);
    item.body = NULL;
    inbox_finish(&in);
    return 0;
}

static void test_ready_counts_once(void **state)
{
    (void)state;
    assert_int_equal(send(WIRE_READY, 0, "{\"version\":4,\"missing\":\"seccomp\"}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_READY, RUN, "no JSON"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_ANSWER);
}

static void test_before_ready(void **state)
{
    (void)state;
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_DISPLAY, RUN, "{}"), INBOX_NOTHING);
    assert_int_equal(
        send(WIRE_FAILED, 0, "{\"error\":{\"type\":\"CONFLICT\",\"message\":\"changed\"}}"),
        INBOX_FAILED);
    assert_int_equal(item.err.code, ERR_CONFLICT);
    assert_string_equal(item.err.message, "changed");
}

static void test_other_versions(void **state)
{
    (void)state;
    assert_int_equal(send(WIRE_READY, 0, "{\"version\":5,\"missing\":\"\"}"), INBOX_FAILED);
    assert_int_equal(item.err.code, ERR_PROTOCOL);
    assert_string_equal(
        item.err.message,
        "riddle-kernel speaks version 5 of the wire and riddle version 4; install or "
        "build both together");
}

static void test_version_one(void **state)
{
    (void)state;
    static const char old[] = "\x1e\0\0\0{\"event\":\"ready\",\"missing\":\"\"}";
    assert_int_equal(take(old, sizeof(old) - 1), INBOX_BROKEN);
    assert_string_equal(item.err.message, "what was started is no riddle-kernel of this version");
}

/* Known, but not now: dropped unseen, whatever is in them. */
static void test_dropped(void **state)
{
    (void)state;
    assert_int_equal(send(WIRE_RESULT, RUN + 1, "{" TABLE "}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_LISTED, RUN, "garbage"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_PROGRESS, RUN, "{\"fraction\":0.5}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_BYTES, RUN, "nine bytes"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_ASK, 0, "{}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_ANSWER);
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_NOTHING);
    inbox_end(&in);
    assert_int_equal(send(WIRE_DISPLAY, RUN, "{\"text\":\"x\"}"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_FAILED, RUN, "{}"), INBOX_NOTHING);
}

static const struct {
    enum wire_type request, type;
    const char *body;
    bool good;
} answers[] = {
    { WIRE_EXEC, WIRE_RESULT, "{" TABLE "}", true },
    { WIRE_EXEC, WIRE_RESULT,
      "{" TABLE
      ",\"value\":{\"text\":\"1\"},\"has_result\":true,\"files\":[],\"files_truncated\":false}",
      true },
    { WIRE_EXEC, WIRE_RESULT, "{" TABLE ",\"value\":{\"text\":1}}", false },
    { WIRE_EXEC, WIRE_RESULT, "{" TABLE ",\"value\":{\"html\":\"x\"}}", false },
    { WIRE_EXEC, WIRE_RESULT, "{" TABLE ",\"error\":{\"type\":\"t\",\"message\":\"m\"}}", false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" TABLE ",\"files\":[{\"path\":\"../x\",\"size\":1,\"modified\":1}]}", false },
    { WIRE_EXEC, WIRE_RESULT, "{" OK_HEAD "}", false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD
      ",\"columns\":[\"a\"],\"types\":[],\"rows\":[],\"row_count\":0,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD ",\"columns\":[],\"types\":[],\"rows\":[[]],\"row_count\":2,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD
      ",\"columns\":[],\"types\":[],\"rows\":[[],[],[]],\"row_count\":3,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD
      ",\"columns\":[],\"types\":[],\"rows\":[[],[1]],\"row_count\":2,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD ",\"columns\":[],\"types\":[],\"rows\":[5],\"row_count\":1,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD ",\"columns\":[],\"types\":[],\"rows\":[],\"row_count\":-5,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT,
      "{" OK_HEAD ",\"columns\":[],\"types\":[],\"rows\":[],\"row_count\":0,\"truncated\":\"yes\"}",
      false },
    { WIRE_EXEC, WIRE_RESULT, "{\"verdict\":\"timeout\",\"exec_time_ms\":1}", false },
    { WIRE_EXEC, WIRE_RESULT,
      "{\"verdict\":\"ok\",\"exec_time_ms\":1e308,\"columns\":[],\"types\":[],\"rows\":[]"
      ",\"row_count\":0,\"truncated\":false}",
      false },
    { WIRE_EXEC, WIRE_RESULT, "[]", false },
    { WIRE_EXEC, WIRE_RESULT, "{\"verdict\":\"ok\",\"verdict\":\"ok\"}", false },
    { WIRE_INGEST, WIRE_INGESTED,
      "{" OK_HEAD ",\"columns\":[\"a\"],"
      "\"types\":[\"INT\"],\"row_count\":9,\"report\":{\"rows\":9,\"refused\":0"
      ",\"refused_rows\":[]}}",
      true },
    { WIRE_INGEST, WIRE_INGESTED,
      "{" OK_HEAD ",\"columns\":[\"a\"],\"types\":[],\"row_count\":9,\"report\":{\"rows\":9}}",
      false },
    { WIRE_INGEST, WIRE_INGESTED,
      "{" OK_HEAD ",\"columns\":[],\"types\":[],\"row_count\":9,\"report\":{\"rows\":9"
      ",\"refused\":-1}}",
      false },
    { WIRE_INGEST, WIRE_INGESTED,
      "{\"verdict\":\"error\",\"exec_time_ms\":1,\"error\":{\"type\":\"t\",\"message\":\"m\"}}",
      true },
    { WIRE_INGEST, WIRE_INGESTED, "{\"verdict\":\"error\",\"exec_time_ms\":1}", false },
    { WIRE_LIST, WIRE_LISTED, "{" OK_HEAD ",\"files\":[],\"files_truncated\":true}", true },
    { WIRE_READ, WIRE_PIECE, "{" OK_HEAD ",\"size\":5,\"bytes\":0}", true },
    { WIRE_READ, WIRE_PIECE, "{" OK_HEAD ",\"size\":5,\"bytes\":1}", false },
    { WIRE_READ, WIRE_PIECE, "{" OK_HEAD ",\"size\":-5,\"bytes\":0}", false },
    { WIRE_WRITE, WIRE_WRITTEN, "{" OK_HEAD ",\"size\":5}", true },
    { WIRE_WRITE, WIRE_WRITTEN, "{" OK_HEAD "}", false },
};

static void test_answers(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
        close_box(state);
        open_ready(state);
        begin(answers[i].request);
        enum inbox_what what = send(answers[i].type, RUN, answers[i].body);
        if (what != (answers[i].good ? INBOX_ANSWER : INBOX_BROKEN))
            fail_msg("%s: %d %s", answers[i].body, (int)what, item.err.message);
        /* After a breach nothing is taken any more. */
        assert_int_equal(send(WIRE_DISPLAY, RUN, "{}"), INBOX_NOTHING);
        assert_true(in.over == !answers[i].good);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    begin(WIRE_READ);
    assert_int_equal(send(WIRE_BYTES, RUN, "12345"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_BYTES, RUN, "too many bytes"), INBOX_NOTHING);
    assert_int_equal(send(WIRE_PIECE, RUN, "{" OK_HEAD ",\"size\":5,\"bytes\":5}"), INBOX_ANSWER);
    assert_int_equal(in.bytes.len, 5);
    assert_memory_equal(in.bytes.data, "12345", 5);
}

static void test_asks(void **state)
{
    (void)state;
    assert_int_equal(send(WIRE_ASK, 3, "{\"what\":\"input\",\"args\":{\"prompt\":\"name?\"}}"),
                     INBOX_ASK);
    assert_string_equal(item.text, "input");
    assert_int_equal(item.id, 3);
    assert_int_equal(in.ask, 3);
    /* One that was given up for another. */
    assert_int_equal(send(WIRE_ASK, 4, "{\"what\":\"input\",\"args\":{}}"), INBOX_ASK);
    assert_int_equal(in.ask, 4);
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_ANSWER);
    assert_int_equal(in.ask, 0);
}

static char *zeros(size_t n)
{
    char *text = malloc(n * 2 + 32), *p = text;
    assert_non_null(text);
    p += sprintf(p, "{\"json\":[0");
    for (size_t i = 0; i < n; i++, p += 2)
        memcpy(p, ",0", 2);
    memcpy(p, "]}", 3);
    return text;
}

/* Small in text, large in memory: refused before it is parsed. */
static void test_too_many_values(void **state)
{
    (void)state;
    auto_free char *text = zeros(WIRE_DISPLAY_NODES);
    assert_int_equal(send(WIRE_DISPLAY, RUN, text), INBOX_BROKEN);
    assert_non_null(strstr(item.err.message, "values"));
}

static void test_displays_kept(void **state)
{
    (void)state;
    auto_free char *text = zeros(1000);
    size_t kept = 0;
    for (int i = 0; i < 200; i++)
        kept += send(WIRE_DISPLAY, RUN, text) == INBOX_DISPLAY;
    assert_int_equal(kept, DISPLAYS_MAX);
    assert_true(in.displays_dropped);
    /* By bytes, whatever kind of value they are in. */
    begin(WIRE_EXEC);
    auto_free char *large = malloc(WIRE_DISPLAY_MAX);
    assert_non_null(large);
    memset(large, ' ', WIRE_DISPLAY_MAX - 1);
    memcpy(large, "{\"text\":\"", 9);
    memcpy(large + WIRE_DISPLAY_MAX - 3, "\"}", 3);
    for (kept = 0; send(WIRE_DISPLAY, RUN, large) == INBOX_DISPLAY;)
        kept++;
    assert_int_equal(kept, DISPLAY_BYTES_MAX / WIRE_DISPLAY_MAX);
    assert_int_equal(send(WIRE_RESULT, RUN, "{" TABLE "}"), INBOX_ANSWER);
}

static void test_flood(void **state)
{
    (void)state;
    auto_buf struct buf b = BUF_INIT(1u << 20);
    for (int i = 0; i < 1000; i++)
        add(&b, WIRE_READY, 0, "{}");
    enum inbox_what what = INBOX_NOTHING;
    for (int i = 0; i < 200 && what == INBOX_NOTHING; i++)
        what = take(b.data, b.len);
    assert_int_equal(what, INBOX_FLOOD);
    assert_int_equal(take(b.data, b.len), INBOX_NOTHING);
}

static void test_flood_of_bytes(void **state)
{
    (void)state;
    auto_free char *zero = calloc(1, 1u << 20);
    unsigned char raw[WIRE_HEAD_BYTES];
    int64_t sent = 0;
    enum inbox_what what = INBOX_NOTHING;
    in.displays = DISPLAYS_MAX; /* more are permitted, and dropped */
    wire_head_write(&(struct wire_head){ .len = 1u << 20, .id = RUN, .type = WIRE_DISPLAY }, raw);
    while (what == INBOX_NOTHING && sent < 2 * INBOX_BYTES_MAX) {
        what = take((const char *)raw, sizeof(raw));
        if (what == INBOX_NOTHING)
            what = take(zero, 1u << 20);
        sent += 1u << 20;
    }
    assert_int_equal(what, INBOX_FLOOD);
    assert_true(sent > INBOX_BYTES_MAX - (2 << 20));
    assert_true(in.reader.kept.cap == 0);
}

/* Late figures are dropped; a head tells that more comes than those can be. */
static void test_flood_of_bytes_that_nothing_asked_for(void **state)
{
    (void)state;
    auto_free char *zero = calloc(1, 1u << 20);
    unsigned char raw[WIRE_HEAD_BYTES];
    wire_head_write(&(struct wire_head){ .len = 1u << 20, .id = 99, .type = WIRE_DISPLAY }, raw);
    for (int64_t sent = 0; sent < INBOX_UNASKED_BYTES_MAX; sent += 1u << 20) {
        assert_int_equal(take((const char *)raw, sizeof(raw)), INBOX_NOTHING);
        assert_int_equal(take(zero, 1u << 20), INBOX_NOTHING);
    }
    assert_int_equal(take((const char *)raw, sizeof(raw)), INBOX_FLOOD);
}

static void test_next_request_has_budgets_of_its_own(void **state)
{
    (void)state;
    in.unasked_bytes = INBOX_UNASKED_BYTES_MAX;
    begin(WIRE_EXEC);
    assert_int_equal(send(WIRE_DISPLAY, 99, "{\"text\":\"late\"}"), INBOX_NOTHING);
}

/* Bounded by what the request asked for, not only by the table. */
static void test_result_larger_than_asked_for(void **state)
{
    (void)state;
    unsigned char raw[WIRE_HEAD_BYTES];
    wire_head_write(&(struct wire_head){ .len = (uint32_t)wire_result_bytes(65536) + 1,
                                         .id = RUN,
                                         .type = WIRE_RESULT },
                    raw);
    assert_int_equal(take((const char *)raw, sizeof(raw)), INBOX_BROKEN);
}

int main(void)
{
#define BOX(test, open) cmocka_unit_test_setup_teardown(test, open, close_box)
    const struct CMUnitTest tests[] = {
        BOX(test_before_ready, open_box),
        BOX(test_other_versions, open_box),
        BOX(test_version_one, open_box),
        BOX(test_ready_counts_once, open_ready),
        BOX(test_dropped, open_ready),
        BOX(test_answers, open_ready),
        BOX(test_bytes, open_ready),
        BOX(test_asks, open_ready),
        BOX(test_too_many_values, open_ready),
        BOX(test_displays_kept, open_ready),
        BOX(test_flood, open_ready),
        BOX(test_flood_of_bytes, open_ready),
        BOX(test_flood_of_bytes_that_nothing_asked_for, open_ready),
        BOX(test_next_request_has_budgets_of_its_own, open_ready),
        BOX(test_result_larger_than_asked_for, open_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
