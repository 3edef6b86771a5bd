/*
 * Tables on a terminal, and CSV.
 *
 * Every cell is first turned into visible text with a known width in columns (wide characters count
 * two, combining ones none); then widths are chosen; then lines are written. When the terminal is
 * too narrow the widest text columns give way first, down to CELL_MIN; numbers are never cut, for a
 * number with its end missing is another number. Columns for which there is still no room are left
 * out, and the line below the table says how many.
 */

#include "cli/table.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"

#define CELL_MIN 8 /* a text column is not cut below this */
#define CELLS_MAX_BYTES ((size_t)256 << 20)
#define GAP "  "
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

struct cell {
    const char *text;
    int width;
    bool null;
};

struct column {
    int width;
    bool number;
    bool shown;
};

/* ---- text ---- */

/* Decodes one character; returns its bytes, or 0 if there is no valid character here. */
static size_t utf8_next(const char *s, size_t len, uint32_t *ret)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t need = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (need > len || !str_is_utf8(s, need))
        return 0;
    uint32_t c = need == 1 ? u[0] : u[0] & (0x7fu >> need);
    for (size_t i = 1; i < need; i++)
        c = c << 6 | (u[i] & 0x3f);
    *ret = c;
    return need;
}

/*
 * Columns of a printable character. wcwidth() needs a UTF-8 locale, whatever the person's own is.
 */
static int char_width(uint32_t c)
{
    static locale_t utf8; /* made once, kept for the life of the program */
    if (c < 0x7f)
        return 1;
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8)
        return 1;
    locale_t before = uselocale(utf8);
    int w = wcwidth((wchar_t)c);
    uselocale(before);
    return w < 0 ? 1 : w;
}

/* Control characters, and those that reorder the text around them. */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

int table_append_visible(struct buf *b, const char *text, size_t len, bool multiline,
                         struct err *err)
{
    int width = 0, r = 0;
    for (size_t i = 0; i < len && r >= 0;) {
        uint32_t c;
        size_t n = utf8_next(text + i, len - i, &c);
        char shown[16] = "";
        if (n == 0) {
            memcpy(shown, "\xef\xbf\xbd", 4);
            width++;
            n = 1;
        } else if (multiline && (c == '\n' || c == '\t' || c == '\r')) {
            shown[0] = (char)c;
        } else if (is_unsafe(c)) {
            const char *escape = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : NULL;
            if (escape)
                snprintf(shown, sizeof(shown), "%s", escape);
            else
                snprintf(shown, sizeof(shown), c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
            width += (int)strlen(shown);
        } else {
            width += char_width(c);
        }
        r = shown[0] ? buf_append_str(b, shown, err) : buf_append(b, text + i, n, err);
        i += n;
    }
    return r < 0 ? r : width;
}

/*
 * Appends the beginning of a visible text, at most max columns, with "…" for what is missing.
 * Returns columns used.
 */
static int append_cut(struct buf *b, const char *text, int max, int *ret_width, struct err *err)
{
    size_t len = strlen(text), i = 0;
    int width = 0;
    while (i < len) {
        uint32_t c;
        size_t n = utf8_next(text + i, len - i, &c);
        int w = n ? char_width(c) : 1;
        if (width + w > max - 1)
            break;
        width += w;
        i += n ? n : 1;
    }
    int r = buf_append(b, text, i, err);
    if (r >= 0)
        r = buf_append_str(b, "…", err);
    *ret_width = width + 1;
    return r;
}

/* The shortest decimal that reads back as the same number. */
static void format_real(double v, char *ret, size_t n)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret, n, "%.*g", digits, v);
        if (strtod(ret, NULL) == v)
            return;
    }
}

/*
 * For people: six decimals at most, and not the dust of binary sums: 5694.87, not
 * 5694.870000000002.
 */
static void format_for_people(double v, char *ret, size_t n)
{
    double size = fabs(v);
    if (size < 1e-4 || size >= 1e15 || !isfinite(v))
        snprintf(ret, n, "%.*g", size < 1 ? 6 : 15, v);
    else /* below one: six digits that are not leading zeros */
        str_rounded(v, size < 1 ? 5 - (int)floor(log10(size)) : 6, ret, n);
}

/* Text of a value: as CSV wants it, or for people. */
static int value_text(const json_t *v, bool for_people, struct buf *b, struct err *err)
{
    char number[64];
    switch (json_typeof(v)) {
    case JSON_STRING:
        return buf_append(b, json_string_value(v), json_string_length(v), err);
    case JSON_INTEGER:
        return buf_printf(b, err, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    case JSON_REAL:
        if (for_people)
            format_for_people(json_real_value(v), number, sizeof(number));
        else
            format_real(json_real_value(v), number, sizeof(number));
        return buf_append_str(b, number, err);
    case JSON_TRUE:
        return buf_append_str(b, "true", err);
    case JSON_FALSE:
        return buf_append_str(b, "false", err);
    case JSON_NULL:
        return 0;
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    return json_write(v, b, err);
}

static int make_cell(struct arena *arena, const json_t *v, struct cell *ret, struct err *err)
{
    auto_buf struct buf raw = BUF_INIT(CELLS_MAX_BYTES), shown = BUF_INIT(CELLS_MAX_BYTES);
    if (!v || json_is_null(v)) {
        *ret = (struct cell){ .text = "NULL", .width = 4, .null = true };
        return 0;
    }
    int r = value_text(v, true, &raw, err);
    if (r < 0)
        return r;
    int width = table_append_visible(&shown, buf_cstr(&raw), raw.len, false, err);
    if (width < 0)
        return width;
    char *text = arena_strndup(arena, buf_cstr(&shown), shown.len);
    if (!text)
        return err_set(err, ERR_TOO_LARGE,
                       "the result is too large to be shown as a table: use --csv or --json");
    *ret = (struct cell){ .text = text, .width = width, .null = false };
    return 0;
}

/* ---- layout ---- */

static bool is_number_type(const char *type)
{
    static const char *const names[] = { "TINYINT",  "SMALLINT",  "INTEGER",  "BIGINT",  "HUGEINT",
                                         "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
                                         "FLOAT",    "DOUBLE",    "DECIMAL" };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_starts(type, names[i]))
            return true;
    return str_starts(type, "int") || str_starts(type, "uint") || str_starts(type, "float") ||
           str_starts(type, "Int") || str_starts(type, "UInt") || str_starts(type, "Float");
}

static bool is_number_column(const json_t *types, const json_t *rows, size_t column)
{
    const char *type = json_string_value(json_array_get(types, column));
    if (type && is_number_type(type) && !strchr(type, '['))
        return true;
    bool seen = false;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *v = json_array_get(row, column);
        if (!v || json_is_null(v))
            continue;
        if (!json_is_number(v))
            return false;
        seen = true;
    }
    return seen;
}

/* Chooses widths for a terminal of `width` columns. Returns how many columns have no room. */
static size_t fit(struct column *cols, size_t n, int width)
{
    size_t shown = 0;
    long total = 0;
    const long gap = (long)strlen(GAP);

    if (width <= 0)
        return 0;
    /* First who stays at all, each at its least width; then who gives way. */
    for (; shown < n; shown++) {
        long least = cols[shown].number ? cols[shown].width : MIN_OF(cols[shown].width, CELL_MIN);
        least += shown > 0 ? gap : 0;
        if (shown > 0 && total + least > width) /* one column always stays */
            break;
        total += least;
    }
    for (size_t i = shown; i < n; i++)
        cols[i].shown = false;

    total = 0;
    for (size_t i = 0; i < shown; i++) {
        if (!cols[i].number)
            cols[i].width = MIN_OF(
                cols[i].width, width); /* so that the loop is short even for a cell of a megabyte */
        total += cols[i].width + (i > 0 ? gap : 0);
    }
    while (total > width) {
        struct column *widest = NULL;
        for (size_t i = 0; i < shown; i++)
            if (!cols[i].number && cols[i].width > CELL_MIN &&
                (!widest || cols[i].width > widest->width))
                widest = &cols[i];
        if (!widest)
            break;
        widest->width--;
        total--;
    }
    return n - shown;
}

static int pad(struct buf *b, int n, struct err *err)
{
    return n > 0 ? buf_printf(b, err, "%*s", n, "") : 0;
}

static int append_cell(struct buf *b, const struct cell *cell, const struct column *col, bool last,
                       const char *before, const char *after, struct err *err)
{
    int width = cell->width, r = 0;
    if (col->number)
        r = pad(b, col->width - width, err);
    if (r >= 0)
        r = buf_append_str(b, before, err);
    if (r >= 0)
        r = width > col->width ? append_cut(b, cell->text, col->width, &width, err) :
                                 buf_append_str(b, cell->text, err);
    if (r >= 0)
        r = buf_append_str(b, after, err);
    if (r >= 0 && !col->number && !last) /* no spaces at the end of a line */
        r = pad(b, col->width - width, err);
    return r;
}

static int append_line(struct buf *b, const struct cell *cells, const struct column *cols, size_t n,
                       bool header, bool colour, struct err *err)
{
    size_t last = 0;
    for (size_t i = 0; i < n; i++)
        if (cols[i].shown)
            last = i;
    for (size_t i = 0; i < n; i++) {
        if (!cols[i].shown)
            continue;
        int r = i > 0 ? buf_append_str(b, GAP, err) : 0;
        const char *before = !colour ? "" : header ? BOLD : cells[i].null ? DIM : "";
        if (r >= 0)
            r = append_cell(b, &cells[i], &cols[i], i == last, before, *before ? PLAIN : "", err);
        if (r < 0)
            return r;
    }
    return buf_append_str(b, "\n", err);
}

static int append_rule(struct buf *b, const struct column *cols, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!cols[i].shown)
            continue;
        int r = i > 0 ? buf_append_str(b, GAP, err) : 0;
        for (int k = 0; k < cols[i].width && r >= 0; k++)
            r = buf_append_str(b, "─", err);
        if (r < 0)
            return r;
    }
    return buf_append_str(b, "\n", err);
}

int table_render(const json_t *columns, const json_t *types, const json_t *rows,
                 const struct table_style *style, struct buf *b, struct err *err)
{
    size_t n = json_array_size(columns), n_rows = json_array_size(rows);
    auto_arena struct arena arena;
    arena_init(&arena, CELLS_MAX_BYTES);
    if (n == 0)
        return 0;

    struct column *cols = arena_alloc(&arena, n * sizeof(*cols));
    struct cell *cells = arena_alloc(&arena, n * (n_rows + 1) * sizeof(*cells));
    if (!cols || !cells)
        return err_set(err, ERR_TOO_LARGE,
                       "the result is too large to be shown as a table: use --csv or --json");
    for (size_t c = 0; c < n; c++) {
        cols[c] = (struct column){ .width = 1,
                                   .number = is_number_column(types, rows, c),
                                   .shown = true };
        for (size_t row = 0; row <= n_rows; row++) {
            struct cell *cell = &cells[row * n + c];
            const json_t *v = row == 0 ? json_array_get(columns, c) :
                                         json_array_get(json_array_get(rows, row - 1), c);
            int r = make_cell(&arena, v, cell, err);
            if (r < 0)
                return r;
            cols[c].width = MAX_OF(cols[c].width, cell->width);
        }
    }
    size_t left_out = fit(cols, n, style->width);
    int r = append_line(b, cells, cols, n, true, style->colour, err);
    if (r >= 0)
        r = append_rule(b, cols, n, err);
    for (size_t row = 1; row <= n_rows && r >= 0; row++)
        r = append_line(b, &cells[row * n], cols, n, false, style->colour, err);
    if (r >= 0 && left_out > 0)
        r = buf_printf(b, err, "… %zu more column%s; use --csv to have all\n", left_out,
                       left_out == 1 ? "" : "s");
    return r;
}

void table_style_for(int fd, struct table_style *ret)
{
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    *ret = (struct table_style){ .width = 0, .colour = false };
    if (!isatty(fd))
        return;
    ret->colour = !(no_colour && *no_colour) && !str_eq(term, "dumb");
    ret->width = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* ---- CSV ---- */

static int append_field(struct buf *b, const json_t *v, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(CELLS_MAX_BYTES);
    if (!v || json_is_null(v))
        return 0;
    int r = value_text(v, false, &text, err);
    if (r < 0)
        return r;
    const char *s = buf_cstr(&text);
    /* The empty string is quoted, so that it can be told from NULL. */
    if (text.len > 0 && !strpbrk(s, ",\"\r\n"))
        return buf_append(b, s, text.len, err);
    r = buf_append_str(b, "\"", err);
    while (r >= 0) {
        const char *quote = strchr(s, '"');
        if (!quote)
            break;
        r = buf_append(b, s, (size_t)(quote - s) + 1, err);
        if (r >= 0)
            r = buf_append_str(b, "\"", err);
        s = quote + 1;
    }
    if (r >= 0)
        r = buf_append_str(b, s, err);
    return r < 0 ? r : buf_append_str(b, "\"", err);
}

static int append_record(struct buf *b, const json_t *values, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        int r = i > 0 ? buf_append_str(b, ",", err) : 0;
        if (r >= 0)
            r = append_field(b, json_array_get(values, i), err);
        if (r < 0)
            return r;
    }
    return buf_append_str(b, "\r\n", err);
}

int table_render_csv(const json_t *columns, const json_t *rows, struct buf *b, struct err *err)
{
    size_t n = json_array_size(columns), i;
    json_t *row;
    if (n == 0)
        return 0;
    int r = append_record(b, columns, n, err);
    json_array_foreach(rows, i, row) {
        if (r >= 0)
            r = append_record(b, row, n, err);
    }
    return r;
}
