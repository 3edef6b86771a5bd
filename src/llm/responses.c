/*
 * OpenAI's Responses API: a conversation is a list of items (messages, reasoning, calls of
 * functions and their outputs), and so is the reply. Nothing is stored there: the items of a reply,
 * reasoning in its encrypted form among them, are sent back with the next request of the turn.
 */

#include "llm/llm_impl.h"

#include <string.h>
#include "base/str.h"

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    int r = llm_openai.configure(cfg, ret, err);
    char *chat;

    if (r < 0)
        return r;
    chat = ret->url; /* one owner each: the request's URL is this one from the start */
    ret->url = ret->responses_url;
    ret->responses_url = NULL;
    free(chat);
    return 0;
}

static size_t headers(const struct llm_target *t, struct buf *scratch,
                      struct client_header ret[LLM_HEADERS_MAX])
{
    return llm_openai.headers(t, scratch, ret);
}

/* ---- request ---- */

static json_t *text(const char *s)
{
    return json_text(s ? s : "", s ? strlen(s) : 0);
}

static void add_calls(json_t *input, const struct llm_message *m)
{
    for (size_t i = 0; i < m->n_calls; i++) {
        const struct llm_tool_call *c = &m->calls[i];
        auto_json json_t *arguments = llm_arguments(c->arguments);
        auto_free char *written = json_to_str(arguments);

        json_array_append_new(input, json_pack("{s:s, s:o, s:o, s:o}", "type", "function_call",
                                               "call_id", text(c->id), "name", text(c->name),
                                               "arguments", text(written ? written : "{}")));
    }
}

static void add_output(json_t *input, const struct llm_message *m, unsigned quirks)
{
    json_t *output = text(m->content);

    if (m->n_images > 0 && !(quirks & LLM_NO_IMAGES)) {
        output = json_pack("[{s:s, s:o}]", "type", "input_text", "text", output);
        for (size_t i = 0; i < m->n_images; i++)
            json_array_append_new(output,
                                  json_pack("{s:s, s:o}", "type", "input_image", "image_url",
                                            json_sprintf("data:%s;base64,%s", m->images[i].type,
                                                         m->images[i].base64)));
    }
    json_array_append_new(input, json_pack("{s:s, s:o, s:o}", "type", "function_call_output",
                                           "call_id", text(m->tool_call_id), "output", output));
}

static void add_message(json_t *input, const struct llm_message *m, unsigned quirks)
{
    if (m->role == LLM_TOOL) {
        add_output(input, m, quirks);
        return;
    }
    if (m->role == LLM_ASSISTANT && json_array_size(m->kept) > 0 && !(quirks & LLM_NO_ECHO)) {
        json_array_extend(input, (json_t *)(uintptr_t)m->kept);
        return;
    }
    if (m->content && *m->content)
        json_array_append_new(input, json_pack("{s:s, s:o}", "role",
                                               m->role == LLM_USER ? "user" : "assistant",
                                               "content", text(m->content)));
    add_calls(input, m);
}

static json_t *tools_json(const struct llm_request *req)
{
    json_t *list = json_array();

    for (size_t i = 0; i < req->n_tools; i++) {
        const struct llm_tool *t = &req->tools[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:o, s:o, s:b}", "type", "function", "name", text(t->name),
                      "description", text(t->description), "parameters",
                      t->parameters ? json_deep_copy(t->parameters) :
                                      json_pack("{s:s, s:{}}", "type", "object", "properties"),
                      "strict", 0));
    }
    return list;
}

static json_t *request(const struct llm_target *t, const struct llm_request *req, unsigned quirks)
{
    static const char *const choices[] = {
        [LLM_TOOLS_AUTO] = "auto", [LLM_TOOLS_NONE] = "none", [LLM_TOOLS_REQUIRED] = "required"
    };
    json_t *input = json_array();
    json_t *body = json_pack("{s:s, s:o, s:b, s:b}", "model", t->model, "input", input, "stream", 1,
                             "store", 0);
    int64_t max_tokens = req->max_tokens > 0 ? req->max_tokens : t->max_tokens;

    if (!body)
        return NULL;
    if (req->system && *req->system)
        json_object_set_new(body, "instructions", text(req->system));
    for (size_t i = 0; i < req->n_messages; i++)
        add_message(input, &req->messages[i], quirks);
    if (req->n_tools > 0) {
        json_object_set_new(body, "tools", tools_json(req));
        if (!(quirks & LLM_NO_TOOL_CHOICE))
            json_object_set_new(body, "tool_choice", json_string(choices[req->tool_choice]));
    }
    if (!(quirks & LLM_NO_ENCRYPTED))
        json_object_set_new(body, "include", json_pack("[s]", "reasoning.encrypted_content"));
    if (!(quirks & LLM_NO_EFFORT) && t->effort && *t->effort)
        json_object_set_new(body, "reasoning", json_pack("{s:s}", "effort", t->effort));
    if (!(quirks & LLM_NO_MAX_TOKENS))
        json_object_set_new(body, "max_output_tokens", json_integer(max_tokens));
    return body;
}

/* ---- reply ---- */

static int take_string(struct llm_draft *d, const json_t *s, struct err *err)
{
    return json_is_string(s) ? llm_draft_text(d, json_string_value(s), json_string_length(s), err) :
                               0;
}

static int think(struct llm_draft *d, const json_t *s, struct err *err)
{
    return json_is_string(s) ?
               llm_draft_thought(d, json_string_value(s), json_string_length(s), err) :
               0;
}

/* What is kept: [{"index", "item", "told"}]; told: its text came in pieces already. */
static json_t *entry_of(struct llm_draft *d, long long index)
{
    json_t *entry;
    size_t i;

    d->kept = d->kept ? d->kept : json_array();
    json_array_foreach(d->kept, i, entry)
        if (json_integer_value(json_object_get(entry, "index")) == index)
            return entry;
    entry = json_pack("{s:I}", "index", (json_int_t)index);
    json_array_append_new(d->kept, entry);
    return entry;
}

static int begin_call(struct llm_draft *d, long long index, const json_t *item,
                      struct llm_draft_call **ret, struct err *err)
{
    const char *id = json_string_value(json_object_get(item, "call_id")),
               *name = json_string_value(json_object_get(item, "name"));

    if (!id)
        id = json_string_value(json_object_get(item, "id"));
    return llm_draft_add_call(d, index, id ? id : "", name ? name : "", ret, err);
}

static int take_message(struct llm_draft *d, const json_t *item, struct err *err)
{
    json_t *part;
    size_t i;
    int r = 0;

    json_array_foreach(json_object_get(item, "content"), i, part) {
        const json_t *refusal = json_object_get(part, "refusal");

        if (r == 0)
            r = take_string(d, json_object_get(part, "text"), err);
        if (r == 0 && json_is_string(refusal)) {
            d->is_refusal = true;
            r = take_string(d, refusal, err);
        }
    }
    return r;
}

/* An item that is complete. */
static int take_item(struct llm_draft *d, long long index, const json_t *item, struct err *err)
{
    json_t *entry = entry_of(d, index);
    const char *type = json_string_value(json_object_get(item, "type"));
    bool told = json_is_true(json_object_get(entry, "told"));
    auto_free char *written = json_is_object(item) ? json_to_str(item) : NULL;
    struct llm_draft_call *c = llm_draft_find_call(d, index);
    json_t *part;
    size_t i;
    int r = llm_draft_keeps(d, written ? strlen(written) : 0, err);

    if (r < 0 || !type || json_object_get(entry, "item"))
        return r;
    json_object_set_new(entry, "item", json_deep_copy(item));
    if (str_eq(type, "message") && !told)
        return take_message(d, item, err);
    if (str_eq(type, "reasoning") && !told) {
        json_array_foreach(json_object_get(item, "summary"), i, part)
            if (r == 0)
                r = think(d, json_object_get(part, "text"), err);
        json_array_foreach(json_object_get(item, "content"), i, part)
            if (r == 0)
                r = think(d, json_object_get(part, "text"), err);
    }
    if (str_eq(type, "function_call")) {
        if (!c)
            r = begin_call(d, index, item, &c, err);
        if (r == 0 && c->arguments.len == 0)
            r = llm_draft_arguments_json(c, json_object_get(item, "arguments"), err);
    }
    return r;
}

static void take_end(struct llm_draft *d, const json_t *response)
{
    const json_t *usage = json_object_get(response, "usage");
    const char *status = json_string_value(json_object_get(response, "status"));
    const char *reason = json_string_value(
        json_object_get(json_object_get(response, "incomplete_details"), "reason"));

    d->has_stop = d->is_whole = true;
    d->stop = LLM_STOP_END;
    if (str_eq(reason, "content_filter"))
        d->stop = LLM_STOP_REFUSAL;
    else if (reason || str_eq(status, "incomplete"))
        d->stop = LLM_STOP_LENGTH;
    if (json_is_object(usage)) {
        d->input_tokens = llm_count(usage, "input_tokens", d->input_tokens);
        d->output_tokens = llm_count(usage, "output_tokens", d->output_tokens);
        d->cached_tokens = llm_count(json_object_get(usage, "input_tokens_details"),
                                     "cached_tokens", d->cached_tokens);
    }
}

/* A whole response; items that came before are not taken twice. */
static int take_response(struct llm_draft *d, const json_t *response, struct err *err)
{
    struct llm_complaint complaint;
    json_t *item;
    size_t i;
    int r = 0;

    if (llm_complaint_read(response, false, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    json_array_foreach(json_object_get(response, "output"), i, item)
        if (r == 0)
            r = take_item(d, (long long)i, item, err);
    if (r == 0)
        take_end(d, response);
    return r;
}

static int take_event(struct llm_draft *d, const char *type, const json_t *body, struct err *err)
{
    long long index = llm_count(body, "output_index", 0);
    const json_t *delta = json_object_get(body, "delta"), *item = json_object_get(body, "item");
    struct llm_draft_call *c;

    if (str_eq(type, "response.output_text.delta") || str_eq(type, "response.refusal.delta")) {
        json_object_set_new(entry_of(d, index), "told", json_true());
        d->is_refusal = d->is_refusal || str_eq(type, "response.refusal.delta");
        return take_string(d, delta, err);
    }
    if (str_eq(type, "response.reasoning_summary_text.delta") ||
        str_eq(type, "response.reasoning_text.delta")) {
        json_object_set_new(entry_of(d, index), "told", json_true());
        return think(d, delta, err);
    }
    if (str_eq(type, "response.output_item.added")) {
        if (str_eq(json_string_value(json_object_get(item, "type")), "function_call") &&
            !llm_draft_find_call(d, index))
            return begin_call(d, index, item, &c, err);
        return 0;
    }
    if (str_eq(type, "response.function_call_arguments.delta")) {
        c = llm_draft_find_call(d, index);
        return c && json_is_string(delta) ? llm_draft_arguments(c, json_string_value(delta),
                                                                json_string_length(delta), err) :
                                            0;
    }
    if (str_eq(type, "response.output_item.done"))
        return take_item(d, index, item, err);
    if (str_eq(type, "response.completed") || str_eq(type, "response.incomplete") ||
        str_eq(type, "response.failed")) {
        int r = take_response(d, json_object_get(body, "response"), err);

        return r == 0 ? 1 : r;
    }
    return 0;
}

static int event(struct llm_draft *d, const char *name, const char *data, size_t len,
                 struct err *err)
{
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;
    struct llm_complaint complaint;
    const char *type;

    if (len == 6 && memcmp(data, "[DONE]", 6) == 0)
        return d->has_stop;
    if (llm_json_read(data, len, &body, &why) < 0)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent an event that cannot be read: %s", why.message);
    if (!json_is_object(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON of type %s where an object is due",
                       json_type_name(body));
    if (llm_complaint_read(body, false, &complaint))
        return llm_complaint_err(&complaint, d->secret, err);
    type = json_string_value(json_object_get(body, "type"));
    return take_event(d, type ? type : name, body, err);
}

static int whole(struct llm_draft *d, const json_t *body, struct err *err)
{
    if (!json_is_array(json_object_get(body, "output")) && !json_object_get(body, "error") &&
        !json_is_array(body))
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's server sent JSON that is no response");
    return take_response(d, body, err);
}

/*
 * The items for the next request. Reasoning that did not come encrypted cannot be sent back, and
 * then no item may name itself: a call whose id is known is refused without its reasoning.
 */
static json_t *keep(struct llm_draft *d)
{
    json_t *list = json_array(), *entry, *copy;
    bool whole = true, has_reasoning = false;
    size_t i;

    json_array_foreach(d->kept, i, entry) {
        json_t *item = json_object_get(entry, "item");

        if (!item)
            continue;
        if (str_eq(json_string_value(json_object_get(item, "type")), "reasoning")) {
            if (!json_is_string(json_object_get(item, "encrypted_content"))) {
                whole = false;
                continue;
            }
            has_reasoning = true;
        }
        json_array_append(list, item);
    }
    if (!has_reasoning || d->calls_from_text) {
        json_decref(list); /* messages and calls are sent anyway */
        return NULL;
    }
    json_array_foreach(list, i, copy) {
        if (!whole)
            json_object_del(copy, "id");
    }
    return list;
}

const struct llm_provider llm_responses = {
    .name = "openai-responses",
    .configure = configure,
    .possible_quirks = LLM_NO_MAX_TOKENS | LLM_NO_EFFORT | LLM_NO_ECHO | LLM_NO_TOOL_CHOICE |
                       LLM_NO_IMAGES | LLM_NO_ENCRYPTED,
    .headers = headers,
    .request = request,
    .event = event,
    .whole = whole,
    .keep = keep,
};
