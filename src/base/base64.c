/* Base64 in both directions, a block at a time: the callers move megabytes. */

#include "base/base64.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Quads that are put together before they are appended. */
#define BLOCK 1024

int base64_encode(const void *data, size_t len, struct buf *b, struct err *err)
{
    const uint8_t *in = data;
    char block[BLOCK * 4];
    size_t n = 0;
    int r = buf_reserve(b, len / 3 * 4 + 4, err);

    for (size_t i = 0; r == 0 && i < len; i += 3) {
        size_t left = len - i;
        uint32_t bits = (uint32_t)in[i] << 16 | (uint32_t)(left > 1 ? in[i + 1] : 0) << 8 |
                        (left > 2 ? in[i + 2] : 0);

        block[n++] = digits[bits >> 18];
        block[n++] = digits[bits >> 12 & 63];
        block[n++] = left > 1 ? digits[bits >> 6 & 63] : '=';
        block[n++] = left > 2 ? digits[bits & 63] : '=';
        if (n == sizeof(block) || left <= 3) {
            r = buf_append(b, block, n, err); /* cannot fail: reserved */
            n = 0;
        }
    }
    return r;
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t len, struct buf *b, struct err *err)
{
    char block[BLOCK * 3];
    size_t n = 0, start = b->len;
    bool good = len % 4 == 0;
    int r = good ? buf_reserve(b, len / 4 * 3, err) : 0;

    for (size_t i = 0; good && r == 0 && i < len; i += 4) {
        size_t pad = 0;
        if (i + 4 == len && text[i + 3] == '=')
            pad = text[i + 2] == '=' ? 2 : 1;
        int v[4] = { value_of(text[i]), value_of(text[i + 1]), pad > 1 ? 0 : value_of(text[i + 2]),
                     pad > 0 ? 0 : value_of(text[i + 3]) };
        good = v[0] >= 0 && v[1] >= 0 && v[2] >= 0 && v[3] >= 0;
        if (!good)
            break;
        uint32_t bits = (uint32_t)v[0] << 18 | (uint32_t)v[1] << 12 | (uint32_t)v[2] << 6 |
                        (uint32_t)v[3];
        good = (bits & (pad == 2 ? 0xffffu : pad == 1 ? 0xffu : 0u)) == 0;
        block[n++] = (char)(bits >> 16);
        if (pad < 2)
            block[n++] = (char)(bits >> 8);
        if (pad < 1)
            block[n++] = (char)bits;
        if (n > sizeof(block) - 3 || i + 4 == len) {
            r = buf_append(b, block, n, err);
            n = 0;
        }
    }
    if (good && r == 0)
        return 0;
    if (b->data) {
        b->len = start;
        b->data[start] = '\0';
    }
    return r < 0 ? r : err_set(err, ERR_VALIDATION, "not valid base64");
}
