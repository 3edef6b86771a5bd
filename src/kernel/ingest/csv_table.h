#ifndef RIDDLE_KERNEL_INGEST_CSV_TABLE_H
#define RIDDLE_KERNEL_INGEST_CSV_TABLE_H

/*
 * Turns a text with separators into lines that DuckDB can read one way only, and columns with
 * types; accounts for every record of the text: read, refused with a reason, or skipped.
 */

#include "kernel/ingest/column.h"
#include "kernel/ingest/csv_shape.h"
#include "kernel/ingest/read_options.h"

#define CSV_REFUSED_SHOWN 20
#define CSV_REFUSED_TEXT 200

struct csv_refused {
    int64_t line;
    char reason[96];
    char text[CSV_REFUSED_TEXT + 8];
};

/* A whole one, whose text is UTF-8. */
struct csv_refusal {
    int64_t line;
    const char *reason, *text;
    size_t len;
};

struct csv_counts {
    int64_t records; /* all that the text has */
    int64_t rows, refused;
    int64_t above, header, blank, repeated, below, comments, rules; /* skipped */
    int64_t above_rows;   /* of those above: they have several fields with something in them */
    int64_t blank_inside; /* of the blank ones: a row follows */
    int64_t padded;       /* of the rows: they had too few fields */
    int64_t padded_line;  /* the first of them */
    int64_t cut;          /* of the rows: they had more separators, and nothing behind them */
    int64_t irregular;    /* of the rows: quotes stood where they should not */
    int64_t irregular_line;
    int64_t subtotals; /* of the rows: they say that they are sums of others */
    int64_t subtotal_line;
    int64_t unlabelled; /* of the rows: nothing stands in the first column */
    int64_t unlabelled_line, last_line;
    /* Another table begins here, behind a blank line: names where numbers stood so far. */
    size_t another_at;
    int64_t another_line;
};

struct csv_table {
    struct arena arena;
    struct csv_shape shape;
    struct column *columns; /* n_columns */
    size_t n_columns;
    struct column_signs signs;
    int64_t first_line; /* of the text, in its file */
    struct csv_counts counts;
    struct csv_refused refused[CSV_REFUSED_SHOWN];
    size_t longest_row; /* of what was written, in bytes */
};

struct csv_hooks {
    const char *name; /* of the file, for messages */
    int out_fd;
    uint64_t max_bytes;
    bool split; /* csv_table_read() ends where another table begins */
    bool (*must_stop)(const void *arg);
    void (*progress)(void *arg, double fraction); /* may be NULL */
    /* Each record that is refused, in order; may be NULL. */
    int (*refused)(void *arg, const struct csv_refusal *refusal, struct err *err);
    void *arg;
};

/*
 * How the text is separated, what its table is: everything but the rows. Released by
 * csv_table_finish() in any case.
 */
int csv_table_find(struct csv_table *t, const char *text, size_t len,
                   const struct csv_layout *layout, const struct read_options *options,
                   struct err *err);

/*
 * The records that csv_table_find() has seen decide on the types, for csv_scan.h. 1: the sample
 * leaves no doubt how to read it.
 */
int csv_table_guess(struct csv_table *t, const char *text, size_t len,
                    const struct read_options *options, struct err *err);

/*
 * All rows, written to hooks->out_fd: fields with commas between them, \N for nothing, text in
 * quotes, no header. 1: nothing was written, because another table begins (counts.another_at).
 */
int csv_table_read(struct csv_table *t, const char *text, size_t len,
                   const struct read_options *options, const struct csv_hooks *hooks,
                   struct err *err);

int64_t csv_table_skipped(const struct csv_table *t);
void csv_table_finish(struct csv_table *t);

#endif
