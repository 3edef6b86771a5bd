/*
 * Reading a record. A field that begins with a quote ends at a quote with a separator or a line end
 * behind it; a quote inside is
 * doubled, escaped, or stray. Where that gives another number of fields than usual, or a line break
 * inside a field beside stray
 * quotes, the line is read alone: first so that a field ends with its line at the latest, then with
 * quotes as plain characters.
 * The first reading that has the usual number of fields is taken.
 */

#include "kernel/ingest/csv_records.h"

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"

#define QUOTED_MAX_BYTES (4u << 20) /* of a field with line breaks in it */
#define SEARCHED_MAX_BYTES (256u << 20)

enum quote_reading {
    QUOTES_SPAN_LINES,
    QUOTES_IN_LINE,  /* a quoted field ends with its line, and "" before a separator ends it, too */
    QUOTES_ARE_TEXT, /* but for fields that are quoted as a whole */
};

struct reading {
    struct csv_records *r;
    enum quote_reading how;
    size_t at, end; /* end: of what may be read */
    size_t n;
    int64_t line_breaks;
    bool stray, failed;
};

void csv_records_init(struct csv_records *r, const char *data, size_t len,
                      const struct csv_layout *layout)
{
    *r = (struct csv_records){ .data = data, .len = len, .layout = layout, .line = 1 };
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        r->at = 3;
}

void csv_records_finish(struct csv_records *r)
{
    free(r->fields);
    free(r->copy);
    *r = (struct csv_records){ 0 };
}

/* The bytes of the line end at `at`; 0: there is none. */
static size_t line_end_at(const struct csv_records *r, size_t at)
{
    if (r->data[at] == '\n')
        return 1;
    if (r->data[at] != '\r')
        return 0;
    if (at + 1 < r->len && r->data[at + 1] == '\n')
        return 2;
    /* Some writers end lines with \r\r\n. */
    if (at + 2 < r->len && r->data[at + 1] == '\r' && r->data[at + 2] == '\n')
        return 3;
    return r->layout->returns_end || at + 1 == r->len;
}

static size_t delimiter_at(const struct csv_records *r, size_t at, size_t end)
{
    const char *d = r->layout->delimiter;

    if (!d[0] || r->data[at] != d[0])
        return 0;
    if (!d[1])
        return 1;
    size_t n = strlen(d);
    return end - at >= n && memcmp(r->data + at, d, n) == 0 ? n : 0;
}

static size_t find_line_end(const struct csv_records *r, size_t at)
{
    for (; at < r->len; at++)
        if ((r->data[at] == '\n' || r->data[at] == '\r') && line_end_at(r, at))
            break;
    return at;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* May a field end at `at`: does a separator or a line end follow, white space aside? */
static bool ends_field(const struct reading *g, size_t at)
{
    const struct csv_records *r = g->r;
    size_t i = at;

    if (i < g->end && delimiter_at(r, i, g->end))
        return true;
    while (i < g->end && is_space(r->data[i]) && !delimiter_at(r, i, g->end))
        i++;
    return i >= g->end || delimiter_at(r, i, g->end) || line_end_at(r, i);
}

static int keep(struct csv_records *r, const char *text, size_t len, struct err *err)
{
    if (r->copy_len + len > r->copy_cap) {
        size_t cap = MAX_OF(2 * r->copy_cap, r->copy_len + len + 4096);
        char *copy = realloc(r->copy, cap);

        if (!copy)
            return err_set(err, ERR_NO_MEMORY, "out of memory for a field");
        r->copy = copy;
        r->copy_cap = cap;
    }
    memcpy(r->copy + r->copy_len, text, len);
    r->copy_len += len;
    return 0;
}

/* `text` NULL: it is the last `len` bytes of r->copy, which may still move. */
static int add_field(struct reading *g, const char *text, size_t len, bool quoted, struct err *err)
{
    struct csv_records *r = g->r;

    if (g->n >= r->n_fields && g->n < CSV_MAX_COLUMNS + 1) {
        size_t room = MAX_OF(2 * r->n_fields, (size_t)64);
        struct csv_field *fields = realloc(r->fields, room * sizeof(*fields));

        if (!fields)
            return err_set(err, ERR_NO_MEMORY, "out of memory for fields");
        r->fields = fields;
        r->n_fields = room;
    }
    if (g->n < r->n_fields)
        r->fields[g->n] = (struct csv_field){ .text = text, .len = len, .quoted = quoted };
    g->n++;
    return 0;
}

/* The field in quotes at g->at. 0: it has no end, and g->at is as it was. */
static int read_quoted(struct reading *g, struct err *err)
{
    struct csv_records *r = g->r;
    char quote = r->layout->quote, escape = r->layout->escape;
    size_t i = g->at + 1, from = i, kept = r->copy_len;
    size_t limit = g->how == QUOTES_SPAN_LINES ? MIN_OF(g->end, g->at + QUOTED_MAX_BYTES) : g->end;
    int64_t breaks = 0;
    bool stray = false, copied = false;
    int n = 0;

    while (i < limit) {
        char c = r->data[i];

        if (c != quote && c != '\n' && (c != escape || !escape)) {
            i++;
            continue;
        }
        if (c == '\n') {
            breaks++;
            i++;
            continue;
        }
        if (c == escape && escape && i + 1 < limit &&
            (r->data[i + 1] == quote || r->data[i + 1] == escape || r->data[i + 1] == '\'')) {
            n = keep(r, r->data + from, i - from, err);
            copied = true;
            from = i + 1;
            i += 2;
        } else if (c == escape && c != quote) {
            i++;
        } else if (i + 1 < g->end && r->data[i + 1] == quote &&
                   !(g->how == QUOTES_IN_LINE && ends_field(g, i + 2) && !ends_field(g, i + 1))) {
            n = keep(r, r->data + from, i + 1 - from, err);
            copied = true;
            i += 2;
            from = i;
        } else if (i + 1 < g->end && r->data[i + 1] == quote) { /* abc"", */
            stray = true;
            i++;
        } else if (ends_field(g, i + 1)) {
            if (copied || stray)
                n = keep(r, r->data + from, i - from, err);
            if (n == 0)
                n = copied || stray ? add_field(g, NULL, r->copy_len - kept, true, err) :
                                      add_field(g, r->data + from, i - from, true, err);
            for (i++; i < g->end && is_space(r->data[i]) && !delimiter_at(r, i, g->end); i++)
                ;
            g->at = i;
            g->line_breaks += breaks;
            g->stray = g->stray || stray;
            return n < 0 ? n : 1;
        } else {
            stray = true;
            i++;
        }
        if (n < 0)
            return n;
    }
    if (g->how == QUOTES_SPAN_LINES)
        r->searched += i - g->at;
    r->copy_len = kept;
    g->stray = true;
    return 0;
}

static size_t trim_end(const char *data, size_t from, size_t to)
{
    while (to > from && is_space(data[to - 1]))
        to--;
    return to;
}

/* The field without quotes at g->at, or one whose quote has no end. */
static int read_plain(struct reading *g, struct err *err)
{
    struct csv_records *r = g->r;
    const struct csv_layout *l = r->layout;
    size_t from = g->at, i = from, to;
    bool quoted = false;

    for (; i < g->end; i++) {
        char c = r->data[i];

        if (c == l->delimiter[0] && delimiter_at(r, i, g->end))
            break;
        if ((c == '\n' || c == '\r') && line_end_at(r, i))
            break;
    }
    g->at = to = i;
    if (l->spaces || (g->how == QUOTES_ARE_TEXT && l->quote)) {
        size_t a = from, b = trim_end(r->data, from, to);

        while (a < b && is_space(r->data[a]))
            a++;
        quoted = g->how == QUOTES_ARE_TEXT && b - a >= 2 && r->data[a] == l->quote &&
                 r->data[b - 1] == l->quote;
        if (quoted || l->spaces) {
            from = a + quoted;
            to = b - quoted;
        }
    }
    return add_field(g, r->data + from, to - from, quoted, err);
}

/* [31/Jan/2024:10:00:00 +0200] in the logs of web servers is one field. 0: there is none here. */
static int read_bracketed(struct reading *g, struct err *err)
{
    const struct csv_records *r = g->r;
    size_t i = g->at + 1;
    int n;

    if (g->at >= g->end || r->data[g->at] != '[')
        return 0;
    while (i < g->end && r->data[i] != ']' && r->data[i] != '[' && !line_end_at(r, i))
        i++;
    if (i >= g->end || r->data[i] != ']' || !ends_field(g, i + 1))
        return 0;
    n = add_field(g, r->data + g->at + 1, i - g->at - 1, true, err);
    g->at = i + 1;
    return n < 0 ? n : 1;
}

/* All fields up to a line end or g->end; g->at is there then. */
static int read_fields(struct reading *g, struct err *err)
{
    struct csv_records *r = g->r;
    const struct csv_layout *l = r->layout;

    for (;;) {
        size_t start = g->at, n;
        int done = 0;

        if (l->runs || l->spaces || l->quote)
            for (; start < g->end && is_space(r->data[start]); start++)
                if (!l->runs && delimiter_at(r, start, g->end))
                    break;
        if (l->runs)
            g->at = start;
        if (l->quote && g->how != QUOTES_ARE_TEXT && start < g->end && r->data[start] == l->quote) {
            size_t was = g->at;

            g->at = start;
            done = read_quoted(g, err);
            if (done == 0)
                g->at = was;
        }
        if (done == 0 && l->delimiter[0] == ' ')
            done = read_bracketed(g, err);
        if (done == 0)
            done = read_plain(g, err);
        if (done < 0)
            return done;
        if (g->at >= g->end || (n = delimiter_at(r, g->at, g->end)) == 0)
            return 0;
        g->at += n;
        if (l->runs) { /* spaces before the line's end are no separator */
            while (g->at < g->end && is_space(r->data[g->at]))
                g->at++;
            if (g->at >= g->end || line_end_at(r, g->at))
                return 0;
        }
    }
}

static int try(struct reading *g, struct csv_records *r, enum quote_reading how, struct err *err)
{
    size_t end = how == QUOTES_SPAN_LINES ? r->len : find_line_end(r, r->at);

    *g = (struct reading){ .r = r, .how = how, .at = r->at, .end = end };
    r->copy_len = 0;
    return read_fields(g, err);
}

static void place_copies(struct csv_records *r, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < MIN_OF(n, r->n_fields); i++) {
        if (r->fields[i].text)
            continue;
        r->fields[i].text = r->copy + at;
        at += r->fields[i].len;
    }
}

/* A line whose fields are told by their position. One with a word across a cut is one field. */
static int read_cut(struct reading *g, struct csv_records *r, struct err *err)
{
    const struct csv_layout *l = r->layout;
    size_t end = find_line_end(r, r->at), from = r->at, at = r->at, n = 0;
    bool across = false;
    int done = 0;

    *g = (struct reading){ .r = r, .at = r->at, .end = end };
    for (size_t i = 0; i <= l->n_cuts && done == 0; i++) {
        size_t to = end;

        for (; i < l->n_cuts && at < end && n < l->cuts[i]; n++)
            for (at++; at < end && ((unsigned char)r->data[at] & 0xc0) == 0x80; at++)
                ;
        if (i < l->n_cuts) {
            across = across || (at > r->at && at < end && !is_space(r->data[at - 1]) &&
                                !is_space(r->data[at]));
            to = at;
        }
        while (from < to && is_space(r->data[from]))
            from++;
        done = add_field(g, r->data + from, trim_end(r->data, from, to) - from, false, err);
        from = at;
    }
    g->at = end;
    if (!across || done < 0)
        return done;
    g->n = 0;
    return add_field(g, r->data + r->at, end - r->at, false, err);
}

int csv_records_next(struct csv_records *r, struct csv_record *ret, struct err *err)
{
    struct reading g, other;
    bool spans = r->searched < SEARCHED_MAX_BYTES;
    int n;

    if (r->at >= r->len)
        return 0;
    n = r->layout->n_cuts ? read_cut(&g, r, err) :
                            try(&g, r, spans ? QUOTES_SPAN_LINES : QUOTES_IN_LINE, err);
    if (n == 0 && r->layout->quote && !r->layout->n_cuts && r->expected > 0 &&
        (g.stray || (g.n != r->expected && g.line_breaks > 0) ||
         (g.n < r->expected && memchr(r->data + r->at, r->layout->quote, g.at - r->at)))) {
        bool fits = g.n == r->expected && !(g.stray && g.line_breaks > 0);
        enum quote_reading how = QUOTES_SPAN_LINES;

        for (enum quote_reading k = QUOTES_IN_LINE; n == 0 && !fits && k <= QUOTES_ARE_TEXT; k++) {
            n = try(&other, r, k, err);
            if (n == 0 && other.n == r->expected) {
                fits = true;
                how = k;
            }
        }
        if (!fits && g.line_breaks > 0) /* nothing fits: no more than the line is taken */
            how = g.stray || g.n != r->expected ? QUOTES_ARE_TEXT : QUOTES_SPAN_LINES;
        if (n == 0)
            n = try(&g, r, how, err);
        g.stray = true;
    }
    if (n < 0)
        return n;
    place_copies(r, g.n);
    *ret = (struct csv_record){ .fields = r->fields,
                                .n = g.n,
                                .begin = r->at,
                                .len = g.at - r->at,
                                .line = r->line,
                                .irregular = g.stray };
    r->line += g.line_breaks + 1;
    r->at = g.at < r->len ? g.at + MAX_OF(line_end_at(r, g.at), (size_t)1) : r->len;
    return 1;
}

/* Are all of its fields lines of dashes: |----|:---:|, ----+-----, ======== */
bool csv_record_is_rule(const struct csv_record *r)
{
    size_t dashes = 0;

    for (size_t i = 0; i < MIN_OF(r->n, (size_t)CSV_MAX_COLUMNS); i++) {
        const struct csv_field *f = &r->fields[i];
        size_t own = 0, edges = 0;

        if (f->quoted)
            return false;
        for (size_t k = 0; k < f->len; k++) {
            if (!strchr("-=_+|: ", f->text[k]) || !f->text[k])
                return false;
            own += strchr("-=_", f->text[k]) != NULL;
            edges += f->text[k] == ' ' || f->text[k] == '|';
        }
        if (own < 2 && edges < f->len)
            return false;
        dashes += own;
    }
    return dashes >= 5;
}

bool csv_record_is_blank(const struct csv_record *r)
{
    for (size_t i = 0; i < MIN_OF(r->n, (size_t)CSV_MAX_COLUMNS); i++)
        for (size_t k = 0; k < r->fields[i].len; k++)
            if (!strchr(" \t\r\f\v", r->fields[i].text[k]) || !r->fields[i].text[k])
                return false;
    return true;
}
