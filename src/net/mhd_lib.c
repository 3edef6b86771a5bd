/* Loading libmicrohttpd; see mhd_lib.h. */

#include "net/mhd_lib.h"

#include <dlfcn.h>
#include <stdbool.h>

#define LIBRARY "libmicrohttpd.so.12"

struct mhd_lib mhd_lib;

int mhd_lib_load(struct err *err)
{
    static bool loaded;
    void *library;

    if (loaded)
        return 0;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_UNAVAILABLE, "cannot load libmicrohttpd (Debian: libmicrohttpd12): %s", dlerror());
#define X(name)                                                                                    \
    *(void **)&mhd_lib.name = dlsym(library, "MHD_" #name);                                        \
    if (!mhd_lib.name)                                                                             \
        return err_set(err, ERR_UNAVAILABLE, "'" LIBRARY "' has no MHD_" #name);
    MHD_LIB_FUNCTIONS(X)
#undef X
    loaded = true;
    return 0;
}
