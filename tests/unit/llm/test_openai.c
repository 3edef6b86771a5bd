/* Chat Completions: what is sent, and what is made of what comes back, however it is cut. */

#include "streams.h"

#define CHUNK(delta, finish)                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" finish "}]}\n\n"

static void expect_error(const char *stream, enum err_code code, const char *message)
{
    struct fed f;

    feed_all_ways(&f, &llm_openai, stream);
    assert_int_equal(f.result, -(int)code);
    assert_string_equal(f.err.message, message);
    fed_finish(&f);
}

static void test_text(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_openai,
        CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "null") CHUNK("{\"content\":\"Grü\"}",
                                                                         "null")
            CHUNK("{\"content\":\"\\u00dfe \\ud83d\\ude00\"}", "null") CHUNK(
                "{}",
                "\"stop\"") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":5,\"total_tokens\":17}}\n\n"
                            "data: [DONE]\n\n");
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "Grüße 😀");
    assert_int_equal(f.draft.stop, LLM_STOP_END);
    assert_true(f.draft.is_whole && f.draft.has_stop);
    assert_int_equal(f.draft.input_tokens, 12);
    assert_int_equal(f.draft.output_tokens, 5);
    fed_finish(&f);
}

static void assert_call(const struct fed *f, size_t i, const char *id, const char *name,
                        const char *arguments)
{
    assert_true(i < f->draft.n_calls);
    assert_string_equal(buf_cstr(&f->draft.calls[i].id), id);
    assert_string_equal(buf_cstr(&f->draft.calls[i].name), name);
    assert_string_equal(buf_cstr(&f->draft.calls[i].arguments), arguments);
}

/* Two calls whose pieces are mixed: they are told apart by their index. */
static void test_parallel_calls(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_openai,
        CHUNK(
            "{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"run_sql\","
            "\"arguments\":\"\"}}]}",
            "null")
            CHUNK(
                "{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"run_plan\",\"arguments\":\"\"}}]}",
                "null")
                CHUNK(
                    "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"sql\\\":\"}}]}",
                    "null")
                    CHUNK("{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{}\"}},"
                          "{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}",
                          "null") CHUNK("{}", "\"tool_calls\"") "data: [DONE]\n\n");
    assert_int_equal(f.result, 0);
    assert_int_equal(f.draft.n_calls, 2);
    assert_call(&f, 0, "a", "run_sql", "{\"sql\":1}");
    assert_call(&f, 1, "b", "run_plan", "{}");
    assert_int_equal(f.draft.stop, LLM_STOP_TOOLS);
    fed_finish(&f);
}

/*
 * What other servers do: every call is number 0, no index, no id, whole arguments as an object,
 * "stop" in spite of calls.
 */
static void test_odd_calls(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_openai,
        CHUNK(
            "{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"one\",\"arguments\":\"{}\"}},"
            "{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"two\",\"arguments\":{\"x\":[1,null]}}}]}",
            "\"stop\"") "data: [DONE]\n\n");
    assert_int_equal(f.result, 0);
    assert_int_equal(f.draft.n_calls, 2);
    assert_call(&f, 0, "a", "one", "{}");
    assert_call(&f, 1, "b", "two", "{\"x\":[1,null]}");
    assert_int_equal(f.draft.stop, LLM_STOP_TOOLS);
    fed_finish(&f);

    feed_all_ways(
        &f, &llm_openai,
        CHUNK(
            "{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"one\",\"arguments\":\"{\"}}]}",
            "null") CHUNK("{\"tool_calls\":[{\"function\":{\"arguments\":\"}\"}}]}", "null")
            CHUNK("{\"tool_calls\":[{\"id\":\"b\",\"function\":{\"name\":\"two\"}}]}", "null")
                CHUNK("{}", "\"tool_calls\""));
    assert_int_equal(f.draft.n_calls, 2);
    assert_call(&f, 0, "a", "one", "{}");
    assert_call(&f, 1, "b", "two", "{}");
    fed_finish(&f);

    feed_all_ways(
        &f, &llm_openai,
        CHUNK(
            "{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"one\",\"arguments\":\"{\\\"a\\\":\"}}]}",
            "null")
            CHUNK(
                "{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"one\",\"arguments\":\"2}\"}}]}",
                "\"tool_calls\""));
    assert_int_equal(f.draft.n_calls, 1);
    assert_call(&f, 0, "call00001", "one", "{\"a\":2}");
    fed_finish(&f);
}

static void test_refusal(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(&f, &llm_openai,
                  CHUNK("{\"refusal\":\"I cannot \"}", "null")
                      CHUNK("{\"refusal\":\"do that.\"}", "\"stop\""));
    assert_int_equal(f.draft.stop, LLM_STOP_REFUSAL);
    assert_string_equal(buf_cstr(&f.draft.text), "I cannot do that.");
    fed_finish(&f);
    feed_all_ways(&f, &llm_openai, CHUNK("{}", "\"content_filter\""));
    assert_int_equal(f.draft.stop, LLM_STOP_REFUSAL);
    fed_finish(&f);
}

static void test_small_things(void **state)
{
    struct fed f;

    (void)state;
    /*
     * Comments as heart-beats, other choices, text in parts, unknown members, no space behind the
     * colon, CRLF.
     */
    feed_all_ways(
        &f, &llm_openai,
        ": OPENROUTER PROCESSING\r\n\r\n"
        "data:{\"x\":1,\"choices\":[{\"index\":1,\"delta\":{\"content\":\"not asked for\"}}]}\r\n\r\n"
        "data:{\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"part\"}],\"reasoning\":\"…\"}}]}\r\n\r\n"
        "data:{\"choices\":[{\"delta\":null,\"finish_reason\":\"length\"}],\"usage\":null}\r\n\r\n"
        "data: [DONE]\r\n\r\n");
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "part");
    assert_int_equal(f.draft.stop, LLM_STOP_LENGTH);
    fed_finish(&f);
}

static void test_errors(void **state)
{
    (void)state;
    expect_error(
        "data: {\"choices\":[{\"delta\":{\"content\":\n\n", ERR_LLM_BAD_RESPONSE,
        "the model's server sent an event that cannot be read: invalid JSON at line 1, column 32: unexpected token near "
        "end of file");
    expect_error("data: [1]\n\n", ERR_LLM_BAD_RESPONSE,
                 "the model's server sent JSON of type array where an object is due");
    expect_error("data: {\"choices\":{}}\n\n", ERR_LLM_BAD_RESPONSE,
                 "the model's server sent 'choices' that are no array");
    expect_error(
        CHUNK("{\"content\":\"half\"}",
              "null") "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n",
        ERR_LLM_UNAVAILABLE, "the model's server reports an error (server_error): boom");
    expect_error(
        "data: {\"error\":{\"message\":\"slow down\",\"code\":\"rate_limit_exceeded\"}}\n\n",
        ERR_LLM_RATE_LIMITED, "the model's server reports an error: slow down");
    expect_error(
        "data: {\"object\":\"error\",\"message\":\"too long\",\"type\":\"invalid_request_error\"}\n\n",
        ERR_LLM_REJECTED, "the model's server reports an error (invalid_request_error): too long");
    expect_error("data: {\"error\":\"plain\"}\n\n", ERR_LLM_UNAVAILABLE,
                 "the model's server reports an error: plain");
    expect_error(
        "data: {\"error\":{\"message\":\"bad key sk-a-secret-of-tests, sk-a-secret-of-tests\"}}\n\n",
        ERR_LLM_UNAVAILABLE, "the model's server reports an error: bad key [key], [key]");
    expect_error(
        CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{}}]}", "\"tool_calls\""),
        ERR_LLM_BAD_RESPONSE, "the model's reply calls a tool without naming it");
}

static void test_limits(void **state)
{
    auto_buf struct buf b = BUF_INIT(16u << 20);
    struct fed f;

    (void)state;
    for (int i = 0; i <= LLM_CALLS_MAX; i++)
        assert_int_equal(
            buf_printf(
                &b, NULL,
                CHUNK(
                    "{\"tool_calls\":[{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"f\"}}]}",
                    "null"),
                i, i),
            0);
    feed(&f, &llm_openai, b.data, b.len, 512);
    assert_int_equal(f.result, -ERR_LLM_BAD_RESPONSE);
    assert_string_equal(f.err.message, "the model's reply calls tools more than 16 times");
    fed_finish(&f);

    buf_clear(&b);
    for (unsigned n = 0; n <= LLM_TEXT_MAX; n += 64)
        assert_int_equal(buf_printf(&b, NULL, CHUNK("{\"content\":\"%064d\"}", "null"), 0), 0);
    feed(&f, &llm_openai, b.data, b.len, 16384);
    assert_int_equal(f.result, -ERR_LLM_BAD_RESPONSE);
    assert_string_equal(f.err.message,
                        "the text of the model's reply is larger than the limit of 1048576 bytes");
    assert_int_equal(f.tokens.len, LLM_TEXT_MAX);
    fed_finish(&f);

    buf_clear(&b);
    assert_int_equal(
        buf_printf(
            &b, NULL,
            CHUNK(
                "{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"%0300d\"}}]}",
                "null"),
            0),
        0);
    feed(&f, &llm_openai, b.data, b.len, 512);
    assert_int_equal(f.result, -ERR_LLM_BAD_RESPONSE);
    assert_string_equal(
        f.err.message,
        "the name of a tool of the model's reply is larger than the limit of 256 bytes");
    fed_finish(&f);
}

static void test_whole(void **state)
{
    auto_json json_t *body = json_loads(
        "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\",\"tool_calls\":"
        "[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
        "\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
        0, NULL);
    auto_json json_t *other = json_pack("{s:i}", "x", 1);
    struct llm_draft d;
    struct err err = ERR_INIT;

    (void)state;
    llm_draft_init(&d);
    assert_works(llm_openai.whole(&d, body, &err), &err);
    assert_works(llm_draft_close(&d, &err), &err);
    assert_string_equal(buf_cstr(&d.text), "hi");
    assert_int_equal(d.n_calls, 1);
    assert_int_equal(d.stop, LLM_STOP_TOOLS);
    assert_int_equal(d.output_tokens, 2);
    assert_fails(llm_openai.whole(&d, other, &err), &err, ERR_LLM_BAD_RESPONSE,
                 "the model's server sent JSON that is no completion");
    llm_draft_finish(&d);
}

static void test_request(void **state)
{
    struct llm_target t = { .key = (char *)"k", .model = (char *)"m", .max_tokens = 99 };
    struct llm_tool_call calls[] = { { "a", "f", "{\"x\":1}" } };
    struct llm_message messages[] = { { .role = LLM_USER, .content = "hi \xff" },
                                      { .role = LLM_ASSISTANT, .calls = calls, .n_calls = 1 },
                                      { .role = LLM_TOOL, .tool_call_id = "a", .content = "1" },
                                      { .role = LLM_ASSISTANT, .content = "one" } };
    auto_json json_t *schema = json_pack("{s:s}", "type", "object");
    struct llm_tool tools[] = { { "f", "does it", schema } };
    struct llm_request req = { .system = "sys",
                               .messages = messages,
                               .n_messages = 4,
                               .tools = tools,
                               .n_tools = 1,
                               .tool_choice = LLM_TOOLS_REQUIRED };
    auto_json json_t *body = llm_openai.request(&t, &req, 0);
    auto_free char *text = json_to_str(body);

    (void)state;
    assert_string_equal(
        text,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"sys\"},{\"role\":\"user\",\"content\":\"hi \xef\xbf\xbd\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"1\"},"
        "{\"role\":\"assistant\",\"content\":\"one\"}],\"stream\":true,\"tools\":[{\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"description\":\"does it\",\"parameters\":{\"type\":\"object\"}}}],\"tool_choice\":\"required\","
        "\"stream_options\":{\"include_usage\":true},\"max_tokens\":99}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),         cmocka_unit_test(test_parallel_calls),
        cmocka_unit_test(test_odd_calls),    cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_small_things), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_whole),
        cmocka_unit_test(test_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
