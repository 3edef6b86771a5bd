#ifndef RIDDLE_NET_MULTIPART_H
#define RIDDLE_NET_MULTIPART_H

/*
 * multipart/form-data (RFC 7578) piece by piece, without buffering: data go to the callback
 * straight from the input. Bounded: parts, header bytes per part, length of names.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/err.h"

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEADERS_MAX 4096
#define MULTIPART_NAME_MAX 255
#define MULTIPART_PARTS_MAX 1024 /* unless told less */

struct multipart_part {
    const char *name; /* of the form field */
    /* NULL: a plain field. The last component of what was sent, UTF-8, no control characters. */
    const char *filename;
    const char *content_type; /* "" when not told */
};

struct multipart_handler {
    int (*begin)(void *arg, const struct multipart_part *part,
                 struct err *err); /* part is valid during the call */
    /* How much was taken, 0..len; less pauses the parser. -code with err set ends it. */
    ssize_t (*data)(void *arg, const char *data, size_t len, struct err *err);
    int (*end)(void *arg, struct err *err);
};

struct multipart;

/*
 * From the Content-Type header. UNSUPPORTED_MEDIA if it is no multipart/form-data, INVALID_INPUT
 * for a bad boundary.
 */
int multipart_create(const char *content_type, size_t max_parts,
                     const struct multipart_handler *handler, void *arg, struct multipart **ret,
                     struct err *err);
void multipart_destroy(struct multipart *mp);

/*
 * Bytes consumed (fewer than len only when data() paused), or -code: INVALID_INPUT, TOO_LARGE, or
 * the callback's.
 */
ssize_t multipart_feed(struct multipart *mp, const char *data, size_t len, struct err *err);

/* The input is over: INVALID_INPUT unless the closing boundary was seen. */
int multipart_finish(struct multipart *mp, struct err *err);

#endif
