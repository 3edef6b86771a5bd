#ifndef RIDDLE_KERNEL_INGEST_FORMATS_H
#define RIDDLE_KERNEL_INGEST_FORMATS_H

/*
 * The kinds of files that can be ingested, told by their content first and their name second, and
 * made ready for DuckDB: what is packed is unpacked, a workbook becomes CSV, and of a JSON file
 * only the records are left.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/fdio.h"
#include "kernel/ingest/archive.h"
#include "kernel/ingest/database.h"
#include "kernel/ingest/encoding.h"
#include "kernel/ingest/json_file.h"
#include "kernel/ingest/unpack.h"
#include "kernel/sql/sql.h"
#include "kernel/ingest/xlsx/xlsx.h"

#define DATA_MAX_PARTS 100 /* tables of one file */

enum data_format {
    DATA_CSV,
    DATA_JSON,
    DATA_NDJSON,
    DATA_PARQUET,
    DATA_XLSX,
    DATA_SQLITE,
    DATA_DUCKDB,
    _DATA_FORMAT_MAX
};

const char *data_format_name(enum data_format format);

#define JSON_COLUMNS_MAX (8u << 20)

struct data_source {
    enum data_format format;
    enum packed compression;
    const char *written_as; /* what a scratch database was made from; NULL: it is none */
    const char *name;       /* of the file, or of the one inside the archive */
    const char *encoding;   /* of a text; NULL: nobody has looked */
    struct encoding_result converted;
    const char *path; /* what DuckDB is to read: the file itself or the last of the scratch files */
    struct json_records records;
    struct buf json_columns; /* ",columns={…}" where DuckDB's own choice fails; empty for none */
    const char *whole;       /* RECORDS_INSIDE: the file that they are in */
    size_t at_list;          /* which of its lists is being read */
    struct archive *archive; /* NULL: it is none */
    struct fd_mapping book_file;
    struct xlsx_book *book;
    struct sheet_writer sheet;             /* what came of the sheet that is being read */
    size_t at_sheet, next_sheet, n_passed; /* n_passed: sheets without rows */
    struct database *database;             /* NULL: it is none */
    size_t at_table;
    char passed_why[200]; /* of the first that was passed over; "" for none */
    size_t put_off[DATA_MAX_PARTS], n_put_off, at_put_off; /* sheets that are read last */
    bool only_one, has_part;                               /* only_one: what was asked for */
    char *scratch[6];                                      /* files made on the way */
    size_t n_own_scratch;                                  /* those that are not of one table */
    size_t n_scratch;
};

/*
 * Finds out what in->path is and prepares it. VALIDATION with what is wrong and what to do;
 * CANCELLED. A file that nothing is known of is CSV. *s must be released in any case.
 */
int data_source_prepare(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err);
void data_source_finish(struct data_source *s); /* removes the scratch files */

/*
 * The next table of a file that has several, as s->path. 1: it is there; 0: that was the last one.
 * Errors as above.
 */
int data_source_next_part(struct data_source *s, const struct sql_ingest *in,
                          const struct data_hooks *hooks, struct err *err);
/* The name of its sheet or table, or the path of its list; NULL: it is all of its file. */
const char *data_source_part_name(const struct data_source *s);

/* Removes scratch files but the first `keep`; s->path is `path` then. */
void data_source_drop_scratch(struct data_source *s, size_t keep, const char *path);

/*
 * Makes a new scratch file, of which the source is the owner, and opens it for writing; s->path is
 * that then.
 */
int data_source_add_scratch(struct data_source *s, const char *directory, const char *suffix,
                            int *ret_fd, struct err *err);

bool data_source_says_tabs(const char *text, size_t len, const char *name);

/* How large a scratch file may get, `most` at most. */
uint64_t data_source_room(int fd, uint64_t most);

/* s->path becomes UTF-8 without NULs, if it is not. `encoding` NULL: it is found out. */
int data_source_to_utf8(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, const char *encoding, struct err *err);

/*
 * What to select from, as "read_json('…',…)", for all but CSV and sheets. `sample_rows` of JSON
 * decide on names and types (-1: all). `sparse`: keys are columns even if most
 * records lack most of them.
 */
int data_source_write_sql(const struct data_source *s, int64_t sample_rows, bool sparse,
                          struct buf *sql, struct err *err);

#endif
