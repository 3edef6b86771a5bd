/*
 * CSV → columnar file, once.
 *
 * Theory of operation. The bytes are looked at first (csv_file.c): what is no text is refused by its kind, UTF-16 becomes UTF-8.
 * Then DuckDB's sniffer finds the dialect, the header and the types from a sample. Then one CREATE TABLE AS reads the whole
 * file with exactly that, into an attached database file, which is checkpointed and detached.
 *
 * What can go wrong on the way, and what is done about it:
 *   bytes that are not UTF-8          read again as Latin-1, or as Windows-1252 turned into UTF-8
 *   lines that do not fit             read again with a list of rejected lines, which is reported
 *   many values that are not of the   sniffed again over the whole file, so that the column gets a type that holds them
 *   type that the sample suggested
 *   ragged files sniffed as 1 column  sniffed again, leaving out lines that do not fit
 *   decimals in a column of integers  DuckDB would round them without a word: the column becomes DOUBLE
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
#include "kernel/csv_dialect.h"
#include "kernel/csv_file.h"
#include "kernel/sql_impl.h"
#include "kernel/sql_value.h"

#define DB "__ingest"                          /* the attached output file */
#define MAX_STATEMENT_BYTES (16 * 1024 * 1024) /* names and types of all columns are in it */
#define MAX_REJECTED_LINES_STORED 100000
#define MAX_REJECTED_LINES_SHOWN 20
#define MAX_REJECTED_TEXT_BYTES 200
#define SNIFFED_ROWS 20480 /* DuckDB's default sample */
#define PROGRESS_INTERVAL_MS 100

/*
 * Very wide files. DuckDB keeps buffers for each column, whatever is in it: blocks of 256 kB unless the file is made with
 * smaller ones, and vectors that are counted in full but hardly touched. Measured for 10,000 columns: 1,450 MB with the large
 * blocks, 330 MB with the small ones, and 800 MB in DuckDB's own count.
 */
#define WIDE_COLUMNS 1000
#define SMALL_FILE_BYTES (4 << 20)
#define WIDE_BLOCK_BYTES 16384
#define WIDE_COLUMN_BYTES (36 * 1024)          /* what a column takes */
#define WIDE_COLUMN_COUNTED_BYTES (100 * 1024) /* what DuckDB counts for it */

struct ingest {
    struct sql_engine *e;
    const struct sql_ingest *in;
    struct buf *out;
    struct csv_file file;
    enum csv_encoding encoding;
    const char *path; /* the file that DuckDB reads: csv_path or converted */
    char *converted;  /* the UTF-8 copy; removed at the end */
    struct csv_dialect dialect;
    int64_t n_rows, n_rejected;
    char *failure; /* DuckDB's message of the last failed step */
};

/* ---- small pieces -------------------------------------------------------------------------------------------------- */

static void cleanup_ingest(struct ingest *g)
{
    csv_dialect_finish(&g->dialect);
    if (g->converted)
        unlink(g->converted);
    free(g->converted);
    free(g->failure);
}

/* Keeps DuckDB's message; the step that failed returns 1. */
static int note_failure(struct ingest *g, const char *message, struct err *err)
{
    free(g->failure);
    g->failure = strdup(message && *message ? message : "DuckDB gave no reason");
    return g->failure ? 1 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
}

static int write_error(struct ingest *g, const char *message, struct err *err)
{
    return sql_append_failure(g->out, "error", "VALIDATION_ERROR", message, err);
}

/* The first line of DuckDB's message, without its class; the rest of it is about options that the user does not have. */
static void short_reason(const char *message, char *ret, size_t size)
{
    const char *lines = message;
    size_t n = 0;

    for (const char *kind = strstr(lines, "Error: "); kind && kind - lines < 40;
         kind = strstr(lines, "Error: "))
        lines = kind + strlen("Error: ");
    for (; *lines && n + 1 < size; lines++) {
        if (lines[0] == '\n' &&
            (str_starts(lines + 1, "Possible") || str_starts(lines + 1, "\n") ||
             str_starts(lines + 1, "Column") || str_starts(lines + 1, "This type")))
            break;
        ret[n++] = lines[0] == '\n' ? ' ' : lines[0];
    }
    ret[str_utf8_cut(ret, n, MIN_OF(n, (size_t)400))] = '\0';
}

/* ---- sniffing ------------------------------------------------------------------------------------------------------ */

static int sniff(struct ingest *g, const char *extra, struct err *err)
{
    auto_free char *failure = NULL;
    char separator[16] = "";
    int r;

    if (g->file.separator && !*extra)
        snprintf(separator, sizeof(separator), ",delim='%c'", g->file.separator);
    r = csv_dialect_sniff(&g->dialect, g->e->con, g->path, g->file.double_quotes_only,
                          g->encoding == CSV_LATIN1, *separator ? separator : extra, &failure, err);

    return r < 0 || !failure ? r : note_failure(g, failure, err);
}

static bool is_integer_type(const char *type)
{
    return str_eq(type, "BIGINT") || str_eq(type, "INTEGER") || str_eq(type, "HUGEINT") ||
           str_eq(type, "SMALLINT") || str_eq(type, "TINYINT");
}

/*
 * DuckDB reads 1.5 in a BIGINT column as 2. Within the sample the type fits; past it nobody has looked. So files that go on
 * are searched, which costs about a twentieth of reading them.
 */
static int widen_integers(struct ingest *g, struct err *err)
{
    struct csv_dialect *d = &g->dialect;
    auto_free bool *check = calloc(d->n_columns, sizeof(bool));
    auto_free bool *hit = calloc(d->n_columns, sizeof(bool));
    bool any = false;
    int r;

    if (!check || !hit)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu columns", d->n_columns);
    for (size_t i = 0; i < d->n_columns; i++) {
        check[i] = is_integer_type(d->types[i]);
        any = any || check[i];
    }
    /* A row has at least a byte and a line break for each column: below this size the sample was the whole file. */
    if (!any || g->file.size_bytes <= (int64_t)SNIFFED_ROWS * (int64_t)(d->n_columns + 1))
        return 0;
    r = csv_file_find_decimals(g->path, d->delimiter[0], d->quote[0], check, d->n_columns, hit,
                               err);
    for (size_t i = 0; r == 0 && i < d->n_columns; i++) {
        if (hit[i]) {
            free(d->types[i]);
            d->types[i] = strdup("DOUBLE");
            if (!d->types[i])
                r = err_set(err, ERR_NO_MEMORY, "out of memory for a column");
        }
    }
    return r;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int build_statement(struct ingest *g, bool rejects, struct buf *sql, struct err *err)
{
    int r = buf_append_str(
        sql, "CREATE OR REPLACE TABLE " DB ".main.data AS SELECT * FROM read_csv(", err);

    if (r == 0)
        r = sql_quote(sql, '\'', g->path, err);
    if (r == 0)
        r = csv_dialect_write_options(&g->dialect, sql, err);
    if (r == 0 && g->encoding == CSV_LATIN1)
        r = buf_append_str(sql, ",encoding='latin-1'", err);
    if (r == 0 && rejects)
        r = buf_printf(sql, err, ",store_rejects=true,rejects_limit=%d", MAX_REJECTED_LINES_STORED);
    return r < 0 ? r : buf_append_str(sql, ")", err);
}

/* Drives the statement task by task, so that progress can be told. */
static void drive(struct ingest *g, duckdb_pending_result pending)
{
    int64_t next_ms = clock_now_ms() + PROGRESS_INTERVAL_MS;

    for (;;) {
        duckdb_pending_state state = duckdb_pending_execute_task(pending);

        if (duckdb_pending_execution_is_finished(state) || sql_must_stop(g->e))
            return;
        if (state == DUCKDB_PENDING_NO_TASKS_AVAILABLE) /* other threads have them all */
            nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
        if (g->in->progress && clock_now_ms() >= next_ms) {
            double percent = duckdb_query_progress(g->e->con).percentage;

            if (percent >= 0)
                g->in->progress(g->in->progress_arg, MIN_OF(percent / 100, 1.0));
            next_ms = clock_now_ms() + PROGRESS_INTERVAL_MS;
        }
    }
}

/* 0 and g->n_rows; 1 and g->failure. */
static int read_rows(struct ingest *g, bool rejects, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(MAX_STATEMENT_BYTES);
    duckdb_prepared_statement statement = NULL;
    duckdb_pending_result pending = NULL;
    duckdb_result result = { 0 };
    duckdb_data_chunk chunk;
    int r = build_statement(g, rejects, &sql, err);

    if (r < 0)
        return r;
    if (duckdb_prepare(g->e->con, buf_cstr(&sql), &statement) != DuckDBSuccess)
        r = note_failure(g, duckdb_prepare_error(statement), err);
    else if (duckdb_pending_prepared(statement, &pending) != DuckDBSuccess)
        r = note_failure(g, duckdb_pending_error(pending), err);
    else {
        drive(g, pending);
        if (sql_must_stop(g->e))
            r = note_failure(g, "INTERRUPT Error: Interrupted!", err);
        else if (duckdb_execute_pending(pending, &result) != DuckDBSuccess)
            r = note_failure(g, duckdb_result_error(&result), err);
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

/* Lines come back as they are in the file, so their bytes may be anything. */
static int write_text(struct buf *out, const char *text, size_t max, struct err *err)
{
    size_t len = strlen(text);
    bool cut = len > max;
    auto_json json_t *safe = json_text(text, cut ? str_utf8_cut(text, len, max) : len);
    auto_buf struct buf line = BUF_INIT(4 * MAX_REJECTED_TEXT_BYTES + 4096);
    int r;

    if (!safe)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a rejected line");
    r = buf_printf(&line, err, "%s%s", json_string_value(safe), cut ? "…" : "");
    return r < 0 ? r : sql_json_text(out, buf_cstr(&line), line.len, err);
}

/* [{"line","column","error","text"}…] */
static int write_rejected_lines(struct ingest *g, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    char sql[300];
    int64_t n = 0;
    int r = 0;

    snprintf(
        sql, sizeof(sql),
        "SELECT line::BIGINT, coalesce(column_name, ''), error_message, coalesce(csv_line, '') FROM temp.reject_errors "
        "ORDER BY line, column_idx LIMIT %d",
        MAX_REJECTED_LINES_SHOWN);
    if (duckdb_query(g->e->con, sql, &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "listing rejected lines: %s",
                       duckdb_result_error(&result));
    for (;;) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(result);

        if (!chunk || r < 0) {
            if (chunk)
                duckdb_destroy_data_chunk(&chunk);
            return r;
        }
        for (idx_t i = 0; r == 0 && i < duckdb_data_chunk_get_size(chunk); i++) {
            int64_t line = ((int64_t *)duckdb_vector_get_data(
                duckdb_data_chunk_get_vector(chunk, 0)))[i];
            auto_free char *column = sql_copy_text(chunk, 1, i);
            auto_free char *reason = sql_copy_text(chunk, 2, i);
            auto_free char *text = sql_copy_text(chunk, 3, i);

            if (!column || !reason || !text) {
                r = err_set(err, ERR_NO_MEMORY, "out of memory for a rejected line");
                break;
            }
            r = buf_printf(g->out, err, "%s{\"line\":%" PRId64 ",\"column\":", n++ ? "," : "",
                           line);
            if (r == 0)
                r = column[0] ? write_text(g->out, column, MAX_REJECTED_TEXT_BYTES, err) :
                                buf_append_str(g->out, "null", err);
            if (r == 0)
                r = buf_append_str(g->out, ",\"error\":", err);
            if (r == 0)
                r = write_text(g->out, reason, MAX_REJECTED_TEXT_BYTES, err);
            if (r == 0)
                r = buf_append_str(g->out, ",\"text\":", err);
            if (r == 0)
                r = write_text(g->out, text, MAX_REJECTED_TEXT_BYTES, err);
            if (r == 0)
                r = buf_append(g->out, "}", 1, err);
        }
        duckdb_destroy_data_chunk(&chunk);
    }
}

/* Reads again and keeps a list of the lines that do not fit. 0 or 1 as read_rows(). */
static int read_with_rejects(struct ingest *g, struct err *err)
{
    int r = drop_rejects(g, err);

    if (r == 0)
        r = read_rows(g, true, err);
    if (r == 0)
        r = ask_number(g, "SELECT count(DISTINCT line)::BIGINT FROM temp.reject_errors",
                       &g->n_rejected, err);
    return r;
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
    return csv_file_to_utf8(g->in->csv_path, g->encoding, g->converted, stop_asked, g->e, err);
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

/* 0: g->dialect is right; 1: g->failure. */
static int find_dialect(struct ingest *g, struct err *err)
{
    int r = sniff(g, "", err);

    if (r == 1) {
        int wrong = is_encoding_failure(g, err);

        if (wrong != 0)
            return wrong;
    }
    if ((r == 1 && is_row_failure(g)) || (r == 0 && looks_ragged(g)))
        r = sniff(g, ",ignore_errors=true", err);
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
static int load(struct ingest *g, struct err *err)
{
    int r = find_dialect(g, err);

    if (r == 0)
        r = widen_integers(g, err);
    if (r == 0)
        r = read_rows(g, false, err);
    if (r == 1) {
        r = is_encoding_failure(g, err);
        if (r == 1) {
            r = csv_file_one_byte_encoding(g->in->csv_path, &g->encoding, err);
            if (r == 0 && g->encoding == CSV_WINDOWS_1252)
                r = convert(g, err);
            return r < 0 ? r : load(g, err); /* once: the encoding is no longer UTF-8 */
        }
        if (r == 0)
            r = 1;
    }
    if (r == 1 && g->dialect.n_columns > 0 && is_row_failure(g)) {
        r = read_with_rejects(g, err);
        if (r == 0 && types_are_wrong(g, err)) {
            r = sniff(g, ",ignore_errors=true,sample_size=-1", err);
            if (r == 0)
                r = read_with_rejects(g, err);
        }
    }
    return r;
}

static int write_texts(struct buf *out, char **texts, size_t n, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        if (i)
            r = buf_append(out, ",", 1, err);
        if (r == 0)
            r = sql_json_text(out, texts[i], strlen(texts[i]), err);
    }
    return r;
}

static int write_report(struct ingest *g, struct err *err)
{
    const struct csv_dialect *d = &g->dialect;
    int r = buf_printf(g->out, err, "\"verdict\":\"ok\",\"row_count\":%" PRId64 ",\"columns\":[",
                       g->n_rows);

    if (r == 0)
        r = write_texts(g->out, d->names, d->n_columns, err);
    if (r == 0)
        r = buf_append_str(g->out, "],\"types\":[", err);
    if (r == 0)
        r = write_texts(g->out, d->types, d->n_columns, err);
    if (r == 0)
        r = buf_printf(g->out, err, "],\"rejects\":{\"count\":%" PRId64 ",\"lines\":[",
                       g->n_rejected);
    if (r == 0 && g->n_rejected > 0)
        r = write_rejected_lines(g, err);
    if (r == 0)
        r = buf_append_str(g->out, "]},\"dialect\":{\"delimiter\":", err);
    if (r == 0)
        r = sql_json_text(g->out, d->delimiter, strlen(d->delimiter), err);
    if (r == 0)
        r = buf_append_str(g->out, ",\"quote\":", err);
    if (r == 0)
        r = sql_json_text(g->out, d->quote, strlen(d->quote), err);
    return r < 0 ? r :
                   buf_printf(g->out, err, ",\"encoding\":\"%s\",\"header\":%s},\"error\":null",
                              csv_encoding_name(g->encoding), d->has_header ? "true" : "false");
}

/* What the user is told when DuckDB could not read the file. */
static int write_load_failure(struct ingest *g, struct err *err)
{
    char reason[512], message[1024];

    switch (sql_classify(g->e, g->failure)) {
    case SQL_FATAL:
        return err_set(err, ERR_INTERNAL, "DuckDB: %s", g->failure);
    case SQL_INTERRUPTED:
        return sql_append_failure(g->out, "interrupted", "VALIDATION_ERROR",
                                  "reading the file was interrupted", err);
    case SQL_NO_MEMORY:
        snprintf(
            message, sizeof(message),
            "'%.200s' needs more memory than there is; send it in parts or raise the memory limit",
            g->in->name);
        return sql_append_failure(g->out, "memory", "VALIDATION_ERROR", message, err);
    default:
        short_reason(g->failure, reason, sizeof(reason));
        snprintf(
            message, sizeof(message),
            "Could not parse CSV: '%.200s': %s; check its separators, quotes and line ends, or export it again as "
            "UTF-8 CSV",
            g->in->name, reason);
        return write_error(g, message, err);
    }
}

/* Is what was read a table? 1 when an error was written instead. */
static int check_rows(struct ingest *g, struct err *err)
{
    char message[600];
    int r;

    if (g->n_rows > 0 && g->n_rows >= g->n_rejected)
        return 0;
    if (g->n_rejected == 0) {
        snprintf(message, sizeof(message),
                 "CSV has no data rows: '%.200s' has a header line only; add rows below it",
                 g->in->name);
    } else {
        snprintf(message, sizeof(message),
                 "Could not parse CSV: %" PRId64 " of %" PRId64
                 " lines of '%.200s' do not fit its %zu columns; check that every "
                 "line has the same number of fields and one separator",
                 g->n_rejected, g->n_rejected + g->n_rows, g->in->name, g->dialect.n_columns);
    }
    r = write_error(g, message, err);
    return r < 0 ? r : 1;
}

static bool is_wide(const struct ingest *g)
{
    return g->file.n_separators >= WIDE_COLUMNS;
}

/* 1 when an error was written: the memory will not do. */
static int prepare_for_width(struct ingest *g, struct err *err)
{
    int64_t n = (int64_t)g->file.n_separators + 1, memory = g->in->memory_bytes;
    char message[600];
    int r;

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
        r = write_error(g, message, err);
        return r < 0 ? r : 1;
    }
    return sql_set_limits(g->e, memory > 0 ? MAX_OF(memory, n * WIDE_COLUMN_COUNTED_BYTES) : memory,
                          1, g->in->temp_directory, err);
}

static int attach_output(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    int r = buf_append_str(&sql, "ATTACH ", err);

    if (r == 0)
        r = sql_quote(&sql, '\'', g->in->out_path, err);
    if (r == 0)
        r = buf_append_str(&sql, " AS " DB, err);
    if (r == 0 && is_wide(g))
        r = buf_printf(&sql, err, " (BLOCK_SIZE %d)", WIDE_BLOCK_BYTES);
    if (r == 0)
        r = sql_run(g->e, buf_cstr(&sql), err);
    /* Compressing a small table takes as long as reading it, and saves a few hundred kilobytes. */
    if (r == 0 && g->file.size_bytes < SMALL_FILE_BYTES)
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
        return sql_append_failure(g->out, "interrupted", "VALIDATION_ERROR",
                                  "reading the file was interrupted", err);
    if (r == -ERR_VALIDATION)
        return write_error(g, failed.message, err);
    if (r < 0)
        return err_set(err, failed.code, "%s", failed.message);
    if (r == 1)
        return write_load_failure(g, err);
    r = check_rows(g, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = sql_run(g->e, "CHECKPOINT " DB, err);
    if (r == 0)
        r = write_report(g, err);
    *ret_made = r == 0;
    return r;
}

static int ingest(struct ingest *g, struct err *err)
{
    struct err refusal = ERR_INIT, ignored = ERR_INIT;
    size_t begin = g->out->len;
    bool made = false;
    int r = csv_file_inspect(g->in->csv_path, g->in->name, &g->file, &refusal);

    if (r == 0) {
        g->encoding = g->file.encoding;
        g->path = g->in->csv_path;
        if (g->encoding != CSV_UTF8)
            r = convert(g, &refusal);
        if (r == 0 && g->converted) /* look at the text now that it can be read */
            r = csv_file_inspect(g->converted, g->in->name, &g->file, &refusal);
    }
    if (r == -ERR_VALIDATION)
        return write_error(g, refusal.message, err);
    if (r == -ERR_CANCELLED)
        return sql_append_failure(g->out, "interrupted", "VALIDATION_ERROR",
                                  "reading the file was interrupted", err);
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
    if (sql_run(g->e, "DETACH " DB, r < 0 ? &ignored : err) < 0 && r == 0)
        r = -err->code;
    if (r == 0 && made)
        r = check_no_wal(g, err);
    if (r < 0 || !made)
        remove_output(g);
    if (r < 0)
        sql_rewind(g->out, begin);
    return r;
}

int sql_ingest_csv(struct sql_engine *e, const struct sql_ingest *in, struct buf *ret_json,
                   struct err *err)
{
    __attribute__((
        cleanup(cleanup_ingest))) struct ingest g = { .e = e, .in = in, .out = ret_json };
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
