/* What every store promises, run over every backend of this build. */

#include "store/support.h"

#include "base/clock.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/store_impl.h"

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

#define assert_not_found(type, owner, id, message)                                                 \
    do {                                                                                           \
        struct store_page page_;                                                                   \
        assert_fails(store_get_wait(store, type, owner, id, &page_, &err), &err, ERR_NOT_FOUND,    \
                     message);                                                                     \
    } while (0)

#define assert_put_fails(type, record, mode, code, message)                                        \
    assert_fails(store_put_wait(store, type, record, mode, NULL, &err), &err, code, message)

/* ---- capsules ---- */

static void test_capsule_is_shown_as_the_api_does(void **state)
{
    (void)state;
    const struct capsule c = {
        .run_id = "r-1",
        .owner = "ann",
        .created_at = "2026-01-31T12:00:00.123+00:00",
        .dataset_id = "ecommerce",
        .dataset_version_hash = "sha256:00",
        .question = "how many \"Bücher\"?\n",
        .query_mode = "plan",
        .plan_json = "{\"table\":\"orders\"}",
        .compiled_sql = "SELECT 1\nLIMIT 200",
        .python_code = "print(1)",
        .status = "succeeded",
        .verdict = "ok",
        .result_json = "{\"columns\":[\"n\"],\"rows\":[[1]]}",
        .error_json = "null",
        .exec_time_ms = 12,
        .limits_json = "{\"memory_bytes\":1}",
        .timings_json = "{\"queue\":0.1,\"start\":1,\"load\":2,\"execute\":3}",
        .usage_json = "{\"cpu_ms\":4,\"peak_memory_bytes\":5}",
        .thread_id = "t-1",
        .replay_of = "r-0",
    };
    assert_int_equal(keep(store, RECORD_CAPSULE, &c), 1);
    auto_free char *text = fetched(store, RECORD_CAPSULE, "ann", "r-1");
    assert_string_equal(
        text,
        "{\"run_id\":\"r-1\",\"created_at\":\"2026-01-31T12:00:00.123+00:00\",\"dataset_id\":\"ecommerce\","
        "\"dataset_version_hash\":\"sha256:00\",\"query_mode\":\"plan\",\"status\":\"succeeded\",\"verdict\":\"ok\","
        "\"exec_time_ms\":12,\"thread_id\":\"t-1\",\"replay_of\":\"r-0\",\"question\":\"how many \\\"Bücher\\\"?\\n\","
        "\"error_json\":null,\"timings_json\":{\"queue\":0.1,\"start\":1,\"load\":2,\"execute\":3},"
        "\"usage_json\":{\"cpu_ms\":4,\"peak_memory_bytes\":5},\"limits_json\":{\"memory_bytes\":1},"
        "\"plan_json\":{\"table\":\"orders\"},\"compiled_sql\":\"SELECT 1\\nLIMIT 200\",\"python_code\":\"print(1)\","
        "\"result_json\":{\"columns\":[\"n\"],\"rows\":[[1]]}}");
    json_t *j;
    assert_works(json_parse(text, strlen(text), &j, &err), &err);
    json_decref(j);
}

static void test_what_is_unknown_is_null(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    int64_t before = clock_wall_ms();
    keep(store, RECORD_CAPSULE, &c);
    struct store_page page;
    assert_works(store_get_wait(store, RECORD_CAPSULE, "ann", "r-1", &page, &err), &err);
    const struct capsule *got = page.capsules;
    char earliest[CLOCK_ISO_SIZE], latest[CLOCK_ISO_SIZE];
    clock_iso8601(before, earliest);
    clock_iso8601(clock_wall_ms(), latest);
    assert_true(strcmp(got->created_at, earliest) >= 0 && strcmp(got->created_at, latest) <= 0);
    assert_int_equal(got->exec_time_ms, -1);
    assert_null(got->question);
    assert_null(got->result_json);
    store_page_finish(&page);
    auto_free char *text = fetched(store, RECORD_CAPSULE, "ann", "r-1");
    assert_non_null(strstr(text, "\"exec_time_ms\":null,\"thread_id\":null"));
    assert_non_null(strstr(text, "\"result_json\":null}"));
}

static void test_a_run_is_replaced_by_its_owner_only(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    c.status = "running";
    c.created_at = "2026-01-31T12:00:00.000+00:00";
    keep(store, RECORD_CAPSULE, &c);
    assert_put_fails(RECORD_CAPSULE, &c, STORE_CREATE, ERR_CONFLICT,
                     "there is already a run of this id");
    c.status = "failed";
    c.created_at = "2026-02-01T12:00:00.000+00:00";
    c.error_json = "{\"type\":\"X\"}";
    keep(store, RECORD_CAPSULE, &c);
    c.owner = "bob";
    c.status = "succeeded";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_CONFLICT,
                     "there is already a run of this id");
    auto_free char *text = fetched(store, RECORD_CAPSULE, "ann", "r-1");
    assert_non_null(strstr(text, "\"created_at\":\"2026-01-31T12:00:00.000+00:00\""));
    assert_non_null(strstr(text, "\"status\":\"failed\""));
    assert_non_null(strstr(text, "\"error_json\":{\"type\":\"X\"}"));
}

static void test_lists_leave_out_what_is_heavy(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    c.result_json = "{\"rows\":[]}";
    c.question = "q";
    keep(store, RECORD_CAPSULE, &c);
    struct store_page page;
    assert_works(store_list_wait(store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" },
                                 &page, &err),
                 &err);
    assert_null(page.capsules[0].result_json);
    assert_string_equal(page.capsules[0].question, "q");
    auto_free char *text = shown(RECORD_CAPSULE, page.items, true);
    assert_null(strstr(text, "result_json"));
    assert_null(strstr(text, "compiled_sql"));
    assert_non_null(strstr(text, "\"question\":\"q\""));
    store_page_finish(&page);
}

static void test_runs_left_in_flight_are_failed(void **state)
{
    (void)state;
    const char *const statuses[] = { "queued", "running", "succeeded", "rejected" };
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        struct capsule c = sample_capsule(statuses[i], "ann");
        c.status = statuses[i];
        keep(store, RECORD_CAPSULE, &c);
    }
    int64_t n = 0;
    assert_fails(store_abandon_runs_wait(store, "{oops", &n, &err), &err, ERR_VALIDATION,
                 "writing: 'error_json' is not JSON");
    assert_works(store_abandon_runs_wait(store, "{\"type\":\"RUNNER_INTERNAL_ERROR\"}", &n, &err),
                 &err);
    assert_int_equal(n, 2);
    assert_string_equal(list_ids(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "ann", .status = "failed" }),
                        "running queued");
    assert_string_equal(list_ids(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "ann", .status = "succeeded" }),
                        "succeeded");
    auto_free char *text = fetched(store, RECORD_CAPSULE, "ann", "queued");
    assert_non_null(strstr(text, "\"error_json\":{\"type\":\"RUNNER_INTERNAL_ERROR\"}"));
    assert_works(store_abandon_runs_wait(store, "null", &n, &err), &err);
    assert_int_equal(n, 0);
}

/* ---- owners ---- */

static void test_another_owners_id_does_not_exist(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    struct thread t = sample_thread("t-1", "ann");
    struct message m = sample_message("t-1", "ann", "hello");
    struct upload u = sample_upload("f-1", "ann", 10);
    keep(store, RECORD_CAPSULE, &c);
    keep(store, RECORD_THREAD, &t);
    keep(store, RECORD_MESSAGE, &m);
    keep(store, RECORD_UPLOAD, &u);

    assert_not_found(RECORD_CAPSULE, "bob", "r-1", "run not found");
    assert_not_found(RECORD_CAPSULE, "ann", "r-2", "run not found");
    assert_not_found(RECORD_THREAD, "bob", "t-1", "thread not found");
    assert_not_found(RECORD_UPLOAD, "bob", "f-1", "upload not found");
    struct store_page page;
    assert_fails(store_get_wait(store, RECORD_CAPSULE, "", "r-1", &page, &err), &err,
                 ERR_VALIDATION, "run: 'owner' is required");
    assert_fails(store_get_wait(store, RECORD_CAPSULE, NULL, "r-1", &page, &err), &err,
                 ERR_VALIDATION, "run: 'owner' is required");

    for (enum record_type type = 0; type < _RECORD_MAX; type++) {
        const struct store_query q = { .owner = "bob",
                                       .thread_id = type == RECORD_MESSAGE ? "t-1" : NULL };
        assert_string_equal(list_ids(store, type, &q), "");
    }
    assert_fails(store_remove_wait(store, RECORD_CAPSULE, "bob", "r-1", &err), &err, ERR_NOT_FOUND,
                 "run not found");
    assert_fails(store_remove_wait(store, RECORD_THREAD, "bob", "t-1", &err), &err, ERR_NOT_FOUND,
                 "thread not found");
    assert_fails(store_remove_wait(store, RECORD_UPLOAD, "bob", "f-1", &err), &err, ERR_NOT_FOUND,
                 "upload not found");
    m.owner = "bob";
    assert_put_fails(RECORD_MESSAGE, &m, STORE_PUT, ERR_NOT_FOUND, "thread not found");
    int64_t bytes = -1;
    assert_works(store_upload_bytes_wait(store, "bob", &bytes, &err), &err);
    assert_int_equal(bytes, 0);

    /* And all of it is still there for its owner. */
    assert_string_equal(list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }),
                        "r-1");
    assert_string_equal(list_ids(store, RECORD_UPLOAD, &(struct store_query){ .owner = "ann" }),
                        "f-1");
    auto_free char *thread = fetched(store, RECORD_THREAD, "ann", "t-1");
    assert_non_null(strstr(thread, "\"message_count\":1"));
}

/* Clients choose ids of threads, so one must not learn from a conflict what others have chosen. */
static void test_owners_may_choose_the_same_thread_id(void **state)
{
    (void)state;
    struct thread ann = sample_thread("session", "ann"), bob = sample_thread("session", "bob");
    ann.title = "Ann's";
    bob.title = "Bob's";
    assert_works(store_put_wait(store, RECORD_THREAD, &ann, STORE_CREATE, NULL, &err), &err);
    assert_works(store_put_wait(store, RECORD_THREAD, &bob, STORE_CREATE, NULL, &err), &err);
    assert_put_fails(RECORD_THREAD, &bob, STORE_CREATE, ERR_CONFLICT,
                     "there is already a thread of this id");
    struct message m = sample_message("session", "bob", "mine");
    keep(store, RECORD_MESSAGE, &m);
    assert_string_equal(list_ids(store, RECORD_MESSAGE,
                                 &(struct store_query){ .owner = "ann", .thread_id = "session" }),
                        "");
    assert_works(store_remove_wait(store, RECORD_THREAD, "ann", "session", &err), &err);
    auto_free char *text = fetched(store, RECORD_THREAD, "bob", "session");
    assert_non_null(strstr(text, "\"title\":\"Bob's\""));
    assert_non_null(strstr(text, "\"message_count\":1"));
}

static void test_any_owner_is_an_address(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    keep(store, RECORD_CAPSULE, &c);
    auto_free char *text = fetched(store, RECORD_CAPSULE, store_any_owner, "r-1");
    assert_non_null(strstr(text, "\"run_id\":\"r-1\""));
    auto_free char *same_words = strdup(store_any_owner);
    assert_not_found(RECORD_CAPSULE, same_words, "r-1", "run not found");
    assert_string_equal(
        list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = store_any_owner }), "r-1");
    assert_string_equal(
        list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = same_words }), "");
}

/* ---- lists ---- */

#define N_PAGED 25

/* Runs of three to a millisecond, so that pages end between runs of the same time. */
static void keep_paged_run(int i)
{
    char id[16], time[CLOCK_ISO_SIZE];
    snprintf(id, sizeof(id), "r%02d", i);
    clock_iso8601(1767225600000 + i / 3, time);
    struct capsule c = sample_capsule(id, "ann");
    c.created_at = time;
    keep(store, RECORD_CAPSULE, &c);
}

static void test_pages_hold_each_run_once_newest_first(void **state)
{
    (void)state;
    char seen[N_PAGED * 4 + 1] = "", want[N_PAGED * 4 + 1] = "", cursor[STORE_CURSOR_SIZE] = "";
    int pages = 0;
    for (int i = 0; i < N_PAGED; i++)
        keep_paged_run(i);
    for (int i = N_PAGED - 1; i >= 0; i--)
        sprintf(want + strlen(want), "%sr%02d", i == N_PAGED - 1 ? "" : " ", i);
    do {
        struct store_page page;
        const struct store_query q = { .owner = "ann", .limit = 10, .cursor = cursor };
        assert_works(store_list_wait(store, RECORD_CAPSULE, &q, &page, &err), &err);
        assert_true(page.n <= 10);
        if (pages > 0)
            strcat(seen, " ");
        strcat(seen, page_ids(RECORD_CAPSULE, &page));
        strcpy(cursor, page.next);
        store_page_finish(&page);
        pages++;
        keep_paged_run(N_PAGED + pages); /* newer ones do not shift the pages that follow */
    } while (cursor[0]);
    assert_int_equal(pages, 3);
    assert_string_equal(seen, want);
}

static void test_the_last_page_has_no_next(void **state)
{
    (void)state;
    struct store_page page;
    for (int i = 0; i < 4; i++)
        keep_paged_run(i);
    assert_works(store_list_wait(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "ann", .limit = 4 }, &page, &err),
                 &err);
    assert_int_equal(page.n, 4);
    assert_string_equal(page.next, "");
    store_page_finish(&page);
    assert_works(store_list_wait(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "ann", .limit = 3 }, &page, &err),
                 &err);
    assert_string_equal(page.next, "20260101000000000_r01");
    store_page_finish(&page);
}

static void test_limits_are_clamped(void **state)
{
    (void)state;
    const int cases[][2] = {
        { 0, STORE_LIMIT_DEFAULT }, { -5, 1 }, { 1, 1 }, { 1000000, STORE_LIMIT_MAX }
    };
    for (int i = 0; i < STORE_LIMIT_MAX + 5; i++) {
        char id[16];
        snprintf(id, sizeof(id), "f%03d", i);
        struct upload u = sample_upload(id, "ann", 1);
        keep(store, RECORD_UPLOAD, &u);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store_page page;
        const struct store_query q = { .owner = "ann", .limit = cases[i][0] };
        assert_works(store_list_wait(store, RECORD_UPLOAD, &q, &page, &err), &err);
        assert_int_equal(page.n, cases[i][1]);
        assert_true(page.next[0] != '\0');
        store_page_finish(&page);
    }
}

static void test_filters(void **state)
{
    (void)state;
    const struct capsule runs[] = {
        { .run_id = "a",
          .dataset_id = "ecommerce",
          .query_mode = "sql",
          .status = "succeeded",
          .created_at = "2026-01-01T00:00:00.000+00:00" },
        { .run_id = "b",
          .dataset_id = "support",
          .query_mode = "python",
          .status = "failed",
          .created_at = "2026-01-02T00:00:00.000+00:00",
          .thread_id = "t-1" },
        { .run_id = "c",
          .dataset_id = "support",
          .query_mode = "sql",
          .status = "succeeded",
          .created_at = "2026-01-03T00:00:00.000+00:00",
          .thread_id = "t-2" },
        { .run_id = "d",
          .dataset_id = "ecommerce",
          .query_mode = "plan",
          .status = "rejected",
          .created_at = "2026-01-04T00:00:00.000+00:00",
          .thread_id = "t-1" },
    };
    const struct {
        struct store_query q;
        const char *want;
    } cases[] = {
        { { .dataset_id = "support" }, "c b" },
        { { .status = "succeeded" }, "c a" },
        { { .query_mode = "sql" }, "c a" },
        { { .thread_id = "t-1" }, "d b" },
        { { .since = "2026-01-02T00:00:00.000+00:00" }, "d c b" },
        { { .until = "2026-01-02T00:00:00.000+00:00" }, "a" },
        { { .since = "2026-01-02T00:00:00.000+00:00", .until = "2026-01-04T00:00:00.000+00:00" },
          "c b" },
        { { .dataset_id = "support",
            .status = "succeeded",
            .query_mode = "sql",
            .thread_id = "t-2",
            .since = "2026-01-01T00:00:00.000+00:00",
            .until = "2026-01-05T00:00:00.000+00:00" },
          "c" },
        { { .dataset_id = "'; DROP TABLE run_capsules; --" }, "" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
        struct capsule c = runs[i];
        c.owner = "ann";
        keep(store, RECORD_CAPSULE, &c);
        auto_free char *theirs = NULL;
        assert_true(asprintf(&theirs, "bob-%s", c.run_id) > 0);
        c.owner = "bob";
        c.run_id = theirs;
        keep(store, RECORD_CAPSULE, &c);
    }
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store_query q = cases[i].q;
        q.owner = "ann";
        assert_string_equal(list_ids(store, RECORD_CAPSULE, &q), cases[i].want);
        /* Page by page the same. */
        char seen[64] = "";
        struct store_page page = { .next = "" };
        q.limit = 1;
        do {
            char cursor[STORE_CURSOR_SIZE];
            strcpy(cursor, page.next);
            q.cursor = cursor;
            assert_works(store_list_wait(store, RECORD_CAPSULE, &q, &page, &err), &err);
            strcat(strcat(seen, seen[0] ? " " : ""), page_ids(RECORD_CAPSULE, &page));
            strcpy(cursor, page.next);
            store_page_finish(&page);
            strcpy(page.next, cursor);
        } while (page.next[0]);
        assert_string_equal(seen, cases[i].want);
    }
}

static void test_bad_queries_are_told_apart(void **state)
{
    (void)state;
    const struct {
        enum record_type type;
        struct store_query q;
        const char *message;
    } cases[] = {
        { RECORD_CAPSULE, { .owner = NULL }, "list of runs: 'owner' is required" },
        { RECORD_CAPSULE, { .owner = "" }, "list of runs: 'owner' is required" },
        { RECORD_MESSAGE, { .owner = "a" }, "list of messages: 'thread_id' is required" },
        { RECORD_THREAD,
          { .owner = "a", .status = "x" },
          "list of threads: there is no filter 'status'" },
        { RECORD_UPLOAD,
          { .owner = "a", .query_mode = "x" },
          "list of uploads: there is no filter 'query_mode'" },
        { RECORD_CAPSULE,
          { .owner = "a", .expires_before = "x" },
          "list of runs: there is no filter 'expires_before'" },
        { RECORD_CAPSULE,
          { .owner = "a", .since = "yesterday" },
          "list of runs: 'since' is not a time of the form 2026-01-31T12:00:00.000+00:00" },
        { RECORD_CAPSULE,
          { .owner = "a", .until = "2026-01-31" },
          "list of runs: 'until' is not a time of the form 2026-01-31T12:00:00.000+00:00" },
        { RECORD_CAPSULE,
          { .owner = "a", .status = "\xff" },
          "list of runs: 'status' is too long or not valid UTF-8" },
        { RECORD_CAPSULE,
          { .owner = "a", .cursor = "17" },
          "cursor is not one that a list of runs gave" },
        { RECORD_CAPSULE,
          { .owner = "a", .cursor = "20260101000000000" },
          "cursor is not one that a list of runs gave" },
        { RECORD_CAPSULE,
          { .owner = "a", .cursor = "20260101000000000_" },
          "cursor is not one that a list of runs gave" },
        { RECORD_CAPSULE,
          { .owner = "a", .cursor = "20261301000000000_r" },
          "cursor is not one that a list of runs gave" },
        { RECORD_MESSAGE,
          { .owner = "a", .thread_id = "t", .cursor = "20260101000000000_r" },
          "cursor is not one that a list of messages gave" },
        { RECORD_MESSAGE,
          { .owner = "a", .thread_id = "t", .cursor = "0" },
          "cursor is not one that a list of messages gave" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct store_page page;
        assert_fails(store_list_wait(store, cases[i].type, &cases[i].q, &page, &err), &err,
                     ERR_VALIDATION, cases[i].message);
    }
    char long_cursor[STORE_CURSOR_SIZE + 8] = "20260101000000000_";
    memset(long_cursor + 18, 'x', sizeof(long_cursor) - 19);
    struct store_page page;
    assert_fails(store_list_wait(store, RECORD_CAPSULE,
                                 &(struct store_query){ .owner = "a", .cursor = long_cursor },
                                 &page, &err),
                 &err, ERR_VALIDATION, "cursor is not one that a list of runs gave");
}

static void test_times_that_people_write(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        { "2026-01-31", "2026-01-31T00:00:00.000+00:00" },
        { "2026-01-31T12:30", "2026-01-31T12:30:00.000+00:00" },
        { "2026-01-31 12:30:05", "2026-01-31T12:30:05.000+00:00" },
        { "2026-01-31T12:30:05.5Z", "2026-01-31T12:30:05.500+00:00" },
        { "2026-01-31T12:30:05.123456789+00:00", "2026-01-31T12:30:05.123+00:00" },
        { "2026-01-01T01:00:00+02:00", "2025-12-31T23:00:00.000+00:00" },
        { "2026-01-31T23:30:00-0130", "2026-02-01T01:00:00.000+00:00" },
        { "2024-02-29", "2024-02-29T00:00:00.000+00:00" },
    };
    static const char *const bad[] = { "",
                                       "now",
                                       "2026-1-31",
                                       "2026-02-29",
                                       "2026-13-01",
                                       "2026-01-31T",
                                       "2026-01-31T24:00",
                                       "2026-01-31T12:60",
                                       "20260131",
                                       "2026-01-31T1",
                                       "2026-01-31T12:00x",
                                       "2026-01-31T12:00:00.",
                                       "0000-01-01",
                                       "2026-01-31T12:00+25:00" };
    char got[CLOCK_ISO_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_works(store_parse_time(good[i][0], got, &err), &err);
        assert_string_equal(got, good[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char message[128];
        snprintf(message, sizeof(message),
                 "'%s' is no time; write it as 2026-01-31 or 2026-01-31T12:00:00Z", bad[i]);
        assert_fails(store_parse_time(bad[i], got, &err), &err, ERR_VALIDATION, message);
    }
}

/* ---- threads and messages ---- */

static void test_messages_come_oldest_first_from_the_newest_page(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann"), other = sample_thread("t-2", "ann");
    int64_t ids[7];
    char want[64];
    keep(store, RECORD_THREAD, &t);
    keep(store, RECORD_THREAD, &other);
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        struct message m = sample_message("t-1", "ann", "hello");
        struct message noise = sample_message("t-2", "ann", "elsewhere");
        ids[i] = keep(store, RECORD_MESSAGE, &m);
        keep(store, RECORD_MESSAGE, &noise);
        assert_true(i == 0 || ids[i] > ids[i - 1]);
    }
    struct store_query q = { .owner = "ann", .thread_id = "t-1", .limit = 3 };
    struct store_page page;
    assert_works(store_list_wait(store, RECORD_MESSAGE, &q, &page, &err), &err);
    snprintf(want, sizeof(want), "%d %d %d", (int)ids[4], (int)ids[5], (int)ids[6]);
    assert_string_equal(page_ids(RECORD_MESSAGE, &page), want);
    char cursor[STORE_CURSOR_SIZE];
    strcpy(cursor, page.next);
    store_page_finish(&page);
    q.cursor = cursor;
    snprintf(want, sizeof(want), "%d %d %d", (int)ids[1], (int)ids[2], (int)ids[3]);
    assert_string_equal(list_ids(store, RECORD_MESSAGE, &q), want);
}

static void test_a_message_updates_its_thread(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann");
    t.created_at = t.updated_at = "2026-01-01T00:00:00.000+00:00";
    t.datasets_json = "[\"ecommerce\"]";
    t.uploads_json = "[]";
    keep(store, RECORD_THREAD, &t);
    struct thread newer = sample_thread("t-2", "ann");
    newer.updated_at = "2026-01-02T00:00:00.000+00:00";
    keep(store, RECORD_THREAD, &newer);
    assert_string_equal(list_ids(store, RECORD_THREAD, &(struct store_query){ .owner = "ann" }),
                        "t-2 t-1");

    struct message m = sample_message("t-1", "ann", "hello\nthere");
    m.created_at = "2026-01-03T00:00:00.000+00:00";
    m.metadata_json = "{\"tokens\":3}";
    m.run_id = "r-9";
    int64_t id = keep(store, RECORD_MESSAGE, &m);
    auto_free char *thread = fetched(store, RECORD_THREAD, "ann", "t-1");
    assert_string_equal(
        thread,
        "{\"thread_id\":\"t-1\",\"title\":null,\"datasets\":[\"ecommerce\"],\"uploads\":[],"
        "\"created_at\":\"2026-01-01T00:00:00.000+00:00\","
        "\"updated_at\":\"2026-01-03T00:00:00.000+00:00\",\"state\":\"hot\",\"message_count\":1,"
        "\"pinned\":0,\"forked_from\":null}");
    assert_string_equal(list_ids(store, RECORD_THREAD, &(struct store_query){ .owner = "ann" }),
                        "t-1 t-2");

    char number[24], want[256];
    snprintf(number, sizeof(number), "%lld", (long long)id);
    auto_free char *message = fetched(store, RECORD_MESSAGE, "ann", number);
    snprintf(
        want, sizeof(want),
        "{\"id\":%s,\"thread_id\":\"t-1\",\"created_at\":\"2026-01-03T00:00:00.000+00:00\",\"dataset_id\":null,"
        "\"role\":\"user\",\"content\":\"hello\\nthere\",\"run_id\":\"r-9\",\"metadata\":{\"tokens\":3}}",
        number);
    assert_string_equal(message, want);

    /* Putting the thread again keeps the count and the time of its making. */
    t.state = "cold";
    t.created_at = "2020-01-01T00:00:00.000+00:00";
    keep(store, RECORD_THREAD, &t);
    auto_free char *again = fetched(store, RECORD_THREAD, "ann", "t-1");
    assert_non_null(strstr(again, "\"created_at\":\"2026-01-01T00:00:00.000+00:00\""));
    assert_non_null(strstr(again, "\"state\":\"cold\",\"message_count\":1"));

    /* Pinned threads, and those with a text in their titles. */
    t.title = "Returns in Spring";
    t.pinned = 1;
    keep(store, RECORD_THREAD, &t);
    const struct store_query pinned = { .owner = "ann", .pinned = "1" };
    const struct store_query named = { .owner = "ann", .title_like = "%in spring%" };
    const struct store_query others = { .owner = "bob", .title_like = "%spring%" };
    assert_string_equal(list_ids(store, RECORD_THREAD, &pinned), "t-1");
    assert_string_equal(list_ids(store, RECORD_THREAD, &named), "t-1");
    assert_string_equal(list_ids(store, RECORD_THREAD, &others), "");

    /* A fork begins with copies of the messages, once; another owner's are not found. */
    struct message second = sample_message("t-1", "ann", "second");
    keep(store, RECORD_MESSAGE, &second);
    struct thread fork = t;
    fork.thread_id = "t-fork";
    fork.forked_from = "t-1";
    keep(store, RECORD_THREAD, &fork);
    keep(store, RECORD_THREAD, &fork);
    auto_free char *forked = fetched(store, RECORD_THREAD, "ann", "t-fork");
    assert_non_null(strstr(forked, "\"message_count\":2"));
    assert_non_null(strstr(forked, "\"forked_from\":\"t-1\""));
    struct store_page page;
    const struct store_query of_fork = { .owner = "ann", .thread_id = "t-fork" };
    assert_works(store_list_wait(store, RECORD_MESSAGE, &of_fork, &page, &err), &err);
    assert_int_equal(page.n, 2);
    assert_string_equal(page.messages[0].content, "hello\nthere");
    assert_string_equal(page.messages[0].metadata_json, "{\"tokens\":3}");
    assert_string_equal(page.messages[0].run_id, "r-9");
    assert_string_equal(page.messages[1].content, "second");
    store_page_finish(&page);
    struct thread stolen = fork;
    stolen.owner = "bob";
    keep(store, RECORD_THREAD, &stolen);
    auto_free char *empty = fetched(store, RECORD_THREAD, "bob", "t-fork");
    assert_non_null(strstr(empty, "\"message_count\":0"));
}

static void test_a_thread_goes_with_its_messages(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann");
    struct message m = sample_message("t-1", "ann", "hello");
    assert_put_fails(RECORD_MESSAGE, &m, STORE_PUT, ERR_NOT_FOUND, "thread not found");
    keep(store, RECORD_THREAD, &t);
    int64_t first = keep(store, RECORD_MESSAGE, &m);
    assert_fails(store_remove_wait(store, RECORD_MESSAGE, "ann", "1", &err), &err, ERR_VALIDATION,
                 "a message is removed only with its thread");
    assert_works(store_remove_wait(store, RECORD_THREAD, "ann", "t-1", &err), &err);
    assert_not_found(RECORD_THREAD, "ann", "t-1", "thread not found");
    assert_put_fails(RECORD_MESSAGE, &m, STORE_PUT, ERR_NOT_FOUND, "thread not found");
    keep(store, RECORD_THREAD, &t);
    const struct store_query q = { .owner = "ann", .thread_id = "t-1" };
    assert_string_equal(list_ids(store, RECORD_MESSAGE, &q), "");
    assert_true(keep(store, RECORD_MESSAGE, &m) > first); /* an id is never given twice */
}

/* ---- uploads ---- */

static void test_uploads_have_a_sum_and_an_end(void **state)
{
    (void)state;
    struct upload a = sample_upload("a", "ann", 1000), b = sample_upload("b", "ann", 3000000000),
                  c = sample_upload("c", "bob", 7);
    int64_t bytes = -1;
    a.expires_at = "2026-01-01T00:00:00.000+00:00";
    a.path = "/secret/place";
    a.columns_json = "[\"id\",\"total\"]";
    a.options_json = "{\"decimal\":\",\"}";
    a.rows = 12;
    c.expires_at = "2026-01-03T00:00:00.000+00:00";
    b.status = "ingesting";
    keep(store, RECORD_UPLOAD, &a);
    keep(store, RECORD_UPLOAD, &b);
    keep(store, RECORD_UPLOAD, &c);
    assert_works(store_upload_bytes_wait(store, "ann", &bytes, &err), &err);
    assert_int_equal(bytes, 3000001000);
    assert_works(store_upload_bytes_wait(store, store_any_owner, &bytes, &err), &err);
    assert_int_equal(bytes, 3000001007);
    struct store_query q = { .owner = store_any_owner,
                             .expires_before = "2026-01-02T00:00:00.000+00:00" };
    assert_string_equal(list_ids(store, RECORD_UPLOAD, &q), "a");
    q.expires_before = "2026-01-04T00:00:00.000+00:00";
    assert_string_equal(list_ids(store, RECORD_UPLOAD, &q), "c a");
    assert_string_equal(list_ids(store, RECORD_UPLOAD,
                                 &(struct store_query){ .owner = "ann", .status = "ingesting" }),
                        "b");
    auto_free char *text = fetched(store, RECORD_UPLOAD, "ann", "a");
    assert_non_null(strstr(
        text, "\"size_bytes\":1000,\"sha256\":null,\"rows\":12,\"columns\":[\"id\",\"total\"],"
              "\"options\":{\"decimal\":\",\"}"));
    assert_null(strstr(text, "secret"));
    assert_works(store_remove_wait(store, RECORD_UPLOAD, "ann", "b", &err), &err);
    assert_works(store_upload_bytes_wait(store, "ann", &bytes, &err), &err);
    assert_int_equal(bytes, 1000);
}

/* ---- what cannot be kept ---- */

static void test_records_are_checked(void **state)
{
    (void)state;
    struct capsule c = sample_capsule("r-1", "ann");
    const struct capsule good = c;
    struct upload u = sample_upload("f", "ann", -1);
    c.run_id = NULL;
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION, "run: 'run_id' is required");
    c = good, c.owner = "";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "run: 'owner' is empty or holds control characters");
    c = good, c.run_id = "a\nb";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "run: 'run_id' is empty or holds control characters");
    c = good, c.question = "\xc3(";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "run: 'question' is not valid UTF-8");
    c = good, c.created_at = "2026-01-31T12:00:00Z";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "run: 'created_at' is not a time of the form 2026-01-31T12:00:00.000+00:00");
    c = good, c.plan_json = "{\n}";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "run: 'plan_json' is not on one line");
    c = good, c.plan_json = "{\"a\":}";
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_VALIDATION,
                     "writing: 'plan_json' is not JSON");
    assert_put_fails(RECORD_UPLOAD, &u, STORE_PUT, ERR_VALIDATION,
                     "upload: 'size_bytes' is required");
    assert_string_equal(
        list_ids(store, RECORD_CAPSULE, &(struct store_query){ .owner = store_any_owner }), "");
    assert_works(store_ready(store, &err), &err); /* none of this is trouble of the store */
}

static void test_text_has_limits(void **state)
{
    (void)state;
    const size_t max = RESULT_MAX_BYTES;
    auto_free char *text = malloc(max + 2);
    assert_non_null(text);
    memset(text, 'x', max + 1);
    text[0] = text[max - 1] = '"';
    text[max] = '\0';
    struct capsule c = sample_capsule("r-1", "ann");
    c.result_json = text;
    keep(store, RECORD_CAPSULE, &c);
    struct store_page page;
    assert_works(store_get_wait(store, RECORD_CAPSULE, "ann", "r-1", &page, &err), &err);
    assert_string_equal(page.capsules[0].result_json, text);
    store_page_finish(&page);
    text[max - 1] = 'x', text[max] = '"', text[max + 1] = '\0';
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_TOO_LARGE,
                     "run: 'result_json' is longer than the 33554432 bytes that can be kept");

    char id[256];
    memset(id, 'i', sizeof(id) - 1);
    id[255] = '\0';
    assert_not_found(RECORD_CAPSULE, "ann", id, "run not found");
    c = sample_capsule(id, "ann");
    assert_put_fails(RECORD_CAPSULE, &c, STORE_PUT, ERR_TOO_LARGE,
                     "run: 'run_id' is longer than the 128 bytes that can be kept");
}

/*
 * A page ends early rather than hold more text than fits, and the next one goes on where it ended.
 */
static void test_a_page_has_a_size(void **state)
{
    (void)state;
    const size_t size = (size_t)4 << 20;
    auto_free char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[size] = '\0';
    struct thread t = sample_thread("t-1", "ann");
    keep(store, RECORD_THREAD, &t);
    int64_t first = 0;
    for (int i = 0; i < 6; i++) {
        struct message m = sample_message("t-1", "ann", text);
        int64_t id = keep(store, RECORD_MESSAGE, &m);
        first = first ? first : id;
    }
    struct store_query q = { .owner = "ann", .thread_id = "t-1" };
    struct store_page page;
    assert_works(store_list_wait(store, RECORD_MESSAGE, &q, &page, &err), &err);
    size_t n = page.n;
    assert_true(n >= 2 && n <= 4);
    assert_int_equal(page.messages[n - 1].id, first + 5);
    char cursor[STORE_CURSOR_SIZE];
    strcpy(cursor, page.next);
    store_page_finish(&page);
    q.cursor = cursor;
    assert_works(store_list_wait(store, RECORD_MESSAGE, &q, &page, &err), &err);
    assert_int_equal(page.n, 6 - n);
    assert_int_equal(page.messages[0].id, first);
    assert_string_equal(page.next, "");
    store_page_finish(&page);
}

/* ---- batches ---- */

static void test_a_batch_is_kept_as_a_whole(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann");
    struct capsule c = sample_capsule("r-1", "ann");
    struct message asked = sample_message("t-1", "ann", "how many?");
    struct message answered = sample_message("t-1", "ann", "three");
    const struct store_put puts[] = { { RECORD_THREAD, &t, STORE_CREATE },
                                      { RECORD_CAPSULE, &c, STORE_CREATE },
                                      { RECORD_MESSAGE, &asked, STORE_PUT },
                                      { RECORD_MESSAGE, &answered, STORE_PUT } };
    int64_t id = 0;
    assert_works(store_put_batch_wait(store, puts, ARRAY_SIZE(puts), &id, &err), &err);
    struct store_query q = { .owner = "ann", .thread_id = "t-1" };
    struct store_page page;
    assert_works(store_list_wait(store, RECORD_MESSAGE, &q, &page, &err), &err);
    assert_int_equal(page.n, 2);
    assert_string_equal(page.messages[0].content, "how many?");
    assert_string_equal(page.messages[1].content, "three");
    assert_int_equal(page.messages[1].id, id); /* the value is that of the last record */
    store_page_finish(&page);
    free(fetched(store, RECORD_CAPSULE, "ann", "r-1"));
}

static void test_a_batch_with_a_bad_record_leaves_nothing(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann");
    keep(store, RECORD_THREAD, &t);
    struct capsule good = sample_capsule("r-1", "ann"), there = sample_capsule("r-0", "ann");
    struct capsule bad = sample_capsule("r-2", "ann");
    keep(store, RECORD_CAPSULE, &there);
    bad.created_at = "yesterday";
    struct message lost = sample_message("t-9", "ann", "how many?");
    struct message fine = sample_message("t-1", "ann", "how many?");
    const struct {
        struct store_put last;
        enum err_code code;
    } cases[] = {
        { { RECORD_MESSAGE, &lost, STORE_PUT }, ERR_NOT_FOUND },    /* no such thread */
        { { RECORD_CAPSULE, &there, STORE_CREATE }, ERR_CONFLICT }, /* an id that is taken */
        { { RECORD_CAPSULE, &bad, STORE_CREATE }, ERR_VALIDATION },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct store_put puts[] = { { RECORD_CAPSULE, &good, STORE_CREATE },
                                          { RECORD_MESSAGE, &fine, STORE_PUT },
                                          cases[i].last };
        int r = store_put_batch_wait(store, puts, ARRAY_SIZE(puts), NULL, &err);
        assert_int_equal(r, -(int)cases[i].code);
        assert_not_found(RECORD_CAPSULE, "ann", "r-1", "run not found");
        assert_string_equal(list_ids(store, RECORD_MESSAGE,
                                     &(struct store_query){ .owner = "ann", .thread_id = "t-1" }),
                            "");
    }
    /* The store goes on as if nothing had been. */
    keep(store, RECORD_CAPSULE, &good);
}

static void test_a_batch_has_a_size(void **state)
{
    (void)state;
    struct thread t = sample_thread("t-1", "ann");
    struct store_put puts[STORE_BATCH_MAX + 1];
    for (size_t i = 0; i < ARRAY_SIZE(puts); i++)
        puts[i] = (struct store_put){ RECORD_THREAD, &t, STORE_PUT };
    assert_works(store_put_batch_wait(store, puts, STORE_BATCH_MAX, NULL, &err), &err);
    assert_fails(store_put_batch_wait(store, puts, 0, NULL, &err), &err, ERR_VALIDATION,
                 "0 records; a batch has 1 to 16");
    assert_fails(store_put_batch_wait(store, puts, STORE_BATCH_MAX + 1, NULL, &err), &err,
                 ERR_VALIDATION, "17 records; a batch has 1 to 16");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    int failed = 0;
    for (size_t i = 0; store_provider_name(i); i++) {
        struct CMUnitTest tests[] = {
            TEST(test_capsule_is_shown_as_the_api_does),
            TEST(test_what_is_unknown_is_null),
            TEST(test_a_run_is_replaced_by_its_owner_only),
            TEST(test_lists_leave_out_what_is_heavy),
            TEST(test_runs_left_in_flight_are_failed),
            TEST(test_another_owners_id_does_not_exist),
            TEST(test_owners_may_choose_the_same_thread_id),
            TEST(test_any_owner_is_an_address),
            TEST(test_pages_hold_each_run_once_newest_first),
            TEST(test_the_last_page_has_no_next),
            TEST(test_limits_are_clamped),
            TEST(test_filters),
            TEST(test_bad_queries_are_told_apart),
            TEST(test_times_that_people_write),
            TEST(test_messages_come_oldest_first_from_the_newest_page),
            TEST(test_a_message_updates_its_thread),
            TEST(test_a_thread_goes_with_its_messages),
            TEST(test_uploads_have_a_sum_and_an_end),
            TEST(test_records_are_checked),
            TEST(test_text_has_limits),
            TEST(test_a_page_has_a_size),
            TEST(test_a_batch_is_kept_as_a_whole),
            TEST(test_a_batch_with_a_bad_record_leaves_nothing),
            TEST(test_a_batch_has_a_size),
        };
        for (size_t t = 0; t < ARRAY_SIZE(tests); t++)
            tests[t].initial_state = (void *)store_provider_name(i);
        failed += cmocka_run_group_tests_name(store_provider_name(i), tests, NULL, NULL);
    }
    return failed;
}
