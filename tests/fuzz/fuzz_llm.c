/*
 * Fuzzes what a model's server sends: any bytes, as a stream of either protocol, become a reply
 * within its limits or an error with a reason, and how they are cut into pieces makes no
 * difference. As the body of an answer that is not streamed they are tried too.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "llm/llm_impl.h"
#include "llm/sse_read.h"

#define SECRET "sk-never-to-be-seen"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct llm_tool tools[] = { { .name = "run_sql" }, { .name = "f" } };

struct outcome {
    const struct llm_provider *provider;
    struct llm_draft draft;
    size_t told;
    int result;
    struct err err;
};

static int take_event(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct outcome *o = arg;

    if (data[len] != '\0')
        abort();
    return o->provider->event(&o->draft, event, data, len, err);
}

static int take_token(void *arg, const char *text, size_t len)
{
    struct outcome *o = arg;

    if (len == 0 || !str_is_utf8(text, len))
        abort();
    o->told += len;
    return 0;
}

static void begin(struct outcome *o, const struct llm_provider *p)
{
    *o = (struct outcome){ .provider = p, .err = ERR_INIT };
    llm_draft_init(&o->draft);
    o->draft.secret = SECRET;
    o->draft.tools = tools;
    o->draft.n_tools = ARRAY_SIZE(tools);
    o->draft.token = take_token;
    o->draft.token_arg = o;
}

static void check(struct outcome *o)
{
    const struct llm_draft *d = &o->draft;

    if (o->result >= 0)
        o->result = llm_draft_close(&o->draft, &o->err);
    if (o->result < 0 &&
        (o->err.code == ERR_NONE || o->err.message[0] == '\0' || strstr(o->err.message, SECRET)))
        abort();
    if (d->text.len > LLM_TEXT_MAX || d->n_calls > LLM_CALLS_MAX || o->told != d->text.len)
        abort();
    for (size_t i = 0; i < d->n_calls; i++) {
        const struct llm_draft_call *c = &d->calls[i];

        if (c->id.len > LLM_NAME_MAX || c->name.len > LLM_NAME_MAX ||
            c->arguments.len > LLM_TEXT_MAX)
            abort();
        if (o->result == 0 && (c->id.len == 0 || c->name.len == 0 || c->arguments.len == 0))
            abort();
    }
    if (d->input_tokens < 0 || d->output_tokens < 0 || d->stop >= _LLM_STOP_MAX)
        abort();
}

static void feed(struct outcome *o, const struct llm_provider *p, const char *data, size_t size,
                 size_t step)
{
    struct sse_reader reader;

    begin(o, p);
    sse_reader_init(&reader);
    for (size_t at = 0; at < size && o->result == 0; at += step)
        o->result = sse_read(&reader, data + at, MIN_OF(step, size - at), take_event, o, &o->err);
    sse_reader_finish(&reader);
    check(o);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
    if (a->result != b->result || strcmp(a->err.message, b->err.message) != 0 ||
        strcmp(buf_cstr(&a->draft.text), buf_cstr(&b->draft.text)) != 0 ||
        a->draft.n_calls != b->draft.n_calls || a->draft.stop != b->draft.stop ||
        a->draft.is_whole != b->draft.is_whole)
        abort();
    for (size_t i = 0; i < a->draft.n_calls; i++) {
        if (strcmp(buf_cstr(&a->draft.calls[i].arguments),
                   buf_cstr(&b->draft.calls[i].arguments)) != 0)
            abort();
    }
}

static void try_whole(const struct llm_provider *p, const char *data, size_t size)
{
    auto_json json_t *body = NULL;
    struct outcome o;

    if (json_parse(data, size, &body, NULL) < 0)
        return;
    begin(&o, p);
    o.result = p->whole(&o.draft, body, &o.err);
    check(&o);
    llm_draft_finish(&o.draft);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct llm_provider *const providers[] = { &llm_openai, &llm_anthropic };
    const char *text = (const char *)data;

    for (size_t i = 0; i < ARRAY_SIZE(providers); i++) {
        struct outcome at_once, pieces;

        feed(&at_once, providers[i], text, size, size ? size : 1);
        feed(&pieces, providers[i], text, size, size > 1 ? 1 + data[size / 2] % 17 : 1);
        compare(&at_once, &pieces);
        llm_draft_finish(&at_once.draft);
        llm_draft_finish(&pieces.draft);
        try_whole(providers[i], text, size);
    }
    return 0;
}
