/*
 * Which picture fits. Every column must find its place in it: at most one time, at most two
 * categories, and numbers; a table that is merely listed has more than that, and no picture.
 */

#include "agent/chart.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/shape.h"
#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

#define NONE ((size_t)-1)
#define COLUMNS_MAX 8 /* of a result that is drawn without a hint */
#define LONG_LABEL_BYTES 10
#define STEPS_MIN 3 /* years, months: so many make a line */
#define NAMED_BY_KEY_MAX 30
#define FIELD_MAX_BYTES 1024

struct picture {
    const json_t *result, *columns, *rows;
    size_t n_rows;
    const char *kind; /* "line", "bar", "point", "arc" */
    size_t x, y, series;
};

static const json_t *cell_of(const struct picture *p, size_t row, size_t column)
{
    return json_array_get(json_array_get(p->rows, row), column);
}

/* ---- what the cells are like ---- */

static bool is_number_column(const struct picture *p, size_t column)
{
    enum shape_kind kind = shape_kind_of(p->result, column);
    double v;
    if (kind != SHAPE_INTEGER && kind != SHAPE_NUMBER)
        return false;
    for (size_t i = 0; i < p->n_rows; i++)
        if (shape_number(cell_of(p, i, column), &v))
            return true;
    return false;
}

/* How many different values a column has, or two columns together. */
static size_t count_different(const struct picture *p, size_t a, size_t b)
{
    auto_json json_t *seen = json_object();
    for (size_t i = 0; i < p->n_rows; i++) {
        auto_json json_t *pair = json_array();
        json_array_append(pair, json_array_get(json_array_get(p->rows, i), a));
        if (b != NONE)
            json_array_append(pair, json_array_get(json_array_get(p->rows, i), b));
        auto_free char *key = json_to_str(pair);
        if (key)
            json_object_set_new(seen, key, json_true());
    }
    return json_object_size(seen);
}

static bool is_rising(const struct picture *p, size_t column)
{
    double last = 0, v;
    for (size_t i = 0; i < p->n_rows; i++) {
        if (!shape_number(cell_of(p, i, column), &v) || (i > 0 && v <= last))
            return false;
        last = v;
    }
    return true;
}

static bool has_negative(const struct picture *p, size_t column)
{
    double v;
    for (size_t i = 0; i < p->n_rows; i++)
        if (shape_number(cell_of(p, i, column), &v) && v < 0)
            return true;
    return false;
}

/* Integers that follow each other in time: a line may join them. */
static bool is_steps(const struct picture *p, size_t column)
{
    static const char *const words[] = { "year", "month", "quarter", "week", "day", "hour" };
    const char *name = json_string_value(json_array_get(p->columns, column));
    if (!shape_is_label(p->result, column) || p->n_rows < STEPS_MIN || !is_rising(p, column))
        return false;
    for (size_t i = 0; name && i < ARRAY_SIZE(words); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

/* ---- choosing ---- */

/* With x, y and series decided: is it a picture? */
static bool fits(const struct picture *p)
{
    if (!is_number_column(p, p->y) || p->x == p->y || p->series == p->y || p->series == p->x)
        return false;
    size_t n_series = p->series == NONE ? 1 : count_different(p, p->series, NONE);
    if (str_eq(p->kind, "point"))
        return n_series <= CHART_SERIES_MAX;
    size_t n_x = count_different(p, p->x, NONE);
    /* One mark for each place: rows that share one are records, not figures about groups. */
    if (n_series > CHART_SERIES_MAX || count_different(p, p->x, p->series) != p->n_rows)
        return false;
    if (str_eq(p->kind, "arc"))
        return p->series == NONE && n_x >= 2 && n_x <= CHART_SLICES_MAX && !has_negative(p, p->y);
    if (str_eq(p->kind, "line"))
        return n_x >= 2;
    return n_x <= CHART_BARS_MAX && n_x * n_series >= 2;
}

/*
 * Of two categories, one may tell the rows apart by itself, such as a name beside its key: the
 * other
 * is then no colour, only a legend as long as the rows. A name is preferred.
 */
static bool name_rows(struct picture *p, const size_t category[2])
{
    p->series = NONE;
    bool first_is_key = shape_is_label(p->result, category[0]);
    for (size_t i = 0; i < 2; i++) {
        p->x = category[i == 0 ? first_is_key : !first_is_key];
        if (count_different(p, p->x, NONE) == p->n_rows && fits(p))
            return true;
    }
    return false;
}

static size_t column_named(const struct picture *p, const json_t *field)
{
    const char *name = json_is_string(field) ? json_string_value(field) :
                                               json_string_value(json_object_get(field, "field"));
    size_t i;
    json_t *column;
    json_array_foreach(p->columns, i, column)
        if (name && str_eq(json_string_value(column), name))
            return i;
    return NONE;
}

static bool take_hint(struct picture *p, const json_t *hint)
{
    static const char *const kinds[] = { "line", "bar", "point", "arc" };
    const json_t *mark = json_object_get(hint, "mark");
    const char *name = json_is_string(mark) ? json_string_value(mark) :
                                              json_string_value(json_object_get(mark, "type"));
    p->kind = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (name && str_eq(name, kinds[i]))
            p->kind = kinds[i];
    if (name && (str_eq(name, "pie") || str_eq(name, "donut")))
        p->kind = "arc";
    if (name && (str_eq(name, "area") || str_eq(name, "scatter")))
        p->kind = name[0] == 'a' ? "line" : "point";
    p->x = column_named(p, json_object_get(hint, "x"));
    p->y = column_named(p, json_object_get(hint, "y"));
    p->series = json_object_get(hint, "series") ? column_named(p, json_object_get(hint, "series")) :
                                                  NONE;
    if (!p->kind || p->x == NONE || p->y == NONE)
        return false;
    /* A line joins what follows in time; other things stand beside each other. */
    if (str_eq(p->kind, "line") && shape_kind_of(p->result, p->x) != SHAPE_TIME &&
        !is_steps(p, p->x) && !is_number_column(p, p->x))
        p->kind = "bar";
    size_t x = p->x, series = p->series, both[2] = { x, series };
    if (str_eq(p->kind, "bar") && series != NONE && name_rows(p, both))
        return true;
    p->x = x;
    p->series = series;
    return fits(p);
}

/* The columns by what they can be in a picture. */
struct places {
    size_t time, category[2], number[COLUMNS_MAX];
    size_t n_categories, n_numbers;
};

static bool sort_columns(const struct picture *p, struct places *ret)
{
    size_t n = json_array_size(p->columns);
    *ret = (struct places){ .time = NONE };
    if (n < 2 || n > COLUMNS_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        enum shape_kind kind = shape_kind_of(p->result, i);
        if (kind == SHAPE_OTHER)
            return false;
        if ((kind == SHAPE_INTEGER || kind == SHAPE_NUMBER) && !shape_is_label(p->result, i))
            ret->number[ret->n_numbers++] = i;
        else if ((kind == SHAPE_TIME || is_steps(p, i)) && ret->time == NONE)
            ret->time = i;
        else if (ret->n_categories < 2)
            ret->category[ret->n_categories++] = i;
        else
            return false;
    }
    return ret->n_numbers > 0;
}

static bool choose(struct picture *p)
{
    struct places at;
    if (!sort_columns(p, &at) || (at.time != NONE && at.n_categories > 1))
        return false;
    p->y = at.number[0];
    p->series = NONE;
    if (at.time != NONE) {
        p->x = at.time;
        p->series = at.n_categories > 0 ? at.category[0] : NONE;
        p->kind = "line";
        if (fits(p))
            return true;
        p->kind = "point"; /* several at one time */
        return at.n_categories == 0 && count_different(p, p->x, NONE) > 1 && fits(p);
    }
    if (at.n_categories > 0) {
        p->kind = "bar";
        if (at.n_categories > 1 && name_rows(p, at.category))
            return true;
        p->x = at.category[0];
        p->series = at.n_categories > 1 ? at.category[1] : NONE;
        /* Keys say nothing beside a bar when there are many. */
        if (shape_is_label(p->result, p->x) && p->n_rows > NAMED_BY_KEY_MAX)
            return false;
        if (fits(p))
            return true;
        if (p->series == NONE)
            return false;
        /* The one with fewer values is the colour. */
        p->x = at.category[1];
        p->series = at.category[0];
        return fits(p);
    }
    if (at.n_numbers < 2)
        return false;
    p->x = at.number[0];
    p->y = at.number[1];
    /* A whole number that counts upwards is a group of its own: 1 item, 2 items, 3 items. */
    p->kind = shape_kind_of(p->result, p->x) == SHAPE_INTEGER && at.n_numbers == 2 &&
                      p->n_rows <= NAMED_BY_KEY_MAX && is_rising(p, p->x) ?
                  "bar" :
                  "point";
    return at.n_numbers <= 3 && fits(p);
}

/* ---- writing ---- */

static json_t *title_of(const struct picture *p)
{
    char x[SHAPE_WORDS_SIZE], y[SHAPE_WORDS_SIZE], series[SHAPE_WORDS_SIZE];
    auto_buf struct buf b = BUF_INIT(4 * SHAPE_WORDS_SIZE);
    shape_words(json_string_value(json_array_get(p->columns, p->x)), x);
    shape_words(json_string_value(json_array_get(p->columns, p->y)), y);
    (void)buf_printf(&b, NULL, str_eq(p->kind, "point") ? "%s and %s" : "%s by %s", y, x);
    if (p->series != NONE) {
        shape_words(json_string_value(json_array_get(p->columns, p->series)), series);
        (void)buf_printf(&b, NULL, " and %s", series);
    }
    if (b.len > 0)
        b.data[0] = (char)toupper((unsigned char)b.data[0]);
    return json_string(buf_cstr(&b));
}

/* A field's name as a path of one step: dots, brackets and quotes are escaped. */
static json_t *field_of(const struct picture *p, size_t column)
{
    auto_buf struct buf b = BUF_INIT(FIELD_MAX_BYTES * 2);
    for (const char *s = json_string_value(json_array_get(p->columns, column)); *s; s++) {
        if (strchr(".[]\\'\"", *s))
            (void)buf_append(&b, "\\", 1, NULL);
        (void)buf_append(&b, s, 1, NULL);
    }
    return json_string(buf_cstr(&b));
}

static const char *type_of(const struct picture *p, size_t column, bool is_axis)
{
    enum shape_kind kind = shape_kind_of(p->result, column);
    if (kind == SHAPE_TIME)
        return is_axis ? "temporal" : "ordinal";
    if (is_axis && str_eq(p->kind, "point") && (kind == SHAPE_INTEGER || kind == SHAPE_NUMBER))
        return "quantitative";
    return kind == SHAPE_INTEGER || kind == SHAPE_NUMBER ? "ordinal" : "nominal";
}

static json_t *channel(const struct picture *p, size_t column, const char *type)
{
    char words[SHAPE_WORDS_SIZE];
    shape_words(json_string_value(json_array_get(p->columns, column)), words);
    return json_pack("{s:o, s:s, s:s}", "field", field_of(p, column), "type", type, "title", words);
}

static bool has_long_labels(const struct picture *p)
{
    size_t n = MIN_OF(p->n_rows, (size_t)CHART_BARS_MAX), longest = 0;
    for (size_t i = 0; i < n; i++)
        longest = MAX_OF(longest, json_string_length(cell_of(p, i, p->x)));
    return longest * MIN_OF(count_different(p, p->x, NONE), n) > LONG_LABEL_BYTES * 8;
}

static json_t *encode(const struct picture *p)
{
    json_t *encoding = json_object(), *x, *y = channel(p, p->y, "quantitative");
    if (str_eq(p->kind, "arc")) {
        json_object_set_new(encoding, "theta", y);
        x = channel(p, p->x, "nominal");
        json_object_set_new(x, "sort", json_null());
        json_object_set_new(encoding, "color", x);
        return encoding;
    }
    bool bar = str_eq(p->kind, "bar");
    x = channel(p, p->x,
                bar && shape_kind_of(p->result, p->x) == SHAPE_TIME ? "ordinal" :
                                                                      type_of(p, p->x, true));
    if (!str_eq(json_string_value(json_object_get(x, "type")), "temporal") &&
        !str_eq(p->kind, "point"))
        json_object_set_new(x, "sort", json_null()); /* in the order of the rows */
    if (bar && has_long_labels(p))
        json_object_set_new(x, "axis", json_pack("{s:i}", "labelAngle", -40));
    if (!bar)
        json_object_set_new(y, "scale", json_pack("{s:b}", "zero", 0));
    json_object_set_new(encoding, "x", x);
    json_object_set_new(encoding, "y", y);
    if (p->series != NONE) {
        json_t *color = channel(p, p->series, type_of(p, p->series, false));
        json_object_set_new(color, "sort", json_null());
        json_object_set_new(encoding, "color", color);
        if (bar) {
            json_t *offset = json_pack("{s:o, s:n}", "field", field_of(p, p->series), "sort");
            json_object_set_new(encoding, "xOffset", offset);
        }
    }
    return encoding;
}

json_t *chart_suggest(const json_t *result, const json_t *hint)
{
    struct picture p = { .result = result,
                         .columns = json_object_get(result, "columns"),
                         .rows = json_object_get(result, "rows") };
    size_t i;
    json_t *column;
    p.n_rows = json_array_size(p.rows);
    if (p.n_rows < 2 || p.n_rows > CHART_ROWS_MAX ||
        json_is_object(json_object_get(result, "error")))
        return NULL;
    json_array_foreach(p.columns, i, column)
        if (!json_is_string(column) || json_string_length(column) == 0 ||
            json_string_length(column) > FIELD_MAX_BYTES)
            return NULL;
    if (!take_hint(&p, hint) && !choose(&p))
        return NULL;
    json_t *meta = json_pack("{s:s, s:O, s:O}", "kind", p.kind, "x", json_array_get(p.columns, p.x),
                             "y", json_array_get(p.columns, p.y));
    if (p.series != NONE)
        json_object_set(meta, "series", json_array_get(p.columns, p.series));
    return json_pack("{s:s, s:o, s:{s:s}, s:{s:s, s:b}, s:o, s:o}", "$schema",
                     "https://vega.github.io/schema/vega-lite/v5.json", "title", title_of(&p),
                     "data", "name", "result", "mark", "type", p.kind, "tooltip", 1, "encoding",
                     encode(&p), "usermeta", meta);
}
