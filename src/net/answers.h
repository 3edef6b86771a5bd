#ifndef RIDDLE_NET_ANSWERS_H
#define RIDDLE_NET_ANSWERS_H

/*
 * Types of answers, written in a short form of JSON Schema (src/api/answers.json):
 *
 *   { "types":   { "Thread": { "thread_id": "string: Its id.", "title?": "string|null",
 *                              "state": "'hot'|'cold'", "data": ["DataRef"],
 *                              "columns": { "*": "Column" } } },
 *     "answers": { "getThread": "Thread", "health 503": "Unhealthy" } }
 *
 * A type is a text, an array of one type, or an object. A text is alternatives separated by '|',
 * each a JSON type, "any", a name of `types`, or a literal in single quotes; what follows ": " is a
 * description. A field whose name ends in '?' may be missing. The field "*" is the type of fields
 * whose names are not known; "+" names a type whose fields this one has, too; "//" describes the
 * object. `answers` has the type of every operation's success by its id, and of another status by
 * id and status; a description there is that of the answer.
 */

#include "base/json.h"

/* JSON Schema of a type. NULL when out of memory or when the form is broken. */
json_t *answer_type_to_json(const json_t *types, const json_t *type);

#endif
