/*
 * The SQL of plans on a real DuckDB: every golden one, and thousands of random plans. What the
 * check accepts must run, must pass the policy that guards a user's SQL, and must compile to the
 * same text each time.
 */

#include "plan/golden.h"

#include <duckdb.h>

#include "plan/random_plan.h"
#include "plan/sql_policy.h"

#define ROWS_OF_A_TABLE 12
#ifndef RANDOM_PLANS
#define RANDOM_PLANS 2000
#endif

static duckdb_database database;
static duckdb_connection connection;

/* ---- the tables of tests/golden/registry.json, with a few rows ---- */

static const char *sql_type(const struct plan_column *c)
{
    static const char *const types[_PLAN_TYPE_MAX] = {
        [TYPE_INTEGER] = "BIGINT",  [TYPE_NUMBER] = "DOUBLE",       [TYPE_TEXT] = "VARCHAR",
        [TYPE_DATE] = "DATE",       [TYPE_TIMESTAMP] = "TIMESTAMP", [TYPE_BOOL] = "BOOLEAN",
        [TYPE_OTHER] = "VARCHAR[]",
    };
    return str_starts(c->type_name, "DECIMAL") ? c->type_name : types[c->type];
}

/*
 * Every fifth value of a column is missing; keys of rows come in small numbers, so that joins meet.
 */
static void put_cell(struct buf *b, const struct plan_column *c, int row, int column)
{
    static const char *const words[] = { "completed", "returned", "50%_off", "it's",
                                         "Toys",      "",         "Critical" };
    int k = row * 7 + column * 3;
    struct err err = ERR_INIT;

    if (k % 5 == 4) {
        assert_works(buf_append_str(b, "NULL", &err), &err);
        return;
    }
    switch (c->type) {
    case TYPE_INTEGER:
        assert_works(buf_printf(b, &err, "%d", k % 9), &err);
        return;
    case TYPE_NUMBER:
        assert_works(buf_printf(b, &err, "%d.25", k % 97 - 20), &err);
        return;
    case TYPE_DATE:
        assert_works(buf_printf(b, &err, "DATE '2025-%02d-%02d'", k % 12 + 1, k % 28 + 1), &err);
        return;
    case TYPE_TIMESTAMP:
        assert_works(buf_printf(b, &err, "TIMESTAMP '2025-%02d-%02d %02d:30:00'", k % 12 + 1,
                                k % 28 + 1, k % 24),
                     &err);
        return;
    case TYPE_BOOL:
        assert_works(buf_append_str(b, k % 2 ? "TRUE" : "FALSE", &err), &err);
        return;
    case TYPE_OTHER:
        assert_works(buf_append_str(b, "['a', 'b']", &err), &err);
        return;
    default:
        break;
    }
    assert_works(buf_append_str(b, "'", &err), &err);
    for (const char *s = words[(size_t)k % ARRAY_SIZE(words)]; *s; s++)
        assert_works(buf_append_str(b, *s == '\'' ? "''" : (char[]){ *s, '\0' }, &err), &err);
    assert_works(buf_append_str(b, "'", &err), &err);
}

static void run_plainly(const char *sql)
{
    duckdb_result result;

    if (duckdb_query(connection, sql, &result) != DuckDBSuccess)
        fail_msg("%s\n%s", duckdb_result_error(&result), sql);
    duckdb_destroy_result(&result);
}

static void create_table(const struct plan_table *t)
{
    auto_buf struct buf sql = BUF_INIT(1u << 16);
    struct err err = ERR_INIT;

    assert_works(buf_append_str(&sql, "CREATE TABLE ", &err), &err);
    put_name(&sql, t->name);
    for (size_t i = 0; i < t->n_columns; i++) {
        assert_works(buf_append_str(&sql, i ? ", " : " (", &err), &err);
        put_name(&sql, t->columns[i].name);
        assert_works(buf_printf(&sql, &err, " %s", sql_type(&t->columns[i])), &err);
    }
    assert_works(buf_append_str(&sql, ")", &err), &err);
    run_plainly(buf_cstr(&sql));

    buf_clear(&sql);
    assert_works(buf_append_str(&sql, "INSERT INTO ", &err), &err);
    put_name(&sql, t->name);
    for (int row = 0; row < ROWS_OF_A_TABLE; row++) {
        assert_works(buf_append_str(&sql, row ? "), (" : " VALUES (", &err), &err);
        for (size_t i = 0; i < t->n_columns; i++) {
            if (i > 0)
                assert_works(buf_append_str(&sql, ", ", &err), &err);
            put_cell(&sql, &t->columns[i], row, (int)i);
        }
    }
    assert_works(buf_append_str(&sql, ")", &err), &err);
    run_plainly(buf_cstr(&sql));
}

static const char *const datasets[] = { "ecommerce", "support", "sensors", "odd" };

static int open_database(void **state)
{
    auto_arena struct arena a;

    (void)state;
    arena_init(&a, 1u << 20);
    assert_int_equal(duckdb_open(NULL, &database), DuckDBSuccess);
    assert_int_equal(duckdb_connect(database, &connection), DuckDBSuccess);
    run_plainly("SET threads = 1");
    for (size_t i = 0; i < ARRAY_SIZE(datasets); i++) {
        const struct plan_schema *schema = golden_schema(datasets[i], &a);
        for (size_t k = 0; k < schema->n_tables; k++)
            create_table(&schema->tables[k]);
    }
    return 0;
}

static int close_database(void **state)
{
    (void)state;
    duckdb_disconnect(&connection);
    duckdb_close(&database);
    return 0;
}

/* ---- running what was compiled ---- */

/* The tree that the policy looks at, by the engine's own parser, read as the kernel reads it. */
static json_t *tree_of(const char *sql)
{
    duckdb_prepared_statement statement;
    duckdb_result result;
    json_error_t where;

    assert_int_equal(duckdb_prepare(connection,
                                    "SELECT json_serialize_sql($1::VARCHAR, skip_null := true, "
                                    "skip_empty := true, skip_default := true)::VARCHAR",
                                    &statement),
                     DuckDBSuccess);
    assert_int_equal(duckdb_bind_varchar(statement, 1, sql), DuckDBSuccess);
    assert_int_equal(duckdb_execute_prepared(statement, &result), DuckDBSuccess);
    char *text = duckdb_value_varchar(&result, 0, 0);
    json_t *tree = json_loads(text, JSON_DECODE_INT_AS_REAL, &where);
    if (!tree)
        print_error("%s\n", where.text);
    duckdb_free(text);
    duckdb_destroy_result(&result);
    duckdb_destroy_prepare(&statement);
    assert_non_null(tree);
    return tree;
}

/* Runs it as a user's SQL would; the number of rows, or -1 with what went wrong printed. */
static long long run_guarded(const char *sql, const struct plan_schema *schema)
{
    const char *tables[16];
    struct sql_policy policy = { .tables = tables, .n_tables = schema->n_tables };
    auto_json json_t *tree = tree_of(sql);
    duckdb_result result;
    struct err err = ERR_INIT;
    long long rows = -1;

    assert_true(schema->n_tables <= ARRAY_SIZE(tables));
    for (size_t i = 0; i < schema->n_tables; i++)
        tables[i] = schema->tables[i].name;
    if (sql_policy_check(&policy, tree, &err) < 0) {
        print_error("the policy refuses it: %s\n", err.message);
        return -1;
    }
    if (duckdb_query(connection, sql, &result) == DuckDBSuccess)
        rows = (long long)duckdb_row_count(&result);
    else
        print_error("%s\n", duckdb_result_error(&result));
    duckdb_destroy_result(&result);
    return rows;
}

static void test_golden_plans_run(void **state)
{
    struct golden_names names;
    size_t with_rows = 0;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    for (size_t i = 0; i < names.n; i++) {
        auto_json json_t *plan = golden_json(GOLDEN_PLANS, names.stems[i]);
        auto_free char *sql = golden_text(GOLDEN_PLANS, names.stems[i], ".sql");
        auto_arena struct arena a;

        arena_init(&a, 1u << 20);
        long long rows = run_guarded(sql, golden_schema(golden_dataset(plan), &a));
        if (rows < 0)
            fail_msg("%s does not run:\n%s", names.stems[i], sql);
        with_rows += rows > 0;
    }
    assert_true(with_rows > names.n / 2);
    golden_finish(&names);
}

/* The escape of LIKE finds what it should and nothing else. */
static void test_like_escape(void **state)
{
    static const struct {
        const char *op, *value;
        long long rows;
    } cases[] = {
        { "contains", "0%_", 1 },   { "contains", "%", 1 },    { "contains", "_", 1 },
        { "startswith", "50%", 1 }, { "endswith", "_off", 1 }, { "contains", "\\", 1 },
        { "contains", "5__", 0 },   { "contains", "it's", 1 }, { "endswith", "%", 0 },
        { "not_contains", "%", 3 }, { "contains", "", 4 },
    };
    auto_json json_t *schema_json = json_pack("{s:{s:{s:s}}}", "tables", "likes", "v", "string");
    auto_arena struct arena a;
    struct plan_schema *schema;
    struct err err = ERR_INIT;

    (void)state;
    arena_init(&a, 1u << 20);
    assert_works(plan_schema_parse(schema_json, NULL, &a, &schema, &err), &err);
    run_plainly(
        "CREATE TABLE likes AS SELECT * FROM (VALUES ('50%_off'), ('50xyoff'), ('it''s'), ('a\\b')) t(v)");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *j = json_pack("{s:s, s:s, s:[{s:s, s:s, s:s}]}", "dataset_id", "d",
                                        "table", "likes", "filters", "column", "v", "op",
                                        cases[i].op, "value", cases[i].value);
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        struct query_plan *plan;

        assert_works(plan_parse(j, &a, &plan, &err), &err);
        assert_works(plan_compile(plan, schema, &sql, &err), &err);
        assert_int_equal(run_guarded(buf_cstr(&sql), schema), cases[i].rows);
    }
    run_plainly("DROP TABLE likes");
}

/* ---- random plans ---- */

static void test_random_plans_run(void **state)
{
    const struct plan_schema *schemas[ARRAY_SIZE(datasets)];
    auto_arena struct arena schema_arena;
    long long rows = 0;

    (void)state;
    arena_init(&schema_arena, 1u << 20);
    for (size_t i = 0; i < ARRAY_SIZE(datasets); i++)
        schemas[i] = golden_schema(datasets[i], &schema_arena);
    for (unsigned seed = 1; seed <= RANDOM_PLANS; seed++) {
        struct generator g = { .state = seed * 0x9e3779b97f4a7c15u };
        const struct plan_schema *schema;
        auto_json json_t *j = random_plan(&g, schemas, &schema);
        auto_free char *shown = json_to_str(j);
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        auto_buf struct buf again = BUF_INIT(PLAN_SQL_MAX_BYTES);
        auto_arena struct arena a;
        struct query_plan *plan, *copy;
        struct err err = ERR_INIT;

        arena_init(&a, PLAN_ARENA_BYTES);
        if (plan_parse(j, &a, &plan, &err) < 0 || plan_compile(plan, schema, &sql, &err) < 0)
            fail_msg("seed %u: %s\n%s", seed, err.message, shown);
        long long n = run_guarded(buf_cstr(&sql), schema);
        if (n < 0)
            fail_msg("seed %u:\n%s\n%s", seed, shown, buf_cstr(&sql));
        assert_true(n <= plan->limit);
        rows += n;

        auto_json json_t *back = plan_to_json(plan);
        if (plan_parse(back, &a, &copy, &err) < 0 || plan_compile(copy, schema, &again, &err) < 0)
            fail_msg("seed %u: written back it fails: %s\n%s", seed, err.message, shown);
        assert_string_equal(buf_cstr(&sql), buf_cstr(&again));
    }
    /* Plans that all find nothing would prove little. */
    assert_true(rows > RANDOM_PLANS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_plans_run),
        cmocka_unit_test(test_like_escape),
        cmocka_unit_test(test_random_plans_run),
    };

    return cmocka_run_group_tests(tests, open_database, close_database);
}
