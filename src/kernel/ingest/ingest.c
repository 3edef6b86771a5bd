/*
 * A data file → columnar file, once.
 *
 * Theory of operation. What kind of file it is and what must be done before DuckDB can read it is formats.c's part; JSON and
 * Parquet are read by DuckDB as they are then, a workbook has become CSV with columns that are known. The bytes of a CSV are looked
 * at first (csv_file.c): what is no text is refused by its kind, UTF-16 becomes UTF-8. Then DuckDB's sniffer finds the dialect, the
 * header and the types from a sample. Then one CREATE TABLE AS reads the whole file with exactly that, into an attached database
 * file, which is checkpointed and detached. A plain file is read at the same time, by a guess (ingest_ahead.c).
 *
 * What can go wrong with a CSV on the way, and what is done about it:
 *   bytes that are not UTF-8          read again as Latin-1, or as Windows-1252 turned into UTF-8
 *   lines that do not fit             read again with a list of rejected lines, which is reported
 *   many values that are not of the   sniffed again over the whole file, so that the column gets a type that holds them
 *   type that the sample suggested
 *   ragged files sniffed as 1 column  sniffed again, leaving out lines that do not fit
 *   decimals in a column of integers  DuckDB would round them without a word: the column becomes DOUBLE
 *   more than a date in a column of   DuckDB would drop the rest without a word: it is told the format, which makes it strict
 *   dates
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_dialect.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql/sql_value.h"

#define MAX_REJECTED_LINES_STORED 100000
#define NAME_MAX_BYTES 8192 /* of a column */
#define SNIFFED_ROWS 20480 /* DuckDB's default sample */
#define PROGRESS_INTERVAL_MS 100
#define PREPARING_SHARE 0.6      /* of the progress, for what is unpacked or converted first */
#define LINE_BYTES (2000 * 1000) /* longer lines than this DuckDB must be told of */

/*
 * Very wide files. DuckDB keeps buffers for each column, whatever is in it: blocks of 256 kB unless the file is made with
 * smaller ones, and vectors that are counted in full but hardly touched. Measured for 10,000 columns: 1,450 MB with the large
 * blocks, 330 MB with the small ones, and 800 MB in DuckDB's own count.
 */
#define WIDE_COLUMNS 1000
#define WIDE_BLOCK_BYTES 16384
#define WIDE_COLUMN_BYTES (36 * 1024)          /* what a column takes */
#define WIDE_COLUMN_COUNTED_BYTES (100 * 1024) /* what DuckDB counts for it */

/* ---- small pieces -------------------------------------------------------------------------------------------------- */

static void cleanup_ingest(struct ingest *g)
{
    csv_dialect_finish(&g->dialect);
    data_source_finish(&g->source);
    if (g->converted)
        unlink(g->converted);
    free(g->converted);
    free(g->failure);
}

/* Keeps DuckDB's message; the step that failed returns 1. */
int ingest_note_failure(struct ingest *g, const char *message, struct err *err)
{
    free(g->failure);
    g->failure = strdup(message && *message ? message : "DuckDB gave no reason");
    return g->failure ? 1 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
}

/* ---- sniffing ------------------------------------------------------------------------------------------------------ */

int ingest_sniff(struct ingest *g, const char *extra, struct err *err)
{
    auto_free char *failure = NULL;
    char options[128], separator = g->source.tabs ? '\t' : *extra ? 0 : g->file.separator;
    int r;

    if (separator)
        snprintf(options, sizeof(options), ",delim='%c'%s", separator, extra);
    else
        snprintf(options, sizeof(options), "%s", extra);
    r = csv_dialect_sniff(&g->dialect, g->e->con, g->path, g->file.double_quotes_only,
                          g->encoding == CSV_LATIN1, options, &failure, err);

    return r < 0 || !failure ? r : ingest_note_failure(g, failure, err);
}

static bool is_integer_type(const char *type)
{
    return str_eq(type, "BIGINT") || str_eq(type, "INTEGER") || str_eq(type, "HUGEINT") ||
           str_eq(type, "SMALLINT") || str_eq(type, "TINYINT");
}

/*
 * DuckDB reads 1.5 in a BIGINT column as 2. Within the sample the type fits; past it nobody has looked. And dates
 * that are all plain are read faster (csv_dialect.h). So the file is searched, which costs about a twentieth of reading it.
 */
int ingest_look_closer(const struct ingest *g, struct csv_dialect *d, struct err *err)
{
    auto_free enum csv_sought *sought = calloc(d->n_columns, sizeof(*sought));
    auto_free bool *hit = calloc(d->n_columns, sizeof(bool));
    const struct csv_layout layout = { d->delimiter[0], d->quote[0], d->has_header };
    /* A row has at least a byte and a line break for each column: below this size the sample was the whole file. */
    bool goes_on = g->file.size_bytes > (int64_t)SNIFFED_ROWS * (int64_t)(d->n_columns + 1);
    bool plain = csv_dialect_may_have_plain_dates(d), any = false;
    int r;

    d->plain_dates = false;
    if (!sought || !hit)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu columns", d->n_columns);
    for (size_t i = 0; i < d->n_columns; i++) {
        if (plain && str_eq(d->types[i], "DATE"))
            sought[i] = CSV_ODD_DATES;
        else if (goes_on && is_integer_type(d->types[i]))
            sought[i] = CSV_DECIMALS;
        any = any || sought[i] != CSV_NOTHING;
    }
    if (!any)
        return 0;
    r = csv_file_find(g->path, &layout, sought, d->n_columns, hit, err);
    for (size_t i = 0; r == 0 && i < d->n_columns; i++) {
        if (hit[i] && sought[i] == CSV_ODD_DATES) {
            plain = false;
        } else if (hit[i]) {
            free(d->types[i]);
            d->types[i] = strdup("DOUBLE");
            if (!d->types[i])
                r = err_set(err, ERR_NO_MEMORY, "out of memory for a column");
        }
    }
    d->plain_dates = r == 0 && plain;
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* A sheet's lines: short ones are padded, and one that is longer than DuckDB expects is announced. */
static int write_sheet_options(const struct xlsx_table *t, struct buf *sql, struct err *err)
{
    int r = 0;

    if (t->ragged) /* DuckDB cannot find the lines' beginnings in parallel if it has to count fields as well */
        r = buf_append_str(
            sql, t->has_line_breaks ? ",null_padding=true,parallel=false" : ",null_padding=true",
            err);
    if (r == 0 && t->longest_row > LINE_BYTES)
        r = buf_printf(sql, err, ",max_line_size=%zu,buffer_size=%zu", t->longest_row + 1024,
                       2 * t->longest_row + 4096);
    return r;
}

static int write_csv_source(struct ingest *g, bool rejects, struct buf *sql, struct err *err)
{
    int r = buf_append_str(sql, "read_csv(", err);

    if (r == 0)
        r = sql_quote_path(sql, g->path, err);
    if (r == 0)
        r = csv_dialect_write_options(&g->dialect, sql, err);
    if (r == 0 && g->encoding == CSV_LATIN1)
        r = buf_append_str(sql, ",encoding='latin-1'", err);
    if (r == 0 && g->source.format == DATA_XLSX)
        r = write_sheet_options(&g->source.sheet, sql, err);
    if (r == 0 && rejects)
        r = buf_printf(sql, err, ",store_rejects=true,rejects_limit=%d", MAX_REJECTED_LINES_STORED);
    return r < 0 ? r : buf_append_str(sql, ")", err);
}

/* Columns of a sheet with nothing in them, not even a name, are read but not kept. */
static int write_exclusions(const struct xlsx_table *t, struct buf *sql, struct err *err)
{
    const char *before = " EXCLUDE (";
    int r = 0;

    for (size_t i = 0; r == 0 && i < t->n_columns; i++) {
        if (!t->columns[i].empty)
            continue;
        r = buf_append_str(sql, before, err);
        if (r == 0)
            r = sql_quote(sql, '"', t->columns[i].name, err);
        before = ",";
    }
    return r < 0 || before[0] == ' ' ? r : buf_append_str(sql, ")", err);
}

static int build_statement(struct ingest *g, bool rejects, struct buf *sql, struct err *err)
{
    int r = buf_append_str(sql, "CREATE OR REPLACE TABLE " INGEST_DB ".main.data AS SELECT *", err);

    if (r == 0)
        r = write_exclusions(&g->source.sheet, sql, err);
    if (r == 0)
        r = buf_append_str(sql, " FROM ", err);
    if (r < 0)
        return r;
    return ingest_is_delimited(g) ? write_csv_source(g, rejects, sql, err) :
                                    data_source_write_sql(&g->source, -1, g->sparse, sql, err);
}

static void tell_progress(struct ingest *g, double fraction)
{
    if (g->in->progress)
        g->in->progress(g->in->progress_arg,
                        MIN_OF(g->progress_base + fraction * (1 - g->progress_base), 1.0));
}

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

/* 0 and g->n_rows; 1 and g->failure. */
int ingest_read_rows(struct ingest *g, bool rejects, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(INGEST_STATEMENT_MAX);
    duckdb_prepared_statement statement = NULL;
    duckdb_pending_result pending = NULL;
    duckdb_result result = { 0 };
    duckdb_data_chunk chunk;
    int r = build_statement(g, rejects, &sql, err);

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

/* ---- rejected lines ------------------------------------------------------------------------------------------------ */

static int drop_rejects(struct ingest *g, struct err *err)
{
    return sql_run(g->e,
                   "DROP TABLE IF EXISTS temp.reject_errors;DROP TABLE IF EXISTS temp.reject_scans",
                   err);
}

static int ask_number(struct ingest *g, const char *sql, int64_t *ret, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    duckdb_data_chunk chunk;

    if (duckdb_query(g->e->con, sql, &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "%s", duckdb_result_error(&result));
    chunk = duckdb_fetch_chunk(result);
    if (!chunk)
        return err_set(err, ERR_INTERNAL, "DuckDB answered nothing to %s", sql);
    *ret = ((int64_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)))[0];
    duckdb_destroy_data_chunk(&chunk);
    return 0;
}

/* Reads again and keeps a list of the lines that do not fit. 0 or 1 as ingest_read_rows(). */
static int read_with_rejects(struct ingest *g, struct err *err)
{
    int r = drop_rejects(g, err);

    g->dialect.plain_dates =
        false; /* with lines left out, the fields may be others than those that were looked at */
    if (r == 0)
        r = ingest_read_rows(g, true, err);
    if (r == 0)
        r = ask_number(g, "SELECT count(DISTINCT line)::BIGINT FROM temp.reject_errors",
                       &g->n_rejected, err);
    return r;
}

/* ---- the file that is made ----------------------------------------------------------------------------------------- */

static bool is_wide(const struct ingest *g)
{
    return g->file.n_separators >= WIDE_COLUMNS;
}

static int attach_output(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    int r = buf_append_str(&sql, "ATTACH ", err);

    if (r == 0)
        r = sql_quote(&sql, '\'', g->in->out_path, err);
    if (r == 0)
        r = buf_append_str(&sql, " AS " INGEST_DB, err);
    if (r == 0 && is_wide(g))
        r = buf_printf(&sql, err, " (BLOCK_SIZE %d)", WIDE_BLOCK_BYTES);
    if (r == 0)
        r = sql_run(g->e, buf_cstr(&sql), err);
    /* Compressing a small table takes as long as reading it, and saves a few hundred kilobytes. */
    if (r == 0 && g->file.size_bytes < INGEST_SMALL_BYTES)
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

int ingest_start_anew(struct ingest *g, struct err *err)
{
    int r = sql_run(g->e, "DETACH " INGEST_DB, err);

    if (r < 0)
        return r;
    free(g->failure);
    g->failure = NULL;
    g->n_rows = 0;
    atomic_store(&g->stop_reading, false);
    remove_output(g);
    return attach_output(g, err);
}

/* ---- the flow ------------------------------------------------------------------------------------------------------ */

static bool stop_asked(const void *arg)
{
    return sql_must_stop(arg);
}

/* A UTF-8 copy in the spill directory; g->path then is that. */
static int convert(struct ingest *g, struct err *err)
{
    const char *dir = g->in->temp_directory;

    if (!dir || !dir[0])
        return err_set(err, ERR_CONFIG, "no temporary directory to convert a %s file in",
                       csv_encoding_name(g->encoding));
    if (asprintf(&g->converted, "%s/riddle-utf8-%d.csv", dir, (int)getpid()) < 0) {
        g->converted = NULL;
        return err_set(err, ERR_NO_MEMORY, "out of memory for a path");
    }
    g->path = g->converted;
    return csv_file_to_utf8(g->source.path, g->encoding, g->converted, stop_asked, g->e, err);
}

/*
 * Was it the encoding? DuckDB says so for texts only: a Latin-1 letter in a column of numbers is a wrong number to it. So once
 * something has failed the file is looked through. 1: it is not UTF-8.
 */
static int is_encoding_failure(const struct ingest *g, struct err *err)
{
    bool utf8 = true;
    int r;

    if (g->encoding != CSV_UTF8 || sql_classify(g->e, g->failure) != SQL_FAILED)
        return 0;
    r = csv_file_is_utf8(g->path, &utf8, err);
    return r < 0 ? r : !utf8;
}

/* May the trouble be with single lines, so that leaving them out helps? */
static bool is_row_failure(const struct ingest *g)
{
    return sql_classify(g->e, g->failure) == SQL_FAILED;
}

/* Ragged files: the sniffer falls back to one column of whole lines. */
static bool looks_ragged(const struct ingest *g)
{
    return g->dialect.n_columns == 1 && g->file.n_separators > 0 && !g->file.one_line;
}

/* After a first sniff, which gave r. 0: g->dialect is right; 1: g->failure. */
static int find_dialect(struct ingest *g, int r, struct err *err)
{
    if (r == 1) {
        int wrong = is_encoding_failure(g, err);

        if (wrong != 0)
            return wrong;
    }
    if ((r == 1 && is_row_failure(g)) || (r == 0 && looks_ragged(g)))
        r = ingest_sniff(g, ",ignore_errors=true", err);
    return r;
}

/* Past this many values of a wrong type it is the type that is wrong. */
static bool types_are_wrong(struct ingest *g, struct err *err)
{
    int64_t n = 0;

    if (g->n_rejected == 0 ||
        ask_number(
            g,
            "SELECT count(DISTINCT line)::BIGINT FROM temp.reject_errors WHERE error_type = 'CAST'",
            &n, err) < 0)
        return false;
    return n > 1000 || n * 100 > g->n_rows + g->n_rejected;
}

/* 0: the table is there; 1: g->failure. */
static int load_csv(struct ingest *g, struct err *err)
{
    enum ingest_ahead ahead;
    int r = ingest_sniff_beside_reading(g, &ahead, err);

    r = find_dialect(g, r, err);
    if (r == 0 && ahead == INGEST_NOT_READ) {
        r = ingest_look_closer(g, &g->dialect, err);
        if (r == 0)
            r = ingest_read_rows(g, false, err);
    } else if (r == 0) {
        r = ahead == INGEST_FAILED;
    }
    if (r == 1) {
        r = is_encoding_failure(g, err);
        if (r == 1) {
            r = csv_file_one_byte_encoding(g->source.path, &g->encoding, err);
            if (r == 0 && g->encoding == CSV_WINDOWS_1252)
                r = convert(g, err);
            return r < 0 ? r : load_csv(g, err); /* once: the encoding is no longer UTF-8 */
        }
        if (r == 0)
            r = 1;
    }
    if (r == 1 && g->dialect.n_columns > 0 && is_row_failure(g)) {
        r = read_with_rejects(g, err);
        if (r == 0 && types_are_wrong(g, err)) {
            r = ingest_sniff(g, ",ignore_errors=true,sample_size=-1", err);
            if (r == 0)
                r = read_with_rejects(g, err);
        }
    }
    return r;
}

/* Names and types of what was made. */
static int describe_table(struct ingest *g, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    struct csv_dialect *d = &g->dialect;
    int r = 0;

    if (duckdb_query(g->e->con,
                     "SELECT column_name, column_type FROM (DESCRIBE " INGEST_DB ".main.data)",
                     &result) != DuckDBSuccess)
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
    int r = g->source.format == DATA_CSV ? load_csv(g, err) : ingest_read_rows(g, false, err);

    if (r == 0 && g->source.format != DATA_CSV)
        r = describe_table(g, err);
    return r != 0 ? r : check_names(g, err);
}

/* 1 when an error was written: the memory will not do. */
static int prepare_for_width(struct ingest *g, struct err *err)
{
    int64_t n = (int64_t)g->file.n_separators + 1, memory = g->in->memory_bytes;
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
    int r = load(g, &failed);

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
    if (ingest_check_rows(g) != 0)
        return 0;
    r = sql_run(g->e, "CHECKPOINT " INGEST_DB, err);
    if (r == 0)
        r = ingest_write_report(g, err);
    *ret_made = r == 0;
    return r;
}

/* ---- what comes first ---------------------------------------------------------------------------------------------- */

static bool hook_must_stop(const void *arg)
{
    return sql_must_stop(((const struct ingest *)arg)->e);
}

static void hook_progress(void *arg, double fraction)
{
    struct ingest *g = arg;
    int64_t now = clock_now_ms();

    if (!g->in->progress || now < g->next_progress_ms)
        return;
    g->next_progress_ms = now + PROGRESS_INTERVAL_MS;
    g->in->progress(g->in->progress_arg, MIN_OF(fraction, 1.0) * PREPARING_SHARE);
}

static int look_at_csv(struct ingest *g, struct err *err)
{
    int r = csv_file_inspect(g->source.path, g->in->name, &g->file, err);

    if (r < 0)
        return r;
    g->encoding = g->file.encoding;
    if (g->encoding != CSV_UTF8)
        r = convert(g, err);
    if (r == 0 && g->converted) /* look at the text now that it can be read */
        r = csv_file_inspect(g->converted, g->in->name, &g->file, err);
    return r;
}

/* The lines that were written of a sheet need no sniffer: everything about them is known. */
static int take_sheet(struct ingest *g, struct err *err)
{
    const struct xlsx_table *t = &g->source.sheet;
    struct csv_dialect *d = &g->dialect;
    int r = csv_dialect_init(d, ",", "\"", t->n_columns, err);

    for (size_t i = 0; r == 0 && i < t->n_columns; i++)
        r = csv_dialect_add_column(d, t->columns[i].name, t->columns[i].type, err);
    if (r < 0)
        return r;
    g->file.n_separators = t->n_columns ? (int)t->n_columns - 1 : 0;
    if (t->n_rows > 0)
        return 0;
    if (t->has_header)
        return err_set(
            err, ERR_VALIDATION,
            "Sheet has no data rows: '%.60s' in '%.200s' has a header only; add rows below it",
            t->sheet, g->in->name);
    return err_set(
        err, ERR_VALIDATION,
        "File is empty: the sheet '%.60s' in '%.200s' has no cells; the first visible sheet is the one that is read",
        t->sheet, g->in->name);
}

/* How many columns DuckDB sees in JSON or Parquet. 1: g->failure. */
static int count_columns(struct ingest *g, int64_t *ret, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    auto_result duckdb_result result = { 0 };
    int r = buf_append_str(&sql, "SELECT count(*)::BIGINT FROM (DESCRIBE SELECT * FROM ", err);

    if (r == 0)
        r = data_source_write_sql(&g->source, SNIFFED_ROWS, g->sparse, &sql, err);
    if (r == 0)
        r = buf_append_str(&sql, ")", err);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return ingest_note_failure(g, duckdb_result_error(&result), err);
    *ret = duckdb_value_int64(&result, 0, 0);
    return 0;
}

/* Records with more keys than most of them use look like maps to DuckDB: then it is told that they are not. */
static int look_at_records(struct ingest *g, struct err *err)
{
    int64_t n = 1;
    int r = count_columns(g, &n, err);

    if (r == 1 && strstr(g->failure, "expected records")) {
        g->sparse = true;
        r = count_columns(g, &n, err);
    }
    g->file.n_separators = (int)MIN_OF(n, (int64_t)CSV_MAX_COLUMNS + 1) - 1;
    return r;
}

/* 0: ready to be read; 1: g->failure. */
static int prepare(struct ingest *g, struct err *err)
{
    const struct data_hooks hooks = { .must_stop = hook_must_stop,
                                      .progress = hook_progress,
                                      .arg = g };
    int r = data_source_prepare(&g->source, g->in, &hooks, err);

    if (r < 0)
        return r;
    g->path = g->source.path;
    if (g->source.n_scratch > 0)
        g->progress_base = PREPARING_SHARE;
    switch (g->source.format) {
    case DATA_CSV:
        return look_at_csv(g, err);
    case DATA_XLSX:
        return take_sheet(g, err);
    default:
        return look_at_records(g, err);
    }
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
    if (drop_rejects(g, r < 0 ? &ignored : err) < 0 && r == 0)
        r = -err->code;
    if (sql_run(g->e, "DETACH " INGEST_DB, r < 0 ? &ignored : err) < 0 && r == 0)
        r = -err->code;
    if (r == 0 && made)
        r = check_no_wal(g, err);
    if (r < 0 || !made)
        remove_output(g);
    return r;
}

int sql_ingest(struct sql_engine *e, const struct sql_ingest *in, struct result *ret,
               struct err *err)
{
    __attribute__((cleanup(cleanup_ingest))) struct ingest g = { .e = e, .in = in, .out = ret };
    int r = sql_set_limits(e, in->memory_bytes, in->threads, in->temp_directory, err);

    /* Without this DuckDB does not count; printing would go to our standard output. */
    if (r == 0)
        r = sql_run(
            e,
            "SET enable_progress_bar_print=false;SET enable_progress_bar=true;"
            /* Commit straight into the file: a table that goes through the log first is written twice. */
            "SET wal_autocheckpoint='1KB'",
            err);
    if (r < 0)
        return r;
    sql_begin(e);
    r = ingest(&g, err);
    sql_end(e);
    return r;
}
