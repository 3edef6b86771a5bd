/*
 * Fuzzes what is made of rows in text: lists in JSON and dumps as SQL. They are refused with a
 * reason, or become a database that SQLite opens.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/ingest/formats.h"
#include "kernel/ingest/scratch_db.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct data_hooks hooks = { .must_stop = never };
    bool json = size > 0 && (data[0] == '[' || data[0] == '{');
    struct err err = ERR_INIT;
    char path[128], *exact = malloc(size ? size : 1);
    sqlite3 *db = NULL;

    if (!exact)
        abort();
    if (size > 0)
        memcpy(exact, data, size);
    make_scratch();
    scratch_write("rows.db", "", 0);
    snprintf(path, sizeof(path), "%s/rows.db", scratch);
    const struct scratch_job job = { .text = exact,
                                     .len = size,
                                     .name = "x",
                                     .out_path = path,
                                     .max_bytes = 16u << 20,
                                     .hooks = &hooks };
    int r = json ? scratch_from_json(&job, &err) : scratch_from_sql(&job, &err);
    if (r < 0 && (err.code != ERR_VALIDATION && err.code != ERR_INVALID_JSON))
        abort();
    if (r == 1 &&
        (sqlite3_open(path, &db) != SQLITE_OK ||
         sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK))
        abort();
    sqlite3_close(db);
    free(exact);
    return 0;
}
