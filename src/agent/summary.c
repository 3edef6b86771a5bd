/*
 * A sentence about a result. The shape of the result chooses the sentence; nothing is computed but
 * counts and extremes.
 */

#include "agent/summary.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/shape.h"
#include "base/macros.h"
#include "base/str.h"

#define FEW_ROWS 5
#define FEW_COLUMNS 6
#define LABELS_MAX 2
#define REASON_MAX_BYTES 600
#define NAMED_TIES 3

struct text {
    const json_t *result, *columns, *rows;
    size_t n_columns, n_rows;
    size_t n_labels; /* the columns that name what the last one measures */
    bool truncated;
    const char *reading;
    struct buf *b;
    struct err *err;
};

/* ---- pieces ---- */

static int put(struct text *t, const char *s)
{
    return buf_append_str(t->b, s, t->err);
}

static int put_count(struct text *t, size_t n, const char *one, const char *many)
{
    auto_json json_t *number = json_integer((json_int_t)n);
    int r = shape_append_number(t->b, number, t->err);
    return r < 0 ? r : buf_printf(t->b, t->err, " %s", n == 1 ? one : many);
}

static const char *column_name(const struct text *t, size_t column)
{
    const char *name = json_string_value(json_array_get(t->columns, column));
    return name ? name : "value";
}

static int put_name(struct text *t, size_t column)
{
    char words[SHAPE_WORDS_SIZE];
    shape_words(column_name(t, column), words);
    return put(t, words);
}

static const json_t *cell_of(const struct text *t, size_t row, size_t column)
{
    return json_array_get(json_array_get(t->rows, row), column);
}

static int put_cell(struct text *t, size_t row, size_t column)
{
    return shape_append_cell(t->b, t->result, row, column, t->err);
}

/* What was put since then begins a sentence. */
static int capitalise(struct text *t, size_t at)
{
    t->b->data[at] = (char)toupper((unsigned char)t->b->data[at]);
    return 0;
}

/* ---- one row ---- */

static bool is_count_name(const char *name, char ret_what[SHAPE_WORDS_SIZE])
{
    static const char *const bare[] = { "count",        "n",  "total", "total_count", "row_count",
                                        "count_star()", "cnt" };
    static const char *const starts[] = { "total_", "count_", "num_", "number_of_", "n_" };
    ret_what[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(bare); i++)
        if (str_ieq(name, bare[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        if (strncasecmp(name, starts[i], strlen(starts[i])) == 0 && str_ends(name, "s")) {
            shape_words(name + strlen(starts[i]), ret_what);
            return true;
        }
    if (str_ends(name, "_count") && strlen(name) > 6) {
        char stem[SHAPE_WORDS_SIZE];
        snprintf(stem, sizeof(stem), "%.*s", (int)MIN_OF(strlen(name) - 6, sizeof(stem) - 1), name);
        shape_words(stem, ret_what);
        if (!str_ends(ret_what, "s") && strlen(ret_what) + 2 < SHAPE_WORDS_SIZE)
            strcat(ret_what, "s");
        return true;
    }
    return false;
}

static int put_one_cell(struct text *t)
{
    char what[SHAPE_WORDS_SIZE];
    const json_t *cell = cell_of(t, 0, 0);
    size_t at = t->b->len;
    int r;
    if (json_is_integer(cell) && is_count_name(column_name(t, 0), what)) {
        bool one = json_integer_value(cell) == 1;
        if (*what) {
            if (one && str_ends(what, "s") && !str_ends(what, "ss"))
                what[strlen(what) - 1] = '\0';
            r = put(t, one ? "There is " : "There are ");
            if (r >= 0)
                r = put_cell(t, 0, 0);
            return r < 0 ? r : buf_printf(t->b, t->err, " %s.", what);
        }
        r = put(t, "The count is ");
    } else if (!cell || json_is_null(cell)) {
        r = put(t, "There is no ");
        if (r >= 0)
            r = put_name(t, 0);
        return r < 0 ? r : put(t, ": nothing to compute it from.");
    } else {
        r = put_name(t, 0);
        if (r >= 0)
            r = put(t, ": ");
        if (r >= 0)
            r = capitalise(t, at);
    }
    if (r >= 0)
        r = put_cell(t, 0, 0);
    return r < 0 ? r : put(t, ".");
}

/* "city: Paris, total amount: 1,234.5"; between: what is between a name and its cell */
static int put_pairs(struct text *t, size_t row, const char *between)
{
    int r = 0;
    for (size_t i = 0; i < MIN_OF(t->n_columns, (size_t)FEW_COLUMNS) && r >= 0; i++) {
        if (i > 0)
            r = put(t, ", ");
        if (r >= 0)
            r = put_name(t, i);
        if (r >= 0)
            r = put(t, between);
        if (r >= 0)
            r = put_cell(t, row, i);
    }
    if (r >= 0 && t->n_columns > FEW_COLUMNS) {
        r = put(t, ", and ");
        if (r >= 0)
            r = put_count(t, t->n_columns - FEW_COLUMNS, "more column", "more columns");
    }
    return r < 0 ? r : put(t, ".");
}

/* ---- one number for each of several things ---- */

static bool is_figure(const struct text *t, size_t column)
{
    enum shape_kind kind = shape_kind_of(t->result, column);
    return (kind == SHAPE_INTEGER || kind == SHAPE_NUMBER) && !shape_is_label(t->result, column);
}

/*
 * Labels first, one number last; before a percentage there may be the number that it is of. False
 * if the columns are otherwise.
 */
static bool find_labels(struct text *t)
{
    if (t->n_columns < 2 || !is_figure(t, t->n_columns - 1))
        return false;
    t->n_labels = t->n_columns - 1;
    if (t->n_labels > 1 && is_figure(t, t->n_labels - 1) &&
        shape_form_of(t->result, t->n_labels) == FORM_PERCENT)
        t->n_labels--;
    if (t->n_labels > LABELS_MAX)
        return false;
    for (size_t i = 0; i < t->n_labels; i++) {
        enum shape_kind kind = shape_kind_of(t->result, i);
        if (kind == SHAPE_NUMBER || kind == SHAPE_OTHER || (is_figure(t, i) && t->n_labels > 1))
            return false;
    }
    return true;
}

struct extremes {
    size_t low, high;        /* rows */
    size_t low2, high2;      /* the second rows that have that */
    size_t n_low, n_high, n; /* how many have that; how many have any */
    bool falls, rises;       /* in the order of the rows */
};

static struct extremes find_extremes(const struct text *t)
{
    struct extremes x = { .falls = true, .rises = true };
    double low = 0, high = 0, last = 0, v;
    for (size_t i = 0; i < t->n_rows; i++) {
        if (!shape_number(cell_of(t, i, t->n_columns - 1), &v))
            continue;
        x.falls &= x.n == 0 || v <= last;
        x.rises &= x.n == 0 || v >= last;
        last = v;
        if (x.n == 0 || v < low)
            x.low = i, low = v, x.n_low = 0;
        if (x.n == 0 || v > high)
            x.high = i, high = v, x.n_high = 0;
        if (v == low && ++x.n_low == 2)
            x.low2 = i;
        if (v == high && ++x.n_high == 2)
            x.high2 = i;
        x.n++;
    }
    return x;
}

/* Different values, or one that all rows have. */
static bool has_extremes(const struct text *t)
{
    struct extremes x = find_extremes(t);
    return x.n > 1 && (x.n_high < x.n || x.n == t->n_rows);
}

/* "Paris", "Paris / Toys" for two labels */
static int put_label(struct text *t, size_t row)
{
    int r = 0;
    for (size_t i = 0; i < t->n_labels && r >= 0; i++) {
        if (i > 0)
            r = put(t, " / ");
        if (r < 0)
            break;
        const json_t *cell = cell_of(t, row, i);
        enum shape_kind kind = shape_kind_of(t->result, i);
        /* A number or a truth that names something needs its column to be understood. */
        if (kind == SHAPE_INTEGER || kind == SHAPE_BOOL || !cell || json_is_null(cell)) {
            r = put_name(t, i);
            if (r >= 0)
                r = put(t, " ");
        }
        if (r >= 0)
            r = put_cell(t, row, i);
    }
    return r;
}

/* "highest for Paris and Rome (1,234)"; word: all before the label */
static int put_extreme(struct text *t, const char *word, const struct extremes *x, bool high)
{
    size_t row = high ? x->high : x->low, n_same = high ? x->n_high : x->n_low;
    int r = put(t, word);
    if (r >= 0)
        r = put_label(t, row);
    if (r >= 0 && n_same > 1)
        r = put(t, " and ");
    if (r >= 0 && n_same == 2)
        r = put_label(t, high ? x->high2 : x->low2);
    else if (r >= 0 && n_same > 2)
        r = put_count(t, n_same - 1, "other", "others");
    if (r >= 0)
        r = put(t, " (");
    if (r >= 0)
        r = put_cell(t, row, t->n_columns - 1);
    return r < 0 ? r : put(t, ")");
}

/* "Total amount by city and kind" */
static int put_subject(struct text *t)
{
    size_t at = t->b->len;
    int r = put_name(t, t->n_columns - 1);
    if (r >= 0)
        r = capitalise(t, at);
    for (size_t i = 0; i < t->n_labels && r >= 0; i++) {
        r = put(t, i == 0 ? " by " : " and ");
        if (r >= 0)
            r = put_name(t, i);
    }
    return r;
}

static int put_span(struct text *t)
{
    int r = put(t, ", ");
    if (r >= 0)
        r = put_cell(t, 0, 0);
    if (r >= 0)
        r = put(t, " to ");
    return r < 0 ? r : put_cell(t, t->n_rows - 1, 0);
}

static bool is_span(const struct text *t)
{
    if (t->n_labels != 1 || shape_kind_of(t->result, 0) != SHAPE_TIME ||
        !json_is_string(cell_of(t, 0, 0)))
        return false;
    for (size_t i = 1; i < t->n_rows; i++) {
        const char *before = json_string_value(cell_of(t, i - 1, 0)),
                   *s = json_string_value(cell_of(t, i, 0));
        if (!before || !s || strcmp(before, s) >= 0)
            return false;
    }
    return true;
}

static int put_same(struct text *t, size_t row)
{
    int r = put(t, t->truncated ? "The first " : "All ");
    if (r >= 0)
        r = put_count(t, t->n_rows, "row has", "rows have");
    if (r >= 0)
        r = put(t, " the same ");
    if (r >= 0)
        r = put_name(t, t->n_columns - 1);
    if (r >= 0)
        r = put(t, " (");
    if (r >= 0)
        r = put_cell(t, row, t->n_columns - 1);
    return r < 0 ? r : put(t, ").");
}

static int put_measured(struct text *t)
{
    struct extremes x = find_extremes(t);
    bool span = is_span(t), ordered = x.falls || x.rises;
    if (x.n_high == t->n_rows)
        return put_same(t, x.high);
    int r = put_subject(t);
    if (r >= 0 && span)
        r = put_span(t);
    else if (r >= 0 && t->truncated && !ordered)
        r = put(t, ", of the rows that were kept");
    else if (r >= 0 && !t->truncated && t->n_rows > FEW_ROWS)
        r = buf_printf(t->b, t->err, " (%zu rows)", t->n_rows);
    if (r >= 0)
        r = put(t, ": ");
    if (r < 0)
        return r;
    /*
     * The end that the rows are ordered by comes first. Of ordered rows that is all that is known:
     * they may be the first of more, by a limit or by a cut.
     */
    bool time = shape_kind_of(t->result, 0) == SHAPE_TIME;
    if (ordered && !span) {
        r = x.rises ? put_extreme(t, "lowest for ", &x, false) :
                      put_extreme(t, "highest for ", &x, true);
        if (r >= 0 && !t->truncated)
            r = x.rises ? put_extreme(t, ", up to ", &x, true) :
                          put_extreme(t, ", down to ", &x, false);
    } else {
        r = put_extreme(t, time ? "highest in " : "highest for ", &x, true);
        if (r >= 0)
            r = put_extreme(t, time ? ", lowest in " : ", lowest for ", &x, false);
    }
    return r < 0 ? r : put(t, ".");
}

/* ---- the rest ---- */

static int put_error(struct text *t, const json_t *error)
{
    const char *message = json_string_value(json_object_get(error, "message"));
    int r = put(t, "This could not be run: ");
    if (r >= 0)
        r = message && *message ?
                buf_append(t->b, message, str_utf8_cut(message, strlen(message), REASON_MAX_BYTES),
                           t->err) :
                put(t, "no reason was given");
    if (r >= 0 && !str_ends(buf_cstr(t->b), "."))
        r = put(t, ".");
    return r;
}

static int put_empty(struct text *t)
{
    if (!t->reading)
        return put(t, "No row fits.");
    int r = put(t, "No row fits: ");
    if (r >= 0)
        r = put(t, t->reading);
    return r < 0 ? r : put(t, ".");
}

static int put_table(struct text *t, const char *language)
{
    bool few = t->n_rows <= FEW_ROWS && !t->truncated;
    int r;
    if (few && t->n_columns <= FEW_COLUMNS) {
        r = put_count(t, t->n_rows, "row", "rows");
        if (r >= 0)
            r = put(t, ". The first: ");
        return r < 0 ? r : put_pairs(t, 0, " ");
    }
    r = put(t, str_eq(language, "python") ? "The code gave " : "The query gave ");
    if (r >= 0 && t->truncated)
        r = put(t, "more than ");
    if (r >= 0)
        r = put_count(t, t->n_rows, "row", "rows");
    if (r >= 0)
        r = put(t, " with ");
    if (r >= 0)
        r = put_count(t, t->n_columns, "column", "columns");
    return r < 0 ? r : put(t, ".");
}

int summary_write(const json_t *result, const char *language, const char *reading, struct buf *b,
                  struct err *err)
{
    const json_t *error = json_object_get(result, "error");
    struct text t = { .result = result,
                      .columns = json_object_get(result, "columns"),
                      .rows = json_object_get(result, "rows"),
                      .truncated = json_is_true(json_object_get(result, "truncated")),
                      .reading = reading,
                      .b = b,
                      .err = err };
    size_t before = b->len;
    bool names_reading = reading != NULL, tells_more = false;
    int r;
    t.n_columns = json_array_size(t.columns);
    t.n_rows = json_array_size(t.rows);
    if (json_is_object(error)) {
        r = put_error(&t, error);
        names_reading = false;
    } else if (t.n_columns == 0) {
        r = put(&t, str_eq(language, "python") ? "The code ran and gave no table." :
                                                 "The query gave no columns.");
        names_reading = false;
    } else if (t.n_rows == 0) {
        r = put_empty(&t);
        names_reading = false;
    } else if (t.n_rows == 1 && t.n_columns == 1 && !t.truncated) {
        r = put_one_cell(&t);
    } else if (t.n_rows == 1 && !t.truncated) {
        r = put_pairs(&t, 0, ": ");
        if (r >= 0)
            r = capitalise(&t, before);
    } else if (find_labels(&t) && has_extremes(&t)) {
        r = put_measured(&t);
    } else {
        r = put_table(&t, language);
        tells_more = true;
    }
    if (r >= 0 && t.truncated && !tells_more && !json_is_object(error)) {
        r = put(&t, " Only the first ");
        if (r >= 0)
            r = put_count(&t, t.n_rows, "row was kept; there are more.",
                          "rows were kept; there are more.");
    }
    if (r >= 0 && names_reading) {
        r = put(&t, " Read as: ");
        if (r >= 0)
            r = put(&t, reading);
        if (r >= 0)
            r = put(&t, ".");
    }
    if (r < 0 && b->data) {
        b->len = before;
        b->data[before] = '\0';
    }
    return r;
}

int summary_write_ties(const json_t *ties, size_t n_shown, struct buf *b, struct err *err)
{
    if (!ties)
        return 0;
    struct text t = { .result = ties,
                      .columns = json_object_get(ties, "columns"),
                      .rows = json_object_get(ties, "rows"),
                      .b = b,
                      .err = err };
    size_t same = (size_t)json_integer_value(json_object_get(ties, "column"));
    t.n_rows = json_array_size(t.rows);
    /* The first column names a row, unless it is the one that all have in common. */
    size_t named = same == 0 ? 0 : MIN_OF(t.n_rows, (size_t)NAMED_TIES);
    int r = put(&t, n_shown == 1 ? " Tied with it: " : " Tied with the last of them: ");
    for (size_t i = 0; i < named && r >= 0; i++) {
        if (i > 0)
            r = put(&t, i + 1 == named && t.n_rows == named ? " and " : ", ");
        if (r >= 0)
            r = put_cell(&t, i, 0);
    }
    if (r >= 0 && t.n_rows > named) {
        r = put(&t, named > 0 ? " and " : "");
        if (r >= 0 && json_is_true(json_object_get(ties, "truncated")))
            r = put(&t, "at least ");
        if (r >= 0)
            r = put_count(&t, t.n_rows - named, "other", "others");
    }
    if (r >= 0)
        r = put(&t, t.n_rows == 1 ? " has the same " : " have the same ");
    if (r >= 0)
        r = put_name(&t, same);
    return r < 0 ? r : put(&t, ".");
}
