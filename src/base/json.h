#ifndef RIDDLE_BASE_JSON_H
#define RIDDLE_BASE_JSON_H

/*
 * The JSON façade over jansson: strict parsing with limits, typed getters that say what is wrong in
 * words a caller can act on, and builders. `json_t` is jansson's; reference counts are jansson's.
 * Integers keep 64 bits, reals are written with the fewest digits that read back the same.
 * Duplicate keys and an escaped NUL are refused, as is text that nests deeper than JSON_MAX_DEPTH.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

static inline void cleanup_json(json_t **j)
{
    json_decref(*j);
}
#define auto_json __attribute__((cleanup(cleanup_json)))

#define JSON_MAX_DEPTH 64

/*
 * INVALID_JSON with line and column. Trailing text after the value is an error. Caller owns *ret.
 */
int json_parse(const char *text, size_t len, json_t **ret, struct err *err);
/*
 * TOO_LARGE, before anything is built, if there are more than max_nodes values and keys. *ret_nodes
 * (or NULL): their number.
 */
int json_parse_within(const char *text, size_t len, size_t max_nodes, json_t **ret,
                      size_t *ret_nodes, struct err *err);

/*
 * Compact. Appends to b, which is unchanged on failure. Invalid UTF-8 cannot occur: jansson refuses
 * to hold it.
 */
int json_write(const json_t *j, struct buf *b, struct err *err);
/*
 * A JSON string: quotes and escapes. The bytes must be UTF-8. A NUL, which json_parse() refuses,
 * becomes U+FFFD.
 */
int json_write_str(const char *s, size_t len, struct buf *b, struct err *err);
char *json_to_str(const json_t *j); /* caller frees; NULL when out of memory */

/*
 * Getters on an object. A missing key (or null) yields the default; a wrong type or a value out of
 * range is VALIDATION, with the key, what was found and what is allowed. An obj that is NULL has no
 * keys. Borrowed references.
 */
int json_get_str(const json_t *obj, const char *key, const char *dflt, const char **ret,
                 struct err *err);
int json_get_i64(const json_t *obj, const char *key, long long dflt, long long min, long long max,
                 long long *ret, struct err *err);
int json_get_double(const json_t *obj, const char *key, double dflt, double *ret, struct err *err);
int json_get_bool(const json_t *obj, const char *key, bool dflt, bool *ret, struct err *err);
/* NULL when missing */
int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *err);
/* NULL when missing */
int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *err);

/*
 * VALIDATION if obj is no object or has a key that is not in the NULL-terminated list; names the
 * nearest known key.
 */
int json_check_keys(const json_t *obj, const char *const *allowed, struct err *err);
/*
 * VALIDATION if obj is no object. Appends the names of keys that are not in the list to `ignored`,
 * while they fit.
 */
int json_skip_keys(const json_t *obj, const char *const *allowed, struct buf *ignored,
                   struct err *err);

/* "object", "array", "string", "integer", "number", "boolean", "null" */
const char *json_type_name(const json_t *j);

/*
 * A JSON string from bytes of any kind: invalid UTF-8 and NUL, which json_parse refuses, are
 * replaced by U+FFFD. NULL only when out of memory.
 */
json_t *json_text(const char *s, size_t len);

/* {"type": err_name, "message": …} */
json_t *json_error(const struct err *err);

#endif
