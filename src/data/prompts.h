#ifndef RIDDLE_DATA_PROMPTS_H
#define RIDDLE_DATA_PROMPTS_H

/*
 * Questions to try about data that nobody wrote any for: made of its best columns, each read by the
 * planner before it is offered.
 */

#include "base/json.h"

#define PROMPTS_MAX 4

/*
 * schema: as dataset_schema_json() writes it. An array of texts, empty if nothing was found; NULL
 * when out of memory. New reference.
 */
json_t *prompts_of(const json_t *schema);

#endif
