/*
 * What is known of models on 2026-11-16: list prices in US dollars for a million tokens, the day on
 * which a model ends, whether it thinks and sees. A model that is not listed has no price, no end,
 * and is taken for one that neither thinks nor sees. Prices that are marked UNCHECKED were not
 * compared with their maker's list on that day. Prompts that cost more because of their length
 * (OpenAI past 272,000 tokens, Haiku 5.5 past 100,000) are counted at the lower price.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <string.h>
#include "base/str.h"

#define THINKS LLM_MODEL_THINKS
#define SEES LLM_MODEL_SEES
#define ADAPTIVE (LLM_MODEL_ADAPTIVE | LLM_MODEL_THINKS | LLM_MODEL_SEES)
#define UNCHECKED 0      /* a mark for readers */
#define CACHE_WRITE 1.25 /* of the price of input; only Anthropic reports what was written */

struct model {
    const char *name; /* also with a date or "-latest" behind it; '.' stands for '-' too */
    double input, cached, output; /* 0: not known */
    const char *ends;             /* "" while none is announced */
    unsigned flags;
};

static const struct model models[] = {
    { "gpt-6.1-sol", 2, 0.1, 10, "", THINKS | SEES },
    { "gpt-6-astra", 10, 1, 50, "", THINKS | SEES },
    { "gpt-6-sol", 2, 0.2, 10, "", THINKS | SEES },
    { "gpt-6-luna", 0.1, 0.01, 0.5, "", THINKS | SEES },
    { "gpt-5.6-sol", 4, 0.4, 20, "", THINKS | SEES },
    { "gpt-5.6-terra", 2, 0.2, 12, "", THINKS | SEES },
    { "gpt-5.6-luna", 0.2, 0.02, 1.2, "", THINKS | SEES },
    { "gpt-5.5", 5, 0.5, 30, "", THINKS | SEES | UNCHECKED },
    { "gpt-5.4", 2.5, 0.25, 15, "", THINKS | SEES | UNCHECKED },
    { "gpt-5.4-mini", 0.75, 0.075, 4.5, "", THINKS | SEES | UNCHECKED },
    { "gpt-5.2", 1.75, 0.175, 14, "", THINKS | SEES | UNCHECKED },
    { "gpt-5.1", 1.25, 0.125, 10, "2027-04-01", THINKS | SEES | UNCHECKED },
    { "gpt-5", 1.25, 0.125, 10, "2026-12-11", THINKS | SEES | UNCHECKED },
    { "gpt-5-mini", 0.25, 0.025, 2, "2026-12-11", THINKS | SEES | UNCHECKED },
    { "gpt-5-nano", 0.05, 0.005, 0.4, "2026-12-11", THINKS | SEES | UNCHECKED },
    { "gpt-5-pro", 0, 0, 0, "2026-12-11", THINKS | SEES },
    { "o3", 2, 0.5, 8, "2026-12-11", THINKS | SEES | UNCHECKED },
    { "o3-pro", 0, 0, 0, "2026-12-11", THINKS | SEES },
    { "gpt-4o", 2.5, 1.25, 10, "2027-01-14", SEES | UNCHECKED },
    { "gpt-4o-mini", 0.15, 0.075, 0.6, "2027-01-14", SEES | UNCHECKED },
    { "gpt-4.1", 2, 0.5, 8, "2027-01-14", SEES | UNCHECKED },
    { "gpt-4.1-mini", 0.4, 0.1, 1.6, "2027-01-14", SEES | UNCHECKED },
    { "gpt-4.1-nano", 0, 0, 0, "2026-10-23", SEES },
    { "gpt-4-turbo", 0, 0, 0, "2026-10-23", SEES },
    { "gpt-4", 0, 0, 0, "2026-10-23", 0 },
    { "gpt-3.5-turbo", 0, 0, 0, "2026-10-23", 0 },
    { "o1", 0, 0, 0, "2026-10-23", THINKS | SEES },
    { "o1-pro", 0, 0, 0, "2026-10-23", THINKS | SEES },
    { "o3-mini", 0, 0, 0, "2026-10-23", THINKS },
    { "o4-mini", 0, 0, 0, "2026-10-23", THINKS | SEES },
    { "claude-fable-5-1", 10, 0.25, 50, "", ADAPTIVE },
    { "claude-opus-5-5", 4, 0.2, 20, "", ADAPTIVE },
    { "claude-sonnet-5-5", 2, 0.1, 10, "", ADAPTIVE },
    { "claude-haiku-5-5", 0.1, 0.01, 0.5, "", ADAPTIVE },
    { "claude-opus-5", 5, 0.5, 25, "", ADAPTIVE },
    { "claude-sonnet-5", 2, 0.2, 10, "", ADAPTIVE },
    { "claude-opus-4-8", 5, 0.5, 25, "", ADAPTIVE | UNCHECKED },
    { "claude-opus-4-7", 5, 0.5, 25, "", ADAPTIVE },
    { "claude-opus-4-6", 5, 0.5, 25, "", SEES },
    { "claude-opus-4-5", 5, 0.5, 25, "", SEES },
    { "claude-sonnet-4-6", 3, 0.3, 15, "", SEES | UNCHECKED },
    { "claude-sonnet-4-5", 3, 0.3, 15, "", SEES },
    { "claude-haiku-4-5", 1, 0.1, 5, "", SEES },
    { "claude-opus-4-1", 0, 0, 0, "2026-08-05", SEES },
};

/* Families whose every member is alike, for models that the table does not list. */
static const struct {
    const char *prefix;
    unsigned flags;
} families[] = {
    { "gpt-6", THINKS | SEES },   { "gpt-5", THINKS | SEES }, { "gpt-4o", SEES },
    { "gpt-4.1", SEES },          { "gpt-oss", THINKS },      { "claude-", SEES },
    { "gemini-", THINKS | SEES }, { "deepseek-v4", THINKS },  { "deepseek-r", THINKS },
    { "kimi-k2", THINKS },        { "kimi-k3", THINKS },      { "qwen3", THINKS },
    { "grok-4", THINKS | SEES },  { "magistral", THINKS },    { "pixtral", SEES },
    { "glm-4", THINKS },
};

const char *llm_bare_model(const char *model)
{
    const char *slash = strrchr(model, '/');

    return slash ? slash + 1 : model;
}

/*
 * What may follow a model's name and still be that model: "-2024-07-18", "-20250929", "-latest",
 * ":free".
 */
static bool is_version(const char *s)
{
    size_t digits = 0;

    if (strcmp(s, "-latest") == 0 || *s == ':')
        return true;
    for (; *s; s++) {
        if (isdigit((unsigned char)*s))
            digits++;
        else if (*s != '-')
            return false;
    }
    return digits == 0 || digits == 8;
}

static size_t matches(const char *model, const char *name)
{
    size_t n = 0;

    for (; name[n]; n++) {
        char a = (char)tolower((unsigned char)model[n]), b = name[n];

        if ((a == '.' ? '-' : a) != (b == '.' ? '-' : b))
            return 0;
    }
    return n;
}

static const struct model *find(const char *model)
{
    model = llm_bare_model(model);
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        size_t n = matches(model, models[i].name);

        if (n > 0 && is_version(model + n))
            return &models[i];
    }
    return NULL;
}

unsigned llm_model_flags(const char *model)
{
    const struct model *m = find(model);

    if (m)
        return m->flags;
    model = llm_bare_model(model);
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        if (matches(model, families[i].prefix) > 0)
            return families[i].flags;
    }
    return 0;
}

const char *llm_ends(const char *model)
{
    const struct model *m = find(model);

    return m ? m->ends : "";
}

double llm_price(const char *model, int64_t input_tokens, int64_t cached_tokens,
                 int64_t written_tokens, int64_t output_tokens)
{
    const struct model *m = find(model);
    int64_t plain = MAX_OF(input_tokens - cached_tokens - written_tokens, 0);

    if (!m || m->input == 0)
        return -1;
    return ((double)plain * m->input + (double)cached_tokens * m->cached +
            (double)written_tokens * m->input * CACHE_WRITE + (double)output_tokens * m->output) /
           1e6;
}
