#ifndef RIDDLE_KERNEL_INGEST_INGEST_IMPL_H
#define RIDDLE_KERNEL_INGEST_INGEST_IMPL_H

/* What the ingest (ingest.c), its head start (ingest_ahead.c) and the words about it (ingest_report.c) share. */

#include <stdatomic.h>
#include "kernel/ingest/csv_dialect.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/formats.h"
#include "kernel/sql/sql_impl.h"

#define INGEST_DB "__ingest" /* the attached output file */
#define INGEST_STATEMENT_MAX (16 * 1024 * 1024) /* names and types of all columns are in it */
#define INGEST_SMALL_BYTES (4 << 20)

struct ingest {
    struct sql_engine *e;
    const struct sql_ingest *in;
    struct result *out;
    struct csv_file file;
    enum csv_encoding encoding;
    struct data_source source;
    const char *path; /* the file that DuckDB reads: the source's, or converted */
    char *converted;  /* the UTF-8 copy of a CSV; removed at the end */
    struct csv_dialect dialect;
    bool sparse; /* JSON: most records lack most keys */
    double progress_base;
    int64_t next_progress_ms;
    int64_t n_rows, n_rejected;
    char *failure;            /* DuckDB's message of the last failed step */
    atomic_bool stop_reading; /* what is being read will not be kept */
};

/* CSV, or what has become CSV. */
static inline bool ingest_is_delimited(const struct ingest *g)
{
    return g->source.format == DATA_CSV || g->source.format == DATA_XLSX;
}

/* Keeps DuckDB's message in g->failure and returns 1, as does each step below that fails for it. */
int ingest_note_failure(struct ingest *g, const char *message, struct err *err);

/* g->dialect by DuckDB's sniffer; `extra` is further options. */
int ingest_sniff(struct ingest *g, const char *extra, struct err *err);

enum ingest_ahead {
    INGEST_NOT_READ, /* the table is empty */
    INGEST_READ,     /* by exactly g->dialect, after a closer look */
    INGEST_FAILED,   /* so was this, and g->failure says why it failed */
};

/* As ingest_sniff() without further options; *ret says what became of the rows meanwhile. */
int ingest_sniff_beside_reading(struct ingest *g, enum ingest_ahead *ret, struct err *err);

/* At all values: columns of integers that have decimals somewhere become DOUBLE; d->plain_dates is found out. */
int ingest_look_closer(const struct ingest *g, struct csv_dialect *d, struct err *err);

/* The table, by g->dialect; g->n_rows. */
int ingest_read_rows(struct ingest *g, bool rejects, struct err *err);

/* From another thread: ingest_read_rows() ends soon, and fails. */
void ingest_stop_reading(struct ingest *g);

/* Forgets what has been read: a new, empty file is attached. */
int ingest_start_anew(struct ingest *g, struct err *err);

/* A result that says what is wrong with the file, or that reading it was interrupted. */
void ingest_write_error(struct ingest *g, const char *message);
void ingest_write_interrupted(struct ingest *g);

/* What the user is told when DuckDB could not read the file, by g->failure. */
int ingest_write_failure(struct ingest *g, struct err *err);

/* Is what was read a table? 1 when an error was written instead. */
int ingest_check_rows(struct ingest *g);

/* The result of an ingest that went well. */
int ingest_write_report(struct ingest *g, struct err *err);

#endif
