#ifndef RIDDLE_AGENT_READING_H
#define RIDDLE_AGENT_READING_H

/*
 * One question answered without a model: it is planned, the likely readings are run, and what they
 * give helps to decide between them. Who drives it runs the SQL:
 *
 *   reading_begin()                       plans
 *   while ((sql = reading_next_sql(…)))   one, when a reading is clear; at most NL_CHOICES_MAX and two more
 *       reading_feed(…)                   with the rows, or with why there are none
 *   reading_answer()
 */

#include <stdbool.h>
#include <stdint.h>
#include "data/catalog.h"

#define READING_ROWS_MAX 1000

struct loop;
struct reading;

/*
 * The catalog is finished; it is referenced. ctx is what was asked before, NULL if nothing was; it
 * is not needed after this. Without `run` nothing is to be run: the answer has the SQL and no rows.
 * A question that cannot be planned at all gives an answer with status "error"; negative only when
 * out of memory.
 */
int reading_begin(struct catalog *c, const char *question, const struct nl_context *ctx, bool run,
                  struct reading **ret, struct err *err);
/*
 * The same, to be run, beside the loop if it takes long: done(arg) comes from within or later.
 * *ret is set before.
 */
int reading_begin_beside(struct loop *loop, const char *owner, struct catalog *c,
                         const char *question, const struct nl_context *ctx,
                         void (*done)(void *arg), void *arg, struct reading **ret, struct err *err);
void reading_destroy(struct reading *r); /* NULL is fine */

/* The query to run next; NULL when the answer is there. */
const char *reading_next_sql(const struct reading *r, int64_t *ret_max_rows);
/*
 * body: {"columns", "types", "rows", "row_count", "truncated"}, which is not changed; or NULL and
 * why.
 */
void reading_feed(struct reading *r, const json_t *body, const struct err *why);

/*
 * {"status": "answered", "reading", "probability", "plan", "sql", "chart"?, and with `run`
 * "columns", "types", "rows", "row_count", "truncated", "ties"?}, {"status": "asked", "choices":
 * [{"reading", "plan", "probability"}]}, {"status": "declined", "suggestions": [text]} or
 * {"status": "error", "error": {"type", "message"}}, which has what is known of the reading beside
 * it. "chart" is a hint as nl.h has it; "ties" are rows that the limit left out although they equal
 * the last one (summary_write_ties). Borrowed; NULL before the end.
 */
const json_t *reading_answer(const struct reading *r);

/*
 * For the trainer: what the confidence in the best reading is made of, and its rows, whether or
 * not it became the answer: {"evidence", "rows"}. NULL when there is no reading. New reference.
 */
json_t *reading_evidence(const struct reading *r);

#endif
