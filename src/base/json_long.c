/*
 * Long strings. jansson reads a string byte by byte, some 25 ns each: a figure of 2 MB in base64
 * would hold up an event loop for 60 ms. Strings of printable ASCII without escapes need no
 * parsing, so long ones are taken out of the text, what is left is parsed, and they are put in
 * again.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/id.h"
#include "base/json_impl.h"

#define TEXT_MIN 65536 /* shorter texts are parsed as they are */
#define LONG_MIN 16384
#define LONG_MAX 64 /* of one text */
#define MARK_DIGITS 32

struct long_string {
    const char *text;
    size_t len;
};

struct extraction {
    char mark[MARK_DIGITS +
              1]; /* what stands for them begins with this: random, so no text has it */
    struct long_string strings[LONG_MAX];
    size_t n;
};

/* Only characters that stand for themselves in JSON and need no look at UTF-8. */
static bool is_plain(const char *s, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones * 0x80;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t w;

        memcpy(&w, s + i, 8);
        if ((w | ((w - ones * 0x20) & ~w)) & high)
            return false;
    }
    for (; i < len; i++) {
        if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x80)
            return false;
    }
    return !memchr(s, '\\', len);
}

/* The quote that ends the string which begins at s, or end. */
static const char *string_end(const char *s, const char *end)
{
    while (s < end) {
        const char *quote = memchr(s, '"', (size_t)(end - s));
        const char *escape = memchr(s, '\\', (size_t)((quote ? quote : end) - s));

        if (!escape)
            return quote ? quote : end;
        s = escape + 2;
    }
    return end;
}

/* The text with a mark for each long string; empty when there is none. */
static int extract(const char *text, size_t len, struct extraction *x, struct buf *out)
{
    const char *end = text + len, *copied = text;
    const char *quote = memchr(text, '"', len);
    int r = 0;

    while (r == 0 && quote && x->n < LONG_MAX) {
        const char *s = quote + 1, *close = string_end(s, end);
        size_t n = (size_t)(close - s);

        if (close < end && n >= LONG_MIN && is_plain(s, n)) {
            const char *after = close + 1;

            while (after < end && strchr(" \t\r\n", *after) && *after)
                after++;
            if (after == end || *after != ':') { /* a key stays */
                r = buf_append(out, copied, (size_t)(s - copied), NULL);
                if (r == 0)
                    r = buf_printf(out, NULL, "%s%zu", x->mark, x->n);
                x->strings[x->n++] = (struct long_string){ s, n };
                copied = close;
            }
        }
        quote = close < end ? memchr(close + 1, '"', (size_t)(end - close - 1)) : NULL;
    }
    return r == 0 && x->n > 0 ? buf_append(out, copied, (size_t)(end - copied), NULL) : r;
}

/* What stands for a long string, in a new reference; NULL for any other value, or out of memory. */
static json_t *replacement(const struct extraction *x, const json_t *value, bool *failed)
{
    const char *s = json_string_value(value);
    size_t i;
    json_t *j;

    if (!s || strncmp(s, x->mark, MARK_DIGITS) != 0)
        return NULL;
    i = strtoul(s + MARK_DIGITS, NULL, 10);
    j = i < x->n ? json_stringn_nocheck(x->strings[i].text, x->strings[i].len) : NULL;
    *failed = *failed || !j;
    return j;
}

static void put_back(const struct extraction *x, json_t *value, bool *failed)
{
    const char *key;
    json_t *item, *new;
    size_t i;
    void *tmp;

    json_array_foreach(value, i, item) {
        new = replacement(x, item, failed);
        if (new)
            *failed = json_array_set_new(value, i, new) < 0 || *failed;
        else
            put_back(x, item, failed);
    }
    json_object_foreach_safe(value, tmp, key, item) {
        new = replacement(x, item, failed);
        if (new)
            *failed = json_object_set_new_nocheck(value, key, new) < 0 || *failed;
        else
            put_back(x, item, failed);
    }
}

json_t *json_load(const char *text, size_t len, size_t flags, json_error_t *e)
{
    struct extraction x = { .n = 0 };
    auto_buf struct buf rest = BUF_INIT(len + (size_t)LONG_MAX * 64);
    bool failed = false;
    json_t *j;

    if (len >= TEXT_MIN) {
        id_hex(x.mark, MARK_DIGITS);
        failed = extract(text, len, &x, &rest) < 0;
    }
    if (x.n == 0 || failed)
        return json_loadb(text, len, flags, e);
    j = json_loadb(rest.data, rest.len, flags, e);
    if (!j)
        return json_loadb(text, len, flags, e); /* for the place of the error in this text */
    if (json_is_string(j)) {
        json_t *whole = replacement(&x, j, &failed);

        json_decref(j);
        return whole;
    }
    put_back(&x, j, &failed);
    if (!failed)
        return j;
    json_decref(j);
    return json_loadb(text, len, flags, e);
}
