/* The table of providers. To add one: docs/adding-a-provider.md. */

#include "sandbox/provider.h"

#include <stdio.h>
#include "base/macros.h"
#include "base/str.h"

extern const struct provider_ops local_provider, docker_provider;

static const struct provider_ops *const providers[] = { &local_provider, &docker_provider };

const struct provider_ops *provider_at(size_t i)
{
    return i < ARRAY_SIZE(providers) ? providers[i] : NULL;
}

const struct provider_ops *provider_find(const char *name, struct err *err)
{
    char known[256] = "";
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_SIZE(providers); i++) {
        if (str_eq(providers[i]->name, name))
            return providers[i];
        int n = snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
                         providers[i]->name);
        len += n > 0 ? (size_t)n : 0;
    }
    err_set(err, ERR_CONFIG, "SANDBOX_PROVIDER is '%s'; this program has: %s", name, known);
    return NULL;
}
