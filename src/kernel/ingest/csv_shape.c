/*
 * Where the table begins, by a sample: the header is the first record that is as wide and as full
 * as the records below it. Above it
 * are titles and notes. It is a header, and not data, if it has text where the columns below have
 * numbers or dates; if all is text, it
 * is one unless its words come again below. More header lines follow if they, too, have text above
 * numbers.
 *
 * Where it ends, by the last lines: totals and notes.
 */

#include "kernel/ingest/csv_shape.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_layout.h"
#include "kernel/ingest/value.h"

#define SAMPLE_CELLS 100000
#define SAMPLE_ROWS 200
#define TAIL_BYTES (64u << 10)
#define TAIL_LINES 12
#define NAME_CELL_BYTES 8192 /* longer ones are no names */
#define SAMPLE_BYTES (16u << 20)

struct cell {
    const char *text;
    size_t len;      /* of what is kept of it */
    size_t full_len; /* in the file */
    enum value_kind kind;
};

struct row {
    struct cell *cells;
    size_t n, n_full; /* n_full: cells with something in them */
    size_t begin, next;
    int64_t line;
    bool too_wide; /* it has more fields than a table may have columns */
};

struct sample {
    struct arena *arena;
    struct row rows[SAMPLE_ROWS];
    size_t n, bytes;
    size_t width;
    size_t usual; /* cells with something in them, in the middle of the rows */
};

/* ---- the sample ---- */

static enum value_kind kind_of(const struct csv_field *f, const struct csv_layout *layout)
{
    enum value_kind kind = value_kind(f->text, f->len);

    /* A truth value or a length of time of a sheet is no name either. */
    return layout->exact && !f->quoted && kind == VALUE_TEXT ? VALUE_NUMBER : kind;
}

static int add_row(struct sample *s, const struct csv_record *rec, size_t next,
                   const struct csv_layout *layout, struct err *err)
{
    static const struct csv_field missing = { .text = "" };
    struct row *row = &s->rows[s->n];
    size_t n = MIN_OF(MAX_OF(rec->n, layout->width), (size_t)CSV_MAX_COLUMNS);

    *row = (struct row){ .n = n,
                         .begin = rec->begin,
                         .next = next,
                         .line = rec->line,
                         .too_wide = rec->n > n || layout->width > n };
    row->cells = arena_alloc(s->arena, (n + 1) * sizeof(*row->cells));
    if (!row->cells)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a sample of the file");
    for (size_t i = 0; i < n; i++) {
        const struct csv_field *f = i < rec->n ? &rec->fields[i] : &missing;
        size_t len = MIN_OF(f->len, (size_t)NAME_CELL_BYTES);

        row->cells[i].kind = kind_of(f, layout);
        row->cells[i].text = arena_strndup(s->arena, f->text, str_utf8_cut(f->text, f->len, len));
        if (!row->cells[i].text)
            return err_set(err, ERR_NO_MEMORY, "out of memory for a sample of the file");
        row->cells[i].len = strlen(row->cells[i].text);
        row->cells[i].full_len = f->len;
        s->bytes += row->cells[i].len;
        row->n_full += row->cells[i].kind != VALUE_EMPTY;
    }
    s->n++;
    return 0;
}

static int read_sample(struct sample *s, const char *text, size_t len, size_t from, int64_t line,
                       const struct csv_layout *layout, struct err *err)
{
    struct csv_records records;
    struct csv_record rec;
    size_t cells = 0;
    int r = 0;

    csv_records_init(&records, text, len, layout);
    records.at = MAX_OF(records.at, from);
    records.line = line;
    records.expected = layout->exact ? 0 : s->width;
    s->n = s->bytes = 0;
    while (s->n < SAMPLE_ROWS && cells < SAMPLE_CELLS && (s->n < 4 || s->bytes < SAMPLE_BYTES) &&
           (r = csv_records_next(&records, &rec, err)) == 1) {
        if (csv_record_is_blank(&rec) || csv_record_is_rule(&rec))
            continue;
        r = add_row(s, &rec, records.at, layout, err);
        cells += MAX_OF(rec.n, layout->width);
        if (r < 0)
            break;
    }
    csv_records_finish(&records);
    return MIN_OF(r, 0);
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

static void measure(struct sample *s)
{
    size_t full[SAMPLE_ROWS], best = 0, n = 0;

    for (size_t i = 0; i < s->n; i++) {
        size_t same = 0;

        for (size_t k = 0; k < s->n; k++)
            same += s->rows[k].n == s->rows[i].n;
        if (s->rows[i].n > 1 && (same > best || (same == best && s->rows[i].n > s->width))) {
            best = same;
            s->width = s->rows[i].n;
        }
    }
    if (s->width == 0)
        s->width = 1;
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].n == s->width)
            full[n++] = s->rows[i].n_full;
    qsort(full, n, sizeof(*full), by_size);
    s->usual = n ? full[n / 2] : 1;
}

/* ---- the header ---- */

static bool is_typed(enum value_kind kind)
{
    return kind == VALUE_NUMBER || kind == VALUE_WHEN;
}

/* Are the values of a column, from row `from` on, numbers or dates? */
static bool column_is_typed(const struct sample *s, size_t column, size_t from)
{
    size_t typed = 0, texts = 0;

    for (size_t i = from; i < s->n; i++) {
        const struct row *row = &s->rows[i];

        if (column >= row->n || row->n > s->width + 1)
            continue;
        typed += is_typed(row->cells[column].kind);
        texts += row->cells[column].kind == VALUE_TEXT;
    }
    return typed > 0 && typed >= 4 * texts;
}

static bool all_text(const struct row *row)
{
    for (size_t i = 0; i < row->n; i++)
        if (is_typed(row->cells[i].kind))
            return false;
    return row->n_full > 0;
}

static bool is_year_or_date(const struct cell *c)
{
    const char *text = c->text;
    size_t len = c->len;

    value_trim(&text, &len);
    return c->kind == VALUE_WHEN ||
           (c->kind == VALUE_NUMBER && len == 4 && atoi(text) >= 1900 && atoi(text) <= 2100);
}

/* Years and days are names, too. */
static bool all_names(const struct row *row)
{
    for (size_t i = 0; i < row->n; i++)
        if (is_typed(row->cells[i].kind) && !is_year_or_date(&row->cells[i]))
            return false;
    return row->n_full > 0;
}

/*
 * Names of groups above a header: ",2020,,2021,". The first cell may have a name, if the one below
 * is empty: "Region,2020,,2021," above ",Q1,Q2,Q1,Q2".
 */
static bool is_group_row(const struct sample *s, size_t k)
{
    const struct row *row = &s->rows[k];

    return row->n_full > 1 && all_names(row) && (row->cells[0].kind == VALUE_EMPTY ||
                               (k + 1 < s->n && s->rows[k + 1].cells[0].kind == VALUE_EMPTY &&
                                row->n_full < row->n && s->rows[k + 1].n_full + 1 >= row->n_full));
}

static bool comes_again(const struct sample *s, size_t column, const struct cell *c, size_t from)
{
    for (size_t i = from; i < s->n; i++) {
        const struct row *row = &s->rows[i];

        if (column < row->n && row->cells[column].len == c->len &&
            memcmp(row->cells[column].text, c->text, c->len) == 0)
            return true;
    }
    return false;
}

static bool same_row(const struct row *a, const struct row *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->cells[i].len != b->cells[i].len ||
            memcmp(a->cells[i].text, b->cells[i].text, a->cells[i].len) != 0)
            return false;
    return true;
}

static bool continues_header(const struct sample *s, size_t k);

static bool is_header(const struct sample *s, size_t h)
{
    const struct row *row = &s->rows[h];
    size_t above_typed = 0, same = 0, rising = 0, texts = 0, again = 0;

    for (size_t i = 0; i < MIN_OF(row->n, s->width); i++) {
        const struct cell *c = &row->cells[i];
        bool typed = column_is_typed(s, i, h + 1);

        if (c->kind == VALUE_EMPTY || c->kind == VALUE_NULL_WORD)
            continue;
        if (is_typed(c->kind)) {
            same++;
            rising += is_year_or_date(c);
            continue;
        }
        texts++;
        above_typed += typed;
        again += comes_again(s, i, c, h + 1);
    }
    for (size_t i = h + 1; i < s->n; i++)
        if (same_row(row, &s->rows[i])) /* a header that is repeated */
            return same == 0;
    if (h + 1 == s->n)
        return same == 0;
    if (is_group_row(s, h) && row->n_full < s->usual && continues_header(s, h + 1))
        return true;
    if (same > 0)
        return texts > 0 &&
               ((above_typed > 0 && above_typed >= same) || (rising == same && rising > 1));
    if (above_typed > 0)
        return true;
    return 2 * again < texts || texts == 0;
}

/*
 * Has row k a text wherever the row above has no name, and nothing below some of its names? Surveys
 * put answers below a question: "id,What do you use?,,Rating" above ",Python,R,Response".
 */
static bool fills_names(const struct sample *s, size_t k)
{
    const struct row *row = &s->rows[k];
    size_t filled = 0, left = 0;

    for (size_t i = 0; k > 0 && i < MIN_OF(row->n, s->rows[k - 1].n); i++) {
        bool named = s->rows[k - 1].cells[i].kind != VALUE_EMPTY;

        if (!named && row->cells[i].kind != VALUE_TEXT)
            return false;
        filled += !named;
        left += named && row->cells[i].kind == VALUE_EMPTY;
    }
    return filled > 0 && left > 0 && filled < row->n_full;
}

/* Does row k continue the header: text above numbers? */
static bool continues_header(const struct sample *s, size_t k)
{
    const struct row *row = &s->rows[k];
    size_t above = 0, typed = 0, from = k + 1;
    bool grouped; /* below names of groups, years are names, too */
    bool fills = fills_names(s, k);

    /* Units, say, may stand in yet another line of it. */
    while (from < k + CSV_HEADER_ROWS && from + 1 < s->n && all_text(&s->rows[from]))
        from++;
    if (k + 2 >= s->n || row->n + 1 < s->width)
        return false;
    grouped = k > 0 && row->cells[0].kind == VALUE_EMPTY && is_group_row(s, k - 1);
    if (!all_text(row) && !grouped)
        return false;
    for (size_t i = 0; i < MIN_OF(row->n, s->width); i++) {
        const struct cell *c = &row->cells[i];
        bool year = grouped && is_year_or_date(c);

        if (is_typed(c->kind) && !year)
            return false;
        if (!column_is_typed(s, i, from) || (fills && c->kind == VALUE_EMPTY))
            continue;
        typed++;
        above += year || (c->kind == VALUE_TEXT && !isdigit((unsigned char)c->text[0]));
    }
    return above > 0 && 2 * above >= typed;
}

/* May the table begin here? */
static bool may_begin(const struct sample *s, size_t i)
{
    const struct row *row = &s->rows[i];

    if (s->width == 1)
        return true;
    if (row->n != s->width &&
        !(s->width >= 3 && (row->n + 1 == s->width || row->n == s->width + 1) &&
          row->n_full + 1 >= row->n))
        return false;
    if (is_group_row(s, i) && row->n_full < s->usual && i + 1 < s->n &&
        s->rows[i + 1].n_full > row->n_full && continues_header(s, i + 1))
        return true;
    if (row->n_full < MAX_OF((s->usual + 1) / 2, MIN_OF(s->usual, (size_t)2)))
        return false;
    if (row->n_full >= s->usual || i + 1 == s->n)
        return true;
    /* Less full than usual: a line above the header, if a better one follows. */
    for (size_t k = i + 1; k < MIN_OF(i + 4, s->n); k++)
        if (s->rows[k].n_full > row->n_full && all_names(&s->rows[k]) && !fills_names(s, k) &&
            (all_text(&s->rows[k]) ? continues_header(s, k) :
                                     s->rows[k].n_full >= s->usual && is_header(s, k)))
            return false;
    return true;
}

static size_t find_begin(const struct sample *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (may_begin(s, i))
            return i;
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].n == s->width)
            return i;
    return 0;
}

/*
 * R writes the names of its rows without a name for their column: the first of a row is one of
 * 1, 2, 3 … or a text that does not come again.
 */
static bool has_row_names(const struct sample *s, size_t h)
{
    long before = 0;

    if (s->rows[h].n + 1 != s->width || h + 3 >= s->n)
        return false;
    for (size_t i = h + 1; i < s->n; i++) {
        const struct cell *c = &s->rows[i].cells[0];

        if (s->rows[i].n != s->width || s->rows[i].cells[s->width - 1].kind == VALUE_EMPTY)
            return false;
        if (c->kind == VALUE_NUMBER && (i == h + 1 || before > 0)) {
            long v = strtol(c->text, NULL, 10);

            if (v < 1 || (i == h + 1 ? v != 1 : v != before + 1))
                return false;
            before = v;
        } else if (c->kind != VALUE_TEXT || before > 0 || comes_again(s, 0, c, i + 1)) {
            return false;
        }
    }
    return true;
}

/* White space of all kinds becomes a space; what has no width goes. */
static void trim_name(char *name)
{
    static const char *const invisible[] = { "\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\x8f",
                                             "\xe2\x81\xa0", "\xef\xbb\xbf", "\xc2\xad" };
    size_t len = strlen(name), to = 0;
    const char *from = name;

    for (size_t i = 0; i < len;) {
        size_t n = 0;

        for (size_t k = 0; k < ARRAY_SIZE(invisible); k++)
            if (strncmp(name + i, invisible[k], strlen(invisible[k])) == 0)
                n = strlen(invisible[k]);
        i += n;
        if (n > 0)
            continue;
        n = value_space(name + i, len - i);
        name[to++] = n > 0 ? ' ' : name[i];
        i += MAX_OF(n, (size_t)1);
    }
    value_trim(&from, &to);
    memmove(name, from, to);
    name[to] = '\0';
}

/* Has the first header line a name for each column, and those below it more to say than names? */
static bool has_descriptions(const struct sample *s, size_t h, size_t n)
{
    const struct row *row = &s->rows[h];
    size_t named = 0, below = 0;

    for (size_t i = 0; i < row->n; i++) {
        if (row->cells[i].kind == VALUE_EMPTY)
            return false;
        named += row->cells[i].len;
        for (size_t k = 0; k < i; k++)
            if (str_eq(row->cells[k].text, row->cells[i].text))
                return false;
        for (size_t k = h + 1; k < h + n; k++)
            below += i < s->rows[k].n ? s->rows[k].cells[i].len : 0;
    }
    return below > 2 * named;
}

/*
 * Several header lines give one name: "Revenue 2024". A group's name stands above the first of its
 * columns only.
 */
static int take_names(const struct sample *s, size_t h, struct csv_shape *shape, struct err *err)
{
    size_t n_rows = has_descriptions(s, h, shape->header_rows) ? 1 : shape->header_rows;
    const char *group = "";

    shape->names = arena_alloc(s->arena, (shape->width + 1) * sizeof(char *));
    if (!shape->names)
        return err_set(err, ERR_NO_MEMORY, "out of memory for names");
    for (size_t i = 0; i < shape->width; i++) {
        char *name = NULL;

        for (size_t k = h; k < h + n_rows; k++) {
            const struct row *row = &s->rows[k];
            size_t at = i - shape->unnamed_first; /* past the end for the first, then */
            const char *part = at < row->n ? row->cells[at].text : "";

            if (at < row->n && row->cells[at].full_len > NAME_CELL_BYTES)
                return err_set(err, ERR_VALIDATION,
                               "the name of column %zu has %zu bytes, and at most %d can be read: "
                               "is the first line the names of the columns?",
                               i + 1, row->cells[at].full_len, NAME_CELL_BYTES);
            if (k == h && n_rows > 1) {
                const struct row *below = &s->rows[k + 1];
                bool named = at < row->n && row->cells[at].kind != VALUE_EMPTY;

                /* A name with nothing below it is its column's alone. */
                if (named && at < below->n && below->cells[at].kind == VALUE_EMPTY)
                    group = "";
                else if (named)
                    group = part;
                part = named ? part : group;
            }
            if (!*part || (name && str_eq(name, part)))
                continue;
            name = name ? arena_printf(s->arena, "%s %s", name, part) :
                          arena_strdup(s->arena, part);
            if (!name)
                return err_set(err, ERR_NO_MEMORY, "out of memory for names");
        }
        if (name)
            trim_name(name);
        shape->names[i] = name && *name ? name : NULL;
    }
    return 0;
}

/* ---- below the table ---- */

static bool is_total_word(const char *s, size_t len)
{
    static const char *const words[] = {
        "total",
        "totals",
        "grand total",
        "sum",
        "subtotal",
        "sub-total",
        "sub total",
        "overall",
        "overall total",
        "summe",
        "gesamt",
        "gesamtsumme",
        "gesamtergebnis",
        "insgesamt",
        "endsumme",
        "somme",
        "total g\xc3\xa9n\xc3\xa9ral",
        "total general",
        "totaal",
        "totale",
        "suma",
        "razem",
        "totalt",
        "yhteens\xc3\xa4",
        "\xd0\x98\xd1\x82\xd0\xbe\xd0\xb3\xd0\xbe",
        "\xe5\x90\x88\xe8\xae\xa1",
        "\xe5\x90\x88\xe8\xa8\x88",
        "column total",
        "*", /* SAP */
        "**",
        "***",
    };

    value_trim(&s, &len);
    while (len > 0 && (s[len - 1] == ':' || s[len - 1] == ' '))
        len--;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(words[i]) == len && strncasecmp(words[i], s, len) == 0)
            return true;
    return false;
}

/* Is the line in front of `at` blank? */
static bool follows_blank(const char *text, size_t at)
{
    size_t breaks = 0;

    while (at > 0 && strchr("\n\r \t,;\"", text[at - 1]) && text[at - 1])
        breaks += text[--at] == '\n';
    return breaks > 1;
}

enum tail_kind { TAIL_NONE, TAIL_BLANK, TAIL_TOTAL, TAIL_NOTE };

/* "Source: the warehouse" rather than the name of a row whose other cells are empty. */
static bool is_sentence(const char *text, size_t len)
{
    size_t words = 1;

    value_trim(&text, &len);
    for (size_t i = 1; i < len; i++)
        words += text[i] == ' ' && text[i - 1] != ' ';
    return words > 3 || (len > 0 && strchr("*(#", text[0])) || memmem(text, len, ": ", 2) ||
           memmem(text, len, "\xc2\xa9", 2);
}

/* `apart`: below a blank line; `exact`: records of a sheet do not show empty cells at their end. */
static enum tail_kind kind_of_tail(const struct csv_record *rec, const struct sample *s, bool exact,
                                   bool apart)
{
    size_t full = 0, first = 0, numbers = 0;
    struct number number; /* its unit may be a word, as in the rows */
    bool letters = false;

    if (csv_record_is_blank(rec) || csv_record_is_rule(rec))
        return TAIL_BLANK;
    for (size_t i = 0; i < MIN_OF(rec->n, (size_t)CSV_MAX_COLUMNS); i++) {
        enum value_kind kind = value_kind(rec->fields[i].text, rec->fields[i].len);

        if (kind == VALUE_EMPTY)
            continue;
        if (full++ == 0) {
            first = i;
            letters = kind == VALUE_TEXT;
        }
        numbers += number_parse(rec->fields[i].text, rec->fields[i].len, &number);
    }
    if (numbers > 0 && full > numbers &&
        is_total_word(rec->fields[first].text, rec->fields[first].len))
        return TAIL_TOTAL;
    if (full == 1 && first == 0 && letters && s->width > 1 &&
        (s->usual >= 3 || (s->usual == 2 && rec->n == 1)) &&
        ((!exact && rec->n < s->width) || apart ||
         is_sentence(rec->fields[0].text, rec->fields[0].len)))
        return TAIL_NOTE;
    return TAIL_NONE;
}

static int find_end(const char *text, size_t len, const struct sample *s, size_t floor,
                    struct csv_shape *shape, struct err *err)
{
    size_t line_end = len, low = len > TAIL_BYTES ? len - TAIL_BYTES : 0;

    shape->end = len;
    for (int k = 0; k < TAIL_LINES && line_end > MAX_OF(floor, low); k++) {
        struct csv_records records;
        struct csv_record rec;
        enum tail_kind kind;
        size_t begin = line_end;
        int r;

        if (begin > 0 && text[begin - 1] == '\n')
            begin--;
        if (begin > 0 && text[begin - 1] == '\r')
            begin--;
        while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r')
            begin--;
        if (begin < MAX_OF(floor, low))
            return 0;
        csv_records_init(&records, text, line_end, &shape->layout);
        records.at = begin;
        records.expected = shape->layout.exact ? 0 : s->width;
        r = csv_records_next(&records, &rec, err);
        kind = r == 1 ? kind_of_tail(&rec, s, shape->layout.exact, follows_blank(text, begin)) :
                        TAIL_BLANK;
        /* A sentence with separators in it, apart from the rows and half as wide at most. */
        if (kind == TAIL_NONE && s->usual >= 3 && 2 * rec.n <= s->width &&
            value_kind(rec.fields[0].text, rec.fields[0].len) == VALUE_TEXT &&
            follows_blank(text, begin))
            kind = TAIL_NOTE;
        csv_records_finish(&records);
        if (r < 0 || kind == TAIL_NONE)
            return MIN_OF(r, 0);
        shape->n_totals += kind == TAIL_TOTAL;
        shape->n_notes += kind == TAIL_NOTE;
        if (kind != TAIL_BLANK)
            shape->end = begin;
        line_end = begin;
    }
    return 0;
}

/* ---- all of it ---- */

/* Excel's first line that names the separator: sep=; */
static size_t sep_line(const char *text, size_t len, char ret[4])
{
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, quote;

    quote = at < len && text[at] == '"';
    if (len - at < 6 + quote || strncasecmp(text + at + quote, "sep=", 4) != 0)
        return 0;
    ret[0] = text[at + quote + 4];
    at += quote + 5;
    if (quote && at < len && text[at] == '"')
        at++;
    if (at < len && text[at] == '\r')
        at++;
    if (at < len && text[at] == '\n')
        at++;
    else if (at == 0 || text[at - 1] != '\r')
        return 0;
    return at;
}

int csv_shape_find(const char *text, size_t len, const struct csv_layout *layout,
                   const struct read_options *options, struct arena *arena, struct csv_shape *ret,
                   struct err *err)
{
    auto_free struct sample *s = calloc(1, sizeof(*s));
    struct csv_shape shape = { 0 };
    char separator[4] = "";
    size_t from = layout || options->first_line > 1 ? 0 : sep_line(text, len, separator), h;
    int64_t line = MAX_OF(options->first_line, 1) + (from > 0);
    int r = 0;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a sample of the file");
    s->arena = arena;
    if (layout)
        shape.layout = *layout;
    else
        r = csv_layout_find(text + from, len - from,
                            options->delimiter ? options->delimiter :
                            from               ? separator :
                                                 NULL,
                            options->quote, &shape.layout, err);
    if (r == 0)
        r = read_sample(s, text, len, from, line, &shape.layout, err);
    if (r < 0)
        return r;
    measure(s);
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].too_wide && s->rows[i].n == s->width)
            return err_set(err, ERR_VALIDATION,
                           "the file has more than %d columns; at most %d can be read here: leave "
                           "out columns, or turn columns into rows (name, value)",
                           CSV_MAX_COLUMNS, CSV_MAX_COLUMNS);
    r = read_sample(s, text, len, from, line, &shape.layout,
                    err); /* stray quotes are read by the width now */
    if (r < 0)
        return r;
    shape.width = s->width;
    h = s->n ? find_begin(s) : 0;
    if (options->header_line > 0)
        for (h = 0; h + 1 < s->n && s->rows[h].line < options->header_line; h++)
            ;
    if (s->n > 0 && (options->header_line > 0 || (options->header_line < 0 && is_header(s, h)))) {
        shape.header_line = s->rows[h].line;
        shape.header_rows = 1;
        while (options->header_line < 0 && shape.header_rows < CSV_HEADER_ROWS &&
               continues_header(s, h + shape.header_rows))
            shape.header_rows++;
        shape.width = MAX_OF(shape.width, MIN_OF(s->rows[h].n, (size_t)CSV_MAX_COLUMNS));
        shape.unnamed_first = shape.header_rows == 1 && has_row_names(s, h);
    }
    shape.begin = s->n ? s->rows[h].begin : len;
    r = take_names(s, h, &shape, err);
    if (r == 0)
        r = find_end(text, len, s,
                     s->n ? s->rows[h + (shape.header_rows ? shape.header_rows - 1 : 0)].next : len,
                     &shape, err);
    *ret = shape;
    return r;
}
