/* Messages: what is sent, and what is made of what comes back, however it is cut. */

#include "streams.h"

#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
#define BEGIN                                                                                      \
    EVENT(                                                                                         \
        "message_start",                                                                           \
        ",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":20,\"cache_read_input_tokens\":5,\"output_tokens\":1}}")
#define TEXT_BLOCK(i)                                                                              \
    EVENT("content_block_start",                                                                   \
          ",\"index\":" i ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
#define TOOL_BLOCK(i, id, name)                                                                    \
    EVENT("content_block_start",                                                                   \
          ",\"index\":" i ",\"content_block\":{\"type\":\"tool_use\",\"id\":\"" id                 \
          "\",\"name\":\"" name "\",\"input\":{}}")
#define TEXT(i, text)                                                                              \
    EVENT("content_block_delta",                                                                   \
          ",\"index\":" i ",\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}")
#define JSON(i, text)                                                                              \
    EVENT("content_block_delta",                                                                   \
          ",\"index\":" i ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"" text     \
          "\"}")
#define STOP(i) EVENT("content_block_stop", ",\"index\":" i)
#define END(reason)                                                                                \
    EVENT("message_delta",                                                                         \
          ",\"delta\":{\"stop_reason\":\"" reason "\"},\"usage\":{\"output_tokens\":30}")          \
    EVENT("message_stop", "")

static void expect_error(const char *stream, enum err_code code, const char *message)
{
    struct fed f;

    feed_all_ways(&f, &llm_anthropic, stream);
    assert_int_equal(f.result, -(int)code);
    assert_string_equal(f.err.message, message);
    fed_finish(&f);
}

static void test_text(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(&f, &llm_anthropic,
                  BEGIN TEXT_BLOCK("0") EVENT("ping", "") TEXT("0", "Grü") TEXT("0", "\\u00dfe")
                      STOP("0") END("end_turn"));
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "Grüße");
    assert_int_equal(f.draft.stop, LLM_STOP_END);
    assert_true(f.draft.is_whole);
    assert_int_equal(f.draft.input_tokens, 25);
    assert_int_equal(f.draft.output_tokens, 30);
    fed_finish(&f);
}

static void test_calls(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_anthropic,
        BEGIN EVENT("content_block_start",
                    ",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}")
            EVENT("content_block_delta",
                  ",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}")
                STOP("0") TEXT_BLOCK("1") TEXT("1", "Looking.") STOP("1")
                    TOOL_BLOCK("2", "toolu_1", "run_sql") JSON("2", "")
                        JSON("2", "{\\\"sql\\\": \\\"SEL") JSON("2", "ECT 1\\\"}") STOP("2")
                            TOOL_BLOCK("3", "toolu_2", "list_files") STOP("3") END("tool_use"));
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "Looking.");
    assert_int_equal(f.draft.n_calls, 2);
    assert_string_equal(buf_cstr(&f.draft.calls[0].id), "toolu_1");
    assert_string_equal(buf_cstr(&f.draft.calls[0].name), "run_sql");
    assert_string_equal(buf_cstr(&f.draft.calls[0].arguments), "{\"sql\": \"SELECT 1\"}");
    assert_string_equal(buf_cstr(&f.draft.calls[1].arguments), "{}");
    assert_int_equal(f.draft.stop, LLM_STOP_TOOLS);
    fed_finish(&f);
}

static void test_stops(void **state)
{
    static const struct {
        const char *stream;
        enum llm_stop stop;
    } cases[] = { { BEGIN END("max_tokens"), LLM_STOP_LENGTH },
                  { BEGIN END("refusal"), LLM_STOP_REFUSAL },
                  { BEGIN END("stop_sequence"), LLM_STOP_END },
                  { BEGIN END("model_context_window_exceeded"), LLM_STOP_LENGTH } };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fed f;

        feed_all_ways(&f, &llm_anthropic, cases[i].stream);
        assert_int_equal(f.result, 0);
        assert_int_equal(f.draft.stop, cases[i].stop);
        fed_finish(&f);
    }
}

static void test_errors(void **state)
{
    (void)state;
    expect_error(
        BEGIN
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        ERR_LLM_UNAVAILABLE, "the model's server reports an error (overloaded_error): Overloaded");
    expect_error(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n",
        ERR_LLM_RATE_LIMITED, "the model's server reports an error (rate_limit_error): slow");
    expect_error(BEGIN JSON("4", "{}"), ERR_LLM_BAD_RESPONSE,
                 "the model's stream fills a block that it did not begin");
    expect_error(BEGIN TOOL_BLOCK("1", "a", "f") TOOL_BLOCK("1", "b", "f"), ERR_LLM_BAD_RESPONSE,
                 "the model's stream begins block 1 twice");
    expect_error(
        "event: message_start\ndata: nonsense\n\n", ERR_LLM_BAD_RESPONSE,
        "the model's server sent an event that cannot be read: invalid JSON at line 1, column 8: invalid token near 'nonsense'");
    expect_error("event: ping\ndata: 7\n\n", ERR_LLM_BAD_RESPONSE,
                 "the model's server sent JSON of type integer where an object is due");
    expect_error(BEGIN TOOL_BLOCK("1", "a", "") STOP("1") END("tool_use"), ERR_LLM_BAD_RESPONSE,
                 "the model's reply calls a tool without naming it");
}

static void test_whole(void **state)
{
    auto_json json_t *body = json_loads(
        "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"tool_use\",\"id\":"
        "\"a\",\"name\":\"f\",\"input\":{\"x\":1}}],\"stop_reason\":\"tool_use\",\"usage\":"
        "{\"input_tokens\":3,\"output_tokens\":4}}",
        0, NULL);
    struct llm_draft d;
    struct err err = ERR_INIT;

    (void)state;
    llm_draft_init(&d);
    assert_works(llm_anthropic.whole(&d, body, &err), &err);
    assert_works(llm_draft_close(&d, &err), &err);
    assert_string_equal(buf_cstr(&d.text), "hi");
    assert_string_equal(buf_cstr(&d.calls[0].arguments), "{\"x\":1}");
    assert_int_equal(d.stop, LLM_STOP_TOOLS);
    assert_int_equal(d.input_tokens, 3);
    llm_draft_finish(&d);
}

/*
 * Answers of tools and what the user says then are one message; empty text is left out; unreadable
 * arguments are shown.
 */
static void test_request(void **state)
{
    struct llm_target t = { .key = (char *)"k", .model = (char *)"m", .max_tokens = 99 };
    struct llm_tool_call calls[] = { { "a", "f", "{\"x\":1}" }, { "b", "f", "{\"x\":" } };
    struct llm_message messages[] = {
        { .role = LLM_USER, .content = "hi" },
        { .role = LLM_ASSISTANT, .content = "", .calls = calls, .n_calls = 2 },
        { .role = LLM_TOOL, .tool_call_id = "a", .content = "1" },
        { .role = LLM_TOOL, .tool_call_id = "b", .content = "bad", .is_error = true },
        { .role = LLM_USER, .content = "go on" },
        { .role = LLM_ASSISTANT, .content = "" },
        { .role = LLM_USER, .content = "please" }
    };
    auto_json json_t *schema = json_pack("{s:s}", "type", "object");
    struct llm_tool tools[] = { { "f", "does it", schema } };
    struct llm_request req = { .system = "sys",
                               .messages = messages,
                               .n_messages = 7,
                               .tools = tools,
                               .n_tools = 1,
                               .tool_choice = LLM_TOOLS_REQUIRED,
                               .max_tokens = 5 };
    auto_json json_t *body = llm_anthropic.request(&t, &req, 0);
    auto_free char *text = json_to_str(body);

    (void)state;
    assert_string_equal(
        text,
        "{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}},"
        "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"f\",\"input\":{\"unreadable\":\"{\\\"x\\\":\"}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"1\"},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":\"bad\",\"is_error\":true},"
        "{\"type\":\"text\",\"text\":\"go on\"},{\"type\":\"text\",\"text\":\"please\"}]}],\"stream\":true,\"system\":\"sys\","
        "\"tools\":[{\"name\":\"f\",\"description\":\"does it\",\"input_schema\":{\"type\":\"object\"}}],"
        "\"tool_choice\":{\"type\":\"any\"},\"cache_control\":{\"type\":\"ephemeral\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_calls), cmocka_unit_test(test_stops),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_whole), cmocka_unit_test(test_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
