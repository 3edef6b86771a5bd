#ifndef RIDDLE_KERNEL_INGEST_CSV_GUESS_H
#define RIDDLE_KERNEL_INGEST_CSV_GUESS_H

/*
 * What DuckDB's sniffer will probably say of a plain CSV file, from its first lines: in microseconds, where the sniffer takes as long
 * as reading a small file does. A guess is never believed: it is a reason to begin with the reading while the sniffer is at work.
 */

#include "kernel/ingest/csv_dialect.h"
#include "kernel/ingest/csv_file.h"

/* 1 and *ret, or 0 when there is nothing to guess from. `file` is what csv_file_inspect() said. */
int csv_guess(const char *path, const struct csv_file *file, struct csv_dialect *ret, struct err *err);

#endif
