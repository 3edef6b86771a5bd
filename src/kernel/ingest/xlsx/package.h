#ifndef RIDDLE_KERNEL_INGEST_XLSX_PACKAGE_H
#define RIDDLE_KERNEL_INGEST_XLSX_PACKAGE_H

/*
 * ZIP archives that come from anywhere, read by libzip: names, and entries as streams. libzip
 * checks offsets and checksums; the limits are here. Messages are clauses ("its directory is
 * damaged") for a sentence that the caller begins; bad archives are VALIDATION.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"

#define PACKAGE_MAX_ENTRIES 10000

struct package {
    struct zip *zip;
    size_t bytes; /* of the archive */
    int64_t n_entries;
};

/* The bytes must stay where they are while the archive or one of its streams is in use. */
int package_open(struct package *p, const void *data, size_t len, struct err *err);
void package_finish(struct package *p);

const char *package_name(const struct package *p, int64_t entry);

/* By name, the case of ASCII letters aside, as office documents have it. -1: no such entry. */
int64_t package_find(const struct package *p, const char *name);

struct package_stream;

/* Past max_bytes of output, or past a ratio that no document reaches, reading fails. */
int package_stream_open(const struct package *p, int64_t entry, uint64_t max_bytes,
                        struct package_stream **ret, struct err *err);
/* Up to n bytes; 0 at the end, when everything has been checked. */
ssize_t package_stream_read(void *stream, char *buf, size_t n, struct err *err);
double package_stream_progress(const struct package_stream *s); /* 0 to 1 */
void package_stream_close(struct package_stream *s);            /* takes NULL */

static inline void cleanup_package_stream(struct package_stream **s)
{
    package_stream_close(*s);
}
#define auto_package_stream __attribute__((cleanup(cleanup_package_stream)))

#endif
