/*
 * What servers send that is not quite the protocol, what has to go back to them, and what they
 * refuse.
 */

#include "streams.h"

#define CHUNK(delta, finish)                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" finish "}]}\n\n"
#define CALL(index, name, arguments)                                                               \
    "{\"tool_calls\":[{\"index\":" index ",\"function\":{\"name\":\"" name                         \
    "\",\"arguments\":\"" arguments "\"}}]}"

static const struct llm_tool offered[] = { { .name = "run_sql" }, { .name = "list_files" } };

static void assert_call(const struct llm_draft *d, size_t i, const char *name,
                        const char *arguments)
{
    assert_true(i < d->n_calls);
    assert_string_equal(buf_cstr(&d->calls[i].name), name);
    assert_string_equal(buf_cstr(&d->calls[i].arguments), arguments);
}

static void assert_json(json_t *taken, const char *want)
{
    auto_json json_t *j = taken;
    auto_free char *text = j ? json_to_str(j) : NULL;

    assert_string_equal(text ? text : "(nothing)", want);
}

static void test_lenient_json(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{\"seed\":14836394043272784000,\"n\":7}", "{\"seed\":1.4836394043272784e+19,\"n\":7}" },
        { "{\"a\":1,\"a\":2}", "{\"a\":2}" },
        { "{\"p\":NaN,\"q\":-Infinity,\"r\":1e999}", "{\"p\":null,\"q\":null,\"r\":null}" },
        { "\"a\\ud83d b\\u0000\\udc00\\ud83d\\ude00\"",
          "\"a\xef\xbf\xbd b\xef\xbf\xbd\xef\xbf\xbd😀\"" },
        { "\"\xff tab\there\"", "\"\xef\xbf\xbd tab\\there\"" },
    };
    struct err err = ERR_INIT;
    json_t *j = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_works(llm_json_read(cases[i].text, strlen(cases[i].text), &j, &err), &err);
        assert_json(j, cases[i].want);
    }
    assert_fails(llm_json_read("{\"a\":", 5, &j, &err), &err, ERR_INVALID_JSON,
                 "invalid JSON at line 1, column 5: unexpected token near end of file");
}

/* Together's random seed on the last chunk ended the reply. */
static void test_large_numbers_in_a_stream(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_openai,
        CHUNK(
            "{\"content\":\"hi\"}",
            "null") "data: {\"choices\":[{\"index\":0,\"seed\":14836394043272784000,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "hi");
    fed_finish(&f);
}

static void test_calls_that_are_all_number_0(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(&f, &llm_openai,
                  CHUNK(CALL("0", "run_sql", "{\\\"sql\\\":1}"), "null")
                      CHUNK(CALL("0", "list_files", "{}"), "null")
                          CHUNK(CALL("0", "run_sql", "{\\\"sql\\\":2}"), "\"tool_calls\""));
    assert_int_equal(f.result, 0);
    assert_int_equal(f.draft.n_calls, 3);
    assert_call(&f.draft, 0, "run_sql", "{\"sql\":1}");
    assert_call(&f.draft, 1, "list_files", "{}");
    assert_call(&f.draft, 2, "run_sql", "{\"sql\":2}");
    assert_string_not_equal(buf_cstr(&f.draft.calls[0].id), buf_cstr(&f.draft.calls[1].id));
    fed_finish(&f);
}

/* Objects that were joined before they came here are told apart, too. */
static void test_joined_calls(void **state)
{
    struct llm_draft d;
    struct llm_draft_call *c;
    struct err err = ERR_INIT;

    (void)state;
    llm_draft_init(&d);
    d.tools = offered;
    d.n_tools = ARRAY_SIZE(offered);
    assert_works(llm_draft_add_call(&d, 0, "a", "run_sqllist_files", &c, &err), &err);
    assert_works(llm_draft_arguments(c, "{\"sql\":\"}{\"}{}", 14, &err), &err);
    assert_works(llm_draft_close(&d, &err), &err);
    assert_int_equal(d.n_calls, 2);
    assert_call(&d, 0, "run_sql", "{\"sql\":\"}{\"}");
    assert_call(&d, 1, "list_files", "{}");
    llm_draft_finish(&d);
}

struct told {
    char text[4000], thoughts[4000];
};

static int tell(void *arg, const char *text, size_t len)
{
    strncat(((struct told *)arg)->text, text, len);
    return 0;
}

static int tell_thought(void *arg, const char *text, size_t len)
{
    strncat(((struct told *)arg)->thoughts, text, len);
    return 0;
}

/* A text in pieces of `step` bytes; the draft is closed. */
static void write_text(struct llm_draft *d, struct told *told, const char *text, size_t step)
{
    struct err err = ERR_INIT;

    memset(told, 0, sizeof(*told));
    llm_draft_init(d);
    d->tools = offered;
    d->n_tools = ARRAY_SIZE(offered);
    d->token = tell;
    d->thought = tell_thought;
    d->token_arg = told;
    for (size_t at = 0; at < strlen(text); at += step)
        assert_works(llm_draft_text(d, text + at, MIN_OF(step, strlen(text) - at), &err), &err);
    assert_works(llm_draft_close(d, &err), &err);
    assert_string_equal(buf_cstr(&d->text), told->text);
}

static void test_thinking_in_the_text(void **state)
{
    static const struct {
        const char *text, *thoughts, *rest;
    } cases[] = {
        { "<think>\nSELECT 1 < 2\n</think>\n\nIt is 4.", "\nSELECT 1 < 2\n", "It is 4." },
        { "\n <thinking>a</thinking>b", "a", "b" },
        { "<think>never ends", "never ends", "" },
        { "First.\n<think>more</think>\nThen.", "more", "First.\nThen." },
        { "a <think> in a sentence", "", "a <think> in a sentence" },
        { "\n\nplain <b>text</b> [1]\n", "", "\n\nplain <b>text</b> [1]\n" },
        { "<thin", "", "<thin" },
        { "<think></think>", "", "" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (size_t step = 1; step < 40; step++) {
            struct llm_draft d;
            struct told told;

            write_text(&d, &told, cases[i].text, step);
            assert_string_equal(told.text, cases[i].rest);
            assert_string_equal(told.thoughts, cases[i].thoughts);
            assert_int_equal(d.n_calls, 0);
            llm_draft_finish(&d);
        }
    }
}

static void test_calls_written_as_text(void **state)
{
    static const char *const texts[] = {
        "{\"name\":\"run_sql\",\"arguments\":{\"sql\":\"SELECT 1\"}}",
        "```json\n{\"name\": \"run_sql\", \"arguments\": {\"sql\": \"SELECT 1\"}}\n```",
        "<tool_call>\n{\"name\": \"run_sql\", \"arguments\": {\"sql\": \"SELECT 1\"}}\n</tool_call>",
        "[{\"name\": \"run_sql\", \"parameters\": {\"sql\": \"SELECT 1\"}}]",
        "{\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"run_sql\",\"arguments\":\"{\\\"sql\\\":\\\"SELECT 1\\\"}\"}}]}",
        "<function=run_sql>{\"sql\": \"SELECT 1\"}</function>",
        "<tool_call>\n<function=run_sql>\n<parameter=sql>\nSELECT 1\n</parameter>\n</function>\n</tool_call>",
        "[TOOL_CALLS]run_sql[ARGS]{\"sql\": \"SELECT 1\"}",
        "<|python_tag|>{\"name\": \"run_sql\", \"parameters\": {\"sql\": \"SELECT 1\"}}",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.run_sql:0<|tool_call_argument_begin|>{\"sql\": \"SELECT 1\"}<|tool_call_end|>",
        "<think>hm</think>\n<tool_call>{\"name\": \"run_sql\", \"arguments\": {\"sql\": \"SELECT 1\"}}</tool_call>",
    };
    static const char *const words[] = {
        "{\"name\": \"Ann\", \"age\": 3}",
        "{\"answer\": 4}",
        "```json\n{\"a\": 1}\n```",
        "```sql\nSELECT 1\n```",
        "[1] is a source.",
        "{curly} words",
        "{\"name\": \"run_sql\"",
        "Call {\"name\": \"run_sql\", \"arguments\": {}} yourself."
    };

    (void)state;
    for (size_t step = 1; step < 60; step += 6) {
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
            struct llm_draft d;
            struct told told;

            write_text(&d, &told, texts[i], step);
            assert_string_equal(told.text, "");
            assert_int_equal(d.n_calls, 1);
            assert_call(&d, 0, "run_sql", "{\"sql\":\"SELECT 1\"}");
            assert_int_equal(d.stop, LLM_STOP_TOOLS);
            llm_draft_finish(&d);
        }
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
            struct llm_draft d;
            struct told told;

            write_text(&d, &told, words[i], step);
            assert_string_equal(told.text, words[i]);
            assert_int_equal(d.n_calls, 0);
            llm_draft_finish(&d);
        }
    }
}

/* Words before a tagged call are told, the call is not. */
static void test_words_before_a_call(void **state)
{
    struct llm_draft d;
    struct told told;

    (void)state;
    write_text(
        &d, &told,
        "Let me look.\n<tool_call>\n{\"name\": \"list_files\", \"arguments\": {}}\n</tool_call>",
        5);
    assert_string_equal(told.text, "Let me look.\n");
    assert_call(&d, 0, "list_files", "{}");
    llm_draft_finish(&d);
}

static void test_kept_members_of_chat(void **state)
{
    struct llm_target t = { .key = (char *)"k", .model = (char *)"m", .max_tokens = 9 };
    struct llm_tool_call calls[] = { { "a", "run_sql", "{}" } };
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_openai,
        CHUNK("{\"role\":\"assistant\",\"reasoning_content\":\"think \",\"content\":null}", "null") CHUNK(
            "{\"reasoning_content\":\"twice\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"index\":0,\"text\":\"a\"}]}",
            "null")
            CHUNK(
                "{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"index\":0,\"text\":\"b\",\"signature\":\"s\"}]}",
                "null")
                CHUNK(
                    "{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"extra_content\":{\"google\":{\"thought_signature\":"
                    "\"sig\"}},\"function\":{\"name\":\"run_sql\",\"arguments\":\"{}\"}}]}",
                    "\"tool_calls\""));
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.thinking), "think twice");
    auto_json json_t *kept = llm_openai.keep(&f.draft);
    auto_free char *text = json_to_str(kept);
    assert_string_equal(
        text,
        "{\"message\":{\"reasoning_content\":\"think twice\",\"reasoning_details\":[{\"type\":\"reasoning.text\",\"index\":0,"
        "\"text\":\"ab\",\"signature\":\"s\"}]},\"calls\":[{\"extra_content\":{\"google\":{\"thought_signature\":\"sig\"}}}]}");
    fed_finish(&f);

    struct llm_message message = {
        .role = LLM_ASSISTANT, .calls = calls, .n_calls = 1, .kept = kept
    };
    struct llm_request req = { .messages = &message, .n_messages = 1 };
    auto_json json_t *body = llm_openai.request(&t, &req, 0);
    const json_t *sent = json_array_get(json_object_get(body, "messages"), 0);
    assert_string_equal(json_string_value(json_object_get(sent, "reasoning_content")),
                        "think twice");
    assert_non_null(
        json_object_get(json_array_get(json_object_get(sent, "tool_calls"), 0), "extra_content"));
    auto_json json_t *without = llm_openai.request(&t, &req, LLM_NO_ECHO);
    sent = json_array_get(json_object_get(without, "messages"), 0);
    assert_null(json_object_get(sent, "reasoning_content"));
    message.kept = NULL;
    auto_json json_t *filled = llm_openai.request(&t, &req,
                                                  LLM_FILL_REASONING | LLM_FILL_SIGNATURE);
    sent = json_array_get(json_object_get(filled, "messages"), 0);
    assert_string_equal(json_string_value(json_object_get(sent, "reasoning_content")), ".");
    assert_non_null(
        json_object_get(json_array_get(json_object_get(sent, "tool_calls"), 0), "extra_content"));
}

#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
#define BLOCK(index, block)                                                                        \
    EVENT("content_block_start", ",\"index\":" index ",\"content_block\":" block)
#define DELTA(index, delta) EVENT("content_block_delta", ",\"index\":" index ",\"delta\":" delta)

static void test_kept_blocks_of_anthropic(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_anthropic,
        BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}") DELTA(
            "0", "{\"type\":\"thinking_delta\",\"thinking\":\"hm \"}")
            DELTA("0", "{\"type\":\"thinking_delta\",\"thinking\":\"so\"}") DELTA(
                "0", "{\"type\":\"signature_delta\",\"signature\":\"sig\"}")
                BLOCK("1", "{\"type\":\"redacted_thinking\",\"data\":\"xyz\"}") BLOCK(
                    "2", "{\"type\":\"text\",\"text\":\"\"}")
                    DELTA("2", "{\"type\":\"text_delta\",\"text\":\"Look.\"}") BLOCK(
                        "3",
                        "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{}}")
                        DELTA("3",
                              "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":1}\"}")
                            BLOCK(
                                "4",
                                "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"run_sql\",\"input\":{}}")
                                DELTA(
                                    "4",
                                    "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"sql\\\":\\\"x\\\"}\"}")
                                    EVENT(
                                        "message_delta",
                                        ",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":5}")
                                        EVENT("message_stop", ""));
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "Look.");
    assert_string_equal(buf_cstr(&f.draft.thinking), "hm so");
    assert_int_equal(f.draft.n_calls, 1);
    assert_json(
        llm_anthropic.keep(&f.draft),
        "[{\"type\":\"thinking\",\"thinking\":\"hm so\",\"signature\":\"sig\"},{\"type\":\"redacted_thinking\",\"data\":\"xyz\"},"
        "{\"type\":\"text\",\"text\":\"Look.\"},{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{\"q\":1}},"
        "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"run_sql\",\"input\":{\"sql\":\"x\"}}]");
    fed_finish(&f);
}

static void test_responses(void **state)
{
    struct llm_target t = {
        .key = (char *)"k", .model = (char *)"gpt-6-luna", .max_tokens = 9, .effort = "low"
    };
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_responses,
        EVENT("response.created", ",\"response\":{\"id\":\"r\",\"error\":null}") EVENT(
            "response.output_item.done",
            ",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],"
            "\"encrypted_content\":\"enc\"}")
            EVENT("response.output_item.added",
                  ",\"output_index\":1,\"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":[]}")
                EVENT("response.output_text.delta", ",\"output_index\":1,\"delta\":\"Let me \"") EVENT(
                    "response.output_text.delta", ",\"output_index\":1,\"delta\":\"look.\"")
                    EVENT(
                        "response.output_item.done",
                        ",\"output_index\":1,\"item\":{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\","
                        "\"content\":[{\"type\":\"output_text\",\"text\":\"Let me look.\"}]}")
                        EVENT(
                            "response.output_item.added",
                            ",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"id\":\"f\",\"call_id\":\"c1\","
                            "\"name\":\"run_sql\",\"arguments\":\"\"}")
                            EVENT("response.function_call_arguments.delta",
                                  ",\"output_index\":2,\"delta\":\"{\\\"sql\\\":\"")
                                EVENT("response.function_call_arguments.delta",
                                      ",\"output_index\":2,\"delta\":\"1}\"")
                                    EVENT(
                                        "response.output_item.done",
                                        ",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"id\":\"f\",\"call_id\":\"c1\","
                                        "\"name\":\"run_sql\",\"arguments\":\"{\\\"sql\\\":1}\"}")
                                        EVENT(
                                            "response.completed",
                                            ",\"response\":{\"status\":\"completed\",\"error\":null,\"output\":[],\"usage\":{\"input_tokens\":7,"
                                            "\"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":3}}"));
    assert_int_equal(f.result, 0);
    assert_string_equal(buf_cstr(&f.draft.text), "Let me look.");
    assert_call(&f.draft, 0, "run_sql", "{\"sql\":1}");
    assert_string_equal(buf_cstr(&f.draft.calls[0].id), "c1");
    assert_int_equal(f.draft.stop, LLM_STOP_TOOLS);
    assert_int_equal(f.draft.cached_tokens, 4);
    auto_json json_t *kept = llm_responses.keep(&f.draft);
    assert_int_equal(json_array_size(kept), 3);
    fed_finish(&f);

    struct llm_image image = { "image/png", "iVBOR" };
    struct llm_message messages[] = {
        { .role = LLM_USER, .content = "hi" },
        { .role = LLM_ASSISTANT, .content = "Let me look.", .kept = kept },
        { .role = LLM_TOOL, .tool_call_id = "c1", .content = "1", .images = &image, .n_images = 1 }
    };
    struct llm_request req = {
        .system = "sys", .messages = messages, .n_messages = 3, .tools = offered, .n_tools = 1
    };
    assert_json(
        llm_responses.request(&t, &req, 0),
        "{\"model\":\"gpt-6-luna\",\"input\":[{\"role\":\"user\",\"content\":\"hi\"},{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],"
        "\"encrypted_content\":\"enc\"},{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"Let me look.\"}]},{\"type\":\"function_call\",\"id\":\"f\",\"call_id\":\"c1\",\"name\":\"run_sql\",\"arguments\":"
        "\"{\\\"sql\\\":1}\"},{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":[{\"type\":\"input_text\",\"text\":\"1\"},"
        "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,iVBOR\"}]}],\"stream\":true,\"store\":false,\"instructions\":"
        "\"sys\",\"tools\":[{\"type\":\"function\",\"name\":\"run_sql\",\"description\":\"\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{}},\"strict\":false}],\"tool_choice\":\"auto\",\"include\":[\"reasoning.encrypted_content\"],\"reasoning\":"
        "{\"effort\":\"low\"},\"max_output_tokens\":9}");
}

static void test_responses_that_end_otherwise(void **state)
{
    struct fed f;

    (void)state;
    feed_all_ways(
        &f, &llm_responses,
        EVENT(
            "response.incomplete",
            ",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":"
            "\"max_output_tokens\"},\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\","
            "\"text\":\"half\"}]}]}"));
    assert_int_equal(f.draft.stop, LLM_STOP_LENGTH);
    assert_string_equal(buf_cstr(&f.draft.text), "half");
    fed_finish(&f);
    feed_all_ways(&f, &llm_responses,
                  EVENT("response.failed",
                        ",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\","
                        "\"message\":\"boom\"},\"output\":[]}"));
    assert_int_equal(f.result, -ERR_LLM_UNAVAILABLE);
    assert_string_equal(f.err.message, "the model's server reports an error: boom");
    fed_finish(&f);
    feed_all_ways(
        &f, &llm_responses,
        EVENT("error", ",\"code\":\"rate_limit_exceeded\",\"message\":\"slow\",\"param\":null"));
    assert_int_equal(f.result, -ERR_LLM_RATE_LIMITED);
    fed_finish(&f);
}

/*
 * Arguments that are no object are never sent back as they are: llama.cpp and vLLM parse the
 * history.
 */
static void test_unreadable_arguments_go_back_readable(void **state)
{
    struct llm_target t = { .key = (char *)"k", .model = (char *)"m", .max_tokens = 9 };
    struct llm_tool_call calls[] = { { "a", "f", "{{{{ no" },
                                     { "b", "f", "[1]" },
                                     { "c", "f", "{\"x\": 1}" } };
    struct llm_message message = { .role = LLM_ASSISTANT, .calls = calls, .n_calls = 3 };
    struct llm_request req = { .messages = &message, .n_messages = 1 };
    static const char *const want[] = { "{\"unreadable\":\"{{{{ no\"}", "{\"unreadable\":\"[1]\"}",
                                        "{\"x\": 1}" };

    (void)state;
    auto_json json_t *body = llm_openai.request(&t, &req, 0);
    const json_t *sent = json_object_get(json_array_get(json_object_get(body, "messages"), 0),
                                         "tool_calls");
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_object_get(
                                json_object_get(json_array_get(sent, i), "function"), "arguments")),
                            want[i]);
}

/* Errors of every shape are read to their reason. */
static void test_complaints(void **state)
{
    static const struct {
        const char *body, *message;
    } cases[] = {
        { "{\"error\":{\"message\":\"a\",\"type\":\"t\",\"code\":null}}", "a" },
        { "[{\"error\":{\"code\":400,\"message\":\"Function call is missing a thought_signature\",\"status\":\"INVALID_ARGUMENT\"}}]",
          "Function call is missing a thought_signature" },
        { "{\"error\":\"plain\"}", "plain" },
        { "{\"detail\":[{\"type\":\"extra_forbidden\",\"loc\":[\"body\",\"stream_options\"],\"msg\":\"Extra inputs are not permitted\"}]}",
          "stream_options; Extra inputs are not permitted" },
        { "{\"object\":\"error\",\"message\":{\"detail\":[{\"loc\":[\"body\",\"x\"],\"msg\":\"no\"}]},\"code\":\"422\"}",
          "x; no" },
        { "{\"error\":{\"message\":\"Provider returned error\",\"code\":400,\"metadata\":{\"raw\":\"{\\\"error\\\":{\\\"message\\\":\\\"too hot\\\"}}\"}}}",
          "Provider returned error; too hot" },
        { "{\"detail\":\"Not Found\"}", "Not Found" },
        { "{\"errors\":[{\"message\":\"one\"},{\"message\":\"two\"}]}", "one; two" },
        { "{\"weird\":{\"deep\":[\"words\"]}}", "words" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *body = json_loads(cases[i].body, 0, NULL);
        struct llm_complaint c;

        assert_true(llm_complaint_read(body, true, &c));
        assert_string_equal(c.message, cases[i].message);
    }
}

static unsigned learn(const char *message, unsigned now)
{
    auto_json json_t *body = json_pack("{s:{s:s, s:s}}", "error", "message", message, "type",
                                       "invalid_request_error");
    struct llm_complaint c;

    assert_true(llm_complaint_read(body, true, &c));
    return llm_quirks_learn(&c, now, llm_openai.possible_quirks);
}

static void test_quirks(void **state)
{
    (void)state;
    assert_int_equal(llm_quirks_known("http://h/v1", "gpt-6-luna"),
                     LLM_COMPLETION_TOKENS | LLM_EFFORT_NONE);
    assert_int_equal(llm_quirks_known("http://h/v1", "openai/gpt-6-astra"),
                     LLM_COMPLETION_TOKENS | LLM_EFFORT_NONE | LLM_RESPONSES);
    assert_int_equal(llm_quirks_known("http://h/v1", "gpt-4o-mini"), LLM_NO_ENCRYPTED);
    assert_int_equal(llm_quirks_known("https://api.deepseek.com/chat/completions", "x"),
                     LLM_FILL_REASONING);
    assert_int_equal(llm_quirks_known("http://h/v1", "llama3.1:8b"), 0);

    assert_int_equal(
        learn(
            "Function tools with reasoning_effort are not supported for gpt-9 in /v1/chat/completions. Please use /v1/responses "
            "or set reasoning_effort to 'none'.",
            0),
        LLM_RESPONSES);
    assert_int_equal(
        learn(
            "Function tools with reasoning_effort are not supported. Use /v1/responses or set reasoning_effort to 'none'.",
            LLM_NO_RESPONSES),
        LLM_EFFORT_NONE);
    assert_int_equal(
        learn("The reasoning_content in the thinking mode must be passed back to the API.", 0),
        LLM_FILL_REASONING);
    assert_int_equal(learn("property 'reasoning' is unsupported", 0), LLM_NO_ECHO);
    assert_int_equal(learn("Function call is missing a thought_signature in functionCall parts", 0),
                     LLM_FILL_SIGNATURE);
    assert_int_equal(
        learn("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", 0),
        LLM_COMPLETION_TOKENS);
    assert_int_equal(
        learn("max_tokens is too large: 16000. This model's maximum context length is 8192", 0),
        LLM_NO_MAX_TOKENS);
    assert_int_equal(learn("this is about something else", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenient_json),
        cmocka_unit_test(test_large_numbers_in_a_stream),
        cmocka_unit_test(test_calls_that_are_all_number_0),
        cmocka_unit_test(test_joined_calls),
        cmocka_unit_test(test_thinking_in_the_text),
        cmocka_unit_test(test_calls_written_as_text),
        cmocka_unit_test(test_words_before_a_call),
        cmocka_unit_test(test_kept_members_of_chat),
        cmocka_unit_test(test_kept_blocks_of_anthropic),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_responses_that_end_otherwise),
        cmocka_unit_test(test_unreadable_arguments_go_back_readable),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_quirks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
