/* Loading libraries; see library.h. */

#include "base/library.h"

#include <dlfcn.h>

int library_load(const char *file, const char *package, const struct library_symbol *symbols,
                 size_t n, struct err *err)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_UNAVAILABLE, "cannot load '%s' (Debian: %s): %s", file, package,
                       dlerror());
    for (size_t i = 0; i < n; i++) {
        void *at = dlsym(library, symbols[i].name);
        if (!at)
            return err_set(err, ERR_UNAVAILABLE, "'%s' has no %s", file, symbols[i].name);
        *(void **)symbols[i].pointer = at;
    }
    return 0;
}
