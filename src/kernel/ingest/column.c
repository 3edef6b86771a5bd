#include "kernel/ingest/column.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/sheet_writer.h"

#define PHONE_DIGITS 7

void column_init(struct column *c)
{
    *c = (struct column){ .notations = NUMBER_ALL,
                          .orders = DATE_ORDERS,
                          .min_digits = UINT32_MAX,
                          .all_spaced = true,
                          .seconds_only = true,
                          .millis_only = true };
}

void column_finish(struct column *c)
{
    free(c->name);
    c->name = NULL;
}

/*
 * ---- looking at values
 * ---------------------------------------------------------------------------------------------
 */

static bool is_null(const char *s, size_t len, const struct column_signs *signs)
{
    for (size_t i = 0; i < signs->n_null_words; i++)
        if (strlen(signs->null_words[i]) == len && memcmp(signs->null_words[i], s, len) == 0)
            return true;
    return is_null_word(s, len);
}

static void count_null(struct column *c, const char *s, size_t len)
{
    for (size_t i = 0; i < c->n_nulls; i++)
        if (strlen(c->nulls[i].word) == len && memcmp(c->nulls[i].word, s, len) == 0) {
            c->nulls[i].n++;
            return;
        }
    if (c->n_nulls == COLUMN_NULL_WORDS || len >= sizeof(c->nulls[0].word)) {
        c->other_nulls = true;
        return;
    }
    memcpy(c->nulls[c->n_nulls].word, s, len);
    c->nulls[c->n_nulls++].n = 1;
}

static bool is_boolean(const char *s, size_t len)
{
    return (len == 4 && strncasecmp(s, "true", 4) == 0) ||
           (len == 5 && strncasecmp(s, "false", 5) == 0);
}

/* Digits only: what they would be as a date. */
static void look_at_digits(struct column *c, const char *s, size_t len)
{
    struct when w;
    char text[24];
    int64_t v = 0;

    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)s[i]) || len > 14) {
            c->no_compact = c->no_serial = c->no_epoch = c->no_stamp = true;
            return;
        }
        v = v * 10 + (s[i] - '0');
    }
    if (len == 8)
        snprintf(text, sizeof(text), "%.4s-%.2s-%.2s", s, s + 4, s + 6);
    c->no_compact = c->no_compact || len != 8 || v < 18500000 || v > 21500000 ||
                    !when_parse(text, 10, &w);
    if (len == 14)
        snprintf(text, sizeof(text), "%.4s-%.2s-%.2s %.2s:%.2s:%.2s", s, s + 4, s + 6, s + 8,
                 s + 10, s + 12);
    c->no_stamp = c->no_stamp || len != 14 || v < 18500000000000 || v > 21500000000000 ||
                  !when_parse(text, 19, &w);
    c->no_serial = c->no_serial || v < 20000 || v > 73050;
    c->seconds_only = c->seconds_only && v >= 631152000 && v < 4102444800;
    c->millis_only = c->millis_only && v >= 631152000000 && v < 4102444800000;
    c->no_epoch = c->no_epoch || (!c->seconds_only && !c->millis_only);
}

static bool look_at_number(struct column *c, const char *s, size_t len)
{
    struct number n;

    if (!number_parse(s, len, &n) || (c->notations & n.notations) == 0)
        return false;
    if (n.affix != AFFIX_NONE) {
        if (n.affix_len >= sizeof(c->affix_text) ||
            (c->n_affixed > 0 && (c->affix != n.affix || strlen(c->affix_text) != n.affix_len ||
                                  memcmp(c->affix_text, n.affix_text, n.affix_len) != 0)))
            return false;
        c->affix = n.affix;
        c->worded = n.worded;
        memcpy(c->affix_text, n.affix_text, n.affix_len);
        c->affix_text[n.affix_len] = '\0';
        c->n_affixed++;
    }
    c->notations &= n.notations;
    c->any_decimals = c->any_decimals || n.decimals;
    c->perhaps_point = c->perhaps_point || n.perhaps == '.';
    c->perhaps_comma = c->perhaps_comma || n.perhaps == ',';
    c->any_separated = c->any_separated || n.separated;
    c->any_negative = c->any_negative || n.negative;
    c->any_phone = c->any_phone || (n.plus && !n.decimals && n.n_digits >= PHONE_DIGITS);
    c->all_spaced = c->all_spaced && n.spaced;
    c->min_digits = MIN_OF(c->min_digits, n.n_digits);
    c->max_digits = MAX_OF(c->max_digits, n.n_digits);
    if (!c->no_compact || !c->no_serial || !c->no_epoch || !c->no_stamp)
        look_at_digits(c, s, len);
    return true;
}

/* A number as sheet_writer.h has it. */
static bool is_exact_number(const char *s, size_t len, bool *ret_integer)
{
    size_t digits, at = len > 0 && s[0] == '-';

    for (digits = 0; at + digits < len && isdigit((unsigned char)s[at + digits]); digits++)
        ;
    *ret_integer = at + digits == len && digits <= 18;
    if (digits == 0)
        return false;
    at += digits;
    if (at < len && s[at] == '.')
        for (at++; at < len && isdigit((unsigned char)s[at]); at++)
            ;
    if (at < len && (s[at] == 'e' || s[at] == 'E')) {
        at++;
        at += at < len && (s[at] == '+' || s[at] == '-');
        while (at < len && isdigit((unsigned char)s[at]))
            at++;
    }
    return at == len;
}

static bool look_at_exact_number(struct column *c, const char *s, size_t len)
{
    unsigned digits = (unsigned)len;
    bool integer;

    if (!is_exact_number(s, len, &integer) || !(c->notations & 1u << NUMBER_PLAIN))
        return false;
    c->notations = 1u << NUMBER_PLAIN;
    c->any_decimals = c->any_decimals || !integer;
    c->any_negative = c->any_negative || s[0] == '-';
    c->all_spaced = false;
    c->min_digits = MIN_OF(c->min_digits, digits);
    c->max_digits = MAX_OF(c->max_digits, digits);
    look_at_digits(c, s, len);
    return true;
}

static bool look_at_when(struct column *c, const char *s, size_t len, bool exact)
{
    struct when w;
    unsigned kinds;

    if (!when_parse(s, len, &w))
        return false;
    kinds = c->when_kinds | (unsigned)w.kind;
    /* Days and moments go together; months, quarters and times go alone. */
    if ((kinds & ~(unsigned)(WHEN_DAY | WHEN_MOMENT)) && (kinds & (kinds - 1)))
        return false;
    if ((c->orders & w.orders) == 0)
        return false;
    c->when_kinds = kinds;
    c->orders &= w.orders;
    c->half_days = c->half_days || w.half_day;
    if (w.order_counts) {
        c->order_counts = true;
        c->separator = w.separator;
    }
    if (w.short_year && (w.order_counts ? w.part[2] : w.part[0] % 100) >= 30)
        c->short_years = true;
    c->n_zoned += w.zone;
    c->n_times += exact && w.kind == WHEN_TIME;
    c->fraction_digits = MAX_OF(c->fraction_digits, strlen(w.fraction));
    return true;
}

/* The first value that is neither number nor date, for the report. */
static void note_bad(struct column *c, const char *s, size_t len, int64_t line)
{
    size_t n = str_utf8_cut(s, len, COLUMN_SHOWN);

    c->n_good = c->n_values;
    c->bad_line = line;
    memcpy(c->bad, s, n);
    memcpy(c->bad + n, n < len ? "\xe2\x80\xa6" : "", n < len ? 4 : 1);
}

void column_look(struct column *c, const char *s, size_t len, bool exact, int64_t line,
                 const struct column_signs *signs)
{
    bool was_open = !c->no_number || !c->no_when;

    if (exact && len > 0 && s[0] == SHEET_INTERVAL_MARK) {
        c->n_intervals++;
        c->n_values++;
        return;
    }

    if (c->no_number && c->no_when && c->no_boolean) {
        c->n_values += len > 0;
        return;
    }
    value_trim(&s, &len);
    if (len == 0)
        return;
    if (!exact && is_null(s, len, signs)) {
        count_null(c, s, len);
        return;
    }
    if (!c->no_number && !(exact ? look_at_exact_number : look_at_number)(c, s, len))
        c->no_number = true;
    if (!c->no_when && !look_at_when(c, s, len, exact))
        c->no_when = true;
    if (!c->no_boolean && !is_boolean(s, len))
        c->no_boolean = true;
    if (was_open && c->no_number && c->no_when)
        note_bad(c, s, len, line);
    c->n_values++;
}

/*
 * ---- deciding -----------------------------------------------------------------------------------
 * -------------------
 */

/*
 * Does the name have one of the words, as a word? `order_date`, `OrderDate` and `Date of order` do.
 */
static bool name_says(const char *name, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++) {
        size_t n = strlen(words[i]);

        for (const char *p = name; *p; p++) {
            bool begins = p == name || !isalpha((unsigned char)p[-1]) ||
                          (islower((unsigned char)p[-1]) && isupper((unsigned char)p[0]));

            if (begins && strncasecmp(p, words[i], n) == 0 &&
                (!isalpha((unsigned char)p[n]) || isupper((unsigned char)p[n])))
                return true;
        }
    }
    return false;
}

static bool says_date(const char *name)
{
    static const char *const words[] = { "date", "datum", "day", "tag", "fecha",
                                         "data", "dato",  "dt",  "jour" };

    return name && name_says(name, words, ARRAY_SIZE(words));
}

static bool says_epoch(const char *name)
{
    static const char *const words[] = { "epoch", "timestamp", "unix",     "ts",  "time",
                                         "at",    "unixtime",  "datetime", "date" };

    return name && name_says(name, words, ARRAY_SIZE(words));
}

/* 5% and 0.05: nobody knows whether the second is five percent or a twentieth of one. */
bool column_mixes_percent(const struct column *c)
{
    return !c->no_number && c->affix == AFFIX_PERCENT && c->n_affixed < c->n_values;
}

/* What only looks like a number. */
static bool is_name_of_something(const struct column *c)
{
    return (c->any_phone && !c->any_negative) ||
           /* 555 123 456: a telephone's, if all are as long */
           (c->all_spaced && !c->any_decimals && c->min_digits == c->max_digits &&
            c->min_digits >= PHONE_DIGITS) ||
           (c->affix == AFFIX_UNIT &&
            (c->n_affixed < c->n_values || (c->worded && c->n_values < 3))) ||
           column_mixes_percent(c);
}

/*
 * 1,250 and 1 150: thousands in two ways of writing. The one notation that fits both would make
 * 1.25 of the first.
 */
static bool mixes_signs(const struct column *c)
{
    if (c->no_number || c->any_decimals || !c->any_separated)
        return false;
    for (int k = 0; k < _NUMBER_NOTATION_MAX; k++)
        if ((c->notations & 1u << k) &&
            (!number_thousands(k)[0] ||
             !(number_decimal(k) == '.' ? c->perhaps_point : c->perhaps_comma)))
            return false;
    return true;
}

static bool may_be_number(const struct column *c)
{
    return c->n_values > 0 && !c->no_number && !is_name_of_something(c) && !mixes_signs(c);
}

static bool may_be_when(const struct column *c)
{
    return c->n_values > 0 && !c->no_when && (c->n_zoned == 0 || c->n_zoned == c->n_values) &&
           !(c->fraction_digits > 6);
}

static unsigned notations_with(char decimal, char thousands)
{
    unsigned mask = 0;

    for (int k = 0; k < _NUMBER_NOTATION_MAX; k++)
        if ((!decimal || number_decimal(k) == decimal) &&
            (!thousands || !number_thousands(k)[0] || number_thousands(k)[0] == thousands))
            mask |= 1u << k;
    return mask;
}

/* The simplest notation of the mask. */
static enum number_notation first_of(unsigned mask)
{
    return (enum number_notation)__builtin_ctz(mask);
}

static void decide_notation(struct column *c, const struct column_signs *signs, char delimiter,
                            bool continental)
{
    unsigned said = c->notations & notations_with(signs->decimal, signs->thousands);
    unsigned point = c->notations & notations_with('.', 0),
             comma = c->notations & notations_with(',', 0);

    c->notation = first_of(c->notations);
    if (!c->any_separated)
        return;
    if (signs->decimal && said) {
        c->notation = first_of(said);
        return;
    }
    if (!point || !comma)
        return;
    /*
     * 1,234 or 1.234 and nothing else: thousands where it is a comma, decimals where it is a point.
     * Files of countries that write a decimal comma have it the other way round.
     */
    c->guessed = true;
    if (continental)
        c->notation = first_of(comma);
    else if (c->notations & 1u << NUMBER_PLAIN)
        c->notation = NUMBER_PLAIN;
    else if (c->notations & 1u << NUMBER_COMMAS_POINT)
        c->notation = delimiter == ';' ? NUMBER_COMMA : NUMBER_COMMAS_POINT;
    else
        c->notation = first_of(point);
}

static void decide_number(struct column *c, const struct column_signs *signs, char delimiter,
                          bool continental)
{
    bool integer;

    decide_notation(c, signs, delimiter, continental);
    integer = !c->any_decimals && c->affix != AFFIX_PERCENT &&
              !(number_decimal(c->notation) == '.' ? c->perhaps_point : c->perhaps_comma);
    c->type = integer ? COLUMN_INTEGER : COLUMN_REAL;
    if (c->type != COLUMN_INTEGER || c->any_separated || c->affix != AFFIX_NONE)
        return;
    if (!c->no_compact && says_date(c->name))
        c->code = CODE_COMPACT;
    else if (!c->no_serial && says_date(c->name))
        c->code = CODE_SERIAL;
    else if (!c->no_epoch && says_epoch(c->name))
        c->code = c->seconds_only ? CODE_SECONDS : CODE_MILLIS;
    else if (!c->no_stamp && (says_date(c->name) || says_epoch(c->name)))
        c->code = CODE_STAMP;
    if (c->code != CODE_NONE) {
        c->type = c->code >= CODE_SECONDS ? COLUMN_TIMESTAMP : COLUMN_DATE;
        c->guessed = true;
    }
}

static void decide_when(struct column *c, const struct column_signs *signs)
{
    if (c->when_kinds & WHEN_TIME)
        c->type = COLUMN_TIME;
    else if (c->when_kinds & WHEN_MOMENT)
        c->type = c->n_zoned ? COLUMN_TIMESTAMP_TZ : COLUMN_TIMESTAMP;
    else
        c->type = COLUMN_DATE;
    if (!c->order_counts)
        return;
    c->guessed = false;
    if (signs->order && (c->orders & (unsigned)signs->order)) {
        c->order = signs->order;
        return;
    }
    if ((c->orders & (c->orders - 1)) == 0) {
        c->order = (enum date_order)c->orders;
        return;
    }
    if ((c->orders & ~(unsigned)DATE_YMD) == DATE_DMY ||
        (c->orders & ~(unsigned)DATE_YMD) == DATE_MDY) {
        c->order = (enum date_order)(c->orders &
                                     ~(unsigned)DATE_YMD); /* 28-02-23 has its day first */
        return;
    }
    c->guessed = true;
    c->order = c->separator == '.' || signs->decimal == ',' ? DATE_DMY : DATE_MDY;
}

/* 31.12.2024: beside semicolons, a file of a country that writes a decimal comma. */
static bool is_dotted_date(const struct column *c)
{
    return !may_be_number(c) && may_be_when(c) && c->separator == '.';
}

/* What is certain of one column holds for the file. */
static void read_signs(const struct column *c, struct column_signs *signs, unsigned *decimals,
                       unsigned *orders)
{
    if (may_be_number(c) && c->any_separated) {
        unsigned point = c->notations & notations_with('.', 0),
                 comma = c->notations & notations_with(',', 0);

        if (!point || !comma) {
            *decimals |= point ? 1 : 2;
            signs->thousands = signs->thousands ? signs->thousands :
                                                  number_thousands(first_of(c->notations))[0];
        }
    }
    if (!may_be_number(c) && may_be_when(c) && c->order_counts) {
        unsigned order = c->orders & (unsigned)(DATE_DMY | DATE_MDY);

        if (order == DATE_DMY || order == DATE_MDY)
            *orders |= order;
        else if (order &&
                 c->half_days) /* am and pm are of the countries that write the month first */
            *orders |= DATE_MDY;
    }
}

void columns_decide(struct column *columns, size_t n, const struct column_signs *said,
                    char delimiter, struct column_signs *ret_signs)
{
    struct column_signs signs = *said;
    unsigned decimals = 0, orders = 0;
    bool continental = false;

    for (size_t i = 0; i < n && !said->text; i++) {
        read_signs(&columns[i], &signs, &decimals, &orders);
        continental |= delimiter == ';' && is_dotted_date(&columns[i]);
    }
    if (!said->decimal)
        signs.decimal = decimals == 1 ? '.' : decimals == 2 ? ',' : '\0';
    if (said->thousands || signs.decimal == '\0')
        signs.thousands = said->thousands;
    if (!said->order && (orders == DATE_DMY || orders == DATE_MDY))
        signs.order = (enum date_order)orders;
    for (size_t i = 0; i < n; i++) {
        struct column *c = &columns[i];

        c->dropped = !c->named && c->n_values == 0 && c->n_nulls == 0;
        c->type = COLUMN_TEXT;
        c->mixed_signs = c->n_values > 0 && mixes_signs(c) && !may_be_when(c);
        if (said->text || c->n_values == 0 || c->other_nulls)
            continue;
        if (c->n_intervals) {
            if (c->n_intervals + c->n_times == c->n_values)
                c->type = COLUMN_INTERVAL;
            continue;
        }
        if (!c->no_boolean)
            c->type = COLUMN_BOOLEAN;
        else if (may_be_number(c))
            decide_number(c, &signs, delimiter, continental);
        else if (may_be_when(c))
            decide_when(c, &signs);
    }
    *ret_signs = signs;
}

const char *column_type_name(const struct column *c)
{
    static const char *const names[] = {
        [COLUMN_TEXT] = "VARCHAR",
        [COLUMN_BOOLEAN] = "BOOLEAN",
        [COLUMN_INTEGER] = "BIGINT",
        [COLUMN_REAL] = "DOUBLE",
        [COLUMN_DATE] = "DATE",
        [COLUMN_TIMESTAMP] = "TIMESTAMP",
        [COLUMN_TIMESTAMP_TZ] = "TIMESTAMP WITH TIME ZONE",
        [COLUMN_TIME] = "TIME",
        [COLUMN_INTERVAL] = "INTERVAL",
    };

    return names[c->type];
}

/*
 * ---- writing ------------------------------------------------------------------------------------
 * -------------------
 */

int column_write_text(const char *s, size_t len, struct buf *out, struct err *err)
{
    int r = buf_append(out, "\"", 1, err);

    while (r == 0 && len > 0) {
        const char *quote = memchr(s, '"', len);
        size_t n = quote ? (size_t)(quote - s) + 1 : len;

        r = buf_append(out, s, n, err);
        if (r == 0 && quote)
            r = buf_append(out, "\"", 1, err);
        s += n;
        len -= n;
    }
    return r < 0 ? r : buf_append(out, "\"", 1, err);
}

static int64_t digits_of(const char *s, size_t len)
{
    int64_t v = 0;

    for (size_t i = 0; i < len && i < 18; i++)
        v = v * 10 + (s[i] - '0');
    return v;
}

static size_t write_code(const struct column *c, const char *s, size_t len, char *ret)
{
    int64_t v = digits_of(s, len);
    struct when w = { .kind = WHEN_DAY,
                      .part = { (int)(v / 10000), (int)(v / 100 % 100), (int)(v % 100) } };

    if (c->code == CODE_SERIAL)
        when_of_serial((double)v, &w);
    else if (c->code == CODE_SECONDS)
        when_of_epoch(v, 0, &w);
    else if (c->code == CODE_MILLIS)
        when_of_epoch(v / 1000, (unsigned)(v % 1000), &w);
    else if (c->code == CODE_STAMP)
        w = (struct when){ .kind = WHEN_MOMENT,
                           .part = { (int)(v / 10000000000), (int)(v / 100000000 % 100),
                                     (int)(v / 1000000 % 100) },
                           .hour = (int)(v / 10000 % 100),
                           .minute = (int)(v / 100 % 100),
                           .second = (int)(v % 100) };
    return when_write(&w, DATE_YMD, c->type == COLUMN_TIMESTAMP, ret);
}

/* 0: it is no value of the column's type, which is a mistake of ours, or a word for none. */
static size_t write_value(const struct column *c, const char *s, size_t len, char *ret)
{
    struct number n;
    struct when w;

    if (c->code != CODE_NONE)
        return write_code(c, s, len, ret);
    switch (c->type) {
    case COLUMN_BOOLEAN:
        if (!is_boolean(s, len))
            return 0;
        memcpy(ret, len == 4 ? "true" : "false", len);
        return len;
    case COLUMN_INTEGER:
    case COLUMN_REAL:
        return number_parse(s, len, &n) && (n.notations & 1u << c->notation) ?
                   number_write(&n, c->notation, ret) :
                   0;
    default:
        return when_parse(s, len, &w) ?
                   when_write(&w, c->order ? c->order : DATE_YMD,
                              c->type == COLUMN_TIMESTAMP || c->type == COLUMN_TIMESTAMP_TZ, ret) :
                   0;
    }
}

int column_write(const struct column *c, const char *s, size_t len, bool quoted, bool exact,
                 const struct column_signs *signs, struct buf *out, struct err *err)
{
    char text[NUMBER_TEXT_MAX + WHEN_TEXT_MAX];
    size_t n;

    if (exact && len > 0 && s[0] == SHEET_INTERVAL_MARK) {
        s++;
        len--;
    }
    if (c->type == COLUMN_TEXT)
        return len == 0 && !quoted ? buf_append(out, "\\N", 2, err) :
                                     column_write_text(s, len, out, err);
    value_trim(&s, &len);
    if (len == 0 || (!exact && is_null(s, len, signs)))
        return buf_append(out, "\\N", 2, err);
    if (exact && c->code == CODE_NONE &&
        (c->type == COLUMN_INTEGER || c->type == COLUMN_REAL || c->type == COLUMN_INTERVAL))
        return buf_append(out, s, len, err);
    n = write_value(c, s, len, text);
    if (n == 0)
        return err_set(err, ERR_INTERNAL, "column '%.100s' has a value that is no %s: '%.*s'",
                       c->name, column_type_name(c), (int)MIN_OF(len, (size_t)40), s);
    return buf_append(out, text, n, err);
}
