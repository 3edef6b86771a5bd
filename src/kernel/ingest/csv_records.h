#ifndef RIDDLE_KERNEL_INGEST_CSV_RECORDS_H
#define RIDDLE_KERNEL_INGEST_CSV_RECORDS_H

/*
 * Text with separators → records and fields, whatever the text is: a stray quote never swallows
 * more than its line, and every byte
 * belongs to one record.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define CSV_MAX_COLUMNS 20000
#define CSV_MAX_CUTS 63

struct csv_layout {
    char delimiter[4]; /* one to three bytes; "" if a line is one field */
    char quote;        /* doubled inside itself; 0: none */
    char escape;       /* '\\' if a backslash stands before a quote inside quotes; otherwise 0 */
    bool spaces;       /* white space around fields is not part of them: a, b, c */
    bool runs;         /* several separators in a row are one (aligned columns) */
    bool returns_end;  /* a carriage return alone ends a line, too */
    /* Columns by their position: characters before field 1, 2 …; n_cuts 0: by separators. */
    unsigned short cuts[CSV_MAX_CUTS];
    size_t n_cuts;
    /* Of a sheet (sheet_writer.h): */
    bool exact;   /* numbers, dates, times and truth values have no quotes, and text has */
    size_t width; /* of every record: missing fields are empty; 0: each has its own */
};

struct csv_field {
    const char *text; /* without quotes; valid until the next record */
    size_t len;
    bool quoted;
};

struct csv_record {
    const struct csv_field *fields;
    size_t n;       /* may be more than `fields` has: those past CSV_MAX_COLUMNS are only counted */
    size_t begin;   /* where it stands in the text */
    size_t len;     /* without its line end */
    int64_t line;   /* 1 is the first */
    bool irregular; /* quotes stand where they should not: it was read by its line alone */
};

struct csv_records {
    const char *data;
    size_t len, at;
    const struct csv_layout *layout;
    size_t expected; /* fields of a usual record: decides how stray quotes are read; 0: not known */
    int64_t line;    /* of the next record */
    struct csv_field *fields;
    size_t n_fields; /* that there is room for */
    char *copy;      /* of fields with doubled quotes */
    size_t copy_len, copy_cap;
    size_t searched; /* bytes searched in vain for the end of a quoted field */
};

void csv_records_init(struct csv_records *r, const char *data, size_t len,
                      const struct csv_layout *layout);
void csv_records_finish(struct csv_records *r);

/* 1 and *ret, or 0 at the end. A line without a character is a record of one empty field. */
int csv_records_next(struct csv_records *r, struct csv_record *ret, struct err *err);

/* Nothing but white space in any field? */
bool csv_record_is_blank(const struct csv_record *r);
bool csv_record_is_rule(const struct csv_record *r);

#endif
