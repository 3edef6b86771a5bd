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

#define MAX_REJECTED_LINES_SHOWN 20
#define MAX_REJECTED_TEXT_BYTES 200

void ingest_write_error(struct ingest *g, const char *message)
{
    result_fail(g->out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", message);
}

void ingest_write_interrupted(struct ingest *g)
{
    result_fail(g->out, WIRE_VERDICT_INTERRUPTED, "VALIDATION_ERROR",
                "reading the file was interrupted");
}

/* ---- rejected lines ------------------------------------------------------------------------------------------------ */

/* Lines come back as they are in the file, so their bytes may be anything. */
static int write_text(struct json_out *out, const char *text, struct err *err)
{
    size_t len = strlen(text);
    bool cut = len > MAX_REJECTED_TEXT_BYTES;
    auto_json json_t *safe =
        json_text(text, cut ? str_utf8_cut(text, len, MAX_REJECTED_TEXT_BYTES) : len);
    auto_buf struct buf line = BUF_INIT(4 * MAX_REJECTED_TEXT_BYTES + 4096);
    int r;

    if (!safe)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a rejected line");
    r = buf_printf(&line, err, "%s%s", json_string_value(safe), cut ? "…" : "");
    json_out_str(out, buf_cstr(&line), line.len);
    return r;
}

static int write_rejected_line(struct json_out *out, duckdb_data_chunk chunk, idx_t i,
                               struct err *err)
{
    static const char *const keys[] = { "column", "error", "text" };
    int r = 0;

    json_out_open(out, '{');
    json_out_key(out, "line");
    json_out_int(out, ((int64_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)))[i]);
    for (idx_t k = 0; r == 0 && k < ARRAY_SIZE(keys); k++) {
        auto_free char *text = sql_copy_text(chunk, k + 1, i);

        if (!text)
            return err_set(err, ERR_NO_MEMORY, "out of memory for a rejected line");
        json_out_key(out, keys[k]);
        if (k == 0 && !text[0])
            json_out_null(out);
        else
            r = write_text(out, text, err);
    }
    json_out_close(out, '}');
    return r;
}

/* [{"line","column","error","text"}…] */
static int write_rejected_lines(struct ingest *g, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    struct json_out *out = &g->out->json;
    char sql[300];
    int r = 0;

    snprintf(
        sql, sizeof(sql),
        "SELECT line::BIGINT, coalesce(column_name, ''), error_message, coalesce(csv_line, '') FROM temp.reject_errors "
        "ORDER BY line, column_idx LIMIT %d",
        MAX_REJECTED_LINES_SHOWN);
    if (duckdb_query(g->e->con, sql, &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "listing rejected lines: %s",
                       duckdb_result_error(&result));
    for (duckdb_data_chunk chunk; r == 0 && (chunk = duckdb_fetch_chunk(result));) {
        for (idx_t i = 0; r == 0 && i < duckdb_data_chunk_get_size(chunk); i++)
            r = write_rejected_line(out, chunk, i, err);
        duckdb_destroy_data_chunk(&chunk);
    }
    return r;
}

/* ---- the report ---------------------------------------------------------------------------------------------------- */

static void write_texts(struct json_out *out, const char *key, char **texts, size_t n)
{
    json_out_key(out, key);
    json_out_open(out, '[');
    for (size_t i = 0; i < n; i++)
        json_out_text(out, texts[i]);
    json_out_close(out, ']');
}

static void write_member(struct json_out *out, const char *key, const char *text)
{
    json_out_key(out, key);
    json_out_text(out, text);
}

static void write_sheet_dialect(const struct xlsx_table *t, struct json_out *out)
{
    write_member(out, "sheet", t->sheet);
    json_out_key(out, "sheets");
    json_out_int(out, (int64_t)t->n_sheets);
    json_out_key(out, "header");
    json_out_bool(out, t->has_header);
    json_out_key(out, "title_rows");
    json_out_int(out, t->n_titles);
}

/* The format, and what else is worth knowing about how the file was read. */
static void write_dialect(const struct ingest *g, struct json_out *out)
{
    const struct csv_dialect *d = &g->dialect;
    const struct data_source *s = &g->source;
    bool tabs = s->format == DATA_CSV && str_eq(d->delimiter, "\t");

    json_out_key(out, "dialect");
    json_out_open(out, '{');
    write_member(out, "format", tabs ? "tsv" : data_format_name(s->format));
    if (s->gzip)
        write_member(out, "compression", "gzip");
    if (s->format == DATA_XLSX)
        write_sheet_dialect(&s->sheet, out);
    if (s->records.path[0])
        write_member(out, "records", s->records.path);
    if (s->format == DATA_CSV) {
        write_member(out, "delimiter", d->delimiter);
        write_member(out, "quote", d->quote);
        write_member(out, "encoding", csv_encoding_name(g->encoding));
        json_out_key(out, "header");
        json_out_bool(out, d->has_header);
    }
    json_out_close(out, '}');
}

int ingest_write_report(struct ingest *g, struct err *err)
{
    const struct csv_dialect *d = &g->dialect;
    struct json_out *out = &g->out->json;
    int r = 0;

    result_begin(g->out, WIRE_VERDICT_OK);
    json_out_key(out, "row_count");
    json_out_int(out, g->n_rows);
    write_texts(out, "columns", d->names, d->n_columns);
    write_texts(out, "types", d->types, d->n_columns);
    json_out_key(out, "rejects");
    json_out_open(out, '{');
    json_out_key(out, "count");
    json_out_int(out, g->n_rejected);
    json_out_key(out, "lines");
    json_out_open(out, '[');
    if (g->n_rejected > 0)
        r = write_rejected_lines(g, err);
    json_out_close(out, ']');
    json_out_close(out, '}');
    write_dialect(g, out);
    json_out_key(out, "error");
    json_out_null(out);
    return r < 0 ? r : json_out_status(out, err);
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
        ingest_write_error(g, message);
        return 0;
    }
    switch (sql_classify(g->e, g->failure)) {
    case SQL_FATAL:
        return err_set(err, ERR_INTERNAL, "DuckDB: %s", g->failure);
    case SQL_INTERRUPTED:
        ingest_write_interrupted(g);
        return 0;
    case SQL_NO_MEMORY:
        snprintf(
            message, sizeof(message),
            "'%.200s' needs more memory than there is; send it in parts or raise the memory limit",
            g->in->name);
        result_fail(g->out, WIRE_VERDICT_MEMORY, "VALIDATION_ERROR", message);
        return 0;
    default:
        short_reason(g, reason, sizeof(reason));
        snprintf(message, sizeof(message), "Could not parse %s: '%.200s': %s; %s", what_it_is(g),
                 g->in->name, reason, what_to_do(g));
        ingest_write_error(g, message);
        return 0;
    }
}

int ingest_check_rows(struct ingest *g)
{
    char message[600];

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
    ingest_write_error(g, message);
    return 1;
}
