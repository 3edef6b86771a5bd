/*
 * What every store promises to an event loop: callbacks, group commit, closing. Run over every
 * backend of this build.
 */

#include "store/support.h"

#include "base/clock.h"
#include "base/json.h"

static struct place place;
static struct store *store; /* of the place */
static struct err err;

static int setup(void **state)
{
    place_make(&place);
    place_open(&place, *state);
    store = place.store;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    place_remove(&place);
    return 0;
}

static void test_callbacks_come_later_and_once(void **state)
{
    (void)state;
    struct told put = { 0 }, conflict = { 0 }, got = { .type = RECORD_CAPSULE }, missing = { 0 },
                list = { .type = RECORD_CAPSULE }, bytes = { 0 }, removed = { 0 };
    struct capsule c = sample_capsule("r-1", "ann");
    assert_works(store_put_capsule(store, &c, STORE_CREATE, tell_done, &put, &err), &err);
    assert_works(store_put_capsule(store, &c, STORE_CREATE, tell_done, &conflict, &err), &err);
    assert_int_equal(put.calls + conflict.calls, 0);
    uv_run(&place.loop, UV_RUN_DEFAULT); /* ends by itself: an idle store does not hold it */
    assert_int_equal(put.calls, 1);
    assert_int_equal(put.err.code, ERR_NONE);
    assert_int_equal(put.value, 1);
    assert_int_equal(conflict.calls, 1);
    assert_int_equal(conflict.err.code, ERR_CONFLICT);

    assert_works(store_get(store, RECORD_CAPSULE, "ann", "r-1", tell_read, &got, &err), &err);
    assert_works(store_get(store, RECORD_CAPSULE, "bob", "r-1", tell_read, &missing, &err), &err);
    assert_works(store_list(store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" },
                            tell_read, &list, &err),
                 &err);
    assert_works(store_upload_bytes(store, "ann", tell_done, &bytes, &err), &err);
    assert_works(store_remove(store, RECORD_CAPSULE, "bob", "r-1", tell_done, &removed, &err),
                 &err);
    assert_int_equal(got.calls + missing.calls + list.calls + bytes.calls + removed.calls, 0);
    uv_run(&place.loop, UV_RUN_DEFAULT);
    assert_int_equal(got.calls, 1);
    assert_string_equal(got.text, "r-1");
    assert_string_equal(list.text, "r-1");
    assert_int_equal(missing.calls, 1);
    assert_int_equal(missing.err.code, ERR_NOT_FOUND);
    assert_int_equal(bytes.calls, 1);
    assert_int_equal(bytes.value, 0);
    assert_int_equal(removed.err.code, ERR_NOT_FOUND);
}

static void test_one_bad_write_does_not_spoil_the_others(void **state)
{
    (void)state;
    struct told told[30] = { 0 };
    for (int i = 0; i < 30; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%02d", i);
        struct capsule c = sample_capsule(id, "ann");
        struct message m = sample_message("nowhere", "ann", "hello");
        if (i % 3 == 1)
            c.plan_json = "{";
        if (i % 3 == 2)
            assert_works(store_append_message(store, &m, tell_done, &told[i], &err), &err);
        else
            assert_works(store_put_capsule(store, &c, STORE_PUT, tell_done, &told[i], &err), &err);
    }
    uv_run(&place.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 30; i++) {
        const enum err_code want[] = { ERR_NONE, ERR_VALIDATION, ERR_NOT_FOUND };
        assert_int_equal(told[i].calls, 1);
        assert_int_equal(told[i].err.code, want[i % 3]);
    }
    assert_string_equal(list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }),
                        "r27 r24 r21 r18 r15 r12 r09 r06 r03 r00");
}

/* A batch that is refused half-way shares its transaction with others, which are kept. */
static void test_a_refused_batch_does_not_spoil_the_others(void **state)
{
    (void)state;
    struct told told[12] = { 0 };
    struct message lost = sample_message("nowhere", "ann", "hello");
    for (int i = 0; i < 12; i++) {
        char first[16], second[16];
        snprintf(first, sizeof(first), "r%02d-a", i);
        snprintf(second, sizeof(second), "r%02d-b", i);
        struct capsule a = sample_capsule(first, "ann"), b = sample_capsule(second, "ann");
        const struct store_put puts[] = { { RECORD_CAPSULE, &a, STORE_CREATE },
                                          { RECORD_CAPSULE, &b, STORE_CREATE },
                                          { RECORD_MESSAGE, &lost, STORE_PUT } };
        assert_works(store_put_batch(store, puts, i % 3 == 1 ? 3 : 2, tell_done, &told[i], &err),
                     &err);
    }
    uv_run(&place.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(told[i].calls, 1);
        assert_int_equal(told[i].err.code, i % 3 == 1 ? ERR_NOT_FOUND : ERR_NONE);
    }
    assert_string_equal(
        list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }),
        "r11-b r11-a r09-b r09-a r08-b r08-a r06-b r06-a r05-b r05-a r03-b r03-a r02-b r02-a r00-b r00-a");
}

#define WRITERS 64
#define PUTS_PER_WRITER 50

struct putter {
    int index, left, failures;
    char result[2048];
};

static void put_next(struct putter *w);

static void on_put(const struct err *e, int64_t value, void *arg)
{
    struct putter *w = arg;
    (void)value;
    w->failures += e != NULL;
    if (--w->left > 0)
        put_next(w);
}

static void put_next(struct putter *w)
{
    char id[32];
    snprintf(id, sizeof(id), "r-%d-%d", w->index, w->left);
    struct capsule c = sample_capsule(id, "ann");
    c.question = "top 5 categories by spend";
    c.compiled_sql =
        "SELECT category, sum(price) FROM order_items GROUP BY 1 ORDER BY 2 DESC LIMIT 5";
    c.result_json = w->result;
    assert_works(store_put_capsule(store, &c, STORE_PUT, on_put, w, &err), &err);
}

static void test_writes_at_once_share_transactions(void **state)
{
    (void)state;
    static struct putter writers[WRITERS];
    int64_t start_us = clock_now_us();
    for (int i = 0; i < WRITERS; i++) {
        struct putter *w = &writers[i];
        *w = (struct putter){ .index = i, .left = PUTS_PER_WRITER };
        memset(w->result, '0', sizeof(w->result) - 1);
        w->result[0] = w->result[sizeof(w->result) - 2] = '"';
        put_next(w);
    }
    uv_run(&place.loop, UV_RUN_DEFAULT);
    double seconds = (double)(clock_now_us() - start_us) / 1e6;
    struct store_stats stats;
    store_stats(store, &stats);
    print_message(
        "%s: %d writers, %.0f puts/s in %d transactions, commit %.2f ms, put %.2f ms on average\n",
        store_provider(store), WRITERS, WRITERS * PUTS_PER_WRITER / seconds, (int)stats.commits,
        (double)stats.commit.sum_us / 1e3 / (double)stats.commit.count,
        (double)stats.write.sum_us / 1e3 / (double)stats.write.count);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(writers[i].left, 0);
        assert_int_equal(writers[i].failures, 0);
    }
    assert_int_equal(stats.writes, WRITERS * PUTS_PER_WRITER);
    assert_int_equal(stats.write.count, WRITERS * PUTS_PER_WRITER);
    assert_int_equal(stats.write_errors, 0);
    assert_int_equal(stats.queued_writes, 0);
    /* All writers but the first wait together for its sync: far fewer transactions than writes. */
    assert_true(stats.commits < WRITERS * PUTS_PER_WRITER / 4);
    uint64_t sum = 0;
    for (size_t i = 0; i <= STORE_BUCKETS; i++)
        sum += stats.write.counts[i];
    assert_int_equal(sum, stats.write.count);
    auto_free char *last = fetched(store, RECORD_CAPSULE, "ann", "r-63-1");
    assert_non_null(strstr(last, "top 5 categories"));
}

static json_t *many(int n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(rows, json_integer(i));
    return json_pack("{s:o}", "rows", rows);
}

/* Beside the loop when they are large; what is too large is told as an error. */
static void test_results_are_written_as_text(void **state)
{
    (void)state;
    const int sizes[] = { 3, 20000 };
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct told put = { 0 };
        struct store_page page;
        struct capsule c = sample_capsule(i == 0 ? "small" : "large", "ann");
        auto_json json_t *result = many(sizes[i]);
        auto_free char *text = json_to_str(result);
        c.result_json = NULL;
        c.result = result;
        assert_works(store_put_capsule(store, &c, STORE_CREATE, tell_done, &put, &err), &err);
        assert_int_equal(put.calls, 0);
        uv_run(&place.loop, UV_RUN_DEFAULT);
        assert_int_equal(put.err.code, ERR_NONE);
        assert_works(store_get_wait(store, RECORD_CAPSULE, "ann", c.run_id, &page, &err), &err);
        assert_string_equal(page.capsules[0].result_json, text);
        store_page_finish(&page);
    }
    struct told refused = { 0 };
    struct capsule c = sample_capsule("huge", "ann");
    auto_free char *text = malloc((33 << 20) + 1);
    memset(text, 'x', 33 << 20);
    text[33 << 20] = '\0';
    auto_json json_t *huge = json_string(text);
    c.result_json = NULL;
    c.result = huge;
    assert_works(store_put_capsule(store, &c, STORE_CREATE, tell_done, &refused, &err), &err);
    uv_run(&place.loop, UV_RUN_DEFAULT);
    assert_int_equal(refused.calls, 1);
    assert_int_equal(refused.err.code, ERR_TOO_LARGE);
}

static void test_close_does_what_was_handed_in(void **state)
{
    static struct told told[200];
    auto_json json_t *large = many(20000);
    memset(told, 0, sizeof(told));
    for (int i = 0; i < 200; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%03d", i);
        struct capsule c = sample_capsule(id, "ann");
        if (i % 20 == 0)
            c.result = large;
        assert_works(store_put_capsule(store, &c, STORE_PUT, tell_done, &told[i], &err), &err);
    }
    store_close(store);
    place.store = NULL;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(told[i].calls, 1);
        assert_int_equal(told[i].err.code, ERR_NONE);
    }
    uv_run(&place.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&place.loop), 0);
    place_open(&place, *state);
    store = place.store;
    struct store_page page;
    assert_works(store_list_wait(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "ann", .limit = 200 }, &page,
                                 &err),
                 &err);
    assert_int_equal(page.n, 200);
    store_page_finish(&page);
}

static void test_without_a_loop(void **state)
{
    struct store *plain;
    char path[128];
    snprintf(path, sizeof(path), "%s/made/by/open/riddle.db", place.dir);
    const struct store_options options = { .provider = *state, .path = path };
    assert_works(store_open(&options, NULL, &plain, &err), &err);
    struct capsule c = sample_capsule("r-1", "ann");
    keep(plain, RECORD_CAPSULE, &c);
    assert_string_equal(list_ids(plain, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }),
                        "r-1");
    store_close(plain);
    store_close(NULL);
}

static void test_unknown_provider(void **state)
{
    (void)state;
    struct store *none;
    const struct store_options options = { .provider = "tape", .path = "/nowhere" };
    assert_fails(store_open(&options, NULL, &none, &err), &err, ERR_CONFIG,
                 "there is no store 'tape' in this build");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    int failed = 0;
    for (size_t i = 0; store_provider_name(i); i++) {
        struct CMUnitTest tests[] = {
            TEST(test_callbacks_come_later_and_once),
            TEST(test_one_bad_write_does_not_spoil_the_others),
            TEST(test_a_refused_batch_does_not_spoil_the_others),
            TEST(test_writes_at_once_share_transactions),
            TEST(test_results_are_written_as_text),
            TEST(test_close_does_what_was_handed_in),
            TEST(test_without_a_loop),
            TEST(test_unknown_provider),
        };
        for (size_t t = 0; t < ARRAY_SIZE(tests); t++)
            tests[t].initial_state = (void *)store_provider_name(i);
        failed += cmocka_run_group_tests_name(store_provider_name(i), tests, NULL, NULL);
    }
    return failed;
}
