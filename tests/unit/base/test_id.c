/* Random identifiers: their form, and that they differ. */

#include "base/id.h"
#include "check.h"

static void test_uuid4(void **state)
{
    char a[ID_UUID_SIZE], b[ID_UUID_SIZE];

    (void)state;
    id_uuid4(b);
    for (int round = 0; round < 100; round++) {
        id_uuid4(a);
        assert_int_equal(strlen(a), 36);
        for (size_t i = 0; i < 36; i++) {
            if (i == 8 || i == 13 || i == 18 || i == 23)
                assert_int_equal(a[i], '-');
            else
                assert_non_null(memchr("0123456789abcdef", a[i], 16));
        }
        assert_int_equal(a[14], '4');
        assert_non_null(memchr("89ab", a[19], 4));
        assert_string_not_equal(a, b);
        memcpy(b, a, sizeof(a));
    }
}

static void test_hex(void **state)
{
    char a[201], b[33];

    (void)state;
    for (size_t n = 0; n <= 200; n++) {
        memset(a, 'x', sizeof(a));
        id_hex(a, n);
        assert_int_equal(strlen(a), n);
        assert_int_equal(strspn(a, "0123456789abcdef"), n);
    }
    id_hex(a, 32);
    id_hex(b, 32);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_uuid4), cmocka_unit_test(test_hex) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
