/* Loading libmicrohttpd; see mhd_lib.h. */

#include "net/mhd_lib.h"

#include <stdbool.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

struct mhd_lib mhd_lib;

int mhd_lib_load(struct err *err)
{
    static const struct library_symbol symbols[] = {
#define X(name) { "MHD_" #name, &mhd_lib.name },
        MHD_LIB_FUNCTIONS(X)
#undef X
    };
    static bool loaded;
    if (loaded)
        return 0;
    int r = library_load(PLATFORM_MICROHTTPD_SONAME, PLATFORM_MICROHTTPD_PACKAGE, symbols,
                         ARRAY_SIZE(symbols), err);
    loaded = r == 0;
    return r;
}
