/* A line for code that waits for input(): POST /thread/{id}/input, /sandbox/{id}/input. */

#include "api/chats.h"
#include "api/sandboxes.h"
#include "base/limits.h"

static const struct schema_field input_fields[] = {
    SCHEMA_REQUIRED("text", STRING, "The line, without its end.", SCHEMA_MAX(INPUT_LINE_MAX),
                    .example = "\"yes\""),
    { .name = NULL },
};
static const struct schema input_schema = {
    .name = "InputLine", .closed = true, .doc = "What input() returns.", .fields = input_fields
};

static void reply(struct http_request *req, const char *id, bool is_sandbox)
{
    struct chat *c = chat_find(app_of(req)->agent, http_owner(req), id);
    const char *text = json_string_value(json_object_get(http_body_json(req), "text"));
    struct err err = ERR_INIT;
    if (!c || !chat_terms(c) == is_sandbox)
        http_reply_fail(req, ERR_NOT_FOUND, "nothing runs in '%s'", id);
    else if (chat_input(c, text, &err) < 0)
        http_reply_error(req, &err);
    else
        http_reply_json(req, 200, json_pack("{s:s}", "status", "answered"));
}

static void post_thread_input(struct http_request *req)
{
    reply(req, http_param(req, "thread_id"), false);
}

static void post_sandbox_input(struct http_request *req)
{
    reply(req, http_param(req, "sandbox_id"), true);
}

#define INPUT_ERRORS (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(CONFLICT))

static const struct route routes[] = {
    { HTTP_POST, "/thread/{thread_id}/input", post_thread_input, .id = "answerThreadInput",
      .tag = "threads", .summary = "Answer input() of the code that runs in a thread",
      .params = thread_params, .body = &input_schema, .errors = INPUT_ERRORS },
    { HTTP_POST, "/sandbox/{sandbox_id}/input", post_sandbox_input, .id = "answerSandboxInput",
      .tag = "sandboxes", .summary = "Answer input() of the code that runs in a sandbox",
      .params = sandbox_params, .body = &input_schema, .errors = INPUT_ERRORS },
};

const struct route_table input_routes = { routes, ARRAY_SIZE(routes) };
