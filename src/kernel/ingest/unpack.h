#ifndef RIDDLE_KERNEL_INGEST_UNPACK_H
#define RIDDLE_KERNEL_INGEST_UNPACK_H

/* Files that are packed as a whole, by gzip or zstd. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct sql_engine;

/* What a reader of a file asks and tells meanwhile. */
struct data_hooks {
    bool (*must_stop)(const void *arg);
    void (*progress)(void *arg, double fraction); /* may be NULL */
    void *arg;
    struct sql_engine *engine; /* that reads files which are databases */
};

enum packed { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD, _PACKED_MAX };

const char *packed_name(enum packed kind); /* "gzip" */

/* By the first bytes. */
enum packed unpack_kind(const unsigned char *head, size_t len);

struct unpack {
    const char *name; /* of the file, for messages */
    const struct data_hooks *hooks;
    const unsigned char *data;
    size_t len;
    int fd; /* takes what is unpacked */
    uint64_t most;
    /* Its own: */
    size_t at;
    uint64_t written;
};

/* VALIDATION, with what is wrong and what to do; CANCELLED. */
int unpack(struct unpack *u, enum packed kind, struct err *err);

#endif
