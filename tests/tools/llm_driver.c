/*
 * Calls the model that the environment names, for tests. One line of JSON on standard input is one
 * call:
 *
 *   {"system": "…", "messages": [{"role": "user|assistant|tool", "content": "…", "calls": [{"id", "name", "arguments"}],
 *    "tool_call_id": "…", "is_error": false, "kept": …, "images": [{"type", "base64"}]}], "tools": [{"name", "description", "parameters"}], "tool_choice": "auto|none|required",
 *    "max_tokens": 0, "timeout_ms": 0, "cancel_at": 3}
 *
 * `cancel_at` cancels the call from within its nth token. What comes back are lines of JSON:
 * {"event": "token|thinking|retry|done|cancelled", "at_us": …}; at_us is CLOCK_MONOTONIC. Calls run
 * one after the other; {"together": [call, …]} runs some at once, and their events say which in
 * "call". At the end of the input come the statistics.
 */

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/config.h"
#include "base/json.h"
#include "base/str.h"
#include "llm/llm.h"

#define MESSAGES_MAX 64
#define CALLS_MAX 64

struct one {
    int number;
    long long cancel_at, tokens;
    struct llm_call *call;
};

static struct llm *llm;

static void say(json_t *taken)
{
    auto_json json_t *line = taken;
    auto_free char *text = NULL;

    json_object_set_new(line, "at_us", json_integer(clock_now_us()));
    text = json_to_str(line);
    puts(text);
    fflush(stdout);
}

static const char *str(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

static void on_token(void *arg, const char *text, size_t len)
{
    struct one *one = arg;

    say(json_pack("{s:s, s:i, s:o}", "event", "token", "call", one->number, "text",
                  json_text(text, len)));
    if (++one->tokens == one->cancel_at) {
        llm_cancel(one->call);
        say(json_pack("{s:s, s:i}", "event", "cancelled", "call", one->number));
    }
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    struct one *one = arg;

    say(json_pack("{s:s, s:i, s:o}", "event", "thinking", "call", one->number, "text",
                  json_text(text, len)));
}

static void on_retry(void *arg, int64_t wait_ms, const struct err *why)
{
    struct one *one = arg;

    say(json_pack("{s:s, s:i, s:I, s:o}", "event", "retry", "call", one->number, "wait_ms",
                  (json_int_t)wait_ms, "why", json_error(why)));
}

static void on_done(void *arg, const struct llm_reply *reply, const struct err *err)
{
    static const char *const stops[_LLM_STOP_MAX] = { "end",     "tools",    "length",
                                                      "refusal", "overflow", "bad_call" };
    struct one *one = arg;

    if (err) {
        say(json_pack("{s:s, s:i, s:o, s:i}", "event", "done", "call", one->number, "error",
                      json_error(err), "status", err_http_status(err->code)));
        return;
    }
    json_t *calls = json_array();
    for (size_t i = 0; i < reply->n_calls; i++)
        json_array_append_new(calls, json_pack("{s:s, s:s, s:s}", "id", reply->calls[i].id, "name",
                                               reply->calls[i].name, "arguments",
                                               reply->calls[i].arguments));
    say(json_pack("{s:s, s:i, s:s, s:s, s:O*, s:I, s:o, s:s, s:I, s:I, s:f, s:I, s:I, s:i}",
                  "event", "done", "call", one->number, "text", reply->text, "thinking",
                  reply->thinking, "kept", reply->kept, "cached_tokens",
                  (json_int_t)reply->usage.cached_tokens, "calls", calls, "stop",
                  stops[reply->stop], "input_tokens", (json_int_t)reply->usage.input_tokens,
                  "output_tokens", (json_int_t)reply->usage.output_tokens, "cost_usd",
                  reply->usage.cost_usd, "first_token_us", (json_int_t)reply->first_token_us,
                  "total_us", (json_int_t)reply->total_us, "attempts", (int)reply->attempts));
}

static int start(struct one *one, const json_t *req, struct err *err)
{
    struct llm_message messages[MESSAGES_MAX] = { 0 };
    struct llm_tool_call calls[MESSAGES_MAX][LLM_CALLS_MAX];
    struct llm_image images[MESSAGES_MAX][4];
    struct llm_tool tools[16];
    struct llm_request r = { .system = str(req, "system"), .messages = messages, .tools = tools };
    struct llm_events events = {
        .token = on_token, .thinking = on_thinking, .retry = on_retry, .done = on_done, .arg = one
    };
    const char *choice = str(req, "tool_choice");
    json_t *m, *c, *t;
    size_t i, j;

    json_array_foreach(json_object_get(req, "messages"), i, m) {
        struct llm_message *to = &messages[r.n_messages++];
        const char *role = str(m, "role");

        to->role = str_eq(role, "assistant") ? LLM_ASSISTANT :
                   str_eq(role, "tool")      ? LLM_TOOL :
                                               LLM_USER;
        to->content = str(m, "content");
        to->tool_call_id = str(m, "tool_call_id");
        to->is_error = json_is_true(json_object_get(m, "is_error"));
        to->calls = calls[i];
        to->kept = json_object_get(m, "kept");
        to->images = images[i];
        json_array_foreach(json_object_get(m, "images"), j, c)
            images[i][to->n_images++] = (struct llm_image){ .type = str(c, "type"),
                                                            .base64 = str(c, "base64") };
        json_array_foreach(json_object_get(m, "calls"), j, c)
            calls[i][to->n_calls++] = (struct llm_tool_call){ .id = str(c, "id"),
                                                              .name = str(c, "name"),
                                                              .arguments = str(c, "arguments") };
    }
    json_array_foreach(json_object_get(req, "tools"), i, t)
        tools[r.n_tools++] = (struct llm_tool){ .name = str(t, "name"),
                                                .description = str(t, "description"),
                                                .parameters = json_object_get(t, "parameters") };
    r.tool_choice = str_eq(choice, "none")     ? LLM_TOOLS_NONE :
                    str_eq(choice, "required") ? LLM_TOOLS_REQUIRED :
                                                 LLM_TOOLS_AUTO;
    r.max_tokens = json_integer_value(json_object_get(req, "max_tokens"));
    r.timeout_ms = json_integer_value(json_object_get(req, "timeout_ms"));
    one->cancel_at = json_integer_value(json_object_get(req, "cancel_at"));
    return llm_start(llm, &r, &events, &one->call, err);
}

static int run_line(uv_loop_t *loop, const char *line, size_t len, struct err *err)
{
    auto_json json_t *req = NULL;
    struct one ones[CALLS_MAX] = { 0 };
    json_t *each, *together;
    size_t i;
    int r = json_parse(line, len, &req, err);

    if (r < 0)
        return r;
    together = json_object_get(req, "together");
    if (!together)
        r = start(&ones[0], req, err);
    json_array_foreach(together, i, each) {
        ones[i].number = (int)i;
        if (r == 0)
            r = start(&ones[i], each, err);
    }
    uv_run(loop, UV_RUN_DEFAULT); /* until nothing is under way */
    return r;
}

static int run(uv_loop_t *loop, struct err *err)
{
    auto_free char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int r = 0;
    struct llm_stats stats;

    say(json_pack("{s:s, s:s, s:s}", "event", "ready", "provider", llm_provider(llm), "model",
                  llm_model(llm)));
    while (r == 0 && (n = getline(&line, &cap, stdin)) > 0)
        r = run_line(loop, line, (size_t)n, err);
    llm_stats(llm, &stats);
    say(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "event", "stats", "calls",
                  (json_int_t)stats.calls, "failures", (json_int_t)stats.failures, "retries",
                  (json_int_t)stats.retries, "input_tokens", (json_int_t)stats.input_tokens,
                  "output_tokens", (json_int_t)stats.output_tokens, "cost_usd", stats.cost_usd));
    return r;
}

int main(void)
{
    struct config cfg;
    struct err err = ERR_INIT;
    uv_loop_t loop;
    int r = config_load(&cfg, NULL, &err);

    if (r == 0) {
        uv_loop_init(&loop);
        r = llm_create(&loop, &cfg, &llm, &err);
        if (r == 0) {
            r = run(&loop, &err);
            llm_destroy(llm);
        }
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        config_finish(&cfg);
    }
    if (r < 0)
        fprintf(stderr, "%s: %s\n", err_name(err.code), err.message);
    return r < 0;
}
