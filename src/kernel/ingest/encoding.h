#ifndef RIDDLE_KERNEL_INGEST_ENCODING_H
#define RIDDLE_KERNEL_INGEST_ENCODING_H

/*
 * The encoding of a text, by its mark, its pattern or the frequency of its letters; and the text as
 * UTF-8.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/*
 * The name that iconv knows it by: "utf-8" if most of the bytes are that, *ret_whole if all are.
 * `len` is of a piece from the beginning.
 */
const char *encoding_find(const unsigned char *data, size_t len, bool *ret_whole);

/* UTF-16 or UTF-32, by mark or pattern; NULL: neither. */
const char *encoding_wide(const unsigned char *data, size_t len);

struct encoding_result {
    int64_t n_replaced; /* places with bytes that are no text of that encoding */
    int64_t n_nul;      /* NUL characters, which were left out */
};

/* Writes the text to a new file. VALIDATION if iconv does not know the encoding; CANCELLED. */
int encoding_convert(const unsigned char *data, size_t len, const char *encoding,
                     const char *out_path, bool (*must_stop)(const void *arg), const void *arg,
                     struct encoding_result *ret, struct err *err);

#endif
