/*
 * What the capsule of a run holds, that its messages go with it, and that it can be made a request
 * again.
 */

#include "base/check.h"

#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "run/capsule.h"

static char dir[64];
static uv_loop_t loop;
static struct store *store;
static struct err err;
static const struct config cfg = { .run_timeout_s = 10,
                                   .max_rows = 200,
                                   .max_output_bytes = 65536 };
static const struct sandbox_limits limits = { .memory_bytes = 512 << 20 };

struct told {
    int calls;
    enum err_code code;
};

static void on_stored(const struct err *e, int64_t value, void *arg)
{
    (void)value;
    struct told *told = arg;
    told->calls++;
    told->code = e ? e->code : ERR_NONE;
}

static int setup(void **state)
{
    (void)state;
    char path[96];
    make_scratch(dir);
    snprintf(path, sizeof(path), "%s/riddle.db", dir);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_works(store_open(&(struct store_options){ .path = path }, &loop, &store, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_works(fd_remove_tree(dir, &err), &err);
    return 0;
}

static struct told keep(const struct capsule_spec *spec, const struct message *messages, size_t n)
{
    struct told told = { 0 };
    assert_works(capsule_store(store, spec, messages, n, on_stored, &told, &err), &err);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.calls, 1);
    return told;
}

static void test_a_capsule_repeats_its_run(void **state)
{
    (void)state;
    const struct run_request asked = { .kind = RUN_PYTHON,
                                       .policy = POLICY_OPEN,
                                       .timeout_ms = 3000,
                                       .max_rows = 17,
                                       .max_output_bytes = 2000 };
    auto_json json_t *result = json_pack("{s:[[i]], s:s, s:i, s:{s:s}}", "rows", 1, "verdict",
                                         "error", "exec_time_ms", 12, "error", "type",
                                         "PYTHON_EXECUTION_ERROR");
    auto_json json_t *usage = json_pack("{s:i}", "cpu_ms", 4);
    const struct capsule_spec spec = { .run_id = "r-1",
                                       .owner = "ann",
                                       .dataset_id = "shop",
                                       .query_mode = "python",
                                       .status = "failed",
                                       .python = "print(1)",
                                       .request = &asked,
                                       .limits = &limits,
                                       .result = result,
                                       .usage = usage };
    assert_int_equal(keep(&spec, NULL, 0).code, ERR_NONE);

    struct store_page page;
    assert_works(store_get_wait(store, RECORD_CAPSULE, "ann", "r-1", &page, &err), &err);
    const struct capsule *c = &page.capsules[0];
    assert_string_equal(c->verdict, "error");
    assert_int_equal(c->exec_time_ms, 12);
    assert_string_equal(c->error_json, "{\"type\":\"PYTHON_EXECUTION_ERROR\"}");
    assert_string_equal(c->usage_json, "{\"cpu_ms\":4}");
    assert_string_equal(
        c->limits_json,
        "{\"python_policy\":\"open\",\"timeout_ms\":3000,\"max_rows\":17,\"max_output_bytes\":2000,"
        "\"memory_bytes\":536870912}");
    assert_null(c->plan_json);
    struct run_request again;
    assert_works(capsule_request(c, &cfg, &again, &err), &err);
    assert_int_equal(again.kind, RUN_PYTHON);
    assert_int_equal(again.policy, POLICY_OPEN);
    assert_string_equal(again.code, "print(1)");
    assert_int_equal(again.code_len, 8);
    assert_int_equal(again.timeout_ms, 3000);
    assert_int_equal(again.max_rows, 17);
    assert_int_equal(again.max_output_bytes, 2000);
    store_page_finish(&page);
}

static void test_what_cannot_be_repeated(void **state)
{
    (void)state;
    struct run_request again;
    const struct capsule talk = { .run_id = "r-1" }, plain = { .compiled_sql = "SELECT 1" };
    const struct capsule bad = { .compiled_sql = "SELECT 1", .limits_json = "{\"max_rows\":0}" };
    assert_fails(capsule_request(&talk, &cfg, &again, &err), &err, ERR_VALIDATION,
                 "this run holds no code to repeat");
    assert_int_equal(capsule_request(&bad, &cfg, &again, &err), -ERR_VALIDATION);
    /* One without limits has those of the settings. */
    assert_works(capsule_request(&plain, &cfg, &again, &err), &err);
    assert_int_equal(again.kind, RUN_SQL);
    assert_int_equal(again.policy, POLICY_RESTRICTED);
    assert_int_equal(again.timeout_ms, 10000);
    assert_int_equal(again.max_rows, 200);
}

static void test_messages_go_with_the_capsule(void **state)
{
    (void)state;
    const struct run_request asked = {
        .kind = RUN_SQL, .timeout_ms = 3000, .max_rows = 17, .max_output_bytes = 2000
    };
    struct thread thread = { .thread_id = "t-1", .owner = "ann", .state = "hot" };
    struct message messages[] = { { .thread_id = "t-1",
                                    .owner = "ann",
                                    .role = "user",
                                    .content = "how many?",
                                    .run_id = "r-2" },
                                  { .thread_id = "t-1",
                                    .owner = "ann",
                                    .role = "assistant",
                                    .content = "three",
                                    .run_id = "r-2" } };
    const struct capsule_spec spec = { .run_id = "r-2",
                                       .owner = "ann",
                                       .dataset_id = "",
                                       .query_mode = "chat",
                                       .status = "succeeded",
                                       .request = &asked,
                                       .limits = &limits,
                                       .thread_id = "t-1" };
    struct store_page page;
    assert_int_equal(keep(&spec, messages, 2).code,
                     ERR_NOT_FOUND); /* no such thread: no capsule either */
    assert_int_equal(store_get_wait(store, RECORD_CAPSULE, "ann", "r-2", &page, &err),
                     -ERR_NOT_FOUND);

    assert_works(store_put_wait(store, RECORD_THREAD, &thread, STORE_CREATE, NULL, &err), &err);
    assert_int_equal(keep(&spec, messages, 2).code, ERR_NONE);
    assert_int_equal(keep(&spec, messages, 2).code, ERR_CONFLICT); /* once, and its messages once */
    const struct store_query q = { .owner = "ann", .thread_id = "t-1" };
    assert_works(store_list_wait(store, RECORD_MESSAGE, &q, &page, &err), &err);
    assert_int_equal(page.n, 2);
    assert_string_equal(page.messages[1].content, "three");
    store_page_finish(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_capsule_repeats_its_run, setup, teardown),
        cmocka_unit_test(test_what_cannot_be_repeated),
        cmocka_unit_test_setup_teardown(test_messages_go_with_the_capsule, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
