/*
 * Where servers and models depart from the protocol that they speak. The first table is what is
 * known before asking. The second reads a refusal: words that its text must have, and what to do
 * about it. What was learned is kept for the process, per base URL and model (one struct llm has
 * one of each).
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <string.h>
#include "base/str.h"

struct known {
    const char *host;  /* a part of the URL; NULL: any */
    const char *model; /* how its bare name begins; NULL: any */
    const char *has;   /* a part of the name; NULL: any */
    unsigned quirks;
};

static const struct known table[] = {
    { "api.openai.com", NULL, NULL, LLM_COMPLETION_TOKENS },
    { ".azure.com", NULL, NULL,
      LLM_COMPLETION_TOKENS }, /* a deployment's name says nothing of its model */
    { NULL, "o1", NULL, LLM_COMPLETION_TOKENS },
    { NULL, "o3", NULL, LLM_COMPLETION_TOKENS },
    { NULL, "o4", NULL, LLM_COMPLETION_TOKENS },
    { NULL, "gpt-5", NULL, LLM_COMPLETION_TOKENS },
    { NULL, "gpt-6", NULL, LLM_COMPLETION_TOKENS },
    /*
     * Tools in Chat Completions only with reasoning_effort "none"; two models take tools only by
     * the Responses API.
     */
    { NULL, "gpt-5.6", NULL, LLM_EFFORT_NONE },
    { NULL, "gpt-6", NULL, LLM_EFFORT_NONE },
    { NULL, "gpt-6-astra", NULL, LLM_RESPONSES },
    { NULL, "gpt-6.1", NULL, LLM_RESPONSES },
    { NULL, "gpt-5", "-pro", LLM_RESPONSES },
    { NULL, "gpt-5", "-codex", LLM_RESPONSES },
    { NULL, "gpt-6", "-pro", LLM_RESPONSES },
    { NULL, "gpt-6", "-codex", LLM_RESPONSES },
    { NULL, "o1-pro", NULL, LLM_RESPONSES },
    { NULL, "o3-pro", NULL, LLM_RESPONSES },
    /* Models that do not think have nothing to encrypt. */
    { NULL, "gpt-4", NULL, LLM_NO_ENCRYPTED },
    { NULL, "gpt-3", NULL, LLM_NO_ENCRYPTED },
    /*
     * Reports usage without being asked, and has refused to be asked; takes no user's message
     * behind a tool's.
     */
    { "mistral.ai", NULL, NULL, LLM_NO_STREAM_OPTIONS | LLM_NO_IMAGES },
    { NULL, "deepseek-v4", NULL, LLM_FILL_REASONING },
    { "api.deepseek.com", NULL, NULL, LLM_FILL_REASONING },
    { NULL, "kimi-k", NULL, LLM_FILL_REASONING },
    { "moonshot", NULL, NULL, LLM_FILL_REASONING },
    { NULL, "gemini-3", NULL, LLM_FILL_SIGNATURE },
    { NULL, "gemini-4", NULL, LLM_FILL_SIGNATURE },
};

static bool begins(const char *s, const char *prefix)
{
    for (; *prefix; s++, prefix++)
        if (tolower((unsigned char)*s) != *prefix)
            return false;
    return true;
}

unsigned llm_quirks_known(const char *url, const char *model)
{
    const char *bare = llm_bare_model(model);
    unsigned quirks = 0;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct known *k = &table[i];

        if ((!k->host || strstr(url, k->host)) && (!k->model || begins(bare, k->model)) &&
            (!k->has || strstr(bare, k->has)))
            quirks |= k->quirks;
    }
    return quirks;
}

/* ---- refusals ---- */

struct lesson {
    const char *words[3]; /* all of them, in lower case; NULL ends */
    const char *any;      /* one of these, separated by '|'; NULL: nothing more */
    unsigned unless;      /* of no use while one of these is on */
    unsigned quirks;
};

#define NOT_TAKEN                                                                                                                     \
    "not permitted|unsupported|not supported|not support|unknown|unrecognized|unexpected|not allowed|invalid|forbidden|extra|cannot|" \
    "deprecated|not valid|only the first|must not"

static const struct lesson lessons[] = {
    { { "v1/responses" }, NULL, LLM_NO_RESPONSES, LLM_RESPONSES },
    { { "responses api" }, NULL, LLM_NO_RESPONSES, LLM_RESPONSES },
    { { "reasoning_effort", "none" }, NULL, LLM_EFFORT_NONE | LLM_NO_EFFORT, LLM_EFFORT_NONE },
    { { "reasoning_effort" }, NULL, LLM_NO_EFFORT, LLM_NO_EFFORT },
    { { "reasoning.effort" }, NULL, LLM_NO_EFFORT, LLM_NO_EFFORT },
    { { "output_config" }, NULL, LLM_NO_EFFORT, LLM_NO_EFFORT },
    { { "effort" }, NOT_TAKEN, LLM_NO_EFFORT, LLM_NO_EFFORT },
    { { "stream_options" }, NULL, 0, LLM_NO_STREAM_OPTIONS },
    { { "include_usage" }, NULL, 0, LLM_NO_STREAM_OPTIONS },
    { { "max_completion_tokens" }, NULL, LLM_COMPLETION_TOKENS, LLM_COMPLETION_TOKENS },
    { { "max_completion_tokens" }, NULL, LLM_NO_MAX_TOKENS, LLM_NO_MAX_TOKENS },
    { { "max_tokens" }, NULL, LLM_NO_MAX_TOKENS, LLM_NO_MAX_TOKENS },
    { { "max_output_tokens" }, NULL, LLM_NO_MAX_TOKENS, LLM_NO_MAX_TOKENS },
    { { "in the completion" }, NULL, LLM_NO_MAX_TOKENS, LLM_NO_MAX_TOKENS },
    { { "reasoning_content" },
      "missing|passed back|required|must be",
      LLM_FILL_REASONING,
      LLM_FILL_REASONING },
    { { "reasoning" }, NOT_TAKEN, LLM_NO_ECHO, LLM_NO_ECHO },
    { { "extra_content" }, NOT_TAKEN, LLM_NO_ECHO, LLM_NO_ECHO },
    { { "messages", "extra inputs are not permitted" }, NULL, LLM_NO_ECHO, LLM_NO_ECHO },
    { { "thought_signature" }, NULL, LLM_FILL_SIGNATURE, LLM_FILL_SIGNATURE },
    { { "thought signature" }, NULL, LLM_FILL_SIGNATURE, LLM_FILL_SIGNATURE },
    { { "cache_control" }, NULL, LLM_NO_CACHE_CONTROL, LLM_NO_CACHE_CONTROL },
    { { "encrypted" }, NULL, LLM_NO_ENCRYPTED, LLM_NO_ENCRYPTED },
    { { "include" }, NOT_TAKEN, LLM_NO_ENCRYPTED, LLM_NO_ENCRYPTED },
    /* A block of thinking that the server does not take back, then the request's own member. */
    { { "thinking" }, "signature|block|modified|bound", LLM_NO_ECHO, LLM_NO_ECHO },
    { { "thinking" }, NULL, LLM_NO_THINKING, LLM_NO_THINKING },
    { { "adaptive" }, NULL, LLM_NO_THINKING, LLM_NO_THINKING },
    { { "tool_choice" }, NULL, LLM_NO_TOOL_CHOICE, LLM_NO_TOOL_CHOICE },
    { { "image" }, NULL, LLM_NO_IMAGES, LLM_NO_IMAGES },
    { { "multimodal" }, NULL, LLM_NO_IMAGES, LLM_NO_IMAGES },
    { { "unexpected role 'user' after role 'tool'" }, NULL, LLM_NO_IMAGES, LLM_NO_IMAGES },
    { { "content" },
      "null|none|should be a valid string|must be a string|expected a string|required",
      LLM_TEXT_CONTENT,
      LLM_TEXT_CONTENT },
};

static bool has_any(const char *text, const char *any)
{
    while (any && *any) {
        size_t n = strcspn(any, "|");

        if (memmem(text, strlen(text), any, n))
            return true;
        any += n + (any[n] == '|');
    }
    return false;
}

unsigned llm_quirks_learn(const struct llm_complaint *c, unsigned now, unsigned possible)
{
    for (size_t i = 0; i < ARRAY_SIZE(lessons); i++) {
        const struct lesson *l = &lessons[i];
        bool fits = !(now & l->unless) && (l->quirks & possible & ~now) &&
                    (!l->any || has_any(c->text, l->any));

        for (size_t k = 0; k < ARRAY_SIZE(l->words) && l->words[k] && fits; k++)
            fits = strstr(c->text, l->words[k]) != NULL;
        if (fits)
            return l->quirks & possible & ~now;
    }
    return 0;
}

bool llm_is_overflow(const struct llm_complaint *c)
{
    static const char *const words[] = { "context_length_exceeded",
                                         "maximum context length",
                                         "context length",
                                         "context window",
                                         "prompt is too long",
                                         "exceed_context_size",
                                         "exceeds the available context",
                                         "input is too long",
                                         "reduce the length",
                                         "too many input tokens",
                                         "input token count",
                                         "context size",
                                         "context limit" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strstr(c->text, words[i]))
            return true;
    return false;
}

/* ---- what goes back ---- */

static json_t *joined(const json_t *a, const json_t *b)
{
    size_t n = json_string_length(a), m = json_string_length(b);
    auto_free char *s = malloc(n + m + 1);

    if (!s)
        return NULL;
    memcpy(s, json_string_value(a), n);
    memcpy(s + n, json_string_value(b), m);
    return json_stringn(s, n + m);
}

static size_t merge(json_t *into, const json_t *from, const char *const *known, int depth);

/*
 * Elements that say that they belong together: the same index, and the same type as far as both
 * have one.
 */
static json_t *same_element(json_t *list, const json_t *e)
{
    const json_t *index = json_object_get(e, "index"), *type = json_object_get(e, "type");
    json_t *other;
    size_t i;

    if (!json_is_integer(index))
        return NULL;
    json_array_foreach(list, i, other) {
        const json_t *t = json_object_get(other, "type");

        if (json_equal(json_object_get(other, "index"), index) &&
            (!t || !type || json_equal(t, type)))
            return other;
    }
    return NULL;
}

/* Words that name a thing; a piece that repeats one is not more of it. */
static bool is_label(const char *key)
{
    static const char *const labels[] = { "id", "type", "format", "index", "name", "role" };

    for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
        if (str_eq(key, labels[i]))
            return true;
    return false;
}

/* About the bytes that a value takes. */
static size_t copied(const json_t *v)
{
    size_t i, bytes = 32 + json_string_length(v);
    const char *key;
    json_t *e;

    json_array_foreach(v, i, e)
        bytes += copied(e);
    json_object_foreach((json_t *)(uintptr_t)v, key, e)
        bytes += copied(e);
    return bytes;
}

/*
 * Pieces of a stream into one: text is joined, lists are continued, objects merged, anything else
 * replaced.
 */
static size_t merge(json_t *into, const json_t *from, const char *const *known, int depth)
{
    const char *key;
    json_t *v, *e;
    size_t i, bytes = 0;

    json_object_foreach((json_t *)(uintptr_t)from, key, v) {
        json_t *old = json_object_get(into, key);
        bool skip = json_is_null(v) && old;

        for (const char *const *k = known; k && *k && !skip; k++)
            skip = str_eq(*k, key);
        if (skip)
            continue;
        bytes += json_string_length(v);
        if (json_is_string(v) && json_is_string(old) && !is_label(key)) {
            json_object_set_new(into, key, joined(old, v));
        } else if (json_is_object(v) && json_is_object(old) && depth < 8) {
            bytes += merge(old, v, NULL, depth + 1);
        } else if (json_is_array(v) && json_is_array(old)) {
            json_array_foreach(v, i, e) {
                json_t *same = same_element(old, e);

                if (same && depth < 8)
                    bytes += merge(same, e, NULL, depth + 1);
                else
                    bytes += copied(e), json_array_append_new(old, json_deep_copy(e));
            }
        } else {
            bytes += copied(v);
            json_object_set_new(into, key, json_deep_copy(v));
        }
    }
    return bytes;
}

size_t llm_keep_members(json_t *kept, const json_t *from, const char *const *known)
{
    return merge(kept, from, known, 0);
}
