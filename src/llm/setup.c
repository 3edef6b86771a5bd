/*
 * Before the first try of a call: the provider that the settings choose, and the request, copied.
 */

#include "llm/llm_impl.h"

#include <stdlib.h>
#include <string.h>
#include "base/str.h"

#define TOKENS_PLAIN 16000    /* of a reply, when LLM_MAX_TOKENS says nothing */
#define TOKENS_THINKING 32000 /* the same for a model whose thinking counts */

/* ---- the provider ---- */

static const struct llm_provider *const providers[] = { &llm_openai, &llm_responses, &llm_anthropic,
                                                        &llm_builtin };

const char *llm_provider_name(size_t i)
{
    return i < ARRAY_SIZE(providers) ? providers[i]->name : NULL;
}

static bool is_usable(const struct llm_target *t)
{
    return *t->key || !t->is_own;
}

/* Of a setting: OpenAI's own server is asked by its Responses API unless `openai-chat` insists. */
static int set_up(const struct config *cfg, const struct llm_provider *p,
                  const struct llm_provider **ret, struct llm_target *target, struct err *err)
{
    int r = p->configure(cfg, target, err);

    if (r == 0 && p == &llm_openai && target->is_own && !str_eq(cfg->llm_provider, "openai-chat")) {
        llm_target_finish(target);
        p = &llm_responses;
        r = p->configure(cfg, target, err);
    }
    if (r < 0)
        return r;
    *ret = p;
    target->effort = str_eq(cfg->llm_effort, "auto") ? "" : cfg->llm_effort;
    target->max_tokens = cfg->llm_max_tokens;
    if (target->max_tokens == 0)
        target->max_tokens = llm_model_flags(target->model) & LLM_MODEL_THINKS ? TOKENS_THINKING :
                                                                                 TOKENS_PLAIN;
    return 0;
}

int llm_choose(const struct config *cfg, const struct llm_provider **ret, struct llm_target *target,
               struct err *err)
{
    bool is_auto = str_eq(cfg->llm_provider, "auto");
    const char *name = str_eq(cfg->llm_provider, "openai-chat") ? "openai" : cfg->llm_provider;

    for (size_t i = 0; i < ARRAY_SIZE(providers); i++) {
        int r;

        if (is_auto ? providers[i] == &llm_responses : !str_eq(name, providers[i]->name))
            continue;
        r = set_up(cfg, providers[i], ret, target, err);
        if (r < 0)
            return r;
        if (is_usable(target))
            return 0;
        if (!is_auto)
            return err_set(err, ERR_CONFIG, "LLM_PROVIDER is '%s', but %s is not set",
                           cfg->llm_provider, target->key_setting);
        llm_target_finish(target);
    }
    return err_set(err, ERR_CONFIG, "there is no LLM_PROVIDER '%s'", cfg->llm_provider);
}

/* ---- the request ---- */

static const char *copy(struct arena *a, const char *s, bool *good)
{
    const char *c = s ? arena_strdup(a, s) : NULL;

    *good = *good && (c || !s);
    return c;
}

int llm_request_copy(struct arena *a, const struct llm_request *req, struct llm_request *ret,
                     struct err *err)
{
    struct llm_message *messages = arena_alloc(a, (req->n_messages + 1) * sizeof(*messages));
    struct llm_tool *tools = arena_alloc(a, (req->n_tools + 1) * sizeof(*tools));
    bool good = messages && tools;

    *ret = (struct llm_request){ .system = copy(a, req->system, &good),
                                 .messages = messages,
                                 .tools = tools,
                                 .tool_choice = req->tool_choice,
                                 .max_tokens = req->max_tokens };
    for (size_t i = 0; i < req->n_messages && good; i++) {
        const struct llm_message *m = &req->messages[i];
        struct llm_tool_call *calls = arena_alloc(a, (m->n_calls + 1) * sizeof(*calls));
        struct llm_image *images = arena_alloc(a, (m->n_images + 1) * sizeof(*images));

        good = calls && images;
        for (size_t k = 0; k < m->n_calls && good; k++)
            calls[k] = (struct llm_tool_call){ copy(a, m->calls[k].id, &good),
                                               copy(a, m->calls[k].name, &good),
                                               copy(a, m->calls[k].arguments, &good) };
        for (size_t k = 0; k < m->n_images && good; k++)
            images[k] = (struct llm_image){ copy(a, m->images[k].type, &good),
                                            copy(a, m->images[k].base64, &good) };
        messages[i] = (struct llm_message){ .role = m->role,
                                            .content = copy(a, m->content, &good),
                                            .calls = calls,
                                            .n_calls = m->n_calls,
                                            .tool_call_id = copy(a, m->tool_call_id, &good),
                                            .is_error = m->is_error,
                                            .kept = json_incref((json_t *)(uintptr_t)m->kept),
                                            .images = images,
                                            .n_images = m->n_images };
        ret->n_messages++;
    }
    for (size_t i = 0; i < req->n_tools && good; i++) {
        tools[i] = (struct llm_tool){ copy(a, req->tools[i].name, &good),
                                      copy(a, req->tools[i].description, &good),
                                      json_incref((json_t *)(uintptr_t)req->tools[i].parameters) };
        ret->n_tools++;
    }
    return good ? 0 :
                  err_set(err, ERR_TOO_LARGE, "the request to the model is larger than %u bytes",
                          LLM_REQUEST_ARENA_BYTES);
}

void llm_request_release(struct llm_request *req)
{
    for (size_t i = 0; i < req->n_messages; i++)
        json_decref((json_t *)(uintptr_t)req->messages[i].kept);
    for (size_t i = 0; i < req->n_tools; i++)
        json_decref((json_t *)(uintptr_t)req->tools[i].parameters);
}
