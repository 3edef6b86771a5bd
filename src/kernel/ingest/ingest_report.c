/*
 * What an ingest says: the report of one that went well, with lines that were left out, and why one did not.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql/sql_value.h"

#define MAX_REJECTED_LINES_SHOWN 20
#define MAX_REJECTED_TEXT_BYTES 200

int ingest_write_error(struct ingest *g, const char *message, struct err *err)
{
    return sql_append_failure(g->out, "error", "VALIDATION_ERROR", message, err);
}

/* ---- rejected lines ------------------------------------------------------------------------------------------------ */

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

/* ---- the report ---------------------------------------------------------------------------------------------------- */

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

static int write_member(struct buf *out, const char *before, const char *text, struct err *err)
{
    int r = buf_append_str(out, before, err);

    return r < 0 ? r : sql_json_text(out, text, strlen(text), err);
}

static int write_sheet_dialect(const struct xlsx_table *t, struct buf *out, struct err *err)
{
    int r = write_member(out, ",\"sheet\":", t->sheet, err);

    return r < 0 ? r :
                   buf_printf(out, err, ",\"sheets\":%zu,\"header\":%s,\"title_rows\":%" PRId64,
                              t->n_sheets, t->has_header ? "true" : "false", t->n_titles);
}

/* The members of "dialect": the format, and what else is worth knowing about how the file was read. */
static int write_dialect(struct ingest *g, struct err *err)
{
    const struct csv_dialect *d = &g->dialect;
    const struct data_source *s = &g->source;
    bool tabs = s->format == DATA_CSV && str_eq(d->delimiter, "\t");
    int r = buf_printf(g->out, err, "\"format\":\"%s\"%s",
                       tabs ? "tsv" : data_format_name(s->format),
                       s->gzip ? ",\"compression\":\"gzip\"" : "");

    if (r == 0 && s->format == DATA_XLSX)
        r = write_sheet_dialect(&s->sheet, g->out, err);
    if (r == 0 && s->records.path[0])
        r = write_member(g->out, ",\"records\":", s->records.path, err);
    if (r < 0 || s->format != DATA_CSV)
        return r;
    r = write_member(g->out, ",\"delimiter\":", d->delimiter, err);
    if (r == 0)
        r = write_member(g->out, ",\"quote\":", d->quote, err);
    return r < 0 ? r :
                   buf_printf(g->out, err, ",\"encoding\":\"%s\",\"header\":%s",
                              csv_encoding_name(g->encoding), d->has_header ? "true" : "false");
}

int ingest_write_report(struct ingest *g, struct err *err)
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
        r = buf_append_str(g->out, "]},\"dialect\":{", err);
    if (r == 0)
        r = write_dialect(g, err);
    return r < 0 ? r : buf_append_str(g->out, "},\"error\":null", err);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

/*
 * The first line of DuckDB's message, without its class; the rest of it is about options that the user does not have. Where it names
 * the file, that becomes the user's name of it.
 */
static void short_reason(const struct ingest *g, char *ret, size_t size)
{
    const char *lines = g->failure;
    size_t n = 0, path = strlen(g->path), name = strlen(g->in->name);

    if (strstr(lines, "expected records")) {
        snprintf(ret, size, "every row must be an object with names and values");
        return;
    }
    for (const char *kind = strstr(lines, "Error: "); kind && kind - lines < 40;
         kind = strstr(lines, "Error: "))
        lines = kind + strlen("Error: ");
    while (*lines && n + 1 < size) {
        if (lines[0] == '\n' &&
            (str_starts(lines + 1, "Possible") || str_starts(lines + 1, "\n") ||
             str_starts(lines + 1, "Column") || str_starts(lines + 1, "This type")))
            break;
        if (str_starts(lines, g->path) && name < size - 1 - n) {
            memcpy(ret + n, g->in->name, name);
            n += name;
            lines += path;
            continue;
        }
        ret[n++] = lines[0] == '\n' ? ' ' : lines[0];
        lines++;
    }
    while (n > 0 && strchr(" .", ret[n - 1]))
        n--;
    ret[str_utf8_cut(ret, n, MIN_OF(n, (size_t)400))] = '\0';
}

/* The file-size limit or the disk's end, in the words of strerror(). */
static bool is_full_failure(const char *message)
{
    return strstr(message, "File too large") || strstr(message, "No space left");
}

static const char *what_it_is(const struct ingest *g)
{
    static const char *const names[] = {
        [DATA_CSV] = "CSV",         [DATA_JSON] = "JSON",      [DATA_NDJSON] = "NDJSON",
        [DATA_PARQUET] = "Parquet", [DATA_XLSX] = "the sheet",
    };

    return names[g->source.format];
}

static const char *what_to_do(const struct ingest *g)
{
    static const char *const remedies[] = {
        [DATA_CSV] = "check its separators, quotes and line ends, or export it again as UTF-8 CSV",
        [DATA_JSON] = "send valid JSON: an array of objects, or one object on each line",
        [DATA_NDJSON] = "send one JSON object on each line and nothing else",
        [DATA_PARQUET] = "write the file again, or send it as CSV",
        [DATA_XLSX] = "save the sheet as CSV and send that",
    };

    return remedies[g->source.format];
}

int ingest_write_failure(struct ingest *g, struct err *err)
{
    char reason[512], message[1024];

    if (is_full_failure(g->failure)) {
        snprintf(
            message, sizeof(message),
            "'%.200s' becomes a table that is larger than the room for it (RIDDLE_INGEST_FILE_SIZE, or the disk); send it in "
            "smaller parts",
            g->in->name);
        return ingest_write_error(g, message, err);
    }
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
        short_reason(g, reason, sizeof(reason));
        snprintf(message, sizeof(message), "Could not parse %s: '%.200s': %s; %s", what_it_is(g),
                 g->in->name, reason, what_to_do(g));
        return ingest_write_error(g, message, err);
    }
}

int ingest_check_rows(struct ingest *g, struct err *err)
{
    char message[600];
    int r;

    if (g->n_rows > 0 && g->n_rows >= g->n_rejected)
        return 0;
    if (g->n_rejected == 0) {
        snprintf(message, sizeof(message), "%s has no data rows: '%.200s' %s", what_it_is(g),
                 g->in->name,
                 ingest_is_delimited(g) ? "has a header line only; add rows below it" :
                                          "is an empty list; send a file with rows in it");
    } else {
        snprintf(message, sizeof(message),
                 "Could not parse CSV: %" PRId64 " of %" PRId64
                 " lines of '%.200s' do not fit its %zu columns; check that every "
                 "line has the same number of fields and one separator",
                 g->n_rejected, g->n_rejected + g->n_rows, g->in->name, g->dialect.n_columns);
    }
    r = ingest_write_error(g, message, err);
    return r < 0 ? r : 1;
}
