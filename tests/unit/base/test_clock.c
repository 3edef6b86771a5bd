/* Clocks: they go forward, and wall time is written as ISO 8601. */

#include "base/clock.h"
#include "check.h"

static void test_now(void **state)
{
    int64_t us = clock_now_us(), ms = clock_now_ms();

    (void)state;
    assert_true(clock_now_us() >= us);
    assert_true(clock_now_ms() >= ms);
    assert_true(ms >= us / 1000 && ms - us / 1000 < 60000); /* one clock, two units */
    assert_true(clock_wall_ms() > 1700000000000);
}

static void test_iso8601(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        { 0, "1970-01-01T00:00:00.000+00:00" },
        { 1769860800123, "2026-01-31T12:00:00.123+00:00" },
        { 1709164800000, "2024-02-29T00:00:00.000+00:00" },
        { -1, "1969-12-31T23:59:59.999+00:00" },
        { -1000, "1969-12-31T23:59:59.000+00:00" },
        { 253402300799999, "9999-12-31T23:59:59.999+00:00" },
    };
    char text[CLOCK_ISO_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        clock_iso8601(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
    clock_iso8601(INT64_MAX, text);
    assert_int_equal(strlen(text), 29); /* bounded, whatever it is given */
    clock_iso8601(INT64_MIN, text);
    assert_int_equal(strlen(text), 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_now),
                                        cmocka_unit_test(test_iso8601) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
