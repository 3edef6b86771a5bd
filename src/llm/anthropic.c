/*
 * Anthropic's Messages: a stream of named events that open, fill and close the blocks of one
 * message, text or a call of a tool. Answers of tools are blocks of a user's message, so those that
 * follow each other, and what the user says next, become one.
 */

#include "llm/llm_impl.h"

#include <string.h>
#include "base/str.h"

#define OWN_HOST "https://api.anthropic.com"
#define DEFAULT_URL "https://api.anthropic.com"
#define DEFAULT_MODEL "claude-sonnet-5-5"
#define API_VERSION "2023-06-01"

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    /* `NAME=` is how a compose file passes on what is not set. */
    const char *base = *cfg->anthropic_base_url ? cfg->anthropic_base_url : DEFAULT_URL;
    const char *model = *cfg->anthropic_model ? cfg->anthropic_model : DEFAULT_MODEL;

    *ret = (struct llm_target){ .key_setting = "ANTHROPIC_API_KEY",
                                .url_setting = "ANTHROPIC_BASE_URL",
                                .model_setting = "ANTHROPIC_MODEL",
                                .is_own = str_starts(base, OWN_HOST) };
    return llm_target_fill(ret, cfg->anthropic_api_key, model,
                           llm_join_url(base, "/v1", "/messages"), err);
}

static size_t headers(const struct llm_target *t, struct buf *scratch,
                      struct client_header ret[LLM_HEADERS_MAX])
{
    size_t n = 0;

    (void)scratch;
    ret[n++] = (struct client_header){ "Content-Type", "application/json" };
    ret[n++] = (struct client_header){ "Accept", "text/event-stream, application/json" };
    ret[n++] = (struct client_header){ "anthropic-version", API_VERSION };
    if (*t->key)
        ret[n++] = (struct client_header){ "x-api-key", t->key };
    return n;
}

/* ---- request ---- */

static json_t *text(const char *s)
{
    return json_text(s ? s : "", s ? strlen(s) : 0);
}

/* Text without anything in it is refused there. */
static void add_text(json_t *blocks, const char *s)
{
    if (s && *s)
        json_array_append_new(blocks, json_pack("{s:s, s:o}", "type", "text", "text", text(s)));
}

static void add_calls(json_t *blocks, const struct llm_message *m)
{
    for (size_t i = 0; i < m->n_calls; i++) {
        const struct llm_tool_call *c = &m->calls[i];

        /* It has to be an object; what the model wrote otherwise is shown to it as it was. */
        json_array_append_new(blocks, json_pack("{s:s, s:o, s:o, s:o}", "type", "tool_use", "id",
                                                text(c->id), "name", text(c->name), "input",
                                                llm_arguments(c->arguments)));
    }
}

static void add_result(json_t *blocks, const struct llm_message *m, unsigned quirks)
{
    json_t *block = json_pack("{s:s, s:o}", "type", "tool_result", "tool_use_id",
                              text(m->tool_call_id));

    if (m->n_images > 0 && !(quirks & LLM_NO_IMAGES)) {
        json_t *parts = json_array();

        add_text(parts, m->content);
        for (size_t i = 0; i < m->n_images; i++)
            json_array_append_new(parts, json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "image",
                                                   "source", "type", "base64", "media_type",
                                                   m->images[i].type, "data", m->images[i].base64));
        json_object_set_new(block, "content", parts);
    } else if (m->content && *m->content) {
        json_object_set_new(block, "content", text(m->content));
    }
    if (m->is_error)
        json_object_set_new(block, "is_error", json_true());
    json_array_append_new(blocks, block);
}

/*
 * The blocks as they came, thinking with its signature among them; false when there are none that
 * may be sent.
 */
static bool add_kept(json_t *blocks, const struct llm_message *m, unsigned quirks)
{
    if (quirks & LLM_NO_ECHO || json_array_size(m->kept) == 0)
        return false;
    json_array_extend(blocks, (json_t *)(uintptr_t)m->kept);
    return true;
}

static json_t *messages_json(const struct llm_request *req, unsigned quirks)
{
    json_t *list = json_array(), *blocks = NULL;
    bool is_user = false;

    for (size_t i = 0; i < req->n_messages; i++) {
        const struct llm_message *m = &req->messages[i];
        bool user = m->role != LLM_ASSISTANT;

        if ((!m->content || !*m->content) && m->n_calls == 0 && m->role != LLM_TOOL)
            continue;
        if (!blocks || user != is_user) {
            blocks = json_array();
            json_array_append_new(list, json_pack("{s:s, s:o}", "role", user ? "user" : "assistant",
                                                  "content", blocks));
            is_user = user;
        }
        if (m->role == LLM_TOOL) {
            add_result(blocks, m, quirks);
        } else if (m->role == LLM_USER || !add_kept(blocks, m, quirks)) {
            add_text(blocks, m->content);
            add_calls(blocks, m);
        }
    }
    return list;
}

static json_t *tools_json(const struct llm_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->n_tools; i++) {
        const struct llm_tool *t = &req->tools[i];

        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name", text(t->name),
                                              "description", text(t->description), "input_schema",
                                              t->parameters ? json_deep_copy(t->parameters) :
                                                              json_pack("{s:s, s:{}}", "type",
                                                                        "object", "properties")));
    }
    return list;
}

static json_t *request(const struct llm_target *t, const struct llm_request *req, unsigned quirks)
{
    static const char *const choices[] = {
        [LLM_TOOLS_AUTO] = "auto", [LLM_TOOLS_NONE] = "none", [LLM_TOOLS_REQUIRED] = "any"
    };
    int64_t max_tokens = req->max_tokens > 0 ? req->max_tokens : t->max_tokens;
    json_t *body = json_pack("{s:s, s:I, s:o, s:b}", "model", t->model, "max_tokens",
                             (json_int_t)max_tokens, "messages", messages_json(req, quirks),
                             "stream", 1);

    if (!body)
        return NULL;
    if (req->system && *req->system)
        json_object_set_new(body, "system", text(req->system));
    if (req->n_tools > 0) {
        json_object_set_new(body, "tools", tools_json(req));
        if (!(quirks & LLM_NO_TOOL_CHOICE))
            json_object_set_new(body, "tool_choice",
                                json_pack("{s:s}", "type", choices[req->tool_choice]));
    }
    /*
     * The server puts the mark behind the last block: the next call of the turn, and the next turn,
     * read all before it from the cache.
     */
    if (!(quirks & LLM_NO_CACHE_CONTROL))
        json_object_set_new(body, "cache_control", json_pack("{s:s}", "type", "ephemeral"));
    /*
     * The newest models think anyway; without a word about it they say nothing between tool calls.
     */
    if (!(quirks & LLM_NO_THINKING) && llm_model_flags(t->model) & LLM_MODEL_ADAPTIVE)
        json_object_set_new(body, "thinking",
                            json_pack("{s:s, s:s}", "type", "adaptive", "display", "summarized"));
    if (!(quirks & LLM_NO_EFFORT) && t->effort && *t->effort && !str_eq(t->effort, "none"))
        json_object_set_new(body, "output_config", json_pack("{s:s}", "effort", t->effort));
    return body;
}

/* ---- reply ---- */

static int take_string(struct llm_draft *d, const json_t *s, struct err *err)
{
    return json_is_string(s) ? llm_draft_text(d, json_string_value(s), json_string_length(s), err) :
                               0;
}

/*
 * The block of that index among those that are kept; they are in the order of their beginning. NULL
 * when there is none.
 */
static json_t *kept_block(struct llm_draft *d, long long index)
{
    json_t *entry;
    size_t i;

    json_array_foreach(d->kept, i, entry)
        if (json_integer_value(json_object_get(entry, "index")) == index)
            return json_object_get(entry, "block");
    return NULL;
}

/*
 * A block as it begins, or as a whole. Of kinds that are not known, only what has to go back is
 * kept.
 */
static int take_block(struct llm_draft *d, long long index, const json_t *block, bool is_whole,
                      struct err *err)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *name = json_string_value(json_object_get(block, "name"));
    const json_t *input = json_object_get(block, "input");
    struct llm_draft_call *c;
    int r;

    if (!json_is_object(block) || !type)
        return 0;
    if (str_eq(type, "tool_use") && !is_whole && llm_draft_find_call(d, index))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's stream begins block %lld twice",
                       index);
    d->kept = d->kept ? d->kept : json_array();
    json_array_append_new(d->kept, json_pack("{s:I, s:o}", "index", (json_int_t)index, "block",
                                             json_deep_copy(block)));
    r = llm_draft_keeps(d, 64 + json_string_length(json_object_get(block, "data")), err);
    if (r < 0)
        return r;
    if (str_eq(type, "text"))
        return take_string(d, json_object_get(block, "text"), err);
    if (str_eq(type, "thinking")) {
        const json_t *t = json_object_get(block, "thinking");

        return llm_draft_thought(d, json_string_value(t), json_string_length(t), err);
    }
    if (!str_eq(type, "tool_use"))
        return 0;
    r = llm_draft_add_call(d, index, id ? id : "", name ? name : "", &c, err);
    /* an empty one at first: it comes in pieces */
    if (r < 0 || (!is_whole && json_object_size(input) == 0))
        return r;
    return llm_draft_arguments_json(c, input, err);
}

/* More of a text of a block that is kept. */
static int fill(struct llm_draft *d, json_t *block, const char *member, const json_t *more,
                struct err *err)
{
    auto_json json_t *piece = json_object();

    if (!block || !json_is_string(more))
        return 0;
    json_object_set(piece, member, (json_t *)(uintptr_t)more);
    return llm_draft_keeps(d, llm_keep_members(block, piece, NULL), err);
}

static int take_delta(struct llm_draft *d, const json_t *body, struct err *err)
{
    const json_t *delta = json_object_get(body, "delta"),
                 *json = json_object_get(delta, "partial_json");
    const char *type = json_string_value(json_object_get(delta, "type"));
    long long index = llm_count(body, "index", -1);
    json_t *block = kept_block(d, index);
    struct llm_draft_call *c;
    int r;

    if (str_eq(type, "text_delta")) {
        const json_t *t = json_object_get(delta, "text");

        r = fill(d, block, "text", t, err);
        return r < 0 ? r : take_string(d, t, err);
    }
    if (str_eq(type, "thinking_delta")) {
        const json_t *t = json_object_get(delta, "thinking");

        r = fill(d, block, "thinking", t, err);
        return r < 0 ? r : llm_draft_thought(d, json_string_value(t), json_string_length(t), err);
    }
    if (str_eq(type, "signature_delta"))
        return fill(d, block, "signature", json_object_get(delta, "signature"), err);
    if (!str_eq(type, "input_json_delta"))
        return 0;
    c = llm_draft_find_call(d, index);
    if (!c && block) /* of a tool that the server runs itself */
        return fill(d, block, "partial_json", json, err);
    if (!c)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's stream fills a block that it did not begin");
    return json_is_string(json) ?
               llm_draft_arguments(c, json_string_value(json), json_string_length(json), err) :
               0;
}

/* The blocks for the next request: whole, in order, without those that would be refused. */
static json_t *keep(struct llm_draft *d)
{
    json_t *list = json_array(), *entry;
    bool has_thinking = false;
    size_t i;

    json_array_foreach(d->kept, i, entry) {
        json_t *block = json_object_get(entry, "block"),
               *partial = json_object_get(block, "partial_json");
        const char *type = json_string_value(json_object_get(block, "type"));
        struct llm_draft_call *c = llm_draft_find_call(
            d, json_integer_value(json_object_get(entry, "index")));

        if (str_eq(type, "text") && json_string_length(json_object_get(block, "text")) == 0)
            continue;
        if (str_eq(type, "thinking") &&
            json_string_length(json_object_get(block, "signature")) == 0)
            continue; /* cut off, or of a server that has no signatures */
        if (str_eq(type, "tool_use") && c)
            json_object_set_new(block, "input", llm_arguments(buf_cstr(&c->arguments)));
        if (partial) {
            json_object_set_new(block, "input", llm_arguments(json_string_value(partial)));
            json_object_del(block, "partial_json");
        }
        has_thinking = has_thinking || !(str_eq(type, "text") || str_eq(type, "tool_use"));
        json_array_append(list, block);
    }
    if (has_thinking && !d->calls_from_text)
        return list;
    json_decref(list); /* text and calls are sent anyway */
    return NULL;
}

static void take_stop_reason(struct llm_draft *d, const json_t *message)
{
    const char *reason = json_string_value(json_object_get(message, "stop_reason"));

    if (!reason)
        return;
    d->has_stop = true;
    /* what there is was written */
    if (str_eq(reason, "max_tokens") || str_eq(reason, "model_context_window_exceeded"))
        d->stop = LLM_STOP_LENGTH;
    else if (str_eq(reason, "tool_use"))
        d->stop = LLM_STOP_TOOLS;
    else if (str_eq(reason, "refusal"))
        d->stop = LLM_STOP_REFUSAL;
    else
        d->stop = LLM_STOP_END;
}

static void take_usage(struct llm_draft *d, const json_t *usage)
{
    if (json_object_get(usage, "input_tokens")) {
        d->written_tokens = llm_count(usage, "cache_creation_input_tokens", 0);
        d->cached_tokens = llm_count(usage, "cache_read_input_tokens", 0);
        d->input_tokens = llm_count(usage, "input_tokens", 0) + d->written_tokens +
                          d->cached_tokens;
    }
    d->output_tokens = llm_count(usage, "output_tokens", d->output_tokens);
}

static int event(struct llm_draft *d, const char *name, const char *data, size_t len,
                 struct err *err)
{
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;
    struct llm_complaint complaint;
    const char *type;

    if (llm_json_read(data, len, &body, &why) < 0)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent an event that cannot be read: %s", why.message);
    if (!json_is_object(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON of type %s where an object is due",
                       json_type_name(body));
    type = json_string_value(json_object_get(body, "type"));
    type = type ? type : name;
    if (llm_complaint_read(body, false, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    if (str_eq(type, "message_start")) {
        take_usage(d, json_object_get(json_object_get(body, "message"), "usage"));
    } else if (str_eq(type, "content_block_start")) {
        return take_block(d, llm_count(body, "index", -1), json_object_get(body, "content_block"),
                          false, err);
    } else if (str_eq(type, "content_block_delta")) {
        return take_delta(d, body, err);
    } else if (str_eq(type, "message_delta")) {
        take_stop_reason(d, json_object_get(body, "delta"));
        take_usage(d, json_object_get(body, "usage"));
    } else if (str_eq(type, "message_stop")) {
        d->is_whole = true;
        return 1;
    }
    return 0;
}

static int whole(struct llm_draft *d, const json_t *body, struct err *err)
{
    const json_t *content = json_object_get(body, "content");
    struct llm_complaint complaint;
    json_t *block;
    size_t i;

    if (llm_complaint_read(body, false, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    if (!json_is_array(content))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON that is no message");
    json_array_foreach(content, i, block) {
        int r = take_block(d, (long long)i, block, true, err);

        if (r != 0)
            return r;
    }
    take_stop_reason(d, body);
    take_usage(d, json_object_get(body, "usage"));
    d->is_whole = true;
    return 0;
}

const struct llm_provider llm_anthropic = {
    .name = "anthropic",
    .configure = configure,
    .possible_quirks = LLM_NO_CACHE_CONTROL | LLM_NO_THINKING | LLM_NO_EFFORT | LLM_NO_ECHO |
                       LLM_NO_IMAGES | LLM_NO_TOOL_CHOICE,
    .headers = headers,
    .request = request,
    .event = event,
    .whole = whole,
    .keep = keep,
};
