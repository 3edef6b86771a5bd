/*
 * What servers complain of. Providers and gateways agree on no shape: {"error": {"message"}},
 * {"error": "…"}, [{"error": …}], {"detail": [{"msg", "loc"}]}, {"message": {"detail": …}}, a
 * reason that is JSON in a string (error.metadata.raw of OpenRouter). The words are looked for in
 * the known places first, then anywhere.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/str.h"

#define DEPTH_MAX 12

static void copy(char *ret, size_t n, const char *s)
{
    size_t len = s ? strlen(s) : 0, cut = str_utf8_cut(s ? s : "", len, n - 1);

    memcpy(ret, s ? s : "", cut);
    ret[cut] = '\0';
}

static void add(char *ret, size_t n, const char *s)
{
    size_t len = strlen(ret);

    if (!s || !*s || strstr(ret, s))
        return;
    if (len > 0 && len + 3 < n) {
        memcpy(ret + len, "; ", 3);
        len += 2;
    }
    copy(ret + len, n - len, s);
}

/* Every string below a value, in order; names of members too, which say what a string is about. */
static void gather(const json_t *v, int depth, struct llm_complaint *c, bool everything)
{
    const char *key;
    json_t *member;
    size_t i;

    if (depth > DEPTH_MAX)
        return;
    if (json_is_string(v)) {
        const char *s = json_string_value(v);
        auto_json json_t *inner = NULL;

        if ((*s == '{' || *s == '[') && llm_json_read(s, json_string_length(v), &inner, NULL) == 0)
            gather(inner, depth + 1, c, everything);
        else
            add(c->message, sizeof(c->message), s);
        return;
    }
    json_array_foreach(v, i, member)
        gather(member, depth + 1, c, everything);
    json_object_foreach((json_t *)(uintptr_t)v, key, member) {
        static const char *const telling[] = { "message",
                                               "msg",
                                               "detail",
                                               "details",
                                               "error",
                                               "errors",
                                               "raw",
                                               "reason",
                                               "description",
                                               "error_message",
                                               "title",
                                               "metadata",
                                               "error_description",
                                               "errorMessage",
                                               "failure_reason" };
        bool tells = everything;

        for (size_t k = 0; k < ARRAY_SIZE(telling) && !tells; k++)
            tells = str_eq(key, telling[k]);
        if (str_eq(key, "loc") && json_is_array(member)) {
            const char *last = json_string_value(
                json_array_get(member, json_array_size(member) - 1));

            if (last)
                add(c->message, sizeof(c->message), last);
        } else if (tells) {
            gather(member, depth + 1, c, everything);
        }
    }
}

static const char *text_of(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));

    return s ? s : "";
}

static void lower(const json_t *body, struct llm_complaint *c)
{
    auto_free char *all = json_to_str(body);

    static const char *const kinds[] = { "invalid_request_error", "invalid_argument",
                                         "invalid_request" };
    char *hit;

    copy(c->text, sizeof(c->text), all ? all : c->message);
    for (char *p = c->text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    /* the kind of every refusal, whatever it is about */
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        while ((hit = strstr(c->text, kinds[i])))
            memset(hit, ' ', strlen(kinds[i]));
}

bool llm_complaint_read(const json_t *body, bool is_error, struct llm_complaint *ret)
{
    const json_t *e = json_object_get(body, "error"), *code, *failed;
    const char *type = text_of(body, "type");

    memset(ret, 0, sizeof(*ret));
    if (json_is_array(body)) { /* Gemini's */
        if (!json_object_get(json_array_get(body, 0), "error") && !is_error)
            return false;
        e = json_object_get(json_array_get(body, 0), "error");
        e = e ? e : body;
    }
    if (!e || json_is_null(e)) {
        if (!is_error && !str_eq(text_of(body, "object"), "error") && !str_eq(type, "error"))
            return false;
        e = body;
    }
    if (json_is_object(e)) {
        copy(ret->type, sizeof(ret->type),
             str_eq(text_of(e, "type"), "error") && e == body ? "" : text_of(e, "type"));
        if (!*ret->type)
            copy(ret->type, sizeof(ret->type),
                 text_of(e, "status")); /* Google's "INVALID_ARGUMENT" */
        code = json_object_get(e, "code");
        if (json_is_integer(code))
            snprintf(ret->code, sizeof(ret->code), "%lld", (long long)json_integer_value(code));
        else
            copy(ret->code, sizeof(ret->code), text_of(e, "code"));
        copy(ret->param, sizeof(ret->param), text_of(e, "param"));
        if (json_is_string(json_object_get(e, "message")))
            gather(json_object_get(e, "message"), 0, ret, false);
    }
    /* "Provider returned error" is no reason: what stands beside it is. */
    gather(json_is_object(e) ? json_object_get(e, "metadata") : NULL, 0, ret, false);
    if (!*ret->message)
        gather(e, 0, ret, false);
    if (!*ret->message)
        gather(e, 0, ret, true);
    failed = json_object_get(e, "failed_generation");
    if (!failed)
        failed = json_object_get(body, "failed_generation");
    copy(ret->failed, sizeof(ret->failed), json_string_value(failed));
    lower(body, ret);
    ret->is_quota = str_eq(ret->code, "insufficient_quota") ||
                    str_eq(ret->type, "insufficient_quota") ||
                    strstr(ret->text, "insufficient_quota") ||
                    strstr(ret->text, "credit balance is too low");
    return true;
}

const char *llm_show(const char *text, const char *secret, char *ret, size_t n)
{
    size_t secret_len = secret ? strlen(secret) : 0;
    auto_buf struct buf clean = BUF_INIT(LLM_WHOLE_MAX);
    const char *hit;

    if (secret_len >= LLM_SECRET_MIN) {
        while ((hit = strstr(text, secret))) {
            if (buf_append(&clean, text, (size_t)(hit - text), NULL) < 0 ||
                buf_append_str(&clean, "[key]", NULL) < 0)
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
        if (strstr(kinds[i], "rate_limit") || str_eq(kinds[i], "insufficient_quota") ||
            str_eq(kinds[i], "429"))
            code = ERR_LLM_RATE_LIMITED;
        else if (strstr(kinds[i], "invalid_request") || strstr(kinds[i], "authentication") ||
                 strstr(kinds[i], "permission") || strstr(kinds[i], "not_found") ||
                 str_eq(kinds[i], "400") || str_eq(kinds[i], "401") || str_eq(kinds[i], "404"))
            code = ERR_LLM_REJECTED;
        else if (strstr(kinds[i], "timeout"))
            code = ERR_LLM_TIMEOUT;
    }
    llm_show(c->message, secret, message, sizeof(message));
    llm_show(c->type, secret, type, sizeof(type));
    return err_set(err, code, "the model's server reports an error%s%s%s: %s", *type ? " (" : "",
                   type, *type ? ")" : "", *message ? message : "no message");
}
