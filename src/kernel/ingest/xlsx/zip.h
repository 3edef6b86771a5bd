#ifndef RIDDLE_KERNEL_INGEST_XLSX_ZIP_H
#define RIDDLE_KERNEL_INGEST_XLSX_ZIP_H

/*
 * Reading ZIP archives that come from anywhere: the directory, and the entries as streams. Nothing
 * in the archive is believed: offsets are checked against the file, sizes are counted while
 * unpacking, and the checksum is compared at the end. Messages are clauses ("its directory is
 * damaged") for a sentence that the caller begins; bad archives are VALIDATION.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/err.h"

#define ZIP_MAX_ENTRIES 10000

struct zip_entry {
    const char *name; /* in the archive's bytes, not terminated */
    size_t name_len;
    uint16_t method, flags;
    uint32_t crc;
    uint64_t compressed, header_at;
};

struct zip {
    const unsigned char *data;
    size_t len;
    struct zip_entry *entries;
    size_t n_entries;
};

/* The bytes must stay where they are while the archive or one of its streams is in use. */
int zip_open(struct zip *z, const void *data, size_t len, struct err *err);
void zip_finish(struct zip *z);

/* By name, the case of ASCII letters aside, as office documents have it. NULL: no such entry. */
const struct zip_entry *zip_find(const struct zip *z, const char *name);

struct zip_stream;

/* Past max_bytes of output, or past a ratio that no document reaches, reading fails. */
int zip_stream_open(const struct zip *z, const struct zip_entry *entry, uint64_t max_bytes,
                    struct zip_stream **ret, struct err *err);
/* Up to n bytes; 0 at the end, when everything has been checked. */
ssize_t zip_stream_read(void *stream, char *buf, size_t n, struct err *err);
double zip_stream_progress(const struct zip_stream *s); /* 0 to 1 */
void zip_stream_close(struct zip_stream *s);            /* takes NULL */

static inline void cleanup_zip_stream(struct zip_stream **s)
{
    zip_stream_close(*s);
}
#define auto_zip_stream __attribute__((cleanup(cleanup_zip_stream)))

#endif
