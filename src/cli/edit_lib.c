/* Loading libedit; see edit_lib.h. */

#include "cli/edit_lib.h"

#include <dlfcn.h>
#include <stdbool.h>

#define LIBRARY "libedit.so.2"

struct edit_lib edit_lib;

int edit_lib_load(struct err *err)
{
    static bool loaded;
    void *library;

    if (loaded)
        return 0;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_UNAVAILABLE, "cannot load libedit (Debian: libedit2): %s", dlerror());
#define X(name)                                                                                    \
    *(void **)&edit_lib.name = dlsym(library, #name);                                              \
    if (!edit_lib.name)                                                                            \
        return err_set(err, ERR_UNAVAILABLE, "'" LIBRARY "' has no " #name);
    EDIT_LIB_SYMBOLS(X)
#undef X
    loaded = true;
    return 0;
}
