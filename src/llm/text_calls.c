/*
 * Tool calls that a model wrote as text, because its server has no parser for them or the model
 * forgot. Understood are
 *
 *   {"name": "run_sql", "arguments": {…}}           alone, in a list, several in a row, {"tool_calls": […]}, {"function": {…}}
 *   <tool_call>{…}</tool_call>, ```json {…} ```     around any of these
 *   <function=run_sql>{…}</function>                Llama
 *   <function=run_sql><parameter=sql>…</parameter>  Qwen
 *   [TOOL_CALLS]run_sql[ARGS]{…}                    Mistral
 *   functions.run_sql:0<|…|>{…}                     Kimi
 *
 * Every call must name a tool that was offered. Words beside the calls mean that the text is an
 * answer, unless a tag marks the call.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <string.h>
#include "base/str.h"

#define FOUND_MAX LLM_CALLS_MAX

struct found {
    char name[LLM_NAME_MAX];
    json_t *arguments;
};

struct reading {
    const struct llm_draft *d;
    struct found found[FOUND_MAX];
    size_t n;
    char named[LLM_NAME_MAX]; /* by a tag or a word: the arguments follow */
};

static bool add(struct reading *r, const char *name, json_t *taken_arguments)
{
    if (r->n == FOUND_MAX || !name || strlen(name) >= LLM_NAME_MAX ||
        !llm_draft_is_tool(r->d, name)) {
        json_decref(taken_arguments);
        return false;
    }
    strcpy(r->found[r->n].name, name);
    r->found[r->n++].arguments = taken_arguments ? taken_arguments : json_object();
    return true;
}

static json_t *first_of(const json_t *o, const char *const *names)
{
    for (; *names; names++) {
        json_t *v = json_object_get(o, *names);

        if (v && !json_is_null(v))
            return v;
    }
    return NULL;
}

/* Arguments may be an object, or JSON in a string. */
static json_t *arguments_of(const json_t *v)
{
    json_t *inner = NULL;

    if (json_is_string(v) &&
        llm_json_read(json_string_value(v), json_string_length(v), &inner, NULL) == 0 &&
        json_is_object(inner))
        return inner;
    json_decref(inner);
    return v ? json_deep_copy(v) : NULL;
}

static bool take_value(struct reading *r, const json_t *v, int depth)
{
    static const char *const names[] = { "name",     "tool",   "tool_name", "function_name",
                                         "function", "action", NULL },
                             *const args[] = { "arguments",  "parameters",   "args",   "input",
                                               "tool_input", "action_input", "params", NULL };
    const json_t *list = json_is_array(v) ? v : json_object_get(v, "tool_calls"), *name, *e;
    size_t i;

    if (depth > 4)
        return false;
    if (json_is_array(list)) {
        json_array_foreach(list, i, e)
            if (!take_value(r, e, depth + 1))
                return false;
        return json_array_size(list) > 0;
    }
    if (!json_is_object(v))
        return false;
    if (*r->named) {
        bool good = add(r, r->named, json_deep_copy(v));

        r->named[0] = '\0';
        return good;
    }
    if (json_is_object(json_object_get(v, "function")))
        return take_value(r, json_object_get(v, "function"), depth + 1);
    name = first_of(v, names);
    if (!json_is_string(name))
        return false;
    return add(r, json_string_value(name), arguments_of(first_of(v, args)));
}

/* Bytes of the JSON value at s; 0 when it does not end. */
static size_t value_length(const char *s, size_t len)
{
    size_t depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = s[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* The body of <function=…> as Qwen writes it. Bytes used; 0 when it is something else. */
static size_t take_parameters(struct reading *r, const char *s, size_t len)
{
    auto_json json_t *args = json_object();
    size_t at = 0;

    for (;;) {
        const char *name, *end, *close;

        while (at < len && isspace((unsigned char)s[at]))
            at++;
        if (len - at < 11 || memcmp(s + at, "<parameter=", 11) != 0)
            break;
        name = s + at + 11;
        end = memchr(name, '>', len - at - 11);
        close = end ? memmem(end, len - (size_t)(end - s), "</parameter>", 12) : NULL;
        if (!close)
            return 0;
        const char *from = end + 1, *to = close;
        if (from < to && *from == '\n')
            from++;
        if (from < to && to[-1] == '\n')
            to--;
        auto_free char *key = strndup(name, (size_t)(end - name));
        if (key)
            json_object_set_new(args, key, json_text(from, (size_t)(to - from)));
        at = (size_t)(close - s) + 12;
    }
    if (json_object_size(args) == 0)
        return 0;
    char called[LLM_NAME_MAX];
    strcpy(called, r->named);
    r->named[0] = '\0';
    return add(r, called, json_incref(args)) ? at : 0;
}

/*
 * A word beside the JSON: the language of a fence, or the name of a tool, with what models put
 * around it.
 */
static bool take_word(struct reading *r, const char *word, size_t len)
{
    static const char *const plain[] = { "json",       "tool_call", "tool_code",  "xml",
                                         "tool_calls", "ARGS",      "TOOL_CALLS", "functions" };
    char name[LLM_NAME_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (strlen(plain[i]) == len && memcmp(plain[i], word, len) == 0)
            return true;
    if (len > 10 && memcmp(word, "functions.", 10) == 0)
        word += 10, len -= 10;
    const char *colon = memchr(word, ':', len);
    len = colon ? (size_t)(colon - word) : len;
    if (len >= sizeof(name))
        return false;
    memcpy(name, word, len);
    name[len] = '\0';
    if (!llm_draft_is_tool(r->d, name))
        return false;
    strcpy(r->named, name);
    return true;
}

/* A tag at s. Bytes of it; 0 when it is none. */
static size_t take_tag(struct reading *r, const char *s, size_t len)
{
    const char *end = memchr(s, '>', len);

    if (!end || memchr(s, '\n', (size_t)(end - s)))
        return 0;
    if (len > 10 && memcmp(s, "<function=", 10) == 0) {
        size_t n = (size_t)(end - s) - 10;

        if (n == 0 || n >= LLM_NAME_MAX)
            return 0;
        memcpy(r->named, s + 10, n);
        r->named[n] = '\0';
    }
    return (size_t)(end - s) + 1;
}

static bool read_calls(struct reading *r, const char *s, size_t len)
{
    bool tagged = false;
    size_t at = 0;

    while (at < len) {
        char c = s[at];
        size_t n;

        if (isspace((unsigned char)c) || c == '`' || c == ';' || c == ',') {
            at++;
        } else if (c == '<') {
            n = take_tag(r, s + at, len - at);
            if (n == 0)
                return tagged && r->n > 0;
            tagged = true;
            at += n;
            if (*r->named)
                at += take_parameters(r, s + at, len - at);
        } else if (c == '[' && (memcmp(s + at, "[TOOL_CALLS]", MIN_OF((size_t)12, len - at)) == 0 ||
                                memcmp(s + at, "[ARGS]", MIN_OF((size_t)6, len - at)) == 0)) {
            tagged = true;
            at += s[at + 1] == 'T' ? MIN_OF((size_t)12, len - at) : MIN_OF((size_t)6, len - at);
        } else if (c == '{' || c == '[') {
            auto_json json_t *v = NULL;

            n = value_length(s + at, len - at);
            if (n == 0 || llm_json_read(s + at, n, &v, NULL) < 0 || !take_value(r, v, 0))
                return false;
            at += n;
        } else {
            for (n = 0;
                 at + n < len && (isalnum((unsigned char)s[at + n]) || strchr("_.:", s[at + n]));
                 n++)
                ;
            if (n == 0 || !take_word(r, s + at, n))
                return tagged && r->n > 0; /* prose: behind a tagged call it is passed over */
            at += n;
        }
    }
    return r->n > 0;
}

bool llm_text_calls(struct llm_draft *d, const char *text, size_t len)
{
    struct reading r = { .d = d };
    bool good = read_calls(&r, text, len);

    for (size_t i = 0; i < r.n; i++) {
        struct llm_draft_call *c;

        if (good &&
            (llm_draft_add_call(d, (long long)d->n_calls, "", r.found[i].name, &c, NULL) < 0 ||
             llm_draft_arguments_json(c, r.found[i].arguments, NULL) < 0))
            good = false;
        json_decref(r.found[i].arguments);
    }
    return good;
}
