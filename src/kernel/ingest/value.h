#ifndef RIDDLE_KERNEL_INGEST_VALUE_H
#define RIDDLE_KERNEL_INGEST_VALUE_H

/*
 * What a text may be: a number in one of the notations of the world, a date, a time. Nothing here
 * decides; column.h does.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- numbers ---- */

/* How numbers are written: the sign between thousands, and the decimal sign. */
enum number_notation {
    NUMBER_PLAIN,        /* 1234.5 */
    NUMBER_COMMA,        /* 1234,5 */
    NUMBER_COMMAS_POINT, /* 1,234.5 and 12,34,567.5 */
    NUMBER_POINTS_COMMA, /* 1.234,5 */
    NUMBER_SPACES_POINT, /* 1 234.5 */
    NUMBER_SPACES_COMMA, /* 1 234,5 */
    NUMBER_QUOTES_POINT, /* 1'234.5 */
    NUMBER_QUOTES_COMMA, /* 1'234,5 */
    _NUMBER_NOTATION_MAX
};

#define NUMBER_ALL ((1u << _NUMBER_NOTATION_MAX) - 1)

char number_decimal(enum number_notation n);
const char *number_thousands(enum number_notation n); /* "" for none */

enum affix_kind { AFFIX_NONE, AFFIX_PERCENT, AFFIX_CURRENCY, AFFIX_UNIT };

struct number {
    unsigned notations; /* bits of enum number_notation: those that it fits */
    bool negative, plus;
    bool decimals;  /* it has a fraction or an exponent, whatever the notation */
    char perhaps;   /* . or , if that is either its decimal sign or one between thousands: 1.500 */
    bool separated; /* some sign stands between its digits */
    bool spaced;    /* by white space */
    bool worded;    /* its unit is a word that is not known as one */
    unsigned n_digits;
    const char *body; /* digits and signs between them */
    size_t body_len;
    enum affix_kind affix;
    const char *affix_text;
    size_t affix_len;
};

/*
 * False if it is none. Leading zeros, hexadecimal, and more digits than can be kept are no numbers.
 */
bool number_parse(const char *s, size_t len, struct number *ret);

/* As DuckDB reads it: -1234.5; percents are divided. Its length. */
#define NUMBER_TEXT_MAX 64
size_t number_write(const struct number *n, enum number_notation notation,
                    char ret[NUMBER_TEXT_MAX]);

/* ---- dates and times ---- */

enum date_order { DATE_DMY = 1, DATE_MDY = 2, DATE_YMD = 4 };
#define DATE_ORDERS (DATE_DMY | DATE_MDY | DATE_YMD)

enum when_kind {
    WHEN_DAY = 1,
    WHEN_MOMENT = 2, /* day and time */
    WHEN_MONTH = 4,
    WHEN_QUARTER = 8,
    WHEN_TIME = 16,
};

struct when {
    enum when_kind kind;
    unsigned orders;   /* those that it can be; all of them where the order is plain */
    bool order_counts; /* digits only, year not first: the order makes a difference */
    int part[3];       /* in the order of the text, if order_counts; otherwise year, month, day */
    bool short_year;
    char separator; /* between the parts, if order_counts */
    int hour, minute, second;
    char fraction[10]; /* digits, "" for none */
    bool half_day;     /* am or pm */
    bool zone;
    int zone_minutes;
};

bool when_parse(const char *s, size_t len, struct when *ret);

#define WHEN_TEXT_MAX 48
size_t when_write(const struct when *w, enum date_order order, bool moment,
                  char ret[WHEN_TEXT_MAX]);

/* Days since 1899-12-30, as Excel counts → as when_write() */
void when_of_serial(double serial, struct when *ret);
void when_of_epoch(int64_t seconds, unsigned millis, struct when *ret);

/* ---- words ---- */

/* n/a, -, null and their like: no value, in a column of numbers or dates. */
bool is_null_word(const char *s, size_t len);

enum value_kind { VALUE_EMPTY, VALUE_NULL_WORD, VALUE_NUMBER, VALUE_WHEN, VALUE_TEXT };
enum value_kind value_kind(const char *s, size_t len);

/* Bytes of the white space at s, the ones without a break among them; 0: there is none. */
size_t value_space(const char *s, size_t len);
/* White space of all kinds at both ends. */
void value_trim(const char **s, size_t *len);

#endif
