/* Files to ask about. Their values are looked at by SQL inside the sandbox, never here. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/str.h"
#include "cli/ask_data.h"
#include "dataset/dataset.h"
#include "plan/compile.h"
#include "sandbox/runner.h"

#define RUN_TIMEOUT_MS 30000
#define OUTPUT_MAX_BYTES (16 << 20)
#define INDEX_ROWS_MAX 200000
#define PLAIN_COLUMNS_MAX 400 /* whose values are looked at */

int ask_data_run(struct ask_data *d, const char *sql, int64_t max_rows, json_t **ret_body, struct err *err)
{
    struct run_request req = { .kind = RUN_SQL, .code = sql, .code_len = strlen(sql), .timeout_ms = RUN_TIMEOUT_MS,
                               .max_rows = max_rows, .max_output_bytes = OUTPUT_MAX_BYTES };
    struct run_result result = { .verdict = VERDICT_OK };
    int r = sandbox_begin(d->sandbox, &req, NULL, err);
    if (r >= 0)
        r = sandbox_wait(d->sandbox, &result, err);
    if (r < 0)
        return r;
    if (result.verdict == VERDICT_OK) {
        *ret_body = json_incref(result.body);
    } else {
        const char *message = json_string_value(json_object_get(json_object_get(result.body, "error"), "message"));
        r = err_set(err, ERR_VALIDATION, "%s", message ? message : verdict_name(result.verdict));
    }
    run_result_finish(&result);
    return r;
}

/* ---- what the tables hold ---- */

static int append_name(struct buf *b, const char *name, struct err *err)
{
    int r = buf_append_str(b, "\"", err);
    for (; *name && r >= 0; name++)
        r = buf_append(b, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1, err);
    return r < 0 ? r : buf_append_str(b, "\"", err);
}

/* One query for all columns of a table: each text's different values, each date's ends, and the number of rows. */
static int index_query(const char *table, const json_t *columns, const json_t *types, struct buf *b, struct err *err)
{
    size_t n = MIN_OF(json_array_size(columns), (size_t)PLAIN_COLUMNS_MAX);
    int r = buf_append_str(b, "SELECT -1 AS c, CAST(count(*) AS VARCHAR) AS v, NULL AS w FROM ", err);
    if (r >= 0)
        r = append_name(b, table, err);
    for (size_t i = 0; i < n && r >= 0; i++) {
        const char *name = json_string_value(json_array_get(columns, i));
        enum plan_type type = plan_type_from_name(json_string_value(json_array_get(types, i)));
        bool date = type == TYPE_DATE || type == TYPE_TIMESTAMP;
        if (!date && type != TYPE_TEXT && type != TYPE_INTEGER)
            continue;
        int limit = type == TYPE_TEXT ? NL_VALUES_PER_COLUMN + 1 : 200;
        if (date)
            r = buf_printf(b, err, " UNION ALL SELECT %zu, CAST(min(", i);
        else
            r = buf_printf(b, err, " UNION ALL SELECT %zu, CAST(v AS VARCHAR), NULL FROM (SELECT ", i);
        if (r >= 0)
            r = append_name(b, name, err);
        if (date && r >= 0)
            r = buf_append_str(b, ") AS VARCHAR), CAST(max(", err);
        if (date && r >= 0)
            r = append_name(b, name, err);
        if (r >= 0)
            r = buf_append_str(b, date ? ") AS VARCHAR) FROM " : " AS v, count(*) AS n FROM ", err);
        if (r >= 0)
            r = append_name(b, table, err);
        if (r >= 0 && !date)
            r = buf_printf(b, err, " GROUP BY 1 HAVING v IS NOT NULL ORDER BY n DESC, v LIMIT %d)", limit);
    }
    return r;
}

static int add_table(struct ask_data *d, const char *table, json_t *short_schema, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(4u << 20);
    auto_json json_t *shape = NULL, *values = NULL;
    int r = buf_append_str(&sql, "SELECT * FROM ", err);
    if (r >= 0)
        r = append_name(&sql, table, err);
    if (r >= 0)
        r = buf_append_str(&sql, " LIMIT 0", err);
    if (r >= 0)
        r = ask_data_run(d, buf_cstr(&sql), 1, &shape, err);
    if (r < 0)
        return r;
    const json_t *columns = json_object_get(shape, "columns"), *types = json_object_get(shape, "types");
    buf_clear(&sql);
    r = index_query(table, columns, types, &sql, err);
    if (r >= 0)
        r = ask_data_run(d, buf_cstr(&sql), INDEX_ROWS_MAX, &values, err);
    if (r < 0)
        return r;
    const json_t *rows = json_object_get(values, "rows");
    const char *count = json_string_value(json_array_get(json_array_get(rows, 0), 1));
    int t = nl_schema_add_table(d->schema, table, count ? atoll(count) : -1, err);
    if (t < 0)
        return t;
    json_t *short_table = json_object();
    json_object_set_new(short_schema, table, short_table);
    for (size_t i = 0; i < json_array_size(columns) && r >= 0; i++) {
        const char *name = json_string_value(json_array_get(columns, i)), *type = json_string_value(json_array_get(types, i));
        if (!name || !type)
            return err_set(err, ERR_PROTOCOL, "a column of '%s' has no name or type", table);
        r = nl_schema_add_column(d->schema, t, name, type, err);
        json_object_set_new(short_table, name, json_string(type));
    }
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        json_int_t c = json_integer_value(json_array_get(row, 0));
        const char *v = json_string_value(json_array_get(row, 1)), *w = json_string_value(json_array_get(row, 2));
        if (c < 0 || !v || r < 0 || c >= (json_int_t)json_array_size(columns))
            continue;
        if (w)
            r = nl_schema_set_range(d->schema, t, (int)c, v, w, err);
        else
            r = nl_schema_add_value(d->schema, t, (int)c, v, err);
    }
    return r < 0 ? r : 0;
}

/* ---- opening ---- */

static int name_file(struct arena *a, const char *word, size_t index, struct sandbox_file *files, struct err *err)
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
    files[index] = (struct sandbox_file){ .name = arena_printf(a, "%s%s", table, dot && dot > slash ? dot : ""),
                                          .path = arena_strdup(a, full),
                                          .table = arena_strdup(a, table) };
    if (!files[index].name || !files[index].path || !files[index].table)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return 0;
}

int ask_data_open(struct provider *p, const struct config *cfg, const char *const *files, size_t n_files,
                  const struct run_events *events, struct ask_data *ret, struct err *err)
{
    struct sandbox_spec spec = { .kind = RUN_SQL, .n_files = n_files };
    struct sandbox_file list[RUNNER_FILES_MAX];
    auto_json json_t *schema = json_object();
    json_t *tables = json_object();
    int r = 0;

    json_object_set_new(schema, "tables", tables);
    *ret = (struct ask_data){ .sandbox = NULL };
    arena_init(&ret->arena, 64u << 20);
    if (n_files == 0 || n_files > RUNNER_FILES_MAX)
        r = err_set(err, ERR_VALIDATION, "%zu files; a question is about 1 to %d", n_files, RUNNER_FILES_MAX);
    for (size_t i = 0; i < n_files && r >= 0; i++)
        r = name_file(&ret->arena, files[i], i, list, err);
    spec.files = list;
    sandbox_limits_default(cfg, &spec.limits);
    if (r >= 0)
        r = sandbox_create(p, &spec, events, &ret->sandbox, err);
    if (r >= 0)
        r = nl_schema_create("data", &ret->schema, err);
    for (size_t i = 0; i < n_files && r >= 0; i++)
        r = add_table(ret, list[i].table, tables, err);
    if (r >= 0)
        r = nl_schema_finish(ret->schema, err);
    if (r >= 0)
        r = plan_schema_parse(schema, NULL, &ret->arena, &ret->plan_schema, err);
    if (r < 0)
        ask_data_finish(ret);
    return r;
}

void ask_data_finish(struct ask_data *d)
{
    sandbox_destroy(d->sandbox);
    nl_schema_destroy(d->schema);
    arena_finish(&d->arena);
    *d = (struct ask_data){ .sandbox = NULL };
}

int ask_data_compile(struct ask_data *d, const json_t *plan, struct buf *ret_sql, struct err *err)
{
    auto_arena struct arena a;
    struct query_plan *parsed = NULL;
    arena_init(&a, PLAN_ARENA_BYTES);
    size_t before = ret_sql->len;
    int r = plan_parse(plan, &a, &parsed, err);
    if (r >= 0)
        r = plan_compile(parsed, d->plan_schema, ret_sql, err);
    if (r < 0)
        return r;
    /*
     * A limit that nobody asked for is only the size of the answer, which the run has too; without it rows that are equal in
     * what they are ordered by keep the order of the file.
     */
    static const char tail[] = "\nLIMIT 1000";
    size_t len = ret_sql->len - before;
    if (parsed->limit == PLAN_LIMIT_MAX && len > sizeof(tail) && str_ends(buf_cstr(ret_sql), tail)) {
        ret_sql->len -= sizeof(tail) - 1;
        ret_sql->data[ret_sql->len] = '\0';
    }
    return 0;
}
