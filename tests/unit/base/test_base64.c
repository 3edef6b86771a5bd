/* Base64: known answers of RFC 4648, all lengths there and back, and everything that is not it. */

#include "base/check.h"

#include "base/base64.h"

static void test_known(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *text;
    } known[] = { { "", "" },
                  { "f", "Zg==" },
                  { "fo", "Zm8=" },
                  { "foo", "Zm9v" },
                  { "foob", "Zm9vYg==" },
                  { "fooba", "Zm9vYmE=" },
                  { "foobar", "Zm9vYmFy" },
                  { "\xfb\xff\xfe", "+//+" } };
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        struct err err;
        auto_buf struct buf there = BUF_INIT(100), back = BUF_INIT(100);
        assert_works(base64_encode(known[i].plain, strlen(known[i].plain), &there, &err), &err);
        assert_string_equal(buf_cstr(&there), known[i].text);
        assert_works(base64_decode(there.data, there.len, &back, &err), &err);
        assert_string_equal(buf_cstr(&back), known[i].plain);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    static unsigned char data[8000];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (size_t len = 0; len <= sizeof(data); len += len < 20 ? 1 : 997) {
        struct err err;
        auto_buf struct buf there = BUF_INIT(20000), back = BUF_INIT(20000);
        assert_works(buf_append_str(&back, "kept", &err), &err);
        assert_works(base64_encode(data, len, &there, &err), &err);
        assert_int_equal(there.len, (len + 2) / 3 * 4);
        assert_works(base64_decode(there.data, there.len, &back, &err), &err);
        assert_int_equal(back.len, len + 4);
        assert_memory_equal(back.data, "kept", 4);
        if (len)
            assert_memory_equal(back.data + 4, data, len);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",   "Zg===",      "=",      "====",
        "Zh==", "Zm9=", "Z===",  "Zg==Zg==",   "Zm9v\n", " Zg==",
        "Zm-v", "Zm_v", "Zm9v=", "Z\xc3\xa9v", "Zm=v",   "Zm9vZm9vZm9vZm9!"
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err err;
        auto_buf struct buf b = BUF_INIT(100);
        assert_works(buf_append_str(&b, "kept", &err), &err);
        assert_fails(base64_decode(bad[i], strlen(bad[i]), &b, &err), &err, ERR_VALIDATION,
                     "not valid base64");
        assert_string_equal(buf_cstr(&b), "kept");
    }
}

static void test_limit(void **state)
{
    (void)state;
    struct err err = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(7);
    assert_int_equal(base64_encode("123456", 6, &b, &err), -ERR_TOO_LARGE);
    assert_int_equal(base64_decode("QUFBQUFBQUFBQUFB", 16, &b, &err), -ERR_TOO_LARGE);
    assert_int_equal(b.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
