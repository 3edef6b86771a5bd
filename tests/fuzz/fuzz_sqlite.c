/*
 * Fuzzes what is made of SQLite databases: bytes behind the first 16 are those of the input. They
 * are refused with a reason, or their tables are gone through, types decided and values read.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kernel/ingest/sqlite_file.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct err *err)
{
    if (err->code != ERR_VALIDATION || err->message[0] == '\0')
        abort();
}

static void read_table(struct sqlite_file *f, size_t table)
{
    struct err err = ERR_INIT;
    int64_t n = 0;
    int r = sqlite_choose(f, table, &err);

    while (r == 0 && (r = sqlite_next_row(f, &err)) == 1) {
        r = 0;
        n++;
        for (size_t i = 0; i < f->n_columns; i++) {
            size_t len;
            const char *s = sqlite_text(f, i, &len, &err);

            if (s && (!str_is_utf8(s, len) || memchr(s, 0, len)))
                abort();
        }
    }
    if (r < 0)
        check(&err);
    else if (n != f->n_rows)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char magic[16] = "SQLite format 3";
    struct sqlite_options options = { .memory_bytes = 64 << 20, .text = size % 2 };
    struct sqlite_file f;
    struct err err = ERR_INIT;
    char path[128];
    char *bytes = malloc(size + sizeof(magic));

    if (!bytes)
        abort();
    make_scratch();
    memcpy(bytes, magic, sizeof(magic));
    if (size > 0)
        memcpy(bytes + sizeof(magic), data, size);
    scratch_write("x.db", bytes, size + sizeof(magic));
    free(bytes);
    snprintf(path, sizeof(path), "%s/x.db", scratch);
    if (sqlite_open_file(&f, path, &options, &err) < 0)
        check(&err);
    else
        for (size_t i = 0; i < f.n_tables && i < 4; i++)
            read_table(&f, i);
    sqlite_finish(&f);
    return 0;
}
