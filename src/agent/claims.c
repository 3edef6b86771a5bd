/*
 * Figures in a text against figures in results.
 *
 * All that the results and the question hold goes into three sorted lists: the numbers themselves;
 * what two of them give (sums, differences, ratios); and what two of them give as a percentage. A
 * figure of the text is looked up with the tolerance that its own digits imply: "1.2k" is anything
 * that rounds to it. Signs are ignored: "fell by 12" is -12.
 *
 * Pairs are taken where a person would take them: within a row, within a column (all pairs of a
 * short one; of a long one each cell with its neighbour, the ends and the extremes), in a result
 * that is small altogether, between results of one row, and in a line that was printed or said. Any
 * two of thousands of cells would bear out anything.
 */

#include "agent/claims.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/shape.h"
#include "base/macros.h"
#include "base/str.h"

#define CELLS_MAX 200000
#define DERIVED_MAX 400000
#define SHORT_CELLS 24 /* all pairs of so many */
#define ROW_CELLS 12
#define DATES_MAX 20000

/* ---- figures in text ---- */

struct figure {
    size_t start, len;        /* with the suffix */
    double value;             /* scaled, without its sign */
    double unit;              /* of the last digit that is shown */
    double round_unit;        /* of the last digit that is not zero: what "about" leaves open */
    double plain, plain_unit; /* before the suffix */
    bool percent, is_integer, has_scale;
    bool scale_is_letter;
    size_t n_digits;
};

/* A word at p, whatever its case, with no letter behind it. */
static bool is_word(const char *p, const char *word)
{
    size_t n = strlen(word);
    return strncasecmp(p, word, n) == 0 && !isalpha((unsigned char)p[n]);
}

/*
 * "1,234,567.89": digits, groups of three, a fraction, an exponent. Returns its length; 0 if there
 * is none at p.
 */
static size_t read_digits(const char *p, struct figure *ret)
{
    char digits[64];
    size_t n = 0, i = 0, places = 0, last = 0, whole;
    while (isdigit((unsigned char)p[i])) {
        if (n + 1 >= sizeof(digits) - 8)
            return 0;
        digits[n++] = p[i++];
        if (p[i] == ',' && isdigit((unsigned char)p[i + 1]) && isdigit((unsigned char)p[i + 2]) &&
            isdigit((unsigned char)p[i + 3]) && !isdigit((unsigned char)p[i + 4]) && n > 0)
            i++;
    }
    whole = n;
    if (n > 0 && p[i] == '.' && isdigit((unsigned char)p[i + 1])) {
        digits[n++] = '.';
        for (i++; isdigit((unsigned char)p[i]) && n < sizeof(digits) - 8; i++, places++)
            digits[n++] = p[i];
    }
    if (n == 0)
        return 0;
    digits[n] = '\0';
    ret->value = ret->plain = strtod(digits, NULL);
    ret->unit = pow(10, -(double)places);
    ret->is_integer = places == 0;
    ret->n_digits = n - (places > 0);
    for (size_t k = 0; k < whole; k++)
        if (digits[k] != '0')
            last = k + 1;
    ret->round_unit = places > 0 || last == 0 ? ret->unit : pow(10, (double)(whole - last));
    if ((p[i] == 'e' || p[i] == 'E') &&
        (isdigit((unsigned char)p[i + 1]) ||
         ((p[i + 1] == '-' || p[i + 1] == '+') && isdigit((unsigned char)p[i + 2])))) {
        char *end;
        double power = strtod(p + i + 1, &end);
        if (fabs(power) < 300) {
            double scale = pow(10, power);
            ret->value *= scale, ret->plain *= scale, ret->unit *= scale, ret->round_unit *= scale;
            i = (size_t)(end - p);
        }
    }
    return i;
}

/* "%", "k", " million" behind a number. Returns its length. */
static size_t read_suffix(const char *p, struct figure *f)
{
    static const struct {
        const char *word;
        double scale;
        bool spaced; /* may stand apart */
    } scales[] = { { "k", 1e3, false }, { "thousand", 1e3, true }, { "mn", 1e6, true },
                   { "m", 1e6, false }, { "million", 1e6, true },  { "bn", 1e9, true },
                   { "b", 1e9, false }, { "billion", 1e9, true },  { "trillion", 1e12, true } };
    const char *q = p + strspn(p, " ");
    if (*q == '%' || is_word(q, "percent") || is_word(q, "pct")) {
        f->percent = true;
        return (size_t)(q - p) + (*q == '%' ? 1 : is_word(q, "pct") ? 3 : 7);
    }
    for (size_t i = 0; i < ARRAY_SIZE(scales); i++) {
        const char *at = scales[i].spaced ? q : p;
        if (!is_word(at, scales[i].word))
            continue;
        f->plain_unit = f->unit;
        f->scale_is_letter = !scales[i].spaced;
        f->value *= scales[i].scale;
        f->unit *= scales[i].scale;
        f->round_unit *= scales[i].scale;
        f->has_scale = true;
        return (size_t)(at - p) + strlen(scales[i].word);
    }
    return 0;
}

/*
 * The first figure at or after `at`; false if there is none. Digits of a name ("Q3", "SEN-001") are
 * passed over if asked.
 */
static bool next_figure(const char *text, size_t at, bool skip_names, struct figure *ret)
{
    for (; text[at]; at++) {
        if (!isdigit((unsigned char)text[at]))
            continue;
        bool in_name = at > 0 && (isalpha((unsigned char)text[at - 1]) || text[at - 1] == '_');
        if (at > 1 && (text[at - 1] == '-' || text[at - 1] == '_') &&
            isalpha((unsigned char)text[at - 2]))
            in_name = true;
        *ret = (struct figure){ .start = at };
        size_t n = read_digits(text + at, ret);
        if (n == 0 || (in_name && skip_names)) {
            at += strspn(text + at, "0123456789") - 1;
            continue;
        }
        ret->len = n + read_suffix(text + at + n, ret);
        return true;
    }
    return false;
}

/* ---- what is known ---- */

struct list {
    double *v;
    size_t n, cap, max;
};

struct date {
    int year, month, day; /* 0: not said */
};

struct known {
    struct list direct, derived, percent;
    struct date dates[DATES_MAX];
    size_t n_dates;
    size_t most_rows;
    bool no_memory;
};

static void add(struct known *k, struct list *l, double v)
{
    if (!isfinite(v) || l->n == l->max)
        return;
    if (l->n == l->cap) {
        size_t cap = MIN_OF(l->cap ? l->cap * 2 : 256, l->max);
        double *more = realloc(l->v, cap * sizeof(*more));
        if (!more) {
            k->no_memory = true;
            return;
        }
        l->v = more;
        l->cap = cap;
    }
    l->v[l->n++] = fabs(v);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool has_near(const struct list *l, double v, double tolerance)
{
    size_t low = 0, high = l->n;
    double least = v - tolerance - fabs(v) * 1e-9;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (l->v[mid] < least)
            low = mid + 1;
        else
            high = mid;
    }
    return low < l->n && l->v[low] <= v + tolerance + fabs(v) * 1e-9;
}

static void pair(struct known *k, double a, double b)
{
    add(k, &k->derived, a + b);
    add(k, &k->derived, a - b);
    add(k, &k->percent, (a - b) * 100); /* points, where both are ratios */
    add(k, &k->percent, a - b);
    if (b != 0) {
        add(k, &k->derived, a / b);
        add(k, &k->percent, a / b * 100);
        add(k, &k->percent, (a - b) / b * 100);
    }
    if (a != 0) {
        add(k, &k->derived, b / a);
        add(k, &k->percent, b / a * 100);
        add(k, &k->percent, (b - a) / a * 100);
    }
}

static void all_pairs(struct known *k, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            pair(k, v[i], v[j]);
}

static void add_date(struct known *k, const char *s)
{
    if (!shape_is_date(s) && !(strlen(s) == 7 && s[4] == '-' && strspn(s, "0123456789-") == 7))
        return;
    if (k->n_dates < DATES_MAX)
        k->dates[k->n_dates++] = (struct date){ atoi(s), atoi(s + 5),
                                                strlen(s) >= 10 ? atoi(s + 8) : 0 };
}

/* Every number in a text, those in names too. */
static void add_text(struct known *k, const char *s)
{
    struct figure f;
    for (size_t at = 0; next_figure(s, at, false, &f); at = f.start + MAX_OF(f.len, (size_t)1)) {
        add(k, &k->direct, f.plain);
        if (f.has_scale)
            add(k, &k->direct, f.value);
        if (f.percent)
            add(k, &k->direct, f.plain / 100);
    }
    add_date(k, s);
}

/* Dates written in figures anywhere in a text. */
static void add_dates(struct known *k, const char *s)
{
    for (const char *p = s; (p = strchr(p, '-')); p++)
        if (p - s >= 4 && strspn(p - 4, "0123456789") == 4 && strspn(p + 1, "0123456789") == 2 &&
            k->n_dates < DATES_MAX)
            k->dates[k->n_dates++] = (struct date){ atoi(p - 4), atoi(p + 1),
                                                    p[3] == '-' ? atoi(p + 4) : 0 };
}

/*
 * What code printed, or somebody said: its figures, and what those of one line, or of a short text,
 * give together.
 */
static void add_said(struct known *k, const char *s)
{
    double all[SHORT_CELLS], line[ROW_CELLS];
    size_t n_all = 0, n_line = 0, from = 0;
    struct figure f;
    for (size_t at = 0; next_figure(s, at, false, &f); at = f.start + MAX_OF(f.len, (size_t)1)) {
        if (memchr(s + from, '\n', f.start - from)) {
            all_pairs(k, line, n_line);
            n_line = 0;
        }
        from = f.start;
        if (n_line < ROW_CELLS)
            line[n_line++] = f.value;
        if (n_all < SHORT_CELLS)
            all[n_all] = f.value;
        n_all++;
    }
    all_pairs(k, line, n_line);
    if (n_all <= SHORT_CELLS)
        all_pairs(k, all, n_all);
    add_text(k, s);
    add_dates(k, s);
}

/* ---- results ---- */

static void add_column(struct known *k, const json_t *rows, size_t column)
{
    size_t n_rows = json_array_size(rows), n = 0, low = 0, high = 0;
    auto_free double *v = calloc(n_rows + 1, sizeof(*v));
    double sum = 0;
    if (!v) {
        k->no_memory = true;
        return;
    }
    for (size_t i = 0; i < n_rows; i++)
        if (shape_number(json_array_get(json_array_get(rows, i), column), &v[n])) {
            sum += v[n];
            low = v[n] < v[low] ? n : low;
            high = v[n] > v[high] ? n : high;
            n++;
        }
    if (n < 2)
        return;
    add(k, &k->derived, sum);
    add(k, &k->derived, sum / (double)n);
    for (size_t i = 0; i < n && sum != 0; i++)
        add(k, &k->percent, v[i] / sum * 100);
    if (n <= SHORT_CELLS) {
        all_pairs(k, v, n);
        return;
    }
    pair(k, v[high], v[low]);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            pair(k, v[i], v[i - 1]);
        if (i > 0 && i + 1 == n)
            pair(k, v[i], v[0]);
    }
}

static void add_result(struct known *k, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows"),
                 *columns = json_object_get(result, "columns");
    size_t i, c, n_columns = json_array_size(columns), n_small = 0;
    double small[SHORT_CELLS], cells[ROW_CELLS], v;
    json_t *row, *cell, *name;
    bool is_small = true;
    k->most_rows = MAX_OF(k->most_rows, json_array_size(rows));
    add(k, &k->direct, (double)json_array_size(rows));
    add(k, &k->direct, (double)n_columns);
    if (json_is_integer(json_object_get(result, "row_count")))
        add(k, &k->direct, (double)json_integer_value(json_object_get(result, "row_count")));
    json_array_foreach(columns, i, name)
        if (json_is_string(name))
            add_text(k, json_string_value(name));
    json_array_foreach(rows, i, row) {
        size_t n = 0;
        json_array_foreach(row, c, cell) {
            if (shape_number(cell, &v)) {
                add(k, &k->direct, v);
                if (n < ROW_CELLS)
                    cells[n++] = v;
                if (n_small < SHORT_CELLS)
                    small[n_small++] = v;
                else
                    is_small = false;
            } else if (json_is_string(cell)) {
                add_text(k, json_string_value(cell));
            } else if (json_is_array(cell) || json_is_object(cell)) {
                auto_free char *text = json_to_str(cell);
                if (text)
                    add_text(k, text);
            }
        }
        all_pairs(k, cells, n);
    }
    if (is_small)
        all_pairs(k, small, n_small);
    for (c = 0; c < n_columns; c++)
        add_column(k, rows, c);
    const char *printed[] = { json_string_value(json_object_get(result, "stdout")),
                              json_string_value(json_object_get(result, "stderr")),
                              json_string_value(
                                  json_object_get(json_object_get(result, "value"), "text")) };
    for (i = 0; i < ARRAY_SIZE(printed); i++)
        if (printed[i])
            add_said(k, printed[i]);
}

/* Results of one row are often asked for one after the other to be compared. */
static void add_between(struct known *k, const json_t *const *results, size_t n)
{
    double v[SHORT_CELLS];
    size_t found = 0, c;
    json_t *cell;
    for (size_t i = 0; i < n; i++) {
        const json_t *rows = json_object_get(results[i], "rows");
        if (json_array_size(rows) != 1)
            continue;
        json_array_foreach(json_array_get(rows, 0), c, cell)
            if (found < SHORT_CELLS && shape_number(cell, &v[found]))
                found++;
    }
    all_pairs(k, v, found);
}

/* ---- judging ---- */

static const char *const months[] = { "jan", "feb", "mar", "apr", "may", "jun",
                                      "jul", "aug", "sep", "oct", "nov", "dec" };

/* The month whose name is the word of n letters at p; 0 if none. */
static int month_at(const char *p, size_t n)
{
    static const char *const names[] = { "january",   "february", "march",    "april",
                                         "may",       "june",     "july",     "august",
                                         "september", "october",  "november", "december" };
    for (int i = 0; i < 12; i++)
        if ((n == 3 && strncasecmp(p, months[i], 3) == 0) ||
            (n == 4 && i == 8 && strncasecmp(p, "sept", 4) == 0) ||
            (n == strlen(names[i]) && strncasecmp(p, names[i], n) == 0))
            return i + 1;
    return 0;
}

/* The month named just before or behind a number: "March 5", "5 March", "Mar. 5", "5 of March". */
static int month_beside(const char *text, const struct figure *f)
{
    size_t end = f->start;
    while (end > 0 && strchr(" .,", text[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && isalpha((unsigned char)text[begin - 1]))
        begin--;
    int month = month_at(text + begin, end - begin);
    const char *p = text + f->start + f->len;
    p += strspn(p, " ");
    if (is_word(p, "of"))
        p += 2 + strspn(p + 2, " ");
    size_t n = 0;
    while (isalpha((unsigned char)p[n]))
        n++;
    return month ? month : month_at(p, n);
}

static bool has_date(const struct known *k, int year, int month, int day)
{
    for (size_t i = 0; i < k->n_dates; i++)
        if ((!year || k->dates[i].year == year) && (!month || k->dates[i].month == month) &&
            (!day || k->dates[i].day == day))
            return true;
    return false;
}

static bool is_hedged(const char *text, size_t start)
{
    static const char *const words[] = { "about",  "around", "roughly", "approximately",
                                         "nearly", "almost", "over",    "under",
                                         "than",   "some",   "circa",   "~" };
    /* Past the sign of a currency, and one word back. */
    while (start > 0 && !isalnum((unsigned char)text[start - 1]) && text[start - 1] != ' ' &&
           text[start - 1] != '~')
        start--;
    while (start > 0 && text[start - 1] == ' ')
        start--;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);
        if (start >= n && strncasecmp(text + start - n, words[i], n) == 0 &&
            (start == n || !isalpha((unsigned char)text[start - n - 1]) || n == 1))
            return true;
    }
    return false;
}

/* "1." and "2)" at the start of a line, "#3", "3rd", "top 5" of as many rows. */
static bool is_numbering(const char *text, const struct figure *f, const struct known *k)
{
    size_t start = f->start, end = f->start + f->len;
    if (!f->is_integer || f->percent || f->has_scale)
        return false;
    const char *behind = text + end;
    if (f->n_digits <= 3 && (*behind == '.' || *behind == ')') &&
        (isspace((unsigned char)behind[1]) || behind[1] == '\0' || behind[1] == '*')) {
        size_t at = start;
        while (at > 0 && strchr(" \t#*->|(_", text[at - 1]))
            at--;
        if ((at == 0 || text[at - 1] == '\n') && behind[1] != '\0')
            return true;
    }
    if ((is_word(behind, "st") || is_word(behind, "nd") || is_word(behind, "rd") ||
         is_word(behind, "th")) &&
        f->n_digits <= 4)
        return true;
    if (start > 0 && text[start - 1] == '#')
        return true;
    static const char *const words[] = { "top", "first", "last", "bottom", "step" };
    while (start > 0 && text[start - 1] == ' ')
        start--;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);
        if (start >= n && strncasecmp(text + start - n, words[i], n) == 0 &&
            f->value <= (double)MAX_OF(k->most_rows, (size_t)1))
            return true;
    }
    return false;
}

static bool is_founded(const char *text, const struct figure *f, const struct known *k)
{
    double half = f->unit / 2,
           slack = is_hedged(text, f->start) ? MAX_OF(f->round_unit, half) : half;
    int month = f->is_integer && !f->percent ? month_beside(text, f) : 0;
    if (is_numbering(text, f, k) || has_near(&k->direct, f->value, slack))
        return true;
    if (month && f->value >= 1 && f->value <= 31)
        return has_date(k, 0, month, (int)f->value);
    if (f->is_integer && !f->percent && f->n_digits == 4 && f->len == 4 && f->value >= 1000 &&
        has_date(k, (int)f->value, 0, 0))
        return true;
    if (f->percent) {
        if (f->value == 100)
            return true;
        return has_near(&k->direct, f->value / 100, slack / 100) ||
               has_near(&k->percent, f->value, slack);
    }
    /* Rounded to one digit, some ratio of two cells is any number. */
    if (has_near(&k->derived, f->value,
                 f->n_digits == 1 && f->is_integer && !f->has_scale ? f->unit / 20 : slack))
        return true;
    /* "5m" may be metres: then it is five. */
    return f->scale_is_letter && has_near(&k->direct, f->plain, f->plain_unit / 2);
}

/* A date or time written in figures at `at`: its length, 0 if it is none. */
static size_t stamp_at(const char *text, size_t at)
{
    const char *p = text + at;
    size_t d = strspn(p, "0123456789");
    if (d == 4 && p[4] == '-' && strspn(p + 5, "0123456789") == 2) {
        size_t n = 7;
        if (p[7] == '-' && strspn(p + 8, "0123456789") == 2)
            n = 10;
        return n;
    }
    if (d >= 1 && d <= 2 && p[d] == ':' && strspn(p + d + 1, "0123456789") == 2) {
        size_t n = d + 3;
        if (p[n] == ':' && strspn(p + n + 1, "0123456789") == 2)
            n += 3;
        return n;
    }
    return 0;
}

static bool holds_text(const json_t *j, const char *needle)
{
    size_t i;
    json_t *v;
    if (json_is_string(j))
        return strstr(json_string_value(j), needle) != NULL;
    json_array_foreach(j, i, v)
        if (holds_text(v, needle))
            return true;
    return false;
}

static bool stamp_is_founded(const char *stamp, const json_t *const *results, size_t n,
                             const char *const *texts, size_t n_texts)
{
    for (size_t i = 0; i < n_texts; i++)
        if (texts[i] && strstr(texts[i], stamp))
            return true;
    for (size_t i = 0; i < n; i++) {
        const json_t *printed[] = { json_object_get(results[i], "rows"),
                                    json_object_get(results[i], "stdout"),
                                    json_object_get(json_object_get(results[i], "value"), "text") };
        for (size_t j = 0; j < ARRAY_SIZE(printed); j++)
            if (holds_text(printed[j], stamp))
                return true;
    }
    return false;
}

/*
 * Where code or an address that begins at `at` ends; `at` itself if none does. A number between
 * backticks is no code.
 */
static size_t skip_code(const char *text, size_t at)
{
    const char *p = text + at, *end;
    if (strncmp(p, "```", 3) == 0) {
        end = strstr(p + 3, "```");
        return end ? (size_t)(end - text) + 3 : strlen(text);
    }
    if (*p == '`') {
        size_t n = strcspn(p + 1, "`\n");
        bool number = n > 0 && strspn(p + 1, "0123456789.,%$ -+kMbn") == n;
        return p[1 + n] == '`' && !number ? at + n + 2 : at;
    }
    if (strncmp(p, "http://", 7) == 0 || strncmp(p, "https://", 8) == 0)
        return at + strcspn(p, " \n\t)>");
    return at;
}

static void gather(struct known *k, const json_t *const *results, size_t n,
                   const char *const *texts, size_t n_texts)
{
    k->direct.max = CELLS_MAX;
    k->derived.max = k->percent.max = DERIVED_MAX;
    for (size_t i = 0; i < n; i++)
        add_result(k, results[i]);
    add_between(k, results, n);
    for (size_t i = 0; i < n_texts; i++)
        if (texts[i])
            add_said(k, texts[i]);
    struct list *lists[] = { &k->direct, &k->derived, &k->percent };
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (lists[i]->n > 0)
            qsort(lists[i]->v, lists[i]->n, sizeof(double), by_size);
}

struct claims {
    struct known known;
    const json_t *const *results;
    const char *const *texts;
    size_t n, n_texts;
};

struct claims *claims_open(const json_t *const *results, size_t n, const char *const *texts,
                           size_t n_texts)
{
    struct claims *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    *c = (struct claims){ .results = results, .texts = texts, .n = n, .n_texts = n_texts };
    gather(&c->known, results, n, texts, n_texts);
    if (!c->known.no_memory)
        return c;
    claims_close(c);
    return NULL;
}

void claims_close(struct claims *c)
{
    if (!c)
        return;
    free(c->known.direct.v);
    free(c->known.derived.v);
    free(c->known.percent.v);
    free(c);
}

json_t *claims_check(const struct claims *c, const char *text)
{
    json_t *out = json_array();
    size_t at = 0;
    while (text[at] && json_array_size(out) < CLAIMS_MAX) {
        struct figure f;
        size_t past = skip_code(text, at);
        if (past > at) {
            at = past;
            continue;
        }
        if (!isdigit((unsigned char)text[at])) {
            at++;
            continue;
        }
        char shown[STR_SHOWN_SIZE];
        bool founded;
        size_t stamp = stamp_at(text, at);
        if (stamp > 0) {
            f = (struct figure){ .start = at, .len = stamp, .value = atof(text + at) };
            memcpy(shown, text + at, stamp);
            shown[stamp] = '\0';
            founded = stamp_is_founded(shown, c->results, c->n, c->texts, c->n_texts);
            if (text[at + stamp] == 'T' && stamp == 10)
                f.len++;
        } else {
            if (!next_figure(text, at, true, &f))
                break;
            /* Between here and the figure there may be code: look at it again from there. */
            if (f.start > at) {
                at += strspn(text + at, "0123456789");
                continue;
            }
            founded = is_founded(text, &f, &c->known);
        }
        if (!founded) {
            auto_free char *copy = strndup(text + f.start, f.len);
            if (copy)
                json_array_append_new(out, json_pack("{s:s, s:f, s:I}", "text", copy, "value",
                                                     f.value, "offset", (json_int_t)f.start));
        }
        at = f.start + MAX_OF(f.len, (size_t)1);
    }
    return out;
}

json_t *claims_unfounded(const char *text, const json_t *const *results, size_t n,
                         const char *const *texts, size_t n_texts)
{
    struct claims *c = claims_open(results, n, texts, n_texts);
    json_t *out = c ? claims_check(c, text) : NULL;
    claims_close(c);
    return out;
}
