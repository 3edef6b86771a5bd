/*
 * The separator and the quotes of a text. Each candidate is tried on a sample; it is good if its
 * records have equally many fields and
 * the fields look like values: numbers, dates, or text without another separator in it. (The
 * measure follows van den Burg, Nazábal
 * and Sutton, "Wrangling messy CSV files by detecting row and type patterns".)
 */

#include "kernel/ingest/csv_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "kernel/ingest/value.h"

#define SAMPLE_BYTES (64u << 10)
#define SAMPLE_MAX_BYTES (4u << 20)
#define SAMPLE_RECORDS 400
#define MAX_COUNTED 512
#define JUDGED_FIELDS 4000
#define LEAST_SCORE 0.12

static const struct {
    char delimiter[4];
    bool runs;
    double prior;
} candidates[] = {
    { ",", false, 1.0 },    { ";", false, 1.0 },  { "\t", false, 1.0 },  { "|", false, 1.0 },
    { "~", false, 0.9 },    { "^", false, 0.9 },  { "||", false, 1.0 },  { "::", false, 0.9 },
    { ":", false, 0.45 },   { " ", false, 0.6 },  { " ", true, 0.62 },   { "\x1f", false, 1.0 },
    { "\x01", false, 1.0 }, { ";;", false, 1.0 }, { "~|~", false, 1.1 }, { "|~|", false, 1.1 },
};

/* The sample ends with a line, unless it is all; long lines make it longer. */
static size_t sample_len(const char *text, size_t len)
{
    size_t n = MIN_OF(len, (size_t)SAMPLE_BYTES), lines = 0, i;

    for (i = 0; i < MIN_OF(len, (size_t)SAMPLE_MAX_BYTES) && (lines < 3 || i < n); i++)
        lines += text[i] == '\n' || text[i] == '\r';
    n = MAX_OF(n, i);
    if (n == len)
        return len;
    for (size_t k = n; k > 0; k--)
        if (text[k - 1] == '\n' || text[k - 1] == '\r')
            return k;
    return n;
}

/* Is a carriage return alone a line end? Those in quotes do not count. */
static bool returns_end_lines(const char *text, size_t len)
{
    size_t alone = 0, feeds = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        feeds += text[i] == '\n';
        if (text[i] == '\r' && !quoted && i + 1 < len && text[i + 1] != '\n' && text[i + 1] != '\r')
            alone++;
    }
    return alone > 0 && alone * 5 >= feeds;
}

static bool looks_clean(const struct csv_field *f, const char *delimiter)
{
    enum value_kind kind = value_kind(f->text, f->len);

    if (f->quoted || kind != VALUE_TEXT)
        return true;
    for (size_t i = 0; i < f->len; i++) {
        char c = f->text[i];

        if (c != delimiter[0] && (c == ';' || c == '\t' || c == '|' || c == '~' || c == '^' ||
                                  c == '\x1f' || c == '\x01'))
            return false;
        if (c == '"' ||
            (c == ',' && delimiter[0] != ',' && i + 1 < f->len && f->text[i + 1] != ' '))
            return false;
    }
    return true;
}

struct trial {
    double score;
    size_t n_spaced, n_inner; /* fields with a space at an end, of those behind a separator */
};

static int judge(const char *text, size_t len, const struct csv_layout *layout, struct trial *ret,
                 struct err *err)
{
    struct csv_records records;
    struct csv_record rec;
    size_t counts[MAX_COUNTED] = { 0 }, widths[SAMPLE_RECORDS], n = 0, mode = 0, first = 0,
           last = 0;
    size_t fields = 0, clean = 0, inside = 0;
    int r;

    *ret = (struct trial){ 0 };
    csv_records_init(&records, text, len, layout);
    while (n < SAMPLE_RECORDS && (r = csv_records_next(&records, &rec, err)) == 1) {
        if (csv_record_is_blank(&rec) || csv_record_is_rule(&rec))
            continue;
        widths[n++] = MIN_OF(rec.n, (size_t)MAX_COUNTED - 1);
        counts[MIN_OF(rec.n, (size_t)MAX_COUNTED - 1)]++;
        for (size_t i = 0; i < MIN_OF(rec.n, (size_t)200) && fields < JUDGED_FIELDS && rec.n > 1;
             i++) {
            fields++;
            clean += looks_clean(&rec.fields[i], layout->delimiter);
            ret->n_inner += i > 0 && rec.fields[i].len > 0 && !rec.fields[i].quoted;
            ret->n_spaced += i > 0 && rec.fields[i].len > 0 && !rec.fields[i].quoted &&
                             (rec.fields[i].text[0] == ' ' ||
                              rec.fields[i].text[rec.fields[i].len - 1] == ' ');
        }
    }
    csv_records_finish(&records);
    if (n == 0)
        return 0;
    for (size_t k = 2; k < MAX_COUNTED; k++)
        if (counts[k] > counts[mode] || (mode == 0 && counts[k] > 0))
            mode = k;
    if (mode < 2)
        return 0;
    for (first = 0; widths[first] != mode; first++)
        ;
    for (last = n - 1; widths[last] != mode; last--)
        ;
    inside = last - first + 1;
    ret->score = (double)counts[mode] / (double)inside * sqrt((double)counts[mode] / (double)n) *
                 (1 - 1.0 / (double)mode) * ((double)clean / (double)MAX_OF(fields, (size_t)1));
    return 0;
}

/* Is there a backslash before a quote that does not end its field? */
static char find_escape(const char *text, size_t len, char quote, char delimiter)
{
    for (size_t i = 0; quote && i + 2 < len; i++)
        if (text[i] == '\\' && text[i + 1] == quote && text[i + 2] != delimiter &&
            text[i + 2] != '\n' && text[i + 2] != '\r')
            return '\\';
    return '\0';
}

static bool is_edge(const char *text, size_t len, size_t at, int step)
{
    size_t next = step < 0 ? at - 1 : at + 1;

    if (step < 0 ? at == 0 : next == len)
        return true;
    return strchr(",;\t|\n\r", text[next]) && text[next];
}

/* Are more fields in single quotes than in double ones? */
static bool has_single_quotes(const char *text, size_t len)
{
    size_t begins[2] = { 0 }, ends[2] = { 0 };

    for (size_t i = 0; i < len; i++) {
        if (text[i] != '\'' && text[i] != '"')
            continue;
        begins[text[i] == '"'] += is_edge(text, len, i, -1);
        ends[text[i] == '"'] += is_edge(text, len, i, 1);
    }
    return begins[0] >= 2 && ends[0] >= 2 && begins[0] > 2 * begins[1] && ends[0] > 2 * ends[1];
}

/* "Wert", then 0,5 and 1,25 on lines of their own: a column of decimals, not two of integers. */
static bool is_one_column(const char *text, size_t len)
{
    size_t lines = 0;

    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at), *line = text + at;
        size_t n = end ? (size_t)(end - line) : len - at;
        struct number number;

        at += n + 1;
        value_trim(&line, &n);
        if (n == 0)
            continue;
        if (lines++ == 0) {
            if (memchr(line, ',', n) || value_kind(line, n) != VALUE_TEXT)
                return false;
        } else if (!number_parse(line, n, &number) || !(number.notations & 1u << NUMBER_COMMA)) {
            return false;
        }
    }
    return lines > 2;
}

/* ---- columns by their position ---- */

#define CUT_LINES 400
#define CUT_CHARACTERS 1000
#define CUT_PRIOR 0.85

struct line {
    size_t last; /* the character behind its text */
    bool gaps;          /* two spaces and more between words */
    bool rule;          /* of dashes */
};

/* Counts in filled[] the lines that have something at each character. False: it has a tab. */
static bool look_at_line(const char *s, size_t len, unsigned *filled, struct line *ret)
{
    size_t at = 0, spaces = 0;

    *ret = (struct line){ .rule = true };
    for (size_t i = 0; i < len && at < CUT_CHARACTERS; i++) {
        if (((unsigned char)s[i] & 0xc0) == 0x80)
            continue;
        if (s[i] == '\t')
            return false;
        if (s[i] == ' ') {
            spaces++;
        } else {
            ret->gaps = ret->gaps || (ret->last > 0 && spaces >= 2);
            ret->last = at + 1;
            spaces = 0;
            ret->rule = ret->rule && strchr("-=_+|", s[i]);
            if (filled)
                filled[at]++;
        }
        at++;
    }
    return true;
}

/* Where no line has anything for two characters, one column ends and the next begins. */
static void find_cuts(const char *text, size_t len, struct csv_layout *ret)
{
    unsigned filled[CUT_CHARACTERS] = { 0 };
    size_t lines = 0, used = 0, end = 0, gap = 0;
    bool begun = false;

    for (size_t at = 0; at < len && lines < CUT_LINES;) {
        const char *line = text + at, *next = memchr(line, '\n', len - at);
        size_t n = next ? (size_t)(next - line) : len - at;
        struct line l;

        at += n + 1;
        n -= n > 0 && line[n - 1] == '\r';
        if (!look_at_line(line, n, NULL, &l))
            return;
        if (l.rule) /* or blank */
            continue;
        lines++;
        if (!l.gaps)
            continue;
        used++;
        end = MAX_OF(end, l.last);
        (void)look_at_line(line, n, filled, &l);
    }
    if (used < 3 || used * 10 < lines * 7)
        return;
    for (size_t i = 0; i < end; i++) {
        if (filled[i] > 0 && begun && gap >= 2) {
            if (ret->n_cuts == CSV_MAX_CUTS) {
                ret->n_cuts = 0;
                return;
            }
            ret->cuts[ret->n_cuts++] = (unsigned short)i;
        }
        gap = filled[i] > 0 ? 0 : gap + 1;
        begun = begun || filled[i] > 0;
    }
}

int csv_layout_find(const char *text, size_t len, const char *delimiter, const char *quote,
                    struct csv_layout *ret, struct err *err)
{
    struct csv_layout best = { .quote = '"' };
    struct trial best_trial = { .score = LEAST_SCORE };
    size_t n = sample_len(text, len);
    char single = '\0';

    best.returns_end = returns_end_lines(text, n);
    if (!quote && has_single_quotes(text, n))
        single = '\'';
    if (quote)
        best.quote = quote[0];
    else if (single)
        best.quote = single;
    best.escape = find_escape(text, n, best.quote, delimiter ? delimiter[0] : ',');
    if (!delimiter && is_one_column(text, n)) {
        *ret = best;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
        struct csv_layout l = best;
        struct trial t;
        int r;

        if (delimiter || !memmem(text, n, candidates[i].delimiter, strlen(candidates[i].delimiter)))
            continue;
        memcpy(l.delimiter, candidates[i].delimiter, sizeof(l.delimiter));
        l.runs = candidates[i].runs;
        r = judge(text, n, &l, &t, err);
        if (r < 0)
            return r;
        t.score *= candidates[i].prior;
        if (t.score > best_trial.score * 1.000001) {
            best_trial = t;
            best = l;
        }
    }
    if (!delimiter) {
        struct csv_layout l = { .returns_end = best.returns_end };
        struct trial t;

        find_cuts(text, n, &l);
        if (l.n_cuts > 0 && judge(text, n, &l, &t, err) < 0)
            return -err->code;
        if (l.n_cuts > 0 && t.score * CUT_PRIOR > best_trial.score) {
            *ret = l;
            return 0;
        }
    }
    if (delimiter) {
        strncpy(best.delimiter, delimiter, sizeof(best.delimiter) - 1);
        if (judge(text, n, &best, &best_trial, err) < 0)
            return -err->code;
    }
    best.escape = find_escape(text, n, best.quote, best.delimiter[0]);
    best.spaces = best.delimiter[0] != ' ' && best.delimiter[0] != '\t' && best_trial.n_inner > 0 &&
                  best_trial.n_spaced * 10 >=
                      best_trial.n_inner * (best.delimiter[0] == '|' ? 2 : 7); /* a grid */
    *ret = best;
    return 0;
}
