/* The draft of a reply: what the events of a stream have said so far, bounded in every part. */

#include "llm/llm_impl.h"

#include <stdio.h>
#include <string.h>
#include "base/str.h"

void llm_draft_init(struct llm_draft *d)
{
    memset(d, 0, sizeof(*d));
    buf_init(&d->text, LLM_TEXT_MAX);
    buf_init(&d->thinking, LLM_THINKING_MAX);
    buf_init(&d->pending, LLM_TEXT_MAX + 4096);
}

void llm_draft_finish(struct llm_draft *d)
{
    buf_finish(&d->text);
    buf_finish(&d->thinking);
    buf_finish(&d->pending);
    for (size_t i = 0; i < d->n_calls; i++) {
        buf_finish(&d->calls[i].id);
        buf_finish(&d->calls[i].name);
        buf_finish(&d->calls[i].arguments);
        json_decref(d->calls[i].kept);
    }
    d->n_calls = 0;
    json_decref(TAKE_PTR(d->kept));
}

void llm_draft_clear(struct llm_draft *d)
{
    struct llm_draft old = *d;

    llm_draft_finish(d);
    llm_draft_init(d);
    d->secret = old.secret;
    d->token = old.token;
    d->thought = old.thought;
    d->token_arg = old.token_arg;
    d->tools = old.tools;
    d->n_tools = old.n_tools;
}

/* Appends; past the limit, what the thing is that is too large. */
static int add(struct buf *b, const char *text, size_t len, const char *what, struct err *err)
{
    struct err why = ERR_INIT;
    int r = buf_append(b, text, len, &why);

    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the %s of the model's reply is larger than the limit of %zu bytes", what,
                       b->max_bytes);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

int llm_draft_text(struct llm_draft *d, const char *text, size_t len, struct err *err)
{
    return len == 0 ? 0 : llm_filter(d, text, len, err);
}

int llm_draft_thought(struct llm_draft *d, const char *text, size_t len, struct err *err)
{
    struct err ignored = ERR_INIT;

    (void)err;
    if (len == 0)
        return 0;
    /* what does not fit is told all the same */
    (void)buf_append(&d->thinking, text, len, &ignored);
    return d->thought && d->thought(d->token_arg, text, len) != 0 ? 1 : 0;
}

bool llm_draft_is_tool(const struct llm_draft *d, const char *name)
{
    for (size_t i = 0; i < d->n_tools; i++)
        if (str_eq(d->tools[i].name, name))
            return true;
    return false;
}

int llm_draft_keeps(struct llm_draft *d, size_t len, struct err *err)
{
    d->kept_bytes += len;
    if (d->kept_bytes > LLM_KEPT_MAX)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's reply has more than %u bytes that its server wants back",
                       LLM_KEPT_MAX);
    return 0;
}

int llm_draft_emit(struct llm_draft *d, const char *text, size_t len, struct err *err)
{
    int r;

    if (len == 0)
        return 0;
    r = add(&d->text, text, len, "text", err);
    if (r < 0)
        return r;
    return d->token && d->token(d->token_arg, text, len) != 0 ? 1 : 0;
}

int llm_draft_add_call(struct llm_draft *d, long long index, const char *id, const char *name,
                       struct llm_draft_call **ret, struct err *err)
{
    struct llm_draft_call *c;
    int r;

    if (d->n_calls == LLM_CALLS_MAX)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the model's reply calls tools more than %d times", LLM_CALLS_MAX);
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
        return 0; /* null, or nothing */
    r = json_write(value, &c->arguments, &why);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_LLM_BAD_RESPONSE,
                       "the arguments of a call are larger than the limit of %u bytes",
                       LLM_TEXT_MAX);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

/* Bytes of the JSON object that the text begins with; 0 when it does not begin with a whole one. */
static size_t object_length(const char *s, size_t len)
{
    size_t depth = 0, i = strspn(s, " \t\r\n");
    bool in_string = false;

    if (i >= len || s[i] != '{')
        return 0;
    for (; i < len; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '{') {
            depth++;
        } else if (s[i] == '}' && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/*
 * "run_sqllist_files" for two calls: the name at the front that is a tool's, the longest of
 * several.
 */
static size_t front_name(const struct llm_draft *d, const char *s)
{
    size_t best = 0;

    for (size_t i = 0; i < d->n_tools; i++)
        if (str_starts(s, d->tools[i].name))
            best = MAX_OF(best, strlen(d->tools[i].name));
    return best;
}

/*
 * A server that counts every call as the same one has joined their arguments, "{…}{…}": each object
 * is a call.
 */
static int split_call(struct llm_draft *d, size_t at, struct err *err)
{
    struct llm_draft_call *c = &d->calls[at], *more;
    size_t n = object_length(buf_cstr(&c->arguments), c->arguments.len);
    size_t rest = n + strspn(buf_cstr(&c->arguments) + n, " \t\r\n,;");
    char name[LLM_NAME_MAX + 1];
    size_t front = llm_draft_is_tool(d, buf_cstr(&c->name)) ? 0 : front_name(d, buf_cstr(&c->name));
    int r;

    if (n == 0 || rest >= c->arguments.len || c->arguments.data[rest] != '{')
        return 0;
    snprintf(name, sizeof(name), "%s", buf_cstr(&c->name) + front);
    r = llm_draft_add_call(d, (long long)d->n_calls, "", *name ? name : buf_cstr(&c->name), &more,
                           err);
    if (r == 0)
        r = llm_draft_arguments(more, c->arguments.data + rest, c->arguments.len - rest, err);
    if (r < 0)
        return r;
    c->arguments.len = n;
    c->arguments.data[n] = '\0';
    if (front > 0 && front < c->name.len) {
        c->name.len = front;
        c->name.data[front] = '\0';
    }
    return 0;
}

int llm_draft_close(struct llm_draft *d, struct err *err)
{
    int r = llm_filter_end(d, err);

    if (r != 0)
        return r;
    for (size_t i = 0; i < d->n_calls; i++) {
        struct llm_draft_call *c = &d->calls[i];

        if (c->name.len == 0)
            return err_set(err, ERR_LLM_BAD_RESPONSE,
                           "the model's reply calls a tool without naming it");
        r = split_call(d, i, err);
        /* some servers give none, but an answer has to name one; one maker wants nine letters */
        if (r == 0 && c->id.len == 0)
            r = buf_printf(&c->id, err, "call%05zu", i + 1);
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

/* ---- small things ---- */

void llm_target_finish(struct llm_target *t)
{
    if (t->key)
        explicit_bzero(t->key, strlen(t->key));
    free(t->key);
    free(t->model);
    free(t->url);
    free(t->responses_url);
    t->key = t->model = t->url = t->responses_url = NULL;
}

int llm_target_fill(struct llm_target *t, const char *key, const char *model, char *taken_url,
                    struct err *err)
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
    size_t len = strcspn(base, "?#"), n = strlen(optional);
    const char *query = base + len;
    char *url = NULL;

    while (len > 0 && base[len - 1] == '/')
        len--;
    if (n > 0 && len >= n && memcmp(base + len - n, optional, n) == 0)
        len -= n;
    if (asprintf(&url, "%.*s%s%s%s", (int)len, base, optional, path, query) < 0)
        return NULL;
    return url;
}

json_t *llm_arguments(const char *arguments)
{
    json_t *input = NULL;

    if (llm_json_read(arguments, strlen(arguments), &input, NULL) == 0 && json_is_object(input))
        return input;
    json_decref(input);
    return json_pack("{s:o}", "unreadable", json_text(arguments, strlen(arguments)));
}

int64_t llm_count(const json_t *obj, const char *key, int64_t dflt)
{
    const json_t *v = json_object_get(obj, key);
    json_int_t n = json_integer_value(v);

    return json_is_integer(v) && n >= 0 && n <= 1000000000000 ? (int64_t)n : dflt;
}
