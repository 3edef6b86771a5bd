#ifndef RIDDLE_BASE_JSON_IMPL_H
#define RIDDLE_BASE_JSON_IMPL_H

#include "base/json.h"

/* json_loadb(), fast where the text has long strings (json_long.c). */
json_t *json_load(const char *text, size_t len, size_t flags, json_error_t *e);

#endif
