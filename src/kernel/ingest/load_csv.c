/*
 * Text with separators, and sheets, which have become such text: read by DuckDB as it is if it is
 * large and plain, else by our own reader. A text may have several tables below each other.
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "base/text_name.h"
#include "kernel/ingest/csv_scan.h"
#include "kernel/ingest/ingest_impl.h"

#define PLAIN_BYTES (8 << 20) /* from here on DuckDB reads plain files itself */
#define PLAIN_COLUMNS 1000

static int hook_refused(void *arg, const struct csv_refusal *refusal, struct err *err)
{
    return ingest_refuse(arg, refusal, err);
}

static int set_dialect(struct ingest *g, struct err *err)
{
    int r = 0;

    csv_dialect_finish(&g->dialect);
    for (size_t i = 0; r == 0 && i < g->table.n_columns; i++)
        if (!g->table.columns[i].dropped)
            r = csv_dialect_add_column(&g->dialect, g->table.columns[i].name,
                                       column_type_name(&g->table.columns[i]), err);
    return r;
}

struct scanning {
    struct ingest *g;
    struct csv_scan scan;
    bool plain;
    int64_t n_rows;
};

static void *scan_beside(void *arg)
{
    struct scanning *s = arg;

    s->plain = csv_scan_is_plain(&s->scan, (const char *)s->g->text.data, s->g->text.len,
                                 &s->n_rows);
    if (!s->plain) /* the reading may stop */
        ingest_stop_reading(s->g);
    return NULL;
}

/* Do the first lines leave no doubt, and is the file worth the trouble? */
static int may_be_plain(struct ingest *g, struct err *err)
{
    const struct csv_layout *l = &g->table.shape.layout;
    const char *text = (const char *)g->text.data, *line;
    size_t typed = 0;
    int r;

    if (g->text.len < PLAIN_BYTES || g->table.n_columns < 2 || g->table.n_columns > PLAIN_COLUMNS ||
        l->n_cuts || l->delimiter[1] || l->quote != '"' || l->escape || l->spaces || l->runs ||
        l->returns_end || g->options.encoding || g->table.shape.begin != 0 ||
        g->table.shape.end != g->text.len || memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return 0;
    r = csv_table_guess(&g->table, text, g->text.len, &g->options, err);
    if (r <= 0)
        return r;
    for (size_t i = 0; i < g->table.n_columns; i++) {
        if (!csv_scan_knows(&g->table.columns[i]))
            return 0;
        typed += g->table.columns[i].type != COLUMN_TEXT;
    }
    line = memchr(text, '\n', g->text.len);
    g->dialect.returns = line && line > text && line[-1] == '\r';
    return typed > 0;
}

/* 1: the table is there. 0: the file is not plain. */
static int load_plain(struct ingest *g, struct err *err)
{
    auto_free enum column_type *types = calloc(g->table.n_columns, sizeof(*types));
    struct scanning s = { .g = g };
    bool returns = g->dialect.returns, casts = false;
    pthread_t thread;
    int r = set_dialect(g, err);

    if (!types)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    if (r < 0)
        return r;
    g->dialect.casts = calloc(g->table.n_columns, sizeof(*g->dialect.casts));
    if (!g->dialect.casts)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    for (size_t i = 0; i < g->table.n_columns; i++) {
        types[i] = g->table.columns[i].type;
        g->dialect.casts[i] = csv_scan_cast(&g->table.columns[i]);
        casts = casts || g->dialect.casts[i];
    }
    g->dialect.delimiter = g->table.shape.layout.delimiter[0];
    g->dialect.has_header = true;
    g->dialect.returns = returns;
    s.scan = (struct csv_scan){ .delimiter = g->dialect.delimiter,
                                .returns = returns,
                                .types = types,
                                .columns = casts ? g->table.columns : NULL,
                                .n_columns = g->table.n_columns,
                                .stop = &g->stop_scanning };
    if (pthread_create(&thread, NULL, scan_beside, &s) != 0)
        return 0;
    r = ingest_read_rows(g, err);
    if (r != 0)
        atomic_store(&g->stop_scanning, true);
    pthread_join(thread, NULL);
    if (r < 0 || sql_must_stop(g->e))
        return r < 0 ? r : err_set(err, ERR_CANCELLED, "interrupted");
    if (r == 0 && s.plain && s.n_rows == g->n_rows) {
        g->table.counts = (struct csv_counts){ .records = s.n_rows + 1,
                                               .rows = s.n_rows,
                                               .header = 1 };
        g->source.encoding = "utf-8";
        return 1;
    }
    return ingest_start_anew(g, err);
}

/* Lines of words in a file whose name promises no table, and nobody said that it is one. */
static bool is_prose(const struct ingest *g)
{
    const struct csv_table *t = &g->table;
    const struct read_options *said = g->in->options;

    size_t n = 0;

    if ((said && (said->header_line >= 0 || said->delimiter)) || g->source.format != DATA_CSV ||
        !is_text_name(g->source.name))
        return false;
    for (size_t i = 0; i < t->n_columns; i++) {
        if (!t->columns[i].dropped && t->columns[i].type != COLUMN_TEXT)
            return false;
        n += !t->columns[i].dropped;
    }
    /* A sentence or two have words, and the blanks between them are no separators. */
    bool blanks = str_eq(t->shape.layout.delimiter, " ");
    return n == 1 || t->counts.rows < (blanks ? 3 : 1) ||
           (t->counts.padded + t->counts.refused) * 5 > t->counts.rows;
}

static const char *text_of(const struct ingest *g)
{
    return (const char *)g->text.data + g->from;
}

/* How the rows are separated and what their columns are called, between g->from and g->to. */
static int find_columns(struct ingest *g, struct err *err)
{
    const struct csv_layout sheet = {
        .delimiter = ",", .quote = '"', .exact = true, .width = g->source.sheet.width
    };
    int r;

    csv_table_finish(&g->table);
    r = csv_table_find(&g->table, text_of(g), g->to - g->from, g->source.book ? &sheet : NULL,
                       &g->options, err);
    g->n_columns = g->table.n_columns;
    return r;
}

/* The rows as lines for DuckDB. The text is cut where another table begins. */
static int write_rows(struct ingest *g, const struct csv_hooks *hooks, struct err *err)
{
    int r = csv_table_read(&g->table, text_of(g), g->to - g->from, &g->options, hooks, err);

    if (r != 1)
        return r;
    g->next_line = g->table.counts.another_line;
    g->to = g->from + g->table.counts.another_at;
    r = find_columns(g, err);
    if (r == 0)
        r = csv_table_read(&g->table, text_of(g), g->to - g->from, &g->options, hooks, err);
    return r;
}

/* The whole text by our own reader; 0: the table is there; 1: g->failure. */
int ingest_load_exactly(struct ingest *g, struct err *err)
{
    const struct read_options *said = g->in->options;
    struct csv_hooks hooks = { .name = g->in->name,
                               .split = (!said || said->header_line < 0) &&
                                        g->n_parts + 1 < DATA_MAX_PARTS,
                               .must_stop = ingest_must_stop,
                               .progress = ingest_progress,
                               .refused = hook_refused,
                               .arg = g };
    auto_close int fd = -1;
    size_t n_scratch = g->source.n_scratch;
    const char *before = g->source.path;
    int r = data_source_add_scratch(&g->source, g->in->temp_directory, ".rows", &fd, err);

    if (r < 0)
        return r;
    hooks.out_fd = fd;
    hooks.max_bytes = data_source_room(fd, UINT64_MAX);
    g->path = g->source.path;
    r = write_rows(g, &hooks, err);
    g->progress_base = INGEST_PREPARING_SHARE;
    if (r == 0)
        r = set_dialect(g, err);
    if (r < 0)
        return r;
    if (is_prose(g))
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' has no columns: its lines have no separator in common; say "
                       "header_line (0: there is none) to read each line as a row",
                       g->in->name);
    if (g->dialect.n_columns == 0)
        return err_set(err, ERR_VALIDATION, "CSV has no columns: '%.200s' has separators only",
                       g->in->name);
    g->dialect.delimiter = ',';
    g->dialect.marked = true;
    g->dialect.longest_row = g->table.longest_row;
    r = ingest_read_rows(g, err);
    if (r == 0 && g->n_rows != g->table.counts.rows &&
        !g->one_by_one) { /* text with line breaks, cut in parallel */
        g->one_by_one = true;
        r = ingest_start_anew(g, err);
        if (r == 0)
            r = ingest_read_rows(g, err);
    }
    if (r == 0 && g->n_rows != g->table.counts.rows)
        r = err_set(err, ERR_INTERNAL, "%" PRId64 " rows were written and %" PRId64 " read",
                    g->table.counts.rows, g->n_rows);
    if (r == 0)
        r = ingest_keep_refused(g, err);
    if (r == 0) {
        data_source_drop_scratch(&g->source, n_scratch, before);
        g->path = before;
    }
    return r;
}

/* The text is mapped as UTF-8, and where its first table is, is known. */
int ingest_find_table(struct ingest *g, struct err *err)
{
    int r;

    fd_mapping_finish(&g->text);
    r = csv_file_map(g->source.path, &g->text, err);
    if (r < 0)
        return r;
    g->from = 0;
    g->to = g->text.len;
    g->next_line = g->options.first_line = 0;
    g->title[0] = '\0';
    g->options.delimiter = g->in->options ? g->in->options->delimiter : NULL;
    if (!g->source.book && !g->options.delimiter &&
        data_source_says_tabs((const char *)g->text.data, g->text.len, g->source.name))
        g->options.delimiter = "\t";
    return find_columns(g, err);
}

/* The table that begins behind the last one in the same text. */
int ingest_find_next_table(struct ingest *g, struct err *err)
{
    size_t n;
    int r;

    g->from = g->to;
    g->to = g->text.len;
    g->options.first_line = g->next_line;
    g->next_line = 0;
    r = find_columns(g, err);
    if (r < 0)
        return r;
    /* What stands alone in its line above the header is called so. */
    n = g->table.shape.begin;
    if (n > 0 && n < sizeof(g->title)) {
        memcpy(g->title, text_of(g), n);
        g->title[n] = '\0';
    } else {
        g->title[0] = '\0';
    }
    return 0;
}

static int to_utf8(struct ingest *g, struct err *err)
{
    const struct data_hooks hooks = {
        .must_stop = ingest_must_stop, .progress = ingest_progress, .arg = g, .engine = g->e
    };

    return data_source_to_utf8(&g->source, g->in, &hooks, g->options.encoding, err);
}

/* 0: the table is there; 1: g->failure. */
int ingest_load_csv(struct ingest *g, struct err *err)
{
    int r = g->from > 0 ? 0 : may_be_plain(g, err);

    if (r == 1)
        r = load_plain(g, err);
    if (r != 0)
        return r < 0 ? r : 0;
    if (!g->source.encoding) {
        r = to_utf8(g, err);
        if (r == 0)
            r = ingest_find_table(g, err);
    }
    return r < 0 ? r : ingest_load_exactly(g, err);
}

/* Large files are read as they are first: see load_plain(). */
int ingest_look_at_csv(struct ingest *g, struct err *err)
{
    int r = csv_file_inspect(g->source.path, g->source.name, &g->file, err);

    if (r == 0 && (g->file.size_bytes < PLAIN_BYTES || g->options.encoding))
        r = to_utf8(g, err);
    if (r == 0)
        r = ingest_find_table(g, err);
    if (r == 0 && !g->source.encoding &&
        encoding_wide(g->text.data, MIN_OF(g->text.len, (size_t)4096))) {
        r = to_utf8(g, err);
        if (r == 0)
            r = ingest_find_table(g, err);
    }
    return r;
}
