/* The growable buffer. `cap` counts the terminating NUL, `len` and `max_bytes` do not. */

#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_CAP_MIN 64u

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf)BUF_INIT(max_bytes);
}

void buf_finish(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

int buf_reserve(struct buf *b, size_t extra_bytes, struct err *err)
{
    size_t max = MIN_OF(b->max_bytes, SIZE_MAX - 1); /* room for the NUL, whatever the maximum */
    size_t need, cap;
    char *data;

    if (b->len > max || extra_bytes > max - b->len)
        return err_set(err, ERR_TOO_LARGE, "larger than the limit of %zu bytes", b->max_bytes);
    need = b->len + extra_bytes + 1;
    if (need <= b->cap)
        return 0;

    cap = MAX_OF(b->cap, BUF_CAP_MIN);
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    cap = MAX_OF(MIN_OF(cap, max + 1), need);
    data = realloc(b->data, cap);
    if (!data)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a buffer of %zu bytes", cap);
    b->data = data;
    b->cap = cap;
    b->data[b->len] = '\0';
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t len, struct err *err)
{
    int r = buf_reserve(b, len, err);

    if (r < 0)
        return r;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_append_str(struct buf *b, const char *s, struct err *err)
{
    return buf_append(b, s, strlen(s), err);
}

int buf_append_quoted(struct buf *b, const char *quotes, const char *s, struct err *err)
{
    int r = buf_append(b, quotes, 1, err);

    while (r >= 0 && *s) {
        size_t n = strcspn(s, quotes);

        r = buf_append(b, s, n, err);
        s += n;
        if (r >= 0 && *s) {
            r = buf_append(b, (const char[]){ *s, *s }, 2, err);
            s++;
        }
    }
    return r < 0 ? r : buf_append(b, quotes, 1, err);
}

int buf_printf(struct buf *b, struct err *err, const char *fmt, ...)
{
    va_list args;
    int n, r;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return err_set(err, ERR_INTERNAL, "cannot format text by '%s'", fmt);
    r = buf_reserve(b, (size_t)n, err);
    if (r < 0)
        return r;
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t len)
{
    assert(len <= b->len);
    if (len == 0)
        return;
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

const char *buf_cstr(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *data = b->data ? b->data : calloc(1, 1);

    b->data = NULL;
    b->len = b->cap = 0;
    return data;
}
