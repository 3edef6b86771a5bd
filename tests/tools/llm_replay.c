/*
 * Reads recorded answers of models' servers as riddle does, for tests. One line of JSON on standard
 * input is one recording:
 *
 *   {"protocol": "openai|openai-responses|anthropic", "path": "…", "is_stream": true, "splits": 200, "tools": ["run_sql"]}
 *
 * A line of JSON comes back: text, thinking, calls, stop, kept and tokens, or error. A stream is
 * read whole, byte by byte, and cut in two at `splits` places (at every place when it is shorter
 * than that): "same" says that every way gave the same.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "llm/llm_impl.h"
#include "llm/sse_read.h"

#define FILE_MAX (64u << 20)
#define TOOLS_MAX 16

struct reading {
    const struct llm_provider *provider;
    struct llm_draft draft;
    struct buf tokens, thoughts;
};

static int on_event(void *arg, const char *event, const char *data, size_t len, struct err *err)
{
    struct reading *r = arg;

    return r->provider->event(&r->draft, event, data, len, err);
}

static int on_token(void *arg, const char *text, size_t len)
{
    struct reading *r = arg;

    return buf_append(&r->tokens, text, len, NULL) < 0;
}

static int on_thought(void *arg, const char *text, size_t len)
{
    struct reading *r = arg;

    return buf_append(&r->thoughts, text, len, NULL) < 0;
}

static json_t *outcome(struct reading *r, int code, const struct err *err)
{
    static const char *const stops[_LLM_STOP_MAX] = { "end",     "tools",    "length",
                                                      "refusal", "overflow", "bad_call" };
    struct llm_draft *d = &r->draft;
    json_t *calls = json_array(), *kept;

    if (code < 0) {
        json_decref(calls);
        return json_pack("{s:o}", "error", json_error(err));
    }
    kept = r->provider->keep(d);
    for (size_t i = 0; i < d->n_calls; i++)
        json_array_append_new(calls, json_pack("{s:s, s:s, s:s}", "id", buf_cstr(&d->calls[i].id),
                                               "name", buf_cstr(&d->calls[i].name), "arguments",
                                               buf_cstr(&d->calls[i].arguments)));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:I, s:I, s:o*}", "text", buf_cstr(&d->text),
                     "tokens", buf_cstr(&r->tokens), "thinking", buf_cstr(&d->thinking), "thoughts",
                     buf_cstr(&r->thoughts), "calls", calls, "stop", stops[d->stop], "input_tokens",
                     (json_int_t)d->input_tokens, "output_tokens", (json_int_t)d->output_tokens,
                     "kept", kept);
}

/* Pieces: [0, cut) and [cut, len), or of one byte each when cut is SIZE_MAX. */
static json_t *read_once(const struct llm_provider *p, const struct llm_tool *tools, size_t n_tools,
                         const struct buf *data, bool is_stream, size_t cut)
{
    struct reading r = { .provider = p,
                         .tokens = BUF_INIT(FILE_MAX),
                         .thoughts = BUF_INIT(FILE_MAX) };
    struct sse_reader reader;
    struct err err = ERR_INIT;
    json_t *ret;
    int code = 0;

    llm_draft_init(&r.draft);
    r.draft.token = on_token;
    r.draft.thought = on_thought;
    r.draft.token_arg = &r;
    r.draft.tools = tools;
    r.draft.n_tools = n_tools;
    sse_reader_init(&reader);
    if (is_stream) {
        for (size_t at = 0, n; at < data->len && code == 0; at += n) {
            n = cut == SIZE_MAX ? 1 : at < cut ? MIN_OF(cut, data->len) - at : data->len - at;
            code = sse_read(&reader, data->data + at, n, on_event, &r, &err);
        }
        if (code >= 0 && !r.draft.is_whole && !r.draft.has_stop)
            code = err_set(&err, ERR_LLM_UNAVAILABLE, "the model's stream was cut off");
    } else {
        auto_json json_t *body = NULL;

        code = llm_json_read(buf_cstr(data), data->len, &body, &err);
        if (code == 0)
            code = p->whole(&r.draft, body, &err);
    }
    if (code >= 0)
        code = llm_draft_close(&r.draft, &err);
    ret = outcome(&r, code, &err);
    sse_reader_finish(&reader);
    llm_draft_finish(&r.draft);
    buf_finish(&r.tokens);
    buf_finish(&r.thoughts);
    return ret;
}

static int read_file(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "rb");
    char piece[65536];
    size_t n;

    if (!f)
        return -1;
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        if (buf_append(b, piece, n, NULL) < 0)
            break;
    fclose(f);
    return 0;
}

static json_t *replay(const json_t *line)
{
    static const struct llm_provider *const providers[] = { &llm_openai, &llm_responses,
                                                            &llm_anthropic };
    const char *protocol = json_string_value(json_object_get(line, "protocol"));
    const struct llm_provider *p = NULL;
    auto_buf struct buf data = BUF_INIT(FILE_MAX);
    struct llm_tool tools[TOOLS_MAX] = { 0 };
    size_t n_tools = 0, splits = (size_t)json_integer_value(json_object_get(line, "splits")),
           tried = 0, i;
    bool is_stream = json_is_true(json_object_get(line, "is_stream")), same = true;
    json_t *name, *ret;

    for (i = 0; i < ARRAY_SIZE(providers); i++)
        if (str_eq(providers[i]->name, protocol))
            p = providers[i];
    json_array_foreach(json_object_get(line, "tools"), i, name)
        if (n_tools < TOOLS_MAX)
            tools[n_tools++].name = json_string_value(name);
    if (!p || read_file(json_string_value(json_object_get(line, "path")), &data) < 0)
        return json_pack("{s:s}", "failed", "no such protocol or file");
    ret = read_once(p, tools, n_tools, &data, is_stream, data.len);
    for (i = 0; is_stream && i <= splits; i++) {
        size_t cut = i == splits        ? SIZE_MAX :
                     data.len <= splits ? MIN_OF(i, data.len) :
                                          (size_t)((double)data.len * (double)i / (double)splits);
        auto_json json_t *other = read_once(p, tools, n_tools, &data, is_stream, cut);

        tried++;
        same = same && json_equal(ret, other);
    }
    json_object_set_new(ret, "same", json_boolean(same));
    json_object_set_new(ret, "tried", json_integer((json_int_t)tried));
    return ret;
}

int main(void)
{
    auto_free char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&line, &cap, stdin)) > 0) {
        auto_json json_t *req = NULL, *out = NULL;
        auto_free char *text = NULL;

        if (json_parse(line, (size_t)len, &req, NULL) < 0)
            return 2;
        out = replay(req);
        text = json_to_str(out);
        puts(text);
        fflush(stdout);
    }
    return 0;
}
