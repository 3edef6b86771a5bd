#ifndef RIDDLE_LLM_LLM_H
#define RIDDLE_LLM_LLM_H

/*
 * Models behind one door: a conversation and some tools go in, text and tool calls come out, as
 * they come. Nothing here blocks; callbacks come in the loop's thread and never from within
 * llm_start(). What a model's server sends is not trusted: every part of it is bounded, and what
 * cannot be read is an error that says so.
 *
 * Keys are read from the settings and go nowhere but into the request's headers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"

#define LLM_CALLS_MAX 16        /* tool calls of one reply */
#define LLM_TEXT_MAX (1u << 20) /* bytes of text, and of each call's arguments, of one reply */
#define LLM_NO_MODEL_END ""     /* of llm_model_ends(): no end is announced */

struct llm;
struct llm_call; /* one request under way */

enum llm_role { LLM_USER, LLM_ASSISTANT, LLM_TOOL, _LLM_ROLE_MAX };

struct llm_tool_call {
    const char *id, *name;
    const char *arguments; /* text as the model wrote it: JSON, if all is well */
};

struct llm_image {
    const char *type;   /* "image/png" */
    const char *base64; /* its bytes */
};

struct llm_message {
    enum llm_role role;
    const char *content;               /* may be NULL when there are calls */
    const struct llm_tool_call *calls; /* of an assistant */
    size_t n_calls;
    const char *tool_call_id; /* of a tool's answer */
    bool is_error;            /* the tool failed */
    /*
     * Of an assistant: llm_reply.kept of the reply that this message repeats. It is sent to the
     * server and model that it came from, and to no other. NULL when there is none.
     */
    const json_t *kept;
    const struct llm_image *images; /* of a tool's answer; sent to models that see (llm_sees()) */
    size_t n_images;
};

struct llm_tool {
    const char *name, *description;
    const json_t *parameters; /* JSON Schema of the arguments */
};

enum llm_tool_choice { LLM_TOOLS_AUTO, LLM_TOOLS_NONE, LLM_TOOLS_REQUIRED };

/* Everything is copied by llm_start(). */
struct llm_request {
    const char *system;
    const struct llm_message *messages;
    size_t n_messages;
    const struct llm_tool *tools;
    size_t n_tools;
    enum llm_tool_choice tool_choice;
    int64_t max_tokens; /* of the reply, thinking included; 0: llm_max_tokens() */
    int64_t timeout_ms; /* of the whole call, its retries included; 0: the setting */
};

enum llm_stop {
    LLM_STOP_END,
    LLM_STOP_TOOLS,
    LLM_STOP_LENGTH,
    LLM_STOP_REFUSAL,
    /* the request is longer than the model's context; text is the server's reason */
    LLM_STOP_OVERFLOW,
    /*
     * the server could not read the model's own tool call; text is what the model wrote, or the
     * server's reason
     */
    LLM_STOP_BAD_CALL,
    _LLM_STOP_MAX
};

struct llm_usage {
    int64_t input_tokens, output_tokens; /* 0 when the server told nothing */
    int64_t cached_tokens;               /* of the input, read from the provider's cache */
    double cost_usd;                     /* -1 when the model's price is not known */
};

/* Lives until the callback returns. */
struct llm_reply {
    const char *text; /* "" when there is none; of a refusal, its words */
    /* what the model thought, as far as its server tells; "" when it tells nothing */
    const char *thinking;
    /* for llm_message.kept: a caller that keeps it takes a reference. May be NULL */
    json_t *kept;
    const struct llm_tool_call *calls;
    size_t n_calls;
    enum llm_stop stop;
    struct llm_usage usage;
    int64_t first_token_us; /* after the start; -1 when no token came */
    int64_t total_us;
    unsigned attempts;
};

struct llm_events {
    void (*token)(void *arg, const char *text, size_t len); /* may be NULL */
    /* what the model thinks, as it comes; may be NULL */
    void (*thinking)(void *arg, const char *text, size_t len);
    /*
     * A try failed in a way that passes (429, 5xx, no connection) before any token came; the next
     * begins in wait_ms. May be NULL.
     */
    void (*retry)(void *arg, int64_t wait_ms, const struct err *why);
    /*
     * Exactly once, unless cancelled; err instead of reply when the call failed. Text already sent
     * as tokens stands.
     */
    void (*done)(void *arg, const struct llm_reply *reply, const struct err *err);
    void *arg;
};

/*
 * As LLM_PROVIDER and the keys say. `auto`: OpenAI's key first, then Anthropic's, then builtin.
 * CONFIG when a provider is named whose key is missing (a base URL that is not the provider's own
 * needs none).
 */
/* Providers of this build, for --version: NULL past the last. */
const char *llm_provider_name(size_t i);
int llm_create(uv_loop_t *loop, const struct config *cfg, struct llm **ret, struct err *err);
/* Cancels what is under way; NULL is fine. The loop must still run once. */
void llm_destroy(struct llm *llm);

/* "openai", "openai-responses", "anthropic", "builtin" */
const char *llm_provider(const struct llm *llm);
const char *llm_model(const struct llm *llm);         /* "" for builtin */
const char *llm_model_setting(const struct llm *llm); /* "OPENAI_MODEL" */
/*
 * The day on which the model's maker ends it, "2027-01-14", as far as the table in models.c knows;
 * else LLM_NO_MODEL_END.
 */
const char *llm_model_ends(const struct llm *llm);
/*
 * Whether pictures in tools' answers reach the model: LLM_VISION, and what is known of the model.
 */
bool llm_sees(const struct llm *llm);
/*
 * Whether what a reply keeps may go back in later turns, too, whose messages before it were
 * shortened.
 */
bool llm_kept_lasts(const json_t *kept);
/* of one reply: LLM_MAX_TOKENS, or what suits the model */
int64_t llm_max_tokens(const struct llm *llm);
/* True when there is no model: src/nl answers and llm_start() must not be called. */
bool llm_is_builtin(const struct llm *llm);

int llm_start(struct llm *llm, const struct llm_request *req, const struct llm_events *events,
              struct llm_call **ret, struct err *err);
/* No callback comes after this; the connection is closed. */
void llm_cancel(struct llm_call *call);

struct llm_stats {
    uint64_t calls, failures, retries;
    uint64_t input_tokens, output_tokens, cached_tokens;
    double cost_usd; /* of calls whose price is known */
};
void llm_stats(const struct llm *llm, struct llm_stats *ret);

#endif
