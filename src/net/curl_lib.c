/* Loading libcurl; see curl_lib.h. */

#include "net/curl_lib.h"

#include <stdbool.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

struct curl_lib curl_lib;

int curl_lib_load(struct err *err)
{
    static const struct library_symbol symbols[] = {
#define X(name) { "curl_" #name, &curl_lib.name },
        CURL_LIB_FUNCTIONS(X)
#undef X
    };
    static bool loaded;
    if (loaded)
        return 0;
    int r = library_load(PLATFORM_CURL_SONAME, PLATFORM_CURL_PACKAGE, symbols, ARRAY_SIZE(symbols),
                         err);
    if (r == 0 && curl_lib.global_init(CURL_GLOBAL_DEFAULT) != 0)
        r = err_set(err, ERR_UNAVAILABLE, "libcurl cannot start");
    loaded = r == 0;
    return r;
}
