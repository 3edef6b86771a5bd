#ifndef RIDDLE_AGENT_SUMMARY_H
#define RIDDLE_AGENT_SUMMARY_H

/*
 * What a result says, in a sentence or two, without a model: every figure in it is a cell of the
 * result, or a number of rows.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/*
 * Appends plain text. result: {"columns", "types"?, "rows", "row_count"?, "truncated"?, "error"?:
 * {"type", "message"} or null}; language: "sql", "plan" or "python", which the text speaks of;
 * reading: how the question was understood, NULL if nobody said. Texts from the data are cut and
 * have no control characters, but any markup that they hold is still in them.
 */
int summary_write(const json_t *result, const char *language, const char *reading, struct buf *b,
                  struct err *err);

/*
 * Appends " Tied with it: Rome and 2 others have the same total amount." ties: {"columns",
 * "types"?, "rows", "column": the one that is the same in all of them, "truncated": there may be
 * more}, NULL if there are none; n_shown: rows of the result.
 */
int summary_write_ties(const json_t *ties, size_t n_shown, struct buf *b, struct err *err);

#endif
