/*
 * Dates and times as people write them. A text is taken apart into numbers, month names and signs;
 * what is left over at its end, or
 * a day that no calendar has, makes it no date.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "kernel/ingest/value.h"

struct scan {
    const char *s;
    size_t len, at;
};

/*
 * English, German, French, Spanish, Italian, Dutch, and Portuguese where it differs: what a month's
 * name begins with.
 */
static const struct {
    const char *name;
    int month;
} months[] = {
    { "january", 1 },
    { "januar", 1 },
    { "janvier", 1 },
    { "enero", 1 },
    { "gennaio", 1 },
    { "januari", 1 },
    { "j\xc3\xa4nner", 1 },
    { "janeiro", 1 },
    { "jan", 1 },
    { "janv", 1 },
    { "ene", 1 },
    { "gen", 1 },
    { "february", 2 },
    { "februar", 2 },
    { "f\xc3\xa9vrier", 2 },
    { "febrero", 2 },
    { "febbraio", 2 },
    { "februari", 2 },
    { "fevereiro", 2 },
    { "feb", 2 },
    { "f\xc3\xa9v", 2 },
    { "f\xc3\xa9vr", 2 },
    { "fev", 2 },
    { "march", 3 },
    { "m\xc3\xa4rz", 3 },
    { "mars", 3 },
    { "marzo", 3 },
    { "maart", 3 },
    { "mar\xc3\xa7o", 3 },
    { "mar", 3 },
    { "m\xc3\xa4r", 3 },
    { "mrz", 3 },
    { "mrt", 3 },
    { "april", 4 },
    { "avril", 4 },
    { "abril", 4 },
    { "aprile", 4 },
    { "apr", 4 },
    { "avr", 4 },
    { "abr", 4 },
    { "may", 5 },
    { "mai", 5 },
    { "mayo", 5 },
    { "maggio", 5 },
    { "mei", 5 },
    { "maio", 5 },
    { "mag", 5 },
    { "june", 6 },
    { "juni", 6 },
    { "juin", 6 },
    { "junio", 6 },
    { "giugno", 6 },
    { "junho", 6 },
    { "jun", 6 },
    { "giu", 6 },
    { "july", 7 },
    { "juli", 7 },
    { "juillet", 7 },
    { "julio", 7 },
    { "luglio", 7 },
    { "julho", 7 },
    { "jul", 7 },
    { "juil", 7 },
    { "lug", 7 },
    { "august", 8 },
    { "ao\xc3\xbbt", 8 },
    { "agosto", 8 },
    { "augustus", 8 },
    { "aug", 8 },
    { "ago", 8 },
    { "september", 9 },
    { "septembre", 9 },
    { "septiembre", 9 },
    { "settembre", 9 },
    { "setembro", 9 },
    { "sep", 9 },
    { "sept", 9 },
    { "set", 9 },
    { "october", 10 },
    { "oktober", 10 },
    { "octobre", 10 },
    { "octubre", 10 },
    { "ottobre", 10 },
    { "outubro", 10 },
    { "oct", 10 },
    { "okt", 10 },
    { "ott", 10 },
    { "out", 10 },
    { "november", 11 },
    { "novembre", 11 },
    { "noviembre", 11 },
    { "novembro", 11 },
    { "nov", 11 },
    { "december", 12 },
    { "dezember", 12 },
    { "d\xc3\xa9"
      "cembre",
      12 },
    { "diciembre", 12 },
    { "dicembre", 12 },
    { "dezembro", 12 },
    { "dec", 12 },
    { "dez", 12 },
    { "d\xc3\xa9"
      "c",
      12 },
    { "dic", 12 },
};

static const char *const weekdays[] = {
    "monday", "tuesday",  "wednesday", "thursday", "friday",     "saturday", "sunday",  "mon",
    "tue",    "tues",     "wed",       "thu",      "thur",       "thurs",    "fri",     "sat",
    "sun",    "montag",   "dienstag",  "mittwoch", "donnerstag", "freitag",  "samstag", "sonntag",
    "mo",     "di",       "mi",        "do",       "fr",         "sa",       "so",      "lundi",
    "mardi",  "mercredi", "jeudi",     "vendredi", "samedi",     "dimanche", "lun",     "mar",
    "mer",    "jeu",      "ven",       "sam",      "dim",
};

static bool is_leap(int y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

static bool is_day(int y, int m, int d)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

    return y >= 1 && y <= 9999 && m >= 1 && m <= 12 && d >= 1 &&
           d <= days[m - 1] + (m == 2 && is_leap(y));
}

/* 1950 to 2049, as Windows has it. */
static int full_year(int y, bool is_short)
{
    return is_short ? y + (y < 50 ? 2000 : 1900) : y;
}

static char peek(const struct scan *c)
{
    return c->at < c->len ? c->s[c->at] : '\0';
}

static bool take(struct scan *c, char sign)
{
    if (c->at >= c->len || c->s[c->at] != sign)
        return false;
    c->at++;
    return true;
}

static size_t skip_spaces(struct scan *c)
{
    size_t from = c->at;

    while (peek(c) == ' ')
        c->at++;
    return c->at - from;
}

static size_t digits_ahead(const struct scan *c)
{
    size_t n = 0;

    while (c->at + n < c->len && isdigit((unsigned char)c->s[c->at + n]))
        n++;
    return n;
}

/* How many digits it has; 0: none or more than most. */
static size_t take_digits(struct scan *c, size_t most, int *ret)
{
    size_t from = c->at;

    *ret = 0;
    while (c->at < c->len && isdigit((unsigned char)c->s[c->at])) {
        if (c->at - from == most)
            return 0;
        *ret = *ret * 10 + (c->s[c->at++] - '0');
    }
    return c->at - from;
}

/* Letters, those of other alphabets than ours included. */
static size_t word_len(const struct scan *c)
{
    size_t n = 0;

    while (c->at + n < c->len &&
           (isalpha((unsigned char)c->s[c->at + n]) || (unsigned char)c->s[c->at + n] >= 0x80))
        n++;
    return n;
}

/* Also É for é: upper case of the two-byte letters that month names have. */
static bool same_word(const char *word, const char *s, size_t len)
{
    if (strlen(word) != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char a = (unsigned char)word[i], b = (unsigned char)s[i];

        if (b >= 0x80 ? a != b && !(i > 0 && (unsigned char)s[i - 1] == 0xc3 && a == b + 0x20) :
                        a != tolower(b))
            return false;
    }
    return true;
}

static int take_month(struct scan *c)
{
    size_t n = word_len(c);

    for (size_t i = 0; n >= 3 && i < ARRAY_SIZE(months); i++)
        if (same_word(months[i].name, c->s + c->at, n)) {
            c->at += n;
            take(c, '.');
            return months[i].month;
        }
    return 0;
}

static void skip_weekday(struct scan *c)
{
    size_t n = word_len(c), from = c->at;

    for (size_t i = 0; n >= 2 && i < ARRAY_SIZE(weekdays); i++)
        if (same_word(weekdays[i], c->s + c->at, n)) {
            c->at += n;
            take(c, '.');
            take(c, ',');
            if (skip_spaces(c) == 0) /* "mar-21" is no Tuesday */
                c->at = from;
            return;
        }
}

/* ---- times ---- */

static bool take_zone(struct scan *c, struct when *w)
{
    int h, m = 0;
    size_t n, from = c->at, spaces = skip_spaces(c);
    char sign = peek(c);

    if (take(c, 'Z') || take(c, 'z')) {
        w->zone = true;
        return true;
    }
    if (c->len - c->at >= 3 &&
        (memcmp(c->s + c->at, "UTC", 3) == 0 || memcmp(c->s + c->at, "GMT", 3) == 0)) {
        c->at += 3;
        w->zone = true;
        sign = peek(c);
    }
    if (sign != '+' && sign != '-') {
        if (!w->zone)
            c->at = from;
        return true;
    }
    (void)spaces;
    c->at++;
    n = take_digits(c, 4, &h);
    if (n == 4) {
        m = h % 100;
        h /= 100;
    } else if (n != 2 && n != 1) {
        return false;
    } else if (take(c, ':') && take_digits(c, 2, &m) != 2) {
        return false;
    }
    if (h > 15 || m > 59)
        return false;
    w->zone = true;
    w->zone_minutes = (sign == '-' ? -1 : 1) * (h * 60 + m);
    return true;
}

static bool take_half_day(struct scan *c, struct when *w)
{
    char a, m;

    skip_spaces(c);
    a = (char)tolower((unsigned char)peek(c));
    if (a != 'a' && a != 'p')
        return false;
    c->at++;
    take(c, '.');
    m = (char)tolower((unsigned char)peek(c));
    if (m != 'm')
        return false;
    c->at++;
    take(c, '.');
    if (w->hour < 1 || w->hour > 12)
        return false;
    w->hour = w->hour % 12 + (a == 'p' ? 12 : 0);
    w->half_day = true;
    return true;
}

/* h:mm[:ss[.f…]] [am] [zone]. False: there is none, or it is wrong. */
/* 10:15 Uhr */
static bool take_clock_word(struct scan *c)
{
    size_t from = c->at;

    skip_spaces(c);
    if (c->len - c->at == 3 && memcmp(c->s + c->at, "Uhr", 3) == 0) {
        c->at = c->len;
        return true;
    }
    c->at = from;
    return false;
}

static bool take_time(struct scan *c, struct when *w)
{
    size_t n = take_digits(c, 2, &w->hour), from;

    if (n == 0 || !take(c, ':') || take_digits(c, 2, &w->minute) != 2)
        return false;
    if (take(c, ':')) {
        if (take_digits(c, 2, &w->second) != 2)
            return false;
        if (peek(c) == '.' || peek(c) == ',') {
            size_t k = 0;

            c->at++;
            while (c->at < c->len && isdigit((unsigned char)c->s[c->at])) {
                if (k == 9)
                    return false;
                w->fraction[k++] = c->s[c->at++];
            }
            if (k == 0)
                return false;
            w->fraction[k] = '\0';
        }
    }
    from = c->at;
    if (take_clock_word(c))
        return w->hour < 24 && w->minute < 60 && w->second < 60;
    if (!take_half_day(c, w))
        c->at = from;
    else if (from == c->at)
        return false;
    if (w->hour > 23 || w->minute > 59 || w->second > 59)
        return false;
    return take_zone(c, w);
}

/* ---- days ---- */

static bool set_day(struct when *w, int y, bool is_short, int m, int d)
{
    w->kind = WHEN_DAY;
    w->orders = DATE_ORDERS;
    w->part[0] = full_year(y, is_short);
    w->part[1] = m;
    w->part[2] = d;
    w->short_year = is_short;
    return is_day(w->part[0], m, d);
}

static bool set_month(struct when *w, int y, bool is_short, int m)
{
    bool ok = set_day(w, y, is_short, m, 1);

    w->kind = WHEN_MONTH;
    return ok;
}

static bool set_quarter(struct when *w, int y, int q)
{
    bool ok = q >= 1 && q <= 4 && y >= 1900 && y <= 2100 && set_day(w, y, false, 3 * q - 2, 1);

    w->kind = WHEN_QUARTER;
    return ok;
}

/* a sep b sep c, all digits */
static bool set_parts(struct when *w, const int p[3], const size_t n[3], char separator)
{
    bool is_short = n[2] <= 2;

    if (n[0] == 4 && n[1] <= 2 && n[2] <= 2)
        return set_day(w, p[0], false, p[1], p[2]);
    if (n[0] > 2 || n[1] > 2 || (n[2] != 4 && n[2] != 2))
        return false;
    w->kind = WHEN_DAY;
    w->order_counts = true;
    w->short_year = is_short;
    w->separator = separator;
    memcpy(w->part, p, sizeof(w->part));
    if (is_day(full_year(p[2], is_short), p[1], p[0]))
        w->orders |= DATE_DMY;
    if (is_day(full_year(p[2], is_short), p[0], p[1]))
        w->orders |= DATE_MDY;
    if (is_short && n[0] == 2 && n[1] == 2 && is_day(full_year(p[0], true), p[1], p[2]))
        w->orders |= DATE_YMD;
    return w->orders != 0;
}

/* What begins with digits. */
static bool take_numbered(struct scan *c, struct when *w)
{
    int p[3] = { 0 }, month;
    size_t n[3] = { 0 };
    char separator;

    n[0] = take_digits(c, 8, &p[0]);
    if (n[0] == 8) /* 20240131, only where a time follows or the column says that it is a date */
        return set_day(w, p[0] / 10000, false, p[0] / 100 % 100, p[0] % 100) && p[0] > 18000000 &&
               p[0] < 22000000;
    if (n[0] == 0 || (n[0] > 2 && n[0] != 4))
        return false;
    if ((peek(c) == 'Q' || peek(c) == 'q') && n[0] == 4) {
        c->at++;
        return take_digits(c, 1, &p[1]) == 1 && set_quarter(w, p[0], p[1]);
    }
    if (n[0] <= 2 && c->len - c->at > 2 &&
        (strncasecmp(c->s + c->at, "st ", 3) == 0 || strncasecmp(c->s + c->at, "nd ", 3) == 0 ||
         strncasecmp(c->s + c->at, "rd ", 3) == 0 || strncasecmp(c->s + c->at, "th ", 3) == 0))
        c->at += 2;
    separator = peek(c);
    if (separator && strchr("/.-", separator))
        c->at++;
    else if (separator != ' ')
        separator = '\0';
    if (skip_spaces(c) > 1)
        return false;
    if (c->len - c->at > 3 && strncasecmp(c->s + c->at, "de ", 3) == 0) /* 3 de mayo de 2024 */
        c->at += 3;
    if ((peek(c) == 'Q' || peek(c) == 'q') && n[0] == 4) {
        c->at++;
        return take_digits(c, 1, &p[1]) == 1 && set_quarter(w, p[0], p[1]);
    }
    month = take_month(c);
    if (month) {
        take(c, separator == '.' ? ' ' : separator);
        take(c, ',');
        skip_spaces(c);
        if (c->len - c->at > 3 && strncasecmp(c->s + c->at, "de ", 3) == 0)
            c->at += 3;
        n[2] = take_digits(c, 4, &p[2]);
        if (n[0] == 4)
            return n[2] == 0 ? set_month(w, p[0], false, month) :
                               n[2] <= 2 && set_day(w, p[0], false, month, p[2]);
        return (n[2] == 4 || n[2] == 2) && set_day(w, p[2], n[2] == 2, month, p[0]);
    }
    if (!separator || separator == ' ')
        return false;
    n[1] = take_digits(c, 4, &p[1]);
    if (n[1] == 0)
        return false;
    if (!take(c, separator)) {
        if (n[0] == 4 && n[1] == 2 && separator != '.')
            return p[0] >= 1800 && p[0] <= 2200 && set_month(w, p[0], false, p[1]);
        return n[1] == 4 && n[0] == 2 && p[1] >= 1800 && p[1] <= 2200 && separator != '.' &&
               set_month(w, p[1], false, p[0]);
    }
    skip_spaces(c);
    n[2] = take_digits(c, 4, &p[2]);
    return n[2] > 0 && set_parts(w, p, n, separator);
}

/* What begins with a name: Apr 1, 2021; April 2021; Q1 2021 */
static bool take_named(struct scan *c, struct when *w)
{
    int month, day, year;
    size_t n;

    if ((peek(c) == 'Q' || peek(c) == 'q') && c->len > 1 && isdigit((unsigned char)c->s[1])) {
        c->at++;
        if (take_digits(c, 1, &day) != 1)
            return false;
        if (!take(c, '/') && !take(c, '-'))
            skip_spaces(c);
        return take_digits(c, 4, &year) == 4 && set_quarter(w, year, day);
    }
    month = take_month(c);
    if (!month)
        return false;
    if (!take(c, '-') && !take(c, '/'))
        skip_spaces(c);
    take(c, '\'');
    n = take_digits(c, 4, &day);
    if (n == 4)
        return set_month(w, day, false, month);
    if (n == 0)
        return false;
    if (c->len - c->at >= 2 &&
        (strncasecmp(c->s + c->at, "st", 2) == 0 || strncasecmp(c->s + c->at, "nd", 2) == 0 ||
         strncasecmp(c->s + c->at, "rd", 2) == 0 || strncasecmp(c->s + c->at, "th", 2) == 0))
        c->at += 2;
    if (!take(c, ',') && !take(c, '-') && !take(c, '/') && peek(c) != ' ')
        return n == 2 && c->at == c->len && set_month(w, day, true, month);
    skip_spaces(c);
    n = take_digits(c, 4, &year);
    return (n == 4 || n == 2) && set_day(w, year, n == 2, month, day);
}

static bool parse(const char *s, size_t len, bool weekday, struct when *ret)
{
    struct scan c = { .s = s, .len = len };
    bool compact;

    *ret = (struct when){ 0 };
    value_trim(&c.s, &c.len);
    if (c.len < 4 || c.len > 48)
        return false;
    if (isdigit((unsigned char)c.s[0]) && (c.s[1] == ':' || c.s[2] == ':')) {
        ret->kind = WHEN_TIME;
        ret->orders = DATE_ORDERS;
        return take_time(&c, ret) && c.at == c.len && !ret->zone;
    }
    if (weekday)
        skip_weekday(&c);
    compact = digits_ahead(&c) == 8;
    if (!(isdigit((unsigned char)peek(&c)) ? take_numbered(&c, ret) : take_named(&c, ret)))
        return false;
    if (c.at == c.len)
        return !compact;
    if (ret->kind != WHEN_DAY)
        return false;
    if (!take(&c, 'T') && !take(&c, 't') &&
        !(!ret->order_counts && take(&c, ':'))) { /* 10/Oct/2023:13:55:36 of web servers */
        take(&c, ',');
        if (skip_spaces(&c) == 0)
            return false;
        if (compact)
            return false;
    } else if (compact && c.len - c.at >= 6 && isdigit((unsigned char)c.s[c.at + 2])) {
        int clock; /* 20240131T101500Z */

        if (take_digits(&c, 6, &clock) != 6)
            return false;
        ret->hour = clock / 10000;
        ret->minute = clock / 100 % 100;
        ret->second = clock % 100;
        ret->kind = WHEN_MOMENT;
        return ret->hour < 24 && ret->minute < 60 && ret->second < 60 && take_zone(&c, ret) &&
               c.at == c.len;
    }
    ret->kind = WHEN_MOMENT;
    return take_time(&c, ret) && c.at == c.len;
}

/* 2024年4月1日 and 2024년 4월 1일 → 2024-4-1. 0: it is not written so. */
static size_t from_asian(const char *s, size_t len, char ret[WHEN_TEXT_MAX])
{
    static const char *const signs[][3] = { { "\xe5\xb9\xb4", "\xe6\x9c\x88", "\xe6\x97\xa5" },
                                            { "\xeb\x85\x84", "\xec\x9b\x94", "\xec\x9d\xbc" } };
    size_t n = 0, k = 0, which;

    if (len < 7 || len >= WHEN_TEXT_MAX || (unsigned char)s[4] < 0xe5)
        return 0;
    which = (unsigned char)s[4] == 0xeb;
    for (size_t i = 0; i < len;) {
        if (k < 3 && len - i >= 3 && memcmp(s + i, signs[which][k], 3) == 0) {
            i += 3;
            if (++k < 3 && i < len)
                ret[n++] = '-';
            while (i < len && k < 3 && s[i] == ' ')
                i++;
        } else {
            ret[n++] = s[i++];
        }
    }
    return k >= 2 ? n : 0;
}

/* "Mar 5, 2024" is in March; "Mar 5 mars 2024" is a Tuesday. */
bool when_parse(const char *s, size_t len, struct when *ret)
{
    char plain[WHEN_TEXT_MAX];
    size_t n = from_asian(s, len, plain);

    if (n > 0)
        return parse(plain, n, false, ret);
    return parse(s, len, false, ret) ||
           (len > 0 && !isdigit((unsigned char)s[0]) && parse(s, len, true, ret));
}

/* ---- writing ---- */

static int64_t days_from_civil(int y, int m, int d)
{
    int64_t era, yoe, doy;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static void civil_from_days(int64_t z, int *y, int *m, int *d)
{
    int64_t era, doe, yoe, doy, mp;

    z += 719468;
    era = (z >= 0 ? z : z - 146096) / 146097;
    doe = z - era * 146097;
    yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    mp = (5 * doy + 2) / 153;
    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = (int)(yoe + era * 400 + (*m <= 2));
}

static void ymd_of(const struct when *w, enum date_order order, int *y, int *m, int *d)
{
    static const int places[][3] = {
        [DATE_DMY] = { 2, 1, 0 }, [DATE_MDY] = { 2, 0, 1 }, [DATE_YMD] = { 0, 1, 2 }
    };
    const int *at = places[w->order_counts ? order : DATE_YMD];

    *y = w->order_counts ? full_year(w->part[at[0]], w->short_year) : w->part[0];
    *m = w->part[at[1]];
    *d = w->part[at[2]];
}

size_t when_write(const struct when *w, enum date_order order, bool moment, char ret[WHEN_TEXT_MAX])
{
    int y, m, d, n = 0;

    if (w->kind != WHEN_TIME) {
        ymd_of(w, order, &y, &m, &d);
        n = snprintf(ret, WHEN_TEXT_MAX, "%04d-%02d-%02d", y, m, d);
    }
    if (w->kind == WHEN_TIME || moment) {
        n += snprintf(ret + n, WHEN_TEXT_MAX - (size_t)n, "%s%02d:%02d:%02d%s%s", n ? " " : "",
                      w->hour, w->minute, w->second, w->fraction[0] ? "." : "", w->fraction);
        if (w->zone)
            n += snprintf(ret + n, WHEN_TEXT_MAX - (size_t)n, "%c%02d:%02d",
                          w->zone_minutes < 0 ? '-' : '+',
                          (w->zone_minutes < 0 ? -w->zone_minutes : w->zone_minutes) / 60,
                          (w->zone_minutes < 0 ? -w->zone_minutes : w->zone_minutes) % 60);
    }
    return (size_t)n;
}

void when_of_epoch(int64_t seconds, unsigned millis, struct when *ret)
{
    int64_t days = seconds / 86400, rest = seconds % 86400;

    if (rest < 0) {
        days--;
        rest += 86400;
    }
    *ret = (struct when){ .kind = WHEN_MOMENT,
                          .orders = DATE_ORDERS,
                          .hour = (int)(rest / 3600),
                          .minute = (int)(rest / 60 % 60),
                          .second = (int)(rest % 60) };
    civil_from_days(days, &ret->part[0], &ret->part[1], &ret->part[2]);
    if (millis)
        snprintf(ret->fraction, sizeof(ret->fraction), "%03u", millis % 1000);
}

void when_of_serial(double serial, struct when *ret)
{
    int64_t seconds = (int64_t)(serial * 86400 + 0.5) + days_from_civil(1899, 12, 30) * 86400;

    when_of_epoch(seconds, 0, ret);
    if (serial == (double)(int64_t)serial)
        ret->kind = WHEN_DAY;
}
