/*
 * List prices of known models, in US dollars for a million tokens, as their makers state them. What they charge less for (cached
 * input, batches) is not known here, so a cost is what it is at most. A model that is not listed has none.
 */

#include "llm/llm_impl.h"

#include <ctype.h>
#include <string.h>

struct price {
    const char *model; /* also with a date or "-latest" behind it */
    double input, output;
};

static const struct price prices[] = {
    { "gpt-4o", 2.5, 10 },
    { "gpt-4o-mini", 0.15, 0.6 },
    { "gpt-4.1", 2, 8 },
    { "gpt-4.1-mini", 0.4, 1.6 },
    { "gpt-4.1-nano", 0.1, 0.4 },
    { "gpt-4-turbo", 10, 30 },
    { "gpt-5", 1.25, 10 },
    { "gpt-5-mini", 0.25, 2 },
    { "gpt-5-nano", 0.05, 0.4 },
    { "o1", 15, 60 },
    { "o3", 2, 8 },
    { "o3-mini", 1.1, 4.4 },
    { "o4-mini", 1.1, 4.4 },
    { "claude-3-haiku", 0.25, 1.25 },
    { "claude-3-5-haiku", 0.8, 4 },
    { "claude-haiku-4-5", 1, 5 },
    { "claude-3-5-sonnet", 3, 15 },
    { "claude-3-7-sonnet", 3, 15 },
    { "claude-sonnet-4", 3, 15 },
    { "claude-sonnet-4-0", 3, 15 },
    { "claude-sonnet-4-5", 3, 15 },
    { "claude-3-opus", 15, 75 },
    { "claude-opus-4", 15, 75 },
    { "claude-opus-4-0", 15, 75 },
    { "claude-opus-4-1", 15, 75 },
    { "claude-opus-4-5", 5, 25 },
};

/* What may follow a model's name and still be that model: "-2024-07-18", "-20250929", "-latest". */
static bool is_version(const char *s)
{
    size_t digits = 0;

    if (strcmp(s, "-latest") == 0)
        return true;
    for (; *s; s++) {
        if (isdigit((unsigned char)*s))
            digits++;
        else if (*s != '-')
            return false;
    }
    return digits == 0 || digits == 8;
}

double llm_price(const char *model, int64_t input_tokens, int64_t output_tokens)
{
    for (size_t i = 0; i < ARRAY_SIZE(prices); i++) {
        size_t n = strlen(prices[i].model);

        if (strncmp(model, prices[i].model, n) == 0 && is_version(model + n))
            return ((double)input_tokens * prices[i].input + (double)output_tokens * prices[i].output) / 1e6;
    }
    return -1;
}
