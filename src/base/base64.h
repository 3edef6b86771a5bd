#ifndef RIDDLE_BASE_BASE64_H
#define RIDDLE_BASE_BASE64_H

/* Base64 (RFC 4648, with padding), for bytes that travel in JSON. */

#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"

/* Both append to b, which is unchanged on failure. */
int base64_encode(const void *data, size_t len, struct buf *b, struct err *err);
/*
 * Strict: no line breaks, whole quads, padding only at the end, no stray bits. VALIDATION
 * otherwise.
 */
int base64_decode(const char *text, size_t len, struct buf *b, struct err *err);

#endif
