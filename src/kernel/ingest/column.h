#ifndef RIDDLE_KERNEL_INGEST_COLUMN_H
#define RIDDLE_KERNEL_INGEST_COLUMN_H

/*
 * What a column is, by all of its values. Each value narrows what the column can be; a column is
 * converted only if every value fits
 * (words for "no value" aside), and is text otherwise. Then each value is written as DuckDB reads
 * it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "kernel/ingest/value.h"

#define COLUMN_NULL_WORDS 24
#define COLUMN_SHOWN 40

enum column_type {
    COLUMN_TEXT,
    COLUMN_BOOLEAN,
    COLUMN_INTEGER,
    COLUMN_REAL,
    COLUMN_DATE,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TZ,
    COLUMN_TIME,
    COLUMN_INTERVAL, /* of sheets only */
    _COLUMN_TYPE_MAX
};

/* How a date is written in a column of digits. */
enum column_code { CODE_NONE, CODE_COMPACT, CODE_SERIAL, CODE_SECONDS, CODE_MILLIS, CODE_STAMP };

struct column {
    char *name;
    bool named; /* by a header */

    /* evidence */
    int64_t n_values; /* neither empty nor a word for no value */
    bool no_number, no_when, no_boolean;
    unsigned notations;
    bool any_decimals, perhaps_point, perhaps_comma, any_separated, any_negative, any_phone,
        all_spaced;
    unsigned min_digits, max_digits;
    enum affix_kind affix;
    bool worded; /* a unit that is not known as one */
    char affix_text[16];
    int64_t n_affixed;
    unsigned orders, when_kinds;
    bool order_counts, half_days;
    bool short_years; /* of two digits, 30 or more: their century is not certain */
    char separator;
    int64_t n_zoned;
    size_t fraction_digits;
    int64_t n_intervals, n_times; /* exact ones */
    bool mixed_signs;             /* 1,250 and 1 150: thousands are written in two ways */
    bool no_compact, no_serial, no_epoch, no_stamp; /* digits that are dates, if the name says so */
    bool seconds_only, millis_only;
    int64_t n_good;             /* values before one that was no number or date */
    char bad[COLUMN_SHOWN + 4]; /* … and that one */
    int64_t bad_line;
    struct {
        char word[16];
        int64_t n;
    } nulls[COLUMN_NULL_WORDS];
    size_t n_nulls;
    bool other_nulls; /* there are more kinds of them than can be counted: it is text */

    /* decision */
    enum column_type type;
    enum number_notation notation;
    enum date_order order;
    enum column_code code;
    bool guessed;
    bool dropped; /* neither name nor value */
};

/* The file's own signs, and what the user has said; 0 for nothing. */
struct column_signs {
    char decimal, thousands;
    enum date_order order;
    bool text;                     /* no column is converted */
    const char *const *null_words; /* the user's, besides the usual ones */
    size_t n_null_words;
};

void column_init(struct column *c);
void column_finish(struct column *c);

/* `exact`: it is a value of a sheet, in the one notation that those have. */
void column_look(struct column *c, const char *s, size_t len, bool exact, int64_t line,
                 const struct column_signs *signs);

/* Decides on all columns: those that leave no doubt first, because they tell about the others. */
void columns_decide(struct column *columns, size_t n, const struct column_signs *said,
                    char delimiter, struct column_signs *ret_signs);

/* Do some values have a percent sign and others none? Such a column is text. */
bool column_mixes_percent(const struct column *c);

const char *column_type_name(const struct column *c); /* DuckDB's */

/* The value as a field of CSV: \N for none, text in quotes. */
/* Between quotes, those inside doubled. */
int column_write_text(const char *s, size_t len, struct buf *out, struct err *err);
int column_write(const struct column *c, const char *s, size_t len, bool quoted, bool exact,
                 const struct column_signs *signs, struct buf *out, struct err *err);

#endif
