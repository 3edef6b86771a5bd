#ifndef RIDDLE_KERNEL_SQL_STORED_FRAME_H
#define RIDDLE_KERNEL_SQL_STORED_FRAME_H

/*
 * The columns of a small table once more, behind the end of its DuckDB file: a Python kernel makes
 * a DataFrame of them without attaching the file. DuckDB reads blocks by their numbers and never
 * looks at what follows the last one, so table and columns are one file: mounted, copied, counted
 * and removed together.
 *
 * Layout: struct stored_part for each table of the file; the tables' columns; struct
 * stored_trailer, at the very end. The columns of a table begin with struct stored_head and struct
 * stored_column for each of them. All that is `_at` counts from that head and is a multiple of 8.
 *
 * Written by src/kernel/ingest/frames.c, read by src/kernel/python/dataframe_stored.c. Tables with
 * nested columns have none.
 */

#include <duckdb.h>
#include <stddef.h>
#include <stdint.h>

#define STORED_FRAME_MAGIC UINT64_C(0x31656d6172464452) /* "RDFrame1" */
#define STORED_FRAME_ROWS_MAX 200000 /* more are counted first: runtime/tables.py */
#define STORED_FRAME_CELLS_MAX 1000000
#define STORED_FRAME_BYTES_MAX (32u << 20) /* of a table */
#define STORED_FRAME_PARTS_MAX 256

struct stored_part {
    uint64_t at;    /* in the file; a multiple of 8 */
    uint64_t bytes; /* 0: this table's columns are not stored */
};

struct stored_head {
    uint64_t check; /* of n_rows and all struct stored_column */
    uint64_t n_rows;
    uint64_t n_columns;
};

enum stored_form {
    STORED_ARRAY, /* as numpy has it: `dtype`; kernels map it and copy nothing */
    STORED_RAW,   /* as in DuckDB's flat vectors: there is no dtype for these values */
    /*
     * Texts, and what DuckDB keeps as such: each row has the number (uint32) of its entry in a
     * dictionary, which is `n_texts` ends of entries (uint32) and their bytes.
     */
    STORED_TEXTS,
    _STORED_FORM_MAX
};

/* {name, bytes} */
#define STORED_DTYPES                                                                              \
    {                                                                                              \
        { "i1", 1 }, { "i2", 2 }, { "i4", 4 }, { "i8", 8 }, { "u1", 1 }, { "u2", 2 }, { "u4", 4 }, \
            { "u8", 8 }, { "?", 1 }, { "f4", 4 }, { "f8", 8 }, { "M8[ns]", 8 },                    \
    }
struct stored_dtype {
    const char *name;
    uint32_t width;
};

struct stored_column {
    uint32_t form;
    uint32_t type;  /* duckdb_type; an ENUM is stored as VARCHAR */
    uint32_t width; /* bytes of what a row has */
    uint32_t dtype; /* in STORED_DTYPES */
    uint32_t n_texts, reserved;
    uint64_t check; /* of all that follows, one piece after the other, without what is between */
    uint64_t name_at, name_bytes;
    uint64_t data_at;
    uint64_t validity_at; /* a bit for each row, 0: NULL; at 0: there is no NULL */
    uint64_t ends_at, texts_at, texts_bytes;
};

struct stored_trailer {
    uint64_t parts_at; /* in the file */
    uint64_t n_parts;
    uint64_t check; /* of the parts' list */
    uint64_t magic;
};

/* Bytes of a value in a vector; 0 if it is kept as a text, negative if it is not stored. */
int stored_width(duckdb_type type, duckdb_type internal);

#endif
