/* Buffers: limits, terminator, failure leaves them unchanged. */

#include "base/buf.h"
#include "check.h"

static void test_append(void **state)
{
    auto_buf struct buf b = BUF_INIT(100);
    struct err e;

    (void)state;
    assert_string_equal(buf_cstr(&b), "");
    assert_works(buf_append(&b, NULL, 0, &e), &e);
    assert_works(buf_append_str(&b, "ab", &e), &e);
    assert_works(buf_append(&b, "\0c", 2, &e), &e);
    assert_works(buf_printf(&b, &e, "%d-%s", 42, "x"), &e);
    assert_int_equal(b.len, 8);
    assert_memory_equal(b.data, "ab\0c42-x", 9);
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(buf_cstr(&b), "");
}

static void test_maximum(void **state)
{
    auto_buf struct buf b = BUF_INIT(5), none = BUF_INIT(0);
    struct err e;

    (void)state;
    assert_works(buf_append_str(&b, "12345", &e), &e);
    assert_fails(buf_append(&b, "6", 1, &e), &e, ERR_TOO_LARGE, "larger than the limit of 5 bytes");
    assert_fails(buf_printf(&b, &e, "%d", 6), &e, ERR_TOO_LARGE,
                 "larger than the limit of 5 bytes");
    assert_int_equal(b.len, 5);
    assert_string_equal(buf_cstr(&b), "12345");
    assert_works(buf_append(&b, "", 0, &e), &e);
    assert_fails(buf_append(&none, "1", 1, &e), &e, ERR_TOO_LARGE,
                 "larger than the limit of 0 bytes");
}

static void test_size_overflow(void **state)
{
    auto_buf struct buf b = BUF_INIT(SIZE_MAX);
    struct err e;

    (void)state;
    assert_works(buf_append_str(&b, "abc", &e), &e);
    assert_int_equal(buf_reserve(&b, SIZE_MAX, &e), -ERR_TOO_LARGE);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 3, &e), -ERR_TOO_LARGE); /* no room for the NUL */
    b.max_bytes = 2; /* a maximum lowered below what is held */
    assert_int_equal(buf_reserve(&b, 0, &e), -ERR_TOO_LARGE);
    assert_string_equal(buf_cstr(&b), "abc");
}

static void test_growth(void **state)
{
    auto_buf struct buf b = BUF_INIT(100000);
    struct err e;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char c = (char)('a' + i % 26);

        assert_int_equal(buf_append(&b, &c, 1, &e), 0);
    }
    assert_int_equal(b.len, 100000);
    assert_int_equal(b.cap, 100001); /* never more than the maximum and its NUL */
    assert_int_equal(b.data[99999], 'a' + 99999 % 26);
    assert_int_equal(buf_append(&b, "x", 1, &e), -ERR_TOO_LARGE);
}

static void test_consume(void **state)
{
    auto_buf struct buf b = BUF_INIT(100);
    struct err e;

    (void)state;
    buf_consume(&b, 0);
    assert_works(buf_append_str(&b, "hello world", &e), &e);
    buf_consume(&b, 6);
    assert_string_equal(buf_cstr(&b), "world");
    assert_int_equal(b.len, 5);
    buf_consume(&b, 5);
    assert_string_equal(buf_cstr(&b), "");
    assert_int_equal(b.len, 0);
}

static void test_take(void **state)
{
    auto_buf struct buf b = BUF_INIT(100);
    struct err e;
    char *s;

    (void)state;
    s = buf_take(&b);
    assert_string_equal(s, "");
    free(s);
    assert_works(buf_append_str(&b, "mine", &e), &e);
    s = buf_take(&b);
    assert_string_equal(s, "mine");
    free(s);
    assert_null(b.data);
    assert_works(buf_append_str(&b, "again", &e), &e);
    assert_string_equal(buf_cstr(&b), "again");
    buf_finish(&b);
    assert_works(buf_append_str(&b, "reused", &e), &e);
}

static void test_quoted(void **state)
{
    auto_buf struct buf b = BUF_INIT(64);
    struct err e = ERR_INIT;

    (void)state;
    assert_works(buf_append_quoted(&b, "\"", "", &e), &e);
    assert_works(buf_append_quoted(&b, "\"", "a\"b'c\"", &e), &e);
    assert_works(buf_append_quoted(&b, "'", "it's \\ \"so\"", &e), &e);
    assert_works(buf_append_quoted(&b, "'\\", "'\\x", &e), &e);
    assert_string_equal(buf_cstr(&b), "\"\"\"a\"\"b'c\"\"\"'it''s \\ \"so\"''''\\\\x'");
    assert_int_equal(buf_append_quoted(&b, "'", "0123456789012345678901234567890123456789", &e),
                     -ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_size_overflow), cmocka_unit_test(test_growth),
        cmocka_unit_test(test_consume),       cmocka_unit_test(test_take),
        cmocka_unit_test(test_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
