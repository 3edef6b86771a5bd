#ifndef RIDDLE_NET_OPENAPI_H
#define RIDDLE_NET_OPENAPI_H

/* The OpenAPI 3.1 document of a route table. */

#include <stdbool.h>
#include "base/json.h"
#include "net/route.h"

struct openapi_info {
    const char *title;
    const char *version;
    const char *description; /* Markdown; may be NULL */
    bool has_keys;           /* routes that are not public need a bearer key */
    const json_t *answers;   /* types of answers, in the form of net/answers.h; may be NULL */
};

/* NULL only when out of memory. */
json_t *openapi_document(const struct router *r, const struct openapi_info *info);

#endif
