#ifndef RIDDLE_KERNEL_INGEST_CSV_LAYOUT_H
#define RIDDLE_KERNEL_INGEST_CSV_LAYOUT_H

#include "kernel/ingest/csv_records.h"

/*
 * How a text is separated, by its first lines. `delimiter` and `quote` are what the user has said;
 * NULL: nothing.
 */
int csv_layout_find(const char *text, size_t len, const char *delimiter, const char *quote,
                    struct csv_layout *ret, struct err *err);

#endif
