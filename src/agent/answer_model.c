/*
 * Answers by a model. The talk goes round: a call → the tools it asked for, one after the other →
 * the next call with what they said, until it answers in words. Everything is bounded: calls,
 * tokens, time. What goes wrong on the way (a tool's error, arguments that cannot be read, no rows)
 * is told to the model, which may try again; when the model itself fails, what there is decides: a
 * result is summed up without it, a plain question is left to the planner, and otherwise the
 * failure is told.
 */

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "agent/coerce.h"
#include "agent/model_impl.h"
#include "base/log.h"
#include "base/str.h"

#define PROMPT_MAX (256u << 10)
#define BAD_CALLS_MAX 2   /* unreadable arguments; then the rescue */
#define BAD_REPLIES_MAX 2 /* tool calls that the model's own server could not read */
#define LONGER_MAX                                                                                 \
    2 /* times that a reply which was cut is asked for again, with twice the tokens */
#define CUT_PROMPT_BYTES 20000 /* of a conversation that a small context may not hold */
#define LEAD_IN_BYTES 60       /* "Here is the query:" beside code is no answer of its own */

static void rescue(struct turn *t);

/* ---- the conversation ---- */

int model_add_message(struct turn *t, struct llm_message message, struct err *err)
{
    struct model_talk *talk = t->talk;
    if (talk->n_messages == MESSAGES_MAX)
        return err_set(err, ERR_TOO_LARGE, "the conversation with the model is too long");
    if (message.content && !(message.content = arena_strdup(&t->arena, message.content)))
        return err_set(err, ERR_TOO_LARGE, "the conversation with the model is too large");
    talk->messages[talk->n_messages++] = message;
    return 0;
}

/* A user's message; the first one has the data before it. */
static int add_question(struct turn *t, const char *details, const char *text, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(PROMPT_MAX);
    int r = 0;
    if (t->talk->n_messages == 0) {
        r = prompt_data(t, &b, err);
        if (r == 0)
            r = buf_append_str(&b, "\n\n", err);
    }
    if (r == 0)
        r = buf_append_str(&b, details, err);
    if (r == 0)
        r = buf_append_str(&b, text, err);
    return r == 0 ? model_add_message(
                        t, (struct llm_message){ .role = LLM_USER, .content = buf_cstr(&b) }, err) :
                    r;
}

static int add_history(struct turn *t, struct err *err)
{
    struct model_talk *talk = t->talk;
    size_t i;
    json_t *m;
    int r = 0;
    json_array_foreach(t->chat->history, i, m) {
        bool user = str_eq(json_string_value(json_object_get(m, "role")), "user");
        const char *content = json_string_value(json_object_get(m, "content"));
        struct llm_message messages[48];
        if (r < 0 || (talk->n_messages == 0 && !user))
            continue; /* the window begins with a question */
        if (user) {
            r = add_question(t, "", content && *content ? content : "(nothing)", err);
            continue;
        }
        json_array_append(talk->kept, m); /* the messages refer to it */
        size_t n = history_messages(t, m, i, messages, ARRAY_SIZE(messages));
        for (size_t k = 0; k < n && r == 0; k++)
            r = model_add_message(t, messages[k], err);
    }
    return r;
}

/* ---- the end ---- */

/* A run that failed on the way is not how the turn ended. */
static void take_last_result(struct turn *t)
{
    size_t n = json_array_size(t->results);
    if (n > 0 || json_array_size(t->code_runs) == 0)
        t->status = "succeeded";
    if (n > 0 && !json_is_null(json_object_get(t->result, "error"))) {
        json_decref(t->result);
        t->result = json_incref(json_array_get(t->results, n - 1));
    }
}

/*
 * A call that failed. What the model's server said, and where it is, is for the log; people read
 * what kind of failure it was.
 */
static void call_failed(struct turn *t, const struct err *err)
{
    static const struct {
        enum err_code code;
        const char *words;
    } kinds[] = {
        { ERR_LLM_RATE_LIMITED, "the model's provider has reached its limit. Try again later" },
        { ERR_LLM_REJECTED,
          "the model's provider refused the request. The log of this server says why" },
        { ERR_LLM_BAD_RESPONSE,
          "the model's answer cannot be read. The log of this server says why" },
        { ERR_LLM_TIMEOUT, "the model did not answer in time. Try again" },
    };
    struct err said = ERR_INIT;
    const char *words =
        "the model cannot be reached, or fails. Try again, or use `SQL: …` / `PYTHON: …`";
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (kinds[i].code == err->code)
            words = kinds[i].words;
    log_warn("agent.model.call", LOG_STR("thread", t->chat->id), LOG_STR("error", err->message));
    err_set(&said, err->code, "%s", words);
    model_give_up(t, &said);
}

void model_give_up(struct turn *t, const struct err *err)
{
    struct model_talk *talk = t->talk;
    struct err ignored = ERR_INIT;
    log_warn("agent.model", LOG_STR("thread", t->chat->id), LOG_STR("error", err->message));
    if (json_array_size(t->results)) {
        const char *note = arena_printf(
            &t->arena, "The model could not finish (%s); this is a summary of what was found.",
            err->message);
        take_last_result(t);
        turn_summarise(t);
        (void)buf_printf(&t->text, &ignored, "\n\n(%s)",
                         note ? note : "the model could not finish");
        json_object_set_new(t->extra, "warning", json_string(note ? note : ""));
        turn_finish(t);
        return;
    }
    if (json_array_size(t->code_runs) == 0 && !talk->said_something && err->code != ERR_CANCELLED) {
        t->failure = *err;
        t->planner_note = arena_printf(
            &t->arena, "Answered by the built-in planner, because the model could not: %s",
            err->message);
        if (t->planner_note) {
            answer_by_planner(t);
            return;
        }
    }
    turn_fail(t, err);
}

void model_finish(struct turn *t, const char *text, enum llm_stop stop)
{
    struct err ignored = ERR_INIT;
    words_release(t);
    buf_clear(&t->text);
    (void)buf_append(&t->text, text, str_utf8_cut(text, strlen(text), TURN_TEXT_MAX - 4096),
                     &ignored);
    if (stop == LLM_STOP_LENGTH) {
        json_object_set_new(
            t->extra, "warning",
            json_string("The model's answer was cut at its token limit (LLM_MAX_TOKENS)."));
        (void)buf_append_str(&t->text,
                             "\n\n(The answer was cut at the model's token limit, LLM_MAX_TOKENS.)",
                             &ignored);
    }
    json_t *flagged = words_unfounded(t, text);
    if (json_array_size(flagged))
        json_object_set(t->extra, "flagged", flagged);
    json_decref(flagged);
    take_last_result(t);
    turn_finish(t);
}

static void refused(struct turn *t, const char *text)
{
    struct err ignored = ERR_INIT;
    buf_clear(&t->text);
    (void)buf_append_str(&t->text, *text ? text : "The model declined to answer this.", &ignored);
    turn_reject(t, "MODEL_REFUSAL", "The model declined to answer this.");
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
        run = (struct turn_run){ .language = "sql",
                                 .code = json_string_value(json_object_get(draft, "sql")) };
    } else if (str_eq(mode, "python") && turn_cfg(t)->enable_python) {
        run = (struct turn_run){ .language = "python",
                                 .code = json_string_value(json_object_get(draft, "python_code")) };
    } else if (str_eq(mode, "plan")) {
        json_t *plan = json_object_get(draft, "plan");
        if (turn_compile(t, plan, &run.code, &err) < 0)
            return false;
        run.language = "plan";
        run.plan = plan;
    }
    if (!run.code)
        return false;
    turn_run_code(t, &run, draft_done);
    return true;
}

/* From the beginning, under these instructions. */
static void talk_anew(struct turn *t,
                      int (*prompt_write)(const struct turn *t, struct buf *b, struct err *err))
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    auto_buf struct buf prompt = BUF_INIT(PROMPT_MAX), details = BUF_INIT(PROMPT_MAX);
    int r = prompt_write(t, &prompt, &err);
    talk->n_messages = 0;
    talk->system = arena_strdup(&t->arena, buf_cstr(&prompt));
    if (r == 0)
        r = add_history(t, &err);
    talk->n_history = talk->n_messages;
    if (r == 0)
        r = prompt_details(t, &details, &err);
    if (r == 0)
        r = prompt_examples(t, &details, &err);
    if (r == 0)
        r = add_question(t, buf_cstr(&details), t->message, &err);
    if (r < 0)
        model_give_up(t, &err);
    else
        model_next_call(t);
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
    err_set(
        &err, ERR_LLM_UNAVAILABLE,
        "The model's answers could not be used. Try again, put it differently, or use `SQL: …` / `PYTHON: …`.");
    model_give_up(t, &err);
}

/* ---- calls ---- */

static void on_token(void *arg, const char *text, size_t len)
{
    struct turn *t = arg;
    if (t->first_token_us < 0)
        t->first_token_us = clock_now_us() - t->begun_us;
    if (!t->talk->is_rescue) /* then it is code, not words */
        words_hear(t, text, len);
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    struct turn *t = arg;
    if (!t->talk->is_rescue)
        turn_say(t, "thinking", json_pack("{s:o}", "text", json_text(text, len)));
}

static void on_retry(void *arg, int64_t wait_ms, const struct err *why)
{
    struct turn *t = arg;
    log_warn("agent.model.retry", LOG_STR("thread", t->chat->id), LOG_STR("error", why->message));
    turn_say(
        t, "status",
        json_pack("{s:s, s:o, s:I}", "stage", "waiting", "text",
                  json_sprintf("The model is busy; trying again in %.1f s", (double)wait_ms / 1000),
                  "wait_ms", (json_int_t)wait_ms));
}

static void count_usage(struct turn *t, const struct llm_reply *reply)
{
    struct llm *llm = t->chat->agent->env.llm;
    if (!t->usage)
        t->usage = json_pack("{s:s, s:s, s:i, s:i, s:i}", "provider", llm_provider(llm), "model",
                             llm_model(llm), "input_tokens", 0, "output_tokens", 0, "calls", 0);
    json_t *u = t->usage;
    t->talk->tokens += reply->usage.input_tokens + reply->usage.output_tokens;
    json_object_set_new(u, "input_tokens",
                        json_integer(json_integer_value(json_object_get(u, "input_tokens")) +
                                     reply->usage.input_tokens));
    json_object_set_new(u, "output_tokens",
                        json_integer(json_integer_value(json_object_get(u, "output_tokens")) +
                                     reply->usage.output_tokens));
    if (reply->usage.cached_tokens > 0)
        json_object_set_new(u, "cached_tokens",
                            json_integer(json_integer_value(json_object_get(u, "cached_tokens")) +
                                         reply->usage.cached_tokens));
    json_object_set_new(u, "calls", json_integer(t->n_llm));
    if (reply->usage.cost_usd >= 0)
        json_object_set_new(
            u, "cost_usd",
            json_real(json_number_value(json_object_get(u, "cost_usd")) + reply->usage.cost_usd));
}

/*
 * A server that cuts what does not fit its context, without a word, is told by its count: no text
 * has fewer than a token for ten bytes. (Ollama gives a model 4,096 tokens unless it is told
 * otherwise.)
 */
static void notice_cut_prompt(struct turn *t, const struct llm_reply *reply)
{
    struct model_talk *talk = t->talk;
    size_t bytes = strlen(talk->system);
    for (size_t i = 0; i < talk->n_messages; i++)
        bytes += talk->messages[i].content ? strlen(talk->messages[i].content) : 0;
    if (bytes < CUT_PROMPT_BYTES || reply->usage.input_tokens == 0 ||
        reply->usage.input_tokens > (int64_t)bytes / 10)
        return;
    json_object_set_new(
        t->extra, "warning",
        json_sprintf(
            "The model's server read only %lld tokens of %zu bytes: its context is too small (for Ollama, set OLLAMA_CONTEXT_LENGTH).",
            (long long)reply->usage.input_tokens, bytes));
}

/* The calls of a reply become the messages that come next. */
static int keep_calls(struct turn *t, const struct llm_reply *reply, struct err *err)
{
    struct model_talk *talk = t->talk;
    struct llm_tool_call *calls = arena_alloc(&t->arena, reply->n_calls * sizeof(*calls));
    bool good = calls != NULL;
    for (size_t i = 0; good && i < reply->n_calls; i++) {
        calls[i] = (struct llm_tool_call){ .id = arena_strdup(&t->arena, reply->calls[i].id),
                                           .name = arena_strdup(&t->arena, reply->calls[i].name),
                                           .arguments = arena_strdup(&t->arena,
                                                                     reply->calls[i].arguments) };
        good = calls[i].id && calls[i].name && calls[i].arguments;
    }
    if (!good)
        return err_set(err, ERR_TOO_LARGE, "the model's calls are too large");
    talk->pending = calls;
    talk->n_pending = reply->n_calls;
    talk->at = 0;
    if (reply->kept)
        json_array_append(talk->kept, reply->kept);
    struct llm_message message = { .role = LLM_ASSISTANT,
                                   .content = *reply->text ? reply->text : NULL,
                                   .calls = calls,
                                   .n_calls = reply->n_calls,
                                   .kept = reply->kept };
    history_add_reply(t, reply);
    return model_add_message(t, message, err);
}

/* Something to say to the model behind what it said, then the next call. */
static void tell_model(struct turn *t, const char *said, const char *words)
{
    struct err err = ERR_INIT;
    struct llm_message own = { .role = LLM_ASSISTANT,
                               .content = said && *said ? said : "(nothing)" },
                       ask = { .role = LLM_USER, .content = words };
    if (!words || model_add_message(t, own, &err) < 0 || model_add_message(t, ask, &err) < 0)
        model_give_up(t, &err);
    else
        model_next_call(t);
}

/* Cut at its token limit before it said anything that can be used: thinking counts, too. */
static void ask_for_more(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    int64_t limit = talk->max_tokens ? talk->max_tokens : llm_max_tokens(t->chat->agent->env.llm);
    if (talk->longer++ >= LONGER_MAX) {
        err_set(
            &err, ERR_LLM_UNAVAILABLE,
            "the model used all of its %lld tokens before it answered; set LLM_MAX_TOKENS higher, or LLM_EFFORT lower",
            (long long)limit);
        model_give_up(t, &err);
        return;
    }
    talk->max_tokens = limit * 2;
    model_next_call(t);
}

/*
 * The server could not read the call that its model wrote: the model hears of it, and may try
 * again.
 */
static void bad_reply(struct turn *t, const struct llm_reply *reply)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (talk->bad_replies++ < BAD_REPLIES_MAX) {
        tell_model(
            t, reply->text,
            "This was meant as a tool call, but it could not be read. Call the tool again, with arguments that are one valid JSON object.");
        return;
    }
    log_warn("agent.model.calls", LOG_STR("thread", t->chat->id), LOG_STR("error", reply->text));
    err_set(&err, ERR_LLM_BAD_RESPONSE, "the model's tool calls cannot be read by its server");
    model_give_up(t, &err);
}

#define SHORT_RESULT_BYTES 400

/* All of it is longer than the model's context: earlier turns go, results become short. Once. */
static void shorten(struct turn *t, const char *why)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (talk->shortened) {
        log_warn("agent.model.context", LOG_STR("thread", t->chat->id), LOG_STR("error", why));
        err_set(&err, ERR_LLM_REJECTED,
                "the question and what belongs to it are longer than the model's context");
        model_give_up(t, &err);
        return;
    }
    talk->shortened = true;
    size_t n = talk->n_messages - talk->n_history;
    memmove(talk->messages, talk->messages + talk->n_history, n * sizeof(*talk->messages));
    bool had_history = talk->n_history > 0;
    talk->n_history = talk->n_messages = 0;
    /* the data stood before the first question */
    if (had_history && add_question(t, "", t->message, &err) == 0)
        talk->messages[0] = talk->messages[talk->n_messages - 1];
    talk->n_messages = n;
    for (size_t i = 0; i < talk->n_messages; i++) {
        struct llm_message *m = &talk->messages[i];
        m->kept = NULL; /* what a server signed belongs to the conversation as it was */
        m->n_images = 0;
        size_t len = m->content ? strlen(m->content) : 0,
               cut = len > SHORT_RESULT_BYTES ? str_utf8_cut(m->content, len, SHORT_RESULT_BYTES) :
                                                len;
        if (m->role == LLM_TOOL && cut < len)
            m->content = arena_printf(
                &t->arena,
                "%.*s\n… (shortened: the conversation was longer than the model's context)",
                (int)cut, m->content);
    }
    model_next_call(t);
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
        model_give_up(t, &err);
    }
}

/*
 * Whether code in words was meant to be run: a model that knows no tools writes nothing else.
 * Beside an explanation, or when the person said so, it is part of the answer.
 */
static bool is_meant_to_run(const struct turn *t, const char *text, const char *said)
{
    static const char *const refusals[] = { "don't run",       "do not run",  "dont run",
                                            "without running", "not execute", "don't execute",
                                            "nicht ausf" };
    size_t len = said ? strlen(said) : 0;
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        if (strcasestr(t->message, refusals[i]))
            return false;
    return text[strspn(text, " \t\r\n")] == '{' || len == 0 ||
           (len <= LEAD_IN_BYTES && said[len - 1] == ':');
}

/*
 * Figures from nowhere go back to the model once, before the person sees them. True when it was
 * asked again.
 */
static bool hand_back(struct turn *t, const char *text)
{
    struct model_talk *talk = t->talk;
    auto_buf struct buf b = BUF_INIT(4096);
    struct err ignored = ERR_INIT;
    size_t i;
    json_t *f;
    if (talk->handed_back || t->n_llm + 1 >= (unsigned)turn_cfg(t)->agent_max_calls)
        return false;
    auto_json json_t *flagged = words_unfounded(t, text);
    if (json_array_size(flagged) == 0)
        return false;
    talk->handed_back = true;
    (void)buf_append_str(&b, "These figures of your answer are in no result of a tool:", &ignored);
    json_array_foreach(flagged, i, f)
        if (i < 20)
            (void)buf_printf(&b, &ignored, "%s %s", i ? "," : "",
                             json_string_value(json_object_get(f, "text")));
    (void)buf_append_str(
        &b,
        ". Compute them with a tool, or leave them out; then give your whole answer again. The person has not seen it.",
        &ignored);
    talk->new_paragraph = talk->said_something;
    tell_model(t, text, buf_cstr(&b));
    return true;
}

/* An object that says what it would run, without the code: `{"query_mode": "plan", …}`. */
static bool is_incomplete_draft(const char *text)
{
    static const char *const modes[] = { "plan", "sql", "python" };
    auto_json json_t *object = NULL;
    struct err ignored = ERR_INIT;
    if (text[strspn(text, " \t\r\n")] != '{' ||
        coerce_object(text, strlen(text), NULL, &object, &ignored) < 0)
        return false;
    const json_t *inner = json_object_get(object, "parsed");
    const char *mode = json_string_value(
        json_object_get(json_is_object(inner) ? inner : object, "query_mode"));
    for (size_t i = 0; i < ARRAY_SIZE(modes) && mode; i++)
        if (str_ieq(mode, modes[i]))
            return true;
    return false;
}

static void on_reply(void *arg, const struct llm_reply *reply, const struct err *err)
{
    struct turn *t = arg;
    struct model_talk *talk = t->talk;
    struct err why = ERR_INIT;
    talk->call = NULL;
    json_array_append_new(t->llm_ms, json_real((double)(clock_now_us() - t->call_begun_us) / 1000));
    if (reply) {
        count_usage(t, reply);
        notice_cut_prompt(t, reply);
    }
    if (turn_should_stop(t))
        return;
    if (err) {
        call_failed(t, err);
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
        words_release(t);
        talk->new_paragraph = talk->said_something;
        if (keep_calls(t, reply, &why) < 0)
            model_give_up(t, &why);
        else
            model_use_tools(t);
        return;
    }
    if (!*reply->text) {
        empty_reply(t);
        return;
    }
    auto_json json_t *draft = NULL;
    if (json_array_size(t->code_runs) == 0 &&
        coerce_draft(reply->text, strlen(reply->text), &draft, &why) == 0) {
        const char *said = json_string_value(json_object_get(draft, "message"));
        if (str_eq(json_string_value(json_object_get(draft, "mode")), "chat") && said) {
            words_forget(t); /* the JSON around it is not for the person */
            words_hear(t, said, strlen(said));
            model_finish(t, said, reply->stop);
            return;
        }
        if (is_meant_to_run(t, reply->text, said)) {
            if (!run_draft(t, draft))
                rescue(t);
            return;
        }
    }
    if (!draft && json_array_size(t->code_runs) == 0 && is_incomplete_draft(reply->text)) {
        rescue(t);
        return;
    }
    if (!hand_back(t, reply->text))
        model_finish(t, reply->text, reply->stop);
}

void model_next_call(struct turn *t)
{
    struct model_talk *talk = t->talk;
    const struct config *cfg = turn_cfg(t);
    struct err err = ERR_INIT;
    if (!talk->is_rescue && talk->bad_calls >= BAD_CALLS_MAX && json_array_size(t->results) == 0) {
        rescue(t);
        return;
    }
    if (t->n_llm >= (unsigned)cfg->agent_max_calls) {
        err_set(&err, ERR_LLM_UNAVAILABLE,
                "no answer after %u calls of the model (AGENT_MAX_CALLS)", t->n_llm);
        model_give_up(t, &err);
        return;
    }
    if (talk->tokens > cfg->agent_max_tokens) {
        err_set(&err, ERR_LLM_UNAVAILABLE, "no answer after %lld tokens (AGENT_MAX_TOKENS)",
                (long long)talk->tokens);
        model_give_up(t, &err);
        return;
    }
    bool last = t->n_llm + 1 >= (unsigned)cfg->agent_max_calls && json_array_size(t->results) > 0;
    struct llm_request req = {
        .system = talk->system,
        .messages = talk->messages,
        .n_messages = talk->n_messages,
        .max_tokens = talk->max_tokens,
        .timeout_ms = MAX_OF(
            1000, MIN_OF(t->deadline_ms - clock_now_ms(), (int64_t)cfg->llm_timeout_s * 1000)),
        .tool_choice = talk->is_rescue || last ? LLM_TOOLS_NONE : LLM_TOOLS_AUTO
    };
    req.n_tools = talk->is_rescue ? 0 : tools_list(t, &req.tools);
    struct llm_events events = {
        .token = on_token, .thinking = on_thinking, .retry = on_retry, .done = on_reply, .arg = t
    };
    t->n_llm++;
    t->call_begun_us = clock_now_us();
    words_forget(t);
    turn_stage(t, "thinking", "Asking the model...");
    if (llm_start(t->chat->agent->env.llm, &req, &events, &talk->call, &err) < 0)
        call_failed(t, &err);
}

static void begin(struct turn *t)
{
    talk_anew(t, prompt_system);
}

static void look_for_examples(struct turn *t)
{
    turn_need_examples(t, begin);
}

void answer_by_model(struct turn *t)
{
    struct err err = ERR_INIT;
    t->talk = calloc(1, sizeof(*t->talk));
    if (t->talk) {
        t->talk->kept = json_array();
        t->talk->answered = json_object();
        t->talk->drawn = json_array();
        buf_init(&t->talk->heard, TURN_TEXT_MAX);
    }
    if (!t->talk) {
        err_set(&err, ERR_NO_MEMORY, "out of memory");
        turn_fail(t, &err);
        return;
    }
    /* The sandbox comes up while the model thinks. */
    if (turn_cfg(t)->enable_python)
        thread_kernel_prepare(t->chat->kernel);
    turn_need_catalog(t, look_for_examples);
}

void model_cancel(struct turn *t)
{
    if (t->talk && t->talk->call)
        llm_cancel(TAKE_PTR(t->talk->call));
}

void model_talk_destroy(struct turn *t)
{
    model_cancel(t);
    if (t->talk) {
        words_forget(t);
        buf_finish(&t->talk->heard);
        json_decref(t->talk->kept);
        json_decref(t->talk->answered);
        json_decref(t->talk->files_before);
        json_decref(t->talk->drawn);
    }
    free(TAKE_PTR(t->talk));
}
