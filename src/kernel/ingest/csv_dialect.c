/*
 * The dialect of a CSV file by DuckDB's sniffer, and back again as the options of read_csv: with everything said, nothing is
 * guessed twice, and a second pass reads as the first.
 */

#include "kernel/ingest/csv_dialect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_impl.h"

#define MAX_SNIFF_BYTES (64 * 1024) /* of the statement */

void csv_dialect_finish(struct csv_dialect *d)
{
    for (size_t i = 0; i < d->n_columns; i++) {
        free(d->names[i]);
        free(d->types[i]);
    }
    free(d->names);
    free(d->types);
    free(d->delimiter);
    free(d->quote);
    free(d->escape);
    free(d->new_line);
    free(d->comment);
    free(d->date_format);
    free(d->timestamp_format);
    memset(d, 0, sizeof(*d));
}

int csv_dialect_init(struct csv_dialect *d, const char *delimiter, const char *quote, size_t max_columns,
                     struct err *err)
{
    *d = (struct csv_dialect){ .delimiter = strdup(delimiter),
                               .quote = strdup(quote),
                               .escape = strdup(quote),
                               .comment = strdup(""),
                               .new_line = strdup("\\n"),
                               .date_format = strdup(""),
                               .timestamp_format = strdup(""),
                               .names = calloc(max_columns + 1, sizeof(char *)),
                               .types = calloc(max_columns + 1, sizeof(char *)) };
    if (!d->delimiter || !d->quote || !d->escape || !d->comment || !d->new_line || !d->date_format ||
        !d->timestamp_format || !d->names || !d->types)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the dialect");
    return 0;
}

int csv_dialect_add_column(struct csv_dialect *d, const char *name, const char *type, struct err *err)
{
    d->names[d->n_columns] = strdup(name);
    d->types[d->n_columns] = strdup(type);
    d->n_columns++;
    return d->names[d->n_columns - 1] && d->types[d->n_columns - 1] ?
               0 :
               err_set(err, ERR_NO_MEMORY, "out of memory for a column");
}

static int give_up(char **ret_failure, const char *message, struct err *err)
{
    *ret_failure = strdup(message ? message : "DuckDB gave no reason");
    return *ret_failure ? 1 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
}

static int read_dialect(struct csv_dialect *d, duckdb_data_chunk chunk, struct err *err)
{
    char **texts[] = { &d->delimiter, &d->quote,       &d->escape,          &d->new_line,
                       &d->comment,   &d->date_format, &d->timestamp_format };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        *texts[i] = sql_copy_text(chunk, i, 0);
        if (!*texts[i])
            return err_set(err, ERR_NO_MEMORY, "out of memory for the dialect");
        if (str_eq(*texts[i], "(empty)")) /* DuckDB's word for a character that is not used */
            *texts[i][0] = '\0';
    }
    d->skip_rows = ((uint32_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 7)))[0];
    d->has_header = ((bool *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 8)))[0];
    return 0;
}

static int read_sniffed(struct csv_dialect *d, duckdb_result *result, char **ret_failure,
                        struct err *err)
{
    idx_t n_total = duckdb_row_count(result);
    int r = 0;

    csv_dialect_finish(d);
    if (n_total == 0)
        return give_up(ret_failure, "no column was found", err);
    if (n_total > CSV_MAX_COLUMNS)
        return give_up(ret_failure, "the file has too many columns", err);
    d->names = calloc(n_total, sizeof(char *));
    d->types = calloc(n_total, sizeof(char *));
    if (!d->names || !d->types)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %" PRIu64 " columns",
                       (uint64_t)n_total);
    while (r == 0) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(*result);

        if (!chunk)
            break;
        if (d->n_columns == 0)
            r = read_dialect(d, chunk, err);
        for (idx_t i = 0; r == 0 && i < duckdb_data_chunk_get_size(chunk); i++) {
            d->names[d->n_columns] = sql_copy_text(chunk, 9, i);
            d->types[d->n_columns] = sql_copy_text(chunk, 10, i);
            d->n_columns++;
            if (!d->names[d->n_columns - 1] || !d->types[d->n_columns - 1])
                r = err_set(err, ERR_NO_MEMORY, "out of memory for a column");
        }
        duckdb_destroy_data_chunk(&chunk);
    }
    return r;
}

int csv_dialect_sniff(struct csv_dialect *d, duckdb_connection con, const char *path,
                      bool double_quotes_only, bool latin1, const char *extra, char **ret_failure,
                      struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(MAX_SNIFF_BYTES);
    auto_result duckdb_result result = { 0 };
    int r = buf_append_str(
        &sql,
        "SELECT Delimiter, Quote, Escape, NewLineDelimiter, Comment, DateFormat, TimestampFormat, SkipRows, "
        "HasHeader, c.name, c.type FROM (SELECT *, unnest(Columns) AS c FROM sniff_csv(",
        err);

    if (r == 0)
        r = sql_quote_path(&sql, path, err);
    if (r == 0 && double_quotes_only)
        r = buf_append_str(&sql, ",quote='\"',escape='\"'", err);
    if (r == 0) /* whatever the name ends with */
        r = buf_append_str(&sql, ",compression='none'", err);
    if (r == 0 && latin1)
        r = buf_append_str(&sql, ",encoding='latin-1'", err);
    if (r == 0)
        r = buf_printf(&sql, err, "%s))", extra);
    if (r < 0)
        return r;
    if (duckdb_query(con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return give_up(ret_failure, duckdb_result_error(&result), err);
    return read_sniffed(d, &result, ret_failure, err);
}

/* ,name='text' */
static int add_option(struct buf *sql, const char *name, const char *text, struct err *err)
{
    int r = buf_printf(sql, err, ",%s=", name);

    return r < 0 ? r : sql_quote(sql, '\'', text, err);
}

bool csv_dialect_may_have_plain_dates(const struct csv_dialect *d)
{
    if (!str_eq(d->date_format, CSV_ISO_DATE) || strlen(d->delimiter) != 1 || strlen(d->quote) > 1 || d->comment[0] ||
        d->skip_rows != 0 || !(str_eq(d->escape, d->quote) || !d->escape[0]) ||
        !(str_eq(d->new_line, "\\n") || str_eq(d->new_line, "\\r\\n")))
        return false;
    for (size_t i = 0; i < d->n_columns; i++)
        if (str_eq(d->types[i], "DATE"))
            return true;
    return false;
}

int csv_dialect_write_options(const struct csv_dialect *d, struct buf *sql, struct err *err)
{
    int r = buf_printf(sql, err, ",compression='none',auto_detect=false,skip=%" PRId64 ",header=%s", d->skip_rows,
                       d->has_header ? "true" : "false");

    if (r == 0)
        r = add_option(sql, "delim", d->delimiter, err);
    if (r == 0)
        r = add_option(sql, "quote", d->quote, err);
    if (r == 0)
        r = add_option(sql, "escape", d->escape, err);
    if (r == 0)
        r = add_option(sql, "comment", d->comment, err);
    if (r == 0 &&
        (str_eq(d->new_line, "\\n") || str_eq(d->new_line, "\\r\\n") || str_eq(d->new_line, "\\r")))
        r = add_option(sql, "new_line", d->new_line, err);
    if (r == 0 && d->date_format[0] && !d->plain_dates)
        r = add_option(sql, "dateformat", d->date_format, err);
    if (r == 0 && d->timestamp_format[0])
        r = add_option(sql, "timestampformat", d->timestamp_format, err);
    if (r == 0)
        r = buf_append_str(sql, ",columns={", err);
    for (size_t i = 0; r == 0 && i < d->n_columns; i++) {
        if (i)
            r = buf_append(sql, ",", 1, err);
        if (r == 0)
            r = sql_quote(sql, '\'', d->names[i], err);
        if (r == 0)
            r = buf_append(sql, ":", 1, err);
        if (r == 0)
            r = sql_quote(sql, '\'', d->types[i], err);
    }
    return r < 0 ? r : buf_append_str(sql, "}", err);
}
