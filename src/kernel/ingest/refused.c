/*
 * Rows that are no rows of the table, for who wants to repair the file. They lie in a table of the
 * same columnar file, so whatever becomes of that (quotas, copies, deletion) becomes of them.
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/ingest_impl.h"

#define FLUSH_BYTES (64u << 10)
#define ROW_BYTES (2 * INGEST_REFUSED_TEXT + 1024) /* every character may be a quote */

static int begin(struct ingest *g, struct err *err)
{
    struct ingest_refused *f = &g->refused;
    const char *path = g->source.path;
    int r = data_source_add_scratch(&g->source, g->in->temp_directory, ".refused", &f->fd, err);

    if (r < 0)
        return r;
    f->path = g->source.path;
    g->source.path = path;
    f->most = data_source_room(f->fd, 2ull * INGEST_REFUSED_BYTES) / 2;
    buf_init(&f->out, FLUSH_BYTES + ROW_BYTES);
    return 0;
}

static int flush(struct ingest_refused *f, struct err *err)
{
    int r = fd_write_all(f->fd, f->out.data, f->out.len, err);

    buf_clear(&f->out);
    return r;
}

int ingest_refuse(struct ingest *g, const struct csv_refusal *refusal, struct err *err)
{
    struct ingest_refused *f = &g->refused;
    size_t n = str_utf8_cut(refusal->text, refusal->len, INGEST_REFUSED_TEXT), before;
    int r = f->path ? 0 : begin(g, err);

    if (r < 0 || f->n == INGEST_REFUSED_ROWS || f->written + ROW_BYTES > f->most)
        return r;
    before = f->out.len;
    r = buf_printf(&f->out, err, "%" PRId64 ",", refusal->line);
    if (r == 0)
        r = column_write_text(refusal->reason, strlen(refusal->reason), &f->out, err);
    if (r == 0)
        r = buf_append_str(&f->out, ",", err);
    if (r == 0)
        r = column_write_text(refusal->text, n, &f->out, err);
    if (r == 0)
        r = buf_append_str(&f->out, "\n", err);
    f->n++;
    f->written += f->out.len - before;
    return r == 0 && f->out.len >= FLUSH_BYTES ? flush(f, err) : r;
}

static int write_statement(const struct ingest *g, struct buf *sql, struct err *err)
{
    static const char *const columns[][2] = { { "line", "BIGINT" },
                                              { "reason", "VARCHAR" },
                                              { "text", "VARCHAR" } };
    struct csv_dialect d = { 0 };
    int r = buf_printf(
        sql, err, "INSERT INTO " INGEST_REFUSED_TABLE " SELECT %zu,line,reason,text FROM read_csv(",
        g->n_parts);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(columns); i++)
        r = csv_dialect_add_column(&d, columns[i][0], columns[i][1], err);
    d.delimiter = ',';
    d.marked = true;
    if (r == 0)
        r = sql_quote_path(sql, g->refused.path, err);
    if (r == 0)
        r = csv_dialect_write_options(&d, sql, err);
    csv_dialect_finish(&d);
    /* A text may have line breaks, at which threads would cut it. */
    return r < 0 ? r : buf_append_str(sql, ",parallel=false)", err);
}

int ingest_keep_refused(struct ingest *g, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(64 * 1024);
    auto_result duckdb_result result = { 0 };
    int r;

    if (!g->refused.path)
        return 0;
    r = flush(&g->refused, err);
    if (r == 0)
        r = write_statement(g, &sql, err);
    if (r < 0)
        return r;
    if (duckdb_query(g->e->con, buf_cstr(&sql), &result) != DuckDBSuccess)
        return ingest_note_failure(g, duckdb_result_error(&result), err);
    if ((int64_t)duckdb_rows_changed(&result) != g->refused.n)
        return err_set(err, ERR_INTERNAL,
                       "%" PRId64 " refused rows were written and %" PRIu64 " read", g->refused.n,
                       (uint64_t)duckdb_rows_changed(&result));
    return 0;
}

void ingest_drop_refused(struct ingest *g)
{
    if (g->refused.path)
        close(g->refused.fd);
    buf_finish(&g->refused.out);
    g->refused = (struct ingest_refused){ 0 };
}
