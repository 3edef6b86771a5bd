#ifndef RIDDLE_BASE_STR_H
#define RIDDLE_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* True if `word` is one of the words of `text`, separated by spaces, commas or line breaks. */
bool str_has_word(const char *text, const char *word);
bool str_ieq(const char *a, const char *b);  /* ASCII case ignored */
bool str_is_identifier(const char *s);       /* ^[A-Za-z_][A-Za-z0-9_]*$ */
bool str_is_utf8(const char *s, size_t len); /* strict: no overlong form, no surrogate */

/*
 * Length of the longest prefix of at most max_bytes that ends between characters. Text that fits is
 * left as it is.
 */
size_t str_utf8_cut(const char *s, size_t len, size_t max_bytes);

/*
 * Bytes of the character at s; 0 if it is none, and then *ret_bad is how many bytes one U+FFFD
 * should stand for.
 */
size_t str_utf8_next(const char *s, size_t len, size_t *ret_bad);

/*
 * s as it may stand in a message: control characters and invalid bytes become '?', what does not
 * fit is cut with '…'. Returns ret, so that it can be an argument of err_set().
 */
#define STR_SHOWN_SIZE 96
const char *str_show(const char *s, size_t len, char *ret, size_t n);

#define STR_I64_SIZE 24
size_t str_from_i64(int64_t v, char ret[STR_I64_SIZE]); /* its length */

/* The shortest decimal of 15 to 17 digits that reads back as v ("0.1"; "nan", "inf"). */
#define STR_DOUBLE_SIZE 32
void str_from_double(double v, char ret[STR_DOUBLE_SIZE]);

/*
 * A finite number for people: at most so many decimals, no zeros behind the last. Halves go away
 * from zero, as the page's toFixed() has it; printf's go to the even digit.
 */
void str_rounded(double v, int places, char *ret, size_t n);

/*
 * Strict decimal: the whole string, no sign surprises, within [min,max]; otherwise VALIDATION
 * naming `what`.
 */
int str_parse_i64(const char *s, const char *what, long long min, long long max,
                  long long *ret_value, struct err *err);
/* "64k", "512m", "2g", or plain bytes; powers of 1024. */
int str_parse_bytes(const char *s, const char *what, unsigned long long *ret_bytes,
                    struct err *err);

/*
 * The member of `names` (count n) nearest to s by edit distance, or NULL if none is near: for "did
 * you mean".
 */
const char *str_nearest(const char *s, const char *const *names, size_t n);

/*
 * The file name of a path without directory and last extension (and a ".gz" behind that), into ret
 * (size n).
 */
void str_stem(const char *path, char *ret, size_t n);

#endif
