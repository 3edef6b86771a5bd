/*
 * Times in questions: days, months, quarters, halves, seasons, weekdays, hours; against the span
 * that the data has.
 */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "nl/frame.h"

static const char *word(const struct nl_tokens *q, int i)
{
    return i >= 0 && i < q->n && !q->t[i].quoted ? q->t[i].text : "";
}

static bool one_of(const char *w, const char *list)
{
    size_t n = strlen(w);
    for (const char *p = list; n > 0 && (p = strstr(p, w)) != NULL; p++)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

static int year_at(const struct nl_tokens *q, int i)
{
    const char *w = word(q, i);
    return strlen(w) == 4 && isdigit((unsigned char)w[0]) && q->t[i].is_number &&
                   q->t[i].number >= 1900 && q->t[i].number <= 2100 ?
               (int)q->t[i].number :
               0;
}

static int month_at(const struct nl_tokens *q, int i)
{
    static const char *const months[] = { "january",   "february", "march",    "april",
                                          "may",       "june",     "july",     "august",
                                          "september", "october",  "november", "december" };
    const char *w = word(q, i);
    size_t n = strlen(w);
    for (int m = 0; m < 12 && n >= 3; m++)
        if (str_eq(months[m], w) || (n == 3 && strncmp(months[m], w, 3) == 0) ||
            (m == 8 && str_eq(w, "sept")))
            return m + 1;
    return 0;
}

static int unit_at(const struct nl_tokens *q, int i)
{
    static const struct {
        const char *words;
        int unit;
    } units[] = { { "hour hours", BUCKET_HOUR },          { "day days", BUCKET_DAY },
                  { "week weeks", BUCKET_WEEK },          { "month months", BUCKET_MONTH },
                  { "quarter quarters", BUCKET_QUARTER }, { "year years", BUCKET_YEAR } };
    for (size_t k = 0; k < ARRAY_SIZE(units); k++)
        if (one_of(word(q, i), units[k].words))
            return units[k].unit;
    return -1;
}

/* first → 1, second → 2, …, last → -1; 0: none. */
static int ordinal_at(const struct nl_tokens *q, int i)
{
    static const char *const words[] = { "first", "second", "third", "fourth" };
    for (int k = 0; k < 4; k++)
        if (str_eq(word(q, i), words[k]))
            return k + 1;
    if (str_eq(word(q, i), "last"))
        return -1;
    return i < q->n && q->t[i].is_ordinal && q->t[i].number >= 1 && q->t[i].number <= 31 ?
               (int)q->t[i].number :
               0;
}

static int days_in(int y, int m)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[(m - 1) % 12] + (m == 2 && ((y % 4 == 0 && y % 100 != 0) || y % 400 == 0));
}

static void put(char ret[11], int y, int m, int d)
{
    snprintf(ret, 11, "%04u-%02u-%02u", (unsigned)y % 10000u, (unsigned)m % 100u,
             (unsigned)d % 100u);
}

/* n months from month m of year y; year 0: not said. */
static void set_months(struct fr_time *t, int y, int m, int n)
{
    t->a = m;
    t->b = n;
    t->kind = y ? TIME_DAYS : TIME_MONTH;
    if (!y)
        return;
    int last = m + n - 1, ly = y + (last - 1) / 12;
    last = (last - 1) % 12 + 1;
    put(t->from, y, m, 1);
    put(t->to, ly, last, days_in(ly, last));
}

/* "[of|in] 2023", "this year", "the year": how many words, and the year if it is said. */
static int skip_year(const struct nl_tokens *q, int i, int *ret_year)
{
    int k = i;
    *ret_year = 0;
    while (one_of(word(q, k), "of in the"))
        k++;
    if ((*ret_year = year_at(q, k)) != 0)
        return k + 1 - i;
    if (one_of(word(q, k), "this") && str_eq(word(q, k + 1), "year"))
        return k + 2 - i;
    return k > i && str_eq(word(q, k), "year") ? k + 1 - i : 0;
}

static int read_named(const struct nl_tokens *q, int i, struct fr_time *t)
{
    static const struct {
        const char *words;
        int month;
    } seasons[] = { { "spring springtime", 3 },
                    { "summer summertime", 6 },
                    { "autumn fall", 9 },
                    { "winter", 12 } };
    const char *w = word(q, i);
    int y = 0, n, o = ordinal_at(q, i), before = year_at(q, i);
    int at = before ? i + 1 : i;
    const char *code = word(q, at);
    /* q1, h2, with the year on either side */
    if ((code[0] == 'q' || code[0] == 'h') && code[1] >= '1' &&
        code[1] <= (code[0] == 'q' ? '4' : '2') && !code[2]) {
        n = before ? 0 : skip_year(q, at + 1, &y);
        int len = code[0] == 'q' ? 3 : 6;
        set_months(t, before ? before : y, (code[1] - '1') * len + 1, len);
        return at + 1 + n - i;
    }
    bool quarter = str_eq(word(q, i + 1), "quarter"), half = str_eq(word(q, i + 1), "half");
    if (o && (quarter || half) && (o > 0 || year_at(q, i + 3) || year_at(q, i + 2))) {
        n = skip_year(q, i + 2, &y);
        int len = quarter ? 3 : 6, which = o < 0 ? (quarter ? 4 : 2) : o;
        int skip = i + 2 + str_eq(word(q, i + 2), "of"), m = month_at(q, skip);
        if (half && m) { /* of a month */
            int used = skip_year(q, skip + 1, &y);
            t->kind = TIME_PART;
            t->month = m;
            t->a = y;
            t->day_from = which == 1 ? 1 : 16;
            t->day_to = which == 1 ? 15 : 31;
            return skip + 1 + used - i;
        }
        if (which > (quarter ? 4 : 2))
            return 0;
        set_months(t, y, (which - 1) * len + 1, len);
        return 2 + n;
    }
    if (o > 0 && o <= 4 && str_eq(word(q, i + 1), "week") && str_eq(word(q, i + 2), "of") &&
        month_at(q, i + 3)) {
        n = skip_year(q, i + 4, &y);
        t->kind = TIME_PART;
        t->month = month_at(q, i + 3);
        t->a = y;
        t->day_from = (o - 1) * 7 + 1;
        t->day_to = o * 7;
        return 4 + n;
    }
    for (size_t k = 0; k < ARRAY_SIZE(seasons); k++)
        if (one_of(w, seasons[k].words)) {
            n = skip_year(q, i + 1, &y);
            set_months(t, y, seasons[k].month, 3);
            return 1 + n;
        }
    return 0;
}

static bool is_day(const struct nl_tokens *q, int i)
{
    return i < q->n && q->t[i].is_number && q->t[i].number >= 1 && q->t[i].number <= 31;
}

static int read_calendar(const struct nl_tokens *q, int i, struct fr_time *t)
{
    int n = nl_read_date(q, i, t->from, t->to), y, m = month_at(q, i);
    if (n > 0) {
        t->kind = TIME_DAYS;
        return n;
    }
    /* "the first of June 2024" */
    if (ordinal_at(q, i) > 0 && str_eq(word(q, i + 1), "of") && (m = month_at(q, i + 2)) != 0) {
        n = skip_year(q, i + 3, &y);
        t->kind = TIME_PART;
        t->month = m;
        t->a = y;
        t->day_from = t->day_to = ordinal_at(q, i);
        return 3 + n;
    }
    /* "between 10 and 20 March 2024", "10 to 20 March" */
    bool joins = one_of(word(q, i + 1), "to till until -") ||
                 (str_eq(word(q, i + 1), "and") && str_eq(word(q, i - 1), "between"));
    if (joins && is_day(q, i) && is_day(q, i + 2) && month_at(q, i + 3)) {
        n = skip_year(q, i + 4, &y);
        t->kind = TIME_PART;
        t->month = month_at(q, i + 3);
        t->a = y;
        t->day_from = (int)q->t[i].number;
        t->day_to = (int)q->t[i + 2].number;
        return 4 + n;
    }
    bool day_first = q->t[i].is_number && q->t[i].number >= 1 && q->t[i].number <= 31 &&
                     month_at(q, i + 1);
    bool day_after = m && i + 1 < q->n && q->t[i + 1].is_number && q->t[i + 1].number >= 1 &&
                     q->t[i + 1].number <= 31;
    if (day_first || day_after) {
        t->kind = TIME_PART;
        t->month = day_first ? month_at(q, i + 1) : m;
        t->day_from = t->day_to = (int)q->t[day_first ? i : i + 1].number;
        t->a = 0;
        return 2;
    }
    if (m) {
        const char *w = word(q, i), *before = word(q, i - 1);
        bool led = one_of(
            before,
            "in since until before after of from during for about to and by till vs versus or than "
            "last");
        if (!led && (m == 5 || strlen(w) <= 3) && q->n > 1)
            return 0;
        n = skip_year(q, i + 1, &y);
        if (n > 0 && str_eq(word(q, i + n), "year") && !one_of(word(q, i + n - 1), "this"))
            n = 0;
        set_months(t, y, m, 1);
        return 1 + n;
    }
    if ((y = year_at(q, i)) != 0) {
        set_months(t, y, 1, 12);
        return 1;
    }
    return 0;
}

static int read_relative(const struct nl_tokens *q, int i, struct fr_time *t)
{
    const char *w = word(q, i);
    int n = 0, unit;
    if (one_of(w, "yesterday today")) {
        t->kind = TIME_DAY;
        t->a = str_eq(w, "yesterday");
        return 1;
    }
    if (str_eq(w, "so") && str_eq(word(q, i + 1), "far") && str_eq(word(q, i + 2), "this") &&
        unit_at(q, i + 3) >= 0) {
        t->kind = TIME_THIS;
        t->b = unit_at(q, i + 3);
        return 4;
    }
    if (one_of(w, "last past previous preceding")) {
        int k = i + 1;
        if (k < q->n && q->t[k].is_number && !q->t[k].is_ordinal) {
            n = (int)q->t[k].number;
            k++;
        }
        unit = unit_at(q, k);
        if (unit < 0 || n < 0 || n > 1000 || (unit == BUCKET_HOUR && n == 0))
            return 0;
        t->kind = TIME_LAST;
        t->a = n;
        t->b = unit;
        return k + 1 - i;
    }
    if (one_of(w, "this current") && (unit = unit_at(q, i + 1)) >= BUCKET_DAY) {
        t->kind = TIME_THIS;
        t->b = unit;
        return 2;
    }
    if (str_eq(w, "the") && one_of(word(q, i + 1), "quarter month year week") &&
        one_of(word(q, i + 2), "before")) {
        t->kind = TIME_LAST;
        t->b = unit_at(q, i + 1);
        t->open_end = true; /* the one before the other time of the question */
        return 3;
    }
    return 0;
}

static int read_clock(const struct nl_tokens *q, int i, struct fr_time *t)
{
    static const char *const days[] = { "sunday",   "monday", "tuesday", "wednesday",
                                        "thursday", "friday", "saturday" };
    static const struct {
        const char *word;
        int from, to;
    } parts[] = { { "morning mornings", 6, 12 },
                  { "afternoon afternoons", 12, 18 },
                  { "evening evenings", 18, 24 } };
    const char *w = word(q, i);
    size_t n = strlen(w);
    for (int d = 0; d < 7; d++)
        if (strncmp(w, days[d], strlen(days[d])) == 0 &&
            (n == strlen(days[d]) || str_eq(w + strlen(days[d]), "s"))) {
            t->kind = TIME_WEEKDAY;
            t->a = d;
            return 1;
        }
    if (one_of(w, "weekend weekends")) {
        t->kind = TIME_WEEKDAY;
        t->a = 7;
        return 1;
    }
    if (one_of(w, "weekdays workdays") && one_of(word(q, i - 1), "on during")) {
        t->kind = TIME_WEEKDAY;
        t->a = 8;
        return 1;
    }
    for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
        if (one_of(w, parts[k].word)) {
            t->kind = TIME_HOUR;
            t->a = parts[k].from;
            t->b = parts[k].to;
            return 1;
        }
    int hour, used = 0;
    char half[3] = "";
    if (sscanf(w, "%2d%2s", &hour, half) == 2 && one_of(half, "am pm"))
        used = 1;
    else if (i < q->n && q->t[i].is_number && one_of(word(q, i + 1), "am pm o'clock oclock")) {
        hour = (int)q->t[i].number;
        snprintf(half, sizeof(half), "%.2s", word(q, i + 1));
        used = 2;
    }
    int part = i + 1 + one_of(word(q, i + 1), "in at") + one_of(word(q, i + 2), "the");
    if (!used && i < q->n && q->t[i].is_number && part > i + 1 &&
        one_of(word(q, part), "morning afternoon evening night")) { /* "6 in the morning" */
        hour = (int)q->t[i].number;
        bool late = !str_eq(word(q, part), "morning") &&
                    !(hour < 6 && str_eq(word(q, part), "night"));
        snprintf(half, sizeof(half), "%s", late ? "pm" : "am");
        used = part + 1 - i;
    }
    if (used && hour >= 0 && hour <= 24) {
        t->kind = TIME_HOUR;
        t->a = str_eq(half, "pm") && hour < 12  ? hour + 12 :
               str_eq(half, "am") && hour == 12 ? 0 :
                                                  hour;
        t->b = t->a + 1;
        return used;
    }
    return 0;
}

/* The time that begins at token i; how many tokens it takes, 0: none. */
int fr_time_at(const struct nl_tokens *q, int i, struct fr_time *t)
{
    int (*const readers[])(const struct nl_tokens *, int,
                           struct fr_time *) = { read_named, read_calendar, read_relative,
                                                 read_clock };
    int best = 0;
    struct fr_time one;
    for (size_t k = 0; k < ARRAY_SIZE(readers); k++) {
        one = (struct fr_time){ .ref = { -1, -1 }, .op = -1, .upto = -1 };
        int n = q->t[i].quoted ? 0 : readers[k](q, i, &one);
        if (n > best) {
            best = n;
            *t = one;
        }
    }
    return best;
}

/* ---- against the data ---- */

static bool split_day(const char *day, int *y, int *m, int *d)
{
    return day && sscanf(day, "%4d-%2d-%2d", y, m, d) == 3;
}

static void unit_around(int unit, const char *day, char from[11], char to[11])
{
    int y, m, d;
    if (!split_day(day, &y, &m, &d))
        return;
    if (unit <= BUCKET_DAY) {
        put(from, y, m, d);
        put(to, y, m, d);
    } else if (unit == BUCKET_WEEK) {
        static const int t[] = { 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4 };
        int yy = m < 3 ? y - 1 : y,
            w = (yy + yy / 4 - yy / 100 + yy / 400 + t[m - 1] + d + 6) % 7; /* 0: Monday */
        char one[11];
        put(one, y, m, d);
        nl_add_days(one, -w, from);
        nl_add_days(from, 6, to);
    } else if (unit == BUCKET_YEAR) {
        put(from, y, 1, 1);
        put(to, y, 12, 31);
    } else {
        int first = unit == BUCKET_QUARTER ? (m - 1) / 3 * 3 + 1 : m,
            last = unit == BUCKET_QUARTER ? first + 2 : m;
        put(from, y, first, 1);
        put(to, y, last, days_in(y, last));
    }
}

bool fr_days(const struct frame *f, const struct fr_time *t, char from[11], char to[11])
{
    const struct nl_column *c = fr_c(f, t->ref);
    int y, m, d;
    char end[11];
    if (t->kind == TIME_DAYS) {
        memcpy(from, t->from, 11);
        memcpy(to, t->to, 11);
        return true;
    }
    if (t->kind == TIME_PART && t->a) {
        put(from, t->a, t->month, t->day_from);
        put(to, t->a, t->month, MIN_OF(t->day_to, days_in(t->a, t->month)));
        return true;
    }
    if (!c || !split_day(c->max, &y, &m, &d))
        return false;
    put(end, y, m, d);
    if (t->kind == TIME_LAST && t->b == BUCKET_HOUR)
        return false;
    switch (t->kind) {
    case TIME_MONTH: {
        int year = t->a > m ? y - 1 : y, last = t->a + t->b - 1, ly = year + (last - 1) / 12;
        last = (last - 1) % 12 + 1;
        put(from, year, t->a, 1);
        put(to, ly, last, days_in(ly, last));
        return true;
    }
    case TIME_PART: {
        int year = t->month > m || (t->month == m && t->day_from > d) ? y - 1 : y;
        put(from, year, t->month, t->day_from);
        put(to, year, t->month, MIN_OF(t->day_to, days_in(year, t->month)));
        return true;
    }
    case TIME_DAY:
        return nl_add_days(end, -t->a, from) && nl_add_days(end, -t->a, to);
    case TIME_THIS:
        unit_around(t->b, end, from, to);
        return true;
    case TIME_LAST:
        if (t->a > 0 && t->b <= BUCKET_WEEK) {
            memcpy(to, end, 11);
            return nl_add_days(end, 1 - t->a * (t->b == BUCKET_WEEK ? 7 : 1), from);
        }
        unit_around(t->b, end, from, to);
        if (t->a > 0) {
            int months = t->b == BUCKET_YEAR ? 12 : t->b == BUCKET_QUARTER ? 3 : 1;
            memcpy(to, end, 11);
            return nl_add_months(from, -months * (t->a - 1), from);
        }
        if (str_eq(to, end) && t->b != BUCKET_DAY) /* the data ends with it: it is the last one */
            return true;
        char before[11];
        if (!nl_add_days(from, -1, before))
            return false;
        unit_around(t->b, before, from, to);
        return true;
    default:
        return false;
    }
}
