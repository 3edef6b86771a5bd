/* Words about data sets and verified questions: what every store promises about them, run over
 * every backend of this build. */

#include "store/support.h"

#include <stdio.h>
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

static struct verified sample(const char *run_id, const char *owner, const char *question)
{
    return (struct verified){ .run_id = run_id,
                              .owner = owner,
                              .dataset_id = "shop",
                              .question = question,
                              .query_mode = "sql",
                              .compiled_sql = "SELECT 1" };
}

static const char *alike(const char *owner, const char *dataset_id, const char *text)
{
    return list_ids(
        store, RECORD_VERIFIED,
        &(struct store_query){ .owner = owner, .dataset_id = dataset_id, .like = text });
}

static void test_alike_questions_come_first(void **state)
{
    (void)state;
    struct verified a = sample("r-a", "ann", "What was the revenue by region in 2025?"),
                    b = sample("r-b", "ann", "How many customers came back?"),
                    c = sample("r-c", "bob", "What was the revenue by region in 2025?"),
                    d = sample("r-d", "ann", "Revenue of all regions");
    d.dataset_id = "other";
    keep(store, RECORD_VERIFIED, &a);
    keep(store, RECORD_VERIFIED, &b);
    keep(store, RECORD_VERIFIED, &c);
    keep(store, RECORD_VERIFIED, &d);
    /* Stems count, accents and case do not; another owner's and another data set's are not found.
     */
    assert_string_equal(alike("ann", "shop", "REVENUES per región"), "r-a");
    assert_string_equal(alike("ann", "shop", "returning customer numbers, how many?"), "r-b");
    assert_string_equal(alike("ann", "other", "revenue"), "r-d");
    assert_string_equal(alike("ann", "shop", "by region: how many customers came back"), "r-b r-a");
    assert_string_equal(alike("ann", "shop", "xylophone"), "");
    assert_string_equal(alike("ann", "shop", ""), "");
    /* What looks like FTS5's own language is words. */
    assert_string_equal(alike("ann", "shop", "region\" OR NEAR(asked:* -^()"), "r-a");
}

static void test_a_question_that_changes_or_goes_is_no_longer_found(void **state)
{
    (void)state;
    struct verified a = sample("r-a", "ann", "revenue by region");
    keep(store, RECORD_VERIFIED, &a);
    a.question = "orders by month";
    keep(store, RECORD_VERIFIED, &a);
    assert_string_equal(alike("ann", "shop", "revenue"), "");
    assert_string_equal(alike("ann", "shop", "months"), "r-a");
    assert_fails(store_remove_wait(store, RECORD_VERIFIED, "bob", "r-a", &err), &err, ERR_NOT_FOUND,
                 "verified question not found");
    assert_works(store_remove_wait(store, RECORD_VERIFIED, "ann", "r-a", &err), &err);
    assert_string_equal(alike("ann", "shop", "months"), "");
}

static void test_a_removed_upload_takes_what_was_said_about_it(void **state)
{
    (void)state;
    struct upload u = sample_upload("f-1", "ann", 10), other = sample_upload("f-2", "ann", 10);
    struct dataset_words w = { .dataset_id = "f-1",
                               .owner = "ann",
                               .words_json = "{\"notes\":[\"n\"]}" };
    struct verified v = sample("r-a", "ann", "revenue by region");
    v.dataset_id = "f-1";
    keep(store, RECORD_UPLOAD, &u);
    keep(store, RECORD_UPLOAD, &other);
    keep(store, RECORD_WORDS, &w);
    keep(store, RECORD_VERIFIED, &v);
    w.dataset_id = "f-2";
    keep(store, RECORD_WORDS, &w);
    assert_works(store_remove_wait(store, RECORD_UPLOAD, "ann", "f-1", &err), &err);
    assert_string_equal(list_ids(store, RECORD_WORDS, &(struct store_query){ .owner = "ann" }),
                        "f-2");
    assert_string_equal(alike("ann", "f-1", "revenue"), "");
    assert_string_equal(list_ids(store, RECORD_VERIFIED, &(struct store_query){ .owner = "ann" }),
                        "");
}

static void test_words_are_replaced_and_shown(void **state)
{
    (void)state;
    struct dataset_words w = { .dataset_id = "shop",
                               .owner = "ann",
                               .words_json = "{\"description\":\"old\"}",
                               .updated_at = "2026-01-31T12:00:00.123+00:00" };
    keep(store, RECORD_WORDS, &w);
    w.words_json = "{\"description\":\"new\"}";
    keep(store, RECORD_WORDS, &w);
    auto_free char *text = fetched(store, RECORD_WORDS, "ann", "shop");
    assert_string_equal(text, "{\"dataset_id\":\"shop\",\"words\":{\"description\":\"new\"},"
                              "\"updated_at\":\"2026-01-31T12:00:00.123+00:00\"}");
    w.words_json = "{";
    assert_fails(store_put_wait(store, RECORD_WORDS, &w, STORE_PUT, NULL, &err), &err,
                 ERR_VALIDATION, "writing: 'words_json' is not JSON");
}

static void test_there_is_a_most_per_data_set(void **state)
{
    (void)state;
    char id[32];
    for (int i = 0; i < STORE_VERIFIED_MAX; i++) {
        snprintf(id, sizeof(id), "r-%d", i);
        struct verified v = sample(id, "ann", "revenue by region");
        keep(store, RECORD_VERIFIED, &v);
    }
    struct verified more = sample("r-more", "ann", "revenue"),
                    again = sample("r-0", "ann", "revenue"),
                    elsewhere = sample("r-more", "bob", "revenue");
    assert_fails(store_put_wait(store, RECORD_VERIFIED, &more, STORE_PUT, NULL, &err), &err,
                 ERR_VALIDATION,
                 "writing: a data set keeps at most 500 verified questions; remove some first");
    keep(store, RECORD_VERIFIED, &again);
    keep(store, RECORD_VERIFIED, &elsewhere);
    assert_fails(
        store_list_wait(store, RECORD_VERIFIED,
                        &(struct store_query){ .owner = "ann", .like = "revenue", .cursor = "x" },
                        &(struct store_page){ .n = 0 }, &err),
        &err, ERR_VALIDATION, "list of verified questions: 'like' takes no cursor");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    int failed = 0;
    for (size_t i = 0; store_provider_name(i); i++) {
        struct CMUnitTest tests[] = {
            TEST(test_alike_questions_come_first),
            TEST(test_a_question_that_changes_or_goes_is_no_longer_found),
            TEST(test_a_removed_upload_takes_what_was_said_about_it),
            TEST(test_words_are_replaced_and_shown),
            TEST(test_there_is_a_most_per_data_set),
        };
        for (size_t t = 0; t < ARRAY_SIZE(tests); t++)
            tests[t].initial_state = (void *)store_provider_name(i);
        failed += cmocka_run_group_tests_name(store_provider_name(i), tests, NULL, NULL);
    }
    return failed;
}
