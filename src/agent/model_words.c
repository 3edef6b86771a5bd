/*
 * The words of a model on their way to the person. They go out as they come, except behind a figure
 * that is in no result, in nothing that was said before and in nothing that the model was shown:
 * from there on they wait until the reply is whole, so that the model can be asked to compute the
 * figure or to leave it out before the person sees it. Only a figure whose end has not come yet
 * delays what is right.
 */

#include <ctype.h>
#include <string.h>
#include "agent/model_impl.h"
#include "base/str.h"

/*
 * What may be quoted: the results, and every text that the model was given, but not its own words
 * in this turn.
 */
static struct claims *open_claims(struct turn *t)
{
    struct model_talk *talk = t->talk;
    size_t n = json_array_size(t->results), n_texts = 0;
    const json_t **results = arena_alloc(&t->arena, (n + 1) * sizeof(*results));
    const char **texts = arena_alloc(&t->arena, (talk->n_messages + 2) * sizeof(*texts));
    if (!results || !texts)
        return NULL;
    for (size_t i = 0; i < n; i++)
        results[i] = json_array_get(t->results, i);
    texts[n_texts++] = t->message;
    for (size_t i = 0; i < talk->n_messages; i++)
        if (i <= talk->n_history || talk->messages[i].role == LLM_TOOL)
            texts[n_texts++] = talk->messages[i].content;
    texts[n_texts++] = talk->system;
    return claims_open(results, n, texts, n_texts);
}

json_t *words_unfounded(struct turn *t, const char *text)
{
    struct claims *c = open_claims(t);
    json_t *list = c ? claims_check(c, text) : NULL;
    claims_close(c);
    return list;
}

static void say(struct turn *t, const char *text, size_t len)
{
    struct model_talk *talk = t->talk;
    if (len == 0)
        return;
    if (talk->new_paragraph)
        turn_say(t, "token", json_pack("{s:s}", "text", "\n\n"));
    talk->new_paragraph = false;
    talk->said_something = t->streamed = true;
    turn_say(t, "token", json_pack("{s:o}", "text", json_text(text, len)));
}

/*
 * How far the text can be judged: a figure is only known with the word behind it ("12 million",
 * "3rd").
 */
static size_t judged_end(const char *s, size_t len)
{
    size_t last = len;
    while (last > 0 && !isdigit((unsigned char)s[last - 1]))
        last--;
    if (last == 0)
        return len;
    size_t spaces = 0, at = last;
    for (; at < len && spaces < 2; at++) {
        if (s[at] == '\n')
            return len;
        spaces += isspace((unsigned char)s[at]) && at > last && !isspace((unsigned char)s[at - 1]) ?
                      1 :
                      at == last && isspace((unsigned char)s[at]);
    }
    if (spaces >= 2)
        return len;
    while (last > 0 && !isspace((unsigned char)s[last - 1]))
        last--;
    return last;
}

void words_hear(struct turn *t, const char *text, size_t len)
{
    struct model_talk *talk = t->talk;
    struct err ignored = ERR_INIT;
    if (buf_append(&talk->heard, text, len, &ignored) < 0 || talk->withheld)
        return;
    size_t end = judged_end(talk->heard.data, talk->heard.len);
    if (talk->sent == 0 && talk->heard.data[strspn(talk->heard.data, " \t\r\n")] == '{')
        return; /* an object may have the words, or code, inside it */
    if (end <= talk->sent)
        return;
    bool figures = false;
    for (size_t i = talk->sent; i < end && !figures; i++)
        figures = isdigit((unsigned char)talk->heard.data[i]);
    if (figures) {
        if (!talk->claims)
            talk->claims = open_claims(t);
        auto_free char *so_far = strndup(talk->heard.data, end);
        auto_json json_t *unfounded = talk->claims && so_far ? claims_check(talk->claims, so_far) :
                                                               NULL;
        if (json_array_size(unfounded)) {
            talk->withheld = true;
            return;
        }
    }
    say(t, talk->heard.data + talk->sent, end - talk->sent);
    talk->sent = end;
}

void words_release(struct turn *t)
{
    struct model_talk *talk = t->talk;
    say(t, buf_cstr(&talk->heard) + talk->sent, talk->heard.len - talk->sent);
    talk->sent = talk->heard.len;
}

void words_forget(struct turn *t)
{
    struct model_talk *talk = t->talk;
    buf_clear(&talk->heard);
    talk->sent = 0;
    talk->withheld = false;
    claims_close(TAKE_PTR(talk->claims));
}
