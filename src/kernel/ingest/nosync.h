#ifndef RIDDLE_KERNEL_INGEST_NOSYNC_H
#define RIDDLE_KERNEL_INGEST_NOSYNC_H

/*
 * DuckDB syncs what it writes and has no setting against it. A table that somebody waits for, and
 * that is trusted only once riddle itself has synced it, need not wait for the disk: this program's
 * fsync() and fdatasync() stand before the C library's and can be told to do nothing.
 */

#include <stdbool.h>

void nosync_set(bool on);

#endif
