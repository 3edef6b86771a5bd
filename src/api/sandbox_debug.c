/*
 * /sandbox/{id}/debug: code that is stepped through, and commands for it while it runs;
 * /sandbox/{id}/dap: the same for editors (src/dap).
 */

#include <stdio.h>
#include <unistd.h>
#include "api/chats.h"
#include "api/sandboxes.h"
#include "base/limits.h"
#include "base/str.h"

#define STEPS_MAX 10000
#define STEP_BYTES_MAX (8 << 20)
#define BREAKPOINTS_MAX 256
#define TEXT_MAX 4000 /* of an expression, a condition, a message */

/* ---- what a body may have ---- */

static const struct schema_field breakpoint_fields[] = {
    SCHEMA_REQUIRED("line", INTEGER, "Of the code, from 1.", SCHEMA_RANGE(1, 1000000)),
    SCHEMA_OPTIONAL("condition", STRING, "An expression: it counts only where that is true.",
                    SCHEMA_MAX(TEXT_MAX)),
    { .name = "hit_count",
      .types = SCHEMA_INTEGER | SCHEMA_STRING,
      .nullable = true,
      .doc = "The time that it stops at, as a number; or `>=`, `>`, `<=`, `<` or `%` and one." },
    SCHEMA_OPTIONAL(
        "log_message", STRING,
        "It does not stop: the `step` of the line has this text as `log`, with the values of "
        "the expressions in braces.",
        SCHEMA_MAX(TEXT_MAX)),
    { .name = NULL },
};
static const struct schema breakpoint_schema = { .name = "Breakpoint",
                                                 .doc = "Where a debugged execution stops.",
                                                 .closed = true,
                                                 .fields = breakpoint_fields };
static const struct schema_field breakpoint_item = { .types = SCHEMA_OBJECT,
                                                     .object = &breakpoint_schema };
static const char *const exception_kinds[] = { "none", "uncaught", "raised", NULL };

#define BREAKPOINTS_FIELD                                                                          \
    {                                                                                              \
        .name = "breakpoints", .types = SCHEMA_ARRAY, .nullable = true,                            \
        SCHEMA_MAX(BREAKPOINTS_MAX), .items = &breakpoint_item,                                    \
        .doc = "All of them: they replace those that were set."                                    \
    }
#define EXCEPTIONS_FIELD                                                                           \
    {                                                                                              \
        .name = "exceptions", .types = SCHEMA_STRING, .nullable = true,                            \
        .choices = exception_kinds,                                                                \
        .doc = "Which exceptions stop it: those that leave the code, or all."                      \
    }

static const struct schema_field debug_fields[] = {
    SANDBOX_CODE_FIELD,
    SANDBOX_CONTEXT_FIELD,
    SANDBOX_TIMEOUT_FIELD,
    SANDBOX_OUTPUT_FIELD,
    SCHEMA_OPTIONAL("max_steps", INTEGER,
                    "Lines that are told, about; beyond it lines are sampled.",
                    SCHEMA_RANGE(1, STEPS_MAX), .dflt = "1000"),
    SCHEMA_OPTIONAL("max_step_bytes", INTEGER, "The same in bytes.",
                    SCHEMA_RANGE(1024, STEP_BYTES_MAX), .dflt = "1048576"),
    SCHEMA_OPTIONAL("stop_on_entry", BOOLEAN, "It is paused before its first line.",
                    .dflt = "false"),
    SCHEMA_OPTIONAL("rewind", BOOLEAN, "States are kept, so that `back` works.", .dflt = "false"),
    BREAKPOINTS_FIELD,
    EXCEPTIONS_FIELD,
    { .name = NULL },
};
static const struct schema debug_schema = {
    .name = "DebuggedCode",
    .doc = "Code for a sandbox that is stepped through.",
    .closed = true,
    .fields = debug_fields,
};

/* ---- POST /sandbox/{id}/debug ---- */

static json_t *options_of(const json_t *body)
{
    const json_t *points = json_object_get(body, "breakpoints"),
                 *exceptions = json_object_get(body, "exceptions");
    bool enters = json_is_true(json_object_get(body, "stop_on_entry"));
    return json_pack("{s:O, s:O, s:b, s:b, s:s, s:o}", "max_steps",
                     json_object_get(body, "max_steps"), "max_bytes",
                     json_object_get(body, "max_step_bytes"), "stop_on_entry", enters, "rewind",
                     json_is_true(json_object_get(body, "rewind")), "exceptions",
                     json_is_string(exceptions) ? json_string_value(exceptions) : "none",
                     "breakpoints", json_is_array(points) ? json_deep_copy(points) : json_array());
}

static void post_debug(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct chat_code code;
    if (sandbox_read_code(http_body_json(req), &code, &err) < 0) {
        http_reply_error(req, &err);
        return;
    }
    auto_json json_t *options = options_of(http_body_json(req));
    if (!options) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    code.debug = options;
    struct chat_request ask = { .form = FORM_SANDBOX,
                                .stream = true,
                                .code = &code,
                                .thread_id = http_param(req, "sandbox_id") };
    chat_serve(req, &ask);
}

/* ---- POST /sandbox/{id}/debug/{debug_id} ---- */

static const char *const commands[] = { "state", "continue", "next",        "step",     "out",
                                        "pause", "stop",     "breakpoints", "evaluate", "variables",
                                        "stack", "set",      "back",        NULL };

static const struct schema_field path_item = { .types = SCHEMA_STRING, SCHEMA_MAX(200) };
static const struct schema_field command_fields[] = {
    SCHEMA_REQUIRED(
        "command", STRING,
        "continue, next (over), step (into), out, pause, stop; evaluate, variables, stack, "
        "set, back in a pause; breakpoints at any time; state.",
        .choices = commands),
    SCHEMA_OPTIONAL("step", INTEGER, "back: the number of the step that is about to run.",
                    SCHEMA_MIN(1)),
    SCHEMA_OPTIONAL("frame", INTEGER, "Of the stack; 0, the innermost, when missing.",
                    SCHEMA_RANGE(0, 1000)),
    SCHEMA_OPTIONAL("expression", STRING, "evaluate: an expression or a statement; set: the value.",
                    SCHEMA_MAX(TEXT_MAX)),
    SCHEMA_OPTIONAL("name", STRING, "set: the variable.", SCHEMA_RANGE(1, 100)),
    SCHEMA_FIELD("value", ANY, "set: the value, when it is JSON."),
    SCHEMA_OPTIONAL("scope", STRING, "variables: those of the frame, when missing.",
                    .choices = (const char *const[]){ "locals", "globals", NULL }),
    SCHEMA_OPTIONAL("path", ARRAY, "variables: what this variable holds; names as they were told.",
                    SCHEMA_MAX(20), .items = &path_item),
    BREAKPOINTS_FIELD,
    EXCEPTIONS_FIELD,
    { .name = NULL },
};
static const struct schema command_schema = { .name = "DebugCommand",
                                              .doc = "A command for a debugged execution.",
                                              .closed = true,
                                              .fields = command_fields };

struct commanding {
    struct http_request *req; /* NULL: answered */
    struct chat *chat;
    bool is_deferred;
};

static void commanding_free(struct commanding *m)
{
    chat_unref(m->chat);
    free(m);
}

static void commanding_left(void *arg)
{
    struct commanding *m = arg;
    chat_debug_forget(m->chat, m);
    commanding_free(m);
}

static void on_answer(void *arg, const json_t *value, const struct err *err)
{
    struct commanding *m = arg;
    struct http_request *req = TAKE_PTR(m->req);
    bool is_deferred = m->is_deferred;
    if (err)
        http_reply_error(req, err);
    else
        http_reply_json(req, 200, value ? json_incref((json_t *)value) : json_object());
    if (is_deferred)
        commanding_free(m);
}

/* What a command cannot do without. */
static int check_command(const json_t *body, struct err *err)
{
    const char *word = json_string_value(json_object_get(body, "command"));
    if (str_eq(word, "evaluate") && !json_is_string(json_object_get(body, "expression")))
        return err_set(err, ERR_VALIDATION, "evaluate needs an expression");
    if (str_eq(word, "set") && !json_is_string(json_object_get(body, "name")))
        return err_set(err, ERR_VALIDATION, "set needs a name");
    if (str_eq(word, "back") && !json_is_integer(json_object_get(body, "step")))
        return err_set(err, ERR_VALIDATION, "back needs a step");
    return 0;
}

static void command(struct http_request *req, struct chat *c)
{
    struct err err = ERR_INIT;
    struct commanding *m = calloc(1, sizeof(*m));
    if (!m) {
        http_reply_fail(req, ERR_NO_MEMORY, "out of memory");
        return;
    }
    *m = (struct commanding){ .req = req, .chat = chat_ref(c) };
    int r = check_command(http_body_json(req), &err);
    if (r == 0)
        r = chat_debug(c, http_param(req, "debug_id"), http_body_json(req), on_answer, m, &err);
    if (r < 0)
        http_reply_error(req, &err);
    if (r < 0 || !m->req) {
        commanding_free(m);
        return;
    }
    m->is_deferred = true;
    http_defer(req, commanding_left, m);
}

static void post_command(struct http_request *req)
{
    sandbox_with(req, command);
}

/* ---- POST /sandbox/{id}/dap ---- */

static const struct schema_field dap_fields[] = {
    SCHEMA_OPTIONAL(
        "code", STRING,
        "As of `…/execute`. Missing: the editor steps through the next Python execution of "
        "this sandbox, whoever starts it."),
    SANDBOX_CONTEXT_FIELD,
    SANDBOX_TIMEOUT_FIELD,
    SANDBOX_OUTPUT_FIELD,
    SCHEMA_OPTIONAL(
        "path", STRING,
        "The file of the code as the editor knows it, where its breakpoints are. Missing: the "
        "first file that the editor sets breakpoints in, or the code as a read-only text.",
        SCHEMA_RANGE(1, DAP_PATH_MAX - 1)),
    SCHEMA_OPTIONAL("stop_on_entry", BOOLEAN, "It is paused before its first line.",
                    .dflt = "false"),
    { .name = NULL },
};
static const struct schema dap_schema = {
    .name = "DebuggerOffer",
    .doc = "Code that an editor will attach to.",
    .closed = true,
    .fields = dap_fields,
};

/* What an editor puts into its launch.json. */
static json_t *launch_configuration(const struct app *app, int port, const char *token)
{
    const char *host = app->cfg->host;
    bool is_any = str_eq(host, "0.0.0.0") || str_eq(host, "::");
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:i}, s:b, s:s}", "name", "Riddle", "type", "debugpy",
                     "request", "attach", "connect", "host", is_any ? "127.0.0.1" : host, "port",
                     port, "justMyCode", 1, "token", token);
}

static void offer(struct http_request *req, struct chat *c)
{
    struct app *app = app_of(req);
    const json_t *body = http_body_json(req);
    char token[DAP_TOKEN_SIZE];
    int port;
    struct err err = ERR_INIT;
    struct dap_offer o = { .owner = http_owner(req),
                           .sandbox_id = chat_id(c),
                           .path = json_string_value(json_object_get(body, "path")),
                           .stop_on_entry = json_is_true(json_object_get(body, "stop_on_entry")) };
    int r = sandbox_read_code(body, &o.code, &err);
    if (r == 0 && !chat_terms(c)->debugging)
        r = err_set(&err, ERR_CONFLICT, "this sandbox was created without enable_debugging");
    if (r == 0 && !app->dap)
        r = err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    if (r == 0)
        r = dap_offer(app->dap, &o, token, &port, &err);
    if (r < 0) {
        http_reply_error(req, &err);
        return;
    }
    http_reply_json(req, 200,
                    json_pack("{s:s, s:i, s:i, s:o, s:o}", "token", token, "port", port,
                              "expires_in", DAP_OFFER_SECONDS, "configuration",
                              launch_configuration(app, port, token), "websocket",
                              json_sprintf("/sandbox/%s/dap", chat_id(c))));
}

static void post_dap(struct http_request *req)
{
    sandbox_with(req, offer);
}

/* ---- GET /sandbox/{id}/dap: the protocol over a WebSocket ---- */

static void on_websocket(struct http_request *req, int fd, const char *bytes, size_t len)
{
    struct dap *d = app_of(req)->dap;
    if (d)
        dap_serve_websocket(d, fd, bytes, len, http_owner(req), http_param(req, "sandbox_id"));
    else
        close(fd); /* the server stops */
}

static void open_websocket(struct http_request *req, struct chat *c)
{
    (void)c;
    http_reply_websocket(req, on_websocket);
}

static void get_dap(struct http_request *req)
{
    sandbox_with(req, open_websocket);
}

/* ---- the table ---- */

static const struct route_param command_params[] = {
    SANDBOX_PARAM,
    ROUTE_PATH("debug_id", STRING, "The `debug_id` of the stream's first status.",
               SCHEMA_RANGE(1, 100)),
    { .field = { .name = NULL } },
};

static const struct route_response stream_responses[] = {
    { 200, "text/event-stream",
      "Events: status (debugging {debug_id}, paused {reason, line, frames, variables, …}, "
      "running), step {step, line, source, function, depth, variables, output, time_us, …} for "
      "each line that ran, step {stream, text} for live output, image, result, error, done. "
      "Closing the stream stops the execution." },
    { .status = 0 }
};

static const struct route_response websocket_responses[] = {
    { 101, NULL,
      "A WebSocket: each text is one message of the protocol, without a head. `attach` or `launch` "
      "has the token of an offer for this sandbox." },
    { 426, "application/json", "The request is no WebSocket's." },
    { .status = 0 }
};

static const struct route routes[] = {
    { HTTP_POST, "/sandbox/{sandbox_id}/debug", post_debug, .id = "debugInSandbox",
      .tag = "sandboxes", .summary = "Step through code in a sandbox", .params = sandbox_params,
      .body = &debug_schema, .responses = stream_responses,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) |
                ROUTE_ERR(FEATURE_DISABLED) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(CONFLICT),
      .max_body_bytes = RUN_BODY_MAX },
    { HTTP_POST, "/sandbox/{sandbox_id}/debug/{debug_id}", post_command, .id = "commandDebugger",
      .tag = "sandboxes", .summary = "Control a debugged execution", .params = command_params,
      .body = &command_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) |
                ROUTE_ERR(CONFLICT) },
    { HTTP_POST, "/sandbox/{sandbox_id}/dap", post_dap, .id = "offerDebugger", .tag = "sandboxes",
      .summary = "Let an editor step through code in a sandbox", .params = sandbox_params,
      .body = &dap_schema,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) |
                ROUTE_ERR(CONFLICT) | ROUTE_ERR(TOO_LARGE) | ROUTE_ERR(RATE_LIMITED),
      .max_body_bytes = RUN_BODY_MAX },
    { HTTP_GET, "/sandbox/{sandbox_id}/dap", get_dap, .id = "attachDebugger", .tag = "sandboxes",
      .summary = "The Debug Adapter Protocol over a WebSocket", .params = sandbox_params,
      .responses = websocket_responses,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) },
};

const struct route_table sandbox_debug_routes = { routes, ARRAY_SIZE(routes) };
