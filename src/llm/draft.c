/* The draft of a reply: what the events of a stream have said so far, bounded in every part. */

#include "llm/llm_impl.h"

#include <stdio.h>
#include <string.h>
#include "base/str.h"

void llm_draft_init(struct llm_draft *d)
{
    memset(d, 0, sizeof(*d));
    buf_init(&d->text, LLM_TEXT_MAX);
}

void llm_draft_finish(struct llm_draft *d)
{
    buf_finish(&d->text);
    for (size_t i = 0; i < d->n_calls; i++) {
        buf_finish(&d->calls[i].id);
        buf_finish(&d->calls[i].name);
        buf_finish(&d->calls[i].arguments);
    }
    d->n_calls = 0;
}

void llm_draft_clear(struct llm_draft *d)
{
    int (*token)(void *arg, const char *text, size_t len) = d->token;
    void *token_arg = d->token_arg;
    const char *secret = d->secret;

    llm_draft_finish(d);
    llm_draft_init(d);
    d->secret = secret;
    d->token = token;
    d->token_arg = token_arg;
}

/* Appends; past the limit, what the thing is that is too large. */
static int add(struct buf *b, const char *text, size_t len, const char *what, struct err *err)
{
    struct err why = ERR_INIT;
    int r = buf_append(b, text, len, &why);

    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the %s of the model's reply is larger than the limit of %zu bytes", what,
                       b->max_bytes);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

int llm_draft_text(struct llm_draft *d, const char *text, size_t len, struct err *err)
{
    int r;

    if (len == 0)
        return 0;
    r = add(&d->text, text, len, "text", err);
    if (r < 0)
        return r;
    return d->token && d->token(d->token_arg, text, len) != 0 ? 1 : 0;
}

int llm_draft_add_call(struct llm_draft *d, long long index, const char *id, const char *name, struct llm_draft_call **ret,
                       struct err *err)
{
    struct llm_draft_call *c;
    int r;

    if (d->n_calls == LLM_CALLS_MAX)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's reply calls tools more than %d times", LLM_CALLS_MAX);
    c = &d->calls[d->n_calls++];
    *c = (struct llm_draft_call){ .index = index,
                                  .id = BUF_INIT(LLM_NAME_MAX),
                                  .name = BUF_INIT(LLM_NAME_MAX),
                                  .arguments = BUF_INIT(LLM_TEXT_MAX) };
    r = add(&c->id, id, strlen(id), "id of a call", err);
    if (r == 0)
        r = add(&c->name, name, strlen(name), "name of a tool", err);
    if (r == 0)
        *ret = c;
    return r;
}

struct llm_draft_call *llm_draft_find_call(struct llm_draft *d, long long index)
{
    for (size_t i = d->n_calls; i > 0; i--) {
        if (d->calls[i - 1].index == index)
            return &d->calls[i - 1];
    }
    return NULL;
}

int llm_draft_arguments(struct llm_draft_call *c, const char *text, size_t len, struct err *err)
{
    return len > 0 ? add(&c->arguments, text, len, "arguments of a call", err) : 0;
}

int llm_draft_arguments_json(struct llm_draft_call *c, const json_t *value, struct err *err)
{
    struct err why = ERR_INIT;
    int r;

    if (json_is_string(value))
        return llm_draft_arguments(c, json_string_value(value), json_string_length(value), err);
    if (!json_is_object(value))
        return 0;
    r = json_write(value, &c->arguments, &why);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_LLM_BAD_RESPONSE, "the arguments of a call are larger than the limit of %u bytes", LLM_TEXT_MAX);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

bool llm_draft_has_content(const struct llm_draft *d)
{
    return d->text.len > 0 || d->n_calls > 0;
}

int llm_draft_close(struct llm_draft *d, struct err *err)
{
    for (size_t i = 0; i < d->n_calls; i++) {
        struct llm_draft_call *c = &d->calls[i];
        int r = 0;

        if (c->name.len == 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE, "the model's reply calls a tool without naming it");
        if (c->id.len == 0) /* some servers give none, but an answer has to name one */
            r = buf_printf(&c->id, err, "call_%zu", i + 1);
        if (r == 0 && c->arguments.len == 0)
            r = buf_append_str(&c->arguments, "{}", err);
        if (r < 0)
            return r;
    }
    if (d->is_refusal)
        d->stop = LLM_STOP_REFUSAL;
    else if (d->n_calls > 0 && d->stop == LLM_STOP_END) /* some servers say "stop" here too */
        d->stop = LLM_STOP_TOOLS;
    else if (d->n_calls == 0 && d->stop == LLM_STOP_TOOLS)
        d->stop = LLM_STOP_END;
    return 0;
}

/* ---- what servers complain of ---- */

static const char *text_of(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));

    return s ? s : "";
}

bool llm_complaint_read(const json_t *body, struct llm_complaint *ret)
{
    const json_t *e = json_object_get(body, "error");

    if (json_is_string(e)) {
        *ret = (struct llm_complaint){ .message = json_string_value(e), .type = "", .code = "", .param = "" };
        return true;
    }
    if (!json_is_object(e)) {
        if (!str_eq(json_string_value(json_object_get(body, "object")), "error"))
            return false;
        e = body;
    }
    *ret = (struct llm_complaint){ .message = text_of(e, "message"),
                                   .type = text_of(e, "type"),
                                   .code = text_of(e, "code"),
                                   .param = text_of(e, "param") };
    return true;
}

/* Shorter ones are no secrets but words ("EMPTY", "ollama") that servers of one's own are given. */
#define SECRET_MIN 8

const char *llm_show(const char *text, const char *secret, char *ret, size_t n)
{
    size_t secret_len = secret ? strlen(secret) : 0;
    auto_buf struct buf clean = BUF_INIT(LLM_WHOLE_MAX);
    const char *hit;

    if (secret_len >= SECRET_MIN) {
        while ((hit = strstr(text, secret))) {
            if (buf_append(&clean, text, (size_t)(hit - text), NULL) < 0 || buf_append_str(&clean, "[key]", NULL) < 0)
                return str_show("(not shown)", 11, ret, n);
            text = hit + secret_len;
        }
    }
    if (buf_append_str(&clean, text, NULL) < 0)
        return str_show("(not shown)", 11, ret, n);
    return str_show(buf_cstr(&clean), clean.len, ret, n);
}

int llm_complaint_err(const struct llm_complaint *c, const char *secret, struct err *err)
{
    char message[400], type[64];
    const char *kinds[] = { c->type, c->code };
    enum err_code code = ERR_LLM_UNAVAILABLE;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (strstr(kinds[i], "rate_limit") || str_eq(kinds[i], "insufficient_quota"))
            code = ERR_LLM_RATE_LIMITED;
        else if (strstr(kinds[i], "invalid_request") || strstr(kinds[i], "authentication") || strstr(kinds[i], "permission") ||
                 strstr(kinds[i], "not_found"))
            code = ERR_LLM_REJECTED;
        else if (strstr(kinds[i], "timeout"))
            code = ERR_LLM_TIMEOUT;
    }
    llm_show(c->message, secret, message, sizeof(message));
    llm_show(c->type, secret, type, sizeof(type));
    return err_set(err, code, "the model's server reports an error%s%s%s: %s", *type ? " (" : "", type, *type ? ")" : "",
                   *message ? message : "no message");
}

/* ---- small things ---- */

void llm_target_finish(struct llm_target *t)
{
    if (t->key)
        explicit_bzero(t->key, strlen(t->key));
    free(t->key);
    free(t->model);
    free(t->url);
    t->key = t->model = t->url = NULL;
}

int llm_target_fill(struct llm_target *t, const char *key, const char *model, char *taken_url, struct err *err)
{
    t->url = taken_url;
    t->key = strdup(key);
    t->model = strdup(model);
    if (t->key && t->model && t->url)
        return 0;
    llm_target_finish(t);
    return err_set(err, ERR_NO_MEMORY, "out of memory for a model's settings");
}

char *llm_join_url(const char *base, const char *optional, const char *path)
{
    size_t len = strlen(base), n = strlen(optional);
    char *url = NULL;

    while (len > 0 && base[len - 1] == '/')
        len--;
    if (n > 0 && len >= n && memcmp(base + len - n, optional, n) == 0)
        len -= n;
    if (asprintf(&url, "%.*s%s%s", (int)len, base, optional, path) < 0)
        return NULL;
    return url;
}

int64_t llm_count(const json_t *obj, const char *key, int64_t dflt)
{
    const json_t *v = json_object_get(obj, key);
    json_int_t n = json_integer_value(v);

    return json_is_integer(v) && n >= 0 && n <= 1000000000000 ? (int64_t)n : dflt;
}
