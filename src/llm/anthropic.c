/*
 * Anthropic's Messages: a stream of named events that open, fill and close the blocks of one message, text or a call of a tool.
 * Answers of tools are blocks of a user's message, so those that follow each other, and what the user says next, become one.
 */

#include "llm/llm_impl.h"

#include <string.h>
#include "base/str.h"

#define OWN_HOST "https://api.anthropic.com"
#define DEFAULT_URL "https://api.anthropic.com"
#define DEFAULT_MODEL "claude-sonnet-4-5"
#define API_VERSION "2023-06-01"

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    /* `NAME=` is how a compose file passes on what is not set. */
    const char *base = *cfg->anthropic_base_url ? cfg->anthropic_base_url : DEFAULT_URL;
    const char *model = *cfg->anthropic_model ? cfg->anthropic_model : DEFAULT_MODEL;

    *ret = (struct llm_target){ .key_setting = "ANTHROPIC_API_KEY",
                                .url_setting = "ANTHROPIC_BASE_URL",
                                .model_setting = "ANTHROPIC_MODEL",
                                .is_own = str_starts(base, OWN_HOST),
                                .max_tokens = cfg->llm_max_tokens };
    return llm_target_fill(ret, cfg->anthropic_api_key, model, llm_join_url(base, "/v1", "/messages"), err);
}

static size_t headers(const struct llm_target *t, struct buf *scratch, struct client_header ret[LLM_HEADERS_MAX])
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
        json_t *input = NULL;

        /* It has to be an object; what the model wrote otherwise is shown to it as it was. */
        if (json_parse(c->arguments, strlen(c->arguments), &input, NULL) < 0 || !json_is_object(input)) {
            json_decref(input);
            input = json_pack("{s:o}", "unreadable", text(c->arguments));
        }
        json_array_append_new(blocks, json_pack("{s:s, s:o, s:o, s:o}", "type", "tool_use", "id", text(c->id), "name",
                                                text(c->name), "input", input));
    }
}

static void add_result(json_t *blocks, const struct llm_message *m)
{
    json_t *block = json_pack("{s:s, s:o}", "type", "tool_result", "tool_use_id", text(m->tool_call_id));

    if (m->content && *m->content)
        json_object_set_new(block, "content", text(m->content));
    if (m->is_error)
        json_object_set_new(block, "is_error", json_true());
    json_array_append_new(blocks, block);
}

static json_t *messages_json(const struct llm_request *req)
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
            json_array_append_new(list, json_pack("{s:s, s:o}", "role", user ? "user" : "assistant", "content", blocks));
            is_user = user;
        }
        if (m->role == LLM_TOOL)
            add_result(blocks, m);
        else
            add_text(blocks, m->content);
        if (m->role == LLM_ASSISTANT)
            add_calls(blocks, m);
    }
    return list;
}

static json_t *tools_json(const struct llm_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->n_tools; i++) {
        const struct llm_tool *t = &req->tools[i];

        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name", text(t->name), "description", text(t->description),
                                              "input_schema",
                                              t->parameters ? json_deep_copy(t->parameters) :
                                                              json_pack("{s:s, s:{}}", "type", "object", "properties")));
    }
    return list;
}

static json_t *request(const struct llm_target *t, const struct llm_request *req)
{
    static const char *const choices[] = { [LLM_TOOLS_AUTO] = "auto", [LLM_TOOLS_NONE] = "none", [LLM_TOOLS_REQUIRED] = "any" };
    int64_t max_tokens = req->max_tokens > 0 ? req->max_tokens : t->max_tokens;
    json_t *body = json_pack("{s:s, s:I, s:o, s:b}", "model", t->model, "max_tokens", (json_int_t)max_tokens, "messages",
                             messages_json(req), "stream", 1);

    if (!body)
        return NULL;
    if (req->system && *req->system)
        json_object_set_new(body, "system", text(req->system));
    if (req->n_tools > 0) {
        json_object_set_new(body, "tools", tools_json(req));
        json_object_set_new(body, "tool_choice", json_pack("{s:s}", "type", choices[req->tool_choice]));
    }
    json_object_set_new(body, "temperature", json_integer(0));
    return body;
}

/* ---- reply ---- */

static int take_string(struct llm_draft *d, const json_t *s, struct err *err)
{
    return json_is_string(s) ? llm_draft_text(d, json_string_value(s), json_string_length(s), err) : 0;
}

/* A block as it begins, or as a whole. Kinds that are not known (thinking, for one) are passed over. */
static int take_block(struct llm_draft *d, long long index, const json_t *block, bool is_whole, struct err *err)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *name = json_string_value(json_object_get(block, "name"));
    const json_t *input = json_object_get(block, "input");
    struct llm_draft_call *c;
    int r;

    if (str_eq(type, "text"))
        return take_string(d, json_object_get(block, "text"), err);
    if (!str_eq(type, "tool_use"))
        return 0;
    if (!is_whole && llm_draft_find_call(d, index))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's stream begins block %lld twice", index);
    r = llm_draft_add_call(d, index, id ? id : "", name ? name : "", &c, err);
    if (r < 0 || (!is_whole && json_object_size(input) == 0)) /* an empty one at first: it comes in pieces */
        return r;
    return llm_draft_arguments_json(c, input, err);
}

static int take_delta(struct llm_draft *d, const json_t *body, struct err *err)
{
    const json_t *delta = json_object_get(body, "delta"), *json = json_object_get(delta, "partial_json");
    const char *type = json_string_value(json_object_get(delta, "type"));
    struct llm_draft_call *c;

    if (str_eq(type, "text_delta"))
        return take_string(d, json_object_get(delta, "text"), err);
    if (!str_eq(type, "input_json_delta"))
        return 0;
    c = llm_draft_find_call(d, llm_count(body, "index", -1));
    if (!c)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's stream fills a block that it did not begin");
    return json_is_string(json) ? llm_draft_arguments(c, json_string_value(json), json_string_length(json), err) : 0;
}

static void take_stop_reason(struct llm_draft *d, const json_t *message)
{
    const char *reason = json_string_value(json_object_get(message, "stop_reason"));

    if (!reason)
        return;
    d->has_stop = true;
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
    if (json_object_get(usage, "input_tokens"))
        d->input_tokens = llm_count(usage, "input_tokens", 0) + llm_count(usage, "cache_creation_input_tokens", 0) +
                          llm_count(usage, "cache_read_input_tokens", 0);
    d->output_tokens = llm_count(usage, "output_tokens", d->output_tokens);
}

static int event(struct llm_draft *d, const char *name, const char *data, size_t len, struct err *err)
{
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;
    struct llm_complaint complaint;
    const char *type;

    if (json_parse(data, len, &body, &why) < 0)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent an event that cannot be read: %s", why.message);
    if (!json_is_object(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent JSON of type %s where an object is due",
                       json_type_name(body));
    type = json_string_value(json_object_get(body, "type"));
    type = type ? type : name;
    if (llm_complaint_read(body, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    if (str_eq(type, "message_start")) {
        take_usage(d, json_object_get(json_object_get(body, "message"), "usage"));
    } else if (str_eq(type, "content_block_start")) {
        return take_block(d, llm_count(body, "index", -1), json_object_get(body, "content_block"), false, err);
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

    if (llm_complaint_read(body, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    if (!json_is_array(content))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent JSON that is no message");
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
    .possible_quirks = LLM_NO_TEMPERATURE,
    .headers = headers,
    .request = request,
    .event = event,
    .whole = whole,
};
