/* The arranged memory of a zygote: fewer mappings, the same content. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/maps.h"
#include "kernel/zygote/memory.h"

/* The mappings of the C library, and the sum of the bytes in all of them that can be read. */
static size_t look_at_libc(uint64_t *ret_sum)
{
    static struct maps maps;
    struct maps_entry m;
    size_t n = 0;
    *ret_sum = 0;
    assert_true(maps_open(&maps, "/proc"));
    while (maps_next(&maps, &m)) {
        if (!strstr(m.path, "/libc.so"))
            continue;
        n++;
        if (m.perms[0] == 'r' && m.perms[1] != 'w') /* variables change meanwhile */
            for (const char *p = (const char *)m.from; p < (const char *)m.to; p += 64)
                *ret_sum += (unsigned char)*p;
    }
    maps_close(&maps);
    return n;
}

/*
 * What was read-only data stays readable, code stays code, and neighbours have become one mapping.
 */
static void test_libraries_are_joined(void **state)
{
    (void)state;
    uint64_t before, after;
    size_t was = look_at_libc(&before);
    assert_true(was >= 4);
    memory_join_libraries();
    assert_int_equal(look_at_libc(&after), 2);
    assert_true(after <= before &&
                after > before / 2); /* the relocated part now counts as variables */
    memory_join_libraries();         /* nothing is left to do */
    assert_int_equal(look_at_libc(&after), 2);
    char text[32];
    snprintf(text, sizeof(text), "%.2f", strtod("2.5", NULL));
    assert_string_equal(text, "2.50");
}

static void test_heap_keeps_its_content(void **state)
{
    (void)state;
    const size_t n = 8u << 20;
    unsigned char *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 7 >> 3);
    memory_fill_gaps();
    memory_collapse();
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], (unsigned char)(i * 7 >> 3));
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libraries_are_joined),
        cmocka_unit_test(test_heap_keeps_its_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
