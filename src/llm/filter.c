/*
 * What a model writes as text is not all meant for the person. The filter takes out, as the text
 * comes and however it is cut:
 *
 *   thinking    <think>…</think> at the beginning of the text or of a line (servers without a parser for it): told as thinking
 *   tool calls  JSON, a fence or a tag that may be a call: held back until the reply is whole, then taken by text_calls.c or told after all
 *
 * Only what is not decided yet waits in `pending`: some bytes of a tag, or a call.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *open, *close;
} thoughts[] = { { "<think>", "</think>" },
                 { "<thinking>", "</thinking>" },
                 { "<thought>", "</thought>" } };

static const char *const call_tags[] = { "<tool_call>",     "<tool_calls>",
                                         "<function_call>", "<function=",
                                         "<|python_tag|>",  "<|tool_call",
                                         "[TOOL_CALLS]",    "<|tool_calls_section_begin|>" };

enum match { MATCH_NO, MATCH_MAYBE, MATCH_YES };

static enum match matches(const char *s, size_t len, const char *tag)
{
    size_t n = strlen(tag);

    if (len >= n)
        return memcmp(s, tag, n) == 0 ? MATCH_YES : MATCH_NO;
    return memcmp(s, tag, len) == 0 ? MATCH_MAYBE : MATCH_NO;
}

static enum match match_thought(const char *s, size_t len, size_t *ret)
{
    enum match best = MATCH_NO;

    for (size_t i = 0; i < ARRAY_SIZE(thoughts); i++) {
        enum match m = matches(s, len, thoughts[i].open);

        if (m == MATCH_YES) {
            *ret = i;
            return m;
        }
        best = m == MATCH_MAYBE ? m : best;
    }
    return best;
}

static enum match match_call_tag(const char *s, size_t len)
{
    enum match best = MATCH_NO;

    for (size_t i = 0; i < ARRAY_SIZE(call_tags); i++) {
        enum match m = matches(s, len, call_tags[i]);

        if (m == MATCH_YES)
            return m;
        best = m == MATCH_MAYBE ? m : best;
    }
    return best;
}

/* The first character behind white space; 0 when there is none yet. */
static char next_sign(const char *s, size_t len, size_t at)
{
    while (at < len && isspace((unsigned char)s[at]))
        at++;
    return at < len ? s[at] : '\0';
}

/*
 * Whether a reply that begins like this may be nothing but a call: {"…, [{…, or a fence around one.
 */
static enum match match_call(const char *s, size_t len)
{
    enum match tag = match_call_tag(s, len);
    size_t at = 3;
    char c;

    if (tag == MATCH_YES)
        return tag;
    if (s[0] == '{' || s[0] == '[') {
        c = next_sign(s, len, 1);
        if (c == '\0')
            return MATCH_MAYBE;
        return c == (s[0] == '{' ? '"' : '{') ? MATCH_YES : tag;
    }
    if (matches(s, len, "```") == MATCH_YES) {
        while (at < len && (isalpha((unsigned char)s[at]) || s[at] == '_'))
            at++;
        c = next_sign(s, len, at);
        return c == '\0' ? MATCH_MAYBE : c == '{' || c == '[' || c == '<' ? MATCH_YES : MATCH_NO;
    }
    return matches(s, len, "```") == MATCH_MAYBE ? MATCH_MAYBE : tag;
}

static int emit(struct llm_draft *d, size_t n, struct err *err)
{
    int r;

    if (n == 0)
        return 0;
    d->mid_line = d->pending.data[n - 1] != '\n';
    r = llm_draft_emit(d, d->pending.data, n, err);
    buf_consume(&d->pending, n);
    return r;
}

static void think_from(struct llm_draft *d, size_t at, size_t kind)
{
    buf_consume(&d->pending, at + strlen(thoughts[kind].open));
    d->close = thoughts[kind].close;
    d->state = LLM_FILTER_THINKING;
}

/* Each step does what it can with `pending`. True when there may be more to do in another state. */
static bool step_start(struct llm_draft *d, int *ret, struct err *err)
{
    const char *s = buf_cstr(&d->pending);
    size_t at = strspn(s, " \t\r\n"), kind = 0, len = d->pending.len;
    enum match thought, call;

    if (at == len)
        return false;
    thought = match_thought(s + at, len - at, &kind);
    call = d->n_tools > 0 ? match_call(s + at, len - at) : MATCH_NO;
    if (thought == MATCH_YES) {
        think_from(d, at, kind);
        return true;
    }
    if (call == MATCH_YES) {
        d->state = LLM_FILTER_HELD;
        return false;
    }
    if (thought == MATCH_MAYBE || call == MATCH_MAYBE)
        return false;
    if (d->after_thinking)
        buf_consume(&d->pending, at); /* the line breaks behind </think> */
    d->state = LLM_FILTER_TEXT;
    (void)ret;
    (void)err;
    return true;
}

static bool step_text(struct llm_draft *d, int *ret, struct err *err)
{
    const char *s = buf_cstr(&d->pending);
    size_t len = d->pending.len, kind = 0;

    for (size_t at = 0; at < len; at++) {
        bool at_line = at == 0 ? !d->mid_line : s[at - 1] == '\n';
        enum match thought, call;

        if (s[at] != '<' && s[at] != '[')
            continue;
        thought = at_line ? match_thought(s + at, len - at, &kind) : MATCH_NO;
        call = d->n_tools > 0 ? match_call_tag(s + at, len - at) : MATCH_NO;
        if (thought == MATCH_NO && call == MATCH_NO)
            continue;
        *ret = emit(d, at, err);
        if (*ret != 0)
            return false;
        if (thought == MATCH_YES) {
            think_from(d, 0, kind);
            return true;
        }
        if (call == MATCH_YES)
            d->state = LLM_FILTER_HELD;
        return false;
    }
    *ret = emit(d, len, err);
    return false;
}

static bool step_thinking(struct llm_draft *d, int *ret, struct err *err)
{
    const char *s = buf_cstr(&d->pending),
               *end = memmem(s, d->pending.len, d->close, strlen(d->close));
    size_t n = end ? (size_t)(end - s) : d->pending.len, keep = 0;

    if (!end) { /* the end of what came may be the beginning of the tag */
        for (keep = MIN_OF(strlen(d->close) - 1, n);
             keep > 0 && memcmp(s + n - keep, d->close, keep) != 0; keep--)
            ;
        n -= keep;
    }
    *ret = llm_draft_thought(d, s, n, err);
    buf_consume(&d->pending, n + (end ? strlen(d->close) : 0));
    if (*ret != 0 || !end)
        return false;
    d->state = LLM_FILTER_START;
    d->after_thinking = true;
    d->mid_line = false;
    return true;
}

int llm_filter(struct llm_draft *d, const char *text, size_t len, struct err *err)
{
    struct err why = ERR_INIT;
    bool more = true;
    int r;

    if (d->state == LLM_FILTER_TEXT && d->pending.len == 0 && !memchr(text, '<', len) &&
        !memchr(text, '[', len)) {
        d->mid_line = text[len - 1] != '\n';
        return llm_draft_emit(d, text, len, err);
    }
    r = buf_append(&d->pending, text, len, &why);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the text of the model's reply is larger than the limit of %u bytes",
                       LLM_TEXT_MAX);
    if (r < 0)
        return err_set(err, why.code, "%s", why.message);
    while (more && r == 0) {
        switch (d->state) {
        case LLM_FILTER_START:
            more = step_start(d, &r, err);
            break;
        case LLM_FILTER_TEXT:
            more = step_text(d, &r, err);
            break;
        case LLM_FILTER_THINKING:
            more = step_thinking(d, &r, err);
            break;
        case LLM_FILTER_HELD:
            more = false;
            break;
        }
    }
    return r;
}

int llm_filter_end(struct llm_draft *d, struct err *err)
{
    int r = 0;

    if (d->pending.len == 0)
        return 0;
    if (d->state == LLM_FILTER_THINKING) {
        r = llm_draft_thought(d, d->pending.data, d->pending.len, err);
        buf_clear(&d->pending);
    } else if (d->state == LLM_FILTER_HELD && d->n_calls == 0 &&
               llm_text_calls(d, d->pending.data, d->pending.len)) {
        d->calls_from_text = true;
        buf_clear(&d->pending);
    } else {
        if (d->after_thinking && d->state == LLM_FILTER_START)
            buf_consume(&d->pending, strspn(buf_cstr(&d->pending), " \t\r\n"));
        r = emit(d, d->pending.len, err);
    }
    return r;
}
