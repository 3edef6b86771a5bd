/* Loading libcurl; see curl_lib.h. */

#include "net/curl_lib.h"

#include <dlfcn.h>
#include <stdbool.h>

#define LIBRARY "libcurl.so.4"

struct curl_lib curl_lib;

int curl_lib_load(struct err *err)
{
    static bool loaded;
    void *library;

    if (loaded)
        return 0;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_UNAVAILABLE, "cannot load libcurl (Debian: libcurl4): %s", dlerror());
#define X(name)                                                                                    \
    *(void **)&curl_lib.name = dlsym(library, "curl_" #name);                                      \
    if (!curl_lib.name)                                                                            \
        return err_set(err, ERR_UNAVAILABLE, "'" LIBRARY "' has no curl_" #name);
    CURL_LIB_FUNCTIONS(X)
#undef X
    if (curl_lib.global_init(CURL_GLOBAL_DEFAULT) != 0)
        return err_set(err, ERR_UNAVAILABLE, "libcurl cannot start");
    loaded = true;
    return 0;
}
