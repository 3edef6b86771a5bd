/*
 * Earlier turns as a model is told of them: its own calls of tools and what they answered,
 * shortened, as real calls. A turn that no model answered (SQL:, PYTHON:, the planner) is told as
 * the call that would have done the same.
 */

#include <stdio.h>
#include <string.h>
#include "agent/tools.h"
#include "base/str.h"

#define STEPS_MAX 8 /* replies with calls of one turn */
#define CALLS_MAX 4 /* of one reply */
#define ARGUMENT_MAX_BYTES 1500
#define ANSWER_MAX_BYTES 1200
#define KEPT_MAX_BYTES 24000 /* of a reply, that its server wants back in later turns */

#define REMEMBERED_BYTES (32u << 10) /* of a message, for the turns after it: code may be longer */

static json_t *cut_text(const char *s, size_t max)
{
    size_t len = strlen(s), cut = str_utf8_cut(s, len, max);
    auto_free char *shorter = NULL;
    if (cut == len || asprintf(&shorter, "%.*s… (shortened)", (int)cut, s) < 0)
        return json_text(s, cut);
    return json_text(shorter, strlen(shorter));
}

/* Arguments stay an object, whatever has to be cut. */
static json_t *cut_arguments(const char *arguments)
{
    json_t *o = NULL, *v;
    const char *key;
    void *next;
    if (json_parse(arguments, strlen(arguments), &o, NULL) < 0 || !json_is_object(o)) {
        json_decref(o);
        return json_pack("{s:o}", "unreadable", cut_text(arguments, ARGUMENT_MAX_BYTES));
    }
    json_object_foreach_safe(o, next, key, v)
        if (json_is_string(v) && json_string_length(v) > ARGUMENT_MAX_BYTES)
            json_object_set_new(o, key, cut_text(json_string_value(v), ARGUMENT_MAX_BYTES));
    return o;
}

void history_add_reply(struct turn *t, const struct llm_reply *reply)
{
    if (!t->transcript)
        t->transcript = json_array();
    json_t *calls = json_array(), *step = json_pack("{s:o}", "calls", calls);
    if (*reply->text)
        json_object_set_new(step, "text", cut_text(reply->text, ANSWER_MAX_BYTES));
    auto_free char *kept = reply->kept && llm_kept_lasts(reply->kept) ? json_to_str(reply->kept) :
                                                                        NULL;
    if (kept && strlen(kept) <= KEPT_MAX_BYTES)
        json_object_set(step, "kept", reply->kept);
    for (size_t i = 0; i < reply->n_calls; i++)
        json_array_append_new(calls,
                              json_pack("{s:s, s:o}", "name", reply->calls[i].name, "arguments",
                                        cut_arguments(reply->calls[i].arguments)));
    json_array_append_new(t->transcript, step);
}

void history_add_answer(struct turn *t, const char *text, bool is_error)
{
    json_t *step = json_array_get(t->transcript, json_array_size(t->transcript) - 1), *call;
    size_t i;
    json_array_foreach(json_object_get(step, "calls"), i, call) {
        if (json_object_get(call, "result"))
            continue;
        json_object_set_new(call, "result", cut_text(text, ANSWER_MAX_BYTES));
        if (is_error)
            json_object_set_new(call, "is_error", json_true());
        return;
    }
}

/* The newest steps, each with calls that were answered. */
static json_t *newest(const json_t *transcript)
{
    size_t n = json_array_size(transcript), i, k;
    json_t *out = json_array(), *call;
    for (i = n > STEPS_MAX ? n - STEPS_MAX : 0; i < n; i++) {
        auto_json json_t *step = json_deep_copy(json_array_get(transcript, i));
        json_t *calls = json_object_get(step, "calls");
        size_t before = json_array_size(calls);
        for (k = before; k > 0; k--) {
            call = json_array_get(calls, k - 1);
            if (k > CALLS_MAX || !json_object_get(call, "result"))
                json_array_remove(calls, k - 1);
        }
        if (json_array_size(calls) < before)
            json_object_del(step, "kept"); /* it belongs to all of them */
        if (json_array_size(calls) > 0)
            json_array_append(out, step);
    }
    return out;
}

json_t *history_of(const struct turn *t)
{
    auto_buf struct buf text = BUF_INIT(64u << 10);
    const char *code = t->python ? t->python : t->sql;
    struct err ignored = ERR_INIT;
    if (t->transcript)
        return newest(t->transcript);
    if (!code || !t->result)
        return NULL;
    (void)tools_result_text(NULL, t->result, t->files, &text, &ignored);
    bool failed = !json_is_null(json_object_get(t->result, "error"));
    return json_pack("[{s:[{s:s, s:{s:o}, s:o, s:b}]}]", "calls", "name",
                     t->python ? "run_python" : "run_sql", "arguments", t->python ? "code" : "sql",
                     cut_text(code, ARGUMENT_MAX_BYTES), "result",
                     cut_text(buf_cstr(&text), ANSWER_MAX_BYTES), "is_error", failed);
}

static bool is_free(size_t n, size_t max, size_t wanted)
{
    return n + wanted <= max;
}

size_t history_messages(struct turn *t, const json_t *entry, size_t number, struct llm_message *ret,
                        size_t max)
{
    const char *content = json_string_value(json_object_get(entry, "content"));
    size_t i, k, n = 0;
    json_t *step, *call;
    json_array_foreach(json_object_get(entry, "calls"), i, step) {
        const json_t *list = json_object_get(step, "calls");
        size_t n_calls = json_array_size(list);
        struct llm_tool_call *calls = arena_alloc(&t->arena, (n_calls + 1) * sizeof(*calls));
        if (!calls || n_calls == 0 || !is_free(n, max, n_calls + 2))
            break;
        struct llm_message own = { .role = LLM_ASSISTANT,
                                   .content = json_string_value(json_object_get(step, "text")),
                                   .calls = calls,
                                   .n_calls = n_calls,
                                   .kept = json_object_get(step, "kept") };
        ret[n++] = own;
        json_array_foreach(list, k, call) {
            auto_free char *arguments = json_to_str(json_object_get(call, "arguments"));
            /* Nine letters and digits: one maker takes no other ids. */
            calls[k] = (struct llm_tool_call){
                .id = arena_printf(&t->arena, "h%03zu%02zu%03zu", number % 1000, i % 100, k),
                .name = json_string_value(json_object_get(call, "name")),
                .arguments = arena_strdup(&t->arena, arguments ? arguments : "{}")
            };
            if (!calls[k].id || !calls[k].arguments || !calls[k].name)
                return 0;
            ret[n++] = (struct llm_message){
                .role = LLM_TOOL,
                .tool_call_id = calls[k].id,
                .content = json_string_value(json_object_get(call, "result")),
                .is_error = json_is_true(json_object_get(call, "is_error"))
            };
        }
    }
    if (is_free(n, max, 1))
        ret[n++] = (struct llm_message){ .role = LLM_ASSISTANT,
                                         .content = content && *content ? content : "(nothing)" };
    return n;
}

/* ---- what a chat remembers ---- */

json_t *history_entry(const char *role, const char *content, const json_t *calls)
{
    size_t cut = str_utf8_cut(content, strlen(content), REMEMBERED_BYTES);
    return json_pack("{s:s, s:o, s:O*}", "role", role, "content", json_text(content, cut), "calls",
                     calls);
}

int history_make(const struct store_query *query, struct store_page *page, struct err *err)
{
    json_t *messages = json_array(), *plan = NULL;
    bool told = false, had_python = false;
    (void)query;
    for (size_t i = 0; i < page->n; i++) {
        const struct message *m = &page->messages[i];
        auto_json json_t *meta = NULL;
        if (m->metadata_json)
            (void)json_parse(m->metadata_json, strlen(m->metadata_json), &meta, NULL);
        if (m->role && m->content)
            json_array_append_new(messages, history_entry(m->role, m->content,
                                                          json_object_get(meta, "calls")));
        if (json_is_true(json_object_get(meta, "state_lost"))) {
            told = true;
            had_python = false;
        }
        if (str_eq(json_string_value(json_object_get(meta, "query_mode")), "python"))
            had_python = true;
        json_t *newer = str_eq(m->role, "assistant") ? json_object_get(meta, "plan") : NULL;
        if (newer) {
            json_decref(plan);
            plan = json_incref(newer);
        }
    }
    page->value = json_pack("{s:o, s:b, s:b, s:o*}", "messages", messages, "told", told,
                            "had_python", had_python, "plan", plan);
    return page->value ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
}
