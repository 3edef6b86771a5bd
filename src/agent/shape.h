#ifndef RIDDLE_AGENT_SHAPE_H
#define RIDDLE_AGENT_SHAPE_H

/*
 * What the columns of a result are, whoever made it: for the sentence about it, its chart, and the
 * figures in it.
 */

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum shape_kind {
    SHAPE_INTEGER,
    SHAPE_NUMBER,
    SHAPE_TIME,
    SHAPE_TEXT,
    SHAPE_BOOL,
    SHAPE_OTHER,
    _SHAPE_KIND_MAX
};

/*
 * By the column's type (DuckDB's or pandas'), or by its cells where that says nothing. A column of
 * nulls is OTHER.
 */
enum shape_kind shape_kind_of(const json_t *result, size_t column);

/* True if the column names things although it is made of integers: keys, years, codes. */
bool shape_is_label(const json_t *result, size_t column);

/* The number in a cell; numbers too long for JSON come as text. False for any other. */
bool shape_number(const json_t *cell, double *ret);

/* "2024-03-01", perhaps with a time behind it. */
bool shape_is_date(const char *text);

/* How people write cells, where not as they are: "Nov 2025", "Q4 2025", "30.4 %". */
enum shape_form {
    FORM_PLAIN,
    FORM_YEAR,
    FORM_QUARTER,
    FORM_MONTH,
    FORM_DAY,
    FORM_RATE,
    FORM_PERCENT
};
enum shape_form shape_form_of(const json_t *result, size_t column);

/* "1,234,567"; a number with a fraction is rounded to what people read: 1,234.57, 0.0123. */
int shape_append_number(struct buf *b, const json_t *cell, struct err *err);

/* A cell as people write it; texts are cut and have no control characters. */
int shape_append_cell(struct buf *b, const json_t *result, size_t row, size_t column,
                      struct err *err);

/* A column's name in words: "avg_price" is "average price". ret is terminated. */
#define SHAPE_WORDS_SIZE 96
void shape_words(const char *column, char ret[SHAPE_WORDS_SIZE]);

#endif
