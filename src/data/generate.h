#ifndef RIDDLE_DATA_GENERATE_H
#define RIDDLE_DATA_GENERATE_H

/*
 * Writes the bundled sets: DIR/<id>/<file>.csv and DIR/registry.json, the same bytes every time and
 * on every machine.
 *
 * Files of the bundled sets are replaced. A registry that is already there keeps what it says about
 * other sets; one that cannot be read is an error, and nothing is written.
 */

#include "base/err.h"

int datasets_generate(const char *dir, struct err *err);

#endif
