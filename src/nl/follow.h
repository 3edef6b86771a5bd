#ifndef RIDDLE_NL_FOLLOW_H
#define RIDDLE_NL_FOLLOW_H

/*
 * What the readers of questions that lean on the one before share: its plan as JSON
 * (follow_plan.c).
 */

#include "nl/nl_impl.h"

int follow_table_of(const struct nl_schema *s, const char *name); /* -1: there is none */
bool follow_is_aggregate(const json_t *item);                     /* of "select" */
const char *follow_name_of(const json_t *item);
const json_t *follow_first_aggregate(const json_t *plan); /* NULL: it has none */
const char *follow_filter_subject(const json_t *filter);  /* NULL: of no one column */
json_t *follow_list_of(json_t *plan, const char *key);    /* made if it is not there */
const char *follow_describe(const json_t *plan, struct arena *a);
/* mark: "" any kind; NULL when the plan has nothing to draw. */
json_t *follow_draw(const struct nl_schema *s, const json_t *plan, const char *mark);

/*
 * Questions about what was shown: "as percentages", "which is the lowest?", "what is the total?",
 * "how many are there?", "make it 10", "show all". 1 and an answer; 0 when it is none of these.
 */
int follow_shown(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
                 struct arena *a, struct nl_answer *ret, struct err *err);
/*
 * "What is its total fee?" after "which branch …": keeps the readings to what was shown before.
 * False when a pronoun stands for what was shown and a reading cannot be kept to it.
 */
bool follow_refer(const struct nl_schema *s, const char *question, const struct nl_context *ctx,
                  struct arena *a, struct nl_answer *answer);

#endif
