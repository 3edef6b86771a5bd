/* Loading libedit; see edit_lib.h. */

#include "cli/edit_lib.h"

#include <stdbool.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

struct edit_lib edit_lib;

int edit_lib_load(struct err *err)
{
    static const struct library_symbol symbols[] = {
#define X(name) { #name, &edit_lib.name },
        EDIT_LIB_SYMBOLS(X)
#undef X
    };
    static bool loaded;
    if (loaded)
        return 0;
    int r = library_load(PLATFORM_EDIT_SONAME, PLATFORM_EDIT_PACKAGE, symbols, ARRAY_SIZE(symbols),
                         err);
    loaded = r == 0;
    return r;
}
