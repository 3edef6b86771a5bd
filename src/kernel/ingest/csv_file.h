#ifndef RIDDLE_KERNEL_INGEST_CSV_FILE_H
#define RIDDLE_KERNEL_INGEST_CSV_FILE_H

/* What can be said about a text file from its first bytes. */

#include <stdint.h>
#include "base/err.h"
#include "base/fdio.h"

struct csv_file {
    int64_t size_bytes;
};

/* The bytes of a file that is ingested: VALIDATION if there are none. */
int csv_file_map(const char *path, struct fd_mapping *ret, struct err *err);

/*
 * VALIDATION, with the kind of file and what to do, if it is no text file with something in it.
 * `name` is the user's.
 */
int csv_file_inspect(const char *path, const char *name, struct csv_file *ret, struct err *err);

#endif
