/*
 * OpenAI's Chat Completions, and whatever speaks them: a stream of chunks, each with a delta of the
 * one choice that we ask for, then one with the usage, then [DONE]. Servers differ in small ways;
 * where the meaning is certain, each of them is understood.
 */

#include "llm/llm_impl.h"

#include <string.h>
#include "base/str.h"

#define OWN_HOST "https://api.openai.com"
#define DEFAULT_URL "https://api.openai.com/v1"
#define DEFAULT_MODEL "gpt-6-luna"
#define NO_SIGNATURE                                                                               \
    "skip_thought_signature_validator" /* Google's word for a call that another model made */

static bool is_azure(const char *base)
{
    return strstr(base, ".azure.com") || strstr(base, "api-version=");
}

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    /* `NAME=` is how a compose file passes on what is not set. */
    const char *base = *cfg->openai_base_url ? cfg->openai_base_url : DEFAULT_URL;
    const char *model = *cfg->openai_model ? cfg->openai_model : DEFAULT_MODEL;
    int r;

    *ret = (struct llm_target){ .key_setting = "OPENAI_API_KEY",
                                .url_setting = "OPENAI_BASE_URL",
                                .model_setting = "OPENAI_MODEL",
                                .is_own = str_starts(base, OWN_HOST),
                                .is_azure = is_azure(base) };
    r = llm_target_fill(ret, cfg->openai_api_key, model,
                        llm_join_url(base, "", "/chat/completions"), err);
    if (r == 0 && !(ret->responses_url = llm_join_url(base, "", "/responses"))) {
        llm_target_finish(ret);
        return err_set(err, ERR_NO_MEMORY, "out of memory for a model's settings");
    }
    return r;
}

static size_t headers(const struct llm_target *t, struct buf *scratch,
                      struct client_header ret[LLM_HEADERS_MAX])
{
    size_t n = 0;

    ret[n++] = (struct client_header){ "Content-Type", "application/json" };
    ret[n++] = (struct client_header){ "Accept", "text/event-stream, application/json" };
    if (*t->key && t->is_azure)
        ret[n++] = (struct client_header){ "api-key", t->key };
    else if (*t->key && buf_printf(scratch, NULL, "Bearer %s", t->key) == 0)
        ret[n++] = (struct client_header){ "Authorization", buf_cstr(scratch) };
    return n;
}

/* ---- request ---- */

static json_t *text(const char *s)
{
    return s ? json_text(s, strlen(s)) : json_null();
}

/* Servers parse the history, and some fail on arguments that are no object. */
static json_t *arguments_json(const char *arguments)
{
    auto_json json_t *input = NULL;
    auto_free char *mended = NULL;

    if (json_parse(arguments, strlen(arguments), &input, NULL) == 0 && json_is_object(input))
        return text(arguments);
    json_decref(input);
    input = llm_arguments(arguments);
    mended = json_to_str(input);
    return text(mended ? mended : "{}");
}

static json_t *calls_json(const struct llm_message *m, unsigned quirks)
{
    json_t *list = json_array(), *calls_kept = json_object_get(m->kept, "calls");

    for (size_t i = 0; i < m->n_calls; i++) {
        const struct llm_tool_call *c = &m->calls[i];
        json_t *call = json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", text(c->id), "type", "function",
                                 "function", "name", text(c->name), "arguments",
                                 arguments_json(c->arguments));

        if (!(quirks & LLM_NO_ECHO))
            json_object_update_missing(call, json_array_get(calls_kept, i));
        if (quirks & LLM_FILL_SIGNATURE && i == 0 && !json_object_get(call, "extra_content"))
            json_object_set_new(
                call, "extra_content",
                json_pack("{s:{s:s}}", "google", "thought_signature", NO_SIGNATURE));
        json_array_append_new(list, call);
    }
    return list;
}

static json_t *assistant_json(const struct llm_message *m, unsigned quirks)
{
    bool needs_text = m->n_calls == 0 || quirks & LLM_TEXT_CONTENT;
    json_t *o = json_pack("{s:s, s:o}", "role", "assistant", "content",
                          text(m->content ? m->content :
                               needs_text ? "" :
                                            NULL));

    if (m->n_calls > 0)
        json_object_set_new(o, "tool_calls", calls_json(m, quirks));
    if (!(quirks & LLM_NO_ECHO))
        json_object_update_missing(o, json_object_get(m->kept, "message"));
    /* Of a message that another server wrote, or an earlier process. */
    if (quirks & LLM_FILL_REASONING && !json_object_get(o, "reasoning_content"))
        json_object_set_new(o, "reasoning_content", json_string("."));
    return o;
}

static json_t *message_json(const struct llm_message *m, unsigned quirks)
{
    switch (m->role) {
    case LLM_ASSISTANT:
        return assistant_json(m, quirks);
    case LLM_TOOL:
        return json_pack("{s:s, s:o, s:o}", "role", "tool", "tool_call_id",
                         text(m->tool_call_id ? m->tool_call_id : ""), "content",
                         text(m->content ? m->content : ""));
    default:
        return json_pack("{s:s, s:o}", "role", "user", "content",
                         text(m->content ? m->content : ""));
    }
}

/*
 * Images of the tools' answers that end at `end`: a tool's message takes text only, so a user's
 * message shows them.
 */
static void add_images(json_t *messages, const struct llm_request *req, size_t end)
{
    size_t begin = end;
    json_t *parts = NULL;

    while (begin > 0 && req->messages[begin - 1].role == LLM_TOOL)
        begin--;
    for (size_t i = begin; i < end; i++) {
        for (size_t k = 0; k < req->messages[i].n_images; k++) {
            const struct llm_image *image = &req->messages[i].images[k];
            json_t *url = json_sprintf("data:%s;base64,%s", image->type, image->base64);

            if (!parts)
                parts = json_pack("[{s:s, s:s}]", "type", "text", "text",
                                  "The figures that the code of these tools drew:");
            json_array_append_new(
                parts, json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", url));
        }
    }
    if (parts)
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "user", "content", parts));
}

static json_t *tools_json(const struct llm_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->n_tools; i++) {
        const struct llm_tool *t = &req->tools[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:{s:o, s:o, s:o}}", "type", "function", "function", "name",
                      text(t->name), "description", text(t->description ? t->description : ""),
                      "parameters",
                      t->parameters ? json_deep_copy(t->parameters) :
                                      json_pack("{s:s, s:{}}", "type", "object", "properties")));
    }
    return list;
}

static json_t *request(const struct llm_target *t, const struct llm_request *req, unsigned quirks)
{
    static const char *const choices[] = {
        [LLM_TOOLS_AUTO] = "auto", [LLM_TOOLS_NONE] = "none", [LLM_TOOLS_REQUIRED] = "required"
    };
    json_t *messages = json_array();
    json_t *body = json_pack("{s:s, s:o, s:b}", "model", t->model, "messages", messages, "stream",
                             1);
    int64_t max_tokens = req->max_tokens > 0 ? req->max_tokens : t->max_tokens;

    if (!body)
        return NULL;
    if (req->system && *req->system)
        json_array_append_new(
            messages, json_pack("{s:s, s:o}", "role", "system", "content", text(req->system)));
    for (size_t i = 0; i < req->n_messages; i++) {
        bool last_tool = req->messages[i].role == LLM_TOOL &&
                         (i + 1 == req->n_messages || req->messages[i + 1].role != LLM_TOOL);

        json_array_append_new(messages, message_json(&req->messages[i], quirks));
        if (last_tool && !(quirks & LLM_NO_IMAGES))
            add_images(messages, req, i + 1);
    }
    if (req->n_tools > 0) {
        json_object_set_new(body, "tools", tools_json(req));
        if (!(quirks & LLM_NO_TOOL_CHOICE))
            json_object_set_new(body, "tool_choice", json_string(choices[req->tool_choice]));
    }
    /* No temperature: every maker's newest models refuse it. */
    if (!(quirks & LLM_NO_EFFORT)) {
        if (quirks & LLM_EFFORT_NONE && req->n_tools > 0)
            json_object_set_new(body, "reasoning_effort", json_string("none"));
        else if (t->effort && *t->effort)
            json_object_set_new(body, "reasoning_effort", json_string(t->effort));
    }
    if (!(quirks & LLM_NO_STREAM_OPTIONS))
        json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    if (!(quirks & LLM_NO_MAX_TOKENS))
        json_object_set_new(body,
                            quirks & LLM_COMPLETION_TOKENS ? "max_completion_tokens" : "max_tokens",
                            json_integer(max_tokens));
    return body;
}

/* ---- reply ---- */

/* Text, or parts with text, of thinking. */
static int take_thinking(struct llm_draft *d, const json_t *v, struct err *err)
{
    json_t *part;
    size_t i;
    int r = 0;

    if (json_is_string(v))
        return llm_draft_thought(d, json_string_value(v), json_string_length(v), err);
    json_array_foreach(v, i, part) {
        const json_t *t = json_object_get(part, "text");

        if (r == 0 && json_is_string(t))
            r = llm_draft_thought(d, json_string_value(t), json_string_length(t), err);
    }
    return r;
}

/* Text, or a list of parts that have some. */
static int take_text(struct llm_draft *d, const json_t *content, struct err *err)
{
    size_t i;
    json_t *part;

    if (json_is_string(content))
        return llm_draft_text(d, json_string_value(content), json_string_length(content), err);
    json_array_foreach(content, i, part) {
        const json_t *t = json_object_get(part, "text"),
                     *thinking = json_object_get(part, "thinking");
        int r = 0;

        if (json_is_string(t))
            r = llm_draft_text(d, json_string_value(t), json_string_length(t), err);
        else if (thinking) /* Mistral's */
            r = take_thinking(d, thinking, err);
        if (r != 0)
            return r;
    }
    return 0;
}

static bool is_whole_object(const struct buf *b)
{
    auto_json json_t *v = NULL;

    return b->len > 1 && b->data[b->len - 1] == '}' && json_parse(b->data, b->len, &v, NULL) == 0 &&
           json_is_object(v);
}

/*
 * Whether a piece without an id of its own begins another call of the same index: some servers
 * count every call as number 0.
 */
static bool begins_call(const struct llm_draft *d, const struct llm_draft_call *c, const char *name,
                        const json_t *arguments)
{
    const char *more = json_string_value(arguments);

    if (!*name)
        return more && *more == '{' && is_whole_object(&c->arguments);
    if (c->arguments.len > 0)
        return is_whole_object(&c->arguments) &&
               (json_is_object(arguments) || !more || *more == '{' ||
                !str_eq(name, buf_cstr(&c->name)));
    return !str_eq(name, buf_cstr(&c->name)) && llm_draft_is_tool(d, name) &&
           llm_draft_is_tool(d, buf_cstr(&c->name));
}

static int take_call(struct llm_draft *d, const json_t *delta, struct err *err)
{
    static const char *const known[] = { "index", "id", "type", "function", NULL };
    const json_t *function = json_object_get(delta, "function"),
                 *index_json = json_object_get(delta, "index");
    const json_t *arguments = json_object_get(function, "arguments");
    const char *id = json_string_value(json_object_get(delta, "id"));
    const char *name = json_string_value(json_object_get(function, "name"));
    struct llm_draft_call *c;
    long long index;
    bool same_id;
    int r;

    id = id ? id : "";
    name = name ? name : "";
    if (json_is_integer(index_json))
        index = json_integer_value(index_json);
    /* no index: a new id is a new call, anything else belongs to the last */
    else if (*id || d->n_calls == 0)
        index = (long long)d->n_calls;
    else
        index = d->calls[d->n_calls - 1].index;

    c = llm_draft_find_call(d, index);
    same_id = c && *id && c->id.len > 0 && str_eq(id, c->id.data);
    if (!c || (*id && c->id.len > 0 && !same_id) ||
        (!same_id && begins_call(d, c, name, arguments))) {
        r = llm_draft_add_call(d, index, id, *name || !c ? name : buf_cstr(&c->name), &c, err);
    } else {
        r = c->id.len == 0 && *id ? buf_append_str(&c->id, id, err) : 0;
        if (r == 0 && *name && !str_eq(name, buf_cstr(&c->name)))
            r = buf_append_str(&c->name, name, err);
        if (r < 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE,
                           "the id or name of a call is longer than %d bytes", LLM_NAME_MAX);
    }
    if (r == 0 && json_object_size(delta) > 0) {
        c->kept = c->kept ? c->kept : json_object();
        r = llm_draft_keeps(d, llm_keep_members(c->kept, delta, known), err);
    }
    return r < 0 ? r : llm_draft_arguments_json(c, arguments, err);
}

/* A delta, or a message as a whole: their members are the same. */
static int take_message(struct llm_draft *d, const json_t *m, struct err *err)
{
    static const char *const known[] = { "role",      "content",  "tool_calls",  "function_call",
                                         "refusal",   "audio",    "annotations", "name",
                                         "token_ids", "logprobs", "padding",     "obfuscation",
                                         NULL };
    const json_t *refusal = json_object_get(m, "refusal"),
                 *thinking = json_object_get(m, "reasoning_content");
    json_t *call;
    size_t i;
    int r = 0;

    if (!thinking || json_is_null(thinking))
        thinking = json_object_get(m, "reasoning");
    if (json_is_object(m) && json_object_size(m) > 0) {
        d->kept = d->kept ? d->kept : json_object();
        r = llm_draft_keeps(d, llm_keep_members(d->kept, m, known), err);
    }
    if (r == 0)
        r = take_thinking(d, thinking, err);
    if (r == 0)
        r = take_text(d, json_object_get(m, "content"), err);
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

/*
 * Members without a value say nothing; an empty reasoning_content says that there was none, which
 * its server wants to hear.
 */
static void drop_empty(json_t *o)
{
    const char *key;
    json_t *v;
    void *next;

    json_object_foreach_safe(o, next, key, v) {
        bool is_empty = json_is_null(v) ||
                        (json_is_string(v) && json_string_length(v) == 0 &&
                         !str_eq(key, "reasoning_content")) ||
                        (json_is_array(v) && json_array_size(v) == 0) ||
                        (json_is_object(v) && json_object_size(v) == 0);

        if (is_empty)
            json_object_del(o, key);
    }
}

static json_t *keep(struct llm_draft *d)
{
    json_t *calls = json_array();
    bool has_calls = false;

    for (size_t i = 0; i < d->n_calls; i++) {
        if (d->calls[i].kept)
            drop_empty(d->calls[i].kept);
        has_calls = has_calls || json_object_size(d->calls[i].kept) > 0;
        json_array_append_new(calls,
                              d->calls[i].kept ? json_incref(d->calls[i].kept) : json_object());
    }
    if (d->kept)
        drop_empty(d->kept);
    if (!has_calls && json_object_size(d->kept) == 0) {
        json_decref(calls);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "message", d->kept ? json_incref(d->kept) : json_object(),
                     "calls", calls);
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
    const json_t *choices = json_object_get(body, "choices"),
                 *usage = json_object_get(body, "usage");
    struct llm_complaint complaint;
    json_t *choice;
    size_t i;

    if (!json_is_object(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON of type %s where an object is due",
                       json_type_name(body));
    if (llm_complaint_read(body, false, &complaint)) {
        /*
         * Groq could not read the call that its model wrote: this try was bad, the next may be good
         */
        if (*complaint.failed) {
            d->has_stop = d->is_whole = true;
            d->stop = LLM_STOP_BAD_CALL;
            return llm_draft_text(d, complaint.failed, strlen(complaint.failed), err);
        }
        return llm_complaint_err(&complaint, d->secret, err);
    }
    if (choices && !json_is_null(choices) && !json_is_array(choices))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent 'choices' that are no array");
    if (json_is_object(usage)) {
        d->input_tokens = llm_count(usage, "prompt_tokens", d->input_tokens);
        d->output_tokens = llm_count(usage, "completion_tokens", d->output_tokens);
        d->cached_tokens = llm_count(json_object_get(usage, "prompt_tokens_details"),
                                     "cached_tokens",
                                     llm_count(usage, "prompt_cache_hit_tokens", d->cached_tokens));
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

static int event(struct llm_draft *d, const char *name, const char *data, size_t len,
                 struct err *err)
{
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;

    (void)name;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        d->is_whole = true;
        return 1;
    }
    if (llm_json_read(data, len, &body, &why) < 0)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent an event that cannot be read: %s", why.message);
    return take_body(d, body, "delta", err);
}

static int whole(struct llm_draft *d, const json_t *body, struct err *err)
{
    int r;

    if (!json_is_array(json_object_get(body, "choices")) && !json_object_get(body, "error") &&
        !json_is_array(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON that is no completion");
    r = take_body(d, body, "message", err);
    d->is_whole = r == 0;
    return r;
}

const struct llm_provider llm_openai = {
    .name = "openai",
    .configure = configure,
    .possible_quirks = LLM_NO_STREAM_OPTIONS | LLM_COMPLETION_TOKENS | LLM_NO_MAX_TOKENS |
                       LLM_EFFORT_NONE | LLM_NO_EFFORT | LLM_NO_ECHO | LLM_FILL_REASONING |
                       LLM_FILL_SIGNATURE | LLM_NO_TOOL_CHOICE | LLM_NO_IMAGES | LLM_TEXT_CONTENT |
                       LLM_RESPONSES,
    .headers = headers,
    .request = request,
    .event = event,
    .whole = whole,
    .keep = keep,
};
