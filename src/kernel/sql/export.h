#ifndef RIDDLE_KERNEL_SQL_EXPORT_H
#define RIDDLE_KERNEL_SQL_EXPORT_H

/*
 * The whole result of a SELECT as the bytes of a file, piece by piece. A thread writes the file
 * into a pipe, and each request reads some of it: whoever takes the pieces slowly slows the query
 * down, and memory does not grow with the result.
 *
 * DuckDB writes CSV, JSON and Parquet (COPY); libxlsxwriter writes XLSX, below /tmp, because a zip
 * archive has to be whole before its first byte is known.
 */

#include "kernel/sql/sql.h"

struct sql_export;

enum export_format { EXPORT_CSV, EXPORT_JSON, EXPORT_PARQUET, EXPORT_XLSX, _EXPORT_FORMAT_MAX };

/* -1: there is none of that name. */
int export_format_from_name(const char *name);

/* Makes the pipe. The path that COPY writes to is for sql_setup.written_path. One in a kernel. */
int sql_export_create(struct sql_export **ret, struct err *err);
const char *sql_export_path(const struct sql_export *x);

struct export_request {
    const char *sql; /* one SELECT; checked by the policy */
    enum export_format format;
    bool plain; /* CSV: no quote in front of text that a spreadsheet would take for a formula */
};

/*
 * Checks the statement and starts the thread. A failure is written to out; *ret_begun says which.
 */
int sql_export_begin(struct sql_export *x, struct sql_engine *e, const struct export_request *req,
                     struct result *out, bool *ret_begun, struct err *err);
/*
 * Fills buf with up to max bytes, fewer only at the end. 0 bytes: there is no more, and when the
 * query failed on its way, a failure was written to out.
 */
int sql_export_read(struct sql_export *x, char *buf, size_t max, size_t *ret_n, struct result *out,
                    struct err *err);

#endif
