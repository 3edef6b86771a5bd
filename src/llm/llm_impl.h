#ifndef RIDDLE_LLM_LLM_IMPL_H
#define RIDDLE_LLM_LLM_IMPL_H

/*
 * What the files of this folder share. A provider is a struct of functions: it writes a request,
 * and reads events into a draft of the reply. Connections, retries, limits and what is told to the
 * user are llm.c's.
 */

#include "base/arena.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "llm/llm.h"
#include "net/client.h"

#define LLM_NAME_MAX 256            /* bytes of a call's id and of its tool's name */
#define LLM_REQUEST_MAX (64u << 20) /* bytes of a request */
#define LLM_WHOLE_MAX (16u << 20)   /* bytes of an answer that is not streamed, or of an error */
#define LLM_BODY_MAX (128ull << 20) /* bytes of a stream, framing and all */
#define LLM_HEADERS_MAX 5
#define LLM_KEPT_MAX (8u << 20) /* bytes that a server wants back of one reply */
#define LLM_THINKING_MAX                                                                           \
    (1u << 20) /* bytes of thinking that are kept; the rest is told and forgotten */

/* ---- what servers send ---- */

/*
 * JSON of a model's server, read leniently: the last of duplicate keys counts, integers beyond 64
 * bits become reals, NaN and infinities become null, and what no text can hold (NUL, a lone
 * surrogate, invalid UTF-8) becomes U+FFFD. INVALID_JSON for everything else.
 */
int llm_json_read(const char *text, size_t len, json_t **ret, struct err *err);

/* ---- the draft of a reply ---- */

struct llm_draft_call {
    long long index; /* as the server counts */
    struct buf id, name, arguments;
    /* members of the call that only its server understands; NULL when there are none */
    json_t *kept;
};

enum llm_filter_state {
    LLM_FILTER_START, /* nothing but white space so far */
    LLM_FILTER_TEXT,
    LLM_FILTER_THINKING, /* behind <think> */
    /* what may be a tool call written as text is held back until the reply is whole */
    LLM_FILTER_HELD,
};

struct llm_draft {
    struct buf text;
    struct buf thinking;
    struct llm_draft_call calls[LLM_CALLS_MAX];
    size_t n_calls;
    bool has_stop; /* the server said why it stopped */
    enum llm_stop stop;
    bool is_refusal;
    bool is_whole; /* the server's last event has come */
    bool has_event;
    int64_t input_tokens, output_tokens;
    /* of the input: read from, and written to, the provider's cache */
    int64_t cached_tokens, written_tokens;
    json_t *kept;      /* the provider's: what has to go back */
    size_t kept_bytes; /* of it, at most LLM_KEPT_MAX */
    /* filter.c */
    enum llm_filter_state state;
    struct buf pending; /* text that is not decided yet */
    const char *close;  /* the tag that ends the thinking */
    bool after_thinking, mid_line;
    bool calls_from_text;         /* the calls are not in what is kept */
    const struct llm_tool *tools; /* that were offered; NULL: text is never taken for a call */
    size_t n_tools;
    const char *secret; /* the key, so that no message repeats it */
    /* Text and thoughts as they come. Nonzero: nobody wants more. */
    int (*token)(void *arg, const char *text, size_t len);
    int (*thought)(void *arg, const char *text, size_t len); /* may be NULL */
    void *token_arg;
};

void llm_draft_init(struct llm_draft *d);
void llm_draft_clear(struct llm_draft *d);  /* for the next try */
void llm_draft_finish(struct llm_draft *d); /* frees */

/*
 * Text of the reply, through the filter. Positive when nobody wants more; LLM_BAD_RESPONSE past a
 * limit.
 */
int llm_draft_text(struct llm_draft *d, const char *text, size_t len, struct err *err);
int llm_draft_thought(struct llm_draft *d, const char *text, size_t len, struct err *err);
int llm_draft_add_call(struct llm_draft *d, long long index, const char *id, const char *name,
                       struct llm_draft_call **ret, struct err *err);
/* the latest of that index, or NULL */
struct llm_draft_call *llm_draft_find_call(struct llm_draft *d, long long index);
int llm_draft_arguments(struct llm_draft_call *c, const char *text, size_t len, struct err *err);
/* A JSON string or, as some servers send it, an object. */
int llm_draft_arguments_json(struct llm_draft_call *c, const json_t *value, struct err *err);
bool llm_draft_is_tool(const struct llm_draft *d, const char *name);
/* Before a provider keeps len more bytes: LLM_BAD_RESPONSE past LLM_KEPT_MAX. */
int llm_draft_keeps(struct llm_draft *d, size_t len, struct err *err);
/*
 * Ends the filter, takes calls that were written as text, tells merged calls apart, "{}" for calls
 * without arguments. LLM_BAD_RESPONSE for a call without a name; positive when nobody wants more.
 */
int llm_draft_close(struct llm_draft *d, struct err *err);

/* filter.c: what llm_draft_text() and llm_draft_close() use. */
int llm_filter(struct llm_draft *d, const char *text, size_t len, struct err *err);
int llm_filter_end(struct llm_draft *d, struct err *err);
/* past the filter */
int llm_draft_emit(struct llm_draft *d, const char *text, size_t len, struct err *err);

/*
 * text_calls.c: tool calls that a model wrote as text (JSON, fenced or tagged, or the tags of Qwen,
 * Llama, Mistral and Kimi), added to the draft. True if the text is nothing but calls of tools that
 * were offered; otherwise nothing is added.
 */
bool llm_text_calls(struct llm_draft *d, const char *text, size_t len);

/* ---- quirks ---- */

/*
 * Where a server or model departs from its protocol: known from the table in quirks.c, or learned
 * from a refusal.
 */
enum llm_quirk {
    LLM_NO_STREAM_OPTIONS = 1 << 0,
    LLM_COMPLETION_TOKENS = 1 << 1, /* the limit is called max_completion_tokens */
    LLM_NO_MAX_TOKENS = 1 << 2,
    LLM_EFFORT_NONE = 1 << 3,    /* tools need reasoning_effort "none" */
    LLM_NO_EFFORT = 1 << 4,      /* no word about effort */
    LLM_NO_ECHO = 1 << 5,        /* refuses the members that it sent itself */
    LLM_FILL_REASONING = 1 << 6, /* every message of an assistant needs reasoning_content */
    LLM_FILL_SIGNATURE = 1 << 7, /* every call needs a thought signature */
    LLM_NO_TOOL_CHOICE = 1 << 8,
    LLM_NO_CACHE_CONTROL = 1 << 9,
    LLM_NO_THINKING = 1 << 10, /* refuses `thinking` of a request */
    LLM_NO_IMAGES = 1 << 11,
    LLM_NO_ENCRYPTED = 1 << 12, /* refuses `include` */
    LLM_TEXT_CONTENT = 1 << 13, /* content must be text, not null */
    LLM_RESPONSES = 1 << 14,    /* the Responses API instead of Chat Completions */
    LLM_NO_RESPONSES = 1 << 15, /* it has none */
};

struct llm_target {
    char *key, *model; /* of the settings; owned, as are the URLs */
    const char *key_setting, *url_setting, *model_setting;
    char *url; /* of the request */
    /* of the Responses API at the same server; NULL when the provider has none */
    char *responses_url;
    const char *effort; /* LLM_EFFORT; "" when nothing is to be said */
    bool is_own;        /* the provider's own server, which wants a key */
    bool is_azure;
    int64_t max_tokens;
};

/* A server's account of what went wrong. */
struct llm_complaint {
    char message[1000], type[64], code[64], param[64]; /* "" when not told */
    /* everything that it says, lower case: for quirks.c */
    char text[2000];
    char failed[4000]; /* failed_generation of Groq */
    bool is_quota;
};

/* Shorter keys are no secrets but words ("EMPTY", "ollama") that servers of one's own are given. */
#define LLM_SECRET_MIN 8

/* ---- record.c: LLM_RECORD ---- */

#define LLM_RECORD_MAX (32u << 20) /* of a request, and of an answer */

/* One try of a call. */
struct llm_record {
    const char *dir;
    struct buf request, answer;
};
void llm_record_begin(struct llm_record *r, const char *request, size_t len);
void llm_record_data(struct llm_record *r, const char *data, size_t len);
void llm_record_end(struct llm_record *r, const struct llm_target *t, const char *protocol,
                    const struct client_response *resp);

/* From the table, by host and model. */
unsigned llm_quirks_known(const char *url, const char *model);
/*
 * What to do differently after this refusal (HTTP 400, 404, 422); 0: nothing helps. `now` are those
 * in use.
 */
unsigned llm_quirks_learn(const struct llm_complaint *c, unsigned now, unsigned possible);
/* The refusal says that the request is longer than the model's context. */
bool llm_is_overflow(const struct llm_complaint *c);
/*
 * Merges the members of a piece of a message or call that go back; `known` lists those that do not.
 * Returns about the bytes it took.
 */
size_t llm_keep_members(json_t *kept, const json_t *from, const char *const *known);

/* ---- providers ---- */

struct llm_provider {
    const char *name;
    int (*configure)(const struct config *cfg, struct llm_target *ret, struct err *err);
    unsigned possible_quirks;
    size_t (*headers)(const struct llm_target *t, struct buf *scratch,
                      struct client_header ret[LLM_HEADERS_MAX]);
    /*
     * `kept` of messages is what `keep` gave, without its label. Caller owns the value; NULL when
     * out of memory.
     */
    json_t *(*request)(const struct llm_target *t, const struct llm_request *req, unsigned quirks);
    /* An event of the stream. Positive: the reply is whole, or nobody wants more. */
    int (*event)(struct llm_draft *d, const char *event, const char *data, size_t len,
                 struct err *err);
    /* An answer that was not streamed. */
    int (*whole)(struct llm_draft *d, const json_t *body, struct err *err);
    /* What has to go back of a closed draft. Caller owns; NULL for nothing. */
    json_t *(*keep)(struct llm_draft *d);
};

/* ---- setup.c ---- */

/*
 * By LLM_PROVIDER; for `auto`, the first that can be used: builtin is the last, and always can.
 * *target is the caller's to finish.
 */
int llm_choose(const struct config *cfg, const struct llm_provider **ret, struct llm_target *target,
               struct err *err);

/*
 * Tries may put a request in other ways, so it is kept until the end of the call. *ret is to be
 * released, even after a failure.
 */
#define LLM_REQUEST_ARENA_BYTES (128u << 20)
int llm_request_copy(struct arena *a, const struct llm_request *req, struct llm_request *ret,
                     struct err *err);
void llm_request_release(struct llm_request *req);

/* ---- errors ---- */

/*
 * Reads an error of any shape; false when the value is no error. With `is_error`, everything is
 * one, and words are looked for everywhere.
 */
bool llm_complaint_read(const json_t *body, bool is_error, struct llm_complaint *ret);
/* The error for a complaint that came inside a stream or with status 200. */
int llm_complaint_err(const struct llm_complaint *c, const char *secret, struct err *err);
/* A server's text for a message: bounded, and without the key should it repeat it. Returns ret. */
const char *llm_show(const char *text, const char *secret, char *ret, size_t n);

void llm_target_finish(struct llm_target *t);
/* Copies of key and model, and the URL: NO_MEMORY. */
int llm_target_fill(struct llm_target *t, const char *key, const char *model, char *taken_url,
                    struct err *err);
/*
 * Joins a base URL and a path, which goes before a query ("?api-version=…"); a base that already
 * ends in `optional` ("/v1") is not given it twice. NULL: out of memory.
 */
char *llm_join_url(const char *base, const char *optional, const char *path);

/* A whole number of an object, within 0 and 10^12; `dflt` when it is missing or something else. */
int64_t llm_count(const json_t *obj, const char *key, int64_t dflt);
/*
 * Arguments as a JSON object: as the model wrote them, or {"unreadable": …} because servers parse
 * the history. Caller owns.
 */
json_t *llm_arguments(const char *arguments);

/* ---- models.c ---- */

enum {
    LLM_MODEL_THINKS = 1 << 0,   /* tokens of thinking count for the limit */
    LLM_MODEL_SEES = 1 << 1,     /* takes images */
    LLM_MODEL_ADAPTIVE = 1 << 2, /* takes thinking {type: adaptive, display: summarized} */
};

unsigned llm_model_flags(const char *model); /* 0 when the model is not known */
const char *llm_ends(const char *model);     /* "2027-01-14" or "" */
/* input includes what was read from and written to the cache; -1 when the price is not known */
double llm_price(const char *model, int64_t input_tokens, int64_t cached_tokens,
                 int64_t written_tokens, int64_t output_tokens);
/*
 * A model's name without the vendor that a gateway puts before it: "gpt-6-luna" of
 * "openai/gpt-6-luna".
 */
const char *llm_bare_model(const char *model);

extern const struct llm_provider llm_openai, llm_responses, llm_anthropic, llm_builtin;

#endif
