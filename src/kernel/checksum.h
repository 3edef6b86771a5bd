#ifndef RIDDLE_KERNEL_CHECKSUM_H
#define RIDDLE_KERNEL_CHECKSUM_H

/* Fast, and not for adversaries: it finds damage. Four lanes. */

#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) checksum_word;

static inline __attribute__((always_inline)) uint64_t checksum(uint64_t seed, const void *data,
                                                               size_t bytes)
{
    const checksum_word *p = data;
    uint64_t a = seed ^ 0x9e3779b97f4a7c15ull, b = a + 1, c = a + 2, d = a + 3;
    const uint64_t m = 0xff51afd7ed558ccdull;
    for (size_t n = bytes / 32; n > 0; n--, p += 4) {
        a = (a ^ p[0]) * m;
        b = (b ^ p[1]) * m;
        c = (c ^ p[2]) * m;
        d = (d ^ p[3]) * m;
        a ^= a >> 29;
        b ^= b >> 31;
        c ^= c >> 33;
        d ^= d >> 27;
    }
    const unsigned char *rest = (const unsigned char *)p;
    for (size_t n = bytes % 32; n > 0; n--)
        a = (a ^ *rest++) * m;
    a ^= b * 3 ^ c * 5 ^ d * 7;
    return (a ^ (a >> 32)) * m;
}

#endif
