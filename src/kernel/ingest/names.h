#ifndef RIDDLE_KERNEL_INGEST_NAMES_H
#define RIDDLE_KERNEL_INGEST_NAMES_H

#include <stddef.h>
#include "base/err.h"

/* Names that differ, case ignored as DuckDB does: a second `a` becomes a_1. Each is on the heap. */
int names_make_unique(char **names, size_t n, struct err *err);

#endif
