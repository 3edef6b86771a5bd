#ifndef RIDDLE_BASE_BUF_H
#define RIDDLE_BASE_BUF_H

/*
 * A growable byte buffer that is born with its maximum. Data is kept NUL-terminated (the NUL is not
 * counted), so a buffer of text is a C string. After a failed append the buffer is unchanged.
 */

#include <stdarg.h>
#include <stddef.h>
#include "base/err.h"

struct buf {
    char *data; /* NULL until the first append */
    size_t len;
    size_t cap;
    size_t max_bytes;
};

#define BUF_INIT(max)                                                                              \
    {                                                                                              \
        .data = NULL, .len = 0, .cap = 0, .max_bytes = (max)                                       \
    }
#define auto_buf __attribute__((cleanup(buf_finish)))

void buf_init(struct buf *b, size_t max_bytes);
void buf_finish(struct buf *b); /* frees; the buffer is empty and reusable */
void buf_clear(struct buf *b);  /* keeps the memory */
/* TOO_LARGE past max_bytes, NO_MEMORY */
int buf_reserve(struct buf *b, size_t extra_bytes, struct err *err);
int buf_append(struct buf *b, const void *data, size_t len, struct err *err);
int buf_append_str(struct buf *b, const char *s, struct err *err);
/*
 * s between quotes[0], with every character of quotes in it doubled: a name ("\"") or a text ("'")
 * of SQL, or a text where backslashes are escapes ("'\\").
 */
int buf_append_quoted(struct buf *b, const char *quotes, const char *s, struct err *err);
int buf_printf(struct buf *b, struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* drops len bytes from the front; len <= b->len */
void buf_consume(struct buf *b, size_t len);
const char *buf_cstr(const struct buf *b); /* "" when empty, never NULL */
/* caller frees; never NULL unless out of memory */
char *buf_take(struct buf *b);

#endif
