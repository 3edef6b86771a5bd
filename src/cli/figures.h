#ifndef RIDDLE_CLI_FIGURES_H
#define RIDDLE_CLI_FIGURES_H

/*
 * Figures that a run drew, saved as files: <directory>/<stem>-1.png, <stem>-2.png, … and .svg
 * beside when asked for.
 */

#include <stdbool.h>
#include "base/err.h"
#include "base/json.h"

struct figures {
    const char *directory;
    const char *stem;
    int count;
    bool keep; /* what is there is not replaced: the next number that is free is taken */
};

/*
 * Saves the figure in a display, if it is one, and prints the names of its files on standard error.
 * Returns 1 if it was a figure, 0 if not, negative on failure.
 */
int figures_save(struct figures *f, const json_t *display, struct err *err);

#endif
