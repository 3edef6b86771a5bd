#ifndef RIDDLE_AGENT_CLAIMS_H
#define RIDDLE_AGENT_CLAIMS_H

/*
 * Figures in a text that no result bears out: a model that writes about results must not invent
 * numbers. The search is bounded and kind: what follows from the results by rounding, a percentage,
 * a row count, or a sum, difference or ratio of two cells that belong together is borne out. What
 * is listed was found nowhere.
 */

#include <stddef.h>
#include "base/json.h"

#define CLAIMS_MAX 100

/*
 * results: {"columns", "rows", "row_count"?, "stdout"?, "value"?} each; an entry may be NULL.
 * texts: what was asked, said before or shown, whose figures may be repeated; an entry may be NULL.
 * An array of {"text": "1,234.5", "value": 1234.5, "offset": bytes}, in the order of the text, at
 * most CLAIMS_MAX. New reference; NULL when out of memory.
 */
json_t *claims_unfounded(const char *text, const json_t *const *results, size_t n,
                         const char *const *texts, size_t n_texts);

/*
 * The same for several texts against one set of results, which must stay until claims_close(). NULL
 * when out of memory.
 */
struct claims;
struct claims *claims_open(const json_t *const *results, size_t n, const char *const *texts,
                           size_t n_texts);
json_t *claims_check(const struct claims *c, const char *text);
void claims_close(struct claims *c); /* NULL is fine */

#endif
