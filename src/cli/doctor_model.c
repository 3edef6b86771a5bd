/*
 * One small conversation with the configured model: a question that needs two calls of a tool,
 * their answers with a picture, and a question about them in a second turn. Each part that works is
 * told, and for each that does not the reason.
 */

#include "cli/doctor_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"

#define CALLS_MAX 4
#define TIMEOUT_MS 60000
#define ARENA_BYTES (4u << 20)

/* A red square of 32 by 32 pixels. */
static const char red_png[] = "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkA"
                              "AAjAsP7/tF7hIASyp6lTCQQCgUAgEAgEgi/BAjLD/C5w/SM9AAAAAElFTkSuQmCC";

static const char question[] = "What are the temperatures of Paris and of Oslo? Call the tool "
                               "temperature for both cities at once.";

/* What is left of a reply. */
struct said {
    const char *text;
    struct llm_tool_call calls[CALLS_MAX];
    size_t n_calls;
    json_t *kept;
    enum llm_stop stop;
    struct llm_usage usage;
    int64_t first_token_us, total_us;
    unsigned attempts, pieces;
    bool over, failed;
    struct err err;
    struct arena *arena;
};

struct talk {
    struct llm *llm;
    uv_loop_t *loop;
    struct arena arena;
    struct llm_message messages[16];
    size_t n;
    model_finding_fn tell;
    void *arg;
};

static void tell(struct talk *t, const char *name, bool good, bool is_bad, const char *remedy,
                 const char *fmt, ...) PRINTF_LIKE(6, 7);

static void tell(struct talk *t, const char *name, bool good, bool is_bad, const char *remedy,
                 const char *fmt, ...)
{
    char detail[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof(detail), fmt, ap);
    va_end(ap);
    t->tell(t->arg, name, good, is_bad, good ? NULL : remedy, detail);
}

static void on_token(void *arg, const char *text, size_t len)
{
    (void)text;
    (void)len;
    ((struct said *)arg)->pieces++;
}

static void on_reply(void *arg, const struct llm_reply *reply, const struct err *err)
{
    struct said *s = arg;
    s->over = true;
    s->failed = err != NULL;
    if (err) {
        s->err = *err;
        return;
    }
    s->text = arena_strdup(s->arena, reply->text);
    s->kept = json_incref(reply->kept);
    s->stop = reply->stop;
    s->usage = reply->usage;
    s->first_token_us = reply->first_token_us;
    s->total_us = reply->total_us;
    s->attempts = reply->attempts;
    for (size_t i = 0; i < reply->n_calls && s->n_calls < CALLS_MAX; i++)
        s->calls[s->n_calls++] = (struct llm_tool_call){
            .id = arena_strdup(s->arena, reply->calls[i].id),
            .name = arena_strdup(s->arena, reply->calls[i].name),
            .arguments = arena_strdup(s->arena, reply->calls[i].arguments)
        };
}

/* Asks with the messages so far. False: it failed, and s->err says why. */
static bool ask(struct talk *t, bool with_tools, struct said *s)
{
    static const char schema_text[] = "{\"type\":\"object\",\"required\":[\"city\"],\"properties\":"
                                      "{\"city\":{\"type\":\"string\"}}}";
    auto_json json_t *schema = NULL;
    struct llm_call *call;
    *s = (struct said){ .text = "", .arena = &t->arena, .err = ERR_INIT };
    (void)json_parse(schema_text, sizeof(schema_text) - 1, &schema, NULL);
    struct llm_tool tool = { .name = "temperature",
                             .description = "The temperature of a city, in degrees Celsius.",
                             .parameters = schema };
    struct llm_request req = { .system = "You answer in one short sentence.",
                               .messages = t->messages,
                               .n_messages = t->n,
                               .tools = &tool,
                               .n_tools = 1,
                               .tool_choice = with_tools ? LLM_TOOLS_AUTO : LLM_TOOLS_NONE,
                               .timeout_ms = TIMEOUT_MS };
    struct llm_events events = {
        .token = on_token, .thinking = on_token, .done = on_reply, .arg = s
    };
    if (llm_start(t->llm, &req, &events, &call, &s->err) < 0)
        s->over = s->failed = true;
    while (!s->over)
        uv_run(t->loop, UV_RUN_ONCE);
    return !s->failed;
}

static void add(struct talk *t, struct llm_message m)
{
    if (t->n < ARRAY_SIZE(t->messages))
        t->messages[t->n++] = m;
}

static void answer_calls(struct talk *t, const struct said *s, const struct llm_image *image)
{
    add(t, (struct llm_message){ .role = LLM_ASSISTANT,
                                 .content = s->text,
                                 .calls = s->calls,
                                 .n_calls = s->n_calls,
                                 .kept = s->kept });
    for (size_t i = 0; i < s->n_calls; i++) {
        bool oslo = strcasestr(s->calls[i].arguments, "oslo") != NULL, last = i + 1 == s->n_calls;
        add(t, (struct llm_message){ .role = LLM_TOOL,
                                     .tool_call_id = s->calls[i].id,
                                     .content = oslo ? "-7" : "21",
                                     .images = last ? image : NULL,
                                     .n_images = last && image ? 1 : 0 });
    }
}

static void tell_cost(struct talk *t, const struct said *said, size_t n)
{
    long long in = 0, out = 0;
    double cost = 0;
    for (size_t i = 0; i < n; i++) {
        in += said[i].usage.input_tokens;
        out += said[i].usage.output_tokens;
        cost = said[i].usage.cost_usd < 0 || cost < 0 ? -1 : cost + said[i].usage.cost_usd;
    }
    if (in + out == 0)
        tell(t, "model: usage", false, false,
             "cost and AGENT_MAX_TOKENS can't be counted with this server",
             "the server reports no tokens");
    else if (cost < 0)
        tell(t, "model: usage", true, false, NULL,
             "%lld tokens in, %lld out; no price is known for this model", in, out);
    else
        tell(t, "model: usage", true, false, NULL, "%lld tokens in, %lld out; about $%.5f", in, out,
             cost);
}

static void converse(struct talk *t, struct said said[3])
{
    struct llm_image image = { .type = "image/png", .base64 = red_png };
    bool sees = llm_sees(t->llm);
    add(t, (struct llm_message){ .role = LLM_USER, .content = question });
    if (!ask(t, true, &said[0])) {
        tell(t, "model: answers", false, true, "see docs/models.md", "%s", said[0].err.message);
        return;
    }
    tell(t, "model: answers", true, false, NULL, "%s, after %lld ms%s", llm_model(t->llm),
         (long long)(said[0].total_us / 1000),
         said[0].attempts > 1 ? " and a refused or failed try before it" : "");
    if (said[0].n_calls == 0) {
        tell(t, "model: tools", false, false,
             "take a model, or a server's option, with tool calls: see docs/models.md",
             "it called no tool, but said: %.200s", *said[0].text ? said[0].text : "nothing");
        add(t, (struct llm_message){ .role = LLM_ASSISTANT,
                                     .content = *said[0].text ? said[0].text : "(nothing)" });
        add(t, (struct llm_message){ .role = LLM_USER,
                                     .content = "Then count from one to ten in words." });
        sees = false;
    } else {
        tell(t, "model: tools", true, false, NULL, "%zu call%s in one reply", said[0].n_calls,
             said[0].n_calls == 1 ? "" : "s");
        answer_calls(t, &said[0], sees ? &image : NULL);
    }
    if (sees)
        add(t, (struct llm_message){
                   .role = LLM_USER,
                   .content = "Say both temperatures, and the colour of the picture." });
    if (!ask(t, true, &said[1])) {
        tell(t, "model: results", false, true, "see docs/models.md",
             "the answers of tools are refused: %s", said[1].err.message);
        return;
    }
    if (said[0].n_calls > 0)
        tell(t, "model: results", strstr(said[1].text, "21") != NULL, false,
             "this model may be too small for questions about data",
             strstr(said[1].text, "21") ? "it repeats what the tools said" :
                                          "it does not repeat what the tools said: %.200s",
             said[1].text);
    bool streams = said[1].pieces > 1 || said[0].pieces > 1;
    tell(t, "model: stream", streams, false, "words will appear at once, at the end of each reply",
         streams ? "words come as they are written, the first after %lld ms" :
                   "the reply came in one piece, after %lld ms",
         (long long)((said[1].first_token_us >= 0 ? said[1].first_token_us : said[1].total_us) /
                     1000));
    if (!llm_sees(t->llm))
        tell(t, "model: images", true, false, NULL,
             "not sent: the model is not known to take any (LLM_VISION=on sends them)");
    else if (!sees)
        tell(t, "model: images", true, false, NULL,
             "not tried: figures come with the answers of tools");
    else
        tell(t, "model: images", strcasestr(said[1].text, "red") != NULL, false,
             "set LLM_VISION=off",
             strcasestr(said[1].text, "red") ? "it sees figures" :
                                               "it does not see the picture that was sent: %.200s",
             said[1].text);
    add(t, (struct llm_message){ .role = LLM_ASSISTANT,
                                 .content = *said[1].text ? said[1].text : "(nothing)" });
    add(t, (struct llm_message){ .role = LLM_USER, .content = "Thank you. Say goodbye." });
    if (ask(t, true, &said[2]))
        tell(t, "model: next turn", true, false, NULL, "a conversation with tools in it is taken");
    else
        tell(t, "model: next turn", false, true, "see docs/models.md", "%s", said[2].err.message);
    tell_cost(t, said, 3);
}

void doctor_ask_model(struct llm *llm, uv_loop_t *loop, model_finding_fn fn, void *arg)
{
    struct talk t = { .llm = llm, .loop = loop, .tell = fn, .arg = arg };
    struct said said[3] = { 0 };
    arena_init(&t.arena, ARENA_BYTES);
    converse(&t, said);
    for (size_t i = 0; i < ARRAY_SIZE(said); i++)
        json_decref(said[i].kept);
    arena_finish(&t.arena);
}
