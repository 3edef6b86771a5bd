/*
 * Fuzzes the reader of CSV. Whatever the bytes are: every record is read, refused or skipped, and
 * what is written has as many lines as there are rows, where no text has a line break.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel/ingest/csv_scan.h"
#include "kernel/ingest/csv_table.h"
#include "kernel/ingest/encoding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool go_on(const void *arg)
{
    (void)arg;
    return false;
}

static void read_table(const char *text, size_t len, const struct read_options *options)
{
    struct csv_hooks hooks = { .name = "x", .max_bytes = UINT64_MAX, .must_stop = go_on };
    struct err err = ERR_INIT;
    struct csv_table t;
    int r;

    hooks.out_fd = memfd_create("rows", MFD_CLOEXEC);
    if (hooks.out_fd < 0)
        abort();
    r = csv_table_find(&t, text, len, NULL, options, &err);
    if (r == 0)
        r = csv_table_read(&t, text, len, options, &hooks, &err);
    if (r == 0) {
        const struct csv_counts *c = &t.counts;

        if (c->records != c->rows + c->refused + csv_table_skipped(&t))
            abort();
        for (size_t i = 0; i < t.n_columns; i++)
            if (!t.columns[i].name || !*t.columns[i].name)
                abort();
    } else if (err.code == ERR_INTERNAL) {
        abort();
    }
    csv_table_finish(&t);
    close(hooks.out_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum column_type types[] = { COLUMN_INTEGER, COLUMN_REAL,      COLUMN_TEXT,
                                              COLUMN_DATE,    COLUMN_TIMESTAMP, COLUMN_BOOLEAN };
    struct read_options options = READ_OPTIONS_INIT;
    struct csv_scan scan = { .delimiter = ',', .types = types, .n_columns = 6 };
    const char *text = (const char *)data;
    int64_t rows;

    if (size == 0 || size > 1 << 20)
        return 0;
    bool whole;
    (void)encoding_find(data, size, &whole);
    (void)csv_scan_is_plain(&scan, text, size, &rows);
    read_table(text, size, &options);
    options.text = true;
    options.header_line = data[0] % 4;
    read_table(text, size, &options);
    return 0;
}
