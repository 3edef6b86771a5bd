/* Loading libpq; see pq_lib.h. */

#include "database/pq_lib.h"

#include <stdbool.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

struct pq_lib pq_lib;

int pq_lib_load(struct err *err)
{
    static const struct library_symbol symbols[] = {
#define X(name) { "PQ" #name, &pq_lib.name },
        PQ_LIB_FUNCTIONS(X)
#undef X
    };
    static bool loaded;
    if (loaded)
        return 0;
    int r = library_load(PLATFORM_PQ_SONAME, PLATFORM_PQ_PACKAGE, symbols, ARRAY_SIZE(symbols),
                         err);
    loaded = r == 0;
    return r;
}
