/* The requests of the protocol, each a line of the table at the end. */

#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "dap/dap_impl.h"

#define BREAKPOINTS_MAX 256
#define FRAMES_MAX 100

static const json_t *arguments_of(const struct session *s)
{
    return json_object_get(s->request, "arguments");
}

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static long long number_of(const json_t *o, const char *key, long long dflt)
{
    const json_t *n = json_object_get(o, key);
    return json_is_integer(n) ? json_integer_value(n) : dflt;
}

const char *session_path(const struct session *s)
{
    return s->offer ? s->offer->path : NULL;
}

/* The debugger's answer is not of interest, or it failed. */
static bool has_failed(struct session *s, const struct err *err)
{
    if (err)
        session_fail(s, err);
    return err;
}

static json_t *source_json(const struct session *s)
{
    const char *path = session_path(s), *slash = path ? strrchr(path, '/') : NULL;
    const char *name = !path ? "execution.py" : slash ? slash + 1 : path;
    json_t *source = json_pack("{s:s, s:i}", "name", name, "sourceReference",
                               path ? 0 : DAP_SOURCE);
    if (path)
        json_object_set_new(source, "path", json_string(path));
    return source;
}

/* ---- before the execution ---- */

static void do_initialize(struct session *s)
{
    static const char *const can[] = {
        "supportsConfigurationDoneRequest",
        "supportsConditionalBreakpoints",
        "supportsHitConditionalBreakpoints",
        "supportsLogPoints",
        "supportsEvaluateForHovers",
        "supportsSetVariable",
        "supportsSetExpression",
        "supportsExceptionInfoRequest",
        "supportsDelayedStackTraceLoading",
        "supportsTerminateRequest",
        "supportTerminateDebuggee",
        "supportsStepBack",
    };
    json_t *body = json_object();
    for (size_t i = 0; i < ARRAY_SIZE(can); i++)
        json_object_set_new(body, can[i], json_true());
    json_object_set_new(body, "exceptionBreakpointFilters",
                        json_pack("[{s:s, s:s, s:b}, {s:s, s:s, s:b}]", "filter", "raised", "label",
                                  "Raised exceptions", "default", 0, "filter", "uncaught", "label",
                                  "Uncaught exceptions", "default", 1));
    session_answer(s, body);
}

/* With the token of an offer, in `token` or in `riddle.token`. */
static void do_attach(struct session *s)
{
    const json_t *args = arguments_of(s);
    const char *token = text_of(args, "token");
    struct err err = ERR_INIT;
    if (s->state != SESSION_OPEN || s->offer) {
        session_refuse(s, "this connection has attached already");
        return;
    }
    if (!token)
        token = text_of(json_object_get(args, "riddle"), "token");
    s->offer = token ? dap_take_offer(s->dap, token, s->owner, s->sandbox_id) : NULL;
    if (!s->offer) {
        session_refuse(s, "the token is missing, used or expired; ask for another one: "
                          "POST /sandbox/{sandbox_id}/dap");
        return;
    }
    const char *program = text_of(args, "program");
    if (!s->offer->path && program && strlen(program) < DAP_PATH_MAX)
        s->offer->path = arena_strdup(&s->offer->arena, program);
    if (json_is_true(json_object_get(args, "stopOnEntry")))
        s->offer->stop_on_entry = true;
    s->is_launched = str_eq(text_of(s->request, "command"), "launch");
    if (session_execute(s, &err) < 0)
        session_fail(s, &err);
}

static void on_configured(struct session *s, const json_t *value, const struct err *err)
{
    (void)value;
    if (!has_failed(s, err))
        session_answer(s, NULL);
}

static void do_configuration_done(struct session *s)
{
    if (s->state != SESSION_CONFIGURING) {
        session_refuse(s, "there is nothing to configure");
    } else if (s->offer->stop_on_entry) {
        s->state = SESSION_PAUSED;
        session_answer(s, NULL);
        session_stopped(s, "entry");
    } else {
        session_ask(s, json_pack("{s:s}", "command", "continue"), on_configured);
    }
}

/* ---- breakpoints ---- */

static bool is_our_source(const struct session *s, const json_t *source)
{
    const char *path = text_of(source, "path"), *ours = session_path(s);
    return ours ? str_eq(path, ours) : number_of(source, "sourceReference", 0) == DAP_SOURCE;
}

static json_t *breakpoints_command(const struct session *s)
{
    return json_pack("{s:s, s:O, s:s}", "command", "breakpoints", "breakpoints", s->breakpoints,
                     "exceptions", s->exceptions);
}

static void on_breakpoints(struct session *s, const json_t *value, const struct err *err)
{
    json_t *list = json_array(), *one;
    size_t i;
    if (has_failed(s, err)) {
        json_decref(list);
        return;
    }
    json_array_foreach(json_object_get(value, "breakpoints"), i, one) {
        json_t *point = json_deep_copy(one);
        json_object_set_new(point, "source", source_json(s));
        json_array_append_new(list, point);
    }
    session_answer(s, json_pack("{s:o}", "breakpoints", list));
}

/* A source that is not debugged, or an execution that is not there: none of them is verified. */
static void answer_unverified(struct session *s, const char *why)
{
    const json_t *asked = json_object_get(arguments_of(s), "breakpoints");
    json_t *list = json_array(), *one;
    size_t i;
    json_array_foreach(asked, i, one) {
        if (i == BREAKPOINTS_MAX)
            break;
        json_array_append_new(list,
                              json_pack("{s:b, s:I, s:s}", "verified", 0, "line",
                                        (json_int_t)number_of(one, "line", 0), "message", why));
    }
    session_answer(s, json_pack("{s:o}", "breakpoints", list));
}

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(o, key, json_string(text));
}

static void do_set_breakpoints(struct session *s)
{
    const json_t *args = arguments_of(s), *asked = json_object_get(args, "breakpoints");
    const char *path = text_of(json_object_get(args, "source"), "path");
    json_t *one;
    size_t i;
    if (!s->turn) {
        answer_unverified(s, "no execution is debugged");
        return;
    }
    if (!session_path(s) && path && strlen(path) < DAP_PATH_MAX) /* the first file is the code's */
        s->offer->path = arena_strdup(&s->offer->arena, path);
    if (!is_our_source(s, json_object_get(args, "source"))) {
        answer_unverified(s, "this file is not what is debugged");
        return;
    }
    if (json_array_size(asked) > BREAKPOINTS_MAX) {
        session_refuse(s, "%zu breakpoints; at most %d are taken", json_array_size(asked),
                       BREAKPOINTS_MAX);
        return;
    }
    json_t *list = json_array();
    json_array_foreach(asked, i, one) {
        json_t *point = json_pack("{s:I}", "line",
                                  (json_int_t)MAX_OF(number_of(one, "line", 1), 1));
        set_text(point, "condition", text_of(one, "condition"));
        set_text(point, "hit_count", text_of(one, "hitCondition"));
        set_text(point, "log_message", text_of(one, "logMessage"));
        json_array_append_new(list, point);
    }
    json_decref(s->breakpoints);
    s->breakpoints = list;
    session_ask(s, breakpoints_command(s), on_breakpoints);
}

static void on_exceptions(struct session *s, const json_t *value, const struct err *err)
{
    (void)value;
    if (!has_failed(s, err))
        session_answer(s, NULL);
}

static void do_set_exception_breakpoints(struct session *s)
{
    json_t *filter;
    size_t i;
    s->exceptions = "none";
    json_array_foreach(json_object_get(arguments_of(s), "filters"), i, filter) {
        const char *name = json_string_value(filter);
        if (str_eq(name, "raised") || (str_eq(name, "uncaught") && str_eq(s->exceptions, "none")))
            s->exceptions = str_eq(name, "raised") ? "raised" : "uncaught";
    }
    if (s->turn)
        session_ask(s, breakpoints_command(s), on_exceptions);
    else
        session_answer(s, NULL);
}

static void do_set_function_breakpoints(struct session *s)
{
    answer_unverified(s, "breakpoints are set by line");
}

/* ---- going on ---- */

static void on_moved(struct session *s, const json_t *value, const struct err *err)
{
    (void)value;
    if (!has_failed(s, err))
        session_answer(s, json_pack("{s:b}", "allThreadsContinued", 1));
}

static void do_move(struct session *s)
{
    static const struct {
        const char *request, *command;
    } moves[] = { { "continue", "continue" },
                  { "next", "next" },
                  { "stepIn", "step" },
                  { "stepOut", "out" },
                  { "pause", "pause" } };
    const char *name = text_of(s->request, "command");
    for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
        if (str_eq(name, moves[i].request))
            session_ask(s, json_pack("{s:s}", "command", moves[i].command), on_moved);
}

static void on_back(struct session *s, const json_t *value, const struct err *err)
{
    (void)value;
    s->is_going_back = false;
    if (has_failed(s, err))
        return;
    session_answer(s, NULL);
    session_stopped(s, s->went_back_to);
}

static bool has_breakpoint_at(const struct session *s, int line)
{
    json_t *point;
    size_t i;
    json_array_foreach(s->breakpoints, i, point) {
        if (!json_object_get(point, "log_message") && number_of(point, "line", 0) == line)
            return true;
    }
    return false;
}

/*
 * One step back, or to the last step before this one that was told at a line with a breakpoint, or
 * to the first. Conditions are not looked at.
 */
static void do_back(struct session *s)
{
    long long now = number_of(s->pause, "step", 0), to = now - 1;
    s->went_back_to = "step";
    if (s->state != SESSION_PAUSED) {
        session_refuse(s, "the execution is not paused");
        return;
    }
    if (str_eq(text_of(s->request, "command"), "reverseContinue")) {
        to = 1;
        s->went_back_to = "entry";
        for (size_t i = s->n_steps; i-- > 0;) {
            if (s->steps[i].step < now && has_breakpoint_at(s, s->steps[i].line)) {
                to = s->steps[i].step;
                s->went_back_to = "breakpoint";
                break;
            }
        }
    }
    if (to < 1) {
        session_refuse(s, "this is the first step");
        return;
    }
    s->is_going_back = true;
    session_ask(s, json_pack("{s:s, s:I}", "command", "back", "step", (json_int_t)to), on_back);
}

/* ---- looking around ---- */

static void do_threads(struct session *s)
{
    session_answer(
        s, json_pack("{s:[{s:i, s:s}]}", "threads", "id", DAP_THREAD, "name", "MainThread"));
}

/* The numbers of frames are 1 for the innermost and so on. */
static void do_stack_trace(struct session *s)
{
    const json_t *args = arguments_of(s), *frames = json_object_get(s->pause, "frames");
    json_t *list = json_array(), *frame;
    size_t i, n = json_array_size(frames);
    long long first = MAX_OF(number_of(args, "startFrame", 0), 0),
              levels = number_of(args, "levels", 0);
    if (levels <= 0 || levels > FRAMES_MAX)
        levels = FRAMES_MAX;
    json_array_foreach(frames, i, frame) {
        if ((long long)i < first || (long long)i - first >= levels)
            continue;
        const char *cell = text_of(frame, "cell");
        json_t *source = cell ? json_pack("{s:s, s:s}", "name", cell, "presentationHint",
                                          "deemphasize") :
                                source_json(s);
        json_array_append_new(list, json_pack("{s:i, s:s?, s:I, s:i, s:o}", "id", (int)i + 1,
                                              "name", text_of(frame, "function"), "line",
                                              (json_int_t)number_of(frame, "line", 0), "column", 1,
                                              "source", source));
    }
    session_answer(s, json_pack("{s:o, s:i}", "stackFrames", list, "totalFrames", (int)n));
}

/* The index of the frame that the arguments name; the innermost when they name none. */
static int frame_of(const struct session *s)
{
    long long id = number_of(arguments_of(s), "frameId", 1);
    return id >= 1 && id <= 1000 ? (int)id - 1 : 0;
}

static int outermost_frame(const struct session *s)
{
    size_t n = json_array_size(json_object_get(s->pause, "frames"));
    return n ? (int)n - 1 : 0;
}

static void do_scopes(struct session *s)
{
    int frame = frame_of(s), locals = dap_values_scope(&s->values, frame, false);
    json_t *list = json_pack("[{s:s, s:s, s:i, s:b}]", "name", "Locals", "presentationHint",
                             "locals", "variablesReference", locals, "expensive", 0);
    if (frame != outermost_frame(s))
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:b}", "name", "Globals", "variablesReference",
                                        dap_values_scope(&s->values, frame, true), "expensive", 0));
    session_answer(s, json_pack("{s:o}", "scopes", list));
}

static void on_variables(struct session *s, const json_t *value, const struct err *err)
{
    long long holder = number_of(arguments_of(s), "variablesReference", 0);
    if (has_failed(s, err))
        return;
    if (!dap_values_find(&s->values, holder)) {
        session_refuse(s, "the execution has gone on");
        return;
    }
    session_answer(
        s, json_pack("{s:o}", "variables",
                     dap_variables_json(&s->values, holder, json_object_get(value, "variables"))));
}

/* What the arguments' variablesReference stands for, or NULL: the request is refused then. */
static const struct dap_value *find_value(struct session *s)
{
    const struct dap_value *v = dap_values_find(
        &s->values, number_of(arguments_of(s), "variablesReference", 0));
    if (!v)
        session_refuse(s, "the execution has gone on since this variable was shown");
    return v;
}

static void do_variables(struct session *s)
{
    const struct dap_value *v = find_value(s);
    if (v)
        session_ask(s,
                    json_pack("{s:s, s:i, s:s, s:O}", "command", "variables", "frame", v->frame,
                              "scope", v->is_globals ? "globals" : "locals", "path", v->path),
                    on_variables);
}

static void on_evaluated(struct session *s, const json_t *value, const struct err *err)
{
    const char *expression = text_of(arguments_of(s), "expression");
    if (has_failed(s, err))
        return;
    json_t *body = dap_value_json(&s->values, frame_of(s), expression ? expression : "", value);
    json_object_set(body, "result", json_object_get(body, "value"));
    session_answer(s, body);
}

static json_t *evaluate_command(int frame, const char *expression)
{
    return json_pack("{s:s, s:i, s:s}", "command", "evaluate", "frame", frame, "expression",
                     expression);
}

static void do_evaluate(struct session *s)
{
    const char *expression = text_of(arguments_of(s), "expression");
    if (!expression || !*expression)
        session_refuse(s, "evaluate needs an expression");
    else
        session_ask(s, evaluate_command(frame_of(s), expression), on_evaluated);
}

/* ---- changing values ---- */

static void on_set(struct session *s, const json_t *value, const struct err *err)
{
    const json_t *args = arguments_of(s);
    const char *expression = text_of(args, "expression");
    if (has_failed(s, err))
        return;
    if (!expression)
        expression = text_of(args, "name");
    session_answer(s, dap_value_json(&s->values, frame_of(s), expression ? expression : "", value));
}

/* `expression` was assigned to: its value now. */
static void on_assigned(struct session *s, const json_t *value, const struct err *err)
{
    const json_t *args = arguments_of(s);
    const struct dap_value *holder = dap_values_find(&s->values,
                                                     number_of(args, "variablesReference", 0));
    (void)value;
    if (has_failed(s, err))
        return;
    auto_free char *member = holder ? dap_member_expression(holder, text_of(args, "name")) : NULL;
    const char *expression = holder ? member : text_of(args, "expression");
    session_ask(
        s, evaluate_command(holder ? holder->frame : frame_of(s), expression ? expression : "None"),
        on_set);
}

static void assign(struct session *s, int frame, const char *expression, const char *text)
{
    auto_json json_t *statement = json_sprintf("%s = (%s)", expression, text);
    session_ask(s, evaluate_command(frame, json_string_value(statement)), on_assigned);
}

static void do_set_variable(struct session *s)
{
    const json_t *args = arguments_of(s);
    const char *name = text_of(args, "name"), *text = text_of(args, "value");
    if (!name || !text) {
        session_refuse(s, "setVariable needs a name and a value");
        return;
    }
    const struct dap_value *holder = find_value(s);
    if (!holder)
        return;
    auto_free char *expression = dap_member_expression(holder, name);
    if (!holder->type)
        session_ask(s,
                    json_pack("{s:s, s:i, s:s, s:s}", "command", "set", "frame",
                              holder->is_globals ? outermost_frame(s) : holder->frame, "name", name,
                              "expression", text),
                    on_set);
    else if (expression)
        assign(s, holder->frame, expression, text);
    else
        session_refuse(s, "'%s' cannot be assigned to", name);
}

static void do_set_expression(struct session *s)
{
    const json_t *args = arguments_of(s);
    const char *expression = text_of(args, "expression"), *text = text_of(args, "value");
    if (!expression || !text)
        session_refuse(s, "setExpression needs an expression and a value");
    else
        assign(s, frame_of(s), expression, text);
}

/* ---- the rest ---- */

static void do_exception_info(struct session *s)
{
    const json_t *e = json_object_get(s->pause, "exception");
    const char *type = text_of(e, "type"), *message = text_of(e, "message");
    if (!e)
        session_refuse(s, "it is not paused at an exception");
    else
        session_answer(s, json_pack("{s:s?, s:s?, s:s, s:{s:s?, s:s?}}", "exceptionId", type,
                                    "description", message, "breakMode",
                                    str_eq(s->exceptions, "raised") ? "always" : "unhandled",
                                    "details", "typeName", type, "message", message));
}

static void do_source(struct session *s)
{
    if (!s->offer || !s->offer->code.code)
        session_refuse(s, "nothing is debugged");
    else
        session_answer(s, json_pack("{s:s, s:s}", "content", s->offer->code.code, "mimeType",
                                    "text/x-python"));
}

static void do_modules(struct session *s)
{
    session_answer(s, json_pack("{s:[], s:i}", "modules", "totalModules", 0));
}

static void leave_execution(struct session *s)
{
    turn_leave(TAKE_PTR(s->turn), s);
    session_answer(s, NULL);
    session_finish(s);
}

static void on_let_go(struct session *s, const json_t *value, const struct err *err)
{
    (void)value, (void)err; /* it has gone on, or has ended */
    if (s->turn) {
        leave_execution(s);
    } else {
        session_answer(s, NULL);
        session_finish(s);
    }
}

/* Without breakpoints: it goes on, if it was paused. */
static void on_cleared(struct session *s, const json_t *value, const struct err *err)
{
    if (!err && s->turn && s->pause)
        session_ask(s, json_pack("{s:s}", "command", "continue"), on_let_go);
    else
        on_let_go(s, value, err);
}

/*
 * Ends the execution, or lets go of it: by default one that was launched ends, and one that was
 * attached to goes on.
 */
static void do_disconnect(struct session *s)
{
    const json_t *ends = json_object_get(arguments_of(s), "terminateDebuggee");
    if (s->turn && (json_is_boolean(ends) ? json_is_true(ends) : s->is_launched)) {
        turn_drop(TAKE_PTR(s->turn), s);
    } else if (s->turn && s->debug_id && s->state != SESSION_STARTING) {
        json_array_clear(s->breakpoints);
        s->exceptions = "none";
        session_ask(s, breakpoints_command(s), on_cleared);
        return;
    }
    session_answer(s, NULL);
    session_finish(s);
}

static void do_terminate(struct session *s)
{
    if (s->turn)
        turn_cancel(s->turn);
    session_answer(s, NULL);
}

/* ---- the table ---- */

static const struct request_kind {
    const char *name;
    void (*begin)(struct session *s);
    bool needs_pause;
    bool is_urgent;
} requests[] = {
    { "initialize", do_initialize, false, false },
    { "attach", do_attach, false, false },
    { "launch", do_attach, false, false },
    { "configurationDone", do_configuration_done, false, false },
    { "setBreakpoints", do_set_breakpoints, false, false },
    { "setFunctionBreakpoints", do_set_function_breakpoints, false, false },
    { "setExceptionBreakpoints", do_set_exception_breakpoints, false, false },
    { "continue", do_move, false, false },
    { "next", do_move, false, false },
    { "stepIn", do_move, false, false },
    { "stepOut", do_move, false, false },
    { "pause", do_move, false, false },
    { "stepBack", do_back, true, false },
    { "reverseContinue", do_back, true, false },
    { "threads", do_threads, false, false },
    { "stackTrace", do_stack_trace, true, false },
    { "scopes", do_scopes, true, false },
    { "variables", do_variables, true, false },
    { "evaluate", do_evaluate, true, false },
    { "setVariable", do_set_variable, true, false },
    { "setExpression", do_set_expression, true, false },
    { "exceptionInfo", do_exception_info, true, false },
    { "source", do_source, false, false },
    { "modules", do_modules, false, false },
    { "terminate", do_terminate, false, true },
    { "disconnect", do_disconnect, false, true },
};

static const struct request_kind *find_kind(const json_t *request)
{
    const char *name = text_of(request, "command");
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
        if (str_eq(name, requests[i].name))
            return &requests[i];
    return NULL;
}

bool request_is_urgent(const json_t *request)
{
    const struct request_kind *kind = find_kind(request);
    return kind && kind->is_urgent;
}

void request_begin(struct session *s)
{
    const struct request_kind *kind = find_kind(s->request);
    char shown[100];
    const char *name = text_of(s->request, "command");
    if (!kind)
        session_refuse(s, "there is no request '%s' here",
                       str_show(name, strlen(name), shown, sizeof(shown)));
    else if (kind->needs_pause && !s->pause)
        session_refuse(s, "the execution is not paused");
    else
        kind->begin(s);
}
