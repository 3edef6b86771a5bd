/* Files to ask about. What they hold is looked at by SQL inside the sandbox, never here. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "cli/ask_data.h"
#include "data/dataset.h"
#include "data/scan.h"
#include "run/runner.h"

int ask_data_run(struct ask_data *d, const char *sql, int64_t max_rows, json_t **ret_body,
                 struct err *err)
{
    struct run_request req = { .kind = RUN_SQL,
                               .code = sql,
                               .code_len = strlen(sql),
                               .timeout_ms = SCAN_TIMEOUT_MS,
                               .max_rows = max_rows,
                               .max_output_bytes = CATALOG_OUTPUT_MAX_BYTES };
    struct run_result result = { .verdict = VERDICT_OK };
    int r = foreground_run(d->fg, d->lease, &req, &result, err);
    if (r < 0)
        return r;
    if (result.verdict == VERDICT_OK) {
        *ret_body = json_incref(result.body);
    } else {
        const char *message = json_string_value(
            json_object_get(json_object_get(result.body, "error"), "message"));
        r = err_set(err, ERR_VALIDATION, "%s", message ? message : verdict_name(result.verdict));
    }
    run_result_finish(&result);
    return r;
}

static int scan_table(struct ask_data *d, const char *table, struct err *err)
{
    struct table_scan *scan = NULL;
    auto_json json_t *profile = NULL, *values = NULL;
    const char *sql;
    int64_t max_rows;
    int r = table_scan_create(table, DIALECT_DUCKDB, &scan, err);
    while (r >= 0 && (sql = table_scan_next_sql(scan, &max_rows))) {
        auto_json json_t *body = NULL;
        r = ask_data_run(d, sql, max_rows, &body, err);
        if (r >= 0)
            r = table_scan_feed(scan, body, err);
    }
    if (r >= 0) {
        table_scan_take(scan, &profile, &values);
        r = catalog_add(d->catalog, table, profile, values, err);
    }
    table_scan_destroy(scan);
    return r;
}

static int read_catalog(struct ask_data *d, struct err *err)
{
    const char *tables[CATALOG_TABLES_MAX];
    size_t n = lease_table_names(d->lease, tables, CATALOG_TABLES_MAX);
    int r = catalog_create("data", DIALECT_DUCKDB, NULL, NULL, &d->catalog, err);
    for (size_t i = 0; i < n && r >= 0; i++)
        r = scan_table(d, tables[i], err);
    return r < 0 ? r : catalog_finish(d->catalog, err);
}

/* ---- opening ---- */

static int name_file(struct arena *a, const char *word, size_t index, struct sandbox_file *files,
                     struct err *err)
{
    char table[DATASET_TABLE_MAX], stem[NAME_MAX + 1], full[PATH_MAX];
    const char *equals = strchr(word, '='), *path = word;
    str_stem(word, stem, sizeof(stem));
    if (equals && !memchr(word, '/', (size_t)(equals - word))) {
        snprintf(stem, sizeof(stem), "%.*s", (int)MIN_OF(equals - word, NAME_MAX), word);
        path = equals + 1;
    }
    dataset_safe_name(stem, "data", true, table, sizeof(table));
    for (size_t i = 0, n = 2; i < index; i++)
        if (str_ieq(files[i].table, table)) {
            char again[DATASET_TABLE_MAX];
            snprintf(again, sizeof(again), "%.56s_%zu", table, n++);
            memcpy(table, again, sizeof(again));
            i = (size_t)-1; /* from the start, with the new name */
        }
    if (!realpath(path, full))
        return err_errno(err, ERR_NOT_FOUND, errno, "file '%.256s'", path);
    const char *dot = strrchr(full, '.'), *slash = strrchr(full, '/');
    files[index] = (struct sandbox_file){ .name = arena_printf(a, "%s%s", table,
                                                               dot && dot > slash ? dot : ""),
                                          .path = arena_strdup(a, full),
                                          .table = arena_strdup(a, table) };
    if (!files[index].name || !files[index].path || !files[index].table)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return 0;
}

int ask_data_name_files(struct arena *a, const char *const *words, size_t n,
                        struct sandbox_file *ret, struct err *err)
{
    int r = n == 0 || n > SANDBOX_FILES_MAX ?
                err_set(err, ERR_VALIDATION, "%zu files; a question is about 1 to %d", n,
                        SANDBOX_FILES_MAX) :
                0;
    for (size_t i = 0; i < n && r >= 0; i++)
        r = name_file(a, words[i], i, ret, err);
    return r;
}

int ask_data_open(struct foreground *fg, const struct config *cfg, const char *const *files,
                  size_t n_files, const char *options, const struct run_events *events,
                  struct ask_data *ret, struct err *err)
{
    struct sandbox_spec spec = { .kind = RUN_SQL, .n_files = n_files };
    struct sandbox_file list[SANDBOX_FILES_MAX];
    auto_arena struct arena a;

    *ret = (struct ask_data){ .fg = fg };
    arena_init(&a, 1u << 20);
    int r = ask_data_name_files(&a, files, n_files, list, err);
    for (size_t i = 0; r >= 0 && i < n_files; i++)
        list[i].options = options;
    spec.files = list;
    sandbox_limits_default(cfg, &spec.limits);
    if (r >= 0)
        r = foreground_acquire(fg, &spec, events, &ret->lease, err);
    if (r >= 0)
        r = read_catalog(ret, err);
    if (r < 0)
        ask_data_finish(ret);
    return r;
}

void ask_data_finish(struct ask_data *d)
{
    lease_release(d->lease);
    catalog_unref(d->catalog);
    *d = (struct ask_data){ .lease = NULL };
}
