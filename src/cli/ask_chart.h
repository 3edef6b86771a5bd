#ifndef RIDDLE_CLI_ASK_CHART_H
#define RIDDLE_CLI_ASK_CHART_H

/* The chart of an answer as a file. */

#include <stdbool.h>
#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "run/foreground.h"

/* "png" or "svg", by the end of the name; NULL for any other. */
const char *ask_chart_format(const char *path);
/*
 * VALIDATION unless the name ends in .png or .svg; CONFLICT if there is such a file and it may not
 * be replaced.
 */
int ask_chart_check(const char *path, bool force, struct err *err);

/*
 * Draws in a sandbox of its own and writes the file, which is whole or not there. VALIDATION when
 * no chart fits the answer.
 */
int ask_chart_write(struct foreground *fg, const struct config *cfg, const json_t *answer,
                    const char *path, bool force, struct err *err);

#endif
