/* Arenas: alignment, zeroing, the maximum, reuse. */

#include "base/arena.h"
#include "check.h"

static void test_alloc(void **state)
{
    auto_arena struct arena a;
    char *before = NULL;

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t size = 0; size < 300; size++) {
        char *p = arena_alloc(&a, size);

        assert_non_null(p);
        assert_ptr_not_equal(p, before);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
        before = p;
    }
}

static void test_maximum(void **state)
{
    auto_arena struct arena a;

    (void)state;
    arena_init(&a, 1000);
    assert_null(arena_alloc(&a, 1001));
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 8));
    assert_non_null(arena_alloc(&a, 900));
    assert_null(arena_alloc(&a, 101));
    assert_null(arena_strdup(
        &a, "this text has well over one hundred characters, because an arena that is nearly "
            "full must refuse to copy it"));
    assert_non_null(arena_alloc(&a, 16));
    arena_clear(&a);
    assert_int_equal(a.used_bytes, 0);
    assert_non_null(arena_alloc(&a, 1000));
}

static void test_clear_zeroes(void **state)
{
    auto_arena struct arena a;
    char *p;

    (void)state;
    arena_init(&a, 1 << 20);
    arena_clear(&a);
    memset(arena_alloc(&a, 64), 0xff, 64);
    assert_non_null(arena_alloc(&a, 100000)); /* a block to itself */
    assert_non_null(arena_alloc(&a, 100000));
    arena_clear(&a);
    p = arena_alloc(&a, 64);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(p[i], 0);
}

/* A large allocation does not end the use of the block at hand. */
static void test_large_keeps_head(void **state)
{
    auto_arena struct arena a;
    char *first, *second;

    (void)state;
    arena_init(&a, 1 << 20);
    first = arena_alloc(&a, 16);
    assert_non_null(arena_alloc(&a, 50000));
    second = arena_alloc(&a, 16);
    assert_ptr_equal(second, first + 16);
}

static void test_strings(void **state)
{
    auto_arena struct arena a;

    (void)state;
    arena_init(&a, 1 << 20);
    assert_string_equal(arena_strdup(&a, "héllo"), "héllo");
    assert_string_equal(arena_strndup(&a, "hello", 3), "hel");
    assert_string_equal(arena_strndup(&a, "hi", 10), "hi");
    assert_string_equal(arena_printf(&a, "%s=%d", "n", 7), "n=7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_clear_zeroes),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_large_keeps_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
