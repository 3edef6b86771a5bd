/*
 * The store when memory or the disk runs out at any step: a call fails with a reason or does all of
 * its work, the file can be opened and read afterwards, and a batch is there whole or not at all.
 */

#include <errno.h>
#include <unistd.h>
#include "base/check.h"
#include "base/fdio.h"
#include "fault/fault.h"
#include "store/store.h"

#define ROUNDS_MAX 60000

static char dir[64], path[96];

static struct store *open_store(struct err *err)
{
    const struct store_options options = { .provider = "sqlite", .path = path };
    struct store *s = NULL;

    return store_open(&options, NULL, &s, err) < 0 ? NULL : s;
}

/* Undisturbed; it must work. */
static struct store *reopen(void)
{
    struct err err = ERR_INIT;
    struct store *s = open_store(&err);

    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static void forget(void)
{
    static const char *const tails[] = { "", "-wal", "-shm", "-journal" };

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        char name[128];

        snprintf(name, sizeof(name), "%s%s", path, tails[i]);
        if (unlink(name) < 0)
            assert_int_equal(errno, ENOENT);
    }
}

/* A failure has a code and says something. */
static void check_failure(int r, const struct err *err)
{
    assert_true(r < 0);
    assert_int_equal(r, -(int)err->code);
    assert_true(err->message[0]);
}

static bool has(struct store *s, enum record_type type, const char *id)
{
    struct store_page page;
    struct err err = ERR_INIT;
    int r = store_get_wait(s, type, "o", id, &page, &err);

    if (r == -ERR_NOT_FOUND)
        return false;
    if (r < 0)
        fail_msg("%s", err.message);
    store_page_finish(&page);
    return true;
}

/* ---- cases ---- */

static void open_case(void *arg)
{
    struct err err = ERR_INIT;
    struct store *s = open_store(&err);

    (void)arg;
    if (!s)
        check_failure(-(int)err.code, &err);
    fault_pause();
    store_close(s);
    /* What was left behind can be used. */
    s = reopen();
    assert_false(has(s, RECORD_THREAD, "t"));
    store_close(s);
    forget();
}

static void batch_case(void *arg)
{
    const struct thread thread = {
        .thread_id = "t", .owner = "o", .state = "cold", .message_count = -1
    };
    const struct message message = {
        .owner = "o", .thread_id = "t", .role = "user", .content = "hello"
    };
    const struct capsule capsule = { .run_id = "r",
                                     .owner = "o",
                                     .dataset_id = "d",
                                     .query_mode = "sql",
                                     .status = "succeeded",
                                     .exec_time_ms = 5,
                                     .result_json = "{\"rows\":[]}" };
    const struct store_put puts[] = { { RECORD_THREAD, &thread, STORE_PUT },
                                      { RECORD_MESSAGE, &message, STORE_PUT },
                                      { RECORD_CAPSULE, &capsule, STORE_CREATE } };
    struct err err = ERR_INIT;
    int r;

    (void)arg;
    fault_pause();
    struct store *s = reopen();
    fault_resume();
    r = store_put_batch_wait(s, puts, 3, NULL, &err);
    fault_pause();
    if (r < 0)
        check_failure(r, &err);
    bool there = has(s, RECORD_THREAD, "t");
    assert_int_equal(there, r == 0);
    assert_int_equal(has(s, RECORD_CAPSULE, "r"), there);
    /* The same after a restart, and the store still takes what it is given. */
    store_close(s);
    s = reopen();
    assert_int_equal(has(s, RECORD_THREAD, "t"), there);
    assert_int_equal(has(s, RECORD_CAPSULE, "r"), there);
    if (!there)
        assert_works(store_put_batch_wait(s, puts, 3, NULL, &err), &err);
    store_close(s);
    forget();
}

static void read_case(void *arg)
{
    struct store *s = arg;
    const struct store_query query = { .owner = "o", .limit = 10 };
    struct store_page page;
    struct err err = ERR_INIT;
    int r = store_list_wait(s, RECORD_THREAD, &query, &page, &err);

    if (r < 0) {
        check_failure(r, &err);
        return;
    }
    assert_int_equal(page.n, 3);
    assert_string_equal(page.threads[0].title, "a title");
    store_page_finish(&page);
}

/* ---- tests ---- */

static void test_open(void **state)
{
    (void)state;
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, open_case, NULL) > 50);
    assert_true(fault_rounds(FAULT_WRITE, false, ROUNDS_MAX, open_case, NULL) > 5);
    assert_true(fault_rounds(FAULT_WRITE, true, ROUNDS_MAX, open_case, NULL) > 5);
}

static void test_batch(void **state)
{
    (void)state;
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, batch_case, NULL) > 20);
    assert_true(fault_rounds(FAULT_WRITE, false, ROUNDS_MAX, batch_case, NULL) > 3);
    assert_true(fault_rounds(FAULT_WRITE, true, ROUNDS_MAX, batch_case, NULL) > 3);
}

static void test_list(void **state)
{
    static const char *const ids[] = { "a", "b", "c" };
    struct err err = ERR_INIT;
    struct store *s = reopen();

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct thread t = { .thread_id = ids[i],
                            .owner = "o",
                            .title = "a title",
                            .state = "cold",
                            .message_count = -1 };
        assert_works(store_put_wait(s, RECORD_THREAD, &t, STORE_CREATE, NULL, &err), &err);
    }
    assert_true(fault_rounds(FAULT_ALLOC, false, ROUNDS_MAX, read_case, s) > 5);
    store_close(s);
    forget();
}

static int setup(void **state)
{
    (void)state;
    fault_init();
    make_scratch(dir);
    snprintf(path, sizeof(path), "%s/store.db", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fd_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_list),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
