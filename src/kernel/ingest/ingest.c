/*
 * A data file → columnar file, once.
 *
 * Theory of operation. What kind of file it is and what must be done before DuckDB can read it is
 * formats.c's part; JSON and Parquet are read by DuckDB as they are then. How a CSV is separated
 * and where its table is, is decided here (csv_shape.c), not by DuckDB's sniffer. A large file
 * whose first lines leave no doubt is read by DuckDB as it is, while another thread looks whether
 * all of it is as plain (csv_scan.c); if it is not, what was read is thrown away. All other files
 * are gone through twice by our own reader (csv_table.c), which decides on types by all values,
 * accounts for every record, and writes lines that DuckDB can only read one way. DuckDB's rows are
 * counted in the end: a row more or less is an error.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql/sql_value.h"

#define NAME_MAX_BYTES 8192 /* of a column */
#define PROGRESS_INTERVAL_MS 100

/*
 * Very wide files. DuckDB keeps buffers for each column, whatever is in it: blocks of 256 kB unless
 * the file is made with smaller ones, and vectors that are counted in full but hardly touched.
 * Measured for 10,000 columns: 1,450 MB with the large blocks, 330 MB with the small ones, and 800
 * MB in DuckDB's own count.
 */
#define WIDE_COLUMNS 1000
#define WIDE_BLOCK_BYTES 16384
#define WIDE_COLUMN_BYTES (36 * 1024)          /* what a column takes */
#define WIDE_COLUMN_PLAIN_BYTES (150 * 1024)   /* … with large blocks */
#define WIDE_COLUMN_COUNTED_BYTES (100 * 1024) /* what DuckDB counts for it */

/* ---- small pieces -------------------------------------------------------------------------------------------------- */

static void cleanup_ingest(struct ingest *g)
{
    ingest_drop_frames(g);
    ingest_drop_parts(g);
    ingest_drop_refused(g);
    fd_mapping_finish(&g->text);
    csv_table_finish(&g->table);
    csv_dialect_finish(&g->dialect);
    data_source_finish(&g->source);
    buf_finish(&g->source.json_columns);
    free(g->json.loosened);
    free(g->failure);
}

/* Keeps DuckDB's message; the step that failed returns 1. */
int ingest_note_failure(struct ingest *g, const char *message, struct err *err)
{
    free(g->failure);
    g->failure = strdup(message && *message ? message : "DuckDB gave no reason");
    return g->failure ? 1 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int write_csv_source(struct ingest *g, struct buf *sql, struct err *err)
{
    int r = buf_append_str(sql, "read_csv(", err);

    if (r == 0)
        r = sql_quote_path(sql, g->path, err);
    if (r == 0)
        r = csv_dialect_write_options(&g->dialect, sql, err);
    if (r == 0 && g->one_by_one)
        r = buf_append_str(sql, ",parallel=false", err);
    return r < 0 ? r : buf_append_str(sql, ")", err);
}

static int build_statement(struct ingest *g, struct buf *sql, struct err *err)
{
    char table[INGEST_TABLE_SIZE];
    int r;

    ingest_table_name(g->n_parts, table);
    r = buf_printf(sql, err, "CREATE OR REPLACE TABLE %s AS SELECT ", table);
    if (r == 0)
        r = csv_dialect_write_selection(&g->dialect, sql, err);
    if (r == 0)
        r = buf_append_str(sql, " FROM ", err);
    if (r < 0)
        return r;
    return ingest_is_delimited(g) ? write_csv_source(g, sql, err) :
                                    data_source_write_sql(&g->source, -1, g->sparse, sql, err);
}

static void tell_progress(struct ingest *g, double fraction)
{
    if (g->in->progress)
        g->in->progress(g->in->progress_arg,
                        MIN_OF(g->progress_base + fraction * (1 - g->progress_base), 1.0));
}

/* From another thread: ingest_read_rows() ends soon, and fails. */
void ingest_stop_reading(struct ingest *g)
{
    atomic_store(&g->stop_reading, true);
    duckdb_interrupt(g->e->con); /* alone it would be forgotten by a statement that has not begun */
}

static bool must_stop_reading(struct ingest *g)
{
    return sql_must_stop(g->e) || atomic_load(&g->stop_reading);
}

/* Drives the statement task by task, so that progress can be told. */
static void drive(struct ingest *g, duckdb_pending_result pending)
{
    int64_t next_ms = clock_now_ms() + PROGRESS_INTERVAL_MS;

    for (;;) {
        duckdb_pending_state state = duckdb_pending_execute_task(pending);

        if (duckdb_pending_execution_is_finished(state) || must_stop_reading(g))
            return;
        if (state == DUCKDB_PENDING_NO_TASKS_AVAILABLE) /* other threads have them all */
            nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
        if (g->in->progress && clock_now_ms() >= next_ms) {
            double percent = duckdb_query_progress(g->e->con).percentage;

            if (percent >= 0)
                tell_progress(g, percent / 100);
            next_ms = clock_now_ms() + PROGRESS_INTERVAL_MS;
        }
    }
}

/* The table, by g->dialect. 0 and g->n_rows; 1 and g->failure. */
int ingest_read_rows(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    duckdb_prepared_statement statement = NULL;
    duckdb_pending_result pending = NULL;
    duckdb_result result = { 0 };
    duckdb_data_chunk chunk;
    int r = build_statement(g, &sql, err);

    if (r < 0)
        return r;
    if (duckdb_prepare(g->e->con, buf_cstr(&sql), &statement) != DuckDBSuccess)
        r = ingest_note_failure(g, duckdb_prepare_error(statement), err);
    else if (duckdb_pending_prepared(statement, &pending) != DuckDBSuccess)
        r = ingest_note_failure(g, duckdb_pending_error(pending), err);
    else {
        drive(g, pending);
        if (must_stop_reading(g))
            r = ingest_note_failure(g, "INTERRUPT Error: Interrupted!", err);
        else if (duckdb_execute_pending(pending, &result) != DuckDBSuccess)
            r = ingest_note_failure(g, duckdb_result_error(&result), err);
        else if ((chunk = duckdb_fetch_chunk(result))) { /* one row: how many rows the table has */
            g->n_rows = ((int64_t *)duckdb_vector_get_data(
                duckdb_data_chunk_get_vector(chunk, 0)))[0];
            duckdb_destroy_data_chunk(&chunk);
        }
    }
    duckdb_destroy_result(&result);
    duckdb_destroy_pending(&pending);
    duckdb_destroy_prepare(&statement);
    return r;
}

/* ---- the file that is made ----------------------------------------------------------------------------------------- */

static bool is_wide(const struct ingest *g)
{
    return g->n_columns >= WIDE_COLUMNS;
}

static int attach_output(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    int r = buf_append_str(&sql, "ATTACH ", err);

    if (r == 0)
        r = buf_append_quoted(&sql, "'", g->in->out_path, err);
    if (r == 0)
        r = buf_append_str(&sql, " AS " INGEST_DB, err);
    if (r == 0 && is_wide(g))
        r = buf_printf(&sql, err, " (BLOCK_SIZE %d)", WIDE_BLOCK_BYTES);
    if (r == 0)
        r = buf_append_str(&sql,
                           ";CREATE TABLE " INGEST_REFUSED_TABLE
                           "(part BIGINT, line BIGINT, reason VARCHAR, text VARCHAR)",
                           err);
    if (r == 0)
        r = sql_run(g->e, buf_cstr(&sql), err);
    /* Compressing a small table takes as long as reading it, and saves a few hundred kilobytes. */
    if (r == 0 && g->file.size_bytes < INGEST_SMALL_BYTES && !g->source.archive)
        r = sql_run(g->e, "SET force_compression='uncompressed'", err);
    return r < 0 ? err_wrap(err, "making the table's file") : 0;
}

static void remove_output(const struct ingest *g)
{
    char wal[4096];

    snprintf(wal, sizeof(wal), "%s.wal", g->in->out_path);
    unlink(g->in->out_path);
    unlink(wal);
}

/* Forgets what has been read: a new, empty file is attached, unless it has other tables by now. */
int ingest_start_anew(struct ingest *g, struct err *err)
{
    int r = g->n_parts ? 0 : sql_run(g->e, "DETACH " INGEST_DB, err);

    if (r < 0)
        return r;
    free(g->failure);
    g->failure = NULL;
    g->n_rows = 0;
    atomic_store(&g->stop_reading, false);
    if (g->n_parts)
        return 0;
    remove_output(g);
    return attach_output(g, err);
}

/* ---- the flow ------------------------------------------------------------------------------------------------------ */

bool ingest_must_stop(const void *arg)
{
    return sql_must_stop(((const struct ingest *)arg)->e);
}

void ingest_progress(void *arg, double fraction)
{
    struct ingest *g = arg;
    int64_t now = clock_now_ms();

    if (!g->in->progress || now < g->next_progress_ms)
        return;
    g->next_progress_ms = now + PROGRESS_INTERVAL_MS;
    g->in->progress(g->in->progress_arg, MIN_OF(fraction, 1.0) * INGEST_PREPARING_SHARE);
}

int ingest_describe(struct ingest *g, const char *query, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    auto_result duckdb_result result = { 0 };
    struct csv_dialect *d = &g->dialect;
    char table[INGEST_TABLE_SIZE];
    int r;

    ingest_table_name(g->n_parts, table);
    r = buf_printf(&sql, err, "SELECT column_name, column_type FROM (DESCRIBE %s)",
                   query ? query : table);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "describing the table: %s", duckdb_result_error(&result));
    csv_dialect_finish(d);
    d->names = calloc(duckdb_row_count(&result) + 1, sizeof(char *));
    d->types = calloc(duckdb_row_count(&result) + 1, sizeof(char *));
    if (!d->names || !d->types)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the columns");
    while (r == 0) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(result);

        if (!chunk)
            break;
        for (idx_t i = 0; r == 0 && i < duckdb_data_chunk_get_size(chunk); i++) {
            d->names[d->n_columns] = sql_copy_text(chunk, 0, i);
            d->types[d->n_columns] = sql_copy_text(chunk, 1, i);
            d->n_columns++;
            if (!d->names[d->n_columns - 1] || !d->types[d->n_columns - 1])
                r = err_set(err, ERR_NO_MEMORY, "out of memory for a column");
        }
        duckdb_destroy_data_chunk(&chunk);
    }
    return r;
}

/* A name that fills a page is data where the header should be. */
static int check_names(const struct ingest *g, struct err *err)
{
    for (size_t i = 0; i < g->dialect.n_columns; i++) {
        size_t n = strlen(g->dialect.names[i]);

        if (n > NAME_MAX_BYTES)
            return err_set(err, ERR_VALIDATION,
                           "the name of column %zu has %zu bytes, and at most %d can be read: is "
                           "the first line the names of the columns?",
                           i + 1, n, NAME_MAX_BYTES);
    }
    return 0;
}

static int load(struct ingest *g, struct err *err)
{
    int r = g->source.format == DATA_CSV  ? ingest_load_csv(g, err) :
            g->source.format == DATA_XLSX ? ingest_load_exactly(g, err) :
                                            ingest_read_rows(g, err);

    if (r == 1 && !ingest_is_delimited(g) && (r = ingest_loosen_records(g, err)) == 1) {
        r = ingest_start_anew(g, err);
        if (r == 0)
            r = ingest_read_rows(g, err);
    }
    if (r == 0 && !ingest_is_delimited(g))
        r = ingest_describe(g, NULL, err);
    if (r == 0)
        r = ingest_tidy_records(g, err);
    return r != 0 ? r : check_names(g, err);
}

/* What cannot be read does not keep the others from being read. */
static bool has_others(const struct ingest *g)
{
    return g->source.archive || (g->source.database && !g->source.only_one);
}

/* Keeps why the first part was passed over. */
static void note_passed(struct ingest *g, const struct err *err)
{
    char *why = g->source.passed_why;
    size_t size = sizeof(g->source.passed_why);

    if (*why)
        return;
    if (err->message[0])
        str_show(err->message, strlen(err->message), why, size);
    else if (g->failure)
        ingest_short_reason(g, why, size);
}

/* What was read last is no table of the file; `err` may say why. */
static int pass_part(struct ingest *g, struct err *err)
{
    char table[INGEST_TABLE_SIZE], sql[INGEST_TABLE_SIZE + 128];

    ingest_table_name(g->n_parts, table);
    snprintf(sql, sizeof(sql),
             "DROP TABLE IF EXISTS %s;DELETE FROM " INGEST_REFUSED_TABLE " WHERE part=%zu", table,
             g->n_parts);
    ingest_drop_refused(g);
    note_passed(g, err);
    free(TAKE_PTR(g->failure));
    g->n_rows = 0;
    g->source.n_passed++;
    return sql_run(g->e, sql, err);
}

/* The file is attached already, with blocks of the usual size. */
static int check_room(const struct ingest *g, struct err *err)
{
    if (g->in->memory_bytes > 0 &&
        (int64_t)g->n_columns * WIDE_COLUMN_PLAIN_BYTES > g->in->memory_bytes)
        return err_set(err, ERR_VALIDATION, "%zu columns are too many", g->n_columns);
    return 0;
}

/* Reads the table that is prepared. One without rows is passed over, others may have some. */
static int take_part(struct ingest *g, struct err *err)
{
    int r = load(g, err);
    int64_t known = g->source.database ? database_n_rows(g->source.database) : -1;

    if (r == 0 && known >= 0 && known != g->n_rows)
        r = err_set(err, ERR_INTERNAL, "%" PRId64 " rows were seen and %" PRId64 " read", known,
                    g->n_rows);
    if (r == 0 && (g->source.book || g->source.archive) && g->n_rows == 0)
        return pass_part(g, err);
    if (r == 0)
        r = ingest_keep_part(g, err);
    return r == 0 ? ingest_keep_nested(g, err) : r;
}

/* The part that is prepared; 1: g->failure. */
static int look_at_part(struct ingest *g, struct err *err)
{
    g->path = g->source.path;
    atomic_store(&g->stop_reading, false);
    atomic_store(&g->stop_scanning, false);
    return g->source.format == DATA_CSV  ? ingest_look_at_csv(g, err) :
           g->source.format == DATA_XLSX ? ingest_find_table(g, err) :
                                           ingest_look_at_records(g, err);
}

/*
 * All tables of the file. What cannot be read is left out if another can, and noted.
 * 1: g->failure.
 */
static int load_all(struct ingest *g, struct err *err)
{
    const struct data_hooks hooks = {
        .must_stop = ingest_must_stop, .progress = ingest_progress, .arg = g, .engine = g->e
    };
    int r = take_part(g, err);

    if (has_others(g) && (r == 1 || r == -ERR_VALIDATION))
        r = pass_part(g, err);
    while (r == 0 && g->n_parts < DATA_MAX_PARTS) {
        struct err why = ERR_INIT;

        g->one_by_one = false;
        if (g->next_line > 0) {
            r = ingest_find_next_table(g, &why);
        } else {
            r = data_source_next_part(&g->source, g->in, &hooks, &why);
            if (r == 0)
                break;
            if (r == 1)
                r = look_at_part(g, &why);
        }
        if (r == 0)
            r = check_room(g, &why);
        if (r == 0)
            r = take_part(g, &why);
        if ((g->n_parts > 0 || has_others(g)) && (r == 1 || r == -ERR_VALIDATION))
            r = pass_part(g, &why);
        if (r < 0)
            return err_set(err, why.code, "%s", why.message);
    }
    if (r == 0 && g->n_parts == 0 && g->source.database)
        return err_set(err, ERR_VALIDATION, "no table of '%.200s' can be read: %s", g->in->name,
                       g->source.passed_why);
    if (r == 0 && g->n_parts == 0 && g->source.archive)
        return err_set(err, ERR_VALIDATION, "no file in '%.200s' has rows", g->in->name);
    if (r == 0 && g->n_parts == 0)
        return err_set(
            err, ERR_VALIDATION,
            "Sheet has no data rows: '%.60s' in '%.200s' has a header only; add rows below it",
            data_source_part_name(&g->source), g->in->name);
    return r;
}

/* 1 when an error was written: the memory will not do. */
static int prepare_for_width(struct ingest *g, struct err *err)
{
    int64_t n = (int64_t)g->n_columns, memory = g->in->memory_bytes;
    char message[600];

    if (!is_wide(g))
        return 0;
    if (n > CSV_MAX_COLUMNS || (memory > 0 && n * WIDE_COLUMN_BYTES > memory)) {
        int64_t most = memory > 0 ? MIN_OF(memory / WIDE_COLUMN_BYTES, (int64_t)CSV_MAX_COLUMNS) :
                                    CSV_MAX_COLUMNS;

        snprintf(message, sizeof(message),
                 "'%.200s' has about %" PRId64 " columns; at most %" PRId64
                 " can be read here: leave out columns, or turn columns into "
                 "rows (name, value), or raise the memory limit",
                 g->in->name, n, most);
        ingest_write_error(g, message);
        return 1;
    }
    return sql_set_limits(g->e, memory > 0 ? MAX_OF(memory, n * WIDE_COLUMN_COUNTED_BYTES) : memory,
                          1, g->in->temp_directory, err);
}

/* The write-ahead log must be gone: readers open the file read-only and could not replay it. */
static int check_no_wal(const struct ingest *g, struct err *err)
{
    char wal[4096];

    snprintf(wal, sizeof(wal), "%s.wal", g->in->out_path);
    return access(wal, F_OK) < 0 ?
               0 :
               err_set(err, ERR_INTERNAL, "DuckDB left a write-ahead log beside the table's file");
}

/* Everything between ATTACH and DETACH. *ret_made when the table is good. */
static int fill_output(struct ingest *g, bool *ret_made, struct err *err)
{
    struct err failed = ERR_INIT;
    int r = load_all(g, &failed);

    if (r == -ERR_CANCELLED)
        ingest_write_interrupted(g);
    if (r == -ERR_VALIDATION)
        ingest_write_error(g, failed.message);
    if (r == -ERR_CANCELLED || r == -ERR_VALIDATION)
        return 0;
    if (r < 0)
        return err_set(err, failed.code, "%s", failed.message);
    if (r == 1)
        return ingest_write_failure(g, err);
    r = sql_run(g->e, "CHECKPOINT " INGEST_DB, err);
    if (r == 0)
        r = ingest_write_report(g, err);
    if (r == 0 && g->in->stores_frames)
        ingest_make_frames(g);
    *ret_made = r == 0;
    return r;
}

/* 0: ready to be read; 1: g->failure. */
static int prepare(struct ingest *g, struct err *err)
{
    const struct data_hooks hooks = {
        .must_stop = ingest_must_stop, .progress = ingest_progress, .arg = g, .engine = g->e
    };
    int r = data_source_prepare(&g->source, g->in, &hooks, err);
    struct stat st;

    if (r < 0 && !(r == -ERR_VALIDATION && g->source.database && has_others(g)))
        return r;
    g->path = g->source.path;
    if (stat(g->path, &st) == 0)
        g->file.size_bytes = st.st_size;
    if (g->source.n_scratch > 0)
        g->progress_base = INGEST_PREPARING_SHARE;
    if (r == 0)
        r = look_at_part(g, err);
    /* Of several lists, files or tables one may be of something else than rows, or damaged. */
    while (r == 1 || (r == -ERR_VALIDATION && has_others(g))) {
        note_passed(g, err); /* while the file that it names is still there */
        int next = data_source_next_part(&g->source, g->in, &hooks, err);
        if (next == 0)
            break;
        g->source.n_passed++;
        r = next < 0 ? next : look_at_part(g, err);
    }
    return r;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

static int ingest(struct ingest *g, struct err *err)
{
    struct err refusal = ERR_INIT, ignored = ERR_INIT;
    bool made = false;
    int r = prepare(g, &refusal);

    if (r == 1)
        return ingest_write_failure(g, err);
    if (r == -ERR_VALIDATION)
        ingest_write_error(g, refusal.message);
    if (r == -ERR_CANCELLED)
        ingest_write_interrupted(g);
    if (r == -ERR_CANCELLED || r == -ERR_VALIDATION)
        return 0;
    if (r < 0)
        return err_set(err, refusal.code, "%s", refusal.message);
    r = prepare_for_width(g, err);
    if (r != 0)
        return r < 0 ? r : 0;
    remove_output(g);
    r = attach_output(g, err);
    if (r < 0)
        return r;
    r = fill_output(g, &made, err);
    if (sql_run(g->e, "DETACH " INGEST_DB, r < 0 ? &ignored : err) < 0 && r == 0)
        r = -err->code;
    if (r == 0 && made)
        r = check_no_wal(g, err);
    if (r == 0 && made)
        r = ingest_write_frames(g, err);
    if (r < 0 || !made)
        remove_output(g);
    return r;
}

int sql_ingest(struct sql_engine *e, const struct sql_ingest *in, struct result *ret,
               struct err *err)
{
    __attribute__((cleanup(cleanup_ingest))) struct ingest g = {
        .e = e, .in = in, .out = ret, .options = READ_OPTIONS_INIT
    };
    int r = sql_set_limits(e, in->memory_bytes, in->threads, in->temp_directory, err);

    /* Without this DuckDB does not count; printing would go to our standard output. */
    if (r == 0)
        r = sql_run(e,
                    "SET enable_progress_bar_print=false;SET enable_progress_bar=true;"
                    /*
             * Commit straight into the file: a table that goes through the log first is written
             * twice.
             */
                    "SET wal_autocheckpoint='1KB'",
                    err);
    if (r < 0)
        return r;
    if (in->options)
        g.options = *in->options;
    sql_begin(e);
    r = ingest(&g, err);
    sql_end(e);
    return r;
}
