/*
 * The SQL engine of a kernel: DuckDB opened once in the zygote, set up and locked after the fork,
 * then one statement at a time.
 *
 * Life of a query: the text is split into statements (one, please), its tree goes through the
 * policy, the statement is prepared, executed as a stream, and rows are written as JSON until a
 * limit is met; the rest is never computed.
 *
 * Two walls stand behind each other. The policy decides on the tree what a user may ask. The lock
 * makes the engine unable: no file but the attached tables and the spill directory, no extension,
 * no setting. Each is checked after it is set.
 */

#include "kernel/sql/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <strings.h>
#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/sql/sql_impl.h"
#include "kernel/sql/sql_value.h"
#include "plan/sql_policy.h"

#define MAX_SETUP_BYTES (64 * 1024) /* of one statement of the set-up */

static void cleanup_extracted(duckdb_extracted_statements *s)
{
    if (*s)
        duckdb_destroy_extracted(s);
}

static void cleanup_prepared(duckdb_prepared_statement *s)
{
    if (*s)
        duckdb_destroy_prepare(s);
}

static void cleanup_chunk(duckdb_data_chunk *c)
{
    if (*c)
        duckdb_destroy_data_chunk(c);
}

#define auto_chunk __attribute__((cleanup(cleanup_chunk)))
#define auto_extracted __attribute__((cleanup(cleanup_extracted)))
#define auto_prepared __attribute__((cleanup(cleanup_prepared)))

/* ---- shared pieces ------------------------------------------------------------------------------------------------- */

void sql_begin(struct sql_engine *e)
{
    atomic_store(&e->stop, 0);
    atomic_store(&e->busy, 1);
}

void sql_end(struct sql_engine *e)
{
    atomic_store(&e->busy, 0);
    atomic_store(&e->stop, 0);
}

bool sql_must_stop(const struct sql_engine *e)
{
    return atomic_load(&e->stop) != 0;
}

void sql_interrupt(struct sql_engine *e)
{
    if (atomic_load(&e->busy))
        atomic_store(&e->stop, 1);
    /*
     * One store into an atomic flag inside DuckDB, which the start of any query clears: without a
     * query it does nothing, and it reaches queries that Python runs on the same connection as
     * well.
     */
    duckdb_interrupt(e->con);
    duckdb_interrupt(e->first_con);
}

int sql_run(struct sql_engine *e, const char *sql, struct err *err)
{
    auto_result duckdb_result result = { 0 };

    if (duckdb_query(e->con, sql, &result) == DuckDBSuccess)
        return 0;
    return err_set(err, ERR_INTERNAL, "%s", duckdb_result_error(&result));
}

int sql_quote_path(struct buf *b, const char *path, struct err *err)
{
    auto_buf struct buf escaped = BUF_INIT(MAX_SETUP_BYTES);
    int r = 0;

    for (; r == 0 && *path; path++)
        r = strchr("*?[", *path) ? buf_printf(&escaped, err, "[%c]", *path) :
                                   buf_append(&escaped, path, 1, err);
    return r < 0 ? r : buf_append_quoted(b, "'", buf_cstr(&escaped), err);
}

int sql_set_limits(struct sql_engine *e, int64_t memory_bytes, int threads,
                   const char *temp_directory, struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(MAX_SETUP_BYTES);
    struct sql_limits *has = &e->limits, want = { .threads = MAX_OF(threads, 1) };
    int r = 0;

    want.memory_bytes = memory_bytes > 0 ? memory_bytes : has->memory_bytes;
    snprintf(want.temp_directory, sizeof(want.temp_directory), "%s",
             temp_directory ? temp_directory : "");
    if (want.memory_bytes != has->memory_bytes)
        r = buf_printf(&sql, err, "SET memory_limit='%" PRId64 "B';", want.memory_bytes);
    if (r == 0 && want.threads != has->threads)
        r = buf_printf(&sql, err, "SET threads=%d;", want.threads);
    if (r == 0 && !str_eq(want.temp_directory, has->temp_directory)) {
        r = buf_append_str(&sql, "SET temp_directory=", err);
        if (r == 0)
            r = buf_append_quoted(&sql, "'", want.temp_directory, err);
    }
    if (r == 0 && sql.len)
        r = sql_run(e, buf_cstr(&sql), err);
    if (r < 0)
        return err_wrap(err, "setting DuckDB's limits");
    *has = want;
    return 0;
}

/* ---- in the zygote ------------------------------------------------------------------------------------------------- */

/*
 * Each exercises a part of DuckDB that the first real query would otherwise page in: its code, its
 * tables, its arenas.
 */
static const char *const warm_queries[] = {
    "CREATE TEMP TABLE warm AS SELECT i, i % 7 AS k, i * 0.5 AS x, 'name' || i AS s, DATE '2024-01-01' + i::INT AS d "
    "FROM range(3000) t(i)",
    "SELECT k, count(*), sum(i), avg(x), min(s), max(d) FROM warm GROUP BY k ORDER BY 2 DESC LIMIT 3",
    "SELECT a.k, count(*) FROM warm a JOIN warm b USING (i) WHERE a.s LIKE 'name1%' GROUP BY ALL HAVING count(*) > 1",
    "SELECT i, row_number() OVER (PARTITION BY k ORDER BY x) r, lag(x) OVER (ORDER BY i) FROM warm QUALIFY r < 3",
    "WITH m AS (SELECT date_trunc('month', d) AS m, count(DISTINCT s) AS n FROM warm GROUP BY 1) "
    "SELECT strftime(m, '%Y-%m'), n, round(n / 3, 2), upper('x'), CASE WHEN n > 1 THEN 'a' ELSE 'b' END FROM m ORDER BY 1",
    "SELECT * FROM warm WHERE k IN (SELECT k FROM warm WHERE x > 10) ORDER BY s LIMIT 5",
    "CREATE TEMP VIEW warm_view AS SELECT * FROM warm",
    "SELECT count(*) FROM warm_view",
    "DROP VIEW warm_view",
    "DROP TABLE warm",
};

static int open_database(struct sql_engine *e, struct err *err)
{
    static const struct {
        const char *name, *value;
    } settings[] = {
        { "threads", "1" },
        { "memory_limit", "322122546B" }, /* what a kernel of 512 MB gives it */
        { "autoinstall_known_extensions", "false" },
        { "autoload_known_extensions", "false" },
        { "allow_community_extensions", "false" },
        { "allow_persistent_secrets", "false" },
        { "temp_directory", "/tmp" },
    };
    static const struct sql_limits limits = { .memory_bytes = 322122546,
                                              .threads = 1,
                                              .temp_directory = "/tmp" };
    duckdb_config config = NULL;
    char *message = NULL;
    int r = 0;

    if (duckdb_create_config(&config) != DuckDBSuccess)
        return err_set(err, ERR_NO_MEMORY, "cannot make DuckDB's configuration");
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++) {
        if (duckdb_set_config(config, settings[i].name, settings[i].value) != DuckDBSuccess)
            r = err_set(err, ERR_INTERNAL, "DuckDB does not take the setting %s=%s",
                        settings[i].name, settings[i].value);
    }
    if (r == 0 && duckdb_open_ext(NULL, &e->db, config, &message) != DuckDBSuccess)
        r = err_set(err, ERR_INTERNAL, "opening DuckDB: %s", message ? message : "no reason given");
    duckdb_free(message);
    duckdb_destroy_config(&config);
    e->limits = limits;
    return r;
}

static int serialize(struct sql_engine *e, const char *sql, size_t len, json_t **ret_tree,
                     char **ret_failure, struct err *err);

int sql_engine_create(struct sql_engine **ret, struct err *err)
{
    struct sql_engine *e = calloc(1, sizeof(*e));
    int r;

    if (!e)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the SQL engine");
    r = open_database(e, err);
    if (r == 0 && duckdb_connect(e->db, &e->first_con) != DuckDBSuccess)
        r = err_set(err, ERR_INTERNAL, "connecting to DuckDB failed");
    e->con = e->first_con;
    /* Kernels have no time zone of their own; what the host's is must not change results. */
    if (r == 0)
        r = sql_run(e, "SET GLOBAL TimeZone='UTC'", err);
    /*
     * Empty and default members are left out of the tree: it is a quarter of the size, and the
     * policy needs none of them.
     */
    if (r == 0 &&
        duckdb_prepare(
            e->first_con,
            "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true, "
            "skip_default := true)::VARCHAR",
            &e->serialize) != DuckDBSuccess)
        r = err_set(err, ERR_INTERNAL, "preparing json_serialize_sql: %s",
                    duckdb_prepare_error(e->serialize));
    if (r < 0) {
        sql_engine_destroy(e);
        return err_wrap(err, "starting the SQL engine");
    }
    *ret = e;
    return 0;
}

int sql_engine_warm(struct sql_engine *e, struct err *err)
{
    static const char warm_tree[] = "SELECT k, sum(x) FROM warm GROUP BY k";
    auto_json json_t *tree = NULL;
    auto_free char *failure = NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(warm_queries); i++)
        r = sql_run(e, warm_queries[i], err);
    if (r == 0)
        r = serialize(e, warm_tree, sizeof(warm_tree) - 1, &tree, &failure, err);
    if (r == 0 && !tree)
        r = err_set(err, ERR_INTERNAL, "json_serialize_sql does not work: %s", failure);
    return r < 0 ? err_wrap(err, "warming the SQL engine") : 0;
}

static void forget_tables(struct sql_engine *e)
{
    for (size_t i = 0; i < e->n_tables; i++)
        free(e->tables[i]);
    free(e->tables);
    free(e->places);
    free(e->dataset_id);
    e->tables = NULL;
    e->places = NULL;
    e->n_tables = 0;
    e->dataset_id = NULL;
    e->has_schema = false;
}

void sql_engine_destroy(struct sql_engine *e)
{
    if (!e)
        return;
    forget_tables(e);
    if (e->serialize)
        duckdb_destroy_prepare(&e->serialize);
    if (e->con && e->con != e->first_con)
        duckdb_disconnect(&e->con);
    if (e->first_con)
        duckdb_disconnect(&e->first_con);
    if (e->db)
        duckdb_close(&e->db);
    free(e);
}

void sql_engine_defer(struct sql_engine *e, int (*prepare)(void *arg, struct err *err), void *arg)
{
    e->prepare = prepare;
    e->prepare_arg = arg;
}

int sql_engine_ready(struct sql_engine *e, struct err *err)
{
    int (*prepare)(void *, struct err *) = e->prepare;
    if (!prepare)
        return 0;
    e->prepare = NULL; /* its own statements are not to wait for it */
    int r = prepare(e->prepare_arg, err);
    if (r < 0)
        e->prepare = prepare;
    return r;
}

bool sql_engine_is_ready(const struct sql_engine *e)
{
    return !e->prepare;
}

void *sql_engine_connection(struct sql_engine *e)
{
    return e->con;
}

/* ---- in the kernel, once ------------------------------------------------------------------------------------------- */

/*
 * Names that mean something else in front of a dot. The tables of such a dataset go by their bare
 * names.
 */
static bool is_reserved_schema(const char *name)
{
    return str_ieq(name, "information_schema") || str_ieq(name, "pg_catalog") ||
           str_ieq(name, "system") || str_ieq(name, "temp");
}

/*
 * `main.orders` and `memory.orders` resolve by themselves: the engine's own database is called
 * memory.
 */
static bool is_native_schema(const char *name)
{
    return str_ieq(name, "main") || str_ieq(name, "memory");
}

static int remember_tables(struct sql_engine *e, const struct sql_setup *setup, struct err *err)
{
    forget_tables(e);
    e->refused = setup->refused;
    e->tables = calloc(setup->n_tables ? setup->n_tables : 1, sizeof(*e->tables));
    e->places = calloc(setup->n_tables ? setup->n_tables : 1, sizeof(*e->places));
    if (!e->tables || !e->places)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the list of tables");
    for (size_t i = 0; i < setup->n_tables; i++) {
        bool same = i > 0 && str_eq(setup->tables[i].db_path, setup->tables[i - 1].db_path);

        e->places[i].file = same ? e->places[i - 1].file : i;
        e->places[i].part = setup->tables[i].part;
        e->tables[i] = strdup(setup->tables[i].name);
        if (!e->tables[i])
            return err_set(err, ERR_NO_MEMORY, "out of memory for the list of tables");
        e->n_tables++;
    }
    if (setup->dataset_id && setup->dataset_id[0] && !is_reserved_schema(setup->dataset_id)) {
        e->dataset_id = strdup(setup->dataset_id);
        if (!e->dataset_id)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the dataset's name");
    }
    return 0;
}

/* A database and a schema of one name would make every qualified name ambiguous. */
static const char *file_prefix(const struct sql_engine *e)
{
    static const char prefix[] = "__riddle_";
    return e->dataset_id && strncasecmp(e->dataset_id, prefix, strlen(prefix)) == 0 ? "__sieve_" :
                                                                                      prefix;
}

/* A view in schema `schema` over a table of an attached file. */
static int add_view(struct sql_engine *e, struct buf *sql, const char *schema, size_t index,
                    struct err *err)
{
    char part[24] = "";
    int r = buf_append_str(sql, "CREATE VIEW memory.", err);

    if (e->places[index].part > 0)
        snprintf(part, sizeof(part), "%zu", e->places[index].part);
    if (r == 0)
        r = buf_append_quoted(sql, "\"", schema, err);
    if (r == 0)
        r = buf_append(sql, ".", 1, err);
    if (r == 0)
        r = buf_append_quoted(sql, "\"", e->tables[index], err);
    if (r < 0)
        return r;
    if (e->refused)
        return buf_printf(sql, err,
                          " AS SELECT line, reason, text FROM \"%s%zu\".main.refused"
                          " WHERE part=%zu;",
                          file_prefix(e), e->places[index].file, e->places[index].part);
    return buf_printf(sql, err, " AS SELECT * FROM \"%s%zu\".main.data%s;", file_prefix(e),
                      e->places[index].file, part);
}

static int attach_table(struct sql_engine *e, const struct sql_table *table, size_t index,
                        struct err *err)
{
    auto_buf struct buf sql = BUF_INIT(MAX_SETUP_BYTES);
    int r = 0;

    if (e->places[index].file == index) {
        r = buf_append_str(&sql, "ATTACH ", err);
        if (r == 0)
            r = buf_append_quoted(&sql, "'", table->db_path, err);
        if (r == 0)
            r = buf_printf(&sql, err, " AS \"%s%zu\" (READ_ONLY);", file_prefix(e), index);
    }
    if (r == 0)
        r = add_view(e, &sql, "main", index, err);
    if (r == 0)
        r = sql_run(e, buf_cstr(&sql), err);
    return r < 0 ? err_wrap(err, "attaching table '%.100s'", table->name) : 0;
}

/*
 * Names the data set (one with a quote has it doubled), or begins a transaction, whose rollback
 * must not take the schema away.
 */
static bool needs_schema(const struct sql_engine *e, const char *sql)
{
    return strcasestr(sql, e->dataset_id) || strchr(e->dataset_id, '"') ||
           strcasestr(sql, "begin") || strcasestr(sql, "start");
}

int sql_engine_qualify(struct sql_engine *e, const char *sql, struct err *err)
{
    auto_buf struct buf all = BUF_INIT(16 * MAX_SETUP_BYTES);
    if (e->has_schema || !e->dataset_id || is_native_schema(e->dataset_id) || !needs_schema(e, sql))
        return 0;
    int r = buf_append_str(&all, "CREATE SCHEMA memory.", err);
    if (r == 0)
        r = buf_append_quoted(&all, "\"", e->dataset_id, err);
    if (r == 0)
        r = buf_append(&all, ";", 1, err);
    for (size_t i = 0; r == 0 && i < e->n_tables; i++)
        r = add_view(e, &all, e->dataset_id, i, err);
    if (r == 0)
        r = sql_run(e, buf_cstr(&all), err);
    if (r < 0)
        return err_wrap(err, "making the schema of dataset '%.100s'", e->dataset_id);
    e->has_schema = true;
    return 0;
}

/*
 * Sets the lock and holds DuckDB to what it says of it. What it then refuses is in
 * tests/unit/kernel/test_sql.c.
 */
static int lock_engine(struct sql_engine *e, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    auto_chunk duckdb_data_chunk chunk = NULL;

    if (duckdb_query(e->con,
                     "SET enable_external_access=false;SET lock_configuration=true;"
                     "SELECT NOT current_setting('enable_external_access') AND "
                     "current_setting('lock_configuration')",
                     &result) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "locking DuckDB: %s", duckdb_result_error(&result));
    chunk = duckdb_fetch_chunk(result);
    if (!chunk || duckdb_data_chunk_get_size(chunk) != 1 ||
        !*(const bool *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)))
        return err_set(err, ERR_ISOLATION, "DuckDB is not locked");
    return 0;
}

/*
 * Random numbers come from a generator that each connection seeds when it is made. All kernels of a
 * zygote inherit the state of the zygote's, so each makes a connection of its own.
 */
static int connect_again(struct sql_engine *e, struct err *err)
{
    duckdb_connection con = NULL; /* sql_interrupt() may look at e->con at any time */

    if (e->con != e->first_con)
        return 0;
    if (duckdb_connect(e->db, &con) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "connecting to DuckDB failed");
    e->con = con;
    return 0;
}

/* No more than the half of what is free: others need the disk, too. */
static int limit_spill(struct sql_engine *e, const struct sql_setup *setup, struct err *err)
{
    int64_t most = setup->spill_bytes;
    struct statvfs fs;
    char sql[80];

    if (setup->temp_directory && statvfs(setup->temp_directory, &fs) == 0)
        most = MIN_OF(most, (int64_t)(fs.f_bavail * fs.f_frsize / 2));
    snprintf(sql, sizeof(sql), "SET max_temp_directory_size='%" PRId64 "B'", MAX_OF(most, 0));
    return sql_run(e, sql, err);
}

int sql_engine_setup(struct sql_engine *e, const struct sql_setup *setup, struct err *err)
{
    int r;

    if (setup->n_tables > SANDBOX_TABLES_MAX)
        return err_set(err, ERR_VALIDATION, "%zu tables are too many; the maximum is %d",
                       setup->n_tables, SANDBOX_TABLES_MAX);
    r = remember_tables(e, setup, err);
    if (r == 0)
        r = connect_again(e, err);
    if (r == 0)
        r = sql_set_limits(e, setup->memory_bytes, setup->threads, setup->temp_directory, err);
    if (r == 0 && setup->spill_bytes > 0)
        r = limit_spill(e, setup, err);
    for (size_t i = 0; r == 0 && i < setup->n_tables; i++)
        r = attach_table(e, &setup->tables[i], i, err);
    if (r == 0 && setup->written_path) {
        auto_buf struct buf sql = BUF_INIT(MAX_SETUP_BYTES);

        r = buf_append_str(&sql, "SET allowed_paths=[", err);
        if (r == 0)
            r = buf_append_quoted(&sql, "'", setup->written_path, err);
        if (r == 0)
            r = buf_append_str(&sql, "]", err);
        if (r == 0)
            r = sql_run(e, buf_cstr(&sql), err);
    }
    if (r == 0 && setup->has_files)
        r = sql_run(e, "SET allowed_directories=['/workspace/', '/data/', '/tmp/']", err);
    return r < 0 ? r : lock_engine(e, err);
}

/* ---- policy -------------------------------------------------------------------------------------------------------- */

/*
 * The tree of a statement. If DuckDB cannot give one, *ret_failure has its message and the tree
 * stays NULL. The statement has been parsed before, so what fails here is a statement that is no
 * SELECT, or one past some limit.
 */
static int serialize(struct sql_engine *e, const char *sql, size_t len, json_t **ret_tree,
                     char **ret_failure, struct err *err)
{
    auto_result duckdb_result result = { 0 };
    duckdb_data_chunk chunk;
    duckdb_string_t text;
    json_error_t where;
    json_t *tree;
    const char *failure = NULL;

    if (duckdb_bind_varchar_length(e->serialize, 1, sql, len) != DuckDBSuccess)
        return err_set(err, ERR_INTERNAL, "binding a text to json_serialize_sql failed");
    if (duckdb_execute_prepared(e->serialize, &result) != DuckDBSuccess) {
        failure = duckdb_result_error(&result);
        *ret_failure = strdup(failure ? failure : "no reason given");
        return *ret_failure ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
    }
    chunk = duckdb_fetch_chunk(result);
    if (!chunk || duckdb_data_chunk_get_size(chunk) != 1) {
        if (chunk)
            duckdb_destroy_data_chunk(&chunk);
        return err_set(err, ERR_INTERNAL, "json_serialize_sql answered nothing");
    }
    text = ((duckdb_string_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)))[0];
    /*
     * Not json_parse(): a tree is far deeper than any document; jansson's own bound and the
     * policy's hold here.
     */
    tree = json_loadb(duckdb_string_t_data(&text), duckdb_string_t_length(text),
                      JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL /* constants may be of 128 bits */,
                      &where);
    duckdb_destroy_data_chunk(&chunk);
    if (!tree && json_error_code(&where) != json_error_stack_overflow)
        failure =
            "the query holds a constant that cannot be checked; write it as a text and cast it";
    else if (!tree)
        failure =
            "the query is nested too deeply; split it into several WITH parts or shorter expressions";
    else if (!json_is_false(json_object_get(tree, "error"))) {
        failure = json_string_value(json_object_get(tree, "error_message"));
        failure = failure ? failure : "no reason given";
    }
    if (failure) {
        *ret_failure = strdup(failure);
        json_decref(tree);
        return *ret_failure ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for a message");
    }
    *ret_tree = tree;
    return 0;
}

/*
 * The first word of a statement, in lower case, to know what was meant. Comments before it hide it;
 * the message is then general.
 */
static void first_word(const char *sql, char *ret, size_t size)
{
    size_t n = 0;

    while (*sql && strchr(" \t\r\n(", *sql))
        sql++;
    for (; n + 1 < size && ((*sql | 32) >= 'a' && (*sql | 32) <= 'z'); sql++)
        ret[n++] = (char)(*sql | 32);
    ret[n] = '\0';
}

static void refuse(struct result *out, const char *message)
{
    result_fail(out, WIRE_VERDICT_POLICY, "SQL_POLICY_VIOLATION", message);
}

/* The message for a statement that has no tree because it is no SELECT. */
static const char *not_a_select(const char *sql)
{
    char word[16];

    first_word(sql, word, sizeof(word));
    return str_eq(word, "explain") ?
               "Only SELECT/WITH queries are allowed. Leave out EXPLAIN to run the query itself." :
               "Only SELECT/WITH queries are allowed. The tables are read-only: ask for what you need with "
               "SELECT, or make new tables in Python.";
}

/* 1 when a failure was written to out, 0 when the statement may run. */
static int check_policy(struct sql_engine *e, const struct sql_request *req, struct result *out,
                        struct err *err)
{
    struct sql_policy policy = { .dataset_id = e->dataset_id,
                                 .tables = (const char *const *)e->tables,
                                 .n_tables = e->n_tables };
    auto_json json_t *tree = NULL;
    auto_free char *failure = NULL;
    struct err refusal = ERR_INIT;
    int r = serialize(e, req->sql, req->sql_len, &tree, &failure, err);

    if (r < 0)
        return r;
    if (!tree) {
        enum sql_failure kind = sql_classify(e, failure);

        if (kind == SQL_INTERRUPTED)
            result_fail(out, WIRE_VERDICT_INTERRUPTED, "SQL_EXECUTION_ERROR",
                        "the query was interrupted");
        else if (kind == SQL_NO_MEMORY)
            result_fail(out, WIRE_VERDICT_MEMORY, "SQL_EXECUTION_ERROR", failure);
        else
            refuse(out,
                   strstr(failure, "Only SELECT statements") ? not_a_select(req->sql) : failure);
        return 1;
    }
    r = sql_policy_check(&policy, tree, &refusal);
    if (r == -ERR_NOT_FOUND)
        result_fail(out, WIRE_VERDICT_ERROR, "SQL_EXECUTION_ERROR", refusal.message);
    else if (r < 0)
        refuse(out, refusal.message);
    if (r < 0)
        return 1;
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------------------------------ */

/* What is wrong with the text itself; NULL if nothing is. */
static const char *check_text(const struct sql_request *req)
{
    if (req->sql_len > CODE_MAX_BYTES)
        return "the SQL text is longer than 1 MB; put large lists of values into a table (a CSV file) and join with it";
    if (memchr(req->sql, '\0', req->sql_len))
        return "the SQL text has a NUL byte in it; remove it";
    if (!str_is_utf8(req->sql, req->sql_len))
        return "the SQL text is not UTF-8; send it in that encoding";
    return NULL;
}

/* The statements of a text that may run. 1 when a failure was written to out. */
static int extract_statements(struct sql_engine *e, const struct sql_request *req, const char *text,
                              duckdb_extracted_statements *ret, idx_t *ret_n, struct result *out,
                              struct err *err)
{
    idx_t n = duckdb_extract_statements(e->con, text, ret);
    const char *message = *ret ? duckdb_extract_statements_error(*ret) : NULL;
    char word[16];

    if (n == 0 && message) {
        int r = sql_write_failure(e, message, out, err);
        return r < 0 ? r : 1;
    }
    if (n == 0) {
        result_fail(out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", "SQL query is required");
        return 1;
    }
    if (req->policy && n > 1) {
        first_word(text, word, sizeof(word));
        /* DuckDB splits a PIVOT that must look up its values into several statements. */
        refuse(
            out,
            str_eq(word, "pivot") ?
                "this PIVOT would have to look up its values first; list them: "
                "PIVOT t ON column IN ('a', 'b') USING sum(x), and send one statement" :
                "Multiple SQL statements are not allowed. Send them one by one, or combine them with WITH.");
        return 1;
    }
    *ret_n = n;
    return req->policy ? check_policy(e, req, out, err) : 0;
}

/* 1 when a failure was written to out. */
static int prepare_statement(struct sql_engine *e, const struct sql_request *req,
                             duckdb_extracted_statements statements, idx_t i,
                             duckdb_prepared_statement *ret, struct result *out, struct err *err)
{
    if (duckdb_prepare_extracted_statement(e->con, statements, i, ret) != DuckDBSuccess) {
        int r = sql_write_failure(e, *ret ? duckdb_prepare_error(*ret) : NULL, out, err);
        return r < 0 ? r : 1;
    }
    if (req->policy && duckdb_prepared_statement_type(*ret) != DUCKDB_STATEMENT_TYPE_SELECT) {
        refuse(out, "Only SELECT/WITH queries are allowed.");
        return 1;
    }
    return 0;
}

int sql_prepare_select(struct sql_engine *e, const char *sql, duckdb_prepared_statement *ret,
                       struct result *out, struct err *err)
{
    const struct sql_request req = { .sql = sql, .sql_len = strlen(sql), .policy = true };
    const char *problem = check_text(&req);
    auto_extracted duckdb_extracted_statements statements = NULL;
    idx_t n = 0;

    if (problem) {
        result_fail(out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", problem);
        return 1;
    }
    int r = sql_engine_qualify(e, sql, err);
    if (r == 0)
        r = extract_statements(e, &req, sql, &statements, &n, out, err);
    return r == 0 ? prepare_statement(e, &req, statements, 0, ret, out, err) : r;
}

static int execute_statements(struct sql_engine *e, const struct sql_request *req, const char *text,
                              struct result *out, struct err *err)
{
    auto_extracted duckdb_extracted_statements statements = NULL;
    idx_t n = 0;
    int r = extract_statements(e, req, text, &statements, &n, out, err);

    if (r != 0)
        return r < 0 ? r : 0;
    /*
     * Of several statements (Python's sql() only) the last one's result counts, or the first
     * failure.
     */
    for (idx_t i = 0; i < n; i++) {
        auto_prepared duckdb_prepared_statement statement = NULL;

        r = prepare_statement(e, req, statements, i, &statement, out, err);
        if (r != 0)
            return r < 0 ? r : 0;
        r = sql_run_statement(e, statement, req, out, err);
        if (r < 0 || out->verdict != WIRE_VERDICT_OK)
            return r;
    }
    return 0;
}

int sql_execute(struct sql_engine *e, const struct sql_request *req, struct result *ret,
                struct err *err)
{
    auto_free char *text = NULL;
    const char *problem = check_text(req);
    int r;

    if (problem) {
        result_fail(ret, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", problem);
        return 0;
    }
    text = strndup(req->sql, req->sql_len);
    if (!text)
        return err_set(err, ERR_NO_MEMORY, "out of memory for the SQL text");
    r = sql_engine_qualify(e, text, err);
    if (r < 0)
        return r;
    sql_begin(e);
    r = execute_statements(e, req, text, ret, err);
    sql_end(e);
    return r;
}
