/* SHA-256: known answers, in one piece and in many. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>
#include "base/hash.h"

static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void test_bytes(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char hex[HASH_HEX_SIZE];
    assert_int_equal(hash_bytes("", 0, hex, &err), 0);
    assert_string_equal(hex, empty);
    assert_int_equal(hash_bytes("abc", 3, hex, &err), 0);
    assert_string_equal(hex, abc);
}

static void test_pieces(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char hex[HASH_HEX_SIZE];
    struct hash h = { NULL };
    hash_drop(&h); /* a zeroed one is fine */
    assert_int_equal(hash_begin(&h, &err), 0);
    assert_int_equal(hash_update(&h, "a", 1, &err), 0);
    assert_int_equal(hash_update(&h, "", 0, &err), 0);
    assert_int_equal(hash_update(&h, "bc", 2, &err), 0);
    assert_int_equal(hash_end(&h, hex, &err), 0);
    assert_string_equal(hex, abc);
    assert_null(h.state);
}

static void count(void *arg, int64_t bytes)
{
    *(int64_t *)arg = bytes;
}

static void test_fd(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    char hex[HASH_HEX_SIZE];
    int fds[2];
    int64_t read_bytes = 0;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "abc", 3), 3);
    close(fds[1]);
    assert_int_equal(hash_fd(fds[0], count, &read_bytes, hex, &err), 0);
    assert_string_equal(hex, abc);
    assert_int_equal(read_bytes, 3);
    close(fds[0]);
    assert_int_equal(hash_fd(fds[0], NULL, NULL, hex, &err), -ERR_IO);
    assert_string_equal(err.message, "cannot read: Bad file descriptor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_fd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
