/* Plans at their limits, schemas in their forms, and the small functions beside the compiler. */

#include "plan/golden.h"

static json_t *parse(const char *text)
{
    struct err err = ERR_INIT;
    json_t *j = NULL;

    assert_works(json_parse(text, strlen(text), &j, &err), &err);
    return j;
}

/* The plan of a text whose quotes are written as '. */
static struct query_plan *plan_of(const char *text, struct arena *a)
{
    auto_free char *copy = strdup(text);
    struct query_plan *plan = NULL;
    struct err err = ERR_INIT;

    for (char *s = copy; *s; s++)
        if (*s == '\'')
            *s = '"';
    auto_json json_t *j = parse(copy);
    assert_works(plan_parse(j, a, &plan, &err), &err);
    return plan;
}

static bool broad(const char *text)
{
    auto_arena struct arena a;
    arena_init(&a, PLAN_ARENA_BYTES);
    return plan_is_broad(plan_of(text, &a));
}

static void test_broad(void **state)
{
    auto_buf struct buf wide = BUF_INIT(10000);
    struct err err = ERR_INIT;

    (void)state;
    assert_false(broad("{'dataset_id': 'd', 'table': 't'}"));
    assert_false(broad("{'dataset_id': 'd', 'table': 't', 'limit': 200}"));
    assert_true(broad("{'dataset_id': 'd', 'table': 't', 'limit': 201}"));
    assert_false(broad("{'dataset_id': 'd', 'table': 't', 'limit': 1000,"
                       " 'filters': [{'column': 'a', 'op': 'is_null'}]}"));
    assert_false(broad("{'dataset_id': 'd', 'table': 't', 'limit': 1000,"
                       " 'select': [{'func': 'count', 'column': '*', 'alias': 'n'}]}"));
    assert_false(broad("{'dataset_id': 'd', 'table': 't', 'limit': 1000,"
                       " 'select': [{'expr': '1 + sum(a)'}]}"));
    for (int n = 20; n <= 21; n++) {
        buf_clear(&wide);
        assert_works(buf_append_str(&wide, "{'dataset_id': 'd', 'table': 't', 'select': [", &err),
                     &err);
        for (int i = 0; i < n; i++)
            assert_works(buf_printf(&wide, &err, "%s{'column': 'c%d'}", i ? "," : "", i), &err);
        assert_works(buf_append_str(&wide, "]}", &err), &err);
        assert_int_equal(broad(buf_cstr(&wide)), n > 20);
    }
}

/* Any arena is large enough to say that it is not. */
static void test_small_arenas(void **state)
{
    struct golden_names names;
    size_t refused = 0, accepted = 0;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    for (size_t i = 0; i < names.n; i++) {
        auto_json json_t *j = golden_json(GOLDEN_PLANS, names.stems[i]);

        for (size_t max = 0; max < 8192; max += 512) {
            auto_arena struct arena a;
            struct query_plan *plan;
            struct err err = ERR_INIT;

            arena_init(&a, max);
            if (plan_parse(j, &a, &plan, &err) < 0) {
                assert_int_equal(err.code, ERR_TOO_LARGE);
                assert_non_null(strstr(err.message, "the plan is too large"));
                refused++;
            } else {
                accepted++;
            }
        }
    }
    assert_true(refused > 0 && accepted > 0);
    golden_finish(&names);
}

/* A buffer that is too small for the SQL is left as it was. */
static void test_small_buffers(void **state)
{
    auto_json json_t *j = golden_json(GOLDEN_PLANS, "join-two");
    auto_free char *expected = golden_text(GOLDEN_PLANS, "join-two", ".sql");

    (void)state;
    for (size_t max = 1; max < strlen(expected); max++) {
        auto_buf struct buf sql = BUF_INIT(max);
        struct err err = ERR_INIT;

        if (golden_compile(j, true, &sql, &err) >= 0)
            fail_msg("%zu bytes were enough", max);
        assert_int_equal(err.code, ERR_TOO_LARGE);
        /* Only the newline behind the SQL was too much if the SQL itself is there. */
        if (sql.len > 0)
            assert_int_equal(sql.len, strlen(expected) - 1);
    }
}

/* x1 = a + a, x2 = x1 + x1, …: the text would double with each. */
static void test_aliases_of_aliases(void **state)
{
    auto_buf struct buf text = BUF_INIT(100000);
    struct err err = ERR_INIT;

    (void)state;
    for (int n = 1; n <= 12; n++) {
        auto_arena struct arena a;
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);

        arena_init(&a, PLAN_ARENA_BYTES);
        buf_clear(&text);
        assert_works(
            buf_append_str(
                &text,
                "{'dataset_id': 'd', 'table': 't', 'select': [{'expr': '1 * a', 'alias': 'x0'}",
                &err),
            &err);
        for (int i = 1; i <= n; i++)
            assert_works(
                buf_printf(&text, &err, ",{'expr': 'x%d + x%d', 'alias': 'x%d'}", i - 1, i - 1, i),
                &err);
        assert_works(buf_append_str(&text, "]}", &err), &err);
        struct query_plan *plan = plan_of(buf_cstr(&text), &a);
        if (n <= PLAN_MAX_ALIAS_DEPTH) {
            assert_works(plan_compile(plan, NULL, &sql, &err), &err);
        } else {
            assert_fails(
                plan_compile(plan, NULL, &sql, &err), &err, ERR_VALIDATION,
                "Failed to compile QueryPlan: select[9]: 'x0' leads through more than 8 aliases");
        }
    }
}

/*
 * Many terms in one item, and that item named many times, end as an error, not as a walk without
 * end.
 */
static void test_wide_aliases(void **state)
{
    auto_buf struct buf text = BUF_INIT(200000);
    auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
    auto_arena struct arena a;
    struct err err = ERR_INIT;

    (void)state;
    arena_init(&a, PLAN_ARENA_BYTES);
    assert_works(
        buf_append_str(
            &text, "{'dataset_id': 'd', 'table': 't', 'select': [{'expr': '1 * a', 'alias': 'x0'}",
            &err),
        &err);
    for (int i = 1; i <= 4; i++) {
        assert_works(buf_printf(&text, &err, ",{'alias': 'x%d', 'expr': '0", i), &err);
        for (int k = 0; k < 100; k++)
            assert_works(buf_printf(&text, &err, "+x%d", i - 1), &err);
        assert_works(buf_append_str(&text, "'}", &err), &err);
    }
    assert_works(buf_append_str(&text, "]}", &err), &err);
    struct query_plan *plan = plan_of(buf_cstr(&text), &a);
    assert_fails(plan_compile(plan, NULL, &sql, &err), &err, ERR_VALIDATION,
                 "Failed to compile QueryPlan: select[2]: the plan's expressions are too large");
}

static void test_long_expressions(void **state)
{
    auto_arena struct arena a;
    const struct expr *e;
    struct err err = ERR_INIT;
    char text[EXPR_MAX_BYTES + 2];

    (void)state;
    arena_init(&a, PLAN_ARENA_BYTES);
    memset(text, ' ', sizeof(text));
    text[0] = '1';
    text[EXPR_MAX_BYTES] = '\0';
    assert_works(expr_parse(text, &a, &e, &err), &err);
    text[EXPR_MAX_BYTES] = ' ';
    text[EXPR_MAX_BYTES + 1] = '\0';
    assert_fails(expr_parse(text, &a, &e, &err), &err, ERR_VALIDATION,
                 "an expression may have at most 4000 bytes");
    text[0] = '\0';
    for (int i = 0; i < 202; i++)
        strcat(text, i ? "+1" : "1");
    assert_int_equal(expr_parse(text, &a, &e, &err), -ERR_VALIDATION);
    assert_non_null(strstr(err.message, "column 402: more than 200 operators in one chain"));
}

static void test_doubles(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        { 0, "0.0" },
        { -0.0, "-0.0" },
        { 1, "1.0" },
        { 0.1, "0.1" },
        { 1e15, "1000000000000000.0" },
        { 1e16, "1e+16" },
        { 1e22, "1e+22" },
        { 0.0001, "0.0001" },
        { 0.00001, "1e-05" },
        { 1.0 / 3, "0.3333333333333333" },
        { 123456789.125, "123456789.125" },
        { 5e-324, "5e-324" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { -2.5e-7, "-2.5e-07" },
    };
    char text[EXPR_DOUBLE_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        expr_from_double(cases[i].v, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_plain_names(void **state)
{
    static const char *const plain[] = { "a", "_", "1st", "Größe", "数量", "ціна", "x²", "नाम" };
    static const char *const others[] = { "",           " ",   "a b", "a-b", "a.b", "a\"b", "a;b",
                                          "a\xc2\xa0z", "a—b", "a“b", "€",   "😀",   "\xff" };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        assert_true(expr_is_plain_name(plain[i]));
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(expr_is_plain_name(others[i]));
}

/* ---- schemas ---- */

static void test_type_names(void **state)
{
    static const struct {
        const char *name;
        enum plan_type type;
    } cases[] = {
        { "integer", TYPE_INTEGER },
        { "BIGINT", TYPE_INTEGER },
        { "UBIGINT", TYPE_NUMBER },
        { "HUGEINT", TYPE_NUMBER },
        { "DECIMAL(10,2)", TYPE_NUMBER },
        { "float", TYPE_NUMBER },
        { "string", TYPE_TEXT },
        { "ENUM('a', 'b')", TYPE_TEXT },
        { "date", TYPE_DATE },
        { "datetime", TYPE_TIMESTAMP },
        { "TIMESTAMP WITH TIME ZONE", TYPE_TIMESTAMP },
        { "TIMESTAMP_NS", TYPE_TIMESTAMP },
        { "boolean", TYPE_BOOL },
        { "VARCHAR[]", TYPE_OTHER },
        { "STRUCT(a INTEGER)", TYPE_OTHER },
        { "", TYPE_UNKNOWN },
        { "TIME", TYPE_OTHER },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(plan_type_from_name(cases[i].name), cases[i].type);
}

static void test_schema_forms(void **state)
{
    auto_json json_t *short_form = parse(
        "{\"tables\": {\"a\": {\"x\": \"integer\"}, \"b\": {\"y\": {\"type\": \"date\"}}},"
        " \"relationships\": [{\"from\": \"a.x\", \"to\": \"b.y\"}]}");
    auto_json json_t *one = parse(
        "{\"id\": \"d\", \"files\": [{\"name\": \"a.csv\", \"schema\": {\"x\": {\"type\": \"string\"}}}]}");
    auto_arena struct arena a;
    struct plan_schema *s;
    struct err err = ERR_INIT;

    (void)state;
    arena_init(&a, 1u << 20);
    assert_works(plan_schema_parse(short_form, "any", &a, &s, &err), &err);
    assert_null(s->dataset_id);
    assert_int_equal(s->n_tables, 2);
    assert_int_equal(plan_table_column(plan_schema_table(s, "B"), "Y")->type, TYPE_DATE);
    assert_int_equal(s->n_relationships, 1);
    assert_string_equal(s->relationships[0].to_table, "b");
    assert_string_equal(s->relationships[0].to_column, "y");

    assert_works(plan_schema_parse(one, NULL, &a, &s, &err), &err);
    assert_string_equal(s->dataset_id, "d");
    assert_string_equal(s->tables[0].name, "a");
    struct query_plan *plan = plan_of("{'dataset_id': 'e', 'table': 'a'}", &a);
    assert_fails(plan_check(plan, s, &err), &err, ERR_VALIDATION,
                 "The plan is for dataset 'e', not for 'd'");
}

static void test_bad_schemas(void **state)
{
    static const struct {
        const char *text;
        enum err_code code;
        const char *message;
    } cases[] = {
        { "[]", ERR_VALIDATION, "a schema must be an object, not array" },
        { "{}", ERR_VALIDATION, "a schema must have 'tables' (an object) or 'files' (an array)" },
        { "{\"datasets\": []}", ERR_NOT_FOUND, "no dataset 'd' in the registry" },
        { "{\"tables\": {\"a\": 5}}", ERR_VALIDATION,
          "table 'a' must have an object of columns, not integer" },
        { "{\"tables\": {\"a\": {\"x\": 5}}}", ERR_VALIDATION,
          "column 'x' of table 'a' must be the name of a type or an object, not integer" },
        { "{\"files\": [{}]}", ERR_VALIDATION, "files[0]: 'name' is missing" },
        { "{\"tables\": {}, \"relationships\": [{\"from\": \"a\"}]}", ERR_VALIDATION,
          "relationships[0]: 'from' must be \"table.column\"" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *j = parse(cases[i].text);
        auto_arena struct arena a;
        struct plan_schema *s;
        struct err err = ERR_INIT;

        arena_init(&a, 1u << 20);
        assert_fails(plan_schema_parse(j, "d", &a, &s, &err), &err, (int)cases[i].code,
                     cases[i].message);
    }
}

/* Two ways lead from a to b, and one of a relationship's columns is not there. */
static void test_relationships(void **state)
{
    auto_json json_t *j = parse(
        "{\"tables\": {\"a\": {\"x\": \"integer\", \"y\": \"integer\"}, \"b\": {\"z\": \"integer\"}, \"c\": {}},"
        " \"relationships\": [{\"from\": \"a.x\", \"to\": \"b.z\"}, {\"from\": \"a.y\", \"to\": \"b.z\"},"
        " {\"from\": \"a.x\", \"to\": \"c.none\"}]}");
    auto_arena struct arena a;
    struct plan_schema *s;
    struct err err = ERR_INIT;

    (void)state;
    arena_init(&a, 1u << 20);
    assert_works(plan_schema_parse(j, NULL, &a, &s, &err), &err);
    struct query_plan *two = plan_of("{'dataset_id': 'd', 'table': 'a', 'joins': [{'table': 'b'}]}",
                                     &a);
    assert_fails(plan_check(two, s, &err), &err, ERR_VALIDATION,
                 "joins[0]: More than one relationship leads to 'b'; choose with 'on'");
    struct query_plan *chosen = plan_of(
        "{'dataset_id': 'd', 'table': 'a', 'joins': [{'table': 'b', 'on': 'a.y = b.z'}]}", &a);
    assert_works(plan_check(chosen, s, &err), &err);
    struct query_plan *broken = plan_of(
        "{'dataset_id': 'd', 'table': 'a', 'joins': [{'table': 'c'}]}", &a);
    assert_fails(plan_check(broken, s, &err), &err, ERR_VALIDATION,
                 "joins[0]: The relationship 'a.x' to 'c.none' names an unknown column");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broad),         cmocka_unit_test(test_small_arenas),
        cmocka_unit_test(test_small_buffers), cmocka_unit_test(test_aliases_of_aliases),
        cmocka_unit_test(test_wide_aliases),  cmocka_unit_test(test_long_expressions),
        cmocka_unit_test(test_doubles),       cmocka_unit_test(test_plain_names),
        cmocka_unit_test(test_type_names),    cmocka_unit_test(test_schema_forms),
        cmocka_unit_test(test_bad_schemas),   cmocka_unit_test(test_relationships),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
