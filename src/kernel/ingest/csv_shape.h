#ifndef RIDDLE_KERNEL_INGEST_CSV_SHAPE_H
#define RIDDLE_KERNEL_INGEST_CSV_SHAPE_H

/*
 * Where in a text with separators the table is: its separator and quotes, its header, its width,
 * what stands above and below.
 */

#include "base/arena.h"
#include "kernel/ingest/csv_records.h"
#include "kernel/ingest/read_options.h"

#define CSV_HEADER_ROWS 3

struct csv_shape {
    struct csv_layout layout;
    size_t width;              /* fields of a usual record */
    int64_t header_line;       /* of its first record; 0: there is none */
    size_t header_rows;        /* records that it is made of */
    size_t begin;              /* where header or data begin: all above is skipped */
    size_t end;                /* totals and notes below begin here */
    int64_t n_totals, n_notes; /* lines behind end */
    bool unnamed_first;        /* the header has no name for the first column */
    char **names;              /* `width` of them; NULL for an empty one. In the arena */
};

/* `text` is UTF-8. `layout` NULL: it is found out. */
int csv_shape_find(const char *text, size_t len, const struct csv_layout *layout,
                   const struct read_options *options, struct arena *arena, struct csv_shape *ret,
                   struct err *err);

#endif
