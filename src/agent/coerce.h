#ifndef RIDDLE_AGENT_COERCE_H
#define RIDDLE_AGENT_COERCE_H

/*
 * What a model wrote, as the JSON that it meant. Repaired is only what leaves no doubt: JSON
 * between fences or behind a remark, JSON inside a JSON string, commas before a bracket, raw line
 * ends in strings, figures and truths as text where the schema wants them, a text cut off behind
 * its last whole member. Everything else is VALIDATION, in words that a model can act on.
 */

#include <stddef.h>
#include "base/err.h"
#include "base/json.h"

#define COERCE_MAX_BYTES (1u << 20) /* of a text; TOO_LARGE past it */

/*
 * The arguments of a tool: an object that has the members which the schema requires. schema is the
 * tool's JSON Schema ({"properties", "required"}) or NULL: then nothing is required. It is not
 * checked otherwise. A JSON string stands for the one required member if that is a string. Caller
 * owns *ret.
 */
int coerce_object(const char *text, size_t len, const json_t *schema, json_t **ret,
                  struct err *err);

/*
 * A whole answer that says what to run: {"mode": "plan" | "sql" | "python" | "chat", "plan"?:
 * object, "sql"?: text, "python_code"?: text, "message": text}, of which the member that the mode
 * needs is there and not blank. Taken are {"query_mode" or "mode", "plan", "sql", "python_code",
 * "assistant_message"}, the same inside "parsed" or "output", a bare plan, a text with one block of
 * SQL or Python (the rest is the message), and a bare SELECT or WITH. Caller owns *ret.
 */
int coerce_draft(const char *text, size_t len, json_t **ret, struct err *err);

#endif
