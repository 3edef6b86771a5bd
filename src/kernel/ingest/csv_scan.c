#include "kernel/ingest/csv_scan.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "base/macros.h"

#define MAX_INT_DIGITS 18
#define MAX_REAL_DIGITS 17
#define ROWS_BETWEEN_CHECKS 65536

static bool is_number(const struct column *c)
{
    return c->type == COLUMN_INTEGER || c->type == COLUMN_REAL;
}

/* Day, month and year are digits, in an order of their own. */
static bool has_order(const struct column *c)
{
    return c->type >= COLUMN_DATE && c->order_counts;
}

/* A guess may come out another way when the rest of the file is known. */
bool csv_scan_knows(const struct column *c)
{
    return c->type <= COLUMN_TIMESTAMP && c->code == CODE_NONE && c->n_nulls == 0 && !c->dropped &&
           c->affix == AFFIX_NONE &&
           (!is_number(c) || c->notation == NUMBER_PLAIN ?
                c->type != COLUMN_INTEGER || !c->any_separated :
                !c->guessed && c->notation <= NUMBER_POINTS_COMMA) &&
           (!has_order(c) ||
            (c->type == COLUMN_DATE && !c->guessed && c->order != DATE_YMD && !c->half_days));
}

const char *csv_scan_cast(const struct column *c)
{
    static const char *const numbers[] = {
        [NUMBER_COMMA] = "replace($,',','.')",
        [NUMBER_COMMAS_POINT] = "replace($,',','')",
        [NUMBER_POINTS_COMMA] = "replace(replace($,'.',''),',','.')"
    };
    static const char *const dates[][3] = {
        { "strptime($,'%d.%m.%Y')", "strptime($,'%d/%m/%Y')", "strptime($,'%d-%m-%Y')" },
        { "strptime($,'%m.%d.%Y')", "strptime($,'%m/%d/%Y')", "strptime($,'%m-%d-%Y')" },
    };

    if (is_number(c) && c->notation != NUMBER_PLAIN)
        return numbers[c->notation];
    if (has_order(c))
        return dates[c->order == DATE_MDY][c->separator == '/' ? 1 : c->separator == '-' ? 2 : 0];
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Bit i: p[i] is a digit, of 16 characters at most; bit 16 is never set. A number or a date is one
 * look at its characters, not one for each of them: the file is gone through while DuckDB reads it,
 * and every nanosecond of a field is one that DuckDB does not get.
 */
static inline uint32_t digits_at(const char *p, const char *end)
{
    uint32_t mask = 0;

#ifdef __SSE2__
    if (end - p >= 16) {
        __m128i v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8('0'));

        return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(9)), v));
    }
#endif
    for (int i = 0; i < 16 && p + i < end; i++)
        mask |= (uint32_t)is_digit(p[i]) << i;
    return mask;
}

/* Behind the digits from p on. */
static inline const char *pass_digits(const char *p, const char *end)
{
    int n = __builtin_ctz(~digits_at(p, end));

    p += n;
    while (n == 16 && p < end && is_digit(*p))
        p++;
    return p;
}

/* Behind the digits; NULL: none, a leading zero, or too many. */
static inline const char *pass_integer(const char *p, const char *end, size_t most)
{
    const char *from;

    if (p < end && *p == '-')
        p++;
    from = p;
    p = pass_digits(p, end);
    return p == from || (size_t)(p - from) > most || (*from == '0' && p - from > 1) ? NULL : p;
}

static inline const char *pass_real(const char *p, const char *end)
{
    const char *from = p, *point;

    p = pass_integer(p, end, MAX_REAL_DIGITS);
    if (!p || p == end || *p != '.')
        return p;
    point = p;
    p = pass_digits(p + 1, end);
    return p - point < 2 || p - from > MAX_REAL_DIGITS + 1 ? NULL : p;
}

/* With another decimal sign than the point, or signs between thousands; no exponents. */
static const char *pass_notation(const char *p, const char *end, const struct column *c)
{
    char decimal = number_decimal(c->notation), thousands = number_thousands(c->notation)[0];
    const char *from, *group;
    size_t digits;

    if (p < end && *p == '-')
        p++;
    from = p;
    p = pass_digits(p, end);
    digits = (size_t)(p - from);
    if (digits == 0 || (*from == '0' && digits > 1))
        return NULL;
    while (thousands && p < end && *p == thousands) {
        if (*from == '0' || digits > 3)
            return NULL;
        group = ++p;
        p = pass_digits(p, end);
        if (p - group != 3)
            return NULL;
    }
    if (c->type == COLUMN_REAL && p < end && *p == decimal) {
        group = ++p;
        p = pass_digits(p, end);
        if (p == group)
            return NULL;
    }
    return p - from > MAX_REAL_DIGITS ? NULL : p; /* the signs count, too: that is safe */
}

/* dddd-dd-dd */
static inline const char *pass_date(const char *p, const char *end)
{
    return end - p >= 10 && (digits_at(p, end) & 0x3ff) == 0x36f && p[4] == '-' && p[7] == '-' ?
               p + 10 :
               NULL;
}

/* dddd-dd-dd dd:dd:dd, and up to six digits of a second */
static const char *pass_timestamp(const char *p, const char *end)
{
    const char *from;

    p = pass_date(p, end);
    if (!p || end - p < 9 || (*p != ' ' && *p != 'T') || (digits_at(p + 1, end) & 0xff) != 0xdb ||
        p[3] != ':' || p[6] != ':')
        return NULL;
    p += 9;
    if (p == end || *p != '.')
        return p;
    from = ++p;
    p = pass_digits(p, end);
    return p == from || p - from > 6 ? NULL : p;
}

static const char *pass_boolean(const char *p, const char *end)
{
    if (end - p >= 4 && strncasecmp(p, "true", 4) == 0)
        return p + 4;
    return end - p >= 5 && strncasecmp(p, "false", 5) == 0 ? p + 5 : NULL;
}

/* To the next character that says something: separator, quote, line end, NUL. */
static inline const char *pass_text(const char *p, const char *end, char delimiter)
{
#ifdef __SSE2__
    const __m128i d = _mm_set1_epi8(delimiter), n = _mm_set1_epi8('\n'), r = _mm_set1_epi8('\r'),
                  q = _mm_set1_epi8('"'), z = _mm_setzero_si128();

    for (; end - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i hit = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(v, d), _mm_cmpeq_epi8(v, n)),
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, r), _mm_cmpeq_epi8(v, q)),
                         _mm_cmpeq_epi8(v, z)));
        int mask = _mm_movemask_epi8(hit);

        if (mask)
            return p + __builtin_ctz((unsigned)mask);
    }
#endif
    while (p < end && *p != delimiter && *p != '\n' && *p != '\r' && *p != '"' && *p != '\0')
        p++;
    return p;
}

/* 31.12.2024, as c->separator and c->order have it. */
static const char *pass_ordered(const char *p, const char *end, const struct column *c)
{
    int day, month;

    if (end - p < 10 || (digits_at(p, end) & 0x3ff) != 0x3db || p[2] != c->separator ||
        p[5] != c->separator)
        return NULL;
    day = (p[0] - '0') * 10 + p[1] - '0';
    month = (p[3] - '0') * 10 + p[4] - '0';
    if (c->order == DATE_MDY)
        SWAP_VALUES(day, month);
    return day >= 1 && day <= 31 && month >= 1 && month <= 12 ? p + 10 : NULL;
}

/* `c` is NULL where the type says all. */
static inline const char *pass_value(const char *p, const char *end, enum column_type type,
                                     const struct column *c, char delimiter)
{
    if (c && is_number(c) && c->notation != NUMBER_PLAIN && type != COLUMN_TEXT)
        return pass_notation(p, end, c);
    if (c && has_order(c) && type != COLUMN_TEXT)
        return pass_ordered(p, end, c);
    switch (type) {
    case COLUMN_TEXT:
        return pass_text(p, end, delimiter);
    case COLUMN_BOOLEAN:
        return pass_boolean(p, end);
    case COLUMN_INTEGER:
        return pass_integer(p, end, MAX_INT_DIGITS);
    case COLUMN_REAL:
        return pass_real(p, end);
    case COLUMN_DATE:
        return pass_date(p, end);
    default:
        return pass_timestamp(p, end);
    }
}

/* Behind the closing quote; NULL: there is none. */
static const char *pass_quoted(const char *p, const char *end, enum column_type type,
                               const struct column *c, char delimiter)
{
    const char *from = ++p;

    for (;;) {
        p = memchr(p, '"', (size_t)(end - p));
        if (!p)
            return NULL;
        if (p + 1 == end || p[1] != '"')
            break;
        p += 2;
    }
    if (type == COLUMN_TEXT)
        return memchr(from, '\0', (size_t)(p - from)) ? NULL : p + 1;
    return p > from && pass_value(from, p, type, c, delimiter) == p ? p + 1 : NULL;
}

bool csv_scan_is_plain(const struct csv_scan *s, const char *text, size_t len, int64_t *ret_rows)
{
    const char *p = text, *end = text + len;
    int64_t rows = -1; /* the header */

    while (p < end) {
        if (*p == '\n' || *p == '\r')
            return false; /* a blank line */
        for (size_t i = 0;;) {
            enum column_type type = rows < 0 ? COLUMN_TEXT : s->types[i];
            const struct column *c = s->columns ? &s->columns[i] : NULL;

            if (p < end && *p == '"')
                p = pass_quoted(p, end, type, c, s->delimiter);
            else if (p < end && *p != s->delimiter && *p != '\n' && *p != '\r')
                p = pass_value(p, end, type, c, s->delimiter);
            if (!p)
                return false;
            if (p < end && *p == s->delimiter) {
                if (++i == s->n_columns)
                    return false;
                p++;
                continue;
            }
            if (i + 1 != s->n_columns)
                return false;
            break;
        }
        if (p < end && *p == '\r' && s->returns)
            p++;
        else if (s->returns && p < end)
            return false;
        if (p < end && *p != '\n')
            return false;
        p += p < end;
        if (++rows % ROWS_BETWEEN_CHECKS == 0 && s->stop && atomic_load(s->stop))
            return false;
    }
    *ret_rows = rows;
    return rows > 0;
}
