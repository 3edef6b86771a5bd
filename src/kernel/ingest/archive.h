#ifndef RIDDLE_KERNEL_INGEST_ARCHIVE_H
#define RIDDLE_KERNEL_INGEST_ARCHIVE_H

/* ZIP archives of data files: which of the files inside may be tables, and their bytes. */

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/fdio.h"
#include "kernel/ingest/xlsx/package.h"

#define ARCHIVE_NAME_SIZE 256

struct archive {
    struct fd_mapping file;
    struct package package;
    const char *const *endings;     /* of the files that may be tables */
    const char *wanted;             /* the only one to be read; NULL: all */
    bool has_book;                  /* one workbook, and no table besides */
    int64_t next;                   /* entry to be looked at */
    size_t n_files;                 /* that may be tables */
    size_t n_own_scratch;           /* scratch files that are not of one file */
    char member[ARCHIVE_NAME_SIZE]; /* the file that was unpacked last */
};

struct archive_hooks {
    bool (*must_stop)(const void *arg);
    const void *arg;
    uint64_t max_bytes; /* of the unpacked file */
};

/* 1 and *ret; 0: it is no archive of data files, but perhaps a workbook. */
int archive_open(const char *path, struct archive **ret, struct err *err);
void archive_close(struct archive *a); /* takes NULL */

/* The next file that may be a table; -1: that was the last one. */
int64_t archive_next(struct archive *a);
/* Writes it to fd. VALIDATION says what is wrong with it; CANCELLED. */
int archive_unpack(struct archive *a, int64_t entry, int fd, const struct archive_hooks *hooks,
                   struct err *err);

#endif
