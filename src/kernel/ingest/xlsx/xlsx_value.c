/*
 * Values of cells: numbers that are dates, numbers that are numbers, text that is a date, and the
 * types that columns of them have.
 */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define DAY_MS 86400000LL
#define LAST_DAY 2958465 /* 9999-12-31 */

/* ---- formats ------------------------------------------------------------------------------------------------------- */

/*
 * Some built-in formats have no code in the file. 27 to 36 and 50 to 58 are dates in East Asian
 * versions.
 */
enum number_format xlsx_builtin_format(long id)
{
    if ((id >= 14 && id <= 17) || id == 22 || (id >= 27 && id <= 36) || (id >= 50 && id <= 58))
        return FORMAT_DATE;
    if ((id >= 18 && id <= 21) || id == 45 || id == 47)
        return FORMAT_TIME;
    return id == 46 ? FORMAT_ELAPSED : FORMAT_NUMBER;
}

/*
 * [h], [mm], [ss]: hours, minutes, seconds that go on past a day. [Red] and [$€-407] are something
 * else.
 */
static bool is_elapsed(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!strchr("hHmMsS", s[i]) || tolower(s[i]) != tolower(s[0]))
            return false;
    }
    return len > 0;
}

enum number_format xlsx_format_of(const char *code)
{
    bool date = false, month = false, time = false;

    size_t zeros = strspn(code, "0");

    if (strcasecmp(code, "General") == 0)
        return FORMAT_NUMBER;
    if (zeros >= 2 && zeros <= 18 && (!code[zeros] || code[zeros] == ';'))
        return (enum number_format)(FORMAT_PADDED + zeros);
    for (const char *p = code; *p && *p != ';'; p++) { /* the first section decides */
        const char *close;

        switch (*p) {
        case '"':
            close = strchr(p + 1, '"');
            if (!close)
                return FORMAT_NUMBER;
            p = close;
            break;
        case '\\':
        case '_':
        case '*':
            if (!*++p)
                return FORMAT_NUMBER;
            break;
        case '[':
            close = strchr(p, ']');
            if (!close)
                return FORMAT_NUMBER;
            if (is_elapsed(p + 1, (size_t)(close - p - 1)))
                return FORMAT_ELAPSED;
            p = close;
            break;
        case 'd':
        case 'D':
        case 'y':
        case 'Y':
            date = true;
            break;
        case 'm':
        case 'M':
            month = true;
            break;
        case 'h':
        case 'H':
        case 's':
        case 'S':
            time = true;
            break;
        default:
            break;
        }
    }
    if (date || (month && !time))
        return FORMAT_DATE;
    return time ? FORMAT_TIME : FORMAT_NUMBER;
}

/* ---- dates --------------------------------------------------------------------------------------------------------- */

/*
 * Days since 1970-01-01 → year, month, day (the proleptic Gregorian calendar, in eras of 400 years
 * that begin in March).
 */
static void civil(int64_t days, int *year, int *month, int *day)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), m = (5 * doy + 2) / 153;

    *day = (int)(doy - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

/*
 * Excel counts days from 1900-01-01 as 1, and 60 as the 29th of February 1900, which did not exist;
 * so from 61 on the count is one too high. Workbooks from the Mac may count from 1904-01-01 as 0.
 */
static int64_t days_of_serial(int64_t serial, bool since_1904)
{
    if (since_1904)
        return serial - 24107;
    return serial < 60 ? serial - 25568 : serial - 25569;
}

static void format_clock(int64_t ms, char *out, size_t size)
{
    int n = snprintf(out, size, "%02lld:%02lld:%02lld", (long long)(ms / 3600000),
                     (long long)(ms / 60000 % 60), (long long)(ms / 1000 % 60));

    if (ms % 1000 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ".%03lld", (long long)(ms % 1000));
}

/* CELL_NONE if v is no day that there is. */
static enum cell_kind format_serial(double v, enum number_format format, bool since_1904, char *out,
                                    size_t size)
{
    char clock[40];
    int year, month, day;

    if (!(v >= 0 && v < LAST_DAY + 1))
        return CELL_NONE;
    int64_t days = (int64_t)floor(v), ms = llround((v - floor(v)) * (double)DAY_MS);
    if (ms == DAY_MS) {
        days++;
        ms = 0;
    }
    if (format == FORMAT_ELAPSED) {
        out[0] = SHEET_INTERVAL_MARK;
        format_clock(days * DAY_MS + ms, out + 1, size - 1);
        return CELL_INTERVAL;
    }
    format_clock(ms, clock, sizeof(clock));
    if (format == FORMAT_TIME && days == 0) {
        snprintf(out, size, "%s", clock);
        return CELL_TIME;
    }
    civil(days_of_serial(days, since_1904), &year, &month, &day);
    if (year > 9999)
        return CELL_NONE;
    if (ms == 0) {
        snprintf(out, size, "%04d-%02d-%02d", year, month, day);
        return CELL_DATE;
    }
    snprintf(out, size, "%04d-%02d-%02d %s", year, month, day, clock);
    return CELL_TIMESTAMP;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

/* The whole text, nothing that strtod() would take beyond it (inf, nan, hexadecimal). */
static bool parse_double(const char *s, double *ret)
{
    char *end;

    if (!*s || s[strspn(s, "0123456789+-.eE")])
        return false;
    *ret = strtod(s, &end);
    return !*end && isfinite(*ret);
}

static bool is_short_integer(const char *s)
{
    size_t n;

    s += *s == '-';
    n = strspn(s, "0123456789");
    return n > 0 && n <= 18 && !s[n];
}

enum cell_kind xlsx_number(struct buf *text, enum number_format format, bool since_1904,
                           struct err *err)
{
    char out[80] = "";
    enum cell_kind kind = CELL_NONE;
    double v;

    if (!parse_double(buf_cstr(text), &v))
        return CELL_NONE;
    if (format > FORMAT_PADDED && v == floor(v) && v >= 0 && v < 1e15) {
        snprintf(out, sizeof(out), "%0*.0f", (int)(format - FORMAT_PADDED), v);
        kind = CELL_TEXT;
    } else if (format != FORMAT_NUMBER && format < FORMAT_PADDED)
        kind = format_serial(v, format, since_1904, out, sizeof(out));
    if (kind == CELL_NONE && is_short_integer(buf_cstr(text)))
        return CELL_INTEGER;
    if (kind == CELL_NONE && v == floor(v) && fabs(v) < 1e15) {
        snprintf(out, sizeof(out), "%.0f", v == 0 ? 0.0 : v); /* 1E3 and 5.0 are integers too */
        kind = CELL_INTEGER;
    }
    if (kind == CELL_NONE) { /* as it was typed: 0.1 is stored with 17 digits */
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(out, sizeof(out), "%.*g", digits, v);
            if (strtod(out, NULL) == v)
                break;
        }
        kind = CELL_REAL;
    }
    buf_clear(text);
    return buf_append_str(text, out, err) < 0 ? CELL_NONE : kind;
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static int hex_of(const char *s)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)s[i]))
            return -1;
        v = v * 16 + (isdigit((unsigned char)s[i]) ? s[i] - '0' : tolower(s[i]) - 'a' + 10);
    }
    return v;
}

size_t xlsx_unescape(char *text, size_t len)
{
    size_t n = 0;

    if (!memmem(text, len, "_x", 2))
        return len;
    for (size_t i = 0; i < len;) {
        int c = len - i >= 7 && text[i] == '_' && text[i + 1] == 'x' && text[i + 6] == '_' ?
                    hex_of(text + i + 2) :
                    -1;

        if (c < 0 || (c >= 0xd800 && c <= 0xdfff)) {
            text[n++] = text[i++];
            continue;
        }
        i += 7; /* it becomes three bytes at most, so writing stays behind reading */
        if (c < 0x80) {
            if (c >= 0x20 || c == '\t' || c == '\n' || c == '\r')
                text[n++] = (char)c;
        } else if (c < 0x800) {
            text[n++] = (char)(0xc0 | c >> 6);
            text[n++] = (char)(0x80 | (c & 63));
        } else {
            text[n++] = (char)(0xe0 | c >> 12);
            text[n++] = (char)(0x80 | (c >> 6 & 63));
            text[n++] = (char)(0x80 | (c & 63));
        }
    }
    return n;
}
