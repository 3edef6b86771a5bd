/*
 * OpenAI's Chat Completions, and whatever speaks them: a stream of chunks, each with a delta of the one choice that we ask for,
 * then one with the usage, then [DONE]. Servers differ in small ways; where the meaning is certain, each of them is understood.
 */

#include "llm/llm_impl.h"

#include <string.h>
#include "base/str.h"

#define OWN_HOST "https://api.openai.com"
#define DEFAULT_URL "https://api.openai.com/v1"
#define DEFAULT_MODEL "gpt-4o-mini"

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    /* `NAME=` is how a compose file passes on what is not set. */
    const char *base = *cfg->openai_base_url ? cfg->openai_base_url : DEFAULT_URL;
    const char *model = *cfg->openai_model ? cfg->openai_model : DEFAULT_MODEL;

    *ret = (struct llm_target){ .key_setting = "OPENAI_API_KEY",
                                .url_setting = "OPENAI_BASE_URL",
                                .model_setting = "OPENAI_MODEL",
                                .is_own = str_starts(base, OWN_HOST),
                                .max_tokens = cfg->llm_max_tokens };
    return llm_target_fill(ret, cfg->openai_api_key, model, llm_join_url(base, "", "/chat/completions"), err);
}

/* Reasoning models take no temperature, and name their limit differently. */
static unsigned quirks_of(const char *model)
{
    static const char *const reasoning[] = { "o1", "o3", "o4", "gpt-5" };

    for (size_t i = 0; i < ARRAY_SIZE(reasoning); i++) {
        if (str_starts(model, reasoning[i]))
            return LLM_NO_TEMPERATURE | LLM_COMPLETION_TOKENS;
    }
    return 0;
}

static size_t headers(const struct llm_target *t, struct buf *scratch, struct client_header ret[LLM_HEADERS_MAX])
{
    size_t n = 0;

    ret[n++] = (struct client_header){ "Content-Type", "application/json" };
    ret[n++] = (struct client_header){ "Accept", "text/event-stream, application/json" };
    if (*t->key && buf_printf(scratch, NULL, "Bearer %s", t->key) == 0)
        ret[n++] = (struct client_header){ "Authorization", buf_cstr(scratch) };
    return n;
}

/* ---- request ---- */

static json_t *text(const char *s)
{
    return s ? json_text(s, strlen(s)) : json_null();
}

static json_t *calls_json(const struct llm_message *m)
{
    json_t *list = json_array();

    for (size_t i = 0; i < m->n_calls; i++) {
        const struct llm_tool_call *c = &m->calls[i];

        json_array_append_new(list, json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", text(c->id), "type", "function", "function",
                                              "name", text(c->name), "arguments", text(c->arguments)));
    }
    return list;
}

static json_t *message_json(const struct llm_message *m)
{
    switch (m->role) {
    case LLM_ASSISTANT:
        if (m->n_calls > 0)
            return json_pack("{s:s, s:o, s:o}", "role", "assistant", "content", text(m->content), "tool_calls", calls_json(m));
        return json_pack("{s:s, s:o}", "role", "assistant", "content", text(m->content ? m->content : ""));
    case LLM_TOOL:
        return json_pack("{s:s, s:o, s:o}", "role", "tool", "tool_call_id", text(m->tool_call_id ? m->tool_call_id : ""),
                         "content", text(m->content ? m->content : ""));
    default:
        return json_pack("{s:s, s:o}", "role", "user", "content", text(m->content ? m->content : ""));
    }
}

static json_t *tools_json(const struct llm_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->n_tools; i++) {
        const struct llm_tool *t = &req->tools[i];

        json_array_append_new(list, json_pack("{s:s, s:{s:o, s:o, s:o}}", "type", "function", "function", "name", text(t->name),
                                              "description", text(t->description ? t->description : ""), "parameters",
                                              t->parameters ? json_deep_copy(t->parameters) :
                                                              json_pack("{s:s, s:{}}", "type", "object", "properties")));
    }
    return list;
}

static json_t *request(const struct llm_target *t, const struct llm_request *req)
{
    static const char *const choices[] = {
        [LLM_TOOLS_AUTO] = "auto", [LLM_TOOLS_NONE] = "none", [LLM_TOOLS_REQUIRED] = "required"
    };
    json_t *messages = json_array();
    json_t *body = json_pack("{s:s, s:o, s:b}", "model", t->model, "messages", messages, "stream", 1);
    int64_t max_tokens = req->max_tokens > 0 ? req->max_tokens : t->max_tokens;

    if (!body)
        return NULL;
    if (req->system && *req->system)
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "system", "content", text(req->system)));
    for (size_t i = 0; i < req->n_messages; i++)
        json_array_append_new(messages, message_json(&req->messages[i]));
    if (req->n_tools > 0) {
        json_object_set_new(body, "tools", tools_json(req));
        json_object_set_new(body, "tool_choice", json_string(choices[req->tool_choice]));
    }
    json_object_set_new(body, "temperature", json_integer(0));
    json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    json_object_set_new(body, "max_tokens", json_integer(max_tokens));
    return body;
}

/* ---- reply ---- */

/* Text, or a list of parts that have some. */
static int take_text(struct llm_draft *d, const json_t *content, struct err *err)
{
    size_t i;
    json_t *part;

    if (json_is_string(content))
        return llm_draft_text(d, json_string_value(content), json_string_length(content), err);
    json_array_foreach(content, i, part) {
        const json_t *t = json_object_get(part, "text");
        int r = json_is_string(t) ? llm_draft_text(d, json_string_value(t), json_string_length(t), err) : 0;

        if (r != 0)
            return r;
    }
    return 0;
}

static int take_call(struct llm_draft *d, const json_t *delta, struct err *err)
{
    const json_t *function = json_object_get(delta, "function"), *index_json = json_object_get(delta, "index");
    const char *id = json_string_value(json_object_get(delta, "id"));
    const char *name = json_string_value(json_object_get(function, "name"));
    struct llm_draft_call *c;
    long long index;
    int r;

    id = id ? id : "";
    name = name ? name : "";
    if (json_is_integer(index_json))
        index = json_integer_value(index_json);
    else if (*id || d->n_calls == 0) /* no index: a new id is a new call, anything else belongs to the last */
        index = (long long)d->n_calls;
    else
        index = d->calls[d->n_calls - 1].index;

    c = llm_draft_find_call(d, index);
    /* Some servers count every call as number 0. */
    if (!c || (*id && c->id.len > 0 && !str_eq(id, c->id.data))) {
        r = llm_draft_add_call(d, index, id, name, &c, err);
    } else {
        r = c->id.len == 0 && *id ? buf_append_str(&c->id, id, err) : 0;
        if (r == 0 && *name && !str_eq(name, buf_cstr(&c->name)))
            r = buf_append_str(&c->name, name, err);
        if (r < 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE, "the id or name of a call is longer than %d bytes", LLM_NAME_MAX);
    }
    return r < 0 ? r : llm_draft_arguments_json(c, json_object_get(function, "arguments"), err);
}

/* A delta, or a message as a whole: their members are the same. */
static int take_message(struct llm_draft *d, const json_t *m, struct err *err)
{
    const json_t *refusal = json_object_get(m, "refusal");
    json_t *call;
    size_t i;
    int r = take_text(d, json_object_get(m, "content"), err);

    if (r == 0 && json_is_string(refusal) && json_string_length(refusal) > 0) {
        d->is_refusal = true;
        r = take_text(d, refusal, err);
    }
    json_array_foreach(json_object_get(m, "tool_calls"), i, call) {
        if (r == 0)
            r = take_call(d, call, err);
    }
    return r;
}

static void take_finish_reason(struct llm_draft *d, const char *reason)
{
    if (!reason)
        return;
    d->has_stop = true;
    if (str_eq(reason, "length"))
        d->stop = LLM_STOP_LENGTH;
    else if (str_eq(reason, "tool_calls") || str_eq(reason, "function_call"))
        d->stop = LLM_STOP_TOOLS;
    else if (str_eq(reason, "content_filter"))
        d->stop = LLM_STOP_REFUSAL;
    else
        d->stop = LLM_STOP_END;
}

static int take_body(struct llm_draft *d, const json_t *body, const char *member, struct err *err)
{
    const json_t *choices = json_object_get(body, "choices"), *usage = json_object_get(body, "usage");
    struct llm_complaint complaint;
    json_t *choice;
    size_t i;

    if (!json_is_object(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent JSON of type %s where an object is due",
                       json_type_name(body));
    if (llm_complaint_read(body, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    if (choices && !json_is_null(choices) && !json_is_array(choices))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent 'choices' that are no array");
    if (json_is_object(usage)) {
        d->input_tokens = llm_count(usage, "prompt_tokens", d->input_tokens);
        d->output_tokens = llm_count(usage, "completion_tokens", d->output_tokens);
    }
    json_array_foreach(choices, i, choice) {
        const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
        int r;

        if (llm_count(choice, "index", 0) != 0) /* one was asked for */
            continue;
        r = take_message(d, json_object_get(choice, member), err);
        if (r != 0)
            return r;
        take_finish_reason(d, reason);
    }
    return 0;
}

static int event(struct llm_draft *d, const char *name, const char *data, size_t len, struct err *err)
{
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;

    (void)name;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        d->is_whole = true;
        return 1;
    }
    if (json_parse(data, len, &body, &why) < 0)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent an event that cannot be read: %s", why.message);
    return take_body(d, body, "delta", err);
}

static int whole(struct llm_draft *d, const json_t *body, struct err *err)
{
    int r;

    if (!json_is_array(json_object_get(body, "choices")) && !json_object_get(body, "error"))
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's server sent JSON that is no completion");
    r = take_body(d, body, "message", err);
    d->is_whole = r == 0;
    return r;
}

const struct llm_provider llm_openai = {
    .name = "openai",
    .configure = configure,
    .quirks = quirks_of,
    .possible_quirks = LLM_NO_TEMPERATURE | LLM_NO_STREAM_OPTIONS | LLM_COMPLETION_TOKENS | LLM_NO_MAX_TOKENS,
    .headers = headers,
    .request = request,
    .event = event,
    .whole = whole,
};
