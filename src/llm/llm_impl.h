#ifndef RIDDLE_LLM_LLM_IMPL_H
#define RIDDLE_LLM_LLM_IMPL_H

/*
 * What the files of this folder share. A provider is a struct of functions: it writes a request, and reads events into a draft of
 * the reply. Connections, retries, limits and what is told to the user are llm.c's.
 */

#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "llm/llm.h"
#include "net/client.h"

#define LLM_NAME_MAX 256               /* bytes of a call's id and of its tool's name */
#define LLM_REQUEST_MAX (64u << 20)    /* bytes of a request */
#define LLM_WHOLE_MAX (16u << 20)      /* bytes of an answer that is not streamed, or of an error */
#define LLM_BODY_MAX (128ull << 20)    /* bytes of a stream, framing and all */
#define LLM_HEADERS_MAX 4

/* ---- the draft of a reply ---- */

struct llm_draft_call {
    long long index; /* as the server counts */
    struct buf id, name, arguments;
};

struct llm_draft {
    struct buf text;
    struct llm_draft_call calls[LLM_CALLS_MAX];
    size_t n_calls;
    bool has_stop; /* the server said why it stopped */
    enum llm_stop stop;
    bool is_refusal;
    bool is_whole; /* the server's last event has come */
    bool has_event;
    int64_t input_tokens, output_tokens;
    const char *secret; /* the key, so that no message repeats it */
    /* Text as it comes. Nonzero: nobody wants more. */
    int (*token)(void *arg, const char *text, size_t len);
    void *token_arg;
};

void llm_draft_init(struct llm_draft *d);
void llm_draft_clear(struct llm_draft *d);  /* for the next try */
void llm_draft_finish(struct llm_draft *d); /* frees */

/* Positive when nobody wants more; LLM_BAD_RESPONSE past a limit. */
int llm_draft_text(struct llm_draft *d, const char *text, size_t len, struct err *err);
int llm_draft_add_call(struct llm_draft *d, long long index, const char *id, const char *name, struct llm_draft_call **ret,
                       struct err *err);
struct llm_draft_call *llm_draft_find_call(struct llm_draft *d, long long index); /* the latest of that index, or NULL */
int llm_draft_arguments(struct llm_draft_call *c, const char *text, size_t len, struct err *err);
/* A JSON string or, as some servers send it, an object. */
int llm_draft_arguments_json(struct llm_draft_call *c, const json_t *value, struct err *err);
/* "{}" for calls without arguments; LLM_BAD_RESPONSE for a call without a name. */
int llm_draft_close(struct llm_draft *d, struct err *err);

/* Whether any of the reply has come. */
bool llm_draft_has_content(const struct llm_draft *d);

/* ---- providers ---- */

/* What some servers refuse of a request: known by the model's name, or learned from the answer 400. */
enum {
    LLM_NO_TEMPERATURE = 1 << 0,
    LLM_NO_STREAM_OPTIONS = 1 << 1,
    LLM_COMPLETION_TOKENS = 1 << 2, /* the limit is called max_completion_tokens */
    LLM_NO_MAX_TOKENS = 1 << 3,
};

struct llm_target {
    char *key, *model; /* of the settings; owned, as is url */
    const char *key_setting, *url_setting, *model_setting;
    char *url; /* of the request */
    bool is_own; /* the provider's own server, which wants a key */
    int64_t max_tokens;
};

/* A server's account of what went wrong; texts point into the JSON that it was read from. */
struct llm_complaint {
    const char *message, *type, *code, *param; /* "" when not told */
};

struct llm_provider {
    const char *name;
    int (*configure)(const struct config *cfg, struct llm_target *ret, struct err *err);
    unsigned (*quirks)(const char *model); /* that are known before asking */
    unsigned possible_quirks;
    size_t (*headers)(const struct llm_target *t, struct buf *scratch, struct client_header ret[LLM_HEADERS_MAX]);
    /* Without quirks. Caller owns the value; NULL when out of memory. */
    json_t *(*request)(const struct llm_target *t, const struct llm_request *req);
    /* An event of the stream. Positive: the reply is whole, or nobody wants more. */
    int (*event)(struct llm_draft *d, const char *event, const char *data, size_t len, struct err *err);
    /* An answer that was not streamed. */
    int (*whole)(struct llm_draft *d, const json_t *body, struct err *err);
};

/* The members of an error object; false when the value is none. */
bool llm_complaint_read(const json_t *body, struct llm_complaint *ret);
/* The error for a complaint that came inside a stream or with status 200. */
int llm_complaint_err(const struct llm_complaint *c, const char *secret, struct err *err);
/* A server's text for a message: bounded, and without the key should it repeat it. Returns ret. */
const char *llm_show(const char *text, const char *secret, char *ret, size_t n);

/* Joins a base URL and a path; a base that already ends in `optional` ("/v1") is not given it twice. NULL: out of memory. */
void llm_target_finish(struct llm_target *t);
/* Copies of key and model, and the URL: NO_MEMORY. */
int llm_target_fill(struct llm_target *t, const char *key, const char *model, char *taken_url, struct err *err);
char *llm_join_url(const char *base, const char *optional, const char *path);

/* A whole number of an object, within 0 and 10^12; `dflt` when it is missing or something else. */
int64_t llm_count(const json_t *obj, const char *key, int64_t dflt);

double llm_price(const char *model, int64_t input_tokens, int64_t output_tokens); /* -1 when not known */

extern const struct llm_provider llm_openai, llm_anthropic, llm_builtin;

#endif
