#include "kernel/ingest/csv_dialect.h"

#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "kernel/sql/sql_impl.h"

#define LINE_BYTES (2000 * 1000) /* longer lines than this DuckDB must be told of */

void csv_dialect_finish(struct csv_dialect *d)
{
    for (size_t i = 0; i < d->n_columns; i++) {
        free(d->names[i]);
        free(d->types[i]);
    }
    free(d->names);
    free(d->types);
    free(d->casts);
    *d = (struct csv_dialect){ 0 };
}

int csv_dialect_add_column(struct csv_dialect *d, const char *name, const char *type,
                           struct err *err)
{
    size_t n = d->n_columns;

    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        char **names = realloc(d->names, (n ? 2 * n : 1) * sizeof(char *));
        char **types = names ? realloc(d->types, (n ? 2 * n : 1) * sizeof(char *)) : NULL;

        d->names = names ? names : d->names;
        d->types = types ? types : d->types;
        if (!names || !types)
            return err_set(err, ERR_NO_MEMORY, "out of memory for a column");
    }
    d->names[n] = strdup(name);
    d->types[n] = strdup(type);
    d->n_columns++;
    return d->names[n] && d->types[n] ? 0 :
                                        err_set(err, ERR_NO_MEMORY, "out of memory for a column");
}

static int write_cast(const struct csv_dialect *d, size_t i, struct buf *sql, struct err *err)
{
    int r = 0;

    for (const char *p = d->casts[i]; r == 0 && *p; p++)
        r = *p == '$' ? buf_append_quoted(sql, "\"", d->names[i], err) : buf_append(sql, p, 1, err);
    if (r == 0)
        r = buf_printf(sql, err, "::%s AS ", d->types[i]);
    return r < 0 ? r : buf_append_quoted(sql, "\"", d->names[i], err);
}

int csv_dialect_write_selection(const struct csv_dialect *d, struct buf *sql, struct err *err)
{
    int r = buf_append(sql, "*", 1, err);
    bool any = false;

    for (size_t i = 0; r == 0 && d->casts && i < d->n_columns; i++) {
        if (!d->casts[i])
            continue;
        r = buf_append_str(sql, any ? "," : " REPLACE (", err);
        any = true;
        if (r == 0)
            r = write_cast(d, i, sql, err);
    }
    return r < 0 || !any ? r : buf_append(sql, ")", 1, err);
}

int csv_dialect_write_options(const struct csv_dialect *d, struct buf *sql, struct err *err)
{
    char delimiter[] = { d->delimiter, '\0' };
    int r = buf_printf(
        sql, err,
        ",compression='none',auto_detect=false,skip=0,header=%s,quote='\"',escape='\"',comment='',"
        "new_line='%s',nullstr='%s',allow_quoted_nulls=false,delim=",
        d->has_header ? "true" : "false", d->returns ? "\\r\\n" : "\\n", d->marked ? "\\N" : "");

    if (r == 0)
        r = buf_append_quoted(sql, "'", delimiter, err);
    if (r == 0 && d->longest_row > LINE_BYTES)
        r = buf_printf(sql, err, ",max_line_size=%zu,buffer_size=%zu", d->longest_row + 1024,
                       2 * d->longest_row + 4096);
    if (r == 0)
        r = buf_append_str(sql, ",columns={", err);
    for (size_t i = 0; r == 0 && i < d->n_columns; i++) {
        if (i)
            r = buf_append(sql, ",", 1, err);
        if (r == 0)
            r = buf_append_quoted(sql, "'", d->names[i], err);
        if (r == 0)
            r = buf_append(sql, ":", 1, err);
        if (r == 0)
            r = buf_append_quoted(sql, "'", d->casts && d->casts[i] ? "VARCHAR" : d->types[i], err);
    }
    return r < 0 ? r : buf_append_str(sql, "}", err);
}
