#ifndef RIDDLE_DATA_WORDS_H
#define RIDDLE_DATA_WORDS_H

/*
 * What people write about a data set, for models and for the planner:
 *
 *   {"description"?: text, "notes"?: [text], "metrics"?: {name: text},
 *    "tables"?: {table: {"description"?: text, "columns"?: {column: {"description"?, "unit"?}}}}}
 *
 * A registry declares such words for everybody; each owner may write more, which come first.
 */

#include "base/err.h"
#include "base/json.h"
#include "data/dataset.h"

#define WORDS_MAX_BYTES (60u << 10) /* of all that an owner wrote about one data set, as JSON */
#define WORDS_DESCRIPTION_MAX 4000  /* bytes */
#define WORDS_TEXT_MAX 2000         /* of a note, a metric, a description of a table or column */
#define WORDS_UNIT_MAX 40
#define WORDS_NAME_MAX 80 /* of a metric */
#define WORDS_NOTES_MAX 50
#define WORDS_METRICS_MAX 100

/*
 * The words after a change (RFC 7386): members that are null or empty go, others are put in place.
 * VALIDATION for what has another shape, is too long, or names a table or a column that d does not
 * have. Columns are known from the profile or what was declared; without either any name is taken.
 */
int words_patch(const struct dataset *d, const json_t *old, const json_t *patch, json_t **ret,
                struct err *err);

/* What was declared about d, with an owner's own words (may be NULL) in front. New reference. */
json_t *words_of(const struct dataset *d, const json_t *own);

#endif
