/*
 * Strings: comparison, UTF-8, strict numbers, and text for messages. Nothing here depends on the
 * locale or allocates.
 */

#include "base/str.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- comparison ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_eq(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool str_starts(const char *s, const char *prefix)
{
    return s && prefix && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n, m;

    if (!s || !suffix)
        return false;
    n = strlen(s);
    m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

bool str_ieq(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

bool str_is_identifier(const char *s)
{
    if (!s || !*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++) {
        char c = lower(*s);

        if (c != '_' && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return false;
    }
    return true;
}

/* ---- UTF-8 ---- */

size_t str_utf8_next(const char *s, size_t len, size_t *ret_bad)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xbf; /* what the second byte may be */
    size_t need, i;

    *ret_bad = 0;
    if (len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        need = 2;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        need = 3;
        if (p[0] == 0xe0)
            low = 0xa0; /* less is overlong */
        else if (p[0] == 0xed)
            high = 0x9f; /* more is a surrogate */
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        need = 4;
        if (p[0] == 0xf0)
            low = 0x90; /* less is overlong */
        else if (p[0] == 0xf4)
            high = 0x8f; /* more is past U+10FFFF */
    } else {
        *ret_bad = 1;
        return 0;
    }
    for (i = 1; i < need; i++) {
        if (i >= len || p[i] < low || p[i] > high) {
            *ret_bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return need;
}

bool str_is_utf8(const char *s, size_t len)
{
    size_t bad;

    while (len > 0) {
        uint64_t word;

        if (len >= sizeof(word) &&
            (memcpy(&word, s, sizeof(word)), (word & 0x8080808080808080u) == 0)) {
            s += sizeof(word); /* ASCII */
            len -= sizeof(word);
            continue;
        }
        size_t n = str_utf8_next(s, len, &bad);

        if (n == 0)
            return false;
        s += n;
        len -= n;
    }
    return true;
}

size_t str_utf8_cut(const char *s, size_t len, size_t max_bytes)
{
    if (len <= max_bytes)
        return len;
    /*
     * Only a whole character that spans the cut moves it; bytes that are no UTF-8 are cut where
     * they are.
     */
    for (size_t back = 1; back <= 3 && back <= max_bytes; back++) {
        size_t bad, start = max_bytes - back;

        if (str_utf8_next(s + start, len - start, &bad) > back)
            return start;
        if (bad > back) /* the tail of s is itself an incomplete character */
            return start;
    }
    return max_bytes;
}

const char *str_show(const char *s, size_t len, char *ret, size_t n)
{
    static const char more[] = "…";
    size_t used = 0, cut = 0, bad;

    if (n == 0)
        return ret;
    while (len > 0) {
        size_t k = str_utf8_next(s, len, &bad);
        size_t taken = k ? k : bad;
        bool plain = k > 0 && !(k == 1 && ((unsigned char)*s < 0x20 || *s == 0x7f)) &&
                     !(k == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0);
        size_t put = plain ? k : 1;

        if (used + put + 1 > n) {
            if (n >= sizeof(more)) {
                used = cut;
                memcpy(ret + used, more, sizeof(more) - 1);
                used += sizeof(more) - 1;
            }
            break;
        }
        if (plain)
            memcpy(ret + used, s, k);
        else
            ret[used] = '?';
        used += put;
        if (used + sizeof(more) <= n) /* the mark would still fit behind this character */
            cut = used;
        s += taken;
        len -= taken;
    }
    ret[used] = '\0';
    return ret;
}

/* ---- numbers ---- */

/* Reads digits up to the first byte that is none; false without a digit or on overflow. */
static bool scan_digits(const char *s, unsigned long long *ret_value, const char **ret_end)
{
    unsigned long long v = 0;
    const char *p = s;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, 10ull, &v) ||
            __builtin_add_overflow(v, (unsigned long long)(*p - '0'), &v))
            return false;
    }
    *ret_value = v;
    *ret_end = p;
    return p != s;
}

int str_parse_i64(const char *s, const char *what, long long min, long long max,
                  long long *ret_value, struct err *err)
{
    bool negative = s[0] == '-';
    const char *end = NULL;
    unsigned long long digits = 0;
    long long v = 0;
    char shown[STR_SHOWN_SIZE];
    bool good;

    good = scan_digits(s + negative, &digits, &end) && *end == '\0';
    if (good && negative) {
        good = digits <= (unsigned long long)INT64_MAX + 1;
        v = good ? (long long)(0 - digits) : 0;
    } else if (good) {
        good = digits <= (unsigned long long)INT64_MAX;
        v = good ? (long long)digits : 0;
    }
    if (!good || v < min || v > max)
        return err_set(err, ERR_VALIDATION,
                       "%s is '%s', but must be a whole number between %lld and %lld", what,
                       str_show(s, strlen(s), shown, sizeof(shown)), min, max);
    *ret_value = v;
    return 0;
}

int str_parse_bytes(const char *s, const char *what, unsigned long long *ret_bytes, struct err *err)
{
    static const char units[] = "kmgt";
    unsigned long long v = 0;
    const char *end = NULL;
    char shown[STR_SHOWN_SIZE];
    bool good;

    good = scan_digits(s, &v, &end);
    if (good && *end) {
        const char *unit = strchr(units, lower(*end));

        good = unit && end[1] == '\0' &&
               !__builtin_mul_overflow(v, 1ull << (10 * (unit - units + 1)), &v);
    }
    if (!good)
        return err_set(err, ERR_VALIDATION,
                       "%s is '%s', but must be a size such as 65536, 64k, 512m or 2g", what,
                       str_show(s, strlen(s), shown, sizeof(shown)));
    *ret_bytes = v;
    return 0;
}

size_t str_from_i64(int64_t v, char ret[STR_I64_SIZE])
{
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
    char digits[STR_I64_SIZE];
    size_t n = 0, len = 0;

    do
        digits[n++] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (v < 0)
        ret[len++] = '-';
    while (n > 0)
        ret[len++] = digits[--n];
    ret[len] = '\0';
    return len;
}

/*
 * Most numbers in data have few decimals. If v is the double next to n / 10^k, with both exact and
 * at most 15 digits in n, then that is how "%.15g" writes it, and the first such k is the shortest.
 */
static bool write_decimal(double v, char ret[STR_DOUBLE_SIZE])
{
    static const double powers[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8 };
    double size = fabs(v);

    if (!(size < 1e15) || size < 1e-4)
        return false;
    for (size_t k = 0; k < ARRAY_SIZE(powers); k++) {
        double n = nearbyint(size * powers[k]);
        char digits[STR_I64_SIZE];
        size_t len, whole;

        if (n >= 1e15)
            return false;
        if (n / powers[k] != size)
            continue;
        len = str_from_i64((int64_t)n, digits);
        whole = len > k ? len - k : 0;
        if (v < 0)
            *ret++ = '-';
        if (whole == 0)
            *ret++ = '0';
        memcpy(ret, digits, whole);
        ret += whole;
        if (k > 0)
            *ret++ = '.';
        for (size_t i = len; i < k; i++)
            *ret++ = '0';
        memcpy(ret, digits + whole, len - whole);
        ret[len - whole] = '\0';
        return true;
    }
    return false;
}

void str_from_double(double v, char ret[STR_DOUBLE_SIZE])
{
    if (write_decimal(v, ret))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret, STR_DOUBLE_SIZE, "%.*g", digits, v);
        if (isnan(v) || strtod(ret, NULL) == v)
            break;
    }
}

void str_rounded(double v, int places, char *ret, size_t n)
{
    /* A half at this place is exactly an odd number of 2^-(places + 1). */
    if (fmod(fabs(ldexp(v, places + 1)), 2) == 1)
        v = nextafter(v, v < 0 ? -INFINITY : INFINITY);
    snprintf(ret, n, "%.*f", places, v);
    size_t len = strlen(ret);
    if (strchr(ret, '.')) {
        while (ret[len - 1] == '0')
            ret[--len] = '\0';
        if (ret[len - 1] == '.')
            ret[--len] = '\0';
    }
    if (str_eq(ret, "-0"))
        memmove(ret, ret + 1, 2);
}

/* ---- did you mean ---- */

#define NEAREST_MAX 64

/*
 * Edits that turn a into b: insert, delete, replace, swap of neighbours (optimal string alignment),
 * case ignored.
 */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0], *prev = rows[1], *cur = rows[2];

    for (size_t j = 0; j <= m; j++)
        prev[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = before;

        cur[0] = i;
        for (size_t j = 1; j <= m; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            size_t best = prev[j - 1] + (x != y);

            best = MIN_OF(best, prev[j] + 1);
            best = MIN_OF(best, cur[j - 1] + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                best = MIN_OF(best, before[j - 2] + 1);
            cur[j] = best;
        }
        before = prev;
        prev = cur;
        cur = oldest;
    }
    return prev[m];
}

const char *str_nearest(const char *s, const char *const *names, size_t n)
{
    size_t len = strlen(s), best = SIZE_MAX;
    const char *nearest = NULL;

    if (len > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t m = strlen(names[i]), d;

        if (m > NEAREST_MAX)
            continue;
        d = edit_distance(s, len, names[i], m);
        /* At most a third of the longer word may differ: beyond that a suggestion is noise. */
        if (d < best && d <= MAX_OF(len, m) / 3) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* ---- paths ---- */

void str_stem(const char *path, char *ret, size_t n)
{
    size_t end = strlen(path), start;

    if (n == 0)
        return;
    while (end > 0 && path[end - 1] == '/')
        end--;
    start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    /* "orders.csv.gz" is a compressed "orders.csv". */
    static const char *const packed[] = { ".gz", ".zst" };
    for (size_t i = 0; i < 2; i++) {
        size_t k = strlen(packed[i]);

        if (end - start > k && strncasecmp(path + end - k, packed[i], k) == 0 &&
            memchr(path + start + 1, '.', end - start - k - 1)) {
            end -= k;
            break;
        }
    }
    for (size_t i = end; i > start + 1; i--) { /* a leading dot begins a name, not an extension */
        if (path[i - 1] == '.') {
            end = i - 1;
            break;
        }
    }
    end = start + str_utf8_cut(path + start, end - start, n - 1);
    memcpy(ret, path + start, end - start);
    ret[end - start] = '\0';
}

bool str_has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += len) {
        bool starts = p == text || strchr(" ,\n", p[-1]);
        bool ends = p[len] == 0 || strchr(" ,\n", p[len]);
        if (starts && ends)
            return true;
    }
    return false;
}
