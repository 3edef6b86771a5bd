#ifndef RIDDLE_KERNEL_INGEST_INGEST_IMPL_H
#define RIDDLE_KERNEL_INGEST_INGEST_IMPL_H

/* What the ingest (ingest.c) and the words about it (ingest_report.c) share. */

#include <stdatomic.h>
#include "kernel/ingest/csv_dialect.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/csv_table.h"
#include "kernel/ingest/formats.h"
#include "kernel/sql/sql_impl.h"

#define INGEST_DB "__ingest"                    /* the attached output file */
#define INGEST_STATEMENT_MAX (16 * 1024 * 1024) /* names and types of all columns are in it */
#define INGEST_SMALL_BYTES (4 << 20)
#define INGEST_PART_NAME 32
#define INGEST_TITLE 64

/* Refused rows that are kept beside the table; the report says if there are more. */
#define INGEST_REFUSED_ROWS 1000000
#define INGEST_REFUSED_BYTES (256u << 20)
#define INGEST_REFUSED_TEXT (16u << 10) /* of one; the rest of its text is cut off */

/* The refused rows of the table that is being read, as CSV in a scratch file. */
struct ingest_refused {
    struct buf out;
    int fd;           /* if there are any */
    const char *path; /* NULL: there are none */
    int64_t n;
    uint64_t written, most;
};

/* What was made of JSON besides what DuckDB makes of it. */
struct json_changes {
    bool *loosened;          /* of each column; NULL: none */
    size_t n_large, n_mixed; /* columns that are text because of such values */
    enum { JSON_AS_IS, JSON_LISTS, JSON_KEYS } spread;
};

/* A table of the file that is done. */
struct ingest_part {
    struct csv_table table;
    struct csv_dialect dialect;
    int64_t n_rows, n_kept; /* n_kept: of the rows that were refused */
    enum data_format format;
    const char *encoding;
    struct encoding_result converted;
    size_t n_lists; /* of the JSON that it is from */
    char *part;     /* the name of its sheet or list; NULL: it is all of its file */
    char *member;   /* the file inside the archive; NULL: there is none */
    int64_t n_valueless, n_errors;
    struct database_changes changes;
    struct json_changes json;
    bool nested;                 /* `part` is a column of the table that it was a list in */
    int64_t next_line;           /* of its text, where the next table begins; 0: there is none */
    char name[INGEST_PART_NAME]; /* what its table's name ends in */
};

struct ingest {
    struct sql_engine *e;
    const struct sql_ingest *in;
    struct read_options options;
    struct result *out;
    struct csv_file file;
    struct data_source source;
    struct fd_mapping text; /* CSV: the file, as UTF-8 */
    /* CSV: the part of the text that has the table; another one may begin behind it. */
    size_t from, to;
    int64_t next_line;     /* where that one begins; 0: there is none */
    char title[INGEST_TITLE]; /* of a table inside a text or another table */
    struct csv_table table; /* CSV: what was found in it */
    const char *path;       /* the file that DuckDB reads */
    struct csv_dialect dialect;
    size_t n_columns; /* about */
    bool one_by_one;  /* DuckDB reads with one thread */
    bool sparse;      /* JSON: most records lack most keys */
    struct json_changes json;
    double progress_base;
    int64_t next_progress_ms;
    int64_t n_rows;
    struct ingest_refused refused;
    struct ingest_part *parts; /* room for DATA_MAX_PARTS */
    size_t n_parts;
    struct ingest_frame *frames; /* of each part; NULL: there are none */
    char *failure;                           /* DuckDB's message of the last failed step */
    atomic_bool stop_reading, stop_scanning; /* what is being read will not be kept */
};

/* CSV, or what has become CSV. */
static inline bool ingest_is_delimited(const struct ingest *g)
{
    return g->source.format == DATA_CSV || g->source.format == DATA_XLSX;
}

/* ---- ingest.c ---- */

#define INGEST_PREPARING_SHARE 0.6 /* of the progress, for what is unpacked or converted first */
/* The table, by g->dialect. 0 and g->n_rows; 1 and g->failure. */
int ingest_read_rows(struct ingest *g, struct err *err);
/* From another thread: ingest_read_rows() ends soon, and fails. */
void ingest_stop_reading(struct ingest *g);
/* Forgets what has been read: a new, empty file is attached, unless it has other tables by now. */
int ingest_start_anew(struct ingest *g, struct err *err);
bool ingest_must_stop(const void *arg);
void ingest_progress(void *arg, double fraction);

/* ---- load_csv.c ---- */

/* The encoding is known for small files, and where the first table is. */
int ingest_look_at_csv(struct ingest *g, struct err *err);
/* The text is mapped as UTF-8, and where its first table is, is known. */
int ingest_find_table(struct ingest *g, struct err *err);
/* The table that begins at g->next_line. */
int ingest_find_next_table(struct ingest *g, struct err *err);
/* 0: the table is there; 1: g->failure. The second reads all of it by our own reader. */
int ingest_load_csv(struct ingest *g, struct err *err);
int ingest_load_exactly(struct ingest *g, struct err *err);

/* ---- parts.c: files with several tables ---- */

#define INGEST_TABLE_SIZE 48
void ingest_table_name(size_t part, char ret[INGEST_TABLE_SIZE]); /* in the attached file */
/* What was read is a table of the file; the next can be read. */
int ingest_keep_part(struct ingest *g, struct err *err);
/* The part is the one that g describes; a second call puts things back. */
void ingest_swap_part(struct ingest *g, size_t i);
void ingest_drop_parts(struct ingest *g);

/* ---- json_table.c ---- */

/* How many columns JSON or Parquet has; 1: g->failure. */
int ingest_look_at_records(struct ingest *g, struct err *err);
/*
 * JSON could not be read, by g->failure. 1: it can be tried once more; 0: there is nothing to try.
 */
int ingest_loosen_records(struct ingest *g, struct err *err);
/* The table is there: types that are of JSON only become others. */
int ingest_tidy_records(struct ingest *g, struct err *err);
/* Lists of objects in columns of the table that was kept last become tables beside it. */
int ingest_keep_nested(struct ingest *g, struct err *err);
/* g->dialect has the names and types of the table, or of a query. */
int ingest_describe(struct ingest *g, const char *query, struct err *err);

/* ---- refused.c ---- */

#define INGEST_REFUSED_TABLE INGEST_DB ".main.refused" /* in every file; of all its tables */
int ingest_refuse(struct ingest *g, const struct csv_refusal *refusal, struct err *err);
/* Those of the table that was read last; 1: g->failure. */
int ingest_keep_refused(struct ingest *g, struct err *err);
void ingest_drop_refused(struct ingest *g); /* those that are not kept yet */

/* ---- frames.c ---- */

/* Reads the columns of all small tables; those that cannot be stored are left out. */
void ingest_make_frames(struct ingest *g);
/* Writes them behind the end of the file, which DuckDB has left. */
int ingest_write_frames(struct ingest *g, struct err *err);
void ingest_drop_frames(struct ingest *g);

/* Keeps DuckDB's message in g->failure and returns 1. */
int ingest_note_failure(struct ingest *g, const char *message, struct err *err);

/* A result that says what is wrong with the file, or that reading it was interrupted. */
void ingest_write_error(struct ingest *g, const char *message);
void ingest_write_interrupted(struct ingest *g);

/* What went wrong, by g->failure, without DuckDB's class of errors and our paths. */
void ingest_short_reason(const struct ingest *g, char *ret, size_t size);

/* What the user is told when DuckDB could not read the file, by g->failure. */
int ingest_write_failure(struct ingest *g, struct err *err);

/* The result of an ingest that went well. */
int ingest_write_report(struct ingest *g, struct err *err);

#endif
