/*
 * Plans and their SQL, pair by pair; refused plans and their messages; and that docs/plans.md shows
 * only what is golden.
 */

#include "plan/golden.h"

/* A change of tests/golden that loses its files is not a test that passes. */
#define LEAST_PLANS 40
#define LEAST_REJECTED 100

static void test_plans(void **state)
{
    struct golden_names names;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    assert_true(names.n >= LEAST_PLANS);
    for (size_t i = 0; i < names.n; i++) {
        auto_json json_t *plan = golden_json(GOLDEN_PLANS, names.stems[i]);
        auto_free char *expected = golden_text(GOLDEN_PLANS, names.stems[i], ".sql");
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        struct err err = ERR_INIT;

        print_message("%s\n", names.stems[i]);
        assert_works(golden_compile(plan, true, &sql, &err), &err);
        assert_string_equal(buf_cstr(&sql), expected);
    }
    golden_finish(&names);
}

/* What the plans of old could say needs no schema and has the same text without it. */
static void test_plain_without_schema(void **state)
{
    struct golden_names names;
    size_t n = 0;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    for (size_t i = 0; i < names.n; i++) {
        if (!str_starts(names.stems[i], "plain-"))
            continue;
        auto_json json_t *plan = golden_json(GOLDEN_PLANS, names.stems[i]);
        auto_free char *expected = golden_text(GOLDEN_PLANS, names.stems[i], ".sql");
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        struct err err = ERR_INIT;

        assert_works(golden_compile(plan, false, &sql, &err), &err);
        assert_string_equal(buf_cstr(&sql), expected);
        n++;
    }
    assert_true(n >= 15);
    golden_finish(&names);
}

/* A plan written back as JSON is the same plan, and writing it back again changes nothing. */
static void test_back_to_json(void **state)
{
    struct golden_names names;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    for (size_t i = 0; i < names.n; i++) {
        auto_json json_t *j = golden_json(GOLDEN_PLANS, names.stems[i]);
        auto_free char *expected = golden_text(GOLDEN_PLANS, names.stems[i], ".sql");
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        auto_arena struct arena a;
        struct err err = ERR_INIT;
        struct query_plan *plan;

        arena_init(&a, PLAN_ARENA_BYTES);
        assert_works(plan_parse(j, &a, &plan, &err), &err);
        auto_json json_t *back = plan_to_json(plan);
        assert_non_null(back);
        assert_works(golden_compile(back, true, &sql, &err), &err);
        assert_string_equal(buf_cstr(&sql), expected);
        assert_works(plan_parse(back, &a, &plan, &err), &err);
        auto_json json_t *again = plan_to_json(plan);
        assert_true(json_equal(back, again));
    }
    golden_finish(&names);
}

static void test_rejected(void **state)
{
    struct golden_names names;

    (void)state;
    golden_list(GOLDEN_REJECTED, &names);
    assert_true(names.n >= LEAST_REJECTED);
    for (size_t i = 0; i < names.n; i++) {
        auto_json json_t *test = golden_json(GOLDEN_REJECTED, names.stems[i]);
        const json_t *j = json_object_get(test, "plan");
        const char *message = json_string_value(json_object_get(test, "message"));
        bool with_schema = json_is_true(json_object_get(test, "schema"));
        auto_buf struct buf sql = BUF_INIT(PLAN_SQL_MAX_BYTES);
        auto_arena struct arena a;
        struct err err = ERR_INIT;
        struct query_plan *plan;

        print_message("%s\n", names.stems[i]);
        arena_init(&a, PLAN_ARENA_BYTES);
        if (plan_parse(j, &a, &plan, &err) < 0) {
            assert_int_equal(err.code, ERR_VALIDATION);
            assert_string_equal(err.message, message);
            continue;
        }
        const struct plan_schema *schema = with_schema ? golden_schema(plan->dataset_id, &a) : NULL;
        assert_fails(plan_check(plan, schema, &err), &err, ERR_VALIDATION, message);

        char prefixed[ERR_MESSAGE_MAX + 40];
        snprintf(prefixed, sizeof(prefixed), "Failed to compile QueryPlan: %s", message);
        assert_works(buf_append_str(&sql, "before", &err), &err);
        assert_int_equal(plan_compile(plan, schema, &sql, &err), -ERR_VALIDATION);
        assert_string_equal(err.message, prefixed);
        assert_string_equal(buf_cstr(&sql), "before");
    }
    golden_finish(&names);
}

/* ---- docs/plans.md ---- */

/*
 * The next fenced block of the language behind *at, without its fences; NULL at the end. Moves *at
 * behind it.
 */
static char *next_block(const char **at, const char *language)
{
    char fence[32];
    snprintf(fence, sizeof(fence), "```%s\n", language);
    const char *from = strstr(*at, fence);
    if (!from)
        return NULL;
    from += strlen(fence);
    const char *to = strstr(from, "```");
    assert_non_null(to);
    *at = to + 3;
    return strndup(from, (size_t)(to - from));
}

static void test_examples_of_the_page(void **state)
{
    auto_free char *page = golden_text("docs", "plans", ".md");
    struct golden_names names;
    const char *at = page;
    size_t n = 0;

    (void)state;
    golden_list(GOLDEN_PLANS, &names);
    for (char *block; (block = next_block(&at, "json")) != NULL; n++) {
        auto_free char *text = block;
        auto_json json_t *shown = NULL;
        struct err err = ERR_INIT;
        bool found = false;

        print_message("%s\n", text);
        assert_works(json_parse(text, strlen(text), &shown, &err), &err);
        for (size_t i = 0; i < names.n && !found; i++) {
            auto_json json_t *plan = golden_json(GOLDEN_PLANS, names.stems[i]);

            found = json_equal(plan, shown);
            /* The SQL that follows, if any does before the next example, is its own. */
            const char *next = strstr(at, "```json"), *sql_at = strstr(at, "```sql");
            if (!found || !sql_at || (next && next < sql_at))
                continue;
            auto_free char *sql = next_block(&at, "sql");
            auto_free char *expected = golden_text(GOLDEN_PLANS, names.stems[i], ".sql");
            assert_string_equal(sql, expected);
        }
        assert_true(found);
    }
    assert_true(n >= 5);
    golden_finish(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_plain_without_schema),
        cmocka_unit_test(test_back_to_json),
        cmocka_unit_test(test_rejected),
        cmocka_unit_test(test_examples_of_the_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
