/* Messages of the Debug Adapter Protocol on the wire. */

#include "base/check.h"
#include "dap/frame.h"

#define REQUEST "{\"seq\":7,\"type\":\"request\",\"command\":\"threads\"}"

static void fill(struct buf *b, const char *text)
{
    struct err err = ERR_INIT;
    buf_init(b, 4u << 20);
    assert_int_equal(buf_append_str(b, text, &err), 0);
}

static void test_whole_messages_are_taken_in_order(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    auto_buf struct buf one = BUF_INIT(1024), in = BUF_INIT(8192);
    auto_json json_t *message = NULL, *again = NULL;
    assert_int_equal(json_parse(REQUEST, strlen(REQUEST), &message, &err), 0);
    assert_int_equal(dap_write(message, &one, &err), 0);
    for (size_t cut = 0; cut < one.len; cut++) { /* every cut waits for the rest */
        buf_clear(&in);
        assert_int_equal(buf_append(&in, one.data, cut, &err), 0);
        assert_int_equal(dap_take_request(&in, &again, &err), 0);
        assert_int_equal(in.len, cut);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(buf_append(&in, one.data, one.len, &err), 0);
    buf_consume(&in, one.len - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dap_take_request(&in, &again, &err), 1);
        assert_true(json_equal(message, again));
        json_decref(TAKE_PTR(again));
    }
    assert_int_equal(in.len, 0);
}

static void test_wrong_messages_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum err_code code;
    } cases[] = {
        { "Content-Length: 2\r\n\r\n{}", ERR_VALIDATION },
        { "Content-Length: 4\r\n\r\nnull", ERR_VALIDATION },
        { "Content-Length: 3\r\n\r\n{]}", ERR_INVALID_JSON },
        { "Content-Length: 2097153\r\n\r\n", ERR_TOO_LARGE },
        { "Content-Length: 99999999999999999999\r\n\r\n", ERR_PROTOCOL },
        { "Content-Length: x\r\n\r\n{}", ERR_PROTOCOL },
        { "Content-Length:\r\n\r\n{}", ERR_PROTOCOL },
        { "Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", ERR_PROTOCOL },
        { "Content-Type: x\r\n\r\n{}", ERR_PROTOCOL },
        { "Content-Length: 51\r\n\r\n{\"seq\":-1,\"type\":\"request\",\"command\":\"threads\"}    ",
          ERR_VALIDATION },
        { "Content-Length: 44\r\n\r\n{\"seq\":1,\"type\":\"event\",\"command\":\"threads\"}",
          ERR_VALIDATION },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_buf struct buf in;
        struct err err = ERR_INIT;
        json_t *message = NULL;
        fill(&in, cases[i].text);
        int r = dap_take_request(&in, &message, &err);
        if (r != -(int)cases[i].code)
            fail_msg("%s: %d %s", cases[i].text, r, err.message);
        assert_null(message);
    }
}

static void test_heads_have_a_limit(void **state)
{
    (void)state;
    auto_buf struct buf in = BUF_INIT(8192);
    struct err err = ERR_INIT;
    json_t *message = NULL;
    for (size_t i = 0; i < DAP_HEAD_MAX - 1; i++)
        assert_int_equal(buf_append_str(&in, "a", &err), 0);
    assert_int_equal(dap_take_request(&in, &message, &err), 0);
    assert_int_equal(buf_append_str(&in, "a", &err), 0);
    assert_int_equal(dap_take_request(&in, &message, &err), -ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_messages_are_taken_in_order),
        cmocka_unit_test(test_wrong_messages_are_named),
        cmocka_unit_test(test_heads_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
