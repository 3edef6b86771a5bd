#ifndef RIDDLE_KERNEL_SQL_SQL_H
#define RIDDLE_KERNEL_SQL_SQL_H

/*
 * DuckDB inside a kernel: one in-memory instance and one connection, made in the zygote (one
 * thread, nothing opened) and inherited by every kernel. After the fork the kernel attaches the
 * ingested tables read-only, sets its limits, and locks the engine; from then on only SELECTs that
 * pass the policy run as `sql` requests.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "kernel/result.h"

struct sql_engine;

/* In the zygote: opens DuckDB with one thread. */
int sql_engine_create(struct sql_engine **ret, struct err *err);
/*
 * In a zygote that will serve many kernels: runs parser, planner and executor once, so that none of
 * them does it first.
 */
int sql_engine_warm(struct sql_engine *e, struct err *err);
void sql_engine_destroy(struct sql_engine *e);

struct sql_table {
    const char *name;    /* the table's name for queries */
    const char *db_path; /* its file, inside the jail; tables of one file follow each other */
    size_t part;         /* which of its tables */
};

struct sql_setup {
    const char *dataset_id; /* the tables can be named by it, too; NULL: none */
    const struct sql_table *tables;
    size_t n_tables;
    int64_t memory_bytes; /* DuckDB's own limit, below the cgroup's */
    int threads;
    const char *temp_directory; /* where it may spill */
    int64_t spill_bytes;        /* how much; 0: what is free there */
    const char *written_path;   /* the one file that COPY may write (export.h); NULL: none */
    bool refused;               /* the rows that were refused, instead of the tables' rows */
    bool has_files; /* files of /workspace, /data and /tmp, for code that can read them anyway */
};

/* In the kernel, once: limits, ATTACH … (READ_ONLY), views by name, then the lock. */
int sql_engine_setup(struct sql_engine *e, const struct sql_setup *setup, struct err *err);

/*
 * Postpones the setup: `prepare` (which calls sql_engine_setup) runs before the first statement of
 * anyone. A cell that asks nothing of SQL does not wait for it.
 */
void sql_engine_defer(struct sql_engine *e, int (*prepare)(void *arg, struct err *err), void *arg);
int sql_engine_ready(struct sql_engine *e, struct err *err);
bool sql_engine_is_ready(const struct sql_engine *e);

/*
 * Before a statement of the user's: the tables can be named by dataset.name as well, if it does
 * so.
 */
int sql_engine_qualify(struct sql_engine *e, const char *sql, struct err *err);

struct sql_request {
    const char *sql;
    size_t sql_len;
    /*
     * true: SELECT-only policy on the parsed tree; false: the locked engine decides (Python's
     * sql())
     */
    bool policy;
    int64_t max_rows; /* -1: all */
    /* of the JSON rows; rows beyond are left out and `truncated` is set; -1: no limit */
    int64_t max_bytes;
};

/*
 * Runs one statement and writes its result, which the caller closes:
 *   "verdict":"ok","columns":[…],"types":[…],"rows":[[…]],"row_count":N,"truncated":false,"error":null
 * A failing query is a result too: verdict error | policy | memory | interrupted, with
 *   "error":{"type":"SQL_EXECUTION_ERROR"|"SQL_POLICY_VIOLATION","message":…}, columns and rows empty.
 * Values: integers up to 64 bits as JSON integers, larger ones and DECIMAL as strings, NaN and
 * infinities as null, dates and timestamps as Python's str() writes them,
 * BLOB as base64, LIST and STRUCT as JSON arrays/objects.
 * The return value is negative only when the engine itself cannot go on.
 */
int sql_execute(struct sql_engine *e, const struct sql_request *req, struct result *ret,
                struct err *err);

/* Async-signal-safe: asks the running query to stop. The connection survives. */
void sql_interrupt(struct sql_engine *e);

struct read_options;

struct sql_ingest {
    const char *path; /* inside the jail */
    /* the user's file name, for messages; its ending decides where the content does not */
    const char *name;
    const char *out_path; /* the file to make */
    int threads;
    int64_t memory_bytes;
    const struct read_options *options; /* NULL: everything is found out */
    /* where it may spill, and what is unpacked or converted lies meanwhile */
    const char *temp_directory;
    bool stores_frames; /* columns of small tables follow the file (stored_frame.h) */
    void (*progress)(void *arg, double fraction); /* may be NULL; at most ten times a second */
    void *progress_arg;
};

/*
 * CSV, TSV, JSON, NDJSON (each also packed), Parquet, a workbook or a database: makes a columnar
 * file with the tables `data`, `data1` … The answer, which the caller closes:
 *   "verdict":"ok","row_count":N,"columns":[],"types":[],"report":{},"error":null
 * or "verdict":"error","error":{"type":"VALIDATION_ERROR","message"}: what is wrong with the file
 * and what to do. docs/files.md has the members of the report.
 */
int sql_ingest(struct sql_engine *e, const struct sql_ingest *in, struct result *ret,
               struct err *err);

/* For Python's sql(): the raw handle (a duckdb_connection). */
void *sql_engine_connection(struct sql_engine *e);

/* Names of the temporary tables and views that users have made, cut. */
#define SQL_NAME_SIZE 64
size_t sql_temporary(struct sql_engine *engine, char (*ret)[SQL_NAME_SIZE], size_t max);

#endif
