/*
 * Answers by a model. The talk goes round: a call → the tools it asked for, one after the other → the next call with what they said, until
 * it answers in words. Everything is bounded: calls, tokens, time. What goes wrong on the way (a tool's error, arguments that cannot be
 * read, no rows) is told to the model, which may try again; when the model itself fails, what there is decides: a result is summed up
 * without it, a plain question is left to the planner, and otherwise the failure is told.
 */

#include <stdio.h>
#include <string.h>
#include "agent/claims.h"
#include "agent/coerce.h"
#include "agent/tools.h"
#include "base/log.h"
#include "base/str.h"

#define MESSAGES_MAX 256
#define TOOL_TEXT_MAX (64u << 10)
#define PROMPT_MAX (256u << 10)
#define BAD_CALLS_MAX 2 /* unreadable arguments; then the rescue */
#define TOOL_CALLS_MAX 40
#define BAD_REPLIES_MAX 2   /* tool calls that the model's own server could not read */
#define LONGER_MAX 2        /* times that a reply which was cut is asked for again, with twice the tokens */

struct model_talk {
    struct llm_call *call;
    struct llm_message messages[MESSAGES_MAX];
    size_t n_messages;
    const char *system;
    const struct llm_tool_call *pending;
    size_t n_pending, at;
    unsigned bad_calls, nudges, tool_calls, bad_replies, longer;
    int64_t max_tokens;  /* of the next call; 0: as configured */
    bool shortened;      /* the history was dropped, because all did not fit */
    size_t n_history;    /* messages at the front that are earlier turns */
    json_t *kept;        /* array: holds what messages refer to */
    bool is_rescue, is_draft;
    bool said_something; /* a token went out */
    bool new_paragraph;  /* words of an earlier call went out: keep them apart */
    int64_t tokens;
};

static void next_call(struct turn *t);
static void next_tool(struct turn *t);
static void rescue(struct turn *t);

/* ---- the conversation ---- */

static int add_message(struct turn *t, struct llm_message message, struct err *err)
{
    struct model_talk *talk = t->talk;
    if (talk->n_messages == MESSAGES_MAX)
        return err_set(err, ERR_TOO_LARGE, "the conversation with the model is too long");
    if (message.content && !(message.content = arena_strdup(&t->arena, message.content)))
        return err_set(err, ERR_TOO_LARGE, "the conversation with the model is too large");
    talk->messages[talk->n_messages++] = message;
    return 0;
}

static int add_history(struct turn *t, struct err *err)
{
    size_t i;
    json_t *m;
    int r = 0;
    json_array_foreach(t->chat->history, i, m)
    {
        bool user = str_eq(json_string_value(json_object_get(m, "role")), "user");
        const char *content = json_string_value(json_object_get(m, "content")), *code = json_string_value(json_object_get(m, "code"));
        if (i == 0 && !user)
            continue; /* the window begins with a question */
        const char *text = code ? arena_printf(&t->arena, "%s\n\n[I ran:\n%s]", content, code) : content;
        struct llm_message message = { .role = user ? LLM_USER : LLM_ASSISTANT, .content = text && *text ? text : "(nothing)" };
        if (r == 0)
            r = add_message(t, message, err);
    }
    return r;
}

/* ---- the end ---- */

/* The model can't go on. */
static void give_up(struct turn *t, const struct err *err)
{
    struct model_talk *talk = t->talk;
    struct err ignored = ERR_INIT;
    log_warn("agent.model", LOG_STR("thread", t->chat->id), LOG_STR("error", err->message));
    if (json_array_size(t->results)) {
        const char *note = arena_printf(&t->arena, "The model could not finish (%s); this is a summary of what was found.", err->message);
        turn_summarise(t);
        (void)buf_printf(&t->text, &ignored, "\n\n(%s)", note ? note : "the model could not finish");
        json_object_set_new(t->extra, "warning", json_string(note ? note : ""));
        turn_finish(t);
        return;
    }
    if (json_array_size(t->code_runs) == 0 && !talk->said_something && err->code != ERR_CANCELLED) {
        t->failure = *err;
        t->planner_note = arena_printf(&t->arena, "Answered by the built-in planner, because the model could not: %s", err->message);
        if (t->planner_note) {
            answer_by_planner(t);
            return;
        }
    }
    turn_fail(t, err);
}

static void finish_with(struct turn *t, const char *text, enum llm_stop stop)
{
    struct err ignored = ERR_INIT;
    buf_clear(&t->text);
    (void)buf_append(&t->text, text, str_utf8_cut(text, strlen(text), TURN_TEXT_MAX - 4096), &ignored);
    if (stop == LLM_STOP_LENGTH) {
        json_object_set_new(t->extra, "warning", json_string("The model's answer was cut at its token limit (LLM_MAX_TOKENS)."));
        (void)buf_append_str(&t->text, "\n\n(The answer was cut at the model's token limit, LLM_MAX_TOKENS.)", &ignored);
    }
    size_t n = json_array_size(t->results);
    const json_t **results = arena_alloc(&t->arena, (n + 1) * sizeof(*results));
    for (size_t i = 0; results && i < n; i++)
        results[i] = json_array_get(t->results, i);
    json_t *flagged = results ? claims_unfounded(text, results, n, t->message) : NULL;
    if (json_array_size(flagged))
        json_object_set(t->extra, "flagged", flagged);
    json_decref(flagged);
    /* A run that failed on the way is not how the turn ended. */
    if (n > 0 || json_array_size(t->code_runs) == 0)
        t->status = "succeeded";
    if (n > 0 && !json_is_null(json_object_get(t->result, "error"))) {
        json_decref(t->result);
        t->result = json_incref(json_array_get(t->results, n - 1));
    }
    turn_finish(t);
}

static void refused(struct turn *t, const char *text)
{
    struct err ignored = ERR_INIT;
    buf_clear(&t->text);
    (void)buf_append_str(&t->text, *text ? text : "The model declined to answer this.", &ignored);
    t->status = "rejected";
    json_decref(t->result);
    t->result = json_pack("{s:[], s:[], s:[], s:i, s:b, s:i, s:{s:s, s:s}}", "columns", "types", "rows", "row_count", 0, "truncated", 0,
                          "exec_time_ms", 0, "error", "type", "MODEL_REFUSAL", "message", "The model declined to answer this.");
    turn_finish(t);
}

/* ---- drafts: a model that writes code into its answer instead of calling a tool ---- */

static void draft_done(struct turn *t)
{
    turn_summarise(t);
    turn_finish(t);
}

/* Runs what the draft asks for; false if it asks for nothing that can run. */
static bool run_draft(struct turn *t, const json_t *draft)
{
    const char *mode = json_string_value(json_object_get(draft, "mode"));
    struct err err = ERR_INIT;
    struct turn_run run = { 0 };
    if (str_eq(mode, "sql")) {
        run = (struct turn_run){ .language = "sql", .code = json_string_value(json_object_get(draft, "sql")) };
    } else if (str_eq(mode, "python") && turn_cfg(t)->enable_python) {
        run = (struct turn_run){ .language = "python", .code = json_string_value(json_object_get(draft, "python_code")) };
    } else if (str_eq(mode, "plan")) {
        json_t *plan = json_object_get(draft, "plan");
        if (turn_compile(t, plan, &run.code, &err) < 0)
            return false;
        run.language = "plan";
        run.plan = plan;
    }
    if (!run.code)
        return false;
    turn_stage(t, "validating", "Checking what the model wrote...");
    turn_run_code(t, &run, draft_done);
    return true;
}

/* From the beginning, under these instructions. */
static void talk_anew(struct turn *t, int (*prompt_write)(const struct turn *t, struct buf *b, struct err *err))
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    auto_buf struct buf prompt = BUF_INIT(PROMPT_MAX);
    int r = prompt_write(t, &prompt, &err);
    talk->n_messages = 0;
    talk->system = arena_strdup(&t->arena, buf_cstr(&prompt));
    if (r == 0)
        r = add_history(t, &err);
    talk->n_history = talk->n_messages;
    if (r == 0)
        r = add_message(t, (struct llm_message){ .role = LLM_USER, .content = t->message }, &err);
    if (r < 0)
        give_up(t, &err);
    else
        next_call(t);
}

static void rescue(struct turn *t)
{
    t->talk->is_rescue = true;
    talk_anew(t, prompt_rescue);
}

static void rescued(struct turn *t, const char *text)
{
    struct err err = ERR_INIT, why = ERR_INIT;
    auto_json json_t *draft = NULL;
    if (coerce_draft(text, strlen(text), &draft, &why) == 0 && run_draft(t, draft))
        return;
    err_set(&err, ERR_LLM_UNAVAILABLE, "The model's answers could not be used. Try again, put it differently, or use `SQL: …` / `PYTHON: …`.");
    give_up(t, &err);
}

/* ---- tools ---- */

static void tool_says(struct turn *t, const char *text, bool is_error)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    const struct llm_tool_call *call = &talk->pending[talk->at++];
    struct llm_message message = { .role = LLM_TOOL, .content = text, .tool_call_id = call->id, .is_error = is_error };
    if (add_message(t, message, &err) < 0)
        give_up(t, &err);
    else
        next_tool(t);
}

static void tool_ran(struct turn *t)
{
    struct err err = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(TOOL_TEXT_MAX);
    if (tools_result_text(t->result, &text, &err) < 0 && text.len == 0)
        (void)buf_append_str(&text, "the result is too large to show", &err);
    tool_says(t, buf_cstr(&text), !json_is_null(json_object_get(t->result, "error")));
}

static void use_tool(struct turn *t, const struct llm_tool_call *call, json_t *args)
{
    struct err err = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(TOOL_TEXT_MAX);
    struct turn_run run = { 0 };
    int r = 0;
    if (str_eq(call->name, "run_sql")) {
        run = (struct turn_run){ .language = "sql", .code = json_string_value(json_object_get(args, "sql")) };
    } else if (str_eq(call->name, "run_python")) {
        run = (struct turn_run){ .language = "python", .code = json_string_value(json_object_get(args, "code")) };
        if (!turn_cfg(t)->enable_python)
            r = err_set(&err, ERR_FORBIDDEN, "Python is switched off on this server; use run_sql");
    } else if (str_eq(call->name, "run_plan")) {
        json_t *plan = json_object_get(args, "plan");
        if (json_is_object(plan) && !json_object_get(plan, "dataset_id"))
            json_object_set_new(plan, "dataset_id", json_string(t->chat->data.dataset_id));
        r = turn_compile(t, plan, &run.code, &err);
        run.language = "plan";
        run.plan = plan;
    } else if (str_eq(call->name, "describe_table")) {
        const char *table = json_string_value(json_object_get(args, "table"));
        r = tools_describe_table(t, table ? table : "", &text, &err);
    } else {
        r = tools_list_files(t, &text, &err);
    }
    if (r == 0 && run.language && (!run.code || !*run.code))
        r = err_set(&err, ERR_VALIDATION, "the code is missing");
    if (r < 0)
        tool_says(t, err.message, true);
    else if (run.language)
        turn_run_code(t, &run, tool_ran);
    else
        tool_says(t, buf_cstr(&text), false);
}

static void next_tool(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (turn_should_stop(t))
        return;
    if (talk->at >= talk->n_pending) {
        if (talk->bad_calls >= BAD_CALLS_MAX && json_array_size(t->results) == 0)
            rescue(t);
        else
            next_call(t);
        return;
    }
    const struct llm_tool_call *call = &talk->pending[talk->at];
    const json_t *schema = tools_schema(call->name);
    auto_json json_t *args = NULL;
    if (++talk->tool_calls > TOOL_CALLS_MAX) {
        tool_says(t, "too many tool calls: answer with what you have", true);
        return;
    }
    if (!schema) {
        const char *text = arena_printf(&t->arena, "there is no tool '%.60s'; the tools are %s", call->name, tools_names());
        tool_says(t, text ? text : "unknown tool", true);
        return;
    }
    if (coerce_object(call->arguments, strlen(call->arguments), schema, &args, &err) < 0) {
        talk->bad_calls++;
        const char *text = arena_printf(&t->arena, "the arguments can't be read: %s", err.message);
        tool_says(t, text ? text : "the arguments can't be read", true);
        return;
    }
    turn_say(t, "tool_call", json_pack("{s:s, s:s, s:O}", "id", call->id, "name", call->name, "input", args));
    use_tool(t, call, args);
}

/* ---- calls ---- */

static void on_token(void *arg, const char *text, size_t len)
{
    struct turn *t = arg;
    struct model_talk *talk = t->talk;
    if (t->first_token_us < 0)
        t->first_token_us = clock_now_us() - t->begun_us;
    if (talk->is_rescue)
        return; /* code, not words */
    if (talk->new_paragraph)
        turn_say(t, "token", json_pack("{s:s}", "text", "\n\n"));
    talk->new_paragraph = false;
    talk->said_something = t->streamed = true;
    turn_say(t, "token", json_pack("{s:o}", "text", json_text(text, len)));
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    struct turn *t = arg;
    if (!t->talk->is_rescue)
        turn_say(t, "thinking", json_pack("{s:o}", "text", json_text(text, len)));
}

static void on_retry(void *arg, int64_t wait_ms, const struct err *why)
{
    turn_say(arg, "status", json_pack("{s:s, s:o, s:I}", "stage", "waiting", "text",
                                      json_sprintf("The model is busy; trying again in %.1f s (%s)", (double)wait_ms / 1000, why->message),
                                      "wait_ms", (json_int_t)wait_ms));
}

static void count_usage(struct turn *t, const struct llm_reply *reply)
{
    struct llm *llm = t->chat->agent->env.llm;
    if (!t->usage)
        t->usage = json_pack("{s:s, s:s, s:i, s:i, s:i}", "provider", llm_provider(llm), "model", llm_model(llm), "input_tokens", 0,
                             "output_tokens", 0, "calls", 0);
    json_t *u = t->usage;
    t->talk->tokens += reply->usage.input_tokens + reply->usage.output_tokens;
    json_object_set_new(u, "input_tokens",
                        json_integer(json_integer_value(json_object_get(u, "input_tokens")) + reply->usage.input_tokens));
    json_object_set_new(u, "output_tokens",
                        json_integer(json_integer_value(json_object_get(u, "output_tokens")) + reply->usage.output_tokens));
    if (reply->usage.cached_tokens > 0)
        json_object_set_new(u, "cached_tokens",
                            json_integer(json_integer_value(json_object_get(u, "cached_tokens")) + reply->usage.cached_tokens));
    json_object_set_new(u, "calls", json_integer(t->n_llm));
    if (reply->usage.cost_usd >= 0)
        json_object_set_new(u, "cost_usd", json_real(json_number_value(json_object_get(u, "cost_usd")) + reply->usage.cost_usd));
}

static int keep_calls(struct turn *t, const struct llm_reply *reply, struct err *err)
{
    struct model_talk *talk = t->talk;
    struct llm_tool_call *calls = arena_alloc(&t->arena, reply->n_calls * sizeof(*calls));
    bool good = calls != NULL;
    for (size_t i = 0; good && i < reply->n_calls; i++) {
        calls[i] = (struct llm_tool_call){ .id = arena_strdup(&t->arena, reply->calls[i].id),
                                           .name = arena_strdup(&t->arena, reply->calls[i].name),
                                           .arguments = arena_strdup(&t->arena, reply->calls[i].arguments) };
        good = calls[i].id && calls[i].name && calls[i].arguments;
    }
    if (!good)
        return err_set(err, ERR_TOO_LARGE, "the model's calls are too large");
    talk->pending = calls;
    talk->n_pending = reply->n_calls;
    talk->at = 0;
    if (reply->kept)
        json_array_append(talk->kept, reply->kept);
    struct llm_message message = { .role = LLM_ASSISTANT, .content = *reply->text ? reply->text : NULL, .calls = calls,
                                   .n_calls = reply->n_calls, .kept = reply->kept };
    return add_message(t, message, err);
}

/* Something to say to the model behind what it said, then the next call. */
static void tell_model(struct turn *t, const char *said, const char *words)
{
    struct err err = ERR_INIT;
    struct llm_message own = { .role = LLM_ASSISTANT, .content = said && *said ? said : "(nothing)" }, ask = { .role = LLM_USER, .content = words };
    if (!words || add_message(t, own, &err) < 0 || add_message(t, ask, &err) < 0)
        give_up(t, &err);
    else
        next_call(t);
}

/* Cut at its token limit before it said anything that can be used: thinking counts, too. */
static void ask_for_more(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    int64_t limit = talk->max_tokens ? talk->max_tokens : llm_max_tokens(t->chat->agent->env.llm);
    if (talk->longer++ >= LONGER_MAX) {
        err_set(&err, ERR_LLM_UNAVAILABLE, "the model used all of its %lld tokens before it answered; set LLM_MAX_TOKENS higher, or LLM_EFFORT lower",
                (long long)limit);
        give_up(t, &err);
        return;
    }
    talk->max_tokens = limit * 2;
    next_call(t);
}

/* The server could not read the call that its model wrote: the model hears of it, and may try again. */
static void bad_reply(struct turn *t, const struct llm_reply *reply)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (talk->bad_replies++ < BAD_REPLIES_MAX) {
        tell_model(t, reply->text, "This was meant as a tool call, but it could not be read. Call the tool again, with arguments that are one valid JSON object.");
        return;
    }
    err_set(&err, ERR_LLM_BAD_RESPONSE, "the model's tool calls cannot be read by its server: %.200s", reply->text);
    give_up(t, &err);
}

#define SHORT_RESULT_BYTES 400

/* All of it is longer than the model's context: earlier turns go, results become short. Once. */
static void shorten(struct turn *t, const char *why)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (talk->shortened) {
        err_set(&err, ERR_LLM_REJECTED, "the question and what belongs to it are longer than the model's context: %.300s", why);
        give_up(t, &err);
        return;
    }
    talk->shortened = true;
    memmove(talk->messages, talk->messages + talk->n_history, (talk->n_messages - talk->n_history) * sizeof(*talk->messages));
    talk->n_messages -= talk->n_history;
    talk->n_history = 0;
    for (size_t i = 0; i < talk->n_messages; i++) {
        struct llm_message *m = &talk->messages[i];
        m->kept = NULL; /* what a server signed belongs to the conversation as it was */
        m->n_images = 0;
        size_t len = m->content ? strlen(m->content) : 0, cut = len > SHORT_RESULT_BYTES ? str_utf8_cut(m->content, len, SHORT_RESULT_BYTES) : len;
        if (m->role == LLM_TOOL && cut < len)
            m->content = arena_printf(&t->arena, "%.*s\n… (shortened: the conversation was longer than the model's context)", (int)cut, m->content);
    }
    next_call(t);
}

static void empty_reply(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (json_array_size(t->results)) {
        turn_summarise(t);
        turn_finish(t);
    } else if (talk->nudges++ == 0) {
        tell_model(t, NULL, "Your answer was empty. Use a tool, or answer in words.");
    } else {
        err_set(&err, ERR_LLM_UNAVAILABLE, "the model gave an empty answer twice");
        give_up(t, &err);
    }
}

static void on_reply(void *arg, const struct llm_reply *reply, const struct err *err)
{
    struct turn *t = arg;
    struct model_talk *talk = t->talk;
    struct err why = ERR_INIT;
    talk->call = NULL;
    json_array_append_new(t->llm_ms, json_real((double)(clock_now_us() - t->call_begun_us) / 1000));
    if (reply)
        count_usage(t, reply);
    if (turn_should_stop(t))
        return;
    if (err) {
        struct err copy = *err;
        give_up(t, &copy);
        return;
    }
    if (reply->stop == LLM_STOP_OVERFLOW) {
        shorten(t, reply->text);
        return;
    }
    if (reply->stop == LLM_STOP_BAD_CALL) {
        bad_reply(t, reply);
        return;
    }
    if (reply->stop == LLM_STOP_LENGTH && (!*reply->text || reply->n_calls > 0)) {
        ask_for_more(t);
        return;
    }
    if (reply->stop == LLM_STOP_REFUSAL && reply->n_calls == 0) {
        refused(t, reply->text);
        return;
    }
    if (talk->is_rescue) {
        rescued(t, reply->text);
        return;
    }
    if (reply->n_calls > 0) {
        talk->new_paragraph = talk->said_something;
        if (keep_calls(t, reply, &why) < 0)
            give_up(t, &why);
        else
            next_tool(t);
        return;
    }
    if (!*reply->text) {
        empty_reply(t);
        return;
    }
    auto_json json_t *draft = NULL;
    if (json_array_size(t->code_runs) == 0 && coerce_draft(reply->text, strlen(reply->text), &draft, &why) == 0) {
        const char *said = json_string_value(json_object_get(draft, "message"));
        if (str_eq(json_string_value(json_object_get(draft, "mode")), "chat") && said) {
            finish_with(t, said, reply->stop);
            return;
        }
        if (run_draft(t, draft))
            return;
        rescue(t);
        return;
    }
    finish_with(t, reply->text, reply->stop);
}

static void next_call(struct turn *t)
{
    struct model_talk *talk = t->talk;
    const struct config *cfg = turn_cfg(t);
    struct err err = ERR_INIT;
    if (t->n_llm >= (unsigned)cfg->agent_max_calls) {
        err_set(&err, ERR_LLM_UNAVAILABLE, "no answer after %u calls of the model (AGENT_MAX_CALLS)", t->n_llm);
        give_up(t, &err);
        return;
    }
    if (talk->tokens > cfg->agent_max_tokens) {
        err_set(&err, ERR_LLM_UNAVAILABLE, "no answer after %lld tokens (AGENT_MAX_TOKENS)", (long long)talk->tokens);
        give_up(t, &err);
        return;
    }
    bool last = t->n_llm + 1 >= (unsigned)cfg->agent_max_calls && json_array_size(t->results) > 0;
    struct llm_request req = { .system = talk->system, .messages = talk->messages, .n_messages = talk->n_messages,
                               .max_tokens = talk->max_tokens,
                               .timeout_ms = MAX_OF(1000, MIN_OF(t->deadline_ms - clock_now_ms(), (int64_t)cfg->llm_timeout_s * 1000)),
                               .tool_choice = talk->is_rescue || last ? LLM_TOOLS_NONE : LLM_TOOLS_AUTO };
    req.n_tools = talk->is_rescue ? 0 : tools_list(t, &req.tools);
    struct llm_events events = { .token = on_token, .thinking = on_thinking, .retry = on_retry, .done = on_reply, .arg = t };
    t->n_llm++;
    t->call_begun_us = clock_now_us();
    turn_stage(t, "thinking", "Asking the model...");
    if (llm_start(t->chat->agent->env.llm, &req, &events, &talk->call, &err) < 0)
        give_up(t, &err);
}

static void begin(struct turn *t)
{
    talk_anew(t, prompt_system);
}

void answer_by_model(struct turn *t)
{
    struct err err = ERR_INIT;
    t->talk = calloc(1, sizeof(*t->talk));
    if (t->talk)
        t->talk->kept = json_array();
    if (!t->talk) {
        err_set(&err, ERR_NO_MEMORY, "out of memory");
        turn_fail(t, &err);
        return;
    }
    /* The sandbox comes up while the model thinks. */
    if (turn_cfg(t)->enable_python)
        thread_kernel_prepare(t->chat->kernel);
    turn_need_catalog(t, begin);
}

void model_cancel(struct turn *t)
{
    if (t->talk && t->talk->call)
        llm_cancel(TAKE_PTR(t->talk->call));
}

void model_talk_destroy(struct turn *t)
{
    model_cancel(t);
    if (t->talk)
        json_decref(t->talk->kept);
    free(TAKE_PTR(t->talk));
}
