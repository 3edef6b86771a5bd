/*
 * The text is gone through twice: once for what its columns are, once to write them. Both times
 * every record has the same fate
 * (fate_of), and the sums are compared at the end: a record that is in no sum is a mistake of ours,
 * and fails.
 */

#include "kernel/ingest/csv_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/names.h"

#define ARENA_MAX_BYTES (512u << 20)
#define FLUSH_BYTES (256u << 10)
#define ROW_MAX_BYTES (256u << 20)
#define RECORDS_BETWEEN_CHECKS 1024
#define GUESS_BYTES (1u << 20)
/* A record in ten that is longer than the others: it is the others that are short. */
#define LONG_SHARE 10

enum fate {
    FATE_ROW,
    FATE_REFUSED,
    FATE_ABOVE,
    FATE_HEADER,
    FATE_BLANK,
    FATE_REPEATED,
    FATE_BELOW,
    FATE_COMMENT,
    FATE_RULE
};

struct pass {
    struct csv_table *t;
    const struct csv_hooks *hooks; /* NULL: of a guess */
    const char *text;
    size_t len;
    struct csv_counts counts;
    int64_t n_long;
    size_t long_width; /* of the longest with something in it */
    bool writes;
    bool below_blank; /* only blank lines and titles since the last row */
    bool after_blank; /* the next record is the first behind a blank line */
    size_t block_at;  /* where that one stood */
    int64_t block_line;
    uint64_t names; /* columns where the last record has names of another table, perhaps */
    struct buf out;
    uint64_t written;
};

/*
 * ---- records ------------------------------------------------------------------------------------
 * -------------------
 */

static bool is_repeated_header(const struct csv_table *t, const struct csv_record *rec)
{
    const struct csv_shape *s = &t->shape;

    if (s->header_rows != 1 || s->width < 2 || rec->n > s->width)
        return false;
    for (size_t i = 0; i < s->width; i++) {
        const char *name = s->names[i] ? s->names[i] : "",
                   *text = i < rec->n ? rec->fields[i].text : "";
        size_t len = i < rec->n ? rec->fields[i].len : 0;

        value_trim(&text, &len);
        if (strlen(name) != len || memcmp(name, text, len) != 0)
            return false;
    }
    return true;
}

/* Fields behind the last that has something in it do not count. */
static size_t full_width(const struct csv_record *rec)
{
    size_t n = MIN_OF(rec->n, (size_t)CSV_MAX_COLUMNS + 1);

    if (rec->n > CSV_MAX_COLUMNS)
        return rec->n;
    while (n > 0 && rec->fields[n - 1].len == 0)
        n--;
    return n;
}

static size_t count_full(const struct csv_record *rec)
{
    size_t n = 0;

    for (size_t i = 0; i < MIN_OF(rec->n, (size_t)CSV_MAX_COLUMNS); i++)
        n += rec->fields[i].len > 0;
    return n;
}

#define TITLE_LINES 4

/* A title between pages: the header stands again behind it, others and blank lines between. */
static bool is_page_title(const struct pass *p, const struct csv_record *rec)
{
    const struct csv_shape *s = &p->t->shape;
    const char *end = p->text + p->len, *line = p->text + rec->begin + rec->len;
    const char *header = p->text + s->begin;
    size_t n = 0;

    if (s->header_rows != 1 || s->width < 2 || s->layout.exact || count_full(rec) != 1)
        return false;
    while (header + n < end && header[n] != '\n' && header[n] != '\r')
        n++;
    for (int k = 0; k < TITLE_LINES && line < end; k++) {
        while (line < end && (*line == '\n' || *line == '\r'))
            line++;
        size_t len = 0;
        while (line + len < end && line[len] != '\n' && line[len] != '\r')
            len++;
        if (len == n && n > 0 && memcmp(line, header, n) == 0)
            return true;
        if (memchr(line, s->layout.delimiter[0], len))
            return false;
        line += len;
    }
    return false;
}

static enum fate fate_of(const struct pass *p, const struct csv_record *rec)
{
    const struct csv_shape *s = &p->t->shape;

    if (csv_record_is_blank(rec))
        return FATE_BLANK;
    if (csv_record_is_rule(rec))
        return FATE_RULE;
    if (rec->begin < s->begin)
        return FATE_ABOVE;
    if (p->counts.header < (int64_t)s->header_rows)
        return FATE_HEADER;
    if (rec->begin >= s->end)
        return FATE_BELOW;
    if (rec->n < s->width && rec->fields[0].len > 0 && rec->fields[0].text[0] == '#' &&
        !rec->fields[0].quoted && rec->n == 1)
        return FATE_COMMENT;
    if (is_repeated_header(p->t, rec) || is_page_title(p, rec))
        return FATE_REPEATED;
    if (s->layout.n_cuts && rec->n < s->width) /* a word stands across columns */
        return FATE_REFUSED;
    return rec->n > s->width && full_width(rec) > s->width ? FATE_REFUSED : FATE_ROW;
}

static int note_refused(struct pass *p, const struct csv_record *rec, struct err *err)
{
    struct csv_refused f = { .line = rec->line };
    struct csv_refusal whole = {
        .line = rec->line, .reason = f.reason, .text = p->text + rec->begin, .len = rec->len
    };
    size_t n = str_utf8_cut(whole.text, rec->len, CSV_REFUSED_TEXT);

    snprintf(f.reason, sizeof(f.reason), "%zu fields instead of %zu", rec->n, p->t->shape.width);
    if (p->counts.refused < CSV_REFUSED_SHOWN) {
        memcpy(f.text, whole.text, n);
        memcpy(f.text + n, n < rec->len ? "\xe2\x80\xa6" : "", n < rec->len ? 4 : 1);
        p->t->refused[p->counts.refused] = f;
    }
    return p->hooks->refused ? p->hooks->refused(p->hooks->arg, &whole, err) : 0;
}

/* "North Total", "Subtotal": a sum of rows above, with cells left empty. */
static bool is_subtotal(const struct csv_record *rec, size_t width)
{
    static const char *const words[] = { "total", "subtotal", "summe", "zwischensumme" };
    size_t first = 0;

    while (first < MIN_OF(rec->n, width) && rec->fields[first].len == 0)
        first++;
    if (first == MIN_OF(rec->n, width))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        const char *text = rec->fields[first].text;
        size_t len = rec->fields[first].len, n = strlen(words[i]);

        value_trim(&text, &len);
        if (len >= n && ((strncasecmp(text, words[i], n) == 0 && (len == n || text[n] == ' ')) ||
                         (strncasecmp(text + len - n, words[i], n) == 0 &&
                          (len == n || text[len - n - 1] == ' '))))
            return count_full(rec) > 1 && count_full(rec) < width;
    }
    return false;
}

static void count_row(struct pass *p, const struct csv_record *rec)
{
    struct csv_counts *c = &p->counts;

    c->rows++;
    c->last_line = rec->line;
    if (rec->n > 1 && rec->fields[0].len == 0 && count_full(rec) > 1 && c->unlabelled++ == 0)
        c->unlabelled_line = rec->line;
    c->blank_inside = c->blank;
    if (rec->n < p->t->shape.width && !p->t->shape.layout.width && c->padded++ == 0)
        c->padded_line = rec->line;
    c->cut += rec->n > p->t->shape.width;
    if (rec->irregular && c->irregular++ == 0)
        c->irregular_line = rec->line;
    if (is_subtotal(rec, p->t->shape.width) && c->subtotals++ == 0)
        c->subtotal_line = rec->line;
}

/*
 * ---- first: what the columns are
 * -----------------------------------------------------------------------------------
 */

/* Names where the columns had numbers or dates, as bits of the first 64 columns. */
static uint64_t names_of_another(const struct pass *p, const struct csv_record *rec)
{
    size_t above = 0, texts = 0;
    uint64_t names = 0;

    for (size_t i = 0; i < MIN_OF(rec->n, (size_t)CSV_MAX_COLUMNS); i++) {
        const struct column *c = i < p->t->n_columns ? &p->t->columns[i] : NULL;
        enum value_kind kind = value_kind(rec->fields[i].text, rec->fields[i].len);

        if (kind == VALUE_NUMBER || kind == VALUE_WHEN)
            return 0;
        if (kind == VALUE_TEXT && i < 64)
            names |= (uint64_t)1 << i;
        texts += kind == VALUE_TEXT;
        above += kind == VALUE_TEXT && c && c->n_values > 0 && !(c->no_number && c->no_when);
    }
    return texts > 1 && above > 0 ? names : 0;
}

/* Another table: names behind a blank line (a title between them), and numbers or dates below. */
static void look_for_another(struct pass *p, const struct csv_record *rec)
{
    if (p->counts.another_line)
        return;
    for (size_t i = 0; p->names && i < MIN_OF(rec->n, (size_t)64); i++) {
        enum value_kind kind = value_kind(rec->fields[i].text, rec->fields[i].len);

        if ((p->names >> i & 1) && (kind == VALUE_NUMBER || kind == VALUE_WHEN)) {
            p->counts.another_at = p->block_at;
            p->counts.another_line = p->block_line;
            break;
        }
    }
    if (p->after_blank) {
        p->block_at = rec->begin;
        p->block_line = rec->line;
    }
    p->after_blank = false;
    p->names = p->below_blank && p->counts.rows > 1 ? names_of_another(p, rec) : 0;
    p->below_blank = p->below_blank && count_full(rec) == 1; /* a title */
}

static void look(struct pass *p, const struct csv_record *rec)
{
    struct csv_table *t = p->t;

    for (size_t i = 0; i < MIN_OF(rec->n, t->n_columns); i++)
        column_look(&t->columns[i], rec->fields[i].text, rec->fields[i].len,
                    t->shape.layout.exact && !rec->fields[i].quoted, rec->line, &t->signs);
}

/*
 * ---- then: writing them
 * --------------------------------------------------------------------------------------------
 */

static int flush(struct pass *p, struct err *err)
{
    const struct csv_hooks *hooks = p->hooks;
    int r;

    p->written += p->out.len;
    if (p->written > hooks->max_bytes)
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' becomes a table that is larger than the room for it "
                       "(RIDDLE_INGEST_FILE_SIZE, or the disk); send it in "
                       "smaller parts",
                       hooks->name);
    r = fd_write_all(hooks->out_fd, p->out.data, p->out.len, err);
    buf_clear(&p->out);
    return r;
}

static int write_row(struct pass *p, const struct csv_record *rec, struct err *err)
{
    struct csv_table *t = p->t;
    size_t begin = p->out.len;
    bool first = true;
    int r = 0;

    for (size_t i = 0; r == 0 && i < t->n_columns; i++) {
        const struct column *c = &t->columns[i];

        if (c->dropped)
            continue;
        if (!first)
            r = buf_append(&p->out, ",", 1, err);
        first = false;
        if (r == 0 && i < rec->n)
            r = column_write(c, rec->fields[i].text, rec->fields[i].len, rec->fields[i].quoted,
                             t->shape.layout.exact && !rec->fields[i].quoted, &t->signs, &p->out,
                             err);
        else if (r == 0)
            r = buf_append(&p->out, "\\N", 2, err);
    }
    if (r == 0)
        r = buf_append(&p->out, "\n", 1, err);
    t->longest_row = MAX_OF(t->longest_row, p->out.len - begin);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_VALIDATION, "line %" PRId64 " has more than %u MB", rec->line,
                       ROW_MAX_BYTES >> 20);
    return r;
}

/*
 * ---- both ---------------------------------------------------------------------------------------
 * -------------------
 */

static int take(struct pass *p, const struct csv_record *rec, struct err *err)
{
    struct csv_counts *c = &p->counts;
    int r = 0;

    c->records++;
    switch (fate_of(p, rec)) {
    case FATE_ROW:
        if (!p->writes)
            look_for_another(p, rec);
        count_row(p, rec);
        if (p->writes)
            return write_row(p, rec, err);
        look(p, rec);
        break;
    case FATE_REFUSED:
        if (!p->writes)
            look_for_another(p, rec);
        if (p->writes)
            r = note_refused(p, rec, err);
        p->n_long += rec->n > p->t->shape.width;
        p->long_width = MAX_OF(p->long_width, MIN_OF(full_width(rec), (size_t)CSV_MAX_COLUMNS));
        c->refused++;
        break;
    case FATE_ABOVE:
        c->above++;
        c->above_rows += count_full(rec) > 1;
        break;
    case FATE_HEADER:
        c->header++;
        break;
    case FATE_BLANK:
        c->blank++;
        p->below_blank = p->after_blank = true;
        break;
    case FATE_REPEATED:
        c->repeated++;
        break;
    case FATE_BELOW:
        c->below++;
        break;
    case FATE_COMMENT:
        c->comments++;
        break;
    case FATE_RULE:
        c->rules++;
        break;
    }
    return r;
}

static int go_through(struct pass *p, struct err *err)
{
    const struct csv_hooks *hooks = p->hooks;
    struct csv_records records;
    struct csv_record rec;
    int r;

    csv_records_init(&records, p->text, p->len, &p->t->shape.layout);
    records.line = p->t->first_line;
    records.expected = p->t->shape.layout.exact ? 0 : p->t->shape.width;
    while ((r = csv_records_next(&records, &rec, err)) == 1) {
        r = take(p, &rec, err);
        if (r == 0 && p->out.len >= FLUSH_BYTES)
            r = flush(p, err);
        if (r == 0 && hooks && p->counts.records % RECORDS_BETWEEN_CHECKS == 0) {
            if (hooks->must_stop(hooks->arg))
                r = err_set(err, ERR_CANCELLED, "interrupted");
            else if (hooks->progress)
                hooks->progress(hooks->arg, ((double)records.at / (double)p->len + p->writes) / 2);
        }
        if (r < 0)
            break;
    }
    if (r == 0 && p->out.len > 0)
        r = flush(p, err);
    csv_records_finish(&records);
    return r;
}

static int make_columns(struct csv_table *t, struct err *err)
{
    for (size_t i = 0; i < t->n_columns; i++)
        column_finish(&t->columns[i]);
    free(t->columns);
    t->n_columns = t->shape.width;
    t->columns = calloc(t->n_columns + 1, sizeof(*t->columns));
    if (!t->columns) {
        t->n_columns = 0;
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    }
    for (size_t i = 0; i < t->n_columns; i++) {
        struct column *c = &t->columns[i];

        column_init(c);
        c->named = t->shape.header_rows > 0 && t->shape.names[i];
        if ((c->named ? asprintf(&c->name, "%s", t->shape.names[i]) :
                        asprintf(&c->name, "column%zu", i)) < 0) {
            c->name = NULL;
            return err_set(err, ERR_NO_MEMORY, "out of memory for a name");
        }
    }
    return 0;
}

static int widen(struct csv_table *t, size_t width, struct err *err)
{
    char **names = arena_alloc(&t->arena, (width + 1) * sizeof(char *));

    if (!names)
        return err_set(err, ERR_NO_MEMORY, "out of memory for names");
    memcpy(names, t->shape.names, t->shape.width * sizeof(char *));
    t->shape.names = names;
    t->shape.width = width;
    return make_columns(t, err);
}

static bool must_widen(const struct pass *p)
{
    int64_t all = p->counts.rows + p->n_long;

    return p->n_long > 0 && p->n_long * LONG_SHARE >= all &&
           (p->n_long >= 3 || 2 * p->n_long >= all);
}

static void set_signs(struct csv_table *t, const struct read_options *o)
{
    t->signs = (struct column_signs){ .decimal = o->decimal,
                                      .thousands = o->thousands,
                                      .order = o->order,
                                      .text = o->text,
                                      .null_words = o->null_words,
                                      .n_null_words = o->n_null_words };
}

static int unique_names(struct csv_table *t, struct err *err)
{
    auto_free char **names = calloc(t->n_columns + 1, sizeof(*names));
    int r;

    if (!names)
        return err_set(err, ERR_NO_MEMORY, "out of memory for names");
    for (size_t i = 0; i < t->n_columns; i++)
        names[i] = t->columns[i].name;
    r = names_make_unique(names, t->n_columns, err);
    for (size_t i = 0; i < t->n_columns; i++)
        t->columns[i].name = names[i];
    return r;
}

static int decide(struct csv_table *t, const struct read_options *options, struct err *err)
{
    set_signs(t, options);
    columns_decide(t->columns, t->n_columns,
                   &(struct column_signs){ .decimal = options->decimal,
                                           .thousands = options->thousands,
                                           .order = options->order,
                                           .text = options->text,
                                           .null_words = options->null_words,
                                           .n_null_words = options->n_null_words },
                   t->shape.layout.delimiter[0], &t->signs);
    return unique_names(t, err);
}

int csv_table_find(struct csv_table *t, const char *text, size_t len,
                   const struct csv_layout *layout, const struct read_options *options,
                   struct err *err)
{
    int r;

    *t = (struct csv_table){ .first_line = MAX_OF(options->first_line, 1) };
    arena_init(&t->arena, ARENA_MAX_BYTES);
    r = csv_shape_find(text, len, layout, options, &t->arena, &t->shape, err);
    set_signs(t, options);
    return r < 0 ? r : make_columns(t, err);
}

int csv_table_guess(struct csv_table *t, const char *text, size_t len,
                    const struct read_options *options, struct err *err)
{
    size_t n = MIN_OF(len, (size_t)GUESS_BYTES);
    struct pass p = { .t = t, .text = text };
    int r;

    while (n > 0 && n < len && text[n - 1] != '\n')
        n--;
    p.len = n;
    r = go_through(&p, err);
    if (r == 0)
        r = decide(t, options, err);
    if (r < 0)
        return r;
    return p.counts.rows > 0 && p.counts.records == p.counts.rows + 1 && p.counts.header == 1 &&
           p.counts.padded == 0 && p.counts.cut == 0 && p.counts.irregular == 0;
}

int csv_table_read(struct csv_table *t, const char *text, size_t len,
                   const struct read_options *options, const struct csv_hooks *hooks,
                   struct err *err)
{
    struct pass p = { .t = t, .hooks = hooks, .text = text, .len = len };
    int64_t rows, refused;
    int r = make_columns(t, err);

    set_signs(t, options);
    if (r == 0)
        r = go_through(&p, err);
    if (r == 0 && hooks->split && p.counts.another_at > 0) {
        t->counts = p.counts;
        return 1;
    }
    if (r == 0 && must_widen(&p)) {
        r = widen(t, p.long_width, err);
        p = (struct pass){ .t = t, .hooks = hooks, .text = text, .len = len };
        if (r == 0)
            r = go_through(&p, err);
    }
    if (r == 0)
        r = decide(t, options, err);
    if (r < 0)
        return r;
    rows = p.counts.rows;
    refused = p.counts.refused;
    p = (struct pass){ .t = t, .hooks = hooks, .text = text, .len = len, .writes = true };
    buf_init(&p.out, FLUSH_BYTES + ROW_MAX_BYTES);
    r = go_through(&p, err);
    buf_finish(&p.out);
    t->counts = p.counts;
    if (r == 0 && (p.counts.rows != rows || p.counts.refused != refused ||
                   p.counts.records != rows + refused + csv_table_skipped(t)))
        r = err_set(err, ERR_INTERNAL,
                    "%" PRId64 " records became %" PRId64 " rows, %" PRId64 " refused and %" PRId64
                    " skipped",
                    p.counts.records, p.counts.rows, p.counts.refused, csv_table_skipped(t));
    return r;
}

int64_t csv_table_skipped(const struct csv_table *t)
{
    const struct csv_counts *c = &t->counts;

    return c->above + c->header + c->blank + c->repeated + c->below + c->comments + c->rules;
}

void csv_table_finish(struct csv_table *t)
{
    for (size_t i = 0; i < t->n_columns; i++)
        column_finish(&t->columns[i]);
    free(t->columns);
    arena_finish(&t->arena);
    *t = (struct csv_table){ 0 };
}
