/* What the columns of a result are: see shape.h. */

#include "agent/shape.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/str.h"
#include "plan/plan_schema.h"

#define JUDGED_CELLS 1000 /* of a column without a type */

bool shape_is_date(const char *s)
{
    for (int i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? s[i] != '-' : !isdigit((unsigned char)s[i]))
            return false;
    if (s[10] == '\0')
        return true;
    return (s[10] == 'T' || s[10] == ' ') && isdigit((unsigned char)s[11]) &&
           isdigit((unsigned char)s[12]) && s[13] == ':';
}

bool shape_number(const json_t *cell, double *ret)
{
    if (json_is_number(cell)) {
        *ret = json_number_value(cell);
        return true;
    }
    const char *text = json_string_value(cell);
    if (!text ||
        !(isdigit((unsigned char)text[0]) || (text[0] == '-' && isdigit((unsigned char)text[1]))))
        return false;
    if (strspn(text, "-0123456789.eE+") != strlen(text))
        return false;
    char *end;
    double v = strtod(text, &end);
    if (*end != '\0' || !isfinite(v))
        return false;
    *ret = v;
    return true;
}

/* ---- kinds ---- */

static enum shape_kind kind_of_cells(const json_t *rows, size_t column)
{
    bool seen[_SHAPE_KIND_MAX] = { false };
    size_t i, kinds = 0;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *cell = json_array_get(row, column);
        if (i == JUDGED_CELLS)
            break;
        if (json_is_integer(cell))
            seen[SHAPE_INTEGER] = true;
        else if (json_is_real(cell))
            seen[SHAPE_NUMBER] = true;
        else if (json_is_boolean(cell))
            seen[SHAPE_BOOL] = true;
        else if (json_is_string(cell))
            seen[shape_is_date(json_string_value(cell)) ? SHAPE_TIME : SHAPE_TEXT] = true;
        else if (cell && !json_is_null(cell))
            seen[SHAPE_OTHER] = true;
    }
    if (seen[SHAPE_NUMBER])
        seen[SHAPE_INTEGER] = false;
    if (seen[SHAPE_TEXT])
        seen[SHAPE_TIME] = false;
    enum shape_kind found = SHAPE_OTHER;
    for (int k = 0; k < _SHAPE_KIND_MAX; k++)
        if (seen[k]) {
            kinds++;
            found = (enum shape_kind)k;
        }
    return kinds == 1 ? found : SHAPE_OTHER;
}

enum shape_kind shape_kind_of(const json_t *result, size_t column)
{
    static const struct {
        const char *prefix;
        enum shape_kind kind;
    } pandas[] = {
        { "datetime64", SHAPE_TIME }, { "period", SHAPE_TIME },  { "int", SHAPE_INTEGER },
        { "uint", SHAPE_INTEGER },    { "float", SHAPE_NUMBER }, { "bool", SHAPE_BOOL },
    };
    const char *type = json_string_value(json_array_get(json_object_get(result, "types"), column));
    switch (type ? plan_type_from_name(type) : TYPE_UNKNOWN) {
    case TYPE_INTEGER:
        return SHAPE_INTEGER;
    case TYPE_NUMBER:
        return strcasestr(type, "hugeint") || strcasestr(type, "ubigint") ? SHAPE_INTEGER :
                                                                            SHAPE_NUMBER;
    case TYPE_DATE:
    case TYPE_TIMESTAMP:
        return SHAPE_TIME;
    case TYPE_TEXT:
        return SHAPE_TEXT;
    case TYPE_BOOL:
        return SHAPE_BOOL;
    default:
        break;
    }
    /* What follows tells "int64" and "Float32" from "INTERVAL" and "INTEGER[]". */
    for (size_t i = 0; type && i < ARRAY_SIZE(pandas); i++) {
        size_t n = strlen(pandas[i].prefix);
        bool counted = pandas[i].kind == SHAPE_INTEGER || pandas[i].kind == SHAPE_NUMBER;
        if (strncasecmp(type, pandas[i].prefix, n) == 0 &&
            (!counted || strspn(type + n, "0123456789") == strlen(type + n)))
            return pandas[i].kind;
    }
    return kind_of_cells(json_object_get(result, "rows"), column);
}

/* True if the name has the word: "order_id", "ID", "customerId". */
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        bool starts = p == name || !isalpha((unsigned char)p[-1]) ||
                      (islower((unsigned char)p[-1]) && isupper((unsigned char)*p));
        if (starts && strncasecmp(p, word, n) == 0 && !islower((unsigned char)p[n]))
            return true;
    }
    return false;
}

bool shape_is_label(const json_t *result, size_t column)
{
    static const char *const words[] = { "id",      "year", "month", "quarter", "week", "day",
                                         "weekday", "hour", "zip",   "code",    "key",  "rank" };
    const char *name = json_string_value(
        json_array_get(json_object_get(result, "columns"), column));
    if (!name || shape_kind_of(result, column) != SHAPE_INTEGER)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        /* "day_count", "hours_total" are counted, not named. */
        if (has_word(name, words[i]) && !has_word(name, "count") && !has_word(name, "total") &&
            !has_word(name, "sum") && !has_word(name, "avg"))
            return true;
    }
    return false;
}

/* ---- words ---- */

static int append_grouped(struct buf *b, const char *digits, struct err *err)
{
    size_t whole = strcspn(digits, "."), i = 0;
    int r = 0;
    if (digits[0] == '-')
        r = buf_append(b, digits, 1, err), i = 1;
    for (; i < whole && r >= 0; i++) {
        r = buf_append(b, digits + i, 1, err);
        if (r >= 0 && i + 1 < whole && (whole - i - 1) % 3 == 0)
            r = buf_append_str(b, ",", err);
    }
    return r < 0 ? r : buf_append_str(b, digits + whole, err);
}

int shape_append_number(struct buf *b, const json_t *cell, struct err *err)
{
    char text[64];
    double v;
    if (json_is_integer(cell)) {
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(cell));
        return append_grouped(b, text, err);
    }
    const char *long_text = json_string_value(cell);
    if (long_text && strspn(long_text, "-0123456789") == strlen(long_text))
        return append_grouped(b, long_text, err); /* more digits than a double has */
    if (!shape_number(cell, &v))
        return buf_append_str(b, "no value", err);
    if (v != 0 && (fabs(v) >= 1e15 || fabs(v) < 1e-6)) {
        str_from_double(v, text);
        return buf_append_str(b, text, err);
    }
    /* Two places, or three digits that are not zero for what is small. */
    int places = 2;
    for (double a = fabs(v); a > 0 && a < 0.1 && places < 9; a *= 10)
        places++;
    if (fabs(v) < 1 && v != 0)
        places++;
    str_rounded(v, places, text, sizeof(text));
    return append_grouped(b, text, err);
}

/* ---- cells ---- */

/* Whether every time is midnight, a first of a month, one of a quarter, one of a year. */
static enum shape_form form_of_times(const json_t *rows, const char *name, size_t column)
{
    bool day = true, month = true, quarter = true, year = true;
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const char *s = json_string_value(json_array_get(row, column));
        if (!s)
            continue;
        if (!shape_is_date(s))
            return FORM_PLAIN;
        day &= s[10] == '\0' || (strlen(s) >= 19 && strncmp(s + 11, "00:00:00", 8) == 0);
        month &= strncmp(s + 8, "01", 2) == 0;
        quarter &= strchr("147", s[6]) && (s[5] == '0' || strncmp(s + 5, "10", 2) == 0);
        year &= strncmp(s + 5, "01", 2) == 0;
    }
    if (!day)
        return FORM_PLAIN;
    if (month && year && has_word(name, "year"))
        return FORM_YEAR;
    if (month && quarter && has_word(name, "quarter"))
        return FORM_QUARTER;
    return month && has_word(name, "month") ? FORM_MONTH : FORM_DAY;
}

/* Shares of one that are called rates. What is paid or beats at a rate is no share. */
static bool is_rate(const json_t *rows, const char *name, size_t column)
{
    static const char *const others[] = {
        "exchange", "fx", "currency", "heart", "hourly", "daily"
    };
    bool fraction = false;
    json_t *row;
    size_t i;
    double v;
    if (!has_word(name, "rate") && !has_word(name, "share"))
        return false;
    for (i = 0; i < ARRAY_SIZE(others); i++)
        if (has_word(name, others[i]))
            return false;
    json_array_foreach(rows, i, row) {
        if (!shape_number(json_array_get(row, column), &v))
            continue;
        if (v < 0 || v > 1)
            return false;
        fraction |= v > 0 && v < 1;
    }
    return fraction;
}

enum shape_form shape_form_of(const json_t *result, size_t column)
{
    const char *name = json_string_value(
        json_array_get(json_object_get(result, "columns"), column));
    const json_t *rows = json_object_get(result, "rows");
    enum shape_kind kind = shape_kind_of(result, column);
    if (kind == SHAPE_TIME)
        return form_of_times(rows, name ? name : "", column);
    if (!name || (kind != SHAPE_NUMBER && kind != SHAPE_INTEGER))
        return FORM_PLAIN;
    if (has_word(name, "percentage") || has_word(name, "percent") || has_word(name, "pct"))
        return FORM_PERCENT;
    return kind == SHAPE_NUMBER && is_rate(rows, name, column) ? FORM_RATE : FORM_PLAIN;
}

static int append_time(struct buf *b, const char *text, enum shape_form form, struct err *err)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int month = (text[5] - '0') * 10 + text[6] - '0';
    if (form == FORM_YEAR)
        return buf_printf(b, err, "%.4s", text);
    if (form == FORM_QUARTER)
        return buf_printf(b, err, "Q%d %.4s", (month + 2) / 3, text);
    if (form == FORM_MONTH && month >= 1 && month <= 12)
        return buf_printf(b, err, "%.3s %.4s", months + (month - 1) * 3, text);
    return buf_printf(b, err, "%.10s", text);
}

static int append_text(struct buf *b, const char *text, bool is_time, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    str_show(text, strlen(text), shown, sizeof(shown));
    if (is_time && strlen(shown) > 10 && shown[10] == 'T')
        shown[10] = ' ';
    return buf_append_str(b, shown, err);
}

int shape_append_cell(struct buf *b, const json_t *result, size_t row, size_t column,
                      struct err *err)
{
    const json_t *cell = json_array_get(json_array_get(json_object_get(result, "rows"), row),
                                        column);
    enum shape_kind kind = shape_kind_of(result, column);
    enum shape_form form = shape_form_of(result, column);
    double number;
    if (!cell || json_is_null(cell))
        return buf_append_str(b, "no value", err);
    if (json_is_boolean(cell))
        return buf_append_str(b, json_is_true(cell) ? "yes" : "no", err);
    if (json_is_integer(cell) && shape_is_label(result, column))
        return buf_printf(b, err, "%lld", (long long)json_integer_value(cell));
    bool counted = kind == SHAPE_NUMBER || kind == SHAPE_INTEGER;
    if (json_is_number(cell) || (counted && shape_number(cell, &number))) {
        auto_json json_t *hundredths = form == FORM_RATE && shape_number(cell, &number) ?
                                           json_real(number * 100) :
                                           NULL;
        int r = shape_append_number(b, hundredths ? hundredths : cell, err);
        return r < 0 || (form != FORM_RATE && form != FORM_PERCENT) ? r :
                                                                      buf_append_str(b, " %", err);
    }
    if (json_is_string(cell) && json_string_length(cell) == 0)
        return buf_append_str(b, "(empty)", err);
    if (json_is_string(cell) && kind == SHAPE_TIME && form != FORM_PLAIN)
        return append_time(b, json_string_value(cell), form, err);
    if (json_is_string(cell))
        return append_text(b, json_string_value(cell), kind == SHAPE_TIME, err);
    auto_free char *text = json_to_str(cell);
    return text ? append_text(b, text, false, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- names ---- */

/* Underscores are blanks, blanks are single, no word follows itself: "total_Total__" is "total". */
static void tidy_words(char *text)
{
    char *to = text, *last = NULL;
    size_t last_len = 0;
    for (const char *at = text; *at;) {
        at += strspn(at, "_ ");
        size_t len = strcspn(at, "_ ");
        if (len == 0)
            break;
        if (len != last_len || strncasecmp(at, last, len) != 0) {
            if (to > text)
                *to++ = ' ';
            last = memmove(to, at, len);
            last_len = len;
            to += len;
        }
        at += len;
    }
    if (to > text)
        *to = '\0';
}

void shape_words(const char *column, char ret[SHAPE_WORDS_SIZE])
{
    static const struct {
        const char *start, *word;
    } starts[] = { { "avg_", "average " },  { "num_", "number of " }, { "sum_", "total " },
                   { "max_", "greatest " }, { "min_", "least " },     { "n_", "number of " } };
    static const struct {
        const char *whole, *words;
    } wholes[] = { { "count_star()", "count" },
                   { "row_count", "number of rows" },
                   { "n", "count" } };
    char shown[STR_SHOWN_SIZE];
    const char *rest = column, *start = "";
    for (size_t i = 0; i < ARRAY_SIZE(wholes); i++)
        if (str_ieq(column, wholes[i].whole)) {
            snprintf(ret, SHAPE_WORDS_SIZE, "%s", wholes[i].words);
            return;
        }
    for (size_t i = 0; i < ARRAY_SIZE(starts) && rest == column; i++)
        if (strncasecmp(column, starts[i].start, strlen(starts[i].start)) == 0) {
            start = starts[i].word;
            rest = column + strlen(starts[i].start);
        }
    str_show(rest, strlen(rest), shown, sizeof(shown) - 16);
    snprintf(ret, SHAPE_WORDS_SIZE, "%s%s", start, shown);
    tidy_words(ret);
}
