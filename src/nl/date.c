/* Dates in questions: "March 2024", "7th September, 1987", "2024-03-05", "Q2 2023", "2024". */

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "nl/nl_impl.h"

static const char *const months[] = { "january",   "february", "march",    "april",
                                      "may",       "june",     "july",     "august",
                                      "september", "october",  "november", "december" };
static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

static int days_of(int year, int month)
{
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month_days[month - 1] + (month == 2 && leap);
}

/* 1 to 12; 0 for none. "may" is a verb too, so it needs company. */
static int month_of(const struct nl_token *t)
{
    size_t n = strlen(t->text);
    if (n < 3)
        return 0;
    for (int m = 0; m < 12; m++)
        if (strcmp(months[m], t->text) == 0 || (n <= 4 && strncmp(months[m], t->text, 3) == 0 &&
                                                (n == 3 || strcmp(t->text, "sept") == 0)))
            return m + 1;
    return 0;
}

static int year_of(const struct nl_token *t)
{
    bool plain = strlen(t->text) == 4 && isdigit((unsigned char)t->text[0]);
    return plain && t->is_number && t->number >= 1000 && t->number <= 2200 ? (int)t->number : 0;
}

static int day_of(const struct nl_token *t)
{
    return t->is_number && t->number >= 1 && t->number <= 31 && isdigit((unsigned char)t->text[0]) ?
               (int)t->number :
               0;
}

static void put(char ret[11], int y, int m, int d)
{
    /* Bounded by the callers, which the compiler cannot see. */
    snprintf(ret, 11, "%04u-%02u-%02u", (unsigned)y % 10000u, (unsigned)m % 100u,
             (unsigned)d % 100u);
}

static bool valid(int y, int m, int d)
{
    return y >= 1000 && y <= 2200 && m >= 1 && m <= 12 && d >= 1 && d <= days_of(y, m);
}

int nl_read_date(const struct nl_tokens *q, int i, char from[11], char to[11])
{
    const struct nl_token *t = &q->t[i];
    int y, m, d, n = q->n - i;
    if ((sscanf(t->text, "%4d-%2d-%2d", &y, &m, &d) == 3 ||
         sscanf(t->text, "%4d/%2d/%2d", &y, &m, &d) == 3) &&
        valid(y, m, d)) {
        put(from, y, m, d);
        put(to, y, m, d);
        return 1;
    }
    if (sscanf(t->text, "%2d/%2d/%4d", &m, &d, &y) == 3 && valid(y, m, d)) {
        put(from, y, m, d);
        put(to, y, m, d);
        return 1;
    }
    if (sscanf(t->text, "%4d-%2d", &y, &m) == 2 && strlen(t->text) == 7 && valid(y, m, 1)) {
        put(from, y, m, 1);
        put(to, y, m, days_of(y, m));
        return 1;
    }
    /* September 7th, 1987; September 1987; 7th [of] September, 1987 */
    if ((m = month_of(t)) != 0) {
        if (n > 2 && (d = day_of(&q->t[i + 1])) != 0 && (y = year_of(&q->t[i + 2])) != 0 &&
            valid(y, m, d)) {
            put(from, y, m, d);
            put(to, y, m, d);
            return 3;
        }
        int skip = n > 2 && strcmp(q->t[i + 1].text, "of") == 0;
        if (n > 1 + skip && (y = year_of(&q->t[i + 1 + skip])) != 0) {
            put(from, y, m, 1);
            put(to, y, m, days_of(y, m));
            return 2 + skip;
        }
        return 0;
    }
    if ((d = day_of(t)) != 0 && n > 2) {
        int skip = strcmp(q->t[i + 1].text, "of") == 0;
        if (n > 2 + skip && (m = month_of(&q->t[i + 1 + skip])) != 0 &&
            (y = year_of(&q->t[i + 2 + skip])) != 0 && valid(y, m, d)) {
            put(from, y, m, d);
            put(to, y, m, d);
            return 3 + skip;
        }
    }
    if (t->text[0] == 'q' && t->text[1] >= '1' && t->text[1] <= '4' && !t->text[2] && n > 1 &&
        (y = year_of(&q->t[i + 1])) != 0) {
        int first = (t->text[1] - '1') * 3 + 1;
        put(from, y, first, 1);
        put(to, y, first + 2, days_of(y, first + 2));
        return 2;
    }
    return 0;
}

bool nl_add_days(const char *day, int n, char ret[11])
{
    int y, m, d;
    if (!day || sscanf(day, "%4d-%2d-%2d", &y, &m, &d) != 3 || !valid(y, m, d))
        return false;
    struct tm tm = { .tm_year = y - 1900, .tm_mon = m - 1, .tm_mday = d + n };
    time_t at = timegm(&tm);
    struct tm out;
    if (!gmtime_r(&at, &out))
        return false;
    put(ret, out.tm_year + 1900, out.tm_mon + 1, out.tm_mday);
    return true;
}

int nl_read_month(const struct nl_tokens *q, int i, char from[11], char to[11])
{
    static const char *const before[] = { "in", "since", "until",  "before", "after",
                                          "of", "from",  "during", "for",    "about",
                                          "to", "and",   "by" };
    const struct nl_token *t = &q->t[i];
    int m = month_of(t);
    bool led = false;
    for (size_t k = 0; k < ARRAY_SIZE(before) && i > 0; k++)
        led |= strcmp(q->t[i - 1].text, before[k]) == 0;
    const char *next = i + 1 < q->n ? q->t[i + 1].text : "";
    static const char *const behind[] = { "vs", "versus", "compared" };
    for (size_t k = 0; k < ARRAY_SIZE(behind); k++)
        led |= strcmp(next, behind[k]) == 0 || (i > 0 && strcmp(q->t[i - 1].text, behind[k]) == 0);
    led |= t->capital && i > 0;
    /* "may" and "march" are verbs too, and "mar" may be anything. */
    if (m == 0 || (!led && (m == 5 || m == 3 || strlen(t->text) <= 4)))
        return 0;
    put(from, 0, m, 1);
    put(to, 0, m, days_of(2001, m));
    return 1;
}

bool nl_place_month(const char *max, char from[11], char to[11])
{
    int y, m, d, month;
    if (!max || sscanf(max, "%4d-%2d-%2d", &y, &m, &d) != 3 ||
        sscanf(from, "%*4d-%2d", &month) != 1 || month < 1 || month > 12)
        return false;
    y -= month > m;
    if (!valid(y, month, 1))
        return false;
    put(from, y, month, 1);
    put(to, y, month, days_of(y, month));
    return true;
}

bool nl_add_hours(const char *at, int n, char ret[20])
{
    int y, m, d, hour = 0, minute = 0, second = 0;
    if (!at || sscanf(at, "%4d-%2d-%2d%*1c%2d:%2d:%2d", &y, &m, &d, &hour, &minute, &second) < 3 ||
        !valid(y, m, d))
        return false;
    struct tm tm = { .tm_year = y - 1900,
                     .tm_mon = m - 1,
                     .tm_mday = d,
                     .tm_hour = hour + n,
                     .tm_min = minute,
                     .tm_sec = second },
              out;
    time_t then = timegm(&tm);
    return gmtime_r(&then, &out) && strftime(ret, 20, "%Y-%m-%d %H:%M:%S", &out) > 0;
}

bool nl_add_months(const char *day, int n, char ret[11])
{
    int y, m, d;
    if (!day || sscanf(day, "%4d-%2d-%2d", &y, &m, &d) != 3 || !valid(y, m, d))
        return false;
    int at = y * 12 + m - 1 + n;
    y = at / 12;
    m = at % 12 + 1;
    if (!valid(y, m, 1))
        return false;
    put(ret, y, m, MIN_OF(d, days_of(y, m)));
    return true;
}
