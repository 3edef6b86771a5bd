/* /chat and what is said and run in a thread: messages, executions, and following a turn. */

#include <stdio.h>
#include <string.h>
#include "api/chats.h"
#include "data/threads.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"

#define GO_ON "Go on." /* what a conversation asks for that ends with the assistant's words */
#define TIMEOUT_FIELD                                                                              \
    {                                                                                              \
        .name = "timeout_seconds", .types = SCHEMA_INTEGER, .nullable = true,                      \
        SCHEMA_RANGE(1, EXECUTE_TIMEOUT_MAX_S),                                                    \
        .doc = "Wall time of each run of code; RUN_TIMEOUT_SECONDS when missing."                  \
    }

/* ---- /chat ---- */

static const char *const roles[] = { "user", "assistant", NULL };
static const struct schema_field said_fields[] = {
    { .name = "role", .types = SCHEMA_STRING, .required = true, .choices = roles },
    { .name = "content", .types = SCHEMA_STRING, .required = true },
    { .name = NULL },
};
static const struct schema said_schema = { .name = "ChatMessage",
                                           .fields = said_fields,
                                           .open = true };
static const struct schema_field said_item = { .name = "",
                                               .types = SCHEMA_OBJECT,
                                               .object = &said_schema };

static const struct schema_field chat_fields[] = {
    SCHEMA_OPTIONAL("dataset_id", STRING,
                    "A dataset of GET /datasets, or the `file_id` of an upload. A thread keeps its "
                    "data when this is missing.",
                    SCHEMA_RANGE(1, 200), .example = "\"ecommerce\""),
    SCHEMA_OPTIONAL("message", STRING, "A question, `SQL: …` or `PYTHON: …`.",
                    .example = "\"What is the return rate by category?\""),
    SCHEMA_OPTIONAL("thread_id", STRING,
                    "Goes on with that thread; one is made when it is missing or unknown.",
                    SCHEMA_RANGE(1, 100)),
    SCHEMA_OPTIONAL("messages", ARRAY,
                    "The conversation of a session, the new message last; instead of `message`. It "
                    "replaces what the server remembers of it.",
                    .items = &said_item, SCHEMA_MAX(200)),
    SCHEMA_OPTIONAL("session_id", STRING, "Whose files and variables are used.",
                    SCHEMA_RANGE(1, 100)),
    TIMEOUT_FIELD,
    { .name = NULL },
};
static const struct schema chat_schema = {
    .name = "ChatRequest",
    .doc = "A message about a dataset, or a session's conversation.",
    .fields = chat_fields,
    .example = "{\"dataset_id\":\"ecommerce\",\"message\":\"How many orders per status?\"}"
};

static const char *text_of(const json_t *body, const char *key)
{
    return json_string_value(json_object_get(body, key));
}

/* The time limit that a message names for its runs; 0: none. */
static int64_t timeout_of(const json_t *body)
{
    return json_integer_value(json_object_get(body, "timeout_seconds")) * 1000;
}

static size_t characters(const char *s)
{
    size_t n = 0;
    for (; s && *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void serve_session(struct http_request *req, bool stream)
{
    const json_t *body = http_body_json(req), *messages = json_object_get(body, "messages");
    size_t n = json_array_size(messages), length = 0, i;
    json_t *m;
    const json_t *last = json_array_get(messages, n - 1);
    const char *message = text_of(last, "content");
    if (n == 0 || !message[strspn(message, " \t\r\n")]) {
        http_reply_fail(req, ERR_VALIDATION, "Please provide at least one message.");
        return;
    }
    auto_json json_t *earlier = json_deep_copy(messages), *none = json_array();
    if (str_eq(text_of(last, "role"), "assistant"))
        message = GO_ON;
    else
        json_array_remove(earlier, n - 1);
    json_array_foreach(messages, i, m)
        /* Code has its own limit. */
        if (i + 1 < n || !chat_is_code(message))
            length += characters(text_of(m, "content"));
    if (length > (size_t)app_of(req)->cfg->max_input_chars) {
        http_reply_fail(req, ERR_VALIDATION,
                        "Message too long. Please shorten your request and try again.");
        return;
    }
    struct chat_request ask = { .form = FORM_SESSION,
                                .stream = stream,
                                .message = message,
                                .timeout_ms = timeout_of(body),
                                .thread_id = text_of(body, "session_id"),
                                .may_create = true,
                                .id_prefix = "session-",
                                .datasets = none,
                                .earlier = earlier };
    chat_serve(req, &ask);
}

static void serve_chat(struct http_request *req, bool stream)
{
    const json_t *body = http_body_json(req);
    const char *dataset = text_of(body, "dataset_id"), *message = text_of(body, "message");
    if (json_is_array(json_object_get(body, "messages"))) {
        serve_session(req, stream);
        return;
    }
    if (!message) {
        http_reply_fail(req, ERR_VALIDATION, "message is required (or messages, for a session)");
        return;
    }
    auto_json json_t *datasets = dataset ? json_pack("[s]", dataset) : NULL;
    struct chat_request ask = { .form = FORM_CHAT,
                                .stream = stream,
                                .message = message,
                                .thread_id = text_of(body, "thread_id"),
                                .timeout_ms = timeout_of(body),
                                .may_create = true,
                                .id_prefix = "thread-",
                                .datasets = datasets,
                                .set_data = dataset != NULL };
    chat_serve(req, &ask);
}

static void post_chat(struct http_request *req)
{
    serve_chat(req, false);
}

static void post_chat_stream(struct http_request *req)
{
    serve_chat(req, true);
}

/* ---- /thread/{id}/message ---- */

static const struct schema_field message_fields[] = {
    SCHEMA_REQUIRED("message", STRING, "A question, `SQL: …` or `PYTHON: …`.",
                    .example = "\"top 5 categories by amount\""),
    TIMEOUT_FIELD,
    { .name = NULL },
};
static const struct schema message_schema = { .name = "ThreadMessage", .fields = message_fields };

static void serve_thread(struct http_request *req, bool stream)
{
    const json_t *body = http_body_json(req);
    struct chat_request ask = { .form = FORM_THREAD,
                                .stream = stream,
                                .message = text_of(body, "message"),
                                .timeout_ms = timeout_of(body),
                                .thread_id = http_param(req, "thread_id") };
    chat_serve(req, &ask);
}

static void post_message(struct http_request *req)
{
    serve_thread(req, false);
}

static void post_message_stream(struct http_request *req)
{
    serve_thread(req, true);
}

/* ---- /thread/{id}/execute, /turn/stream, /stop ---- */

static const char *const languages[] = { "python", "sql", NULL };
static const struct schema_field execute_fields[] = {
    SCHEMA_FIELD("language", STRING, "What the code is written in.", .choices = languages,
                 .dflt = "\"python\""),
    { .name = "code",
      .types = SCHEMA_STRING,
      .required = true,
      .example = "\"df = sql('SELECT 1 AS x')\\ndf.x.sum()\"",
      .doc =
          "A cell of Python, or one SELECT or WITH; at most 1 MB. Variables stay for what runs in the thread later." },
    SCHEMA_OPTIONAL("timeout_seconds", INTEGER, "Wall time; RUN_TIMEOUT_SECONDS when missing.",
                    SCHEMA_RANGE(1, EXECUTE_TIMEOUT_MAX_S)),
    SCHEMA_OPTIONAL("max_rows", INTEGER, "MAX_ROWS when missing.", SCHEMA_RANGE(1, RUN_ROWS_MAX)),
    SCHEMA_OPTIONAL("max_output_bytes", INTEGER,
                    "Of stdout, of stderr and of the rows; MAX_OUTPUT_BYTES when missing.",
                    SCHEMA_RANGE(RUN_OUTPUT_MIN, RUN_OUTPUT_MAX)),
    { .name = NULL },
};
static const struct schema execute_schema = { .name = "ThreadCode",
                                              .doc = "Code for the kernel of a thread.",
                                              .fields = execute_fields };

static void serve_code(struct http_request *req, bool stream)
{
    const struct config *cfg = app_of(req)->cfg;
    const json_t *body = http_body_json(req);
    long long seconds, rows, bytes;
    struct err err = ERR_INIT;
    int r = json_get_i64(body, "timeout_seconds", cfg->run_timeout_s, 1, EXECUTE_TIMEOUT_MAX_S,
                         &seconds, &err);
    if (r == 0)
        r = json_get_i64(body, "max_rows", cfg->max_rows, 1, RUN_ROWS_MAX, &rows, &err);
    if (r == 0)
        r = json_get_i64(body, "max_output_bytes", cfg->max_output_bytes, RUN_OUTPUT_MIN,
                         RUN_OUTPUT_MAX, &bytes, &err);
    if (r < 0) {
        http_reply_error(req, &err);
        return;
    }
    struct chat_code code = { .language = text_of(body, "language"),
                              .code = text_of(body, "code"),
                              .timeout_ms = seconds * 1000,
                              .max_rows = rows,
                              .max_output_bytes = bytes };
    struct chat_request ask = { .form = FORM_CODE,
                                .stream = stream,
                                .code = &code,
                                .thread_id = http_param(req, "thread_id") };
    chat_serve(req, &ask);
}

static void post_execute(struct http_request *req)
{
    serve_code(req, false);
}

static void post_execute_stream(struct http_request *req)
{
    serve_code(req, true);
}

static void get_turn_stream(struct http_request *req)
{
    struct chat_request ask = { .form = FORM_THREAD,
                                .stream = true,
                                .follow = true,
                                .thread_id = http_param(req, "thread_id") };
    chat_serve(req, &ask);
}

/* ---- the table ---- */

static const char events_doc[] =
    "Events: status {stage, text}, token {text}, tool_call {name, input}, step (live output), code_run {language, "
    "code, output, exec_ms}, image {png}, result, error, done.";
static const struct route_response stream_responses[] = { { 200, "text/event-stream", events_doc },
                                                          { .status = 0 } };
static const struct route_response execute_stream_responses[] = {
    { 200, "text/event-stream", "Events: status, step (live output), image, result, error, done." },
    { .status = 0 }
};
static const struct route_response turn_responses[] = {
    { 200, "text/event-stream",
      "A status {stage: following, run_id, message or language and code, skipped}, what came so far, then what comes, done." },
    { 204, NULL, "No turn is under way." },
    { .status = 0 }
};
#define CHAT_ERRORS                                                                                \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) | ROUTE_ERR(CONFLICT))

static const struct route routes[] = {
    { HTTP_POST, "/chat", post_chat, .id = "chat", .tag = "chat", .summary = "Ask about a dataset",
      .body = &chat_schema, .errors = CHAT_ERRORS, .max_body_bytes = RUN_BODY_MAX,
      .flags = ROUTE_CHAT },
    { HTTP_POST, "/chat/stream", post_chat_stream, .id = "chatStream", .tag = "chat",
      .summary = "The same, as it comes", .body = &chat_schema, .responses = stream_responses,
      .errors = CHAT_ERRORS, .max_body_bytes = RUN_BODY_MAX, .flags = ROUTE_CHAT },
    { HTTP_POST, "/thread/{thread_id}/message", post_message, .id = "sendMessage", .tag = "threads",
      .summary = "Say something in a thread", .params = thread_params, .body = &message_schema,
      .errors = CHAT_ERRORS, .max_body_bytes = RUN_BODY_MAX, .flags = ROUTE_CHAT },
    { HTTP_POST, "/thread/{thread_id}/message/stream", post_message_stream, .id = "streamMessage",
      .tag = "threads", .summary = "The same, as it comes", .params = thread_params,
      .body = &message_schema, .responses = stream_responses, .errors = CHAT_ERRORS,
      .max_body_bytes = RUN_BODY_MAX, .flags = ROUTE_CHAT },
    { HTTP_POST, "/thread/{thread_id}/execute", post_execute, .id = "executeInThread",
      .tag = "threads", .summary = "Run code in the kernel of a thread", .params = thread_params,
      .body = &execute_schema,
      .errors = CHAT_ERRORS | ROUTE_ERR(FEATURE_DISABLED) | ROUTE_ERR(TOO_LARGE),
      .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/thread/{thread_id}/execute/stream", post_execute_stream,
      .id = "streamExecuteInThread", .tag = "threads", .summary = "The same, with live output",
      .params = thread_params, .body = &execute_schema, .responses = execute_stream_responses,
      .errors = CHAT_ERRORS | ROUTE_ERR(FEATURE_DISABLED) | ROUTE_ERR(TOO_LARGE),
      .max_body_bytes = RUN_BODY_MAX },
    { HTTP_GET, "/thread/{thread_id}/turn/stream", get_turn_stream, .id = "followTurn",
      .tag = "threads", .summary = "Follow the turn that is under way", .params = thread_params,
      .responses = turn_responses, .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table chat_routes = { routes, ARRAY_SIZE(routes) };
